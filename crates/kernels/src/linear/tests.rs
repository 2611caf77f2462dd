use half::f16;
use proptest::prelude::*;

use super::*;
use crate::{
    BlockFormat, BlockMatrix, Int8Matrix, PanelUse, Q4Matrix, int8_bytes, pack_int8, pack_q4,
    panels::BLOCK_ROWS, q4_bytes, within,
};

/// The definition, in f64.
fn naive(x: &[f32], weight: &dyn Fn(usize, usize) -> f32, bias: &[f32], inputs: usize) -> Vec<f32> {
    let product = |row: &[f32], output: usize| {
        let terms = row.iter().enumerate();
        let sum: f64 = terms.map(|(i, &a)| f64::from(a) * f64::from(weight(output, i))).sum();
        (sum + f64::from(bias[output])) as f32
    };
    x.chunks(inputs).flat_map(|row| (0..bias.len()).map(move |it| product(row, it))).collect()
}

fn fill(seed: &[f32], n: usize, step: usize) -> Vec<f32> {
    (0..n).map(|i| seed[(i * step + i / 13 + 7) % seed.len()]).collect()
}

/// Bytes at an address that is a multiple of four.
fn int8_memory(weights: &[f32], outputs: usize, inputs: usize) -> Vec<f32> {
    let mut memory = vec![0.0; int8_bytes(outputs, inputs).expect("small") / 4];
    // SAFETY: any bytes are f32.
    let (_, bytes, _) = unsafe { memory.align_to_mut::<u8>() };
    pack_int8(weights, outputs, inputs, bytes).expect("fits");
    memory
}

