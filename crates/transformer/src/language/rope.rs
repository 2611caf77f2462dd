//! Angles of rotary positions (RoPE, Su et al. 2021), for the tokens of one pass.

use riddle_weights::{LanguageConfig, LanguageFamily, RopeScaling};

use super::tensors::Finder;
use crate::Result;

/// Frequencies of a model's layers.
#[derive(Debug)]
pub(crate) struct Rope {
    /// Of layers that see everything, and of those that see a window if theirs are others.
    frequencies: [Vec<f32>; 2],
    /// LongRoPE (Ding et al. 2024): frequencies beyond the context that the model was made for at first.
    long: Option<(usize, Vec<f32>)>,
    /// These are in use.
    is_long: bool,
    magnitude: f32,
}

/// Cosines and sines `[tokens, half]` of a pass, of layers that see everything and of those that see a window.
#[derive(Debug)]
pub(crate) struct Angles {
    pub(crate) cos: [Vec<f32>; 2],
    pub(crate) sin: [Vec<f32>; 2],
}

impl Rope {
    pub(super) fn open(finder: &Finder<'_>, config: &LanguageConfig) -> Result<Rope> {
        let half = config.rotary_dim / 2;
        let scale = match config.rope_scaling {
            RopeScaling::None => 1.0,
            RopeScaling::Linear(factor) => 1.0 / factor,
        };
        let of = |theta: f32| -> Vec<f32> {
            (0..half).map(|i| theta.powf(-((2 * i) as f32) / config.rotary_dim as f32)).collect()
        };
        let divided = |factors: &[f32]| -> Vec<f32> {
            of(config.rope_theta)
                .iter()
                .zip(factors)
                .map(|(it, factor)| scale * it / factor)
                .collect()
        };
        let mut global: Vec<f32> = of(config.rope_theta).iter().map(|it| scale * it).collect();
        let mut long = None;
        if config.family == LanguageFamily::Phi3 {
            let short = finder.optional_vector("rope_factors_short.weight", half)?;
            let wide = finder.optional_vector("rope_factors_long.weight", half)?;
            if let (Some(short), Some(wide)) = (short, wide) {
                global = divided(&short);
                long = Some((config.original_context_length, divided(&wide)));
            }
        } else if let Some(factors) = finder.optional_vector("rope_freqs.weight", half)? {
            global = divided(&factors);
        }
        let local = if config.family == LanguageFamily::Gemma3 {
            of(config.local_rope_theta)
        } else {
            Vec::new()
        };
        Ok(Rope {
            frequencies: [global, local],
            long,
            is_long: false,
            magnitude: config.rope_magnitude,
        })
    }

    /// Chooses LongRoPE's frequencies for so many tokens.
    pub(super) fn choose(&mut self, tokens: usize) {
        self.is_long = self.long.as_ref().is_some_and(|(original, _)| tokens > *original);
    }

    /// Which frequencies are in use.
    pub(super) fn variant(&self) -> &'static str {
        if self.is_long { "long positions" } else { "positions" }
    }

    /// Frequencies of layers that see everything, and of those that see a window if theirs are others.
    fn in_use(&self) -> [&[f32]; 2] {
        let [global, local] = &self.frequencies;
        match &self.long {
            Some((_, long)) if self.is_long => [long, local],
            _ => [global, local],
        }
    }

    /// Elements of the angles of so many tokens.
    pub(super) fn len(&self, tokens: usize) -> usize {
        self.frequencies.iter().map(|it| 2 * it.len() * tokens).sum()
    }

    pub(super) fn angles(&self, tokens: usize) -> Angles {
        let empty = || self.frequencies.each_ref().map(|it| vec![0.0; it.len() * tokens]);
        Angles { cos: empty(), sin: empty() }
    }

    pub(super) fn fill(&self, first: usize, tokens: usize, angles: &mut Angles) {
        for (kind, frequencies) in self.in_use().into_iter().enumerate() {
            let half = frequencies.len().max(1);
            let cos = angles.cos[kind].chunks_exact_mut(half);
            let sin = angles.sin[kind].chunks_exact_mut(half);
            for (position, (cos, sin)) in (first..first + tokens).zip(cos.zip(sin)) {
                for ((cos, sin), frequency) in cos.iter_mut().zip(sin).zip(frequencies) {
                    let (s, c) = (position as f32 * frequency).sin_cos();
                    (*cos, *sin) = (c * self.magnitude, s * self.magnitude);
                }
            }
        }
    }
}

impl Angles {
    /// Cosines and sines of a layer.
    pub(super) fn of(&self, local: bool) -> (&[f32], &[f32]) {
        let kind = usize::from(local && !self.cos[1].is_empty());
        (&self.cos[kind], &self.sin[kind])
    }
}
