//! The tokenizer of a language model, from the settings in its GGUF file.
//!
//! Two kinds: byte-level BPE (`gpt2`: Llama 3, Qwen, SmolLM and most others) and SentencePiece's BPE by scores
//! (`llama`: Llama 2, Mistral, Phi-3, Gemma). Both give the tokens that llama.cpp gives, with two exceptions.
//! Control tokens are never made of letters, only found as a whole where they are asked for: a passage can not
//! end a turn, however its letters merge. And `</s>` is a word of HTML unless the file says that it is a control
//! token: for Qwen it is one that merges make.

mod sentence;
mod special;
mod split;
#[cfg(test)]
mod tests;

use std::fmt;

use riddle_weights::gguf::{Gguf, Texts};

use self::{
    sentence::SentenceBpe,
    special::{CODE, CODE_ENDS, ENDS, Kind, Part, Specials, TURN_ENDS},
    split::{Splitter, Style},
};
use super::{
    bpe::{Bpe, Options},
    dictionary::{Dictionary, Pieces},
};
use crate::{Error, Result};

/// What SentencePiece writes for a space.
const SPACE: &str = "\u{2581}";

/// Text to tokens of a language model and back.
pub struct LanguageTokenizer {
    model: Model,
    specials: Specials,
    /// Bytes of each token, by id.
    pieces: Pieces,
    kinds: Vec<Kind>,
    bos: Option<u32>,
    eos: Option<u32>,
    eot: Option<u32>,
    /// Ascending.
    ends: Vec<u32>,
    adds_bos: bool,
}

enum Model {
    ByteLevel { bpe: Bpe, splitter: Splitter },
    Sentence { bpe: SentenceBpe, adds_space: bool },
}

impl fmt::Debug for LanguageTokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LanguageTokenizer")
            .field("tokens", &self.kinds.len())
            .finish_non_exhaustive()
    }
}

impl LanguageTokenizer {
    /// The tokenizer that a file describes.
    ///
    /// # Errors
    /// A kind of tokenizer or a pattern of words that is not known, or a vocabulary that contradicts itself.
    pub fn open(gguf: &Gguf) -> Result<LanguageTokenizer> {
        build(gguf).map_err(|why| Error::BadTokenizer { path: gguf.path().to_path_buf(), why })
    }

    /// Tokens of `text`, nothing added before or after it. With `special`, names of control tokens in it (as
    /// `<|im_start|>`) become these tokens; without, they are text like any other.
    pub fn encode(&self, text: &str, special: bool) -> Vec<u32> {
        self.encode_after(text, special, true)
    }

    /// Tokens of text that goes on where other text ended: as [`encode`](Self::encode) without control tokens, and
    /// without the space that some models put before a text.
    pub fn encode_on(&self, text: &str) -> Vec<u32> {
        self.encode_after(text, false, false)
    }

    fn encode_after(&self, text: &str, special: bool, mut follows_token: bool) -> Vec<u32> {
        let mut ids = Vec::with_capacity(text.len() / 3);
        for part in self.specials.split(text, special) {
            match (part, &self.model) {
                (Part::Token(id), _) => ids.push(id),
                (Part::Text(text), Model::ByteLevel { bpe, splitter }) => {
                    splitter.split(text, &mut |word| {
                        // Fails for words of 4 GiB and for nothing else, as nothing is unknown.
                        let tokens = bpe.tokenize(&spell(word)).unwrap_or_default();
                        ids.extend(tokens.iter().map(|it| it.id));
                    });
                }
                (Part::Text(text), Model::Sentence { bpe, adds_space }) => {
                    let first = if *adds_space && follows_token { SPACE } else { "" };
                    bpe.encode(&format!("{first}{}", text.replace(' ', SPACE)), &mut ids);
                }
            }
            follows_token = matches!(part, Part::Token(_));
        }
        ids
    }

    /// The bytes that a token stands for, for showing: none for a control token or one that is unused. A token
    /// may end in the middle of a character.
    pub fn piece(&self, id: u32) -> &[u8] {
        match self.kinds.get(id as usize) {
            Some(Kind::Normal | Kind::UserDefined | Kind::Byte) => self.pieces.get(id as usize),
            _ => &[],
        }
    }

    /// A token's own name: of a control token, what stands for it in a template.
    pub fn name(&self, id: u32) -> &[u8] {
        if (id as usize) < self.kinds.len() { self.pieces.get(id as usize) } else { &[] }
    }

