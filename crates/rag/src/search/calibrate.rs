//! Calibrations of rerankers are made from recorded requests, and checked on others.

use std::{ops::ControlFlow, path::PathBuf};

use riddle_grating::{
    Calibration, CalibrationOptions, ClusterPruning, Guarantee, Measured, Meets, Mode,
    PruningPolicy, Run, Trace, TraceRecorder, calibrate as learn, evaluate,
};
use riddle_types::{Advised as _, Trouble};

use super::{
    calibration::{file, fingerprint, keep},
    card::RerankerCard,
    open::open_engine,
};
use crate::{
    contract::{Error, Pruning, RerankRequest, RerankSettings, Result},
    home::Config,
};

/// A calibration that was made, and where it is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibrated {
    /// What was learned.
    pub calibration: Calibration,
    /// The file in the home.
    pub file: PathBuf,
}

/// Runs the full forward on every request, learns from the layers' scores and keeps the result in the home,
/// in the place of an earlier one. `progress` hears how many requests of how many are done; `Break` stops,
/// and nothing is kept. `top_n` of the requests is not looked at.
///
/// # Errors
/// As [`open_reranker`](super::open_reranker), requests that fail, a home that can not be written, and
/// `None` when `progress` stopped it.
pub fn calibrate(
    config: &Config,
    model: &str,
    settings: &RerankSettings,
    options: &CalibrationOptions,
    requests: &[RerankRequest],
    progress: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
) -> Result<Option<Calibrated>> {
    let fingerprint = fingerprint(&config.model_dir(model)?)?;
    let Some((name, traces)) = record(config, model, settings, requests, progress)? else {
        return Ok(None);
    };
    let calibration = learn(&name, &fingerprint, &traces, options).map_err(Error::bad)?;
    let file = file(config, &fingerprint);
    keep(&file, &calibration)?;
    Ok(Some(Calibrated { calibration, file }))
}

/// Full forwards of all requests, and the model's name; `None` when `progress` stopped it.
fn record(
    config: &Config,
    model: &str,
    settings: &RerankSettings,
    requests: &[RerankRequest],
    progress: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
) -> Result<Option<(String, Vec<Trace>)>> {
    let engine = open_engine(config, model, settings)?;
    let full = Run { scores_every_layer: true, ..Run::FULL };
    let card = RerankerCard::read(&config.model_dir(model)?);
    let mut traces: Vec<Trace> = Vec::with_capacity(requests.len());
    for (number, request) in requests.iter().enumerate() {
        if progress(number, requests.len()).is_break() {
            return Ok(None);
        }
        if request.documents.is_empty() {
            continue;
        }
        let texts: Vec<&str> = request.documents.iter().map(|it| it.text()).collect();
        let mut recorder = TraceRecorder::default();
        let failed = |error: riddle_grating::Error| {
            let what = format!("request {}: {error}", number + 1);
            Error::BadRequest(Trouble { what, advice: error.advice() })
        };
        let prior = request.prior(&card, settings);
        engine
            .run_as(full, &request.query, &texts, prior.known(), 1, &mut recorder)
            .map_err(failed)?;
        traces.push(recorder.into_trace(engine.num_layers(), None));
    }
    Ok(Some((riddle_types::Reranker::model(&engine).to_owned(), traces)))
}

/// What a calibration's promise is worth on requests that it has not seen.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedPromise {
    /// What pruning may change.
    pub mode: Mode,
    /// Size of the result.
    pub top_k: usize,
    /// Whether the scores had a retrieval prior in them.
    pub prior: bool,
    /// Most candidates that it is promised for, where that is not the same everywhere.
    pub candidates: Option<usize>,
    /// What was asked for.
    pub asked: Pruning,
    /// What happened on the new requests; `None` where the calibration can not promise it.
    pub measured: Option<Measured>,
}

/// Runs the full forward on requests that the calibration was not made from, and replays on them what it
/// chooses for `precision` (by the mean and by its lower bound) and for an error probability of
/// 1 − `precision`. `None` when `progress` stopped it.
///
/// # Errors
/// As [`calibrate`].
pub fn check_calibration(
    config: &Config,
    model: &str,
    settings: &RerankSettings,
    calibration: &Calibration,
    precision: f64,
    requests: &[RerankRequest],
    progress: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
) -> Result<Option<Vec<CheckedPromise>>> {
    let Some((_, traces)) = record(config, model, settings, requests, progress)? else {
        return Ok(None);
    };
    let unknown: Vec<Trace> = traces.iter().map(Trace::without_prior).collect();
    let known: Vec<Trace> = traces.into_iter().filter(|it| !it.prior.is_empty()).collect();
    let mut promises = Vec::new();
    for table in &calibration.tables {
        let (mode, top_k, prior) = (table.mode, table.top_k, table.with_prior());
        let sizes = calibration.sizes_of(table);
        let of_kind = if prior { &known } else { &unknown };
        let of_size = of_kind.iter().filter(|it| sizes.contains(&it.candidates()));
        let traces: Vec<Trace> = of_size.cloned().collect();
        let clusters = |meets| {
            let threshold = table.threshold_for(precision, meets)?.threshold?;
            Some(Box::new(ClusterPruning::new(threshold)) as Box<dyn PruningPolicy>)
        };
        let probability = 1.0 - precision;
        let bounded = table.bounded.policy_for(probability, Guarantee::Result);
        let asked = [
            (Pruning::Precision { precision, meets: Meets::Mean }, clusters(Meets::Mean)),
            (Pruning::Precision { precision, meets: Meets::Bound }, clusters(Meets::Bound)),
            (
                Pruning::ErrorProbability { probability, guarantee: Guarantee::Result },
                bounded.map(|it| Box::new(it) as Box<dyn PruningPolicy>),
            ),
        ];
        for (asked, policy) in asked {
            let measured = policy
                .map(|policy| evaluate(&traces, &*policy, mode, top_k))
                .transpose()
                .map_err(Error::bad)?;
            let candidates = table.candidates;
            promises.push(CheckedPromise { mode, top_k, prior, candidates, asked, measured });
        }
    }
    Ok(Some(promises))
}
