//! Is this sentence true to the passages it cites? What speaks for it is counted, and weighed in [`ClaimFeatures`].
//!
//! A reranker sees whether a passage is about what a sentence says; that the answer in the sentence is another one
//! than the passage's it hardly sees, having been trained to find and not to compare. So words, names and numbers are
//! counted beside it: those that the sentence adds to the question must be in the passage, and close to each other.

use std::{collections::HashSet, sync::Arc};

use riddle_types::{EmbedRole, Embedder, Reranker, SilentObserver, StageError};

use crate::{
    extract::{MEANING_WEIGHT, dot, stem, telling_words, words},
    markup::without_markup,
    sentences::sentences,
    verdict::ClaimFeatures,
};

/// Sentences of a passage that are read together: an answer's sentence often joins two.
const LONGEST_WINDOW: usize = 2;

/// Windows that the reranker reads, those with most of the claim's words first.
const WINDOWS_READ: usize = 3;

/// Longest claim that is judged, in characters; what is longer is a text, and its beginning is judged.
const LONGEST_CLAIM: usize = 2000;

/// A passage that a claim may be held against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimPassage {
    /// The number it is cited by.
    pub number: u32,
    /// What stands above it: title and headings.
    pub context: String,
    /// Its text.
    pub text: String,
}

/// Holds claims against passages.
pub struct ClaimJudge {
    reranker: Option<Arc<dyn Reranker>>,
    embedder: Option<Arc<dyn Embedder>>,
}

impl std::fmt::Debug for ClaimJudge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClaimJudge")
            .field("reranker", &self.reranker.as_ref().map(|it| it.model()))
            .finish_non_exhaustive()
    }
}

/// Neighboring sentences of a passage.
struct Window<'a> {
    number: u32,
    context: &'a str,
    text: &'a str,
    sentences: usize,
    words: HashSet<String>,
}

impl ClaimJudge {
    /// With the bundled reranker, which the weights are for, or with none.
    pub fn new(
        reranker: Option<Arc<dyn Reranker>>,
        embedder: Option<Arc<dyn Embedder>>,
    ) -> ClaimJudge {
        ClaimJudge { reranker, embedder }
    }

    /// What speaks for `claim`, the answer or a part of the answer to `question`, in what it cites. With a reranker
    /// the embedder is asked only if `evidence` is wanted as well.
    ///
    /// # Errors
    /// When a model can not be run.
    pub fn weigh(
        &self,
        question: &str,
        claim: &str,
        cited: &[&ClaimPassage],
        evidence: bool,
    ) -> Result<ClaimFeatures, StageError> {
        let claim = plain(claim);
        let (all_words, asked) = (telling_words(&claim), telling_words(question));
        let added: HashSet<String> = all_words.difference(&asked).cloned().collect();
        let mut windows = windows(cited);
        let fit = |it: &Window<'_>| share(&all_words, &it.words);
        // Stable: the passage that is cited first comes first.
        windows.sort_by(|a, b| fit(b).total_cmp(&fit(a)));
        let Some(best) = windows.first() else { return Ok(ClaimFeatures::default()) };
        let text: String =
            cited.iter().map(|it| format!("{}\n{}\n", it.context, it.text)).collect();
        let present = telling_words(&text);
        let names: HashSet<String> = names(&claim).difference(&asked).cloned().collect();
        let mut features = ClaimFeatures {
            sentence: windows.iter().find(|it| it.sentences == 1).map_or(0.0, fit),
            added_near: share(&added, &best.words),
            names_missing: 1.0 - share(&names, &present),
            numbers_missing: numbers(&claim).difference(&numbers(&text)).count() as u32,
            verbatim: flat(&text).contains(&flat(&claim)),
            citation: Some(best.number),
            ..ClaimFeatures::default()
        };
        if let Some(reranker) = &self.reranker {
            features.reranker = Some(read(&**reranker, &claim, &windows)?);
        }
        if self.reranker.is_none() || evidence {
            features.evidence = self.evidence(&claim, &all_words, &windows)?;
        }
        Ok(features)
    }

