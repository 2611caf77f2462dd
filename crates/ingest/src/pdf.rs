//! What a reader of a PDF sees beside its running text, and what is no text though it looks like some: forms and notes,
//! bookmarks as headings, lines that every page repeats, words cut at the end of a line, and letters of fonts that do
//! not say which they are.

mod letters;
mod marks;
mod signs;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    panic::{AssertUnwindSafe, catch_unwind},
};

use lopdf::Document as Pdf;
use riddle_types::{Block, BlockKind, Document, FileKind, panic_message};

pub(crate) use self::letters::is_gibberish;
use self::{
    letters::{SHORTEST, glyph_names},
    marks::{bookmarks, forms_and_notes},
};
use crate::{
    formats::Shares,
    layout::{self, Manner},
    office,
    outcome::ParseOutcome,
    pages::{drop_repeated, joined, page_of},
    pdfium::{self, Refusal, Text},
    remark::Remark,
};

/// Larger files are not looked into a second time: their text is what they are.
const LARGEST: usize = 48 << 20;

/// The first engine takes memory by what is drawn: longer files are left to the second.
const MOST_PAGES_OF_FIRST: usize = 300;

/// Most bytes a page of what the first engine reads: one page of 1.5 MB of drawing took 530 MB and ten seconds.
const LARGEST_PAGE_OF_FIRST: usize = 512 << 10;

/// Reads a PDF with both engines, where the second is installed: page by page what is the better of the two.
pub(crate) fn parse(name: &str, bytes: Vec<u8>, shares: &mut Shares) -> ParseOutcome {
    let Some(library) = shares.tools.pdfium.clone() else {
        return by_first_alone(name, bytes);
    };
    let text = match pdfium::open(&library).map(|it| it.read(&bytes, shares.end())) {
        Some(Ok(text)) => text,
        Some(Err(Refusal::Password)) => return ParseOutcome::Failed(Remark::Password.into()),
        Some(Err(Refusal::Damaged)) | None => return by_first_alone(name, bytes),
    };
    let pages = text.pages.len();
    let large =
        pages > MOST_PAGES_OF_FIRST || bytes.len() > pages.saturating_mul(LARGEST_PAGE_OF_FIRST);
    let first = if large {
        ParseOutcome::NoText(String::new())
    } else {
        let read = || office::parse(name, FileKind::Pdf, bytes.clone());
        catch_unwind(AssertUnwindSafe(read))
            .unwrap_or_else(|panic| ParseOutcome::Failed(panic_message(&*panic).to_owned()))
    };
    together(&bytes, first, &text, shares)
}

/// Reads a PDF with the first engine alone. One that wants a password looks damaged to it, or like a scan.
fn by_first_alone(name: &str, bytes: Vec<u8>) -> ParseOutcome {
    let outcome = refine(&bytes, office::parse(name, FileKind::Pdf, bytes.clone()), false);
    let read = matches!(outcome, ParseOutcome::Parsed(_));
    if read || bytes.len() > LARGEST || !wants_password(&bytes) {
        return outcome;
    }
    ParseOutcome::Failed(Remark::Password.into())
}

/// Whether a PDF is encrypted, and no empty password opens it.
fn wants_password(bytes: &[u8]) -> bool {
    match Pdf::load_mem(bytes) {
        // What was decrypted does not say any more that it is encrypted.
        Ok(pdf) => pdf.trailer.has(b"Encrypt"),
        Err(error) => matches!(error, lopdf::Error::InvalidPassword),
    }
}

/// Reads a PDF with the second engine alone: the first one has died of it.
pub(crate) fn second(bytes: &[u8], shares: &mut Shares) -> ParseOutcome {
    let Some(library) = shares.tools.pdfium.clone().and_then(|it| pdfium::open(&it)) else {
        return ParseOutcome::Failed(Remark::NoSecondEngine.into());
    };
    match library.read(bytes, shares.end()) {
        Ok(text) => together(bytes, ParseOutcome::NoText(String::new()), &text, shares),
        Err(Refusal::Password) => ParseOutcome::Failed(Remark::Password.into()),
        Err(Refusal::Damaged) => ParseOutcome::Failed(Remark::Damaged.into()),
    }
}

