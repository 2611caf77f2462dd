//! A hierarchical navigable small world graph over int8 codes (Malkov & Yashunin 2016, "HNSW").
//!
//! Written here and not taken from a library because an index on a person's disk must survive damage, is read where it
//! lies, and is the same however often it was built. A graph is two flat arrays of node numbers and the nodes' levels.
//! Every number is checked before it is followed: no file, however damaged, makes a search fail.
//!
//! Nodes are the slots of the vector index, in order. Removal is the caller's: a search takes a condition, walks
//! through nodes that fail it and returns only those that pass. [`grow`](Graph::grow) adds nodes,
//! [`kept`](Graph::kept) leaves nodes out.

mod grow;
mod kept;
mod words;

use std::{cmp::Reverse, collections::BinaryHeap};

use riddle_kernels::squared_distances;

pub(crate) use self::words::Words;

/// Links of a new node per layer, M of the paper. §4.1 recommends 5–48, more for more dimensions; 16 is
/// the value of its experiments and of the common implementations.
const LINKS: usize = 16;

/// Most links of a node on layer 0: M_max0 = 2·M (§4.1).
const BASE_LINKS: usize = 2 * LINKS;

/// No layer is that high: with M = 16 it would take 16^15 nodes.
const HIGHEST: u8 = 15;

/// No link.
const NONE: u32 = u32::MAX;

/// A node and how far it is; ordered by distance, then by node, so that results never depend on chance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Near {
    pub(crate) distance: u32,
    pub(crate) node: u32,
}

/// Codes of the nodes, `[nodes, dimensions]`.
#[derive(Clone, Copy)]
pub(crate) struct Codes<'a> {
    pub(crate) dimensions: usize,
    pub(crate) values: &'a [i8],
}

impl<'a> Codes<'a> {
    pub(crate) fn get(&self, node: u32) -> &'a [i8] {
        &self.values[node as usize * self.dimensions..][..self.dimensions]
    }

    /// How far the nodes are, in their order.
    pub(crate) fn near(&self, query: &[i8], nodes: &[u32]) -> Vec<Near> {
        let mut distances = vec![0; nodes.len()];
        squared_distances(query, self.values, nodes, &mut distances);
        let pairs = nodes.iter().zip(distances);
        pairs.map(|(&node, distance)| Near { distance, node }).collect()
    }
}

/// The links.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    /// Layer 0: `[nodes, BASE_LINKS]`, unused places are [`NONE`] and last.
    base: Words,
    /// Layers from 1: `[level of the node, LINKS]` for node after node.
    upper: Words,
    /// Highest layer of each node.
    levels: Vec<u8>,
    /// The nodes above layer 0 in order, and where their links start in `upper`, in rows of [`LINKS`].
    tall: Vec<(u32, u32)>,
    /// First of the nodes of the highest level.
    entry: u32,
}

/// Which nodes a search has seen: an epoch per node, so that forgetting all is one addition.
#[derive(Debug, Default)]
pub(crate) struct Visited {
    epoch: u32,
    seen: Vec<u32>,
}

impl Visited {
    fn forget(&mut self, nodes: usize) {
        self.epoch = self.epoch.wrapping_add(1);
        if self.epoch == 0 || self.seen.len() < nodes {
            self.seen.clear();
            self.seen.resize(nodes, 0);
            self.epoch = 1;
        }
    }

    /// Whether a node is seen for the first time.
    fn mark(&mut self, node: u32) -> bool {
        std::mem::replace(&mut self.seen[node as usize], self.epoch) != self.epoch
    }
}

impl Graph {
    /// Number of nodes.
    pub(crate) fn nodes(&self) -> usize {
        self.levels.len()
    }

    fn level(&self, node: u32) -> u8 {
        self.levels.get(node as usize).copied().unwrap_or(0)
    }

