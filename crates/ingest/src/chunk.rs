//! Cutting a document into passages, by structure first and by tokens second.

use riddle_types::{Block, BlockKind, Chunk, Document, Location, TokenCounter, VectorTurn};
use text_splitter::{ChunkConfig, ChunkSizer, TextSplitter};

mod definitions;

/// How large passages are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkOptions {
    /// Most tokens of a passage's text.
    pub max_tokens: usize,
    /// Tokens that neighbors share where a text had to be cut.
    pub overlap_tokens: usize,
}

impl Default for ChunkOptions {
    /// 256 tokens is what the default embedder reads; an eighth of overlap keeps a sentence that was cut
    /// whole in one of the two.
    fn default() -> Self {
        ChunkOptions { max_tokens: 256, overlap_tokens: 32 }
    }
}

/// Cuts `document` into passages.
///
/// A heading begins a new passage; small neighboring blocks under one heading are put together up to the budget; a
/// definition of source code is a passage of its own unless it is tiny; code and tables stay whole where they fit and
/// are cut between lines where not; long texts are cut at sentences, then words. All text is in some passage, in order;
/// no passage is empty or longer than `max_tokens` by `counter` (a single character that costs more tokens is the
/// exception).
pub fn chunk(
    document: &Document,
    counter: &dyn TokenCounter,
    options: &ChunkOptions,
) -> Vec<Chunk> {
    let mut chunker = Chunker {
        counter,
        max: options.max_tokens.max(1),
        least: definitions::LEAST.min(options.max_tokens / 4),
        overlap: options.overlap_tokens.min(options.max_tokens / 2),
        headings: Vec::new(),
        open: Vec::new(),
        open_tokens: 0,
        done: Vec::new(),
    };
    let mut rest = document.blocks.as_slice();
    while !rest.is_empty() {
        let (run, after) = rest.split_at(definitions::run(rest).max(1));
        if run.iter().any(|it| it.kind == BlockKind::Definition) {
            chunker.code(run);
        } else {
            run.iter().for_each(|it| chunker.block(it));
        }
        rest = after;
    }
    chunker.flush();
    // A long table is found by its first rows and by words, and one without end by what is kept of it.
    let mut kept = 0;
    chunker.done.retain(|it| {
        kept += usize::from(it.turn != VectorTurn::Early);
        it.turn == VectorTurn::Early || kept <= MOST_OF_TABLES
    });
    for (passage, ordinal) in chunker.done.iter_mut().zip(0..) {
        passage.ordinal = ordinal;
    }
    let late = chunker.done.iter_mut().filter(|it| it.turn == VectorTurn::Late);
    for passage in late.skip(MOST_LATE) {
        passage.turn = VectorTurn::Never;
    }
    chunker.done
}

/// Most passages of tables of one file: what is beyond is not kept.
pub const MOST_OF_TABLES: usize = 3000;

/// Most passages of tables of one file that get a vector: the others are found by words alone.
pub const MOST_LATE: usize = 300;

/// Most bytes that are cut into passages at once. For every passage the end of the word, the sentence and the paragraph
/// is looked for, however far it is: a line of megabytes without a space took the square of its length.
const MOST_AT_ONCE: usize = 32 << 10;

/// A text in pieces that are cut into passages one by one, each with its place: they end with a line where one ends in
/// their second half, else with a word, else where they must.
fn windows(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = text.get(at..).filter(|it| !it.is_empty())?;
        let mut window = &rest[..rest.floor_char_boundary(MOST_AT_ONCE)];
        if window.len() < rest.len() {
            let ends = [window.rfind('\n'), window.rfind(' ')];
            let end = ends.into_iter().flatten().find(|it| *it >= MOST_AT_ONCE / 2);
            window = end.map_or(window, |it| &window[..=it]);
        }
        let start = at;
        at += window.len();
        Some((start, window))
    })
}

/// A block, or a part of one, waiting to be put into a passage.
#[derive(Debug, Clone)]
struct Piece {
    text: String,
    tokens: usize,
    location: Location,
    heading: bool,
    item: bool,
    code: bool,
    /// Whether it defines something with a name.
    definition: bool,
    /// What source code is defined in.
    within: String,
    /// When it alone would get its vector; headings do not decide.
    turn: Option<VectorTurn>,
}

