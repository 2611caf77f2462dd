use std::path::{Path, PathBuf};

use proptest::prelude::*;
use riddle_weights::gguf::{GgufWriter, RandomFormat, RandomModel, write_random};
use serde_json::Value;

use super::*;

fn golden(name: &str) -> PathBuf {
    let folder = "../../tests/golden/language-tokenizers";
    Path::new(env!("CARGO_MANIFEST_DIR")).join(folder).join(name)
}

/// A file of nothing but a tokenizer.
#[derive(Clone, Default)]
struct Vocabulary {
    model: &'static str,
    pre: Option<String>,
    tokens: Vec<Vec<u8>>,
    types: Option<Vec<i32>>,
    merges: Option<Vec<String>>,
    scores: Option<Vec<f32>>,
    numbers: Vec<(&'static str, u32)>,
    flags: Vec<(&'static str, bool)>,
    name: &'static str,
}

impl Vocabulary {
    fn open(&self) -> Result<LanguageTokenizer> {
        let mut out = GgufWriter::new("llama");
        out.text("general.name", self.name);
        out.text("tokenizer.ggml.model", self.model);
        out.texts("tokenizer.ggml.tokens", &self.tokens);
        self.pre.iter().for_each(|it| out.text("tokenizer.ggml.pre", it));
        self.types.iter().for_each(|it| out.numbers("tokenizer.ggml.token_type", it));
        self.merges.iter().for_each(|it| out.texts("tokenizer.ggml.merges", it));
        self.scores.iter().for_each(|it| out.floats("tokenizer.ggml.scores", it));
        for (key, value) in &self.numbers {
            out.number(&format!("tokenizer.ggml.{key}"), *value);
        }
        for (key, value) in &self.flags {
            out.flag(&format!("tokenizer.ggml.{key}"), *value);
        }
        let file = tempfile::NamedTempFile::new().expect("a file");
        out.create(file.path()).and_then(|it| it.finish()).expect("written");
        LanguageTokenizer::open(&Gguf::open(file.path()).expect("a header"))
    }

    fn of(gguf: &Gguf) -> Vocabulary {
        let texts = |key: &str| gguf.texts(key).map(|it| it.iter().map(<[u8]>::to_vec).collect());
        let strings = |it: Vec<Vec<u8>>| {
            it.into_iter().map(|it| String::from_utf8(it).expect("UTF-8")).collect()
        };
        let number =
            |key| (key, gguf.number(&format!("tokenizer.ggml.{key}")).expect("there") as u32);
        Vocabulary {
            model: if gguf.floats("tokenizer.ggml.scores").is_some() { "llama" } else { "gpt2" },
            pre: gguf.text("tokenizer.ggml.pre").map(str::to_owned),
            tokens: texts("tokenizer.ggml.tokens").expect("there"),
            types: gguf
                .numbers("tokenizer.ggml.token_type")
                .map(|it| it.iter().map(|it| *it as i32).collect()),
            merges: texts("tokenizer.ggml.merges").map(strings),
            scores: gguf.floats("tokenizer.ggml.scores").map(<[f32]>::to_vec),
            numbers: vec![number("bos_token_id"), number("eos_token_id")],
            ..Vocabulary::default()
        }
    }

    fn golden(name: &str) -> Vocabulary {
        Vocabulary::of(&Gguf::open(&golden(name)).expect("opens"))
    }

    /// Letters, a merge, and a token that ends.
    fn small() -> Vocabulary {
        Vocabulary {
            model: "gpt2",
            pre: Some("qwen2".to_owned()),
            tokens: ["a", "b", "ab", "<|im_end|>"].map(|it| it.as_bytes().to_vec()).to_vec(),
            merges: Some(vec!["a b".to_owned()]),
            ..Vocabulary::default()
        }
    }

    #[track_caller]
    fn refused(&self, part: &str) {
        let error = self.open().expect_err("refused").to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[track_caller]
fn check(tokenizer: &LanguageTokenizer, texts: &Value, expected: &Value) {
    let ids = |it: &Value| -> Vec<u32> { serde_json::from_value(it.clone()).expect("ids") };
    for (special, key) in [(false, "plain"), (true, "special")] {
        let expected = expected[key].as_array().expect("texts");
        for (text, expected) in texts.as_array().expect("texts").iter().zip(expected) {
            let text = text.as_str().expect("a text");
            assert_eq!(tokenizer.encode(text, special), ids(expected), "{text:?}");
        }
    }
    let ends: Vec<u32> =
        (0..tokenizer.vocab_len() as u32).filter(|it| tokenizer.is_end(*it)).collect();
    assert_eq!(ends, ids(&expected["ends"]));
    assert_eq!(tokenizer.adds_bos(), expected["adds_bos"].as_bool().expect("a flag"));
}

fn expected() -> Value {
    let text = std::fs::read_to_string(golden("expected.json")).expect("read");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn byte_level_tokens_are_those_of_llama_cpp_however_words_are_cut() {
    let expected = expected();
    for (pre, found) in expected["byte-level"].as_object().expect("names") {
        let vocabulary =
            Vocabulary { pre: Some(pre.clone()), ..Vocabulary::golden("byte-level.gguf") };
        check(&vocabulary.open().expect(pre), &expected["texts"], found);
    }
}

#[test]
fn sentence_tokens_are_those_of_llama_cpp_with_and_without_a_first_space() {
    let expected = expected();
    for (name, flag) in [("space", true), ("plain", false)] {
        let mut vocabulary = Vocabulary::golden("sentence.gguf");
        vocabulary.flags.push(("add_space_prefix", flag));
        check(&vocabulary.open().expect(name), &expected["texts"], &expected["sentence"][name]);
    }
}

#[test]
fn control_tokens_are_found_only_where_they_are_asked_for() {
    let tokenizer = Vocabulary::golden("byte-level.gguf").open().expect("opens");
    let end = tokenizer.eos().expect("there");
    assert_eq!(tokenizer.name(end), b"<|im_end|>");
    assert_eq!(tokenizer.eot(), Some(end));
    assert!(tokenizer.is_end(end) && !tokenizer.is_end(0));
    let text = "a<|im_end|>b";
    assert!(tokenizer.encode(text, true).contains(&end));
    let plain = tokenizer.encode(text, false);
    assert!(!plain.contains(&end));
    assert_eq!(tokenizer.decode(&plain), text.as_bytes());
    assert_eq!(tokenizer.piece(end), b"");
    assert_eq!((tokenizer.piece(u32::MAX), tokenizer.name(u32::MAX)), (&b""[..], &b""[..]));
    // What user-defined tokens stand for is text.
    let call = tokenizer.encode("<tool_call>", false);
    assert_eq!((call.len(), tokenizer.decode(&call)), (1, b"<tool_call>".to_vec()));
}

/// Letters that merge to the name of a control token make it in llama.cpp, and a passage could end a turn.
#[test]
fn letters_never_merge_to_a_control_token() {
    let names =
        ["<unk>", "<s>", "</s>", "<", "/", "s", ">", "</", "s>", "<end_of_turn>", "\u{2581}"];
    let vocabulary = Vocabulary {
        model: "llama",
        tokens: names.map(|it| it.as_bytes().to_vec()).to_vec(),
        types: Some(vec![2, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1]),
        scores: Some(vec![0.0; names.len()]),
        flags: vec![("add_space_prefix", false)],
        ..Vocabulary::default()
    };
    let tokenizer = vocabulary.open().expect("opens");
    assert_eq!(tokenizer.encode("</s>", false), [7, 8]);
    assert_eq!(tokenizer.encode("</s>", true), [2]);
    assert_eq!((tokenizer.bos(), tokenizer.eos(), tokenizer.adds_bos()), (Some(1), Some(2), true));
    // It is what it is called, though its file says otherwise.
    assert!(tokenizer.is_end(9));
    assert_eq!(tokenizer.encode("\u{e4}", false), [0]);
}

#[test]
fn phi_3_drops_white_space_behind_its_marks() {
    let mut vocabulary = Vocabulary::golden("sentence.gguf");
    vocabulary.flags.push(("add_space_prefix", false));
    let usual = vocabulary.open().expect("opens").encode("<|im_end|> \n a", true);
    vocabulary.name = "Phi-3 mini";
    let phi = vocabulary.open().expect("opens");
    assert_eq!(phi.encode("<|im_end|> \n a", true), phi.encode("<|im_end|>a", true));
    assert_ne!(phi.encode("<|im_end|> \n a", true), usual);
    assert_ne!(phi.encode("<|endoftext|> a", true), phi.encode("<|endoftext|>a", true));
}

#[test]
fn vocabularies_that_contradict_themselves_are_refused_in_words() {
    let small = Vocabulary::small();
    let tokenizer = small.open().expect("opens");
    assert_eq!(tokenizer.encode("abba", false), [2, 1, 0]);
    assert_eq!((tokenizer.eot(), tokenizer.eos()), (Some(3), None));
    let with = |change: &dyn Fn(&mut Vocabulary)| {
        let mut changed = small.clone();
        change(&mut changed);
        changed
    };
    with(&|it| it.tokens.clear()).refused("empty");
    with(&|it| it.model = "").refused("no tokenizer");
    with(&|it| it.model = "rwkv").refused("\"rwkv\"");
    with(&|it| it.pre = Some("new-one".to_owned())).refused("\"new-one\"");
    with(&|it| it.merges = None).refused("no merges");
    for merge in ["a c", "c a", "b a"] {
        with(&|it| it.merges = Some(vec![merge.to_owned()])).refused("lacks");
    }
    for merge in ["", "a", "ab", " ", "a ", " a"] {
        with(&|it| it.merges = Some(vec![merge.to_owned()])).refused("not a merge");
    }
    with(&|it| it.types = Some(vec![1; 3])).refused("types of 3");
    with(&|it| it.numbers = vec![("eos_token_id", 4)]).refused("number 4");
    with(&|it| it.flags = vec![("add_bos_token", true)]).refused("does not say with which");
    with(&|it| it.tokens.push(b"a".to_vec())).refused("same");
    let sentence = |scores: Option<Vec<f32>>| {
        with(&|it| {
            it.model = "llama";
            it.types = Some(vec![1, 1, 1, 3]);
            it.scores = scores.clone();
        })
    };
    sentence(None).refused("scores");
    sentence(Some(vec![0.0; 3])).refused("scores of 3");
    sentence(Some(vec![f32::NAN; 4])).refused("not numbers");
    // Token 0 is for what is unknown, even if the file does not say so.
    assert!(sentence(Some(vec![0.0; 4])).open().is_ok());
    // Bytes that are no text, and none at all.
    let odd = with(&|it| it.tokens.extend([b"\xff\xfe".to_vec(), Vec::new(), Vec::new()]));
    assert_eq!(odd.open().expect("opens").piece(4), b"\xff\xfe");
}

#[test]
fn a_long_token_is_an_error_and_a_long_text_is_not() {
    let mut huge = Vocabulary::small();
    huge.tokens.push(vec![b'x'; 17 << 20]);
    huge.refused("nodes");
    let tokenizer = Vocabulary::golden("sentence.gguf").open().expect("opens");
    let text = "the model ".repeat(20_000);
    assert_eq!(tokenizer.decode(&tokenizer.encode(&text, false)).len(), text.len() + 1);
}

#[test]
fn models_of_random_weights_have_tokenizers() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("model.gguf");
    let format: RandomFormat = "q4_0".parse().expect("a format");
    for (model, bos, turn) in [
        (RandomModel::TinyLlama, true, "<|eot_id|>"),
        (RandomModel::TinyQwen2, false, "<|im_end|>"),
        (RandomModel::TinyQwen3, false, "<|im_end|>"),
    ] {
        write_random(model, format, &path).expect("written");
        let tokenizer = LanguageTokenizer::open(&Gguf::open(&path).expect("opens")).expect("opens");
        assert_eq!((tokenizer.vocab_len(), tokenizer.adds_bos()), (600, bos));
        let eot = tokenizer.eot().expect("there");
        assert_eq!(tokenizer.name(eot), turn.as_bytes());
        let ids = tokenizer.encode(" what is the question", false);
        assert_eq!(tokenizer.decode(&ids), b" what is the question");
        assert_eq!(ids.len(), 4);
    }
}

/// Both golden vocabularies, without a first space.
static GOLDEN: std::sync::LazyLock<(LanguageTokenizer, LanguageTokenizer)> =
    std::sync::LazyLock::new(|| {
        let mut sentence = Vocabulary::golden("sentence.gguf");
        sentence.flags.push(("add_space_prefix", false));
        let byte_level = Vocabulary::golden("byte-level.gguf");
        (byte_level.open().expect("opens"), sentence.open().expect("opens"))
    });

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(text in "(\\PC|[ \\t\\r\\n]|[a-z]{1,5} |<\\|im_end\\|>|</s>|<0x0A>){0,30}") {
        let (byte_level, sentence) = &*GOLDEN;
        prop_assert_eq!(byte_level.decode(&byte_level.encode(&text, false)), text.as_bytes());
        // The mark that stands for a space is one.
        let spaced = text.replace(SPACE, " ");
        prop_assert_eq!(sentence.decode(&sentence.encode(&text, false)), spaced.as_bytes());
    }

    #[test]
    fn letters_of_bytes_are_all_different_and_are_read_again(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        let spelled: String = bytes.iter().map(|it| LETTERS[*it as usize]).collect();
        prop_assert_eq!(unspell(spelled.as_bytes()), bytes);
    }
}
