//! From a folder to the store: the way onto a computer without a network.

use std::{
    collections::HashSet,
    fs::{self, File},
    io::{self, Read as _},
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use crate::{
    Error, FileRecord, Format, InstalledModel, ModelStore, Result, digest,
    files::{self, Class},
    manifest::Manifest,
    name::{self, MANIFEST},
    parts::Part,
    progress::{OnProgress, Stage, Watch},
};

/// A file of an imported folder that was not taken over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// Path in the folder.
    pub path: String,
    /// Why.
    pub why: &'static str,
}

/// What an import did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// The model.
    pub model: InstalledModel,
    /// Files that stayed behind.
    pub left_out: Vec<LeftOut>,
}

impl ModelStore {
    /// Copies the model in `folder` into the store, under its own name or `name`. A GGUF file is a model by itself: it
    /// may be named instead of a folder, and then nothing else that lies beside it is taken but the other parts of the
    /// model, where it is one of several.
    ///
    /// Only safetensors, GGUF, ONNX, our own store and their configuration are taken; the rest is left out and named.
    /// Where the folder has a record of another store, every file must be as recorded.
    ///
    /// # Errors
    /// When the folder has no model, only weights that can run programs, a damaged file, or no usable name;
    /// when the disk is full; when another process changes the store.
    pub fn import(&self, folder: &Path, name: Option<&str>) -> Result<Imported> {
        self.import_watched(folder, name, &mut |_| ControlFlow::Continue(()))
    }

    /// [`ModelStore::import`] with progress, and a way to stop it.
    ///
    /// # Errors
    /// As there, and [`Error::Stopped`].
    pub fn import_watched(
        &self,
        folder: &Path,
        name: Option<&str>,
        on_progress: OnProgress<'_>,
    ) -> Result<Imported> {
        let mut watch = Watch::new(on_progress);
        watch.source(&folder.display().to_string())?;
        let Found { folder, taken, left_out, record, own_name } = Found::at(folder)?;
        let folder = folder.as_path();
        let name = name.map_or(own_name, str::to_owned);
        let store_folder = self.folder(&name)?;
        let (kind, format) = files::describe(folder, &name, &taken)?;

        let lock = self.lock()?;
        let staged = self.partial().join(&store_folder).join("import");
        files::remove_all(&staged)?;
        files::create_dir(&staged)?;
        let size = |it: &String| fs::metadata(folder.join(it)).map_or(0, |it| it.len());
        let total = taken.iter().map(size).sum();
        files::check_space(&staged, total)?;
        watch.total(total);
        let mut manifest =
            Manifest::new(&name, kind, format, format!("folder {}", folder.display()));
        manifest.license = license_in_readme(folder);
        if let Some(record) = &record {
            manifest.repository.clone_from(&record.repository);
            manifest.revision.clone_from(&record.revision);
            manifest.license.clone_from(&record.license);
            manifest.kind = record.kind;
        }
        let copied = taken
            .iter()
            .try_for_each(|path| {
                let file = copy(folder, &staged, path, record.as_ref(), &mut watch)?;
                manifest.files.push(file);
                Ok(())
            })
            .and_then(|()| self.install(&lock, &staged, &manifest));
        if copied.is_err() {
            // The source is still there: nothing is worth keeping.
            files::remove_all(&staged)?;
        }
        Ok(Imported { model: copied?, left_out })
    }
}

/// What there is to take.
struct Found {
    folder: PathBuf,
    taken: Vec<String>,
    left_out: Vec<LeftOut>,
    /// Of another store.
    record: Option<Manifest>,
    own_name: String,
}

impl Found {
    fn at(path: &Path) -> Result<Found> {
        let absolute = std::path::absolute(path).map_err(Error::io(path))?;
        let named = |it: Option<&std::ffi::OsStr>| {
            it.map(|it| it.to_string_lossy().into_owned()).unwrap_or_default()
        };
        if !path.is_file() {
            let (taken, left_out) = sort(path)?;
            check_parts(path, &taken)?;
            let record = Manifest::read(path)?;
            let own_name = match &record {
                Some(record) => record.name.clone(),
                None => named(absolute.file_name()),
            };
            return Ok(Found { folder: path.to_owned(), taken, left_out, record, own_name });
        }
        let file = named(absolute.file_name());
        if Class::of(&file) != Class::Weights(Format::Gguf) {
            let why = "a file alone is a model only if it is .gguf: name the folder".to_owned();
            return Err(Error::NotAModel { name: file, why });
        }
        if file.starts_with('.') {
            let why = "a file whose name begins with a dot is hidden: rename it".to_owned();
            return Err(Error::NotAModel { name: file, why });
        }
        let folder = absolute.parent().unwrap_or(&absolute).to_owned();
        let Some(part) = Part::of(&file) else {
            let own_name = plain_name(&named(absolute.file_stem()));
            let taken = vec![file];
            return Ok(Found { folder, taken, left_out: Vec::new(), record: None, own_name });
        };
        let own_name = plain_name(part.stem);
        let mut taken = Vec::new();
        for sibling in part.all() {
            if !folder.join(&sibling).is_file() {
                let why = format!("{sibling}, a part of it, does not lie beside it");
                return Err(Error::NotAModel { name: file.clone(), why });
            }
            taken.push(sibling);
        }
        Ok(Found { folder, taken, left_out: Vec::new(), record: None, own_name })
    }
}

