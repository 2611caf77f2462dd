//! Which files of a repository make the model, and which weights there are to choose from.

use super::{Choice, Entry, quantization};
use crate::{
    Error, Format, Result,
    files::{Class, LARGEST_TEXT},
    name,
};

/// Weights of a repository: one file, or one in parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeightFile {
    /// Its path, that of the first part where it is in parts: what [`PullOptions::file`](crate::PullOptions::file) takes.
    pub file: String,
    /// How exactly its numbers are kept, by its name (`Q4_K_M`): what that takes as well.
    pub quantization: Option<String>,
    /// Its format.
    pub format: Format,
    /// Its bytes, those of all parts.
    pub bytes: u64,
    /// Its parts.
    pub parts: usize,
    /// It is the one that is taken where nobody chooses.
    pub usual: bool,
    /// It is the one that was chosen.
    pub chosen: bool,
}

impl Entry {
    fn class(&self) -> Class {
        Class::of(&self.path)
    }
}

/// Formats of weights, the preferred first.
const FORMATS: [Format; 4] = [Format::Safetensors, Format::Riddle, Format::Onnx, Format::Gguf];

/// Files of names that a store can have, and of kinds and sizes that a model is made of.
fn usable(entries: &[Entry]) -> Vec<&Entry> {
    let fits = |it: &&Entry| match it.class() {
        Class::Json | Class::Text => it.size <= LARGEST_TEXT,
        class => class.is_taken(),
    };
    sound(entries).filter(fits).collect()
}

fn sound(entries: &[Entry]) -> impl Iterator<Item = &Entry> {
    entries.iter().filter(|it| name::file_fault(&it.path).is_none())
}

/// All weights that could be taken, in the order of the listing; `chosen` are the files that are.
pub(crate) fn offered(
    entries: &[Entry],
    format: Option<Format>,
    chosen: &[&Entry],
) -> Vec<WeightFile> {
    let usable = usable(entries);
    let formats = format.map_or(FORMATS.to_vec(), |it| vec![it]);
    let usual = formats.iter().find_map(|it| {
        let candidates = candidates(&usable, *it);
        (!candidates.is_empty()).then(|| obvious(&candidates, *it).map(|it| it.path.as_str()))
    });
    let usual = usual.flatten();
    let mut all = Vec::new();
    for format in formats {
        for first in candidates(&usable, format).into_iter().filter(|it| is_first(it)) {
            let parts = with_shards(first, &usable);
            all.push(WeightFile {
                file: first.path.clone(),
                quantization: quantization_of(first),
                format,
                bytes: bytes(&parts),
                parts: parts.len(),
                usual: usual == Some(first.path.as_str()),
                chosen: chosen.iter().any(|it| it.path == first.path),
            });
        }
    }
    all
}

/// Bytes of the files that come with whichever weights.
pub(crate) fn beside(entries: &[Entry]) -> u64 {
    let usable = usable(entries);
    bytes(&usable.into_iter().filter(|it| is_side_file(it)).collect::<Vec<_>>())
}

fn bytes(entries: &[&Entry]) -> u64 {
    entries.iter().fold(0, |sum, it| sum.saturating_add(it.size))
}

/// The files of the model.
pub(crate) fn choose<'a>(
    repository: &str,
    entries: &'a [Entry],
    choice: Choice<'_>,
) -> Result<Vec<&'a Entry>> {
    let usable = usable(entries);
    let mut chosen = if choice.files.is_empty() || choice.file.is_some() {
        let mut chosen = weights(repository, entries, &usable, choice)?;
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
    entries: &[Entry],
    usable: &[&'a Entry],
    choice: Choice<'_>,
) -> Result<Vec<&'a Entry>> {
    let not_a_model = |why: String| Error::NotAModel { name: repository.to_owned(), why };
    if let Some(file) = choice.file {
        return asked(repository, usable, choice.format, file).map(|it| with_shards(it, usable));
    }
    for format in choice.format.map_or(FORMATS.to_vec(), |it| vec![it]) {
        let candidates = candidates(usable, format);
        if !candidates.is_empty() {
            return obvious(&candidates, format).map(|it| with_shards(it, usable)).ok_or_else(
                || Error::Ambiguous {
                    name: repository.to_owned(),
                    choices: choices(&candidates, usable),
                },
            );
        }
    }
    let unsafe_weights: Vec<&Entry> = sound(entries)
        .filter(|it| it.class() == Class::Executable && !it.path.ends_with(".py"))
        .collect();
    if unsafe_weights.is_empty() || choice.format.is_some() {
        return Err(not_a_model("it has no weights in a format that is supported".to_owned()));
    }
    Err(Error::Unsafe { name: repository.to_owned(), files: list(&unsafe_weights) })
}

