//! Libraries and models that the child may use beside its own parsers.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Where they lie; what is not installed is not used. Whoever fills this in has installed them: they are believed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tools {
    /// The library of the second engine for PDFs.
    pub pdfium: Option<PathBuf>,
    /// The library that the models run on.
    pub onnx_runtime: Option<PathBuf>,
    /// The folder of the models that read pictures.
    pub ocr: Option<PathBuf>,
    /// The program that reads letters which those have not learned.
    pub tesseract: Option<PathBuf>,
}

impl Tools {
    /// Names of those that are there.
    pub fn names(&self) -> Vec<&'static str> {
        let all = [
            ("pdfium", self.pdfium.is_some()),
            ("ocr", self.reads_pictures()),
            ("tesseract", self.reads_pictures() && self.tesseract.is_some()),
        ];
        all.into_iter().filter(|it| it.1).map(|it| it.0).collect()
    }

    /// Whether pictures can be read; pages of PDFs that are pictures need the first library as well.
    pub fn reads_pictures(&self) -> bool {
        self.ocr.is_some() && self.onnx_runtime.is_some()
    }
}