/// Of every page what the better engine has read.
fn together(bytes: &[u8], first: ParseOutcome, text: &Text, shares: &mut Shares) -> ParseOutcome {
    let mut document = match first {
        ParseOutcome::Parsed(document) => document,
        _ => Document::default(),
    };
    let mut by_first: BTreeMap<u32, Vec<Block>> = BTreeMap::new();
    for mut block in std::mem::take(&mut document.blocks) {
        write_signs(&mut block);
        by_first.entry(page_of(&block)).or_default().push(block);
    }
    let body = layout::body_size(text.pages.iter().flat_map(|it| &it.lines));
    let mut pictures = Vec::new();
    for (number, page) in (1..).zip(&text.pages) {
        let first = by_first.remove(&number).unwrap_or_default();
        let mut second = layout::blocks(number, &page.lines, body, Manner::TOLD);
        second.iter_mut().for_each(write_signs);
        let blocks = better(first, second);
        if page.picture || (!page.lines.is_empty() && unread(&blocks)) {
            pictures.push(number);
        }
        document.blocks.extend(blocks);
    }
    document.blocks.extend(by_first.into_values().flatten());
    if text.cut {
        document.warnings.push(Remark::NotAll(Remark::TooSlow.into()).into());
    }
    shares.note_pages(pictures.into_iter());
    refine(bytes, ParseOutcome::Parsed(document), true)
}

/// Signs of symbol fonts as everybody writes them.
fn write_signs(block: &mut Block) {
    for text in [&mut block.header, &mut block.text] {
        if let Some(plain) = signs::plain(text) {
            *text = plain;
        }
    }
}

/// Whether what was read of a page will be refused.
fn unread(blocks: &[Block]) -> bool {
    is_gibberish(&text_of_all(blocks))
}

fn text_of_all(blocks: &[Block]) -> String {
    blocks.iter().map(|it| format!("{}\n{}\n", it.header, it.text)).collect()
}

/// The second engine's words are whole and in their order, the first one's are not always: it cuts some in two, swaps
/// lines that stand close, and writes other quotation marks. But it knows tables, and is taken for them where both have
/// read the same words, and where it has clearly found more or the other's are none.
fn better(first: Vec<Block>, second: Vec<Block>) -> Vec<Block> {
    let (one, two) = (text_of_all(&first), text_of_all(&second));
    match (is_gibberish(&one), is_gibberish(&two)) {
        (true, false) => return second,
        (false, true) => return first,
        _ => {}
    }
    // Letters and not words: who cuts a word in two has not found more.
    let letters = |text: &str| text.chars().filter(|it| it.is_alphanumeric()).count();
    let (ours, theirs) = (letters(&one), letters(&two));
    let different = |text: &str| text.split_whitespace().collect::<HashSet<_>>().len();
    // What is drawn twice, for its shadow or a bold face, is there once.
    let twice = (ours > theirs + theirs / 5 && different(&one) <= different(&two) * 6 / 5)
        || letters_twice(&one, &two);
    // Names of letters that a font has no code for are not more letters.
    let more = ours > theirs + theirs / 50 && !twice && glyph_names(&one) <= glyph_names(&two);
    let table = |it: &Block| matches!(it.kind, BlockKind::Table | BlockKind::Numbers);
    if more || (first.iter().any(table) && same_words(&one, &two)) { first } else { second }
}

