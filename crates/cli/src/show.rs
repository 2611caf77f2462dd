//! How things look to people: paths, sizes, times, snippets, and why the order is what it is.

use std::{collections::BTreeMap, path::Path};

use riddle_rag::{
    rerank::{Order, Promise},
    servers::RemoteStage,
};
use riddle_types::{DeadlineEnd, DeadlineReport, RankTrace};

use crate::{measures::Times, output::Style};

/// Columns that text is wrapped at: readable, and inside any terminal that is wide enough to work in.
const COLUMNS: usize = 96;

/// Most characters of a passage that are shown: about three lines.
const SNIPPET_CHARS: usize = 280;

/// Characters that two words must share at their beginning to be shown as the same word with another
/// ending (walked, walking). Three would join "cat" and "catalog".
const STEM_CHARS: usize = 4;

/// Text of unknown origin without what a terminal would obey.
pub(crate) fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// A path with the user's home as `~`.
pub(crate) fn path(path: &str) -> String {
    let home = std::env::var("HOME").or_else(|_| std::env::var("USERPROFILE")).unwrap_or_default();
    clean(&shorten(path, &home))
}

fn shorten(path: &str, home: &str) -> String {
    // `/` and the empty name would shorten everything.
    if home.len() < 2 {
        return path.to_owned();
    }
    match Path::new(path).strip_prefix(home) {
        Ok(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
        Ok(rest) => Path::new("~").join(rest).to_string_lossy().into_owned(),
        Err(_) => path.to_owned(),
    }
}

/// A size in the unit people use.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KB", "MB", "GB", "TB", "PB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut size = bytes as f64 / 1000.0;
    let mut unit = 0;
    // 999.5 would be shown as 1000.
    while size >= 999.5 && unit + 1 < UNITS.len() {
        size /= 1000.0;
        unit += 1;
    }
    let digits = usize::from(size < 9.95);
    format!("{size:.digits$} {}", UNITS[unit])
}

/// Milliseconds, with as many digits as tell something.
pub(crate) fn ms(ms: f64) -> String {
    if ms >= 9_995.0 {
        return format!("{:.1} s", ms / 1000.0);
    }
    let digits = usize::from(ms < 9.95);
    format!("{ms:.digits$} ms")
}

/// The line of stage times: those that ran, in the order of the pipeline, and the total.
pub(crate) fn times(times: &Times) -> String {
    const ORDER: [&str; 21] = [
        "scan",
        "parse",
        "write",
        "sync",
        "rewrite",
        "embed",
        "weigh",
        "bm25",
        "vector",
        "terms",
        "shared",
        "fuse",
        "prepare",
        "rerank",
        "bank",
        "generate",
        "load_prefix",
        "keep_prefix",
        "check",
        "push",
        "total",
    ];
    let shown = ORDER.iter().filter_map(|stage| {
        times.get(stage).filter(|it| **it > 0.0).map(|it| format!("{stage} {}", ms(*it)))
    });
    shown.collect::<Vec<_>>().join(" · ")
}

/// The shared library that something is from; nothing for the home.
pub(crate) fn library(name: Option<&str>) -> String {
    name.map_or_else(String::new, |it| format!(" · in {}", clean(it)))
}

/// Which order the hits are in, and why.
pub(crate) fn order(order: &Order) -> String {
    match order {
        Order::Fused => "merged ranks of keywords and vectors, not reranked".to_owned(),
        Order::Keyword => "keywords alone".to_owned(),
        Order::Reranked { model } => format!("reranked by {}", clean(model)),
    }
}

/// How a hit came to its place.
pub(crate) fn trace(trace: &RankTrace) -> String {
    let place = |name: &str, rank: Option<u32>| {
        rank.map_or_else(|| format!("{name} –"), |rank| format!("{name} #{rank}"))
    };
    let mut parts = vec![place("keywords", trace.bm25_rank), place("vectors", trace.vector_rank)];
    parts.extend(trace.sparse_rank.map(|it| place("terms", Some(it))));
    parts.push(place("fused", trace.fused_rank));
    parts.extend(trace.decided_at_layer.map(|it| format!("decided at layer {it}")));
    parts.join(" · ")
}

