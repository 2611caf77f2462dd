//! Whatever lies in a folder or happens to the machine: a state with a reason or one clear line, and a
//! library that still works.

use std::{
    ffi::OsStr,
    fs::{self, File},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, SystemTime},
};

use riddle_tests::{Riddle, Running, notes, program, skipped, snapshot, tiny_model, token, write};
use tempfile::TempDir;

fn folder() -> TempDir {
    TempDir::new().expect("a temporary folder")
}

/// Whether this helper program runs here.
fn runs(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|it| it.success())
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|it| it.stdout.trim_ascii() == b"0")
}

#[test]
fn a_missing_path_changes_nothing() {
    let (riddle, files) = (Riddle::new(), folder());
    notes(files.path(), 3);
    let here = files.path().to_string_lossy().into_owned();
    let line = riddle.run(&["index", &here, "/no/such/folder"]).failed(1);
    assert!(line.contains("/no/such/folder"), "{line}");
    assert!(!riddle.home().join("catalog.sqlite").exists(), "nothing was begun");
    let line = riddle.run(&["index"]).failed(1);
    assert!(line.contains("riddle index"), "{line}");
}

#[test]
fn odd_files_get_a_state_and_the_rest_is_indexed() {
    let (riddle, files) = (Riddle::new(), folder());
    let at = files.path();
    notes(at, 5);
    write(at, "empty.md", "");
    write(at, "blank.txt", " \n\t\n");
    write(at, "zeros.txt", vec![0; 4096]);
    write(at, "noise.bin", (0..=255u8).cycle().take(9000).collect::<Vec<_>>());
    write(at, "torn.pdf", "%PDF-1.7\n1 0 obj\n<< /Type /Catalog");
    write(at, "torn.docx", b"PK\x03\x04 not a real archive");
    write(at, "latin1.txt", b"Die K\xfcche wird gr\xfcn gestrichen, die T\xfcr bleibt wei\xdf.");
    File::create(at.join("huge.txt")).and_then(|it| it.set_len(2 << 30)).expect("a sparse file");
    write(at, ".gitignore", "ignored.md\n");
    write(at, "ignored.md", "The xylophone is hidden.");
    let report = riddle.index(at);
    assert_eq!(report["states"]["indexed"], 6, "{report:#}");
    for (name, state) in [
        ("empty.md", "no_text"),
        ("blank.txt", "no_text"),
        ("huge.txt", "too_large"),
        ("torn.pdf", "failed"),
        ("torn.docx", "failed"),
        ("latin1.txt", "indexed"),
    ] {
        let (found, reason) = riddle.state_of(name);
        assert_eq!(found, state, "{name}: {reason}");
        assert!(state == "indexed" || !reason.is_empty(), "{name} has no reason");
    }
    for name in ["zeros.txt", "noise.bin"] {
        let (state, reason) = riddle.state_of(name);
        assert!(state != "indexed" && state != "pending" && !reason.is_empty(), "{name}: {state}");
    }
    assert_eq!(riddle.find("Küche grün"), ["latin1.txt"]);
    assert_eq!(riddle.find("xylophone"), [""; 0]);
    assert_eq!(riddle.find(&token(4)), ["note-004.md"]);
}

#[test]
fn how_large_a_file_may_be_is_what_somebody_says() {
    let (riddle, files) = (Riddle::new(), folder());
    let at = files.path();
    let mut mails = String::new();
    while mails.len() < 3 << 20 {
        mails.push_str(
            "From a@b.example Mon Jan  5 10:00:00 2026\nSubject: Filler\n\nNothing to see.\n\n",
        );
    }
    mails.push_str(
        "From a@b.example Mon Jan  5 10:00:00 2026\nSubject: Zeppelin\n\nThe zeppelin waits.\n",
    );
    write(at, "box.mbox", mails);
    let at = at.to_string_lossy().into_owned();
    riddle.json(&["index", &at, "--largest-file", "2"]);
    let (state, reason) = riddle.state_of("box.mbox");
    assert!(state == "too_large" && reason.contains("2 MiB"), "{state}: {reason}");
    // The next run reads it, and so does every later one.
    riddle.json(&["index", "--largest-file", "4"]);
    riddle.json(&["index"]);
    assert_eq!(riddle.state_of("box.mbox").0, "indexed");
    assert_eq!(riddle.find("zeppelin"), ["box.mbox"]);
}

