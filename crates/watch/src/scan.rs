//! The reconciling scan: every file below a root, with a verdict, nothing opened.

use std::{
    collections::HashSet,
    fs::Metadata,
    io::ErrorKind,
    ops::ControlFlow,
    path::{Component, Path, PathBuf},
};

use ignore::{
    Match,
    gitignore::{Gitignore, GitignoreBuilder},
};
use riddle_types::{FileEntry, FileState, ScanVerdict};

use crate::{
    Error, Result,
    passed::Passed,
    placeholder::{is_placeholder, stands_for_icloud_file},
    spelling::spelled_below,
    stamp::Stamp,
};

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

/// Largest rule file that is obeyed, in bytes: hand-written ones have a few kilobytes, and each pattern
/// costs memory and time for every file.
const MAX_RULE_FILE_BYTES: u64 = 1 << 20;

/// Deepest folder that is entered. Nobody nests that deep; a program that went wrong does, and every level
/// takes stack.
const MAX_DEPTH: usize = 256;

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
    /// Whether symbolic links are followed that lead out of the root. What they lead to inside it is found
    /// where it is; every folder is entered once, so links in a circle come to an end.
    pub follow_links: bool,
    /// Number of the volume that the root was last seen on, where it is known. With it an empty root on
    /// another volume is recognized as the mount point of a disk that is not there.
    pub known_volume: Option<u64>,
}

impl Default for ScanOptions {
    fn default() -> Self {
        ScanOptions {
            max_file_bytes: DEFAULT_MAX_FILE_BYTES,
            hidden: false,
            rules: true,
            excluded: Vec::new(),
            follow_links: false,
            known_volume: None,
        }
    }
}

/// What a scan came across besides the files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScanReport {
    /// The parts of the root that were looked at, relative to it; an empty path is the whole root. A part
    /// without files holds none.
    pub parts: Vec<PathBuf>,
    /// Files handed over, those left out by a rule included.
    pub files: u64,
    /// Files and folders that could not be looked at, relative to the root, with the reason; what is there
    /// is unknown, and nothing below may be taken for gone.
    pub unreadable: Vec<(PathBuf, String)>,
    /// Folders that a rule leaves out, with the rule; what is below them was not looked at.
    pub excluded_folders: Vec<(PathBuf, String)>,
    /// Whether the walk came to its end.
    pub complete: bool,
}

/// Walks `root` and hands every file to `on_entry`, in the order of names; `Break` ends the walk.
///
/// Rule files above the root are not read: what a person adds is meant.
///
/// # Errors
/// [`Error::RootMissing`] when the root is not there or went away during the walk: nothing may be concluded
/// from what was handed over. [`Error::NotAFolder`], [`Error::Unreadable`]. Trouble below the root is in the
/// report.
pub fn scan(
    root: &Path,
    options: &ScanOptions,
    on_entry: &mut dyn FnMut(FileEntry) -> ControlFlow<()>,
) -> Result<ScanReport> {
    scan_parts(root, &[PathBuf::new()], options, on_entry)
}

/// Like [`scan`], for some files and folders of the root, relative to it, under the same rules: what to do
/// after events. A part that is gone gives no files. A part that is a rule file stands for its folder.
///
/// # Errors
/// As [`scan`].
pub fn scan_parts(
    root: &Path,
    parts: &[PathBuf],
    options: &ScanOptions,
    on_entry: &mut dyn FnMut(FileEntry) -> ControlFlow<()>,
) -> Result<ScanReport> {
    let before = root_metadata(root)?;
    std::fs::read_dir(root)
        .map_err(|source| Error::Unreadable { path: root.to_path_buf(), source })?;
    let mut walk = Walk {
        root,
        real_root: std::fs::canonicalize(root).unwrap_or_else(|_| root.to_path_buf()),
        options,
        rules: vec![(Passed::OwnPatterns.to_string(), user_rules(root, options))],
        report: ScanReport { parts: outermost(root, parts), ..ScanReport::default() },
        outside: false,
        entered: HashSet::new(),
        on_entry,
    };
    let mut flow = ControlFlow::Continue(());
    for part in walk.report.parts.clone() {
        flow = walk.part(&part);
        if flow.is_break() {
            break;
        }
    }
    let mut report = walk.report;
    report.complete = flow.is_continue();
    // A disk that was taken out while it was read looks like one whose folders were deleted.
    let after = root_metadata(root)?;
    let empty = report.files == 0
        && report.excluded_folders.is_empty()
        && std::fs::read_dir(root).is_ok_and(|mut it| it.next().is_none());
    let (before, after) = (Stamp::of(&before).volume_id, Stamp::of(&after).volume_id);
    let volume = after.map(|it| it.0);
    let unmounted = empty && options.known_volume.is_some() && volume != options.known_volume;
    if before != after || unmounted {
        return Err(Error::RootMissing { path: root.to_path_buf() });
    }
    Ok(report)
}

