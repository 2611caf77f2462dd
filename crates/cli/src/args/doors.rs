//! Doors for other programs.

use std::net::IpAddr;

use clap::{
    Args, Subcommand,
    builder::{PossibleValuesParser, TypedValueParser as _},
};
use riddle_doors::{ServeOptions, install::Client};

use super::positive;

/// Serves the library to other programs of this machine: searching, answers, reranking, embeddings, chats, and the
/// Model Context Protocol. Each has to know the token, which is in a file of the home.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ServeArgs {
    /// Port [default: 7438, or any other if that is taken]
    #[arg(long, value_name = "N")]
    pub(crate) port: Option<u16>,
    /// Address to listen at [default: 127.0.0.1]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<IpAddr>,
    /// Let other machines in: whoever knows the token reads what is indexed, and sees it on the way without encryption
    #[arg(long, requires = "listen")]
    pub(crate) beyond_this_machine: bool,
    /// A name with port by which the server may be called, beside its own (repeatable)
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) allow_host: Vec<String>,
    /// An origin whose pages may ask (repeatable)
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) allow_origin: Vec<String>,
    /// Give programs of this machine passages of folders that never leave it, too
    #[arg(long)]
    pub(crate) with_confined: bool,
    /// Requests that may wait [default: 64]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) queue: Option<usize>,
}

impl ServeArgs {
    pub(crate) fn options(&self) -> ServeOptions {
        ServeOptions {
            port: self.port,
            listen: self.listen,
            beyond_this_machine: self.beyond_this_machine,
            allow_hosts: self.allow_host.clone(),
            allow_origins: self.allow_origin.clone(),
            with_confined: self.with_confined,
            queue: self.queue,
        }
    }
}

/// Speaks the Model Context Protocol on stdin and stdout, for assistants that start their tools themselves. Where
/// `riddle serve` runs, it answers; else the library is opened here.
#[derive(Debug, Clone, Default, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct McpArgs {
    #[command(subcommand)]
    pub(crate) command: Option<McpCommand>,
    /// Give passages of folders that never leave this machine, too: the assistant may send them on
    #[arg(long)]
    pub(crate) with_confined: bool,
    /// Open the library here even where `riddle serve` runs
    #[arg(long)]
    pub(crate) alone: bool,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum McpCommand {
    /// Put Riddle into the configuration of an assistant; what was there before is kept beside it
    Install {
        /// The assistant
        #[arg(value_parser = clients())]
        client: Client,
        /// Show what would be written, and write nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Take Riddle out of the configuration of an assistant
    Uninstall {
        /// The assistant
        #[arg(value_parser = clients())]
        client: Client,
        /// Show what would be written, and write nothing
        #[arg(long)]
        dry_run: bool,
    },
}

fn clients() -> impl clap::builder::TypedValueParser<Value = Client> {
    PossibleValuesParser::new(Client::ALL.map(Client::as_str)).try_map(|name| {
        let client = Client::ALL.into_iter().find(|it| it.as_str() == name);
        client.ok_or_else(|| format!("{name:?} is not known"))
    })
}
