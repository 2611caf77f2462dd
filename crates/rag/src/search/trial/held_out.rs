//! A search for a question in the home as it would be if its passage did not hold the question.

use riddle_catalog::ChunkRecord;
use riddle_retrieval::sparse_score;
use riddle_types::{EmbedRole, Hit, Query, TermWeights};

use super::question::Question;
use crate::{
    contract::{Error, Result, SearchHit, SearchRequest},
    index::{indexed, passage_text},
    search::{
        find::Found,
        merge::{Made, Source},
        readable::known_only,
        reader::Assistant,
    },
};

/// What the home's models make of a passage without its question, and its BM25 score for that question.
pub(super) struct HeldOut {
    pub(super) vector: Option<Vec<f32>>,
    pub(super) terms: Option<TermWeights>,
    pub(super) keyword: Option<f32>,
}

impl HeldOut {
    pub(super) fn of(assistant: &Assistant, question: &Question) -> Result<HeldOut> {
        let record = &question.record;
        let text = text_of(record);
        let vector = match assistant.embedder.get(&assistant.config)? {
            Some(embedder) => embedder
                .embed(&[&text], EmbedRole::Passage)
                .map_err(Error::stage("embedding"))?
                .pop(),
            None => None,
        };
        let terms = match assistant.weigher.get(&assistant.config)? {
            Some(encoder) => encoder
                .encode(&[&text], EmbedRole::Passage)
                .map_err(Error::stage("weighing terms"))?
                .pop(),
            None => None,
        };
        let keyword = match &assistant.keyword {
            Some(reader) => {
                let asked = Query { text: question.text.clone(), ..Query::default() };
                let path = record.path.to_string_lossy();
                reader
                    .score_of(&asked, &indexed(record, &path))
                    .map_err(|error| Error::stage("keyword search")(error.into()))?
            }
            None => None,
        };
        Ok(HeldOut { vector, terms, keyword })
    }

    /// Puts it where the passage was, in each list as far up as its score says. Whatever else holds the very words
    /// goes: it answers the question as well.
    pub(super) fn put(
        &self,
        question: &Question,
        request: &SearchRequest,
        source: &mut Source,
        made: &Made,
    ) {
        let chunk = question.record.id;
        source.records.retain(|id, it| *id != chunk && !question.is_in(&it.text));
        let cosine = match (&made.vector, &self.vector) {
            (Some((_, query)), Some(own)) => Some(dot(query, own)),
            _ => None,
        };
        let sparse = match (&made.terms, &self.terms) {
            (Some(query), Some(own)) => Some(sparse_score(query.dot(own))).filter(|it| *it > 0.0),
            _ => None,
        };
        let limit = request.vector_candidates.max(request.k);
        let full = source.keyword.len() >= source.keyword_limit;
        let mut found = false;
        for (list, limit, score) in [
            (&mut source.keyword, source.keyword_limit, self.keyword),
            (&mut source.dense, limit, cosine),
            (&mut source.sparse, limit, sparse),
        ] {
            let full = list.len() >= limit;
            known_only(list, &source.records);
            found |= score.is_some_and(|score| insert(list, Hit { chunk, score, rank: 0 }, full));
        }
        // What lies behind a full list is unknown, also where some of it has gone.
        if full {
            source.keyword_limit = source.keyword.len();
        }
        if found {
            source.records.insert(chunk, question.record.clone());
            source.vectors.remove(&chunk);
            source.vectors.extend(self.vector.clone().map(|it| (chunk, it)));
            source.terms.remove(&chunk);
            source.terms.extend(self.terms.clone().map(|it| (chunk, it)));
        }
    }
}

/// Puts a hit into a list by its score. Behind the end of a `full` list nobody is found.
fn insert(list: &mut Vec<Hit>, hit: Hit, full: bool) -> bool {
    let place = list.iter().position(|it| it.score < hit.score).unwrap_or(list.len());
    if full && place == list.len() {
        return false;
    }
    list.insert(place, hit);
    for (hit, rank) in list.iter_mut().zip(1..) {
        hit.rank = rank;
    }
    true
}

/// A question, and what the home finds for it without its own words.
pub(super) struct Asked {
    pub(super) question: Question,
    pub(super) held_out: HeldOut,
    pub(super) found: Found,
}

