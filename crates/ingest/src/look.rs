//! Pages that are pictures, files that are, and pictures in files: what they say.

use std::sync::{Mutex, OnceLock, PoisonError};

use riddle_ocr::{Ocr, Picture, Tesseract};
use riddle_types::{Block, Document, FileKind, Location};

use crate::{
    formats::{self, Read, See, Shares, flatten, place_of},
    layout::{self, Manner},
    outcome::{ParseOutcome, SeenLine},
    pdf::is_gibberish,
    pdfium::{self, Line},
    protocol::{Reply, Request},
    remark::Remark,
    tiff,
    tools::Tools,
};

/// Points an inch that a page is drawn with: letters of eight points are 22 points high then.
const DPI: f64 = 200.0;

/// Threads of the networks: whoever reads many files has one process for each.
const THREADS: usize = 2;

/// Pages of which the networks are less sure say nothing: letters that they have not learned look like others. A page
/// in Greek comes out as nonsense with 0.81, a noisy one in Latin letters right with 0.99.
const SURE: f32 = 0.85;

/// Height of a page in the units of layout.
const HEIGHT: f64 = 842.0;

/// Letters that must seem to stand somewhere before a picture in which none is read is said to have some: leaves and
/// waves look like a few.
const FEW: f32 = 12.0;

/// Reads the picture of that number: a page of a PDF, a file that is one, or one in the file, which `read` opens.
pub(crate) fn numbered(
    request: &Request,
    bytes: Vec<u8>,
    number: u32,
    read: Read,
    see: See,
) -> Reply {
    let Request { name, kind, tools, seconds, .. } = request;
    // A PDF may have more pages than a file in another.
    if matches!(kind, FileKind::Pdf | FileKind::Image) || place_of(number).0 == 0 {
        return see(name, *kind, &bytes, number, tools);
    }
    let mut shares = Shares::seeking(*seconds, tools.clone(), read, (number, see));
    let outcome = read(name, *kind, bytes, &mut shares);
    let Some(seen) = shares.found() else { return failed(Remark::PictureGone.into()) };
    match (&seen.outcome, outcome) {
        // Under the names of the files that it lies in.
        (ParseOutcome::Parsed(_), ParseOutcome::Parsed(document)) => {
            let document = Document { blocks: document.blocks, ..Document::default() };
            Reply { outcome: ParseOutcome::Parsed(document), lines: Vec::new(), ..seen }
        }
        (ParseOutcome::Parsed(_), _) => failed(Remark::PictureGone.into()),
        _ => seen,
    }
}

fn failed(why: String) -> Reply {
    Reply { sure: 0.0, ..Reply::of(ParseOutcome::Failed(why)) }
}

/// Reads a page, from 1, or a picture of a document; of a picture there is one. What it says, how sure that is, and
/// where its lines stand.
pub(crate) fn page(name: &str, kind: FileKind, bytes: &[u8], number: u32, tools: &Tools) -> Reply {
    let said = match kind {
        FileKind::Pdf => drawn(bytes, number, tools).and_then(|it| said(&it, number, None, tools)),
        FileKind::Image => {
            // A file of several pages names them.
            let place = (tiff::count(bytes) <= 1).then_some(Location::Whole);
            tiff::page(bytes, number)
                .map_err(String::from)
                .and_then(|it| decoded(&it))
                .and_then(|it| said(&it, number, place, tools))
        }
        _ => embedded(name, kind, bytes, number).and_then(|(bytes, location)| {
            let mut reply = said(&decoded(&bytes)?, number, Some(location), tools)?;
            if let ParseOutcome::Parsed(document) = &mut reply.outcome {
                flatten(&mut document.blocks);
            }
            // Nothing shows it.
            Ok(Reply { lines: Vec::new(), ..reply })
        }),
    };
    said.unwrap_or_else(failed)
}

fn decoded(bytes: &[u8]) -> Result<Picture, String> {
    Picture::decode(bytes).map_err(|error| error.to_string())
}

