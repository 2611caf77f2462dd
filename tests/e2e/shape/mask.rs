//! Hides in a JSON text what is another number tomorrow or on another machine, and leaves every other byte.

use std::collections::BTreeMap;

/// What a value is, and so whether it may differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// A clock's: seconds, milliseconds, dates.
    Time,
    /// Bytes in memory or in files that a library lays out: they depend on the system's pages and allocator.
    Memory,
    /// A reranker's: the last digits depend on the processor's instructions.
    Score,
    /// Numbers of passages: who is parsed first gets the first one. They are counted anew, by first mention.
    Passage,
    /// A digest of files with their dates, or of the weights that are part of the program.
    Digest,
    /// The size of the weights that are part of the program.
    Weights,
    /// Sentences for people: they may be said better.
    Words,
}

/// The end of a value's path, from its key upwards; `*` is any key, `#` a place in a list.
const MASKS: [(&str, What); 32] = [
    ("seconds", What::Time),
    ("as_of", What::Time),
    ("last_scan", What::Time),
    ("modified", What::Time),
    ("pulled_at", What::Time),
    ("ms", What::Time),
    ("io_wait_ms", What::Time),
    ("timings_ms/*", What::Time),
    ("memory/*", What::Memory),
    ("index_bytes/*", What::Memory),
    ("peak_parser_rss_bytes", What::Memory),
    ("resident_weight_bytes", What::Memory),
    ("hits/#/score", What::Score),
    ("scores/#", What::Score),
    ("dispersion", What::Score),
    ("chunk", What::Passage),
    ("passages/#", What::Passage),
    ("stages/bm25/#", What::Passage),
    ("stages/dense/#", What::Passage),
    ("stages/fused/#", What::Passage),
    ("stages/reranked/#", What::Passage),
    ("fingerprint", What::Digest),
    ("revision", What::Digest),
    ("models/#/bytes", What::Weights),
    ("bytes_read", What::Weights),
    ("row_bytes_read", What::Weights),
    ("notices/#", What::Words),
    ("problems/#", What::Words),
    ("reason", What::Words),
    ("advice", What::Words),
    ("message", What::Words),
    ("error", What::Words),
];

/// `text` with values masked, and with places (folders) by their names.
///
/// # Panics
/// When it is no JSON.
pub(super) fn masked(text: &str, places: &[(&str, &str)]) -> String {
    let mut text = text.to_owned();
    for (place, name) in places {
        text = text.replace(place, name);
    }
    let mut reader = Reader { text: &text, at: 0, out: String::new(), passages: BTreeMap::new() };
    reader.value(&mut Vec::new());
    reader.blanks();
    assert_eq!(reader.at, text.len(), "more than one value: {text}");
    reader.out
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    out: String,
    /// The number that a passage has here, by the one that it has there.
    passages: BTreeMap<&'a str, usize>,
}

impl<'a> Reader<'a> {
    fn value(&mut self, path: &mut Vec<&'a str>) {
        self.blanks();
        match self.next() {
            b'{' => self.list(b'}', |it| {
                let key = it.token();
                it.out += key;
                it.blanks();
                it.byte(b':');
                path.push(key.trim_matches('"'));
                it.value(path);
                path.pop();
            }),
            b'[' => self.list(b']', |it| {
                path.push("#");
                it.value(path);
                path.pop();
            }),
            _ => {
                let token = self.token();
                let masked = self.mask(token, path);
                self.out += &masked;
            }
        }
    }

    /// An opening bracket, members with commas between them, and the closing one.
    fn list(&mut self, end: u8, mut member: impl FnMut(&mut Self)) {
        self.byte(self.next());
        self.blanks();
        while self.next() != end {
            member(self);
            self.blanks();
            if self.next() == b',' {
                self.byte(b',');
                self.blanks();
            }
        }
        self.byte(end);
    }

    fn next(&self) -> u8 {
        *self.text.as_bytes().get(self.at).unwrap_or_else(|| panic!("cut off: {}", self.text))
    }

    fn byte(&mut self, expected: u8) {
        assert_eq!(self.next(), expected, "at {} of {}", self.at, self.text);
        self.out.push(char::from(expected));
        self.at += 1;
    }

    fn blanks(&mut self) {
        let rest = &self.text[self.at..];
        let blanks = &rest[..rest.len() - rest.trim_start().len()];
        self.out += blanks;
        self.at += blanks.len();
    }

