//! Files in an object store that speaks the S3 API: MinIO, Ceph, Garage, SeaweedFS, AWS and others.
//!
//! [`Place`] says where: server, bucket, and what the names of all objects begin with. [`Objects`] keeps a file there,
//! lists what is there, fetches and deletes. Calls block; what fails on the way is tried again, a refusal is not.
//!
//! Requests are signed by `rusty-s3` (AWS Signature Version 4, in the query) and sent by the client that models are
//! fetched with: the same proxies, the same certificates. No message and no log holds a signed address, because whoever
//! has one has the object.
//!
//! Deliberately absent: buckets are not made, rights are not set, and nothing is sent in parts, so 5 GiB is the
//! largest file.

mod error;
mod place;
mod store;

pub use error::{Error, Result};
pub use place::{Key, Place};
pub use store::{LARGEST, Object, Objects, Options};
