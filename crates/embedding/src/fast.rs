//! Every text-embedding model of fastembed, on ONNX Runtime that is loaded at run time.
//!
//! The files come from our own store: nothing here downloads. ONNX Runtime keeps the memory of the
//! largest batch it ever saw, so batches are small and of a fixed size.

use std::{
    panic::catch_unwind,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use fastembed::{
    EmbeddingModel, InitOptionsUserDefined, ModelInfo, Pooling, QuantizationMode, TextEmbedding,
    TokenizerFiles, UserDefinedEmbeddingModel,
};
use riddle_transformer::{Pooling as Stated, stated_pooling};
use riddle_types::{EmbedRole, Embedder, StageError, TokenCounter};
use riddle_weights::read_json;
use serde::Deserialize;

use crate::{
    Error, Result,
    card::{self, Prefixes},
};

/// Texts per call: bounds the arena that ONNX Runtime never returns.
const BATCH: usize = 8;

/// Longest input when the tokenizer's configuration does not say, and the most that is used: the chunks
/// are shorter, and attention's memory grows with the square.
const MAX_TOKENS: usize = 512;

/// A model that fastembed knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SupportedModel {
    /// Repository on the hub.
    pub repository: String,
    /// The ONNX file in it.
    pub model_file: String,
    /// Further files it needs.
    pub additional_files: Vec<String>,
    /// Length of its vectors.
    pub dimensions: usize,
    /// What it is, in a sentence.
    pub description: String,
}

/// All text-embedding models that fastembed lists.
pub fn supported() -> Vec<SupportedModel> {
    TextEmbedding::list_supported_models()
        .into_iter()
        .map(|it| SupportedModel {
            repository: it.model_code,
            model_file: it.model_file,
            additional_files: it.additional_files,
            dimensions: it.dim,
            description: it.description,
        })
        .collect()
}

/// The ONNX file of a model directory, if it is one; repositories keep it at the top or in `onnx/`.
pub(crate) fn onnx_file(dir: &Path) -> Option<PathBuf> {
    let known = [
        "model.onnx",
        "onnx/model.onnx",
        "model_optimized.onnx",
        "onnx/model_quantized.onnx",
        "onnx/model_int8.onnx",
    ];
    known.iter().map(|name| dir.join(name)).find(|path| path.is_file()).or_else(|| {
        let mut found: Vec<PathBuf> = [dir.to_path_buf(), dir.join("onnx")]
            .iter()
            .filter_map(|dir| std::fs::read_dir(dir).ok())
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|it| it == "onnx"))
            .collect();
        found.sort();
        found.into_iter().next()
    })
}

/// Where ONNX Runtime's library is: `ORT_DYLIB_PATH`, else beside the program, else where the system's
/// loader looks.
pub fn onnx_runtime_library() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("ORT_DYLIB_PATH").filter(|it| !it.is_empty()) {
        return Some(path.into()).filter(|it: &PathBuf| it.is_file());
    }
    let beside = std::env::current_exe().ok().and_then(|it| Some(it.parent()?.to_path_buf()));
    let system = [
        "/usr/lib",
        "/usr/local/lib",
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/opt/homebrew/lib",
    ];
    beside.into_iter().chain(system.map(PathBuf::from)).find_map(|it| library_in(&it))
}

