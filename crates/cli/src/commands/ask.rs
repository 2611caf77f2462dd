//! `riddle ask`.

use std::{io::Write as _, ops::ControlFlow, time::Instant};

use riddle_doors::own;
use riddle_rag::{
    AskEvent, AskRequest, AskResponse, Assistant, DEFAULT_CANDIDATES, DEFAULT_FUSED, Earlier,
    Libraries, NoAnswer, Outgoing, SearchRequest, Support, Verdict,
    writer::{LLM_EXTRACTIVE, LLM_LOCAL, LLM_REMOTE},
};
use serde_json::json;

use crate::{
    args::AskArgs,
    commands::search::{Place, footer},
    context::Context,
    failure::Failure,
    measures::{SEARCH_STAGES, Times, complete, say, with_measures},
    output::Style,
    show::{self, Flow},
    words,
};

/// Answers and shows the sources.
pub(crate) fn run(args: &AskArgs, context: &Context) -> Result<(), Failure> {
    check_llm(&args.llm)?;
    if let (true, Some(url)) = (args.endpoint.allow_endpoint, &args.endpoint.llm_url) {
        context.allow_endpoint(url)?;
    }
    let request = request(args)?;
    if args.preview {
        return show_outgoing(args, &request, context);
    }
    let mut page = LivePage::new(args, context);
    let (response, place, started) =
        answer(args, &request, context, &mut |event| page.hear(&event))?;
    let ending = page.end()?;
    let mut times = match place {
        Place::Here => complete(context.take_times(), &SEARCH_STAGES),
        // Its stages are the other process's.
        Place::There => Times::new(),
    };
    // The search's own total ends before the answer is written.
    times.insert("total", started.elapsed().as_secs_f64() * 1e3);
    times.insert("first_token", response.first_token_ms);
    times.entry("generate").or_insert(0.0);
    if context.json {
        let mut value = json(&response, &times)?;
        place.tell(&mut value);
        return context.out.json(&value);
    }
    context.out.text(ending)?;
    context.out.text(sources(&response, (&times, place), context.style))?;
    if let Some(cached) = &response.cached {
        let line = super::cache::line(cached, &response.searched_for);
        // With stderr closed there is nobody to tell.
        let _ = writeln!(std::io::stderr(), "riddle: {line}");
    }
    Ok(())
}

/// Shows what the endpoint would be sent; nothing is sent.
fn show_outgoing(args: &AskArgs, request: &AskRequest, context: &Context) -> Result<(), Failure> {
    let outgoing = Assistant::open(context.config.clone())?.outgoing(request, &args.llm)?;
    match context.json {
        true => context.out.json(&preview_json(&outgoing)),
        false => context.out.text(preview(&outgoing, context.style)),
    }
}

/// The answer as it appears while it is written. In JSON nothing appears before the end.
struct LivePage<'a> {
    question: &'a str,
    context: &'a Context,
    flow: Flow,
    /// Why nobody reads on.
    closed: Option<Failure>,
}

impl<'a> LivePage<'a> {
    fn new(args: &'a AskArgs, context: &'a Context) -> LivePage<'a> {
        LivePage { question: args.question.trim(), context, flow: Flow::default(), closed: None }
    }

    /// Shows what has happened. Ends the answer where nobody reads on.
    fn hear(&mut self, event: &AskEvent<'_>) -> ControlFlow<()> {
        if self.context.json {
            return ControlFlow::Continue(());
        }
        let Some(text) = self.text(event) else { return ControlFlow::Continue(()) };
        match self.context.out.text(text) {
            Ok(()) => ControlFlow::Continue(()),
            Err(failure) => {
                self.closed = Some(failure);
                ControlFlow::Break(())
            }
        }
    }

    /// What is shown of an event; of some nothing.
    fn text(&mut self, event: &AskEvent<'_>) -> Option<String> {
        match event {
            AskEvent::Rewritten(question) if *question != self.question => {
                let line = format!("understood as: {}", show::clean(question));
                Some(format!("{}\n\n", self.context.style.dim(line)))
            }
            AskEvent::Piece(piece) => Some(self.flow.push(piece)),
            // What is not supported is marked where it stands, and listed below.
            AskEvent::Checked(support) => {
                let remark = remark(support.verdict)?;
                Some(self.flow.push(&format!(" ({remark})")))
            }
            _ => None,
        }
    }

    /// What is still to be shown; or that nobody reads on.
    fn end(mut self) -> Result<String, Failure> {
        match self.closed {
            Some(failure) => Err(failure),
            None => Ok(self.flow.end()),
        }
    }
}

