//! The index follows the files: nothing is written without a change, and every change arrives.

use std::{collections::BTreeMap, fs, path::Path, time::SystemTime};

use riddle_tests::{Riddle, notes, real_models, skipped, snapshot, write};
use tempfile::TempDir;

fn folder() -> TempDir {
    TempDir::new().expect("a temporary folder")
}

/// Every file below `dir` with its time and content.
fn contents(dir: &Path) -> BTreeMap<String, (SystemTime, Vec<u8>)> {
    let mut all = BTreeMap::new();
    let mut folders = vec![dir.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let modified = entry.metadata().and_then(|it| it.modified()).expect("a time");
            let bytes = fs::read(&path).expect("readable");
            all.insert(path.to_string_lossy().into_owned(), (modified, bytes));
        }
    }
    all
}

fn check_no_writes(riddle: &Riddle) {
    let files = folder();
    notes(files.path(), 30);
    let first = riddle.index(files.path());
    assert_eq!((first["new"].as_u64(), first["states"]["indexed"].as_u64()), (Some(30), Some(30)));
    let indexes = ["keyword", "vector"].map(|it| riddle.home().join(it));
    let before = indexes.clone().map(|it| contents(&it));
    assert!(!before[0].is_empty(), "there is a keyword index");
    for args in [&["index"][..], &["index", &files.path().to_string_lossy()]] {
        let second = riddle.json(args);
        assert_eq!(second["unchanged"], 30, "{second:#}");
        for key in ["new", "changed", "removed", "moved", "read", "embedded"] {
            assert_eq!(second[key], 0, "{key} in {second:#}");
        }
        assert_eq!(indexes.clone().map(|it| contents(&it)), before, "an index was written");
    }
}

#[test]
fn without_changes_nothing_is_written() {
    check_no_writes(&Riddle::new());
    match real_models() {
        Some(store) => check_no_writes(&Riddle::with_models(store)),
        None => skipped("the default embedder is not installed: tested without vectors"),
    }
}

#[test]
fn edits_renames_and_deletions_are_followed() {
    let (riddle, files) = (Riddle::new(), folder());
    let at = files.path();
    write(at, "boat.md", "# Boat\n\nThe hull is painted vermilion.\n");
    write(at, "bread.md", "# Bread\n\nKnead the sourdough at dawn.\n");
    write(at, "clock.md", "# Clock\n\nThe pendulum swings twice.\n");
    riddle.index(at);
    assert_eq!(riddle.find("vermilion"), ["boat.md"]);

    write(at, "boat.md", "# Boat\n\nThe hull is painted turquoise all over.\n");
    fs::rename(at.join("bread.md"), at.join("loaf.md")).expect("renamed");
    fs::remove_file(at.join("clock.md")).expect("removed");
    write(at, "new/lamp.md", "# Lamp\n\nA paraffin lantern.\n");
    let report = riddle.json(&["index"]);
    for (key, count) in [("changed", 1), ("moved", 1), ("removed", 1), ("new", 1)] {
        assert_eq!(report[key], count, "{key} in {report:#}");
    }
    for (query, found) in [
        ("turquoise", &["boat.md"][..]),
        ("vermilion", &[]),
        ("sourdough", &["loaf.md"]),
        ("pendulum", &[]),
        ("paraffin", &["lamp.md"]),
    ] {
        assert_eq!(riddle.find(query), found, "{query}");
    }
    let status = riddle.json(&["status", "--check"]);
    assert_eq!(status["states"]["indexed"], 3, "{status:#}");
    assert_eq!(riddle.problems(), [""; 0]);
}

#[test]
fn a_file_deleted_since_the_last_index_answers_no_more_after_it() {
    let (riddle, files) = (Riddle::new(), folder());
    write(files.path(), "secret.md", "# Plan\n\nThe rendezvous is under the viaduct.\n");
    write(files.path(), "other.md", "# Other\n\nNothing about it.\n");
    riddle.index(files.path());
    let answer = riddle.json(&["ask", "Where is the rendezvous?"]);
    assert!(answer["answer"].as_str().is_some_and(|it| it.contains("viaduct")), "{answer:#}");
    fs::remove_file(files.path().join("secret.md")).expect("removed");
    riddle.json(&["index"]);
    assert_eq!(riddle.find("rendezvous viaduct"), [""; 0]);
    let answer = riddle.json(&["ask", "Where is the rendezvous?"]);
    let said = answer["answer"].as_str().unwrap_or_default();
    assert!(!said.contains("viaduct"), "{answer:#}");
    let quoted = answer["citations"].as_array().expect("a list").iter();
    assert!(!quoted.into_iter().any(|it| it["path"].to_string().contains("secret")), "{answer:#}");
}

#[test]
fn a_missing_root_removes_nothing() {
    let (riddle, parent, drawer) = (Riddle::new(), folder(), folder());
    let disk = parent.path().join("disk");
    notes(&disk, 5);
    riddle.index(&disk);
    let before = snapshot(&riddle, &["bridge"]);
    fs::rename(&disk, drawer.path().join("unplugged")).expect("renamed");
    let report = riddle.json(&["index"]);
    assert_eq!(report["removed"], 0, "{report:#}");
    assert_eq!(report["unreachable"].as_array().map(Vec::len), Some(1), "{report:#}");
    fs::rename(drawer.path().join("unplugged"), &disk).expect("renamed back");
    riddle.json(&["index"]);
    assert_eq!(snapshot(&riddle, &["bridge"]), before);
}

