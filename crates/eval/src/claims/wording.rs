//! Claims without a model: a question and its answer as one sentence, and a sentence in other words.
//!
//! English alone, by rules; what they do not cover makes no claim. The sentences are plain and now and then clumsy,
//! as a small model's are. They are made to be judged, not to be read.

const BE: [&str; 4] = ["is", "are", "was", "were"];
const DO: [&str; 3] = ["do", "does", "did"];
const OTHER_AUXILIARIES: [&str; 11] =
    ["has", "have", "had", "can", "could", "will", "would", "should", "may", "might", "must"];
const PREPOSITIONS: [&str; 22] = [
    "in", "on", "at", "to", "from", "by", "for", "with", "of", "under", "through", "during",
    "into", "about", "between", "among", "after", "before", "since", "against", "near", "within",
];

/// Past forms of verbs that questions often have and that do not end in "ed".
const PAST: [(&str, &str); 42] = [
    ("become", "became"),
    ("begin", "began"),
    ("bring", "brought"),
    ("build", "built"),
    ("buy", "bought"),
    ("choose", "chose"),
    ("come", "came"),
    ("draw", "drew"),
    ("fall", "fell"),
    ("feel", "felt"),
    ("fight", "fought"),
    ("find", "found"),
    ("get", "got"),
    ("give", "gave"),
    ("go", "went"),
    ("grow", "grew"),
    ("have", "had"),
    ("hold", "held"),
    ("keep", "kept"),
    ("know", "knew"),
    ("lead", "led"),
    ("leave", "left"),
    ("lose", "lost"),
    ("make", "made"),
    ("mean", "meant"),
    ("meet", "met"),
    ("pay", "paid"),
    ("rise", "rose"),
    ("run", "ran"),
    ("say", "said"),
    ("see", "saw"),
    ("sell", "sold"),
    ("send", "sent"),
    ("speak", "spoke"),
    ("spend", "spent"),
    ("take", "took"),
    ("teach", "taught"),
    ("tell", "told"),
    ("think", "thought"),
    ("throw", "threw"),
    ("win", "won"),
    ("write", "wrote"),
];
const PARTICIPLES: [&str; 34] = [
    "known", "born", "built", "made", "held", "found", "given", "taken", "written", "won", "led",
    "lost", "sold", "sent", "seen", "shown", "said", "set", "put", "begun", "become", "chosen",
    "drawn", "driven", "fought", "grown", "kept", "left", "paid", "spoken", "spent", "taught",
    "thought", "broken",
];

/// `question` and `answer` as a statement; `passage` tells forms of verbs.
pub(super) fn statement(question: &str, answer: &str, passage: &str) -> Option<String> {
    let question = question.trim().trim_end_matches(['?', '.', ' ']);
    let answer = answer.trim().trim_end_matches(['.', ',']);
    let words: Vec<&str> = question.split_whitespace().collect();
    let lower: Vec<String> = words.iter().map(|it| it.to_lowercase()).collect();
    let wh = lower.iter().position(|it| {
        matches!(
            it.trim_end_matches("'s"),
            "what" | "which" | "who" | "whom" | "when" | "where" | "why" | "how"
        )
    })?;
    if words.len() - wh < 3 || lower[wh].ends_with("'s") || answer.is_empty() {
        return in_place(&words, wh, answer);
    }
    let is_preposition = |it: &str| PREPOSITIONS.contains(&it);
    let before = (wh > 0 && is_preposition(&lower[wh - 1])).then(|| lower[wh - 1].clone());
    let lead = &words[..wh - usize::from(before.is_some())];
    if !lead.is_empty() && !lead.last().is_some_and(|it| it.ends_with(',')) {
        return in_place(&words, wh, answer);
    }
    let is_auxiliary = |it: &String| {
        let it = it.as_str();
        BE.contains(&it) || DO.contains(&it) || OTHER_AUXILIARIES.contains(&it)
    };
    let looks_like_verb = |it: &str| it.ends_with("ed") || PAST.iter().any(|verb| verb.1 == it);
    let auxiliary = (wh + 1..lower.len().min(wh + 7)).find(|&it| is_auxiliary(&lower[it]));
    let early = (wh + 1..lower.len().min(wh + 5)).find(|&it| looks_like_verb(&lower[it]));
    let said = match (auxiliary, early) {
        // "Who founded X": the answer is the subject.
        (None, Some(verb)) => join(&[answer], &words[verb..]),
        (Some(auxiliary), Some(verb)) if verb < auxiliary => join(&[answer], &words[verb..]),
        (None, None) if lower[wh] == "who" => join(&[answer], &words[wh + 1..]),
        (None, None) => return None,
        (Some(auxiliary), _) => {
            let noun = &words[wh + 1..auxiliary];
            around(&words, &lower, wh, auxiliary, noun, before.as_deref(), answer, passage)?
        }
    };
    let mut sentence = join(lead, &[&said]);
    sentence[..1].make_ascii_uppercase();
    Some(format!("{sentence}."))
}

