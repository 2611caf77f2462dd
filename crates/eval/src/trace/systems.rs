//! What is compared on a trace.

use riddle_rag::reuse::ReuseGrade;
use serde::Serialize;

/// A system that answers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TraceSystem {
    /// Its name.
    pub name: &'static str,
    /// How much has to be known of an answer that is given again.
    pub grade: ReuseGrade,
    /// What the model has read last is left in memory.
    pub memory: bool,
    /// What the model has read is kept.
    pub tree: bool,
    /// Questions are foreseen from passages, before the first and between two.
    pub from_passages: bool,
    /// Questions are foreseen from those that were asked.
    pub from_questions: bool,
    /// Questions are those that the trace says an oracle foresees.
    pub oracle: bool,
    /// Answers that something new has come near are written again.
    pub refresh: bool,
    /// The threshold says how far a foreseen question is brought, and what had to go is read again.
    pub schedule: bool,
}

/// The systems that are compared, those that keep nothing first, also not in memory, and in memory alone: what was read
/// (the tree of PerCache and RAGCache), what was written (the bank of PerCache and MeanCache), what was foreseen (from
/// knowledge as Sleep-time Compute does, from questions, too), and all of it; then all of it but one part; last what
/// foreseeing would be worth to an oracle, whose questions are prepared as any other.
pub const TRACE_SYSTEMS: [TraceSystem; 22] = [
    TraceSystem::of("naive", ReuseGrade::Off).forgetful(),
    TraceSystem::of("nothing kept", ReuseGrade::Off),
    TraceSystem::of("tree", ReuseGrade::Off).tree(),
    TraceSystem::of("bank, same", ReuseGrade::Same),
    TraceSystem::of("bank, instant", ReuseGrade::Instant),
    TraceSystem::of("bank, checked", ReuseGrade::Checked),
    TraceSystem::of("tree + bank, checked", ReuseGrade::Checked).tree(),
    TraceSystem::of("bank + knowledge, checked", ReuseGrade::Checked).knowledge(),
    TraceSystem::of("all, instant", ReuseGrade::Instant).tree().knowledge().history(),
    TraceSystem::of("all, checked", ReuseGrade::Checked).tree().knowledge().history(),
    TraceSystem::of("all but history", ReuseGrade::Checked).tree().knowledge(),
    TraceSystem::of("all but knowledge", ReuseGrade::Checked).tree().history(),
    TraceSystem::of("all but tree", ReuseGrade::Checked).knowledge().history(),
    TraceSystem::of("all but bank", ReuseGrade::Off).tree().knowledge().history(),
    TraceSystem::of("all but refresh", ReuseGrade::Checked)
        .tree()
        .knowledge()
        .history()
        .without_refresh(),
    TraceSystem::of("all but scheduler", ReuseGrade::Checked)
        .tree()
        .knowledge()
        .history()
        .without_scheduler(),
    TraceSystem::of("oracle, instant", ReuseGrade::Instant).tree().oracle(),
    TraceSystem::of("oracle, checked", ReuseGrade::Checked).tree().oracle(),
    TraceSystem::of("oracle, instant, no refresh", ReuseGrade::Instant)
        .tree()
        .oracle()
        .without_refresh(),
    TraceSystem::of("oracle, checked, no refresh", ReuseGrade::Checked)
        .tree()
        .oracle()
        .without_refresh(),
    TraceSystem::of("oracle, instant, no scheduler", ReuseGrade::Instant)
        .tree()
        .oracle()
        .without_scheduler(),
    TraceSystem::of("oracle, checked, no scheduler", ReuseGrade::Checked)
        .tree()
        .oracle()
        .without_scheduler(),
];

impl TraceSystem {
    /// One that reads everything anew and foresees nothing.
    const fn of(name: &'static str, grade: ReuseGrade) -> TraceSystem {
        TraceSystem {
            name,
            grade,
            memory: true,
            tree: false,
            from_passages: false,
            from_questions: false,
            oracle: false,
            refresh: true,
            schedule: true,
        }
    }

    const fn forgetful(self) -> TraceSystem {
        TraceSystem { memory: false, ..self }
    }

    const fn tree(self) -> TraceSystem {
        TraceSystem { tree: true, ..self }
    }

    const fn knowledge(self) -> TraceSystem {
        TraceSystem { from_passages: true, ..self }
    }

    const fn history(self) -> TraceSystem {
        TraceSystem { from_questions: true, ..self }
    }

    const fn oracle(self) -> TraceSystem {
        TraceSystem { oracle: true, ..self }
    }

    const fn without_refresh(self) -> TraceSystem {
        TraceSystem { refresh: false, ..self }
    }

    const fn without_scheduler(self) -> TraceSystem {
        TraceSystem { schedule: false, ..self }
    }

    /// Whether anything is done while nobody waits.
    pub(super) fn prepares(&self) -> bool {
        self.from_passages || self.from_questions || self.oracle
    }
}
