//! Products with packed weights: threads take blocks of rows, quantize them once and multiply them with all
//! weights, which stream by from the outer caches.

use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use super::{
    Finish, Part, Products,
    block::{Block, Place},
    normalize,
};
use crate::{
    Matrix, Panels,
    int8::QUAD,
    isa,
    micro::{Kind, Micro, PANEL, TILE_COLUMNS, micro},
    norm::layer_norm,
    panels::BLOCK_ROWS,
    quantize::{quantize_pairs, quantize_rows},
    scalar,
    steps::{self, STEP_LANES},
};

/// Fewest rows of a block, if there are more: for fewer the weights are read too often.
const FEWEST_ROWS: usize = 28;

/// Fewest rows for which looking at the weights, or widening them to pairs, takes less than it spares.
const FEWEST_PAIRED: usize = 12;

/// What the rows become and which kernel multiplies them: the sums are the same.
#[derive(Debug, Clone, Copy)]
struct Form {
    kind: Kind,
    micro: Micro,
    /// Lanes of a row.
    depth: usize,
}

impl Form {
    fn new(rows: usize, inputs: usize, parts: &[Part<'_>]) -> Form {
        let isa = isa::current();
        if rows >= FEWEST_PAIRED {
            match (micro(Kind::Steps, isa), micro(Kind::Int16, isa)) {
                (Some(steps), _) if are_light(parts, inputs) => {
                    return Form::of(Kind::Steps, steps, inputs);
                }
                (_, Some(pairs)) => return Form::of(Kind::Int16, pairs, inputs),
                _ => {}
            }
        }
        Form::of(Kind::Int8, micro(Kind::Int8, isa).unwrap_or(scalar::INT8), inputs)
    }

    fn of(kind: Kind, micro: Micro, inputs: usize) -> Form {
        Form { kind, micro, depth: inputs.next_multiple_of(QUAD) / kind.per_lane() }
    }

    /// Lanes of the widened weights of a tile.
    fn widened(self) -> usize {
        match self.kind {
            Kind::Int16 => self.micro.panels * self.depth * PANEL,
            _ => 0,
        }
    }

    /// Quantizes rows of `inputs` elements to lanes.
    fn quantize(self, x: &[f32], inputs: usize, lanes: &mut [f32], scales: &mut [f32]) {
        if self.kind == Kind::Int16 {
            // SAFETY: any f32 is two i16.
            let (_, pairs, _) = unsafe { lanes.align_to_mut() };
            quantize_pairs(x, inputs, self.depth * 2, pairs, scales);
        } else {
            // SAFETY: any f32 is four bytes.
            let (_, bytes, _) = unsafe { lanes.align_to_mut() };
            let flip = self.micro.offset as u8;
            quantize_rows(x, inputs, flip, self.depth * QUAD, bytes, scales);
        }
    }
}

/// Whether the weights of all parts are in whole steps, and light.
fn are_light(parts: &[Part<'_>], inputs: usize) -> bool {
    let light = |part: &Part<'_>| match part.weight {
        Matrix::Int8(matrix) => steps::are_light(matrix.blocks()),
        _ => false,
    };
    inputs.div_ceil(QUAD).is_multiple_of(STEP_LANES) && parts.iter().all(light)
}

/// How the work is cut: blocks of rows, and where those are too few, of columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cut {
    rows: usize,
    column_turns: usize,
}

impl Cut {
    fn new(rows: usize, threads: usize, most: usize, micro: Micro) -> Cut {
        // Four blocks a thread even out what other work slows down; whole tiles.
        let wanted = rows.div_ceil(threads * 4).next_multiple_of(micro.rows);
        let block = wanted.clamp(FEWEST_ROWS, BLOCK_ROWS).min(most).min(rows);
        let turns = rows.div_ceil(block);
        // As many for each thread: with nine of 112 rows, one of two threads would wait for the other's fifth.
        let turns = if turns > threads { turns.next_multiple_of(threads) } else { turns };
        // A last block of few rows takes about as long as a whole one.
        let even = rows.div_ceil(turns).next_multiple_of(micro.grain).min(block);
        Cut { rows: even, column_turns: threads.div_ceil(turns) }
    }
}

