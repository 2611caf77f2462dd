//! What an endpoint would be sent, shown before anything is.

use riddle_llm::{Prompt, RemoteOptions};
use riddle_types::{ChunkId, GenerationRequest, Passage, PassageOrder};

use super::{
    ask::MAX_TOKENS,
    border::Border,
    follow_up::{self, Understood},
    generator,
};
use crate::{
    contract::{AskRequest, Result, SearchHit, SearchRequest},
    home::endpoints::allowed,
    search::Assistant,
};

/// What an endpoint would be sent for a question.
#[derive(Debug, Clone, PartialEq)]
pub struct Outgoing {
    /// Scheme, host and port that it would be sent to.
    pub origin: String,
    /// It is this very machine: nothing leaves it.
    pub is_local: bool,
    /// It has been allowed already.
    pub is_allowed: bool,
    /// The question as it is searched for without asking the endpoint, which may put it otherwise in a thread.
    pub question: String,
    /// The passages, in the order of their numbers; none: nothing would be sent but a question that follows others.
    pub hits: Vec<SearchHit>,
    /// Passages that would not be sent, because their folders never leave this machine.
    pub held_back: u64,
    /// What the endpoint would be asked first, to understand a question that follows others.
    pub rewriting: Option<String>,
    /// What it would be asked, word for word.
    pub prompt: String,
}

impl Assistant {
    /// What the endpoint of a request would be sent, allowed or not; nothing is sent.
    ///
    /// # Errors
    /// As [`search`](Self::search); a request without an endpoint.
    pub fn outgoing(&self, request: &AskRequest, llm: &str) -> Result<Outgoing> {
        outgoing(self, request, llm)
    }
}

fn outgoing(assistant: &Assistant, request: &AskRequest, llm: &str) -> Result<Outgoing> {
    let (remote, endpoint) = generator::endpoint_of(request, llm)?;
    let allowed = allowed(&assistant.catalog)?;
    let border = Border::of(&assistant.catalog, !endpoint.is_local())?;
    let question = Understood::by_words(&request.search.query, &request.earlier).question;
    let search = SearchRequest { query: question.clone(), ..request.search.clone() };
    let found = assistant.search(&search)?;
    let passed = border.pass(&found.hits, request.passages)?;
    let passages = passed
        .hits
        .iter()
        .zip(1..)
        .map(|(hit, number)| Passage {
            number,
            text: hit.text.clone(),
            chunk: Some(ChunkId(hit.chunk)),
        })
        .collect();
    let asked = GenerationRequest {
        question: question.clone(),
        passages,
        max_tokens: MAX_TOKENS,
        order: PassageOrder::Ranked,
    };
    let context =
        remote.context_tokens.unwrap_or(RemoteOptions::new(remote.model.as_str()).context_tokens);
    let rewriting = follow_up::messages(&request.search.query, &border.earlier(&request.earlier)?);
    Ok(Outgoing {
        origin: endpoint.origin().to_owned(),
        is_local: endpoint.is_local(),
        is_allowed: endpoint.is_local() || allowed.iter().any(|it| it == endpoint.origin()),
        question,
        hits: passed.hits,
        held_back: passed.held_back,
        rewriting: rewriting.map(|it| it.map(|it| it.content).join("\n\n")),
        prompt: Prompt::of(&asked, context).to_text(),
    })
}
