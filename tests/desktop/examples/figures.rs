//! Measures the built app: cold start, key to first hits, memory when idle. Prints JSON.
//!
//! `cargo run -p riddle-desktop-tests --example figures -- FOLDER [SECONDS]`, under `xvfb-run`, with
//! `RIDDLE_DESKTOP` naming a release build. `FOLDER` is indexed into a home of the run's own; `SECONDS` is how long
//! to wait before memory is read (75: models leave it after 60).
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "an example's output is its point")]

use std::time::Duration;

use riddle_desktop_tests::{Error, Session, requirements};
use serde_json::{Value, json};

/// What is typed, key by key.
const QUERIES: [&str; 8] = [
    "winter mooring",
    "thinnest plate of the hull",
    "rye bread overnight",
    "notice to end the lease",
    "door seals",
    "engine oil",
    "who is fritzi",
    "invoice october",
];

/// Between two keys: a fast typist.
const BETWEEN_KEYS: Duration = Duration::from_millis(110);

#[tokio::main]
async fn main() -> Result<(), Error> {
    let program = requirements()?;
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("which folder?")?;
    let seconds = arguments.next().and_then(|it| it.parse().ok()).unwrap_or(75);
    let given = std::env::var_os("RIDDLE_FIGURES_HOME").map(std::path::PathBuf::from);
    let temporary = tempfile::Builder::new().prefix("riddle").tempdir()?;
    let home = given.unwrap_or_else(|| temporary.path().to_path_buf());
    let app = Session::start(&program, &home).await?;
    app.invoke("library_add", json!({ "paths": [std::path::absolute(folder)?] })).await?;
    app.invoke("finish_first_run", json!({})).await?;
    while {
        let state = app.invoke("library", json!({})).await?;
        state["phase"] != "watching" || state["passages"] == 0
    } {
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    app.close().await?;
    // Warm files, as on every start but the first of a day.
    let mut starts = Vec::new();
    for _ in 0..5 {
        let app = Session::start(&program, &home).await?;
        tokio::time::sleep(Duration::from_secs(2)).await;
        starts.extend(app.invoke("about", json!({})).await?["coldStartMs"].as_f64());
        app.close().await?;
    }
    starts.sort_by(f64::total_cmp);
    eprintln!("starts {starts:?}");
    let app = Session::start(&program, &home).await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    for query in QUERIES {
        app.enter("search-input", "").await?;
        let input = app.find("search-input", "").await?;
        for key in query.chars() {
            input.send_keys(&key.to_string()).await?;
            tokio::time::sleep(BETWEEN_KEYS).await;
        }
        tokio::time::sleep(Duration::from_millis(700)).await;
    }
    let typed = app.invoke("performance", json!({})).await?;
    app.enter("search-input", "").await?;
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let idle = app.invoke("performance", json!({})).await?;
    let stage = |name: &str| -> Value {
        let stages = typed["stages"].as_array().into_iter().flatten();
        stages
            .filter(|it| it["stage"] == name)
            .map(|it| json!({ "p50": it["p50"], "p95": it["p95"], "count": it["count"] }))
            .next()
            .unwrap_or(Value::Null)
    };
    println!(
        "{}",
        serde_json::to_string_pretty(&json!({
            "cold_start_ms": starts,
            "passages": typed["passages"],
            "stages": typed["stages"],
            "first_hits_ms": stage("first_hits"),
            "key_to_first_hits_ms": stage("key_to_first_hits"),
            "processes_after_typing": typed["processes"],
            "processes_idle": idle["processes"],
        }))?
    );
    app.close().await
}
