//! Pictures in workbooks of the old format (BIFF): \[MS-XLS\] says where drawings lie, \[MS-ODRAW\] what they are.
//!
//! The workbook lists its pictures; a sheet has shapes, of which some name one of them by its number and say in which
//! cell they begin. Charts have drawings of their own, which are not looked at.

use std::{
    borrow::Cow,
    io::{Cursor, Read as _},
    ops::Range,
};

use super::{Corner, Shown};
use crate::sheet::scattered::{kind, record, short};

/// Where workbooks of Excel 97 and later keep their drawings; those before had none that are known.
const STREAM: &str = "/Workbook";

/// Kinds of records with drawings: of the workbook, of a sheet, and what goes on with one before.
const PICTURES: u16 = 0x00EB;
const DRAWING: u16 = 0x00EC;
const MORE: u16 = 0x003C;

/// Most pictures of a workbook and shapes of a sheet that are looked at.
const MOST: usize = 10_000;

/// Shows the pictures of a workbook in the order of its sheets; nothing of one that can not be followed.
pub(super) fn pictures(bytes: &[u8], shown: &mut Shown<'_>) -> Option<()> {
    let mut file = cfb::CompoundFile::open(Cursor::new(bytes)).ok()?;
    let mut book = Vec::new();
    file.open_stream(STREAM).ok()?.read_to_end(&mut book).ok()?;
    let (sheets, list) = globals(&book)?;
    let pictures = listed(&list);
    // Sheets lie behind one another: those of a file that lies end with its length.
    let mut left = book.len();
    for (start, name) in sheets {
        for (number, at) in shapes(&drawing(&book, start, &mut left)) {
            let picture = pictures.get(number).and_then(|it| picture(list.get(it.clone()?)?));
            if let Some(picture) = picture
                && !shown.show(&picture, &name, at)
            {
                return None;
            }
        }
    }
    Some(())
}

/// Where the sheets begin that are shown, with their names.
type Sheets = Vec<(usize, String)>;

/// The sheets, and the list of pictures.
fn globals(book: &[u8]) -> Option<(Sheets, Vec<u8>)> {
    let (mut sheets, mut list, mut before) = (Vec::new(), Vec::new(), 0);
    let mut at = 0;
    while let Some((kind, data)) = record(book, at) {
        at = data.end;
        let bytes = &book[data];
        match kind {
            kind::ENCRYPTED => return None,
            kind::END => break,
            kind::SHEET => sheets.extend(sheet(bytes)),
            PICTURES => list.extend(bytes),
            MORE if before == PICTURES => {
                list.extend(bytes);
                continue;
            }
            _ => {}
        }
        before = kind;
    }
    Some((sheets, list))
}

/// Where a sheet begins, and its name: a count of letters, whether they have two bytes each, and they.
fn sheet(data: &[u8]) -> Option<(usize, String)> {
    /// States that hide it, and the kind of one that has cells.
    const HIDDEN: u8 = 3;
    const CELLS: u8 = 0;
    let (start, [state, what, count, wide, letters @ ..]) = data.split_at_checked(4)? else {
        return None;
    };
    if state & HIDDEN != 0 || *what != CELLS {
        return None;
    }
    let start = u32::from_le_bytes(start.try_into().ok()?) as usize;
    let count = usize::from(*count);
    let name = if wide & 1 == 1 {
        encoding_rs::UTF_16LE.decode_without_bom_handling(letters.get(..2 * count)?).0.into_owned()
    } else {
        letters.get(..count)?.iter().map(|it| char::from(*it)).collect()
    };
    Some((start, name))
}

/// The drawing of the sheet that begins at `start`, put together, as far as `left` bytes reach; nothing of what is
/// embedded in it.
fn drawing(book: &[u8], start: usize, left: &mut usize) -> Vec<u8> {
    let (mut at, mut depth, mut before, mut drawing) = (start, 0_usize, 0, Vec::new());
    while let Some((kind, data)) = record(book, at) {
        let Some(rest) = left.checked_sub(data.end - at) else { break };
        (at, *left) = (data.end, rest);
        match kind {
            kind::BEGIN => depth += 1,
            kind::END if depth <= 1 => break,
            kind::END => depth -= 1,
            _ if depth > 1 => {}
            DRAWING => drawing.extend(&book[data]),
            MORE if before == DRAWING => {
                drawing.extend(&book[data]);
                continue;
            }
            _ => {}
        }
        before = kind;
    }
    drawing
}

/// A part of a drawing: its kind, twelve bits of which each kind makes its own use, and where its data lie.
struct Part {
    kind: u16,
    own: u16,
    data: Range<usize>,
}

