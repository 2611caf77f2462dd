//! Byte-level BPE vocabularies of a published model's size: its special tokens, a few words, made-up syllables.

use std::borrow::Cow;

use crate::{
    Error, Result,
    gguf::{Gguf, GgufWriter},
};

/// `tokenizer.ggml.token_type`.
pub(super) const NORMAL: i32 = 1;
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;
const UNUSED: i32 = 5;

/// Words that texts and prompts have; each becomes a token, with a space before it.
const WORDS: &str = "the of and to in is that for it was on as with you are this be at have not by from or what \
    which an can how when where who system user assistant answer question passage model";

/// The special tokens of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Special {
    Llama3,
    Qwen,
    SmolLm,
}

/// A vocabulary as GGUF holds it.
pub(super) struct Vocabulary {
    pub(super) tokens: Vec<String>,
    pub(super) types: Vec<i32>,
    pub(super) merges: Vec<String>,
}

impl Vocabulary {
    /// The number of a token.
    pub(super) fn id(&self, token: &str) -> u32 {
        let found = self.tokens.iter().position(|it| it == token);
        found.expect("a special token: this is a bug") as u32
    }
}

const LLAMA3: [&str; 11] = [
    "<|begin_of_text|>",
    "<|end_of_text|>",
    "<|reserved_special_token_0|>",
    "<|reserved_special_token_1|>",
    "<|finetune_right_pad_id|>",
    "<|reserved_special_token_2|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eom_id|>",
    "<|eot_id|>",
    "<|python_tag|>",
];

const QWEN: [&str; 26] = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|object_ref_start|>",
    "<|object_ref_end|>",
    "<|box_start|>",
    "<|box_end|>",
    "<|quad_start|>",
    "<|quad_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
    "<tool_call>",
    "</tool_call>",
    "<|fim_prefix|>",
    "<|fim_middle|>",
    "<|fim_suffix|>",
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
];

/// From here on Qwen's added tokens are words of its format and not special.
const QWEN_FIRST_PLAIN: usize = 14;

const SMOLLM: [&str; 17] = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<repo_name>",
    "<reponame>",
    "<file_sep>",
    "<filename>",
    "<gh_stars>",
    "<issue_start>",
    "<issue_comment>",
    "<issue_closed>",
    "<jupyter_start>",
    "<jupyter_text>",
    "<jupyter_code>",
    "<jupyter_output>",
    "<jupyter_script>",
    "<empty_output>",
];

/// Writes how `words` cuts texts into tokens, and speaks to people; tokens up to `size` are unused.
pub(super) fn copy_tokenizer(words: &Gguf, size: usize, out: &mut GgufWriter) -> Result<()> {
    let path = || words.path().to_path_buf();
    let key = |name: &str| format!("tokenizer.ggml.{name}");
    let known = words.texts(&key("tokens")).filter(|it| !it.is_empty());
    let known = known.ok_or_else(|| Error::BadMetadata {
        path: path(),
        key: key("tokens"),
        why: "there are none".to_owned(),
    })?;
    if known.len() > size {
        return Err(Error::TooManyTokens { path: path(), tokens: known.len(), most: size });
    }
    let further = (known.len()..size).map(|it| Cow::Owned(format!("[PAD{it}]").into_bytes()));
    let tokens: Vec<Cow<'_, [u8]>> = known.iter().map(Cow::Borrowed).chain(further).collect();
    out.texts(&key("tokens"), &tokens);
    let types = words.numbers(&key("token_type")).unwrap_or_default();
    let mut types: Vec<i32> = types.iter().map(|it| *it as i32).collect();
    types.resize(known.len(), NORMAL);
    types.resize(size, UNUSED);
    out.numbers(&key("token_type"), &types);
    if let Some(scores) = words.floats(&key("scores")) {
        let mut scores = scores.to_vec();
        scores.resize(size, 0.0);
        out.floats(&key("scores"), &scores);
    }
    if let Some(merges) = words.texts(&key("merges")) {
        out.texts(&key("merges"), &merges.iter().collect::<Vec<_>>());
    }
    for name in ["bos_token_id", "eos_token_id", "unknown_token_id", "padding_token_id"] {
        if let Some(token) = words.number(&key(name)) {
            out.number(&key(name), token as u32);
        }
    }
    for name in ["add_bos_token", "add_space_prefix"] {
        if let Some(flag) = words.flag(&key(name)) {
            out.flag(&key(name), flag);
        }
    }
    for name in [key("model"), key("pre"), "tokenizer.chat_template".to_owned()] {
        if let Some(text) = words.text(&name) {
            out.text(&name, text);
        }
    }
    Ok(())
}

