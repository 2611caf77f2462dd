//! `riddle bench prefix`.

use std::sync::Arc;

use riddle_rag::{
    llm::{Local, LocalOptions},
    prefixes::{Limit, Store},
};
use riddle_types::GenerationStats;
use serde_json::{Value, json};

use crate::{args::BenchPrefixArgs, context::Context, failure::Failure, show};

/// Tokens of the rules, about as many as ours are.
const RULES: usize = 160;

/// Measures a prompt that is read whole, one that is read and kept, and one that is loaded, in turns.
pub(crate) fn run(args: &BenchPrefixArgs, context: &Context) -> Result<(), Failure> {
    let length = RULES + args.passages * args.passage_tokens + args.question_tokens;
    let options = LocalOptions {
        memory_budget: args.memory_budget,
        context_tokens: Some(length + 1),
        threads: args.threads.unwrap_or(context.config.threads),
        ..LocalOptions::default()
    };
    let model = Local::open(&args.model, "measured", options)?;
    let parent = args.dir.clone().unwrap_or_else(|| context.config.home.join("bench"));
    let dir = parent.join(format!("prefixes-{}", std::process::id()));
    let open = || Arc::new(Store::open(&dir, Limit::exactly(u64::MAX)));
    let measured = measure(&model, args, &open);
    let bytes = open().status()?.bytes / (args.runs as u64 + 1);
    // Whatever came of it, nothing is left.
    if dir.is_dir() {
        std::fs::remove_dir_all(&dir)?;
    }
    let figures = figures(&measured?, bytes, args, length);
    if context.json {
        return context.out.json(&figures);
    }
    context.out.text(page(&figures))
}

/// What prompts took.
#[derive(Default)]
struct Prompts {
    /// Without a store.
    off: Vec<GenerationStats>,
    /// With one that holds nothing of it; what is read is kept.
    new: Vec<GenerationStats>,
    /// With one that holds all but the question.
    hit: Vec<GenerationStats>,
    /// Logits after loading were those after reading, each time.
    same: bool,
}

fn measure(
    model: &Local,
    args: &BenchPrefixArgs,
    open: &dyn Fn() -> Arc<Store>,
) -> Result<Prompts, Failure> {
    let vocabulary = model.vocabulary()?;
    let mut prompts = Prompts { same: true, ..Prompts::default() };
    for run in 0..=args.runs {
        // Prompts differ from their first token on: nothing is in memory of one that was not the last.
        let [first, second] = [2 * run, 2 * run + 1].map(|number| prompt(number, args, vocabulary));
        let (first, second) = (slices(&first), slices(&second));
        model.use_store(None);
        let (_, off) = model.logits_after(&first)?;
        model.use_store(Some(open()));
        let (logits, new) = model.logits_after(&second)?;
        // Memory forgets it for another prompt; and a store as another process would find it.
        model.use_store(None);
        model.logits_after(&[&first[0][..1]])?;
        model.use_store(Some(open()));
        let (loaded, hit) = model.logits_after(&second)?;
        let bits = |it: &[f32]| it.iter().map(|it| it.to_bits()).collect::<Vec<u32>>();
        prompts.same &= bits(&loaded) == bits(&logits);
        // The first turn warms up.
        if run > 0 {
            prompts.off.push(off);
            prompts.new.push(new);
            prompts.hit.push(hit);
        }
    }
    Ok(prompts)
}

/// The rules, passages and a question of some prompt: any tokens but a single one.
fn prompt(number: usize, args: &BenchPrefixArgs, vocabulary: u32) -> Vec<Vec<u32>> {
    let mut lengths = vec![RULES];
    lengths.extend(std::iter::repeat_n(args.passage_tokens, args.passages));
    lengths.push(args.question_tokens);
    let mut next = number as u64 * 104_729;
    let segment = |length: usize| {
        (0..length)
            .map(|_| {
                next += 7919;
                (next % u64::from(vocabulary.max(1))) as u32
            })
            .collect()
    };
    lengths.into_iter().map(segment).collect()
}

fn slices(prompt: &[Vec<u32>]) -> Vec<&[u32]> {
    prompt.iter().map(Vec::as_slice).collect()
}

/// The median of what prompts took.
fn median(of: &[GenerationStats], what: impl Fn(&GenerationStats) -> f64) -> f64 {
    let mut values: Vec<f64> = of.iter().map(what).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

fn figures(prompts: &Prompts, bytes: u64, args: &BenchPrefixArgs, length: usize) -> Value {
    let first = |it: &GenerationStats| it.load_ms + it.prompt_ms;
    let [off, new, hit] = [&prompts.off, &prompts.new, &prompts.hit].map(|it| median(it, first));
    let load = median(&prompts.hit, |it| it.load_ms);
    let per = |bytes: u64, ms: f64| if ms > 0.0 { bytes as f64 * 1e3 / ms } else { 0.0 };
    json!({
        "prompt_tokens": length,
        "passages": args.passages,
        "runs": args.runs,
        "first_token_ms": { "read": off, "read_and_kept": new, "loaded": hit },
        "loaded_to_read": hit / off,
        "kept_to_read": new / off,
        "loaded_tokens": prompts.hit.first().map(|it| it.loaded_tokens),
        "look_ms": median(&prompts.new, |it| it.load_ms),
        "load_ms": load,
        "load_bytes": bytes,
        "load_bytes_per_second": per(bytes, load),
        "store_ms": median(&prompts.new, |it| it.store_ms),
        "same_bits": prompts.same,
        "peak_rss_bytes": riddle_metrics::memory().peak_rss_bytes,
    })
}

fn page(figures: &Value) -> String {
    let number = |of: &Value| of.as_f64().unwrap_or_default();
    let first = &figures["first_token_ms"];
    format!(
        "first token of {} tokens: read {}, read and kept {} (× {:.3}), loaded {} (× {:.3})\n\
         loaded {} in {} at {}/s; keeping took {} after the answer; the same bits: {}\n",
        figures["prompt_tokens"],
        show::ms(number(&first["read"])),
        show::ms(number(&first["read_and_kept"])),
        number(&figures["kept_to_read"]),
        show::ms(number(&first["loaded"])),
        number(&figures["loaded_to_read"]),
        show::bytes(number(&figures["load_bytes"]) as u64),
        show::ms(number(&figures["load_ms"])),
        show::bytes(number(&figures["load_bytes_per_second"]) as u64),
        show::ms(number(&figures["store_ms"])),
        if figures["same_bits"] == true { "yes" } else { "NO" },
    )
}
