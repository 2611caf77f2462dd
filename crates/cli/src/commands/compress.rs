//! `riddle compress`: one model in several number formats, and pruned variants of it, side by side.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use riddle_rag::install::{STORE_FILE, convert_model, count_weights};
use serde::Serialize;
use serde_json::Value;

use crate::{
    args::CompressArgs, context::Context, failure::Failure, output::Style, progress::Progress, show,
};

/// One line of the table: a way to make the model smaller, and what is left of it.
#[derive(Debug, Serialize)]
struct Row {
    method: String,
    /// Share of the model's weights that are gone or zero; of number formats: of the model itself.
    prune_rate: f64,
    mrr_10: f64,
    ndcg_10: f64,
    /// Median time of one question's candidates in ms.
    latency_ms: f64,
    /// Peak of the process in bytes.
    peak_rss_bytes: u64,
    resident_weight_bytes: u64,
    /// Bytes of the weights on disk.
    bytes: u64,
}

/// A model to measure.
struct Variant {
    method: String,
    dir: PathBuf,
    prune_rate: f64,
}

/// Makes, measures and shows the variants.
pub(crate) fn run(args: &CompressArgs, context: &Context) -> Result<(), Failure> {
    let scratch;
    let folder = match &args.keep {
        Some(folder) => folder.as_path(),
        None => {
            scratch = tempfile::tempdir()?;
            scratch.path()
        }
    };
    let mut progress = Progress::new();
    let variants = variants(args, folder, context, &mut progress)?;
    let mut rows: Vec<Row> = Vec::new();
    for variant in &variants {
        if context.stopped() {
            return Err(Failure::run("stopped: nothing was measured to the end"));
        }
        progress.step(&variant.method);
        rows.push(measure(variant, args, context)?);
    }
    progress.clear();
    if context.json {
        return context.out.json(&serde_json::json!({ "rows": rows }));
    }
    context.out.text(page(&rows, context.style))
}

/// The number formats in `folder`, then what was pruned elsewhere.
fn variants(
    args: &CompressArgs,
    folder: &Path,
    context: &Context,
    progress: &mut Progress,
) -> Result<Vec<Variant>, Failure> {
    let whole = count_weights(&context.config, &args.model)?;
    let rate = |kept: u64| 1.0 - kept as f64 / (whole.weights as f64).max(1.0);
    let mut variants = Vec::new();
    for &format in &args.formats {
        let dir = folder.join(format.as_str());
        convert_model(&context.config, &args.model, Some(format), Some(&dir), &mut |bytes| {
            progress.writing(bytes);
        })?;
        let method = format.as_str().to_owned();
        variants.push(Variant { method, dir, prune_rate: rate(whole.nonzero) });
    }
    for (name, dir) in &args.variants {
        let source = dir.to_string_lossy();
        let kept = count_weights(&context.config, &source)?.nonzero;
        for &format in &args.variant_formats {
            let stored = folder.join(format!("{name}-{}", format.as_str()));
            convert_model(&context.config, &source, Some(format), Some(&stored), &mut |bytes| {
                progress.writing(bytes);
            })?;
            let method = format!("{name}, {}", format.as_str());
            variants.push(Variant { method, dir: stored, prune_rate: rate(kept) });
        }
    }
    Ok(variants)
}

/// Evaluates in a process of its own: peak memory belongs to a process.
fn measure(variant: &Variant, args: &CompressArgs, context: &Context) -> Result<Row, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--home").arg(&context.config.home);
    if let Some(models) = &context.config.models {
        command.arg("--models-dir").arg(models);
    }
    command.args(["--offline", "--json", "eval"]).arg(&args.dataset);
    command.args(["--run", &args.run, "--mode", "off", "--model"]).arg(&variant.dir);
    if args.run_cosines {
        command.arg("--run-cosines");
    }
    if let Some(limit) = args.limit_queries {
        command.args(["--limit-queries", &limit.to_string()]);
    }
    let output = command.stdin(Stdio::null()).output()?;
    let failed = |why: &str| Failure::run(format!("{}: {why}", variant.method));
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(failed(said.lines().last().unwrap_or("the evaluation ended without a word")));
    }
    let report: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| failed(&format!("the evaluation's answer can not be read: {error}")))?;
    let number = |pointer: &str| {
        let found = report.pointer(pointer).and_then(Value::as_f64);
        found.ok_or_else(|| failed(&format!("the evaluation does not state {pointer}")))
    };
    Ok(Row {
        method: variant.method.clone(),
        prune_rate: variant.prune_rate,
        mrr_10: number("/stages/rerank/mrr@10")?,
        ndcg_10: number("/stages/rerank/ndcg@10")?,
        latency_ms: number("/stages/rerank/rerank_ms/p50")?,
        peak_rss_bytes: number("/memory/peak_rss_bytes")? as u64,
        resident_weight_bytes: number("/memory/resident_weight_bytes")? as u64,
        bytes: std::fs::metadata(variant.dir.join(STORE_FILE))?.len(),
    })
}

const COLUMNS: [&str; 7] =
    ["pruned", "mrr@10", "ndcg@10", "latency", "peak memory", "weights", "on disk"];

fn page(rows: &[Row], style: Style) -> String {
    let width = rows.iter().map(|it| it.method.chars().count()).max().unwrap_or(0).max(6);
    let header: String = COLUMNS.iter().map(|it| format!("{it:>13}")).collect();
    let mut page = format!("{}\n", style.dim(format!("{:<width$}{header}", "method")));
    for row in rows {
        page.push_str(&format!(
            "{:<width$}{:>13}{:>13.4}{:>13.4}{:>13}{:>13}{:>13}{:>13}\n",
            show::clean(&row.method),
            format!("{:.2} %", row.prune_rate * 100.0),
            row.mrr_10,
            row.ndcg_10,
            show::ms(row.latency_ms),
            show::bytes(row.peak_rss_bytes),
            show::bytes(row.resident_weight_bytes),
            show::bytes(row.bytes),
        ));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_under_their_headings() {
        let row = |method: &str| Row {
            method: method.to_owned(),
            prune_rate: 0.0947,
            mrr_10: 0.9,
            ndcg_10: 0.8,
            latency_ms: 12.5,
            peak_rss_bytes: 64_000_000,
            resident_weight_bytes: 22_000_000,
            bytes: 23_000_000,
        };
        let shown = page(&[row("int8"), row("random, int8")], Style::with_colors(false));
        let lengths: Vec<usize> = shown.lines().map(|it| it.chars().count()).collect();
        assert!(lengths.iter().all(|it| *it == lengths[0]), "{shown}");
        assert!(shown.contains("9.47 %") && shown.contains("0.9000"), "{shown}");
    }
}
