//! The hub: which files a repository has, and which of them make the model.

use std::collections::HashMap;

use serde::Deserialize;

use crate::{
    Error, Format, Result, address,
    digest::{Promise, is_hex},
    fetch::Wanted,
    files::{Class, LARGEST_TEXT},
    name,
    net::{Client, Network},
    parts::{self, Part},
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
            // How a sparse encoder whose questions are looked up weighs passages.
            let of_route = folder.starts_with("document_") && folder.ends_with("SpladePooling");
            (numbered || (of_route && entry.class() == Class::Json))
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
    let not_a_model = |why| not_a_model(repository, why);
    let fault = |it: &Entry| match it.class() {
        Class::Weights(Format::Safetensors) => safetensors_fault(it, usable),
        _ => None,
    };
    let mut not_opened = None;
    if let Some(file) = choice.file {
        let entry = usable
            .iter()
            .find(|it| it.path == file && matches!(it.class(), Class::Weights(_)))
            .ok_or_else(|| not_a_model(format!("it has no weight file {file}")))?;
        if let Some(why) = fault(entry) {
            return Err(not_a_model(why));
        }
        return with_shards(repository, entry, usable);
    }
    let formats = match choice.format {
        Some(format) => vec![format],
        None => vec![Format::Safetensors, Format::Riddle, Format::Onnx, Format::Gguf],
    };
    for format in formats {
        let candidates: Vec<&Entry> = usable
            .iter()
            .copied()
            .filter(|it| it.class() == Class::Weights(format))
            .filter(|it| !is_side_file(it) || is_first_module(it))
            // The first part stands for all of them, and a projector of pictures is no model.
            .filter(|it| !parts::is_later(&it.path) && !it.path.to_lowercase().contains("mmproj"))
            .collect();
        let opened: Vec<&Entry> =
            candidates.iter().copied().filter(|it| fault(it).is_none()).collect();
        if !opened.is_empty() {
            let entry = obvious(&opened, format).ok_or_else(|| Error::Ambiguous {
                name: repository.to_owned(),
                choices: list(&opened),
            })?;
            return with_shards(repository, entry, usable);
        }
        not_opened = not_opened.or_else(|| candidates.iter().find_map(|it| fault(it)));
    }
    if let Some(why) = not_opened {
        return Err(not_a_model(why));
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
    match format {
        Format::Safetensors => named("model.safetensors").or_else(|| {
            let is_own = |it: &&Entry| Part::of(&it.path).is_some_and(|it| it.stem == "model");
            candidates.iter().copied().find(is_own)
        }),
        // Rounded graphs only where there is no other: first the one that Optimum makes when it is not told how.
        Format::Onnx => [
            "onnx/model.onnx",
            "model.onnx",
            "model_optimized.onnx",
            "onnx/model_quantized.onnx",
            "model_quantized.onnx",
            "onnx/model_int8.onnx",
            "model_int8.onnx",
        ]
        .into_iter()
        .find_map(named),
        Format::Riddle => named(crate::files::STORE_FILE),
        Format::Library => None,
        // The usual compromise between size and quality.
        Format::Gguf => {
            let is_fitting = |it: &&Entry| it.path.to_lowercase().contains("q4_k_m");
            let mut fitting = candidates.iter().copied().filter(is_fitting);
            fitting.next().filter(|_| fitting.next().is_none())
        }
    }
    .or(match candidates {
        [only] => Some(only),
        _ => None,
    })
}

/// A part comes with its siblings; where one is missing, none is fetched.
fn with_shards<'a>(
    repository: &str,
    entry: &'a Entry,
    usable: &[&'a Entry],
) -> Result<Vec<&'a Entry>> {
    let Some(part) = Part::of(&entry.path) else { return Ok(vec![entry]) };
    let there: HashMap<&str, &Entry> = usable.iter().map(|it| (it.path.as_str(), *it)).collect();
    let find = |path: String| there.get(path.as_str()).copied().ok_or(path);
    // The number of parts is the word of a name: the first that is missing ends the count.
    part.all().map(find).collect::<std::result::Result<_, _>>().map_err(|missing| {
        not_a_model(repository, format!("it lacks {missing}, a part of the model"))
    })
}

fn not_a_model(repository: &str, why: String) -> Error {
    Error::NotAModel { name: repository.to_owned(), why }
}

/// The weights of the module that sentence-transformers puts first, in a folder of its own.
fn is_first_module(entry: &Entry) -> bool {
    let file = entry.path.strip_prefix("0_").and_then(|it| it.split_once('/'));
    file.is_some_and(|(_, file)| {
        file == "model.safetensors" || Part::of(file).is_some_and(|it| it.stem == "model")
    })
}

/// Why nothing here opens these weights in safetensors, as far as names tell it: nobody should wait for gigabytes to be
/// told so.
fn safetensors_fault(entry: &Entry, usable: &[&Entry]) -> Option<String> {
    const INDEX: &str = "model.safetensors.index.json";
    let path = entry.path.as_str();
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    let index = if folder.is_empty() { INDEX.to_owned() } else { format!("{folder}/{INDEX}") };
    let of_module = folder.strip_prefix("0_").filter(|it| !it.contains('/'));
    if file.starts_with("adapter") {
        return Some(format!(
            "{path} is an adapter for another model: fetch one that it was merged into"
        ));
    }
    match of_module {
        Some("Transformer" | "StaticEmbedding") => {}
        Some(other) => {
            return Some(format!("its first module is {other}, which does not run here"));
        }
        None if folder.is_empty() => {}
        None => {
            return Some(format!("its weights are in {path}, a folder that is not looked into"));
        }
    }
    if Part::of(file).is_some() {
        let is_there = usable.iter().any(|it| it.path == index);
        return (!is_there).then(|| {
            format!("it is in several files, and lacks {index}, which says what is where")
        });
    }
    (file != "model.safetensors")
        .then(|| format!("its weights are in {path}, and only model.safetensors is read"))
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
    fn the_next_page_is_read_from_the_header() {
        assert_eq!(next_page("<https://h/x?cursor=1>; rel=\"next\""), Some("https://h/x?cursor=1"));
        assert_eq!(next_page("<https://h/x>; rel=\"prev\""), None);
        assert_eq!(next_page("nonsense"), None);
    }
}
