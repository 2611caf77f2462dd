//! Doors for other programs.

use std::{net::IpAddr, path::PathBuf};

use clap::{
    Args, Subcommand,
    builder::{PossibleValuesParser, TypedValueParser as _},
};
use riddle_doors::{ServeOptions, install::Client};
use riddle_types::{FileKind, Reader};

use super::values::positive;

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
    /// A socket in the file system to listen at as well, for you alone
    #[arg(long, value_name = "FILE")]
    pub(crate) socket: Option<PathBuf>,
    /// Write down who asked and how much was given, and not what
    #[arg(long)]
    pub(crate) forget_questions: bool,
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
            socket: self.socket.clone(),
            forget_questions: self.forget_questions,
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
    /// As which program of `riddle clients` this is started: it sees what that may see
    #[arg(long, value_name = "NAME")]
    pub(crate) client: Option<String>,
}

/// Answers what is typed into the search of GNOME or KDE, for as long as somebody types.
#[derive(Debug, Clone, Args)]
pub(crate) struct DesktopSearchArgs {
    /// Seconds without a question after which it ends
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = positive)]
    pub(crate) patience: usize,
}

/// Programs that may ask, by name: what each may see, and what it has asked.
///
/// The token in the home opens everything. A program with a name of its own has a token of its own, or is started by an
/// assistant through a pipe; it sees what you let it see, and can be sent away without the others noticing.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ClientsArgs {
    #[command(subcommand)]
    pub(crate) command: Option<ClientsCommand>,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum ClientsCommand {
    /// List the programs
    List,
    /// Let a program in, with a new token, which is shown once
    Add {
        /// What you call it
        name: String,
        #[command(flatten)]
        may: MayArgs,
        #[command(flatten)]
        reader: ReaderArgs,
    },
    /// Change what a program may see; its token stays
    Set {
        /// What you call it
        name: String,
        #[command(flatten)]
        may: MayArgs,
    },
    /// Say whose rights to files a program has: it sees what that user may read, and nothing else
    #[command(group = clap::ArgGroup::new("whose").required(true).args(["user", "yours"]))]
    Identity {
        /// What you call it
        name: String,
        #[command(flatten)]
        reader: ReaderArgs,
        /// Nobody's in particular: it sees what you see
        #[arg(long, conflicts_with_all = ["user", "groups"])]
        yours: bool,
    },
    /// Send a program away; it is remembered, and can be let in again with `set`
    Revoke {
        /// What you call it
        name: String,
    },
    /// Forget a program
    Remove {
        /// What you call it
        name: String,
    },
    /// What was asked, newest first
    Log {
        /// Only by this program
        name: Option<String>,
        /// Lines
        #[arg(short = 'n', long, value_name = "N", default_value_t = 20, value_parser = positive)]
        lines: usize,
        /// Empty the log
        #[arg(long, conflicts_with_all = ["name", "lines"])]
        forget: bool,
    },
}

/// What a program may do; without any of it, everything but marked folders.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct MayArgs {
    /// What it may ask: search, read, answer, check_claims, rerank, status, embed (repeatable)
    #[arg(long = "tool", value_name = "NAME", value_delimiter = ',')]
    pub(crate) tools: Vec<String>,
    /// Only files in this folder and below (repeatable)
    #[arg(long = "folder", value_name = "DIR")]
    pub(crate) folders: Vec<PathBuf>,
    /// Only files of this type, as pdf or markdown (repeatable)
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',', value_parser = kinds())]
    pub(crate) types: Vec<FileKind>,
    /// Passages of folders that never leave this machine, too: the program may send them on
    #[arg(long)]
    pub(crate) with_confined: bool,
}

/// As whom a program reads; without it, as you.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ReaderArgs {
    /// It sees files that this user may read, by owner, group, mode and access lists; a number as #1000
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Groups of that user (repeatable)
    #[arg(long = "group", value_name = "NAME", value_delimiter = ',', requires = "user")]
    groups: Vec<String>,
}

impl ReaderArgs {
    pub(crate) fn reader(&self) -> Option<Reader> {
        let user = self.user.clone()?;
        Some(Reader { user, groups: self.groups.clone() })
    }
}

fn kinds() -> impl clap::builder::TypedValueParser<Value = FileKind> {
    PossibleValuesParser::new(FileKind::ALL.map(FileKind::as_str)).try_map(|name| {
        let kind = FileKind::ALL.into_iter().find(|it| it.as_str() == name);
        kind.ok_or_else(|| format!("{name:?} is not known"))
    })
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
