//! What a model directory says about how its vectors are made: the files that sentence-transformers
//! writes beside the weights (<https://sbert.net/docs/package_reference/sentence_transformer/models.html>).

use std::path::Path;

use riddle_types::EmbedRole;
use riddle_weights::read_json;
use serde::Deserialize;

use crate::{Error, Result};

/// How the hidden states of a text become one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pooling {
    /// The mean over all tokens.
    Mean,
    /// The first token's.
    FirstToken,
}

impl Pooling {
    /// sentence-transformers' name for it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Pooling::Mean => "mean",
            Pooling::FirstToken => "cls",
        }
    }
}

/// What is put before a text, by its role.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Prefixes {
    query: String,
    passage: String,
}

impl Prefixes {
    pub(crate) fn of(&self, role: EmbedRole) -> &str {
        match role {
            EmbedRole::Query => &self.query,
            EmbedRole::Passage => &self.passage,
        }
    }
}

/// Prefixes that models were trained with and do not state in a file, from their model cards: part of
/// the name, query, passage.
const KNOWN_PREFIXES: [(&str, &str, &str); 5] = [
    ("e5-", "query: ", "passage: "),
    ("nomic-embed-text", "search_query: ", "search_document: "),
    ("arctic-embed", "Represent this sentence for searching relevant passages: ", ""),
    ("bge-", "Represent this sentence for searching relevant passages: ", ""),
    ("mxbai-embed", "Represent this sentence for searching relevant passages: ", ""),
];

/// What our store remembers about a model; only the repository's name matters here.
#[derive(Deserialize)]
struct Manifest {
    repository: Option<String>,
}

/// Repository name from the store's manifest, else the directory's.
pub(crate) fn name(dir: &Path) -> String {
    read_json::<Manifest>(&dir.join("riddle-model.json"))
        .ok()
        .and_then(|it| it.repository)
        .unwrap_or_else(|| {
            dir.file_name()
                .map_or_else(|| "model".to_owned(), |it| it.to_string_lossy().into_owned())
        })
}

#[derive(Deserialize)]
struct Settings {
    #[serde(default)]
    prompts: Prompts,
}

#[derive(Deserialize, Default)]
struct Prompts {
    query: Option<String>,
    #[serde(alias = "passage")]
    document: Option<String>,
}

/// Prefixes from `config_sentence_transformers.json`, else those that models of this name are known to
/// want, else none.
pub(crate) fn prefixes(dir: &Path, name: &str) -> Prefixes {
    let prompts = read_json::<Settings>(&dir.join("config_sentence_transformers.json"))
        .map_or_else(|_| Prompts::default(), |it| it.prompts);
    if prompts.query.is_some() || prompts.document.is_some() {
        return Prefixes {
            query: prompts.query.unwrap_or_default(),
            passage: prompts.document.unwrap_or_default(),
        };
    }
    let name = name.to_lowercase();
    let known = KNOWN_PREFIXES.iter().find(|it| name.contains(it.0));
    known.map_or_else(Prefixes::default, |&(_, query, passage)| Prefixes {
        query: query.to_owned(),
        passage: passage.to_owned(),
    })
}

/// `1_Pooling/config.json`: a mode by name since version 5.3 of sentence-transformers, switches before.
#[derive(Deserialize)]
struct PoolingConfig {
    pooling_mode: Option<serde_json::Value>,
    #[serde(flatten)]
    others: serde_json::Map<String, serde_json::Value>,
}

/// The way of pooling that the directory states, `None` when it states nothing.
///
/// # Errors
/// A malformed file, or a way other than mean and first token.
pub(crate) fn pooling(dir: &Path) -> Result<Option<Pooling>> {
    let path = dir.join("1_Pooling/config.json");
    if !path.is_file() {
        return Ok(None);
    }
    let config = read_json::<PoolingConfig>(&path)?;
    let stated = match config.pooling_mode {
        Some(serde_json::Value::String(mode)) => mode,
        Some(several) => several.to_string(),
        None => {
            let on = config.others.iter().filter(|(_, value)| value.as_bool() == Some(true));
            let modes = on.filter_map(|(key, _)| key.strip_prefix("pooling_mode_"));
            modes.collect::<Vec<_>>().join(" + ")
        }
    };
    match stated.as_str() {
        "mean" | "mean_tokens" => Ok(Some(Pooling::Mean)),
        "cls" | "cls_token" => Ok(Some(Pooling::FirstToken)),
        _ => {
            let why = format!(
                "pooling {stated:?} is not supported, only \"mean\" and \"cls\" are: choose another model"
            );
            Err(Error::Unsupported { path, why })
        }
    }
}

#[derive(Deserialize)]
struct Module {
    #[serde(rename = "type")]
    kind: String,
}