    /// The closest sentence's score, as [`Scored`](crate::extract::Scored) mixes it; of words alone without an
    /// embedder.
    fn evidence(
        &self,
        claim: &str,
        claim_words: &HashSet<String>,
        windows: &[Window<'_>],
    ) -> Result<f32, StageError> {
        let single: Vec<&Window<'_>> = windows.iter().filter(|it| it.sentences == 1).collect();
        let coverage = single.iter().map(|it| share(claim_words, &it.words));
        let Some(embedder) = &self.embedder else { return Ok(coverage.fold(0.0, f32::max)) };
        let mut texts = vec![claim];
        texts.extend(single.iter().map(|it| it.text));
        let vectors = embedder.embed(&texts, EmbedRole::Passage)?;
        let Some((claim, vectors)) = vectors.split_first() else { return Ok(0.0) };
        let mixed = coverage.zip(vectors).map(|(words, vector)| {
            MEANING_WEIGHT * dot(claim, vector).max(0.0) + (1.0 - MEANING_WEIGHT) * words
        });
        Ok(mixed.fold(0.0, f32::max))
    }
}

/// The passage with the sentences that share most of a claim's words, the better ranked of equals; `None` where no
/// word is shared.
pub fn nearest<'a>(claim: &str, passages: &'a [ClaimPassage]) -> Option<&'a ClaimPassage> {
    let wanted = telling_words(&plain(claim));
    let all: Vec<&ClaimPassage> = passages.iter().collect();
    let (mut most, mut number) = (0, None);
    for window in windows(&all) {
        let shared = wanted.intersection(&window.words).count();
        if shared > most {
            (most, number) = (shared, Some(window.number));
        }
    }
    passages.iter().find(|it| Some(it.number) == number)
}

/// The reranker's best score of the claim and the windows that share most of its words.
fn read(reranker: &dyn Reranker, claim: &str, windows: &[Window<'_>]) -> Result<f32, StageError> {
    if claim.trim().is_empty() {
        return Ok(0.0);
    }
    let texts: Vec<String> = windows
        .iter()
        .take(WINDOWS_READ)
        .map(|it| format!("{}\n{}", it.context, it.text).trim().to_owned())
        .collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let outcome = reranker.rerank(claim, &texts, texts.len(), &mut SilentObserver)?;
    Ok(outcome.ranked.iter().map(|it| it.raw_score).fold(f32::NEG_INFINITY, f32::max))
}

fn windows<'a>(cited: &[&'a ClaimPassage]) -> Vec<Window<'a>> {
    let mut windows = Vec::new();
    for passage in cited {
        let context = telling_words(&passage.context);
        let ranges = sentences(&passage.text);
        for length in (1..=LONGEST_WINDOW).rev() {
            for span in ranges.windows(length) {
                let text = &passage.text[span[0].start..span[length - 1].end];
                let mut words = telling_words(text);
                words.extend(context.iter().cloned());
                windows.push(Window {
                    number: passage.number,
                    context: &passage.context,
                    text,
                    sentences: length,
                    words,
                });
            }
        }
    }
    windows
}

/// Share of `wanted` that is present; 1 of nothing.
fn share(wanted: &HashSet<String>, present: &HashSet<String>) -> f32 {
    if wanted.is_empty() {
        return 1.0;
    }
    wanted.intersection(present).count() as f32 / wanted.len() as f32
}

/// Words alone, one space between, and around.
fn flat(text: &str) -> String {
    let words: Vec<String> = words(text).collect();
    format!(" {} ", words.join(" "))
}

/// A claim without Markdown, the mark of its item in a list, and what is beyond [`LONGEST_CLAIM`].
fn plain(claim: &str) -> String {
    let text = without_markup(claim);
    let text = text.trim_start_matches(|c: char| c.is_whitespace() || "-–*•>|".contains(c));
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let text = match text[digits..].strip_prefix(['.', ')']) {
        Some(rest) if (1..4).contains(&digits) && rest.starts_with(' ') => rest,
        _ => text,
    };
    text.chars().take(LONGEST_CLAIM).collect::<String>().trim().to_owned()
}

/// Words for small numbers; not one, which is also somebody.
const NUMBER_WORDS: [(&str, &str); 11] = [
    ("two", "2"),
    ("three", "3"),
    ("four", "4"),
    ("five", "5"),
    ("six", "6"),
    ("seven", "7"),
    ("eight", "8"),
    ("nine", "9"),
    ("ten", "10"),
    ("eleven", "11"),
    ("twelve", "12"),
];

