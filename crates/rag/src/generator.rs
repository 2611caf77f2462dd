//! Who writes the answer, and where passages may be sent.

use std::ops::ControlFlow;

use riddle_catalog::Catalog;
use riddle_llm::{Endpoint, NO_ANSWER, Remote, RemoteOptions};
use riddle_types::Generator;

use crate::{
    AskRequest, Config, Error, Result,
    answer::{LLM_EXTRACTIVE, LLM_REMOTE},
    local::{LLM_LOCAL, LocalSlot},
};

/// Setting: origins of the endpoints that passages may be sent to, one per line.
const ALLOWED_SETTING: &str = "allowed_endpoints";

/// An endpoint and its model.
#[derive(Clone, PartialEq, Eq)]
pub struct RemoteLlm {
    /// Address of the server, of its API or of its chat completions.
    pub url: String,
    /// Name of the model there.
    pub model: String,
    /// Key, if it wants one.
    pub key: Option<String>,
    /// Tokens that the model reads and writes together; `None`: 8 192.
    pub context_tokens: Option<usize>,
}

impl std::fmt::Debug for RemoteLlm {
    /// Without the key: this ends up in logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteLlm")
            .field("url", &riddle_models::web::shown(&self.url))
            .field("model", &self.model)
            .field("key", &self.key.is_some())
            .finish_non_exhaustive()
    }
}

/// What is known of an endpoint without asking it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointInfo {
    /// Scheme, host and port.
    pub origin: String,
    /// It is on this very machine: nothing leaves it.
    pub is_local: bool,
    /// Questions and passages may be sent to it.
    pub is_allowed: bool,
}

/// What is known of an endpoint's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyState {
    /// There is none.
    None,
    /// The system's secret store keeps one.
    Kept,
    /// Nobody knows: the secret store can not be asked. Why, and what works instead.
    Unknown(String),
}

/// Who writes an answer.
pub(crate) struct Opened {
    pub(crate) generator: Box<dyn Generator>,
    /// What it is given leaves this machine.
    pub(crate) leaves: bool,
}

/// The generator of that name, if it may be used; opening it sends nothing.
pub(crate) fn open(
    config: &Config,
    catalog: &Catalog,
    local: &LocalSlot,
    request: &AskRequest,
    llm: &str,
) -> Result<Option<Opened>> {
    if llm == LLM_EXTRACTIVE {
        return Ok(None);
    }
    if let Some(name) = llm.strip_prefix(LLM_LOCAL) {
        let generator = local.open(config, name, request.local)?;
        return Ok(Some(Opened { generator, leaves: false }));
    }
    let (remote, endpoint) = endpoint_of(request, llm)?;
    if !endpoint.is_local() && !allowed(catalog)?.iter().any(|it| it == endpoint.origin()) {
        return Err(Error::BadRequest(format!(
            "{} would be sent your questions and the passages found for them: --preview shows them; allow it once (--allow-endpoint, or in the app)",
            endpoint.origin()
        )));
    }
    let mut options = RemoteOptions::new(remote.model.as_str());
    options.context_tokens = remote.context_tokens.unwrap_or(options.context_tokens);
    options.offline = config.offline || request.offline;
    options.key = remote.key.clone().or_else(|| kept_key(&endpoint));
    let leaves = !endpoint.is_local();
    let generator = Box::new(Remote::new(endpoint, options).map_err(bad)?);
    Ok(Some(Opened { generator, leaves }))
}

/// The endpoint that a request names.
pub(crate) fn endpoint_of<'a>(
    request: &'a AskRequest,
    llm: &str,
) -> Result<(&'a RemoteLlm, Endpoint)> {
    if llm != LLM_REMOTE {
        return Err(Error::BadRequest(format!(
            "{llm:?} can not answer: use --llm {LLM_EXTRACTIVE}, which quotes your files, --llm {LLM_LOCAL}MODEL or --llm {LLM_REMOTE}"
        )));
    }
    let Some(remote) = &request.remote else {
        return Err(Error::BadRequest(
            "no endpoint is known: give its address and the model's name with --llm-url and --llm-model, or in RIDDLE_LLM_URL and RIDDLE_LLM_MODEL".to_owned(),
        ));
    };
    Ok((remote, Endpoint::parse(&remote.url).map_err(bad)?))
}

