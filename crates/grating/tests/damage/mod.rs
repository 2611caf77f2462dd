//! Everything that can be wrong with a file, done to every file of a model's folder in turn: the folder is refused in
//! one line that names the file, or the file was not needed and the result is the very same. There is no third way: a
//! damaged file that is passed over would give numbers that look right.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// What a file is replaced by; the second part is what it was.
type Damage = (&'static str, fn(&Path, &[u8]));

fn put(path: &Path, bytes: impl AsRef<[u8]>) {
    fs::write(path, bytes).expect("written");
}

const DAMAGES: [Damage; 13] = [
    ("cut in half", |path, bytes| put(path, &bytes[..bytes.len() / 2])),
    ("without its last two bytes", |path, bytes| put(path, &bytes[..bytes.len() - 2])),
    ("empty", |path, _| put(path, [])),
    ("zeros", |path, bytes| put(path, vec![0; bytes.len()])),
    ("no UTF-8", |path, bytes| put(path, vec![0xff; bytes.len()])),
    ("null", |path, _| put(path, "null")),
    ("another list", |path, _| put(path, "[[], 7]")),
    ("nested without end", |path, _| put(path, "[".repeat(200_000))),
    ("a terabyte", |path, _| hole(path)),
    ("a folder", |path, _| fs::create_dir(path).expect("a folder")),
    ("a link to nothing", |path, _| link("nothing-of-this-name", path)),
    ("a link to itself", |path, _| link(path.file_name().expect("a name"), path)),
    ("a pipe that nobody writes to", |path, _| pipe(path)),
];

/// It takes no room on the disk.
#[cfg(unix)]
fn hole(path: &Path) {
    fs::File::create(path).and_then(|it| it.set_len(1 << 40)).expect("a hole");
}

#[cfg(not(unix))]
fn hole(path: &Path) {
    put(path, []);
}

#[cfg(unix)]
fn link(to: impl AsRef<Path>, path: &Path) {
    std::os::unix::fs::symlink(to, path).expect("linked");
}

#[cfg(not(unix))]
fn link(_: impl AsRef<Path>, path: &Path) {
    put(path, []);
}

#[cfg(unix)]
fn pipe(path: &Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status().expect("runs");
    assert!(made.success());
}

#[cfg(not(unix))]
fn pipe(path: &Path) {
    put(path, []);
}

/// A committed model.
fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let from = entry.expect("an entry").path();
        let to = to.join(from.file_name().expect("a name"));
        match from.is_dir() {
            true => copy(&from, &to),
            false => drop(fs::copy(&from, &to).expect("copied")),
        }
    }
}

/// Files below a folder, but for what they are compared with.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        match name.as_str() {
            _ if path.is_dir() => all.extend(files(&path)),
            "expected.json" | "states.json" => {}
            _ => all.push(path),
        }
    }
    all.sort();
    all
}

/// What a folder gives, or the error.
pub(crate) type Given = Result<Vec<f32>, String>;

/// Damages the files of the committed model `name` one after the other, and asks `of` what the folder gives then.
pub(crate) fn each_file_of(name: &str, of: &dyn Fn(&Path) -> Given) {
    let dir = tempfile::tempdir().expect("temp dir");
    copy(&golden(name), dir.path());
    let whole = of(dir.path()).expect("undamaged");
    let mut wrong = Vec::new();
    let mut refused = 0;
    for path in files(dir.path()) {
        let bytes = fs::read(&path).expect("read");
        let shown = path.strip_prefix(dir.path()).expect("below").display().to_string();
        let file = path.file_name().expect("a name").to_string_lossy().into_owned();
        for (what, damage) in DAMAGES {
            fs::remove_file(&path).expect("removed");
            damage(&path, &bytes);
            match of(dir.path()) {
                Ok(other) if other == whole => {}
                Ok(_) => wrong.push(format!("{shown}, {what}: other numbers, and no error")),
                Err(error) if error.contains('\n') || error.len() > 500 => {
                    wrong.push(format!("{shown}, {what}: not one line: {error:.600}"));
                }
                Err(error) if !error.contains(&file) => {
                    wrong.push(format!("{shown}, {what}: the file is not named: {error}"));
                }
                Err(_) => refused += 1,
            }
            let removed = if path.is_dir() && !path.is_symlink() {
                fs::remove_dir(&path)
            } else {
                fs::remove_file(&path)
            };
            removed.expect("removed");
            put(&path, &bytes);
        }
    }
    assert!(wrong.is_empty(), "{name}:\n{}", wrong.join("\n"));
    // At the least configuration, weights and tokenizer are needed.
    assert!(refused >= 3 * DAMAGES.len(), "{name}: {refused} were refused");
    assert_eq!(of(dir.path()), Ok(whole), "{name}: all are back");
}

