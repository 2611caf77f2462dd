//! Calibration (§4.1, "minimum precision target"): from recorded full forwards to a threshold.
//!
//! Candidates do not influence each other, so a recorded run can be replayed under every threshold
//! without computing. [`calibrate`] does that for a set of requests and keeps the whole curve: what each
//! threshold would have spared and what it would have got wrong. A threshold is then looked up for the
//! precision that somebody wants ([`Calibration::threshold_for`]), a factor for the error probability
//! that somebody allows ([`Calibration::policy_for`], see [`bounded`](crate::BoundedError)).
//!
//! Precision here is against the full forward: the share of its top-k that the pruned run returns too.
//! Whether the full forward is right about the world is the model's business.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::{
    BoundedError, ClusterPruning, Error, Mode, PruningPolicy, Result, Trace,
    bounded::{Bounded, Guarantee},
    sample::{Measured, Outcome, Sample},
    sweep::{Steps, candidates},
};

/// Version of the format; a calibration of another is made anew.
pub const CALIBRATION_VERSION: u32 = 1;

/// What to calibrate for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CalibrationOptions {
    /// Modes that prune.
    pub modes: Vec<Mode>,
    /// Sizes of the result.
    pub top_ks: Vec<usize>,
    /// Numbers of candidates, each of which gets tables of its own, from the requests with at most so many and more
    /// than the next smaller number; empty: all requests together.
    pub sizes: Vec<usize>,
    /// Most thresholds on a curve, besides 0 and never.
    pub max_points: usize,
}

impl Default for CalibrationOptions {
    /// Both modes, the sizes that the paper reports (§6.2), and the app's.
    fn default() -> Self {
        CalibrationOptions {
            modes: vec![Mode::Set, Mode::Order],
            top_ks: vec![1, 5, 10, 20],
            sizes: Vec::new(),
            // Neighbors on a curve of 200 differ in half a percent of the decisions.
            max_points: 200,
        }
    }
}

/// One threshold of a curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// Dispersion threshold; `None`: never pruned.
    pub threshold: Option<f32>,
    /// What it does.
    #[serde(flatten)]
    pub measured: Measured,
}

/// The curves for one mode and size of the result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CalibrationTable {
    /// What pruning may change.
    pub mode: Mode,
    /// Size of the result.
    pub top_k: usize,
    /// Whether the scores had a retrieval prior in them; `None`: the file is from before that was noted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prior: Option<bool>,
    /// Most candidates of the requests that it was learned from; `None`: those of the whole calibration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidates: Option<usize>,
    /// Cluster pruning by threshold, ascending; the last one never prunes.
    pub curve: Vec<CurvePoint>,
    /// Pruning with a stated error probability.
    pub bounded: Bounded,
}

/// Everything learned about one model, as it is kept in a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// [`CALIBRATION_VERSION`].
    pub version: u32,
    /// Name of the model, for people.
    pub model: String,
    /// Identity of the model's files, given by the caller.
    pub fingerprint: String,
    /// Layers of the model.
    pub num_layers: u32,
    /// Requests it was made from.
    pub queries: usize,
    /// Fewest and most candidates of a request: far beyond them the figures say little.
    pub candidates: (usize, usize),
    /// One per mode and size of the result.
    pub tables: Vec<CalibrationTable>,
}

/// Which figure has to meet a wanted precision.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Meets {
    /// The mean over the recorded requests, as in the paper.
    #[default]
    Mean,
    /// The lower bound of the expectation: it holds for requests to come, in nineteen of twenty
    /// calibrations.
    Bound,
}

impl CalibrationTable {
    /// Whether what was learned holds for scores with a retrieval prior in them, or for those without. The prior
    /// decides most of the order of early layers: margins learned with it are far too small without it.
    pub fn with_prior(&self) -> bool {
        // Before it was noted, a table learned with a prior could be told by the margin of that.
        self.prior.unwrap_or(self.bounded.prior_margin.is_some())
    }

