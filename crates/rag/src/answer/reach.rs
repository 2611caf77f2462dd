//! What other programs reach of the library: passages by their number, and claims held against them.
//!
//! A program is given what may leave this machine, unless a person has said that it stays here. A passage that may not
//! be given is one that is not there: nobody learns from the refusal that it exists.

use riddle_catalog::ChunkRecord;
use riddle_claims::{ClaimPassage, Verdict};
use riddle_types::{ChunkId, Filter, Notice};
use serde::Serialize;

use super::border::Border;
use crate::{
    contract::{Audience, Error, RerankChoice, Result, SearchHit, SearchRequest},
    home::access::Gate,
    index::passage_text,
    search::{Assistant, hit_of, leaves_out},
};

/// Passages that are looked at for a claim that names none.
const PASSAGES_PER_CLAIM: usize = 5;

/// A claim, held against passages.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CheckedClaim {
    /// The claim as it was given.
    pub claim: String,
    /// What the passages say to it.
    pub verdict: Verdict,
    /// How sure it is that they say so, 0…1.
    pub score: f32,
    /// The passage that speaks most for it, by chunk; `None` where no passage was found.
    pub chunk: Option<u64>,
}

impl Assistant {
    /// The passage `chunk` with up to `before` and `after` of its neighbors in the same file, in reading order. `None`
    /// when it is gone, or may not be given to this audience.
    ///
    /// # Errors
    /// When the catalog can not be read.
    pub fn read(
        &self,
        chunk: u64,
        before: usize,
        after: usize,
        audience: &Audience,
    ) -> Result<Option<Vec<ChunkRecord>>> {
        let Some(asked) = self.given(chunk, audience)? else { return Ok(None) };
        let beside = self.catalog.chunks_beside(ChunkId(chunk), 2 * before.max(after) + 2)?;
        let (from, to) = (
            asked.ordinal.saturating_sub(u32::try_from(before).unwrap_or(u32::MAX)),
            asked.ordinal.saturating_add(u32::try_from(after).unwrap_or(u32::MAX)),
        );
        Ok(Some(beside.into_iter().filter(|it| (from..=to).contains(&it.ordinal)).collect()))
    }

    /// A passage that may be given to this audience.
    fn given(&self, chunk: u64, audience: &Audience) -> Result<Option<ChunkRecord>> {
        if Border::of(&self.catalog, audience.outward)?.holds_back(chunk)? {
            return Ok(None);
        }
        let record = self.catalog.chunk_records(&[ChunkId(chunk)])?.pop();
        let (Some(found), Some(reader)) = (&record, &audience.reader) else { return Ok(record) };
        let may = Gate::of(&self.catalog, reader).admits(found.file)?;
        Ok(record.filter(|_| may))
    }