/// The parts of a question around its auxiliary, put in the order of a statement.
#[allow(clippy::too_many_arguments, reason = "the parts of one sentence")]
fn around(
    words: &[&str],
    lower: &[String],
    wh: usize,
    auxiliary: usize,
    noun: &[&str],
    before: Option<&str>,
    answer: &str,
    passage: &str,
) -> Option<String> {
    let rest = &words[auxiliary + 1..];
    if rest.is_empty() {
        return None;
    }
    let verb = words[auxiliary];
    let counted =
        if lower[wh] == "how" && matches!(noun, ["many" | "much", ..]) && !answer.contains(' ') {
            join(&[answer], &noun[1..])
        } else {
            answer.to_owned()
        };
    let placed = placed(&lower[wh], before, rest, &counted);
    if DO.contains(&lower[auxiliary].as_str()) {
        let rest: Vec<String> = rest
            .iter()
            .enumerate()
            .map(
                |(place, it)| {
                    if place > 0 && verb == "did" { past(it, passage) } else { (*it).to_owned() }
                },
            )
            .collect();
        let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
        return Some(join(&rest, &[&placed]));
    }
    let is_participle = |it: &&str| it.ends_with("ed") || PARTICIPLES.contains(it);
    let participle =
        rest.iter().position(|it| is_participle(it) || (it.ends_with("ing") && it.len() > 5));
    match participle {
        // "What is used to …", "which actor was cast as …": the answer is the subject.
        Some(0) => Some(join(&[&counted, verb], rest)),
        Some(at)
            if !matches!(lower[wh].as_str(), "who" | "what")
                || !noun.is_empty()
                || at + 1 == rest.len() =>
        {
            Some(join(&[&rest[..at].join(" "), verb], &[&rest[at..].join(" "), &placed]))
        }
        _ if BE.contains(&lower[auxiliary].as_str()) => {
            Some(join(&[&rest.join(" "), verb], &[&placed]))
        }
        _ => None,
    }
}

/// The answer with the preposition that it needs at the end of the sentence.
fn placed(wh: &str, before: Option<&str>, rest: &[&str], answer: &str) -> String {
    let first = answer.split_whitespace().next().unwrap_or("").to_lowercase();
    let has_one = PREPOSITIONS.contains(&first.as_str())
        || rest.last().is_some_and(|it| PREPOSITIONS.contains(it))
        || ["because", "due", "when", "as"].contains(&first.as_str());
    match (before, wh) {
        _ if has_one => answer.to_owned(),
        (Some(before), _) => format!("{before} {answer}"),
        (None, "when" | "where") => format!("in {answer}"),
        (None, "why") => format!("because of {answer}"),
        _ => answer.to_owned(),
    }
}

/// The answer in the place of a question word that does not begin its question.
fn in_place(words: &[&str], wh: usize, answer: &str) -> Option<String> {
    // "The Normans came from what region": what follows the question word is its noun.
    if wh < 2 || words.len() - wh > 3 || answer.is_empty() {
        return None;
    }
    let mut sentence = join(&words[..wh], &[answer]);
    sentence.get_mut(..1)?.make_ascii_uppercase();
    Some(format!("{sentence}."))
}

/// The past form of `verb` where it is one: irregular ones from a list, others where the passage has them.
fn past(verb: &str, passage: &str) -> String {
    if let Some((_, past)) = PAST.iter().find(|it| it.0 == verb) {
        return (*past).to_owned();
    }
    let forms = [format!("{verb}ed"), format!("{verb}d")];
    let is_word =
        |form: &String| passage.split(|c: char| !c.is_alphanumeric()).any(|it| it == form);
    forms.into_iter().find(is_word).unwrap_or_else(|| verb.to_owned())
}

