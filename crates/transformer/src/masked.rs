//! The head of a masked language model, read as SPLADE does: how strongly a text suggests each term of the vocabulary
//! (Formal, Lassance, Piwowarski, Clinchant 2021, "SPLADE v2", equation 6).
//!
//! A term's weight is the largest of ln(1 + relu(logit)) over the text's tokens, the marks around it included, as
//! sentence-transformers' `SpladePooling` computes it. The function grows with the logit, so the largest logit is
//! looked for and all else is done once per term. Tokens × vocabulary are the cost of such a model and would be its
//! memory, too: the product is made in pieces that stay in a core's cache, and of each only the largest numbers are
//! kept.

use std::ops::Range;

use riddle_kernels::{
    Finish, Int8Matrix, Matrix, PanelUse, Panels, Part, Precision, Products, Rounding, int8_bytes,
    join, layer_norm, pack_int8_as_it_is, products, zeros,
};
use riddle_weights::{BertFamily, Format};

use crate::{
    Bert, Error, Result,
    layer::{bytes_of, read},
    operation::Operation,
};

/// Tokens of a piece of the product.
const PIECE_TOKENS: usize = 128;

/// Terms of a piece of the product; with its tokens half a megabyte of logits, which a core's L2 holds beside weights.
const PIECE_TERMS: usize = 1024;

/// Terms begin a part at whole blocks of packed weights.
const PART_TERMS: usize = 16;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Transform and decoder of `BertForMaskedLM`.
#[derive(Debug)]
pub struct MaskedLanguageHead {
    dense: Vec<f32>,
    dense_bias: Vec<f32>,
    gain: Vec<f32>,
    norm_bias: Vec<f32>,
    epsilon: f32,
    decoder: Decoder,
    bias: Vec<f32>,
}

/// The decoder's matrix `[terms, width]`.
#[derive(Debug)]
enum Decoder {
    /// As published.
    Plain(Vec<f32>),
    /// Packed into bytes, from this place of the memory on.
    Packed { memory: Vec<u8>, start: usize },
}

/// Memory that the head works in.
#[derive(Debug)]
pub struct MaskedScratch {
    states: Vec<f32>,
    panels: Panels,
    shares: Vec<Share>,
}

/// A thread's share of it.
#[derive(Debug)]
struct Share {
    logits: Vec<f32>,
    panels: Panels,
}

/// Neighboring terms, and what is known of them in every sequence.
struct Terms<'a> {
    range: Range<usize>,
    best: Vec<&'a mut [f32]>,
    share: &'a mut Share,
}

/// The name of a part of the head in a checkpoint.
fn part(name: &str) -> String {
    format!("cls.predictions.{name}")
}

impl Bert {
    /// Checks that there is a head over the vocabulary, without reading it.
    ///
    /// # Errors
    /// [`Error::NoTermWeights`] when there is none, or the model is of another family.
    pub fn check_masked_language_head(&self) -> Result<()> {
        self.masked_bias().map(drop)
    }

    /// The name of its bias, which two forms of the checkpoint call differently.
    fn masked_bias(&self) -> Result<String> {
        let checkpoint = self.checkpoint();
        let refuse = |why: &str| Error::NoTermWeights {
            dir: checkpoint.dir().to_path_buf(),
            why: why.to_owned(),
        };
        if self.config().family != BertFamily::Bert {
            return Err(refuse("only those of the family \"bert\" are supported"));
        }
        let bias =
            ["bias", "decoder.bias"].map(part).into_iter().find(|it| checkpoint.contains(it));
        bias.filter(|_| checkpoint.contains(&part("transform.dense.weight")))
            .ok_or_else(|| refuse("it has no head over its vocabulary (BertForMaskedLM)"))
    }