#[cfg(unix)]
#[test]
fn symlink_loops_end() {
    use std::os::unix::fs::symlink;

    let (riddle, files, outside) = (Riddle::new(), folder(), folder());
    let at = files.path();
    notes(at, 4);
    write(outside.path(), "private.md", "The password is swordfish.");
    symlink(at, at.join("harbor/self")).expect("linked");
    symlink(at.join("b"), at.join("a")).expect("linked");
    symlink(at.join("a"), at.join("b")).expect("linked");
    symlink("/no/such/place", at.join("dangling.md")).expect("linked");
    symlink(outside.path(), at.join("way-out")).expect("linked");
    let report = riddle.index(at);
    assert_eq!(report["states"]["indexed"], 4, "{report:#}");
    assert_eq!(riddle.find(&token(3)), ["note-003.txt"]);
    assert_eq!(riddle.find("swordfish"), [""; 0], "links never lead out of a root");
}

#[cfg(unix)]
#[test]
fn pipes_and_sockets_are_not_opened() {
    let (riddle, files) = (Riddle::new(), folder());
    notes(files.path(), 2);
    let pipe = files.path().join("pipe.txt");
    if !runs(Command::new("mkfifo").arg(&pipe)) {
        return skipped("there is no mkfifo command");
    }
    let _socket =
        std::os::unix::net::UnixListener::bind(files.path().join("socket.txt")).expect("bound");
    let report = riddle.index(files.path());
    assert_eq!(report["states"]["indexed"], 2, "{report:#}");
}

#[cfg(target_os = "linux")]
#[test]
fn names_that_are_not_utf_8_are_indexed_and_followed() {
    use std::os::unix::ffi::OsStrExt as _;

    let (riddle, files) = (Riddle::new(), folder());
    let at = files.path();
    let name = |bytes: &'static [u8]| at.join(OsStr::from_bytes(bytes));
    fs::create_dir(name(b"dir-\xff")).expect("made");
    fs::write(name(b"caf\xe9.md"), "The barometer fell.").expect("written");
    fs::write(name(b"dir-\xff/\xfe\xfd.md"), "The sextant is brass.").expect("written");
    fs::write(at.join("new\nline.md"), "The compass is oak.").expect("written");
    let report = riddle.index(at);
    assert_eq!(report["states"]["indexed"], 3, "{report:#}");
    for word in ["barometer", "sextant", "compass"] {
        assert_eq!(riddle.find(word).len(), 1, "{word}");
    }
    // Readable output keeps to its lines whatever a file is called.
    let text = riddle.run(&["search", "compass"]).ok();
    assert!(text.contains("new line.md"), "{text}");
    let second = riddle.json(&["index"]);
    assert_eq!((&second["unchanged"], &second["read"]), (&3.into(), &0.into()), "{second:#}");
    fs::remove_file(name(b"caf\xe9.md")).expect("removed");
    assert_eq!(riddle.json(&["index"])["removed"], 1);
    assert_eq!(riddle.find("barometer"), [""; 0]);
}

#[test]
fn times_that_no_clock_showed_do_not_make_a_file_new_for_ever() {
    let (riddle, files) = (Riddle::new(), folder());
    const YEAR: u64 = 365 * 24 * 3600;
    let times = [
        ("1965.txt", SystemTime::UNIX_EPOCH.checked_sub(Duration::from_secs(5 * YEAR))),
        ("2400.txt", SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(430 * YEAR))),
    ];
    for (name, time) in times {
        write(files.path(), name, format!("an oddly dated heron in {name}"));
        let file = File::options().append(true).open(files.path().join(name)).expect("there");
        file.set_modified(time.expect("a time")).expect("a file system that keeps it");
    }
    riddle.index(files.path());
    assert_eq!(riddle.find("heron").len(), 2);
    let second = riddle.index(files.path());
    assert_eq!((&second["unchanged"], &second["read"]), (&2.into(), &0.into()), "{second:#}");
}

