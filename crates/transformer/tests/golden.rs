//! Encoders against Hugging Face `transformers` on committed tiny models: tokens, and hidden states after every layer.
//! `tests/golden/generate.py` and `tests/golden/generate_embedders.py` made models and values.

use std::path::{Path, PathBuf};

use riddle_kernels::Pool;
use riddle_offload::{EmbeddingRows, LayerWindow};
use riddle_transformer::{
    Bert, Encoded, OpenOptions, PairEncoder, Prefix, RaggedBatch, Scratch, ScratchSize, Span,
    Tokenizer, Wanted, open_cross_encoder, open_text_encoder,
};
use serde::Deserialize;

/// Sums of 32 products in another order, four layers deep.
const TOLERANCE: f32 = 1e-4;

#[derive(Deserialize)]
struct Expected {
    max_tokens: usize,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    text: String,
    input_ids: Vec<u32>,
    first_token: Vec<Vec<f32>>,
    last_token: Vec<Vec<f32>>,
}

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name)
}

#[test]
fn hidden_states_equal_transformers_layer_by_layer() {
    let dir = golden("tiny-bert-encoder");
    let expected: Expected =
        serde_json::from_slice(&std::fs::read(dir.join("expected.json")).expect("read"))
            .expect("json");
    let bert = Bert::open(&dir).expect("valid model");
    let tokenizer =
        Tokenizer::open(&dir, expected.max_tokens, bert.config().vocab_size).expect("tokenizer");
    let encoded: Vec<Encoded> =
        expected.cases.iter().map(|case| tokenizer.encode(&case.text).expect("encodes")).collect();
    for (encoded, case) in encoded.iter().zip(&expected.cases) {
        assert_eq!(encoded.ids, case.input_ids, "{:?}", case.text);
    }
    // All texts in one ragged batch: neighbors must not see each other.
    let batch = RaggedBatch::pack(&encoded);
    let width = bert.config().hidden_size;
    let mut rows = EmbeddingRows::new(bert.checkpoint().clone(), bert.token_table().clone(), 0.1);
    let mut hidden = vec![0.0; batch.tokens() * width];
    rows.gather(&batch.input_ids, &mut hidden).expect("in range");
    bert.embed(&batch, &mut hidden);
    let layers = std::sync::Arc::new(bert.layers().clone());
    let mut window = LayerWindow::new(layers, 2).expect("thread");
    let pool = Pool::new(2).expect("threads");
    let (tokens, longest) = (batch.tokens(), expected.max_tokens);
    let size = ScratchSize { tokens, longest, threads: pool.threads() };
    let mut scratch = Scratch::new(&bert.scratch_shape(), size);
    assert_eq!(scratch.bytes(), bert.scratch_shape().bytes(size));
    let mut worst = 0.0f32;
    for layer in 0..=bert.config().num_hidden_layers {
        if layer > 0 {
            pool.run(|| {
                let view = window.advance_to(layer - 1).expect("readable");
                let (weights, all) = (view.weights, Wanted::All);
                bert.layer(layer - 1, weights, &batch.cu_seqlens, all, &mut hidden, &mut scratch);
            });
        }
        for (place, case) in batch.cu_seqlens.windows(2).zip(&expected.cases) {
            for (token, expected) in
                [(place[0], &case.first_token), (place[1] - 1, &case.last_token)]
            {
                let difference = hidden[token * width..][..width]
                    .iter()
                    .zip(&expected[layer])
                    .map(|(a, b)| (a - b).abs())
                    .fold(0.0, f32::max);
                worst = worst.max(difference);
                assert!(
                    difference < TOLERANCE,
                    "{:?}, layer {layer}: differs by {difference}",
                    case.text
                );
            }
        }
    }
    eprintln!("largest difference of a hidden state: {worst:e}");
}

/// What every kind of embedder gives from layer to layer, texts of very different lengths side by side: what goes into
/// the first layer, and what comes out of each.
#[test]
fn states_of_every_embedder_equal_transformers_layer_by_layer() {
    for name in [
        "tiny-modernbert-embedder",
        "tiny-granite-embedder",
        "tiny-xlm-roberta-embedder",
        "tiny-mpnet-embedder",
        "tiny-gte-embedder",
        "tiny-qwen3-embedder",
        "tiny-gemma3-embedder",
    ] {
        let worst = states_equal(&golden(name));
        eprintln!("{name}: largest difference of a hidden state: {worst:e}");
    }
}