/// Characters of a name that is made of a file's.
const LONGEST_NAME: usize = 80;

/// A name for the store of a download's, which has brackets and blanks: `Small 1B (Q4)` is `Small-1B-Q4`.
fn plain_name(stem: &str) -> String {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '.';
    let words = stem.split(|it| !is_plain(it)).map(|it| it.trim_matches('.'));
    let words: Vec<&str> = words.filter(|it| !it.is_empty()).collect();
    let mut name = words.join("-");
    while name.contains("..") {
        name = name.replace("..", ".");
    }
    name.truncate(LONGEST_NAME);
    let name = name.trim_matches(['-', '_', '.']);
    if name.is_empty() { "model".to_owned() } else { name.to_owned() }
}

/// What is taken of a folder, and what is left out.
fn sort(folder: &Path) -> Result<(Vec<String>, Vec<LeftOut>)> {
    let mut taken = Vec::new();
    let mut left_out = Vec::new();
    let mut refused = Vec::new();
    for path in files::walk(folder)? {
        let class = Class::of(&path);
        let why = if path == MANIFEST {
            continue;
        } else if class == Class::Executable {
            refused.push(path.clone());
            Some("it can run programs when it is loaded")
        } else if !class.is_taken() {
            Some("it is not needed")
        } else {
            name::file_fault(&path)
        };
        match why {
            Some(why) => left_out.push(LeftOut { path, why }),
            None => taken.push(path),
        }
    }
    if !refused.is_empty() && !taken.iter().any(|it| matches!(Class::of(it), Class::Weights(_))) {
        let name = folder.display().to_string();
        return Err(Error::Unsafe { name, files: refused.join(", ") });
    }
    Ok((taken, left_out))
}

/// Refuses a model of which a part is missing: copied, it would open no better.
fn check_parts(folder: &Path, taken: &[String]) -> Result<()> {
    let there: HashSet<&str> = taken.iter().map(String::as_str).collect();
    let parts = taken.iter().filter(|it| matches!(Class::of(it), Class::Weights(_)));
    let missing = parts
        .filter_map(|it| Part::of(it))
        .find_map(|it| it.all().find(|name| !there.contains(name.as_str())));
    missing.map_or(Ok(()), |missing| {
        let why = format!("it lacks {missing}, a part of the model");
        Err(Error::NotAModel { name: folder.display().to_string(), why })
    })
}

/// Copies one file and checks the copy.
fn copy(
    folder: &Path,
    staged: &Path,
    path: &str,
    record: Option<&Manifest>,
    watch: &mut Watch<'_>,
) -> Result<FileRecord> {
    watch.file(Stage::Fetching, path)?;
    let (from, to) = (folder.join(path), staged.join(path));
    if let Some(parent) = to.parent() {
        files::create_dir(parent)?;
    }
    // A new file and not `fs::copy`: that would also copy permissions, and follow to devices.
    let mut source = File::open(&from).map_err(Error::io(&from))?;
    let mut target = File::create(&to).map_err(Error::io(&to))?;
    let mut done = 0;
    loop {
        // Between two blocks the caller may stop a copy of many gigabytes.
        const BLOCK: u64 = 8 << 20;
        match io::copy(&mut (&mut source).take(BLOCK), &mut target).map_err(Error::io(&to))? {
            0 => break,
            copied => done += copied,
        }
        watch.at(done)?;
    }
    target.sync_all().map_err(Error::io(&to))?;
    watch.tell(Stage::Checking)?;
    files::check_content(&to, Class::of(path)).map_err(|error| match error {
        // The copy will be gone: the file to look at is the original.
        Error::Content { why, .. } => Error::Content { path: from.clone(), why },
        error => error,
    })?;
    let digests = digest::of_file(&to).map_err(Error::io(&to))?;
    let recorded = record.and_then(|it| it.files.iter().find(|it| it.path == path));
    if let Some(recorded) = recorded.filter(|it| it.sha256 != digests.sha256) {
        return Err(Error::Checksum {
            file: path.to_owned(),
            url: folder.display().to_string(),
            expected: recorded.sha256.clone(),
            found: digests.sha256,
        });
    }
    watch.file_done(digests.size);
    Ok(FileRecord { path: path.to_owned(), size: digests.size, sha256: digests.sha256 })
}

/// `license:` in the header of a model card.
fn license_in_readme(folder: &Path) -> Option<String> {
    // The header is at the beginning; cards can be long.
    const HEADER: u64 = 16 << 10;
    let path = folder.join("README.md");
    let mut text = Vec::new();
    fs::metadata(&path).ok().filter(|it| it.is_file())?;
    File::open(path).ok()?.take(HEADER).read_to_end(&mut text).ok()?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let header = text.strip_prefix("---")?.split("\n---").next()?;
    let license = header.lines().find_map(|it| it.strip_prefix("license:"))?.trim();
    let license = license.trim_matches(['"', '\'']);
    (!license.is_empty() && license.len() < 64).then(|| license.to_owned())
}
