//! The library's own models are the naive twins of ours.

use std::{fs, path::PathBuf};

use proptest::prelude::*;
use serde_json::{Value, json};
use tokenizers::{
    Encoding, TruncationDirection, TruncationParams, TruncationStrategy,
    utils::truncation::truncate_encodings,
};

use super::{model::AnyModel, *};

/// Beyond every text here.
const UNLIMITED: usize = 1 << 20;

/// One of each kind and option: WordPiece, Unigram, byte-level BPE of two makes, BPE with bytes for the unknown.
const MODELS: [&str; 5] = [
    "tiny-bert-cross-encoder",
    "tiny-xlm-roberta-cross-encoder",
    "tiny-qwen3-reranker",
    "tiny-minicpm-layerwise",
    "tiny-modernbert-cross-encoder",
];

struct Twins {
    ours: Tokenizer,
    naive: tokenizers::Tokenizer,
}

impl Twins {
    fn open(dir: &Path) -> Twins {
        let ours = Tokenizer::open(dir, UNLIMITED, UNLIMITED).expect("opens");
        assert!(!is_library(&ours), "{} is read by the library", dir.display());
        let file = dir.join("tokenizer.json");
        let mut naive = tokenizers::Tokenizer::from_file(file).expect("opens");
        naive.with_padding(None);
        naive.with_truncation(None).expect("taken back");
        Twins { ours, naive }
    }

    /// A file of only a model.
    fn of(model: &Value) -> Twins {
        Twins::open(write(&json!({ "model": model }).to_string()).path())
    }

    #[track_caller]
    fn check(&self, text: &str) {
        let expected = self.naive.encode_fast(text, false);
        let found = self.ours.encode_plain(text);
        match (expected, found) {
            (Ok(expected), Ok(found)) => assert_eq!(found, expected.get_ids(), "{text:?}"),
            (expected, found) => assert_eq!(found.is_err(), expected.is_err(), "{text:?}"),
        }
    }
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name)
}

fn write(content: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("tokenizer.json"), content).expect("written");
    dir
}

fn is_library(tokenizer: &Tokenizer) -> bool {
    matches!(tokenizer.inner.get_model(), AnyModel::Library(_))
}

/// Texts of everything that tokenizers treat in a special way.
fn text() -> impl Strategy<Value = String> {
    let fragment = prop_oneof![
        4 => "[a-z]{1,9} ?",
        2 => "\\PC{0,6}",
        1 => any::<String>(),
        2 => "[ -~]{0,20}",
        1 => "[а-я]{1,8} ?",
        1 => "[ぁ-ん一-龠ก-๛ا-ي]{1,6}",
        1 => "[e\u{301}\u{308}\u{5d0}\u{5b8}\u{200d}\u{feff}]{1,5}",
        1 => "[\u{1f468}\u{1f469}\u{1f3fd}\u{200d}\u{2764}\u{fe0f}]{1,6}",
        1 => "[ \t\r\n\u{0}\u{7}\u{a0}\u{2581}\u{3000}]{1,5}",
        1 => prop::sample::select(vec![
            "<s>", "</s>", "<pad>", "<unk>", "<mask>", "[CLS]", "[SEP]", "[PAD]", "[UNK]", "<|im_start|>",
            "<|im_end|>", "<|endoftext|>", "<think>", "</think>", "<0x0A>", "<0xE9>", "don't", "I'LL", "12345",
        ]).prop_map(str::to_owned),
        1 => ("[a-zé日\u{1f600}]{1,3}", 1usize..200).prop_map(|(it, times)| it.repeat(times)),
    ];
    prop::collection::vec(fragment, 0..12).prop_map(|it| it.concat())
}

/// The tokens of single bytes: none, all, or all but one, so that some characters stay unknown.
fn byte_names() -> impl Strategy<Value = Vec<String>> {
    let all = |but: Option<u8>| -> Vec<String> {
        (0..=255).filter(|&it| Some(it) != but).map(|it| format!("<0x{it:02X}>")).collect()
    };
    prop::sample::select(vec![Vec::new(), all(None), all(Some(0xE6)), all(Some(0xF0))])
}

