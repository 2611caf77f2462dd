//! The folder, and what is asked of all of it.

use std::{
    collections::BTreeMap,
    fs::{self, OpenOptions},
    io::Write as _,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use riddle_seal::{Key as Seal, Place};

use crate::{
    error::{Error, Result},
    key::Key,
    limit::Limit,
    tree::{Tree, entries},
};

/// Grows by a byte with every purge: whoever began before one saves nothing after it.
const PURGED: &str = "purged";

/// In the folder of a root: what the person calls the model.
pub(crate) const LABEL: &str = "label";

/// Prefixes of prompts in a folder. Several processes may use one at the same time.
#[derive(Debug)]
pub struct Store {
    dir: Place,
    limit: Mutex<Limit>,
    tree: Mutex<Tree>,
}

/// What was deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Freed {
    /// Nodes.
    pub nodes: u64,
    /// Bytes of their files.
    pub bytes: u64,
}

/// What there is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// Bytes of all nodes.
    pub bytes: u64,
    /// Bytes that they may take now; 0: nothing is kept.
    pub limit_bytes: u64,
    /// Nodes.
    pub nodes: u64,
    /// Tokens of all nodes.
    pub tokens: u64,
    /// The same by model, by name.
    pub roots: Vec<RootStatus>,
}

/// What there is of a model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RootStatus {
    /// What the person calls it.
    pub label: String,
    /// Bytes of its nodes.
    pub bytes: u64,
    /// Its nodes.
    pub nodes: u64,
    /// Their tokens.
    pub tokens: u64,
}

impl Store {
    /// The store in `dir`, which need not be there before something is saved. With a key its nodes are sealed.
    pub fn open(dir: impl Into<Place>, limit: Limit) -> Store {
        Store { dir: dir.into(), limit: Mutex::new(limit), tree: Mutex::default() }
    }

    /// Changes the limit; what is beyond it is forgotten at once.
    ///
    /// # Errors
    /// When the folder can not be read.
    pub fn set_limit(&self, limit: Limit) -> Result<Freed> {
        *self.limit.lock().unwrap_or_else(PoisonError::into_inner) = limit;
        let mut tree = self.tree();
        tree.refresh(&self.dir)?;
        let before = Freed { nodes: tree.nodes.len() as u64, bytes: tree.bytes() };
        let now = limit.now(self.dir(), before.bytes);
        tree.make_room(self.dir(), 0, now, &std::collections::HashSet::new());
        tree.write_counts(self.dir());
        Ok(Freed {
            nodes: before.nodes - tree.nodes.len() as u64,
            bytes: before.bytes - tree.bytes(),
        })
    }

    /// Deletes all that was made of these chunks, and all behind it: keys and values hold what stands before them. A
    /// prompt that was read meanwhile is not saved.
    ///
    /// # Errors
    /// When the folder can not be read or written.
    pub fn purge(&self, chunks: &[u64]) -> Result<Freed> {
        self.delete(&|it| it.chunks.iter().any(|chunk| chunks.contains(chunk)))
    }

    /// The chunks that anything here was made of.
    ///
    /// # Errors
    /// When the folder can not be read.
    pub fn chunks(&self) -> Result<Vec<u64>> {
        let mut tree = self.tree();
        tree.refresh(&self.dir)?;
        let mut chunks: Vec<u64> = tree.nodes.values().flat_map(|it| it.chunks.clone()).collect();
        chunks.sort_unstable();
        chunks.dedup();
        Ok(chunks)
    }

    /// Deletes everything.
    ///
    /// # Errors
    /// When the folder can not be read or written.
    pub fn clear(&self) -> Result<Freed> {
        let freed = self.delete(&|_| true)?;
        // And what is no node: files that were being written, folders.
        for folder in self.roots()? {
            fs::remove_dir_all(&folder).map_err(Error::io(&folder))?;
        }
        Ok(freed)
    }

