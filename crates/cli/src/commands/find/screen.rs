//! The state as lines of a screen: query, list, preview, keys. Nothing in a file moves the cursor: what is no letter is
//! a space.

use console::measure_text_width;
use riddle_rag::preview::{Highlighter, marked};

use super::state::Finder;
use crate::{output::Style, show};

/// Columns from which list and preview stand side by side; below, one over the other.
const WIDE: usize = 100;

/// What the keys do.
const KEYS: &str = "↑↓ choose · Enter open · PgUp PgDn preview · Ctrl-U clear · Esc quit";

/// Exactly `height` lines of at most `width` columns.
pub(super) fn lines(finder: &Finder, width: usize, height: usize, style: Style) -> Vec<String> {
    let mut lines =
        vec![fitted(&format!("> {}", finder.query), width), status(finder, width, style)];
    let room = height.saturating_sub(3);
    if width >= WIDE {
        let left = width * 2 / 5;
        let right = width - left - 3;
        let list = list(finder, left, room, style);
        let preview = preview(finder, right, room, style);
        for row in 0..room {
            let (item, item_width) = list.get(row).cloned().unwrap_or_default();
            let gap = " ".repeat(left - item_width);
            let text = preview.get(row).map_or("", String::as_str);
            lines.push(format!("{item}{gap} {} {text}", style.dim("│")));
        }
    } else {
        let above = room.div_ceil(2);
        let mut items: Vec<String> =
            list(finder, width, above, style).into_iter().map(|it| it.0).collect();
        items.resize(above, String::new());
        lines.extend(items);
        lines.extend(preview(finder, width, room - above, style));
    }
    lines.resize(height.saturating_sub(1), String::new());
    lines.push(style.dim(fitted(KEYS, width)));
    lines.truncate(height);
    lines
}

fn status(finder: &Finder, width: usize, style: Style) -> String {
    let words = if finder.query.trim().is_empty() {
        "type what you look for".to_owned()
    } else if finder.waiting {
        "…".to_owned()
    } else if finder.hits.is_empty() {
        "nothing found".to_owned()
    } else {
        let order = if finder.reranked { "reranked" } else { "by words and meaning" };
        format!("{} · {order}", show::plural(finder.hits.len() as u64, "passage"))
    };
    match &finder.note {
        Some(note) => style.yellow(fitted(&format!("{words} · {note}"), width)),
        None => style.dim(fitted(&words, width)),
    }
}

/// Items with their widths, the chosen one among them.
fn list(finder: &Finder, width: usize, room: usize, style: Style) -> Vec<(String, usize)> {
    // The chosen one is as far from the edge as the list allows.
    let first =
        finder.selected.saturating_sub(room / 2).min(finder.hits.len().saturating_sub(room));
    let item = |(place, hit): (usize, &riddle_rag::SearchHit)| {
        let mark = if place == finder.selected { "▸ " } else { "  " };
        let words = format!("{mark}{} · {}", hit.title, hit.location);
        let text = fitted(&words, width);
        let own = measure_text_width(&text);
        let text = if place == finder.selected { style.bold(text) } else { text };
        (text, own)
    };
    finder.hits.iter().enumerate().skip(first).take(room).map(item).collect()
}

/// Where it is, and the passage with what was asked for marked.
fn preview(finder: &Finder, width: usize, room: usize, style: Style) -> Vec<String> {
    let Some(hit) = finder.chosen() else { return Vec::new() };
    if room == 0 || width < 4 {
        return Vec::new();
    }
    let place = format!("{} · {}", show::path(&hit.path), hit.location);
    let mut lines = vec![style.cyan(fitted(&place, width))];
    if !hit.heading.is_empty() {
        lines.push(style.dim(fitted(&hit.heading, width)));
    }
    lines.push(String::new());
    let head = lines.len();
    let mut words = Highlighter::new(&finder.query);
    let mut text: Vec<String> = Vec::new();
    for paragraph in hit.text.lines() {
        text.extend(wrapped(&marked(paragraph, &mut words), width, style));
    }
    // The last line stays in sight.
    let scrolled = finder.scrolled.min(text.len().saturating_sub(1));
    lines.extend(text.into_iter().skip(scrolled).take(room.saturating_sub(head)));
    lines.truncate(room);
    lines
}

/// Pieces as lines of at most `width` columns, cut between words where that is possible.
fn wrapped(pieces: &[(String, bool)], width: usize, style: Style) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut line, mut used) = (String::new(), 0);
    for (text, is_marked) in pieces {
        for word in show::clean(text).split_inclusive(' ') {
            let mut rest = word.to_owned();
            while !rest.is_empty() {
                let own = measure_text_width(rest.trim_end());
                if used + own > width && used > 0 {
                    lines.push(std::mem::take(&mut line));
                    used = 0;
                    continue;
                }
                let part = fitted_exact(&rest, width - used);
                let left = rest.split_off(part.len());
                used += measure_text_width(&part);
                line.push_str(&if *is_marked { style.bold(&part) } else { part });
                rest = left;
                if !rest.trim().is_empty() {
                    lines.push(std::mem::take(&mut line));
                    used = 0;
                } else {
                    rest.clear();
                }
            }
        }
    }
    lines.push(line);
    lines
}

