//! Whether two questions that are near each other ask for the same thing, as far as words tell.
//!
//! A vector hardly knows a number, a date, a name or a "not" from another: "3 May" and "5 May", "Anna" and "Anne" lie
//! beside each other. What tells such questions apart is compared word for word. The comparison is one of strictness:
//! whoever is turned away wrongly waits for a model, whoever is let through wrongly reads a wrong answer.

use std::collections::BTreeSet;

/// Words that turn a question round, in English and German.
const NEGATIONS: [&str; 26] = [
    "not", "no", "never", "none", "nobody", "nothing", "without", "neither", "nor", "cannot",
    "except", "unless", "nicht", "kein", "keine", "keinen", "keinem", "keiner", "keines", "nie",
    "niemals", "niemand", "nichts", "ohne", "weder", "außer",
];

/// Words that stand for a number, a date or a place in an order, and so on: a question has them or has not.
const TELLING: [&str; 119] = [
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "hundred",
    "thousand",
    "million",
    "half",
    "double",
    "first",
    "second",
    "third",
    "fourth",
    "fifth",
    "last",
    "next",
    "previous",
    "latest",
    "earliest",
    "before",
    "after",
    "since",
    "until",
    "during",
    "more",
    "less",
    "most",
    "least",
    "min",
    "max",
    "minimum",
    "maximum",
    "over",
    "under",
    "above",
    "below",
    "increase",
    "decrease",
    "open",
    "close",
    "start",
    "end",
    "begin",
    "old",
    "new",
    "best",
    "worst",
    "today",
    "yesterday",
    "tomorrow",
    "morning",
    "evening",
    "night",
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
    "eins",
    "zwei",
    "drei",
    "vier",
    "fünf",
    "sechs",
    "sieben",
    "acht",
    "neun",
    "zehn",
    "erste",
    "ersten",
    "letzte",
    "letzten",
    "nächste",
    "nächsten",
    "vor",
    "nach",
    "seit",
    "bis",
    "mehr",
    "weniger",
    "heute",
    "gestern",
    "morgen",
    "montag",
    "dienstag",
    "mittwoch",
    "donnerstag",
    "freitag",
    "samstag",
    "sonntag",
    "januar",
    "februar",
    "märz",
    "juni",
    "juli",
    "oktober",
    "dezember",
];

/// What is asked for: words of one row ask for the same, and a question that has one of another row asks for another
/// thing. Questions that have none ("which", "what", "is it true") may ask for anything.
const ASKED_FOR: [&[&str]; 7] = [
    &["when", "wann", "date", "datum"],
    &["where", "wo", "wohin", "woher"],
    &["who", "whom", "whose", "wer", "wen", "wem", "wessen"],
    &["why", "warum", "weshalb", "wieso"],
    &["many", "much", "viel", "viele", "cost", "price", "kostet", "preis"],
    &["long", "lange", "duration", "dauer", "dauert"],
    &["how", "wie"],
];

/// Words at the beginning of a question that are written with a capital for that alone.
const BEGINNINGS: [&str; 76] = [
    "a",
    "about",
    "an",
    "and",
    "are",
    "as",
    "at",
    "auf",
    "aus",
    "bei",
    "by",
    "can",
    "could",
    "das",
    "der",
    "describe",
    "did",
    "die",
    "do",
    "does",
    "ein",
    "eine",
    "explain",
    "find",
    "for",
    "from",
    "give",
    "has",
    "hat",
    "have",
    "how",
    "i",
    "if",
    "in",
    "is",
    "ist",
    "kann",
    "list",
    "may",
    "my",
    "name",
    "of",
    "on",
    "please",
    "should",
    "show",
    "sind",
    "summarize",
    "tell",
    "the",
    "their",
    "there",
    "this",
    "to",
    "um",
    "wann",
    "warum",
    "was",
    "welche",
    "welcher",
    "welches",
    "wer",
    "were",
    "what",
    "when",
    "where",
    "which",
    "who",
    "whom",
    "whose",
    "why",
    "wie",
    "will",
    "with",
    "wo",
    "would",
];

/// Characters of a stem, as [`riddle_claims::telling_words`] makes them.
const STEM: usize = 6;

/// Whether a stem is of a word that questions begin with ("please", "describe"), whatever they ask for.
pub(super) fn is_opening(stem: &str) -> bool {
    BEGINNINGS.iter().any(|it| it.chars().take(STEM).eq(stem.chars()))
}

