//! Rerankers of sentence-transformers whose model has no head of its own: pooling, dense layers and norms give the
//! score (the Ettin rerankers, Aarsen 2026).

use std::path::Path;

use riddle_weights::{Checkpoint, LayeredCheckpoint, TensorInfo};

use crate::{
    CrossEncoder, Error, Modules, OpenOptions, Pooling, RaggedBatch, Result, ScoredToken, Scratch,
    ScratchShape, Sizes, Span, Template, TextEncoder, model::open_text_encoder,
    modules::must_be_flat, operation::Operation,
};

/// A text encoder whose [`Modules`] end in one number.
#[derive(Debug)]
pub struct ModularCrossEncoder {
    encoder: Box<dyn TextEncoder>,
    modules: Modules,
}

impl ModularCrossEncoder {
    /// Opens a model directory: reads configuration, headers and the small tensors, no layer.
    ///
    /// # Errors
    /// What is missing, damaged, contradictory or not supported, by name; [`Error::NoHead`] when its modules give no
    /// score.
    pub fn open(dir: &Path, options: OpenOptions) -> Result<ModularCrossEncoder> {
        must_be_flat(dir)?;
        let encoder = open_text_encoder(dir, options)?;
        let modules = Modules::open(dir, encoder.sizes().hidden_size)?;
        if modules.outputs() != 1 {
            let why = format!("its modules give {} numbers and not one", modules.outputs());
            return Err(Error::NoHead { dir: dir.to_path_buf(), why });
        }
        Ok(ModularCrossEncoder { encoder, modules })
    }
}

impl TextEncoder for ModularCrossEncoder {
    fn sizes(&self) -> Sizes {
        self.encoder.sizes()
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
        self.encoder.resident_bytes() + self.modules.bytes()
    }

    fn fingerprint(&self) -> Vec<u8> {
        [self.encoder.fingerprint(), self.modules.fingerprint()].concat()
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

impl CrossEncoder for ModularCrossEncoder {
    fn template(&self) -> Template {
        Template::Pair
    }

    fn scored_token(&self) -> ScoredToken {
        match (self.modules.poolings(), self.encoder.gathered_token()) {
            ([Pooling::First], ScoredToken::First) => ScoredToken::First,
            ([Pooling::Last], ScoredToken::Last) => ScoredToken::Last,
            _ => ScoredToken::All,
        }
    }

    fn scores(&self, _layer: usize, cu_seqlens: &[usize], hidden: &[f32], out: &mut Vec<f32>) {
        let _span = Operation::Head.enter();
        let width = self.sizes().hidden_size;
        for sequence in cu_seqlens.windows(2) {
            let mut states = hidden[sequence[0] * width..sequence[1] * width].to_vec();
            self.encoder.finish(&mut states);
            out.extend(self.modules.apply(&states));
        }
    }
}
