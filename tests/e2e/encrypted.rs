//! A home that is encrypted: it finds what it found before, shows nothing of it on the disk, and opens for nobody else.

use std::{
    fs,
    io::Read as _,
    path::Path,
    thread,
    time::{Duration, Instant, SystemTime},
};

use riddle_tests::{Riddle, Running, noted, notes, snapshot, tiny_model, token, write};
use serde_json::Value;
use tempfile::TempDir;

use crate::crash::share;

const PASSPHRASE: &str = "a door of ökk, 7 planks";

/// Files of a library, one of them with words of its own in its name and in its text.
const FILES: usize = 40;

/// Words that are nowhere but in the library's files, their paths and what was asked.
const SECRETS: [&str; 6] =
    ["zorfax", "quillfeather", "ledgerpath", "Quillfeather", "zorkax", "oarlock"];

const QUERIES: [&str; 3] = ["zorfax", "quillfeather", "bridge"];

fn library() -> TempDir {
    let files = TempDir::new().expect("a temporary folder");
    notes(files.path(), FILES);
    assert_eq!(token(7), SECRETS[0]);
    write(files.path(), "ledgerpath.md", "# Quillfeather\n\nThe quillfeather debt is 912 marks.\n");
    files
}

/// A home with vectors of that library, where somebody has asked for something.
fn home(files: &Path) -> Riddle {
    let riddle = Riddle::new();
    let encoder = tiny_model("tiny-bert-encoder").display().to_string();
    let folder = files.display().to_string();
    riddle.run(&["index", &folder, "--embedder", &encoder]).ok();
    riddle.run(&["ask", "What is the oarlock debt?"]).ok();
    riddle
}

fn with_passphrase(riddle: Riddle) -> Riddle {
    riddle.with_env(&[("RIDDLE_PASSPHRASE", PASSPHRASE)])
}

/// The files below a folder that hold one of the secrets.
fn told(folder: &Path) -> Vec<String> {
    let mut told = Vec::new();
    for entry in fs::read_dir(folder).expect("readable").flatten() {
        let path = entry.path();
        if path.is_dir() {
            told.extend(self::told(&path));
            continue;
        }
        // Megabytes, and often: most of their bytes begin no secret.
        let bytes = fs::read(&path).unwrap_or_default();
        let begins = |it: &u8| SECRETS.iter().any(|secret| secret.as_bytes()[0] == *it);
        let begin: Vec<bool> = (0..=u8::MAX).map(|it| begins(&it)).collect();
        let places = bytes.iter().enumerate().filter(|it| begin[usize::from(*it.1)]);
        let mut rest = places.map(|(at, _)| &bytes[at..]);
        let holds = |rest: &[u8]| SECRETS.into_iter().find(|it| rest.starts_with(it.as_bytes()));
        if let Some(secret) = rest.find_map(holds) {
            told.push(format!("{} holds {secret}", path.display()));
        }
    }
    told
}

/// Hits with their scores, of words and of meaning.
fn hits(riddle: &Riddle) -> Vec<Value> {
    QUERIES
        .iter()
        .map(|query| {
            let response = riddle.json(&["search", query, "--no-rerank", "--explain"]);
            let hits = response["hits"].as_array().expect("hits");
            hits.iter()
                .map(|it| serde_json::json!([it["chunk"], it["score"], it["trace"]]))
                .collect()
        })
        .collect()
}

