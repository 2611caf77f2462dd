//! Keys of endpoints, in the system's secret store: GNOME's keyring, KDE's wallet, or whatever else answers to the
//! Secret Service on the session bus. A key is kept under the origin of its endpoint and is found for no other one.
//!
//! Every call is made on a thread of its own and has a limit: daemons hang, and a locked store asks a person.

use crate::{Endpoint, Error, Result};

/// Longest key that is taken: those of the known services have some hundred characters.
const LONGEST_KEY: usize = 4096;

/// The key that is kept for this endpoint. A locked store asks the person to unlock it, if it has the key.
///
/// # Errors
/// [`Error::NoSecretStore`] where there is none; [`Error::SecretStore`] when it does not give the key.
pub fn key(endpoint: &Endpoint) -> Result<Option<String>> {
    store::get(endpoint.origin())
}

/// Whether a key is kept for this endpoint; nobody is asked to unlock anything.
///
/// # Errors
/// As [`key`].
pub fn has_key(endpoint: &Endpoint) -> Result<bool> {
    store::has(endpoint.origin())
}

/// Keeps a key, instead of one that was kept before.
///
/// # Errors
/// [`Error::BadKey`] for what is none; [`Error::OpenKey`] for an endpoint that it may not be sent to; as [`key`].
pub fn keep_key(endpoint: &Endpoint, key: &str) -> Result<()> {
    let key = check(key)?;
    if !endpoint.may_have_key() {
        return Err(Error::OpenKey { url: endpoint.origin().to_owned() });
    }
    store::set(endpoint.origin(), key)
}

/// Forgets the key; `false`: there was none.
///
/// # Errors
/// As [`key`].
pub fn forget_key(endpoint: &Endpoint) -> Result<bool> {
    store::remove(endpoint.origin())
}

/// The key of a server that is no endpoint of a language model, by its scheme, host and port.
///
/// # Errors
/// As [`key`].
pub fn key_of(origin: &str) -> Result<Option<String>> {
    store::get(origin)
}

/// Whether one is kept; nobody is asked to unlock anything.
///
/// # Errors
/// As [`key`].
pub fn has_key_of(origin: &str) -> Result<bool> {
    store::has(origin)
}

/// Keeps one. Whether it may be sent there is the caller's to know.
///
/// # Errors
/// As [`keep_key`].
pub fn keep_key_of(origin: &str, key: &str) -> Result<()> {
    store::set(origin, check(key)?)
}

/// Forgets it; `false`: there was none.
///
/// # Errors
/// As [`key`].
pub fn forget_key_of(origin: &str) -> Result<bool> {
    store::remove(origin)
}

/// A key that somebody gave beside the store, as an environment does: without the blanks around it, and none where
/// there is nothing else.
pub fn given_key(text: Option<String>) -> Option<String> {
    text.map(|it| it.trim().to_owned()).filter(|it| !it.is_empty())
}

/// What can be sent in a header.
fn check(key: &str) -> Result<&str> {
    let key = key.trim();
    if key.is_empty() {
        return Err(Error::BadKey("it is empty"));
    }
    if key.len() > LONGEST_KEY {
        return Err(Error::BadKey("it is too long"));
    }
    if !key.bytes().all(|it| it.is_ascii_graphic()) {
        return Err(Error::BadKey("it has spaces, or letters that no key has"));
    }
    Ok(key)
}

#[cfg(all(unix, not(target_vendor = "apple"), not(target_os = "android")))]
mod store {
    use std::{
        collections::HashMap,
        sync::mpsc::{RecvTimeoutError, channel},
        time::Duration,
    };

    use dbus_secret_service::{EncryptionType, Error as Refusal, Item, SecretService};

    use crate::{Error, Result};

    /// Long enough to type a password into the window that unlocks a keyring.
    const LONGEST_PROMPT: u64 = 60;

    const LONGEST_WAIT: Duration = Duration::from_secs(LONGEST_PROMPT + 15);

    /// For looking alone, which asks nobody: time to start the daemon.
    const LONGEST_LOOK: Duration = Duration::from_secs(10);

    const CONTENT: &str = "text/plain";

    pub(super) fn get(origin: &str) -> Result<Option<String>> {
        let origin = origin.to_owned();
        bounded(LONGEST_WAIT, move || {
            with(&origin, |found| {
                let Some(item) = found.first() else { return Ok(None) };
                unlock(item)?;
                Ok(Some(item.get_secret()?))
            })
        })?
        .map(|it| String::from_utf8(it).map_err(|_| refused("what it keeps is not text")))
        .transpose()
    }

    pub(super) fn has(origin: &str) -> Result<bool> {
        let origin = origin.to_owned();
        bounded(LONGEST_LOOK, move || with(&origin, |found| Ok(!found.is_empty())))
    }

