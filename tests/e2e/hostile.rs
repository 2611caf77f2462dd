//! Files that are made to take all memory, time or disk, or to have something run.

use std::io::Write as _;

use flate2::{Compression, write::GzEncoder};
use riddle_tests::{Riddle, write};
use tempfile::TempDir;

/// Most memory that a parser may take.
const MOST_BYTES: u64 = 512 << 20;

#[test]
fn four_gigabytes_of_zeros_and_a_million_attachments_end_with_a_reason() {
    let (riddle, files) = (Riddle::new(), TempDir::new().expect("a folder"));
    // A gzip file may have many members, which are read one after the other.
    let mut member = GzEncoder::new(Vec::new(), Compression::best());
    member.write_all(&vec![0; 16 << 20]).expect("packed");
    let member = member.finish().expect("packed");
    write(files.path(), "zeros.txt.gz", member.repeat(256));
    for (name, boundary) in [("short.eml", "x"), ("long.eml", "a-boundary")] {
        let part = format!("--{boundary}\nContent-Disposition: attachment; filename=a\n\nb\n");
        let mut mail = format!(
            "From: a@b.example\nSubject: Many\nContent-Type: multipart/mixed; boundary={boundary}\n\n"
        );
        mail.push_str(&part.repeat((63 << 20) / part.len()));
        write(files.path(), name, mail);
    }
    let report = riddle.index(files.path());
    for name in ["zeros.txt.gz", "short.eml", "long.eml"] {
        let (state, reason) = riddle.state_of(name);
        assert!(state != "indexed" && !reason.is_empty(), "{name}: {state}");
        assert!(name == "zeros.txt.gz" || reason.contains("1000 parts"), "{name}: {reason}");
    }
    let peak = report["peak_parser_rss_bytes"].as_u64().expect("measured");
    assert!(peak <= MOST_BYTES, "{} MiB", peak >> 20);
}

/// A PDF of one page that says something, and has a reader do something when it is opened.
fn pdf(action: &str) -> Vec<u8> {
    let drawn = "BT /F1 12 Tf 72 700 Td (The wolverine sleeps in the barn until noon.) Tj ET";
    let objects = [
        format!("<< /Type /Catalog /Pages 2 0 R /OpenAction {action} >>"),
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_owned(),
        format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /AA << /O {action} >> \
             /Resources << /Font << /F1 5 0 R >> >> >>"
        ),
        format!("<< /Length {} >>\nstream\n{drawn}\nendstream", drawn.len()),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"
            .to_owned(),
    ];
    let mut bytes = b"%PDF-1.7\n".to_vec();
    let mut table = String::from("0000000000 65535 f \n");
    for (number, object) in (1..).zip(&objects) {
        table.push_str(&format!("{:010} 00000 n \n", bytes.len()));
        bytes.extend(format!("{number} 0 obj\n{object}\nendobj\n").into_bytes());
    }
    let at = bytes.len();
    bytes.extend(
        format!("xref\n0 6\n{table}trailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n{at}\n%%EOF\n")
            .into_bytes(),
    );
    bytes
}

#[test]
fn what_a_pdf_wants_to_have_done_is_not_done() {
    let (riddle, files) = (Riddle::new(), TempDir::new().expect("a folder"));
    let trap = TempDir::new().expect("a folder");
    let made = trap.path().join("made").display().to_string();
    for (name, action) in [
        ("script.pdf", "<< /S /JavaScript /JS (app.alert\\(1\\); while\\(true\\){}) >>".to_owned()),
        (
            "launch.pdf",
            format!("<< /S /Launch /F ({made}) /Unix << /F (/bin/touch) /P ({made}) >> >>"),
        ),
        ("address.pdf", "<< /S /URI /URI (http://127.0.0.1:9/opened) >>".to_owned()),
        ("form.pdf", "<< /S /SubmitForm /F (http://127.0.0.1:9/sent) >>".to_owned()),
    ] {
        write(files.path(), name, pdf(&action));
        let report = riddle.index(files.path());
        let (state, reason) = riddle.state_of(name);
        assert_eq!(state, "indexed", "{name}: {reason} {report:#}");
    }
    assert!(!riddle.find("wolverine").is_empty());
    assert!(!trap.path().join("made").exists(), "a program was started");
}
