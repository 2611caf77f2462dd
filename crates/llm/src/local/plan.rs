//! How a model is fitted into the memory it is given.

use riddle_kernels::MOST_AS_ONE;
use riddle_offload::{
    ExpertLayer, Locking, Preservation, TensorRole, TensorSpec, expert_bytes, preserve,
};
use riddle_transformer::{LanguageModel, LanguageScratchSize, TensorPart};

use super::{LocalOptions, experts};
use crate::{Error, Result};

/// Tokens of a prompt that are read at a time, most of them first: products reach full speed at a few hundred rows,
/// and every pass reads what is not in memory once.
const CHUNKS: [usize; 5] = [512, 256, 128, 64, 32];

/// Tokens of the context where nothing is said and memory does not matter: ten passages, a question and an answer take
/// some four thousand.
const CONTEXT: usize = 8192;

/// The shortest context that is chosen to save memory.
const SHORTEST_CONTEXT: usize = 1024;

/// What no plan sees: code that is paged in when it first runs, the tokenizer's caches, the allocator's rounding.
const UNSEEN_BYTES: u64 = 8 << 20;

/// Parts of the output matrix that lie in one piece of the size of a layer, so that some of them can be kept in memory
/// and some not.
const PIECES: usize = 8;

/// Outputs of a piece are a multiple of this: products take panels of so many.
const PIECE_STEP: usize = 32;

/// What is in memory while a model runs.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// Tokens read and written together.
    pub(super) context: usize,
    /// Tokens that a layer takes at a time.
    pub(super) chunk: usize,
    /// Tokens of a pass: what is not in memory is read once for so many.
    pub(super) states: usize,
    /// Tokens of a pass whose logits are wanted at most.
    pub(super) rows: usize,
    /// Layers that are read ahead.
    pub(super) window: usize,
    /// Which tensors stay.
    pub(super) preservation: Preservation,
    /// Experts that have room; 0 without.
    pub(super) experts: usize,
}

/// What has to fit beside a model that is read in passes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Beside {
    /// Tokens of a pass whose logits are wanted at most.
    pub(crate) rows: usize,
    /// Bytes that something else will take and has not taken yet.
    pub(crate) bytes: u64,
}

/// Layers as they are read: those of the model, then the output matrix in pieces of about their size.
pub(super) struct Layout {
    pub(super) layers: Vec<Vec<TensorSpec>>,
    /// The tokens of each part of the output matrix, by layer beyond the model's.
    pub(super) output: Vec<Vec<std::ops::Range<usize>>>,
    /// The experts of each layer, which are read one by one; none without.
    experts: Vec<ExpertLayer>,
}

impl Layout {
    pub(super) fn of(model: &LanguageModel) -> Layout {
        let mut layers: Vec<Vec<TensorSpec>> = model
            .layers()
            .iter()
            .map(|layer| {
                let spec = |it: &riddle_transformer::LayerTensor| TensorSpec {
                    role: role(it.part),
                    offset: it.tensor.offset,
                    bytes: it.tensor.bytes as usize,
                };
                layer.iter().map(spec).collect()
            })
            .collect();
        let layer_bytes =
            layers.iter().map(|it| it.iter().map(|it| it.bytes).sum::<usize>()).max().unwrap_or(0);
        let (rows, tensor) = (model.config().vocab_size, model.output());
        let row_bytes = tensor.bytes as usize / rows.max(1);
        let step = (layer_bytes / PIECES / row_bytes.max(1)).max(1).next_multiple_of(PIECE_STEP);
        let pieces: Vec<_> =
            (0..rows).step_by(step).map(|first| first..rows.min(first + step)).collect();
        let output: Vec<Vec<_>> = pieces.chunks(PIECES).map(<[_]>::to_vec).collect();
        for pieces in &output {
            let spec = |rows: &std::ops::Range<usize>| TensorSpec {
                role: TensorRole::OtherLarge,
                offset: tensor.offset + (rows.start * row_bytes) as u64,
                bytes: rows.len() * row_bytes,
            };
            layers.push(pieces.iter().map(spec).collect());
        }
        Layout { layers, output, experts: experts::layers(model) }
    }

    /// What stays of the layers and how many experts have room, when both may take `bytes` together. A token needs all
    /// of the layers and a few of the experts, so the layers come first.
    fn fit(
        &self,
        bytes: u64,
        window: usize,
        least: usize,
        locking: Locking,
    ) -> riddle_offload::Result<(Preservation, usize)> {
        let each = expert_bytes(&self.experts);
        let all: usize = self.experts.iter().map(|it| it.count).sum();
        let least = least.min(all);
        let needed = least as u64 * each;
        let layers = preserve(&self.layers, bytes.saturating_sub(needed), window, locking);
        let layers = layers.map_err(|error| match error {
            riddle_offload::Error::Budget { smallest, window, .. } => {
                let smallest = smallest.saturating_add(needed);
                riddle_offload::Error::Budget { budget: bytes, smallest, window }
            }
            error => error,
        })?;
        let room = bytes.saturating_sub(layers.memory_bytes(window)) / each.max(1);
        let room = usize::try_from(room).unwrap_or(all).min(all);
        if room < least {
            let (budget, smallest) = (bytes, layers.memory_bytes(window).saturating_add(needed));
            return Err(riddle_offload::Error::Budget { budget, smallest, window });
        }
        Ok((layers, if locking == Locking::Nothing { least } else { room }))
    }
}

