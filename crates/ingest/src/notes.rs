//! What people write into Markdown notes for the program that keeps them: properties above the text, links between
//! notes, tags.

use std::borrow::Cow;

use riddle_types::tag_name;

/// Most tags of a file, and most other names.
const MOST_TAGS: usize = 200;
const MOST_ALIASES: usize = 8;

/// Most bytes of a link, and of code within a line: where none ends in so many, it is none.
const LONGEST_LINK: usize = 500;
const LONGEST_SPAN: usize = 2000;

/// What a note says about itself.
#[derive(Debug, Default)]
pub(crate) struct Properties {
    pub(crate) tags: Vec<String>,
    /// Other names of the note.
    pub(crate) aliases: Vec<String>,
    list: Option<List>,
}

/// Whose values the lines of the front matter are.
#[derive(Debug, Clone, Copy, PartialEq)]
enum List {
    Tags,
    Aliases,
}

impl Properties {
    /// Takes in a line of the front matter.
    pub(crate) fn front(&mut self, line: &str) {
        let trimmed = line.trim();
        if let Some(item) = trimmed.strip_prefix("- ").filter(|_| self.list.is_some()) {
            return self.value(item);
        }
        let key = trimmed.split_once(':').filter(|_| !line.starts_with([' ', '\t', '-']));
        let Some((key, values)) = key else { return self.values(trimmed) };
        self.list = match key.trim().to_lowercase().as_str() {
            "tags" | "tag" => Some(List::Tags),
            "aliases" | "alias" => Some(List::Aliases),
            _ => None,
        };
        self.values(values);
    }

    /// `[a, b]`, `a, b`, and of tags `a b`.
    fn values(&mut self, text: &str) {
        if self.list.is_none() {
            return;
        }
        let text = text.trim().trim_start_matches('[').trim_end_matches(']');
        if self.list == Some(List::Tags) && !text.contains([',', '"', '\'']) {
            text.split_whitespace().for_each(|it| self.value(it));
        } else {
            text.split(',').for_each(|it| self.value(it));
        }
    }

    fn value(&mut self, text: &str) {
        let text = text.trim().trim_matches(['"', '\'']).trim();
        match self.list {
            Some(List::Tags) => self.tag(text),
            Some(List::Aliases) => {
                let new = !text.is_empty() && !self.aliases.iter().any(|it| it == text);
                if new && self.aliases.len() < MOST_ALIASES {
                    self.aliases.push(text.to_owned());
                }
            }
            None => {}
        }
    }

    fn tag(&mut self, text: &str) {
        if let Some(tag) = tag_name(text)
            && self.tags.len() < MOST_TAGS
            && !self.tags.contains(&tag)
        {
            self.tags.push(tag);
        }
    }

    /// A line of text as it is read: links are the words that they show. Takes in its tags.
    pub(crate) fn line<'a>(&mut self, line: &'a str) -> Cow<'a, str> {
        if !line.contains('#') && !line.contains("[[") {
            return Cow::Borrowed(line);
        }
        let mut out = String::with_capacity(line.len());
        let mut rest = line;
        while let Some(at) = rest.find(['`', '[', '!', '#']) {
            let (before, after) = rest.split_at(at);
            out.push_str(before);
            let taken = if let Some(length) = code_span(after) {
                out.push_str(&after[..length]);
                length
            } else if let Some((shown, length)) = link(after) {
                out.push_str(&shown);
                length
            } else {
                let apart = out.is_empty() || out.ends_with(char::is_whitespace);
                if let Some(tag) = tag(after).filter(|_| apart) {
                    self.tag(tag);
                }
                // The sign alone: it is one byte.
                out.push_str(&after[..1]);
                1
            };
            rest = &after[taken..];
        }
        out.push_str(rest);
        Cow::Owned(out)
    }

    /// The title with the other names behind it; of a note without title its file's name.
    pub(crate) fn titled(&self, title: Option<String>, name: &str) -> Option<String> {
        if self.aliases.is_empty() {
            return title;
        }
        let name = name.rsplit(['/', '\\']).next().unwrap_or(name);
        let stem = name.rsplit_once('.').map_or(name, |it| it.0);
        let title = title.filter(|it| !it.is_empty()).unwrap_or_else(|| stem.to_owned());
        let others = self.aliases.iter().filter(|it| **it != title).map(String::as_str);
        let others = others.collect::<Vec<_>>().join(", ");
        Some(if others.is_empty() { title } else { format!("{title} ({others})") })
    }
}

/// How long the code is with which a text begins, its marks included.
fn code_span(text: &str) -> Option<usize> {
    let length = text.bytes().take_while(|it| *it == b'`').count();
    let inside = within(text.get(length..)?, LONGEST_SPAN);
    let mark = text.get(..length).filter(|it| !it.is_empty())?;
    // A longer run of marks is none that ends it.
    let longer = |at: usize| inside[at + length..].starts_with('`') || inside[..at].ends_with('`');
    let end = inside.match_indices(mark).map(|it| it.0).find(|at| !longer(*at));
    // Without an end the marks are text, all of them at once.
    Some(end.map_or(length, |it| length + it + length))
}

