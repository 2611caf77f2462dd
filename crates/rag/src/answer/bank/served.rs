//! An answer that is given once more, and what is kept beside its words.

use std::ops::ControlFlow;

use riddle_catalog::{AskedBy, BankAnswer};
use riddle_types::{Generation, GenerationRequest, Generator, Notice, StageError};
use serde::{Deserialize, Serialize};

use crate::contract::{Cached, Result, ReuseGrade};

/// What is kept beside the words.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Detail {
    /// The model, as it is shown.
    pub(super) llm: String,
    /// Verdict of each sentence: 0 supported, 1 weak, 2 not.
    pub(super) verdicts: Vec<u8>,
    /// Seconds that it took to write.
    pub(super) seconds: f64,
    /// Tokens of it.
    pub(super) tokens: Option<usize>,
    /// Passages left out, or cut.
    pub(super) notices: Vec<LeftOut>,
}

/// What a model has told of what it read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum LeftOut {
    Passages(usize),
    Cut(u32),
}

impl LeftOut {
    /// `None`: the answer is not whole, and not kept.
    pub(super) fn of(notice: &Notice) -> Option<LeftOut> {
        match notice {
            Notice::PassagesLeftOut { count } => Some(LeftOut::Passages(*count)),
            Notice::PassageCut { number } => Some(LeftOut::Cut(*number)),
            _ => None,
        }
    }

    fn told(&self) -> Notice {
        match *self {
            LeftOut::Passages(count) => Notice::PassagesLeftOut { count },
            LeftOut::Cut(number) => Notice::PassageCut { number },
        }
    }
}

/// What is kept beside the words of an answer; of one that can not be read, nothing.
pub(super) fn detail(found: &BankAnswer) -> Detail {
    serde_json::from_str(&found.detail).unwrap_or_default()
}

/// An answer that may be given.
pub(crate) struct Served {
    pub(super) id: i64,
    text: String,
    pub(super) detail: Detail,
    pub(crate) cached: Cached,
    /// Passages that it was written from, by chunk.
    passages: Vec<u64>,
}

impl Served {
    pub(super) fn of(found: BankAnswer, kind: ReuseGrade, similarity: f32) -> Option<Served> {
        let detail = detail(&found);
        let text = if kind == ReuseGrade::Same { found.text } else { found.shown }?;
        Some(Served {
            id: found.id,
            text,
            detail,
            cached: Cached {
                kind,
                asked: found.question,
                at: found.made_at,
                similarity,
                checked: kind != ReuseGrade::Instant,
                prepared: found.by != AskedBy::User,
            },
            passages: found.passages.iter().map(|it| it.chunk.0).collect(),
        })
    }

    /// The same answer in other words: with the numbers that its passages have now.
    pub(super) fn saying(self, text: String) -> Served {
        Served { text, ..self }
    }

    /// Passages that it was written from, by chunk.
    pub(crate) fn passages(&self) -> &[u64] {
        &self.passages
    }
}

/// Told as a model tells it, so that nobody has to know where it comes from: piece by piece, and every sentence is held
/// against the passages on the way.
impl Generator for Served {
    fn name(&self) -> &str {
        &self.detail.llm
    }

    fn generate(
        &self,
        _request: &GenerationRequest,
        sink: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Generation, StageError> {
        let mut text = String::with_capacity(self.text.len());
        for piece in self.text.split_inclusive(' ') {
            text.push_str(piece);
            if sink(piece).is_break() {
                break;
            }
        }
        Ok(Generation {
            text,
            tokens: self.detail.tokens,
            notices: self.detail.notices.iter().map(LeftOut::told).collect(),
            ..Generation::default()
        })
    }
}
