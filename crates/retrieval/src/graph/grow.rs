//! Adding nodes (algorithm 1), many at a time.
//!
//! One after the other, a million nodes take half an hour of one processor. Nodes of a batch look for their neighbors
//! side by side, in the graph as it was before the batch and among those of the batch that come before them; then their
//! links are made, each node's list by one thread. Batches begin at fixed numbers, so a graph depends on its codes
//! alone: not on threads, and not on the steps it grew in.

use super::{BASE_LINKS, Codes, Graph, HIGHEST, LINKS, Near, Visited, select};

/// Breadth of the search for a new node's neighbors, efConstruction: the common default. Half of it cost
/// recall on clustered vectors, twice of it doubled the time for nothing measurable.
const BUILD_BREADTH: usize = 200;

/// Nodes that are added one by one: in a small graph those of a batch would be most of each other's neighbors.
const FIRST: usize = 4096;

/// Nodes that are added together from then on.
const BATCH: usize = 512;

/// A link that is to be added on a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NewLink {
    pub(super) from: u32,
    pub(super) layer: u8,
    pub(super) to: Near,
}

/// Level of a node: floor(−ln(u) / ln(M)) with u uniform (algorithm 1), drawn from the node's number.
pub(super) fn level_of(node: u32) -> u8 {
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
    /// Adds nodes up to `count`, whose codes must be in `codes`, on all processors, and calls `between` after each
    /// batch. Up to [`BATCH`] of the last ones stay out until there are more.
    pub(crate) fn grow(&mut self, codes: Codes<'_>, count: usize, between: &dyn Fn()) {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let mut visited: Vec<Visited> = (0..threads).map(|_| Visited::default()).collect();
        // To the byte: a list that grows by doubling has a hundred megabytes too much for a million nodes.
        let coming = count.saturating_sub(self.nodes());
        self.base.to_mut().reserve_exact(coming * BASE_LINKS);
        while self.nodes() < count.min(FIRST) {
            self.insert(codes, 1, &mut visited);
        }
        while self.nodes() + BATCH <= count {
            self.insert(codes, BATCH, &mut visited);
            between();
        }
    }

    /// Adds the next `count` nodes.
    fn insert(&mut self, codes: Codes<'_>, count: usize, visited: &mut [Visited]) {
        let first = self.nodes() as u32;
        let batch: Vec<u32> = (first..first + count as u32).collect();
        let graph = &*self;
        let chosen = side_by_side(&batch, visited, &|node, visited| {
            graph.neighbors(codes, first, *node, visited)
        });
        for &node in &batch {
            self.push_node(level_of(node));
        }
        let mut back = Vec::new();
        for (&node, layers) in batch.iter().zip(&chosen) {
            for (layer, links) in (0..).zip(layers) {
                self.set_links(node, layer, links);
                back.extend(links.iter().map(|it| {
                    let to = Near { distance: it.distance, node };
                    NewLink { from: it.node, layer, to }
                }));
            }
        }
        self.link_all(codes, back, visited);
    }

    /// The links of a node that is about to be added, a list for each of its layers from 0.
    fn neighbors(
        &self,
        codes: Codes<'_>,
        first: u32,
        node: u32,
        visited: &mut Visited,
    ) -> Vec<Vec<Near>> {
        let (level, code) = (level_of(node), codes.get(node));
        let before: Vec<u32> = (first..node).collect();
        let before = codes.near(code, &before);
        let mut near = Vec::new();
        let mut top = None;
        if self.nodes() > 0 {
            let height = self.level(self.entry);
            near = codes.near(code, &[self.entry]);
            for layer in (level + 1..=height).rev() {
                near = self.search_layer(codes, code, &near, 1, layer, visited, &|_| true);
            }
            top = Some(height);
        }
        let mut layers = Vec::new();
        for layer in (0..=level).rev() {
            let mut all = Vec::new();
            if top.is_some_and(|top| layer <= top) {
                near =
                    self.search_layer(codes, code, &near, BUILD_BREADTH, layer, visited, &|_| true);
                all.clone_from(&near);
            }
            all.extend(before.iter().filter(|it| level_of(it.node) >= layer));
            all.sort_unstable();
            layers.push(select(codes, &all, LINKS));
        }
        layers.reverse();
        layers
    }

    /// Adds all of the links. A node that has no place for its new ones keeps the best of all.
    pub(super) fn link_all(
        &mut self,
        codes: Codes<'_>,
        mut links: Vec<NewLink>,
        visited: &mut [Visited],
    ) {
        links.sort_unstable();
        let lists: Vec<&[NewLink]> =
            links.chunk_by(|a, b| (a.from, a.layer) == (b.from, b.layer)).collect();
        let graph = &*self;
        let made = side_by_side(&lists, visited, &|list, _| graph.with_links(codes, list));
        for (list, links) in lists.iter().zip(&made) {
            self.set_links(list[0].from, list[0].layer, links);
        }
    }

    /// The links of a node with some new ones.
    fn with_links(&self, codes: Codes<'_>, new: &[NewLink]) -> Vec<Near> {
        let (from, layer) = (new[0].from, new[0].layer);
        let present: Vec<u32> = self.links(from, layer).collect();
        let most = if layer == 0 { BASE_LINKS } else { LINKS };
        let mut all = codes.near(codes.get(from), &present);
        all.extend(new.iter().map(|it| it.to).filter(|it| !present.contains(&it.node)));
        if all.len() <= most {
            return all;
        }
        all.sort_unstable();
        select(codes, &all, most)
    }
}

/// What `work` makes of each item, in their order; the threads share the items, each with its own memory of what it
/// has seen.
pub(super) fn side_by_side<T: Sync, R: Send>(
    items: &[T],
    visited: &mut [Visited],
    work: &(impl Fn(&T, &mut Visited) -> R + Sync),
) -> Vec<R> {
    let part = items.len().div_ceil(visited.len().max(1)).max(1);
    // A thread for a handful of items costs more than it saves.
    if items.len() < 64 || visited.len() < 2 {
        let own = visited.first_mut().expect("a thread at least: this is a bug");
        return items.iter().map(|it| work(it, own)).collect();
    }
    std::thread::scope(|scope| {
        let parts = items.chunks(part).zip(visited);
        let running: Vec<_> = parts
            .map(|(items, visited)| {
                scope.spawn(move || items.iter().map(|it| work(it, visited)).collect::<Vec<R>>())
            })
            .collect();
        let join = |it: std::thread::ScopedJoinHandle<'_, Vec<R>>| {
            it.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        running.into_iter().flat_map(join).collect()
    })
}
