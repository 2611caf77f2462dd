//! Telling formats apart: by name first, by content where the name says nothing.

use std::path::Path;

use riddle_types::FileKind;

const CODE: &[&str] = &[
    "rs", "py", "pyi", "js", "mjs", "cjs", "ts", "tsx", "jsx", "java", "kt", "kts", "scala", "c",
    "h", "cc", "cpp", "cxx", "hpp", "hh", "cs", "go", "rb", "php", "pl", "pm", "lua", "r", "jl",
    "swift", "m", "mm", "hs", "ml", "mli", "ex", "exs", "erl", "clj", "lisp", "el", "dart", "zig",
    "nim", "v", "sv", "vhd", "asm", "s", "sh", "bash", "zsh", "fish", "ps1", "bat", "cmd", "sql",
    "toml", "yaml", "yml", "json", "jsonl", "xml", "ini", "cfg", "conf", "css", "scss", "less",
    "vue", "svelte", "proto", "graphql", "tf", "cmake", "gradle", "bib", "ipynb",
];
const TEXT: &[&str] = &[
    "txt", "text", "log", "vtt", "srt", "ass", "ssa", "sbv", "rst", "adoc", "asciidoc", "org",
    "nfo",
];
/// Formats without text of their own, or in which it is not looked for.
const OTHER: &[&str] = &[
    "ico", "svg", "mp3", "wav", "ogg", "flac", "m4a", "mp4", "mov", "mkv", "avi", "webm", "bz2",
    "zst", "rar", "iso", "exe", "dll", "so", "dylib", "o", "a", "class", "jar", "wasm", "pyc",
    "db", "sqlite", "ttf", "otf", "woff", "woff2", "bin", "dat", "vsd", "psd", "blend", "onetoc2",
];
const IMAGE: &[&str] =
    &["png", "jpg", "jpeg", "webp", "tif", "tiff", "heic", "heif", "avif", "gif", "bmp"];

/// Names of databases in which browsers keep the pages that were visited: of Firefox, and of Chrome and its kin.
const HISTORIES: [&str; 2] = ["places.sqlite", "History"];

/// What a file begins with in which Outlook keeps mails (MS-PST 2.2.2.6).
pub(crate) const OUTLOOK_STORE: &[u8] = b"!BDN";

/// What a mail and its files begin with as Outlook sends them to its own kind (MS-OXTNEF 2.1.3.1), whatever the name.
pub(crate) const TNEF: &[u8] = &[0x78, 0x9F, 0x3E, 0x22];

/// Whether a file has a name under which browsers keep the pages that were visited. What is in it decides.
pub fn may_be_history(path: &Path) -> bool {
    path.file_name().is_some_and(|name| HISTORIES.iter().any(|it| name == *it))
}

/// Whether a file is one in which Outlook keeps mails (PST, OST), by its name or by how it begins; what is left of one
/// is no text, however little it is.
pub(crate) fn is_outlook_store(name: &str, head: &[u8]) -> bool {
    let ending = name.rsplit_once('.').map_or("", |it| it.1);
    let named = ["pst", "ost"].iter().any(|it| ending.eq_ignore_ascii_case(it));
    named || head.starts_with(OUTLOOK_STORE)
}

