//! Where a hub is, and which of two dialects it speaks.

use crate::{Error, Result, address, catalog::said};

/// Written before the address of a hub that speaks as ModelScope does, and whose name does not say so.
const MARK: &str = "modelscope+";

/// Hosts that speak so; those below them do, too.
const MODELSCOPE_HOSTS: [&str; 2] = ["modelscope.cn", "modelscope.ai"];

/// ModelScope, for who says no more than its name.
pub const MODELSCOPE: &str = "https://www.modelscope.cn";

/// How a hub is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// As Hugging Face, and its mirrors.
    HuggingFace,
    /// As ModelScope.
    ModelScope,
}

/// A hub's address, and its dialect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubAddress {
    url: String,
    dialect: Dialect,
    /// The dialect was written down, and is not the host's name.
    marked: bool,
}

impl HubAddress {
    /// An address that somebody chooses: encrypted or this very machine's, without a user, a query or a fragment.
    /// Before it may stand `modelscope+`, and `modelscope` alone is [`MODELSCOPE`].
    ///
    /// # Errors
    /// [`Error::HubAddress`] with what is wrong.
    pub fn parse(text: &str) -> Result<HubAddress> {
        let text = text.trim();
        if text.eq_ignore_ascii_case("modelscope") {
            return Ok(HubAddress::of(MODELSCOPE));
        }
        let address = HubAddress::of(text);
        let url = address.url.as_str();
        let fail = |why| Err(Error::HubAddress { address: address::shown(url), why });
        if address::origin(url).is_none() || url.chars().any(|it| it.is_control() || it == ' ') {
            return fail(said("it begins with https:// and a host"));
        }
        if address::has_user(url) {
            return fail(said("a user name or password has no place in it"));
        }
        if url.contains(['?', '#']) {
            return fail(said("it ends before a ? or #"));
        }
        if !address::may_carry_secrets(url) {
            return fail(said(
                "it is not encrypted: only this very computer may be asked over http://",
            ));
        }
        Ok(address)
    }

    /// An address as it is given, whatever it is: what is wrong with it shows when it is asked.
    pub(crate) fn of(text: &str) -> HubAddress {
        let text = text.trim();
        let marked = text.get(..MARK.len()).is_some_and(|it| it.eq_ignore_ascii_case(MARK));
        let url = text.get(if marked { MARK.len() } else { 0 }..).unwrap_or_default();
        let url = url.trim_end_matches('/').to_owned();
        let dialect =
            if marked || is_modelscope(&url) { Dialect::ModelScope } else { Dialect::HuggingFace };
        HubAddress { url, dialect, marked }
    }

    /// The address alone.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// How the hub is asked.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The page of a repository, for people.
    pub fn page(&self, repository: &str) -> String {
        let path = match self.dialect {
            Dialect::HuggingFace => repository.to_owned(),
            Dialect::ModelScope => format!("models/{repository}"),
        };
        address::shown(&address::join(&self.url, &path))
    }
}

impl std::fmt::Display for HubAddress {
    /// As [`HubAddress::parse`] reads it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", if self.marked { MARK } else { "" }, self.url)
    }
}

fn is_modelscope(url: &str) -> bool {
    let Some(origin) = address::origin(url) else { return false };
    let host = origin.split_once("://").map_or("", |it| it.1).split(':').next().unwrap_or("");
    MODELSCOPE_HOSTS.iter().any(|it| {
        host.strip_suffix(it).is_some_and(|before| before.is_empty() || before.ends_with('.'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_or_a_mark_says_which_dialect_is_spoken() {
        for (text, dialect) in [
            ("https://huggingface.co", Dialect::HuggingFace),
            ("https://hf-mirror.test/", Dialect::HuggingFace),
            ("https://notmodelscope.cn", Dialect::HuggingFace),
            ("https://modelscope.cn.evil.test", Dialect::HuggingFace),
            ("https://www.ModelScope.cn", Dialect::ModelScope),
            ("https://modelscope.ai:443/", Dialect::ModelScope),
            ("modelscope", Dialect::ModelScope),
            ("ModelScope+https://mirror.test", Dialect::ModelScope),
            ("modelscope+http://127.0.0.1:8080/hub", Dialect::ModelScope),
        ] {
            let address = HubAddress::parse(text).expect(text);
            assert_eq!(address.dialect(), dialect, "{text}");
            assert_eq!(HubAddress::parse(&address.to_string()).expect("again"), address);
        }
    }

    #[test]
    fn what_no_hub_should_be_asked_at_is_refused() {
        for text in [
            "",
            "huggingface.co",
            "ftp://host.test",
            "http://host.test",
            "modelscope+http://host.test",
            "https://me:secret@host.test",
            "https://host.test?token=secret",
            "https://host.test#x",
            "https://",
            "https://host .test",
            "modelscope+",
        ] {
            let error = HubAddress::parse(text).expect_err(text);
            assert!(matches!(error, Error::HubAddress { .. }), "{text:?}: {error}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        HubAddress::parse("http://localhost:8080").expect("this machine");
    }

    #[test]
    fn a_page_is_where_people_find_it() {
        assert_eq!(HubAddress::of("https://h.test/").page("o/n"), "https://h.test/o/n");
        assert_eq!(
            HubAddress::of("https://modelscope.cn").page("o/n"),
            "https://modelscope.cn/models/o/n"
        );
    }
}
