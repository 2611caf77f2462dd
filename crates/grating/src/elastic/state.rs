//! What is in memory of a model whose shards are read for each request.

use std::sync::Arc;

use riddle_offload::{EmbeddingRows, PreloadBuffer, ShardId, ShardReader, ShardStore};
use riddle_transformer::{AssembledLayer, ElasticEncoder, Fidelity, ShardShape};

use super::options::ElasticOptions;
use crate::{
    Error, Result,
    deadline::{Kept, ShardSizes},
};

/// Rows whose reading should take less than this, were they all on the disk, say nothing about it.
const LEAST_SEEN_MS: f64 = 1.0;

/// Requests of which the usual one counts.
const ROWS_SEEN: usize = 5;

/// Pages in memory are read this much faster than those of a slow disk, and no more is believed.
const LEAST_ROW_FACTOR: f64 = 0.02;

/// Layers that take less than this say nothing of the machine.
const LEAST_COMPUTED_MS: f64 = 1.0;

/// No more is believed than that a machine has become so many times as slow, or as quick.
const MOST_COMPUTE_FACTOR: f64 = 4.0;

/// Share of what is seen that is believed at once by who is careful: of a slower machine, and of a quicker one.
const BELIEVED: (f64, f64) = (0.5, 0.2);

/// Requests whose mean is what computing usually takes; of more, the later ones count more.
const USUAL_OF: u32 = 5;

/// What layers take on a machine that is as quick as it was when it was measured, and what they took.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Computing {
    /// Milliseconds.
    pub(super) thought: f64,
    /// Milliseconds.
    pub(super) took: f64,
}

/// What a request changes.
pub(super) struct State {
    pub(super) model: ElasticEncoder,
    pub(super) sizes: Sizes,
    /// Small parts of all layers.
    pub(super) small: Vec<Vec<u8>>,
    pub(super) reader: ShardReader,
    pub(super) rows: EmbeddingRows,
    pub(super) row_capacity: usize,
    /// What reading rows took in the last requests, by what it was thought to take: where the system has their pages it
    /// takes nearly nothing, and a plan that does not know leaves its time unused.
    rows_seen: [f64; ROWS_SEEN],
    pub(super) pace: Pace,
    pub(super) kept: PreloadBuffer,
    pub(super) layer: AssembledLayer,
    /// Bytes that stay when nothing else does.
    pub(super) keep_bytes: u64,
}

/// Sizes of a store's shards, as a planner asks for them.
pub(super) struct Sizes {
    pub(super) store: Arc<ShardStore>,
    pub(super) bits: Vec<u8>,
}

impl ShardSizes for Sizes {
    fn layers(&self) -> usize {
        self.store.shape().layers
    }

    fn slices(&self) -> usize {
        self.store.shape().slices
    }

    fn fidelities(&self) -> &[u8] {
        &self.bits
    }

    fn bytes(&self, layer: usize, slice: usize, bits: u8) -> usize {
        shard_id(layer, slice, bits).map_or(0, |it| self.store.bytes(it))
    }
}

/// A shard of so many bits, if there can be one.
pub(super) fn shard_id(layer: usize, slice: usize, bits: u8) -> Option<ShardId> {
    let fidelity = Fidelity::try_from(bits).ok()?;
    Some(ShardId { layer, slice, fidelity })
}

impl State {
    /// A model and the store of its shards, with the small parts of all layers; nothing else is in memory yet.
    ///
    /// # Errors
    /// Options that leave no shard, or a system without a thread to read on.
    pub(super) fn new(
        model: ElasticEncoder,
        store: ShardStore,
        small: Vec<Vec<u8>>,
        options: &ElasticOptions,
    ) -> Result<State> {
        let store = Arc::new(store);
        let table = model.network().token_table().clone();
        let mut rows =
            EmbeddingRows::new(model.checkpoint().clone(), table, options.embedding_rows);
        rows.set_device(options.device.clone());
        Ok(State {
            sizes: Sizes {
                bits: chosen_bits(&store, options.bits.as_deref())?,
                store: Arc::clone(&store),
            },
            small,
            reader: ShardReader::new(store, options.device.clone())?,
            row_capacity: rows.capacity(),
            rows_seen: [1.0; ROWS_SEEN],
            pace: Pace::default(),
            rows,
            kept: PreloadBuffer::default(),
            layer: AssembledLayer::default(),
            keep_bytes: options.keep_bytes,
            model,
        })
    }

    /// Bytes of weights in memory.
    pub(super) fn resident_bytes(&self) -> u64 {
        let small: u64 = self.small.iter().map(|it| it.len() as u64).sum();
        self.kept.bytes()
            + small
            + self.layer.bytes()
            + self.rows.resident_bytes()
            + self.model.network().resident_bytes()
    }

    /// Learns from what reading rows was thought to take, in milliseconds, and what it took.
    pub(super) fn see_rows(&mut self, thought: Option<f64>, took: f64) {
        if let Some(thought) = thought {
            see(&mut self.rows_seen, thought, took);
        }
    }

    /// What reading rows takes, by what it takes past the system's cache.
    pub(super) fn row_factor(&self) -> f64 {
        usual(self.rows_seen)
    }