/// Where JSON is cut off, if at all, and which of its bytes become what.
fn damage() -> impl Strategy<Value = (Option<usize>, Vec<(usize, u8)>)> {
    let byte = prop_oneof![
        8 => prop::sample::select(b"0123456789-.e,:\"[]{}ab \\u".to_vec()),
        1 => any::<u8>(),
    ];
    let place = 0usize..1 << 16;
    (prop::option::weighted(0.2, place.clone()), prop::collection::vec((place, byte), 0..4))
}

proptest! {
    #[test]
    fn the_models_of_the_golden_tests_encode_as_the_library_does(texts in prop::collection::vec(text(), 1..8)) {
        for name in MODELS {
            let twins = Twins::open(&golden(name));
            for (index, text) in texts.iter().enumerate() {
                twins.check(text);
                let second = &texts[(index + 1) % texts.len()];
                let pair = (text.as_str(), second.as_str());
                let expected = twins.naive.encode_fast(pair, true).expect("encoded");
                let found = twins.ours.encode_pair(pair.0, pair.1).expect("encoded");
                prop_assert_eq!(&found.ids, expected.get_ids());
                let expected: Vec<u8> = expected.get_type_ids().iter().map(|&it| it as u8).collect();
                prop_assert_eq!(&found.type_ids, &expected);
            }
        }
    }

    // Equal scores, pieces that occur twice, unknown characters that are known together, the empty piece.
    #[test]
    fn a_random_unigram_encodes_as_the_library_does(
        mut vocab in prop::collection::vec(("[abé日]{0,4}", -4i32..2), 1..30),
        bytes in byte_names(),
        // Scores so high that two unknown characters are better than a piece of the two.
        more in prop::sample::select(vec![0, 40]),
        unknown in prop::option::of(0usize..30),
        byte_fallback: bool,
        texts in prop::collection::vec("[abcé日本\u{1f600} ]{0,14}", 1..8),
    ) {
        vocab.extend(bytes.into_iter().map(|it| (it, -3)));
        vocab.iter_mut().for_each(|(_, score)| *score += more);
        let unknown = unknown.filter(|&it| it < vocab.len());
        let twins = Twins::of(&json!({
            "type": "Unigram", "unk_id": unknown, "byte_fallback": byte_fallback, "vocab": vocab,
        }));
        for text in &texts {
            twins.check(text);
        }
        prop_assert_eq!(twins.ours.inner.get_vocab_size(true), twins.naive.get_vocab_size(true));
    }

    #[test]
    fn a_random_bpe_encodes_as_the_library_does(
        pairs in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..40),
        alphabet in prop::sample::subsequence(vec!["a", "b", "é", "日", "<unk>", "\u{1f600}"], 1..=6),
        shared_ids: bool,
        bytes in byte_names(),
        unknown in prop::option::of(prop::sample::select(vec!["<unk>", "<lost>", "a"])),
        switches: [bool; 4],
        texts in prop::collection::vec("[abcé日本\u{1f600} ]{0,24}", 1..8),
    ) {
        let mut tokens: Vec<String> = alphabet.iter().map(|&it| it.to_owned()).collect();
        let mut merges = Vec::new();
        for (left, right) in pairs {
            let (left, right) = (left.get(&tokens).clone(), right.get(&tokens).clone());
            if left.len() + right.len() < 40 {
                let both = format!("{left}{right}");
                if !tokens.contains(&both) {
                    tokens.push(both);
                }
                merges.push((left, right));
            }
        }
        tokens.extend(bytes);
        // Two tokens may have one number, and numbers may be missing.
        let id = |it: usize| if shared_ids { it / 2 * 3 } else { it };
        let vocab: serde_json::Map<String, Value> =
            tokens.iter().enumerate().map(|(at, it)| (it.clone(), json!(id(at)))).collect();
        let [fuse, byte_fallback, ignore_merges, lines] = switches;
        let merges = if lines {
            json!(merges.iter().map(|(a, b)| format!("{a} {b}")).collect::<Vec<_>>())
        } else {
            json!(merges)
        };
        // The empty marks of real files are none.
        let twins = Twins::of(&json!({
            "type": "BPE", "dropout": null, "unk_token": unknown, "continuing_subword_prefix": "",
            "end_of_word_suffix": null, "fuse_unk": fuse, "byte_fallback": byte_fallback,
            "ignore_merges": ignore_merges, "vocab": vocab, "merges": merges,
        }));
        for text in &texts {
            twins.check(text);
        }
        prop_assert_eq!(twins.ours.inner.get_vocab_size(true), twins.naive.get_vocab_size(true));
    }

    // Marks that are empty or also begin words, words that are too long, no token for the unknown, added tokens
    // wherever BERT's rules look for them.
    #[test]
    fn a_random_word_piece_encodes_as_the_library_does(
        beginnings in prop::collection::vec("[abAB#é日!]{1,4}", 1..20),
        rests in prop::collection::vec("[abAB#é日]{1,3}", 0..20),
        mark in prop::sample::select(vec!["##", "#", "", "é"]),
        unknown in prop::sample::select(vec!["[UNK]", "a"]),
        most in 0usize..8,
        rules: Option<[bool; 4]>,
        strip_accents: Option<bool>,
        added in prop::option::of(("(\\[M\\]|ab|é)", any::<[bool; 4]>())),
        texts in prop::collection::vec("[abABcé日\u{301}#!'\\[\\]M \\t\\n\u{b}\u{c}\u{1}\u{7f}\u{a0}]{0,24}", 1..8),
    ) {
        let pieces = beginnings.into_iter().chain(rests.iter().map(|it| format!("{mark}{it}")));
        let vocab: serde_json::Map<String, Value> =
            pieces.enumerate().map(|(id, it)| (it, json!(id))).collect();
        let mut file = json!({"model": {
            "type": "WordPiece", "unk_token": unknown, "continuing_subword_prefix": mark,
            "max_input_chars_per_word": most, "vocab": vocab,
        }});
        if let Some([clean_text, handle_chinese_chars, lowercase, _]) = rules {
            file["normalizer"] = json!({
                "type": "BertNormalizer", "clean_text": clean_text,
                "handle_chinese_chars": handle_chinese_chars, "strip_accents": strip_accents,
                "lowercase": lowercase,
            });
        }
        if rules.is_none_or(|it| it[3]) {
            file["pre_tokenizer"] = json!({"type": "BertPreTokenizer"});
        }
        if let Some((content, [normalized, single_word, lstrip, rstrip])) = added {
            file["added_tokens"] = json!([{
                "id": 1000, "content": content, "normalized": normalized, "special": !normalized,
                "single_word": single_word, "lstrip": lstrip, "rstrip": rstrip,
            }]);
        }
        let twins = Twins::open(write(&file.to_string()).path());
        for text in &texts {
            twins.check(text);
        }
        prop_assert_eq!(twins.ours.inner.get_vocab_size(true), twins.naive.get_vocab_size(true));
    }

    // Not the normalizers and templates around it: those are the library's.
    #[test]
    fn a_damaged_model_is_an_error_or_what_the_library_reads((cut, changes) in damage()) {
        for (model, text) in small_models() {
            let mut bytes = json!({ "model": model }).to_string().into_bytes();
            for (at, byte) in changes.iter().copied() {
                let at = at % bytes.len();
                bytes[at] = byte;
            }
            bytes.truncate(cut.map_or(bytes.len(), |it| it % bytes.len()));
            let dir = tempfile::tempdir().expect("a directory");
            fs::write(dir.path().join("tokenizer.json"), &bytes).expect("written");
            let Ok(ours) = Tokenizer::open(dir.path(), UNLIMITED, UNLIMITED) else { continue };
            // The library panics over a merge that is longer than its longest token.
            let library = std::panic::catch_unwind(|| tokenizers::Tokenizer::from_bytes(&bytes));
            match library {
                Ok(Ok(naive)) => Twins { ours, naive }.check(text),
                _ => drop(ours.encode_plain(text)),
            }
        }
    }

    #[test]
    fn the_longer_text_is_cut_as_the_library_cuts(first in 0usize..40, second in 0usize..40, room in 2usize..60) {
        let params = TruncationParams {
            direction: TruncationDirection::Right,
            max_length: room,
            strategy: TruncationStrategy::LongestFirst,
            stride: 0,
        };
        let (a, b) = truncate_encodings(encoding(first), Some(encoding(second)), &params).expect("cut");
        let b = b.map_or(0, |it| it.len());
        prop_assert_eq!(longest_first(first, second, room), (a.len(), b));
    }
}

