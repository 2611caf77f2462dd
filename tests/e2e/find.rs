//! The interactive search in a terminal of its own, paths for other programs, manual pages.

use std::{
    fs,
    io::Write as _,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use riddle_tests::{Riddle, Running, program, skipped, write};

/// A library of two files about a boat, and one about bread.
fn library() -> (Riddle, tempfile::TempDir) {
    let (riddle, files) = (Riddle::new(), tempfile::tempdir().expect("a folder"));
    write(files.path(), "boat.md", "# The boat\n\nThe hull is painted blue.\n");
    write(files.path(), "a mooring\n.md", "# Mooring\n\nThe boat lies at the blue buoy.\n");
    write(files.path(), "bread.md", "# Bread\n\nThe rye loaf rests.\n");
    riddle.index(files.path());
    (riddle, files)
}

/// Runs the program behind a terminal, types keys a moment apart, and hands back all that was drawn and printed.
fn typed(riddle: &Riddle, args: &str, keys: &[&str], editor: &str) -> Option<String> {
    let mut command = Command::new("script");
    riddle.environment(&mut command);
    let line = format!("stty rows 24 cols 110; '{}' {args}; echo ended $?", program().display());
    command
        .args(["-qefc", &line, "/dev/null"])
        .env("TERM", "xterm")
        .env("EDITOR", editor)
        .env_remove("VISUAL")
        .env_remove("DISPLAY")
        .env_remove("WAYLAND_DISPLAY")
        .stdin(Stdio::piped());
    if Command::new("script").arg("--version").output().is_err() {
        skipped("there is no `script` to make a terminal with");
        return None;
    }
    let mut running = Running::start(command);
    running.feed(|stdin| {
        // The library is opened first.
        thread::sleep(Duration::from_millis(1500));
        for key in keys {
            stdin.write_all(key.as_bytes())?;
            stdin.flush()?;
            thread::sleep(Duration::from_millis(400));
        }
        Ok(())
    });
    Some(running.wait().stdout)
}

#[test]
fn what_is_typed_is_found_previewed_and_opened() {
    let (riddle, files) = library();
    let keys = ["hul", "x", "\x7f", "l", "\r"];
    let Some(shown) = typed(&riddle, "find", &keys, "cat") else { return };
    assert!(shown.contains("type what you look for"), "{shown}");
    assert!(shown.contains("> hull") && shown.contains("1 passage · "), "{shown}");
    // The other screen is left before the editor writes: what it shows stays.
    let (drawn, after) = shown.rsplit_once("\x1b[?1049l").expect("the screen is left");
    assert!(drawn.contains("boat.md") && drawn.contains("painted"), "{drawn}");
    // `cat +3 FILE` knows no lines: the file is shown all the same, and its end is told.
    assert!(after.contains("painted blue"), "{after}");
    assert!(after.contains("ended"), "{after}");
    drop(files);
}

#[test]
fn the_chosen_path_is_printed_and_nothing_when_nothing_is_chosen() {
    let (riddle, files) = library();
    let args = "find --print --no-rerank blue";
    let Some(shown) = typed(&riddle, args, &["\x1b[B", "\r"], "false") else { return };
    let after = shown.rsplit_once("\x1b[?1049l").expect("the screen is left").1;
    assert!(after.contains(&*files.path().to_string_lossy()), "{after}");
    assert!(after.contains("ended 0"), "{after}");
    let shown = typed(&riddle, "find boat", &["\x1b"], "false").expect("a terminal");
    let after = shown.rsplit_once("\x1b[?1049l").expect("the screen is left").1;
    assert!(after.contains("ended 0") && !after.contains(".md"), "{after}");
    // Ctrl-C is a key like any other.
    let shown = typed(&riddle, "find boat", &["\x03"], "false").expect("a terminal");
    assert!(shown.contains("\x1b[?1049l") && shown.contains("ended 0"), "{shown}");
}

#[test]
fn without_a_terminal_there_is_nothing_to_type_in() {
    let line = Riddle::new().run(&["find", "boat"]).failed(2);
    assert!(line.contains("riddle search"), "{line}");
}

#[test]
fn paths_are_printed_for_other_programs_each_once() {
    let (riddle, files) = library();
    let paths = |format: &str| riddle.run(&["search", "blue boat", "--format", format]).ok();
    let zero = paths("paths0");
    let mut found: Vec<&str> = zero.split_terminator('\0').collect();
    assert!(zero.ends_with('\0') && found.len() == 2, "{zero:?}");
    for path in &found {
        assert!(fs::metadata(path).is_ok(), "{path:?} is a file, whatever is in its name");
    }
    found.sort_unstable();
    found.dedup();
    assert_eq!(found.len(), 2);
    assert!(found[0].ends_with("a mooring\n.md"));
    let lines = paths("paths");
    assert!(lines.lines().any(|it| it.ends_with("boat.md")), "{lines}");
    assert_eq!(riddle.run(&["search", "zorbakox", "--format", "paths0"]).ok(), "");
    riddle.run(&["search", "boat", "--format", "paths0", "--json"]).failed(2);
    riddle.run(&["search", "boat", "--format", "xml"]).code.filter(|it| *it == 2).expect("usage");
    drop(files);
}

#[test]
fn every_command_has_a_manual_page() {
    let (riddle, dir) = (Riddle::new(), tempfile::tempdir().expect("a folder"));
    let pages = dir.path().join("man");
    let value = riddle.run(&["man", &pages.to_string_lossy(), "--json"]).json();
    let names: Vec<&str> =
        value["pages"].as_array().expect("pages").iter().filter_map(|it| it.as_str()).collect();
    assert!(names.len() > 25, "{names:?}");
    for name in ["riddle.1", "riddle-search.1", "riddle-find.1", "riddle-models-pull.1"] {
        assert!(names.contains(&name), "{name} is not among {names:?}");
    }
    let page = fs::read_to_string(pages.join("riddle-search.1")).expect("a page");
    assert!(page.contains(".TH riddle-search 1") && page.contains("paths0"), "{page}");
    if let Ok(checked) =
        Command::new("man").args(["--warnings", "-l"]).arg(pages.join("riddle.1")).output()
    {
        assert!(checked.status.success(), "{checked:?}");
    } else {
        skipped("there is no `man` to read the pages with");
    }
}
