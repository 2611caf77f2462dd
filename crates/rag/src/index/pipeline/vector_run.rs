//! A run beside a person's work: how far it is, why it rests, and how fast it goes.

use std::time::{Duration, Instant};

use riddle_catalog::Catalog;

use super::{BATCH_CHUNKS, Pipeline};
use crate::{
    contract::{IndexEvent, Rest, Result},
    home::settings::MEANING_REST,
    index::pace::Pace,
};

/// While vectors wait it is looked this often whether they may be made.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// How far a run through a queue is.
pub(super) struct VectorRun {
    pub(super) done: u64,
    pub(super) total: u64,
    started: Instant,
    pub(super) synced: Instant,
    pub(super) sync_cost: Duration,
    pub(super) rest: Option<Rest>,
}

impl VectorRun {
    pub(super) fn new(total: u64, catalog: &Catalog) -> Result<VectorRun> {
        let now = Instant::now();
        // What a run that was killed has left there is no longer so.
        let rest = catalog.setting(MEANING_REST)?.and_then(|it| Rest::parse(&it));
        let sync_cost = Duration::ZERO;
        Ok(VectorRun { done: 0, total, started: now, synced: now, sync_cost, rest })
    }

    /// Notes why vectors wait now, where others can read it; whether that is news.
    pub(super) fn set_rest(&mut self, rest: Option<Rest>, catalog: &Catalog) -> Result<bool> {
        let news = rest != self.rest;
        if news {
            self.rest = rest;
            catalog.set_setting(MEANING_REST, rest.map(Rest::as_str))?;
        }
        Ok(news)
    }

    /// Notes how fast it goes, rests included: what is left takes that long. A handful tells nothing.
    pub(super) fn note_rate(&self, setting: &str, catalog: &Catalog) -> Result<()> {
        let seconds = self.started.elapsed().as_secs_f64();
        if self.done >= BATCH_CHUNKS as u64 && seconds > 0.0 {
            let rate = format!("{:.2}", self.done as f64 / seconds);
            catalog.set_setting(setting, Some(&rate))?;
        }
        Ok(())
    }
}

impl Pipeline<'_> {
    /// Waits while the machine is to be left alone; whether vectors are made then.
    pub(super) fn may_go_on(
        &self,
        pace: &mut Pace,
        end: &mut dyn FnMut() -> bool,
        run: &mut VectorRun,
        observer: &mut dyn FnMut(IndexEvent<'_>),
    ) -> Result<bool> {
        loop {
            if end() {
                run.set_rest(None, self.catalog)?;
                return Ok(false);
            }
            let rest = pace.rest();
            if run.set_rest(rest, self.catalog)?
                && let Some(rest) = rest
            {
                observer(IndexEvent::Resting(rest));
            }
            if rest != Some(Rest::Battery) {
                return Ok(true);
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}
