use riddle_types::{Advice, Advised as _};

use super::*;

fn entries(paths: &[&str]) -> Vec<Entry> {
    paths
        .iter()
        .map(|path| Entry { path: (*path).to_owned(), size: 10, promise: None, url: String::new() })
        .collect()
}

fn check(paths: &[&str], choice: Choice<'_>) -> Result<Vec<String>> {
    let entries = entries(paths);
    choose("o/n", &entries, choice).map(|it| it.iter().map(|it| it.path.clone()).collect())
}

#[test]
fn a_repository_with_everything_gives_safetensors_and_its_configuration() {
    let chosen = check(
        &[
            "config.json",
            "vocab.txt",
            "model.safetensors",
            "pytorch_model.bin",
            "README.md",
            "onnx/model.onnx",
            "onnx/model_O1.onnx",
            "1_Pooling/config.json",
            "train.py",
            "2_Dense/model.safetensors",
            "2_Dense/pytorch_model.bin",
            "openvino/a.json",
            "../escape.json",
            "/etc/passwd.txt",
            ".hidden.json",
            "riddle-model.json",
        ],
        Choice::default(),
    );
    assert_eq!(
        chosen.expect("chosen"),
        [
            "1_Pooling/config.json",
            "2_Dense/model.safetensors",
            "config.json",
            "model.safetensors",
            "vocab.txt"
        ]
    );
}

#[test]
fn shards_come_together() {
    let paths = [
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "model.safetensors.index.json",
        "other-00001-of-00009.safetensors",
    ];
    assert_eq!(check(&paths, Choice::default()).expect("chosen"), paths[..3]);
}

#[test]
fn one_of_several_versions_is_taken_only_when_it_is_obvious() {
    let paths = ["a-Q8_0.gguf", "a-Q4_K_M.gguf", "a-F16.gguf"];
    assert_eq!(check(&paths, Choice::default()).expect("chosen"), ["a-Q4_K_M.gguf"]);
    let error = check(&["a-Q8_0.gguf", "a-F16.gguf"], Choice::default()).expect_err("which?");
    let choices = "a-Q8_0.gguf (10 B), a-F16.gguf (10 B)".to_owned();
    assert_eq!(error.advice(), Some(Advice::ChooseFile { choices }));
    let choice = Choice { file: Some("a-F16.gguf"), ..Choice::default() };
    assert_eq!(check(&paths, choice).expect("chosen"), ["a-F16.gguf"]);
    assert!(check(&paths, Choice { file: Some("b.gguf"), ..choice }).is_err());
}

#[test]
fn parts_of_a_language_model_come_together_from_any_folder() {
    let paths = [
        "README.md",
        "Q4_K_M/m-Q4_K_M-00001-of-00002.gguf",
        "Q4_K_M/m-Q4_K_M-00002-of-00002.gguf",
        "Q8_0/m-Q8_0-00001-of-00002.gguf",
        "Q8_0/m-Q8_0-00002-of-00002.gguf",
        "mmproj-m-f16.gguf",
    ];
    assert_eq!(check(&paths, Choice::default()).expect("chosen"), paths[1..3]);
    // Any part means all.
    let choice = Choice { file: Some(paths[4]), ..Choice::default() };
    assert_eq!(check(&paths, choice).expect("chosen"), paths[3..5]);
    assert_eq!(check(&paths[3..], Choice::default()).expect("one model"), paths[3..5]);
    let error = check(&paths[..4], choice_of(paths[3])).expect_err("a part is missing");
    assert!(error.to_string().contains(paths[4]), "{error}");
    let error = check(&paths[..2], Choice::default()).expect_err("a part is missing");
    assert!(error.to_string().contains(paths[2]), "{error}");
    let many = ["m-00001-of-99999.gguf"];
    let error = check(&many, Choice::default()).expect_err("99998 are missing");
    assert!(error.to_string().contains("m-00002-of-99999.gguf"), "{error}");
    let folder = ["config.json", "gguf/model.gguf"];
    assert_eq!(check(&folder, Choice::default()).expect("chosen"), folder);
}

fn choice_of(file: &str) -> Choice<'_> {
    Choice { file: Some(file), ..Choice::default() }
}

