//! Pages that a browser remembers: `places.sqlite` of Firefox, `History` of Chrome, Chromium, Edge and their kin.
//!
//! The database is a stranger's, and SQLite runs what a schema says. It gets a copy in memory that nothing can be
//! written to, without modules (tables that are code), views, triggers and computed columns; an authorizer lets it see
//! five columns of one table; and it has the time and memory of a file.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashSet},
    io::Read as _,
    time::Instant,
};

use riddle_types::{Block, BlockKind, Document, Location};
use rusqlite::{
    Connection, ErrorCode, OpenFlags, config::DbConfig, ffi, hooks::AuthAction, hooks::AuthContext,
    hooks::Authorization, limits::Limit, types::ValueRef,
};

use super::Shares;
use crate::{outcome::ParseOutcome, remark::Remark};

/// Most pages of one file, the newest: some thousand passages, and a year of somebody who reads fifty pages a day.
const MOST: usize = 20_000;

/// Letters that are kept of a title, and of an address: longer ones are made by programs for programs.
const LONGEST: usize = 300;

/// Memory for SQLite: the copy, and what reading it takes.
const MEMORY_BYTES: u64 = 512 << 20;

/// Steps of SQLite's machine between two looks at the clock: one step copies a value of a MiB at most.
const STEPS: i32 = 500;

/// Where the header says who may have written beside the file: 2 is a log of writes, `-wal` (file format, 1.3.3).
const WRITE_VERSION: usize = 18;

/// Pages of a browser: their table, and when they were visited last.
struct Pages {
    table: &'static str,
    /// In microseconds.
    visited: &'static str,
    /// Seconds from when it counts to 1970.
    before: i64,
}

const KNOWN: [Pages; 2] = [
    Pages { table: "moz_places", visited: "last_visit_date", before: 0 },
    // Since 1601, as Windows counts.
    Pages { table: "urls", visited: "last_visit_time", before: 11_644_473_600 },
];

impl Pages {
    fn columns(&self) -> [&'static str; 5] {
        ["id", "url", "title", "hidden", self.visited]
    }
}

pub(super) fn parse(_name: &str, bytes: &[u8], shares: &mut Shares) -> ParseOutcome {
    let mut document =
        Document { title: Some("Browsing history".to_owned()), ..Document::default() };
    let read = open(bytes, shares.end()).map_err(Remark::from);
    if let Err(why) = read.and_then(|it| days(&it, shares.end(), &mut document)) {
        if document.blocks.is_empty() {
            return ParseOutcome::Failed(why.into());
        }
        let rest = match why {
            Remark::TooSlow => Remark::NotAll(Box::new(Remark::TooSlow)),
            why => Remark::RestNotRead(why.into()),
        };
        document.warnings.push(rest.into());
    }
    if bytes.get(WRITE_VERSION) == Some(&2) {
        document.warnings.push(Remark::NewestVisits.into());
    }
    ParseOutcome::Parsed(document)
}

impl From<rusqlite::Error> for Remark {
    fn from(error: rusqlite::Error) -> Remark {
        match error.sqlite_error_code() {
            Some(ErrorCode::OperationInterrupted) => Remark::TooSlow,
            _ => Remark::Unparsed(error.to_string()),
        }
    }
}

/// The database, in memory, with nothing in it that acts.
fn open(bytes: &[u8], end: Instant) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut database = Connection::open_in_memory_with_flags(flags)?;
    // SAFETY: the handle is that of an open connection; a null list keeps no module; nothing uses one yet.
    unsafe { ffi::sqlite3_drop_modules(database.handle(), std::ptr::null_mut()) };
    for (setting, on) in [
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER, false),
    ] {
        database.set_db_config(setting, on)?;
    }
    // Beyond any browser's schema. Values of a MiB: an address in Chrome has up to two, and is not of a page then.
    for (limit, most) in [
        (Limit::SQLITE_LIMIT_LENGTH, 1 << 20),
        (Limit::SQLITE_LIMIT_SQL_LENGTH, 100_000),
        (Limit::SQLITE_LIMIT_COLUMN, 200),
        (Limit::SQLITE_LIMIT_EXPR_DEPTH, 50),
        (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 20),
        (Limit::SQLITE_LIMIT_ATTACHED, 0),
        (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 1),
        (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
    ] {
        database.set_limit(limit, most)?;
    }
    database.execute_batch(&format!(
        "PRAGMA hard_heap_limit = {MEMORY_BYTES}; PRAGMA temp_store = MEMORY; PRAGMA mmap_size = 0;"
    ))?;
    // In memory nothing is beside the file: SQLite refuses one that says there is.
    let at = WRITE_VERSION.min(bytes.len());
    let copy = bytes[..at].chain([1, 1].as_slice()).chain(&bytes[(at + 2).min(bytes.len())..]);
    database.deserialize_read_exact("main", copy, bytes.len(), true)?;
    database.execute_batch("PRAGMA cell_size_check = ON; PRAGMA query_only = ON;")?;
    database.progress_handler(STEPS, Some(move || Instant::now() >= end))?;
    database.authorizer(Some(
        |it: AuthContext<'_>| {
            if may(&it) { Authorization::Allow } else { Authorization::Deny }
        },
    ))?;
    Ok(database)
}

