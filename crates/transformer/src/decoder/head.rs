//! Heads of decoders that score: the difference between *yes* and *no*, *Yes* alone, or a row for each layer.

use std::{collections::BTreeMap, path::Path};

use riddle_kernels::rms_norm;
use riddle_weights::{DecoderFamily, read_json};
use serde::Deserialize;

use super::Decoder;
use crate::{
    CrossEncoder, Error, Result, ScoredToken, Template, Tokenizer,
    layer::{bytes_of, read},
    modules::{LogitScore, logit_score},
    operation::Operation,
};

/// What zerank's logits are divided by before they are a probability (the model card of zerank-2).
const ZERANK_TEMPERATURE: f32 = 5.0;

/// The program that the first zerank models bring; what it computes is done here.
const ZERANK_PROGRAM: &str = "modeling_zeranker";

/// What makes a score of the state of the last token.
#[derive(Debug)]
pub(super) enum Head {
    /// It embeds.
    None,
    /// The ids of the words are known once the tokenizer is read.
    Unresolved(Words),
    /// What the state is multiplied with `[hidden]`. The output row of *yes* less that of *no*: their logits'
    /// difference, whose sigmoid is the softmax over the two. Or that of *Yes* alone.
    Row(Vec<f32>, Words),
    /// A row for each layer from `start_layer` on `[layers, hidden]`.
    Layerwise(Vec<f32>),
}

impl Head {
    /// Bytes of its weights.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Head::None | Head::Unresolved(_) => 0,
            Head::Row(rows, _) | Head::Layerwise(rows) => bytes_of(&[rows]),
        }
    }

    fn words(&self) -> Words {
        match self {
            Head::Unresolved(words) | Head::Row(_, words) => *words,
            Head::None | Head::Layerwise(_) => Words::Family,
        }
    }
}

/// Which tokens say that a text is relevant, and that it is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Words {
    /// Those that the family's rerankers were trained with.
    Family,
    /// Those that the model's files name.
    Named { yes: u32, no: u32 },
    /// *Yes* alone, as zerank has it; by its number, where the model's files name it.
    Yes(Option<u32>),
}

impl Words {
    /// What the files in `dir` say.
    fn of(dir: &Path) -> Result<Words> {
        Ok(match logit_score(dir)? {
            Some(LogitScore { true_token_id: yes, false_token_id: Some(no) }) => {
                Words::Named { yes, no }
            }
            Some(LogitScore { true_token_id, false_token_id: None }) => {
                Words::Yes(Some(true_token_id))
            }
            None if brings_zerank(dir)? => Words::Yes(None),
            None => Words::Family,
        })
    }
}

