//! The hub: which files a repository has, and which of them make the model.

use serde::Deserialize;

use crate::{
    Error, Format, Result, address,
    digest::{Promise, is_hex},
    fetch::Wanted,
    files::{Class, LARGEST_TEXT},
    name,
    net::{Client, Network},
    progress::Watch,
};

/// Pages of a listing that are read; a page has a thousand files.
const MOST_PAGES: usize = 20;

/// What to take from a repository.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Choice<'a> {
    /// Files of a known model; empty: by the rules.
    pub(crate) files: &'a [&'a str],
    /// The weight file.
    pub(crate) file: Option<&'a str>,
    /// The format of the weights.
    pub(crate) format: Option<Format>,
}

/// A repository at one commit.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) revision: String,
    pub(crate) license: Option<String>,
    pub(crate) files: Vec<Wanted>,
}

#[derive(Deserialize)]
struct Revision {
    sha: String,
    #[serde(default)]
    tags: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
struct Entry {
    #[serde(rename = "type")]
    kind: String,
    path: String,
    #[serde(default)]
    size: u64,
    #[serde(default)]
    oid: String,
    lfs: Option<Lfs>,
}

#[derive(Debug, Clone, Deserialize)]
struct Lfs {
    oid: String,
    size: u64,
}

impl Entry {
    fn size(&self) -> u64 {
        self.lfs.as_ref().map_or(self.size, |it| it.size)
    }

    fn class(&self) -> Class {
        Class::of(&self.path)
    }

    /// Large files have the SHA-256 of their bytes, small ones their name in git.
    fn promise(&self) -> Option<Promise> {
        match &self.lfs {
            Some(lfs) => {
                let hex = lfs.oid.strip_prefix("sha256:").unwrap_or(&lfs.oid);
                is_hex(hex, 32).then(|| Promise::Sha256(hex.to_owned()))
            }
            None => is_hex(&self.oid, 20).then(|| Promise::GitBlob(self.oid.clone())),
        }
    }
}

/// Asks the hub what `repository` has at `revision` and chooses.
pub(crate) fn snapshot(
    client: &Client,
    network: &Network,
    repository: &str,
    revision: &str,
    choice: Choice<'_>,
    watch: &mut Watch<'_>,
) -> Result<Snapshot> {
    let api = address::join(&network.endpoint, &format!("api/models/{repository}"));
    let url = format!("{api}/revision/{}", address::encode_path(revision).replace('/', "%2F"));
    let document = client.document(&url, "application/json", watch)?;
    let found: Revision = parse(&url, &document.bytes)?;
    if !is_hex(&found.sha, 20) {
        let why = "its commit is not a checksum".to_owned();
        return Err(Error::Protocol { url: address::shown(&url), why });
    }
    let entries = tree(client, &format!("{api}/tree/{}?recursive=true", found.sha), watch)?;
    let base = address::join(&network.endpoint, &format!("{repository}/resolve/{}", found.sha));
    let files = choose(repository, &entries, choice)?
        .into_iter()
        .map(|entry| {
            let promise = entry.promise().ok_or_else(|| Error::Protocol {
                url: address::shown(&url),
                why: format!("it states no checksum for {}", entry.path),
            })?;
            Ok(Wanted {
                path: entry.path.clone(),
                url: format!("{base}/{}", address::encode_path(&entry.path)),
                size: entry.size(),
                promise,
            })
        })
        .collect::<Result<_>>()?;
    let license = found.tags.iter().find_map(|it| it.strip_prefix("license:")).map(str::to_owned);
    Ok(Snapshot { revision: found.sha, license, files })
}

fn parse<T: serde::de::DeserializeOwned>(url: &str, bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|error| Error::Protocol {
        url: address::shown(url),
        why: format!("the answer is not the hub's ({error})"),
    })
}

fn tree(client: &Client, url: &str, watch: &mut Watch<'_>) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    let mut next = Some(url.to_owned());
    for _ in 0..MOST_PAGES {
        let Some(url) = next else { return Ok(entries) };
        let document = client.document(&url, "application/json", watch)?;
        entries.extend(parse::<Vec<Entry>>(&url, &document.bytes)?);
        next = document.link.as_deref().and_then(next_page).and_then(|it| {
            address::resolve(&document.url, it)
                .filter(|it| address::origin(it) == address::origin(&document.url))
        });
    }
    Err(Error::Protocol {
        url: address::shown(url),
        why: "the repository has too many files".to_owned(),
    })
}

