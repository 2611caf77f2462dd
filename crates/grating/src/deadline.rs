//! What to read and to compute before a deadline (STI, §5): pure functions of what a machine takes, what a model gains,
//! and a request.
//!
//! The paper plans in two stages. The compute plan takes the largest submodel that the time allows; the IO plan gives
//! its shards bits, by *accumulated IO budgets*: reading for layers 0…k must be done when layer k begins, which is
//! after the layers before it have computed. Beyond the paper, because a reranker orders many candidates and its result
//! is held against the order that it was given:
//!
//! - There is a third dimension, how many of the candidates are read.
//! - What is maximized is what the model's table says of quality. A submodel that ranks no better than its input is not
//!   computed, however much time there is.
//! - The deadline holds from the call: tokens, embedding rows and the first layer's unavoidable stall are inside. Time
//!   that computing leaves over is a budget of every layer.
//! - At each layer's border the rest is planned anew by the clock ([`Planner::rest`]).

mod budget;
mod quality;

use serde::{Deserialize, Serialize};

pub use self::{
    budget::{Bits, Kept, ReadCost, ShardSizes, accumulated_budgets, allocate, is_valid},
    quality::Quality,
};

/// Share of the time that is not planned with: clocks of other programs are not ours. Measured times of a layer are
/// within this of their median in nine of ten cases.
const MARGIN: f64 = 0.08;

/// Time that is not planned with besides: threads that wake, a result that is put in order.
const MARGIN_MS: f64 = 1.0;

/// Of these margins, what must be left for a run to go on as planned: with all of it a run that is a millisecond late
/// would lose a layer.
const KEPT_MARGIN: f64 = 0.5;

/// Shares of the candidates that are tried, in eighths.
const EIGHTHS: usize = 8;

/// What computing takes on a machine, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ComputeCost {
    /// A layer without anything to do.
    pub layer: f64,
    /// A layer, for each token.
    pub token: f64,
    /// A layer, for each token and slice.
    pub token_slice: f64,
    /// A layer's attention, for each slice and the square of each sequence's length.
    pub square_slice: f64,
    /// Putting a slice together of its shard.
    pub assemble_slice: f64,
    /// Before the first layer, for each token: memory for its states and their first values. Tokens are there when a
    /// plan is made. 0 where nobody has measured it.
    #[serde(default)]
    pub embed_token: f64,
    /// Share of a layer's work on tokens that is left in the last one, of which one state of each sequence is wanted;
    /// 0 where nobody has measured it.
    #[serde(default)]
    pub last: f64,
}

/// What a request asks of each layer.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Load {
    /// Tokens of all candidates.
    pub tokens: f64,
    /// Sum of the squares of their lengths.
    pub squares: f64,
}

impl Load {
    /// That of sequences of these lengths.
    pub fn of(lengths: &[usize]) -> Load {
        let mut load = Load::default();
        for &length in lengths {
            let length = length as f64;
            load.tokens += length;
            load.squares += length * length;
        }
        load
    }
}

impl ComputeCost {
    /// Those of a machine that takes so many times as long.
    pub fn times(self, factor: f64) -> ComputeCost {
        ComputeCost {
            layer: factor * self.layer,
            token: factor * self.token,
            token_slice: factor * self.token_slice,
            square_slice: factor * self.square_slice,
            assemble_slice: factor * self.assemble_slice,
            embed_token: factor * self.embed_token,
            last: self.last,
        }
    }

    /// Milliseconds of a layer of `width` slices, putting it together included.
    pub fn layer_ms(&self, load: Load, width: usize) -> f64 {
        self.fixed_ms(width) + self.token_ms(load, width)
    }

    /// Milliseconds of each of the last `layers` layers of a run.
    pub fn layers_ms(&self, load: Load, width: usize, layers: usize) -> Vec<f64> {
        let mut all = vec![self.layer_ms(load, width); layers];
        if let Some(last) = all.last_mut() {
            *last = self.last_ms(load, width);
        }
        all
    }

    /// Milliseconds of the last layer of a run.
    pub fn last_ms(&self, load: Load, width: usize) -> f64 {
        let share = if self.last > 0.0 { self.last } else { 1.0 };
        self.fixed_ms(width) + share * self.token_ms(load, width)
    }

