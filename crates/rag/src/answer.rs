//! Answers: passages in, a checked and cited answer out, or an honest refusal.

use std::{collections::BTreeMap, ops::ControlFlow};

use riddle_types::{FileState, GenerationRequest, LayerEvent, LayerObserver, Passage};

use crate::{
    AskRequest, AskResponse, Assistant, Citation, Error, Found, Result, SearchHit, SearchRequest,
    SearchResponse, Settled, claims,
    extract::Evidence,
    follow_up::in_context,
    foreground::Foreground,
    generator::{self, Withheld},
    stage, status,
};

/// Name of the generator that quotes.
pub const LLM_EXTRACTIVE: &str = "extractive";

/// Name of the generator that asks the configured endpoint.
pub const LLM_REMOTE: &str = "remote";

/// Evidence below which nothing is answered: the best sentence's score against the question. Here both errors
/// (refusing what could be answered, answering what could not) are equally frequent on training pairs; they
/// are counted by this crate's example `evidence` and kept in docs/BENCHMARKS.md.
const MIN_EVIDENCE: f32 = 0.5;

/// Why an answer that was stopped before its first word is none.
const STOPPED: &str = "stopped before the first word";

/// Most tokens a generator may write.
const MAX_TOKENS: usize = 512;

/// What happens while a question is answered.
#[derive(Debug, Clone, Copy)]
pub enum AskEvent<'a> {
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
}

pub(crate) fn ask(
    assistant: &Assistant,
    request: &AskRequest,
    llm: &str,
    observer: &mut dyn FnMut(AskEvent<'_>) -> ControlFlow<()>,
) -> Result<AskResponse> {
    let model = generator::open(&assistant.config, &assistant.catalog, request, llm)?;
    let _first = Foreground::enter(&assistant.config.home);
    let question = in_context(&request.search.query, &request.earlier);
    let search = SearchRequest { query: question.clone(), ..request.search.clone() };
    let (found, settled) = search_observed(assistant, &search, observer)?;
    let mut response = unanswered(&settled.response, request, llm, not_searched(assistant)?);
    let hits: Vec<SearchHit> =
        settled.response.hits.iter().take(request.passages).cloned().collect();
    let evidence = AskEvent::Evidence {
        found: &found,
        settled: &settled,
        hits: &hits,
        searched_for: &question,
    };
    if observer(evidence).is_break() {
        response.reason = Some(STOPPED.to_owned());
        return Ok(response);
    }
    let passages: Vec<Passage> = hits
        .iter()
        .zip(1..)
        .map(|(hit, number)| Passage { number, text: hit.text.clone() })
        .collect();
    let embedder = assistant.embedder.get(&assistant.config)?;
    let embedder = embedder.as_deref();
    let evidence = {
        let _stage = stage::enter("check");
        Evidence::weigh(&question, &passages, embedder).map_err(Error::stage("evidence"))?
    };
    response.evidence = evidence.strength();
    if response.evidence < MIN_EVIDENCE {
        response.reason = Some("nothing in your files answers this".to_owned());
        return Ok(response);
    }
    let generator = model.unwrap_or_else(|| generator::extractive(evidence));
    response.llm = generator.name().to_owned();
    let asked = GenerationRequest { question, passages: passages.clone(), max_tokens: MAX_TOKENS };
    let generation = {
        let _stage = stage::enter("generate");
        let mut sink = |text: &str| observer(AskEvent::Piece(text));
        let mut withheld = Withheld::new(&mut sink);
        generator
            .generate(&asked, &mut |text| withheld.push(text))
            .map_err(Error::stage("answering"))?
    };
    response.notices.extend(generation.notices);
    response.prompt = generation.prompt;
    response.tokens = generation.tokens;
    response.first_token_ms = generation.first_token_ms;
    let reason = match generation.text.trim() {
        "" => Some("the model wrote nothing"),
        text if generator::is_no_answer(text) => Some("the model found no answer in the passages"),
        _ => None,
    };
    if let Some(reason) = reason {
        response.reason = Some(reason.to_owned());
        return Ok(response);
    }
    let (text, used) = claims::clean_citations(&generation.text, &passages);
    response.supported =
        claims::check(&text, &passages, embedder).map_err(Error::stage("checking the answer"))?;
    response.citations = citations(&used, &hits, &response.supported);
    response.resident_weight_bytes =
        response.resident_weight_bytes.max(assistant.embedder.resident_weight_bytes());
    response.answer = Some(text);
    Ok(response)
}

/// Hands the reranker's layers on.
struct Layers<'a, 'b>(&'a mut (dyn FnMut(AskEvent<'_>) -> ControlFlow<()> + 'b));

impl LayerObserver for Layers<'_, '_> {
    fn on_layer(&mut self, event: &LayerEvent) -> ControlFlow<()> {
        (self.0)(AskEvent::Layer(event))
    }
}

fn search_observed(
    assistant: &Assistant,
    search: &SearchRequest,
    observer: &mut dyn FnMut(AskEvent<'_>) -> ControlFlow<()>,
) -> Result<(Found, Settled)> {
    let _total = stage::enter("total");
    let found = assistant.find(search)?;
    let settled = assistant.settle(&found, search, &mut Layers(observer))?;
    Ok((found, settled))
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
        answer: None,
        reason: None,
        citations: Vec::new(),
        supported: Vec::new(),
        evidence: 0.0,
        llm: llm.to_owned(),
        order: found.order.clone(),
        notices: found.notices.clone(),
        index: found.index.clone(),
        not_searched,
        first_token_ms: 0.0,
        tokens: None,
        prompt: None,
        resident_weight_bytes: found.resident_weight_bytes,
    }
}

/// The cited passages with the words that were used of each.
fn citations(used: &[u32], hits: &[SearchHit], supported: &[crate::Support]) -> Vec<Citation> {
    used.iter()
        .filter_map(|&n| {
            let hit = hits.get(n as usize - 1)?;
            let words: Vec<&str> = supported
                .iter()
                .filter(|it| it.citation == Some(n))
                .map(|it| it.sentence.as_str())
                .collect();
            Some(Citation {
                n,
                chunk: hit.chunk,
                path: hit.path.clone(),
                title: hit.title.clone(),
                location: hit.location.clone(),
                quote: words.join(" … "),
            })
        })
        .collect()
}

/// Files whose text no search can reach, by state; files that a rule leaves out are left out on purpose.
fn not_searched(assistant: &Assistant) -> Result<BTreeMap<&'static str, u64>> {
    let mut states = status::states(&assistant.catalog)?;
    states.retain(|state, _| {
        ![FileState::Indexed.as_str(), FileState::Excluded.as_str()].contains(state)
    });
    Ok(states)
}
