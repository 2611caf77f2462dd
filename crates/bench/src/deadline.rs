//! Deadlines measured: the same planner with all its means and with some taken away, on devices of several speeds.
//!
//! Every system gets the best submodel for the time that its means allow, planned by the same functions: what differs
//! is which fidelities there are, whether reading and computing overlap, and what is in memory before. A device is a
//! rated queue for shards and embedding rows (latency, then bytes by rate), because control groups let bursts through
//! within a deadline. Cold means that nothing is in memory but what the buffer keeps.

mod report;

use std::{sync::Arc, time::Duration};

use riddle_rag::{
    Config,
    rerank::{
        DeadlineProfile, ElasticEngine, ElasticOptions, LabelledRequest, RatedDevice, Run,
        ShardNumbers, Within, open_elastic, request_prior,
    },
};
use riddle_types::{DeadlineEnd, DeadlineReport, Prior, RerankOutcome, SilentObserver};
use serde::Serialize;

pub use report::{deadline_summary, deadline_table};

use crate::{Error, Result};

/// Results whose order counts.
const DEPTH: usize = 10;

/// What is measured.
#[derive(Debug, Clone)]
pub struct DeadlineOptions {
    /// Where the model is and its shards go.
    pub config: Config,
    /// The model, by name or directory.
    pub model: String,
    /// What its shards are made of.
    pub numbers: ShardNumbers,
    /// Questions, with what is relevant.
    pub requests: Vec<LabelledRequest>,
    /// Megabytes a second of the devices; the real one for none.
    pub rates: Vec<Option<f64>>,
    /// Milliseconds.
    pub deadlines_ms: Vec<f64>,
    /// Bytes that are kept between requests.
    pub buffers: Vec<u64>,
    /// Candidates of a request.
    pub candidates: Vec<usize>,
    /// Threads; `None`: the configuration's.
    pub threads: Option<usize>,
    /// Orders drawn at random that importance is held against.
    pub random_orders: u64,
    /// Systems by their names; all for none.
    pub systems: Vec<String>,
}

/// What a system may do.
#[derive(Debug, Clone, PartialEq)]
struct System {
    name: String,
    bits: Option<Vec<u8>>,
    overlap: bool,
    upgrades: bool,
    /// Shuffles importance by this seed.
    shuffled: Option<u64>,
    buffer: Buffer,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Buffer {
    None,
    /// So much as is asked for.
    Asked,
    /// The whole model.
    All,
}

/// What is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// nDCG@10 of the order.
    Ndcg,
    /// Of requests with one document each: whether it is called relevant (a score of 0 or more) and is, or neither.
    /// What is not read is called relevant.
    Accuracy,
}

impl Measure {
    fn of(requests: &[LabelledRequest]) -> Measure {
        let single = requests.iter().all(|it| it.request.documents.len() == 1);
        if single { Measure::Accuracy } else { Measure::Ndcg }
    }

    /// As tables call it.
    fn name(self) -> &'static str {
        match self {
            Measure::Ndcg => "nDCG@10",
            Measure::Accuracy => "accuracy",
        }
    }

    /// Of a request's outcome, and of what was given.
    fn measure(self, outcome: &RerankOutcome, relevant: &[f32]) -> (f64, f64) {
        match self {
            Measure::Ndcg => {
                let order: Vec<usize> = outcome.ranked.iter().map(|it| it.index).collect();
                let given: Vec<usize> = (0..order.len()).collect();
                (ndcg(&order, relevant), ndcg(&given, relevant))
            }
            Measure::Accuracy => {
                let is_relevant = relevant.first().is_some_and(|it| *it > 0.0);
                let read = outcome.deadline.as_ref().is_none_or(is_read);
                let score = outcome.ranked.first().map_or(0.0, |it| it.raw_score);
                let called = !read || score >= 0.0;
                let right = |called: bool| f64::from(u8::from(called == is_relevant));
                (right(called), right(true))
            }
        }
    }
}

