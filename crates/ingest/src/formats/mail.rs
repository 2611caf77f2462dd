//! Mails with what is attached to them, and mailboxes (mbox) of mails. In a maildir every mail is a file.

mod parts;
mod pst;
mod threads;
mod tnef;

use std::borrow::Cow;

use docling::{ArchiveLimits, EmailAttachments};
use mail_parser::{Message, MessageParser, MimeHeaders as _, PartType};
use riddle_types::{Document, FileKind};

use self::{threads::Threads, tnef::Tnef};
use super::{Shares, join, warn};
use crate::{office, outcome::ParseOutcome, remark::Remark, text::decode};

/// Most bytes of one mail that are looked at.
const LARGEST_MAIL: usize = 64 << 20;

/// Most parts of one mail: real ones have dozens.
const MOST_PARTS: usize = 1000;

pub(super) fn parse(name: &str, bytes: &[u8], shares: &mut Shares) -> ParseOutcome {
    let mails = mailbox(bytes);
    if mails.len() < 2 && !is_box(bytes) {
        let mut outcome = one(name, bytes, shares);
        if let ParseOutcome::Parsed(document) = &mut outcome {
            shares.tell(document);
        }
        return outcome;
    }
    let mut document = Document::default();
    let threads = Threads::of(&mails, shares.end());
    for (mail, number) in mails.iter().zip(1..) {
        if !shares.last() {
            break;
        }
        match one(name, mail, shares) {
            // Without the picture that is looked for.
            ParseOutcome::Parsed(read) if shares.seeks() && read.blocks.is_empty() => {}
            ParseOutcome::Parsed(mut read) => {
                // What a picture says has no subject.
                if !shares.seeks() {
                    threads.name(number, &mut read);
                }
                join(&format!("message {number}"), read, &mut document);
            }
            ParseOutcome::Failed(why) => {
                warn(&mut document, Remark::Message { number, why }.into());
            }
            ParseOutcome::NoText(_) | ParseOutcome::Unsupported(_) => {}
        }
    }
    shares.tell(&mut document);
    ParseOutcome::Parsed(document)
}

/// A mail: its text by docling, its attachments each as a file of its own.
fn one(name: &str, bytes: &[u8], shares: &mut Shares) -> ParseOutcome {
    let bytes = &in_letters(&bytes[..bytes.len().min(LARGEST_MAIL)]);
    if let Some(refused) = too_many_parts(bytes) {
        return refused;
    }
    let name = if name.to_ascii_lowercase().ends_with(".eml") { name } else { "message.eml" };
    let mut document = match office::parse(name, FileKind::Mail, bytes.to_vec()) {
        ParseOutcome::Parsed(document) => document,
        other => return other,
    };
    if shares.seeks() {
        document.blocks.clear();
    }
    if let Some(message) = MessageParser::default().parse(bytes) {
        attached(&message, shares, &mut document);
    }
    ParseOutcome::Parsed(document)
}

/// The refusal of a mail that has more parts than anybody sends.
pub(super) fn too_many_parts(bytes: &[u8]) -> Option<ParseOutcome> {
    let bytes = &bytes[..bytes.len().min(LARGEST_MAIL)];
    parts::more_than(MOST_PARTS, bytes)
        .then(|| ParseOutcome::Failed(Remark::MailParts { most: MOST_PARTS }.into()))
}

/// A mail whose headers are letters: old programs write them in an encoding that they do not name.
fn in_letters(bytes: &[u8]) -> Cow<'_, [u8]> {
    let end = find(bytes, b"\n\n").into_iter().chain(find(bytes, b"\n\r\n")).min();
    let (head, body) = bytes.split_at(end.unwrap_or(bytes.len()));
    match std::str::from_utf8(head) {
        Ok(_) => Cow::Borrowed(bytes),
        Err(_) => Cow::Owned([decode(head).0.as_bytes(), body].concat()),
    }
}

/// A mail that Outlook has put into a file: its text by docling, its attachments each as a file of its own.
pub(super) fn outlook(name: &str, bytes: &[u8], shares: &mut Shares) -> ParseOutcome {
    let mut document = match office::parse(name, FileKind::Mail, bytes.to_vec()) {
        ParseOutcome::Parsed(document) => document,
        other => return other,
    };
    if shares.seeks() {
        document.blocks.clear();
    }
    let limits = ArchiveLimits {
        max_entries: MOST_PARTS,
        max_entry_size: shares.largest(),
        ..ArchiveLimits::default()
    };
    if let Ok(attachments) = EmailAttachments::open(bytes, &limits) {
        for entry in attachments.entries() {
            if !shares.last() {
                break;
            }
            match attachments.data(entry.index) {
                Some(bytes) => shares.part(&entry.name, bytes.to_vec(), &mut document),
                // What lies elsewhere, or is an object of another program.
                None => shares.pass_over(),
            }
        }
    }
    shares.tell(&mut document);
    ParseOutcome::Parsed(document)
}

