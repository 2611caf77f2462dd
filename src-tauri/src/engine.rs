//! The threads that search: one finds, one owns the models that rerank and answer.
//!
//! Two, so that the first hits of a query do not wait for a reranker that is still busy with the query before.
//! Both use one [`Assistant`]; it is opened when it is needed, looked at afresh when the index has changed, let go
//! when something in it panics, and its models leave the memory when nobody has used them for a while.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc::{self, RecvTimeoutError, Sender},
    },
    time::{Duration, Instant},
};

use riddle_doors::Lender;
use riddle_metrics::{StageLayer, StageTimings};
use riddle_rag::{
    Assistant,
    prefixes::PREFIX_BYTES_SETTING,
    prepare::{Idle, may_work},
    reuse::ReuseSettings,
    writer::{LLM_LOCAL, LocalLlm},
};
use tracing::Dispatch;
use tracing_subscriber::layer::SubscriberExt as _;

use crate::{
    context::{Context, lock},
    dto::AppEvent,
    failure::Reply,
    requests,
};

/// How often the engine's thread looks up when there is nothing to do.
const TICK: Duration = Duration::from_secs(5);

/// How long answers are prepared before the machine is looked at again: somebody may have pulled the plug, and it
/// may have become warm.
const STRETCH: Duration = Duration::from_secs(60);

/// Work for a thread; its times are those of its own spans.
type Job = Box<dyn FnOnce(&StageTimings) + Send>;

/// The two threads and what they share.
pub(crate) struct Engine {
    models: Arc<Models>,
    finder: Sender<Job>,
    reranker: Sender<Job>,
}

impl Engine {
    /// Starts the threads.
    pub(crate) fn start(context: &Arc<Context>) -> Engine {
        let models = Arc::new(Models {
            context: Arc::clone(context),
            assistant: Mutex::default(),
            used: Mutex::default(),
            asked: Mutex::new(Instant::now()),
            waiting: AtomicUsize::new(0),
            prepared: Mutex::default(),
        });
        Engine {
            finder: thread("finder", &models, |_| {}),
            reranker: thread("engine", &models, Models::tick),
            models,
        }
    }

    /// Runs on the thread of first hits.
    pub(crate) fn find(&self, job: impl FnOnce(&StageTimings) + Send + 'static) {
        self.models.is_asked();
        // Without a thread the program is ending.
        let _ = self.finder.send(Box::new(job));
    }

    /// Runs on the thread of models.
    pub(crate) fn run(&self, job: impl FnOnce(&StageTimings) + Send + 'static) {
        self.models.is_asked();
        // Seen by what is prepared while nobody waits, which ends at once.
        self.models.waiting.fetch_add(1, Ordering::AcqRel);
        let models = Arc::clone(&self.models);
        let counted = move |times: &StageTimings| {
            models.waiting.fetch_sub(1, Ordering::AcqRel);
            job(times);
        };
        let _ = self.reranker.send(Box::new(counted));
    }

    /// Runs on the thread of models and waits for what comes out.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        job: impl FnOnce(&StageTimings) -> Reply<T> + Send + 'static,
    ) -> Reply<T> {
        let (sender, receiver) = mpsc::channel();
        self.run(move |times| {
            // Nobody waits any more: the window was closed.
            let _ = sender.send(job(times));
        });
        receiver.recv().unwrap_or_else(|_| Err(crate::failure::broke_down(&"see the banner")))
    }

    /// The assistant, opened if it is not.
    pub(crate) fn assistant(&self) -> Reply<Arc<Assistant>> {
        self.models.assistant()
    }

    /// Gives the assistant to whoever serves other programs, so that its models are in memory once.
    pub(crate) fn lender(&self) -> Lender {
        let models = Arc::clone(&self.models);
        Arc::new(move || models.open())
    }

    /// The index has changed: looks at it afresh, beside searches that run.
    pub(crate) fn refresh(&self) {
        let models = Arc::clone(&self.models);
        self.run(move |_| models.refresh());
    }

    /// Lets the models go; whoever needs one opens it again.
    pub(crate) fn release_models(&self) {
        self.models.release();
    }

    /// The models were in use until now: what took long begins to be unused at its end.
    pub(crate) fn used_until_now(&self) {
        self.models.used_until_now();
    }
}

/// The assistant with its models, as both threads use them.
struct Models {
    context: Arc<Context>,
    assistant: Mutex<Option<Arc<Assistant>>>,
    /// When a model was last used; `None`: none is in memory.
    used: Mutex<Option<Instant>>,
    /// When something was last asked of one of the threads.
    asked: Mutex<Instant>,
    /// Jobs that wait for the thread of models.
    waiting: AtomicUsize,
    /// What it was like when nothing was left to be prepared.
    prepared: Mutex<Option<PreparedFor>>,
}

/// Changes with everything that is committed to the home.
type Stamp = (u64, Option<i64>);

impl Models {
    fn assistant(&self) -> Reply<Arc<Assistant>> {
        Ok(self.open()?)
    }

    fn open(&self) -> riddle_rag::Result<Arc<Assistant>> {
        self.used_until_now();
        let mut slot = lock(&self.assistant);
        if let Some(assistant) = &*slot {
            return Ok(Arc::clone(assistant));
        }
        let assistant = Arc::new(Assistant::open(self.context.config.clone())?);
        *slot = Some(Arc::clone(&assistant));
        Ok(assistant)
    }

