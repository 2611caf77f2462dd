//! Several requests in one forward: more rows for every product, and every layer is read once for all of them.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Instant,
};

use riddle_types::{LayerObserver, Prior, Ranked, RerankOutcome, RerankStats};

use super::{Asked, Contest, Engine, Run, ms_since, panic_message};
use crate::{Error, Mode, Result, forward::Sequences};

/// One of several requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The query.
    pub query: String,
    /// Its candidates.
    pub candidates: Vec<String>,
    /// Results wanted.
    pub top_k: usize,
}

impl Engine {
    /// Answers several requests in one forward, each as [`run`](Self::run) would: in mode off scores depend on nothing
    /// but model and texts. The outcomes are in the order of the requests, and each has the cost of all of them; the
    /// observer sees the candidates of all, one request behind the other.
    ///
    /// # Errors
    /// Another mode than [`Mode::Off`], because pruning compares the candidates of one request; else as
    /// [`run`](Self::run), and then for all of them.
    pub fn run_together(
        &self,
        requests: &[Question],
        observer: &mut dyn LayerObserver,
    ) -> Result<Vec<RerankOutcome>> {
        if self.options.mode != Mode::Off {
            return Err(Error::BadOption(
                "requests are computed together in mode off only: pruning compares the candidates of one"
                    .to_owned(),
            ));
        }
        if requests.iter().any(|it| it.query.trim().is_empty()) {
            return Err(Error::EmptyQuery);
        }
        let run = || self.tokenize_and_forward_together(requests, observer);
        catch_unwind(AssertUnwindSafe(run))
            .unwrap_or_else(|panic| Err(Error::Panicked(panic_message(&*panic).to_owned())))
    }

    fn tokenize_and_forward_together(
        &self,
        requests: &[Question],
        observer: &mut dyn LayerObserver,
    ) -> Result<Vec<RerankOutcome>> {
        let started = Instant::now();
        let mut sequences = Sequences::default();
        // Where the candidates of each request begin.
        let mut starts = Vec::with_capacity(requests.len());
        for request in requests {
            starts.push(sequences.candidates.len());
            let query = self.encoder.query(&request.query)?;
            let encoded = self.pool.map(&request.candidates, |it| Ok(query.encode(it)?));
            sequences.add(&query, encoded.into_iter().collect::<Result<Vec<_>>>()?);
        }
        let tokenize_ms = ms_since(started);
        let all = sequences.candidates.len();
        let empty = RerankStats { num_layers: self.num_layers, ..RerankStats::default() };
        let outcome = if all == 0 {
            RerankOutcome { stats: empty, ..RerankOutcome::default() }
        } else {
            let contest = Contest::new(Mode::Off, all, all, self.num_layers);
            let scores_every_layer = self.options.scores_every_layer;
            let how = Run { scores_every_layer, ..Run::FULL };
            self.in_turn(sequences, contest, Asked { how, prior: Prior::NONE }, observer)?
        };
        let stats = RerankStats { tokenize_ms, ..outcome.stats };
        let none = RerankOutcome { stats, ..RerankOutcome::default() };
        let mut outcomes = vec![none; requests.len()];
        // Best first over all of them is best first in each.
        for ranked in outcome.ranked {
            // A request without candidates begins where the next one does: the last that begins there has it.
            let place = starts.partition_point(|it| *it <= ranked.index) - 1;
            let own = &mut outcomes[place].ranked;
            if own.len() < requests[place].top_k {
                own.push(Ranked { index: ranked.index - starts[place], ..ranked });
            }
        }
        Ok(outcomes)
    }
}
