//! The forward pass of one request: hidden states of all running candidates, one layer at a time.

use std::path::Path;

use riddle_kernels::sigmoid;
use riddle_offload::{EmbeddingRows, LayerView, LayerWindow};
use riddle_transformer::{Bert, ClassificationHead, Encoded, RaggedBatch, Scratch};

use crate::{
    Result,
    plan::{micro_batches, most_tokens},
};

/// A cross-encoder with its weights' residency: what a run needs of a model. The engine knows no more
/// than these methods, so another family (its embedding, its layers, its head and activation) comes in
/// here and nowhere else.
#[derive(Debug)]
pub(crate) struct Model {
    bert: Bert,
    head: ClassificationHead,
    window: LayerWindow,
    rows: EmbeddingRows,
}

/// Hidden states of the running candidates, one after the other without gaps.
#[derive(Debug)]
pub(crate) struct Hidden {
    /// `[tokens, width]`; shrinks as candidates leave.
    states: Vec<f32>,
    /// Tokens of each running candidate.
    lengths: Vec<usize>,
    width: usize,
    scratch: Scratch,
    micro_batch_tokens: usize,
}

impl Model {
    pub(crate) fn open(dir: &Path, window: Option<usize>, row_share: f32) -> Result<Model> {
        let bert = Bert::open(dir)?;
        let head = bert.classification_head()?;
        let layers = bert.layers()?;
        let depth = window.unwrap_or(layers.layers().len());
        let rows = EmbeddingRows::new(bert.checkpoint().clone(), bert.token_table()?, row_share);
        Ok(Model {
            window: LayerWindow::new(std::sync::Arc::new(layers), depth)?,
            head,
            rows,
            bert,
        })
    }

    pub(crate) fn num_layers(&self) -> u32 {
        // Configurations are checked to be far below 2³².
        self.bert.config().num_hidden_layers as u32
    }

    pub(crate) fn max_tokens(&self) -> usize {
        self.bert.config().max_tokens()
    }

    pub(crate) fn vocab_size(&self) -> usize {
        self.bert.config().vocab_size
    }

    /// Bytes of layer weights in memory now: never more than window depth × largest layer.
    pub(crate) fn layer_bytes(&self) -> u64 {
        self.window.resident_bytes()
    }

    /// Bytes of all weights in memory now.
    pub(crate) fn resident_bytes(&self) -> u64 {
        self.layer_bytes()
            + self.rows.resident_bytes()
            + self.bert.resident_bytes()
            + self.head.bytes()
    }

    /// Starts to read the first layers.
    pub(crate) fn prefetch(&mut self) -> Result<()> {
        Ok(self.window.prefetch()?)
    }

    /// Embeds the pairs: the input of the first layer.
    pub(crate) fn embed(
        &mut self,
        pairs: &[Encoded],
        micro_batch_tokens: usize,
        threads: usize,
    ) -> Result<Hidden> {
        let config = self.bert.config();
        let width = config.hidden_size;
        let lengths: Vec<usize> = pairs.iter().map(Encoded::len).collect();
        let tokens: usize = lengths.iter().sum();
        let largest = most_tokens(&lengths, micro_batch_tokens);
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let scratch = Scratch::new(config, largest, longest, threads);
        let mut states = vec![0.0; tokens * width];
        let mut done = 0;
        for batch in micro_batches(&lengths, micro_batch_tokens) {
            let batch = RaggedBatch::pack(&pairs[batch]);
            let part = &mut states[done * width..(done + batch.tokens()) * width];
            self.rows.gather(&batch.input_ids, part)?;
            self.bert.embed(&batch, part);
            done += batch.tokens();
        }
        Ok(Hidden { states, lengths, width, scratch, micro_batch_tokens })
    }

    /// Runs layer `layer` (from 0) over all running candidates; returns bytes read and milliseconds waited.
    pub(crate) fn layer(&mut self, layer: usize, hidden: &mut Hidden) -> Result<(u64, f64)> {
        let LayerView { weights, bytes_read, io_wait } = self.window.advance_to(layer)?;
        let mut start = 0;
        for batch in micro_batches(&hidden.lengths, hidden.micro_batch_tokens) {
            let mut cu_seqlens = vec![0];
            for length in &hidden.lengths[batch] {
                cu_seqlens.push(cu_seqlens.last().copied().unwrap_or(0) + length);
            }
            let tokens = cu_seqlens.last().copied().unwrap_or(0);
            let part = &mut hidden.states[start * hidden.width..(start + tokens) * hidden.width];
            self.bert.layer(weights, &cu_seqlens, part, &mut hidden.scratch);
            start += tokens;
        }
        Ok((bytes_read, io_wait.as_secs_f64() * 1e3))
    }

    /// The head on every running candidate: raw scores in their order.
    pub(crate) fn scores(&mut self, hidden: &Hidden) -> Vec<f32> {
        let mut first = Vec::with_capacity(hidden.lengths.len() * hidden.width);
        let mut start = 0;
        for length in &hidden.lengths {
            first.extend_from_slice(&hidden.states[start * hidden.width..][..hidden.width]);
            start += length;
        }
        self.head.scores(&first)
    }

    /// Maps a raw score to 0…1 by the model's own activation: a sigmoid for a head with one label.
    pub(crate) fn activate(raw: f32) -> f32 {
        sigmoid(raw)
    }
}

impl Hidden {
    /// Keeps only the candidates at the given places (ascending), closing the gaps.
    pub(crate) fn retain(&mut self, places: &[usize]) {
        let (mut read, mut write, mut next) = (0, 0, 0);
        let mut lengths = Vec::with_capacity(places.len());
        for (place, &length) in self.lengths.iter().enumerate() {
            if places.get(next) == Some(&place) {
                self.states.copy_within(
                    read * self.width..(read + length) * self.width,
                    write * self.width,
                );
                lengths.push(length);
                write += length;
                next += 1;
            }
            read += length;
        }
        self.states.truncate(write * self.width);
        // Candidates that left hand their memory back at once, not only when the request ends.
        self.states.shrink_to_fit();
        self.lengths = lengths;
    }

    /// Bytes of hidden states and scratch.
    pub(crate) fn bytes(&self) -> u64 {
        (self.states.capacity() * size_of::<f32>()) as u64 + self.scratch.bytes()
    }
}
