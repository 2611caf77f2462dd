//! Labelled claims, made from questions with answers in the format of SQuAD.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

use riddle_rag::claims::ClaimPassage;
use serde::{Deserialize, Serialize};

use super::wording::{reworded, statement};
use crate::{Dataset, Document, Error, Result};

/// Largest file of questions and answers; SQuAD's training set has 40 MB.
const MAX_BYTES: u64 = 1 << 30;

/// How a pair was made, and thereby whether the claim is true to its passage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimKind {
    /// Question and answer as one sentence, cited to their own paragraph.
    Answer,
    /// The sentence with the answer in other words, cited to its own paragraph.
    Reworded,
    /// A true claim cited to another paragraph of the article, which does not have the answer.
    OtherParagraph,
    /// A true claim cited to the paragraph that a search for it finds first among those without the answer.
    Retrieved,
    /// A claim with another answer of the same type that the article has and the paragraph has not.
    WrongElsewhere,
    /// A claim with another answer of the same type from the same paragraph.
    WrongNearby,
    /// A question that people wrote so that the paragraph seems to answer it and does not, with what seems to be its
    /// answer.
    Unanswerable,
}

impl ClaimKind {
    /// All, supported ones first.
    pub const ALL: [ClaimKind; 7] = [
        ClaimKind::Answer,
        ClaimKind::Reworded,
        ClaimKind::OtherParagraph,
        ClaimKind::Retrieved,
        ClaimKind::WrongElsewhere,
        ClaimKind::WrongNearby,
        ClaimKind::Unanswerable,
    ];

    /// The name in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            ClaimKind::Answer => "answer",
            ClaimKind::Reworded => "reworded",
            ClaimKind::OtherParagraph => "other_paragraph",
            ClaimKind::Retrieved => "retrieved",
            ClaimKind::WrongElsewhere => "wrong_elsewhere",
            ClaimKind::WrongNearby => "wrong_nearby",
            ClaimKind::Unanswerable => "unanswerable",
        }
    }

    /// Whether the passage says it.
    pub fn is_supported(self) -> bool {
        matches!(self, ClaimKind::Answer | ClaimKind::Reworded)
    }
}

/// A claim, what it cites, and how it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) kind: ClaimKind,
    pub(super) question: String,
    pub(super) claim: String,
    /// What it cites, or what it might have cited.
    pub(super) passages: Vec<ClaimPassage>,
}

impl Pair {
    fn of(kind: ClaimKind, question: &Question, claim: &str, cited: &Document) -> Pair {
        let passages = vec![passage(1, cited)];
        Pair { kind, question: question.text.clone(), claim: claim.to_owned(), passages }
    }
}

fn passage(number: u32, it: &Document) -> ClaimPassage {
    ClaimPassage { number, context: it.title.clone(), text: it.text.clone() }
}

#[derive(Debug, Deserialize)]
struct File {
    data: Vec<Article>,
}

#[derive(Debug, Deserialize)]
struct Article {
    title: String,
    paragraphs: Vec<Paragraph>,
}

#[derive(Debug, Deserialize)]
struct Paragraph {
    context: String,
    qas: Vec<Asked>,
}

#[derive(Debug, Deserialize)]
struct Asked {
    id: String,
    question: String,
    #[serde(default)]
    answers: Vec<Answer>,
    #[serde(default)]
    plausible_answers: Vec<Answer>,
}

#[derive(Debug, Deserialize)]
struct Answer {
    text: String,
    #[serde(default)]
    answer_start: usize,
}

/// A question of one half of the articles.
#[derive(Debug)]
pub(super) struct Question {
    id: String,
    pub(super) text: String,
    answers: Vec<(String, usize)>,
    plausible: Option<String>,
    /// Place of its paragraph in the corpus.
    gold: usize,
    article: usize,
}

impl Question {
    /// Whether the document is another one than its paragraph, and has none of its answers.
    fn lacks(&self, place: usize, dataset: &Dataset) -> bool {
        let text = &dataset.documents[place].text;
        place != self.gold && self.answers.iter().all(|it| !says(text, &it.0))
    }
}

/// Which articles: the constants are fitted on one half and measured on the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimSplit {
    /// Articles whose title's digest is even.
    Calibration,
    /// The others.
    HeldOut,
}

impl ClaimSplit {
    fn has(self, title: &str) -> bool {
        let title = title.replace('_', " ");
        let even = blake3::hash(title.trim().as_bytes()).as_bytes()[0].is_multiple_of(2);
        even == (self == ClaimSplit::Calibration)
    }
}

