//! The resident engine: one [`Assistant`] with its models for all who ask, and the queue in front of it.
//!
//! Clients take turns: whoever has sent a hundred requests waits behind the first of everybody else. A full queue
//! refuses at once, and a request whose client has gone is never begun.

use std::{
    collections::{HashMap, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use riddle_rag::{Assistant, Config, Records};

use crate::{
    cancel::Cancel,
    error::{Error, Result},
};

/// Threads that serve requests of models. The reranker takes one at a time on all cores; the second searches and
/// tokenizes for the next meanwhile.
const THREADS: usize = 2;

/// Threads that look something up.
const LOOKING_UP: usize = 1;

/// Threads that search libraries elsewhere. Each waits for a server most of the time, and nobody who asks for what is
/// here waits for it.
const ELSEWHERE: usize = 8;

/// How long the library is taken as it was: then it is looked whether something was committed.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Stack of a thread that serves: parsers of JSON recurse.
const STACK_BYTES: usize = 8 << 20;

/// What a request's client is told to wait for before it tries again, at least.
const RETRY_SECONDS: u64 = 1;

/// How many may go before whoever's turn it is because the model is open as they need it: opening one anew costs as
/// much as a short rerank, and nobody waits for more than a few of those.
const MOST_BEFORE: usize = 4;

/// Where a request waits: whoever looks something up waits for no model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// For what computes.
    Models,
    /// For what is in the catalog.
    Catalog,
    /// For servers of shared libraries, and then for what computes.
    Elsewhere,
}

/// What waits for its turn.
pub(crate) struct Job {
    /// By which it can be taken back.
    ticket: Option<u64>,
    opens: Opens,
    work: Box<dyn FnOnce(&Resident) + Send>,
}

impl Job {
    /// Work that needs the reranker as it is for everybody.
    fn usual(work: impl FnOnce(&Resident) + Send + 'static) -> Job {
        Job { ticket: None, opens: Opens::default(), work: Box::new(work) }
    }

    /// Work that can be taken back by its number.
    pub(crate) fn numbered(
        ticket: u64,
        opens: Opens,
        work: impl FnOnce(&Resident) + Send + 'static,
    ) -> Job {
        Job { ticket: Some(ticket), opens, work: Box::new(work) }
    }
}

/// What the reranker has to be opened with: one that is open otherwise is opened anew.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Opens {
    /// `None`: the one that searches use.
    pub(crate) model: Option<String>,
    pub(crate) memory_budget: Option<u64>,
    pub(crate) deadline: bool,
}

/// The library, open, and who waits for it.
pub(crate) struct Resident {
    library: Library,
    /// Whether passages of folders that never leave this machine are given to programs on it.
    pub(crate) with_confined: bool,
    models: Line,
    catalog: Line,
    elsewhere: Line,
    limit: usize,
    running: AtomicUsize,
    done: AtomicU64,
    /// Microseconds of the last requests, for who has to come again.
    usual_us: AtomicU64,
}

/// Whose library it is.
enum Library {
    /// Ours: opened here, and looked at afresh when something was committed.
    Own { config: Box<Config>, open: Mutex<Option<Open>> },
    /// That of the program that has opened this door: its models are in memory once.
    Lent(Lender),
}

/// Gives the library as it is now.
pub type Lender = Arc<dyn Fn() -> riddle_rag::Result<Arc<Assistant>> + Send + Sync>;

struct Open {
    assistant: Arc<Assistant>,
    stamp: (u64, Option<i64>),
    looked: Instant,
    /// It is to be looked before that is long ago.
    look: bool,
}

/// A queue and who waits for it to have something.
#[derive(Default)]
struct Line {
    queue: Mutex<Queue>,
    wake: Condvar,
}

#[derive(Default)]
struct Queue {
    /// Whose turn it is, each client once.
    turns: VecDeque<String>,
    jobs: HashMap<String, VecDeque<Job>>,
    waiting: usize,
    closed: bool,
    /// What the last one needed, and how many of those have gone before whoever's turn it was.
    open: Opens,
    before: usize,
}

