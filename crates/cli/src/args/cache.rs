//! The words of `riddle cache`.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand, ValueEnum};
use riddle_rag::reuse::{Reuse, ReuseGrade};

use super::{
    LocalArgs,
    local::OrderArg,
    values::{positive, size},
};

/// What is kept so that answers need not wait.
#[derive(Debug, Clone, Args)]
pub(crate) struct CacheArgs {
    #[command(subcommand)]
    pub(crate) command: CacheCommand,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum CacheCommand {
    /// Show what is kept, what it was good for, and how it is used
    Status {
        /// List the kept questions, too
        #[arg(long)]
        list: bool,
    },
    /// Delete all of it; the history of the app stays
    Clear,
    /// Keep no more than this of what models in this process have read
    Limit {
        /// As 2GiB; 0: nothing is kept
        #[arg(value_name = "SIZE", value_parser = size_or_none)]
        size: u64,
    },
    /// Set how answers that are already there are used
    Set(CacheSetArgs),
    /// Foresee questions and answer them now, as is done while nobody waits
    Warm(CacheWarmArgs),
}

#[derive(Debug, Clone, Args)]
pub(crate) struct CacheSetArgs {
    /// How much has to be known of an answer that is given again
    #[arg(long, value_name = "GRADE", value_enum)]
    pub(crate) reuse: Option<ReuseArg>,
    /// Similarity from which two questions may have one answer, 0 to 1
    #[arg(long, value_name = "S")]
    pub(crate) threshold: Option<f32>,
    /// Space for answers, as 32MiB; 0: none are kept
    #[arg(long, value_name = "SIZE", value_parser = size_or_none)]
    pub(crate) limit: Option<u64>,
    /// Whether the app prepares answers while nobody waits
    #[arg(long, value_name = "YES", action = clap::ArgAction::Set)]
    pub(crate) prepare: Option<bool>,
    /// Whether it does so on battery, too
    #[arg(long, value_name = "YES", action = clap::ArgAction::Set)]
    pub(crate) on_battery: Option<bool>,
    /// Whether answers of endpoints are kept, too
    #[arg(long, value_name = "YES", action = clap::ArgAction::Set)]
    pub(crate) remote: Option<bool>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct CacheWarmArgs {
    /// The model in this process that foresees and answers, as local:MODEL
    #[arg(long, value_name = "LLM")]
    pub(crate) llm: String,
    /// For how long at most, as 90s, 2m or 1h [default: until nothing is left to be done]
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    pub(crate) budget: Option<Duration>,
    #[command(flatten)]
    pub(crate) local: LocalArgs,
}

/// The words of `riddle bench trace`.
#[derive(Debug, Clone, Args)]
pub(crate) struct BenchTraceArgs {
    /// Questions in their order, a JSON object per line: question, answer (a person's), group (of one answer),
    /// foreseen (what an oracle foresees before it: this question in other words, or {"question", "answer"}), change
    /// ({"file", "text"}: what a file says from then on, nothing where it is deleted; needs --copy-of), set
    /// ({"threshold", "tree_bytes"}: what the home is set to from then on)
    #[arg(value_name = "FILE.jsonl")]
    pub(crate) trace: PathBuf,
    /// The model in this process that answers, as local:MODEL
    #[arg(long, value_name = "LLM")]
    pub(crate) llm: String,
    /// Let each system read a copy of this folder, in a home of its own: there files may change, and each answer that
    /// is given again is held against what is said anew
    #[arg(long, value_name = "FOLDER")]
    pub(crate) copy_of: Option<PathBuf>,
    /// Time before each question in which answers may be prepared, as 30s; 0: none
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub(crate) idle: Duration,
    /// Similarity from which two questions may have one answer [default: as the home is set]
    #[arg(long, value_name = "S")]
    pub(crate) threshold: Option<f32>,
    /// Only these systems, by name (repeatable) [default: all]
    #[arg(long, value_name = "SYSTEM")]
    pub(crate) system: Vec<String>,
    /// Have the model write what a person answered, token by token: what answers that hold are worth, in this model's
    /// time
    #[arg(long)]
    pub(crate) dictate: bool,
    /// In which order the model reads the passages, for every system
    #[arg(long, value_name = "ORDER", value_enum, default_value_t = OrderArg::Ranked)]
    pub(crate) passage_order: OrderArg,
}

/// The words of `riddle bench preempt`.
#[derive(Debug, Clone, Args)]
pub(crate) struct BenchPreemptArgs {
    /// Questions that come meanwhile, a JSON object per line: question
    #[arg(value_name = "FILE.jsonl")]
    pub(crate) trace: PathBuf,
    /// The model in this process that answers and prepares, as local:MODEL
    #[arg(long, value_name = "LLM")]
    pub(crate) llm: String,
    /// Times that each question is asked, beside prepared answers and alone
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = positive)]
    pub(crate) rounds: usize,
    /// How long answers are prepared before a question comes, as 2s
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration)]
    pub(crate) after: Duration,
}

