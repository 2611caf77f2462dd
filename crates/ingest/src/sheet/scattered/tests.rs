use std::io::{Cursor, Write};

use proptest::prelude::*;

use super::{FAR, Gathered, gather, kind, record};
use crate::{outcome::ParseOutcome, sheet::old_workbook};

/// What a record of a test workbook holds.
#[derive(Debug, Clone)]
enum Held {
    Float(f64),
    Text(String),
    Truth(bool),
    /// Small whole numbers in neighbouring cells.
    Numbers(Vec<u16>),
    /// A formula, and the text that it gives.
    Formula(String),
}

type Placed = (u16, u16, Held);

fn push(book: &mut Vec<u8>, kind: u16, data: &[u8]) {
    book.extend(kind.to_le_bytes());
    book.extend((data.len() as u16).to_le_bytes());
    book.extend(data);
}

fn text(value: &str) -> Vec<u8> {
    let mut data = (value.len() as u16).to_le_bytes().to_vec();
    data.push(0);
    data.extend(value.as_bytes());
    data
}

fn push_cell(book: &mut Vec<u8>, (row, column, held): &Placed) {
    let mut data = [row.to_le_bytes(), column.to_le_bytes()].concat();
    let plain = [0; 2];
    match held {
        Held::Float(value) => {
            data.extend(plain);
            data.extend(value.to_le_bytes());
            push(book, kind::FLOAT, &data);
        }
        Held::Text(value) => {
            data.extend(plain);
            data.extend(text(value));
            push(book, kind::TEXT, &data);
        }
        Held::Truth(value) => {
            data.extend(plain);
            data.extend([u8::from(*value), 0]);
            push(book, kind::TRUTH, &data);
        }
        Held::Numbers(values) => {
            for value in values {
                data.extend(plain);
                data.extend((u32::from(*value) << 2 | 2).to_le_bytes());
            }
            data.extend((column + values.len() as u16 - 1).to_le_bytes());
            push(book, kind::NUMBERS, &data);
        }
        Held::Formula(value) => {
            data.extend(plain);
            data.extend([0, 0, 0, 0, 0, 0, 0xFF, 0xFF]);
            data.extend([0; 8]);
            push(book, kind::FORMULA, &data);
            push(book, 0x0207, &text(value));
        }
    }
}

/// A workbook of Excel 97 with these sheets, the second of them with a chart in it.
fn workbook(sheets: &[Vec<Placed>]) -> Vec<u8> {
    let begin = |book: &mut Vec<u8>, what: u16| {
        let data = [0x0600_u16.to_le_bytes(), what.to_le_bytes()].concat();
        push(book, kind::BEGIN, &data);
    };
    let mut book = Vec::new();
    begin(&mut book, 5);
    let mut names = Vec::new();
    for number in 0..sheets.len() {
        names.push(book.len() + 4);
        push(&mut book, kind::SHEET, &[&[0; 6], &[2, 0, b'S', b'0' + number as u8][..]].concat());
    }
    push(&mut book, kind::END, &[]);
    for (number, cells) in sheets.iter().enumerate() {
        let start = book.len() as u32;
        book[names[number]..names[number] + 4].copy_from_slice(&start.to_le_bytes());
        begin(&mut book, 0x10);
        let rows = cells.iter().map(|it| it.0).max().map_or(0, |it| u32::from(it) + 1);
        let extent = [&[0; 4], &rows.to_le_bytes()[..], &[0; 2], &[0, 1], &[0; 2]].concat();
        push(&mut book, kind::EXTENT, &extent);
        for (index, cell) in cells.iter().enumerate() {
            if number == 1 && index == 1 {
                begin(&mut book, 0x20);
                push_cell(&mut book, &(65_000, 255, Held::Float(7.0)));
                push(&mut book, kind::END, &[]);
            }
            push_cell(&mut book, cell);
        }
        push(&mut book, kind::END, &[]);
    }
    book
}

fn file(book: &[u8]) -> Vec<u8> {
    // As Excel writes them.
    let version = cfb::Version::V3;
    let mut file =
        cfb::CompoundFile::create_with_version(version, Cursor::new(Vec::new())).unwrap();
    file.create_stream("/Workbook").unwrap().write_all(book).unwrap();
    file.flush().unwrap();
    file.into_inner().into_inner()
}

