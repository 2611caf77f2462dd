//! The built-in sparse encoder: SPLADE over BERT, which gives a text weights of terms instead of a vector. Models that
//! were trained for it look a question's terms up and compute passages alone.

mod asked;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use riddle_kernels::Pool;
use riddle_offload::{EmbeddingRows, LayerWindow};
use riddle_transformer::{
    Bert, Encoded, MaskedLanguageHead, MaskedScratch, RaggedBatch, Tokenizer, Wanted,
};
use riddle_types::{EmbedRole, SparseEncoder, StageError, TermWeights, panic_message};
use riddle_weights::is_there;

use self::asked::Table;
use crate::{
    EncoderOptions, Error, Result,
    builtin::{EMBEDDING_ROWS, FEW_TOKENS, Memory, digest, micro_batches},
    card,
};

/// Terms of a passage that are kept, the heaviest: more cost space and find nothing.
pub const PASSAGE_TERMS: usize = 96;

/// Terms of a question that are kept: each is a list to be read.
pub const QUERY_TERMS: usize = 64;

/// Texts of a micro-batch, at most: each has a weight for every term of the vocabulary while it is computed.
const MOST_TEXTS: usize = 32;

/// A SPLADE model in process.
pub struct SpladeEncoder {
    id: String,
    tokenizer: Tokenizer,
    /// Of the model whose questions are looked up it is read when the first passage comes.
    head: OnceLock<MaskedLanguageHead>,
    /// Weights of questions' tokens, where no network reads them.
    asked: Option<Table>,
    /// Whether the logarithm is taken twice.
    twice: bool,
    pool: Pool,
    /// For questions, as the dense encoder has it.
    alone: Pool,
    micro_batch_tokens: usize,
    state: Mutex<State>,
}

struct State {
    bert: Bert,
    window: LayerWindow,
    rows: EmbeddingRows,
}

/// Memory of a list's micro-batches.
#[derive(Default)]
struct Room {
    memory: Memory,
    head: Option<MaskedScratch>,
    weights: Vec<f32>,
}

impl std::fmt::Debug for SpladeEncoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SpladeEncoder").field("id", &self.id).finish_non_exhaustive()
    }
}

impl SpladeEncoder {
    /// Opens the directory of a `BertForMaskedLM`. Layers are read on first use; with a table of questions' weights
    /// (`idf.json`) that is the first passage.
    ///
    /// # Errors
    /// What is missing, damaged or not supported.
    pub fn open(dir: &Path, options: EncoderOptions) -> Result<SpladeEncoder> {
        let bert = Bert::open(dir)?;
        let config = bert.config();
        let longest = config.max_tokens();
        let max_tokens = card::max_tokens(dir, dir)?.map_or(longest, |it| it.min(longest));
        let layers = bert.layers().clone();
        let depth = options.window.unwrap_or(layers.layers().len());
        let mut window = LayerWindow::new(Arc::new(layers), depth)?;
        bert.check_masked_language_head()?;
        let looks_up = is_there(&dir.join(asked::TABLE));
        if !looks_up {
            // The weights come in while the tokenizer's vocabulary is built and the decoder packed.
            window.prefetch()?;
        }
        let tokenizer = Tokenizer::open(dir, max_tokens, config.vocab_size)?;
        let asked = Table::open(dir, &tokenizer, config.vocab_size)?;
        let twice = asked::twice(dir)?;
        let head = OnceLock::new();
        if asked.is_none() {
            _ = head.set(bert.masked_language_head()?);
        }
        let rows = EmbeddingRows::new(
            bert.checkpoint().clone(),
            bert.token_table().clone(),
            EMBEDDING_ROWS,
        );
        let way = match &asked {
            // What a passage's terms are depends on both.
            Some(table) => format!("{}-{}{}", digest(&bert), table.fingerprint(), u8::from(twice)),
            None if twice => format!("{}-1", digest(&bert)),
            None => digest(&bert),
        };
        Ok(SpladeEncoder {
            id: format!("{}/{max_tokens}/{PASSAGE_TERMS}/{way}", card::name(dir)),
            tokenizer,
            head,
            asked,
            twice,
            pool: Pool::new(options.threads)?,
            alone: Pool::new(1)?,
            micro_batch_tokens: options.micro_batch_tokens.max(1),
            state: Mutex::new(State { bert, window, rows }),
        })
    }

    /// Every term's weight in every text, most of them 0: what the reference computes.
    ///
    /// # Errors
    /// When weights can not be read or are damaged.
    pub fn weights(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        let mut all = vec![Vec::new(); texts.len()];
        self.each(texts, &mut |text, weights| all[text] = weights.to_vec())?;
        Ok(all)
    }

