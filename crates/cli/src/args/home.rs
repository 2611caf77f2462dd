//! Arguments of the commands on the home as a whole: what is in it, whether it is sound, and the way into another one.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Clone, Args)]
pub(crate) struct StatusArgs {
    /// List every file with its state
    #[arg(long)]
    pub(crate) files: bool,
    /// Read the whole catalog, and say whether it is sound: takes seconds with a hundred thousand passages
    #[arg(long)]
    pub(crate) check: bool,
}

#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct CheckArgs {
    /// Read again what changed and make both search indexes anew, then look once more
    #[arg(long)]
    pub(crate) repair: bool,
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
