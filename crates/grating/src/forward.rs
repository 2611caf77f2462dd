//! The forward pass of one request: hidden states of all running candidates, one layer at a time.

use std::{
    ops::Range,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use riddle_kernels::{sigmoid, zeros};
use riddle_offload::{EmbeddingRows, LayerView, LayerWindow, Pass, SpillFile};
use riddle_transformer::{
    CrossEncoder, Encoded, OpenOptions, PairEncoder, Prefix, RaggedBatch, ScoredToken, Scratch,
    ScratchSize, Sizes, Span, Wanted, open_cross_encoder,
};

use crate::{
    Error, Result,
    plan::{Demand, Plan, largest_micro_batch, micro_batches},
};

/// A cross-encoder with its weights' residency: what a run needs of a model.
#[derive(Debug)]
pub(crate) struct Model {
    network: Box<dyn CrossEncoder>,
    window: LayerWindow,
    rows: EmbeddingRows,
}

/// Hidden states of the running candidates.
#[derive(Debug)]
pub(crate) struct Hidden {
    /// What the candidates say, until the first layer has embedded it.
    pairs: Vec<Encoded>,
    /// Tokens of each running candidate, without the prefix.
    lengths: Vec<usize>,
    /// First token of each running candidate in the file; without meaning in memory.
    starts: Vec<usize>,
    states: States,
    prefix: SharedPrefix,
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
    pub(crate) bytes_read: u64,
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
        Ok(Model {
            window: LayerWindow::new(Arc::new(layers), depth)?,
            rows: EmbeddingRows::new(checkpoint, table, row_share),
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

    /// Bytes in memory now that a plan counts: layers and embedding rows.
    pub(crate) fn planned_bytes(&self) -> u64 {
        self.layer_bytes() + self.rows.resident_bytes()
    }

    /// Starts to read the first layers.
    pub(crate) fn prefetch(&mut self) -> Result<()> {
        Ok(self.window.prefetch()?)
    }

    /// What a request of these pairs asks of the memory.
    pub(crate) fn demand(&self, pairs: &[Encoded], shared: usize, threads: usize) -> Demand {
        let sizes = self.sizes();
        let mut tokens: Vec<u32> = pairs.iter().flat_map(|it| it.ids.iter().copied()).collect();
        tokens.sort_unstable();
        tokens.dedup();
        let shape = self.network.scratch_shape();
        Demand {
            lengths: pairs.iter().map(|it| it.len() - shared).collect(),
            prefix: shared,
            // The prefix keeps its states and what attention needs of it, beside everything else.
            prefix_bytes: (shared * (sizes.hidden_size + shape.wide) * size_of::<f32>()) as u64,
            unique_tokens: tokens.len(),
            row_capacity: self.rows.capacity(),
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
        mut pairs: Vec<Encoded>,
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
        let ids = pairs.first().map_or(Vec::new(), |it| it.ids[..shared].to_vec());
        for pair in &mut pairs {
            pair.ids.drain(..shared);
        }
        let lengths: Vec<usize> = pairs.iter().map(Encoded::len).collect();
        let mut tokens = 0;
        let starts = lengths.iter().map(|length| {
            tokens += length;
            tokens - length
        });
        let starts = starts.collect();
        let largest = largest_micro_batch(&lengths, plan.micro_batch_tokens);
        let longest = lengths.iter().copied().max().unwrap_or(0) + shared;
        let size = ScratchSize { tokens: largest.max(shared), longest, threads };
        let states = if plan.hidden_on_disk {
            States::Disk(SpillFile::new(spill_dir, largest * width)?)
        } else {
            States::Memory(zeros(tokens * width))
        };
        Ok(Hidden {
            pairs,
            lengths,
            starts,
            states,
            prefix: SharedPrefix { states: vec![0.0; shared * width], ids, qkv: Vec::new() },
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
        let Model { network, window, rows } = self;
        let last = layer + 1 == network.sizes().num_layers;
        // Nothing reads the last layer's states but the head.
        let one_token = network.scored_token() != ScoredToken::All;
        let wanted = if last && one_token { Wanted::Scored } else { Wanted::All };
        let LayerView { weights, bytes_read, mut io_wait } = window.advance_to(layer)?;
        let mut head = Head::new(&**network, layer, wanted);
        let Hidden { pairs, lengths, starts, states, prefix, width, scratch, micro_batch_tokens } =
            hidden;
        prefix.layer(&**network, rows, layer, weights, *width, scratch)?;
        let batches = micro_batches(lengths, *micro_batch_tokens);
        let mut embed = |batch: usize, part: &mut [f32]| -> Result<()> {
            let packed = RaggedBatch::pack(&pairs[batches[batch].clone()]);
            rows.gather(&packed.input_ids, part)?;
            network.embed(&packed, part);
            Ok(())
        };
        let mut compute = |batch: usize, part: &mut [f32]| -> Result<()> {
            if stop.is_some_and(|it| it.load(Ordering::Relaxed)) {
                return Err(Error::Cancelled { layer: layer as u32 });
            }
            let members = batches[batch].clone();
            let cu_seqlens = cumulative(&lengths[members]);
            let prefix =
                if prefix.ids.is_empty() { Prefix::None } else { Prefix::Shared(&prefix.qkv) };
            let span = Span { cu_seqlens: &cu_seqlens, prefix, wanted };
            network.layer(layer, weights, span, part, scratch);
            if want_scores {
                head.read(&cu_seqlens, part);
            }
            Ok(())
        };
        match states {
            States::Memory(states) => {
                let mut rest = states.as_mut_slice();
                let parts = batches.iter().map(|members| {
                    let tokens: usize = lengths[members.clone()].iter().sum();
                    let (part, tail) = std::mem::take(&mut rest).split_at_mut(tokens * *width);
                    rest = tail;
                    part
                });
                each_part(parts, layer == 0, embed, compute)?;
            }
            States::Disk(file) => {
                let places: Vec<Vec<Range<u64>>> =
                    batches.iter().map(|it| places(lengths, starts, it.clone(), *width)).collect();
                // Nothing has been written before the first layer, nothing is read after the last.
                let pass = Pass { read: layer > 0, write: !last };
                let waited = file.pass(&places, pass, |batch, part: &mut [f32]| {
                    if layer == 0 {
                        embed(batch, part)?;
                    }
                    compute(batch, part)
                })?;
                io_wait += waited;
            }
        }
        // What the candidates say is in the hidden states now.
        hidden.pairs = Vec::new();
        Ok(LayerWork { bytes_read, io_wait, scores: head.scores() })
    }

    /// Maps a raw score to 0…1 by the model's own activation: a sigmoid for a head with one label, and for
    /// the difference of two logits, of which it is the softmax.
    pub(crate) fn activate(raw: f32) -> f32 {
        sigmoid(raw)
    }
}

/// Computes parts one after the other. If they are to be embedded before, which is one thread's work, the next one is while one is
/// computed.
fn each_part<'a>(
    mut parts: impl Iterator<Item = &'a mut [f32]>,
    embedded: bool,
    mut embed: impl FnMut(usize, &mut [f32]) -> Result<()> + Send,
    mut compute: impl FnMut(usize, &mut [f32]) -> Result<()> + Send,
) -> Result<()> {
    let mut next = parts.next();
    if let Some(part) = next.as_deref_mut().filter(|_| embedded) {
        embed(0, part)?;
    }
    let mut number = 0;
    while let Some(part) = next {
        next = parts.next();
        let ahead = next.as_deref_mut().filter(|_| embedded);
        let (computed, embedded) = riddle_kernels::join(
            || compute(number, part),
            || ahead.map_or(Ok(()), |part| embed(number + 1, part)),
        );
        computed.and(embedded)?;
        number += 1;
    }
    Ok(())
}

/// States that the head multiplies at a time: of few its weights would be read more often than they, and all of
/// thousands would be memory that no plan counts.
const HEAD_ROWS: usize = 64;

/// The head over the micro-batches of a layer.
struct Head<'a> {
    network: &'a dyn CrossEncoder,
    layer: usize,
    wanted: Wanted,
    /// `[sequences, width]`: what the head reads and has not been given yet.
    rows: Vec<f32>,
    scores: Vec<f32>,
}

impl<'a> Head<'a> {
    fn new(network: &'a dyn CrossEncoder, layer: usize, wanted: Wanted) -> Head<'a> {
        Head { network, layer, wanted, rows: Vec::new(), scores: Vec::new() }
    }

    /// A micro-batch that the layer has computed.
    fn read(&mut self, cu_seqlens: &[usize], hidden: &[f32]) {
        let width = self.network.sizes().hidden_size;
        for (sequence, ends) in cu_seqlens.windows(2).enumerate() {
            let row = match (self.wanted, self.network.scored_token()) {
                // Of each sequence the last layer leaves one state.
                (Wanted::Scored, _) => sequence,
                (Wanted::All, ScoredToken::First) => ends[0],
                (Wanted::All, ScoredToken::Last) => ends[1] - 1,
                (Wanted::All, ScoredToken::All) => {
                    return self.network.scores(self.layer, cu_seqlens, hidden, &mut self.scores);
                }
            };
            self.rows.extend_from_slice(&hidden[row * width..][..width]);
            if self.rows.len() == HEAD_ROWS * width {
                self.multiply();
            }
        }
    }

    fn multiply(&mut self) {
        let sequences = self.rows.len() / self.network.sizes().hidden_size;
        let each: Vec<usize> = (0..=sequences).collect();
        self.network.scores(self.layer, &each, &self.rows, &mut self.scores);
        self.rows.clear();
    }

    /// Raw scores of all sequences, in their order.
    fn scores(mut self) -> Vec<f32> {
        if !self.rows.is_empty() {
            self.multiply();
        }
        self.scores
    }
}

impl SharedPrefix {
    /// Runs a layer over the prefix and leaves its queries, keys and values.
    fn layer(
        &mut self,
        network: &dyn CrossEncoder,
        rows: &mut EmbeddingRows,
        layer: usize,
        weights: &[u8],
        width: usize,
        scratch: &mut Scratch,
    ) -> Result<()> {
        if self.ids.is_empty() {
            return Ok(());
        }
        if layer == 0 {
            self.states.resize(self.ids.len() * width, 0.0);
            rows.gather(&self.ids, &mut self.states)?;
            let ids = self.ids.clone();
            let packed = RaggedBatch::pack([&Encoded { ids, type_ids: Vec::new() }]);
            network.embed(&packed, &mut self.states);
        }
        let prefix = Prefix::Build(&mut self.qkv);
        let span = Span { cu_seqlens: &[0, self.ids.len()], prefix, wanted: Wanted::All };
        network.layer(layer, weights, span, &mut self.states, scratch);
        Ok(())
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
        self.lengths = places.iter().map(|&it| self.lengths[it]).collect();
        self.starts = places.iter().map(|&it| self.starts[it]).collect();
    }

    /// Bytes of hidden states and scratch in memory.
    pub(crate) fn bytes(&self) -> u64 {
        let states = match &self.states {
            States::Memory(states) => (states.capacity() * size_of::<f32>()) as u64,
            States::Disk(file) => file.buffer_bytes(),
        };
        let prefix = self.prefix.states.capacity() + self.prefix.qkv.capacity();
        states + (prefix * size_of::<f32>()) as u64 + self.scratch.bytes()
    }
}

fn cumulative(lengths: &[usize]) -> Vec<usize> {
    let mut sum = 0;
    let sums = lengths.iter().map(|length| {
        sum += length;
        sum
    });
    std::iter::once(0).chain(sums).collect()
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
