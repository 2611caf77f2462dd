//! What a person should know of a result that is there all the same.
//!
//! Stages notice, tops say it: the command line and the app have a sentence for every kind, each in its own words.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::Trouble;

/// What should be known beside a list of hits, an answer, or a run of the indexer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Notice {
    /// There is nothing in the index yet: other words would not help.
    NothingIndexedYet,
    /// The keyword index can not be read.
    KeywordsNotSearched {
        /// Why.
        why: Trouble,
    },
    /// The vector index can not be read.
    MeaningNotSearched {
        /// Why.
        why: Trouble,
    },
    /// No embedder is installed.
    NoEmbedder {
        /// The one that would be used.
        name: String,
    },
    /// The vectors are another embedder's than the one that is chosen now.
    EmbedderChanging {
        /// Identity of the one that made them.
        embedder: String,
    },
    /// The embedder that made the vectors is gone.
    EmbedderMissing {
        /// Its identity.
        embedder: String,
    },
    /// Passages wait for their vectors, because the server that makes them does not. Words find them meanwhile.
    VectorsWait {
        /// How many.
        waiting: u64,
        /// Why.
        why: Trouble,
    },
    /// What the query quotes was not found as it is quoted: its words were looked for instead. The phrases are
    /// shortened, and without characters that change how what follows is shown.
    NotAsQuoted {
        /// The phrases.
        phrases: Vec<String>,
    },
    /// A minus in the query leaves out passages. The words are shortened in the same way.
    LeftOut {
        /// Words and phrases that no passage has.
        words: Vec<String>,
    },
    /// The embedder does not read the language: keywords decide.
    KeywordsDecide {
        /// The embedder.
        model: String,
        /// Languages that it reads (ISO 639-1).
        languages: Vec<String>,
        /// The language of query or passages.
        language: String,
    },
    /// The reranker can not be used.
    NotReranked {
        /// Why.
        why: Trouble,
    },
    /// A server was to rank, and models on this machine have.
    NotRankedElsewhere {
        /// Scheme, host and port.
        server: String,
        /// Why.
        why: NotElsewhere,
    },
    /// Pruning and memory were set, which are settings of models on this machine, and a server has ranked.
    SettingsNotElsewhere {
        /// Scheme, host and port.
        server: String,
    },
    /// Nobody is pruned although that was asked for: the reranker reads everything.
    NobodyPruned {
        /// Why.
        why: Trouble,
    },
    /// The reranker does not read the language.
    NotRerankedInLanguage {
        /// The reranker.
        model: String,
        /// Languages that it was trained on.
        languages: Vec<String>,
        /// The language of query or passages.
        language: String,
    },
    /// A question that follows others was searched for as it was typed, although a model could have put it anew.
    NotRewritten {
        /// Why.
        why: RewriteFault,
        /// Words of the question before were taken up.
        with_words_before: bool,
    },
    /// The answer's sentences are checked without a reranker.
    CheckedWithoutReranker {
        /// Why.
        why: NoJudge,
    },
    /// The model said the same again and again.
    Repeats,
    /// Passages did not fit into the model's context.
    PassagesLeftOut {
        /// How many.
        count: usize,
    },
    /// A passage was cut to fit into it.
    PassageCut {
        /// Its number.
        number: u32,
    },
    /// The connection ended before the answer did.
    AnswerBreaksOff {
        /// Why.
        why: Trouble,
    },
    /// The endpoint cut the answer off at its longest.
    AnswerCutOff,
    /// A model in this process reached the limit of an answer's tokens.
    AnswerTooLong {
        /// The limit.
        tokens: usize,
    },
    /// A folder can not be watched, and is only looked at every ten minutes.
    FolderNotWatched {
        /// The folder.
        folder: PathBuf,
        /// Why.
        why: String,
    },
    /// A folder is looked at from time to time instead of watched.
    FolderPolled {
        /// The folder.
        folder: PathBuf,
        /// Why.
        why: String,
    },
    /// A folder lies elsewhere now: what is known of its files stays.
    FolderMoved {
        /// Where it lay.
        from: PathBuf,
        /// Where it lies.
        to: PathBuf,
    },
    /// A shared library could not be searched.
    LibraryNotSearched {
        /// Its name.
        name: String,
        /// Why.
        why: Trouble,
    },
}

/// Why a question was not put anew by a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RewriteFault {
    /// It took too long.
    Slow {
        /// The limit in seconds.
        seconds: u64,
    },
    /// It failed.
    Failed {
        /// How.
        why: Trouble,
    },
    /// It wrote nothing.
    Nothing,
    /// It wrote more than a question.
    TooMuch,
    /// It wrote something that is no question.
    NoQuestion,
    /// It wrote about something else.
    SomethingElse,
}

