//! The scheduler's conversions in a real home, with a real model of random weights that is told what to write.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, atomic::AtomicBool},
};

use riddle_catalog::AnswerState;
use riddle_types::{Notice, PassageOrder};
use riddle_weights::gguf::{RandomModel, write_random};

use super::{PrepareReport, Prepared, Work};
use crate::{
    contract::{
        AskRequest, AskResponse, LocalLlm, REUSE_THRESHOLD, RerankChoice, ReuseGrade,
        ReuseSettings, SearchRequest,
    },
    home::{Config, Records, prefixes},
    index::{InputDocument, Library},
    search::Assistant,
};

const QUESTION: &str = "What does the winter mooring cost?";
const ANSWER: &str = "The winter mooring costs 640 euros a year. [1]";
const TEXT: &str = "The winter mooring costs 640 euros a year. It is paid in May.";

struct Home {
    dir: tempfile::TempDir,
    llm: String,
}

impl Home {
    fn new() -> Home {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("tiny.gguf");
        let format = "q8_0".parse().expect("a format");
        write_random(RandomModel::TinyLlama, format, &file).expect("written");
        let home = Home { llm: format!("local:{}", file.display()), dir };
        let mut library = home.library();
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
        library
            .choose_embedder(&golden.join("tiny-bert-encoder").to_string_lossy())
            .expect("a model");
        drop(library);
        home.add(&[("mooring", TEXT), ("sail", "The sail is white and red.")]);
        home
    }

    fn library(&self) -> Library {
        Library::open(self.config()).expect("opens")
    }

    fn add(&self, documents: &[(&str, &str)]) {
        let mut documents = documents.iter().map(|(id, text)| InputDocument {
            id: (*id).to_owned(),
            title: "Harbor".to_owned(),
            text: (*text).to_owned(),
        });
        self.library()
            .add_documents("/notes", &mut documents, &mut |_| {}, &AtomicBool::new(false))
            .expect("indexed");
    }

    fn config(&self) -> Config {
        Config { threads: 1, ..Config::new(self.dir.path().join("home")) }
    }

    fn request() -> AskRequest {
        let told = BTreeMap::from([(QUESTION.to_owned(), ANSWER.to_owned())]);
        AskRequest {
            search: SearchRequest { rerank: RerankChoice::Off, ..SearchRequest::new("") },
            local: LocalLlm { told: Arc::new(told), ..LocalLlm::default() },
            ..AskRequest::new("")
        }
    }

    fn set(&self, threshold: f32) {
        self.set_to(ReuseSettings { threshold, ..ReuseSettings::default() });
    }

    /// Nothing is foreseen here.
    fn set_to(&self, settings: ReuseSettings) {
        let records = Records::open(self.config()).expect("opens");
        let settings = ReuseSettings { from_passages: false, from_questions: false, ..settings };
        records.set_reuse(&settings).expect("set");
    }

    /// A question that was foreseen, as it is kept.
    fn foresee(&self, request: &AskRequest) {
        let assistant = Assistant::open(self.config()).expect("opens");
        let kept = assistant.foretell(request, &self.llm, &[QUESTION.to_owned()]);
        assert_eq!(kept.expect("written"), 1);
    }

    /// Idle time in a process of its own.
    fn prepare(&self) -> (PrepareReport, Vec<Prepared>) {
        self.prepare_for(&Home::request())
    }

    fn prepare_for(&self, request: &AskRequest) -> (PrepareReport, Vec<Prepared>) {
        let assistant = Assistant::open(self.config()).expect("opens");
        let mut done = Vec::new();
        let mut tell = |it: &Prepared| done.push(it.clone());
        let report =
            assistant.prepare(request, &self.llm, &mut || true, &mut tell).expect("prepared");
        assert!(report.done);
        (report, done)
    }

    fn ask(&self, request: &AskRequest) -> AskResponse {
        let assistant = Assistant::open(self.config()).expect("opens");
        let search = SearchRequest { query: QUESTION.to_owned(), ..request.search.clone() };
        let request = AskRequest { search, ..request.clone() };
        let asked = assistant
            .ask(&request, &self.llm, &mut |_| std::ops::ControlFlow::Continue(()))
            .expect("answered");
        assert_eq!(asked.answer.as_deref(), Some(ANSWER));
        asked
    }

    fn state(&self) -> Vec<AnswerState> {
        let records = Records::open(self.config()).expect("opens");
        records.kept_answers(9).expect("readable").iter().map(|it| it.state).collect()
    }

    fn stored(&self) -> u64 {
        prefixes::prefixes(&self.config()).expect("opens").status().expect("readable").nodes
    }
}

/// The three cases of the paper's figure 15, one after the other.
#[test]
fn reading_becomes_an_answer_and_an_answer_is_read_again() {
    let home = Home::new();
    home.set(0.99);
    home.foresee(&Home::request());
    let question = || QUESTION.to_owned();

    // Nobody would be given the answer: it is not written, and its passages are read.
    let (report, done) = home.prepare();
    assert_eq!((report.read, report.answered), (1, 0), "{done:?}");
    assert_eq!(done, [Prepared::Read { question: question() }]);
    assert_eq!(home.state(), [AnswerState::Pending]);
    let nodes = home.stored();
    assert!(nodes > 1, "rules and passages");
    let (report, done) = home.prepare();
    assert_eq!((report.read, done.len()), (0, 0), "it is there");

    // Now somebody would.
    home.set(REUSE_THRESHOLD);
    let (report, done) = home.prepare();
    assert_eq!((report.read, report.answered), (0, 1), "{done:?}");
    assert_eq!(home.state(), [AnswerState::Fresh]);
    assert_eq!(home.stored(), nodes, "nothing was read that was not there");
    assert!(home.prepare().1.is_empty());

    // What had to go is read again where there is room, and the answer stays.
    prefixes::clear(&home.config()).expect("cleared");
    let (report, done) = home.prepare();
    assert_eq!((report.read, report.answered), (1, 0), "{done:?}");
    assert_eq!((home.stored(), home.state()), (nodes, vec![AnswerState::Fresh]));

    // And where there is none it is not.
    let records = Records::open(home.config()).expect("opens");
    records.set_setting(prefixes::PREFIX_BYTES_SETTING, Some("1")).expect("set");
    prefixes::clear(&home.config()).expect("cleared");
    assert!(home.prepare().1.is_empty());
}