/// The kind of a file, from its name and the first bytes of its content (which may be empty).
pub fn kind_of(path: &Path, head: &[u8]) -> FileKind {
    // No other database: what a program keeps in one is nobody's text.
    if may_be_history(path) && head.starts_with(b"SQLite format 3\0") {
        return FileKind::History;
    }
    if head.starts_with(TNEF) {
        return FileKind::Mail;
    }
    let extension = path.extension().and_then(|it| it.to_str()).unwrap_or("").to_ascii_lowercase();
    let named = match extension.as_str() {
        "md" | "markdown" | "mdx" | "mkd" => Some(FileKind::Markdown),
        "html" | "htm" | "xhtml" | "mhtml" | "mht" | "webarchive" | "rss" | "atom" => {
            Some(FileKind::Html)
        }
        "pdf" => Some(FileKind::Pdf),
        "docx" | "doc" | "odt" | "rtf" | "docm" | "dotx" | "dot" | "ott" | "fodt" | "sxw"
        | "pages" | "wpd" | "wps" | "abw" | "hwp" | "hwpx" | "vsdx" | "djvu" | "djv" | "tex"
        | "latex" | "xps" | "oxps" | "one" => Some(FileKind::Document),
        "pptx" | "ppt" | "odp" | "pptm" | "ppsx" | "potx" | "fodp" | "key" => {
            Some(FileKind::Presentation)
        }
        "xlsx" | "xls" | "ods" | "xlsm" | "xlsb" | "xltx" | "csv" | "tsv" | "fods" | "numbers"
        | "dbf" => Some(FileKind::Spreadsheet),
        "eml" | "msg" | "mbox" | "mbx" | "pst" | "ost" => Some(FileKind::Mail),
        "epub" | "fb2" | "mobi" | "azw" | "azw3" | "prc" => Some(FileKind::Book),
        "ics" | "ical" | "ifb" | "vcs" => Some(FileKind::Calendar),
        "vcf" | "vcard" => Some(FileKind::Contacts),
        "zip" | "cbz" | "tar" | "tgz" | "gz" | "7z" | "xz" | "txz" => Some(FileKind::Archive),
        // JSON that is packed: bytes that are no text belong there.
        "jsonlz4" | "baklz4" => return FileKind::Code,
        it if IMAGE.contains(&it) => Some(FileKind::Image),
        it if TEXT.contains(&it) => Some(FileKind::Text),
        it if CODE.contains(&it) => Some(FileKind::Code),
        it if OTHER.contains(&it) => Some(FileKind::Other),
        _ => None,
    };
    let name = path.file_name().and_then(|it| it.to_str()).unwrap_or("");
    let named = named.or(match name {
        "Makefile" | "Dockerfile" | "Rakefile" | "Gemfile" | "Jenkinsfile" | "CMakeLists.txt" => {
            Some(FileKind::Code)
        }
        "README" | "LICENSE" | "CHANGELOG" | "AUTHORS" | "COPYING" | "NEWS" | "TODO" => {
            Some(FileKind::Text)
        }
        _ => None,
    });
    match named {
        // A text name on binary content is a mistake, or an attack on the tokenizer.
        Some(FileKind::Text | FileKind::Code | FileKind::Markdown) if is_binary(head) => {
            FileKind::Other
        }
        Some(kind) => kind,
        None => sniff(head),
    }
}

fn sniff(head: &[u8]) -> FileKind {
    let start = head.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(head).trim_ascii_start();
    if head.starts_with(b"%PDF-") {
        return FileKind::Pdf;
    }
    if head.starts_with(b"{\\rtf") {
        return FileKind::Document;
    }
    if begins_as_web_archive(head) {
        return FileKind::Html;
    }
    let lower: Vec<u8> = start.iter().take(64).map(u8::to_ascii_lowercase).collect();
    if lower.starts_with(b"<!doctype html") || lower.starts_with(b"<html") {
        return FileKind::Html;
    }
    if start.starts_with(b"#!") {
        return FileKind::Code;
    }
    if begins_as_mail(head) || head.starts_with(OUTLOOK_STORE) {
        return FileKind::Mail;
    }
    if head.is_empty() || is_binary(head) { FileKind::Other } else { FileKind::Text }
}

/// Whether a file begins as a page does that Safari has saved: a property list whose first name is that of its page.
pub(crate) fn begins_as_web_archive(head: &[u8]) -> bool {
    const NAME: &[u8] = b"WebMainResource";
    let head = &head[..head.len().min(4096)];
    let xml: [&[u8]; 3] = [b"<?xml", b"<!DOCTYPE plist", b"<plist"];
    let written = xml.iter().any(|it| head.trim_ascii_start().starts_with(it))
        && head.windows(7).any(|it| it == b"<plist ");
    (written || head.starts_with(b"bplist")) && head.windows(NAME.len()).any(|it| it == NAME)
}

/// NUL bytes do not occur in text, except in UTF-16, whose order mark tells it.
fn is_binary(head: &[u8]) -> bool {
    let utf16 = head.starts_with(b"\xFF\xFE") || head.starts_with(b"\xFE\xFF");
    !utf16 && head.contains(&0)
}

