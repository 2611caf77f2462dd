//! Questions and documents of a length that is given in tokens.

use std::{collections::HashMap, path::Path};

use riddle_transformer::Tokenizer;
use serde::{Deserialize, Serialize};

use crate::{
    Error, Result,
    shape::{Random, SYLLABLES, syllable},
};

/// A request in the shape that `riddle rerank` reads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The question.
    pub query: String,
    /// The documents.
    pub documents: Vec<String>,
    /// Results wanted.
    pub top_n: usize,
}

/// Tokens per pair that were reached, marks and prompt included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Lengths {
    /// Shortest pair.
    pub min: usize,
    /// Longest pair.
    pub max: usize,
}

/// Results wanted, as in the paper's measurements (§6.2: "top-10 out of 20").
const TOP_N: usize = 10;

/// Different words in the texts: as many as a few dozen pages of one subject have.
const WORDS: usize = 4000;

/// Words of the question.
const QUERY_WORDS: usize = 8;

/// Length may differ from the wish by this many tokens: the last word is not cut.
const TOLERANCE: usize = 3;

/// What Qwen3-Reranker wraps around a pair
/// (<https://huggingface.co/Qwen/Qwen3-Reranker-0.6B#transformers-usage>); here only its length counts.
const QWEN_PROMPT: &str = "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and \
    the Instruct provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n\
    <Instruct>: Given a web search query, retrieve relevant passages that answer the query\n<Query>: \n\
    <Document>: <|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";

/// Made-up texts for the model in `model`: `candidates` documents, each pair of about `tokens` tokens, or, of
/// `ragged` requests, from that many tokens up to `tokens` in even steps. The same for every run.
///
/// # Errors
/// When the directory has no configuration or tokenizer, or `tokens` leaves no room for a document.
pub fn request(
    model: &Path,
    candidates: usize,
    tokens: usize,
    ragged: Option<usize>,
) -> Result<(Request, Lengths)> {
    let bad = |why: String| Error::BadModel { dir: model.to_path_buf(), why };
    // Neither truncation nor the vocabulary matters for counting.
    let tokenizer = Tokenizer::open(model, usize::MAX >> 1, usize::MAX)
        .map_err(|error| bad(error.to_string()))?;
    let marks = match family(model)?.as_str() {
        "bert" | "modernbert" => 3,
        "xlm-roberta" | "mpnet" => 4,
        _ => tokenizer.count(QWEN_PROMPT),
    };
    let count = |text: &str| tokenizer.count(text);
    let mut words = Words::new();
    let query = words.text(QUERY_WORDS);
    let taken = marks + count(&query);
    let shortest = ragged.unwrap_or(tokens).min(tokens);
    if taken >= shortest {
        return Err(Error::TooFewTokens { tokens: shortest, taken });
    }
    let mut lengths = Lengths { min: usize::MAX, max: 0 };
    let documents = (0..candidates)
        .map(|place| {
            // Long and short ones in turns, as retrieval mixes them: 7 is coprime to any usual count.
            let step = place * 7 % candidates.max(1);
            let wanted =
                shortest + (tokens - shortest) * step / candidates.saturating_sub(1).max(1);
            let text = words.text_of(wanted - taken, &count);
            let length = taken + count(&text);
            lengths = Lengths { min: lengths.min.min(length), max: lengths.max.max(length) };
            text
        })
        .collect();
    Ok((Request { query, documents, top_n: TOP_N.min(candidates) }, lengths))
}

/// `model_type` of the directory's `config.json`.
fn family(model: &Path) -> Result<String> {
    #[derive(Deserialize)]
    struct Config {
        model_type: String,
    }
    let path = model.join("config.json");
    let text = std::fs::read(&path).map_err(|source| Error::Io { path, source })?;
    let config: Config = serde_json::from_slice(&text).map_err(|error| Error::BadModel {
        dir: model.to_path_buf(),
        why: format!("config.json: {error}"),
    })?;
    Ok(config.model_type)
}

/// Made-up words, frequent ones more often: the row cache sees what it sees in real texts.
struct Words {
    random: Random,
    known: HashMap<usize, String>,
}

impl Words {
    fn new() -> Words {
        Words { random: Random::new(0, "texts"), known: HashMap::new() }
    }

    fn word(&mut self) -> &str {
        // Zipf's law: the logarithm of the rank is uniform.
        let rank = (WORDS as f64).powf(self.random.unit()) as usize;
        self.known.entry(rank).or_insert_with(|| {
            let mut random = Random::new(rank as u64, "word");
            (0..1 + random.below(3)).flat_map(|_| syllable(random.below(SYLLABLES))).collect()
        })
    }

    fn text(&mut self, words: usize) -> String {
        let mut text = String::new();
        for _ in 0..words {
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(self.word());
        }
        text
    }

    /// A text of `tokens` tokens, ± [`TOLERANCE`].
    fn text_of(&mut self, tokens: usize, count: &dyn Fn(&str) -> usize) -> String {
        // No token is longer than a word and its space, so this many words are enough.
        let text = self.text(tokens);
        let ends: Vec<usize> =
            text.match_indices(' ').map(|(at, _)| at).chain([text.len()]).collect();
        let (mut low, mut high) = (0, ends.len() - 1);
        // Tokens grow with words: the last end that is not too long is found by halving.
        while low < high {
            let middle = (low + high).div_ceil(2);
            if count(&text[..ends[middle]]) <= tokens {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        let mut text = text[..ends[low]].to_owned();
        // Full stops fill what the last word would have overfilled.
        while count(&text) + TOLERANCE < tokens {
            text.push_str(" .");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_the_length_that_was_asked_for() {
        // Three letters are a token: words of two, four and six letters are one or two.
        let count = |text: &str| text.split(' ').map(|it| it.len().div_ceil(3)).sum::<usize>();
        let mut words = Words::new();
        for tokens in [1, 2, 10, 500] {
            let length = count(&words.text_of(tokens, &count));
            assert!(length.abs_diff(tokens) <= TOLERANCE, "{length} instead of {tokens}");
        }
    }

    #[test]
    fn texts_repeat_and_use_many_words() {
        let text = Words::new().text(5000);
        assert_eq!(text, Words::new().text(5000));
        let words: std::collections::HashSet<&str> = text.split(' ').collect();
        assert!((300..3000).contains(&words.len()), "{} different words", words.len());
    }
}
