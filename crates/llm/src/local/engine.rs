//! The loop over layers, with the tokens of one conversation.

mod decode;
#[cfg(test)]
mod tests;

use std::{
    ops::ControlFlow,
    path::Path,
    time::{Duration, Instant},
};

use riddle_kernels::{MOST_AS_ONE, Pool, Rounding};
use riddle_offload::{ExpertTotals, StreamOptions, StreamTotals, TensorStream};
use riddle_transformer::{
    KvCache, LanguageModel, LanguageScratch, LanguageScratchSize, LanguageTokenizer,
};
use riddle_types::{GenerationStats, StoredPrompt};

use super::{
    LocalOptions,
    draft::{Draft, Flow, NoDraft},
    experts::{Asked, Experts},
    plan::{Beside, Layout, Plan, fixed_bytes, plan},
    sample::{Guess, Sampler},
    segments::Segments,
    stored::{Session, Stored},
};
use crate::Result;

pub(crate) use decode::{End, Ends, How};

/// A model that runs: what is in memory of it, and the tokens it has read.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(super) model: LanguageModel,
    pub(super) tokenizer: LanguageTokenizer,
    stream: TensorStream,
    /// Of a mixture, what its layers ask.
    experts: Option<Experts>,
    plan: Plan,
    /// The tokens of each part of the output matrix, by layer beyond the model's.
    output: Vec<Vec<std::ops::Range<usize>>>,
    cache: KvCache,
    scratch: LanguageScratch,
    hidden: Vec<f32>,
    /// Of the last tokens of a pass.
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
    /// What the last prompt has left there.
    pub(super) left: Option<StoredPrompt>,
    /// Takes nothing from the prompt before.
    forgets: bool,
}

/// Is shown the logits after the prompt.
type See<'a> = dyn FnMut(&[f32]) + 'a;

