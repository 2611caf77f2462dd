//! The reconciling scan: every file below a root, with a verdict, nothing opened.

use std::{
    fs::Metadata,
    io::ErrorKind,
    ops::ControlFlow,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use ignore::{
    Match,
    gitignore::{Gitignore, GitignoreBuilder},
};
use riddle_types::{FileEntry, FileState, ScanVerdict};

use crate::{Error, Result, placeholder::is_placeholder};

/// Files above this size are not opened. 64 MiB holds any text that people write and most PDFs; a bigger
/// file would stall the queue for everyone behind it.
pub const DEFAULT_MAX_FILE_BYTES: u64 = 64 << 20;

/// Folders that hold what programs made and can make again: searching them buries what people wrote.
const BUILT_IN: [&str; 12] = [
    "node_modules",
    "target",
    "__pycache__",
    ".git",
    ".hg",
    ".svn",
    ".venv",
    "venv",
    ".tox",
    ".cache",
    ".Trash",
    "$RECYCLE.BIN",
];

/// The rule files, weakest first: a later one overrules an earlier one in the same folder.
const RULE_FILES: [&str; 3] = [".gitignore", ".ignore", ".riddleignore"];

/// What the scan looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScanOptions {
    /// Largest file that is to be read, in bytes.
    pub max_file_bytes: u64,
    /// Whether names that begin with a dot are looked at.
    pub hidden: bool,
    /// Whether rule files are obeyed.
    pub rules: bool,
    /// Further patterns to leave out, in the syntax of `.gitignore`.
    pub excluded: Vec<String>,
}

impl Default for ScanOptions {
    fn default() -> Self {
        ScanOptions {
            max_file_bytes: DEFAULT_MAX_FILE_BYTES,
            hidden: false,
            rules: true,
            excluded: Vec::new(),
        }
    }
}

/// What a scan came across besides the files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScanReport {
    /// Files handed over, those left out by a rule included.
    pub files: u64,
    /// Folders that could not be read, relative to the root, with the reason; what is below them is unknown.
    pub unreadable: Vec<(PathBuf, String)>,
    /// Folders that a rule leaves out, with the rule; what is below them was not looked at.
    pub excluded_folders: Vec<(PathBuf, String)>,
    /// Whether the walk came to its end.
    pub complete: bool,
}

/// Walks `root` and hands every file to `on_entry`, in the order of names; `Break` ends the walk.
///
/// Symbolic links are not followed: what they point to is found where it is, or lies outside the root.
///
/// # Errors
/// When the root is missing or can not be read. Trouble below it is in the report.
pub fn scan(
    root: &Path,
    options: &ScanOptions,
    on_entry: &mut dyn FnMut(FileEntry) -> ControlFlow<()>,
) -> Result<ScanReport> {
    match std::fs::symlink_metadata(root) {
        Ok(metadata) if metadata.is_dir() => {}
        Ok(_) => return Err(Error::RootMissing { path: root.to_path_buf() }),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(Error::RootMissing { path: root.to_path_buf() });
        }
        Err(source) => return Err(Error::Unreadable { path: root.to_path_buf(), source }),
    }
    // An unmounted disk leaves its empty mount point behind; an unreadable root says nothing at all.
    std::fs::read_dir(root)
        .map_err(|source| Error::Unreadable { path: root.to_path_buf(), source })?;
    let mut user = GitignoreBuilder::new(root);
    for pattern in &options.excluded {
        if let Err(error) = user.add_line(None, pattern) {
            tracing::warn!("the excluded pattern {pattern:?} is not understood: {error}");
        }
    }
    let mut walk = Walk {
        root,
        options,
        rules: vec![(
            "excluded patterns".to_owned(),
            user.build().unwrap_or_else(|_| Gitignore::empty()),
        )],
        report: ScanReport::default(),
        on_entry,
    };
    let flow = walk.folder(Path::new(""));
    let mut report = walk.report;
    report.complete = flow.is_continue();
    Ok(report)
}

struct Walk<'a> {
    root: &'a Path,
    options: &'a ScanOptions,
    /// Rules in force, outermost first, each with the name of its source.
    rules: Vec<(String, Gitignore)>,
    report: ScanReport,
    on_entry: &'a mut dyn FnMut(FileEntry) -> ControlFlow<()>,
}