/// Whether anything was computed.
fn is_read(report: &DeadlineReport) -> bool {
    matches!(report.end, DeadlineEnd::Ranked | DeadlineEnd::Provisional)
}

/// A cell of the grid.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeadlineCell {
    /// Megabytes a second; `None`: the real disk.
    pub rate: Option<f64>,
    /// Milliseconds.
    pub deadline_ms: f64,
    /// Candidates.
    pub candidates: usize,
    /// Bytes kept by plan.
    pub buffer_bytes: u64,
    /// Who.
    pub system: String,
    /// Questions.
    pub questions: usize,
    /// Share of them for which there was a plan.
    pub planned: f64,
    /// Share of the planned ones that were ranked in time.
    pub met: f64,
    /// Of the planned ones, took / deadline: median, 95th and 99th percentile.
    pub took: [f64; 3],
    /// Of what the next two are means.
    pub measure: Measure,
    /// Where there was no plan that of what was given.
    pub quality: f64,
    /// Of what was given.
    pub given_quality: f64,
    /// |predicted − took| / deadline, 90th percentile.
    pub prediction_error: f64,
    /// Means over the planned ones: layers, width, candidates read, bits.
    pub submodel: [f64; 4],
    /// Mean milliseconds that computing waited for the device.
    pub stall_ms: f64,
    /// Milliseconds of these beyond those that were planned (rows, the first layer), 90th percentile. Where computing
    /// is quicker than it was thought to be, it waits for as much longer.
    pub late_ms: f64,
    /// Milliseconds of the latter by which the order was later than predicted, 90th percentile.
    pub delayed_ms: f64,
    /// Mean bytes read.
    pub bytes_read: f64,
    /// Bytes of weights in memory between requests: shards, small parts, rows, head.
    pub kept_bytes: u64,
}

/// Latency of a device of such a rate: of eMMC and SD, of a small and of a large SSD.
fn latency(rate: f64) -> Duration {
    Duration::from_micros(match rate {
        rate if rate < 100.0 => 200,
        rate if rate < 300.0 => 150,
        _ => 80,
    })
}

/// The planner with all its means.
const STI: &str = "STI";

/// The same where any shard counts as much as any other; a number follows.
const RANDOM: &str = "STI, random importance";

/// How devices are read without a plan.
const LOADING: [&str; 2] = ["load, then execute", "pipeline"];

/// Everything in memory as it is, of bytes or of numbers.
const PRELOADED: [&str; 2] = ["preloaded, 8 bits", "preloaded, 32 bits"];

/// Bits of the shards that lose nothing.
fn exact_bits(numbers: ShardNumbers) -> u8 {
    match numbers {
        ShardNumbers::Int8 => 8,
        ShardNumbers::F32 => 32,
    }
}

fn systems(random_orders: u64, exact: u8) -> Vec<System> {
    let sti = System {
        name: STI.to_owned(),
        bits: None,
        overlap: true,
        upgrades: true,
        shuffled: None,
        buffer: Buffer::Asked,
    };
    let none = System { buffer: Buffer::None, ..sti.clone() };
    let mut all = vec![
        sti.clone(),
        System { name: "STI, no buffer".to_owned(), ..none.clone() },
        System { name: "STI, one pass".to_owned(), upgrades: false, ..sti.clone() },
        System {
            name: format!("load, then execute, {exact} bits"),
            bits: Some(vec![exact]),
            overlap: false,
            ..none.clone()
        },
    ];
    for seed in 1..=random_orders {
        all.push(System { name: format!("{RANDOM} {seed}"), shuffled: Some(seed), ..sti.clone() });
    }
    for bits in [2, 3, 4, 5, 6, exact] {
        let name = format!("pipeline, {bits} bits");
        all.push(System { name, bits: Some(vec![bits]), ..none.clone() });
    }
    for bits in [6, exact] {
        let name = format!("preloaded, {bits} bits");
        all.push(System { name, bits: Some(vec![bits]), buffer: Buffer::All, ..none.clone() });
    }
    all
}