    /// The lowest threshold that meets `precision` and above which every threshold meets it too: a
    /// threshold that is only lucky stands below one that is not. `None` if only the full forward does.
    ///
    /// Walking down from the full forward and stopping at the first failure is also what keeps
    /// [`Meets::Bound`] honest: hypotheses tested in a fixed order need no correction for their number
    /// (fixed-sequence testing; Angelopoulos et al., *Learn then Test*, §3.2). The thresholds are those
    /// that occur in the data, so the order is fixed up to their spacing.
    pub fn threshold_for(&self, precision: f64, meets: Meets) -> Option<&CurvePoint> {
        let meets = |it: &&CurvePoint| match meets {
            Meets::Mean => it.measured.precision >= precision,
            Meets::Bound => it.measured.precision_bound >= precision,
        };
        let thresholds = self.curve.iter().rev().filter(|it| it.threshold.is_some());
        thresholds.take_while(meets).last()
    }
}

impl Calibration {
    /// The curves for a mode and a size of the result: with a prior, where the requests had one.
    pub fn table(&self, mode: Mode, top_k: usize) -> Option<&CalibrationTable> {
        self.tables.iter().find(|it| it.mode == mode && it.top_k == top_k)
    }

    /// The curves that were learned from requests of the least size that is not below `candidates`; beyond the largest
    /// those of the largest, which promise nothing there.
    pub fn tables_for(&self, candidates: usize) -> impl Iterator<Item = &CalibrationTable> {
        let sizes = || self.tables.iter().map(|it| self.most_candidates(it));
        let size = sizes().filter(|it| *it >= candidates).min().or_else(|| sizes().max());
        self.tables.iter().filter(move |it| Some(self.most_candidates(it)) == size)
    }

    /// Of [`tables_for`](Self::tables_for) so many candidates the curves for a mode, with a prior or without, of the
    /// least size of the result that is not below `top_k`.
    pub fn table_from(
        &self,
        mode: Mode,
        top_k: usize,
        with_prior: bool,
        candidates: usize,
    ) -> Option<&CalibrationTable> {
        let fits = |it: &&CalibrationTable| {
            it.mode == mode && it.top_k >= top_k && it.with_prior() == with_prior
        };
        self.tables_for(candidates).filter(fits).min_by_key(|it| it.top_k)
    }

    /// Numbers of candidates of the requests that a table was learned from, or would have been.
    pub fn sizes_of(&self, table: &CalibrationTable) -> RangeInclusive<usize> {
        let most = self.most_candidates(table);
        let smaller = self.tables.iter().map(|it| self.most_candidates(it)).filter(|it| *it < most);
        smaller.max().map_or(0, |it| it + 1)..=most
    }

    fn most_candidates(&self, table: &CalibrationTable) -> usize {
        table.candidates.unwrap_or(self.candidates.1)
    }

    /// [`CalibrationTable::threshold_for`] of the table for `mode` and `top_k`.
    pub fn threshold_for(
        &self,
        precision: f64,
        top_k: usize,
        mode: Mode,
        meets: Meets,
    ) -> Option<&CurvePoint> {
        self.table(mode, top_k)?.threshold_for(precision, meets)
    }

    /// The policy that errs with at most the given probability; `None` if there is no such table, or too
    /// few requests were recorded to promise that little.
    pub fn policy_for(
        &self,
        probability: f64,
        top_k: usize,
        mode: Mode,
        guarantee: Guarantee,
    ) -> Option<BoundedError> {
        self.table(mode, top_k)?.bounded.policy_for(probability, guarantee)
    }
}

