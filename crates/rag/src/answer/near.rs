//! What a threshold of similarity lets through of the questions that were asked: what a person moves, seen on what they
//! have asked.

use std::collections::{HashMap, hash_map::Entry};

use riddle_catalog::{AnswerState, BankQuestion};

use super::alike::same_terms;
use crate::{contract::Result, home::Records, index::cosine};

/// Questions that are looked back on.
const LOOKED_BACK: usize = 50;

/// How near a question is to another one whose answer is kept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NearQuestion {
    /// Cosine of the nearest one, 0 where there is none: from this threshold on its answer is looked at by nobody.
    pub similarity: f32,
    /// The same of the nearest one with equal numbers, names, negations and what is asked for: without those no answer
    /// is given in grade *checked*.
    pub by_words: f32,
}

impl Records {
    /// The last fifty questions that people asked, newest first, each held against the others of its setting.
    ///
    /// # Errors
    /// When the catalog can not be read.
    pub fn near_questions(&self) -> Result<Vec<NearQuestion>> {
        let Some(embedder) = self.catalog.active_embedder()? else { return Ok(Vec::new()) };
        let mut of: HashMap<[u8; 32], Vec<BankQuestion>> = HashMap::new();
        let mut near = Vec::new();
        for asked in self.catalog.asked_last(LOOKED_BACK)? {
            let all = match of.entry(asked.setting) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => {
                    new.insert(self.catalog.bank_questions(Some(&asked.setting), &embedder.id)?)
                }
            };
            // A question of another embedder has no vector that could be compared.
            if let Some(own) = all.iter().find(|it| it.id == asked.id) {
                near.push(nearest(own, all));
            }
        }
        Ok(near)
    }
}

fn nearest(own: &BankQuestion, all: &[BankQuestion]) -> NearQuestion {
    let mut near = NearQuestion { similarity: 0.0, by_words: 0.0 };
    for other in all.iter().filter(|it| it.id != own.id && it.state == AnswerState::Fresh) {
        let similarity = cosine(&own.vector, &other.vector);
        near.similarity = near.similarity.max(similarity);
        if similarity > near.by_words && same_terms(&own.question, &other.question) {
            near.by_words = similarity;
        }
    }
    near
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_question_with_an_answer_counts_and_so_do_its_words() {
        let question = |id, question: &str, vector: [f32; 2], state| BankQuestion {
            id,
            question: question.to_owned(),
            vector: vector.to_vec(),
            floor: None,
            state,
        };
        let all = [
            question(1, "What does the mooring cost in 2024?", [1.0, 0.0], AnswerState::Fresh),
            question(2, "What does the mooring cost in 2023?", [0.96, 0.28], AnswerState::Fresh),
            question(3, "How much does the mooring cost in 2024?", [0.8, 0.6], AnswerState::Fresh),
            question(
                4,
                "What is the cost of the mooring in 2024?",
                [1.0, 0.0],
                AnswerState::Pending,
            ),
        ];
        let near = nearest(&all[0], &all);
        assert!((near.similarity - 0.96).abs() < 1e-6 && (near.by_words - 0.8).abs() < 1e-6);
        assert_eq!(nearest(&all[0], &all[..1]), NearQuestion { similarity: 0.0, by_words: 0.0 });
    }
}