    /// The head of `BertForMaskedLM`; its decoder is packed into bytes where the layers are.
    ///
    /// # Errors
    /// [`Error::NoTermWeights`] when the model has none, or is of another family; when it can not be read.
    pub fn masked_language_head(&self) -> Result<MaskedLanguageHead> {
        let bias = self.masked_bias()?;
        let (config, checkpoint) = (self.config(), self.checkpoint());
        let (width, terms) = (config.hidden_size, config.vocab_size);
        // Tied to the token embeddings unless it has weights of its own.
        let untied = part("decoder.weight");
        let table = if checkpoint.contains(&untied) { &untied } else { &self.token_table().name };
        let decoder = read(checkpoint, table, &[terms, width])?;
        let packed = self.layers().layers().iter().flat_map(|it| it.matrix_formats());
        let decoder = if { packed }.any(|it| it == Format::Int8) {
            Decoder::pack(&decoder, terms, width)
        } else {
            Decoder::Plain(decoder)
        };
        let read = |it: &str, shape: &[usize]| read(checkpoint, &part(it), shape);
        Ok(MaskedLanguageHead {
            dense: read("transform.dense.weight", &[width, width])?,
            dense_bias: read("transform.dense.bias", &[width])?,
            gain: read("transform.LayerNorm.weight", &[width])?,
            norm_bias: read("transform.LayerNorm.bias", &[width])?,
            epsilon: config.layer_norm_eps,
            decoder,
            bias: crate::layer::read(checkpoint, &bias, &[terms])?,
        })
    }
}

impl Decoder {
    fn pack(weights: &[f32], terms: usize, width: usize) -> Decoder {
        const WHY: &str = "sizes of a model that was opened fit: this is a bug";
        let bytes = int8_bytes(terms, width).expect(WHY);
        let mut memory = vec![0; bytes + LINE];
        let start = memory.as_ptr().align_offset(LINE).min(LINE);
        pack_int8_as_it_is(weights, terms, width, &mut memory[start..start + bytes]).expect(WHY);
        Decoder::Packed { memory, start }
    }

    fn matrix(&self, terms: usize, width: usize) -> Matrix<'_> {
        match self {
            Decoder::Plain(weights) => Matrix::F32(weights),
            Decoder::Packed { memory, start } => {
                let packed = &memory[*start..memory.len() - (LINE - start)];
                let matrix = Int8Matrix::new(packed, terms, width);
                Matrix::Int8(matrix.expect("as long as it was made: this is a bug"))
            }
        }
    }

    fn panel_use(&self) -> PanelUse {
        match self {
            Decoder::Plain(_) => PanelUse::Any,
            Decoder::Packed { .. } => PanelUse::Packed,
        }
    }
}

impl MaskedScratch {
    /// Memory for `head` on `threads` threads.
    pub fn new(head: &MaskedLanguageHead, threads: usize) -> MaskedScratch {
        let width = head.width();
        let share = || Share {
            logits: zeros(PIECE_TOKENS * PIECE_TERMS),
            panels: Panels::new(width, threads, head.decoder.panel_use()),
        };
        MaskedScratch {
            states: Vec::new(),
            panels: Panels::new(width, threads, PanelUse::Any),
            shares: (0..threads.max(1)).map(|_| share()).collect(),
        }
    }
}

impl MaskedLanguageHead {
    /// Terms of the vocabulary.
    pub fn terms(&self) -> usize {
        self.bias.len()
    }

    fn width(&self) -> usize {
        self.dense_bias.len()
    }

    /// Bytes of its weights.
    pub fn bytes(&self) -> u64 {
        let decoder = match &self.decoder {
            Decoder::Plain(weights) => size_of_val(&weights[..]),
            Decoder::Packed { memory, .. } => memory.len(),
        };
        let rest = [&self.dense, &self.dense_bias, &self.gain, &self.norm_bias, &self.bias];
        decoder as u64 + bytes_of(&rest)
    }

