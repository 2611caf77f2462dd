//! Token rows become the input of the first layer.

use std::time::Duration;

use riddle_offload::EmbeddingRows;
use riddle_transformer::{CrossEncoder, RaggedBatch};

use crate::Result;

/// Embeds tokens; returns how long reading their rows took.
pub(super) fn gather(
    rows: &mut EmbeddingRows,
    network: &dyn CrossEncoder,
    packed: &RaggedBatch,
    states: &mut [f32],
) -> Result<Duration> {
    let before = rows.stats().read_time;
    rows.gather(&packed.input_ids, states)?;
    network.embed(packed, states);
    Ok(rows.stats().read_time - before)
}