/// Measures every cell; `progress` sees each as it is done, and may stop.
///
/// # Errors
/// A model that can not be used, or a stop.
pub fn measure_deadlines(
    options: &DeadlineOptions,
    progress: &mut dyn FnMut(&DeadlineCell) -> std::ops::ControlFlow<()>,
) -> Result<Vec<DeadlineCell>> {
    let wanted = |it: &System| options.systems.is_empty() || options.systems.contains(&it.name);
    let systems = systems(options.random_orders, exact_bits(options.numbers));
    if let Some(name) = options.systems.iter().find(|it| !systems.iter().any(|x| x.name == **it)) {
        let known: Vec<&str> = systems.iter().map(|it| it.name.as_str()).collect();
        return Err(Error::NoSystem { name: name.clone(), known: known.join("; ") });
    }
    let systems: Vec<System> = systems.into_iter().filter(wanted).collect();
    let mut cells = Vec::new();
    let priors: Vec<Vec<f32>> = options
        .requests
        .iter()
        .map(|it| request_prior(&options.config, &options.model, &it.request))
        .collect::<Result<_, riddle_rag::Error>>()?;
    for &rate in &options.rates {
        for system in systems.iter().cloned() {
            let engine = open(options, rate, &system)?;
            for &candidates in &options.candidates {
                for &buffer in &options.buffers {
                    if system.buffer != Buffer::Asked && Some(&buffer) != options.buffers.first() {
                        continue;
                    }
                    for &deadline_ms in &options.deadlines_ms {
                        let place = Place { rate, deadline_ms, candidates, buffer };
                        let cell = measure(options, &priors, &engine, &system, place)?;
                        let stop = progress(&cell).is_break();
                        cells.push(cell);
                        if stop {
                            return Ok(cells);
                        }
                    }
                }
            }
        }
    }
    Ok(cells)
}

fn open(options: &DeadlineOptions, rate: Option<f64>, system: &System) -> Result<ElasticEngine> {
    let device = rate.map(|it| Arc::new(RatedDevice::new(latency(it), it * 1e6)));
    let adjust = |mut profile: DeadlineProfile| {
        if let Some(rate) = rate {
            profile.machine.read.latency = latency(rate).as_secs_f64() * 1e3;
            profile.machine.read.mebibyte = 1048.576 / rate;
        }
        if let Some(seed) = system.shuffled {
            shuffle(&mut profile.learned.importance, seed);
        }
        profile
    };
    let elastic = ElasticOptions {
        threads: options.threads.unwrap_or(options.config.threads),
        device,
        direct_io: rate.is_none(),
        upgrades: system.upgrades,
        bits: system.bits.clone(),
        overlap: system.overlap,
        ..ElasticOptions::default()
    };
    Ok(open_elastic(&options.config, &options.model, options.numbers, elastic, &adjust)?)
}

/// Shuffles, by a fixed generator.
fn shuffle(importance: &mut [Vec<f32>], seed: u64) {
    let mut flat: Vec<f32> = importance.iter().flatten().copied().collect();
    let mut state = seed;
    for last in (1..flat.len()).rev() {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        flat.swap(last, (state >> 33) as usize % (last + 1));
    }
    let mut values = flat.into_iter();
    for value in importance.iter_mut().flatten() {
        *value = values.next().unwrap_or(0.0);
    }
}

#[derive(Clone, Copy)]
struct Place {
    rate: Option<f64>,
    deadline_ms: f64,
    candidates: usize,
    buffer: u64,
}

