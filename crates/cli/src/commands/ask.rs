//! `riddle ask`.

use std::{io::Write as _, ops::ControlFlow, time::Instant};

use riddle_rag::{
    AskRequest, AskResponse, Assistant, DEFAULT_CANDIDATES, LLM_EXTRACTIVE, LLM_REMOTE, Records,
    SearchRequest,
};

use crate::{
    args::AskArgs,
    commands::search::footer,
    context::Context,
    failure::Failure,
    measures::{SEARCH_STAGES, Times, complete, with_measures},
    output::Style,
    show::{self, Flow},
};

/// Score of a sentence against the passage it cites below which it is marked.
const SUPPORTED: f32 = 0.5;

/// Answers and shows the sources.
pub(crate) fn run(args: &AskArgs, context: &Context) -> Result<(), Failure> {
    check_llm(&args.llm)?;
    let config = context.config.clone();
    if let (true, Some(url)) = (args.endpoint.allow_endpoint, &args.endpoint.llm_url) {
        let origin = Records::open(config.clone())?.allow_endpoint(url, true)?;
        // With stderr closed there is nobody to tell.
        let _ = writeln!(
            std::io::stderr(),
            "riddle: {origin} may be sent questions and passages from now on"
        );
    }
    let candidates = args.rank.candidates.unwrap_or(DEFAULT_CANDIDATES);
    let request = AskRequest {
        search: SearchRequest {
            filter: args.filter.filter()?,
            keyword_candidates: candidates,
            vector_candidates: candidates,
            rerank: args.rank.choice(),
            rerank_settings: args.rank.pruning.settings(),
            ..SearchRequest::new(args.question.clone())
        },
        remote: args.endpoint.remote(),
        ..AskRequest::new(args.question.clone())
    };
    let assistant = Assistant::open(config)?;
    // Opening reads models and indexes; only the answer itself is timed.
    context.take_times();
    let started = Instant::now();
    let (mut closed, mut flow) = (None, Flow::default());
    let mut sink = |piece: &str| {
        if context.json {
            return ControlFlow::Continue(());
        }
        match context.out.text(flow.push(piece)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(failure) => {
                closed = Some(failure);
                ControlFlow::Break(())
            }
        }
    };
    let response = assistant.ask(&request, &args.llm, &mut sink)?;
    if let Some(failure) = closed {
        return Err(failure);
    }
    let mut times = complete(context.take_times(), &SEARCH_STAGES);
    // The search's own total ends before the answer is written.
    times.insert("total", started.elapsed().as_secs_f64() * 1e3);
    times.insert("first_token", response.first_token_ms);
    times.entry("generate").or_insert(0.0);
    if context.json {
        return context.out.json(&json(&response, &times)?);
    }
    context.out.text(flow.end())?;
    context.out.text(sources(&response, &times, context.style))
}

/// Says what works instead of what does not.
fn check_llm(llm: &str) -> Result<(), Failure> {
    if llm == LLM_EXTRACTIVE || llm == LLM_REMOTE {
        return Ok(());
    }
    if llm.strip_prefix("local:").is_some_and(|it| !it.is_empty()) {
        return Err(Failure::run(format!(
            "answers by {llm} are not built yet: use --llm extractive, which quotes the best sentences, or --llm remote"
        )));
    }
    Err(Failure::usage(format!("{llm:?} can not answer: use --llm extractive or --llm remote")))
}

/// The response with its measures; an answer that is not there is `null`, never missing.
fn json(response: &AskResponse, times: &Times) -> serde_json::Result<serde_json::Value> {
    let mut value = with_measures(response, times)?;
    if let Some(fields) = value.as_object_mut() {
        // It is among the stage times.
        fields.remove("first_token_ms");
    }
    Ok(value)
}

