//! Bookmarks of browsers: what is exported as a page, and the files that Chrome and Firefox keep as JSON.

use riddle_types::{Block, BlockKind, Document, Location};
use serde_json::Value;

use super::Shares;
use crate::{outcome::ParseOutcome, remark::Remark, text::decode};

/// Most bookmarks of one file.
const MOST: usize = 50_000;

/// Folders in folders: deeper ones are named by the last of them.
const DEEPEST: usize = 30;

/// Whether a file holds bookmarks, by how it begins.
pub(super) fn are(bytes: &[u8]) -> bool {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(2000)]);
    let page = head.to_ascii_uppercase().contains("NETSCAPE-BOOKMARK-FILE-1");
    let chrome = head.contains("\"roots\"") && head.contains("\"bookmark_bar\"");
    page || chrome || head.contains("text/x-moz-place-container")
}

/// What Firefox's own backups begin with; the length that they have unpacked follows, and one block of LZ4.
const PACKED: &[u8] = b"mozLz40\0";

pub(super) fn parse(_name: &str, bytes: &[u8], shares: &mut Shares) -> ParseOutcome {
    let unpacked = match bytes.strip_prefix(PACKED).map(|it| unpacked(it, shares.largest())) {
        Some(Ok(unpacked)) => Some(unpacked),
        Some(Err(why)) => return ParseOutcome::Failed(why.into()),
        None => None,
    };
    let (text, warning) = decode(unpacked.as_deref().unwrap_or(bytes));
    let mut document = Document { title: Some("Bookmarks".to_owned()), ..Document::default() };
    if text.trim_start().starts_with('{') {
        match serde_json::from_str::<Value>(&text) {
            Ok(Value::Object(all)) => {
                let roots = all.get("roots").and_then(Value::as_object);
                let children = all.get("children").and_then(Value::as_array);
                let folders = roots.into_iter().flat_map(|it| it.values());
                for folder in folders.chain(children.into_iter().flatten()) {
                    folder_of(folder, &mut Vec::new(), &mut document);
                }
            }
            Ok(_) => {}
            Err(error) => {
                return ParseOutcome::Failed(Remark::NotBookmarks(error.to_string()).into());
            }
        }
    } else {
        page(&text, &mut document);
    }
    document.warnings.extend(warning);
    ParseOutcome::Parsed(document)
}

/// The bytes of a backup. What it says of its length is not believed beyond what LZ4 can make of so many bytes.
fn unpacked(packed: &[u8], most: u64) -> Result<Vec<u8>, Remark> {
    /// A byte stands for no more than this many.
    const MOST_OF_A_BYTE: u64 = 255;
    let (length, block) = packed.split_first_chunk::<4>().ok_or(Remark::Damaged)?;
    let length = u32::from_le_bytes(*length);
    if u64::from(length) > most {
        return Err(Remark::TooMuch);
    }
    if u64::from(length) > block.len() as u64 * MOST_OF_A_BYTE {
        return Err(Remark::Damaged);
    }
    lz4_flex::block::decompress(block, length as usize).map_err(|_| Remark::Damaged)
}

/// A folder of the browsers' own files, and what is in it.
fn folder_of(value: &Value, path: &mut Vec<String>, document: &mut Document) {
    let name = value["name"].as_str().or_else(|| value["title"].as_str()).unwrap_or("").trim();
    let address = value["url"].as_str().or_else(|| value["uri"].as_str());
    if let Some(address) = address {
        push(name, address, path, document, Location::Section { path: path.clone(), paragraph: 1 });
        return;
    }
    let named = !name.is_empty() && path.len() < DEEPEST;
    if named {
        path.push(name.to_owned());
    }
    for child in value["children"].as_array().into_iter().flatten() {
        folder_of(child, path, document);
    }
    if named {
        path.pop();
    }
}

/// The exported page: `<H3>` begins a folder, `</DL>` ends one, `<A HREF>` is a bookmark.
fn page(text: &str, document: &mut Document) {
    let mut path: Vec<String> = Vec::new();
    let mut pending: Option<String> = None;
    for (line, number) in text.lines().zip(1..) {
        let upper = line.to_ascii_uppercase();
        if let Some(name) = between(line, &upper, "<H3", "</H3>") {
            pending = Some(name);
        } else if upper.contains("<DL>") {
            // The outermost list has no name.
            if path.len() < DEEPEST {
                path.push(pending.take().unwrap_or_default());
            }
        } else if upper.contains("</DL>") {
            path.pop();
        } else if let Some(name) = between(line, &upper, "<A ", "</A>") {
            let address =
                upper.find("HREF=\"").and_then(|at| line.get(at + 6..)?.split('"').next());
            let named: Vec<String> = path.iter().filter(|it| !it.is_empty()).cloned().collect();
            let location = Location::Line { start: number, end: number };
            push(&name, address.unwrap_or(""), &named, document, location);
        } else if let Some(note) = upper.find("<DD>").and_then(|at| line.get(at + 4..))
            && let Some(last) = document.blocks.last_mut()
        {
            last.text.push('\n');
            last.text.push_str(&plain(note));
        }
    }
}

