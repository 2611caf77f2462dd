//! Where a library is: `milvus://HOST:PORT/NAME`, or `milvuss://…` over TLS.

use std::net::IpAddr;

use crate::{Error, Result};

/// The port that Milvus listens on unless told otherwise.
const PORT: u16 = 19530;

/// Longest name: Milvus' own limit for collections is 255, of which the prefix and the suffix need some.
const LONGEST_NAME: usize = 200;

/// A library on a server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    tls: bool,
    host: String,
    port: u16,
    database: String,
    library: String,
}

impl Address {
    /// Of `milvus://HOST[:PORT]/[DATABASE/]NAME`; `milvuss` asks for TLS.
    ///
    /// # Errors
    /// [`Error::Address`] for anything else, above all for one with a password in it.
    pub fn parse(text: &str) -> Result<Address> {
        let text = text.trim();
        // What is refused may hold a password: it is shown without what stands before the host.
        let shown = || match text.split_once("://") {
            Some((scheme, rest)) => {
                format!("{scheme}://{}", rest.rsplit_once('@').map_or(rest, |it| it.1))
            }
            None => text.rsplit_once('@').map_or(text, |it| it.1).to_owned(),
        };
        let bad = |why| Error::Address { address: shown(), why };
        let form = "it is not of the form milvus://HOST:PORT/NAME";
        let (scheme, rest) = text.split_once("://").ok_or_else(|| bad(form))?;
        let tls = match scheme {
            "milvus" => false,
            "milvuss" => true,
            _ => return Err(bad(form)),
        };
        if rest.contains('@') {
            return Err(bad("it has a user name or password in it: those are kept apart from it"));
        }
        let (server, path) = rest.split_once('/').ok_or_else(|| bad("it names no library"))?;
        let (host, port) = host_and_port(server).ok_or_else(|| bad(form))?;
        let path = path.trim_end_matches('/');
        let (database, library) = path.split_once('/').unwrap_or(("", path));
        if !is_name(library) || !(database.is_empty() || is_name(database)) {
            return Err(bad(
                "a library's name is made of letters, digits and underscores, and begins with a letter",
            ));
        }
        Ok(Address {
            tls,
            host: host.to_owned(),
            port,
            database: database.to_owned(),
            library: library.to_owned(),
        })
    }

    /// Scheme, host and port: whom a secret is kept for.
    pub fn origin(&self) -> String {
        let host =
            if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        format!("{}://{host}:{}", if self.tls { "milvuss" } else { "milvus" }, self.port)
    }

    /// Whether it is on this very machine.
    pub fn is_local(&self) -> bool {
        self.host == "localhost" || self.host.parse::<IpAddr>().is_ok_and(|it| it.is_loopback())
    }

    /// Whether a secret may be sent there: encrypted, or within this machine.
    pub fn may_carry_secrets(&self) -> bool {
        self.tls || self.is_local()
    }

    /// The library's name on the server.
    pub fn library(&self) -> &str {
        &self.library
    }

    pub(crate) fn database(&self) -> &str {
        &self.database
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.tls
    }

    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// What the transport connects to.
    pub(crate) fn url(&self) -> String {
        let origin = self.origin();
        let server = origin.split_once("://").map_or("", |it| it.1);
        format!("{}://{server}", if self.tls { "https" } else { "http" })
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.origin())?;
        if !self.database.is_empty() {
            write!(f, "/{}", self.database)?;
        }
        write!(f, "/{}", self.library)
    }
}

fn host_and_port(server: &str) -> Option<(&str, u16)> {
    let (host, port) = match server.strip_prefix('[') {
        // An address of IPv6.
        Some(rest) => {
            let (host, after) = rest.split_once(']')?;
            host.parse::<IpAddr>().ok()?;
            (host, after.strip_prefix(':'))
        }
        None => match server.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (server, None),
        },
    };
    let port = port.map_or(Some(PORT), |it| it.parse().ok().filter(|it| *it > 0))?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
    (!host.is_empty() && host.chars().all(plain)).then_some((host, port))
}

/// What Milvus takes for a collection.
fn is_name(name: &str) -> bool {
    name.len() <= LONGEST_NAME
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// What opens a server: `USER:PASSWORD`, or a token. It is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Of its text.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// The text itself, for who opens a door with it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_address_says_where_and_which() {
        let address = Address::parse(" milvus://box:1234/team ").expect("an address");
        assert_eq!(address.to_string(), "milvus://box:1234/team");
        assert_eq!(
            (address.url().as_str(), address.is_local(), address.may_carry_secrets()),
            ("http://box:1234", false, false)
        );
        let address = Address::parse("milvuss://milvus.test/office/team/").expect("an address");
        assert_eq!(address.to_string(), "milvuss://milvus.test:19530/office/team");
        assert_eq!((address.database(), address.library()), ("office", "team"));
        assert!(address.may_carry_secrets() && address.is_tls());
        let address = Address::parse("milvus://[::1]:5/x").expect("an address");
        assert_eq!(
            (address.origin().as_str(), address.url().as_str(), address.is_local()),
            ("milvus://[::1]:5", "http://[::1]:5", true)
        );
    }

    #[test]
    fn what_is_none_is_refused_without_telling_a_password() {
        for bad in [
            "",
            "team",
            "http://box/team",
            "milvus://box",
            "milvus://box/",
            "milvus://:1/team",
            "milvus://box:0/team",
            "milvus://box:99999/team",
            "milvus://box/my team",
            "milvus://box/a/b/c",
            "milvus://box/1team",
            "milvus://[x]:1/team",
            "milvus://root:hunter2@box/team",
            "root:hunter2@box/team",
        ] {
            let error = Address::parse(bad).expect_err(bad);
            assert!(matches!(error, Error::Address { .. }), "{bad}");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
        assert_eq!(format!("{:?}", Secret::new("hunter2")), "Secret");
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(milvuss?://)?[a-z0-9:/@\\[\\]._ -]{0,30}") {
            if let Ok(address) = Address::parse(&text) {
                prop_assert_eq!(Address::parse(&address.to_string()).ok(), Some(address));
            }
        }
    }
}
