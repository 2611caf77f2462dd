//! Indexing: files and documents in, an up-to-date catalog and search indexes out.

mod derived;
mod foreground;
mod library;
mod pace;
mod pipeline;
mod read;
mod text;

pub(crate) use foreground::Foreground;
pub use library::{InputDocument, Library};
pub(crate) use text::passage_text;
