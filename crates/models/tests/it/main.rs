//! The store against servers that drop, lie and stall, and against folders that do.

mod gated;
mod hub;
mod modelscope;
mod plan;
mod pull;
mod server;
mod sources;
mod store;
