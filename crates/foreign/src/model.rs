//! Where a model's files are: a folder, a name in the store, or the library itself, which unpacks its own once.

use std::{
    env, fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use crate::{Error, Options, Result};

/// Name of the reranker that comes with Riddle.
pub(crate) const BUNDLED: &str = "riddle-reranker";

/// Its files.
#[cfg(feature = "bundled")]
static FILES: &[(&str, &[u8])] = {
    macro_rules! file {
        ($path:literal) => {
            ($path, include_bytes!(concat!("../../../assets/models/riddle-reranker/", $path)))
        };
    }
    &[
        file!("calibration.json"),
        file!("config.json"),
        file!("model.riddle"),
        file!("tokenizer.json"),
        file!("tokenizer_config.json"),
    ]
};

/// A library that was built without it.
#[cfg(not(feature = "bundled"))]
static FILES: &[(&str, &[u8])] = &[];

/// The folder of the model that is asked for.
pub(crate) fn folder(options: &Options) -> Result<PathBuf> {
    let Some(name) = options.model.as_deref() else { return bundled(options) };
    let given = Path::new(name);
    if is_model(given) {
        return Ok(given.to_path_buf());
    }
    if given.is_dir() || given.is_absolute() || name.starts_with('.') {
        return Err(Error::NoModelAt { path: given.to_path_buf() });
    }
    let store = store(options);
    // A name is one folder of the store, and never a way out of it.
    let plain = !name.is_empty() && !name.contains(['/', '\\', '\0']);
    if let Some(found) = store.as_ref().filter(|_| plain).map(|it| it.join(name))
        && is_model(&found)
    {
        return Ok(found);
    }
    if name == BUNDLED {
        return bundled(options);
    }
    Err(Error::NoModel { name: name.to_owned(), dir: store.unwrap_or_else(|| "models".into()) })
}

fn is_model(dir: &Path) -> bool {
    dir.join("config.json").is_file()
}

/// Riddle's models of this user.
fn store(options: &Options) -> Option<PathBuf> {
    if let Some(given) = &options.models_dir {
        return Some(given.clone());
    }
    if cfg!(windows) {
        return Some(variable("LOCALAPPDATA")?.join("Riddle/models"));
    }
    if cfg!(target_os = "macos") {
        return Some(variable("HOME")?.join("Library/Application Support/Riddle/models"));
    }
    // The XDG specification says to ignore a relative one.
    let data = variable("XDG_DATA_HOME").filter(|it| it.is_absolute());
    let data = data.or_else(|| Some(variable("HOME")?.join(".local/share")))?;
    Some(data.join("riddle/models"))
}

/// Folders in which the library may unpack its model, the best first.
fn caches(options: &Options) -> Vec<PathBuf> {
    if let Some(given) = &options.cache_dir {
        return vec![given.clone()];
    }
    let own = if cfg!(windows) {
        variable("LOCALAPPDATA").map(|it| it.join("Riddle/cache"))
    } else if cfg!(target_os = "macos") {
        variable("HOME").map(|it| it.join("Library/Caches/Riddle"))
    } else {
        let cache = variable("XDG_CACHE_HOME").filter(|it| it.is_absolute());
        cache.or_else(|| Some(variable("HOME")?.join(".cache"))).map(|it| it.join("riddle"))
    };
    own.into_iter().collect()
}

fn variable(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from)
}

/// The folder of the model that is part of the library, made the first time.
fn bundled(options: &Options) -> Result<PathBuf> {
    if FILES.is_empty() {
        return Err(Error::BadOption(
            "this library was built without a model: give one's folder".to_owned(),
        ));
    }
    let name = format!("{BUNDLED}-{}", revision());
    let mut problem = None;
    for cache in caches(options) {
        let dir = cache.join(&name);
        if is_whole(&dir) {
            return Ok(dir);
        }
        match unpack(&cache, &dir) {
            Ok(()) => return Ok(dir),
            Err(source) => problem = Some(Error::Io { path: dir, source }),
        }
    }
    Err(problem.unwrap_or_else(|| {
        Error::BadOption(
            "there is no folder to unpack the model into: give one, or a model's folder".to_owned(),
        )
    }))
}

