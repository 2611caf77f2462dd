//! What calendars and address books are written in: properties on folded lines.

use std::borrow::Cow;

use encoding_rs::Encoding;

use crate::text::decode;

/// `NAME;PARAMETER=VALUE:TEXT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Property {
    /// Upper case, without the group before a dot.
    pub(super) name: String,
    /// As written.
    pub(super) parameters: String,
    pub(super) value: String,
    /// The line it begins on, from 1.
    pub(super) line: u32,
}

impl Property {
    /// The value of a parameter, as written and without its quotes.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        let mut quoted = false;
        let parameters = self.parameters.split(|c| {
            quoted ^= c == '"';
            c == ';' && !quoted
        });
        let mut pairs = parameters.filter_map(|it| it.split_once('='));
        let (_, value) = pairs.find(|it| it.0.trim().eq_ignore_ascii_case(name))?;
        Some(value.trim().trim_matches('"').trim()).filter(|it| !it.is_empty())
    }
}

/// Longest value that is kept: pictures and sounds are longer.
const LONGEST: usize = 64 << 10;

/// All properties of a file, in order.
pub(super) fn properties(bytes: &[u8]) -> Vec<Property> {
    // Its letters have two bytes each, none of which is a line's end by itself.
    let wide = bytes.starts_with(b"\xFF\xFE") || bytes.starts_with(b"\xFE\xFF");
    let bytes = if wide { Cow::Owned(decode(bytes).0.into_bytes()) } else { Cow::Borrowed(bytes) };
    let (numbers, unfolded) = unfolded(&bytes);
    let (text, _) = decode(&unfolded);
    let lines = text.split('\n').zip(numbers);
    lines.filter_map(|(line, number)| property(line, number)).collect()
}

/// The lines of a file, each in one piece, and on which line each begins. They are folded by bytes, not by letters: one
/// may be cut in two (RFC 5545, 3.1), and is read when it is whole again.
fn unfolded(bytes: &[u8]) -> (Vec<u32>, Vec<u8>) {
    let (mut numbers, mut all) = (Vec::new(), Vec::<u8>::new());
    let (mut begin, mut cut) = (0, false);
    // Old computers of Apple's ended lines by the other sign alone.
    let end = if bytes.contains(&b'\n') { b'\n' } else { b'\r' };
    for (line, number) in bytes.split(|it| *it == end).zip(1..) {
        let mut line = line;
        while let Some(rest) = line.strip_suffix(b"\r") {
            line = rest;
        }
        let last = &all[begin..];
        if !numbers.is_empty() && goes_on(last) {
            // Quoted-printable lines of old address books end in `=` and go on at the margin.
            all.pop();
            all.extend_from_slice(line);
        } else if let Some(more) = line.strip_prefix(b" ").or_else(|| line.strip_prefix(b"\t"))
            && !numbers.is_empty()
        {
            if last.len() < LONGEST {
                all.extend_from_slice(more);
            } else if !std::mem::replace(&mut cut, true) {
                // No part of a letter stays.
                while all.last().is_some_and(|it| !it.is_ascii()) {
                    all.pop();
                }
            }
        } else {
            if !numbers.is_empty() {
                all.push(b'\n');
            }
            (begin, cut) = (all.len(), false);
            numbers.push(number);
            all.extend_from_slice(line);
        }
    }
    (numbers, all)
}

/// Whether a quoted-printable line says that the next one belongs to it.
fn goes_on(line: &[u8]) -> bool {
    const QUOTED: &[u8] = b"QUOTED-PRINTABLE";
    let head = line.iter().position(|it| *it == b':').map_or(&line[..0], |at| &line[..at]);
    line.ends_with(b"=") && head.windows(QUOTED.len()).any(|it| it.eq_ignore_ascii_case(QUOTED))
}

