//! The person's own programs on the engine that is open already: the command line, and what searches for the desktop.
//!
//! They come by a socket in the home that its owner alone can open, and see what they would see if they opened the
//! library themselves: so nothing of it is in the log of other programs, and nothing is held back. Whatever the engine
//! would answer otherwise than they themselves (another version, other models, a run with settings of its own) they
//! compute themselves; so they do where nobody serves the home.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
};

use riddle_rag::{
    AskEvent, AskRequest, AskResponse, Config, Earlier, Libraries, SearchRequest, SearchResponse,
    Support,
    rerank::{RerankChoice, RerankSettings},
    reuse::Reuse,
    writer::{LLM_EXTRACTIVE, LocalLlm},
};
use riddle_types::Filter;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::connect::answer_of;

/// Routes of the socket.
pub(crate) const SEARCH: &str = "/own/search";
pub(crate) const ASK: &str = "/own/ask";

/// Where it is. Systems without sockets in the file system have none.
pub(crate) fn place(home: &Path) -> Option<PathBuf> {
    cfg!(unix).then(|| home.join("doors.sock"))
}

/// Whose engine would answer alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Like {
    version: String,
    models: PathBuf,
}

impl Like {
    pub(crate) fn of(config: &Config) -> Like {
        Like { version: env!("CARGO_PKG_VERSION").to_owned(), models: config.models_dir() }
    }
}

/// A search as it crosses the socket.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Search {
    like: Like,
    query: String,
    k: usize,
    filter: Filter,
    keyword_candidates: usize,
    vector_candidates: usize,
    fused_candidates: usize,
    rerank: bool,
    explain: bool,
    // Who does not say it is of another version, and is told so.
    #[serde(default)]
    offline: bool,
}

impl Search {
    /// `None`: it is a run of its own, in memory or time or by a model that nobody else uses.
    fn of(request: &SearchRequest, config: &Config) -> Option<Search> {
        let rerank = match request.rerank {
            RerankChoice::Configured => true,
            RerankChoice::Off => false,
            RerankChoice::Model(_) => return None,
        };
        let is_usual = request.rerank_settings == RerankSettings::default();
        // Other libraries are asked by who was told of them.
        let alone = request.libraries == Libraries::Home;
        let for_the_person = !request.outward && request.reader.is_none();
        (is_usual && alone && for_the_person && !request.idle).then(|| Search {
            like: Like::of(config),
            query: request.query.clone(),
            k: request.k,
            filter: request.filter.clone(),
            keyword_candidates: request.keyword_candidates,
            vector_candidates: request.vector_candidates,
            fused_candidates: request.fused_candidates,
            rerank,
            explain: request.explain,
            offline: request.offline || config.offline,
        })
    }

    pub(crate) fn is_like(&self, like: &Like) -> bool {
        self.like == *like
    }

    pub(crate) fn request(self) -> SearchRequest {
        SearchRequest {
            k: self.k,
            filter: self.filter,
            keyword_candidates: self.keyword_candidates,
            vector_candidates: self.vector_candidates,
            fused_candidates: self.fused_candidates,
            rerank: if self.rerank { RerankChoice::Configured } else { RerankChoice::Off },
            explain: self.explain,
            offline: self.offline,
            ..SearchRequest::new(self.query)
        }
    }
}

/// A question as it crosses the socket: one that is answered with quotations, which needs no words while it is written.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Question {
    search: Search,
    passages: usize,
    earlier: Vec<String>,
    offline: bool,
    reuse: Reuse,
}

impl Question {
    fn of(request: &AskRequest, llm: &str, config: &Config) -> Option<Question> {
        let questions: Vec<String> = request.earlier.iter().map(|it| it.question.clone()).collect();
        let alone =
            questions.iter().cloned().map(Earlier::from).eq(request.earlier.iter().cloned());
        let is_usual = llm == LLM_EXTRACTIVE
            && request.remote.is_none()
            && request.local == LocalLlm::default()
            && alone;
        if !is_usual {
            return None;
        }
        Some(Question {
            search: Search::of(&request.search, config)?,
            passages: request.passages,
            earlier: questions,
            offline: request.offline,
            reuse: request.reuse,
        })
    }

    pub(crate) fn is_like(&self, like: &Like) -> bool {
        self.search.is_like(like)
    }

    pub(crate) fn request(self) -> AskRequest {
        AskRequest {
            passages: self.passages,
            earlier: self.earlier.into_iter().map(Earlier::from).collect(),
            offline: self.offline,
            reuse: self.reuse,
            search: self.search.request(),
            ..AskRequest::new("")
        }
    }
}

/// What happened while a question was answered, in its order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    /// It was put so that it stands by itself.
    Rewritten(String),
    /// More of the answer.
    Piece(String),
    /// The pieces since the one before are this sentence.
    Checked(Support),
}

impl Said {
    /// As whoever watches an answer is told.
    pub fn event(&self) -> AskEvent<'_> {
        match self {
            Said::Rewritten(question) => AskEvent::Rewritten(question),
            Said::Piece(text) => AskEvent::Piece(text),
            Said::Checked(support) => AskEvent::Checked(support),
        }
    }
}