/// Refuses models whose vectors pass through more than the transformer, pooling and normalization: a
/// projection left out would give vectors that look right and find nothing.
///
/// # Errors
/// When `modules.json` is malformed or names another kind of module.
pub(crate) fn check_modules(dir: &Path) -> Result<()> {
    let path = dir.join("modules.json");
    if !path.is_file() {
        return Ok(());
    }
    let modules = read_json::<Vec<Module>>(&path)?;
    // The path to a module's class changes between versions, its name does not.
    let class = |it: &Module| it.kind.rsplit('.').next().unwrap_or_default().to_owned();
    let known = ["Transformer", "Pooling", "Normalize"];
    match modules.iter().map(class).find(|it| !known.contains(&it.as_str())) {
        None => Ok(()),
        Some(other) => {
            let why = format!(
                "the module {other:?} is not supported by the built-in encoder: choose an ONNX version of the model, or another one"
            );
            Err(Error::Unsupported { path, why })
        }
    }
}

#[derive(Deserialize)]
struct SentenceConfig {
    max_seq_length: Option<usize>,
}

/// Longest input in tokens that the directory states.
///
/// # Errors
/// A malformed file.
pub(crate) fn max_tokens(dir: &Path) -> Result<Option<usize>> {
    let path = dir.join("sentence_bert_config.json");
    if !path.is_file() {
        return Ok(None);
    }
    Ok(read_json::<SentenceConfig>(&path)?.max_seq_length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("temp dir");
        for (name, text) in files {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().expect("has one")).expect("folder");
            std::fs::write(path, text).expect("write");
        }
        dir
    }

    #[test]
    fn pooling_is_read_in_both_spellings() {
        let read = |json: &str| pooling(with(&[("1_Pooling/config.json", json)]).path());
        for (json, expected) in [
            (r#"{"pooling_mode":"mean","include_prompt":true}"#, Pooling::Mean),
            (r#"{"pooling_mode":"cls"}"#, Pooling::FirstToken),
            (
                r#"{"pooling_mode_cls_token":false,"pooling_mode_mean_tokens":true,"include_prompt":true}"#,
                Pooling::Mean,
            ),
            (
                r#"{"pooling_mode_cls_token":true,"pooling_mode_mean_tokens":false}"#,
                Pooling::FirstToken,
            ),
        ] {
            assert_eq!(read(json).expect(json), Some(expected));
        }
        for json in [
            r#"{"pooling_mode":"lasttoken"}"#,
            r#"{"pooling_mode":["mean","max"]}"#,
            r#"{"pooling_mode_cls_token":true,"pooling_mode_mean_tokens":true}"#,
            "{}",
        ] {
            assert!(matches!(read(json), Err(Error::Unsupported { .. })), "{json}");
        }
        assert!(matches!(read("["), Err(Error::Weights(_))));
        assert_eq!(pooling(with(&[]).path()).expect("nothing stated"), None);
    }

    #[test]
    fn a_module_that_is_not_computed_is_refused() {
        let check = |json: &str| check_modules(with(&[("modules.json", json)]).path());
        assert!(check(r#"[{"type":"sentence_transformers.models.Transformer"},{"type":"sentence_transformers.sentence_transformer.modules.pooling.Pooling"},{"type":"sentence_transformers.models.Normalize"}]"#).is_ok());
        let error =
            check(r#"[{"type":"sentence_transformers.models.Dense"}]"#).expect_err("a projection");
        assert!(error.to_string().contains("Dense"), "{error}");
        assert!(check_modules(with(&[]).path()).is_ok());
    }

    #[test]
    fn a_stated_prompt_comes_before_what_a_name_suggests() {
        let dir = with(&[]);
        let of = |name: &str| prefixes(dir.path(), name);
        assert_eq!(of("intfloat/E5-small-v2").of(EmbedRole::Query), "query: ");
        assert_eq!(of("intfloat/E5-small-v2").of(EmbedRole::Passage), "passage: ");
        assert_eq!(of("all-MiniLM-L6-v2"), Prefixes::default());
        let stated = with(&[(
            "config_sentence_transformers.json",
            r#"{"prompts":{"query":"ask: ","document":""}}"#,
        )]);
        assert_eq!(prefixes(stated.path(), "e5-small").of(EmbedRole::Query), "ask: ");
        assert_eq!(prefixes(stated.path(), "e5-small").of(EmbedRole::Passage), "");
    }

    #[test]
    fn the_manifest_names_the_model() {
        let dir = with(&[("riddle-model.json", r#"{"repository":"a/b"}"#)]);
        assert_eq!(name(dir.path()), "a/b");
        assert_eq!(name(Path::new("models/some-model")), "some-model");
        assert_eq!(name(Path::new("..")), "model");
    }
}
