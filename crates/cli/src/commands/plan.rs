//! `riddle plan`.

use riddle_rag::{
    Assistant, Error,
    shared::{Sizing, Workload},
    status::StatusRequest,
};
use serde_json::json;

use crate::{args::PlanArgs, context::Context, failure::Failure, show};

const GIB: f64 = 1024.0 * 1024.0 * 1024.0;

/// Files from which on their mean is taken for others'.
const ENOUGH_FILES: u64 = 20;

/// Most passages that one desktop is advised to hold: what was measured.
const AT_HOME: f64 = 1e6;

/// What a library of some size needs.
pub(crate) fn run(args: &PlanArgs, context: &Context) -> Result<(), Failure> {
    let here = if args.passages.is_some() { None } else { of_this_home(context)? };
    let mut workload = Workload {
        documents: args.documents,
        passage_bytes: args.passage_bytes,
        dimensions: args.dimensions,
        weighed_terms: !args.no_terms,
        readers: args.readers,
        questions_per_hour: args.questions_per_hour,
        searches_per_second: args.searches_per_second,
        copies: args.copies,
        embedded_per_second: args.embeds_per_second,
        ..Workload::default()
    };
    if let Some(passages) = args.passages.or(here) {
        workload.passages_per_document = passages;
    }
    let sizing = workload.sizing();
    let cost = cost(args, &sizing);
    if context.json {
        return context.out.json(&json!({
            "workload": workload,
            "passages_of_this_home": here.is_some(),
            "sizing": sizing,
            "cost_per_month": cost,
        }));
    }
    context.out.text(page(&workload, &sizing, here.is_some(), cost))
}

/// Passages of a file in this home, where it has files enough to say. A plan is made without a home as well.
fn of_this_home(context: &Context) -> Result<Option<f64>, Failure> {
    let assistant = match Assistant::open(context.config.clone()) {
        Err(Error::NothingIndexed { .. }) => return Ok(None),
        it => it?,
    };
    let status = assistant.status(StatusRequest::default())?;
    let files = status.states.get("indexed").copied().unwrap_or_default();
    let mean = status.chunks as f64 / files.max(1) as f64;
    Ok((files >= ENOUGH_FILES && mean > 0.0).then_some(mean))
}

/// For a month, where prices were given.
fn cost(args: &PlanArgs, sizing: &Sizing) -> Option<f64> {
    let part = |price: Option<f64>, bytes: f64| price.map(|it| it * bytes / GIB);
    let memory = part(args.memory_price, sizing.server.memory_bytes);
    let store = part(args.store_price, sizing.server.store_bytes);
    match (memory, store) {
        (None, None) => None,
        (memory, store) => Some(memory.unwrap_or_default() + store.unwrap_or_default()),
    }
}

/// A rate that is never said to be nothing.
fn rate(of: f64) -> String {
    if of < 0.1 { format!("{of:.3}") } else { format!("{of:.1}").trim_end_matches(".0").to_owned() }
}

/// A number as people say it.
fn said(number: f64) -> String {
    const UNITS: [(f64, &str); 3] = [(1e9, " billion"), (1e6, " million"), (1e3, " thousand")];
    match UNITS.iter().find(|it| number >= it.0) {
        Some((unit, name)) if number / unit >= 9.95 => format!("{:.0}{name}", number / unit),
        Some((unit, name)) => format!("{:.1}{name}", number / unit),
        None => format!("{number:.0}"),
    }
}

fn bytes(of: f64) -> String {
    show::bytes(of as u64)
}

fn hours(hours: f64) -> String {
    match hours {
        it if it < 2.0 => format!("{:.0} min", it * 60.0),
        it if it < 72.0 => format!("{it:.0} h"),
        it => format!("{:.0} days", it / 24.0),
    }
}

