//! Memory that products work in: activations quantized or rounded, weights widened, a share for each thread.

use crate::{
    int8::QUAD,
    isa,
    micro::{Kind, PANEL, micro},
};

/// f32 elements of a cache line.
const LINE: usize = 16;

/// Rows of activations that a thread converts at a time: eight tiles, whose bytes stay in a core's L2 beside
/// the weights.
pub(crate) const BLOCK_ROWS: usize = 112;

/// f32 elements of a thread's widened weights: 512 KiB, half of a core's L2.
const BLOCK_WEIGHTS: usize = 128 << 10;

/// Fewest columns that fit beside each other: those of a tile.
const FEWEST_COLUMNS: usize = 32;

/// Whether products of a model's weights need memory to widen panels in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PanelUse {
    /// All are [`Matrix::Int8`](crate::Matrix::Int8), which are packed already.
    Packed,
    /// There are others.
    Any,
}

/// Elements of f32 that products need on `threads` threads with weights of up to `inputs` inputs.
pub fn panel_len(inputs: usize, threads: usize, usage: PanelUse) -> usize {
    let threads = threads.max(1);
    // A lane of four bytes for four inputs, or of two bf16 or widened bytes for two, and a row's scale.
    let paired = micro(Kind::Int16, isa::current());
    let per_lane = if usage == PanelUse::Packed && paired.is_none() { 4 } else { 2 };
    let rows = BLOCK_ROWS * (inputs.next_multiple_of(QUAD) / per_lane + 1);
    let weights = match usage {
        PanelUse::Packed => {
            paired.map_or(0, |it| it.panels * PANEL * inputs.next_multiple_of(QUAD) / 2)
        }
        // Groups of four-bit weights are widened whole.
        PanelUse::Any => BLOCK_WEIGHTS.max(FEWEST_COLUMNS * inputs.next_multiple_of(32)),
    };
    (rows + weights).next_multiple_of(LINE) * threads
}

/// A cache line of memory.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Line([f32; LINE]);

/// Memory that products work in, a share for each thread.
#[derive(Debug, Default)]
pub struct Panels {
    memory: Vec<Line>,
    threads: usize,
}

impl Panels {
    /// Memory for `threads` threads and products of up to `inputs` inputs; none when `inputs` is 0.
    pub fn new(inputs: usize, threads: usize, usage: PanelUse) -> Panels {
        let threads = threads.max(1);
        let elements = if inputs == 0 { 0 } else { panel_len(inputs, threads, usage) };
        Panels { memory: vec![Line([0.0; LINE]); elements / LINE], threads }
    }

    /// Bytes of all of it.
    pub fn bytes(&self) -> u64 {
        (self.memory.len() * size_of::<Line>()) as u64
    }

    /// Threads that it was made for.
    pub(crate) fn threads(&self) -> usize {
        self.threads.max(1)
    }

    /// Elements of a thread's share.
    pub(crate) fn share(&self) -> usize {
        self.memory.len() / self.threads() * LINE
    }

    /// Each thread's share, aligned to a cache line.
    pub(crate) fn shares(&mut self) -> rayon::slice::ChunksExactMut<'_, f32> {
        use rayon::slice::ParallelSliceMut as _;
        let share = self.share().max(1);
        self.elements().par_chunks_exact_mut(share)
    }

    /// All of it, for what threads share.
    pub(crate) fn elements(&mut self) -> &mut [f32] {
        // SAFETY: a line is sixteen f32 without gaps.
        let (_, elements, _) = unsafe { self.memory.align_to_mut() };
        elements
    }

    /// Less memory, for tests of many small turns.
    #[cfg(test)]
    pub(crate) fn shrink(&mut self, share: usize) {
        self.memory.truncate(share.div_ceil(LINE) * self.threads());
    }
}
