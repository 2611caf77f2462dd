//! Is what was found enough to answer from?
//!
//! A question is answered where
//!
//! `evidence + max(scale × (score − center), −0.1) ≥ limit`
//!
//! `evidence` is the best sentence's fit, `0.7 × cosine + 0.3 × share of the question's words`
//! ([`Evidence::strength`](riddle_claims::Evidence::strength)). `score` is the best that the reranker itself says of a
//! passage that may be cited, a logit without the retrieval prior; `scale` and `center` are facts about the reranker
//! and stand in its card. Where its card says nothing of them, it was not used, or none of the passages was read to the
//! last layer, the second term is nothing.
//!
//! The figures are from docs/benchmarks/2026-11-26-refusal.md.

use riddle_types::Location;

use crate::{contract::SearchHit, search::RerankRun};

/// Least that a sentence is quoted for. It was chosen for evidence alone, where it keeps both errors about equal on
/// questions of training pairs (docs/benchmarks/2026-11-21-refusal.md); cards are made to fit it.
const QUOTED: f32 = 0.49;

/// Least that a language model is asked for, or that an instruction is followed for. A model says by itself that it has
/// found nothing, and every sentence that it makes up is marked, so a look for nothing costs time and a refusal the
/// answer: 7 of 100 questions of the development sets that could be answered are refused, where [`QUOTED`] refuses 17.
/// No sentence of a passage looks like an instruction, and the passages are what is asked for.
const LOOKED_AT: f32 = 0.36;

/// Most that a reranker may take away. One that does not know a kind of text gives it low scores, and would silence
/// sentences that fit well: a deposit in a contract, with evidence of 0.61, has a score of −2.7.
const AGAINST: f32 = 0.1;

/// Whether an answer is attempted.
pub(super) fn is_enough(question: &str, evidence: f32, speaks: f32, model_writes: bool) -> bool {
    let limit = if model_writes || is_instruction(question) { LOOKED_AT } else { QUOTED };
    evidence + speaks >= limit
}

/// What the reranker adds to the evidence, or takes from it: by the passage of `hits` that it likes best. Nothing where
/// it can not tell; and it takes nothing where cells of a table are among them, which no reranker here has learned to
/// read.
pub(super) fn reranker_speaks(run: Option<&RerankRun>, hits: &[SearchHit]) -> f32 {
    let Some((run, answers)) = run.and_then(|it| Some((it, it.answers?))) else { return 0.0 };
    let place = |it: &SearchHit| it.rank.checked_sub(1).map(|it| it as usize);
    let scores = hits.iter().filter_map(|it| *run.own.get(place(it)?)?);
    let best = scores.filter(|it| it.is_finite()).reduce(f32::max);
    let least = if hits.iter().any(|it| is_table(&it.location)) { 0.0 } else { -AGAINST };
    best.map_or(0.0, |it| answers.speaks(it).max(least))
}

/// Whether cells are what is there.
fn is_table(location: &Location) -> bool {
    match location {
        Location::Rows { .. } | Location::Cells { .. } => true,
        Location::Part { inside, .. } => is_table(inside),
        _ => false,
    }
}

/// Verbs that say what is to be done with all that is there.
const OF_ALL: [&str; 14] = [
    "summarize",
    "summarise",
    "recap",
    "outline",
    "list",
    "enumerate",
    "describe",
    "explain",
    "fasse",
    "fass",
    "liste",
    "beschreibe",
    "erkläre",
    "erläutere",
];

/// Verbs that do so with one of [`FORMS`] behind them.
const TO_GIVE: [&str; 15] = [
    "give", "provide", "write", "create", "make", "show", "tell", "gib", "zeig", "zeige",
    "schreib", "schreibe", "erstelle", "erzähl", "erzähle",
];

/// What is given: never one fact.
const FORMS: [&str; 11] = [
    "overview",
    "summary",
    "outline",
    "recap",
    "list",
    "about",
    "überblick",
    "übersicht",
    "zusammenfassung",
    "liste",
    "über",
];

/// Words behind such a verb among which the form is.
const NEAR: usize = 5;

/// Words of courtesy before the verb.
const COURTESY: [&str; 9] =
    ["please", "can", "could", "would", "you", "bitte", "kannst", "könntest", "du"];

