//! What of the package is Rust: a reranker that is opened, asked and watched for Ctrl-C. `python/riddle_rerank` makes
//! of it what people use. The interpreter's lock is not held while anything is read or computed.

use std::{ops::ControlFlow, path::PathBuf};

use pyo3::{
    create_exception,
    exceptions::{PyException, PyFileNotFoundError, PyMemoryError, PyRuntimeError, PyValueError},
    prelude::*,
    types::PyBytes,
};
use riddle_rerank::{Error, Mode, Options, Place, Reranker, parse_size};
use riddle_types::{LayerEvent, LayerObserver};

create_exception!(_native, Stopped, PyException, "The run was stopped.");

/// Ctrl-C is looked for after every layer.
#[derive(Default)]
struct Watch(Option<PyErr>);

impl LayerObserver for Watch {
    fn on_layer(&mut self, _: &LayerEvent) -> ControlFlow<()> {
        match Python::attach(|py| py.check_signals()) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.0 = Some(error);
                ControlFlow::Break(())
            }
        }
    }
}

/// An error as Python's own kind of it.
fn raised(error: &Error) -> PyErr {
    let words = error.to_string();
    if error.is_no_model() {
        PyFileNotFoundError::new_err(words)
    } else if error.is_out_of_budget() {
        PyMemoryError::new_err(words)
    } else if error.is_bad_request() {
        PyValueError::new_err(words)
    } else if error.is_stopped() {
        Stopped::new_err(words)
    } else {
        PyRuntimeError::new_err(words)
    }
}

/// An open reranker.
#[pyclass(frozen, module = "riddle_rerank._native")]
struct Native {
    reranker: Reranker,
    /// Its threads are in the process that has opened it, and in no child.
    process: u32,
}

impl Native {
    /// Asks it without the interpreter's lock.
    fn asked<T: Send>(
        &self,
        py: Python<'_>,
        ask: impl FnOnce(&Reranker, &mut Watch) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        if std::process::id() != self.process {
            return Err(PyRuntimeError::new_err(
                "the reranker was opened in another process, before a fork: open it in this one",
            ));
        }
        let mut watch = Watch::default();
        let done = py.detach(|| ask(&self.reranker, &mut watch));
        match (done, watch.0) {
            (Err(_), Some(signal)) => Err(signal),
            (done, _) => done.map_err(|it| raised(&it)),
        }
    }
}

#[pymethods]
impl Native {
    // What Python passes by keyword stands here one by one.
    #[expect(clippy::too_many_arguments)]
    #[new]
    #[pyo3(signature = (*, model, models_dir, cache_dir, memory_budget, mode, precision, error_probability, calibration, threads, max_tokens, instruction))]
    fn new(
        py: Python<'_>,
        model: Option<String>,
        models_dir: Option<PathBuf>,
        cache_dir: Option<PathBuf>,
        memory_budget: Option<u64>,
        mode: Option<String>,
        precision: Option<f64>,
        error_probability: Option<f64>,
        calibration: Option<PathBuf>,
        threads: Option<usize>,
        max_tokens: Option<usize>,
        instruction: Option<String>,
    ) -> PyResult<Native> {
        let mode = mode.map(|it| it.parse::<Mode>()).transpose().map_err(PyValueError::new_err)?;
        let options = Options {
            model,
            models_dir,
            cache_dir,
            memory_budget,
            mode,
            precision,
            error_probability,
            calibration,
            threads,
            max_tokens,
            instruction,
        };
        let reranker = py.detach(|| Reranker::open(&options)).map_err(|it| raised(&it))?;
        Ok(Native { reranker, process: std::process::id() })
    }

    /// The best, best first, as (index, score, logit), and why nothing was left out where that was asked for.
    fn rank(
        &self,
        py: Python<'_>,
        query: String,
        documents: Vec<String>,
        top_k: Option<usize>,
    ) -> PyResult<(Vec<(usize, f32, f32)>, Option<String>)> {
        self.asked(py, |reranker, watch| {
            let texts: Vec<&str> = documents.iter().map(String::as_str).collect();
            let ranking = reranker.rank_watched(&query, &texts, top_k, watch)?;
            let places = ranking.results.iter().map(|it| (it.index, it.score, it.raw_score));
            Ok((places.collect(), ranking.note))
        })
    }

    /// The scores of pairs as little-endian f32.
    fn scores<'py>(
        &self,
        py: Python<'py>,
        pairs: Vec<(String, String)>,
        raw: bool,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let scores = self.asked(py, |reranker, watch| {
            let pairs: Vec<(&str, &str)> =
                pairs.iter().map(|it| (it.0.as_str(), it.1.as_str())).collect();
            reranker.scores_watched(&pairs, watch)
        })?;
        let number = |it: &Place| if raw { it.raw_score } else { it.score }.to_le_bytes();
        let bytes: Vec<u8> = scores.iter().flat_map(number).collect();
        Ok(PyBytes::new(py, &bytes))
    }

    /// Name or folder of the model.
    #[getter]
    fn model(&self) -> &str {
        self.reranker.model()
    }

    /// Layers of the model.
    #[getter]
    fn num_layers(&self) -> u32 {
        self.reranker.num_layers()
    }

    /// Bytes of weights in memory as of the last layer that ran.
    #[getter]
    fn resident_weight_bytes(&self) -> u64 {
        self.reranker.resident_weight_bytes()
    }
}

/// Bytes of a size as people write it.
#[pyfunction]
fn size(text: &str) -> PyResult<u64> {
    parse_size(text).ok_or_else(|| {
        PyValueError::new_err(format!("{text:?} is no size such as 250MiB or 1.5GB"))
    })
}

/// The module.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("Stopped", module.py().get_type::<Stopped>())?;
    module.add_function(wrap_pyfunction!(size, module)?)?;
    module.add_class::<Native>()
}