fn role(part: TensorPart) -> TensorRole {
    match part {
        // Who is asked has to be known before anything can be read.
        TensorPart::Small | TensorPart::Router => TensorRole::Small,
        TensorPart::Query => TensorRole::Query,
        TensorPart::Key => TensorRole::Key,
        TensorPart::Value => TensorRole::Value,
        TensorPart::Output | TensorPart::ConvolutionOutput => TensorRole::Output,
        TensorPart::Gate => TensorRole::Gate,
        TensorPart::Up => TensorRole::Up,
        TensorPart::Down => TensorRole::Down,
        // They are to a convolution what these are to attention.
        TensorPart::QueryKeyValue | TensorPart::ConvolutionInput => TensorRole::QueryKeyValue,
        TensorPart::GateUp => TensorRole::GateUp,
    }
}

/// The plan for a model, within the budget if there is one.
///
/// # Errors
/// [`Error::Budget`] with the least that would do.
pub(super) fn plan(
    model: &LanguageModel,
    layout: &Layout,
    options: &LocalOptions,
    Beside { rows, bytes }: Beside,
) -> Result<Plan> {
    // Without reading ahead one layer is in memory, whatever was wished for.
    let window = if options.stream.prefetch { options.stream.window } else { 1 };
    let most = model.config().context_length;
    let context = options.context_tokens.unwrap_or(CONTEXT).clamp(1, most);
    let size = |context, chunk| fixed_bytes(model, options.threads, context, chunk, rows);
    let most = options.pass_tokens.unwrap_or(CHUNKS[0]).max(1);
    let chunks = CHUNKS.map(|it| it.min(most));
    // Those that a token is given in a layer, and as many that come meanwhile.
    let least = model.config().experts.map_or(0, |it| 2 * it.used);
    let fit = |bytes, window| layout.fit(bytes, window, least, options.locking);
    let Some(budget) = options.memory_budget else {
        let (preservation, experts) = fit(u64::MAX, window)?;
        let chunk = chunks[0].min(context);
        return Ok(Plan { context, chunk, states: chunk, rows, window, preservation, experts });
    };
    let held = held_bytes() + bytes;
    let room = budget.saturating_sub(held + UNSEEN_BYTES);
    let context =
        if options.context_tokens.is_some() { context } else { shortened(model, context, room) };
    // What passes need beside the weights takes no more than an eighth, unless nothing else is possible.
    let smallest = chunks[chunks.len() - 1];
    let chunk = chunks
        .into_iter()
        .find(|it| size(context, *it) - model.kv_bytes(context) <= room / 8)
        .unwrap_or(smallest);
    // A model that is read while it runs is read once for as many tokens as have a sixteenth of the memory for their
    // states.
    let state = (model.config().hidden_size * size_of::<f32>()) as u64;
    let most_states = (room / 16 / state.max(1)) as usize;
    // Fewer layers ahead, then shorter passes.
    let mut tries = vec![(chunk, window)];
    tries.extend((1..window).rev().map(|window| (chunk, window)));
    tries.extend((1..=window).rev().map(|window| (smallest, window)));
    let mut last = None;
    for (chunk, window) in tries {
        let chunk = chunk.min(context);
        let weights = room.saturating_sub(size(context, chunk));
        match fit(weights, window) {
            Ok((preservation, experts)) => {
                let plan =
                    Plan { context, chunk, states: chunk, rows, window, preservation, experts };
                // Experts are read for every chunk, however long a pass is.
                if plan.preservation.streamed_total() == 0 || experts > 0 {
                    return Ok(plan);
                }
                let states = most_states.clamp(chunk, context);
                let more = (states - chunk) as u64 * state;
                let weights = weights.saturating_sub(more);
                return Ok(match fit(weights, window) {
                    Ok((preservation, _)) => Plan { states, preservation, ..plan },
                    Err(_) => plan,
                });
            }
            Err(error) => last = Some((error, chunk)),
        }
    }
    Err(match last {
        Some((error, chunk)) => refused(error, size(context, chunk) + bytes, budget),
        None => Error::Budget { least: 0, budget: budget >> 20 },
    })
}

/// Why not even the last try fits, with the least memory that would do: `fixed` is what it takes beside the weights.
fn refused(error: riddle_offload::Error, fixed: u64, budget: u64) -> Error {
    let riddle_offload::Error::Budget { smallest, .. } = error else { return error.into() };
    let least = smallest + fixed + held_bytes() + UNSEEN_BYTES;
    Error::Budget { least: least.div_ceil(1 << 20), budget: budget >> 20 }
}

/// A context that nobody has asked for: it takes no more than a quarter of what there is.
fn shortened(model: &LanguageModel, mut context: usize, room: u64) -> usize {
    while context > SHORTEST_CONTEXT && model.kv_bytes(context) > room / 4 {
        context = (context / 2).max(SHORTEST_CONTEXT);
    }
    context
}

/// Bytes beside the weights: keys and values, scratch, states, logits.
pub(super) fn fixed_bytes(
    model: &LanguageModel,
    threads: usize,
    context: usize,
    chunk: usize,
    rows: usize,
) -> u64 {
    let size = LanguageScratchSize { tokens: chunk.min(context), context, threads };
    let config = model.config();
    let states =
        (size.tokens.max(MOST_AS_ONE) + rows) * config.hidden_size + rows * config.vocab_size;
    model.kv_bytes(size.context) + model.scratch_bytes(size) + (states * size_of::<f32>()) as u64
}

/// Bytes that the process has in memory already, 0 where the system does not tell.
fn held_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|it| it.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kilobytes.unwrap_or(0) << 10
}