/// What a link says with which a text begins, `[[Note#Heading|shown]]` or `![[Note]]`, and how long it is.
fn link(text: &str) -> Option<(String, usize)> {
    let embedded = text.starts_with('!');
    let start = if embedded { "![[" } else { "[[" };
    let inside = within(text.strip_prefix(start)?, LONGEST_LINK);
    let inside = &inside[..inside.find("]]")?];
    if inside.contains("[[") || inside.trim().is_empty() {
        return None;
    }
    let (target, shown) = match inside.split_once('|') {
        // In a table the sign is kept from parting cells.
        Some((target, shown)) => (target.trim_end_matches('\\'), shown.trim()),
        None => (inside, ""),
    };
    let (note, heading) = target.split_once('#').unwrap_or((target, ""));
    let note = note.trim().trim_end_matches(".md");
    // A block has a number that says nothing.
    let headings = heading.split('#').map(str::trim).filter(|it| !it.starts_with('^'));
    let parts: Vec<&str> =
        std::iter::once(note).chain(headings).filter(|it| !it.is_empty()).collect();
    let name = parts.join(" › ");
    // What an embedded picture shows is how wide it is.
    let is_size = embedded && shown.chars().all(|it| it.is_ascii_digit() || it == 'x');
    let says = |it: &str| it.to_lowercase().contains(&note.to_lowercase());
    let words = match shown {
        "" => name,
        _ if is_size => name,
        _ if says(shown) => shown.to_owned(),
        _ => format!("{shown} ({note})"),
    };
    Some((words, start.len() + inside.len() + "]]".len()))
}

/// The tag with which a text begins. Digits alone are the number of something.
fn tag(text: &str) -> Option<&str> {
    let text = text.strip_prefix('#')?;
    let end = text.find(|it: char| !it.is_alphanumeric() && !"_-/".contains(it));
    let tag = &text[..end.unwrap_or(text.len())];
    tag.chars().any(|it| !it.is_ascii_digit() && it != '/').then_some(tag)
}

/// The first bytes, as many as there are whole characters in so many.
fn within(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|it| text.is_char_boundary(*it));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn front(text: &str) -> (Vec<String>, Vec<String>) {
        let mut note = Properties::default();
        text.lines().for_each(|it| note.front(it));
        (note.tags, note.aliases)
    }

    fn read(line: &str) -> (String, Vec<String>) {
        let mut note = Properties::default();
        let text = note.line(line).into_owned();
        (text, note.tags)
    }

    #[test]
    fn front_matter_gives_tags_and_other_names_in_all_its_ways() {
        for text in [
            "tags: [invoices, \"Project/Boat\"]",
            "tags: invoices, project/boat",
            "Tags: invoices #project/boat",
            "date: 2025-03-01\ntags:\n  - invoices\n  - '#Project/Boat'\nauthor: Mira",
            "tags:\n- invoices\n- project/boat/\n- invoices",
            "tags: [\n  invoices,\n  project/boat\n]",
        ] {
            assert_eq!(front(text).0, ["invoices", "project/boat"], "{text}");
        }
        let (tags, aliases) = front("aliases:\n  - The old boat\n  - Mira's\ntag: hull\n");
        assert_eq!((tags.as_slice(), aliases.len()), (&["hull".to_owned()][..], 2));
        assert_eq!(front("alias: [Old, \"The blue one\"]").1, ["Old", "The blue one"]);
        assert_eq!(
            front("author: a, b\n  - c\ntitle: tags: d"),
            (Vec::<String>::new(), Vec::<String>::new())
        );
    }

    #[test]
    fn links_are_read_as_the_words_they_show_and_keep_the_name_of_the_note() {
        for (line, said) in [
            ("See [[Boat|the blue one]].", "See the blue one (Boat)."),
            ("See [[Boat#Hull]] and [[#Hull]].", "See Boat › Hull and Hull."),
            ("![[Boat]] ![[hull.png|300x200]]", "Boat hull.png"),
            ("[[log/Boat.md|our Log/Boat]]", "our Log/Boat"),
            ("| [[Boat\\|her]] |", "| her (Boat) |"),
            ("[[Boat#^a1b2]]", "Boat"),
            ("`[[Boat|x]]` [a](b.md) [[ ]] [[x", "`[[Boat|x]]` [a](b.md) [[ ]] [[x"),
        ] {
            assert_eq!(read(line).0, said);
        }
    }

    #[test]
    fn tags_stand_in_text_and_not_in_code_headings_or_numbers() {
        let cases: [(&str, &[&str]); 6] = [
            ("#boat and #Project/Hull, #boat.", &["boat", "project/hull"]),
            ("# Heading #later", &["later"]),
            ("issue #123 of #2025/hull (#no) a#b https://x.org/#c", &["2025/hull"]),
            ("`#code` ``a ` #b`` #über-holung_2", &["über-holung_2"]),
            ("[[Boat#Hull]] \\#not ## #", &[]),
            ("`open #yes", &["yes"]),
        ];
        for (line, tags) in cases {
            let (text, found) = read(line);
            assert_eq!(found, tags, "{line}");
            assert!(line.contains("[[") || text == line, "{text}");
        }
    }

    #[test]
    fn lines_without_end_are_read_in_bounds() {
        let marks: String = (1..1500).map(|it| format!("{} ", "`".repeat(it))).collect();
        for line in [marks, "[[".repeat(200_000), "#a".repeat(200_000), " #é/".repeat(100_000)] {
            let (text, tags) = read(&line);
            assert!(text.len() <= line.len() && tags.len() <= MOST_TAGS);
        }
    }

    #[test]
    fn other_names_stand_behind_the_title() {
        let mut note = Properties::default();
        assert_eq!(note.titled(None, "a/Boat.md"), None);
        note.front("aliases: [Mira, The blue one]");
        assert_eq!(note.titled(None, "a/Boat.md").as_deref(), Some("Boat (Mira, The blue one)"));
        let title = note.titled(Some("Log".to_owned()), "a/Boat.md");
        assert_eq!(title.as_deref(), Some("Log (Mira, The blue one)"));
    }
}
