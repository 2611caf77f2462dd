//! Having an answer written: evidence is weighed, every sentence judged, and what has been written gets its sources.

use std::{cell::Cell, ops::ControlFlow, time::Instant};

use riddle_claims::{
    Checker, ClaimJudge, Evidence, Extractive, Live, Support, Told, Verdict, clean_citations,
};
use riddle_types::{Generation, GenerationRequest, Generator, Notice, PassageOrder};

use super::{
    AskEvent, MAX_TOKENS,
    sources::{citations, cited, claim_passages, numbered},
};
use crate::{
    answer::{
        bank::{Bank, Met, Served, Written},
        enough::is_enough,
        generator::{self, Withheld},
    },
    contract::{AskResponse, Error, NoAnswer, Result, SearchHit, SearchRequest},
    search::Assistant,
    stage,
};

/// What an answer is written from.
pub(super) struct Asked<'a> {
    pub(super) search: SearchRequest,
    pub(super) question: String,
    pub(super) hits: Vec<SearchHit>,
    /// What the reranker adds to their evidence.
    pub(super) speaks: f32,
    pub(super) order: PassageOrder,
    pub(super) vector: Option<&'a (String, Vec<f32>)>,
    pub(super) bank: Option<Bank<'a>>,
    /// An answer that is given unseen.
    pub(super) served: Option<Served>,
}

/// Weighs the evidence; where there is enough, has the answer written and every sentence judged.
// Long: from evidence to the kept answer each step needs what the one before has left.
pub(super) fn write(
    assistant: &Assistant,
    asked: Asked<'_>,
    model: Option<Box<dyn Generator>>,
    mut response: AskResponse,
    observer: &mut dyn FnMut(AskEvent<'_>) -> ControlFlow<()>,
) -> Result<AskResponse> {
    let Asked { search, question, hits, speaks, order, vector, bank, served } = asked;
    let passages = numbered(&hits);
    let mut quotations = None;
    match &served {
        // Nobody looks at anything: that is what was asked for.
        Some(served) => response.evidence = served.cached.similarity,
        None => {
            let embedder = assistant.embedder_here()?;
            let _stage = stage::enter("check");
            let evidence = Evidence::weigh(&question, &passages, embedder.as_deref())
                .map_err(Error::stage("evidence"))?;
            response.evidence = evidence.strength();
            if !is_enough(&question, response.evidence, speaks, model.is_some()) {
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
            let _stage = stage::enter("bank");
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
