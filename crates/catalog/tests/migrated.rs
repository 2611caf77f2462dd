//! kill -9 while a catalog of the first version becomes one of the last and gives back what it no longer needs of the
//! disk: the next opening goes on where the killed one was, and nothing of it is lost.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use riddle_catalog::Catalog;
use rusqlite::{Connection, OpenFlags};

/// Set for the process that is to be killed; names the catalog.
const VICTIM: &str = "RIDDLE_TEST_VICTIM_CATALOG";

/// Passages with vectors as they are in practice: the file is some megabytes, of which half are given back.
const PASSAGES: u32 = 3_000;

/// Kills, unless `RIDDLE_KILLS` says how many.
const KILLS: u32 = 8;

/// A catalog as version 1 left it, with many passages in its first file.
fn old(path: &Path) {
    let raw = Connection::open(path).expect("raw");
    raw.execute_batch(include_str!("fixtures/v1.sql")).expect("fixture");
    let more = format!(
        "BEGIN;
         INSERT INTO embedders VALUES ('f', 384, 0);
         WITH RECURSIVE n (n) AS (SELECT 10 UNION ALL SELECT n + 1 FROM n WHERE n < {PASSAGES})
             INSERT INTO chunks SELECT n, 1, n - 7, 'passage ' || n, '',
                 '{{\"kind\":\"line\",\"start\":1,\"end\":1}}', 2, CAST(printf('%032d', n) AS BLOB)
             FROM n;
         INSERT INTO vectors SELECT 'f', id, CAST(printf('%01536d', id) AS BLOB) FROM chunks;
         INSERT INTO vectors SELECT 'e', id, CAST(printf('%08d', id) AS BLOB) FROM chunks WHERE id > 4;
         INSERT INTO changes (chunk, removed) SELECT id, 0 FROM chunks WHERE id > 4;
         COMMIT;"
    );
    raw.execute_batch(&more).expect("filled");
}

/// Version of a catalog, and pages in it that hold nothing.
fn stand(path: &Path) -> (i64, i64) {
    let raw = Connection::open(path).expect("raw");
    let number = |sql| raw.query_row(sql, [], |row| row.get(0)).expect("a number");
    (number("PRAGMA user_version"), number("PRAGMA freelist_count"))
}

/// Waits until another process has brought a catalog to that version, or has ended.
fn wait_for(version: i64, path: &Path, child: &mut Child) {
    let log = path.with_extension("sqlite-wal");
    let is_there = || {
        let raw = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        raw.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0))
    };
    // Before there is a log whoever reads is in the writer's way.
    while child.try_wait().expect("can be asked").is_none()
        && !(log.exists() && is_there().is_ok_and(|it| it == version))
    {
        thread::sleep(Duration::from_millis(1));
    }
}

/// All that is known of passages: their texts, and their vectors of both embedders.
fn held(path: &Path) -> impl PartialEq + std::fmt::Debug + use<> {
    let catalog = Catalog::open(path).expect("opens");
    assert_eq!(catalog.check().expect("check"), []);
    let chunks = catalog.all_chunks().expect("read");
    let vectors = ["e", "f"].map(|it| {
        let mut vectors = catalog.vectors_of(it, &chunks).expect("read");
        vectors.sort_by_key(|it| it.0);
        let bytes = vectors.iter().flat_map(|it| it.1.iter().flat_map(|it| it.to_le_bytes()));
        (vectors.len(), bytes.fold(0u64, |sum, it| sum.rotate_left(5) ^ u64::from(it)))
    });
    let history = catalog.history(9).expect("history").len();
    (catalog.fingerprint().expect("read"), chunks.len(), vectors, history)
}

/// Opens the catalog in another process; that has begun when this returns.
fn victim(path: &Path) -> (Child, impl Iterator<Item = String>) {
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args(["killed_while_it_is_migrated_it_is_migrated_by_the_next", "--exact", "--nocapture"])
        .env(VICTIM, path)
        .stdout(Stdio::piped())
        .spawn()
        .expect("start");
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut told =
        lines.map_while(Result::ok).filter(|it| it == "it begins" || it == "it has ended");
    assert_eq!(told.next().as_deref(), Some("it begins"));
    (child, told)
}

/// Opens the catalog in another process and kills that; whether it was at work. Moments are nowhere near each other
/// (golden ratio); every second one is when only space is left to be given back, which is a small part of it.
fn kill(path: &Path, last: i64, duration: Duration, round: u32) -> bool {
    let (mut child, mut told) = victim(path);
    let moment = duration.mul_f64((f64::from(round) * 0.618).fract());
    if round.is_multiple_of(2) {
        wait_for(last, path, &mut child);
        thread::sleep(moment / 5);
    } else {
        thread::sleep(moment);
    }
    child.kill().expect("kill -9");
    let status = child.wait().expect("dead");
    // What a test that panics ends with.
    assert_ne!(status.code(), Some(101), "killed, not failed");
    !status.success() && told.next().is_none()
}

#[test]
fn killed_while_it_is_migrated_it_is_migrated_by_the_next() {
    if let Some(path) = std::env::var_os(VICTIM) {
        let mut out = std::io::stdout();
        // The line may have begun with the name of the test.
        write!(out, "\nit begins\n").expect("parent listens");
        drop(Catalog::open(Path::new(&path)).expect("opens"));
        return write!(out, "\nit has ended\n").expect("parent listens");
    }
    let home = tempfile::tempdir().expect("temp dir");
    let (before, path) = (home.path().join("before"), home.path().join("catalog.sqlite"));
    old(&before);
    std::fs::copy(&before, &path).expect("copied");
    let (mut child, mut told) = victim(&path);
    let begun = Instant::now();
    assert_eq!(told.next().as_deref(), Some("it has ended"));
    let duration = begun.elapsed();
    assert!(child.wait().expect("ended").success());
    let (last, free) = stand(&path);
    assert_eq!(free, 0, "what the vectors took before is given back");
    let expected = held(&path);

    let said = std::env::var("RIDDLE_KILLS").ok();
    let enough = said.map_or(KILLS, |it| it.parse().expect("RIDDLE_KILLS is a number"));
    let (mut kills, mut rounds, mut migrating, mut giving_back) = (0, 0_u32, 0, 0);
    while kills < enough || giving_back == 0 {
        rounds += 1;
        let tries = 10 * (enough + 3);
        assert!(
            rounds < tries,
            "{kills} of {tries} openings were killed: {migrating} while the catalog was migrated, \
             {giving_back} before its space was given back"
        );
        let home = tempfile::tempdir().expect("temp dir");
        let path = home.path().join("catalog.sqlite");
        std::fs::copy(&before, &path).expect("copied");
        let is_killed = kill(&path, last, duration, rounds);
        let (version, free) = stand(&path);
        kills += u32::from(is_killed);
        migrating += u32::from(is_killed && version < last);
        giving_back += u32::from(is_killed && version == last && free > 0);
        assert_eq!(held(&path), expected, "killed at version {version}");
        assert_eq!(stand(&path), (last, 0), "killed at version {version}");
    }
    let mut stderr = std::io::stderr();
    let said = writeln!(
        stderr,
        "{kills} of {rounds} openings were killed in {duration:?}: {migrating} while the catalog was \
         migrated, {giving_back} before its space was given back"
    );
    said.expect("somebody listens");
}
