//! The process that draws the window is killed, as the kernel does when memory runs out: the window comes back.

mod common;

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};

use common::home;
use riddle_desktop_tests::{Error, PATIENCE};

/// The app without a driver, which would end with the view.
struct App {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Drop for App {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl App {
    fn start(program: &Path, home: &Path) -> Result<App, Error> {
        let mut child = Command::new(program)
            .env("RIDDLE_HOME", home)
            .env("HOME", home)
            .env("XDG_CONFIG_HOME", home.join("config"))
            .env("XDG_DATA_HOME", home.join("data"))
            .env("XDG_CACHE_HOME", home.join("cache"))
            .env("LANG", "C.UTF-8")
            .env("MESA_SHADER_CACHE_DISABLE", "true")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let errors = child.stderr.take().ok_or("no stderr")?;
        let (send, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(errors).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(App { child, lines })
    }

    /// Waits for a process of the app's that draws, other than `not`.
    fn view(&self, not: Option<u32>) -> Result<u32, Error> {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            for entry in std::fs::read_dir("/proc")?.flatten() {
                let Some(id) = entry.file_name().to_str().and_then(|it| it.parse::<u32>().ok())
                else {
                    continue;
                };
                let status =
                    std::fs::read_to_string(entry.path().join("status")).unwrap_or_default();
                let has = |name: &str, value: &str| {
                    status
                        .lines()
                        .any(|it| it.strip_prefix(name).is_some_and(|it| it.trim() == value))
                };
                if has("PPid:", &self.child.id().to_string())
                    && status.starts_with("Name:\tWebKitWebProces")
                    && !has("State:", "Z (zombie)")
                    && Some(id) != not
                {
                    return Ok(id);
                }
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err("no process draws the window".into())
    }

    fn says(&self, what: &str) -> Result<(), Error> {
        let begun = Instant::now();
        let mut said = Vec::new();
        while let Some(left) = PATIENCE.checked_sub(begun.elapsed()) {
            let Ok(line) = self.lines.recv_timeout(left) else { break };
            if line.contains(what) {
                return Ok(());
            }
            said.push(line);
        }
        Err(format!("never said {what:?}, but {said:?}").into())
    }
}

#[test]
fn a_view_that_ends_is_loaded_again() -> Result<(), Error> {
    let Some(program) = common::program() else { return Ok(()) };
    let home = home()?;
    let mut app = App::start(&program, home.path())?;
    let first = app.view(None)?;
    // The page may be there or not yet: both are to be survived.
    std::thread::sleep(Duration::from_secs(2));
    assert!(Command::new("kill").args(["-9", &first.to_string()]).status()?.success());
    app.says("it is loaded again")?;
    // The new page has asked for the library.
    app.says("the window is back")?;
    app.view(Some(first))?;
    assert!(app.child.try_wait()?.is_none(), "the app has ended");
    Ok(())
}
