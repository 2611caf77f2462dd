//! Compares the logits of a GGUF model with those of another program.
//!
//! `logits FILE TOKENS LOGITS [CHUNK [BUDGET_MB]]`: `TOKENS` is a text file of token ids, `LOGITS` their logits as
//! little-endian f32 `[tokens, vocabulary]`. Prints how many of the most likely tokens are equal and the smallest
//! cosine.

#![expect(clippy::print_stdout, reason = "an example's output is its point")]

use std::{error::Error, path::Path};

use riddle_llm::{Local, LocalOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [file, tokens, logits, rest @ ..] = args.as_slice() else {
        return Err("give FILE TOKENS LOGITS".into());
    };
    let chunk = rest.first().map_or(Ok(1), |it| it.parse::<usize>())?;
    let budget = rest.get(1).map(|it| it.parse::<u64>()).transpose()?;
    let tokens = std::fs::read_to_string(tokens)?
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<Vec<u32>, _>>()?;
    let expected: Vec<f32> = std::fs::read(logits)?
        .as_chunks::<4>()
        .0
        .iter()
        .map(|it| f32::from_le_bytes(*it))
        .collect();
    let options = LocalOptions {
        memory_budget: budget.map(|it| it << 20),
        context_tokens: Some(tokens.len() + 1),
        ..LocalOptions::default()
    };
    let model = Local::open(Path::new(file), "peer", options)?;
    let ours = model.logits_of(&tokens, chunk)?;
    let vocabulary = expected.len() / tokens.len();
    let (mut same, mut smallest, mut largest) = (0, 1f64, 0f32);
    for (number, ours) in ours.iter().enumerate() {
        let place = ((number + 1) * chunk).min(tokens.len()) - 1;
        let theirs = &expected[place * vocabulary..][..vocabulary];
        same += usize::from(top(ours) == top(theirs));
        smallest = smallest.min(cosine(ours, theirs));
        for (a, b) in ours.iter().zip(theirs) {
            largest = largest.max((a - b).abs());
        }
    }
    println!(
        "top-1 {same} of {}, cosine {smallest:.6}, largest difference {largest:.4}",
        ours.len()
    );
    Ok(())
}

fn top(values: &[f32]) -> Option<usize> {
    (0..values.len()).max_by(|a, b| values[*a].total_cmp(&values[*b]))
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| -> f64 {
        a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    };
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}
