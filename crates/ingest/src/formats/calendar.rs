//! Calendars (iCalendar, RFC 5545): every event, task and journal entry is a section of its own.

mod moments;

use riddle_types::{Block, BlockKind, Document, Location};

use self::moments::Moment;
pub(super) use self::moments::{DAY, date, days, stamp};
use super::{
    Shares,
    lines::{Property, properties, when},
};
use crate::{outcome::ParseOutcome, remark::Remark};

/// Most entries of one calendar.
const MOST_ENTRIES: usize = 20_000;

/// Most days of a series that are said to be left out or changed.
const MOST_DAYS: usize = 200;

pub(super) fn parse(_name: &str, bytes: &[u8], _shares: &mut Shares) -> ParseOutcome {
    let mut document = Document::default();
    let mut open: Option<(String, Vec<Property>)> = None;
    let (mut entries, mut inside) = (0, 0);
    for property in properties(bytes) {
        let part = property.value.trim().to_ascii_uppercase();
        let begins = matches!(part.as_str(), "VEVENT" | "VTODO" | "VJOURNAL");
        match (property.name.as_str(), &mut open) {
            ("BEGIN", None) if begins => open = Some((part, vec![property])),
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
                let location = Location::Line {
                    start: lines.first().map_or(1, |it| it.line),
                    end: lines.last().map_or(1, |it| it.line),
                };
                document.blocks.extend(entry(&what, &lines, location));
            }
            ("END", Some(_)) => inside = i32::max(inside - 1, 0),
            ("X-WR-CALNAME", None) => document.title = Some(property.value),
            (_, Some((_, lines))) if inside == 0 => lines.push(property),
            _ => {}
        }
    }
    ParseOutcome::Parsed(document)
}

/// An event, a task or a journal entry: what it is about, and below it the rest.
pub(super) fn entry(what: &str, lines: &[Property], location: Location) -> Vec<Block> {
    series(what, lines, &[], location)
}

/// The same, of a series of which some are not as the others: each of these has what it is instead of (`RECURRENCE-ID`)
/// and what is not as in the series.
// Long: what an entry says, in the order in which it is said.
pub(super) fn series(
    what: &str,
    lines: &[Property],
    changed: &[Vec<Property>],
    location: Location,
) -> Vec<Block> {
    let value = |name: &str| {
        let found = lines.iter().find(|it| it.name == name);
        found.map(|it| it.value.trim()).filter(|it| !it.is_empty())
    };
    let moment = |name: &str| lines.iter().find(|it| it.name == name).and_then(Moment::of);
    let begin = moment("DTSTART");
    // An entry has an end or a length.
    let length = || value("DURATION").and_then(|it| begin.as_ref()?.later(it));
    let all = |name: &str| -> Vec<String> {
        lines.iter().filter(|it| it.name == name).map(person).filter(|it| !it.is_empty()).collect()
    };
    let title = value("SUMMARY").unwrap_or(match what {
        "VTODO" => "Task",
        "VJOURNAL" => "Journal entry",
        _ => "Event",
    });
    let due = || moment("DUE").or_else(length);
    // A task that says only when it is due repeats by that.
    let first = begin.clone().or_else(|| moment("DUE"));
    let mut text = Vec::new();
    let mut say = |label: &str, what: Option<String>| {
        text.extend(what.filter(|it| !it.is_empty()).map(|it| format!("{label}: {it}")));
    };
    match what {
        "VTODO" => {
            say("When", begin.as_ref().map(Moment::said));
            say("Due", due().map(|it| it.said()));
        }
        _ => say("When", begin.as_ref().map(|it| it.until(moment("DTEND").or_else(length)))),
    }
    say("Done", value("COMPLETED").map(when));
    say("Where", value("LOCATION").map(str::to_owned));
    say("Organizer", Some(all("ORGANIZER").join(", ")));
    say("With", Some(all("ATTENDEE").join(", ")));
    say("Contact", Some(all("CONTACT").join(", ")));
    say("Repeats", value("RRULE").map(often));
    let days = |name: &str| several(lines.iter().filter(|it| it.name == name), first.as_ref());
    say("Also on", days("RDATE"));
    say("Not on", days("EXDATE"));
    let instead = lines.iter().find(|it| it.name == "RECURRENCE-ID");
    say("Instead of", instead.and_then(|it| instead_of(it, first.as_ref())));
    for one in changed.iter().take(MOST_DAYS) {
        let (day, what) = one_of(one, first.as_ref());
        say(&format!("Instead of {day}"), Some(what));
    }
    let more = changed.len().saturating_sub(MOST_DAYS);
    say("Changed", (more > 0).then(|| format!("{more} more")));
    say("Status", value("STATUS").map(str::to_ascii_lowercase));
    say("About", Some(all("CATEGORIES").join(", ")));
    say("Link", value("URL").map(str::to_owned));
    say("Notes", value("DESCRIPTION").map(str::to_owned));
    say("Comment", Some(all("COMMENT").join("\n")));
    let mut blocks = vec![Block::new(BlockKind::Heading(1), title.to_owned(), location.clone())];
    if !text.is_empty() {
        blocks.push(Block::new(BlockKind::Paragraph, text.join("\n"), location));
    }
    blocks
}

