//! The child: parses what it is given until its input ends.

use std::{
    io::{self, Write as _},
    panic::catch_unwind,
    process::ExitCode,
};

use riddle_types::{Document, FileKind, panic_message};

use crate::{
    code,
    formats::{self, MOST_PICTURES, Pictures, Shares},
    language, limits, look, office,
    outcome::ParseOutcome,
    pdf,
    protocol::{Reply, Request, read_request, write_json},
    remark::Remark,
    text::{decode, parse_markdown, parse_plain},
};

/// Stack of the parsing thread: deeply nested documents recurse.
const STACK_BYTES: usize = 64 << 20;

/// Beside what a parser needs: the program itself, its libraries and the file's bytes.
const OVERHEAD_BYTES: u64 = 512 << 20;

/// The child's `main`: serves requests on standard input, answers on standard output.
///
/// The first argument that parses as a number is the memory limit in bytes; without one it is 1 GiB. The
/// process is expendable: it ends at the end of its input, or whenever the parent says so.
pub fn worker_main() -> ExitCode {
    let memory = std::env::args().filter_map(|it| it.parse().ok()).next_back().unwrap_or(1 << 30);
    limits::restrict(memory + OVERHEAD_BYTES);
    let mut input = io::stdin().lock();
    let mut output = limits::own_output();
    loop {
        let (request, bytes) = match read_request(&mut input, memory) {
            Ok(Some(request)) => request,
            Ok(None) => return ExitCode::SUCCESS,
            Err(_) => return ExitCode::FAILURE,
        };
        // A little longer than the parent waits: this is for a parent that is gone.
        limits::alarm(request.seconds + 5);
        let reply = guarded(request, bytes);
        limits::alarm(0);
        let reply = Reply { peak_rss_bytes: limits::peak_rss_bytes(), ..reply };
        if write_json(&mut output, &reply).and_then(|()| output.flush()).is_err() {
            return ExitCode::FAILURE;
        }
    }
}

/// Parses on a thread with a large stack; a panic is a failure of the file.
fn guarded(request: Request, bytes: Vec<u8>) -> Reply {
    let parse = move || catch_unwind(move || parse(&request, bytes));
    let thread = match std::thread::Builder::new().stack_size(STACK_BYTES).spawn(parse) {
        Ok(thread) => thread,
        Err(error) => {
            let why = Remark::NoThread(error.to_string());
            return Reply::of(ParseOutcome::Failed(why.into()));
        }
    };
    match thread.join() {
        Ok(Ok(read)) => read,
        Ok(Err(panic)) | Err(panic) => {
            let why = Remark::GaveUp(panic_message(&*panic).to_owned());
            Reply::of(ParseOutcome::Failed(why.into()))
        }
    }
}

/// What a file says, and which pictures in it can be read later; or what such a picture says, and how sure that is.
pub(crate) fn parse(request: &Request, bytes: Vec<u8>) -> Reply {
    if let Some(number) = request.look {
        return look::numbered(request, bytes, number, read, look::page);
    }
    let mut shares = Shares::new(request.seconds, request.tools.clone(), read);
    let outcome = match (request.second, request.kind) {
        (true, FileKind::Pdf) => pdf::second(&bytes, &mut shares),
        // Words of a file whose own parser has failed. What is refused for its parts stays so: its text is their
        // headers.
        (true, _) => formats::too_many_parts(request.kind, &bytes).unwrap_or_else(|| {
            written(parse_text(&request.name, FileKind::Text, beginning(&bytes)))
        }),
        (false, kind) => read(&request.name, kind, bytes, &mut shares),
    };
    let outcome = finished(request, outcome, &shares.pictures);
    Reply { pictures: shares.pictures.numbers, ..Reply::of(outcome) }
}

fn finished(request: &Request, outcome: ParseOutcome, pictures: &Pictures) -> ParseOutcome {
    match outcome {
        ParseOutcome::Parsed(document) if document.blocks.is_empty() => {
            let none = pictures.numbers.is_empty();
            ParseOutcome::NoText(if none { Remark::NoText } else { Remark::Pictures }.into())
        }
        ParseOutcome::Parsed(mut document) => {
            if pictures.beyond {
                document.warnings.push(Remark::PicturesBeyond { most: MOST_PICTURES }.into());
            }
            if request.second && request.kind != FileKind::Pdf {
                document.warnings.push(Remark::ReadAsText.into());
            }
            if document.language.is_none() {
                document.language = language::detect(&sample(&document));
            }
            ParseOutcome::Parsed(document)
        }
        other => other,
    }
}

