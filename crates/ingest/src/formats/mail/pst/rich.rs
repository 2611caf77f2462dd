//! Rich text as Outlook packs it (MS-OXRTFCP): what was said before is named by where and how long.

/// Most bytes unpacked.
const MOST: usize = 8 << 20;

/// What is taken as said before the first letter.
const BEFORE: &[u8] = b"{\\rtf1\\ansi\\mac\\deff0\\deftab720{\\fonttbl;}{\\f0\\fnil \\froman \\fswiss \\fmodern \
    \\fscript \\fdecor MS Sans SerifSymbolArialTimes New RomanCourier{\\colortbl\\red0\\green0\\blue0\r\n\\par \
    \\pard\\plain\\f0\\fs20\\b\\i\\u\\tab\\tx";

/// Bytes that are remembered.
const WINDOW: usize = 4096;

/// The rich text, or what of it could be unpacked.
pub(in super::super) fn unpacked(bytes: &[u8]) -> Option<Vec<u8>> {
    let (head, packed) = bytes.split_at_checked(16)?;
    match &head[8..12] {
        b"MELA" => return Some(packed.to_vec()),
        b"LZFu" => {}
        _ => return None,
    }
    let mut window = [b' '; WINDOW];
    window[..BEFORE.len()].copy_from_slice(BEFORE);
    let (mut at, mut text) = (BEFORE.len(), Vec::new());
    let mut rest = packed.iter().copied();
    'all: while let Some(marks) = rest.next() {
        for mark in 0..8 {
            let Some(byte) = rest.next().filter(|_| text.len() < MOST) else { break 'all };
            if marks >> mark & 1 == 0 {
                window[at] = byte;
                at = (at + 1) % WINDOW;
                text.push(byte);
                continue;
            }
            let Some(low) = rest.next() else { break 'all };
            let pair = u16::from_be_bytes([byte, low]);
            let (from, count) = (usize::from(pair >> 4), usize::from(pair & 15) + 2);
            if from == at {
                break 'all;
            }
            for step in 0..count {
                let byte = window[(from + step) % WINDOW];
                window[at] = byte;
                at = (at + 1) % WINDOW;
                text.push(byte);
            }
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_specification_is_unpacked() {
        let packed = [
            0x2d, 0, 0, 0, 0x2b, 0, 0, 0, b'L', b'Z', b'F', b'u', 0xf1, 0xc5, 0xc7, 0xa7, 0x03,
            0x00, 0x0a, 0x00, 0x72, 0x63, 0x70, 0x67, 0x31, 0x32, 0x35, 0x42, 0x32, 0x0a, 0xf3,
            0x20, 0x68, 0x65, 0x6c, 0x09, 0x00, 0x20, 0x62, 0x77, 0x05, 0xb0, 0x6c, 0x64, 0x7d,
            0x0a, 0x80, 0x0f, 0xa0,
        ];
        let text = unpacked(&packed).expect("unpacked");
        assert_eq!(text, b"{\\rtf1\\ansi\\ansicpg1252\\pard hello world}\r\n");
        for length in 0..packed.len() {
            let short = unpacked(&packed[..length]);
            assert!(short.is_none_or(|it| text.starts_with(&it)), "{length} bytes");
        }
        assert_eq!(unpacked(b"0123456789abcdefgh"), None);
        assert_eq!(unpacked(b"01234567MELA0123{x}").as_deref(), Some(b"{x}".as_slice()));
    }
}
