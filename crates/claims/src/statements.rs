//! The statements of an answer while it is being written: where each ends, and what it cites.
//!
//! [`Statements`] is given the text in pieces of any size and hands on the same text in the same order, with every
//! statement named as soon as it is certain to be over. Certain is what no continuation can change: after a full
//! stop that needs the next word's first letter, because `[1]` may follow, or the full stop may have been an
//! abbreviation's. Until then what follows the full stop is held back, so whoever shows the text can put a
//! verdict behind the very sentence that it is about.
//!
//! A statement is a sentence, an item of a list, a row of a table or a line. A heading and a line that ends in a
//! colon say nothing by themselves and belong to what follows them.

use std::ops::ControlFlow;

use crate::sentences::{is_abbreviation, is_closer};

/// Longest citation mark, in bytes: `[1, 2, 3, 4, 5, 6, 7]` and then some.
const LONGEST_MARK: usize = 40;

/// Longest word before a full stop that may be an abbreviation nobody has listed, when a small letter follows.
const LONGEST_ABBREVIATION: usize = 5;

/// What follows an ordinal such as German `3.` and is no new sentence.
const AFTER_ORDINALS: [&str; 14] = [
    "Januar",
    "Februar",
    "März",
    "April",
    "Mai",
    "Juni",
    "Juli",
    "August",
    "September",
    "Oktober",
    "November",
    "Dezember",
    "Jahrhundert",
    "Jahrhunderts",
];

/// A statement of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Statement {
    /// Its words, without citation marks.
    pub(crate) text: String,
    /// The numbers in its citation marks, as written, each once.
    pub(crate) numbers: Vec<u32>,
}

/// What comes out of [`Statements`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Part<'a> {
    /// More of the text, as it was given.
    Text(&'a str),
    /// All of this statement has been handed on.
    Done(Statement),
}

/// Cuts a stream into statements.
#[derive(Debug, Default)]
pub(crate) struct Statements {
    /// The statement that is not over, and what is held back behind it.
    open: String,
    /// Bytes of it that were handed on.
    given: usize,
}

impl Statements {
    /// Takes a piece of the answer; `Break` from the sink ends it.
    pub(crate) fn push(
        &mut self,
        piece: &str,
        sink: &mut dyn FnMut(Part<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.open.push_str(piece);
        self.hand_on(false, sink)
    }

    /// Nothing more comes.
    pub(crate) fn end(
        &mut self,
        sink: &mut dyn FnMut(Part<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.hand_on(true, sink)
    }

    fn hand_on(
        &mut self,
        complete: bool,
        sink: &mut dyn FnMut(Part<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        loop {
            let (certain, over) = Look { text: &self.open, complete }.first_end();
            if certain > self.given {
                let given = std::mem::replace(&mut self.given, certain);
                sink(Part::Text(&self.open[given..certain]))?;
            }
            if !over {
                return ControlFlow::Continue(());
            }
            let rest = self.open.split_off(certain);
            let statement = Statement::of(&std::mem::replace(&mut self.open, rest));
            self.given = 0;
            // Rules between parts and the stop behind a citation say nothing.
            if statement.text.chars().any(char::is_alphanumeric) {
                sink(Part::Done(statement))?;
            }
        }
    }
}

impl Statement {
    fn of(text: &str) -> Statement {
        let mut numbers = Vec::new();
        let words = replace_marks(text, &mut |mark| {
            for number in mark {
                if !numbers.contains(number) {
                    numbers.push(*number);
                }
            }
            String::new()
        });
        Statement { text: words.trim().to_owned(), numbers }
    }
}

/// All statements of a finished answer.
pub(crate) fn statements(answer: &str) -> Vec<Statement> {
    let mut found = Vec::new();
    let mut sink = |part: Part<'_>| {
        if let Part::Done(statement) = part {
            found.push(statement);
        }
        ControlFlow::Continue(())
    };
    let mut cutter = Statements::default();
    let _ = cutter.push(answer, &mut sink);
    let _ = cutter.end(&mut sink);
    found
}

/// The text with every citation mark replaced; one that is replaced by nothing takes the space before it along.
pub(crate) fn replace_marks(text: &str, replace: &mut dyn FnMut(&[u32]) -> String) -> String {
    let mut replaced = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find('[') {
        replaced.push_str(&rest[..open]);
        let mark = &rest[open..];
        let Some((numbers, length)) = citation_mark(mark) else {
            replaced.push('[');
            rest = &mark[1..];
            continue;
        };
        let by = replace(&numbers);
        if by.is_empty() && replaced.ends_with(' ') {
            replaced.pop();
        }
        replaced.push_str(&by);
        rest = &mark[length..];
    }
    replaced.push_str(rest);
    replaced
}

/// Numbers and length of a `[n]` or `[n, m]` at the start of `text`.
fn citation_mark(text: &str) -> Option<(Vec<u32>, usize)> {
    let close = text.bytes().take(LONGEST_MARK).position(|it| it == b']')?;
    let numbers: Option<Vec<u32>> = text
        .get(1..close)?
        .split(',')
        .map(|it| it.trim_matches(' '))
        .map(|it| it.parse().ok().filter(|_| it.bytes().all(|it| it.is_ascii_digit())))
        .collect();
    Some((numbers?, close + 1))
}

/// The text does not say yet.
struct More;

/// A text, and whether that is all of it.
struct Look<'a> {
    text: &'a str,
    complete: bool,
}

impl Look<'_> {
    /// Bytes that certainly belong to the first statement, and whether it is over there.
    fn first_end(&self) -> (usize, bool) {
        for (at, c) in self.text.char_indices() {
            match self.end_at(at, c) {
                Ok(None) => {}
                Ok(Some(end)) => return (end, true),
                Err(More) => return (at, false),
            }
        }
        (self.text.len(), self.complete && !self.text.is_empty())
    }

