//! `riddle search`.

use std::{collections::HashSet, time::Instant};

use riddle_doors::own;
use riddle_rag::{
    Assistant, DEFAULT_CANDIDATES, DEFAULT_FUSED, Libraries, SearchHit, SearchRequest,
    SearchResponse, servers::StageServer,
};
use riddle_types::Notice;

use crate::{
    args::{Format, SearchArgs},
    context::Context,
    failure::{Failure, note},
    measures::{SEARCH_STAGES, Times, complete, say, with_measures},
    output::Style,
    show, words,
};

/// Searches and shows the hits.
pub(crate) fn run(args: &SearchArgs, context: &Context) -> Result<(), Failure> {
    let server = args.rank.model.as_deref().and_then(StageServer::of);
    match (args.allow_endpoint, server) {
        (true, Some(server)) => context.allow_endpoint(&server.url)?,
        (true, None) => {
            return Err(Failure::usage("--allow-endpoint is for a server that --model names"));
        }
        _ => {}
    }
    let candidates = args.rank.candidates.unwrap_or(DEFAULT_CANDIDATES);
    let fused_candidates = args.rank.candidates.unwrap_or(DEFAULT_FUSED);
    let request = SearchRequest {
        k: args.k,
        filter: args.filter.filter()?,
        libraries: Libraries::of(&args.library),
        keyword_candidates: candidates,
        vector_candidates: candidates,
        fused_candidates,
        rerank: args.rank.choice(),
        rerank_settings: args.rank.pruning.settings(),
        explain: args.explain,
        ..SearchRequest::new(args.query.clone())
    };
    let started = Instant::now();
    let there = if args.alone { None } else { own::search(&context.config, &request) };
    let place = if there.is_some() { Place::There } else { Place::Here };
    let (response, times) = match there {
        // Its stages are the other process's.
        Some(response) => (response, total(started)),
        None => {
            let assistant = Assistant::open(context.config.clone())?;
            // Opening reads models and indexes; only the search itself is timed.
            context.take_times();
            let response = assistant.search(&request)?;
            (response, complete(context.take_times(), &SEARCH_STAGES))
        }
    };
    if args.format != Format::Page {
        return paths(&response, args.format, context);
    }
    if context.json {
        let mut value = with_measures(&response, &times)?;
        say(&mut value, "notices", response.notices.iter().map(words::notice));
        place.tell(&mut value);
        return context.out.json(&value);
    }
    context.out.text(page(&response, (&times, place), args.explain, context.style))
}

/// Files for other programs, each once, the best first; what is to be known goes to people.
fn paths(response: &SearchResponse, format: Format, context: &Context) -> Result<(), Failure> {
    if context.json {
        return Err(Failure::usage("--json has a format of its own: leave out --format"));
    }
    for notice in &response.notices {
        note(&show::clean(&words::notice(notice)));
    }
    let mut seen = HashSet::new();
    let end = if format == Format::Paths0 { "\0" } else { "\n" };
    let files = response.hits.iter().map(|it| it.path.as_str()).filter(|it| seen.insert(*it));
    context.out.text(files.flat_map(|it| [it, end]).collect::<String>())
}

