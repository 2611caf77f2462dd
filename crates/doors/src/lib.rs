//! The doors: how other programs ask the library. [`serve`] is an HTTP API in the shapes that existing clients speak,
//! [`mcp`] the Model Context Protocol over a pipe; both ask one resident engine, so that models are in memory once.
//!
//! Who may come in is decided in `guard` and nowhere else: a token, exact lists of hosts and origins; limits of size
//! and time stand beside what they limit. What may go out is decided by `riddle-rag`, which is asked *outward* unless a
//! person has said that marked folders may be given, too. Text of files is handed on as data, with what looks like an
//! instruction named (`frame`). Clients name passages by number; no path comes in. A
//! program with a name of its own sees what the person lets it see ([`clients`]), and what was asked is written down
//! ([`journal`]). The person's own programs come by a way of their own ([`own`]).
//!
//! Neighbors: `riddle-rag` finds, reranks and answers; `riddle-cli` starts it all. Deliberately absent: TLS (a proxy's
//! work), CORS, anything that writes to the library, and any decision about ranking. This crate alone is asynchronous,
//! because a server waits for many clients; what computes runs on threads of its own.

#[cfg(test)]
mod any_json;
mod batch;
mod cancel;
pub mod clients;
mod connect;
mod error;
mod frame;
mod guard;
mod http;
pub mod install;
pub mod journal;
mod may;
mod mcp;
mod message;
pub mod own;
mod private;
#[cfg(any(test, feature = "fuzzing"))]
pub mod reading;
mod resident;
pub mod sentences;
mod token;
mod tools;
mod who;
mod words;

pub use error::{Error, Result};
pub use http::{ServeOptions, Started, serve, serve_lent};
pub use mcp::{McpOptions, stdio as mcp};
pub use resident::Lender;
