//! Who is pruned in a request: what the settings ask for, held against what the model's calibration can promise for
//! this very request.
//!
//! A calibration holds for results of a certain size and for scores of a certain kind, with the retrieval prior in them
//! or without. Where it does not hold for a request, nobody is pruned and a notice says why: pruning saves time, and
//! is no reason for another order or none.

use std::{
    sync::{Arc, OnceLock},
    time::Instant,
};

use riddle_grating::{
    BoundedError, Calibration, CalibrationTable, ClusterPruning, Guarantee, Mode, NeverPrune,
    PruningPolicy, Run, Within,
};
use riddle_types::{
    Advice, LayerObserver, Notice, Prior, RerankOutcome, Reranker, StageError, Trouble,
};

use super::{
    calibration::calibration,
    card::{PriorUse, RerankerCard},
    open::{Ranker, open_ranker},
};
use crate::{
    contract::{Error, Promise, Pruning, RerankSettings, Result, STANDARD_ERROR},
    home::Config,
};

/// An open reranker: its weights, its card, and its calibration once somebody asks for it. Who is pruned is decided per
/// request, so that one engine serves all of them, the check of an answer's sentences included.
#[derive(Debug)]
pub(crate) struct Opened {
    config: Config,
    /// Name in the store, or directory.
    pub(crate) name: String,
    pub(crate) engine: Ranker,
    pub(crate) card: RerankerCard,
    calibration: OnceLock<Option<Arc<Calibration>>>,
    /// When it was ready, if what a deadline needs had to be made first.
    pub(crate) prepared: Option<Instant>,
}

/// How a request is pruned.
pub(crate) struct Pruner {
    pub(crate) mode: Mode,
    pub(crate) policy: Box<dyn PruningPolicy>,
    /// Results that the engine is asked for, of which the best are shown: a promise is about so many.
    results: usize,
    /// What is promised of a full reading, if it is.
    promise: Option<Promise>,
    /// Why less is pruned than was asked for.
    pub(crate) notice: Option<Notice>,
    /// By when.
    pub(crate) within: Within,
}

/// What is known of a request before anybody has read it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    /// Results.
    pub(crate) top_k: usize,
    pub(crate) candidates: usize,
    pub(crate) prior: PriorUse,
}

impl Opened {
    pub(crate) fn open(config: &Config, name: &str, settings: &RerankSettings) -> Result<Opened> {
        let (engine, prepared) = open_ranker(config, name, settings)?;
        Ok(Opened {
            config: config.clone(),
            name: name.to_owned(),
            engine,
            prepared,
            card: RerankerCard::read(&config.model_dir(name)?),
            calibration: OnceLock::new(),
        })
    }

    /// The calibration as it was when somebody first asked.
    ///
    /// # Errors
    /// A file that can not be read; it is looked for again the next time.
    fn calibration(&self) -> Result<Option<&Calibration>> {
        if let Some(known) = self.calibration.get() {
            return Ok(known.as_deref());
        }
        let found = calibration(&self.config, &self.name)?.map(Arc::new);
        Ok(self.calibration.get_or_init(|| found).as_deref())
    }

    /// Reads what pruning by these settings needs, so that no request waits for it.
    pub(crate) fn warm(&self, settings: &RerankSettings) {
        if settings.pruning.is_calibrated() {
            // What is wrong with it is told by the request.
            let _ = self.calibration();
        }
    }

    /// How the settings prune a request of which `prior` is known.
    ///
    /// # Errors
    /// Settings that make no sense, and promises that are asked for by name and that no calibration makes.
    pub(crate) fn pruner(
        &self,
        settings: &RerankSettings,
        top_k: usize,
        candidates: usize,
        prior: PriorUse,
    ) -> Result<Pruner> {
        let calibration = || self.calibration();
        let wanted = Wanted { top_k, candidates, prior };
        let mut pruner = choose(&self.name, settings, wanted, &calibration)?;
        pruner.within.deadline = settings.deadline;
        Ok(pruner)
    }

