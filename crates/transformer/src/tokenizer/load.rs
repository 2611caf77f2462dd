//! Reads `tokenizer.json` piece by piece: the vocabulary goes from the file into two flat arrays, since a JSON
//! tree of it, which is what the library reads, takes a hundred megabytes.

use std::{
    fmt,
    fs::File,
    io::{BufReader, Read as _, Seek as _},
    path::Path,
};

use riddle_weights::open_file;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor},
};
use tokenizers::{
    AddedToken, DecoderWrapper, ModelWrapper, NormalizerWrapper, PostProcessorWrapper,
    PreTokenizerWrapper, TokenizerBuilder, TokenizerImpl,
};

use super::{
    bpe::{self, Bpe},
    dictionary::Pieces,
    model::AnyModel,
    unigram::Unigram,
    wordpiece::WordPiece,
};

/// Largest file: the largest vocabularies in use take some 35 MiB, and what is built from a file is bounded by
/// its size.
const LARGEST_FILE: u64 = 64 << 20;

/// The library's tokenizer around our model. It neither pads nor truncates, whatever the file says.
pub(super) type Inner = TokenizerImpl<
    AnyModel,
    NormalizerWrapper,
    PreTokenizerWrapper,
    PostProcessorWrapper,
    DecoderWrapper,
>;

/// A tokenizer file.
///
/// # Errors
/// Why it can not be used.
pub(super) fn load(path: &Path) -> Result<Inner, String> {
    let mut file = open_file(path).map_err(|error| unreadable(&error))?;
    let size = file.metadata().map_err(|error| unreadable(&error))?.len();
    if size > LARGEST_FILE {
        return Err(format!(
            "it has {size} bytes, a tokenizer at most {LARGEST_FILE}: fetch the model again"
        ));
    }
    let content: Content<ModelParts> = parse(&mut file)?;
    if content.version.as_deref().is_some_and(|it| it != "1.0") {
        return Err("its format is not version 1.0: this program is too old for it".to_owned());
    }
    let model = match content.model.build()? {
        Some(model) => model,
        None => {
            file.rewind().map_err(|error| unreadable(&error))?;
            AnyModel::Library(Box::new(parse::<OnlyModel>(&mut file)?.model))
        }
    };
    let mut inner: Inner = TokenizerBuilder::new()
        .with_model(model)
        .with_normalizer(content.normalizer)
        .with_pre_tokenizer(content.pre_tokenizer)
        .with_post_processor(content.post_processor)
        .build()
        .map_err(|error| unreadable(&error))?;
    // Numbered as the library numbers them: by the vocabulary, and after it.
    inner.add_tokens(content.added_tokens).map_err(|error| unreadable(&error))?;
    Ok(inner)
}

fn unreadable(error: &impl fmt::Display) -> String {
    format!("not a tokenizer this program can read ({error}): fetch the model again")
}

fn parse<T: DeserializeOwned>(file: &mut File) -> Result<T, String> {
    // The file can grow after it was measured.
    let reader = BufReader::with_capacity(1 << 16, file.take(LARGEST_FILE));
    serde_json::from_reader(reader).map_err(|error| unreadable(&error))
}

/// A tokenizer's file, without padding and truncation (we do these ourselves) and the decoder (which is not needed).
#[derive(Deserialize)]
struct Content<M> {
    version: Option<String>,
    #[serde(default)]
    added_tokens: Vec<AddedToken>,
    normalizer: Option<NormalizerWrapper>,
    pre_tokenizer: Option<PreTokenizerWrapper>,
    post_processor: Option<PostProcessorWrapper>,
    model: M,
}

/// A second look at the file for a model that is not one of ours.
#[derive(Deserialize)]
struct OnlyModel {
    model: ModelWrapper,
}

/// The fields of all kinds of models.
#[derive(Deserialize)]
struct ModelParts {
    #[serde(rename = "type")]
    kind: Option<String>,
    vocab: Option<Vocabulary>,
    merges: Option<Merges>,
    unk_id: Option<usize>,
    unk_token: Option<String>,
    fuse_unk: Option<bool>,
    byte_fallback: Option<bool>,
    ignore_merges: Option<bool>,
    dropout: Option<f32>,
    continuing_subword_prefix: Option<String>,
    end_of_word_suffix: Option<String>,
    max_input_chars_per_word: Option<usize>,
}

