//! Arguments of `riddle index`.

use std::path::PathBuf;

use clap::Args;
use riddle_rag::servers::EmbedPrompts;

use super::values::size;

#[derive(Debug, Clone, Default, Args)]
pub(crate) struct IndexArgs {
    /// Folders to add; without any, the folders known so far are brought up to date
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Keep following changes until Ctrl-C
    #[arg(long)]
    pub(crate) watch: bool,
    /// Embed with this model from now on, by name or directory, or with a server, by its address and behind a # the
    /// model there
    #[arg(long, value_name = "NAME|DIR|URL#MODEL")]
    pub(crate) embedder: Option<String>,
    /// Let the server that --embedder names be sent every passage of your files, but those of folders that never leave
    /// this machine, and everything that you search for, from now on; not needed on this machine
    #[arg(long, requires = "embedder")]
    pub(crate) allow_endpoint: bool,
    #[command(flatten)]
    pub(crate) prompts: PromptArgs,
    /// Memory that the embedder may take, as 300MiB, from now on, also in searches: layers that do not fit are read
    /// while it computes, and its vectors are the same; `all`: as much as it needs [default: all]
    #[arg(long, value_name = "SIZE|all", value_parser = size_or_all)]
    pub(crate) embedder_memory: Option<Memory>,
    /// Read the files that failed once more
    #[arg(long)]
    pub(crate) retry_failed: bool,
    /// Percent of the processor that search by meaning may take beside your work, from now on: while following changes,
    /// and in the app [default: 100]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) cpu: Option<u32>,
    /// Prepare search by meaning on battery, too, from now on; words are always searched [default: no]
    #[arg(long, value_name = "YES|NO", value_parser = yes_or_no)]
    pub(crate) on_battery: Option<bool>,
    /// MiB of the largest file that is read, from now on; larger ones are listed as too large [default: 64]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..=512))]
    pub(crate) largest_file: Option<u32>,
    /// Weigh terms of passages and questions, from now on, where a sparse encoder is installed [default: yes]
    #[arg(long, value_name = "YES|NO", value_parser = yes_or_no)]
    pub(crate) terms: Option<bool>,
    /// Which scans and pictures are read, from now on, once what reads them is installed: off, new or all [default:
    /// all]
    #[arg(long, value_name = "WHICH", value_parser = ["off", "new", "all"])]
    pub(crate) scans: Option<String>,
    /// Read the pages that browsers remember (Firefox, Chrome, Chromium, Edge), from now on; `no` takes out what was
    /// read of them [default: no]
    #[arg(long, value_name = "YES|NO", value_parser = yes_or_no)]
    pub(crate) browsing_history: Option<bool>,
}

/// Memory, or as much as is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Memory(pub(crate) Option<u64>);

fn size_or_all(text: &str) -> Result<Memory, String> {
    if text.trim() == "all" {
        return Ok(Memory(None));
    }
    size(text).map(|it| Memory(Some(it))).map_err(|it| format!("{it}, or `all`"))
}

fn yes_or_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("write yes or no".to_owned()),
    }
}

/// What a server's model is given before texts; models whose names are known get what they were trained with.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct PromptArgs {
    /// What the model of a server that embeds wants before a question, if its name does not tell
    #[arg(long, value_name = "TEXT")]
    pub(crate) query_prompt: Option<String>,
    /// What it wants before a passage
    #[arg(long, value_name = "TEXT")]
    pub(crate) passage_prompt: Option<String>,
}

impl PromptArgs {
    /// Where one is given, both are.
    pub(crate) fn given(&self) -> Option<EmbedPrompts> {
        if self.query_prompt.is_none() && self.passage_prompt.is_none() {
            return None;
        }
        Some(EmbedPrompts {
            query: self.query_prompt.clone().unwrap_or_default(),
            passage: self.passage_prompt.clone().unwrap_or_default(),
        })
    }
}
