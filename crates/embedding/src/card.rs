//! What a model directory says about how its vectors are made: the files that sentence-transformers
//! writes beside the weights (<https://sbert.net/docs/package_reference/sentence_transformer/models.html>).

use std::{collections::HashMap, io::Read as _, path::Path};

use riddle_types::EmbedRole;
use riddle_weights::{is_there, read_json};
use serde::Deserialize;

use crate::{Error, Result};

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
const KNOWN_PREFIXES: [(&str, &str, &str); 10] = [
    // Among those of its makers the one that wants none.
    ("bge-m3", "", ""),
    ("e5-", "query: ", "passage: "),
    ("nomic-embed-text", "search_query: ", "search_document: "),
    ("arctic-embed2", "query: ", ""),
    ("arctic-embed-l-v2", "query: ", ""),
    ("arctic-embed", "Represent this sentence for searching relevant passages: ", ""),
    ("bge-", "Represent this sentence for searching relevant passages: ", ""),
    ("mxbai-embed", "Represent this sentence for searching relevant passages: ", ""),
    (
        "qwen3-embedding",
        "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:",
        "",
    ),
    ("embeddinggemma", "task: search result | query: ", "title: none | text: "),
];

/// What models of this name are known to want before a query, and before a passage.
pub fn known_prefixes(name: &str) -> (&'static str, &'static str) {
    let name = name.to_lowercase();
    let known = KNOWN_PREFIXES.iter().find(|it| name.contains(it.0));
    known.map_or(("", ""), |&(_, query, passage)| (query, passage))
}

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

/// `config_sentence_transformers.json`.
#[derive(Deserialize, Default)]
struct Settings {
    #[serde(default)]
    prompts: HashMap<String, Option<String>>,
    #[serde(default)]
    truncate_dim: Option<usize>,
}

/// What the folder says of prompts and dimensions; nothing where it says nothing.
fn settings(dir: &Path) -> Result<Settings> {
    let path = dir.join("config_sentence_transformers.json");
    if is_there(&path) { Ok(read_json(&path)?) } else { Ok(Settings::default()) }
}

/// Prefixes from `config_sentence_transformers.json`, else those that models of this name are known to
/// want, else none.
///
/// # Errors
/// A malformed file.
pub(crate) fn prefixes(dir: &Path, name: &str) -> Result<Prefixes> {
    let prompts = settings(dir)?.prompts;
    let stated = |names: &[&str]| {
        let mut found = names.iter().filter_map(|it| prompts.get(*it)?.clone());
        found.find(|it| !it.is_empty()).unwrap_or_default()
    };
    let prefixes =
        Prefixes { query: stated(&["query"]), passage: stated(&["document", "passage"]) };
    // New versions of sentence-transformers write empty ones for models that have none.
    if prefixes != Prefixes::default() {
        return Ok(prefixes);
    }
    let (query, passage) = known_prefixes(name);
    Ok(Prefixes { query: query.to_owned(), passage: passage.to_owned() })
}

/// Numbers of a vector that are kept, as the folder says or as somebody `wants`; `None`: all of `outputs`. Models that
/// are trained for it have the most of what they say in the first ones (Matryoshka, Kusupati et al. 2022).
///
/// # Errors
/// A malformed file, and more than there are, or none.
pub(crate) fn dimensions(
    dir: &Path,
    wanted: Option<usize>,
    outputs: usize,
) -> Result<Option<usize>> {
    let Some(kept) = wanted.or(settings(dir)?.truncate_dim) else { return Ok(None) };
    if !(1..=outputs).contains(&kept) {
        return Err(Error::Dimensions { dir: dir.to_path_buf(), kept, outputs });
    }
    Ok(Some(kept).filter(|it| *it < outputs))
}

/// How a model's vectors may be shortened, where it was trained for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortening {
    /// Lengths that it was trained for, as its files name them; empty: not said.
    pub lengths: Vec<usize>,
}

/// `config.json` of models that name the lengths themselves.
#[derive(Deserialize, Default)]
struct Lengths {
    #[serde(default, alias = "matryoshka_dims")]
    matryoshka_dimensions: Vec<usize>,
}