    /// A string with its quotes, a number, or a word.
    fn token(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        let mut escaped = false;
        let length = if let Some(inside) = rest.strip_prefix('"') {
            let closes = |it: u8| {
                let closes = it == b'"' && !escaped;
                escaped = it == b'\\' && !escaped;
                closes
            };
            2 + inside.bytes().position(closes).expect("a string ends")
        } else {
            rest.find([',', ']', '}', '\n', ' ']).unwrap_or(rest.len())
        };
        assert!(length > 0, "no value at {} of {}", self.at, self.text);
        self.at += length;
        &rest[..length]
    }

    /// A value keeps its kind: a number where a text was is a difference.
    fn mask(&mut self, token: &'a str, path: &[&str]) -> String {
        let Some(what) = what(path) else { return token.to_owned() };
        let is_text = token.starts_with('"');
        let is_number = token.starts_with(|it: char| it.is_ascii_digit() || it == '-');
        match what {
            What::Words | What::Digest if !is_text => token.to_owned(),
            What::Words => "\"<words>\"".to_owned(),
            What::Digest => "\"<digest>\"".to_owned(),
            _ if !is_number => token.to_owned(),
            What::Time => "\"<time>\"".to_owned(),
            What::Memory => "\"<memory>\"".to_owned(),
            What::Score => "\"<score>\"".to_owned(),
            What::Weights => "\"<weights>\"".to_owned(),
            What::Passage => {
                let next = self.passages.len() + 1;
                format!("\"<passage {}>\"", self.passages.entry(token).or_insert(next))
            }
        }
    }
}

fn what(path: &[&str]) -> Option<What> {
    let fits = |mask: &str| {
        let mut keys = path.iter().rev();
        mask.rsplit('/').all(|it| keys.next().is_some_and(|key| it == "*" || it == *key))
    };
    MASKS.iter().find(|it| fits(it.0)).map(|it| it.1)
}

#[test]
fn only_what_may_differ_is_hidden() {
    let text = "{\n  \"as_of\": 17,\n  \"hits\": [{\"chunk\": 9, \"score\": -0.5, \"rank\": 1}, {\"chunk\": 4}],\n  \
                \"passages\": [4, 9],\n  \"path\": \"/a/b \\\"c\\\".md\",\n  \"notices\": [\"so, it {is}\"],\n  \
                \"supported\": [{\"score\": 1.0}], \"reason\": null\n}\n";
    let expected = "{\n  \"as_of\": \"<time>\",\n  \"hits\": [{\"chunk\": \"<passage 1>\", \"score\": \"<score>\", \
                    \"rank\": 1}, {\"chunk\": \"<passage 2>\"}],\n  \"passages\": [\"<passage 2>\", \"<passage 1>\"],\n  \
                    \"path\": \"SAMPLE/b \\\"c\\\".md\",\n  \"notices\": [\"<words>\"],\n  \
                    \"supported\": [{\"score\": 1.0}], \"reason\": null\n}\n";
    assert_eq!(masked(text, &[("/a/", "SAMPLE/")]), expected);
}

#[test]
fn keys_their_order_and_the_kinds_of_values_are_never_hidden() {
    let masked = |text: &str| masked(text, &[]);
    let good = masked(r#"{"ms": 1.5, "notices": ["a"], "chunk": 3}"#);
    assert_eq!(good, masked(r#"{"ms": 7, "notices": ["b"], "chunk": 8}"#));
    for other in [
        r#"{"millis": 1.5, "notices": ["a"], "chunk": 3}"#,
        r#"{"notices": ["a"], "ms": 1.5, "chunk": 3}"#,
        r#"{"ms": 1.5, "chunk": 3}"#,
        r#"{"ms": "1.5", "notices": ["a"], "chunk": 3}"#,
        r#"{"ms": null, "notices": ["a"], "chunk": 3}"#,
        r#"{"ms": 1.5, "notices": [], "chunk": 3}"#,
        r#"{"ms": 1.5, "notices": [{"kind": "a"}], "chunk": 3}"#,
        r#"{"ms": 1.5, "notices": ["a"], "chunk": 3, "new": 1}"#,
        r#"{"ms":1.5, "notices": ["a"], "chunk": 3}"#,
    ] {
        assert_ne!(good, masked(other), "{other}");
    }
}