    /// Where the statement ends if it does so with the character at `at`.
    fn end_at(&self, at: usize, c: char) -> Result<Option<usize>, More> {
        let after = at + c.len_utf8();
        match c {
            '。' | '！' | '？' | '।' | '؟' => self.marks(self.closers(after)?).map(Some),
            '.' | '!' | '?' | '…' => {
                let after = self.closers(after)?;
                let breaks = match self.peek(after)? {
                    Some('[') => self.mark(after)?.is_some(),
                    next => next.is_none_or(char::is_whitespace),
                };
                let quoted = self.text[at..after].ends_with(['"', '”', '’', '»']);
                if !breaks
                    || (quoted && self.goes_on_small(after)?)
                    || (matches!(c, '.' | '…') && self.goes_on(at, after)?)
                {
                    return Ok(None);
                }
                self.marks(after).map(Some)
            }
            '\n' => Ok(self.line_ends(at)?.then_some(at)),
            _ => Ok(None),
        }
    }

    /// The character at `at`; `None` behind the end.
    fn peek(&self, at: usize) -> Result<Option<char>, More> {
        match self.text[at..].chars().next() {
            None if !self.complete => Err(More),
            found => Ok(found),
        }
    }

    /// The first place from `at` on where `skip` does not hold.
    fn skip(&self, mut at: usize, skip: impl Fn(char) -> bool) -> Result<usize, More> {
        while let Some(c) = self.peek(at)?.filter(|it| skip(*it)) {
            at += c.len_utf8();
        }
        Ok(at)
    }

    /// Behind further marks of an end, quotes and brackets.
    fn closers(&self, at: usize) -> Result<usize, More> {
        self.skip(at, |c| matches!(c, '.' | '!' | '?' | '…') || is_closer(c))
    }

    /// Behind the citation marks that follow `at`.
    fn marks(&self, at: usize) -> Result<usize, More> {
        let mut end = at;
        loop {
            let next = self.skip(end, |c| c == ' ')?;
            let Some(length) = self.mark(next)? else { return Ok(end) };
            // A full stop may stand on both sides of a mark.
            end = self.skip(next + length, |c| c == '.')?;
        }
    }

    /// Length of the citation mark at `at`.
    fn mark(&self, at: usize) -> Result<Option<usize>, More> {
        if self.peek(at)? != Some('[') {
            return Ok(None);
        }
        let close = self.skip(at + 1, |c| c.is_ascii_digit() || matches!(c, ',' | ' '))?;
        let closed = self.peek(close)? == Some(']') && close - at < LONGEST_MARK;
        Ok(closed.then(|| citation_mark(&self.text[at..])).flatten().map(|it| it.1))
    }

