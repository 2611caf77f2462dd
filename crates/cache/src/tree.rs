//! Which nodes there are, how often each was used, and who goes first.

use std::{
    collections::{HashMap, HashSet},
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use riddle_seal::{Key as Seal, Place};

use crate::{
    error::{Error, Result},
    key::Key,
    node::Header,
};

/// Ending of nodes' files.
pub(crate) const ENDING: &str = "kv";

/// What files that are being written begin with.
pub(crate) const NEW: &str = ".new-";

/// Where it stands how often nodes were used. It may be lost.
const USES: &str = "uses";

/// After so long nobody goes on writing a file.
const ABANDONED: Duration = Duration::from_secs(600);

/// What is known of a node without opening it.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) root: Key,
    pub(crate) parent: Key,
    pub(crate) bytes: u64,
    pub(crate) tokens: usize,
    pub(crate) chunks: Vec<u64>,
    uses: u64,
    /// The tree's age when it was used last, and its uses (LFU with dynamic aging: Arlitt et al. 2000).
    rank: u64,
    /// The prompts before the first that this process saw it in.
    born: u64,
}

/// All nodes of a store.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) nodes: HashMap<Key, Entry>,
    /// The rank of the last node that was forgotten: whoever is used now is ranked above it.
    age: u64,
    /// Prompts so far.
    clock: u64,
    counts: HashMap<Key, (u64, u64)>,
    is_read: bool,
    /// Uses were counted that are not written yet.
    counted: bool,
}

impl Tree {
    /// Bytes of all nodes.
    pub(crate) fn bytes(&self) -> u64 {
        self.nodes.values().map(|it| it.bytes).sum()
    }

    /// The file of a node.
    pub(crate) fn path(dir: &Path, root: Key, key: Key) -> PathBuf {
        dir.join(root.name()).join(format!("{}.{ENDING}", key.name()))
    }

    /// A prompt begins.
    pub(crate) fn tick(&mut self) {
        self.clock += 1;
    }

    /// Takes up what other processes did: nodes that are there now, and those that no longer are. A file that is no
    /// node, or one that another version wrote, is deleted.
    pub(crate) fn refresh(&mut self, place: &Place) -> Result<()> {
        let dir = place.path();
        if !std::mem::replace(&mut self.is_read, true) {
            self.read_counts(dir);
        }
        let mut seen = HashSet::new();
        for folder in entries(dir)? {
            let Some(root) = folder.file_name().and_then(|it| Key::parse(it.to_str()?)) else {
                continue;
            };
            for path in entries(&folder)? {
                if let Some(key) = self.refresh_file(&path, place.key.as_ref(), root) {
                    seen.insert(key);
                }
            }
        }
        self.nodes.retain(|key, _| seen.contains(key));
        Ok(())
    }

    /// The node in a file, which is read if it was not known.
    fn refresh_file(&mut self, path: &Path, seal: Option<&Seal>, root: Key) -> Option<Key> {
        let name = path.file_name()?.to_str()?;
        if name.starts_with(NEW) {
            let modified = fs::metadata(path).and_then(|it| it.modified()).ok()?;
            if modified.elapsed().is_ok_and(|it| it > ABANDONED) {
                remove(path);
            }
            return None;
        }
        let key = Key::parse(name.strip_suffix(ENDING)?.strip_suffix('.')?)?;
        if self.nodes.contains_key(&key) {
            return Some(key);
        }
        match Header::read(path, seal) {
            Ok(header) if header.key == key && header.root == root => {
                self.insert(&header);
                Some(key)
            }
            Err(error) if error.is_gone() => None,
            Ok(_) | Err(Error::Broken { .. }) => {
                tracing::warn!("{} is no stored prefix, it is deleted", path.display());
                remove(path);
                None
            }
            Err(error) => {
                tracing::warn!("{error}");
                None
            }
        }
    }

    /// Takes a node up.
    pub(crate) fn insert(&mut self, header: &Header) {
        let (uses, rank) = self.counts.get(&header.key).copied().unwrap_or((0, self.age));
        let entry = Entry {
            root: header.root,
            parent: header.parent,
            bytes: header.file_bytes(),
            tokens: header.tokens.len(),
            chunks: header.chunks.clone(),
            uses,
            rank,
            born: self.clock,
        };
        self.nodes.insert(header.key, entry);
    }

    /// A node was of use.
    pub(crate) fn touch(&mut self, key: Key) {
        if let Some(node) = self.nodes.get_mut(&key) {
            node.uses += 1;
            node.rank = self.age + node.uses;
            self.counted = true;
        }
    }

