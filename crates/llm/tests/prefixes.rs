//! What is taken from memory or from disk is what reading would have given, bit for bit.

mod windowed;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use proptest::prelude::*;
use riddle_cache::{Limit, Store};
use riddle_llm::{Local, LocalOptions, Locking, StreamOptions};
use riddle_weights::gguf::write_random;

/// Models whose routines differ: blocks of 256 and of 32, halves, convolutions, a sliding window.
fn models(dir: &Path) -> Vec<PathBuf> {
    let mut models = Vec::new();
    for (model, format) in [
        ("tiny-llama", "q4_k_m"),
        ("tiny-qwen2", "q8_0"),
        ("tiny-qwen3", "f16"),
        ("tiny-glm4", "q8_0"),
        ("tiny-phi2", "q4_k_m"),
        ("tiny-lfm2", "q4_k_m"),
    ] {
        let path = dir.join(format!("{model}.gguf"));
        let (model, format) = (model.parse().expect("a model"), format.parse().expect("a format"));
        write_random(model, format, &path).expect("room for a small file");
        models.push(path);
    }
    models.push(windowed::write(dir));
    models
}

fn open(path: &Path, options: LocalOptions) -> Local {
    let options = LocalOptions { context_tokens: Some(640), threads: 2, ..options };
    Local::open(path, "tiny", options).expect("a model")
}

/// Runs a model in as many ways as there are.
fn options(way: usize) -> LocalOptions {
    let pass_tokens = [None, Some(64), Some(13), Some(5), Some(1)][way % 5];
    let streamed = way % 2 == 1;
    LocalOptions {
        pass_tokens,
        // What the test's process holds already, and some.
        memory_budget: streamed.then_some(1 << 30),
        locking: if streamed { Locking::Nothing } else { Locking::Balanced },
        stream: StreamOptions { window: 1 + way % 3, ..StreamOptions::default() },
        ..LocalOptions::default()
    }
}

fn bits(logits: &[f32]) -> Vec<u32> {
    logits.iter().map(|it| it.to_bits()).collect()
}

/// A segment by its number: tokens of its own, of a length of its own.
fn segment(number: usize) -> Vec<u32> {
    // Around the numbers of rows at which routines change, and a block of keys.
    const LENGTHS: [usize; 8] = [33, 1, 12, 4, 100, 13, 3, 140];
    (0..LENGTHS[number % 8]).map(|it| 3 + ((it * 31 + number * 97) % 560) as u32).collect()
}

/// The rules, some passages, a question.
fn prompt(passages: &[usize], question: usize) -> Vec<Vec<u32>> {
    let mut prompt = vec![segment(0)];
    prompt.extend(passages.iter().map(|it| segment(1 + it)));
    prompt.push((0..=question).map(|it| 5 + (it * 7 + question) as u32).collect());
    prompt
}

/// What a model says that has never read anything: logits after the prompt, and an answer.
fn fresh(path: &Path, prompt: &[&[u32]]) -> (Vec<u32>, Vec<u8>) {
    let model = open(path, LocalOptions::default());
    let logits = bits(&model.logits_after(prompt).expect("it computes").0);
    let model = open(path, LocalOptions::default());
    (logits, model.measure_segments(prompt, 6).expect("it computes").1)
}

#[derive(Debug, Clone)]
enum Step {
    Ask(Vec<usize>, usize),
    Restart(usize),
    Limit(u64),
    Damage(usize, usize),
    Delete(usize),
    Clear,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let ask =
        || (prop::collection::vec(0usize..8, 0..4), 0usize..20).prop_map(|(p, q)| Step::Ask(p, q));
    let step = prop_oneof![
        6 => ask(),
        2 => (0usize..30).prop_map(Step::Restart),
        1 => (0u64..40).prop_map(|it| Step::Limit(it * 20_000)),
        1 => (any::<usize>(), any::<usize>()).prop_map(|(file, byte)| Step::Damage(file, byte)),
        1 => any::<usize>().prop_map(Step::Delete),
        1 => Just(Step::Clear),
    ];
    prop::collection::vec(step, 4..14)
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let folders = fs::read_dir(dir).into_iter().flatten().flatten();
    let files = folders.flat_map(|it| fs::read_dir(it.path()).into_iter().flatten().flatten());
    files.map(|it| it.path()).filter(|it| it.extension().is_some_and(|it| it == "kv")).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Any history of prompts, restarts in more or less memory, limits, damage and deletions: what a model says is what
    /// one says that has never read anything.
    #[test]
    fn no_history_changes_a_bit(steps in steps(), which in 0usize..5) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = models(dir.path()).swap_remove(which);
        let kept = dir.path().join("kv");
        let store = Arc::new(Store::open(&kept, Limit::exactly(1 << 30)));
        let mut model = open(&path, LocalOptions::default());
        model.use_store(Some(Arc::clone(&store)));
        for step in steps {
            match step {
                Step::Ask(passages, question) => {
                    let prompt = prompt(&passages, question);
                    let prompt: Vec<&[u32]> = prompt.iter().map(Vec::as_slice).collect();
                    let (logits, answer) = fresh(&path, &prompt);
                    let (own, _) = model.logits_after(&prompt).expect("it computes");
                    prop_assert!(bits(&own) == logits, "{passages:?} {question}: other logits");
                    let (_, said) = model.measure_segments(&prompt, 6).expect("it computes");
                    prop_assert_eq!(said, answer);
                }
                Step::Restart(way) => {
                    model = open(&path, options(way));
                    model.use_store(Some(Arc::new(Store::open(&kept, Limit::exactly(1 << 30)))));
                }
                Step::Limit(bytes) => {
                    store.set_limit(Limit::exactly(bytes)).expect("a folder");
                    model.use_store(Some(Arc::clone(&store)));
                }
                Step::Damage(file, byte) => {
                    let files = files(&kept);
                    if !files.is_empty() {
                        let path = &files[file % files.len()];
                        let mut bytes = fs::read(path).expect("it is there");
                        let place = byte % bytes.len();
                        bytes[place] ^= 1 << (byte % 8);
                        if byte % 3 == 0 {
                            bytes.truncate(place);
                        }
                        fs::write(path, bytes).expect("room");
                    }
                }
                Step::Delete(file) => {
                    let files = files(&kept);
                    if !files.is_empty() {
                        fs::remove_file(&files[file % files.len()]).expect("it is there");
                    }
                }
                Step::Clear => {
                    store.clear().expect("it clears");
                }
            }
        }
    }
}

