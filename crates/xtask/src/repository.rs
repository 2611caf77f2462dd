//! The files that belong to the repository, read once.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

/// Folders that are never part of the sources; needed only where git cannot be asked.
const NOT_SOURCES: [&str; 7] = [".git", ".cache", ".venv", "target", "node_modules", "dist", "gen"];

/// A file of the repository.
#[derive(Debug, Clone)]
pub(crate) struct File {
    /// Path relative to the root, with `/`.
    pub(crate) path: String,
    /// Length in bytes.
    pub(crate) bytes: u64,
    /// Content, where it is UTF-8 and not large.
    pub(crate) text: Option<String>,
}

/// A commit of the history.
#[derive(Debug, Clone)]
pub(crate) struct Commit {
    /// First digits of its number.
    pub(crate) name: String,
    /// First line of its message.
    pub(crate) subject: String,
    /// Everything after it.
    pub(crate) body: String,
}

impl File {
    /// A file as a test writes it down.
    #[cfg(test)]
    pub(crate) fn of(path: &str, text: &str) -> File {
        File { path: path.to_owned(), bytes: text.len() as u64, text: Some(text.to_owned()) }
    }

    pub(crate) fn extension(&self) -> &str {
        Path::new(&self.path).extension().and_then(|it| it.to_str()).unwrap_or("")
    }
}

/// Root of the workspace: the one that `cargo xtask` was called in. The place where this program was
/// compiled may be another one, when two checkouts share a target folder.
pub(crate) fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    here.ancestors().nth(2).unwrap_or(&here).to_path_buf()
}

/// Every file that is in the repository, or would be with the next commit.
pub(crate) fn files() -> Result<Vec<File>> {
    let root = root();
    let mut paths = match known_to_git(&root)? {
        Some(paths) => paths,
        None => {
            let mut paths = Vec::new();
            walk(&root, &root, &mut paths)?;
            paths
        }
    };
    paths.sort();
    let mut files = Vec::new();
    for path in paths {
        let full = root.join(&path);
        // Deleted and not yet committed, or a link to a folder.
        let Ok(metadata) = fs::metadata(&full) else { continue };
        if !metadata.is_file() {
            continue;
        }
        // Beyond this a file is data; the rules about text are not for it.
        const TEXT_BYTES: u64 = 1 << 20;
        let text = if metadata.len() <= TEXT_BYTES {
            String::from_utf8(fs::read(&full).with_context(|| format!("cannot read {path}"))?).ok()
        } else {
            None
        };
        files.push(File { path, bytes: metadata.len(), text });
    }
    Ok(files)
}

/// Paths according to git; nothing where there is no git, or no checkout (a source archive), or git
/// refuses because the checkout belongs to somebody else.
fn known_to_git(root: &Path) -> Result<Option<Vec<String>>> {
    let arguments = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let Ok(output) = Command::new("git").args(arguments).current_dir(root).output() else {
        return Ok(None);
    };
    if !output.status.success() {
        return Ok(None);
    }
    let Ok(listing) = String::from_utf8(output.stdout) else {
        bail!("a file name of the repository is not UTF-8: rename it");
    };
    Ok(Some(listing.split_terminator('\0').map(str::to_owned).collect()))
}

/// Commits that are no merges, since `base` and without it; none where there is no git, or it does not know `base`.
pub(crate) fn commits_since(base: &str) -> Vec<Commit> {
    let range = format!("{base}..HEAD");
    let arguments = ["log", "--no-merges", "--format=%h%x00%s%x00%b%x00", &range, "--"];
    let Ok(output) = Command::new("git").args(arguments).current_dir(root()).output() else {
        return Vec::new();
    };
    if !output.status.success() {
        return Vec::new();
    }
    commits_of(&String::from_utf8_lossy(&output.stdout))
}

/// Three fields for each commit, each with NUL at its end; a line break between commits.
fn commits_of(log: &str) -> Vec<Commit> {
    let fields: Vec<&str> = log.split('\0').map(|it| it.trim_start_matches('\n')).collect();
    let commit = |it: &[&str]| Commit {
        name: it[0].to_owned(),
        subject: it[1].to_owned(),
        body: it[2].to_owned(),
    };
    fields.chunks_exact(3).map(commit).collect()
}

fn walk(root: &Path, folder: &Path, paths: &mut Vec<String>) -> Result<()> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().and_then(|it| it.to_str()).unwrap_or("");
        if path.is_dir() && !path.is_symlink() {
            if !NOT_SOURCES.contains(&name) {
                walk(root, &path, paths)?;
            }
        } else if let Ok(relative) = path.strip_prefix(root) {
            paths.push(relative.to_string_lossy().replace('\\', "/"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_taken_apart() {
        let log = "12\0a: b\0Why.\n\nAnd how.\n\0\n34\0c: d\0\0\n";
        let commits: Vec<_> =
            commits_of(log).into_iter().map(|it| (it.name, it.subject, it.body)).collect();
        let of = |name: &str, subject: &str, body: &str| {
            (name.to_owned(), subject.to_owned(), body.to_owned())
        };
        assert_eq!(commits, [of("12", "a: b", "Why.\n\nAnd how.\n"), of("34", "c: d", "")]);
        assert!(commits_of("").is_empty());
    }

    #[test]
    fn a_base_that_nobody_knows_says_nothing() {
        assert!(commits_since("0123456789012345678901234567890123456789").is_empty());
    }

    #[test]
    fn walking_and_asking_git_agree_about_the_sources() {
        let mut walked = Vec::new();
        walk(&root(), &root().join("crates/xtask"), &mut walked).unwrap();
        assert!(walked.contains(&"crates/xtask/src/repository.rs".to_owned()), "{walked:?}");
        if let Some(known) = known_to_git(&root()).unwrap() {
            for path in walked {
                assert!(known.contains(&path), "{path} is not known to git");
            }
        }
    }
}
