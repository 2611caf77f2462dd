//! Whatever is wrong with a home is found, said as what it is, and put right.

use std::{
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
    time::{Duration, UNIX_EPOCH},
};

use riddle_catalog::{Catalog, FileOutcome, NewChunk};
use riddle_retrieval::{KeywordWriter, SparseWriter, VectorWriter};
use riddle_types::{Chunk, ChunkId, FileKind, FileState, Location, TermWeights, VectorTurn};
use riddle_watch::{ScanOptions, Stamp, scan};

use super::{derived, library::Library};
use crate::{
    contract::Problem,
    home::{Config, check},
};

const EMBEDDER: &str = "an-embedder/1";
const ENCODER: &str = "a-sparse-encoder/1";
const DIMENSIONS: usize = 4;

/// Files of the folder.
const FILES: u64 = 12;

/// A home with one folder, and all three indexes.
struct Home {
    dir: tempfile::TempDir,
    root: PathBuf,
    catalog: Catalog,
}

fn vector(n: usize) -> Vec<f32> {
    let mut vector = vec![0.0; DIMENSIONS];
    vector[n % DIMENSIONS] = 1.0;
    vector
}

impl Home {
    fn new() -> Home {
        let dir = tempfile::tempdir().expect("a folder");
        let root = dir.path().join("files");
        fs::create_dir(&root).expect("made");
        for n in 0..FILES {
            let text = format!("The winch of boat {n} takes {} metres of chain.", 10 + n);
            fs::write(root.join(format!("boat {n}.md")), text).expect("written");
        }
        let config = Config::new(dir.path().join("home"));
        drop(Library::open(config.clone()).expect("opens"));
        let catalog = Catalog::open(config.catalog()).expect("opens");
        catalog.register_embedder(EMBEDDER, DIMENSIONS).expect("registered");
        let home = Home { dir, root, catalog };
        home.read();
        let chunks = home.catalog.all_chunks().expect("chunks");
        home.catalog.use_term_encoder(Some(ENCODER)).expect("used");
        let weigh = |it: &ChunkId| (*it, TermWeights::of([(3, 9), (it.0 as u32 + 7, 80)]));
        let weights: Vec<_> = chunks.iter().map(weigh).collect();
        home.catalog.put_terms(ENCODER, &weights).expect("put");
        home.sync();
        home
    }

    fn config(&self) -> Config {
        Config { threads: 1, ..Config::new(self.dir.path().join("home")) }
    }

    /// What an update does, without a process that parses.
    fn read(&self) {
        let root = self.catalog.add_root(&self.root).expect("a root").id;
        let mut entries = Vec::new();
        scan(&self.root, &ScanOptions::default(), &mut |it| {
            entries.push(it);
            ControlFlow::Continue(())
        })
        .expect("scanned");
        self.catalog.apply_scan(root, &entries, true, &[]).expect("applied");
        let jobs = self.catalog.next_jobs(99).expect("jobs");
        for (n, job) in self.catalog.begin_jobs(jobs).expect("begun").into_iter().enumerate() {
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
                warnings: Vec::new(),
                tags: Vec::new(),
                size: stamp.size,
                modified_ns: stamp.modified_ns,
                volume_id: stamp.volume_id,
                chunks: vec![NewChunk { chunk, text_hash, vector: Some(vector(n)) }],
                pictures: Vec::new(),
            };
            self.catalog.commit_files(&[outcome], Some(EMBEDDER)).expect("committed");
        }
    }

    fn sync(&self) {
        derived::sync(&self.config(), &self.catalog).expect("synced");
    }

    fn problems(&self) -> Vec<Problem> {
        check(&self.config()).expect("checked").problems
    }

    /// What a repair does with these, without a process that parses.
    fn repair(&self, problems: &[Problem]) {
        derived::delete_damaged(&self.config(), problems).expect("deleted");
        self.sync();
        assert_eq!(self.problems(), []);
    }

    /// Files of an index, but for those that say of what it consists.
    fn files_of(&self, index: &str) -> Vec<PathBuf> {
        let (mut open, mut files) = (vec![self.config().home.join(index)], Vec::new());
        while let Some(next) = open.pop() {
            for entry in fs::read_dir(next).expect("readable").flatten() {
                let (path, bytes) = (entry.path(), entry.metadata().expect("there").len());
                let is_part = path.extension().is_some_and(|it| it != "json" && it != "lock");
                match path.is_dir() {
                    true => open.push(path),
                    false if is_part && bytes > 0 => files.push(path),
                    false => {}
                }
            }
        }
        files
    }
}

fn flip(file: &Path) {
    let mut bytes = fs::read(file).expect("read");
    bytes[0] ^= 1;
    fs::write(file, bytes).expect("written");
}

#[test]
fn an_index_that_is_gone_is_behind() {
    let home = Home::new();
    assert_eq!(home.problems(), []);
    for (index, problem) in [
        ("keyword", Problem::KeywordIndexBehind),
        ("vector", Problem::VectorIndexBehind),
        ("terms", Problem::TermIndexBehind),
    ] {
        fs::remove_dir_all(home.config().home.join(index)).expect("removed");
        assert_eq!(home.problems(), std::slice::from_ref(&problem));
        home.repair(&[problem]);
    }
}