impl Asked {
    pub(super) fn of(assistant: &Assistant, question: Question) -> Result<Asked> {
        let held_out = HeldOut::of(assistant, &question)?;
        let request = request(&question);
        let found = assistant.find_changed(&request, &mut |source, made| {
            held_out.put(&question, &request, source, made);
            Ok(())
        })?;
        Ok(Asked { question, held_out, found })
    }

    /// 1 / place of the right passage; 0 where it is not among the hits.
    pub(super) fn reciprocal(&self, hits: &[SearchHit]) -> f32 {
        let place = hits.iter().position(|it| it.chunk == self.question.record.id.0);
        place.map_or(0.0, |it| 1.0 / (it + 1) as f32)
    }
}

/// As the app and the command line search, at a time when nobody waits for it.
pub(super) fn request(question: &Question) -> SearchRequest {
    SearchRequest { idle: true, ..SearchRequest::new(question.text.as_str()) }
}

/// What models read of a passage.
pub(super) fn text_of(record: &ChunkRecord) -> String {
    passage_text(record.title.as_deref(), &record.heading, &record.text)
}

pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use riddle_types::ChunkId;

    use super::{super::question::Sample, *};
    use crate::{
        home::Config,
        index::{InputDocument, Library},
    };

    const ASKED: &str =
        "The mooring at Corley ends in March, when the ice has gone and the basin is filled again.";

    #[test]
    fn a_passage_is_found_by_what_is_left_of_it() {
        let home = tempfile::tempdir().expect("a folder");
        let config = Config { offline: true, ..Config::new(home.path()) };
        let rules =
            "Boats are washed before they are lifted out of the basin. Masts are laid on deck.";
        let texts = [
            ("rules", format!("{rules} {ASKED} The crane is not used in strong winds.")),
            (
                "copy",
                format!("As the harbour master wrote to us all in December: {ASKED} So be it."),
            ),
            ("other", "In March the ice on the basin was thick; mooring lines froze.".to_owned()),
        ];
        let documents = texts.iter().map(|(id, text)| InputDocument {
            id: (*id).to_owned(),
            title: String::new(),
            text: text.clone(),
        });
        Library::open(config.clone())
            .and_then(|mut library| {
                let stop = AtomicBool::new(false);
                library.add_documents("notes", &mut { documents }, &mut |_| {}, &stop)
            })
            .expect("indexed");
        let assistant = Assistant::open(config).expect("opens");
        let sample = Sample::draw(&assistant.catalog, 9, 9, 1).expect("readable");
        let question = sample
            .questions
            .into_iter()
            .find(|it| it.record.text.starts_with(rules) && it.is_in(ASKED))
            .expect("a question of the rules");
        let plain = assistant.find(&request(&question)).expect("found").response(9, false);
        let place = |chunk: u64| plain.hits.iter().position(|it| it.chunk == chunk);
        let (right, last) = (place(question.record.id.0), plain.hits.len() - 1);
        assert!(right.is_some_and(|it| it < last), "it holds the question: {plain:?}");

        let asked = Asked::of(&assistant, question).expect("found");
        let shown = asked.found.response(9, false);
        let texts: Vec<&str> = shown.hits.iter().map(|it| it.text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "In March the ice on the basin was thick; mooring lines froze.",
                &asked.question.record.text
            ],
            "the copy says it as well: it is no wrong answer"
        );
        assert!(!texts[1].contains("mooring") && texts[1].contains("basin"), "{texts:?}");
        assert_eq!(asked.reciprocal(&shown.hits), 0.5);
        assert_eq!(asked.reciprocal(&shown.hits[..1]), 0.0);
    }

    #[test]
    fn behind_the_end_of_a_full_list_nobody_is_found() {
        let hit = |chunk: u64, score: f32| Hit { chunk: ChunkId(chunk), score, rank: 0 };
        let list = || vec![hit(1, 3.0), hit(2, 1.0)];
        for (score, full, expected) in
            [(4.0, true, Some(0)), (2.0, true, Some(1)), (1.0, true, None), (1.0, false, Some(2))]
        {
            let mut list = list();
            assert_eq!(insert(&mut list, hit(9, score), full), expected.is_some());
            assert_eq!(list.iter().position(|it| it.chunk.0 == 9), expected);
            assert!(expected.is_none() || list.iter().map(|it| it.rank).eq([1, 2, 3]));
        }
    }
}