/// Whether a word of the first text has each letter twice, and stands in the second as it is meant: `tteesstt`.
fn letters_twice(one: &str, two: &str) -> bool {
    const SHORTEST: usize = 3;
    let once = |word: &str| -> Option<String> {
        let letters: Vec<char> = word.chars().collect();
        let pairs = letters.chunks(2);
        let all = letters.len() >= 2 * SHORTEST
            && pairs.clone().all(|it| it.len() == 2 && it[0] == it[1])
            // A line of dots or dashes is no word.
            && letters.iter().any(|it| it.is_alphabetic());
        all.then(|| pairs.map(|it| it[0]).collect())
    };
    let mut doubled = one.split_whitespace().filter_map(once).peekable();
    doubled.peek().is_some() && {
        let words: HashSet<&str> = two.split_whitespace().collect();
        doubled.any(|it| words.contains(it.as_str()))
    }
}

/// Whether both texts have nearly the same words, in whatever order. Bars stand between the cells of a table.
fn same_words(one: &str, two: &str) -> bool {
    let mut counts: HashMap<&str, i64> = HashMap::new();
    let words = |text| str::split_whitespace(text).filter(|it: &&str| *it != "|");
    let (mut all, mut odd) = (0, 0);
    for word in words(one) {
        *counts.entry(word).or_default() += 1;
        all += 1;
    }
    for word in words(two) {
        *counts.entry(word).or_default() -= 1;
        all += 1;
    }
    odd += counts.values().map(|it| it.abs()).sum::<i64>();
    // One word in thirty is cut at the edge of a cell.
    odd * 30 <= all
}

/// Makes of what was read of a PDF what a reader sees. Where forms and notes are drawn into the pages only what is not
/// seen of them is added.
pub(crate) fn refine(bytes: &[u8], outcome: ParseOutcome, drawn: bool) -> ParseOutcome {
    let mut document = match outcome {
        ParseOutcome::Parsed(document) => document,
        ParseOutcome::NoText(_) => Document::default(),
        other => return other,
    };
    let nothing = document.blocks.is_empty();
    document.blocks.iter_mut().for_each(write_signs);
    refuse_gibberish(&mut document);
    let gibberish = !nothing && document.blocks.is_empty();
    drop_repeated(&mut document);
    for block in &mut document.blocks {
        if block.kind == BlockKind::Paragraph {
            block.text = joined(&block.text);
        }
    }
    if bytes.len() <= LARGEST
        && let Ok(pdf) = Pdf::load_mem(bytes)
    {
        bookmarks(&pdf, &mut document);
        forms_and_notes(&pdf, drawn, &mut document);
    }
    let why = if gibberish { Remark::OddFonts } else { Remark::ProbablyScan };
    if document.blocks.is_empty() {
        return ParseOutcome::NoText(why.into());
    }
    if nothing {
        document.warnings.push(Remark::ScanBesideForm.into());
    }
    ParseOutcome::Parsed(document)
}

/// Takes pages off whose letters make no words, and says so.
fn refuse_gibberish(document: &mut Document) {
    let mut pages: BTreeMap<u32, String> = BTreeMap::new();
    for block in &document.blocks {
        let page = pages.entry(page_of(block)).or_default();
        page.push_str(&block.text);
        page.push('\n');
    }
    let bad: HashSet<u32> = pages.iter().filter(|it| is_gibberish(it.1)).map(|it| *it.0).collect();
    if bad.is_empty() {
        return;
    }
    document.blocks.retain(|it| !bad.contains(&page_of(it)));
    // A page of a few words can not be judged; beside pages of nonsense it is not believed either.
    if bad.len() * 2 > pages.len() {
        let believed: HashSet<u32> =
            pages.iter().filter(|it| it.1.len() >= SHORTEST).map(|it| *it.0).collect();
        document.blocks.retain(|it| believed.contains(&page_of(it)));
    }
    document.warnings.push(format!(
        "{} of {} pages are not read: their fonts do not say which letters they draw",
        bad.len(),
        pages.len()
    ));
}

#[cfg(test)]
mod tests {
    use lopdf::{EncryptionState, EncryptionVersion, Object, Permissions, dictionary};
    use riddle_types::Location;

