//! Answers that are already there: how they may be used, and what is said of one that was.

use serde::{Deserialize, Serialize};

/// Similarity of two questions from which one may have the answer of the other: the lowest that lets through less than
/// one in a hundred of the labelled pairs that ask for different things, by the default embedder and with words
/// compared (docs/benchmarks/2026-11-23-answers.md).
pub const REUSE_THRESHOLD: f32 = 0.96;

/// Bytes that kept answers may take: some four thousand of them.
const LIMIT_BYTES: u64 = 32 << 20;

/// How much has to be known of an answer that is given again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReuseGrade {
    /// None is given again.
    Off,
    /// The model would be asked the same, word for word, and would say the same.
    Same,
    /// Or the question is alike in all that counts, the passages that the answer cites are found for it with the words
    /// they had, and its sentences hold.
    #[default]
    Checked,
    /// Or the question is alike by its vector alone. Nothing is checked.
    Instant,
}

impl ReuseGrade {
    /// All of them, from the strictest.
    pub const ALL: [ReuseGrade; 4] =
        [ReuseGrade::Off, ReuseGrade::Same, ReuseGrade::Checked, ReuseGrade::Instant];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            ReuseGrade::Off => "off",
            ReuseGrade::Same => "same",
            ReuseGrade::Checked => "checked",
            ReuseGrade::Instant => "instant",
        }
    }
}

/// What a home is set to.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReuseSettings {
    /// How much has to be known of an answer that is given again.
    pub grade: ReuseGrade,
    /// Similarity of two questions, 0…1.
    pub threshold: f32,
    /// Bytes that kept answers may take; 0: none are kept.
    pub limit_bytes: u64,
    /// Answers of endpoints are kept, too.
    pub remote: bool,
    /// Answers are prepared when there is nothing else to do.
    pub prepare: bool,
    /// Questions are foreseen from passages.
    pub from_passages: bool,
    /// Questions are foreseen from what was asked.
    pub from_questions: bool,
    /// Answers that something new has come near are written again, before somebody asks (PerCache, section 4.1.3).
    pub refresh: bool,
    /// How far a foreseen question is brought depends on the threshold, and what had to go is read again where there
    /// is room (section 4.3); else each is answered once.
    pub schedule: bool,
    /// Not only on mains.
    pub on_battery: bool,
}

impl Default for ReuseSettings {
    fn default() -> Self {
        ReuseSettings {
            grade: ReuseGrade::default(),
            threshold: REUSE_THRESHOLD,
            limit_bytes: LIMIT_BYTES,
            remote: false,
            prepare: true,
            from_passages: true,
            from_questions: true,
            refresh: true,
            schedule: true,
            on_battery: false,
        }
    }
}

/// How one question uses what is kept.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Reuse {
    /// Instead of what the home is set to.
    pub grade: Option<ReuseGrade>,
    /// Instead of what the home is set to.
    pub threshold: Option<f32>,
    /// Whether the question and its answer are kept.
    pub keep: bool,
}

impl Default for Reuse {
    fn default() -> Self {
        Reuse { grade: None, threshold: None, keep: true }
    }
}

/// What is said of an answer that was there already.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cached {
    /// What is known of it.
    pub kind: ReuseGrade,
    /// The question that it was written for.
    pub asked: String,
    /// When it was written, in seconds since 1970.
    pub at: i64,
    /// Similarity of the two questions; 1 for the same.
    pub similarity: f32,
    /// Whether it was held against the files just now.
    pub checked: bool,
    /// Whether it was written before anybody asked.
    pub prepared: bool,
}