    /// [`SparseEncoder::encode`] with this crate's error type.
    ///
    /// # Errors
    /// When weights can not be read or are damaged.
    pub fn terms(&self, texts: &[&str], role: EmbedRole) -> Result<Vec<TermWeights>> {
        let limit = match role {
            EmbedRole::Query => QUERY_TERMS,
            EmbedRole::Passage => PASSAGE_TERMS,
        };
        if let (Some(table), EmbedRole::Query) = (&self.asked, role) {
            return texts.iter().map(|it| table.terms(&self.tokenizer, it, limit)).collect();
        }
        let mut all = vec![TermWeights::default(); texts.len()];
        self.each(texts, &mut |text, weights| {
            // A term that no question gives a weight to would take the place of one that is found.
            let is_asked = |term| self.asked.as_ref().is_none_or(|it| it.weight(term) > 0.0);
            let heavy = weights.iter().copied().zip(0..).filter(|it| it.0 > 0.0 && is_asked(it.1));
            all[text] = TermWeights::new(heavy.map(|(weight, term)| (term, weight)), limit);
        })?;
        Ok(all)
    }

    /// Hands the weights of every text to `visit`, in any order.
    fn each(&self, texts: &[&str], visit: &mut dyn FnMut(usize, &[f32])) -> Result<()> {
        let encoded = texts
            .iter()
            .map(|text| Ok(self.tokenizer.encode(text)?))
            .collect::<Result<Vec<Encoded>>>()?;
        let mut order: Vec<usize> = (0..encoded.len()).collect();
        order.sort_by_key(|&it| encoded[it].len());
        let lengths: Vec<usize> = order.iter().map(|&it| encoded[it].len()).collect();
        let mut room = Room::default();
        let head = self.head()?;
        let terms = head.terms();
        for batch in micro_batches(&lengths, self.micro_batch_tokens) {
            // A batch of very short texts would need memory for many vocabularies.
            for batch in order[batch].rchunks(MOST_TEXTS) {
                let packed = RaggedBatch::pack(batch.iter().map(|&it| &encoded[it]));
                // As the dense encoder does: a kernel's panic costs this request.
                catch_unwind(AssertUnwindSafe(|| self.forward(head, &packed, &mut room)))
                    .unwrap_or_else(|panic| {
                        Err(Error::Panicked(panic_message(&*panic).to_owned()))
                    })?;
                for (&text, weights) in batch.iter().zip(room.weights.chunks(terms.max(1))) {
                    visit(text, weights);
                }
            }
        }
        Ok(())
    }

    /// The head over the vocabulary.
    fn head(&self) -> Result<&MaskedLanguageHead> {
        if let Some(head) = self.head.get() {
            return Ok(head);
        }
        // Locked, so that two who come at once do not both read it.
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(head) = self.head.get() {
            return Ok(head);
        }
        let head = state.bert.masked_language_head()?;
        Ok(self.head.get_or_init(|| head))
    }

    /// One micro-batch; the model is locked for no longer than that.
    fn forward(
        &self,
        head: &MaskedLanguageHead,
        batch: &RaggedBatch,
        room: &mut Room,
    ) -> Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { bert, window, rows } = &mut *state;
        let pool = if batch.tokens() <= FEW_TOKENS { &self.alone } else { &self.pool };
        let Room { memory, head: head_room, weights } = room;
        let (hidden, scratch) = memory.reserve(bert, batch, self.pool.threads());
        rows.gather(&batch.input_ids, hidden)?;
        bert.embed(batch, hidden);
        weights.resize(batch.sequences() * head.terms(), 0.0);
        let head_room = head_room.get_or_insert_with(|| MaskedScratch::new(head, pool.threads()));
        pool.run(|| {
            for layer in 0..bert.config().num_hidden_layers {
                let view = window.advance_to(layer)?;
                let all = Wanted::All;
                bert.layer(layer, view.weights, &batch.cu_seqlens, all, hidden, scratch);
            }
            // A number that is none would be passed over where the largest is looked for.
            if !hidden.iter().all(|it| it.is_finite()) {
                return Err(Error::NotFinite);
            }
            head.weights(&batch.cu_seqlens, hidden, weights, head_room);
            if self.twice {
                weights.iter_mut().filter(|it| **it > 0.0).for_each(|it| *it = it.ln_1p());
            }
            Ok(())
        })
    }

    /// Bytes of weights in memory now.
    pub fn resident_weight_bytes(&self) -> u64 {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { bert, window, rows } = &*state;
        let body = window.resident_bytes() + rows.resident_bytes() + bert.resident_bytes();
        let table = self.asked.as_ref().map_or(0, Table::bytes);
        body + table + self.head.get().map_or(0, MaskedLanguageHead::bytes)
    }
}

impl SparseEncoder for SpladeEncoder {
    fn id(&self) -> &str {
        &self.id
    }

    fn encode(&self, texts: &[&str], role: EmbedRole) -> Result<Vec<TermWeights>, StageError> {
        Ok(self.terms(texts, role)?)
    }

    fn resident_weight_bytes(&self) -> u64 {
        SpladeEncoder::resident_weight_bytes(self)
    }
}
