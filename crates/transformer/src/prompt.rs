//! How a query and a text become one sequence of tokens.

use std::path::Path;

use crate::{CrossEncoder, Encoded, Error, Result, Sizes, Tokenizer};

/// The sequence a model was trained on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Template {
    /// The tokenizer's own template for pairs: `[CLS] query [SEP] text [SEP]` and its like.
    Pair,
    /// The chat of the Qwen3-Reranker model card
    /// (<https://huggingface.co/Qwen/Qwen3-Reranker-0.6B>).
    Qwen3,
    /// The chat of the mxbai-rerank-v2 models (<https://github.com/mixedbread-ai/mxbai-rerank>).
    Qwen2,
    /// The chat of the zerank models: the query is its system message, the text the user's
    /// (<https://huggingface.co/zeroentropy/zerank-1-small>).
    Zerank,
    /// A, B and the question of FlagEmbedding's layerwise reranker
    /// (<https://github.com/FlagOpen/FlagEmbedding>, `inference/reranker/decoder_only/layerwise.py`).
    MiniCpm {
        /// The token that begins a sequence.
        bos: u32,
    },
    /// Query and text apart: `[CLS] marker text [SEP]` of each.
    Late(LateTemplate),
}

/// How a late interaction's queries and texts become sequences (PyLate and ColBERT, <https://arxiv.org/abs/2004.12832>,
/// section 3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LateTemplate {
    /// What stands behind a query's first token, if anything.
    pub query_marker: Option<u32>,
    /// What stands behind a text's first token, if anything.
    pub text_marker: Option<u32>,
    /// Tokens of a query at most, special ones included.
    pub query_tokens: usize,
    /// What shorter queries are filled with up to there, if they are.
    pub expansion: Option<u32>,
    /// Whether any token sees those that fill.
    pub attends: bool,
}

/// A query that is read apart from the texts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QuerySequence {
    /// Its tokens.
    pub tokens: Encoded,
    /// How many of them, at the end, see the others and are seen by none: fewer than all.
    pub unseen: usize,
}

/// What a Qwen3 reranker is told to judge by, unless told otherwise: the model card's default.
pub const DEFAULT_INSTRUCTION: &str =
    "Given a web search query, retrieve relevant passages that answer the query";

const QWEN3_PREFIX: &str = "<|im_start|>system\nJudge whether the Document meets the requirements \
    based on the Query and the Instruct provided. Note that the answer can only be \"yes\" or \
    \"no\".<|im_end|>\n<|im_start|>user\n";
const QWEN3_SUFFIX: &str = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";

const QWEN2_PREFIX: &str = "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a \
    helpful assistant.<|im_end|>\n<|im_start|>user\n";
const QWEN2_TASK: &str = "You are a search relevance expert who evaluates how well documents match \
    search queries. For each query-document pair, carefully analyze the semantic relationship between \
    them, then provide your binary relevance judgment (0 for not relevant, 1 for relevant).\nRelevance:";
const QWEN2_SUFFIX: &str = "<|im_end|>\n<|im_start|>assistant\n";

const ZERANK_PREFIX: &str = "<|im_start|>system\n";
const ZERANK_SEPARATOR: &str = "<|im_end|>\n<|im_start|>user\n";
const ZERANK_SUFFIX: &str = "<|im_end|>\n<|im_start|>assistant\n";
/// Letters of a query and of a text that the models' own program reads.
const ZERANK_LETTERS: (usize, usize) = (2_000, 10_000);

const MINICPM_QUESTION: &str = "Given a query A and a passage B, determine whether the passage \
    contains an answer to the query by providing a prediction of either 'Yes' or 'No'.";

/// A tokenizer and the template around query and text.
#[derive(Debug)]
pub struct PairEncoder {
    tokenizer: Tokenizer,
    parts: Parts,
    max_tokens: usize,
}

/// A query whose texts come one after the other: what can be encoded without a text is encoded once.
#[derive(Debug)]
pub struct QueryEncoder<'a> {
    encoder: &'a PairEncoder,
    query: Query<'a>,
}

#[derive(Debug)]
enum Query<'a> {
    Pair(Vec<u32>),
    /// The last token before the text may reach into it, so nothing is encoded yet.
    Qwen3 {
        prefix: &'a [u32],
        suffix: &'a [u32],
        beginning: String,
    },
    Qwen2 {
        prefix: &'a [u32],
        first: Vec<u32>,
        separator: &'a [u32],
        suffix: &'a [u32],
    },
    Zerank {
        beginning: Vec<u32>,
        suffix: &'a [u32],
    },
    MiniCpm {
        first: Vec<u32>,
        separator: &'a [u32],
        question: &'a [u32],
    },
    Late {
        query: QuerySequence,
        marker: Option<u32>,
    },
}