/// The parts of a drawing, one after the other: those inside of another come behind it.
fn parts(drawing: &[u8]) -> impl Iterator<Item = Part> {
    /// What marks a part that is made of others.
    const OTHERS: u16 = 0xF;
    let mut at = 0_usize;
    std::iter::from_fn(move || {
        let (head, kind) = (short(drawing, at)?, short(drawing, at + 2)?);
        let length = u32::from_le_bytes(drawing.get(at + 4..at + 8)?.try_into().ok()?) as usize;
        let start = at + 8;
        let end = start.checked_add(length)?.min(drawing.len());
        at = if head & 0xF == OTHERS { start } else { end };
        Some(Part { kind, own: head >> 4, data: start..end })
    })
}

/// Kinds of parts that are pictures: those that are kept as files, and one without what begins its file.
const FILES: [u16; 4] = [0xF01D, 0xF01E, 0xF029, 0xF02A];
const BITMAP: u16 = 0xF01F;

/// Where the pictures lie in the list, by their numbers from 0.
fn listed(list: &[u8]) -> Vec<Option<Range<usize>>> {
    /// What is said of a picture, before it: the last byte but two says how long its name is.
    const ENTRY: u16 = 0xF007;
    const SAID: usize = 36;
    const ANY: std::ops::RangeInclusive<u16> = 0xF018..=0xF117;
    let entry = |it: Part| match it.kind {
        ENTRY => {
            let name = list.get(it.data.start + SAID - 3).copied().unwrap_or(0);
            let start = it.data.start + SAID + usize::from(name);
            Some((start < it.data.end).then_some(start..it.data.end))
        }
        kind if ANY.contains(&kind) => Some(Some(it.data.start - 8..it.data.end)),
        _ => None,
    };
    parts(list).filter_map(entry).take(MOST).collect()
}

/// A picture as a file.
fn picture(part: &[u8]) -> Option<Cow<'_, [u8]>> {
    let Part { kind, own, data } = parts(part).next()?;
    // What tells it from others stands before it, once or twice, and a mark.
    let before = if own & 1 == 1 { 33 } else { 17 };
    let bytes = part.get(data)?.get(before..)?;
    match kind {
        _ if FILES.contains(&kind) => Some(Cow::Borrowed(bytes)),
        BITMAP => bitmap(bytes).map(Cow::Owned),
        // Drawings of Windows and of the Macintosh are no points.
        _ => None,
    }
}

/// A bitmap with what begins its file: where its points begin, behind a head, masks and colors.
fn bitmap(bytes: &[u8]) -> Option<Vec<u8>> {
    const HEAD: usize = 40;
    /// A way of packing: by masks, which stand behind a head that has no room for them.
    const MASKS: usize = 3;
    let long =
        |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?) as usize);
    let (head, bits, packed, used) = (long(0)?, short(bytes, 14)?, long(16)?, long(32)?);
    if !(HEAD..=200).contains(&head) {
        return None;
    }
    let masks = if head == HEAD && packed == MASKS { 12 } else { 0 };
    let colors = match (bits, used) {
        (1..=8, 0) => 1 << bits,
        _ => used.min(256),
    };
    let start = 14 + head + masks + 4 * colors;
    let mut file = b"BM".to_vec();
    for value in [14 + bytes.len(), 0, start] {
        file.extend((value as u32).to_le_bytes());
    }
    file.extend(bytes);
    Some(file)
}