/// A file in which Outlook keeps folders of mails.
pub(super) fn store(_name: &str, bytes: &[u8], shares: &mut Shares) -> ParseOutcome {
    pst::parse(bytes, shares)
}

/// A mail and its files as Outlook sends them to its own kind (`winmail.dat`).
pub(super) fn outlook_packed(_name: &str, bytes: &[u8], shares: &mut Shares) -> ParseOutcome {
    let Some(mut read) = tnef::read(bytes) else {
        return ParseOutcome::Failed(Remark::Damaged.into());
    };
    let mut document = Document { title: read.subject.take(), ..Document::default() };
    packed(read, true, shares, &mut document);
    shares.tell(&mut document);
    ParseOutcome::Parsed(document)
}

/// What a mail has packed: its text where it is not said elsewhere, and its files.
fn packed(mut read: Tnef, says: bool, shares: &mut Shares, document: &mut Document) {
    if says && !shares.seeks() {
        document.blocks.append(&mut read.text);
    }
    for ((name, bytes), number) in read.files.into_iter().zip(1..) {
        if !shares.last() {
            return;
        }
        let name = if name.is_empty() { format!("attachment {number}.bin") } else { name };
        if bytes.len() as u64 > shares.largest() {
            shares.pass_over();
        } else {
            shares.part(&name, bytes, document);
        }
    }
    if !read.whole {
        warn(document, Remark::RestDamaged.into());
    }
}

fn attached(message: &Message<'_>, shares: &mut Shares, document: &mut Document) {
    for (part, number) in message.attachments().zip(1..) {
        if !shares.last() {
            return;
        }
        if let Some(read) = tnef::read(part.contents()) {
            let text = message.body_text(0);
            let says = text.is_none_or(|it| it.trim().is_empty());
            packed(read, says, shares, document);
            continue;
        }
        let named = part.attachment_name().map(str::to_owned);
        match &part.body {
            PartType::Message(inner) => {
                let name = named.unwrap_or_else(|| format!("forwarded {number}.eml"));
                shares.part(&name, inner.raw_message().to_vec(), document);
            }
            PartType::Multipart(_) => {}
            _ => {
                let name = named.unwrap_or_else(|| unnamed(part, number));
                if part.contents().len() as u64 > shares.largest() {
                    shares.pass_over();
                } else {
                    shares.part(&name, part.contents().to_vec(), document);
                }
            }
        }
    }
}

/// A name for what has none, so that its format is known.
fn unnamed(part: &mail_parser::MessagePart<'_>, number: u32) -> String {
    let subtype = part.content_type().and_then(|it| it.subtype());
    format!("attachment {number}.{}", ending(subtype.unwrap_or_default()))
}

/// The ending of a name by the kind of what it names.
fn ending(kind: &str) -> &'static str {
    let subtype = kind.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    match subtype.as_str() {
        "html" => "html",
        "plain" => "txt",
        "calendar" => "ics",
        "vcard" | "x-vcard" => "vcf",
        "csv" => "csv",
        "pdf" => "pdf",
        "png" => "png",
        "jpeg" | "jpg" | "pjpeg" => "jpg",
        "tiff" => "tif",
        "webp" => "webp",
        "gif" => "gif",
        "bmp" | "x-ms-bmp" => "bmp",
        _ => "bin",
    }
}

fn is_box(bytes: &[u8]) -> bool {
    bytes.starts_with(b"From ")
}

/// The mails of a mailbox: each begins with a line `From `, after an empty one and before its headers. Not every
/// program marks such a line in what somebody has written.
fn mailbox(bytes: &[u8]) -> Vec<&[u8]> {
    if !is_box(bytes) {
        return vec![bytes];
    }
    let mut starts = vec![0];
    let mut from = 1;
    while let Some(found) = find(&bytes[from..], b"\nFrom ") {
        let at = from + found;
        let empty = at == 0 || bytes[at - 1] == b'\n' || bytes[..at].ends_with(b"\n\r");
        if empty && headers_follow(&bytes[at + 1..]) {
            starts.push(at + 1);
        }
        from = at + 6;
    }
    let ends = starts.iter().skip(1).copied().chain([bytes.len()]);
    let mails = starts.iter().zip(ends).map(|(&start, end)| &bytes[start..end]);
    // The line itself is no header.
    mails
        .map(|it| it.iter().position(|it| *it == b'\n').map_or(&it[..0], |at| &it[at + 1..]))
        .collect()
}

