//! What is typed, found and chosen: plain values that keys change.

use console::Key;
use riddle_rag::SearchHit;

use super::searching::{Asked, Found};

/// Longest query that is typed here.
const LONGEST: usize = 500;

/// Lines that a page key moves the preview.
const PAGE: usize = 10;

/// What a key leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Stay,
    Search,
    Quit,
    Choose,
}

/// The state of a search that follows the typing.
#[derive(Debug, Default)]
pub(super) struct Finder {
    pub(super) query: String,
    pub(super) hits: Vec<SearchHit>,
    /// Which of them.
    pub(super) selected: usize,
    /// Lines of the preview that are above the screen.
    pub(super) scrolled: usize,
    /// The order shown is the reranker's.
    pub(super) reranked: bool,
    /// What was asked last has no answer yet.
    pub(super) waiting: bool,
    /// Why nothing could be searched, or what is to be known about what was found.
    pub(super) note: Option<String>,
    asked: u64,
    /// The hit was chosen by a key: it stays chosen when the order changes.
    moved: bool,
}

impl Finder {
    pub(super) fn new(query: &str) -> Finder {
        Finder { query: query.chars().filter(|it| !it.is_control()).collect(), ..Finder::default() }
    }

    /// What is to be searched now; `None` for an empty query, which finds nothing.
    pub(super) fn ask(&mut self) -> Option<Asked> {
        self.asked += 1;
        self.moved = false;
        if self.query.trim().is_empty() {
            self.hits.clear();
            (self.selected, self.scrolled, self.waiting, self.note) = (0, 0, false, None);
            return None;
        }
        self.waiting = true;
        Some(Asked { number: self.asked, query: self.query.clone(), rerank: false })
    }

    /// Takes what was found, unless something else was asked meanwhile.
    pub(super) fn take(&mut self, found: Found) {
        if found.asked.number != self.asked {
            return;
        }
        self.waiting = false;
        self.note = found.notices.into_iter().next();
        match found.hits {
            Ok(hits) => {
                let before = self.chosen().filter(|_| self.moved).map(|it| it.chunk);
                let place = before.and_then(|chunk| hits.iter().position(|it| it.chunk == chunk));
                if place.is_none() {
                    self.scrolled = 0;
                }
                self.selected = place.unwrap_or(0);
                self.hits = hits;
                self.reranked = found.asked.rerank;
            }
            Err(why) => self.note = Some(why),
        }
    }

    pub(super) fn chosen(&self) -> Option<&SearchHit> {
        self.hits.get(self.selected)
    }

    pub(super) fn on_key(&mut self, key: &Key) -> Step {
        match key {
            Key::Escape | Key::CtrlC | Key::Char('\u{4}') => return Step::Quit,
            Key::Enter if self.chosen().is_some() => return Step::Choose,
            // Ctrl-P and Ctrl-N, as in shells.
            Key::ArrowUp | Key::Char('\u{10}') => self.select(self.selected.saturating_sub(1)),
            Key::ArrowDown | Key::Char('\u{e}') => self.select(self.selected + 1),
            Key::Home => self.select(0),
            Key::End => self.select(usize::MAX),
            Key::PageUp => self.scrolled = self.scrolled.saturating_sub(PAGE),
            Key::PageDown => self.scrolled += PAGE,
            Key::Backspace | Key::Del => {
                return if self.query.pop().is_some() { Step::Search } else { Step::Stay };
            }
            // Ctrl-U and Ctrl-W.
            Key::Char('\u{15}') if !self.query.is_empty() => {
                self.query.clear();
                return Step::Search;
            }
            Key::Char('\u{17}') if !self.query.is_empty() => {
                let kept = self.query.trim_end().rfind(char::is_whitespace).map_or(0, |it| it + 1);
                self.query.truncate(kept);
                return Step::Search;
            }
            Key::Char(typed) if !typed.is_control() && self.query.chars().count() < LONGEST => {
                self.query.push(*typed);
                return Step::Search;
            }
            _ => {}
        }
        Step::Stay
    }

