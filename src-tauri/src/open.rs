//! Handing a file to the desktop, and saving one where the person says.

use std::path::Path;

use serde::Serialize;
use tauri::{AppHandle, Runtime};

use crate::{desktop, dto::Failure, failure::Reply, folders};

/// Opens a file in the program that the desktop has for it.
pub(crate) fn open(path: &Path) -> Reply<()> {
    opener::open(path).map_err(Failure::other)
}

/// Shows a file in the file manager. One that can not mark a file shows its folder.
pub(crate) fn reveal(path: &Path) -> Reply<()> {
    match (mark(path), path.parent()) {
        (Ok(()), _) => Ok(()),
        (Err(error), Some(folder)) => {
            tracing::warn!("the file manager can not mark a file: {error}");
            open(folder)
        }
        (Err(error), None) => Err(Failure::other(error)),
    }
}

/// The file manager's name on the session's bus, and of what it can be asked for (freedesktop.org).
#[cfg(target_os = "linux")]
const FILE_MANAGER: &str = "org.freedesktop.FileManager1";

#[cfg(target_os = "linux")]
fn mark(path: &Path) -> anyhow::Result<()> {
    mark_on(&dbus::blocking::Connection::new_session()?, path)
}

/// Asks the file manager of a bus to mark a file in its folder.
#[cfg(target_os = "linux")]
fn mark_on(bus: &dbus::blocking::Connection, path: &Path) -> anyhow::Result<()> {
    /// A file manager that is not running is started for it.
    const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);
    let Ok(file) = tauri::Url::from_file_path(path) else {
        anyhow::bail!("{} is no path from the root", path.display());
    };
    let manager = bus.with_proxy(FILE_MANAGER, "/org/freedesktop/FileManager1", PATIENCE);
    let () = manager.method_call(FILE_MANAGER, "ShowItems", (vec![file.as_str()], ""))?;
    Ok(())
}

#[cfg(target_os = "macos")]
fn mark(path: &Path) -> anyhow::Result<()> {
    let status = std::process::Command::new("open").arg("-R").arg(path).status()?;
    anyhow::ensure!(status.success(), "`open -R` ended with {status}");
    Ok(())
}

#[cfg(windows)]
fn mark(path: &Path) -> anyhow::Result<()> {
    // Whether it could, Explorer does not say.
    let mut select = std::ffi::OsString::from("/select,");
    select.push(path);
    std::process::Command::new("explorer.exe").arg(select).spawn()?;
    Ok(())
}

/// Asks where to, and writes a value there; the path, or nothing when the dialog was closed.
pub(crate) fn save_json<R: Runtime>(
    app: &AppHandle<R>,
    name: &str,
    value: &impl Serialize,
) -> Reply<Option<String>> {
    let title = desktop::words(app).save_figures;
    let chosen = folders::dialog(app, &title).set_file_name(name).blocking_save_file();
    let Some(path) = chosen.and_then(|it| it.into_path().ok()) else { return Ok(None) };
    let text = serde_json::to_vec_pretty(value).map_err(Failure::other)?;
    std::fs::write(&path, text)
        .map_err(|error| Failure::other(format!("{}: {error}", path.display())))?;
    Ok(Some(crate::convert::shown(&path)))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::{
        io::{BufRead as _, BufReader},
        process::{Child, Command, Stdio},
        sync::mpsc,
        time::Duration,
    };

    use dbus::{
        blocking::Connection, channel::Channel, channel::MatchingReceiver as _, message::MatchRule,
    };

    use super::*;

    /// A bus of the test's own.
    struct Bus {
        daemon: Child,
        address: String,
    }

    impl Bus {
        fn start() -> Option<Bus> {
            let mut command = Command::new("dbus-daemon");
            command.args(["--session", "--nofork", "--print-address"]);
            let mut daemon = command.stdout(Stdio::piped()).spawn().ok()?;
            let mut address = String::new();
            BufReader::new(daemon.stdout.take()?).read_line(&mut address).ok()?;
            Some(Bus { daemon, address: address.trim().to_owned() })
        }

        fn connect(&self) -> Connection {
            let mut channel = Channel::open_private(&self.address).expect("a bus");
            channel.register().expect("registered");
            channel.into()
        }
    }

    impl Drop for Bus {
        fn drop(&mut self) {
            let _ = self.daemon.kill();
            let _ = self.daemon.wait();
        }
    }

    #[test]
    fn the_file_manager_is_asked_to_mark_the_very_file() {
        let Some(bus) = Bus::start() else {
            println!("SKIPPED: there is no dbus-daemon (Debian: dbus-daemon)");
            return;
        };
        let path = Path::new("/tmp/a folder/50 % größer.txt");
        let refused = mark_on(&bus.connect(), path).expect_err("nobody has the name");
        assert!(refused.to_string().contains(FILE_MANAGER), "{refused}");

        let (asked, questions) = mpsc::channel();
        let manager = bus.connect();
        manager.request_name(FILE_MANAGER, false, true, false).expect("a name");
        let answer = move |message: dbus::Message, bus: &Connection| {
            let member = message.member().map(|it| it.to_string());
            let (files, startup): (Vec<String>, String) = message.read2().expect("as agreed");
            asked.send((member, files, startup)).expect("the test waits");
            dbus::channel::Sender::send(bus, message.method_return()).is_ok()
        };
        manager.start_receive(MatchRule::new_method_call(), Box::new(answer));
        let serving =
            std::thread::spawn(
                move || {
                    while manager.process(Duration::from_secs(5)).is_ok_and(|it| it) {}
                },
            );
        mark_on(&bus.connect(), path).expect("it answers");
        let (member, files, startup) =
            questions.recv_timeout(Duration::from_secs(5)).expect("it was asked");
        assert_eq!(member.as_deref(), Some("ShowItems"));
        assert_eq!(files, ["file:///tmp/a%20folder/50%20%25%20gr%C3%B6%C3%9Fer.txt"]);
        assert_eq!(startup, "");
        drop(bus);
        let _ = serving.join();
    }
}
