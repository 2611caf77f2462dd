//! What the catalog promises, one promise a test.

mod common;

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use common::{
    Disk, begin, crash, entry, expected, follow, hash, open, outcome, read, scan, words, work,
    work_all,
};
use riddle_catalog::{Catalog, Derived, Embeds, Error, FileOutcome, MAX_ATTEMPTS};
use riddle_types::{ChunkId, FileKind, FileState, Filter, ScanVerdict};

#[test]
fn a_moved_file_keeps_its_chunks_and_vectors() {
    let (_home, catalog, root) = open();
    let mut disk = Disk::from([("old".to_owned(), ("alpha beta".to_owned(), 7))]);
    scan(&catalog, root, &disk);
    work(&catalog, &disk, 9);
    let before = catalog.all_chunks().expect("ids");
    let seq = catalog.last_seq().expect("seq");
    let file = disk.remove("old").expect("there");
    disk.insert("new".to_owned(), file);
    let delta = scan(&catalog, root, &disk);
    assert_eq!((delta.moved, delta.new, delta.removed), (1, 0, 0));
    assert_eq!(catalog.all_chunks().expect("ids"), before);
    assert_eq!(catalog.pending_jobs().expect("jobs"), 0);
    assert_eq!(catalog.chunk_records(&before).expect("records")[0].path, Path::new("/r/new"));
    assert_eq!(
        catalog.changes_since(seq, 9).expect("log").len(),
        2,
        "the keyword index learns the new path"
    );
}

#[test]
fn a_file_that_is_only_spelled_otherwise_is_followed_where_files_have_no_numbers() {
    let (_home, catalog, root) = open();
    let see = |name: &str, text: &str| riddle_types::FileEntry {
        volume_id: None,
        ..entry(name, text, 0)
    };
    let counts = |all: &[riddle_types::FileEntry]| {
        let delta = catalog.apply_scan(root, all, true, &[]).expect("scanned");
        (delta.moved, delta.new, delta.removed)
    };
    let other = || see("b.txt", "beta");
    assert_eq!(counts(&[see("Boats/Gru\u{308}n.txt", "alpha"), other()]), (0, 2, 0));
    assert_eq!(counts(&[see("boats/GR\u{dc}N.TXT", "alpha"), other()]), (1, 0, 0));
    assert!(catalog.paths(root).expect("paths").contains(Path::new("boats/GR\u{dc}N.TXT")));
    // One that was written anew, too, is another.
    assert_eq!(counts(&[see("boats/gr\u{fc}n.txt", "alphas"), other()]), (0, 1, 1));
    // Where letters are told apart, both are there.
    assert_eq!(counts(&[see("b.txt", "beta"), see("B.txt", "beta")]), (0, 1, 1));
}

#[test]
fn unchanged_chunks_keep_their_identity_when_a_file_is_edited() {
    let (_home, catalog, root) = open();
    let mut disk = Disk::from([("f".to_owned(), ("alpha beta gamma".to_owned(), 1))]);
    scan(&catalog, root, &disk);
    work(&catalog, &disk, 9);
    let before = catalog.all_chunks().expect("ids");
    disk.insert("f".to_owned(), ("intro alpha gamma".to_owned(), 2));
    scan(&catalog, root, &disk);
    assert_eq!(words(&catalog).len(), 3, "the old text answers until the new one is read");
    work(&catalog, &disk, 9);
    let after = catalog.all_chunks().expect("ids");
    assert!(
        after.contains(&before[0]) && after.contains(&before[2]) && !after.contains(&before[1])
    );
    let reused = catalog.vectors_by_text("e", &[hash("gamma"), hash("absent")]).expect("vectors");
    assert_eq!(reused, [(hash("gamma"), vec![5.0, 1.0])].into());
}

#[test]
fn what_could_not_be_looked_at_is_not_gone() {
    let (_home, catalog, root) = open();
    let disk = Disk::from([
        ("a/x".to_owned(), ("alpha".to_owned(), 1)),
        ("ab/y".to_owned(), ("beta".to_owned(), 2)),
    ]);
    scan(&catalog, root, &disk);
    work(&catalog, &disk, 9);
    let delta = catalog.apply_scan(root, &[], false, &[]).expect("incomplete");
    assert_eq!(delta.removed, 0);
    let delta = catalog.apply_scan(root, &[], true, &["a".into()]).expect("folder a is unreadable");
    assert_eq!(delta.removed, 1);
    assert_eq!(words(&catalog), [(PathBuf::from("/r/a/x"), "alpha".to_owned())]);
}

#[test]
fn a_comparison_counts_what_the_next_run_would_read_and_writes_nothing() {
    let (_home, catalog, root) = open();
    let names = ["same", "edited", "touched", "gone", "renamed"];
    let disk: Disk = (1..)
        .zip(names)
        .map(|(inode, name)| (name.to_owned(), (format!("alpha {name}"), inode)))
        .collect();
    scan(&catalog, root, &disk);
    let seen = |disk: &Disk| -> Vec<_> {
        disk.iter().map(|(name, (text, inode))| entry(name, text, *inode)).collect()
    };
    let compare = |entries: &[_], complete| {
        let before = catalog.writes();
        let found = catalog.compare_scan(root, entries, complete, &[]).expect("compared");
        assert_eq!(catalog.writes(), before);
        (found.unread, found.changed, found.gone)
    };
    assert_eq!(compare(&seen(&disk), true), (5, 0, 0), "all wait to be read");
    work(&catalog, &disk, 9);
    assert_eq!(compare(&seen(&disk), true), (0, 0, 0));

    let mut later = seen(&disk);
    later.retain(|it| it.relative_path != Path::new("gone"));
    for it in &mut later {
        match it.relative_path.to_str() {
            Some("edited") => it.size += 1,
            // Of the same size: only its time tells.
            Some("touched") => it.modified_ns += 1,
            Some("renamed") => it.relative_path = "elsewhere".into(),
            _ => {}
        }
    }
    later.push(entry("new", "beta", 9));
    let mut excluded = entry("new.o", "beta", 10);
    excluded.verdict = ScanVerdict::Skip(FileState::Excluded, ".riddleignore".to_owned());
    later.push(excluded);
    assert_eq!(compare(&later, true), (1, 2, 2), "new; edited, touched; gone, renamed");
    let of_those = |names: &[&str]| -> Vec<_> {
        let is_one = |it: &&_| names.iter().any(|name| path_of(it) == Path::new(name));
        later.iter().filter(is_one).cloned().collect()
    };
    assert_eq!(compare(&of_those(&["same"]), false), (0, 0, 0), "what was not seen is not gone");

    // What is applied and not read yet waits, whether it is new or changed.
    catalog.apply_scan(root, &later, true, &[]).expect("applied");
    assert_eq!(compare(&later, true), (3, 0, 0));
    assert_eq!(compare(&of_those(&["same", "elsewhere", "new.o"]), true), (0, 0, 3));
}