fn texts(outcome: &ParseOutcome) -> Vec<(String, String)> {
    let ParseOutcome::Parsed(document) = outcome else { panic!("not read: {outcome:?}") };
    let of = |it: &riddle_types::Block| (it.location.to_string(), it.text.clone());
    document.blocks.iter().map(of).collect()
}

#[test]
fn opposite_corners_are_two_cells() {
    let corners = vec![
        (0, 0, Held::Text("first".to_owned())),
        (65_535, 255, Held::Formula("last".to_owned())),
    ];
    let bytes = file(&workbook(&[corners, vec![(4, 2, Held::Float(312.5))]]));
    let gathered = Gathered::of(&bytes, FAR).unwrap();
    assert_eq!(gathered.bytes.len(), bytes.len());
    // The sheet that was small is as it was.
    assert!(gathered.sheets[0].is_some() && gathered.sheets[1].is_none());
    let read = texts(&old_workbook(&bytes, FAR));
    assert!(read.contains(&("S0!A1".to_owned(), "first".to_owned())), "{read:?}");
    assert!(read.contains(&("S0!IV65536".to_owned(), "last".to_owned())), "{read:?}");
    assert!(read.contains(&("S1!C5".to_owned(), "312.5".to_owned())), "{read:?}");
}

#[test]
fn what_can_not_be_followed_is_left_alone() {
    let far = [(0, 0, Held::Float(1.0)), (65_535, 255, Held::Numbers(vec![1]))].to_vec();
    let good = workbook(&[far]);
    assert!(gather(&mut good.clone(), FAR).is_some());
    // Nothing is far, no file, no sheets.
    assert!(gather(&mut workbook(&[vec![(0, 0, Held::Float(1.0))]]), FAR).is_none());
    assert!(Gathered::of(b"no file", 0).is_none());
    assert!(gather(&mut [], 0).is_none());
    // Encrypted.
    let mut secret = Vec::new();
    push(&mut secret, kind::ENCRYPTED, &[1, 0]);
    secret.extend(&good);
    assert!(gather(&mut secret, FAR).is_none());
    // Numbers that lie about their last column.
    let mut at = 0;
    let mut lies = good.clone();
    while let Some((kind, data)) = record(&good, at) {
        if kind == kind::NUMBERS {
            lies[data.end - 2] = 9;
        }
        at = data.end;
    }
    assert!(lies != good && gather(&mut lies, FAR).is_none());
    // A sheet beyond the end.
    let mut beyond = good;
    let start =
        record(&beyond, 0).and_then(|(_, first)| record(&beyond, first.end)).unwrap().1.start;
    beyond[start..start + 4].copy_from_slice(&[0xFF; 4]);
    assert!(gather(&mut beyond, FAR).is_none());
}

fn held() -> impl Strategy<Value = Held> {
    prop_oneof![
        (-1e6..1e6).prop_map(Held::Float),
        "[a-z]{1,6}".prop_map(Held::Text),
        any::<bool>().prop_map(Held::Truth),
        prop::collection::vec(0..999_u16, 1..200).prop_map(Held::Numbers),
        "[a-z]{1,6}".prop_map(Held::Formula),
    ]
}

fn cells() -> impl Strategy<Value = Vec<Placed>> {
    prop::collection::vec((0..90_u16, 0..56_u16, held()), 0..40)
}

proptest! {
    /// The same is read, from the same places, whether cells were gathered or not; also where a cell comes twice.
    #[test]
    fn gathering_changes_nothing_that_is_read(first in cells(), second in cells()) {
        let bytes = file(&workbook(&[first, second]));
        prop_assert_eq!(texts(&old_workbook(&bytes, 0)), texts(&old_workbook(&bytes, u64::MAX)));
    }

    /// No damage makes it panic or changes the length.
    #[test]
    fn damaged_workbooks_keep_their_length(
        cells in cells(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
    ) {
        let mut book = workbook(&[cells]);
        for (at, value) in damage {
            let at = at.index(book.len());
            book[at] = value;
        }
        let length = book.len();
        gather(&mut book, 0);
        prop_assert_eq!(book.len(), length);
    }
}