/// What the three cases are held against: each question is answered once, whatever that is good for.
#[test]
fn without_a_scheduler_each_question_is_answered_once() {
    let home = Home::new();
    home.set_to(ReuseSettings { threshold: 0.99, schedule: false, ..ReuseSettings::default() });
    home.foresee(&Home::request());
    let (report, done) = home.prepare();
    assert_eq!((report.read, report.answered), (0, 1), "{done:?}");
    assert!(report.tokens > 0 && home.stored() > 1);
    prefixes::clear(&home.config()).expect("cleared");
    assert!(home.prepare().1.is_empty(), "what had to go stays away");
}

/// PerCache, section 4.1.3, and what it is held against.
#[test]
fn what_something_new_came_near_is_written_again_unless_that_is_switched_off() {
    let home = Home::new();
    home.set(REUSE_THRESHOLD);
    assert!(home.ask(&Home::request()).cached.is_none());
    assert_eq!(home.state(), [AnswerState::Fresh]);
    home.add(&[("quay", "What the winter mooring at the quay costs is not known yet.")]);
    assert_eq!(home.state(), [AnswerState::Suspect]);

    home.set_to(ReuseSettings { refresh: false, ..ReuseSettings::default() });
    assert!(home.prepare().1.is_empty());
    assert_eq!(home.state(), [AnswerState::Suspect]);

    home.set(REUSE_THRESHOLD);
    let (report, done) = home.prepare();
    assert_eq!((report.answered, report.again), (1, 1), "{done:?}");
    assert_eq!(home.state(), [AnswerState::Fresh]);
}

/// From the same sentences the same model makes the same questions again.
#[test]
fn what_was_let_go_is_not_prepared_again_at_once() {
    let home = Home::new();
    home.set(REUSE_THRESHOLD);
    let (assistant, request) = (Assistant::open(home.config()).expect("opens"), Home::request());
    let open = || super::open(&assistant, &request, &home.llm);
    let work = Work::of(&assistant, &request, &home.llm, &open).expect("opens").expect("kept");
    // Nobody tells the model what to write: its weights are random, and no passage bears it out.
    let question = ["Which colours has the sail?".to_owned()];
    let mut report = PrepareReport::default();
    work.foretell(&question, &mut report).expect("written");
    assert_eq!(report.foreseen, 1);
    assert!(work.step(&mut report, &mut |_| {}).expect("asked"));
    assert_eq!((report.dropped, home.state().len()), (1, 0));
    work.foretell(&question, &mut report).expect("written");
    assert_eq!((report.foreseen, home.state().len()), (1, 0));
}

/// Where a model draws its words none of its answers is kept, and its passages are read ahead all the same.
#[test]
fn where_no_answer_is_kept_passages_are_read_ahead() {
    let mut drawn = Home::request();
    drawn.local.sampling.temperature = 0.7;
    let home = Home::new();
    home.set(REUSE_THRESHOLD);
    home.foresee(&drawn);
    let (report, done) = home.prepare_for(&drawn);
    assert_eq!((report.read, report.answered), (1, 0), "{done:?}");
    assert_eq!(home.state(), [AnswerState::Pending]);
    let nodes = home.stored();
    assert!(nodes > 1, "rules and passages");

    // Whoever asks finds it read, and leaves no answer.
    for _ in 0..2 {
        let answered = home.ask(&drawn);
        let stats = answered.generation.expect("a model wrote it");
        assert!(stats.loaded_tokens + stats.reused_tokens > 0, "{stats:?}");
        assert!(answered.cached.is_none());
        assert_eq!(home.state(), [AnswerState::Pending]);
    }
    assert_eq!(home.stored(), nodes);
    assert!(home.prepare_for(&drawn).1.is_empty());
}

/// Where passages are read in the order that was read before, an answer is given again after a look at today's files,
/// never as one that is provably the same.
#[test]
fn an_order_that_depends_on_what_was_read_proves_nothing() {
    let mut stored = Home::request();
    stored.local.order = PassageOrder::Stored;
    let home = Home::new();
    home.set(REUSE_THRESHOLD);
    assert!(home.ask(&stored).cached.is_none());
    let again = home.ask(&stored).cached.expect("it is there");
    assert_eq!(again.kind, ReuseGrade::Checked);
    let mut strict = stored.clone();
    strict.reuse.grade = Some(ReuseGrade::Same);
    assert!(home.ask(&strict).cached.is_none());

    let ranked = Home::request();
    assert!(home.ask(&ranked).cached.is_none(), "it was read in another order");
    assert_eq!(home.ask(&ranked).cached.expect("it is there").kind, ReuseGrade::Same);
}

#[test]
fn a_model_writes_what_it_is_told() {
    let answered = Home::new().ask(&Home::request());
    let is_cut = |it: &Notice| matches!(it, Notice::AnswerTooLong { .. });
    assert!(!answered.notices.iter().any(is_cut), "{:?}", answered.notices);
    let stats = answered.generation.expect("a model wrote it");
    assert!(stats.tokens > 10 && stats.drafted_tokens == 0);
}
