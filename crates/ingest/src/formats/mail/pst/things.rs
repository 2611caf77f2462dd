//! What Outlook keeps beside mails: people, groups of them, appointments, tasks and a journal (MS-OXOCNTC, MS-OXOCAL,
//! MS-OXOTASK, MS-OXOJRNL).
//!
//! Each is written down as address books and calendars are (vCard, iCalendar), and read like theirs.

use riddle_types::{Block, Location};

use super::{
    line,
    names::{ADDRESS, APPOINTMENT, COMMON, JOURNAL, Names, TASK},
    properties::{Properties, TEXT as NARROW_TEXT, WIDE_TEXT},
    series::{Pattern, Series, Text},
    store::number,
    subject,
    table::{COPY, HIDDEN, Person, TO},
    zone::Zone,
};
use crate::formats::{
    calendar::{self, stamp},
    contacts,
    lines::Property,
};

/// Whether an appointment is about days, and not times.
const WHOLE_DAYS: u32 = 0x8215;

/// What does not take place.
const CANCELED: &str = "canceled";

/// What lies in a folder.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Mail,
    /// A mail about an appointment.
    Invitation,
    Contact,
    Group,
    Appointment,
    Task,
    Journal,
}

impl Kind {
    pub(super) fn of(thing: &Properties<'_>) -> Kind {
        const CLASS: u16 = 0x001A;
        /// Classes are named more precisely behind a dot.
        const CLASSES: [(&str, Kind); 6] = [
            ("ipm.schedule.meeting", Kind::Invitation),
            ("ipm.contact", Kind::Contact),
            ("ipm.distlist", Kind::Group),
            ("ipm.appointment", Kind::Appointment),
            ("ipm.task", Kind::Task),
            ("ipm.activity", Kind::Journal),
        ];
        let class = thing.text(CLASS).unwrap_or_default().to_ascii_lowercase();
        let is = |of: &str| {
            class.strip_prefix(of).is_some_and(|it| it.is_empty() || it.starts_with('.'))
        };
        CLASSES.iter().find(|it| is(it.0)).map_or(Kind::Mail, |it| it.1)
    }

    /// What its place in the file is called by, before its number.
    pub(super) fn word(self) -> &'static str {
        match self {
            Kind::Mail | Kind::Invitation => "message",
            Kind::Contact => "contact",
            Kind::Group => "group",
            Kind::Appointment => "appointment",
            Kind::Task => "task",
            Kind::Journal => "journal entry",
        }
    }

    /// Whether it is read like a mail that was sent.
    pub(super) fn is_mail(self) -> bool {
        matches!(self, Kind::Mail | Kind::Invitation)
    }
}

/// A thing, and what is known around it.
pub(super) struct Thing<'a> {
    pub(super) it: &'a Properties<'a>,
    pub(super) names: &'a Names,
    pub(super) people: Vec<Person>,
    /// What is written in it.
    pub(super) notes: Option<String>,
}

/// Properties of address books and calendars, as they are written down.
#[derive(Default)]
struct Written(Vec<Property>);

impl Written {
    fn add(&mut self, name: &str, parameters: &str, value: Option<String>) {
        // What is left of a text that was never written may be a zero.
        let says = |it: &String| it.chars().any(|it| !it.is_whitespace() && !it.is_control());
        let value = value.filter(says);
        self.0.extend(value.map(|value| Property {
            name: name.to_owned(),
            parameters: parameters.to_owned(),
            value,
            line: 0,
        }));
    }

    fn several(&mut self, name: &str, values: impl IntoIterator<Item = String>) {
        values.into_iter().for_each(|it| self.add(name, "", Some(it)));
    }

    /// A time as clocks show it, or the day.
    fn time(&mut self, name: &str, local: i64, whole: bool, zone: Option<&str>) {
        if whole {
            return self.add(name, "", Some(day(local)));
        }
        let zone = zone.map(|it| format!("TZID=\"{}\"", it.replace('"', "'")));
        self.add(name, &zone.unwrap_or_default(), Some(stamp(local)));
    }

