//! How strong must evidence be before an answer is given? Counts both errors at each limit.
//!
//! `cargo run --release -p riddle-rag --example evidence -- PAIRS.jsonl [MODELS_DIR]`, with lines like
//! `{"ds": "source", "q": "a question", "pos": "the passage that answers it"}`. The passages of every other
//! pair make a library. Questions of those pairs should be answered; questions of the others, whose
//! passages are not in it, should not.
#![allow(clippy::print_stdout, reason = "an example prints what it measured")]

use std::{
    collections::{BTreeMap, HashSet},
    error::Error,
    io::BufReader,
    ops::ControlFlow,
    path::PathBuf,
    sync::atomic::AtomicBool,
};

use riddle_rag::{
    AskRequest, Assistant, Config, Library, indexing::InputDocument, writer::LLM_EXTRACTIVE,
};

/// Pairs taken of each source, spread over the file.
const PER_SOURCE: usize = 120;

#[derive(serde::Deserialize)]
struct Pair {
    ds: String,
    q: String,
    pos: String,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args_os().skip(1).map(PathBuf::from);
    let pairs = args.next().ok_or("usage: evidence PAIRS.jsonl [MODELS_DIR]")?;
    let pairs = sample(BufReader::new(std::fs::File::open(pairs)?))?;
    let home = tempfile::tempdir()?;
    let config = Config { models: args.next(), ..Config::new(home.path()) };
    let present: HashSet<&str> = pairs.iter().step_by(2).map(|it| it.pos.as_str()).collect();
    let mut passages = present.iter().zip(0..).map(|(text, id)| InputDocument {
        id: format!("{id}"),
        title: String::new(),
        text: (*text).to_owned(),
    });
    let mut library = Library::open(config.clone())?;
    library.add_documents("pairs", &mut passages, &mut |_| (), &AtomicBool::new(false))?;
    drop(library);
    let assistant = Assistant::open(config)?;
    let (mut answerable, mut others) = (Vec::new(), Vec::new());
    for (pair, in_library) in pairs.iter().zip([true, false].into_iter().cycle()) {
        if !in_library && present.contains(pair.pos.as_str()) {
            continue;
        }
        let mut ignore = |_: &str| ControlFlow::Continue(());
        let response = assistant.ask(&AskRequest::new(&pair.q), LLM_EXTRACTIVE, &mut ignore)?;
        let list = if in_library { &mut answerable } else { &mut others };
        list.push(response.evidence);
    }
    println!(
        "{} passages, {} answerable questions, {} others",
        present.len(),
        answerable.len(),
        others.len()
    );
    println!("limit  refused although answerable  answered although not");
    for step in 6..=18 {
        let limit = step as f32 * 0.05;
        let share = |list: &[f32]| {
            100.0 * list.iter().filter(|it| **it >= limit).count() as f64 / list.len() as f64
        };
        println!("{limit:.2}   {:>26.1} %  {:>19.1} %", 100.0 - share(&answerable), share(&others));
    }
    Ok(())
}

/// Up to [`PER_SOURCE`] pairs of every source, evenly spread.
fn sample(file: impl std::io::BufRead) -> Result<Vec<Pair>, Box<dyn Error>> {
    let mut sources: BTreeMap<String, Vec<Pair>> = BTreeMap::new();
    for line in file.lines() {
        let pair: Pair = serde_json::from_str(&line?)?;
        sources.entry(pair.ds.clone()).or_default().push(pair);
    }
    let mut sampled = Vec::new();
    for pairs in sources.into_values() {
        let step = pairs.len().div_ceil(PER_SOURCE).max(1);
        sampled.extend(pairs.into_iter().step_by(step));
    }
    if sampled.is_empty() {
        return Err("no pairs in this file".into());
    }
    Ok(sampled)
}