    /// Runs a request as the pruner says; `every_layer`: with scores after every layer, for who observes them.
    ///
    /// # Errors
    /// As [`Engine::run_as`](riddle_grating::Engine::run_as).
    pub(crate) fn rerank(
        &self,
        (pruner, every_layer): (&Pruner, bool),
        query: &str,
        texts: &[&str],
        prior: Prior<'_>,
        top_k: usize,
        observer: &mut dyn LayerObserver,
    ) -> riddle_grating::Result<RerankOutcome> {
        let how =
            Run { mode: pruner.mode, policy: &*pruner.policy, scores_every_layer: every_layer };
        // Nobody who asks for nothing is given something because of a promise.
        let results = if top_k == 0 { 0 } else { pruner.results.max(top_k) };
        let within = pruner.within;
        let mut outcome =
            self.engine.run_as((how, within), query, texts, prior, results, observer)?;
        outcome.ranked.truncate(top_k);
        Ok(outcome)
    }
}

/// The full forward whatever the settings are: scores that mean what they say.
#[derive(Debug)]
pub(crate) struct Unpruned(pub(crate) Arc<Opened>);

impl Reranker for Unpruned {
    fn model(&self) -> &str {
        self.0.engine.model()
    }

    fn rerank_with_prior(
        &self,
        query: &str,
        candidates: &[&str],
        prior: Prior<'_>,
        top_k: usize,
        observer: &mut dyn LayerObserver,
    ) -> Result<RerankOutcome, StageError> {
        let how = (Run::FULL, Within::any_time());
        Ok(self.0.engine.run_as(how, query, candidates, prior, top_k, observer)?)
    }
}

/// A reranker that does every request by the same settings.
#[derive(Debug)]
pub(crate) struct BySettings {
    pub(crate) opened: Opened,
    pub(crate) settings: RerankSettings,
    pub(crate) every_layer: bool,
}

impl Reranker for BySettings {
    fn model(&self) -> &str {
        self.opened.engine.model()
    }

    fn rerank_with_prior(
        &self,
        query: &str,
        candidates: &[&str],
        prior: Prior<'_>,
        top_k: usize,
        observer: &mut dyn LayerObserver,
    ) -> Result<RerankOutcome, StageError> {
        let of = self.opened.card.prior_use(self.settings.prior_scale, prior.last);
        let pruner = self.opened.pruner(&self.settings, top_k, candidates.len(), of)?;
        let how = (&pruner, self.every_layer);
        Ok(self.opened.rerank(how, query, candidates, prior, top_k, observer)?)
    }
}

impl Pruner {
    /// What is promised of an outcome over so many candidates. Of a part of the model, or of the candidates, that a
    /// deadline had time for nothing is.
    pub(crate) fn promise_of(&self, outcome: &RerankOutcome, candidates: usize) -> Option<Promise> {
        let is_full = outcome.deadline.as_ref().is_none_or(|it| it.is_full(candidates));
        self.promise.filter(|_| is_full)
    }

    /// Nobody is pruned.
    pub(crate) fn never(top_k: usize) -> Pruner {
        Pruner {
            mode: Mode::Off,
            policy: Box::new(NeverPrune),
            results: top_k,
            promise: None,
            notice: None,
            within: Within::any_time(),
        }
    }

    /// Nobody is pruned, for a reason that people should know.
    pub(crate) fn never_because(top_k: usize, why: Trouble) -> Pruner {
        Pruner { notice: Some(Notice::NobodyPruned { why }), ..Pruner::never(top_k) }
    }
}

/// A calibration when it is needed.
type Ask<'a> = dyn Fn() -> Result<Option<&'a Calibration>> + 'a;