    /// The bytes of all tokens, one after the other.
    pub fn decode(&self, ids: &[u32]) -> Vec<u8> {
        ids.iter().flat_map(|it| self.piece(*it)).copied().collect()
    }

    /// The token that begins a text.
    pub fn bos(&self) -> Option<u32> {
        self.bos
    }

    /// The token that ends a text.
    pub fn eos(&self) -> Option<u32> {
        self.eos
    }

    /// The token that ends a turn, where the model has one.
    pub fn eot(&self) -> Option<u32> {
        self.eot
    }

    /// Whether the model was trained on texts that begin with [`bos`](Self::bos).
    pub fn adds_bos(&self) -> bool {
        self.adds_bos
    }

    /// Whether nothing of an answer follows this token.
    pub fn is_end(&self, id: u32) -> bool {
        self.ends.binary_search(&id).is_ok()
    }

    /// The first token that both have and that is not the same in `other`.
    pub fn first_difference(&self, other: &LanguageTokenizer) -> Option<u32> {
        let both = self.vocab_len().min(other.vocab_len());
        (0..both as u32).find(|&id| self.name(id) != other.name(id))
    }

    /// Tokens there are; ids are below.
    pub fn vocab_len(&self) -> usize {
        self.kinds.len()
    }
}

type Outcome<T> = std::result::Result<T, String>;

fn build(gguf: &Gguf) -> Outcome<LanguageTokenizer> {
    let kind = gguf.text("tokenizer.ggml.model").unwrap_or_default();
    let is_sentence = match kind {
        "gpt2" => false,
        "llama" => true,
        "" => return Err("it has no tokenizer: fetch the model again".to_owned()),
        other => {
            return Err(format!(
                "its tokenizer is of the kind {other:?}: \"gpt2\" (byte-level BPE) and \"llama\" (SentencePiece) are known, choose another model"
            ));
        }
    };
    let tokens = gguf.texts("tokenizer.ggml.tokens").filter(|it| !it.is_empty());
    let tokens = tokens.ok_or("its vocabulary is empty: fetch the model again")?;
    let by_file = kinds_by_file(gguf, tokens)?;
    let kinds = kinds_by_name(&by_file, tokens);
    let id = |key: &str| special_id(gguf, key, tokens.len());
    let default = |id: u32| (is_sentence && (id as usize) < tokens.len()).then_some(id);
    let (bos, eos) = (id("bos")?.or(default(1)), id("eos")?.or(default(2)));
    let mut ends: Vec<u32> = [eos, id("eot")?, id("eom")?].into_iter().flatten().collect();
    let ending = |name: &&str| ENDS.contains(name) || CODE[CODE_ENDS..].contains(name);
    let is_control = |id: &u32| kinds[*id as usize] == Kind::Control;
    ends.extend(named(tokens, ending).map(|(id, _)| id).filter(is_control));
    ends.sort_unstable();
    ends.dedup();
    let found = named(tokens, |it| TURN_ENDS.contains(it));
    let by_name = found.min_by_key(|(_, name)| TURN_ENDS.iter().position(|it| it == name));
    let style = style(gguf, is_sentence)?;
    let adds_bos = gguf.flag("tokenizer.ggml.add_bos_token");
    let adds_bos = adds_bos.unwrap_or(style.is_none_or(|it| it.adds_bos));
    if adds_bos && bos.is_none() {
        return Err(
            "its texts begin with a token, and it does not say with which: fetch the model again"
                .to_owned(),
        );
    }
    let model = match style {
        Some(style) => byte_level(gguf, tokens, &by_file, style)?,
        None => sentence(gguf, tokens, &kinds, id("unknown")?.or(default(0)))?,
    };
    Ok(LanguageTokenizer {
        specials: specials(gguf, tokens, &kinds)?,
        pieces: pieces(tokens, &kinds, is_sentence)?,
        model,
        kinds,
        bos,
        eos,
        eot: id("eot")?.or(by_name.map(|(id, _)| id)),
        ends,
        adds_bos,
    })
}

/// How words are cut; none for SentencePiece, which does not.
fn style(gguf: &Gguf, is_sentence: bool) -> Outcome<Option<Style>> {
    if is_sentence {
        return Ok(None);
    }
    let name = gguf.text("tokenizer.ggml.pre").unwrap_or("default");
    match Style::of(name) {
        Some(style) => Ok(Some(style)),
        None => Err(format!(
            "its tokenizer cuts words in a way called {name:?}, which is not known: choose another model"
        )),
    }
}

