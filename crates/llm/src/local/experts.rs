//! The experts of a mixture, asked layer by layer: those in memory at once, the others as they are read.

use std::ops::ControlFlow;

use riddle_kernels::{MOST_AS_ONE, Pool, Rounding};
use riddle_offload::{
    ExpertCache, ExpertLayer, ExpertTotals, LayerTensors, StreamOptions, TensorRole, TensorSpec,
};
use riddle_transformer::{ExpertTensors, GuessScratch, LanguageModel, LanguageScratch};
use riddle_types::ExpertStats;

use crate::Result;

/// Tokens that are given together so many times the experts of a layer want nearly all of them: 95 of 100 where all are
/// wanted alike, `1 − e⁻³`.
const MANY: usize = 3;

/// The experts of each layer as they lie in the file; none where feed-forward layers are no mixtures.
pub(super) fn layers(model: &LanguageModel) -> Vec<ExpertLayer> {
    let count = model.config().experts.map_or(0, |it| it.count);
    let spec = |role, offset, bytes: u64| TensorSpec { role, offset, bytes: bytes as usize };
    let layer = |it: &ExpertTensors| {
        let tensors = vec![
            spec(TensorRole::Gate, it.gate.offset, it.gate.bytes),
            spec(TensorRole::Up, it.up.offset, it.up.bytes),
            spec(TensorRole::Down, it.down.offset, it.down.bytes),
        ];
        ExpertLayer { tensors, count }
    };
    model.experts().iter().map(layer).collect()
}

/// Experts of a model that runs.
#[derive(Debug)]
pub(super) struct Experts {
    cache: ExpertCache,
    guess: GuessScratch,
    /// Experts of all layers, and of these those that a token is given.
    all: usize,
    used: usize,
    slots: usize,
}

/// A layer whose tokens have been given their experts.
pub(super) struct Asked<'a> {
    pub(super) model: &'a LanguageModel,
    pub(super) layer: usize,
    /// The tensors of the layer, and those of others that are in memory.
    pub(super) view: &'a LayerTensors<'a>,
    pub(super) pool: &'a Pool,
    pub(super) rounding: Rounding,
}

impl Experts {
    /// With memory for `slots` of them, which is filled as long as `go_on` does not break.
    ///
    /// # Errors
    /// When a file can not be opened or read, or no thread can be started; `go_on` broke.
    pub(super) fn open(
        model: &LanguageModel,
        slots: usize,
        options: StreamOptions,
        go_on: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<Option<Experts>> {
        let Some(experts) = model.config().experts else { return Ok(None) };
        let layers = layers(model);
        let num_layers = layers.len();
        let mut cache = ExpertCache::open(model.file().files(), layers, slots, options)?;
        cache.fill(go_on)?;
        Ok(Some(Experts {
            cache,
            guess: model.guess_scratch(),
            all: experts.count * num_layers,
            used: experts.used * num_layers,
            slots,
        }))
    }

    pub(super) fn resident_bytes(&self) -> u64 {
        self.cache.resident_bytes()
    }

    /// Bytes that are taken when more experts are read.
    pub(super) fn unseen_bytes(&self) -> u64 {
        self.cache.capacity_bytes() - self.cache.resident_bytes()
    }

    /// Whether experts are read again and again.
    pub(super) fn streams(&self) -> bool {
        !self.cache.holds_all()
    }

    pub(super) fn totals(&self) -> ExpertTotals {
        self.cache.totals()
    }

    /// What happened since `before`.
    pub(super) fn stats(&self, before: ExpertTotals) -> ExpertStats {
        let now = self.cache.totals();
        ExpertStats {
            all: self.all,
            held: self.slots.min(self.all),
            per_token: self.used,
            wanted: now.wanted - before.wanted,
            found: now.found - before.found,
            guessed: now.guessed - before.guessed,
            guessed_right: now.right - before.right,
        }
    }

    /// Asks the experts of the tokens whose states are `hidden`, and adds what they say.
    ///
    /// # Errors
    /// When an expert can not be read.
    pub(super) fn ask(
        &mut self,
        asked: &Asked<'_>,
        hidden: &mut [f32],
        scratch: &mut LanguageScratch,
    ) -> Result<()> {
        let &Asked { model, layer, pool, rounding, .. } = asked;
        self.cache.want(layer, model.wanted(scratch));
        self.guess(asked, hidden);
        loop {
            let ready = self.cache.ready()?;
            if ready.is_empty() {
                break;
            }
            let cache = &self.cache;
            pool.run(|| {
                for expert in ready {
                    model.expert(layer, expert, &cache.tensors(expert), scratch, rounding);
                }
            });
        }
        pool.run(|| model.add_experts(hidden, scratch));
        Ok(())
    }

    /// Lets the experts be read that the next layer may want, while this one's are asked.
    fn guess(&mut self, asked: &Asked<'_>, hidden: &[f32]) {
        let Asked { model, layer, view, pool, .. } = asked;
        let next = layer + 1;
        if !self.streams() || next >= model.layers().len() {
            return;
        }
        let Some(experts) = model.config().experts else { return };
        let tokens = hidden.len() / model.config().hidden_size.max(1);
        let wanted = if tokens * experts.used >= MANY * experts.count {
            (0..experts.count).collect()
        } else if tokens > MOST_AS_ONE {
            return;
        } else {
            let Some((router, norm)) = model.router(next) else { return };
            let locked = [router, norm].map(|it| view.locked(next, it));
            let [Some(router), Some(norm)] = locked else { return };
            pool.run(|| model.guess(next, hidden, [router, norm], &mut self.guess))
        };
        self.cache.guess(next, &wanted);
    }
}