/// How often something repeats: a rule, its last day like other days, or what a person says.
fn often(rule: &str) -> String {
    if !rule.contains('=') {
        return rule.to_owned();
    }
    let part = |part: &str| match part.split_once('=') {
        Some((name, last)) if name.trim().eq_ignore_ascii_case("UNTIL") => {
            format!("until={}", when(last.trim()))
        }
        _ => part.to_ascii_lowercase(),
    };
    rule.split(';').map(part).collect::<Vec<_>>().join(", ")
}

/// Moments of a series, in lists or one by one: by their days where they are at its time.
fn several<'a>(
    lists: impl Iterator<Item = &'a Property>,
    begin: Option<&Moment>,
) -> Option<String> {
    let each = lists.flat_map(|list| {
        // Calendars of before 1998 have other marks between them.
        let each = list.value.split([',', ';']);
        // One may have an end or a length of its own.
        let begins = each.map(|it| it.split_once('/').map_or(it, |it| it.0).to_owned());
        begins.map(|value| Property { value, ..list.clone() })
    });
    let mut said: Vec<String> = Vec::new();
    let mut more = 0;
    for moment in each.filter_map(|it| Moment::of(&it)) {
        if said.len() < MOST_DAYS {
            said.push(moment.said_in_series(begin));
        } else {
            more += 1;
        }
    }
    if more > 0 {
        said.push(format!("{more} more"));
    }
    (!said.is_empty()).then(|| said.join(", "))
}

/// What an entry of its own is instead of, in the series that it is of; none if that would take place then, too.
fn instead_of(property: &Property, begin: Option<&Moment>) -> Option<String> {
    let after = property.parameter("RANGE").is_some_and(|it| it == "THISANDFUTURE");
    let moment = Moment::of(property).filter(|it| after || Some(it) != begin)?;
    Some(format!("{}{}", moment.said(), if after { " and all after it" } else { "" }))
}

/// One of a series that is not as the others: its day, and what is instead: `2026-03-05 10:00 (March); where: Hull`.
fn one_of(lines: &[Property], begin: Option<&Moment>) -> (String, String) {
    let find = |name: &str| lines.iter().find(|it| it.name == name);
    let moment = |name: &str| find(name).and_then(Moment::of);
    let value = |name: &str| find(name).map(|it| it.value.clone());
    let when = moment("DTSTART").map(|it| it.until(moment("DTEND")));
    let place = value("LOCATION").map(|it| format!("where: {it}"));
    let parts = [value("SUMMARY"), when, place, value("STATUS")];
    let day = moment("RECURRENCE-ID").map_or(String::new(), |it| it.said_in_series(begin));
    (day, parts.into_iter().flatten().collect::<Vec<_>>().join("; "))
}

