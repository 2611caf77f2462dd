//! Nodes and their bytes: the lowest layer of a file of Outlook's (MS-PST 2.2).
//!
//! Two trees of pages say where each block lies and which blocks a node has. Whatever a page, a block or a tree says of
//! itself, nothing is read twice on its way down, and no more than a limit is put together.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashSet},
    io::Read as _,
};

use flate2::read::ZlibDecoder;

use super::crypt::Crypt;
use crate::{kind::OUTLOOK_STORE, remark::Remark};

/// Bytes of a page of a tree: in a PST, and in Outlook's own copies of mailboxes since 2013.
const PAGE: usize = 512;
const LARGE_PAGE: usize = 4096;

/// Deepest tree of pages: eight levels reach more blocks than there are bytes.
const DEEPEST: u32 = 8;

/// Most bytes of one node: an attachment, as [`LARGEST_PART`](super::super::super::LARGEST_PART) says.
pub(super) const LARGEST_NODE: usize = 64 << 20;

/// Most nodes below one: attachments, receivers, and long texts.
const MOST_BELOW: usize = 20_000;

/// Most blocks that list them: one lists 340, and one of a large page more.
const MOST_LISTS: usize = 200;

/// What a node is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    pub(super) id: u32,
    data: u64,
    below: u64,
    /// The node it lies in; a node below another has none.
    pub(super) parent: u32,
}

/// Where a block lies.
#[derive(Debug, Clone, Copy)]
struct Block {
    at: u64,
    bytes: usize,
    /// Bytes that it has unpacked; as many if it is not packed.
    unpacked: usize,
}

/// An open file.
pub(super) struct Store<'a> {
    bytes: &'a [u8],
    /// Numbers are of eight bytes, not of four.
    wide: bool,
    /// Pages are of 4096 bytes, and blocks may be packed.
    pub(super) large: bool,
    crypt: Crypt,
    blocks: BTreeMap<u64, Block>,
    pub(super) nodes: BTreeMap<u32, Node>,
}

impl<'a> Store<'a> {
    pub(super) fn open(bytes: &'a [u8]) -> Result<Store<'a>, Remark> {
        /// Version from which on numbers are of eight bytes, and that of Outlook's own copies with larger pages: those
        /// MS-PST does not know, they are read as libpff and XstReader do.
        const WIDE: u64 = 23;
        const LARGE_PAGES: u64 = 36;
        // What is left of one may be shorter than the mark.
        if !bytes.starts_with(OUTLOOK_STORE) && !OUTLOOK_STORE.starts_with(bytes) {
            return Err(Remark::NotOutlook);
        }
        if !is_store(bytes) {
            return Err(Remark::Damaged);
        }
        let version = number(bytes, 10, 2).ok_or(Remark::Damaged)?;
        if version > LARGE_PAGES {
            return Err(Remark::OutlookCopy);
        }
        let (wide, large) = (version >= WIDE, version == LARGE_PAGES);
        // Where the tree of nodes begins, that of blocks, and how bytes are hidden.
        let (nodes, blocks, hidden) = if wide { (224, 240, 513) } else { (188, 196, 461) };
        let crypt =
            Crypt::of(*bytes.get(hidden).ok_or(Remark::Damaged)?).ok_or(Remark::Password)?;
        let mut store =
            Store { bytes, wide, large, crypt, blocks: BTreeMap::new(), nodes: BTreeMap::new() };
        let size = store.size();
        let at = |at| number(bytes, at, size).ok_or(Remark::Damaged);
        let (nodes, blocks) = (at(nodes)?, at(blocks)?);
        store.walk(blocks, 0, &mut HashSet::new(), &mut |store, entry| {
            let id = number(entry, 0, size)?;
            let at = number(entry, size, size)?;
            let bytes = number(entry, 2 * size, 2)? as usize;
            let unpacked = if large { number(entry, 2 * size + 2, 2)? as usize } else { bytes };
            store.blocks.insert(id & !1, Block { at, bytes, unpacked });
            Some(())
        });
        store.walk(nodes, 0, &mut HashSet::new(), &mut |store, entry| {
            let id = number(entry, 0, 4)? as u32;
            let data = number(entry, size, size)?;
            let below = number(entry, 2 * size, size)?;
            let parent = number(entry, 3 * size, 4)? as u32;
            store.nodes.insert(id, Node { id, data, below, parent });
            Some(())
        });
        if store.nodes.is_empty() { Err(Remark::Damaged) } else { Ok(store) }
    }

    /// Whether the file is as long as it says.
    pub(super) fn is_whole(&self) -> bool {
        let at = if self.wide { 184 } else { 168 };
        number(self.bytes, at, self.size()).is_some_and(|it| it <= self.bytes.len() as u64)
    }

    fn size(&self) -> usize {
        if self.wide { 8 } else { 4 }
    }

    /// Gives every entry of the leaves of a tree to `take`; what is damaged is passed over.
    fn walk(
        &mut self,
        at: u64,
        depth: u32,
        seen: &mut HashSet<u64>,
        take: &mut dyn FnMut(&mut Self, &[u8]) -> Option<()>,
    ) {
        if depth > DEEPEST || !seen.insert(at) {
            return;
        }
        let large = if self.large { LARGE_PAGE } else { PAGE };
        let Some(page) = some(self.bytes, at, large) else { return };
        // Entries, then how many there are, how many there can be, their size, and the level of the page.
        let (end, counts) = match (self.large, self.wide) {
            (true, _) => (4056, 2),
            (false, true) => (488, 1),
            (false, false) => (496, 1),
        };
        let count = number(page, end, counts).unwrap_or(0) as usize;
        let (length, level) = (usize::from(page[end + 2 * counts]), page[end + 2 * counts + 1]);
        let size = self.size();
        if length < size {
            return;
        }
        for entry in page[..end].chunks_exact(length).take(count) {
            if level == 0 {
                take(self, entry);
            } else if let Some(next) = number(entry, 2 * size, size) {
                self.walk(next, depth + 1, seen, take);
            }
        }
    }

    /// The blocks of a node, unhidden, in their order.
    pub(super) fn blocks(&self, node: &Node) -> Result<Vec<Vec<u8>>, Remark> {
        let mut all = Vec::new();
        let mut left = LARGEST_NODE;
        self.gather(node.data, 2, &mut left, &mut all)?;
        Ok(all)
    }

    /// The bytes of a node.
    pub(super) fn data(&self, node: &Node) -> Result<Vec<u8>, Remark> {
        self.blocks(node).map(|it| it.concat())
    }

    /// Blocks of a tree of `levels` above those with data.
    fn gather(
        &self,
        id: u64,
        levels: u32,
        left: &mut usize,
        to: &mut Vec<Vec<u8>>,
    ) -> Result<(), Remark> {
        /// Kind of a block that names others.
        const NAMES: u8 = 1;
        /// What an empty block counts as: a tree of them has no end otherwise.
        const LEAST: usize = 64;
        if id == 0 {
            return Ok(());
        }
        let block = self.block(id)?;
        *left = left.checked_sub(block.len().max(LEAST)).ok_or(Remark::TooMuch)?;
        // An internal block is marked so, and not hidden.
        if id & 2 == 0 {
            let mut block = block.into_owned();
            self.crypt.show(&mut block, id as u32);
            to.push(block);
            return Ok(());
        }
        let levels = levels.checked_sub(1).ok_or(Remark::Damaged)?;
        let count = number(&block, 2, 2).ok_or(Remark::Damaged)? as usize;
        if block.first() != Some(&NAMES) {
            return Err(Remark::Damaged);
        }
        for id in block[8.min(block.len())..].chunks_exact(self.size()).take(count) {
            self.gather(number(id, 0, self.size()).ok_or(Remark::Damaged)?, levels, left, to)?;
        }
        Ok(())
    }

    /// The bytes of a block, as they are hidden.
    fn block(&self, id: u64) -> Result<Cow<'a, [u8]>, Remark> {
        let block = self.blocks.get(&(id & !1)).ok_or(Remark::Damaged)?;
        let bytes = some(self.bytes, block.at, block.bytes).ok_or(Remark::Damaged)?;
        if block.unpacked == block.bytes {
            return Ok(Cow::Borrowed(bytes));
        }
        // It has 64 KiB at most, whatever it is packed into.
        let mut unpacked = Vec::with_capacity(block.unpacked);
        let read = ZlibDecoder::new(bytes).take(block.unpacked as u64).read_to_end(&mut unpacked);
        match read {
            Ok(length) if length == block.unpacked => Ok(Cow::Owned(unpacked)),
            _ => Err(Remark::Damaged),
        }
    }

