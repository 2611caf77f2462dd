//! Retrieval quality and cost on datasets in BEIR layout.
//!
//! [`evaluate`] is the entry: it indexes a [`Dataset`]'s corpus into an index of its own, asks every
//! query through the façade's public API, and measures each stage's list ([`Measures`]) and how long it
//! took ([`Latency`]). It sees what any user of `riddle-rag` sees and nothing more, so a figure here is a
//! figure of the program. [`evaluate_suite`] does so for many datasets and says where what is shown loses to
//! what it was made from.
//!
//! Not here: measuring time and memory (the caller owns the instruments and hands them in as
//! [`Instruments`]), training, and tuning on what is measured.

mod by_layer;
mod claims;
mod corpus_index;
mod dataset;
mod error;
mod evaluate;
mod given;
mod instruments;
mod metrics;
mod notice;
mod options;
mod overlap;
mod pairs;
mod preempt;
mod report;
mod runs;
mod suite;
mod tally;
mod trace;

pub use claims::{
    ClaimKind, ClaimOptions, ClaimReport, ClaimSplit, Fitted, KindReport, Told, evaluate_claims,
};
pub use dataset::{Dataset, Document, TestQuery};
pub use error::{Error, Result};
pub use evaluate::evaluate;
pub use instruments::{EvalEvent, Instruments};
pub use metrics::{Judgments, Latency, Measures};
pub use notice::Notice;
pub use options::EvalOptions;
pub use overlap::{bleu, rouge_l};
pub use pairs::{QuestionPair, ThresholdReport, evaluate_pairs};
pub use preempt::{PreemptOptions, PreemptRatios, PreemptReport, PreemptRound, measure_preemption};
pub use report::{CorpusReport, EvalReport, Stage, StageReport};
pub use suite::{
    DomainReport, FailedSet, Figures, LayerFigures, OrderFigures, Regret, SetNotice, SetReport,
    SuiteOptions, SuiteReport, SuiteRequests, evaluate_suite, suite_requests,
};
pub use trace::{
    TRACE_SYSTEMS, TraceAnswer, TraceChange, TraceForeseen, TraceOptions, TraceQuestion,
    TraceReport, TraceSetting, TraceSystem, run_trace,
};
