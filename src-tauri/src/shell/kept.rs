//! Answers that are kept to be given again.

use riddle_rag::{
    self as rag,
    records::{AnswerState, AskedBy},
};

use super::Shell;
use crate::{
    convert::clean,
    dto::{KeptAnswer, KeptAnswers, NearQuestion, Reuse, ReuseGrade},
    failure::Reply,
};

/// Answers that are listed.
const LISTED: usize = 500;

impl Shell {
    pub(crate) fn kept_answers(&self) -> Reply<KeptAnswers> {
        let (status, settings) = (self.records.answers_status()?, self.records.reuse()?);
        let answers = self.records.kept_answers(LISTED)?;
        let near = self.records.near_questions()?;
        Ok(KeptAnswers {
            reuse: settings.into(),
            answers: answers
                .into_iter()
                .map(|it| KeptAnswer {
                    id: it.id,
                    question: clean(&it.question),
                    foreseen: it.by != AskedBy::User,
                    ready: it.state == AnswerState::Fresh,
                    at: it.made_at,
                    uses: u32::try_from(it.uses).unwrap_or(u32::MAX),
                })
                .collect(),
            bytes: status.counts.bytes,
            asked: status.asked as u64,
            hits: (status.same + status.checked + status.instant) as u64,
            seconds_saved: status.seconds_saved,
            idle_seconds: status.idle_seconds,
            prompt_tokens: status.prompt_tokens,
            known_tokens: status.known_tokens,
            reading_saved_seconds: status.reading_saved,
            near: near
                .iter()
                .map(|it| NearQuestion { similarity: it.similarity, by_words: it.by_words })
                .collect(),
        })
    }

    pub(crate) fn set_reuse(&self, reuse: Reuse) -> Reply<KeptAnswers> {
        let settings = rag::reuse::ReuseSettings {
            grade: reuse.grade.into(),
            threshold: reuse.threshold,
            limit_bytes: reuse.limit_bytes,
            prepare: reuse.prepare,
            on_battery: reuse.on_battery,
            ..self.records.reuse()?
        };
        self.records.set_reuse(&settings)?;
        self.kept_answers()
    }

    pub(crate) fn forget_kept(&self, answer: Option<i64>) -> Reply<KeptAnswers> {
        match answer {
            Some(answer) => self.records.forget_answer(answer)?,
            None => self.records.clear_answers(false)?,
        }
        self.kept_answers()
    }
}

impl From<rag::reuse::ReuseSettings> for Reuse {
    fn from(it: rag::reuse::ReuseSettings) -> Reuse {
        Reuse {
            grade: it.grade.into(),
            threshold: it.threshold,
            limit_bytes: it.limit_bytes,
            prepare: it.prepare,
            on_battery: it.on_battery,
        }
    }
}

impl From<rag::reuse::ReuseGrade> for ReuseGrade {
    fn from(it: rag::reuse::ReuseGrade) -> ReuseGrade {
        match it {
            rag::reuse::ReuseGrade::Off => ReuseGrade::Off,
            rag::reuse::ReuseGrade::Same => ReuseGrade::Same,
            rag::reuse::ReuseGrade::Checked => ReuseGrade::Checked,
            rag::reuse::ReuseGrade::Instant => ReuseGrade::Instant,
        }
    }
}

impl From<ReuseGrade> for rag::reuse::ReuseGrade {
    fn from(it: ReuseGrade) -> rag::reuse::ReuseGrade {
        match it {
            ReuseGrade::Off => rag::reuse::ReuseGrade::Off,
            ReuseGrade::Same => rag::reuse::ReuseGrade::Same,
            ReuseGrade::Checked => rag::reuse::ReuseGrade::Checked,
            ReuseGrade::Instant => rag::reuse::ReuseGrade::Instant,
        }
    }
}