impl Piece {
    fn of(block: &Block, text: String, tokens: usize, location: Location) -> Piece {
        let code = is_code(&block.kind);
        Piece {
            text,
            tokens,
            location,
            heading: matches!(block.kind, BlockKind::Heading(_)),
            item: block.kind == BlockKind::ListItem,
            code,
            definition: block.kind == BlockKind::Definition,
            within: if code { block.header.clone() } else { String::new() },
            turn: turn(&block.kind),
        }
    }
}

struct Chunker<'a> {
    counter: &'a dyn TokenCounter,
    max: usize,
    /// A definition of fewer tokens is no passage of its own.
    least: usize,
    overlap: usize,
    headings: Vec<(u8, String)>,
    open: Vec<Piece>,
    open_tokens: usize,
    done: Vec<Chunk>,
}

struct Sizer<'a>(&'a dyn TokenCounter);

impl ChunkSizer for Sizer<'_> {
    fn size(&self, text: &str) -> usize {
        self.0.count(text)
    }
}

impl Chunker<'_> {
    fn block(&mut self, block: &Block) {
        if block.text.trim().is_empty() {
            return;
        }
        if let BlockKind::Heading(level) = block.kind {
            self.flush();
            self.headings.retain(|(outer, _)| *outer < level);
            self.headings.push((level, block.text.trim().to_owned()));
        }
        // A passage lies in one part of a file: it is cited with its name.
        if self.open.last().is_some_and(|it| part_of(&it.location) != part_of(&block.location)) {
            self.flush();
        }
        let header = if is_code(&block.kind) { "" } else { block.header.as_str() };
        let text = headed(header, &block.text);
        let slide = matches!(block.location, Location::Slide { .. });
        if self.open.last().is_some_and(|it| turns_page(&it.location, &block.location))
            && (slide || !self.goes_on(&text))
        {
            self.flush();
        }
        let tokens = self.tokens(&text);
        if tokens > self.max {
            self.long_block(block);
            return;
        }
        let piece = Piece::of(block, text, tokens, block.location.clone());
        if self.open_tokens + tokens > self.max {
            self.flush_with_overlap(tokens);
        }
        self.open_tokens += tokens;
        self.open.push(piece);
    }

    /// Source code with definitions.
    fn code(&mut self, blocks: &[Block]) {
        self.flush();
        let mut waiting: Vec<Piece> = Vec::new();
        for block in blocks.iter().filter(|it| !it.text.trim().is_empty()) {
            let tokens = self.tokens(&block.text);
            if tokens > self.max {
                self.passages(std::mem::take(&mut waiting));
                self.long_block(block);
            } else {
                let (text, location) = (block.text.clone(), block.location.clone());
                waiting.push(Piece::of(block, text, tokens, location));
            }
        }
        self.passages(waiting);
    }

    fn passages(&mut self, pieces: Vec<Piece>) {
        for pieces in definitions::grouped(pieces, self.least, self.max) {
            self.open = pieces;
            self.flush();
        }
    }

    /// Whether a text goes on with the sentence that is open.
    fn goes_on(&self, text: &str) -> bool {
        const ENDS: [char; 11] = ['.', '!', '?', ':', ';', '…', '。', '！', '？', '|', '”'];
        let Some(last) = self.open.last().filter(|it| !it.heading) else { return true };
        let ended = last.text.trim_end().trim_end_matches(['"', '\'', ')', '»']).ends_with(ENDS);
        !ended && text.trim_start().starts_with(char::is_lowercase)
    }

    /// Passages that overlap only where the flow was cut: the last small block comes along.
    fn flush_with_overlap(&mut self, next_tokens: usize) {
        let last = self.open.last().filter(|it| {
            !it.heading
                && it.tokens <= self.overlap
                && it.tokens + next_tokens <= self.max
                && self.open.len() > 1
        });
        let last = last.cloned();
        self.flush();
        if let Some(last) = last {
            self.open_tokens = last.tokens;
            self.open.push(last);
        }
    }

    /// A block larger than a passage: its heading's text, if it waits, goes before its first part.
    fn long_block(&mut self, block: &Block) {
        self.flush();
        let code = is_code(&block.kind);
        let by_lines = code || matches!(block.kind, BlockKind::Table | BlockKind::Numbers);
        // Lines of code and rows of tables say nothing twice.
        let overlap = if by_lines { 0 } else { self.overlap };
        // Names of columns that leave no room for rows are not repeated; what code stands in is named in its heading.
        let named = self.counter.count(&block.header);
        let header = if named <= self.max / 2 && !code { block.header.as_str() } else { "" };
        let room = if header.is_empty() { self.max } else { self.max - named };
        let config = ChunkConfig::new(self.max).with_sizer(Sizer(self.counter)).with_trim(false);
        let config = config.with_overlap(overlap).unwrap_or_else(|_| {
            ChunkConfig::new(self.max).with_sizer(Sizer(self.counter)).with_trim(false)
        });
        let splitter = TextSplitter::new(config);
        for (start, window) in windows(&block.text) {
            let place = part_location(&block.location, &block.text, start, window);
            let parts: Vec<(usize, String)> = if by_lines {
                self.whole_lines(window, room)
            } else {
                let cut = splitter.chunk_indices(window);
                cut.map(|(at, text)| (at, text.to_owned())).collect()
            };
            for (at, text) in parts {
                if text.trim().is_empty() {
                    continue;
                }
                let location = part_location(&place, window, at, &text);
                let text = headed(header, &text);
                let tokens = self.counter.count(&text);
                let piece = Piece::of(block, text, tokens, location);
                self.open = vec![Piece { heading: false, item: false, ..piece }];
                self.open_tokens = tokens;
                self.flush();
            }
        }
    }

    /// The tokens of a text, or more than a passage has where it is long: counting those of megabytes takes ten times
    /// their memory, and says nothing more.
    fn tokens(&self, text: &str) -> usize {
        if text.len() > MOST_AT_ONCE { self.max + 1 } else { self.counter.count(text) }
    }

    /// Runs of whole lines within the budget; a line that alone is too long is cut as text.
    fn whole_lines(&self, text: &str, max: usize) -> Vec<(usize, String)> {
        let mut parts: Vec<(usize, String)> = Vec::new();
        let (mut start, mut tokens, mut at) = (0, 0, 0);
        for line in text.split_inclusive('\n') {
            let size = self.tokens(line);
            if tokens > 0 && tokens + size > max {
                parts.push((start, text[start..at].to_owned()));
                (start, tokens) = (at, 0);
            }
            if size > max {
                let config = ChunkConfig::new(max).with_sizer(Sizer(self.counter)).with_trim(false);
                let cut = TextSplitter::new(config);
                parts.extend(
                    cut.chunk_indices(line).map(|(inner, text)| (at + inner, text.to_owned())),
                );
                start = at + line.len();
            } else {
                tokens += size;
            }
            at += line.len();
        }
        if start < text.len() {
            parts.push((start, text[start..].to_owned()));
        }
        parts
    }

    fn flush(&mut self) {
        self.open_tokens = 0;
        let pieces = std::mem::take(&mut self.open);
        let Some(first) = pieces.first() else { return };
        let location =
            pieces.iter().skip(1).fold(first.location.clone(), |all, it| join(all, &it.location));
        let mut text = first.text.trim_end().to_owned();
        for pair in pieces.windows(2) {
            // A blank line where the document has one: a heading is no part of the sentence below it.
            let close = (pair[0].item && pair[1].item) || definitions::adjoin(&pair[0], &pair[1]);
            text.push_str(if close { "\n" } else { "\n\n" });
            text.push_str(pair[1].text.trim_end());
        }
        let place = definitions::place(&pieces, self.least);
        let headings = self.headings.iter().map(|(_, text)| text.as_str());
        let heading = headings.chain(place.as_deref()).collect::<Vec<_>>().join(" › ");
        let tokens = pieces.iter().map(|it| it.tokens).sum::<usize>();
        self.done.push(Chunk {
            ordinal: self.done.len() as u32,
            text,
            heading,
            location,
            tokens: u32::try_from(tokens).unwrap_or(u32::MAX),
            turn: pieces.iter().filter_map(|it| it.turn).min().unwrap_or_default(),
        });
    }
}

