//! Where the libraries and models lie that read files.

use std::path::PathBuf;

use riddle_ingest::{Tools, find_tesseract};
use riddle_models::{OCR, ONNX_RUNTIME, PDFIUM, known};

use super::config::Config;

/// What is installed of them.
pub(crate) fn tools(config: &Config) -> Tools {
    let Ok(store) = config.model_store() else { return Tools::default() };
    let file = |name: &str| -> Option<PathBuf> {
        let file = known(name)?.files.first()?;
        Some(store.find(name)?.dir.join(file)).filter(|it| it.is_file())
    };
    let ocr = file(OCR).and_then(|it| Some(it.parent()?.to_path_buf()));
    // Looked for only where it is of use: it is the one library that may also be the system's.
    let onnx_runtime = ocr
        .as_ref()
        .and_then(|_| file(ONNX_RUNTIME).or_else(riddle_embedding::onnx_runtime_library));
    let tesseract = ocr.as_ref().and_then(|_| find_tesseract(std::env::var_os("PATH").as_deref()));
    Tools { pdfium: file(PDFIUM), onnx_runtime, ocr, tesseract }
}
