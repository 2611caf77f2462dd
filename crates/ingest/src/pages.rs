//! What pages have beside their running text, in every format that has pages: lines that each repeats, and words cut at
//! the end of a line.

use std::collections::{BTreeMap, HashMap, HashSet};

use riddle_types::{Block, Document, Location};

/// The page of a block; 0 where it has none.
pub(crate) fn page_of(block: &Block) -> u32 {
    match block.location {
        Location::Page { start, .. } => start,
        _ => 0,
    }
}

/// Takes off what stands at the edge of most pages: headers, footers, numbers. The first one stays.
pub(crate) fn drop_repeated(document: &mut Document) {
    const FEWEST_PAGES: usize = 4;
    let mut pages: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (index, block) in document.blocks.iter().enumerate() {
        pages.entry(page_of(block)).or_default().push(index);
    }
    if pages.len() < FEWEST_PAGES {
        return;
    }
    let edge = |blocks: &[usize]| -> Vec<usize> {
        let mut edge: Vec<usize> =
            blocks.iter().take(2).chain(blocks.iter().rev().take(2)).copied().collect();
        edge.sort_unstable();
        edge.dedup();
        edge
    };
    // Numbers count the pages.
    let key = |text: &str| -> String {
        text.chars()
            .map(|it| if it.is_ascii_digit() { '#' } else { it })
            .collect::<String>()
            .replace("##", "#")
            .replace("##", "#")
    };
    let mut seen: HashMap<String, Vec<usize>> = HashMap::new();
    for blocks in pages.values() {
        let mut own = HashSet::new();
        for index in edge(blocks) {
            let text = key(document.blocks[index].text.trim());
            if text.chars().count() <= 120 && own.insert(text.clone()) {
                seen.entry(text).or_default().push(index);
            }
        }
    }
    let repeated = seen.values().filter(|it| it.len() >= 3 && it.len() * 2 > pages.len());
    let gone: HashSet<usize> = repeated.flat_map(|it| it.iter().skip(1).copied()).collect();
    let length = |index: &usize| document.blocks[*index].text.len();
    let (lost, all): (usize, usize) =
        (gone.iter().map(length).sum(), document.blocks.iter().map(|it| it.text.len()).sum());
    // What is most of a file is what it says.
    if lost * 4 > all {
        return;
    }
    let mut index = 0;
    document.blocks.retain(|_| {
        index += 1;
        !gone.contains(&(index - 1))
    });
}

/// Words that were cut at the end of a line, whole again: `engi- neer`. Of `pre- and postwar` nothing is joined.
pub(crate) fn joined(text: &str) -> String {
    const BESIDE: [&str; 14] =
        ["and", "or", "to", "und", "oder", "bis", "et", "ou", "y", "o", "e", "en", "of", "i"];
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['-', '\u{AD}', '\u{2010}']) {
        let mark = rest[at..].chars().next().map_or(1, char::len_utf8);
        let before = rest[..at].chars().next_back();
        let after = rest[at + mark..].trim_start_matches([' ', '\n']);
        let cut = after.len() < rest[at + mark..].len();
        // It only says where a word may be cut.
        if !cut && rest[at..].starts_with('\u{AD}') {
            out.push_str(&rest[..at]);
            rest = &rest[at + mark..];
            continue;
        }
        let word = after.split(|it: char| !it.is_alphabetic()).next().unwrap_or("");
        let joins = cut
            && before.is_some_and(char::is_lowercase)
            && word.chars().next().is_some_and(char::is_lowercase)
            && !BESIDE.contains(&word);
        if joins {
            out.push_str(&rest[..at]);
            rest = after;
        } else {
            out.push_str(&rest[..at + mark]);
            rest = &rest[at + mark..];
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use riddle_types::BlockKind;

    use super::*;

    const TEXT: &str = "The hull was painted in spring, and Jonas replaced the door seals of the oven because the \
        old ones had become hard. Nobody expected the winter mooring to cost that much, so we looked elsewhere.";

    fn page(number: u32, text: &str) -> Block {
        let location = Location::Page { start: number, end: number };
        Block::new(BlockKind::Paragraph, text.to_owned(), location)
    }

    #[test]
    fn what_every_page_repeats_is_kept_once() {
        let mut blocks = Vec::new();
        for number in 1..=6 {
            blocks.push(page(number, "Wells Boatyard"));
            blocks.push(page(
                number,
                &format!(
                    "What page {} says of {TEXT}",
                    "abcdef".chars().nth(number as usize - 1).expect("a letter")
                ),
            ));
            blocks.push(page(number, &format!("Page {number} of 6")));
        }
        let mut document = Document { blocks, ..Document::default() };
        drop_repeated(&mut document);
        let count = |text: &str| document.blocks.iter().filter(|it| it.text.contains(text)).count();
        assert_eq!((count("Wells Boatyard"), count(" of 6"), count("What page")), (1, 1, 6));
    }

    #[test]
    fn words_cut_at_the_end_of_a_line_are_whole_again() {
        assert_eq!(joined("an engi- neer and a car-\npenter"), "an engineer and a carpenter");
        assert_eq!(
            joined("pre- and postwar, well-known, A- b, 3 - x"),
            "pre- and postwar, well-known, A- b, 3 - x"
        );
        assert_eq!(joined("Zusam\u{AD} menhang"), "Zusammenhang");
        assert_eq!(joined("Mit\u{AD}arbei\u{AD}terin"), "Mitarbeiterin");
    }
}
