//! Questions that no network reads: a table has a weight for each token, and a question's terms are its own tokens
//! (Geng et al. 2024, "Towards Competitive Search Relevance For Inference-Free Learned Sparse Retrievers"). Passages
//! are weighed by the model as ever, so all that was learned is in the index, and a question costs a look into a table.

use std::{collections::HashMap, path::Path};

use riddle_transformer::Tokenizer;
use riddle_types::{TERM_STEP, TermWeights};
use riddle_weights::{Error as WeightsError, is_there, read_json};
use serde::Deserialize;

use crate::{Error, Result};

/// The table beside a model: weights of tokens by their text.
pub(super) const TABLE: &str = "idf.json";

/// What sentence-transformers writes of a model that reads questions and passages by different ways.
const ROUTER: &str = "router_config.json";

/// Where it writes how passages are weighed: after the router's way, and in older layouts.
const POOLINGS: [&str; 2] = ["document_1_SpladePooling/config.json", "1_SpladePooling/config.json"];

/// Weights of questions' tokens, by the tokens' numbers.
#[derive(Debug)]
pub(super) struct Table(Vec<f32>);

#[derive(Deserialize)]
struct Router {
    #[serde(default)]
    structure: HashMap<String, Vec<String>>,
}

#[derive(Deserialize)]
struct Pooling {
    #[serde(default)]
    activation_function: Option<String>,
    #[serde(default)]
    pooling_strategy: Option<String>,
}

impl Table {
    /// The table of the model in `dir`; `None` where questions are read by the model.
    ///
    /// # Errors
    /// A malformed table, one without a token of the vocabulary, and a model whose files name a table that is not
    /// there: its network was never trained to read questions.
    pub(super) fn open(dir: &Path, tokenizer: &Tokenizer, terms: usize) -> Result<Option<Table>> {
        let path = dir.join(TABLE);
        let bad = |why: String| Error::Weights(WeightsError::BadConfig { path: path.clone(), why });
        if !is_there(&path) {
            return match looks_up(dir)? {
                false => Ok(None),
                true => Err(bad(format!(
                    "missing, and {ROUTER} says that questions are looked up in a table: fetch the model again"
                ))),
            };
        }
        let stated: HashMap<String, f32> = read_json(&path)?;
        let mut weights = vec![0.0; terms];
        for (token, weight) in stated {
            if !weight.is_finite() {
                return Err(bad(format!("the weight of {token:?} is no number")));
            }
            let place = tokenizer.token_id(&token).and_then(|id| weights.get_mut(id as usize));
            if let Some(place) = place {
                *place = weight.max(0.0);
            }
        }
        let largest = weights.iter().copied().fold(0.0, f32::max);
        if largest == 0.0 {
            return Err(bad(
                "it weighs no token of the vocabulary: it is of another model".to_owned()
            ));
        }
        // Weights of terms are kept in bytes, and a question's may be of any size: all by one factor orders alike.
        let most = f32::from(u8::MAX) * TERM_STEP;
        if largest > most {
            weights.iter_mut().for_each(|it| *it *= most / largest);
        }
        Ok(Some(Table(weights)))
    }

    /// The terms of a question: each of its tokens once, without the marks around it.
    pub(super) fn terms(
        &self,
        tokenizer: &Tokenizer,
        question: &str,
        limit: usize,
    ) -> Result<TermWeights> {
        let mut tokens = tokenizer.encode_plain(question)?;
        tokens.truncate(tokenizer.max_tokens());
        tokens.sort_unstable();
        tokens.dedup();
        Ok(TermWeights::new(tokens.into_iter().map(|it| (it, self.weight(it))), limit))
    }

    /// What a question that names this term gives to it.
    pub(super) fn weight(&self, term: u32) -> f32 {
        self.0.get(term as usize).copied().unwrap_or_default()
    }

    /// Bytes of the table.
    pub(super) fn bytes(&self) -> u64 {
        size_of_val(&self.0[..]) as u64
    }

    /// What tells it from others.
    pub(super) fn fingerprint(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        for weight in &self.0 {
            hasher.update(&weight.to_le_bytes());
        }
        hasher.finalize().to_hex()[..8].to_owned()
    }
}

/// Whether the model's files say that questions are looked up.
fn looks_up(dir: &Path) -> Result<bool> {
    let path = dir.join(ROUTER);
    if !is_there(&path) {
        return Ok(false);
    }
    let router: Router = read_json(&path)?;
    let ways = router.structure.get("query").into_iter().flatten();
    Ok(ways.into_iter().any(|it| it.ends_with("SparseStaticEmbedding")))
}

/// Whether the logarithm is taken twice, `ln(1 + ln(1 + relu(x)))`, as newer models of this kind are trained (Shen et
/// al. 2025, "Exploring ℓ0 Sparsification for Inference-free Sparse Retrievers").
///
/// # Errors
/// A malformed file, and what is not known.
pub(super) fn twice(dir: &Path) -> Result<bool> {
    let Some(path) = POOLINGS.iter().map(|it| dir.join(it)).find(|it| is_there(it)) else {
        return Ok(false);
    };
    let pooling: Pooling = read_json(&path)?;
    let bad = |why| Err(Error::Weights(WeightsError::BadConfig { path, why }));
    if let Some(strategy) = pooling.pooling_strategy.filter(|it| it != "max") {
        return bad(format!("pooling_strategy {strategy:?} is not supported: only \"max\" is"));
    }
    match pooling.activation_function.as_deref() {
        None | Some("relu") => Ok(false),
        Some("log1p_relu") => Ok(true),
        Some(other) => bad(format!(
            "activation_function {other:?} is not supported: only \"relu\" and \"log1p_relu\" are"
        )),
    }
}