    fn fixed_ms(&self, width: usize) -> f64 {
        self.layer + width as f64 * self.assemble_slice
    }

    fn token_ms(&self, load: Load, width: usize) -> f64 {
        let slices = self.token_slice * load.tokens + self.square_slice * load.squares;
        self.token * load.tokens + width as f64 * slices
    }
}

/// A submodel, the bits of its shards, and how many candidates it reads.
#[derive(Debug, Clone, PartialEq)]
pub struct DeadlinePlan {
    /// Layers.
    pub layers: usize,
    /// Slices of each, the first ones.
    pub width: usize,
    /// Candidates that are read: the first ones.
    pub candidates: usize,
    /// By layer and slice.
    pub bits: Bits,
    /// Milliseconds from the call to the ranking, as long as computing usually takes.
    pub predicted_ms: f64,
    /// Milliseconds of these in which nothing is computed because something is read, and what planning anew has added.
    pub waiting_ms: f64,
    /// Milliseconds left of each layer's accumulated budget.
    pub budgets_ms: Vec<f64>,
    /// What the model's table says of the ranking.
    pub quality: f64,
}

/// Why nothing is computed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NoPlan {
    /// Not even the least that is worth it can be done; so much would be enough for that.
    TooShort {
        /// Milliseconds.
        least_ms: f64,
    },
    /// No submodel ranks better than what it is given.
    NothingGained,
}

/// What is known of a request.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// Tokens of each candidate, in the order in which they came.
    pub lengths: &'a [usize],
    /// Milliseconds from the call to the deadline.
    pub deadline_ms: f64,
    /// Milliseconds that have passed since the call.
    pub elapsed_ms: f64,
    /// Milliseconds that reading embedding rows for the first candidate takes, for the first two, and so on, on the
    /// queue that shards are read on; may be empty: no time.
    pub rows_ms: &'a [f64],
}

/// What a plan is made of: a model's shards and what they are worth, a machine's times, and what is in memory.
#[derive(Clone, Copy)]
pub struct Planner<'a> {
    /// Sizes of the shards.
    pub sizes: &'a dyn ShardSizes,
    /// By layer and slice: what more bits of a shard are worth.
    pub importance: &'a [Vec<f32>],
    /// What submodels are worth.
    pub quality: &'a Quality,
    /// What reading takes.
    pub read: ReadCost,
    /// What computing takes when it takes long: what is planned with.
    pub compute: ComputeCost,
    /// What it usually takes: what is predicted.
    pub usual: ComputeCost,
    /// What is in memory.
    pub kept: &'a Kept,
    /// Whether single shards are given more bits than the others (the second pass).
    pub upgrades: bool,
    /// Whether a layer is read while the one before is computed; else all are read before the first.
    pub overlap: bool,
}

