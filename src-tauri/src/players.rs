//! Players of films that can be told where to begin.
//!
//! The film's path and a number are all that they are told: no shell reads them, the path is absolute and so never
//! looks like an option, and options end before it.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// How long a player is watched that may not be able to start: without a screen, or with a library missing, it ends at
/// once.
const WATCHED: Duration = Duration::from_millis(400);

/// A player.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Player {
    Mpv,
    Vlc,
}

impl Player {
    const ALL: [Player; 2] = [Player::Mpv, Player::Vlc];

    fn program(self) -> &'static str {
        match (self, cfg!(windows)) {
            (Player::Mpv, false) => "mpv",
            (Player::Mpv, true) => "mpv.exe",
            // On a Mac its name is in capitals.
            (Player::Vlc, false) if cfg!(target_os = "macos") => "VLC",
            (Player::Vlc, false) => "vlc",
            (Player::Vlc, true) => "vlc.exe",
        }
    }

    /// What it is told; `None`: it can not be told of this file.
    fn arguments(self, film: &Path, seconds: u32) -> Option<Vec<OsString>> {
        if !film.is_absolute() {
            return None;
        }
        Some(match self {
            // A window, and the controls that belong to it, although it was not started by its own icon.
            Player::Mpv => vec![
                "--player-operation-mode=pseudo-gui".into(),
                format!("--start={seconds}").into(),
                "--".into(),
                film.into(),
            ],
            // Of a path VLC takes what follows a `#` for the name of a part: an address has none.
            Player::Vlc => vec![
                format!("--start-time={seconds}").into(),
                tauri::Url::from_file_path(film).ok()?.as_str().into(),
            ],
        })
    }
}

/// Plays a film from a second on; `false`: no player is there that can be told so, or none that starts.
pub(crate) fn play(film: &Path, seconds: u32) -> bool {
    installed(&folders()).is_some_and(|(player, program)| {
        let arguments = player.arguments(film, seconds);
        arguments.is_some_and(|it| starts(&program, &it))
    })
}

/// Folders that players are in: those of `PATH`, and where systems put programs that are not in it.
fn folders() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    if cfg!(target_os = "macos") {
        // Programs that are started from the dock know few folders.
        let more = ["/opt/homebrew/bin", "/usr/local/bin", "/Applications/VLC.app/Contents/MacOS"];
        folders.extend(more.map(PathBuf::from));
    }
    if cfg!(windows) {
        let programs = ["ProgramFiles", "ProgramFiles(x86)"].map(std::env::var_os);
        let programs = programs.into_iter().flatten().map(PathBuf::from);
        folders.extend(programs.flat_map(|it| [it.join("VideoLAN/VLC"), it.join("mpv")]));
    }
    // What lies in a relative one depends on where the app was started.
    folders.retain(|it| it.is_absolute());
    folders
}

fn installed(folders: &[PathBuf]) -> Option<(Player, PathBuf)> {
    Player::ALL.into_iter().find_map(|player| {
        let program = folders.iter().map(|it| it.join(player.program())).find(|it| runs(it));
        program.map(|it| (player, it))
    })
}

fn runs(program: &Path) -> bool {
    #[cfg(unix)]
    let may = |it: &std::fs::Metadata| {
        use std::os::unix::fs::PermissionsExt as _;
        it.permissions().mode() & 0o111 != 0
    };
    #[cfg(not(unix))]
    let may = |_: &std::fs::Metadata| true;
    program.metadata().is_ok_and(|it| it.is_file() && may(&it))
}

/// Starts a program that goes on without the app; whether it does.
fn starts(program: &Path, arguments: &[OsString]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            tracing::warn!("{} can not be started: {error}", program.display());
            return false;
        }
    };
    let begun = Instant::now();
    while begun.elapsed() < WATCHED {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) => std::thread::sleep(Duration::from_millis(20)),
            Err(_) => return false,
        }
    }
    // Whoever ended is asked about by somebody, or stays in the list of processes.
    std::thread::spawn(move || child.wait());
    true
}

#[cfg(all(test, unix))]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    /// A program that writes down what it is told, a line for each.
    fn script(folder: &Path, name: &str, body: &str) -> PathBuf {
        let path = folder.join(name);
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("may run");
        path
    }

    #[test]
    fn a_player_is_told_the_file_and_the_second_and_nothing_else() {
        let dir = tempfile::tempdir().expect("a folder");
        let told = dir.path().join("told");
        let body = format!("printf '%s\\n' \"$@\" > '{}'", told.display());
        let program = script(dir.path(), "mpv", &body);
        let film = dir.path().join("-rf $(touch x); `id` # ü.mkv");
        for player in Player::ALL {
            let arguments = player.arguments(&film, 751).expect("it can be told");
            assert!(starts(&program, &arguments));
            let lines = fs::read_to_string(&told).expect("it was started");
            let lines: Vec<&str> = lines.lines().collect();
            let expected = match player {
                Player::Mpv => {
                    let film = film.to_str().expect("text");
                    vec!["--player-operation-mode=pseudo-gui", "--start=751", "--", film]
                }
                Player::Vlc => {
                    assert!(lines[1].starts_with("file:///") && !lines[1].contains(['#', ' ']));
                    vec!["--start-time=751", lines[1]]
                }
            };
            assert_eq!(lines, expected);
        }
        assert_eq!(Player::Mpv.arguments(Path::new("-rf.mkv"), 1), None, "not from the root");
        assert!(!dir.path().join("x").exists());
    }

    #[test]
    fn the_first_player_that_may_run_is_taken() {
        let dir = tempfile::tempdir().expect("a folder");
        let folders = [dir.path().join("nowhere"), dir.path().to_path_buf()];
        assert_eq!(installed(&folders), None);
        let vlc = script(dir.path(), Player::Vlc.program(), "exit 0");
        fs::write(dir.path().join("mpv"), "no program").expect("written");
        assert_eq!(installed(&folders), Some((Player::Vlc, vlc)));
        let mpv = script(dir.path(), "mpv", "exit 0");
        assert_eq!(installed(&folders), Some((Player::Mpv, mpv)));
        assert!(super::folders().iter().all(|it| it.is_absolute()));
    }

    #[test]
    fn a_player_that_can_not_start_is_none() {
        let dir = tempfile::tempdir().expect("a folder");
        assert!(!starts(&script(dir.path(), "mpv", "exit 2"), &[]));
        assert!(!starts(&dir.path().join("nothing"), &[]));
        assert!(starts(&script(dir.path(), "slow", "sleep 1"), &[]));
    }
}