fn property(line: &str, number: u32) -> Option<Property> {
    // A colon inside of quotes belongs to a parameter.
    let mut quoted = false;
    let colon = line.char_indices().find(|(_, c)| {
        quoted ^= *c == '"';
        *c == ':' && !quoted
    })?;
    let (head, value) = (&line[..colon.0], &line[colon.0 + 1..]);
    let (name, parameters) = head.split_once(';').unwrap_or((head, ""));
    let name = name.rsplit('.').next().unwrap_or(name).trim().to_ascii_uppercase();
    let quoted = parameters.to_ascii_uppercase().contains("QUOTED-PRINTABLE");
    let mut property =
        Property { name, parameters: parameters.to_owned(), value: String::new(), line: number };
    property.value = if quoted {
        let bytes = unquoted(value);
        // Few bytes say little of what they are written in; a card may say it.
        let named = property.parameter("CHARSET");
        match named.and_then(|it| Encoding::for_label(it.as_bytes())) {
            Some(encoding) => encoding.decode(&bytes).0.into_owned(),
            None => decode(&bytes).0,
        }
        .replace("\r\n", "\n")
    } else {
        unescaped(value)
    };
    Some(property)
}

fn unescaped(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(c) = characters.next() {
        match (c, c == '\\') {
            (_, true) => match characters.next() {
                Some('n' | 'N') => out.push('\n'),
                Some(other) => out.push(other),
                None => {}
            },
            (other, false) => out.push(other),
        }
    }
    out
}