/// How it is with what computes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) waiting: usize,
    pub(crate) running: usize,
    pub(crate) done: u64,
}

impl std::fmt::Debug for Resident {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resident").field("load", &self.load()).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Resident {
    /// Opens the home, which is made if there is none, and starts to serve. `limit`: requests that may wait.
    pub(crate) fn start(
        config: Config,
        limit: usize,
        with_confined: bool,
    ) -> Result<Arc<Resident>> {
        drop(Records::open(config.clone())?);
        let library = Library::Own { config: Box::new(config), open: Mutex::default() };
        Resident::of(library, limit, with_confined)
    }

    /// Serves the library of another part of this program.
    pub(crate) fn lent(lender: Lender, limit: usize, with_confined: bool) -> Result<Arc<Resident>> {
        Resident::of(Library::Lent(lender), limit, with_confined)
    }

    fn of(library: Library, limit: usize, with_confined: bool) -> Result<Arc<Resident>> {
        let resident = Arc::new(Resident {
            library,
            with_confined,
            models: Line::default(),
            catalog: Line::default(),
            elsewhere: Line::default(),
            limit,
            running: AtomicUsize::new(0),
            done: AtomicU64::new(0),
            usual_us: AtomicU64::new(0),
        });
        resident.assistant()?;
        let lanes = [Lane::Models; THREADS]
            .into_iter()
            .chain([Lane::Catalog; LOOKING_UP])
            .chain([Lane::Elsewhere; ELSEWHERE]);
        for (lane, number) in lanes.zip(1..) {
            let worker = Arc::clone(&resident);
            thread::Builder::new()
                .name(format!("door {number}"))
                .stack_size(STACK_BYTES)
                .spawn(move || worker.work(lane))
                .map_err(|error| Error::Internal(format!("no thread can be started: {error}")))?;
        }
        Ok(resident)
    }

    pub(crate) fn load(&self) -> Load {
        Load {
            waiting: lock(&self.models.queue).waiting + lock(&self.elsewhere.queue).waiting,
            running: self.running.load(Ordering::Relaxed),
            done: self.done.load(Ordering::Relaxed),
        }
    }

    /// Puts work into the queue; `reply` is given what comes of it on another thread, or at once [`Error::Busy`] when
    /// the queue is full. When the program ends before the work has begun, it is dropped.
    pub(crate) fn submit<T>(
        &self,
        lane: Lane,
        client: &str,
        cancel: Cancel,
        work: impl FnOnce(&Assistant, &Cancel) -> Result<T> + Send + 'static,
        reply: impl FnOnce(Result<T>) + Send + 'static,
    ) {
        let line = self.line(lane);
        let mut queue = lock(&line.queue);
        if let Err(refused) = self.has_room(&queue) {
            drop(queue);
            return reply(Err(refused));
        }
        queue.push(client, Job::usual(move |it| it.run(lane, &cancel, work, reply)));
        drop(queue);
        line.wake.notify_one();
    }

    /// Puts a job into the queue, or says why not.
    pub(crate) fn queue(&self, lane: Lane, client: &str, job: Job) -> Result<()> {
        let line = self.line(lane);
        let mut queue = lock(&line.queue);
        self.has_room(&queue)?;
        queue.push(client, job);
        drop(queue);
        line.wake.notify_one();
        Ok(())
    }

    /// Takes a job back that has not begun: whoever comes next finds its place empty.
    pub(crate) fn take_back(&self, lane: Lane, client: &str, ticket: u64) {
        let job = lock(&self.line(lane).queue).take_back(client, ticket);
        // What it holds is let go without anybody waiting for the queue meanwhile.
        drop(job);
    }

    fn has_room(&self, queue: &Queue) -> Result<()> {
        if queue.closed {
            return Err(Error::Stopped);
        }
        if queue.waiting >= self.limit {
            let (waiting, seconds) = (queue.waiting, self.patience(queue.waiting));
            return Err(Error::Busy { waiting, seconds });
        }
        Ok(())
    }

