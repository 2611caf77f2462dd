//! Arguments of `riddle find` and `riddle man`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::FilterArgs;

/// What a search prints.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Passages to read
    #[default]
    Page,
    /// A path per line, each file once, the best first
    Paths,
    /// The same, each path followed by a zero byte, for xargs -0
    Paths0,
}

#[derive(Debug, Clone, Default, Args)]
pub(crate) struct FindArgs {
    /// What to begin with
    #[arg(value_name = "QUERY")]
    pub(crate) query: Option<String>,
    /// Print the path of what is chosen instead of opening it
    #[arg(long)]
    pub(crate) print: bool,
    /// Never rerank, also not when you pause
    #[arg(long)]
    pub(crate) no_rerank: bool,
    /// Open the library here even where `riddle serve` or the app has it open
    #[arg(long)]
    pub(crate) alone: bool,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ManArgs {
    /// Folder for the pages, which is made
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
}