/// Numbers from 0 of the pictures that shapes show, and the cells in which they begin.
fn shapes(drawing: &[u8]) -> Vec<(usize, Corner)> {
    const SHAPE: u16 = 0xF004;
    const PROPERTIES: u16 = 0xF00B;
    const ANCHOR: u16 = 0xF010;
    /// The property that names a picture, and the bit that says that it does.
    const PICTURE: u16 = 0x0104 | NAMES;
    const NAMES: u16 = 0x4000;
    const ID: u16 = 0x7FFF;
    let (mut all, mut picture, mut corner) = (Vec::new(), None, Corner { column: 1, row: 1 });
    for part in parts(drawing) {
        if all.len() >= MOST {
            break;
        }
        let data = &drawing[part.data];
        match part.kind {
            SHAPE => all.extend(picture.take().map(|it| (it, corner))),
            PROPERTIES => {
                let named = data.chunks_exact(6).take(usize::from(part.own)).find_map(|it| {
                    let value = u32::from_le_bytes(it[2..].try_into().ok()?) as usize;
                    (short(it, 0)? & ID == PICTURE).then(|| value.checked_sub(1))?
                });
                picture = picture.or(named);
            }
            // What lies in a group begins where the group does.
            ANCHOR => {
                if let (Some(column), Some(row)) = (short(data, 2), short(data, 6)) {
                    corner = Corner { column: u32::from(column) + 1, row: u32::from(row) + 1 };
                }
            }
            _ => {}
        }
    }
    all.extend(picture.map(|it| (it, corner)));
    all
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use riddle_types::{FileKind, Location};

    use super::*;
    use crate::{formats, office};

    /// A part of a drawing.
    fn part(kind: u16, own: u16, version: u16, data: &[u8]) -> Vec<u8> {
        let mut part = (own << 4 | version).to_le_bytes().to_vec();
        part.extend(kind.to_le_bytes());
        part.extend((data.len() as u32).to_le_bytes());
        part.extend(data);
        part
    }

    /// A picture in the list, of that kind.
    fn entry(kind: u16, own: u16, picture: &[u8]) -> Vec<u8> {
        let before = vec![7; if own & 1 == 1 { 33 } else { 17 }];
        let mut said = vec![0; 36];
        said[33] = 4;
        said.extend(b"n\0\0\0");
        said.extend(part(kind, own, 0, &[before, picture.to_vec()].concat()));
        part(0xF007, 6, 2, &said)
    }

    /// The list of pictures of a workbook.
    fn list(all: &[(u16, u16, &[u8])]) -> Vec<u8> {
        let all: Vec<u8> = all.iter().flat_map(|it| entry(it.0, it.1, it.2)).collect();
        part(0xF000, 0, 15, &part(0xF001, 1, 15, &all))
    }

    /// The drawing of a sheet: numbers of pictures, from 1, and their cells, from 0.
    fn drawn(all: &[(u32, Option<(u16, u16)>)]) -> Vec<u8> {
        let shape = |(picture, cell): &(u32, Option<(u16, u16)>)| {
            let mut properties = vec![0x7F, 0, 1, 0, 1, 0, 0x04, 0x41];
            properties.extend(picture.to_le_bytes());
            let mut shape = part(0xF00B, 2, 3, &properties);
            if let Some((column, row)) = cell {
                let anchor = [2, *column, 0, *row, 0, 9, 0, 9, 0];
                let anchor: Vec<u8> = anchor.into_iter().flat_map(u16::to_le_bytes).collect();
                shape.extend(part(0xF010, 0, 0, &anchor));
            }
            part(0xF004, 0, 15, &shape)
        };
        let all: Vec<u8> = all.iter().flat_map(shape).collect();
        part(0xF002, 1, 15, &part(0xF003, 0, 15, &all))
    }

    fn push(book: &mut Vec<u8>, kind: u16, data: &[u8]) {
        // Longer ones go on in others.
        for (part, index) in data.chunks(300).zip(0..) {
            book.extend(if index == 0 { kind } else { MORE }.to_le_bytes());
            book.extend((part.len() as u16).to_le_bytes());
            book.extend(part);
        }
        if data.is_empty() {
            book.extend([kind.to_le_bytes(), [0; 2]].concat());
        }
    }

    /// A workbook with these sheets: name, state, and drawing.
    fn workbook(list: &[u8], sheets: &[(&str, u8, Vec<u8>)]) -> Vec<u8> {
        let (begin, mut book, mut names) = ([0, 6, 5, 0], Vec::new(), Vec::new());
        push(&mut book, kind::BEGIN, &begin);
        for (name, state, _) in sheets {
            names.push(book.len() + 4);
            let name = [&[name.len() as u8, 0], name.as_bytes()].concat();
            push(&mut book, kind::SHEET, &[&[0, 0, 0, 0, *state, 0], name.as_slice()].concat());
        }
        push(&mut book, PICTURES, list);
        push(&mut book, kind::END, &[]);
        for ((_, _, drawing), name) in sheets.iter().zip(names) {
            let start = book.len() as u32;
            book[name..name + 4].copy_from_slice(&start.to_le_bytes());
            push(&mut book, kind::BEGIN, &[0, 6, 0x10, 0]);
            push(&mut book, kind::TEXT, b"\0\0\0\0\0\0\x04\0\0Rent");
            let (half, rest) = drawing.split_at(drawing.len() / 2);
            push(&mut book, DRAWING, half);
            // A chart has a drawing of its own.
            push(&mut book, kind::BEGIN, &[0, 6, 0x20, 0]);
            push(&mut book, DRAWING, &drawn(&[(1, Some((0, 0)))]));
            push(&mut book, kind::END, &[]);
            push(&mut book, DRAWING, rest);
            push(&mut book, kind::END, &[]);
        }
        let file = Cursor::new(Vec::new());
        let mut file = cfb::CompoundFile::create_with_version(cfb::Version::V3, file).unwrap();
        file.create_stream(STREAM).unwrap().write_all(&book).unwrap();
        file.flush().unwrap();
        file.into_inner().into_inner()
    }

    #[test]
    fn pictures_on_sheets_stand_in_their_cells_and_hidden_ones_are_left() {
        let (first, second) = (vec![1; 700], vec![2; 9]);
        let list = list(&[(0xF01E, 0x6E0, &first), (0xF01D, 0x46A, &second)]);
        let sheets = [
            ("Secret", 1, drawn(&[(1, Some((5, 5)))])),
            ("Costs", 0, drawn(&[(2, Some((1, 4))), (9, Some((3, 3))), (1, Some((0, 0)))])),
            ("Rent", 0, drawn(&[(1, Some((2, 0)))])),
        ];
        let bytes = workbook(&list, &sheets);
        let mut seen = Vec::new();
        let mut see = |number: u32, bytes: &[u8], at: &Location| {
            seen.push((number, bytes.to_vec(), at.to_string()));
        };
        formats::pictures_of("x.xls", FileKind::Spreadsheet, &bytes, &mut see);
        let expected = [(1, &second, "Costs!B5"), (2, &first, "Costs!A1"), (3, &first, "Rent!C1")];
        let expected = expected.map(|it| (it.0, it.1.clone(), it.2.to_owned()));
        assert_eq!(seen, expected);
        let mut read = 0;
        let mut see = |number: u32, bytes: &[u8], at: &Location| {
            assert_eq!((number, bytes.to_vec(), at.to_string()), expected[read]);
            read += 1;
        };
        let outcome = office::parse_with("x.xls", FileKind::Spreadsheet, bytes.clone(), &mut see);
        assert!(matches!(outcome, crate::outcome::ParseOutcome::Parsed(_)), "{outcome:?}");
        assert_eq!(read, 3);
        // Encrypted, and no workbook.
        let mut shown = 0;
        let mut see = |_: u32, _: &[u8], _: &Location| shown += 1;
        formats::pictures_of("x.xls", FileKind::Spreadsheet, &bytes[..900], &mut see);
        assert_eq!(shown, 0);
        assert!(globals(&[0x2F, 0, 0, 0]).is_none());
    }

    #[test]
    fn sheets_that_all_lie_in_one_place_end_with_the_length_of_the_book() {
        let mut book = Vec::new();
        push(&mut book, kind::BEGIN, &[0, 6, 0x10, 0]);
        push(&mut book, DRAWING, &[7; 100]);
        push(&mut book, kind::END, &[]);
        let mut left = book.len();
        let lengths: Vec<usize> = (0..3).map(|_| drawing(&book, 0, &mut left).len()).collect();
        assert_eq!(lengths, [100, 0, 0]);
    }

    #[test]
    fn what_is_drawn_in_a_group_begins_where_the_group_does() {
        let seen = shapes(&drawn(&[(2, Some((3, 4))), (1, None), (0, Some((0, 0)))]));
        let seen: Vec<(usize, u32, u32)> =
            seen.iter().map(|it| (it.0, it.1.column, it.1.row)).collect();
        assert_eq!(seen, [(1, 4, 5), (0, 4, 5)]);
    }

    #[test]
    fn pictures_are_files_whatever_stands_before_them() {
        let all =
            list(&[(0xF01E, 0x6E0, b"one"), (0xF01A, 0x3D4, b"emf"), (0xF01D, 0x46B, b"two")]);
        let pictures: Vec<Option<Vec<u8>>> = listed(&all)
            .into_iter()
            .map(|it| picture(&all[it.expect("a place")]).map(Cow::into_owned))
            .collect();
        assert_eq!(pictures, [Some(b"one".to_vec()), None, Some(b"two".to_vec())]);
    }

    #[test]
    fn a_bitmap_gets_what_begins_its_file() {
        let mut points = vec![0; 40];
        points[0] = 40;
        points[14] = 8;
        let file = bitmap(&points).expect("a bitmap");
        assert_eq!((&file[..2], file[10..14].to_vec()), (b"BM".as_slice(), vec![54, 4, 0, 0]));
        points[0] = 12;
        assert_eq!(bitmap(&points), None);
    }

    #[test]
    fn damaged_drawings_end() {
        let whole = drawn(&[(1, Some((3, 4))), (2, None)]);
        let all = list(&[(0xF01E, 0x6E0, b"one"), (0xF01F, 0x7A8, &[9; 60])]);
        let mut state = 1_u32;
        for round in 0..2000_usize {
            let mut lies = [whole.clone(), all.clone()].concat();
            for _ in 0..8 {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let at = state as usize % lies.len();
                lies[at] = (state >> 24) as u8;
            }
            lies.truncate(lies.len() - round % lies.len());
            assert!(shapes(&lies).len() <= lies.len());
            for it in listed(&lies).into_iter().flatten() {
                let _ = picture(&lies[it]);
            }
        }
    }
}
