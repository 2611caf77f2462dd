//! A library that lives in Milvus: many read it, and each of those who write it writes its own files.
//!
//! [`Store`] is one library on one server: four collections (passages, files, rules, what the library says of itself),
//! searched leg by leg ([`Store::nearest`], [`Store::by_words`], [`Store::by_terms`]) and read by identity
//! ([`Store::passages`]). How the legs are merged is not Milvus' business here: the same fusion and the same reranker
//! see them as see those of the home. [`Push`] makes the library equal to what a home has: file by file, repeatable,
//! and taken up again after it was cut off.
//!
//! The protocol is Milvus' gRPC API, of which a dozen calls are needed; their messages are written out in `proto`, so
//! nothing is generated in a build. Calls block: the asynchronous part stays inside.
//!
//! A passage carries the key of the rule by which it may be read ([`Push::rule`]); whoever searches for somebody says
//! which of the rules let that one read ([`Within`]), and looks once more at what comes back.
//!
//! [`Workload`] says what a library of some size needs.
//!
//! Deliberately absent: who is who, analyzing text, embedding, merging lists.

mod about;
mod address;
mod codec;
mod error;
mod fields;
mod filter;
mod making;
mod proto;
mod push;
mod rows;
mod rpc;
mod rules;
mod schema;
mod sizing;
mod store;
mod tokens;

pub use about::{About, SCHEMA, Share};
pub use address::{Address, Secret};
pub use error::{Error, Result};
pub use filter::Within;
pub use push::{Push, Pushed, Whole, Writer};
pub use rows::{FileRow, Passage, folder_keys};
pub use rpc::Options;
pub use sizing::{HomeSizing, ServerSizing, Sizing, Workload};
pub use store::{Scored, Store};
