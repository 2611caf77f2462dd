//! The loop over layers, with the tokens of one conversation.

use std::{
    ops::ControlFlow,
    path::Path,
    time::{Duration, Instant},
};

use riddle_kernels::Pool;
use riddle_offload::{StreamOptions, TensorStream};
use riddle_transformer::{
    KvCache, LanguageModel, LanguageScratch, LanguageScratchSize, LanguageTokenizer,
};
use riddle_types::GenerationStats;

use super::{
    LocalOptions,
    plan::{Layout, Plan, plan},
    sample::Sampler,
};
use crate::Result;

/// A model that runs: what is in memory of it, and the tokens it has read.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(super) model: LanguageModel,
    pub(super) tokenizer: LanguageTokenizer,
    stream: TensorStream,
    plan: Plan,
    /// The tokens of each part of the output matrix, by layer beyond the model's.
    output: Vec<Vec<std::ops::Range<usize>>>,
    cache: KvCache,
    scratch: LanguageScratch,
    hidden: Vec<f32>,
    normalized: Vec<f32>,
    logits: Vec<f32>,
    pool: Pool,
    /// Tokens whose keys and values are in the cache.
    tokens: Vec<u32>,
}

/// How a pass ended.
pub(crate) type Flow = ControlFlow<()>;

impl Engine {
    /// Opens a file and reads what stays in memory of it.
    ///
    /// # Errors
    /// A file that is not a supported model, or does not fit the budget; `go_on` broke.
    pub(crate) fn open(
        path: &Path,
        options: &LocalOptions,
        go_on: &mut dyn FnMut() -> Flow,
    ) -> Result<Engine> {
        let mut model = LanguageModel::open(path)?;
        let tokenizer = LanguageTokenizer::open(model.file())?;
        let layout = Layout::of(&model);
        let plan = plan(&model, &layout, options)?;
        model.for_context(plan.context);
        let stream = TensorStream::open_while(
            path,
            layout.layers,
            plan.preservation.clone(),
            StreamOptions { window: plan.window, ..options.stream },
            go_on,
        )?;
        let config = model.config();
        let chunk = plan.chunk.min(plan.context);
        let size =
            LanguageScratchSize { tokens: chunk, context: plan.context, threads: options.threads };
        Ok(Engine {
            cache: model.kv_cache(plan.context),
            scratch: model.scratch(size),
            hidden: vec![0.0; chunk * config.hidden_size],
            normalized: vec![0.0; config.hidden_size],
            logits: vec![0.0; config.vocab_size],
            pool: Pool::new(options.threads)?,
            tokens: Vec::new(),
            output: layout.output,
            stream,
            plan,
            tokenizer,
            model,
        })
    }

    /// Tokens read and written together.
    pub(crate) fn context(&self) -> usize {
        self.plan.context
    }

    /// Bytes of weights in memory.
    pub(crate) fn resident_bytes(&self) -> u64 {
        self.stream.resident_bytes()
    }

    /// Writes after `prompt` until the model ends, `most` tokens are written, the context is full, or `take` breaks;
    /// `take` gets each token's bytes, and none while the prompt is read.
    ///
    /// # Errors
    /// When layers can not be read.
    pub(crate) fn generate(
        &mut self,
        prompt: &[u32],
        most: usize,
        sampler: &mut Sampler,
        ends: Ends,
        take: &mut dyn FnMut(&[u8]) -> Flow,
    ) -> Result<(GenerationStats, End)> {
        let before = self.stream.totals();
        let started = Instant::now();
        let reused = self.reuse(prompt);
        let mut flow = self.read(&prompt[reused..], &mut || take(&[]))?;
        let mut stats = GenerationStats {
            prompt_tokens: prompt.len(),
            reused_tokens: reused,
            prompt_ms: milliseconds(started.elapsed()),
            context_tokens: self.plan.context,
            window_layers: self.plan.window,
            ..GenerationStats::default()
        };
        let decoding = Instant::now();
        let mut end = End::Stopped;
        while flow.is_continue() {
            let token = sampler.choose(&mut self.logits, &self.tokens);
            if ends == Ends::Heard && self.tokenizer.is_end(token) {
                end = End::Said;
                break;
            }
            stats.tokens += 1;
            flow = take(self.tokenizer.piece(token));
            if stats.tokens >= most || self.tokens.len() >= self.plan.context {
                end = End::Full;
                break;
            }
            if flow.is_continue() {
                flow = self.read(&[token], &mut || ControlFlow::Continue(()))?;
            }
        }
        stats.decode_ms = milliseconds(decoding.elapsed());
        let totals = self.stream.totals();
        stats.bytes_read = totals.bytes_read - before.bytes_read;
        stats.io_wait_ms = milliseconds(totals.io_wait.saturating_sub(before.io_wait));
        stats.resident_weight_bytes = self.resident_bytes();
        stats.kv_cache_bytes = self.model.kv_bytes(self.plan.context);
        stats.streamed_bytes_per_token = self.streamed_bytes();
        Ok((stats, end))
    }

