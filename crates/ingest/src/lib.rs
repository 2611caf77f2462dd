//! Bytes to text to chunks.
//!
//! A file is untrusted: [`ParserPool`] parses it in a child process with limits of time and memory, and a
//! crash, a hang or an explosion is an outcome with a reason, never the end of the program. The child is
//! the same program, started with an argument, that calls [`worker_main`]. What comes back is a
//! [`Document`](riddle_types::Document): blocks with their places in the file; [`chunk`] cuts it into
//! passages by structure and tokens. [`kind_of`] tells formats apart, [`Access`] who may read a file.
//!
//! Not here: finding files, hashing, storing, embedding. The child opens no files: it gets bytes.

mod access;
mod chunk;
mod code;
mod formats;
mod kind;
mod language;
mod layout;
mod limits;
mod look;
mod notes;
mod office;
mod outcome;
mod pages;
mod pdf;
mod pdfium;
mod pool;
mod protocol;
mod remark;
mod sheet;
mod shown;
mod table;
mod text;
mod tiff;
mod tools;
mod worker;

pub use access::Access;
pub use chunk::{ChunkOptions, MOST_LATE, MOST_OF_TABLES, chunk};
pub use kind::{kind_of, may_be_history};
pub use outcome::{ParseOutcome, SeenLine};
pub use pool::{Limits, ParserPool, Reading, Seen, WorkerCommand};
pub use remark::Remark;
pub use riddle_ocr::find_tesseract;
pub use tools::Tools;
pub use worker::worker_main;
