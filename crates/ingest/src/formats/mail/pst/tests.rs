// Long: one writer of files of three forms, and all that is read of them.
use std::{
    io::Write as _,
    time::{Duration, Instant},
};

use flate2::{Compression, write::ZlibEncoder};

use super::{
    crypt::FIRST,
    names::{ADDRESS, APPOINTMENT, TASK},
    series,
    zone::tests::zurich,
    *,
};

/// What a property is in a written file.
#[derive(Clone)]
enum Value {
    Short(u32),
    Bytes(Vec<u8>),
    /// The node below with that number.
    Below(u32),
    /// A thing of its own, which is the node below with that number.
    Object(u32),
}

fn wide(text: &str) -> Value {
    Value::Bytes(text.encode_utf16().flat_map(u16::to_le_bytes).collect())
}

type Property = (u16, u16, Value);

fn texts(all: &[(u16, &str)]) -> Vec<Property> {
    all.iter().map(|(id, text)| (*id, 0x1F, wide(text))).collect()
}

/// Outlook 97 to 2002, Outlook since, and its own copies of mailboxes since 2013.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Form {
    Old,
    Wide,
    Large,
}

/// Writes files as Outlook does, as far as they are read.
struct Writer {
    form: Form,
    blocks: Vec<(u64, Vec<u8>)>,
    nodes: Vec<[u64; 4]>,
}

impl Writer {
    fn new(form: Form) -> Writer {
        let mut writer = Writer { form, blocks: Vec::new(), nodes: Vec::new() };
        // Around all folders stand two.
        writer.node(0x122, 0x122, &[], &[]);
        writer.node(0x8022, 0x122, &texts(&[(NAME, "Top of Outlook data file")]), &[]);
        let top = [&[0; 20], 0x8022_u32.to_le_bytes().as_slice()].concat();
        writer.node(0x21, 0, &[(0x35E0, 0x102, Value::Bytes(top))], &[]);
        writer
    }

    fn size(&self) -> usize {
        if self.form == Form::Old { 4 } else { 8 }
    }

    fn number(&self, value: u64) -> Vec<u8> {
        value.to_le_bytes()[..self.size()].to_vec()
    }

    fn block(&mut self, bytes: Vec<u8>, internal: bool) -> u64 {
        let id = (self.blocks.len() as u64 + 1) * 4 + if internal { 2 } else { 0 };
        self.blocks.push((id, bytes));
        id
    }

    /// Bytes in several blocks.
    fn data(&mut self, bytes: &[u8]) -> u64 {
        let parts: Vec<u64> = bytes.chunks(100).map(|it| self.block(it.to_vec(), false)).collect();
        let [one] = parts.as_slice() else {
            let mut names = vec![1, 1];
            names.extend((parts.len() as u16).to_le_bytes());
            names.extend((bytes.len() as u32).to_le_bytes());
            names.extend(parts.iter().flat_map(|it| self.number(*it)));
            return self.block(names, true);
        };
        *one
    }

    /// A list of nodes below one, by number, data and what is below them.
    fn below(&mut self, all: &[(u32, u64, u64)]) -> u64 {
        if all.is_empty() {
            return 0;
        }
        let mut list = vec![2, 0];
        list.extend((all.len() as u16).to_le_bytes());
        list.resize(self.size(), 0);
        for (id, data, below) in all {
            for value in [u64::from(*id), *data, *below] {
                list.extend(self.number(value));
            }
        }
        self.block(list, true)
    }

    fn node(&mut self, id: u32, parent: u32, properties: &[Property], below: &[(u32, u64, u64)]) {
        let data = self.block(heap(properties), false);
        let below = self.below(below);
        self.nodes.push([u64::from(id), data, below, u64::from(parent)]);
    }

    /// Gives numbers to names: the first to the word for categories, then those of sets.
    fn names(&mut self, all: &[(u16, u32)]) {
        let sets = [ADDRESS, APPOINTMENT, TASK];
        let guid = |set: u16| {
            let rest = [6, 0, 0, 0, 0, 0, 0xC0, 0, 0, 0, 0, 0, 0, 0x46];
            [set.to_le_bytes().as_slice(), &rest].concat()
        };
        let word: Vec<u8> = "Keywords".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let words = [(word.len() as u32).to_le_bytes().as_slice(), &word].concat();
        let mut entries = [0_u32.to_le_bytes().as_slice(), &[5, 0, 0, 0]].concat();
        for ((set, name), index) in all.iter().zip(1_u16..) {
            let of = sets.iter().position(|it| it == set).expect("a set") as u16 + 3;
            entries.extend(name.to_le_bytes());
            entries.extend((of << 1).to_le_bytes());
            entries.extend(index.to_le_bytes());
        }
        let guids = sets.into_iter().flat_map(guid).collect();
        let properties = [(2, guids), (3, entries), (4, words)];
        let properties = properties.map(|(id, bytes)| (id, 0x102, Value::Bytes(bytes)));
        self.node(0x61, 0, &properties, &[]);
    }