/// Whether a statement may do that: ours needs little, and what comes in by the schema has an accessor.
fn may(context: &AuthContext<'_>) -> bool {
    let ours = match context.action {
        AuthAction::Select => true,
        AuthAction::Pragma { pragma_name, .. } => pragma_name == "table_xinfo",
        AuthAction::Read { table_name, column_name } => {
            KNOWN.iter().any(|it| it.table == table_name && it.columns().contains(&column_name))
        }
        _ => false,
    };
    ours && context.accessor.is_none()
}

/// Puts the newest pages into the document, a heading for each day.
fn days(database: &Connection, end: Instant, document: &mut Document) -> Result<(), Remark> {
    let pages = table(database)?;
    let (newest, trouble) = newest(database, pages);
    if newest.len() > MOST {
        document.warnings.push(Remark::OlderPages { most: MOST }.into());
    }
    let sql = format!("SELECT url, title FROM {} NOT INDEXED WHERE id = ?1", pages.table);
    let mut statement = database.prepare(&sql)?;
    let mut today = String::new();
    let mut told: HashSet<String> = HashSet::new();
    for Reverse((visited, id)) in newest.into_iter().take(MOST) {
        let Some(day) = day(visited.div_euclid(1_000_000).saturating_sub(pages.before)) else {
            continue;
        };
        // A statement this short is seldom asked by SQLite whether it may go on.
        if Instant::now() >= end {
            return Err(Remark::TooSlow);
        }
        let text = statement
            .query_row([id], |row| Ok(said(bytes_of(row.get_ref(0)?), bytes_of(row.get_ref(1)?))));
        let text = match text {
            Ok(Some(text)) => text,
            Ok(None) | Err(rusqlite::Error::QueryReturnedNoRows) => continue,
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::TooBig) => continue,
            Err(error) => return Err(error.into()),
        };
        // The same number in all of a day: a page that comes later moves none.
        let place = |day: &str| Location::Section { path: vec![day.to_owned()], paragraph: 1 };
        if today != day {
            today = day;
            told.clear();
            let heading = Block::new(BlockKind::Heading(1), today.clone(), place(&today));
            document.blocks.push(heading);
        }
        if told.insert(text.clone()) {
            document.blocks.push(Block::new(BlockKind::ListItem, text, place(&today)));
        }
    }
    trouble.map_or(Ok(()), |it| Err(it.into()))
}

/// The table of pages that this database has, as it is stored: none of its columns is computed.
fn table(database: &Connection) -> Result<&'static Pages, Remark> {
    for pages in &KNOWN {
        let mut stored: Vec<String> = Vec::new();
        database.pragma(None, "table_xinfo", pages.table, |row| {
            if row.get::<_, i64>("hidden")? == 0 {
                stored.push(row.get("name")?);
            }
            Ok(())
        })?;
        if pages.columns().iter().all(|it| stored.iter().any(|other| other == it)) {
            return Ok(pages);
        }
    }
    Err(Remark::NotHistory)
}

/// When they were visited, and their numbers, newest first, one more than is read; and what ended the looking early.
/// No index is asked: it may say what it likes.
fn newest(
    database: &Connection,
    pages: &Pages,
) -> (Vec<Reverse<(i64, i64)>>, Option<rusqlite::Error>) {
    let Pages { table, visited, .. } = pages;
    let sql =
        format!("SELECT {visited}, id FROM {table} NOT INDEXED WHERE hidden = 0 AND {visited} > 0");
    let mut kept: BinaryHeap<Reverse<(i64, i64)>> = BinaryHeap::with_capacity(MOST + 2);
    let mut look = || -> rusqlite::Result<()> {
        let mut statement = database.prepare(&sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            if let (ValueRef::Integer(visited), ValueRef::Integer(id)) =
                (row.get_ref(0)?, row.get_ref(1)?)
            {
                kept.push(Reverse((visited, id)));
            }
            if kept.len() > MOST + 1 {
                kept.pop();
            }
        }
        Ok(())
    };
    let trouble = look().err();
    (kept.into_sorted_vec(), trouble)
}

