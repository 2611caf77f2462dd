//! Every sentence of an answer is checked against the passages it cites while the answer is being written; numbers that
//! point nowhere are removed. The program assigns citations, never the model.

use std::ops::ControlFlow;

use riddle_types::{Passage, StageError};

use crate::{
    AskEvent,
    request::Support,
    statements::{Part, Statement, Statements, replace_marks, statements},
    verdict::{ClaimJudge, ClaimPassage, Verdict},
};

/// The answer without citation marks that point to no passage, and the numbers it does cite, in order of first use.
pub(crate) fn clean_citations(answer: &str, passages: &[Passage]) -> (String, Vec<u32>) {
    let mut used = Vec::new();
    let cleaned = replace_marks(answer, &mut |numbers| {
        let known =
            numbers.iter().filter(|it| passages.iter().any(|passage| passage.number == **it));
        let mut marks = String::new();
        for number in known {
            marks.push_str(&format!("[{number}]"));
            if !used.contains(number) {
                used.push(*number);
            }
        }
        marks
    });
    (cleaned, used)
}

/// Checks the statements of an answer, each once.
pub(crate) struct Checker<'a> {
    judge: ClaimJudge,
    question: &'a str,
    passages: Vec<ClaimPassage>,
    known: Vec<(Statement, Support)>,
}

impl<'a> Checker<'a> {
    pub(crate) fn new(
        judge: ClaimJudge,
        question: &'a str,
        passages: Vec<ClaimPassage>,
    ) -> Checker<'a> {
        Checker { judge, question, passages, known: Vec::new() }
    }

    fn check(&mut self, statement: &Statement) -> Result<Support, StageError> {
        if let Some((_, support)) = self.known.iter().find(|it| it.0 == *statement) {
            return Ok(support.clone());
        }
        let numbers = &statement.numbers;
        let cited: Vec<&ClaimPassage> =
            self.passages.iter().filter(|it| numbers.contains(&it.number)).collect();
        let features = self.judge.weigh(self.question, &statement.text, &cited, false)?;
        let (score, verdict) = features.verdict();
        let support = Support {
            sentence: statement.text.clone(),
            citation: features.citation,
            citations: numbers
                .iter()
                .copied()
                .filter(|it| cited.iter().any(|cited| cited.number == *it))
                .collect(),
            score,
            verdict,
        };
        self.known.push((statement.clone(), support.clone()));
        Ok(support)
    }

    /// All statements of the finished answer; those that were checked while it was written are not checked again.
    pub(crate) fn all(&mut self, answer: &str) -> Result<Vec<Support>, StageError> {
        statements(answer).iter().map(|it| self.check(it)).collect()
    }
}

/// Hands a stream on to an observer, with a verdict behind every statement.
pub(crate) struct Live<'a, 'b> {
    /// `None`: the pieces are quotations, each with its number.
    checker: Option<&'a mut Checker<'b>>,
    observer: &'a mut dyn FnMut(AskEvent<'_>) -> ControlFlow<()>,
    cutter: Statements,
    quoted: Vec<Support>,
    failure: Option<StageError>,
}

impl<'a, 'b> Live<'a, 'b> {
    pub(crate) fn new(
        checker: Option<&'a mut Checker<'b>>,
        observer: &'a mut dyn FnMut(AskEvent<'_>) -> ControlFlow<()>,
    ) -> Live<'a, 'b> {
        let cutter = Statements::default();
        Live { checker, observer, cutter, quoted: Vec::new(), failure: None }
    }

    pub(crate) fn push(&mut self, piece: &str) -> ControlFlow<()> {
        // A model that is waited for; whoever watches may stop it.
        if piece.is_empty() {
            return (self.observer)(AskEvent::Piece(piece));
        }
        if self.checker.is_none() {
            (self.observer)(AskEvent::Piece(piece))?;
            let support = quotation(piece);
            let said = (self.observer)(AskEvent::Checked(&support));
            self.quoted.push(support);
            return said;
        }
        self.cut(Some(piece))
    }

    /// The stream is over: what was held back is handed on. Returns the quotations, where it was of those.
    pub(crate) fn end(mut self) -> Result<Vec<Support>, StageError> {
        // Nothing is left to be stopped.
        let _ = self.cut(None);
        self.failure.map_or(Ok(self.quoted), Err)
    }

    fn cut(&mut self, piece: Option<&str>) -> ControlFlow<()> {
        let Live { checker, observer, cutter, failure, .. } = self;
        let Some(checker) = checker else { return ControlFlow::Continue(()) };
        let mut sink = |part: Part<'_>| match part {
            Part::Text(text) => observer(AskEvent::Piece(text)),
            Part::Done(statement) => match checker.check(&statement) {
                Ok(support) => observer(AskEvent::Checked(&support)),
                Err(error) => {
                    *failure = Some(error);
                    ControlFlow::Break(())
                }
            },
        };
        match piece {
            Some(piece) => cutter.push(piece, &mut sink),
            None => cutter.end(&mut sink),
        }
    }
}

