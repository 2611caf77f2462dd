//! Weights of any format into panels, activations into lanes.

use half::f16;

use crate::{
    Matrix,
    dispatch::multiversion,
    micro::{Kind, PANEL},
    q4::GROUP,
    quantize::to_bf16,
};

/// Some inputs of a panel's 16 outputs, as f32.
type Piece = [[f32; PANEL]; GROUP];

/// Packs 16 outputs from `column` on, a multiple of 16, into `panel`: lanes `[depth][16]` of `kind`, which is f32 or
/// bf16. Outputs and inputs beyond the last are zeros.
pub(super) fn pack_panel(
    weight: Matrix<'_>,
    kind: Kind,
    inputs: usize,
    column: usize,
    panel: &mut [f32],
) {
    let mut piece: Piece = [[0.0; PANEL]; GROUP];
    let lanes = GROUP / kind.per_lane() * PANEL;
    for (number, out) in panel.chunks_mut(lanes).enumerate() {
        let from = number * GROUP;
        let count = GROUP.min(inputs - from);
        match weight {
            Matrix::F32(values) => gather_f32(&values[column * inputs..], inputs, from, &mut piece),
            Matrix::Bf16(bits) => gather_bf16(&bits[column * inputs..], inputs, from, &mut piece),
            Matrix::F16(bits) => {
                gather(&bits[column * inputs..], inputs, from, &mut piece, |it| {
                    f16::from_bits(it).to_f32()
                });
            }
            Matrix::Q4(matrix) => matrix.widen_group(column / PANEL, number, &mut piece),
            Matrix::Int8(_) => unreachable!("bytes are packed already"),
        }
        piece[count..].fill([0.0; PANEL]);
        match kind {
            Kind::F32 => out.copy_from_slice(&piece.as_flattened()[..out.len()]),
            _ => round_piece(&piece, out),
        }
    }
}

#[inline(always)]
fn gather<T: Copy>(
    rows: &[T],
    inputs: usize,
    from: usize,
    piece: &mut Piece,
    widen: impl Fn(T) -> f32,
) {
    let to = inputs.min(from + GROUP);
    for lane in 0..PANEL {
        let row = rows.get(lane * inputs + from..lane * inputs + to);
        match row {
            Some(row) => {
                for (piece, &value) in piece.iter_mut().zip(row) {
                    piece[lane] = widen(value);
                }
            }
            None => piece.iter_mut().for_each(|it| it[lane] = 0.0),
        }
    }
}

multiversion! {
    fn gather_f32(rows: &[f32], inputs: usize, from: usize, piece: &mut Piece) {
        gather(rows, inputs, from, piece, |it| it);
    }
}

multiversion! {
    fn gather_bf16(rows: &[u16], inputs: usize, from: usize, piece: &mut Piece) {
        gather(rows, inputs, from, piece, |it| f32::from_bits(u32::from(it) << 16));
    }
}

multiversion! {
    /// Two inputs of an output to a lane.
    fn round_piece(piece: &Piece, out: &mut [f32]) {
        for (pair, out) in piece.as_chunks::<2>().0.iter().zip(out.as_chunks_mut::<PANEL>().0) {
            for lane in 0..PANEL {
                out[lane] = pair_of(pair[0][lane], pair[1][lane]);
            }
        }
    }
}

#[inline(always)]
fn pair_of(low: f32, high: f32) -> f32 {
    f32::from_bits(u32::from(to_bf16(low)) | u32::from(to_bf16(high)) << 16)
}

multiversion! {
    /// Rounds rows of `inputs` elements to bf16, two to a lane, `depth` lanes a row.
    pub(super) fn round_rows(x: &[f32], inputs: usize, depth: usize, lanes: &mut [f32]) {
        for (row, out) in x.chunks_exact(inputs).zip(lanes.chunks_exact_mut(depth)) {
            let (pairs, rest) = row.as_chunks::<2>();
            for (lane, pair) in out.iter_mut().zip(pairs) {
                *lane = pair_of(pair[0], pair[1]);
            }
            if let (Some(lane), Some(&last)) = (out.last_mut(), rest.first()) {
                *lane = pair_of(last, 0.0);
            }
        }
    }
}
