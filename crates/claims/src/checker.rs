//! Every sentence of an answer is checked against the passages it cites while the answer is being written; numbers that
//! point nowhere are removed, and a sentence that cites nothing is given the passage that says it, if one does: small
//! models tend to leave the numbers out.

use std::ops::ControlFlow;

use riddle_types::{Passage, StageError};

use crate::{
    judge::{ClaimJudge, ClaimPassage, nearest},
    statements::{Part, Statement, Statements, replace_marks, statements},
    verdict::{Support, Verdict},
};

/// Characters of an answer that hold nothing but one piece again and again before it is stopped.
const REPEATED_CHARS: usize = 120;

/// How often that piece stands there at least.
const REPEATED_TIMES: usize = 3;

/// The answer without citation marks that point to no passage, and the numbers it does cite, in order of first use.
pub fn clean_citations(answer: &str, passages: &[Passage]) -> (String, Vec<u32>) {
    let mut used = Vec::new();
    let cleaned = replace_marks(answer, &mut |numbers| {
        let known =
            numbers.iter().filter(|it| passages.iter().any(|passage| passage.number == **it));
        let mut marks = String::new();
        for number in known {
            marks.push_str(&format!("[{number}]"));
            if !used.contains(number) {
                used.push(*number);
            }
        }
        marks
    });
    (cleaned, used)
}

/// The answer with other numbers in its citation marks: what `number` gives for each; those that it gives none for are
/// left out.
pub fn renumbered(answer: &str, number: &dyn Fn(u32) -> Option<u32>) -> String {
    replace_marks(answer, &mut |numbers| {
        numbers.iter().filter_map(|it| number(*it)).map(|it| format!("[{it}]")).collect()
    })
}

/// Checks the statements of an answer, each once.
#[derive(Debug)]
pub struct Checker<'a> {
    judge: ClaimJudge,
    question: &'a str,
    passages: Vec<ClaimPassage>,
    known: Vec<(Statement, Support)>,
}

impl<'a> Checker<'a> {
    /// Holds the answer to `question` against `passages`, with `judge`.
    pub fn new(judge: ClaimJudge, question: &'a str, passages: Vec<ClaimPassage>) -> Checker<'a> {
        Checker { judge, question, passages, known: Vec::new() }
    }

    fn check(&mut self, statement: &Statement) -> Result<Support, StageError> {
        if let Some((_, support)) = self.known.iter().find(|it| it.0 == *statement) {
            return Ok(support.clone());
        }
        let find = |number: &u32| self.passages.iter().find(|it| it.number == *number);
        let mut held: Vec<&ClaimPassage> = statement.numbers.iter().filter_map(find).collect();
        let cites = !held.is_empty();
        if !cites {
            held.extend(nearest(&statement.text, &self.passages));
        }
        let features = self.judge.weigh(self.question, &statement.text, &held, false)?;
        let (score, verdict) = features.verdict();
        let is_there = cites || verdict != Verdict::Unsupported;
        let support = Support {
            sentence: statement.text.clone(),
            citation: features.citation.filter(|_| is_there),
            citations: held.iter().filter(|_| is_there).map(|it| it.number).collect(),
            score,
            verdict,
        };
        self.known.push((statement.clone(), support.clone()));
        if !cites && is_there {
            // So it reads once its mark stands behind it.
            let numbers = support.citations.clone();
            self.known.push((Statement { numbers, ..statement.clone() }, support.clone()));
        }
        Ok(support)
    }

    /// The mark of the passage that says a statement which cites none.
    fn mark(&self, statement: &Statement, support: &Support) -> Option<String> {
        let cites = |it: &u32| self.passages.iter().any(|passage| passage.number == *it);
        let number = support.citation.filter(|_| !statement.numbers.iter().any(cites))?;
        Some(format!(" [{number}]"))
    }

    /// All statements of the finished answer; those that were checked while it was written are not checked again.
    ///
    /// # Errors
    /// When a model can not be run.
    pub fn all(&mut self, answer: &str) -> Result<Vec<Support>, StageError> {
        statements(answer).iter().map(|it| self.check(it)).collect()
    }
}

/// What is told of an answer while it is being written.
#[derive(Debug, Clone, Copy)]
pub enum Told<'a> {
    /// More of the answer; empty while a model is waited for.
    Piece(&'a str),
    /// The pieces since the one before are this sentence, and have been held against what it cites.
    Checked(&'a Support),
}

/// Hands a stream on to an observer, with a verdict behind every statement.
pub struct Live<'a, 'b> {
    /// `None`: the pieces are quotations, each with its number.
    checker: Option<&'a mut Checker<'b>>,
    observer: &'a mut dyn FnMut(Told<'_>) -> ControlFlow<()>,
    cutter: Statements,
    said: Said,
    failure: Option<StageError>,
}

/// What has been handed on.
#[derive(Debug, Default, PartialEq)]
pub struct Said {
    /// All words, with the marks that were added; what a model repeated at its end is cut off.
    pub text: String,
    /// The quotations, where it was of those.
    pub quoted: Vec<Support>,
    /// It was stopped because it said the same again and again.
    pub repeats: bool,
}

impl<'a, 'b> Live<'a, 'b> {
    /// Tells `observer`; without a `checker` the pieces are quotations, each with its number.
    pub fn new(
        checker: Option<&'a mut Checker<'b>>,
        observer: &'a mut dyn FnMut(Told<'_>) -> ControlFlow<()>,
    ) -> Live<'a, 'b> {
        let cutter = Statements::default();
        Live { checker, observer, cutter, said: Said::default(), failure: None }
    }

