//! Nothing in a document runs, and nothing in the page reaches out.

mod common;

use std::path::Path;

use common::{Files, home};
use riddle_desktop_tests::{Error, Session};
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_policy_forbids_what_a_page_could_do() -> Result<(), Error> {
    let Some(program) = common::program() else { return Ok(()) };
    let home = home()?;
    let app = Session::start(&program, home.path()).await?;
    app.script(
        "window.violations = [];
         document.addEventListener('securitypolicyviolation', (it) => window.violations.push(it.effectiveDirective));
         const add = (name, set) => { const it = document.createElement(name); set(it); document.body.append(it); };
         add('script', (it) => { it.textContent = 'window.ran = true'; });
         add('script', (it) => { it.src = 'https://example.org/x.js'; });
         add('img', (it) => { it.src = 'https://example.org/x.png'; });
         add('iframe', (it) => { it.src = 'https://example.org/'; });
         add('p', (it) => { it.setAttribute('style', 'color: red'); });
         fetch('https://example.org/').catch(() => {});",
    )
    .await?;
    for directive in ["script-src", "img-src", "frame-src", "style-src", "connect-src"] {
        let told = format!("return window.violations.some((it) => it.startsWith('{directive}'))");
        app.until(&format!("a violation of {directive}"), &told).await?;
    }
    assert_eq!(app.script("return window.ran === undefined").await?, true);
    // The capability, from inside the page: Tauri's own commands are closed.
    for foreign in ["plugin:event|listen", "plugin:window|set_title", "plugin:opener|open_url"] {
        assert!(app.invoke(foreign, json!({})).await.is_err(), "{foreign}");
    }
    app.close().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_files_are_shown_as_text() -> Result<(), Error> {
    let Some(program) = common::program() else { return Ok(()) };
    let (home, files) = (home()?, Files::new()?);
    let folder = Path::new(files.path_text());
    let name = "quay <img src=x onerror=window.ran=1> \u{202e}fdp.md";
    let text = "# quay <script>window.ran=1</script>\n\nA quay <img src=x onerror=\"window.ran=1\"> and a \
        [link](javascript:window.ran=1) and <svg onload=\"window.ran=1\"></svg> \
        ![picture](https://example.org/x.png)\n";
    std::fs::write(folder.join(name), text)?;
    std::fs::write(
        folder.join("page.html"),
        format!("<h1>quay</h1><script>window.ran=1</script>{text}"),
    )?;
    std::fs::write(
        folder.join("drawing.svg"),
        "<svg onload='window.ran=1'><text>quay</text></svg>",
    )?;
    let app = Session::start(&program, home.path()).await?;
    let added: Value = app.invoke("library_add", json!({ "paths": [folder] })).await?;
    assert_eq!(added[0]["problem"], Value::Null);
    app.invoke("finish_first_run", json!({})).await?;
    common::indexed(&app).await?;
    app.close().await?;

    let app = Session::start(&program, home.path()).await?;
    app.script(
        "window.violations = [];
         document.addEventListener('securitypolicyviolation', (it) => window.violations.push(it.violatedDirective + ' ' + it.blockedURI));",
    )
    .await?;
    app.enter("search-input", "quay").await?;
    app.find("results-state", "[data-phase=\"settled\"][data-query=\"quay\"]").await?;
    let count = app.count("result").await?;
    assert!(count >= 2, "{count} results");
    for rank in 1..=count {
        app.click("result", &format!("[data-rank=\"{rank}\"]")).await?;
        app.find("preview-passage", "").await?;
    }
    let inside = "return document.querySelectorAll('[data-testid=preview] script, [data-testid=preview] iframe, \
        [data-testid=results] img, [data-testid=preview] img').length";
    assert_eq!(app.script(inside).await?, 0, "nothing of a document becomes an element that acts");
    assert_eq!(app.script("return window.ran === undefined").await?, true);
    assert_eq!(app.script("return window.violations").await?, json!([]));
    let shown = app.script("return document.body.innerText").await?;
    assert!(
        !shown.as_str().unwrap_or_default().contains('\u{202e}'),
        "no text turns its direction"
    );
    app.close().await
}
