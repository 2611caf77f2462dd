//! Parsing in child processes: good files, hostile files, hostile children.
//!
//! This program is its own child: with `parse-worker` it is the parser, with `hostile-…` it misbehaves.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test runner of its own reports by printing"
)]

use std::{
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use riddle_ingest::{Limits, ParseOutcome, ParserPool, WorkerCommand, kind_of, worker_main};
use riddle_types::FileKind;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    match args.get(1).map(String::as_str) {
        Some("parse-worker") => return worker_main(),
        Some(role) if role.starts_with("hostile-") => return hostile(role),
        _ => {}
    }
    let tests: [(&str, fn()); 10] = [
        ("good_files_are_parsed", good_files_are_parsed),
        (
            "bad_files_get_a_reason_and_the_next_one_is_parsed",
            bad_files_get_a_reason_and_the_next_one_is_parsed,
        ),
        ("a_mail_of_too_many_parts_is_refused", a_mail_of_too_many_parts_is_refused),
        ("noise_is_not_read_as_letters", noise_is_not_read_as_letters),
        ("what_is_left_of_outlooks_files_is_no_text", what_is_left_of_outlooks_files_is_no_text),
        ("a_deeply_nested_file_costs_itself", a_deeply_nested_file_costs_itself),
        ("a_database_is_read_within_the_limits", a_database_is_read_within_the_limits),
        ("hostile_children_are_survived", hostile_children_are_survived),
        ("memory_is_limited", memory_is_limited),
        ("real_files_all_have_an_outcome", real_files_all_have_an_outcome),
    ];
    // The two calls that test runners make: a list, and one test by name.
    if args.iter().any(|it| it == "--list") {
        if !args.iter().any(|it| it == "--ignored") {
            tests.iter().for_each(|(name, _)| println!("{name}: test"));
        }
        return ExitCode::SUCCESS;
    }
    let wanted = args.iter().skip(1).find(|it| !it.starts_with("--"));
    let exact = args.iter().any(|it| it == "--exact");
    for (name, test) in tests {
        let selected =
            wanted.is_none_or(|it| if exact { it == name } else { name.contains(it.as_str()) });
        if selected {
            test();
            println!("test {name} ... ok");
        }
    }
    ExitCode::SUCCESS
}

fn hostile(role: &str) -> ExitCode {
    let mut input = std::io::stdin().lock();
    let mut output = std::io::stdout().lock();
    match role {
        // Reads nothing, says nothing.
        "hostile-sleep" => std::thread::sleep(Duration::from_secs(600)),
        "hostile-exit" => return ExitCode::from(3),
        "hostile-garbage" => {
            let _ = input.read(&mut [0; 64]);
            let _ = output.write_all(&[0x20; 4096]);
            let _ = output.flush();
            // Ending now could break the pipe before the parent has written all of the request.
            std::thread::sleep(Duration::from_secs(600));
        }
        // Claims a reply of exabytes.
        "hostile-huge" => {
            let _ = input.read(&mut [0; 64]);
            let _ = output.write_all(&u64::MAX.to_le_bytes());
            let _ = output.flush();
            std::thread::sleep(Duration::from_secs(600));
        }
        "hostile-abort" => std::process::abort(),
        // Ends at once if it was given what it should not have.
        "hostile-secret" if std::env::var_os("HOME").is_some() => return ExitCode::from(3),
        "hostile-secret" => std::thread::sleep(Duration::from_secs(600)),
        other => panic!("no role {other}"),
    }
    ExitCode::SUCCESS
}

fn pool_of(role: &str, limits: Limits) -> ParserPool {
    let program = std::env::current_exe().expect("this program");
    ParserPool::new(WorkerCommand { program, args: vec![role.into()], secrets: Vec::new() }, limits)
}

fn parse(pool: &ParserPool, name: &str, bytes: &[u8]) -> ParseOutcome {
    let path = Path::new(name);
    pool.parse(path, kind_of(path, bytes), bytes)
}

fn text_of(outcome: ParseOutcome) -> String {
    match outcome {
        ParseOutcome::Parsed(document) => {
            document.blocks.iter().map(|it| it.text.as_str()).collect::<Vec<_>>().join("\n")
        }
        other => panic!("not parsed: {other:?}"),
    }
}

fn good_files_are_parsed() {
    let pool = pool_of("parse-worker", Limits::default());
    assert_eq!(text_of(parse(&pool, "a.md", b"# Boat\n\nblue\n")), "Boat\nblue");
    assert_eq!(text_of(parse(&pool, "a.rs", b"fn main() {}\n")), "fn main() {}");
    assert!(text_of(parse(&pool, "a.html", b"<p>blue <b>boat</b></p>")).contains("blue boat"));
    assert!(text_of(parse(&pool, "a.csv", b"name,color\nboat,blue\n")).contains("blue"));
    assert!(matches!(parse(&pool, "a.txt", b" \n \n"), ParseOutcome::NoText(_)));
    assert!(pool.peak_child_rss_bytes() > 0 || cfg!(not(target_os = "linux")));
}

