//! Scan and watcher on real folders.

use std::{
    collections::BTreeMap,
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::mpsc,
    time::Duration,
};

use riddle_types::{FileEntry, FileState, ScanVerdict};
use riddle_watch::{Error, ScanOptions, ScanReport, WatchEvent, Watcher, scan};

fn write(root: &Path, name: &str, text: &str) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().expect("parent")).expect("folder");
    fs::write(path, text).expect("write");
}

fn walk(root: &Path, options: &ScanOptions) -> (ScanReport, BTreeMap<PathBuf, FileEntry>) {
    let mut files = BTreeMap::new();
    let report = scan(root, options, &mut |entry| {
        files.insert(entry.relative_path.clone(), entry);
        ControlFlow::Continue(())
    })
    .expect("readable");
    (report, files)
}

fn read(files: &BTreeMap<PathBuf, FileEntry>) -> Vec<String> {
    files
        .values()
        .filter(|it| it.verdict == ScanVerdict::Read)
        .map(|it| it.relative_path.display().to_string())
        .collect()
}

#[test]
fn rules_leave_out_and_say_which() {
    let dir = tempfile::tempdir().expect("temp dir");
    let root = dir.path();
    for name in [
        "a.txt",
        "b.log",
        "keep.log",
        ".hidden",
        "sub/c.txt",
        "sub/private/d.txt",
        "node_modules/x.js",
        "build/o.txt",
    ] {
        write(root, name, "text");
    }
    write(root, ".gitignore", "*.log\n!keep.log\n/build/\n");
    write(root, "sub/.riddleignore", "private/\n");
    let (report, files) = walk(root, &ScanOptions::default());
    assert_eq!(read(&files), ["a.txt", "keep.log", "sub/c.txt"]);
    let reason = |name: &str| match &files[Path::new(name)].verdict {
        ScanVerdict::Skip(state, reason) => (*state, reason.clone()),
        ScanVerdict::Read => panic!("{name} would be read"),
    };
    assert_eq!(reason("b.log"), (FileState::Excluded, "rule \"*.log\" in .gitignore".to_owned()));
    assert!(reason(".hidden").1.contains("hidden"));
    let folders: Vec<String> =
        report.excluded_folders.iter().map(|it| it.0.display().to_string()).collect();
    assert_eq!(folders, ["build", "node_modules", "sub/private"]);
    assert!(report.complete && report.unreadable.is_empty());

    let everything = ScanOptions { rules: false, hidden: true, ..ScanOptions::default() };
    assert!(read(&walk(root, &everything).1).contains(&"b.log".to_owned()));
    let own = ScanOptions { excluded: vec!["a.*".to_owned()], ..ScanOptions::default() };
    assert_eq!(read(&walk(root, &own).1), ["keep.log", "sub/c.txt"]);
}

#[test]
fn an_inner_rule_overrules_an_outer_one() {
    let dir = tempfile::tempdir().expect("temp dir");
    write(dir.path(), ".gitignore", "*.md\n");
    write(dir.path(), "docs/.riddleignore", "!*.md\n");
    write(dir.path(), "docs/a.md", "text");
    write(dir.path(), "b.md", "text");
    assert_eq!(read(&walk(dir.path(), &ScanOptions::default()).1), ["docs/a.md"]);
}

#[test]
fn large_files_devices_and_placeholders_are_not_read() {
    let dir = tempfile::tempdir().expect("temp dir");
    let root = dir.path();
    // Two gigabytes that take no space.
    fs::File::create(root.join("huge.txt")).expect("create").set_len(2 << 30).expect("sparse");
    write(root, "photo.jpg.cloud", "x");
    let made = std::process::Command::new("mkfifo")
        .arg(root.join("pipe"))
        .status()
        .is_ok_and(|it| it.success());
    let (_, files) = walk(root, &ScanOptions::default());
    let state = |name: &str| match &files[Path::new(name)].verdict {
        ScanVerdict::Skip(state, _) => *state,
        ScanVerdict::Read => panic!("{name} would be read"),
    };
    assert_eq!(state("huge.txt"), FileState::TooLarge);
    assert_eq!(state("photo.jpg.cloud"), FileState::CloudOnly);
    if made {
        assert_eq!(state("pipe"), FileState::Unsupported);
    }
}

#[cfg(unix)]
#[test]
fn links_are_not_followed_and_odd_names_survive() {
    use std::os::unix::{ffi::OsStrExt as _, fs::symlink};

    let dir = tempfile::tempdir().expect("temp dir");
    let root = dir.path();
    write(root, "a/b.txt", "text");
    symlink(root, root.join("a/loop")).expect("link");
    symlink("/etc/passwd", root.join("outside")).expect("link");
    let odd = std::ffi::OsStr::from_bytes(b"caf\xe9.txt");
    fs::write(root.join(odd), "text").expect("write");
    let (report, files) = walk(root, &ScanOptions::default());
    assert!(report.complete);
    assert_eq!(
        files.keys().cloned().collect::<Vec<_>>(),
        [PathBuf::from("a/b.txt"), PathBuf::from(odd)]
    );
}

#[test]
fn a_missing_root_is_an_error_and_not_an_empty_folder() {
    let dir = tempfile::tempdir().expect("temp dir");
    let missing = dir.path().join("gone");
    let result = scan(&missing, &ScanOptions::default(), &mut |_| ControlFlow::Continue(()));
    assert!(matches!(result, Err(Error::RootMissing { .. })));
}

#[test]
fn a_stopped_walk_is_not_complete() {
    let dir = tempfile::tempdir().expect("temp dir");
    write(dir.path(), "a", "1");
    write(dir.path(), "b", "2");
    let report = scan(dir.path(), &ScanOptions::default(), &mut |_| ControlFlow::Break(()))
        .expect("readable");
    assert!(!report.complete && report.files == 1);
}

#[test]
fn a_change_is_reported_after_it_happened() {
    let dir = tempfile::tempdir().expect("temp dir");
    let root = dir.path().canonicalize().expect("path");
    let (sender, events) = mpsc::channel();
    let watcher =
        Watcher::start(std::slice::from_ref(&root), Duration::from_millis(50), sender).expect("watching");
    assert!(watcher.unwatched().is_empty());
    write(&root, "new.txt", "text");
    // Long enough for the slowest machine; the event itself ends the wait.
    let event = events.recv_timeout(Duration::from_secs(30)).expect("an event");
    assert!(matches!(event, WatchEvent::Changed(path) if path.starts_with(&root)));
    drop(watcher);
}

#[test]
fn what_can_not_be_watched_is_listed() {
    let (sender, _events) = mpsc::channel();
    let watcher = Watcher::start(&["/no/such/folder".into()], Duration::from_millis(50), sender)
        .expect("starts");
    assert_eq!(watcher.unwatched().len(), 1);
}
