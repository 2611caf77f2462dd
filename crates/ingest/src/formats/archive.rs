//! Archives as folders: each file in them is read like one on disk, and none is written there.

use std::io::{Cursor, Read};

use flate2::read::MultiGzDecoder;
use riddle_types::Document;

use super::{Shares, warn};
use crate::{outcome::ParseOutcome, remark::Remark};

pub(super) fn zip(_name: &str, bytes: &[u8], shares: &mut Shares) -> ParseOutcome {
    let mut archive = match zip::ZipArchive::new(Cursor::new(bytes)) {
        Ok(archive) => archive,
        Err(error) => return ParseOutcome::Failed(Remark::Unparsed(error.to_string()).into()),
    };
    let mut document = Document::default();
    let mut locked = 0;
    for index in 0..archive.len() {
        if !shares.last() {
            break;
        }
        let entry = match archive.by_index(index) {
            Ok(entry) if entry.is_dir() => continue,
            Ok(entry) => entry,
            Err(zip::result::ZipError::UnsupportedArchive(why)) => {
                locked += u32::from(why.contains("assword"));
                shares.pass_over();
                continue;
            }
            Err(error) => {
                warn(
                    &mut document,
                    Remark::Entry { number: index + 1, why: error.to_string() }.into(),
                );
                continue;
            }
        };
        let name = entry
            .name()
            .map_or_else(|_| format!("entry {}", index + 1), |it| it.replace('\\', "/"));
        one(&name, entry, shares, &mut document);
    }
    if locked > 0 && document.blocks.is_empty() {
        return ParseOutcome::Failed(Remark::Password.into());
    }
    finish(document, shares)
}

/// Unpacks one file within what is left, whatever it says of its size.
pub(super) fn one(name: &str, from: impl Read, shares: &mut Shares, document: &mut Document) {
    // What macOS adds to archives.
    if name.starts_with("__MACOSX/") || name.ends_with(".DS_Store") {
        return;
    }
    let largest = shares.largest();
    let mut bytes = Vec::new();
    match from.take(largest + 1).read_to_end(&mut bytes) {
        Ok(_) if bytes.len() as u64 > largest => {
            warn(
                document,
                Remark::LargeUnpacked { name: name.to_owned(), mib: largest >> 20 }.into(),
            );
            shares.pass_over();
        }
        Ok(_) => shares.part(name, bytes, document),
        Err(error) => {
            let why = error.to_string();
            warn(document, Remark::Within { name: name.to_owned(), why }.into());
            shares.pass_over();
        }
    }
}

pub(super) fn finish(mut document: Document, shares: &mut Shares) -> ParseOutcome {
    shares.tell(&mut document);
    if document.blocks.is_empty() {
        let pictures = !shares.pictures.numbers.is_empty();
        let why = document.warnings.first().cloned().filter(|_| !pictures);
        let otherwise = if pictures { Remark::Pictures } else { Remark::NoTextInFiles };
        return ParseOutcome::NoText(why.unwrap_or_else(|| otherwise.into()));
    }
    ParseOutcome::Parsed(document)
}

pub(super) fn tar(_name: &str, bytes: &[u8], shares: &mut Shares) -> ParseOutcome {
    entries(bytes, shares)
}

/// A tape archive within, or one file alone.
pub(super) fn gzip(name: &str, bytes: &[u8], shares: &mut Shares) -> ParseOutcome {
    let lower = name.to_ascii_lowercase();
    let inner = if lower.ends_with(".gz") { &name[..name.len() - 3] } else { name };
    let tape = lower.ends_with(".tgz") || lower.ends_with(".tar.gz");
    if tape {
        return entries(MultiGzDecoder::new(bytes), shares);
    }
    let mut document = Document::default();
    if shares.last() {
        one(inner, MultiGzDecoder::new(bytes), shares, &mut document);
    }
    finish(document, shares)
}

/// A block of a tape archive.
const BLOCK: usize = 512;

/// Most bytes of a name that stands in a block of its own.
const LONGEST_NAME: u64 = 4096;

/// Most bytes that are read over: what is passed over has to be unpacked, too.
const MOST_READ: u64 = 1 << 30;