#[test]
fn files_that_vanish_while_they_are_read_are_no_failure() {
    let (riddle, files) = (Riddle::new(), folder());
    let at = files.path();
    notes(at, 300);
    let args = ["index".to_owned(), at.display().to_string()];
    let mut run = riddle.start(&args);
    let catalog = riddle.home().join("catalog.sqlite");
    run.until("the run has begun", || catalog.exists());
    for n in (1..300).step_by(2) {
        let (place, thing) = (n % 4, n % 5);
        let place = ["harbor", "garden", "library", "station"][place];
        let thing = ["boat", "bridge", "letter", "clock", "lantern"][thing];
        let extension = if n % 3 == 0 { "txt" } else { "md" };
        fs::remove_file(at.join(format!("{place}/{thing}/note-{n:03}.{extension}")))
            .expect("removed");
    }
    let outcome = run.wait();
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    let report = riddle.json(&["index"]);
    assert_eq!(report["states"], serde_json::json!({"indexed": 150}), "{report:#}");
    assert_eq!(riddle.find(&token(151)), [""; 0]);
    assert_eq!(riddle.find(&token(150)), ["note-150.txt"]);
}

/// The program as root without root's right to read everything: file modes hold for it.
#[cfg(unix)]
fn without_rights(riddle: &Riddle, args: &[&str]) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-all", "--inh-caps=-all"]).arg(program()).args(args);
    riddle.environment(&mut command);
    command
}

#[cfg(unix)]
#[test]
fn an_unreadable_folder_is_named_and_the_rest_is_indexed() {
    use std::os::unix::fs::PermissionsExt as _;

    let (riddle, files) = (Riddle::new(), folder());
    let at = files.path();
    notes(at, 4);
    write(at, "locked/secret.md", "The safe is behind the painting.");
    write(at, "private.md", "The key is under the mat.");
    let mode = |path: &Path, mode: u32| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("mode set");
    };
    let dropped = is_root();
    if dropped && !runs(&mut without_rights(&riddle, &["--version"])) {
        return skipped("running as root, and its rights can not be dropped");
    }
    let run = |args: &[&str]| {
        if dropped {
            Running::start(without_rights(&riddle, args)).wait()
        } else {
            riddle.run(args)
        }
    };
    mode(&at.join("locked"), 0);
    mode(&at.join("private.md"), 0);
    let here = at.to_string_lossy().into_owned();
    let report = run(&["index", &here, "--json"]).json();
    assert_eq!(report["states"]["indexed"], 4, "{report:#}");
    assert_eq!(report["states"]["failed"], 1, "{report:#}");
    let said = format!("{}{}", report["unreachable"], report["notices"]);
    assert!(said.contains("locked"), "the folder is named: {report:#}");
    // Readable again: found, without being told to look.
    mode(&at.join("locked"), 0o755);
    mode(&at.join("private.md"), 0o644);
    let report = run(&["index", "--retry-failed", "--json"]).json();
    assert_eq!(report["states"], serde_json::json!({"indexed": 6}), "{report:#}");
}

#[test]
fn a_second_process_is_told_who_holds_the_home() {
    let (riddle, files) = (Riddle::new(), folder());
    notes(files.path(), 3);
    riddle.index(files.path());
    let mut watcher = riddle.start(&["index", "--watch"]);
    let holder = watcher.pid().to_string();
    let lock = riddle.home().join("lock");
    watcher.until("it holds the lock", || {
        fs::read_to_string(&lock).is_ok_and(|it| it.trim() == holder)
    });
    for args in [&["index"][..], &["models", "use", "none"]] {
        let line = riddle.run(args).failed(1);
        assert!(line.contains("another process of Riddle") && line.contains(&holder), "{line}");
    }
    // Reading needs no lock.
    assert_eq!(riddle.find(&token(2)), ["note-002.md"]);
    watcher.signal("KILL");
    watcher.wait();
    riddle.run(&["index"]).ok();
}

/// A home on a disk of its own that is too small.
#[cfg(target_os = "linux")]
struct SmallDisk<'a>(&'a Path);

#[cfg(target_os = "linux")]
impl<'a> SmallDisk<'a> {
    fn mount(at: &'a Path, size: &str) -> Option<SmallDisk<'a>> {
        let option = format!("size={size}");
        runs(Command::new("mount").args(["-t", "tmpfs", "-o", &option, "riddle-test"]).arg(at))
            .then_some(SmallDisk(at))
    }

    fn grow(&self, size: &str) {
        let option = format!("remount,size={size}");
        assert!(runs(Command::new("mount").args(["-o", &option]).arg(self.0)));
    }
}

#[cfg(target_os = "linux")]
impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        runs(Command::new("umount").arg(self.0));
    }
}

