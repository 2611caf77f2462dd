//! Weights of any format into panels, activations into lanes.

use half::{
    f16,
    slice::{HalfBitsSliceExt as _, HalfFloatSliceExt as _},
};

use crate::{
    BlockMatrix, Matrix,
    dispatch::multiversion,
    lanes::{interleave, join_rows, row_to_lanes},
    micro::{Kind, PANEL},
    q4::GROUP,
};

/// Inputs of a panel that are packed at a time: 16 rows of them are 16 KiB, and stay in the innermost cache.
const PIECE: usize = 256;

/// Packs 16 outputs from `column` on, a multiple of 16, into `panel`: lanes `[depth][16]` of `kind`, which is f32 or
/// bf16. Outputs and inputs beyond the last are zeros.
pub(super) fn pack_panel(
    weight: Matrix<'_>,
    kind: Kind,
    inputs: usize,
    column: usize,
    panel: &mut [f32],
) {
    match weight {
        Matrix::F32(values) => {
            pack_rows(&values[column * inputs..], kind, inputs, panel, |_, row| row)
        }
        Matrix::Bf16(bits) => {
            pack_rows(&bits[column * inputs..], kind, inputs, panel, |wide, row| {
                widen_bf16(row, wide);
                &wide[..row.len()]
            });
        }
        Matrix::F16(bits) => {
            pack_rows(&bits[column * inputs..], kind, inputs, panel, |wide, row| {
                let wide = &mut wide[..row.len()];
                row.reinterpret_cast::<f16>().convert_to_f32_slice(wide);
                wide
            });
        }
        Matrix::Q4(matrix) => {
            let mut piece = [[0.0; PANEL]; GROUP];
            for (number, out) in panel.chunks_mut(GROUP / kind.per_lane() * PANEL).enumerate() {
                matrix.widen_group(column / PANEL, number, &mut piece);
                piece[GROUP.min(inputs - number * GROUP)..].fill([0.0; PANEL]);
                match kind {
                    Kind::F32 => out.copy_from_slice(&piece.as_flattened()[..out.len()]),
                    _ => {
                        for (pair, out) in
                            piece.as_chunks::<2>().0.iter().zip(out.chunks_exact_mut(PANEL))
                        {
                            join_rows(&pair[0], &pair[1], out);
                        }
                    }
                }
            }
        }
        Matrix::Blocks(matrix) => pack_blocks(&matrix, kind, column, panel),
        Matrix::Int8(_) => unreachable!("bytes are packed already"),
    }
}

/// Packs up to 16 `rows` of `inputs` numbers each, which `widen` makes f32, with memory for it.
fn pack_rows<T>(
    rows: &[T],
    kind: Kind,
    inputs: usize,
    panel: &mut [f32],
    widen: impl for<'a> Fn(&'a mut [f32; PIECE], &'a [T]) -> &'a [f32],
) {
    let mut lanes = [0.0; PANEL * PIECE];
    let mut wide = [0.0; PIECE];
    let per_lane = kind.per_lane();
    for (from, out) in (0..inputs).step_by(PIECE).zip(panel.chunks_mut(PIECE / per_lane * PANEL)) {
        let count = PIECE.min(inputs - from);
        let depth = count.div_ceil(per_lane);
        for lane in 0..PANEL {
            let lanes = &mut lanes[lane * depth..][..depth];
            match rows.get(lane * inputs + from..lane * inputs + from + count) {
                Some(row) => row_to_lanes(widen(&mut wide, row), 1.0, kind, lanes),
                None => lanes.fill(0.0),
            }
        }
        interleave(&lanes[..PANEL * depth], depth, depth, out);
    }
}

/// As [`pack_rows`], for blocks, of which a piece holds a whole number.
fn pack_blocks(matrix: &BlockMatrix<'_>, kind: Kind, column: usize, panel: &mut [f32]) {
    let mut lanes = [0.0; PANEL * PIECE];
    let mut wide = [0.0; PIECE];
    let (inputs, per_lane) = (matrix.inputs(), kind.per_lane());
    for (from, out) in (0..inputs).step_by(PIECE).zip(panel.chunks_mut(PIECE / per_lane * PANEL)) {
        let count = PIECE.min(inputs - from);
        let depth = count / per_lane;
        for lane in 0..PANEL {
            let lanes = &mut lanes[lane * depth..][..depth];
            if column + lane < matrix.outputs() {
                matrix.widen_part(column + lane, from, &mut wide[..count]);
                row_to_lanes(&wide[..count], 1.0, kind, lanes);
            } else {
                lanes.fill(0.0);
            }
        }
        interleave(&lanes[..PANEL * depth], depth, depth, out);
    }
}

multiversion! {
    /// Widens the upper halves of singles.
    fn widen_bf16(bits: &[u16], out: &mut [f32]) {
        for (value, &bits) in out.iter_mut().zip(bits) {
            *value = f32::from_bits(u32::from(bits) << 16);
        }
    }
}

/// Rows of `inputs` elements as lanes of `kind`, `depth` lanes a row.
pub(super) fn rows_to_lanes(
    x: &[f32],
    inputs: usize,
    kind: Kind,
    stride: usize,
    lanes: &mut [f32],
) {
    let depth = inputs.div_ceil(kind.per_lane());
    for (row, out) in x.chunks_exact(inputs).zip(lanes.chunks_exact_mut(stride)) {
        row_to_lanes(row, 1.0, kind, &mut out[..depth]);
    }
}