// Long: a row for each line of the page.
fn page(workload: &Workload, sizing: &Sizing, here: bool, cost: Option<f64>) -> String {
    let (home, server) = (&sizing.home, &sizing.server);
    let each = if here { ", as the files of this home" } else { "" };
    let mut rows: Vec<(&str, String)> = vec![
        (
            "Passages",
            format!(
                "{}, {:.0} a document{each}",
                said(sizing.passages),
                workload.passages_per_document
            ),
        ),
        (
            "Embedding",
            format!(
                "{} on one machine at {:.0} passages a second",
                hours(sizing.embed_hours),
                workload.embedded_per_second
            ),
        ),
        ("", String::new()),
        ("In one home", at_home(sizing)),
        (
            "  disk",
            format!("{}, of it {} vectors", bytes(home.disk_bytes), bytes(home.vector_index_bytes)),
        ),
        (
            "  memory",
            format!("{} of pages that the system may take back", bytes(home.vector_index_bytes)),
        ),
        ("", String::new()),
        (
            "On Milvus",
            format!(
                "{} for {}",
                if server.copies == 1 {
                    "one copy".to_owned()
                } else {
                    format!("{} copies", server.copies)
                },
                show::plural(workload.readers, "reader")
            ),
        ),
        (
            "  questions",
            format!(
                "{} searches a second when all ask {} an hour",
                rate(server.searches_per_second),
                rate(workload.questions_per_hour)
            ),
        ),
        (
            "  loaded",
            format!(
                "{}: vectors {}, words {}, texts {}",
                bytes(server.loaded_bytes),
                bytes(server.vector_bytes),
                bytes(server.sparse_bytes),
                bytes(server.row_bytes)
            ),
        ),
        ("  query nodes", format!("{} of {}", server.query_nodes, bytes(server.query_node_bytes))),
        ("  memory", format!("{}, with all that runs beside them", bytes(server.memory_bytes))),
        ("  object store", bytes(server.store_bytes)),
    ];
    if let Some(cost) = cost {
        rows.push(("  for a month", format!("{cost:.0} at the prices given")));
    }
    let mut page = String::new();
    for (name, value) in rows {
        page.push_str(format!("{name:<16}{value}").trim_end());
        page.push('\n');
    }
    page.push('\n');
    for line in show::wrapped(ASSUMED, 0) {
        page.push_str(&line);
        page.push('\n');
    }
    page
}

const ASSUMED: &str = "Assumed, not measured: searches a second of a copy (give --searches-per-second from your own \
server), half as much again in the object store until it compacts, nodes that are filled to 70 %. A server that maps \
its files into memory needs less of it and is slower.";

fn at_home(sizing: &Sizing) -> String {
    if sizing.home.measured {
        "enough: a million passages were measured in one".to_owned()
    } else {
        format!("{:.0} times as much as was measured in one", sizing.passages / AT_HOME)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_says_where_it_was_measured_and_where_not() {
        let small = Workload { documents: 10_000, ..Workload::default() };
        let page = page(&small, &small.sizing(), false, None);
        assert!(
            page.contains("200 thousand, 20 a document\n") && page.contains("enough: "),
            "{page}"
        );
        let large = Workload { documents: 10_000_000, readers: 20, ..Workload::default() };
        let page = super::page(&large, &large.sizing(), true, Some(1234.4));
        for part in [
            "200 million, 20 a document, as the files of this home\n",
            "200 times as much as was measured",
            "one copy for 20 readers",
            "for a month   1234 at the prices given",
        ] {
            assert!(page.contains(part), "{part:?} is not in\n{page}");
        }
    }

    #[test]
    fn numbers_are_said_shortly() {
        let said = [0.0, 999.0, 1500.0, 20e6, 1e9].map(said);
        assert_eq!(said, ["0", "999", "1.5 thousand", "20 million", "1.0 billion"]);
        assert_eq!([0.01, 0.67, 30.0, 7.5].map(rate), ["0.010", "0.7", "30", "7.5"]);
        assert_eq!([0.5, 10.0, 384.0].map(hours), ["30 min", "10 h", "16 days"]);
    }
}
