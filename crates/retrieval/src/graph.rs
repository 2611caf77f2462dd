//! A hierarchical navigable small world graph over int8 codes (Malkov & Yashunin 2016, "HNSW").
//!
//! Written here and not taken from `hnsw_rs` because an index on a person's disk must survive damage: that
//! crate's loader ends the process on a short file, its graph can not be read without one allocation per
//! link, and building it is not deterministic. Here a graph is two flat arrays of node numbers. Levels and
//! entry point follow from the node numbers, so the arrays are all that is stored, and [`Graph::read`]
//! checks every link: no file, however damaged, makes a search fail.
//!
//! Nodes are the slots of the vector index, in order. Removal is the caller's: a search takes a condition,
//! walks through nodes that fail it and returns only those that pass.

use std::{cmp::Reverse, collections::BinaryHeap};

/// Links of a new node per layer, M of the paper. §4.1 recommends 5–48, more for more dimensions; 16 is
/// the value of its experiments and of the common implementations.
const LINKS: usize = 16;

/// Most links of a node on layer 0: M_max0 = 2·M (§4.1).
const BASE_LINKS: usize = 2 * LINKS;

/// Breadth of the search for a new node's neighbors, efConstruction: the common default. Half of it cost
/// recall on clustered vectors, twice of it doubled the time for nothing measurable.
const BUILD_BREADTH: usize = 200;

/// No layer is that high: with M = 16 it would take 16^15 nodes.
const HIGHEST: u8 = 15;

/// No link.
const NONE: u32 = u32::MAX;

/// Squared Euclidean distance of two codes. Unlike a dot product turned into a distance it is never
/// negative, and for vectors of one length it orders as the cosine does.
pub(crate) fn distance(a: &[i8], b: &[i8]) -> u32 {
    // Differences fit i16, which lets the compiler multiply and add in pairs; the sum fits i32 up to 33 000
    // dimensions. Wrapping, because overflow checks would keep it from using vector instructions.
    a.iter().zip(b).fold(0i32, |sum, (&a, &b)| {
        let difference = i32::from(i16::from(a).wrapping_sub(i16::from(b)));
        sum.wrapping_add(difference.wrapping_mul(difference))
    }) as u32
}

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

    fn near(&self, query: &[i8], node: u32) -> Near {
        Near { distance: distance(query, self.get(node)), node }
    }
}

/// The links.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Graph {
    /// Layer 0: `[nodes, BASE_LINKS]`, unused places are [`NONE`] and last.
    base: Vec<u32>,
    /// Layers from 1: `[level of the node, LINKS]` for node after node.
    upper: Vec<u32>,
    /// Where a node's links start in `upper`.
    upper_start: Vec<usize>,
    /// First of the nodes of the highest level.
    entry: u32,
}

/// Which nodes a search has seen: an epoch per node, so that forgetting all is one addition.
#[derive(Default)]
struct Visited {
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

    /// Whether it is the first time.
    fn mark(&mut self, node: u32) -> bool {
        std::mem::replace(&mut self.seen[node as usize], self.epoch) != self.epoch
    }
}