fn bytes_of(value: ValueRef<'_>) -> &[u8] {
    match value {
        ValueRef::Text(bytes) => bytes,
        _ => &[],
    }
}

/// Title and address of a page of the web; `None` for what is another thing: files, settings, programs.
fn said(address: &[u8], title: &[u8]) -> Option<String> {
    let address = String::from_utf8_lossy(address);
    let end = address.find([';', '?', '#']).unwrap_or(address.len());
    // What follows names sessions, tokens and words that were typed.
    let (address, secret) = address.split_at(end);
    let (scheme, rest) = address.split_once("://")?;
    if !matches!(scheme, "http" | "https") {
        return None;
    }
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = host.rsplit('@').next().filter(|it| !it.is_empty())?;
    let address = short(&format!("{scheme}://{host}{path}"));
    let title = String::from_utf8_lossy(title);
    // Pages without a title are called by their address, all of it.
    let is_address = title.contains("://") || (secret.len() > 1 && title.contains(&secret[1..]));
    let title = if is_address { String::new() } else { short(&title) };
    Some(if title.is_empty() { address } else { format!("{title}\n{address}") })
}

/// The beginning of a text, in one line.
fn short(text: &str) -> String {
    let plain = |it: char| if it.is_control() { ' ' } else { it };
    let text: String = text.chars().map(plain).take(LONGEST).collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The day in UTC of a time in seconds since 1970; none before that and after the year 9999.
fn day(seconds: i64) -> Option<String> {
    if !(0..253_402_300_800).contains(&seconds) {
        return None;
    }
    // Howard Hinnant, "chrono-compatible low-level date algorithms", civil_from_days: years begin in March.
    let days = seconds / 86_400 + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march + 2) / 5 + 1;
    let month = if march < 10 { march + 3 } else { march - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    Some(format!("{year:04}-{month:02}-{day:02}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::Tools;

    const FIREFOX: &str = "CREATE TABLE moz_places (id INTEGER PRIMARY KEY, url LONGVARCHAR, title LONGVARCHAR, \
        rev_host LONGVARCHAR, visit_count INTEGER DEFAULT 0, hidden INTEGER DEFAULT 0 NOT NULL, typed INTEGER, \
        frecency INTEGER DEFAULT -1 NOT NULL, last_visit_date INTEGER, guid TEXT); \
        CREATE INDEX moz_places_lastvisitdateindex ON moz_places (last_visit_date);";
    const CHROME: &str = "CREATE TABLE urls (id INTEGER PRIMARY KEY AUTOINCREMENT, url LONGVARCHAR, title LONGVARCHAR, \
        visit_count INTEGER DEFAULT 0 NOT NULL, typed_count INTEGER DEFAULT 0 NOT NULL, \
        last_visit_time INTEGER NOT NULL, hidden INTEGER DEFAULT 0 NOT NULL);";
    /// Noon of the thirtieth of November 2026, in microseconds since 1970.
    const NOON: i64 = 1_796_040_000_000_000;

    fn database(sql: &str) -> Vec<u8> {
        let made = Connection::open_in_memory().expect("memory");
        made.execute_batch(sql).expect("SQL");
        made.serialize("main").expect("bytes").to_vec()
    }

    fn firefox(rows: &[(&str, &str, i64)]) -> Vec<u8> {
        let mut sql = FIREFOX.to_owned();
        for (url, title, visited) in rows {
            sql.push_str(&format!(
                "INSERT INTO moz_places (url, title, last_visit_date) VALUES ('{url}', '{title}', {visited});"
            ));
        }
        database(&sql)
    }

    fn read(bytes: &[u8]) -> Result<(Vec<String>, Vec<String>), String> {
        match parse("places.sqlite", bytes, &mut Shares::tried()) {
            ParseOutcome::Parsed(document) => {
                Ok((document.blocks.into_iter().map(|it| it.text).collect(), document.warnings))
            }
            ParseOutcome::Failed(why) => Err(why),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn pages_are_read_by_day_newest_first() {
        let day = 86_400_000_000;
        let bytes = firefox(&[
            ("https://example.org/old", "Old tides", NOON - 400 * day),
            ("https://example.org/paint", "Paint  \n and tar", NOON),
            ("https://example.org/locks/2", "", NOON + 5),
        ]);
        let (texts, warnings) = read(&bytes).expect("read");
        assert_eq!(
            texts,
            [
                "2026-11-30",
                "https://example.org/locks/2",
                "Paint and tar\nhttps://example.org/paint",
                "2025-10-26",
                "Old tides\nhttps://example.org/old",
            ]
        );
        assert_eq!(warnings, [""; 0]);
        let chrome = NOON + 11_644_473_600_000_000;
        let sql = format!(
            "{CHROME} INSERT INTO urls (url, title, last_visit_time) \
             VALUES ('https://example.org/', 'Tides', {chrome});"
        );
        let (texts, _) = read(&database(&sql)).expect("read");
        assert_eq!(texts, ["2026-11-30", "Tides\nhttps://example.org/"]);
    }

    #[test]
    fn secrets_of_addresses_and_what_is_no_page_are_left_out() {
        let bytes = firefox(&[
            ("https://ada:pw@example.org/a;jsessionid=7?token=1#part", "Mail", NOON + 9),
            ("https://example.org/b?token=2", "example.org/b?token=2", NOON + 8),
            ("https://example.org/b?token=3", "https://example.org/b?token=3", NOON + 7),
            ("file:///home/ada/diary.txt", "Diary", NOON + 6),
            ("about:config", "Settings", NOON + 5),
            ("javascript:alert(1)", "Run", NOON + 4),
            ("https://?q=1", "No host", NOON + 3),
            ("https://example.org/never", "Never visited", 0),
            ("https://example.org/later", "Far away", i64::MAX),
        ]);
        let (texts, _) = read(&bytes).expect("read");
        assert_eq!(texts, ["2026-11-30", "Mail\nhttps://example.org/a", "https://example.org/b"]);
        let hidden = "UPDATE moz_places SET hidden = 1;";
        let row =
            "INSERT INTO moz_places (url, last_visit_date) VALUES ('https://example.org/', 1);";
        assert_eq!(read(&database(&format!("{FIREFOX}{row}{hidden}"))).expect("read").0, [""; 0]);
    }

    #[test]
    fn only_the_newest_pages_are_read_and_that_is_told() {
        let sql = format!(
            "{FIREFOX} WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {})
             INSERT INTO moz_places (url, last_visit_date) SELECT 'https://example.org/' || i, {NOON} + i FROM n;",
            MOST + 1
        );
        let (texts, warnings) = read(&database(&sql)).expect("read");
        assert_eq!((texts.len(), texts[1].as_str()), (MOST + 1, "https://example.org/20001"));
        assert_eq!(texts.last().map(String::as_str), Some("https://example.org/2"));
        assert_eq!(warnings, ["only the newest 20000 pages are read"]);
    }

    #[test]
    fn a_log_beside_the_file_is_told_of() {
        let mut bytes = firefox(&[("https://example.org/", "Tides", NOON)]);
        bytes[WRITE_VERSION] = 2;
        bytes[WRITE_VERSION + 1] = 2;
        let (texts, warnings) = read(&bytes).expect("read");
        assert_eq!(texts.len(), 2);
        assert_eq!(warnings, [Remark::NewestVisits.to_string()]);
    }

    #[test]
    fn what_only_poses_as_a_table_of_pages_is_not_run() {
        let columns = "1 AS id, 'https://example.org/' AS url, 'x' AS title, 0 AS hidden, 5 AS last_visit_date";
        let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)";
        for sql in [
            "CREATE TABLE notes (id INTEGER PRIMARY KEY, text);".to_owned(),
            "CREATE TABLE moz_places (id INTEGER PRIMARY KEY, url);".to_owned(),
            format!("CREATE VIEW moz_places AS SELECT {columns};"),
            format!("CREATE VIEW moz_places AS {endless} SELECT {columns} FROM n;"),
            "CREATE VIRTUAL TABLE moz_places USING fts5(id, url, title, hidden, last_visit_date);"
                .to_owned(),
            "CREATE VIRTUAL TABLE urls USING rtree(id, url, title);".to_owned(),
            "CREATE TABLE moz_places (id INTEGER PRIMARY KEY, title, hidden, last_visit_date,
             url AS (hex(zeroblob(1000000))));
             INSERT INTO moz_places (title, hidden, last_visit_date) VALUES ('x', 0, 5);"
                .to_owned(),
            "CREATE TABLE urls (id INTEGER PRIMARY KEY, url, title, last_visit_time,
             hidden AS (abs(-9223372036854775807 - length(url))) STORED);"
                .to_owned(),
        ] {
            let why = read(&database(&sql)).expect_err(&sql);
            assert!(!why.is_empty(), "{sql}");
        }
        // Its triggers rest, and what else is in it is not looked at.
        let more = format!(
            "{FIREFOX} INSERT INTO moz_places (url, last_visit_date) VALUES ('https://example.org/', {NOON});
             CREATE VIRTUAL TABLE words USING fts5(word);
             CREATE VIEW others AS {endless} SELECT i FROM n;
             CREATE TRIGGER t AFTER INSERT ON moz_places BEGIN DELETE FROM moz_places; END;"
        );
        assert_eq!(read(&database(&more)).expect("read").0.len(), 2);
    }

    #[test]
    fn nothing_but_five_columns_can_be_asked_for() {
        let bytes = database(&format!("{FIREFOX} CREATE TABLE other (secret);"));
        let end = Instant::now() + std::time::Duration::from_secs(60);
        let opened = open(&bytes, end).expect("opens");
        opened.prepare("SELECT url FROM moz_places").expect("allowed");
        for sql in [
            "SELECT guid FROM moz_places",
            "SELECT secret FROM other",
            "SELECT url FROM moz_places WHERE length(url) > 3",
            "SELECT value FROM json_each('[1]')",
            "DELETE FROM moz_places",
            "PRAGMA writable_schema = 1",
            "ATTACH 'x' AS y",
        ] {
            assert!(opened.prepare(sql).is_err(), "{sql}");
        }
    }

    #[test]
    fn values_without_measure_cost_their_row() {
        let long = format!(
            "{FIREFOX}
             INSERT INTO moz_places (url, title, last_visit_date)
                 VALUES ('https://example.org/' || hex(zeroblob(1000000)), 'long', {NOON} + 1);
             INSERT INTO moz_places (url, title, last_visit_date) VALUES (x'00ff', 7, {NOON} + 2);
             INSERT INTO moz_places (url, title, last_visit_date) VALUES ('https://example.org/', 'b', 'never');
             INSERT INTO moz_places (url, title, last_visit_date)
                 VALUES ('https://example.org/' || hex(zeroblob(400)), hex(zeroblob(400)), {NOON});"
        );
        let (texts, warnings) = read(&database(&long)).expect("read");
        assert_eq!((texts.len(), warnings.len()), (2, 0));
        assert_eq!(texts[1].chars().count(), 2 * LONGEST + 1);
    }

    #[test]
    fn the_clock_ends_it() {
        let sql = format!(
            "{FIREFOX} WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
             INSERT INTO moz_places (url, last_visit_date) SELECT 'https://example.org/' || i, {NOON} FROM n;"
        );
        let spent = &mut Shares::new(0, Tools::default(), crate::worker::read);
        let outcome = parse("places.sqlite", &database(&sql), spent);
        assert_eq!(outcome, ParseOutcome::Failed(Remark::TooSlow.into()));
    }

    #[test]
    fn damaged_files_have_an_outcome() {
        let rows: Vec<(String, String)> = (0..200)
            .map(|it| (format!("https://example.org/{it}"), format!("Page {it}")))
            .collect();
        let rows: Vec<(&str, &str, i64)> = rows
            .iter()
            .zip(1..)
            .map(|(it, at)| (it.0.as_str(), it.1.as_str(), NOON + at))
            .collect();
        let whole = firefox(&rows);
        assert_eq!(read(&whole).expect("read").0.len(), 201);
        for length in (0..whole.len()).step_by(97) {
            let _ = parse("places.sqlite", &whole[..length], &mut Shares::tried());
        }
        // A simple generator: the same bytes are hit in every run.
        let mut state = 1_u64;
        for _ in 0..2000 {
            let mut bytes = whole.clone();
            for _ in 0..8 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = usize::try_from(state >> 33).unwrap_or(0) % bytes.len();
                bytes[at] = (state >> 24) as u8;
            }
            let _ = parse("places.sqlite", &bytes, &mut Shares::tried());
        }
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        let of = |seconds| day(seconds).unwrap_or_default();
        assert_eq!(
            [of(0), of(951_782_400), of(951_868_800)],
            ["1970-01-01", "2000-02-29", "2000-03-01"]
        );
        assert_eq!([of(253_402_300_799), of(-1), of(i64::MAX)], ["9999-12-31", "", ""]);
    }
}