    /// Does work whose turn it is, and tells what came of it.
    pub(crate) fn run<T>(
        &self,
        lane: Lane,
        cancel: &Cancel,
        work: impl FnOnce(&Assistant, &Cancel) -> Result<T>,
        reply: impl FnOnce(Result<T>),
    ) {
        if cancel.is_cancelled() {
            return reply(Err(Error::Stopped));
        }
        let started = Instant::now();
        let done = catch_unwind(AssertUnwindSafe(|| work(&*self.assistant()?, cancel)));
        let done = done.unwrap_or_else(|panic| Err(Error::Internal(words_of(&*panic))));
        if lane == Lane::Models {
            self.took(started.elapsed());
        }
        reply(if cancel.is_cancelled() { Err(Error::Stopped) } else { done });
    }

    fn line(&self, lane: Lane) -> &Line {
        match lane {
            Lane::Models => &self.models,
            Lane::Catalog => &self.catalog,
            Lane::Elsewhere => &self.elsewhere,
        }
    }

    /// Lets nobody in any more; what waits is dropped, what runs ends.
    pub(crate) fn close(&self) {
        for line in [&self.models, &self.catalog, &self.elsewhere] {
            let mut queue = lock(&line.queue);
            queue.closed = true;
            let dropped = std::mem::take(&mut queue.jobs);
            queue.turns.clear();
            queue.waiting = 0;
            drop(queue);
            // Their senders are gone with them: whoever waits is told so.
            drop(dropped);
            line.wake.notify_all();
        }
    }