    /// A tree of pages with these entries; where it begins.
    fn tree(&self, file: &mut Vec<u8>, entries: &[Vec<u8>]) -> u64 {
        let (whole, end) = match self.form {
            Form::Old => (512, 496),
            Form::Wide => (512, 488),
            Form::Large => (4096, 4056),
        };
        let mut page = |entries: &[Vec<u8>], level: u8| {
            let at = file.len() as u64;
            let mut page = entries.concat();
            page.resize(whole, 0);
            let (count, size) = (entries.len() as u8, entries[0].len() as u8);
            match self.form {
                Form::Large => {
                    page[end..end + 6].copy_from_slice(&[count, 0, count, 0, size, level]);
                }
                _ => page[end..end + 4].copy_from_slice(&[count, count, size, level]),
            }
            file.extend(page);
            at
        };
        let leaves: Vec<u64> = entries.chunks(5).map(|it| page(it, 0)).collect();
        let names: Vec<Vec<u8>> = leaves
            .iter()
            .map(|at| [0, 0, *at].into_iter().flat_map(|it| self.number(it)).collect())
            .collect();
        page(&names, 1)
    }

    fn file(&self, hidden: u8) -> Vec<u8> {
        let mut file = b"!BDN\0\0\0\0SM".to_vec();
        let wide = self.form != Form::Old;
        let version = match self.form {
            Form::Old => 15_u16,
            Form::Wide => 23,
            Form::Large => 36,
        };
        file.extend(version.to_le_bytes());
        file.resize(600, 0);
        file[if wide { 513 } else { 461 }] = hidden;
        let mut blocks = Vec::new();
        for (id, bytes) in &self.blocks {
            let mut entry = [self.number(*id), self.number(file.len() as u64)].concat();
            let hide =
                |it: &u8| if hidden == 1 && id & 2 == 0 { FIRST[usize::from(*it)] } else { *it };
            let mut stored: Vec<u8> = bytes.iter().map(hide).collect();
            if self.form == Form::Large && stored.len() > 60 {
                let mut packed = ZlibEncoder::new(Vec::new(), Compression::default());
                packed.write_all(&stored).expect("written");
                stored = packed.finish().expect("written");
            }
            entry.extend((stored.len() as u16).to_le_bytes());
            if self.form == Form::Large {
                entry.extend((bytes.len() as u16).to_le_bytes());
            }
            entry.resize(if wide { 24 } else { 12 }, 0);
            blocks.push(entry);
            file.extend(stored);
        }
        let nodes: Vec<Vec<u8>> = self
            .nodes
            .iter()
            .map(|[id, data, below, parent]| {
                let mut entry: Vec<u8> =
                    [*id, *data, *below].into_iter().flat_map(|it| self.number(it)).collect();
                entry.extend((*parent as u32).to_le_bytes());
                entry.resize(if wide { 32 } else { 16 }, 0);
                entry
            })
            .collect();
        let places = [self.tree(&mut file, &nodes), self.tree(&mut file, &blocks)];
        let at = if wide { [224, 240, 184] } else { [188, 196, 168] };
        let length = file.len() as u64;
        for (at, place) in at.into_iter().zip(places.into_iter().chain([length])) {
            let place = self.number(place);
            file[at..at + place.len()].copy_from_slice(&place);
        }
        file
    }
}

/// Properties in a heap of one block.
fn heap(properties: &[Property]) -> Vec<u8> {
    let mut pieces: Vec<Vec<u8>> = vec![vec![0xB5, 2, 6, 0, 0x40, 0, 0, 0], Vec::new()];
    for (id, kind, value) in properties {
        let value = match value {
            Value::Short(value) | Value::Below(value) => *value,
            Value::Bytes(bytes) => {
                pieces.push(bytes.clone());
                (pieces.len() as u32) << 5
            }
            Value::Object(node) => {
                pieces.push([node.to_le_bytes(), 9_u32.to_le_bytes()].concat());
                (pieces.len() as u32) << 5
            }
        };
        pieces[1].extend(id.to_le_bytes());
        pieces[1].extend(kind.to_le_bytes());
        pieces[1].extend(value.to_le_bytes());
    }
    heaped(&pieces)
}

/// A heap of pieces in one block; the first says what the others are.
fn heaped(pieces: &[Vec<u8>]) -> Vec<u8> {
    let mut heap = vec![0, 0, 0xEC, 0xBC, 0x20, 0, 0, 0, 0, 0, 0, 0];
    let mut places = vec![heap.len() as u16];
    for piece in pieces {
        heap.extend(piece);
        places.push(heap.len() as u16);
    }
    let map = heap.len() as u16;
    heap[..2].copy_from_slice(&map.to_le_bytes());
    heap.extend((pieces.len() as u16).to_le_bytes());
    heap.extend([0, 0]);
    heap.extend(places.iter().flat_map(|it| it.to_le_bytes()));
    heap
}

/// 2026-03-02, 10:00, in seconds since 1970.
const MONDAY: i64 = 1_772_445_600;

fn time(id: u16, seconds: i64) -> Property {
    let since_1601 = (seconds + 11_644_473_600) * 10_000_000;
    (id, 0x40, Value::Bytes(since_1601.to_le_bytes().to_vec()))
}

