//! What the app asks of the desktop around it: opening files, folders by dialog, a key of its own, a place among the
//! programs that start at login.

mod common;

use std::{
    path::{Path, PathBuf},
    process::{Child, Command},
    time::{Duration, Instant},
};

use common::{Desktop, Files, home, indexed, sample_library, wait_for};
use riddle_desktop_tests::{Error, PATIENCE, Session};
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hit_is_opened_and_shown_in_its_folder() -> Result<(), Error> {
    let Some(program) = common::program() else { return Ok(()) };
    let (home, files) = (home()?, sample_library()?);
    let desktop = Desktop::new(home.path())?;
    let app = Session::start_with(&program, home.path(), &desktop.environment()).await?;
    app.invoke("library_add", json!({ "paths": [files.path_text()] })).await?;
    app.invoke("finish_first_run", json!({})).await?;
    indexed(&app).await?;
    app.script("location.reload()").await?;
    app.enter("search-input", "oven door seals").await?;
    app.find("results-state", "[data-phase=settled]").await?;
    let first =
        app.script("return document.querySelector('[data-testid=result]').innerText").await?;
    let input = app.find("search-input", "").await?;
    input.send_keys("\u{e007}").await?;
    let opened = wait_for("something is opened", || {
        std::fs::read_to_string(&desktop.opened).ok().filter(|it| it.ends_with('\n'))
    })
    .await?;
    let opened = Path::new(opened.trim());
    assert!(opened.starts_with(files.path_text()) && opened.is_file(), "{}", opened.display());
    let name = opened.file_name().and_then(|it| it.to_str()).ok_or("no name")?;
    assert!(first.as_str().is_some_and(|it| it.contains(name)), "{first} is not {name}");
    // No file manager listens here: the folder is opened instead.
    app.script(
        "document.querySelector('[data-testid=search-input]').dispatchEvent(
             new KeyboardEvent('keydown', { key: 'Enter', ctrlKey: true, bubbles: true, cancelable: true }))",
    )
    .await?;
    desktop.opens(opened.parent().ok_or("a root")?).await?;
    app.close().await
}

/// Changes settings as the page does; the problems.
async fn set(app: &Session, name: &str, value: Value) -> Result<Value, Error> {
    let mut settings = app.invoke("settings", json!({})).await?["settings"].take();
    settings[name] = value;
    let state = app.invoke("settings_set", json!({ "settings": settings })).await?;
    Ok(state["problems"].clone())
}