/// The questions of a file that have a paragraph in the corpus, and whose articles are in the split.
pub(super) struct Questions {
    pub(super) all: Vec<Question>,
    /// Answers by article, with the place of their paragraph.
    answers: HashMap<usize, Vec<(String, usize)>>,
    /// Paragraphs of the file that the corpus lacks.
    pub(super) unknown: usize,
    /// Titles of the articles in the split.
    pub(super) titles: Vec<String>,
}

impl Questions {
    pub(super) fn read(path: &Path, split: ClaimSplit, dataset: &Dataset) -> Result<Questions> {
        let fail = |source| Error::Io { path: PathBuf::from(path), source };
        let bad = |why: String| Error::Dataset { path: path.to_path_buf(), why };
        if fs::metadata(path).map_err(fail)?.len() > MAX_BYTES {
            return Err(bad("it has more than 1 GiB".to_owned()));
        }
        let file: File =
            serde_json::from_slice(&fs::read(path).map_err(fail)?).map_err(|error| {
                bad(format!("{error}: questions and answers are given in the JSON format of SQuAD"))
            })?;
        let flat = |it: &str| it.split_whitespace().collect::<Vec<_>>().join(" ");
        let places: HashMap<String, usize> = dataset
            .documents
            .iter()
            .enumerate()
            .map(|(place, it)| (flat(&it.text), place))
            .collect();
        let mut questions =
            Questions { all: Vec::new(), answers: HashMap::new(), unknown: 0, titles: Vec::new() };
        for (article, it) in file.data.into_iter().enumerate().filter(|it| split.has(&it.1.title)) {
            questions.titles.push(it.title.replace('_', " "));
            for paragraph in it.paragraphs {
                let Some(&gold) = places.get(&flat(&paragraph.context)) else {
                    questions.unknown += 1;
                    continue;
                };
                questions.add(article, gold, paragraph.qas);
            }
        }
        if questions.all.is_empty() {
            let why = "none of its paragraphs is in the corpus, or none has a question".to_owned();
            return Err(Error::Dataset { path: path.to_path_buf(), why });
        }
        Ok(questions)
    }

    fn add(&mut self, article: usize, gold: usize, asked: Vec<Asked>) {
        for it in asked {
            let answers: Vec<(String, usize)> =
                it.answers.into_iter().map(|it| (it.text, it.answer_start)).collect();
            if let Some(first) = answers.first() {
                self.answers.entry(article).or_default().push((first.0.clone(), gold));
            }
            let plausible = it.plausible_answers.into_iter().next().map(|it| it.text);
            if answers.is_empty() && plausible.is_none() {
                continue;
            }
            self.all.push(Question {
                id: it.id,
                text: it.question,
                answers,
                plausible,
                gold,
                article,
            });
        }
    }

    /// The pairs of a question; `found` are the places of what a search for the claim finds, best first.
    pub(super) fn pairs(
        &self,
        question: &Question,
        dataset: &Dataset,
        found: &mut dyn FnMut(&str) -> Result<Vec<usize>>,
    ) -> Result<Vec<Pair>> {
        let gold = &dataset.documents[question.gold].text;
        let mut pairs = Vec::new();
        let mut push = |kind, claim: &str, place: usize| {
            pairs.push(Pair::of(kind, question, claim, &dataset.documents[place]));
        };
        if let Some(plausible) = &question.plausible {
            if let Some(claim) = statement(&question.text, plausible, gold) {
                push(ClaimKind::Unanswerable, &claim, question.gold);
            }
            return Ok(pairs);
        }
        let Some((answer, start)) = question.answers.first() else { return Ok(pairs) };
        let Some(claim) = statement(&question.text, answer, gold) else { return Ok(pairs) };
        push(ClaimKind::Answer, &claim, question.gold);
        let other = sentence_at(gold, *start).and_then(reworded);
        if let Some(other) = &other {
            push(ClaimKind::Reworded, other, question.gold);
        }
        // Half of what is cited wrongly is worded in the one way, half in the other.
        let pick = pick(&question.id);
        let cited_wrongly = other.as_deref().filter(|_| pick.is_multiple_of(2)).unwrap_or(&claim);
        let lacks = |place: &usize| question.lacks(*place, dataset);
        let title = &dataset.documents[question.gold].title;
        let siblings: Vec<usize> = (0..dataset.documents.len())
            .filter(|it| &dataset.documents[*it].title == title)
            .filter(lacks)
            .collect();
        if !siblings.is_empty() {
            push(ClaimKind::OtherParagraph, cited_wrongly, siblings[pick % siblings.len()]);
        }
        if let Some(place) = found(cited_wrongly)?.into_iter().find(lacks) {
            push(ClaimKind::Retrieved, cited_wrongly, place);
        }
        for kind in [ClaimKind::WrongElsewhere, ClaimKind::WrongNearby] {
            let wrong = self.wrong_answers(question, gold, kind == ClaimKind::WrongNearby);
            if wrong.is_empty() {
                continue;
            }
            let wrong = wrong[pick % wrong.len()];
            if let Some(claim) = statement(&question.text, wrong, gold) {
                push(kind, &claim, question.gold);
            }
        }
        Ok(pairs)
    }

