//! Micro-kernels from a handful of instructions: how a tile's sums stay in registers is written once.

/// Defines a micro-kernel: `run` matches the numbers of rows and panels, of which each has a version of its own
/// whose sums stay in registers.
///
/// `sum` is what a register of sums is, `zero` makes one, `row` reads one row of a panel (`$regs` registers),
/// `lane` spreads a lane of activations, `add` multiplies and adds, `store` writes.
macro_rules! tile_kernel {
    (
        $run:ident, features $features:literal, rows [$($rows:literal)*], panels [$($panels:literal)*],
        registers $regs:literal of $lanes:literal,
        zero $zero:expr, load $load:expr, lane $lane:expr, add $add:expr, store $store:expr $(,)?
    ) => {
        /// # Safety
        /// As [`Micro::run`](crate::micro::Micro::run).
        pub(super) unsafe fn $run(operands: crate::micro::Operands) {
            mod kernel {
                use super::*;

                #[target_feature(enable = $features)]
                #[allow(clippy::modulo_one, reason = "a panel is one register of AVX-512")]
                pub(super) unsafe fn tile<const ROWS: usize, const REGISTERS: usize>(
                    operands: crate::micro::Operands,
                ) {
                    let crate::micro::Operands {
                        a, stride, b, panel_stride, depth, out, out_stride, ..
                    } = operands;
                    let mut sums = [[$zero; REGISTERS]; ROWS];
                    // SAFETY: the caller's promise: ROWS rows of depth lanes, panels of depth × 16 lanes,
                    // and room for the sums.
                    unsafe {
                        for step in 0..depth {
                            let mut weights = [$zero; REGISTERS];
                            for (i, weights) in weights.iter_mut().enumerate() {
                                let (panel, part) = (i / $regs, i % $regs);
                                *weights = $load(b.add(panel * panel_stride + step * 16 + part * $lanes));
                            }
                            for (row, sums) in sums.iter_mut().enumerate() {
                                let lane = $lane(a.add(row * stride + step));
                                for (sum, weights) in sums.iter_mut().zip(weights) {
                                    *sum = $add(*sum, lane, weights);
                                }
                            }
                        }
                        // By index: iterating over arrays by value copies them through memory, which took as
                        // long as the products of a hundred lanes.
                        #[allow(clippy::needless_range_loop, reason = "see above")]
                        for row in 0..ROWS {
                            for i in 0..REGISTERS {
                                $store(out.add(row * out_stride + i * $lanes), sums[row][i]);
                            }
                        }
                    }
                }
            }
            // SAFETY: the caller's promise, and each version has as many rows and panels as there are.
            unsafe {
                $crate::tile::choose!(operands, $regs, [$($rows)*], [$($panels)*])
            }
        }
    };
}

/// Calls the version for the numbers of rows and panels.
macro_rules! choose {
    ($operands:ident, $regs:literal, $rows:tt, [$($panels:literal)*]) => {
        match $operands.panels {
            $($panels => $crate::tile::choose!(@rows $operands, { $panels * $regs }, $rows),)*
            other => unreachable!("a tile of {other} panels: this is a bug"),
        }
    };
    (@rows $operands:ident, $registers:tt, [$($rows:literal)*]) => {
        match $operands.rows {
            $($rows => kernel::tile::<$rows, $registers>($operands),)*
            other => unreachable!("a tile of {other} rows: this is a bug"),
        }
    };
}

pub(crate) use {choose, tile_kernel};
