//! From which similarity on two questions are one: labelled pairs, with and without the comparison of words.

use riddle_rag::{Assistant, reuse::same_terms};
use riddle_types::EmbedRole;
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Pairs that are embedded together.
const BATCH: usize = 32;

/// Two questions, and whether they ask for the same.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct QuestionPair {
    /// One question.
    pub question1: String,
    /// The other.
    pub question2: String,
    /// Whether one answer does for both.
    pub is_duplicate: bool,
}

/// What a similarity lets through.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct ThresholdReport {
    /// The similarity.
    pub threshold: f32,
    /// Share of the pairs that ask for the same which it finds: by similarity alone, and with words compared.
    pub recall: f64,
    /// With words compared.
    pub recall_by_words: f64,
    /// Share of the pairs that ask for other things which it takes for the same.
    pub false_hits: f64,
    /// With words compared.
    pub false_hits_by_words: f64,
    /// Share of what it takes for the same that is not.
    pub false_share: f64,
    /// With words compared.
    pub false_share_by_words: f64,
}

/// Holds every threshold from 0.70 to 0.99 against labelled pairs, with the embedder of the assistant.
///
/// # Errors
/// Without an embedder, or when it can not be run.
pub fn evaluate_pairs(
    assistant: &Assistant,
    pairs: &[QuestionPair],
    tell: &mut dyn FnMut(usize),
) -> Result<Vec<ThresholdReport>> {
    let mut seen: Vec<(f32, bool, bool)> = Vec::with_capacity(pairs.len());
    for batch in pairs.chunks(BATCH) {
        let texts: Vec<&str> =
            batch.iter().flat_map(|it| [it.question1.as_str(), it.question2.as_str()]).collect();
        let embedded = assistant.embed(&texts, EmbedRole::Query)?;
        let embedded = embedded.ok_or_else(|| {
            Error::Rag(riddle_rag::Error::NoModel { name: "embedder".to_owned() })
        })?;
        for (pair, vectors) in batch.iter().zip(embedded.vectors.chunks(2)) {
            let cosine = vectors[0].iter().zip(&vectors[1]).map(|(a, b)| a * b).sum();
            let alike = same_terms(&pair.question1, &pair.question2);
            seen.push((cosine, alike, pair.is_duplicate));
        }
        tell(seen.len());
    }
    Ok((70..100).map(|it| at(it as f32 / 100.0, &seen)).collect())
}

fn at(threshold: f32, seen: &[(f32, bool, bool)]) -> ThresholdReport {
    let count =
        |of: &dyn Fn(&(f32, bool, bool)) -> bool| seen.iter().filter(|it| of(it)).count() as f64;
    let share = |part: f64, all: f64| if all > 0.0 { part / all } else { 0.0 };
    let (same, other) = (count(&|it| it.2), count(&|it| !it.2));
    let hits = count(&|it| it.2 && it.0 >= threshold);
    let wrong = count(&|it| !it.2 && it.0 >= threshold);
    let hits_by_words = count(&|it| it.2 && it.1 && it.0 >= threshold);
    let wrong_by_words = count(&|it| !it.2 && it.1 && it.0 >= threshold);
    ThresholdReport {
        threshold,
        recall: share(hits, same),
        recall_by_words: share(hits_by_words, same),
        false_hits: share(wrong, other),
        false_hits_by_words: share(wrong_by_words, other),
        false_share: share(wrong, hits + wrong),
        false_share_by_words: share(wrong_by_words, hits_by_words + wrong_by_words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_their_own_kind() {
        let seen =
            [(0.95, true, true), (0.8, true, true), (0.95, false, false), (0.2, true, false)];
        let report = at(0.9, &seen);
        assert_eq!((report.recall, report.recall_by_words), (0.5, 0.5));
        assert_eq!((report.false_hits, report.false_hits_by_words), (0.5, 0.0));
        assert_eq!((report.false_share, report.false_share_by_words), (0.5, 0.0));
    }
}