impl Planner<'_> {
    /// The best plan for a request.
    ///
    /// # Errors
    /// [`NoPlan`], which says why nothing is computed.
    pub fn plan(&self, asked: &Asked<'_>) -> Result<DeadlinePlan, NoPlan> {
        let all = asked.lengths.len();
        let (layers, slices) = (self.sizes.layers(), self.sizes.slices());
        let mut choices = Vec::new();
        for candidates in candidate_steps(all) {
            let share = self.quality.share(candidates, all);
            for n in 1..=layers {
                for m in 1..=slices {
                    let gain = self.quality.gain(n, m);
                    if gain > 0.0 {
                        choices.push((self.quality.input + gain * share, candidates, n, m));
                    }
                }
            }
        }
        if choices.is_empty() {
            return Err(NoPlan::NothingGained);
        }
        // The best first; of equals the larger submodel, then the deeper one (§5.3).
        choices.sort_by(|a, b| {
            b.0.total_cmp(&a.0).then((b.2 * b.3).cmp(&(a.2 * a.3))).then(b.2.cmp(&a.2))
        });
        let mut best: Option<DeadlinePlan> = None;
        let mut least_ms = f64::INFINITY;
        for (most, candidates, n, m) in choices {
            // Bits only ever cost: nothing that follows can be better.
            if best.as_ref().is_some_and(|it| it.quality >= most) {
                break;
            }
            match self.try_submodel(asked, candidates, n, m) {
                Ok(plan) if best.as_ref().is_none_or(|it| plan.quality > it.quality) => {
                    best = Some(plan);
                }
                Ok(_) => {}
                Err(needed) => least_ms = least_ms.min(needed),
            }
        }
        best.ok_or(NoPlan::TooShort { least_ms: least_ms + asked.elapsed_ms })
    }

    /// A plan for one submodel; else the milliseconds that it would need at least.
    fn try_submodel(
        &self,
        asked: &Asked<'_>,
        candidates: usize,
        layers: usize,
        width: usize,
    ) -> Result<DeadlinePlan, f64> {
        let lengths = &asked.lengths[..candidates];
        let load = Load::of(lengths);
        let rows_ms = asked.rows_ms.get(candidates - 1).copied().unwrap_or(0.0);
        let before = rows_ms + self.compute.embed_token * load.tokens;
        let compute = self.compute.layers_ms(load, width, layers);
        let computing: f64 = compute.iter().sum();
        let slack = usable(asked.deadline_ms - asked.elapsed_ms) - before - computing;
        let kept = self.kept.within(layers, width);
        let budgets = self.budgets(&compute, slack);
        let (bits, valid) =
            allocate(self.sizes, self.read, &budgets, &kept, self.importance, self.upgrades);
        let reading = self.reading(&bits, &kept);
        if !valid {
            let needed = before + self.finish(&compute, &reading);
            return Err((needed + MARGIN_MS) / (1.0 - MARGIN));
        }
        let usual = self.usual.layers_ms(load, width, layers);
        let usually = self.finish(&usual, &reading);
        let quality = self.quality.input
            + self.quality.gain(layers, width)
                * self.quality.share(candidates, asked.lengths.len())
            - self.quality.loss(&bits);
        Ok(DeadlinePlan {
            layers,
            width,
            candidates,
            predicted_ms: asked.elapsed_ms
                + rows_ms
                + self.usual.embed_token * load.tokens
                + usually,
            waiting_ms: rows_ms + usually - usual.iter().sum::<f64>(),
            budgets_ms: budget::left(&budgets, &reading),
            bits,
            quality,
        })
    }

    /// Milliseconds of layers that compute and are read for so long.
    fn finish(&self, compute: &[f64], reading: &[f64]) -> f64 {
        if self.overlap {
            return finish(compute, reading);
        }
        reading.iter().sum::<f64>() + compute.iter().sum::<f64>()
    }

    /// What reading may take until each layer begins.
    fn budgets(&self, compute: &[f64], slack: f64) -> Vec<f64> {
        if self.overlap {
            return accumulated_budgets(compute, slack, &[]);
        }
        // Nobody computes while something is read: what the layers before take is no time for it.
        vec![slack; compute.len()]
    }

    /// Milliseconds that the layers of a plan from `done` on wait for shards; those of layers before `free` are there
    /// after `coming_ms`.
    fn waiting(
        &self,
        load: Load,
        width: usize,
        (done, free): (usize, usize),
        bits: &Bits,
        coming_ms: f64,
    ) -> f64 {
        let compute = self.usual.layers_ms(load, width, bits.len().saturating_sub(done));
        let mut reading = self.reading(bits, self.kept).split_off(done.min(bits.len()));
        let begun = free.saturating_sub(done).min(reading.len());
        reading[..begun].fill(0.0);
        if let Some(first) = reading.first_mut() {
            *first += coming_ms;
        }
        finish(&compute, &reading) - compute.iter().sum::<f64>()
    }

    /// Milliseconds of reading for each layer.
    fn reading(&self, bits: &Bits, kept: &Kept) -> Vec<f64> {
        let of =
            |layer: usize| budget::reading_ms(self.sizes, self.read, layer, &bits[layer], kept);
        (0..bits.len()).map(of).collect()
    }

    /// The rest of a run at the border of a layer, `plan.layers` of it planned and `done` computed, with `remaining_ms`
    /// to the deadline: bits of layers that nobody has begun to read, from `free` on, and how many layers there are to
    /// be. Slack buys bits first, then depth; a run that is late ends sooner.
    ///
    /// `load` is that of the candidates that still run; `coming_ms` is what reading of layers before `free` still
    /// takes. Returns whether anything has changed.
    pub fn rest(
        &self,
        plan: &mut DeadlinePlan,
        done: usize,
        free: usize,
        load: Load,
        remaining_ms: f64,
        coming_ms: f64,
    ) -> bool {
        let free = free.max(done);
        let gain = |n: usize| self.quality.gain(n, plan.width);
        // The deepest that gains and can be done; where nothing more can, what has been done is all.
        let mut depths: Vec<usize> = (done + 1..=self.sizes.layers()).collect();
        depths.sort_by(|a, b| gain(*b).total_cmp(&gain(*a)).then(b.cmp(a)));
        for layers in depths {
            if gain(layers) <= gain(done) && done > 0 {
                break;
            }
            let compute = self.compute.layers_ms(load, plan.width, layers - done);
            // What was planned is given up for what is left of its margin, and nothing more is begun for that.
            let margin = if layers <= plan.layers { KEPT_MARGIN } else { 1.0 };
            let slack = without_margin(remaining_ms, margin) - compute.iter().sum::<f64>();
            let mut budgets = accumulated_budgets(&compute, slack, &[]);
            // What is on its way is read before anything else.
            budgets.iter_mut().for_each(|it| *it -= coming_ms);
            let first = free.min(layers);
            let rest = Rest { sizes: self.sizes, first };
            let kept = self.kept.within(layers, plan.width).from(first);
            let importance = self.importance.get(first..).unwrap_or(&[]);
            let own = &budgets[first - done..];
            let (bits, valid) = allocate(&rest, self.read, own, &kept, importance, self.upgrades);
            if slack < 0.0 || !(valid || bits.is_empty()) {
                continue;
            }
            let mut all: Bits = plan.bits.iter().take(first).cloned().collect();
            all.extend(bits);
            let changed = layers != plan.layers || all != plan.bits;
            let waiting =
                |bits: &Bits| self.waiting(load, plan.width, (done, free), bits, coming_ms);
            // What is waited for more bits is planned.
            plan.waiting_ms += (waiting(&all) - waiting(&plan.bits)).max(0.0);
            (plan.layers, plan.bits) = (layers, all);
            return changed;
        }
        let changed = plan.layers != done;
        plan.layers = done;
        plan.bits.truncate(done);
        changed
    }
}