/// Whether a text tells what to do with what is found ("Summarize the discussion about the oven") instead of asking for
/// something that a sentence could say. In languages that are not known here it is taken for a question.
fn is_instruction(text: &str) -> bool {
    let words = text.split(|it: char| !it.is_alphanumeric()).filter(|it| !it.is_empty());
    let words = words.map(str::to_lowercase);
    let mut words = words.skip_while(|it| COURTESY.contains(&it.as_str()));
    let Some(verb) = words.next() else { return false };
    OF_ALL.contains(&verb.as_str())
        || (TO_GIVE.contains(&verb.as_str())
            && words.take(NEAR).any(|it| FORMS.contains(&it.as_str())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::Answers;

    const CARD: Answers = Answers { scale: 0.1, center: -1.0 };

    fn run(own: &[Option<f32>], answers: Option<Answers>) -> RerankRun {
        RerankRun { own: own.to_vec(), answers, ..RerankRun::default() }
    }

    fn hit(rank: u32) -> SearchHit {
        let json = serde_json::json!({
            "rank": rank, "path": "a.md", "title": "a", "heading": "", "text": "text", "score": 0.5, "modified": 0,
            "chunk": 1, "location": {"kind": "line", "start": 1, "end": 1}, "trace": riddle_types::RankTrace::default(),
        });
        serde_json::from_value(json).expect("a hit")
    }

    #[test]
    fn a_reranker_speaks_for_the_best_passage_that_may_be_cited() {
        let run = run(&[Some(4.0), Some(-3.0), None, Some(1.0)], Some(CARD));
        let speaks = |ranks: &[u32]| {
            let hits: Vec<SearchHit> = ranks.iter().map(|it| hit(*it)).collect();
            reranker_speaks(Some(&run), &hits)
        };
        assert!((speaks(&[1, 2, 3, 4]) - 0.5).abs() < 1e-6);
        // The first may not leave this machine.
        assert!((speaks(&[2, 4]) - 0.2).abs() < 1e-6);
        assert!((speaks(&[2]) + 0.1).abs() < 1e-6, "it may speak against one, and no louder");
    }

    #[test]
    fn nothing_is_said_against_cells() {
        let run = run(&[Some(-3.0), Some(4.0)], Some(CARD));
        let rows = Location::Rows { sheet: "Purchases".to_owned(), start: 1, end: 9 };
        let inside =
            Location::Part { name: "bills.zip".to_owned(), inside: Box::new(rows.clone()) };
        for location in [rows, inside] {
            let table = SearchHit { location, ..hit(1) };
            assert_eq!(reranker_speaks(Some(&run), std::slice::from_ref(&table)), 0.0);
            assert!((reranker_speaks(Some(&run), &[table, hit(2)]) - 0.5).abs() < 1e-6);
        }
    }

    #[test]
    fn what_no_reranker_has_read_to_the_end_is_judged_by_evidence_alone() {
        let hits = [hit(1), hit(2)];
        assert_eq!(reranker_speaks(None, &hits), 0.0);
        assert_eq!(reranker_speaks(Some(&run(&[Some(9.0); 2], None)), &hits), 0.0);
        assert_eq!(reranker_speaks(Some(&run(&[None, None], Some(CARD))), &hits), 0.0);
        assert_eq!(reranker_speaks(Some(&run(&[Some(f32::NAN)], Some(CARD))), &hits), 0.0);
        assert_eq!(reranker_speaks(Some(&run(&[Some(9.0)], Some(CARD))), &[]), 0.0);
    }

    #[test]
    fn a_quotation_needs_more_than_a_look() {
        let asked = "When is the hull painted?";
        assert!(is_enough(asked, 0.6, 0.0, false) && is_enough(asked, 0.42, 0.0, true));
        assert!(!is_enough(asked, 0.42, 0.0, false) && !is_enough(asked, 0.3, 0.0, true));
        assert!(is_enough(asked, 0.42, 0.15, false), "the reranker speaks for it");
        assert!(!is_enough(asked, 0.6, -0.2, false), "and against it");
        assert!(is_enough("Summarize how the hull is painted", 0.42, 0.0, false));
    }

    #[test]
    fn instructions_are_told_from_questions() {
        for text in [
            "Summarize the discussion about product appearance",
            "Please list all flour deliveries",
            "Could you give me a short overview of the orders?",
            "Tell me about the oven",
            "Fasse die Besprechung zusammen",
            "Gib mir bitte einen Überblick über die Mehlpreise",
        ] {
            assert!(is_instruction(text), "{text}");
        }
        for text in [
            "What does the list say?",
            "Give me the phone number of Jonas",
            "Tell me when the lease ends",
            "Who wrote the summary?",
            "Wer hat die Liste geschrieben?",
            "",
            "?!",
        ] {
            assert!(!is_instruction(text), "{text}");
        }
    }
}