fn path_of(entry: &riddle_types::FileEntry) -> &Path {
    &entry.relative_path
}

#[test]
fn a_file_that_may_no_longer_be_read_no_longer_answers() {
    let (_home, catalog, root) = open();
    let disk = Disk::from([("f".to_owned(), ("alpha".to_owned(), 1))]);
    scan(&catalog, root, &disk);
    work(&catalog, &disk, 9);
    let mut excluded = entry("f", "alpha", 1);
    excluded.verdict = ScanVerdict::Skip(FileState::Excluded, ".riddleignore".to_owned());
    catalog.apply_scan(root, &[excluded.clone()], true, &[]).expect("scan");
    assert!(words(&catalog).is_empty());
    let before = catalog.writes();
    catalog.apply_scan(root, &[excluded], true, &[]).expect("scan");
    assert_eq!(catalog.writes(), before);
    // The rule is taken back: the file is read again.
    scan(&catalog, root, &disk);
    assert_eq!(catalog.pending_jobs().expect("jobs"), 1);
}

#[test]
fn a_file_that_ends_the_process_is_given_up_and_takes_no_other_with_it() {
    let (home, mut catalog, root) = open();
    let disk = Disk::from([
        ("bomb".to_owned(), ("x".to_owned(), 1)),
        ("good".to_owned(), ("alpha".to_owned(), 2)),
        ("fine".to_owned(), ("beta".to_owned(), 3)),
    ]);
    scan(&catalog, root, &disk);
    catalog.register_embedder("e", 2).expect("embedder");
    // Whatever is begun together with the bomb is never committed.
    for _ in 0..=2 * MAX_ATTEMPTS * disk.len() as u32 {
        let jobs = begin(&catalog, 9);
        if jobs.iter().all(|it| it.path != Path::new("/r/bomb")) {
            catalog.commit_files(&read(&jobs, &disk).0, Some("e")).expect("commit");
            continue;
        }
        crash(catalog);
        catalog = Catalog::open(&home.path().join("catalog.sqlite")).expect("reopen");
    }
    assert_eq!(
        catalog.counts_by_state().expect("counts"),
        [(FileState::Indexed, 2), (FileState::Failed, 1)]
    );
    assert!(
        catalog.files(Some(FileState::Failed), 9, 0).expect("ledger")[0].reason.contains("8 times")
    );
    assert_eq!(catalog.retry_failed().expect("retry"), 1);
    assert_eq!(catalog.next_jobs(9).expect("jobs")[0].attempts, 0);
}

#[test]
fn a_run_that_ends_in_an_error_blames_no_file() {
    let (home, mut catalog, root) = open();
    let disk = Disk::from([("f".to_owned(), ("alpha".to_owned(), 1))]);
    scan(&catalog, root, &disk);
    for _ in 0..2 * MAX_ATTEMPTS {
        // Twice in one process that keeps running, then it ends in good order without having committed.
        assert_eq!(begin(&catalog, 9).len(), 1);
        assert_eq!(begin(&catalog, 9).len(), 1);
        assert_eq!(catalog.next_jobs(9).expect("jobs")[0].attempts, 1);
        drop(catalog);
        catalog = Catalog::open(&home.path().join("catalog.sqlite")).expect("reopen");
        assert_eq!(catalog.next_jobs(9).expect("jobs")[0].attempts, 0);
    }
    work_all(&catalog, &disk);
    assert_eq!(words(&catalog), expected(&disk));
}

#[test]
fn a_suspect_is_never_read_together_with_new_files() {
    let (_home, catalog, root) = open();
    let mut disk = Disk::from([
        ("bomb".to_owned(), ("x".to_owned(), 1)),
        ("near".to_owned(), ("alpha".to_owned(), 2)),
    ]);
    scan(&catalog, root, &disk);
    assert_eq!(begin(&catalog, 9).len(), 2);
    disk.insert("new".to_owned(), ("beta".to_owned(), 3));
    scan(&catalog, root, &disk);
    let names = |limit| -> Vec<PathBuf> {
        catalog.next_jobs(limit).expect("jobs").into_iter().map(|it| it.relative_path).collect()
    };
    assert_eq!(names(9), [PathBuf::from("new")]);
    work(&catalog, &disk, 9);
    assert_eq!(names(9).len(), 1, "one of the two");
}