fn bad_files_get_a_reason_and_the_next_one_is_parsed() {
    let pool = pool_of("parse-worker", Limits::default());
    for (name, bytes) in [
        ("a.pdf", b"%PDF-1.7 and then nothing".as_slice()),
        ("a.docx", b"PK\x03\x04broken"),
        ("a.xlsx", b""),
        ("a.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"),
        ("a.epub", b"not a book"),
    ] {
        match parse(&pool, name, bytes) {
            ParseOutcome::Failed(reason) | ParseOutcome::NoText(reason) => {
                assert!(!reason.is_empty(), "{name}")
            }
            other => panic!("{name}: {other:?}"),
        }
        assert_eq!(text_of(parse(&pool, "b.txt", b"still here")), "still here");
    }
}

/// A mail with more parts than a parser takes is no library of headers.
fn a_mail_of_too_many_parts_is_refused() {
    let pool = pool_of("parse-worker", Limits::default());
    let part = "--b\r\nContent-Disposition: attachment; filename=a.txt\r\n\r\nx\r\n";
    let mail = format!(
        "From: mira@example.org\r\nSubject: Slipway\r\nMIME-Version: 1.0\r\n\
         Content-Type: multipart/mixed; boundary=b\r\n\r\n{}--b--\r\n",
        part.repeat(300_000)
    );
    match parse(&pool, "many.eml", mail.as_bytes()) {
        ParseOutcome::Failed(reason) => assert!(reason.contains("1000 parts"), "{reason}"),
        other => panic!("{other:?}"),
    }
}

/// Bytes without a sense become no passage, whatever the file is called.
fn noise_is_not_read_as_letters() {
    let pool = pool_of("parse-worker", Limits::default());
    let noise = |least: u8| {
        let mut state = 7_u32;
        let bytes = std::iter::repeat_with(move || {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            (state >> 11) as u8
        });
        bytes.filter(move |it| *it >= least).take(2000).collect::<Vec<u8>>()
    };
    let cut = [b"!BDN\0\0\0\0SM\x17\0".as_slice(), &[0; 600], b"Subject", &noise(0)].concat();
    let names = "pst ost msg eml mbox html mht webarchive doc docx xls xlsx ppt pptx pdf epub mobi fb2 odt ods xps \
                 djvu one vsdx pages ipynb zip tar 7z ics vcf sqlite jsonlz4 png tiff";
    for ending in names.split(' ') {
        let name = format!("a.{ending}");
        for bytes in [noise(0), noise(1), cut.clone()] {
            let outcome = parse(&pool, &name, &bytes);
            assert!(!matches!(outcome, ParseOutcome::Parsed(_)), "{name}: {outcome:?}");
        }
    }
    // A mail with some odd bytes still is one, and a page whose parser fails keeps its words.
    let letter = b"Subject: The keel\r\n\r\nOak\0 it is, the yard says so.\r\n";
    assert!(text_of(parse(&pool, "a.eml", letter)).contains("the yard says so"));
    assert_eq!(text_of(parse(&pool, "a.txt", b"Oak\x01 it is\x02")), "Oak\u{1} it is\u{2}");
}

/// However little it is: a few odd letters are none too many for a text.
fn what_is_left_of_outlooks_files_is_no_text() {
    let pool = pool_of("parse-worker", Limits::default());
    let text = b"hello world\n".repeat(50);
    for (name, bytes, word) in [
        ("a.pst", b"".as_slice(), "copy it again"),
        ("a.pst", b"!BD", "copy it again"),
        ("a.PST", b"!BDN", "copy it again"),
        ("a.ost", b"!BDN\0\0\0\0SM\x17\0", "copy it again"),
        ("backup", b"!BDN", "copy it again"),
        ("backup.eml", b"!BDN\0\0\0\0SM\x17\0", "copy it again"),
        ("a.pst", b"abc", "rename it"),
        ("a.ost", text.as_slice(), "rename it"),
    ] {
        let outcome = parse(&pool, name, bytes);
        let told = matches!(&outcome, ParseOutcome::Failed(why) if why.contains(word));
        assert!(told, "{name}: {outcome:?}");
    }
}

fn a_deeply_nested_file_costs_itself() {
    let pool =
        pool_of("parse-worker", Limits { time: Duration::from_secs(10), ..Limits::default() });
    let nested = "<div>".repeat(200_000) + "deep";
    // Whatever the parser makes of it, the next file is read.
    let _ = parse(&pool, "a.html", nested.as_bytes());
    assert_eq!(text_of(parse(&pool, "b.txt", b"still here")), "still here");
}