fn encoding(length: usize) -> Encoding {
    let tokens = (0..length).map(|it| tokenizers::Token::new(it as u32, String::new(), (0, 0)));
    Encoding::from_tokens(tokens.collect(), 0)
}

#[test]
fn a_word_of_twenty_thousand_characters_is_encoded_as_the_library_does() {
    for name in MODELS {
        let twins = Twins::open(&golden(name));
        for part in ["a", "ab", "the", "é日", "\u{1f600}x", "e\u{301}", "▁", "<unk>", "\u{0}"] {
            twins.check(&part.repeat(20_000 / part.chars().count()));
        }
    }
}

#[test]
fn token_ids_are_those_of_the_library() {
    for name in MODELS {
        let twins = Twins::open(&golden(name));
        let model = twins.naive.get_model();
        let vocabulary = twins.naive.get_vocab(true);
        for (token, id) in &vocabulary {
            assert_eq!(twins.ours.token_id(token), Some(*id), "{token:?}");
            assert_eq!(twins.ours.inner.id_to_token(*id), twins.naive.id_to_token(*id));
        }
        assert_eq!(twins.ours.token_id("no such token"), None);
        assert_eq!(twins.ours.inner.get_vocab(true), vocabulary);
        assert_eq!(
            twins.ours.inner.get_vocab_size(false),
            tokenizers::Model::get_vocab_size(model)
        );
    }
}

