//! What a library of some size needs: at home, and on a server.
//!
//! Bytes of a passage times passages. Every factor is a measurement, a figure that Milvus has published, or an
//! assumption, and [`Sizing`] says which. `docs/benchmarks` has the measurements; the tests here hold the formulas
//! against both.

use serde::Serialize;

/// Neighbors of a node of the graph, as the schema of a library asks for them.
const LINKS: f64 = 16.0;

/// Bytes of a node's links by `M`. With [`LOADED`] it was chosen so that two published sizings come out: their
/// agreement is no check of its own.
const LINK_BYTES: f64 = 12.0;

/// What Milvus' own sizing gives for vectors and links in memory: 31.2 GiB for 8 million of 768 numbers with `M` 4.
const LOADED: f64 = 1.342;

/// Bytes of a file's identity, its folders, dates, kinds and paths in a passage's row on the server.
const ROW_BYTES: f64 = 620.0;

/// Bytes of a distinct word of a passage in a list of words: which passage, how often, and the list's own.
const POSTING_BYTES: f64 = 9.6;

/// Weighed terms that are kept of a passage.
const TERMS: f64 = 96.0;

/// Letters for each distinct word of a passage.
const LETTERS_PER_WORD: f64 = 9.0;

/// Of a passage's letters, those that its stems have.
const STEMS: f64 = 0.75;

/// Rows that were replaced or deleted wait for compaction: what the store holds, by what is in use.
const UNCOMPACTED: f64 = 1.5;

/// Of a node's memory, the share that data may fill.
const FILLED: f64 = 0.7;

/// Memory of a query node that is planned with, in bytes.
const NODE_BYTES: f64 = 64.0 * 1024.0 * 1024.0 * 1024.0;

/// Searches on the server for one question: meaning, words, names, weighed terms.
const SEARCHES: f64 = 4.0;

/// Memory of what runs beside query nodes: coordinator, proxy, streaming and data nodes, as the chart asks for them.
const AROUND_BYTES: f64 = 32.0 * 1024.0 * 1024.0 * 1024.0;

/// Bytes of a passage's vector in the catalog: two rows share a page of 4 KiB.
const CATALOG_PAGE_SHARE: f64 = 2048.0;

/// Of a passage's text, what the catalog and the keyword index keep of it together.
const HOME_TEXT: f64 = 3.0;

/// Passages that were measured in one home.
const MEASURED_AT_HOME: f64 = 1_000_284.0;

/// What is to be planned for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Workload {
    /// Documents.
    pub documents: u64,
    /// Passages of one, in the mean.
    pub passages_per_document: f64,
    /// Letters of a passage in UTF-8, in the mean.
    pub passage_bytes: f64,
    /// Numbers of a vector.
    pub dimensions: u32,
    /// Whether terms are weighed.
    pub weighed_terms: bool,
    /// People and programs that search.
    pub readers: u64,
    /// Questions that each of them asks in an hour of work.
    pub questions_per_hour: f64,
    /// Searches a second that one copy of the library answers: measure it on your own server.
    pub searches_per_second: f64,
    /// Copies so that one may be lost; at least 1.
    pub copies: u64,
    /// Passages a second that the machine which writes can embed.
    pub embedded_per_second: f64,
}

impl Default for Workload {
    fn default() -> Workload {
        Workload {
            documents: 0,
            passages_per_document: 20.0,
            passage_bytes: 900.0,
            dimensions: 384,
            weighed_terms: true,
            readers: 1,
            questions_per_hour: 30.0,
            searches_per_second: 200.0,
            copies: 1,
            embedded_per_second: 145.0,
        }
    }
}

/// What all of it in one home takes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct HomeSizing {
    /// Bytes of the index of vectors: codes and links; clean pages that the system may take back.
    pub vector_index_bytes: f64,
    /// Bytes of the catalog, the keyword index and weighed terms.
    pub text_bytes: f64,
    /// Both.
    pub disk_bytes: f64,
    /// Whether a library of this size was ever measured in a home.
    pub measured: bool,
}

/// What it takes on a server.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ServerSizing {
    /// Bytes of vectors and graph in memory.
    pub vector_bytes: f64,
    /// Bytes of lists of words, names and weighed terms in memory.
    pub sparse_bytes: f64,
    /// Bytes of texts and all else in memory.
    pub row_bytes: f64,
    /// All of these, for one copy.
    pub loaded_bytes: f64,
    /// Copies: those that were asked for, or as many as the questions need.
    pub copies: u64,
    /// Query nodes for all copies.
    pub query_nodes: u64,
    /// Memory of one.
    pub query_node_bytes: f64,
    /// Memory of everything: query nodes, and what runs beside them.
    pub memory_bytes: f64,
    /// Bytes in the object store.
    pub store_bytes: f64,
    /// Searches a second when everybody asks.
    pub searches_per_second: f64,
}

/// A plan.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Sizing {
    /// Passages.
    pub passages: f64,
    /// Hours that one machine embeds.
    pub embed_hours: f64,
    /// In one home.
    pub home: HomeSizing,
    /// On a server.
    pub server: ServerSizing,
}