#[test]
fn an_encrypted_home_finds_the_same_and_shows_nothing() {
    let files = library();
    let riddle = with_passphrase(home(files.path()));
    let before = (hits(&riddle), snapshot(&riddle, &QUERIES));
    assert!(!told(riddle.home()).is_empty(), "a home that is not encrypted tells");
    assert!(before.0.iter().all(|it| !it.as_array().expect("hits").is_empty()), "{before:#?}");

    let said = riddle.run(&["encrypt"]).ok();
    assert!(said.contains("is encrypted by its passphrase"), "{said}");
    assert_eq!(told(riddle.home()), [""; 0]);
    assert_eq!((hits(&riddle), snapshot(&riddle, &QUERIES)), before);
    assert_eq!(riddle.json(&["status"])["encrypted"], true);
    let check = riddle.run(&["check"]).ok();
    assert!(check.contains("all is well"), "{check}");
    let again = riddle.run(&["encrypt"]).failed(1);
    assert!(again.contains("encrypted already"), "{again}");

    // What comes later is no different.
    write(files.path(), "later.md", "# Later\n\nThe zorkax is in the harbour.\n");
    riddle.run(&["index"]).ok();
    assert_eq!(riddle.find("zorkax").first().map(String::as_str), Some("later.md"));
    riddle.run(&["ask", "Where is the oarlock?"]).ok();
    assert_eq!(told(riddle.home()), [""; 0]);
    fs::remove_file(files.path().join("later.md")).expect("removed");
    riddle.run(&["index"]).ok();

    let said = riddle.run(&["decrypt"]).ok();
    assert!(said.contains("no longer encrypted"), "{said}");
    assert!(!riddle.home().join("home.key").exists());
    assert_eq!(hits(&riddle), before.0);
    assert!(!told(riddle.home()).is_empty());
}

#[test]
fn nobody_else_opens_it() {
    let files = library();
    let plain = home(files.path());
    let locked = plain.run(&["encrypt"]).failed(1);
    assert!(locked.contains("RIDDLE_PASSPHRASE"), "without one nothing is done: {locked}");
    plain.run(&["search", "quillfeather"]).ok();

    let riddle = with_passphrase(plain);
    riddle.run(&["encrypt"]).ok();
    let nobody = |args: &[&str], passphrase: Option<&str>| {
        let mut command = riddle.command(args);
        command.env_remove("RIDDLE_PASSPHRASE");
        if let Some(it) = passphrase {
            command.env("RIDDLE_PASSPHRASE", it);
        }
        Running::start(command).wait().failed(1)
    };
    let home = riddle.home().display().to_string();
    for args in [
        &["search", "bridge"][..],
        &["index"],
        &["ask", "why"],
        &["status"],
        &["check"],
        &["decrypt"],
        &["encrypt", "--change"],
        &["encrypt", "--forget"],
        &["export", "/tmp/nobody.sqlite"],
        &["folders"],
        &["cache", "status"],
        &["mcp", "--alone"],
        &["serve", "--port", "0"],
    ] {
        let said = nobody(args, None);
        assert!(
            said.contains("encrypted") && said.contains("RIDDLE_PASSPHRASE"),
            "{args:?}: {said}"
        );
        assert!(said.contains(&home), "{args:?}: {said}");
        let said = nobody(args, Some("another"));
        assert!(said.contains("not the passphrase of this home"), "{args:?}: {said}");
    }
    assert!(!Path::new("/tmp/nobody.sqlite").exists());

    // A key that is cut off, lies or is gone.
    let key = riddle.home().join("home.key");
    let good = fs::read(&key).expect("there");
    for bad in [&good[..good.len() / 2], b"", b"{}", &[0xff; 100]] {
        fs::write(&key, bad).expect("written");
        let said = riddle.run(&["search", "bridge"]).failed(1);
        assert!(said.contains("not the key of a home") && said.contains("put a copy"), "{said}");
    }
    fs::remove_file(&key).expect("removed");
    let said = riddle.run(&["search", "bridge"]).failed(1);
    assert!(said.contains("damaged"), "{said}");
    fs::write(&key, &good).expect("written");
    riddle.run(&["search", "bridge"]).ok();
}

#[test]
fn a_passphrase_is_changed_without_writing_anything_else() {
    let files = library();
    let riddle = with_passphrase(home(files.path()));
    riddle.run(&["encrypt"]).ok();
    let before = fs::metadata(riddle.home().join("catalog.sqlite")).expect("there").modified();
    let said = riddle.run(&["encrypt", "--change"]).failed(1);
    assert!(said.contains("RIDDLE_NEW_PASSPHRASE"), "{said}");
    let changed = riddle.with_env(&[("RIDDLE_NEW_PASSPHRASE", "short")]);
    changed.run(&["encrypt", "--change"]).ok();
    let after = fs::metadata(changed.home().join("catalog.sqlite")).expect("there").modified();
    assert_eq!(before.expect("a time"), after.expect("a time"));
    let said = changed.run(&["search", "bridge"]).failed(1);
    assert!(said.contains("not the passphrase"), "{said}");
    let riddle = changed.with_env(&[("RIDDLE_PASSPHRASE", "short")]);
    riddle.run(&["search", "bridge"]).ok();
    // There is no keyring here.
    let said = riddle.run(&["encrypt", "--keyring"]).failed(1);
    assert!(said.contains("no secret store") && !said.contains("RIDDLE_LLM_KEY"), "{said}");
    riddle.run(&["search", "bridge"]).ok();
}

