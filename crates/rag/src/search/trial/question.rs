//! Questions made of the files themselves.

use std::collections::{HashMap, HashSet};

use riddle_catalog::{Catalog, ChunkRecord};
use riddle_claims::{sentences, telling_words};
use riddle_types::{ChunkId, FileKind};

use crate::contract::Result;

/// Characters of a sentence or heading that can be a question.
const QUESTION: std::ops::RangeInclusive<usize> = 24..=200;

/// Words of a sentence that are asked: few people type more. Fewer say too little.
const WORDS: std::ops::RangeInclusive<usize> = 3..=7;

/// Fewest characters of a passage.
const LEFT: usize = 120;

/// Longest sentence that is wanted: nobody asks in more.
const WANTED: usize = 90;

/// Questions of one file, at most: a large one does not speak for all.
const OF_A_FILE: usize = 3;

/// Passages that are looked at for each one that is wanted.
const LOOKED_AT: usize = 8;

/// A question, and the passage that is its right result.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Question {
    /// A heading, or the telling words of a sentence.
    pub(super) text: String,
    /// The heading or the sentence.
    pub(super) said: String,
    /// Its passage as it would be if it did not hold what is asked.
    pub(super) record: ChunkRecord,
    /// It was a heading.
    pub(super) from_heading: bool,
}

impl Question {
    /// Whether a text has the very words: passages overlap, and versions of a file repeat one another. Such a one
    /// answers the question as well as the right one.
    pub(super) fn is_in(&self, text: &str) -> bool {
        spaced(text).contains(&self.said)
    }
}

/// Passages drawn by lot.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Sample {
    pub(super) questions: Vec<Question>,
    /// Others, of which no question was made.
    pub(super) passages: Vec<ChunkRecord>,
    /// Share by language, the most frequent first.
    pub(super) languages: Vec<(String, f32)>,
    /// Share of all that were looked at by the kind of their file, the most frequent first.
    pub(super) kinds: Vec<(FileKind, f32)>,
}

impl Sample {
    /// At most so many questions and so many passages in all, of files of every kind but tables of numbers.
    pub(super) fn draw(
        catalog: &Catalog,
        questions: usize,
        passages: usize,
        seed: u64,
    ) -> Result<Sample> {
        let mut ids: Vec<ChunkId> = catalog.all_chunks()?;
        fastrand::Rng::with_seed(seed).shuffle(&mut ids);
        ids.truncate(passages.max(questions) * LOOKED_AT);
        let records = catalog.chunk_records(&ids)?;
        let mut seen: HashMap<&str, usize> = HashMap::new();
        for record in &records {
            *seen.entry(last_heading(record)).or_default() += 1;
        }
        let mut sample = Sample { kinds: kinds_of(&records), ..Sample::default() };
        let mut of_files: HashMap<i64, usize> = HashMap::new();
        let mut texts: HashSet<&str> = HashSet::new();
        let mut languages: HashMap<&str, usize> = HashMap::new();
        for record in &records {
            if !is_prose(&record.text) || !texts.insert(&record.text) {
                continue;
            }
            if let Some(language) = &record.language {
                *languages.entry(language).or_default() += 1;
            }
            let of_file = of_files.entry(record.file.0).or_default();
            let question = (*of_file < OF_A_FILE && sample.questions.len() < questions)
                .then(|| question_of(record, seen[last_heading(record)] == 1))
                .flatten();
            match question {
                Some(question) => {
                    *of_file += 1;
                    sample.questions.push(question);
                }
                None => sample.passages.push(record.clone()),
            }
        }
        sample.passages.truncate(passages.saturating_sub(sample.questions.len()));
        let all = languages.values().sum::<usize>().max(1) as f32;
        sample.languages =
            languages.iter().map(|it| ((*it.0).to_owned(), *it.1 as f32 / all)).collect();
        sample.languages.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        Ok(sample)
    }
}

fn kinds_of(records: &[ChunkRecord]) -> Vec<(FileKind, f32)> {
    let count = |kind: FileKind| records.iter().filter(|it| it.kind == kind).count();
    let all = records.len().max(1) as f32;
    let mut kinds: Vec<(FileKind, f32)> =
        FileKind::ALL.into_iter().map(|it| (it, count(it) as f32 / all)).collect();
    kinds.retain(|it| it.1 > 0.0);
    kinds.sort_by(|a, b| b.1.total_cmp(&a.1));
    kinds
}

fn last_heading(record: &ChunkRecord) -> &str {
    record.heading.rsplit(" › ").next().unwrap_or_default().trim()
}

/// Numbers and marks are no words to ask with.
fn is_prose(text: &str) -> bool {
    let letters = text.chars().filter(|it| it.is_alphabetic()).count();
    let shown = text.chars().filter(|it| !it.is_whitespace()).count();
    letters * 10 >= shown * 7
}