/// Several values of a property.
fn several(all: &[Vec<u8>]) -> Value {
    let mut bytes = (all.len() as u32).to_le_bytes().to_vec();
    let mut at = 4 + 4 * all.len();
    for value in all {
        bytes.extend((at as u32).to_le_bytes());
        at += value.len();
    }
    bytes.extend(all.concat());
    Value::Bytes(bytes)
}

/// Somebody in a group.
fn member(name: &str, address: &str) -> Vec<u8> {
    let mut member = vec![0; 4];
    member.extend([0x81, 0x2B, 0x1F, 0xA4, 0xBE, 0xA3, 0x10, 0x19]);
    member.extend([0x9D, 0x6E, 0x00, 0xDD, 0x01, 0x0F, 0x54, 0x02, 0, 0, 1, 0x90]);
    member.extend(format!("{name}\0SMTP\0{address}\0").encode_utf16().flat_map(u16::to_le_bytes));
    member
}

/// A table of people: name, address, role and flags of each.
fn people(all: &[(&str, &str, u8, u8)]) -> Vec<u8> {
    let mut head = vec![0x7C, 4, 0, 0];
    head.extend([16_u16, 16, 17].into_iter().flat_map(u16::to_le_bytes));
    head.extend([0; 4]);
    head.extend(0x40_u32.to_le_bytes());
    head.extend([0; 4]);
    for (id, kind, at, bit) in [
        (0x0C15_u16, 3_u8, 0_u8, 0_u8),
        (0x3001, 0x1F, 4, 1),
        (0x39FE, 0x1F, 8, 2),
        (0x5FFD, 3, 12, 3),
    ] {
        head.extend([kind, 0]);
        head.extend(id.to_le_bytes());
        head.extend([at, 0, 4, bit]);
    }
    let mut pieces = vec![head, Vec::new()];
    for (name, address, role, flags) in all {
        let mut row = vec![*role, 0, 0, 0];
        for text in [name, address] {
            pieces.push(text.encode_utf16().flat_map(u16::to_le_bytes).collect());
            row.extend(((pieces.len() as u32) << 5).to_le_bytes());
        }
        row.extend([*flags, 0, 0, 0]);
        row.push(if address.is_empty() { 0b1101_0000 } else { 0b1111_0000 });
        pieces[1].extend(row);
    }
    heaped(&pieces)
}