/// What a model card's head says of training by `MatryoshkaLoss`, among its tags.
const MATRYOSHKA_TAG: &str = "loss:MatryoshkaLoss";

/// Most bytes of a model card that are looked at: tags stand at its beginning.
const CARD_BYTES: u64 = 64 << 10;

/// Whether the files of a model say that the first numbers of its vectors are vectors themselves (Matryoshka, Kusupati
/// et al. 2022): a stated number of those that are kept, a list of lengths, or the tag that sentence-transformers
/// writes of how it was trained. `None`: they say nothing of it.
///
/// # Errors
/// A malformed file.
pub fn shortening(dir: &Path) -> Result<Option<Shortening>> {
    let path = dir.join("config.json");
    let mut lengths: Vec<usize> = match path.is_file() {
        true => read_json::<Lengths>(&path)?.matryoshka_dimensions,
        false => Vec::new(),
    };
    lengths.sort_unstable();
    let says = !lengths.is_empty() || settings(dir)?.truncate_dim.is_some() || is_tagged(dir);
    Ok(says.then_some(Shortening { lengths }))
}

/// Whether the model card has the tag. One that can not be read says nothing.
fn is_tagged(dir: &Path) -> bool {
    let Ok(file) = std::fs::File::open(dir.join("README.md")) else { return false };
    let mut head = Vec::new();
    if file.take(CARD_BYTES).read_to_end(&mut head).is_err() {
        return false;
    }
    let head = String::from_utf8_lossy(&head);
    // The head stands between two lines of dashes.
    let Some(rest) = head.strip_prefix("---") else { return false };
    let tags = rest.split("\n---").next().unwrap_or_default();
    tags.lines().any(|it| it.trim().trim_start_matches('-').trim() == MATRYOSHKA_TAG)
}

#[derive(Deserialize)]
struct SentenceConfig {
    max_seq_length: Option<usize>,
}

#[derive(Deserialize)]
struct TokenizerConfig {
    model_max_length: Option<f64>,
}

/// Most tokens that are taken from a tokenizer's configuration: attention's memory grows with them, and passages are
/// shorter.
const MOST_TOKENS: f64 = 8192.0;

