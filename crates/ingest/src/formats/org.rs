//! Org: outlines with tasks, tags, tables and code, by lines.

use riddle_types::{Block, BlockKind, Document, Location};

use super::Shares;
use crate::{outcome::ParseOutcome, text::decode};

/// Lines that wait to become a block.
#[derive(Default)]
struct Open {
    kind: Option<BlockKind>,
    lines: Vec<String>,
    first: u32,
}

impl Open {
    fn line(&mut self, kind: BlockKind, text: &str, number: u32, done: &mut Vec<Block>) {
        if self.kind.as_ref() != Some(&kind) || kind == BlockKind::ListItem {
            self.close(done);
            (self.kind, self.first) = (Some(kind), number);
        }
        self.lines.push(text.to_owned());
    }

    fn close(&mut self, done: &mut Vec<Block>) {
        let (Some(kind), lines) = (self.kind.take(), std::mem::take(&mut self.lines)) else {
            return;
        };
        let end = self.first + (lines.len() as u32).saturating_sub(1);
        let mut block =
            Block::new(kind, lines.join("\n"), Location::Line { start: self.first, end });
        // The names of the columns, and the rule below them.
        if let (BlockKind::Table, [names, rule, rows @ ..]) = (&block.kind, lines.as_slice())
            && rule.trim_start().starts_with("|-")
            && !rows.is_empty()
        {
            (block.header, block.text) = (names.clone(), rows.join("\n"));
            block.location = Location::Line { start: self.first + 2, end };
        }
        if !block.text.trim().is_empty() {
            done.push(block);
        }
    }
}

pub(super) fn parse(_name: &str, bytes: &[u8], _shares: &mut Shares) -> ParseOutcome {
    let (text, warning) = decode(bytes);
    let mut document = Document::default();
    let mut open = Open::default();
    let (mut code, mut drawer) = (false, false);
    for (line, number) in text.lines().zip(1..) {
        let trimmed = line.trim();
        let lower = trimmed.to_ascii_lowercase();
        let done = &mut document.blocks;
        if code {
            code = !lower.starts_with("#+end_");
            if code {
                open.line(BlockKind::Code, line, number, done);
            } else {
                open.close(done);
            }
        } else if lower.starts_with("#+begin_src") || lower.starts_with("#+begin_example") {
            open.close(done);
            code = true;
        } else if let Some(title) = lower.strip_prefix("#+title:") {
            let at = trimmed.len() - title.len();
            document.title = Some(trimmed.get(at..).unwrap_or("").trim().to_owned());
        } else if lower.starts_with("#+filetags:") || lower.starts_with("#+author:") {
            open.line(BlockKind::Paragraph, trimmed.trim_start_matches("#+"), number, done);
        } else if drawer || lower == ":properties:" || lower == ":logbook:" {
            drawer = lower != ":end:";
        } else if trimmed.is_empty() || lower.starts_with("#+") {
            open.close(done);
        } else if let Some((level, heading)) = heading(line) {
            open.close(done);
            let location = Location::Line { start: number, end: number };
            done.push(Block::new(BlockKind::Heading(level), heading, location));
        } else if trimmed.starts_with('|') {
            open.line(BlockKind::Table, trimmed, number, done);
        } else if trimmed.starts_with("- ") || trimmed.starts_with("+ ") {
            open.line(BlockKind::ListItem, &unlinked(line), number, done);
        } else {
            let kind = match open.kind {
                Some(BlockKind::ListItem) => {
                    open.lines.push(unlinked(line));
                    continue;
                }
                _ => BlockKind::Paragraph,
            };
            open.line(kind, &unlinked(line), number, done);
        }
    }
    open.close(&mut document.blocks);
    document.warnings.extend(warning);
    ParseOutcome::Parsed(document)
}

/// `** Buy paint :boat:` with its level.
fn heading(line: &str) -> Option<(u8, String)> {
    let stars = line.bytes().take_while(|it| *it == b'*').count();
    let text = line.get(stars..)?.strip_prefix(' ')?.trim();
    let level = u8::try_from(stars).ok().filter(|it| *it > 0)?;
    (!text.is_empty()).then(|| (level, unlinked(text)))
}

/// `[[target][text]]` as its text.
fn unlinked(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(start) = rest.find("[[") {
        let Some(end) = rest[start..].find("]]").map(|it| start + it) else { break };
        out.push_str(&rest[..start]);
        let link = &rest[start + 2..end];
        out.push_str(link.split_once("][").map_or(link, |it| it.1));
        rest = &rest[end + 2..];
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outlines_tables_and_code_are_told_apart() {
        let text = "#+TITLE: Log\n* TODO Paint :boat:\n:PROPERTIES:\n:ID: 7\n:END:\nBlue, from [[https://x.org][Jonas]].\n\n\
            | Item | Paid |\n|------+------|\n| tar | 8 |\n** Keel\n- long\n  and old\n- dry\n#+BEGIN_SRC sh\nls\n#+END_SRC\n";
        let ParseOutcome::Parsed(document) = parse("x.org", text.as_bytes(), &mut Shares::tried())
        else {
            panic!("parses")
        };
        assert_eq!(document.title.as_deref(), Some("Log"));
        let seen: Vec<(&str, String)> =
            document.blocks.iter().map(|it| (it.text.as_str(), it.location.to_string())).collect();
        assert_eq!(
            seen,
            [
                ("TODO Paint :boat:", "line 2".to_owned()),
                ("Blue, from Jonas.", "line 6".to_owned()),
                ("| tar | 8 |", "line 10".to_owned()),
                ("Keel", "line 11".to_owned()),
                ("- long\n  and old", "lines 12–13".to_owned()),
                ("- dry", "line 14".to_owned()),
                ("ls", "line 16".to_owned()),
            ]
        );
        assert_eq!(document.blocks[2].header, "| Item | Paid |");
    }
}