/// Has it answered by the process that has the library open, or by this one; which it was, and when it began.
fn answer(
    args: &AskArgs,
    request: &AskRequest,
    context: &Context,
    observer: &mut dyn FnMut(AskEvent<'_>) -> ControlFlow<()>,
) -> Result<(AskResponse, Place, Instant), Failure> {
    let started = Instant::now();
    let there = if args.alone { None } else { own::ask(&context.config, request, &args.llm) };
    if let Some(answered) = there {
        // Nobody listens any more where one of them is refused.
        let _ = answered.said.iter().try_for_each(|it| observer(it.event()));
        return Ok((answered.response, Place::There, started));
    }
    let assistant = Assistant::open(context.config.clone())?;
    // Opening reads models and indexes; only the answer itself is timed.
    context.take_times();
    let started = Instant::now();
    Ok((assistant.ask_observed(request, &args.llm, observer)?, Place::Here, started))
}

fn request(args: &AskArgs) -> Result<AskRequest, Failure> {
    let candidates = args.rank.candidates.unwrap_or(DEFAULT_CANDIDATES);
    let fused_candidates = args.rank.candidates.unwrap_or(DEFAULT_FUSED);
    Ok(AskRequest {
        search: SearchRequest {
            filter: args.filter.filter()?,
            libraries: Libraries::of(&args.library),
            keyword_candidates: candidates,
            vector_candidates: candidates,
            fused_candidates,
            rerank: args.rank.choice(),
            rerank_settings: args.rank.pruning.settings(),
            ..SearchRequest::new(args.question.clone())
        },
        remote: args.endpoint.remote(),
        local: args.local.settings(args.endpoint.llm_context),
        reuse: args.reuse.reuse(),
        earlier: args.follows.iter().cloned().map(Earlier::from).collect(),
        ..AskRequest::new(args.question.clone())
    })
}

/// What is said of a sentence; nothing of one that is supported.
fn remark(verdict: Verdict) -> Option<&'static str> {
    match verdict {
        Verdict::Supported => None,
        Verdict::Weak => Some("weakly supported"),
        Verdict::Unsupported => Some("not in the files"),
    }
}

/// Says what works instead of what does not.
fn check_llm(llm: &str) -> Result<(), Failure> {
    if llm == LLM_EXTRACTIVE || llm == LLM_REMOTE {
        return Ok(());
    }
    if llm.strip_prefix(LLM_LOCAL).is_some_and(|it| !it.is_empty()) {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{llm:?} can not answer: use --llm extractive, --llm local:MODEL or --llm remote"
    )))
}

/// The response with its measures; an answer that is not there is `null`, never missing.
fn json(response: &AskResponse, times: &Times) -> serde_json::Result<serde_json::Value> {
    let mut value = with_measures(response, times)?;
    say(&mut value, "notices", response.notices.iter().map(words::notice));
    if let Some(reason) = response.reason {
        value["reason"] = json!(words::no_answer(reason));
    }
    if let Some(fields) = value.as_object_mut() {
        // It is among the stage times.
        fields.remove("first_token_ms");
    }
    Ok(value)
}

/// What would be sent, for people.
fn preview(outgoing: &Outgoing, style: Style) -> String {
    let whom = if outgoing.is_local {
        format!("{} is on this machine: nothing leaves it", outgoing.origin)
    } else if outgoing.is_allowed {
        format!("{} is allowed and would be sent this", outgoing.origin)
    } else {
        format!("{} would be sent this, once it is allowed", outgoing.origin)
    };
    let mut page = format!("{}\n\n", style.bold(show::clean(&whom)));
    for (hit, n) in outgoing.hits.iter().zip(1..) {
        page.push_str(&format!(
            "{} {} · {}\n",
            style.bold(format_args!("[{n}]")),
            style.cyan(show::path(&hit.path)),
            show::clean(&hit.location.to_string())
        ));
    }
    if outgoing.hits.is_empty() {
        page.push_str("no passage\n");
    }
    if outgoing.held_back > 0 {
        page.push_str(&format!(
            "held back: {} from folders that never leave this machine\n",
            show::plural(outgoing.held_back, "passage")
        ));
    }
    for prompt in outgoing.rewriting.iter().chain([&outgoing.prompt]) {
        page.push_str(&format!("\n{}\n", style.dim("─".repeat(20))));
        page.extend(prompt.lines().map(|line| show::clean(line) + "\n"));
    }
    page
}