#[test]
fn a_model_whose_first_module_has_a_folder_is_chosen() {
    for module in ["0_Transformer", "0_StaticEmbedding"] {
        let inside = |file: &str| format!("{module}/{file}");
        let own = ["config.json", "model.safetensors", "tokenizer.json"].map(inside);
        let mut paths: Vec<&str> = own.iter().map(String::as_str).collect();
        paths.extend(["1_Pooling/config.json", "modules.json"]);
        let mut with_more = paths.clone();
        with_more.extend(["0_Transformer/pytorch_model.bin", "openvino/openvino_model.xml"]);
        assert_eq!(check(&with_more, Choice::default()).expect("chosen"), paths);
    }
    let shards = [
        "0_Transformer/model-00001-of-00002.safetensors",
        "0_Transformer/model-00002-of-00002.safetensors",
        "0_Transformer/model.safetensors.index.json",
        "modules.json",
    ];
    assert_eq!(check(&shards, Choice::default()).expect("chosen"), shards);
    // Beside a model of its own, what is in the folder is a module of it.
    let both = ["0_Dense/model.safetensors", "config.json", "model.safetensors"];
    assert_eq!(check(&both, Choice::default()).expect("chosen"), both);
}

#[test]
fn rounded_graphs_are_taken_where_there_are_no_others() {
    for (paths, expected) in [
        (&["onnx/model.onnx", "onnx/model_quantized.onnx"][..], Some("onnx/model.onnx")),
        (&["onnx/model_int8.onnx", "onnx/model_quantized.onnx"], Some(QUANTIZED)),
        (&["onnx/model_fp16.onnx", "onnx/model_int8.onnx"], Some("onnx/model_int8.onnx")),
        (&["onnx/model_qint8_avx512.onnx"], Some("onnx/model_qint8_avx512.onnx")),
        (&["onnx/model_qint8_avx512.onnx", "onnx/model_qint8_arm64.onnx"], None),
    ] {
        match (check(paths, Choice::default()), expected) {
            (Ok(chosen), Some(expected)) => assert_eq!(chosen, [expected]),
            (Err(error), None) => assert!(matches!(error, Error::Ambiguous { .. }), "{error}"),
            (other, _) => panic!("{paths:?}: {other:?}"),
        }
    }
}

const QUANTIZED: &str = "onnx/model_quantized.onnx";

#[test]
fn what_would_not_open_is_refused_before_it_is_fetched() {
    for (paths, word) in [
        (&["adapter_config.json", "adapter_model.safetensors"][..], "an adapter"),
        (&["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"], "lacks"),
        (&["model-00001-of-00002.safetensors", "model.safetensors.index.json"], "00002-of"),
        (&["weights.safetensors"], "only model.safetensors is read"),
        (&["0_CLIPModel/model.safetensors", "modules.json"], "CLIPModel"),
        (&["unet/model.safetensors"], "unet/"),
    ] {
        let error = check(paths, Choice::default()).expect_err(word);
        assert!(matches!(error, Error::NotAModel { .. }), "{error}");
        assert!(error.to_string().contains(word), "{error}");
    }
    assert!(check(&["weights.safetensors"], choice_of("weights.safetensors")).is_err());
    // Another format of the same model is taken instead.
    let paths = ["adapter_model.safetensors", "onnx/model.onnx"];
    assert_eq!(check(&paths, Choice::default()).expect("chosen"), ["onnx/model.onnx"]);
}

#[test]
fn a_large_graph_comes_with_its_numbers() {
    let paths = [
        "config.json",
        "onnx/model.onnx",
        "onnx/model.onnx_data",
        "onnx/other.onnx_data",
        "onnx/Constant_7_attr__value",
        "other/Constant_7_attr__value",
        "tokenizer.json",
    ];
    let expected = [
        "config.json",
        "onnx/Constant_7_attr__value",
        "onnx/model.onnx",
        "onnx/model.onnx_data",
        "tokenizer.json",
    ];
    assert_eq!(check(&paths, Choice::default()).expect("chosen"), expected);
    let files = ["onnx/model.onnx", "config.json", "tokenizer.json", "special_tokens_map.json"];
    let choice = Choice { files: &files, ..Choice::default() };
    assert_eq!(check(&paths, choice).expect("chosen"), expected);
    assert!(check(&paths[..3], choice).is_err(), "no tokenizer");
}

