//! What a late interaction's folder says of queries and texts: PyLate writes it into
//! `config_sentence_transformers.json` (<https://lightonai.github.io/pylate/api/models/ColBERT/>), ColBERT's own
//! library into `artifact.metadata` (<https://github.com/stanford-futuredata/ColBERT>,
//! `colbert/infra/config/settings.py`).

use std::path::{Path, PathBuf};

use riddle_weights::{is_there, read_json};
use serde::Deserialize;

use crate::{
    Error, Result,
    modules::{Listed, list_of},
};

/// The file of PyLate's settings.
const PYLATE: &str = "config_sentence_transformers.json";

/// The file of ColBERT's settings.
const COLBERT: &str = "artifact.metadata";

/// Words whose vectors are not compared, where nothing else is said: Python's `string.punctuation`.
const PUNCTUATION: &str = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";

/// Most words that are not compared, so that a list of them stays one.
const MOST_SKIPPED: usize = 10_000;

/// How the model's folder is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// Modules in folders beside the model.
    PyLate,
    /// The projection among the model's own tensors.
    ColBert,
}

/// How queries and texts become sequences, and what of a text is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LateConfig {
    pub(super) layout: Layout,
    /// The token behind a query's first one, if there is one.
    pub(super) query_marker: Option<String>,
    pub(super) text_marker: Option<String>,
    /// Tokens of a query, special ones included.
    pub(super) query_tokens: usize,
    /// Tokens of a text, unless told otherwise.
    pub(super) text_tokens: usize,
    /// Whether shorter queries are filled with masks.
    pub(super) expands: bool,
    /// Whether anybody sees those masks.
    pub(super) attends: bool,
    /// Words of texts that are not compared.
    pub(super) skipped: Vec<String>,
    /// The file that says so.
    pub(super) path: PathBuf,
}

/// PyLate's settings; what is not said is its default.
#[derive(Default, Deserialize)]
struct PyLate {
    #[serde(default)]
    model_type: Option<String>,
    #[serde(default)]
    similarity_fn_name: Option<String>,
    query_prefix: Option<String>,
    document_prefix: Option<String>,
    query_length: Option<usize>,
    document_length: Option<usize>,
    do_query_expansion: Option<bool>,
    attend_to_expansion_tokens: Option<bool>,
    skiplist_words: Option<Vec<String>>,
}

impl PyLate {
    fn is_late(&self) -> bool {
        let is = |field: &Option<String>, name: &str| field.as_deref() == Some(name);
        is(&self.similarity_fn_name, "MaxSim") || is(&self.model_type, "ColBERT")
    }
}

/// ColBERT's settings; what is not said is its default.
#[derive(Default, Deserialize)]
struct ColBert {
    query_token_id: Option<String>,
    doc_token_id: Option<String>,
    query_maxlen: Option<usize>,
    doc_maxlen: Option<usize>,
    attend_to_mask_tokens: Option<bool>,
    mask_punctuation: Option<bool>,
    similarity: Option<String>,
}

#[derive(Default, Deserialize)]
struct Classes {
    #[serde(default)]
    architectures: Option<Vec<String>>,
}

/// How a late interaction's folder is laid out; `None` for other models.
///
/// # Errors
/// A malformed file.
pub(super) fn layout(dir: &Path) -> Result<Option<Layout>> {
    let list = dir.join("modules.json");
    if is_there(&list) {
        let of_pylate = |it: &Listed| it.is_of("pylate");
        let settings = dir.join(PYLATE);
        if list_of(&list)?.iter().any(of_pylate)
            || (is_there(&settings) && read_json::<PyLate>(&settings)?.is_late())
        {
            return Ok(Some(Layout::PyLate));
        }
    }
    let config = dir.join("config.json");
    let classes: Classes = if is_there(&config) { read_json(&config)? } else { Classes::default() };
    let is_late = classes.architectures.iter().flatten().any(|it| it == "HF_ColBERT");
    Ok(is_late.then_some(Layout::ColBert))
}

