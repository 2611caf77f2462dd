//! One prompt's dealings with the store.

use std::{
    collections::HashSet,
    fs,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

use riddle_offload::PageReader;

use crate::{
    error::{Error, Result},
    key::Key,
    node::{self, Header},
    store::{LABEL, Store, make_private},
    tree::{NEW, Tree, remove},
};

/// A prompt's dealings with a [`Store`]: what it finds and saves is not forgotten before it has ended.
#[derive(Debug)]
pub struct Visit<'a> {
    store: &'a Store,
    /// Purges before it began.
    purges: u64,
    kept: HashSet<Key>,
    /// What files are read through, from the first one on.
    reader: Option<PageReader>,
}

/// What became of what was to be saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Saved {
    /// It was written.
    Written,
    /// It was there already.
    Known,
    /// The limit leaves no room for it, or what it belongs behind is not there.
    NoRoom,
    /// Something was purged since the prompt began: it could be made of what must not be kept.
    Purged,
}

impl Store {
    /// A prompt begins.
    ///
    /// # Errors
    /// When the folder can not be read.
    pub fn visit(&self) -> Result<Visit<'_>> {
        if self.limit().bytes > 0 {
            // A purge must find where to leave its mark. Who can not make the folder is told when something is saved.
            let _ = make_private(self.dir());
        }
        let purges = self.purges();
        let mut tree = self.tree();
        tree.refresh(self.place())?;
        tree.tick();
        drop(tree);
        Ok(Visit { store: self, purges, kept: HashSet::new(), reader: None })
    }
}

impl Visit<'_> {
    /// How many segments of `path`, the first of them behind `root`, are there.
    pub fn depth(&self, root: Key, path: &[&[u32]]) -> usize {
        let tree = self.store.tree();
        let mut key = root;
        path.iter()
            .take_while(|tokens| {
                key = key.child(tokens);
                tree.nodes.contains_key(&key)
            })
            .count()
    }

    /// A node was of use without being loaded.
    pub fn touch(&mut self, key: Key) {
        self.kept.insert(key);
        self.store.tree().touch(key);
    }

    /// Fills `parts` with the bytes of a node; gives the microseconds that making them took. After an error they mean
    /// nothing, and a file that can not be used is deleted.
    ///
    /// # Errors
    /// When it is not there, can not be read, or is not what was asked for.
    pub fn load(&mut self, key: Key, tokens: &[u32], parts: &mut [&mut [u8]]) -> Result<u64> {
        let dir = self.store.dir();
        let place = self.store.tree().nodes.get(&key).map(|it| (it.root, it.parent));
        let (root, parent) = place.ok_or_else(|| Error::Broken {
            path: dir.join(key.name()),
            why: "it is not there any more",
        })?;
        let path = Tree::path(dir, root, key);
        let reader = self.reader.get_or_insert_default();
        let loaded =
            node::load(&path, self.store.seal(), tokens, parts, reader).and_then(|header| {
                let is_it = header.key == key && header.root == root && header.parent == parent;
                let other = Error::Broken { path: path.clone(), why: "it belongs elsewhere" };
                if is_it { Ok(header) } else { Err(other) }
            });
        match loaded {
            Ok(header) => {
                self.touch(key);
                Ok(header.cost_us)
            }
            Err(error) => {
                if matches!(error, Error::Broken { .. }) || error.is_gone() {
                    self.store.tree().forget(dir, key);
                }
                Err(error)
            }
        }
    }

    /// Saves `parts` as what `tokens` leave behind `parent`: the root itself, or a node that is there. `root` has the
    /// name that the person knows its model by, `chunks` are what the tokens were made of, `cost_us` is what reading
    /// them took.
    ///
    /// # Errors
    /// When it can not be written; nothing of it is left then.
    pub fn save(
        &mut self,
        (root, label): (Key, &str),
        parent: Key,
        tokens: &[u32],
        chunks: &[u64],
        cost_us: u64,
        parts: &[&[u8]],
    ) -> Result<Saved> {
        let key = parent.child(tokens);
        let (dir, limit) = (self.store.dir(), self.store.limit());
        let header = Header {
            root,
            parent,
            key,
            payload: parts.iter().map(|it| it.len() as u64).sum(),
            checksum: [0; 32],
            cost_us,
            tokens: tokens.to_vec(),
            chunks: chunks.to_vec(),
        };
        {
            let mut tree = self.store.tree();
            if tree.nodes.contains_key(&key) {
                if self.kept.insert(key) {
                    tree.touch(key);
                }
                return Ok(Saved::Known);
            }
            if parent != root && !tree.nodes.contains_key(&parent) {
                return Ok(Saved::NoRoom);
            }
            let now = limit.now(dir, tree.bytes());
            if now == 0 || !tree.make_room(dir, header.file_bytes(), now, &self.kept) {
                return Ok(Saved::NoRoom);
            }
        }
        if self.store.purges() != self.purges {
            return Ok(Saved::Purged);
        }
        let header = Header { checksum: node::checksum(parts), ..header };
        let path = Tree::path(dir, root, key);
        write(self.store, &path, label, &header, parts)?;
        // A purge that has begun since then has seen the file, or is seen here.
        if self.store.purges() != self.purges {
            remove(&path);
            return Ok(Saved::Purged);
        }
        let mut tree = self.store.tree();
        tree.insert(&header);
        tree.touch(key);
        self.kept.insert(key);
        Ok(Saved::Written)
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.store.tree().write_counts(self.store.dir());
    }
}

/// Writes a node beside its place and puts it there.
fn write(store: &Store, path: &Path, label: &str, header: &Header, parts: &[&[u8]]) -> Result<()> {
    /// Tells files apart that one process writes at a time.
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let dir = store.dir();
    let folder = path.parent().unwrap_or(dir);
    for own in [dir, folder] {
        make_private(own).map_err(Error::io(own))?;
    }
    let name = folder.join(LABEL);
    if !fs::read_to_string(&name).is_ok_and(|it| it == label) {
        fs::write(&name, label).map_err(Error::io(&name))?;
    }
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let beside = folder.join(format!("{NEW}{}-{number}", std::process::id()));
    let written =
        node::write(&beside, store.seal(), header, parts).and_then(|()| fs::rename(&beside, path));
    written.map_err(|source| {
        remove(&beside);
        Error::Io { path: path.to_path_buf(), source }
    })
}
