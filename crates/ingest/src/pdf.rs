//! What a reader of a PDF sees beside its running text, and what is no text though it looks like some: forms and notes,
//! bookmarks as headings, lines that every page repeats, words cut at the end of a line, and letters of fonts that do
//! not say which they are.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    panic::{AssertUnwindSafe, catch_unwind},
};

use lopdf::{Dictionary, Document as Pdf, Object, ObjectId};
use riddle_types::{Block, BlockKind, Document, FileKind, Location, panic_message};
use unicode_normalization::{UnicodeNormalization as _, char::is_combining_mark};

use crate::{
    formats::Shares,
    layout::{self, Manner},
    office,
    outcome::ParseOutcome,
    pdfium::{self, Refusal, Text},
};

/// Larger files are not looked into a second time: their text is what they are.
const LARGEST: usize = 48 << 20;

/// Most bookmarks, form fields and notes of one file.
const MOST_ITEMS: usize = 5_000;

/// The first engine takes memory by what is drawn: longer files are left to the second.
const MOST_PAGES_OF_FIRST: usize = 300;

/// Most bytes a page of what the first engine reads: one page of 1.5 MB of drawing took 530 MB and ten seconds.
const LARGEST_PAGE_OF_FIRST: usize = 512 << 10;

/// Reads a PDF with both engines, where the second is installed: page by page what is the better of the two.
pub(crate) fn parse(name: &str, bytes: Vec<u8>, shares: &mut Shares) -> ParseOutcome {
    let Some(library) = shares.tools.pdfium.clone() else {
        let outcome = office::parse(name, FileKind::Pdf, bytes.clone());
        return refine(&bytes, outcome, false);
    };
    let text = match pdfium::open(&library).map(|it| it.read(&bytes, shares.end())) {
        Some(Ok(text)) => text,
        Some(Err(_)) | None => {
            let outcome = office::parse(name, FileKind::Pdf, bytes.clone());
            return refine(&bytes, outcome, false);
        }
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

/// Reads a PDF with the second engine alone: the first one has died of it.
pub(crate) fn second(bytes: &[u8], shares: &mut Shares) -> ParseOutcome {
    let Some(library) = shares.tools.pdfium.clone().and_then(|it| pdfium::open(&it)) else {
        return ParseOutcome::Failed("the second engine is not there".to_owned());
    };
    match library.read(bytes, shares.end()) {
        Ok(text) => together(bytes, ParseOutcome::NoText(String::new()), &text, shares),
        Err(Refusal::Password) => ParseOutcome::Failed("protected by a password".to_owned()),
        Err(Refusal::Damaged) => ParseOutcome::Failed("it is damaged".to_owned()),
    }
}

/// Of every page what the better engine has read.
fn together(bytes: &[u8], first: ParseOutcome, text: &Text, shares: &mut Shares) -> ParseOutcome {
    let mut document = match first {
        ParseOutcome::Parsed(document) => document,
        _ => Document::default(),
    };
    let mut by_first: BTreeMap<u32, Vec<Block>> = BTreeMap::new();
    for block in std::mem::take(&mut document.blocks) {
        by_first.entry(page_of(&block)).or_default().push(block);
    }
    let body = layout::body_size(text.pages.iter().flat_map(|it| &it.lines));
    let mut pictures = Vec::new();
    for (number, page) in (1..).zip(&text.pages) {
        let first = by_first.remove(&number).unwrap_or_default();
        let second = layout::blocks(number, &page.lines, body, Manner::TOLD);
        let blocks = better(first, second);
        if page.picture || (!page.lines.is_empty() && unread(&blocks)) {
            pictures.push(number);
        }
        document.blocks.extend(blocks);
    }
    document.blocks.extend(by_first.into_values().flatten());
    if text.cut {
        document.warnings.push("not all of it is read: it takes too long".to_owned());
    }
    shares.note_pictures(pictures.into_iter());
    refine(bytes, ParseOutcome::Parsed(document), true)
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
    let twice = ours > theirs + theirs / 5 && different(&one) <= different(&two) * 6 / 5;
    // Names of letters that a font has no code for are not more letters.
    let more = ours > theirs + theirs / 50 && !twice && glyph_names(&one) <= glyph_names(&two);
    let table = |it: &Block| matches!(it.kind, BlockKind::Table | BlockKind::Numbers);
    if more || (first.iter().any(table) && same_words(&one, &two)) { first } else { second }
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
    let why = if gibberish {
        "its fonts do not say which letters they draw: to be read as a scan"
    } else {
        "no text layer: probably a scan"
    };
    if document.blocks.is_empty() {
        return ParseOutcome::NoText(why.to_owned());
    }
    if nothing {
        document
            .warnings
            .push("no text layer beside its form and notes: probably a scan".to_owned());
    }
    ParseOutcome::Parsed(document)
}

fn page_of(block: &Block) -> u32 {
    match block.location {
        Location::Page { start, .. } => start,
        _ => 0,
    }
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

/// Texts of fewer letters are believed.
const SHORTEST: usize = 120;

/// Frequencies of a to z, per thousand: in the mean of English, French, German, Spanish and Italian, and of Polish,
/// Czech and Croatian.
const LETTERS: [[f64; 26]; 2] = [
    [
        88.0, 15.0, 32.0, 40.0, 144.0, 13.0, 17.0, 23.0, 76.0, 3.0, 5.0, 48.0, 27.0, 77.0, 63.0,
        23.0, 6.0, 66.0, 67.0, 74.0, 38.0, 13.0, 8.0, 3.0, 8.0, 7.0,
    ],
    [
        95.0, 15.0, 35.0, 35.0, 80.0, 3.0, 14.0, 15.0, 85.0, 25.0, 38.0, 35.0, 30.0, 55.0, 85.0,
        30.0, 1.0, 42.0, 48.0, 42.0, 30.0, 22.0, 25.0, 1.0, 28.0, 45.0,
    ],
];

/// Whether letters stand where others are meant: codes without a character; or Latin letters as often as in no language
/// that is written with them.
pub(crate) fn is_gibberish(text: &str) -> bool {
    let all = text.chars().filter(|it| !it.is_whitespace()).count();
    let codes = text
        .chars()
        .filter(|it| {
            matches!(u32::from(*it), 0..=8 | 14..=31 | 0x7F..=0x9F | 0xE000..=0xF8FF | 0xFFFD | 0xF0000..)
        })
        .count();
    let named = text.matches("(cid:").count() * 6 + glyph_names(text) * 4;
    let spoken = text.chars().filter(|it| it.is_alphanumeric()).count();
    // Or nothing but the marks between words is left.
    if all >= 40 && ((codes + named) * 5 > all || spoken * 5 < all) {
        return true;
    }
    let mut counts = [0u32; 26];
    let (mut others, mut pairs, mut changes) = (0u32, 0u32, 0u32);
    let mut before = None;
    let (mut last, mut run) = ('\0', 0);
    for c in text.nfd().filter(|it| !is_combining_mark(*it)).flat_map(char::to_lowercase) {
        run = if c == last { run + 1 } else { 0 };
        last = c;
        // What somebody has made unreadable, XXXXX, is no letter.
        if run >= 2 {
            continue;
        }
        let vowel = c.is_ascii_lowercase().then(|| "aeiouy".contains(c));
        if let Some(vowel) = vowel {
            counts[c as usize - 'a' as usize] += 1;
            if let Some(before) = before {
                pairs += 1;
                changes += u32::from(before != vowel);
            }
        } else if c.is_alphabetic() {
            others += 1;
        }
        before = vowel;
    }
    let letters: u32 = counts.iter().sum();
    // Other alphabets, and names of chemicals in a table, are not judged.
    if (letters as usize) < SHORTEST || others > letters || (letters as usize) * 2 < all {
        // A cipher by a shift of codes turns small letters into capitals, figures and signs.
        return shifted(text, all);
    }
    if is_spoken(text) || is_alphabet(text) {
        return false;
    }
    let surprise = |of: &[f64; 26]| -> f64 {
        let share = |count: u32| f64::from(count) / f64::from(letters);
        counts.iter().zip(of).map(|(count, usual)| -share(*count) * (usual / 1000.0).log2()).sum()
    };
    let surprise = LETTERS.iter().map(surprise).fold(f64::INFINITY, f64::min);
    if in_pieces(text) {
        return true;
    }
    let alternation = f64::from(changes) / f64::from(pairs.max(1));
    surprise > MOST_SURPRISE || (surprise > MUCH_SURPRISE && alternation < LEAST_ALTERNATION)
}

/// Words that no text of their language does without; pieces of words and exchanged letters do not make them.
const USUAL: [&str; 44] = [
    "the", "and", "for", "with", "that", "from", "this", "you", "are", "not", "der", "die", "und",
    "das", "ist", "von", "mit", "den", "les", "des", "une", "est", "dans", "pour", "que", "los",
    "las", "por", "para", "con", "una", "per", "che", "del", "della", "het", "een", "van", "nie",
    "jest", "och", "att", "som", "til",
];

/// Whether a twentieth of the words are such as every text has.
fn is_spoken(text: &str) -> bool {
    let (mut all, mut usual) = (0_usize, 0_usize);
    for word in text.split(|it: char| !it.is_alphanumeric()).filter(|it| !it.is_empty()) {
        all += 1;
        usual += usize::from(USUAL.contains(&word.to_lowercase().as_str()));
    }
    usual >= 3 && usual * 20 >= all
}

/// Whether letters stand one after the other as in the alphabet: a list of what a font can draw.
fn is_alphabet(text: &str) -> bool {
    const FEWEST: usize = 20;
    let letters: Vec<u32> = text.chars().filter(|it| !it.is_whitespace()).map(u32::from).collect();
    let next = letters.windows(2).filter(|it| it[1] == it[0] + 1).count();
    // In languages it is one pair in thirty.
    next >= FEWEST && next * 4 > letters.len()
}

/// Names of letters in the place of letters: `/a108 /a118`.
fn glyph_names(text: &str) -> usize {
    let after = |it: &str| {
        let mut characters = it.chars();
        characters.next().is_some_and(|it| it.is_ascii_alphabetic())
            && characters.next().is_some_and(|it| it.is_ascii_digit())
    };
    text.split('/').skip(1).filter(|it| after(it)).count()
}

/// Whether letters are missing everywhere, so that of words only pieces are left: single letters are up to an eighth of
/// the words of a language.
fn in_pieces(text: &str) -> bool {
    const FEWEST_WORDS: usize = 60;
    let words: Vec<&str> =
        text.split_whitespace().filter(|it| it.chars().all(char::is_alphabetic)).collect();
    let single = words.iter().filter(|it| it.chars().count() == 1).count();
    words.len() >= FEWEST_WORDS && single * 4 > words.len()
}

/// Bits a letter takes by [`LETTERS`] beyond which no language of Europe is: they have 4.2 to 4.6, letters exchanged at
/// random nearly always more than 5.
const MOST_SURPRISE: f64 = 5.05;

/// Bits beyond which vowels and consonants have to take turns as they do in languages.
const MUCH_SURPRISE: f64 = 4.7;

/// In languages 0.55 to 0.8 of the neighbors in words are a vowel and a consonant; exchanged at random about 0.35.
const LEAST_ALTERNATION: f64 = 0.48;

/// Whether words are made of capitals, figures and signs together: `7KLV LV D WHVW` for `This is a test`.
fn shifted(text: &str, all: usize) -> bool {
    if all < SHORTEST {
        return false;
    }
    let words: Vec<&str> = text.split_whitespace().filter(|it| it.chars().count() >= 3).collect();
    let odd = |word: &&&str| {
        let inside = word.trim_matches(|it: char| !it.is_alphanumeric());
        let signs =
            inside.chars().filter(|it| it.is_ascii_punctuation() && !"-'./:,@&_".contains(*it));
        let small = inside.chars().any(char::is_lowercase);
        !small && signs.count() > 0 && inside.chars().any(char::is_alphabetic)
    };
    words.len() >= 20 && words.iter().filter(odd).count() * 3 > words.len()
}

/// Takes off what stands at the edge of most pages: headers, footers, numbers. The first one stays.
fn drop_repeated(document: &mut Document) {
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
fn joined(text: &str) -> String {
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
fn bookmarks(pdf: &Pdf, document: &mut Document) {
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
fn forms_and_notes(pdf: &Pdf, drawn: bool, document: &mut Document) {
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

    use super::*;

    const ENGLISH: &str = "The hull was painted in spring, and Jonas replaced the door seals of the oven because the \
        old ones had become hard. Nobody expected the winter mooring to cost that much, so we looked for another place.";

    /// Codes moved by 29, as fonts without a table of characters leave them.
    fn moved(text: &str) -> String {
        text.chars()
            .map(|it| if it == ' ' { ' ' } else { char::from((it as u8).wrapping_sub(29)) })
            .collect()
    }

    /// Letters exchanged for others.
    fn exchanged(text: &str) -> String {
        let other = |it: char| match it {
            'a'..='z' => char::from(b'a' + (it as u8 - b'a' + 11) % 26),
            other => other,
        };
        text.to_lowercase().chars().map(other).collect()
    }

    #[test]
    fn letters_without_meaning_are_told_from_languages() {
        let good = [
            ENGLISH,
            "Der Bäcker in Zürich verkauft grüne Äpfel und süße Brötchen, aber am Montag bleibt das Geschäft wegen der \
             Inventur geschlossen, und erst am Dienstag gibt es wieder frisches Brot.",
            "Příliš žluťoučký kůň úpěl ďábelské ódy a všechny děti v městečku to slyšely, protože bydlely hned vedle \
             velkého rybníka u starého mlýna na konci vesnice.",
            "W Szczebrzeszynie chrząszcz brzmi w trzcinie i Szczebrzeszyn z tego słynie, a wół go pyta: panie \
             chrząszczu, po cóż pan tak brzęczy w gąszczu, kiedy wszyscy już dawno śpią.",
            "船は青い色です。パンを焼くのが好きです。",
            "PO-4471 QX17 Z9 KR-22 TT",
            "fn main() { let x = vec![1, 2, 3]; println!(\"{:?}\", x.iter().map(|it| it + 1).collect::<Vec<_>>()); }",
        ];
        for text in good {
            assert!(!is_gibberish(text), "{text}");
        }
        let codes: String = ENGLISH
            .chars()
            .map(|it| char::from_u32(0xE000 + u32::from(it)).unwrap_or(it))
            .collect();
        for text in
            [moved(ENGLISH), exchanged(ENGLISH), codes, "(cid:12)(cid:7) (cid:99)".repeat(20)]
        {
            assert!(is_gibberish(&text), "{text}");
        }
        let glyphs = "V/a225c /a108a /a118 Ha/a18/a101 /a108' /a115 ".repeat(8);
        let pieces =
            "Lor um olo t me con t u p ing it ed iam o y r mod e mpo i u l o c m o uo e ".repeat(6);
        // A line with all letters once is no usual text, and still one.
        let pangram = "The quick brown fox jumps over the lazy dog. ".repeat(4);
        assert!(!is_gibberish(&pangram));
        for text in [glyphs, pieces, ". , . . . , B . , . 2 . , . ".repeat(12)] {
            assert!(is_gibberish(&text), "{text}");
        }
    }

    /// What some files of a well-known collection of odd PDFs are, in texts of our own.
    #[test]
    fn nonsense_of_odd_files_is_refused_and_odd_sense_is_read() {
        // Names of letters, two thousand pages of them (TAMReview); pieces of words (issue13242); letters moved in
        // their alphabet (issue918, issue5801), in capitals and signs.
        let names = "/g134/g87/g3 /g44/g81/g3 /g87/g75/g72 ".repeat(12);
        let pieces = "Th b at i p i t d in sp i g nd the o n k ys h g b h nd t e d o r ".repeat(5);
        let shifted =
            "7KH KXOO ZDV SDLQWHG LQ VSULQJ DQG -RQDV UHSODFHG WKH GRRU VHDOV RI WKH RYHQ "
                .repeat(4);
        for text in [&names, &pieces, &shifted, &moved(ENGLISH)] {
            assert!(is_gibberish(text), "{text}");
        }
        // All letters of a font in their order (standard_fonts), names blacked out (issue6410), German with marks for
        // where words may be cut.
        let letters = (0x21..0x17F_u32).filter_map(char::from_u32).filter(|it| !it.is_control());
        let font = letters.map(|it| format!("{it} ")).collect::<String>();
        let hidden = "POLICY INFORMATION XXXXXXXX Insurance Agent XXXXXXXXXX XXXXXX Named Insured XXXXXXX XXXXXXXX \
            Effective Date 09/01/2015 Policy Address XXXXXXXXXXXX XXXXXX Expiration Date XXXXXXXXXXXXX Agent XXXXXXXX";
        for text in [&font, hidden] {
            assert!(!is_gibberish(text), "{text}");
        }
    }

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
    }

    fn page(number: u32, text: &str) -> Block {
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

    #[test]
    fn what_every_page_repeats_is_kept_once() {
        let mut blocks = Vec::new();
        for number in 1..=6 {
            blocks.push(page(number, "Wells Boatyard"));
            blocks.push(page(
                number,
                &format!(
                    "What page {} says of {ENGLISH}",
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