fn choose(
    model: &str,
    settings: &RerankSettings,
    wanted: Wanted,
    calibration: &Ask<'_>,
) -> Result<Pruner> {
    let bad = |why: String, advice| Err(Error::BadRequest(Trouble { what: why, advice }));
    let never = Pruner::never(wanted.top_k);
    match settings.pruning {
        Pruning::Never if settings.mode != Mode::Off => {
            bad(format!("mode {} prunes", settings.mode), Some(Advice::ChoosePruning))
        }
        Pruning::Never => Ok(never),
        Pruning::Threshold(threshold) => {
            if !(threshold.is_finite() && threshold >= 0.0) {
                return bad(format!("threshold {threshold} is not a number of 0 or more"), None);
            }
            let policy = Box::new(ClusterPruning::new(threshold));
            Ok(Pruner { mode: settings.mode, policy, ..never })
        }
        // Nobody has asked for it, so there is nothing to tell where it can not be had.
        Pruning::Standard => {
            let made = calibration().unwrap_or_else(|error| {
                tracing::warn!(%error, model, "the calibration can not be used");
                None
            });
            Ok(made.and_then(|it| standard(it, wanted)).unwrap_or(never))
        }
        _ if settings.mode == Mode::Off => {
            bad("mode off prunes nobody".to_owned(), Some(Advice::ChooseMode))
        }
        Pruning::Precision { .. } | Pruning::ErrorProbability { .. } => {
            let Some(made) = calibration()? else {
                return bad(
                    format!("{model} has no calibration that tells how to prune it"),
                    Some(Advice::CalibrateOrThreshold { model: model.to_owned() }),
                );
            };
            promised(model, settings, wanted, made)
        }
    }
}

/// What is pruned where nobody has chosen: mode *order*, so that order and scores of what is shown are those of the
/// full forward, by [`STANDARD_ERROR`], on requests that are no larger than those that the calibration has seen.
fn standard(made: &Calibration, wanted: Wanted) -> Option<Pruner> {
    let with_prior = wanted.prior.with_prior()?;
    if wanted.candidates <= wanted.top_k || wanted.candidates > made.candidates.1 {
        return None;
    }
    let table = made.table_from(Mode::Order, wanted.top_k, with_prior, wanted.candidates)?;
    let error =
        Pruning::ErrorProbability { probability: STANDARD_ERROR, guarantee: Guarantee::Result };
    pruner_of(table, error, wanted.top_k)
}

/// What the settings ask for by name.
fn promised(
    model: &str,
    settings: &RerankSettings,
    wanted: Wanted,
    made: &Calibration,
) -> Result<Pruner> {
    let (mode, top_k) = (settings.mode, wanted.top_k);
    // Of a result that is everybody nobody can be missing.
    if wanted.candidates <= top_k {
        return Ok(Pruner::never(top_k));
    }
    let has = |prior: bool| made.tables.iter().any(|it| it.with_prior() == prior);
    let Some(with_prior) = wanted.prior.with_prior().filter(|it| has(*it)) else {
        let made = if has(true) { "with its" } else { "without a" };
        let runs = match wanted.prior {
            PriorUse::Card => "this request has one",
            PriorUse::None => "this request has none (no vectors, a scale of 0)",
            PriorUse::Other => {
                "that of this request has another scale or embedder, or lacks weighed terms"
            }
        };
        let why = format!("{model} was calibrated {made} retrieval prior, and {runs}");
        return Ok(Pruner::never_because(top_k, why.into()));
    };
    let of_kind = || made.tables_for(wanted.candidates).filter(|it| it.with_prior() == with_prior);
    if let Some(table) = of_kind().find(|it| it.mode == mode && it.top_k == top_k) {
        return pruner_of(table, settings.pruning, top_k)
            .ok_or_else(|| can_not_be_promised(model, settings, top_k, made));
    }
    let larger = made.table_from(Mode::Order, top_k, with_prior, wanted.candidates);
    if let Some(pruner) = larger.and_then(|it| pruner_of(it, settings.pruning, top_k)) {
        return Ok(pruner);
    }
    let tables: Vec<String> =
        of_kind().map(|it| format!("mode {} top {}", it.mode, it.top_k)).collect();
    let why = format!(
        "the calibration of {model} is for {}, which promises nothing for mode {mode} top {top_k}",
        tables.join(", ")
    );
    let advice = Advice::CalibrateFor { model: model.to_owned(), top_k };
    Ok(Pruner::never_because(top_k, Trouble::with(why, advice)))
}