/// The file among those that start at login.
fn starter(home: &Path) -> Option<PathBuf> {
    [home.join("config/autostart"), home.join(".config/autostart")].iter().find_map(|folder| {
        let entries = std::fs::read_dir(folder).ok()?;
        entries
            .flatten()
            .map(|it| it.path())
            .find(|it| it.extension().is_some_and(|it| it == "desktop"))
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_starts_at_login_and_comes_at_a_key() -> Result<(), Error> {
    let Some(program) = common::program() else { return Ok(()) };
    let home = home()?;
    let app = Session::start(&program, home.path()).await?;
    app.invoke("finish_first_run", json!({})).await?;
    app.script("location.reload()").await?;
    app.find("search-input", "").await?;

    assert_eq!(set(&app, "startAtLogin", json!(true)).await?, json!([]));
    let entry = std::fs::read_to_string(starter(home.path()).ok_or("nothing starts at login")?)?;
    let starts = format!("Exec={} --hidden", program.display());
    assert!(entry.lines().any(|it| it.trim() == starts), "{entry}");
    assert_eq!(set(&app, "startAtLogin", json!(false)).await?, json!([]));
    assert_eq!(starter(home.path()), None);

    let problems = set(&app, "shortcut", json!("Ctrl+Nonsense")).await?;
    assert_eq!(problems[0]["setting"], "shortcut", "{problems}");
    assert_eq!(set(&app, "shortcut", json!("Ctrl+Alt+Shift+F9")).await?, json!([]));
    if press("ctrl+alt+shift+F9") {
        summoned(&app, || press("ctrl+alt+shift+F9")).await?;
    }
    // Where no program may take a key, the desktop's key starts a second one that tells the first.
    let toggle = || {
        let mut second = Command::new(&program);
        second.arg("toggle").env("RIDDLE_HOME", home.path()).env("HOME", home.path());
        second.status().is_ok_and(|it| it.success())
    };
    summoned(&app, toggle).await?;
    // The tray needs a bus, which no test has: that is told or not, and the app goes on.
    set(&app, "tray", json!(true)).await?;
    summoned(&app, toggle).await?;
    set(&app, "tray", json!(false)).await?;
    app.close().await
}

/// Waits until what calls the window brings it, with its search box ready.
async fn summoned(app: &Session, call: impl Fn() -> bool) -> Result<(), Error> {
    // Someone else has the focus.
    app.script("document.activeElement.blur()").await?;
    let begun = Instant::now();
    let focus = "return document.activeElement?.dataset.testid === 'search-input'";
    while app.script(focus).await? != true {
        assert!(begun.elapsed() < PATIENCE, "the search box has no focus");
        // In front it hides, hidden it comes back: one of two is enough.
        assert!(call(), "nothing calls the window");
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    Ok(())
}

/// Presses a key as a keyboard does; false where that can not be done.
fn press(key: &str) -> bool {
    Command::new("xdotool").args(["key", key]).status().is_ok_and(|it| it.success())
}

/// Whether something can type into dialogs; says `SKIPPED` where nothing can.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn has_keyboard() -> bool {
    let found = Command::new("xdotool").arg("version").output().is_ok();
    if !found {
        eprintln!("SKIPPED: xdotool is not installed: nothing types into dialogs");
    }
    found
}

/// Windows of that title, one in a line.
fn windows(title: &str) -> Option<String> {
    let search = ["search", "--onlyvisible", "--name", title];
    let found = Command::new("xdotool").args(search).output().ok()?;
    Some(String::from_utf8_lossy(&found.stdout).into_owned())
}

/// Does something with a dialog.
async fn act(arguments: &[&str]) -> Result<(), Error> {
    if !Command::new("xdotool").args(arguments).status()?.success() {
        return Err(format!("xdotool {arguments:?}").into());
    }
    // What opens in a dialog opens a moment later.
    tokio::time::sleep(Duration::from_millis(500)).await;
    Ok(())
}

/// Waits for the dialog of that title and types a path into it.
async fn answer(title: &str, path: &str) -> Result<(), Error> {
    let dialog = wait_for(title, || windows(title)?.lines().next_back().map(str::to_owned)).await?;
    act(&["windowfocus", "--sync", &dialog]).await?;
    act(&["key", "ctrl+l"]).await?;
    act(&["type", "--delay", "20", path]).await?;
    // The first Return may only complete the path.
    for _ in 0..8 {
        act(&["key", "Return"]).await?;
        if windows(title).is_some_and(|it| it.is_empty()) {
            return Ok(());
        }
    }
    Err(format!("{title:?} does not close").into())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn folders_are_picked_and_figures_saved_in_dialogs() -> Result<(), Error> {
    let Some(program) = common::program() else { return Ok(()) };
    if !has_keyboard() {
        return Ok(());
    }
    let (home, files) = (home()?, sample_library()?);
    let app = Session::start(&program, home.path()).await?;
    app.invoke("finish_first_run", json!({})).await?;
    let begin = |command: &str| {
        format!(
            "window.reply = undefined; window.__TAURI_INTERNALS__.invoke('{command}').then((it) => {{ window.reply = [it]; }})"
        )
    };
    app.script(&begin("library_add_dialog")).await?;
    answer("Folders to search", files.path_text()).await?;
    let added = app.until("folders are added", "return window.reply").await?;
    assert_eq!(added[0][0]["problem"], Value::Null, "{added}");
    indexed(&app).await?;

    let file = Files::new()?;
    let path = Path::new(file.path_text()).join("figures.json");
    app.script(&begin("performance_export")).await?;
    // The dialog keeps the ending of the name that it proposes.
    answer("Save figures", path.with_extension("").to_str().ok_or("no text")?).await?;
    let saved = app.until("figures are saved", "return window.reply").await?;
    assert_eq!(saved[0], path.to_str().ok_or("no text")?);
    let figures: Value = serde_json::from_slice(&std::fs::read(&path)?)?;
    assert!(figures["memory"].is_array() && figures["stages"].is_array(), "{figures}");

    // Closed without an answer: nothing happens.
    app.script(&begin("library_add_dialog")).await?;
    let title = "Folders to search";
    let dialog = wait_for(title, || windows(title)?.lines().next_back().map(str::to_owned)).await?;
    act(&["windowfocus", "--sync", &dialog]).await?;
    act(&["key", "Escape"]).await?;
    assert_eq!(app.until("the dialog is closed", "return window.reply").await?, json!([[]]));
    app.close().await
}

/// A window in the corner that a path can be dragged from; it goes with this.
struct DragSource(Child);

impl Drop for DragSource {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Drags a path over the window, and drops it there.
async fn drag(app: &Session, path: &str) -> Result<(), Error> {
    let source = Command::new(env!("CARGO_BIN_EXE_drag-source")).arg(path).spawn()?;
    let _source = DragSource(source);
    wait_for("a window to drag from", || windows("Drag source").filter(|it| !it.is_empty()))
        .await?;
    act(&["mousemove", "30", "30", "mousedown", "1"]).await?;
    for step in 1..=6 {
        let at = (30 + step * 60).to_string();
        act(&["mousemove", &at, &at]).await?;
    }
    app.find("drop-target", "").await?;
    act(&["mouseup", "1"]).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_that_is_dropped_on_the_window_is_searched() -> Result<(), Error> {
    let Some(program) = common::program() else { return Ok(()) };
    if !has_keyboard() {
        return Ok(());
    }
    let (home, files) = (home()?, sample_library()?);
    let app = Session::start(&program, home.path()).await?;
    app.find("first-run", "").await?;
    drag(&app, files.path_text()).await?;
    app.find("first-run-folder", "").await?;
    indexed(&app).await?;
    // A file stands for its folder, which is read already: that is told, and nothing is added.
    let file = format!("{}/home/to-do.txt", files.path_text());
    drag(&app, &file).await?;
    app.until(
        "a file is refused",
        "return [...document.querySelectorAll('[role=alert], [role=status]')].some((it) => it.innerText.includes('indexed already')) || null",
    )
    .await?;
    let folders = app.invoke("library", json!({})).await?["folders"].as_array().map(Vec::len);
    assert_eq!(folders, Some(1));
    app.close().await
}

/// Variables of a system that speaks German, whose locale is made below `home`; says `SKIPPED` where it can not be.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn german(home: &Path) -> Option<Vec<(&'static str, String)>> {
    let locales = home.join("locales");
    let made = std::fs::create_dir(&locales).and_then(|()| {
        let mut localedef = Command::new("localedef");
        localedef.args(["-i", "de_DE", "-f", "UTF-8"]).arg(locales.join("de_DE.UTF-8"));
        localedef.output()
    });
    if !made.is_ok_and(|it| it.status.success()) {
        eprintln!(
            "SKIPPED: no localedef, or no description of de_DE, to make a German system with"
        );
        return None;
    }
    let german = || "de_DE.UTF-8".to_owned();
    let path = locales.to_string_lossy().into_owned();
    Some(vec![("LOCPATH", path), ("LC_ALL", german()), ("LANG", german())])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_speaks_german_where_the_system_does() -> Result<(), Error> {
    let Some(program) = common::program() else { return Ok(()) };
    let home = home()?;
    let Some(environment) = german(home.path()) else { return Ok(()) };
    let app = Session::start_with(&program, home.path(), &environment).await?;
    app.invoke("finish_first_run", json!({})).await?;
    app.script("location.reload()").await?;
    // Whichever page is asked: the one that goes away has no name of the library yet.
    let speaks = |language: &str, library: &str| {
        format!(
            "return document.documentElement.lang === '{language}'
                 && document.querySelector('[data-testid=nav-library]')?.innerText.trim() === '{library}'"
        )
    };
    app.until("it speaks German", &speaks("de", "Bibliothek")).await?;
    // And English where it is told to, in the same system.
    assert_eq!(set(&app, "language", json!("en")).await?, json!([]));
    app.until("it speaks English", &speaks("en", "Library")).await?;
    app.close().await
}
