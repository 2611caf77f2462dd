//! Counting the parts of a mail before it is read: a small file can have a million of them.
//!
//! What begins a part is for the parser to say: it looks for a boundary that a header names, wherever in a line it
//! stands. So its own stream is walked in its order, and nothing is kept. Lines of dashes in a text are no parts.

use mail_parser::{Header, HeaderName, HeaderValue, MessageParser, parsers::MessageStream};

/// Mails that were encoded inside of each other: the parser looks no deeper.
const DEEPEST: u32 = 3;

/// Whether a mail has more than `most` parts, those of mails in it included.
pub(super) fn more_than(most: usize, bytes: &[u8]) -> bool {
    let mut left = most;
    Walk { stream: MessageStream::new(bytes), at: Place::default(), outer: Vec::new() }
        .count(&mut left, DEEPEST)
        .is_none()
}

/// What the walk is in.
#[derive(Default)]
struct Place {
    /// What its parts begin with; none outside of all.
    boundary: Option<Vec<u8>>,
    /// It is a mail in a mail, whose end is that of what is around it.
    mail: bool,
    /// Its parts are mails unless they say something else.
    digest: bool,
}

struct Walk<'a> {
    stream: MessageStream<'a>,
    at: Place,
    outer: Vec<Place>,
}

/// What a part is, by its headers.
enum Part {
    Several { boundary: Vec<u8>, digest: bool },
    Mail,
    EncodedMail(Encoding),
    Leaf,
}

#[derive(Clone, Copy)]
enum Encoding {
    Base64,
    QuotedPrintable,
}

impl Walk<'_> {
    /// Takes every part from what is `left`; none when there are more.
    fn count(mut self, left: &mut usize, deepest: u32) -> Option<()> {
        let parser = MessageParser::default();
        let mut headers = Vec::new();
        while self.stream.parse_headers(&parser, &mut headers) {
            *left = left.checked_sub(1)?;
            let part = part_of(&headers, self.at.digest);
            headers.clear();
            match part {
                Part::Several { boundary, digest } if self.stream.seek_next_part(&boundary) => {
                    self.stream.skip_crlf();
                    let inner = Place { boundary: Some(boundary), mail: false, digest };
                    self.outer.push(std::mem::replace(&mut self.at, inner));
                    continue;
                }
                Part::Mail => {
                    let boundary = self.at.boundary.take();
                    let inner = Place { boundary, mail: true, digest: false };
                    self.outer.push(std::mem::replace(&mut self.at, inner));
                    continue;
                }
                Part::EncodedMail(encoding) if deepest > 0 => {
                    let inner = self.decoded(encoding);
                    let (at, outer) = (Place::default(), Vec::new());
                    let walk = Walk { stream: MessageStream::new(&inner), at, outer };
                    walk.count(left, deepest - 1)?;
                }
                _ => self.end_part(),
            }
            if !self.next_part() {
                break;
            }
        }
        Some(())
    }

    /// Goes behind the boundary that ends a part, or to the end.
    fn end_part(&mut self) {
        let (_, found) = self.stream.seek_part_end(self.at.boundary.as_deref());
        if !found {
            self.at.boundary = None;
        }
    }

    /// What an encoded mail is, and goes behind it.
    fn decoded(&mut self, encoding: Encoding) -> Vec<u8> {
        let boundary = self.at.boundary.as_deref().unwrap_or_default();
        let (end, bytes) = match encoding {
            Encoding::Base64 => self.stream.decode_base64_mime(boundary),
            Encoding::QuotedPrintable => self.stream.decode_quoted_printable_mime(boundary),
        };
        if end != usize::MAX {
            return bytes.into_owned();
        }
        // It is a text, then.
        self.end_part();
        Vec::new()
    }

    /// Whether another part follows: of this one, or of one around it where this one ends.
    fn next_part(&mut self) -> bool {
        while self.at.boundary.is_some() {
            if self.at.mail {
                let Some(outer) = self.outer.pop() else { return false };
                self.at = Place { boundary: self.at.boundary.take(), ..outer };
            }
            if !self.stream.is_multipart_end() {
                return true;
            }
            let Some(outer) = self.outer.pop() else { return false };
            self.at = outer;
            let Some(boundary) = self.at.boundary.as_deref() else { return false };
            if self.stream.seek_next_part_offset(boundary).is_none() {
                return false;
            }
        }
        false
    }
}

