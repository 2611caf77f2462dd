//! How results are ranked, and what the reranker may leave out for that.

use std::time::Duration;

use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use riddle_rag::rerank::{
    Guarantee, Meets, Mode, Pruning, RerankChoice, RerankSettings, STANDARD_ERROR,
};

use super::values::{not_negative, positive, share, size, time};

/// How to rank.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Ranking")]
pub(crate) struct RankArgs {
    /// Show the fused order of keywords and vectors, without a reranker
    #[arg(long, conflicts_with_all = ["model", "mode", "threshold", "precision", "error_probability", "deadline"])]
    pub(crate) no_rerank: bool,
    /// Rerank with this model, by name or directory, or with a server, by its address and behind a # the model there
    #[arg(long, value_name = "NAME|DIR|URL[#MODEL]")]
    pub(crate) model: Option<String>,
    #[command(flatten)]
    pub(crate) pruning: PruningArgs,
    /// Candidates that keywords and vectors propose, each, and how many of both are reranked
    /// [default: 50, of which 24 are reranked]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) candidates: Option<usize>,
}

impl RankArgs {
    pub(crate) fn choice(&self) -> RerankChoice {
        match &self.model {
            _ if self.no_rerank => RerankChoice::Off,
            Some(model) => RerankChoice::Model(model.clone()),
            None => RerankChoice::Configured,
        }
    }
}

/// What the reranker may leave out.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct PruningArgs {
    /// What pruning may change: off = nothing, set = the order inside the result, order = only the losers [default:
    /// order with an error probability of 0.01, where the model has a calibration that holds]
    #[arg(long, value_name = "MODE", value_parser = modes())]
    pub(crate) mode: Option<Mode>,
    /// Dispersion of the scores above which candidates are pruned
    #[arg(long, value_name = "T", value_parser = not_negative)]
    pub(crate) threshold: Option<f32>,
    /// Prune so that this share of the results stays (needs a calibrated model)
    #[arg(long, value_name = "P", value_parser = share::<f64>, conflicts_with = "threshold")]
    pub(crate) precision: Option<f64>,
    /// Mean the precision as a 95 % confidence bound, not as an average over the calibration
    #[arg(long, requires = "precision")]
    pub(crate) confident: bool,
    /// Prune so that on average at most this share of the results differs (needs a calibrated model)
    #[arg(long, value_name = "A", value_parser = share::<f64>, conflicts_with_all = ["threshold", "precision"])]
    pub(crate) error_probability: Option<f64>,
    /// Rank within this time of the call, as 150ms or 1s: what is read and computed is planned for it
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) deadline: Option<Duration>,
    /// With a deadline: keep so much of the weights between requests, as 2MiB
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "deadline")]
    pub(crate) preload: Option<u64>,
    /// Logits per unit of cosine that a reranker with a retrieval prior adds; 0 = the model alone [default: the
    /// model's]
    #[arg(long, value_name = "LOGITS", value_parser = not_negative)]
    pub(crate) prior_scale: Option<f32>,
}

impl PruningArgs {
    pub(crate) fn settings(self) -> RerankSettings {
        let meets = if self.confident { Meets::Bound } else { Meets::Mean };
        let error =
            |probability| Pruning::ErrorProbability { probability, guarantee: Guarantee::Result };
        let pruning = match (self.threshold, self.precision, self.error_probability) {
            (Some(threshold), ..) => Pruning::Threshold(threshold),
            (_, Some(precision), _) => Pruning::Precision { precision, meets },
            (.., Some(probability)) => error(probability),
            _ => match self.mode {
                None => Pruning::Standard,
                Some(Mode::Off) => Pruning::Never,
                Some(_) => error(STANDARD_ERROR),
            },
        };
        RerankSettings {
            mode: self.mode.unwrap_or_default(),
            pruning,
            prior_scale: self.prior_scale,
            deadline: self.deadline,
            preload_bytes: self.preload.unwrap_or(0),
            ..RerankSettings::default()
        }
    }
}

/// What pruning may change, or that there is none.
fn modes() -> impl TypedValueParser<Value = Mode> {
    PossibleValuesParser::new(["off", "set", "order"]).try_map(|name| name.parse::<Mode>())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Cli, Command};

    #[test]
    fn pruning_is_what_was_chosen_and_else_the_standard() {
        let pruning = |line: &str| match Cli::try_parse_from(line.split_whitespace())
            .expect("parses")
            .command
        {
            Command::Search(args) => {
                let settings = args.rank.pruning.settings();
                (settings.mode, settings.pruning)
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(pruning("riddle search x"), (Mode::Off, Pruning::Standard));
        assert_eq!(pruning("riddle search x --mode off"), (Mode::Off, Pruning::Never));
        let error = Pruning::ErrorProbability { probability: 0.01, guarantee: Guarantee::Result };
        assert_eq!(pruning("riddle search x --mode set"), (Mode::Set, error));
        let line = "riddle search x --mode set --threshold 0.5";
        assert_eq!(pruning(line), (Mode::Set, Pruning::Threshold(0.5)));
    }
}
