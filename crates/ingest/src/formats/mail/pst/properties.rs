//! What a node says of itself: properties by their numbers (MS-PST 2.3.3).
//!
//! A piece of the node's heap begins a tree of properties. An unknown kind of property ends nothing.

use std::{borrow::Cow, collections::BTreeMap};

use encoding_rs::{Encoding, UTF_8, UTF_16LE, WINDOWS_1252};

use super::{
    heap::Heap,
    store::{Node, Store, number},
};
use crate::remark::Remark;

/// Most properties of one thing, and most pieces that name them: real ones have a hundred.
const MOST: usize = 5_000;

/// Levels of a tree of properties.
const DEEPEST: u8 = 4;

/// Kinds of values: short numbers stand where others say where they are.
const SHORT: [u16; 5] = [2, 3, 4, 10, 11];
const LONG: [u16; 4] = [5, 6, 20, 64];
pub(super) const TEXT: u16 = 0x1E;
pub(super) const WIDE_TEXT: u16 = 0x1F;
const OBJECT: u16 = 0x0D;

/// The bit that makes a kind one of several values, and those of which several are read: texts and bytes.
const SEVERAL: u16 = 0x1000;
const BYTES: u16 = 0x102;

/// A thing with properties: a folder, a mail, an attachment.
pub(super) struct Properties<'a> {
    heap: Heap<'a>,
    /// Kind and value, or where it is.
    all: BTreeMap<u16, (u16, u32)>,
}

impl<'a> Properties<'a> {
    pub(super) fn of(store: &'a Store<'a>, node: &Node) -> Result<Properties<'a>, Remark> {
        /// The mark of a tree in a heap.
        const TREE: u64 = 0xB5;
        let mut read = Properties { heap: Heap::of(store, node)?, all: BTreeMap::new() };
        let head = read.heap.head().ok_or(Remark::Damaged)?;
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

    /// The nodes below, by their numbers.
    pub(super) fn below(&self) -> &BTreeMap<u32, Node> {
        &self.heap.below
    }

    /// Reads pieces until none are `left`: a tree may lead to one in many ways.
    fn leaves(&self, place: u32, level: u8, left: &mut usize, to: &mut BTreeMap<u16, (u16, u32)>) {
        let Some(piece) = self.heap.piece(place).filter(|_| *left > 0) else { return };
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
        LONG.contains(&kind).then(|| number(self.heap.piece(value)?, 0, 8)).flatten()
    }

    /// The bytes of a property that is longer than a number.
    pub(super) fn bytes(&self, id: u16) -> Option<Cow<'_, [u8]>> {
        let (kind, value) = *self.all.get(&id)?;
        if SHORT.contains(&kind) || LONG.contains(&kind) || kind == OBJECT || value == 0 {
            return None;
        }
        self.heap.value(value)
    }

    /// Whether something is so.
    pub(super) fn holds(&self, id: u16) -> bool {
        self.number(id).is_some_and(|it| it & 0xFF != 0)
    }

    /// A moment in seconds since 1970, UTC.
    pub(super) fn time(&self, id: u16) -> Option<i64> {
        /// Tenths of millionths since 1601 are counted until what Outlook writes for no time at all: 4501-01-01.
        const NEVER: i64 = 79_870_660_800;
        const BETWEEN: i64 = 11_644_473_600;
        let seconds = i64::try_from(self.number(id)? / 10_000_000).ok()?;
        // Zero is no time, either.
        (seconds > 0 && seconds < NEVER + BETWEEN).then_some(seconds - BETWEEN)
    }

    /// The node that a property is.
    pub(super) fn object(&self, id: u16) -> Option<&Node> {
        let (kind, value) = *self.all.get(&id)?;
        if kind != OBJECT {
            return None;
        }
        self.heap.below.get(&(number(self.heap.piece(value)?, 0, 4)? as u32))
    }

    /// A text, without zeros at its end; bytes are in the encoding of the thing.
    pub(super) fn text(&self, id: u16) -> Option<String> {
        let kind = self.all.get(&id)?.0;
        self.decoded(kind, &self.bytes(id)?)
    }

    /// Several texts, or one.
    pub(super) fn texts(&self, id: u16) -> Vec<String> {
        let Some((kind, _)) = self.all.get(&id) else { return Vec::new() };
        match kind & SEVERAL {
            0 => self.text(id).into_iter().collect(),
            _ => {
                let all = self.several(id);
                all.iter().filter_map(|it| self.decoded(kind & !SEVERAL, it)).collect()
            }
        }
    }

    /// Several values: how many there are, where each begins, and their bytes (MS-PST 2.3.3.4.2).
    pub(super) fn several(&self, id: u16) -> Vec<Vec<u8>> {
        let kind = self.all.get(&id).map_or(0, |it| it.0);
        if ![TEXT, WIDE_TEXT, BYTES].map(|it| it | SEVERAL).contains(&kind) {
            return Vec::new();
        }
        let Some(bytes) = self.bytes(id) else { return Vec::new() };
        let place = |index: usize| number(&bytes, 4 + 4 * index, 4).map(|it| it as usize);
        let count = (number(&bytes, 0, 4).unwrap_or(0) as usize).min(MOST).min(bytes.len() / 4);
        let end = |index| if index < count { place(index) } else { Some(bytes.len()) };
        // None of them lies in another.
        let mut left = bytes.len();
        let value = |index: usize| {
            let value = bytes.get(place(index)?..end(index + 1)?)?;
            left = left.checked_sub(value.len())?;
            Some(value.to_vec())
        };
        (0..count).filter_map(value).collect()
    }

    /// A text of that kind.
    pub(super) fn decoded(&self, kind: u16, bytes: &[u8]) -> Option<String> {
        let encoding = match kind {
            WIDE_TEXT => UTF_16LE,
            TEXT => self.encoding(),
            _ => return None,
        };
        let text = encoding.decode_without_bom_handling(bytes).0;
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
