//! The modules that sentence-transformers puts behind a model, as `modules.json` names them: pooling, dense layers,
//! norms (<https://sbert.net/docs/package_reference/sentence_transformer/models.html>).
//!
//! A module that is not computed is refused by name: left out, it would give vectors that look right and find nothing.

mod dense;
mod pooling;

use std::path::{Component, Path, PathBuf};

use riddle_kernels::{l2_normalize, layer_norm};
use riddle_weights::{Checkpoint, is_there, read_json};
use serde::Deserialize;

pub(crate) use self::dense::{Dense, Reads};
pub use self::pooling::{Pooling, stated_pooling};
use self::{dense::DenseConfig, pooling::pooling_of};
use crate::{
    Error, Result,
    layer::{bytes_of, read},
};

/// What comes after the layers.
#[derive(Debug)]
pub struct Modules {
    width: usize,
    poolings: Vec<Pooling>,
    steps: Vec<Step>,
    outputs: usize,
    scores: bool,
}

#[derive(Debug)]
enum Step {
    Dense(Dense),
    LayerNorm { gain: Vec<f32>, bias: Vec<f32> },
    Normalize,
}

/// ε of PyTorch's `LayerNorm`.
const NORM_EPSILON: f32 = 1e-5;

/// A list of modules longer than this is none.
const MOST_MODULES: usize = 32;

#[derive(Deserialize)]
pub(crate) struct Listed {
    #[serde(rename = "type")]
    class: String,
    #[serde(default)]
    path: String,
}

fn yes() -> bool {
    true
}

impl Modules {
    /// Those of the model in `dir`, whose states are `width` wide; the mean where the folder says nothing.
    ///
    /// # Errors
    /// A malformed file, one that leads out of the folder, or a module that is not computed.
    pub fn open(dir: &Path, width: usize) -> Result<Modules> {
        let mut modules = Modules {
            width,
            poolings: Vec::new(),
            steps: Vec::new(),
            outputs: width,
            scores: false,
        };
        let list = dir.join("modules.json");
        if is_there(&list) {
            for (place, listed) in list_of(&list)?.iter().enumerate() {
                modules.add(dir, &list, place, listed)?;
            }
        } else if let Some(stated) = stated_pooling(dir)? {
            modules.poolings = stated;
        }
        if modules.poolings.is_empty() {
            modules.poolings.push(Pooling::Mean);
        }
        if modules.steps.is_empty() {
            modules.outputs = width * modules.poolings.len();
        }
        Ok(modules)
    }

    /// Whether the folder names a dense layer that gives one score, as rerankers of sentence-transformers do whose
    /// model has no head of its own.
    ///
    /// # Errors
    /// A malformed file.
    pub fn has_score(dir: &Path) -> Result<bool> {
        let list = dir.join("modules.json");
        if !is_there(&list) {
            return Ok(false);
        }
        let listed = list_of(&list)?;
        let Some(last) = listed.iter().rfind(|it| it.class() == "Dense") else { return Ok(false) };
        let config = folder_of(dir, &list, last)?.join("config.json");
        Ok(read_json::<DenseConfig>(&config)?.is_score())
    }

    fn add(&mut self, dir: &Path, list: &Path, place: usize, listed: &Listed) -> Result<()> {
        let unsupported = |why: String| Err(Error::Module { path: list.to_path_buf(), why });
        let class = listed.class();
        if (place == 0) != (class == "Transformer") {
            let why = format!("the module {class:?} stands where it is not expected");
            return unsupported(if place == 0 { unknown(class) } else { why });
        }
        let is_pooled = !self.poolings.is_empty();
        match class {
            // Its files were read where they are: see `transformer_folder`.
            "Transformer" => {}
            "Pooling" if !is_pooled => {
                self.poolings = pooling_of(&folder_of(dir, list, listed)?.join("config.json"))?;
                self.outputs = self.width * self.poolings.len();
            }
            // Only training drops numbers.
            "Dropout" => {}
            "Normalize" if is_pooled => self.steps.push(Step::Normalize),
            "Dense" if is_pooled => self.add_dense(&folder_of(dir, list, listed)?)?,
            "LayerNorm" if is_pooled => {
                let checkpoint = Checkpoint::open_safetensors(&folder_of(dir, list, listed)?)?;
                let shape = [self.outputs];
                self.steps.push(Step::LayerNorm {
                    gain: read(&checkpoint, "norm.weight", &shape)?,
                    bias: read(&checkpoint, "norm.bias", &shape)?,
                });
            }
            _ => return unsupported(unknown(class)),
        }
        Ok(())
    }

