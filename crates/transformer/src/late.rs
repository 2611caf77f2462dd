//! Late interaction (ColBERT: Khattab and Zaharia 2020, section 3; ColBERTv2: Santhanam et al. 2022): query and text
//! are read apart, and the vectors of their tokens are compared.
//!
//! A token's vector is its state behind the projection, at length one. A query q of |q| tokens and a text d have the
//! mean of the best cosines, m = 1/|q| · Σᵢ maxⱼ qᵢ·dⱼ, which orders texts as their sum does. Its raw score is
//! ln((1 + m) / (1 − m)), whose sigmoid is (1 + m) / 2: a number of 0…1 for whoever compares queries, and no two texts
//! are equal because a sum of thirty cosines fills a sigmoid.

mod config;

use std::path::Path;

use riddle_kernels::{Matrix, Output, Panels, l2_normalize, linear};
use riddle_weights::{
    BertConfig, Checkpoint, LayeredCheckpoint, TensorInfo, is_there, model_type, read_json,
};
use serde::Deserialize;

pub(crate) use self::config::settings_file;
use self::config::{LateConfig, Layout};
use crate::{
    CrossEncoder, Error, LateTemplate, OpenOptions, RaggedBatch, Result, ScoredToken, Scratch,
    ScratchShape, Sizes, Span, Template, TextEncoder, Tokenizer,
    layer::read,
    model::open_text_encoder,
    modules::{Dense, Reads, folder_of, list_of, must_be_flat, unknown},
    operation::Operation,
};

/// Tokens of a text that are projected and compared at a time.
const TOKENS_AT_ONCE: usize = 128;

/// What a mean of cosines is kept from the ends of its range, where its score would be infinite: far less than rounding
/// leaves of it.
const SMALLEST: f32 = 1e-6;

/// Projections longer than this are none.
const MOST_PROJECTIONS: usize = 8;

/// A text encoder whose tokens' vectors are compared.
#[derive(Debug)]
pub struct LateInteraction {
    encoder: Box<dyn TextEncoder>,
    config: LateConfig,
    projections: Vec<Dense>,
    /// Once the tokenizer is read.
    resolved: Option<Resolved>,
}

/// What only the tokenizer knows.
#[derive(Debug)]
struct Resolved {
    template: LateTemplate,
    /// Tokens of texts that are not compared, in order.
    skipped: Vec<u32>,
}

impl LateInteraction {
    /// Whether the model in `dir` is one.
    ///
    /// # Errors
    /// A malformed file.
    pub fn is_in(dir: &Path) -> Result<bool> {
        Ok(config::layout(dir)?.is_some())
    }

    /// Opens a model directory: reads configuration, headers and the small tensors, no layer.
    ///
    /// # Errors
    /// What is missing, damaged, contradictory or not supported, by name; [`Error::NoHead`] for what is no late
    /// interaction, and for families whose layers let every token be seen.
    pub fn open(dir: &Path, options: OpenOptions) -> Result<LateInteraction> {
        let none = |why: String| Error::NoHead { dir: dir.to_path_buf(), why };
        let Some(layout) = config::layout(dir)? else {
            return Err(none("it names no vectors of tokens".to_owned()));
        };
        must_be_flat(dir)?;
        let family = model_type(dir)?;
        if !BertConfig::TYPES.contains(&family.as_str()) && family != "modernbert" {
            let why = format!("late interaction of the family {family:?} is not supported");
            return Err(none(why));
        }
        let config = LateConfig::open(dir, layout)?;
        let encoder = open_text_encoder(dir, options)?;
        let sizes = encoder.sizes();
        if config.query_tokens > sizes.max_tokens {
            let why = format!(
                "its queries have {} tokens, and the model has positions for {}",
                config.query_tokens, sizes.max_tokens
            );
            return Err(Error::Module { path: config.path, why });
        }
        let projections = match layout {
            Layout::PyLate => listed_projections(dir, sizes.hidden_size)?,
            Layout::ColBert => vec![own_projection(&*encoder)?],
        };
        Ok(LateInteraction { encoder, config, projections, resolved: None })
    }

    /// Numbers of a token's vector.
    pub fn outputs(&self) -> usize {
        self.projections.last().map_or_else(|| self.sizes().hidden_size, Dense::outputs)
    }

    /// Bytes that comparing needs beside the states, of a query of so many tokens.
    pub fn scratch_bytes(&self, query_tokens: usize) -> u64 {
        let widest = self.projections.iter().map(Dense::outputs).max().unwrap_or(0);
        // Two copies of a block's states for the norm, two of its vectors, and their products with the query.
        let row = 2 * self.sizes().hidden_size + 2 * widest + query_tokens;
        (TOKENS_AT_ONCE * row * size_of::<f32>()) as u64
    }

