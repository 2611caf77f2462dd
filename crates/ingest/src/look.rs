//! Pages that are pictures, files that are, and pictures in files: what they say.

use std::sync::{Mutex, OnceLock, PoisonError};

use riddle_ocr::{Ocr, Picture, Tesseract};
use riddle_types::{Block, Document, FileKind, Location};

use crate::{
    formats::{Read, See, Shares, flatten, place_of},
    layout::{self, Manner},
    office,
    outcome::{ParseOutcome, SeenLine},
    pdf::is_gibberish,
    pdfium::{self, Line},
    protocol::{Reply, Request},
    remark::Remark,
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
            decoded(bytes).and_then(|it| said(&it, number, Some(Location::Whole), tools))
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
    office::parse_with(name, kind, bytes.to_vec(), &mut see);
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
        if read.sure() < SURE { by_other(picture, &read, tools).unwrap_or(read) } else { read };
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
        Ok(Reply { sure, ..Reply::of(outcome) })
    };
    if blocks.is_empty() {
        return without(Remark::PictureWithoutText);
    }
    if sure < SURE || is_gibberish(&all) {
        return without(Remark::PictureIllegible);
    }
    let seen =
        |it: &riddle_ocr::Line| SeenLine { text: it.text.clone(), place: read.place_as_given(it) };
    let lines = read.lines.iter().map(seen).collect();
    let outcome = ParseOutcome::Parsed(Document { blocks, ..Document::default() });
    Ok(Reply { sure, lines, ..Reply::of(outcome) })
}

/// What the other program says of a picture whose letters the networks have not learned.
fn by_other(picture: &Picture, read: &riddle_ocr::Read, tools: &Tools) -> Option<riddle_ocr::Read> {
    static OPENED: OnceLock<Option<Tesseract>> = OnceLock::new();
    // A picture without letters has none of other alphabets.
    if read.places == 0 {
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
