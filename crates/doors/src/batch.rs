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
    resident::{Job, Lane, Opens, Resident},
    tools::{Document, Prepared, RerankArgs, Reranked, prepare, rerank_all},
};

/// Most texts of one forward. What is shared is what a forward costs however little it computes: a third of a request
/// with one text, and nothing of one with sixteen, whose rows fill the products and the caches alone. With 128 large
/// requests took longer together than one after the other (docs/benchmarks/2026-11-24-doors-2.md).
const MOST_TEXTS: usize = 16;

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
    /// In whose turn.
    client: String,
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
        let opens = opens(&args);
        let waiting = Waiting {
            number,
            client: client.to_owned(),
            args,
            cancel: cancel.clone(),
            reply: Box::new(reply),
        };
        let (batch, twin) = (Arc::clone(self), Arc::clone(self));
        let job = Job::numbered(number, opens, move |resident| {
            let work = |assistant: &Assistant, _: &Cancel| {
                batch.serve(number, resident, assistant);
                Ok(())
            };
            resident.run(Lane::Models, &cancel, work, |done: Result<()>| {
                // Not begun because the client has gone, or ended by what is wrong with the library.
                let (Err(error), Some(waiting)) = (done, twin.take(number)) else { return };
                (waiting.reply)(Err(error));
            });
        });
        // Whoever takes it along finds its place in the queue: both are put down before anybody looks.
        let mut all = self.lock();
        all.push(waiting);
        let refused = resident.queue(Lane::Models, client, job).err();
        let refused = refused.and_then(|error| Some((error, all.pop()?)));
        drop(all);
        if let Some((error, waiting)) = refused {
            (waiting.reply)(Err(error));
        }
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

    fn serve(&self, number: u64, resident: &Resident, assistant: &Assistant) {
        let mut ready: Vec<Waiting> = Vec::new();
        let mut prepared: Vec<Prepared> = Vec::new();
        let company = self.company(number);
        for it in company.iter().skip(1) {
            resident.take_back(Lane::Models, &it.client, it.number);
        }
        for it in company {
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

/// What the reranker is opened with for a request.
fn opens(args: &RerankArgs) -> Opens {
    // A budget that is none is told when the request is read.
    let memory_budget = args.extras.settings().ok().and_then(|it| it.memory_budget);
    Opens { model: args.model.clone(), memory_budget, deadline: args.extras.deadline.is_some() }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use riddle_rag::Config;

    use super::*;

    fn waiting(number: u64, texts: usize, model: Option<&str>) -> Waiting {
        let args = RerankArgs {
            documents: vec![Document::Text("x".to_owned()); texts],
            model: model.map(str::to_owned),
            ..RerankArgs::default()
        };
        let client = String::new();
        Waiting { number, client, args, cancel: Cancel::default(), reply: Box::new(|_| {}) }
    }

    #[test]
    fn company_is_of_one_model_small_and_still_there() {
        let batch = Batch::default();
        let gone = waiting(2, 1, None);
        gone.cancel.cancel();
        *batch.lock() = vec![
            waiting(0, 4, None),
            waiting(1, 4, Some("other")),
            gone,
            waiting(3, MOST_TEXTS - 8, None),
            waiting(4, 5, None),
            waiting(5, 4, None),
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

    #[test]
    fn whoever_is_served_in_company_leaves_the_queue_with_it() {
        let home = tempfile::tempdir().expect("a folder");
        let resident = Resident::start(Config::new(home.path()), 3, false).expect("starts");
        let batch = Arc::new(Batch::default());
        // Nobody is free at first.
        let (free, held) = channel::<()>();
        let held = Arc::new(Mutex::new(held));
        let hold = |client: &str| {
            let held = Arc::clone(&held);
            let work = move |_: &Assistant, _: &Cancel| {
                let _ = held.lock().map(|it| it.recv());
                Ok(())
            };
            resident.submit(Lane::Models, client, Cancel::default(), work, |_: Result<()>| {});
        };
        hold("first");
        hold("first");
        while resident.load().running < 2 || resident.load().waiting > 0 {
            std::thread::yield_now();
        }
        let (answers, answered) = channel();
        let ask = |client: &str| {
            let answers = answers.clone();
            let args = waiting(0, 1, None).args;
            let reply = move |it: Result<(Reranked, Vec<Document>)>| {
                answers.send(matches!(it, Err(Error::Busy { .. }))).expect("heard");
            };
            batch.rank(&resident, client, args, Cancel::default(), reply);
        };
        for client in ["a", "a", "b"] {
            ask(client);
        }
        assert_eq!(resident.load().waiting, 3);
        ask("c");
        assert_eq!(answered.recv(), Ok(true), "full");
        assert_eq!(batch.lock().len(), 3, "nobody waits who was refused");
        // One is free, and takes all three along; another one is still held.
        free.send(()).expect("heard");
        for _ in 0..3 {
            // There is no model: each is told so, and none that the queue is full.
            assert_eq!(answered.recv(), Ok(false));
        }
        assert_eq!((resident.load().waiting, batch.lock().len()), (0, 0));
        assert!(resident.load().running > 0);
        drop(free);
        resident.close();
    }
}