    /// Weights of all terms in every sequence, into `weights` `[sequences, terms]`. `hidden` `[tokens, width]` are the
    /// states after the last layer. Runs on the current pool's threads.
    ///
    /// # Panics
    /// When a slice is shorter than its shape says: the caller's bug.
    pub fn weights(
        &self,
        cu_seqlens: &[usize],
        hidden: &[f32],
        weights: &mut [f32],
        scratch: &mut MaskedScratch,
    ) {
        let _span = Operation::Head.enter();
        let (width, terms) = (self.width(), self.terms());
        let tokens = cu_seqlens.last().copied().unwrap_or(0);
        let sequences = cu_seqlens.len().saturating_sub(1);
        let MaskedScratch { states, panels, shares } = scratch;
        states.resize(states.len().max(tokens * width), 0.0);
        let states = &mut states[..tokens * width];
        let dense = Part {
            weight: Matrix::F32(&self.dense),
            bias: Some(&self.dense_bias),
            outputs: width,
            offset: 0,
        };
        products(
            product(&hidden[..tokens * width], width, &[dense], Finish::Gelu),
            states,
            width,
            panels,
        );
        layer_norm(states, &self.gain, &self.norm_bias, self.epsilon);
        let weights = &mut weights[..sequences * terms];
        weights.fill(0.0);
        let mut parts = cut(weights, terms, shares);
        each(&mut parts, &|part| self.largest(cu_seqlens, states, part));
        for weight in weights.iter_mut().filter(|it| **it > 0.0) {
            *weight = weight.ln_1p();
        }
    }

    /// The largest logits of some terms, where they are positive.
    fn largest(&self, cu_seqlens: &[usize], states: &[f32], part: &mut Terms<'_>) {
        let width = self.width();
        let matrix = self.decoder.matrix(self.terms(), width);
        let Share { logits, panels } = &mut *part.share;
        for (piece, rows) in states.chunks(PIECE_TOKENS * width).enumerate() {
            let first = piece * PIECE_TOKENS;
            let tokens = first..first + rows.len() / width;
            for start in part.range.clone().step_by(PIECE_TERMS) {
                let terms = start..(start + PIECE_TERMS).min(part.range.end);
                let columns = terms.len();
                let product_part = Part {
                    weight: matrix.rows(terms.clone(), width),
                    bias: Some(&self.bias[terms.clone()]),
                    outputs: columns,
                    offset: 0,
                };
                let out = &mut logits[..tokens.len() * columns];
                products(
                    product(rows, width, &[product_part], Finish::Store),
                    out,
                    columns,
                    panels,
                );
                let place = start - part.range.start;
                for (best, ends) in part.best.iter_mut().zip(cu_seqlens.windows(2)) {
                    let of = ends[0].max(tokens.start)..ends[1].min(tokens.end);
                    for token in of {
                        let row = &out[(token - first) * columns..][..columns];
                        raise(&mut best[place..place + columns], row);
                    }
                }
            }
        }
    }
}

fn product<'a>(
    x: &'a [f32],
    inputs: usize,
    parts: &'a [Part<'a>],
    finish: Finish<'a>,
) -> Products<'a> {
    let (precision, rounding) = (Precision::F32, Rounding::ByCount);
    Products { x, inputs, parts, precision, rounding, finish }
}

/// Takes what is larger.
fn raise(best: &mut [f32], row: &[f32]) {
    for (best, &value) in best.iter_mut().zip(row) {
        // Not `f32::max`, which asks about numbers that are none.
        *best = if value > *best { value } else { *best };
    }
}

/// As many parts of the terms as there are shares, as equal as whole blocks can be.
fn cut<'a>(weights: &'a mut [f32], terms: usize, shares: &'a mut [Share]) -> Vec<Terms<'a>> {
    let size = terms.div_ceil(shares.len()).next_multiple_of(PART_TERMS).max(PART_TERMS);
    let mut parts: Vec<Terms<'a>> = shares
        .iter_mut()
        .zip((0..terms).step_by(size))
        .map(|(share, start)| Terms {
            range: start..(start + size).min(terms),
            best: Vec::new(),
            share,
        })
        .collect();
    for row in weights.chunks_mut(terms.max(1)) {
        for (part, columns) in parts.iter_mut().zip(row.chunks_mut(size)) {
            part.best.push(columns);
        }
    }
    parts
}

/// Does all parts, side by side where there are threads.
fn each(parts: &mut [Terms<'_>], work: &(impl Fn(&mut Terms<'_>) + Sync)) {
    match parts {
        [] => {}
        [one] => work(one),
        several => {
            let (a, b) = several.split_at_mut(several.len() / 2);
            join(|| each(a, work), || each(b, work));
        }
    }
}
