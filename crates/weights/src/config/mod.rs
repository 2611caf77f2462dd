//! `config.json` of the supported architectures, read strictly.

use std::{io::Read as _, path::Path};

use serde::Deserialize;

use crate::{Error, Result, open_file};

mod bert;
mod deberta;
mod decoder;
mod gte;
mod language;
mod modernbert;
mod mpnet;

pub use bert::{BertConfig, BertFamily};
pub use deberta::DebertaConfig;
pub use decoder::{DecoderConfig, DecoderFamily};
pub use gte::GteConfig;
pub use language::{Convolution, Experts, LanguageConfig, LanguageFamily, RopeScaling};
pub use modernbert::{ModernBertConfig, TokenPooling};
pub use mpnet::MpnetConfig;

/// Configuration files are a few kilobytes; more than this is not a configuration.
const MAX_JSON_BYTES: u64 = 16 << 20;

/// Far above every published model, and low enough that products of two sizes fit 64 bits and no buffer is
/// asked for that no machine has.
const MAX_SIZE: usize = 1 << 24;

/// The labels of a classification head, by index.
type Labels = serde_json::Map<String, serde_json::Value>;

/// The `model_type` of the configuration in `dir`, which decides what else must be in it.
///
/// # Errors
/// A missing or malformed file, or one without a `model_type`.
pub fn model_type(dir: &Path) -> Result<String> {
    #[derive(Deserialize)]
    struct Typed {
        #[serde(default)]
        model_type: Option<String>,
        #[serde(default)]
        architectures: Option<Vec<String>>,
    }
    let path = dir.join("config.json");
    let typed: Typed = read_json(&path)?;
    let classes = typed.architectures.unwrap_or_default();
    // jina-reranker-v2 names its class alone.
    let by_class =
        || classes.iter().any(|it| it == XLM_ROBERTA_CLASS).then(|| XLM_ROBERTA.to_owned());
    let found = typed.model_type.or_else(by_class);
    found.ok_or_else(|| Error::BadConfig { path, why: "no model_type in it".to_owned() })
}

const XLM_ROBERTA: &str = "xlm-roberta";

/// A class that tells the family where nothing else does.
const XLM_ROBERTA_CLASS: &str = "XLMRobertaForSequenceClassification";

/// Reads `config.json` in `dir` if its `model_type` is one of `types`.
fn open<T: serde::de::DeserializeOwned>(
    dir: &Path,
    types: &[&str],
    check: impl Fn(&T) -> Result<(), String>,
) -> Result<T> {
    let path = dir.join("config.json");
    let found = model_type(dir)?;
    let bad = |why: String| Error::BadConfig { path: path.clone(), why };
    if !types.contains(&found.as_str()) {
        let known: Vec<String> = types.iter().map(|it| format!("{it:?}")).collect();
        return Err(bad(format!(
            "model_type {found:?} is not supported here: this program reads {}",
            known.join(" and ")
        )));
    }
    let mut value: serde_json::Value = read_json(&path)?;
    if let Some(class) = foreign_code(&value, &found) {
        return Err(bad(format!(
            "the model computes by a program of its own ({class}), and no such program is ever run: \
             choose a model without one"
        )));
    }
    if let Some(fields) = value.as_object_mut() {
        fields.entry("model_type").or_insert_with(|| found.into());
    }
    let config = serde_json::from_value(value).map_err(|error| bad(error.to_string()))?;
    check(&config).map_err(bad)?;
    Ok(config)
}

/// Families whose published weights come with a program, and the classes of it that are computed here; of a family
/// without classes every program is taken for the known one. No such program is ever run or read.
const KNOWN_CODE: [(&str, &[&str]); 3] = [
    ("minicpm", &[]),
    // jina-reranker-v2: the same layers for flash attention.
    (XLM_ROBERTA, &["XLMRobertaModel", XLM_ROBERTA_CLASS]),
    (
        GteConfig::TYPE,
        &[
            "NewModel",
            "NewForMaskedLM",
            "NewForSequenceClassification",
            "NewForTokenClassification",
            "NewForMultipleChoice",
            "NewForQuestionAnswering",
        ],
    ),
];

