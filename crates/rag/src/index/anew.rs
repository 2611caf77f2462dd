//! Which files are read once more, because more is found in them than before: each change has a mark, which is kept
//! once its files are queued. What stays as it was keeps its vectors.

use riddle_catalog::FileRecord;
use riddle_types::{FileKind, FileState};

use crate::home::settings::PICTURES_IN_FILES;

/// Whether more is found in a file since a change.
type FindsMore = fn(&FileRecord) -> bool;

/// Changes of the readers, by their marks.
const READERS: [(&str, FindsMore); 4] = [
    ("readers-2", reads_by_definition),
    ("readers-3", reads_pages_and_pictures),
    ("readers-4", reads_people_and_days),
    ("readers-5", reads_folded_lines),
];

/// All marks: what a home has that was read by this version.
pub(crate) fn marks() -> impl Iterator<Item = &'static str> {
    std::iter::once(PICTURES_IN_FILES).chain(READERS.iter().map(|it| it.0))
}

/// What is new since the files of a home were read.
#[derive(Debug, Clone)]
pub(super) struct Anew {
    /// Something that reads files has been installed.
    tool: bool,
    pictures: bool,
    readers: Vec<FindsMore>,
}

impl Anew {
    /// `is_new` says of a mark or the name of a tool whether it is.
    pub(super) fn of(tools: &[&str], is_new: impl Fn(&str) -> bool) -> Anew {
        Anew {
            tool: tools.iter().any(|it| is_new(it)),
            pictures: is_new(PICTURES_IN_FILES),
            readers: READERS.iter().filter(|it| is_new(it.0)).map(|it| it.1).collect(),
        }
    }

    /// The states whose files are asked about; none: nothing is new.
    pub(super) fn states(&self) -> &'static [FileState] {
        if self.tool || self.pictures || !self.readers.is_empty() {
            &[FileState::NoText, FileState::Failed, FileState::Indexed, FileState::Unsupported]
        } else {
            &[]
        }
    }

    /// Whether more may be found in a file.
    pub(super) fn finds_more(&self, file: &FileRecord) -> bool {
        let holds_files = matches!(file.kind, FileKind::Archive | FileKind::Mail);
        let may_hold_pictures =
            holds_files || matches!(file.kind, FileKind::Document | FileKind::Presentation);
        let before = match file.state {
            FileState::Unsupported => false,
            FileState::NoText | FileState::Failed => {
                (self.tool && (holds_files || matches!(file.kind, FileKind::Pdf | FileKind::Image)))
                    || (self.pictures && may_hold_pictures)
            }
            // A warning says that a file in it says nothing.
            _ => {
                (self.tool && holds_files && !file.warnings.is_empty())
                    || (self.pictures && may_hold_pictures)
            }
        };
        before || self.readers.iter().any(|it| it(file))
    }
}

/// Code by definition, notes with their tags, mails of a mailbox and books by their names.
fn reads_by_definition(file: &FileRecord) -> bool {
    file.state != FileState::Unsupported
        && matches!(
            file.kind,
            FileKind::Code | FileKind::Markdown | FileKind::Mail | FileKind::Book
        )
}

/// All pages of TIFF files; pictures on sheets, in books and pages of the web; files in `.msg` mails; OneNote and
/// Outlook's archives, and whatever lies in an archive.
fn reads_pages_and_pictures(file: &FileRecord) -> bool {
    let ending = file.path.extension().unwrap_or_default().to_ascii_lowercase();
    let ends = |all: &[&str]| all.iter().any(|it| ending == *it);
    match file.kind {
        _ if file.state == FileState::Unsupported => ends(&["one", "pst", "ost"]),
        FileKind::Image => ends(&["tif", "tiff"]),
        FileKind::Mail => true,
        FileKind::Spreadsheet => ends(&["xlsx", "xlsm", "xltx", "ods"]),
        FileKind::Html | FileKind::Archive => true,
        FileKind::Book => ends(&["epub", "fb2"]),
        _ => false,
    }
}