/// Tokens whose name is one of some.
fn named<'a>(
    tokens: &'a Texts,
    is_one: impl Fn(&&'a str) -> bool,
) -> impl Iterator<Item = (u32, &'a str)> {
    let names = tokens.iter().zip(0u32..);
    names
        .filter_map(|(name, id)| Some((id, std::str::from_utf8(name).ok()?)))
        .filter(move |(_, name)| is_one(name))
}

/// The kind of each token, by the file.
fn kinds_by_file(gguf: &Gguf, tokens: &Texts) -> Outcome<Vec<Kind>> {
    match gguf.numbers("tokenizer.ggml.token_type") {
        None => Ok(vec![Kind::Normal; tokens.len()]),
        Some(kinds) if kinds.len() == tokens.len() => {
            Ok(kinds.iter().map(|it| Kind::of(*it)).collect())
        }
        Some(kinds) => {
            let (kinds, tokens) = (kinds.len(), tokens.len());
            Err(format!("it has {tokens} tokens and types of {kinds}: fetch the model again"))
        }
    }
}

/// The kind of each token, by the file and by its name: files forget that tokens are special.
fn kinds_by_name(kinds: &[Kind], tokens: &Texts) -> Vec<Kind> {
    let mut kinds = kinds.to_vec();
    for (id, name) in named(tokens, |it| ENDS.contains(it) || CODE.contains(it)) {
        // Where it is not said to be special it is a word of HTML.
        if name != "</s>" {
            kinds[id as usize] = Kind::Control;
        }
    }
    kinds
}

/// A token that the file names by its number.
fn special_id(gguf: &Gguf, what: &str, tokens: usize) -> Outcome<Option<u32>> {
    let Some(id) = gguf.number(&format!("tokenizer.ggml.{what}_token_id")) else { return Ok(None) };
    match u32::try_from(id) {
        Ok(id) if (id as usize) < tokens => Ok(Some(id)),
        _ => Err(format!(
            "its {what} token is number {id}, and there are {tokens} tokens: fetch the model again"
        )),
    }
}

/// Tokens that text can become by merging, and their ids.
fn ordinary(tokens: &Texts, kinds: &[Kind]) -> Outcome<(Pieces, Vec<u32>)> {
    let (mut pieces, mut ids) = (Pieces::default(), Vec::new());
    for ((token, kind), id) in tokens.iter().zip(kinds).zip(0..) {
        let is_letters = !matches!(kind, Kind::Control | Kind::Unknown | Kind::Byte);
        if is_letters && !token.is_empty() {
            if !pieces.push_bytes(token) {
                return Err("its vocabulary is too large".to_owned());
            }
            ids.push(id);
        }
    }
    Ok((pieces, ids))
}

fn byte_level(gguf: &Gguf, tokens: &Texts, kinds: &[Kind], style: Style) -> Outcome<Model> {
    let merges = gguf.texts("tokenizer.ggml.merges");
    let merges = merges.ok_or("its tokenizer has no merges: fetch the model again")?;
    let mut sides = Pieces::default();
    for merge in merges.iter() {
        // The left side may be a space in the spelling of a broken file, and is never empty.
        let space = merge.iter().skip(1).position(|it| *it == b' ').map(|it| it + 1);
        let (left, right) = space.map_or((merge, &[][..]), |it| (&merge[..it], &merge[it + 1..]));
        if left.is_empty() || right.is_empty() {
            let merge = String::from_utf8_lossy(merge);
            return Err(format!("{merge:?} is not a merge of two parts: fetch the model again"));
        }
        if !sides.push_bytes(left) || !sides.push_bytes(right) {
            return Err("its merges are too long".to_owned());
        }
    }
    let (pieces, ids) = ordinary(tokens, kinds)?;
    let count = ids.len();
    let options = Options { ignore_merges: style.ignore_merges, ..Options::default() };
    let bpe = Bpe::new(pieces, ids, &sides, options)?;
    all_different(bpe.dictionary(), count)?;
    Ok(Model::ByteLevel { bpe, splitter: Splitter::new(style) })
}