/// A folder of everything that is no mail.
// Long: what each is made of.
fn things(writer: &mut Writer) {
    const CLASS: u16 = 0x001A;
    let names = [
        (ADDRESS, 0x8083),
        (ADDRESS, 0x8093),
        (ADDRESS, 0x8094),
        (ADDRESS, 0x801A),
        (ADDRESS, 0x8054),
        (APPOINTMENT, 0x820D),
        (APPOINTMENT, 0x820E),
        (APPOINTMENT, 0x8208),
        (APPOINTMENT, 0x8215),
        (APPOINTMENT, 0x8217),
        (APPOINTMENT, 0x8232),
        (APPOINTMENT, 0x825E),
        (APPOINTMENT, 0x823B),
        (TASK, 0x8105),
        (TASK, 0x8101),
        (TASK, 0x8102),
        (TASK, 0x8116),
        (TASK, 0x8126),
    ];
    writer.names(&names);
    // The first number is that of the word.
    let of = |set: u16, name: u32| {
        0x8001 + names.iter().position(|it| *it == (set, name)).expect("a name") as u16
    };
    writer.node(0x8082, 0x8022, &texts(&[(NAME, "Things")]), &[]);
    let mut ann = texts(&[
        (CLASS, "IPM.Contact"),
        (NAME, "Ann Hale"),
        (0x3A16, "Wells Boatyard"),
        (0x3A18, "Sheds"),
        (0x3A17, "Rigger"),
        (0x3A1C, "+44 174 55"),
        (0x3A08, "+44 174 56"),
        (0x3A24, "+44 174 57"),
        (of(ADDRESS, 0x8083), "ann@example.org"),
        (of(ADDRESS, 0x8093), "/o=boats/cn=ann"),
        (of(ADDRESS, 0x8094), "hale@example.com"),
        (of(ADDRESS, 0x801A), "3 Malthouse Row\r\nWells\r\nUK"),
        (0x3A48, "Ben"),
        (TEXT, "Tall; quiet."),
    ]);
    ann.push(time(0x3A42, -310_867_200 - 3600));
    let green: Vec<u8> = "Crew".encode_utf16().flat_map(u16::to_le_bytes).collect();
    ann.push((0x8000, 0x101F, several(&[green.clone(), green])));
    writer.node(0x210004, 0x8082, &ann, &[]);
    let mut crew = texts(&[(CLASS, "IPM.DistList"), (NAME, "Crew")]);
    let all = [member("Ann Hale", "ann@example.org"), vec![7; 9], member("Cy", "cy@example.org")];
    crew.push((of(ADDRESS, 0x8054), 0x1102, several(&all)));
    writer.node(0x210024, 0x8082, &crew, &[]);
    let mut dock = texts(&[
        (CLASS, "IPM.Appointment"),
        (SUBJECT, "Dry dock"),
        (SENDER, "Hale, Ann"),
        (of(APPOINTMENT, 0x8208), "Wells, pier 3"),
        (of(APPOINTMENT, 0x8232), "every Monday"),
        (TEXT, "Bring paint."),
    ]);
    let zone = (of(APPOINTMENT, 0x825E), 0x102, Value::Bytes(zurich()));
    dock.extend([
        time(of(APPOINTMENT, 0x820D), MONDAY),
        time(of(APPOINTMENT, 0x820E), MONDAY + 5400),
        (of(APPOINTMENT, 0x8217), 3, Value::Short(1)),
        zone.clone(),
    ]);
    let table = people(&[
        ("Hale, Ann", "ann@example.org", 1, 2),
        ("Ben", "ben@example.org", 1, 0),
        ("Room 4", "", 3, 0),
    ]);
    let table = writer.block(table, false);
    writer.node(0x210044, 0x8082, &dock, &[(0x692, table, 0)]);
    let mut fair = texts(&[
        (CLASS, "IPM.Appointment.Fair"),
        (SUBJECT, "Fair"),
        (of(APPOINTMENT, 0x823B), "Ann; Ben"),
    ]);
    fair.extend([
        time(of(APPOINTMENT, 0x820D), MONDAY - 11 * 3600),
        time(of(APPOINTMENT, 0x820E), MONDAY + 37 * 3600),
        (of(APPOINTMENT, 0x8215), 0xB, Value::Short(1)),
        zone,
    ]);
    writer.node(0x210064, 0x8082, &fair, &[]);
    let mut paint = texts(&[(CLASS, "IPM.Task"), (SUBJECT, "Buy paint"), (TEXT, " \0 ")]);
    paint.extend([
        time(of(TASK, 0x8105), MONDAY - 10 * 3600),
        (of(TASK, 0x8101), 3, Value::Short(1)),
        (of(TASK, 0x8102), 5, Value::Bytes(0.4_f64.to_le_bytes().to_vec())),
    ]);
    let days = [MONDAY + 28 * 24 * 3600 - 10 * 3600];
    paint.push((of(TASK, 0x8116), 0x102, Value::Bytes(series::tests::written([0, 0], &days, &[]))));
    paint.push((of(TASK, 0x8126), 0xB, Value::Short(1)));
    writer.node(0x210084, 0x8082, &paint, &[]);
    let mut asked = texts(&[
        (CLASS, "IPM.Schedule.Meeting.Request"),
        (SUBJECT, "Dry dock"),
        (of(APPOINTMENT, 0x8208), "Wells, pier 3"),
        (TEXT, "Will you come?"),
    ]);
    asked.push(time(of(APPOINTMENT, 0x820D), MONDAY));
    let table = people(&[("Ben", "ben@example.org", 1, 0), ("Cy", "cy@example.org", 2, 0)]);
    let table = writer.block(table, false);
    writer.node(0x2100A4, 0x8082, &asked, &[(0x692, table, 0)]);
}

#[test]
fn people_appointments_and_tasks_are_read_as_such() {
    for form in [Form::Old, Form::Wide, Form::Large] {
        let mut writer = Writer::new(form);
        things(&mut writer);
        let document = read(&writer.file(1));
        let seen: Vec<(String, String)> =
            document.blocks.into_iter().map(|it| (it.text, it.location.to_string())).collect();
        let part = |text: &str, place: &str| (text.to_owned(), place.to_owned());
        assert_eq!(
            seen,
            [
                part("Things", "whole file"),
                part("Ann Hale", "contact 1"),
                part(
                    "Organization: Wells Boatyard, Sheds\nPosition: Rigger\n\
                     Phone: +44 174 55 (cell); +44 174 56 (work); +44 174 57 (work, fax)\n\
                     Mail: ann@example.org; hale@example.com\n\
                     Address: 3 Malthouse Row, Wells, UK (home)\nBirthday: 1960-02-25 (February)\n\
                     Spouse: Ben\nGroups: Crew; Crew\nNotes: Tall; quiet.",
                    "contact 1"
                ),
                part("Crew", "group 2"),
                part("Members: Ann Hale <ann@example.org>; Cy <cy@example.org>", "group 2"),
                part("Dry dock", "appointment 3"),
                part(
                    "When: 2026-03-02 11:00 W. Europe Standard Time (March) to 2026-03-02 12:30 \
                     W. Europe Standard Time (March)\nWhere: Wells, pier 3\n\
                     Organizer: Hale, Ann <ann@example.org>\nWith: Ben <ben@example.org>, Room 4\n\
                     Repeats: every Monday\nNotes: Bring paint.",
                    "appointment 3"
                ),
                part("Fair", "appointment 4"),
                part(
                    "When: 2026-03-02 (March) to 2026-03-03 (March)\nWith: Ann, Ben",
                    "appointment 4"
                ),
                part("Buy paint", "task 5"),
                part(
                    "Due: 2026-03-02 (March)\nRepeats: freq=monthly, byday=1mo\n\
                     Not on: 2026-03-30 (March)\nStatus: in progress, 40 %",
                    "task 5"
                ),
                part("Dry dock", "message 6"),
                part("To: Ben <ben@example.org>", "message 6, message, paragraph 2"),
                part("Will you come?", "message 6, message, paragraph 3"),
                part("When: 2026-03-02 10:00 UTC (March)\nWhere: Wells, pier 3", "message 6"),
            ],
            "{form:?}"
        );
    }
}