fn measure(
    options: &DeadlineOptions,
    priors: &[Vec<f32>],
    engine: &ElasticEngine,
    system: &System,
    place: Place,
) -> Result<DeadlineCell> {
    let buffer = match system.buffer {
        Buffer::None => 0,
        Buffer::Asked => place.buffer,
        Buffer::All => u64::from(u32::MAX),
    };
    engine.keep(buffer);
    engine.shrink_to(0);
    let deadline = Duration::from_secs_f64(place.deadline_ms / 1e3);
    let measure = Measure::of(&options.requests);
    let mut sums = Sums::default();
    let mut kept_bytes = 0;
    let all = options.requests.iter().zip(priors);
    for (number, (labelled, prior)) in all.enumerate() {
        let count = place.candidates.min(labelled.request.documents.len());
        let texts = labelled.request.texts();
        let texts = &texts[..count];
        let prior = prior.get(..count).unwrap_or(&[]);
        let how = Run::FULL;
        let run = |within: Within| {
            let query = &labelled.request.query;
            engine
                .run(how, within, query, texts, Prior::always(prior), count, &mut SilentObserver)
                .map_err(|error| Error::Rerank(error.into()))
        };
        if number == 0 && buffer > 0 {
            // What is kept between requests comes from the one before.
            let warm = if system.buffer == Buffer::All {
                Within::from_now(Duration::from_secs(60))
            } else {
                Within::from_now(deadline)
            };
            run(warm)?;
        }
        engine.shrink_to(buffer);
        kept_bytes = kept_bytes.max(engine.resident_weight_bytes());
        let outcome = run(Within::from_now(deadline))?;
        let relevant = &labelled.relevant[..count.min(labelled.relevant.len())];
        let quality = measure.measure(&outcome, relevant);
        sums.add(outcome.deadline.as_ref(), outcome.stats.io_wait_ms, quality);
    }
    let buffer = if system.buffer == Buffer::All { 0 } else { buffer };
    let system = (system.name.clone(), buffer, kept_bytes);
    Ok(sums.cell(system, place, measure))
}

/// What questions add up to.
#[derive(Default)]
struct Sums {
    questions: usize,
    planned: usize,
    met: usize,
    took: Vec<f64>,
    errors: Vec<f64>,
    quality: f64,
    given: f64,
    submodel: [f64; 4],
    stall: f64,
    late: Vec<f64>,
    delayed: Vec<f64>,
    bytes: f64,
}

impl Sums {
    fn add(&mut self, report: Option<&DeadlineReport>, stall: f64, (own, given): (f64, f64)) {
        self.questions += 1;
        self.given += given;
        self.quality += own;
        let Some(report) = report else { return };
        if matches!(report.end, DeadlineEnd::TooShort | DeadlineEnd::NothingGained) {
            return;
        }
        self.planned += 1;
        self.met += usize::from(report.met);
        self.took.push(report.took_ms / report.target_ms);
        let Some(plan) = &report.plan else { return };
        self.errors.push((plan.predicted_ms - report.took_ms).abs() / report.target_ms);
        let shards = plan.bits.iter().flatten();
        let count = shards.clone().count().max(1) as f64;
        let bits = shards.map(|it| f64::from(*it)).sum::<f64>() / count;
        let own = [f64::from(plan.layers), f64::from(plan.width), f64::from(plan.candidates), bits];
        for (sum, own) in self.submodel.iter_mut().zip(own) {
            *sum += own;
        }
        self.stall += stall;
        let late = (stall - plan.waiting_ms).max(0.0);
        self.late.push(late);
        self.delayed.push(late.min((report.took_ms - plan.predicted_ms).max(0.0)));
        self.bytes += plan.bytes_read as f64;
    }

