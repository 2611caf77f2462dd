//! A memory budget, as the system counts it: language models whose layers are larger than the budget, each in a process
//! of its own. Its peak stays within, and what it computes is what the model computes that is in memory as a whole, bit
//! for bit.

#![cfg(target_os = "linux")]
#![expect(clippy::print_stderr, reason = "how much was taken is worth reading")]

mod wide;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use riddle_llm::{Error, Local, LocalOptions};
use riddle_weights::gguf::RandomModel;
use serde::{Deserialize, Serialize};

/// Says where the process of its own finds its task.
const TASK: &str = "RIDDLE_TEST_LLM_BUDGET";

/// What two processes hold may differ by before a model is opened.
const SLACK: u64 = 4 << 20;

#[derive(Serialize, Deserialize)]
struct Task {
    model: PathBuf,
    budget: Option<u64>,
    answer: PathBuf,
}

#[derive(Serialize, Deserialize, Default)]
struct Answer {
    /// Of the logits after every token.
    bits: Vec<u32>,
    /// Most bytes that were ever in the process' memory.
    peak: u64,
    /// Bytes that are read for each token.
    streamed: u64,
    /// Of a budget that is too small, the least that is not.
    least: Option<u64>,
}

/// Most memory that this process ever had.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux tells");
    let line = status.lines().find_map(|it| it.strip_prefix("VmHWM:")).expect("Linux tells");
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().expect("a number");
    kib * 1024
}

fn answer(task: &Task) -> Result<Answer, Error> {
    let options = LocalOptions {
        threads: 2,
        memory_budget: task.budget,
        context_tokens: Some(128),
        ..LocalOptions::default()
    };
    let model = Local::open(&task.model, "wide", options)?;
    let tokens: Vec<u32> = (0..40).map(|it| it * 13 % 500).collect();
    // A prompt as it is read, and token by token as an answer is written.
    let mut logits = model.logits_of(&tokens, 40)?;
    logits.extend(model.logits_of(&tokens[..6], 1)?);
    let streamed = model.measure(8, 2)?.stats.streamed_bytes_per_token;
    let bits = logits.concat().into_iter().map(f32::to_bits).collect();
    Ok(Answer { bits, peak: peak(), streamed, least: None })
}

/// Not a test by itself: the others start it with a task.
#[test]
fn child_that_computes() {
    let Some(task) = std::env::var_os(TASK) else { return };
    let task: Task = serde_json::from_slice(&fs::read(task).expect("read")).expect("json");
    let answer = match answer(&task) {
        Ok(answer) => answer,
        Err(Error::Budget { least, .. }) => Answer { least: Some(least), ..Answer::default() },
        Err(error) => panic!("{error}"),
    };
    fs::write(&task.answer, serde_json::to_vec(&answer).expect("json")).expect("written");
}

fn computed_in_a_process(model: &Path, budget: Option<u64>) -> Answer {
    let dir = tempfile::tempdir().expect("temp dir");
    let (task, answer) = (dir.path().join("task.json"), dir.path().join("answer.json"));
    let it = Task { model: model.to_path_buf(), budget, answer: answer.clone() };
    fs::write(&task, serde_json::to_vec(&it).expect("json")).expect("written");
    let done = Command::new(std::env::current_exe().expect("own path"))
        .args(["--exact", "child_that_computes", "--nocapture"])
        .env(TASK, &task)
        .stdout(Stdio::null())
        .status()
        .expect("runs");
    assert!(done.success(), "{}, {budget:?}", model.display());
    serde_json::from_slice(&fs::read(answer).expect("an answer")).expect("json")
}

fn stays_within(model: RandomModel) {
    let name = model.as_str();
    let dir = tempfile::tempdir().expect("temp dir");
    let (path, layers) = wide::write(model, dir.path());
    let whole = computed_in_a_process(&path, None);
    assert!(whole.peak > layers && whole.streamed == 0, "{name}: it is in memory as a whole");
    let logits = whole.bits.iter().map(|it| f32::from_bits(*it));
    assert!(logits.clone().all(f32::is_finite), "{name}");
    assert!(logits.clone().any(|it| it.abs() > 1e-3), "{name}");

    let least = computed_in_a_process(&path, Some(1)).least.expect("too little");
    let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
    for budget in [(least << 20) + SLACK, (least << 20) + SLACK + layers / 6] {
        assert!(budget < layers, "{name}: a budget of {budget} holds all {layers}");
        let within = computed_in_a_process(&path, Some(budget));
        eprintln!(
            "{name}: layers {}, budget {}, peak {}, read for a token {}; whole {}",
            mib(layers),
            mib(budget),
            mib(within.peak),
            mib(within.streamed),
            mib(whole.peak)
        );
        assert!(within.peak <= budget, "{name}: {} of {budget}", within.peak);
        assert!(within.streamed > 0, "{name}: all of it is in memory");
        assert!(within.bits == whole.bits, "{name}: less memory computes other logits");
    }
}

macro_rules! families {
    ($($test:ident: $model:ident),* $(,)?) => {
        $(#[test]
        fn $test() {
            stays_within(RandomModel::$model);
        })*
    };
}

families! {
    llama_stays_within_its_budget: TinyLlama,
    qwen2_stays_within_its_budget: TinyQwen2,
    qwen3_stays_within_its_budget: TinyQwen3,
    glm4_stays_within_its_budget: TinyGlm4,
    phi2_stays_within_its_budget: TinyPhi2,
    mixtral_stays_within_its_budget: TinyMixtral,
    a_mixture_of_qwen3_stays_within_its_budget: TinyQwen3Moe,
}