/// An appointment with such a series, as it is said.
fn said_of_series(series: Vec<u8>, more: &[Property], zone: bool) -> String {
    let names = [
        (APPOINTMENT, 0x8216),
        (APPOINTMENT, 0x820D),
        (APPOINTMENT, 0x820E),
        (APPOINTMENT, 0x8215),
        (APPOINTMENT, 0x825E),
        (APPOINTMENT, 0x8232),
    ];
    let mut writer = Writer::new(Form::Wide);
    writer.names(&names);
    let mut dock = texts(&[(0x001A, "IPM.Appointment"), (SUBJECT, "Dry dock")]);
    dock.extend([
        (0x8001, 0x102, Value::Bytes(series)),
        time(0x8002, MONDAY),
        time(0x8003, MONDAY + 5400),
    ]);
    if zone {
        dock.push((0x8005, 0x102, Value::Bytes(zurich())));
    }
    dock.extend(texts(&[(0x8006, "every Monday")]));
    dock.extend_from_slice(more);
    writer.node(0x8082, 0x8022, &texts(&[(NAME, "Calendar")]), &[]);
    writer.node(0x210044, 0x8082, &dock, &[]);
    let blocks = read(&writer.file(0)).blocks;
    blocks.last().map(|it| it.text.clone()).unwrap_or_default()
}

#[test]
fn days_of_a_series_that_were_deleted_or_changed_are_said() {
    const DAY: i64 = 24 * 3600;
    // The clocks of Zurich show 11:00.
    let monday = MONDAY + 3600;
    let days = [7, 14, 21, 28].map(|it| monday - 11 * 3600 + it * DAY);
    let all: [series::tests::One<'_>; 3] = [
        (monday + 15 * DAY, monday + 15 * DAY + 5400, monday + 14 * DAY, "", "", false),
        (
            monday + 21 * DAY,
            monday + 21 * DAY + 7200,
            monday + 21 * DAY,
            "Naßdock",
            "Wells, pier 4",
            false,
        ),
        (monday + 28 * DAY, monday + 28 * DAY + 5400, monday + 28 * DAY, "", "", true),
    ];
    let series = series::tests::written([660, 750], &days, &all);
    let zone = "W. Europe Standard Time";
    let when = "When: 2026-03-02 11:00 W. Europe Standard Time (March) to 2026-03-02 12:30 \
                W. Europe Standard Time (March)\nRepeats: every Monday\n";
    let said = format!(
        "{when}Not on: 2026-03-09 (March)\n\
         Instead of 2026-03-16 (March): 2026-03-17 11:00 {zone} (March) to 2026-03-17 12:30 {zone} (March)\n\
         Instead of 2026-03-23 (March): Naßdock; 2026-03-23 11:00 {zone} (March) to 2026-03-23 13:00 {zone} \
         (March); where: Wells, pier 4\n\
         Instead of 2026-03-30 (March): 2026-03-30 11:00 {zone} (March) to 2026-03-30 12:30 {zone} (March); canceled\n\
         Notes: Bring paint."
    );
    let notes = texts(&[(TEXT, "Bring paint.")]);
    assert_eq!(said_of_series(series.clone(), &notes, true), said);
    for length in 0..series.len() {
        let part = said_of_series(series[..length].to_vec(), &[], true);
        assert!(part.starts_with(when.trim_end()), "{length}: {part}");
    }
    // Every third day of two years was changed.
    let all: Vec<series::tests::One<'_>> = (0..250)
        .map(|it| monday + it * 3 * DAY)
        .map(|it| (it + 3600, it + 9000, it, "", "", false))
        .collect();
    let said = said_of_series(series::tests::written([660, 750], &[], &all), &[], true);
    assert_eq!(said.matches("Instead of").count(), 200);
    assert!(said.ends_with("\nChanged: 50 more"), "{said}");
}

#[test]
fn a_changed_day_of_a_series_is_no_file_without_text() {
    let mut writer = Writer::new(Form::Wide);
    writer.node(0x8082, 0x8022, &texts(&[(NAME, "Calendar")]), &[]);
    let mut attach = |said: &[Property], flags: u32| {
        let inner = writer.block(heap(said), false);
        let around = writer.below(&[(0x24, inner, 0)]);
        let properties = [(DATA, 0x0D, Value::Object(0x24)), (FLAGS, 3, Value::Short(flags))];
        (writer.block(heap(&properties), false), around)
    };
    let moved = [time(0x0060, MONDAY)];
    let notes = texts(&[(TEXT, "Bring the long rope.")]);
    // A changed day of which the series says all, one with notes of its own, and an object of another program.
    let all = [attach(&moved, 2), attach(&notes, 2 | 8), attach(&moved, 0)];
    let below: Vec<(u32, u64, u64)> =
        (0..).zip(all).map(|(it, (data, below))| (0x8025 + 0x20 * it, data, below)).collect();
    let dock = texts(&[(0x001A, "IPM.Appointment"), (SUBJECT, "Dry dock")]);
    writer.node(0x210044, 0x8082, &dock, &below);
    let document = read(&writer.file(0));
    let texts: Vec<&str> = document.blocks.iter().map(|it| it.text.as_str()).collect();
    assert_eq!(texts, ["Calendar", "Dry dock", "forwarded 2.eml", "Bring the long rope."]);
    assert_eq!(document.warnings, [Remark::FileWithoutText.to_string()]);
}

