//! What can go wrong with an embedder.

use std::path::PathBuf;

use riddle_types::{Advice, Advised};

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Errors of embedders; each says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The built-in encoder's model.
    #[error(transparent)]
    Model(#[from] riddle_transformer::Error),
    /// A configuration file.
    #[error(transparent)]
    Weights(#[from] riddle_weights::Error),
    /// Weights can not be read during a run.
    #[error(transparent)]
    Offload(#[from] riddle_offload::Error),
    /// The threads can not be started.
    #[error(transparent)]
    Pool(#[from] riddle_kernels::PoolError),
    /// A vector has not so many numbers.
    #[error("{}: vectors of {kept} numbers are wanted, and the model gives {outputs}: choose 1 to {outputs}", dir.display())]
    Dimensions {
        /// The model directory.
        dir: PathBuf,
        /// What is wanted.
        kept: usize,
        /// What there is.
        outputs: usize,
    },
    /// The memory budget can not hold the embedder, however it is planned.
    #[error("a memory budget of {} MiB can not hold this embedder: it needs at least {} MiB", budget >> 20, smallest.div_ceil(1 << 20))]
    BudgetTooSmall {
        /// Bytes allowed.
        budget: u64,
        /// Bytes of the smallest budget that holds.
        smallest: u64,
    },
    /// A kernel panicked.
    #[error("the computation failed ({0}): this is a bug, and the embedder can be used again")]
    Panicked(String),
    /// A vector came out that is not a vector.
    #[error("the embedding is not a number: the model's weights are damaged, fetch it again")]
    NotFinite,
    /// ONNX Runtime is not installed.
    #[error("ONNX Runtime was not found ({looked})")]
    NoOnnxRuntime {
        /// Where was looked.
        looked: String,
    },
    /// ONNX Runtime or fastembed.
    #[error("{}: {why}", dir.display())]
    Onnx {
        /// The model directory.
        dir: PathBuf,
        /// What they said.
        why: String,
    },
}

impl Error {
    /// Whether the model may be a good one that the built-in encoder does not compute, as opposed to a
    /// damaged one.
    pub(crate) fn is_unsupported(&self) -> bool {
        use riddle_transformer::Error as Model;
        use riddle_weights::Error as Weights;
        matches!(
            self,
            Error::Model(
                Model::Module { .. }
                    | Model::UnknownFamily { .. }
                    | Model::Weights(Weights::BadConfig { .. } | Weights::NoWeights { .. })
            )
        )
    }
}

impl Advised for Error {
    fn advice(&self) -> Option<Advice> {
        match self {
            Error::Model(error) => error.advice(),
            Error::Weights(error) => error.advice(),
            Error::Offload(error) => error.advice(),
            Error::NoOnnxRuntime { .. } => Some(Advice::InstallOnnxRuntime),
            _ => None,
        }
    }
}
