//! Where objects are: `https://HOST[:PORT]/BUCKET[/PREFIX][?region=REGION]`.

use riddle_models::web;
use url::Url;

use crate::{Error, Result};

/// The region that stores have which know none.
const REGION: &str = "us-east-1";

/// Longest prefix: with the names below it far from the 1 024 bytes that S3 allows.
const LONGEST_PREFIX: usize = 400;

/// A bucket of a server, and what the names of all objects in it begin with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub(crate) endpoint: Url,
    pub(crate) bucket: String,
    pub(crate) region: String,
    prefix: String,
}

impl Place {
    /// Of `https://HOST[:PORT]/BUCKET[/PREFIX]`, with `?region=REGION` where the store knows regions.
    ///
    /// # Errors
    /// [`Error::Address`] for anything else, above all for one with a key in it.
    pub fn parse(text: &str) -> Result<Place> {
        let text = text.trim();
        let bad = |why| Error::Address { address: web::shown(text), why };
        let form = "it is not of the form https://HOST:PORT/BUCKET/PREFIX";
        if web::has_user(text) {
            return Err(bad("it has a key in it: that is kept apart from it"));
        }
        let mut url = Url::parse(text).map_err(|_| bad(form))?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err(bad(form));
        }
        let mut region = REGION.to_owned();
        for (name, value) in url.query_pairs() {
            // A signed address would be another thing, with a secret in it.
            if name != "region" || !is_name(&value) {
                return Err(bad("the only thing that may stand after ? is region=NAME"));
            }
            region = value.into_owned();
        }
        let path = url.path().to_owned();
        let mut parts = path.split('/').filter(|it| !it.is_empty());
        let bucket = parts.next().filter(|it| is_name(it)).ok_or_else(|| bad(form))?.to_owned();
        let parts: Vec<&str> = parts.collect();
        if !parts.iter().all(|it| is_name(it)) || path.len() > LONGEST_PREFIX {
            return Err(bad(
                "its parts have letters, digits and . - _, and are not longer than needed",
            ));
        }
        let prefix: String = parts.iter().map(|it| format!("{it}/")).collect();
        url.set_query(None);
        url.set_fragment(None);
        url.set_path("");
        Ok(Place { endpoint: url, bucket, region, prefix })
    }

    /// Scheme, host and port: whom a key is kept for.
    pub fn origin(&self) -> String {
        web::origin(self.endpoint.as_str()).unwrap_or_default()
    }

    /// Whether it is on this very machine.
    pub fn is_local(&self) -> bool {
        web::is_local(self.endpoint.as_str())
    }

    /// Whether it may be asked with a key: encrypted, or within this machine. A key itself is never sent, but who sees
    /// a signed request can repeat it.
    pub fn may_carry_secrets(&self) -> bool {
        web::may_carry_secrets(self.endpoint.as_str())
    }

    /// The whole name of an object.
    pub(crate) fn name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// The name without what all begin with.
    pub(crate) fn name_of<'a>(&self, whole: &'a str) -> Option<&'a str> {
        whole.strip_prefix(&self.prefix)
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let prefix = self.prefix.trim_end_matches('/');
        let endpoint = self.endpoint.as_str().trim_end_matches('/');
        write!(f, "{endpoint}/{}", self.bucket)?;
        if !prefix.is_empty() {
            write!(f, "/{prefix}")?;
        }
        if self.region != REGION {
            write!(f, "?region={}", self.region)?;
        }
        Ok(())
    }
}

/// What needs no escaping anywhere, and leads nowhere else.
fn is_name(text: &str) -> bool {
    let letter = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'.' | b'-' | b'_');
    !text.is_empty() && text.len() <= 63 && text.bytes().all(letter) && !text.starts_with('.')
}

/// What opens a store.
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    pub(crate) access: String,
    pub(crate) secret: String,
}

impl Key {
    /// Of `ACCESS:SECRET`.
    ///
    /// # Errors
    /// [`Error::Key`].
    pub fn parse(text: &str) -> Result<Key> {
        let (access, secret) = text.trim().split_once(':').ok_or(Error::Key)?;
        let shown = |it: &str| !it.is_empty() && it.chars().all(|it| it.is_ascii_graphic());
        if !shown(access) || !shown(secret) {
            return Err(Error::Key);
        }
        Ok(Key { access: access.to_owned(), secret: secret.to_owned() })
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_address_is_a_server_a_bucket_and_a_beginning() {
        let place = Place::parse(" https://Box.test:9000/files/team/2026/ ").expect("a place");
        assert_eq!(place.to_string(), "https://box.test:9000/files/team/2026");
        assert_eq!(place.origin(), "https://box.test:9000");
        assert_eq!(place.name("a/b"), "team/2026/a/b");
        assert_eq!(place.name_of("team/2026/a/b"), Some("a/b"));
        assert_eq!(place.name_of("team/2025/a/b"), None);
        assert!(place.may_carry_secrets() && !place.is_local());
        let place = Place::parse("http://127.0.0.1:9000/files?region=eu-west-1").expect("a place");
        assert_eq!(place.to_string(), "http://127.0.0.1:9000/files?region=eu-west-1");
        assert!(place.may_carry_secrets() && place.is_local() && place.name("a") == "a");
        assert!(!Place::parse("http://box.test/files").expect("a place").may_carry_secrets());
    }

    #[test]
    fn what_is_none_is_refused_and_its_key_not_told() {
        for bad in [
            "",
            "files",
            "https://",
            "https://box.test",
            "https://box.test/",
            "s3://box/files",
            "https://box.test/files/a b",
            "https://box.test/ü",
            "https://box.test/files?X-Amz-Signature=hunter2",
            "https://me:hunter2@box.test/files",
        ] {
            let error = Place::parse(bad).expect_err(bad).to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
        for bad in ["", "me", ":", "me:", ":it", "me:a b", "me:ü"] {
            assert!(Key::parse(bad).is_err(), "{bad}");
        }
        let key = Key::parse("me:hunter:2\n").expect("a key");
        assert!(key.secret == "hunter:2" && !format!("{key:?}").contains("hunter"));
    }

    proptest! {
        #[test]
        fn an_address_is_written_as_it_is_read(text in ".{0,80}", tail in "[a-z./?=%@:#-]{0,40}") {
            for text in [text, format!("https://box.test/{tail}")] {
                if let Ok(place) = Place::parse(&text) {
                    prop_assert_eq!(Place::parse(&place.to_string()).expect("again"), place);
                }
            }
        }
    }
}