    /// Takes a piece of the answer, of any size; `Break`: nothing more is wanted.
    pub fn push(&mut self, piece: &str) -> ControlFlow<()> {
        // A model that is waited for; whoever watches may stop it.
        if piece.is_empty() {
            return (self.observer)(Told::Piece(piece));
        }
        if self.checker.is_none() {
            self.said.text.push_str(piece);
            (self.observer)(Told::Piece(piece))?;
            let support = quotation(piece);
            let said = (self.observer)(Told::Checked(&support));
            self.said.quoted.push(support);
            return said;
        }
        self.cut(Some(piece))?;
        self.said.repeats = repeats(&self.said.text);
        if self.said.repeats { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// The stream is over: what was held back is handed on.
    ///
    /// # Errors
    /// When a model could not be run.
    pub fn end(mut self) -> Result<Said, StageError> {
        if self.said.repeats {
            self.said.text = once(&self.said.text);
        } else {
            // Nothing is left to be stopped.
            let _ = self.cut(None);
        }
        self.failure.map_or(Ok(self.said), Err)
    }

    fn cut(&mut self, piece: Option<&str>) -> ControlFlow<()> {
        let Live { checker, observer, cutter, said, failure } = self;
        let Some(checker) = checker else { return ControlFlow::Continue(()) };
        let mut tell = |event: Told<'_>| match observer(event) {
            // What there is at the end is told to the end.
            ControlFlow::Break(()) if piece.is_some() => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        };
        let mut sink = |part: Part<'_>| match part {
            Part::Text(text) => {
                said.text.push_str(text);
                tell(Told::Piece(text))
            }
            Part::Done(statement) => match checker.check(&statement) {
                Ok(support) => {
                    if let Some(mark) = checker.mark(&statement, &support) {
                        said.text.push_str(&mark);
                        tell(Told::Piece(&mark))?;
                    }
                    tell(Told::Checked(&support))
                }
                Err(error) => {
                    *failure = Some(error);
                    ControlFlow::Break(())
                }
            },
        };
        match piece {
            Some(piece) => cutter.push(piece, &mut sink),
            None => cutter.end(&mut sink),
        }
    }
}

/// Whether a text ends in nothing but the same piece again and again, as small models do that have lost the thread.
/// Some of them count on meanwhile: what is cited does not make it another piece.
fn repeats(text: &str) -> bool {
    let is_periodic = |it: &str| period(it.as_bytes()).is_some();
    is_periodic(text) || is_periodic(&replace_marks(text, &mut |_| String::new()))
}

/// Length of the shortest piece that the text's end repeats often enough, and at length.
fn period(bytes: &[u8]) -> Option<usize> {
    // Where the last few bytes stood before; every period is one of these distances.
    (1..=bytes.len() / REPEATED_TIMES).find(|period| {
        let length = (period * REPEATED_TIMES).max(REPEATED_CHARS);
        let Some(start) = bytes.len().checked_sub(length) else { return false };
        bytes[start + period..] == bytes[start..bytes.len() - period]
    })
}