fn can_not_be_promised(
    model: &str,
    settings: &RerankSettings,
    top_k: usize,
    made: &Calibration,
) -> Error {
    let promise = match settings.pruning {
        Pruning::Precision { precision, .. } => {
            format!("no threshold keeps a precision of {precision}")
        }
        Pruning::ErrorProbability { probability, .. } => {
            format!("an error probability of {probability} can not be promised")
        }
        Pruning::Never | Pruning::Standard | Pruning::Threshold(_) => String::new(),
    };
    Error::BadRequest(Trouble::with(
        format!(
            "{promise} in mode {} top {top_k} on the {} requests that {model} was calibrated with",
            settings.mode, made.queries
        ),
        Advice::AskForLess,
    ))
}

/// The policy that keeps a promise for `top_k` results by a table for as many or more.
///
/// Between two tables the larger one is taken, in mode *order*, for all its results, and the best `top_k` are shown.
/// That is safe whatever happens between the sizes: the full forward's best k are among its best b ≥ k, and mode
/// *order* ranks by the full forward's scores, so whoever of the k is not shown was missing among the b. If of the b at
/// most a share α is missing in expectation, at most α · b results are, and of the k at most a share α · b / k. Asking
/// the table for α · k / b promises α. A neighbor's threshold or margin for k itself promises nothing: neither the
/// margins nor the risks are monotone in k. For the probability that anything is missing, α stays what it is.
fn pruner_of(table: &CalibrationTable, pruning: Pruning, top_k: usize) -> Option<Pruner> {
    let part = top_k as f64 / table.top_k.max(1) as f64;
    let (policy, error): (Box<dyn PruningPolicy>, f64) = match pruning {
        Pruning::Precision { precision, meets } => {
            let precision = 1.0 - (1.0 - precision) * part;
            let threshold = table.threshold_for(precision, meets)?.threshold?;
            (Box::new(ClusterPruning::new(threshold)), 1.0 - precision)
        }
        Pruning::ErrorProbability { probability, guarantee } => {
            let probability = match guarantee {
                Guarantee::Result => probability * part,
                Guarantee::Request => probability,
            };
            let policy: BoundedError = table.bounded.policy_for(probability, guarantee)?;
            (Box::new(policy), probability)
        }
        Pruning::Never | Pruning::Standard | Pruning::Threshold(_) => return None,
    };
    let is_promise =
        matches!(pruning, Pruning::ErrorProbability { guarantee: Guarantee::Result, .. });
    let promise = Promise { mode: table.mode, error: error / part, results: top_k };
    Some(Pruner {
        mode: table.mode,
        policy,
        results: table.top_k,
        promise: is_promise.then_some(promise),
        notice: None,
        within: Within::any_time(),
    })
}

#[cfg(test)]
mod tests {
    use riddle_grating::Meets;
    use riddle_types::Advised as _;
    use serde_json::json;

    use super::*;

    /// Tables of a model of one layer that prune at a distance of `10 × top_k`, from 999 requests of which one in a
    /// hundred lost a result where the factor is below 2, and none above.
    fn made(tables: &[(Mode, usize, bool)]) -> Calibration {
        let table = |&(mode, top_k, prior): &(Mode, usize, bool)| {
            let point = |factor: f64, risk: f64| {
                json!({
                    "factor": factor, "result_risk": risk, "request_risk": risk, "queries": 999,
                    "precision": 1.0 - risk, "precision_bound": 0.9, "requests_changed": risk,
                    "candidate_layers_share": 0.5, "layers_run": 1.0, "latency_share": null,
                })
            };
            let at = |threshold: Option<f64>, precision: f64| {
                json!({
                    "threshold": threshold, "queries": 999, "precision": precision,
                    "precision_bound": precision, "requests_changed": 0.0,
                    "candidate_layers_share": 0.5, "layers_run": 1.0, "latency_share": null,
                })
            };
            json!({
                "mode": mode, "top_k": top_k, "prior": prior,
                "curve": [at(Some(0.1), 0.9), at(Some(0.2), 0.95), at(Some(0.3), 0.999), at(None, 1.0)],
                "bounded": {"margins": [10 * top_k], "points": [point(1.0, 0.04), point(2.0, 0.008), point(3.0, 0.0)]},
            })
        };
        let tables: Vec<_> = tables.iter().map(table).collect();
        let all = json!({
            "version": 1, "model": "m", "fingerprint": "f", "num_layers": 1, "queries": 999,
            "candidates": [24, 24], "tables": tables,
        });
        serde_json::from_value(all).expect("a calibration")
    }