/// Longest input in tokens that the directory states, or the `folder` below it that has the transformer's own files.
///
/// # Errors
/// A malformed file.
pub(crate) fn max_tokens(dir: &Path, folder: &Path) -> Result<Option<usize>> {
    let path = folder.join("sentence_bert_config.json");
    if is_there(&path)
        && let Some(stated) = read_json::<SentenceConfig>(&path)?.max_seq_length
    {
        return Ok(Some(stated));
    }
    // Newer versions leave it to the tokenizer. Plain directories say nothing about embedding.
    let path = folder.join("tokenizer_config.json");
    if !is_there(&path) || !is_there(&dir.join("modules.json")) {
        return Ok(None);
    }
    let stated = read_json::<TokenizerConfig>(&path)?.model_max_length;
    Ok(stated.filter(|it| *it >= 1.0).map(|it| it.min(MOST_TOKENS) as usize))
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
    fn the_longest_input_is_the_tokenizers_where_only_that_says_so() {
        let tokenizer = ("tokenizer_config.json", r#"{"model_max_length":512}"#);
        let modules = ("modules.json", "[]");
        let of = |files: &[(&str, &str)]| {
            let dir = with(files);
            max_tokens(dir.path(), dir.path()).expect("well formed")
        };
        assert_eq!(of(&[tokenizer]), None);
        assert_eq!(of(&[tokenizer, modules]), Some(512));
        let stated = ("sentence_bert_config.json", r#"{"max_seq_length":128}"#);
        assert_eq!(of(&[tokenizer, modules, stated]), Some(128));
        assert_eq!(of(&[tokenizer, modules, ("sentence_bert_config.json", "{}")]), Some(512));
        let endless = ("tokenizer_config.json", r#"{"model_max_length":1e30}"#);
        assert_eq!(of(&[endless, modules]), Some(8192));
        assert_eq!(of(&[("tokenizer_config.json", "{}"), modules]), None);
    }

    #[test]
    fn dimensions_are_those_that_there_are() {
        let dir = with(&[("config_sentence_transformers.json", r#"{"truncate_dim":20}"#)]);
        let of = |wanted| dimensions(dir.path(), wanted, 32);
        assert_eq!(of(None).expect("stated"), Some(20));
        assert_eq!(of(Some(8)).expect("wanted"), Some(8));
        assert_eq!(of(Some(32)).expect("all"), None);
        for wrong in [0, 33] {
            let error = of(Some(wrong)).expect_err("not there").to_string();
            assert!(error.contains("32"), "{error}");
        }
        assert_eq!(dimensions(with(&[]).path(), None, 32).expect("nothing"), None);
    }

    #[test]
    fn a_model_says_whether_its_vectors_may_be_shortened() {
        let of = |files: &[(&str, &str)]| shortening(with(files).path()).expect("well formed");
        let any = Some(Shortening { lengths: Vec::new() });
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[("config.json", r#"{"model_type":"bert"}"#)]), None);
        assert_eq!(of(&[("config_sentence_transformers.json", r#"{"truncate_dim":20}"#)]), any);
        let listed = r#"{"matryoshka_dimensions":[64,32,128]}"#;
        assert_eq!(of(&[("config.json", listed)]), Some(Shortening { lengths: vec![32, 64, 128] }));
        let tagged = "---\ntags:\n- loss:MatryoshkaLoss\n---\n# A model";
        assert_eq!(of(&[("README.md", tagged)]), any);
        // What a text says of other models is no tag of this one.
        for other in [
            "---\ntags:\n- bert\n---\n- loss:MatryoshkaLoss",
            "- loss:MatryoshkaLoss",
            "---\ntags:\n- loss:MatryoshkaLossless\n---",
            "",
        ] {
            assert_eq!(of(&[("README.md", other)]), None, "{other:?}");
        }
        for broken in ["{", r#"{"matryoshka_dimensions":"many"}"#] {
            assert!(shortening(with(&[("config.json", broken)]).path()).is_err());
        }
        let dir = with(&[]);
        std::fs::write(dir.path().join("README.md"), [0x2d, 0x2d, 0x2d, 0xff, 0xfe])
            .expect("written");
        assert_eq!(shortening(dir.path()).expect("bytes that are no text"), None);
    }

    #[test]
    fn a_stated_prompt_comes_before_what_a_name_suggests() {
        let dir = with(&[]);
        let of = |name: &str| prefixes(dir.path(), name).expect("well formed");
        assert_eq!(of("intfloat/E5-small-v2").of(EmbedRole::Query), "query: ");
        assert_eq!(of("intfloat/E5-small-v2").of(EmbedRole::Passage), "passage: ");
        assert_eq!(of("all-MiniLM-L6-v2"), Prefixes::default());
        assert_eq!(of("BAAI/bge-m3"), Prefixes::default());
        assert_ne!(of("BAAI/bge-small-en-v1.5"), Prefixes::default());
        let stated = with(&[(
            "config_sentence_transformers.json",
            r#"{"prompts":{"query":"ask: ","document":""}}"#,
        )]);
        let of = |name: &str| prefixes(stated.path(), name).expect("well formed");
        assert_eq!(of("e5-small").of(EmbedRole::Query), "ask: ");
        assert_eq!(of("e5-small").of(EmbedRole::Passage), "");
        let empty = with(&[(
            "config_sentence_transformers.json",
            r#"{"prompts":{"query":"","document":"","passage":null}}"#,
        )]);
        let of = |name: &str| prefixes(empty.path(), name).expect("well formed");
        assert_eq!(of("e5-small").of(EmbedRole::Passage), "passage: ");
        let broken = with(&[("config_sentence_transformers.json", "{")]);
        assert!(prefixes(broken.path(), "e5-small").is_err());
    }

    #[test]
    fn the_manifest_names_the_model() {
        let dir = with(&[("riddle-model.json", r#"{"repository":"a/b"}"#)]);
        assert_eq!(name(dir.path()), "a/b");
        assert_eq!(name(Path::new("models/some-model")), "some-model");
        assert_eq!(name(Path::new("..")), "model");
    }
}