/// Counts per state, "indexed" first as the library orders them: `12 indexed · 1 failed`.
pub(crate) fn states<K: AsRef<str>>(states: &BTreeMap<K, u64>) -> String {
    let count = |name: &str| states.iter().find(|(key, _)| key.as_ref() == name).map(|(_, n)| *n);
    let shown = riddle_types::FileState::ALL.into_iter().filter_map(|state| {
        let name = state.as_str();
        count(name).filter(|it| *it > 0).map(|it| format!("{it} {}", name.replace('_', " ")))
    });
    let line = shown.collect::<Vec<_>>().join(" · ");
    if line.is_empty() { "no files".to_owned() } else { line }
}

/// Counts per kind, the most first: `312 PDF · 88 e-mail · 40 tables`.
pub(crate) fn kinds<K: AsRef<str>>(kinds: &BTreeMap<K, u64>) -> String {
    let mut counts: Vec<(u64, &str)> = kinds.iter().map(|(name, n)| (*n, name.as_ref())).collect();
    counts.sort_by_key(|it| (std::cmp::Reverse(it.0), it.1));
    let shown = counts.into_iter().filter(|it| it.0 > 0).map(|(n, name)| kind(n, name));
    shown.collect::<Vec<_>>().join(" · ")
}

fn kind(count: u64, name: &str) -> String {
    use riddle_types::FileKind as Kind;
    match Kind::parse(name) {
        Some(Kind::Markdown) => format!("{count} Markdown"),
        Some(Kind::Html) => plural(count, "web page"),
        Some(Kind::Pdf) => format!("{count} PDF"),
        Some(Kind::Presentation) => format!("{count} slides"),
        Some(Kind::Spreadsheet) => plural(count, "table"),
        Some(Kind::Mail) => format!("{count} e-mail"),
        Some(Kind::Contacts) => plural(count, "address book"),
        Some(Kind::Image) => plural(count, "picture"),
        Some(Kind::History) => format!("{count} browsing history"),
        Some(Kind::Code | Kind::Other) | None => format!("{count} {name}"),
        Some(Kind::Text | Kind::Document | Kind::Book | Kind::Calendar | Kind::Archive) => {
            plural(count, name)
        }
    }
}

/// `1 file`, `2 files`.
pub(crate) fn plural(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// What is said of a folder whose changes nobody tells of, which is looked at every so many minutes.
pub(crate) fn share(looked_at_every: Option<u64>) -> String {
    looked_at_every.map_or_else(String::new, |it| {
        format!(", on a network share: looked at every {}", plural(it, "minute"))
    })
}

/// What became of a deadline.
pub(crate) fn deadline(report: &DeadlineReport) -> String {
    let times = format!("{:.0} of {:.0} ms", report.took_ms, report.target_ms);
    let late = if report.met { "" } else { ", too late" };
    let Some(plan) = &report.plan else {
        let why = match (report.end, report.least_ms) {
            (DeadlineEnd::NothingGained, _) => {
                "no part of the model ranks better than what was found".to_owned()
            }
            (_, Some(least)) => format!("about {:.0} ms would be enough", least.ceil()),
            _ => "the time was up before the first scores".to_owned(),
        };
        return format!("deadline: not ranked in {times}{late}: {why}\n");
    };
    let shards = plan.bits.iter().flatten();
    let count = shards.clone().count().max(1);
    let bits = shards.map(|it| f64::from(*it)).sum::<f64>() / count as f64;
    let provisional = if report.end == DeadlineEnd::Provisional { ", provisional" } else { "" };
    let read = plan.candidates;
    format!(
        "deadline: ranked in {times}{late}{provisional} · {} × {} heads · {bits:.1} bits · {read} read\n",
        plan.layers, plan.width
    )
}

/// What pruning promises, and the share of the full forward that it computed.
/// What a server did of a search, or of a run of the indexer.
pub(crate) fn remote(remote: &RemoteStage) -> String {
    let again = remote.tries.saturating_sub(remote.calls);
    let again = if again > 0 { format!(", {again} tried again") } else { String::new() };
    format!(
        "remote: {:.1} ms at {} for {}, {} in {}{again}\n",
        remote.ms,
        clean(&remote.server),
        plural(remote.texts, "passage"),
        bytes(remote.sent_bytes),
        plural(u64::from(remote.calls), "request")
    )
}

/// What a server did that embeds the question of a search.
pub(crate) fn embedding(remote: &RemoteStage) -> String {
    format!(
        "embedded: {:.1} ms at {}, {} in {}\n",
        remote.ms,
        clean(&remote.server),
        bytes(remote.sent_bytes),
        plural(u64::from(remote.tries), "request")
    )
}

/// What pruning promises of a result, and what it spares.
pub(crate) fn promise(promise: &Promise, share: Option<f64>) -> String {
    let percent = (1e4 * promise.error).round() / 100.0;
    let computed =
        share.map_or(String::new(), |it| format!(" ({:.0} % of it was computed)", 100.0 * it));
    format!(
        "promise: on average at most {percent} % of the {} are not those of a full reading{computed}\n",
        plural(promise.results as u64, "result")
    )
}

/// What the system says, without its error number.
pub(crate) fn io_reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "there is no such file or folder".to_owned(),
        std::io::ErrorKind::PermissionDenied => "you may not read it".to_owned(),
        _ => error.to_string(),
    }
}

