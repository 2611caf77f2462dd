//! Pictures of text to lines of text.
//!
//! [`Ocr`] holds two small networks (PP-OCR) on ONNX Runtime: one says for every point of a [`Picture`] whether text is
//! there, one what a line says. What lies between them is here: boxes around text (DB: Liao et al., *Real-time Scene
//! Text Detection with Differentiable Binarization*, section 3.3), their straightened cuttings, letters of the second
//! network's columns (CTC, greedy), and the order of reading. A page that lies on its side is turned first; one that is
//! read badly is tried upside down.
//!
//! Not here: where pictures come from, limits of time, what becomes of the text. Both the library and the models are
//! given by path; nothing is looked for and nothing is fetched.

mod boxes;
mod error;
mod letters;
mod model;
mod order;
mod picture;
mod read;
mod tesseract;

pub use error::{Error, Result};
pub use order::reading_order;
pub use picture::{MOST_POINTS, Picture};
pub use read::{Line, Ocr, Read};
pub use tesseract::{Tesseract, find_tesseract};