#[test]
fn what_is_damaged_is_told_and_comes_back() {
    let files = library();
    let riddle = with_passphrase(home(files.path()));
    riddle.run(&["encrypt"]).ok();
    let expected = hits(&riddle);
    // A byte in the middle of every file of the indexes, one after the other.
    let mut indexes = Vec::new();
    for folder in ["keyword", "vector"] {
        let mut open = vec![riddle.home().join(folder)];
        while let Some(next) = open.pop() {
            for entry in fs::read_dir(next).expect("readable").flatten() {
                let path = entry.path();
                if path.is_dir() { open.push(path) } else { indexes.push(path) }
            }
        }
    }
    assert!(indexes.len() > 4, "{indexes:?}");
    for path in indexes {
        let Ok(mut bytes) = fs::read(&path) else { continue };
        if bytes.is_empty() {
            continue;
        }
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&path, &bytes).expect("written");
        // Whatever is read of it: no panic, and no hit that was not there.
        let outcome = riddle.run(&["search", "bridge", "--no-rerank"]);
        assert!(
            matches!(outcome.code, Some(0 | 1)) && !outcome.stderr.contains("panicked"),
            "{outcome:#?}"
        );
        riddle.run(&["check", "--repair"]).ok();
        assert_eq!(hits(&riddle), expected, "{}", path.display());
    }
}

/// A copy goes elsewhere as it is, with its key.
#[test]
fn an_encrypted_home_travels_encrypted() {
    let files = library();
    let riddle = with_passphrase(home(files.path()));
    riddle.run(&["encrypt"]).ok();
    let away = TempDir::new().expect("a temporary folder");
    let copy = away.path().join("backup.sqlite").display().to_string();
    let said = riddle.run(&["export", &copy]).ok();
    assert!(said.contains("backup.sqlite.key belongs to it"), "{said}");
    assert_eq!(told(away.path()), [""; 0]);
    let other = Riddle::new();
    let said = other.run(&["import", &copy]).failed(1);
    assert!(said.contains("RIDDLE_PASSPHRASE"), "{said}");
    let other = with_passphrase(other);
    other.run(&["import", &copy]).ok();
    other.run(&["index"]).ok();
    assert_eq!(other.find("quillfeather"), riddle.find("quillfeather"));
    assert_eq!(told(other.home()), [""; 0]);
}

/// What keeps a home open keeps it from being encrypted, and is told so.
#[test]
fn a_home_that_is_in_use_stays_as_it_is() {
    let files = library();
    let riddle = with_passphrase(home(files.path()));
    let mut server = riddle.start(&["serve", "--port", "0"]);
    server.until("it serves", || riddle.home().join("doors.json").exists());
    let place = riddle.home().join("keyword").join("meta.json");
    assert!(place.exists());
    let said = riddle.run(&["encrypt"]).failed(1);
    assert!(said.contains("busy") || said.contains("another"), "{said}");
    assert!(place.exists(), "nothing was removed");
    assert!(!riddle.home().join("home.key").exists());
    server.signal("INT");
    server.wait();
    riddle.run(&["encrypt"]).ok();
}

/// Kills of encrypting and decrypting unless `RIDDLE_KILLS` says how many.
const KILLS: u64 = 12;

/// What shows how far a conversion is.
#[derive(Debug, PartialEq, Eq)]
struct Look {
    /// What the key's file holds.
    key: Option<Vec<u8>>,
    /// Whether the catalog is encrypted.
    sealed: bool,
    /// When its copy in the other form was last written to, if there is one.
    copy: Option<SystemTime>,
    /// Whether there is an index of words.
    index: bool,
}