/// Address in `<ADDRESS>; rel="next"`.
fn next_page(link: &str) -> Option<&str> {
    let (_, rest) = link.split_once('<')?;
    let (url, rest) = rest.split_once('>')?;
    rest.contains("rel=\"next\"").then_some(url)
}

fn choose<'a>(
    repository: &str,
    entries: &'a [Entry],
    choice: Choice<'_>,
) -> Result<Vec<&'a Entry>> {
    let all: Vec<&Entry> = entries
        .iter()
        .filter(|it| it.kind == "file" && name::file_fault(&it.path).is_none())
        .collect();
    let usable: Vec<&Entry> = all
        .iter()
        .copied()
        .filter(|it| match it.class() {
            Class::Json | Class::Text => it.size() <= LARGEST_TEXT,
            class => class.is_taken(),
        })
        .collect();
    let mut chosen = if choice.files.is_empty() || choice.file.is_some() {
        let mut chosen = weights(repository, &all, &usable, choice)?;
        chosen.extend(usable.iter().copied().filter(|it| is_side_file(it)));
        chosen
    } else {
        listed(repository, &usable, choice.files)?
    };
    // Graphs above 2 GB keep their numbers in files beside them.
    let graphs: Vec<&str> = chosen.iter().map(|it| it.path.as_str()).collect();
    let belongs = |it: &&Entry| {
        it.class() == Class::OnnxData
            && graphs.iter().filter(|graph| graph.ends_with(".onnx")).any(|graph| {
                let has_own_name = it.path.contains(".onnx");
                let folder = |path: &str| path.rsplit_once('/').map(|it| it.0.to_owned());
                if has_own_name {
                    it.path.starts_with(graph)
                } else {
                    folder(&it.path) == folder(graph)
                }
            })
    };
    let beside: Vec<&Entry> = usable.iter().copied().filter(belongs).collect();
    chosen.extend(beside);
    chosen.sort_by(|a, b| a.path.cmp(&b.path));
    chosen.dedup_by(|a, b| a.path == b.path);
    // On a file system that ignores case one would overwrite the other.
    let mut lower: Vec<String> = chosen.iter().map(|it| it.path.to_lowercase()).collect();
    lower.sort();
    if lower.windows(2).any(|it| it[0] == it[1]) {
        let why = "two of its files differ only in upper and lower case".to_owned();
        return Err(Error::NotAModel { name: repository.to_owned(), why });
    }
    Ok(chosen)
}

/// Files of a known model. What only repeats what `tokenizer.json` says may be missing.
fn listed<'a>(name: &str, usable: &[&'a Entry], files: &[&str]) -> Result<Vec<&'a Entry>> {
    let mut chosen = Vec::new();
    for file in files {
        match usable.iter().find(|it| it.path == *file) {
            Some(entry) => chosen.push(*entry),
            None if matches!(Class::of(file), Class::Weights(_))
                || matches!(*file, "config.json" | "tokenizer.json") =>
            {
                let why = format!("it has no {file}");
                return Err(Error::NotAModel { name: name.to_owned(), why });
            }
            None => {}
        }
    }
    Ok(chosen)
}

/// Configuration and vocabulary at the top, and the numbered folders of sentence-transformers.
fn is_side_file(entry: &Entry) -> bool {
    match entry.path.split_once('/') {
        None => matches!(entry.class(), Class::Json | Class::Text),
        Some((folder, file)) => {
            let numbered = folder.split_once('_').is_some_and(|(number, _)| {
                !number.is_empty() && number.bytes().all(|it| it.is_ascii_digit())
            });
            numbered
                && !file.contains('/')
                && matches!(
                    entry.class(),
                    Class::Json | Class::Text | Class::Weights(Format::Safetensors)
                )
        }
    }
}

fn weights<'a>(
    repository: &str,
    all: &[&'a Entry],
    usable: &[&'a Entry],
    choice: Choice<'_>,
) -> Result<Vec<&'a Entry>> {
    let not_a_model = |why: String| Error::NotAModel { name: repository.to_owned(), why };
    if let Some(file) = choice.file {
        let entry = usable
            .iter()
            .find(|it| it.path == file && matches!(it.class(), Class::Weights(_)))
            .ok_or_else(|| not_a_model(format!("it has no weight file {file}")))?;
        return Ok(with_shards(entry, usable));
    }
    let formats = match choice.format {
        Some(format) => vec![format],
        None => vec![Format::Safetensors, Format::Riddle, Format::Onnx, Format::Gguf],
    };
    for format in formats {
        let candidates: Vec<&Entry> = usable
            .iter()
            .copied()
            .filter(|it| it.class() == Class::Weights(format) && !is_side_file(it))
            .collect();
        if !candidates.is_empty() {
            return obvious(&candidates, format).map(|it| with_shards(it, usable)).ok_or_else(
                || Error::Ambiguous { name: repository.to_owned(), choices: list(&candidates) },
            );
        }
    }
    let unsafe_weights: Vec<&Entry> = all
        .iter()
        .copied()
        .filter(|it| it.class() == Class::Executable && !it.path.ends_with(".py"))
        .collect();
    if unsafe_weights.is_empty() || choice.format.is_some() {
        return Err(not_a_model("it has no weights in a format that is supported".to_owned()));
    }
    Err(Error::Unsafe { name: repository.to_owned(), files: list(&unsafe_weights) })
}