    /// Whether a text's token is compared. Of a query all are.
    pub fn is_compared(&self, token: u32) -> bool {
        self.resolved().skipped.binary_search(&token).is_err()
    }

    /// Vectors `[tokens, outputs]` of states `[tokens, hidden_size]`, each of length one.
    pub fn vectors(&self, states: &[f32]) -> Vec<f32> {
        let mut vectors = states.to_vec();
        self.encoder.finish(&mut vectors);
        for projection in &self.projections {
            vectors = projection.apply(&vectors);
        }
        vectors.chunks_exact_mut(self.outputs()).for_each(l2_normalize);
        vectors
    }

    /// The raw score of a text's states `[tokens, hidden_size]`, of which those are compared that `compared` says, by
    /// the query's vectors `[query tokens, outputs]`. Runs on the threads of the current pool.
    pub fn score(&self, query: &[f32], states: &[f32], compared: &[bool]) -> f32 {
        let _span = Operation::Head.enter();
        let (width, outputs) = (self.sizes().hidden_size, self.outputs());
        let queries = query.len() / outputs;
        if queries == 0 {
            return raw_score(&[]);
        }
        // The lowest cosine: what is best of no token at all.
        let mut best = vec![-1.0f32; queries];
        let mut block = Vec::with_capacity(TOKENS_AT_ONCE.min(compared.len()) * width);
        let mut rows = states.chunks_exact(width).zip(compared).filter(|(_, it)| **it);
        loop {
            block.clear();
            rows.by_ref().take(TOKENS_AT_ONCE).for_each(|(row, _)| block.extend_from_slice(row));
            if block.is_empty() {
                break;
            }
            let vectors = self.vectors(&block);
            let mut cosines = vec![0.0; vectors.len() / outputs * queries];
            let place = Output::dense(&mut cosines, queries);
            let none = &mut Panels::default();
            linear(&vectors, Matrix::F32(query), None, outputs, queries, place, none);
            for cosines in cosines.chunks_exact(queries) {
                for (best, cosine) in best.iter_mut().zip(cosines) {
                    // What is not a number is kept: a damaged model is told by it.
                    let stays = best.is_nan() || *cosine <= *best;
                    *best = if stays { *best } else { *cosine };
                }
            }
        }
        raw_score(&best)
    }

    fn resolved(&self) -> &Resolved {
        self.resolved.as_ref().expect("it is resolved before the first run: this is a bug")
    }
}

/// The score of the best cosines of a query's tokens.
fn raw_score(best: &[f32]) -> f32 {
    let mean = best.iter().sum::<f32>() / best.len().max(1) as f32;
    let mean = mean.clamp(SMALLEST - 1.0, 1.0 - SMALLEST);
    ((1.0 + mean) / (1.0 - mean)).ln()
}

/// The projections that `modules.json` names behind the model.
fn listed_projections(dir: &Path, width: usize) -> Result<Vec<Dense>> {
    let list = dir.join("modules.json");
    let bad = |why: String| Error::Module { path: list.clone(), why };
    let listed = list_of(&list)?;
    let mut projections: Vec<Dense> = Vec::new();
    for (place, module) in listed.iter().enumerate() {
        match module.class() {
            "Transformer" if place == 0 && module.is_here() => {}
            "Dense" if place > 0 && projections.len() < MOST_PROJECTIONS => {
                let inputs = projections.last().map_or(width, Dense::outputs);
                let folder = folder_of(dir, &list, module)?;
                projections.push(Dense::open(&folder, inputs, Reads::Tokens)?);
            }
            // What comes out is brought to length one in any case.
            "Normalize" if place + 1 == listed.len() => {}
            other => return Err(bad(unknown(other))),
        }
    }
    Ok(projections)
}

/// The projection among the model's own tensors, `linear.weight` `[outputs, hidden_size]`.
fn own_projection(encoder: &dyn TextEncoder) -> Result<Dense> {
    const NAME: &str = "linear.weight";
    let (checkpoint, width) = (encoder.checkpoint(), encoder.sizes().hidden_size);
    let shape = checkpoint.tensors().find(|it| it.name == NAME).map(|it| it.shape.clone());
    let Some(outputs) = shape.filter(|it| it.len() == 2 && it[0] > 0).map(|it| it[0]) else {
        let dir = checkpoint.dir().to_path_buf();
        return Err(Error::NoHead { dir, why: format!("it has no projection {NAME:?}") });
    };
    let weight = read(checkpoint, NAME, &[outputs, width])?;
    Ok(Dense::product(weight, width, outputs))
}