/// As much of a text as fits, with a sign where it was cut.
fn fitted(text: &str, width: usize) -> String {
    let text = show::clean(text);
    if measure_text_width(&text) <= width {
        return text;
    }
    let cut = fitted_exact(&text, width.saturating_sub(1));
    if width == 0 { cut } else { cut + "…" }
}

/// As much of a text as fits; at least one letter where there is room for any.
fn fitted_exact(text: &str, width: usize) -> String {
    let mut used = 0;
    let mut letter = [0; 4];
    let fits = |it: &char| {
        used += measure_text_width(it.encode_utf8(&mut letter));
        used <= width
    };
    let part: String = text.chars().take_while(fits).collect();
    if part.is_empty() && width > 0 { text.chars().take(1).collect() } else { part }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{
        super::state::tests::{found, hit},
        *,
    };

    fn shown(finder: &Finder, width: usize, height: usize) -> Vec<String> {
        lines(finder, width, height, Style::with_colors(false))
    }

    #[test]
    fn a_wide_screen_has_list_and_preview_side_by_side() {
        let mut finder = Finder::new("blue boat");
        assert!(finder.ask().is_some());
        assert_eq!(shown(&finder, 100, 8)[1], "…");
        found(&mut finder, &[1, 2], true);
        let screen = shown(&finder, 100, 8);
        assert_eq!(screen[0], "> blue boat");
        assert_eq!(screen[1], "2 passages · reranked");
        assert_eq!(screen[2], format!("{:<40} │ /files/1.md · lines 3–4", "▸ Title 1 · lines 3–4"));
        assert_eq!(screen[3], format!("{:<40} │ ", "  Title 2 · lines 3–4"));
        assert_eq!(screen[4], format!("{:<40} │ The boat is blue.", ""));
        assert!(screen[7].starts_with("↑↓ choose"));
        let colored = lines(&finder, 100, 8, Style::with_colors(true));
        assert!(colored[4].contains("\x1b[1mboat"), "{:?}", colored[4]);
    }

    #[test]
    fn a_narrow_screen_has_one_over_the_other_and_an_empty_one_says_what_to_do() {
        let mut finder = Finder::new("");
        finder.ask();
        assert_eq!(shown(&finder, 40, 9)[1], "type what you look for");
        let mut finder = Finder::new("boat");
        finder.ask();
        found(&mut finder, &[], false);
        assert_eq!(shown(&finder, 40, 9)[1], "nothing found");
        found(&mut finder, &(1..30).collect::<Vec<_>>(), false);
        let screen = shown(&finder, 40, 9);
        assert_eq!(screen[2], "▸ Title 1 · lines 3–4");
        assert_eq!(screen[5], "/files/1.md · lines 3–4");
        assert_eq!(screen[7], "The boat is blue.");
        // The last one is in sight when it is chosen.
        finder.on_key(&console::Key::End);
        assert!(shown(&finder, 40, 9).contains(&"▸ Title 29 · lines 3–4".to_owned()));
    }

    #[test]
    fn long_words_are_cut_and_short_ones_kept_whole() {
        let plain = Style::with_colors(false);
        let lines = |text: &str, width| wrapped(&[(text.to_owned(), false)], width, plain);
        assert_eq!(lines("one two three", 8), ["one two ", "three"]);
        assert_eq!(lines("abcdefghij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(lines("猫猫猫", 4), ["猫猫", "猫"]);
        assert_eq!(fitted("abcdef", 4), "abc…");
    }

    proptest! {
        #[test]
        fn whatever_a_file_holds_stays_within_the_screen(
            text in "\\PC{0,80}|[\\x00-\\x1f\\x7f-\\u{9f}a猫 ]{0,40}",
            query in "\\PC{0,12}",
            width in 0_usize..130,
            height in 0_usize..12,
            scrolled in 0_usize..5,
        ) {
            let mut finder = Finder::new(&query);
            finder.ask();
            found(&mut finder, &[1, 2, 3], false);
            finder.hits = vec![hit(1, &text); 3];
            finder.hits[1].title.clone_from(&text);
            finder.note = (scrolled == 1).then(|| text.clone());
            finder.scrolled = scrolled;
            let screen = shown(&finder, width, height);
            prop_assert_eq!(screen.len(), height);
            for line in screen {
                prop_assert!(!line.contains(char::is_control), "{:?}", line);
                // One letter of two columns may stand where there is room for one.
                prop_assert!(measure_text_width(line.trim_end()) <= width.max(2) + 1, "{:?} in {}", line, width);
            }
        }
    }
}
