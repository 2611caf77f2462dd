//! Any bytes as the small files of a model's folder, beside weights and tokenizer of a tiny model: opening it as a
//! reranker, as an embedder and as a list of files ends in a model or an error, never in a panic or in a path that
//! leads out of the folder.
//!
//! The first byte chooses the tiny model; the files are cut at lines of `====`, in the order of [`FILES`]. Seeds are
//! made by `seeds.py`: `cargo fuzz run folder corpus/folder -- -max_len=8192 -rss_limit_mb=2048`.

#![no_main]

use std::{
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use libfuzzer_sys::fuzz_target;
use riddle_transformer::{
    Modules, OpenOptions, PairEncoder, module_files, open_cross_encoder, open_text_encoder,
};
use riddle_weights_fuzz::Folder;

/// Files that say what a model is.
const FILES: [&str; 10] = [
    "config.json",
    "modules.json",
    "1_Module/config.json",
    "2_Module/config.json",
    "3_Module/config.json",
    "4_Module/config.json",
    "config_sentence_transformers.json",
    "sentence_bert_config.json",
    "artifact.metadata",
    "tokenizer_config.json",
];

/// Models whose weights and tokenizers are taken.
const MODELS: [&str; 10] = [
    "tiny-bert-cross-encoder",
    "tiny-bert-colbert",
    "tiny-modernbert-late",
    "tiny-modular-reranker",
    "tiny-zerank-reranker",
    "tiny-gemma3-embedder",
    "tiny-gte-reranker",
    "tiny-deberta-cross-encoder",
    "tiny-minicpm-layerwise",
    "tiny-mpnet-cross-encoder",
];

/// Folders of modules.
const FOLDERS_BELOW: [&str; 4] = ["1_Module", "2_Module", "3_Module", "4_Module"];

/// A folder for each model.
static FOLDERS: LazyLock<Vec<Folder>> = LazyLock::new(|| {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/golden");
    let made = |model: &&str| {
        let folder = Folder::new();
        let model = golden.join(model);
        for name in ["model.safetensors", "tokenizer.json"] {
            folder.write(name, &fs::read(model.join(name)).expect("a tiny model"));
        }
        // Modules have weights of their own; those of any other name are found missing.
        for name in FOLDERS_BELOW {
            fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        for (module, name) in modules(&model).into_iter().zip(FOLDERS_BELOW) {
            let weights = module.join("model.safetensors");
            if weights.is_file() {
                let name = format!("{name}/model.safetensors");
                folder.write(&name, &fs::read(weights).expect("weights"));
            }
        }
        folder
    };
    MODELS.iter().map(made).collect()
});

/// Folders below a model's, in order.
fn modules(model: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(model).expect("a tiny model").flatten().map(|it| it.path());
    let mut folders: Vec<PathBuf> = entries.filter(|it| it.is_dir()).collect();
    folders.sort();
    folders
}

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let folder = &FOLDERS[usize::from(*choice) % MODELS.len()];
    let text = String::from_utf8_lossy(bytes);
    let mut parts = text.split("\n====\n");
    for name in FILES {
        match parts.next().filter(|it| !it.is_empty()) {
            Some(part) => drop(folder.write(name, part.as_bytes())),
            None => drop(fs::remove_file(folder.path().join(name))),
        }
    }
    let (dir, options) = (folder.path(), OpenOptions::default());
    if let Ok(files) = module_files(dir) {
        for file in files {
            assert!(!file.starts_with('/') && !file.split('/').any(|it| it == ".."), "{file}");
        }
    }
    if let Ok(mut model) = open_cross_encoder(dir, options) {
        let _ = PairEncoder::open(dir, &mut *model, 64, None)
            .and_then(|it| it.query("a blue boat")?.encode("the boat is blue"));
    }
    if let Ok(model) = open_text_encoder(dir, options) {
        let _ = Modules::open(dir, model.sizes().hidden_size);
    }
});
