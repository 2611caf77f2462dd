//! Arguments of `riddle search`.

use clap::Args;

use super::{filter::FilterArgs, find::Format, rank::RankArgs, values::positive};

#[derive(Debug, Clone, Args)]
pub(crate) struct SearchArgs {
    /// What to look for; words in "quotes" are a phrase, -word leaves out what has it
    pub(crate) query: String,
    /// Results to show
    #[arg(short, long, default_value_t = 10, value_name = "N", value_parser = positive)]
    pub(crate) k: usize,
    /// Show how every hit came to its place
    #[arg(long)]
    pub(crate) explain: bool,
    /// What is printed
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, conflicts_with = "explain")]
    pub(crate) format: Format,
    /// Open the library here even where `riddle serve` or the app has it open
    #[arg(long)]
    pub(crate) alone: bool,
    /// Search this shared library (repeatable); home is the one of this computer, all are this one and every shared one
    /// [default: home]
    #[arg(long, value_name = "NAME|home|all")]
    pub(crate) library: Vec<String>,
    /// Let the server that --model names be sent questions and passages of your files, from now on; not needed on this
    /// machine
    #[arg(long, requires = "model")]
    pub(crate) allow_endpoint: bool,
    #[command(flatten)]
    pub(crate) rank: RankArgs,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
}
