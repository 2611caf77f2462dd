//! The matrix product of a linear layer.

use gemm::Parallelism;

/// Where a product is written: rows of `stride` elements, of which the product fills `columns` from
/// `offset` on. Three products can so share one buffer (query | key | value).
#[derive(Debug)]
pub struct Output<'a> {
    /// The buffer, `rows × stride` elements or more.
    pub data: &'a mut [f32],
    /// Elements from one row to the next.
    pub stride: usize,
    /// First column written.
    pub offset: usize,
}

impl<'a> Output<'a> {
    /// A buffer that the product fills wholly, row after row.
    pub fn dense(data: &'a mut [f32], columns: usize) -> Self {
        Output { data, stride: columns, offset: 0 }
    }
}

/// `out = x · wᵀ + bias`.
///
/// Shapes: `x` `[rows, inputs]`, `weight` `[outputs, inputs]` row by row as Hugging Face stores it,
/// `bias` `[outputs]`, `out` `[rows, outputs]` at its stride. Runs on the threads of the current pool.
///
/// # Panics
/// When a slice is shorter than its shape says: the caller's bug.
pub fn linear(
    x: &[f32],
    weight: &[f32],
    bias: Option<&[f32]>,
    inputs: usize,
    outputs: usize,
    out: Output<'_>,
) {
    let rows = x.len() / inputs.max(1);
    let Output { data, stride, offset } = out;
    assert_eq!(x.len(), rows * inputs, "x is not rows × {inputs}");
    assert_eq!(weight.len(), outputs * inputs, "weight is not {outputs} × {inputs}");
    assert!(
        offset + outputs <= stride,
        "{outputs} columns from {offset} do not fit rows of {stride}"
    );
    if rows == 0 || outputs == 0 {
        return;
    }
    assert!(
        data.len() >= (rows - 1) * stride + offset + outputs,
        "out holds fewer than {rows} rows"
    );
    if let Some(bias) = bias {
        assert_eq!(bias.len(), outputs, "bias is not {outputs} long");
        for row in data.chunks_mut(stride).take(rows) {
            row[offset..offset + outputs].copy_from_slice(bias);
        }
    }
    // One row is a matrix-vector product: threads would cost more than they bring.
    let parallelism = if rows == 1 { Parallelism::None } else { Parallelism::Rayon(0) };
    // SAFETY: the assertions above bound every element that the strides reach: x is rows × inputs,
    // weight outputs × inputs, and the last written element of `data` is inside it. `data` is borrowed
    // mutably, so it overlaps neither input. Strides fit isize because the slices exist.
    unsafe {
        gemm::gemm(
            rows,
            outputs,
            inputs,
            data.as_mut_ptr().add(offset),
            1,
            stride as isize,
            bias.is_some(),
            x.as_ptr(),
            1,
            inputs as isize,
            weight.as_ptr(),
            inputs as isize,
            1,
            1.0,
            1.0,
            false,
            false,
            false,
            parallelism,
        );
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn naive(x: &[f32], weight: &[f32], bias: &[f32], inputs: usize, outputs: usize) -> Vec<f32> {
        x.chunks(inputs)
            .flat_map(|row| {
                weight
                    .chunks(inputs)
                    .zip(bias)
                    .take(outputs)
                    .map(move |(w, b)| b + row.iter().zip(w).map(|(a, b)| a * b).sum::<f32>())
            })
            .collect()
    }

    proptest! {
        #[test]
        fn equals_the_naive_product(
            (rows, inputs, outputs) in (1usize..9, 1usize..40, 1usize..40),
            seed in prop::collection::vec(-1f32..1.0, 64),
        ) {
            let fill = |n: usize, step: usize| -> Vec<f32> { (0..n).map(|i| seed[(i * step + 7) % 64]).collect() };
            let (x, weight, bias) = (fill(rows * inputs, 5), fill(outputs * inputs, 3), fill(outputs, 11));
            let expected = naive(&x, &weight, &bias, inputs, outputs);
            // Written into the middle of wider rows, whose other columns stay as they were.
            let stride = outputs + 3;
            let mut data = vec![9.0; rows * stride];
            linear(&x, &weight, Some(&bias), inputs, outputs, Output { data: &mut data, stride, offset: 2 });
            for (row, expected) in data.chunks(stride).zip(expected.chunks(outputs)) {
                for (a, b) in row[2..].iter().zip(expected) {
                    prop_assert!((a - b).abs() < 1e-4);
                }
                prop_assert_eq!((row[0], row[1], row[stride - 1]), (9.0, 9.0, 9.0));
            }
        }
    }

    #[test]
    fn no_rows_is_no_work() {
        linear(&[], &[1.0, 2.0], None, 2, 1, Output::dense(&mut [], 1));
    }
}
