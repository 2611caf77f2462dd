//! One program per home: the first listens on a socket in the home, later ones tell it what they were asked to do.
//!
//! A socket and not the session bus: it works wherever the home is, without a bus, on Wayland and in a container,
//! and two homes are two programs. Only the home's owner can reach it.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// What a later program asks the first to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ask {
    /// Come to the front.
    Show,
    /// Come to the front, or hide.
    Toggle,
    /// Come to the front with this passage.
    Passage(u64),
    /// Come to the front and search for this.
    Search(String),
}

/// Who is there already.
pub(crate) enum Instance {
    /// Nobody: this is the first. The listener is served by [`serve`].
    First(Listener),
    /// Somebody, who has been told.
    Told,
}

fn socket(home: &Path) -> PathBuf {
    home.join("desktop.sock")
}

#[cfg(unix)]
pub(crate) use unix::Listener;

#[cfg(not(unix))]
pub(crate) struct Listener;

/// Tells the program that runs in this home, or becomes it.
///
/// # Errors
/// When the home can not be made.
#[cfg(unix)]
pub(crate) fn meet(home: &Path, ask: &Ask) -> std::io::Result<Instance> {
    unix::meet(home, ask)
}

/// As many programs as are started: there is no socket to meet at.
#[cfg(not(unix))]
pub(crate) fn meet(_home: &Path, _ask: &Ask) -> std::io::Result<Instance> {
    Ok(Instance::First(Listener))
}

/// Is not to be found any more.
pub(crate) fn leave(home: &Path) {
    // Where there was no socket there is none to remove.
    let _ = std::fs::remove_file(socket(home));
}

/// Listens on a thread of its own until the program ends.
pub(crate) fn serve(listener: Listener, on_ask: impl Fn(Ask) + Send + 'static) {
    #[cfg(unix)]
    unix::serve(listener, on_ask);
    #[cfg(not(unix))]
    let _ = (listener, on_ask);
}

#[cfg(unix)]
mod unix {
    use std::{
        io::{Read as _, Write as _},
        os::unix::{
            fs::PermissionsExt as _,
            net::{UnixListener, UnixStream},
        },
        path::{Path, PathBuf},
        time::Duration,
    };

    use super::{Ask, Instance, socket};

    /// A program that does not answer for this long hangs; a second one is better than none.
    const PATIENCE: Duration = Duration::from_secs(2);
    /// Longest message: a text to search for, escaped.
    const LONGEST: u64 = 8 << 10;

    /// The first program's end; its socket goes with it.
    pub(crate) struct Listener {
        listener: UnixListener,
        path: PathBuf,
    }

    impl Drop for Listener {
        fn drop(&mut self) {
            // The next program replaces what is left.
            let _ = std::fs::remove_file(&self.path);
        }
    }

    pub(super) fn meet(home: &Path, ask: &Ask) -> std::io::Result<Instance> {
        std::fs::create_dir_all(home)?;
        let path = socket(home);
        if tell(&path, ask).is_ok() {
            return Ok(Instance::Told);
        }
        // Nobody listens: what lies there was left by a program that was killed.
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        Ok(Instance::First(Listener { listener, path }))
    }

    fn tell(path: &Path, ask: &Ask) -> std::io::Result<()> {
        let mut stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.write_all(&serde_json::to_vec(ask)?)?;
        stream.shutdown(std::net::Shutdown::Write)?;
        let mut answer = [0; 2];
        stream.read_exact(&mut answer)
    }

    pub(super) fn serve(listener: Listener, on_ask: impl Fn(Ask) + Send + 'static) {
        let work = move || {
            for stream in listener.listener.incoming().flatten() {
                // A client that says nothing is not waited for.
                if let Ok(ask) = hear(stream) {
                    on_ask(ask);
                }
            }
        };
        if let Err(error) = std::thread::Builder::new().name("instance".to_owned()).spawn(work) {
            tracing::warn!("a second start will not find this program: {error}");
        }
    }

    fn hear(mut stream: UnixStream) -> std::io::Result<Ask> {
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut text = Vec::new();
        (&mut stream).take(LONGEST).read_to_end(&mut text)?;
        let ask = serde_json::from_slice(&text)?;
        stream.write_all(b"ok")?;
        Ok(ask)
    }

    #[cfg(test)]
    mod tests {
        use std::sync::mpsc;

        use super::*;

        #[test]
        fn a_second_program_tells_the_first() {
            let home = tempfile::tempdir().expect("a folder");
            let Instance::First(listener) = meet(home.path(), &Ask::Show).expect("meets") else {
                panic!("nobody else is there");
            };
            let (sender, heard) = mpsc::channel();
            serve(listener, move |ask| sender.send(ask).expect("heard"));
            let search = Ask::Search("ä \"blue\" boat".repeat(30));
            for ask in [Ask::Toggle, Ask::Passage(u64::MAX), search] {
                assert!(matches!(meet(home.path(), &ask).expect("meets"), Instance::Told));
                assert_eq!(heard.recv().expect("told"), ask);
            }
            // Nonsense is not passed on and ends nothing.
            let mut stream = UnixStream::connect(socket(home.path())).expect("connects");
            stream.write_all(&[b'x'; 200]).expect("written");
            drop(stream);
            assert!(matches!(meet(home.path(), &Ask::Show).expect("meets"), Instance::Told));
            assert_eq!(heard.recv().expect("told"), Ask::Show);
        }

        #[test]
        fn what_a_killed_program_left_is_replaced() {
            let home = tempfile::tempdir().expect("a folder");
            drop(UnixListener::bind(socket(home.path())).expect("bound"));
            let first = meet(home.path(), &Ask::Show).expect("meets");
            assert!(matches!(first, Instance::First(_)));
        }
    }
}
