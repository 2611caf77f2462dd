//! Weights of an embedder in bytes, where this machine finds that nothing is lost by it.
//!
//! Bytes are a quarter of the size and several times as fast. What they cost depends on the model: in some a few
//! activations are so large that the others of their token become the same byte. So it is measured when a model is
//! installed, by the products that will be computed here: thirty short texts become vectors with both weights, and
//! those in bytes are taken where the vectors, and the order that they give, are near enough.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use riddle_embedding::{BuiltinEncoder, EncoderOptions, StaticEncoder};
use riddle_grating::{STORE_FILE, StorePrecision, convert, module_files, verify};
use riddle_models::{DEFAULT_SPARSE_ENCODER, Format, InstalledModel, Kind};
use riddle_types::{EmbedRole, Trouble};

use super::cosines;
use crate::contract::Result;

/// Least cosine between a text's vector and that of packed weights. The default embedder, of which it is known that
/// nothing is lost, has 0.983 in the least of 2 309 pairs (docs/benchmarks/2026-11-30-light-embedder.md).
const LEAST_COSINE: f32 = 0.97;

/// Least share of the pairs of passages that a question tells apart in the same order.
const LEAST_ORDERED: f32 = 0.9;

/// Layers in memory while it is measured: with the published weights of a large model nothing else may fit.
const WINDOW: usize = 2;

/// All texts of a role in one pass: each layer is read once.
const TOKENS: usize = 4096;

/// Folder in a model's own, for weights that nobody has measured yet.
const TRIAL: &str = ".packing";

/// Files that a model needs beside its weights, or may have.
const BESIDE_WEIGHTS: [&str; 9] = [
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "1_Pooling/config.json",
    "README.md",
];

/// What names a model, and by that what is put before its texts.
const MANIFEST: &str = "riddle-model.json";

/// Which weights of a model are computed with, once it is installed.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Packing {
    /// As they were published: nothing packs such a model by itself, or it was wanted so.
    Published,
    /// Those of a store that was there before.
    Stored,
    /// Bytes; how near they are, where it was measured.
    Bytes(Option<Nearness>),
    /// As they were published, since bytes are not near enough.
    TooFar(Nearness),
    /// As they were published, since bytes could not be made or not be measured.
    Failed(Trouble),
}

/// How near the vectors of packed weights are to those of the published ones.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Nearness {
    /// The least cosine between the two vectors of a text.
    pub cosine: f32,
    /// Share of the pairs of passages that are in the same order, over all questions.
    pub ordered: f32,
}

impl Nearness {
    /// Of questions and passages by both weights, all vectors of length 1.
    fn of(published: &Vectors, packed: &Vectors) -> Nearness {
        let texts = |it: &Vectors| it.questions.iter().chain(&it.passages).cloned().collect();
        let (before, after): (Vec<Vec<f32>>, Vec<Vec<f32>>) = (texts(published), texts(packed));
        let cosine = before.iter().zip(&after).map(|(a, b)| dot(a, b)).fold(1.0, f32::min);
        let (mut alike, mut all) = (0usize, 0usize);
        for (question, packed_question) in published.questions.iter().zip(&packed.questions) {
            let before = published.passages.iter().map(|it| dot(question, it));
            let after = packed.passages.iter().map(|it| dot(packed_question, it));
            let cosines: Vec<(f32, f32)> = before.zip(after).collect();
            for (at, one) in cosines.iter().enumerate() {
                for other in &cosines[at + 1..] {
                    all += 1;
                    let same = one.0.total_cmp(&other.0) == one.1.total_cmp(&other.1);
                    alike += usize::from(same);
                }
            }
        }
        Nearness { cosine, ordered: alike as f32 / all.max(1) as f32 }
    }