impl Workload {
    /// What it needs.
    pub fn sizing(&self) -> Sizing {
        let passages = self.documents as f64 * self.passages_per_document;
        Sizing {
            passages,
            embed_hours: passages / self.embedded_per_second / 3600.0,
            home: self.home(passages),
            server: self.server(passages),
        }
    }

    fn words(&self) -> f64 {
        self.passage_bytes / LETTERS_PER_WORD
    }

    fn terms(&self) -> f64 {
        if self.weighed_terms { TERMS } else { 0.0 }
    }

    fn home(&self, passages: f64) -> HomeSizing {
        // A byte for a number, links as whole numbers, and where the passage is.
        let vector_index_bytes = passages * (f64::from(self.dimensions) + LINKS * 8.3 + 8.0);
        let pages = (f64::from(self.dimensions) * 4.0 / CATALOG_PAGE_SHARE).ceil();
        let of_passage = pages * CATALOG_PAGE_SHARE
            + HOME_TEXT * self.passage_bytes
            + POSTING_BYTES * self.terms();
        let text_bytes = passages * of_passage;
        HomeSizing {
            vector_index_bytes,
            text_bytes,
            disk_bytes: vector_index_bytes + text_bytes,
            measured: passages <= MEASURED_AT_HOME,
        }
    }

    fn server(&self, passages: f64) -> ServerSizing {
        let raw = f64::from(self.dimensions) * 4.0;
        let vector_bytes = passages * vectors_loaded(self.dimensions, LINKS);
        let sparse_bytes = passages * POSTING_BYTES * (self.words() + self.terms());
        let row_bytes = passages * (self.passage_bytes * (1.0 + STEMS) + ROW_BYTES);
        let loaded_bytes = vector_bytes + sparse_bytes + row_bytes;
        let searches_per_second = self.readers as f64 * self.questions_per_hour / 3600.0 * SEARCHES;
        let needed = (searches_per_second / self.searches_per_second).ceil() as u64;
        let copies = needed.max(self.copies).max(1);
        let nodes_of_copy = (loaded_bytes / (NODE_BYTES * FILLED)).ceil().max(1.0);
        // A small library needs no large node.
        let per_node = (loaded_bytes / nodes_of_copy / FILLED).max(4.0 * GIB);
        let query_nodes = nodes_of_copy as u64 * copies;
        // Terms are kept beside their lists, as vectors are beside their graph.
        let stored = loaded_bytes + passages * (raw + 8.0 * self.terms());
        ServerSizing {
            vector_bytes,
            sparse_bytes,
            row_bytes,
            loaded_bytes,
            copies,
            query_nodes,
            query_node_bytes: per_node,
            memory_bytes: per_node * query_nodes as f64 + AROUND_BYTES,
            store_bytes: stored * UNCOMPACTED,
            searches_per_second,
        }
    }
}

const GIB: f64 = 1024.0 * 1024.0 * 1024.0;

/// Bytes of a vector in Milvus' memory, in a graph with `links` neighbors.
fn vectors_loaded(dimensions: u32, links: f64) -> f64 {
    LOADED * (f64::from(dimensions) * 4.0 + LINK_BYTES * links)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(is: f64, should: f64, within: f64) {
        assert!((is / should - 1.0).abs() <= within, "{is} is not {should}");
    }

    /// Alibaba Cloud's page on sizing Milvus, and the first sizing tool of Zilliz, whose `M` is taken to be 30. Both
    /// were used to choose the two factors: this holds them, and proves nothing more.
    #[test]
    fn vectors_in_memory_are_what_milvus_has_published() {
        near(8e6 * vectors_loaded(768, 4.0) / GIB, 31.2, 0.01);
        near(1e6 * vectors_loaded(128, 30.0) / GIB, 1.1, 0.02);
    }

    /// docs/benchmarks/2026-11-25-million-passages.md: codes, links and chunks of 1 000 284 passages.
    #[test]
    fn the_index_at_home_is_what_was_measured() {
        let million =
            Workload { documents: 10_000, passages_per_document: 100.028_4, ..Workload::default() };
        let sizing = million.sizing();
        near(sizing.home.vector_index_bytes, 525e6, 0.01);
        assert!(sizing.home.measured);
    }

    #[test]
    fn more_of_anything_never_needs_less() {
        let of = |documents, readers, copies| {
            let it = Workload { documents, readers, copies, ..Workload::default() }.sizing();
            (it.server.memory_bytes, it.server.store_bytes, it.home.disk_bytes)
        };
        let mut before = of(1, 1, 1);
        for exponent in 1..=9 {
            let now = of(10_u64.pow(exponent), 10_u64.pow(exponent / 2), u64::from(exponent));
            assert!(now.0 >= before.0 && now.1 >= before.1 && now.2 >= before.2, "{now:?}");
            before = now;
        }
    }

    #[test]
    fn many_readers_need_copies_and_nobody_needs_one() {
        let with = |readers| Workload { documents: 100, readers, ..Workload::default() }.sizing();
        assert_eq!((with(0).server.copies, with(20).server.copies), (1, 1));
        // 600 000 questions an hour are 667 searches a second.
        assert_eq!(with(20_000).server.copies, 4);
        let nothing = Workload::default().sizing();
        assert_eq!((nothing.passages, nothing.server.query_nodes), (0.0, 1));
    }
}
