//! What of a file can be shown beside a hit: the file itself where it is text, else what was read from it.

use std::{fs::File, io::Read as _, path::Path, time::UNIX_EPOCH};

use riddle_catalog::ChunkRecord;
use riddle_types::{FileKind, Location};

use super::{
    grid::{Grid, grid},
    pictures::SeenOnPage,
    records::{Passage, Records},
};
use crate::contract::{Error, Result};

/// Most bytes of a text file that are read for a preview.
const MAX_TEXT_BYTES: u64 = 8 << 20;

/// Most lines that are shown, the passage among them.
const MAX_LINES: usize = 4000;

/// Most passages that are shown of a file that is not text.
const MAX_PASSAGES: usize = 400;

/// What is shown.
#[derive(Debug, Clone, PartialEq)]
pub enum Shown {
    /// Lines of a text file.
    Text {
        /// The lines.
        text: String,
        /// Number of the first, from 1.
        first_line: u32,
        /// Lines of the passage, both included.
        passage: (u32, u32),
        /// Whether there are more lines than these.
        truncated: bool,
    },
    /// Pages of a PDF that hold the passage, both included.
    Pdf {
        /// The pages.
        pages: (u32, u32),
        /// Lines of those that were read as pictures.
        seen: Vec<SeenOnPage>,
    },
    /// A picture that was read, with its lines.
    Picture(Vec<SeenOnPage>),
    /// Rows of a sheet.
    Grid(Grid),
    /// What was read from the file, in reading order.
    Passages(Vec<ChunkRecord>),
    /// Nothing.
    Unavailable(String),
}

/// Shows the file of a passage, and says whether it has changed since it was indexed.
///
/// # Errors
/// When the catalog can not be read. A file that is gone, or leads out of its folder, is
/// [`Shown::Unavailable`].
pub fn show(records: &Records, passage: &Passage) -> Result<(Shown, bool)> {
    let record = &passage.record;
    let path = match records.safe_path(record) {
        Ok(path) => path,
        Err(Error::Io { .. }) => {
            return Ok((
                Shown::Unavailable("the file is gone or can not be read".to_owned()),
                true,
            ));
        }
        Err(Error::BadRequest(why)) => return Ok((Shown::Unavailable(why.what), true)),
        Err(error) => return Err(error),
    };
    let changed = modified(&path).is_some_and(|it| it != record.modified);
    let shown = match (record.kind, &record.location) {
        (FileKind::Pdf, Location::Page { start, end }) => {
            let pages = (*start, *end);
            Shown::Pdf { pages, seen: records.seen(record.file, pages)? }
        }
        // Of a picture with several pages the first one is shown.
        (FileKind::Image, Location::Page { start, .. }) if *start > 1 => others(records, record)?,
        (FileKind::Image, _) => match records.seen(record.file, (1, 1))? {
            // What was read of one that says what was taken where is not in the picture.
            seen if seen.is_empty() => others(records, record)?,
            seen => Shown::Picture(seen),
        },
        (FileKind::Text | FileKind::Markdown | FileKind::Code, Location::Line { start, end }) => {
            match lines(&path, (*start, *end)) {
                Ok(Some(shown)) => shown,
                // Another encoding: what was read of it is there.
                Ok(None) => others(records, record)?,
                Err(error) => Shown::Unavailable(format!("the file can not be read: {error}")),
            }
        }
        _ => others(records, record)?,
    };
    Ok((shown, changed))
}

/// What was read of the file.
fn others(records: &Records, record: &ChunkRecord) -> Result<Shown> {
    Ok(shown_passages(records.passages_beside(record.id.0, MAX_PASSAGES)?, record.id.0))
}

/// Passages of one file, in reading order, as what is shown around the one of that number.
pub fn shown_passages(passages: Vec<ChunkRecord>, current: u64) -> Shown {
    grid(&passages, current).map_or(Shown::Passages(passages), Shown::Grid)
}

fn modified(path: &Path) -> Option<i64> {
    let modified = path.metadata().ok()?.modified().ok()?;
    i64::try_from(modified.duration_since(UNIX_EPOCH).ok()?.as_secs()).ok()
}

/// The lines around a passage; `None` when the file is not UTF-8.
fn lines(path: &Path, passage: (u32, u32)) -> std::io::Result<Option<Shown>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_TEXT_BYTES).read_to_end(&mut bytes)?;
    let cut = bytes.len() as u64 == MAX_TEXT_BYTES;
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        // Cut inside a character.
        Err(error) if cut && error.utf8_error().error_len().is_none() => {
            let whole = error.utf8_error().valid_up_to();
            String::from_utf8_lossy(&error.as_bytes()[..whole]).into_owned()
        }
        Err(_) => return Ok(None),
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let all: Vec<&str> = text.lines().collect();
    let start = (passage.0.max(1) as usize - 1).min(all.len());
    let from = if all.len() <= MAX_LINES { 0 } else { start.saturating_sub(MAX_LINES / 2) };
    let to = all.len().min(from + MAX_LINES);
    Ok(Some(Shown::Text {
        text: all[from..to].join("\n"),
        first_line: from as u32 + 1,
        passage,
        truncated: from > 0 || to < all.len() || cut,
    }))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn shown(bytes: &[u8], passage: (u32, u32)) -> Option<Shown> {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("file");
        fs::write(&path, bytes).expect("written");
        lines(&path, passage).expect("reads")
    }

    #[test]
    fn long_files_are_cut_around_the_passage() {
        let all: Vec<String> = (1..=20_000).map(|it| format!("line {it}")).collect();
        let Some(Shown::Text { text, first_line, truncated, .. }) =
            shown(all.join("\n").as_bytes(), (10_000, 10_001))
        else {
            panic!("text");
        };
        assert!(truncated && text.contains("line 10000\nline 10001\n"));
        assert_eq!(text.lines().next(), Some(format!("line {first_line}").as_str()));
        assert_eq!(text.lines().count(), MAX_LINES);
    }

    #[test]
    fn short_and_odd_files_are_shown_as_they_are() {
        let whole = |text: &str, truncated| {
            Some(Shown::Text { text: text.to_owned(), first_line: 1, passage: (9, 9), truncated })
        };
        assert_eq!(shown(b"", (9, 9)), whole("", false));
        assert_eq!(shown("\u{feff}a\r\nb".as_bytes(), (9, 9)), whole("a\nb", false));
        assert_eq!(shown(b"\xff\xfe", (9, 9)), None);
        let long = "ä".repeat(MAX_TEXT_BYTES as usize);
        assert!(matches!(
            shown(long.as_bytes(), (1, 1)),
            Some(Shown::Text { truncated: true, .. })
        ));
    }
}