    fn person(&mut self, name: &str, person: &Person) {
        let shown = person.name.as_deref().and_then(line);
        let address = person.address.as_deref().and_then(line);
        let parameters = match (&shown, &address) {
            (Some(shown), Some(address)) if shown != address => {
                format!("CN=\"{}\"", shown.replace('"', "'"))
            }
            _ => String::new(),
        };
        self.add(name, &parameters, address.or(shown));
    }
}

impl Thing<'_> {
    /// What it says, under its name.
    pub(super) fn blocks(&self, kind: Kind) -> Vec<Block> {
        let place = Location::Whole;
        match kind {
            Kind::Contact => contacts::card(&self.contact().0, place),
            Kind::Group => contacts::card(&self.group().0, place),
            Kind::Task => calendar::entry("VTODO", &self.task().0, place),
            Kind::Journal => calendar::entry("VJOURNAL", &self.journal().0, place),
            Kind::Appointment => self.event(self.appointment(), place),
            Kind::Invitation => self.event(self.when_and_where(), place),
            Kind::Mail => Vec::new(),
        }
    }

    fn named(&self, set: u16, name: u32) -> Option<String> {
        self.it.text(self.names.number(set, name))
    }

    fn time(&self, set: u16, name: u32) -> Option<i64> {
        self.it.time(self.names.number(set, name))
    }

    fn categories(&self) -> Vec<String> {
        self.names.keywords.map(|it| self.it.texts(it)).unwrap_or_default()
    }

    // Long: a list of what address books know of people, and where Outlook has it.
    fn contact(&self) -> Written {
        /// Names, in the order in which they are said: title, first, middle, last, generation.
        const NAMES: [u16; 5] = [0x3A45, 0x3A06, 0x3A44, 0x3A11, 0x3A05];
        const PHONES: [(u16, &str); 14] = [
            (0x3A1A, ""),
            (0x3A1C, "CELL"),
            (0x3A08, "WORK"),
            (0x3A1B, "WORK"),
            (0x3A57, "WORK"),
            (0x3A09, "HOME"),
            (0x3A2F, "HOME"),
            (0x3A1F, ""),
            (0x3A1E, ""),
            (0x3A02, ""),
            (0x3A21, ""),
            (0x3A24, "WORK,FAX"),
            (0x3A25, "HOME,FAX"),
            (0x3A23, "FAX"),
        ];
        let text = |id: u16| self.it.text(id);
        let named = |name: u32| self.named(ADDRESS, name);
        let joined = |all: &[Option<String>], mark: &str| {
            let all: Vec<&str> = all.iter().flatten().map(|it| it.trim()).collect();
            Some(all.join(mark)).filter(|it| !it.is_empty())
        };
        let mut card = Written::default();
        let called = text(0x3001).or_else(|| joined(&NAMES.map(text), " "));
        let called = called.or_else(|| text(0x3A16)).or_else(|| named(0x8005));
        let called = called.or_else(|| subject(self.it));
        card.add("FN", "", called.as_deref().and_then(line));
        card.add("NICKNAME", "", text(0x3A4F));
        card.add("ORG", "", joined(&[text(0x3A16), text(0x3A18), text(0x3A19)], ";"));
        card.add("TITLE", "", text(0x3A17));
        card.add("ROLE", "", text(0x3A46));
        for (id, kind) in PHONES {
            card.add("TEL", kind, text(id));
        }
        card.several("EMAIL", self.addresses());
        card.add("IMPP", "", named(0x8062));
        let work = named(0x801B)
            .or_else(|| joined(&[0x8045, 0x8046, 0x8047, 0x8048, 0x8049].map(named), ";"));
        let home = named(0x801A)
            .or_else(|| joined(&[0x3A5D, 0x3A59, 0x3A5C, 0x3A5B, 0x3A5A].map(text), ";"));
        let other = named(0x801C)
            .or_else(|| joined(&[0x3A63, 0x3A5F, 0x3A62, 0x3A61, 0x3A60].map(text), ";"));
        let none = work.is_none() && home.is_none() && other.is_none();
        let any = none.then(|| text(0x3A15)).flatten();
        for (kind, place) in [("WORK", work), ("HOME", home), ("", other), ("", any)] {
            card.add("ADR", kind, place.map(|it| it.replace(['\r', '\n'], ";")));
        }
        let born = self.time(ADDRESS, 0x80DE).or_else(|| self.it.time(0x3A42));
        card.add("BDAY", "", born.map(day));
        let wed = self.time(ADDRESS, 0x80DF).or_else(|| self.it.time(0x3A41));
        card.add("ANNIVERSARY", "", wed.map(day));
        card.add("X-SPOUSE", "", text(0x3A48));
        card.add("X-MANAGER", "", text(0x3A4E));
        card.add("X-ASSISTANT", "", text(0x3A30));
        for page in [text(0x3A51), text(0x3A50), named(0x802B)].into_iter().flatten() {
            if card.0.iter().all(|it| it.value != page) {
                card.add("URL", "", Some(page));
            }
        }
        card.several("CATEGORIES", self.categories());
        card.add("NOTE", "", self.notes.clone());
        card
    }

    /// Addresses of somebody's mail: each has a name that is shown, itself, and what it was before Outlook knew better.
    fn addresses(&self) -> Vec<String> {
        const EACH: [u32; 3] = [0x8080, 0x8090, 0x80A0];
        let mut all: Vec<String> = Vec::new();
        for first in EACH {
            // Inside of a company an address may be a path in its directory.
            let known = [first + 3, first + 4, first].map(|it| self.named(ADDRESS, it));
            let real = known.iter().flatten().find(|it| it.contains('@'));
            all.extend(real.or(known[0].as_ref()).and_then(|it| line(it)));
        }
        if all.is_empty() {
            let others = [0x39FE, 0x3003].into_iter().filter_map(|it| self.it.text(it));
            all.extend(others.filter(|it| it.contains('@')).take(1));
        }
        all.dedup();
        all
    }

    fn group(&self) -> Written {
        const CALLED: u32 = 0x8053;
        /// Who is in it, as they are named, and as they are linked.
        const MEMBERS: [u32; 2] = [0x8054, 0x8055];
        let mut card = Written::default();
        let called = self.named(ADDRESS, CALLED).or_else(|| self.it.text(0x3001));
        card.add("FN", "", called.or_else(|| subject(self.it)).as_deref().and_then(line));
        let members = MEMBERS.map(|it| self.it.several(self.names.number(ADDRESS, it)));
        let members = members.iter().map(|it| it.iter().filter_map(|it| member(it)));
        let members: Vec<String> =
            members.map(Iterator::collect).find(|it: &Vec<_>| !it.is_empty()).unwrap_or_default();
        card.several("MEMBER", members);
        card.several("CATEGORIES", self.categories());
        card.add("NOTE", "", self.notes.clone());
        card
    }

    /// When an appointment is, where, and how often.
    fn when_and_where(&self) -> Written {
        const REPEATS: u32 = 0x8223;
        const HOW_OFTEN: u32 = 0x8231;
        let own = |name| self.names.number(APPOINTMENT, name);
        let (zone, whole) = (self.zone(), self.it.holds(own(WHOLE_DAYS)));
        let mut entry = Written::default();
        entry.add("SUMMARY", "", subject(self.it));
        for (name, ids) in [
            ("DTSTART", [own(0x820D), self.names.number(COMMON, 0x8516), 0x0060]),
            ("DTEND", [own(0x820E), self.names.number(COMMON, 0x8517), 0x0061]),
        ] {
            let Some(time) = ids.iter().find_map(|it| self.it.time(*it)) else { continue };
            let local = zone.as_ref().map(|it| it.local(time));
            let called = zone.as_ref().and_then(|it| it.name.as_deref());
            if whole || called.is_some() {
                entry.time(name, local.unwrap_or(time), whole, called);
            } else {
                entry.add(name, "", Some(format!("{}Z", stamp(time))));
            }
        }
        entry.add("LOCATION", "", self.named(APPOINTMENT, 0x8208));
        let often = ["daily", "weekly", "monthly", "yearly"];
        let often =
            self.it.number(own(HOW_OFTEN)).and_then(|it| often.get((it as usize).checked_sub(1)?));
        let often = often.filter(|_| self.it.holds(own(REPEATS))).map(|it| (*it).to_owned());
        entry.add("RRULE", "", self.named(APPOINTMENT, 0x8232).or(often));
        entry
    }

    /// An appointment as it is said, and what of a series is not as the others.
    fn event(&self, mut entry: Written, place: Location) -> Vec<Block> {
        const SERIES: u32 = 0x8216;
        let series = self.it.bytes(self.names.number(APPOINTMENT, SERIES));
        let series = series.and_then(|it| Series::of(&it)).unwrap_or_default();
        let zone = self.zone_of_series().and_then(|it| it.name);
        let whole = self.it.holds(self.names.number(APPOINTMENT, WHOLE_DAYS));
        entry.several("EXDATE", series.deleted.iter().map(|it| day(*it)));
        let text = |text: &Option<Text>| {
            let text = match text.as_ref()? {
                Text::Wide(bytes) => self.it.decoded(WIDE_TEXT, bytes),
                Text::Narrow(bytes) => self.it.decoded(NARROW_TEXT, bytes),
            };
            line(&text?)
        };
        let changed = series.changed.iter().map(|it| {
            let mut other = Written::default();
            for (name, time) in
                [("RECURRENCE-ID", it.instead_of), ("DTSTART", it.begin), ("DTEND", it.end)]
            {
                other.time(name, time, whole, zone.as_deref());
            }
            other.add("SUMMARY", "", text(&it.title));
            other.add("LOCATION", "", text(&it.place));
            other.add("STATUS", "", it.canceled.then(|| CANCELED.to_owned()));
            other.0
        });
        let changed: Vec<Vec<Property>> = changed.collect();
        calendar::series("VEVENT", &entry.0, &changed, place)
    }

    /// The clocks that the days of a series go by.
    fn zone_of_series(&self) -> Option<Zone> {
        const RULES: u32 = 0x8260;
        let rules = self.it.bytes(self.names.number(APPOINTMENT, RULES));
        rules.and_then(|it| Zone::of(&it)).or_else(|| self.old_zone()).or_else(|| self.zone())
    }

    fn old_zone(&self) -> Option<Zone> {
        const RULES: u32 = 0x8233;
        const CALLED: u32 = 0x8234;
        let rules = self.it.bytes(self.names.number(APPOINTMENT, RULES))?;
        Zone::of_old(&rules, self.named(APPOINTMENT, CALLED))
    }

    /// The clocks that an appointment goes by.
    fn zone(&self) -> Option<Zone> {
        const RULES: [u32; 2] = [0x825E, 0x8260];
        let bytes = |name| self.it.bytes(self.names.number(APPOINTMENT, name));
        let new = RULES.into_iter().find_map(|it| Zone::of(&bytes(it)?));
        new.or_else(|| self.old_zone())
    }

    fn appointment(&self) -> Written {
        const STATE: u32 = 0x8217;
        /// Others take part; it does not take place.
        const MEETING: u64 = 1;
        const OFF: u64 = 4;
        const TENTATIVE: u64 = 1;
        let own = |name| self.names.number(APPOINTMENT, name);
        let state = self.it.number(own(STATE)).unwrap_or(0);
        let mut entry = self.when_and_where();
        if state & MEETING != 0 {
            let organizer = self.people.iter().find(|it| it.organizes).cloned();
            let sender = || {
                let name = self.it.text(super::SENDER).filter(|it| it != super::NOBODY);
                let address = super::ADDRESSES.iter().filter_map(|it| self.it.text(*it));
                let address = address.into_iter().find(|it| it.contains('@'));
                Person { name, address, role: TO, organizes: true }
            };
            entry.person("ORGANIZER", &organizer.unwrap_or_else(sender));
        }
        let there = |it: &&Person| !it.organizes && [TO, COPY, HIDDEN].contains(&it.role);
        let others: Vec<&Person> = self.people.iter().filter(there).collect();
        others.iter().for_each(|it| entry.person("ATTENDEE", it));
        if others.is_empty() {
            let named =
                [0x823B, 0x823C].map(|it| self.named(APPOINTMENT, it)).into_iter().flatten();
            let named: Vec<String> = named.collect();
            let all = named.iter().flat_map(|it| it.split(';'));
            entry.several("ATTENDEE", all.filter_map(line));
        }
        let busy = self.it.number(own(0x8205));
        let status = match state & OFF {
            0 => (busy == Some(TENTATIVE)).then_some("tentative"),
            _ => Some(CANCELED),
        };
        entry.add("STATUS", "", status.map(str::to_owned));
        entry.several("CATEGORIES", self.categories());
        entry.add("DESCRIPTION", "", self.notes.clone());
        entry
    }

    fn task(&self) -> Written {
        const STATUS: [&str; 5] = ["not started", "in progress", "done", "waiting", "deferred"];
        let own = |name| self.names.number(TASK, name);
        let mut entry = Written::default();
        entry.add("SUMMARY", "", subject(self.it));
        for (name, id) in [("DTSTART", 0x8104), ("DUE", 0x8105), ("COMPLETED", 0x810F)] {
            entry.add(name, "", self.time(TASK, id).map(day));
        }
        let pattern = self.it.bytes(own(0x8116)).filter(|_| self.it.holds(own(0x8126)));
        if let Some(pattern) = pattern.and_then(|it| Pattern::of(&it)) {
            entry.several("EXDATE", pattern.deleted().iter().map(|it| day(*it)));
            entry.add("RRULE", "", Some(pattern.rule));
        }
        // Whose it is, where it is somebody else's.
        if self.it.number(own(0x8129)).is_some_and(|it| it != 0) {
            entry.add("ORGANIZER", "", self.named(TASK, 0x8121).as_deref().and_then(line));
            entry.add("ATTENDEE", "", self.named(TASK, 0x811F).as_deref().and_then(line));
        }
        let status = self.it.number(own(0x8101)).and_then(|it| STATUS.get(it as usize));
        let part = self.it.number(own(0x8102)).map(|it| f64::from_bits(it) * 100.0);
        let part = part.filter(|it| *it >= 1.0 && *it < 100.0).map(|it| format!("{it:.0} %"));
        let status: Vec<String> =
            status.map(|it| (*it).to_owned()).into_iter().chain(part).collect();
        entry.add("STATUS", "", Some(status.join(", ")));
        entry.several("CATEGORIES", self.categories());
        entry.add("DESCRIPTION", "", self.notes.clone());
        entry
    }

    fn journal(&self) -> Written {
        let mut entry = Written::default();
        entry.add("SUMMARY", "", subject(self.it));
        for (name, id) in [("DTSTART", 0x8706), ("DTEND", 0x8708)] {
            let time = self.time(JOURNAL, id);
            entry.add(name, "", time.map(|it| format!("{}Z", stamp(it))));
        }
        entry.several("CATEGORIES", self.named(JOURNAL, 0x8700));
        entry.several("CATEGORIES", self.categories());
        entry.add("DESCRIPTION", "", self.notes.clone());
        entry
    }
}