/// The library in a folder: of the plain name, else the newest of those with a version at the end, which is
/// all that some packages install.
fn library_in(dir: &Path) -> Option<PathBuf> {
    let name =
        format!("{}onnxruntime{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let plain = dir.join(&name);
    if plain.is_file() {
        return Some(plain);
    }
    let version = |path: &Path| -> Option<Vec<u32>> {
        let rest = path.file_name()?.to_str()?.strip_prefix(&name)?.strip_prefix('.')?;
        rest.split('.').map(|it| it.parse().ok()).collect()
    };
    std::fs::read_dir(dir)
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter_map(|path| Some((version(&path)?, path)))
        .max()
        .map(|it| it.1)
}

/// Loads ONNX Runtime once per process. `ort` itself would panic at the first call if the library were
/// missing or too old; here both are errors.
fn load_runtime() -> Result<()> {
    let Some(library) = onnx_runtime_library() else {
        let looked = match std::env::var_os("ORT_DYLIB_PATH") {
            Some(path) => {
                format!("ORT_DYLIB_PATH is {}, which is not a file", Path::new(&path).display())
            }
            None => {
                "ORT_DYLIB_PATH is not set, and the library is not in the usual folders".to_owned()
            }
        };
        return Err(Error::NoOnnxRuntime { looked });
    };
    // The builder is not needed: naming the library has loaded it, and fastembed makes its own sessions.
    // A library that only pretends to be ONNX Runtime makes `ort` panic when its functions are looked up.
    let loaded = catch_unwind(|| ort::init_from(&library).map(|_| ort::api().CreateEnv as usize));
    match loaded {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(Error::NoOnnxRuntime { looked: error.to_string() }),
        Err(_) => Err(Error::NoOnnxRuntime {
            looked: format!("{} is not a usable ONNX Runtime", library.display()),
        }),
    }
}

/// Most bytes of numbers beside a graph: all of them are in memory while the model is loaded.
const LARGEST_BESIDE: u64 = 8 << 30;

/// Files with numbers beside a graph that is too large for one file, with the names that the graph has for
/// them.
fn beside(onnx: &Path, known: Option<&ModelInfo<EmbeddingModel>>) -> Vec<(String, PathBuf)> {
    let (Some(folder), Some(graph)) = (onnx.parent(), onnx.file_name().and_then(|it| it.to_str()))
    else {
        return Vec::new();
    };
    let listed = known.into_iter().flat_map(|it| &it.additional_files);
    let mut names: Vec<String> = listed
        .filter_map(|it| Some(Path::new(it).file_name()?.to_str()?.to_owned()))
        .chain([format!("{graph}_data"), format!("{graph}.data")])
        .collect();
    names.sort();
    names.dedup();
    names
        .into_iter()
        .map(|name| (name.clone(), folder.join(name)))
        .filter(|it| it.1.metadata().is_ok_and(|it| it.is_file() && it.len() <= LARGEST_BESIDE))
        .collect()
}

/// What fastembed knows about a repository's ONNX file, by the file's path in it, else by the repository.
fn known(dir: &Path, onnx: &Path, name: &str) -> Option<ModelInfo<EmbeddingModel>> {
    let file = onnx.strip_prefix(dir).ok()?.to_str()?.replace('\\', "/");
    let is_same = |it: &&ModelInfo<EmbeddingModel>| {
        it.model_code.eq_ignore_ascii_case(name)
            || it.model_code.rsplit('/').next().is_some_and(|it| it.eq_ignore_ascii_case(name))
    };
    let models = TextEmbedding::list_supported_models();
    let same: Vec<&ModelInfo<EmbeddingModel>> = models.iter().filter(is_same).collect();
    let exact = same.iter().find(|it| it.model_file == file).or(same.first());
    exact.map(|it| (*it).clone())
}

/// Texts per call of a model. Where numbers are rounded by the range of the whole batch (fastembed's dynamic
/// quantization), a text's vector would depend on its company: there it goes alone.
fn batch(onnx: &Path, known: Option<&ModelInfo<EmbeddingModel>>) -> usize {
    let file = onnx.file_name().map(|it| it.to_string_lossy().to_lowercase()).unwrap_or_default();
    let is_dynamic =
        known.is_some_and(|it| {
            TextEmbedding::get_quantization_mode(&it.model) == QuantizationMode::Dynamic
        }) || ["quantized", "int8", "qint8", "quint8"].iter().any(|it| file.contains(it));
    if is_dynamic { 1 } else { BATCH }
}

/// An ONNX embedding model.
pub struct FastEmbedder {
    id: String,
    dimensions: usize,
    max_tokens: usize,
    prefixes: Prefixes,
    counter: Counter,
    model: Mutex<TextEmbedding>,
    batch: usize,
    dir: PathBuf,
}

struct Counter(tokenizers::Tokenizer);

impl Counter {
    /// From a `tokenizer.json`, with what it says about padding and truncation taken back.
    fn new(file: &[u8]) -> std::result::Result<Counter, String> {
        let mut tokenizer =
            tokenizers::Tokenizer::from_bytes(file).map_err(|error| error.to_string())?;
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(|error| error.to_string())?;
        Ok(Counter(tokenizer))
    }
}

impl TokenCounter for Counter {
    fn count(&self, text: &str) -> usize {
        self.0.encode_fast(text, false).map_or(text.len(), |it| it.len())
    }
}

impl std::fmt::Debug for FastEmbedder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FastEmbedder").field("id", &self.id).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct TokenizerConfig {
    model_max_length: Option<f64>,
}