    fn add_dense(&mut self, folder: &Path) -> Result<()> {
        let path = folder.join("config.json");
        if self.scores {
            let why = "it reads a score, which is not one vector of a text".to_owned();
            return Err(Error::Module { path, why });
        }
        let dense = Dense::open(folder, self.outputs, Reads::Text)?;
        self.scores = dense.gives_score();
        self.outputs = dense.outputs();
        self.steps.push(Step::Dense(dense));
        Ok(())
    }

    /// The ways of pooling; more than one stand one after the other.
    #[must_use]
    pub fn poolings(&self) -> &[Pooling] {
        &self.poolings
    }

    /// Numbers that come out.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Whether anything but length is changed after pooling.
    #[must_use]
    pub fn projects(&self) -> bool {
        self.steps.iter().any(|it| !matches!(it, Step::Normalize))
    }

    /// Bytes of the weights.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let of = |step: &Step| match step {
            Step::Dense(dense) => dense.bytes(),
            Step::LayerNorm { gain, bias } => bytes_of(&[gain, bias]),
            Step::Normalize => 0,
        };
        self.steps.iter().map(of).sum()
    }

    /// Some of the weights, which no two trainings share.
    #[must_use]
    pub fn fingerprint(&self) -> Vec<u8> {
        let mut all = Vec::new();
        for step in &self.steps {
            if let Step::Dense(dense) = step {
                all.extend(dense.fingerprint());
            }
        }
        all
    }

    /// What the states of a text's tokens `[tokens, width]` become. Runs on the threads of the current pool.
    #[must_use]
    pub fn apply(&self, states: &[f32]) -> Vec<f32> {
        let mut vector = Vec::with_capacity(self.width * self.poolings.len());
        for pooling in &self.poolings {
            pooling.pool(states, self.width, &mut vector);
        }
        for step in &self.steps {
            match step {
                Step::Normalize => l2_normalize(&mut vector),
                Step::LayerNorm { gain, bias } => layer_norm(&mut vector, gain, bias, NORM_EPSILON),
                Step::Dense(dense) => vector = dense.apply(&vector),
            }
        }
        vector
    }
}

impl Listed {
    /// Whether its files are the model's own.
    pub(crate) fn is_here(&self) -> bool {
        matches!(self.path.as_str(), "" | ".")
    }

    /// The class's own name: the path to it changes between versions.
    pub(crate) fn class(&self) -> &str {
        self.class.rsplit('.').next().unwrap_or_default()
    }

    /// Whether the class is one of this package.
    pub(crate) fn is_of(&self, package: &str) -> bool {
        self.class.split('.').next() == Some(package)
    }
}

/// The tokens of a reranker that is a language model, as sentence-transformers' `LogitScore` saves them: the score is
/// the logit of the first, less that of the second where there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) struct LogitScore {
    pub(crate) true_token_id: u32,
    #[serde(default)]
    pub(crate) false_token_id: Option<u32>,
}

/// That of the model in `dir`; `None` where its list of modules has none.
///
/// # Errors
/// A malformed file, one that leads out of the folder, and other modules beside it.
pub(crate) fn logit_score(dir: &Path) -> Result<Option<LogitScore>> {
    let list = dir.join("modules.json");
    if !is_there(&list) {
        return Ok(None);
    }
    let listed = list_of(&list)?;
    if listed.iter().all(|it| it.class() != "LogitScore") {
        return Ok(None);
    }
    match listed.as_slice() {
        [model, score] if model.class() == "Transformer" && model.is_here() => {
            Ok(Some(read_json(&folder_of(dir, &list, score)?.join("config.json"))?))
        }
        _ => {
            let why =
                "a language model and its \"LogitScore\" are expected, and nothing else".to_owned();
            Err(Error::Module { path: list, why })
        }
    }
}

pub(crate) fn unknown(class: &str) -> String {
    format!(
        "the module {class:?} is not supported by the built-in encoder: choose an ONNX version of the model, or another one"
    )
}

/// The modules that a list names.
///
/// # Errors
/// A malformed list, an empty one or one that is far too long.
pub(crate) fn list_of(path: &Path) -> Result<Vec<Listed>> {
    let listed = read_json::<Vec<Listed>>(path)?;
    if listed.is_empty() || listed.len() > MOST_MODULES {
        let why = format!("it lists {} modules: 1 to {MOST_MODULES} are expected", listed.len());
        return Err(Error::Module { path: path.to_path_buf(), why });
    }
    Ok(listed)
}

