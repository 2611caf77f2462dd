//! The passages of an answer: as a generator gets them, as claims are held against them, as sources under it.

use riddle_claims::{ClaimPassage, Support};
use riddle_types::{ChunkId, Passage};

use crate::{
    contract::{Citation, SearchHit},
    index::passage_text,
};

/// The passages as a generator gets them.
pub(super) fn numbered(hits: &[SearchHit]) -> Vec<Passage> {
    let number = |(hit, number): (&SearchHit, u32)| Passage {
        number,
        text: hit.text.clone(),
        chunk: Some(ChunkId(hit.chunk)),
    };
    hits.iter().zip(1..).map(number).collect()
}

/// The passages as claims are held against them.
pub(super) fn claim_passages(hits: &[SearchHit]) -> Vec<ClaimPassage> {
    let passage = |(hit, number): (&SearchHit, u32)| ClaimPassage {
        number,
        context: passage_text(Some(&hit.title), &hit.heading, "").trim().to_owned(),
        text: hit.text.clone(),
    };
    hits.iter().zip(1..).map(passage).collect()
}

/// The cited passages with the words that were used of each.
pub(super) fn citations(used: &[u32], hits: &[SearchHit], supported: &[Support]) -> Vec<Citation> {
    used.iter()
        .filter_map(|&n| {
            let hit = hits.get(n as usize - 1)?;
            let words: Vec<&str> = supported
                .iter()
                .filter(|it| it.citation == Some(n))
                .map(|it| it.sentence.as_str())
                .collect();
            Some(Citation {
                n,
                chunk: hit.chunk,
                path: hit.path.clone(),
                title: hit.title.clone(),
                location: hit.location.clone(),
                quote: words.join(" … "),
                library: hit.library.clone(),
            })
        })
        .collect()
}

/// The numbers of the passages that quotations are from, each once.
pub(super) fn cited(quotes: &[Support]) -> Vec<u32> {
    let mut numbers = Vec::new();
    for number in quotes.iter().filter_map(|it| it.citation) {
        if !numbers.contains(&number) {
            numbers.push(number);
        }
    }
    numbers
}