/// Tokens that the model reads of a text, as its tokenizer's configuration says.
fn max_tokens(dir: &Path) -> usize {
    read_json::<TokenizerConfig>(&dir.join("tokenizer_config.json"))
        .ok()
        .and_then(|it| it.model_max_length)
        .filter(|it| *it >= 1.0)
        .map_or(MAX_TOKENS, |it| it.min(MAX_TOKENS as f64) as usize)
}

impl FastEmbedder {
    /// Opens a directory with an ONNX file and its tokenizer files.
    ///
    /// # Errors
    /// When ONNX Runtime is missing or too old, or the files are missing, damaged or no embedder.
    pub fn open(dir: &Path) -> Result<FastEmbedder> {
        load_runtime()?;
        let fail = |why: String| Error::Onnx { dir: dir.to_path_buf(), why };
        let onnx = onnx_file(dir).ok_or_else(|| fail("there is no .onnx file here".to_owned()))?;
        let read = |path: &Path| {
            std::fs::read(path).map_err(|error| fail(format!("{}: {error}", path.display())))
        };
        // Some repositories leave out the files that only repeat what tokenizer.json says.
        let optional =
            |name: &str| std::fs::read(dir.join(name)).unwrap_or_else(|_| b"{}".to_vec());
        let tokenizer_file = read(&dir.join("tokenizer.json"))?;
        let counter = Counter::new(&tokenizer_file).map_err(&fail)?;
        let max_tokens = max_tokens(dir);
        let name = card::name(dir);
        let mut model = UserDefinedEmbeddingModel::new(
            read(&onnx)?,
            TokenizerFiles {
                tokenizer_file,
                config_file: read(&dir.join("config.json"))?,
                special_tokens_map_file: optional("special_tokens_map.json"),
                tokenizer_config_file: optional("tokenizer_config.json"),
            },
        );
        let known = known(dir, &onnx, &name);
        model.pooling = Some(pooling(dir, known.as_ref())?);
        model.output_key = known.as_ref().and_then(|it| it.output_key.clone());
        for (file, path) in beside(&onnx, known.as_ref()) {
            model = model.with_external_initializer(file, read(&path)?);
        }
        let batch = batch(&onnx, known.as_ref());
        let options = InitOptionsUserDefined::new().with_max_length(max_tokens);
        let model = TextEmbedding::try_new_from_user_defined(model, options)
            .map_err(|error| fail(error.to_string()))?;
        let digest = blake3::hash(&read(&onnx)?).to_hex();
        let prefixes = card::prefixes(dir, &name)?;
        let mut embedder = FastEmbedder {
            id: format!("{name}/{max_tokens}/{}", &digest[..8]),
            dimensions: 0,
            max_tokens,
            prefixes,
            counter,
            model: Mutex::new(model),
            batch,
            dir: dir.to_path_buf(),
        };
        // A first word tells the length of the vectors and that the graph takes what fastembed gives it.
        embedder.dimensions = embedder.encode(&["word"], "")?.first().map_or(0, Vec::len);
        if embedder.dimensions == 0 {
            return Err(fail(
                "the model returns no vector: it is not an embedding model".to_owned(),
            ));
        }
        Ok(embedder)
    }

