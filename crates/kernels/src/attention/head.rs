//! A chunk of queries of the heads that share their keys.

use std::ops::Range;

use super::{
    Attention, AttentionShape, Mask, Queries, SharedOut,
    softmax::{State, softmax_tile},
};
use crate::{
    Precision, isa,
    lanes::{interleave, join_rows, row_to_lanes},
    micro::{Kind, Micro, Operands, PANEL, TILE_COLUMNS, TILE_ROWS, Tile, micro},
    scalar,
};

/// Keys packed at a time: keys and values of 64 dimensions are 128 KiB in f32, which leaves a core's L2 room for
/// queries and sums.
const KEYS: usize = 256;

/// Queries of all heads of a group for which keys are packed once.
const ROWS: usize = 256;

/// f32 elements of a cache line, to which all parts of the scratch are rounded.
const LINE: usize = 16;

/// How a thread's scratch is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    /// Most keys packed at a time, a multiple of a panel.
    keys: usize,
    /// Most queries of a head at a time.
    pub(super) chunk: usize,
    /// Rows of sums.
    rows: usize,
    /// Elements of a head, rounded up to a panel.
    width: usize,
}

impl Layout {
    pub(super) fn new(shape: AttentionShape, longest: usize) -> Layout {
        let group = shape.group().max(1);
        let chunk = (ROWS / group).max(TILE_ROWS).min(longest.max(1));
        Layout {
            keys: KEYS.min(longest.max(1).next_multiple_of(PANEL)),
            chunk,
            rows: (chunk * group).next_multiple_of(LINE),
            width: shape.head_dim.next_multiple_of(PANEL),
        }
    }

    /// Elements of each part: keys, values, 16 rows on their way into a panel, queries, scores, exponentials as
    /// lanes, sums of values, largest scores, sums.
    fn parts(self) -> [usize; 9] {
        let Layout { keys, rows, width, .. } = self;
        let panel = PANEL * width;
        [
            keys * width,
            keys * width,
            panel,
            panel,
            PANEL * keys,
            PANEL * keys,
            rows * width,
            rows,
            rows,
        ]
    }

    /// Elements of all parts, and of what the first one's alignment may take.
    pub(super) fn len(self) -> usize {
        self.parts().iter().sum::<usize>() + LINE
    }
}

/// A thread at work.
pub(super) struct Run<'a> {
    work: &'a Attention<'a>,
    layout: Layout,
    kind: Kind,
    micro: Micro,
    keys: &'a mut [f32],
    values: &'a mut [f32],
    panel: &'a mut [f32],
    queries: &'a mut [f32],
    scores: &'a mut [f32],
    weights: &'a mut [f32],
    sums: &'a mut [f32],
    tops: &'a mut [f32],
    totals: &'a mut [f32],
    tile: Tile,
}

