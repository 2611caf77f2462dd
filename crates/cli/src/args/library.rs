//! Libraries that live elsewhere.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use riddle_rag::shared::Secret;

#[derive(Debug, Clone, Args)]
pub(crate) struct LibraryArgs {
    #[command(subcommand)]
    pub(crate) command: LibraryCommand,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum LibraryCommand {
    /// Make a shared library known under a name; nobody is asked yet
    Add {
        /// Its name here
        name: String,
        /// Where it is: milvus://HOST:PORT/NAME, or milvuss://HOST:PORT/NAME over TLS
        #[arg(value_name = "ADDRESS")]
        address: String,
    },
    /// List the shared libraries, with what their servers say
    List,
    /// Forget a shared library; it stays where it is
    Remove {
        /// Its name here
        name: String,
    },
    /// What opens a library's server, USER:PASSWORD or a token, in the system's secret store
    Key {
        #[command(subcommand)]
        command: LibraryKeyCommand,
    },
    /// Say where a folder of a shared library is on this computer, so that its files can be opened
    Map {
        /// The library's name here
        name: String,
        /// The folder as the library has it, for example /srv/team or C:\Team
        there: String,
        /// The same folder on this computer, for example where it is mounted
        here: PathBuf,
    },
    /// Forget where a folder of a shared library is
    Unmap {
        /// The library's name here
        name: String,
        /// The folder as the library has it
        there: String,
    },
    /// Say which object store (S3) keeps the files of a shared library, so that they can be opened without their folder
    Originals {
        /// The library's name here
        name: String,
        /// Where: https://HOST:PORT/BUCKET/PREFIX, with ?region=NAME where the store knows regions
        #[arg(value_name = "ADDRESS", required_unless_present = "forget")]
        place: Option<String>,
        /// Forget the store; what it keeps stays there
        #[arg(long, conflicts_with = "place")]
        forget: bool,
    },
    /// Fetch a file of a shared library from the object store that keeps it
    Fetch {
        /// The library's name here
        name: String,
        /// The file's path as the library has it, as hits say it
        path: String,
        /// Write it there, in the place of what is there; else it is kept in the home, and its path said
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
    },
    /// Remove what one computer has written to a shared library; it may write again
    Evict {
        /// The library's name here
        name: String,
        /// The computer, by its name or by the key that `riddle library list --json` tells
        computer: String,
    },
    /// Write what this computer has indexed to a shared library: what changed is written, what is gone is deleted
    Push {
        /// Its name here
        name: String,
        /// Remove what other computers have written
        #[arg(long)]
        take_over: bool,
        /// Delete all that is there first: the way to another embedder
        #[arg(long)]
        anew: bool,
    },
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum LibraryKeyCommand {
    /// Ask for the key and keep it, instead of one that was kept; or read it from a pipe
    Set {
        /// The library's name here
        name: String,
        /// The key of the object store that keeps its files, ACCESS:SECRET
        #[arg(long)]
        originals: bool,
    },
    /// Forget the key
    Forget {
        /// The library's name here
        name: String,
        /// The key of the object store that keeps its files, ACCESS:SECRET
        #[arg(long)]
        originals: bool,
    },
    /// Say whether there is one
    Status {
        /// The library's name here
        name: String,
        /// The key of the object store that keeps its files, ACCESS:SECRET
        #[arg(long)]
        originals: bool,
    },
}

/// What opens the object stores by the environment; it goes before a key that is kept.
pub(crate) fn originals_key_of_environment() -> Option<Secret> {
    riddle_rag::llm::given_key(std::env::var("RIDDLE_ORIGINALS_KEY").ok()).map(Secret::new)
}

/// What opens the servers by the environment; it goes before a key that is kept.
pub(crate) fn library_key_of_environment() -> Option<Secret> {
    riddle_rag::llm::given_key(std::env::var("RIDDLE_LIBRARY_KEY").ok()).map(Secret::new)
}