/// When a block alone gets its vector; a heading goes with what follows.
fn turn(kind: &BlockKind) -> Option<VectorTurn> {
    match kind {
        BlockKind::Heading(_) => None,
        BlockKind::Paragraph | BlockKind::ListItem | BlockKind::Code | BlockKind::Definition => {
            Some(VectorTurn::Early)
        }
        BlockKind::Table => Some(VectorTurn::Late),
        BlockKind::Numbers => Some(VectorTurn::Never),
    }
}

fn is_code(kind: &BlockKind) -> bool {
    matches!(kind, BlockKind::Code | BlockKind::Definition)
}

/// A text below its header.
fn headed(header: &str, text: &str) -> String {
    if header.is_empty() { text.to_owned() } else { format!("{header}\n{text}") }
}

/// The place of a part: for lines, exactly its own.
fn part_location(whole: &Location, text: &str, at: usize, part: &str) -> Location {
    let before = text[..at].matches('\n').count() as u32;
    let inside = part.trim_end_matches('\n').matches('\n').count() as u32;
    match whole {
        Location::Line { start, .. } => {
            Location::Line { start: start + before, end: start + before + inside }
        }
        Location::Rows { sheet, start, .. } => {
            let start = start + before;
            Location::Rows { sheet: sheet.clone(), start, end: start + inside }
        }
        Location::Cells { sheet, left, top, right, .. } => {
            let top = top + before;
            let (sheet, left, right) = (sheet.clone(), *left, *right);
            Location::Cells { sheet, left, top, right, bottom: top + inside }
        }
        Location::Part { name, inside: within } => Location::Part {
            name: name.clone(),
            inside: Box::new(part_location(within, text, at, part)),
        },
        other => other.clone(),
    }
}