impl<'a> Run<'a> {
    pub(super) fn new(work: &'a Attention<'a>, layout: Layout, scratch: &'a mut [f32]) -> Run<'a> {
        let isa = isa::current();
        let (kind, micro) = match (work.precision, micro(Kind::Bf16, isa)) {
            (Precision::Bf16, Some(micro)) => (Kind::Bf16, micro),
            _ => (Kind::F32, micro(Kind::F32, isa).unwrap_or(scalar::F32)),
        };
        let start = scratch.as_ptr().align_offset(LINE * size_of::<f32>()).min(LINE);
        let mut rest = &mut scratch[start..];
        let parts = layout.parts().map(|count| {
            let (part, tail) = std::mem::take(&mut rest).split_at_mut(count);
            rest = tail;
            part
        });
        let [keys, values, panel, queries, scores, weights, sums, tops, totals] = parts;
        let tile = Tile::new();
        Run {
            work,
            layout,
            kind,
            micro,
            keys,
            values,
            panel,
            queries,
            scores,
            weights,
            sums,
            tops,
            totals,
            tile,
        }
    }

    /// Chunk `chunk` of the queries of sequence `sequence`, for the heads that share `kv_head`.
    pub(super) fn chunk(&mut self, sequence: usize, kv_head: usize, chunk: usize, out: SharedOut) {
        let cu_seqlens = self.work.cu_seqlens;
        let (start, end) = (cu_seqlens[sequence], cu_seqlens[sequence + 1]);
        let length = end - start;
        // Places in the sequence, and the row of the first in the queries and the output.
        let (places, first_row) = match self.work.wanted {
            Queries::All => {
                let from = (chunk * self.layout.chunk).min(length);
                (from..length.min(from + self.layout.chunk), start + from)
            }
            Queries::First => (0..length.min(1), sequence),
            Queries::Last => (length.saturating_sub(1)..length, sequence),
        };
        if places.is_empty() {
            return;
        }
        let rows = self.work.shape.group() * places.len();
        self.tops[..rows].fill(f32::NEG_INFINITY);
        self.totals[..rows].fill(0.0);
        self.sums[..rows * self.layout.width].fill(0.0);
        let (from, _) = self.seen(places.start, length);
        let (_, to) = self.seen(places.end - 1, length);
        for block in (from..to).step_by(self.layout.keys) {
            let block = block..to.min(block + self.layout.keys);
            self.pack(start, kv_head, block.clone());
            for head in 0..self.work.shape.group() {
                for place in places.clone().step_by(self.micro.rows) {
                    let tile = place..places.end.min(place + self.micro.rows);
                    let row = first_row + place - places.start;
                    let state = head * places.len() + place - places.start;
                    self.tile(tile, length, block.clone(), kv_head, head, row, state);
                }
            }
        }
        self.finish(places.len(), first_row, kv_head, out);
    }

    /// Keys that the query at a place of its sequence sees, the prefix before the sequence's own.
    fn seen(&self, place: usize, length: usize) -> (usize, usize) {
        let shared = self.work.shared();
        let (all, place) = (shared + length, shared + place);
        match self.work.mask {
            Mask::Full => (0, all),
            Mask::Causal => (0, place + 1),
            Mask::Window(reach) => (
                place.saturating_sub(reach),
                place.saturating_add(reach).saturating_add(1).min(all),
            ),
        }
    }

    /// Key `key` of the sequence that starts at `start`, and with `values` its values.
    fn row(&self, start: usize, kv_head: usize, key: usize, values: bool) -> &'a [f32] {
        let work = self.work;
        let (shape, shared) = (work.shape, work.shared());
        let dim = shape.head_dim;
        let column = kv_head * dim + if values { shape.kv_width() } else { 0 };
        if key < shared {
            &work.prefix[key * shape.qkv_width() + shape.width() + column..][..dim]
        } else {
            work.keys_values.part(start + key - shared, column, dim)
        }
    }

