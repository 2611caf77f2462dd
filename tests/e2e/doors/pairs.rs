//! Ten thousand pairs of a reader and a file, at home and in a shared library: what a program is given is what the
//! system lets its user read. Rights are drawn: owners, groups, modes and access lists, of files and of their folders.

use std::{
    collections::BTreeSet,
    io::Write as _,
    os::unix::{fs::chown, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use riddle_tests::{Riddle, milvus::Server, tiny_model, write};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    Served,
    rights::{in_library, mode, names, post, search, serving_library, status},
};

const FILES: usize = 400;
const FOLDERS: usize = 20;

/// Numbers of users and groups that nobody has: readers are all pairs of these.
const FIRST: u32 = 4_000_000;
const NUMBERS: u32 = 5;

/// Every file says one of them, so that a search for each finds all files.
const WORDS: [&str; 8] = [
    "alabaster",
    "basilisk",
    "calliope",
    "dirigible",
    "ephemera",
    "filigree",
    "gossamer",
    "halcyon",
];

/// The same numbers every time (splitmix64).
fn drawn(seed: u64) -> impl Iterator<Item = u64> {
    (1_u64..).map(move |it| {
        let mut z = seed.wrapping_add(it.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}

/// A text that is like no other: files of one text are shown once.
fn text(place: usize) -> String {
    let words = drawn(place as u64).take(8).map(|it| format!("w{:05}", it % 100_000));
    format!("{} {}\n", WORDS[place % WORDS.len()], words.collect::<Vec<_>>().join(" "))
}

/// The bytes of an access list: one user and one group more, below a mask.
fn list(random: u64, bits: u32) -> String {
    let part = |shift: u32, most: u64| u32::try_from((random >> shift) % most).expect("small");
    let id = |shift: u32| FIRST + part(shift, u64::from(NUMBERS));
    // With no mask at all Linux looks at the mode alone, where the standard says no: we say no.
    let mask = part(20, 7) + 1;
    let none = u32::MAX;
    let entries = [
        (1_u16, bits >> 6 & 7, none),
        (2, part(27, 8), id(24)),
        (4, bits >> 3 & 7, none),
        (8, part(34, 8), id(31)),
        (16, mask, none),
        (32, bits & 7, none),
    ];
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (kind, rights, id) in entries {
        bytes.extend(kind.to_le_bytes());
        bytes.extend(u16::try_from(rights).expect("three bits").to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes.iter().map(|it| format!("{it:02x}")).collect()
}

/// Files and folders with rights that are drawn. None where only the superuser could do that.
fn make(root: &Path) -> Option<Vec<PathBuf>> {
    let files: Vec<PathBuf> =
        (0..FILES).map(|it| root.join(format!("{}/{it}.md", it % FOLDERS))).collect();
    for (place, file) in files.iter().enumerate() {
        let folder = file.parent().expect("a folder");
        write(folder, &format!("{place}.md"), text(place));
    }
    mode(root, 0o755);
    chown(root, Some(FIRST), Some(FIRST)).ok()?;
    let folders = (0..FOLDERS).map(|it| root.join(it.to_string()));
    let mut lists = String::new();
    for (path, random) in files.iter().cloned().chain(folders).zip(drawn(7)) {
        let id = |shift: u32| {
            FIRST + u32::try_from((random >> shift) % u64::from(NUMBERS)).expect("small")
        };
        // Folders that most may pass: what is in them is then a matter of the files.
        let wide = if path.is_dir() { 0o711 } else { 0 };
        let bits = u32::try_from((random >> 6) & 0o777).expect("nine bits") | wide;
        chown(&path, Some(id(0)), Some(id(3))).expect("given away");
        mode(&path, bits);
        if (random >> 40) & 1 == 1 {
            lists += &format!("{}\t{}\n", path.display(), list(random, bits));
        }
    }
    let script = "import os, sys\nfor line in sys.stdin:\n    path, value = line.split('\\t')\n    \
                  os.setxattr(path, 'system.posix_acl_access', bytes.fromhex(value))";
    let mut command = Command::new("python3");
    command.args(["-c", script]).stdin(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("python3");
    child.stdin.take().expect("a pipe").write_all(lists.as_bytes()).expect("told");
    if !child.wait().expect("ends").success() {
        riddle_tests::skipped("the file system keeps no access lists; modes alone were tried");
    }
    Some(files)
}

/// Places of the files that a process of that user can read, as the system says.
fn readable_by(user: u32, group: u32, files: &[PathBuf]) -> BTreeSet<String> {
    let script = "for file in \"$@\"; do test -r \"$file\" && echo \"$file\"; done; true";
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).args(files).uid(user).gid(group);
    let said = command.stdin(Stdio::null()).output().expect("sh starts");
    let text = String::from_utf8(said.stdout).expect("text");
    text.lines().map(|it| named(Path::new(it))).collect()
}

/// The name of a file.
fn named(file: &Path) -> String {
    file.file_name().expect("a name").to_string_lossy().into_owned()
}

struct Reader {
    token: String,
    who: String,
    sees: BTreeSet<String>,
}

/// All pairs of a user and a group, and what the system lets each read.
fn readers(riddle: &Riddle, files: &[PathBuf]) -> Vec<Reader> {
    let all = (0..NUMBERS).flat_map(|user| (0..NUMBERS).map(move |group| (user, group)));
    let add = |(user, group): (u32, u32)| {
        let (user, group) = (FIRST + user, FIRST + group);
        let who = format!("{user}-{group}");
        let (by_user, by_group) = (format!("#{user}"), format!("#{group}"));
        let args = ["clients", "add", &who, "--user", &by_user, "--group", &by_group];
        let token = riddle.json(&args)["token"].as_str().expect("a token").to_owned();
        Reader { token, who, sees: readable_by(user, group, files) }
    };
    let readers: Vec<Reader> = all.map(add).collect();
    let pairs: usize = readers.iter().map(|it| it.sees.len()).sum();
    assert_eq!(readers.len() * files.len(), 10_000);
    assert!((2_000..8_000).contains(&pairs), "{pairs} of 10 000 may read");
    readers
}

/// What a program finds of the files by their words.
fn found(served: &Served, token: &str, ask: impl Fn(&str) -> Value) -> BTreeSet<String> {
    let one = |word: &&str| {
        let found = post(served, token, "/api/search", &ask(word)).json(200);
        names(&found, "").into_iter().filter(|it| !it.starts_with("notes/"))
    };
    WORDS.iter().flat_map(one).map(|it| named(Path::new(&it))).collect()
}

#[test]
fn ten_thousand_pairs_of_a_reader_and_a_file_at_home() {
    let served = Served::start(&[]);
    let root = served.files.path().join("team");
    let Some(files) = make(&root) else {
        return riddle_tests::skipped("only the superuser can try what other users may read");
    };
    mode(served.files.path(), 0o755);
    let notes = served.files.path().join("notes");
    mode(&notes, 0o700);
    served.riddle.index(&root);
    let readers = readers(&served.riddle, &files);
    // What is indexed while it serves is found soon; the person sees all.
    let begun = Instant::now();
    while found(&served, &served.token, search).len() < FILES {
        assert!(begun.elapsed() < Duration::from_secs(60), "never found");
        thread::sleep(Duration::from_millis(50));
    }
    let ids = numbers(&served);
    for reader in &readers {
        let sees = found(&served, &reader.token, search);
        assert_eq!(sees, reader.sees, "{}", reader.who);
        let status = status(&served, &reader.token);
        let counted = status["files"]["indexed"].as_u64().unwrap_or(0);
        assert_eq!((counted, &status["passages"]), (sees.len() as u64, &json!(sees.len())));
        for (file, id) in &ids {
            let read = post(&served, &reader.token, "/api/read", &json!({"id": id}));
            let wanted = if sees.contains(file) { 200 } else { 404 };
            assert!(read.is(wanted), "{file} {}: {read:?}", reader.who);
        }
    }
}

/// Numbers of the files' passages.
fn numbers(served: &Served) -> Vec<(String, u64)> {
    let of_word = |word: &&str| {
        let found = served.post("/api/search", &search(word)).json(200);
        let passages = found["passages"].as_array().expect("passages").clone();
        passages.into_iter().filter_map(|it| {
            let file = it["file"].as_str()?.strip_prefix("team/")?;
            Some((named(Path::new(file)), it["id"].as_u64()?))
        })
    };
    WORDS.iter().flat_map(of_word).collect()
}

#[test]
fn ten_thousand_pairs_of_a_reader_and_a_file_in_a_shared_library() {
    let Some(server) = Server::start() else { return };
    let folder = TempDir::new().expect("a folder");
    mode(folder.path(), 0o755);
    let root = folder.path().join("team");
    let Some(files) = make(&root) else {
        return riddle_tests::skipped("only the superuser can try what other users may read");
    };
    let writer = Riddle::new();
    let model = tiny_model("tiny-bert-encoder").display().to_string();
    writer.run(&["index", &root.display().to_string(), "--embedder", &model]).ok();
    writer.run(&["library", "add", "team", &server.address("team")]).ok();
    assert_eq!(writer.json(&["library", "push", "team"])["written"], json!(FILES));
    let served = serving_library(&server);
    for reader in readers(&served.riddle, &files) {
        let sees = found(&served, &reader.token, |word| in_library(word, "team"));
        assert_eq!(sees, reader.sees, "{}", reader.who);
    }
}
