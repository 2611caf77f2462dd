//! Arguments of the commands on the home as a whole: what is in it, whether it is sound, and the way into another one.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Clone, Args)]
pub(crate) struct StatusArgs {
    /// List every file with its state
    #[arg(long)]
    pub(crate) files: bool,
    /// List the files that were read or had changed in the last seven days, the latest first
    #[arg(long)]
    pub(crate) lately: bool,
    /// Read the whole catalog, and say whether it is sound: takes seconds with a hundred thousand passages
    #[arg(long)]
    pub(crate) check: bool,
}

#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct CheckArgs {
    /// Read what changed and make search indexes anew that are damaged, then look once more
    #[arg(long)]
    pub(crate) repair: bool,
}

#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct EncryptArgs {
    /// Have the system's keyring keep the key, so that nobody is asked for the passphrase on this computer
    #[arg(long)]
    pub(crate) keyring: bool,
    /// Encrypt by the keyring alone: whoever loses it has the folders read again
    #[arg(long, requires = "keyring")]
    pub(crate) no_passphrase: bool,
    /// Give an encrypted home another passphrase; RIDDLE_NEW_PASSPHRASE gives it where nobody can be asked
    #[arg(long, conflicts_with_all = ["keyring", "forget"])]
    pub(crate) change: bool,
    /// Have the keyring forget the key: the passphrase is asked for again
    #[arg(long, conflicts_with = "keyring")]
    pub(crate) forget: bool,
}

/// The passphrase of an encrypted home, by the environment.
pub(crate) fn passphrase_of_environment() -> Option<String> {
    std::env::var("RIDDLE_PASSPHRASE").ok().filter(|it| !it.is_empty())
}

/// The one that it is to have.
pub(crate) fn new_passphrase_of_environment() -> Option<String> {
    std::env::var("RIDDLE_NEW_PASSPHRASE").ok().filter(|it| !it.is_empty())
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ExportArgs {
    /// The new file
    #[arg(value_name = "FILE")]
    pub(crate) to: PathBuf,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ImportArgs {
    /// The file
    #[arg(value_name = "FILE")]
    pub(crate) from: PathBuf,
    /// A folder that lies elsewhere here than it lay there (repeatable)
    #[arg(long, value_name = "OLD=NEW", value_parser = moved)]
    pub(crate) moved: Vec<(PathBuf, PathBuf)>,
}

/// `OLD=NEW`, two folders.
fn moved(text: &str) -> Result<(PathBuf, PathBuf), String> {
    let (old, new) = text.split_once('=').ok_or("write it as OLD=NEW")?;
    if old.is_empty() || new.is_empty() {
        return Err("write it as OLD=NEW".to_owned());
    }
    Ok((PathBuf::from(old), PathBuf::from(new)))
}