    pub(super) fn set(origin: &str, key: &str) -> Result<()> {
        let (origin, key) = (origin.to_owned(), key.to_owned());
        bounded(LONGEST_WAIT, move || {
            let service = connect()?;
            let collection = match service.get_default_collection() {
                Err(Refusal::NoResult) => service.create_collection("Login", "default")?,
                found => found?,
            };
            if collection.is_locked()? {
                collection.unlock()?;
            }
            let label = format!("Riddle: key of {origin}");
            collection.create_item(&label, attributes(&origin), key.as_bytes(), true, CONTENT)?;
            Ok(())
        })
    }

    pub(super) fn remove(origin: &str) -> Result<bool> {
        let origin = origin.to_owned();
        bounded(LONGEST_WAIT, move || {
            with(&origin, |found| {
                for item in found {
                    unlock(item)?;
                    item.delete()?;
                }
                Ok(!found.is_empty())
            })
        })
    }

    /// Attributes by which the secret store finds an entry.
    fn attributes(origin: &str) -> HashMap<&str, &str> {
        HashMap::from([("application", "riddle"), ("endpoint", origin)])
    }

    fn connect() -> Result<SecretService, Refusal> {
        SecretService::connect_with_max_prompt_timeout(EncryptionType::Plain, LONGEST_PROMPT)
    }

    /// The entries of an endpoint, those that are not locked first.
    fn with<T>(
        origin: &str,
        work: impl FnOnce(&[Item<'_>]) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let service = connect()?;
        let found = service.search_items(attributes(origin))?;
        let all: Vec<Item<'_>> = found.unlocked.into_iter().chain(found.locked).collect();
        work(&all)
    }

    fn unlock(item: &Item<'_>) -> Result<(), Refusal> {
        if item.is_locked()? { item.unlock() } else { Ok(()) }
    }

    fn bounded<T: Send + 'static>(
        limit: Duration,
        work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T> {
        let (tell, told) = channel();
        std::thread::Builder::new()
            .name("keys".to_owned())
            .spawn(move || {
                // Whoever waited may have given up.
                let _ = tell.send(work());
            })
            .map_err(Error::Thread)?;
        match told.recv_timeout(limit) {
            Ok(done) => done.map_err(named),
            Err(RecvTimeoutError::Timeout) => Err(refused("it says nothing")),
            Err(RecvTimeoutError::Disconnected) => Err(refused("asking it has failed")),
        }
    }

    fn refused(why: &str) -> Error {
        Error::SecretStore { why: why.to_owned() }
    }

    fn named(refusal: Refusal) -> Error {
        match refusal {
            Refusal::Unavailable => {
                let why = "there is no session bus, or no keyring that answers on it".to_owned();
                Error::NoSecretStore { why }
            }
            Refusal::Prompt | Refusal::Locked => refused("the keyring stayed locked"),
            // The bus itself says that no secret store runs, and that none can be started.
            Refusal::Dbus(error) if is_absence(error.name().unwrap_or_default()) => {
                let why = match error.name().unwrap_or_default().rsplit('.').next() {
                    Some("NotSupported" | "FileNotFound" | "NoServer") => "there is no session bus",
                    _ => error.message().unwrap_or("no keyring answers"),
                };
                Error::NoSecretStore { why: why.to_owned() }
            }
            other => Error::SecretStore { why: other.to_string() },
        }
    }

    fn is_absence(name: &str) -> bool {
        let last = name.strip_prefix("org.freedesktop.DBus.Error.").unwrap_or_default();
        last.starts_with("Spawn.")
            || [
                "ServiceUnknown",
                "NameHasNoOwner",
                "NoServer",
                "NotSupported",
                "Disconnected",
                "FileNotFound",
                "BadAddress",
            ]
            .contains(&last)
    }
}

#[cfg(not(all(unix, not(target_vendor = "apple"), not(target_os = "android"))))]
mod store {
    use crate::{Error, Result};

    fn none<T>() -> Result<T> {
        let why = "Riddle does not speak to the one of this system yet".to_owned();
        Err(Error::NoSecretStore { why })
    }

    pub(super) fn get(_origin: &str) -> Result<Option<String>> {
        none()
    }

    pub(super) fn has(_origin: &str) -> Result<bool> {
        none()
    }

    pub(super) fn set(_origin: &str, _key: &str) -> Result<()> {
        none()
    }

    pub(super) fn remove(_origin: &str) -> Result<bool> {
        none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_header_can_carry_is_no_key() {
        assert_eq!(check("  sk-123_abc.X\n").expect("a key"), "sk-123_abc.X");
        for bad in ["", " \n", "two words", "line\nline", "schlüssel", &"x".repeat(5000)] {
            assert!(matches!(check(bad), Err(Error::BadKey(_))), "{bad:?}");
        }
        let open = Endpoint::parse("http://far.test/v1").expect("an address");
        assert!(matches!(keep_key(&open, "secret"), Err(Error::OpenKey { .. })));
    }
}
