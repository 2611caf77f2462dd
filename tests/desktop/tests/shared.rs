//! A shared library in the real window: made known, written, searched, lost and found again.

mod common;

use std::{
    path::Path,
    time::{Duration, Instant},
};

use common::{Desktop, Files, home, wait_for};
use riddle_desktop_tests::{Error, PATIENCE, Session, repository};
use riddle_tests::{Riddle, milvus::Server, objects::Bucket};
use serde_json::json;

/// What a search of the shared library alone shows, once it shows what is expected.
async fn shows(app: &Session, asked: &str, what: &str, script: &str) -> Result<(), Error> {
    app.click("nav-search", "").await?;
    app.enter("search-input", asked).await?;
    app.until(what, script).await?;
    Ok(())
}

/// Chooses a library to be searched, too, or not any more.
async fn choose_library(app: &Session, name: &str) -> Result<(), Error> {
    app.click("filter-library", "").await?;
    let choose = format!(
        "const it = [...document.querySelectorAll('[role=menu] [role^=menuitem]')].find((it) => it.textContent.includes({}));
         it?.click(); return it !== undefined",
        json!(name)
    );
    app.until("a library to choose", &choose).await?;
    Ok(())
}

/// Waits until every passage has a vector.
async fn has_vectors(app: &Session) -> Result<(), Error> {
    let begun = Instant::now();
    loop {
        let state = app.invoke("library", json!({})).await?;
        let meaning = &state["meaning"];
        if meaning["done"] == meaning["passages"] && meaning["done"].as_u64() > Some(1) {
            return Ok(());
        }
        if begun.elapsed() > PATIENCE {
            return Err(format!("no vectors in time: {state}").into());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_library_elsewhere_is_written_searched_lost_and_found_again() -> Result<(), Error> {
    const STATE: &str = "document.querySelector('[data-testid=shared-state]')?.textContent";
    const HITS: &str = "document.querySelectorAll('[data-testid=result]').length";
    let Some(program) = common::program() else { return Ok(()) };
    let Some(mut server) = Server::start() else { return Ok(()) };
    let (home, files) = (home()?, Files::new()?);
    for (name, text) in [
        ("boat.md", "# Marlin\n\nThe hull of the Marlin is painted blue.\n"),
        ("roof.md", "The roof of the house is painted red.\n"),
        (
            "log.md",
            "# Monday\n\nThe winch was greased.\n\n# Tuesday\n\nThe capstan jammed.\n\n# Wednesday\n\nIt rained.\n",
        ),
    ] {
        std::fs::write(format!("{}/{name}", files.path_text()), text)?;
    }
    let app = Session::start(&program, home.path()).await?;
    let model = repository().join("tests/golden/tiny-bert-encoder").canonicalize()?;
    app.invoke("model_use", json!({ "kind": "embedder", "name": model })).await?;
    app.invoke("library_add", json!({ "paths": [files.path_text()] })).await?;
    common::indexed(&app).await?;
    has_vectors(&app).await?;
    app.invoke("finish_first_run", json!({})).await?;
    app.close().await?;

    // Made known and written, as a person does.
    let app = Session::start(&program, home.path()).await?;
    app.click("nav-settings", "").await?;
    app.enter("shared-name", "team").await?;
    app.enter("shared-address", &server.address("team")).await?;
    app.click("shared-add", " button[type=submit]").await?;
    let empty = format!("return {STATE}?.includes('Nothing is there')");
    app.until("nothing is there yet", &empty).await?;
    app.click("shared-write", "").await?;
    app.click("shared-write-yes", "").await?;
    app.find("shared-written", "").await?;
    let written = format!("return {STATE}?.includes('3 files') && {STATE}.includes('as of')");
    app.until("all files are there, and since when", &written).await?;

    // Searched alone: what this computer has is not asked.
    app.click("nav-search", "").await?;
    choose_library(&app, "team").await?;
    choose_library(&app, "This computer").await?;
    let both = format!("return {HITS} >= 2");
    shows(&app, "painted", "both passages are found there", &both).await?;

    // Around the passage stands what the library has of its file; the file opens where its folder is here.
    let one = format!(
        "return {HITS} >= 1 && document.querySelector('[data-testid=preview]')?.innerText.includes('It rained')"
    );
    shows(&app, "the capstan jammed", "the whole log in the preview", &one).await?;
    let chunk = "return Number(document.querySelector('[data-testid=preview]').dataset.chunk)";
    let chunk = app.script(chunk).await?;
    let preview = app.invoke("preview", json!({ "chunk": chunk, "query": "capstan" })).await?;
    let passages = preview["body"]["passages"].as_array().ok_or("passages")?;
    assert_eq!(passages.len(), 3, "{preview}");
    assert!(passages[1]["current"] == true && preview["here"].is_null(), "{preview}");
    let target = json!({ "target": { "kind": "chunk", "chunk": chunk } });
    let refused = app.invoke("open_file", target).await.expect_err("nowhere here");
    assert!(refused.to_string().contains("on another computer"), "{refused}");
    let (there, here) = (files.path_text(), tempfile::tempdir()?);
    let map = json!({ "name": "team", "there": there, "here": here.path() });
    app.invoke("shared_map", map).await?;
    let mapped = "return document.querySelector('[data-testid=preview-here]')?.textContent.includes('log.md')";
    shows(&app, "which capstan jammed", "where the file is here", mapped).await?;
    app.invoke("shared_map", json!({ "name": "team", "there": there, "here": null })).await?;

    // Lost: alone it is an error that can be tried again, beside this computer's files a notice.
    server.stop();
    let failed = "return document.body.innerText.includes('can not be reached')";
    shows(&app, "painted blue", "that its server is gone", failed).await?;
    choose_library(&app, "This computer").await?;
    let lost = format!(
        "return {HITS} >= 2 && [...document.querySelectorAll('.notice')].some((it) => it.textContent.includes('team is not searched'))"
    );
    app.until("that it is not searched, and what is here", &lost).await?;
    app.click("nav-settings", "").await?;
    let gone = format!("return {STATE}?.includes('can not be reached')");
    app.until("that its server is gone", &gone).await?;

    // And found again.
    server.start_again();
    app.click("nav-search", "").await?;
    choose_library(&app, "This computer").await?;
    shows(&app, "painted red", "both passages are found again", &both).await?;
    app.close().await
}

/// The files are on another computer, and in a store that it names. It asks for no key: no test has a keyring.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_another_computer_is_opened_from_the_store_that_keeps_it() -> Result<(), Error> {
    let Some(program) = common::program() else { return Ok(()) };
    let (Some(server), Some(mut bucket)) = (Server::start(), Bucket::for_everybody()) else {
        return Ok(());
    };
    let files = Files::new()?;
    let text = "# Winter plan\n\nIce closes the harbor in January.\n";
    std::fs::write(format!("{}/winter plan.md", files.path_text()), text)?;
    let writer = Riddle::new();
    let model = repository().join("tests/golden/tiny-bert-encoder").canonicalize()?;
    // As the app imports it below: a store of packed weights is another embedder than the published ones.
    writer.run(&["models", "import", &model.to_string_lossy()]).ok();
    writer.run(&["index", files.path_text(), "--embedder", "tiny-bert-encoder"]).ok();
    writer.run(&["library", "add", "team", &server.address("team")]).ok();
    writer.run(&["library", "originals", "team", &bucket.address()]).ok();
    assert_eq!(writer.json(&["library", "push", "team"])["originals"], 1);
    // Nothing is read where it was: only the store has it now.
    std::fs::remove_file(format!("{}/winter plan.md", files.path_text()))?;

    let home = home()?;
    let desktop = Desktop::new(home.path())?;
    let environment = desktop.environment();
    let app = Session::start_with(&program, home.path(), &environment).await?;
    let name = app.invoke("model_import", json!({ "path": model })).await?;
    app.invoke("model_use", json!({ "kind": "embedder", "name": name })).await?;
    app.invoke("finish_first_run", json!({})).await?;
    app.close().await?;
    let app = Session::start_with(&program, home.path(), &environment).await?;
    app.click("nav-settings", "").await?;
    app.enter("shared-name", "team").await?;
    app.enter("shared-address", &server.address("team")).await?;
    app.click("shared-add", " button[type=submit]").await?;

    // Until the store is known here, nothing is offered to be opened.
    app.click("nav-search", "").await?;
    choose_library(&app, "team").await?;
    let found = "return document.querySelector('[data-testid=preview]')?.innerText.includes('closes the harbor')";
    shows(&app, "ice harbor", "the passage in the preview", found).await?;
    assert_eq!(app.count("preview-open").await?, 0);
    let body = app.script("return document.body.innerText").await?;
    assert!(!body.as_str().unwrap_or_default().contains("meaning is off"), "{body}");

    // The store that the other computer names is offered: one key press takes it.
    app.click("nav-settings", "").await?;
    app.click("shared-inside", "").await?;
    let offered = format!(
        "return document.querySelector('[data-testid=shared-originals] input')?.value === {}",
        json!(bucket.address())
    );
    app.until("the store of the other computer", &offered).await?;
    app.click("shared-originals", " button[type=submit]").await?;
    let kept = format!(
        "return document.querySelector('[data-testid=shared-originals]').innerText.includes({})",
        json!(bucket.address())
    );
    app.until("the store is kept", &kept).await?;
    app.script("document.querySelector('dialog, [role=dialog]').dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape', bubbles: true, cancelable: true }))").await?;
    app.click("nav-search", "").await?;
    shows(&app, "harbor ice", "the passage in the preview", found).await?;
    app.click("preview-open", "").await?;
    let opened = wait_for("the file is opened", || {
        std::fs::read_to_string(&desktop.opened).ok().filter(|it| it.ends_with('\n'))
    })
    .await;
    let page = app.script("return document.body.innerText").await?;
    let opened = opened.map_err(|error| format!("{error}; {page}"))?;
    let opened = Path::new(opened.trim());
    assert!(opened.starts_with(home.path()) && opened.ends_with("winter plan.md"), "{opened:?}");
    assert_eq!(std::fs::read_to_string(opened)?, text);

    // With the store away, and the copy, that is told.
    bucket.stop();
    std::fs::remove_file(opened)?;
    app.click("preview-open", "").await?;
    let gone = "return [...document.querySelectorAll('[role=alert], [role=status]')].some((it) => it.innerText.includes('can not be reached'))";
    app.until("that the store is gone", gone).await?;
    app.close().await
}