/// An answer, and how it came.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Answered {
    /// What happened.
    pub said: Vec<Said>,
    /// The answer.
    pub response: AskResponse,
}

/// Has the engine search that is open already. `None`: there is none, or it would not do this as this process does.
pub fn search(config: &Config, request: &SearchRequest) -> Option<SearchResponse> {
    ask_there(config, SEARCH, &Search::of(request, config)?)
}

/// Has the engine answer that is open already. `None` as for [`search`].
pub fn ask(config: &Config, request: &AskRequest, llm: &str) -> Option<Answered> {
    ask_there(config, ASK, &Question::of(request, llm, config)?)
}

/// Whether there is one.
pub fn is_there(config: &Config) -> bool {
    socket::connect(config).is_some()
}

/// Whatever goes wrong there is told by the library itself, which is opened then.
fn ask_there<T: DeserializeOwned>(
    config: &Config,
    route: &str,
    asked: &impl Serialize,
) -> Option<T> {
    let mut stream = socket::connect(config)?;
    let body = serde_json::to_vec(asked).ok()?;
    let head = format!(
        "POST {route} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(&body).ok()?;
    let (status, answer) = answer_of(&mut stream, None).ok()?;
    if status != 200 {
        tracing::debug!(status, "the engine that is open does not answer this");
        return None;
    }
    serde_json::from_slice(&answer).ok()
}

#[cfg(unix)]
mod socket {
    use std::{os::unix::net::UnixStream, time::Duration};

    use riddle_rag::Config;

    /// Longer than the engine itself waits for an answer.
    const PATIENCE: Duration = Duration::from_secs(660);

    pub(super) fn connect(config: &Config) -> Option<UnixStream> {
        let stream = UnixStream::connect(super::place(&config.home)?).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        Some(stream)
    }
}

#[cfg(not(unix))]
mod socket {
    use std::net::TcpStream;

    use riddle_rag::Config;

    /// There is no socket to open.
    pub(super) fn connect(_: &Config) -> Option<TcpStream> {
        None
    }
}

#[cfg(test)]
mod tests {
    use riddle_rag::{rerank::Mode, writer::RemoteLlm};
    use riddle_types::Reader;

    use super::*;

    fn there_and_back<T: Serialize + DeserializeOwned>(value: &T) -> T {
        serde_json::from_str(&serde_json::to_string(value).expect("plain")).expect("plain")
    }

    #[test]
    fn what_arrives_is_what_was_asked_and_what_is_special_stays_here() {
        let config = Config::new("/home/of/riddle");
        let like = Like::of(&config);
        let request = SearchRequest {
            k: 3,
            filter: Filter { folders: vec!["/files".to_owned()], ..Filter::default() },
            keyword_candidates: 7,
            vector_candidates: 8,
            fused_candidates: 9,
            rerank: RerankChoice::Off,
            explain: true,
            ..SearchRequest::new("blue boat")
        };
        let sent = Search::of(&request, &config).expect("usual");
        let arrived = there_and_back(&sent);
        assert!(arrived.is_like(&like));
        assert_eq!(arrived.request(), request);
        let other = Config { models: Some("/other".into()), ..config.clone() };
        assert!(!there_and_back(&sent).is_like(&Like::of(&other)));
        let model = RerankChoice::Model("other".to_owned());
        let reader = Reader { user: "ada".to_owned(), groups: Vec::new() };
        let settings = RerankSettings { mode: Mode::Set, ..RerankSettings::default() };
        for special in [
            SearchRequest { rerank: model, ..request.clone() },
            SearchRequest { rerank_settings: settings, ..request.clone() },
            SearchRequest { outward: true, ..request.clone() },
            SearchRequest { reader: Some(reader), ..request.clone() },
            SearchRequest { libraries: Libraries::All, ..request.clone() },
        ] {
            assert!(Search::of(&special, &config).is_none(), "{special:?}");
        }
    }

    #[test]
    fn questions_that_need_another_writer_stay_here() {
        let config = Config::new("/home/of/riddle");
        let request = AskRequest {
            passages: 3,
            earlier: vec![Earlier::from("Who bakes?".to_owned())],
            ..AskRequest::new("And when?")
        };
        let sent = Question::of(&request, LLM_EXTRACTIVE, &config).expect("usual");
        assert_eq!(there_and_back(&sent).request(), request);
        assert!(Question::of(&request, "local:model", &config).is_none());
        let remote = RemoteLlm {
            url: "http://127.0.0.1".to_owned(),
            model: "m".to_owned(),
            key: Some("secret".to_owned()),
            context_tokens: None,
        };
        let far = AskRequest { remote: Some(remote), ..request.clone() };
        assert!(Question::of(&far, LLM_EXTRACTIVE, &config).is_none());
        let answered = Earlier { answer: Some("Ada".to_owned()), ..request.earlier[0].clone() };
        let known = AskRequest { earlier: vec![answered], ..request };
        assert!(Question::of(&known, LLM_EXTRACTIVE, &config).is_none());
    }
}
