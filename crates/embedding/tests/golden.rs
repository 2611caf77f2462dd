//! Embedders against their references: the tiny encoder against `transformers`, the real one against
//! sentence-transformers, ONNX models against ONNX Runtime in Python.

use std::{
    fs,
    path::{Path, PathBuf},
};

use riddle_embedding::{
    BuiltinEncoder, EncoderOptions, FastEmbedder, SpladeEncoder, StaticEncoder,
};
use riddle_transformer::{
    Checkpoint, KernelLayout, OpenOptions, STORE_FILE, StorePrecision, open_layers, write_store,
};
use riddle_types::{Advice, Advised as _, EmbedRole, Embedder as _, SparseEncoder as _, TERM_STEP};
use serde::Deserialize;

#[derive(Deserialize)]
struct Expected {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    text: String,
    #[serde(alias = "mean_pooled")]
    vector: Vec<f32>,
    /// As a question, where that is something else.
    query: Option<Vec<f32>>,
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn expected(path: &Path) -> Vec<Case> {
    serde_json::from_slice::<Expected>(&fs::read(path).expect("read")).expect("json").cases
}

fn cosine(a: &[f32], b: &[f32]) -> f32 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

/// Returns the smallest cosine to the reference.
fn check(encoder: &BuiltinEncoder, cases: &[Case]) -> f32 {
    let texts: Vec<&str> = cases.iter().map(|it| it.text.as_str()).collect();
    let vectors = encoder.encode(&texts, EmbedRole::Passage).expect("encodes");
    let mut worst = 1.0f32;
    for (vector, case) in vectors.iter().zip(cases) {
        let cosine = cosine(vector, &case.vector);
        worst = worst.min(cosine);
        assert!(cosine >= 1.0 - 1e-4, "{:?}", case.text);
        let length: f32 = vector.iter().map(|it| it * it).sum();
        assert!((length - 1.0).abs() < 1e-4);
    }
    // Alone or in company, a text has the same vector.
    for (text, vector) in texts.iter().zip(&vectors) {
        let alone = encoder.encode(&[text], EmbedRole::Query).expect("encodes");
        assert!(cosine(&alone[0], vector) > 1.0 - 1e-6, "{text:?}");
    }
    worst
}

/// The tiny model's directory says nothing about its longest input; the reference cut at 48.
#[test]
fn the_tiny_encoder_equals_transformers() {
    let dir = root().join("tests/golden/tiny-bert-encoder");
    for options in [
        EncoderOptions::default(),
        EncoderOptions {
            threads: 1,
            micro_batch_tokens: 1,
            window: Some(2),
            ..EncoderOptions::default()
        },
    ] {
        let encoder = BuiltinEncoder::open(&dir, options).expect("opens");
        assert_eq!((encoder.dimensions(), encoder.max_tokens()), (32, 48));
        check(&encoder, &expected(&dir.join("expected.json")));
    }
}

/// One of each family, as sentence-transformers saves them: every way of pooling a family is published with, dense
/// layers, norms, prompts, and vectors of which the first numbers are kept.
const SENTENCE_ENCODERS: [(&str, &str, usize); 7] = [
    ("tiny-modernbert-embedder", "/48/cls/", 32),
    ("tiny-granite-embedder", "/48/cls/", 32),
    ("tiny-xlm-roberta-embedder", "/48/weightedmean-", 24),
    // Texts of 166 and 320 tokens: distances from 91 on are one.
    ("tiny-mpnet-embedder", "/320/mean/", 32),
    ("tiny-gte-embedder", "/48/cls/", 32),
    ("tiny-qwen3-embedder", "/48/lasttoken-20/", 20),
    ("tiny-gemma3-embedder", "/48/mean-", 32),
];

fn largest_difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn every_family_equals_sentence_transformers() {
    for (name, id, dimensions) in SENTENCE_ENCODERS {
        let dir = root().join("tests/golden").join(name);
        for options in [
            EncoderOptions::default(),
            EncoderOptions {
                threads: 1,
                micro_batch_tokens: 1,
                window: Some(2),
                ..EncoderOptions::default()
            },
        ] {
            let encoder = BuiltinEncoder::open(&dir, options).expect(name);
            assert_eq!(encoder.dimensions(), dimensions, "{name}");
            assert!(encoder.id().contains(id), "{}", encoder.id());
            assert!(id.starts_with(&format!("/{}/", encoder.max_tokens())), "{name}");
            let cases = expected(&dir.join("expected.json"));
            let texts: Vec<&str> = cases.iter().map(|it| it.text.as_str()).collect();
            let passages = encoder.encode(&texts, EmbedRole::Passage).expect("encodes");
            let questions = encoder.encode(&texts, EmbedRole::Query).expect("encodes");
            let mut worst = 0.0f32;
            for ((case, passage), question) in cases.iter().zip(&passages).zip(&questions) {
                worst = worst.max(largest_difference(passage, &case.vector));
                let expected = case.query.as_ref().unwrap_or(&case.vector);
                worst = worst.max(largest_difference(question, expected));
                let length: f32 = passage.iter().map(|it| it * it).sum();
                assert!((length - 1.0).abs() < 1e-4);
            }
            eprintln!("{name}: largest difference of a number: {worst:e}");
            assert!(worst < 1e-3, "{name}: {worst}");
        }
    }
}

/// Published embedders state an activation of a head that they do not have.
#[test]
fn the_activation_of_a_head_that_is_not_there_is_none_of_an_embedders() {
    let dir = root().join("tests/golden/tiny-modernbert-embedder");
    let other = copy_of(&dir);
    let path = other.path().join("config.json");
    let text = fs::read_to_string(&path).expect("read");
    let stated = r#""classifier_activation": "gelu""#;
    assert!(text.contains(stated));
    fs::write(&path, text.replace(stated, r#""classifier_activation": "silu""#)).expect("written");
    let vectors = |dir: &Path| {
        let encoder = BuiltinEncoder::open(dir, EncoderOptions::default()).expect("opens");
        encoder.encode(&["The dock is wet."], EmbedRole::Passage).expect("encodes")
    };
    assert_eq!(vectors(other.path()), vectors(&dir));
}

/// A copy of a folder with what is in it, modules included.
fn copy_of(dir: &Path) -> tempfile::TempDir {
    fn copy(from: &Path, to: &Path) {
        for entry in fs::read_dir(from).expect("a folder") {
            let entry = entry.expect("an entry");
            let to = to.join(entry.file_name());
            if entry.path().is_dir() {
                fs::create_dir(&to).expect("a folder");
                copy(&entry.path(), &to);
            } else {
                fs::copy(entry.path(), to).expect("copied");
            }
        }
    }
    let target = tempfile::tempdir().expect("temp dir");
    copy(dir, target.path());
    target
}

#[test]
fn every_family_packed_into_bytes_is_near_the_published_one() {
    for (name, ..) in SENTENCE_ENCODERS {
        let dir = root().join("tests/golden").join(name);
        let packed = copy_of(&dir);
        let source = OpenOptions { published: true, ..OpenOptions::default() };
        let model = open_layers(&dir, source).expect("opens");
        let precision = Some(StorePrecision::Int8);
        let out = packed.path();
        write_store(model.checkpoint(), model.layers(), precision, &KernelLayout, out, &mut |_| {})
            .expect("packed");
        assert!(out.join(STORE_FILE).is_file());
        assert!(Checkpoint::open(out).expect("opens").is_store());
        let encoder = BuiltinEncoder::open(out, EncoderOptions::default()).expect("opens");
        let published = BuiltinEncoder::open(&dir, EncoderOptions::default()).expect("opens");
        assert_ne!(encoder.id(), published.id(), "an index never mixes their vectors");
        let cases = expected(&dir.join("expected.json"));
        let texts: Vec<&str> = cases.iter().map(|it| it.text.as_str()).collect();
        let vectors = encoder.encode(&texts, EmbedRole::Passage).expect("encodes");
        let near = vectors.iter().zip(&cases).map(|(a, b)| cosine(a, &b.vector));
        let worst = near.fold(1.0, f32::min);
        eprintln!("{name}: smallest cosine of packed weights: {worst}");
        assert!(worst > 0.97, "{name}: {worst}");
    }
}

/// As published and packed: what is in memory is within the budget, and the vectors are the same to the bit.
#[test]
fn a_memory_budget_holds_and_changes_no_bit() {
    let long = "The dock is wet, the boat is dry and the harbor master sleeps. ".repeat(20);
    let texts = ["dock", "The boat is dry.", long.as_str(), "", "harbor"];
    for (name, ..) in SENTENCE_ENCODERS {
        let dir = copy_of(&root().join("tests/golden").join(name));
        for packed in [false, true] {
            if packed {
                let source = OpenOptions { published: true, ..OpenOptions::default() };
                let model = open_layers(dir.path(), source).expect("opens");
                let (precision, out) = (Some(StorePrecision::Int8), dir.path());
                let layers = model.layers();
                write_store(model.checkpoint(), layers, precision, &KernelLayout, out, &mut |_| {})
                    .expect("packed");
            }
            let open = |memory| {
                let options = EncoderOptions { threads: 2, memory, ..EncoderOptions::default() };
                BuiltinEncoder::open(dir.path(), options)
            };
            let vectors =
                |it: &BuiltinEncoder| it.encode(&texts, EmbedRole::Passage).expect("runs");
            let whole = vectors(&open(None).expect("opens"));
            let error = open(Some(1)).expect_err("one byte").to_string();
            assert!(error.contains("it needs at least"), "{error}");
            // The tiny ones need little: where it begins to be enough is found by halves.
            let (mut little, mut enough) = (1u64, 1 << 30);
            while enough - little > 1 {
                let middle = little + (enough - little) / 2;
                if open(Some(middle)).is_ok() { enough = middle } else { little = middle }
            }
            for budget in [enough, enough * 5 / 4, 4 * enough, 1 << 30] {
                let encoder = open(Some(budget)).expect("enough");
                assert_eq!(vectors(&encoder), whole, "{name}: {budget} bytes");
                let resident = encoder.resident_weight_bytes();
                assert!(resident <= budget, "{name}: {resident} bytes of weights in {budget}");
                assert_eq!(encoder.id(), open(None).expect("opens").id());
            }
        }
    }
}

#[test]
fn fewer_numbers_are_the_first_ones() {
    let dir = root().join("tests/golden/tiny-modernbert-embedder");
    let with = |dimensions| {
        BuiltinEncoder::open(&dir, EncoderOptions { dimensions, ..EncoderOptions::default() })
    };
    let (whole, short) = (with(None).expect("opens"), with(Some(8)).expect("opens"));
    assert_ne!(whole.id(), short.id());
    let vector =
        |it: &BuiltinEncoder| it.encode(&["A boat"], EmbedRole::Query).expect("encodes").remove(0);
    let (whole, short) = (vector(&whole), vector(&short));
    assert_eq!(short.len(), 8);
    assert!((cosine(&whole[..8], &short) - 1.0).abs() < 1e-6);
    let error = with(Some(33)).expect_err("more than there are").to_string();
    assert!(error.contains("32"), "{error}");
}

#[test]
fn static_tables_equal_their_reference() {
    for name in ["tiny-static-embedder", "tiny-static-shared-embedder"] {
        let dir = root().join("tests/golden").join(name);
        let encoder =
            StaticEncoder::open(&dir, EncoderOptions::default()).expect("opens").expect("a table");
        assert_eq!(encoder.dimensions(), 24);
        let cases = expected(&dir.join("expected.json"));
        let texts: Vec<&str> = cases.iter().map(|it| it.text.as_str()).collect();
        for (vector, case) in
            encoder.encode(&texts, EmbedRole::Passage).expect("encodes").iter().zip(&cases)
        {
            let worst = largest_difference(vector, &case.vector);
            assert!(worst < 1e-3, "{name}: {:?} differs by {worst}", case.text);
        }
        // A text of nothing that is known is near nothing, and no error.
        let none = encoder.encode(&["", "\u{1f980}"], EmbedRole::Query).expect("encodes");
        assert_eq!(none, [vec![0.0; 24], vec![0.0; 24]]);
        let opened = riddle_embedding::open(&dir, EncoderOptions::default()).expect("opens");
        assert_eq!(opened.id(), encoder.id());
        assert!(encoder.resident_weight_bytes() > 0);
    }
}

/// As sentence-transformers saves a table: in a folder of its own, with a list of modules.
#[test]
fn a_table_of_sentence_transformers_is_read_from_its_folder() {
    let golden = root().join("tests/golden/tiny-static-embedder");
    let dir = tempfile::tempdir().expect("temp dir");
    let table = dir.path().join("0_StaticEmbedding");
    fs::create_dir(&table).expect("a folder");
    for file in ["tokenizer.json", "model.safetensors"] {
        fs::copy(golden.join(file), table.join(file)).expect("copied");
    }
    let write = |json: &str| fs::write(dir.path().join("modules.json"), json).expect("written");
    write(
        r#"[{"type":"s.StaticEmbedding","path":"0_StaticEmbedding"},{"type":"s.Normalize","path":"1"}]"#,
    );
    let open = || riddle_embedding::open(dir.path(), EncoderOptions::default());
    let plain = riddle_embedding::open(&golden, EncoderOptions::default()).expect("opens");
    let embedder = open().expect("opens");
    let texts = ["The lock gate", "dock"];
    assert_eq!(
        embedder.embed(&texts, EmbedRole::Query).expect("embeds"),
        plain.embed(&texts, EmbedRole::Query).expect("embeds")
    );
    for (json, word) in [
        (r#"[{"type":"s.StaticEmbedding","path":"../elsewhere"}]"#, "../elsewhere"),
        (r#"[{"type":"s.StaticEmbedding","path":"absent"}]"#, "absent"),
        (r#"[{"type":"s.StaticEmbedding","path":""},{"type":"s.Dense","path":"2"}]"#, "Dense"),
    ] {
        write(json);
        let error = open().err().expect("refused").to_string();
        assert!(error.contains(word), "{json}: {error}");
    }
}

/// As sentence-transformers saved models before version 2: the transformer in a folder of its own.
#[test]
fn a_transformer_in_its_folder_gives_the_vectors_of_one_beside_its_modules() {
    for name in ["tiny-modernbert-embedder", "tiny-xlm-roberta-embedder", "tiny-gemma3-embedder"] {
        let golden = root().join("tests/golden").join(name);
        let dir = tempfile::tempdir().expect("temp dir");
        // The name of the folder is part of an encoder's.
        let model = dir.path().join(name);
        fs::rename(copy_of(&golden).keep(), &model).expect("moved");
        let folder = model.join("0_Transformer");
        fs::create_dir(&folder).expect("a folder");
        for file in [
            "config.json",
            "model.safetensors",
            "sentence_bert_config.json",
            "tokenizer.json",
            "tokenizer_config.json",
        ] {
            if model.join(file).is_file() {
                fs::rename(model.join(file), folder.join(file)).expect("moved");
            }
        }
        let list = model.join("modules.json");
        let text = fs::read_to_string(&list).expect("a list");
        let with = |path: &str| {
            let text = text.replacen(r#""path": """#, &format!(r#""path": "{path}""#), 1);
            assert!(text.contains(path));
            fs::write(&list, text).expect("written");
            riddle_embedding::open(&model, EncoderOptions::default())
        };
        let flat = riddle_embedding::open(&golden, EncoderOptions::default()).expect("opens");
        let embedder = with("0_Transformer").expect("opens");
        assert_eq!(embedder.id(), flat.id());
        let cases = expected(&golden.join("expected.json"));
        let texts: Vec<&str> = cases.iter().map(|it| it.text.as_str()).collect();
        for role in [EmbedRole::Query, EmbedRole::Passage] {
            let vectors = |it: &dyn riddle_types::Embedder| it.embed(&texts, role).expect("embeds");
            assert!(vectors(&*embedder) == vectors(&*flat), "{name}");
        }
        let inside = riddle_embedding::model_folder(&model).expect("a folder");
        assert_eq!(inside, folder);
        for path in ["../0_Transformer", "/etc", "absent", "0_Transformer/.."] {
            let error = with(path).err().expect("refused").to_string();
            assert!(error.contains(path), "{path}: {error}");
        }
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(&folder, model.join("link")).expect("linked");
            let error = with("link").err().expect("refused").to_string();
            assert!(error.contains("is a link"), "{error}");
        }
    }
}

/// Every folder that lies has one error, and none of them a panic or a vector.
#[test]
fn damaged_tables_and_modules_are_refused_by_name() {
    let refused = |from: &str, damage: &dyn Fn(&Path)| {
        let dir = copy_of(&root().join("tests/golden").join(from));
        damage(dir.path());
        riddle_embedding::open(dir.path(), EncoderOptions::default())
            .and_then(|it| {
                it.embed(&["dock"], EmbedRole::Query)
                    .map_err(|_| riddle_embedding::Error::NotFinite)
            })
            .map(|_| ())
            .expect_err("refused")
            .to_string()
    };
    let cut = |file: &'static str| {
        move |dir: &Path| {
            let path = dir.join(file);
            let bytes = fs::read(&path).expect("read");
            fs::write(&path, &bytes[..bytes.len() / 2]).expect("written");
        }
    };
    let replace = |file: &'static str, from: &'static str, to: &'static str| {
        move |dir: &Path| {
            let path = dir.join(file);
            let text = fs::read_to_string(&path).expect("read");
            assert!(text.contains(from), "{text}");
            fs::write(&path, text.replace(from, to)).expect("written");
        }
    };
    let remove =
        |file: &'static str| move |dir: &Path| fs::remove_file(dir.join(file)).expect("removed");
    let (gemma, table) = ("tiny-gemma3-embedder", "tiny-static-shared-embedder");
    type Damage = Box<dyn Fn(&Path)>;
    let cases: Vec<(&str, Damage, &str)> = vec![
        (table, Box::new(cut("model.safetensors")), "truncated"),
        (table, Box::new(remove("model.safetensors")), "safetensors"),
        (table, Box::new(remove("tokenizer.json")), "tokenizer.json"),
        (table, Box::new(cut("tokenizer.json")), "tokenizer.json"),
        (gemma, Box::new(cut("2_Dense/model.safetensors")), "truncated"),
        (gemma, Box::new(remove("2_Dense/model.safetensors")), "safetensors"),
        (gemma, Box::new(remove("1_Pooling/config.json")), "1_Pooling"),
        (gemma, Box::new(cut("modules.json")), "modules.json"),
        (gemma, Box::new(cut("config_sentence_transformers.json")), "sentence_transformers"),
        (gemma, Box::new(replace("2_Dense/config.json", "48", "99999999999")), "[48, 32]"),
        (gemma, Box::new(replace("3_Dense/config.json", "48", "47")), "47"),
        (gemma, Box::new(replace("config.json", "gemma3_text", "gemma9")), "gemma9"),
        (
            gemma,
            Box::new(replace("config.json", "{", r#"{"auto_map":{"AutoModel":"own.Code"},"#)),
            "own.Code",
        ),
        (gemma, Box::new(replace("modules.json", "1_Pooling", "../1_Pooling")), "../1_Pooling"),
        (gemma, Box::new(replace("modules.json", "modules.dense.Dense", "own.Magic")), "Magic"),
    ];
    for (from, damage, word) in cases {
        let error = refused(from, &*damage);
        assert!(error.contains(word), "{from}: {word} is not in: {error}");
    }
}

/// The default embedder's folder if it has this file, or why the test is skipped.
fn default_embedder(file: &str) -> Result<PathBuf, String> {
    let models = std::env::var_os("RIDDLE_TEST_MODELS")
        .map_or_else(|| root().join(".cache/models"), PathBuf::from);
    let dir = models.join("all-MiniLM-L6-v2");
    if !dir.join(file).is_file() {
        return Err(format!(
            "SKIPPED: {file} is not in {} (`make test` fetches it)",
            dir.display()
        ));
    }
    Ok(dir)
}

/// The folder of a model as it was published, without what was made of it.
fn as_published(dir: &Path) -> tempfile::TempDir {
    let plain = tempfile::tempdir().expect("a temporary folder");
    fs::create_dir(plain.path().join("1_Pooling")).expect("a folder");
    for name in [
        "config.json",
        "tokenizer.json",
        "modules.json",
        "sentence_bert_config.json",
        "1_Pooling/config.json",
        "model.safetensors",
    ] {
        fs::copy(dir.join(name), plain.path().join(name)).expect("copied");
    }
    plain
}

#[test]
fn the_packed_encoder_is_close_to_the_published_one() {
    let dir = match default_embedder("model.riddle") {
        Ok(dir) => dir,
        Err(why) => return eprintln!("{why}"),
    };
    let plain = as_published(&dir);
    let options = EncoderOptions::default();
    let packed = BuiltinEncoder::open(&dir, options).expect("opens");
    let published = BuiltinEncoder::open(plain.path(), options).expect("opens");
    assert_ne!(packed.id(), published.id(), "an index never mixes their vectors");
    let texts: Vec<String> = expected(&root().join("tests/golden/all-minilm-l6-v2.json"))
        .into_iter()
        .map(|it| it.text)
        // Nothing is searched for with nothing; its vector is that of two marks.
        .filter(|it| !it.is_empty())
        .collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let encode = |it: &BuiltinEncoder| it.encode(&texts, EmbedRole::Passage).expect("encodes");
    for ((packed, published), text) in encode(&packed).iter().zip(encode(&published)).zip(&texts) {
        let cosine = cosine(packed, &published);
        assert!(cosine > 0.99, "{cosine} for {text:?}");
    }
    let (small, large) = (packed.resident_weight_bytes(), published.resident_weight_bytes());
    assert!(3 * small < large, "{small} of {large} bytes");
}

#[test]
fn the_real_encoder_equals_sentence_transformers() {
    let dir = match default_embedder("model.safetensors") {
        Ok(dir) => dir,
        Err(why) => return eprintln!("{why}"),
    };
    let plain = as_published(&dir);
    let encoder = BuiltinEncoder::open(plain.path(), EncoderOptions::default()).expect("opens");
    assert_eq!((encoder.dimensions(), encoder.max_tokens()), (384, 256));
    let worst = check(&encoder, &expected(&root().join("tests/golden/all-minilm-l6-v2.json")));
    eprintln!("smallest cosine to the reference: {worst}");
    assert!(encoder.resident_weight_bytes() < 60 << 20, "the token table stays on disk");
}

/// Why a test of ONNX models is not for this process, if it is not. Where only the fetched ONNX Runtime is
/// there, the test runs in a process of its own that is pointed to it.
fn not_here(test: &str) -> Option<&'static str> {
    if riddle_embedding::onnx_runtime_library().is_some() {
        return None;
    }
    let fetched = root().join(".cache/onnxruntime/libonnxruntime.so");
    if std::env::var_os("ORT_DYLIB_PATH").is_none() && fetched.is_file() {
        let output = std::process::Command::new(std::env::current_exe().expect("own path"))
            .args(["--exact", test])
            .env("ORT_DYLIB_PATH", &fetched)
            .output()
            .expect("runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        return Some("passed in a process with the fetched ONNX Runtime");
    }
    Some("SKIPPED: no ONNX Runtime (`make test` fetches one; or set ORT_DYLIB_PATH)")
}

#[test]
fn an_onnx_model_equals_onnx_runtime_in_python() {
    let dir = root().join("tests/golden/tiny-onnx");
    if riddle_embedding::onnx_runtime_library().is_none() {
        let error = FastEmbedder::open(&dir).expect_err("no library");
        assert_eq!(error.advice(), Some(Advice::InstallOnnxRuntime));
        assert!(error.to_string().contains("ORT_DYLIB_PATH"), "{error}");
    }
    if let Some(why) = not_here("an_onnx_model_equals_onnx_runtime_in_python") {
        eprintln!("{why}");
        return;
    }
    let embedder = FastEmbedder::open(&dir).expect("opens");
    let cases = expected(&dir.join("expected.json"));
    let texts: Vec<&str> = cases.iter().map(|it| it.text.as_str()).collect();
    let vectors = embedder.embed(&texts, EmbedRole::Passage).expect("embeds");
    assert_eq!(embedder.dimensions(), cases[0].vector.len());
    for (vector, case) in vectors.iter().zip(&cases) {
        assert!(cosine(vector, &case.vector) >= 1.0 - 1e-4, "{:?}", case.text);
    }
    let broken = tempfile::tempdir().expect("temp dir");
    for name in ["config.json", "tokenizer.json"] {
        std::fs::copy(dir.join(name), broken.path().join(name)).expect("copy");
    }
    std::fs::write(broken.path().join("model.onnx"), b"not a graph").expect("write");
    assert!(FastEmbedder::open(broken.path()).is_err());
}

#[test]
fn numbers_beside_the_graph_are_found() {
    if let Some(why) = not_here("numbers_beside_the_graph_are_found") {
        eprintln!("{why}");
        return;
    }
    let (graph, texts) =
        (root().join("tests/golden/tiny-onnx-external"), root().join("tests/golden/tiny-onnx"));
    let dir = tempfile::tempdir().expect("temp dir");
    for name in ["config.json", "tokenizer.json", "tokenizer_config.json"] {
        std::fs::copy(texts.join(name), dir.path().join(name)).expect("copy");
    }
    std::fs::create_dir(dir.path().join("onnx")).expect("folder");
    for name in ["model.onnx", "model.onnx_data"] {
        std::fs::copy(graph.join(name), dir.path().join("onnx").join(name)).expect("copy");
    }
    let embedder = FastEmbedder::open(dir.path()).expect("opens");
    let cases = expected(&texts.join("expected.json"));
    for case in &cases {
        let vectors = embedder.embed(&[&case.text], EmbedRole::Passage).expect("embeds");
        assert!(cosine(&vectors[0], &case.vector) >= 1.0 - 1e-4, "{:?}", case.text);
    }
    std::fs::remove_file(dir.path().join("onnx/model.onnx_data")).expect("remove");
    FastEmbedder::open(dir.path()).expect_err("the numbers are missing");
}

/// Not a test by itself: the next one starts it with a library that is none.
#[test]
fn child_that_opens_an_onnx_model() {
    if std::env::var_os("RIDDLE_TEST_BAD_LIBRARY").is_none() {
        return;
    }
    let error = FastEmbedder::open(&root().join("tests/golden/tiny-onnx")).expect_err("no library");
    assert!(matches!(error, riddle_embedding::Error::NoOnnxRuntime { .. }), "{error}");
}

#[test]
fn a_library_that_is_none_is_an_error_and_no_crash() {
    let dir = tempfile::tempdir().expect("temp dir");
    let garbage = dir.path().join("garbage");
    std::fs::write(&garbage, b"not a library").expect("write");
    let own = std::env::current_exe().expect("own path");
    let some_library = PathBuf::from("/lib/x86_64-linux-gnu/libm.so.6");
    let absent = dir.path().join("absent");
    for library in [garbage, own.clone(), some_library, absent] {
        let done = std::process::Command::new(&own)
            .args(["--exact", "child_that_opens_an_onnx_model"])
            .env("RIDDLE_TEST_BAD_LIBRARY", "1")
            .env("ORT_DYLIB_PATH", &library)
            .stdout(std::process::Stdio::null())
            .status()
            .expect("runs");
        assert!(done.success(), "{}", library.display());
    }
}

fn copy_of_the_tiny_encoder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("temp dir");
    let source = root().join("tests/golden/tiny-bert-encoder");
    for name in ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"] {
        std::fs::copy(source.join(name), dir.path().join(name)).expect("copy");
    }
    dir
}

#[derive(Deserialize)]
struct ExpectedStates {
    cases: Vec<States>,
}

#[derive(Deserialize)]
struct States {
    text: String,
    /// After the embeddings and after each layer.
    first_token: Vec<Vec<f32>>,
}

#[test]
fn a_model_that_pools_the_first_token_gets_the_first_token() {
    let dir = copy_of_the_tiny_encoder();
    let mean = BuiltinEncoder::open(dir.path(), EncoderOptions::default()).expect("opens");
    std::fs::create_dir(dir.path().join("1_Pooling")).expect("folder");
    std::fs::write(dir.path().join("1_Pooling/config.json"), r#"{"pooling_mode":"cls"}"#)
        .expect("write");
    let first = BuiltinEncoder::open(dir.path(), EncoderOptions::default()).expect("opens");
    assert_ne!(mean.id(), first.id(), "vectors of the two must never be compared");
    let json = std::fs::read(root().join("tests/golden/tiny-bert-encoder/expected.json"));
    let cases = serde_json::from_slice::<ExpectedStates>(&json.expect("read")).expect("json").cases;
    let texts: Vec<&str> = cases.iter().map(|it| it.text.as_str()).collect();
    let vectors = first.encode(&texts, EmbedRole::Passage).expect("encodes");
    for (vector, case) in vectors.iter().zip(&cases) {
        let expected = case.first_token.last().expect("layers");
        assert!(cosine(vector, expected) >= 1.0 - 1e-4, "{:?}", case.text);
    }
}

#[test]
fn a_stated_prompt_is_put_before_the_text() {
    let dir = copy_of_the_tiny_encoder();
    let plain = BuiltinEncoder::open(dir.path(), EncoderOptions::default()).expect("opens");
    let settings = r#"{"prompts":{"query":"boat: ","document":""}}"#;
    std::fs::write(dir.path().join("config_sentence_transformers.json"), settings).expect("write");
    let prompted = BuiltinEncoder::open(dir.path(), EncoderOptions::default()).expect("opens");
    let one = |encoder: &BuiltinEncoder, text, role| {
        encoder.encode(&[text], role).expect("encodes").remove(0)
    };
    assert_eq!(
        one(&prompted, "dock", EmbedRole::Query),
        one(&plain, "boat: dock", EmbedRole::Query)
    );
    assert_eq!(one(&prompted, "dock", EmbedRole::Passage), one(&plain, "dock", EmbedRole::Query));
}

#[test]
fn no_texts_have_no_vectors() {
    let dir = root().join("tests/golden/tiny-bert-encoder");
    let encoder = BuiltinEncoder::open(&dir, EncoderOptions::default()).expect("opens");
    assert!(encoder.encode(&[], EmbedRole::Passage).expect("nothing to do").is_empty());
    let long = "dock ".repeat(20_000);
    let vectors = encoder.encode(&["", &long, "\0\u{202e}"], EmbedRole::Passage).expect("encodes");
    assert_eq!(vectors.len(), 3);
}

#[test]
fn the_directory_decides_who_computes_it() {
    let options = EncoderOptions::default();
    let onnx = root().join("tests/golden/tiny-onnx");
    match riddle_embedding::open(&onnx, options) {
        Ok(embedder) => {
            assert!(riddle_embedding::onnx_runtime_library().is_some() && embedder.dimensions() > 0)
        }
        Err(error) => assert!(error.to_string().contains("ORT_DYLIB_PATH"), "{error}"),
    }
    // Both are there: the built-in encoder, unless the model is beyond it. A damaged checkpoint is an
    // error and not a reason to take the other file.
    let dir = copy_of_the_tiny_encoder();
    std::fs::copy(onnx.join("model.onnx"), dir.path().join("model.onnx")).expect("copy");
    let id = |dir: &Path| riddle_embedding::open(dir, options).map(|it| it.id().to_owned());
    assert!(id(dir.path()).expect("opens").contains("/mean/"));
    let weights = dir.path().join("model.safetensors");
    let bytes = std::fs::read(&weights).expect("read");
    std::fs::write(&weights, &bytes[..bytes.len() / 2]).expect("write");
    let error = id(dir.path()).expect_err("truncated").to_string();
    assert!(error.contains("truncated"), "{error}");
    std::fs::write(&weights, &bytes).expect("write");
    let modules = r#"[{"type":"sentence_transformers.models.Dense"}]"#;
    std::fs::write(dir.path().join("modules.json"), modules).expect("write");
    match id(dir.path()) {
        Ok(id) => assert!(!id.contains("/mean/"), "{id}"),
        Err(error) => assert!(error.to_string().contains("ORT_DYLIB_PATH"), "{error}"),
    }
    std::fs::remove_file(dir.path().join("model.onnx")).expect("remove");
    let error = id(dir.path()).expect_err("a projection").to_string();
    assert!(error.contains("Dense"), "{error}");
}

#[test]
fn a_damaged_model_is_an_error_and_not_a_vector() {
    let dir = copy_of_the_tiny_encoder();
    let weights = dir.path().join("model.safetensors");
    let mut bytes = std::fs::read(&weights).expect("read");
    let middle = bytes.len() / 2;
    bytes[middle..middle + 400].fill(0xff);
    std::fs::write(&weights, bytes).expect("write");
    let error = BuiltinEncoder::open(dir.path(), EncoderOptions::default())
        .and_then(|encoder| encoder.encode(&["boat"], EmbedRole::Query))
        .expect_err("NaN")
        .to_string();
    assert!(error.contains("NaN"), "{error}");
}

#[derive(Deserialize)]
struct ExpectedTerms {
    cases: Vec<TermCase>,
}

#[derive(Deserialize)]
struct TermCase {
    text: String,
    /// Of every term.
    weights: Option<Vec<f32>>,
    /// Of those that have one.
    terms: Option<Vec<(usize, f32)>>,
}

fn expected_terms(path: &Path, terms: usize) -> Vec<(String, Vec<f32>)> {
    let read: ExpectedTerms = serde_json::from_slice(&fs::read(path).expect("read")).expect("json");
    let dense = |case: TermCase| {
        let mut weights = case.weights.unwrap_or_else(|| vec![0.0; terms]);
        for (term, weight) in case.terms.unwrap_or_default() {
            weights[term] = weight;
        }
        (case.text, weights)
    };
    read.cases.into_iter().map(dense).collect()
}

/// Largest difference of a weight; all texts at once, one of which is longer than the model reads.
fn furthest(encoder: &SpladeEncoder, cases: &[(String, Vec<f32>)]) -> f32 {
    let texts: Vec<&str> = cases.iter().map(|it| it.0.as_str()).collect();
    let found = encoder.weights(&texts).expect("encodes");
    let differences = found.iter().zip(cases).flat_map(|(found, case)| {
        assert_eq!(found.len(), case.1.len());
        found.iter().zip(&case.1).map(|(a, b)| (a - b).abs())
    });
    differences.fold(0.0, f32::max)
}

#[test]
fn term_weights_of_the_tiny_model_equal_transformers() {
    let dir = root().join("tests/golden/tiny-bert-sparse-encoder");
    let cases = expected_terms(&dir.join("expected.json"), 0);
    for options in [
        EncoderOptions::default(),
        EncoderOptions {
            threads: 1,
            micro_batch_tokens: 1,
            window: Some(2),
            ..EncoderOptions::default()
        },
        EncoderOptions { threads: 5, ..EncoderOptions::default() },
    ] {
        let encoder = SpladeEncoder::open(&dir, options).expect("opens");
        let worst = furthest(&encoder, &cases);
        // Sums of 32 products in another order, four layers and a head deep.
        assert!(worst < 2e-4, "{worst}");
        for role in [EmbedRole::Query, EmbedRole::Passage] {
            let terms = encoder.terms(&[&cases[0].0], role).expect("encodes");
            for &(term, weight) in terms[0].terms() {
                let exact = cases[0].1[term as usize];
                assert!((f32::from(weight) * TERM_STEP - exact).abs() < TERM_STEP, "{term}");
            }
            assert!(!terms[0].is_empty());
        }
    }
}

#[test]
fn a_model_without_a_head_over_its_vocabulary_is_refused() {
    let dir = root().join("tests/golden/tiny-bert-encoder");
    let error = SpladeEncoder::open(&dir, EncoderOptions::default()).expect_err("no head");
    assert!(error.to_string().contains("BertForMaskedLM"), "{error}");
}

/// The real model as published, and packed: the order of terms is what a search sees of it.
#[test]
fn the_real_sparse_encoder_is_near_transformers_and_its_packed_form_near_it() {
    let models = std::env::var_os("RIDDLE_TEST_MODELS")
        .map_or_else(|| root().join(".cache/models"), PathBuf::from);
    let dir = models.join("splade-tiny");
    if !dir.join("model.riddle").is_file() {
        return eprintln!(
            "SKIPPED: splade-tiny is not in {} (`make test` fetches it)",
            models.display()
        );
    }
    let plain = tempfile::tempdir().expect("a temporary folder");
    for name in ["config.json", "tokenizer.json", "model.safetensors"] {
        fs::copy(dir.join(name), plain.path().join(name)).expect("copied");
    }
    let options = EncoderOptions::default();
    let published = SpladeEncoder::open(plain.path(), options).expect("opens");
    let packed = SpladeEncoder::open(&dir, options).expect("opens");
    assert_ne!(published.id(), packed.id(), "an index never mixes their weights");
    let cases = expected_terms(&root().join("tests/golden/splade-tiny.json"), 30522);
    let worst = furthest(&published, &cases);
    assert!(worst < 2e-3, "{worst}");
    let texts: Vec<&str> = cases.iter().map(|it| it.0.as_str()).collect();
    let found = packed.weights(&texts).expect("encodes");
    for (found, (text, exact)) in found.iter().zip(&cases) {
        let near = cosine(found, exact);
        eprintln!("{near:.4} {text:.40}");
        assert!(near > 0.99, "{text:?}: {near}");
    }
}