#[test]
fn a_stopped_run_counts_no_attempt_and_a_pipeline_gets_no_file_twice() {
    let (_home, catalog, root) = open();
    let disk: Disk = (0..5).map(|it| (format!("f{it}"), (format!("word{it}"), it))).collect();
    scan(&catalog, root, &disk);
    let first = begin(&catalog, 2);
    let busy: HashSet<_> = first.iter().map(|it| it.file).collect();
    let second = catalog.next_jobs_besides(9, &busy).expect("jobs");
    assert_eq!(second.len(), 3);
    assert!(second.iter().all(|it| !busy.contains(&it.file)));
    catalog.return_jobs(&busy.into_iter().collect::<Vec<_>>()).expect("return");
    let jobs = catalog.next_jobs(9).expect("jobs");
    assert_eq!((jobs.len(), jobs.iter().map(|it| it.attempts).sum::<u32>()), (5, 0));
    let times: Vec<i64> = jobs.iter().map(|it| it.modified_ns).collect();
    assert!(times.is_sorted_by(|a, b| a >= b), "latest first: {times:?}");
}

#[test]
fn a_file_that_changes_while_it_is_read_is_read_again() {
    let (_home, catalog, root) = open();
    let mut disk = Disk::from([("f".to_owned(), ("old text".to_owned(), 1))]);
    scan(&catalog, root, &disk);
    catalog.register_embedder("e", 2).expect("embedder");
    let (outcomes, _) = read(&begin(&catalog, 9), &disk);
    disk.insert("f".to_owned(), ("new words".to_owned(), 1));
    scan(&catalog, root, &disk);
    catalog.commit_files(&outcomes, Some("e")).expect("commit");
    assert_eq!(words(&catalog)[0].1, "old", "what was read answers for the time being");
    assert_eq!(catalog.counts_by_state().expect("counts"), [(FileState::Pending, 1)]);
    work_all(&catalog, &disk);
    assert_eq!(words(&catalog), expected(&disk));
    assert_eq!(scan(&catalog, root, &disk).unchanged, 1);
}

#[test]
fn a_file_that_moves_while_it_is_read_is_not_taken_for_gone() {
    let (_home, catalog, root) = open();
    let mut disk = Disk::from([("old".to_owned(), ("alpha".to_owned(), 1))]);
    scan(&catalog, root, &disk);
    let jobs = begin(&catalog, 9);
    let file = disk.remove("old").expect("there");
    disk.insert("new".to_owned(), file);
    scan(&catalog, root, &disk);
    let (_, gone) = read(&jobs, &disk);
    assert_eq!(gone.len(), 1, "not at the old path");
    catalog.remove_files(&gone).expect("remove");
    work_all(&catalog, &disk);
    assert_eq!(words(&catalog), expected(&disk));
}

#[test]
fn filters_compare_path_components_kinds_and_times() {
    let (_home, catalog, root) = open();
    let disk = Disk::from([
        ("b/x".to_owned(), ("alpha".to_owned(), 1)),
        ("bc/y".to_owned(), ("beta".to_owned(), 2)),
    ]);
    scan(&catalog, root, &disk);
    work(&catalog, &disk, 9);
    let count = |filter: Filter| catalog.chunks_matching(&filter, None).expect("filter").len();
    assert_eq!(count(Filter::default()), 2);
    assert_eq!(count(Filter { folders: vec!["/r/b".to_owned()], ..Filter::default() }), 1);
    assert_eq!(count(Filter { except: vec!["/r/b".to_owned()], ..Filter::default() }), 1);
    assert_eq!(count(Filter { except: vec!["/r".to_owned()], ..Filter::default() }), 0);
    assert_eq!(count(Filter { kinds: vec![FileKind::Pdf], ..Filter::default() }), 0);
    let beta = common::seconds("beta");
    assert!(common::seconds("alpha") > beta);
    assert_eq!(count(Filter { modified_from: Some(beta + 1), ..Filter::default() }), 1);
    assert_eq!(count(Filter { modified_until: Some(beta + 1), ..Filter::default() }), 1);
    assert_eq!(count(Filter { modified_until: Some(beta), ..Filter::default() }), 0);
    assert_eq!(count(Filter { tags: vec!["boat".to_owned()], ..Filter::default() }), 0);
    let places = catalog.places().expect("places");
    let at = |path: &str| places.iter().find(|it| it.path.ends_with(path)).expect("seen").clone();
    let x = at("b/x");
    assert_eq!((x.root.as_path(), x.is_virtual, x.chunks), (std::path::Path::new("/r"), false, 1));
    assert_eq!(catalog.place_of(x.id).expect("readable"), Some(x.clone()));
    let within = |filter: Filter, files: &[&str]| {
        let files = files.iter().map(|it| at(it).id).collect();
        catalog.chunks_matching(&filter, Some(&files)).expect("filter").len()
    };
    let below_b = || Filter { folders: vec!["/r/b".to_owned()], ..Filter::default() };
    assert_eq!((within(below_b(), &["b/x", "bc/y"]), within(below_b(), &["bc/y"])), (1, 0));
    assert_eq!((within(Filter::default(), &["bc/y"]), within(Filter::default(), &[])), (1, 0));
}

#[test]
fn the_embedder_switches_when_every_chunk_has_a_vector() {
    let (_home, catalog, root) = open();
    let disk = Disk::from([("f".to_owned(), ("alpha beta".to_owned(), 1))]);
    scan(&catalog, root, &disk);
    work(&catalog, &disk, 9);
    catalog.register_embedder("new", 1).expect("register");
    assert!(matches!(
        catalog.switch_embedder("new", Embeds::Here),
        Err(Error::Incomplete { missing: 2, .. })
    ));
    assert_eq!(catalog.active_embedder().expect("active").expect("one").id, "e");
    let missing = catalog.chunks_without_vector("new", Embeds::Here, 9).expect("missing");
    assert_eq!(
        catalog.chunks_without_vector("new", Embeds::Here, 1).expect("missing"),
        missing[..1]
    );
    let vectors: Vec<_> = missing.iter().map(|it| (*it, vec![0.5])).collect();
    catalog.put_vectors("new", &vectors).expect("put");
    catalog.switch_embedder("new", Embeds::Here).expect("complete");
    assert_eq!(catalog.active_embedder().expect("active").expect("one").id, "new");
    assert!(catalog.vectors_of("e", &missing).expect("old").is_empty());
    let mut seen = Vec::new();
    catalog
        .for_each_vector("new", |chunk, vector| {
            seen.push((chunk, vector.to_vec()));
            Ok::<(), Error>(())
        })
        .expect("read");
    assert_eq!(seen, vectors);
}

