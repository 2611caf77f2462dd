//! Arguments of `riddle rerank`.

use std::{path::PathBuf, time::Duration};

use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use riddle_rag::{Arithmetic, Pruning, RerankSettings, models::DEFAULT_RERANKER};

use super::{PruningArgs, positive, share};

#[derive(Debug, Clone, Args)]
pub(crate) struct RerankArgs {
    /// The request, {"query", "documents", "top_n"} [default: stdin]
    #[arg(value_name = "REQUEST.json")]
    pub(crate) request: Option<PathBuf>,
    /// Take a request per line and answer each with a line as soon as it comes, the model staying open
    #[arg(long, conflicts_with = "trace")]
    pub(crate) lines: bool,
    /// The reranker, by name or directory
    #[arg(long, value_name = "NAME|DIR", default_value = DEFAULT_RERANKER)]
    pub(crate) model: String,
    #[command(flatten)]
    pub(crate) pruning: PruningArgs,
    /// Longest pair in tokens; longer texts are cut [default: what the model was made for]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) max_tokens: Option<usize>,
    /// What a Qwen3 reranker is told to judge by [default: that of its model card]
    #[arg(long, value_name = "TEXT")]
    pub(crate) instruction: Option<String>,
    /// Compute what all pairs begin with for each of them, as the reference implementations do
    #[arg(long)]
    pub(crate) separate_prefixes: bool,
    /// Threads that compute [default: all cores]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) threads: Option<usize>,
    /// Numbers that are multiplied where weights are f32, f16, bf16 or q4; int8 models always multiply bytes
    #[arg(long, value_name = "NUMBERS", value_parser = arithmetics(), default_value = "f32")]
    pub(crate) compute: Arithmetic,
    /// Print logits instead of scores from 0 to 1
    #[arg(long)]
    pub(crate) raw_scores: bool,
    /// Write what happened in every layer to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    // Last, because its heading holds for whatever follows.
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
}

impl RerankArgs {
    pub(crate) fn settings(&self) -> RerankSettings {
        let pruning = self.pruning.settings();
        // A trace is replayed under other thresholds, for which it needs everybody in every layer.
        let pruning = match pruning.pruning {
            Pruning::Standard if self.trace.is_some() => {
                RerankSettings { pruning: Pruning::Never, ..pruning }
            }
            _ => pruning,
        };
        RerankSettings {
            threads: self.threads,
            max_tokens: self.max_tokens,
            instruction: self.instruction.clone(),
            separate_prefixes: self.separate_prefixes,
            arithmetic: self.compute,
            ..self.memory.onto(pruning)
        }
    }
}

fn arithmetics() -> impl TypedValueParser<Value = Arithmetic> {
    PossibleValuesParser::new(["f32", "bf16"])
        .map(|it| if it == "bf16" { Arithmetic::Bf16 } else { Arithmetic::F32 })
}

/// What a reranker may hold in memory.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Memory")]
pub(crate) struct MemoryArgs {
    /// Memory that the process is to stay within, as 250MiB; what is not set below is planned from it
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) memory_budget: Option<u64>,
    /// Layers in memory at once [default: all]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) window: Option<usize>,
    /// Tokens computed at a time
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) micro_batch_tokens: Option<usize>,
    /// Share of the embedding rows that may be in memory, 0 to 1
    #[arg(long, value_name = "SHARE", value_parser = share::<f32>)]
    pub(crate) embedding_rows: Option<f32>,
    /// Keep hidden states on disk, three micro-batches of them in memory
    #[arg(long)]
    pub(crate) hidden_on_disk: bool,
    /// Read layers past the page cache; needs a store made by `riddle models convert`
    #[arg(long)]
    pub(crate) direct_io: bool,
}

impl MemoryArgs {
    fn onto(&self, settings: RerankSettings) -> RerankSettings {
        RerankSettings {
            memory_budget: self.memory_budget,
            window: self.window,
            micro_batch_tokens: self.micro_batch_tokens,
            embedding_rows: self.embedding_rows,
            hidden_on_disk: self.hidden_on_disk,
            direct_io: self.direct_io,
            ..settings
        }
    }
}

/// A time: a number with its unit.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    const UNITS: [(&str, f64); 2] = [("ms", 1e-3), ("s", 1.0)];
    let text = text.trim();
    let number = UNITS.iter().find_map(|(unit, seconds)| {
        let number: f64 = text.strip_suffix(unit)?.trim().parse().ok()?;
        Some(number * seconds)
    });
    // An hour is longer than anybody waits for a ranking.
    let fits = number.filter(|it| *it > 0.0 && *it <= 3600.0);
    fits.map(Duration::from_secs_f64)
        .ok_or_else(|| "a time such as 150ms or 1s is needed".to_owned())
}

/// Bytes: a number, with a unit if it is not bytes.
pub(super) fn size(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u64); 8] = [
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("kB", 1_000),
        ("KB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("B", 1),
    ];
    let text = text.trim();
    let (number, unit) = UNITS
        .iter()
        .find_map(|(name, unit)| Some((text.strip_suffix(name)?.trim(), *unit)))
        .unwrap_or((text, 1));
    let bytes = number.parse::<f64>().ok().map(|it| it * unit as f64);
    // Beyond 2⁵³ bytes no machine has, f64 no longer counts every one.
    let bytes = bytes.filter(|it| (1.0..9e15).contains(it));
    bytes.map(|it| it as u64).ok_or_else(|| "a size such as 250MiB or 1.5GB is needed".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        let sizes = ["250MiB", "1.5 GB", "12kB", "7", "7B"].map(|it| size(it).ok());
        assert_eq!(sizes, [250 << 20, 1_500_000_000, 12_000, 7, 7].map(Some));
        let times = ["150ms", "1.5 s", "1s"].map(|it| time(it).ok());
        assert_eq!(times, [150, 1500, 1000].map(|it| Some(Duration::from_millis(it))));
        for text in ["", "150", "0ms", "-1s", "2h", "NaNs", "1e9s"] {
            assert!(time(text).is_err_and(|it| it.contains("150ms")), "{text}");
        }
        for text in ["", "MiB", "1 TB", "-1", "inf", "NaN", "1e30"] {
            assert!(size(text).is_err(), "{text:?}");
        }
    }
}