/// Lines of at most [`COLUMNS`] characters, each with `indent` spaces before it.
pub(crate) fn wrapped(text: &str, indent: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut length = 0;
    for word in text.split_whitespace() {
        let word_length = visible_length(word);
        if length > 0 && indent + length + 1 + word_length > COLUMNS {
            lines.push(std::mem::take(&mut line));
            length = 0;
        }
        if length > 0 {
            line.push(' ');
            length += 1;
        }
        line.push_str(word);
        length += word_length;
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines.into_iter().map(|it| format!("{}{it}", " ".repeat(indent))).collect()
}

/// Text that comes in pieces, wrapped as [`wrapped`] does. A word is written when it is over.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    column: usize,
    word: String,
}

impl Flow {
    /// What can be written after this piece, whose line breaks stay.
    pub(crate) fn push(&mut self, piece: &str) -> String {
        let mut out = String::new();
        for c in piece.chars() {
            if c == '\n' {
                out.push_str(&self.end());
                out.push('\n');
                self.column = 0;
            } else if c.is_whitespace() {
                out.push_str(&self.end());
            } else {
                self.word.push(c);
            }
        }
        out
    }

    /// The last word.
    pub(crate) fn end(&mut self) -> String {
        let word = std::mem::take(&mut self.word);
        if word.is_empty() {
            return word;
        }
        let word = clean(&word);
        let length = word.chars().count();
        let gap = match self.column {
            0 => "",
            column if column + 1 + length > COLUMNS => "\n",
            _ => " ",
        };
        self.column = if gap == " " { self.column + 1 + length } else { length };
        format!("{gap}{word}")
    }
}

/// Characters on screen: color codes (`ESC [ … m`, ours alone, since texts are cleaned) take no room.
fn visible_length(word: &str) -> usize {
    let mut in_code = false;
    word.chars()
        .filter(|&c| {
            let hidden = in_code || c == '\x1b';
            in_code = hidden && c != 'm';
            !hidden
        })
        .count()
}

/// The part of a passage that answers the query best, words of the query in bold.
pub(crate) fn snippet(text: &str, query: &str, style: Style) -> String {
    let text = clean(text);
    let wanted = telling_words(query);
    let tokens: Vec<&str> = text.split_whitespace().collect();
    let matched: Vec<bool> = tokens.iter().map(|it| is_match(it, &wanted)).collect();
    let (start, end) = best_window(&tokens, &matched);
    let mut shown = String::new();
    if start > 0 {
        shown.push_str("… ");
    }
    for place in start..end {
        if place > start {
            shown.push(' ');
        }
        if matched[place] {
            shown.push_str(&style.bold(tokens[place]));
        } else {
            shown.push_str(tokens[place]);
        }
    }
    if end < tokens.len() {
        shown.push_str(" …");
    }
    shown
}

