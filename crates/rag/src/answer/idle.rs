//! Work while nobody waits: suspect answers are written anew, questions are foreseen and answered.
//!
//! After PerCache (section 4.1.2): a sentence about each passage, from those questions in strides; and questions in
//! the manner of those that were asked. All of it is done by a model of this machine and in small steps. Each can be
//! given up after any layer and any token, and leaves either all of what it was to bring or nothing.

mod foresee;

use std::{
    cell::{Cell, RefCell},
    collections::HashSet,
    ops::ControlFlow,
    sync::Arc,
    time::Instant,
};

use riddle_cache::Store;
use riddle_catalog::{AnswerState, AskedBy, BankAnswer};
use riddle_types::GenerationStats;

use self::foresee::ABSTRACTS;
use super::{
    ask::{AskEvent, answered_by},
    bank::{Asking, Bank, Foreseen},
    generator::{self, Opened},
    schedule::{Conversion, KeptQuestion, Limits, convert},
};
use crate::{
    contract::{
        AskRequest, AskResponse, Error, LLM_LOCAL, Result, Reuse, ReuseGrade, ReuseSettings,
        SearchRequest,
    },
    home::{prefixes, settings::reuse_settings},
    index::Background,
    search::Assistant,
};

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prepared {
    /// A question was answered; `again`: something had changed nearby since.
    Answered {
        /// The question.
        question: String,
        /// It had an answer before.
        again: bool,
    },
    /// The passages of a question were read, and their keys and values are kept.
    Read {
        /// The question.
        question: String,
    },
    /// Nothing in the files answers a foreseen question: it was let go.
    Dropped {
        /// The question.
        question: String,
    },
    /// A passage was described.
    Described {
        /// In which words.
        sentence: String,
    },
    /// A question was foreseen.
    Foreseen {
        /// The question.
        question: String,
    },
}

/// What an idle time brought.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PrepareReport {
    /// Questions answered.
    pub answered: u64,
    /// Of these, questions that had an answer before.
    pub again: u64,
    /// Questions whose passages were read, without an answer.
    pub read: u64,
    /// Foreseen questions that nothing answers.
    pub dropped: u64,
    /// Passages described.
    pub described: u64,
    /// Questions foreseen.
    pub foreseen: u64,
    /// Tokens that the model computed: read and not known, or written. What was given up is not counted.
    pub tokens: u64,
    /// Seconds spent.
    pub seconds: f64,
    /// Nothing is left to be done.
    pub done: bool,
}

impl Assistant {
    /// Prepares answers for questions like `request` with the model `llm`, until nothing is left to be done or `go_on`
    /// says no, which it is asked after every layer and every token. A question that somebody asks goes first, in this
    /// process or another one.
    ///
    /// # Errors
    /// A model that does not run in this process; an embedder at a server; when the catalog or an index can not be read
    /// or written.
    pub fn prepare(
        &self,
        request: &AskRequest,
        llm: &str,
        go_on: &mut dyn FnMut() -> bool,
        tell: &mut dyn FnMut(&Prepared),
    ) -> Result<PrepareReport> {
        may_prepare(self, llm)?;
        prepare(self, request, llm, &|| open(self, request, llm), go_on, tell)
    }

    /// Keeps questions that somebody foresees who knows better than a model, for [`Assistant::prepare`] with the same
    /// request and model. Those that are there already are not kept again.
    ///
    /// # Errors
    /// A model that does not run in this process; an embedder at a server; when the catalog can not be read or written.
    pub fn foretell(&self, request: &AskRequest, llm: &str, questions: &[String]) -> Result<u64> {
        may_prepare(self, llm)?;
        let mut report = PrepareReport::default();
        let open = || open(self, request, llm);
        if let Some(work) = Work::of(self, request, llm, &open)? {
            work.foretell(questions, &mut report)?;
        }
        Ok(report.foreseen)
    }
}

/// Whether what nobody has asked for stays on this machine.
fn may_prepare(assistant: &Assistant, llm: &str) -> Result<()> {
    if let Some(server) = assistant.embeds_at() {
        return Err(Error::BadRequest(
            format!(
                "{server} embeds, and what nobody has asked for is sent nowhere: answers are prepared where a \
                 model on this machine embeds"
            )
            .into(),
        ));
    }
    if !llm.starts_with(LLM_LOCAL) {
        return Err(Error::BadRequest(
            "answers are prepared by a model of this machine: choose one that is installed".into(),
        ));
    }
    Ok(())
}

fn open(assistant: &Assistant, request: &AskRequest, llm: &str) -> Result<Opened> {
    let Assistant { config, catalog, local, .. } = assistant;
    let opened = generator::open(config, catalog, local, request, llm)?;
    opened.ok_or_else(|| Error::BadRequest("no model is chosen".into()))
}

