//! Who writes the answer, and where passages may be sent.

use std::ops::ControlFlow;

use riddle_catalog::Catalog;
use riddle_llm::{Endpoint, NO_ANSWER, Remote, RemoteOptions};
use riddle_types::{Advice, Generator, Trouble};

use crate::{
    contract::{AskRequest, Error, LLM_EXTRACTIVE, LLM_LOCAL, LLM_REMOTE, RemoteLlm, Result},
    home::{
        Config,
        endpoints::{allowed, bad, kept_key},
        local::LocalSlot,
    },
};

/// Who writes an answer.
pub(crate) struct Opened {
    pub(crate) generator: Box<dyn Generator>,
    /// What it is given leaves this machine.
    pub(crate) leaves: bool,
    /// The model and all that it is run with: two of the same identity say the same when they are asked the same.
    pub(crate) identity: Option<String>,
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
        let generator = local.open(config, catalog, name, &request.local)?;
        let identity = local.identity(config, name, &request.local);
        return Ok(Some(Opened { generator, leaves: false, identity }));
    }
    let (remote, endpoint) = endpoint_of(request, llm)?;
    if !endpoint.is_local() && !allowed(catalog)?.iter().any(|it| it == endpoint.origin()) {
        return Err(Error::BadRequest(Trouble::with(
            format!(
                "{} would be sent your questions and the passages found for them",
                endpoint.origin()
            ),
            Advice::AllowEndpoint,
        )));
    }
    let mut options = RemoteOptions::new(remote.model.as_str());
    options.context_tokens = remote.context_tokens.unwrap_or(options.context_tokens);
    options.offline = config.offline || request.offline;
    options.key = remote.key.clone().or_else(|| kept_key(&endpoint));
    let leaves = !endpoint.is_local();
    let identity =
        Some(format!("{} {} {}", endpoint.origin(), remote.model, options.context_tokens));
    let generator = Box::new(Remote::new(endpoint, options).map_err(bad)?);
    Ok(Some(Opened { generator, leaves, identity }))
}

/// The endpoint that a request names.
pub(crate) fn endpoint_of<'a>(
    request: &'a AskRequest,
    llm: &str,
) -> Result<(&'a RemoteLlm, Endpoint)> {
    if llm != LLM_REMOTE {
        return Err(Error::BadRequest(Trouble::with(
            format!("{llm:?} can not answer"),
            Advice::ChooseWriter,
        )));
    }
    let Some(remote) = &request.remote else {
        return Err(Error::BadRequest(Trouble::with("no endpoint is known", Advice::GiveEndpoint)));
    };
    Ok((remote, Endpoint::parse(&remote.url).map_err(bad)?))
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
