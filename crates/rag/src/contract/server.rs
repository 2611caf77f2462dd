//! Servers that do a stage of a search in the place of a model on this machine.

use serde::{Deserialize, Serialize};

/// What stands between a server's address and the name of the model there.
const BEFORE_MODEL: char = '#';

/// A server that does a stage of a search. Where models are named it is named by its address, and behind a `#` by the
/// model there, if the server wants one: `http://gpu-box:8080/v1/rerank#bge-reranker-v2-m3`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageServer {
    /// Its address.
    pub url: String,
    /// Name of the model there.
    pub model: Option<String>,
}

impl StageServer {
    /// The one of that name; `None`: it is the name of a model on this machine.
    pub fn of(name: &str) -> Option<StageServer> {
        let name = name.trim();
        let scheme = name.split_once("://")?.0.to_ascii_lowercase();
        if !matches!(scheme.as_str(), "http" | "https") {
            return None;
        }
        let (url, model) = name.split_once(BEFORE_MODEL).unwrap_or((name, ""));
        let model = Some(model.trim()).filter(|it| !it.is_empty()).map(str::to_owned);
        Some(StageServer { url: url.to_owned(), model })
    }

    /// Scheme, host and port, as far as the address has them.
    pub fn origin(&self) -> String {
        riddle_models::web::origin(&self.url)
            .unwrap_or_else(|| riddle_models::web::shown(&self.url))
    }

    /// Whether the address is one that embeds, by its end: where a server is named that can be either.
    pub fn embeds(&self) -> bool {
        let path = self.url.split_once("://").and_then(|it| it.1.split_once('/'));
        path.is_some_and(|it| it.1.trim_end_matches('/').rsplit('/').next() == Some("embeddings"))
    }

    /// Its name among those of models.
    pub fn name(&self) -> String {
        match &self.model {
            Some(model) => format!("{}{BEFORE_MODEL}{model}", self.url),
            None => self.url.clone(),
        }
    }
}

/// What is put before texts, as the model that embeds them was trained with it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmbedPrompts {
    /// Before what is searched for.
    pub query: String,
    /// Before a passage.
    pub passage: String,
}

/// What a server did of a request, and how long this machine waited for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RemoteStage {
    /// Scheme, host and port.
    pub server: String,
    /// The model there, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Milliseconds from the first byte sent to the last one read.
    pub ms: f64,
    /// Requests that were answered.
    pub calls: u32,
    /// Requests that were sent, those among them that were tried again.
    pub tries: u32,
    /// Texts that were sent.
    pub texts: u64,
    /// Bytes that were sent.
    pub sent_bytes: u64,
}

impl RemoteStage {
    /// Adds what was done after it, by the same server.
    pub(crate) fn add(&mut self, more: &RemoteStage) {
        self.ms += more.ms;
        self.calls += more.calls;
        self.tries += more.tries;
        self.texts += more.texts;
        self.sent_bytes += more.sent_bytes;
    }

    /// Who that is, for people: the model and where it is.
    pub fn who(&self) -> String {
        match &self.model {
            Some(model) => format!("{model} at {}", self.server),
            None => self.server.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_by_its_address_and_its_model() {
        let of = |name: &str| StageServer::of(name).map(|it| (it.url.clone(), it.model.clone()));
        let server =
            |url: &str, model: Option<&str>| Some((url.to_owned(), model.map(str::to_owned)));
        assert_eq!(of(" http://gpu:8080/rerank "), server("http://gpu:8080/rerank", None));
        assert_eq!(of("https://gpu/v1#BAAI/bge"), server("https://gpu/v1", Some("BAAI/bge")));
        assert_eq!(of("HTTP://gpu#"), server("HTTP://gpu", None));
        for model in
            ["riddle-reranker", "BAAI/bge", "/models/x", "ollama:llama", "milvus://box/team"]
        {
            assert_eq!(of(model), None, "{model}");
        }
        let named = StageServer::of("https://gpu/v1#m").expect("a server");
        assert_eq!(named.name(), "https://gpu/v1#m");
        let embeds = |name: &str| StageServer::of(name).is_some_and(|it| it.embeds());
        assert!(embeds("http://gpu/v1/embeddings#m") && embeds("http://gpu/embeddings/"));
        assert!(!embeds("http://gpu/v1/rerank#m") && !embeds("http://embeddings"));
    }
}
