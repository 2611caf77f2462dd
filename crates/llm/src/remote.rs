//! A model behind an endpoint that speaks the OpenAI protocol.

use std::{
    ops::ControlFlow,
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    time::{Duration, Instant},
};

use riddle_types::{
    Generation, GenerationRequest, Generator, Message, Notice, StageError, Trouble,
};
use serde_json::json;
use ureq::Agent;

use crate::{
    Endpoint, Error, Prompt, RemoteOptions, Result,
    agent::{Timeouts, agent},
    call::{Call, Told},
    prompt::notices,
    stream::Thoughts,
};

/// How often the caller is asked whether it still waits.
const HEARTBEAT: Duration = Duration::from_millis(100);

/// A model behind an endpoint.
#[derive(Debug)]
pub struct Remote {
    name: String,
    endpoint: Endpoint,
    options: RemoteOptions,
}

impl Remote {
    /// Nothing is sent before the first question.
    ///
    /// # Errors
    /// [`Error::OpenKey`] and [`Error::Offline`].
    pub fn new(endpoint: Endpoint, options: RemoteOptions) -> Result<Remote> {
        if options.key.is_some() && !endpoint.may_have_key() {
            return Err(Error::OpenKey { url: endpoint.shown });
        }
        if options.offline && !endpoint.is_local() {
            return Err(Error::Offline { url: endpoint.shown });
        }
        let name = format!("remote:{}", options.model);
        Ok(Remote { name, endpoint, options })
    }

    /// What a request would send.
    pub fn prompt(&self, request: &GenerationRequest) -> Prompt {
        Prompt::of(request, self.options.context_tokens)
    }

    /// [`Generator::generate`] with this crate's error. While nothing comes, `sink` gets empty pieces, so that it
    /// can stop the wait; stopping closes the connection. An answer that breaks off is kept, and the reason is one
    /// of its notices.
    ///
    /// # Errors
    /// When there is no word of an answer: the server can not be reached, refuses, says nothing, or does not
    /// speak the protocol.
    pub fn answer(
        &self,
        request: &GenerationRequest,
        sink: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Generation> {
        let prompt = self.prompt(request);
        let generation = Generation { prompt: Some(prompt.to_text()), ..Generation::default() };
        let generation = self.ask(generation, &prompt.messages, request.max_tokens, sink)?;
        let mut notices = notices(&prompt);
        notices.extend(generation.notices);
        Ok(Generation { notices, ..generation })
    }

    /// Sends the messages and hears what comes.
    fn ask(
        &self,
        mut generation: Generation,
        messages: &[Message],
        max_tokens: usize,
        sink: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Generation> {
        let started = Instant::now();
        let agent = self.agent();
        let (tell, told) = channel();
        let body = json!({
            "model": self.options.model,
            "messages": messages,
            "max_tokens": max_tokens,
            "temperature": 0,
            "stream": true,
        });
        let call = Call {
            agent: agent.clone(),
            endpoint: self.endpoint.clone(),
            options: self.options.clone(),
            body,
        };
        // Reading blocks; whoever waits for the answer must be able to stop it all the same.
        let reader = std::thread::Builder::new()
            .name("llm".to_owned())
            .spawn(move || call.run(&tell))
            .map_err(Error::Thread)?;
        let limits = (self.endpoint.shown.as_str(), self.options.stall_timeout);
        let heard = hear(&told, limits, started, &mut generation, sink);
        // Whatever is still under way ends here, and the connection with it.
        agent.shutdown();
        drop(told);
        // It has nothing left to say and may still be closing its connection.
        drop(reader);
        match heard {
            Err(error) if generation.text.trim().is_empty() => Err(error),
            Err(error) => {
                let why = Trouble::of(&error);
                generation.notices.push(Notice::AnswerBreaksOff { why });
                Ok(generation)
            }
            Ok(()) => Ok(generation),
        }
    }

    fn agent(&self) -> Agent {
        let RemoteOptions { connect_timeout, first_timeout, stall_timeout, .. } = self.options;
        let timeouts =
            Timeouts { connect: connect_timeout, send: stall_timeout, silence: first_timeout };
        agent(self.endpoint.is_local(), timeouts)
    }
}

impl Generator for Remote {
    fn name(&self) -> &str {
        &self.name
    }

    fn generate(
        &self,
        request: &GenerationRequest,
        sink: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Generation, StageError> {
        Ok(self.answer(request, sink)?)
    }

    fn complete(
        &self,
        messages: &[Message],
        max_tokens: usize,
        sink: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Generation, StageError> {
        Ok(self.ask(Generation::default(), messages, max_tokens, sink)?)
    }
}

/// Hears the answer to its end, or until `sink` has enough.
fn hear(
    told: &Receiver<Told>,
    (url, stall): (&str, Duration),
    started: Instant,
    generation: &mut Generation,
    sink: &mut dyn FnMut(&str) -> ControlFlow<()>,
) -> Result<()> {
    let mut thoughts = Thoughts::default();
    let mut tokens = 0;
    let mut heard = Instant::now();
    loop {
        let piece = match told.recv_timeout(HEARTBEAT) {
            Ok(Told::Text(text)) => {
                tokens += 1;
                heard = Instant::now();
                thoughts.push(&text)
            }
            Ok(Told::Done { cut, tokens }) => {
                let rest = thoughts.end();
                generation.text.push_str(&rest);
                let _ = sink(&rest);
                if cut {
                    generation.notices.push(Notice::AnswerCutOff);
                }
                generation.tokens = tokens;
                return Ok(());
            }
            Ok(Told::Failed(error)) => return Err(error),
            // Before the first word the connection itself is timed.
            Err(RecvTimeoutError::Timeout) if tokens > 0 && heard.elapsed() > stall => {
                return Err(Error::Silent { url: url.to_owned(), seconds: stall.as_secs() });
            }
            Err(RecvTimeoutError::Timeout) => String::new(),
            // The thread has ended without a word.
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        };
        if generation.text.is_empty() && !piece.is_empty() {
            generation.first_token_ms = started.elapsed().as_secs_f64() * 1e3;
        }
        generation.text.push_str(&piece);
        generation.tokens = Some(tokens);
        if sink(&piece).is_break() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_passages_go_where_they_may() {
        let with = |address: &str, key: bool, offline: bool| {
            let options = RemoteOptions {
                key: key.then(|| "secret".to_owned()),
                offline,
                ..RemoteOptions::new("m")
            };
            assert!(!format!("{options:?}").contains("secret"));
            Remote::new(Endpoint::parse(address).expect("an address"), options)
        };
        assert!(matches!(with("http://far.test/v1", true, false), Err(Error::OpenKey { .. })));
        assert!(matches!(with("https://far.test/v1", true, true), Err(Error::Offline { .. })));
        assert!(with("http://127.0.0.1:1/v1", true, true).is_ok());
        let remote = with("https://far.test/v1", true, false).expect("encrypted");
        assert_eq!(remote.name(), "remote:m");
        assert!(!remote.endpoint.is_local() && remote.endpoint.origin() == "https://far.test:443");
    }
}
