//! Numeric routines for the CPU, dispatched at run time: one shipped binary is right on every processor
//! and fast on most.
//!
//! Everything works on plain `f32` slices that the caller owns; weights may also be of two bytes, of one
//! ([`Int8Matrix`]), of four bits ([`Q4Matrix`]) or blocks of GGML ([`BlockMatrix`]), and indexes into a dictionary
//! ([`unpack_bytes`]) become bytes before they are multiplied. [`products`] multiplies, on the
//! way quantizes activations, and finishes what comes out: bias, activation, gate, residual, normalization
//! ([`Finish`]). [`attention`] takes ragged batches, [`cached_attention`] new tokens over a KV cache; beside them stand
//! normalization ([`layer_norm`], [`rms_norm`]), activations ([`gelu`], [`gated`], [`tanh`]), rotary positions
//! ([`rotate`]) and pooling ([`mean_pool`], [`l2_normalize`]). Nothing here allocates per call, reads files or knows a
//! model; [`zeros`] is the memory that callers bring; [`Pool`] bounds the threads, [`isa`] says which instructions
//! are used.
//!
//! Products and attention are built from *micro-kernels* (`micro.rs`): a tile of sums in registers, written once
//! (`tile.rs`) from a handful of instructions of AVX-512, AVX-VNNI, AVX2 or NEON, or without any (`scalar.rs`), which
//! is the twin that the others are tested against. AMX (`x86/amx.rs`) and Arm's products of matrices (i8mm,
//! `neon.rs`) have their own loops over the same panels.

mod attention;
mod blocks;
mod dict;
mod dispatch;
mod distance;
mod elementwise;
mod half_floats;
mod int8;
mod isa;
mod lanes;
mod linear;
mod matrix;
mod memory;
mod micro;
#[cfg(target_arch = "aarch64")]
mod neon;
mod norm;
mod panels;
mod pool;
mod q4;
mod quantize;
mod scalar;
mod steps;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod tile;
#[cfg(target_arch = "x86_64")]
mod x86;

/// How far a property goes: as far as `most`, or as `few` where Miri interprets every instruction.
#[cfg(test)]
const fn within(most: usize, few: usize) -> usize {
    if cfg!(miri) { few } else { most }
}

pub use attention::{
    Attention, AttentionShape, CachedAttention, Disentangled, DistanceBias, Distances,
    HeadAttention, Mask, Queries, Rows, attention, attention_by_head, attention_scratch_len,
    cached_attention, cached_attention_scratch_len, disentangled_attention,
    disentangled_scratch_len, is_best_by_head,
};
pub use blocks::{BlockFormat, BlockMatrix};
pub use dict::{
    DICT_ENTRIES, DICT_GROUP, dict_bytes, int8_sums, pack_indexes, unpack_bytes, unpack_f32,
};
pub use distance::squared_distances;
pub use elementwise::{Gate, Pairs, Rotation, gated, gelu, rotate, sigmoid, tanh};
pub use half_floats::narrow_f16;
pub use int8::{Int8Matrix, int8_bytes, pack_int8, pack_int8_as_it_is};
pub use isa::{FORCE_ISA, Isa, IsaError, instructions, isa};
pub use linear::{
    Finish, MOST_AS_ONE, Part, Precision, Products, Rounding, linear, linear_add, products,
};
pub use matrix::{Matrix, Output, PackedError};
pub use memory::zeros;
pub use norm::{
    add_layer_norm, l2_normalize, layer_norm, layer_norm_into, mean_pool, rms_norm, rms_norm_heads,
};
pub use panels::{PanelUse, Panels, panel_len};
pub use pool::{Pool, PoolError, join};
pub use q4::{Q4Matrix, pack_q4, q4_bytes};