    fn encode(&self, texts: &[&str], prefix: &str) -> Result<Vec<Vec<f32>>> {
        let texts: Vec<String> = texts.iter().map(|text| format!("{prefix}{text}")).collect();
        let mut model = self.model.lock().unwrap_or_else(PoisonError::into_inner);
        let mut vectors = model
            .embed(texts, Some(self.batch))
            .map_err(|error| Error::Onnx { dir: self.dir.clone(), why: error.to_string() })?;
        for vector in &mut vectors {
            riddle_kernels::l2_normalize(vector);
            if vector.iter().any(|it| !it.is_finite()) {
                return Err(Error::NotFinite);
            }
        }
        Ok(vectors)
    }
}

/// What the directory says, else what fastembed knows about the repository, else the mean.
fn pooling(dir: &Path, known: Option<&ModelInfo<EmbeddingModel>>) -> Result<Pooling> {
    if let Some(stated) = stated_pooling(dir)? {
        return match stated[..] {
            [Stated::First] => Ok(Pooling::Cls),
            [Stated::Mean] => Ok(Pooling::Mean),
            _ => {
                let names: Vec<&str> = stated.iter().map(|it| it.as_str()).collect();
                let why =
                    format!("pooling {:?} of an ONNX graph is not supported", names.join(" + "));
                Err(Error::Onnx { dir: dir.to_path_buf(), why })
            }
        };
    }
    Ok(known
        .and_then(|it| TextEmbedding::get_default_pooling_method(&it.model))
        .unwrap_or(Pooling::Mean))
}

impl Embedder for FastEmbedder {
    fn id(&self) -> &str {
        &self.id
    }

    fn dimensions(&self) -> usize {
        self.dimensions
    }

    fn max_tokens(&self) -> usize {
        self.max_tokens
    }

    fn embed(&self, texts: &[&str], role: EmbedRole) -> Result<Vec<Vec<f32>>, StageError> {
        Ok(self.encode(texts, self.prefixes.of(role))?)
    }

    fn token_counter(&self) -> &dyn TokenCounter {
        &self.counter
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_model_of_fastembed_is_listed_with_its_files() {
        let models = supported();
        assert!(models.len() > 20, "{}", models.len());
        assert!(models.iter().all(|it| it.dimensions > 0 && it.model_file.ends_with(".onnx")));
        assert!(models.iter().any(|it| it.repository.to_lowercase().contains("bge-small-en")));
    }

    #[test]
    fn a_model_that_rounds_by_the_batch_is_given_one_text_at_a_time() {
        let dir = Path::new("m");
        let check = |name: &str, file: &str| {
            let onnx = dir.join(file);
            batch(&onnx, known(dir, &onnx, name).as_ref())
        };
        assert_eq!(check("nomic-ai/nomic-embed-text-v1.5", "onnx/model.onnx"), BATCH);
        assert_eq!(check("nomic-ai/nomic-embed-text-v1.5", "onnx/model_quantized.onnx"), 1);
        assert_eq!(check("snowflake-arctic-embed-xs", "onnx/model_quantized.onnx"), 1);
        assert_eq!(check("someone/else", "model_int8.onnx"), 1);
        assert_eq!(check("someone/else", "model.onnx"), BATCH);
    }

    #[test]
    fn the_newest_library_is_taken_where_none_has_the_plain_name() {
        let dir = tempfile::tempdir().expect("temp dir");
        assert_eq!(library_in(dir.path()), None);
        let name =
            format!("{}onnxruntime{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
        let with = |ending: &str| dir.path().join(format!("{name}{ending}"));
        for ending in [".1.9.0", ".1.31.1", ".1.4", ".bak", ".1.x"] {
            std::fs::write(with(ending), b"").expect("write");
        }
        assert_eq!(library_in(dir.path()), Some(with(".1.31.1")));
        std::fs::write(with(""), b"").expect("write");
        assert_eq!(library_in(dir.path()), Some(with("")));
    }

    #[test]
    fn the_onnx_file_is_found_at_the_top_or_below() {
        let dir = tempfile::tempdir().expect("temp dir");
        assert_eq!(onnx_file(dir.path()), None);
        std::fs::create_dir(dir.path().join("onnx")).expect("folder");
        let file = dir.path().join("onnx/odd_name.onnx");
        std::fs::write(&file, b"x").expect("write");
        assert_eq!(onnx_file(dir.path()), Some(file));
    }
}
