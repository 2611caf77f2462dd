//! Heads of decoders that score: the difference between *yes* and *no*, or a row for each layer.

use riddle_kernels::rms_norm;
use riddle_weights::DecoderFamily;

use super::Decoder;
use crate::{
    CrossEncoder, Error, Result, ScoredToken, Template, Tokenizer,
    layer::{bytes_of, read},
    operation::Operation,
};

/// What makes a score of the state of the last token.
#[derive(Debug)]
pub(super) enum Head {
    /// It embeds.
    None,
    /// The ids of *yes* and *no* are known once the tokenizer is read.
    Unresolved,
    /// The output row of *yes* less that of *no* `[hidden]`: their logits' difference, whose sigmoid is the
    /// softmax over the two.
    YesNo(Vec<f32>),
    /// A row for each layer from `start_layer` on `[layers, hidden]`.
    Layerwise(Vec<f32>),
}

impl Head {
    /// Bytes of its weights.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Head::None | Head::Unresolved => 0,
            Head::YesNo(rows) | Head::Layerwise(rows) => bytes_of(&[rows]),
        }
    }
}

impl Decoder {
    /// The same with its family's head.
    ///
    /// # Errors
    /// [`Error::NoHead`] for a family whose models embed, and what is missing or damaged.
    pub fn with_head(self) -> Result<Decoder> {
        const SCORE: &str = "score.weight";
        let (config, checkpoint, hidden) =
            (&self.config, &self.checkpoint, self.config.hidden_size);
        let head = match config.family {
            // A yes without a no, as a classification head has it.
            DecoderFamily::Qwen3 | DecoderFamily::Qwen2 if checkpoint.contains(SCORE) => {
                Head::YesNo(read(checkpoint, SCORE, &[1, hidden])?)
            }
            DecoderFamily::Qwen3 | DecoderFamily::Qwen2 => Head::Unresolved,
            DecoderFamily::MiniCpm => {
                let heads = config.num_hidden_layers - config.start_layer + 1;
                let mut rows = Vec::with_capacity(heads * hidden);
                for head in 0..heads {
                    let name = format!("lm_head.{head}.linear_head.weight");
                    rows.extend(read(checkpoint, &name, &[1, hidden])?);
                }
                Head::Layerwise(rows)
            }
            DecoderFamily::Gemma3 => {
                let why = "no reranker of this family is known".to_owned();
                return Err(Error::NoHead { dir: checkpoint.dir().to_path_buf(), why });
            }
        };
        Ok(Decoder { head, ..self })
    }

    /// A token's row of the output matrix: the embedding table's where the two are tied, and where a
    /// checkpoint stores no matrix of its own.
    fn output_row(&self, token: u32) -> Result<Vec<f32>> {
        const OUTPUT: &str = "lm_head.weight";
        let shape = [self.config.vocab_size, self.config.hidden_size];
        let tied = self.config.tie_word_embeddings || !self.checkpoint.contains(OUTPUT);
        let matrix = if tied { &self.table } else { self.checkpoint.tensor(OUTPUT, &shape)? };
        let format = matrix.format();
        let mut raw = vec![0; format.row_bytes(self.config.hidden_size).unwrap_or(0)];
        self.checkpoint.read_rows(matrix, token as usize, &mut raw)?;
        let mut row = vec![0.0; self.config.hidden_size];
        format.widen_row(&raw, &mut row);
        Ok(row)
    }
}

impl CrossEncoder for Decoder {
    fn template(&self) -> Template {
        match self.config.family {
            DecoderFamily::Qwen3 | DecoderFamily::Gemma3 => Template::Qwen3,
            DecoderFamily::Qwen2 => Template::Qwen2,
            DecoderFamily::MiniCpm => {
                Template::MiniCpm { bos: self.config.bos_token_id.unwrap_or(1) }
            }
        }
    }

    fn shares_prefixes(&self) -> bool {
        true
    }

    fn resolve_head(&mut self, tokenizer: &Tokenizer) -> Result<()> {
        if let Head::Unresolved = self.head {
            let row = |word: &str| {
                let token = tokenizer.token_id(word).ok_or_else(|| Error::NoHead {
                    dir: self.checkpoint.dir().to_path_buf(),
                    why: format!("its tokenizer has no token {word:?}"),
                })?;
                self.output_row(token)
            };
            let (yes, no) = match self.config.family {
                DecoderFamily::Qwen2 => (row("1")?, row("0")?),
                _ => (row("yes")?, row("no")?),
            };
            self.head = Head::YesNo(yes.iter().zip(&no).map(|(yes, no)| yes - no).collect());
        }
        Ok(())
    }

    fn scored_token(&self) -> ScoredToken {
        ScoredToken::Last
    }

    fn scores(&self, layer: usize, cu_seqlens: &[usize], hidden: &[f32], out: &mut Vec<f32>) {
        let _span = Operation::Head.enter();
        let width = self.config.hidden_size;
        let row = match &self.head {
            Head::YesNo(row) => row,
            Head::Layerwise(rows) => {
                &rows[(layer + 1 - self.config.start_layer) * width..][..width]
            }
            Head::None | Head::Unresolved => {
                unreachable!("the head is resolved before the first run")
            }
        };
        let mut last = vec![0.0; width];
        for sequence in cu_seqlens.windows(2) {
            let state = &hidden[(sequence[1] - 1) * width..sequence[1] * width];
            rms_norm(state, &self.norm, self.config.rms_norm_eps, &mut last);
            out.push(last.iter().zip(row).map(|(a, b)| a * b).sum());
        }
    }
}