fn a_database_is_read_within_the_limits() {
    let made = rusqlite::Connection::open_in_memory().expect("memory");
    made.execute_batch(
        "CREATE TABLE urls (id INTEGER PRIMARY KEY, url, title, hidden DEFAULT 0, last_visit_time);
         INSERT INTO urls (url, title, last_visit_time)
             VALUES ('https://example.org/', 'Tides', 13440513600000000);",
    )
    .expect("SQL");
    let bytes = made.serialize("main").expect("bytes").to_vec();
    // In the child no file can be written and few be opened: SQLite needs neither.
    let pool = pool_of("parse-worker", Limits::default());
    let text = text_of(parse(&pool, "History", &bytes));
    assert_eq!(text, "2026-11-30\nTides\nhttps://example.org/");
    let outcome = parse(&pool, "History", &bytes[..200]);
    assert!(matches!(&outcome, ParseOutcome::Failed(why) if !why.is_empty()), "{outcome:?}");
    assert_eq!(text_of(parse(&pool, "b.txt", b"still here")), "still here");
}

fn hostile_children_are_survived() {
    // Only the child that sleeps is to run out of time, on a busy machine, too.
    let (patient, limits) = (
        Limits { time: Duration::from_secs(60), ..Limits::default() },
        Limits { time: Duration::from_millis(300), ..Limits::default() },
    );
    // More than a pipe holds, so that a child that does not read blocks the writer; and little, so that one
    // that answers without reading is heard.
    let (much, little) = (vec![b'x'; 1 << 20], vec![b'x']);
    for (role, bytes, limits, word) in [
        ("hostile-sleep", &much, limits, "longer than"),
        ("hostile-exit", &much, patient, "crashed"),
        ("hostile-garbage", &little, patient, "makes no sense"),
        ("hostile-huge", &little, patient, "makes no sense"),
        ("hostile-abort", &much, patient, "crashed"),
    ] {
        let outcome = pool_of(role, limits).parse(Path::new("a.txt"), FileKind::Text, bytes);
        let told = matches!(&outcome, ParseOutcome::Failed(reason) if reason.contains(word));
        assert!(told, "{role}: {outcome:?}");
    }
    for (secrets, word) in [(&[][..], "crashed"), (&["HOME".into()][..], "longer than")] {
        let program = std::env::current_exe().expect("this program");
        let args = vec!["hostile-secret".into()];
        let command = WorkerCommand { program, args, secrets: secrets.to_vec() };
        let outcome = parse(&ParserPool::new(command, limits), "a.txt", b"x");
        let told = matches!(&outcome, ParseOutcome::Failed(reason) if reason.contains(word));
        assert!(told || std::env::var_os("HOME").is_none(), "{secrets:?}: {outcome:?}");
    }
    let absent =
        WorkerCommand { program: "/no/such/program".into(), args: Vec::new(), secrets: Vec::new() };
    let outcome = ParserPool::new(absent, limits).parse(Path::new("a.txt"), FileKind::Text, b"x");
    assert!(matches!(outcome, ParseOutcome::Failed(reason) if reason.contains("/no/such/program")));
}

fn memory_is_limited() {
    if cfg!(not(target_os = "linux")) {
        eprintln!("SKIPPED: memory limits are enforced on Linux");
        return;
    }
    // A text of 64 MiB in a child that may use 1 MiB: the bytes alone are refused or do not fit.
    let pool = pool_of("parse-worker", Limits { memory_bytes: 1 << 20, ..Limits::default() });
    let outcome = parse(&pool, "a.txt", &vec![b'x'; 64 << 20]);
    assert!(matches!(outcome, ParseOutcome::Failed(_)), "{outcome:?}");
}

fn real_files_all_have_an_outcome() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/files");
    if !root.is_dir() {
        eprintln!("SKIPPED: no real files in ../shared/data/files");
        return;
    }
    let pool = pool_of("parse-worker", Limits::default());
    let mut folders = vec![root];
    let (mut parsed, mut all) = (0, 0);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("readable") {
            let path = entry.expect("entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let bytes = std::fs::read(&path).expect("readable");
            all += 1;
            match pool.parse(&path, kind_of(&path, &bytes), &bytes) {
                ParseOutcome::Parsed(_) => parsed += 1,
                ParseOutcome::Failed(reason)
                | ParseOutcome::NoText(reason)
                | ParseOutcome::Unsupported(reason) => {
                    assert!(!reason.is_empty());
                    println!("{}: {reason}", path.display());
                }
            }
        }
    }
    println!(
        "{parsed} of {all} files have text, largest child {} MiB",
        pool.peak_child_rss_bytes() >> 20
    );
    assert!(parsed * 10 > all * 7, "{parsed} of {all}");
}
