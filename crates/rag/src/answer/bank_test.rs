//! No answer is given that the files of today do not bear out, whatever happened since it was written.

use std::{
    ops::ControlFlow,
    path::Path,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

use proptest::prelude::*;
use riddle_types::{Generation, GenerationRequest, Generator, Message, StageError};

use super::{
    ask::{AskEvent, answered_by},
    bank::Asking,
    generator::Opened,
    idle::prepare,
};
use crate::{
    contract::{AskRequest, AskResponse, RerankChoice, Reuse, ReuseGrade, SearchRequest},
    home::{Config, Records},
    index::{InputDocument, Library},
    search::Assistant,
};

/// Stands for a model in tests: quotes its first passage and says the hash of everything that it was asked.
struct Stub<'a> {
    identity: u8,
    asked: &'a AtomicUsize,
}

impl Generator for Stub<'_> {
    fn name(&self) -> &str {
        "local:stub"
    }

    fn generate(
        &self,
        request: &GenerationRequest,
        sink: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Generation, StageError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let mut hash = blake3::Hasher::new();
        hash.update(&[self.identity]);
        hash.update(request.question.as_bytes());
        for passage in &request.passages {
            hash.update(format!("\n{} {}", passage.number, passage.text).as_bytes());
        }
        let first = &request.passages[0].text;
        let text = format!("{first} [1] Of that {} is the sum.", hash.finalize().to_hex());
        if sink(&text).is_break() {
            return Ok(Generation::default());
        }
        Ok(Generation { text, ..Generation::default() })
    }

    fn complete(
        &self,
        messages: &[Message],
        _max_tokens: usize,
        sink: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Generation, StageError> {
        let asked = &messages[1].content;
        let word = THINGS.iter().rfind(|it| asked.contains(**it)).unwrap_or(&"boat");
        let text = format!("1. What does the {word} cost?; 2. Who paid the {word} first?");
        let _ = sink(&text);
        Ok(Generation { text, ..Generation::default() })
    }
}

const FOLDERS: [&str; 2] = ["/open", "/marked"];
const THINGS: [&str; 4] = ["mooring", "engine", "sail", "hull"];
const QUESTIONS: [&str; 5] = [
    "What does the mooring cost?",
    "How much does the mooring cost?",
    "What does the engine cost?",
    "Who paid the sail first?",
    "What is known of the hull and the engine?",
];

#[derive(Debug, Clone)]
enum Step {
    Write(usize, usize, usize, u32),
    Delete(usize, usize),
    Move(usize, usize),
    RemoveRoot(usize),
    /// By somebody who is killed on the way.
    BeginRemoving(usize),
    Confine(usize, bool),
    OtherModel(u8),
    OtherNumber(usize),
    Ask(usize, bool),
    Forget(usize),
    Idle,
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => (0usize..2, 0usize..4, 0usize..4, 1u32..4)
            .prop_map(|(folder, doc, thing, price)| Step::Write(folder, doc, thing, price)),
        2 => (0usize..2, 0usize..4).prop_map(|(folder, doc)| Step::Delete(folder, doc)),
        1 => (0usize..2, 0usize..4).prop_map(|(folder, doc)| Step::Move(folder, doc)),
        1 => (0usize..2).prop_map(Step::RemoveRoot),
        1 => (0usize..2).prop_map(Step::BeginRemoving),
        1 => (0usize..2, any::<bool>()).prop_map(|(folder, on)| Step::Confine(folder, on)),
        1 => (0u8..2).prop_map(Step::OtherModel),
        1 => (2usize..4).prop_map(Step::OtherNumber),
        8 => (0usize..5, any::<bool>()).prop_map(|(question, outward)| Step::Ask(question, outward)),
        1 => (0usize..5).prop_map(Step::Forget),
        2 => Just(Step::Idle),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 8..28)
}

/// A home that steps are done in.
struct Home {
    dir: tempfile::TempDir,
    docs: [[Option<String>; 4]; 2],
    model: u8,
    passages: usize,
    asked: AtomicUsize,
    served: usize,
}

fn embedder() -> String {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/tiny-bert-encoder");
    golden.to_string_lossy().into_owned()
}

impl Home {
    fn new() -> Home {
        let home = Home {
            dir: tempfile::tempdir().expect("a folder"),
            docs: Default::default(),
            model: 0,
            passages: 3,
            asked: AtomicUsize::new(0),
            served: 0,
        };
        home.library().choose_embedder(&embedder()).expect("a model");
        home
    }

