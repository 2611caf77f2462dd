//! Looking at parts of a root gives exactly what looking at all of it gives for them.

use std::{
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use proptest::prelude::*;
use riddle_types::FileEntry;
use riddle_watch::{ScanOptions, scan, scan_parts};

/// Folders and names among which rules, hidden and built-in names are common.
const NAMES: [&str; 8] = ["a", "b", "c.log", ".d", "target", "e.txt", "keep", "f"];
const RULES: [&str; 6] = ["*.log\n", "a/\n", "!keep\n", "keep\n!target\n", "/b\n", "e.*\n!.d\n"];

fn path() -> impl Strategy<Value = PathBuf> {
    prop::collection::vec(0..NAMES.len(), 1..4)
        .prop_map(|names| names.into_iter().map(|it| NAMES[it]).collect())
}

fn make(root: &Path, files: &[PathBuf], rules: &[(PathBuf, usize, bool)]) {
    for file in files {
        let path = root.join(file);
        // Where a file stands already, no folder can be made, and the other way round.
        let folder = path.parent().expect("below the root");
        if fs::create_dir_all(folder).is_ok() && !path.is_dir() {
            fs::write(&path, "text").expect("write");
        }
    }
    for (folder, rule, own) in rules {
        let name = if *own { ".riddleignore" } else { ".gitignore" };
        let folder = root.join(folder);
        if folder.is_dir() {
            fs::write(folder.join(name), RULES[*rule]).expect("rules");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn parts_of_a_scan_are_the_scan_of_the_parts(
        files in prop::collection::vec(path(), 1..14),
        rules in prop::collection::vec(
            (prop_oneof![Just(PathBuf::new()), path()], 0..RULES.len(), any::<bool>()), 0..4),
        parts in prop::collection::vec(path(), 1..4),
    ) {
        let dir = tempfile::tempdir().expect("temp dir");
        make(dir.path(), &files, &rules);
        let mut all: Vec<FileEntry> = Vec::new();
        scan(dir.path(), &ScanOptions::default(), &mut |entry| {
            all.push(entry);
            ControlFlow::Continue(())
        })
        .expect("scan");
        let mut some: Vec<FileEntry> = Vec::new();
        let report = scan_parts(dir.path(), &parts, &ScanOptions::default(), &mut |entry| {
            some.push(entry);
            ControlFlow::Continue(())
        })
        .expect("scan");
        prop_assert!(report.complete && report.unreadable.is_empty());
        let inside = |it: &FileEntry| parts.iter().any(|part| it.relative_path.starts_with(part));
        all.retain(inside);
        prop_assert_eq!(some, all);
    }
}
