//! `riddle toggle`: shows or hides the app's window, for the key bindings of desktops where programs may not
//! take a key for themselves (Wayland).

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::failure::Failure;

/// Name of the app's program.
const APP: &str = "riddle-desktop";

/// Asks the app, which is started if it does not run.
pub(crate) fn run() -> Result<(), Failure> {
    app(&["toggle"])
}

/// Starts the app with these words, or tells the one that runs.
pub(crate) fn app(words: &[&str]) -> Result<(), Failure> {
    let own = std::env::current_exe().ok();
    let program = program(own.as_deref());
    // The app answers at once when it runs already, and stays when it does not: nobody waits for it.
    match Command::new(&program).args(words).spawn() {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(Failure::run(format!(
            "{APP} is not installed: it is looked for beside this program and on the path"
        ))),
        Err(error) => Err(Failure::run(format!("{}: {error}", program.display()))),
    }
}

/// The app beside this program, else the one on the path.
fn program(own: Option<&Path>) -> PathBuf {
    let name = format!("{APP}{}", std::env::consts::EXE_SUFFIX);
    let beside = own.and_then(Path::parent).map(|it| it.join(&name));
    beside.filter(|it| it.is_file()).unwrap_or_else(|| PathBuf::from(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_app_beside_the_program_goes_first() {
        let dir = tempfile::tempdir().expect("tempdir");
        let own = dir.path().join("riddle");
        assert_eq!(program(Some(&own)).parent(), Some(Path::new("")));
        let app = dir.path().join(format!("{APP}{}", std::env::consts::EXE_SUFFIX));
        std::fs::write(&app, "").expect("written");
        assert_eq!(program(Some(&own)), app);
        assert_eq!(program(None).parent(), Some(Path::new("")));
    }
}