#[test]
fn vectors_come_in_the_order_of_use_and_never_for_numbers() {
    use riddle_types::VectorTurn::{Early, Late, Never};
    let (_home, catalog, root) = open();
    // A text's length of bytes is when it was changed: the longer the later.
    let long = (0..70).map(|it| format!("w{it}")).collect::<Vec<_>>().join(" ");
    let disk = Disk::from([
        ("a".to_owned(), ("old".to_owned(), 1)),
        ("b".to_owned(), (long, 2)),
        ("c".to_owned(), ("table numbers newest".to_owned(), 3)),
    ]);
    scan(&catalog, root, &disk);
    let jobs = catalog.begin_jobs(catalog.next_jobs(9).expect("jobs")).expect("begun");
    let outcomes: Vec<_> = jobs
        .iter()
        .map(|job| {
            let name = job.relative_path.to_string_lossy().into_owned();
            let text = &disk[&name].0;
            let entry = common::entry(&name, text, disk[&name].1);
            let mut outcome = common::outcome(job, &entry, text);
            for chunk in &mut outcome.chunks {
                chunk.vector = None;
                chunk.chunk.turn = match chunk.chunk.text.as_str() {
                    "table" => Late,
                    "numbers" => Never,
                    _ => Early,
                };
            }
            outcome
        })
        .collect();
    catalog.commit_files(&outcomes, None).expect("commit");
    catalog.register_embedder("e", 2).expect("register");
    let order = catalog.chunks_without_vector("e", Embeds::Here, 100).expect("missing");
    let texts: Vec<String> =
        catalog.chunk_records(&order).expect("records").into_iter().map(|it| it.text).collect();
    let place = |text: &str| texts.iter().position(|it| it == text);
    assert_eq!(place("numbers"), None, "{texts:?}");
    assert_eq!(place("table"), Some(texts.len() - 1), "rows wait for all prose: {texts:?}");
    assert!(place("old") < place("w64") && place("w0") < place("w64"), "{texts:?}");
    assert_eq!(catalog.count_without_vector("e", Embeds::Here).expect("count"), texts.len() as u64);
    assert_eq!(catalog.count_by_words_alone().expect("count"), 1);
    assert_eq!(catalog.count_late_without_vector("e").expect("count"), 1, "one row of a table");
    // Those that somebody looked for: all but numbers, and what is not there.
    let mut asked = catalog.all_chunks().expect("ids");
    asked.push(ChunkId(u64::MAX >> 1));
    let waiting = catalog.without_vector_among("e", Embeds::Here, &asked).expect("asked");
    assert_eq!(waiting.len(), texts.len());
    // Getting a vector is nothing to an index of words.
    let before = catalog.last_seq().expect("seq");
    catalog.put_vectors("e", &[(order[0], vec![0.5, 0.5])]).expect("put");
    let changes = catalog.changes_since(before, 9).expect("changes");
    assert_eq!(changes.len(), 1);
    assert_eq!((changes[0].only, changes[0].removed), (Some(Derived::Vector), false));
    assert!(
        catalog.without_vector_among("e", Embeds::Here, &order[..1]).expect("asked").is_empty()
    );
    let last = order[order.len() - 1];
    catalog.put_vectors("e", &[(last, vec![0.5, 0.5])]).expect("put");
    assert_eq!(catalog.count_late_without_vector("e").expect("count"), 0);
    // A text that becomes numbers loses its vector.
    let mut again = outcomes.clone();
    for chunk in again.iter_mut().flat_map(|it| &mut it.chunks) {
        chunk.chunk.turn = Never;
    }
    catalog.commit_files(&again, None).expect("commit");
    assert_eq!(catalog.count_without_vector("e", Embeds::Here).expect("count"), 0);
    assert!(catalog.vectors_of("e", &order).expect("vectors").is_empty());
}

#[test]
fn weights_of_terms_go_with_their_chunk_and_with_their_encoder() {
    use riddle_types::TermWeights;
    let (_home, catalog, root) = open();
    let mut disk = Disk::from([
        ("a".to_owned(), ("alpha beta".to_owned(), 1)),
        ("b".to_owned(), ("alpha".to_owned(), 2)),
    ]);
    scan(&catalog, root, &disk);
    work_all(&catalog, &disk);
    catalog.use_term_encoder(Some("one")).expect("used");
    let waiting = catalog.chunks_without_terms(9).expect("waiting");
    assert_eq!(waiting.len() as u64, catalog.count_without_terms().expect("count"));
    let weights = TermWeights::of([(7, 9), (300, 1)]);
    let before = catalog.last_seq().expect("seq");
    catalog.put_terms("one", &[(waiting[0], weights.clone())]).expect("put");
    let changes = catalog.changes_since(before, 9).expect("changes");
    assert_eq!(changes.iter().map(|it| it.only).collect::<Vec<_>>(), [Some(Derived::Terms)]);
    assert_eq!(catalog.count_without_terms().expect("count") as usize, waiting.len() - 1);
    assert_eq!(catalog.terms_of(&waiting).expect("terms"), [(waiting[0], weights.clone())]);
    let record = &catalog.chunk_records(&waiting[..1]).expect("record")[0];
    let hash = catalog.terms_by_text(&[[0; 32]]).expect("read");
    assert!(hash.is_empty(), "{record:?}");
    let other = catalog.put_terms("two", &[(waiting[0], weights)]);
    assert!(matches!(other, Err(Error::UnknownEmbedder { .. })), "{other:?}");
    // The same one again changes nothing; another one's are not compared with.
    catalog.use_term_encoder(Some("one")).expect("used");
    assert_eq!(catalog.terms_of(&waiting).expect("terms").len(), 1);
    disk.clear();
    scan(&catalog, root, &disk);
    assert!(catalog.terms_of(&waiting).expect("terms").is_empty());
    catalog.use_term_encoder(None).expect("used");
    assert_eq!(catalog.term_encoder().expect("read"), None);
}