    /// Packs a block of keys and values.
    fn pack(&mut self, start: usize, kv_head: usize, block: Range<usize>) {
        let dim = self.work.shape.head_dim;
        let per_lane = self.kind.per_lane();
        let depth = dim.div_ceil(per_lane);
        for (number, from) in block.clone().step_by(PANEL).enumerate() {
            let count = PANEL.min(block.end - from);
            for i in 0..count {
                let row = self.row(start, kv_head, from + i, false);
                row_to_lanes(row, 1.0, self.kind, &mut self.panel[i * depth..][..depth]);
            }
            // Keys that only fill a panel up score 0, which nobody looks at.
            self.panel[count * depth..PANEL * depth].fill(0.0);
            let out = &mut self.keys[number * depth * PANEL..][..depth * PANEL];
            interleave(&self.panel[..PANEL * depth], depth, depth, out);
        }
        // Values of keys that only fill up are zeros: they are multiplied with zeros.
        let lanes = block.len().next_multiple_of(PANEL) / per_lane;
        let stride = self.layout.keys / per_lane * PANEL;
        const ZEROS: [f32; PANEL] = [0.0; PANEL];
        for lane in 0..lanes {
            let key = block.start + lane * per_lane;
            let row = |key: usize| (key < block.end).then(|| self.row(start, kv_head, key, true));
            let (first, second) = (row(key), row(key + 1));
            for (number, column) in (0..dim).step_by(PANEL).enumerate() {
                let count = PANEL.min(dim - column);
                let of = |row: Option<&'a [f32]>| {
                    row.map_or(&ZEROS[..count], |it| &it[column..][..count])
                };
                let out = &mut self.values[number * stride + lane * PANEL..][..PANEL];
                match self.kind {
                    Kind::F32 => out[..count].copy_from_slice(of(first)),
                    _ => join_rows(of(first), of(second), &mut out[..count]),
                }
                out[count..].fill(0.0);
            }
        }
    }

    // Long: two products and the softmax between them share what they index.
    /// A tile of queries against a block of packed keys.
    fn tile(
        &mut self,
        places: Range<usize>,
        length: usize,
        block: Range<usize>,
        kv_head: usize,
        head: usize,
        row: usize,
        state: usize,
    ) {
        let Run { work, layout, kind, micro, .. } = *self;
        let (shape, count) = (work.shape, places.len());
        let dim = shape.head_dim;
        let (first, last) = (self.seen(places.start, length), self.seen(places.end - 1, length));
        // Panels of the block that any row of the tile sees.
        let from = first.0.max(block.start) - block.start;
        let to = last.1.min(block.end).saturating_sub(block.start);
        if from >= to {
            return;
        }
        let panels = from / PANEL..to.div_ceil(PANEL);
        let columns = panels.len() * PANEL;
        let depth = dim.div_ceil(kind.per_lane());
        let scale = 1.0 / (dim as f32).sqrt();
        let column = (kv_head * shape.group() + head) * dim;
        for i in 0..count {
            let query = work.queries.part(row + i, column, dim);
            row_to_lanes(query, scale, kind, &mut self.queries[i * depth..][..depth]);
        }
        for panel in panels.clone().step_by(micro.panels) {
            let operands = Operands {
                a: self.queries.as_ptr().cast(),
                stride: depth,
                rows: count,
                b: self.keys[panel * depth * PANEL..].as_ptr().cast(),
                panels: micro.panels.min(panels.end - panel),
                panel_stride: depth * PANEL,
                depth,
                out: self.scores[(panel - panels.start) * PANEL..].as_mut_ptr().cast(),
                out_stride: layout.keys,
            };
            // SAFETY: the queries were just written, the panels by `pack`; rows of scores are layout.keys long,
            // of which these panels are a part, and a tile has no more than PANEL rows.
            unsafe { (micro.run)(operands) };
        }
        // What each row sees of these columns.
        let base = block.start + panels.start * PANEL;
        let mut bounds = [(0, 0); TILE_ROWS];
        for (bounds, place) in bounds.iter_mut().zip(places.clone()) {
            let (from, to) = self.seen(place, length);
            let to = to.clamp(base, block.end) - base;
            *bounds = (from.saturating_sub(base).min(to), to);
        }
        let mut softmax = State {
            tops: &mut self.tops[state..][..count],
            sums: &mut self.totals[state..][..count],
            values: &mut self.sums[state * layout.width..][..count * layout.width],
            width: layout.width,
        };
        softmax_tile(self.scores, layout.keys, columns, &bounds[..count], &mut softmax);
        self.weigh(count, panels, state);
    }

    /// Adds the values of the keys in `panels`, weighted with the exponentials, to the sums.
    fn weigh(&mut self, count: usize, panels: Range<usize>, state: usize) {
        let Run { layout, kind, micro, .. } = *self;
        let (columns, stride) = (panels.len() * PANEL, layout.keys / kind.per_lane());
        if kind != Kind::F32 {
            for (row, lanes) in self
                .scores
                .chunks_exact(layout.keys)
                .zip(self.weights.chunks_exact_mut(stride))
                .take(count)
            {
                row_to_lanes(&row[..columns], 1.0, kind, &mut lanes[..columns / kind.per_lane()]);
            }
        }
        let weights = if kind == Kind::F32 { &*self.scores } else { &*self.weights };
        for panel in (0..layout.width / PANEL).step_by(micro.panels) {
            let count_panels = micro.panels.min(layout.width / PANEL - panel);
            let first = panel * stride * PANEL + panels.start * PANEL / kind.per_lane() * PANEL;
            let operands = Operands {
                a: weights.as_ptr().cast(),
                stride,
                rows: count,
                b: self.values[first..].as_ptr().cast(),
                panels: count_panels,
                panel_stride: stride * PANEL,
                depth: columns / kind.per_lane(),
                out: self.tile.0.as_mut_ptr().cast(),
                out_stride: TILE_COLUMNS,
            };
            // SAFETY: the weights were just written for these columns, the values by `pack` up to the end of the
            // block's last panel; a tile takes what a kernel gives.
            unsafe { (micro.run)(operands) };
            let sums = self.sums[state * layout.width..].chunks_exact_mut(layout.width);
            for (sums, tile) in sums.zip(&self.tile.0).take(count) {
                let columns = panel * PANEL..(panel + count_panels) * PANEL;
                for (sum, bits) in sums[columns].iter_mut().zip(tile) {
                    *sum += f32::from_bits(*bits);
                }
            }
        }
    }

    /// Divides the sums by those of the exponentials and writes them to their place.
    fn finish(&self, count: usize, first_row: usize, kv_head: usize, out: SharedOut) {
        let shape = self.work.shape;
        let (dim, group) = (shape.head_dim, shape.group());
        for state in 0..group * count {
            let (head, row) = (kv_head * group + state / count, first_row + state % count);
            // SAFETY: `Attention::check` found as many rows as there are queries; this task alone writes this row's
            // columns of this head.
            let out = unsafe {
                std::slice::from_raw_parts_mut(out.0.add(row * shape.width() + head * dim), dim)
            };
            let scale = 1.0 / self.totals[state];
            for (out, sum) in out.iter_mut().zip(&self.sums[state * self.layout.width..]) {
                *out = sum * scale;
            }
        }
    }
}