/// Largest difference of a state, in shares of the largest one beside it: decoders add to their states without end.
fn states_equal(dir: &Path) -> f32 {
    let json = std::fs::read(dir.join("states.json")).expect("read");
    let expected: Expected = serde_json::from_slice(&json).expect("json");
    let encoder = open_text_encoder(dir, OpenOptions::default()).expect("valid model");
    let sizes = encoder.sizes();
    let width = sizes.hidden_size;
    let tokenizer = Tokenizer::open(dir, expected.max_tokens, sizes.vocab_size).expect("tokenizer");
    let encoded: Vec<Encoded> =
        expected.cases.iter().map(|case| tokenizer.encode(&case.text).expect("encodes")).collect();
    for (encoded, case) in encoded.iter().zip(&expected.cases) {
        assert_eq!(encoded.ids, case.input_ids, "{:?}", case.text);
        assert_eq!(case.first_token.len(), sizes.num_layers + 1);
    }
    assert!(encoded.iter().any(|it| it.len() == expected.max_tokens), "nothing is cut");
    let batch = RaggedBatch::pack(&encoded);
    let (checkpoint, table) = (encoder.checkpoint().clone(), encoder.token_table().clone());
    let mut rows = EmbeddingRows::new(checkpoint, table, 1.0);
    let mut hidden = vec![0.0; batch.tokens() * width];
    rows.gather(&batch.input_ids, &mut hidden).expect("in range");
    encoder.embed(&batch, &mut hidden);
    let layers = std::sync::Arc::new(encoder.layers().clone());
    let mut window = LayerWindow::new(layers, 2).expect("thread");
    let pool = Pool::new(2).expect("threads");
    let size = ScratchSize {
        tokens: batch.tokens(),
        longest: expected.max_tokens,
        threads: pool.threads(),
    };
    let mut scratch = Scratch::new(&encoder.scratch_shape(), size);
    let mut worst = 0.0f32;
    for layer in 0..=sizes.num_layers {
        if layer > 0 {
            pool.run(|| {
                let view = window.advance_to(layer - 1).expect("readable");
                let (cu_seqlens, prefix) = (&batch.cu_seqlens[..], Prefix::None);
                let span = Span { cu_seqlens, prefix, wanted: Wanted::All, unseen: 0 };
                encoder.layer(layer - 1, view.weights, span, &mut hidden, &mut scratch);
            });
        }
        for (place, case) in batch.cu_seqlens.windows(2).zip(&expected.cases) {
            let ends = [(place[0], &case.first_token), (place[1] - 1, &case.last_token)];
            for (token, expected) in ends {
                let (state, expected) = (&hidden[token * width..][..width], &expected[layer]);
                let largest = expected.iter().fold(1.0f32, |it, value| it.max(value.abs()));
                let differences = state.iter().zip(expected).map(|(a, b)| (a - b).abs());
                let difference = differences.fold(0.0, f32::max) / largest;
                worst = worst.max(difference);
                assert!(
                    difference < TOLERANCE,
                    "{}, {:.20?}, layer {layer}: differs by {difference}",
                    dir.display(),
                    case.text
                );
            }
        }
    }
    worst
}

#[derive(Deserialize)]
struct Pair {
    query: String,
    text: String,
    input_ids: Vec<u32>,
    /// Only families that have segments name them.
    token_type_ids: Option<Vec<u8>>,
    /// Of a query that is read apart.
    query_ids: Option<Vec<u32>>,
}

#[derive(Deserialize)]
struct ExpectedPairs {
    max_tokens: usize,
    cases: Vec<Pair>,
}

/// Among them: an empty text, a long text, a long query, and both long, cut as each reference does.
#[test]
fn pairs_are_tokenized_and_truncated_as_the_references_do() {
    for name in [
        "tiny-bert-cross-encoder",
        "tiny-xlm-roberta-cross-encoder",
        "tiny-roberta-cross-encoder",
        "tiny-mpnet-cross-encoder",
        "tiny-modernbert-cross-encoder",
        "tiny-qwen3-reranker",
        "tiny-minicpm-layerwise",
        "tiny-modular-reranker",
        "tiny-qwen2-reranker",
        "tiny-zerank-reranker",
        "tiny-gte-reranker",
        "tiny-xlm-roberta-fused-cross-encoder",
        "tiny-deberta-cross-encoder",
        "tiny-deberta-c2p-cross-encoder",
        "tiny-bert-colbert",
        "tiny-modernbert-colbert",
        "tiny-modernbert-late",
    ] {
        check_pairs(&golden(name));
    }
}