/// What follows the answer.
fn sources(response: &AskResponse, times: &Times, style: Style) -> String {
    let mut page = String::new();
    if response.answer.is_none() {
        let reason = response.reason.as_deref().unwrap_or("nothing in your files answers this");
        page.push_str(&show::clean(reason));
    }
    page.push_str("\n\n");
    for source in &response.citations {
        page.push_str(&format!(
            "{} {} · {}\n",
            style.bold(format_args!("[{}]", source.n)),
            style.cyan(show::path(&source.path)),
            show::clean(&source.location.to_string())
        ));
        let quote = format!("“{}”", show::snippet(&source.quote, &response.question, style));
        page.extend(show::wrapped(&quote, 4).into_iter().map(|line| line + "\n"));
    }
    if !response.citations.is_empty() {
        page.push('\n');
    }
    // A quotation is in the files by its nature; a model may say what it likes.
    if response.llm != LLM_EXTRACTIVE {
        for claim in response.supported.iter().filter(|it| it.score < SUPPORTED) {
            let what = if claim.citation.is_some() { "doubtful" } else { "not in the files" };
            let sentence = show::clean(&claim.sentence);
            page.push_str(&format!("{} “{sentence}”\n", style.yellow(format_args!("{what}:"))));
        }
    }
    let how = match (&response.answer, response.llm.as_str()) {
        (None, _) => String::new(),
        // What it does says more than its name.
        (Some(_), LLM_EXTRACTIVE) => "quoted, without a language model · ".to_owned(),
        (Some(_), llm) => format!("written by {} · ", show::clean(llm)),
    };
    page.push_str(&format!("{how}order: {}\n", show::order(&response.order)));
    let left_out = show::states(&response.not_searched);
    if response.not_searched.values().any(|it| *it > 0) {
        page.push_str(&format!("files not searched: {left_out} (riddle status --files)\n"));
    }
    for notice in &response.notices {
        page.push_str(&format!("{} {}\n", style.yellow("note:"), show::clean(notice)));
    }
    page.push_str(&format!("{}\n", style.dim(footer(times, response.resident_weight_bytes))));
    page
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use riddle_rag::{Citation, IndexFreshness, Order};
    use riddle_types::Location;

    use super::*;

    fn response(answer: Option<&str>) -> AskResponse {
        AskResponse {
            question: "Which color is the boat?".to_owned(),
            answer: answer.map(str::to_owned),
            reason: answer.is_none().then(|| "nothing in your files answers this".to_owned()),
            citations: answer
                .map(|it| Citation {
                    n: 1,
                    chunk: 7,
                    path: "/files/boat.md".to_owned(),
                    title: "Boat".to_owned(),
                    location: Location::Page { start: 2, end: 2 },
                    quote: it.to_owned(),
                })
                .into_iter()
                .collect(),
            supported: Vec::new(),
            evidence: 0.0,
            llm: LLM_EXTRACTIVE.to_owned(),
            order: Order::Keyword,
            notices: Vec::new(),
            index: IndexFreshness::default(),
            not_searched: BTreeMap::from([("failed", 2), ("no_text", 1)]),
            tokens: None,
            prompt: None,
            first_token_ms: 3.0,
            resident_weight_bytes: 0,
        }
    }

    #[test]
    fn sources_are_numbered_and_gaps_are_named() {
        let shown =
            sources(&response(Some("The boat is blue.")), &Times::new(), Style::with_colors(false));
        for part in [
            "[1] /files/boat.md · page 2\n    “The boat is blue.”\n",
            "quoted, without a language model · order: keywords alone\n",
            "files not searched: 1 no text · 2 failed",
        ] {
            assert!(shown.contains(part), "{part:?} is not in\n{shown}");
        }
    }

    #[test]
    fn no_evidence_is_null_with_a_reason() {
        let response = response(None);
        let shown = sources(&response, &Times::new(), Style::with_colors(false));
        assert!(shown.starts_with("nothing in your files answers this\n"), "{shown}");
        let json = json(&response, &Times::from([("first_token", 3.0)])).expect("plain data");
        assert_eq!(json["answer"], serde_json::Value::Null);
        assert!(json.as_object().is_some_and(|it| it.contains_key("answer")));
        assert_eq!(json["reason"], "nothing in your files answers this");
        assert_eq!(json["timings_ms"]["first_token"], 3.0);
    }

    #[test]
    fn what_can_not_answer_says_what_can() {
        assert!(check_llm("extractive").is_ok() && check_llm("remote").is_ok());
        for (llm, usage) in [("local:qwen", false), ("local:", true), ("gpt", true)] {
            let failure = check_llm(llm).expect_err(llm);
            assert_eq!(matches!(failure, Failure::Usage(_)), usage, "{llm}");
            assert!(format!("{failure:?}").contains("--llm extractive"), "{failure:?}");
        }
    }
}
