//! Endpoints that speak the OpenAI protocol: their addresses, and how they are used.

use std::time::Duration;

use riddle_models::web;

use crate::{Error, Result};

/// Where a model answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Address of the chat completions.
    pub(crate) url: String,
    /// The same without anything secret.
    pub(crate) shown: String,
    origin: String,
    trusted: bool,
}

impl Endpoint {
    /// Of the address of a server, of its API (`…/v1`), or of its chat completions.
    ///
    /// # Errors
    /// [`Error::Address`] for what is not http or https.
    pub fn parse(address: &str) -> Result<Endpoint> {
        let complete = |base: &str, path: &str| match path {
            "" => format!("{base}/v1/chat/completions"),
            path if path.ends_with("chat/completions") => base.to_owned(),
            _ => format!("{base}/chat/completions"),
        };
        Endpoint::completed(address, "give http://HOST:PORT/v1 or https://HOST/v1", complete)
    }

    /// What ranks texts, of the address of a server, of its API, or of its `…/rerank`.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn reranker(address: &str) -> Result<Endpoint> {
        let complete = |base: &str, path: &str| match path.rsplit('/').next() {
            Some("rerank" | "reranking") => base.to_owned(),
            _ => format!("{base}/rerank"),
        };
        Endpoint::completed(address, "give http://HOST:PORT/v1/rerank", complete)
    }

    /// What embeds texts, of the address of a server, of its API (`…/v1`), or of its `…/embeddings`.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn embedder(address: &str) -> Result<Endpoint> {
        let complete = |base: &str, path: &str| match path {
            "" => format!("{base}/v1/embeddings"),
            path if path.ends_with("embeddings") => base.to_owned(),
            _ => format!("{base}/embeddings"),
        };
        Endpoint::completed(address, "give http://HOST:PORT/v1 or https://HOST/v1", complete)
    }

    /// `complete` makes the whole address of one without its last `/`, and of its path.
    fn completed(
        address: &str,
        like: &'static str,
        complete: impl Fn(&str, &str) -> String,
    ) -> Result<Endpoint> {
        let address = address.trim();
        let bad = |why| Error::Address { address: web::shown(address), why };
        let origin = web::origin(address).ok_or_else(|| bad(like))?;
        if address.contains(['?', '#', ' ']) {
            return Err(bad("it has a query, a fragment or a space"));
        }
        if web::has_user(address) {
            return Err(bad("it has a user name or password in it: give the key apart from it"));
        }
        let base = address.trim_end_matches('/');
        let path = base.split_once("://").and_then(|it| it.1.split_once('/')).map_or("", |it| it.1);
        let url = complete(base, path);
        let trusted = web::may_carry_secrets(&url);
        Ok(Endpoint { shown: web::shown(&url), url, origin, trusted })
    }

    /// Scheme, host and port: whom the user trusts or not.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Whether it is on this very machine.
    pub fn is_local(&self) -> bool {
        web::is_local(&self.url)
    }

    /// Whether its address names a version of the protocol, as `/v1/`.
    pub(crate) fn is_versioned(&self) -> bool {
        self.url.split('/').skip(3).any(|it| matches!(it, "v1" | "v2"))
    }

    /// Whether a key may be sent there: encrypted, or within this machine.
    pub fn may_have_key(&self) -> bool {
        self.trusted
    }
}

/// How an endpoint is used.
#[derive(Clone, PartialEq, Eq)]
pub struct RemoteOptions {
    /// Name of the model there.
    pub model: String,
    /// Key, sent to the endpoint and to no other host, and only encrypted or within this machine.
    pub key: Option<String>,
    /// Tokens that the model reads and writes together.
    pub context_tokens: usize,
    /// Longest time to find and connect to the server.
    pub connect_timeout: Duration,
    /// Longest silence before the first word: servers load the model then.
    pub first_timeout: Duration,
    /// Longest silence between words.
    pub stall_timeout: Duration,
    /// Tries, as long as nothing of an answer has come; at least 1.
    pub tries: u32,
    /// Pause before the second try, doubled for each further one, if the server asks for none.
    pub pause: Duration,
    /// Refuse all endpoints but those of this machine.
    pub offline: bool,
}

impl RemoteOptions {
    /// For a model of that name, with no key.
    pub fn new(model: impl Into<String>) -> RemoteOptions {
        RemoteOptions {
            model: model.into(),
            key: None,
            context_tokens: 8192,
            connect_timeout: Duration::from_secs(8),
            first_timeout: Duration::from_secs(180),
            stall_timeout: Duration::from_secs(45),
            tries: 3,
            pause: Duration::from_millis(500),
            offline: false,
        }
    }
}

impl std::fmt::Debug for RemoteOptions {
    /// Without the key: this ends up in logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteOptions")
            .field("model", &self.model)
            .field("key", &self.key.is_some())
            .field("context_tokens", &self.context_tokens)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lead_to_what_ranks() {
        let url = |address: &str| Endpoint::reranker(address).expect("an address").url;
        for (address, whole) in [
            ("http://gpu:8080", "http://gpu:8080/rerank"),
            ("http://gpu:8080/", "http://gpu:8080/rerank"),
            ("http://gpu:8080/v1", "http://gpu:8080/v1/rerank"),
            ("http://gpu:8080/rerank", "http://gpu:8080/rerank"),
            ("https://api.test/v2/rerank/", "https://api.test/v2/rerank"),
            ("http://gpu:8080/reranking", "http://gpu:8080/reranking"),
        ] {
            assert_eq!(url(address), whole);
        }
        assert!(matches!(Endpoint::reranker("gpu:8080/rerank"), Err(Error::Address { .. })));
    }

    #[test]
    fn addresses_lead_to_what_embeds() {
        let url = |address: &str| Endpoint::embedder(address).expect("an address").url;
        for (address, whole) in [
            ("http://gpu:8080", "http://gpu:8080/v1/embeddings"),
            ("http://gpu:8080/v1/", "http://gpu:8080/v1/embeddings"),
            ("https://api.test/openai/v1", "https://api.test/openai/v1/embeddings"),
            ("http://gpu:8080/v1/embeddings", "http://gpu:8080/v1/embeddings"),
            ("http://gpu:8080/embeddings/", "http://gpu:8080/embeddings"),
        ] {
            assert_eq!(url(address), whole);
        }
        assert!(matches!(Endpoint::embedder("gpu:8080/v1"), Err(Error::Address { .. })));
    }

    #[test]
    fn addresses_lead_to_the_chat() {
        let url = |address: &str| Endpoint::parse(address).expect("an address").url;
        for address in
            ["http://localhost:11434", "http://localhost:11434/", "http://localhost:11434/v1"]
        {
            assert_eq!(url(address), "http://localhost:11434/v1/chat/completions");
        }
        assert_eq!(
            url(" https://api.test/openai/v1/ "),
            "https://api.test/openai/v1/chat/completions"
        );
        assert_eq!(url("https://api.test/chat/completions"), "https://api.test/chat/completions");
        for bad in
            ["", "localhost:11434", "ftp://x/v1", "http://", "https://a b/v1", "https://x/v1?key=1"]
        {
            assert!(matches!(Endpoint::parse(bad), Err(Error::Address { .. })), "{bad}");
        }
        let error = Endpoint::parse("https://me:secret@api.test/v1").expect_err("a password");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}
