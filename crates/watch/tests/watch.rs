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
use riddle_watch::{Error, ScanOptions, ScanReport, WatchEvent, Watcher, scan, scan_parts};

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
fn a_root_that_goes_away_during_the_walk_is_missing() {
    // With and without a folder that is left in its place, as a mount point is.
    for mount_point in [false, true] {
        let dir = tempfile::tempdir().expect("temp dir");
        let root = dir.path().join("disk");
        write(&root, "a/1.txt", "text");
        write(&root, "b/2.txt", "text");
        let mut files = 0;
        let pulled = scan(&root, &ScanOptions::default(), &mut |_| {
            files += 1;
            fs::rename(&root, dir.path().join("elsewhere")).expect("pulled out");
            if mount_point {
                fs::create_dir(&root).expect("mount point");
            }
            ControlFlow::Continue(())
        });
        assert_eq!(files, 1);
        assert!(matches!(pulled, Err(Error::RootMissing { .. })), "{pulled:?}");
    }
}

#[cfg(unix)]
#[test]
fn an_empty_mount_point_is_no_emptied_folder() {
    use std::os::unix::fs::MetadataExt as _;

    let dir = tempfile::tempdir().expect("temp dir");
    let here = fs::metadata(dir.path()).expect("metadata").dev();
    let on = |volume| ScanOptions { known_volume: Some(volume), ..ScanOptions::default() };
    assert!(walk(dir.path(), &on(here)).0.complete, "emptied by hand");
    let unmounted = scan(dir.path(), &on(here + 1), &mut |_| ControlFlow::Continue(()));
    assert!(matches!(unmounted, Err(Error::RootMissing { .. })));
    write(dir.path(), "a.txt", "text");
    assert_eq!(walk(dir.path(), &on(here + 1)).0.files, 1, "the same disk under another number");
}

#[test]
fn a_file_as_root_is_said() {
    let dir = tempfile::tempdir().expect("temp dir");
    write(dir.path(), "a.txt", "text");
    let file = dir.path().join("a.txt");
    let result = scan(&file, &ScanOptions::default(), &mut |_| ControlFlow::Continue(()));
    assert!(matches!(result, Err(Error::NotAFolder { .. })));
}

#[test]
fn folders_without_end_are_not_entered_and_not_taken_for_empty() {
    let dir = tempfile::tempdir().expect("temp dir");
    let deep: PathBuf = std::iter::repeat_n("d", 600).collect();
    fs::create_dir_all(dir.path().join(&deep)).expect("folders");
    write(dir.path(), "a.txt", "text");
    let (report, files) = walk(dir.path(), &ScanOptions::default());
    assert_eq!(read(&files), ["a.txt"]);
    assert!(report.complete);
    assert_eq!(report.unreadable.len(), 1);
    assert!(deep.starts_with(&report.unreadable[0].0), "{:?}", report.unreadable);
}

#[cfg(unix)]
#[test]
fn an_unreadable_folder_is_listed() {
    use std::os::unix::fs::PermissionsExt as _;

    let dir = tempfile::tempdir().expect("temp dir");
    write(dir.path(), "closed/a.txt", "text");
    write(dir.path(), "open/b.txt", "text");
    let closed = dir.path().join("closed");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).expect("close");
    let may_read_anyway = fs::read_dir(&closed).is_ok();
    let (report, files) = walk(dir.path(), &ScanOptions::default());
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).expect("open");
    // The superuser reads it; everyone else is told.
    if may_read_anyway {
        assert_eq!(read(&files), ["closed/a.txt", "open/b.txt"]);
    } else {
        assert_eq!(read(&files), ["open/b.txt"]);
        assert_eq!(report.unreadable[0].0, Path::new("closed"));
    }
}

#[test]
fn rule_files_that_are_broken_or_huge_do_no_harm() {
    let dir = tempfile::tempdir().expect("temp dir");
    let root = dir.path();
    write(root, "a.txt", "text");
    write(root, "b.log", "text");
    write(root, "sub/c.log", "text");
    fs::write(root.join(".gitignore"), b"*.log\n[\n\xff\xfe\n").expect("write");
    fs::File::create(root.join("sub/.riddleignore"))
        .expect("create")
        .set_len(2 << 30)
        .expect("sparse");
    assert_eq!(read(&walk(root, &ScanOptions::default()).1), ["a.txt"]);
}

#[test]
fn the_size_limit_is_named_as_it_is() {
    let dir = tempfile::tempdir().expect("temp dir");
    write(dir.path(), "a.txt", "four");
    let state = |limit| {
        let options = ScanOptions { max_file_bytes: limit, ..ScanOptions::default() };
        walk(dir.path(), &options).1[Path::new("a.txt")].verdict.clone()
    };
    assert_eq!(state(4), ScanVerdict::Read);
    let reason = "larger than the limit of 3 bytes".to_owned();
    assert_eq!(state(3), ScanVerdict::Skip(FileState::TooLarge, reason));
}

#[test]
fn a_file_that_icloud_keeps_is_named_although_its_name_is_hidden() {
    let dir = tempfile::tempdir().expect("temp dir");
    write(dir.path(), ".report.pdf.icloud", "x");
    write(dir.path(), ".icloud", "x");
    let (_, files) = walk(dir.path(), &ScanOptions::default());
    let state = |name: &str| match &files[Path::new(name)].verdict {
        ScanVerdict::Skip(state, _) => *state,
        ScanVerdict::Read => panic!("{name} would be read"),
    };
    assert_eq!(state(".report.pdf.icloud"), FileState::CloudOnly);
    assert_eq!(state(".icloud"), FileState::Excluded);
}

