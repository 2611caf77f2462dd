//! Where a text is cut into words before merging: patterns by the name that a file gives them.
//!
//! A file names its pattern and does not contain it (`tokenizer.ggml.pre`); the names are llama.cpp's
//! (`convert_hf_to_gguf_update.py`), the patterns those of the models' own `tokenizer.json`. Where llama.cpp only comes
//! near a pattern (`tekken`, `gpt-4o`: letters without case) or knows an older Unicode, the model's own counts.

use tokenizers::utils::SysRegex;

/// GPT-2's own pattern.
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

const QWEN35: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";

const GPT4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";

const DEEPSEEK3: &str = r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##;

/// What belongs to a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Style {
    /// One after the other, each within what the one before has left.
    patterns: &'static [&'static str],
    /// A word that is a token is one, whatever merging would have made of it.
    pub(super) ignore_merges: bool,
    /// Whether a text begins with a token for its beginning, if the file does not say.
    pub(super) adds_bos: bool,
}

impl Style {
    /// The style of a name; none that has not been compared with its model's.
    pub(super) fn of(name: &str) -> Option<Style> {
        let style = |patterns| Style { patterns, ignore_merges: false, adds_bos: false };
        Some(match name {
            "llama3" | "llama-v3" | "llama-bpe" | "falcon3" | "pixtral" | "lfm2" => {
                Style { ignore_merges: true, adds_bos: true, ..style(&[LLAMA3]) }
            }
            "dbrx" | "smaug-bpe" | "glm4" | "chatglm-bpe" => style(&[LLAMA3]),
            "qwen2" | "deepseek-r1-qwen" | "stablelm2" | "megrez" => style(&[QWEN2]),
            "qwen35" => style(&[QWEN35]),
            "smollm" | "starcoder" | "refact" | "command-r" | "codeshell" | "exaone"
            | "minerva-7b" => style(&[r"\p{N}", GPT2]),
            "gpt-2" | "phi-2" | "olmo" | "mpt" | "gigachat" | "exaone4" | "mellum" => {
                style(&[GPT2])
            }
            "tekken" => Style { ignore_merges: true, adds_bos: true, ..style(&[TEKKEN]) },
            "gpt-4o" | "llama4" => style(&[GPT4O]),
            "deepseek-v3" => style(&[
                r"\p{N}{1,3}",
                "[\u{4e00}-\u{9fa5}\u{3040}-\u{309f}\u{30a0}-\u{30ff}]+",
                DEEPSEEK3,
            ]),
            "default" => style(&[r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"]),
            "falcon" => style(&[r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"]),
            _ => return None,
        })
    }
}

/// Cuts texts into words.
#[derive(Debug)]
pub(super) struct Splitter(Vec<SysRegex>);

impl Splitter {
    pub(super) fn new(style: Style) -> Splitter {
        let compile = |pattern: &&str| SysRegex::new(pattern).expect("a pattern: this is a bug");
        Splitter(style.patterns.iter().map(compile).collect())
    }

    /// Hands every word of `text` to `word`, in order.
    pub(super) fn split<'a>(&self, text: &'a str, word: &mut impl FnMut(&'a str)) {
        split(&self.0, text, word);
    }
}

fn split<'a>(patterns: &[SysRegex], text: &'a str, word: &mut impl FnMut(&'a str)) {
    let Some((pattern, further)) = patterns.split_first() else { return word(text) };
    let mut end = 0;
    for (from, to) in pattern.find_iter(text) {
        // What lies between matches is a word, too.
        if from > end {
            split(further, &text[end..from], word);
        }
        if to > from {
            split(further, &text[from..to], word);
        }
        end = to;
    }
    if end < text.len() {
        split(further, &text[end..], word);
    }
}
