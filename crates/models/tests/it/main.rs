//! The store against servers that drop, lie and stall, and against folders that do.

mod hub;
mod pull;
mod server;
mod sources;
mod store;