    /// Forgets nodes until `needed` more bytes are within `limit`; whether they are. Nobody goes before those behind
    /// it, and nobody of those `kept`. If it can not be done, nothing is forgotten.
    pub(crate) fn make_room(
        &mut self,
        dir: &Path,
        needed: u64,
        limit: u64,
        kept: &HashSet<Key>,
    ) -> bool {
        let held: u64 =
            self.nodes.iter().filter(|it| kept.contains(it.0)).map(|it| it.1.bytes).sum();
        if held.saturating_add(needed) > limit {
            return false;
        }
        while self.bytes() + needed > limit {
            let Some(key) = self.next(kept) else { return false };
            self.age = self.age.max(self.nodes[&key].rank);
            self.forget(dir, key);
        }
        true
    }

    /// Who goes next: of those that nobody is behind, the one that is ranked lowest, of equals the oldest. A new one is
    /// ranked above the last that went, so it has its chance: those that were used often and are not any more go
    /// before it in time.
    fn next(&self, kept: &HashSet<Key>) -> Option<Key> {
        let parents: HashSet<Key> = self.nodes.values().map(|it| it.parent).collect();
        let can_go = |key: &&Key| !parents.contains(*key) && !kept.contains(*key);
        let rank = |key: &&Key| {
            let node = &self.nodes[*key];
            (node.rank, node.born, **key)
        };
        self.nodes.keys().filter(can_go).min_by_key(rank).copied()
    }

    /// Deletes a node.
    pub(crate) fn forget(&mut self, dir: &Path, key: Key) -> u64 {
        let Some(node) = self.nodes.remove(&key) else { return 0 };
        remove(&Tree::path(dir, node.root, key));
        self.counts.remove(&key);
        self.counted = true;
        node.bytes
    }

    /// The nodes that `is_one` chooses, and all behind them, the last ones first.
    pub(crate) fn with_all_behind(&self, is_one: &dyn Fn(&Entry) -> bool) -> Vec<Key> {
        let mut behind: HashMap<Key, Vec<Key>> = HashMap::new();
        for (key, node) in &self.nodes {
            behind.entry(node.parent).or_default().push(*key);
        }
        let chosen = self.nodes.iter().filter(|it| is_one(it.1)).map(|it| *it.0);
        let mut order: Vec<Key> = Vec::new();
        let mut seen = HashSet::new();
        let mut waiting: Vec<Key> = chosen.collect();
        while let Some(key) = waiting.pop() {
            if seen.insert(key) {
                order.push(key);
                waiting.extend(behind.get(&key).into_iter().flatten());
            }
        }
        // Whoever was chosen and is behind another chosen one may stand before it.
        order.sort_by_key(|it| std::cmp::Reverse(self.level(*it)));
        order
    }

    /// Nodes before this one.
    fn level(&self, mut key: Key) -> usize {
        let mut level = 0;
        while let Some(node) = self.nodes.get(&key).filter(|_| level <= self.nodes.len()) {
            key = node.parent;
            level += 1;
        }
        level
    }

    fn read_counts(&mut self, dir: &Path) {
        let text = fs::read_to_string(dir.join(USES)).unwrap_or_default();
        for line in text.lines() {
            let mut words = line.split(' ');
            let key = words.next().and_then(Key::parse);
            let mut number = || words.next().and_then(|it| it.parse::<u64>().ok());
            match (key, number(), number()) {
                (Some(key), Some(uses), Some(rank)) => {
                    self.counts.insert(key, (uses, rank));
                }
                (None, Some(age), None) => self.age = age,
                _ => {}
            }
        }
    }

    /// Writes down how often nodes were used, if anything has changed.
    pub(crate) fn write_counts(&mut self, dir: &Path) {
        if !std::mem::take(&mut self.counted) || !dir.is_dir() {
            return;
        }
        let mut text = format!("age {}\n", self.age);
        for (key, node) in &self.nodes {
            text.push_str(&format!("{} {} {}\n", key.name(), node.uses, node.rank));
        }
        let beside = dir.join(format!("{NEW}{}-{USES}", std::process::id()));
        let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, dir.join(USES)));
        if let Err(error) = written {
            tracing::warn!("{}: {error}", dir.join(USES).display());
            remove(&beside);
        }
    }
}

/// What is in a folder; nothing where there is none.
pub(crate) fn entries(dir: &Path) -> Result<Vec<PathBuf>> {
    match fs::read_dir(dir) {
        Ok(entries) => Ok(entries.flatten().map(|it| it.path()).collect()),
        Err(error)
            if [std::io::ErrorKind::NotFound, std::io::ErrorKind::NotADirectory]
                .contains(&error.kind()) =>
        {
            Ok(Vec::new())
        }
        Err(source) => Err(Error::Io { path: dir.to_path_buf(), source }),
    }
}

/// Deletes a file that may be gone.
pub(crate) fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!("{}: {error}", path.display());
    }
}
