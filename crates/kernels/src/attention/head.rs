//! A chunk of queries of the heads that share their keys.

mod work;

use std::ops::Range;

pub(super) use self::work::{Head, Places, Work};
use super::{
    AttentionShape, SharedOut, Task,
    softmax::{State, cap, softmax_tile},
};
use crate::{
    Precision,
    dispatch::multiversion,
    isa,
    lanes::{interleave, join_lanes, join_rows, row_to_lanes, scaled},
    micro::{Kind, MOST_ROWS, Micro, Operands, PANEL, TILE_COLUMNS, Tile, micro},
    scalar,
};

/// Keys packed at a time: keys and values of 64 dimensions are 128 KiB in f32, which leaves a core's L2 room for
/// queries and sums.
const KEYS: usize = 256;

/// Queries of all heads of a group for which keys are packed once.
const ROWS: usize = 256;

/// Keys of two panels: what a kernel takes at a time, and softmax sums in turns.
const PAIR: usize = 2 * PANEL;

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
    /// Room for two rows that must be widened.
    wide: usize,
}

impl Layout {
    /// For up to so many queries and keys of a sequence, which lie in f32 or must be `widened`.
    pub(super) fn new(shape: AttentionShape, queries: usize, keys: usize, widened: bool) -> Layout {
        let width = shape.head_dim.next_multiple_of(PANEL);
        let group = shape.group().max(1);
        let chunk = (ROWS / group).max(MOST_ROWS).min(queries.max(1));
        Layout {
            keys: KEYS.min(keys.max(1).next_multiple_of(PANEL)),
            chunk,
            rows: (chunk * group).next_multiple_of(LINE),
            width,
            wide: if widened { 2 * width } else { 0 },
        }
    }

    /// As [`new`](Self::new), for blocks of whole pairs of panels.
    pub(super) fn aligned(shape: AttentionShape, queries: usize, keys: usize) -> Layout {
        Layout::new(shape, queries, keys.max(1).next_multiple_of(PAIR), true)
    }

    /// Elements of each part: keys, values, 16 rows on their way into a panel, queries, scores, exponentials as
    /// lanes, sums of values, largest scores, sums, rows that are widened.
    fn parts(self) -> [usize; 10] {
        let Layout { keys, rows, width, wide, .. } = self;
        let panel = PANEL * width;
        [
            keys * width,
            keys * width,
            panel,
            MOST_ROWS * width,
            MOST_ROWS * keys,
            MOST_ROWS * keys / 2,
            rows * width,
            rows,
            rows,
            wide,
        ]
    }

    /// Elements of all parts, and of what the first one's alignment may take.
    pub(super) fn len(self) -> usize {
        self.parts().iter().sum::<usize>() + LINE
    }
}

multiversion! {
    /// Adds a tile's rows of f32 to rows of sums.
    fn add_tile(sums: &mut [f32], width: usize, columns: usize, tile: &[[u32; TILE_COLUMNS]]) {
        for (sums, tile) in sums.chunks_mut(width).zip(tile) {
            for (sum, bits) in sums[..columns].iter_mut().zip(tile) {
                *sum += f32::from_bits(*bits);
            }
        }
    }
}

/// A thread at work.
pub(super) struct Run<'a, W> {
    work: &'a W,
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
    wide: &'a mut [f32],
    tile: Tile,
}

