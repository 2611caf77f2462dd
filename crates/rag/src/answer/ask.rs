//! Answers: passages in, a checked and cited answer out, or an honest refusal.

use std::{cell::Cell, collections::BTreeMap, ops::ControlFlow, time::Instant};

use riddle_claims::{
    Checker, ClaimJudge, ClaimPassage, Evidence, Extractive, Live, Support, Told, Verdict,
    clean_citations,
};
use riddle_types::{
    ChunkId, FileState, Generation, GenerationRequest, Generator, LayerEvent, LayerObserver,
    Notice, Passage, PassageOrder,
};

use super::{
    bank::{Asking, Bank, Met, Served, Written},
    border::Border,
    follow_up::{self, Understood},
    generator::{self, Opened, Withheld},
};
use crate::{
    contract::{
        AskRequest, AskResponse, Citation, Error, NoAnswer, Result, SearchHit, SearchRequest,
        SearchResponse,
    },
    home::status,
    index::{Foreground, passage_text},
    search::{Assistant, Found, Settled, hit_of},
    stage,
};

/// Evidence below which nothing is answered: the best sentence's score against the question. At 0.5 both errors
/// (refusing what could be answered, answering what could not) are equally frequent on training pairs; they
/// are counted by this crate's example `evidence` and kept in docs/benchmarks/2026-11-21-refusal.md. A hundredth less,
/// because an embedder in int8 moves a question's evidence by half of that from one processor to the next, and what is
/// answered is a quotation that can be read.
const MIN_EVIDENCE: f32 = 0.49;

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

impl AskResponse {
    /// These passages were read for the answer, too.
    fn read_also(&mut self, passages: &[u64]) {
        for chunk in passages {
            if !self.passages.contains(chunk) {
                self.passages.push(*chunk);
            }
        }
    }
}

/// What an answer is written from.
struct Asked<'a> {
    search: SearchRequest,
    question: String,
    hits: Vec<SearchHit>,
    order: PassageOrder,
    vector: Option<&'a (String, Vec<f32>)>,
    bank: Option<Bank<'a>>,
    /// An answer that is given unseen.
    served: Option<Served>,
}

