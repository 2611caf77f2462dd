//! What is written does not depend on guesses: every draft against the loop without one.

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use proptest::prelude::*;
use riddle_offload::{Locking, StreamOptions};
use riddle_weights::gguf::{GgmlFormat, write_random};

#[path = "../../../tests/windowed/mod.rs"]
mod windowed;

use super::*;
use crate::local::{Sampling, draft::Lookup, small::ModelDraft};

/// Guesses that are right by a plan: it knows what will be written.
#[derive(Debug)]
struct Told {
    /// What is written behind the prompt.
    written: Vec<u32>,
    prompt: usize,
    /// Of each guess, in turn, whether it is right.
    right: Vec<bool>,
    /// Guesses of each pass, in turn.
    lengths: Vec<usize>,
    asked: usize,
    guessed: usize,
}

impl Draft for Told {
    fn begin(&mut self, _: &[u32], _: usize, _: &mut dyn FnMut() -> Flow) -> Result<Flow> {
        (self.asked, self.guessed) = (0, 0);
        Ok(ControlFlow::Continue(()))
    }

    fn guess(&mut self, before: &[u32], token: u32, most: usize) -> Result<Vec<Guess>> {
        let place = before.len() - self.prompt;
        assert_eq!(self.written[place], token, "another token than without guesses");
        let length = self.lengths[self.asked % self.lengths.len()].min(most);
        self.asked += 1;
        let rest = self.written[place + 1..].iter().copied().chain(std::iter::repeat(1));
        Ok(rest
            .take(length)
            .map(|token| {
                let right = self.right[self.guessed % self.right.len()];
                self.guessed += 1;
                Guess::certain(if right { token } else { (token + 1) % 300 })
            })
            .collect())
    }

    fn judged(&mut self, guessed: usize, accepted: usize) {
        assert!(accepted <= guessed && guessed < MOST_AS_ONE);
    }
}

fn write(dir: &Path, model: &str, format: &str) -> PathBuf {
    if model == "windowed" {
        return windowed::write(dir);
    }
    let path = dir.join(format!("{model}-{format}.gguf"));
    let (model, format) = (model.parse().expect("a model"), format.parse().expect("a format"));
    write_random(model, format, &path).expect("room for a small file");
    path
}

fn open(path: &Path, options: &LocalOptions) -> Engine {
    let mut go_on = || ControlFlow::Continue(());
    let beside = Beside { rows: MOST_AS_ONE, bytes: 0 };
    Engine::open(path, options, beside, &mut go_on).expect("a model")
}

fn options(context: usize) -> LocalOptions {
    LocalOptions { context_tokens: Some(context), threads: 2, ..LocalOptions::default() }
}

/// What an answer is: tokens, keys and values, why it ended.
#[derive(Debug, PartialEq)]
struct Written {
    tokens: Vec<u32>,
    bytes: Vec<u8>,
    kept: Vec<u16>,
    end: End,
    stats: (usize, usize),
}

/// Writes up to `most` tokens, or until as many pieces were taken.
fn answer(
    engine: &mut Engine,
    prompt: &[u32],
    most: usize,
    sampling: Sampling,
    stop: usize,
    draft: &mut dyn Draft,
) -> (Written, GenerationStats) {
    let prompt = Segments::new(prompt.to_vec(), &[], &[]);
    let (mut bytes, mut taken) = (Vec::new(), 0);
    let mut take = |piece: &[u8]| {
        bytes.extend_from_slice(piece);
        taken += usize::from(!piece.is_empty());
        if taken >= stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let sampler = &mut Sampler::new(sampling);
    let how = How { most, sampler, ends: Ends::Heard, told: &[], draft };
    let (stats, end) = engine.generate(&prompt, how, &mut take).expect("it computes");
    let kept = engine.cache.rows(0..engine.tokens.len()).concat();
    assert_eq!(engine.read, prompt.tokens.len(), "what was written counts as read");
    let stats_of = (stats.tokens, engine.tokens.len());
    (Written { tokens: engine.tokens.clone(), bytes, kept, end, stats: stats_of }, stats)
}

/// The same without guesses, in a model that is wholly in memory.
fn plain(path: &Path, context: usize, prompt: &[u32], most: usize, sampling: Sampling) -> Written {
    let mut engine = open(path, &options(context));
    answer(&mut engine, prompt, most, sampling, usize::MAX, &mut NoDraft).0
}

fn sampling(hot: bool, seed: u64) -> Sampling {
    let penalized = Sampling { seed, repeat_penalty: 1.3, ..Sampling::default() };
    if hot { Sampling { temperature: 1.2, ..penalized } } else { penalized }
}

/// Where nothing is left from one prompt to the next the same is written, and everything is read.
#[test]
fn what_is_forgotten_is_read_again_to_the_same_end() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = write(dir.path(), "tiny-llama", "q8_0");
    let prompt: Vec<u32> = (3..60).collect();
    for (forgets, known) in [(false, prompt.len() - 1), (true, 0)] {
        let mut engine = open(&path, &LocalOptions { forgets, ..options(128) });
        let mut ask =
            || answer(&mut engine, &prompt, 5, Sampling::default(), usize::MAX, &mut NoDraft);
        let ((first, _), (again, stats)) = (ask(), ask());
        assert_eq!(first, again);
        assert_eq!(stats.reused_tokens, known);
    }
}