fn question_of(record: &ChunkRecord, heading_is_unique: bool) -> Option<Question> {
    let heading = last_heading(record);
    let text = record.text.trim();
    // Code's headings are names.
    let tells = heading_is_unique && record.kind != FileKind::Code;
    if tells
        && QUESTION.contains(&heading.chars().count())
        && is_prose(heading)
        && let Some(question) = without(record, heading, heading.to_owned(), true)
    {
        return Some(question);
    }
    let of_length = |it: &std::ops::Range<usize>| {
        let sentence = &text[it.clone()];
        QUESTION.contains(&sentence.chars().count()) && is_prose(sentence)
    };
    // The one whose length is nearest to what says one thing; of equals the first.
    let sentence = sentences(text)
        .into_iter()
        .filter(of_length)
        .min_by_key(|it| text[it.clone()].chars().count().abs_diff(WANTED))?;
    let sentence = &text[sentence];
    without(record, sentence, telling(sentence)?, false)
}

/// The question, and its passage without what was said; `None` where too little is left of that.
fn without(record: &ChunkRecord, said: &str, text: String, from_heading: bool) -> Option<Question> {
    let rest = record.text.replace(said, "").trim().to_owned();
    if rest.chars().count() < LEFT {
        return None;
    }
    let (above, last) = match record.heading.rsplit_once(" › ") {
        Some((above, last)) => (above, last),
        None => ("", record.heading.as_str()),
    };
    let heading = if last.contains(said) { above } else { &record.heading };
    let passage = ChunkRecord {
        title: record.title.clone().filter(|it| !it.contains(said)),
        heading: heading.to_owned(),
        text: rest,
        ..record.clone()
    };
    Some(Question { text, said: spaced(said), record: passage, from_heading })
}

/// With one space between words.
fn spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What of a sentence a person would type who remembers it: its telling words, in their order. A script without spaces
/// is asked as it is.
fn telling(sentence: &str) -> Option<String> {
    let words: Vec<&str> = sentence.split_whitespace().collect();
    if words.len() < *WORDS.start() {
        return Some(sentence.to_owned());
    }
    let plain = |it: &&str| it.trim_matches(|it: char| !it.is_alphanumeric()).to_lowercase();
    let told = words.iter().map(plain).filter(|it| !telling_words(it).is_empty());
    let told: Vec<String> = told.take(*WORDS.end()).collect();
    (told.len() >= *WORDS.start()).then(|| told.join(" "))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use riddle_catalog::FileId;
    use riddle_types::Location;

    use super::*;

    fn record(heading: &str, text: &str) -> ChunkRecord {
        ChunkRecord {
            id: ChunkId(7),
            file: FileId(1),
            path: PathBuf::from("/a.md"),
            kind: FileKind::Markdown,
            modified: 0,
            title: None,
            language: Some("en".to_owned()),
            ordinal: 0,
            heading: heading.to_owned(),
            text: text.to_owned(),
            location: Location::Line { start: 1, end: 9 },
            also_in: Vec::new(),
            versions: Vec::new(),
        }
    }

    const TEXT: &str = "When the seals are to be replaced. The cord is pressed into the groove dry, without any \
        glue, and cut with a sharp knife a finger's breadth longer than the groove. Let it rest for a night. Then close \
        the door, heat the oven slowly to a hundred degrees and look for steam at the edges of the door.";

    #[test]
    fn a_heading_is_asked_and_left_out() {
        let heading = "When the seals are to be replaced";
        let found = question_of(&record(&format!("Oven › {heading}"), TEXT), true);
        let found = found.expect("a question");
        assert_eq!(found.text, heading);
        assert!(found.from_heading && !found.record.text.contains("When the seals"), "{found:?}");
        assert_eq!((found.record.id.0, found.record.heading.as_str()), (7, "Oven"));
        // A title that says the same says it no more.
        let titled = ChunkRecord { title: Some(heading.to_owned()), ..record(heading, TEXT) };
        let found = question_of(&titled, true).expect("a question").record;
        assert_eq!((found.title, found.heading.as_str()), (None, ""));
    }

    #[test]
    fn a_sentence_is_asked_by_its_telling_words_and_left_out() {
        for (heading, unique) in [("Oven", true), ("When the seals are to be replaced", false)] {
            let found = question_of(&record(heading, TEXT), unique).expect("a question");
            assert!(!found.from_heading && found.record.heading == heading, "{found:?}");
            let words: Vec<&str> = found.text.split(' ').collect();
            assert!((3..=7).contains(&words.len()), "{found:?}");
            assert!(words.iter().all(|it| TEXT.to_lowercase().contains(it) && *it != "the"));
            assert!(found.is_in(TEXT) && !found.is_in(&found.record.text), "{found:?}");
        }
        let chinese = "门封必须每十八个月更换一次。".repeat(12)
            + "请不要在烤箱还热的时候更换门上的密封条，也不要使用任何胶水或者油脂。";
        let found = question_of(&record("", &chinese), false).expect("a question");
        assert!(!found.is_in(&found.record.text), "{found:?}");
        assert!(found.text.starts_with("请不要"), "{found:?}");
    }

    #[test]
    fn what_leaves_nothing_to_find_is_not_asked() {
        assert_eq!(
            question_of(&record("", "One short sentence of some thirty letters."), true),
            None
        );
        assert_eq!(question_of(&record("", &"1 200.50 | 33 | 7\n".repeat(40)), true), None);
        assert!(!is_prose("12 | 44 | 1997-02-03") && is_prose("Heat it slowly to 250 °C"));
    }
}
