//! Calendars (iCalendar): every event, task and journal entry is a section of its own.

use riddle_types::{Block, BlockKind, Document, Location};

use super::{
    Shares,
    lines::{Property, properties, when},
};
use crate::{outcome::ParseOutcome, remark::Remark};

/// Most entries of one calendar.
const MOST_ENTRIES: usize = 20_000;

pub(super) fn parse(_name: &str, bytes: &[u8], _shares: &mut Shares) -> ParseOutcome {
    let mut document = Document::default();
    let mut open: Option<(String, Vec<Property>)> = None;
    let (mut entries, mut inside) = (0, 0);
    for property in properties(bytes) {
        let part = property.value.trim().to_ascii_uppercase();
        let entry = matches!(part.as_str(), "VEVENT" | "VTODO" | "VJOURNAL");
        match (property.name.as_str(), &mut open) {
            ("BEGIN", None) if entry => open = Some((part, vec![property])),
            // Alarms stand inside of events.
            ("BEGIN", Some(_)) => inside += 1,
            ("END", Some((what, _))) if inside == 0 && *what == part => {
                let (what, mut lines) = open.take().unwrap_or_default();
                lines.push(property);
                entries += 1;
                if entries > MOST_ENTRIES {
                    document.warnings.push(Remark::Entries { most: MOST_ENTRIES }.into());
                    break;
                }
                push(&what, &lines, &mut document);
            }
            ("END", Some(_)) => inside = i32::max(inside - 1, 0),
            ("X-WR-CALNAME", None) => document.title = Some(property.value),
            (_, Some((_, lines))) if inside == 0 => lines.push(property),
            _ => {}
        }
    }
    ParseOutcome::Parsed(document)
}

fn push(what: &str, lines: &[Property], document: &mut Document) {
    let value = |name: &str| {
        let found = lines.iter().find(|it| it.name == name);
        found.map(|it| it.value.trim()).filter(|it| !it.is_empty())
    };
    let all = |name: &str| -> Vec<String> {
        lines.iter().filter(|it| it.name == name).map(person).filter(|it| !it.is_empty()).collect()
    };
    let (start, end) = match lines {
        [first, .., last] => (first.line, last.line),
        _ => return,
    };
    let location = Location::Line { start, end };
    let title = value("SUMMARY").unwrap_or(match what {
        "VTODO" => "Task",
        "VJOURNAL" => "Journal entry",
        _ => "Event",
    });
    let mut text = Vec::new();
    let mut say = |label: &str, what: Option<String>| {
        text.extend(what.filter(|it| !it.is_empty()).map(|it| format!("{label}: {it}")));
    };
    say("When", span(value("DTSTART"), value("DTEND")));
    say("Due", value("DUE").map(when));
    say("Done", value("COMPLETED").map(when));
    say("Where", value("LOCATION").map(str::to_owned));
    say("Organizer", Some(all("ORGANIZER").join(", ")));
    say("With", Some(all("ATTENDEE").join(", ")));
    say("Repeats", value("RRULE").map(|it| it.to_ascii_lowercase().replace(';', ", ")));
    say("Status", value("STATUS").map(str::to_ascii_lowercase));
    say("About", Some(all("CATEGORIES").join(", ")));
    say("Link", value("URL").map(str::to_owned));
    say("Notes", value("DESCRIPTION").map(str::to_owned));
    document.blocks.push(Block::new(BlockKind::Heading(1), title.to_owned(), location.clone()));
    if !text.is_empty() {
        document.blocks.push(Block::new(BlockKind::Paragraph, text.join("\n"), location));
    }
}

fn span(start: Option<&str>, end: Option<&str>) -> Option<String> {
    let start = start?;
    Some(match end {
        // The end of a day-long event is the day after it.
        Some(end) if end != start && end.len() > 8 => format!("{} to {}", when(start), when(end)),
        _ => when(start),
    })
}

/// Who is meant: the name in the parameters, else the address.
fn person(property: &Property) -> String {
    let name = property.parameters.split("CN=").nth(1);
    let name = name.map(|it| it.split(';').next().unwrap_or(it).trim_matches('"').to_owned());
    let address = property.value.trim();
    let address = address
        .get(..7)
        .filter(|it| it.eq_ignore_ascii_case("mailto:"))
        .map_or(address, |_| &address[7..]);
    match name {
        Some(name) if !name.is_empty() => format!("{} <{address}>", capitals(&name)),
        _ => address.to_owned(),
    }
}

/// Parameters are kept in capitals.
fn capitals(name: &str) -> String {
    let word = |it: &str| {
        let mut characters = it.chars();
        let first = characters.next().map(String::from).unwrap_or_default();
        first + &characters.as_str().to_lowercase()
    };
    name.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_say_when_where_and_with_whom() {
        let text = b"BEGIN:VCALENDAR\r\nX-WR-CALNAME:Boat\r\nBEGIN:VEVENT\r\nSUMMARY:Dry dock\r\n\
            DTSTART;TZID=Europe/Zurich:20260304T100000\r\nDTEND;TZID=Europe/Zurich:20260304T113000\r\n\
            LOCATION:Wells\\, pier 3\r\nATTENDEE;CN=\"Ann Hale\":mailto:ann@example.org\r\n\
            BEGIN:VALARM\r\nDESCRIPTION:ring\r\nEND:VALARM\r\nDESCRIPTION:bring\r\n  paint\r\nEND:VEVENT\r\n\
            BEGIN:VTODO\r\nSUMMARY:Buy paint\r\nDUE:20260301\r\nEND:VTODO\r\nBEGIN:VEVENT\r\nSUMMARY:cut off";
        let ParseOutcome::Parsed(document) = parse("x.ics", text, &mut Shares::tried()) else {
            panic!("parses")
        };
        assert_eq!(document.title.as_deref(), Some("Boat"));
        let texts: Vec<&str> = document.blocks.iter().map(|it| it.text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "Dry dock",
                "When: 2026-03-04 10:00 (March) to 2026-03-04 11:30 (March)\nWhere: Wells, pier 3\n\
                 With: Ann Hale <ann@example.org>\nNotes: bring paint",
                "Buy paint",
                "Due: 2026-03-01 (March)",
            ]
        );
        assert_eq!(document.blocks[0].location, Location::Line { start: 3, end: 14 });
    }
}
