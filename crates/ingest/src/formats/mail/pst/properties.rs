//! What a node says of itself: properties by their numbers (MS-PST 2.3).
//!
//! The blocks of such a node are a heap of small pieces, and one of them begins a tree of properties. What is too large
//! for a piece is a node below. An unknown kind of property ends nothing.

use std::{borrow::Cow, collections::BTreeMap};

use encoding_rs::{Encoding, UTF_8, UTF_16LE, WINDOWS_1252};

use super::store::{Node, Store, number};
use crate::remark::Remark;

/// Most properties of one thing, and most pieces that name them: real ones have a hundred.
const MOST: usize = 5_000;

/// Levels of a tree of properties.
const DEEPEST: u8 = 4;

/// Kinds of values: short numbers stand where others say where they are.
const SHORT: [u16; 5] = [2, 3, 4, 10, 11];
const LONG: [u16; 4] = [5, 6, 20, 64];
const TEXT: u16 = 0x1E;
const WIDE_TEXT: u16 = 0x1F;
const OBJECT: u16 = 0x0D;

/// A thing with properties: a folder, a mail, an attachment.
pub(super) struct Properties<'a> {
    store: &'a Store<'a>,
    heap: Vec<Vec<u8>>,
    /// Kind and value, or where it is.
    all: BTreeMap<u16, (u16, u32)>,
    pub(super) below: BTreeMap<u32, Node>,
}

impl<'a> Properties<'a> {
    pub(super) fn of(store: &'a Store<'a>, node: &Node) -> Result<Properties<'a>, Remark> {
        /// Marks of a heap, and of a tree in one.
        const HEAP: u8 = 0xEC;
        const TREE: u64 = 0xB5;
        let heap = store.blocks(node)?;
        let below = store.below(node);
        let mut read = Properties { store, heap, all: BTreeMap::new(), below };
        let first = read.heap.first().ok_or(Remark::Damaged)?;
        if first.get(2) != Some(&HEAP) {
            return Err(Remark::Damaged);
        }
        let root = number(first, 4, 4).ok_or(Remark::Damaged)? as u32;
        let head = read.piece(root).ok_or(Remark::Damaged)?;
        let part = |at, size| number(head, at, size);
        let (mark, key, value) = (part(0, 1), part(1, 1), part(2, 1));
        if (mark, key, value) != (Some(TREE), Some(2), Some(6)) {
            return Err(Remark::Damaged);
        }
        let levels = head.get(3).copied().filter(|it| *it <= DEEPEST).ok_or(Remark::Damaged)?;
        let tree = part(4, 4).ok_or(Remark::Damaged)? as u32;
        let mut all = BTreeMap::new();
        read.leaves(tree, levels, &mut { MOST }, &mut all);
        read.all = all;
        Ok(read)
    }

    /// A piece of the heap: five bits are 0, eleven number it, from 1, and sixteen number its block.
    fn piece(&self, place: u32) -> Option<&[u8]> {
        if place & 0x1F != 0 {
            return None;
        }
        let (index, block) = ((place >> 5 & 0x7FF) as usize, (place >> 16) as usize);
        let block = self.heap.get(block)?;
        let map = number(block, 0, 2)? as usize;
        let count = number(block, map, 2)? as usize;
        if index == 0 || index > count {
            return None;
        }
        let at = |index: usize| number(block, map + 4 + 2 * index, 2).map(|it| it as usize);
        block.get(at(index - 1)?..at(index)?)
    }

    /// Reads pieces until none are `left`: a tree may lead to one in many ways.
    fn leaves(&self, place: u32, level: u8, left: &mut usize, to: &mut BTreeMap<u16, (u16, u32)>) {
        let Some(piece) = self.piece(place).filter(|_| *left > 0) else { return };
        *left -= 1;
        let part = |it: &[u8], at, size| number(it, at, size).unwrap_or(0) as u32;
        if level == 0 {
            for entry in piece.chunks_exact(8).take(MOST) {
                to.insert(part(entry, 0, 2) as u16, (part(entry, 2, 2) as u16, part(entry, 4, 4)));
            }
            return;
        }
        for entry in piece.chunks_exact(6) {
            self.leaves(part(entry, 2, 4), level - 1, left, to);
        }
    }

    /// A number, if the property is one.
    pub(super) fn number(&self, id: u16) -> Option<u64> {
        let (kind, value) = *self.all.get(&id)?;
        if SHORT.contains(&kind) {
            return Some(u64::from(value));
        }
        LONG.contains(&kind).then(|| number(self.piece(value)?, 0, 8)).flatten()
    }

    /// The bytes of a property that is longer than a number.
    pub(super) fn bytes(&self, id: u16) -> Option<Cow<'_, [u8]>> {
        let (kind, value) = *self.all.get(&id)?;
        if SHORT.contains(&kind) || LONG.contains(&kind) || kind == OBJECT || value == 0 {
            return None;
        }
        match self.piece(value) {
            Some(piece) => Some(Cow::Borrowed(piece)),
            None => self.store.data(self.below.get(&value)?).ok().map(Cow::Owned),
        }
    }

    /// The node that a property is.
    pub(super) fn object(&self, id: u16) -> Option<&Node> {
        let (kind, value) = *self.all.get(&id)?;
        if kind != OBJECT {
            return None;
        }
        self.below.get(&(number(self.piece(value)?, 0, 4)? as u32))
    }

    /// A text, without zeros at its end; bytes are in the encoding of the thing.
    pub(super) fn text(&self, id: u16) -> Option<String> {
        let encoding = match self.all.get(&id)?.0 {
            WIDE_TEXT => UTF_16LE,
            TEXT => self.encoding(),
            _ => return None,
        };
        let bytes = self.bytes(id)?;
        let text = encoding.decode_without_bom_handling(&bytes).0;
        Some(text.trim_end_matches('\0').to_owned()).filter(|it| !it.is_empty())
    }

    /// A text that may be kept as bytes in the encoding of a page, as one of the web is.
    pub(super) fn page(&self, id: u16) -> Option<String> {
        let (kind, bytes) = (self.all.get(&id)?.0, self.bytes(id)?);
        if matches!(kind, TEXT | WIDE_TEXT) {
            return self.text(id);
        }
        Some(self.encoding().decode(&bytes).0.into_owned()).filter(|it| !it.is_empty())
    }

    /// What letters are written in: the code page of the internet, or of the message.
    fn encoding(&self) -> &'static Encoding {
        const PAGES: [u16; 2] = [0x3FDE, 0x3FFD];
        let page = PAGES.into_iter().find_map(|it| self.number(it)).unwrap_or(1252);
        let label = match page {
            65001 => return UTF_8,
            932 => "shift_jis".to_owned(),
            936 => "gbk".to_owned(),
            949 => "euc-kr".to_owned(),
            950 => "big5".to_owned(),
            20866 => "koi8-r".to_owned(),
            21866 => "koi8-u".to_owned(),
            50220..=50222 => "iso-2022-jp".to_owned(),
            51932 => "euc-jp".to_owned(),
            51949 => "euc-kr".to_owned(),
            54936 => "gb18030".to_owned(),
            28591..=28605 => format!("iso-8859-{}", page - 28590),
            other => format!("windows-{other}"),
        };
        Encoding::for_label(label.as_bytes()).unwrap_or(WINDOWS_1252)
    }
}
