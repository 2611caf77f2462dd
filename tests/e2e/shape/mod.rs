//! The JSON of the commands on the sample library, byte for byte as it is kept in `tests/golden/json`.
//!
//! A key that is renamed, lost, new, or in another place fails here: scripts read them. What depends on the day, the
//! machine or the weights is masked first ([`mask`]), and so are sentences for people. A change that is meant is
//! written down with `RIDDLE_WRITE_GOLDEN=1`, and told in the changelog.

mod mask;

use std::{fs, path::PathBuf};

use riddle_tests::{Riddle, workspace};

use mask::masked;

/// Name of the file, and the command. They run in this order on one home without an embedder: keywords, and the
/// reranker that is part of the program.
const COMMANDS: [(&str, &[&str]); 11] = [
    ("index", &["index", "SAMPLE"]),
    ("index-again", &["index"]),
    ("search", &["search", "bilge pump fuse", "-k", "3"]),
    ("search-explain", &["search", "bilge pump fuse", "-k", "3", "--explain"]),
    ("search-no-rerank", &["search", "bilge pump fuse", "-k", "3", "--explain", "--no-rerank"]),
    // By words: what a reranker makes of nothing alike are near ties, whose order depends on the processor.
    ("search-nothing", &["search", "nothing-like-it-anywhere", "--no-rerank"]),
    ("ask", &["ask", "What does the winter mooring cost?"]),
    ("ask-nothing", &["ask", "Who is the president of Uruguay?"]),
    ("status", &["status"]),
    ("status-files", &["status", "--files", "--check"]),
    ("models-list", &["models", "list"]),
];

fn golden(name: &str) -> PathBuf {
    workspace().join("tests/golden/json").join(format!("{name}.json"))
}

#[test]
fn the_json_of_every_command_is_what_it_was() {
    let riddle = Riddle::new();
    let sample = workspace().join("assets/sample-library").canonicalize().expect("it is there");
    let sample = sample.to_str().expect("text").to_owned();
    let home = riddle.home().canonicalize().expect("it is there");
    let places = [
        (sample.as_str(), "SAMPLE"),
        (riddle.home().to_str().expect("text"), "HOME"),
        (home.to_str().expect("text"), "HOME"),
    ];
    let write = std::env::var_os("RIDDLE_WRITE_GOLDEN").is_some();
    let mut different = Vec::new();
    for (name, args) in COMMANDS {
        let args: Vec<&str> =
            args.iter().map(|it| if *it == "SAMPLE" { sample.as_str() } else { it }).collect();
        let now = masked(&riddle.run(&[&args[..], &["--json"]].concat()).ok(), &places);
        let path = golden(name);
        if write {
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(&path, &now).expect("written");
        }
        let before = fs::read_to_string(&path).expect("the golden file is there");
        if let Some((line, now, before)) = first_difference(&now, &before) {
            different.push(format!("{name}.json:{line}: now {now:?}, before {before:?}"));
        }
    }
    assert!(
        different.is_empty(),
        "the JSON is not what it was:\n{}\nIf that is meant: RIDDLE_WRITE_GOLDEN=1 writes it down",
        different.join("\n")
    );
}

/// The first line that differs, from 1; `None` where none does.
fn first_difference<'a>(now: &'a str, before: &'a str) -> Option<(usize, &'a str, &'a str)> {
    let (mut now_lines, mut before_lines) = (now.lines(), before.lines());
    for line in 1.. {
        match (now_lines.next(), before_lines.next()) {
            (None, None) => break,
            (now, before) if now == before => {}
            (now, before) => {
                return Some((line, now.unwrap_or("the end"), before.unwrap_or("the end")));
            }
        }
    }
    (now != before).then_some((0, "another end of line", ""))
}

/// The files hold what the test is about: were they empty, anything would pass.
#[test]
fn the_golden_files_hold_the_keys_that_scripts_read() {
    for (name, keys) in [
        (
            "search-explain",
            &["\"bm25_rank\"", "\"layers\"", "\"timings_ms\"", "\"path\": \"SAMPLE/"][..],
        ),
        ("ask", &["\"citations\"", "\"verdict\": \"supported\"", "\"quote\""]),
        ("status-files", &["\"fingerprint\"", "\"queue\"", "\"state\": \"indexed\""]),
        ("models-list", &["\"license\": \"apache-2.0\"", "\"dir\": \"HOME/"]),
        ("index", &["\"new\": 17", "\"peak_parser_rss_bytes\""]),
    ] {
        let text = fs::read_to_string(golden(name)).expect("the golden file is there");
        for key in keys {
            assert!(text.contains(key), "{key} is not in {name}.json");
        }
    }
}