    /// The same claims as sentences that cite nothing, each with all the passages it might have been taken from: those
    /// at `found`, of which the one with the answer must be. `None`: it is not, and nothing can be said.
    ///
    /// A true claim that cites the wrong passage becomes one that is asked of the passages without the answer.
    pub(super) fn uncited(
        &self,
        question: &Question,
        dataset: &Dataset,
        found: &[usize],
    ) -> Result<Option<Vec<Pair>>> {
        if !found.contains(&question.gold) {
            return Ok(None);
        }
        let mut pairs = self.pairs(question, dataset, &mut |_| Ok(found.to_vec()))?;
        pairs.retain(|it| it.kind != ClaimKind::OtherParagraph);
        for pair in &mut pairs {
            let lacking = pair.kind == ClaimKind::Retrieved;
            let places = found.iter().filter(|it| !lacking || question.lacks(**it, dataset));
            pair.passages =
                (1..).zip(places).map(|(n, it)| passage(n, &dataset.documents[*it])).collect();
        }
        Ok(Some(pairs))
    }

    /// Answers of the same type to other questions, from the paragraph or from elsewhere in the article.
    fn wrong_answers(&self, question: &Question, gold: &str, nearby: bool) -> Vec<&str> {
        let of_article = self.answers.get(&question.article).map_or(&[][..], Vec::as_slice);
        let right = &question.answers;
        let is_other = |it: &str| {
            right.iter().all(|right| !says(it, &right.0) && !says(&right.0, it))
                && !says(&question.text, it)
        };
        of_article
            .iter()
            .filter(|(it, place)| {
                kind_of(it) == kind_of(&right[0].0)
                    && is_other(it)
                    && if nearby { *place == question.gold } else { !says(gold, it) }
            })
            .map(|it| it.0.as_str())
            .collect()
    }
}

/// A number that is always the same for a question, and evenly spread.
fn pick(id: &str) -> usize {
    usize::from(u16::from_le_bytes(
        blake3::hash(id.as_bytes()).as_bytes()[..2].try_into().expect("two bytes: this is a bug"),
    ))
}

/// What an answer is, as far as its form tells.
#[derive(Debug, PartialEq, Eq)]
enum Form {
    Number,
    Name,
    Words,
}

fn kind_of(answer: &str) -> Form {
    const NUMBER_WORDS: [&str; 11] =
        ["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "half", "one"];
    let lower = answer.to_lowercase();
    if answer.bytes().any(|it| it.is_ascii_digit())
        || lower.split(' ').any(|it| NUMBER_WORDS.contains(&it))
    {
        return Form::Number;
    }
    let capital = |it: &str| it.chars().next().is_some_and(char::is_uppercase);
    match answer.split(' ').next_back() {
        Some(last) if capital(last) => Form::Name,
        _ => Form::Words,
    }
}

/// Whether the words of `part` stand in `text` one after the other.
fn says(text: &str, part: &str) -> bool {
    let flat = |it: &str| {
        let words: Vec<String> = it
            .split(|c: char| !c.is_alphanumeric())
            .filter(|it| {
                !it.is_empty() && !["the", "a", "an"].contains(&it.to_lowercase().as_str())
            })
            .map(str::to_lowercase)
            .collect();
        format!(" {} ", words.join(" "))
    };
    flat(text).contains(&flat(part))
}

/// The sentence around the character at `start`.
fn sentence_at(text: &str, start: usize) -> Option<&str> {
    let at = text.char_indices().nth(start)?.0;
    let ends = |it: &(usize, &str)| it.1 == ". ";
    let marks: Vec<usize> = text
        .char_indices()
        .filter_map(|(it, _)| Some((it, text.get(it..it + 2)?)))
        .filter(ends)
        .map(|it| it.0 + 2)
        .collect();
    let from = marks.iter().rev().find(|it| **it <= at).copied().unwrap_or(0);
    let until = marks.iter().find(|it| **it > at).copied().unwrap_or(text.len());
    Some(text[from..until].trim()).filter(|it| it.split(' ').count() > 4)
}