    fn select(&mut self, place: usize) {
        let place = place.min(self.hits.len().saturating_sub(1));
        if place != self.selected {
            self.scrolled = 0;
        }
        (self.selected, self.moved) = (place, true);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use riddle_types::{Location, RankTrace};

    use super::*;

    pub(crate) fn hit(chunk: u64, text: &str) -> SearchHit {
        SearchHit {
            rank: 1,
            path: format!("/files/{chunk}.md"),
            title: format!("Title {chunk}"),
            heading: String::new(),
            text: text.to_owned(),
            location: Location::Line { start: 3, end: 4 },
            score: 0.5,
            trace: RankTrace::default(),
            modified: 0,
            chunk,
            also_in: Vec::new(),
            versions: Vec::new(),
            library: None,
            here: None,
            ocr_confidence: None,
        }
    }

    pub(crate) fn found(finder: &mut Finder, chunks: &[u64], rerank: bool) {
        let asked = Asked { number: finder.asked, query: finder.query.clone(), rerank };
        let hits = Ok(chunks.iter().map(|it| hit(*it, "The boat is blue.")).collect());
        finder.take(Found { asked, hits, notices: Vec::new() });
    }

    fn typed(finder: &mut Finder, text: &str) {
        for key in text.chars() {
            assert_eq!(finder.on_key(&Key::Char(key)), Step::Search);
        }
    }

    #[test]
    fn what_is_typed_is_asked_and_an_older_answer_passed_over() {
        let mut finder = Finder::new("");
        assert_eq!(finder.ask(), None);
        typed(&mut finder, "blü");
        let old = finder.ask().expect("a query");
        typed(&mut finder, "e boat");
        let new = finder.ask().expect("a query");
        assert_eq!((new.query.as_str(), new.rerank), ("blüe boat", false));
        finder.take(Found { asked: old, hits: Ok(vec![hit(9, "")]), notices: Vec::new() });
        assert!(finder.hits.is_empty() && finder.waiting);
        found(&mut finder, &[1, 2, 3], false);
        assert_eq!((finder.hits.len(), finder.waiting), (3, false));
        assert_eq!(finder.on_key(&Key::Char('\u{17}')), Step::Search);
        assert_eq!(finder.query, "blüe ");
        assert_eq!(finder.on_key(&Key::Backspace), Step::Search);
        assert_eq!(finder.on_key(&Key::Char('\u{15}')), Step::Search);
        assert_eq!(finder.ask(), None);
        assert!(finder.hits.is_empty());
        assert_eq!(finder.on_key(&Key::Backspace), Step::Stay);
        assert_eq!(finder.on_key(&Key::Enter), Step::Stay, "there is nothing to choose");
        assert_eq!(finder.on_key(&Key::Escape), Step::Quit);
    }

    #[test]
    fn what_was_chosen_by_a_key_stays_chosen_when_the_order_changes() {
        let mut finder = Finder::new("boat\n");
        assert_eq!(finder.query, "boat");
        finder.ask();
        found(&mut finder, &[1, 2, 3], false);
        found(&mut finder, &[3, 1, 2], true);
        assert_eq!(finder.chosen().map(|it| it.chunk), Some(3), "nobody has chosen: the best");
        finder.on_key(&Key::ArrowDown);
        finder.on_key(&Key::PageDown);
        found(&mut finder, &[2, 3, 1], true);
        assert_eq!((finder.chosen().map(|it| it.chunk), finder.scrolled), (Some(1), PAGE));
        for _ in 0..9 {
            finder.on_key(&Key::ArrowDown);
        }
        assert_eq!(finder.selected, 2);
        finder.on_key(&Key::Home);
        assert_eq!(finder.on_key(&Key::Enter), Step::Choose);
        assert_eq!(finder.chosen().map(|it| it.chunk), Some(2));
        let asked = finder.ask().expect("a query");
        finder.take(Found { asked, hits: Err("broken".into()), notices: Vec::new() });
        assert_eq!((finder.note.as_deref(), finder.hits.len()), (Some("broken"), 3));
    }
}
