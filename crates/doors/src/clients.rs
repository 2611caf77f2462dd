//! Who may ask: programs by name, each with what it may see, kept in a file of the home. The home's own token opens
//! everything and stays for scripts of the person; a program that has a name of its own can be looked after and sent
//! away without the others noticing.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use riddle_types::Reader;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;

use crate::{
    error::{Error, Result},
    private,
    tools::TOOLS,
};

pub use crate::may::May;

/// What the file says that it is: of the second kind where a program reads as somebody, which a version that does not
/// know that must not pass over.
const VERSION: u32 = 2;

/// Longest name, in characters.
const MAX_NAME: usize = 40;

/// Most programs: each request looks through them.
const MAX_CLIENTS: usize = 200;

/// Largest file that is read, in bytes.
const MAX_BYTES: u64 = 4 << 20;

/// Doors that are no tools of assistants: they compute on what the client brings.
const MORE_TOOLS: [&str; 1] = ["embed"];

/// A program with a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Client {
    /// What the person calls it.
    pub name: String,
    /// BLAKE3 of its token in hexadecimal; without one it comes through a pipe only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    /// When it was let in first, in seconds since 1970.
    pub since: i64,
    /// It may not come in any more.
    #[serde(default)]
    pub revoked: bool,
    /// What it may do.
    #[serde(default)]
    pub may: May,
    /// Whose rights to files it has; `None`: those of the person whose home it is. Only that person says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reader: Option<Reader>,
}