fn unquoted(value: &str) -> Vec<u8> {
    let bytes = value.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = bytes.get(at + 1..at + 3).and_then(|it| std::str::from_utf8(it).ok());
        match (bytes[at], hex.and_then(|it| u8::from_str_radix(it, 16).ok())) {
            (b'=', Some(byte)) => {
                out.push(byte);
                at += 3;
            }
            (byte, _) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    out
}

/// A day and time of a calendar as people write them: `20260304T100000Z` is `2026-03-04 10:00 UTC (March)`.
pub(super) fn when(value: &str) -> String {
    when_in(value, None)
}

/// The same; a time that is not that of UTC says of which zone it is.
pub(super) fn when_in(value: &str, zone: Option<&str>) -> String {
    let digits = value.get(..8).filter(|it| it.bytes().all(|it| it.is_ascii_digit()));
    let Some(day) = digits else { return value.to_owned() };
    let day = format!("{}-{}-{}", &day[..4], &day[4..6], &day[6..8]);
    let clock = value.get(9..13).filter(|it| it.bytes().all(|it| it.is_ascii_digit()));
    let clock = clock.map(|it| format!(" {}:{}", &it[..2], &it[2..])).unwrap_or_default();
    let zone = match zone {
        _ if value.ends_with('Z') => " UTC".to_owned(),
        Some(zone) if !clock.is_empty() => format!(" {zone}"),
        _ => String::new(),
    };
    let month = crate::table::month_of(&day).map(|it| format!(" ({it})")).unwrap_or_default();
    format!("{day}{clock}{zone}{month}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_unfolded_and_values_unescaped() {
        let text = b"item1.TEL;TYPE=\"a:b\":0174\r\n 55\r\nNOTE:one\\, two\\nthree\r\nnonsense\r\n\
            N;ENCODING=QUOTED-PRINTABLE:M=C3=BCller=\r\n; Ann\r\n";
        let seen: Vec<(String, String, u32)> =
            properties(text).into_iter().map(|it| (it.name, it.value, it.line)).collect();
        assert_eq!(
            seen,
            [
                ("TEL".to_owned(), "017455".to_owned(), 1),
                ("NOTE".to_owned(), "one, two\nthree".to_owned(), 3),
                ("N".to_owned(), "Müller; Ann".to_owned(), 5),
            ]
        );
        assert_eq!(when("20260304T100000Z"), "2026-03-04 10:00 UTC (March)");
        assert_eq!(
            when_in("20260304T100000", Some("Europe/Zurich")),
            "2026-03-04 10:00 Europe/Zurich (March)"
        );
        assert_eq!(when_in("20260304T100000Z", Some("x")), "2026-03-04 10:00 UTC (March)");
        assert_eq!(when_in("20260304", Some("Europe/Zurich")), "2026-03-04 (March)");
        assert_eq!(when("20260304"), "2026-03-04 (March)");
        assert_eq!(when("soon"), "soon");
    }

    #[test]
    fn letters_that_a_fold_has_cut_in_two_are_whole() {
        let values = |text: &[u8]| -> Vec<(String, u32)> {
            properties(text).into_iter().map(|it| (it.value, it.line)).collect()
        };
        let text = "SUMMARY:Naßdock für Ömer\r\nLOCATION:Tübingen\r\n".as_bytes();
        let seen = values(text);
        assert_eq!(seen, [("Naßdock für Ömer".to_owned(), 1), ("Tübingen".to_owned(), 2)]);
        for at in 9..27 {
            let folded = [&text[..at], b"\r\n ", &text[at..]].concat();
            assert_eq!(values(&folded), [(seen[0].0.clone(), 1), (seen[1].0.clone(), 3)]);
        }
        assert_eq!(values(b"FN:Ann\rNOTE:tall\r  one\r")[1], ("tall one".to_owned(), 2));
        // With the mark of its order, and in letters of two bytes.
        assert_eq!(values(&[b"\xEF\xBB\xBF", text].concat())[0], seen[0]);
        let wide: Vec<u8> =
            "\u{FEFF}SUMMARY:Na\n ß\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(values(&wide), [("Naß".to_owned(), 1)]);
        // What is too long is cut between two letters, and what follows is read.
        let long = format!("NOTE:{}\nFN:Ömer\n", "\n ßß".repeat(LONGEST));
        let long = [b"NOTE:x".as_slice(), &long.as_bytes()[5..]].concat();
        assert_eq!(values(&long)[1].0, "Ömer");
    }

    #[test]
    fn a_quoted_line_goes_on_with_a_space() {
        let text =
            b"SUMMARY;ENCODING=QUOTED-PRINTABLE:F=FChrung=\r\n am Abend=\r\ns\r\nNOTE:a=\r\n b\r\n";
        let seen: Vec<String> = properties(text).into_iter().map(|it| it.value).collect();
        assert_eq!(seen, ["F\u{fc}hrung am Abends", "a=b"]);
    }

    #[test]
    fn quoted_values_go_on_at_the_margin_and_are_in_their_encoding() {
        let values = |text: &[u8]| -> Vec<String> {
            properties(text).into_iter().map(|it| it.value).collect()
        };
        let text =
            b"NOTE;ENCODING=QUOTED-PRINTABLE;CHARSET=UTF-8:M=C3=BC=\r\nller=0D=0Aand=\r\n  bad=20=\r\n\
            sons\r\nFN:QUOTED-PRINTABLE=\r\nN:x\r\n";
        assert_eq!(values(text), ["M\u{fc}ller\nand  bad sons", "QUOTED-PRINTABLE=", "x"]);
        let text = b"FN;CHARSET=windows-1251;ENCODING=QUOTED-PRINTABLE:=C0=ED=ED=E0\r\n";
        assert_eq!(values(text), ["\u{410}\u{43d}\u{43d}\u{430}"]);
        let text = b"FN;CHARSET=nonsense;ENCODING=QUOTED-PRINTABLE:=C3=BC\r\n";
        assert_eq!(values(text), ["\u{fc}"]);
    }

    #[test]
    fn parameters_are_found_by_their_names() {
        let text = b"ATTENDEE;Cn=\"McHale; Ann\";ROLE=CHAIR;X-CN=no:mailto:a@example.org\n";
        let property = properties(text).remove(0);
        assert_eq!(property.parameter("CN"), Some("McHale; Ann"));
        assert_eq!(property.parameter("role"), Some("CHAIR"));
        assert_eq!(property.parameter("TZID"), None);
    }
}
