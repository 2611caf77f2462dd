//! Installed models on questions made from the person's files.

use std::{
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use riddle_rag::trial::{self, Ranking, Trial, TrialRequest, Tried, try_models};
use tauri::ipc::Channel;

use super::{Shell, lock};
use crate::{
    convert::clean,
    dto::{Failure, FailureCode, ModelTrial, NotRead, TrialEvent, TriedModel, Trouble},
    failure::Reply,
};

/// Progress is told this often: more than a person sees is noise.
const TELL_EVERY: Duration = Duration::from_millis(100);

impl Shell {
    /// Tries them beside everything else; progress and end come over `events`. One at a time.
    pub(crate) fn try_models(&self, events: Channel<TrialEvent>) -> Reply<()> {
        let stop = Arc::new(AtomicBool::new(false));
        {
            let mut trying = lock(&self.trying);
            if trying.is_some() {
                return Err(Failure::new(FailureCode::Busy, "models are being tried"));
            }
            *trying = Some(Arc::clone(&stop));
        }
        let shell = self.clone();
        let work = move || {
            let event = match shell.tried(&stop, &events) {
                Ok(Some(trial)) => TrialEvent::Done { trial },
                Ok(None) => TrialEvent::Cancelled,
                Err(failure) => TrialEvent::Failed { failure },
            };
            *lock(&shell.trying) = None;
            // A window that was closed hears nothing.
            let _ = events.send(event);
        };
        let spawned = std::thread::Builder::new().name("trial".to_owned()).spawn(work);
        spawned.map(|_| ()).map_err(|error| {
            *lock(&self.trying) = None;
            Failure::other(error)
        })
    }

    /// Stops it.
    pub(crate) fn stop_trial(&self) {
        if let Some(stop) = &*lock(&self.trying) {
            stop.store(true, Ordering::Release);
        }
    }

    fn tried(&self, stop: &AtomicBool, events: &Channel<TrialEvent>) -> Reply<Option<ModelTrial>> {
        let assistant = self.engine.assistant()?;
        let request =
            TrialRequest { memory: riddle_metrics::machine_memory(), ..TrialRequest::default() };
        let mut told: Option<Instant> = None;
        let trial = try_models(&assistant, &request, &mut |name, done, total| {
            if told.is_none_or(|it| it.elapsed() >= TELL_EVERY) {
                told = Some(Instant::now());
                let (done, total) = (done as u64, total as u64);
                let _ = events.send(TrialEvent::Progress { name: clean(name), done, total });
            }
            match stop.load(Ordering::Acquire) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        })?;
        Ok(trial.map(|it| shown(&it)))
    }
}

fn shown(trial: &Trial) -> ModelTrial {
    let rows = |ranking: &Ranking| {
        let all = ranking.models.iter().enumerate();
        all.map(|(at, it)| row(it, ranking.advised == Some(at), trial)).collect()
    };
    ModelTrial {
        questions: trial.questions as u32,
        passages: trial.passages as u32,
        rerankers: rows(&trial.rerankers),
        embedders: rows(&trial.embedders),
        not_read: trial.not_read.iter().map(not_read).collect(),
    }
}

fn not_read(it: &trial::NotRead) -> NotRead {
    NotRead {
        kind: it.kind.into(),
        model: clean(&it.model),
        languages: it.languages.iter().map(|it| it.0.clone()).collect(),
        share: it.languages.iter().map(|it| it.1).sum(),
        kinds: it.kinds.iter().map(|it| it.0.into()).collect(),
        installed: it.installed.iter().map(|it| clean(it)).collect(),
        available: it.available.iter().map(|it| it.name.to_owned()).collect(),
    }
}

fn row(it: &Tried, advised: bool, trial: &Trial) -> TriedModel {
    TriedModel {
        name: it.name.clone(),
        in_use: it.in_use,
        advised,
        quality: it.quality.mean,
        low: it.quality.low,
        high: it.quality.high,
        ms: it.ms,
        passages_per_second: it.passages_per_second,
        bytes: it.bytes,
        too_large: it.too_large,
        unread: it.unread_share(trial),
        problem: it.trouble.as_ref().map(Trouble::of),
    }
}
