//! Where files are and what they were when they were read: for whoever looks at them once more.

use std::path::PathBuf;

use riddle_types::{FileKind, FileState};
use rusqlite::{Row, params};

use crate::{Catalog, FileId, Result, paths::from_bytes};

/// A file as it was when it was last seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePlace {
    /// Identity.
    pub id: FileId,
    /// The folder that is indexed.
    pub root: PathBuf,
    /// Absolute path.
    pub path: PathBuf,
    /// It is a document from memory: there is no file.
    pub is_virtual: bool,
    /// Format family.
    pub kind: FileKind,
    /// Its state: the chunks of one that is indexed are those of the file as it was seen.
    pub state: FileState,
    /// Size in bytes.
    pub size: u64,
    /// Modification time in nanoseconds since 1970.
    pub modified_ns: i64,
    /// Its number on its volume, where there is one.
    pub inode: Option<u64>,
    /// Chunks in the catalog.
    pub chunks: u64,
}

const COLUMNS: &str =
    "files.id, roots.path, files.path, roots.virtual, files.kind, files.state, files.size, files.modified_ns,
    files.inode, (SELECT count(*) FROM chunks WHERE chunks.file = files.id)";

fn place(row: &Row<'_>) -> rusqlite::Result<FilePlace> {
    let (root, path): (Vec<u8>, Vec<u8>) = (row.get(1)?, row.get(2)?);
    let (kind, state): (String, String) = (row.get(4)?, row.get(5)?);
    let root = from_bytes(root);
    Ok(FilePlace {
        id: FileId(row.get(0)?),
        path: root.join(from_bytes(path)),
        root,
        is_virtual: row.get(3)?,
        kind: FileKind::parse(&kind).unwrap_or(FileKind::Other),
        state: FileState::parse(&state).unwrap_or(FileState::Pending),
        size: row.get::<_, i64>(6)?.cast_unsigned(),
        modified_ns: row.get(7)?,
        inode: row.get::<_, Option<i64>>(8)?.map(i64::cast_unsigned),
        chunks: row.get::<_, i64>(9)?.cast_unsigned(),
    })
}

impl Catalog {
    /// Every file.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn places(&self) -> Result<Vec<FilePlace>> {
        let connection = self.connection();
        let mut statement = connection.prepare_cached(&format!(
            "SELECT {COLUMNS} FROM files JOIN roots ON roots.id = files.root ORDER BY files.id"
        ))?;
        let rows = statement.query_map([], place)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// A file; `None` when it is gone.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn place_of(&self, file: FileId) -> Result<Option<FilePlace>> {
        let connection = self.connection();
        let mut statement = connection.prepare_cached(&format!(
            "SELECT {COLUMNS} FROM files JOIN roots ON roots.id = files.root WHERE files.id = ?1"
        ))?;
        let mut rows = statement.query_map(params![file.0], place)?;
        Ok(rows.next().transpose()?)
    }
}
