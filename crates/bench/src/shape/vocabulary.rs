//! Tokenizers of the size and kind of a published model's, over made-up words.
//!
//! Memory is what they are for: a byte-level BPE of 151 000 merges or a Unigram model of 250 000 pieces
//! takes as much of it here as in the original, because that depends on how many entries there are and
//! hardly on which. Texts become as many tokens as their words are made of syllables.

use serde_json::{Map, Value, json};

use super::random::Random;

const CONSONANTS: &[u8; 20] = b"bcdfghjklmnpqrstvwxz";
const VOWELS: &[u8; 5] = b"aeiou";

/// Syllables of a consonant and a vowel.
pub(crate) const SYLLABLES: usize = CONSONANTS.len() * VOWELS.len();

/// Syllable number `index`, counted round.
pub(crate) fn syllable(index: usize) -> [char; 2] {
    let index = index % SYLLABLES;
    [CONSONANTS[index / VOWELS.len()] as char, VOWELS[index % VOWELS.len()] as char]
}

/// Tokens of Qwen3 that are no merges, in the order of their numbers; they begin where the merges end
/// (<https://huggingface.co/Qwen/Qwen3-Reranker-0.6B/blob/main/tokenizer_config.json>).
const QWEN_ADDED: [&str; 26] = [
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

/// How GPT-2 and all that follow it cut a text before merging.
const QWEN_SPLIT: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Words of Qwen3-Reranker's prompt and its two answers. In the original each is one token; made of the
/// syllables below, the prompt would be several times its real length.
const QWEN_WORDS: &str = "requirements Instruct instruction retrieve relevant passages Document provided assistant \
    search whether answer system think Judge meets based Query query Given Note only user that yes can web the and \
    on be no is or to a";

/// A byte-level BPE tokenizer with `size` tokens, the added ones included.
pub(crate) fn byte_level_bpe(size: usize) -> Value {
    let mut bpe = Bpe::new(size - QWEN_ADDED.len());
    for word in QWEN_WORDS.split_whitespace() {
        bpe.word(word);
        bpe.merge("Ġ", word);
    }
    bpe.fill();
    let added: Vec<Value> = QWEN_ADDED
        .iter()
        .enumerate()
        .map(|(place, token)| {
            let special = place < QWEN_FIRST_PLAIN;
            added_token(size - QWEN_ADDED.len() + place, token, special)
        })
        .collect();
    let byte_level = |use_regex: bool| json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": use_regex});
    json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": added,
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": QWEN_SPLIT}, "behavior": "Isolated", "invert": false},
            byte_level(false),
        ]},
        "post_processor": byte_level(false),
        "decoder": byte_level(false),
        "model": {
            "type": "BPE",
            "dropout": null,
            "unk_token": null,
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "",
            "fuse_unk": false,
            "byte_fallback": false,
            // A word that is a token is one, whatever shorter merges would have made of its letters first.
            "ignore_merges": true,
            "vocab": bpe.vocabulary,
            "merges": bpe.merges,
        },
    })
}

/// Tokens and merges, until there are enough.
struct Bpe {
    size: usize,
    vocabulary: Map<String, Value>,
    merges: Vec<[String; 2]>,
}

impl Bpe {
    /// The 256 bytes, as the characters that stand for them.
    fn new(size: usize) -> Bpe {
        let visible = |byte: u32| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
        let hidden = (0..256u32).filter(|&it| !visible(it)).count() as u32;
        // The bytes that can not be seen are the characters from 256 on, in their order.
        let letters = (0..256u32).filter(|&it| visible(it)).chain(256..256 + hidden);
        let vocabulary = letters
            .filter_map(char::from_u32)
            .enumerate()
            .map(|(id, letter)| (letter.to_string(), json!(id)))
            .collect();
        Bpe { size, vocabulary, merges: Vec::new() }
    }

    fn merge(&mut self, left: &str, right: &str) {
        let whole = format!("{left}{right}");
        if self.vocabulary.len() < self.size && !self.vocabulary.contains_key(&whole) {
            let id = self.vocabulary.len();
            self.vocabulary.insert(whole, json!(id));
            self.merges.push([left.to_owned(), right.to_owned()]);
        }
    }

