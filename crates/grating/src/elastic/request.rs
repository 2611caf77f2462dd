//! What a request asks, and until when.

use std::time::{Duration, Instant};

use riddle_types::{DeadlineEnd, DeadlineReport, Prior};

use super::ms;
use crate::Run;

/// A deadline of a request.
#[derive(Debug, Clone, Copy)]
pub struct Within {
    /// When the request was made.
    pub called: Instant,
    /// How long it may take from then; `None`: the whole model, however long it takes.
    pub deadline: Option<Duration>,
}

impl Within {
    /// Without a deadline.
    pub fn any_time() -> Within {
        Within { called: Instant::now(), deadline: None }
    }

    /// From now on.
    pub fn from_now(deadline: Duration) -> Within {
        Within { called: Instant::now(), deadline: Some(deadline) }
    }

    /// How the deadline was kept; without one, whatever it took was in time.
    pub(super) fn report(
        self,
        end: DeadlineEnd,
        plan: Option<riddle_types::DeadlinePlan>,
    ) -> DeadlineReport {
        let took = self.called.elapsed();
        let target = self.deadline.unwrap_or(took);
        DeadlineReport {
            target_ms: ms(target),
            took_ms: ms(took),
            met: took <= target,
            end,
            least_ms: None,
            plan,
        }
    }
}

/// A request.
#[derive(Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) how: Run<'a>,
    pub(super) within: Within,
    pub(super) query: &'a str,
    pub(super) candidates: &'a [&'a str],
    pub(super) prior: Prior<'a>,
    pub(super) top_k: usize,
}

/// The order in which candidates are read: by what is known of them before, else as they came.
pub(super) fn order_of(count: usize, prior: &[f32]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    if !prior.is_empty() {
        order.sort_by(|a, b| prior[*b].total_cmp(&prior[*a]));
    }
    order
}