/// A day as calendars write it. Outlook keeps the midnight that begins it, in UTC or as a clock shows it: a moment in
/// the first half of a day is of that one, one in the second half of the next.
fn day(time: i64) -> String {
    stamp(time + calendar::DAY / 2)[..8].to_owned()
}

/// Somebody in a group: flags, who has written them, a version, flags; then a name, the kind of the address, and the
/// address, each with a zero at its end (MS-OXCDATA 2.2.5.1).
fn member(bytes: &[u8]) -> Option<String> {
    const WRITTEN_BY: [u8; 16] = [
        0x81, 0x2B, 0x1F, 0xA4, 0xBE, 0xA3, 0x10, 0x19, 0x9D, 0x6E, 0x00, 0xDD, 0x01, 0x0F, 0x54,
        0x02,
    ];
    const WIDE: u64 = 0x8000;
    if bytes.get(4..20)? != WRITTEN_BY {
        return None;
    }
    let rest = bytes.get(24..)?;
    let text = if number(bytes, 22, 2)? & WIDE != 0 {
        encoding_rs::UTF_16LE.decode_without_bom_handling(rest).0
    } else {
        encoding_rs::WINDOWS_1252.decode_without_bom_handling(rest).0
    };
    let mut texts = text.split('\0');
    let (name, _, address) =
        (texts.next().and_then(line), texts.next(), texts.next().and_then(line));
    Some(match (name, address) {
        (Some(name), Some(address)) if name != address => format!("{name} <{address}>"),
        (Some(one), _) | (None, Some(one)) => one,
        (None, None) => return None,
    })
}