    use super::{
        letters::tests::{ENGLISH, moved},
        *,
    };

    #[test]
    fn whole_words_are_better_than_more_of_them_and_tables_stay_tables() {
        let second = || vec![page(1, "Powered by www.example.org and nothing else")];
        let cut = vec![page(1, "Powered by www.ex ample. org and noth ing else")];
        assert_eq!(better(cut, second()), second());
        let location = Location::Page { start: 1, end: 1 };
        let text = "Powered by | www.example.org and\nnothing | else".to_owned();
        let table = vec![Block::new(BlockKind::Table, text, location)];
        assert_eq!(better(table.clone(), second()), table);
        let more = vec![page(
            1,
            "Powered by www.example.org and nothing else, and a line that only one has seen",
        )];
        assert_eq!(better(more.clone(), second()), more);
        let twice = vec![page(
            1,
            "Powered Powered by by www.example.org www.example.org and and nothing nothing else else",
        )];
        assert_eq!(better(twice, second()), second());
        let bold = vec![page(
            1,
            "Powered by www.example.org aanndd nothing else, beside a line that stands here alone",
        )];
        assert_eq!(better(bold, second()), second());
    }

    /// A page without text, opened by a password alone where `user` is one.
    fn locked_by(user: &str) -> Vec<u8> {
        let mut pdf = Pdf::with_version("1.4");
        let pages = pdf.new_object_id();
        let page = pdf.add_object(dictionary! { "Type" => "Page", "Parent" => pages });
        let all = dictionary! { "Type" => "Pages", "Kids" => vec![page.into()], "Count" => 1 };
        pdf.objects.insert(pages, Object::Dictionary(all));
        let root = pdf.add_object(dictionary! { "Type" => "Catalog", "Pages" => pages });
        pdf.trailer.set("Root", root);
        let id = || Object::string_literal("0123456789abcdef");
        pdf.trailer.set("ID", vec![id(), id()]);
        let manner = EncryptionVersion::V1 {
            document: &pdf,
            owner_password: "owner",
            user_password: user,
            permissions: Permissions::default(),
        };
        let state = EncryptionState::try_from(manner).expect("a state");
        pdf.encrypt(&state).expect("encrypted");
        let mut bytes = Vec::new();
        pdf.save_to(&mut bytes).expect("written");
        bytes
    }

    #[test]
    fn a_file_that_wants_a_password_is_not_called_a_scan() {
        let read = |bytes: Vec<u8>| parse("statement.pdf", bytes, &mut Shares::tried());
        assert_eq!(read(locked_by("secret")), ParseOutcome::Failed(Remark::Password.into()));
        // Without a password to open it, it is read like any other.
        assert_eq!(read(locked_by("")), ParseOutcome::NoText(Remark::ProbablyScan.into()));
    }

    pub(super) fn page(number: u32, text: &str) -> Block {
        let location = Location::Page { start: number, end: number };
        Block::new(BlockKind::Paragraph, text.to_owned(), location)
    }

    #[test]
    fn pages_of_nonsense_are_left_out_and_said_to_be() {
        let blocks = vec![page(1, ENGLISH), page(2, &moved(ENGLISH))];
        let mut document = Document { blocks, ..Document::default() };
        refuse_gibberish(&mut document);
        assert_eq!(document.blocks.len(), 1);
        assert!(document.warnings[0].starts_with("1 of 2 pages"), "{:?}", document.warnings);
        let blocks = vec![page(1, "TAM 7"), page(2, &moved(ENGLISH)), page(3, &moved(ENGLISH))];
        let read = ParseOutcome::Parsed(Document { blocks, ..Document::default() });
        let outcome = refine(b"", read, false);
        assert!(
            matches!(&outcome, ParseOutcome::NoText(why) if why.contains("scan")),
            "{outcome:?}"
        );
    }
}
