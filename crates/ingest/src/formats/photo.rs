//! Photographs: when, where and with what they were taken, as they say themselves.

use std::io::Cursor;

use exif::{Exif, In, Reader, Tag, Value};
use riddle_types::{Block, BlockKind, Document, Location};

use super::Shares;
use crate::{outcome::ParseOutcome, remark::Remark, tiff};

/// Formats that are decoded; of the others only what they say of themselves is read.
const DECODED: [&str; 9] = ["png", "jpg", "jpeg", "webp", "tif", "tiff", "gif", "bmp", "dib"];

pub(super) fn parse(name: &str, bytes: &[u8], shares: &mut Shares) -> ParseOutcome {
    let ending = name.rsplit_once('.').map_or("", |it| it.1).to_ascii_lowercase();
    if DECODED.contains(&ending.as_str()) {
        match shares.depth {
            0 => shares.note_pages(1..=tiff::count(bytes)),
            _ => shares.note_picture(1, bytes),
        }
    }
    // What is sound of them is read where a part is not: many programs leave something out.
    let exif = Reader::new()
        .continue_on_error(true)
        .read_from_container(&mut Cursor::new(bytes))
        .or_else(|error| error.distill_partial_result(|_| {}));
    let Ok(exif) = exif else {
        return ParseOutcome::NoText(Remark::Picture.into());
    };
    let mut facts = Vec::new();
    let taken = [Tag::DateTimeOriginal, Tag::DateTimeDigitized, Tag::DateTime];
    if let Some(time) = taken.iter().find_map(|it| text(&exif, *it)).as_deref().and_then(day) {
        facts.push(format!("Taken: {time}"));
    }
    if let Some(place) = place(&exif) {
        facts.push(format!("Place: {place}"));
    }
    let camera: Vec<String> =
        [Tag::Make, Tag::Model, Tag::LensModel].iter().filter_map(|it| text(&exif, *it)).collect();
    if !camera.is_empty() {
        facts.push(format!("Camera: {}", camera.join(", ")));
    }
    for (label, tag) in
        [("About", Tag::ImageDescription), ("By", Tag::Artist), ("Rights", Tag::Copyright)]
    {
        facts.extend(text(&exif, tag).map(|it| format!("{label}: {it}")));
    }
    if facts.is_empty() {
        return ParseOutcome::NoText(Remark::Picture.into());
    }
    let name = name.rsplit_once('.').map_or(name, |it| it.0);
    facts.insert(0, format!("Photograph {name}"));
    let block = Block::new(BlockKind::Paragraph, facts.join("\n"), Location::Whole);
    ParseOutcome::Parsed(Document { blocks: vec![block], ..Document::default() })
}

/// The letters of a field, without what fills it up.
fn text(exif: &Exif, tag: Tag) -> Option<String> {
    let Value::Ascii(lines) = &exif.get_field(tag, In::PRIMARY)?.value else { return None };
    let text = lines.iter().map(|it| String::from_utf8_lossy(it)).collect::<Vec<_>>().join(" ");
    let text = text.trim_matches(['\0', ' ']).to_owned();
    (!text.is_empty() && text.len() < 2000).then_some(text)
}

/// `2026:03:04 14:02:11` as `2026-03-04 14:02 (March)`.
fn day(time: &str) -> Option<String> {
    let (day, clock) = time.split_once(' ').unwrap_or((time, ""));
    let day = day.replace(':', "-");
    let month = crate::table::month_of(&day)?;
    let clock = clock.get(..5).unwrap_or("");
    Some(format!("{} ({month})", format!("{day} {clock}").trim()))
}

/// Latitude and longitude in degrees.
fn place(exif: &Exif) -> Option<String> {
    let degrees = |tag: Tag| {
        let Value::Rational(parts) = &exif.get_field(tag, In::PRIMARY)?.value else { return None };
        let [degrees, minutes, seconds] = parts.as_slice() else { return None };
        let all = degrees.to_f64() + minutes.to_f64() / 60.0 + seconds.to_f64() / 3600.0;
        all.is_finite().then_some(all)
    };
    let (latitude, longitude) = (degrees(Tag::GPSLatitude)?, degrees(Tag::GPSLongitude)?);
    let side = |tag: Tag, standard: &str| text(exif, tag).unwrap_or_else(|| standard.to_owned());
    let (north, east) = (side(Tag::GPSLatitudeRef, "N"), side(Tag::GPSLongitudeRef, "E"));
    Some(format!("{latitude:.4}° {north}, {longitude:.4}° {east}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A TIFF file that is nothing but its facts: fields of letters, and a place.
    fn tiff() -> Vec<u8> {
        let time = b"2026:03:04 14:02:11\0";
        let make = b"Canon\0";
        let entries: u16 = 3;
        let ifd = 8u32;
        let data = ifd + 2 + 12 * u32::from(entries) + 4;
        let mut bytes = b"II*\0".to_vec();
        bytes.extend(ifd.to_le_bytes());
        bytes.extend(entries.to_le_bytes());
        let mut entry = |tag: u16, kind: u16, count: u32, value: u32| {
            bytes.extend(tag.to_le_bytes());
            bytes.extend(kind.to_le_bytes());
            bytes.extend(count.to_le_bytes());
            bytes.extend(value.to_le_bytes());
        };
        entry(0x010F, 2, make.len() as u32, data);
        entry(0x0132, 2, time.len() as u32, data + make.len() as u32);
        let gps = data + (make.len() + time.len()) as u32;
        entry(0x8825, 4, 1, gps);
        bytes.extend(0u32.to_le_bytes());
        bytes.extend(make);
        bytes.extend(time);
        let values = gps + 2 + 12 * 2 + 4;
        bytes.extend(2u16.to_le_bytes());
        for (tag, at) in [(2u16, values), (4, values + 24)] {
            bytes.extend(tag.to_le_bytes());
            bytes.extend(5u16.to_le_bytes());
            bytes.extend(3u32.to_le_bytes());
            bytes.extend(at.to_le_bytes());
        }
        bytes.extend(0u32.to_le_bytes());
        for number in [47u32, 22, 30, 8, 32, 24] {
            bytes.extend(number.to_le_bytes());
            bytes.extend(1u32.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn photographs_say_when_and_where() {
        let ParseOutcome::Parsed(document) = parse("IMG_7.tif", &tiff(), &mut Shares::tried())
        else {
            panic!("parses")
        };
        assert_eq!(
            document.blocks[0].text,
            "Photograph IMG_7\nTaken: 2026-03-04 14:02 (March)\nPlace: 47.3750° N, 8.5400° E\nCamera: Canon"
        );
        // Programs that write facts leave the link behind the last field out: what follows is no place in the file.
        let mut sloppy = tiff();
        let link = sloppy.len() - 6 * 8 - 4;
        sloppy[link] = 7;
        let outcome = parse("IMG_7.tif", &sloppy, &mut Shares::tried());
        assert_eq!(outcome, ParseOutcome::Parsed(document));
        for odd in [&b""[..], b"\xFF\xD8\xFF\xE1", &tiff()[..40]] {
            assert!(matches!(parse("x.jpg", odd, &mut Shares::tried()), ParseOutcome::NoText(_)));
        }
    }
}
