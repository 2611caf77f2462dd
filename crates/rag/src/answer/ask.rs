//! Answers: passages in, a checked and cited answer out, or an honest refusal.

mod sources;
mod write;

use std::{collections::BTreeMap, ops::ControlFlow};

use riddle_claims::Support;
use riddle_types::{ChunkId, FileState, Generator, LayerEvent, LayerObserver};

use self::write::{Asked, write};
use super::{
    bank::{Asking, Bank, Served},
    border::Border,
    enough::reranker_speaks,
    follow_up::{self, Understood},
    generator::{self, Opened},
};
use crate::{
    contract::{
        AskRequest, AskResponse, NoAnswer, Result, SearchHit, SearchRequest, SearchResponse,
    },
    home::status,
    index::Foreground,
    search::{Assistant, Found, Settled, hit_of},
    stage,
};

/// Most tokens a generator may write.
pub(crate) const MAX_TOKENS: usize = 512;

/// What happens while a question is answered.
#[derive(Debug, Clone, Copy)]
pub enum AskEvent<'a> {
    /// A language model has put a question that follows others so that it stands by itself.
    Rewritten(&'a str),
    /// The reranker finished a layer.
    Layer(&'a LayerEvent),
    /// The passages are known.
    Evidence {
        /// What retrieval found.
        found: &'a Found,
        /// What the reranker made of it.
        settled: &'a Settled,
        /// The passages that the answer may cite, in the order of their numbers.
        hits: &'a [SearchHit],
        /// What was searched for: the question, with what it takes up from earlier ones.
        searched_for: &'a str,
    },
    /// More of the answer; empty while a model is waited for.
    Piece(&'a str),
    /// The pieces since the one before are this sentence, and have been held against what it cites.
    Checked(&'a Support),
}

impl Assistant {
    /// Answers a question from the best passages, or says that nothing in the files answers it. Pieces of
    /// the answer are handed to `sink` as they come; `Break` stops it.
    ///
    /// # Errors
    /// As [`search`](Self::search); an unknown `llm`.
    pub fn ask(
        &self,
        request: &AskRequest,
        llm: &str,
        sink: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<AskResponse> {
        self.ask_observed(request, llm, &mut |event| match event {
            AskEvent::Piece(text) => sink(text),
            _ => ControlFlow::Continue(()),
        })
    }

    /// [`ask`](Self::ask), with everything that happens on the way; `Break` stops it.
    ///
    /// # Errors
    /// As there.
    pub fn ask_observed(
        &self,
        request: &AskRequest,
        llm: &str,
        observer: &mut dyn FnMut(AskEvent<'_>) -> ControlFlow<()>,
    ) -> Result<AskResponse> {
        ask(self, request, llm, observer)
    }
}

fn ask(
    assistant: &Assistant,
    request: &AskRequest,
    llm: &str,
    observer: &mut dyn FnMut(AskEvent<'_>) -> ControlFlow<()>,
) -> Result<AskResponse> {
    let model =
        generator::open(&assistant.config, &assistant.catalog, &assistant.local, request, llm)?;
    answered_by(assistant, request, (llm, model), &Asking::default(), observer)
}

/// [`ask`], by a generator that is there already.
pub(super) fn answered_by(
    assistant: &Assistant,
    request: &AskRequest,
    (llm, model): (&str, Option<Opened>),
    asking: &Asking,
    observer: &mut dyn FnMut(AskEvent<'_>) -> ControlFlow<()>,
) -> Result<AskResponse> {
    // Before the model is used for the first time: whoever holds it lets it go.
    let _first = Foreground::enter(&assistant.config.home, request.search.idle);
    if request.local.memory_budget.is_some() {
        // What the search has in memory is a part of the budget that a model is fitted into. What can not be opened is
        // told by the search.
        let _ = assistant.warm(&request.search);
    }
    let border = Border::of(&assistant.catalog, model.as_ref().is_some_and(|it| it.leaves))?;
    let understood = match &model {
        Some(model) => understand(&*model.generator, &border, request, observer)?,
        None => Understood::by_words(&request.search.query, &request.earlier),
    };
    let question = understood.question.clone();
    let search = SearchRequest { query: question.clone(), ..request.search.clone() };
    let identity = model.as_ref().and_then(|it| it.identity.as_deref());
    let bank = Bank::of(assistant, request, identity, llm, asking)?;
    let Searched { found, settled, served } =
        search_observed(assistant, &search, bank.as_ref(), observer)?;
    let mut response = unanswered(&settled.response, request, llm, not_searched(assistant)?);
    response.searched_for = question.clone();
    response.rewritten = understood.rewritten;
    response.notices.extend(understood.notice);
    response.prompt = understood.prompt;
    let passed = border.pass(&settled.response.hits, request.passages)?;
    response.held_back = passed.held_back;
    let hits = passed.hits;
    let evidence = AskEvent::Evidence {
        found: &found,
        settled: &settled,
        hits: &hits,
        searched_for: &question,
    };
    if observer(evidence).is_break() {
        response.reason = Some(NoAnswer::Stopped);
        return Ok(response);
    }
    if hits.is_empty() && response.held_back > 0 {
        response.reason = Some(NoAnswer::AllHeldBack);
        return Ok(response);
    }
    let asked = Asked {
        search,
        question,
        speaks: reranker_speaks(settled.run.as_ref(), &hits),
        hits,
        order: request.local.order,
        vector: found.vector.as_ref(),
        bank,
        served,
    };
    write(assistant, asked, model.map(|it| it.generator), response, observer)
}

impl Assistant {
    /// Passages by chunk, in the order asked for; those that are gone are left out.
    fn hits_of(&self, chunks: &[u64]) -> Result<Vec<SearchHit>> {
        let chunks: Vec<ChunkId> = chunks.iter().copied().map(ChunkId).collect();
        let records = self.catalog.chunk_records(&chunks)?;
        let hits = records.iter().zip(1..);
        Ok(hits.map(|(record, rank)| SearchHit { rank, ..hit_of(record) }).collect())
    }
}

/// A question that follows others, put by the model so that it stands by itself.
fn understand(
    model: &dyn Generator,
    border: &Border<'_>,
    request: &AskRequest,
    observer: &mut dyn FnMut(AskEvent<'_>) -> ControlFlow<()>,
) -> Result<Understood> {
    if request.earlier.is_empty() {
        return Ok(Understood::by_words(&request.search.query, &[]));
    }
    let _stage = stage::enter("rewrite");
    let earlier = border.earlier(&request.earlier)?;
    let mut wait = || observer(AskEvent::Piece(""));
    let understood = follow_up::rewrite(model, &request.search.query, &earlier, &mut wait);
    if understood.rewritten {
        // Whoever wants to stop says so again at the next step.
        let _ = observer(AskEvent::Rewritten(&understood.question));
    }
    Ok(understood)
}

/// Hands the reranker's layers on.
struct Layers<'a, 'b>(&'a mut (dyn FnMut(AskEvent<'_>) -> ControlFlow<()> + 'b));

impl LayerObserver for Layers<'_, '_> {
    fn on_layer(&mut self, event: &LayerEvent) -> ControlFlow<()> {
        (self.0)(AskEvent::Layer(event))
    }
}

/// What was found, and an answer that needs no more than that.
struct Searched {
    found: Found,
    settled: Settled,
    served: Option<Served>,
}

fn search_observed(
    assistant: &Assistant,
    search: &SearchRequest,
    bank: Option<&Bank<'_>>,
    observer: &mut dyn FnMut(AskEvent<'_>) -> ControlFlow<()>,
) -> Result<Searched> {
    let _total = stage::enter("total");
    let found = assistant.find(search)?;
    if let Some(bank) = bank
        && let Some(served) = instant(bank, search, &found)?
    {
        let mut response = found.response(search.k, search.explain);
        response.hits = assistant.hits_of(served.passages())?;
        return Ok(Searched {
            found,
            settled: Settled { response, run: None },
            served: Some(served),
        });
    }
    let settled = assistant.settle(&found, search, &mut Layers(observer))?;
    Ok(Searched { found, settled, served: None })
}

fn instant(bank: &Bank<'_>, search: &SearchRequest, found: &Found) -> Result<Option<Served>> {
    let _stage = stage::enter("bank");
    bank.instant(&search.query, found.vector.as_ref())
}

/// The response as it is before anything is known but what was found.
fn unanswered(
    found: &SearchResponse,
    request: &AskRequest,
    llm: &str,
    not_searched: BTreeMap<&'static str, u64>,
) -> AskResponse {
    AskResponse {
        question: request.search.query.clone(),
        searched_for: request.search.query.clone(),
        rewritten: false,
        answer: None,
        reason: None,
        citations: Vec::new(),
        supported: Vec::new(),
        quotes: Vec::new(),
        passages: Vec::new(),
        held_back: 0,
        evidence: 0.0,
        llm: llm.to_owned(),
        order: found.order.clone(),
        notices: found.notices.clone(),
        index: found.index.clone(),
        not_searched,
        first_token_ms: 0.0,
        tokens: None,
        prompt: None,
        generation: None,
        cached: None,
        resident_weight_bytes: found.resident_weight_bytes,
    }
}

/// Files whose text no search can reach, by state; files that a rule leaves out are left out on purpose.
fn not_searched(assistant: &Assistant) -> Result<BTreeMap<&'static str, u64>> {
    let mut states = status::states(&assistant.catalog)?;
    states.retain(|state, _| {
        ![FileState::Indexed.as_str(), FileState::Excluded.as_str()].contains(state)
    });
    Ok(states)
}