    /// Bits of the shards in memory.
    pub(super) fn kept_bits(&self) -> Kept {
        let ShardShape { layers, slices, .. } = *self.sizes.store.shape();
        let bits = |layer: usize, slice: usize| {
            self.kept.get(layer, slice).map(|it| u8::from(it.id.fidelity))
        };
        Kept((0..layers).map(|l| (0..slices).map(|s| bits(l, s)).collect()).collect())
    }
}

/// The largest but one: too little waits beyond the plan, and a disk that others use for a moment is no slow disk.
fn usual(mut seen: [f64; ROWS_SEEN]) -> f64 {
    seen.sort_by(f64::total_cmp);
    seen[ROWS_SEEN - 2]
}

/// Takes in that rows took other milliseconds than was thought with the usual factor.
fn see(all: &mut [f64; ROWS_SEEN], thought: f64, took: f64) {
    let factor = usual(*all);
    if thought < LEAST_SEEN_MS * factor {
        return;
    }
    all.rotate_left(1);
    all[ROWS_SEEN - 1] = (factor * took / thought).clamp(LEAST_ROW_FACTOR, 1.0 / LEAST_ROW_FACTOR);
}

/// What layers take, by what they took when the machine was measured: others use it, too, and its clock changes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pace {
    careful: f64,
    usual: f64,
    seen: u32,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { careful: 1.0, usual: 1.0, seen: 0 }
    }
}

impl Pace {
    /// The factor to plan with. Slower is believed sooner than faster: too long a plan misses the deadline.
    pub(super) fn careful(&self) -> f64 {
        self.careful.max(self.usual)
    }

    /// The factor to predict with.
    pub(super) fn usual(&self) -> f64 {
        self.usual
    }

    /// Learns from what layers took.
    pub(super) fn see(&mut self, Computing { thought, took }: Computing) {
        if thought < LEAST_COMPUTED_MS {
            return;
        }
        let seen = (took / thought).clamp(1.0 / MOST_COMPUTE_FACTOR, MOST_COMPUTE_FACTOR);
        let (slower, faster) = BELIEVED;
        self.careful += (seen - self.careful) * if seen > self.careful { slower } else { faster };
        self.seen = (self.seen + 1).min(USUAL_OF);
        self.usual += (seen - self.usual) / f64::from(self.seen);
    }
}

/// The bits that plans choose from.
fn chosen_bits(store: &ShardStore, wanted: Option<&[u8]>) -> Result<Vec<u8>> {
    let all = store.fidelities().iter().map(|it| u8::from(*it));
    let bits: Vec<u8> = all.filter(|it| wanted.is_none_or(|wanted| wanted.contains(it))).collect();
    if bits.is_empty() {
        return Err(Error::BadOption(format!("there are no shards of {wanted:?} bits")));
    }
    Ok(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_computing_takes_is_learned() {
        let took = |thought: f64, took: f64| Computing { thought, took };
        let after = |computing: &[Computing]| {
            let mut pace = Pace::default();
            computing.iter().for_each(|it| pace.see(*it));
            (pace.careful, pace.usual)
        };
        // Twice as long is believed by half, half as long by a fifth, and too little to tell not at all.
        assert_eq!(after(&[took(10.0, 20.0)]), (1.5, 2.0));
        assert!((after(&[took(10.0, 5.0)]).0 - 0.9).abs() < 1e-12);
        assert_eq!(after(&[took(0.5, 9.0)]), (1.0, 1.0));
        let (careful, usual) = after(&[took(10.0, 8.0); 40]);
        assert!((careful - 0.8).abs() < 1e-3 && (usual - 0.8).abs() < 1e-9, "{careful} {usual}");
        // A machine that stands still for a moment is not thought to do so for good.
        assert_eq!(after(&[took(10.0, 1e6)]).0, 2.5);
        // By turns slow and quick: what is usual is between them, who is careful is above that.
        let turns: Vec<Computing> =
            [8.0, 12.0].into_iter().cycle().take(40).map(|it| took(10.0, it)).collect();
        let (careful, usual) = after(&turns);
        assert!((usual - 1.0).abs() < 0.05 && careful > usual + 0.05, "{careful} {usual}");
        // Nobody plans with less than what is usual.
        let pace = Pace { careful: 0.5, usual: 0.7, seen: 5 };
        assert_eq!((pace.careful(), pace.usual()), (0.7, 0.7));
    }

    #[test]
    fn what_reading_rows_takes_is_learned() {
        let mut seen = [1.0; ROWS_SEEN];
        // Too little to tell: nothing is learned.
        see(&mut seen, 0.4, 9.0);
        assert_eq!(seen, [1.0; ROWS_SEEN]);
        // The pages are in memory: four requests say so.
        for request in 0..4 {
            assert_eq!(usual(seen), 1.0, "after {request}");
            see(&mut seen, 40.0, 20.0);
        }
        assert_eq!(usual(seen), 0.5);
        // Once slow is an accident, twice is a slow disk.
        for request in 0..2 {
            assert_eq!(usual(seen), 0.5, "after {request}");
            see(&mut seen, 20.0, 40.0);
        }
        assert_eq!(usual(seen), 1.0);
        for _ in 0..9 {
            let thought = 40.0 * usual(seen);
            see(&mut seen, thought, 0.1);
        }
        assert_eq!(usual(seen), LEAST_ROW_FACTOR);
    }
}