#[test]
fn what_only_the_library_knows_is_left_to_it() {
    for change in [
        ("dropout", json!(0.0)),
        ("continuing_subword_prefix", json!("##")),
        ("end_of_word_suffix", json!("</w>")),
        ("type", Value::Null),
    ] {
        let mut model =
            json!({"type": "BPE", "vocab": {"a": 0, "##b": 1, "ab": 2, "b</w>": 3}, "merges": []});
        model[change.0] = change.1;
        if change.0 == "type" {
            model.as_object_mut().expect("an object").remove("type");
        }
        let dir = write(&json!({ "model": model }).to_string());
        let ours = Tokenizer::open(dir.path(), UNLIMITED, UNLIMITED).expect("opens");
        assert!(is_library(&ours), "{}", change.0);
        assert_eq!(ours.token_id("ab"), Some(2));
    }
}

/// A small model of each kind, with a text that it encodes.
fn small_models() -> [(Value, &'static str); 2] {
    [
        (
            json!({"type": "Unigram", "unk_id": 0, "byte_fallback": true,
                "vocab": [["<unk>", 0.0], ["a", -1.5], ["b", -2.0], ["ab", -2.5]]}),
            "abba",
        ),
        (
            json!({"type": "BPE", "unk_token": "a", "fuse_unk": true, "vocab": {"a": 0, "b": 1, "ab": 2},
                "merges": [["a", "b"]]}),
            "abba",
        ),
    ]
}

#[test]
fn a_model_that_lies_is_an_error() {
    let unigram = |vocab: Value, unknown: Value| json!({"type": "Unigram", "vocab": vocab, "unk_id": unknown});
    let bpe =
        |vocab: Value, merges: Value| json!({"type": "BPE", "vocab": vocab, "merges": merges});
    for (what, model) in [
        ("no model", Value::Null),
        ("an unknown kind", json!({"type": "Telepathy", "vocab": {}})),
        ("no vocabulary", json!({"type": "BPE", "merges": []})),
        ("no merges", json!({"type": "BPE", "vocab": {"a": 0}})),
        ("a list for BPE", bpe(json!([["a", 0.0]]), json!([]))),
        ("an object for Unigram", unigram(json!({"a": 0}), Value::Null)),
        ("an empty vocabulary with an unknown piece", unigram(json!([]), json!(0))),
        ("an unknown piece out of range", unigram(json!([["a", 0.0]]), json!(1))),
        ("an unknown piece far out of range", unigram(json!([["a", 0.0]]), json!(u64::MAX))),
        ("an unknown piece below zero", unigram(json!([["a", 0.0]]), json!(-1))),
        ("a score that is no number", unigram(json!([["a", null]]), json!(0))),
        ("a score as text", unigram(json!([["a", "NaN"]]), json!(0))),
        ("a piece without a score", unigram(json!([["a"]]), json!(0))),
        ("a piece of three parts", unigram(json!([["a", 0.0, 1]]), json!(0))),
        ("an id below zero", bpe(json!({"a": -1}), json!([]))),
        ("an id of 33 bits", bpe(json!({"a": 1u64 << 32}), json!([]))),
        ("the last id", bpe(json!({"a": u32::MAX}), json!([]))),
        ("an unknown left side", bpe(json!({"a": 0, "ba": 1}), json!([["b", "a"]]))),
        ("an unknown right side", bpe(json!({"a": 0, "ab": 1}), json!(["a b"]))),
        ("an unknown result", bpe(json!({"a": 0, "b": 1}), json!(["a b"]))),
        ("a merge of one", bpe(json!({"a": 0}), json!(["a"]))),
        ("a merge of three", bpe(json!({"a": 0, "aaa": 1}), json!(["a a a"]))),
        ("a list of three", bpe(json!({"a": 0, "aaa": 1}), json!([["a", "a", "a"]]))),
        ("two spellings", bpe(json!({"a": 0, "aa": 1}), json!([["a", "a"], "a a"]))),
        ("a merge of numbers", bpe(json!({"a": 0}), json!([[0, 0]]))),
    ] {
        let dir = write(&json!({ "model": model }).to_string());
        let opened = Tokenizer::open(dir.path(), UNLIMITED, UNLIMITED);
        assert!(matches!(opened, Err(Error::BadTokenizer { .. })), "{what}");
    }
}

#[test]
fn a_file_that_is_no_tokenizer_is_an_error() {
    let (model, _) = &small_models()[0];
    let whole = json!({ "model": model }).to_string();
    for content in [
        "",
        "{}",
        "[]",
        "null",
        &whole[..whole.len() - 1],
        &format!("{whole}}}"),
        &whole.replace("-1.5", "1e999"),
        &whole.replace("-1.5", "NaN"),
        &whole.replace("{\"model\"", "{\"version\":\"2.0\",\"model\""),
        &format!("{{\"model\":{}", "[".repeat(100_000)),
    ] {
        let opened = Tokenizer::open(write(content).path(), UNLIMITED, UNLIMITED);
        let shown: String = content.chars().take(80).collect();
        assert!(matches!(opened, Err(Error::BadTokenizer { .. })), "{shown}");
    }
    let empty = tempfile::tempdir().expect("a directory");
    let opened = Tokenizer::open(empty.path(), UNLIMITED, UNLIMITED);
    assert!(matches!(opened, Err(Error::BadTokenizer { .. })));
}

#[test]
fn a_file_too_large_for_a_tokenizer_is_not_read() {
    let dir = write("");
    let file = fs::File::options().write(true).open(dir.path().join("tokenizer.json"));
    // Sparse: it takes no space.
    file.expect("opened").set_len((64 << 20) + 1).expect("longer");
    let Err(Error::BadTokenizer { why, .. }) = Tokenizer::open(dir.path(), UNLIMITED, UNLIMITED)
    else {
        panic!("opened");
    };
    assert!(why.contains("67108865 bytes"), "{why}");
}

#[test]
fn the_small_models_that_are_damaged_elsewhere_work() {
    for (model, text) in small_models() {
        Twins::of(&model).check(text);
    }
}