/// The files of a tape archive, one behind the other.
pub(super) fn entries(from: impl Read, shares: &mut Shares) -> ParseOutcome {
    let mut from = from.take(MOST_READ);
    let mut document = Document::default();
    let mut long_name = None;
    let mut seen = false;
    let mut header = [0; BLOCK];
    while shares.last() && from.read_exact(&mut header).is_ok() {
        if header.iter().all(|it| *it == 0) {
            break;
        }
        let Some(size) = checked_size(&header) else {
            if !seen {
                return ParseOutcome::Failed(Remark::NotTape.into());
            }
            warn(&mut document, Remark::RestDamaged.into());
            break;
        };
        seen = true;
        let padded = size.div_ceil(BLOCK as u64).saturating_mul(BLOCK as u64);
        let mut body = (&mut from).take(padded);
        match header[156] {
            b'L' | b'x' if size <= LONGEST_NAME => {
                let mut bytes = Vec::new();
                let _ = body.by_ref().take(size).read_to_end(&mut bytes);
                let text = String::from_utf8_lossy(&bytes);
                long_name = if header[156] == b'L' {
                    Some(text.trim_end_matches('\0').to_owned())
                } else {
                    text.lines()
                        .find_map(|it| Some(it.split_once(" path=")?.1.to_owned()))
                        .or(long_name)
                };
            }
            b'0' | 0 => {
                let name = long_name.take().unwrap_or_else(|| short_name(&header));
                one(&name, body.by_ref().take(size), shares, &mut document);
            }
            _ => long_name = None,
        }
        // The rest of the last block, or all of what is passed over.
        if std::io::copy(&mut body, &mut std::io::sink()).is_err() {
            warn(&mut document, Remark::RestDamaged.into());
            break;
        }
    }
    if !seen {
        return ParseOutcome::Failed(Remark::NotTape.into());
    }
    finish(document, shares)
}

/// The size that a header tells, if its checksum holds.
fn checked_size(header: &[u8; BLOCK]) -> Option<u64> {
    let octal = |bytes: &[u8]| {
        let text = std::str::from_utf8(bytes).ok()?;
        u64::from_str_radix(text.trim_matches(['\0', ' ']), 8).ok()
    };
    let told = octal(&header[148..156])?;
    let sum: u64 = header
        .iter()
        .enumerate()
        .map(|(at, byte)| if (148..156).contains(&at) { 32 } else { u64::from(*byte) })
        .sum();
    // Larger than eight octal gigabytes is written in binary; no text is.
    (told == sum).then(|| octal(&header[124..136])).flatten()
}

