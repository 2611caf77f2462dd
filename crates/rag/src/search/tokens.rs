//! Numbers of tokens as the text that they were cut from: programs that count with a model's tokenizer send what they
//! have counted.

use std::{fs, path::Path};

use riddle_types::TokenCounter;
use serde_json::Value;

use super::reader::Assistant;
use crate::contract::{Error, Result};

/// Largest `tokenizer.json` that is read: those of a quarter of a million tokens have 17 MB.
const LARGEST: u64 = 64 << 20;

/// What begins a word in vocabularies that keep spaces.
const SPACE: char = '\u{2581}';

/// Marks of the beginning and the end, which an embedder sets itself.
const MARKS: [&str; 6] = ["[CLS]", "[SEP]", "<s>", "</s>", "[PAD]", "<pad>"];

/// A vocabulary by number.
enum Vocabulary {
    /// Words, and their continuations behind a prefix.
    Pieces(Vec<String>, String),
    /// Pieces that keep their spaces.
    Spaced(Vec<String>),
}

impl Assistant {
    /// The texts that the embedder's own tokenizer cuts into these tokens.
    ///
    /// # Errors
    /// There is no embedder; its vocabulary can not be read back; a number that none of its tokens has; numbers that no
    /// text is cut into, because they are of another tokenizer.
    pub fn texts_of_tokens(&self, tokens: &[Vec<u32>]) -> Result<Vec<String>> {
        let bad = |why: String| Error::BadRequest(why.into());
        self.only_here()?;
        let embedder = self.embedder.get(&self.config)?;
        let embedder = embedder.ok_or_else(|| bad("there is no embedding model".to_owned()))?;
        let name = crate::home::embedder::encoder_name(embedder.id());
        let dir = self.config.model_dir(name)?;
        let folder = riddle_embedding::model_folder(&dir)
            .map_err(|source| Error::BadModel { dir: dir.clone(), source: source.into() })?;
        let vocabulary = Vocabulary::read(&folder.join("tokenizer.json"))?;
        let vocabulary = vocabulary.ok_or_else(|| {
            bad(format!("the tokens of {name} can not be read back: send the text"))
        })?;
        let text = |ids: &Vec<u32>| vocabulary.text(ids, embedder.token_counter());
        let texts = tokens.iter().map(text).collect::<Result<Vec<String>, String>>();
        texts.map_err(|why| {
            bad(format!("{why}: these are no tokens of {name}; send its own, or the text"))
        })
    }
}

impl Vocabulary {
    /// `None` for a tokenizer of bytes, or of a kind that is not known.
    fn read(path: &Path) -> Result<Option<Vocabulary>> {
        let io = |source| Error::Io { path: path.to_path_buf(), source };
        if fs::metadata(path).map_err(io)?.len() > LARGEST {
            return Ok(None);
        }
        let value = serde_json::from_slice(&fs::read(path).map_err(io)?);
        Ok(value.ok().and_then(|it| Vocabulary::of(&it)))
    }

    fn of(tokenizer: &Value) -> Option<Vocabulary> {
        let model = &tokenizer["model"];
        let vocabulary = &model["vocab"];
        if let Some(listed) = vocabulary.as_array() {
            let pieces = listed.iter().map(|it| it[0].as_str().map(str::to_owned));
            return Some(Vocabulary::Spaced(pieces.collect::<Option<_>>()?));
        }
        let prefix = model["continuing_subword_prefix"].as_str().filter(|_| {
            // What merges pieces is no vocabulary of words.
            model["merges"].is_null()
        })?;
        let numbered = vocabulary.as_object()?;
        let mut pieces = vec![String::new(); numbered.len()];
        for (piece, number) in numbered {
            let place = usize::try_from(number.as_u64()?).ok()?;
            pieces.get_mut(place)?.clone_from(piece);
        }
        Some(Vocabulary::Pieces(pieces, prefix.to_owned()))
    }

    /// The text, held against the tokenizer: as many tokens as there are numbers, or they are not its own.
    fn text(&self, ids: &[u32], counter: &dyn TokenCounter) -> Result<String, String> {
        let (Vocabulary::Pieces(all, _) | Vocabulary::Spaced(all)) = self;
        let piece = |id: &u32| {
            let found = usize::try_from(*id).ok().and_then(|it| all.get(it));
            found
                .map(String::as_str)
                .ok_or_else(|| format!("there is no token {id} of {}", all.len()))
        };
        let pieces = ids.iter().map(piece).collect::<Result<Vec<&str>, String>>()?;
        let pieces: Vec<&str> = pieces.into_iter().filter(|it| !MARKS.contains(it)).collect();
        let text = match self {
            Vocabulary::Spaced(_) => pieces.concat().replace(SPACE, " ").trim().to_owned(),
            Vocabulary::Pieces(_, prefix) => {
                let mut text = String::new();
                for piece in &pieces {
                    match piece.strip_prefix(prefix.as_str()) {
                        Some(rest) if !text.is_empty() && !rest.is_empty() => text.push_str(rest),
                        _ => {
                            text.push(' ');
                            text.push_str(piece);
                        }
                    }
                }
                text.trim_start().to_owned()
            }
        };
        if text.is_empty() {
            return Err("the tokens hold no text".to_owned());
        }
        let count = counter.count(&text);
        if count != pieces.len() {
            return Err(format!("{} tokens make a text of {count}", pieces.len()));
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Cuts at spaces, and words longer than four letters into two.
    struct Counter;

    impl TokenCounter for Counter {
        fn count(&self, text: &str) -> usize {
            text.split_whitespace().map(|it| if it.len() > 4 { 2 } else { 1 }).sum()
        }
    }

    #[test]
    fn words_are_put_together_and_foreign_numbers_found_out() {
        let tokenizer = json!({"model": {
            "type": "WordPiece", "continuing_subword_prefix": "##",
            "vocab": {"[PAD]": 0, "[CLS]": 1, "[SEP]": 2, "the": 3, "blue": 4, "##ness": 5},
        }});
        let pieces = Vocabulary::of(&tokenizer).expect("a vocabulary");
        let text = |ids: &[u32]| pieces.text(ids, &Counter);
        assert_eq!(text(&[3, 4]).as_deref(), Ok("the blue"));
        assert_eq!(text(&[1, 3, 4, 5, 2, 0]).as_deref(), Ok("the blueness"));
        assert!(text(&[3, 9]).expect_err("none").contains("token 9 of 6"));
        assert!(text(&[3, 5, 5]).expect_err("no text").contains("make a text of"));
        assert!(text(&[1, 2]).is_err() && text(&[]).is_err());
        let spaced = json!({"model": {"type": "Unigram", "vocab": [["<s>", 0.0], ["▁the", -1.5], ["▁b", -2.0], ["lu", -3.0]]}});
        let spaced = Vocabulary::of(&spaced).expect("a vocabulary");
        assert_eq!(spaced.text(&[0, 1, 2], &Counter).as_deref(), Ok("the b"));
        for other in [
            json!({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}),
            json!({"model": {"vocab": {"a": 7}, "continuing_subword_prefix": "##"}}),
            json!({}),
        ] {
            assert!(Vocabulary::of(&other).is_none(), "{other}");
        }
    }
}