/// Which models there are: of every format, and such whose layers differ.
fn models() -> impl Strategy<Value = (&'static str, String)> {
    let formats = GgmlFormat::ALL.map(|it| ("tiny-llama", it.name().to_lowercase()));
    let others = [
        ("tiny-llama", "q4_k_m"),
        ("tiny-qwen2", "q8_0"),
        ("tiny-qwen3", "f16"),
        ("tiny-qwen3-moe", "q4_k_m"),
        ("tiny-qwen3-moe", "q8_0"),
        ("tiny-mixtral", "f16"),
        ("windowed", ""),
        ("windowed", ""),
    ];
    let others = others.map(|(model, format)| (model, format.to_owned()));
    prop::sample::select(formats.into_iter().chain(others).collect::<Vec<_>>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Drafts that are always right, always wrong and anything between, models of every format, in any memory, greedy
    /// and drawn, up to the end of the context.
    #[test]
    fn what_is_written_does_not_depend_on_guesses(
        (model, format) in models(), length in 1usize..40, most in 1usize..40, context in 20usize..90, hot in any::<bool>(),
        right in prop_oneof![Just(vec![true]), Just(vec![false]), prop::collection::vec(any::<bool>(), 1..9)],
        lengths in prop::collection::vec(0usize..=7, 1..6), pass_tokens in prop::sample::select(vec![None, Some(1), Some(5)]),
        streamed in any::<bool>(), seed in 0u64..1000, stop in 1usize..60,
    ) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = &write(dir.path(), model, &format);
        let length = length.min(context - 1);
        let prompt: Vec<u32> = (0..length as u64).map(|it| (3 + (it * 31 + seed * 7) % 290) as u32).collect();
        let sampling = sampling(hot, seed);
        let expected = plain(path, context, &prompt, most, sampling);
        // One more than are in the cache was written, or the model ended.
        let mut written: Vec<u32> = expected.tokens[length..].to_vec();
        let mut engine = open(path, &options(context));
        if expected.end != End::Said {
            // What the last token was is not kept: the loop without guesses is asked for one more.
            let longer = plain(path, context + 1, &prompt, most + 1, sampling);
            written.extend(longer.tokens.get(length + written.len()));
        }
        let mut told = Told { written, prompt: length, right, lengths, asked: 0, guessed: 0 };
        let (drafted, stats) = answer(&mut engine, &prompt, most, sampling, usize::MAX, &mut told);
        prop_assert!(drafted == expected, "{} {drafted:?} {expected:?}", path.display());
        prop_assert!(stats.accepted_tokens <= stats.drafted_tokens);
        // Again, on what the first answer left; then read from disk, some tokens at a time.
        let (again, _) = answer(&mut engine, &prompt, most, sampling, usize::MAX, &mut told);
        prop_assert!(again == expected);
        let less = LocalOptions {
            pass_tokens,
            memory_budget: streamed.then_some(1 << 30),
            locking: if streamed { Locking::Nothing } else { Locking::Balanced },
            stream: StreamOptions { window: 2, ..StreamOptions::default() },
            ..options(context)
        };
        let mut engine = open(path, &less);
        let (streamed, _) = answer(&mut engine, &prompt, most, sampling, usize::MAX, &mut told);
        prop_assert!(streamed == expected);
        // Stopped in the middle, it is where the loop without guesses stops.
        let mut one = open(path, &options(context));
        let (expected, _) = answer(&mut one, &prompt, most, sampling, stop, &mut NoDraft);
        let (stopped, _) = answer(&mut engine, &prompt, most, sampling, stop, &mut told);
        prop_assert!(stopped == expected);
        let (looked, _) = answer(&mut engine, &prompt, most, sampling, stop, &mut Lookup::new());
        prop_assert!(looked == expected);
    }

    /// Tokens that are computed together leave the logits that they leave one after the other.
    #[test]
    fn logits_of_tokens_together_are_those_of_each_alone(
        (model, format) in models(), length in 1usize..70, count in 1usize..=MOST_AS_ONE, seed in 0u32..1000,
    ) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = &write(dir.path(), model, &format);
        let mut engine = open(path, &options(100));
        let vocabulary = engine.model.config().vocab_size;
        let prompt: Vec<u32> = (0..length as u32).map(|it| 3 + (it * 31 + seed * 7) % 290).collect();
        let tokens: Vec<u32> = (0..count as u32).map(|it| 3 + (it * 17 + seed) % 290).collect();
        let mut go_on = || ControlFlow::Continue(());
        let _ = engine.read_alone(&prompt, count, &mut go_on).expect("computes");
        let mut alone = Vec::new();
        for token in &tokens {
            let _ = engine.write(&[*token], 1).expect("computes");
            alone.extend(engine.logits[..vocabulary].iter().map(|it| it.to_bits()));
        }
        engine.keep(&prompt);
        let _ = engine.write(&tokens, count).expect("computes");
        let together: Vec<u32> = engine.logits[..count * vocabulary].iter().map(|it| it.to_bits()).collect();
        prop_assert!(together == alone, "{}", path.display());
    }
}