#[test]
fn a_sparse_encoder_comes_with_its_table_and_the_way_it_weighs() {
    let paths = [
        "config.json",
        "document_1_SpladePooling/config.json",
        "idf.json",
        "model.safetensors",
        "query_0_SparseStaticEmbedding/model.safetensors",
        "query_token_weights.txt",
        "router_config.json",
    ];
    let mut expected = paths.to_vec();
    expected.remove(4);
    assert_eq!(check(&paths, Choice::default()).expect("chosen"), expected);
}

#[test]
fn pickle_alone_is_refused_by_name() {
    let error = check(&["pytorch_model.bin", "config.json"], Choice::default());
    let error = error.expect_err("unsafe");
    assert!(matches!(&error, Error::Unsafe { files, .. } if files == "pytorch_model.bin"));
    assert!(matches!(check(&["README.md"], Choice::default()), Err(Error::NotAModel { .. })));
    assert!(check(&["model.safetensors", "A.json", "a.json"], Choice::default()).is_err());
}

#[test]
fn a_quantization_is_named_as_other_programs_do() {
    let paths = [
        "m-Q4_K_M.gguf",
        "m-Q8_0.gguf",
        "m-UD-Q4_K_XL.gguf",
        "BF16/m-BF16-00001-of-00002.gguf",
        "BF16/m-BF16-00002-of-00002.gguf",
        "mmproj-F16.gguf",
        "config.json",
    ];
    let of = |file: &str| check(&paths, Choice { file: Some(file), ..Choice::default() });
    assert_eq!(of("q8_0").expect("chosen"), ["config.json", "m-Q8_0.gguf"]);
    assert_eq!(of("Q4_K_XL").expect("chosen"), ["config.json", "m-UD-Q4_K_XL.gguf"]);
    assert_eq!(of("BF16").expect("chosen").len(), 3, "both parts and the configuration");
    for wrong in ["Q5_K_M", "F16", "m-Q5_K_M.gguf", "config.json", ""] {
        let error = of(wrong).expect_err(wrong);
        let choices = "m-Q4_K_M.gguf (10 B), m-Q8_0.gguf (10 B), m-UD-Q4_K_XL.gguf (10 B), \
                       BF16/m-BF16-00001-of-00002.gguf (20 B)";
        let advice = Some(Advice::ChooseFile { choices: choices.to_owned() });
        assert!(matches!(error, Error::NoSuchFile { .. }), "{error}");
        assert_eq!(error.advice(), advice);
    }
    let two =
        check(&["a-Q4_0.gguf", "b-Q4_0.gguf"], Choice { file: Some("Q4_0"), ..Choice::default() });
    assert!(matches!(two, Err(Error::Ambiguous { .. })));
    let only = check(&["m-Q8_0.gguf", "mmproj-F16.gguf"], Choice::default());
    assert_eq!(only.expect("the other is no model"), ["m-Q8_0.gguf"]);
}

#[test]
fn what_could_be_taken_is_listed_with_its_parts() {
    let all = entries(&[
        "m-Q4_K_M.gguf",
        "BF16/m-BF16-00001-of-00002.gguf",
        "BF16/m-BF16-00002-of-00002.gguf",
        "../m-Q8_0.gguf",
        "pytorch_model.bin",
        "config.json",
    ]);
    let chosen = choose("o/n", &all, Choice::default()).expect("chosen");
    let offered = offered(&all, None, &chosen);
    let found: Vec<_> = offered
        .iter()
        .map(|it| (it.quantization.as_deref(), it.bytes, it.parts, it.usual, it.chosen))
        .collect();
    assert_eq!(found, [(Some("Q4_K_M"), 10, 1, true, true), (Some("BF16"), 20, 2, false, false)]);
    assert_eq!(beside(&all), 10);
}

#[test]
fn sizes_are_said_in_thousands() {
    let sizes = [999, 1_000, 12_345_678, 1_234_567_890].map(size);
    assert_eq!(sizes, ["999 B", "1 kB", "12 MB", "1.2 GB"]);
}