fn join(head: &[&str], tail: &[&str]) -> String {
    head.iter().chain(tail).filter(|it| !it.is_empty()).copied().collect::<Vec<_>>().join(" ")
}

/// Words that can stand for others wherever they stand.
const OTHER_WORDS: [(&str, &str); 36] = [
    ("began", "started"),
    ("begin", "start"),
    ("approximately", "about"),
    ("located", "situated"),
    ("because", "since"),
    ("many", "numerous"),
    ("large", "big"),
    ("used", "employed"),
    ("called", "named"),
    ("during", "in the course of"),
    ("built", "constructed"),
    ("several", "a number of"),
    ("however", "though"),
    ("often", "frequently"),
    ("near", "close to"),
    ("largest", "biggest"),
    ("main", "chief"),
    ("important", "significant"),
    ("create", "make"),
    ("created", "made"),
    ("received", "got"),
    ("around", "about"),
    ("also", "as well"),
    ("entire", "whole"),
    ("throughout", "all over"),
    ("within", "inside"),
    ("people", "persons"),
    ("while", "whereas"),
    ("became", "turned into"),
    ("including", "among them"),
    ("although", "though"),
    ("city", "town"),
    ("established", "founded"),
    ("major", "big"),
    ("various", "different"),
    ("won", "gained"),
];

/// A sentence with what stands in brackets removed, its opening phrase at its end, and some words exchanged; `None`
/// where nothing of that could be done.
pub(super) fn reworded(sentence: &str) -> Option<String> {
    let mut text = String::new();
    let mut depth = 0_u32;
    for c in sentence.trim().chars() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            _ if depth == 0 => text.push(c),
            _ => {}
        }
    }
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ").replace(" ,", ",");
    let text = text.trim_end_matches(['.', ' ']);
    let exchanged: Vec<&str> = text
        .split(' ')
        .map(|word| OTHER_WORDS.iter().find(|it| it.0 == word).map_or(word, |it| it.1))
        .collect();
    let text = exchanged.join(" ");
    let moved = match text.split_once(", ") {
        Some((phrase, rest))
            if phrase.split(' ').count() <= 6
                && rest.split(' ').count() > 4
                && !rest.contains(" and ") =>
        {
            let mut phrase = phrase.to_owned();
            let first = phrase.split(' ').next().unwrap_or("").to_lowercase();
            if PREPOSITIONS.contains(&first.as_str()) {
                phrase[..1].make_ascii_lowercase();
            }
            format!("{rest}, {phrase}")
        }
        _ => text,
    };
    let mut sentence_again = moved;
    sentence_again.get_mut(..1)?.make_ascii_uppercase();
    sentence_again.push('.');
    let same =
        |it: &str| it.chars().filter(|it| it.is_alphanumeric()).collect::<String>().to_lowercase();
    (!same(sentence).contains(&same(&sentence_again))).then_some(sentence_again)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_become_statements() {
        for (question, answer, said) in [
            ("In what country is Normandy located?", "France", "Normandy is located in France."),
            ("Who founded the club?", "Ada", "Ada founded the club."),
            ("When was the duchy founded?", "911", "The duchy was founded in 911."),
            ("What shape are pyrenoids?", "round", "Pyrenoids are round."),
            ("What is used to pump water?", "steam", "Steam is used to pump water."),
            ("Who was the Norse leader?", "Rollo", "The Norse leader was Rollo."),
            ("When did Ada leave the club?", "1932", "Ada left the club in 1932."),
            ("How many points did they score?", "24", "They score 24 points."),
            ("The Normans came from what region?", "Norway", "The Normans came from Norway."),
            ("After 1931, who led the club?", "Ada", "After 1931, Ada led the club."),
            (
                "Which team won the title that was open?",
                "Denver",
                "Denver won the title that was open.",
            ),
        ] {
            assert_eq!(statement(question, answer, "").as_deref(), Some(said), "{question}");
        }
        for question in ["", "Name it.", "What?", "What can a boat do?"] {
            assert_eq!(statement(question, "it", ""), None, "{question}");
        }
    }

    #[test]
    fn sentences_are_said_in_other_words() {
        assert_eq!(
            reworded("In 1931, the boat (a yawl) began its first voyage north.").as_deref(),
            Some("The boat started its first voyage north, in 1931.")
        );
        assert_eq!(reworded("It is blue."), None);
    }
}
