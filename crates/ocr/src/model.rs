//! ONNX Runtime, loaded by path, and a network on it.

use std::{
    panic::catch_unwind,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use ort::{environment::Environment, ep, session::Session, value::Tensor};

use crate::{Error, Result};

/// Loads ONNX Runtime once per process. `ort` itself would panic at the first call if the library were missing or too
/// old; here both are errors.
pub(crate) fn load_runtime(library: &Path) -> Result<Environment> {
    static LOADED: OnceLock<std::result::Result<Environment, String>> = OnceLock::new();
    let start = || {
        let builder = ort::init_from(library).map_err(|error| error.to_string())?;
        builder.build().map_err(|error| error.to_string())
    };
    let load = || {
        catch_unwind(start).unwrap_or_else(|_| Err("it is not a usable ONNX Runtime".to_owned()))
    };
    LOADED
        .get_or_init(load)
        .clone()
        .map_err(|why| Error::Runtime { path: library.to_path_buf(), why })
}

/// A network with one input and one output.
pub(crate) struct Model {
    path: PathBuf,
    session: Session,
}

impl Model {
    pub(crate) fn open(path: PathBuf, environment: &Environment, threads: usize) -> Result<Model> {
        let fail = |why: String| Error::Model { path: path.clone(), why };
        // The arena keeps the memory of the largest page that there ever was.
        let providers = [ep::CPU::default().with_arena_allocator(false).build()];
        let session = Session::builder(environment)
            .map_err(|error| fail(error.to_string()))?
            .with_intra_threads(threads)
            .map_err(|error| fail(error.to_string()))?
            // Threads that spin while they wait take the processor from everybody else.
            .with_intra_op_spinning(false)
            .map_err(|error| fail(error.to_string()))?
            .with_memory_pattern(false)
            .map_err(|error| fail(error.to_string()))?
            .with_execution_providers(providers)
            .map_err(|error| fail(error.to_string()))?
            .commit_from_file(&path)
            .map_err(|error| fail(error.to_string()))?;
        Ok(Model { path, session })
    }

    pub(crate) fn error(&self, why: impl Into<String>) -> Error {
        Error::Model { path: self.path.clone(), why: why.into() }
    }

    /// A text that the file carries beside its weights.
    pub(crate) fn note(&self, key: &str) -> Option<String> {
        self.session.metadata().ok()?.custom(key)
    }

    /// Computes; gives the shape and the numbers of the output to `then`.
    pub(crate) fn run<T>(
        &mut self,
        shape: [usize; 4],
        input: Vec<f32>,
        then: impl FnOnce(&[usize], &[f32]) -> T,
    ) -> Result<T> {
        let path = self.path.clone();
        let fail = |error: ort::Error| Error::Model { path: path.clone(), why: error.to_string() };
        let input = Tensor::from_array((shape, input)).map_err(fail)?;
        let outputs = self.session.run(ort::inputs![input]).map_err(fail)?;
        let (shape, values) = outputs[0].try_extract_tensor::<f32>().map_err(fail)?;
        let shape: Vec<usize> = shape.iter().map(|it| usize::try_from(*it).unwrap_or(0)).collect();
        Ok(then(&shape, values))
    }
}
