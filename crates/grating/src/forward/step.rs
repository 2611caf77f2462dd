//! What is done with a micro-batch: its tokens are embedded before the first layer, and each layer computes it.

use std::{
    ops::Range,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use riddle_offload::{EmbeddingRows, Pass, SpillFile};
use riddle_transformer::{CrossEncoder, Encoded, Prefix, RaggedBatch, Scratch, Span, Wanted};

use super::{SharedPrefix, apart::Apart, head::Head, rows, weights::Weights};
use crate::{Error, Result};

/// Embeds micro-batches.
pub(super) struct Embed<'a> {
    pub(super) network: &'a dyn CrossEncoder,
    pub(super) rows: &'a mut EmbeddingRows,
    pub(super) pairs: &'a [Encoded],
    pub(super) batches: &'a [Range<usize>],
}

impl Embed<'_> {
    /// Embeds a micro-batch into its states; returns how long reading rows for it took.
    pub(super) fn part(&mut self, batch: usize, states: &mut [f32]) -> Result<Duration> {
        let packed = RaggedBatch::pack(&self.pairs[self.batches[batch].clone()]);
        rows::gather(self.rows, self.network, &packed, states)
    }
}

/// Computes a layer over micro-batches.
pub(super) struct Compute<'a> {
    pub(super) network: &'a dyn CrossEncoder,
    /// From 0.
    pub(super) layer: usize,
    pub(super) wanted: Wanted,
    pub(super) weights: Weights<'a>,
    pub(super) prefix: &'a mut SharedPrefix,
    pub(super) apart: &'a mut Apart,
    pub(super) lengths: &'a [usize],
    /// Tokens of the query in each candidate.
    pub(super) queries: &'a [usize],
    pub(super) batches: &'a [Range<usize>],
    pub(super) scratch: &'a mut Scratch,
    /// If scores are wanted.
    pub(super) head: Option<Head<'a>>,
    pub(super) stop: Option<&'a AtomicBool>,
}

impl Compute<'_> {
    /// Computes a micro-batch.
    pub(super) fn part(&mut self, batch: usize, states: &mut [f32]) -> Result<()> {
        let Compute { network, layer, wanted, .. } = *self;
        if self.stop.is_some_and(|it| it.load(Ordering::Relaxed)) {
            return Err(Error::Cancelled { layer: layer as u32 });
        }
        // Not before there is nothing else to do: the first micro-batch has been embedded.
        let weights = self.weights.get()?;
        if batch == 0 {
            self.prefix.layer(network, layer, weights, self.scratch);
            self.apart.layer(network, (layer, weights), self.head.is_some(), self.scratch);
        }
        let cu_seqlens = cumulative(&self.lengths[self.batches[batch].clone()]);
        let prefix = if self.prefix.ids.is_empty() {
            Prefix::None
        } else {
            Prefix::Shared(&self.prefix.qkv)
        };
        let span = Span { cu_seqlens: &cu_seqlens, prefix, wanted, unseen: 0 };
        network.layer(layer, weights, span, states, self.scratch);
        if let Some(head) = &mut self.head {
            let queries = &self.queries[self.batches[batch].clone()];
            head.read(&cu_seqlens, queries, states, self.apart);
        }
        Ok(())
    }
}

/// The states of each micro-batch.
pub(super) fn parts<'a>(
    mut states: &'a mut [f32],
    lengths: &[usize],
    batches: &[Range<usize>],
    width: usize,
) -> impl Iterator<Item = &'a mut [f32]> {
    batches.iter().map(move |members| {
        let tokens: usize = lengths[members.clone()].iter().sum();
        let (part, tail) = std::mem::take(&mut states).split_at_mut(tokens * width);
        states = tail;
        part
    })
}

/// Computes parts one after the other. If they are to be embedded before, which is one thread's work, the next one is
/// while one is computed. Returns how long computing waited for embedding rows.
pub(super) fn each_part<'a>(
    mut parts: impl Iterator<Item = &'a mut [f32]>,
    embedded: bool,
    embed: &mut Embed<'_>,
    compute: &mut Compute<'_>,
) -> Result<Duration> {
    let mut waited = Duration::ZERO;
    let mut next = parts.next();
    if let Some(part) = next.as_deref_mut().filter(|_| embedded) {
        waited += embed.part(0, part)?;
    }
    let mut number = 0;
    while let Some(part) = next {
        next = parts.next();
        let ahead = next.as_deref_mut().filter(|_| embedded);
        let started = Instant::now();
        let ((computed, took), reading) = riddle_kernels::join(
            || (compute.part(number, part), started.elapsed()),
            || ahead.map_or(Ok(Duration::ZERO), |part| embed.part(number + 1, part)),
        );
        computed?;
        // What embedding took longer than computing was waited for, as far as it was reading.
        waited += started.elapsed().saturating_sub(took).min(reading?);
        number += 1;
    }
    Ok(waited)
}

/// As [`each_part`], of parts that come from a file and go back to it; before the first layer, when the file has
/// nothing, they are embedded. Returns how long computing waited for the file and for embedding rows.
pub(super) fn each_spilled(
    file: &mut SpillFile,
    places: &[Vec<Range<u64>>],
    pass: Pass,
    embed: &mut Embed<'_>,
    compute: &mut Compute<'_>,
) -> Result<Duration> {
    let mut rows_waited = Duration::ZERO;
    let waited = file.pass(places, pass, |batch, part: &mut [f32]| {
        if !pass.read {
            rows_waited += embed.part(batch, part)?;
        }
        compute.part(batch, part)
    })?;
    Ok(waited + rows_waited)
}

fn cumulative(lengths: &[usize]) -> Vec<usize> {
    let mut sum = 0;
    let sums = lengths.iter().map(|length| {
        sum += length;
        sum
    });
    std::iter::once(0).chain(sums).collect()
}
