//! Questions that were asked, and the answers that are kept to be given again.

use riddle_catalog::{BankAnswer, BankCounts, HistoryEntry};

use super::Records;
use crate::{
    contract::{Error, Result, ReuseSettings},
    home::settings::{REUSE_SETTING, reuse_settings},
};

/// How full the bank of answers is, and what it was good for.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct AnswersStatus {
    /// What is in it.
    pub counts: BankCounts,
    /// Questions that were asked.
    pub asked: f64,
    /// Of these, answered because the model would have been asked the same.
    pub same: f64,
    /// Answered with what was written for another question, held against the files.
    pub checked: f64,
    /// Answered by nearness alone.
    pub instant: f64,
    /// Seconds that the model took for what was given again.
    pub seconds_saved: f64,
    /// Seconds that were spent while nobody waited.
    pub idle_seconds: f64,
    /// Tokens of the prompts of those questions.
    pub prompt_tokens: f64,
    /// Of these, tokens whose keys and values were kept: nobody read them.
    pub known_tokens: f64,
    /// Seconds of reading that were saved by that.
    pub reading_saved: f64,
}

impl Records {
    /// Keeps a question and its answer; returns its number.
    ///
    /// # Errors
    /// When the catalog can not be written.
    pub fn remember(&self, question: &str, answer: &str) -> Result<i64> {
        Ok(self.catalog.add_history("ask", question, answer)?)
    }

    /// Replaces a remembered answer.
    ///
    /// # Errors
    /// When the catalog can not be written.
    pub fn amend(&self, entry: i64, answer: &str) -> Result<()> {
        Ok(self.catalog.set_response(entry, answer)?)
    }

    /// Remembered questions that contain `part`, or whose answer does, newest first.
    ///
    /// # Errors
    /// When the catalog can not be read.
    pub fn remembered(&self, part: &str, limit: usize) -> Result<Vec<HistoryEntry>> {
        Ok(self.catalog.history_of("ask", part, limit)?)
    }

    /// Forgets one entry, or all, with the answers that were kept to be given again and what was foreseen from them.
    ///
    /// # Errors
    /// When the catalog can not be written.
    pub fn forget(&self, entry: Option<i64>) -> Result<()> {
        match entry {
            Some(id) => {
                if let Some(question) = self.catalog.history_query(id)? {
                    self.catalog.forget_question(&question)?;
                }
            }
            None => self.catalog.clear_answers(true)?,
        }
        Ok(self.catalog.delete_history(entry)?)
    }

    /// How answers that are already there are used.
    ///
    /// # Errors
    /// When the catalog can not be read.
    pub fn reuse(&self) -> Result<ReuseSettings> {
        reuse_settings(&self.catalog)
    }

    /// Sets how answers that are already there are used; what no longer fits is let go.
    ///
    /// # Errors
    /// A similarity that is none; when the catalog can not be written.
    pub fn set_reuse(&self, settings: &ReuseSettings) -> Result<()> {
        if !(0.0..=1.0).contains(&settings.threshold) {
            return Err(Error::BadRequest(
                format!("{} is no similarity: it is between 0 and 1", settings.threshold).into(),
            ));
        }
        let text = serde_json::to_string(settings)
            .map_err(|it| Error::BadRequest(it.to_string().into()))?;
        self.set_setting(REUSE_SETTING, Some(&text))?;
        self.catalog.limit_answers(settings.limit_bytes)?;
        Ok(())
    }

    /// Answers and questions without one, the latest first.
    ///
    /// # Errors
    /// When the catalog can not be read.
    pub fn kept_answers(&self, limit: usize) -> Result<Vec<BankAnswer>> {
        Ok(self.catalog.bank(limit)?)
    }

    /// How full the bank of answers is, and what it was good for.
    ///
    /// # Errors
    /// When the catalog can not be read.
    pub fn answers_status(&self) -> Result<AnswersStatus> {
        let figure = |name: &str| self.catalog.figure(name);
        Ok(AnswersStatus {
            counts: self.catalog.bank_counts()?,
            asked: figure("asked")?,
            same: figure("same")?,
            checked: figure("checked")?,
            instant: figure("instant")?,
            seconds_saved: figure("seconds_saved")?,
            idle_seconds: figure("idle_seconds")?,
            prompt_tokens: figure("prompt_tokens")?,
            known_tokens: figure("known_tokens")?,
            reading_saved: figure("reading_saved")?,
        })
    }

    /// Forgets one kept answer with what was foreseen from its question.
    ///
    /// # Errors
    /// When the catalog can not be written.
    pub fn forget_answer(&self, answer: i64) -> Result<()> {
        Ok(self.catalog.forget_answers(&[answer])?)
    }

    /// Forgets all kept answers; with `of_people` those of questions that somebody has asked, and what was foreseen
    /// from them.
    ///
    /// # Errors
    /// When the catalog can not be written.
    pub fn clear_answers(&self, of_people: bool) -> Result<()> {
        Ok(self.catalog.clear_answers(of_people)?)
    }
}