/// Reads a file, or one that lies in another: by a reader of our own where there is one.
pub(crate) fn read(
    name: &str,
    kind: FileKind,
    bytes: Vec<u8>,
    shares: &mut Shares,
) -> ParseOutcome {
    if let Some(outcome) = formats::parse(name, kind, &bytes, shares) {
        return outcome;
    }
    match kind {
        FileKind::Text | FileKind::Markdown | FileKind::Code => {
            written(parse_text(name, kind, &bytes))
        }
        FileKind::Pdf => pdf::parse(name, bytes, shares),
        FileKind::Document
        | FileKind::Presentation
        | FileKind::Spreadsheet
        | FileKind::Html
        | FileKind::Book => {
            let outcome = office::parse_with(name, kind, bytes, &mut |number, bytes, _| {
                shares.note_picture(number, bytes);
            });
            // A page is made of any bytes; the others have a form, and may hold odd letters.
            if kind == FileKind::Html { written(outcome) } else { outcome }
        }
        _ => office::parse(name, kind, bytes),
    }
}

/// What of a file is read whose own parser has failed: behind the words that a person wrote there may be a million
/// headers of parts, or pictures in letters, which would be more passages than all other files have.
fn beginning(bytes: &[u8]) -> &[u8] {
    const MOST: usize = 256 << 10;
    if bytes.len() <= MOST {
        return bytes;
    }
    // No word, and so no letter, is cut.
    let line = bytes[..MOST].iter().rposition(|it| *it == b'\n');
    &bytes[..line.map_or(MOST, |it| it + 1)]
}

fn parse_text(name: &str, kind: FileKind, bytes: &[u8]) -> ParseOutcome {
    let (text, warning) = decode(bytes);
    let mut document = match kind {
        FileKind::Markdown => parse_markdown(name, &text),
        FileKind::Code => code::parse(&text),
        _ => parse_plain(&text),
    };
    document.warnings.extend(warning);
    ParseOutcome::Parsed(document)
}

/// What was read, if it is written in letters: a parser of words finds some in any bytes.
fn written(outcome: ParseOutcome) -> ParseOutcome {
    match outcome {
        ParseOutcome::Parsed(document) if !is_written(&document) => {
            ParseOutcome::Failed(Remark::Damaged.into())
        }
        other => other,
    }
}

/// Whether these are letters. A mail may have a few odd bytes; where a byte means a number every tenth is one.
fn is_written(document: &Document) -> bool {
    /// One letter in so many may be none, and this many in a short text.
    const ODD: usize = 25;
    const FEW: usize = 8;
    /// What printers and terminals were told: back one letter, and how to go on.
    const TOLD: [char; 2] = ['\u{8}', '\u{1B}'];
    let is_odd = |it: char| {
        let told = it.is_whitespace() || TOLD.contains(&it);
        it == char::REPLACEMENT_CHARACTER || it.is_control() && !told
    };
    let (mut all, mut odd) = (0, 0);
    for letter in document.blocks.iter().flat_map(|it| it.text.chars()) {
        all += 1;
        odd += usize::from(is_odd(letter));
    }
    odd <= FEW || odd * ODD <= all
}

/// Some of the running text, to tell the language by.
fn sample(document: &Document) -> String {
    let mut text = String::new();
    for block in &document.blocks {
        text.push_str(&block.text);
        text.push('\n');
        if text.len() > 8000 {
            break;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_no_parser_reads_the_beginning_is_kept_in_whole_lines() {
        assert_eq!(beginning(b"Dear Mira"), b"Dear Mira");
        let lines = "Dear Mira,\n".repeat(40_000);
        let kept = beginning(lines.as_bytes());
        assert!(kept.len() <= 256 << 10 && kept.len() > 255 << 10, "{}", kept.len());
        assert!(kept.ends_with(b",\n") && lines.as_bytes().starts_with(kept));
        assert_eq!(beginning("é".repeat(200_000).as_bytes()).len(), 256 << 10);
    }
}