/// The range of tokens, at most [`SNIPPET_CHARS`] long, that holds the most matches; the first of equals.
fn best_window(tokens: &[&str], matched: &[bool]) -> (usize, usize) {
    let length = |place: usize| tokens[place].chars().count() + 1;
    let (mut best, mut best_matches) = ((0, 0), 0);
    let (mut end, mut chars, mut matches) = (0, 0, 0);
    for start in 0..tokens.len() {
        while end < tokens.len() && (end == start || chars + length(end) <= SNIPPET_CHARS) {
            chars += length(end);
            matches += usize::from(matched[end]);
            end += 1;
        }
        if matches > best_matches || best == (0, 0) {
            (best, best_matches) = ((start, end), matches);
        }
        chars -= length(start);
        matches -= usize::from(matched[start]);
    }
    best
}

/// Words of a text in lower case, without punctuation.
fn words(text: &str) -> Vec<String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|it| !it.is_empty())
        .map(str::to_lowercase)
        .collect()
}

/// The words of a query that are worth showing: short ones are mostly articles and prepositions. A query of
/// nothing else keeps them.
fn telling_words(query: &str) -> Vec<String> {
    let all = words(query);
    let tells = |word: &String| {
        word.chars().count() >= STEM_CHARS
            || !word.is_ascii()
            || word.contains(|c: char| c.is_ascii_digit())
    };
    let telling: Vec<String> = all.iter().filter(|it| tells(it)).cloned().collect();
    if telling.is_empty() { all } else { telling }
}

fn is_match(token: &str, wanted: &[String]) -> bool {
    words(token).iter().any(|word| wanted.iter().any(|it| same_word(word, it)))
}