/// Multiplies all `parts`, whose weights are bytes.
pub(super) fn run(
    work: &Products<'_>,
    parts: &[Part<'_>],
    rows: usize,
    place: Place,
    panels: &mut Panels,
) {
    let form = Form::new(rows, work.inputs, parts);
    let most = panels.share().saturating_sub(form.widened()) / (form.depth + 1);
    assert!(most > 0, "panels are smaller than a row of {}", work.inputs);
    let threads = panels.threads();
    let cut = Cut::new(rows, threads, most, form.micro);
    let turns = rows.div_ceil(cut.rows) * cut.column_turns;
    let next = AtomicUsize::new(0);
    let body = |share: &mut [f32]| {
        loop {
            let turn = next.fetch_add(1, Ordering::Relaxed);
            if turn >= turns {
                break;
            }
            block(work, parts, form, cut, turn, rows, place, share);
        }
    };
    if threads == 1 || turns == 1 {
        panels.shares().take(1).for_each(body);
    } else {
        panels.shares().for_each(body);
    }
    if cut.column_turns > 1 {
        normalize(work.finish, rows, place);
    }
}

/// One turn: quantizes a block of rows and multiplies it with some columns of all parts.
fn block(
    work: &Products<'_>,
    parts: &[Part<'_>],
    form: Form,
    cut: Cut,
    turn: usize,
    rows: usize,
    place: Place,
    share: &mut [f32],
) {
    let (row_turn, column_turn) = (turn / cut.column_turns, turn % cut.column_turns);
    let first_row = row_turn * cut.rows;
    let count = cut.rows.min(rows - first_row);
    let Form { micro, depth, .. } = form;
    let (widened, rest) = share.split_at_mut(form.widened());
    let (lanes, rest) = rest.split_at_mut(count * depth);
    let scales = &mut rest[..count];
    let x = &work.x[first_row * work.inputs..][..count * work.inputs];
    form.quantize(x, work.inputs, lanes, scales);
    let packed_depth = work.inputs.div_ceil(QUAD);
    for part in parts {
        let Matrix::Int8(matrix) = part.weight else { continue };
        // Columns in turns of whole tiles.
        let width = part.outputs.div_ceil(cut.column_turns).next_multiple_of(TILE_COLUMNS);
        let first = column_turn * width;
        if first >= part.outputs {
            continue;
        }
        let columns = first..part.outputs.min(first + width);
        // SAFETY: the blocks hold a panel of packed_depth × 16 lanes for every 16 columns, and `first` is the first
        // of one; no two turns share rows and columns; `place` has them all (`Products::check`); a tile's panels
        // fit where they are widened.
        unsafe {
            let packed = matrix.blocks().as_ptr().cast::<u32>();
            let block = Block {
                micro,
                a: lanes.as_ptr().cast(),
                stride: depth,
                first_row,
                rows: count,
                row_scales: scales,
                whole: false,
                b: packed.add(first / PANEL * packed_depth * PANEL),
                depth,
                widened: (form.kind == Kind::Int16).then_some(widened.as_mut_ptr().cast()),
            };
            block.run(part, columns, work.finish, place);
        }
    }
    if let (Finish::AddLayerNorm { gain, bias, epsilon }, 1) = (work.finish, cut.column_turns) {
        // SAFETY: whole rows of this turn alone, checked to be there.
        let values = unsafe {
            std::slice::from_raw_parts_mut(
                place.data.add(first_row * place.stride),
                count * place.stride,
            )
        };
        layer_norm(values, gain, bias, epsilon);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The sums of pairs are those of bytes, and so all that is made of them.
        #[test]
        fn pairs_give_what_bytes_give(
            rows in 1usize..40, inputs in 1usize..70, outputs in 1usize..50, seed in prop::collection::vec(-2f32..2.0, 61),
        ) {
            let inputs = if rows % 2 == 0 { inputs.next_multiple_of(8) } else { inputs };
            let x: Vec<f32> = (0..rows * inputs).map(|i| seed[(i * 7 + i / 13) % 61]).collect();
            let weights: Vec<f32> = (0..outputs * inputs).map(|i| seed[(i * 5 + i / 9) % 61]).collect();
            let mut memory = vec![0f32; crate::int8_bytes(outputs, inputs).expect("small") / 4];
            // SAFETY: any f32 is four bytes.
            let bytes = unsafe { memory.align_to_mut::<u8>().1 };
            crate::pack_int8(&weights, outputs, inputs, bytes).expect("as long as it says");
            let weight = Matrix::Int8(crate::Int8Matrix::new(bytes, outputs, inputs).expect("packed"));
            let parts = &[Part { weight, bias: Some(&seed[..outputs]), outputs, offset: 0 }];
            let precision = crate::Precision::F32;
            let work = Products { x: &x, inputs, parts, precision, rounding: crate::Rounding::ByCount, finish: Finish::Store };
            let mut forms = vec![
                Form::of(Kind::Int8, scalar::INT8, inputs), Form::of(Kind::Int16, scalar::INT16, inputs),
            ];
            for isa in isa::Isa::available() {
                forms.extend(micro(Kind::Int8, isa).map(|it| Form::of(Kind::Int8, it, inputs)));
                forms.extend(micro(Kind::Int16, isa).map(|it| Form::of(Kind::Int16, it, inputs)));
            }
            if are_light(parts, inputs) {
                let steps = isa::Isa::available().into_iter().filter_map(|isa| micro(Kind::Steps, isa));
                forms.extend(steps.map(|it| Form::of(Kind::Steps, it, inputs)));
            }
            prop_assert!(inputs % 8 != 0 || are_light(parts, inputs));
            let results = forms.into_iter().map(|form| {
                let mut out = vec![f32::NAN; rows * outputs];
                let place = Place::rows(out.as_mut_ptr(), outputs);
                let mut share = vec![0.0; form.widened() + rows * (form.depth + 1)];
                let cut = Cut { rows, column_turns: 1 };
                block(&work, parts, form, cut, 0, rows, place, &mut share);
                out.into_iter().map(f32::to_bits).collect::<Vec<_>>()
            }).collect::<Vec<_>>();
            prop_assert!(results.iter().all(|it| *it == results[0]));
        }

        #[test]
        fn every_row_is_in_a_block_that_fits(
            rows in 1usize..3000, threads in 1usize..20, most in 1usize..200, grain in prop::sample::select(vec![1usize, 16]),
        ) {
            let micro = Micro { rows: 14.max(2 * grain), grain, ..scalar::INT8 };
            let cut = Cut::new(rows, threads, most, micro);
            prop_assert!((1..=most.min(BLOCK_ROWS)).contains(&cut.rows));
            let turns = rows.div_ceil(cut.rows);
            prop_assert!(turns * cut.rows >= rows && (turns - 1) * cut.rows < rows);
            prop_assert!(turns * cut.column_turns >= threads);
            // No thread has more rows than its share, beyond what rounding a block to whole tiles adds.
            let most = rows.div_ceil(threads) + turns.div_ceil(threads) * grain;
            prop_assert!(cut.column_turns > 1 || turns.div_ceil(threads) * cut.rows <= most.max(cut.rows), "{cut:?} {turns}");
        }
    }
}