/// What tells its weights from those of another version: the fingerprint in its calibration.
fn revision() -> String {
    const KEY: &str = "\"fingerprint\":\"";
    let text = FILES.iter().find(|it| it.0 == "calibration.json").map_or(&[][..], |it| it.1);
    // It stands at the beginning; the rest is a megabyte.
    let head = String::from_utf8_lossy(&text[..text.len().min(1024)]);
    let rest = head.split_once(KEY).map_or("", |it| it.1);
    rest.chars().take_while(char::is_ascii_hexdigit).take(16).collect()
}

/// Whether every file is there in its length. What is in it is checked, layer by layer, when it is read.
fn is_whole(dir: &Path) -> bool {
    FILES.iter().all(|(name, content)| {
        fs::metadata(dir.join(name))
            .is_ok_and(|it| it.is_file() && it.len() == content.len() as u64)
    })
}

/// Writes beside and renames: whoever else opens it at this moment sees all of it or nothing.
fn unpack(cache: &Path, dir: &Path) -> std::io::Result<()> {
    /// So that threads of one process do not write into one folder.
    static NEXT: AtomicU64 = AtomicU64::new(0);
    fs::create_dir_all(cache)?;
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let beside = cache.join(format!(".{BUNDLED}-{}-{number}", std::process::id()));
    let written = fs::create_dir(&beside).and_then(|()| {
        FILES.iter().try_for_each(|(name, content)| fs::write(beside.join(name), content))
    });
    let placed = written.and_then(|()| {
        // Half of one, from a disk that was full.
        if dir.exists() && !is_whole(dir) {
            fs::remove_dir_all(dir)?;
        }
        fs::rename(&beside, dir)
    });
    if placed.is_err() {
        // What could not be put in place is of no use.
        let _ = fs::remove_dir_all(&beside);
        if is_whole(dir) {
            return Ok(());
        }
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bundled_model_is_unpacked_once_and_mended() {
        let cache = tempfile::tempdir().expect("a folder");
        let options = Options { cache_dir: Some(cache.path().to_path_buf()), ..Options::default() };
        let dir = folder(&options).expect("unpacked");
        assert!(dir.file_name().is_some_and(|it| it.len() == BUNDLED.len() + 17), "{dir:?}");
        let marked = dir.join("mark");
        fs::write(&marked, "").expect("written");
        assert_eq!(folder(&options).expect("there"), dir);
        assert!(marked.exists(), "nothing is written twice");
        fs::write(dir.join("config.json"), "").expect("written");
        assert_eq!(folder(&options).expect("mended"), dir);
        assert!(!marked.exists() && is_whole(&dir));
        let left: Vec<_> = fs::read_dir(cache.path()).expect("a folder").collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    #[test]
    fn two_at_once_get_one_folder() {
        let cache = tempfile::tempdir().expect("a folder");
        let options = Options { cache_dir: Some(cache.path().to_path_buf()), ..Options::default() };
        let dirs: Vec<PathBuf> = std::thread::scope(|scope| {
            let all: Vec<_> = (0..3).map(|_| scope.spawn(|| folder(&options))).collect();
            all.into_iter().map(|it| it.join().expect("no panic").expect("a folder")).collect()
        });
        assert!(dirs.iter().all(|it| *it == dirs[0] && is_whole(it)));
    }

    #[test]
    fn names_stay_in_the_store() {
        let store = tempfile::tempdir().expect("a folder");
        let inside = store.path().join("models");
        for dir in [inside.join("mine"), store.path().join("outside")] {
            fs::create_dir_all(&dir).expect("made");
            fs::write(dir.join("config.json"), "{}").expect("written");
        }
        let find = |name: &str| {
            let model = Some(name.to_owned());
            folder(&Options { model, models_dir: Some(inside.clone()), ..Options::default() })
        };
        assert_eq!(find("mine").expect("there"), inside.join("mine"));
        assert!(matches!(find("../outside"), Err(Error::NoModelAt { .. })));
        for name in ["yours", "", "a/../../outside"] {
            let error = find(name).expect_err("nowhere");
            assert!(error.is_no_model() && error.to_string().contains("models"), "{error}");
        }
    }
}
