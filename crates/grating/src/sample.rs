//! A recorded request under a policy: what it spares and what it gets wrong, for one request ([`Outcome`]) and for
//! many ([`Measured`]).
//!
//! What calibrations are made of, and what the policies that learn from recorded requests learn with.

use serde::{Deserialize, Serialize};

use crate::{
    Error, Mode, PruningPolicy, Result, Trace,
    confidence::{CONFIDENCE, lower_bound},
    replay,
};

/// A recorded request, checked, with the order of the full forward.
#[derive(Debug)]
pub(crate) struct Sample<'a> {
    pub(crate) trace: &'a Trace,
    pub(crate) candidates: usize,
    /// Candidates by final score, best first; equal scores keep the input order, as in the engine.
    pub(crate) order: Vec<usize>,
}

/// What a policy does to one request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) precision: f64,
    pub(crate) share: f64,
    pub(crate) layers_run: f64,
    pub(crate) latency_share: Option<f64>,
}

impl<'a> Sample<'a> {
    /// The requests with candidates.
    pub(crate) fn all(traces: &'a [Trace]) -> Result<Vec<Sample<'a>>> {
        let mut samples: Vec<Sample<'_>> = Vec::with_capacity(traces.len());
        for trace in traces {
            let candidates = trace.full_forward()?;
            if let Some(first) = samples.first()
                && first.trace.num_layers != trace.num_layers
            {
                return Err(Error::NotReplayable(format!(
                    "it has {} layers and the others have {}",
                    trace.num_layers, first.trace.num_layers
                )));
            }
            if candidates == 0 {
                continue;
            }
            let last = &trace.layers[trace.layers.len() - 1].scores;
            let mut order: Vec<usize> = (0..candidates).collect();
            order.sort_by(|&a, &b| last[b].total_cmp(&last[a]));
            samples.push(Sample { trace, candidates, order });
        }
        Ok(samples)
    }

    /// The full forward's winners.
    fn winners(&self, top_k: usize) -> &[usize] {
        &self.order[..top_k.min(self.candidates)]
    }

    pub(crate) fn replay(
        &self,
        policy: &dyn PruningPolicy,
        mode: Mode,
        top_k: usize,
    ) -> Result<Outcome> {
        let replayed = replay(self.trace, policy, mode, top_k)?;
        let winners = self.winners(top_k);
        let kept = replayed.ranked.iter().filter(|it| winners.contains(&it.index)).count();
        let all = self.candidates as f64 * f64::from(self.trace.num_layers);
        Ok(Outcome {
            precision: kept as f64 / winners.len().max(1) as f64,
            share: replayed.candidate_layers as f64 / all,
            layers_run: f64::from(replayed.layers_run),
            latency_share: self.latency_share(&replayed.active),
        })
    }

    fn latency_share(&self, active: &[usize]) -> Option<f64> {
        let times = || self.trace.layers.iter().map(|it| it.ms);
        let all: f64 = times().sum();
        let part: f64 = times().zip(active).map(|(ms, &it)| ms * it as f64).sum();
        // A trace from a file may hold any number: a share that is none is not shown.
        let share = part / (all * self.candidates as f64);
        (all > 0.0 && (0.0..=1.0 + 1e-9).contains(&share)).then_some(share)
    }

    pub(crate) fn full_outcome(&self) -> Outcome {
        let layers = self.trace.layers.len();
        Outcome {
            precision: 1.0,
            share: 1.0,
            layers_run: layers as f64,
            latency_share: self.latency_share(&vec![self.candidates; layers]),
        }
    }
}

/// What a policy does to a set of recorded requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Requests with at least one candidate: what the means are over.
    pub queries: usize,
    /// Mean share of the full forward's top-k that is returned too, 0…1.
    pub precision: f64,
    /// Lower bound of the expected precision at [`CONFIDENCE`].
    pub precision_bound: f64,
    /// Share of the requests with any result that the full forward does not return.
    pub requests_changed: f64,
    /// Mean share of the candidate × layer forwards that are computed.
    pub candidate_layers_share: f64,
    /// Mean number of layers that compute at least one candidate.
    pub layers_run: f64,
    /// Estimate: mean share of the full forward's time, each layer's time taken in proportion to the
    /// candidates that it computes. `None` if the traces hold no times.
    pub latency_share: Option<f64>,
}

impl Measured {
    pub(crate) fn mean<'a>(outcomes: impl Iterator<Item = &'a Outcome>) -> Measured {
        let outcomes: Vec<&Outcome> = outcomes.collect();
        let n = outcomes.len();
        let mean = |f: &dyn Fn(&Outcome) -> f64| {
            outcomes.iter().map(|it| f(it)).sum::<f64>() / n.max(1) as f64
        };
        let precision = mean(&|it| it.precision);
        let latencies: Option<Vec<f64>> = outcomes.iter().map(|it| it.latency_share).collect();
        Measured {
            queries: n,
            precision,
            precision_bound: lower_bound(precision, n, CONFIDENCE),
            requests_changed: mean(&|it| f64::from(u8::from(it.precision < 1.0))),
            candidate_layers_share: mean(&|it| it.share),
            layers_run: mean(&|it| it.layers_run),
            latency_share: latencies
                .filter(|it| !it.is_empty())
                .map(|it| it.iter().sum::<f64>() / n as f64),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use riddle_types::LayerEvent;

    use super::*;

    /// Numbers that look random and are the same every time.
    pub(crate) struct Noise(pub(crate) u64);

    impl Noise {
        pub(crate) fn next(&mut self) -> f32 {
            // splitmix64.
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((z ^ (z >> 31)) >> 40) as f32 / (1u64 << 24) as f32
        }

        fn bell(&mut self) -> f32 {
            (0..6).map(|_| self.next()).sum::<f32>() - 3.0
        }

        /// A request whose scores settle from layer to layer; the first layer has no head.
        pub(crate) fn trace(&mut self) -> Trace {
            let n = 4 + (self.next() * 20.0) as usize;
            let last: Vec<f32> = (0..n).map(|_| 3.0 * self.bell()).collect();
            let layers = (1..=5u32).map(|layer| LayerEvent {
                layer,
                active: (0..n).collect(),
                scores: match layer {
                    1 => Vec::new(),
                    _ => last.iter().map(|it| it + (5 - layer) as f32 * self.bell()).collect(),
                },
                ms: f64::from(layer),
                ..LayerEvent::default()
            });
            Trace { num_layers: 5, layers: layers.collect(), ..Trace::default() }
        }

        /// The same, with something known before.
        pub(crate) fn known(&mut self) -> Trace {
            let trace = self.trace();
            let last = &trace.layers[4].scores;
            let prior = last.iter().map(|it| it + 3.0 * self.bell()).collect();
            Trace { prior, ..trace }
        }

        pub(crate) fn traces(&mut self, n: usize) -> Vec<Trace> {
            (0..n).map(|_| self.trace()).collect()
        }
    }
}