/// Whether behind the first line stands a header: `Name: value`.
fn headers_follow(bytes: &[u8]) -> bool {
    let mut lines = bytes.split(|it| *it == b'\n').skip(1);
    // One program marks lines of headers, too.
    let line = lines.find(|it| !it.starts_with(b">From ")).unwrap_or_default();
    let name = line.iter().position(|it| *it == b':').map_or(&line[..0], |at| &line[..at]);
    !name.is_empty() && name.iter().all(u8::is_ascii_graphic)
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|it| it == what)
}

#[cfg(test)]
mod tests {
    use riddle_types::BlockKind;

    use super::*;

    fn texts(bytes: &[u8]) -> Vec<(String, String)> {
        let ParseOutcome::Parsed(document) = parse("x", bytes, &mut Shares::tried()) else {
            panic!("parses")
        };
        document.blocks.into_iter().map(|it| (it.text, it.location.to_string())).collect()
    }

    const ATTACHED: &[u8] = b"From: Ann <ann@example.org>\r\nTo: ben@example.org\r\nSubject: The lease\r\n\
        Date: Mon, 2 Mar 2026 10:00:00 +0000\r\nMIME-Version: 1.0\r\n\
        Content-Type: multipart/mixed; boundary=cut\r\n\r\n--cut\r\nContent-Type: text/plain\r\n\r\n\
        Here it is.\r\n--cut\r\nContent-Type: text/csv; name=\"rent.csv\"\r\n\
        Content-Disposition: attachment; filename=\"rent.csv\"\r\n\r\nMonth,Rent\r\nMarch,740\r\n--cut\r\n\
        Content-Type: image/png; name=\"x.bin\"\r\nContent-Disposition: attachment; filename=\"x.bin\"\r\n\r\n\
        zzz\r\n--cut--\r\n";

    #[test]
    fn what_is_attached_is_read_under_its_name() {
        let seen = texts(ATTACHED);
        assert!(seen.iter().any(|it| it.0 == "Here it is."), "{seen:?}");
        assert!(
            seen.contains(&("March | 740".to_owned(), "rent.csv, row 2".to_owned())),
            "{seen:?}"
        );
    }

    #[test]
    fn every_mail_of_a_box_is_a_part() {
        let mut bytes = b"From ann Mon Mar  2 10:00:00 2026\n".to_vec();
        bytes.extend(ATTACHED);
        bytes.extend(
            b"\nFrom ben Tue Mar  3\nFrom: ben@example.org\nSubject: Thanks\n\nIt came.\n>From here on\n",
        );
        let seen = texts(&bytes);
        let place = |text: &str| seen.iter().find(|it| it.0.contains(text)).map(|it| it.1.clone());
        assert_eq!(
            place("It came.").as_deref().map(|it| it.starts_with("message 2, ")),
            Some(true)
        );
        assert_eq!(
            place("March | 740").as_deref(),
            Some("message 1 › rent.csv, row 2"),
            "{seen:?}"
        );
        assert_eq!(place("Thanks (ben@example.org)").as_deref(), Some("message 2"));
    }

    #[test]
    fn a_line_of_a_mail_that_begins_as_one_is_kept() {
        let bytes = b"From a Mon\nFrom: Ann <ann@example.org>\nSubject: Walk\n\nWe meet.\n\n\
            From here it is far.\n\nFrom 10:30 on: rain\n\nFrom b Tue\n>From a Mon\nSubject: Re: Walk\n\nYes.\n";
        let seen = texts(bytes);
        let place = |text: &str| seen.iter().find(|it| it.0.contains(text)).map(|it| &it.1[..9]);
        for text in ["We meet.", "From here it is far.", "From 10:30 on: rain"] {
            assert_eq!(place(text), Some("message 1"), "{seen:?}");
        }
        assert_eq!(place("Yes."), Some("message 2"), "{seen:?}");
    }