#[derive(Debug)]
enum Parts {
    Pair,
    Late(LateTemplate),
    Qwen3 { prefix: Vec<u32>, suffix: Vec<u32>, instruction: String },
    Qwen2 { prefix: Vec<u32>, separator: Vec<u32>, suffix: Vec<u32>, instruction: Option<String> },
    Zerank { prefix: Vec<u32>, separator: Vec<u32>, suffix: Vec<u32> },
    MiniCpm { bos: u32, separator: Vec<u32>, question: Vec<u32> },
}

impl Parts {
    /// What of a template is encoded once, and how many tokens stand beside query and text.
    fn of(
        template: Template,
        tokenizer: &Tokenizer,
        sizes: &Sizes,
        instruction: Option<&str>,
    ) -> Result<(Parts, usize)> {
        Ok(match template {
            // Three special tokens, and a token of each text below.
            Template::Pair => (Parts::Pair, 3),
            Template::Qwen3 => {
                let prefix = tokenizer.encode_plain(QWEN3_PREFIX)?;
                let suffix = tokenizer.encode_plain(QWEN3_SUFFIX)?;
                let beside = prefix.len() + suffix.len();
                let instruction = instruction.unwrap_or(DEFAULT_INSTRUCTION).to_owned();
                (Parts::Qwen3 { prefix, suffix, instruction }, beside)
            }
            Template::Qwen2 => {
                let prefix = tokenizer.encode_plain(QWEN2_PREFIX)?;
                let separator = tokenizer.encode_plain("\n")?;
                let mut suffix = separator.clone();
                for part in [QWEN2_TASK, QWEN2_SUFFIX] {
                    suffix.extend(tokenizer.encode_plain(part)?);
                }
                let beside = prefix.len() + suffix.len();
                let instruction = instruction.map(str::to_owned);
                (Parts::Qwen2 { prefix, separator, suffix, instruction }, beside)
            }
            Template::Zerank => {
                let prefix = tokenizer.encode_plain(ZERANK_PREFIX)?;
                let separator = tokenizer.encode_plain(ZERANK_SEPARATOR)?;
                let suffix = tokenizer.encode_plain(ZERANK_SUFFIX)?;
                let beside = prefix.len() + separator.len() + suffix.len();
                (Parts::Zerank { prefix, separator, suffix }, beside)
            }
            Template::MiniCpm { bos } => {
                if bos as usize >= sizes.vocab_size {
                    return Err(Error::Tokenize(format!("its bos_token_id {bos} is no token")));
                }
                let separator = tokenizer.encode_plain("\n")?;
                let question = tokenizer.encode_plain(MINICPM_QUESTION)?;
                let beside = 2 * (separator.len() + question.len());
                (Parts::MiniCpm { bos, separator, question }, beside)
            }
            Template::Late(template) => {
                // The place of a marker is kept where there is none.
                let place = usize::from(template.text_marker.is_none());
                let beside = tokenizer.marked(&[], template.text_marker, 0)?.len() + place;
                let (max_tokens, least) = (template.query_tokens, beside + 1);
                if max_tokens < least {
                    return Err(Error::NoRoom { max_tokens, least });
                }
                (Parts::Late(template), beside)
            }
        })
    }
}

impl PairEncoder {
    /// Opens the tokenizer of `model` in `dir` and completes the model's head by it. Pairs are cut to
    /// `max_tokens` as the reference implementation cuts them (of MiniCPM layerwise it is the limit of the
    /// passage and of mxbai-rerank that of query and text, beside which the template has room of its own).
    /// `instruction` is what the model is told to judge by, where its template has a place for that.
    ///
    /// # Errors
    /// A tokenizer that is missing, damaged or another model's, and a limit that leaves no room for text.
    pub fn open(
        dir: &Path,
        model: &mut dyn CrossEncoder,
        max_tokens: usize,
        instruction: Option<&str>,
    ) -> Result<PairEncoder> {
        let sizes = model.sizes();
        let tokenizer = Tokenizer::open(dir, max_tokens, sizes.vocab_size)?;
        model.resolve_head(&tokenizer)?;
        let (parts, beside) = Parts::of(model.template(), &tokenizer, &sizes, instruction)?;
        let (least, most) = match parts {
            Parts::Late(_) => (beside + 1, sizes.max_tokens),
            // A token of each text.
            Parts::Pair | Parts::Qwen3 { .. } | Parts::Zerank { .. } => {
                (beside + 2, sizes.max_tokens)
            }
            Parts::Qwen2 { .. } | Parts::MiniCpm { .. } => {
                (4, sizes.max_tokens.saturating_sub(beside))
            }
        };
        let max_tokens = max_tokens.min(most);
        if max_tokens < least {
            return Err(Error::NoRoom { max_tokens, least });
        }
        Ok(PairEncoder { tokenizer, parts, max_tokens })
    }

