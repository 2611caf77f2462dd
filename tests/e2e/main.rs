//! End-to-end tests, one module per promise.

mod bad_input;
mod bench;
mod calibrate;
mod claims;
mod contract;
mod crash;
mod deadline;
mod doors;
mod eval;
mod find;
mod follow;
mod formats;
mod guide;
mod kept;
mod keys;
mod library;
mod llama;
mod local;
mod models;
mod package;
mod questions;
mod remote;
mod rerank;
mod scans;
mod shape;
mod training;
