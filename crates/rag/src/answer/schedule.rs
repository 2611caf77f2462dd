//! When there is time, and what it is spent on: the scheduler of PerCache (section 4.3), as functions of what is known.
//!
//! Nothing is measured, waited for or written here. The paper decides by the threshold of similarity and not by how
//! often answers were given again, of which a person makes too few to count.

use std::time::Duration;

use crate::contract::ReuseSettings;

/// Threshold above which hardly any question finds an answer that was prepared for another one: then the work of
/// writing it is better not done. The paper leaves it open, between 0.85 and 0.90 of its embedder (section 5.5.1);
/// this is as far from the threshold that the default embedder is calibrated to.
const CUTOFF: f32 = 0.98;

/// How long nobody has asked anything before it is taken for idle.
const QUIET: Duration = Duration::from_secs(60);

/// How far a foreseen question is brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fill {
    /// Its passages are read and their keys and values kept; no word is written.
    Read,
    /// Its answer is written, too.
    Write,
}

/// What bounds both layers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Limits {
    /// Similarity from which an answer may be given to another question.
    pub(super) threshold: f32,
    /// Answers are kept at all.
    pub(super) answers: bool,
    /// The threshold decides; else all is written that may be, and nothing read again.
    pub(super) schedules: bool,
    /// Bytes that keys and values may take; 0: none are kept.
    pub(super) tree_bytes: u64,
    /// Of these, bytes that nothing has taken yet.
    pub(super) free_bytes: u64,
}

/// A question of the bank, as the scheduler sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeptQuestion {
    /// Identity.
    pub(super) id: i64,
    /// Nobody has asked it yet.
    pub(super) foreseen: bool,
    /// It has an answer that may be given.
    pub(super) answered: bool,
    /// Keys and values of its passages are kept.
    pub(super) read: bool,
    /// Bytes that these take, or took; 0: they were never kept.
    pub(super) bytes: u64,
}

/// What is to be made of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Conversion {
    /// Its answer is to be written: from keys and values, where they are kept.
    Answer(i64),
    /// Its passages are to be read, for the first time or again.
    Read(i64),
}

/// How far a foreseen question is brought under these limits. Reading alone is of use only where what was read is kept.
pub(super) fn fill(limits: Limits) -> Fill {
    let reads = limits.schedules && limits.threshold > CUTOFF && limits.tree_bytes > 0;
    if reads || !limits.answers { Fill::Read } else { Fill::Write }
}

/// What is to be made of the questions that are there, in their order: answers for those without one, as far as they
/// would be given; then keys and values, which a foreseen question never had or which had to go, as far as they fit.
/// Nothing makes place for them: what is used is worth more than what may be.
pub(super) fn convert(limits: Limits, kept: &[KeptQuestion]) -> Vec<Conversion> {
    // Who has asked may ask the same again, which no threshold stands in the way of.
    let to_write = |it: &KeptQuestion| {
        limits.answers && !it.answered && (!it.foreseen || fill(limits) == Fill::Write)
    };
    let answers = kept.iter().filter(|it| to_write(it)).map(|it| Conversion::Answer(it.id));
    let mut steps: Vec<Conversion> = answers.collect();
    if limits.answers && !limits.schedules {
        return steps;
    }
    let mut free = limits.free_bytes;
    // What is read for the first time takes no more than the largest that is known, about.
    let largest = kept.iter().map(|it| it.bytes).max().unwrap_or(0).max(1);
    for question in kept.iter().filter(|it| !it.read && !to_write(it)) {
        let bytes = if question.bytes == 0 { largest } else { question.bytes };
        if bytes <= free && (question.bytes > 0 || !question.answered) {
            free -= bytes;
            steps.push(Conversion::Read(question.id));
        }
    }
    steps
}

/// What is known of the machine and its user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Idle {
    /// It draws from the mains; `None`: nobody knows.
    pub on_mains: Option<bool>,
    /// Since when nobody has asked anything.
    pub quiet: Duration,
    /// Something else is at work: indexing, a model that is fetched.
    pub busy: bool,
    /// It is so warm that it slows itself down; `None`: nobody knows.
    pub hot: Option<bool>,
}