/// The layers of a model from one on.
struct Rest<'a> {
    sizes: &'a dyn ShardSizes,
    first: usize,
}

impl ShardSizes for Rest<'_> {
    fn layers(&self) -> usize {
        self.sizes.layers() - self.first
    }

    fn slices(&self) -> usize {
        self.sizes.slices()
    }

    fn fidelities(&self) -> &[u8] {
        self.sizes.fidelities()
    }

    fn bytes(&self, layer: usize, slice: usize, bits: u8) -> usize {
        self.sizes.bytes(layer + self.first, slice, bits)
    }
}

/// Milliseconds that are planned with.
fn usable(ms: f64) -> f64 {
    without_margin(ms, 1.0)
}

/// Milliseconds without so many of the margins.
fn without_margin(ms: f64, margins: f64) -> f64 {
    ms * (1.0 - margins * MARGIN) - margins * MARGIN_MS
}

/// Milliseconds from the first read to the end of the last layer: one queue reads, layer by layer, and a layer begins
/// when it is there and the one before is done.
fn finish(compute: &[f64], reading: &[f64]) -> f64 {
    let (mut read, mut computed) = (0.0f64, 0.0f64);
    for (compute, reading) in compute.iter().zip(reading) {
        read += reading;
        computed = read.max(computed) + compute;
    }
    computed
}

/// Numbers of candidates that are tried, all of them first.
fn candidate_steps(all: usize) -> Vec<usize> {
    let mut steps: Vec<usize> =
        (1..=EIGHTHS).rev().map(|it| (all * it).div_ceil(EIGHTHS)).filter(|it| *it > 0).collect();
    steps.dedup();
    steps
}

#[cfg(test)]
mod tests;
