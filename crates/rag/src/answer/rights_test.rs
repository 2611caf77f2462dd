//! Nobody is given what that one may not read: by no search, no number, no answer and no count.

use std::{
    fs::{self, Permissions},
    iter,
    ops::ControlFlow,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::AtomicBool,
};

use riddle_catalog::{Catalog, FileOutcome, NewChunk};
use riddle_types::{
    Chunk, FileKind, FileState, Filter, Generation, GenerationRequest, Generator, Location, Reader,
    StageError, VectorTurn,
};
use riddle_watch::Stamp;

use super::{
    ask::{AskEvent, answered_by},
    bank::Asking,
    generator::Opened,
};
use crate::{
    contract::{AskRequest, Audience, RerankChoice, Reuse, ReuseGrade, SearchRequest},
    home::{Config, Records, settings::READ_WITH},
    index::{InputDocument, Library, marks},
    search::Assistant,
};

/// A home with one folder, whose files each say their own name.
struct Home {
    dir: tempfile::TempDir,
    root: PathBuf,
}

/// Name and mode of each file, and of each folder before the files in it.
const PLACES: [(&str, u32); 9] = [
    ("open.md", 0o644),
    ("group.md", 0o640),
    ("own.md", 0o600),
    ("others.md", 0o604),
    ("closed", 0o700),
    ("closed/inside.md", 0o644),
    ("passed", 0o711),
    ("passed/known.md", 0o644),
    ("passed/own.md", 0o400),
];

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("changed");
}

/// Who runs this, by name.
fn name_by(flag: &str) -> String {
    let said = Command::new("id").arg(flag).output().expect("id");
    String::from_utf8(said.stdout).expect("text").trim().to_owned()
}

fn reader(user: &str, groups: &[&str]) -> Reader {
    let groups = groups.iter().map(|it| (*it).to_owned()).collect();
    Reader { user: user.to_owned(), groups }
}

/// The owner, a member of the group, and a stranger, each with the files that this one may read.
fn readers() -> Vec<(Reader, Vec<&'static str>)> {
    let all = [
        "open.md",
        "group.md",
        "own.md",
        "others.md",
        "closed/inside.md",
        "passed/known.md",
        "passed/own.md",
    ];
    vec![
        (reader(&name_by("-un"), &[]), all.to_vec()),
        (
            reader("nobody-at-all", &[&name_by("-gn")]),
            vec!["open.md", "group.md", "passed/known.md"],
        ),
        (reader("nobody-at-all", &["else"]), vec!["open.md", "others.md", "passed/known.md"]),
    ]
}

fn text_of(name: &str) -> String {
    format!("The zeppelin of {name} costs 640 euros.")
}

impl Home {
    fn new() -> Home {
        let dir = tempfile::tempdir().expect("a folder");
        let root = dir.path().join("files");
        fs::create_dir(&root).expect("made");
        mode(&root, 0o755);
        for (name, _) in PLACES {
            let path = root.join(name);
            match name.ends_with(".md") {
                true => fs::write(&path, text_of(name)).expect("written"),
                false => fs::create_dir(&path).expect("made"),
            }
        }
        for (name, bits) in PLACES {
            mode(&root.join(name), bits);
        }
        let home = Home { dir, root };
        home.index();
        home
    }

    fn config(&self) -> Config {
        Config { threads: 1, ..Config::new(self.dir.path().join("home")) }
    }

