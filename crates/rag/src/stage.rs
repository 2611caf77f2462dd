//! Spans that mark the stages; whoever measures listens to their target.

use tracing::span::EnteredSpan;

macro_rules! stages {
    ($($name:literal),* $(,)?) => {
        /// Opens the span of a stage until the guard is dropped. The names are the command line's.
        pub(crate) fn enter(name: &'static str) -> EnteredSpan {
            match name {
                // A span's name must be a literal: tracing interns it at compile time.
                $($name => tracing::info_span!(target: "riddle::stage", $name).entered(),)*
                other => unreachable!("no stage is called {other}: this is a bug"),
            }
        }
    };
}

stages!(
    "scan",
    "parse",
    "write",
    "sync",
    "rewrite",
    "embed",
    "embed_remote",
    "weigh",
    "bm25",
    "vector",
    "terms",
    "shared",
    "fuse",
    "prepare",
    "push",
    "rerank",
    "rerank_remote",
    "bank",
    "generate",
    "check",
    "total"
);
