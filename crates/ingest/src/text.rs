//! Text formats, read line by line so that every block knows its lines: plain text and Markdown.

use chardetng::EncodingDetector;
use encoding_rs::Encoding;
use riddle_types::{Block, BlockKind, Document, Location};

use crate::{notes::Properties, remark::Remark};

/// Decodes bytes: by order mark, as UTF-8, else by the most likely encoding. Returns a warning when it had
/// to guess or to replace characters.
pub(crate) fn decode(bytes: &[u8]) -> (String, Option<String>) {
    if let Some((encoding, mark)) = Encoding::for_bom(bytes) {
        let (text, broken) = encoding.decode_without_bom_handling(&bytes[mark..]);
        return (
            text.into_owned(),
            broken.then(|| Remark::NotValid { encoding: encoding.name().to_owned() }.into()),
        );
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => (text.to_owned(), None),
        Err(_) => {
            let mut detector = EncodingDetector::new();
            detector.feed(bytes, true);
            let encoding = detector.guess(None, true);
            let (text, broken) = encoding.decode_without_bom_handling(bytes);
            let encoding = encoding.name().to_owned();
            let warning = if broken {
                Remark::ReadDoubtfullyAs { encoding }
            } else {
                Remark::ReadAs { encoding }
            };
            (text.into_owned(), Some(warning.into()))
        }
    }
}

/// Lines gathered into one block.
struct Gathering {
    kind: BlockKind,
    lines: Vec<String>,
    first: u32,
}

/// Collects blocks with their line numbers.
#[derive(Default)]
struct Blocks {
    done: Vec<Block>,
    open: Option<Gathering>,
}

impl Blocks {
    fn line(&mut self, kind: BlockKind, text: &str, number: u32) {
        match &mut self.open {
            Some(open) if open.kind == kind => open.lines.push(text.to_owned()),
            _ => {
                self.close();
                self.open = Some(Gathering { kind, lines: vec![text.to_owned()], first: number });
            }
        }
    }

    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        let end = open.first + (open.lines.len() as u32).saturating_sub(1);
        let text = open.lines.join("\n");
        if !text.trim().is_empty() {
            let (mut text, mut first) = (text, open.first);
            let mut header = String::new();
            // The names of the columns and the rule below them.
            if open.kind == BlockKind::Table
                && let [names, rule, rows @ ..] = open.lines.as_slice()
                && !rows.is_empty()
                && rule.contains("--")
                && !rule.chars().any(char::is_alphanumeric)
            {
                header = format!("{names}\n{rule}");
                text = rows.join("\n");
                first += 2;
            }
            let location = Location::Line { start: first, end };
            self.done.push(Block { kind: open.kind, text, location, header });
        }
    }

    fn single(&mut self, kind: BlockKind, text: &str, number: u32) {
        self.close();
        self.line(kind, text, number);
        self.close();
    }

    fn finish(mut self) -> Vec<Block> {
        self.close();
        self.done
    }
}

pub(crate) fn numbered(text: &str) -> impl Iterator<Item = (u32, &str)> {
    text.lines().zip(1..).map(|(line, number)| (number, line))
}

/// Plain text: paragraphs between blank lines.
pub(crate) fn parse_plain(text: &str) -> Document {
    let mut blocks = Blocks::default();
    for (number, line) in numbered(text) {
        if line.trim().is_empty() {
            blocks.close();
        } else {
            blocks.line(BlockKind::Paragraph, line, number);
        }
    }
    Document { blocks: blocks.finish(), ..Document::default() }
}

/// Markdown, by lines: headings, fenced code, lists, tables, paragraphs; front matter gives title, tags, other names.
pub(crate) fn parse_markdown(name: &str, text: &str) -> Document {
    let (mut blocks, mut note) = (Blocks::default(), Properties::default());
    let mut title = None;
    let mut fence: Option<String> = None;
    let mut front = text.starts_with("---\n") || text.starts_with("---\r\n");
    for (number, line) in numbered(text) {
        let trimmed = line.trim();
        if front {
            if number > 1 && (trimmed == "---" || trimmed == "...") {
                front = false;
                blocks.close();
            } else if number > 1 {
                if let Some(value) = trimmed.strip_prefix("title:") {
                    title = Some(value.trim().trim_matches(['"', '\'']).to_owned());
                }
                note.front(line);
                blocks.line(BlockKind::Paragraph, line, number);
            }
            continue;
        }
        if let Some(mark) = &fence {
            if trimmed.starts_with(mark.as_str()) {
                fence = None;
                blocks.close();
            } else {
                blocks.line(BlockKind::Code, line, number);
            }
            continue;
        }
        if let Some(mark) = fence_mark(trimmed) {
            blocks.close();
            fence = Some(mark);
            continue;
        }
        let line = note.line(line);
        let (line, trimmed) = (&*line, line.trim());
        if let Some((level, heading)) = heading(trimmed) {
            if level == 1 && title.is_none() {
                // The title is shown as a name; marks of emphasis are for the page.
                title = Some(heading.replace(['*', '`'], ""));
            }
            blocks.single(BlockKind::Heading(level), heading, number);
        } else if trimmed.is_empty() {
            blocks.close();
        } else if is_list_item(trimmed) {
            blocks.close();
            blocks.line(BlockKind::ListItem, line, number);
        } else if trimmed.starts_with('|') {
            blocks.line(BlockKind::Table, line, number);
        } else {
            // A wrapped line continues the item or paragraph that is open.
            let continues_item =
                blocks.open.as_ref().is_some_and(|it| it.kind == BlockKind::ListItem);
            let kind = if continues_item { BlockKind::ListItem } else { BlockKind::Paragraph };
            blocks.line(kind, line, number);
        }
    }
    let title = note.titled(title, name);
    Document { title, tags: note.tags, blocks: blocks.finish(), ..Document::default() }
}