/// The readable page.
fn page(
    response: &SearchResponse,
    (times, place): (&Times, Place),
    explain: bool,
    style: Style,
) -> String {
    let mut page = String::new();
    for found in &response.hits {
        page.push_str(&hit(found, &response.query, explain, style));
        page.push('\n');
    }
    if response.hits.is_empty() {
        // Other words would not help where there is nothing.
        let empty = response.notices.contains(&Notice::NothingIndexedYet);
        let advice = if empty { "" } else { ": try other words, or fewer conditions" };
        page.push_str(&format!("nothing found{advice}\n\n"));
    }
    page.push_str(&format!("order: {}\n", show::order(&response.order)));
    if let Some(promise) = &response.promise {
        page.push_str(&show::promise(promise, response.candidate_layers_share));
    }
    if let Some(embedding) = &response.embedding {
        page.push_str(&show::embedding(embedding));
    }
    if let Some(remote) = &response.remote {
        page.push_str(&show::remote(remote));
    }
    if let Some(report) = &response.deadline {
        page.push_str(&show::deadline(report));
    }
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

fn hit(hit: &SearchHit, query: &str, explain: bool, style: Style) -> String {
    let mut lines = vec![
        format!("{:>2}. {}{}", hit.rank, style.bold(show::clean(&hit.title)), below_title(hit)),
        format!(
            "    {} · {}",
            style.cyan(show::path(&hit.path)),
            show::clean(&hit.location.to_string())
        ),
    ];
    lines[1].push_str(&show::library(hit.library.as_deref()));
    if let Some(sure) = hit.low_confidence() {
        lines[1].push_str(&format!(" · read from a scan, {:.0} % sure", sure * 100.0));
    }
    if let Some(here) = &hit.here {
        lines.push(style.dim(format_args!("    on this computer: {}", show::path(here))));
    }
    if !hit.also_in.is_empty() {
        let places = show::plural(hit.also_in.len() as u64, "other place");
        let names: Vec<String> = hit.also_in.iter().map(|it| show::path(it)).collect();
        lines.push(style.dim(format_args!("    also in {places}: {}", names.join(", "))));
    }
    if !hit.versions.is_empty() {
        let names: Vec<String> = hit.versions.iter().map(|it| show::path(it)).collect();
        lines.push(style.dim(format_args!("    other versions: {}", names.join(", "))));
    }
    lines.extend(show::wrapped(&show::snippet(&hit.text, query, style), 4));
    if explain {
        let trace = format!("    {} · score {:.4}", show::trace(&hit.trace), hit.score);
        lines.push(style.dim(trace));
    }
    lines.into_iter().map(|line| line + "\n").collect()
}

/// The headings that a passage stands under, behind the title, which is often the first of them.
fn below_title(hit: &SearchHit) -> String {
    let below = match hit.heading.strip_prefix(hit.title.as_str()) {
        Some(below) if below.is_empty() || below.starts_with(WITHIN) => below.to_owned(),
        _ if hit.heading.is_empty() => String::new(),
        _ => format!("{WITHIN}{}", hit.heading),
    };
    show::clean(&below)
}

/// Between the headings of a path.
const WITHIN: &str = " › ";

/// Which process has computed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// This one.
    Here,
    /// The one that has the library open already.
    There,
}

impl Place {
    /// Says so, where it is not what everybody expects.
    pub(crate) fn tell(self, value: &mut serde_json::Value) {
        if self == Place::There {
            value["resident"] = serde_json::Value::Bool(true);
        }
    }
}

/// Milliseconds since then, as all that is known.
pub(crate) fn total(started: Instant) -> Times {
    Times::from([("total", started.elapsed().as_secs_f64() * 1e3)])
}

/// Stage times, peak memory and weights.
pub(crate) fn footer(times: &Times, place: Place, resident_weight_bytes: u64) -> String {
    let peak = show::bytes(riddle_metrics::memory().peak_rss_bytes);
    let (times, weights) = (show::times(times), show::bytes(resident_weight_bytes));
    match place {
        Place::Here => format!("{times} · peak memory {peak}, of which weights {weights}"),
        Place::There => {
            format!("{times} · peak memory {peak}, weights {weights} in the process that is open")
        }
    }
}

#[cfg(test)]
mod tests {
    use riddle_rag::{
        rerank::{Mode, Order, Promise},
        servers::RemoteStage,
        status::IndexFreshness,
    };
    use riddle_types::{Location, RankTrace};

    use super::*;

    fn response(hits: Vec<SearchHit>) -> SearchResponse {
        SearchResponse {
            query: "blue boat".to_owned(),
            hits,
            order: Order::Fused,
            notices: vec![Notice::Repeats],
            index: IndexFreshness::default(),
            resident_weight_bytes: 90_000_000,
            candidate_layers_share: None,
            layers_run: None,
            promise: None,
            deadline: None,
            embedding: None,
            remote: None,
            stages: None,
        }
    }

    fn a_hit() -> SearchHit {
        SearchHit {
            rank: 1,
            path: "/files/boat.md".to_owned(),
            title: "The \x1b[31mboat".to_owned(),
            heading: String::new(),
            text: "The boat is blue.".to_owned(),
            location: Location::Line { start: 3, end: 4 },
            score: 0.5,
            trace: RankTrace { bm25_rank: Some(1), ..RankTrace::default() },
            modified: 0,
            chunk: 1,
            also_in: Vec::new(),
            versions: Vec::new(),
            library: None,
            here: None,
            ocr_confidence: None,
        }
    }