    /// Bytes per second of a pass that computes nothing; `None` where nothing is read.
    ///
    /// # Errors
    /// When layers can not be read.
    pub(crate) fn stream_rate(&mut self) -> Result<Option<f64>> {
        let layers = self.model.layers().len() + self.output.len();
        let bytes = self.streamed_bytes();
        if bytes == 0 {
            return Ok(None);
        }
        // The second pass begins with a full window, and ends with one.
        let mut started = Instant::now();
        for pass in 0..2 {
            for layer in 0..layers {
                self.stream.layer(layer)?;
            }
            if pass == 0 {
                started = Instant::now();
            }
        }
        Ok(Some(bytes as f64 / started.elapsed().as_secs_f64()))
    }

    /// Bytes that a pass reads.
    fn streamed_bytes(&self) -> u64 {
        self.plan.preservation.streamed_total()
    }

    /// Keeps what the cache holds of a prompt's beginning, and tells how many tokens that is; the last one is read
    /// in any case, for its logits.
    fn reuse(&mut self, prompt: &[u32]) -> usize {
        let same = self.tokens.iter().zip(prompt).take_while(|(a, b)| a == b).count();
        let same = same.min(prompt.len().saturating_sub(1));
        self.tokens.truncate(same);
        same
    }

    /// Reads tokens in passes; the last one leaves its logits.
    fn read(&mut self, tokens: &[u32], go_on: &mut dyn FnMut() -> Flow) -> Result<Flow> {
        let chunk = self.plan.chunk.min(self.plan.context);
        let mut rest = tokens;
        while !rest.is_empty() {
            let (part, after) = rest.split_at(chunk.min(rest.len()));
            if self.pass(part, after.is_empty(), go_on)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            self.tokens.extend_from_slice(part);
            rest = after;
        }
        Ok(ControlFlow::Continue(()))
    }

    /// One pass through the layers. Tokens of a pass that is stopped were not read.
    fn pass(
        &mut self,
        tokens: &[u32],
        wants_logits: bool,
        go_on: &mut dyn FnMut() -> Flow,
    ) -> Result<Flow> {
        let Engine { model, stream, cache, scratch, pool, .. } = self;
        let (first, width) = (self.tokens.len(), model.config().hidden_size);
        let hidden = &mut self.hidden[..tokens.len() * width];
        model.embed(tokens, hidden)?;
        model.turn(first, tokens.len(), scratch);
        let layers = model.layers().len();
        // A part of a prompt that needs no logits is followed by the first layer, not by the output matrix.
        let end = layers + if wants_logits { self.output.len() } else { 0 };
        for layer in 0..layers {
            let view = stream.layer_before(layer, end)?;
            let weights: Vec<&[u8]> =
                (0..model.layers()[layer].len()).map(|it| view.tensor(it)).collect();
            pool.run(|| model.layer(layer, &weights, first, hidden, cache, scratch));
            if go_on().is_break() {
                // Whatever is asked next begins with the first layer.
                stream.prefetch(0);
                return Ok(ControlFlow::Break(()));
            }
        }
        if wants_logits {
            let (normalized, logits) = (&mut self.normalized, &mut self.logits);
            let last = &hidden[(tokens.len() - 1) * width..];
            pool.run(|| model.normalize(last, normalized));
            for (number, pieces) in self.output.iter().enumerate() {
                let view = stream.layer(layers + number)?;
                for (place, rows) in pieces.iter().enumerate() {
                    let weights = view.tensor(place);
                    let rows = rows.clone();
                    pool.run(|| model.logits(normalized, weights, rows, logits, scratch));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The logits of every token of `tokens`, read one by one or as a whole, from an empty cache.
    ///
    /// # Errors
    /// When layers can not be read.
    #[doc(hidden)]
    pub(crate) fn logits_of(&mut self, tokens: &[u32], chunk: usize) -> Result<Vec<Vec<f32>>> {
        self.tokens.clear();
        let mut all = Vec::new();
        for part in tokens.chunks(chunk.max(1)) {
            let _ = self.read(part, &mut || ControlFlow::Continue(()))?;
            all.push(self.logits.clone());
        }
        Ok(all)
    }
}

/// What a token does that a model writes at the end of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    /// It ends the answer.
    Heard,
    /// Nothing, it is a token like others: for measurements of a fixed length.
    Ignored,
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The model said so.
    Said,
    /// It was as long as allowed, or the context was full.
    Full,
    /// Somebody stopped it.
    Stopped,
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