fn preview_json(outgoing: &Outgoing) -> serde_json::Value {
    json!({
        "origin": outgoing.origin,
        "local": outgoing.is_local,
        "allowed": outgoing.is_allowed,
        "question": outgoing.question,
        "passages": outgoing.hits,
        "held_back": outgoing.held_back,
        "rewriting": outgoing.rewriting,
        "prompt": outgoing.prompt,
    })
}

/// What follows the answer.
fn sources(response: &AskResponse, (times, place): (&Times, Place), style: Style) -> String {
    let mut page = String::new();
    if response.answer.is_none() {
        page.push_str(words::no_answer(response.reason.unwrap_or(NoAnswer::Nothing)));
    }
    page.push_str("\n\n");
    if is_made_up(&response.supported) {
        page.push_str(&made_up(&response.quotes, style));
    }
    page.push_str(&citations(response, style));
    page.push_str(&doubts(&response.supported, style));
    page.push_str(&origin(response));
    for notice in &response.notices {
        page.push_str(&format!(
            "{} {}\n",
            style.yellow("note:"),
            show::clean(&words::notice(notice))
        ));
    }
    page.push_str(&format!(
        "{}\n",
        style.dim(footer(times, place, response.resident_weight_bytes))
    ));
    page
}

/// The passages that the answer cites, with what it cites of them.
fn citations(response: &AskResponse, style: Style) -> String {
    let mut page = String::new();
    for source in &response.citations {
        page.push_str(&format!(
            "{} {} · {}{}\n",
            style.bold(format_args!("[{}]", source.n)),
            style.cyan(show::path(&source.path)),
            show::clean(&source.location.to_string()),
            show::library(source.library.as_deref())
        ));
        let quote = format!("“{}”", show::snippet(&source.quote, &response.question, style));
        page.extend(show::wrapped(&quote, 4).into_iter().map(|line| line + "\n"));
    }
    if !response.citations.is_empty() {
        page.push('\n');
    }
    page
}

/// Who wrote the answer, in which order the passages were, and what was not looked at.
fn origin(response: &AskResponse) -> String {
    let how = match (&response.answer, response.llm.as_str()) {
        (None, _) => String::new(),
        // What it does says more than its name.
        (Some(_), LLM_EXTRACTIVE) => "quoted, without a language model · ".to_owned(),
        (Some(_), llm) => format!("written by {} · ", show::clean(llm)),
    };
    let mut page = format!("{how}order: {}\n", show::order(&response.order));
    if response.held_back > 0 {
        page.push_str(&format!(
            "not sent: {} from folders that never leave this machine (riddle folders)\n",
            show::plural(response.held_back, "passage")
        ));
    }
    if response.not_searched.values().any(|it| *it > 0) {
        let left_out = show::states(&response.not_searched);
        page.push_str(&format!("files not searched: {left_out} (riddle status --files)\n"));
    }
    page
}

/// Whether nothing of what was written was found in the files.
fn is_made_up(sentences: &[Support]) -> bool {
    !sentences.is_empty() && sentences.iter().all(|it| it.verdict == Verdict::Unsupported)
}

/// Says that nothing of the answer is in the files, and what is there instead.
fn made_up(quotes: &[Support], style: Style) -> String {
    let colon = if quotes.is_empty() { "" } else { "; they say:" };
    let mut page =
        format!("{} nothing of this answer is in the files{colon}\n", style.yellow("note:"));
    for it in quotes {
        let mark = it.citation.map(|n| format!(" [{n}]")).unwrap_or_default();
        let quote = format!("“{}”{mark}", show::clean(&it.sentence));
        page.extend(show::wrapped(&quote, 2).into_iter().map(|line| line + "\n"));
    }
    page.push('\n');
    page
}