fn check_pairs(dir: &Path) {
    let expected: ExpectedPairs =
        serde_json::from_slice(&std::fs::read(dir.join("expected.json")).expect("read"))
            .expect("json");
    let mut model = open_cross_encoder(dir, OpenOptions::default()).expect("valid model");
    let encoder =
        PairEncoder::open(dir, &mut *model, expected.max_tokens, None).expect("tokenizer");
    let longest = expected.cases.iter().map(|it| it.input_ids.len()).max();
    assert!(longest >= Some(expected.max_tokens), "nothing is cut");
    for case in &expected.cases {
        let query = encoder.query(&case.query).expect("encodes");
        let encoded = query.encode(&case.text).expect("encodes");
        assert_eq!(encoded.ids, case.input_ids, "{:?}", case.text);
        let apart = query.apart().map(|it| &it.tokens.ids);
        assert_eq!(apart, case.query_ids.as_ref(), "{:?}", case.query);
        if let Some(segments) = &case.token_type_ids {
            assert_eq!(&encoded.type_ids, segments, "{:?}", case.text);
        }
    }
}

#[test]
fn counting_neither_truncates_nor_adds_tokens() {
    let tokenizer = Tokenizer::open(&golden("tiny-bert-encoder"), 48, 300).expect("tokenizer");
    assert_eq!(tokenizer.count(""), 0);
    let once = tokenizer.count("dock ");
    assert_eq!(tokenizer.count(&"dock ".repeat(100)), 100 * once);
    assert_eq!(tokenizer.encode("dock ").expect("encodes").len(), once + 2);
}

#[test]
fn segments_that_bert_does_not_have_are_refused() {
    let dir = tempfile::tempdir().expect("temp dir");
    let path = golden("tiny-bert-encoder").join("tokenizer.json");
    let mut json: serde_json::Value =
        serde_json::from_slice(&std::fs::read(path).expect("read")).expect("json");
    assert_eq!(json["post_processor"]["pair"][3]["Sequence"]["id"], "B");
    json["post_processor"]["pair"][3]["Sequence"]["type_id"] = 7.into();
    std::fs::write(dir.path().join("tokenizer.json"), json.to_string()).expect("write");
    let tokenizer = Tokenizer::open(dir.path(), 48, 300).expect("valid for single texts");
    assert!(tokenizer.encode("boat").is_ok());
    let error = tokenizer.encode_pair("boat", "dock").expect_err("segment 7").to_string();
    assert!(error.contains("segment 7"), "{error}");
}

#[test]
fn an_encoder_without_a_head_is_refused_as_a_reranker() {
    let error = Bert::open(&golden("tiny-bert-encoder"))
        .expect("valid")
        .classification_head()
        .expect_err("no head");
    assert!(error.to_string().contains("cross-encoder"), "{error}");
}

#[test]
fn damaged_models_are_refused_by_name() {
    let dir = tempfile::tempdir().expect("temp dir");
    let copy = |name: &str| {
        std::fs::copy(golden("tiny-bert-encoder").join(name), dir.path().join(name)).expect("copy")
    };
    for name in ["config.json", "model.safetensors", "tokenizer.json"] {
        copy(name);
    }
    assert!(Bert::open(dir.path()).is_ok());
    let config = std::fs::read_to_string(dir.path().join("config.json")).expect("read");
    let write = |text: &str| std::fs::write(dir.path().join("config.json"), text).expect("write");
    write(&config.replace("\"intermediate_size\": 64", "\"intermediate_size\": 128"));
    let error = Bert::open(dir.path()).expect_err("shapes differ").to_string();
    assert!(error.contains("intermediate.dense.weight"), "{error}");
    write(&config.replace("\"num_hidden_layers\": 4", "\"num_hidden_layers\": 5"));
    let error = Bert::open(dir.path()).expect_err("a layer is missing").to_string();
    assert!(error.contains("encoder.layer.4"), "{error}");
    std::fs::write(dir.path().join("tokenizer.json"), "{").expect("write");
    assert!(
        Tokenizer::open(dir.path(), 48, 300)
            .expect_err("damaged")
            .to_string()
            .contains("tokenizer.json")
    );
    copy("tokenizer.json");
    for limit in [0, 2, 3] {
        let error = Tokenizer::open(dir.path(), limit, 300).expect_err("no room").to_string();
        assert!(error.contains("at least 4"), "{error}");
    }
    let error = Tokenizer::open(dir.path(), 48, 10).expect_err("too many tokens").to_string();
    assert!(error.contains("another model"), "{error}");
}
