//! What a PDF has beside its running text: bookmarks, which become headings, and what forms and notes say.

use std::collections::{HashMap, HashSet};

use lopdf::{Dictionary, Document as Pdf, Object, ObjectId};
use riddle_types::{Block, BlockKind, Document, Location};

use super::page_of;

/// Most bookmarks, form fields and notes of one file.
const MOST_ITEMS: usize = 5_000;

/// A text of the file: in UTF-16 or UTF-8 by its mark, else as the first PDFs had it.
fn text_of(object: &Object) -> Option<String> {
    let bytes = object.as_str().ok()?;
    let text = if let Some(wide) = bytes.strip_prefix(b"\xFE\xFF") {
        encoding_rs::UTF_16BE.decode_without_bom_handling(wide).0.into_owned()
    } else if let Some(plain) = bytes.strip_prefix(b"\xEF\xBB\xBF") {
        String::from_utf8_lossy(plain).into_owned()
    } else {
        encoding_rs::WINDOWS_1252.decode_without_bom_handling(bytes).0.into_owned()
    };
    let text = text.replace('\r', "\n").replace('\0', "").trim().to_owned();
    (!text.is_empty()).then_some(text)
}

/// What an entry of a dictionary is, wherever it lies.
fn entry<'a>(pdf: &'a Pdf, dictionary: &'a Dictionary, key: &[u8]) -> Option<&'a Object> {
    Some(pdf.dereference(dictionary.get(key).ok()?).ok()?.1)
}

fn dictionary<'a>(pdf: &'a Pdf, of: &'a Dictionary, key: &[u8]) -> Option<&'a Dictionary> {
    entry(pdf, of, key)?.as_dict().ok()
}

/// Bookmarks become headings: the line on their page that says the same, or a line of their own before the page's text.
pub(super) fn bookmarks(pdf: &Pdf, document: &mut Document) {
    let Some(outlines) = pdf.catalog().ok().and_then(|it| dictionary(pdf, it, b"Outlines")) else {
        return;
    };
    let pages: HashMap<ObjectId, u32> =
        pdf.get_pages().into_iter().map(|(n, id)| (id, n)).collect();
    let mut seen: HashSet<ObjectId> = HashSet::new();
    let mut found: Vec<(u8, String, u32)> = Vec::new();
    // Depth first, by a list: a file can nest as deep as it likes, and lead in circles.
    let mut next: Vec<(ObjectId, u8)> =
        reference(outlines, b"First").map(|it| (it, 1)).into_iter().collect();
    while let Some((id, level)) = next.pop() {
        if found.len() >= MOST_ITEMS || !seen.insert(id) {
            continue;
        }
        let Ok(item) = pdf.get_dictionary(id) else { continue };
        next.extend(reference(item, b"Next").map(|it| (it, level)));
        next.extend(reference(item, b"First").map(|it| (it, level.saturating_add(1))));
        let title = entry(pdf, item, b"Title").and_then(text_of);
        if let (Some(title), Some(page)) = (title, target(pdf, item, &pages)) {
            found.push((level.min(6), title, page));
        }
    }
    let mut named: HashMap<String, usize> = HashMap::new();
    for (_, title, _) in &found {
        *named.entry(title.clone()).or_default() += 1;
    }
    for (level, title, page) in found {
        let own = unnumbered(&title);
        let same = |it: &Block| page_of(it) == page && unnumbered(&it.text) == own;
        if let Some(block) = document.blocks.iter_mut().find(|it| same(it)) {
            block.kind = BlockKind::Heading(level);
        } else if named[&title] > 1 {
            // `Blank page` on every page is a program's name for it and no heading.
        } else if let Some(at) = document.blocks.iter().position(|it| page_of(it) == page) {
            let mut at = at;
            // Those of one page in their order.
            while document
                .blocks
                .get(at)
                .is_some_and(|it| page_of(it) == page && matches!(it.kind, BlockKind::Heading(_)))
            {
                at += 1;
            }
            let location = Location::Page { start: page, end: page };
            document.blocks.insert(at, Block::new(BlockKind::Heading(level), title, location));
        }
    }
}