    /// Whether the packed weights may stand for the published ones.
    fn is_near(self) -> bool {
        self.cosine >= LEAST_COSINE && self.ordered >= LEAST_ORDERED
    }
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// What an embedder makes of the texts by which its cosines are measured.
struct Vectors {
    questions: Vec<Vec<f32>>,
    passages: Vec<Vec<f32>>,
}

impl Vectors {
    fn of(
        dir: &Path,
        published: bool,
        threads: usize,
    ) -> std::result::Result<Vectors, riddle_embedding::Error> {
        let options = EncoderOptions {
            threads,
            micro_batch_tokens: TOKENS,
            window: Some(WINDOW),
            published,
            ..EncoderOptions::default()
        };
        let encoder = BuiltinEncoder::open(dir, options)?;
        let (questions, passages) = cosines::texts();
        Ok(Vectors {
            questions: encoder.encode(&questions, EmbedRole::Query)?,
            passages: encoder.encode(&passages, EmbedRole::Passage)?,
        })
    }
}

/// Packs the weights of a model that was just installed, if it is an embedder that the built-in engine computes, or the
/// default sparse encoder. What goes wrong costs the packed weights and not the model.
pub(super) fn pack(model: &InstalledModel, threads: usize) -> Packing {
    let is_known = model.name == DEFAULT_SPARSE_ENCODER;
    let is_packed = model.kind == Kind::Embedder || is_known;
    // An earlier version fetched some of them as ONNX graphs.
    if !is_packed || !matches!(model.format, Format::Safetensors | Format::Riddle) {
        return Packing::Published;
    }
    // A damaged one is made again: to fetch the model once more is what its error advises.
    if matches!(verify(&model.dir), Ok(true)) {
        return Packing::Stored;
    }
    let packing =
        if is_known { pack_known(&model.dir) } else { pack_measured(&model.dir, threads) };
    packing.unwrap_or_else(|trouble| {
        tracing::warn!(model = model.name, trouble = trouble.what, "its weights are not packed");
        Packing::Failed(trouble)
    })
}

/// Removes the packed weights of a model that [`pack`] packs, if it has published ones.
///
/// # Errors
/// When the file can not be removed.
pub(super) fn unpack(model: &InstalledModel) -> io::Result<()> {
    let is_packed = model.kind == Kind::Embedder || model.name == DEFAULT_SPARSE_ENCODER;
    let path = model.dir.join(STORE_FILE);
    // A model that consists of nothing else is as it was published.
    if !is_packed || model.format != Format::Safetensors || !path.is_file() {
        return Ok(());
    }
    fs::remove_file(path)
}

/// What packing costs the sparse encoder was measured once (docs/benchmarks/2026-11-30-light-embedder.md).
fn pack_known(dir: &Path) -> Result<Packing, Trouble> {
    convert(dir, Some(StorePrecision::Int8), dir, &mut |_| {}).map_err(|it| Trouble::of(&it))?;
    Ok(Packing::Bytes(None))
}

fn pack_measured(dir: &Path, threads: usize) -> Result<Packing, Trouble> {
    let trouble = |it: riddle_embedding::Error| Trouble::of(&it);
    let options = EncoderOptions { threads, ..EncoderOptions::default() };
    // A table is read row by row, as it is.
    if StaticEncoder::open(dir, options).map_err(trouble)?.is_some() {
        return Ok(Packing::Published);
    }
    let published = Vectors::of(dir, true, threads).map_err(trouble)?;
    let trial = Trial::in_folder(dir).map_err(|it| Trouble::from(it.to_string()))?;
    convert(dir, Some(StorePrecision::Int8), &trial.0, &mut |_| {})
        .map_err(|it| Trouble::of(&it))?;
    let beside = copy_beside(dir, &trial.0).and_then(|()| copy_if_there(dir, &trial.0, MANIFEST));
    beside.map_err(|it| Trouble::from(it.to_string()))?;
    let packed = Vectors::of(&trial.0, false, threads).map_err(trouble)?;
    let nearness = Nearness::of(&published, &packed);
    if !nearness.is_near() {
        return Ok(Packing::TooFar(nearness));
    }
    fs::rename(trial.0.join(STORE_FILE), dir.join(STORE_FILE))
        .map_err(|it| Trouble::from(it.to_string()))?;
    Ok(Packing::Bytes(Some(nearness)))
}

/// A folder that goes with what is in it.
struct Trial(PathBuf);

impl Trial {
    fn in_folder(dir: &Path) -> io::Result<Trial> {
        let path = dir.join(TRIAL);
        // One that was stopped left its own.
        if path.exists() {
            fs::remove_dir_all(&path)?;
        }
        fs::create_dir(&path)?;
        Ok(Trial(path))
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::warn!(%error, folder = %self.0.display(), "what was tried is left");
        }
    }
}