/// A vocabulary of `size` tokens, of which `ordinary` are bytes and merges; the rest are special or unused.
pub(super) fn vocabulary(special: Special, ordinary: usize, size: usize) -> Vocabulary {
    let mut all = Vocabulary { tokens: Vec::new(), types: Vec::new(), merges: Vec::new() };
    // SmolLM's special tokens are its first, the others' follow what is ordinary.
    if special == Special::SmolLm {
        all.tokens.extend(SMOLLM.map(str::to_owned));
        all.types.resize(SMOLLM.len(), CONTROL);
    }
    let mut learned = Learned::new(ordinary);
    learned.learn();
    all.types.resize(all.types.len() + learned.tokens.len(), NORMAL);
    all.tokens.append(&mut learned.tokens);
    all.merges = learned.merges;
    match special {
        Special::Llama3 => {
            all.tokens.extend(LLAMA3.map(str::to_owned));
            let further = all.tokens.len()..size;
            all.tokens
                .extend(further.zip(3..).map(|(_, at)| format!("<|reserved_special_token_{at}|>")));
            all.types.resize(size, CONTROL);
        }
        Special::Qwen => {
            all.tokens.extend(QWEN.map(str::to_owned));
            all.types.resize(all.types.len() + QWEN_FIRST_PLAIN, CONTROL);
            all.types.resize(all.tokens.len(), USER_DEFINED);
            all.tokens.extend((all.tokens.len()..size).map(|at| format!("[PAD{at}]")));
            all.types.resize(size, UNUSED);
        }
        Special::SmolLm => {}
    }
    assert_eq!((all.tokens.len(), all.types.len()), (size, size), "tokens: this is a bug");
    all
}

/// Tokens and merges, until there are enough.
struct Learned {
    size: usize,
    tokens: Vec<String>,
    known: std::collections::HashSet<String>,
    merges: Vec<String>,
}

impl Learned {
    /// The 256 bytes, as the characters that stand for them since GPT-2.
    fn new(size: usize) -> Learned {
        let visible = |byte: u32| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
        let hidden = (0..256u32).filter(|&it| !visible(it)).count() as u32;
        let letters = (0..256u32).filter(|&it| visible(it)).chain(256..256 + hidden);
        let tokens: Vec<String> = letters.filter_map(char::from_u32).map(String::from).collect();
        Learned { size, known: tokens.iter().cloned().collect(), tokens, merges: Vec::new() }
    }

    fn is_full(&self) -> bool {
        self.tokens.len() >= self.size
    }

    /// Of two tokens one, and its name.
    fn merge(&mut self, left: &str, right: &str) -> String {
        let whole = format!("{left}{right}");
        if !self.is_full() && self.known.insert(whole.clone()) {
            self.tokens.push(whole.clone());
            self.merges.push(format!("{left} {right}"));
        }
        whole
    }

    /// Words first, then syllables, pairs and triples of them, each with and without a space before it.
    fn learn(&mut self) {
        for word in WORDS.split_whitespace() {
            let start = "Ġ".to_owned();
            word.chars().fold(start, |before, it| self.merge(&before, &it.to_string()));
        }
        let mut syllables = Vec::new();
        for consonant in "bcdfghjklmnpqrstvwxz".chars() {
            for vowel in "aeiou".chars() {
                syllables.push(self.merge(&consonant.to_string(), &vowel.to_string()));
            }
        }
        let mut last = syllables.clone();
        last.extend(syllables.iter().map(|it| self.merge("Ġ", it)).collect::<Vec<_>>());
        while !self.is_full() {
            let mut longer = Vec::new();
            for left in &last {
                for right in &syllables {
                    if self.is_full() {
                        return;
                    }
                    longer.push(self.merge(left, right));
                }
            }
            last = longer;
        }
    }
}