    fn tables() -> Calibration {
        use Mode::{Order, Set};
        made(&[(Set, 5, true), (Set, 10, true), (Order, 5, true), (Order, 10, true)])
    }

    fn with(
        made: &Calibration,
        (mode, pruning): (Mode, Pruning),
        top_k: usize,
        prior: PriorUse,
    ) -> Result<Pruner> {
        let settings = RerankSettings { mode, pruning, ..RerankSettings::default() };
        let wanted = Wanted { top_k, candidates: 24, prior };
        choose("m", &settings, wanted, &|| Ok(Some(made)))
    }

    /// What is told, as a developer sees it.
    fn told(pruner: &Pruner) -> String {
        format!("{:?}", pruner.notice.as_ref().expect("a reason"))
    }

    fn error(probability: f64) -> Pruning {
        Pruning::ErrorProbability { probability, guarantee: Guarantee::Result }
    }

    /// What was learned with the prior is not applied without it: its margins are far too small there.
    #[test]
    fn a_calibration_with_the_prior_prunes_nobody_without_it() {
        for (prior, says) in [(PriorUse::None, "has none"), (PriorUse::Other, "another scale")] {
            for pruning in [error(0.5), Pruning::Precision { precision: 0.5, meets: Meets::Mean }] {
                let pruner = with(&tables(), (Mode::Set, pruning), 10, prior).expect("runs");
                assert_eq!((pruner.mode, pruner.promise), (Mode::Off, None));
                let notice = told(&pruner);
                assert!(
                    notice.contains("with its retrieval prior") && notice.contains(says),
                    "{notice}"
                );
            }
            let silent = with(&tables(), (Mode::Off, Pruning::Standard), 10, prior).expect("runs");
            assert_eq!((silent.mode, silent.notice), (Mode::Off, None));
        }
        let pruner = with(&tables(), (Mode::Set, error(0.5)), 10, PriorUse::Card).expect("runs");
        assert_eq!((pruner.mode, pruner.notice), (Mode::Set, None));
        // And the other way around.
        let plain = made(&[(Mode::Order, 10, false)]);
        let pruner = with(&plain, (Mode::Order, error(0.5)), 10, PriorUse::Card).expect("runs");
        assert!(told(&pruner).contains("without a retrieval prior"));
        let pruner = with(&plain, (Mode::Order, error(0.5)), 10, PriorUse::None).expect("runs");
        assert_eq!(pruner.mode, Mode::Order);
    }

