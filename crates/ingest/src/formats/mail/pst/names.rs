//! Properties that have a name instead of a number: which number a file has given to each (MS-PST 2.4.7).

use std::collections::HashMap;

use super::{
    properties::Properties,
    store::{Store, number},
};

/// Sets of names, by what tells their GUIDs apart: `{0006xxxx-0000-0000-C000-000000000046}` (MS-OXPROPS 1.3.2).
pub(super) const APPOINTMENT: u16 = 0x2002;
pub(super) const TASK: u16 = 0x2003;
pub(super) const ADDRESS: u16 = 0x2004;
pub(super) const COMMON: u16 = 0x2008;
pub(super) const JOURNAL: u16 = 0x200A;

/// The numbers that a file has given to names.
#[derive(Debug, Default)]
pub(super) struct Names {
    numbers: HashMap<(u16, u32), u16>,
    /// That of `Keywords`, the categories of a thing: it is a word among those of everybody.
    pub(super) keywords: Option<u16>,
}

impl Names {
    /// Those of a file; none if it has none.
    pub(super) fn of(store: &Store<'_>) -> Names {
        Names::read(store).unwrap_or_default()
    }

    fn read(store: &Store<'_>) -> Option<Names> {
        /// The node that has them, and its properties: sets, names, and the letters of names that are words.
        const NODE: u32 = 0x61;
        const SETS: u16 = 2;
        const NAMES: u16 = 3;
        const WORDS: u16 = 4;
        /// Numbers from here on are given, and so there are no more than as many.
        const FIRST: u16 = 0x8000;
        /// The set of words of everybody; of others the third is the first that is listed.
        const EVERYBODY: usize = 2;
        let node = Properties::of(store, store.nodes.get(&NODE)?).ok()?;
        let (sets, words) = (node.bytes(SETS), node.bytes(WORDS));
        let names = node.bytes(NAMES)?;
        let mut all = Names::default();
        for entry in names.chunks_exact(8).take(usize::from(FIRST)) {
            let part = |at, size| number(entry, at, size).unwrap_or(0);
            let (name, of, given) = (part(0, 4) as u32, part(4, 2), part(6, 2) as u16);
            let Some(given) = given.checked_add(FIRST) else { continue };
            let set = (of >> 1) as usize;
            if of & 1 == 1 {
                let word = words.as_deref().and_then(|it| word(it, name as usize));
                if set == EVERYBODY && word.as_deref() == Some("Keywords") {
                    all.keywords = Some(given);
                }
                continue;
            }
            let guid = set.checked_sub(EVERYBODY + 1).and_then(|it| {
                let at = it.checked_mul(16)?;
                sets.as_deref()?.get(at..at.checked_add(16)?)
            });
            if let Some(set) = guid.and_then(known) {
                all.numbers.insert((set, name), given);
            }
        }
        Some(all)
    }

    /// The number of a name in a set; 0, which no property has, of one that the file does not know.
    pub(super) fn number(&self, set: u16, name: u32) -> u16 {
        self.numbers.get(&(set, name)).copied().unwrap_or(0)
    }
}

/// What tells a set apart, of those that Outlook's things are made of.
fn known(guid: &[u8]) -> Option<u16> {
    const REST: [u8; 14] = [0x06, 0, 0, 0, 0, 0, 0xC0, 0, 0, 0, 0, 0, 0, 0x46];
    (guid.get(2..)? == REST).then(|| u16::from_le_bytes([guid[0], guid[1]]))
}

/// A word: how many bytes it has, then its letters.
fn word(words: &[u8], at: usize) -> Option<String> {
    let start = at.checked_add(4)?;
    let end = start.checked_add(number(words, at, 4)? as usize)?;
    Some(encoding_rs::UTF_16LE.decode_without_bom_handling(words.get(start..end)?).0.into_owned())
}
