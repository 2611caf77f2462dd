//! A memory budget, as the system counts it: every family, with a model whose layers are larger than the budget, in a
//! process of its own. Its peak stays within, and its scores are those of the model that is in memory as a whole, bit
//! for bit.

#![cfg(target_os = "linux")]
#![expect(clippy::print_stderr, reason = "how much was taken is worth reading")]

mod wide;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use riddle_grating::{Engine, EngineOptions, Error};
use riddle_types::SilentObserver;
use serde::{Deserialize, Serialize};

/// Says where the process of its own finds its task.
const TASK: &str = "RIDDLE_TEST_BUDGET";

/// What [`child_that_ranks`] measured while its own code and its neighbors' differ by pages.
const SLACK: u64 = 4 << 20;

#[derive(Serialize, Deserialize)]
struct Task {
    model: PathBuf,
    budget: Option<u64>,
    max_tokens: usize,
    answer: PathBuf,
}

#[derive(Serialize, Deserialize, Default)]
struct Answer {
    /// Of raw scores, by candidate.
    bits: Vec<u32>,
    /// Most bytes that were ever in the process' memory.
    peak: u64,
    /// Layers that were in memory.
    window: u32,
    planned: u64,
    /// Of a budget that is too small, the smallest that is not.
    smallest: Option<u64>,
}

/// Most memory that this process ever had.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux tells");
    let line = status.lines().find_map(|it| it.strip_prefix("VmHWM:")).expect("Linux tells");
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().expect("a number");
    kib * 1024
}

/// Not a test by itself: the others start it with a task.
#[test]
fn child_that_ranks() {
    let Some(task) = std::env::var_os(TASK) else { return };
    let task: Task = serde_json::from_slice(&fs::read(task).expect("read")).expect("json");
    let options = EngineOptions {
        threads: 2,
        memory_budget: task.budget,
        max_tokens: Some(task.max_tokens),
        // Products of another number of rows may round in another way, and what is shared is another one.
        micro_batch_tokens: Some(128),
        ..EngineOptions::default()
    };
    let texts =
        ["The lock gate", "", "a narrow boat in a dry dock", "Bread", "boat dock boat dock"];
    let engine = Engine::open(&task.model, options).expect("opens");
    let answer = match engine.run("Where is the boat?", &texts, texts.len(), &mut SilentObserver) {
        Ok(outcome) => {
            let mut ranked = outcome.ranked;
            ranked.sort_by_key(|it| it.index);
            let plan = outcome.stats.plan;
            Answer {
                bits: ranked.iter().map(|it| it.raw_score.to_bits()).collect(),
                peak: peak(),
                window: plan.window_layers,
                planned: plan.planned_bytes,
                smallest: None,
            }
        }
        Err(Error::BudgetTooSmall { smallest, .. }) => {
            Answer { smallest: Some(smallest), ..Answer::default() }
        }
        Err(error) => panic!("{error}"),
    };
    fs::write(&task.answer, serde_json::to_vec(&answer).expect("json")).expect("written");
}

fn ranked_in_a_process(model: &Path, max_tokens: usize, budget: Option<u64>) -> Answer {
    let dir = tempfile::tempdir().expect("temp dir");
    let (task, answer) = (dir.path().join("task.json"), dir.path().join("answer.json"));
    let it = Task { model: model.to_path_buf(), budget, max_tokens, answer: answer.clone() };
    fs::write(&task, serde_json::to_vec(&it).expect("json")).expect("written");
    let done = Command::new(std::env::current_exe().expect("own path"))
        .args(["--exact", "child_that_ranks", "--nocapture"])
        .env(TASK, &task)
        .stdout(Stdio::null())
        .status()
        .expect("runs");
    assert!(done.success(), "{}, {budget:?}", model.display());
    serde_json::from_slice(&fs::read(answer).expect("an answer")).expect("json")
}

fn stays_within(name: &str) {
    let dir = tempfile::tempdir().expect("temp dir");
    let layers = wide::write(name, dir.path());
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name);
    let expected = fs::read(golden.join("expected.json")).expect("read");
    let expected: serde_json::Value = serde_json::from_slice(&expected).expect("json");
    let max_tokens = expected["max_tokens"].as_u64().expect("a limit") as usize;
    let run = |budget| ranked_in_a_process(dir.path(), max_tokens, budget);

    let whole = run(None);
    assert_eq!(whole.window as usize, wide::LAYERS);
    assert!(whole.peak > layers, "{name}: a whole model is in memory: {}", whole.peak);
    let scores: Vec<f32> = whole.bits.iter().map(|it| f32::from_bits(*it)).collect();
    assert!(scores.iter().all(|it| it.is_finite()), "{name}: {scores:?}");
    assert!(scores.iter().any(|it| (it - scores[0]).abs() > 1e-4), "{name}: {scores:?}");

    let smallest = run(Some(1)).smallest.expect("too small");
    let layer = layers / wide::LAYERS as u64;
    for budget in [smallest + SLACK, smallest + SLACK + 3 * layer] {
        assert!(budget < layers, "{name}: a budget of {budget} holds all {layers}");
        let within = run(Some(budget));
        eprintln!(
            "{name}: layers {}, budget {}, peak {}, window {}, planned {}; whole {}",
            mib(layers),
            mib(budget),
            mib(within.peak),
            within.window,
            mib(within.planned),
            mib(whole.peak)
        );
        assert!(within.peak <= budget, "{name}: {} of {budget}", within.peak);
        assert!((within.window as usize) < wide::LAYERS);
        assert_eq!(within.bits, whole.bits, "{name}: scores of another window are others");
    }
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

macro_rules! families {
    ($($test:ident: $name:literal),* $(,)?) => {
        $(#[test]
        fn $test() {
            stays_within($name);
        })*
    };
}

families! {
    bert_stays_within_its_budget: "tiny-bert-cross-encoder",
    xlm_roberta_stays_within_its_budget: "tiny-xlm-roberta-cross-encoder",
    roberta_stays_within_its_budget: "tiny-roberta-cross-encoder",
    fused_xlm_roberta_stays_within_its_budget: "tiny-xlm-roberta-fused-cross-encoder",
    mpnet_stays_within_its_budget: "tiny-mpnet-cross-encoder",
    gte_stays_within_its_budget: "tiny-gte-reranker",
    deberta_stays_within_its_budget: "tiny-deberta-cross-encoder",
    modernbert_stays_within_its_budget: "tiny-modernbert-cross-encoder",
    modular_modernbert_stays_within_its_budget: "tiny-modular-reranker",
    qwen2_stays_within_its_budget: "tiny-qwen2-reranker",
    qwen3_stays_within_its_budget: "tiny-qwen3-reranker",
    zerank_stays_within_its_budget: "tiny-zerank-reranker",
    minicpm_stays_within_its_budget: "tiny-minicpm-layerwise",
    late_bert_stays_within_its_budget: "tiny-bert-colbert",
    late_modernbert_stays_within_its_budget: "tiny-modernbert-late",
}