fn between(line: &str, upper: &str, open: &str, close: &str) -> Option<String> {
    let start = upper.find(open)?;
    let from = start + line.get(start..)?.find('>')? + 1;
    let to = from + upper.get(from..)?.find(close)?;
    Some(plain(line.get(from..to)?))
}

fn plain(text: &str) -> String {
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
    text.replace("&#39;", "'").replace("&amp;", "&").trim().to_owned()
}

fn push(name: &str, address: &str, path: &[String], document: &mut Document, location: Location) {
    if document.blocks.len() >= MOST {
        return;
    }
    // Programs in an address are no words, and nobody looks for a picture in one.
    let address = if address.starts_with("javascript:") || address.starts_with("data:") {
        ""
    } else {
        address
    };
    let folder = if path.is_empty() { String::new() } else { format!("in {}", path.join(" › ")) };
    let parts = [name, address, &folder].map(str::trim);
    let text = parts.iter().filter(|it| !it.is_empty()).copied().collect::<Vec<_>>().join("\n");
    if !text.is_empty() {
        document.blocks.push(Block::new(BlockKind::ListItem, text, location));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(bytes: &[u8]) -> Vec<String> {
        assert!(are(bytes));
        let ParseOutcome::Parsed(document) = parse("x", bytes, &mut Shares::tried()) else {
            panic!("parses")
        };
        document.blocks.into_iter().map(|it| it.text).collect()
    }

    #[test]
    fn pages_and_files_of_browsers_are_read() {
        let page = b"<!DOCTYPE NETSCAPE-Bookmark-file-1>\n<DL><p>\n<DT><H3 ADD_DATE=\"1\">Boats</H3>\n<DL><p>\n\
            <DT><A HREF=\"https://example.org/paint\" ADD_DATE=\"2\">Paint &amp; tar</A>\n<DD>what Jonas uses\n</DL><p>\n\
            <DT><A HREF=\"javascript:x()\">Run</A>\n</DL>";
        assert_eq!(
            texts(page),
            ["Paint & tar\nhttps://example.org/paint\nin Boats\nwhat Jonas uses", "Run"]
        );
        let chrome = br#"{"roots": {"bookmark_bar": {"name": "Bar", "children": [
            {"name": "Paint", "url": "https://example.org/paint"}, 3]}}}"#;
        assert_eq!(texts(chrome), ["Paint\nhttps://example.org/paint\nin Bar"]);
        let firefox =
            br#"{"type": "text/x-moz-place-container", "children": [{"title": "Menu", "children": [
            {"title": "Paint", "uri": "https://example.org/paint"}]}]}"#;
        assert_eq!(texts(firefox), ["Paint\nhttps://example.org/paint\nin Menu"]);
        assert!(!are(b"<!doctype html><p>bookmarks"));
    }

    /// A backup as Firefox writes it, all of it as it is: letters, and nothing that was there before.
    fn backup(text: &[u8], length: u32) -> Vec<u8> {
        let mut bytes = PACKED.to_vec();
        bytes.extend(length.to_le_bytes());
        bytes.push(0xF0);
        let mut rest = text.len() - 15;
        while rest >= 255 {
            bytes.push(255);
            rest -= 255;
        }
        bytes.push(rest as u8);
        bytes.extend(text);
        bytes
    }

    #[test]
    fn backups_of_firefox_are_unpacked_within_limits() {
        let json =
            br#"{"type": "text/x-moz-place-container", "children": [{"title": "Menu", "children": [
            {"title": "Paint", "uri": "https://example.org/paint"}]}]}"#;
        let read = |bytes: &[u8]| {
            let kind = crate::kind_of("bookmarks-2026-03-04_7_x==.jsonlz4".as_ref(), bytes);
            super::super::parse("b.baklz4", kind, bytes, &mut Shares::tried()).expect("a reader")
        };
        let outcome = read(&backup(json, json.len() as u32));
        let ParseOutcome::Parsed(document) = outcome else { panic!("{outcome:?}") };
        let texts: Vec<&str> = document.blocks.iter().map(|it| it.text.as_str()).collect();
        assert_eq!(texts, ["Paint\nhttps://example.org/paint\nin Menu"]);
        // An `a` that is repeated until the block ends: 255 for each byte of it.
        let mut bomb = [PACKED, &u32::MAX.to_le_bytes(), b"\x1Fa\x01\x00"].concat();
        bomb.extend([255; 4000]);
        let whole = backup(json, json.len() as u32);
        for bytes in [
            &bomb,
            &backup(json, 64 << 20),
            &backup(json, 9),
            &whole[..whole.len() / 2],
            &whole[..10],
            PACKED,
        ] {
            assert!(matches!(read(bytes), ParseOutcome::Failed(_)), "{} bytes", bytes.len());
        }
    }
}