#[test]
fn a_prompt_that_was_read_is_loaded_by_the_next_process() {
    let dir = tempfile::tempdir().expect("a directory");
    for path in models(dir.path()) {
        let kept = dir.path().join("kv");
        let store = || Some(Arc::new(Store::open(&kept, Limit::exactly(1 << 30))));
        let prompt = prompt(&[4, 1, 6], 9);
        let prompt: Vec<&[u32]> = prompt.iter().map(Vec::as_slice).collect();
        let shared: usize = prompt[..4].iter().map(|it| it.len()).sum();
        let (logits, answer) = fresh(&path, &prompt);
        let model = open(&path, LocalOptions::default());
        model.use_store(store());
        let (stats, said) = model.measure_segments(&prompt, 6).expect("it computes");
        assert_eq!((stats.loaded_tokens, stats.stored_tokens, &said), (0, shared, &answer));
        // In memory are the prompt and the answer; of the answer nothing is taken.
        let (stats, said) = model.measure_segments(&prompt, 6).expect("it computes");
        assert_eq!((stats.reused_tokens, stats.loaded_tokens), (shared + prompt[4].len() - 1, 0));
        assert_eq!(said, answer);
        // Another process, with less memory.
        let model = open(&path, options(3));
        model.use_store(store());
        let (own, stats) = model.logits_after(&prompt).expect("it computes");
        assert_eq!((stats.loaded_tokens, stats.stored_tokens), (shared, 0));
        assert!(stats.saved_ms + stats.load_ms > 0.0);
        assert!(bits(&own) == logits);
        // Another order has nothing in common but the rules.
        let other = [prompt[0], prompt[2], prompt[1], prompt[4]];
        let (_, stats) = model.logits_after(&other).expect("it computes");
        assert_eq!(stats.loaded_tokens + stats.reused_tokens, prompt[0].len());
    }
    // Every model has a tree of its own.
    let status = Store::open(&dir.path().join("kv"), Limit::exactly(1 << 30)).status();
    assert_eq!(status.expect("a folder").nodes, 7 * 6);
}

#[test]
fn a_stopped_prompt_stores_nothing() {
    use riddle_types::{GenerationRequest, Passage, PassageOrder};
    let dir = tempfile::tempdir().expect("a directory");
    let path = models(dir.path()).swap_remove(1);
    let store = Arc::new(Store::open(&dir.path().join("kv"), Limit::exactly(1 << 30)));
    let options =
        LocalOptions { context_tokens: Some(2000), threads: 2, ..LocalOptions::default() };
    let model = Local::open(&path, "tiny", options).expect("a model");
    model.use_store(Some(Arc::clone(&store)));
    let request = GenerationRequest {
        question: "Who?".to_owned(),
        passages: vec![Passage { number: 1, text: "x ".repeat(90), chunk: None }],
        max_tokens: 3,
        order: PassageOrder::Ranked,
    };
    model.answer(&request, &mut |_| std::ops::ControlFlow::Break(())).expect("it stops");
    assert_eq!(store.status().expect("a folder").nodes, 0);
    let whole = model.answer(&request, &mut |_| std::ops::ControlFlow::Continue(()));
    let stats = whole.expect("it answers").stats.expect("figures");
    assert!(stats.stored_tokens > 90 && store.status().expect("a folder").nodes == 2, "{stats:?}");
}
