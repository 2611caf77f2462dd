//! What is known about a file besides its text.

use serde::{Deserialize, Serialize};

/// Format family of a file, decided by name and content; one parser route each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// Plain text, logs, subtitles.
    Text,
    /// Markdown.
    Markdown,
    /// Source code and configuration.
    Code,
    /// HTML pages.
    Html,
    /// PDF.
    Pdf,
    /// Word processor files (DOCX, DOC, ODT, RTF).
    Document,
    /// Slides (PPTX, PPT, ODP).
    Presentation,
    /// Tables (XLSX, XLS, ODS, CSV, TSV).
    Spreadsheet,
    /// Mail messages and mailboxes (EML, MSG, mbox, maildir).
    Mail,
    /// Books (EPUB, FB2).
    Book,
    /// Calendars (ICS).
    Calendar,
    /// Address books (VCF).
    Contacts,
    /// Pages that a browser remembers (Firefox, Chrome and its kin).
    History,
    /// Pictures: what a photograph says of itself.
    Image,
    /// Archives (ZIP, TAR): the files in them.
    Archive,
    /// Nothing Riddle reads.
    Other,
}

impl FileKind {
    /// All kinds, in display order.
    pub const ALL: [FileKind; 16] = [
        FileKind::Text,
        FileKind::Markdown,
        FileKind::Code,
        FileKind::Html,
        FileKind::Pdf,
        FileKind::Document,
        FileKind::Presentation,
        FileKind::Spreadsheet,
        FileKind::Mail,
        FileKind::Book,
        FileKind::Calendar,
        FileKind::Contacts,
        FileKind::History,
        FileKind::Image,
        FileKind::Archive,
        FileKind::Other,
    ];

    /// The name used in JSON, on the command line and in the indexes.
    pub fn as_str(self) -> &'static str {
        match self {
            FileKind::Text => "text",
            FileKind::Markdown => "markdown",
            FileKind::Code => "code",
            FileKind::Html => "html",
            FileKind::Pdf => "pdf",
            FileKind::Document => "document",
            FileKind::Presentation => "presentation",
            FileKind::Spreadsheet => "spreadsheet",
            FileKind::Mail => "mail",
            FileKind::Book => "book",
            FileKind::Calendar => "calendar",
            FileKind::Contacts => "contacts",
            FileKind::History => "history",
            FileKind::Image => "image",
            FileKind::Archive => "archive",
            FileKind::Other => "other",
        }
    }

    /// The kind of that name, if there is one.
    pub fn parse(name: &str) -> Option<FileKind> {
        FileKind::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// The state of every file Riddle has seen: the ledger's vocabulary.
///
/// A file is always in exactly one state; nothing is skipped without one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileState {
    /// Seen, waiting to be read.
    Pending,
    /// Its chunks are in the catalog.
    Indexed,
    /// Read without error, and there is no text in it (a scan, an empty file, an image).
    NoText,
    /// A placeholder whose bytes are in the cloud; reading it would download it.
    CloudOnly,
    /// Above the size limit.
    TooLarge,
    /// Could not be read or parsed; the reason is recorded.
    Failed,
    /// Left out by a rule; the rule is recorded.
    Excluded,
    /// A format Riddle has no parser for.
    Unsupported,
}

impl FileState {
    /// All states, in display order.
    pub const ALL: [FileState; 8] = [
        FileState::Indexed,
        FileState::Pending,
        FileState::NoText,
        FileState::CloudOnly,
        FileState::TooLarge,
        FileState::Unsupported,
        FileState::Failed,
        FileState::Excluded,
    ];

    /// The name used in JSON and in the catalog.
    pub fn as_str(self) -> &'static str {
        match self {
            FileState::Pending => "pending",
            FileState::Indexed => "indexed",
            FileState::NoText => "no_text",
            FileState::CloudOnly => "cloud_only",
            FileState::TooLarge => "too_large",
            FileState::Failed => "failed",
            FileState::Excluded => "excluded",
            FileState::Unsupported => "unsupported",
        }
    }

    /// The state of that name, if there is one.
    pub fn parse(name: &str) -> Option<FileState> {
        FileState::ALL.into_iter().find(|state| state.as_str() == name)
    }
}

/// A file as the scan saw it: metadata only, nothing read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEntry {
    /// Path relative to its root; may hold bytes that are not UTF-8.
    pub relative_path: std::path::PathBuf,
    /// Size in bytes.
    pub size: u64,
    /// Modification time in nanoseconds since 1970.
    pub modified_ns: i64,
    /// Identity on its volume (device and inode on Unix), used to follow renames.
    pub volume_id: Option<(u64, u64)>,
    /// What to do with it.
    pub verdict: ScanVerdict,
}

/// What tells a folder from another one, wherever it lies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FolderIdentity {
    /// Its volume's number and its own there (device and inode on Unix). Volumes are numbered anew when they are
    /// mounted.
    pub volume_id: Option<(u64, u64)>,
    /// A name of its file system that stays, and where it lies there; `None` where the system tells of none.
    pub place: Option<FolderPlace>,
}

/// A place on a disk or a network share, wherever that is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderPlace {
    /// The disk's UUID or the share's address.
    pub file_system: String,
    /// The folder, from the file system's own root on.
    pub within: std::path::PathBuf,
}

/// Whether a scanned file is to be read, or the state it gets without reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScanVerdict {
    /// Read and index it.
    Read,
    /// Record this state and reason; do not open the file.
    Skip(FileState, String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for kind in FileKind::ALL {
            assert_eq!(FileKind::parse(kind.as_str()), Some(kind));
            assert_eq!(serde_json_name(&format!("{kind:?}")), kind.as_str());
        }
        for state in FileState::ALL {
            assert_eq!(FileState::parse(state.as_str()), Some(state));
            assert_eq!(serde_json_name(&format!("{state:?}")), state.as_str());
        }
    }

    /// snake_case of a variant name, as serde's `rename_all` makes it.
    fn serde_json_name(variant: &str) -> String {
        let mut name = String::new();
        for (i, c) in variant.chars().enumerate() {
            if c.is_uppercase() && i > 0 {
                name.push('_');
            }
            name.extend(c.to_lowercase());
        }
        name
    }
}