/// A piece of an extractive answer: a sentence of a passage with its number, and supported by that.
fn quotation(piece: &str) -> Support {
    let (sentence, mark) = piece.rsplit_once(" [").unwrap_or((piece, ""));
    let citation = mark.trim_end_matches(']').parse().ok();
    Support {
        sentence: sentence.trim().to_owned(),
        citation,
        citations: citation.into_iter().collect(),
        score: 1.0,
        verdict: Verdict::Supported,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passages() -> Vec<Passage> {
        vec![
            Passage { number: 1, text: "The boat is blue. It was built in 1931.".to_owned() },
            Passage { number: 2, text: "Bread rises overnight.".to_owned() },
        ]
    }

    fn checker() -> Checker<'static> {
        let of =
            |it: Passage| ClaimPassage { number: it.number, context: String::new(), text: it.text };
        Checker::new(
            ClaimJudge::new(None, None),
            "When was it built?",
            passages().into_iter().map(of).collect(),
        )
    }

    #[test]
    fn numbers_that_point_nowhere_are_removed() {
        let (text, used) = clean_citations("Blue [1] [7]. Array[0] stays [x]. [2, 9]", &passages());
        assert_eq!(text, "Blue [1]. Array stays [x]. [2]");
        assert_eq!(used, [1, 2]);
    }

    #[test]
    fn verbatim_words_are_supported_and_others_are_not() {
        let checked = checker()
            .all("It was built in 1931. [1] Bread is made of wood. [2][9] Nobody said this.")
            .expect("no model, no failure");
        let found: Vec<_> =
            checked.iter().map(|it| (it.citation, it.citations.clone(), it.verdict)).collect();
        assert_eq!(
            found,
            [
                (Some(1), vec![1], Verdict::Supported),
                (Some(2), vec![2], Verdict::Unsupported),
                (None, vec![], Verdict::Unsupported)
            ]
        );
        assert_eq!((checked[0].score, checked[2].score), (1.0, 0.0));
    }

    #[test]
    fn several_marks_belong_to_one_statement() {
        let checked = checker().all("Bread rises overnight. [1][2]").expect("no model");
        assert_eq!(checked.len(), 1);
        assert_eq!((checked[0].citation, &checked[0].citations[..]), (Some(2), &[1, 2][..]));
    }

    /// What an observer is told, sentences in brackets with the first letter of their verdict.
    fn told(checker: Option<&mut Checker<'_>>, pieces: &[&str]) -> (String, Vec<Support>) {
        let mut told = String::new();
        let mut observer = |event: AskEvent<'_>| {
            match event {
                AskEvent::Piece(text) => told.push_str(text),
                AskEvent::Checked(it) => {
                    told.push_str(&format!("<{}>", &format!("{:?}", it.verdict)[..1]));
                }
                _ => {}
            }
            ControlFlow::Continue(())
        };
        let mut live = Live::new(checker, &mut observer);
        for piece in pieces {
            assert!(live.push(piece).is_continue());
        }
        let quoted = live.end().expect("no model");
        (told, quoted)
    }

    #[test]
    fn a_verdict_stands_behind_its_very_sentence() {
        let mut checker = checker();
        let pieces =
            ["It was built", " in 1931", ". ", "", "[1", "] It fl", "ies [2]. So", " it is"];
        let (told, quoted) = told(Some(&mut checker), &pieces);
        assert_eq!(told, "It was built in 1931. [1]<S> It flies [2].<U> So it is<U>");
        assert_eq!(quoted, []);
        assert_eq!(checker.known.len(), 3);
        let all = checker.all("It was built in 1931. [1] It flies [2]. So it is").expect("known");
        assert_eq!((all.len(), checker.known.len()), (3, 3));
    }

    #[test]
    fn quotations_are_supported_whatever_is_in_them() {
        let (told, quoted) = told(None, &["He said [3]. E.g. \"no. [7]\" [1]", " Blue [2]"]);
        assert_eq!(told, "He said [3]. E.g. \"no. [7]\" [1]<S> Blue [2]<S>");
        let found: Vec<_> = quoted.iter().map(|it| (it.sentence.as_str(), it.citation)).collect();
        assert_eq!(found, [("He said [3]. E.g. \"no. [7]\"", Some(1)), ("Blue", Some(2))]);
    }

    #[test]
    fn who_watches_can_stop_it() {
        let mut checker = checker();
        let mut observer = |_: AskEvent<'_>| ControlFlow::Break(());
        let mut live = Live::new(Some(&mut checker), &mut observer);
        assert!(live.push("").is_break(), "while a model is waited for");
    }
}
