//! What can go wrong in the engine.

use riddle_types::{Advice, Advised, Prior};

/// Result of the engine.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Errors of the engine; each says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The model can not be opened.
    #[error(transparent)]
    Model(#[from] riddle_transformer::Error),
    /// Weights can not be read during a run.
    #[error(transparent)]
    Offload(#[from] riddle_offload::Error),
    /// The threads can not be started.
    #[error(transparent)]
    Pool(#[from] riddle_kernels::PoolError),
    /// An option makes no sense.
    #[error("{0}")]
    BadOption(String),
    /// The memory budget can not hold the request, however it is planned.
    #[error("a memory budget of {} MiB can not hold this request: it needs at least {} MiB (fewer candidates or shorter pairs need less)", budget >> 20, smallest.div_ceil(1 << 20))]
    BudgetTooSmall {
        /// Bytes allowed.
        budget: u64,
        /// Bytes of the smallest budget that holds.
        smallest: u64,
    },
    /// There is nothing to compare the candidates with.
    #[error("the query is empty: say what the candidates should be ranked by")]
    EmptyQuery,
    /// The observer stopped the run.
    #[error("the run was stopped after layer {layer}")]
    Cancelled {
        /// Last layer that ran, from 1.
        layer: u32,
    },
    /// A score is not a number.
    #[error(
        "the scores after layer {layer} are not numbers: the model's weights are damaged, fetch it again"
    )]
    NotFinite {
        /// The layer, from 1.
        layer: u32,
    },
    /// A trace is not what a full forward leaves.
    #[error(
        "the trace can not be replayed: {0}; record a whole run with mode off and scores after every layer"
    )]
    NotReplayable(String),
    /// A kernel, policy or observer panicked; nothing of the run is left.
    #[error("the computation failed ({0}): this is a bug, and the engine can be used again")]
    Panicked(String),
}

impl Error {
    /// Refuses a prior that is not of these candidates.
    pub(crate) fn check_prior(prior: Prior<'_>, candidates: usize) -> Result<()> {
        if prior.is_for(candidates) {
            return Ok(());
        }
        Err(Error::BadOption(format!(
            "a prior of {} numbers for {candidates} candidates: one finite number for each is needed",
            prior.last.len()
        )))
    }
}

impl Advised for Error {
    fn advice(&self) -> Option<Advice> {
        match self {
            Error::Model(error) => error.advice(),
            Error::Offload(error) => error.advice(),
            _ => None,
        }
    }
}
