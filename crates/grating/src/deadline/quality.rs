//! What submodels of a model are worth, as development questions tell.

use serde::{Deserialize, Serialize};

use super::Bits;

/// Quality of rankings, in the unit of the measure that the table was made with.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Quality {
    /// Of the order that the reranker is given.
    pub input: f64,
    /// By layers and slices, both from 1: at eight bits, all candidates read.
    pub submodels: Vec<Vec<f64>>,
    /// What the whole model loses where all shards have so many bits.
    pub loss: Vec<(u8, f64)>,
    /// Shares of the candidates that are read, and of the gain that is left then, both ascending.
    pub reach: Vec<(f64, f64)>,
}

impl Quality {
    /// Where nobody has measured: depth and width count as computed work, as in the paper, from three quarters of the
    /// layers and half of the slices on. Models that were not made for it lose too much below that to be used unseen.
    pub fn unknown(layers: usize, slices: usize) -> Quality {
        let of = |n: usize, m: usize| {
            let deep = 4 * n >= 3 * layers && 2 * m >= slices;
            if deep { (n * m) as f64 / (layers * slices).max(1) as f64 } else { 0.0 }
        };
        let row = |n: usize| (1..=slices).map(|m| of(n, m)).collect();
        Quality {
            input: 0.0,
            submodels: (1..=layers).map(row).collect(),
            // By the noise that codes of so many bits add, in the mean of our models: 9, 14.5, 20.4, 25 and 29 dB.
            loss: vec![(2, 0.2), (3, 0.06), (4, 0.02), (5, 0.006), (6, 0.002), (8, 0.0), (32, 0.0)],
            reach: Vec::new(),
        }
    }

    /// What a submodel gains over the order that it is given; not above 0 where it should not be used.
    pub fn gain(&self, layers: usize, slices: usize) -> f64 {
        let row = layers.checked_sub(1).and_then(|it| self.submodels.get(it));
        let of = row.and_then(|it| it.get(slices.checked_sub(1)?));
        of.map_or(0.0, |it| it - self.input)
    }

    /// Share of the gain that is left where only the first candidates are read.
    pub fn share(&self, read: usize, all: usize) -> f64 {
        if all == 0 || read >= all {
            return 1.0;
        }
        let at = read as f64 / all as f64;
        if self.reach.is_empty() {
            // The first candidates hold most of what can be found: a parabola through nothing and everything.
            return 1.0 - (1.0 - at).powi(2);
        }
        let mut before = (0.0, 0.0);
        for &(share, gain) in &self.reach {
            if share >= at {
                let part =
                    if share > before.0 { (at - before.0) / (share - before.0) } else { 1.0 };
                return before.1 + part * (gain - before.1);
            }
            before = (share, gain);
        }
        1.0
    }

    /// What is lost by the bits of shards, in the mean.
    pub fn loss(&self, bits: &Bits) -> f64 {
        let of = |bits: u8| {
            let exact = self.loss.iter().find(|it| it.0 == bits);
            exact.or(self.loss.first()).map_or(0.0, |it| it.1.max(0.0))
        };
        let count = bits.iter().map(Vec::len).sum::<usize>().max(1);
        bits.iter().flatten().map(|it| of(*it)).sum::<f64>() / count as f64
    }
}