    /// Where a node's links on a layer from 1 start in `upper`; `None` for a node that does not reach it.
    fn upper_start(&self, node: u32, layer: u8) -> Option<usize> {
        if self.level(node) < layer {
            return None;
        }
        let at = self.tall.binary_search_by_key(&node, |it| it.0).ok()?;
        Some((self.tall[at].1 as usize + usize::from(layer) - 1) * LINKS)
    }

    /// Links of a node on a layer, with the unused places.
    fn places(&self, node: u32, layer: u8) -> &[u32] {
        let (words, start, count) = match layer {
            0 => (&self.base, Some(node as usize * BASE_LINKS), BASE_LINKS),
            layer => (&self.upper, self.upper_start(node, layer), LINKS),
        };
        start.and_then(|start| words.get(start..start + count)).unwrap_or_default()
    }

    /// Links of a node on a layer, without those that damage has made lead out of the graph.
    fn links(&self, node: u32, layer: u8) -> impl Iterator<Item = u32> {
        let links = self.places(node, layer).iter().copied().take_while(|it| *it != NONE);
        links.filter(|it| (*it as usize) < self.nodes())
    }

    /// About the `breadth` nodes nearest to `query` among those that pass, nearest first (algorithm 5).
    pub(crate) fn search(
        &self,
        codes: Codes<'_>,
        query: &[i8],
        breadth: usize,
        visited: &mut Visited,
        passes: &dyn Fn(u32) -> bool,
    ) -> Vec<Near> {
        if self.nodes() == 0 {
            return Vec::new();
        }
        let mut near = codes.near(query, &[self.entry]);
        for layer in (1..=self.level(self.entry)).rev() {
            near = self.search_layer(codes, query, &near, 1, layer, visited, &|_| true);
        }
        self.search_layer(codes, query, &near, breadth, 0, visited, passes)
    }

    /// Algorithm 2, with a condition on what is returned but not on what is walked through.
    fn search_layer(
        &self,
        codes: Codes<'_>,
        query: &[i8],
        from: &[Near],
        breadth: usize,
        layer: u8,
        visited: &mut Visited,
        passes: &dyn Fn(u32) -> bool,
    ) -> Vec<Near> {
        visited.forget(self.nodes());
        let mut open = BinaryHeap::new();
        let mut found = BinaryHeap::new();
        for &near in from {
            visited.mark(near.node);
            open.push(Reverse(near));
            if passes(near.node) {
                found.push(near);
            }
        }
        // A node's links are compared together: their codes lie anywhere, and are asked for before they are needed.
        let (mut fresh, mut distances) = ([0; BASE_LINKS], [0; BASE_LINKS]);
        while let Some(Reverse(nearest)) = open.pop() {
            let full = found.len() >= breadth;
            if full && found.peek().is_some_and(|worst| nearest > *worst) {
                break;
            }
            let mut count = 0;
            for node in self.links(nearest.node, layer).filter(|it| visited.mark(*it)) {
                fresh[count] = node;
                count += 1;
            }
            squared_distances(query, codes.values, &fresh[..count], &mut distances);
            for (&node, &distance) in fresh[..count].iter().zip(&distances) {
                let near = Near { distance, node };
                let full = found.len() >= breadth;
                if full && found.peek().is_some_and(|worst| near > *worst) {
                    continue;
                }
                open.push(Reverse(near));
                if passes(node) {
                    found.push(near);
                    if found.len() > breadth {
                        found.pop();
                    }
                }
            }
        }
        found.into_sorted_vec()
    }

    /// Adds a node of that level, without links.
    fn push_node(&mut self, level: u8) {
        let node = self.nodes() as u32;
        self.base.extend_with(BASE_LINKS, NONE);
        if level > 0 {
            self.tall.push((node, (self.upper.len() / LINKS) as u32));
            self.upper.extend_with(usize::from(level) * LINKS, NONE);
        }
        if node == 0 || level > self.level(self.entry) {
            self.entry = node;
        }
        self.levels.push(level);
    }

