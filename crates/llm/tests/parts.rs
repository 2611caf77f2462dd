//! A model in several files is that in one: the same logits and the same answers, bit for bit.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use riddle_cache::{Limit, Store};
use riddle_llm::{Drafting, Local, LocalOptions, Locking, StreamOptions};
use riddle_weights::gguf::{Gguf, write_parts, write_random};

fn write(dir: &Path, model: &str, format: &str) -> PathBuf {
    let path = dir.join(format!("{model}.gguf"));
    let (model, format) = (model.parse().expect("a model"), format.parse().expect("a format"));
    write_random(model, format, &path).expect("room for a small file");
    path
}

/// The first of the parts that begin at these tensors.
fn cut(path: &Path, cuts: &[usize]) -> Vec<PathBuf> {
    write_parts(path, &path.with_extension(""), cuts).expect("room for small files")
}

fn open(path: &Path, options: LocalOptions) -> Local {
    let options = LocalOptions { context_tokens: Some(256), threads: 2, ..options };
    Local::open(path, "tiny", options).expect("a model")
}

/// Layers that are read again for every token.
fn streamed(window: usize, direct_io: bool) -> LocalOptions {
    LocalOptions {
        // What the test's process holds already, and some.
        memory_budget: Some(1 << 30),
        locking: Locking::Nothing,
        pass_tokens: Some(7),
        stream: StreamOptions { window, direct_io, ..StreamOptions::default() },
        ..LocalOptions::default()
    }
}

fn prompt() -> Vec<u32> {
    (0..40).map(|it| 3 + it * 13 % 500).collect()
}

/// Logits after every token of a prompt, and what is written after it.
fn said(model: &Local) -> (Vec<u32>, Vec<u8>) {
    let prompt = prompt();
    let logits = model.logits_of(&prompt, 8).expect("it computes").concat();
    let (stats, text) = model.measure_segments(&[&prompt], 6).expect("it computes");
    assert_eq!(stats.tokens, 6);
    (logits.iter().map(|it| it.to_bits()).collect(), text)
}

#[test]
fn a_model_in_parts_says_what_it_says_in_one_file() {
    for (model, format) in [
        ("tiny-llama", "q4_k_m"),
        ("tiny-qwen3", "f16"),
        ("tiny-lfm2", "q4_k_m"),
        ("tiny-qwen3-moe", "q4_k_m"),
        ("tiny-mixtral", "q8_0"),
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        let path = write(dir.path(), model, format);
        let expected = said(&open(&path, LocalOptions::default()));
        let tensors = Gguf::open(&path).expect("opens").tensors().len();
        // A first part of keys alone, one in the middle of a layer, and one file for a few tensors each.
        let many = (1..tensors).step_by(tensors / 8).collect();
        for cuts in [vec![tensors / 2], vec![0, tensors - 3], many] {
            let parts = cut(&path, &cuts);
            for options in [LocalOptions::default(), streamed(1, false), streamed(2, true)] {
                let streams = options.memory_budget.is_some();
                let model = open(&parts[0], options);
                assert!(said(&model) == expected, "{}: {cuts:?}", path.display());
                let stats = model.measure(3, 2).expect("computes").stats;
                assert_eq!(stats.streamed_bytes_per_token > 0, streams);
            }
            parts.iter().for_each(|it| fs::remove_file(it).expect("removed"));
        }
    }
}

#[test]
fn what_was_read_with_other_parts_is_not_taken() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = write(dir.path(), "tiny-qwen3", "q8_0");
    let parts = cut(&path, &[9]);
    let prompt = prompt();
    let segments = [&prompt[..33], &prompt[33..]];
    let store = Arc::new(Store::open(&dir.path().join("kv"), Limit::default()));
    let ask = || {
        let model = open(&parts[0], LocalOptions::default());
        model.use_store(Some(Arc::clone(&store)));
        let (logits, stats) = model.logits_after(&segments).expect("it computes");
        (logits, stats.stored_tokens)
    };
    let (first, stored) = ask();
    let (again, more) = ask();
    assert_eq!((stored, more), (33, 0), "the second time it is there");
    assert!(first == again);
    // Another second part, as long as before: the lowest bit of a weight in its middle.
    let mut bytes = fs::read(&parts[1]).expect("read");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&parts[1], &bytes).expect("written");
    assert_eq!(ask().1, 33);
}

#[test]
fn a_model_in_parts_guesses_for_another() {
    let dir = tempfile::tempdir().expect("a directory");
    let small = dir.path().join("small.gguf");
    fs::rename(write(dir.path(), "tiny-llama", "q4_0"), &small).expect("renamed");
    let draft = Drafting::Model(cut(&small, &[3, 12]).remove(0));
    let large = cut(&write(dir.path(), "tiny-llama", "q8_0"), &[7]).remove(0);
    let plain = said(&open(&large, LocalOptions::default()));
    assert!(said(&open(&large, LocalOptions { draft, ..LocalOptions::default() })) == plain);
}

#[test]
fn a_part_that_is_missing_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let parts = cut(&write(dir.path(), "tiny-qwen2", "q8_0"), &[5, 11]);
    let refused = |path: &Path| Local::check(path).expect_err("refused").to_string();
    assert!(Local::check(&parts[0]).is_ok());
    assert!(refused(&parts[1]).contains("-00001-of-00003.gguf"), "{}", refused(&parts[1]));
    fs::remove_file(&parts[2]).expect("removed");
    let said = refused(&parts[0]);
    assert!(said.contains("tiny-qwen2-00003-of-00003.gguf") && said.contains("missing"), "{said}");
}
