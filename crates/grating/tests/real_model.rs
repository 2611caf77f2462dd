//! The engine on a real cross-encoder and real files, where they are there: what pruning may and may not
//! change. How well the model ranks is judged only where the answer is plain.

#![expect(clippy::print_stderr, reason = "a skipped test says so, and overlaps are worth reading")]

use std::path::{Path, PathBuf};

use riddle_grating::{ClusterPruning, Engine, EngineOptions, Mode, Pruning, TraceRecorder, replay};
use riddle_types::{LayerEvent, RerankOutcome};

/// A threshold at which the paper's policy has much to do on a small model.
const THRESHOLD: f32 = 0.5;
const TOP_K: usize = 5;

fn shared(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(path)
}

/// The real model, or a word about why there is none.
fn model() -> Option<PathBuf> {
    let dir = shared("models/reranker-v0");
    let there = dir.join("model.safetensors").is_file();
    if !there {
        eprintln!("SKIPPED: no real cross-encoder in {}", dir.display());
    }
    there.then_some(dir)
}

fn run(dir: &Path, options: EngineOptions, query: &str, texts: &[String], top_k: usize) -> Ran {
    let refs: Vec<&str> = texts.iter().map(String::as_str).collect();
    let engine = Engine::open(dir, EngineOptions { threads: 2, ..options }).expect("opens");
    let mut recorder = TraceRecorder::default();
    let outcome = engine.run(query, &refs, top_k, &mut recorder).expect("runs");
    Ran { outcome, layers: recorder.layers }
}

struct Ran {
    outcome: RerankOutcome,
    layers: Vec<LayerEvent>,
}

impl Ran {
    fn winners(&self) -> Vec<usize> {
        self.outcome.ranked.iter().map(|it| it.index).collect()
    }
}

/// Twenty passages of real files of all folders, 800 characters each.
fn passages() -> Option<Vec<String>> {
    let dir = shared("data/eval/lihua/files");
    let mut files = Vec::new();
    let mut folders = vec![dir.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    let texts: Vec<String> = files
        .iter()
        .step_by((files.len() / 20).max(1))
        .filter_map(|it| std::fs::read_to_string(it).ok())
        .map(|it| it.chars().take(800).collect())
        .take(20)
        .collect();
    if texts.len() < 20 {
        eprintln!("SKIPPED: fewer than 20 readable files in {}", dir.display());
    }
    (texts.len() == 20).then_some(texts)
}

#[test]
fn pruning_real_passages_keeps_every_promise() {
    let (Some(dir), Some(texts)) = (model(), passages()) else { return };
    let query = "When does Wolfgang want to see the film with Li Hua?";
    let full = run(&dir, EngineOptions::default(), query, &texts, TOP_K);
    assert_eq!(full.winners().len(), TOP_K);
    let num_layers = full.outcome.stats.num_layers;
    let recorder = TraceRecorder { layers: full.layers.clone(), ..TraceRecorder::default() };
    let trace = recorder.into_trace(num_layers, None);
    for mode in [Mode::Set, Mode::Order] {
        let pruning = Pruning::Clusters { threshold: THRESHOLD };
        let pruned = run(
            &dir,
            EngineOptions { mode, pruning, ..EngineOptions::default() },
            query,
            &texts,
            TOP_K,
        );
        let winners = pruned.winners();
        assert_eq!(winners.len(), TOP_K);
        assert!(pruned.outcome.stats.candidate_layers < full.outcome.stats.candidate_layers);
        let replayed =
            replay(&trace, &ClusterPruning::new(THRESHOLD), mode, TOP_K).expect("a full trace");
        assert_eq!(replayed.candidate_layers, pruned.outcome.stats.candidate_layers);
        assert_eq!(winners, replayed.ranked.iter().map(|it| it.index).collect::<Vec<_>>());
        let overlap = winners.iter().filter(|it| full.winners().contains(it)).count();
        eprintln!(
            "{mode:?} at {THRESHOLD}: {overlap} of {TOP_K} as in the full forward, {} of {} candidate layers",
            pruned.outcome.stats.candidate_layers, full.outcome.stats.candidate_layers
        );
    }
}

/// Invariant 4 on real sizes: window × largest layer, and beside it embedding rows and head.
#[test]
fn resident_weights_stay_within_the_window() {
    let (Some(dir), Some(texts)) = (model(), passages()) else { return };
    // BERT 6 × 384 with 1 536 in the middle, in f32 once in memory.
    let (width, wide, positions, vocabulary) = (384u64, 1536u64, 512u64, 30_522u64);
    let layer = 4 * (4 * (width * width + width) + 2 * width * wide + wide + width + 4 * width);
    let head = 4 * (width * width + width + width + 1);
    let small_embeddings = 4 * width * (positions + 2 + 2);
    for (window, share) in [(1, 0.0), (2, 0.1), (6, 1.0)] {
        let options = EngineOptions {
            window: Some(window),
            embedding_rows: share,
            ..EngineOptions::default()
        };
        let ran = run(&dir, options, "the meeting", &texts, TOP_K);
        // One row at least, and a run of up to 64 neighbors on its way into the cache.
        let rows = 4 * width * ((vocabulary as f32 * share).ceil() as u64 + 1 + 64);
        let bound = window as u64 * layer + rows + head + small_embeddings;
        let resident = ran.outcome.stats.resident_weight_bytes;
        assert!(resident <= bound, "window {window}: {resident} > {bound}");
        for event in &ran.layers {
            assert!(event.resident_weight_bytes <= window as u64 * layer);
        }
        // A window that is smaller than the model reads every layer in every request.
        let read: u64 = ran.layers.iter().map(|it| it.bytes_read - it.row_bytes_read).sum();
        assert_eq!(read, 6 * layer / 2, "f16 on disk");
    }
}

/// Where the answer is plain, set mode returns what the full forward returns, for less work.
#[test]
fn two_passages_that_answer_win_over_six_that_do_not() {
    let Some(dir) = model() else { return };
    let texts = [
        "The hull of a steel boat needs blacking in a dry dock every three years.",
        "Steel boats are blacked below the waterline roughly every two to three years.",
        "Sourdough bread rises overnight in a cold kitchen.",
        "The town hall opens at nine on weekdays.",
        "A dry dock was booked for the boat in March.",
        "My favorite color is blue.",
        "Trains to the coast leave every hour.",
        "The recipe asks for two eggs and a little milk.",
    ]
    .map(str::to_owned);
    let query = "How often must a steel hull be blacked?";
    let full = run(&dir, EngineOptions::default(), query, &texts, 2);
    let pruning = Pruning::Clusters { threshold: THRESHOLD };
    let options = EngineOptions { mode: Mode::Set, pruning, ..EngineOptions::default() };
    let pruned = run(&dir, options, query, &texts, 2);
    for ran in [&full, &pruned] {
        let mut winners = ran.winners();
        winners.sort_unstable();
        assert_eq!(winners, [0, 1]);
    }
    assert!(pruned.outcome.stats.candidate_layers < full.outcome.stats.candidate_layers);
}
