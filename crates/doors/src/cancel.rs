//! A client that goes away stops its work.

use std::{
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use riddle_types::{LayerEvent, LayerObserver};

/// The flag of one request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cancel(Arc<AtomicBool>);

impl Cancel {
    pub(crate) fn cancel(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// Cancels when it is dropped, unless it was defused.
    pub(crate) fn on_drop(&self) -> CancelOnDrop {
        CancelOnDrop(Some(self.clone()))
    }

    pub(crate) fn flow(&self) -> ControlFlow<()> {
        if self.is_cancelled() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Stops the reranker at the next layer, or within it.
impl LayerObserver for Cancel {
    fn on_layer(&mut self, _: &LayerEvent) -> ControlFlow<()> {
        self.flow()
    }

    fn stop_flag(&self) -> Option<Arc<AtomicBool>> {
        Some(Arc::clone(&self.0))
    }
}

/// Dropped with the request that it belongs to.
#[derive(Debug)]
pub(crate) struct CancelOnDrop(Option<Cancel>);

impl CancelOnDrop {
    pub(crate) fn defuse(mut self) {
        self.0 = None;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let Some(cancel) = &self.0 {
            cancel.cancel();
        }
    }
}

#[test]
fn who_goes_away_stops_its_work() {
    let cancel = Cancel::default();
    cancel.on_drop().defuse();
    assert!(cancel.flow().is_continue());
    drop(cancel.on_drop());
    assert!(cancel.flow().is_break());
}
