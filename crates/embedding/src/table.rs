//! Static embedders: a vector for each token, and their mean for a text (model2vec, Tulkens and van Dongen 2024). No
//! layer is computed, so a library of any size has vectors as fast as it is read; they know words and no order.

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use riddle_kernels::l2_normalize;
use riddle_offload::EmbeddingRows;
use riddle_transformer::{Tokenizer, static_table};
use riddle_types::{EmbedRole, Embedder, StageError, TokenCounter};
use riddle_weights::{Checkpoint, Error as WeightsError, is_there, read_json};
use serde::Deserialize;

use crate::{
    EncoderOptions, Error, Result,
    builtin::EMBEDDING_ROWS,
    card::{self, Prefixes},
};

/// Tokens of a text that are read, as in the reference.
const MAX_TOKENS: usize = 512;

/// A table of vectors, one for each token.
pub struct StaticEncoder {
    id: String,
    dimensions: usize,
    width: usize,
    prefixes: Prefixes,
    counter: Counter,
    /// Left out of the mean: it says nothing.
    unknown: Option<u32>,
    /// The row of each token, where several share one; its own number otherwise.
    mapping: Option<Vec<u32>>,
    /// How much each token counts.
    weights: Option<Vec<f32>>,
    rows: Mutex<EmbeddingRows>,
}

struct Counter(Tokenizer);

impl TokenCounter for Counter {
    fn count(&self, text: &str) -> usize {
        self.0.count(text)
    }
}

impl std::fmt::Debug for StaticEncoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StaticEncoder").field("id", &self.id).finish_non_exhaustive()
    }
}

#[derive(Deserialize, Default)]
struct Config {
    #[serde(default)]
    model_type: Option<String>,
    #[serde(default)]
    architectures: Option<Vec<String>>,
}

/// The folder of the table, if the model is one.
fn folder(dir: &Path) -> Result<Option<PathBuf>> {
    if let Some(folder) = static_table(dir)? {
        return Ok(Some(folder));
    }
    let path = dir.join("config.json");
    if !is_there(&path) {
        return Ok(None);
    }
    // What else is wrong with the file is told by who needs more of it.
    let Ok(config) = read_json::<Config>(&path) else { return Ok(None) };
    let named = config.architectures.unwrap_or_default().iter().any(|it| it == "StaticModel");
    let is_table = named || config.model_type.as_deref() == Some("model2vec");
    Ok(is_table.then(|| dir.to_path_buf()))
}

impl StaticEncoder {
    /// Opens the directory of a static model; `None` where it is none.
    ///
    /// # Errors
    /// What is missing, damaged or contradictory.
    pub fn open(dir: &Path, options: EncoderOptions) -> Result<Option<StaticEncoder>> {
        let Some(folder) = folder(dir)? else { return Ok(None) };
        let checkpoint = Checkpoint::open_safetensors(&folder)?;
        let named = ["embeddings", "embedding.weight"];
        let found = named.into_iter().find(|it| checkpoint.contains(it));
        let shape = found.and_then(|name| {
            let info = checkpoint.tensors().find(|it| it.name == name)?;
            Some(info.shape.clone())
        });
        let (Some(name), Some(&[rows, width])) = (found, shape.as_deref()) else {
            let (dir, tensor) = (folder, named[0].to_owned());
            return Err(Error::Weights(WeightsError::MissingTensor { dir, tensor }));
        };
        let table = checkpoint.tensor(name, &[rows, width])?.clone();
        let kept = card::dimensions(dir, options.dimensions, width)?;
        let length = |name: &str| {
            let info = checkpoint.tensors().find(|it| it.name == name)?;
            info.shape.first().copied()
        };
        let mapping = length("mapping")
            .map(|count| checkpoint.read_indices("mapping", count, rows))
            .transpose()?;
        let tokens = mapping.as_ref().map_or(rows, Vec::len);
        let weights = length("weights")
            .map(|_| {
                let mut weights = vec![0.0; tokens];
                let info = checkpoint.tensor("weights", &[tokens])?;
                checkpoint.read_f32(info, &mut weights).map(|_| weights)
            })
            .transpose()?;
        let tokenizer = Tokenizer::open(&folder, MAX_TOKENS, tokens)?;
        let name = card::name(dir);
        Ok(Some(StaticEncoder {
            id: identity(&name, &checkpoint, weights.as_deref(), kept)?,
            dimensions: kept.unwrap_or(width),
            width,
            prefixes: card::prefixes(dir, &name)?,
            // A table of sentence-transformers' own was trained with it.
            unknown: tokenizer.unknown_token().filter(|_| found == Some(named[0])),
            counter: Counter(tokenizer),
            mapping,
            weights,
            rows: Mutex::new(EmbeddingRows::new(checkpoint, table, EMBEDDING_ROWS)),
        }))
    }

