//! What ingestion makes of a file.

use serde::{Deserialize, Serialize};

/// Where in a file a passage is, in the terms of the file's own format.
///
/// Serialized with a `kind` tag, as the command line's JSON promises. Numbers count from 1.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Location {
    /// Lines of a text or source file, both ends included.
    Line {
        /// First line.
        start: u32,
        /// Last line.
        end: u32,
    },
    /// Pages of a paginated document, both ends included.
    Page {
        /// First page.
        start: u32,
        /// Last page.
        end: u32,
    },
    /// Paragraphs under a heading of a flowing document (DOCX, HTML, ODT).
    Section {
        /// Headings from the outermost to the innermost; empty before the first heading.
        path: Vec<String>,
        /// First paragraph, counted over the whole document.
        paragraph: u32,
    },
    /// A slide of a presentation.
    Slide {
        /// Slide number.
        number: u32,
    },
    /// Rows of a spreadsheet or table file, both ends included.
    Rows {
        /// Sheet name; empty where the format has none.
        sheet: String,
        /// First row.
        start: u32,
        /// Last row.
        end: u32,
    },
    /// A rectangle of cells of a spreadsheet, all ends included.
    Cells {
        /// Sheet name.
        sheet: String,
        /// First column; A is 1.
        left: u32,
        /// First row.
        top: u32,
        /// Last column.
        right: u32,
        /// Last row.
        bottom: u32,
    },
    /// A part of a mail message.
    Message {
        /// `body`, `headers`, or an attachment's name.
        part: String,
        /// First paragraph inside the part, from 1.
        #[serde(alias = "line")]
        paragraph: u32,
    },
    /// A place in a file that lies in the file: of an archive, of a mailbox, attached to a mail, a notebook's cell.
    Part {
        /// Its name in there; several, where they lie in each other, with ` › ` between them.
        name: String,
        /// The place in it.
        inside: Box<Location>,
    },
    /// The file as a whole: the format gives no finer position.
    Whole,
}

impl std::fmt::Display for Location {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let span = |f: &mut std::fmt::Formatter<'_>, word: &str, start: u32, end: u32| {
            if start == end {
                write!(f, "{word} {start}")
            } else {
                write!(f, "{word}s {start}–{end}")
            }
        };
        match self {
            Location::Line { start, end } => span(f, "line", *start, *end),
            Location::Page { start, end } => span(f, "page", *start, *end),
            Location::Section { path, paragraph } if path.is_empty() => {
                write!(f, "paragraph {paragraph}")
            }
            Location::Section { path, paragraph } => {
                write!(f, "{}, paragraph {paragraph}", path.join(" › "))
            }
            Location::Slide { number } => write!(f, "slide {number}"),
            Location::Rows { sheet, start, end } => {
                if !sheet.is_empty() {
                    write!(f, "{sheet}, ")?;
                }
                span(f, "row", *start, *end)
            }
            Location::Cells { sheet, left, top, right, bottom } => {
                if !sheet.is_empty() {
                    write!(f, "{sheet}!")?;
                }
                write!(f, "{}{top}", column_letters(*left))?;
                if (left, top) != (right, bottom) {
                    write!(f, ":{}{bottom}", column_letters(*right))?;
                }
                Ok(())
            }
            Location::Message { part, paragraph } => {
                let part = if part == "body" { "message" } else { part };
                write!(f, "{part}, paragraph {paragraph}")
            }
            Location::Part { name, inside } if **inside == Location::Whole => f.write_str(name),
            Location::Part { name, inside } => write!(f, "{name}, {inside}"),
            Location::Whole => f.write_str("whole file"),
        }
    }
}

/// The letters of a spreadsheet's column: 1 is A, 28 is AB.
pub fn column_letters(column: u32) -> String {
    let mut letters = Vec::new();
    let mut rest = column;
    while rest > 0 {
        rest -= 1;
        letters.push(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"[(rest % 26) as usize]);
        rest /= 26;
    }
    letters.into_iter().rev().map(char::from).collect()
}

/// What a block of a parsed document is; the chunker treats each its own way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockKind {
    /// A heading; level 1 is the outermost.
    Heading(u8),
    /// Running text.
    Paragraph,
    /// An item of a list.
    ListItem,
    /// Source code or preformatted text: line breaks carry meaning.
    Code,
    /// Source code that defines something with a name, a function or a short class: a passage of its own.
    Definition,
    /// A table, rows on lines of their own.
    Table,
    /// A table that is nearly all numbers, rows on lines of their own: words find it, its meaning is not looked for.
    Numbers,
}

/// One structural unit of a parsed document, in reading order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// What it is.
    pub kind: BlockKind,
    /// Its text, without markup.
    pub text: String,
    /// Where it is.
    pub location: Location,
    /// What stands above every part of it if it has to be cut: the names of a table's columns; of source code what it
    /// is defined in, outermost first, joined by ` › `. Not in `text`; empty for all else.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub header: String,
}

impl Block {
    /// A block without a header.
    pub fn new(kind: BlockKind, text: String, location: Location) -> Block {
        Block { kind, text, location, header: String::new() }
    }
}

/// A parsed file: text with structure, and what went wrong on the way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    /// The title the file states about itself, if any.
    pub title: Option<String>,
    /// Tags that the file gives itself, as [`tag_name`](crate::tag_name) makes them, each once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Blocks in reading order.
    pub blocks: Vec<Block>,
    /// ISO 639-1 code of the main language, when detection was confident.
    pub language: Option<String>,
    /// Things the parser skipped or guessed; shown in the ledger, never an error.
    pub warnings: Vec<String>,
}

/// Identity of a chunk in the catalog; never reused, so a derived index can not confuse two chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ChunkId(pub u64);

/// When a passage gets its vector.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum VectorTurn {
    /// Prose: among the first.
    #[default]
    Early,
    /// Rows of a table: when all prose has its vectors.
    Late,
    /// Columns of numbers: never, words alone find it.
    Never,
}

impl VectorTurn {
    /// The number it has in the catalog.
    pub fn number(self) -> u8 {
        match self {
            VectorTurn::Early => 0,
            VectorTurn::Late => 1,
            VectorTurn::Never => 2,
        }
    }
}

/// A passage of a document: the unit that is indexed, ranked and cited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// Position among the chunks of its document, from 0.
    pub ordinal: u32,
    /// The passage as shown and cited.
    pub text: String,
    /// Headings above it, outermost first, joined by ` › `; empty if none.
    pub heading: String,
    /// Where it is.
    pub location: Location,
    /// Its length in tokens of the embedder that the chunker was given.
    pub tokens: u32,
    /// When it gets its vector.
    #[serde(default)]
    pub turn: VectorTurn,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_named_as_in_a_spreadsheet() {
        let cells = |left, top, right, bottom| {
            Location::Cells { sheet: "Flour".to_owned(), left, top, right, bottom }.to_string()
        };
        assert_eq!(cells(2, 12, 6, 40), "Flour!B12:F40");
        assert_eq!(cells(28, 3, 28, 3), "Flour!AB3");
        assert_eq!(column_letters(16_384), "XFD");
        assert_eq!(column_letters(26), "Z");
    }
}