/// The class that the configuration wants loaded from the model's folder or another one, where what it computes is not
/// known: weights of a familiar shape may be meant for another computation.
fn foreign_code(config: &serde_json::Value, model_type: &str) -> Option<String> {
    let map = config.get("auto_map").filter(|it| !it.is_null())?;
    let Some(classes) = map.as_object() else { return Some(map.to_string()) };
    let known = KNOWN_CODE.iter().find(|it| it.0 == model_type).map(|it| it.1);
    let is_known = |class: &serde_json::Value| match known {
        None => false,
        Some([]) => true,
        // Behind the module, and behind the repository that holds it.
        Some(names) => {
            let name = class.as_str().and_then(|it| it.rsplit('.').next());
            name.is_some_and(|it| names.contains(&it))
        }
    };
    let computes = |name: &str| name.starts_with("AutoModel");
    let (_, class) = classes.iter().find(|(name, it)| computes(name) && !is_known(it))?;
    Some(class.as_str().map_or_else(|| class.to_string(), str::to_owned))
}

fn check_sizes(sizes: &[(&str, usize)]) -> Result<(), String> {
    match sizes.iter().find(|&&(_, size)| size == 0 || size > MAX_SIZE) {
        Some((key, size)) => Err(format!("{key} is {size}: it must be between 1 and {MAX_SIZE}")),
        None => Ok(()),
    }
}

fn check_epsilon(key: &str, epsilon: f32) -> Result<(), String> {
    if epsilon.is_finite() && epsilon >= 0.0 {
        return Ok(());
    }
    Err(format!("{key} {epsilon} is not a small positive number"))
}

/// Rotary positions as transformers writes them since version 5; before, `rope_theta` stood alone.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct RopeParameters {
    rope_theta: Option<f32>,
    #[serde(default, alias = "type")]
    rope_type: Option<String>,
}

impl RopeParameters {
    fn check(&self) -> Result<(), String> {
        match self.rope_type.as_deref() {
            None | Some("default") => Ok(()),
            Some(kind) => Err(format!("rope_type {kind:?} is not supported: only \"default\" is")),
        }
    }
}

fn check_theta(theta: f32) -> Result<(), String> {
    if theta.is_finite() && theta > 0.0 {
        return Ok(());
    }
    Err(format!("rope_theta {theta} is not a positive number"))
}

/// Rotary positions, one kind for all layers or one for each.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub(crate) enum Rope {
    /// By the kind of layer.
    ByLayer(std::collections::HashMap<String, Option<RopeParameters>>),
    /// For all.
    Same(RopeParameters),
}

impl Rope {
    /// Those of layers of this kind.
    fn of(&self, kind: &str) -> Option<&RopeParameters> {
        match self {
            Rope::ByLayer(kinds) => kinds.get(kind)?.as_ref(),
            Rope::Same(parameters) => Some(parameters),
        }
    }

    fn theta(&self, kind: &str) -> Option<f32> {
        self.of(kind)?.rope_theta
    }

    fn check(&self) -> Result<(), String> {
        match self {
            Rope::ByLayer(kinds) => kinds.values().flatten().try_for_each(RopeParameters::check),
            Rope::Same(parameters) => parameters.check(),
        }
    }
}

/// Reads a JSON file of bounded size.
///
/// # Errors
/// A missing, oversized or malformed file.
pub fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T> {
    let io = |source| Error::Io { path: path.to_path_buf(), source };
    let bad = |why| Error::BadConfig { path: path.to_path_buf(), why };
    let mut bytes = Vec::new();
    open_file(path).map_err(io)?.take(MAX_JSON_BYTES + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > MAX_JSON_BYTES {
        return Err(bad(format!("larger than {MAX_JSON_BYTES} bytes: not a configuration")));
    }
    serde_json::from_slice(&bytes)
        .map_err(|error| bad(format!("not the JSON that is expected here: {error}")))
}