    /// Whether the full stop at `at` is that of an abbreviation, a number in a list or an ordinal; `after` is behind
    /// it and what closes with it.
    fn goes_on(&self, at: usize, after: usize) -> Result<bool, More> {
        let before = &self.text[..at];
        if is_abbreviation(before) {
            return Ok(true);
        }
        let line = before.rsplit('\n').next().unwrap_or("").trim_start();
        let is_number = |it: &str| it.len() < 4 && it.bytes().all(|it| it.is_ascii_digit());
        if !line.is_empty() && is_number(line) {
            return Ok(true);
        }
        let word = before.rsplit(|c: char| c.is_whitespace() || c == '(').next().unwrap_or("");
        if word.chars().count() <= LONGEST_ABBREVIATION && self.goes_on_small(after)? {
            return Ok(true);
        }
        if word.is_empty() || word.len() > 2 || !is_number(word) {
            return Ok(false);
        }
        let next = self.skip(after, |c| c == ' ')?;
        let end = self.skip(next, char::is_alphabetic)?;
        Ok(AFTER_ORDINALS.contains(&&self.text[next..end]))
    }

    /// Whether a small letter follows.
    fn goes_on_small(&self, after: usize) -> Result<bool, More> {
        let next = self.skip(after, |c| c == ' ')?;
        Ok(self.peek(next)?.is_some_and(char::is_lowercase))
    }

    /// Whether the line break at `at` is more than the wrapping of a long line.
    fn line_ends(&self, at: usize) -> Result<bool, More> {
        let before = &self.text[..at];
        let line = before.rsplit('\n').find(|it| !it.trim().is_empty()).unwrap_or("").trim();
        if line.is_empty() || line.starts_with('#') || line.ends_with(':') {
            return Ok(false);
        }
        let next = self.skip(at + 1, |c| c == ' ' || c == '\t' || c == '\r')?;
        match self.peek(next)? {
            None | Some('\n' | '-' | '–' | '*' | '•' | '#' | '|' | '>') => return Ok(true),
            Some(c) if !c.is_ascii_digit() => return Ok(false),
            Some(_) => {}
        }
        let behind = self.skip(next, |c| c.is_ascii_digit())?;
        Ok(behind - next < 4 && matches!(self.peek(behind)?, Some('.' | ')')))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cut(text: &str) -> Vec<(String, Vec<u32>)> {
        statements(text).into_iter().map(|it| (it.text, it.numbers)).collect()
    }

    fn texts(text: &str) -> Vec<String> {
        statements(text).into_iter().map(|it| it.text).collect()
    }

    /// Everything that comes out when the text is given in these pieces, text joined.
    fn streamed(pieces: &[&str]) -> (String, Vec<(usize, Statement)>) {
        let (mut text, mut done) = (String::new(), Vec::new());
        let mut sink = |part: Part<'_>| {
            match part {
                Part::Text(more) => text.push_str(more),
                Part::Done(statement) => done.push((text.len(), statement)),
            }
            ControlFlow::Continue(())
        };
        let mut cutter = Statements::default();
        for piece in pieces {
            let _ = cutter.push(piece, &mut sink);
        }
        let _ = cutter.end(&mut sink);
        (text, done)
    }

    #[test]
    fn citations_belong_to_the_sentence_before_them() {
        for text in [
            "The hull is blue [1]. It flies [2][3].",
            "The hull is blue. [1] It flies. [2] [3]",
            "The hull is blue.[1] It flies. [2, 3].",
        ] {
            let expected =
                [("The hull is blue.", vec![1]), ("It flies.", vec![2, 3])].map(|it| (it.0, it.1));
            let found = cut(text);
            let found: Vec<(&str, Vec<u32>)> =
                found.iter().map(|(text, it)| (text.trim_end_matches(".."), it.clone())).collect();
            assert_eq!(found.len(), 2, "{text}: {found:?}");
            for (found, expected) in found.iter().zip(expected) {
                assert_eq!(found.1, expected.1, "{text}");
                assert_eq!(found.0.trim_end_matches('.'), expected.0.trim_end_matches('.'));
            }
        }
    }