/// [`Assistant::prepare`] with whatever generator `open` opens.
pub(super) fn prepare(
    assistant: &Assistant,
    request: &AskRequest,
    llm: &str,
    open: &dyn Fn() -> Result<Opened>,
    go_on: &mut dyn FnMut() -> bool,
    tell: &mut dyn FnMut(&Prepared),
) -> Result<PrepareReport> {
    let background = Background::new(&assistant.config.home);
    let mut may = || go_on() && !background.wanted();
    let started = Instant::now();
    let mut report = PrepareReport::default();
    let Some(mut work) = Work::of(assistant, request, llm, open)? else {
        return Ok(PrepareReport { done: true, ..report });
    };
    let go_on = RefCell::new(&mut may as &mut dyn FnMut() -> bool);
    work.go_on = Some(&go_on);
    while work.may_go_on() {
        if !work.step(&mut report, tell)? {
            report.done = work.may_go_on();
            break;
        }
    }
    report.tokens = work.tokens.get();
    report.seconds = started.elapsed().as_secs_f64();
    // A figure that is lost costs nobody anything.
    if let Err(error) =
        assistant.bank().and_then(|it| Ok(it.add_figure("idle_seconds", report.seconds)?))
    {
        tracing::debug!(%error, "the seconds spent are not kept");
    }
    Ok(report)
}

type GoOn<'a, 'b> = RefCell<&'a mut (dyn FnMut() -> bool + 'b)>;

struct Work<'a> {
    assistant: &'a Assistant,
    request: AskRequest,
    llm: &'a str,
    open: &'a dyn Fn() -> Result<Opened>,
    /// For what it helps to decide: no answer is looked for.
    setting: [u8; 32],
    /// What the home is set to.
    settings: ReuseSettings,
    /// Answers are kept; else only what is read for them.
    answers: bool,
    /// Where what is read is kept.
    tree: Option<Arc<Store>>,
    /// Questions read here already: what does not stay is not read for ever.
    read: RefCell<HashSet<i64>>,
    /// Foreseen questions that were let go: from the same sentences the same model makes the same ones again.
    dropped: RefCell<HashSet<String>>,
    /// Tokens computed.
    tokens: Cell<u64>,
    go_on: Option<&'a GoOn<'a, 'a>>,
}

