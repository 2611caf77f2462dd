//! 7z archives, and what is packed by xz: read like the other archives, with a limit on what unpacking may take.

use std::io::Cursor;

use lzma_rust2::XzReader;
use riddle_types::Document;
use sevenz_rust2::{ArchiveReader, EntryDecision, Error, Password};

use super::{
    Shares,
    archive::{entries, finish, one},
    warn,
};
use crate::{outcome::ParseOutcome, remark::Remark};

/// Most KiB of a dictionary: what is packed with 7-Zip's *ultra* has 64 MiB.
const MOST_KIB: u32 = 128 << 10;

pub(super) fn seven_zip(_name: &str, bytes: &[u8], shares: &mut Shares) -> ParseOutcome {
    let limit = MOST_KIB as usize;
    let opened = ArchiveReader::new_with_memory_limit(Cursor::new(bytes), Password::empty(), limit);
    let mut archive = match opened {
        Ok(archive) => archive,
        Err(error) => return ParseOutcome::Failed(why(&error)),
    };
    // Threads would unpack several parts at a time, each with a dictionary of its own.
    archive.set_thread_count(1);
    let mut document = Document::default();
    let read = archive.for_each_entries_with_decision(|entry, from| {
        if entry.is_directory() || !entry.has_stream() {
            return Ok(EntryDecision::Continue);
        }
        if !shares.last() {
            return Ok(EntryDecision::Stop);
        }
        one(&entry.name().replace('\\', "/"), from, shares, &mut document);
        // What follows a large file in one block comes out only behind all of it.
        let large = entry.size() > shares.largest();
        Ok(if large { EntryDecision::SkipBlock } else { EntryDecision::Continue })
    });
    if let Err(error) = read {
        if document.blocks.is_empty() {
            return ParseOutcome::Failed(why(&error));
        }
        warn(&mut document, Remark::RestNotRead(why(&error)).into());
    }
    finish(document, shares)
}

/// What is wrong, in words for people.
fn why(error: &Error) -> String {
    let locked = match error {
        Error::PasswordRequired | Error::MaybeBadPassword(_) => true,
        // Without what decrypts, it is a method like any other that is missing.
        Error::UnsupportedCompressionMethod(method) => method.contains("AES"),
        _ => false,
    };
    if locked {
        return Remark::Password.into();
    }
    match error {
        Error::UnsupportedCompressionMethod(method) => {
            Remark::PackedBy { method: method.to_string() }.into()
        }
        Error::MaxMemLimited { .. } => Remark::UnpackingMemory.into(),
        Error::BadSignature(_) => Remark::NotSevenZip.into(),
        other => Remark::Unparsed(other.to_string()).into(),
    }
}

pub(super) fn xz(name: &str, bytes: &[u8], shares: &mut Shares) -> ParseOutcome {
    let lower = name.to_ascii_lowercase();
    let reader = XzReader::new_mem_limit(bytes, true, MOST_KIB);
    if lower.ends_with(".txz") || lower.ends_with(".tar.xz") {
        return entries(reader, shares);
    }
    let inner = if lower.ends_with(".xz") { &name[..name.len() - 3] } else { name };
    let mut document = Document::default();
    if shares.last() {
        one(inner, reader, shares, &mut document);
    }
    finish(document, shares)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use lzma_rust2::{XzOptions, XzWriter};
    use riddle_types::FileKind;
    use sevenz_rust2::{ArchiveEntry, ArchiveWriter};

    use super::*;

    fn packed(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut writer = ArchiveWriter::new(Cursor::new(Vec::new())).expect("begun");
        for (name, bytes) in files {
            writer
                .push_archive_entry(ArchiveEntry::new_file(name), Some(*bytes))
                .expect("an entry");
        }
        writer.finish().expect("written").into_inner()
    }

    fn squeezed(bytes: &[u8]) -> Vec<u8> {
        let options = XzOptions::with_preset(1);
        let mut writer = XzWriter::new(Vec::new(), options).expect("begun");
        writer.write_all(bytes).expect("written");
        writer.finish().expect("written")
    }

    fn read(name: &str, bytes: &[u8]) -> ParseOutcome {
        super::super::parse(name, FileKind::Archive, bytes, &mut Shares::tried())
            .expect("a reader for it")
    }

    fn texts(name: &str, bytes: &[u8]) -> Vec<(String, String)> {
        let outcome = read(name, bytes);
        let ParseOutcome::Parsed(document) = outcome else { panic!("{outcome:?}") };
        document.blocks.into_iter().map(|it| (it.text, it.location.to_string())).collect()
    }

    #[test]
    fn files_in_seven_zip_archives_are_read_under_their_names() {
        let bytes = packed(&[
            ("notes/boat.md", b"# Boat\n\nIt is blue."),
            ("x.bin", b"\0\0"),
            ("rent.csv", b"Month,Rent\nMarch,740\n"),
        ]);
        let seen = texts("a.7z", &bytes);
        for wanted in [("It is blue.", "notes/boat.md, line 3"), ("March | 740", "rent.csv, row 2")]
        {
            assert!(seen.iter().any(|it| it.0 == wanted.0 && it.1 == wanted.1), "{seen:?}");
        }
    }

    #[test]
    fn what_is_packed_by_xz_is_read() {
        let seen = texts("day.log.xz", &squeezed(b"the oven was cold"));
        assert!(
            seen.iter().any(|it| it.0 == "the oven was cold" && it.1 == "day.log, line 1"),
            "{seen:?}"
        );
    }

    #[test]
    fn bombs_end_with_a_reason_and_what_lies_before_is_read() {
        let zeros = vec![0_u8; 80 << 20];
        let bytes = packed(&[("note.txt", b"a note"), ("zeros.txt", &zeros)]);
        assert!(bytes.len() < 1 << 20);
        let outcome = read("a.7z", &bytes);
        let ParseOutcome::Parsed(document) = outcome else { panic!("{outcome:?}") };
        assert!(document.blocks.iter().any(|it| it.text == "a note"));
        assert!(
            document.warnings.iter().any(|it| it.contains("larger than")),
            "{:?}",
            document.warnings
        );
        assert!(!matches!(read("zeros.txt.xz", &squeezed(&zeros)), ParseOutcome::Parsed(_)));
    }

    #[test]
    fn damaged_ones_have_a_reason() {
        let whole = packed(&[("note.txt", b"a note")]);
        for bytes in [&b""[..], b"7z\xBC\xAF\x27\x1C", b"plain text", &whole[..whole.len() - 9]] {
            for name in ["a.7z", "a.txt.xz", "a.tar.xz"] {
                let outcome = read(name, bytes);
                assert!(!matches!(outcome, ParseOutcome::Parsed(_)), "{name}: {outcome:?}");
            }
        }
    }
}