fn list(entries: &[&Entry]) -> String {
    entries.iter().map(|it| it.path.as_str()).collect::<Vec<_>>().join(", ")
}

/// The weight file that is meant when nobody says which.
fn obvious<'a>(candidates: &[&'a Entry], format: Format) -> Option<&'a Entry> {
    let named = |name: &str| candidates.iter().copied().find(|it| it.path == name);
    let first_shard = |it: &&Entry| it.path.contains("-00001-of-");
    match format {
        Format::Safetensors => named("model.safetensors").or_else(|| {
            candidates.iter().copied().find(|it| {
                !it.path.contains('/') && it.path.starts_with("model-") && first_shard(it)
            })
        }),
        Format::Onnx => {
            ["onnx/model.onnx", "model.onnx", "model_optimized.onnx"].into_iter().find_map(named)
        }
        Format::Riddle => named(crate::files::STORE_FILE),
        Format::Library => None,
        // The usual compromise between size and quality.
        Format::Gguf => {
            let mut fitting = candidates.iter().copied().filter(|it| {
                let lower = it.path.to_lowercase();
                lower.contains("q4_k_m") && (!lower.contains("-of-") || first_shard(it))
            });
            fitting.next().filter(|_| fitting.next().is_none())
        }
    }
    .or(match candidates {
        [only] => Some(only),
        _ => None,
    })
}

/// `X-00001-of-00003.ending` comes with its siblings.
fn with_shards<'a>(entry: &'a Entry, usable: &[&'a Entry]) -> Vec<&'a Entry> {
    let Some((stem, rest)) = entry.path.split_once("-00001-of-") else { return vec![entry] };
    let is_shard = |it: &&Entry| {
        it.path
            .strip_prefix(stem)
            .and_then(|it| it.strip_prefix('-'))
            .and_then(|it| it.split_once("-of-"))
            .is_some_and(|(number, end)| {
                number.len() == 5 && number.bytes().all(|it| it.is_ascii_digit()) && end == rest
            })
    };
    usable.iter().copied().filter(is_shard).collect()
}

#[cfg(test)]
mod tests {
    use riddle_types::{Advice, Advised as _};

    use super::*;

    fn entries(paths: &[&str]) -> Vec<Entry> {
        paths
            .iter()
            .map(|path| Entry {
                kind: "file".to_owned(),
                path: (*path).to_owned(),
                size: 10,
                oid: "0".repeat(40),
                lfs: None,
            })
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
        let choices = "a-Q8_0.gguf, a-F16.gguf".to_owned();
        assert_eq!(error.advice(), Some(Advice::ChooseFile { choices }));
        let choice = Choice { file: Some("a-F16.gguf"), ..Choice::default() };
        assert_eq!(check(&paths, choice).expect("chosen"), ["a-F16.gguf"]);
        assert!(check(&paths, Choice { file: Some("b.gguf"), ..choice }).is_err());
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
    fn pickle_alone_is_refused_by_name() {
        let error = check(&["pytorch_model.bin", "config.json"], Choice::default());
        let error = error.expect_err("unsafe");
        assert!(matches!(&error, Error::Unsafe { files, .. } if files == "pytorch_model.bin"));
        assert!(matches!(check(&["README.md"], Choice::default()), Err(Error::NotAModel { .. })));
        assert!(check(&["model.safetensors", "A.json", "a.json"], Choice::default()).is_err());
    }

    #[test]
    fn the_next_page_is_read_from_the_header() {
        assert_eq!(next_page("<https://h/x?cursor=1>; rel=\"next\""), Some("https://h/x?cursor=1"));
        assert_eq!(next_page("<https://h/x>; rel=\"prev\""), None);
        assert_eq!(next_page("nonsense"), None);
    }
}