impl<'a> Work<'a> {
    /// `None` where nothing is kept.
    fn of(
        assistant: &'a Assistant,
        request: &AskRequest,
        llm: &'a str,
        open: &'a dyn Fn() -> Result<Opened>,
    ) -> Result<Option<Work<'a>>> {
        let request = AskRequest {
            search: SearchRequest { idle: true, explain: false, ..request.search.clone() },
            earlier: Vec::new(),
            // Another answer is what is wanted.
            reuse: Reuse { grade: Some(ReuseGrade::Off), threshold: None, keep: true },
            ..request.clone()
        };
        let opened = open()?;
        let asking = Asking::default();
        let identity = opened.identity.as_deref();
        let Some(bank) = Bank::of(assistant, &request, identity, llm, &asking)? else {
            return Ok(None);
        };
        let settings = reuse_settings(&assistant.catalog)?;
        Ok(Some(Work {
            setting: bank.setting(),
            assistant,
            llm,
            open,
            settings,
            answers: bank.keeps_answers(),
            tree: match request.local.reads_anew {
                true => None,
                false => prefixes::for_model(&assistant.config, &assistant.catalog)?,
            },
            read: RefCell::default(),
            dropped: RefCell::default(),
            tokens: Cell::default(),
            go_on: None,
            request,
        }))
    }

    fn may_go_on(&self) -> bool {
        self.go_on.is_none_or(|it| (it.borrow_mut())())
    }

    fn flow(&self) -> ControlFlow<()> {
        if self.may_go_on() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    /// One step, the most useful first: what somebody has asked, then what may be asked, then what that is made from.
    /// `false`: nothing is left to be done.
    fn step(&self, report: &mut PrepareReport, tell: &mut dyn FnMut(&Prepared)) -> Result<bool> {
        if let Some(next) = self.next()? {
            let catalog = &self.assistant.catalog;
            let (Conversion::Answer(id) | Conversion::Read(id)) = next;
            // Somebody may just have forgotten it.
            let Some(found) = catalog.bank_answer(id)? else { return Ok(true) };
            match next {
                Conversion::Answer(_) => self.answer(&found, report, tell)?,
                Conversion::Read(_) => self.read(&found, report, tell)?,
            }
            return Ok(true);
        }
        if self.settings.from_questions && self.continue_history(report, tell)? {
            return Ok(true);
        }
        if !self.settings.from_passages {
            return Ok(false);
        }
        // A few at a time: questions about what is described come before the last passage is.
        let described = self.assistant.catalog.abstracts(ABSTRACTS)?.len();
        if described < ABSTRACTS && self.describe(report, tell)? {
            return Ok(true);
        }
        if self.foresee(report, tell)? {
            return Ok(true);
        }
        self.describe(report, tell)
    }

    /// What is to be made next of the questions that are there; `None`: all is as it should be.
    fn next(&self) -> Result<Option<Conversion>> {
        let work = self.assistant.catalog.bank_work(&self.setting)?;
        let mut is_there = Vec::new();
        let mut limits = Limits {
            threshold: self.settings.threshold,
            answers: self.answers,
            schedules: self.settings.schedule,
            tree_bytes: 0,
            free_bytes: 0,
        };
        if let Some(tree) = &self.tree {
            let leaves: Vec<[u8; 32]> =
                work.iter().map(|it| it.read.map_or([0; 32], |it| it.leaf)).collect();
            is_there = tree.has(&leaves).map_err(prefixes::error)?;
            let status = tree.status().map_err(prefixes::error)?;
            limits.tree_bytes = status.limit_bytes;
            limits.free_bytes = status.limit_bytes.saturating_sub(status.bytes);
        }
        let read = self.read.borrow();
        let kept = work.iter().enumerate().map(|(place, it)| KeptQuestion {
            id: it.id,
            foreseen: it.by != AskedBy::User,
            answered: match it.state {
                AnswerState::Fresh => true,
                AnswerState::Suspect => !self.settings.refresh,
                AnswerState::Pending => false,
            },
            read: is_there.get(place).is_some_and(|it| *it) || read.contains(&it.id),
            bytes: it.read.map_or(0, |it| it.bytes),
        });
        Ok(convert(limits, &kept.collect::<Vec<_>>()).first().copied())
    }

    /// Asks a question of the bank; `None`: it was given up.
    fn ask(
        &self,
        next: &BankAnswer,
        observer: &mut dyn FnMut(AskEvent<'_>) -> ControlFlow<()>,
    ) -> Result<Option<AskResponse>> {
        let search = SearchRequest { query: next.question.clone(), ..self.request.search.clone() };
        let request = AskRequest { search, ..self.request.clone() };
        let asking = Asking { foreseen: Some(Foreseen { by: next.by, typed: next.typed.clone() }) };
        let model = (self.llm, Some((self.open)()?));
        let answered = answered_by(self.assistant, &request, model, &asking, observer);
        self.count(answered.as_ref().ok().and_then(|it| it.generation));
        // Given up on the way, whatever became of it: the question waits.
        if self.may_go_on() { answered.map(Some) } else { Ok(None) }
    }

    /// Counts what a model computed.
    fn count(&self, stats: Option<GenerationStats>) {
        self.tokens.set(self.tokens.get() + stats.map_or(0, |it| it.computed_tokens() as u64));
    }

    /// Reads the passages of a question until the first word of an answer, which is the model's time better spent on
    /// the next one.
    fn read(
        &self,
        next: &BankAnswer,
        report: &mut PrepareReport,
        tell: &mut dyn FnMut(&Prepared),
    ) -> Result<()> {
        let writes = Cell::new(false);
        let asked = self.ask(next, &mut |event| {
            writes.set(writes.get() || matches!(event, AskEvent::Piece(it) if !it.is_empty()));
            if writes.get() { ControlFlow::Break(()) } else { self.flow() }
        })?;
        let Some(response) = asked else { return Ok(()) };
        self.read.borrow_mut().insert(next.id);
        let question = next.question.clone();
        if response.generation.is_some() {
            report.read += 1;
            tell(&Prepared::Read { question });
        } else if next.state == AnswerState::Pending {
            self.let_go(next, report, tell)?;
        } else {
            self.assistant.bank()?.note_read(&self.setting, &question, None)?;
        }
        Ok(())
    }

    fn answer(
        &self,
        next: &BankAnswer,
        report: &mut PrepareReport,
        tell: &mut dyn FnMut(&Prepared),
    ) -> Result<()> {
        if self.ask(next, &mut |_| self.flow())?.is_none() {
            return Ok(());
        }
        let now = self.assistant.catalog.bank_answer(next.id)?;
        let question = next.question.clone();
        match now.map(|it| it.state) {
            Some(AnswerState::Fresh) => {
                let again = next.state == AnswerState::Suspect;
                report.answered += 1;
                report.again += u64::from(again);
                tell(&Prepared::Answered { question, again });
            }
            // Nothing answers it, or the index has moved on: a person's next question is answered as any other.
            _ => self.let_go(next, report, tell)?,
        }
        Ok(())
    }

    /// Forgets a question that nothing answers.
    fn let_go(
        &self,
        next: &BankAnswer,
        report: &mut PrepareReport,
        tell: &mut dyn FnMut(&Prepared),
    ) -> Result<()> {
        self.assistant.bank()?.forget_answers(&[next.id])?;
        self.dropped.borrow_mut().insert(next.question.clone());
        report.dropped += 1;
        tell(&Prepared::Dropped { question: next.question.clone() });
        Ok(())
    }
}

#[cfg(test)]
mod tests;