    /// An encoder of texts for this query.
    ///
    /// # Errors
    /// When the tokenizer can not represent the query.
    pub fn query(&self, query: &str) -> Result<QueryEncoder<'_>> {
        let query = match &self.parts {
            Parts::Pair => Query::Pair(self.tokenizer.encode_plain(query)?),
            Parts::Qwen3 { prefix, suffix, instruction } => {
                let beginning =
                    format!("<Instruct>: {instruction}\n<Query>: {query}\n<Document>: ");
                Query::Qwen3 { prefix, suffix, beginning }
            }
            Parts::Qwen2 { prefix, separator, suffix, instruction } => {
                let text = match instruction {
                    Some(instruction) => format!("instruction: {instruction}\nquery: {query}"),
                    None => format!("query: {query}"),
                };
                let mut first = self.tokenizer.encode_plain(&text)?;
                first.truncate(self.max_tokens * 3 / 4);
                Query::Qwen2 { prefix, first, separator, suffix }
            }
            Parts::Zerank { prefix, separator, suffix } => {
                let text = cut(query, ZERANK_LETTERS.0);
                let room = self.max_tokens - prefix.len() - separator.len() - suffix.len();
                let mut tokens = self.tokenizer.encode_plain(text)?;
                tokens.truncate(room * 3 / 4);
                let beginning = [prefix.as_slice(), &tokens, separator].concat();
                Query::Zerank { beginning, suffix }
            }
            Parts::MiniCpm { bos, separator, question } => {
                let mut first = self.tokenizer.encode_plain(&format!("A: {query}"))?;
                first.truncate(self.max_tokens * 3 / 4);
                first.insert(0, *bos);
                Query::MiniCpm { first, separator, question }
            }
            Parts::Late(template) => {
                let query = self.sequence(&self.tokenizer.encode_plain(query)?, template)?;
                Query::Late { query, marker: template.text_marker }
            }
        };
        Ok(QueryEncoder { encoder: self, query })
    }

    /// A query's own sequence, filled up where the template says so.
    fn sequence(&self, query: &[u32], template: &LateTemplate) -> Result<QuerySequence> {
        let LateTemplate { query_marker, query_tokens, expansion, attends, .. } = *template;
        let mut tokens = self.tokenizer.marked(query, query_marker, query_tokens)?;
        let own = tokens.len();
        if let Some(mask) = expansion {
            tokens.ids.resize(query_tokens.max(own), mask);
            tokens.type_ids.resize(tokens.ids.len(), 0);
        }
        // Where there is nothing else to see, the masks see each other.
        let unseen = if attends || own == 0 { 0 } else { tokens.len() - own };
        Ok(QuerySequence { tokens, unseen })
    }
}

impl QueryEncoder<'_> {
    /// The query, where it is read apart from the texts: then [`encode`](Self::encode) gives a text alone.
    pub fn apart(&self) -> Option<&QuerySequence> {
        match &self.query {
            Query::Late { query, .. } => Some(query),
            _ => None,
        }
    }

    /// The sequence of the query and a text.
    ///
    /// # Errors
    /// When the tokenizer can not represent the text.
    pub fn encode(&self, text: &str) -> Result<Encoded> {
        let PairEncoder { tokenizer, max_tokens, .. } = self.encoder;
        let ids = match &self.query {
            Query::Pair(query) => return tokenizer.pair(query, &tokenizer.encode_plain(text)?),
            Query::Late { marker, .. } => {
                return tokenizer.marked(&tokenizer.encode_plain(text)?, *marker, *max_tokens);
            }
            Query::Qwen3 { prefix, suffix, beginning } => {
                let mut body = tokenizer.encode_plain(&format!("{beginning}{text}"))?;
                body.truncate(max_tokens - prefix.len() - suffix.len());
                [*prefix, &body, suffix].concat()
            }
            Query::Qwen2 { prefix, first, separator, suffix } => {
                let text = tokenizer.encode_plain(&format!("document: {text}"))?;
                let mut body = [first.as_slice(), separator, &text].concat();
                // Only the text is cut: a query takes three quarters at most.
                body.truncate(*max_tokens);
                [*prefix, &body, suffix].concat()
            }
            Query::Zerank { beginning, suffix } => {
                let mut text = tokenizer.encode_plain(cut(text, ZERANK_LETTERS.1))?;
                // Only the text is cut: a query takes three quarters at most.
                text.truncate(max_tokens - beginning.len() - suffix.len());
                [beginning.as_slice(), &text, suffix].concat()
            }
            Query::MiniCpm { first, separator, question } => {
                let mut passage = tokenizer.encode_plain(&format!("B: {text}"))?;
                passage.truncate(*max_tokens);
                let mut second = [*separator, &passage].concat();
                // Only the second is cut, and the limit counts separator and question once more.
                let most = max_tokens + separator.len() + question.len();
                second.truncate(most.saturating_sub(first.len()));
                [first.as_slice(), &second, separator, question].concat()
            }
        };
        Ok(Encoded { type_ids: Vec::new(), ids })
    }
}

/// The first so many letters, without the white space around them.
fn cut(text: &str, letters: usize) -> &str {
    let end = text.char_indices().nth(letters).map_or(text.len(), |(at, _)| at);
    text[..end].trim()
}