impl Client {
    /// Whether it has a token, for the HTTP API.
    pub fn has_token(&self) -> bool {
        self.digest.is_some()
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Kept {
    version: u32,
    #[serde(default)]
    clients: Vec<Client>,
}

/// The programs of a home. Changes hold from the next request on, in servers that run, too.
#[derive(Debug)]
pub struct Clients {
    path: PathBuf,
    /// What was read last.
    read: Mutex<Read>,
}

/// The programs, as a file of this time and length had them.
#[derive(Debug, Default)]
struct Read {
    stamp: Option<(SystemTime, u64)>,
    clients: Arc<Vec<Client>>,
}

impl Clients {
    /// Of this home; there need not be any.
    pub fn of(home: &Path) -> Clients {
        Clients { path: home.join("doors.clients.json"), read: Mutex::default() }
    }

    /// All of them, by name.
    ///
    /// # Errors
    /// When the file can not be read or understood: then nobody comes in by a name, and nothing is written over.
    pub fn all(&self) -> Result<Arc<Vec<Client>>> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = match fs::metadata(&self.path) {
            Ok(it) if it.len() > MAX_BYTES => return Err(self.broken("it is too large")),
            Ok(it) => Some((it.modified().unwrap_or(SystemTime::UNIX_EPOCH), it.len())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(source) => return Err(Error::Io { path: self.path.clone(), source }),
        };
        let fresh = stamp.is_some_and(|(at, _)| at.elapsed().is_ok_and(|it| it.as_secs() < 2));
        // A file that was written a moment ago may be written once more within the grain of its clock.
        if stamp != read.stamp || fresh {
            let clients = if stamp.is_some() { self.load()? } else { Vec::new() };
            *read = Read { stamp, clients: Arc::new(clients) };
        }
        Ok(Arc::clone(&read.clients))
    }

    fn load(&self) -> Result<Vec<Client>> {
        let bytes =
            fs::read(&self.path).map_err(|source| Error::Io { path: self.path.clone(), source })?;
        let kept: Kept =
            serde_json::from_slice(&bytes).map_err(|error| self.broken(&error.to_string()))?;
        if kept.version > VERSION {
            return Err(self.broken("a newer version of this program has written it"));
        }
        Ok(kept.clients)
    }

    fn broken(&self, why: &str) -> Error {
        Error::BadConfiguration { path: self.path.clone(), why: why.to_owned() }
    }

    /// The one of that name.
    ///
    /// # Errors
    /// As [`all`](Self::all).
    pub fn named(&self, name: &str) -> Result<Option<Client>> {
        Ok(self.all()?.iter().find(|it| it.name == name).cloned())
    }

    /// Whose token this is, compared without telling by its time how much was right.
    pub(crate) fn of_token(&self, token: &str) -> Option<Client> {
        let digest = blake3::hash(token.as_bytes()).to_hex();
        let all = self.all().inspect_err(|error| tracing::warn!("{error}")).ok()?;
        let is = |it: &&Client| {
            let kept = it.digest.as_deref().unwrap_or_default();
            bool::from(kept.as_bytes().ct_eq(digest.as_bytes()))
        };
        all.iter().find(is).cloned()
    }

    /// Lets a program in by this name, or changes what it may do. With `token`, it gets a new one, which is returned
    /// and kept nowhere; the one before holds no longer.
    ///
    /// # Errors
    /// When the name or a tool is none, and as [`all`](Self::all).
    pub fn put(&self, name: &str, may: May, token: bool) -> Result<Option<String>> {
        self.put_as(name, may, None, token)
    }

    /// [`put`](Self::put), and from the first moment it reads as `reader`; `None`: as whom it did before.
    ///
    /// # Errors
    /// As there, and where that is nobody.
    pub fn put_as(
        &self,
        name: &str,
        may: May,
        reader: Option<Reader>,
        token: bool,
    ) -> Result<Option<String>> {
        let name = checked_name(name)?;
        check_tools(&may)?;
        check_reader(reader.as_ref())?;
        let made = if token { Some(crate::token::random()?) } else { None };
        let digest = made.as_deref().map(|it| blake3::hash(it.as_bytes()).to_hex().to_string());
        self.change(|clients| {
            if let Some(known) = clients.iter_mut().find(|it| it.name == name) {
                known.may = may;
                known.revoked = false;
                known.reader = reader.or(known.reader.take());
                known.digest = digest.or(known.digest.take());
                return Ok(());
            }
            if clients.len() >= MAX_CLIENTS {
                return Err(Error::TooLarge(format!(
                    "there are {MAX_CLIENTS} programs already: remove those that are gone"
                )));
            }
            let since = now();
            clients.push(Client { name: name.clone(), digest, since, revoked: false, may, reader });
            clients.sort_by(|a, b| a.name.cmp(&b.name));
            Ok(())
        })?;
        Ok(made)
    }

    /// Says whose rights to files a program has from now on; `None`: those of the person whose home it is.
    ///
    /// # Errors
    /// Where that is nobody, when there is no program of that name, and as [`all`](Self::all).
    pub fn read_as(&self, name: &str, reader: Option<Reader>) -> Result<()> {
        check_reader(reader.as_ref())?;
        self.change(|clients| {
            let known = clients.iter_mut().find(|it| it.name == name);
            known.ok_or_else(|| unknown(name))?.reader = reader;
            Ok(())
        })
    }

    /// Keeps a program out from now on, or lets it in again.
    ///
    /// # Errors
    /// When there is none of that name, and as [`all`](Self::all).
    pub fn revoke(&self, name: &str, revoked: bool) -> Result<()> {
        self.change(|clients| {
            let known = clients.iter_mut().find(|it| it.name == name);
            known.ok_or_else(|| unknown(name))?.revoked = revoked;
            Ok(())
        })
    }

    /// Forgets a program: its token opens nothing any more.
    ///
    /// # Errors
    /// As [`revoke`](Self::revoke).
    pub fn remove(&self, name: &str) -> Result<()> {
        self.change(|clients| {
            let before = clients.len();
            clients.retain(|it| it.name != name);
            if clients.len() == before { Err(unknown(name)) } else { Ok(()) }
        })
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Client>) -> Result<()>) -> Result<()> {
        // Two programs that change it at once would lose one of the changes: the lock is a file beside it.
        let _lock = private::lock(&self.path.with_extension("lock"))?;
        let mut clients = if self.path.exists() { self.load()? } else { Vec::new() };
        change(&mut clients)?;
        let version = if clients.iter().any(|it| it.reader.is_some()) { VERSION } else { 1 };
        let kept = Kept { version, clients };
        let text =
            serde_json::to_vec_pretty(&kept).map_err(|error| Error::Internal(error.to_string()))?;
        private::write(&self.path, &text)?;
        self.read.lock().unwrap_or_else(PoisonError::into_inner).stamp = None;
        Ok(())
    }
}

/// Names of what a program can be allowed to ask.
pub fn tool_names() -> Vec<&'static str> {
    TOOLS.iter().map(|it| it.name).chain(MORE_TOOLS).collect()
}

fn check_tools(may: &May) -> Result<()> {
    let names = tool_names();
    match may.tools.iter().find(|it| !names.contains(&it.as_str())) {
        None => Ok(()),
        Some(tool) => Err(Error::BadRequest(format!(
            "there is no tool {tool:?}: there are {}",
            names.join(", ")
        ))),
    }
}

fn check_reader(reader: Option<&Reader>) -> Result<()> {
    reader.and_then(Reader::trouble).map_or(Ok(()), |it| Err(Error::BadRequest(it)))
}

