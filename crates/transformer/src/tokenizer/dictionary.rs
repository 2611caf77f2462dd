//! Pieces of text and their ids, as a trie in a few flat arrays instead of one hash table per node.
//!
//! The nodes are numbered level by level, so the children of a node are neighbors and one number says where
//! they begin: nine bytes a node, some 7 MB for 250 002 pieces as XLM-RoBERTa has them. Jacobson, "Space-efficient
//! static trees and graphs" (FOCS 1989), has the numbering; his bit vectors would save half of it again and
//! cost a rank query per byte of text.

/// No piece ends at this node.
const ABSENT: u32 = u32::MAX;

/// Most nodes, 144 MiB of them. Twenty times what XLM-RoBERTa's vocabulary needs; XLM-V, with a million pieces
/// the largest there is, should need a quarter. A file may hold a piece of as many bytes as it has itself.
const MOST_NODES: usize = 16 << 20;

/// Strings one after the other in one allocation.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    bytes: Vec<u8>,
    /// Where each string ends.
    ends: Vec<u32>,
}

impl Pieces {
    /// False when there are more bytes than can be counted.
    #[must_use]
    pub(super) fn push(&mut self, piece: &str) -> bool {
        self.push_bytes(piece.as_bytes())
    }

    /// As [`push`](Self::push), of a string that need not be UTF-8.
    #[must_use]
    pub(super) fn push_bytes(&mut self, piece: &[u8]) -> bool {
        let Ok(end) = u32::try_from(self.bytes.len() + piece.len()) else { return false };
        self.bytes.extend_from_slice(piece);
        self.ends.push(end);
        true
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn get(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[start as usize..self.ends[index] as usize]
    }
}

/// Why [`Dictionary::new`] can not build a dictionary.
#[derive(Debug, thiserror::Error)]
pub(super) enum TooLarge {
    #[error("its vocabulary has a piece with the id {ABSENT}: no model has that many")]
    Id,
    #[error(
        "its vocabulary needs more than {MOST_NODES} nodes: no vocabulary in use needs half of them"
    )]
    Nodes,
}

/// Finds the id of a piece, and all pieces that a text begins with.
#[derive(Debug)]
pub(super) struct Dictionary {
    /// The children of node `n` are the nodes `children[n]..children[n + 1]`.
    children: Vec<u32>,
    /// The byte that leads to the node from its parent. Ascending among siblings.
    labels: Vec<u8>,
    /// Id of the piece that ends here.
    ids: Vec<u32>,
    /// Children of the root by byte, since every search begins with one of up to 256 (0: none).
    roots: [u32; 256],
    len: usize,
}

impl Dictionary {
    /// The node of the empty string.
    pub(super) const ROOT: usize = 0;

    /// Of equal pieces the last one counts.
    pub(super) fn new(pieces: &Pieces, id: impl Fn(usize) -> u32) -> Result<Dictionary, TooLarge> {
        let mut order: Vec<u32> = (0..pieces.len() as u32).collect();
        order.sort_unstable_by(|&a, &b| {
            pieces.get(a as usize).cmp(pieces.get(b as usize)).then(a.cmp(&b))
        });
        let piece = |at: u32| pieces.get(order[at as usize] as usize);
        let mut built = Dictionary {
            children: Vec::new(),
            labels: vec![0],
            ids: vec![ABSENT],
            roots: [0; 256],
            len: 0,
        };
        // Of each node of one level the pieces that pass through it, from and to in `order`.
        let mut level = vec![(0, order.len() as u32)];
        let mut depth = 0;
        while !level.is_empty() {
            let mut below = Vec::new();
            for (mut from, to) in level {
                let node = built.children.len();
                while from < to && piece(from).len() == depth {
                    built.set(node, id(order[from as usize] as usize))?;
                    from += 1;
                }
                built.children.push(built.labels.len() as u32);
                while from < to {
                    let label = piece(from)[depth];
                    let same = (from..to).take_while(|&at| piece(at)[depth] == label).count();
                    built.add(label)?;
                    below.push((from, from + same as u32));
                    from += same as u32;
                }
            }
            level = below;
            depth += 1;
        }
        built.finish();
        Ok(built)
    }

    fn set(&mut self, node: usize, id: u32) -> Result<(), TooLarge> {
        if id == ABSENT {
            return Err(TooLarge::Id);
        }
        self.len += usize::from(self.ids[node] == ABSENT);
        self.ids[node] = id;
        Ok(())
    }

    fn add(&mut self, label: u8) -> Result<(), TooLarge> {
        if self.labels.len() >= MOST_NODES {
            return Err(TooLarge::Nodes);
        }
        self.labels.push(label);
        self.ids.push(ABSENT);
        Ok(())
    }

    fn finish(&mut self) {
        self.children.push(self.labels.len() as u32);
        for node in self.children[0]..self.children[1] {
            self.roots[self.labels[node as usize] as usize] = node;
        }
        self.children.shrink_to_fit();
        self.labels.shrink_to_fit();
        self.ids.shrink_to_fit();
    }