    #[test]
    fn a_page_names_place_order_and_notices() {
        let times = Times::from([("bm25", 1.0), ("total", 2.0)]);
        let shown =
            page(&response(vec![a_hit()]), (&times, Place::Here), true, Style::with_colors(false));
        for part in [
            " 1. The  [31mboat\n",
            "    /files/boat.md · lines 3–4\n",
            "    The boat is blue.\n",
            "keywords #1 · vectors – · fused – · score 0.5000",
            "order: merged ranks of keywords and vectors, not reranked\n",
            "note: the model said the same again and again, so it was stopped\n",
            "bm25 1.0 ms · total 2.0 ms · peak memory ",
        ] {
            assert!(shown.contains(part), "{part:?} is not in\n{shown}");
        }
    }

    #[test]
    fn headings_stand_behind_the_title_and_say_it_once() {
        let first = |title: &str, heading: &str| {
            let hit = SearchHit { title: title.to_owned(), heading: heading.to_owned(), ..a_hit() };
            let shown = super::hit(&hit, "boat", false, Style::with_colors(false));
            shown.lines().next().unwrap_or_default().to_owned()
        };
        assert_eq!(first("Boat", ""), " 1. Boat");
        assert_eq!(first("Boat", "Boat"), " 1. Boat");
        assert_eq!(first("Boat", "Boat › Hull › \x1b[2JPaint"), " 1. Boat › Hull ›  [2JPaint");
        assert_eq!(first("Boat", "Boats › Hull"), " 1. Boat › Boats › Hull");
        assert_eq!(first("boat.md", "Hull"), " 1. boat.md › Hull");
    }

    #[test]
    fn a_hit_from_elsewhere_says_from_where() {
        let style = Style::with_colors(false);
        assert!(!hit(&a_hit(), "boat", false, style).contains(" · in "));
        let there = SearchHit { library: Some("te\x1bam".to_owned()), ..a_hit() };
        let shown = hit(&there, "boat", false, style);
        assert!(shown.contains("    /files/boat.md · lines 3–4 · in te am\n"), "{shown}");
    }

    #[test]
    fn a_hit_that_was_hard_to_read_says_so() {
        let style = Style::with_colors(false);
        let read = |sure| SearchHit { ocr_confidence: Some(sure), ..a_hit() };
        let shown = hit(&read(0.714), "boat", false, style);
        assert!(shown.contains(" · read from a scan, 71 % sure\n"), "{shown}");
        assert!(!hit(&read(0.97), "boat", false, style).contains("scan"));
        assert!(!hit(&a_hit(), "boat", false, style).contains("scan"));
    }

    #[test]
    fn a_promise_is_shown_with_what_it_spares() {
        let promise = Promise { mode: Mode::Order, error: 0.01, results: 10 };
        let found = SearchResponse {
            promise: Some(promise),
            candidate_layers_share: Some(0.731),
            ..response(vec![a_hit()])
        };
        let shown = page(&found, (&Times::new(), Place::There), false, Style::with_colors(false));
        let line = "promise: on average at most 1 % of the 10 results are not those of a full reading (73 % of it was computed)\n";
        assert!(shown.contains(line), "{shown}");
        assert!(shown.contains(", weights 90 MB in the process that is open\n"), "{shown}");
    }

    #[test]
    fn what_a_server_did_is_said_apart() {
        let remote = RemoteStage {
            server: "http://gpu:8080".to_owned(),
            model: None,
            ms: 34.2,
            calls: 1,
            tries: 2,
            texts: 24,
            sent_bytes: 12_000,
        };
        let found = SearchResponse {
            embedding: Some(RemoteStage { texts: 1, ms: 7.0, ..remote.clone() }),
            remote: Some(remote),
            ..response(vec![a_hit()])
        };
        let shown = page(&found, (&Times::new(), Place::Here), false, Style::with_colors(false));
        let line = "remote: 34.2 ms at http://gpu:8080 for 24 passages, 12 KB in 1 request, 1 tried again\n";
        assert!(shown.contains(line), "{shown}");
        let line = "embedded: 7.0 ms at http://gpu:8080, 12 KB in 2 requests\n";
        assert!(shown.contains(line), "{shown}");
    }

    #[test]
    fn nothing_found_is_said() {
        let shown = page(
            &response(Vec::new()),
            (&Times::new(), Place::Here),
            false,
            Style::with_colors(false),
        );
        assert!(shown.starts_with("nothing found"), "{shown}");
    }
}