/// Whether answers may be prepared now. A machine of which nobody knows what it draws from is taken for one on mains:
/// those with a battery tell.
pub fn may_work(settings: &ReuseSettings, idle: Idle) -> bool {
    settings.prepare
        && settings.limit_bytes > 0
        && !idle.busy
        && !idle.hot.unwrap_or(false)
        && idle.quiet >= QUIET
        && (settings.on_battery || idle.on_mains.unwrap_or(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    /// With room for `free` more gigabytes.
    fn limits(threshold: f32, free: u64) -> Limits {
        let (tree_bytes, free_bytes) = (8 * GIB, free * GIB);
        Limits { threshold, answers: true, schedules: true, tree_bytes, free_bytes }
    }

    fn question(id: i64, answered: bool, read: bool) -> KeptQuestion {
        KeptQuestion { id, foreseen: true, answered, read, bytes: GIB }
    }

    /// The first case of the paper's figure 15: under a high threshold answers that nobody would get are not written.
    #[test]
    fn under_a_high_threshold_nothing_is_written_that_would_not_be_given() {
        assert_eq!(fill(limits(0.99, 6)), Fill::Read);
        let new = KeptQuestion { bytes: 0, ..question(2, false, false) };
        let kept = [question(1, false, true), new];
        assert_eq!(convert(limits(0.99, 6), &kept), [Conversion::Read(2)]);
        // It takes as much as the other one, about.
        assert_eq!(convert(Limits { free_bytes: GIB - 1, ..limits(0.99, 6) }, &kept), []);
        // Without a place for what was read, reading is no use.
        let none = Limits { tree_bytes: 0, ..limits(0.99, 0) };
        assert_eq!(fill(none), Fill::Write);
        assert_eq!(convert(none, &kept), [Conversion::Answer(1), Conversion::Answer(2)]);
        // Who has asked may ask the same again.
        let asked = KeptQuestion { foreseen: false, ..new };
        assert_eq!(convert(limits(0.99, 6), &[asked]), [Conversion::Answer(2)]);
    }

    /// What the scheduler is held against (the paper's section 5.5).
    #[test]
    fn without_a_scheduler_everything_is_written_and_nothing_read_again() {
        let unscheduled = |threshold| Limits { schedules: false, ..limits(threshold, 7) };
        let kept = [question(1, false, true), question(2, true, false), question(3, false, false)];
        for threshold in [0.85, 0.99] {
            let steps = convert(unscheduled(threshold), &kept);
            assert_eq!(steps, [Conversion::Answer(1), Conversion::Answer(3)]);
        }
        // Where no answer is kept reading is all that there is.
        let silent = Limits { answers: false, ..unscheduled(0.85) };
        assert_eq!(convert(silent, &[question(3, false, false)]), [Conversion::Read(3)]);
    }

    /// Where no answer is kept, under any threshold and whoever has asked.
    #[test]
    fn without_answers_everything_is_read_as_far_as_it_fits() {
        let silent = |free| Limits { answers: false, ..limits(0.85, free) };
        assert_eq!(fill(silent(6)), Fill::Read);
        let asked = KeptQuestion { foreseen: false, ..question(1, false, false) };
        let kept = [asked, question(2, false, true), question(3, false, false)];
        assert_eq!(convert(silent(6), &kept), [Conversion::Read(1), Conversion::Read(3)]);
        assert_eq!(convert(silent(1), &kept), [Conversion::Read(1)]);
        assert_eq!(convert(Limits { tree_bytes: 0, ..silent(0) }, &kept), []);
    }

    /// The second: once it is lowered, what was only read is written, and nothing is read again.
    #[test]
    fn once_the_threshold_falls_the_answers_are_written() {
        let kept = [question(1, false, true), question(2, true, true), question(3, false, true)];
        assert_eq!(convert(limits(0.85, 6), &kept), [Conversion::Answer(1), Conversion::Answer(3)]);
    }

    /// The third: with more room what had to go is read again, as far as it fits, and nothing is written again.
    #[test]
    fn with_more_room_what_had_to_go_is_read_again() {
        let kept = [question(1, true, true), question(2, true, false), question(3, true, false)];
        assert_eq!(convert(limits(0.85, 0), &kept), []);
        assert_eq!(convert(limits(0.85, 1), &kept), [Conversion::Read(2)]);
        assert_eq!(convert(limits(0.85, 7), &kept), [Conversion::Read(2), Conversion::Read(3)]);
        // What was answered without leaving anything is not read for it.
        let without = KeptQuestion { bytes: 0, ..question(2, true, false) };
        assert_eq!(convert(limits(0.85, 7), &[without]), []);
    }

    #[test]
    fn nothing_is_prepared_on_battery_in_heat_or_while_something_is_at_work() {
        let settings = ReuseSettings::default();
        let idle = Idle { on_mains: Some(true), quiet: QUIET, busy: false, hot: Some(false) };
        assert!(may_work(&settings, idle));
        assert!(may_work(&settings, Idle { on_mains: None, hot: None, ..idle }));
        assert!(!may_work(&settings, Idle { hot: Some(true), ..idle }));
        assert!(!may_work(&settings, Idle { on_mains: Some(false), ..idle }));
        let always = ReuseSettings { on_battery: true, ..settings };
        assert!(may_work(&always, Idle { on_mains: Some(false), ..idle }));
        assert!(!may_work(&settings, Idle { busy: true, ..idle }));
        assert!(!may_work(&settings, Idle { quiet: Duration::ZERO, ..idle }));
        assert!(!may_work(&ReuseSettings { prepare: false, ..settings }, idle));
        assert!(!may_work(&ReuseSettings { limit_bytes: 0, ..settings }, idle));
    }
}