/// Learns from recorded full forwards what each threshold spares and costs. Of requests with a retrieval prior it is
/// learned twice, with it and without: a search may lack what the prior is made of.
///
/// # Errors
/// [`Error::BadOption`] without a mode that prunes, a size of the result, or a request with candidates;
/// [`Error::NotReplayable`] for traces that are no full forward, or of different models.
pub fn calibrate(
    model: &str,
    fingerprint: &str,
    traces: &[Trace],
    options: &CalibrationOptions,
) -> Result<Calibration> {
    if options.modes.is_empty() || options.modes.contains(&Mode::Off) {
        return Err(Error::BadOption("calibrate for mode set or order: off prunes nobody".into()));
    }
    if options.top_ks.is_empty() || options.top_ks.contains(&0) {
        return Err(Error::BadOption("calibrate for results of at least 1".into()));
    }
    let samples = Sample::all(traces)?;
    let sizes = || samples.iter().map(|it| it.candidates);
    let (Some(least), Some(most)) = (sizes().min(), sizes().max()) else {
        return Err(Error::BadOption(
            "there is no request with documents to calibrate with: record some".into(),
        ));
    };
    let mut tables = Vec::new();
    if options.sizes.is_empty() {
        tables = tables_of(traces, None, options)?;
    }
    let mut sizes = options.sizes.clone();
    sizes.sort_unstable();
    sizes.dedup();
    if sizes.last().is_some_and(|it| *it < most) {
        return Err(Error::BadOption(format!(
            "a request has {most} candidates: calibrate for as many"
        )));
    }
    let mut smaller = None;
    for size in sizes {
        let of_size = |it: &&Trace| {
            let candidates = it.candidates();
            candidates <= size && smaller.is_none_or(|smaller| candidates > smaller)
        };
        let traces: Vec<Trace> = traces.iter().filter(of_size).cloned().collect();
        tables.extend(tables_of(&traces, Some(size), options)?);
        smaller = Some(size);
    }
    Ok(Calibration {
        version: CALIBRATION_VERSION,
        model: model.to_owned(),
        fingerprint: fingerprint.to_owned(),
        num_layers: samples[0].trace.num_layers,
        queries: samples.len(),
        candidates: (least, most),
        tables,
    })
}

/// What is learned from requests of one kind of size.
fn tables_of(
    traces: &[Trace],
    candidates: Option<usize>,
    options: &CalibrationOptions,
) -> Result<Vec<CalibrationTable>> {
    let known: Vec<Trace> = traces.iter().filter(|it| !it.prior.is_empty()).cloned().collect();
    let unknown: Vec<Trace> = traces.iter().map(Trace::without_prior).collect();
    let mut tables = Vec::new();
    for (prior, traces) in [(true, &known), (false, &unknown)] {
        let samples = Sample::all(traces)?;
        if samples.is_empty() {
            continue;
        }
        for &mode in &options.modes {
            for &top_k in &options.top_ks {
                tables.push(CalibrationTable {
                    mode,
                    top_k,
                    prior: Some(prior),
                    candidates,
                    curve: curve(&samples, mode, top_k, options.max_points)?,
                    bounded: Bounded::learn(&samples, mode, top_k)?,
                });
            }
        }
    }
    Ok(tables)
}