fn drawn(bytes: &[u8], number: u32, tools: &Tools) -> Result<Picture, String> {
    let library = tools.pdfium.as_deref().and_then(pdfium::open);
    let library = library.ok_or(Remark::NothingDraws)?;
    let drawn = library.draw(bytes, number, DPI).map_err(|_| Remark::NotDrawn)?;
    Picture::new(drawn.width, drawn.height, drawn.rgb).ok_or_else(|| Remark::EmptyPage.into())
}

/// A picture of a document, and where what it says is found: by its number, and by what stands around it.
pub(crate) fn embedded(
    name: &str,
    kind: FileKind,
    bytes: &[u8],
    wanted: u32,
) -> Result<(Vec<u8>, Location), String> {
    let mut found = None;
    let mut see = |number: u32, bytes: &[u8], location: &Location| {
        if number == wanted {
            found = Some((bytes.to_vec(), location.clone()));
        }
    };
    formats::pictures_of(name, kind, bytes, &mut see);
    let (bytes, location) = found.ok_or(Remark::PictureGone)?;
    let inside = Box::new(location);
    Ok((bytes, Location::Part { name: format!("picture {wanted}"), inside }))
}

/// What a picture says, all of it at `place`; without one it is that page.
fn said(
    picture: &Picture,
    number: u32,
    place: Option<Location>,
    tools: &Tools,
) -> Result<Reply, String> {
    static OPENED: OnceLock<Result<Mutex<Ocr>, String>> = OnceLock::new();
    let (Some(runtime), Some(models)) = (&tools.onnx_runtime, &tools.ocr) else {
        return Err(Remark::NothingSees.into());
    };
    let open = || Ocr::open(runtime, models, THREADS).map(Mutex::new).map_err(|it| it.to_string());
    let ocr = OPENED.get_or_init(open).as_ref().map_err(Clone::clone)?;
    let read = ocr.lock().unwrap_or_else(PoisonError::into_inner).read(picture);
    let read = read.map_err(|error| error.to_string())?;
    let read =
        if is_legible(&read) { read } else { by_other(picture, &read, tools).unwrap_or(read) };
    Ok(told(&read, number, place))
}

/// Whether the networks are sure of what they read, and have read most of what stands there.
fn is_legible(read: &riddle_ocr::Read) -> bool {
    let letters = |it: &riddle_ocr::Line| it.text.chars().filter(|it| it.is_alphanumeric()).count();
    let letters: usize = read.lines.iter().map(letters).sum();
    read.sure() >= SURE && read.unread <= FEW.max(letters as f32)
}

/// What was read of a page, if it makes sense; all of it at `place`, or on that page.
fn told(read: &riddle_ocr::Read, number: u32, place: Option<Location>) -> Reply {
    let sure = read.sure();
    let lines: Vec<Line> = read.lines.iter().map(|it| line(it, f64::from(read.aspect))).collect();
    let mut blocks = layout::blocks(number, &lines, layout::body_size(lines.iter()), Manner::SEEN);
    if let Some(place) = place {
        for block in &mut blocks {
            block.location = place.clone();
        }
    }
    let all: String = blocks.iter().map(|it: &Block| format!("{}\n", it.text)).collect();
    let without = |why: Remark| {
        let outcome = ParseOutcome::NoText(why.into());
        Reply { sure, ..Reply::of(outcome) }
    };
    let letters = all.chars().filter(|it| it.is_alphanumeric()).count();
    if letters == 0 {
        let illegible = read.unread >= FEW;
        return without(if illegible {
            Remark::PictureIllegible
        } else {
            Remark::PictureWithoutText
        });
    }
    if sure < SURE || is_gibberish(&all) {
        return without(Remark::PictureIllegible);
    }
    let seen = |it: &riddle_ocr::Line| SeenLine {
        text: it.text.clone(),
        place: read.place_as_given(it),
        // A page has hundreds: more digits would be kept for nothing.
        sure: Some((it.sure * 1000.0).round() / 1000.0),
    };
    let lines = read.lines.iter().map(seen).collect();
    let mut document = Document { blocks, ..Document::default() };
    if read.unread > FEW.max(letters as f32) {
        document.warnings.push(Remark::MostIllegible.into());
    }
    Reply { sure, lines, ..Reply::of(ParseOutcome::Parsed(document)) }
}