#[cfg(unix)]
#[test]
fn links_out_of_the_root_are_followed_once_when_asked() {
    use std::os::unix::fs::symlink;

    let dir = tempfile::tempdir().expect("temp dir");
    let (root, other) = (dir.path().join("root"), dir.path().join("other"));
    write(&root, "a.txt", "text");
    write(&other, "deep/b.txt", "text");
    write(&other, "c.txt", "text");
    symlink(&other, root.join("m-other")).expect("link");
    symlink(other.join("deep"), root.join("z-again")).expect("link");
    symlink(other.join("c.txt"), root.join("k-file")).expect("link");
    symlink(&root, root.join("to-root")).expect("link");
    symlink(dir.path(), root.join("to-above")).expect("link");
    symlink("/no/such/place", root.join("broken")).expect("link");
    symlink(&root, other.join("deep/back")).expect("link");
    symlink(&other, other.join("deep/circle")).expect("link");
    let follow = ScanOptions { follow_links: true, ..ScanOptions::default() };
    let (report, files) = walk(&root, &follow);
    assert_eq!(read(&files), ["a.txt", "k-file", "m-other/c.txt", "m-other/deep/b.txt"]);
    assert!(report.complete && report.unreadable.is_empty());
    assert_eq!(read(&walk(&root, &ScanOptions::default()).1), ["a.txt"]);
    // A part behind a link is unknown, never gone.
    let part = ["m-other/c.txt".into()];
    let report =
        scan_parts(&root, &part, &follow, &mut |_| ControlFlow::Continue(())).expect("scan");
    assert_eq!(report.unreadable[0].0, part[0]);
}

#[test]
fn a_changed_rule_file_stands_for_its_folder() {
    let dir = tempfile::tempdir().expect("temp dir");
    write(dir.path(), "sub/a.txt", "text");
    write(dir.path(), "sub/b.log", "text");
    write(dir.path(), "c.txt", "text");
    write(dir.path(), "sub/.gitignore", "*.log\n");
    let mut seen = Vec::new();
    let parts = ["sub/.gitignore".into(), "sub/a.txt".into(), "../outside".into(), "gone".into()];
    let report = scan_parts(dir.path(), &parts, &ScanOptions::default(), &mut |entry| {
        seen.push(entry.relative_path.display().to_string());
        ControlFlow::Continue(())
    })
    .expect("scan");
    assert_eq!(seen, ["sub/.gitignore", "sub/a.txt", "sub/b.log"]);
    assert_eq!(report.parts, ["../outside", "gone", "sub"].map(PathBuf::from));
    assert_eq!(report.unreadable.len(), 1, "{:?}", report.unreadable);
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

/// Waits for an event about `path`; others, such as those of its folder, are passed over.
fn wait_for(events: &mpsc::Receiver<WatchEvent>, path: &Path) {
    loop {
        // Long enough for the slowest machine; the event itself ends the wait.
        match events.recv_timeout(Duration::from_secs(30)) {
            Ok(WatchEvent::Changed(found)) if found == path => return,
            Ok(_) => {}
            Err(error) => panic!("no event about {}: {error}", path.display()),
        }
    }
}

#[test]
fn changes_renames_and_deletions_are_reported_after_they_happened() {
    let dir = tempfile::tempdir().expect("temp dir");
    let root = dir.path().canonicalize().expect("path");
    let (sender, events) = mpsc::channel();
    let debounce = Duration::from_millis(50);
    let mut watcher =
        Watcher::start(std::slice::from_ref(&root), debounce, sender).expect("watching");
    assert!(watcher.unwatched().is_empty());
    write(&root, "new.txt", "text");
    wait_for(&events, &root.join("new.txt"));
    fs::rename(root.join("new.txt"), root.join("other.txt")).expect("rename");
    wait_for(&events, &root.join("other.txt"));
    fs::remove_file(root.join("other.txt")).expect("remove");
    wait_for(&events, &root.join("other.txt"));
    watcher.unwatch(&root).expect("was watched");
    assert!(matches!(watcher.unwatch(&root), Err(Error::Watch { .. })));
    drop(watcher);
    assert!(
        std::iter::from_fn(|| events.recv_timeout(Duration::from_secs(30)).ok()).count() < 10,
        "the channel closes"
    );
}

#[test]
fn a_polled_folder_is_followed_too() {
    let dir = tempfile::tempdir().expect("temp dir");
    let root = dir.path().canonicalize().expect("path");
    let (sender, events) = mpsc::channel();
    let roots = [root.clone(), "/no/such/folder".into()];
    let (debounce, interval) = (Duration::from_millis(50), Duration::from_millis(100));
    let watcher = Watcher::start_polling(&roots, debounce, interval, sender).expect("polling");
    assert_eq!(watcher.polled().len(), 1);
    assert_eq!(watcher.unwatched().len(), 1);
    write(&root, "sub/new.txt", "text");
    wait_for(&events, &root.join("sub/new.txt"));
}

#[test]
fn what_can_not_be_watched_is_listed() {
    let (sender, _events) = mpsc::channel();
    let watcher = Watcher::start(&["/no/such/folder".into()], Duration::from_millis(50), sender)
        .expect("starts");
    assert_eq!(watcher.unwatched().len(), 1);
    assert!(watcher.polled().is_empty());
}