/// Equal, or equal but for the ending: near enough for showing what matched.
fn same_word(a: &str, b: &str) -> bool {
    if a == b {
        return true;
    }
    let common = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
    let rest = a.chars().count().max(b.chars().count()) - common;
    common >= STEM_CHARS && rest <= 3 && rest < common
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn home_is_a_tilde() {
        assert_eq!(shorten("/home/ann/notes/a.md", "/home/ann"), "~/notes/a.md");
        assert_eq!(shorten("/home/ann", "/home/ann"), "~");
        assert_eq!(shorten("/home/anna/a.md", "/home/ann"), "/home/anna/a.md");
        assert_eq!(shorten("/x", "/"), "/x");
        assert_eq!(shorten("/x", ""), "/x");
    }

    #[test]
    fn sizes_and_times_are_short() {
        let sizes = [0, 999, 1000, 9_949, 9_951, 999_499, 999_500, 12_000_000, u64::MAX];
        let want =
            ["0 B", "999 B", "1.0 KB", "9.9 KB", "10 KB", "999 KB", "1.0 MB", "12 MB", "18447 PB"];
        assert_eq!(sizes.map(bytes), want);
        assert_eq!(
            [0.04, 5.25, 45.4, 9_994.0, 12_345.0].map(ms),
            ["0.0 ms", "5.2 ms", "45 ms", "9994 ms", "12.3 s"]
        );
    }

    #[test]
    fn control_characters_never_reach_the_terminal() {
        let shown = snippet("red\x1b[31m boat\x07", "boat", Style::with_colors(false));
        assert!(!shown.contains(char::is_control), "{shown:?}");
    }

    #[test]
    fn the_snippet_shows_the_words_that_were_asked_for() {
        let filler = "lorem ipsum dolor sit amet ".repeat(40);
        let text = format!("{filler} the boats were painted blue in spring {filler}");
        let shown = snippet(&text, "When was the boat painted?", Style::with_colors(true));
        assert!(shown.contains("\x1b[1mboats\x1b[0m were \x1b[1mpainted\x1b[0m"), "{shown}");
        assert!(shown.starts_with("… ") && shown.ends_with(" …"), "{shown}");
        assert_eq!(snippet("Short.", "x", Style::with_colors(true)), "Short.");
        assert_eq!(snippet("", "x", Style::with_colors(true)), "");
    }

    #[test]
    fn articles_are_not_shown_as_matches() {
        let shown = |text, query| snippet(text, query, Style::with_colors(true));
        assert_eq!(shown("the old boat", "the boat"), "the old \x1b[1mboat\x1b[0m");
        assert_eq!(shown("so it is", "is it"), "so \x1b[1mit\x1b[0m \x1b[1mis\x1b[0m");
        assert_eq!(
            shown("lock 9 is in 湯種", "9 湯種"),
            "lock \x1b[1m9\x1b[0m is in \x1b[1m湯種\x1b[0m"
        );
    }

    #[test]
    fn endings_may_differ_and_stems_may_not() {
        for (a, b) in
            [("boat", "boats"), ("painted", "paint"), ("walking", "walked"), ("tide", "tide")]
        {
            assert!(same_word(a, b) && same_word(b, a), "{a} {b}");
        }
        for (a, b) in [("cat", "catalog"), ("inter", "international"), ("sea", "seal"), ("", "a")] {
            assert!(!same_word(a, b), "{a} {b}");
        }
    }

    #[test]
    fn stages_are_in_the_order_of_the_pipeline() {
        let line =
            times(&Times::from([("total", 20.0), ("bm25", 1.0), ("rerank", 0.0), ("embed", 12.0)]));
        assert_eq!(line, "embed 12 ms · bm25 1.0 ms · total 20 ms");
    }

    #[test]
    fn counts_read_well() {
        let counts =
            BTreeMap::from([("failed", 1), ("indexed", 12), ("no_text", 2), ("pending", 0)]);
        assert_eq!(states(&counts), "12 indexed · 2 no text · 1 failed");
        assert_eq!(states(&BTreeMap::<&str, u64>::new()), "no files");
        assert_eq!((plural(1, "file"), plural(0, "file")), ("1 file".into(), "0 files".into()));
    }

    #[test]
    fn a_trace_names_what_is_absent() {
        let shown =
            trace(&RankTrace { bm25_rank: Some(3), fused_rank: Some(1), ..RankTrace::default() });
        assert_eq!(shown, "keywords #3 · vectors – · fused #1");
    }

    /// Every window, counted one by one.
    fn naive_matches(tokens: &[&str], matched: &[bool]) -> usize {
        let fits = |start: usize, end: usize| {
            let chars: usize = tokens[start..end].iter().map(|it| it.chars().count() + 1).sum();
            chars <= SNIPPET_CHARS || end == start + 1
        };
        (0..tokens.len())
            .flat_map(|start| (start + 1..=tokens.len()).map(move |end| (start, end)))
            .filter(|&(start, end)| fits(start, end))
            .map(|(start, end)| matched[start..end].iter().filter(|it| **it).count())
            .max()
            .unwrap_or(0)
    }

    proptest! {
        #[test]
        fn no_window_holds_more_matches(
            words in proptest::collection::vec(("[a-zé]{1,40}", any::<bool>()), 0..60)
        ) {
            let (tokens, matched): (Vec<&str>, Vec<bool>) =
                words.iter().map(|(word, hit)| (word.as_str(), *hit)).unzip();
            let (start, end) = best_window(&tokens, &matched);
            let found = matched[start..end].iter().filter(|it| **it).count();
            prop_assert_eq!(found, naive_matches(&tokens, &matched));
        }

        #[test]
        fn text_in_pieces_is_wrapped_as_a_whole(pieces in prop::collection::vec("[a-z ]{0,30}", 0..30)) {
            let mut flow = Flow::default();
            let mut shown: String = pieces.iter().map(|it| flow.push(it)).collect();
            shown.push_str(&flow.end());
            prop_assert_eq!(shown, wrapped(&pieces.concat(), 0).join("\n"));
        }

        #[test]
        fn wrapping_keeps_every_word_and_the_width(text in "[a-z ]{0,300}", indent in 0..8usize) {
            let lines = wrapped(&text, indent);
            let words: Vec<&str> = lines.iter().flat_map(|it| it.split_whitespace()).collect();
            prop_assert_eq!(words, text.split_whitespace().collect::<Vec<_>>());
            for line in &lines {
                prop_assert!(line.len() <= COLUMNS || !line.trim().contains(' '));
            }
        }
    }
}