/// Weighs the evidence; where there is enough, has the answer written and every sentence judged.
// Long: from evidence to the kept answer each step needs what the one before has left.
fn write(
    assistant: &Assistant,
    asked: Asked<'_>,
    model: Option<Box<dyn Generator>>,
    mut response: AskResponse,
    observer: &mut dyn FnMut(AskEvent<'_>) -> ControlFlow<()>,
) -> Result<AskResponse> {
    let Asked { search, question, hits, order, vector, bank, served } = asked;
    let passages = numbered(&hits);
    let mut quotations = None;
    match &served {
        // Nobody looks at anything: that is what was asked for.
        Some(served) => response.evidence = served.cached.similarity,
        None => {
            let embedder = assistant.embedder.get(&assistant.config)?;
            let _stage = stage::enter("check");
            let evidence = Evidence::weigh(&question, &passages, embedder.as_deref())
                .map_err(Error::stage("evidence"))?;
            response.evidence = evidence.strength();
            if response.evidence < MIN_EVIDENCE {
                let beside = response.held_back > 0;
                response.reason =
                    Some(if beside { NoAnswer::NothingThatMayLeave } else { NoAnswer::Nothing });
                return Ok(response);
            }
            quotations = Some(Extractive::new(evidence));
        }
    }
    // Quotations are in the files by their nature; a model may say what it likes.
    let mut checker = match (&model, &served) {
        (Some(_), None) => {
            let (judge, notice) = assistant.claim_judge(&search, &question, &hits)?;
            response.notices.extend(notice);
            Some(Checker::new(judge, &question, claim_passages(&hits)))
        }
        // By words alone, which takes no time.
        (Some(_), Some(_)) => {
            Some(Checker::new(ClaimJudge::new(None, None), &question, claim_passages(&hits)))
        }
        (None, _) => None,
    };
    response.passages = hits.iter().map(|it| it.chunk).collect();
    let asked =
        GenerationRequest { question: question.clone(), passages, max_tokens: MAX_TOKENS, order };
    let met = Met { asked: &asked, hits: &hits, vector };
    let served = match (&bank, &mut checker, served) {
        (Some(bank), Some(checker), None) => {
            let _stage = stage::enter("check");
            bank.look(&met, checker)?
        }
        (_, _, served) => served,
    };
    let quoting;
    let generator: &dyn Generator = match (&served, &model) {
        (Some(served), _) => served,
        (None, Some(model)) => &**model,
        (None, None) => {
            quoting = quotations.take().unwrap_or_default();
            &quoting
        }
    };
    generator.name().clone_into(&mut response.llm);
    let written = generate(generator, &asked, checker.as_mut(), observer)?;
    tell(&mut response, &written.generation);
    finish(&mut response, &written, checker.as_mut(), quotations.as_ref(), &met)?;
    match (&bank, served) {
        (Some(bank), Some(served)) => {
            bank.note(&served, &met);
            response.read_also(served.passages());
            response.cached = Some(served.cached);
        }
        (Some(bank), None) => bank.keep(&met, &response, &written),
        (None, _) => {}
    }
    response.resident_weight_bytes =
        response.resident_weight_bytes.max(assistant.resident_weight_bytes());
    Ok(response)
}

/// What has been written becomes an answer with its sources, or the reason why there is none.
fn finish(
    response: &mut AskResponse,
    written: &Written,
    checker: Option<&mut Checker<'_>>,
    quotations: Option<&Extractive>,
    met: &Met<'_>,
) -> Result<()> {
    if let Some(reason) = no_answer(&written.generation.text) {
        response.reason = Some(reason);
        return Ok(());
    }
    let said = &written.said;
    if said.repeats {
        response.notices.push(Notice::Repeats);
    }
    let (text, used) = clean_citations(&said.text, &met.asked.passages);
    response.supported = match checker {
        Some(checker) => checker.all(&said.text).map_err(Error::stage("checking the answer"))?,
        None => said.quoted.clone(),
    };
    response.citations = citations(&used, met.hits, &response.supported);
    if let Some(quotations) = quotations {
        quote(response, quotations, met.hits);
    }
    response.answer = Some(text);
    Ok(())
}

/// Has the answer written; every sentence is judged as it comes.
fn generate(
    generator: &dyn Generator,
    asked: &GenerationRequest,
    checker: Option<&mut Checker<'_>>,
    observer: &mut dyn FnMut(AskEvent<'_>) -> ControlFlow<()>,
) -> Result<Written> {
    let _stage = stage::enter("generate");
    let started = Instant::now();
    let stopped = Cell::new(false);
    let mut tell = |told: Told<'_>| {
        let flow = match told {
            Told::Piece(text) => observer(AskEvent::Piece(text)),
            Told::Checked(support) => observer(AskEvent::Checked(support)),
        };
        stopped.set(stopped.get() || flow.is_break());
        flow
    };
    let mut live = Live::new(checker, &mut tell);
    let mut sink = |text: &str| live.push(text);
    let mut withheld = Withheld::new(&mut sink);
    let generation = generator
        .generate(asked, &mut |text| withheld.push(text))
        .map_err(Error::stage("answering"))?;
    let seconds = started.elapsed().as_secs_f64();
    let said = live.end().map_err(Error::stage("checking the answer"))?;
    Ok(Written { generation, said, stopped: stopped.get(), seconds })
}

/// Lets the files speak where nothing of what a model wrote was found in them.
fn quote(response: &mut AskResponse, quotations: &Extractive, hits: &[SearchHit]) {
    let is_missing = |it: &Support| it.verdict == Verdict::Unsupported;
    if response.supported.is_empty() || !response.supported.iter().all(is_missing) {
        return;
    }
    response.quotes = quotations.quotes();
    for quote in citations(&cited(&response.quotes), hits, &response.quotes) {
        match response.citations.iter_mut().find(|it| it.n == quote.n) {
            Some(citation) => citation.quote = quote.quote,
            None => response.citations.push(quote),
        }
    }
}

/// What a generator tells beside its words.
fn tell(response: &mut AskResponse, generation: &Generation) {
    response.notices.extend(generation.notices.iter().cloned());
    response.generation = generation.stats;
    let prompts = response.prompt.take().into_iter().chain(generation.prompt.clone());
    response.prompt = prompts.reduce(|first, then| format!("{first}\n\n---\n\n{then}"));
    response.tokens = generation.tokens;
    response.first_token_ms = generation.first_token_ms;
}

/// Why what a generator has written is no answer.
fn no_answer(text: &str) -> Option<NoAnswer> {
    match text.trim() {
        "" => Some(NoAnswer::ModelWroteNothing),
        text if generator::is_no_answer(text) => Some(NoAnswer::ModelFoundNothing),
        _ => None,
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
        && let Some(served) = bank.instant(&search.query, found.vector.as_ref())?
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

/// The passages as a generator gets them.
fn numbered(hits: &[SearchHit]) -> Vec<Passage> {
    let number = |(hit, number): (&SearchHit, u32)| Passage {
        number,
        text: hit.text.clone(),
        chunk: Some(ChunkId(hit.chunk)),
    };
    hits.iter().zip(1..).map(number).collect()
}

/// The passages as claims are held against them.
fn claim_passages(hits: &[SearchHit]) -> Vec<ClaimPassage> {
    let passage = |(hit, number): (&SearchHit, u32)| ClaimPassage {
        number,
        context: passage_text(Some(&hit.title), &hit.heading, "").trim().to_owned(),
        text: hit.text.clone(),
    };
    hits.iter().zip(1..).map(passage).collect()
}

/// The numbers of the passages that quotations are from, each once.
fn cited(quotes: &[Support]) -> Vec<u32> {
    let mut numbers = Vec::new();
    for number in quotes.iter().filter_map(|it| it.citation) {
        if !numbers.contains(&number) {
            numbers.push(number);
        }
    }
    numbers
}

/// The cited passages with the words that were used of each.
fn citations(used: &[u32], hits: &[SearchHit], supported: &[Support]) -> Vec<Citation> {
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
                library: hit.library.clone(),
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
