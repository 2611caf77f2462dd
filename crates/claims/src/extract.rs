//! The generator that writes nothing of its own: the best sentences of the best passages, verbatim.
//!
//! It stands behind the same [`Generator`] seam as a language model, so an answer always has the same
//! shape: sentences with citations, streamed, checked afterwards.

use std::{collections::HashSet, ops::ControlFlow, time::Instant};

use riddle_types::{
    EmbedRole, Embedder, Generation, GenerationRequest, Generator, Passage, StageError,
};

use crate::{
    sentences::{is_whole, sentences},
    verdict::Support,
};

/// Most sentences of an answer: more is no longer an answer but the passages again.
const MAX_SENTENCES: usize = 3;

/// A further sentence is quoted only if it scores at least this share of the best one: below it,
/// sentences are about the topic and not about the question.
const FURTHER_SENTENCE_SHARE: f32 = 0.85;

/// Weight of the meaning (cosine) against the words (coverage). The cosine carries paraphrases; the
/// coverage keeps names and numbers, which small encoders blur.
pub(crate) const MEANING_WEIGHT: f32 = 0.7;

/// Sentences looked at per request, so that a question over long passages stays interactive.
const MAX_CANDIDATE_SENTENCES: usize = 96;

/// The sentences of the passages, weighed against a question.
#[derive(Debug, Clone, Default)]
pub struct Evidence {
    /// Best first.
    sentences: Vec<Scored>,
}

/// Quotes the sentences that are closest to the question.
#[derive(Debug, Default)]
pub struct Extractive {
    evidence: Evidence,
}

/// A sentence of a passage with its score against the question.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scored {
    /// Number of its passage.
    pub(crate) number: u32,
    /// The sentence, verbatim.
    pub(crate) text: String,
    /// Cosine to the question, −1…1; `None` without an embedder.
    pub(crate) cosine: Option<f32>,
    /// Share of the question's content words that the sentence holds, 0…1.
    pub(crate) coverage: f32,
}

impl Scored {
    /// Order of quotation: a mixture of meaning and words, 0…1.
    pub(crate) fn score(&self) -> f32 {
        match self.cosine {
            Some(cosine) => {
                MEANING_WEIGHT * cosine.max(0.0) + (1.0 - MEANING_WEIGHT) * self.coverage
            }
            None => self.coverage,
        }
    }
}

impl Evidence {
    /// Weighs every sentence of the passages: by meaning and words with an embedder, by words alone without.
    ///
    /// # Errors
    /// When the embedder can not be run.
    pub fn weigh(
        question: &str,
        passages: &[Passage],
        embedder: Option<&dyn Embedder>,
    ) -> Result<Evidence, StageError> {
        let wanted = content_words(question);
        let mut scored: Vec<Scored> = passages
            .iter()
            .flat_map(|passage| {
                sentences(&passage.text)
                    .into_iter()
                    .map(|range| (passage.number, &passage.text[range]))
            })
            .take(MAX_CANDIDATE_SENTENCES)
            .map(|(number, text)| Scored {
                number,
                text: text.to_owned(),
                cosine: None,
                coverage: coverage(&wanted, text),
            })
            .collect();
        if let Some(embedder) = embedder {
            let query = embedder.embed(&[question], EmbedRole::Query)?;
            let texts: Vec<&str> = scored.iter().map(|it| it.text.as_str()).collect();
            let vectors = embedder.embed(&texts, EmbedRole::Passage)?;
            for (sentence, vector) in scored.iter_mut().zip(&vectors) {
                sentence.cosine = query.first().map(|query| dot(query, vector));
            }
        }
        // A stable sort: sentences of better passages stay before equally good ones of worse passages.
        scored.sort_by(|a, b| b.score().total_cmp(&a.score()));
        Ok(Evidence { sentences: scored })
    }

    /// The best sentence's score, 0…1; 0 without any.
    pub fn strength(&self) -> f32 {
        self.sentences.first().map_or(0.0, Scored::score)
    }
}

impl Extractive {
    /// Quotes from this evidence.
    pub fn new(evidence: Evidence) -> Self {
        Extractive { evidence }
    }

    /// The sentences that are quoted, best first.
    fn chosen(&self) -> Vec<&Scored> {
        let best = self.evidence.strength();
        let (mut chosen, mut quoted) = (Vec::new(), HashSet::new());
        for sentence in &self.evidence.sentences {
            if chosen.len() == MAX_SENTENCES || sentence.score() < best * FURTHER_SENTENCE_SHARE {
                break;
            }
            // The best may be a row of a table; what is said besides it has to say something by itself.
            if !chosen.is_empty() && !is_whole(&sentence.text) {
                continue;
            }
            // Copies of a file hold the same sentence; it is said once.
            if quoted.insert(normalized(&sentence.text)) {
                chosen.push(sentence);
            }
        }
        chosen
    }

