//! Numeric routines for the CPU, dispatched at run time: one shipped binary is right on every processor
//! and fast on most.
//!
//! Everything works on plain `f32` slices that the caller owns: matrix products ([`linear`]), attention
//! over ragged batches ([`attention`]), normalization ([`layer_norm`]), activations ([`gelu`], [`tanh`]),
//! pooling ([`mean_pool`], [`l2_normalize`]). Nothing here allocates per call, reads files or knows a
//! model; [`Pool`] bounds the threads. Matrix products use the `gemm` crate; each routine of our own has
//! a naive twin in its tests.

mod attention;
mod dispatch;
mod elementwise;
mod linear;
mod norm;
mod pool;

pub use attention::{AttentionShape, attention, attention_scratch_len};
pub use elementwise::{gelu, sigmoid, tanh};
pub use linear::{Output, linear};
pub use norm::{add_layer_norm, l2_normalize, layer_norm, mean_pool};
pub use pool::{Pool, PoolError};