    fn config(&self) -> Config {
        Config { threads: 1, ..Config::new(self.dir.path()) }
    }

    fn library(&self) -> Library {
        Library::open(self.config()).expect("opens")
    }

    fn assistant(&self) -> Option<Assistant> {
        Assistant::open(self.config()).ok()
    }

    fn put(&mut self, folder: usize, doc: usize, text: Option<String>) {
        self.docs[folder][doc].clone_from(&text);
        let document = InputDocument {
            id: format!("doc{doc}"),
            title: String::new(),
            text: text.unwrap_or_default(),
        };
        let mut documents = std::iter::once(document);
        self.library()
            .add_documents(FOLDERS[folder], &mut documents, &mut |_| {}, &AtomicBool::new(false))
            .expect("indexed");
    }

    fn stub(&self) -> Opened {
        // Tests end before the home does.
        let asked: &'static AtomicUsize = Box::leak(Box::new(AtomicUsize::new(0)));
        Opened {
            generator: Box::new(Stub { identity: self.model, asked }),
            leaves: false,
            identity: Some(format!("stub {}", self.model)),
        }
    }

    fn request(&self, question: &str, outward: bool) -> AskRequest {
        AskRequest {
            search: SearchRequest {
                rerank: RerankChoice::Off,
                outward,
                ..SearchRequest::new(question)
            },
            passages: self.passages,
            ..AskRequest::new(question)
        }
    }

    fn ask(
        &self,
        assistant: &Assistant,
        question: &str,
        outward: bool,
        reuse: Reuse,
    ) -> AskResponse {
        let request = AskRequest { reuse, ..self.request(question, outward) };
        let mut told = String::new();
        let mut observer = |event: AskEvent<'_>| {
            if let AskEvent::Piece(piece) = event {
                told.push_str(piece);
            }
            ControlFlow::Continue(())
        };
        let response = answered_by(
            assistant,
            &request,
            ("local:stub", Some(self.stub())),
            &Asking::default(),
            &mut observer,
        )
        .expect("answered");
        // Whoever watched has seen what came out.
        assert_eq!(response.answer.is_some(), !told.is_empty());
        response
    }

    /// Asks, and compares with what is said where nothing was ever kept.
    fn check(&mut self, question: &str, outward: bool, grade: ReuseGrade) {
        let Some(assistant) = self.assistant() else { return };
        let fresh = Reuse { grade: Some(ReuseGrade::Off), threshold: None, keep: false };
        let truth = self.ask(&assistant, question, outward, fresh);
        let reuse = Reuse { grade: Some(grade), threshold: Some(0.0), keep: true };
        let given = self.ask(&assistant, question, outward, reuse);
        let Some(cached) = &given.cached else {
            assert_eq!(given.answer, truth.answer, "the model was asked: {question}");
            return;
        };
        self.served += 1;
        assert!(truth.answer.is_some(), "served where nothing answers: {given:?}");
        match cached.kind {
            ReuseGrade::Same => {
                assert_eq!(given.answer, truth.answer, "{question}");
                assert_eq!(given.supported, truth.supported, "{question}");
                assert_eq!(given.citations, truth.citations, "{question}");
            }
            ReuseGrade::Checked => {
                assert!(!given.citations.is_empty());
                for citation in &given.citations {
                    assert!(truth.passages.contains(&citation.chunk), "{given:?}");
                    // What is quoted stands in a document of today.
                    let docs = self.docs.iter().flatten().flatten();
                    let quoted = given.answer.as_deref().unwrap_or_default();
                    assert!(docs.into_iter().any(|it| quoted.starts_with(it.as_str())), "{quoted}");
                }
            }
            other => panic!("{other:?} was not allowed"),
        }
    }

    fn run(&mut self, step: &Step, grade: ReuseGrade) {
        match *step {
            Step::Write(folder, doc, thing, price) => {
                let thing = THINGS[thing];
                let text =
                    format!("The {thing} costs {price}00 euros, and Anna paid the {thing} first.");
                self.put(folder, doc, Some(text));
            }
            Step::Delete(folder, doc) => self.put(folder, doc, None),
            Step::Move(folder, doc) => {
                let text = self.docs[folder][doc].clone();
                self.put(folder, doc, None);
                self.put(1 - folder, doc, text);
            }
            Step::RemoveRoot(folder) => {
                if self.library().remove_root(Path::new(FOLDERS[folder])).is_ok() {
                    self.docs[folder] = Default::default();
                }
            }
            Step::BeginRemoving(folder) => {
                let catalog =
                    riddle_catalog::Catalog::open(self.config().catalog()).expect("opens");
                let mut roots = catalog.roots().expect("read").into_iter();
                if let Some(root) = roots.find(|it| it.path == Path::new(FOLDERS[folder])) {
                    catalog.begin_removing(root.id).expect("begun");
                    self.docs[folder] = Default::default();
                }
            }
            Step::Confine(folder, on) => {
                let catalog =
                    riddle_catalog::Catalog::open(self.config().catalog()).expect("opens");
                catalog.confine(Path::new(FOLDERS[folder]), on).expect("marked");
            }
            Step::OtherModel(model) => self.model = model,
            Step::OtherNumber(passages) => self.passages = passages,
            Step::Ask(question, outward) => self.check(QUESTIONS[question], outward, grade),
            Step::Forget(question) => {
                let records = Records::open(self.config()).expect("opens");
                let entry = records.remember(QUESTIONS[question], "{}").expect("kept");
                records.forget(Some(entry)).expect("forgotten");
                let kept = records.kept_answers(100).expect("readable");
                assert!(kept.iter().all(|it| it.question != QUESTIONS[question]));
            }
            Step::Idle => self.idle(),
            Step::Reopen => drop(self.library()),
        }
    }

    fn idle(&self) {
        let Some(assistant) = self.assistant() else { return };
        let request = self.request("", false);
        let mut left = 400;
        let mut go_on = || {
            left -= 1;
            left > 0
        };
        prepare(&assistant, &request, "local:stub", &|| Ok(self.stub()), &mut go_on, &mut |_| {})
            .expect("prepared");
        assert!(self.asked.load(Ordering::Relaxed) < 1000);
    }
}