/// The weights that somebody asks for, by the path of the file or the name of its quantization.
fn asked<'a>(
    repository: &str,
    usable: &[&'a Entry],
    format: Option<Format>,
    file: &str,
) -> Result<&'a Entry> {
    let by_path =
        usable.iter().find(|it| it.path == file && matches!(it.class(), Class::Weights(_)));
    if let Some(entry) = by_path {
        return Ok(entry);
    }
    let formats = format.map_or(FORMATS.to_vec(), |it| vec![it]);
    let all: Vec<&Entry> = formats.iter().flat_map(|it| candidates(usable, *it)).collect();
    for fits in [quantization::is, quantization::is_without_mark] {
        let named = |it: &&Entry| quantization_of(it).is_some_and(|name| fits(&name, file));
        let found: Vec<&Entry> =
            all.iter().copied().filter(|it| is_first(it)).filter(named).collect();
        match found[..] {
            [] => {}
            [entry] => return Ok(entry),
            _ => {
                return Err(Error::Ambiguous {
                    name: repository.to_owned(),
                    choices: choices(&found, usable),
                });
            }
        }
    }
    if all.is_empty() {
        let why = format!("it has no weight file {file}");
        return Err(Error::NotAModel { name: repository.to_owned(), why });
    }
    Err(Error::NoSuchFile {
        name: repository.to_owned(),
        file: file.to_owned(),
        choices: choices(&all, usable),
    })
}

/// Weights of a format: not those of a module beside the model, and of a language model not what only goes with it.
fn candidates<'a>(usable: &[&'a Entry], format: Format) -> Vec<&'a Entry> {
    let fits = |it: &&Entry| {
        it.class() == Class::Weights(format)
            && !is_side_file(it)
            && !(format == Format::Gguf && is_companion(it))
    };
    usable.iter().copied().filter(fits).collect()
}

/// What makes pictures readable to a language model, and what its numbers were rounded by.
fn is_companion(entry: &Entry) -> bool {
    let name = entry.path.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    name.contains("mmproj") || name.contains("imatrix")
}

fn quantization_of(entry: &Entry) -> Option<String> {
    let is_gguf = entry.class() == Class::Weights(Format::Gguf);
    is_gguf.then(|| quantization::of(&entry.path)).flatten()
}

/// Not a later part of something.
fn is_first(entry: &Entry) -> bool {
    let is_number = |it: &str| it.len() == 5 && it.bytes().all(|it| it.is_ascii_digit());
    entry.path.split_once("-of-").is_none_or(|(before, _)| {
        let number = before.rsplit('-').next().unwrap_or_default();
        !is_number(number) || number == "00001"
    })
}

/// What there is to choose from, in words.
fn choices(candidates: &[&Entry], usable: &[&Entry]) -> String {
    let one = |it: &&Entry| format!("{} ({})", it.path, size(bytes(&with_shards(it, usable))));
    candidates.iter().filter(|it| is_first(it)).map(one).collect::<Vec<_>>().join(", ")
}

/// A size as people read it; the hubs count in thousands, too.
fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{} kB", bytes / 1_000),
        1_000_000..1_000_000_000 => format!("{} MB", bytes / 1_000_000),
        _ => format!("{}.{} GB", bytes / 1_000_000_000, bytes / 100_000_000 % 10),
    }
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
            let mut fitting = candidates
                .iter()
                .copied()
                .filter(|it| it.path.to_lowercase().contains("q4_k_m") && is_first(it));
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
                path: (*path).to_owned(),
                size: 10,
                promise: None,
                url: String::new(),
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
        let choices = "a-Q8_0.gguf (10 B), a-F16.gguf (10 B)".to_owned();
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
        let two = check(
            &["a-Q4_0.gguf", "b-Q4_0.gguf"],
            Choice { file: Some("Q4_0"), ..Choice::default() },
        );
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
        assert_eq!(
            found,
            [(Some("Q4_K_M"), 10, 1, true, true), (Some("BF16"), 20, 2, false, false)]
        );
        assert_eq!(beside(&all), 10);
    }

    #[test]
    fn sizes_are_said_in_thousands() {
        let sizes = [999, 1_000, 12_345_678, 1_234_567_890].map(size);
        assert_eq!(sizes, ["999 B", "1 kB", "12 MB", "1.2 GB"]);
    }
}
