//! Three levels of support, from what can be counted and from the reranker.
//!
//! [`ClaimFeatures`] are the counts, [`WEIGHTS`] what each of them says.

use serde::{Deserialize, Serialize};

/// Bias and weights of the probability that a claim is supported, in the order of [`ClaimFeatures::values`]: fitted by
/// `riddle eval claims … --fit` on the calibration half of the articles of SQuAD's development set (see
/// docs/benchmarks/2026-11-23-claims.md), for the bundled reranker.
const BIAS: f32 = -5.513;
const WEIGHTS: [f32; 4] = [0.665, 3.556, 2.910, -3.842];

/// Scores below the first are unsupported, from the second on supported; fitted with the weights.
const LIMITS: (f32, f32) = (0.345, 0.73);

/// The same for the judgment without a reranker.
const EVIDENCE_LIMITS: (f32, f32) = (0.785, 0.785);

/// Whether a sentence is true to the passages it cites.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// They say so.
    Supported,
    /// They may.
    Weak,
    /// They do not, or nothing is cited.
    Unsupported,
}

/// What speaks for a claim.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct ClaimFeatures {
    /// The reranker's score (a logit) of the claim and the window that fits it best; `None` without one.
    pub reranker: Option<f32>,
    /// Share of the claim's words that the best sentence has.
    pub sentence: f32,
    /// Share of the words that are not in the question which the best window has; 1 if there are none.
    pub added_near: f32,
    /// Share of the names that are not in the question which are nowhere in what is cited.
    pub names_missing: f32,
    /// Numbers that are nowhere in what is cited.
    pub numbers_missing: u32,
    /// It stands there word for word.
    pub verbatim: bool,
    /// Meaning and words against the closest sentence, as answers are found: all there is without a reranker.
    pub evidence: f32,
    /// The passage with the best window.
    pub citation: Option<u32>,
}

impl ClaimFeatures {
    /// What the weights are for, by name.
    pub fn values(&self) -> impl Iterator<Item = (&'static str, f32)> {
        [
            ("reranker", self.reranker.unwrap_or(0.0)),
            ("sentence", self.sentence),
            ("added_near", self.added_near),
            ("names_missing", self.names_missing),
        ]
        .into_iter()
    }

    /// The score where no weighing is needed: nothing is cited, a number is made up, or all of it is a quotation.
    pub fn ruled(&self) -> Option<f32> {
        if self.citation.is_none() || (self.numbers_missing > 0 && !self.verbatim) {
            return Some(0.0);
        }
        self.verbatim.then_some(1.0)
    }

    /// The same claim as it looks without a reranker.
    #[must_use]
    pub fn without_reranker(self) -> ClaimFeatures {
        ClaimFeatures { reranker: None, ..self }
    }

    /// How sure it is that the claim is supported, 0…1, and what that means.
    pub fn verdict(&self) -> (f32, Verdict) {
        let (score, (lower, upper)) = match self.reranker {
            Some(_) => {
                let sum: f32 = self.values().zip(WEIGHTS).map(|(it, weight)| it.1 * weight).sum();
                (1.0 / (1.0 + (-BIAS - sum).exp()), LIMITS)
            }
            None => (self.evidence.clamp(0.0, 1.0), EVIDENCE_LIMITS),
        };
        let score = self.ruled().unwrap_or(score);
        let verdict = match score {
            it if it < lower => Verdict::Unsupported,
            it if it < upper => Verdict::Weak,
            _ => Verdict::Supported,
        };
        (score, verdict)
    }
}

/// A sentence of an answer, checked against the passages it cites.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Support {
    /// The sentence, without its citation mark.
    pub sentence: String,
    /// The passage that speaks most for it, of those it cites; `None` when it cites nothing that exists.
    pub citation: Option<u32>,
    /// All that it cites.
    pub citations: Vec<u32>,
    /// How sure it is that they say so, 0…1; 1 when one says it verbatim.
    pub score: f32,
    /// What that means.
    pub verdict: Verdict,
}

impl Support {
    /// A sentence of a passage: supported by that.
    pub(crate) fn quotation(sentence: String, passage: Option<u32>) -> Support {
        Support {
            sentence,
            citation: passage,
            citations: passage.into_iter().collect(),
            score: 1.0,
            verdict: Verdict::Supported,
        }
    }
}