fn fence_mark(line: &str) -> Option<String> {
    let mark = line.chars().next().filter(|it| matches!(it, '`' | '~'))?;
    let length = line.chars().take_while(|it| *it == mark).count();
    (length >= 3).then(|| mark.to_string().repeat(length))
}

fn heading(line: &str) -> Option<(u8, &str)> {
    let level = line.bytes().take_while(|it| *it == b'#').count();
    let rest = line.get(level..)?;
    let text = rest.trim().trim_end_matches('#').trim();
    (1..=6).contains(&level).then_some(())?;
    (rest.starts_with(' ') && !text.is_empty()).then_some((level as u8, text))
}

fn is_list_item(line: &str) -> bool {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let numbered =
        digits > 0 && matches!(line.as_bytes().get(digits..digits + 2), Some(b". " | b") "));
    numbered || line.starts_with("- ") || line.starts_with("* ") || line.starts_with("+ ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(document: &Document) -> Vec<(BlockKind, &str, String)> {
        document
            .blocks
            .iter()
            .map(|it| (it.kind.clone(), it.text.as_str(), it.location.to_string()))
            .collect()
    }

    #[test]
    fn markdown_structure_and_lines() {
        let text = "---\ntitle: Log\n---\n# Boat\n\nTwo\nlines.\n\n- one\n  more\n- two\n\n```sh\nls\n\nrm x\n```\n| a | b |\n";
        let document = parse_markdown("log.md", text);
        assert_eq!(document.title.as_deref(), Some("Log"));
        assert_eq!(
            shape(&document),
            [
                (BlockKind::Paragraph, "title: Log", "line 2".to_owned()),
                (BlockKind::Heading(1), "Boat", "line 4".to_owned()),
                (BlockKind::Paragraph, "Two\nlines.", "lines 6–7".to_owned()),
                (BlockKind::ListItem, "- one\n  more", "lines 9–10".to_owned()),
                (BlockKind::ListItem, "- two", "line 11".to_owned()),
                (BlockKind::Code, "ls\n\nrm x", "lines 14–16".to_owned()),
                (BlockKind::Table, "| a | b |", "line 18".to_owned()),
            ]
        );
    }

    #[test]
    fn notes_give_tags_and_other_names_and_links_are_words() {
        let text = "---\ntags: [project/boat]\naliases: [The blue one]\n---\n# Boat\n\nSee [[Hull|her side]] #Paint\n\n\
                    ```\n#code [[x|y]]\n```\n";
        let document = parse_markdown("notes/Boat.md", text);
        assert_eq!(document.tags, ["project/boat", "paint"]);
        assert_eq!(document.title.as_deref(), Some("Boat (The blue one)"));
        let texts: Vec<&str> = document.blocks.iter().map(|it| it.text.as_str()).collect();
        // The front matter can be found as it stands.
        let front = "tags: [project/boat]\naliases: [The blue one]";
        assert_eq!(texts, [front, "Boat", "See her side (Hull) #Paint", "#code [[x|y]]"]);
    }

    #[test]
    fn encodings_are_told_apart() {
        assert_eq!(decode("Zürich".as_bytes()), ("Zürich".to_owned(), None));
        assert_eq!(decode(b"\xFF\xFEh\0i\0").0, "hi");
        assert_eq!(decode(b"\xEF\xBB\xBFhi").0, "hi");
        let latin =
            b"Der B\xe4cker in Z\xfcrich verkauft gr\xfcne \xc4pfel und s\xfc\xdfe Br\xf6tchen.";
        let (text, warning) = decode(latin);
        assert_eq!(text, "Der Bäcker in Zürich verkauft grüne Äpfel und süße Brötchen.");
        assert!(warning.is_some_and(|it| it.contains("windows-1252")));
        // "パン" in Shift_JIS, with enough company to be sure.
        let (japanese, _, _) =
            encoding_rs::SHIFT_JIS.encode("船は青い色です。パンを焼くのが好きです。");
        assert!(decode(&japanese).0.contains("パンを焼く"));
    }
}
