//! How an engine with deadlines runs.

use std::sync::Arc;

use riddle_offload::RatedDevice;

use crate::plan::DEFAULT_MICRO_BATCH_TOKENS;

/// How an engine with deadlines runs.
#[derive(Debug, Clone)]
pub struct ElasticOptions {
    /// Threads that compute.
    pub threads: usize,
    /// Longest pair in tokens; `None`: what the model's reference implementation reads.
    pub max_tokens: Option<usize>,
    /// Share of the vocabulary whose embedding rows may be in memory, 0…1.
    pub embedding_rows: f32,
    /// Tokens that a layer computes at a time.
    pub micro_batch_tokens: usize,
    /// Bytes of shards that stay between requests.
    pub keep_bytes: u64,
    /// Reads shards past the page cache, where the system can.
    pub direct_io: bool,
    /// A device to read as fast as, for measurements.
    pub device: Option<Arc<RatedDevice>>,
    /// Whether single shards are given more bits than the others.
    pub upgrades: bool,
    /// The bits that plans choose from; `None`: all that the store has.
    pub bits: Option<Vec<u8>>,
    /// Whether a layer is read while the one before is computed; else all are read before the first.
    pub overlap: bool,
}

impl Default for ElasticOptions {
    fn default() -> Self {
        ElasticOptions {
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            max_tokens: None,
            embedding_rows: 0.1,
            micro_batch_tokens: DEFAULT_MICRO_BATCH_TOKENS,
            keep_bytes: 0,
            direct_io: false,
            device: None,
            upgrades: true,
            bits: None,
            overlap: true,
        }
    }
}
