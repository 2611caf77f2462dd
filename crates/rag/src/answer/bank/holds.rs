//! Whether a kept answer still holds: for the question of now, and from what was found for it today.

use riddle_catalog::BankAnswer;
use riddle_claims::{Support, Verdict, renumbered, telling_words};

use super::Met;
use crate::{answer::alike::is_opening, contract::SearchHit};

/// The answer with the numbers that its passages have now; `None` where one that it cites is not among them with the
/// words it had, or where it cites none.
pub(super) fn moved(found: &BankAnswer, hits: &[SearchHit]) -> Option<String> {
    let shown = found.shown.as_ref().filter(|_| !found.negative)?;
    let now = |place: u32| {
        let was = found.passages.iter().find(|it| it.place == place)?;
        let at = hits.iter().position(|it| it.chunk == was.chunk.0)?;
        let same = blake3::hash(hits[at].text.as_bytes()).as_bytes() == &was.text_hash;
        same.then(|| u32::try_from(at + 1).unwrap_or(u32::MAX))
    };
    let mut cited = found.passages.iter().filter(|it| it.cited).peekable();
    cited.peek()?;
    cited.all(|it| now(it.place).is_some()).then(|| renumbered(shown, &now))
}

/// Whether everything that a question speaks of stands in the other one or in what its answer cites: in "What does the
/// engine cost?" the engine does not, where the answer is about a sail.
pub(super) fn speaks_of(met: &Met<'_>, found: &BankAnswer) -> bool {
    let mut known = telling_words(&found.question);
    let cited =
        |hit: &&SearchHit| found.passages.iter().any(|it| it.cited && it.chunk.0 == hit.chunk);
    for hit in met.hits.iter().filter(cited) {
        known.extend(telling_words(&hit.title));
        known.extend(telling_words(&hit.heading));
        known.extend(telling_words(&hit.text));
    }
    let is_known = |word: &String| {
        known.iter().any(|it| it == word || (word.len() > 3 && it.starts_with(word.as_str())))
    };
    telling_words(&met.asked.question).iter().all(|it| is_opening(it) || is_known(it))
}

/// Whether a sentence is held for less true than when it was written.
pub(super) fn is_worse(supported: &[Support], before: &[u8]) -> bool {
    supported.len() != before.len()
        || supported.iter().zip(before).any(|(now, before)| rank(now.verdict) > *before)
}

/// Verdicts as they are kept, from good to bad.
pub(super) fn rank(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Supported => 0,
        Verdict::Weak => 1,
        Verdict::Unsupported => 2,
    }
}