/// Why a server did not do its stage of a search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum NotElsewhere {
    /// It can not be used, or has failed.
    Failed {
        /// Why.
        why: Trouble,
    },
    /// Passages are of folders whose text never leaves this machine.
    HeldBack {
        /// How many.
        count: u64,
    },
}

/// Why no reranker judges an answer's sentences.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum NoJudge {
    /// None is chosen.
    NotChosen,
    /// Only one reranker's scores are known to mean something, and another one is chosen.
    OtherModel {
        /// The one that is known.
        known: String,
        /// The one that is chosen.
        chosen: String,
    },
    /// It does not read the language.
    Language {
        /// The reranker.
        model: String,
        /// Languages that it was trained on.
        languages: Vec<String>,
        /// The language of question or passages.
        language: String,
    },
    /// It can not be used.
    Failed {
        /// Why.
        why: Trouble,
    },
}

impl Notice {
    /// One of every kind, and of every reason within, for tests of the words that are made of it.
    pub fn examples() -> Vec<Notice> {
        let (model, why) = (|| "a-model".to_owned(), || Trouble::from("it is damaged"));
        let (languages, language) = (|| vec!["en".to_owned()], || "de".to_owned());
        let folder = || PathBuf::from("/files");
        let server = || "http://gpu-box:8080".to_owned();
        let mut all = vec![
            Notice::NothingIndexedYet,
            Notice::KeywordsNotSearched { why: why() },
            Notice::MeaningNotSearched { why: why() },
            Notice::NoEmbedder { name: model() },
            Notice::EmbedderChanging { embedder: model() },
            Notice::EmbedderMissing { embedder: model() },
            Notice::VectorsWait { waiting: 64, why: why() },
            Notice::NotAsQuoted { phrases: vec!["dry dock".to_owned()] },
            Notice::LeftOut { words: vec!["paint".to_owned(), "blue boat".to_owned()] },
            Notice::KeywordsDecide { model: model(), languages: languages(), language: language() },
            Notice::NotReranked { why: why() },
            Notice::NobodyPruned { why: why() },
            Notice::SettingsNotElsewhere { server: server() },
            Notice::NotRerankedInLanguage {
                model: model(),
                languages: languages(),
                language: language(),
            },
            Notice::Repeats,
            Notice::PassagesLeftOut { count: 2 },
            Notice::PassageCut { number: 3 },
            Notice::AnswerBreaksOff { why: why() },
            Notice::AnswerCutOff,
            Notice::AnswerTooLong { tokens: 512 },
            Notice::FolderNotWatched { folder: folder(), why: "too many".to_owned() },
            Notice::FolderPolled { folder: folder(), why: "too many".to_owned() },
            Notice::FolderMoved { from: folder(), to: PathBuf::from("/other files") },
            Notice::LibraryNotSearched { name: "team".to_owned(), why: why() },
        ];
        let faults = [
            RewriteFault::Slow { seconds: 15 },
            RewriteFault::Failed { why: why() },
            RewriteFault::Nothing,
            RewriteFault::TooMuch,
            RewriteFault::NoQuestion,
            RewriteFault::SomethingElse,
        ];
        all.extend(faults.map(|why| Notice::NotRewritten { why, with_words_before: true }));
        let reasons = [
            NoJudge::NotChosen,
            NoJudge::OtherModel { known: model(), chosen: model() },
            NoJudge::Language { model: model(), languages: languages(), language: language() },
            NoJudge::Failed { why: why() },
        ];
        all.extend(reasons.map(|why| Notice::CheckedWithoutReranker { why }));
        let reasons = [NotElsewhere::Failed { why: why() }, NotElsewhere::HeldBack { count: 2 }];
        all.extend(reasons.map(|why| Notice::NotRankedElsewhere { server: server(), why }));
        all
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Names of an enum's kinds, read from its source: there is no other list of them.
    pub(crate) fn kinds_of(source: &str, name: &str) -> Vec<String> {
        let begin = format!("pub enum {name} {{");
        let body = source.split(&begin).nth(1).and_then(|it| it.split("\n}").next());
        let kinds = body.unwrap_or_default().lines().filter_map(|line| line.strip_prefix("    "));
        let kinds = kinds.filter(|it| it.starts_with(|c: char| c.is_ascii_uppercase()));
        kinds.map(|it| it.trim_end_matches([',', '{', ' ']).to_owned()).collect()
    }

    #[test]
    fn every_kind_has_an_example() {
        let examples: Vec<String> = Notice::examples().iter().map(|it| format!("{it:?}")).collect();
        for name in ["Notice", "RewriteFault", "NoJudge", "NotElsewhere"] {
            let kinds = kinds_of(include_str!("notice.rs"), name);
            assert!(kinds.len() >= 2, "{name}: {kinds:?}");
            for kind in kinds {
                assert!(examples.iter().any(|it| it.contains(&kind)), "{name}::{kind}");
            }
        }
    }
}
