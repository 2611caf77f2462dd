//! Graphs against a scan.

use proptest::prelude::*;

use super::{grow::level_of, *};
use crate::mapped::Mapped;

/// Codes in clusters, as embeddings of related texts are.
fn clustered(count: usize, dimensions: usize, clusters: usize) -> Vec<i8> {
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
    graph.grow(codes, count, &|| {});
    graph
}

fn bytes(graph: &Graph) -> Vec<u8> {
    let mut bytes = Vec::new();
    let written = graph.write(&mut bytes).expect("written");
    assert_eq!(written, bytes.len() as u64);
    bytes
}

/// The graph of those bytes, as it is read from a file.
fn read(bytes: &[u8], nodes: usize) -> Option<Graph> {
    let dir = tempfile::tempdir().expect("folder");
    std::fs::write(dir.path().join("links"), bytes).expect("written");
    let mapped = Mapped::open(&dir.path().into(), "links", bytes.len() as u64).expect("mapped");
    Graph::read(mapped?, nodes)
}

fn search(graph: &Graph, codes: Codes<'_>, query: &[i8], breadth: usize) -> Vec<Near> {
    graph.search(codes, query, breadth, &mut Visited::default(), &|_| true)
}

fn naive(codes: Codes<'_>, count: usize, query: &[i8], passes: impl Fn(u32) -> bool) -> Vec<Near> {
    let nodes: Vec<u32> = (0..count as u32).filter(|it| passes(*it)).collect();
    let mut all = codes.near(query, &nodes);
    all.sort_unstable();
    all
}

/// How many of the 10 nearest of each query are found, of the nodes that pass.
fn common(graph: &Graph, codes: Codes<'_>, queries: &[i8]) -> usize {
    let mut common = 0;
    for query in queries.chunks_exact(codes.dimensions) {
        let exact = naive(codes, graph.nodes(), query, |_| true);
        let found = search(graph, codes, query, 128);
        common += exact[..10].iter().filter(|it| found[..10].contains(it)).count();
    }
    common
}

#[test]
fn levels_thin_out_by_m() {
    let on = |layer| (0..100_000).filter(|&it| level_of(it) >= layer).count();
    // 100 000 / 16 and / 256, give or take chance.
    assert!((5_900..6_600).contains(&on(1)), "{}", on(1));
    assert!((300..480).contains(&on(2)), "{}", on(2));
}

#[test]
fn finds_what_a_scan_finds_and_is_the_same_in_steps() {
    // Two batches and a rest, which stays out.
    let (count, dimensions) = (4_096 + 2 * 512 + 40, 384);
    let values = clustered(count, dimensions, 50);
    let codes = Codes { dimensions, values: &values };
    let graph = build(codes, count);
    assert_eq!(graph.nodes(), count - 40);
    let queries = clustered(50, dimensions, 50);
    let common = common(&graph, codes, &queries);
    assert!(common >= 475, "recall@10 is {common} of 500");
    // Growing in steps makes the same graph, and so does storing it in between, and one thread.
    let mut grown = build(codes, 1_000);
    grown = read(&bytes(&grown), 1_000).expect("sound");
    grown.grow(codes, 4_700, &|| {});
    grown.grow(codes, count, &|| {});
    assert!(bytes(&grown) == bytes(&graph));
}

#[test]
fn copies_do_not_hide_the_rest() {
    let dimensions = 16;
    let mut values = [5i8; 16].repeat(600);
    values.extend(clustered(600, dimensions, 6));
    let codes = Codes { dimensions, values: &values };
    let graph = build(codes, 1_200);
    for node in 600..1_200 {
        let found = search(&graph, codes, codes.get(node), 64);
        assert_eq!(found[0].distance, 0, "node {node} is found by its own code");
    }
}