/// A text that repeats itself at its end, with what it repeats said once.
fn once(text: &str) -> String {
    let (mut seen, mut kept, mut at) = (Vec::<Statement>::new(), 0, 0);
    let mut sink = |part: Part<'_>| {
        match part {
            Part::Text(text) => at += text.len(),
            Part::Done(statement) => {
                // The last one may have been cut off in its middle.
                if !seen.iter().any(|it| it.text.starts_with(&statement.text)) {
                    kept = at;
                    seen.push(statement);
                }
            }
        }
        ControlFlow::Continue(())
    };
    let mut cutter = Statements::default();
    let _ = cutter.push(text, &mut sink);
    let _ = cutter.end(&mut sink);
    let kept = &text[..kept];
    let bytes = kept.as_bytes();
    let Some(period) = period(bytes) else { return kept.to_owned() };
    // One sentence without an end.
    let same = bytes
        .iter()
        .rev()
        .zip(bytes[..bytes.len() - period].iter().rev())
        .take_while(|it| it.0 == it.1)
        .count();
    kept[..kept.ceil_char_boundary(kept.len() - same)].to_owned()
}

/// A piece of an extractive answer: a sentence of a passage with its number, and supported by that.
fn quotation(piece: &str) -> Support {
    let (sentence, mark) = piece.rsplit_once(" [").unwrap_or((piece, ""));
    Support::quotation(sentence.trim().to_owned(), mark.trim_end_matches(']').parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passages() -> Vec<Passage> {
        vec![
            Passage {
                number: 1,
                text: "The boat is blue. It was built in 1931.".to_owned(),
                chunk: None,
            },
            Passage { number: 2, text: "Bread rises overnight.".to_owned(), chunk: None },
        ]
    }

    fn checker() -> Checker<'static> {
        let of =
            |it: Passage| ClaimPassage { number: it.number, context: String::new(), text: it.text };
        Checker::new(
            ClaimJudge::new(None, None),
            "When was it built?",
            passages().into_iter().map(of).collect(),
        )
    }

    #[test]
    fn numbers_that_point_nowhere_are_removed() {
        let (text, used) = clean_citations("Blue [1] [7]. Array[0] stays [x]. [2, 9]", &passages());
        assert_eq!(text, "Blue [1]. Array stays [x]. [2]");
        assert_eq!(used, [1, 2]);
    }

    #[test]
    fn verbatim_words_are_supported_and_others_are_not() {
        let checked = checker()
            .all("It was built in 1931. [1] Bread is made of wood. [2][9] Nobody said this.")
            .expect("no model, no failure");
        let found: Vec<_> =
            checked.iter().map(|it| (it.citation, it.citations.clone(), it.verdict)).collect();
        assert_eq!(
            found,
            [
                (Some(1), vec![1], Verdict::Supported),
                (Some(2), vec![2], Verdict::Unsupported),
                (None, vec![], Verdict::Unsupported)
            ]
        );
        assert_eq!((checked[0].score, checked[2].score), (1.0, 0.0));
    }

    #[test]
    fn several_marks_belong_to_one_statement() {
        let checked = checker().all("Bread rises overnight. [1][2]").expect("no model");
        assert_eq!(checked.len(), 1);
        assert_eq!((checked[0].citation, &checked[0].citations[..]), (Some(2), &[1, 2][..]));
    }

    /// What an observer is told, sentences in brackets with the first letter of their verdict.
    fn told(checker: Option<&mut Checker<'_>>, pieces: &[&str]) -> (String, Said) {
        let mut told = String::new();
        let mut observer = |event: Told<'_>| {
            match event {
                Told::Piece(text) => told.push_str(text),
                Told::Checked(it) => {
                    told.push_str(&format!("<{}>", &format!("{:?}", it.verdict)[..1]));
                }
            }
            ControlFlow::Continue(())
        };
        let mut live = Live::new(checker, &mut observer);
        for piece in pieces {
            if live.push(piece).is_break() {
                break;
            }
        }
        let said = live.end().expect("no model");
        (told, said)
    }

    #[test]
    fn a_verdict_stands_behind_its_very_sentence() {
        let mut checker = checker();
        let pieces =
            ["It was built", " in 1931", ". ", "", "[1", "] It fl", "ies [2]. So", " it is"];
        let (told, said) = told(Some(&mut checker), &pieces);
        assert_eq!(told, "It was built in 1931. [1]<S> It flies [2].<U> So it is<U>");
        assert_eq!(said.text, "It was built in 1931. [1] It flies [2]. So it is");
        assert_eq!((said.quoted, said.repeats), (vec![], false));
        assert_eq!(checker.known.len(), 3);
        let all = checker.all("It was built in 1931. [1] It flies [2]. So it is").expect("known");
        assert_eq!((all.len(), checker.known.len()), (3, 3));
    }

    #[test]
    fn what_cites_nothing_gets_the_mark_of_the_passage_that_says_it() {
        let mut checker = checker();
        let pieces =
            ["Bread rises over", "night. It flies. The boat is blue [9]. Bread", " rises."];
        let (told, said) = told(Some(&mut checker), &pieces);
        let expected =
            "Bread rises overnight. [2] It flies. The boat is blue [9]. [1] Bread rises. [2]";
        assert_eq!(said.text, expected);
        assert_eq!(
            told,
            "Bread rises overnight. [2]<S> It flies.<U> The boat is blue [9]. [1]<S> Bread rises. [2]<S>"
        );
        let (cleaned, used) = clean_citations(&said.text, &passages());
        assert_eq!(
            cleaned,
            "Bread rises overnight. [2] It flies. The boat is blue. [1] Bread rises. [2]"
        );
        assert_eq!(used, [2, 1]);
        let all = checker.all(&cleaned).expect("no model");
        let found: Vec<_> = all.iter().map(|it| it.citation).collect();
        assert_eq!(found, [Some(2), None, Some(1), Some(2)]);
    }

    #[test]
    fn a_model_that_repeats_itself_is_stopped_and_what_it_said_stands_once() {
        let mut pieces = vec!["Bread rises overnight. [2] ", "It was so. "];
        pieces.extend(["It sank in a ", "storm. "].repeat(40));
        let (told, said) = told(Some(&mut checker()), &pieces);
        assert!(said.repeats);
        assert!(told.len() < 400, "{told}");
        assert_eq!(
            said.text.trim_end(),
            "Bread rises overnight. [2] It was so. It sank in a storm."
        );
        // Two sentences in turn, stopped in the middle of one.
        let turns = "A is B, or so he says. C is not D, says she. ".repeat(4) + "A is B, or";
        assert!(repeats(&turns));
        assert_eq!(once(&turns).trim_end(), "A is B, or so he says. C is not D, says she.");
        // The same, with another number each time.
        let counted: String =
            (1..8).map(|it| format!("The passage is:\n[{it}] Bread rises overnight.\n")).collect();
        assert!(repeats(&counted));
        assert_eq!(once(&counted).trim_end(), "The passage is:\n[1] Bread rises overnight.");
        // A sentence without an end, in letters of several bytes.
        let endless = "Es war ".to_owned() + &"große, ".repeat(40);
        assert!(repeats(&endless));
        assert_eq!(once(&endless), "Es war große,");
        // What is repeated ends in a small repetition of its own.
        assert_eq!(
            once(&"Hm, it went on and on and on and on!!!!".repeat(8)),
            "Hm, it went on and on and on and on!!!!"
        );
    }

    #[test]
    fn what_is_said_often_is_not_what_is_repeated() {
        let list: String = (1..60).map(|it| format!("- item {it} is blue\n")).collect();
        for text in ["", "No. No. No.", "Yes, yes, yes, yes, and yes.", &list] {
            assert!(!repeats(text), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_repetition_is_found(start in "\\PC{0,80}", unit in "\\PC{1,60}", rest in 0usize..60) {
            let unit_chars: Vec<char> = unit.chars().collect();
            let end: String = unit_chars[..rest.min(unit_chars.len())].iter().collect();
            let text = start + &unit.repeat(REPEATED_CHARS.div_ceil(unit.len()).max(3)) + &end;
            proptest::prop_assert!(repeats(&text));
            let once = once(&text);
            proptest::prop_assert!(text.starts_with(&once));
            proptest::prop_assert!(once.len() < text.len());
        }
    }

    #[test]
    fn quotations_are_supported_whatever_is_in_them() {
        let (told, said) = told(None, &["He said [3]. E.g. \"no. [7]\" [1]", " Blue [2]"]);
        assert_eq!(told, "He said [3]. E.g. \"no. [7]\" [1]<S> Blue [2]<S>");
        assert_eq!(said.text, "He said [3]. E.g. \"no. [7]\" [1] Blue [2]");
        let quoted = said.quoted;
        let found: Vec<_> = quoted.iter().map(|it| (it.sentence.as_str(), it.citation)).collect();
        assert_eq!(found, [("He said [3]. E.g. \"no. [7]\"", Some(1)), ("Blue", Some(2))]);
    }

    #[test]
    fn who_watches_can_stop_it() {
        let mut checker = checker();
        let mut observer = |_: Told<'_>| ControlFlow::Break(());
        let mut live = Live::new(Some(&mut checker), &mut observer);
        assert!(live.push("").is_break(), "while a model is waited for");
    }
}