/// What the other program says of a picture whose letters the networks have not learned.
fn by_other(picture: &Picture, read: &riddle_ocr::Read, tools: &Tools) -> Option<riddle_ocr::Read> {
    static OPENED: OnceLock<Option<Tesseract>> = OnceLock::new();
    // A picture without letters has none of other alphabets.
    if read.lines.is_empty() && read.unread < FEW {
        return None;
    }
    let open = || tools.tesseract.as_deref().and_then(Tesseract::open);
    OPENED.get_or_init(open).as_ref()?.read(picture, read.turned)
}

/// A line as it stands on a page, from below.
fn line(read: &riddle_ocr::Line, aspect: f64) -> Line {
    let [left, top, right, bottom] = read.place.map(f64::from);
    let width = HEIGHT * aspect;
    Line {
        text: read.text.clone(),
        size: (bottom - top) * HEIGHT,
        left: left * width,
        right: right * width,
        bottom: (1.0 - bottom) * HEIGHT,
        top: (1.0 - top) * HEIGHT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[(&str, f32)], unread: f32) -> riddle_ocr::Read {
        let of = |(at, (text, sure)): (usize, &(&str, f32))| {
            let top = at as f32 * 0.1;
            riddle_ocr::Line {
                text: (*text).to_owned(),
                sure: *sure,
                place: [0.1, top, 0.9, top + 0.05],
            }
        };
        let lines = lines.iter().enumerate().map(of).collect();
        riddle_ocr::Read { lines, turned: 0, aspect: 0.7, unread }
    }

    #[test]
    fn letters_that_can_not_be_read_are_not_none() {
        let why = |read: &riddle_ocr::Read| match told(read, 1, Some(Location::Whole)).outcome {
            ParseOutcome::NoText(why) => why,
            other => format!("{other:?}"),
        };
        let (none, illegible) =
            (Remark::PictureWithoutText.to_string(), Remark::PictureIllegible.to_string());
        assert_eq!(why(&read(&[], 0.0)), none);
        assert_eq!(why(&read(&[], 4.0)), none, "waves");
        assert_eq!(why(&read(&[], 90.0)), illegible);
        // Of lines in Cyrillic letters their marks are read, and those surely.
        assert_eq!(why(&read(&[(",", 0.95), (".", 0.87)], 120.0)), illegible);
        assert_eq!(why(&read(&[(".", 0.95)], 1.0)), none);
        assert_eq!(why(&read(&[("BXoO", 0.61)], 0.0)), illegible);
    }

    #[test]
    fn marks_between_letters_that_are_not_read_are_not_legible() {
        assert!(is_legible(&read(&[("Tel. 812 555", 0.97)], 3.0)));
        assert!(!is_legible(&read(&[("Tel. 812 555", 0.7)], 0.0)));
        assert!(!is_legible(&read(&[(",", 0.95), (". .", 0.94)], 120.0)));
        assert!(is_legible(&read(&[("1.", 0.95)], 1.0)));
    }

    #[test]
    fn what_is_read_beside_what_is_not_is_kept_and_told() {
        let of = |unread: f32, paged: bool| match told(
            &read(&[("Tel. 812 555", 0.97)], unread),
            3,
            (!paged).then_some(Location::Whole),
        )
        .outcome
        {
            ParseOutcome::Parsed(document) => document,
            other => panic!("{other:?}"),
        };
        let document = of(90.0, true);
        assert_eq!(document.blocks[0].text, "Tel. 812 555");
        assert_eq!(document.blocks[0].location, Location::Page { start: 3, end: 3 });
        assert_eq!(document.warnings, [Remark::MostIllegible.to_string()]);
        assert!(of(3.0, true).warnings.is_empty());
        assert_eq!(of(3.0, false).blocks[0].location, Location::Whole);
    }
}
