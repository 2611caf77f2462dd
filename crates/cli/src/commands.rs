//! One module per command.

pub(crate) mod ask;
pub(crate) mod bench;
pub(crate) mod bench_deadline;
pub(crate) mod bench_generate;
pub(crate) mod bench_prefix;
pub(crate) mod bench_worker;
pub(crate) mod cache;
pub(crate) mod calibrate;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod compress;
pub(crate) mod eval;
pub(crate) mod folders;
pub(crate) mod index;
pub(crate) mod kept;
pub(crate) mod llm;
pub(crate) mod mcp;
pub(crate) mod models;
pub(crate) mod parse_worker;
pub(crate) mod prefixes;
pub(crate) mod replay;
pub(crate) mod rerank;
pub(crate) mod search;
pub(crate) mod serve;
pub(crate) mod status;
pub(crate) mod toggle;