#[test]
fn the_log_can_be_trimmed_and_tells_who_is_too_late() {
    let (_home, catalog, root) = open();
    assert!(catalog.can_follow(0).expect("empty"));
    let disk = Disk::from([("f".to_owned(), ("alpha beta".to_owned(), 1))]);
    scan(&catalog, root, &disk);
    work(&catalog, &disk, 9);
    let last = catalog.last_seq().expect("seq");
    assert!(
        catalog.can_follow(0).expect("whole log")
            && !catalog.can_follow(last + 1).expect("from the future")
    );
    catalog.trim_changes(last).expect("trim");
    assert_eq!(catalog.last_seq().expect("seq"), last);
    assert!(
        catalog.can_follow(last).expect("up to date") && !catalog.can_follow(0).expect("too late")
    );
}

#[test]
fn names_that_are_not_utf8_survive() {
    use std::os::unix::ffi::OsStrExt as _;

    let (_home, catalog, root) = open();
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9.txt");
    let mut odd = entry("x", "alpha", 1);
    odd.relative_path = name.into();
    catalog.apply_scan(root, &[odd], true, &[]).expect("scan");
    assert_eq!(catalog.next_jobs(9).expect("jobs")[0].path, Path::new("/r").join(name));
}

#[test]
fn a_root_inside_another_is_refused_and_one_around_it_takes_it_in() {
    let (_home, catalog, root) = open();
    assert_eq!(catalog.add_root(Path::new("/r/")).expect("again").id, root);
    assert!(matches!(catalog.add_root(Path::new("/r/sub")), Err(Error::NestedRoot { .. })));
    assert!(matches!(catalog.add_root(Path::new("r")), Err(Error::RelativeRoot { .. })));
    catalog.add_root(Path::new("/rr")).expect("a sibling by name only");
    let disk = Disk::from([("a/f".to_owned(), ("alpha beta".to_owned(), 1))]);
    scan(&catalog, root, &disk);
    work_all(&catalog, &disk);
    let before =
        (words(&catalog), catalog.all_chunks().expect("ids"), catalog.last_seq().expect("seq"));
    let outer = catalog.add_root(Path::new("/")).expect("around both");
    assert_eq!(catalog.roots().expect("roots"), std::slice::from_ref(&outer));
    assert_eq!(
        (words(&catalog), catalog.all_chunks().expect("ids"), catalog.last_seq().expect("seq")),
        before
    );
    let disk: Disk = disk.into_iter().map(|(name, file)| (format!("r/{name}"), file)).collect();
    assert_eq!(scan(&catalog, outer.id, &disk).unchanged, 1);
}

#[test]
fn a_removed_root_is_forgotten_and_the_log_says_so() {
    let (_home, catalog, root) = open();
    let disk = Disk::from([("f".to_owned(), ("alpha beta".to_owned(), 1))]);
    scan(&catalog, root, &disk);
    work_all(&catalog, &disk);
    let mut held = Default::default();
    let seq = follow(&catalog, 0, &mut held);
    assert_eq!(held.len(), 2);
    catalog.remove_root(root).expect("remove");
    follow(&catalog, seq, &mut held);
    assert!(held.is_empty() && words(&catalog).is_empty());
    assert!(catalog.roots().expect("roots").is_empty());
    let error = catalog.apply_scan(root, &[], true, &[]).expect_err("gone");
    assert!(matches!(error, Error::UnknownRoot { .. }));
}

#[test]
fn a_removal_that_was_cut_off_hides_the_root_and_is_finished_later() {
    let (home, catalog, root) = open();
    let disk = Disk::from([
        ("f".to_owned(), ("alpha beta".to_owned(), 1)),
        ("g".to_owned(), ("gamma".to_owned(), 2)),
    ]);
    scan(&catalog, root, &disk);
    work_all(&catalog, &disk);
    let mut held = Default::default();
    let seq = follow(&catalog, 0, &mut held);
    catalog.begin_removing(root).expect("begun");
    crash(catalog);

    let catalog = Catalog::open(&home.path().join("catalog.sqlite")).expect("reopen");
    assert!(catalog.chunk_count().expect("count") > 0, "else there is nothing to finish");
    assert!(catalog.roots().expect("roots").is_empty());
    assert!(words(&catalog).is_empty() && catalog.all_chunks().expect("ids").is_empty());
    follow(&catalog, seq, &mut held);
    assert!(held.is_empty(), "an index follows at once");
    // The same folder again, before the old one is gone, and removed again.
    let again = catalog.add_root(Path::new("/r")).expect("added").id;
    assert_ne!(again, root);
    scan(&catalog, again, &disk);
    catalog.begin_removing(again).expect("begun again");
    catalog.finish_removing().expect("finished");
    catalog.finish_removing().expect("nothing left");
    assert_eq!(catalog.chunk_count().expect("count"), 0);
    assert!(catalog.places().expect("files").is_empty());
    assert_eq!(catalog.check().expect("check"), []);
}