    /// A word of ASCII letters, letter by letter.
    fn word(&mut self, word: &str) {
        for end in 1..word.len() {
            self.merge(&word[..end], &word[end..=end]);
        }
    }

    /// Syllables first, then pairs of them, then with the space before them, then three.
    fn fill(&mut self) {
        let syllables: Vec<String> =
            (0..SYLLABLES).map(|it| syllable(it).iter().collect()).collect();
        for it in &syllables {
            self.merge(&it[..1], &it[1..]);
        }
        let pairs: Vec<(&String, &String)> =
            syllables.iter().flat_map(|a| syllables.iter().map(move |b| (a, b))).collect();
        for (a, b) in &pairs {
            self.merge(a, b);
        }
        for (a, b) in &pairs {
            self.merge("Ġ", &format!("{a}{b}"));
        }
        for it in &syllables {
            self.merge("Ġ", it);
        }
        for (a, b) in &pairs {
            for c in &syllables {
                self.merge(&format!("{a}{b}"), c);
            }
        }
    }
}

/// A Unigram tokenizer with `size` tokens, as XLM-RoBERTa's.
pub(crate) fn unigram(size: usize) -> Value {
    let specials = ["<s>", "<pad>", "</s>", "<unk>"];
    let mut pieces: Vec<(String, f64)> =
        specials.iter().map(|it| ((*it).to_owned(), 0.0)).collect();
    let mut seen: std::collections::HashSet<String> = specials.map(str::to_owned).into();
    // Frequent first, as a trained model has them: its scores are logarithms of frequencies.
    let mut add = |piece: String| {
        if pieces.len() < size - 1 && seen.insert(piece.clone()) {
            let score = -((pieces.len() + 10) as f64).ln();
            pieces.push((piece, score));
        }
        pieces.len() < size - 1
    };
    add("▁".to_owned());
    for letter in ('!'..='~').chain('а'..='я') {
        add(letter.to_string());
    }
    for index in 0..SYLLABLES {
        add(syllable(index).iter().collect());
    }
    let mut random = Random::new(0, "unigram");
    while add(piece(&mut random)) {}
    pieces.push(("<mask>".to_owned(), 0.0));
    let added: Vec<Value> =
        [0, 1, 2, 3, size - 1].into_iter().map(|id| added_token(id, &pieces[id].0, true)).collect();
    json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": added,
        "normalizer": {"type": "NFKC"},
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true},
        "post_processor": pair_template(("<s>", 0), ("</s>", 2), &["</s>", "</s>"], 0),
        "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true},
        "model": {"type": "Unigram", "unk_id": 3, "vocab": pieces, "byte_fallback": false},
    })
}

/// A piece as multilingual vocabularies have them: two thirds begin a word, a third is of two-byte
/// letters, some are of three bytes, and most are two to four syllables long.
fn piece(random: &mut Random) -> String {
    let mut piece = String::new();
    if random.below(3) < 2 {
        piece.push('▁');
    }
    match random.below(10) {
        0..6 => {
            for _ in 0..random.below(3) + 2 {
                piece.extend(syllable(random.below(SYLLABLES)));
            }
        }
        6..9 => {
            let letters = (0..random.below(5) + 3).map(|_| 'а' as u32 + random.below(32) as u32);
            piece.extend(letters.filter_map(char::from_u32));
        }
        _ => {
            // Of the unified ideographs those that are in daily use come first.
            const IDEOGRAPHS: u32 = 0x4e00;
            let letters = (0..random.below(2) + 1).map(|_| IDEOGRAPHS + random.below(8000) as u32);
            piece.extend(letters.filter_map(char::from_u32));
        }
    }
    piece
}