/// The file of a late interaction's settings, if there is one.
///
/// # Errors
/// As [`layout`].
pub(crate) fn settings_file(dir: &Path) -> Result<Option<&'static str>> {
    let file = layout(dir)?.map(|it| match it {
        Layout::PyLate => PYLATE,
        Layout::ColBert => COLBERT,
    });
    Ok(file.filter(|it| is_there(&dir.join(it))))
}

impl LateConfig {
    /// The settings of a folder of this layout.
    ///
    /// # Errors
    /// A malformed file, and settings that are not computed or make no sense.
    pub(super) fn open(dir: &Path, layout: Layout) -> Result<LateConfig> {
        let config = match layout {
            Layout::PyLate => LateConfig::of_pylate(dir)?,
            Layout::ColBert => LateConfig::of_colbert(dir)?,
        };
        let bad = |why: String| Err(Error::Module { path: config.path.clone(), why });
        if config.query_tokens == 0 || config.text_tokens == 0 {
            return bad("it leaves queries or texts no token".to_owned());
        }
        if config.skipped.len() > MOST_SKIPPED {
            return bad(format!("it skips more than {MOST_SKIPPED} words"));
        }
        Ok(config)
    }

    fn of_pylate(dir: &Path) -> Result<LateConfig> {
        let path = dir.join(PYLATE);
        let said: PyLate = if is_there(&path) { read_json(&path)? } else { PyLate::default() };
        let marker = |said: Option<String>, usual: &str| {
            Some(said.unwrap_or_else(|| usual.to_owned())).filter(|it| !it.is_empty())
        };
        let expands = said.do_query_expansion.unwrap_or(true);
        Ok(LateConfig {
            layout: Layout::PyLate,
            query_marker: marker(said.query_prefix, "[Q] "),
            text_marker: marker(said.document_prefix, "[D] "),
            query_tokens: said.query_length.unwrap_or(32),
            text_tokens: said.document_length.unwrap_or(180),
            expands,
            attends: expands && said.attend_to_expansion_tokens.unwrap_or(false),
            skipped: said.skiplist_words.unwrap_or_else(punctuation),
            path,
        })
    }

    fn of_colbert(dir: &Path) -> Result<LateConfig> {
        let path = dir.join(COLBERT);
        let said: ColBert = if is_there(&path) { read_json(&path)? } else { ColBert::default() };
        if let Some(other) = said.similarity.filter(|it| it != "cosine") {
            let why = format!("similarity {other:?} is not supported: only \"cosine\" is");
            return Err(Error::Module { path, why });
        }
        let marker = |said: Option<String>, usual: &str| said.unwrap_or_else(|| usual.to_owned());
        Ok(LateConfig {
            layout: Layout::ColBert,
            query_marker: Some(marker(said.query_token_id, "[unused0]")),
            text_marker: Some(marker(said.doc_token_id, "[unused1]")),
            query_tokens: said.query_maxlen.unwrap_or(32),
            text_tokens: said.doc_maxlen.unwrap_or(220),
            expands: true,
            attends: said.attend_to_mask_tokens.unwrap_or(false),
            skipped: match said.mask_punctuation.unwrap_or(true) {
                true => punctuation(),
                false => Vec::new(),
            },
            path,
        })
    }
}