impl Look {
    fn at(home: &Path) -> Look {
        let mut beginning = Vec::new();
        let catalog = fs::File::open(home.join("catalog.sqlite")).expect("there");
        catalog.take(6).read_to_end(&mut beginning).expect("readable");
        Look {
            key: fs::read(home.join("home.key")).ok(),
            sealed: beginning != b"SQLite",
            copy: fs::metadata(home.join("catalog.sqlite.new")).and_then(|it| it.modified()).ok(),
            index: home.join("keyword").join("meta.json").exists(),
        }
    }
}

/// How often it is looked whether a run has changed something.
const LOOK: Duration = Duration::from_micros(500);

/// How a run is seen to be in a phase, by what was there before it and what is there now. Before the first of them it
/// stretches the passphrase, for most of its time, and there is nothing to break.
type Sign = fn(&Look, &Look) -> bool;

/// The key is written or what is derived is removed, the catalog is copied, it has its other form and indexes are made.
const PHASES: [Sign; 3] = [
    |before, now| now != before,
    |before, now| now.copy.is_some() && now.copy != before.copy,
    |before, now| now.sealed != before.sealed,
];

/// How long a run takes from the sign of each phase to that of the next, or to its end.
fn durations(riddle: &Riddle, command: &str) -> [Duration; PHASES.len()] {
    let before = Look::at(riddle.home());
    let mut run = riddle.start(&[command]);
    let mut seen = [None; PHASES.len()];
    while !run.has_ended() {
        let now = Look::at(riddle.home());
        for (seen, sign) in seen.iter_mut().zip(PHASES) {
            if sign(&before, &now) {
                seen.get_or_insert_with(Instant::now);
            }
        }
        thread::sleep(LOOK);
    }
    run.wait().ok();
    let ends = seen.iter().skip(1).copied().chain([None]);
    let between = seen.iter().zip(ends).map(|(begun, end)| {
        let begun = begun.unwrap_or_else(Instant::now);
        end.unwrap_or_else(Instant::now).saturating_duration_since(begun)
    });
    between.collect::<Vec<_>>().try_into().expect("as many as there are phases")
}

/// Kills a run that long after its sign. What a killed one has left.
fn kill_after(riddle: &Riddle, command: &str, sign: Sign, delay: Duration) -> Option<Look> {
    let before = Look::at(riddle.home());
    let mut run = riddle.start(&[command]);
    while !run.has_ended() && !sign(&before, &Look::at(riddle.home())) {
        thread::sleep(LOOK);
    }
    thread::sleep(delay);
    run.kill();
    let outcome = run.wait();
    assert!(matches!(outcome.code, None | Some(0)), "killed, not failed: {outcome:#?}");
    let after = Look::at(riddle.home());
    (outcome.code.is_none() && after != before).then_some(after)
}

/// Killed at any moment of encrypting and of taking it back, a home opens with its passphrase and finds what it found;
/// and once it says that it is encrypted, it shows nothing.
#[test]
fn kill_9_while_it_is_encrypted_and_decrypted() {
    let files = library();
    let riddle = with_passphrase(home(files.path()));
    // All that they find, at once: an encrypted home takes a while to open.
    let query = QUERIES.join(" ");
    let expected = snapshot(&riddle, &[&query]);
    let found = expected["found"][0][1].as_array().map_or(0, Vec::len);
    assert!(found > 2, "{expected:#}");
    let times = ["encrypt", "decrypt"].map(|it| durations(&riddle, it));
    let (mut kills, mut attempts, enough) = (0, 0, crate::crash::kills(KILLS));
    let (mut turned, mut copies) = (0, 0);
    while kills < enough || turned == 0 || copies == 0 {
        attempts += 1;
        let tries = 10 * (enough + 2);
        assert!(
            attempts < tries,
            "{kills} of {tries} runs were killed while they changed the home, {copies} of them \
             while they copied the catalog, {turned} after it had its other form"
        );
        let before = Look::at(riddle.home());
        let command = if before.sealed { "decrypt" } else { "encrypt" };
        let phase = attempts as usize % PHASES.len();
        let delay = times[usize::from(before.sealed)][phase].mul_f64(share(attempts));
        let Some(left) = kill_after(&riddle, command, PHASES[phase], delay) else { continue };
        kills += 1;
        turned += u64::from(left.sealed != before.sealed);
        copies += u64::from(left.copy.is_some());
        if command == "encrypt" && left.sealed {
            assert_eq!(told(riddle.home()), [""; 0], "as it was left after {kills} kills");
        }
        // Every other one meets what the one before it has left.
        if kills % 2 == 1 && kills < enough {
            continue;
        }
        // Whoever comes next makes the indexes anew.
        riddle.run(&["index"]).ok();
        assert_eq!(snapshot(&riddle, &[&query]), expected, "after {kills} kills");
        let now = Look::at(riddle.home());
        assert_eq!((now.sealed, now.copy), (left.sealed, None), "after {kills} kills");
        if now.sealed {
            assert_eq!(told(riddle.home()), [""; 0], "after {kills} kills");
        } else {
            assert_eq!(now.key, None, "nothing needs the key, after {kills} kills");
        }
    }
    let check = riddle.run(&["check"]).ok();
    assert!(check.contains("all is well"), "{check}");
    noted(&format!(
        "{kills} of {attempts} runs were killed while they changed the home, {copies} of them while \
         they copied the catalog, {turned} after it had its other form"
    ));
}