/// Code by its definitions alone; Outlook's files with their people and days, and its own copies of mailboxes; days of
/// a series, groups of people; pictures in workbooks of other forms; and whatever of these lies in an archive.
fn reads_people_and_days(file: &FileRecord) -> bool {
    let ending = file.path.extension().unwrap_or_default().to_ascii_lowercase();
    let ends = |all: &[&str]| all.iter().any(|it| ending == *it);
    match file.kind {
        _ if file.state == FileState::Unsupported => ends(&["ost", "pst"]),
        FileKind::Code | FileKind::Mail | FileKind::Archive => true,
        FileKind::Calendar | FileKind::Contacts => true,
        FileKind::Spreadsheet => ends(&["xls", "xlsb", "fods"]),
        _ => false,
    }
}

/// Calendars and address books whose lines cut letters in two; mails and mailboxes, with `winmail.dat`; tables with
/// lines above their columns; days and places of photographs; and whatever of these lies in an archive.
fn reads_folded_lines(file: &FileRecord) -> bool {
    let ending = file.path.extension().unwrap_or_default().to_ascii_lowercase();
    let ends = |all: &[&str]| all.iter().any(|it| ending == *it);
    match file.kind {
        _ if file.state == FileState::Unsupported => ends(&["dat"]),
        FileKind::Calendar | FileKind::Contacts | FileKind::Mail | FileKind::Archive => true,
        FileKind::Spreadsheet => ends(&["csv"]),
        // Nothing was known of them: the others were read for their words.
        FileKind::Image => file.state == FileState::NoText,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use riddle_catalog::FileId;

    use super::*;

    fn file(name: &str, kind: FileKind, state: FileState) -> FileRecord {
        FileRecord {
            id: FileId(1),
            path: name.into(),
            state,
            reason: String::new(),
            kind,
            bytes: 0,
            modified: 0,
            chunks: 0,
            warnings: Vec::new(),
            changed: None,
        }
    }

    fn queued(with: &[&str], tools: &[&str]) -> Vec<&'static str> {
        let anew = Anew::of(tools, |it| !with.contains(&it));
        let files = [
            ("fax.tif", FileKind::Image, FileState::Indexed),
            ("photo.jpg", FileKind::Image, FileState::NoText),
            ("costs.xlsx", FileKind::Spreadsheet, FileState::Indexed),
            ("costs.csv", FileKind::Spreadsheet, FileState::Indexed),
            ("Notes.ONE", FileKind::Other, FileState::Unsupported),
            ("film.mp4", FileKind::Other, FileState::Unsupported),
            ("a.md", FileKind::Markdown, FileState::Indexed),
            ("a.docx", FileKind::Document, FileState::Indexed),
            ("old.xls", FileKind::Spreadsheet, FileState::Indexed),
            ("year.ics", FileKind::Calendar, FileState::Indexed),
        ];
        let wanted = |it: &&(&str, FileKind, FileState)| {
            anew.states().contains(&it.2) && anew.finds_more(&file(it.0, it.1, it.2))
        };
        files.iter().filter(wanted).map(|it| it.0).collect()
    }

    #[test]
    fn each_change_queues_its_files_once() {
        let all: Vec<&str> = marks().collect();
        let without = |mark: &str| -> Vec<&str> {
            let with: Vec<&str> = all.iter().copied().filter(|it| *it != mark).collect();
            queued(&with, &[])
        };
        assert!(queued(&all, &[]).is_empty());
        assert_eq!(without("readers-5"), ["photo.jpg", "costs.csv", "year.ics"]);
        assert_eq!(without("readers-4"), ["old.xls", "year.ics"]);
        assert_eq!(without("readers-3"), ["fax.tif", "costs.xlsx", "Notes.ONE"]);
        assert_eq!(without("readers-2"), ["a.md"]);
        assert_eq!(without(PICTURES_IN_FILES), ["a.docx"]);
        assert_eq!(queued(&all, &["ocr"]), ["photo.jpg"]);
    }
}