const FULL_QUERIES: [&str; 3] = ["zorfax", "zorkofabax", "bridge"];

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_loses_nothing() {
    let (riddle, files) = (Riddle::new(), folder());
    notes(files.path(), 200);
    let Some(disk) = SmallDisk::mount(riddle.home(), "420k") else {
        return skipped("no disk can be mounted here: the file size limit is tested instead");
    };
    let here = files.path().to_string_lossy().into_owned();
    let line = riddle.run(&["index", &here]).failed(1);
    assert!(line.contains("disk is full") || line.contains("No space left"), "{line}");
    disk.grow("100m");
    riddle.index(files.path());
    let roomy = Riddle::new();
    roomy.index(files.path());
    assert_eq!(snapshot(&riddle, &FULL_QUERIES), snapshot(&roomy, &FULL_QUERIES));
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_size_limit_loses_nothing() {
    let (riddle, files) = (Riddle::new(), folder());
    notes(files.path(), 200);
    // XFSZ ignored, writing fails with an error instead of a signal, as on a full disk.
    let mut command = Command::new("bash");
    command.args(["-c", "trap '' XFSZ; ulimit -f 150; exec \"$0\" index \"$1\""]);
    command.arg(program()).arg(files.path());
    riddle.environment(&mut command);
    Running::start(command).wait().failed(1);
    riddle.index(files.path());
    let roomy = Riddle::new();
    roomy.index(files.path());
    assert_eq!(snapshot(&riddle, &FULL_QUERIES), snapshot(&roomy, &FULL_QUERIES));
}

#[test]
fn a_broken_home_is_told_and_derived_indexes_are_made_anew() {
    let (riddle, files) = (Riddle::new(), folder());
    notes(files.path(), 20);
    riddle.index(files.path());
    let before = snapshot(&riddle, &FULL_QUERIES);
    // The search indexes are derived: without them, or with rubbish instead, nothing is lost.
    fs::remove_dir_all(riddle.home().join("keyword")).expect("removed");
    riddle.run(&["index"]).ok();
    assert_eq!(snapshot(&riddle, &FULL_QUERIES), before);
    for entry in fs::read_dir(riddle.home().join("keyword")).expect("there again").flatten() {
        if entry.path().is_file() {
            fs::write(entry.path(), b"rubbish").expect("written");
        }
    }
    riddle.run(&["index"]).ok();
    assert_eq!(snapshot(&riddle, &FULL_QUERIES), before);

    fs::write(riddle.home().join("catalog.sqlite"), vec![b'x'; 8192]).expect("written");
    for args in [&["index"][..], &["search", "boat"], &["status"], &["status", "--check"]] {
        let line = riddle.run(args).failed(1);
        assert!(line.contains("catalog.sqlite"), "{line}");
    }
}

#[test]
fn a_home_that_can_not_be_one_is_told() {
    let files = folder();
    notes(files.path(), 1);
    write(files.path(), "a-file", "not a folder");
    let home = files.path().join("a-file");
    let riddle = Riddle::new();
    for args in [&["index", "."][..], &["search", "x"], &["status"]] {
        let mut command = riddle.command(args);
        command.env("RIDDLE_HOME", &home);
        let line = Running::start(command).wait().failed(1);
        assert!(line.contains("a-file"), "{line}");
    }
}

#[test]
fn a_corrupt_embedder_is_refused_and_the_old_state_stays() {
    let (riddle, files, models) = (Riddle::new(), folder(), folder());
    notes(files.path(), 5);
    riddle.index(files.path());
    let before = snapshot(&riddle, &["bridge"]);
    let broken = models.path().join("broken-embedder");
    fs::create_dir(&broken).expect("made");
    for entry in fs::read_dir(tiny_model("tiny-bert-encoder")).expect("the model").flatten() {
        fs::copy(entry.path(), broken.join(entry.file_name())).expect("copied");
    }
    let weights = broken.join("model.safetensors");
    let bytes = fs::read(&weights).expect("weights");
    fs::write(&weights, &bytes[..bytes.len() / 3]).expect("written");
    let model = broken.to_string_lossy().into_owned();
    let line = riddle.run(&["index", "--embedder", &model]).failed(1);
    assert!(line.contains("broken-embedder"), "{line}");
    riddle.run(&["index"]).ok();
    assert_eq!(snapshot(&riddle, &["bridge"]), before);
}