#[test]
fn whole_days_of_a_series_are_days_and_times_of_no_zone_have_none() {
    const DAY: i64 = 24 * 3600;
    let monday = MONDAY - 10 * 3600;
    let all: [series::tests::One<'_>; 1] =
        [(monday + 8 * DAY, monday + 9 * DAY, monday + 7 * DAY, "", "Hull", false)];
    let series = series::tests::written([0, 1440], &[monday + 7 * DAY], &all);
    let whole = [(0x8004, 0xB, Value::Short(1))];
    assert_eq!(
        said_of_series(series.clone(), &whole, false),
        "When: 2026-03-02 (March)\nRepeats: every Monday\n\
         Instead of 2026-03-09 (March): 2026-03-10 (March); where: Hull"
    );
    assert_eq!(
        said_of_series(series, &[], false),
        "When: 2026-03-02 10:00 UTC (March) to 2026-03-02 11:30 UTC (March)\nRepeats: every Monday\n\
         Instead of 2026-03-09 00:00 (March): 2026-03-10 00:00 (March) to 2026-03-11 00:00 (March); where: Hull"
    );
}

#[test]
fn copies_that_do_not_say_which_folder_is_around_all_have_one_of_that_name() {
    for named in
        [None, Some(vec![0xE2; 46]), Some([&[0; 20], [0x22, 0x90, 0, 0].as_slice()].concat())]
    {
        let mut writer = Writer::new(Form::Large);
        writer.nodes.retain(|it| it[0] != 0x21);
        // What it is called on the server, or a folder that is not there.
        if let Some(named) = named {
            writer.node(0x21, 0, &[(0x35E0, 0x102, Value::Bytes(named))], &[]);
        }
        copied(writer);
    }
}

fn copied(mut writer: Writer) {
    // Public folders have one of that name, too, and it comes first.
    writer.node(0x2002, 0x122, &texts(&[(NAME, "Root - Public")]), &[]);
    writer.node(0x2022, 0x2002, &texts(&[(NAME, "IPM_SUBTREE")]), &[]);
    writer.node(0x8102, 0x122, &texts(&[(NAME, "IPM_SUBTREE")]), &[]);
    writer.node(0x8122, 0x8102, &texts(&[(NAME, "Inbox")]), &[]);
    writer.node(0x8142, 0x122, &texts(&[(NAME, "Common Views")]), &[]);
    writer.node(0x200004, 0x8122, &texts(&[(SUBJECT, "The keel")]), &[]);
    writer.node(0x200024, 0x8142, &texts(&[(SUBJECT, "A view")]), &[]);
    let texts: Vec<String> = read(&writer.file(0)).blocks.into_iter().map(|it| it.text).collect();
    assert_eq!(texts, ["Inbox", "The keel"]);
}

#[test]
fn pieces_of_other_blocks_are_found() {
    for (form, bits) in [(Form::Wide, 11), (Form::Large, 14)] {
        let mut writer = Writer::new(form);
        let mut first = heap(&[(NAME, 0x1F, Value::Below(1 << 5 | 1 << (5 + bits)))]);
        first.resize(200, 0);
        let mut second = vec![12, 0];
        second.extend("Boats".encode_utf16().flat_map(u16::to_le_bytes));
        second.extend([1, 0, 0, 0, 2, 0, 12, 0]);
        let parts = [writer.block(first, false), writer.block(second, false)];
        let mut names = vec![1, 1, 2, 0, 220, 0, 0, 0];
        names.extend(parts.into_iter().flat_map(|it| writer.number(it)));
        let data = writer.block(names, true);
        writer.nodes.push([0x8042, data, 0, 0x8022]);
        writer.node(0x200004, 0x8042, &texts(&[(SUBJECT, "The keel")]), &[]);
        let document = read(&writer.file(0));
        assert_eq!(document.blocks[0].text, "Boats", "{form:?}");
    }
}

#[test]
fn a_block_that_unpacks_to_less_or_more_is_damaged() {
    let whole = written(Form::Large);
    let file = whole.file(0);
    let all = read(&file).blocks.len();
    // How long the blocks are said to be unpacked stands in the tree of blocks, behind where they lie.
    let tree = u64::from_le_bytes(file[240..248].try_into().expect("eight bytes")) as usize;
    let leaf = u64::from_le_bytes(file[tree + 16..tree + 24].try_into().expect("eight bytes"));
    for change in [1_i16, -1] {
        let mut lies = file.clone();
        for entry in 0..5 {
            let at = leaf as usize + entry * 24 + 18;
            let length = u16::from_le_bytes([lies[at], lies[at + 1]]);
            lies[at..at + 2].copy_from_slice(&length.wrapping_add_signed(change).to_le_bytes());
        }
        assert!(read(&lies).blocks.len() < all);
    }
}

/// Two folders: in one a mail with files, in the other an answer to it, a page and a rich text.
fn written(form: Form) -> Writer {
    let mut writer = Writer::new(form);
    writer.node(0x8042, 0x8022, &texts(&[(NAME, "Inbox")]), &[]);
    writer.node(0x8062, 0x8042, &texts(&[(NAME, "Boats")]), &[]);
    // What Outlook keeps for itself.
    writer.node(0x8222, 0x122, &texts(&[(NAME, "Freebusy Data")]), &[]);
    writer.node(0x200004, 0x8222, &texts(&[(SUBJECT, "LocalFreebusy")]), &[]);
    let mut lease = texts(&[
        (SUBJECT, "\u{1}\u{5}Re: The lease"),
        (SENDER, "Hale, Ann"),
        (ADDRESSES[0], "ann@example.org"),
        (RECEIVERS[0].1, "Ben; 'cy@example.org'"),
        (TEXT, "Here it is.\r\n"),
        (IDS[0].1, "<1@x>"),
    ]);
    lease.push(time(TIMES[0], MONDAY));
    // Of a kind that nobody knows, before all others.
    lease.insert(0, (1, 0x7777, Value::Short(9)));
    let table = writer.data("Month,Rent\nMarch,740\n".repeat(9).as_bytes());
    let mut file = texts(&[(NAMES[0], "rent.csv")]);
    file.push((DATA, 0x102, Value::Below(0x3F)));
    let below = writer.below(&[(0x3F, table, 0)]);
    let rent = writer.block(heap(&file), false);
    let inner = writer.block(
        heap(&texts(&[(SUBJECT, "The keel"), (SENDER, "Dan"), (TEXT, "It is long.")])),
        false,
    );
    let around = writer.below(&[(0x24, inner, 0)]);
    let forwarded = writer.block(heap(&[(DATA, 0x0D, Value::Object(0x24))]), false);
    let elsewhere = writer.block(heap(&texts(&[(NAMES[0], "lost.doc")])), false);
    let attached = [(0x8025, rent, below), (0x8045, forwarded, around), (0x8065, elsewhere, 0)];
    writer.node(0x200024, 0x8042, &lease, &attached);
    let mut answer = texts(&[
        (SENDER, "ben@example.org"),
        (HEADERS, "Received: x\r\nTo: Ann <ann@example.org>,\r\n\tCy <cy@example.org>\r\nX: y\r\n"),
        (IDS[1].1, "<1@x>"),
    ]);
    answer.push((
        PAGE,
        0x102,
        Value::Bytes(b"<html><body><p>It <b>came</b> \x80.</p></body></html>".to_vec()),
    ));
    answer.push((0x3FDE, 3, Value::Short(1252)));
    writer.node(0x200044, 0x8062, &answer, &[]);
    let rich = [b"\0\0\0\0\0\0\0\0MELA\0\0\0\0".as_slice(), b"{\\rtf1\\ansi It is blue.\\par}"];
    writer.node(0x200064, 0x8062, &[(RICH, 0x102, Value::Bytes(rich.concat()))], &[]);
    writer
}

fn read(bytes: &[u8]) -> Document {
    match parse(bytes, &mut Shares::tried()) {
        ParseOutcome::Parsed(document) => document,
        other => panic!("{other:?}"),
    }
}

#[test]
fn mails_are_read_in_their_folders_with_what_is_attached() {
    let forms = [Form::Old, Form::Wide, Form::Large];
    for (form, hidden) in forms.into_iter().flat_map(|it| [(it, 0), (it, 1)]) {
        let document = read(&written(form).file(hidden));
        let seen: Vec<(u8, &str, String)> = document
            .blocks
            .iter()
            .map(|it| {
                let level = if let BlockKind::Heading(level) = it.kind { level } else { 0 };
                (level, it.text.lines().next().unwrap_or_default(), it.location.to_string())
            })
            .collect();
        let text = |level, text, place: &str| (level, text, place.to_owned());
        let (one, two) = ("message 1, message, paragraph", "message 2, message, paragraph");
        let rent = "message 1 › rent.csv";
        let answers =
            "In answer to: Re: The lease, Hale, Ann <ann@example.org>, 2026-03-02 (message 1)";
        assert_eq!(
            seen,
            [
                text(1, "Inbox", "whole file"),
                text(2, "Re: The lease (Hale, Ann, 2026-03-02)", "message 1"),
                text(0, "From: \"Hale, Ann\" <ann@example.org>", &format!("{one} 2")),
                text(0, "To: Ben, cy@example.org", &format!("{one} 3")),
                text(0, "Date: 2026-03-02T10:00:00+00:00", &format!("{one} 4")),
                text(0, "Here it is.", &format!("{one} 5")),
                text(3, "rent.csv", rent),
                text(
                    0,
                    "Table: 17 rows. Month: March, Month. Rent: numbers from 740 to 740.",
                    &format!("{rent}, rows 2–18")
                ),
                text(0, "March | 740", &format!("{rent}, rows 2–18")),
                text(3, "The keel", "message 1 › The keel.eml"),
                text(0, "From: Dan", "message 1 › The keel.eml, message, paragraph 2"),
                text(0, "It is long.", "message 1 › The keel.eml, message, paragraph 3"),
                text(1, "Inbox › Boats", "whole file"),
                text(2, "message 2 (ben@example.org)", "message 2"),
                text(0, "From: ben@example.org", &format!("{two} 1")),
                text(0, "To: Ann <ann@example.org>, Cy <cy@example.org>", &format!("{two} 2")),
                text(0, answers, &format!("{two} 2")),
                text(0, "It came €.", &format!("{two} 3")),
                text(2, "message 3", "message 3"),
                text(0, "It is blue.", "message 3, message, paragraph 1"),
            ],
            "{form:?} {hidden}"
        );
    }
}

#[test]
fn damage_ends_early_and_nothing_else() {
    for form in [Form::Wide, Form::Large] {
        let mut writer = written(form);
        things(&mut writer);
        damaged(&writer.file(1));
    }
}

fn damaged(whole: &[u8]) {
    let all = read(whole).blocks.len();
    let started = Instant::now();
    for length in (0..whole.len()).step_by(7) {
        let mut shares = Shares::tried();
        match parse(&whole[..length], &mut shares) {
            ParseOutcome::Parsed(document) => assert!(document.blocks.len() <= all),
            ParseOutcome::Failed(why) => assert!(!why.is_empty()),
            other => panic!("{other:?}"),
        }
    }
    let mut state = 1_u64;
    for _ in 0..500 {
        let mut lies = whole.to_vec();
        for _ in 0..20 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let at = (state >> 33) as usize % lies.len();
            lies[at] = (state >> 20) as u8;
        }
        // The first bytes say what it is.
        lies[..12].copy_from_slice(&whole[..12]);
        let outcome = parse(&lies, &mut Shares::tried());
        assert!(matches!(outcome, ParseOutcome::Parsed(_) | ParseOutcome::Failed(_)));
    }
    assert!(started.elapsed() < Duration::from_secs(300));
}