    /// What an update does, without a process that parses.
    fn index(&self) {
        drop(Library::open(self.config()).expect("opens"));
        let catalog = Catalog::open(self.config().catalog()).expect("opens");
        let root = catalog.add_root(&self.root).expect("a root").id;
        let mut entries = Vec::new();
        riddle_watch::scan(&self.root, &riddle_watch::ScanOptions::default(), &mut |it| {
            entries.push(it);
            ControlFlow::Continue(())
        })
        .expect("scanned");
        catalog.apply_scan(root, &entries, true, &[]).expect("applied");
        let jobs = catalog.next_jobs(99).expect("jobs");
        for job in catalog.begin_jobs(jobs).expect("begun") {
            let text = fs::read_to_string(&job.path).expect("readable");
            let stamp = Stamp::of(&fs::metadata(&job.path).expect("there"));
            let chunk = Chunk {
                ordinal: 0,
                heading: String::new(),
                location: Location::Whole,
                tokens: 9,
                turn: VectorTurn::Early,
                text: text.clone(),
            };
            let text_hash = *blake3::hash(text.as_bytes()).as_bytes();
            let outcome = FileOutcome {
                file: job.file,
                content_hash: None,
                kind: FileKind::Markdown,
                state: FileState::Indexed,
                reason: String::new(),
                title: None,
                language: Some("en".to_owned()),
                tags: Vec::new(),
                warnings: Vec::new(),
                size: stamp.size,
                modified_ns: stamp.modified_ns,
                volume_id: stamp.volume_id,
                chunks: vec![NewChunk { chunk, text_hash, vector: None }],
                pictures: Vec::new(),
            };
            catalog.commit_files(&[outcome], None).expect("committed");
        }
        // They were read by readers of today, who would find no parser here.
        let read_with = marks().collect::<Vec<_>>().join(" ");
        catalog.set_setting(READ_WITH, Some(&read_with)).expect("kept");
        drop(catalog);
        // The indexes follow; and what comes from memory is nobody's but the person's.
        let text = text_of("memory");
        let document = InputDocument { id: "memory".to_owned(), title: String::new(), text };
        Library::open(self.config())
            .expect("opens")
            .add_documents("kept", &mut iter::once(document), &mut |_| {}, &AtomicBool::new(false))
            .expect("indexed");
    }

    fn assistant(&self) -> Assistant {
        Assistant::open(self.config()).expect("opens")
    }

    /// Paths below the root, in order; of a document from memory its whole path.
    fn names(&self, paths: impl IntoIterator<Item = String>) -> Vec<String> {
        let below = |it: String| {
            let path = Path::new(&it);
            path.strip_prefix(&self.root).map_or(it.clone(), |it| it.display().to_string())
        };
        let mut names: Vec<String> = paths.into_iter().map(below).collect();
        names.sort();
        names
    }
}

fn search(reader: Option<&Reader>, query: &str) -> SearchRequest {
    SearchRequest {
        k: 50,
        rerank: RerankChoice::Off,
        reader: reader.cloned(),
        explain: true,
        ..SearchRequest::new(query)
    }
}

fn sorted(mut names: Vec<&str>) -> Vec<String> {
    names.sort_unstable();
    names.into_iter().map(str::to_owned).collect()
}

#[test]
fn everybody_finds_reads_and_counts_what_that_one_may_read_and_nothing_else() {
    let home = Home::new();
    let assistant = home.assistant();
    let all = assistant.search(&search(None, "zeppelin")).expect("found").hits;
    assert_eq!(all.len(), 8, "{all:?}");
    for (reader, expected) in readers() {
        let found = assistant.search(&search(Some(&reader), "zeppelin")).expect("found");
        let names = home.names(found.hits.iter().map(|it| it.path.clone()));
        assert_eq!(names, sorted(expected.clone()), "{reader:?}");
        let stages = found.stages.expect("explained");
        for list in [&stages.bm25, &stages.dense, &stages.sparse, &stages.fused] {
            assert!(list.iter().all(|id| found.hits.iter().any(|it| it.chunk == *id)), "{list:?}");
        }
        let audience = Audience { reader: Some(reader.clone()), outward: false };
        for hit in &all {
            let may = found.hits.iter().any(|it| it.chunk == hit.chunk);
            let read = assistant.read(hit.chunk, 5, 5, &audience).expect("readable");
            assert_eq!(read.is_some(), may, "{} by {reader:?}", hit.path);
            let claims = ["The zeppelin costs 640 euros.".to_owned()];
            let filter = Filter::default();
            let held =
                assistant.check_claims(&claims, &[hit.chunk], &filter, &audience, &mut || false);
            assert_eq!(held.is_ok(), may, "{} by {reader:?}", hit.path);
        }
        let claims = all.iter().map(|it| it.text.clone()).collect::<Vec<_>>();
        let (held, _) = assistant
            .check_claims(&claims, &[], &Filter::default(), &audience, &mut || false)
            .expect("checked");
        for claim in held {
            let known = found.hits.iter().any(|it| Some(it.chunk) == claim.chunk);
            assert!(claim.chunk.is_none() || known, "{claim:?} by {reader:?}");
        }
        let reach = assistant.reach(&audience, &|_, _| true).expect("counted").expect("somebody");
        assert_eq!(reach.passages, expected.len() as u64);
        assert_eq!(reach.states.get("indexed"), Some(&(expected.len() as u64)));
        let roots = assistant.roots_for(&audience, &|_, _| true).expect("named");
        assert_eq!(roots, [(home.root.clone(), false)], "a collection in memory is not named");
        let none = assistant.roots_for(&audience, &|_, kind| kind == FileKind::Pdf);
        assert!(none.expect("named").is_empty());
    }
    let own = Audience::default();
    assert!(assistant.reach(&own, &|_, _| true).expect("all").is_none());
    assert_eq!(assistant.roots_for(&own, &|_, _| true).expect("all").len(), 2);
}