impl ModelParts {
    /// None for what only the library knows: other kinds, files so old that they do not name the kind, marks at
    /// the ends of words, dropout.
    fn build(self) -> Result<Option<AnyModel>, String> {
        let is_marked = |mark: &Option<String>| mark.as_ref().is_some_and(|it| !it.is_empty());
        let has_marks = is_marked(&self.continuing_subword_prefix)
            || is_marked(&self.end_of_word_suffix)
            || self.dropout.is_some();
        let byte_fallback = self.byte_fallback.unwrap_or(false);
        Ok(match (self.kind.as_deref(), self.vocab, self.merges) {
            (Some("Unigram"), Some(Vocabulary::Scores { pieces, scores }), _) => {
                let model = Unigram::new(&pieces, scores, self.unk_id, byte_fallback)?;
                Some(AnyModel::Unigram(model))
            }
            (Some("BPE"), Some(Vocabulary::Ids { pieces, ids }), Some(merges)) if !has_marks => {
                let options = bpe::Options {
                    unknown: self.unk_token,
                    fuse_unknown: self.fuse_unk.unwrap_or(false),
                    byte_fallback,
                    ignore_merges: self.ignore_merges.unwrap_or(false),
                };
                Some(AnyModel::Bpe(Bpe::new(pieces, ids, &merges.0, options)?))
            }
            (Some("WordPiece"), Some(Vocabulary::Ids { pieces, ids }), None) => {
                let (Some(unknown), Some(mark), Some(most)) =
                    (self.unk_token, self.continuing_subword_prefix, self.max_input_chars_per_word)
                else {
                    return Ok(None);
                };
                let model = WordPiece::new(&pieces, &ids, &unknown, &mark, most)?;
                Some(AnyModel::WordPiece(model))
            }
            _ => None,
        })
    }
}

/// `{"piece": id, …}` or `[["piece", score], …]`.
enum Vocabulary {
    Ids { pieces: Pieces, ids: Vec<u32> },
    Scores { pieces: Pieces, scores: Vec<f64> },
}

impl<'de> Deserialize<'de> for Vocabulary {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Vocabulary, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Vocabulary;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("pieces with their ids, or a list of pieces and their scores")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vocabulary, A::Error> {
                let (mut pieces, mut ids) = (Pieces::default(), Vec::new());
                while map.next_key_seed(Append(&mut pieces))?.is_some() {
                    ids.push(map.next_value()?);
                }
                Ok(Vocabulary::Ids { pieces, ids })
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vocabulary, A::Error> {
                let (mut pieces, mut scores) = (Pieces::default(), Vec::new());
                while let Some(score) = list.next_element_seed(Scored(&mut pieces))? {
                    scores.push(score);
                }
                Ok(Vocabulary::Scores { pieces, scores })
            }
        }
        deserializer.deserialize_any(Read)
    }
}

/// Both sides of each merge, one after the other.
struct Merges(Pieces);

impl<'de> Deserialize<'de> for Merges {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Merges, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Merges;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of merges")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Merges, A::Error> {
                let mut sides = Pieces::default();
                let mut spelling = None;
                while let Some(this) = list.next_element_seed(Merged(&mut sides))? {
                    if *spelling.get_or_insert(this) != this {
                        return Err(A::Error::custom("merges are spelled in two ways"));
                    }
                }
                Ok(Merges(sides))
            }
        }
        deserializer.deserialize_seq(Read)
    }
}

/// Appends a string to pieces without an allocation of its own.
struct Append<'a>(&'a mut Pieces);

impl<'de> DeserializeSeed<'de> for Append<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Append<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a piece of text")
    }

    fn visit_str<E: serde::de::Error>(self, piece: &str) -> Result<(), E> {
        if self.0.push(piece) { Ok(()) } else { Err(E::custom("too much text")) }
    }
}

/// `["piece", score]`.
struct Scored<'a>(&'a mut Pieces);

impl<'de> DeserializeSeed<'de> for Scored<'_> {
    type Value = f64;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<f64, D::Error> {
        deserializer.deserialize_tuple(2, self)
    }
}

impl<'de> Visitor<'de> for Scored<'_> {
    type Value = f64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a piece of text and its score")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut pair: A) -> Result<f64, A::Error> {
        let piece = pair.next_element_seed(Append(self.0))?;
        let score = pair.next_element()?;
        piece.and(score).ok_or_else(|| A::Error::invalid_length(0, &"a piece and its score"))
    }
}

/// How a file spells its merges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spelling {
    /// `["a", "b"]`
    Pair,
    /// `"a b"`
    Line,
}

/// One merge. Both sides are appended.
struct Merged<'a>(&'a mut Pieces);

impl<'de> DeserializeSeed<'de> for Merged<'_> {
    type Value = Spelling;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Spelling, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Merged<'_> {
    type Value = Spelling;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a merge, \"a b\" or [\"a\", \"b\"]")
    }

    fn visit_str<E: serde::de::Error>(self, line: &str) -> Result<Spelling, E> {
        // The first line of a merges.txt, which has no rank.
        if line.starts_with("#version") {
            return Ok(Spelling::Line);
        }
        let Some((left, right)) = line.split_once(' ').filter(|(_, it)| !it.contains(' ')) else {
            return Err(E::custom(format!("{line:?} is not a merge of two parts")));
        };
        Append(self.0).visit_str(left)?;
        Append(self.0).visit_str(right)?;
        Ok(Spelling::Line)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut pair: A) -> Result<Spelling, A::Error> {
        let left = pair.next_element_seed(Append(self.0))?;
        let right = pair.next_element_seed(Append(self.0))?;
        // An array of more than two ends with an error of its own: the rest is not read.
        left.and(right).ok_or_else(|| A::Error::custom("a merge has two parts"))?;
        Ok(Spelling::Pair)
    }
}