fn punctuation() -> Vec<String> {
    PUNCTUATION.chars().map(String::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("temp dir");
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).expect("write");
        }
        dir
    }

    #[test]
    fn a_late_interaction_is_known_by_its_files() {
        let of = |files: &[(&str, &str)]| layout(with(files).path()).expect("readable");
        let plain = r#"[{"type":"sentence_transformers.models.Transformer"},{"type":"a.Dense","path":"1_Dense"}]"#;
        let pylate = plain.replace("a.Dense", "pylate.models.Dense.Dense");
        assert_eq!(of(&[("modules.json", &pylate)]), Some(Layout::PyLate));
        assert_eq!(of(&[("modules.json", plain)]), None);
        for said in [r#"{"similarity_fn_name":"MaxSim"}"#, r#"{"model_type":"ColBERT"}"#] {
            assert_eq!(of(&[("modules.json", plain), (PYLATE, said)]), Some(Layout::PyLate));
        }
        let cosine = r#"{"similarity_fn_name":"cosine","model_type":"SentenceTransformer"}"#;
        assert_eq!(of(&[("modules.json", plain), (PYLATE, cosine)]), None);
        let class = |it: &str| format!(r#"{{"architectures":["{it}"]}}"#);
        assert_eq!(of(&[("config.json", &class("HF_ColBERT"))]), Some(Layout::ColBert));
        assert_eq!(of(&[("config.json", &class("BertModel"))]), None);
        assert_eq!(of(&[("config.json", r#"{"architectures":null}"#)]), None);
        assert_eq!(of(&[]), None);
        assert!(layout(with(&[("modules.json", "{")]).path()).is_err());
    }

    #[test]
    fn what_is_not_said_is_the_librarys_default() {
        let pylate = |json: &str| LateConfig::open(with(&[(PYLATE, json)]).path(), Layout::PyLate);
        let usual = pylate("{}").expect("defaults");
        assert_eq!(usual.query_marker.as_deref(), Some("[Q] "));
        assert_eq!((usual.query_tokens, usual.text_tokens), (32, 180));
        assert_eq!((usual.expands, usual.attends, usual.skipped.len()), (true, false, 32));
        let late_on = pylate(
            r#"{"query_prefix":"","query_length":256,"document_length":2048,"do_query_expansion":false,
            "attend_to_expansion_tokens":true,"skiplist_words":["x"]}"#,
        )
        .expect("good");
        assert_eq!((late_on.query_marker, late_on.query_tokens), (None, 256));
        // Nobody sees masks that are not there.
        assert_eq!((late_on.expands, late_on.attends), (false, false));
        assert_eq!(late_on.skipped, ["x"]);
        let colbert =
            |json: &str| LateConfig::open(with(&[(COLBERT, json)]).path(), Layout::ColBert);
        let usual = colbert("{}").expect("defaults");
        assert_eq!(usual.text_marker.as_deref(), Some("[unused1]"));
        assert_eq!((usual.query_tokens, usual.text_tokens), (32, 220));
        let other = colbert(r#"{"mask_punctuation":false,"attend_to_mask_tokens":true}"#);
        let other = other.expect("good");
        assert!(other.attends && other.skipped.is_empty());
    }

    #[test]
    fn what_makes_no_sense_or_is_not_computed_is_refused() {
        for (layout, file, json, word) in [
            (Layout::PyLate, PYLATE, r#"{"query_length":0}"#, "no token"),
            (Layout::PyLate, PYLATE, r#"{"query_length":-3}"#, "JSON"),
            (Layout::PyLate, PYLATE, r#"{"skiplist_words":"x"}"#, "JSON"),
            (Layout::ColBert, COLBERT, r#"{"similarity":"l2"}"#, "l2"),
            (Layout::ColBert, COLBERT, r#"{"doc_maxlen":0}"#, "no token"),
            (Layout::ColBert, COLBERT, "[", "JSON"),
        ] {
            let error = LateConfig::open(with(&[(file, json)]).path(), layout).expect_err(word);
            let error = error.to_string();
            assert!(error.contains(word) && error.contains(file), "{json}: {error}");
        }
        let many = vec!["\"a\""; MOST_SKIPPED + 1].join(",");
        let json = format!(r#"{{"skiplist_words":[{many}]}}"#);
        assert!(LateConfig::open(with(&[(PYLATE, &json)]).path(), Layout::PyLate).is_err());
    }
}
