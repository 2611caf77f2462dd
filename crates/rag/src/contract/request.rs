//! What the tops ask of the façade.

use std::time::Duration;

use riddle_grating::{Arithmetic, Guarantee, Meets, Mode};
use riddle_types::{Filter, Reader};
use serde::Deserialize;

use super::{
    llm::{LocalLlm, RemoteLlm},
    reuse::Reuse,
};

/// Candidates taken from each index: a passage that one of them has far down may be the other's second. Fifty lose
/// nothing to a hundred on the development sets (docs/BENCHMARKS.md).
pub const DEFAULT_CANDIDATES: usize = 50;

/// Candidates that are read by the reranker. On the development sets 24 reach the nDCG@10 of sixty (0.707), and 10 do
/// not (0.700).
pub const DEFAULT_FUSED: usize = 24;

/// Share of the results that may differ from those of the full forward where nobody has chosen otherwise
/// ([`Pruning::Standard`]).
pub const STANDARD_ERROR: f64 = 0.01;

/// Which reranker to use for a request.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum RerankChoice {
    /// The one the home is set to use; none means the fused order.
    #[default]
    Configured,
    /// None: the fused order.
    Off,
    /// This one, by name in the model store, by directory, or a [server](super::StageServer).
    Model(String),
}

/// What decides who is pruned.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Pruning {
    /// In mode *order*, with an error probability of [`STANDARD_ERROR`], where the model has a calibration that holds
    /// for the request; else nobody is. [`RerankSettings::mode`] is not looked at.
    #[default]
    Standard,
    /// Nobody is.
    Never,
    /// Cluster pruning above this dispersion (σ/μ).
    Threshold(f32),
    /// Cluster pruning at the lowest threshold that kept this precision when the model was calibrated.
    Precision {
        /// Share of the full forward's results that are kept, 0…1.
        precision: f64,
        /// Which figure has to meet it.
        meets: Meets,
    },
    /// Pruning by distance from the boundary, with a stated error probability; needs a calibration too.
    ErrorProbability {
        /// The probability, 0…1.
        probability: f64,
        /// What it is the probability of.
        guarantee: Guarantee,
    },
}

impl Pruning {
    /// Whether it is looked up in a calibration, which is made for results of a certain size.
    pub(crate) fn is_calibrated(self) -> bool {
        !matches!(self, Pruning::Never | Pruning::Threshold(_))
    }
}

/// How the reranker runs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RerankSettings {
    /// What pruning may change: nothing, the order inside the set, or only the losers.
    pub mode: Mode,
    /// Who decides; without effect in mode off, where what needs a calibration is refused.
    pub pruning: Pruning,
    /// Layers in memory at once; `None`: all.
    pub window: Option<usize>,
    /// Tokens computed at a time; `None`: the engine's default.
    pub micro_batch_tokens: Option<usize>,
    /// Share of the vocabulary whose embedding rows may be in memory, 0…1; `None`: the engine's default.
    pub embedding_rows: Option<f32>,
    /// Threads; `None`: the configuration's.
    pub threads: Option<usize>,
    /// Bytes that the process is to stay within while it reranks; what is not set above is planned from it.
    pub memory_budget: Option<u64>,
    /// Keeps hidden states on disk even without a budget that asks for it.
    pub hidden_on_disk: bool,
    /// Reads layers past the page cache; the model needs a store of its own.
    pub direct_io: bool,
    /// Computes whatever all candidates begin with for each of them, as the reference does.
    pub separate_prefixes: bool,
    /// Longest pair in tokens; `None`: what the model's reference implementation reads.
    pub max_tokens: Option<usize>,
    /// Numbers that products of f32, f16, bf16 and q4 weights multiply; int8 weights always multiply bytes.
    pub arithmetic: Arithmetic,
    /// What the model is told to judge by, where its template has a place for that.
    pub instruction: Option<String>,
    /// Time from the call to the ranking; what is read and computed is planned for it. `None`: the whole model, however
    /// long it takes.
    pub deadline: Option<Duration>,
    /// With a deadline: bytes of weights that stay in memory between requests when models are let go.
    pub preload_bytes: u64,
    /// Logits per unit of cosine that the retrieval prior adds, for a model whose card has one; 0: the model
    /// alone; `None`: as the card says.
    pub prior_scale: Option<f32>,
}

