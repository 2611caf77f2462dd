//! A language model on this computer: imported, chosen, it writes an answer, says what that took, and stops.

mod common;

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use common::{Files, choose, home};
use riddle_desktop_tests::{Error, PATIENCE, Session};
use riddle_weights::gguf::{RandomModel, write_random};
use serde_json::json;

const QUESTION: &str = "What does the winter mooring cost?";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_on_this_computer_writes_an_answer_and_stops() -> Result<(), Error> {
    let Some(program) = common::program() else { return Ok(()) };
    let (home, files, models) = (home()?, Files::new()?, Files::new()?);
    let text = "# Mooring\n\nThe winter mooring costs 240 pounds a month.\n";
    std::fs::write(Path::new(files.path_text()).join("mooring.md"), text)?;
    let app = Session::start(&program, home.path()).await?;
    app.invoke("library_add", json!({ "paths": [files.path_text()] })).await?;
    app.invoke("finish_first_run", json!({})).await?;
    common::indexed(&app).await?;

    app.close().await?;

    // The way to a model is shown where there is none.
    let app = Session::start(&program, home.path()).await?;
    app.click("nav-settings", "").await?;
    app.find("no-writer", "").await?;
    let name = app.invoke("model_import", json!({ "path": tiny_model(&models)? })).await?;
    assert_eq!(name, "tiny");
    app.find("model-row", "[data-name=\"tiny\"][data-active=\"false\"]").await?;
    let listed = "return [...document.querySelectorAll('[data-testid=setting-llm] option')]
        .some((it) => it.value === 'local:tiny')";
    app.until("the model among those who answer", listed).await?;
    choose(&app, "setting-llm", "local:tiny").await?;
    app.find("local-state", "[data-fit=\"fits\"]").await?;
    choose(&app, "local-context", "2048").await?;
    app.find("model-row", "[data-name=\"tiny\"][data-active=\"true\"]").await?;
    kept(&app).await?;

    answer(&app).await?;
    stop(&app).await?;
    app.close().await
}

/// Waits until the settings are kept.
async fn kept(app: &Session) -> Result<(), Error> {
    let begun = Instant::now();
    loop {
        let settings = app.invoke("settings", json!({})).await?["settings"].clone();
        if settings["llm"] == "local:tiny" && settings["local"]["contextTokens"] == 2048 {
            return Ok(());
        }
        if begun.elapsed() > PATIENCE {
            return Err(format!("not kept in time: {settings}").into());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A model whose words make no sense, in a folder to be imported.
fn tiny_model(models: &Files) -> Result<PathBuf, Error> {
    let folder = Path::new(models.path_text()).join("tiny");
    std::fs::create_dir(&folder)?;
    write_random(RandomModel::TinyQwen3, "q8_0".parse()?, &folder.join("tiny.gguf"))?;
    Ok(folder)
}

/// Words are written, and what they took is shown below them and in the panel.
async fn answer(app: &Session) -> Result<(), Error> {
    app.click("nav-ask", "").await?;
    app.enter("ask-input", QUESTION).await?;
    app.click("ask-send", "").await?;
    app.find("answer", "[data-state=\"done\"]").await?;
    let figures = app.find("generation", "").await?;
    let tokens: u32 = figures.attr("data-tokens").await?.unwrap_or_default().parse()?;
    assert!(tokens > 0, "the model has written");
    let told = figures.text().await?;
    assert!(told.contains("tokens/s"), "{told}");
    let page = app.script("return document.body.innerText").await?;
    let page = page.as_str().unwrap_or_default();
    assert!(page.contains("Written by tiny on this computer"), "{page}");
    app.click("nav-pipeline", "").await?;
    app.find("generation-figures", "[data-streamed=\"false\"]").await?;
    Ok(())
}

/// Stopped as soon as that can be pressed, the answer says so.
async fn stop(app: &Session) -> Result<(), Error> {
    app.click("nav-ask", "").await?;
    app.script(
        "new MutationObserver((_, observer) => {
            const stop = document.querySelector('[data-testid=ask-stop]');
            if (stop) { observer.disconnect(); stop.click(); }
        }).observe(document.body, { childList: true, subtree: true });",
    )
    .await?;
    let before = app.count("answer").await?;
    app.enter("ask-input", QUESTION).await?;
    app.click("ask-send", "").await?;
    let stopped = format!(
        "const all = document.querySelectorAll('[data-testid=answer]');
         const last = all[all.length - 1];
         return all.length === {} && last.dataset.state === 'done' && last.textContent.includes('Stopped.')",
        before + 1
    );
    app.until("the answer is stopped", &stopped).await?;
    Ok(())
}
