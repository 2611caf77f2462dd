//! The token: made once, kept in a file of the home that only its owner may read.

use std::{
    fs::{self, OpenOptions},
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
};

use subtle::ConstantTimeEq as _;

use crate::error::{Error, Result};

/// Random bytes of a token.
const BYTES: usize = 32;

/// What whoever comes in has to know.
#[derive(Clone)]
pub(crate) struct Token(String);

impl std::fmt::Debug for Token {
    /// Without the token: this ends up in logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Where it is kept.
pub(crate) fn path(home: &Path) -> PathBuf {
    home.join("doors.token")
}

impl Token {
    /// The token of a home, made if there is none. One that others could read is not used any more.
    pub(crate) fn of(home: &Path) -> Result<Token> {
        let path = path(home);
        let io = |source| Error::Io { path: path.clone(), source };
        match read(&path) {
            Ok(Some(token)) => return Ok(token),
            Ok(None) => fs::remove_file(&path).map_err(io)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(io(error)),
        }
        let text = random()?;
        let mut options = OpenOptions::new();
        // Whoever was faster has made it: never written over.
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&path).map_err(io)?;
        writeln!(file, "{text}").map_err(io)?;
        Ok(Token(text))
    }

    /// The token that a running server has, for who asks it.
    pub(crate) fn known(home: &Path) -> Option<Token> {
        read(&path(home)).ok().flatten()
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Compares without telling by its time how much was right.
    pub(crate) fn is(&self, given: &str) -> bool {
        self.0.as_bytes().ct_eq(given.as_bytes()).into()
    }
}

/// A token that nobody can guess.
pub(crate) fn random() -> Result<String> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::Internal(format!("no random numbers: {error}")))?;
    Ok(bytes.iter().map(|it| format!("{it:02x}")).collect())
}

/// `None`: it is no token, or others may read it.
fn read(path: &Path) -> std::io::Result<Option<Token>> {
    let file = fs::File::open(path)?;
    #[cfg(unix)]
    if std::os::unix::fs::MetadataExt::mode(&file.metadata()?) & 0o077 != 0 {
        return Ok(None);
    }
    let mut text = String::new();
    file.take(1024).read_to_string(&mut text)?;
    let text = text.trim();
    let is_token = text.len() == 2 * BYTES && text.bytes().all(|it| it.is_ascii_hexdigit());
    Ok(is_token.then(|| Token(text.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_made_once_and_is_the_owners_alone() {
        let home = tempfile::tempdir().expect("a folder");
        let token = Token::of(home.path()).expect("made");
        assert_eq!(token.as_str().len(), 2 * BYTES);
        assert_eq!(Token::of(home.path()).expect("read").as_str(), token.as_str());
        assert!(token.is(token.as_str()));
        for wrong in ["", "x", &token.as_str()[1..], &format!("{}x", token.as_str())] {
            assert!(!token.is(wrong), "{wrong}");
        }
        assert!(!format!("{token:?}").contains(token.as_str()));
    }

    #[test]
    #[cfg(unix)]
    fn a_token_that_others_could_read_is_made_anew() {
        use std::os::unix::fs::PermissionsExt as _;
        let home = tempfile::tempdir().expect("a folder");
        let token = Token::of(home.path()).expect("made");
        let file = path(home.path());
        let mode = || fs::metadata(&file).expect("there").permissions().mode() & 0o777;
        assert_eq!(mode(), 0o600);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("opened up");
        assert_ne!(Token::of(home.path()).expect("anew").as_str(), token.as_str());
        assert_eq!(mode(), 0o600);
    }
}