/// The key that the system keeps for an endpoint. Where it can not be had the endpoint is asked without: it may
/// want none, and says so if it does.
fn kept_key(endpoint: &Endpoint) -> Option<String> {
    if !endpoint.may_have_key() {
        return None;
    }
    riddle_llm::key(endpoint).unwrap_or_else(|error| {
        tracing::warn!("the endpoint is asked without a key: {error}");
        None
    })
}

pub(crate) fn keep_key(address: &str, key: &str) -> Result<()> {
    riddle_llm::keep_key(&Endpoint::parse(address).map_err(bad)?, key).map_err(bad)
}

pub(crate) fn forget_key(address: &str) -> Result<bool> {
    riddle_llm::forget_key(&Endpoint::parse(address).map_err(bad)?).map_err(bad)
}

pub(crate) fn key_state(address: &str) -> Result<KeyState> {
    Ok(match riddle_llm::has_key(&Endpoint::parse(address).map_err(bad)?) {
        Ok(true) => KeyState::Kept,
        Ok(false) => KeyState::None,
        Err(error) => KeyState::Unknown(error.to_string()),
    })
}

/// Origins that passages may be sent to.
pub(crate) fn allowed(catalog: &Catalog) -> Result<Vec<String>> {
    let setting = catalog.setting(ALLOWED_SETTING)?.unwrap_or_default();
    Ok(setting.lines().map(str::to_owned).collect())
}

/// What is known of an endpoint.
pub(crate) fn info(catalog: &Catalog, address: &str) -> Result<EndpointInfo> {
    let endpoint = Endpoint::parse(address).map_err(bad)?;
    Ok(EndpointInfo {
        origin: endpoint.origin().to_owned(),
        is_local: endpoint.is_local(),
        is_allowed: endpoint.is_local()
            || allowed(catalog)?.iter().any(|it| it == endpoint.origin()),
    })
}

/// Remembers whether passages may be sent to this endpoint; returns its origin.
pub(crate) fn allow(catalog: &Catalog, address: &str, may: bool) -> Result<String> {
    let endpoint = Endpoint::parse(address).map_err(bad)?;
    let mut allowed = allowed(catalog)?;
    let before = allowed.len();
    allowed.retain(|it| may || it != endpoint.origin());
    if may && !allowed.iter().any(|it| it == endpoint.origin()) {
        allowed.push(endpoint.origin().to_owned());
    }
    if allowed.len() != before {
        catalog.set_setting(ALLOWED_SETTING, Some(&allowed.join("\n")))?;
    }
    Ok(endpoint.origin().to_owned())
}

pub(crate) fn bad(error: riddle_llm::Error) -> Error {
    Error::BadRequest(error.to_string())
}

/// Hands an answer on as it comes, unless it may still become the words for no answer.
pub(crate) struct Withheld<'a> {
    sink: &'a mut dyn FnMut(&str) -> ControlFlow<()>,
    held: String,
    open: bool,
}

impl<'a> Withheld<'a> {
    pub(crate) fn new(sink: &'a mut dyn FnMut(&str) -> ControlFlow<()>) -> Withheld<'a> {
        Withheld { sink, held: String::new(), open: false }
    }

    pub(crate) fn push(&mut self, piece: &str) -> ControlFlow<()> {
        if self.open || piece.is_empty() {
            return (self.sink)(piece);
        }
        self.held.push_str(piece);
        let said = self.held.trim_start();
        if NO_ANSWER.starts_with(said) || said.starts_with(NO_ANSWER) {
            return (self.sink)("");
        }
        self.open = true;
        (self.sink)(&std::mem::take(&mut self.held))
    }
}

/// Whether the model has said that the passages hold no answer.
pub(crate) fn is_no_answer(text: &str) -> bool {
    text.trim_start().starts_with(NO_ANSWER)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(pieces: &[&str]) -> String {
        let mut shown = String::new();
        let mut sink = |piece: &str| {
            shown.push_str(piece);
            ControlFlow::Continue(())
        };
        let mut withheld = Withheld::new(&mut sink);
        for piece in pieces {
            assert!(withheld.push(piece).is_continue());
        }
        shown
    }

    #[test]
    fn no_answer_is_not_shown_and_what_only_begins_like_it_is() {
        assert_eq!(shown(&["NO", " ANS", "WER", "."]), "");
        assert!(is_no_answer("\nNO ANSWER."));
        assert_eq!(shown(&["NO", " dogs", " allowed [1]"]), "NO dogs allowed [1]");
        assert_eq!(shown(&[" ", "Blue", " [1]"]), " Blue [1]");
    }
}
