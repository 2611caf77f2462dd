//! What is searched while somebody types: the newest query at once and without a model, and when the typist pauses once
//! more with the reranker.

use std::{
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::Duration,
};

use riddle_rag::{SearchHit, SearchRequest, rerank::RerankChoice};
use riddle_types::Filter;

use crate::{library::Library, words};

/// A typist that pauses so long has typed what is meant.
const PAUSE: Duration = Duration::from_millis(350);

/// Passages that can be scrolled through.
const HITS: usize = 50;

/// A query, and its place among all that were asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) number: u64,
    pub(super) query: String,
    pub(super) rerank: bool,
}

/// What was found, or why nothing could be.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) asked: Asked,
    pub(super) hits: Result<Vec<SearchHit>, String>,
    pub(super) notices: Vec<String>,
}

/// Searches for whatever is asked, the newest first and what is older not at all, until nobody asks or listens.
pub(super) fn follow(
    asked: &Receiver<Asked>,
    again: bool,
    search: impl Fn(Asked) -> Found,
    tell: impl Fn(Found) -> bool,
) {
    let mut next = asked.recv().ok();
    while let Some(mut now) = next.take() {
        while let Ok(newer) = asked.try_recv() {
            now = newer;
        }
        if !tell(search(now.clone())) {
            return;
        }
        next = if again {
            match asked.recv_timeout(PAUSE) {
                Ok(newer) => Some(newer),
                Err(RecvTimeoutError::Timeout) => {
                    if !tell(search(Asked { rerank: true, ..now })) {
                        return;
                    }
                    asked.recv().ok()
                }
                Err(RecvTimeoutError::Disconnected) => None,
            }
        } else {
            asked.recv().ok()
        };
    }
}

/// Asks the library.
pub(super) fn ask(library: &Library, filter: &Filter, asked: Asked) -> Found {
    let request = SearchRequest {
        k: HITS,
        filter: filter.clone(),
        rerank: if asked.rerank { RerankChoice::Configured } else { RerankChoice::Off },
        ..SearchRequest::new(asked.query.clone())
    };
    match library.search(&request) {
        Ok(response) => Found {
            asked,
            hits: Ok(response.hits),
            notices: response.notices.iter().map(words::notice).collect(),
        },
        Err(error) => Found { asked, hits: Err(words::told(&error)), notices: Vec::new() },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, mpsc::channel};

    use super::*;

    fn asked(number: u64) -> Asked {
        Asked { number, query: format!("q{number}"), rerank: false }
    }

    #[test]
    fn the_newest_is_searched_and_reranked_after_a_pause() {
        let (sender, receiver) = channel();
        for number in 1..=5 {
            sender.send(asked(number)).expect("heard");
        }
        let told = Mutex::new(Vec::new());
        let search = |asked: Asked| Found { asked, hits: Ok(Vec::new()), notices: Vec::new() };
        let tell = |found: Found| {
            let mut told = told.lock().expect("whole");
            told.push((found.asked.number, found.asked.rerank));
            if told.len() == 2 {
                sender.send(asked(6)).expect("heard");
            }
            told.len() < 4
        };
        follow(&receiver, true, search, tell);
        let told = told.into_inner().expect("whole");
        assert_eq!(told, [(5, false), (5, true), (6, false), (6, true)]);
    }

    #[test]
    fn without_reranking_each_is_searched_once() {
        let (sender, receiver) = channel();
        sender.send(asked(1)).expect("heard");
        drop(sender);
        let told = Mutex::new(0);
        let search = |asked: Asked| Found { asked, hits: Err("no".into()), notices: Vec::new() };
        follow(&receiver, false, search, |_| {
            *told.lock().expect("whole") += 1;
            true
        });
        assert_eq!(told.into_inner().expect("whole"), 1);
    }
}
