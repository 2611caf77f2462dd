//! An encrypted library in the real window: it waits for its passphrase, opens, and is locked again at the next start.

mod common;

use common::Files;
use riddle_desktop_tests::{Error, Session};
use riddle_tests::Riddle;
use serde_json::json;

const PASSPHRASE: &str = "a door of oak";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_encrypted_library_waits_for_its_passphrase() -> Result<(), Error> {
    let Some(program) = common::program() else { return Ok(()) };
    let files = Files::new()?;
    let text = "# Mooring\n\nThe winter mooring costs 412 marks.\n";
    std::fs::write(format!("{}/mooring.md", files.path_text()), text)?;
    let riddle = Riddle::new().with_env(&[("RIDDLE_PASSPHRASE", PASSPHRASE)]);
    riddle.run(&["index", files.path_text()]).ok();
    riddle.run(&["encrypt"]).ok();

    let app = Session::start(&program, riddle.home()).await?;
    app.find("gate", "").await?;
    assert!(app.invoke("library", json!({})).await.is_err(), "nothing of it answers");
    app.enter("gate-passphrase", "a door of elm").await?;
    app.click("gate-go", "").await?;
    let said = "return document.getElementById('gate-problem')?.textContent.includes('passphrase')";
    app.until("it is told that this is another one", said).await?;
    app.enter("gate-passphrase", PASSPHRASE).await?;
    app.click("gate-go", "").await?;
    app.enter("search-input", "winter mooring").await?;
    let hits = "return document.querySelectorAll('[data-testid=result]').length === 1";
    app.until("the passage is found", hits).await?;
    let state = app.invoke("encryption", json!({})).await?;
    assert_eq!(state, json!({ "encrypted": true, "byPassphrase": true }));
    app.close().await?;

    let app = Session::start(&program, riddle.home()).await?;
    app.find("gate", "").await?;
    app.close().await?;
    riddle.run(&["decrypt"]).ok();
    Ok(())
}
