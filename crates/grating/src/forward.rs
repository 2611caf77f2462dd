//! The forward pass of one request: hidden states of all running candidates, one layer at a time.

mod apart;
mod head;
mod rows;
mod step;
mod weights;

use std::{
    ops::Range,
    path::Path,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use riddle_kernels::{sigmoid, zeros};
use riddle_offload::{EmbeddingRows, LayerWindow, Pass, SpillFile};
use riddle_transformer::{
    CrossEncoder, Encoded, OpenOptions, PairEncoder, Prefix, RaggedBatch, ScoredToken, Scratch,
    ScratchSize, Sizes, Span, Wanted, open_cross_encoder,
};

use self::{
    apart::Apart,
    head::Head,
    step::{Compute, Embed},
    weights::Weights,
};
pub(crate) use self::{apart::Sequences, head::QueryStates};
use crate::{
    Result,
    plan::{Demand, Plan, largest_micro_batch, micro_batches},
};

/// A cross-encoder with its weights' residency: what a run needs of a model.
#[derive(Debug)]
pub(crate) struct Model {
    network: Box<dyn CrossEncoder>,
    window: LayerWindow,
    rows: EmbeddingRows,
    /// Rows that may be in memory where no plan says less.
    row_capacity: usize,
}

/// Hidden states of the running candidates.
#[derive(Debug)]
pub(crate) struct Hidden {
    /// What the candidates say, until the first layer has embedded it.
    pairs: Vec<Encoded>,
    /// Tokens of each running candidate, without the prefix.
    lengths: Vec<usize>,
    /// Those that each of them begins with and that are the query's.
    queries: Vec<usize>,
    /// First token of each running candidate in the file; without meaning in memory.
    starts: Vec<usize>,
    states: States,
    prefix: SharedPrefix,
    apart: Apart,
    width: usize,
    scratch: Scratch,
    micro_batch_tokens: usize,
}

#[derive(Debug)]
enum States {
    /// `[tokens, width]`, one candidate after the other without gaps; shrinks as candidates leave.
    Memory(Vec<f32>),
    /// Every candidate where it was from the beginning.
    Disk(SpillFile),
}

/// Tokens that all candidates begin with.
#[derive(Debug, Default)]
struct SharedPrefix {
    ids: Vec<u32>,
    /// `[prefix tokens, width]`.
    states: Vec<f32>,
    /// Queries, keys and values in the layer at work.
    qkv: Vec<f32>,
}

/// What a layer did.
#[derive(Debug, Default)]
pub(crate) struct LayerWork {
    /// Bytes read, those of embedding rows included.
    pub(crate) bytes_read: u64,
    pub(crate) row_bytes_read: u64,
    pub(crate) io_wait: Duration,
    /// Raw scores of the running candidates in their order, if they were wanted.
    pub(crate) scores: Vec<f32>,
}

impl Model {
    pub(crate) fn open(
        dir: &Path,
        options: OpenOptions,
        window: Option<usize>,
        row_share: f32,
    ) -> Result<Model> {
        let network = open_cross_encoder(dir, options)?;
        let layers = network.layers().clone();
        let depth = window.unwrap_or(layers.layers().len());
        let (checkpoint, table) = (network.checkpoint().clone(), network.token_table().clone());
        let rows = EmbeddingRows::new(checkpoint, table, row_share);
        Ok(Model {
            window: LayerWindow::new(Arc::new(layers), depth)?,
            row_capacity: rows.capacity(),
            rows,
            network,
        })
    }

    pub(crate) fn sizes(&self) -> Sizes {
        self.network.sizes()
    }

    pub(crate) fn num_layers(&self) -> u32 {
        // Configurations are checked to be far below 2³².
        self.sizes().num_layers as u32
    }

    /// First layer after which candidates can be scored, from 1.
    pub(crate) fn first_scored_layer(&self) -> u32 {
        self.sizes().first_scored_layer as u32
    }

    pub(crate) fn encoder(
        &mut self,
        dir: &Path,
        max_tokens: usize,
        instruction: Option<&str>,
    ) -> Result<PairEncoder> {
        Ok(PairEncoder::open(dir, &mut *self.network, max_tokens, instruction)?)
    }

    /// Bytes of layer weights in memory now: never more than window depth × largest layer.
    pub(crate) fn layer_bytes(&self) -> u64 {
        self.window.resident_bytes()
    }

    /// Bytes of all weights in memory now.
    pub(crate) fn resident_bytes(&self) -> u64 {
        self.layer_bytes() + self.rows.resident_bytes() + self.network.resident_bytes()
    }

    /// Bytes that are taken beside what a plan counts anew, layers and embedding rows. `process` tells what the whole
    /// process has; where the system does not, it is what the model always keeps.
    pub(crate) fn held_bytes(&self, process: impl FnOnce() -> Option<u64>) -> u64 {
        self.window.at_rest(|layers| {
            let planned = layers + self.rows.resident_bytes();
            process().map_or(self.network.resident_bytes(), |it| it.saturating_sub(planned))
        })
    }

    /// Starts to read the first layers.
    pub(crate) fn prefetch(&mut self) -> Result<()> {
        Ok(self.window.prefetch()?)
    }

    /// Starts to read the first layer where it is not known yet how many a request will have: at least one, if it
    /// can be served at all from `budget` bytes of which `held` are taken.
    pub(crate) fn prefetch_one(&mut self, budget: u64, held: u64) -> Result<()> {
        if held + self.window.layer_bytes() > budget {
            return Ok(());
        }
        self.window.set_depth(1)?;
        self.prefetch()
    }

    /// What a request of these sequences asks of the memory.
    pub(crate) fn demand(&self, sequences: &Sequences, shared: usize, threads: usize) -> Demand {
        let sizes = self.sizes();
        let mut tokens: Vec<u32> = sequences.tokens().collect();
        tokens.sort_unstable();
        tokens.dedup();
        let shape = self.network.scratch_shape();
        Demand {
            lengths: sequences.candidates.iter().map(|it| it.len() - shared).collect(),
            prefix: shared,
            apart: sequences.longest_query(),
            // The prefix keeps its states and what attention needs of it, beside everything else.
            beside_bytes: (shared * (sizes.hidden_size + shape.wide) * size_of::<f32>()) as u64
                + sequences.apart_bytes(&*self.network),
            unique_tokens: tokens.len(),
            // Not what the request before was given: a plan would only ever become smaller.
            row_capacity: self.row_capacity,
            row_bytes: self.rows.row_bytes(),
            num_layers: sizes.num_layers,
            layer_bytes: self.window.layer_bytes(),
            width: sizes.hidden_size,
            shape,
            threads,
        }
    }

    /// Tokens that all pairs begin with and that can be computed once; each keeps at least one of its own.
    pub(crate) fn shared_prefix(&self, pairs: &[Encoded]) -> usize {
        let (Some(first), true) = (pairs.first(), self.network.shares_prefixes()) else { return 0 };
        if pairs.len() == 1 {
            return 0;
        }
        let common = |it: &Encoded| {
            let equal = it.ids.iter().zip(&first.ids).take_while(|(a, b)| a == b).count();
            equal.min(it.len() - 1)
        };
        pairs.iter().map(common).min().unwrap_or(0)
    }

    /// Memory for a run: `shared` tokens at the beginning of every pair are computed once.
    pub(crate) fn prepare(
        &mut self,
        mut sequences: Sequences,
        shared: usize,
        plan: &Plan,
        threads: usize,
        spill_dir: &Path,
    ) -> Result<Hidden> {
        self.window.set_depth(plan.window)?;
        if let Some(rows) = plan.embedding_rows {
            self.rows.set_capacity(rows);
        }
        let width = self.sizes().hidden_size;
        let longest_query = sequences.longest_query();
        let apart = Apart::new(&mut sequences, self.network.late());
        let mut pairs = sequences.candidates;
        let ids = pairs.first().map_or(Vec::new(), |it| it.ids[..shared].to_vec());
        for pair in &mut pairs {
            pair.ids.drain(..shared);
        }
        let lengths: Vec<usize> = pairs.iter().map(Encoded::len).collect();
        let queries = pairs.iter().map(Encoded::first_segment).collect();
        let mut tokens = 0;
        let starts = lengths.iter().map(|length| {
            tokens += length;
            tokens - length
        });
        let starts = starts.collect();
        let largest = largest_micro_batch(&lengths, plan.micro_batch_tokens);
        let longest = lengths.iter().copied().max().unwrap_or(0) + shared;
        let tokens_at_once = largest.max(shared).max(longest_query);
        let longest = longest.max(longest_query);
        let size = ScratchSize { tokens: tokens_at_once, longest, threads };
        let states = if plan.hidden_on_disk {
            States::Disk(SpillFile::new(spill_dir, largest * width)?)
        } else {
            States::Memory(zeros(tokens * width))
        };
        Ok(Hidden {
            pairs,
            lengths,
            queries,
            starts,
            states,
            prefix: SharedPrefix { states: vec![0.0; shared * width], ids, qkv: Vec::new() },
            apart,
            width,
            scratch: Scratch::new(&self.network.scratch_shape(), size),
            micro_batch_tokens: plan.micro_batch_tokens,
        })
    }

    /// Runs layer `layer` (from 0) over all running candidates; the first one embeds them before.
    pub(crate) fn layer(
        &mut self,
        layer: usize,
        hidden: &mut Hidden,
        want_scores: bool,
        stop: Option<&AtomicBool>,
    ) -> Result<LayerWork> {
        let Model { network, window, rows, .. } = self;
        let network = &**network;
        let last = layer + 1 == network.sizes().num_layers;
        let wanted = wanted_of(network, last);
        let weights = Weights::ask(window, layer)?;
        let Hidden { pairs, lengths, queries, starts, states, width, .. } = hidden;
        let batches = micro_batches(lengths, hidden.micro_batch_tokens);
        let rows_before = rows.stats();
        let mut waited = Duration::ZERO;
        if layer == 0 {
            waited += hidden.prefix.embed(network, rows, *width)?;
            waited += hidden.apart.embed(network, rows)?;
        }
        let mut embed = Embed { network, rows: &mut *rows, pairs, batches: &batches };
        let mut compute = Compute {
            network,
            layer,
            wanted,
            weights,
            prefix: &mut hidden.prefix,
            apart: &mut hidden.apart,
            lengths,
            queries,
            batches: &batches,
            scratch: &mut hidden.scratch,
            head: want_scores.then(|| Head::new(network, layer, wanted)),
            stop,
        };
        match states {
            States::Memory(states) => {
                let parts = step::parts(states, lengths, &batches, *width);
                waited += step::each_part(parts, layer == 0, &mut embed, &mut compute)?;
            }
            States::Disk(file) => {
                let places: Vec<Vec<Range<u64>>> =
                    batches.iter().map(|it| places(lengths, starts, it.clone(), *width)).collect();
                // Nothing has been written before the first layer, nothing is read after the last.
                let pass = Pass { read: layer > 0, write: !last };
                waited += step::each_spilled(file, &places, pass, &mut embed, &mut compute)?;
            }
        }
        // What the candidates say is in the hidden states now.
        hidden.pairs = Vec::new();
        let (bytes_read, io_wait) = compute.weights.cost();
        let row_bytes_read = rows.stats().bytes_read - rows_before.bytes_read;
        Ok(LayerWork {
            bytes_read: bytes_read + row_bytes_read,
            row_bytes_read,
            io_wait: io_wait + waited,
            scores: compute.head.map_or_else(Vec::new, Head::scores),
        })
    }

    /// Maps a raw score to 0…1 by the model's own activation: a sigmoid for a head with one label, and for
    /// the difference of two logits, of which it is the softmax.
    pub(crate) fn activate(raw: f32) -> f32 {
        sigmoid(raw)
    }
}

impl SharedPrefix {
    /// Embeds the prefix; returns how long reading rows for it took.
    fn embed(
        &mut self,
        network: &dyn CrossEncoder,
        table: &mut EmbeddingRows,
        width: usize,
    ) -> Result<Duration> {
        if self.ids.is_empty() {
            return Ok(Duration::ZERO);
        }
        self.states.resize(self.ids.len() * width, 0.0);
        let ids = self.ids.clone();
        let packed = RaggedBatch::pack([&Encoded { ids, type_ids: Vec::new() }]);
        rows::gather(table, network, &packed, &mut self.states)
    }

    /// Runs a layer over the prefix and leaves its queries, keys and values.
    fn layer(
        &mut self,
        network: &dyn CrossEncoder,
        layer: usize,
        weights: &[u8],
        scratch: &mut Scratch,
    ) {
        if self.ids.is_empty() {
            return;
        }
        let prefix = Prefix::Build(&mut self.qkv);
        let cu_seqlens = &[0, self.ids.len()];
        let span = Span { cu_seqlens, prefix, wanted: Wanted::All, unseen: 0 };
        network.layer(layer, weights, span, &mut self.states, scratch);
    }
}

impl Hidden {
    /// Keeps only the candidates at the given places (ascending), closing the gaps.
    pub(crate) fn retain(&mut self, places: &[usize]) {
        if let States::Memory(states) = &mut self.states {
            let (mut read, mut write, mut next) = (0, 0, 0);
            for (place, &length) in self.lengths.iter().enumerate() {
                if places.get(next) == Some(&place) {
                    states.copy_within(
                        read * self.width..(read + length) * self.width,
                        write * self.width,
                    );
                    write += length;
                    next += 1;
                }
                read += length;
            }
            states.truncate(write * self.width);
            // Candidates that left hand their memory back at once, not only when the request ends.
            states.shrink_to_fit();
        }
        self.apart.retain(places);
        self.lengths = places.iter().map(|&it| self.lengths[it]).collect();
        self.queries = places.iter().map(|&it| self.queries[it]).collect();
        self.starts = places.iter().map(|&it| self.starts[it]).collect();
    }

    /// Bytes of hidden states and scratch in memory.
    pub(crate) fn bytes(&self) -> u64 {
        let states = match &self.states {
            States::Memory(states) => (states.capacity() * size_of::<f32>()) as u64,
            States::Disk(file) => file.buffer_bytes(),
        };
        let prefix = self.prefix.states.capacity() + self.prefix.qkv.capacity();
        states + (prefix * size_of::<f32>()) as u64 + self.apart.bytes() + self.scratch.bytes()
    }
}

/// What of a layer's states anybody reads: of the last one's nobody does but the head.
fn wanted_of(network: &dyn CrossEncoder, last: bool) -> Wanted {
    let one_token = network.scored_token() != ScoredToken::All;
    if last && one_token { Wanted::Scored } else { Wanted::All }
}

/// Where a micro-batch lies in the file, in numbers; neighbors are one place.
fn places(
    lengths: &[usize],
    starts: &[usize],
    members: Range<usize>,
    width: usize,
) -> Vec<Range<u64>> {
    let mut places: Vec<Range<u64>> = Vec::new();
    for member in members {
        let start = (starts[member] * width) as u64;
        let end = start + (lengths[member] * width) as u64;
        match places.last_mut() {
            Some(last) if last.end == start => last.end = end,
            _ => places.push(start..end),
        }
    }
    places
}

#[cfg(test)]
pub(crate) mod tests {
    use std::{path::PathBuf, sync::Mutex};

    use riddle_offload::LayerSource;

    use super::*;

    const PLAN: Plan =
        Plan { window: 2, micro_batch_tokens: 64, embedding_rows: None, hidden_on_disk: false };

    pub(crate) fn tiny() -> PathBuf {
        golden("tiny-bert-cross-encoder")
    }

    fn golden(name: &str) -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name)
    }

    /// Layers in the order in which they were read.
    pub(crate) type Reads = Arc<Mutex<Vec<usize>>>;

    /// A model's layers, and a note of each that is read.
    struct Noted {
        layers: Box<dyn LayerSource>,
        reads: Reads,
    }

    impl LayerSource for Noted {
        fn num_layers(&self) -> usize {
            self.layers.num_layers()
        }

        fn layer_bytes(&self, layer: usize) -> usize {
            self.layers.layer_bytes(layer)
        }

        fn read_layer(&self, layer: usize, out: &mut [u8]) -> riddle_weights::Result<u64> {
            self.reads.lock().expect("no panic").push(layer);
            self.layers.read_layer(layer, out)
        }
    }

    /// Gives a model a new window, and tells what it reads.
    pub(crate) fn watch(model: &mut Model, depth: usize) -> Reads {
        let reads = Reads::default();
        let layers = Box::new(model.network.layers().clone());
        let noted = Noted { layers, reads: Arc::clone(&reads) };
        model.window = LayerWindow::new(Arc::new(noted), depth).expect("a thread");
        reads
    }

    /// A model with all rows of its table allowed, and pairs of these texts.
    fn model(dir: &Path, texts: &[&str]) -> (Model, Sequences) {
        let mut model =
            Model::open(dir, OpenOptions::default(), None, 1.0).expect("the tiny model opens");
        let encoder = model.encoder(dir, 300, None).expect("it has a tokenizer");
        let query = encoder.query("Where is the boat?").expect("a query");
        let pairs = texts.iter().map(|it| query.encode(it).expect("a pair")).collect();
        let mut sequences = Sequences::default();
        sequences.add(&query, pairs);
        (model, sequences)
    }

    /// A model's first layer that can not be read, and the rows that were read meanwhile.
    #[test]
    fn tokens_are_embedded_while_the_first_layer_is_read() {
        for (name, hidden_on_disk) in [
            ("tiny-bert-cross-encoder", false),
            ("tiny-bert-cross-encoder", true),
            ("tiny-qwen3-reranker", false),
        ] {
            let (mut model, pairs) = model(&golden(name), &["the lock gate", "bread"]);
            let shared = model.shared_prefix(&pairs.candidates);
            model.window = LayerWindow::new(Arc::new(Unreadable), 2).expect("a thread");
            let plan = Plan { hidden_on_disk, ..PLAN };
            let mut hidden =
                model.prepare(pairs, shared, &plan, 1, &std::env::temp_dir()).expect("prepared");
            let error = model.layer(0, &mut hidden, false, None).err().map(|it| it.to_string());
            assert!(error.is_some_and(|it| it.contains("layer 1")));
            let rows = model.rows.stats().misses;
            assert!(rows > 5, "{name}: {rows} rows were read before the layer was waited for");
        }
    }

    struct Unreadable;

    impl LayerSource for Unreadable {
        fn num_layers(&self) -> usize {
            4
        }

        fn layer_bytes(&self, _layer: usize) -> usize {
            1
        }

        fn read_layer(&self, _layer: usize, _out: &mut [u8]) -> riddle_weights::Result<u64> {
            Err(riddle_weights::Error::NoWeights { dir: "away".into() })
        }
    }

    /// A request that was given few rows leaves the next one as many as the engine was opened with.
    #[test]
    fn a_small_plan_is_for_its_request_alone() {
        let (mut model, pairs) = model(&tiny(), &["the lock gate", "bread"]);
        let opened = model.demand(&pairs, 0, 1).row_capacity;
        assert!(opened > 1);
        let plan = Plan { embedding_rows: Some(1), ..PLAN };
        let again = pairs.clone();
        model.prepare(again, 0, &plan, 1, &std::env::temp_dir()).expect("prepared");
        assert_eq!(model.rows.capacity(), 1);
        assert_eq!(model.demand(&pairs, 0, 1).row_capacity, opened);
    }
}