impl Walk<'_> {
    fn folder(&mut self, relative: &Path) -> ControlFlow<()> {
        let absolute = self.root.join(relative);
        let names = std::fs::read_dir(&absolute).and_then(|entries| {
            entries.map(|it| it.map(|it| it.file_name())).collect::<std::io::Result<Vec<_>>>()
        });
        let mut names = match names {
            Ok(names) => names,
            Err(error) => {
                // Gone between listing and entering is as good as never there.
                if error.kind() != ErrorKind::NotFound {
                    self.report.unreadable.push((relative.to_path_buf(), error.to_string()));
                }
                return ControlFlow::Continue(());
            }
        };
        names.sort_unstable();
        let outer_rules = self.rules.len();
        self.read_rules(relative, &absolute);
        for name in names {
            let path = relative.join(&name);
            let Ok(metadata) = std::fs::symlink_metadata(self.root.join(&path)) else { continue };
            if metadata.is_symlink() {
                continue;
            }
            let rule = self.excluding_rule(&path, metadata.is_dir());
            let flow = match (metadata.is_dir(), rule) {
                (true, Some(rule)) => {
                    self.report.excluded_folders.push((path, rule));
                    ControlFlow::Continue(())
                }
                (true, None) => self.folder(&path),
                (false, rule) => self.file(path, &metadata, rule),
            };
            if flow.is_break() {
                return flow;
            }
        }
        self.rules.truncate(outer_rules);
        ControlFlow::Continue(())
    }

    fn file(
        &mut self,
        path: PathBuf,
        metadata: &Metadata,
        rule: Option<String>,
    ) -> ControlFlow<()> {
        let verdict = if let Some(rule) = rule {
            ScanVerdict::Skip(FileState::Excluded, rule)
        } else if !metadata.is_file() {
            // Opening a pipe waits for ever, a device may do anything.
            ScanVerdict::Skip(FileState::Unsupported, "not a regular file".to_owned())
        } else if is_placeholder(&path, metadata) {
            ScanVerdict::Skip(FileState::CloudOnly, "its bytes are in the cloud".to_owned())
        } else if metadata.len() > self.options.max_file_bytes {
            let limit = self.options.max_file_bytes >> 20;
            ScanVerdict::Skip(FileState::TooLarge, format!("larger than the limit of {limit} MiB"))
        } else {
            ScanVerdict::Read
        };
        self.report.files += 1;
        (self.on_entry)(FileEntry {
            relative_path: path,
            size: metadata.len(),
            modified_ns: modified_ns(metadata),
            volume_id: volume_id(metadata),
            verdict,
        })
    }

    fn read_rules(&mut self, relative: &Path, absolute: &Path) {
        if !self.options.rules {
            return;
        }
        for name in RULE_FILES {
            let file = absolute.join(name);
            if !file.is_file() {
                continue;
            }
            let mut builder = GitignoreBuilder::new(absolute);
            if let Some(error) = builder.add(&file) {
                tracing::warn!("{}: {error}", file.display());
            }
            match builder.build() {
                Ok(rules) => self.rules.push((relative.join(name).display().to_string(), rules)),
                Err(error) => tracing::warn!("{}: {error}", file.display()),
            }
        }
    }

    /// The rule that leaves `path` out, if one does; inner rules overrule outer ones, as in git.
    fn excluding_rule(&self, path: &Path, is_dir: bool) -> Option<String> {
        let absolute = self.root.join(path);
        for (source, rules) in self.rules.iter().rev() {
            match rules.matched(&absolute, is_dir) {
                Match::Ignore(glob) => {
                    return Some(format!("rule {:?} in {source}", glob.original()));
                }
                Match::Whitelist(_) => return None,
                Match::None => {}
            }
        }
        let name = path.file_name()?.to_string_lossy();
        if is_dir && BUILT_IN.contains(&&*name) {
            return Some(format!("built-in rule: folders named {name}"));
        }
        (!self.options.hidden && name.starts_with('.'))
            .then(|| "hidden: the name begins with a dot".to_owned())
    }
}

fn modified_ns(metadata: &Metadata) -> i64 {
    let Ok(time) = metadata.modified() else { return 0 };
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |it| -it),
    }
}

#[cfg(unix)]
fn volume_id(metadata: &Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    Some((metadata.dev(), metadata.ino()))
}

/// Windows tells the file index only of an open file; renames are then a removal and a new file.
#[cfg(not(unix))]
fn volume_id(_metadata: &Metadata) -> Option<(u64, u64)> {
    None
}