/// Whether what tells questions apart is the same in both.
pub fn same_terms(a: &str, b: &str) -> bool {
    let (a, b) = (Terms::of(a), Terms::of(b));
    a.numbers == b.numbers
        && a.negated == b.negated
        && a.telling == b.telling
        && a.names.is_subset(&b.words)
        && b.names.is_subset(&a.words)
        && match (&a.asked_for, &b.asked_for) {
            (Some(a), Some(b)) => a == b,
            _ => true,
        }
}

/// What tells a question apart.
struct Terms {
    /// All words, in small letters.
    words: BTreeSet<String>,
    /// Words with a digit, as often as they stand there.
    numbers: Vec<String>,
    /// How often it is turned round, odd or even.
    negated: bool,
    telling: BTreeSet<String>,
    /// Words with a capital that need not have one, and words in capitals.
    names: BTreeSet<String>,
    asked_for: Option<usize>,
}

impl Terms {
    fn of(question: &str) -> Terms {
        let mut terms = Terms {
            words: BTreeSet::new(),
            numbers: Vec::new(),
            negated: false,
            telling: BTreeSet::new(),
            names: BTreeSet::new(),
            asked_for: None,
        };
        let mut begins = true;
        for piece in question.split_whitespace() {
            for part in piece.split(|c: char| !(c.is_alphanumeric() || "'’.,:/-".contains(c))) {
                terms.take(part.trim_matches(|c: char| !c.is_alphanumeric()), begins);
                begins &= part.is_empty();
            }
            begins |= piece.ends_with(['.', '!', '?', ':']);
        }
        terms.numbers.sort();
        terms
    }

    fn take(&mut self, word: &str, begins: bool) {
        if word.is_empty() {
            return;
        }
        let small = word.to_lowercase();
        let stem = small.strip_suffix("'s").or(small.strip_suffix("’s")).unwrap_or(&small);
        self.negated ^=
            NEGATIONS.contains(&stem) || small.ends_with("n't") || small.ends_with("n’t");
        if word.chars().any(char::is_numeric) {
            self.numbers.push(stem.to_owned());
        } else if TELLING.contains(&stem) {
            self.telling.insert(stem.to_owned());
        }
        let capitals = word.chars().filter(|it| it.is_uppercase()).count();
        let is_name = capitals > 1 || (capitals == 1 && !(begins && BEGINNINGS.contains(&stem)));
        // A word that begins the question may be a name as well as not: it has to be in the other one, too.
        if is_name && stem != "i" {
            self.names.insert(stem.to_owned());
        }
        if self.asked_for.is_none() {
            self.asked_for = ASKED_FOR.iter().position(|it| it.contains(&stem));
        } else if self.asked_for == Some(ASKED_FOR.len() - 1) {
            // "How many", "how long": the second word says what is asked for.
            let said = ASKED_FOR.iter().position(|it| it.contains(&stem));
            self.asked_for = said.or(self.asked_for);
        }
        self.words.insert(stem.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tells_questions_apart_is_seen() {
        for (a, b) in [
            ("What was decided on 3 May?", "What was decided on 5 May?"),
            ("What was decided in May?", "What was decided in June?"),
            ("Who was there in 2023?", "Who was there in 2024?"),
            ("What did Anna say?", "What did Anne say?"),
            ("Is the mooring paid?", "Is the mooring not paid?"),
            ("Is the mooring paid?", "Isn't the mooring paid?"),
            ("When is the rehearsal?", "Where is the rehearsal?"),
            ("How many boats are there?", "How long are the boats there?"),
            ("Ist der Hafen offen?", "Ist der Hafen nicht offen?"),
            ("What is the first price?", "What is the last price?"),
            ("Who painted it before the race?", "Who painted it after the race?"),
            ("What does the SSD cost?", "What does the CPU cost?"),
            ("Version 1.2 of it?", "Version 1.3 of it?"),
        ] {
            assert!(!same_terms(a, b), "{a} / {b}");
            assert!(!same_terms(b, a), "{b} / {a}");
        }
    }

    #[test]
    fn the_same_in_other_words_passes() {
        for (a, b) in [
            (
                "When will the presentation rehearsal take place?",
                "Is time of presentation rehearsal given?",
            ),
            ("What does the mooring cost?", "How much does the mooring cost?"),
            ("What did Anna say about it?", "Tell me what Anna said about it."),
            ("Who painted the hull?", "By whom was the hull painted?"),
            ("What's in the letter?", "what is in the letter"),
        ] {
            assert!(same_terms(a, b), "{a} / {b}");
            assert!(same_terms(a, a) && same_terms(b, b));
        }
    }
}