fn short_name(header: &[u8; BLOCK]) -> String {
    let text = |bytes: &[u8]| {
        let end = bytes.iter().position(|it| *it == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    };
    let prefix =
        if &header[257..262] == b"ustar" { text(&header[345..500]) } else { String::new() };
    let name = text(&header[..100]);
    if prefix.is_empty() { name } else { format!("{prefix}/{name}") }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    fn zipped(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
        let deflated = zip::write::SimpleFileOptions::default()
            .compression_method(zip::CompressionMethod::Deflated);
        for (name, bytes) in files {
            writer.start_file(*name, deflated).expect("an entry");
            writer.write_all(bytes).expect("written");
        }
        writer.finish().expect("written").into_inner()
    }

    fn taped(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut tape = Vec::new();
        for (name, bytes) in files {
            let mut header = [0u8; BLOCK];
            header[..name.len()].copy_from_slice(name.as_bytes());
            header[124..135].copy_from_slice(format!("{:011o}", bytes.len()).as_bytes());
            header[156] = b'0';
            header[148..156].copy_from_slice(b"        ");
            let sum: u32 = header.iter().map(|it| u32::from(*it)).sum();
            header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
            tape.extend(header);
            tape.extend(*bytes);
            tape.resize(tape.len().next_multiple_of(BLOCK), 0);
        }
        tape.extend([0; 2 * BLOCK]);
        tape
    }

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).expect("written");
        encoder.finish().expect("written")
    }

    fn seen(name: &str, bytes: &[u8]) -> Vec<(String, String)> {
        let outcome =
            super::super::parse(name, riddle_types::FileKind::Archive, bytes, &mut Shares::tried());
        let Some(ParseOutcome::Parsed(document)) = outcome else { panic!("{outcome:?}") };
        document.blocks.into_iter().map(|it| (it.text, it.location.to_string())).collect()
    }

    const FILES: &[(&str, &[u8])] = &[
        ("notes/boat.md", b"# Boat\n\nIt is blue."),
        ("notes/x.bin", b"\0\0"),
        ("rent.csv", b"Month,Rent\nMarch,740\n"),
    ];

    #[test]
    fn files_in_archives_are_read_under_their_names() {
        let tape = taped(FILES);
        for (name, bytes) in [
            ("a.zip", zipped(FILES)),
            ("a.tar", tape.clone()),
            ("a.tar.gz", packed(&tape)),
            ("a.tgz", packed(&tape)),
        ] {
            let seen = seen(name, &bytes);
            for wanted in
                [("It is blue.", "notes/boat.md, line 3"), ("March | 740", "rent.csv, row 2")]
            {
                assert!(
                    seen.iter().any(|it| it.0 == wanted.0 && it.1 == wanted.1),
                    "{name}: {seen:?}"
                );
            }
        }
        let log = seen("day.log.gz", &packed(b"the oven was cold"));
        assert!(
            log.iter().any(|it| it.0 == "the oven was cold" && it.1 == "day.log, line 1"),
            "{log:?}"
        );
    }

    #[test]
    fn an_archive_in_an_archive_in_an_archive_ends() {
        let mut inner = zipped(&[("deep.txt", b"the bottom")]);
        for _ in 0..6 {
            inner = zipped(&[("inner.zip", &inner), ("note.txt", b"a note")]);
        }
        let outcome = zip("a.zip", &inner, &mut Shares::tried());
        let ParseOutcome::Parsed(document) = outcome else { panic!("{outcome:?}") };
        assert!(document.blocks.iter().any(|it| it.text == "a note"));
        assert!(!document.blocks.iter().any(|it| it.text == "the bottom"));
        assert!(
            document.warnings.iter().any(|it| it.contains("too deep")),
            "{:?}",
            document.warnings
        );
    }

    #[test]
    fn bombs_and_crowds_end_with_a_reason() {
        let zeros = vec![0u8; 65 << 20];
        let bomb = zipped(&[("zeros.txt", &zeros), ("note.txt", b"a note")]);
        assert!(bomb.len() < 1 << 20);
        let ParseOutcome::Parsed(document) = zip("a.zip", &bomb, &mut Shares::tried()) else {
            panic!("the note is read")
        };
        assert!(
            document.warnings.iter().any(|it| it.contains("larger than")),
            "{:?}",
            document.warnings
        );
        let names: Vec<String> = (0..6000).map(|it| format!("{it}.txt")).collect();
        let crowd: Vec<(&str, &[u8])> = names.iter().map(|it| (it.as_str(), &b"x"[..])).collect();
        let ParseOutcome::Parsed(document) = tar("a.tar", &taped(&crowd), &mut Shares::tried())
        else {
            panic!("some are read")
        };
        assert!(
            document.warnings.iter().any(|it| it.contains("too many")),
            "{:?}",
            document.warnings
        );
    }

    #[test]
    fn damaged_archives_have_a_reason() {
        for bytes in [&b""[..], b"PK\x03\x04 no archive", b"plain text that is longer than nothing"]
        {
            assert!(matches!(zip("a.zip", bytes, &mut Shares::tried()), ParseOutcome::Failed(_)));
            assert!(matches!(tar("a.tar", bytes, &mut Shares::tried()), ParseOutcome::Failed(_)));
            assert!(!matches!(gzip("a.gz", bytes, &mut Shares::tried()), ParseOutcome::Parsed(_)));
        }
        let mut cut = taped(FILES);
        cut.truncate(BLOCK + 5);
        assert!(matches!(tar("a.tar", &cut, &mut Shares::tried()), ParseOutcome::Parsed(_)));
    }
}