fn root_metadata(root: &Path) -> Result<Metadata> {
    match std::fs::metadata(root) {
        Ok(metadata) if metadata.is_dir() => Ok(metadata),
        Ok(_) => Err(Error::NotAFolder { path: root.to_path_buf() }),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(Error::RootMissing { path: root.to_path_buf() })
        }
        Err(source) => Err(Error::Unreadable { path: root.to_path_buf(), source }),
    }
}

fn user_rules(root: &Path, options: &ScanOptions) -> Gitignore {
    let mut rules = GitignoreBuilder::new(root);
    for pattern in &options.excluded {
        if let Err(error) = rules.add_line(None, pattern) {
            tracing::warn!("the excluded pattern {pattern:?} is not understood: {error}");
        }
    }
    rules.build().unwrap_or_else(|_| Gitignore::empty())
}

/// The parts in order, rule files widened to their folders, without those inside others. One that is spelled otherwise
/// than its folder does stands there in both ways: what was known under that name is not found by it.
fn outermost(root: &Path, parts: &[PathBuf]) -> Vec<PathBuf> {
    let widened = parts.iter().map(|part| {
        let is_rule = part.file_name().is_some_and(|it| RULE_FILES.iter().any(|rule| it == *rule));
        part.parent().filter(|_| is_rule).unwrap_or(part).to_path_buf()
    });
    let mut widened: Vec<PathBuf> = widened.flat_map(|it| [spelled_below(root, &it), it]).collect();
    // Paths are compared by components: a folder comes right before what is in it.
    widened.sort_unstable();
    widened.dedup_by(|later, kept| later.starts_with(&*kept));
    widened
}

struct Walk<'a> {
    root: &'a Path,
    /// The root without links, to tell which links lead out of it.
    real_root: PathBuf,
    options: &'a ScanOptions,
    /// Rules in force, outermost first, each with the name of its source.
    rules: Vec<(String, Gitignore)>,
    report: ScanReport,
    /// Whether the walk has left the root by a link.
    outside: bool,
    /// Folders and linked files outside the root that were visited, without links.
    entered: HashSet<PathBuf>,
    on_entry: &'a mut dyn FnMut(FileEntry) -> ControlFlow<()>,
}