/// Copies what a store of weights needs beside it to be a model.
pub(super) fn copy_beside(dir: &Path, target: &Path) -> io::Result<()> {
    let modules = module_files(dir).map_err(|it| io::Error::other(it.to_string()))?;
    let mut files = BESIDE_WEIGHTS.into_iter().chain(modules.iter().map(String::as_str));
    files.try_for_each(|file| copy_if_there(dir, target, file))
}

fn copy_if_there(dir: &Path, target: &Path, file: &str) -> io::Result<()> {
    let (from, to) = (dir.join(file), target.join(file));
    if from.is_file() {
        to.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::copy(from, to)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use riddle_models::Progress;

    use super::*;
    use crate::home::{Config, Installed, import_model};

    fn golden(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name)
    }

    fn import(home: &Path, folder: &Path, as_published: bool) -> Installed {
        let go_on = &mut |_: Progress<'_>| ControlFlow::Continue(());
        import_model(&Config::new(home), folder, Some("model"), as_published, go_on)
            .expect("imported")
    }

    fn copy_of(dir: &Path) -> tempfile::TempDir {
        let copy = tempfile::tempdir().expect("a folder");
        copy_beside(dir, copy.path()).expect("copied");
        copy_if_there(dir, copy.path(), "model.safetensors").expect("copied");
        copy
    }

    /// Families that the built-in engine computes, each with a model of random weights.
    const FAMILIES: [&str; 7] = [
        "tiny-bert-encoder",
        "tiny-xlm-roberta-embedder",
        "tiny-mpnet-embedder",
        "tiny-modernbert-embedder",
        "tiny-granite-embedder",
        "tiny-qwen3-embedder",
        "tiny-gemma3-embedder",
    ];

    #[test]
    fn an_embedder_of_any_family_is_packed_if_its_vectors_stay_and_told_how_near() {
        for name in FAMILIES {
            let home = tempfile::tempdir().expect("a folder");
            let Installed { model, packing, .. } = import(home.path(), &golden(name), false);
            let store = model.dir.join(STORE_FILE);
            match packing {
                Packing::Bytes(Some(it)) => {
                    eprintln!("{name}: packed, {it:?}");
                    assert!(it.is_near() && store.is_file(), "{name}: {it:?}");
                }
                Packing::TooFar(it) => {
                    eprintln!("{name}: as published, {it:?}");
                    assert!(!it.is_near() && !store.exists(), "{name}: {it:?}");
                }
                other => panic!("{name}: {other:?}"),
            }
            assert!(!model.dir.join(TRIAL).exists(), "nothing is left of the trial");
            let embedder = riddle_embedding::open(&model.dir, EncoderOptions::default());
            assert!(embedder.is_ok(), "{name}: {embedder:?}", embedder = embedder.err());
        }
    }

    #[test]
    fn what_is_wanted_as_published_or_is_no_such_embedder_stays_as_it_is() {
        for (name, as_published) in [
            ("tiny-bert-encoder", true),
            ("tiny-static-embedder", false),
            ("tiny-onnx", false),
            ("tiny-bert-cross-encoder", false),
        ] {
            let home = tempfile::tempdir().expect("a folder");
            let installed = import(home.path(), &golden(name), as_published);
            assert_eq!(installed.packing, Packing::Published, "{name}");
            assert!(!installed.model.dir.join(STORE_FILE).exists(), "{name}");
        }
    }

    /// One weight of each row is so large that nothing is left of the others in bytes.
    fn spoil(dir: &Path) {
        let path = dir.join("model.safetensors");
        let mut bytes = fs::read(&path).expect("read");
        let header = u64::from_le_bytes(bytes[..8].try_into().expect("eight")) as usize;
        let described: serde_json::Value =
            serde_json::from_slice(&bytes[8..8 + header]).expect("a header");
        for (name, tensor) in described.as_object().expect("tensors") {
            let shape = tensor["shape"].as_array().map(Vec::as_slice).unwrap_or_default();
            let [_, inputs] = shape else { continue };
            if !name.contains("layer.") {
                continue;
            }
            let row = 4 * inputs.as_u64().expect("a number") as usize;
            let at =
                |it: usize| 8 + header + tensor["data_offsets"][it].as_u64().expect("one") as usize;
            for place in (at(0)..at(1)).step_by(row) {
                bytes[place..place + 4].copy_from_slice(&40.0f32.to_le_bytes());
            }
        }
        fs::write(&path, bytes).expect("written");
    }

    #[test]
    fn what_bytes_would_change_stays_as_published_and_that_is_said() {
        let spoilt = copy_of(&golden("tiny-bert-encoder"));
        spoil(spoilt.path());
        let home = tempfile::tempdir().expect("a folder");
        let Installed { model, packing, .. } = import(home.path(), spoilt.path(), false);
        let Packing::TooFar(nearness) = packing else { panic!("{packing:?}") };
        assert!(!nearness.is_near(), "{nearness:?}");
        assert!(!model.dir.join(STORE_FILE).exists() && !model.dir.join(TRIAL).exists());
    }

    #[test]
    fn what_goes_wrong_costs_the_packed_weights_and_not_the_model() {
        let odd = copy_of(&golden("tiny-bert-encoder"));
        let config = odd.path().join("config.json");
        let text = fs::read_to_string(&config).expect("read");
        fs::write(&config, text.replace(r#""gelu""#, r#""swish""#)).expect("written");
        let home = tempfile::tempdir().expect("a folder");
        let Installed { model, packing, .. } = import(home.path(), odd.path(), false);
        let Packing::Failed(trouble) = packing else { panic!("{packing:?}") };
        assert!(trouble.what.contains("swish"), "{trouble}");
        // One that was stopped before left what it had tried.
        let home = tempfile::tempdir().expect("a folder");
        let installed = import(home.path(), &golden("tiny-bert-encoder"), true);
        let left = installed.model.dir.join(TRIAL);
        fs::create_dir(&left).expect("a folder");
        fs::write(left.join(STORE_FILE), b"half").expect("written");
        assert!(matches!(pack(&installed.model, 1), Packing::Bytes(_)));
        assert!(!left.exists() && model.dir.is_dir());
        // It is there now, until somebody wants what was published.
        assert_eq!(pack(&installed.model, 1), Packing::Stored);
        unpack(&installed.model).expect("removed");
        assert!(!installed.model.dir.join(STORE_FILE).exists());
    }

    /// What is known to lose nothing is packed; how near it is, is told.
    #[test]
    fn the_default_embedder_is_near_enough() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/models");
        let folder = folder.join(crate::home::DEFAULT_EMBEDDER);
        if !folder.join("model.safetensors").is_file() {
            eprintln!("SKIPPED: no {} (`make test` fetches it)", folder.display());
            return;
        }
        let home = tempfile::tempdir().expect("a folder");
        // A store that lies there already is no part of what is measured.
        let published = copy_of(&folder);
        let started = std::time::Instant::now();
        let Installed { packing, .. } = import(home.path(), published.path(), false);
        let Packing::Bytes(Some(it)) = packing else { panic!("{packing:?}") };
        eprintln!("{it:?}, imported, packed and measured in {:?}", started.elapsed());
        assert!(it.cosine > 0.98 && it.ordered > 0.93, "{it:?}");
    }

    #[test]
    fn nearness_is_the_worst_text_and_the_share_of_pairs_in_order() {
        let unit = |x: f32| vec![x, (1.0 - x * x).sqrt()];
        let questions = vec![unit(1.0)];
        let before =
            Vectors { questions: questions.clone(), passages: [0.9, 0.5, 0.1].map(unit).to_vec() };
        let same = Nearness::of(&before, &before);
        assert!((same.cosine - 1.0).abs() < 1e-6 && same.ordered == 1.0 && same.is_near());
        let after = Vectors { questions, passages: [0.5, 0.9, 0.1].map(unit).to_vec() };
        let found = Nearness::of(&before, &after);
        assert!((found.ordered - 2.0 / 3.0).abs() < 1e-6 && !found.is_near(), "{found:?}");
        assert!(found.cosine < 0.9);
    }
}
