//! The sample library: files of every format that we wrote ourselves, and questions with known answers.

use std::path::PathBuf;

use riddle_tests::{Riddle, real_models, skipped, workspace, write};
use serde_json::Value;

fn sample() -> PathBuf {
    workspace().join("assets").join("sample-library")
}

/// A question, words of its answer, and the file that has it.
const QUESTIONS: [(&str, &str, &str); 6] = [
    ("What does the winter mooring cost?", "412", "winter-mooring.eml"),
    ("How much is the monthly rent of the bakery?", "740", "lease-malthouse-row.docx"),
    ("How often must the door seals of the oven be replaced?", "eighteen", "oven-manual.html"),
    ("Which oil does the Lister engine take?", "SAE 30", "jonas-engine.eml"),
    ("Where does the spare key of the bakery hang?", "heron", "to-do.txt"),
    ("When was the garlic planted?", "12 October", "allotment.md"),
];

/// Searches whose file must be among the first three, one per format and script.
const SEARCHES: [(&str, &str); 8] = [
    ("horsehair insulation", "logbook-2025.md"),
    ("bilge pump fuse", "electrics.md"),
    ("raddle red", "cabin-paint.txt"),
    ("rye flour prices", "flour-prices.eml"),
    ("valve clearance multigrade", "jonas-engine.eml"),
    ("Roggenmehl füttern", "sauerteig-notizen.md"),
    ("湯種", "食パン.md"),
    ("\"flue blocked\"", "oven-manual.html"),
];

fn check_searches(riddle: &Riddle) {
    let report = riddle.index(&sample());
    let states = report["states"].as_object().expect("counts");
    let files: u64 = states.values().filter_map(Value::as_u64).sum();
    assert!(files >= 15, "{report:#}");
    assert_eq!(states.get("indexed").and_then(Value::as_u64), Some(files), "{report:#}");
    for (query, file) in SEARCHES {
        let found = riddle.find(query);
        assert!(found.iter().take(3).any(|it| it == file), "{query}: {found:?}");
    }
}

fn check_answers(riddle: &Riddle) {
    for (question, words, file) in QUESTIONS {
        let response = riddle.json(&["ask", question]);
        let answer = response["answer"].as_str().unwrap_or_default();
        assert!(answer.contains(words), "{question}: {response:#}");
        let citations = response["citations"].as_array().expect("a list");
        let cites = |it: &Value| it["path"].as_str().is_some_and(|path| path.ends_with(file));
        assert!(citations.iter().any(cites), "{question}: {response:#}");
        for support in response["supported"].as_array().expect("a list") {
            assert_eq!(support["score"], 1.0, "an extract is verbatim: {response:#}");
        }
    }
}

#[test]
fn is_searched_by_keywords_alone() {
    check_searches(&Riddle::new());
}

#[test]
fn answers_its_questions_with_vectors() {
    let Some(store) = real_models() else {
        return skipped(
            "the default embedder is not installed: `riddle models pull all-MiniLM-L6-v2`",
        );
    };
    let riddle = Riddle::with_models(store);
    check_searches(&riddle);
    check_answers(&riddle);
    let found = riddle.json(&["search", "how cold may the cabin get", "--no-rerank"]);
    assert_eq!(found["order"]["by"], "fused");
    assert!(found["timings_ms"]["embed"].as_f64() > Some(0.0), "{found:#}");
    assert!(found["memory"]["resident_weight_bytes"].as_u64() > Some(1 << 20), "{found:#}");
}

#[test]
fn what_the_library_does_not_know_is_not_answered() {
    let riddle = real_models().map_or_else(Riddle::new, Riddle::with_models);
    riddle.index(&sample());
    for question in ["Who is the president of Uruguay?", "What is the boiling point of tungsten?"] {
        let response = riddle.json(&["ask", question]);
        assert_eq!(response["answer"], Value::Null, "{question}: {response:#}");
        assert!(response["reason"].as_str().is_some_and(|it| !it.is_empty()), "{response:#}");
    }
}

#[test]
fn an_index_of_nothing_is_said_to_be_one() {
    let (riddle, empty) = (Riddle::new(), tempfile::TempDir::new().expect("a temporary folder"));
    riddle.index(empty.path());
    let page = riddle.run(&["search", "boat"]).ok();
    assert!(page.contains("riddle index FOLDER") && !page.contains("other words"), "{page}");
}

/// A phrase that stands nowhere, and what a minus leaves out, are told. What is pasted leaves nothing out.
#[test]
fn how_a_query_is_understood_is_told() {
    let (riddle, files) = (Riddle::new(), tempfile::TempDir::new().expect("a temporary folder"));
    write(files.path(), "boat.md", "# The boat\n\nThe hull is painted blue in the dry dock.\n");
    write(files.path(), "log.md", "# Changes\n\nShown by `git log -p --stat` in the dock.\n");
    riddle.index(files.path());
    let told = |query: &str| {
        let found = riddle.json(&["search", query]);
        let notices = found["notices"].as_array().expect("a list").iter().filter_map(Value::as_str);
        let of_query = |it: &&str| it.starts_with(['“', 'w']);
        (
            found["hits"].as_array().map_or(0, Vec::len),
            notices.filter(of_query).collect::<Vec<_>>().join("; "),
        )
    };
    let nowhere = "was not found as it is quoted: its words were searched for instead";
    assert_eq!(told("\"dry dock\""), (1, String::new()));
    assert_eq!(told("\"dock dry\""), (2, format!("“dock dry” {nowhere}")));
    assert_eq!(told("git log -p --stat"), (1, String::new()));
    let (hits, notices) = told("dock -painted");
    assert!(hits == 1 && notices.starts_with("without: “painted”"), "{hits}: {notices}");
    // What would speak to a terminal is gone.
    let page = riddle.run(&["search", "\"dock \u{1b}[31m\u{202e}dry\""]).ok();
    assert!(page.contains(&format!("note: “dock [31mdry” {nowhere}")), "{page}");
    let answered = riddle.run(&["ask", "What is in the dock -painted"]).ok();
    assert!(answered.contains("without: “painted”"), "{answered}");
}
