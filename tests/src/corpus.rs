//! Files to index, the same on every machine.

use std::{fs, path::Path};

/// Writes a file and the folders above it.
///
/// # Panics
/// When that is not possible: the test can not go on.
pub fn write(dir: &Path, name: &str, text: impl AsRef<[u8]>) {
    let path = dir.join(name);
    fs::create_dir_all(path.parent().expect("a file in a folder")).expect("the folder can be made");
    fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// A word that only note `n` has: made of letters, because keyword search looks at letters and digits
/// apart, and ending as no inflection does, so that no stemmer joins two of them.
pub fn token(n: usize) -> String {
    const SYLLABLES: [&str; 10] = ["ba", "ko", "mi", "tu", "re", "lo", "ni", "fa", "du", "pa"];
    let digits = n.to_string();
    let syllables = digits.bytes().map(|it| SYLLABLES[usize::from(it - b'0')]);
    format!("zor{}x", syllables.collect::<String>())
}

/// Writes `count` notes in nested folders. Note `n` has a title of its own and holds the word
/// [`token(n)`](token), so that each can be found by keyword alone.
pub fn notes(dir: &Path, count: usize) {
    const PLACES: [&str; 4] = ["harbor", "garden", "library", "station"];
    const THINGS: [&str; 5] = ["boat", "bridge", "letter", "clock", "lantern"];
    for n in 0..count {
        let (place, thing) = (PLACES[n % PLACES.len()], THINGS[n % THINGS.len()]);
        let mut text = format!("# The {thing} at the {place}, part {n}\n\n");
        for paragraph in 0..1 + n % 4 {
            text.push_str(&format!(
                "In year {} someone repaired the {thing} near the {place}; entry {} was written on \
                 day {paragraph}.\n\n",
                1900 + n,
                token(n)
            ));
        }
        let extension = if n % 3 == 0 { "txt" } else { "md" };
        write(dir, &format!("{place}/{thing}/note-{n:03}.{extension}"), text);
    }
}

/// An archive of files as they are, without compression.
pub fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for (name, bytes) in files {
        let size = u32::try_from(bytes.len()).expect("a small file").to_le_bytes();
        let length = u16::try_from(name.len()).expect("a short name").to_le_bytes();
        // Version, flags, method, time, date; checksum, sizes; lengths of the name and of what follows it.
        let mut common = vec![20, 0, 0, 0, 0, 0, 0, 0, 33, 0];
        common.extend(checksum(bytes).to_le_bytes());
        common.extend([size, size].concat());
        common.extend(length);
        common.extend([0, 0]);
        let offset = u32::try_from(out.len()).expect("a small archive").to_le_bytes();
        directory.extend(b"PK\x01\x02\x14\x00");
        directory.extend(&common);
        directory.extend([0; 10]);
        directory.extend(offset);
        directory.extend(name.as_bytes());
        out.extend(b"PK\x03\x04");
        out.extend(common);
        out.extend(name.as_bytes());
        out.extend(*bytes);
    }
    let count = u16::try_from(files.len()).expect("few files").to_le_bytes();
    let start = u32::try_from(out.len()).expect("a small archive").to_le_bytes();
    let length = u32::try_from(directory.len()).expect("a small archive").to_le_bytes();
    out.extend(directory);
    out.extend(b"PK\x05\x06\0\0\0\0");
    out.extend([count, count].concat());
    out.extend(length);
    out.extend(start);
    out.extend([0, 0]);
    out
}

/// CRC-32, as archives have it.
fn checksum(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 }
        })
    })
}

/// A workbook (XLSX) of sheets. A cell is a number where it reads as one, a day where it begins with `@` and counts
/// days as spreadsheets do, and text otherwise.
pub fn workbook(sheets: &[(&str, &[&[&str]])]) -> Vec<u8> {
    const HEAD: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>";
    const MAIN: &str = "http://schemas.openxmlformats.org/spreadsheetml/2006/main";
    const RELATIONS: &str = "http://schemas.openxmlformats.org/package/2006/relationships";
    const OFFICE: &str = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
    let mut listed = String::new();
    let mut related =
        format!("<Relationship Id=\"styles\" Type=\"{OFFICE}/styles\" Target=\"styles.xml\"/>");
    let mut files = Vec::new();
    for ((name, rows), number) in sheets.iter().zip(1..) {
        listed
            .push_str(&format!("<sheet name=\"{name}\" sheetId=\"{number}\" r:id=\"r{number}\"/>"));
        related.push_str(&format!(
            "<Relationship Id=\"r{number}\" Type=\"{OFFICE}/worksheet\" Target=\"worksheets/sheet{number}.xml\"/>"
        ));
        let mut data = String::new();
        for (row, at) in rows.iter().zip(1..) {
            let cells: Vec<String> = row
                .iter()
                .zip('A'..)
                .map(|(text, column)| cell(text, &format!("{column}{at}")))
                .collect();
            data.push_str(&format!("<row r=\"{at}\">{}</row>", cells.concat()));
        }
        let xml =
            format!("{HEAD}<worksheet xmlns=\"{MAIN}\"><sheetData>{data}</sheetData></worksheet>");
        files.push((format!("xl/worksheets/sheet{number}.xml"), xml));
    }
    let book = format!(
        "{HEAD}<workbook xmlns=\"{MAIN}\" xmlns:r=\"{OFFICE}\"><sheets>{listed}</sheets></workbook>"
    );
    let styles = format!(
        "{HEAD}<styleSheet xmlns=\"{MAIN}\"><cellXfs count=\"2\"><xf numFmtId=\"0\"/><xf numFmtId=\"14\"/></cellXfs></styleSheet>"
    );
    let roots = format!(
        "{HEAD}<Relationships xmlns=\"{RELATIONS}\"><Relationship Id=\"b\" Type=\"{OFFICE}/officeDocument\" Target=\"xl/workbook.xml\"/></Relationships>"
    );
    let related = format!("{HEAD}<Relationships xmlns=\"{RELATIONS}\">{related}</Relationships>");
    let types = format!(
        "{HEAD}<Types xmlns=\"http://schemas.openxmlformats.org/package/2006/content-types\"><Default Extension=\"xml\" ContentType=\"application/xml\"/></Types>"
    );
    files.extend([
        ("[Content_Types].xml".to_owned(), types),
        ("_rels/.rels".to_owned(), roots),
        ("xl/workbook.xml".to_owned(), book),
        ("xl/_rels/workbook.xml.rels".to_owned(), related),
        ("xl/styles.xml".to_owned(), styles),
    ]);
    let files: Vec<(&str, &[u8])> =
        files.iter().map(|(name, text)| (name.as_str(), text.as_bytes())).collect();
    archive(&files)
}

fn cell(text: &str, place: &str) -> String {
    if text.is_empty() {
        String::new()
    } else if let Some(day) = text.strip_prefix('@') {
        format!("<c r=\"{place}\" s=\"1\"><v>{day}</v></c>")
    } else if text.parse::<f64>().is_ok() {
        format!("<c r=\"{place}\"><v>{text}</v></c>")
    } else {
        format!("<c r=\"{place}\" t=\"inlineStr\"><is><t>{text}</t></is></c>")
    }
}
