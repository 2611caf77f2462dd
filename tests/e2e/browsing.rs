//! Browsing history: in the ledger and unread before a person agrees, found then, and gone when they take it back.

use std::path::Path;

use riddle_tests::{Riddle, write};
use rusqlite::Connection;
use tempfile::TempDir;

/// A history as Firefox keeps it, with one page that was visited in November 2026.
fn history(at: &Path) {
    let made = Connection::open(at).expect("a database");
    made.execute_batch(
        "CREATE TABLE moz_places (id INTEGER PRIMARY KEY, url LONGVARCHAR, title LONGVARCHAR,
             hidden INTEGER DEFAULT 0 NOT NULL, last_visit_date INTEGER);
         INSERT INTO moz_places (url, title, last_visit_date) VALUES
             ('https://boats.example/antifouling?token=1', 'Antifouling compared', 1796040000000000);",
    )
    .expect("SQL");
}

#[test]
fn browsing_history_is_read_when_a_person_agrees_and_gone_when_they_do_not() {
    let (riddle, files) = (Riddle::new(), TempDir::new().expect("a folder"));
    write(files.path(), "boat.md", "# Boat\n\nSandpiper is nine metres long.\n");
    history(&files.path().join("places.sqlite"));
    let found = |riddle: &Riddle| {
        let hits = riddle.json(&["search", "antifouling"]).to_string();
        hits.contains("https://boats.example/antifouling")
    };

    let report = riddle.index(files.path());
    assert_eq!(report["states"]["excluded"], 1, "{report:#}");
    let ledger = riddle.json(&["status", "--files"]).to_string();
    assert!(ledger.contains("browsing history: it is read when you allow it"), "{ledger}");
    assert!(!found(&riddle));

    let report = riddle.json(&["index", "--browsing-history", "yes"]);
    assert_eq!(
        (&report["read"], &report["states"]["indexed"]),
        (&1.into(), &2.into()),
        "{report:#}"
    );
    assert!(found(&riddle));
    let hits = riddle.json(&["search", "antifouling", "--type", "history"]).to_string();
    assert!(hits.contains("2026-11-30") && !hits.contains("token"), "{hits}");
    assert_eq!(riddle.json(&["index", "--browsing-history", "yes"])["read"], 0, "as it was");

    let report = riddle.json(&["index", "--browsing-history", "no"]);
    assert_eq!(report["states"]["excluded"], 1, "{report:#}");
    assert!(!found(&riddle));
}
