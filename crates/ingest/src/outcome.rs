//! What became of a file, as the parsers, the two ends of the pipe and the caller say it.

use riddle_types::Document;
use serde::{Deserialize, Serialize};

/// What became of a file. A reason is in words for the ledger.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ParseOutcome {
    /// Text with structure.
    Parsed(Document),
    /// Readable, without text, and why.
    NoText(String),
    /// No parser for this format, and which it is.
    Unsupported(String),
    /// It could not be parsed, and why.
    Failed(String),
}

/// A line of a page that is a picture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SeenLine {
    /// What it says.
    pub text: String,
    /// Left, upper, right and lower side, as parts of the page as it is shown.
    pub place: [f32; 4],
    /// How sure reading it was, 0 to 1; what earlier versions have kept does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sure: Option<f32>,
}
