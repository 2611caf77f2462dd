//! A heap of small pieces in the blocks of a node (MS-PST 2.3.1): what properties and tables are made of.
//!
//! What is too large for a piece is a node below.

use std::{borrow::Cow, collections::BTreeMap};

use super::store::{Node, Store, number};
use crate::remark::Remark;

pub(super) struct Heap<'a> {
    pub(super) store: &'a Store<'a>,
    blocks: Vec<Vec<u8>>,
    pub(super) below: BTreeMap<u32, Node>,
}

impl<'a> Heap<'a> {
    pub(super) fn of(store: &'a Store<'a>, node: &Node) -> Result<Heap<'a>, Remark> {
        /// The mark of one.
        const HEAP: u8 = 0xEC;
        let blocks = store.blocks(node)?;
        let first = blocks.first().ok_or(Remark::Damaged)?;
        if first.get(2) != Some(&HEAP) {
            return Err(Remark::Damaged);
        }
        Ok(Heap { store, blocks, below: store.below(node) })
    }

    /// The piece that says what the others are.
    pub(super) fn head(&self) -> Option<&[u8]> {
        self.piece(number(self.blocks.first()?, 4, 4)? as u32)
    }

    /// A piece: five bits are 0, eleven number it, from 1, and sixteen number its block. In files with large pages a
    /// block has more pieces, and three bits change sides.
    pub(super) fn piece(&self, place: u32) -> Option<&[u8]> {
        if place & 0x1F != 0 {
            return None;
        }
        let bits = if self.store.large { 14 } else { 11 };
        let index = (place >> 5 & ((1 << bits) - 1)) as usize;
        let block = self.blocks.get((place >> (5 + bits)) as usize)?;
        let map = number(block, 0, 2)? as usize;
        let count = number(block, map, 2)? as usize;
        if index == 0 || index > count {
            return None;
        }
        let at = |index: usize| number(block, map + 4 + 2 * index, 2).map(|it| it as usize);
        block.get(at(index - 1)?..at(index)?)
    }

    /// A piece, or the bytes of the node below.
    pub(super) fn value(&self, place: u32) -> Option<Cow<'_, [u8]>> {
        match self.piece(place) {
            Some(piece) => Some(Cow::Borrowed(piece)),
            None => self.store.data(self.below.get(&place)?).ok().map(Cow::Owned),
        }
    }
}