fn view(memory: &[f32], outputs: usize, inputs: usize) -> Int8Matrix<'_> {
    // SAFETY: any f32 are bytes.
    let (_, bytes, _) = unsafe { memory.align_to::<u8>() };
    Int8Matrix::new(bytes, outputs, inputs).expect("just packed")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(within(48, 1) as u32))]

    /// Every format, with memory and without, in as many turns as it takes, into the middle of wider rows.
    #[test]
    fn equals_the_naive_product(
        (rows, inputs, outputs) in (1..within(60, 31), 1..within(80, 12), 1..within(90, 20)), threads in 1usize..4, small in any::<bool>(),
        seed in prop::collection::vec(-1f32..1.0, 64), precision in prop::sample::select(vec![Precision::F32, Precision::Bf16]),
    ) {
        let (x, weight, bias) = (fill(&seed, rows * inputs, 5), fill(&seed, outputs * inputs, 3), fill(&seed, outputs, 11));
        let half: Vec<u16> = weight.iter().map(|&it| f16::from_f32(it).to_bits()).collect();
        let brain: Vec<u16> = weight.iter().map(|it| (it.to_bits() >> 16) as u16).collect();
        let memory = int8_memory(&weight, outputs, inputs);
        let int8 = view(&memory, outputs, inputs);
        let mut bytes = vec![0; q4_bytes(outputs, inputs).expect("small")];
        pack_q4(&weight, outputs, inputs, &mut bytes).expect("fits");
        let q4 = Q4Matrix::new(&bytes, outputs, inputs).expect("packed");
        let mut panels = Panels::new(inputs, threads, PanelUse::Any);
        if small {
            // A panel or two a turn.
            panels.shrink((BLOCK_ROWS + 40) * inputs.next_multiple_of(32));
        }
        let stride = outputs + 3;
        for matrix in [Matrix::F32(&weight), Matrix::F16(&half), Matrix::Bf16(&brain), Matrix::Int8(int8), Matrix::Q4(q4)] {
            let value = |output: usize, input: usize| match matrix {
                Matrix::F32(values) => values[output * inputs + input],
                Matrix::F16(bits) => f16::from_bits(bits[output * inputs + input]).to_f32(),
                Matrix::Bf16(bits) => f32::from_bits(u32::from(bits[output * inputs + input]) << 16),
                Matrix::Int8(matrix) => matrix.get(output, input),
                Matrix::Q4(matrix) => matrix.get(output, input),
                Matrix::Blocks(_) => unreachable!("see the next test"),
            };
            let expected = naive(&x, &value, &bias, inputs);
            // A byte is wrong by half a step of 1/127, a bf16 by 2⁻⁹; each input adds as much at most.
            let tolerance = match (matrix, precision) {
                (Matrix::Int8(_), _) => 1e-4 + inputs as f32 * 0.5 / 127.0,
                (_, Precision::Bf16) => 1e-4 + inputs as f32 * 2.0 / 512.0,
                (_, Precision::F32) => 1e-4,
            };
            let mut data = vec![9.0; rows * stride];
            let parts = &[Part { weight: matrix, bias: Some(&bias), outputs, offset: 2 }];
            let work = Products { x: &x, inputs, parts, precision, rounding: Rounding::ByCount, finish: Finish::Store };
            products(work, &mut data, stride, &mut panels);
            for (row, expected) in data.chunks(stride).zip(expected.chunks(outputs)) {
                for (a, b) in row[2..].iter().zip(expected) {
                    prop_assert!((a - b).abs() < tolerance, "{matrix:?} {a} {b}");
                }
                prop_assert_eq!((row[0], row[1], row[stride - 1]), (9.0, 9.0, 9.0));
            }
            if !matches!(matrix, Matrix::Int8(_)) {
                let mut slow = vec![9.0; rows * stride];
                products(work, &mut slow, stride, &mut Panels::default());
                for (a, b) in slow.iter().zip(&data) {
                    prop_assert!((a - b).abs() < tolerance);
                }
            }
        }
    }

    /// Products by head are those of rows, rounded.
    #[test]
    fn heads_hold_the_rounded_rows(
        rows in 1..within(60, 9), inputs in 1..within(80, 9), dim in prop::sample::select(vec![32usize, 64, 96]), heads in (1usize..3, 1usize..3),
        threads in 1usize..4, small in any::<bool>(), seed in prop::collection::vec(-1f32..1.0, 64),
        precision in prop::sample::select(vec![Precision::F32, Precision::Bf16]),
    ) {
        let (first, second) = (heads.0 * dim, heads.1 * dim);
        let (x, weight) = (fill(&seed, rows * inputs, 5), fill(&seed, (first + second) * inputs, 3));
        let bias = fill(&seed, first + second, 11);
        let memory = [int8_memory(&weight[..first * inputs], first, inputs), int8_memory(&weight[first * inputs..], second, inputs)];
        let plain = [Matrix::F32(&weight[..first * inputs]), Matrix::F32(&weight[first * inputs..])];
        let bytes = [Matrix::Int8(view(&memory[0], first, inputs)), Matrix::Int8(view(&memory[1], second, inputs))];
        let mut panels = Panels::new(inputs, threads, PanelUse::Any);
        if small {
            panels.shrink((BLOCK_ROWS + 40) * inputs.next_multiple_of(32));
        }
        let stride = first + second;
        for weights in [plain, bytes] {
            let parts = &[
                Part { weight: weights[0], bias: Some(&bias[..first]), outputs: first, offset: 0 },
                Part { weight: weights[1], bias: Some(&bias[first..]), outputs: second, offset: first },
            ];
            let mut expected = vec![9.0; rows * stride];
            let work = Products { x: &x, inputs, parts, precision, rounding: Rounding::ByCount, finish: Finish::Store };
            products(work, &mut expected, stride, &mut panels);
            let mut lanes = vec![9.0; rows * stride / 2 + 1];
            products(Products { finish: Finish::Heads { dim }, ..work }, &mut lanes, stride, &mut panels);
            prop_assert_eq!(lanes[rows * stride / 2], 9.0);
            for (place, expected) in expected.iter().enumerate() {
                let (row, column) = (place / stride, place % stride);
                let number = (column / dim * rows + row) * dim + column % dim;
                let bits = lanes[number / 2].to_bits();
                let value = f32::from_bits(if number % 2 == 0 { bits << 16 } else { bits & 0xffff_0000 });
                // The kinds of registers differ in the last bit, which rounding may carry on.
                prop_assert!((value - expected).abs() <= expected.abs() / 250.0 + 1e-5, "{value} {expected}");
            }
        }
    }

    /// However rows are cut, each gives the same bits.
    #[test]
    fn as_many_rows_do_not_depend_on_how_they_are_cut(
        rows in 1..within(260, 20), count in 1..within(4, 2), outputs in 1..within(80, 6), threads in 1usize..4, seed in any::<u32>(),
        values in prop::collection::vec(-1f32..1.0, 64), precision in prop::sample::select(vec![Precision::F32, Precision::Bf16]),
        format in prop::sample::select(BlockFormat::ALL.to_vec()), half in any::<bool>(), cuts in prop::collection::vec(1usize..120, 1..6),
    ) {
        let inputs = count * format.block_len();
        let bytes = crate::blocks::tests::blocks(format, outputs, inputs, seed);
        let matrix = BlockMatrix::new(format, &bytes, outputs, inputs).expect("whole blocks");
        let bits: Vec<u16> = fill(&values, outputs * inputs, 7).iter().map(|it| f16::from_f32(*it).to_bits()).collect();
        let weight = if half { Matrix::F16(&bits) } else { Matrix::Blocks(matrix) };
        let x = fill(&values, rows * inputs, 5);
        let parts = &[Part { weight, bias: None, outputs, offset: 0 }];
        let run = |from: usize, to: usize, threads: usize| {
            let mut out = vec![9.0; (to - from) * outputs];
            let x = &x[from * inputs..to * inputs];
            let work = Products { x, inputs, parts, precision, rounding: Rounding::AsMany, finish: Finish::Store };
            products(work, &mut out, outputs, &mut Panels::new(inputs, threads, PanelUse::Any));
            out
        };
        let whole = run(0, rows, threads);
        let (mut from, mut turn) = (0, 0);
        while from < rows {
            let to = rows.min(from + cuts[turn % cuts.len()]);
            let part = run(from, to, 1);
            let same = part.iter().map(|it| it.to_bits()).eq(whole[from * outputs..to * outputs].iter().map(|it| it.to_bits()));
            prop_assert!(same, "rows {from} to {to} of {rows} differ");
            (from, turn) = (to, turn + 1);
        }
    }

    /// Each row gives what it would give by itself, with every format of weights, and beside parts of other formats.
    #[test]
    fn rows_as_one_give_the_bits_of_each_alone(
        rows in 1..=MOST_AS_ONE, count in 1..within(5, 2), outputs in 1..within(80, 6), threads in 1usize..4, seed in any::<u32>(),
        values in prop::collection::vec(-1f32..1.0, 64), precision in prop::sample::select(vec![Precision::F32, Precision::Bf16]),
        format in prop::sample::select(BlockFormat::ALL.to_vec()), other in prop::sample::select(BlockFormat::ALL.to_vec()), kind in 0usize..5,
        finish in prop::sample::select(vec![Finish::Store, Finish::Add(0.5), Finish::Gate(Gate::Silu), Finish::Gate(Gate::GeluTanh)]),
    ) {
        let inputs = count * format.block_len().max(other.block_len());
        let blocks = [format, other].map(|it| crate::blocks::tests::blocks(it, outputs, inputs, seed));
        let matrix = |number: usize, format| Matrix::Blocks(BlockMatrix::new(format, &blocks[number], outputs, inputs).expect("whole blocks"));
        let wide = fill(&values, outputs * inputs, 7);
        let half: Vec<u16> = wide.iter().map(|it| f16::from_f32(*it).to_bits()).collect();
        let short: Vec<u16> = wide.iter().map(|it| (it.to_bits() >> 16) as u16).collect();
        let second = match kind {
            0 => matrix(0, format),
            1 => matrix(1, other),
            2 => Matrix::F16(&half),
            3 => Matrix::Bf16(&short),
            _ => Matrix::F32(&wide),
        };
        let bias = fill(&values, outputs, 11);
        let (x, stride) = (fill(&values, rows * inputs, 5), 2 * outputs + 1);
        let parts = &[
            Part { weight: matrix(0, format), bias: None, outputs, offset: 0 },
            Part { weight: second, bias: Some(&bias), outputs, offset: outputs },
        ];
        let run = |from: usize, to: usize, rounding, threads| {
            let mut out = fill(&values, (to - from) * stride, 3);
            out.iter_mut().enumerate().for_each(|(place, it)| *it = values[(from * stride + place) % 64]);
            let work = Products { x: &x[from * inputs..to * inputs], inputs, parts, precision, rounding, finish };
            products(work, &mut out, stride, &mut Panels::new(inputs, threads, PanelUse::Any));
            out
        };
        let all = run(0, rows, Rounding::AsOne, threads);
        for row in 0..rows {
            let alone = run(row, row + 1, Rounding::ByCount, 1);
            let same = alone.iter().map(|it| it.to_bits()).eq(all[row * stride..][..stride].iter().map(|it| it.to_bits()));
            prop_assert!(same, "row {row} of {rows} differs");
        }
    }

    /// Blocks of every format, with few rows and with many.
    #[test]
    fn blocks_equal_the_naive_product(
        rows in 1..within(40, 14), count in 1..within(4, 2), outputs in 1..within(70, 6), threads in 1usize..4, seed in any::<u32>(),
        values in prop::collection::vec(-1f32..1.0, 64), precision in prop::sample::select(vec![Precision::F32, Precision::Bf16]),
        format in prop::sample::select(BlockFormat::ALL.to_vec()), small in any::<bool>(),
    ) {
        let inputs = count * format.block_len();
        let bytes = crate::blocks::tests::blocks(format, outputs, inputs, seed);
        let matrix = BlockMatrix::new(format, &bytes, outputs, inputs).expect("whole blocks");
        let mut wide = vec![0.0; outputs * inputs];
        wide.chunks_mut(inputs).enumerate().for_each(|(output, row)| matrix.widen_row(output, row));
        let (x, bias) = (fill(&values, rows * inputs, 5), fill(&values, outputs, 11));
        let expected = naive(&x, &|output, input| wide[output * inputs + input], &bias, inputs);
        let mut panels = Panels::new(inputs, threads, PanelUse::Any);
        if small {
            panels.shrink((BLOCK_ROWS + 40) * inputs);
        }
        let stride = outputs + 3;
        let parts = &[Part { weight: Matrix::Blocks(matrix), bias: Some(&bias), outputs, offset: 2 }];
        let work = Products { x: &x, inputs, parts, precision, rounding: Rounding::ByCount, finish: Finish::Store };
        let mut data = vec![9.0; rows * stride];
        products(work, &mut data, stride, &mut panels);
        // Activations of up to 1, of bytes or of bf16, are wrong by 2⁻⁸ at most.
        for (row, expected) in data.chunks(stride).zip(expected.chunks(outputs)) {
            for (output, (a, b)) in row[2..].iter().zip(expected).enumerate() {
                let size: f32 = wide[output * inputs..][..inputs].iter().map(|it| it.abs()).sum();
                let tolerance = if rows > blocks::FEW_ROWS && precision == Precision::F32 { 1e-5 } else { 2.0 / 256.0 };
                prop_assert!((a - b).abs() <= tolerance * size + 1e-4, "{format:?} {a} {b} {size}");
            }
            prop_assert_eq!((row[0], row[1], row[stride - 1]), (9.0, 9.0, 9.0));
        }
        // A row is what it is alone, and on any number of threads.
        if rows <= blocks::FEW_ROWS {
            let mut alone = vec![0.0; outputs];
            let mut panels = Panels::new(inputs, 1, PanelUse::Any);
            for (x, row) in x.chunks(inputs).zip(data.chunks(stride)) {
                let parts = &[Part { offset: 0, ..parts[0] }];
                products(Products { x, parts, ..work }, &mut alone, outputs, &mut panels);
                prop_assert_eq!(&alone, &row[2..2 + outputs]);
            }
        }
    }

    /// What becomes of a product is what the separate routine makes of it.
    #[test]
    fn finishes_equal_the_routines_one_by_one(
        (rows, inputs, outputs) in (1..within(40, 9), 1..within(50, 9), 1..within(70, 9)), threads in 1usize..3,
        seed in prop::collection::vec(-1f32..1.0, 64), bytes in any::<bool>(),
    ) {
        let (x, weight, bias) = (fill(&seed, rows * inputs, 5), fill(&seed, outputs * inputs, 3), fill(&seed, outputs, 11));
        let memory = int8_memory(&weight, outputs, inputs);
        let weight = if bytes { Matrix::Int8(view(&memory, outputs, inputs)) } else { Matrix::F32(&weight) };
        let parts = &[Part { weight, bias: Some(&bias), outputs, offset: 0 }];
        let mut panels = Panels::new(inputs, threads, PanelUse::Any);
        let old = fill(&seed, rows * outputs, 17);
        let mut run = |finish| {
            let mut out = old.clone();
            products(Products { x: &x, inputs, parts, precision: Precision::F32, rounding: Rounding::ByCount, finish }, &mut out, outputs, &mut panels);
            out
        };
        let plain = run(Finish::Store);
        let gain = fill(&seed, outputs, 2);
        let normalized = run(Finish::AddLayerNorm { gain: &gain, bias: &bias, epsilon: 1e-3 });
        let mut expected = old.clone();
        crate::add_layer_norm(&mut expected, &plain, &gain, &bias, 1e-3);
        prop_assert_eq!(normalized, expected);
        let mut expected = plain.clone();
        crate::gelu(&mut expected);
        // Of products of bytes it is as exact as what quantizes it next needs.
        let most = if bytes { 2e-4 } else { 0.0 };
        for (a, b) in run(Finish::Gelu).iter().zip(&expected) {
            prop_assert!((a - b).abs() <= most, "{a} {b}");
        }
        for gate in [Gate::Silu, Gate::Gelu, Gate::GeluTanh] {
            let mut expected = old.clone();
            crate::gated(gate, &mut expected, &plain);
            for (a, b) in run(Finish::Gate(gate)).iter().zip(&expected) {
                prop_assert!((a - b).abs() < 1e-5, "{a} {b}");
            }
        }
        for (a, (old, plain)) in run(Finish::Add(-0.5)).iter().zip(old.iter().zip(&plain)) {
            prop_assert!((a - (old - 0.5 * plain)).abs() < 1e-5);
        }
        for (a, &x) in run(Finish::GeluTanh).iter().zip(&plain) {
            let x = f64::from(x);
            let tanh = ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh();
            prop_assert!((f64::from(*a) - 0.5 * x * (1.0 + tanh)).abs() < 1e-5);
        }
    }

    /// Products that share their input are those computed one by one.
    #[test]
    fn parts_are_independent(
        rows in 1..within(40, 31), inputs in 1..within(50, 9), outputs in prop::collection::vec(1..within(40, 9), 1..4), threads in 1usize..4,
        seed in prop::collection::vec(-1f32..1.0, 64), mixed in any::<bool>(),
    ) {
        let x = fill(&seed, rows * inputs, 5);
        let weights: Vec<Vec<f32>> = outputs.iter().map(|it| fill(&seed, it * inputs, 3)).collect();
        let packed: Vec<Vec<f32>> = weights.iter().zip(&outputs).map(|(w, &n)| int8_memory(w, n, inputs)).collect();
        let mut panels = Panels::new(inputs, threads, PanelUse::Any);
        let stride: usize = outputs.iter().sum();
        let mut offset = 0;
        let mut parts = Vec::new();
        for (i, &outputs) in outputs.iter().enumerate() {
            let weight = if mixed && i == 1 { Matrix::F32(&weights[i]) } else { Matrix::Int8(view(&packed[i], outputs, inputs)) };
            parts.push(Part { weight, bias: None, outputs, offset });
            offset += outputs;
        }
        let mut all = vec![0.0; rows * stride];
        let work = Products { x: &x, inputs, parts: &parts, precision: Precision::F32, rounding: Rounding::ByCount, finish: Finish::Store };
        products(work, &mut all, stride, &mut panels);
        for part in &parts {
            let mut alone = vec![0.0; rows * part.outputs];
            linear(&x, part.weight, None, inputs, part.outputs, Output::dense(&mut alone, part.outputs), &mut panels);
            for (all, alone) in all.chunks(stride).zip(alone.chunks(part.outputs)) {
                prop_assert_eq!(&all[part.offset..][..part.outputs], alone);
            }
        }
    }
}

#[test]
fn no_rows_is_no_work() {
    let none = &mut Panels::default();
    linear(&[], Matrix::F32(&[1.0, 2.0]), None, 2, 1, Output::dense(&mut [], 1), none);
}

#[test]
fn a_row_that_is_not_finite_gives_nan_and_others_stay() {
    let (rows, inputs, outputs) = (5, 9, 20);
    let mut x = vec![0.5; rows * inputs];
    x[inputs] = f32::NAN;
    x[3 * inputs + 2] = f32::INFINITY;
    let memory = int8_memory(&vec![0.25; outputs * inputs], outputs, inputs);
    let mut out = vec![0.0; rows * outputs];
    let mut panels = Panels::new(inputs, 2, PanelUse::Packed);
    let weight = Matrix::Int8(view(&memory, outputs, inputs));
    linear(&x, weight, None, inputs, outputs, Output::dense(&mut out, outputs), &mut panels);
    for (row, out) in out.chunks(outputs).enumerate() {
        let wrong = row == 1 || row == 3;
        assert!(out.iter().all(|it| it.is_nan() == wrong));
        assert!(wrong || (out[0] - 0.5 * 0.25 * 9.0).abs() < 0.02);
    }
}