impl<'a, W: Work> Run<'a, W> {
    pub(super) fn new(work: &'a W, layout: Layout, scratch: &'a mut [f32]) -> Run<'a, W> {
        let isa = isa::current();
        let (kind, micro) = match (work.precision(), micro(Kind::Bf16, isa)) {
            (Precision::Bf16, Some(micro)) => (Kind::Bf16, micro),
            (_, None) if W::LANES => (Kind::Bf16, scalar::BF16),
            _ => (Kind::F32, micro(Kind::F32, isa).unwrap_or(scalar::F32)),
        };
        let start = scratch.as_ptr().align_offset(LINE * size_of::<f32>()).min(LINE);
        let mut rest = &mut scratch[start..];
        let parts = layout.parts().map(|count| {
            let (part, tail) = std::mem::take(&mut rest).split_at_mut(count);
            rest = tail;
            part
        });
        let [keys, values, panel, queries, scores, weights, sums, tops, totals, wide] = parts;
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
            wide,
            tile,
        }
    }

    /// A chunk of queries of the heads that share keys; `next` is what this thread probably does after it.
    pub(super) fn chunk(&mut self, task: Task, next: Option<Task>, out: SharedOut) {
        let Task { sequence, kv_head, chunk } = task;
        let Places { places, first_row, start, length } =
            self.work.places(sequence, chunk, self.layout.chunk);
        if places.is_empty() {
            return;
        }
        let group = self.work.shape().group();
        let (mut ahead, next_head) = self.rows_of(next);
        let share = ahead.len().div_ceil(places.len().div_ceil(self.micro.rows));
        let _entered = self.micro.enter();
        let (from, _) = self.work.seen(places.start, length);
        let (_, to) = self.work.seen(places.end - 1, length);
        let (keys, aligned) = (self.layout.keys, W::ALIGNED);
        let from = if aligned { from / PAIR * PAIR } else { from };
        let after = |start: usize| if aligned { (start / keys + 1) * keys } else { start + keys };
        let single = after(from) >= to;
        let mut start_of_block = from;
        while start_of_block < to {
            let block = start_of_block..to.min(after(start_of_block));
            start_of_block = block.end;
            self.pack(start, kv_head, block.clone());
            for head in 0..group {
                for place in places.clone().step_by(self.micro.rows) {
                    ahead.by_ref().take(share).for_each(|row| self.work.ahead(row, next_head));
                    let tile = place..places.end.min(place + self.micro.rows);
                    let (count, offset) = (tile.len(), place - places.start);
                    // Where one block holds all keys, its state need not outlive it: all share the first place.
                    let state = if single { 0 } else { head * places.len() + offset };
                    if block.start == from {
                        self.tops[state..][..count].fill(f32::NEG_INFINITY);
                        self.totals[state..][..count].fill(0.0);
                        let width = self.layout.width;
                        self.sums[state * width..][..count * width].fill(0.0);
                    }
                    let row = first_row + offset;
                    self.tile(tile, length, block.clone(), kv_head, head, row, state);
                    if block.end == to {
                        self.finish(state, row..row + count, kv_head * group + head, out);
                    }
                }
            }
        }
    }

    /// The tokens of a task's chunk and its head.
    fn rows_of(&self, task: Option<Task>) -> (Range<usize>, usize) {
        let Some(Task { sequence, kv_head, chunk }) = task else { return (0..0, 0) };
        let step = self.layout.chunk;
        let Places { start, length, .. } = self.work.places(sequence, chunk, step);
        let from = (chunk * step).min(length);
        (start + from..start + length.min(from + step), kv_head)
    }

    /// Packs a block of keys and values.
    fn pack(&mut self, start: usize, kv_head: usize, block: Range<usize>) {
        let work = self.work;
        match work.lanes(Head::Key(kv_head), start + block.start) {
            Some(rows) => self.pack_key_lanes(rows, block.len()),
            None => self.pack_keys(start, kv_head, block.clone()),
        }
        match work.lanes(Head::Value(kv_head), start + block.start) {
            Some(rows) => self.pack_value_lanes(rows, block.len()),
            None => self.pack_values(start, kv_head, block),
        }
    }

    fn pack_keys(&mut self, start: usize, kv_head: usize, block: Range<usize>) {
        let depth = self.work.shape().head_dim.div_ceil(self.kind.per_lane());
        for (number, from) in block.clone().step_by(PANEL).enumerate() {
            let count = PANEL.min(block.end - from);
            for i in 0..count {
                let row = self.work.row(start, kv_head, from + i, false, self.wide);
                row_to_lanes(row, 1.0, self.kind, &mut self.panel[i * depth..][..depth]);
            }
            // Keys that only fill a panel up score 0, which nobody looks at.
            self.panel[count * depth..PANEL * depth].fill(0.0);
            let out = &mut self.keys[number * depth * PANEL..][..depth * PANEL];
            interleave(&self.panel[..PANEL * depth], depth, depth, out);
        }
        let panels = block.len().div_ceil(PANEL);
        if W::ALIGNED && !panels.is_multiple_of(2) {
            self.keys[panels * depth * PANEL..][..depth * PANEL].fill(0.0);
        }
    }

    /// As [`pack_keys`](Self::pack_keys), of `count` rows of lanes.
    fn pack_key_lanes(&mut self, rows: &[f32], count: usize) {
        let depth = self.work.shape().head_dim / 2;
        let panels = rows[..count * depth].chunks(PANEL * depth);
        for (rows, out) in panels.zip(self.keys.chunks_exact_mut(PANEL * depth)) {
            if rows.len() == out.len() {
                interleave(rows, depth, depth, out);
            } else {
                let (own, filling) = self.panel[..out.len()].split_at_mut(rows.len());
                own.copy_from_slice(rows);
                filling.fill(0.0);
                interleave(&self.panel[..out.len()], depth, depth, out);
            }
        }
    }

    fn pack_values(&mut self, start: usize, kv_head: usize, block: Range<usize>) {
        let dim = self.work.shape().head_dim;
        let per_lane = self.kind.per_lane();
        // Values of keys that only fill up are zeros: they are multiplied with zeros.
        let whole = if W::ALIGNED { PAIR } else { PANEL };
        let lanes = block.len().next_multiple_of(whole) / per_lane;
        let stride = self.layout.keys / per_lane * PANEL;
        const ZEROS: [f32; PANEL] = [0.0; PANEL];
        let (wide, other) = self.wide.split_at_mut(self.wide.len() / 2);
        for lane in 0..lanes {
            let key = block.start + lane * per_lane;
            let first = (key < block.end).then(|| self.work.row(start, kv_head, key, true, wide));
            // Lanes of f32 hold one row.
            let second = (per_lane > 1 && key + 1 < block.end)
                .then(|| self.work.row(start, kv_head, key + 1, true, other));
            for (number, column) in (0..dim).step_by(PANEL).enumerate() {
                let count = PANEL.min(dim - column);
                let first = first.map_or(&ZEROS[..count], |it| &it[column..][..count]);
                let second = second.map_or(&ZEROS[..count], |it| &it[column..][..count]);
                let out = &mut self.values[number * stride + lane * PANEL..][..PANEL];
                match self.kind {
                    Kind::F32 => out[..count].copy_from_slice(first),
                    _ => join_rows(first, second, &mut out[..count]),
                }
                out[count..].fill(0.0);
            }
        }
    }

    /// As [`pack_values`](Self::pack_values), of `count` rows of lanes.
    fn pack_value_lanes(&mut self, rows: &[f32], count: usize) {
        const ZEROS: [f32; PANEL] = [0.0; PANEL];
        let depth = self.work.shape().head_dim / 2;
        let stride = self.layout.keys / 2 * PANEL;
        for lane in 0..count.next_multiple_of(PANEL) / 2 {
            let row =
                |key: usize| (key < count).then(|| rows[key * depth..][..depth].as_chunks().0);
            let (first, second) = (row(2 * lane), row(2 * lane + 1));
            for part in 0..depth / PANEL {
                let (low, high) = self.values[2 * part * stride..].split_at_mut(stride);
                let (low, high) = (&mut low[lane * PANEL..], &mut high[lane * PANEL..]);
                if let (Some(low), Some(high)) = (low.first_chunk_mut(), high.first_chunk_mut()) {
                    let first = first.map_or(&ZEROS, |it| &it[part]);
                    let second = second.map_or(&ZEROS, |it| &it[part]);
                    join_lanes(first, second, low, high);
                }
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
        let (shape, count) = (work.shape(), places.len());
        let dim = shape.head_dim;
        let (first, last) =
            (self.work.seen(places.start, length), self.work.seen(places.end - 1, length));
        // Panels of the block that any row of the tile sees.
        let from = first.0.max(block.start) - block.start;
        let to = last.1.min(block.end).saturating_sub(block.start);
        if from >= to {
            return;
        }
        // Whole pairs: a query's sums are then the same whichever others share its tile.
        let panels = if W::ALIGNED {
            from / PAIR * 2..to.div_ceil(PAIR) * 2
        } else {
            from / PANEL..to.div_ceil(PANEL)
        };
        // As many rows as the kernel takes at once; what it makes of those beyond the last is not read.
        let rows = if W::ALIGNED { count.next_multiple_of(micro.grain) } else { count };
        let columns = panels.len() * PANEL;
        let depth = dim.div_ceil(kind.per_lane());
        let (head, mut scale) = (kv_head * shape.group() + head, 1.0);
        let queries = match work.lanes(Head::Query(head), row) {
            Some(rows) => {
                scale = work.scale();
                &rows[..count * depth]
            }
            None => {
                for i in 0..count {
                    let lanes = &mut self.queries[i * depth..][..depth];
                    row_to_lanes(work.query(row + i, head), work.scale(), kind, lanes);
                }
                &self.queries[..rows * depth]
            }
        };
        for panel in panels.clone().step_by(micro.panels) {
            let operands = Operands {
                a: queries.as_ptr().cast(),
                stride: depth,
                rows,
                b: self.keys[panel * depth * PANEL..].as_ptr().cast(),
                panels: micro.panels.min(panels.end - panel),
                panel_stride: depth * PANEL,
                depth,
                out: self.scores[(panel - panels.start) * PANEL..].as_mut_ptr().cast(),
                out_stride: layout.keys,
            };
            // SAFETY: these are all queries and room for a tile of them, the panels were written by `pack`; rows of
            // scores are layout.keys long, of which these panels are a part, and scores, queries and weights have room
            // for MOST_ROWS of them.
            unsafe { (micro.run)(operands) };
        }
        if let Some(most) = work.softcap() {
            for row in self.scores.chunks_exact_mut(layout.keys).take(count) {
                cap(&mut row[..columns], most);
            }
        }
        // What each row sees of these columns.
        let base = block.start + panels.start * PANEL;
        let mut bounds = [(0, 0); MOST_ROWS];
        for (bounds, place) in bounds.iter_mut().zip(places.clone()) {
            let (from, to) = self.work.seen(place, length);
            let to = to.clamp(base, block.end) - base;
            *bounds = (from.saturating_sub(base).min(to), to);
        }
        if let Some(bias) = work.bias() {
            let rows = self.scores.chunks_exact_mut(layout.keys).zip(places).zip(bounds);
            for ((scores, place), (from, to)) in rows {
                // Scores that are scaled on their way to exponentials, so is what is added to them.
                bias.add(head, place, base + from, 1.0 / scale, &mut scores[from..to]);
            }
        }
        let mut softmax = State {
            tops: &mut self.tops[state..][..count],
            sums: &mut self.totals[state..][..count],
            values: &mut self.sums[state * layout.width..][..count * layout.width],
            width: layout.width,
            scale,
        };
        let lanes = (kind != Kind::F32).then_some(&mut *self.weights);
        softmax_tile(self.scores, layout.keys, columns, &bounds[..count], &mut softmax, lanes);
        self.weigh(count, panels, state);
    }

    /// Adds the values of the keys in `panels`, weighted with the exponentials, to the sums.
    fn weigh(&mut self, count: usize, panels: Range<usize>, state: usize) {
        let Run { layout, kind, micro, .. } = *self;
        let (columns, stride) = (panels.len() * PANEL, layout.keys / kind.per_lane());
        let weights = if kind == Kind::F32 { &*self.scores } else { &*self.weights };
        for panel in (0..layout.width / PANEL).step_by(micro.panels) {
            let count_panels = micro.panels.min(layout.width / PANEL - panel);
            let first = panel * stride * PANEL + panels.start * PANEL / kind.per_lane() * PANEL;
            let operands = Operands {
                a: weights.as_ptr().cast(),
                stride,
                rows: if W::ALIGNED { count.next_multiple_of(micro.grain) } else { count },
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
            let sums = &mut self.sums[state * layout.width + panel * PANEL..];
            add_tile(sums, layout.width, count_panels * PANEL, &self.tile.0[..count]);
        }
    }

    /// Divides a tile's sums by those of the exponentials and writes them to their place: tile by tile, for the
    /// places are seldom in a near cache, and a tile's are there before the next one's are due.
    fn finish(&self, state: usize, rows: Range<usize>, head: usize, out: SharedOut) {
        let (width, dim) = (self.work.shape().width(), self.work.shape().head_dim);
        for (state, row) in rows.enumerate().map(|(i, row)| (state + i, row)) {
            // SAFETY: the callers of `run_tiles` and `cached_attention` found as many rows as there are queries; this
            // task alone writes this row's columns of this head.
            let out =
                unsafe { std::slice::from_raw_parts_mut(out.0.add(row * width + head * dim), dim) };
            let sums = &self.sums[state * self.layout.width..][..dim];
            scaled(sums, 1.0 / self.totals[state], out);
        }
    }
}