#[test]
fn a_file_that_ends_early_says_so() {
    for form in [Form::Old, Form::Wide, Form::Large] {
        let mut file = written(form).file(0);
        let why = String::from(Remark::RestDamaged);
        assert!(!read(&file).warnings.contains(&why), "{form:?}");
        let at = if form == Form::Old { 168 } else { 184 };
        let length = file.len() as u32 + 1;
        file[at..at + 4].copy_from_slice(&length.to_le_bytes());
        assert!(read(&file).warnings.contains(&why), "{form:?}");
    }
}

#[test]
fn trees_that_lead_to_themselves_end() {
    let mut file = written(Form::Wide).file(0);
    let top = u64::from_le_bytes(file[240..248].try_into().expect("eight bytes"));
    // Every page of blocks leads to the highest one.
    let at = top as usize;
    for entry in 0..usize::from(file[at + 488]) {
        file[at + entry * 24 + 16..at + entry * 24 + 24].copy_from_slice(&top.to_le_bytes());
    }
    assert!(read(&file).blocks.is_empty());
    // A block that names itself, and a list below that is its own.
    let mut writer = Writer::new(Form::Wide);
    let names = writer.blocks.len() as u64 * 4 + 4 + 2;
    let mut block = vec![1, 2, 60, 0, 0, 0, 0, 0];
    block.extend(names.to_le_bytes().repeat(60));
    writer.block(block, true);
    let list = writer.blocks.len() as u64 * 4 + 4 + 2;
    let mut block = vec![2, 1, 60, 0, 0, 0, 0, 0];
    block.extend([1_u64.to_le_bytes(), list.to_le_bytes()].concat().repeat(60));
    writer.block(block, true);
    writer.nodes.push([0x200024, names, list, 0x8022]);
    let document = read(&writer.file(0));
    assert!(document.blocks.iter().all(|it| it.text == "Top of Outlook data file"), "{document:?}");
}

#[test]
fn what_is_no_such_file_fails_with_a_reason() {
    let whole = written(Form::Wide).file(0);
    let mut copy = whole.clone();
    copy[10] = 37;
    let mut locked = whole.clone();
    locked[513] = 16;
    for (bytes, why) in [
        (b"".as_slice(), Remark::OutlookDamaged),
        (b"!BD", Remark::OutlookDamaged),
        (b"!BDN", Remark::OutlookDamaged),
        (&whole[..600], Remark::OutlookDamaged),
        (b"hello world\nhello world\n", Remark::NotOutlook),
        (&copy, Remark::OutlookCopy),
        (&locked, Remark::Password),
    ] {
        let outcome = parse(bytes, &mut Shares::tried());
        assert_eq!(outcome, ParseOutcome::Failed(why.into()));
    }
}