/// Whether the second place is on another page or slide: a passage that can be shown on one is not spread over two.
fn turns_page(first: &Location, second: &Location) -> bool {
    match (first, second) {
        (Location::Page { end, .. }, Location::Page { start, .. }) => end != start,
        (Location::Slide { number }, Location::Slide { number: other }) => number != other,
        _ => false,
    }
}

/// The file in the file that a place is in.
fn part_of(location: &Location) -> Option<&str> {
    match location {
        Location::Part { name, .. } => Some(name),
        _ => None,
    }
}

/// The place of two pieces together.
fn join(first: Location, second: &Location) -> Location {
    match (first, second) {
        (Location::Line { start, .. }, Location::Line { end, .. }) => {
            Location::Line { start, end: *end }
        }
        (Location::Page { start, .. }, Location::Page { end, .. }) => {
            Location::Page { start, end: *end }
        }
        (Location::Rows { sheet, start, .. }, Location::Rows { sheet: other, end, .. })
            if sheet == *other =>
        {
            Location::Rows { sheet, start, end: *end }
        }
        (
            Location::Cells { sheet, left, top, right, bottom },
            Location::Cells { sheet: other, left: l, top: t, right: r, bottom: b },
        ) if sheet == *other => Location::Cells {
            sheet,
            left: left.min(*l),
            top: top.min(*t),
            right: right.max(*r),
            bottom: bottom.max(*b),
        },
        (Location::Part { name, inside }, Location::Part { name: other, inside: last })
            if name == *other =>
        {
            Location::Part { name, inside: Box::new(join(*inside, last)) }
        }
        (Location::Whole, finer) => finer.clone(),
        (first, _) => first,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use proptest::prelude::*;

    use super::*;

    /// A token per word and per punctuation mark.
    struct Words;

    impl TokenCounter for Words {
        fn count(&self, text: &str) -> usize {
            text.split_whitespace()
                .map(|it| 1 + it.chars().filter(|c| c.is_ascii_punctuation()).count())
                .sum()
        }
    }

    fn line(kind: BlockKind, text: &str, start: u32) -> Block {
        let end = start + text.matches('\n').count() as u32;
        Block::new(kind, text.to_owned(), Location::Line { start, end })
    }

    fn cut(blocks: Vec<Block>, max: usize, overlap: usize) -> Vec<Chunk> {
        let document = Document { blocks, ..Document::default() };
        chunk(&document, &Words, &ChunkOptions { max_tokens: max, overlap_tokens: overlap })
    }

    /// The longest text that it was asked about; four bytes are a token.
    struct Longest(AtomicUsize);

    impl TokenCounter for Longest {
        fn count(&self, text: &str) -> usize {
            self.0.fetch_max(text.len(), Ordering::Relaxed);
            text.len().div_ceil(4)
        }
    }

    #[test]
    fn a_line_without_end_is_cut_piece_by_piece() {
        const LETTERS: usize = 20_000;
        for kind in [BlockKind::Paragraph, BlockKind::Code] {
            let counter = Longest(AtomicUsize::new(0));
            let text = format!("first\n{}", "ü".repeat(LETTERS));
            let blocks = vec![line(kind, &text, 1)];
            let document = Document { blocks, ..Document::default() };
            let options = ChunkOptions { max_tokens: 256, overlap_tokens: 0 };
            let chunks = chunk(&document, &counter, &options);
            let longest = counter.0.load(Ordering::Relaxed);
            assert!(longest <= MOST_AT_ONCE, "{longest}");
            let kept: usize = chunks.iter().map(|it| it.text.matches('ü').count()).sum();
            assert_eq!(kept, LETTERS);
            let last = chunks.last().expect("passages");
            assert_eq!(last.location, Location::Line { start: 2, end: 2 });
        }
    }

    #[test]
    fn long_texts_are_taken_apart_at_lines_and_words() {
        let part = MOST_AT_ONCE * 3 / 4;
        for (end, place) in [("\n", part + 1), (" ", part + 1), ("", MOST_AT_ONCE)] {
            let text = format!("{}{end}{}", "a".repeat(part), "b".repeat(part));
            let pieces: Vec<(usize, &str)> = windows(&text).collect();
            assert_eq!(pieces, [(0, &text[..place]), (place, &text[place..])]);
        }
        assert_eq!(windows("").count(), 0);
    }

    #[test]
    fn headings_begin_passages_and_small_blocks_share_one() {
        let chunks = cut(
            vec![
                line(BlockKind::Heading(1), "Boat", 1),
                line(BlockKind::Paragraph, "It is blue", 3),
                line(BlockKind::Heading(2), "Hull", 5),
                line(BlockKind::ListItem, "- steel", 6),
                line(BlockKind::ListItem, "- rust", 7),
            ],
            20,
            0,
        );
        let seen: Vec<_> = chunks
            .iter()
            .map(|it| (it.heading.as_str(), it.text.as_str(), it.location.to_string()))
            .collect();
        assert_eq!(
            seen,
            [
                ("Boat", "Boat\n\nIt is blue", "lines 1–3".to_owned()),
                ("Boat › Hull", "Hull\n\n- steel\n- rust", "lines 5–7".to_owned()),
            ]
        );
    }

    #[test]
    fn a_passage_stays_on_its_page_unless_a_sentence_goes_on() {
        let on = |text: &str, number: u32| {
            let location = Location::Page { start: number, end: number };
            Block::new(BlockKind::Paragraph, text.to_owned(), location)
        };
        let chunks = cut(
            vec![
                on("The frame is guaranteed.", 1),
                on("Wear of the chain and", 2),
                on("of the tyres is not.", 3),
                on("Write to the dealer", 3),
                on("Annex", 4),
            ],
            40,
            0,
        );
        let seen: Vec<_> =
            chunks.iter().map(|it| (it.text.lines().count(), it.location.to_string())).collect();
        assert_eq!(
            seen,
            [(1, "page 1".to_owned()), (5, "pages 2–3".to_owned()), (1, "page 4".to_owned())]
        );
    }

    #[test]
    fn code_is_cut_between_lines_and_knows_them() {
        let code = "a b c\nd e f\ng h i";
        let chunks = cut(vec![line(BlockKind::Code, code, 10)], 6, 2);
        let seen: Vec<_> =
            chunks.iter().map(|it| (it.text.as_str(), it.location.to_string())).collect();
        assert_eq!(
            seen,
            [("a b c\nd e f", "lines 10–11".to_owned()), ("g h i", "line 12".to_owned())]
        );
    }

    #[test]
    fn every_part_of_a_table_begins_with_the_names_of_its_columns() {
        let location =
            Location::Cells { sheet: "S".to_owned(), left: 2, top: 5, right: 3, bottom: 8 };
        let rows = Block {
            header: "item paid".to_owned(),
            ..Block::new(BlockKind::Table, "flour 3\nsalt 1\nrye 4\noil 2".to_owned(), location)
        };
        let chunks = cut(vec![rows.clone()], 6, 2);
        let seen: Vec<_> =
            chunks.iter().map(|it| (it.text.as_str(), it.location.to_string(), it.turn)).collect();
        assert_eq!(
            seen,
            [
                ("item paid\nflour 3\nsalt 1", "S!B5:C6".to_owned(), VectorTurn::Late),
                ("item paid\nrye 4\noil 2", "S!B7:C8".to_owned(), VectorTurn::Late),
            ]
        );
        // Prose makes a passage one that is embedded early; numbers alone never are.
        let prose = line(BlockKind::Paragraph, "what we bought", 1);
        assert_eq!(cut(vec![prose, rows.clone()], 40, 0)[0].turn, VectorTurn::Early);
        let numbers = Block { kind: BlockKind::Numbers, ..rows.clone() };
        let heading = line(BlockKind::Heading(1), "S", 1);
        assert_eq!(cut(vec![heading, numbers], 40, 0)[0].turn, VectorTurn::Never);
        // Names that leave no room stand in no passage but the budget holds.
        let wide = Block { header: "a b c d e".to_owned(), ..rows };
        assert!(cut(vec![wide], 6, 0).iter().all(|it| it.tokens <= 6 && !it.text.contains("a b")));
    }

    #[test]
    fn the_rows_of_a_long_table_are_found_by_words_alone() {
        let row = |n: u32| {
            let location = Location::Rows { sheet: String::new(), start: n, end: n };
            Block::new(BlockKind::Table, format!("flour number {n} of many"), location)
        };
        let chunks = cut((1..=400).map(row).collect(), 5, 0);
        let late = chunks.iter().filter(|it| it.turn == VectorTurn::Late).count();
        assert_eq!((chunks.len(), late), (400, MOST_LATE));
        let mut blocks: Vec<Block> = (1..=4000).map(row).collect();
        blocks.push(line(BlockKind::Paragraph, "the end of it all", 1));
        let chunks = cut(blocks, 5, 0);
        assert_eq!(chunks.len(), MOST_OF_TABLES + 1);
        assert!(chunks.iter().zip(0..).all(|(it, ordinal)| it.ordinal == ordinal));
    }

    #[test]
    fn a_long_paragraph_overlaps_at_sentences() {
        let text = "One two three. Four five six. Seven eight nine. Ten eleven twelve.";
        let chunks = cut(vec![line(BlockKind::Paragraph, text, 1)], 9, 4);
        assert!(chunks.len() > 1);
        assert!(chunks[1].text.starts_with("Four five six"), "{chunks:?}");
    }

    proptest! {
        #[test]
        fn all_text_is_kept_in_order_within_the_budget(
            blocks in prop::collection::vec(
                (0usize..5, "([a-z]{1,9}[ .,\n]){1,60}"), 0..8),
            max in 1usize..40,
            overlap in 0usize..10,
        ) {
            let (heading, definition) = (BlockKind::Heading(2), BlockKind::Definition);
            let kinds = [BlockKind::Paragraph, BlockKind::Code, heading, BlockKind::Table, definition];
            let mut start = 1;
            let blocks: Vec<Block> = blocks.iter().map(|(kind, text)| {
                let block = line(kinds[*kind].clone(), text, start);
                start += 1 + text.matches('\n').count() as u32;
                block
            }).collect();
            let words: Vec<String> = blocks.iter().flat_map(|it| it.text.split_whitespace().map(str::to_owned)).collect();
            let chunks = cut(blocks, max, overlap);
            for (chunk, ordinal) in chunks.iter().zip(0..) {
                prop_assert_eq!(chunk.ordinal, ordinal);
                prop_assert!(!chunk.text.trim().is_empty());
                let single = chunk.text.split_whitespace().count() == 1;
                prop_assert!(Words.count(&chunk.text) <= max || single, "{:?}", chunk.text);
            }
            // Without overlap nothing is said twice, so the words are exactly those of the document; words
            // longer than the budget are cut, so compare letters.
            if overlap == 0 {
                let letters = |it: &str| it.chars().filter(|c| !c.is_whitespace()).collect::<String>();
                let all: String = chunks.iter().map(|it| letters(&it.text)).collect();
                prop_assert_eq!(all, words.concat());
            }
        }
    }
}