#[test]
fn a_setting_that_decides_how_files_are_read_takes_out_what_was_read() {
    let (_home, catalog, root) = open();
    let disk = Disk::from([
        ("History".to_owned(), ("alpha beta".to_owned(), 1)),
        ("g".to_owned(), ("gamma".to_owned(), 2)),
    ]);
    scan(&catalog, root, &disk);
    work_all(&catalog, &disk);
    let mut held = Default::default();
    let seq = follow(&catalog, 0, &mut held);
    let all = catalog.files_named(None, "", 9, 0).expect("files");
    let history = all.iter().find(|it| it.path.ends_with("History")).expect("there").id;
    let others = catalog.add_virtual_root("corpus").expect("corpus");
    let document = catalog.virtual_file(others.id, "History").expect("document");

    catalog.read_anew(&[history, document], "browsing", Some("1")).expect("changed");
    assert_eq!(catalog.setting("browsing").expect("setting").as_deref(), Some("1"));
    assert_eq!(words(&catalog), [("/r/g".into(), "gamma".to_owned())], "before anything is read");
    follow(&catalog, seq, &mut held);
    assert_eq!(held.len(), 1, "an index follows");
    assert_eq!(catalog.pending_jobs().expect("jobs"), 1, "no document is queued");
    assert_eq!(catalog.check().expect("check"), []);
    // While it is read it is taken out once more: what the reading gives does not stay.
    let jobs = begin(&catalog, 9);
    let (outcomes, _) = read(&jobs, &disk);
    catalog.read_anew(&[history], "browsing", None).expect("changed");
    assert_eq!(catalog.setting("browsing").expect("setting"), None);
    catalog.commit_files(&outcomes, None).expect("commit");
    assert_eq!(catalog.pending_jobs().expect("jobs"), 1, "it is judged again");
    assert_eq!(catalog.files_of_kind(FileKind::Text).expect("files").len(), 2);
    assert_eq!(catalog.files_of_kind(FileKind::History).expect("files"), []);
}

#[test]
fn documents_from_memory_are_never_scanned_or_queued() {
    let (_home, catalog, _root) = open();
    // A folder may have the same name.
    let corpus = catalog.add_virtual_root("/r").expect("corpus");
    assert_eq!(catalog.add_virtual_root("/r").expect("again"), corpus);
    let file = catalog.virtual_file(corpus.id, "doc 1").expect("document");
    assert_eq!(catalog.virtual_file(corpus.id, "doc 1").expect("again"), file);
    assert_eq!(catalog.pending_jobs().expect("jobs"), 0);
    let error = catalog.apply_scan(corpus.id, &[], true, &[]).expect_err("no folder");
    assert!(matches!(error, Error::VirtualRoot { .. }));
    assert_eq!(catalog.check().expect("check"), []);
    assert_eq!(catalog.files(None, 9, 0).expect("ledger")[0].path, Path::new("/r/doc 1"));
}

#[test]
fn a_full_disk_is_said_and_loses_nothing() {
    let (home, catalog, root) = open();
    let disk: Disk =
        (0..40).map(|it| (format!("f{it}"), (format!("word{it} ").repeat(50), it))).collect();
    scan(&catalog, root, &disk);
    drop(catalog);
    let path = home.path().join("catalog.sqlite");
    let catalog = Catalog::open(&path).expect("reopen");
    // SQLite reports a reached page limit exactly as a full disk.
    catalog.limit_pages(40).expect("limit");
    let jobs = catalog.begin_jobs(catalog.next_jobs(100).expect("jobs")).expect("begin");
    let outcomes: Vec<FileOutcome> = jobs
        .iter()
        .map(|job| outcome(job, &entry("f", "x", 1), &"some longer words here ".repeat(40)))
        .collect();
    let error = catalog.commit_files(&outcomes, None).expect_err("full");
    assert!(matches!(error, Error::DiskFull), "{error}");
    assert_eq!(catalog.pending_jobs().expect("jobs"), 40);
    catalog.limit_pages(1 << 20).expect("space again");
    catalog.commit_files(&outcomes, None).expect("now it fits");
    assert_eq!(catalog.pending_jobs().expect("jobs"), 0);
}

#[test]
fn settings_and_history_come_back() {
    let (_home, catalog, _root) = open();
    catalog.set_setting("reranker", Some("x")).expect("set");
    catalog.set_setting("reranker", Some("y")).expect("replace");
    assert_eq!(catalog.setting("reranker").expect("get").as_deref(), Some("y"));
    catalog.set_setting("reranker", None).expect("remove");
    assert_eq!(catalog.setting("reranker").expect("get"), None);
    catalog.add_history("ask", "who?", "{}").expect("add");
    assert_eq!(catalog.history(9).expect("list")[0].query, "who?");
    catalog.delete_history(None).expect("clear");
    assert!(catalog.history(9).expect("list").is_empty());
}

#[test]
fn ten_thousand_unchanged_files_are_not_written_about() {
    let (home, catalog, root) = open();
    let disk: Disk =
        (0..10_000).map(|it| (format!("d{}/f{it}", it % 100), (String::new(), it))).collect();
    assert_eq!(scan(&catalog, root, &disk).new, 10_000);
    let log = home.path().join("catalog.sqlite-wal");
    let before = (catalog.writes(), std::fs::metadata(&log).expect("log").len());
    assert_eq!(scan(&catalog, root, &disk).unchanged, 10_000);
    assert_eq!((catalog.writes(), std::fs::metadata(&log).expect("log").len()), before);
}

#[test]
fn a_file_replaced_by_another_of_equal_size_and_time_is_read_again() {
    let (_home, catalog, root) = open();
    let mut disk = Disk::from([
        ("f".to_owned(), ("ab".to_owned(), 1)),
        ("g".to_owned(), ("ba".to_owned(), 2)),
    ]);
    scan(&catalog, root, &disk);
    work_all(&catalog, &disk);
    let ids = catalog.all_chunks().expect("ids");
    // The two change places: both moved, nothing has to be read.
    let (f, g) = (disk["f"].clone(), disk["g"].clone());
    disk.extend([("f".to_owned(), g), ("g".to_owned(), f)]);
    let delta = scan(&catalog, root, &disk);
    assert_eq!((delta.moved, delta.changed, delta.new, delta.removed), (2, 0, 0, 0));
    assert_eq!(words(&catalog), expected(&disk));
    assert_eq!(catalog.all_chunks().expect("ids"), ids);
    // Another file in its place: the metadata that can be compared is equal but for the inode.
    disk.insert("f".to_owned(), ("ab".to_owned(), 3));
    assert_eq!(scan(&catalog, root, &disk).changed, 1);
}

