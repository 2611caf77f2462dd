//! What pictures say, put into what their file says.

use riddle_ingest::{ParseOutcome, Remark};
use riddle_types::{Block, BlockKind, Document, FileKind, Location};

use crate::home::pictures::PictureSaid;

/// What a file says with its pages that are pictures and with those in it, as far as they are read.
pub(super) fn with_pictures(
    kind: FileKind,
    outcome: ParseOutcome,
    said: &[(u32, String, f64)],
    pictures: &[u32],
) -> ParseOutcome {
    let (mut document, why) = match outcome {
        ParseOutcome::Parsed(document) => (document, None),
        ParseOutcome::NoText(why) if !pictures.is_empty() => (Document::default(), Some(why)),
        other => return other,
    };
    let (mut sure, mut read) = (0.0, 0_usize);
    let mut silent = None;
    let mut whys = Vec::new();
    for (page, said, how_sure) in said.iter().filter(|it| pictures.contains(&it.0)) {
        read += 1;
        let Ok(said) = serde_json::from_str::<PictureSaid>(said) else { continue };
        whys.extend(said.why.clone().map(|why| (*page, why)));
        if said.blocks.is_empty() {
            silent = silent.or(said.why);
            continue;
        }
        sure += how_sure;
        put(&mut document.blocks, said.blocks);
    }
    let waiting = pictures.len().saturating_sub(read);
    // Others have no pages, or their pages are those of files in them.
    let pages = matches!(kind, FileKind::Pdf | FileKind::Image);
    if sure > 0.0 {
        let percent = (100.0 * sure / said.len().max(1) as f64).round();
        let seen = match (read, pages) {
            (1, true) => Remark::PageSeen { percent },
            (pages, true) => Remark::PagesSeen { pages, percent },
            (1, false) => Remark::PictureSeen { percent },
            (pictures, false) => Remark::PicturesSeen { pictures, percent },
        };
        document.warnings.push(seen.into());
    }
    if waiting > 0 && !document.blocks.is_empty() {
        let unseen = match (waiting, pages) {
            (1, true) => Remark::PageUnseen,
            (pages, true) => Remark::PagesUnseen { pages },
            (1, false) => Remark::PictureUnseen,
            (pictures, false) => Remark::PicturesUnseen { pictures },
        };
        document.warnings.push(unseen.into());
    }
    if pages {
        document.warnings.extend(told(whys, pictures));
    }
    match why {
        Some(why) if document.blocks.is_empty() => ParseOutcome::NoText(silent.unwrap_or(why)),
        _ => ParseOutcome::Parsed(document),
    }
}

/// Why pages say nothing, or not all; each reason once.
fn told(whys: Vec<(u32, String)>, pictures: &[u32]) -> Vec<String> {
    /// Pages that fail in more ways are not told apart.
    const MOST: usize = 5;
    let mut reasons: Vec<(String, Vec<u32>)> = Vec::new();
    for (page, why) in whys {
        // An empty page between others is nothing to tell.
        if why == Remark::PictureWithoutText.to_string() {
            continue;
        }
        match reasons.iter().position(|it| it.0 == why) {
            Some(known) => reasons[known].1.push(page),
            None if reasons.len() < MOST => reasons.push((why, vec![page])),
            None => {}
        }
    }
    let tell = |(why, pages): (String, Vec<u32>)| match pages.as_slice() {
        _ if pictures == [1] => why,
        [page] => Remark::OfPage { page: *page, why }.into(),
        pages => Remark::OfPages { pages: pages.len(), why }.into(),
    };
    reasons.into_iter().map(tell).collect()
}

/// Puts what a picture says behind what stands before it.
fn put(into: &mut Vec<Block>, mut blocks: Vec<Block>) {
    // A file in the file that says something already has its heading.
    blocks.retain(|it| !names_part(it) || !into.iter().any(|had| had.location == it.location));
    let Some(last) = blocks.last() else { return };
    let at = place(into, &last.location);
    into.splice(at..at, blocks);
}

/// Whether a block is the heading of a file in the file.
fn names_part(block: &Block) -> bool {
    matches!(block.kind, BlockKind::Heading(_))
        && matches!(&block.location, Location::Part { inside, .. } if **inside == Location::Whole)
}

/// Between the names of a place in files that lie in each other.
const WITHIN: &str = " › ";

