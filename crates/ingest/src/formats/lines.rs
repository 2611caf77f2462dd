//! What calendars and address books are written in: properties on folded lines.

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
    let (text, _) = decode(bytes);
    let mut unfolded: Vec<(u32, String)> = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let line = line.trim_end_matches('\r');
        // Quoted-printable lines of old address books end in `=`; what follows goes on as it is (RFC 2045 6.7).
        if let Some((_, last)) = unfolded.last_mut()
            && last.ends_with('=')
            && last.len() < LONGEST
            && is_quoted(last)
        {
            last.pop();
            last.push_str(line);
            continue;
        }
        match (line.strip_prefix([' ', '\t']), unfolded.last_mut()) {
            (Some(more), Some((_, last))) if last.len() < LONGEST => last.push_str(more),
            (Some(_), Some(_)) => {}
            _ => unfolded.push((number, line.to_owned())),
        }
    }
    unfolded.iter().filter_map(|(number, line)| property(line, *number)).collect()
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
    let value = if is_quoted(parameters) { unquoted(value) } else { unescaped(value) };
    Some(Property { name, parameters: parameters.to_owned(), value, line: number })
}

fn is_quoted(parameters: &str) -> bool {
    let head = parameters.split_once(':').map_or(parameters, |it| it.0);
    head.to_ascii_uppercase().contains("QUOTED-PRINTABLE")
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

fn unquoted(value: &str) -> String {
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
    decode(&out).0
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
    fn a_quoted_line_goes_on_with_a_space() {
        let text =
            b"SUMMARY;ENCODING=QUOTED-PRINTABLE:F=FChrung=\r\n am Abend=\r\ns\r\nNOTE:a=\r\n b\r\n";
        let seen: Vec<String> = properties(text).into_iter().map(|it| it.value).collect();
        assert_eq!(seen, ["F\u{fc}hrung am Abends", "a=b"]);
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
