//! What the façade notices, as the interface gets it.

use riddle_types as types;

use super::{clean, shown};
use crate::dto::{NoAnswer, NoJudge, NotElsewhere, Notice, RewriteFault};

impl From<types::Notice> for Notice {
    // Long: one line for each kind.
    fn from(notice: types::Notice) -> Notice {
        use types::Notice as From;
        match notice {
            From::NothingIndexedYet => Notice::NothingIndexedYet,
            From::KeywordsNotSearched { why } => Notice::KeywordsNotSearched { why: why.into() },
            From::MeaningNotSearched { why } => Notice::MeaningNotSearched { why: why.into() },
            From::NoEmbedder { name } => Notice::NoEmbedder { name: clean(&name) },
            From::EmbedderChanging { embedder } => {
                Notice::EmbedderChanging { embedder: clean(&embedder) }
            }
            From::EmbedderMissing { embedder } => {
                Notice::EmbedderMissing { embedder: clean(&embedder) }
            }
            From::VectorsWait { waiting, why } => Notice::VectorsWait { waiting, why: why.into() },
            From::NotAsQuoted { phrases } => {
                Notice::NotAsQuoted { phrases: phrases.iter().map(|it| clean(it)).collect() }
            }
            From::LeftOut { words } => {
                Notice::LeftOut { words: words.iter().map(|it| clean(it)).collect() }
            }
            From::KeywordsDecide { model, languages, language } => {
                Notice::KeywordsDecide { model: clean(&model), languages, language }
            }
            From::NotReranked { why } => Notice::NotReranked { why: why.into() },
            From::NotRankedElsewhere { server, why } => {
                Notice::NotRankedElsewhere { server: clean(&server), why: why.into() }
            }
            From::SettingsNotElsewhere { server } => {
                Notice::SettingsNotElsewhere { server: clean(&server) }
            }
            From::NobodyPruned { why } => Notice::NobodyPruned { why: why.into() },
            From::NotRerankedInLanguage { model, languages, language } => {
                Notice::NotRerankedInLanguage { model: clean(&model), languages, language }
            }
            From::NotRewritten { why, with_words_before } => {
                Notice::NotRewritten { why: why.into(), with_words_before }
            }
            From::CheckedWithoutReranker { why } => {
                Notice::CheckedWithoutReranker { why: why.into() }
            }
            From::Repeats => Notice::Repeats,
            From::PassagesLeftOut { count } => Notice::PassagesLeftOut { count: count as u64 },
            From::PassageCut { number } => Notice::PassageCut { number },
            From::AnswerBreaksOff { why } => Notice::AnswerBreaksOff { why: why.into() },
            From::AnswerCutOff => Notice::AnswerCutOff,
            From::AnswerTooLong { tokens } => Notice::AnswerTooLong { tokens: tokens as u64 },
            From::FolderNotWatched { folder, why } => {
                Notice::FolderNotWatched { folder: shown(&folder), why: clean(&why) }
            }
            From::LibraryNotSearched { name, why } => {
                Notice::LibraryNotSearched { name: clean(&name), why: why.into() }
            }
            From::FolderPolled { folder, why } => {
                Notice::FolderPolled { folder: shown(&folder), why: clean(&why) }
            }
            From::FolderMoved { from, to } => {
                Notice::FolderMoved { from: shown(&from), to: shown(&to) }
            }
        }
    }
}

impl From<types::RewriteFault> for RewriteFault {
    fn from(fault: types::RewriteFault) -> RewriteFault {
        match fault {
            types::RewriteFault::Slow { seconds } => RewriteFault::Slow { seconds },
            types::RewriteFault::Failed { why } => RewriteFault::Failed { why: why.into() },
            types::RewriteFault::Nothing => RewriteFault::Nothing,
            types::RewriteFault::TooMuch => RewriteFault::TooMuch,
            types::RewriteFault::NoQuestion => RewriteFault::NoQuestion,
            types::RewriteFault::SomethingElse => RewriteFault::SomethingElse,
        }
    }
}

impl From<types::NotElsewhere> for NotElsewhere {
    fn from(why: types::NotElsewhere) -> NotElsewhere {
        match why {
            types::NotElsewhere::Failed { why } => NotElsewhere::Failed { why: why.into() },
            types::NotElsewhere::HeldBack { count } => NotElsewhere::HeldBack { count },
        }
    }
}

impl From<types::NoJudge> for NoJudge {
    fn from(why: types::NoJudge) -> NoJudge {
        match why {
            types::NoJudge::NotChosen => NoJudge::NotChosen,
            types::NoJudge::OtherModel { known, chosen } => {
                NoJudge::OtherModel { known, chosen: clean(&chosen) }
            }
            types::NoJudge::Language { model, languages, language } => {
                NoJudge::Language { model: clean(&model), languages, language }
            }
            types::NoJudge::Failed { why } => NoJudge::Failed { why: why.into() },
        }
    }
}

impl From<riddle_rag::NoAnswer> for NoAnswer {
    fn from(why: riddle_rag::NoAnswer) -> NoAnswer {
        match why {
            riddle_rag::NoAnswer::Nothing => NoAnswer::Nothing,
            riddle_rag::NoAnswer::NothingThatMayLeave => NoAnswer::NothingThatMayLeave,
            riddle_rag::NoAnswer::AllHeldBack => NoAnswer::AllHeldBack,
            riddle_rag::NoAnswer::Stopped => NoAnswer::Stopped,
            riddle_rag::NoAnswer::ModelWroteNothing => NoAnswer::ModelWroteNothing,
            riddle_rag::NoAnswer::ModelFoundNothing => NoAnswer::ModelFoundNothing,
        }
    }
}

/// Notices as the interface gets them.
pub(crate) fn notices(notices: Vec<types::Notice>) -> Vec<Notice> {
    notices.into_iter().map(Into::into).collect()
}
