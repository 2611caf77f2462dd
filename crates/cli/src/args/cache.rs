//! The words of `riddle cache`.

use clap::{Args, Subcommand};

use super::rerank::size;

#[derive(Debug, Clone, Args)]
pub(crate) struct CacheArgs {
    #[command(subcommand)]
    pub(crate) command: CacheCommand,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum CacheCommand {
    /// Show what models in this process have read and kept
    Status,
    /// Delete all of it
    Clear,
    /// Keep no more than this
    Limit {
        /// As 2GiB; 0: nothing is kept
        #[arg(value_name = "SIZE", value_parser = limit)]
        size: u64,
    },
}

/// A size, which may be nothing.
fn limit(text: &str) -> Result<u64, String> {
    if text.trim() == "0" { Ok(0) } else { size(text) }
}