/// Whether the configuration in `dir` names the program of the first zerank models.
fn brings_zerank(dir: &Path) -> Result<bool> {
    #[derive(Deserialize)]
    struct Program {
        #[serde(default)]
        auto_map: Option<BTreeMap<String, serde_json::Value>>,
    }
    let program: Program = read_json(&dir.join("config.json"))?;
    let module = |it: &serde_json::Value| {
        let class = it.as_str().and_then(|it| it.rsplit_once('.'))?;
        // Behind the repository that holds it.
        class.0.rsplit("--").next().map(str::to_owned)
    };
    let named = program.auto_map.unwrap_or_default();
    Ok(named.values().any(|it| module(it).as_deref() == Some(ZERANK_PROGRAM)))
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
                Head::Row(read(checkpoint, SCORE, &[1, hidden])?, Words::Family)
            }
            DecoderFamily::Qwen3 | DecoderFamily::Qwen2 => {
                Head::Unresolved(Words::of(checkpoint.dir())?)
            }
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
            _ if matches!(self.head.words(), Words::Yes(_)) => Template::Zerank,
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
        let Head::Unresolved(words) = self.head else { return Ok(()) };
        let lacks = |what: String| Error::NoHead {
            dir: self.checkpoint.dir().to_path_buf(),
            why: format!("its tokenizer has no token {what}"),
        };
        let row = |token: Option<u32>, word: &str| {
            let token = token.filter(|it| (*it as usize) < self.config.vocab_size);
            self.output_row(token.ok_or_else(|| lacks(word.to_owned()))?)
        };
        let spelled = |word: &str| row(tokenizer.token_id(word), &format!("{word:?}"));
        let numbered = |token: u32| row(Some(token), &token.to_string());
        let less = |yes: Vec<f32>, no: Vec<f32>| yes.iter().zip(&no).map(|(a, b)| a - b).collect();
        let row = match words {
            Words::Family if self.config.family == DecoderFamily::Qwen2 => {
                less(spelled("1")?, spelled("0")?)
            }
            Words::Family => less(spelled("yes")?, spelled("no")?),
            Words::Named { yes, no } => less(numbered(yes)?, numbered(no)?),
            Words::Yes(token) => {
                // Its program takes the first token of the word.
                let token = match token {
                    Some(token) => Some(token),
                    None => tokenizer.encode_plain("Yes")?.first().copied(),
                };
                let row =
                    row(token, &token.map_or_else(|| "\"Yes\"".to_owned(), |it| it.to_string()))?;
                row.iter().map(|it| it / ZERANK_TEMPERATURE).collect()
            }
        };
        self.head = Head::Row(row, words);
        Ok(())
    }

    fn scored_token(&self) -> ScoredToken {
        ScoredToken::Last
    }

    fn scores(&self, layer: usize, cu_seqlens: &[usize], hidden: &[f32], out: &mut Vec<f32>) {
        let _span = Operation::Head.enter();
        let width = self.config.hidden_size;
        let row = match &self.head {
            Head::Row(row, _) => row,
            Head::Layerwise(rows) => {
                &rows[(layer + 1 - self.config.start_layer) * width..][..width]
            }
            Head::None | Head::Unresolved(_) => {
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

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf};

    use super::*;
    use crate::{OpenOptions, open_cross_encoder};

    fn golden(name: &str) -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name)
    }

    /// A copy of a model's files, those in folders included.
    fn copy(from: &Path, to: &Path) {
        fs::create_dir_all(to).expect("a folder");
        for entry in fs::read_dir(from).expect("a folder") {
            let path = entry.expect("an entry").path();
            let target = to.join(path.file_name().expect("a name"));
            if path.is_dir() {
                copy(&path, &target);
            } else {
                fs::copy(&path, target).expect("copied");
            }
        }
    }

    fn resolved(dir: &Path) -> Result<(Vec<f32>, Template)> {
        let mut model = Decoder::open(dir, OpenOptions::default())?.with_head()?;
        let tokenizer = Tokenizer::open(dir, 100, model.config.vocab_size)?;
        model.resolve_head(&tokenizer)?;
        let Head::Row(row, _) = &model.head else { panic!("no row") };
        Ok((row.clone(), model.template()))
    }

    #[test]
    fn zerank_is_known_by_its_module_and_by_its_first_program() {
        let temp = tempfile::tempdir().expect("temp dir");
        let dir = temp.path().join("model");
        copy(&golden("tiny-zerank-reranker"), &dir);
        let as_saved = resolved(&dir).expect("a reranker");
        assert_eq!(as_saved.1, Template::Zerank);
        fs::remove_file(dir.join("modules.json")).expect("removed");
        assert_eq!(resolved(&dir).expect("a reranker").1, Template::Qwen3);
        let path = dir.join("config.json");
        let config = fs::read_to_string(&path).expect("read");
        for module in ["modeling_zeranker", "zeroentropy/zerank-1--modeling_zeranker"] {
            let named = format!(r#"{{"auto_map":{{"AutoConfig":"{module}.ZEConfig"}},"#);
            fs::write(&path, config.replacen('{', &named, 1)).expect("written");
            assert_eq!(resolved(&dir).expect("a reranker"), as_saved, "{module}");
        }
    }

    #[test]
    fn words_may_be_named_by_their_numbers_and_others_are_refused() {
        let temp = tempfile::tempdir().expect("temp dir");
        let dir = temp.path().join("model");
        copy(&golden("tiny-zerank-reranker"), &dir);
        let tokenizer = Tokenizer::open(&dir, 100, 425).expect("a tokenizer");
        let id = |word: &str| tokenizer.token_id(word).expect("a token");
        let score = |text: &str| {
            fs::write(dir.join("1_LogitScore/config.json"), text).expect("written");
            resolved(&dir)
        };
        let (yes, no) = (id("yes"), id("no"));
        let both = score(&format!(r#"{{"true_token_id":{yes},"false_token_id":{no}}}"#));
        // As the family's rerankers have it without a module.
        let bare = temp.path().join("bare");
        copy(&dir, &bare);
        fs::remove_file(bare.join("modules.json")).expect("removed");
        assert_eq!(both.expect("a reranker"), resolved(&bare).expect("a reranker"));
        for (text, why) in [
            (r#"{"true_token_id":425}"#, "no token 425"),
            (r#"{"true_token_id":1,"false_token_id":4000000000}"#, "no token 4000000000"),
            (r#"{"true_token_id":-1}"#, "-1"),
            ("{}", "true_token_id"),
            ("not json", "config.json"),
        ] {
            let error = score(text).expect_err(why).to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        let list = r#"[{"type":"a.Transformer","path":""},{"type":"a.LogitScore","path":"../x"}]"#;
        for (list, why) in [
            (list.to_owned(), "no folder of this model"),
            (
                list.replace("../x", "1_LogitScore").replace(']', r#",{"type":"a.Other"}]"#),
                "nothing else",
            ),
            (list.replace(r#""path":"""#, r#""path":"0_Transformer""#), "nothing else"),
        ] {
            fs::write(dir.join("modules.json"), &list).expect("written");
            let error = open_cross_encoder(&dir, OpenOptions::default()).expect_err(why);
            assert!(error.to_string().contains(why), "{list}: {error}");
        }
    }
}
