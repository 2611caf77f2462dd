//! `riddle bench generate`.

use riddle_rag::llm::{Drafting, Local, LocalOptions, Measured, StreamOptions};
use serde_json::{Value, json};

use crate::{args::BenchGenerateArgs, context::Context, failure::Failure, show};

/// Measures a language model in this very process, whose peak memory is part of the figures.
pub(crate) fn run(args: &BenchGenerateArgs, context: &Context) -> Result<(), Failure> {
    let mut options = LocalOptions {
        memory_budget: args.memory_budget,
        context_tokens: Some(args.prompt + args.tokens + 1),
        stream: StreamOptions {
            window: args.window,
            io_threads: args.io_threads,
            direct_io: !args.no_direct_io,
            prefetch: !args.no_prefetch,
            ..StreamOptions::default()
        },
        locking: args.locking.into(),
        draft: match args.draft.as_str() {
            "none" => Drafting::Nothing,
            "lookup" => Drafting::Lookup,
            file => Drafting::Model(file.into()),
        },
        ..LocalOptions::default()
    };
    options.threads = args.threads.unwrap_or(context.config.threads);
    let failed = |error: riddle_rag::llm::Error| Failure::from(error);
    let model = Local::open(&args.model, "measured", options).map_err(failed)?;
    let measured = model.measure(args.prompt, args.tokens).map_err(failed)?;
    let figures = figures(&measured, args);
    if context.json {
        return context.out.json(&figures);
    }
    context.out.text(page(&measured, &figures))
}

fn per_second(tokens: usize, ms: f64) -> f64 {
    if ms > 0.0 { tokens as f64 * 1e3 / ms } else { 0.0 }
}

/// The figures, with the bound of FlexInfer's formula 4: a token takes what is longer, computing or reading.
fn figures(measured: &Measured, args: &BenchGenerateArgs) -> Value {
    let stats = &measured.stats;
    let read_ms = measured
        .stream_bytes_per_second
        .map(|rate| stats.streamed_bytes_per_token as f64 * 1e3 / rate);
    json!({
        "prompt_tokens_per_second": per_second(stats.prompt_tokens - stats.reused_tokens, stats.prompt_ms),
        "decode_tokens_per_second": stats.tokens_per_second(),
        "acceptance": stats.acceptance(),
        "stream_bytes_per_second": measured.stream_bytes_per_second,
        "stream_ms_per_token": read_ms,
        "memory_budget_bytes": args.memory_budget,
        "peak_rss_bytes": riddle_metrics::memory().peak_rss_bytes,
        "stats": stats,
    })
}

fn page(measured: &Measured, figures: &Value) -> String {
    let stats = &measured.stats;
    let number = |key: &str| figures[key].as_f64().unwrap_or_default();
    let mut page = format!(
        "prompt {:.1} tokens/s, decode {:.2} tokens/s\n",
        number("prompt_tokens_per_second"),
        number("decode_tokens_per_second"),
    );
    if let Some(acceptance) = stats.acceptance() {
        page.push_str(&format!(
            "guessed {} tokens, {:.0} % of them right\n",
            stats.drafted_tokens,
            100.0 * acceptance,
        ));
    }
    let peak = figures["peak_rss_bytes"].as_u64().unwrap_or_default();
    page.push_str(&format!(
        "peak {}, weights in memory {}, keys and values {}\n",
        show::bytes(peak),
        show::bytes(stats.resident_weight_bytes),
        show::bytes(stats.kv_cache_bytes),
    ));
    if let Some(experts) = stats.experts {
        page.push_str(&format!(
            "{} of {} experts in memory; {:.0} % of those that were asked were there, {} of {} guesses right; \
             each token reads {}\n",
            experts.held,
            experts.all,
            100.0 * experts.hit_rate().unwrap_or_default(),
            experts.guessed_right,
            experts.guessed,
            show::bytes(stats.streamed_bytes_per_token),
        ));
    }
    if let Some(rate) = measured.stream_bytes_per_second {
        page.push_str(&format!(
            "each token reads {} in {} at {}/s, window {}; waited {} in all\n",
            show::bytes(stats.streamed_bytes_per_token),
            show::ms(number("stream_ms_per_token")),
            show::bytes(rate as u64),
            stats.window_layers,
            show::ms(stats.io_wait_ms),
        ));
    }
    page
}