#[test]
fn a_right_that_is_taken_away_holds_at_once_and_a_changed_file_is_nobodys() {
    let home = Home::new();
    let assistant = home.assistant();
    let stranger = reader("nobody-at-all", &[]);
    let audience = Audience { reader: Some(stranger.clone()), outward: false };
    let found = |query: &str| {
        let found = assistant.search(&search(Some(&stranger), query)).expect("found");
        home.names(found.hits.into_iter().map(|it| it.path))
    };
    assert!(found("zeppelin").contains(&"open.md".to_owned()));
    let open = assistant.search(&search(None, "zeppelin open")).expect("found").hits[0].chunk;
    let reads = || assistant.read(open, 0, 0, &audience).expect("readable").is_some();
    assert!(reads());
    mode(&home.root.join("open.md"), 0o600);
    assert!(!found("zeppelin").contains(&"open.md".to_owned()) && !reads());
    mode(&home.root.join("open.md"), 0o644);
    assert!(found("zeppelin").contains(&"open.md".to_owned()) && reads());
    mode(&home.root, 0o700);
    assert!(found("zeppelin").is_empty() && !reads());
    mode(&home.root, 0o755);
    // What was secret is not given because something harmless is written in its place.
    let own = home.root.join("own.md");
    fs::write(&own, "Nothing.").expect("written");
    mode(&own, 0o644);
    let fresh = home.assistant();
    let asked = search(Some(&stranger), "zeppelin own");
    let later = fresh.search(&asked).expect("found").hits;
    let later = home.names(later.into_iter().map(|it| it.path));
    assert!(!later.contains(&"own.md".to_owned()), "{later:?}");
    home.index();
    let read_again = home.assistant();
    let nothing = read_again.search(&search(Some(&stranger), "nothing")).expect("found").hits;
    assert_eq!(home.names(nothing.into_iter().map(|it| it.path)), ["own.md"]);
}

/// Quotes its first passage.
struct Stub;

impl Generator for Stub {
    fn name(&self) -> &str {
        "local:stub"
    }

    fn generate(
        &self,
        request: &GenerationRequest,
        sink: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Generation, StageError> {
        let text = format!("{} [1]", request.passages[0].text);
        let _ = sink(&text);
        Ok(Generation { text, ..Generation::default() })
    }
}

#[test]
fn an_answer_that_was_kept_for_one_is_not_told_to_another() {
    let home = Home::new();
    let assistant = home.assistant();
    let question = "What does the zeppelin of own.md cost?";
    let ask = |reader: Option<&Reader>, grade: ReuseGrade| {
        let request = AskRequest {
            search: search(reader, question),
            passages: 1,
            reuse: Reuse { grade: Some(grade), threshold: Some(0.0), keep: true },
            ..AskRequest::new(question)
        };
        let stub =
            Opened { generator: Box::new(Stub), leaves: false, identity: Some("stub".to_owned()) };
        let mut silent = |_: AskEvent<'_>| ControlFlow::Continue(());
        let llm = ("local:stub", Some(stub));
        answered_by(&assistant, &request, llm, &Asking::default(), &mut silent).expect("answered")
    };
    let first = ask(None, ReuseGrade::Same);
    assert!(first.cached.is_none() && first.answer.is_some(), "{first:?}");
    assert!(ask(None, ReuseGrade::Same).cached.is_some(), "it is there for the person");
    let kept = || {
        let records = Records::open(home.config()).expect("opens");
        records.kept_answers(99).expect("readable").len()
    };
    let before = kept();
    for (reader, files) in readers() {
        for grade in [ReuseGrade::Same, ReuseGrade::Checked, ReuseGrade::Instant] {
            let answer = ask(Some(&reader), grade);
            assert!(answer.cached.is_none(), "{answer:?}");
            let cited = home.names(answer.citations.iter().map(|it| it.path.clone()));
            assert!(cited.iter().all(|it| files.contains(&it.as_str())), "{cited:?}");
            let told = answer.answer.unwrap_or_default();
            assert_eq!(told.contains("own.md"), files.contains(&"own.md"), "{told}");
        }
    }
    assert_eq!(kept(), before, "nor is one kept of what others may read");
}