    /// [`Embedder::embed`] with this crate's error type. A text without a known token has a vector of zeros, which is
    /// near nothing.
    ///
    /// # Errors
    /// When the table can not be read or is damaged.
    pub fn encode(&self, texts: &[&str], role: EmbedRole) -> Result<Vec<Vec<f32>>> {
        let prefix = self.prefixes.of(role);
        texts.iter().map(|text| self.vector(&format!("{prefix}{text}"))).collect()
    }

    fn vector(&self, text: &str) -> Result<Vec<f32>> {
        let mut tokens = self.counter.0.encode_plain(text)?;
        tokens.retain(|it| Some(*it) != self.unknown);
        tokens.truncate(MAX_TOKENS);
        let row = |token: &u32| match &self.mapping {
            // The vocabulary is no larger: that was compared when the table was opened.
            Some(mapping) => mapping.get(*token as usize).copied().unwrap_or_default(),
            None => *token,
        };
        let rows: Vec<u32> = tokens.iter().map(row).collect();
        let mut states = vec![0.0; rows.len() * self.width];
        self.rows.lock().unwrap_or_else(PoisonError::into_inner).gather(&rows, &mut states)?;
        let mut vector = vec![0.0; self.width];
        for (state, token) in states.chunks_exact(self.width.max(1)).zip(&tokens) {
            let weight = self.weights.as_ref().and_then(|it| it.get(*token as usize));
            let weight = weight.copied().unwrap_or(1.0);
            for (sum, value) in vector.iter_mut().zip(state) {
                *sum += weight * value;
            }
        }
        // The mean and the sum have one direction.
        vector.truncate(self.dimensions);
        l2_normalize(&mut vector);
        if vector.iter().all(|it| it.is_finite()) { Ok(vector) } else { Err(Error::NotFinite) }
    }
}

/// Name, length, and a digest of shapes, of weights and of some of the table, which every training changes.
fn identity(
    name: &str,
    checkpoint: &Checkpoint,
    weights: Option<&[f32]>,
    kept: Option<usize>,
) -> Result<String> {
    /// Rows that are looked at.
    const SOME: usize = 64;
    let mut hasher = blake3::Hasher::new();
    for tensor in checkpoint.tensors() {
        hasher.update(tensor.name.as_bytes());
        hasher.update(format!("{:?}", tensor.shape).as_bytes());
        if let &[rows, width] = &tensor.shape[..] {
            let row_bytes = tensor.format().row_bytes(width).unwrap_or(0);
            let mut some = vec![0; rows.min(SOME) * row_bytes];
            checkpoint.read_rows(tensor, 0, &mut some)?;
            hasher.update(&some);
        }
    }
    for weight in weights.unwrap_or_default() {
        hasher.update(&weight.to_le_bytes());
    }
    let way = kept.map_or_else(|| "static".to_owned(), |kept| format!("static-{kept}"));
    Ok(format!("{name}/{MAX_TOKENS}/{way}/{}", &hasher.finalize().to_hex()[..8]))
}

impl Embedder for StaticEncoder {
    fn id(&self) -> &str {
        &self.id
    }

    fn dimensions(&self) -> usize {
        self.dimensions
    }

    fn max_tokens(&self) -> usize {
        MAX_TOKENS
    }

    fn embed(&self, texts: &[&str], role: EmbedRole) -> Result<Vec<Vec<f32>>, StageError> {
        Ok(self.encode(texts, role)?)
    }

    fn token_counter(&self) -> &dyn TokenCounter {
        &self.counter
    }

    fn resident_weight_bytes(&self) -> u64 {
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner).resident_bytes();
        let numbers =
            self.mapping.as_ref().map_or(0, Vec::len) + self.weights.as_ref().map_or(0, Vec::len);
        rows + (numbers * size_of::<f32>()) as u64
    }
}