/// The numbers of a text in one way of writing: without grouping, with a decimal point, small words as digits.
fn numbers(text: &str) -> HashSet<String> {
    let mut found: HashSet<String> = HashSet::new();
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        rest = &rest[start..];
        let mut number = String::new();
        loop {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            number.push_str(&rest[..digits]);
            rest = &rest[digits..];
            let Some(after) = rest.strip_prefix(['.', ',']) else { break };
            match after.bytes().take_while(u8::is_ascii_digit).count() {
                0 => break,
                // Three digits are a group of a larger number.
                3 => {}
                _ => number.push('.'),
            }
            rest = after;
        }
        found.insert(number);
    }
    for word in words(text) {
        if let Some((_, digits)) = NUMBER_WORDS.iter().find(|it| it.0 == word) {
            found.insert((*digits).to_owned());
        }
    }
    found
}

/// Stems of the capitalised words behind the first, function words left out.
fn names(text: &str) -> HashSet<String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|it| !it.is_empty())
        .skip(1)
        .filter(|it| it.chars().next().is_some_and(char::is_uppercase))
        .filter(|it| !telling_words(it).is_empty())
        .map(|it| stem(&it.to_lowercase()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Verdict;

    fn passage() -> ClaimPassage {
        ClaimPassage {
            number: 4,
            context: "Marlin".to_owned(),
            text: "The hull was painted blue in 1931 by Ada Thorne. It cost 1,250.50 pounds. Four men helped.".to_owned(),
        }
    }

    fn weigh(claim: &str) -> ClaimFeatures {
        let judge = ClaimJudge::new(None, None);
        judge
            .weigh("Who painted the hull of the Marlin?", claim, &[&passage()], false)
            .expect("no model to fail")
    }

    #[test]
    fn numbers_are_compared_however_they_are_written() {
        let of = |text: &str| {
            let mut found: Vec<String> = numbers(text).into_iter().collect();
            found.sort();
            found
        };
        assert_eq!(of("1,250.50 and 1.250,50"), ["1250.50"]);
        assert_eq!(of("three of 3, 11th, 1990s, 2010-11."), ["11", "1990", "2010", "3"]);
        assert_eq!(of("no one, no1"), ["1"]);
        assert_eq!(of("船は1931年"), ["1931"]);
        assert_eq!(of(""), [""; 0]);
    }

    #[test]
    fn a_number_that_is_nowhere_is_unsupported_and_one_that_is_there_is_not() {
        for claim in ["Ada Thorne painted it in 1987.", "It cost 1,251 pounds.", "5 men helped."] {
            let found = weigh(claim);
            assert_eq!(found.numbers_missing, 1, "{claim}");
            assert_eq!(found.verdict(), (0.0, Verdict::Unsupported), "{claim}");
        }
        for claim in ["It cost 1250.50 pounds.", "4 men helped.", "2. In 1931 Thorne painted it."] {
            assert_eq!(weigh(claim).numbers_missing, 0, "{claim}");
        }
    }

    #[test]
    fn words_that_the_question_lacks_are_looked_for() {
        let right = weigh("The hull of the Marlin was painted by Ada Thorne.");
        assert_eq!((right.added_near, right.names_missing, right.citation), (1.0, 0.0, Some(4)));
        let wrong = weigh("The hull of the Marlin was painted by Ben Mill.");
        assert_eq!((wrong.added_near, wrong.names_missing), (0.0, 1.0));
        assert!(wrong.sentence < right.sentence);
        // The answer is there, and not where the question's words are.
        let far = weigh("The hull of the Marlin was painted by four men.");
        assert!(far.added_near < right.added_near, "{far:?}");
    }

    #[test]
    fn quotations_are_supported_and_what_cites_nothing_is_not() {
        let quoted = weigh("- It cost **1,250.50** pounds.");
        assert_eq!(quoted.verdict(), (1.0, Verdict::Supported), "{quoted:?}");
        let judge = ClaimJudge::new(None, None);
        let uncited = judge.weigh("Who?", "Ada Thorne.", &[], false).expect("no model");
        assert_eq!(uncited.verdict(), (0.0, Verdict::Unsupported));
    }

    #[test]
    fn odd_claims_are_judged() {
        for claim in ["", " ", "- ", "1.", "…", "👍", "[1]", &"a ".repeat(5000)] {
            let (score, _) = weigh(claim).verdict();
            assert!((0.0..=1.0).contains(&score), "{claim}");
        }
    }
}
