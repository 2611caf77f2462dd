//! When should a question be refused? Asks questions of a library that holds the answers of some of them, and counts
//! both errors at each limit.
//!
//! `cargo run --release -p riddle-rag --example evidence -- PAIRS.jsonl MODELS_DIR [OTHERS.jsonl [SEEN.jsonl
//! [RERANKER_DIR]]]`
//!
//! `PAIRS` has lines like `{"ds": "source", "q": "a question", "pos": "the passage that answers it", "in": true}`. The
//! library holds the passages of those that are `in` (every second one where nothing is said), and of `OTHERS`, lines
//! like `{"text": "a passage"}`. What was known of each question is written to `SEEN`, from which
//! `python -m riddle_training.answers` fits what a reranker's card says of answers: of that one, else of the bundled.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example prints what it measured")]

use std::{
    collections::{BTreeMap, HashSet},
    error::Error,
    fs::File,
    io::{BufRead as _, BufReader, Write as _},
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::atomic::AtomicBool,
};

use riddle_rag::{
    AskEvent, AskRequest, Assistant, Config, Library, indexing::InputDocument,
    rerank::RerankChoice, writer::LLM_EXTRACTIVE,
};

const USAGE: &str =
    "usage: evidence PAIRS.jsonl MODELS_DIR [OTHERS.jsonl [SEEN.jsonl [RERANKER_DIR]]]";

#[derive(serde::Deserialize)]
struct Pair {
    ds: String,
    q: String,
    pos: String,
    #[serde(rename = "in")]
    present: Option<bool>,
}

#[derive(serde::Deserialize)]
struct Other {
    text: String,
}

/// What was known of a question when it was decided whether to answer.
#[derive(serde::Serialize)]
struct Seen<'a> {
    ds: &'a str,
    q: &'a str,
    #[serde(rename = "in")]
    present: bool,
    evidence: f32,
    /// The reranker's best own score of a passage that may be cited, a logit; nothing where it did not rank.
    score: Option<f32>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args_os().skip(1).map(PathBuf::from);
    let pairs: Vec<Pair> = lines(&args.next().ok_or(USAGE)?)?;
    let models = args.next();
    let others: Vec<Other> = args.next().map_or(Ok(Vec::new()), |it| lines(&it))?;
    let mut out = args.next().map(File::create).transpose()?;
    let reranker = args.next().map(|it| it.to_string_lossy().into_owned());
    let home = tempfile::tempdir()?;
    let config = Config { models, ..Config::new(home.path()) };
    let is_in = |place: usize| pairs[place].present.unwrap_or(place.is_multiple_of(2));
    let held = (0..pairs.len()).filter(|it| is_in(*it)).map(|it| pairs[it].pos.as_str());
    let held: HashSet<&str> = held.chain(others.iter().map(|it| it.text.as_str())).collect();
    let mut passages = held.iter().zip(0..).map(|(text, id)| InputDocument {
        id: format!("{id}"),
        title: String::new(),
        text: (*text).to_owned(),
    });
    let mut library = Library::open(config.clone())?;
    library.add_documents("pairs", &mut passages, &mut |_| (), &AtomicBool::new(false))?;
    drop(library);
    eprintln!("{} passages, {} questions", held.len(), pairs.len());
    let assistant = Assistant::open(config)?;
    let mut seen = Vec::new();
    for (place, pair) in pairs.iter().enumerate() {
        if !is_in(place) && held.contains(pair.pos.as_str()) {
            continue;
        }
        let mut score = None;
        let mut request = AskRequest::new(&pair.q);
        if let Some(reranker) = &reranker {
            request.search.rerank = RerankChoice::Model(reranker.clone());
        }
        let response = assistant.ask_observed(&request, LLM_EXTRACTIVE, &mut |event| {
            if let AskEvent::Evidence { settled, .. } = event {
                let own = settled.run.iter().flat_map(|it| it.own.iter().flatten());
                score = own.copied().reduce(f32::max);
            }
            ControlFlow::Continue(())
        })?;
        let evidence = response.evidence;
        let one = Seen { ds: &pair.ds, q: &pair.q, present: is_in(place), evidence, score };
        if let Some(out) = &mut out {
            writeln!(out, "{}", serde_json::to_string(&one)?)?;
        }
        seen.push(one);
    }
    report(&seen);
    Ok(())
}

/// Both errors of evidence alone, every source counting the same.
fn report(seen: &[Seen<'_>]) {
    println!("limit  refused although answerable  answered although not");
    for step in 6..=18 {
        let limit = step as f32 * 0.05;
        let share = |present: bool| {
            let mut sources: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
            for one in seen.iter().filter(|it| it.present == present) {
                let (wrong, all) = sources.entry(one.ds).or_default();
                *wrong += f64::from((one.evidence >= limit) != present);
                *all += 1.0;
            }
            let sum: f64 = sources.values().map(|(wrong, all)| wrong / all).sum();
            100.0 * sum.max(0.0) / sources.len().max(1) as f64
        };
        println!("{limit:.2}   {:>26.1} %  {:>19.1} %", share(true), share(false));
    }
}

fn lines<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Vec<T>, Box<dyn Error>> {
    let mut all = Vec::new();
    for line in BufReader::new(File::open(path)?).lines() {
        all.push(serde_json::from_str(&line?)?);
    }
    Ok(all)
}