fn all(steps: &[Step], grade: ReuseGrade) -> usize {
    let mut home = Home::new();
    for step in steps {
        home.run(step, grade);
    }
    home.served
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn no_answer_is_given_that_a_fresh_home_would_not_give(steps in steps()) {
        all(&steps, ReuseGrade::Same);
    }

    #[test]
    fn no_checked_answer_rests_on_what_is_not_found_today(steps in steps()) {
        all(&steps, ReuseGrade::Checked);
    }
}

#[test]
fn the_same_question_is_answered_once_and_one_alike_from_the_same_passages() {
    let write = Step::Write(0, 0, 0, 3);
    let ask = Step::Ask(0, false);
    let served = all(&[write.clone(), ask.clone(), ask.clone()], ReuseGrade::Same);
    assert_eq!(served, 1, "the second time");
    let served = all(&[write.clone(), ask.clone(), Step::Ask(1, false)], ReuseGrade::Checked);
    assert_eq!(served, 1, "put otherwise");
    let served = all(&[write.clone(), ask.clone(), Step::Ask(2, false)], ReuseGrade::Checked);
    assert_eq!(served, 0, "another thing");
    // A note that is nearer, one that says otherwise, one that is gone.
    let changed = Step::Write(0, 0, 0, 2);
    assert_eq!(all(&[write.clone(), ask.clone(), changed, ask.clone()], ReuseGrade::Checked), 0);
    let forgotten = [write, ask.clone(), Step::Forget(0), ask];
    assert_eq!(all(&forgotten, ReuseGrade::Checked), 0);
}

#[test]
fn what_is_suspect_is_answered_again_while_nobody_waits() {
    let mut home = Home::new();
    home.run(&Step::Write(0, 0, 0, 3), ReuseGrade::Checked);
    home.run(&Step::Ask(0, false), ReuseGrade::Checked);
    home.run(&Step::Write(0, 1, 0, 2), ReuseGrade::Checked);
    let records = Records::open(home.config()).expect("opens");
    let state = |question: &str| {
        let kept = records.kept_answers(100).expect("readable");
        kept.into_iter().find(|it| it.question == question).map(|it| it.state.as_str())
    };
    assert_eq!(state(QUESTIONS[0]), Some("suspect"));
    home.idle();
    assert_eq!(state(QUESTIONS[0]), Some("fresh"));
    let status = records.answers_status().expect("readable");
    assert!(status.counts.foreseen > 0, "{status:?}");
}