/// Who is meant: the name in the parameters, else the address.
fn person(property: &Property) -> String {
    let address = property.value.trim();
    let address = address
        .get(..7)
        .filter(|it| it.eq_ignore_ascii_case("mailto:"))
        .map_or(address, |_| &address[7..]);
    match property.parameter("CN") {
        Some(name) => format!("{name} <{address}>"),
        None => address.to_owned(),
    }
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
                "When: 2026-03-04 10:00 Europe/Zurich (March) to 2026-03-04 11:30 Europe/Zurich (March)\n\
                 Where: Wells, pier 3\nWith: Ann Hale <ann@example.org>\nNotes: bring paint",
                "Buy paint",
                "Due: 2026-03-01 (March)",
            ]
        );
        assert_eq!(document.blocks[0].location, Location::Line { start: 3, end: 14 });
    }
    fn said(entry: &str) -> String {
        let text = format!("BEGIN:VCALENDAR\n{entry}END:VCALENDAR\n");
        let outcome = parse("x.ics", text.as_bytes(), &mut Shares::tried());
        let ParseOutcome::Parsed(document) = outcome else { panic!("parses") };
        document.blocks.last().map(|it| it.text.clone()).unwrap_or_default()
    }

    #[test]
    fn an_event_with_a_length_has_an_end() {
        let event = |of: &str| said(&format!("BEGIN:VEVENT\nSUMMARY:x\n{of}END:VEVENT\n"));
        assert_eq!(
            event("DTSTART;TZID=Europe/Zurich:20260228T223000\nDURATION:PT2H15M\n"),
            "When: 2026-02-28 22:30 Europe/Zurich (February) to 2026-03-01 00:45 Europe/Zurich (March)"
        );
        assert_eq!(
            event("DTSTART:20260304T100000Z\nDURATION:P1W\n"),
            "When: 2026-03-04 10:00 UTC (March) to 2026-03-11 10:00 UTC (March)"
        );
        // The end that is said counts, and a flight lands in another zone.
        assert_eq!(
            event(
                "DTSTART;TZID=Europe/Zurich:20260304T100000\nDURATION:PT9H\n\
                 DTEND;TZID=\"America/New_York\":20260304T130000\n"
            ),
            "When: 2026-03-04 10:00 Europe/Zurich (March) to 2026-03-04 13:00 America/New_York (March)"
        );
        for odd in ["-PT1H", "PT", "1H", "PT99999999999999999999H", "PTxH", ""] {
            assert_eq!(
                event(&format!("DTSTART:20260304T100000\nDURATION:{odd}\n")),
                "When: 2026-03-04 10:00 (March)",
                "{odd}"
            );
        }
    }

    #[test]
    fn days_that_a_series_leaves_out_and_what_is_instead_are_said() {
        let event = |of: &str| said(&format!("BEGIN:VEVENT\nSUMMARY:x\n{of}END:VEVENT\n"));
        let begin = "DTSTART;TZID=Europe/Zurich:20260302T110000\n";
        let said = "When: 2026-03-02 11:00 Europe/Zurich (March)\n";
        assert_eq!(
            event(&format!(
                "{begin}RRULE:FREQ=WEEKLY;BYDAY=MO\n\
                 EXDATE;TZID=Europe/Zurich:20260309T110000,20260316T110000\n\
                 EXDATE;VALUE=DATE:20260323;20260324\nEXDATE:20260330T090000Z\n\
                 RDATE;TZID=Europe/Zurich:20260310T120000\n"
            )),
            format!(
                "{said}Repeats: freq=weekly, byday=mo\nAlso on: 2026-03-10 12:00 Europe/Zurich (March)\n\
                 Not on: 2026-03-09 (March), 2026-03-16 (March), 2026-03-23 (March), \
                 2026-03-24 (March), 2026-03-30 09:00 UTC (March)"
            )
        );
        let instead = "RECURRENCE-ID;TZID=Europe/Zurich:20260301T110000\n";
        assert_eq!(
            event(&format!("{begin}{instead}")),
            format!("{said}Instead of: 2026-03-01 11:00 Europe/Zurich (March)")
        );
        let after = instead.replace(";TZID", ";RANGE=THISANDFUTURE;TZID");
        assert_eq!(
            event(&format!("{begin}{after}")),
            format!("{said}Instead of: 2026-03-01 11:00 Europe/Zurich (March) and all after it")
        );
        // Another name at the same time.
        assert_eq!(
            event(&format!("{begin}{}", begin.replace("DTSTART", "RECURRENCE-ID"))),
            said.trim()
        );
        assert_eq!(event(&format!("{begin}EXDATE:\nEXDATE:,,\n")), said.trim());
        let many = "EXDATE;TZID=Europe/Zurich:20260309T110000\n".repeat(MOST_DAYS + 3);
        let many = event(&format!("{begin}{many}"));
        assert!(many.ends_with(" (March), 3 more"), "{many}");
    }

    #[test]
    fn a_rule_says_its_last_day_as_other_days_are_said() {
        assert_eq!(
            often("FREQ=WEEKLY;UNTIL=20261231T225959Z;BYDAY=MO"),
            "freq=weekly, until=2026-12-31 22:59 UTC (December), byday=mo"
        );
        assert_eq!(often("FREQ=DAILY;until=20261231"), "freq=daily, until=2026-12-31 (December)");
        assert_eq!(often("FREQ=DAILY;UNTIL=;COUNT=3"), "freq=daily, until=, count=3");
        assert_eq!(often("every Monday; or so"), "every Monday; or so");
    }

    #[test]
    fn days_end_with_the_last_one() {
        let event = |of: &str| said(&format!("BEGIN:VEVENT\nSUMMARY:x\n{of}END:VEVENT\n"));
        let days = "When: 2026-12-30 (December) to 2027-01-01 (January)";
        assert_eq!(event("DTSTART;VALUE=DATE:20261230\nDTEND;VALUE=DATE:20270102\n"), days);
        assert_eq!(event("DTSTART;VALUE=DATE:20261230\nDURATION:P3D\n"), days);
        let day = "When: 2026-12-30 (December)";
        assert_eq!(event("DTSTART;VALUE=DATE:20261230\nDTEND;VALUE=DATE:20261231\n"), day);
        assert_eq!(event("DTSTART;VALUE=DATE:20261230\nDURATION:P1D\n"), day);
        assert_eq!(event("DTSTART;VALUE=DATE:20261230\n"), day);
    }

    #[test]
    fn a_task_with_a_length_is_due_at_its_end() {
        let task = "BEGIN:VTODO\nSUMMARY:x\nDTSTART:20260304T100000\nDURATION:P1DT1H\nEND:VTODO\n";
        assert_eq!(said(task), "When: 2026-03-04 10:00 (March)\nDue: 2026-03-05 11:00 (March)");
    }

    #[test]
    fn days_of_a_task_that_repeats_are_said_as_those_of_an_event() {
        let task = |of: &str| said(&format!("BEGIN:VTODO\nSUMMARY:x\n{of}END:VTODO\n"));
        let rest = "RRULE:FREQ=MONTHLY;UNTIL=20260601T100000Z\n\
            RDATE;TZID=Europe/Zurich:20260315T120000\nEXDATE;TZID=Europe/Zurich:20260401T120000\n";
        let repeats = "Repeats: freq=monthly, until=2026-06-01 10:00 UTC (June)\n\
            Also on: 2026-03-15 (March)\nNot on: 2026-04-01 (April)";
        let at = "TZID=Europe/Zurich:20260301T120000\n";
        let said = "2026-03-01 12:00 Europe/Zurich (March)";
        assert_eq!(task(&format!("DTSTART;{at}{rest}")), format!("When: {said}\n{repeats}"));
        // Most tasks have no beginning.
        assert_eq!(task(&format!("DUE;{at}{rest}")), format!("Due: {said}\n{repeats}"));
        let other = "RECURRENCE-ID;TZID=Europe/Zurich:20260501T120000\n";
        assert_eq!(
            task(&format!("DUE;TZID=Europe/Zurich:20260510T120000\n{other}")),
            "Due: 2026-05-10 12:00 Europe/Zurich (May)\nInstead of: 2026-05-01 12:00 Europe/Zurich (May)"
        );
        // Another name on the same day.
        assert_eq!(task(&format!("DUE;{at}RECURRENCE-ID;{at}")), format!("Due: {said}"));
    }

    #[test]
    fn more_of_a_series_may_have_a_length() {
        assert_eq!(
            said(
                "BEGIN:VEVENT\nSUMMARY:x\nDTSTART:20260304T100000Z\n\
                 RDATE;VALUE=PERIOD:20260305T100000Z/PT3H,20260306T110000Z/20260306T120000Z\n\
                 CONTACT:Cy\\, +44 174\nCOMMENT:rain or shine\nEND:VEVENT\n"
            ),
            "When: 2026-03-04 10:00 UTC (March)\nContact: Cy, +44 174\n\
             Also on: 2026-03-05 (March), 2026-03-06 11:00 UTC (March)\nComment: rain or shine"
        );
    }
}