/// Whether a file without an ending begins as a mail or a mailbox does.
fn begins_as_mail(head: &[u8]) -> bool {
    const HEADERS: [&str; 12] = [
        "return-path",
        "received",
        "from",
        "to",
        "subject",
        "date",
        "message-id",
        "delivered-to",
        "mime-version",
        "content-type",
        "x-mozilla-status",
        "x-mozilla-status2",
    ];
    let text = String::from_utf8_lossy(head);
    let text = match text.strip_prefix("From ") {
        Some(rest) => rest.split_once('\n').map_or("", |it| it.1),
        None => &text,
    };
    let mut known = 0;
    for line in text.lines() {
        if line.starts_with([' ', '\t']) {
            continue;
        }
        let Some((name, _)) = line.split_once(':') else { break };
        if name.is_empty() || name.contains(' ') {
            break;
        }
        known += usize::from(HEADERS.contains(&name.to_ascii_lowercase().as_str()));
    }
    known >= 3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_first_then_content() {
        let kind = |name: &str, head: &[u8]| kind_of(Path::new(name), head);
        assert_eq!(kind("a/b.PDF", b""), FileKind::Pdf);
        assert_eq!(kind("notes.md", b"# x"), FileKind::Markdown);
        assert_eq!(kind("Makefile", b"all:"), FileKind::Code);
        assert_eq!(kind("photo.jpg", b"plain text"), FileKind::Image);
        assert_eq!(kind("film.mp4", b"plain text"), FileKind::Other);
        assert_eq!(kind("cur/1700.M1.host:2,S", b"From: a\nTo: b\nDate: c\n\nhi"), FileKind::Mail);
        assert_eq!(kind("noname", b"%PDF-1.7"), FileKind::Pdf);
        assert_eq!(kind("noname", b"\n <!DOCTYPE HTML>"), FileKind::Html);
        assert_eq!(kind("backup", b"!BDN\x12\0\0\0SM"), FileKind::Mail);
        assert_eq!(kind("noname", b"just words"), FileKind::Text);
        assert_eq!(kind("noname", b"\x7fELF\0\0"), FileKind::Other);
        assert_eq!(kind("fake.txt", b"\x7fELF\0\0"), FileKind::Other);
        assert_eq!(kind("wide.txt", b"\xFF\xFEh\0i\0"), FileKind::Text);
        assert_eq!(kind("page.webarchive", b"bplist00"), FileKind::Html);
        assert_eq!(kind("page", b"bplist00\xD1\x01\x02_\x10\x0FWebMainResource"), FileKind::Html);
        assert_eq!(
            kind(
                "page",
                b"<?xml version=\"1.0\"?><plist version=\"1.0\"><dict><key>WebMainResource<"
            ),
            FileKind::Html
        );
        assert_eq!(kind("settings", b"bplist00\xD1\x01\x02\x00"), FileKind::Other);
        assert_eq!(kind("", b""), FileKind::Other);
    }

    #[test]
    fn of_databases_only_browsing_history_is_known() {
        let kind = |name: &str, head: &[u8]| kind_of(Path::new(name), head);
        let head = b"SQLite format 3\0\x10\0";
        assert_eq!(kind("p/places.sqlite", head), FileKind::History);
        assert_eq!(kind("Default/History", head), FileKind::History);
        for other in ["cookies.sqlite", "history", "History.db", "Login Data", "places.sqlite-wal"]
        {
            assert_eq!(kind(other, head), FileKind::Other, "{other}");
        }
        assert_eq!(kind("places.sqlite", b"just words"), FileKind::Other);
        assert_eq!(kind("History", b"just words"), FileKind::Text);
        assert_eq!(kind("History", b"SQLite format 3 is a format"), FileKind::Text);
    }

    #[test]
    fn mails_without_an_ending_are_known_by_their_headers() {
        assert!(begins_as_mail(
            b"From: Ann <a@example.org>\r\nTo: b\r\nSubject: x\r\n folded\r\n\r\nhi"
        ));
        assert!(begins_as_mail(b"From - Mon\nFrom: a\nTo: b\nDate: c\n\nhi"));
        assert!(!begins_as_mail(b"From here on: nothing\nDate: none\n"));
        assert!(!begins_as_mail(b"name: x\nversion: 1\nto: y\n"));
    }
}
