//! Pictures that can be read later: pages of PDFs, files that are pictures, and those in documents, archives and mails.
//!
//! Each has a number, by which it is found again when its turn comes: of a PDF the page, of a document the place among
//! its pictures; a file that is one has the 1. Of what lies in an archive or a mail that stands in the lower bits, and
//! in the upper ones which of the files it is, as they are unpacked: whoever looks for it unpacks what lies before it,
//! as it was unpacked then and within the same limits, and reads none of it.

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use riddle_ocr::Picture;
use riddle_types::{Block, BlockKind, FileKind};

use crate::{outcome::ParseOutcome, protocol::Reply, tools::Tools};

/// Most pictures in one file that are read: some 25 minutes of work. Reports and presentations have dozens.
pub(crate) const MOST_PICTURES: usize = 500;

/// Bits of a number that count pages or pictures of a file in the file.
const PAGE_BITS: u32 = 16;

/// Smaller ones are icons, logos and lines: the longer side in points, the shorter, and bytes.
const SMALLEST: (u32, u32, usize) = (100, 60, 1 << 10);

/// Reads one picture of a file with that name: its number is that of a page, or among those of a document.
pub(crate) type See = fn(&str, FileKind, &[u8], u32, &Tools) -> Reply;

/// Which pictures can be read later.
#[derive(Debug, Default)]
pub(crate) struct Pictures {
    /// Their numbers, in the order in which they were found.
    pub(crate) numbers: Vec<u32>,
    /// What was looked at: a logo stands in every mail.
    known: HashSet<u64>,
    /// Whether there are more than the limit.
    pub(crate) beyond: bool,
}

impl Pictures {
    /// Whether a picture may hold text and was not there before.
    pub(super) fn is_new(&mut self, bytes: &[u8]) -> bool {
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        self.known.insert(hasher.finish()) && may_hold_text(bytes)
    }

    /// Notes a page or a picture of a part.
    pub(super) fn note(&mut self, part: u32, page: u32) {
        if self.numbers.len() >= MOST_PICTURES || page >> PAGE_BITS > 0 {
            self.beyond = true;
        } else {
            self.numbers.push(part << PAGE_BITS | page);
        }
    }
}

/// The part of a file that a number is of, and its page or picture; part 0 is the file itself.
pub(crate) fn place_of(number: u32) -> (u32, u32) {
    (number >> PAGE_BITS, number & ((1 << PAGE_BITS) - 1))
}

fn may_hold_text(bytes: &[u8]) -> bool {
    let (longer, shorter, fewest) = SMALLEST;
    bytes.len() >= fewest
        && Picture::size_of(bytes).is_some_and(|(width, height)| {
            width.max(height) >= longer && width.min(height) >= shorter
        })
}

/// Headings of a picture are no headings of the file that it lies in: what follows there is not below them.
pub(crate) fn flatten(blocks: &mut [Block]) {
    for block in blocks.iter_mut().filter(|it| matches!(it.kind, BlockKind::Heading(_))) {
        block.kind = BlockKind::Paragraph;
    }
}

/// A picture that is looked for, and what it says once it is found.
#[derive(Debug)]
pub(super) struct Wanted {
    place: (u32, u32),
    see: See,
    pub(super) seen: Option<Reply>,
}

impl Wanted {
    pub(super) fn new(number: u32, see: See) -> Wanted {
        Wanted { place: place_of(number), see, seen: None }
    }

    /// What it says, if it is of this part.
    pub(super) fn look(
        &mut self,
        part: u32,
        name: &str,
        kind: FileKind,
        bytes: &[u8],
        tools: &Tools,
    ) -> Option<&Reply> {
        let (wanted, page) = self.place;
        if part != wanted {
            return None;
        }
        let mut reply = (self.see)(name, kind, bytes, page, tools);
        if let ParseOutcome::Parsed(document) = &mut reply.outcome
            && kind != FileKind::Pdf
        {
            flatten(&mut document.blocks);
        }
        Some(self.seen.insert(reply))
    }
}

#[cfg(test)]
mod tests;