    /// Deletes all of the model that the person calls `label`.
    ///
    /// # Errors
    /// When the folder can not be read or written.
    pub fn remove_model(&self, label: &str) -> Result<Freed> {
        let is_it = |folder: &PathBuf| label_of(folder) == label;
        let folders: Vec<PathBuf> = self.roots()?.into_iter().filter(is_it).collect();
        let roots: Vec<Key> = folders.iter().filter_map(|it| key_of(it)).collect();
        let freed = self.delete(&|it| roots.contains(&it.root))?;
        for folder in folders {
            fs::remove_dir_all(&folder).map_err(Error::io(&folder))?;
        }
        Ok(freed)
    }

    /// What there is.
    ///
    /// # Errors
    /// When the folder can not be read.
    pub fn status(&self) -> Result<Status> {
        let mut tree = self.tree();
        tree.refresh(&self.dir)?;
        let bytes = tree.bytes();
        let mut roots: BTreeMap<String, RootStatus> = BTreeMap::new();
        for node in tree.nodes.values() {
            let label = label_of(&self.dir().join(node.root.name()));
            let root =
                roots.entry(label.clone()).or_insert(RootStatus { label, ..RootStatus::default() });
            root.bytes += node.bytes;
            root.nodes += 1;
            root.tokens += node.tokens as u64;
        }
        Ok(Status {
            bytes,
            limit_bytes: self.limit().now(self.dir(), bytes),
            nodes: tree.nodes.len() as u64,
            tokens: roots.values().map(|it| it.tokens).sum(),
            roots: roots.into_values().collect(),
        })
    }

    fn delete(&self, is_one: &dyn Fn(&crate::tree::Entry) -> bool) -> Result<Freed> {
        let mut tree = self.tree();
        if !self.dir().is_dir() {
            return Ok(Freed::default());
        }
        // First: what is saved from now on by whoever began before is deleted by them, and what was saved until now is
        // seen here.
        let path = self.dir().join(PURGED);
        let mut file =
            OpenOptions::new().create(true).append(true).open(&path).map_err(Error::io(&path))?;
        file.write_all(b".").map_err(Error::io(&path))?;
        tree.refresh(&self.dir)?;
        let mut freed = Freed::default();
        for key in tree.with_all_behind(is_one) {
            freed.nodes += 1;
            freed.bytes += tree.forget(self.dir(), key);
        }
        tree.write_counts(self.dir());
        Ok(freed)
    }

    /// Folders of roots.
    fn roots(&self) -> Result<Vec<PathBuf>> {
        Ok(entries(self.dir())?.into_iter().filter(|it| key_of(it).is_some()).collect())
    }

    /// Purges so far, by all processes.
    pub(crate) fn purges(&self) -> u64 {
        fs::metadata(self.dir().join(PURGED)).map_or(0, |it| it.len())
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn place(&self) -> &Place {
        &self.dir
    }

    pub(crate) fn seal(&self) -> Option<&Seal> {
        self.dir.key.as_ref()
    }

    /// Which of these nodes, by the bytes of their keys, are there. No use is counted.
    ///
    /// # Errors
    /// When the folder can not be read.
    pub fn has(&self, keys: &[[u8; 32]]) -> Result<Vec<bool>> {
        let mut tree = self.tree();
        tree.refresh(self.place())?;
        Ok(keys.iter().map(|it| tree.nodes.contains_key(&Key(*it))).collect())
    }

    /// The name of a tree of prompts: over the model and everything else that decides what its tokens leave behind. In
    /// a sealed store nobody without the key can tell by a name which texts were read.
    pub fn root(&self, parts: &[&[u8]]) -> Key {
        let own = self.seal().map(|it| it.derive("names of stored prefixes", b"").to_hex());
        let own = own.as_ref().map(|it| it.as_bytes());
        let parts: Vec<&[u8]> = parts.iter().copied().chain(own).collect();
        Key::root(&parts)
    }

    /// The limit that it was given.
    pub fn limit(&self) -> Limit {
        *self.limit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn tree(&self) -> MutexGuard<'_, Tree> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes a folder that only its owner may look into.
pub(crate) fn make_private(dir: &Path) -> std::io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(dir)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}

fn key_of(folder: &Path) -> Option<Key> {
    Key::parse(folder.file_name()?.to_str()?)
}

fn label_of(folder: &Path) -> String {
    fs::read_to_string(folder.join(LABEL)).unwrap_or_default()
}