/// The folder of a module, below the model's own.
pub(crate) fn folder_of(dir: &Path, list: &Path, listed: &Listed) -> Result<PathBuf> {
    let bad = |why: String| Error::Module { path: list.to_path_buf(), why };
    let path = Path::new(&listed.path);
    let is_plain = path.components().all(|it| matches!(it, Component::Normal(_)));
    if listed.path.is_empty() || !is_plain || listed.path.contains('\\') {
        return Err(bad(format!("{:?} is no folder of this model", listed.path)));
    }
    let folder = dir.join(path);
    match folder.symlink_metadata() {
        Ok(meta) if meta.is_dir() => Ok(folder),
        Ok(_) => Err(bad(format!("{:?} is a link or a file, and no folder", listed.path))),
        Err(_) => Err(bad(format!("the folder {:?} that it names is missing", listed.path))),
    }
}

/// The folder of the transformer's own files, its configuration, weights and tokenizer: `dir`, or the one below it that
/// its list of modules names for the first of them, as sentence-transformers saved them before version 2.
///
/// # Errors
/// A malformed list, or one that leads out of the folder.
pub fn transformer_folder(dir: &Path) -> Result<PathBuf> {
    let list = dir.join("modules.json");
    if !is_there(&list) {
        return Ok(dir.to_path_buf());
    }
    match list_of(&list)?.first() {
        Some(first) if first.class() == "Transformer" && !first.is_here() => {
            folder_of(dir, &list, first)
        }
        _ => Ok(dir.to_path_buf()),
    }
}

/// Refuses a model whose transformer has a folder of its own, where that is not looked into.
///
/// # Errors
/// As [`transformer_folder`], and where there is one.
pub(crate) fn must_be_flat(dir: &Path) -> Result<()> {
    let folder = transformer_folder(dir)?;
    if folder == dir {
        return Ok(());
    }
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let why = format!("its model is in the folder {name:?}: put its files beside modules.json");
    Err(Error::Module { path: dir.join("modules.json"), why })
}

/// The folder of a table of vectors that is all there is of a model (`StaticEmbedding`); `None` for other models.
///
/// # Errors
/// A malformed file, one that leads out of the folder, or a module after the table that is not computed.
pub fn static_table(dir: &Path) -> Result<Option<PathBuf>> {
    let list = dir.join("modules.json");
    if !is_there(&list) {
        return Ok(None);
    }
    let listed = list_of(&list)?;
    let Some((first, others)) = listed.split_first() else { return Ok(None) };
    if first.class() != "StaticEmbedding" {
        return Ok(None);
    }
    if let Some(other) = others.iter().find(|it| it.class() != "Normalize") {
        return Err(Error::Module { path: list, why: unknown(other.class()) });
    }
    if first.is_here() {
        Ok(Some(dir.to_path_buf()))
    } else {
        folder_of(dir, &list, first).map(Some)
    }
}