    #[test]
    fn between_two_tables_the_larger_one_promises_for_fewer() {
        // The risk of 0.0089 at the second factor is below 0.01, and not below 0.01 · 7 / 10.
        let exact = with(&tables(), (Mode::Order, error(0.01)), 10, PriorUse::Card).expect("runs");
        let between = with(&tables(), (Mode::Set, error(0.01)), 7, PriorUse::Card).expect("runs");
        assert_eq!((exact.results, between.results, between.mode), (10, 10, Mode::Order));
        let promise = between.promise.expect("a promise");
        assert_eq!((promise.results, promise.mode), (7, Mode::Order));
        assert!((promise.error - 0.01).abs() < 1e-12, "{promise:?}");
        // Scores of ten that stand 250 below the boundary: further than 2 × 100, not than 3 × 100.
        let view = |pruner: &Pruner| {
            let raw: Vec<f32> = (0..12).map(|it| if it < 10 { 0.0 } else { -250.0 }).collect();
            let active: Vec<usize> = (0..12).collect();
            let view = riddle_grating::LayerView {
                layer: 1,
                num_layers: 2,
                open_slots: 10,
                active: &active,
                raw: &raw,
                scores: &raw,
            };
            pruner
                .policy
                .judge(&view)
                .iter()
                .filter(|it| **it == riddle_types::Decision::Drop)
                .count()
        };
        assert_eq!((view(&exact), view(&between)), (2, 0));
        let precision = Pruning::Precision { precision: 0.93, meets: Meets::Mean };
        let threshold = |top_k| {
            let pruner = with(&tables(), (Mode::Order, precision), top_k, PriorUse::Card);
            pruner.expect("runs").policy.threshold()
        };
        assert_eq!((threshold(10), threshold(6)), (Some(0.2), Some(0.3)));
    }

    #[test]
    fn beyond_the_largest_table_nobody_is_pruned_and_that_is_told() {
        let precision = Pruning::Precision { precision: 0.9, meets: Meets::Mean };
        for pruning in [error(0.5), precision] {
            let pruner = with(&tables(), (Mode::Set, pruning), 20, PriorUse::Card).expect("runs");
            assert_eq!(pruner.mode, Mode::Off);
            let notice = told(&pruner);
            assert!(
                notice.contains("mode order top 10") && notice.contains("top_k: 20"),
                "{notice}"
            );
            // Where there is nobody to prune there is nothing to tell.
            for top_k in [0, 24, 30] {
                let settings =
                    RerankSettings { mode: Mode::Set, pruning, ..RerankSettings::default() };
                let candidates = top_k.min(24);
                let wanted = Wanted { top_k, candidates, prior: PriorUse::Card };
                let made = tables();
                let pruner = choose("m", &settings, wanted, &|| Ok(Some(&made))).expect("runs");
                assert_eq!((pruner.mode, pruner.notice), (Mode::Off, None));
            }
        }
    }

    #[test]
    fn the_standard_is_an_order_where_a_promise_holds() {
        let standard = |made: &Calibration, top_k, candidates| {
            let wanted = Wanted { top_k, candidates, prior: PriorUse::Card };
            choose("m", &RerankSettings::default(), wanted, &|| Ok(Some(made))).expect("runs")
        };
        let pruner = standard(&tables(), 10, 24);
        assert_eq!(pruner.mode, Mode::Order);
        let promise = pruner.promise.expect("a promise");
        assert_eq!((promise.results, promise.error), (10, STANDARD_ERROR));
        // Nobody to prune, more candidates than anybody has seen, no table.
        for (top_k, candidates) in [(10, 10), (10, 25), (11, 24)] {
            let pruner = standard(&tables(), top_k, candidates);
            assert_eq!((pruner.mode, pruner.promise), (Mode::Off, None));
        }
        // Tables of another size hold for the requests of that one.
        let mut sizes = made(&[(Mode::Order, 10, true), (Mode::Order, 5, true)]);
        sizes.candidates = (24, 50);
        sizes.tables[0].candidates = Some(50);
        sizes.tables[1].candidates = Some(24);
        for (top_k, candidates, results) in [
            (10, 50, Some(10)),
            (5, 50, Some(10)),
            (5, 24, Some(5)),
            (10, 24, None),
            (10, 51, None),
        ] {
            let promise = standard(&sizes, top_k, candidates);
            let found = promise.promise.map(|_| promise.results);
            assert_eq!(found, results, "{top_k} of {candidates}");
        }
        let sets = made(&[(Mode::Set, 10, true)]);
        assert_eq!(standard(&sets, 10, 24).mode, Mode::Off, "a set is no order");
        let broken = |_: &str| Err(Error::BadRequest("broken".into()));
        let wanted = Wanted { top_k: 10, candidates: 24, prior: PriorUse::Card };
        let pruner = choose("m", &RerankSettings::default(), wanted, &|| broken("")).expect("runs");
        assert_eq!(pruner.mode, Mode::Off);
    }

