//! Which texts may be left out before the last layer: what was asked for, held against what the model's calibration
//! promises for results of this size. Requests of other programs have no retrieval prior, so only what was learned
//! without one holds.

use std::path::Path;

use riddle_grating::{
    CALIBRATION_VERSION, Calibration, CalibrationTable, ClusterPruning, Guarantee, Meets, Mode,
    NeverPrune, PruningPolicy,
};

use crate::{Error, Options, Result};

/// Share of the results that may differ where nobody says: one in a hundred, as in Riddle's searches.
const STANDARD_ERROR: f64 = 0.01;

/// Name of a calibration in a model's folder.
const BESIDE_MODEL: &str = "calibration.json";

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Asked {
    /// Nothing: what is promised anyway.
    Standard,
    /// All layers for all.
    Never,
    /// This share of the results stays.
    Precision(Mode, f64),
    /// This share of them may differ.
    Error(Mode, f64),
}

/// How a request is pruned.
pub(crate) struct Plan {
    pub(crate) mode: Mode,
    pub(crate) policy: Box<dyn PruningPolicy>,
    /// Results that the engine is asked for, of which the best are shown: a promise is about so many.
    pub(crate) results: usize,
    /// Why nobody is pruned although that was asked for.
    pub(crate) note: Option<String>,
}

impl Asked {
    pub(crate) fn of(options: &Options, calibrated: bool, model: &str) -> Result<Asked> {
        let bad = |why: String| Err(Error::BadOption(why));
        for (what, share) in
            [("precision", options.precision), ("error probability", options.error_probability)]
        {
            if let Some(share) = share.filter(|it| !(*it > 0.0 && *it < 1.0)) {
                return bad(format!("a {what} of {share} is not above 0 and below 1"));
            }
        }
        let asked = match (options.precision, options.error_probability, options.mode) {
            (Some(_), Some(_), _) => {
                return bad("say a precision or an error probability, not both".to_owned());
            }
            (None, None, None) => return Ok(Asked::Standard),
            (None, None, Some(Mode::Off)) => return Ok(Asked::Never),
            (.., Some(Mode::Off)) => {
                return bad("mode off leaves nobody out: say set or order".to_owned());
            }
            (Some(share), _, mode) => Asked::Precision(mode.unwrap_or(Mode::Set), share),
            (_, Some(share), mode) => Asked::Error(mode.unwrap_or(Mode::Set), share),
            (None, None, Some(mode)) => Asked::Error(mode, STANDARD_ERROR),
        };
        if !calibrated {
            return bad(format!(
                "{model} has no calibration that tells how to prune it: give one, or use mode off"
            ));
        }
        Ok(asked)
    }

    /// How a request of this size is pruned.
    pub(crate) fn plan(
        self,
        calibration: Option<&Calibration>,
        top_k: usize,
        texts: usize,
    ) -> Result<Plan> {
        let never =
            Plan { mode: Mode::Off, policy: Box::new(NeverPrune), results: top_k, note: None };
        let Some(made) = calibration else { return Ok(never) };
        // Of a result that is everybody nobody can be missing.
        if texts <= top_k || top_k == 0 {
            return Ok(never);
        }
        let (mode, exact) = match self {
            Asked::Never => return Ok(never),
            Asked::Standard => {
                // Nobody has asked, so it has to hold: for no more texts than were learned from.
                let fits = texts <= made.candidates.1;
                let table = made.table_from(Mode::Order, top_k, false, texts).filter(|_| fits);
                let error = Asked::Error(Mode::Order, STANDARD_ERROR);
                return Ok(table.and_then(|it| error.by(it, top_k)).unwrap_or(never));
            }
            Asked::Precision(mode, _) | Asked::Error(mode, _) => {
                let fits = |it: &&CalibrationTable| {
                    it.mode == mode && it.top_k == top_k && !it.with_prior()
                };
                (mode, made.tables_for(texts).find(fits))
            }
        };
        if let Some(table) = exact {
            return self.by(table, top_k).ok_or_else(|| {
                Error::BadOption(format!(
                    "{self} can not be promised in mode {mode} for the best {top_k}, by the {} requests that the \
                     model was calibrated with: ask for less",
                    made.queries
                ))
            });
        }
        let larger = made.table_from(Mode::Order, top_k, false, texts);
        Ok(larger.and_then(|it| self.by(it, top_k)).unwrap_or_else(|| {
            let note = format!(
                "nobody was left out: the calibration promises nothing for the best {top_k} in mode {mode}"
            );
            Plan { note: Some(note), ..never }
        }))
    }

    /// The policy that keeps a promise for `top_k` results by a table for as many or more: the larger result's promise
    /// is asked so much more strictly that it holds for the part that is shown.
    fn by(self, table: &CalibrationTable, top_k: usize) -> Option<Plan> {
        let part = top_k as f64 / table.top_k.max(1) as f64;
        let policy: Box<dyn PruningPolicy> = match self {
            Asked::Precision(_, precision) => {
                let precision = 1.0 - (1.0 - precision) * part;
                let point = table.threshold_for(precision, Meets::Mean)?;
                Box::new(ClusterPruning::new(point.threshold?))
            }
            Asked::Error(_, probability) => {
                Box::new(table.bounded.policy_for(probability * part, Guarantee::Result)?)
            }
            Asked::Standard | Asked::Never => return None,
        };
        Some(Plan { mode: table.mode, policy, results: table.top_k, note: None })
    }
}

impl std::fmt::Display for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Asked::Standard | Asked::Never => f.write_str("nothing"),
            Asked::Precision(_, share) => write!(f, "a precision of {share}"),
            Asked::Error(_, share) => write!(f, "an error probability of {share}"),
        }
    }
}

/// The calibration that was given, or the one beside the model.
pub(crate) fn calibration(dir: &Path, given: Option<&Path>) -> Result<Option<Calibration>> {
    let path = given.map_or_else(|| dir.join(BESIDE_MODEL), Path::to_path_buf);
    let text = match std::fs::read(&path) {
        Ok(text) => text,
        Err(error) if given.is_none() && error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(None);
        }
        Err(source) => return Err(Error::Io { path, source }),
    };
    let bad = |why: String| Error::BadCalibration { path: path.clone(), why };
    let made: Calibration = serde_json::from_slice(&text).map_err(|it| bad(it.to_string()))?;
    if made.version != CALIBRATION_VERSION {
        return Err(bad("the calibration is of another version of Riddle".to_owned()));
    }
    Ok(Some(made))
}
