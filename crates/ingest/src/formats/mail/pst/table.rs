//! Tables of a node (MS-PST 2.3.4), as far as they say who a thing is for.

use std::collections::BTreeMap;

use super::{
    heap::Heap,
    properties::Properties,
    store::{Node, Store, number},
};

/// Most rows that are read.
const MOST: usize = 2000;

/// Somebody whom a mail is for, or who takes part in an appointment.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Person {
    pub(super) name: Option<String>,
    pub(super) address: Option<String>,
    /// [`TO`], [`COPY`] or another.
    pub(super) role: u64,
    /// It is whose appointment it is.
    pub(super) organizes: bool,
}

/// Roles: of an appointment those who must come, and those who may.
pub(super) const TO: u64 = 1;
pub(super) const COPY: u64 = 2;
/// Who gets a mail and is not told to the others; of an appointment a room or a thing.
pub(super) const HIDDEN: u64 = 3;

/// Whom a thing is for.
pub(super) fn people(store: &Store<'_>, thing: &Properties<'_>) -> Vec<Person> {
    /// The node below with the table, and its columns.
    const NODE: u32 = 0x692;
    const NAME: u16 = 0x3001;
    const ADDRESSES: [u16; 2] = [0x39FE, 0x3003];
    const ROLE: u16 = 0x0C15;
    const FLAGS: u16 = 0x5FFD;
    /// A flag of who organizes.
    const ORGANIZES: u64 = 2;
    let Some(table) = thing.below().get(&NODE).and_then(|it| Table::of(store, it)) else {
        return Vec::new();
    };
    let person = |row: &[u8]| {
        let text = |id| table.text(row, id, thing);
        // Inside of a company an address may be a path in its directory.
        let address = ADDRESSES.into_iter().filter_map(text).find(|it| it.contains('@'));
        let flags = table.number(row, FLAGS).unwrap_or(0);
        Person {
            name: text(NAME),
            address,
            role: table.number(row, ROLE).unwrap_or(TO),
            organizes: flags & ORGANIZES != 0,
        }
    };
    let all = table.rows.iter().map(|it| person(it));
    all.filter(|it| it.name.is_some() || it.address.is_some()).collect()
}

/// A column: of which kind, where in a row, how long, and which bit says that it is there.
struct Column {
    kind: u16,
    at: usize,
    size: usize,
    bit: usize,
}

struct Table<'a> {
    heap: Heap<'a>,
    columns: BTreeMap<u16, Column>,
    /// Where bits begin in a row.
    bits: usize,
    rows: Vec<Vec<u8>>,
}

impl<'a> Table<'a> {
    fn of(store: &'a Store<'a>, node: &Node) -> Option<Table<'a>> {
        /// The mark of a table in a heap.
        const TABLE: u64 = 0x7C;
        let heap = Heap::of(store, node).ok()?;
        let head = heap.head()?;
        let part = |at, size| number(head, at, size).map(|it| it as usize);
        if number(head, 0, 1)? != TABLE {
            return None;
        }
        let (count, bits, size, place) =
            (part(1, 1)?, part(6, 2)?, part(8, 2)?, part(14, 4)? as u32);
        let mut columns = BTreeMap::new();
        for column in head.get(22..)?.chunks_exact(8).take(count) {
            let part = |at, size| number(column, at, size).unwrap_or(0) as usize;
            let (kind, id) = (part(0, 2) as u16, part(2, 2) as u16);
            columns.insert(id, Column { kind, at: part(4, 2), size: part(6, 1), bit: part(7, 1) });
        }
        if size == 0 || bits >= size {
            return None;
        }
        // No row goes over the end of a block.
        let rows = |it: &[u8]| it.chunks_exact(size).map(<[u8]>::to_vec).collect::<Vec<_>>();
        let rows: Vec<Vec<u8>> = match heap.piece(place) {
            Some(piece) => rows(piece),
            None => {
                let blocks = store.blocks(heap.below.get(&place)?).ok()?;
                blocks.iter().flat_map(|it| rows(it)).take(MOST).collect()
            }
        };
        Some(Table { columns, bits, rows, heap })
    }

    fn cell<'r>(&self, row: &'r [u8], id: u16) -> Option<(u16, &'r [u8])> {
        let Column { kind, at, size, bit } = self.columns.get(&id)?;
        let there = row.get(self.bits + bit / 8)? >> (7 - bit % 8) & 1 == 1;
        there.then_some((*kind, row.get(*at..at + size)?))
    }

    fn number(&self, row: &[u8], id: u16) -> Option<u64> {
        let (_, cell) = self.cell(row, id)?;
        number(cell, 0, cell.len().min(8))
    }

    /// A text, in the encoding of the thing that the table is of.
    fn text(&self, row: &[u8], id: u16, thing: &Properties<'_>) -> Option<String> {
        let (kind, cell) = self.cell(row, id)?;
        let bytes = self.heap.value(number(cell, 0, 4)? as u32)?;
        thing.decoded(kind, &bytes).filter(|it| !it.trim().is_empty())
    }
}