    fn refresh(&self) {
        let Some(old) = lock(&self.assistant).clone() else { return };
        match old.reopen() {
            Ok(fresh) => {
                *lock(&self.assistant) = Some(Arc::new(fresh));
                self.context.tell(AppEvent::Refreshed);
            }
            Err(error) => {
                tracing::warn!("the index can not be looked at afresh: {error}");
                *lock(&self.assistant) = None;
            }
        }
    }

    /// Lets everything go; the next search opens it anew.
    fn unload(&self) {
        *lock(&self.assistant) = None;
        riddle_metrics::release_free_memory();
    }

    /// Lets the models go if nobody has used them for `seconds` (0: never).
    fn unload_unused(&self, seconds: u32) {
        let after = Duration::from_secs(seconds.into());
        let mut used = lock(&self.used);
        if seconds == 0 || used.is_none_or(|it| it.elapsed() < after) {
            return;
        }
        *used = None;
        drop(used);
        self.release();
    }

    fn release(&self) {
        if let Some(assistant) = &*lock(&self.assistant) {
            assistant.release_models();
        }
        riddle_metrics::release_free_memory();
    }

    fn used_until_now(&self) {
        *lock(&self.used) = Some(Instant::now());
    }

    fn is_asked(&self) {
        *lock(&self.asked) = Instant::now();
    }

    /// What is done now and then.
    fn tick(&self) {
        self.unload_unused(self.context.settings_now().unload_after);
        self.context.note_memory();
        let prepared = catch_unwind(AssertUnwindSafe(|| self.prepare()));
        match prepared {
            Ok(Ok(())) => {}
            // Nobody waits for it, and it is tried again.
            Ok(Err(failure)) => tracing::debug!(?failure, "no answers are prepared"),
            Err(panic) => {
                self.unload();
                self.context.tell_unloaded("engine", &*panic);
            }
        }
    }

    /// Prepares answers while nobody waits, until something is asked or nothing is left to be done.
    fn prepare(&self) -> Reply<()> {
        let settings = self.context.settings_now();
        let is_local = settings.llm.starts_with(LLM_LOCAL);
        let reuse = self.context.records.reuse()?;
        let asked = *lock(&self.asked);
        let idle = Idle {
            on_mains: riddle_metrics::on_mains(),
            hot: riddle_metrics::is_hot(),
            quiet: asked.elapsed(),
            busy: self.context.records.freshness()?.files_behind > 0,
        };
        if !is_local || !may_work(&reuse, idle) || self.context.records.chunks()? == 0 {
            return Ok(());
        }
        let assistant = self.assistant_unasked()?;
        let now = PreparedFor {
            home: assistant.stamp()?,
            asked,
            llm: settings.llm.clone(),
            local: requests::local(&settings),
            reuse,
            tree_bytes: self.context.records.setting(PREFIX_BYTES_SETTING)?,
        };
        if lock(&self.prepared).as_ref() == Some(&now) {
            return Ok(());
        }
        let request = requests::foreseen(&settings);
        let started = Instant::now();
        let mut go_on = || self.waiting.load(Ordering::Acquire) == 0 && started.elapsed() < STRETCH;
        let report = assistant.prepare(&request, &settings.llm, &mut go_on, &mut |_| {})?;
        if report.done {
            *lock(&self.prepared) = Some(now);
            // It was used, and by nobody who will use it again soon.
            self.release();
        }
        Ok(())
    }

    /// The assistant, opened if it is not, without counting that as a use of its models.
    fn assistant_unasked(&self) -> Reply<Arc<Assistant>> {
        let before = *lock(&self.used);
        let assistant = self.assistant()?;
        *lock(&self.used) = before;
        Ok(assistant)
    }
}

/// What decides whether anything is left to be prepared: as long as all of it is the same, nobody looks again.
#[derive(PartialEq)]
struct PreparedFor {
    home: Stamp,
    /// When something was last asked.
    asked: Instant,
    llm: String,
    /// Another order of passages has others read.
    local: LocalLlm,
    /// A lower threshold has answers written.
    reuse: ReuseSettings,
    /// More room has passages read again.
    tree_bytes: Option<String>,
}

/// A thread that works off jobs one by one, and survives those that panic.
fn thread(name: &'static str, models: &Arc<Models>, tick: fn(&Models)) -> Sender<Job> {
    let (sender, jobs) = mpsc::channel::<Job>();
    let models = Arc::clone(models);
    let work = move || {
        let (layer, times) = StageLayer::new();
        let dispatch = Dispatch::new(tracing_subscriber::registry().with(layer));
        tracing::dispatcher::with_default(&dispatch, || {
            loop {
                let job = match jobs.recv_timeout(TICK) {
                    Ok(job) => job,
                    Err(RecvTimeoutError::Timeout) => {
                        tick(&models);
                        continue;
                    }
                    Err(RecvTimeoutError::Disconnected) => break,
                };
                times.take();
                if let Err(panic) = catch_unwind(AssertUnwindSafe(|| job(&times))) {
                    models.unload();
                    models.context.tell_unloaded(name, &*panic);
                }
            }
        });
    };
    let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    spawned.expect("the system has threads to give when the program starts");
    sender
}