#[test]
fn what_is_left_is_found_when_nodes_go() {
    let (count, dimensions, clusters) = (4_096 + 512, 48, 40);
    let values = clustered(count, dimensions, clusters);
    let codes = Codes { dimensions, values: &values };
    let graph = build(codes, count);
    let queries = clustered(50, dimensions, clusters);
    // Every second one; whole clusters, as a folder goes; nearly all.
    let rules: [&dyn Fn(usize) -> bool; 3] =
        [&|it| it % 2 == 0, &|it| it % clusters < 20, &|it| it % 23 == 0];
    for (rule, stays) in rules.iter().enumerate() {
        let stay: Vec<bool> = (0..count).map(stays).collect();
        let left: Vec<i8> = (0..count as u32)
            .filter(|it| stay[*it as usize])
            .flat_map(|it| codes.get(it).iter().copied())
            .collect();
        let left_codes = Codes { dimensions, values: &left };
        let kept = graph.kept(codes, &stay, left_codes);
        assert_eq!(kept.nodes(), left.len() / dimensions);
        let common = common(&kept, left_codes, &queries);
        assert!(common >= 475, "rule {rule}: recall@10 is {common} of 500");
        // It is a graph as others are: it can be stored, and grow.
        let again = read(&bytes(&kept), kept.nodes()).expect("sound");
        assert!(bytes(&again) == bytes(&kept));
    }
    let none = graph.kept(codes, &[], Codes { dimensions, values: &[] });
    assert_eq!(none.nodes(), 0);
    assert!(search(&none, codes, codes.get(0), 5).is_empty());
}

#[test]
fn a_graph_that_was_thinned_out_grows_on() {
    let (count, dimensions) = (4_096 + 512, 16);
    let values = clustered(count + 1_024, dimensions, 9);
    let codes = Codes { dimensions, values: &values };
    let graph = build(codes, count);
    let mut stay = vec![true; count];
    stay[..300].fill(false);
    let left_codes = Codes { dimensions, values: &values[300 * dimensions..] };
    let mut kept = graph.kept(codes, &stay, left_codes);
    kept.grow(left_codes, count + 1_024 - 300, &|| {});
    assert!(kept.nodes() > count + 1_024 - 300 - 512);
    let common = common(&kept, left_codes, &clustered(50, dimensions, 9));
    assert!(common >= 475, "recall@10 is {common} of 500");
}

#[test]
fn damaged_bytes_are_refused_or_harmless() {
    let dimensions = 8;
    let values = clustered(400, dimensions, 5);
    let codes = Codes { dimensions, values: &values };
    let bytes = bytes(&build(codes, 300));
    assert!(read(&bytes, 300).is_some());
    for (bytes, nodes) in [
        (&bytes[..bytes.len() - 4], 300),
        (&bytes[..], 299),
        (&bytes[..], 301),
        (&bytes[..], usize::MAX),
        (&[], 1),
    ] {
        assert!(read(bytes, nodes).is_none());
    }
    let stay: Vec<bool> = (0..300).map(|it| it % 3 > 0).collect();
    let left: Vec<i8> = (0..300u32)
        .filter(|it| stay[*it as usize])
        .flat_map(|it| codes.get(it).iter().copied())
        .collect();
    let mut read_all_the_same = 0;
    for at in (0..bytes.len()).step_by(37) {
        let mut bad = bytes.clone();
        bad[at] ^= 0x55;
        if let Some(mut graph) = read(&bad, 300) {
            read_all_the_same += 1;
            search(&graph, codes, codes.get(7), 20);
            graph.kept(codes, &stay, Codes { dimensions, values: &left });
            // The nodes that come link to nearly all of those that are there.
            graph.grow(codes, 400, &|| {});
            assert_eq!(graph.nodes(), 400);
        }
    }
    assert!(read_all_the_same > 900, "{read_all_the_same}");
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
        let found =
            graph.search(codes, codes.get(query), 64, &mut Visited::default(), &passes);
        prop_assert!(found.iter().all(|it| passes(it.node)));
        prop_assert_eq!(found.len(), exact.len().min(64));
        let common = exact.iter().take(10).filter(|it| found.contains(it)).count();
        prop_assert!(common >= 9.min(exact.len()));
    }
}