/// A WordPiece tokenizer with `size` tokens, as BERT's uncased one.
pub(crate) fn word_piece(size: usize) -> Value {
    let mut vocabulary: Map<String, Value> = Map::new();
    let mut add = |token: String| {
        let id = vocabulary.len();
        if id < size {
            vocabulary.entry(token).or_insert_with(|| json!(id));
        }
    };
    add("[PAD]".to_owned());
    // BERT's numbers of its special tokens, with what lies between.
    (0..99).for_each(|it| add(format!("[unused{it}]")));
    for token in ["[UNK]", "[CLS]", "[SEP]", "[MASK]"] {
        add(token.to_owned());
    }
    for letter in '!'..='~' {
        add(letter.to_string());
        add(format!("##{letter}"));
    }
    for a in 0..SYLLABLES {
        let it: String = syllable(a).iter().collect();
        add(format!("##{it}"));
        add(it);
    }
    for a in 0..SYLLABLES {
        for b in 0..SYLLABLES {
            let it: String = syllable(a).iter().chain(&syllable(b)).collect();
            add(format!("##{it}"));
            add(it);
        }
    }
    let mut random = Random::new(0, "word-piece");
    while vocabulary.len() < size {
        let it: String = (0..3).flat_map(|_| syllable(random.below(SYLLABLES))).collect();
        let id = vocabulary.len();
        vocabulary.entry(it).or_insert_with(|| json!(id));
    }
    let added: Vec<Value> =
        [(0, "[PAD]"), (100, "[UNK]"), (101, "[CLS]"), (102, "[SEP]"), (103, "[MASK]")]
            .into_iter()
            .map(|(id, token)| added_token(id, token, true))
            .collect();
    json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": added,
        "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": pair_template(("[CLS]", 101), ("[SEP]", 102), &["[SEP]"], 1),
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": vocabulary},
    })
}

fn added_token(id: usize, content: &str, special: bool) -> Value {
    json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": special})
}

/// `first A last` for one text and `first A middle… B last` for a pair, whose second text is in `segment`.
fn pair_template(
    (first, first_id): (&str, u32),
    (last, last_id): (&str, u32),
    middle: &[&str],
    segment: u32,
) -> Value {
    let token = |id: &str, segment: u32| json!({"SpecialToken": {"id": id, "type_id": segment}});
    let text = |id: &str, segment: u32| json!({"Sequence": {"id": id, "type_id": segment}});
    let known = |id: &str, number: u32| json!({"id": id, "ids": [number], "tokens": [id]});
    let mut pair = vec![token(first, 0), text("A", 0)];
    pair.extend(middle.iter().map(|it| token(it, 0)));
    pair.extend([text("B", segment), token(last, segment)]);
    json!({
        "type": "TemplateProcessing",
        "single": [token(first, 0), text("A", 0), token(last, 0)],
        "pair": pair,
        "special_tokens": {first: known(first, first_id), last: known(last, last_id)},
    })
}

#[cfg(test)]
mod tests {
    use tokenizers::Tokenizer;

    use super::*;

    #[track_caller]
    fn tokenizer(value: &Value) -> Tokenizer {
        Tokenizer::from_bytes(value.to_string()).expect("a tokenizer")
    }

    #[test]
    fn every_kind_has_the_size_that_was_asked_for() {
        for size in [1500, 40_000] {
            for value in [byte_level_bpe(size), unigram(size), word_piece(size)] {
                assert_eq!(
                    tokenizer(&value).get_vocab_size(true),
                    size,
                    "{}",
                    value["model"]["type"]
                );
            }
        }
    }

    #[test]
    fn qwen_has_single_tokens_for_its_answers_and_marks() {
        let bpe = tokenizer(&byte_level_bpe(151_669));
        for (text, id) in
            [("<|endoftext|>", 151_643), ("<|im_end|>", 151_645), ("</think>", 151_668)]
        {
            assert_eq!(bpe.encode(text, false).expect("a text").get_ids(), [id], "{text}");
        }
        for text in ["yes", "no", " requirements", " Document", "Judge"] {
            assert_eq!(bpe.encode(text, false).expect("a text").len(), 1, "{text}");
        }
        let text = bpe.encode("bada kitu é\n", false).expect("a text");
        assert_eq!(bpe.decode(text.get_ids(), false).expect("the text"), "bada kitu é\n");
    }

    #[test]
    fn pairs_have_the_special_tokens_of_their_family() {
        let ids = |value: &Value| {
            tokenizer(value).encode(("ba", "ba"), true).expect("a pair").get_ids().to_vec()
        };
        let xlm = ids(&unigram(2000));
        assert_eq!((xlm[0], xlm[xlm.len() - 1]), (0, 2));
        assert_eq!(xlm.iter().filter(|it| **it == 2).count(), 3);
        let bert = ids(&word_piece(2000));
        assert_eq!((bert.len(), bert[0], bert[2], bert[4]), (5, 101, 102, 102));
        assert_eq!(bert[1], bert[3]);
    }
}