#[test]
fn a_byte_of_any_file_of_any_index_is_noticed_and_the_index_is_made_anew() {
    let home = Home::new();
    for (index, least) in [("keyword", 6), ("vector", 2), ("terms", 6)] {
        let count = home.files_of(index).len();
        assert!(count >= least, "{index}: {count}");
        for nth in 0..count {
            let file = home.files_of(index).remove(nth);
            flip(&file);
            let problems = home.problems();
            let what = format!("{}: {problems:?}", file.display());
            let [problem] = problems.as_slice() else { panic!("{what}") };
            let name = file.file_name().and_then(|it| it.to_str()).expect("a name");
            let (of, why) = match problem {
                Problem::KeywordIndexDamaged { why } => ("keyword", why),
                Problem::VectorIndexDamaged { why } => ("vector", why),
                Problem::TermIndexDamaged { why } => ("terms", why),
                _ => panic!("{what}"),
            };
            assert!(of == index && why.contains(name), "{what}");
            home.repair(&problems);
        }
    }
}

/// A run that has something to write looks first at what it writes to.
#[test]
fn damage_is_not_written_over() {
    let home = Home::new();
    for index in ["keyword", "vector", "terms"] {
        flip(&home.files_of(index)[0]);
    }
    assert_eq!(home.problems().len(), 3);
    fs::write(home.root.join("new.md"), "The dinghy lies on the bank.").expect("written");
    home.read();
    let weights: Vec<_> = home.catalog.chunks_without_terms(9).expect("chunks");
    let weights: Vec<_> = weights.into_iter().map(|it| (it, TermWeights::of([(5, 5)]))).collect();
    home.catalog.put_terms(ENCODER, &weights).expect("put");
    home.sync();
    assert_eq!(home.problems(), []);
}

#[test]
fn an_index_with_too_much_in_it_differs() {
    let home = Home::new();
    let (config, last) = (home.config(), home.catalog.last_seq().expect("a number"));
    let (held, wanted) = (FILES + 1, FILES);
    let stranger = ChunkId(9_999);

    let mut writer = SparseWriter::open(config.sparse_index(ENCODER), ENCODER).expect("opens");
    writer.upsert(stranger, &TermWeights::of([(1, 1)])).expect("added");
    writer.commit(last).expect("committed");
    writer.close().expect("closed");
    let problems = [Problem::TermIndexDiffers { held, wanted }];
    assert_eq!(home.problems(), problems);
    home.repair(&problems);

    let dir = config.vector_index(EMBEDDER);
    let mut writer = VectorWriter::open(dir, EMBEDDER, DIMENSIONS).expect("opens");
    writer.insert(stranger, &vector(0)).expect("added");
    writer.commit(last).expect("committed");
    drop(writer);
    let problems = [Problem::VectorIndexDiffers { held, wanted }];
    assert_eq!(home.problems(), problems);
    home.repair(&problems);

    let mut writer = KeywordWriter::open(config.keyword_index()).expect("opens");
    let gone = home.catalog.all_chunks().expect("chunks")[0];
    writer.remove(gone);
    writer.commit(last).expect("committed");
    writer.close().expect("closed");
    let problems = [Problem::KeywordIndexDiffers { held: FILES - 1, wanted }];
    assert_eq!(home.problems(), problems);
    home.repair(&problems);
}

#[test]
fn what_the_next_run_would_read_is_counted() {
    let home = Home::new();
    let file = |n: u64| home.root.join(format!("boat {n}.md"));
    // Of the same size: only the time tells.
    let touched = fs::File::options().write(true).open(file(1)).expect("there");
    touched.set_modified(UNIX_EPOCH + Duration::from_secs(1_000_000_000)).expect("dated");
    fs::write(file(2), "Another text.").expect("written");
    fs::remove_file(file(3)).expect("removed");
    for name in ["one.md", "two.md", "three.md"] {
        fs::write(home.root.join(name), "The dinghy lies on the bank.").expect("written");
    }
    let expected = [
        Problem::FilesGone { files: 1 },
        Problem::FilesChanged { files: 2 },
        Problem::FilesUnread { files: 3 },
    ];
    let report = check(&home.config()).expect("checked");
    assert_eq!((report.files, report.passages), (FILES, FILES));
    assert_eq!(report.problems, expected);
    // A disk that is not here has lost nothing.
    fs::rename(&home.root, home.dir.path().join("away")).expect("moved");
    assert_eq!(home.problems(), []);
    fs::rename(home.dir.path().join("away"), &home.root).expect("moved back");
    // Made by the run that reads it.
    home.read();
    let weights: Vec<_> = home.catalog.chunks_without_terms(9).expect("chunks");
    let weights: Vec<_> = weights.into_iter().map(|it| (it, TermWeights::of([(5, 5)]))).collect();
    home.catalog.put_terms(ENCODER, &weights).expect("put");
    home.sync();
    assert_eq!(home.problems(), []);
}