    fn work(&self, lane: Lane) {
        let line = self.line(lane);
        loop {
            let mut queue = lock(&line.queue);
            let job = loop {
                if let Some(job) = queue.pop() {
                    break job;
                }
                if queue.closed {
                    return;
                }
                queue = line.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
            };
            drop(queue);
            if lane == Lane::Catalog {
                (job.work)(self);
                continue;
            }
            self.running.fetch_add(1, Ordering::Relaxed);
            (job.work)(self);
            self.running.fetch_sub(1, Ordering::Relaxed);
            self.done.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whoever asks next sees what is committed now. A program that lends its library looks by itself.
    pub(crate) fn look_again(&self) {
        let Library::Own { open, .. } = &self.library else { return };
        if let Some(open) = &mut *lock(open) {
            open.look = true;
        }
    }

    /// The library as it was last committed.
    fn assistant(&self) -> Result<Arc<Assistant>> {
        let (config, open) = match &self.library {
            Library::Own { config, open } => (config, open),
            Library::Lent(lender) => return Ok(lender()?),
        };
        let mut open = lock(open);
        if let Some(open) = &mut *open {
            if open.looked.elapsed() < LOOK_AGAIN && !open.look {
                return Ok(Arc::clone(&open.assistant));
            }
            (open.looked, open.look) = (Instant::now(), false);
            if open.assistant.stamp().is_ok_and(|it| it == open.stamp) {
                return Ok(Arc::clone(&open.assistant));
            }
        }
        let assistant = match &*open {
            Some(old) => old.assistant.reopen(),
            None => Assistant::open(config.as_ref().clone()),
        };
        let assistant = Arc::new(assistant?);
        let stamp = assistant.stamp()?;
        let looked = Instant::now();
        *open = Some(Open { assistant: Arc::clone(&assistant), stamp, looked, look: false });
        Ok(assistant)
    }

    fn took(&self, time: Duration) {
        let now = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        // An eighth of each new one: a running mean that forgets.
        let update = |old: u64| Some(if old == 0 { now } else { old - old / 8 + now / 8 });
        let _ = self.usual_us.fetch_update(Ordering::Relaxed, Ordering::Relaxed, update);
    }

    /// Seconds until a place may be free.
    fn patience(&self, waiting: usize) -> u64 {
        let us = self.usual_us.load(Ordering::Relaxed).saturating_mul(waiting as u64);
        (us / 2 / 1_000_000).clamp(RETRY_SECONDS, 60)
    }
}

impl Queue {
    fn push(&mut self, client: &str, job: Job) {
        let jobs = self.jobs.entry(client.to_owned()).or_default();
        if jobs.is_empty() {
            self.turns.push_back(client.to_owned());
        }
        jobs.push_back(job);
        self.waiting += 1;
    }

    /// The next of whoever has waited longest for a turn; a few may go before for whom the model is open already.
    fn pop(&mut self) -> Option<Job> {
        let fits = |it: &String| {
            self.jobs.get(it).and_then(|it| it.front()).is_some_and(|it| it.opens == self.open)
        };
        let first = self.turns.iter().position(fits);
        let place = first.filter(|_| self.before < MOST_BEFORE).unwrap_or(0);
        self.before = if place == 0 { 0 } else { self.before + 1 };
        let client = self.turns.remove(place)?;
        let jobs = self.jobs.get_mut(&client)?;
        let job = jobs.pop_front()?;
        if jobs.is_empty() {
            self.jobs.remove(&client);
        } else {
            self.turns.push_back(client);
        }
        self.waiting -= 1;
        self.open.clone_from(&job.opens);
        Some(job)
    }

    fn take_back(&mut self, client: &str, ticket: u64) -> Option<Job> {
        let jobs = self.jobs.get_mut(client)?;
        let place = jobs.iter().position(|it| it.ticket == Some(ticket))?;
        let job = jobs.remove(place);
        if jobs.is_empty() {
            self.jobs.remove(client);
            self.turns.retain(|it| it != client);
        }
        self.waiting -= 1;
        job
    }
}

fn words_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|it| (*it).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    fn resident(limit: usize) -> (tempfile::TempDir, Arc<Resident>) {
        let home = tempfile::tempdir().expect("a folder");
        let resident = Resident::start(Config::new(home.path()), limit, false).expect("starts");
        (home, resident)
    }

    #[test]
    fn clients_take_turns() {
        let mut queue = Queue::default();
        let (sender, receiver) = channel();
        for (client, number) in [("a", 1), ("a", 2), ("a", 3), ("b", 4), ("c", 5), ("b", 6)] {
            let sender = sender.clone();
            queue.push(client, Job::usual(move |_| sender.send(number).expect("heard")));
        }
        let (_home, resident) = resident(1);
        while let Some(job) = queue.pop() {
            (job.work)(&resident);
        }
        drop((queue, sender));
        assert_eq!(receiver.iter().collect::<Vec<_>>(), [1, 4, 5, 2, 6, 3]);
        resident.close();
    }

    #[test]
    fn a_few_go_before_for_whom_the_model_is_open() {
        let job = |number: u64, deadline: bool| {
            Job::numbered(number, Opens { deadline, ..Opens::default() }, |_| {})
        };
        let mut queue = Queue::default();
        for number in 0..14 {
            queue.push(&number.to_string(), job(number, number % 2 == 1));
        }
        let order: Vec<u64> = std::iter::from_fn(|| queue.pop()?.ticket).collect();
        // One that waits is overtaken by no more than a few, and whoever has the other kind follows it then.
        assert_eq!(order, [0, 2, 4, 6, 8, 1, 3, 5, 7, 9, 11, 13, 10, 12]);
        assert_eq!(queue.waiting, 0);
    }

    #[test]
    fn what_is_taken_back_leaves_no_place_behind() {
        let job = |number| Job::numbered(number, Opens::default(), |_| {});
        let mut queue = Queue::default();
        for (client, number) in [("a", 1), ("a", 2), ("b", 3), ("c", 4)] {
            queue.push(client, job(number));
        }
        for (client, number) in [("a", 1), ("b", 3)] {
            assert!(queue.take_back(client, number).is_some());
            assert!(queue.take_back(client, number).is_none(), "only once");
        }
        assert!(queue.take_back("c", 2).is_none(), "another's");
        assert_eq!(queue.waiting, 2);
        let left: Vec<u64> = std::iter::from_fn(|| queue.pop()?.ticket).collect();
        assert_eq!(left, [2, 4]);
    }

    #[test]
    fn a_full_queue_refuses_and_a_closed_one_too() {
        let (_home, resident) = resident(2);
        let (free, held) = channel::<()>();
        let held = Arc::new(Mutex::new(held));
        let (answers, answered) = channel();
        for _ in 0..THREADS + 4 {
            let (held, answers) = (Arc::clone(&held), answers.clone());
            let work = move |_: &Assistant, _: &Cancel| {
                let _ = lock(&held).recv();
                Ok(())
            };
            let reply = move |it: Result<()>| answers.send(it).expect("heard");
            resident.submit(Lane::Models, "a", Cancel::default(), work, reply);
            // Whoever can begin does, so that the queue has the others.
            while resident.load().running < THREADS && resident.load().waiting > 0 {
                thread::yield_now();
            }
        }
        drop((free, answers));
        let all: Vec<Result<()>> = answered.iter().collect();
        assert_eq!(all.iter().filter(|it| it.is_ok()).count(), THREADS + 2);
        let busy = |it: &&Result<()>| matches!(it, Err(Error::Busy { seconds: 1.., .. }));
        assert_eq!(all.iter().filter(busy).count(), 2);
        resident.close();
        let (late, told) = channel();
        let reply = move |it: Result<()>| late.send(it).expect("heard");
        resident.submit(Lane::Models, "a", Cancel::default(), |_, _| Ok(()), reply);
        assert!(matches!(told.recv(), Ok(Err(Error::Stopped))));
    }

    #[test]
    fn a_server_that_does_not_answer_keeps_nobody_here_waiting() {
        let (_home, resident) = resident(99);
        let (free, held) = channel::<()>();
        let held = Arc::new(Mutex::new(held));
        for _ in 0..3 * ELSEWHERE {
            let held = Arc::clone(&held);
            let work = move |_: &Assistant, _: &Cancel| {
                let _ = lock(&held).recv();
                Ok(())
            };
            resident.submit(Lane::Elsewhere, "far", Cancel::default(), work, |_: Result<()>| {});
        }
        let (sender, receiver) = channel();
        for lane in [Lane::Models, Lane::Catalog] {
            let sender = sender.clone();
            let reply = move |it: Result<()>| sender.send(it.is_ok()).expect("heard");
            resident.submit(lane, "near", Cancel::default(), |_, _| Ok(()), reply);
        }
        assert_eq!((receiver.recv(), receiver.recv()), (Ok(true), Ok(true)));
        drop(free);
    }

    #[test]
    fn a_panic_costs_its_request_and_who_has_gone_is_not_served() {
        let (_home, resident) = resident(9);
        let (sender, receiver) = channel();
        let reply = |sender: &std::sync::mpsc::Sender<Result<()>>| {
            let sender = sender.clone();
            move |it: Result<()>| sender.send(it).expect("heard")
        };
        let panics = |_: &Assistant, _: &Cancel| -> Result<()> { panic!("on purpose") };
        resident.submit(Lane::Models, "a", Cancel::default(), panics, reply(&sender));
        let gone = Cancel::default();
        gone.cancel();
        let never = |_: &Assistant, _: &Cancel| -> Result<()> { panic!("begun") };
        resident.submit(Lane::Models, "b", gone, never, reply(&sender));
        resident.submit(Lane::Models, "c", Cancel::default(), |_, _| Ok(()), reply(&sender));
        let mut words: Vec<String> = (0..3)
            .map(|_| {
                receiver
                    .recv()
                    .expect("answered")
                    .map_or_else(|it| it.to_string(), |()| "ok".to_owned())
            })
            .collect();
        words.sort_unstable();
        assert_eq!(words[1..], ["ok", "stopped"]);
        assert!(words[0].contains("on purpose"), "{words:?}");
        resident.close();
    }
}