#[test]
fn files_that_change_places_before_they_are_read_are_told_apart() {
    let (_home, catalog, root) = open();
    // Equal in size and time.
    let mut disk = Disk::from([
        ("f".to_owned(), ("ab".to_owned(), 1)),
        ("g".to_owned(), ("ba".to_owned(), 2)),
    ]);
    scan(&catalog, root, &disk);
    let (f, g) = (disk["f"].clone(), disk["g"].clone());
    disk.extend([("f".to_owned(), g), ("g".to_owned(), f)]);
    work(&catalog, &disk, 1);
    scan(&catalog, root, &disk);
    work_all(&catalog, &disk);
    assert_eq!(words(&catalog), expected(&disk));
}

#[test]
fn a_disk_mounted_under_another_number_holds_the_same_files() {
    let (_home, catalog, root) = open();
    let disk = Disk::from([("f".to_owned(), ("alpha".to_owned(), 1))]);
    scan(&catalog, root, &disk);
    work_all(&catalog, &disk);
    let mut remounted = entry("f", "alpha", 1);
    remounted.volume_id = Some((99, 1));
    let delta =
        catalog.apply_scan(root, std::slice::from_ref(&remounted), true, &[]).expect("scan");
    assert_eq!((delta.unchanged, delta.changed), (1, 0));
    assert_eq!(catalog.pending_jobs().expect("jobs"), 0);
    assert_eq!(catalog.volume_of(root).expect("volume"), Some(99));
    let before = catalog.writes();
    catalog.apply_scan(root, &[remounted], true, &[]).expect("scan");
    assert_eq!(catalog.writes(), before);
}

#[test]
fn a_second_name_of_a_file_is_no_move() {
    let (_home, catalog, root) = open();
    let mut disk = Disk::from([("f".to_owned(), ("alpha".to_owned(), 1))]);
    scan(&catalog, root, &disk);
    work_all(&catalog, &disk);
    disk.insert("hard link".to_owned(), ("alpha".to_owned(), 1));
    let delta = scan(&catalog, root, &disk);
    assert_eq!((delta.new, delta.moved, delta.unchanged), (1, 0, 1));
    // Where the scan did not come to its end, the first name may still be there.
    let third = entry("third", "alpha", 1);
    let delta = catalog.apply_scan(root, &[third], false, &[]).expect("scan");
    assert_eq!((delta.new, delta.moved, delta.removed), (1, 0, 0));
}

#[test]
fn a_rename_over_another_file_keeps_the_mover_and_drops_the_other() {
    let (_home, catalog, root) = open();
    let mut disk = Disk::from([
        ("draft".to_owned(), ("alpha beta".to_owned(), 1)),
        ("final".to_owned(), ("gamma".to_owned(), 2)),
    ]);
    scan(&catalog, root, &disk);
    work_all(&catalog, &disk);
    let file = disk.remove("draft").expect("there");
    disk.insert("final".to_owned(), file);
    let delta = scan(&catalog, root, &disk);
    assert_eq!((delta.moved, delta.removed, delta.new, delta.changed), (1, 1, 0, 0));
    assert_eq!(catalog.pending_jobs().expect("jobs"), 0);
    assert_eq!(words(&catalog), expected(&disk));
}

#[test]
fn a_rename_over_another_file_is_followed_even_if_the_scan_broke_off() {
    let (_home, catalog, root) = open();
    let mut disk: Disk = ["a", "b", "c"]
        .into_iter()
        .zip(1..)
        .map(|(name, inode)| (name.to_owned(), (format!("text of {name}"), inode)))
        .collect();
    scan(&catalog, root, &disk);
    work_all(&catalog, &disk);
    // a goes over b, c takes the place of a; the scan did not come to where c was.
    let (a, c) = (disk["a"].clone(), disk["c"].clone());
    disk.extend([("b".to_owned(), a), ("a".to_owned(), c)]);
    let seen = [entry("a", &disk["a"].0, 3), entry("b", &disk["b"].0, 1)];
    let delta = catalog.apply_scan(root, &seen, false, &[]).expect("scan");
    assert_eq!((delta.moved, delta.removed, delta.new), (1, 1, 1));
    disk.remove("c");
    assert_eq!(scan(&catalog, root, &disk).removed, 1);
    work_all(&catalog, &disk);
    assert_eq!(words(&catalog), expected(&disk));
}

#[test]
fn another_ending_means_another_reading() {
    let (_home, catalog, root) = open();
    let mut disk = Disk::from([("a.txt".to_owned(), ("alpha".to_owned(), 1))]);
    scan(&catalog, root, &disk);
    work_all(&catalog, &disk);
    let ids = catalog.all_chunks().expect("ids");
    let file = disk.remove("a.txt").expect("there");
    disk.insert("a.md".to_owned(), file);
    assert_eq!(scan(&catalog, root, &disk).moved, 1);
    assert_eq!(catalog.pending_jobs().expect("jobs"), 1);
    assert_eq!(catalog.all_chunks().expect("ids"), ids, "it answers until it is read");
}

#[test]
fn reading_the_same_again_writes_no_chunk_and_a_new_date_reaches_the_index() {
    let (_home, catalog, root) = open();
    let disk = Disk::from([("f".to_owned(), ("alpha beta alpha".to_owned(), 1))]);
    scan(&catalog, root, &disk);
    catalog.register_embedder("e", 2).expect("embedder");
    let (mut outcomes, _) = read(&begin(&catalog, 9), &disk);
    catalog.commit_files(&outcomes, Some("e")).expect("commit");
    let seq = catalog.last_seq().expect("seq");
    let writes = catalog.writes();
    catalog.commit_files(&outcomes, Some("e")).expect("the same");
    assert_eq!(catalog.last_seq().expect("seq"), seq);
    assert_eq!(catalog.writes(), writes + 1, "only the file's own row");
    outcomes[0].modified_ns += 5_000_000_000;
    catalog.commit_files(&outcomes, Some("e")).expect("touched");
    let changes = catalog.changes_since(seq, 9).expect("log");
    assert_eq!(changes.len(), 3);
    assert!(changes.iter().all(|it| !it.removed));
}