    #[test]
    fn hits_in_a_box_say_subject_sender_and_day_and_what_they_answer() {
        let bytes =
            b"From a Mon\nFrom: Ann <ann@example.org>\nTo: ben@example.org\nSubject: The *winch*\n\
            Message-ID: <1@x>\nDate: Mon, 2 Mar 2026 10:00:00 +0000\n\nIs it here?\n\nFrom b Tue\n\
            From: Ben <ben@example.org>\nSubject: Re: The *winch*\nIn-Reply-To: <1@x>\n\
            Date: Tue, 3 Mar 2026 10:00:00 +0000\n\nTo: all of us, it came.\n";
        let ParseOutcome::Parsed(document) = parse("Inbox", bytes, &mut Shares::tried()) else {
            panic!("parses")
        };
        let seen: Vec<(bool, &str)> = document
            .blocks
            .iter()
            .map(|it| (it.kind == BlockKind::Heading(1), it.text.as_str()))
            .collect();
        assert_eq!(
            seen,
            [
                (true, "The *winch* (Ann, 2026-03-02)"),
                (false, "From: Ann <ann@example.org>"),
                (false, "To: ben@example.org"),
                (false, "Date: 2026-03-02T10:00:00+00:00"),
                (false, "Is it here?"),
                (true, "Re: The *winch* (Ben, 2026-03-03)"),
                (false, "From: Ben <ben@example.org>"),
                (false, "Date: 2026-03-03T10:00:00+00:00"),
                (false, "In answer to: The *winch*, Ann <ann@example.org>, 2026-03-02 (message 1)"),
                (false, "To: all of us, it came."),
            ]
        );
    }

    #[test]
    fn letters_of_old_mails_are_read() {
        let words =
            |bytes: &[u8]| -> Vec<String> { texts(bytes).into_iter().map(|it| it.0).collect() };
        // Headers that do not say what they are written in.
        let latin = b"From: J\xF6rg <j@example.org>\r\nSubject: Gr\xFC\xDFe aus K\xF6ln\r\n\
            Content-Type: text/plain; charset=iso-8859-1\r\n\r\nSch\xF6ne Gr\xFC\xDFe\r\n";
        let seen = words(latin);
        assert_eq!(seen[0], "Gr\u{fc}\u{df}e aus K\u{f6}ln");
        assert_eq!(seen[1], "From: J\u{f6}rg <j@example.org>");
        assert_eq!(seen[2], "Sch\u{f6}ne Gr\u{fc}\u{df}e");
        // Encodings in which a letter has several bytes.
        for (charset, bytes) in [
            ("iso-2022-jp", b"\x1B$BF|K\\\x1B(B".as_slice()),
            ("shift_jis", b"\x93\xFA\x96\x7B"),
            ("euc-jp", b"\xC6\xFC\xCB\xDC"),
            ("gb2312", b"\xC8\xD5\xB1\xBE"),
            ("big5", b"\xA4\xE9\xA5\xBB"),
        ] {
            let head = format!(
                "From: a@example.org\nSubject: x\nContent-Type: text/plain; charset={charset}\n\n"
            );
            let seen = words(&[head.as_bytes(), bytes, b"\n"].concat());
            assert_eq!(seen.last().map(String::as_str), Some("\u{65e5}\u{672c}"), "{charset}");
        }
        let subject = b"From: a@example.org\nSubject: =?ISO-2022-JP?B?GyRCRnxLXBsoQg==?=\n\nx\n";
        assert_eq!(words(subject)[0], "\u{65e5}\u{672c}");
    }

    #[test]
    fn a_mail_without_a_subject_is_not_called_attachments() {
        let bytes = String::from_utf8_lossy(ATTACHED).replace("Subject: The lease\r\n", "");
        let outcome = parse("x.eml", bytes.as_bytes(), &mut Shares::tried());
        let ParseOutcome::Parsed(document) = outcome else { panic!("parses") };
        assert_eq!(document.title, None);
    }

    #[test]
    fn a_mail_of_ten_thousand_parts_ends_with_a_reason() {
        let mut bytes =
            b"From: a\nSubject: b\nDate: c\nContent-Type: multipart/mixed; boundary=x\n\n".to_vec();
        for _ in 0..10_000 {
            bytes.extend(b"--x\nContent-Disposition: attachment; filename=a.txt\n\nx\n");
        }
        let outcome = parse("x.eml", &bytes, &mut Shares::tried());
        assert!(
            matches!(&outcome, ParseOutcome::Failed(why) if why.contains("parts")),
            "{outcome:?}"
        );
    }
}
