//! The loop over layers, with the tokens of one conversation.

use std::{
    ops::ControlFlow,
    path::Path,
    time::{Duration, Instant},
};

use riddle_kernels::{Pool, Rounding};
use riddle_offload::{StreamOptions, TensorStream};
use riddle_transformer::{
    KvCache, LanguageModel, LanguageScratch, LanguageScratchSize, LanguageTokenizer,
};
use riddle_types::GenerationStats;

use super::{
    LocalOptions,
    plan::{Layout, Plan, plan},
    sample::Sampler,
    segments::Segments,
    stored::{Session, Stored},
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
    /// Of these, from the beginning on, those that were read and not written. They were computed by other routines, so
    /// only they are what reading them again would give.
    read: usize,
    /// What earlier prompts left on disk.
    pub(super) stored: Option<Stored>,
}

/// How a pass ended.
pub(crate) type Flow = ControlFlow<()>;

/// Is shown the logits after the prompt.
type See<'a> = dyn FnMut(&[f32]) + 'a;

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
        let model = LanguageModel::open(path)?;
        let tokenizer = LanguageTokenizer::open(model.file())?;
        let layout = Layout::of(&model);
        let plan = plan(&model, &layout, options)?;
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
            hidden: vec![0.0; plan.states * config.hidden_size],
            normalized: vec![0.0; config.hidden_size],
            logits: vec![0.0; config.vocab_size],
            pool: Pool::new(options.threads)?,
            tokens: Vec::new(),
            read: 0,
            stored: None,
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
        prompt: &Segments,
        most: usize,
        sampler: &mut Sampler,
        ends: Ends,
        take: &mut dyn FnMut(&[u8]) -> Flow,
    ) -> Result<(GenerationStats, End)> {
        self.generate_seen(prompt, most, sampler, ends, take, None)
    }

    /// As [`generate`](Self::generate); `see` gets the logits after the prompt.
    fn generate_seen(
        &mut self,
        prompt: &Segments,
        most: usize,
        sampler: &mut Sampler,
        ends: Ends,
        take: &mut dyn FnMut(&[u8]) -> Flow,
        see: Option<&mut See<'_>>,
    ) -> Result<(GenerationStats, End)> {
        let before = self.stream.totals();
        let tokens = prompt.tokens.len();
        self.prepare(tokens + most);
        let mut stats = GenerationStats {
            prompt_tokens: tokens,
            context_tokens: self.plan.context,
            window_layers: self.plan.window,
            ..GenerationStats::default()
        };
        let stored = self.stored.clone();
        let mut session = self.recall(stored.as_ref(), prompt, &mut stats);
        let new = tokens - self.tokens.len();
        let started = Instant::now();
        let flow = self.read(&prompt.tokens[self.tokens.len()..], &mut || take(&[]))?;
        stats.prompt_ms = milliseconds(started.elapsed());
        let is_read = flow.is_continue();
        if let Some(see) = see.filter(|_| is_read) {
            see(&self.logits);
        }
        let decoding = Instant::now();
        let mut end = End::Stopped;
        if is_read {
            (stats.tokens, end) = self.decode(most, sampler, ends, take)?;
        }
        stats.decode_ms = milliseconds(decoding.elapsed());
        let totals = self.stream.totals();
        stats.bytes_read = totals.bytes_read - before.bytes_read;
        stats.io_wait_ms = milliseconds(totals.io_wait.saturating_sub(before.io_wait));
        stats.resident_weight_bytes = self.resident_bytes();
        stats.kv_cache_bytes = self.model.kv_bytes(self.plan.context);
        stats.streamed_bytes_per_token = self.streamed_bytes();
        // What was not read to its end is not kept; how the answer ended does not matter.
        if let Some(session) = &mut session
            && is_read
        {
            let rate = stats.prompt_ms / new.max(1) as f64;
            session.save(prompt, &self.cache, rate, &mut stats);
        }
        Ok((stats, end))
    }

    /// Takes what is there of a prompt's beginning, in memory and stored; the rest is to be read. Gives the session
    /// with what is stored, which lasts as long as the prompt is worked on.
    fn recall<'a>(
        &mut self,
        stored: Option<&'a Stored>,
        prompt: &Segments,
        stats: &mut GenerationStats,
    ) -> Option<Session<'a>> {
        let reused = self.reuse(&prompt.tokens);
        let looked = Instant::now();
        let mut session = stored.and_then(|it| it.begin(&self.model));
        let held = match &mut session {
            Some(session) => session.load(prompt, reused, &mut self.cache, stats),
            None => reused,
        };
        if session.is_some() {
            stats.load_ms = milliseconds(looked.elapsed());
            stats.saved_ms =
                if stats.loaded_tokens > 0 { stats.saved_ms - stats.load_ms } else { 0.0 };
        }
        // The last token is read in any case: it leaves the logits.
        self.hold(&prompt.tokens[..held.min(prompt.tokens.len().saturating_sub(1))]);
        // Where a file was damaged, rows that were there are not any more.
        stats.reused_tokens = reused.min(self.tokens.len());
        session
    }

    /// Writes token after token behind what was read, as [`generate`](Self::generate) says. Gives how many, and why no
    /// more.
    fn decode(
        &mut self,
        most: usize,
        sampler: &mut Sampler,
        ends: Ends,
        take: &mut dyn FnMut(&[u8]) -> Flow,
    ) -> Result<(usize, End)> {
        let mut written = 0;
        loop {
            let token = sampler.choose(&mut self.logits, &self.tokens);
            if ends == Ends::Heard && self.tokenizer.is_end(token) {
                return Ok((written, End::Said));
            }
            written += 1;
            let flow = take(self.tokenizer.piece(token));
            if written >= most || self.tokens.len() >= self.plan.context {
                return Ok((written, End::Full));
            }
            if flow.is_break() || self.write(token)?.is_break() {
                return Ok((written, End::Stopped));
            }
        }
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

    /// Decides what depends on how many tokens are read and written in all. Keys of another decision are forgotten.
    fn prepare(&mut self, tokens: usize) {
        let before = self.model.arithmetic();
        self.model.for_tokens(tokens);
        if self.model.arithmetic() != before {
            self.forget();
        }
    }

    /// Forgets all tokens.
    fn forget(&mut self) {
        self.tokens.clear();
        self.read = 0;
    }

    /// How many tokens of a prompt's beginning the cache holds as reading them would leave them.
    fn reuse(&self, prompt: &[u32]) -> usize {
        let known = self.tokens[..self.read].iter().zip(prompt);
        known.take_while(|(a, b)| a == b).count()
    }

    /// Takes the cache to hold these tokens, read, and nothing else.
    fn hold(&mut self, tokens: &[u32]) {
        self.tokens.clear();
        self.tokens.extend_from_slice(tokens);
        self.read = tokens.len();
    }

    /// Reads tokens in passes of about the same length; the last one leaves its logits. How long they are changes no
    /// bit: what a token leaves depends on itself and those before it.
    fn read(&mut self, tokens: &[u32], go_on: &mut dyn FnMut() -> Flow) -> Result<Flow> {
        let passes = tokens.len().div_ceil(self.plan.states.max(1)).max(1);
        let mut rest = tokens;
        for left in (1..=passes).rev() {
            let (part, after) = rest.split_at(rest.len().div_ceil(left));
            if self.pass(part, after.is_empty(), Rounding::AsMany, go_on)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            self.tokens.extend_from_slice(part);
            self.read = self.tokens.len();
            rest = after;
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Puts a token behind the others, as a model does that writes.
    fn write(&mut self, token: u32) -> Result<Flow> {
        let mut go_on = || ControlFlow::Continue(());
        let flow = self.pass(&[token], true, Rounding::ByCount, &mut go_on)?;
        if flow.is_continue() {
            self.tokens.push(token);
        }
        Ok(flow)
    }

    /// One pass through the layers, each of which takes all tokens, some at a time: whatever is not in memory is read
    /// once. Tokens of a pass that is stopped were not read.
    fn pass(
        &mut self,
        tokens: &[u32],
        wants_logits: bool,
        rounding: Rounding,
        go_on: &mut dyn FnMut() -> Flow,
    ) -> Result<Flow> {
        let Engine { model, stream, cache, scratch, pool, .. } = self;
        let (first, width) = (self.tokens.len(), model.config().hidden_size);
        let hidden = &mut self.hidden[..tokens.len() * width];
        model.embed(tokens, hidden)?;
        let parts = tokens.len().div_ceil(self.plan.chunk).max(1);
        let step = tokens.len().div_ceil(parts).max(1);
        if parts == 1 {
            model.turn(first, tokens.len(), scratch);
        }
        let layers = model.layers().len();
        // A part of a prompt that needs no logits is followed by the first layer, not by the output matrix.
        let end = layers + if wants_logits { self.output.len() } else { 0 };
        for layer in 0..layers {
            let view = stream.layer_before(layer, end)?;
            let weights: Vec<&[u8]> =
                (0..model.layers()[layer].len()).map(|it| view.tensor(it)).collect();
            for (number, hidden) in hidden.chunks_mut(step * width).enumerate() {
                let first = first + number * step;
                if parts > 1 {
                    model.turn(first, hidden.len() / width, scratch);
                }
                pool.run(|| model.layer(layer, &weights, first, hidden, cache, scratch, rounding));
                if go_on().is_break() {
                    // Whatever is asked next begins with the first layer.
                    stream.prefetch(0);
                    return Ok(ControlFlow::Break(()));
                }
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

    /// The logits after every `chunk` tokens of `tokens` from an empty cache: read so many at a time, or one by one as
    /// a model writes them.
    ///
    /// # Errors
    /// When layers can not be read.
    pub(crate) fn logits_of(&mut self, tokens: &[u32], chunk: usize) -> Result<Vec<Vec<f32>>> {
        self.forget();
        self.prepare(tokens.len());
        let mut all = Vec::new();
        for part in tokens.chunks(chunk.max(1)) {
            let _ = match part {
                [token] if chunk <= 1 => self.write(*token)?,
                _ => self.read(part, &mut || ControlFlow::Continue(()))?,
            };
            all.push(self.logits.clone());
        }
        Ok(all)
    }

    /// The logits after a prompt, of which what is in memory and on disk is taken from there.
    ///
    /// # Errors
    /// When layers can not be read.
    pub(crate) fn logits_after(
        &mut self,
        prompt: &Segments,
    ) -> Result<(Vec<f32>, GenerationStats)> {
        let mut sampler = Sampler::new(super::Sampling::default());
        let mut logits = Vec::new();
        let keep = &mut |it: &[f32]| logits.extend_from_slice(it);
        let mut take = |_: &[u8]| ControlFlow::Continue(());
        let (stats, _) =
            self.generate_seen(prompt, 1, &mut sampler, Ends::Ignored, &mut take, Some(keep))?;
        Ok((logits, stats))
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