/// Which libraries are searched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Libraries {
    /// The home alone: nobody else is asked.
    #[default]
    Home,
    /// The home and every shared library that is known; one that can not be searched is told beside the others.
    All,
    /// These; where none of them can be searched it is an error.
    These {
        /// The home is one of them.
        home: bool,
        /// Names of shared libraries.
        shared: Vec<String>,
    },
}

impl Libraries {
    /// Name of the home where libraries are named.
    pub const HOME: &str = "home";

    /// Name of all of them.
    pub const ALL: &str = "all";

    /// Those of these names; of none it is the home.
    pub fn of<S: AsRef<str>>(names: &[S]) -> Libraries {
        let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
        if names.contains(&Self::ALL) {
            return Libraries::All;
        }
        let mut shared: Vec<String> = Vec::new();
        for name in names.iter().filter(|it| **it != Self::HOME) {
            if !shared.iter().any(|it| it == name) {
                shared.push((*name).to_owned());
            }
        }
        if shared.is_empty() {
            return Libraries::Home;
        }
        Libraries::These { home: names.contains(&Self::HOME), shared }
    }

    /// Whether the home is one of them.
    pub fn with_home(&self) -> bool {
        !matches!(self, Libraries::These { home: false, .. })
    }
}

/// Whom passages are for: what that is not given is not there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Audience {
    /// A program that may pass them on: nothing of folders whose text never leaves this machine.
    pub outward: bool,
    /// Somebody who is given what this one may read; `None`: the person whose home it is.
    pub reader: Option<Reader>,
}

/// A search.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchRequest {
    /// What the user typed.
    pub query: String,
    /// Hits wanted.
    pub k: usize,
    /// Conditions on the files.
    pub filter: Filter,
    /// Which libraries are searched.
    pub libraries: Libraries,
    /// The hits are for a program that may pass them on: folders whose text never leaves this machine are not
    /// searched.
    pub outward: bool,
    /// The hits are for somebody who sees only files that this one may read; `None`: for the person whose home it is.
    pub reader: Option<Reader>,
    /// Candidates from the keyword index.
    pub keyword_candidates: usize,
    /// Candidates from the vector index.
    pub vector_candidates: usize,
    /// The best of both that the reranker reads, or that are shown without one; never fewer than `k`.
    pub fused_candidates: usize,
    /// Which reranker.
    pub rerank: RerankChoice,
    /// How it runs.
    pub rerank_settings: RerankSettings,
    /// Whether to keep the reranker's layer trace and the lists of every stage in the response.
    pub explain: bool,
    /// Nobody waits for it: it gives way to whoever asks, and nobody gives way to it.
    pub idle: bool,
    /// Refuses servers that are not on this machine, as [`Config::offline`](crate::Config) does.
    pub offline: bool,
}

impl SearchRequest {
    /// A search for `query` with default settings, 10 hits.
    pub fn new(query: impl Into<String>) -> Self {
        SearchRequest {
            query: query.into(),
            k: 10,
            filter: Filter::default(),
            libraries: Libraries::Home,
            outward: false,
            reader: None,
            keyword_candidates: DEFAULT_CANDIDATES,
            vector_candidates: DEFAULT_CANDIDATES,
            fused_candidates: DEFAULT_FUSED,
            rerank: RerankChoice::Configured,
            rerank_settings: RerankSettings::default(),
            explain: false,
            idle: false,
            offline: false,
        }
    }
}

/// A question of the same thread, before the one that is asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Earlier {
    /// The question as it was asked.
    pub question: String,
    /// What was answered.
    pub answer: Option<String>,
    /// Passages that the answer was written from, by chunk: none are known, and it is not sent to another machine.
    pub passages: Vec<u64>,
}