fn checked_name(name: &str) -> Result<String> {
    let name = name.trim();
    let plain = |it: char| it.is_alphanumeric() || matches!(it, '-' | '_' | '.' | ' ');
    if name.is_empty() || name.chars().count() > MAX_NAME || !name.chars().all(plain) {
        return Err(Error::BadRequest(format!(
            "{name:?} is no name of a program: 1 to {MAX_NAME} letters, digits, spaces, dots, - and _"
        )));
    }
    Ok(name.to_owned())
}

fn unknown(name: &str) -> Error {
    Error::NotFound(format!("there is no program {name:?} among those that were let in"))
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clients() -> (tempfile::TempDir, Clients) {
        let home = tempfile::tempdir().expect("a folder");
        let clients = Clients::of(home.path());
        (home, clients)
    }

    #[test]
    fn a_token_opens_for_its_program_until_it_is_sent_away() {
        let (home, clients) = clients();
        assert!(clients.all().expect("none yet").is_empty());
        let token =
            clients.put("notes app", May::default(), true).expect("let in").expect("a token");
        let twin = Clients::of(home.path());
        assert_eq!(twin.of_token(&token).expect("known").name, "notes app");
        for wrong in ["", "x", &token[1..], &format!("{token}0")] {
            assert_eq!(twin.of_token(wrong), None, "{wrong}");
        }
        let text = fs::read_to_string(home.path().join("doors.clients.json")).expect("kept");
        assert!(!text.contains(&token), "the token itself is kept nowhere");
        clients.revoke("notes app", true).expect("sent away");
        assert!(twin.of_token(&token).expect("still known").revoked);
        let new = clients.put("notes app", May::default(), true).expect("again").expect("another");
        assert_eq!(twin.of_token(&token), None, "the token before holds no longer");
        assert!(!twin.of_token(&new).expect("known").revoked);
        clients.remove("notes app").expect("forgotten");
        assert_eq!(twin.of_token(&new), None);
        assert!(clients.remove("notes app").is_err());
    }

    #[test]
    fn whose_rights_a_program_has_stays_until_it_is_said_otherwise() {
        let (home, clients) = clients();
        let ada = || Reader { user: "ada".to_owned(), groups: vec!["team".to_owned()] };
        let version = || {
            let text = fs::read_to_string(home.path().join("doors.clients.json")).expect("kept");
            serde_json::from_str::<Kept>(&text).expect("a list").version
        };
        let reader = || clients.named("app").expect("readable").expect("known").reader;
        clients.put("app", May::default(), true).expect("let in");
        assert_eq!((reader(), version()), (None, 1));
        clients.read_as("app", Some(ada())).expect("said");
        assert_eq!((reader(), version()), (Some(ada()), 2));
        // Neither what it may do, nor a new token, nor being sent away and let in again makes it somebody else.
        clients.put("app", May::default(), true).expect("another token");
        clients.revoke("app", true).expect("sent away");
        clients.put("app", May { with_confined: true, ..May::default() }, false).expect("again");
        assert_eq!(reader(), Some(ada()));
        clients.read_as("app", None).expect("said");
        assert_eq!((reader(), version()), (None, 1));
        clients.put_as("new", May::default(), Some(ada()), true).expect("let in as somebody");
        assert_eq!(clients.named("new").expect("readable").expect("known").reader, Some(ada()));
        assert!(clients.read_as("nobody", Some(ada())).is_err());
        let bad = Reader { user: "a:b".to_owned(), groups: Vec::new() };
        assert!(clients.read_as("app", Some(bad.clone())).is_err());
        assert!(clients.put_as("other", May::default(), Some(bad), true).is_err());
    }

    #[test]
    fn what_is_no_name_or_tool_is_told() {
        let (_home, clients) = clients();
        for name in ["", " ", "a\nb", "x/../y", &"n".repeat(MAX_NAME + 1), "<b>"] {
            assert!(clients.put(name, May::default(), false).is_err(), "{name:?}");
        }
        let may = May { tools: vec!["erase".to_owned()], ..May::default() };
        let error = clients.put("x", may, false).expect_err("no such tool");
        assert!(error.to_string().contains("check_claims"), "{error}");
    }

    #[test]
    fn a_file_that_can_not_be_understood_is_left_alone() {
        let (home, clients) = clients();
        let path = home.path().join("doors.clients.json");
        for text in [
            "",
            "{",
            "[]",
            "{\"version\": 3, \"clients\": []}",
            "{\"version\": 1, \"clients\": [{}]}",
        ] {
            fs::write(&path, text).expect("written");
            assert!(clients.all().is_err(), "{text}");
            assert!(clients.put("x", May::default(), false).is_err(), "{text}");
            assert_eq!(clients.of_token("x"), None);
            assert_eq!(fs::read_to_string(&path).expect("there"), text);
        }
    }
}
