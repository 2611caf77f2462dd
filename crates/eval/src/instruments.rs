//! The caller's side of an evaluation: who shows progress, who measures the stages, and how it is stopped.

use std::{
    collections::BTreeMap,
    ops::ControlFlow,
    sync::atomic::{AtomicBool, Ordering},
};

use riddle_rag::indexing::IndexEvent;
use riddle_types::{LayerEvent, LayerObserver};

use crate::{Error, Result};

/// What is being done, for progress displays.
#[derive(Debug, Clone, PartialEq)]
pub enum EvalEvent<'a> {
    /// One of several datasets begins.
    Set {
        /// Its name.
        name: &'a str,
        /// Which one, from 1.
        number: usize,
        /// Datasets in all.
        total: usize,
    },
    /// The dataset is being read.
    Loading,
    /// The corpus is being indexed.
    Indexing(IndexEvent<'a>),
    /// A query has been asked.
    Queries {
        /// Queries done.
        done: usize,
        /// Queries in all.
        total: usize,
    },
}

/// Who shows progress, and who measures the stages.
pub trait Instruments {
    /// Something happened.
    fn event(&mut self, event: EvalEvent<'_>);

    /// Milliseconds per stage since the last call, by the stages' span names.
    fn take_stage_times(&mut self) -> BTreeMap<&'static str, f64>;
}

/// Stops the reranker between two layers.
pub(crate) struct StopFlag<'a>(pub(crate) &'a AtomicBool);

impl LayerObserver for StopFlag<'_> {
    fn on_layer(&mut self, _event: &LayerEvent) -> ControlFlow<()> {
        if self.0.load(Ordering::Relaxed) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

/// [`Error::Stopped`] once the caller wants no more.
pub(crate) fn stopped(stop: &AtomicBool) -> Result<()> {
    if stop.load(Ordering::Relaxed) { Err(Error::Stopped) } else { Ok(()) }
}
