//! Stage timings: a `tracing` layer that sums the wall time of each stage's spans.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use tracing::{Subscriber, span};
use tracing_subscriber::{
    Layer,
    layer::{Context, SubscriberExt as _},
    registry::LookupSpan,
};

/// Target of the spans that count as stages; others pass unseen.
pub const STAGE_TARGET: &str = "riddle::stage";

/// Target of the spans around the operations of a forward pass (`qkv`, `attention`, …).
pub const OPERATION_TARGET: &str = "riddle::operation";

/// Shared sums of stage times; cheap to clone, all clones see the same figures.
#[derive(Debug, Clone, Default)]
pub struct StageTimings(Arc<Mutex<BTreeMap<&'static str, f64>>>);

impl StageTimings {
    /// Milliseconds per stage since the last [`take`](Self::take), by stage name.
    pub fn snapshot(&self) -> BTreeMap<&'static str, f64> {
        self.lock().clone()
    }

    /// As [`snapshot`](Self::snapshot), and starts again from nothing: one request, one reading.
    pub fn take(&self) -> BTreeMap<&'static str, f64> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, f64>> {
        // A poisoned map still holds valid sums: adding a number can not leave it half-done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The layer to install in the program's subscriber.
#[derive(Debug)]
pub struct StageLayer {
    target: &'static str,
    timings: StageTimings,
}

impl StageLayer {
    /// A layer and the handle to read its figures.
    pub fn new() -> (Self, StageTimings) {
        StageLayer::of(STAGE_TARGET)
    }

    /// A layer that listens to another target, and the handle to read its figures.
    pub fn of(target: &'static str) -> (Self, StageTimings) {
        let timings = StageTimings::default();
        (StageLayer { target, timings: timings.clone() }, timings)
    }
}

/// Listens to the operations of every forward pass of this process from now on; where somebody listens
/// already, the figures stay empty.
pub fn operations() -> StageTimings {
    let (layer, timings) = StageLayer::of(OPERATION_TARGET);
    let registry = tracing_subscriber::registry().with(layer);
    if tracing::subscriber::set_global_default(registry).is_err() {
        tracing::debug!("another subscriber is installed: operations are not timed");
    }
    timings
}

/// When a stage's span was opened: time is wall time from opening to closing, waiting included,
/// because that is what the user waited.
struct OpenedAt(Instant);

impl<S> Layer<S> for StageLayer
where
    S: Subscriber + for<'lookup> LookupSpan<'lookup>,
{
    fn on_new_span(&self, attrs: &span::Attributes<'_>, id: &span::Id, ctx: Context<'_, S>) {
        if attrs.metadata().target() != self.target {
            return;
        }
        if let Some(span) = ctx.span(id) {
            span.extensions_mut().insert(OpenedAt(Instant::now()));
        }
    }

    fn on_close(&self, id: span::Id, ctx: Context<'_, S>) {
        let Some(span) = ctx.span(&id) else { return };
        let Some(opened) = span.extensions().get::<OpenedAt>().map(|it| it.0) else { return };
        let ms = opened.elapsed().as_secs_f64() * 1e3;
        *self.timings.lock().entry(span.metadata().name()).or_default() += ms;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_stage_spans_and_ignores_others() {
        let (layer, timings) = StageLayer::new();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            for _ in 0..2 {
                let _stage = tracing::info_span!(target: STAGE_TARGET, "bm25").entered();
            }
            let _other = tracing::info_span!("unrelated").entered();
            let _operation = tracing::info_span!(target: OPERATION_TARGET, "qkv").entered();
        });
        let taken = timings.take();
        assert_eq!(taken.keys().copied().collect::<Vec<_>>(), ["bm25"]);
        assert!(taken["bm25"] >= 0.0);
        assert!(timings.snapshot().is_empty(), "take starts again from nothing");
    }

    #[test]
    fn a_span_closed_on_another_thread_counts() {
        let (layer, timings) = StageLayer::new();
        let subscriber = Arc::new(tracing_subscriber::registry().with(layer));
        let span = tracing::subscriber::with_default(
            subscriber.clone(),
            || tracing::info_span!(target: STAGE_TARGET, "embed"),
        );
        std::thread::spawn(move || drop(span)).join().expect("thread ends");
        assert!(timings.snapshot().contains_key("embed"));
    }
}