fn part_of(headers: &[Header<'_>], digest: bool) -> Part {
    // Of several of a name the last one counts.
    let value = |name| headers.iter().rev().find(|it| it.name == name).map(|it| &it.value);
    let kind = value(HeaderName::ContentType).and_then(HeaderValue::as_content_type);
    let (main, sub) = kind.map_or(("", None), |it| (it.ctype(), it.subtype()));
    if main == "multipart"
        && let Some(boundary) = kind.and_then(|it| it.attribute("boundary"))
    {
        let boundary = boundary.as_bytes().to_vec();
        return Part::Several { boundary, digest: sub == Some("digest") };
    }
    let mail = main == "message" && matches!(sub, Some("rfc822" | "global"));
    if !(mail || kind.is_none() && digest) {
        return Part::Leaf;
    }
    match value(HeaderName::ContentTransferEncoding) {
        Some(HeaderValue::Text(it)) if it.eq_ignore_ascii_case("base64") => {
            Part::EncodedMail(Encoding::Base64)
        }
        Some(HeaderValue::Text(it)) if it.eq_ignore_ascii_case("quoted-printable") => {
            Part::EncodedMail(Encoding::QuotedPrintable)
        }
        _ => Part::Mail,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many as the parser makes of it.
    fn parts(message: &mail_parser::Message<'_>) -> usize {
        let inner = message.parts.iter().map(|it| match &it.body {
            mail_parser::PartType::Message(inner) => parts(inner),
            _ => 0,
        });
        message.parts.len() + inner.sum::<usize>()
    }

    fn multipart(kind: &str, boundary: &str, parts: &[String]) -> String {
        let mut text = format!("Content-Type: multipart/{kind}; boundary=\"{boundary}\"\r\n\r\n");
        for part in parts {
            text.push_str(&format!("--{boundary}\r\n{part}\r\n"));
        }
        text + &format!("--{boundary}--\r\n")
    }

    fn mails() -> Vec<String> {
        let text = |it: &str| format!("Content-Type: text/plain\r\n\r\n{it}");
        let both = multipart("alternative", "ab", &[text("one"), text("--a is no line of mine")]);
        let simple = multipart("mixed", "a", &[text("x"), text("y"), text("z")]);
        let forwarded = format!("Content-Type: message/rfc822\r\n\r\nSubject: in\r\n{simple}");
        let encoded = "Content-Type: message/rfc822\r\nContent-Transfer-Encoding: base64\r\n\r\n\
            U3ViamVjdDogaW4KQ29udGVudC1UeXBlOiBtdWx0aXBhcnQvbWl4ZWQ7IGJvdW5kYXJ5PWsKCi0tawoKYQotLWsKCmIKLS1rLS0K";
        let quoted = "Content-Type: message/rfc822\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n\
            Subject: in\r\n\r\n=2D=2Dk";
        let bodies = [
            text("alone"),
            simple.clone(),
            both.clone(),
            // A boundary that another one begins with, inside of it and around it.
            multipart("mixed", "a", &[both.clone(), text("end")]),
            multipart("mixed", "abc", &[simple.clone(), both.clone()]),
            multipart("mixed", "q", &[forwarded.clone(), text("end")]),
            multipart("digest", "q", &["\r\nSubject: d\r\n\r\nin it".to_owned(), text("t")]),
            multipart("mixed", "q", &[encoded.to_owned(), quoted.to_owned(), text("end")]),
            multipart("mixed", "", &[text("no boundary")]),
            // A boundary that never comes, and one that is cut off.
            "Content-Type: multipart/mixed; boundary=gone\r\n\r\nhm".to_owned(),
            simple[..simple.len() - 9].to_owned(),
            multipart("mixed", "q", &[forwarded])[..200].to_owned(),
            "Content-Type: multipart/mixed;\r\n boundary*0=a; boundary*1=b\r\n\r\n--ab\r\n\r\nx\r\n--ab\r\n\r\ny"
                .to_owned(),
        ];
        bodies.iter().map(|it| format!("From: a@example.org\r\nSubject: s\r\n{it}")).collect()
    }

    #[test]
    fn as_many_parts_are_counted_as_the_parser_makes() {
        for mail in mails() {
            let message = MessageParser::default().parse(mail.as_bytes()).expect("a mail");
            let many = parts(&message);
            assert!(!more_than(many, mail.as_bytes()), "{many}: {mail}");
            assert!(more_than(many - 1, mail.as_bytes()), "{many}: {mail}");
        }
    }

    #[test]
    fn parts_are_counted_whatever_their_boundary_is() {
        for boundary in ["x", "-", "cut", "a boundary of many letters"] {
            let part = "Content-Type: text/plain\r\n\r\nx".to_owned();
            let mail = multipart("mixed", boundary, &vec![part; 1000]);
            let mail = format!("From: a\r\nSubject: b\r\n{mail}");
            assert!(more_than(1000, mail.as_bytes()), "{boundary}");
            assert!(!more_than(1001, mail.as_bytes()), "{boundary}");
        }
    }

    #[test]
    fn lines_of_dashes_are_no_parts() {
        let rules = "--------- cut here ---------\n-- a comment\n--x\n".repeat(5000);
        let mail = format!("From: a\nSubject: b\nDate: c\n\n{rules}");
        assert!(!more_than(1, mail.as_bytes()));
    }
}
