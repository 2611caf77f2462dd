//! Lines that stand somewhere on a page made into headings and paragraphs.
//!
//! Lines come in the order of reading. One goes on where it stands closely below the one before it, in letters of the
//! same size; letters larger than those of most text make a heading.

use riddle_types::{Block, BlockKind, Location};

use crate::pdfium::Line;

/// How exactly sizes are known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner {
    /// Letters of a heading are at least this many times as large as those of the text.
    larger: f64,
    /// Lines of one paragraph differ in size by no more than this part.
    same_size: f64,
}

impl Manner {
    /// As the file says.
    pub(crate) const TOLD: Manner = Manner { larger: 1.15, same_size: 0.1 };
    /// As they are seen: a line without letters that go below it is less high.
    pub(crate) const SEEN: Manner = Manner { larger: 1.6, same_size: 0.4 };
}

/// Between two lines of one paragraph there is no more than this many times their height.
const WIDEST_GAP: f64 = 0.9;

/// Pieces of a row that stand closer than this many times their size are of one word: a space is a quarter.
const CLOSE: f64 = 0.08;

/// A heading is no longer than this.
const LONGEST_HEADING: usize = 160;

/// The size of most letters, over all pages.
pub(crate) fn body_size<'a>(lines: impl Iterator<Item = &'a Line>) -> f64 {
    let mut sizes: Vec<(f64, usize)> = lines.map(|it| (it.size, it.text.len())).collect();
    sizes.sort_by(|a, b| a.0.total_cmp(&b.0));
    let half = sizes.iter().map(|it| it.1).sum::<usize>() / 2;
    let mut seen = 0;
    for (size, letters) in sizes {
        seen += letters;
        if seen > half {
            return size;
        }
    }
    0.0
}

/// The blocks of a page, from 1.
pub(crate) fn blocks(number: u32, lines: &[Line], body: f64, manner: Manner) -> Vec<Block> {
    let location = Location::Page { start: number, end: number };
    let mut blocks: Vec<Block> = Vec::new();
    let mut before: Option<&Line> = None;
    for line in lines {
        match (before, blocks.last_mut()) {
            (Some(before), Some(block)) if goes_on(before, line, manner) => {
                if !beside(before, line) {
                    block.text.push('\n');
                } else if line.left - before.right > line.size * CLOSE {
                    block.text.push(' ');
                }
                block.text.push_str(&line.text);
            }
            _ => {
                let large = body > 0.0 && line.size >= body * manner.larger;
                let level = if line.size >= body * manner.larger * 1.4 { 1 } else { 2 };
                let kind = if large { BlockKind::Heading(level) } else { BlockKind::Paragraph };
                blocks.push(Block::new(kind, line.text.clone(), location.clone()));
            }
        }
        before = Some(line);
    }
    for block in &mut blocks {
        let is_heading = matches!(block.kind, BlockKind::Heading(_));
        let letters = block.text.chars().filter(|it| it.is_alphabetic()).count();
        if is_heading && (block.text.chars().count() > LONGEST_HEADING || letters < 2) {
            block.kind = BlockKind::Paragraph;
        } else if is_heading {
            block.text = block.text.replace('\n', " ");
        }
    }
    blocks
}

/// Whether a line belongs to the paragraph of the one before it.
fn goes_on(before: &Line, line: &Line, manner: Manner) -> bool {
    let size = before.size.max(line.size);
    if (before.size - line.size).abs() > size * manner.same_size {
        return false;
    }
    if beside(before, line) {
        return true;
    }
    let height = (line.top - line.bottom).max(size);
    let gap = before.bottom - line.top;
    let overlaps = line.left < before.right && before.left < line.right;
    overlaps && line.top < before.top && gap < height * WIDEST_GAP
}

/// Whether both stand in one row, the second one to the right.
fn beside(before: &Line, line: &Line) -> bool {
    let middle = (line.top + line.bottom) / 2.0;
    middle > before.bottom && middle < before.top && line.left >= before.right - 1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str, size: f64, left: f64, top: f64) -> Line {
        let right = left + text.len() as f64 * size / 2.0;
        Line { text: text.to_owned(), size, left, right, bottom: top - size, top }
    }

    #[test]
    fn large_letters_head_and_close_lines_belong_together() {
        let lines = [
            line("The winter mooring", 18.0, 50.0, 700.0),
            line("It is paid for in", 10.0, 50.0, 670.0),
            line("March, and again", 10.0, 50.0, 658.0),
            line("The hull is blue.", 10.0, 50.0, 620.0),
            line("740", 10.0, 300.0, 620.0),
            line(",50", 10.0, 315.2, 620.0),
            line("Of the second column", 10.0, 320.0, 690.0),
        ];
        let body = body_size(lines.iter());
        assert!((body - 10.0).abs() < f64::EPSILON);
        let blocks = blocks(3, &lines, body, Manner::TOLD);
        let texts: Vec<(&str, bool)> = blocks
            .iter()
            .map(|it| (it.text.as_str(), matches!(it.kind, BlockKind::Heading(_))))
            .collect();
        assert_eq!(
            texts,
            [
                ("The winter mooring", true),
                ("It is paid for in\nMarch, and again", false),
                ("The hull is blue. 740,50", false),
                ("Of the second column", false),
            ]
        );
        assert_eq!(blocks[0].location, Location::Page { start: 3, end: 3 });
    }
}