/// The sentences that are not in the files, or hardly. Empty where all are in them, and where none is.
fn doubts(sentences: &[Support], style: Style) -> String {
    let mut page = String::new();
    if is_made_up(sentences) {
        // They are marked one by one already.
        return page;
    }
    for verdict in [Verdict::Unsupported, Verdict::Weak] {
        for it in sentences.iter().filter(|it| it.verdict == verdict) {
            let what = format!("{}:", remark(verdict).unwrap_or_default());
            page.push_str(&format!("{} “{}”\n", style.yellow(what), show::clean(&it.sentence)));
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use riddle_rag::{Citation, rerank::Order, status::IndexFreshness};
    use riddle_types::Location;

    use super::*;

    fn response(answer: Option<&str>) -> AskResponse {
        AskResponse {
            question: "Which color is the boat?".to_owned(),
            searched_for: "Which color is the boat?".to_owned(),
            rewritten: false,
            answer: answer.map(str::to_owned),
            reason: answer.is_none().then_some(NoAnswer::Nothing),
            citations: answer
                .map(|it| Citation {
                    n: 1,
                    chunk: 7,
                    path: "/files/boat.md".to_owned(),
                    title: "Boat".to_owned(),
                    location: Location::Page { start: 2, end: 2 },
                    quote: it.to_owned(),
                    library: None,
                })
                .into_iter()
                .collect(),
            supported: Vec::new(),
            quotes: Vec::new(),
            passages: Vec::new(),
            held_back: 1,
            evidence: 0.0,
            llm: LLM_EXTRACTIVE.to_owned(),
            order: Order::Keyword,
            notices: Vec::new(),
            index: IndexFreshness::default(),
            not_searched: BTreeMap::from([("failed", 2), ("no_text", 1)]),
            tokens: None,
            prompt: None,
            generation: None,
            cached: None,
            first_token_ms: 3.0,
            resident_weight_bytes: 0,
        }
    }

    #[test]
    fn sources_are_numbered_and_gaps_are_named() {
        let shown = sources(
            &response(Some("The boat is blue.")),
            (&Times::new(), Place::Here),
            Style::with_colors(false),
        );
        for part in [
            "[1] /files/boat.md · page 2\n    “The boat is blue.”\n",
            "quoted, without a language model · order: keywords alone\n",
            "not sent: 1 passage from folders that never leave this machine (riddle folders)\n",
            "files not searched: 1 no text · 2 failed",
        ] {
            assert!(shown.contains(part), "{part:?} is not in\n{shown}");
        }
    }

    #[test]
    fn no_evidence_is_null_with_a_reason() {
        let response = response(None);
        let shown = sources(&response, (&Times::new(), Place::Here), Style::with_colors(false));
        assert!(shown.starts_with("nothing in your files answers this\n"), "{shown}");
        let json = json(&response, &Times::from([("first_token", 3.0)])).expect("plain data");
        assert_eq!(json["answer"], serde_json::Value::Null);
        assert!(json.as_object().is_some_and(|it| it.contains_key("answer")));
        assert_eq!(json["reason"], "nothing in your files answers this");
        assert_eq!(json["timings_ms"]["first_token"], 3.0);
    }

    #[test]
    fn what_is_not_in_the_files_is_listed_before_what_is_doubtful() {
        let support = |sentence: &str, verdict| Support {
            sentence: sentence.to_owned(),
            citation: None,
            citations: Vec::new(),
            score: 0.0,
            verdict,
        };
        let sentences = [
            support("It is blue.", Verdict::Supported),
            support("It sails.", Verdict::Weak),
            support("It flies.", Verdict::Unsupported),
        ];
        let style = Style::with_colors(false);
        assert_eq!(
            doubts(&sentences, style),
            "not in the files: “It flies.”\nweakly supported: “It sails.”\n"
        );
        assert_eq!(doubts(&sentences[..1], style), "");
        let made_up = AskResponse {
            supported: sentences[2..].to_vec(),
            quotes: sentences[..1].to_vec(),
            ..response(Some("It flies."))
        };
        let shown = sources(&made_up, (&Times::new(), Place::Here), style);
        assert!(
            shown.contains(
                "note: nothing of this answer is in the files; they say:\n  “It is blue.”\n"
            ),
            "{shown}"
        );
        assert!(!shown.contains("not in the files: "), "{shown}");
    }

    #[test]
    fn what_can_not_answer_says_what_can() {
        for llm in ["extractive", "remote", "local:qwen"] {
            assert!(check_llm(llm).is_ok(), "{llm}");
        }
        for llm in ["local:", "gpt"] {
            let failure = check_llm(llm).expect_err(llm);
            assert!(matches!(failure, Failure::Usage(_)), "{llm}");
            assert!(format!("{failure:?}").contains("--llm extractive"), "{failure:?}");
        }
    }
}