/// Numbers that no size is, in place of every number of `config.json`: an error in one line or a result, and neither a
/// panic nor a reservation of what the file says.
pub(crate) fn each_number_of(name: &str, of: &dyn Fn(&Path) -> Given) {
    let dir = tempfile::tempdir().expect("temp dir");
    copy(&golden(name), dir.path());
    let path = dir.path().join("config.json");
    let config: serde_json::Map<String, serde_json::Value> =
        serde_json::from_slice(&fs::read(&path).expect("read")).expect("json");
    for key in config.iter().filter(|it| it.1.is_number()).map(|it| it.0) {
        for value in
            ["0", "1", "-1", "3", "1e300", "9007199254740993", "18446744073709551615", "\"7\""]
        {
            let mut lying = config.clone();
            lying[key] = serde_json::from_str(value).expect("json");
            put(&path, serde_json::Value::Object(lying).to_string());
            match of(dir.path()) {
                Ok(numbers) => assert!(!numbers.is_empty(), "{name}: {key} {value}"),
                Err(error) => {
                    let is_clear = !error.contains('\n') && !error.contains("panicked");
                    assert!(is_clear, "{name}: {key} {value}: {error}");
                }
            }
        }
    }
}

/// Many small changes of all that is JSON: bytes that are lost, doubled or others, and values that stand elsewhere. As
/// the fuzzer does with more time: an error in one line or a result, and no panic.
pub(crate) fn small_changes_of(name: &str, of: &dyn Fn(&Path) -> Given) {
    let dir = tempfile::tempdir().expect("temp dir");
    copy(&golden(name), dir.path());
    let is_small = |it: &PathBuf| {
        let is_json = it.extension().is_some_and(|it| it == "json");
        is_json && !it.ends_with("tokenizer.json")
    };
    let files: Vec<PathBuf> = files(dir.path()).into_iter().filter(is_small).collect();
    let values =
        ["0", "7", "\"\"", "null", "[]", "{}", "-3", "true", "\"../x\"", "1e39", "\"a.B\""];
    let mut random = fastrand::Rng::with_seed(3);
    for path in &files {
        let bytes = fs::read(path).expect("read");
        for _ in 0..CHANGES {
            let mut changed = bytes.clone();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(..changed.len());
                match random.usize(..5) {
                    0 => drop(changed.remove(at)),
                    1 => changed.insert(at, changed[at]),
                    2 => changed[at] = random.u8(..),
                    // A value becomes another one.
                    _ => replace_value(&mut changed, at, values[random.usize(..values.len())]),
                }
                if changed.is_empty() {
                    break;
                }
            }
            put(path, &changed);
            if let Err(error) = of(dir.path()) {
                let shown = String::from_utf8_lossy(&changed);
                let is_clear = !error.contains('\n') && !error.contains("panicked");
                assert!(is_clear, "{name}: {error}: {shown}");
            }
        }
        put(path, &bytes);
    }
}

/// Changes of each file.
const CHANGES: usize = 60;

/// What stands between the next colon and the next comma.
fn replace_value(bytes: &mut Vec<u8>, from: usize, value: &str) {
    let Some(colon) = bytes[from..].iter().position(|it| *it == b':') else { return };
    let start = from + colon + 1;
    let Some(end) = bytes[start..].iter().position(|it| b",}\n".contains(it)) else { return };
    bytes.splice(start..start + end, value.bytes());
}
