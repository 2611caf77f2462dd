//! Kept answers follow the change log: what is new and could have been read for a question makes its answer suspect.
//!
//! What is gone is no concern here: the catalog takes an answer's words with the first passage that it read.

use std::collections::{HashMap, HashSet};

use riddle_catalog::{BankQuestion, Catalog, ChunkRecord};
use riddle_claims::telling_words;
use riddle_types::ChunkId;

use super::text::passage_text;
use crate::contract::Result;

/// Changes looked at per step: bounds the passages in memory.
const STEP: usize = 512;

/// Share of a question's telling words that a newcomer has, from which it could be found by them. Every word would let
/// one answer in three be written again for a note on another subject; all of them would miss one that says it in other
/// words, which its vector is there for.
const WORDS: f32 = 0.5;

/// How much farther a newcomer may be than the farthest passage that was read: its vector and the question's are made
/// in other batches, and the reranker reads more than it keeps.
const MARGIN: f32 = 0.05;

/// Holds what is new since the last time against every kept answer.
pub(super) fn follow(catalog: &Catalog, last: u64) -> Result<()> {
    let Some(seq) = catalog.answers_seq()? else { return Ok(()) };
    if seq == last {
        return Ok(());
    }
    if !catalog.can_follow(seq)? {
        return Ok(catalog.suspect_all_answers(last)?);
    }
    let embedder = catalog.active_embedder()?.map(|it| it.id);
    let kept = kept(catalog, embedder.as_deref())?;
    let mut suspects = HashSet::new();
    let mut from = seq;
    loop {
        let changes = catalog.changes_since(from, STEP)?;
        let Some(end) = changes.last() else { break };
        from = end.seq;
        let mut here: Vec<ChunkId> =
            changes.iter().filter(|it| !it.removed).map(|it| it.chunk).collect();
        here.sort_unstable();
        here.dedup();
        let vectors: HashMap<ChunkId, Vec<f32>> = match &embedder {
            Some(embedder) => catalog.vectors_of(embedder, &here)?.into_iter().collect(),
            None => HashMap::new(),
        };
        for record in catalog.chunk_records(&here)? {
            let words = words_of(&record);
            let vector = vectors.get(&record.id);
            let near = kept.iter().filter(|it| it.could_read(&words, vector.map(Vec::as_slice)));
            suspects.extend(near.map(|it| it.question.id));
        }
    }
    let suspects: Vec<i64> = suspects.into_iter().collect();
    Ok(catalog.suspect_answers(&suspects, last)?)
}

/// A question as newcomers are held against it.
struct Kept {
    question: BankQuestion,
    words: HashSet<String>,
}

fn kept(catalog: &Catalog, embedder: Option<&str>) -> Result<Vec<Kept>> {
    let with_vector = match embedder {
        Some(embedder) => catalog.bank_questions(None, embedder)?,
        None => Vec::new(),
    };
    let known: HashSet<i64> = with_vector.iter().map(|it| it.id).collect();
    // Vectors of another embedder say nothing: words decide.
    let others = catalog.bank(usize::MAX >> 1)?.into_iter().filter(|it| !known.contains(&it.id));
    let by_words = others.map(|it| BankQuestion {
        id: it.id,
        question: it.question,
        vector: Vec::new(),
        floor: None,
        state: it.state,
    });
    Ok(with_vector
        .into_iter()
        .chain(by_words)
        .map(|question| Kept { words: telling_words(&question.question), question })
        .collect())
}

fn words_of(record: &ChunkRecord) -> HashSet<String> {
    let title = record.title.as_deref();
    let name = record.path.file_name().unwrap_or_default().to_string_lossy();
    let text = passage_text(title.or(Some(&name)), &record.heading, &record.text);
    telling_words(&text)
}

impl Kept {
    /// Whether a passage with these words and this vector could have been read for the question.
    fn could_read(&self, words: &HashSet<String>, vector: Option<&[f32]>) -> bool {
        let shared = self.words.intersection(words).count() as f32;
        if self.words.is_empty() || shared >= WORDS * self.words.len() as f32 {
            return true;
        }
        match (vector, self.question.floor) {
            (Some(vector), Some(floor)) if vector.len() == self.question.vector.len() => {
                cosine(vector, &self.question.vector) >= floor - MARGIN
            }
            // A newcomer without a vector comes again when it has one.
            _ => false,
        }
    }
}

/// Cosine of two vectors; 0 where one has no length.
pub(crate) fn cosine(a: &[f32], b: &[f32]) -> f32 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    let norm = (dot(a, a) * dot(b, b)).sqrt();
    if norm > 0.0 { dot(a, b) / norm } else { 0.0 }
}