    /// Different pieces.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The id of a piece.
    pub(super) fn get(&self, piece: &[u8]) -> Option<u32> {
        self.get_joined(piece, &[])
    }

    /// The id of the piece that two strings make together.
    pub(super) fn get_joined(&self, first: &[u8], second: &[u8]) -> Option<u32> {
        let node = first.iter().chain(second).try_fold(0, |node, &byte| self.child(node, byte))?;
        self.id(node)
    }

    /// Length and id of each piece that `text` begins with, the shortest first; not the empty one.
    pub(super) fn prefixes<'a>(
        &'a self,
        text: &'a [u8],
    ) -> impl Iterator<Item = (usize, u32)> + 'a {
        self.prefixes_from(Dictionary::ROOT, text)
    }

    /// The node that a string leads to, whether or not a piece ends there.
    pub(super) fn node(&self, beginning: &[u8]) -> Option<usize> {
        beginning.iter().try_fold(Dictionary::ROOT, |node, &byte| self.child(node, byte))
    }

    /// As [`prefixes`](Self::prefixes), of pieces without the string that leads to `node`.
    pub(super) fn prefixes_from<'a>(
        &'a self,
        mut node: usize,
        text: &'a [u8],
    ) -> impl Iterator<Item = (usize, u32)> + 'a {
        text.iter()
            .map_while(move |&byte| {
                node = self.child(node, byte)?;
                Some(self.id(node))
            })
            .enumerate()
            .filter_map(|(index, id)| Some((index + 1, id?)))
    }

    /// Every piece with its id. Slow: nothing that encodes asks for it.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Vec<u8>, u32)> + '_ {
        (0..self.ids.len()).filter_map(|node| Some((self.piece(node), self.id(node)?)))
    }

    fn id(&self, node: usize) -> Option<u32> {
        Some(self.ids[node]).filter(|&id| id != ABSENT)
    }

    fn child(&self, node: usize, byte: u8) -> Option<usize> {
        if node == 0 {
            return Some(self.roots[byte as usize] as usize).filter(|&child| child != 0);
        }
        let (from, to) = (self.children[node] as usize, self.children[node + 1] as usize);
        let siblings = &self.labels[from..to];
        // Most nodes have one child or few.
        let found = if siblings.len() <= 8 {
            siblings.iter().position(|&label| label == byte)
        } else {
            siblings.binary_search(&byte).ok()
        };
        Some(from + found?)
    }

    fn piece(&self, mut node: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        while node != 0 {
            bytes.push(self.labels[node]);
            // The last node whose children begin at or before this one, and that has any.
            node = self.children.partition_point(|&first| first as usize <= node) - 1;
        }
        bytes.reverse();
        bytes
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn pieces(strings: &[String]) -> Pieces {
        let mut pieces = Pieces::default();
        assert!(strings.iter().all(|it| pieces.push(it)));
        pieces
    }

    proptest! {
        #[test]
        fn it_finds_what_a_hash_table_finds(
            strings in prop::collection::vec("[ab\u{e9}\u{65e5}]{0,5}", 0..60),
            text in "[abc\u{e9}\u{65e5}]{0,12}",
        ) {
            let dictionary = Dictionary::new(&pieces(&strings), |it| it as u32).expect("small");
            let twin: HashMap<&[u8], u32> =
                strings.iter().enumerate().map(|(id, it)| (it.as_bytes(), id as u32)).collect();
            prop_assert_eq!(dictionary.len(), twin.len());
            let found: Vec<(usize, u32)> = dictionary.prefixes(text.as_bytes()).collect();
            let expected: Vec<(usize, u32)> = (1..=text.len())
                .filter_map(|len| Some((len, *twin.get(&text.as_bytes()[..len])?)))
                .collect();
            prop_assert_eq!(found, expected);
            for string in &strings {
                let (first, second) = string.as_bytes().split_at(string.len() / 2);
                prop_assert_eq!(dictionary.get_joined(first, second), twin.get(string.as_bytes()).copied());
            }
            let all: HashMap<Vec<u8>, u32> = dictionary.iter().collect();
            prop_assert_eq!(all, twin.into_iter().map(|(it, id)| (it.to_vec(), id)).collect());
        }
    }

    #[test]
    fn every_byte_can_follow_every_other() {
        let strings: Vec<String> = ('\u{0}'..'\u{800}').map(|it| format!("x{it}")).collect();
        let dictionary = Dictionary::new(&pieces(&strings), |it| it as u32).expect("small");
        for (id, string) in strings.iter().enumerate() {
            assert_eq!(dictionary.get(string.as_bytes()), Some(id as u32));
        }
        assert_eq!(dictionary.get("\u{800}".as_bytes()), None);
    }

    #[test]
    fn a_piece_as_long_as_the_file_and_an_id_out_of_reach_are_errors() {
        let long = pieces(&["a".repeat(MOST_NODES)]);
        assert!(matches!(Dictionary::new(&long, |_| 0), Err(TooLarge::Nodes)));
        let one = pieces(&["a".to_owned()]);
        assert!(matches!(Dictionary::new(&one, |_| u32::MAX), Err(TooLarge::Id)));
    }
}