/// Where in `blocks` something belongs: in its own file behind what comes before it, else in the innermost of the files
/// around that file, else at the end.
fn place(blocks: &[Block], location: &Location) -> usize {
    let (mut name, inside) = taken_apart(location);
    loop {
        let within = |it: &Block| {
            let rest = taken_apart(&it.location).0.strip_prefix(name);
            rest.is_some_and(|it| name.is_empty() || it.is_empty() || it.starts_with(WITHIN))
        };
        let before = |it: &Block| within(it) && !is_after(taken_apart(&it.location).1, inside);
        if let Some(at) = blocks.iter().rposition(before) {
            return at + 1;
        }
        if let Some(at) = blocks.iter().position(within) {
            return at;
        }
        if name.is_empty() {
            return blocks.len();
        }
        name = name.rsplit_once(WITHIN).map_or("", |it| it.0);
    }
}

/// The names of the files that a place is in, and the place in the innermost.
fn taken_apart(location: &Location) -> (&str, &Location) {
    match location {
        Location::Part { name, inside } => (name, inside),
        other => ("", other),
    }
}

/// Whether the first place in a file comes after the second.
fn is_after(first: &Location, second: &Location) -> bool {
    match (first, second) {
        (Location::Page { start, .. }, Location::Page { start: other, .. }) => start > other,
        (Location::Slide { number }, Location::Slide { number: other }) => number > other,
        (Location::Section { paragraph, .. }, Location::Section { paragraph: other, .. }) => {
            paragraph > other
        }
        // Of another sheet nothing is before it.
        (Location::Cells { sheet, top, .. }, Location::Cells { sheet: other, top: row, .. }) => {
            sheet != other || top > row
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(text: &str, location: Location) -> Block {
        Block::new(BlockKind::Paragraph, text.to_owned(), location)
    }

    fn heading(name: &str) -> Block {
        let location = within(name, Location::Whole);
        Block::new(BlockKind::Heading(1), name.to_owned(), location)
    }

    fn within(name: &str, inside: Location) -> Location {
        Location::Part { name: name.to_owned(), inside: Box::new(inside) }
    }

    fn page(number: u32) -> Location {
        Location::Page { start: number, end: number }
    }

    fn section(paragraph: u32) -> Location {
        Location::Section { path: Vec::new(), paragraph }
    }

    /// The texts of a file in their order, with what its pictures say.
    fn texts(blocks: Vec<Block>, pictures: Vec<Vec<Block>>) -> Vec<String> {
        let said = |(blocks, number): (Vec<Block>, u32)| {
            let said = PictureSaid { blocks, ..PictureSaid::default() };
            (number, serde_json::to_string(&said).expect("JSON"), 0.9)
        };
        let said: Vec<_> = pictures.into_iter().zip(1..).map(said).collect();
        let numbers: Vec<u32> = said.iter().map(|it| it.0).collect();
        let document = Document { blocks, ..Document::default() };
        let outcome = ParseOutcome::Parsed(document);
        let outcome = with_pictures(FileKind::Archive, outcome, &said, &numbers);
        let ParseOutcome::Parsed(document) = outcome else { panic!("{outcome:?}") };
        document.blocks.into_iter().map(|it| it.text).collect()
    }

    #[test]
    fn pages_stand_between_their_neighbors() {
        let read = vec![block("two", page(2)), block("four", page(4))];
        let seen = vec![vec![block("one", page(1))], vec![block("three", page(3))]];
        assert_eq!(texts(read, seen), ["one", "two", "three", "four"]);
    }

    #[test]
    fn pictures_of_a_document_stand_behind_their_paragraph() {
        let read = vec![block("a", section(1)), block("b", section(2)), block("c", section(3))];
        let seen = |name: &str, paragraph: u32| vec![block(name, within(name, section(paragraph)))];
        let seen = vec![seen("picture 1", 2), seen("picture 2", 2), seen("picture 3", 9)];
        assert_eq!(texts(read, seen), ["a", "b", "picture 1", "picture 2", "c", "picture 3"]);
    }

    #[test]
    fn pictures_on_a_sheet_stand_behind_the_rows_above_them() {
        let cells = |sheet: &str, top: u32, bottom: u32| {
            let sheet = sheet.to_owned();
            Location::Cells { sheet, left: 1, top, right: 3, bottom }
        };
        let read = vec![
            block("costs", cells("Costs", 1, 9)),
            block("rows", cells("Costs", 2, 9)),
            block("fleet", cells("Fleet", 1, 4)),
        ];
        let seen = |text: &str, place: Location| vec![block(text, within(text, place))];
        let seen = vec![
            seen("picture 1", cells("Costs", 20, 20)),
            seen("picture 2", cells("Costs", 1, 1)),
            seen("picture 3", cells("Fleet", 1, 1)),
        ];
        assert_eq!(
            texts(read, seen),
            ["costs", "picture 2", "rows", "picture 1", "fleet", "picture 3"]
        );
    }

    #[test]
    fn files_in_a_file_have_one_heading_and_stand_beside_what_they_lie_in() {
        let read = vec![
            heading("message 1"),
            block("Here it is.", within("message 1", section(1))),
            heading("message 2"),
            block("It came.", within("message 2", section(1))),
        ];
        let pdf = "message 1 › lease.pdf";
        let of = |number: u32| {
            vec![
                heading("message 1"),
                heading(pdf),
                block(&format!("page {number}"), within(pdf, page(number))),
            ]
        };
        assert_eq!(
            texts(read, vec![of(1), of(2)]),
            ["message 1", "Here it is.", pdf, "page 1", "page 2", "message 2", "It came."]
        );
        let photo = vec![heading("a.png"), block("rent", within("a.png", Location::Whole))];
        assert_eq!(texts(Vec::new(), vec![photo]), ["a.png", "rent"]);
    }

    #[test]
    fn it_is_said_how_many_pictures_are_read_and_how_many_wait() {
        let said = PictureSaid { blocks: vec![block("x", section(1))], ..PictureSaid::default() };
        let said = [(1, serde_json::to_string(&said).expect("JSON"), 0.9)];
        for (kind, words) in [(FileKind::Document, "picture"), (FileKind::Pdf, "page")] {
            let none = ParseOutcome::NoText("no text in it".to_owned());
            let outcome = with_pictures(kind, none.clone(), &[], &[1, 2]);
            assert_eq!(outcome, none);
            let outcome = with_pictures(kind, none, &said, &[1, 2]);
            let ParseOutcome::Parsed(document) = outcome else { panic!("{outcome:?}") };
            let [read, wait] = document.warnings.as_slice() else { panic!("{document:?}") };
            assert!(read.starts_with(&format!("1 {words}")) && read.contains("90 %"), "{read}");
            assert!(wait.starts_with(&format!("1 more {words}")), "{wait}");
        }
    }

    fn said_of(page: u32, text: &str, why: Option<Remark>) -> (u32, String, f64) {
        let location = Location::Page { start: page, end: page };
        let block = Block::new(BlockKind::Paragraph, text.to_owned(), location);
        let blocks = if text.is_empty() { Vec::new() } else { vec![block] };
        let said = PictureSaid { blocks, why: why.map(String::from), lines: Vec::new() };
        (page, serde_json::to_string(&said).expect("JSON"), 0.9)
    }

    #[test]
    fn pages_of_a_picture_are_read_in_order_and_those_that_are_not_are_told() {
        let picture = || ParseOutcome::NoText(Remark::Picture.into());
        let pages = [
            said_of(1, "one", None),
            said_of(2, "", Some(Remark::PictureWithoutText)),
            said_of(3, "three", Some(Remark::MostIllegible)),
            said_of(4, "", Some(Remark::PictureIllegible)),
            said_of(5, "", Some(Remark::PictureIllegible)),
        ];
        let outcome = with_pictures(FileKind::Image, picture(), &pages, &[1, 2, 3, 4, 5, 6]);
        let ParseOutcome::Parsed(document) = outcome else { panic!("{outcome:?}") };
        let texts: Vec<&str> = document.blocks.iter().map(|it| it.text.as_str()).collect();
        assert_eq!(texts, ["one", "three"]);
        let most = Remark::MostIllegible.to_string();
        let none = Remark::PictureIllegible.to_string();
        for told in [
            Remark::OfPage { page: 3, why: most.clone() },
            Remark::OfPages { pages: 2, why: none.clone() },
            Remark::PageUnseen,
        ] {
            assert!(document.warnings.contains(&told.to_string()), "{:?}", document.warnings);
        }
        assert_eq!(document.warnings.len(), 4, "{:?}", document.warnings);
        // A file that is a picture has no pages.
        let single = with_pictures(
            FileKind::Image,
            picture(),
            &[said_of(1, "Tel", Some(Remark::MostIllegible))],
            &[1],
        );
        let ParseOutcome::Parsed(document) = single else { panic!("{single:?}") };
        assert!(document.warnings.contains(&most), "{:?}", document.warnings);
        let silent = [said_of(1, "", Some(Remark::PictureIllegible))];
        assert_eq!(
            with_pictures(FileKind::Image, picture(), &silent, &[1]),
            ParseOutcome::NoText(none)
        );
    }
}
