//! Micro-kernels with the instructions of x86 processors.

mod amx;
mod attention;
mod avx2;
mod avx512;
mod blocks;
mod convert;
mod math;
mod registers;
mod steps;

pub(crate) use amx::{
    BF16 as AMX_BF16, INT8 as AMX_INT8, enter as enter_tiles, is_usable as amx_is_usable,
    leave as leave_tiles,
};
pub(crate) use attention::{multiply_rows, weigh_rows};
pub(crate) use avx2::{
    F32 as AVX2_F32, INT8 as AVX2_INT8, INT16 as AVX2_INT16, VNNI_INT8 as AVXVNNI_INT8,
};
pub(crate) use avx512::{
    BF16 as AVX512_BF16, F32 as AVX512_F32, INT8 as AVX512_INT8, VNNI_INT8 as AVX512VNNI_INT8,
};
pub(crate) use blocks::{dots_avx2, dots_avx512, dots_avxvnni, widen_avx512};
pub(crate) use convert::{
    join_lanes, join_rows, narrow_f16, quantize_row, round_row, transpose, widen_f16,
};
pub(crate) use math::{Sums, finish_pairs, narrow, rounded_exponentials, wide};
pub(crate) use steps::{STEPS as AVX2_STEPS, heaviest};
