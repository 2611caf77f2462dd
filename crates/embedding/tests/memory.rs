//! What an encoder with a window of two layers takes, as the system counts it: every family, with a model whose layers
//! are larger than that, in a process of its own. Its vectors are those of the model that is in memory as a whole, bit
//! for bit.

#![cfg(target_os = "linux")]
#![expect(clippy::print_stderr, reason = "how much was taken is worth reading")]

// Larger models than can be committed, as the reranker's budgets are held to them.
#[path = "../../grating/tests/wide/mod.rs"]
mod wide;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use riddle_embedding::{BuiltinEncoder, EncoderOptions, SpladeEncoder};
use riddle_types::EmbedRole;
use serde::{Deserialize, Serialize};

/// Says where the process of its own finds its task.
const TASK: &str = "RIDDLE_TEST_MEMORY";

/// What a process takes beside weights and states, as a reranker's plan has it: code that is paged in when it first
/// runs, the vocabulary, and what two threads pack their operands into.
const BESIDE: u64 = 14 << 20;

#[derive(Serialize, Deserialize)]
struct Task {
    model: PathBuf,
    window: Option<usize>,
    sparse: bool,
    answer: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Answer {
    bits: Vec<Vec<u32>>,
    /// Bytes of memory that the process had before the model was opened.
    before: u64,
    /// Most that it ever had.
    peak: u64,
}

/// A line of what the system tells of this process.
fn bytes(key: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux tells");
    let line = status.lines().find_map(|it| it.strip_prefix(key)).expect("Linux tells");
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().expect("a number");
    kib * 1024
}

/// Not a test by itself: the others start it with a task.
#[test]
fn child_that_encodes() {
    let Some(task) = std::env::var_os(TASK) else { return };
    let task: Task = serde_json::from_slice(&fs::read(task).expect("read")).expect("json");
    let before = bytes("VmRSS:");
    let options = EncoderOptions {
        threads: 2,
        micro_batch_tokens: 128,
        window: task.window,
        ..EncoderOptions::default()
    };
    let texts = ["The lock gate", "a narrow boat in a dry dock", "Bread", "boat dock boat dock"];
    let vectors = if task.sparse {
        SpladeEncoder::open(&task.model, options).expect("opens").weights(&texts)
    } else {
        BuiltinEncoder::open(&task.model, options)
            .expect("opens")
            .encode(&texts, EmbedRole::Passage)
    };
    let bits = |it: Vec<f32>| it.into_iter().map(f32::to_bits).collect();
    let bits = vectors.expect("encodes").into_iter().map(bits).collect();
    let answer = Answer { bits, before, peak: bytes("VmHWM:") };
    fs::write(&task.answer, serde_json::to_vec(&answer).expect("json")).expect("written");
}

fn encoded_in_a_process(model: &Path, sparse: bool, window: Option<usize>) -> Answer {
    let dir = tempfile::tempdir().expect("temp dir");
    let (task, answer) = (dir.path().join("task.json"), dir.path().join("answer.json"));
    let it = Task { model: model.to_path_buf(), window, sparse, answer: answer.clone() };
    fs::write(&task, serde_json::to_vec(&it).expect("json")).expect("written");
    let done = Command::new(std::env::current_exe().expect("own path"))
        .args(["--exact", "child_that_encodes", "--nocapture"])
        .env(TASK, &task)
        .stdout(Stdio::null())
        .status()
        .expect("runs");
    assert!(done.success(), "{}, {window:?}", model.display());
    serde_json::from_slice(&fs::read(answer).expect("an answer")).expect("json")
}

fn holds_two_layers(name: &str) {
    let dir = tempfile::tempdir().expect("temp dir");
    let layers = wide::write(name, dir.path());
    let run = |window| encoded_in_a_process(dir.path(), name.contains("sparse"), window);
    let whole = run(None);
    assert!(whole.peak > layers, "{name}: a whole model is in memory: {}", whole.peak);
    let vectors = whole.bits.iter().map(|it| it.iter().map(|it| f32::from_bits(*it)));
    assert!(vectors.flatten().all(f32::is_finite), "{name}");
    assert!(whole.bits.windows(2).all(|it| it[0] != it[1]), "{name}: texts are told apart");

    let windowed = run(Some(2));
    // Of the two places for layers each is as large as the largest layer; here they are equal but for a norm.
    let allowed = 2 * (layers / wide::LAYERS as u64) + BESIDE;
    let taken = windowed.peak - windowed.before;
    let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
    eprintln!("{name}: layers {}, taken {} of {}", mib(layers), mib(taken), mib(allowed));
    assert!(windowed.before + allowed < layers, "{name}: they would fit as a whole");
    assert!(taken <= allowed, "{name}: {taken} of {allowed}");
    assert_eq!(windowed.bits, whole.bits, "{name}: vectors of another window are others");
}

macro_rules! families {
    ($($test:ident: $name:literal),* $(,)?) => {
        $(#[test]
        fn $test() {
            holds_two_layers($name);
        })*
    };
}

families! {
    bert_holds_no_more_than_its_window: "tiny-bert-encoder",
    xlm_roberta_holds_no_more_than_its_window: "tiny-xlm-roberta-embedder",
    mpnet_holds_no_more_than_its_window: "tiny-mpnet-embedder",
    gte_holds_no_more_than_its_window: "tiny-gte-embedder",
    modernbert_holds_no_more_than_its_window: "tiny-modernbert-embedder",
    qwen3_holds_no_more_than_its_window: "tiny-qwen3-embedder",
    gemma3_holds_no_more_than_its_window: "tiny-gemma3-embedder",
    a_sparse_encoder_holds_no_more_than_its_window: "tiny-bert-sparse-encoder",
}
