//! Which files of a repository make the model, and which weights there are to choose from.

use std::collections::HashMap;

use super::{Choice, Entry, quantization};
use crate::{
    Error, Format, Result,
    files::{Class, LARGEST_TEXT},
    name,
    parts::{self, Part},
};

/// Weights of a repository: one file, or one in parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeightFile {
    /// Its path, that of the first part where it is in parts; [`PullOptions::file`](crate::PullOptions::file) takes it.
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
        for first in candidates(&usable, format) {
            let parts = parts_of(first, &usable);
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
    entries: &[Entry],
    usable: &[&'a Entry],
    choice: Choice<'_>,
) -> Result<Vec<&'a Entry>> {
    let not_a_model = |why| not_a_model(repository, why);
    if let Some(file) = choice.file {
        let entry = asked(repository, usable, choice.format, file)?;
        return match fault(entry, usable) {
            Some(why) => Err(not_a_model(why)),
            None => with_shards(repository, entry, usable),
        };
    }
    for format in choice.format.map_or(FORMATS.to_vec(), |it| vec![it]) {
        let candidates = candidates(usable, format);
        if !candidates.is_empty() {
            let entry = obvious(&candidates, format).ok_or_else(|| Error::Ambiguous {
                name: repository.to_owned(),
                choices: choices(&candidates, usable),
            })?;
            return with_shards(repository, entry, usable);
        }
    }
    let weights = usable.iter().filter(|it| !is_side_file(it) || is_first_module(it));
    if let Some(why) = weights.into_iter().find_map(|it| fault(it, usable)) {
        return Err(not_a_model(why));
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
        let found: Vec<&Entry> = all.iter().copied().filter(named).collect();
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

/// Weights of a format that open here, each by its first part: not those of a module beside the model, and of a
/// language model not what only goes with it.
fn candidates<'a>(usable: &[&'a Entry], format: Format) -> Vec<&'a Entry> {
    let fits = |it: &&Entry| {
        it.class() == Class::Weights(format)
            && (!is_side_file(it) || is_first_module(it))
            && !parts::is_later(&it.path)
            && !(format == Format::Gguf && is_companion(it))
            && fault(it, usable).is_none()
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

/// What there is to choose from, in words.
fn choices(candidates: &[&Entry], usable: &[&Entry]) -> String {
    let one = |it: &&Entry| format!("{} ({})", it.path, size(bytes(&parts_of(it, usable))));
    candidates.iter().map(one).collect::<Vec<_>>().join(", ")
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

/// The parts that are listed, of what may be lacking some.
fn parts_of<'a>(entry: &'a Entry, usable: &[&'a Entry]) -> Vec<&'a Entry> {
    let Some(part) = Part::of(&entry.path) else { return vec![entry] };
    let all: Vec<String> = part.all().take(usable.len()).collect();
    usable.iter().copied().filter(|it| all.contains(&it.path)).collect()
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

/// Why nothing here opens these weights, as far as the list of files tells it.
fn fault(entry: &Entry, usable: &[&Entry]) -> Option<String> {
    match entry.class() {
        Class::Weights(Format::Safetensors) => safetensors_fault(entry, usable),
        _ => None,
    }
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
mod tests;