/// A small model of the same tokens, and the very same model, which is always right.
#[test]
fn a_model_guesses_for_another_and_changes_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let large = write(dir.path(), "tiny-llama", "q8_0");
    let small = write(dir.path(), "tiny-llama", "q4_0");
    let prompt: Vec<u32> = (0..30).map(|it| 3 + it * 31 % 290).collect();
    let mut go_on = || ControlFlow::Continue(());
    for (draft, is_same) in [(&large, true), (&small, false)] {
        let options = options(100);
        let mut engine = open(&large, &options);
        let draft = ModelDraft::open(draft, &options, &mut go_on).expect("a model");
        draft.check(&engine.tokenizer, &large).expect("the same tokens");
        assert!(draft.unseen_bytes() > 0 && draft.resident_bytes() > 0);
        let mut draft = draft.bold();
        let greedy = Sampling::default();
        let expected = plain(&large, 100, &prompt, 50, greedy);
        for _ in 0..2 {
            let (drafted, stats) = answer(&mut engine, &prompt, 50, greedy, usize::MAX, &mut draft);
            assert!(drafted == expected);
            assert!(stats.drafted_tokens > 0);
            assert!(!is_same || stats.accepted_tokens == stats.drafted_tokens, "{stats:?}");
            assert!(!is_same || stats.tokens < 50 || stats.drafted_tokens > 35, "{stats:?}");
        }
        // Drawn: a seed gives the same answer, whatever was answered before and in any memory.
        let hot = Sampling { temperature: 0.8, seed: 3, ..greedy };
        let drawn = LocalOptions { sampling: hot, ..options.clone() };
        let again = |engine: &mut Engine| {
            let mut go_on = || ControlFlow::Continue(());
            let opened = ModelDraft::open(&small, &drawn, &mut go_on);
            let mut draft = opened.expect("a model").bold();
            answer(engine, &prompt, 50, hot, usize::MAX, &mut draft)
        };
        let (first, stats) = again(&mut engine);
        assert!(stats.drafted_tokens > 0);
        let less = LocalOptions { pass_tokens: Some(1), ..options.clone() };
        assert!(again(&mut engine).0 == first && again(&mut open(&large, &less)).0 == first);
    }
}

#[test]
fn a_model_of_other_tokens_is_refused_in_words() {
    let dir = tempfile::tempdir().expect("a directory");
    let model = write(dir.path(), "tiny-qwen2", "q8_0");
    let other = write(dir.path(), "tiny-llama", "q4_0");
    let draft = crate::Drafting::Model(other);
    let options = LocalOptions { draft, ..options(50) };
    let refused = crate::Local::open(&model, "it", options).expect_err("other tokens");
    let said = refused.to_string();
    assert!(said.contains("tiny-llama-q4_0.gguf can not guess for tiny-qwen2-q8_0.gguf"), "{said}");
    assert!(said.contains("token"), "{said}");
}