    /// The nodes below a node, by their numbers.
    pub(super) fn below(&self, node: &Node) -> BTreeMap<u32, Node> {
        let mut all = BTreeMap::new();
        // What could be read of a damaged one is good.
        let _ = self.list(node.below, 1, &mut { MOST_LISTS }, &mut all);
        all
    }

    /// Reads blocks until none are `left`: one may be named by many.
    fn list(
        &self,
        id: u64,
        levels: u32,
        left: &mut usize,
        to: &mut BTreeMap<u32, Node>,
    ) -> Result<(), Remark> {
        /// Kind of a block that lists nodes.
        const LISTS: u8 = 2;
        if id == 0 {
            return Ok(());
        }
        *left = left.checked_sub(1).ok_or(Remark::TooMany)?;
        let block = self.block(id)?;
        let [kind, level, ..] = *block.as_ref() else { return Err(Remark::Damaged) };
        let size = self.size();
        let count = number(&block, 2, 2).ok_or(Remark::Damaged)? as usize;
        let length = size * if level == 0 { 3 } else { 2 };
        if kind != LISTS {
            return Err(Remark::Damaged);
        }
        for entry in block[size.min(block.len())..].chunks_exact(length).take(count) {
            let value = |at: usize| number(entry, at * size, size).unwrap_or(0);
            if to.len() >= MOST_BELOW {
                return Err(Remark::TooMany);
            }
            if level == 0 {
                let id = value(0) as u32;
                to.insert(id, Node { id, data: value(1), below: value(2), parent: 0 });
            } else {
                let levels = levels.checked_sub(1).ok_or(Remark::Damaged)?;
                self.list(value(1), levels, left, to)?;
            }
        }
        Ok(())
    }
}

/// Whether a file begins as Outlook's do.
pub(super) fn is_store(bytes: &[u8]) -> bool {
    bytes.starts_with(OUTLOOK_STORE) && matches!(bytes.get(8..10), Some(b"SM" | b"SO"))
}

/// A number of up to eight bytes, the lowest first.
pub(super) fn number(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(size)?)?;
    Some(bytes.iter().rev().fold(0, |all, it| all << 8 | u64::from(*it)))
}

fn some(bytes: &[u8], at: u64, count: usize) -> Option<&[u8]> {
    let at = usize::try_from(at).ok()?;
    bytes.get(at..at.checked_add(count)?)
}
