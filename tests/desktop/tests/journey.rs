//! The whole way of a person through the app: first run, search, preview, question, citation, threshold,
//! comparison, and everything still there after a restart.

mod common;

use common::{Files, choose, home, sample_library};
use riddle_desktop_tests::{Error, Session, repository};
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn from_the_first_run_to_a_restart() -> Result<(), Error> {
    let Some(program) = common::program() else { return Ok(()) };
    let (home, files) = (home()?, sample_library()?);
    let app = Session::start(&program, home.path()).await?;
    first_run(&app, &files).await?;
    common::indexed(&app).await?;
    // A real architecture with random weights: what it prefers does not matter here, that it runs does.
    let model = repository().join("tests/golden/tiny-bert-cross-encoder").canonicalize()?;
    app.invoke("model_use", json!({ "kind": "reranker", "name": model })).await?;
    search_and_preview(&app).await?;
    ask_and_jump(&app).await?;
    move_the_threshold(&app).await?;
    app.close().await?;

    let app = Session::start(&program, home.path()).await?;
    assert_eq!(app.count("first-run").await?, 0, "the first run is over");
    let settings = app.invoke("settings", json!({})).await?;
    assert_eq!(settings["settings"]["rerank"]["pruning"]["kind"], "threshold", "{settings}");
    app.click("nav-ask", "").await?;
    app.find("thread-item", "").await?;
    app.click("nav-search", "").await?;
    app.enter("search-input", "hull survey").await?;
    app.find("result", "[data-rank=\"1\"]").await?;
    app.click("nav-library", "").await?;
    app.find("library-folder", "").await?;
    app.close().await
}

async fn first_run(app: &Session, files: &Files) -> Result<(), Error> {
    app.find("first-run", "").await?;
    app.enter("first-run-path", files.path_text()).await?;
    app.click("first-run-add", "").await?;
    app.find("first-run-folder", "").await?;
    app.click("first-run-next", "").await?;
    app.click("first-run-next", "").await?;
    app.click("first-run-done", "").await?;
    app.find("search-input", "").await?;
    Ok(())
}

async fn search_and_preview(app: &Session) -> Result<(), Error> {
    app.click("nav-search", "").await?;
    app.enter("search-input", "winter mooring").await?;
    app.find("results-state", "[data-phase=\"settled\"][data-query=\"winter mooring\"]").await?;
    assert!(app.count("result").await? > 0);
    app.click("result", "[data-rank=\"1\"]").await?;
    app.find("preview-passage", "").await?;
    // A page of a PDF is drawn by pdf.js, its worker allowed by the policy.
    app.enter("search-input", "thinnest plate of the hull survey").await?;
    let found = "const rows = [...document.querySelectorAll('[data-testid=result]')];
        return rows.some((it) => it.textContent.includes('.pdf') || it.querySelector('[data-kind=pdf]'))";
    app.until("a PDF among the results", found).await?;
    Ok(())
}

async fn ask_and_jump(app: &Session) -> Result<(), Error> {
    app.click("nav-ask", "").await?;
    app.enter("ask-input", "When does the winter mooring start?").await?;
    app.click("ask-send", "").await?;
    app.find("answer", "[data-state=\"done\"]").await?;
    app.find("answer-sentence", "").await?;
    let citation = app.find("citation", "").await?;
    let chunk = citation.attr("data-chunk").await?.unwrap_or_default();
    app.click("citation", "").await?;
    app.find("preview", &format!("[data-chunk=\"{chunk}\"]")).await?;
    app.find("preview-passage", "").await?;
    Ok(())
}

async fn move_the_threshold(app: &Session) -> Result<(), Error> {
    // The panel shows the last run that was reranked.
    app.click("nav-search", "").await?;
    app.enter("search-input", "winter").await?;
    app.find("results-state", "[data-phase=\"settled\"][data-query=\"winter\"]").await?;
    app.click("nav-pipeline", "").await?;
    app.find("pipeline-stage", "[data-stage=\"rerank\"]").await?;
    assert!(app.count("candidate-line").await? > 0);
    choose(app, "mode", "set").await?;
    choose(app, "threshold", "0.05").await?;
    app.find("replay-result", "[data-threshold=\"0.05\"]").await?;
    choose(app, "threshold", "0").await?;
    app.find("replay-result", "[data-threshold=\"0\"]").await?;
    app.click("apply-settings", "").await?;
    let kept = "return document.querySelector('[data-testid=replay-result]') !== null";
    app.until("the panel goes on", kept).await?;
    app.click("compare", "").await?;
    let comparison = app.find("comparison", "[data-same-set]").await?;
    assert!(
        comparison.attr("data-same-set").await?.is_some_and(|it| it == "true" || it == "false")
    );
    let kept: Value = app.invoke("settings", json!({})).await?;
    assert_eq!(kept["settings"]["rerank"]["mode"], "set", "{kept}");
    Ok(())
}
