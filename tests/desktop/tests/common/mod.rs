//! What several journeys need.

use std::{
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use riddle_desktop_tests::{Error, PATIENCE, Session, repository, requirements};
use serde_json::json;
use tempfile::TempDir;

/// The built app; says `SKIPPED` where a session can not be had.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
pub(crate) fn program() -> Option<PathBuf> {
    match requirements() {
        Ok(program) => Some(program),
        Err(why) => {
            eprintln!("SKIPPED: {why}");
            None
        }
    }
}

/// A home of a test's own. Short: a socket's path has 108 bytes at most.
#[allow(dead_code, reason = "each test program uses its own part of this module")]
pub(crate) fn home() -> std::io::Result<TempDir> {
    tempfile::Builder::new().prefix("riddle").tempdir()
}

/// A folder of files.
#[allow(dead_code, reason = "each test program uses its own part of this module")]
pub(crate) struct Files {
    _folder: TempDir,
    path: String,
}

#[allow(dead_code, reason = "each test program uses its own part of this module")]
impl Files {
    /// An empty one.
    pub(crate) fn new() -> std::io::Result<Files> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().canonicalize()?.to_string_lossy().into_owned();
        Ok(Files { _folder: folder, path })
    }

    /// Its path, to be typed.
    pub(crate) fn path_text(&self) -> &str {
        &self.path
    }
}

/// A copy of the sample library: what the app reads is nobody else's.
#[allow(dead_code, reason = "each test program uses its own part of this module")]
pub(crate) fn sample_library() -> std::io::Result<Files> {
    let files = Files::new()?;
    copy(&repository().join("assets/sample-library"), Path::new(files.path_text()))?;
    Ok(files)
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// Waits until everything is read.
#[allow(dead_code, reason = "each test program uses its own part of this module")]
pub(crate) async fn indexed(app: &Session) -> Result<(), Error> {
    let begun = Instant::now();
    loop {
        let state = app.invoke("library", json!({})).await?;
        if state["phase"] == "watching" && state["passages"].as_u64() > Some(0) {
            return Ok(());
        }
        if begun.elapsed() > PATIENCE {
            return Err(format!("not indexed in time: {state}").into());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Sets a slider or a list as a person does: the value, and the events that follow.
#[allow(dead_code, reason = "each test program uses its own part of this module")]
pub(crate) async fn choose(app: &Session, id: &str, value: &str) -> Result<(), Error> {
    app.find(id, "").await?;
    let script = format!(
        "const it = document.querySelector('[data-testid={id}]');
         const set = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(it), 'value').set;
         set.call(it, {});
         it.dispatchEvent(new Event('input', {{ bubbles: true }}));
         it.dispatchEvent(new Event('change', {{ bubbles: true }}));
         return it.value;",
        json!(value)
    );
    app.script(&script).await?;
    Ok(())
}

/// Waits until `found` finds something.
#[allow(dead_code, reason = "each test program uses its own part of this module")]
pub(crate) async fn wait_for<T>(
    what: &str,
    mut found: impl FnMut() -> Option<T>,
) -> Result<T, Error> {
    let begun = Instant::now();
    loop {
        match found() {
            Some(it) => return Ok(it),
            None if begun.elapsed() > PATIENCE => return Err(format!("in vain: {what}").into()),
            None => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// A desktop that opens files by writing down their names.
#[allow(dead_code, reason = "each test program uses its own part of this module")]
pub(crate) struct Desktop {
    bin: PathBuf,
    /// What was opened, one in a line.
    pub(crate) opened: PathBuf,
}

#[allow(dead_code, reason = "each test program uses its own part of this module")]
impl Desktop {
    /// With its programs below `home`.
    pub(crate) fn new(home: &Path) -> Result<Desktop, Error> {
        let desktop = Desktop { bin: home.join("bin"), opened: home.join("opened") };
        std::fs::create_dir(&desktop.bin)?;
        let opener = desktop.bin.join("xdg-open");
        let script = format!("#!/bin/sh\nprintf '%s\\n' \"$1\" >>'{}'\n", desktop.opened.display());
        std::fs::write(&opener, script)?;
        std::fs::set_permissions(&opener, std::fs::Permissions::from_mode(0o755))?;
        Ok(desktop)
    }

    /// What the app has to be started with.
    pub(crate) fn environment(&self) -> Vec<(&'static str, String)> {
        let path = std::env::var("PATH").unwrap_or_default();
        vec![("PATH", format!("{}:{path}", self.bin.display()))]
    }

    /// Waits until that is opened.
    pub(crate) async fn opens(&self, what: &Path) -> Result<(), Error> {
        wait_for(&format!("{} is opened", what.display()), || {
            let opened = std::fs::read_to_string(&self.opened).unwrap_or_default();
            opened.lines().any(|it| Path::new(it) == what).then_some(())
        })
        .await
    }
}