    /// Puts `links` in the places of a node that is on that layer.
    fn set_links(&mut self, node: u32, layer: u8, links: &[Near]) {
        let (start, count) = match layer {
            0 => (Some(node as usize * BASE_LINKS), BASE_LINKS),
            layer => (self.upper_start(node, layer), LINKS),
        };
        let words = if layer == 0 { &mut self.base } else { &mut self.upper };
        let Some(places) = start.and_then(|it| words.to_mut().get_mut(it..it + count)) else {
            return;
        };
        places.fill(NONE);
        for (place, link) in places.iter_mut().zip(links) {
            *place = link.node;
        }
    }

    /// Writes the graph: layer 0, the layers above, a level per node; numbers are little-endian. Returns the bytes.
    pub(crate) fn write(&self, out: &mut impl std::io::Write) -> std::io::Result<u64> {
        /// Numbers that are turned into bytes at a time.
        const TOGETHER: usize = 16 << 10;
        let mut bytes = Vec::new();
        for words in [&self.base, &self.upper] {
            for words in words.chunks(TOGETHER) {
                bytes.clear();
                bytes.extend(words.iter().flat_map(|it| it.to_le_bytes()));
                out.write_all(&bytes)?;
            }
        }
        out.write_all(&self.levels)?;
        Ok((4 * (self.base.len() + self.upper.len()) + self.levels.len()) as u64)
    }

    /// Bytes of it that lie in a file.
    pub(crate) fn mapped_bytes(&self) -> usize {
        self.base.file().map_or(0, crate::mapped::Mapped::mapped_bytes)
    }

    /// Gives the pages of its file back.
    pub(crate) fn give_back(&self) {
        // All words are in one.
        if let Some(file) = self.base.file() {
            file.give_back();
        }
    }

    /// The graph of `nodes` nodes that was [written](Graph::write) to the file; `None` if it is not one.
    pub(crate) fn read(file: crate::mapped::Mapped, nodes: usize) -> Option<Graph> {
        let bytes = file.bytes();
        // A byte count that the file does not have must not be allocated.
        if nodes > bytes.len() / (4 * BASE_LINKS + 1) || nodes > NONE as usize {
            return None;
        }
        let levels = bytes[bytes.len() - nodes..].to_vec();
        let (mut tall, mut rows, mut entry) = (Vec::new(), 0, 0);
        for (node, &level) in (0..).zip(&levels) {
            if level > HIGHEST {
                return None;
            }
            if level > 0 {
                tall.push((node, rows));
                rows += u32::from(level);
            }
            if level > levels[entry as usize] {
                entry = node;
            }
        }
        let base = nodes * BASE_LINKS;
        let upper = rows as usize * LINKS;
        if bytes.len() != 4 * (base + upper) + nodes {
            return None;
        }
        let file = std::sync::Arc::new(file);
        let (base, upper) = (Words::of(&file, 0..base)?, Words::of(&file, base..base + upper)?);
        Some(Graph { base, upper, levels, tall, entry })
    }
}

/// Up to `count` of `near` (nearest first) that lie in different directions: one that is nearer to a chosen
/// one than to the node itself is left out, because the way there leads over the chosen one (algorithm 4).
/// Copies of one vector are thus linked once and can not crowd out the way to all others.
fn select(codes: Codes<'_>, near: &[Near], count: usize) -> Vec<Near> {
    /// Chosen ones that are compared at a time: most candidates fail at one of the first.
    const TOGETHER: usize = 4;
    let mut chosen: Vec<u32> = Vec::with_capacity(count);
    let mut distances = [0; TOGETHER];
    let mut kept = Vec::with_capacity(count);
    for candidate in near {
        if chosen.len() == count {
            break;
        }
        let code = codes.get(candidate.node);
        let apart = chosen.chunks(TOGETHER).all(|some| {
            squared_distances(code, codes.values, some, &mut distances);
            distances[..some.len()].iter().all(|it| *it > candidate.distance)
        });
        if apart {
            chosen.push(candidate.node);
            kept.push(*candidate);
        }
    }
    kept
}

#[cfg(test)]
mod tests;
