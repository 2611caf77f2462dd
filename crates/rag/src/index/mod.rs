//! Indexing: files and documents in, an up-to-date catalog and search indexes out.

mod anew;
mod bank;
mod derived;
mod foreground;
mod library;
mod maker;
mod pace;
mod pipeline;
mod read;
mod said;
mod share;
mod text;

#[cfg(test)]
pub(crate) use anew::marks;
pub(crate) use bank::cosine;
pub(crate) use foreground::{Background, Foreground};
pub use library::{InputDocument, Library};
pub(crate) use share::indexed;
pub use share::{PushOptions, push_library};
pub(crate) use text::passage_text;

#[cfg(test)]
mod check_test;