#[test]
fn the_systems_keyring_opens_it_where_it_keeps_the_key() {
    let files = library();
    let riddle = home(files.path());
    let script = "set -e
         export RIDDLE_PASSPHRASE=heron
         $riddle encrypt --keyring
         unset RIDDLE_PASSPHRASE
         $riddle search quillfeather --no-rerank | grep -q ledgerpath && echo OPENED BY THE KEYRING
         $riddle desktop-search --patience 60 & desktop=$!
         gdbus wait --session --timeout 30 app.riddle.Search
         gdbus call --session --dest app.riddle.Search --object-path /app/riddle/Search \\
             --method org.gnome.Shell.SearchProvider2.GetInitialResultSet \"['quillfeather']\" \\
             | grep -q \"'[0-9]\" && echo FOUND BY THE DESKTOP
         kill $desktop
         $riddle encrypt --forget
         $riddle search quillfeather 2>&1 | grep -q 'is encrypted' && echo LOCKED AGAIN
         RIDDLE_PASSPHRASE=heron $riddle encrypt --keyring --no-passphrase
         $riddle search quillfeather --no-rerank | grep -q ledgerpath && echo OPENED WITHOUT A PASSPHRASE
         RIDDLE_PASSPHRASE=heron $riddle search quillfeather --no-rerank | grep -q ledgerpath && echo NONE IS NEEDED
         DBUS_SESSION_BUS_ADDRESS=unix:path=/nowhere $riddle search quillfeather 2>&1 | grep -q 'has no passphrase' && echo ELSEWHERE IT STAYS LOCKED
         $riddle encrypt --forget 2>&1 | grep -q 'give it a passphrase first' && echo STAYS
         $riddle export /nowhere/x 2>&1 | grep -q 'no such folder' && echo ASKED
         $riddle export \"$HOME/copy\" 2>&1 | grep -q 'give it a passphrase first' && echo NO COPY
         test ! -e \"$HOME/copy\"
         RIDDLE_NEW_PASSPHRASE=oar $riddle encrypt --change
         $riddle encrypt --forget
         RIDDLE_PASSPHRASE=oar $riddle decrypt
         $riddle search quillfeather --no-rerank | grep -q ledgerpath && echo DECRYPTED";
    let Some(said) = crate::keys::in_a_session(&riddle, script) else { return };
    for words in [
        "the keyring keeps the key",
        "OPENED BY THE KEYRING",
        "FOUND BY THE DESKTOP",
        "has forgotten the key",
        "LOCKED AGAIN",
        "no passphrase opens this home any more",
        "OPENED WITHOUT A PASSPHRASE",
        "NONE IS NEEDED",
        "ELSEWHERE IT STAYS LOCKED",
        "STAYS",
        "ASKED",
        "NO COPY",
        "DECRYPTED",
    ] {
        assert!(said.contains(words), "{words:?} is not in\n{said}");
    }
}