/// [`ReuseGrade`] by its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReuseArg {
    /// None is given again
    Off,
    /// The model would be asked the same, word for word
    Same,
    /// Or a question alike, whose answer is held against today's files
    Checked,
    /// Or a question near enough, unchecked
    Instant,
}

impl From<ReuseArg> for ReuseGrade {
    fn from(it: ReuseArg) -> ReuseGrade {
        match it {
            ReuseArg::Off => ReuseGrade::Off,
            ReuseArg::Same => ReuseGrade::Same,
            ReuseArg::Checked => ReuseGrade::Checked,
            ReuseArg::Instant => ReuseGrade::Instant,
        }
    }
}

/// Whether a question takes an answer that is already there.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Answers that are already there (riddle cache)")]
pub(crate) struct ReuseArgs {
    /// Have the model write, even if the answer is there already
    #[arg(long, conflicts_with = "reuse")]
    pub(crate) fresh: bool,
    /// Neither take an answer that is there nor keep this one
    #[arg(long, conflicts_with = "reuse")]
    pub(crate) no_cache: bool,
    /// How much has to be known of an answer that is given again [default: as `riddle cache set` says; at first
    /// checked]
    #[arg(long, value_name = "GRADE", value_enum)]
    pub(crate) reuse: Option<ReuseArg>,
}

impl ReuseArgs {
    pub(crate) fn reuse(&self) -> Reuse {
        let off = (self.fresh || self.no_cache).then_some(ReuseGrade::Off);
        Reuse {
            grade: off.or_else(|| self.reuse.map(Into::into)),
            threshold: None,
            keep: !self.no_cache,
        }
    }
}

fn size_or_none(text: &str) -> Result<u64, String> {
    if text.trim() == "0" { Ok(0) } else { size(text) }
}

/// `90s`, `2m`, `1h`; seconds where no unit is given.
fn duration(text: &str) -> Result<Duration, String> {
    let fail = || format!("{text:?} is no time: write it as 90s, 2m or 1h");
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..end].parse().map_err(|_| fail())?;
    let unit = match &text[end..] {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return Err(fail()),
    };
    number.checked_mul(unit).map(Duration::from_secs).ok_or_else(fail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_their_units() {
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(duration("7"), Ok(Duration::from_secs(7)));
        for wrong in ["", "m", "2 m", "-1s", "1d", "99999999999999999999h"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn fresh_keeps_and_no_cache_does_not() {
        let fresh = ReuseArgs { fresh: true, ..ReuseArgs::default() }.reuse();
        assert_eq!((fresh.grade, fresh.keep), (Some(ReuseGrade::Off), true));
        let none = ReuseArgs { no_cache: true, ..ReuseArgs::default() }.reuse();
        assert_eq!((none.grade, none.keep), (Some(ReuseGrade::Off), false));
        assert_eq!(ReuseArgs::default().reuse(), Reuse::default());
    }
}