impl Engine {
    /// Opens a file and reads what stays in memory of it, beside something else that takes memory.
    ///
    /// # Errors
    /// A file that is not a supported model, or does not fit the budget; `go_on` broke.
    pub(crate) fn open(
        path: &Path,
        options: &LocalOptions,
        beside: Beside,
        go_on: &mut dyn FnMut() -> Flow,
    ) -> Result<Engine> {
        let model = LanguageModel::open(path)?;
        let tokenizer = LanguageTokenizer::open(model.file())?;
        let layout = Layout::of(&model);
        let plan = plan(&model, &layout, options, beside)?;
        let stream = TensorStream::open_while(
            model.file().files(),
            layout.layers,
            plan.preservation.clone(),
            StreamOptions { window: plan.window, ..options.stream },
            go_on,
        )?;
        let experts = Experts::open(&model, plan.experts, options.stream, go_on)?;
        let config = model.config();
        let chunk = plan.chunk.min(plan.context);
        let size =
            LanguageScratchSize { tokens: chunk, context: plan.context, threads: options.threads };
        Ok(Engine {
            cache: model.kv_cache(plan.context),
            scratch: model.scratch(size),
            hidden: vec![0.0; plan.states.max(MOST_AS_ONE) * config.hidden_size],
            normalized: vec![0.0; plan.rows * config.hidden_size],
            logits: vec![0.0; plan.rows * config.vocab_size],
            pool: Pool::new(options.threads)?,
            tokens: Vec::new(),
            read: 0,
            stored: None,
            left: None,
            forgets: options.forgets,
            output: layout.output,
            stream,
            experts,
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
        let experts = self.experts.as_ref().map_or(0, Experts::resident_bytes);
        self.stream.resident_bytes() + experts
    }

    /// Bytes that it has and that are not in memory before they are written to.
    pub(crate) fn unseen_bytes(&self) -> u64 {
        let Plan { context, chunk, rows, .. } = self.plan;
        let experts = self.experts.as_ref().map_or(0, Experts::unseen_bytes);
        fixed_bytes(&self.model, self.pool.threads(), context, chunk, rows) + experts
    }

    /// Writes after `prompt` until the model ends, as many tokens are written as shall be, the context is full, or
    /// `take` breaks; `take` gets each token's bytes, and none while the prompt is read.
    ///
    /// # Errors
    /// When layers can not be read.
    pub(crate) fn generate(
        &mut self,
        prompt: &Segments,
        how: How<'_>,
        take: &mut dyn FnMut(&[u8]) -> Flow,
    ) -> Result<(GenerationStats, End)> {
        self.generate_seen(prompt, how, take, None)
    }

    /// As [`generate`](Self::generate); `see` gets the logits after the prompt.
    fn generate_seen(
        &mut self,
        prompt: &Segments,
        mut how: How<'_>,
        take: &mut dyn FnMut(&[u8]) -> Flow,
        see: Option<&mut See<'_>>,
    ) -> Result<(GenerationStats, End)> {
        let before = self.read_so_far();
        self.left = None;
        let tokens = prompt.tokens.len();
        self.prepare(tokens + how.most);
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
        let rate = milliseconds(started.elapsed()) / new.max(1) as f64;
        let is_read = flow.is_continue();
        if let Some(see) = see.filter(|_| is_read) {
            see(&self.logits[..self.model.config().vocab_size]);
        }
        let goes_on =
            is_read && how.draft.begin(&prompt.tokens, how.most, &mut || take(&[]))?.is_continue();
        stats.prompt_ms = milliseconds(started.elapsed());
        let decoding = Instant::now();
        let at_first = self.read_so_far();
        let end = if goes_on { self.decode(&mut how, take, &mut stats)? } else { End::Stopped };
        stats.decode_ms = milliseconds(decoding.elapsed());
        self.tell_reading(before, at_first, &mut stats);
        stats.resident_weight_bytes = self.resident_bytes() + how.draft.resident_bytes();
        stats.kv_cache_bytes = self.model.kv_bytes(self.plan.context);
        // What was not read to its end is not kept; how the answer ended does not matter.
        if let Some(session) = &mut session
            && is_read
        {
            self.left = session.save(prompt, &self.cache, rate, &mut stats);
        }
        Ok((stats, end))
    }

    /// What layers and experts did so far.
    fn read_so_far(&self) -> (StreamTotals, ExpertTotals) {
        let experts = self.experts.as_ref().map(Experts::totals);
        (self.stream.totals(), experts.unwrap_or_default())
    }

    /// Tells what was read since `before`, and since the first token was written.
    fn tell_reading(
        &self,
        before: (StreamTotals, ExpertTotals),
        at_first: (StreamTotals, ExpertTotals),
        stats: &mut GenerationStats,
    ) {
        let (layers, experts) = self.read_so_far();
        stats.bytes_read =
            layers.bytes_read + experts.bytes_read - before.0.bytes_read - before.1.bytes_read;
        let waited = layers.io_wait + experts.io_wait;
        stats.io_wait_ms = milliseconds(waited.saturating_sub(before.0.io_wait + before.1.io_wait));
        stats.streamed_bytes_per_token = self.streamed_bytes();
        if let Some(of_all) = &self.experts {
            stats.experts = Some(of_all.stats(before.1));
            if of_all.streams() {
                let written = experts.bytes_read - at_first.1.bytes_read;
                stats.streamed_bytes_per_token += written / stats.tokens.max(1) as u64;
            }
        }
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
        if self.forgets {
            return 0;
        }
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
            let rows = usize::from(after.is_empty());
            if self.pass(part, rows, Rounding::AsMany, go_on)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            self.tokens.extend_from_slice(part);
            self.read = self.tokens.len();
            rest = after;
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Puts tokens behind the others, as a model does that writes them one after the other: each has the bits of a pass
    /// of its own, however many there are. The logits of the last `rows` of them are left.
    pub(super) fn write(&mut self, tokens: &[u32], rows: usize) -> Result<Flow> {
        let mut go_on = || ControlFlow::Continue(());
        let flow = self.pass(tokens, rows, Rounding::AsOne, &mut go_on)?;
        if flow.is_continue() {
            self.tokens.extend_from_slice(tokens);
        }
        Ok(flow)
    }

    /// One pass through the layers, each of which takes all tokens, some at a time: whatever is not in memory is read
    /// once. The logits of the last `rows` tokens are left. Tokens of a pass that is stopped were not read.
    fn pass(
        &mut self,
        tokens: &[u32],
        rows: usize,
        rounding: Rounding,
        go_on: &mut dyn FnMut() -> Flow,
    ) -> Result<Flow> {
        let Engine { model, stream, experts, cache, scratch, pool, .. } = self;
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
        let end = layers + if rows > 0 { self.output.len() } else { 0 };
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
                if let Some(experts) = experts {
                    let asked = Asked { model, layer, view: &view, pool, rounding };
                    experts.ask(&asked, hidden, scratch)?;
                }
                if go_on().is_break() {
                    // Whatever is asked next begins with the first layer.
                    stream.prefetch(0);
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        if rows > 0 {
            let normalized = &mut self.normalized[..rows * width];
            let logits = &mut self.logits[..rows * model.config().vocab_size];
            let last = &hidden[(tokens.len() - rows) * width..];
            pool.run(|| model.normalize(last, normalized));
            for (number, pieces) in self.output.iter().enumerate() {
                let view = stream.layer(layers + number)?;
                for (place, outputs) in pieces.iter().enumerate() {
                    let weights = view.tensor(place);
                    let outputs = outputs.clone();
                    pool.run(|| model.logits(normalized, weights, outputs, logits, scratch));
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
                [token] if chunk <= 1 => self.write(&[*token], 1)?,
                _ => self.read(part, &mut || ControlFlow::Continue(()))?,
            };
            all.push(self.logits[..self.model.config().vocab_size].to_vec());
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
        let (sampler, draft) = (&mut sampler, &mut NoDraft as &mut dyn Draft);
        let how = How { most: 1, sampler, ends: Ends::Ignored, told: &[], draft };
        let (stats, _) = self.generate_seen(prompt, how, &mut take, Some(keep))?;
        Ok((logits, stats))
    }

    /// Reads a prompt, of which what is in memory is taken from there.
    ///
    /// # Errors
    /// When layers can not be read.
    pub(super) fn read_alone(
        &mut self,
        prompt: &[u32],
        most: usize,
        go_on: &mut dyn FnMut() -> Flow,
    ) -> Result<Flow> {
        self.prepare(prompt.len() + most);
        let held = self.reuse(prompt).min(prompt.len().saturating_sub(1));
        self.hold(&prompt[..held]);
        self.read(&prompt[held..], go_on)
    }

    /// Forgets what does not begin `tokens`, and gives what then follows.
    pub(super) fn keep<'a>(&mut self, tokens: &'a [u32]) -> &'a [u32] {
        let same = self.tokens.iter().zip(tokens).take_while(|(a, b)| a == b).count();
        self.tokens.truncate(same);
        self.read = self.read.min(same);
        &tokens[same..]
    }

    /// A guess of what follows the last token.
    pub(super) fn guess(&mut self, sampler: &mut Sampler, least: f32) -> Option<Guess> {
        let logits = &mut self.logits[..self.model.config().vocab_size];
        sampler.guess(logits, &self.tokens, least)
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