fn sentence(gguf: &Gguf, tokens: &Texts, kinds: &[Kind], unknown: Option<u32>) -> Outcome<Model> {
    let scores = gguf.floats("tokenizer.ggml.scores").unwrap_or_default();
    if scores.len() != tokens.len() || !scores.iter().all(|it| it.is_finite()) {
        return Err(format!(
            "it has {} tokens and scores of {}, or scores that are not numbers: fetch the model again",
            tokens.len(),
            scores.len()
        ));
    }
    let (pieces, ids) = ordinary(tokens, kinds)?;
    let dictionary = Dictionary::new(&pieces, |at| ids[at]).map_err(|it| it.to_string())?;
    all_different(&dictionary, ids.len())?;
    let mut bytes = Box::new([None; 256]);
    for ((token, kind), id) in tokens.iter().zip(kinds).zip(0u32..) {
        if let (Kind::Byte, Some(byte)) = (kind, byte_of(token)) {
            bytes[byte as usize] = Some(id);
        }
    }
    if unknown.is_none() && bytes.contains(&None) {
        return Err("it has neither tokens for all bytes nor one for what is unknown: fetch the model again".to_owned());
    }
    let scores = scores.to_vec();
    let adds_space = gguf.flag("tokenizer.ggml.add_space_prefix").unwrap_or(true);
    Ok(Model::Sentence { bpe: SentenceBpe { dictionary, scores, bytes, unknown }, adds_space })
}

fn all_different(dictionary: &Dictionary, tokens: usize) -> Outcome<()> {
    if dictionary.len() == tokens {
        return Ok(());
    }
    Err("two of its tokens are the same: fetch the model again".to_owned())
}

fn specials(gguf: &Gguf, tokens: &Texts, kinds: &[Kind]) -> Outcome<Specials> {
    // Phi-3's own tokenizer drops white space behind its marks, which its file does not say.
    let name = gguf.text("general.name").unwrap_or_default().to_lowercase();
    let is_phi3 = name.contains("phi-3") || name.contains("phi3");
    let strips = |it: &str| is_phi3 && !["<unk>", "<s>", "<|endoftext|>"].contains(&it);
    let all = tokens.iter().zip(kinds).zip(0u32..).filter_map(|((token, kind), id)| {
        let is_special = matches!(kind, Kind::Control | Kind::Unknown | Kind::UserDefined);
        let name = std::str::from_utf8(token).ok().filter(|_| is_special)?;
        Some((id, name, *kind, strips(name)))
    });
    Specials::new(all)
}

/// What each token stands for.
fn pieces(tokens: &Texts, kinds: &[Kind], is_sentence: bool) -> Outcome<Pieces> {
    let mut pieces = Pieces::default();
    for (token, kind) in tokens.iter().zip(kinds) {
        let fits = match kind {
            Kind::Byte => pieces.push_bytes(byte_of(token).as_slice()),
            Kind::Normal if is_sentence => {
                pieces.push(&String::from_utf8_lossy(token).replace(SPACE, " "))
            }
            Kind::Normal => pieces.push_bytes(&unspell(token)),
            _ => pieces.push_bytes(token),
        };
        if !fits {
            return Err("its vocabulary is too large".to_owned());
        }
    }
    Ok(pieces)
}

/// Of `<0x0A>` the byte.
fn byte_of(token: &[u8]) -> Option<u8> {
    let digits = token.strip_prefix(b"<0x")?.strip_suffix(b">")?;
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// The letter that stands for a byte since GPT-2: itself where it can be seen, else one from 256 on.
fn letter(byte: u8) -> char {
    let hidden = |it: u8| !matches!(it, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    if !hidden(byte) {
        return byte.into();
    }
    let before = (0..byte).filter(|it| hidden(*it)).count() as u32;
    char::from_u32(256 + before).unwrap_or_default()
}

/// The letters of all bytes.
static LETTERS: std::sync::LazyLock<[char; 256]> =
    std::sync::LazyLock::new(|| std::array::from_fn(|it| letter(it as u8)));

/// A text's bytes as letters.
fn spell(text: &str) -> String {
    text.bytes().map(|it| LETTERS[it as usize]).collect()
}

/// The bytes of all letters that stand for one.
static BYTES: std::sync::LazyLock<std::collections::HashMap<char, u8>> =
    std::sync::LazyLock::new(|| LETTERS.iter().copied().zip(0..=255).collect());

/// The bytes that a token's letters stand for; letters that stand for none are themselves.
fn unspell(token: &[u8]) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(token) else { return token.to_vec() };
    let mut bytes = Vec::with_capacity(text.len());
    for letter in text.chars() {
        match BYTES.get(&letter) {
            Some(byte) => bytes.push(*byte),
            None => bytes.extend(letter.encode_utf8(&mut [0; 4]).bytes()),
        }
    }
    bytes
}
