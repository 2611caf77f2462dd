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

/// Pages in memory are read this much faster than those of a slow disk, and no more is believed.
const LEAST_ROW_FACTOR: f64 = 0.02;

/// What a request changes.
pub(super) struct State {
    pub(super) model: ElasticEncoder,
    pub(super) sizes: Sizes,
    /// Small parts of all layers.
    pub(super) small: Vec<Vec<u8>>,
    pub(super) reader: ShardReader,
    pub(super) rows: EmbeddingRows,
    pub(super) row_capacity: usize,
    /// What reading rows has taken, by what it was thought to take: where the system has their pages it takes nearly
    /// nothing, and a plan that does not know leaves its time unused.
    pub(super) row_factor: f64,
    /// The factor that the last request would have had.
    last_row_factor: f64,
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
            row_factor: 1.0,
            last_row_factor: f64::INFINITY,
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
            let before = (self.row_factor, self.last_row_factor);
            (self.row_factor, self.last_row_factor) = seen(before, thought, took);
        }
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

/// The factor after reading rows took other milliseconds than was thought with this one, and that of these rows alone,
/// which comes back as `last`. Slower is believed where it happens twice, faster by halves: a disk that others use for a
/// moment is no slow disk, and too long a plan misses the deadline.
fn seen((factor, last): (f64, f64), thought: f64, took: f64) -> (f64, f64) {
    if thought < LEAST_SEEN_MS * factor {
        return (factor, last);
    }
    let seen = (factor * took / thought).clamp(LEAST_ROW_FACTOR, 1.0 / LEAST_ROW_FACTOR);
    let believed =
        if seen > factor { seen.min(last).max(factor) } else { f64::midpoint(factor, seen) };
    (believed, seen)
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
    fn what_reading_rows_takes_is_learned() {
        let first = f64::INFINITY;
        // Half as long: believed by halves. Twice as long: at once, if nothing is known. Too little to tell: not at all.
        assert_eq!(seen((1.0, first), 40.0, 20.0), (0.75, 0.5));
        assert_eq!(seen((0.5, first), 20.0, 40.0), (1.0, 1.0));
        assert_eq!(seen((0.5, 0.3), 0.4, 9.0), (0.5, 0.3));
        let warm = (0..20).fold((1.0, first), |it, _| seen(it, 40.0 * it.0, 0.1));
        assert!((LEAST_ROW_FACTOR..0.03).contains(&warm.0), "{warm:?}");
        // Once slow is an accident; twice, as far as both say it.
        let once = seen(warm, 40.0 * warm.0, 40.0);
        assert_eq!((once.0, once.1), (warm.0, 1.0));
        assert_eq!(seen(once, 40.0 * once.0, 20.0), (0.5, 0.5));
        let over = seen(once, 40.0 * once.0, 0.1);
        assert!(over.0 <= warm.0 && over.1 < 0.03, "{over:?}");
    }
}
