//! The catalog against a naive twin: random edits, renames and deletions, with crashes in between.

mod common;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use common::{
    Disk, begin, crash, entry, expected, follow, read, scan, seconds, seen, words, work, work_all,
};
use proptest::prelude::*;
use riddle_catalog::{Catalog, Embeds, RootId};
use riddle_types::FileEntry;

#[derive(Debug, Clone)]
enum Step {
    /// An editor that writes a new file and renames it over the old one.
    Write(usize, Vec<usize>),
    Delete(usize),
    Rename(usize, usize),
    /// Two files change places.
    Swap(usize, usize),
    Scan,
    /// Only one file is looked at, as after an event.
    ScanOne(usize),
    /// A folder could not be read to its end: nothing is known to be gone.
    ScanHalf,
    Work(usize),
    /// The commit of a batch fails at its last vector.
    Tear(usize),
    /// Begun and never finished; then the process is gone.
    Crash,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0usize..6, prop::collection::vec(0usize..8, 0..5))
            .prop_map(|(file, words)| Step::Write(file, words)),
        1 => (0usize..6).prop_map(Step::Delete),
        2 => (0usize..6, 0usize..6).prop_map(|(from, to)| Step::Rename(from, to)),
        1 => (0usize..6, 0usize..6).prop_map(|(one, other)| Step::Swap(one, other)),
        3 => Just(Step::Scan),
        1 => (0usize..6).prop_map(Step::ScanOne),
        1 => Just(Step::ScanHalf),
        3 => (1usize..4).prop_map(Step::Work),
        1 => (1usize..4).prop_map(Step::Tear),
        1 => Just(Step::Crash),
    ];
    prop::collection::vec(step, 1..40)
}

/// Every second file has another ending, so that some renames change the format.
fn name(file: usize) -> String {
    format!("f{file}.{}", if file.is_multiple_of(2) { "txt" } else { "md" })
}

fn entries(disk: &Disk, keep: impl Fn(&str) -> bool) -> Vec<FileEntry> {
    let kept = disk.iter().filter(|it| keep(it.0));
    kept.map(|(name, (text, inode))| entry(name, text, *inode)).collect()
}

struct World {
    home: tempfile::TempDir,
    catalog: Option<Catalog>,
    root: RootId,
    disk: Disk,
    inode: u64,
    seq: u64,
    held: BTreeMap<riddle_types::ChunkId, String>,
}

impl World {
    fn new() -> World {
        let home = tempfile::tempdir().expect("temp dir");
        let catalog = Catalog::open(&home.path().join("catalog.sqlite")).expect("open");
        let root = catalog.add_root(Path::new("/r")).expect("root").id;
        let (disk, held) = (Disk::new(), BTreeMap::new());
        World { home, catalog: Some(catalog), root, disk, inode: 0, seq: 0, held }
    }

    fn catalog(&self) -> &Catalog {
        self.catalog.as_ref().expect("open")
    }

    fn reopen(&mut self) {
        self.catalog = None;
        let path = self.home.path().join("catalog.sqlite");
        self.catalog = Some(Catalog::open(&path).expect("reopen"));
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Write(file, words) => {
                self.inode += 1;
                let text: Vec<String> = words.iter().map(|it| format!("word{it}")).collect();
                self.disk.insert(name(file), (text.join(" "), self.inode));
            }
            Step::Delete(file) => {
                self.disk.remove(&name(file));
            }
            Step::Rename(from, to) => {
                if let Some(file) = self.disk.remove(&name(from)) {
                    self.disk.insert(name(to), file);
                }
            }
            Step::Swap(one, other) => {
                let (a, b) = (self.disk.remove(&name(one)), self.disk.remove(&name(other)));
                self.disk.extend(a.map(|it| (name(other), it)));
                self.disk.extend(b.map(|it| (name(one), it)));
            }
            Step::Scan => {
                scan(self.catalog(), self.root, &self.disk);
            }
            Step::ScanOne(file) => {
                let part = [PathBuf::from(name(file))];
                let there = entries(&self.disk, |it| it == name(file));
                self.catalog().apply_paths(self.root, &part, &there, true, &[]).expect("scan");
            }
            Step::ScanHalf => {
                let half = entries(&self.disk, |it| it < "f3");
                let delta = self.catalog().apply_scan(self.root, &half, false, &[]).expect("scan");
                // A file goes without a complete scan only where another took its place.
                assert!(delta.removed <= delta.moved);
            }
            Step::Work(limit) => {
                work(self.catalog(), &self.disk, limit);
                self.follow();
            }
            Step::Tear(limit) => self.tear(limit),
            Step::Crash => {
                begin(self.catalog(), 1);
                crash(self.catalog.take().expect("open"));
                self.reopen();
            }
        }
    }

    fn tear(&mut self, limit: usize) {
        let catalog = self.catalog();
        catalog.register_embedder("e", 2).expect("embedder");
        let (mut outcomes, _) = read(&begin(catalog, limit), &self.disk);
        let before = (words(catalog), catalog.last_seq().expect("seq"));
        let last = outcomes.last_mut().and_then(|it| it.chunks.last_mut());
        if let Some(chunk) = last {
            chunk.vector = Some(vec![0.0; 3]);
            catalog.commit_files(&outcomes, Some("e")).expect_err("a vector of the wrong length");
        }
        assert_eq!((words(catalog), catalog.last_seq().expect("seq")), before, "all or nothing");
        self.reopen();
    }

    fn follow(&mut self) {
        let catalog = self.catalog.as_ref().expect("open");
        self.seq = follow(catalog, self.seq, &mut self.held);
    }

    fn settle(&mut self) {
        self.catalog().retry_failed().expect("retry");
        scan(self.catalog(), self.root, &self.disk);
        work_all(self.catalog(), &self.disk);
        // What was given up on the way, because the program crashed there before, is tried once more.
        self.catalog().retry_failed().expect("retry");
        work_all(self.catalog(), &self.disk);
        self.follow();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn ends_up_with_what_is_on_disk_whatever_happened(steps in steps()) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
        }
        world.settle();
        let (catalog, disk) = (world.catalog(), &world.disk);
        prop_assert_eq!(words(catalog), expected(disk));
        prop_assert_eq!(catalog.count_without_vector("e", Embeds::Here).expect("count"), 0);
        let mut indexed: Vec<String> = world.held.values().cloned().collect();
        indexed.sort();
        let mut wanted: Vec<String> = disk
            .iter()
            .flat_map(|(name, (text, _))| {
                let path = Path::new("/r").join(name);
                text.split_whitespace().map(move |word| seen(&path, word, seconds(text)))
            })
            .collect();
        wanted.sort();
        prop_assert_eq!(indexed, wanted, "an index that followed the log");
        // An empty file is committed as indexed here, which a real reader would not do.
        let problems = catalog.check().expect("check");
        prop_assert!(problems.iter().all(|it| it.what.contains("hold no text")), "{problems:?}");
        let before = catalog.writes();
        let delta = scan(catalog, world.root, disk);
        prop_assert_eq!(delta.unchanged, disk.len() as u64);
        prop_assert_eq!(catalog.writes(), before, "nothing changed, nothing written");
    }
}