/// Level of a node: floor(−ln(u) / ln(M)) with u uniform (algorithm 1), drawn from the node's number.
fn level_of(node: u32) -> u8 {
    // SplitMix64 (Steele, Lea, Flood 2014) spreads consecutive numbers evenly.
    let mut bits = (u64::from(node) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^= bits >> 31;
    // The upper 53 bits make a fraction; the half keeps it above 0.
    let uniform = ((bits >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    let level = -uniform.ln() / (LINKS as f64).ln();
    // A cast of a small non-negative number rounds down.
    level.min(f64::from(HIGHEST)) as u8
}

impl Graph {
    /// Number of nodes.
    pub(crate) fn nodes(&self) -> usize {
        self.upper_start.len()
    }

    /// Adds the nodes up to `count`, whose codes must be in `codes` (algorithm 1).
    pub(crate) fn grow(&mut self, codes: Codes<'_>, count: usize) {
        let mut visited = Visited::default();
        for node in self.nodes()..count {
            self.insert(codes, node as u32, &mut visited);
        }
    }

    /// Places for a node's links, without any.
    fn push_node(&mut self, node: u32) {
        self.base.resize(self.base.len() + BASE_LINKS, NONE);
        self.upper_start.push(self.upper.len());
        self.upper.resize(self.upper.len() + usize::from(level_of(node)) * LINKS, NONE);
    }

    fn insert(&mut self, codes: Codes<'_>, node: u32, visited: &mut Visited) {
        let level = level_of(node);
        let code = codes.get(node);
        self.push_node(node);
        if node == 0 {
            self.entry = 0;
            return;
        }
        let top = level_of(self.entry);
        let mut near = vec![codes.near(code, self.entry)];
        for layer in (level + 1..=top).rev() {
            near = self.search_layer(codes, code, &near, 1, layer, visited, &|_| true);
        }
        for layer in (0..=level.min(top)).rev() {
            near = self.search_layer(codes, code, &near, BUILD_BREADTH, layer, visited, &|_| true);
            let chosen = select(codes, &near, LINKS);
            for (place, neighbor) in chosen.iter().enumerate() {
                self.links_mut(node, layer)[place] = neighbor.node;
            }
            for neighbor in chosen {
                self.link_back(codes, neighbor, node, layer);
            }
        }
        if level > top {
            self.entry = node;
        }
    }

    /// Links `from.node` to `to`; when it has no free place, the best of all its links stay.
    fn link_back(&mut self, codes: Codes<'_>, from: Near, to: u32, layer: u8) {
        let links = self.links_mut(from.node, layer);
        if let Some(free) = links.iter_mut().find(|it| **it == NONE) {
            *free = to;
            return;
        }
        let mut all = vec![Near { distance: from.distance, node: to }];
        let code = codes.get(from.node);
        all.extend(links.iter().map(|&it| codes.near(code, it)));
        all.sort_unstable();
        let kept = select(codes, &all, links.len());
        links.fill(NONE);
        for (place, neighbor) in links.iter_mut().zip(kept) {
            *place = neighbor.node;
        }
    }

    fn links(&self, node: u32, layer: u8) -> &[u32] {
        match usize::from(layer) {
            0 => &self.base[node as usize * BASE_LINKS..][..BASE_LINKS],
            layer => &self.upper[self.upper_start[node as usize] + (layer - 1) * LINKS..][..LINKS],
        }
    }

    fn links_mut(&mut self, node: u32, layer: u8) -> &mut [u32] {
        match usize::from(layer) {
            0 => &mut self.base[node as usize * BASE_LINKS..][..BASE_LINKS],
            layer => {
                &mut self.upper[self.upper_start[node as usize] + (layer - 1) * LINKS..][..LINKS]
            }
        }
    }

    /// About the `breadth` nodes nearest to `query` among those that pass, nearest first (algorithm 5).
    pub(crate) fn search(
        &self,
        codes: Codes<'_>,
        query: &[i8],
        breadth: usize,
        passes: &dyn Fn(u32) -> bool,
    ) -> Vec<Near> {
        if self.nodes() == 0 {
            return Vec::new();
        }
        let mut visited = Visited::default();
        let mut near = vec![codes.near(query, self.entry)];
        for layer in (1..=level_of(self.entry)).rev() {
            near = self.search_layer(codes, query, &near, 1, layer, &mut visited, &|_| true);
        }
        self.search_layer(codes, query, &near, breadth, 0, &mut visited, passes)
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
        while let Some(Reverse(nearest)) = open.pop() {
            let full = found.len() >= breadth;
            if full && found.peek().is_some_and(|worst| nearest > *worst) {
                break;
            }
            for &node in self.links(nearest.node, layer).iter().take_while(|it| **it != NONE) {
                if !visited.mark(node) {
                    continue;
                }
                let near = codes.near(query, node);
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

    /// The links as bytes.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        self.base.iter().chain(&self.upper).flat_map(|it| it.to_le_bytes()).collect()
    }

    /// The graph of `nodes` nodes that [`Graph::to_bytes`] wrote; `None` if it is not one.
    pub(crate) fn read(bytes: &[u8], nodes: usize) -> Option<Graph> {
        // A byte count that the file does not have must not be allocated.
        if nodes > bytes.len() / (4 * BASE_LINKS) || nodes > NONE as usize {
            return None;
        }
        let mut upper_start = Vec::with_capacity(nodes);
        let (mut upper, mut entry, mut top) = (0, 0, 0);
        for node in 0..nodes as u32 {
            upper_start.push(upper);
            let level = level_of(node);
            upper += usize::from(level) * LINKS;
            if level > top {
                (top, entry) = (level, node);
            }
        }
        if bytes.len() != 4 * (nodes * BASE_LINKS + upper) {
            return None;
        }
        let mut all =
            bytes.chunks_exact(4).map(|it| u32::from_le_bytes([it[0], it[1], it[2], it[3]]));
        let base = all.by_ref().take(nodes * BASE_LINKS).collect();
        let graph = Graph { base, upper: all.collect(), upper_start, entry };
        graph.is_sound().then_some(graph)
    }

    /// Whether every link leads to a node that is on the link's layer.
    fn is_sound(&self) -> bool {
        let nodes = self.nodes() as u32;
        (0..nodes).all(|node| {
            (0..=level_of(node)).all(|layer| {
                self.links(node, layer)
                    .iter()
                    .all(|&it| it == NONE || (it < nodes && (layer == 0 || level_of(it) >= layer)))
            })
        })
    }
}

/// Up to `count` of `near` (nearest first) that lie in different directions: one that is nearer to a chosen
/// one than to the node itself is left out, because the way there leads over the chosen one (algorithm 4).
/// Copies of one vector are thus linked once and can not crowd out the way to all others.
fn select(codes: Codes<'_>, near: &[Near], count: usize) -> Vec<Near> {
    let mut chosen: Vec<Near> = Vec::with_capacity(count);
    for candidate in near {
        if chosen.len() == count {
            break;
        }
        let code = codes.get(candidate.node);
        let apart = chosen.iter().all(|it| distance(code, codes.get(it.node)) > candidate.distance);
        if apart {
            chosen.push(*candidate);
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Codes in clusters, as embeddings of related texts are.
    pub(crate) fn clustered(count: usize, dimensions: usize, clusters: usize) -> Vec<i8> {
        let mut state = 0x2545_F491_4F6C_DD1D_u64;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 40) as f32 / (1u32 << 24) as f32 - 0.5
        };
        let centers: Vec<f32> = (0..clusters * dimensions).map(|_| random()).collect();
        let mut values = Vec::with_capacity(count * dimensions);
        for node in 0..count {
            for d in 0..dimensions {
                let center = centers[node % clusters * dimensions + d];
                values.push((60.0 * center + 50.0 * random()) as i8);
            }
        }
        values
    }

    fn build(codes: Codes<'_>, count: usize) -> Graph {
        let mut graph = Graph::default();
        graph.grow(codes, count);
        graph
    }

    fn naive(
        codes: Codes<'_>,
        count: usize,
        query: &[i8],
        passes: impl Fn(u32) -> bool,
    ) -> Vec<Near> {
        let mut all: Vec<Near> =
            (0..count as u32).filter(|it| passes(*it)).map(|it| codes.near(query, it)).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn distances_are_the_definition() {
        assert_eq!(distance(&[127, -127, 3], &[-127, 127, 3]), 2 * 254 * 254);
        assert_eq!(distance(&[], &[]), 0);
    }

    #[test]
    fn levels_thin_out_by_m() {
        let on = |layer| (0..100_000).filter(|&it| level_of(it) >= layer).count();
        // 100 000 / 16 and / 256, give or take chance.
        assert!((5_900..6_600).contains(&on(1)), "{}", on(1));
        assert!((300..480).contains(&on(2)), "{}", on(2));
    }

    #[test]
    fn finds_what_a_scan_finds() {
        let (count, dimensions) = (5_000, 384);
        let values = clustered(count, dimensions, 50);
        let codes = Codes { dimensions, values: &values };
        let graph = build(codes, count);
        let queries = clustered(50, dimensions, 50);
        let mut common = 0;
        for query in queries.chunks_exact(dimensions) {
            let exact = naive(codes, count, query, |_| true);
            let found = graph.search(codes, query, 128, &|_| true);
            common += exact[..10].iter().filter(|it| found[..10].contains(it)).count();
        }
        assert!(common >= 475, "recall@10 is {common} of 500");
        // Growing in steps makes the same graph, and so does storing it in between.
        let mut grown = build(codes, 1_000);
        grown = Graph::read(&grown.to_bytes(), 1_000).expect("sound");
        grown.grow(codes, count);
        assert!(grown == graph);
    }

    #[test]
    fn copies_do_not_hide_the_rest() {
        let dimensions = 16;
        let mut values = [5i8; 16].repeat(600);
        values.extend(clustered(600, dimensions, 6));
        let codes = Codes { dimensions, values: &values };
        let graph = build(codes, 1_200);
        for node in 600..1_200 {
            let found = graph.search(codes, codes.get(node), 64, &|_| true);
            assert_eq!(found[0].distance, 0, "node {node} is found by its own code");
        }
    }

    #[test]
    fn damaged_bytes_are_refused_or_harmless() {
        let dimensions = 8;
        let values = clustered(300, dimensions, 5);
        let codes = Codes { dimensions, values: &values };
        let bytes = build(codes, 300).to_bytes();
        assert!(Graph::read(&bytes, 300).is_some());
        for (bytes, nodes) in [
            (&bytes[..bytes.len() - 4], 300),
            (&bytes[..], 299),
            (&bytes[..], 301),
            (&bytes[..], usize::MAX),
            (&[], 1),
        ] {
            assert!(Graph::read(bytes, nodes).is_none());
        }
        for at in (0..bytes.len()).step_by(37) {
            let mut bad = bytes.clone();
            bad[at] ^= 0x55;
            if let Some(graph) = Graph::read(&bad, 300) {
                graph.search(codes, codes.get(7), 20, &|_| true);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn conditions_hold_and_cost_no_recall(share in 1u32..20, query in 0u32..800) {
            let values = clustered(800, 12, 9);
            let codes = Codes { dimensions: 12, values: &values };
            let graph = build(codes, 800);
            let passes = |node: u32| node.is_multiple_of(share);
            let exact = naive(codes, 800, codes.get(query), passes);
            let found = graph.search(codes, codes.get(query), 64, &passes);
            prop_assert!(found.iter().all(|it| passes(it.node)));
            prop_assert_eq!(found.len(), exact.len().min(64));
            let common = exact.iter().take(10).filter(|it| found.contains(it)).count();
            prop_assert!(common >= 9.min(exact.len()));
        }
    }
}