#[test]
fn vectors_that_do_not_belong_are_refused() {
    let (_home, catalog, root) = open();
    let disk = Disk::from([("f".to_owned(), ("alpha".to_owned(), 1))]);
    scan(&catalog, root, &disk);
    work_all(&catalog, &disk);
    let chunk = catalog.all_chunks().expect("ids")[0];
    let put = |embedder, vector| catalog.put_vectors(embedder, &[(chunk, vector)]);
    assert!(matches!(
        put("e", vec![0.0; 3]),
        Err(Error::WrongVector { expected: 2, found: 3, .. })
    ));
    assert!(matches!(put("stranger", vec![0.0; 2]), Err(Error::UnknownEmbedder { .. })));
    assert!(matches!(
        catalog.switch_embedder("stranger", Embeds::Here),
        Err(Error::UnknownEmbedder { .. })
    ));
    assert!(matches!(catalog.register_embedder("e", 3), Err(Error::WrongVector { .. })));
    assert_eq!(catalog.active_embedder().expect("active").expect("one").id, "e");
}

#[test]
fn the_whole_is_read_in_pages_while_the_catalog_stays_usable() {
    let (_home, catalog, root) = open();
    // More than two pages of 512.
    let text: Vec<String> = (0..1100).map(|it| format!("w{it}")).collect();
    let disk = Disk::from([("f".to_owned(), (text.join(" "), 1))]);
    scan(&catalog, root, &disk);
    work_all(&catalog, &disk);
    let ids = catalog.all_chunks().expect("ids");
    let mut seen = Vec::new();
    catalog
        .for_each_chunk(|record| {
            // A lock held around the visit would never come back from here.
            assert!(catalog.chunk_count()? == 1100);
            seen.push(record.id);
            Ok::<(), Error>(())
        })
        .expect("read");
    assert_eq!(seen, ids);
    let mut count = 0;
    catalog
        .for_each_vector("e", |chunk, vector| {
            assert_eq!((chunk, vector.len()), (ids[count], 2));
            count += 1;
            Ok::<(), Error>(())
        })
        .expect("read");
    assert_eq!(count, 1100);
    let stop = catalog.for_each_chunk(|_| Err(Error::DiskFull)).expect_err("the visitor's own");
    assert!(matches!(stop, Error::DiskFull));
}

#[test]
fn the_ledger_is_searched_by_name_literally() {
    let (_home, catalog, root) = open();
    let disk = Disk::from([
        ("Notes/100% sure.txt".to_owned(), ("alpha".to_owned(), 1)),
        ("notes/other.txt".to_owned(), ("beta".to_owned(), 2)),
    ]);
    scan(&catalog, root, &disk);
    let count = |part| catalog.files_named(None, part, 9, 0).expect("ledger").len();
    assert_eq!((count("notes/"), count("0%"), count("%"), count("_")), (2, 1, 1, 0));
    assert_eq!(catalog.files(Some(FileState::Indexed), 9, 0).expect("ledger").len(), 0);
    assert_eq!(catalog.files(Some(FileState::Pending), 1, 1).expect("ledger").len(), 1);
}

#[test]
fn marks_of_folders_outlive_their_roots() {
    let (_home, catalog, _) = open();
    let (inner, outer) = (Path::new("/a/b"), Path::new("/a"));
    catalog.add_root(inner).expect("root");
    catalog.confine(inner, true).expect("marked");
    catalog.confine(inner, true).expect("marked twice");
    let root = catalog.add_root(outer).expect("the folder above").id;
    assert_eq!(catalog.confined().expect("marks"), [inner]);
    catalog.remove_root(root).expect("removed");
    assert_eq!(catalog.confined().expect("marks"), [inner]);
    catalog.confine(inner, false).expect("unmarked");
    assert!(catalog.confined().expect("marks").is_empty());
    assert!(catalog.confine(Path::new("b"), true).is_err(), "relative to what?");
}

#[test]
fn tags_let_files_through_with_those_below_them_and_go_with_their_files() {
    let (_home, catalog, root) = open();
    let mut disk = Disk::from([
        ("a.md".to_owned(), ("hull #Project/Boat".to_owned(), 1)),
        ("b.md".to_owned(), ("flour #project #bread".to_owned(), 2)),
        ("c.md".to_owned(), ("tax #projects #boat".to_owned(), 3)),
    ]);
    scan(&catalog, root, &disk);
    work_all(&catalog, &disk);
    let count = |tags: &[&str]| {
        let tags = tags.iter().map(|it| (*it).to_owned()).collect();
        let filter = Filter { tags, ..Filter::default() };
        catalog.chunks_matching(&filter, None).expect("filter").len()
    };
    // Every word is a passage.
    assert_eq!((count(&["project"]), count(&["#project/BOAT"]), count(&["project/"])), (5, 2, 5));
    assert_eq!((count(&["boat"]), count(&["boat", "bread"]), count(&["proj"])), (3, 6, 0));
    assert_eq!(count(&["#"]), 0, "what is no tag is no condition that all meet");
    disk.insert("b.md".to_owned(), ("flour #bread".to_owned(), 2));
    disk.remove("a.md");
    scan(&catalog, root, &disk);
    work_all(&catalog, &disk);
    assert_eq!((count(&["project"]), count(&["bread"]), count(&["boat"])), (0, 2, 3));
}
