//! Pages of TIFF files: a scanner and a fax put one picture behind the other.
//!
//! Where each lies is read here. A page is decoded like a file whose first picture it is.

use std::{borrow::Cow, collections::HashSet};

use crate::remark::Remark;

/// Most pages that are read of one file: reading one takes seconds.
const MOST_PAGES: usize = 1000;

/// Most directories that are looked at: every page may have a small picture of itself beside it.
const MOST_DIRECTORIES: usize = 4 * MOST_PAGES;

/// Bytes of a field of a directory.
const FIELD: usize = 12;

/// Fields that say what a picture is for: a number of bits, and what was used before that.
const NEW_SUBFILE_TYPE: u16 = 254;
const SUBFILE_TYPE: u16 = 255;

/// Number of pages of a picture: one, unless it is a TIFF file with more. One that has more than are read has one more
/// than that, which says so.
pub(crate) fn count(bytes: &[u8]) -> u32 {
    directories(bytes).len().max(1) as u32
}

/// A file whose first picture is that page, from 1.
pub(crate) fn page(bytes: &[u8], number: u32) -> Result<Cow<'_, [u8]>, Remark> {
    let index = number.max(1) as usize - 1;
    if index == 0 {
        return Ok(Cow::Borrowed(bytes));
    }
    if index >= MOST_PAGES {
        return Err(Remark::Pages { most: MOST_PAGES });
    }
    let directory = *directories(bytes).get(index).ok_or(Remark::Damaged)?;
    let mut page = bytes.to_vec();
    let at =
        if bytes.starts_with(b"II") { directory.to_le_bytes() } else { directory.to_be_bytes() };
    page.get_mut(4..8).ok_or(Remark::Damaged)?.copy_from_slice(&at);
    Ok(Cow::Owned(page))
}

/// Where the directories of the pages are; none, if it is no such file.
fn directories(bytes: &[u8]) -> Vec<u32> {
    let little = match bytes.get(..4) {
        Some(b"II*\0") => true,
        Some(b"MM\0*") => false,
        _ => return Vec::new(),
    };
    let short = |at: usize| -> Option<u16> {
        let two = bytes.get(at..at.checked_add(2)?)?.try_into().ok()?;
        Some(if little { u16::from_le_bytes(two) } else { u16::from_be_bytes(two) })
    };
    let long = |at: usize| -> Option<u32> {
        let four = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
        Some(if little { u32::from_le_bytes(four) } else { u32::from_be_bytes(four) })
    };
    // A smaller version of another picture, or what masks one.
    let aside = |field: usize| match short(field) {
        Some(NEW_SUBFILE_TYPE) => long(field + 8).is_some_and(|it| it & 0b101 != 0),
        Some(SUBFILE_TYPE) => short(field + 8) == Some(2),
        _ => false,
    };
    let (mut pages, mut seen) = (Vec::new(), HashSet::new());
    let mut next = long(4);
    while let Some(start) = next.filter(|it| *it != 0) {
        // One that leads back would be read for ever.
        if !seen.insert(start) || seen.len() > MOST_DIRECTORIES || pages.len() > MOST_PAGES {
            break;
        }
        let first = start as usize + 2;
        let Some(fields) = short(start as usize) else { break };
        let end = first + usize::from(fields) * FIELD;
        if end > bytes.len() {
            break;
        }
        let aside = !pages.is_empty() && (first..end).step_by(FIELD).any(aside);
        if !aside {
            pages.push(start);
        }
        next = long(end);
    }
    pages
}

#[cfg(test)]
mod tests {
    use riddle_ocr::Picture;

    use super::*;

    /// Gray pictures of four points, each of another shade and with such a purpose, behind each other.
    fn tiff(pages: &[(u8, u32)], little: bool) -> Vec<u8> {
        let two = |it: u16| if little { it.to_le_bytes() } else { it.to_be_bytes() };
        let four = |it: u32| if little { it.to_le_bytes() } else { it.to_be_bytes() };
        let mut bytes = if little { b"II*\0".to_vec() } else { b"MM\0*".to_vec() };
        bytes.extend(four(8));
        for (index, (shade, purpose)) in pages.iter().enumerate() {
            let fields: [(u16, u32); 9] = [
                (254, *purpose),
                (256, 2),
                (257, 2),
                (258, 8),
                (259, 1),
                (262, 1),
                (273, 0),
                (278, 2),
                (279, 4),
            ];
            let data = bytes.len() as u32 + 2 + 12 * fields.len() as u32 + 4;
            bytes.extend(two(fields.len() as u16));
            for (tag, value) in fields {
                bytes.extend(two(tag));
                bytes.extend(two(4));
                bytes.extend(four(1));
                bytes.extend(four(if tag == 273 { data } else { value }));
            }
            bytes.extend(four(if index + 1 < pages.len() { data + 4 } else { 0 }));
            bytes.extend([*shade; 4]);
        }
        bytes
    }

    fn decoded(bytes: &[u8], number: u32) -> Picture {
        Picture::decode(&page(bytes, number).expect("a page")).expect("a picture")
    }

    #[test]
    fn each_page_is_decoded_and_what_stands_beside_one_is_none() {
        for little in [true, false] {
            let bytes = tiff(&[(10, 2), (200, 1), (90, 2), (30, 4), (250, 0)], little);
            assert_eq!(count(&bytes), 3);
            for (number, shade) in [(1, 10), (2, 90), (3, 250)] {
                let expected = Picture::new(2, 2, vec![shade; 12]).expect("three bytes a point");
                assert_eq!(decoded(&bytes, number), expected, "page {number}");
            }
            assert_eq!(page(&bytes, 4), Err(Remark::Damaged));
        }
        assert_eq!(count(b"\xFF\xD8\xFF\xE0 a photograph"), 1);
        assert_eq!(count(&tiff(&[(10, 1)], true)), 1, "the only one is a page whatever it says");
    }

    #[test]
    fn circles_ends_and_crowds_end() {
        let whole = tiff(&[(10, 2), (90, 2), (250, 2)], true);
        for length in 0..whole.len() {
            assert!((1..=3).contains(&count(&whole[..length])), "{length} bytes");
        }
        // Its last directory leads to the first.
        let mut circle = tiff(&[(10, 2), (90, 2)], true);
        let end = circle.len() - 8;
        circle[end..end + 4].copy_from_slice(&8_u32.to_le_bytes());
        assert_eq!(count(&circle), 2);
        let crowd = tiff(&vec![(10, 2); 1200], false);
        assert_eq!(count(&crowd), 1001);
        assert!(page(&crowd, 1000).is_ok());
        assert_eq!(page(&crowd, 1001), Err(Remark::Pages { most: 1000 }));
        let mut far = b"II*\0".to_vec();
        far.extend(u32::MAX.to_le_bytes());
        assert_eq!(count(&far), 1);
    }
}