fn bare(text: &str) -> String {
    text.chars().filter(|it| it.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// The letters of a heading without its number: `1.2 Motivation` is told by its name.
fn unnumbered(text: &str) -> String {
    let bare = bare(text);
    let rest = bare.trim_start_matches(char::is_numeric);
    if rest.is_empty() { bare } else { rest.to_owned() }
}

fn reference(of: &Dictionary, key: &[u8]) -> Option<ObjectId> {
    of.get(key).ok()?.as_reference().ok()
}

/// The page that a bookmark leads to, where it says so itself.
fn target(pdf: &Pdf, item: &Dictionary, pages: &HashMap<ObjectId, u32>) -> Option<u32> {
    let place =
        entry(pdf, item, b"Dest").or_else(|| entry(pdf, dictionary(pdf, item, b"A")?, b"D"))?;
    let first = place.as_array().ok()?.first()?;
    pages.get(&first.as_reference().ok()?).copied()
}

/// What was filled into forms, and what was noted in the margin, behind the text of its page.
pub(super) fn forms_and_notes(pdf: &Pdf, drawn: bool, document: &mut Document) {
    let mut items = 0;
    for (page, id) in pdf.get_pages() {
        let Ok(annotations) = pdf.get_page_annotations(id) else { continue };
        if annotations.is_empty() {
            continue;
        }
        let mut seen = String::new();
        for block in document.blocks.iter().filter(|it| drawn && page_of(it) == page) {
            seen.push_str(&bare(&block.text));
        }
        let is_seen = |text: &str| drawn && seen.contains(&bare(text));
        let mut lines: Vec<String> = Vec::new();
        for annotation in annotations {
            items += 1;
            if items > MOST_ITEMS {
                return;
            }
            let kind = entry(pdf, annotation, b"Subtype").and_then(|it| it.as_name().ok());
            let line = match kind {
                Some(b"Widget") => {
                    field(pdf, annotation, drawn).filter(|it| !is_seen(&it.1)).map(|it| it.0)
                }
                // Links have their words in the text; windows repeat what they belong to.
                Some(b"Link" | b"Popup") | None => None,
                Some(_) => note(pdf, annotation).filter(|it| !is_seen(&it.1)).map(|it| it.0),
            };
            lines.extend(line.filter(|it| !lines.contains(it)));
        }
        if lines.is_empty() {
            continue;
        }
        let at = document.blocks.iter().rposition(|it| page_of(it) <= page).map_or(0, |it| it + 1);
        let location = Location::Page { start: page, end: page };
        let block = Block::new(BlockKind::Paragraph, lines.join("\n"), location);
        document.blocks.insert(at, block);
    }
}

/// A field of a form: its name for people, and what is in it; and that alone. Where the page is drawn an empty one says
/// nothing, and neither does a name for programs.
fn field(pdf: &Pdf, widget: &Dictionary, drawn: bool) -> Option<(String, String)> {
    let parent = dictionary(pdf, widget, b"Parent");
    let of = |key: &[u8]| entry(pdf, widget, key).or_else(|| entry(pdf, parent?, key));
    let internal = if drawn { None } else { of(b"T").and_then(text_of) };
    let name = of(b"TU").and_then(text_of).or(internal);
    let value = of(b"V").and_then(|it| match it {
        Object::Array(values) => {
            let values: Vec<String> = values.iter().filter_map(text_of).collect();
            (!values.is_empty()).then(|| values.join(", "))
        }
        // A box is off or has a name of its own for on.
        Object::Name(name) if name == b"Off" => None,
        Object::Name(name) => Some(String::from_utf8_lossy(name).into_owned()),
        other => text_of(other),
    });
    match (name, value) {
        (Some(name), Some(value)) => Some((format!("{name}: {value}"), value)),
        (Some(_), None) if drawn => None,
        (Some(only), None) | (None, Some(only)) => Some((only.clone(), only)),
        (None, None) => None,
    }
}

/// A note with who made it, and its text alone.
fn note(pdf: &Pdf, annotation: &Dictionary) -> Option<(String, String)> {
    let text = entry(pdf, annotation, b"Contents").and_then(text_of)?;
    let by = entry(pdf, annotation, b"T").and_then(text_of);
    let line = by.map_or_else(|| format!("Note: {text}"), |by| format!("Note by {by}: {text}"));
    Some((line, text))
}

#[cfg(test)]
mod tests {
    use lopdf::dictionary;

    use super::{
        super::{refine, tests::page},
        *,
    };
    use crate::outcome::ParseOutcome;

    /// Two pages without text, with what a reader sees beside it.
    fn form() -> Vec<u8> {
        let mut pdf = Pdf::with_version("1.7");
        let text = |it: &str| Object::string_literal(it);
        let pages = pdf.new_object_id();
        let widget = pdf.add_object(dictionary! {
            "Type" => "Annot", "Subtype" => "Widget", "T" => text("rent"), "TU" => text("Monthly rent"), "V" => text("740"),
        });
        let unchecked = pdf
            .add_object(dictionary! { "Subtype" => "Widget", "T" => text("paid"), "V" => "Off" });
        let note = pdf.add_object(dictionary! {
            "Subtype" => "Text", "T" => text("Ann"), "Contents" => Object::String(b"\xFE\xFF\x00s\x00e\x00e".to_vec(), lopdf::StringFormat::Literal),
        });
        let first = pdf.add_object(dictionary! {
            "Type" => "Page", "Parent" => pages, "Annots" => vec![widget.into(), unchecked.into()],
        });
        let second = pdf.add_object(dictionary! {
            "Type" => "Page", "Parent" => pages, "Annots" => vec![note.into()],
        });
        pdf.objects.insert(
            pages,
            Object::Dictionary(dictionary! {
                "Type" => "Pages", "Kids" => vec![first.into(), second.into()], "Count" => 2,
            }),
        );
        let (outlines, one, two) = (pdf.new_object_id(), pdf.new_object_id(), pdf.new_object_id());
        let item = |title: &str, page: ObjectId, next: ObjectId| {
            Object::Dictionary(dictionary! {
                "Title" => text(title), "Dest" => vec![page.into(), "Fit".into()], "Next" => next, "First" => outlines,
            })
        };
        pdf.objects.insert(one, item("The rent", first, two));
        // It leads back: a circle.
        pdf.objects.insert(two, item("Remarks", second, one));
        pdf.objects.insert(outlines, Object::Dictionary(dictionary! { "First" => one }));
        let root = pdf.add_object(
            dictionary! { "Type" => "Catalog", "Pages" => pages, "Outlines" => outlines },
        );
        pdf.trailer.set("Root", root);
        let mut bytes = Vec::new();
        pdf.save_to(&mut bytes).expect("written");
        bytes
    }

    #[test]
    fn forms_notes_and_bookmarks_are_read() {
        let bytes = form();
        let outcome = refine(&bytes, ParseOutcome::NoText("no text layer".to_owned()), false);
        let ParseOutcome::Parsed(document) = outcome else { panic!("{outcome:?}") };
        let texts: Vec<&str> = document.blocks.iter().map(|it| it.text.as_str()).collect();
        assert_eq!(texts, ["Monthly rent: 740\npaid", "Note by Ann: see"]);
        assert_eq!(document.blocks[1].location, Location::Page { start: 2, end: 2 });
        assert!(document.warnings[0].contains("probably a scan"), "{:?}", document.warnings);

        let blocks = vec![page(1, "THE RENT"), page(1, "It is due in March."), page(2, "None.")];
        let read = ParseOutcome::Parsed(Document { blocks, ..Document::default() });
        let ParseOutcome::Parsed(document) = refine(&bytes, read, false) else { panic!("parses") };
        let headings: Vec<&str> = document
            .blocks
            .iter()
            .filter(|it| matches!(it.kind, BlockKind::Heading(_)))
            .map(|it| it.text.as_str())
            .collect();
        assert_eq!(headings, ["THE RENT", "Remarks"]);
        assert_eq!(
            document.blocks[2].text, "Monthly rent: 740\npaid",
            "behind the text of its page"
        );
    }
}
