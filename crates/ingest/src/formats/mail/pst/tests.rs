use std::time::{Duration, Instant};

use super::{crypt::FIRST, *};

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

/// Writes files as Outlook does, as far as they are read.
struct Writer {
    wide: bool,
    blocks: Vec<(u64, Vec<u8>)>,
    nodes: Vec<[u64; 4]>,
}

impl Writer {
    fn new(wide: bool) -> Writer {
        let mut writer = Writer { wide, blocks: Vec::new(), nodes: Vec::new() };
        // Around all folders stand two.
        writer.node(0x122, 0x122, &[], &[]);
        writer.node(0x8022, 0x122, &texts(&[(NAME, "Top of Outlook data file")]), &[]);
        let top = [&[0; 20], 0x8022_u32.to_le_bytes().as_slice()].concat();
        writer.node(0x21, 0, &[(0x35E0, 0x102, Value::Bytes(top))], &[]);
        writer
    }

    fn number(&self, value: u64) -> Vec<u8> {
        value.to_le_bytes()[..if self.wide { 8 } else { 4 }].to_vec()
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
        list.resize(if self.wide { 8 } else { 4 }, 0);
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

    /// A tree of pages with these entries; where it begins.
    fn tree(&self, file: &mut Vec<u8>, entries: &[Vec<u8>]) -> u64 {
        let end = if self.wide { 488 } else { 496 };
        let mut page = |entries: &[Vec<u8>], level: u8| {
            let at = file.len() as u64;
            let mut page = entries.concat();
            page.resize(512, 0);
            page[end..end + 4].copy_from_slice(&[
                entries.len() as u8,
                entries.len() as u8,
                entries[0].len() as u8,
                level,
            ]);
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
        file.extend(if self.wide { 23_u16 } else { 15 }.to_le_bytes());
        file.resize(600, 0);
        file[if self.wide { 513 } else { 461 }] = hidden;
        let mut blocks = Vec::new();
        for (id, bytes) in &self.blocks {
            let mut entry = [self.number(*id), self.number(file.len() as u64)].concat();
            entry.extend((bytes.len() as u16).to_le_bytes());
            entry.resize(if self.wide { 24 } else { 12 }, 0);
            blocks.push(entry);
            let hide =
                |it: &u8| if hidden == 1 && id & 2 == 0 { FIRST[usize::from(*it)] } else { *it };
            file.extend(bytes.iter().map(hide));
        }
        let nodes: Vec<Vec<u8>> = self
            .nodes
            .iter()
            .map(|[id, data, below, parent]| {
                let mut entry: Vec<u8> =
                    [*id, *data, *below].into_iter().flat_map(|it| self.number(it)).collect();
                entry.extend((*parent as u32).to_le_bytes());
                entry.resize(if self.wide { 32 } else { 16 }, 0);
                entry
            })
            .collect();
        let places = [self.tree(&mut file, &nodes), self.tree(&mut file, &blocks)];
        let at = if self.wide { [224, 240] } else { [188, 196] };
        for (at, place) in at.into_iter().zip(places) {
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
    let mut heap = vec![0, 0, 0xEC, 0xBC, 0x20, 0, 0, 0, 0, 0, 0, 0];
    let mut places = vec![heap.len() as u16];
    for piece in &pieces {
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

/// 2026-03-02, 10:00.
const MONDAY: u64 = (1_772_445_600 + 11_644_473_600) * 10_000_000;

fn time(time: u64) -> Property {
    (TIMES[0], 0x40, Value::Bytes(time.to_le_bytes().to_vec()))
}

/// Two folders: in one a mail with files, in the other an answer to it, a page and a rich text.
fn written(wide: bool) -> Writer {
    let mut writer = Writer::new(wide);
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
    lease.push(time(MONDAY));
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
    for (wide, hidden) in [(true, 0), (true, 1), (false, 0), (false, 1)] {
        let document = read(&written(wide).file(hidden));
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
            "{wide} {hidden}"
        );
    }
}

#[test]
fn damage_ends_early_and_nothing_else() {
    let whole = written(true).file(1);
    let all = read(&whole).blocks.len();
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
        let mut lies = whole.clone();
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
fn trees_that_lead_to_themselves_end() {
    let mut file = written(true).file(0);
    let top = u64::from_le_bytes(file[240..248].try_into().expect("eight bytes"));
    // Every page of blocks leads to the highest one.
    let at = top as usize;
    for entry in 0..usize::from(file[at + 488]) {
        file[at + entry * 24 + 16..at + entry * 24 + 24].copy_from_slice(&top.to_le_bytes());
    }
    assert!(read(&file).blocks.is_empty());
    // A block that names itself, and a list below that is its own.
    let mut writer = Writer::new(true);
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
    let whole = written(true).file(0);
    let mut copy = whole.clone();
    copy[10] = 36;
    let mut locked = whole.clone();
    locked[513] = 16;
    for (bytes, why) in [
        (b"".as_slice(), Remark::Damaged),
        (b"!BDN", Remark::Damaged),
        (&whole[..600], Remark::Damaged),
        (&copy, Remark::OutlookCopy),
        (&locked, Remark::Password),
    ] {
        let outcome = parse(bytes, &mut Shares::tried());
        assert_eq!(outcome, ParseOutcome::Failed(why.into()));
    }
}