/// The token that queries are filled with.
fn mask_token(dir: &Path, tokenizer: &Tokenizer) -> Result<Option<u32>> {
    #[derive(Default, Deserialize)]
    struct Special {
        #[serde(default)]
        mask_token: Option<Spelled>,
    }
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Spelled {
        Plain(String),
        Added { content: String },
    }
    let path = dir.join("tokenizer_config.json");
    let special: Special = if is_there(&path) { read_json(&path)? } else { Special::default() };
    let stated = special.mask_token.map(|it| match it {
        Spelled::Plain(content) | Spelled::Added { content } => content,
    });
    let usual = ["[MASK]", "<mask>"].into_iter().map(str::to_owned);
    Ok(stated.into_iter().chain(usual).find_map(|it| tokenizer.token_id(&it)))
}

impl TextEncoder for LateInteraction {
    fn sizes(&self) -> Sizes {
        let sizes = self.encoder.sizes();
        let default_max_tokens = self.config.text_tokens.min(sizes.max_tokens);
        Sizes { default_max_tokens, ..sizes }
    }

    fn checkpoint(&self) -> &Checkpoint {
        self.encoder.checkpoint()
    }

    fn token_table(&self) -> &TensorInfo {
        self.encoder.token_table()
    }

    fn layers(&self) -> &LayeredCheckpoint {
        self.encoder.layers()
    }

    fn scratch_shape(&self) -> ScratchShape {
        self.encoder.scratch_shape()
    }

    fn resident_bytes(&self) -> u64 {
        self.encoder.resident_bytes() + self.projections.iter().map(Dense::bytes).sum::<u64>()
    }

    fn fingerprint(&self) -> Vec<u8> {
        let projections = self.projections.iter().flat_map(Dense::fingerprint).copied();
        self.encoder.fingerprint().into_iter().chain(projections).collect()
    }

    fn gathered_token(&self) -> ScoredToken {
        self.encoder.gathered_token()
    }

    fn embed(&self, batch: &RaggedBatch, hidden: &mut [f32]) {
        self.encoder.embed(batch, hidden);
    }

    fn layer(
        &self,
        layer: usize,
        weights: &[u8],
        span: Span<'_>,
        hidden: &mut [f32],
        scratch: &mut Scratch,
    ) {
        self.encoder.layer(layer, weights, span, hidden, scratch);
    }

    fn finish(&self, hidden: &mut [f32]) {
        self.encoder.finish(hidden);
    }
}

impl CrossEncoder for LateInteraction {
    fn template(&self) -> Template {
        Template::Late(self.resolved().template)
    }

    fn scored_token(&self) -> ScoredToken {
        ScoredToken::All
    }

    fn resolve_head(&mut self, tokenizer: &Tokenizer) -> Result<()> {
        let dir = self.checkpoint().dir();
        let lacks = |why: String| Error::NoHead { dir: dir.to_path_buf(), why };
        let marker = |marker: &Option<String>| {
            let id = |it: &String| {
                let none = || lacks(format!("its tokenizer has no token {it:?}"));
                tokenizer.token_id(it).ok_or_else(none)
            };
            marker.as_ref().map(id).transpose()
        };
        let expansion = match self.config.expands {
            false => None,
            true => {
                let none = || lacks("its tokenizer has no mask to fill queries with".to_owned());
                Some(mask_token(dir, tokenizer)?.ok_or_else(none)?)
            }
        };
        let template = LateTemplate {
            query_marker: marker(&self.config.query_marker)?,
            text_marker: marker(&self.config.text_marker)?,
            query_tokens: self.config.query_tokens,
            expansion,
            attends: self.config.attends,
        };
        // A word that is no token stands for what is unknown, as both libraries look it up.
        let id = |it: &String| tokenizer.token_id(it).or_else(|| tokenizer.unknown_token());
        let mut skipped: Vec<u32> = self.config.skipped.iter().filter_map(id).collect();
        skipped.sort_unstable();
        skipped.dedup();
        self.resolved = Some(Resolved { template, skipped });
        Ok(())
    }

    fn late(&self) -> Option<&LateInteraction> {
        Some(self)
    }

    fn scores(&self, _layer: usize, _cu_seqlens: &[usize], _hidden: &[f32], _out: &mut Vec<f32>) {
        unreachable!("texts are scored by a query's vectors: this is a bug")
    }
}