/// Files of the model's modules, below its folder and with `/`. Nothing where there is no list.
///
/// # Errors
/// A malformed list, or one that leads out of the folder.
pub(crate) fn listed_files(dir: &Path) -> Result<Vec<String>> {
    let list = dir.join("modules.json");
    if !is_there(&list) {
        return Ok(Vec::new());
    }
    let mut files = Vec::new();
    for listed in list_of(&list)?.iter().filter(|it| !it.is_here()) {
        // Some do nothing but name themselves, and have no folder.
        let Ok(folder) = folder_of(dir, &list, listed) else { continue };
        let named = ["config.json", "model.safetensors", "tokenizer.json"];
        let there = named.into_iter().filter(|it| folder.join(it).is_file());
        files.extend(there.map(|it| format!("{}/{it}", listed.path.trim_end_matches('/'))));
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn with(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("temp dir");
        for (name, text) in files {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().expect("has one")).expect("folder");
            std::fs::write(path, text).expect("write");
        }
        dir
    }

    #[test]
    fn a_list_that_leads_elsewhere_or_names_what_is_not_computed_is_refused() {
        let refused = |files: &[(&str, &str)]| {
            Modules::open(with(files).path(), 4).expect_err("refused").to_string()
        };
        let list = |more: &str| {
            format!(
                r#"[{{"type":"a.Transformer","path":""}},{{"type":"a.Pooling","path":"1_Pooling"}}{more}]"#
            )
        };
        let pooling = ("1_Pooling/config.json", r#"{"pooling_mode":"mean"}"#);
        Modules::open(with(&[("modules.json", &list("")), pooling]).path(), 4).expect("good");
        for (json, word) in [
            ("[]".to_owned(), "0 modules"),
            (r#"[{"type":"custom_st.Transformer2"}]"#.to_owned(), "Transformer2"),
            (r#"[{"type":"a.Transformer"},{"type":"a.Dense","path":"x"}]"#.to_owned(), "Dense"),
            (list(r#",{"type":"a.Transformer"}"#), "Transformer"),
            (list(r#",{"type":"a.LSTM","path":"2_LSTM"}"#), "LSTM"),
            (list(r#",{"type":"a.Dense","path":"../2_Dense"}"#), "../2_Dense"),
            (list(r#",{"type":"a.Dense","path":"/etc"}"#), "/etc"),
            (list(r#",{"type":"a.Dense","path":"2_Dense"}"#), "missing"),
            (list(r#",{"type":"a.Dense","path":"1_Pooling/config.json"}"#), "no folder"),
        ] {
            let error = refused(&[("modules.json", &json), pooling]);
            assert!(error.contains(word), "{json}: {error}");
        }
        for (dense, word) in [
            (r#"{"in_features":4}"#, "out_features"),
            (r#"{"in_features":5,"out_features":2}"#, "takes 5"),
            (r#"{"in_features":4,"out_features":2,"use_residual":true}"#, "residual"),
            (
                r#"{"in_features":4,"out_features":2,"activation_function":"os.system"}"#,
                "os.system",
            ),
            (
                r#"{"in_features":4,"out_features":2,"module_input_name":"token_embeddings"}"#,
                "token_",
            ),
            (r#"{"in_features":4,"out_features":2}"#, "safetensors"),
        ] {
            let json = list(r#",{"type":"a.Dense","path":"2_Dense"}"#);
            let error =
                refused(&[("modules.json", &json), pooling, ("2_Dense/config.json", dense)]);
            assert!(error.contains(word), "{dense}: {error}");
        }
    }

    #[test]
    fn the_transformer_is_found_in_its_folder_and_nowhere_else() {
        let list = |path: &str| format!(r#"[{{"type":"a.Transformer","path":"{path}"}}]"#);
        let inside = ("0_Transformer/config.json", "{}");
        let found = |json: &str| {
            let dir = with(&[("modules.json", json), inside]);
            transformer_folder(dir.path())
                .map(|it| it.strip_prefix(dir.path()).expect("inside").to_path_buf())
                .map_err(|it| it.to_string())
        };
        assert_eq!(found(&list("0_Transformer")), Ok(PathBuf::from("0_Transformer")));
        assert_eq!(found(&list("")), Ok(PathBuf::new()));
        assert_eq!(found(&list(".")), Ok(PathBuf::new()));
        assert_eq!(found(r#"[{"type":"a.Dense","path":"0_Transformer"}]"#), Ok(PathBuf::new()));
        for path in ["../0_Transformer", "/etc", "0_Transformer/..", "a\\\\b", "absent"] {
            let error = found(&list(path)).expect_err(path);
            assert!(error.contains("folder"), "{path}: {error}");
        }
        assert!(found("[]").is_err() && found("{").is_err());
        let plain = with(&[inside]);
        assert_eq!(transformer_folder(plain.path()).expect("no list"), plain.path());
        let dir = with(&[("modules.json", &list("0_Transformer")), inside]);
        let error = must_be_flat(dir.path()).expect_err("it is not").to_string();
        assert!(error.contains("0_Transformer"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn a_module_whose_folder_is_a_link_is_refused() {
        let elsewhere = with(&[("config.json", r#"{"pooling_mode":"mean"}"#)]);
        let list = r#"[{"type":"a.Transformer"},{"type":"a.Pooling","path":"1_Pooling"}]"#;
        let dir = with(&[("modules.json", list)]);
        std::os::unix::fs::symlink(elsewhere.path(), dir.path().join("1_Pooling")).expect("link");
        let error = Modules::open(dir.path(), 4).expect_err("a link").to_string();
        assert!(error.contains("link"), "{error}");
        let list = r#"[{"type":"a.Transformer","path":"1_Pooling"}]"#;
        std::fs::write(dir.path().join("modules.json"), list).expect("written");
        let error = transformer_folder(dir.path()).expect_err("a link").to_string();
        assert!(error.contains("link"), "{error}");
    }
}
