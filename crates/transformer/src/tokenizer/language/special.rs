//! Tokens that are not made of letters: those that begin and end a turn, and those that are found in a text
//! before anything else.

use super::super::dictionary::{Dictionary, Pieces};

/// `tokenizer.ggml.token_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Normal,
    Unknown,
    Control,
    UserDefined,
    Unused,
    Byte,
}

impl Kind {
    pub(super) fn of(number: i64) -> Kind {
        match number {
            1 => Kind::Normal,
            2 => Kind::Unknown,
            3 => Kind::Control,
            4 => Kind::UserDefined,
            6 => Kind::Byte,
            _ => Kind::Unused,
        }
    }
}

/// Names of tokens that end a turn, whatever their file says about them. Files often name one and mean several.
pub(super) const ENDS: [&str; 17] = [
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|eom_id|>",
    "<|return|>",
    "<|call|>",
    "</s>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<end_of_utterance>",
    "<｜end▁of▁sentence｜>",
    // The next file of a repository: no answer goes on there.
    "<|file_sep|>",
];

/// Of those, names of the one that ends a turn, the most telling first.
pub(super) const TURN_ENDS: [&str; 11] = [
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "<end_of_utterance>",
    "<｜end▁of▁sentence｜>",
    "<|end_of_text|>",
    "<|endoftext|>",
];

/// More names of tokens that belong to formats of code and not to text, or fill what is left of a batch.
pub(super) const CODE: [&str; 22] = [
    "<|fim_prefix|>",
    "<fim-prefix>",
    "<fim_prefix>",
    "<PRE>",
    "<|fim_suffix|>",
    "<fim-suffix>",
    "<fim_suffix>",
    "<SUF>",
    "<|fim_middle|>",
    "<fim-middle>",
    "<fim_middle>",
    "<MID>",
    "<|fim_pad|>",
    "<fim-pad>",
    "<fim_pad>",
    "<PAD>",
    "[PAD]",
    "<|fim_repo|>",
    "<|repo_name|>",
    "<fim-repo>",
    "<REPO>",
    "<reponame>",
];

/// Names in [`CODE`] from here on end an answer.
pub(super) const CODE_ENDS: usize = 12;

/// A token found in text as it is written.
#[derive(Debug)]
struct Special {
    id: u32,
    /// Found only where control tokens are looked for.
    control: bool,
    /// White space behind it is dropped.
    strips: bool,
}

/// All of them, the longest names first: of two that overlap, the longer counts.
#[derive(Debug)]
pub(super) struct Specials {
    all: Vec<Special>,
    names: Pieces,
    /// Of a name its place in `all`.
    places: Dictionary,
}

/// Part of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part<'a> {
    Text(&'a str),
    Token(u32),
}

impl Specials {
    /// `tokens`: id, name, kind, and whether white space behind it is dropped.
    pub(super) fn new<'a>(
        tokens: impl Iterator<Item = (u32, &'a str, Kind, bool)>,
    ) -> Result<Specials, String> {
        let mut found: Vec<(u32, &str, Kind, bool)> =
            tokens.filter(|it| !it.1.is_empty()).collect();
        found.sort_by_key(|it| (std::cmp::Reverse(it.1.len()), it.0));
        let mut names = Pieces::default();
        if !found.iter().all(|it| names.push(it.1)) {
            return Err("its special tokens are too long".to_owned());
        }
        let places = Dictionary::new(&names, |at| at as u32).map_err(|it| it.to_string())?;
        let all = found
            .iter()
            .map(|it| Special { id: it.0, control: it.2 != Kind::UserDefined, strips: it.3 })
            .collect();
        Ok(Specials { all, names, places })
    }

    /// Cuts `text` where tokens are written out in it; those of control only if `control`.
    pub(super) fn split<'a>(&self, text: &'a str, control: bool) -> Vec<Part<'a>> {
        let mut parts = vec![Part::Text(text)];
        for place in self.present(text, control) {
            let (special, name) = (&self.all[place], self.names.get(place));
            let mut cut = Vec::with_capacity(parts.len());
            for part in parts {
                match part {
                    Part::Text(text) => special.cut(text, name, &mut cut),
                    token => cut.push(token),
                }
            }
            parts = cut;
        }
        parts.retain(|it| *it != Part::Text(""));
        parts
    }

    /// Places of the tokens that occur in the text at all, in their order: there are thousands of tokens and
    /// hardly ever one of them.
    fn present(&self, text: &str, control: bool) -> Vec<usize> {
        let mut found: Vec<usize> = (0..text.len())
            .flat_map(|at| self.places.prefixes(&text.as_bytes()[at..]))
            .map(|(_, place)| place as usize)
            .filter(|place| control || !self.all[*place].control)
            .collect();
        found.sort_unstable();
        found.dedup();
        found
    }
}

impl Special {
    fn cut<'a>(&self, mut text: &'a str, name: &[u8], out: &mut Vec<Part<'a>>) {
        // Names were strings when they were taken in.
        let name = std::str::from_utf8(name).unwrap_or_default();
        while let Some((before, after)) = text.split_once(name) {
            out.extend([Part::Text(before), Part::Token(self.id)]);
            // The white space of C.
            let space = |it: char| matches!(it, ' ' | '\t'..='\r');
            text = if self.strips { after.trim_start_matches(space) } else { after };
        }
        out.push(Part::Text(text));
    }
}