    /// Holds each claim against these passages, or against those that a search finds for it within the filter where
    /// none are given. A notice says where the judgment is weaker than it could be.
    ///
    /// # Errors
    /// When a passage is not there, and as [`search`](Self::search).
    pub fn check_claims(
        &self,
        claims: &[String],
        chunks: &[u64],
        filter: &Filter,
        audience: &Audience,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<(Vec<CheckedClaim>, Vec<Notice>)> {
        let given = self.passages(chunks, audience)?;
        let (mut checked, mut notices) = (Vec::new(), Vec::new());
        for claim in claims {
            if stop() {
                return Err(Error::BadRequest("stopped".into()));
            }
            let request = SearchRequest {
                k: PASSAGES_PER_CLAIM,
                outward: audience.outward,
                reader: audience.reader.clone(),
                filter: filter.clone(),
                ..SearchRequest::new(claim.as_str())
            };
            let found;
            let hits = if given.is_empty() {
                let search = SearchRequest { rerank: RerankChoice::Off, ..request.clone() };
                let response = self.search(&search)?;
                // A minus in a claim may have kept away the passage that speaks for it.
                let left_out = response.notices.into_iter().find(leaves_out);
                notices.extend(left_out.filter(|it| !notices.contains(it)));
                found = response.hits;
                &found
            } else {
                &given
            };
            let (judge, notice) = self.claim_judge(&request, claim, hits)?;
            notices.extend(notice.filter(|it| !notices.contains(it)));
            let passages: Vec<ClaimPassage> = hits.iter().zip(1..).map(claim_passage).collect();
            let held: Vec<&ClaimPassage> = passages.iter().collect();
            let features =
                judge.weigh("", claim, &held, false).map_err(Error::stage("checking a claim"))?;
            let (score, verdict) = features.verdict();
            let best = features.citation.and_then(|it| hits.get(it as usize - 1));
            let chunk = best.filter(|_| verdict != Verdict::Unsupported).map(|it| it.chunk);
            checked.push(CheckedClaim { claim: claim.clone(), verdict, score, chunk });
        }
        Ok((checked, notices))
    }

    /// Passages by chunk, in the order asked for.
    fn passages(&self, chunks: &[u64], audience: &Audience) -> Result<Vec<SearchHit>> {
        let mut hits = Vec::with_capacity(chunks.len());
        for &chunk in chunks {
            let Some(record) = self.given(chunk, audience)? else {
                let why =
                    format!("there is no passage {chunk}: search gives the numbers that there are");
                return Err(Error::BadRequest(why.into()));
            };
            hits.push(hit_of(&record));
        }
        Ok(hits)
    }
}

fn claim_passage((hit, number): (&SearchHit, u32)) -> ClaimPassage {
    ClaimPassage {
        number,
        context: passage_text(Some(&hit.title), &hit.heading, "").trim().to_owned(),
        text: hit.text.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::{path::Path, sync::atomic::AtomicBool};

    use super::*;
    use crate::{
        home::Config,
        index::{InputDocument, Library},
    };

    const TEXTS: [(&str, &str); 2] = [
        ("/open", "The mooring costs 640 euros a year. It ends in March."),
        ("/marked", "The surgeon removed the mooring wire from the left tooth in June."),
    ];

    fn home() -> (tempfile::TempDir, Assistant) {
        let home = tempfile::tempdir().expect("a folder");
        let mut library = Library::open(Config::new(home.path())).expect("opens");
        for (folder, text) in TEXTS {
            let document =
                InputDocument { id: "doc".to_owned(), title: String::new(), text: text.to_owned() };
            library
                .add_documents(
                    folder,
                    &mut std::iter::once(document),
                    &mut |_| {},
                    &AtomicBool::new(false),
                )
                .expect("indexed");
        }
        drop(library);
        let catalog =
            riddle_catalog::Catalog::open(&home.path().join("catalog.sqlite")).expect("opens");
        catalog.confine(Path::new("/marked"), true).expect("marked");
        let assistant = Assistant::open(Config::new(home.path())).expect("opens");
        (home, assistant)
    }

    fn chunk(assistant: &Assistant, query: &str) -> u64 {
        let request =
            SearchRequest { rerank: RerankChoice::Off, k: 1, ..SearchRequest::new(query) };
        assistant.search(&request).expect("found").hits[0].chunk
    }

    #[test]
    fn what_never_leaves_is_neither_found_nor_read_nor_spoken_of_outside() {
        let (_home, assistant) = home();
        let marked = chunk(&assistant, "surgeon tooth");
        let request = SearchRequest {
            rerank: RerankChoice::Off,
            outward: true,
            ..SearchRequest::new("mooring surgeon tooth")
        };
        let found = assistant.search(&request).expect("searched");
        assert_eq!(found.hits.len(), 1, "{:?}", found.hits);
        assert!(found.hits[0].text.contains("640"));
        let outward = Audience { outward: true, ..Audience::default() };
        assert!(assistant.read(marked, 0, 0, &outward).expect("readable").is_none());
        assert_eq!(
            assistant
                .read(marked, 0, 0, &Audience::default())
                .expect("readable")
                .map(|it| it.len()),
            Some(1)
        );
        let all = Filter::default();
        let claims = ["A surgeon removed the mooring wire.".to_owned()];
        let refused = assistant.check_claims(&claims, &[marked], &all, &outward, &mut || false);
        let unknown = assistant.check_claims(&claims, &[99_999], &all, &outward, &mut || false);
        let words = |it: Result<_>| it.err().map(|it: Error| it.to_string()).unwrap_or_default();
        // The same words but for the number: a refusal tells nothing.
        assert_eq!(
            words(refused).replace(&marked.to_string(), "N"),
            words(unknown).replace("99999", "N")
        );
    }

    #[test]
    fn claims_are_held_against_the_passages_named_or_found() {
        let (_home, assistant) = home();
        let all = Filter::default();
        let open = chunk(&assistant, "mooring euros");
        let claims = [
            "The mooring costs 640 euros a year.".to_owned(),
            "The mooring costs 900 euros a year.".to_owned(),
        ];
        for chunks in [vec![open], Vec::new()] {
            let (checked, _) = assistant
                .check_claims(&claims, &chunks, &all, &Audience::default(), &mut || false)
                .expect("checked");
            assert_eq!(checked[0].verdict, Verdict::Supported, "{checked:?}");
            assert_eq!(checked[0].chunk, Some(open));
            assert_eq!(checked[1].verdict, Verdict::Unsupported, "{checked:?}");
        }
    }
}