#[cfg(unix)]
#[test]
fn a_renamed_root_is_followed_and_a_moved_one_when_it_is_added() {
    let (riddle, parent, other) = (Riddle::new(), folder(), folder());
    let at = parent.path().canonicalize().expect("a path");
    let (old, new) = (at.join("old"), at.join("new"));
    let moved = other.path().canonicalize().expect("a path").join("moved");
    notes(&old, 5);
    let first = riddle.index(&old);
    let check = |report: &serde_json::Value, to: &Path| {
        for (key, count) in [("unchanged", 5), ("read", 0), ("removed", 0), ("new", 0)] {
            assert_eq!(report[key], count, "{key} in {report:#}");
        }
        assert_eq!(report["chunks"], first["chunks"], "{report:#}");
        let notices = report["notices"].to_string();
        assert!(notices.contains(&*to.to_string_lossy()), "{report:#}");
        let folders = riddle.json(&["folders"]);
        let folders = folders["folders"].as_array().expect("a list");
        assert_eq!((folders.len(), &folders[0]["path"]), (1, &to.to_string_lossy().into()));
        let hits = riddle.json(&["search", "bridge", "--no-rerank"]);
        let hits = hits["hits"].as_array().expect("a list");
        let all_there =
            hits.iter().all(|it| it["path"].as_str().is_some_and(|it| Path::new(it).is_file()));
        assert!(!hits.is_empty() && all_there, "{hits:#?}");
        assert_eq!(riddle.problems(), [""; 0]);
    };
    fs::rename(&old, &new).expect("renamed");
    check(&riddle.json(&["index"]), &new);
    fs::rename(&new, &moved).expect("moved");
    check(&riddle.json(&["index", &moved.to_string_lossy()]), &moved);
}

#[test]
fn of_a_copy_that_is_there_and_one_that_is_not_the_first_is_shown() {
    let (riddle, parent) = (Riddle::new(), folder());
    let at = parent.path().canonicalize().expect("a path");
    let text = "# Boat\n\nThe hull is painted vermilion, and nobody may row it at night.\n";
    for it in ["first/boat.md", "second/boat.md"] {
        write(&at, it, text);
    }
    for it in ["first", "second"] {
        riddle.index(&at.join(it));
    }
    for away in ["first", "second"] {
        let aside = at.join(away).with_extension("aside");
        fs::rename(at.join(away), &aside).expect("away");
        let found = riddle.json(&["search", "vermilion", "--no-rerank"]);
        let hit = &found["hits"][0];
        let there = hit["path"].as_str().is_some_and(|it| Path::new(it).is_file());
        assert!(there && hit["also_in"].to_string().contains(away), "{found:#}");
        fs::rename(&aside, at.join(away)).expect("back");
    }
}

#[test]
fn watching_follows_until_ctrl_c() {
    let (riddle, files) = (Riddle::new(), folder());
    let at = files.path();
    write(at, "boat.md", "# Boat\n\nThe hull is painted vermilion.\n");
    let mut watcher = riddle.start(&["index", &at.to_string_lossy(), "--watch", "--json"]);
    let found = |query: &str| {
        // Before the first commit there is nothing to open.
        let outcome = riddle.run(&["search", query, "--no-rerank", "--json"]);
        outcome.code == Some(0)
            && outcome.json()["hits"].as_array().is_some_and(|it| !it.is_empty())
    };
    watcher.until("the first file is found", || found("vermilion"));
    write(at, "sub/lamp.md", "# Lamp\n\nA paraffin lantern.\n");
    watcher.until("the new file is found", || found("paraffin"));
    fs::remove_file(at.join("boat.md")).expect("removed");
    watcher.until("the removed file is gone", || !found("vermilion"));
    watcher.signal("INT");
    let report = watcher.wait();
    assert_eq!(report.code, Some(0), "{report:#?}");
    let report = report.json();
    assert_eq!(report["states"]["indexed"], 1, "{report:#}");
}

#[test]
fn filters_hold_inside_the_search() {
    let (riddle, files) = (Riddle::new(), folder());
    let at = files.path();
    for n in 0..25 {
        write(
            at,
            &format!("many/note-{n}.md"),
            format!("The quartz watch {n} is in the drawer.\n"),
        );
    }
    write(
        at,
        "few/quartz.txt",
        "One quartz watch was found among many other things in the attic.\n",
    );
    riddle.index(at);
    let few = at.join("few");
    let search = |extra: &[&str]| {
        let mut args = vec!["search", "quartz watch", "-k", "3", "--no-rerank"];
        args.extend(extra);
        riddle.json(&args)["hits"].as_array().expect("a list").len()
    };
    // Among the first three of all there is none of them: a filter afterwards would find nothing.
    assert_eq!(search(&["--in", &few.to_string_lossy()]), 1);
    assert_eq!(search(&["--type", "text"]), 1);
    assert_eq!(search(&["--type", "text", "--type", "markdown"]), 3);
    assert_eq!(search(&["--type", "pdf"]), 0);
    assert_eq!(search(&["--before", "2001-01-01"]), 0);
    assert_eq!(search(&["--after", "2001-01-01"]), 3);
}