impl From<String> for Earlier {
    fn from(question: String) -> Earlier {
        Earlier { question, ..Earlier::default() }
    }
}

/// A question.
#[derive(Debug, Clone, PartialEq)]
pub struct AskRequest {
    /// How to find the passages.
    pub search: SearchRequest,
    /// Passages handed to the generator.
    pub passages: usize,
    /// What was asked before in the same thread, oldest first: a question that leans on it is read in its light.
    pub earlier: Vec<Earlier>,
    /// The endpoint that answers, where `remote` is asked for.
    pub remote: Option<RemoteLlm>,
    /// How a model in this process runs, where `local:…` is asked for.
    pub local: LocalLlm,
    /// Refuses endpoints that are not on this machine, as [`Config::offline`](crate::Config) does.
    pub offline: bool,
    /// Whether an answer that is already there will do, and whether this one is kept.
    pub reuse: Reuse,
}

impl AskRequest {
    /// A question with default settings: answered from five passages.
    pub fn new(question: impl Into<String>) -> Self {
        AskRequest {
            search: SearchRequest::new(question),
            passages: 5,
            earlier: Vec::new(),
            remote: None,
            local: LocalLlm::default(),
            offline: false,
            reuse: Reuse::default(),
        }
    }
}

/// What [`Status`](super::Status) is to tell beside what is known at once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StatusRequest {
    /// List every file.
    pub files: bool,
    /// List the files that are new or have changed lately.
    pub lately: bool,
    /// Read the whole catalog and check it, which takes seconds in large libraries.
    pub check: bool,
}

/// A document of the engine's request: text, or text with an id.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum RerankDocument {
    /// Plain text.
    Text(String),
    /// Text with the caller's id.
    Named {
        /// The caller's id, returned with the result.
        #[serde(default)]
        id: Option<serde_json::Value>,
        /// The text.
        text: String,
        /// Similarity of its vector to the query's, for a model with a retrieval prior.
        #[serde(default)]
        cosine: Option<f32>,
        /// Its BM25 score as a share of the query's best, and how near the query's words stand to each other in it, 0
        /// to 2 together, for the same. Where no document has one, and cosines are known, the texts are searched for
        /// the query's words, if it is in English.
        #[serde(default)]
        keyword: Option<f32>,
        /// Its score by learned sparse vectors as a share of the query's best, 0 to 1, for the same.
        #[serde(default)]
        sparse: Option<f32>,
    },
}

/// The engine alone: request of `riddle rerank`, in the shape of the public `/rerank` APIs.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct RerankRequest {
    /// The query.
    pub query: String,
    /// The documents.
    pub documents: Vec<RerankDocument>,
    /// Results wanted; all by default.
    #[serde(default)]
    pub top_n: Option<usize>,
}

/// Which scans and pictures are read, once what reads them is installed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ReadScans {
    /// None.
    Off,
    /// Those that are found from now on.
    New,
    /// All.
    #[default]
    All,
}

impl ReadScans {
    /// The one of that name.
    pub fn parse(name: &str) -> Option<ReadScans> {
        match name {
            "off" => Some(ReadScans::Off),
            "new" => Some(ReadScans::New),
            "all" => Some(ReadScans::All),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_libraries_are_the_home_all_or_these() {
        let these = |home, shared: &[&str]| Libraries::These {
            home,
            shared: shared.iter().map(|&it| it.to_owned()).collect(),
        };
        assert_eq!(Libraries::of::<&str>(&[]), Libraries::Home);
        assert_eq!(Libraries::of(&["home"]), Libraries::Home);
        assert_eq!(Libraries::of(&["team", "all"]), Libraries::All);
        assert_eq!(Libraries::of(&["team", "home", "team"]), these(true, &["team"]));
        assert_eq!(Libraries::of(&["b", "a"]), these(false, &["b", "a"]));
        assert!(Libraries::All.with_home() && !Libraries::of(&["a"]).with_home());
    }
}