    #[test]
    fn full_stops_that_end_nothing() {
        for text in [
            "Dr. Lee paid 3.50 at 4 p.m. on the quay, e.g. for seals.",
            "It weighs approx. five tons, i.e. 5.000 kg (max. load).",
            "Am 3. Oktober wurde das Boot im 19. Jahrhundert gebaut.",
            "See fig. 3 of version 1.2.3 and Array[x].",
            "J. Doe and No. 7 of St. Ives met.",
            "Well… maybe it is.",
        ] {
            assert_eq!(texts(text), [text]);
        }
    }

    #[test]
    fn sentences_of_several_languages() {
        assert_eq!(
            texts("船は1931年に造られた。[1]青い色です！ [2]"),
            ["船は1931年に造られた。", "青い色です！"]
        );
        assert_eq!(texts("यह नीला है। वह उड़ता है।"), ["यह नीला है।", "वह उड़ता है।"]);
        assert_eq!(texts("هل هو أزرق؟ نعم."), ["هل هو أزرق؟", "نعم."]);
        assert_eq!(
            texts("Das Boot ist blau [1]. Es fliegt z.B. nie."),
            ["Das Boot ist blau.", "Es fliegt z.B. nie."]
        );
        assert_eq!(texts("«Vraiment ?» dit-elle. Oui !"), ["«Vraiment ?» dit-elle.", "Oui !"]);
    }

    #[test]
    fn lists_headings_and_lines() {
        assert_eq!(
            cut(
                "## Needed\n\nYou need:\n- a boat [1]\n- a crew, e.g. two [2]\n\nThat is\nall [1].\n"
            ),
            [
                ("## Needed\n\nYou need:\n- a boat".to_owned(), vec![1]),
                ("- a crew, e.g. two".to_owned(), vec![2]),
                ("That is\nall.".to_owned(), vec![1])
            ]
        );
        assert_eq!(
            texts("1. First it sails. [1]\n2. Then it sinks [2]\n---\n"),
            ["1. First it sails.", "2. Then it sinks"]
        );
        assert_eq!(texts(""), [""; 0]);
        assert_eq!(texts(" \n [1] . "), [""; 0]);
    }

    #[test]
    fn a_sentence_is_done_with_the_first_letter_of_the_next() {
        let (mut seen, mut done) = (String::new(), 0);
        let mut cutter = Statements::default();
        for piece in ["It is", " blue.", " [1", "]", " ", "I"] {
            let _ = cutter.push(piece, &mut |part| {
                match part {
                    Part::Text(more) => seen.push_str(more),
                    Part::Done(_) => done += 1,
                }
                ControlFlow::Continue(())
            });
            assert_eq!(done, usize::from(piece == "I"), "{piece:?}");
        }
        assert_eq!(seen, "It is blue. [1] I");
    }

    #[test]
    fn breaking_off_ends_it() {
        let mut cutter = Statements::default();
        let mut parts = 0;
        let mut sink = |_: Part<'_>| {
            parts += 1;
            ControlFlow::Break(())
        };
        assert!(cutter.push("One. Two. ", &mut sink).is_break());
        assert_eq!(parts, 1);
    }

    proptest! {
        #[test]
        fn any_cut_of_the_stream_gives_the_same_statements(
            text in "([a-cA-C .!?…\n\\[\\]1-3,)\"#:。-]|\\[1\\]|e\\.g\\.|3\\. Mai|\n- |\n2\\. |\\PC){0,40}",
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let mut places: Vec<usize> = text.char_indices().map(|it| it.0).collect();
            places.push(text.len());
            let mut at: Vec<usize> = cuts.iter().map(|it| *it.get(&places)).collect();
            at.extend([0, text.len()]);
            at.sort_unstable();
            let pieces: Vec<&str> = at.windows(2).map(|it| &text[it[0]..it[1]]).collect();
            let letters: Vec<&str> = text.split("").collect();
            let whole = streamed(&[&text]);
            prop_assert_eq!(&whole.0, &text);
            prop_assert_eq!(&streamed(&pieces), &whole);
            prop_assert_eq!(&streamed(&letters), &whole);
        }
    }
}