    /// `system`: its name, the bytes that it keeps by plan, and those that it kept.
    fn cell(mut self, system: (String, u64, u64), place: Place, measure: Measure) -> DeadlineCell {
        let (all, planned) = (self.questions.max(1) as f64, self.planned.max(1) as f64);
        let (system, buffer_bytes, kept_bytes) = system;
        DeadlineCell {
            rate: place.rate,
            deadline_ms: place.deadline_ms,
            candidates: place.candidates,
            buffer_bytes,
            system,
            questions: self.questions,
            planned: self.planned as f64 / all,
            met: self.met as f64 / planned,
            took: [0.5, 0.95, 0.99].map(|it| percentile(&mut self.took, it)),
            measure,
            quality: self.quality / all,
            given_quality: self.given / all,
            prediction_error: percentile(&mut self.errors, 0.9),
            submodel: self.submodel.map(|it| it / planned),
            stall_ms: self.stall / planned,
            late_ms: percentile(&mut self.late, 0.9),
            delayed_ms: percentile(&mut self.delayed, 0.9),
            bytes_read: self.bytes / planned,
            kept_bytes,
        }
    }
}

fn percentile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    values.get((last as f64 * share).ceil() as usize).copied().unwrap_or(0.0)
}

/// nDCG@10 of an order.
fn ndcg(order: &[usize], relevant: &[f32]) -> f64 {
    let dcg = |gains: &mut dyn Iterator<Item = f32>| -> f64 {
        let of = |(place, gain): (usize, f32)| f64::from(gain) / ((place + 2) as f64).log2();
        gains.take(DEPTH).enumerate().map(of).sum()
    };
    let mut best = relevant.to_vec();
    best.sort_by(|a, b| b.total_cmp(a));
    let ideal = dcg(&mut best.into_iter());
    let gain = |it: &usize| relevant.get(*it).copied().unwrap_or(0.0);
    if ideal > 0.0 { dcg(&mut order.iter().map(gain)) / ideal } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use riddle_types::Ranked;

    use super::*;

    #[test]
    fn figures_are_what_they_are_called() {
        assert_eq!(percentile(&mut [3.0, 1.0, 2.0], 0.5), 2.0);
        assert_eq!(percentile(&mut [], 0.5), 0.0);
        assert!((ndcg(&[2, 0, 1], &[0.0, 0.0, 1.0]) - 1.0).abs() < 1e-12);
        assert!(ndcg(&[0, 1, 2], &[0.0, 0.0, 1.0]) < 0.6);
    }

    #[test]
    fn a_single_text_is_called_relevant_or_not() {
        let outcome = |raw_score: f32, end: DeadlineEnd| {
            let ranked = Ranked { index: 0, raw_score, score: 0.5, decided_at_layer: 1 };
            let deadline = DeadlineReport {
                target_ms: 1.0,
                took_ms: 1.0,
                met: true,
                end,
                least_ms: None,
                plan: None,
            };
            RerankOutcome {
                ranked: vec![ranked],
                deadline: Some(deadline),
                ..RerankOutcome::default()
            }
        };
        for (score, end, relevant, right) in [
            (0.3, DeadlineEnd::Ranked, 1.0, 1.0),
            (-0.3, DeadlineEnd::Ranked, 1.0, 0.0),
            (-0.3, DeadlineEnd::Provisional, 0.0, 1.0),
            // Nothing was read: called relevant.
            (-0.3, DeadlineEnd::TooShort, 1.0, 1.0),
            (-0.3, DeadlineEnd::NothingGained, 0.0, 0.0),
        ] {
            let (own, given) = Measure::Accuracy.measure(&outcome(score, end), &[relevant]);
            assert_eq!((own, given), (right, f64::from(relevant)), "{score} {end:?} {relevant}");
        }
    }

    #[test]
    fn shuffling_keeps_every_value() {
        let before: Vec<Vec<f32>> =
            (0..4).map(|l| (0..12).map(|s| (l * 12 + s) as f32).collect()).collect();
        let mut after = before.clone();
        shuffle(&mut after, 1);
        assert_ne!(before, after);
        let mut flat: Vec<f32> = after.into_iter().flatten().collect();
        flat.sort_by(f32::total_cmp);
        assert_eq!(flat, before.into_iter().flatten().collect::<Vec<_>>());
    }

    #[test]
    fn every_system_has_a_name_of_its_own() {
        let mut names: Vec<String> = systems(5, 32).into_iter().map(|it| it.name).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