fn curve(
    samples: &[Sample<'_>],
    mode: Mode,
    top_k: usize,
    max_points: usize,
) -> Result<Vec<CurvePoint>> {
    let steps = samples.iter().map(|it| Steps::of(it, mode, top_k)).collect::<Result<Vec<_>>>()?;
    let mut points: Vec<CurvePoint> = candidates(&steps, max_points)
        .into_iter()
        .map(|threshold| CurvePoint {
            threshold: Some(threshold),
            measured: Measured::mean(steps.iter().map(|it| it.at(threshold))),
        })
        .collect();
    // The full forward differs from itself in nothing: no sample is needed to know that.
    let full = samples.iter().map(Sample::full_outcome).collect::<Vec<_>>();
    let measured = Measured { precision_bound: 1.0, ..Measured::mean(full.iter()) };
    points.push(CurvePoint { threshold: None, measured });
    Ok(points)
}

/// What a policy does to recorded requests: for those that a calibration has not seen, so that a chosen
/// threshold can be checked.
///
/// # Errors
/// [`Error::NotReplayable`] for traces that are no full forward, or of different models.
pub fn evaluate(
    traces: &[Trace],
    policy: &dyn PruningPolicy,
    mode: Mode,
    top_k: usize,
) -> Result<Measured> {
    let samples = Sample::all(traces)?;
    let outcomes: Result<Vec<Outcome>> =
        samples.iter().map(|it| it.replay(policy, mode, top_k)).collect();
    Ok(Measured::mean(outcomes?.iter()))
}

/// [`evaluate`] at a dispersion threshold.
///
/// # Errors
/// As [`evaluate`].
pub fn evaluate_threshold(
    traces: &[Trace],
    threshold: f32,
    mode: Mode,
    top_k: usize,
) -> Result<Measured> {
    evaluate(traces, &ClusterPruning::new(threshold), mode, top_k)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{NeverPrune, replay, sample::tests::Noise};

    fn options(mode: Mode, top_k: usize) -> CalibrationOptions {
        CalibrationOptions {
            modes: vec![mode],
            top_ks: vec![top_k],
            max_points: 50,
            ..CalibrationOptions::default()
        }
    }

    /// The twin of the staircase: everything by one replay per request and threshold.
    fn naive(traces: &[Trace], threshold: f32, mode: Mode, k: usize) -> (f64, f64, f64, f64) {
        let n = traces.len() as f64;
        let mut sum = (0.0, 0.0, 0.0, 0.0);
        for trace in traces {
            let full = replay(trace, &NeverPrune, Mode::Off, k).expect("replays");
            let pruned = replay(trace, &ClusterPruning::new(threshold), mode, k).expect("replays");
            let kept =
                pruned.ranked.iter().filter(|a| full.ranked.iter().any(|b| a.index == b.index));
            sum.0 += kept.count() as f64 / full.ranked.len() as f64 / n;
            let candidates = trace.layers[0].active.len() as f64;
            sum.1 += pruned.candidate_layers as f64 / candidates / 5.0 / n;
            sum.2 += f64::from(pruned.layers_run) / n;
            // The layers' times are 1 to 5 ms.
            let ms =
                (1..).zip(&pruned.active).map(|(ms, &it)| f64::from(ms) * it as f64 / candidates);
            sum.3 += ms.sum::<f64>() / 15.0 / n;
        }
        sum
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn the_curve_is_what_replaying_every_threshold_gives(
            seed in any::<u64>(), k in 1usize..8, order in any::<bool>(), extra in 0f32..2.0,
        ) {
            let mode = if order { Mode::Order } else { Mode::Set };
            let traces = Noise(seed).traces(6);
            let calibration = calibrate("m", "f", &traces, &options(mode, k)).expect("calibrates");
            let curve = &calibration.tables[0].curve;
            prop_assert_eq!(curve[0].threshold, Some(0.0));
            for point in curve.iter().step_by(5) {
                let Some(threshold) = point.threshold else { continue };
                let (precision, share, layers, latency) = naive(&traces, threshold, mode, k);
                prop_assert!((point.measured.precision - precision).abs() < 1e-9);
                prop_assert!((point.measured.candidate_layers_share - share).abs() < 1e-9);
                prop_assert!((point.measured.layers_run - layers).abs() < 1e-9);
                prop_assert!((point.measured.latency_share.expect("times") - latency).abs() < 1e-9);
            }
            // Between the points too: any threshold is that of the step it stands on.
            let steps = Sample::all(&traces).expect("samples").iter()
                .map(|it| Steps::of(it, mode, k).expect("steps")).collect::<Vec<_>>();
            let measured = Measured::mean(steps.iter().map(|it| it.at(extra)));
            let evaluated = evaluate_threshold(&traces, extra, mode, k).expect("evaluates");
            prop_assert_eq!(measured, evaluated);
        }

        #[test]
        fn the_chosen_threshold_and_all_above_meet_the_target(seed in any::<u64>(), target in 0.5f64..1.0) {
            let traces = Noise(seed).traces(12);
            let calibration = calibrate("m", "f", &traces, &options(Mode::Set, 3)).expect("calibrates");
            for meets in [Meets::Mean, Meets::Bound] {
                let value = |it: &CurvePoint| match meets {
                    Meets::Mean => it.measured.precision,
                    Meets::Bound => it.measured.precision_bound,
                };
                let curve = &calibration.tables[0].curve;
                let chosen = calibration.threshold_for(target, 3, Mode::Set, meets);
                let from = chosen.map_or(curve.len() - 1, |it| {
                    curve.iter().position(|point| point == it).expect("on the curve")
                });
                prop_assert!(curve[from..].iter().all(|it| value(it) >= target));
                prop_assert!(from == 0 || value(&curve[from - 1]) < target);
            }
        }
    }

    #[test]
    fn what_is_learned_with_a_prior_is_kept_apart_from_what_is_not() {
        let mut noise = Noise(9);
        let known: Vec<Trace> = (0..24).map(|_| noise.known()).collect();
        let options = CalibrationOptions { top_ks: vec![2, 5], ..options(Mode::Order, 2) };
        let learned = calibrate("m", "f", &known, &options).expect("calibrates");
        let kinds: Vec<(usize, bool)> =
            learned.tables.iter().map(|it| (it.top_k, it.with_prior())).collect();
        assert_eq!(kinds, [(2, true), (5, true), (2, false), (5, false)]);
        // As if nobody had known anything: the same tables as of requests without a prior.
        let unknown: Vec<Trace> = known.iter().map(Trace::without_prior).collect();
        let alone = calibrate("m", "f", &unknown, &options).expect("calibrates");
        assert_eq!(alone.tables, learned.tables[2..]);
        let of = |top_k, prior| {
            let found = learned.table_from(Mode::Order, top_k, prior, 1)?;
            Some((found.top_k, found.with_prior()))
        };
        assert_eq!([of(1, true), of(2, false)], [Some((2, true)), Some((2, false))]);
        assert_eq!([of(3, true), of(6, true)], [Some((5, true)), None]);
        // A file from before this was noted.
        let mut old = learned;
        old.tables.iter_mut().for_each(|it| it.prior = None);
        assert!(old.tables[0].with_prior() && !old.tables[2].with_prior());
    }

    #[test]
    fn requests_of_another_size_have_tables_of_their_own() {
        let few = Noise(11).traces(12);
        // The same with twenty-four more, of which nobody is anything.
        let many = few.clone().into_iter().map(|mut trace| {
            for event in &mut trace.layers {
                let n = event.active.len();
                event.active.extend(n..n + 24);
                let scores = if event.scores.is_empty() { 0 } else { 24 };
                event.scores.extend((0..scores).map(|it| -9.0 - it as f32));
            }
            trace
        });
        let many: Vec<Trace> = many.collect();
        let of = |traces: &[Trace], sizes: &[usize]| {
            let sizes = sizes.to_vec();
            calibrate("m", "f", traces, &CalibrationOptions { sizes, ..options(Mode::Order, 2) })
        };
        let all = [few.clone(), many.clone()].concat();
        let learned = of(&all, &[50, 23]).expect("calibrates");
        assert_eq!((learned.queries, learned.tables.len()), (24, 2));
        // As if there were no others.
        for (place, (size, traces)) in [(23, &few), (50, &many)].into_iter().enumerate() {
            let mut alone = of(traces, &[]).expect("calibrates").tables[0].clone();
            assert_eq!(alone.candidates, None);
            alone.candidates = Some(size);
            assert_eq!(learned.tables[place], alone);
        }
        assert_ne!(learned.tables[0].curve, learned.tables[1].curve);
        let size = |candidates| {
            let found = learned.table_from(Mode::Order, 2, false, candidates).expect("a table");
            (found.candidates.expect("a size"), learned.sizes_of(found))
        };
        for (candidates, found) in [(1, 23), (23, 23), (24, 50), (50, 50), (51, 50)] {
            assert_eq!(size(candidates).0, found, "{candidates}");
        }
        assert_eq!((size(1).1, size(50).1), (0..=23, 24..=50));
        // A size that no request has gets no table, and a request that is too large has no place.
        assert_eq!(of(&few, &[23, 50]).expect("calibrates").tables.len(), 1);
        assert!(of(&all, &[23]).expect_err("refused").to_string().contains("calibrate for"));
    }

    #[test]
    fn a_lucky_threshold_is_not_chosen() {
        let point = |threshold, precision| CurvePoint {
            threshold,
            measured: Measured {
                precision,
                precision_bound: precision - 0.1,
                ..Measured::default()
            },
        };
        let table = CalibrationTable {
            mode: Mode::Set,
            top_k: 10,
            prior: None,
            candidates: None,
            curve: vec![
                point(Some(0.0), 1.0),
                point(Some(0.1), 0.9),
                point(Some(0.2), 0.99),
                point(Some(0.3), 1.0),
                point(None, 1.0),
            ],
            bounded: Bounded::default(),
        };
        let threshold = |precision, meets| table.threshold_for(precision, meets)?.threshold;
        assert_eq!(threshold(0.99, Meets::Mean), Some(0.2));
        assert_eq!(threshold(0.9, Meets::Mean), Some(0.0));
        assert_eq!(threshold(0.9, Meets::Bound), Some(0.3));
        // Only the full forward would do: that is no threshold.
        assert_eq!(threshold(0.95, Meets::Bound), None);
    }

    #[test]
    fn what_can_not_be_calibrated_is_told() {
        let mut noise = Noise(1);
        let fails = |traces: &[Trace], options: &CalibrationOptions| {
            calibrate("m", "f", traces, options).expect_err("refused").to_string()
        };
        assert!(fails(&noise.traces(3), &options(Mode::Off, 3)).contains("mode"));
        assert!(fails(&noise.traces(3), &options(Mode::Set, 0)).contains("at least 1"));
        assert!(fails(&[], &options(Mode::Set, 3)).contains("no request"));
        let mut shallow = noise.trace();
        shallow.num_layers = 4;
        shallow.layers.truncate(4);
        assert!(fails(&[noise.trace(), shallow], &options(Mode::Set, 3)).contains("4 layers"));
        let mut pruned = noise.trace();
        pruned.layers[3].active.truncate(2);
        assert!(fails(&[pruned], &options(Mode::Set, 3)).contains("layer 4"));
    }

    /// The file is kept between versions of the program: its names are a promise.
    #[test]
    fn a_calibration_survives_its_file() {
        let calibration =
            calibrate("m", "f", &Noise(3).traces(8), &CalibrationOptions::default()).expect("ok");
        assert_eq!(calibration.tables.len(), 8);
        let json = serde_json::to_value(&calibration).expect("serializes");
        assert_eq!(json["version"], 1);
        assert_eq!(json["tables"][0]["mode"], "set");
        for key in
            ["threshold", "precision", "precision_bound", "candidate_layers_share", "layers_run"]
        {
            assert!(json["tables"][0]["curve"][0][key].is_number(), "{key}");
        }
        assert!(json["tables"][0]["bounded"]["points"][0]["factor"].is_number());
        let back: Calibration = serde_json::from_value(json).expect("reads back");
        assert_eq!(back, calibration);
        let text = calibration.to_text(0.97);
        assert!(text.contains("mode order, top 20") && text.contains("precision 0.97 "), "{text}");
        assert!(calibration.to_chart(Mode::Set, 0.97).to_svg().contains("clusters, top 5"));
    }

    #[test]
    fn traces_without_times_have_no_latency() {
        let mut traces = Noise(5).traces(4);
        traces[2].layers.iter_mut().for_each(|it| it.ms = 0.0);
        let measured = evaluate_threshold(&traces, 0.1, Mode::Set, 2).expect("evaluates");
        assert_eq!(measured.latency_share, None);
        assert!(measured.candidate_layers_share < 1.0);
    }
}
