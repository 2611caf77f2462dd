//! End-to-end tests, one module per promise.

mod bad_input;
mod bench;
mod calibrate;
mod contract;
mod crash;
mod eval;
mod follow;
mod library;
mod models;
mod remote;
mod rerank;
mod training;
