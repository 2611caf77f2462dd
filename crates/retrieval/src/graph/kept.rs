//! Leaving nodes out.
//!
//! A graph half of whose nodes are gone takes twice the memory, and walks through what it does not return. To build it
//! anew takes minutes. Instead the ways that led over nodes that are gone are made shorter: who had a link to one of
//! them is offered what that one was linked to, and keeps the best of it.

use super::{
    BASE_LINKS, Codes, Graph, LINKS, NONE, Near, Visited,
    grow::{NewLink, side_by_side},
    select,
};

/// Nodes that are gone and are walked through for one that stays, at most: where all around are gone, there are many.
const WALKED: usize = 64;

impl Graph {
    /// The graph of the nodes that `stay` (by node; one that is not in it goes), numbered anew in their order. `codes`
    /// are those of the old numbers, `new_codes` those of the new.
    pub(crate) fn kept(&self, codes: Codes<'_>, stay: &[bool], new_codes: Codes<'_>) -> Graph {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let mut visited: Vec<Visited> = (0..threads).map(|_| Visited::default()).collect();
        let stays = |node: u32| stay.get(node as usize).copied().unwrap_or(false);
        let kept: Vec<u32> = (0..self.nodes() as u32).filter(|it| stays(*it)).collect();
        let mut number = vec![NONE; self.nodes()];
        for (new, &old) in (0..).zip(&kept) {
            number[old as usize] = new;
        }
        let lists = side_by_side(&kept, &mut visited, &|node, visited| {
            (0..=self.level(*node))
                .map(|layer| self.without(codes, *node, layer, &stays, visited))
                .collect::<Vec<_>>()
        });
        let mut graph = Graph::default();
        for &node in &kept {
            graph.push_node(self.level(node));
        }
        let mut back = Vec::new();
        for (new, layers) in (0..).zip(lists) {
            for (layer, (links, changed)) in (0..).zip(layers) {
                let links: Vec<Near> = links
                    .into_iter()
                    .map(|it| Near { distance: it.distance, node: number[it.node as usize] })
                    .collect();
                graph.set_links(new, layer, &links);
                if changed {
                    back.extend(links.iter().map(|it| {
                        let to = Near { distance: it.distance, node: new };
                        NewLink { from: it.node, layer, to }
                    }));
                }
            }
        }
        graph.link_all(new_codes, back, &mut visited);
        graph
    }

    /// The links of a node without those that go, in the old numbers, and whether there were any.
    fn without(
        &self,
        codes: Codes<'_>,
        node: u32,
        layer: u8,
        stays: &dyn Fn(u32) -> bool,
        visited: &mut Visited,
    ) -> (Vec<Near>, bool) {
        visited.forget(self.nodes());
        visited.mark(node);
        let (mut near, mut gone) = (Vec::new(), Vec::new());
        for link in self.links(node, layer).filter(|it| visited.mark(*it)) {
            if stays(link) { near.push(link) } else { gone.push(link) }
        }
        let changed = !gone.is_empty();
        let most = if layer == 0 { BASE_LINKS } else { LINKS };
        let (enough, mut walked) = (2 * most, 0);
        // Once there are enough to choose from, walking on would find nothing that is taken.
        while near.len() < enough
            && let Some(&lost) = gone.get(walked).filter(|_| walked < WALKED)
        {
            walked += 1;
            for link in self.links(lost, layer).filter(|it| visited.mark(*it)) {
                // A link of layer 1 that is damaged may lead to a node that is on layer 0 alone.
                if self.level(link) < layer {
                    continue;
                }
                if !stays(link) {
                    gone.push(link);
                } else if near.len() < enough {
                    near.push(link);
                }
            }
        }
        let mut near = codes.near(codes.get(node), &near);
        if changed {
            near.sort_unstable();
            near = select(codes, &near, most);
        }
        (near, changed)
    }
}
