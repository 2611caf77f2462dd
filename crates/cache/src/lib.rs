//! What a prompt's beginning left behind, kept for the next prompt that begins so.
//!
//! A [`Store`] is a tree of files. A node is one segment of a prompt behind the segments before it: its tokens, and
//! for each layer the bytes that the engine wants back. It is found by [`Key`], a hash over everything that its bytes
//! depend on: the root's key over the model and how it is computed, a node's over its parent's key and its tokens.
//! What has another key can not be mistaken for it, so nothing here is ever stale; the tokens are compared all the
//! same, and the bytes have a checksum.
//!
//! A [`Visit`] is one prompt's dealings with it: find, load, save. Files are written beside and renamed, readable by
//! their owner alone, for keys and values of a text are as secret as the text. Each says which chunks it was made of,
//! and [`Store::purge`] deletes all that were made of some. Within its [`Limit`] the store forgets what is seldom
//! used, never a node before those behind it.
//!
//! Not here: what the bytes mean, where a prompt is cut, which chunks are gone.

mod error;
mod key;
mod limit;
mod node;
mod store;
mod tree;
mod visit;

pub use error::{Error, Result};
pub use key::Key;
pub use limit::{DEFAULT_LIMIT, Limit};
pub use store::{Freed, RootStatus, Status, Store};
pub use visit::{Saved, Visit};
