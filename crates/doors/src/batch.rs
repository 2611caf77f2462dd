//! Reranks that wait at the same time are computed in one forward: more rows for every product, every layer read once.
//! In mode off scores depend on nothing but model and texts, so nobody can tell.

use std::{
    ops::ControlFlow,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use riddle_rag::Assistant;
use riddle_types::{LayerEvent, LayerObserver};

use crate::{
    cancel::Cancel,
    error::{Error, Result},
    resident::{Lane, Resident},
    tools::{Document, Prepared, RerankArgs, Reranked, prepare, rerank_all},
};

/// Most texts of one forward: a small request waits for no large one, and its share of the memory stays small.
const MOST_TEXTS: usize = 128;

/// What is told when it is done: the order, and the texts for whoever wants them back.
type Reply = Box<dyn FnOnce(Result<(Reranked, Vec<Document>)>) + Send>;

/// Requests that wait for their turn.
#[derive(Default)]
pub(crate) struct Batch {
    waiting: Mutex<Vec<Waiting>>,
    next: AtomicU64,
    together: AtomicU64,
}

struct Waiting {
    number: u64,
    args: RerankArgs,
    cancel: Cancel,
    reply: Reply,
}

/// Stops when nobody waits any more.
struct AnyWaits(Vec<Cancel>);

impl LayerObserver for AnyWaits {
    fn on_layer(&mut self, _: &LayerEvent) -> ControlFlow<()> {
        if self.0.iter().all(Cancel::is_cancelled) {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}

impl Batch {
    /// Ranks texts, together with those of others that wait when their turn comes.
    pub(crate) fn rank(
        self: &Arc<Self>,
        resident: &Resident,
        client: &str,
        args: RerankArgs,
        cancel: Cancel,
        reply: impl FnOnce(Result<(Reranked, Vec<Document>)>) + Send + 'static,
    ) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let waiting = Waiting { number, args, cancel: cancel.clone(), reply: Box::new(reply) };
        self.lock().push(waiting);
        let (batch, twin) = (Arc::clone(self), Arc::clone(self));
        let work = move |assistant: &Assistant, _: &Cancel| {
            batch.serve(number, assistant);
            Ok(())
        };
        resident.submit(Lane::Models, client, cancel, work, move |done: Result<()>| {
            // Refused, or not begun because the client has gone.
            let (Err(error), Some(waiting)) = (done, twin.take(number)) else { return };
            (waiting.reply)(Err(error));
        });
    }

    /// Forgets who waits: the program ends, and they are told so.
    pub(crate) fn clear(&self) {
        let dropped = std::mem::take(&mut *self.lock());
        drop(dropped);
    }

    /// Reranks that shared their forward with others so far.
    pub(crate) fn together(&self) -> u64 {
        self.together.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, number: u64) -> Option<Waiting> {
        let mut waiting = self.lock();
        let place = waiting.iter().position(|it| it.number == number)?;
        Some(waiting.remove(place))
    }

    /// The request whose turn it is with others that fit to it, oldest first; none when it was served with another.
    fn company(&self, number: u64) -> Vec<Waiting> {
        let Some(own) = self.take(number) else { return Vec::new() };
        let (mut texts, model) = (own.args.documents.len(), own.args.model.clone());
        // Memory, pruning and a deadline are a request's own.
        let plain = own.args.extras.is_none();
        let mut company = vec![own];
        let mut waiting = self.lock();
        let mut place = 0;
        while place < waiting.len() {
            let it = &waiting[place];
            let small = texts + it.args.documents.len() <= MOST_TEXTS;
            let fits = plain && it.args.extras.is_none() && it.args.model == model && small;
            if fits && !it.cancel.is_cancelled() {
                texts += it.args.documents.len();
                company.push(waiting.remove(place));
            } else {
                place += 1;
            }
        }
        company
    }

    fn serve(&self, number: u64, assistant: &Assistant) {
        let mut ready: Vec<Waiting> = Vec::new();
        let mut prepared: Vec<Prepared> = Vec::new();
        for it in self.company(number) {
            match prepare(assistant, &it.args) {
                Ok(request) => {
                    prepared.push(request);
                    ready.push(it);
                }
                Err(error) => (it.reply)(Err(error)),
            }
        }
        if ready.len() > 1 {
            self.together.fetch_add(ready.len() as u64, Ordering::Relaxed);
        }
        let done = match &ready[..] {
            // Alone it can be stopped inside a layer.
            [only] => rerank_all(assistant, &prepared, &mut only.cancel.clone()),
            all => {
                let mut watch = AnyWaits(all.iter().map(|it| it.cancel.clone()).collect());
                rerank_all(assistant, &prepared, &mut watch)
            }
        };
        for (waiting, done) in ready.into_iter().zip(done) {
            let Waiting { args, cancel, reply, .. } = waiting;
            let done = if cancel.is_cancelled() { Err(Error::Stopped) } else { done };
            reply(done.map(|it| (it, args.documents)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(number: u64, texts: usize, model: Option<&str>) -> Waiting {
        let args = RerankArgs {
            documents: vec![Document::Text("x".to_owned()); texts],
            model: model.map(str::to_owned),
            ..RerankArgs::default()
        };
        Waiting { number, args, cancel: Cancel::default(), reply: Box::new(|_| {}) }
    }

    #[test]
    fn company_is_of_one_model_small_and_still_there() {
        let batch = Batch::default();
        let gone = waiting(2, 1, None);
        gone.cancel.cancel();
        *batch.lock() = vec![
            waiting(0, 10, None),
            waiting(1, 10, Some("other")),
            gone,
            waiting(3, MOST_TEXTS - 20, None),
            waiting(4, 11, None),
            waiting(5, 10, None),
        ];
        let numbers = |of: Vec<Waiting>| of.iter().map(|it| it.number).collect::<Vec<_>>();
        assert_eq!(numbers(batch.company(0)), [0, 3, 5]);
        assert_eq!(numbers(batch.company(5)), [0; 0], "served already");
        assert_eq!(numbers(batch.company(4)), [4]);
        assert_eq!(batch.lock().len(), 2);
        let with_extras = |number: u64| {
            let mut waiting = waiting(number, 1, None);
            waiting.args.extras.trace = true;
            waiting
        };
        *batch.lock() =
            vec![with_extras(6), waiting(7, 1, None), with_extras(8), waiting(9, 1, None)];
        assert_eq!(numbers(batch.company(6)), [6], "extras are nobody else's");
        assert_eq!(numbers(batch.company(7)), [7, 9]);
    }
}
