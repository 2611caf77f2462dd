use base64::{Engine as _, engine::general_purpose::STANDARD};
use riddle_types::Document;

use super::*;
use crate::{
    formats::{Shares, mail, parse},
    kind::kind_of,
    remark::Remark,
};

fn attribute(level: u8, id: u64, data: &[u8]) -> Vec<u8> {
    let mut all = vec![level];
    all.extend((id as u32 | 0x0006_0000).to_le_bytes());
    all.extend((data.len() as u32).to_le_bytes());
    all.extend(data);
    all.extend([0, 0]);
    all
}

fn sized(data: &[u8]) -> Vec<u8> {
    let mut all = (data.len() as u32).to_le_bytes().to_vec();
    all.extend(data);
    all.resize(all.len().next_multiple_of(4), 0);
    all
}

fn wide(text: &str) -> Vec<u8> {
    text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
}

/// Properties behind one with a name, and one of two numbers.
fn properties(all: &[Property<'_>]) -> Vec<u8> {
    let mut bytes = (all.len() as u32 + 2).to_le_bytes().to_vec();
    bytes.extend([0x03, 0x00, 0x01, 0x80]);
    bytes.extend([0; 16]);
    bytes.extend([1, 0, 0, 0]);
    bytes.extend(sized(&wide("Own")));
    bytes.extend([7, 0, 0, 0]);
    bytes.extend([0x03, 0x10, 0x02, 0x00, 2, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0]);
    for (id, kind, value) in all {
        bytes.extend((*kind as u16).to_le_bytes());
        bytes.extend((*id as u16).to_le_bytes());
        bytes.extend(1_u32.to_le_bytes());
        bytes.extend(sized(value));
    }
    bytes
}

fn written(parts: &[Vec<u8>]) -> Vec<u8> {
    [TNEF, &[1, 0], &parts.concat()].concat()
}

/// A mail about dues with a table, a mail in it, and a file that is not there.
fn dues() -> Vec<u8> {
    let subject = wide("Harbour dues");
    let text = wide("They rise to 90 crowns, naß or dry.");
    let inner = [&[0; 16], written(&[attribute(1, 0x8004, b"The keel\0")]).as_slice()].concat();
    written(&[
        attribute(1, attribute::PAGE, &[0xE4, 4, 0, 0, 0, 0, 0, 0]),
        attribute(1, attribute::SUBJECT, b"dues\0"),
        attribute(
            1,
            attribute::PROPERTIES,
            &properties(&[(SUBJECT, WIDE, &subject), (TEXT, WIDE, &text)]),
        ),
        attribute(2, attribute::FILE, &[0; 14]),
        attribute(2, attribute::FILE_NAME, b"TARIFF~1.CSV\0"),
        attribute(2, attribute::FILE_DATA, b"Boat,Crowns\ncatamaran,180\n"),
        attribute(
            2,
            attribute::FILE_PROPERTIES,
            &properties(&[(NAMES[0], WIDE, &wide("tariff naß.csv"))]),
        ),
        attribute(2, attribute::FILE, &[0; 14]),
        attribute(2, attribute::FILE_NAME, b"The keel\0"),
        attribute(2, attribute::FILE_PROPERTIES, &properties(&[(DATA, OBJECT, &inner)])),
        attribute(2, attribute::FILE, &[0; 14]),
    ])
}

fn document(name: &str, bytes: &[u8]) -> Document {
    let kind = kind_of(name.as_ref(), bytes);
    match parse(name, kind, bytes, &mut Shares::tried()) {
        Some(ParseOutcome::Parsed(document)) => document,
        other => panic!("{other:?}"),
    }
}

fn texts(document: &Document) -> Vec<&str> {
    document.blocks.iter().map(|it| it.text.as_str()).collect()
}

#[test]
fn a_file_of_its_own_says_its_text_and_its_files() {
    for name in ["winmail.dat", "noname"] {
        let document = document(name, &dues());
        assert_eq!(document.title.as_deref(), Some("Harbour dues"));
        assert_eq!(
            texts(&document),
            [
                "They rise to 90 crowns, naß or dry.",
                "tariff naß.csv",
                "catamaran | 180",
                "The keel",
            ]
        );
        assert_eq!(document.warnings, [Remark::FileWithoutText.to_string()]);
    }
}

#[test]
fn what_is_in_one_is_attached_to_the_mail_that_has_it() {
    let written = |text: &str| {
        format!(
            "From: a@example.org\r\nSubject: dues\r\nMIME-Version: 1.0\r\n\
             Content-Type: multipart/mixed; boundary=cut\r\n\r\n{text}--cut\r\n\
             Content-Type: application/ms-tnef; name=winmail.dat\r\n\
             Content-Transfer-Encoding: base64\r\n\r\n{}\r\n--cut--\r\n",
            STANDARD.encode(dues())
        )
    };
    let plain = written("--cut\r\nContent-Type: text/plain\r\n\r\nThey rise.\r\n");
    for (mail, said) in [(plain, "They rise."), (written(""), "They rise to 90 crowns")] {
        let document = document("a.eml", mail.as_bytes());
        let seen = texts(&document);
        assert_eq!(seen.iter().filter(|it| it.contains("They rise")).count(), 1, "{seen:?}");
        assert!(seen.iter().any(|it| it.starts_with(said)), "{seen:?}");
        let table = document.blocks.iter().find(|it| it.text == "catamaran | 180");
        let place = table.map(|it| it.location.to_string());
        assert_eq!(place.as_deref(), Some("tariff naß.csv, row 2"), "{seen:?}");
    }
}

#[test]
fn pages_and_rich_texts_are_read_where_there_is_no_other() {
    let page = b"<p>They <b>rise</b>.</p>";
    let rich = [b"\0\0\0\0\0\0\0\0MELA\0\0\0\0".as_slice(), b"{\\rtf1\\ansi They rise.\\par}"];
    for (id, bytes) in [(PAGE, page.to_vec()), (RICH, rich.concat())] {
        let all = properties(&[(id, 0x102, &bytes)]);
        let read = read(&written(&[attribute(1, attribute::PROPERTIES, &all)])).expect("one");
        assert_eq!(read.text.first().map(|it| it.text.as_str()), Some("They rise."), "{id}");
    }
}

#[test]
fn a_file_may_be_among_its_own_properties() {
    let all = properties(&[(NAMES[0], 0x1E, b"oak.txt\0"), (DATA, 0x102, b"Oak it is.")]);
    let read = read(&written(&[
        attribute(2, attribute::FILE, &[0; 14]),
        attribute(2, attribute::FILE_PROPERTIES, &all),
    ]));
    let files = read.expect("one").files;
    assert_eq!(files, [("oak.txt".to_owned(), b"Oak it is.".to_vec())]);
}

#[test]
fn damage_ends_early_and_nothing_else() {
    let whole = dues();
    assert!(read(&whole).expect("one").whole);
    for length in 0..whole.len() {
        let Some(part) = read(&whole[..length]) else { continue };
        assert!(part.files.len() <= 3, "{length}");
    }
    let mut lies = whole.clone();
    for at in 4..whole.len() {
        for lie in [0, 0x7F, 0xFF] {
            lies[at..(at + 4).min(whole.len())].fill(lie);
            let files = read(&lies).map_or(0, |it| it.files.len());
            assert!(files <= whole.len());
            lies.copy_from_slice(&whole);
        }
    }
    let cut = document("winmail.dat", &whole[..whole.len() - 5]);
    assert!(cut.warnings.contains(&Remark::RestDamaged.into()), "{:?}", cut.warnings);
    let outcome = mail::outlook_packed("x", &whole[..4], &mut Shares::tried());
    assert!(matches!(outcome, ParseOutcome::Parsed(it) if it.blocks.is_empty()));
}
