//! Which files a search looks at.

use std::path::PathBuf;

use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use riddle_types::{FileKind, Filter, tag_name};

use crate::dates;

/// Which files to look at.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Filters")]
pub(crate) struct FilterArgs {
    /// Only files below this folder (repeatable)
    #[arg(long = "in", value_name = "FOLDER")]
    pub(crate) folders: Vec<PathBuf>,
    /// Only files of this kind (repeatable)
    #[arg(long = "type", value_name = "KIND", value_parser = kinds())]
    pub(crate) kinds: Vec<FileKind>,
    /// Only notes with this tag, or with one below it: `project` finds `project/boat` (repeatable)
    #[arg(long = "tag", value_name = "TAG", value_parser = tag)]
    pub(crate) tags: Vec<String>,
    /// Only files changed on this day or later (YYYY-MM-DD, days in UTC)
    #[arg(long, value_name = "DATE", value_parser = dates::parse_day)]
    pub(crate) after: Option<i64>,
    /// Only files changed before this day (YYYY-MM-DD, days in UTC)
    #[arg(long, value_name = "DATE", value_parser = dates::parse_day)]
    pub(crate) before: Option<i64>,
}

impl FilterArgs {
    pub(crate) fn filter(&self) -> std::io::Result<Filter> {
        // Folders are stored resolved; one that is gone is still a condition, which nothing meets.
        let resolve = |folder: &PathBuf| {
            let path = riddle_rag::resolved(folder).or_else(|_| std::path::absolute(folder))?;
            Ok(path.to_string_lossy().into_owned())
        };
        Ok(Filter {
            folders: self.folders.iter().map(resolve).collect::<std::io::Result<_>>()?,
            kinds: self.kinds.clone(),
            tags: self.tags.clone(),
            modified_from: self.after,
            modified_until: self.before,
            ..Filter::default()
        })
    }
}

fn tag(text: &str) -> Result<String, String> {
    tag_name(text).ok_or_else(|| format!("{text:?} is not a tag"))
}

fn kinds() -> impl TypedValueParser<Value = FileKind> {
    // Files of the kind "other" hold no text that could be found.
    let names = FileKind::ALL.into_iter().filter(|it| *it != FileKind::Other);
    PossibleValuesParser::new(names.map(FileKind::as_str))
        .try_map(|name| FileKind::parse(&name).ok_or_else(|| format!("{name:?} is not a kind")))
}