impl Walk<'_> {
    /// Goes down to `part`, reading the rules on the way, and visits it.
    fn part(&mut self, part: &Path) -> ControlFlow<()> {
        if part.as_os_str().is_empty() {
            return self.folder(part);
        }
        // Another name of what is looked at under its own.
        if spelled_below(self.root, part) != part {
            return ControlFlow::Continue(());
        }
        if !part.components().all(|it| matches!(it, Component::Normal(_))) {
            let reason = Passed::NotBelow.to_string();
            self.report.unreadable.push((part.to_path_buf(), reason));
            return ControlFlow::Continue(());
        }
        let outer_rules = self.rules.len();
        let flow = match self.descend(part) {
            true => self.visit(part.to_path_buf()),
            false => ControlFlow::Continue(()),
        };
        self.rules.truncate(outer_rules);
        flow
    }

    /// Reads the rules of the folders above `part`; says whether the walk of the whole root would come
    /// through all of them.
    fn descend(&mut self, part: &Path) -> bool {
        let mut above: Vec<&Path> = part.ancestors().skip(1).collect();
        above.reverse();
        for folder in above {
            let absolute = self.root.join(folder);
            if !folder.as_os_str().is_empty() {
                match std::fs::symlink_metadata(&absolute) {
                    Ok(metadata) if metadata.is_dir() => {}
                    Ok(metadata) => {
                        // What lies behind a link is left to the scan of the whole root.
                        if metadata.is_symlink() && self.options.follow_links {
                            let reason = Passed::BehindLink.to_string();
                            self.report.unreadable.push((part.to_path_buf(), reason));
                        }
                        return false;
                    }
                    Err(error) => {
                        self.trouble(part, &error);
                        return false;
                    }
                }
                if let Some(rule) = self.excluding_rule(folder, true) {
                    self.report.excluded_folders.push((folder.to_path_buf(), rule));
                    return false;
                }
            }
            self.read_rules(folder, &absolute);
        }
        true
    }

    /// Remembers what could not be looked at. What is gone between listing and looking was never there.
    fn trouble(&mut self, path: &Path, error: &std::io::Error) {
        if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) {
            self.report.unreadable.push((path.to_path_buf(), error.to_string()));
        }
    }

    fn folder(&mut self, relative: &Path) -> ControlFlow<()> {
        let absolute = self.root.join(relative);
        if relative.components().count() > MAX_DEPTH {
            let reason = Passed::TooDeep { most: MAX_DEPTH }.to_string();
            self.report.unreadable.push((relative.to_path_buf(), reason));
            return ControlFlow::Continue(());
        }
        let names = std::fs::read_dir(&absolute).and_then(|entries| {
            entries.map(|it| it.map(|it| it.file_name())).collect::<std::io::Result<Vec<_>>>()
        });
        let mut names = match names {
            Ok(names) => names,
            Err(error) => {
                self.trouble(relative, &error);
                return ControlFlow::Continue(());
            }
        };
        names.sort_unstable();
        let outer_rules = self.rules.len();
        self.read_rules(relative, &absolute);
        for name in names {
            let flow = self.visit(relative.join(&name));
            if flow.is_break() {
                return flow;
            }
        }
        self.rules.truncate(outer_rules);
        ControlFlow::Continue(())
    }

    fn visit(&mut self, path: PathBuf) -> ControlFlow<()> {
        let absolute = self.root.join(&path);
        let mut metadata = match std::fs::symlink_metadata(&absolute) {
            Ok(metadata) => metadata,
            Err(error) => {
                self.trouble(&path, &error);
                return ControlFlow::Continue(());
            }
        };
        let was_outside = self.outside;
        if metadata.is_symlink() {
            let Some(target) = self.leads_out(&absolute) else {
                return ControlFlow::Continue(());
            };
            metadata = target;
            self.outside = true;
        }
        let rule = self.excluding_rule(&path, metadata.is_dir());
        let flow = match (metadata.is_dir(), rule) {
            (true, Some(rule)) => {
                self.report.excluded_folders.push((path, rule));
                ControlFlow::Continue(())
            }
            (is_dir, _) if self.outside && !self.first_visit(&absolute, is_dir, was_outside) => {
                ControlFlow::Continue(())
            }
            (true, None) => self.folder(&path),
            (false, rule) => self.file(path, &metadata, rule),
        };
        self.outside = was_outside;
        flow
    }

    /// What a link leads to, if links are followed and it leads out of the root.
    fn leads_out(&self, link: &Path) -> Option<Metadata> {
        if !self.options.follow_links {
            return None;
        }
        let target = std::fs::canonicalize(link).ok()?;
        let related = target.starts_with(&self.real_root) || self.real_root.starts_with(&target);
        if related { None } else { std::fs::metadata(link).ok() }
    }

    /// Whether a folder or linked file outside the root is come to for the first time. Plain files of a
    /// folder outside need no look: their folder is entered once.
    fn first_visit(&mut self, absolute: &Path, is_dir: bool, was_outside: bool) -> bool {
        if !is_dir && was_outside {
            return true;
        }
        std::fs::canonicalize(absolute).is_ok_and(|it| self.entered.insert(it))
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
            ScanVerdict::Skip(FileState::Unsupported, Passed::NotRegular.to_string())
        } else if is_placeholder(&path, metadata) {
            ScanVerdict::Skip(FileState::CloudOnly, Passed::InCloud.to_string())
        } else if metadata.len() > self.options.max_file_bytes {
            let limit = match self.options.max_file_bytes {
                bytes if bytes < 1 << 20 => format!("{bytes} bytes"),
                bytes => format!("{} MiB", bytes >> 20),
            };
            ScanVerdict::Skip(FileState::TooLarge, Passed::TooLarge { limit }.to_string())
        } else {
            ScanVerdict::Read
        };
        self.report.files += 1;
        let stamp = Stamp::of(metadata);
        (self.on_entry)(FileEntry {
            relative_path: path,
            size: stamp.size,
            modified_ns: stamp.modified_ns,
            volume_id: stamp.volume_id,
            verdict,
        })
    }

    fn read_rules(&mut self, relative: &Path, absolute: &Path) {
        if !self.options.rules {
            return;
        }
        for name in RULE_FILES {
            let file = absolute.join(name);
            match std::fs::metadata(&file) {
                Ok(metadata) if metadata.is_file() && metadata.len() <= MAX_RULE_FILE_BYTES => {}
                Ok(metadata) if metadata.is_file() => {
                    tracing::warn!("{}: too large for a list of rules: not obeyed", file.display());
                    continue;
                }
                _ => continue,
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
                    return Some(
                        Passed::Rule {
                            pattern: glob.original().to_owned(),
                            source_of_it: source.clone(),
                        }
                        .to_string(),
                    );
                }
                Match::Whitelist(_) => return None,
                Match::None => {}
            }
        }
        let name = path.file_name()?.to_string_lossy();
        if is_dir && BUILT_IN.contains(&&*name) {
            return Some(Passed::BuiltIn { name: name.into_owned() }.to_string());
        }
        let hidden = name.starts_with('.') && (is_dir || !stands_for_icloud_file(path));
        (!self.options.hidden && hidden).then(|| Passed::Hidden.to_string())
    }
}
