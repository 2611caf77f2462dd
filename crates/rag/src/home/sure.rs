//! How sure the reading of a passage was that stands on a page which is a picture.
//!
//! Of every line that was read it is kept how sure that was. A passage is as sure as its lines are on average, weighed
//! by their letters. A page may have a text layer, too: a passage of which less than half was read from the picture is
//! none of the picture's.

use riddle_catalog::{Catalog, ChunkRecord};
use riddle_types::{ChunkId, FileKind, Location};

use super::{pictures::PictureSaid, records::Records};
use crate::contract::Result;

/// Most pages that are looked at for one passage: it is on one, or on two.
const MOST_PAGES: u32 = 4;

impl Records {
    /// How sure reading a passage from a picture was, 0 to 1; `None`: it was not read from one, or nobody knows.
    ///
    /// # Errors
    /// When the catalog can not be read.
    pub fn how_sure(&self, record: &ChunkRecord) -> Result<Option<f32>> {
        how_sure(&self.catalog, record)
    }
}

/// How sure it is, 0 to 1; `None`: the passage was not read from a picture, or nobody knows.
///
/// # Errors
/// When the catalog can not be read.
fn how_sure(catalog: &Catalog, record: &ChunkRecord) -> Result<Option<f32>> {
    let Some(pages) = pages(record.kind, &record.location) else { return Ok(None) };
    let said = catalog.said_on_pages(record.file, pages)?;
    Ok(if said.is_empty() { None } else { of(&record.text, &said) })
}

/// The numbers that pictures of the passage's place have, the first and the last.
fn pages(kind: FileKind, location: &Location) -> Option<(u32, u32)> {
    match (kind, location) {
        (FileKind::Pdf | FileKind::Image, Location::Page { start, end }) => {
            Some((*start, (*end).min(start.saturating_add(MOST_PAGES - 1))))
        }
        (FileKind::Image, Location::Whole) => Some((1, 1)),
        // As reading a document names the pictures in it. Those of files in files have other numbers.
        (_, Location::Part { name, .. }) => {
            let number = name.strip_prefix("picture ")?.parse().ok()?;
            Some((number, number))
        }
        _ => None,
    }
}

/// Letters and digits alone: how lines are put together to paragraphs changes all else.
fn bare(text: &str) -> String {
    text.chars().filter(|it| it.is_alphanumeric()).collect()
}

fn of(text: &str, pages: &[(u32, String, f64)]) -> Option<f32> {
    let passage = bare(text);
    let (mut letters, mut sum) = (0, 0.0);
    let mut add = |part: &str, sure: f64| {
        let part = bare(part);
        if !part.is_empty() && passage.contains(&part) {
            letters += part.len();
            sum += sure * part.len() as f64;
        }
    };
    for (_, said, sure) in pages {
        let Ok(said) = serde_json::from_str::<PictureSaid>(said) else { continue };
        // Of pictures in documents, and in homes of earlier versions, only the page is known.
        match said.lines.is_empty() {
            true => said.blocks.iter().for_each(|it| add(&it.text, *sure)),
            false => {
                said.lines.iter().for_each(|it| add(&it.text, it.sure.map_or(*sure, f64::from)));
            }
        }
    }
    (letters > 0 && letters * 2 >= passage.len()).then(|| (sum / letters as f64) as f32)
}

/// The same for the passages of a list, by their chunks; of those that are not from pictures nothing is said.
///
/// # Errors
/// As [`how_sure`].
pub(crate) fn how_sure_each<'a>(
    catalog: &Catalog,
    records: impl Iterator<Item = &'a ChunkRecord>,
) -> Result<Vec<(ChunkId, f32)>> {
    let mut found = Vec::new();
    for record in records {
        found.extend(how_sure(catalog, record)?.map(|sure| (record.id, sure)));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use riddle_ingest::SeenLine;
    use riddle_types::{Block, BlockKind};

    use super::*;

    fn line(text: &str, sure: Option<f32>) -> SeenLine {
        SeenLine { text: text.to_owned(), place: [0.1, 0.2, 0.3, 0.4], sure }
    }

    fn page(lines: Vec<SeenLine>, blocks: &[&str], sure: f64) -> (u32, String, f64) {
        let block = |it: &&str| Block::new(BlockKind::Paragraph, (*it).to_owned(), Location::Whole);
        let blocks = blocks.iter().map(block).collect();
        let said = PictureSaid { blocks, why: None, lines };
        (1, serde_json::to_string(&said).expect("JSON"), sure)
    }

    fn percent(sure: Option<f32>) -> Option<u32> {
        sure.map(|it| (it * 100.0).round() as u32)
    }

    #[test]
    fn a_passage_is_as_sure_as_its_lines() {
        let lines = vec![
            line("The oven is to be exam-", Some(0.9)),
            line("ined by the firm.", Some(0.6)),
            line("Something else on this page.", Some(0.99)),
        ];
        let pages = [page(lines, &[], 0.86)];
        let sure = percent(of("The oven is to be examined\nby the firm.", &pages));
        assert_eq!(sure, Some((100 * 17 * 9 / 10 + 100 * 13 * 6 / 10) / 30), "by letters");
        assert_eq!(of("A text layer says this of the oven.", &pages), None);
        assert_eq!(of("", &pages), None);
        assert_eq!(of("—", &pages), None);
    }

    #[test]
    fn where_lines_are_not_known_the_page_speaks() {
        let older = [page(vec![line("rent 900", None)], &["rent 900"], 0.88)];
        assert_eq!(percent(of("rent 900", &older)), Some(88));
        let in_a_document = [page(Vec::new(), &["rent 900"], 0.91)];
        assert_eq!(percent(of("rent 900", &in_a_document)), Some(91));
        assert_eq!(of("rent 900", &[(1, "no JSON".to_owned(), 0.9)]), None);
    }

    #[test]
    fn places_have_the_numbers_of_their_pictures() {
        let page = |start, end| Location::Page { start, end };
        let part =
            |name: &str| Location::Part { name: name.to_owned(), inside: Location::Whole.into() };
        assert_eq!(pages(FileKind::Pdf, &page(3, 4)), Some((3, 4)));
        assert_eq!(pages(FileKind::Pdf, &page(3, 90_000)), Some((3, 6)));
        assert_eq!(pages(FileKind::Pdf, &page(u32::MAX, u32::MAX)), Some((u32::MAX, u32::MAX)));
        assert_eq!(pages(FileKind::Image, &Location::Whole), Some((1, 1)));
        assert_eq!(pages(FileKind::Document, &part("picture 2")), Some((2, 2)));
        assert_eq!(pages(FileKind::Archive, &part("a.pdf")), None);
        assert_eq!(pages(FileKind::Document, &Location::Whole), None);
        assert_eq!(pages(FileKind::Document, &page(1, 1)), None);
    }
}