    /// The chosen sentences as quotations, to stand below an answer that a model wrote.
    pub fn quotes(&self) -> Vec<Support> {
        let quote = |it: &Scored| Support::quotation(it.text.clone(), Some(it.number));
        self.chosen().into_iter().map(quote).collect()
    }
}

impl Generator for Extractive {
    fn name(&self) -> &str {
        "extractive"
    }

    fn generate(
        &self,
        _request: &GenerationRequest,
        sink: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Generation, StageError> {
        let started = Instant::now();
        let mut generation = Generation::default();
        for sentence in self.chosen() {
            let gap = if generation.text.is_empty() { "" } else { " " };
            let piece = format!("{gap}{} [{}]", sentence.text, sentence.number);
            if generation.text.is_empty() {
                generation.first_token_ms = started.elapsed().as_secs_f64() * 1e3;
            }
            generation.text.push_str(&piece);
            if sink(&piece).is_break() {
                break;
            }
        }
        Ok(generation)
    }
}

/// Dot product; the cosine, for normalized vectors.
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Lower-cased words without punctuation, for comparing sentences.
pub(crate) fn normalized(text: &str) -> String {
    words(text).collect::<Vec<_>>().join(" ")
}

pub(crate) fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|c: char| !c.is_alphanumeric()).filter(|it| !it.is_empty()).map(str::to_lowercase)
}

/// Function words of English questions: they match everywhere and decide nothing.
const STOP_WORDS: [&str; 60] = [
    "a", "about", "after", "an", "and", "any", "are", "as", "at", "be", "before", "by", "can",
    "did", "do", "does", "for", "from", "had", "has", "have", "he", "her", "his", "how", "i", "in",
    "is", "it", "its", "many", "me", "much", "my", "of", "on", "or", "our", "she", "should",
    "that", "the", "their", "there", "they", "this", "to", "was", "we", "were", "what", "when",
    "where", "which", "who", "why", "will", "with", "you", "your",
];

fn content_words(question: &str) -> HashSet<String> {
    let content = telling_words(question);
    if content.is_empty() { words(question).map(|it| stem(&it)).collect() } else { content }
}

/// Stems of the words that are no stop words.
pub fn telling_words(text: &str) -> HashSet<String> {
    words(text).filter(|it| !STOP_WORDS.contains(&it.as_str())).map(|it| stem(&it)).collect()
}

/// Share of `wanted` that `text` holds.
fn coverage(wanted: &HashSet<String>, text: &str) -> f32 {
    if wanted.is_empty() {
        return 0.0;
    }
    let present: HashSet<String> = words(text).map(|it| stem(&it)).collect();
    wanted.intersection(&present).count() as f32 / wanted.len() as f32
}

/// The first six characters: inflections of a word in most European languages share them, and this
/// measure only orders sentences that the retrievers already found.
pub(crate) fn stem(word: &str) -> String {
    word.chars().take(6).collect()
}

#[cfg(test)]
mod tests {
    use riddle_types::PassageOrder;

    use super::*;

    fn passages(texts: &[&str]) -> Vec<Passage> {
        texts
            .iter()
            .zip(1..)
            .map(|(text, number)| Passage { number, text: (*text).to_owned(), chunk: None })
            .collect()
    }

    fn answer(question: &str, texts: &[&str]) -> String {
        let request = GenerationRequest {
            question: question.to_owned(),
            passages: passages(texts),
            max_tokens: 100,
            order: PassageOrder::default(),
        };
        let evidence = Evidence::weigh(question, &request.passages, None).expect("words alone");
        let mut streamed = String::new();
        let generation = Extractive::new(evidence)
            .generate(&request, &mut |piece| {
                streamed.push_str(piece);
                ControlFlow::Continue(())
            })
            .expect("words alone can not fail");
        assert_eq!(streamed, generation.text);
        generation.text
    }

    #[test]
    fn quotes_the_sentence_that_covers_the_question() {
        let text =
            "The hull was painted blue. The engine was overhauled in 1998 by Thorne. It rained.";
        assert_eq!(
            answer("Who overhauled the engine?", &[text]),
            "The engine was overhauled in 1998 by Thorne. [1]"
        );
    }

    #[test]
    fn the_same_sentence_in_two_files_is_said_once() {
        let text = "The engine was overhauled by Thorne.";
        assert_eq!(answer("Who overhauled the engine?", &[text, text]), format!("{text} [1]"));
    }

    #[test]
    fn fragments_answer_alone_and_never_besides() {
        let row = "Engine overhauled: 1998, Thorne";
        assert_eq!(answer("Who overhauled the engine?", &[row]), format!("{row} [1]"));
        let text = "The engine was overhauled by Thorne.";
        assert_eq!(
            answer("Who overhauled the engine?", &[text, "engine overhauled Thorne"]),
            format!("{text} [1]")
        );
    }

    #[test]
    fn no_passages_no_words() {
        assert_eq!(answer("Who?", &[]), "");
    }

    #[test]
    fn a_question_of_stop_words_still_compares_words() {
        assert_eq!(content_words("who are you").len(), 3);
    }
}