    #[test]
    fn what_is_asked_for_in_vain_is_told() {
        let told = |mode, pruning| match with(&tables(), (mode, pruning), 10, PriorUse::Card) {
            Ok(_) => "a policy".to_owned(),
            Err(error) => format!("{error}: {:?}", error.advice()),
        };
        let precision = |precision| Pruning::Precision { precision, meets: Meets::Mean };
        assert!(told(Mode::Set, Pruning::Never).contains("ChoosePruning"));
        assert!(told(Mode::Set, Pruning::Threshold(f32::NAN)).contains("NaN"));
        assert!(told(Mode::Off, precision(0.9)).contains("ChooseMode"));
        assert!(told(Mode::Set, error(1e-6)).contains("999 requests"));
        assert!(told(Mode::Set, precision(0.9999)).contains("0.9999"));
        assert_eq!(told(Mode::Set, Pruning::Threshold(0.3)), "a policy");
        let settings = RerankSettings {
            mode: Mode::Set,
            pruning: precision(0.9),
            ..RerankSettings::default()
        };
        let wanted = Wanted { top_k: 10, candidates: 24, prior: PriorUse::None };
        let none = choose("m", &settings, wanted, &|| Ok(None)).err().expect("refused");
        assert!(matches!(none.advice(), Some(Advice::CalibrateOrThreshold { .. })), "{none}");
    }

    /// A home of a few notes without vectors.
    fn assistant(home: &std::path::Path) -> crate::Assistant {
        let config = Config::new(home);
        let mut library = crate::Library::open(config.clone()).expect("opens");
        let note = |n: usize| crate::indexing::InputDocument {
            id: n.to_string(),
            title: String::new(),
            text: format!("the boat number {n} lies at the lock gate {}", "of the dock ".repeat(n)),
        };
        let stop = std::sync::atomic::AtomicBool::new(false);
        library.add_documents("notes", &mut (0..8).map(note), &mut |_| {}, &stop).expect("indexed");
        drop(library);
        crate::Assistant::open(config).expect("opens")
    }

    fn tiny() -> String {
        let tiny = "../../tests/golden/tiny-bert-cross-encoder";
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(tiny).to_string_lossy().into_owned()
    }

    /// What differs from request to request opens no second engine, and an explained search has its scores although
    /// the engine was opened for one that was not.
    #[test]
    fn one_engine_serves_every_request_and_the_check_of_sentences() {
        let home = tempfile::tempdir().expect("a folder");
        let assistant = assistant(home.path());
        let plain = crate::SearchRequest {
            rerank: crate::rerank::RerankChoice::Model(tiny()),
            k: 3,
            ..crate::SearchRequest::new("boat")
        };
        assistant.search(&plain).expect("searches");
        let opened = assistant.reranker(&plain).expect("opens").expect("is chosen");
        let pruning = Pruning::Threshold(0.0);
        let rerank_settings =
            RerankSettings { mode: Mode::Set, pruning, ..RerankSettings::default() };
        let pruned = crate::SearchRequest { rerank_settings, explain: true, k: 2, ..plain.clone() };
        let explained = crate::SearchRequest { explain: true, ..plain.clone() };
        for other in [&pruned, &explained] {
            let again = assistant.reranker(other).expect("opens").expect("is chosen");
            assert!(Arc::ptr_eq(&opened, &again), "another engine for {other:?}");
        }
        let layers = assistant.search(&explained).expect("searches").stages.expect("asked").layers;
        assert!(layers.iter().all(|it| it.scores.len() == 8), "{layers:?}");
        assert!(assistant.search(&pruned).expect("searches").candidate_layers_share < Some(1.0));
        // After a pruned request the same engine judges sentences by the last layer.
        let texts = ["the boat", "the lock gate", "bread"];
        let full = Unpruned(opened).rerank("boat", &texts, 1, &mut riddle_types::SilentObserver);
        assert_eq!(full.expect("runs").stats.candidate_layers, 12);
    }
}
