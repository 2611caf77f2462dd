//! `riddle-model.json`: what was installed, from where, and the checksum of every file.

use std::{fs, path::Path};

use serde::{Deserialize, Serialize};

use crate::{Error, Format, Kind, Result, files, name::MANIFEST};

/// Version that is written; older programs refuse newer records instead of misreading them.
const VERSION: u32 = 1;

/// Largest record that is read: a model has some dozen files.
const LARGEST: u64 = 1 << 20;

/// One file of an installed model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRecord {
    /// Path in the model's folder, written with `/`.
    pub path: String,
    /// Size in bytes.
    pub size: u64,
    /// SHA-256, lower-case hexadecimal.
    pub sha256: String,
}

/// The record itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub(crate) version: u32,
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) format: Format,
    /// `org/name` on the hub, where the model is from there, whichever source delivered it.
    pub(crate) repository: Option<String>,
    /// Address or description of the place that delivered it.
    pub(crate) source: String,
    /// Commit or package version.
    pub(crate) revision: Option<String>,
    /// SPDX-like identifier as the source states it.
    pub(crate) license: Option<String>,
    /// Seconds since 1970.
    pub(crate) pulled_at: u64,
    pub(crate) files: Vec<FileRecord>,
}

impl Manifest {
    pub(crate) fn new(name: &str, kind: Kind, format: Format, source: String) -> Manifest {
        let pulled_at = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |it| it.as_secs());
        Manifest {
            version: VERSION,
            name: name.to_owned(),
            kind,
            format,
            repository: None,
            source,
            revision: None,
            license: None,
            pulled_at,
            files: Vec::new(),
        }
    }

    /// Reads a folder's record; `None` when it has none.
    pub(crate) fn read(dir: &Path) -> Result<Option<Manifest>> {
        let path = dir.join(MANIFEST);
        let fail = |why: String| Error::Manifest { path: path.clone(), why };
        match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(Error::Io { path, source }),
            Ok(meta) if !meta.is_file() => return Err(fail("it is not a file".to_owned())),
            Ok(meta) if meta.len() > LARGEST => return Err(fail("it is too large".to_owned())),
            Ok(_) => {}
        }
        let bytes = fs::read(&path).map_err(Error::io(&path))?;
        let manifest: Manifest =
            serde_json::from_slice(&bytes).map_err(|error| fail(error.to_string()))?;
        if manifest.version != VERSION {
            return Err(fail(format!("it has version {}: use a newer Riddle", manifest.version)));
        }
        // A record that came with a copied folder is as untrusted as the folder.
        if let Some(file) =
            manifest.files.iter().find(|it| crate::name::file_fault(&it.path).is_some())
        {
            return Err(fail(format!("it names the file {:?}", file.path)));
        }
        Ok(Some(manifest))
    }

    pub(crate) fn write(&self, dir: &Path) -> Result<()> {
        let text = serde_json::to_vec_pretty(self).expect("a record is plain data: this is a bug");
        files::write_synced(&dir.join(MANIFEST), &text)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().fold(0, |sum, it| sum.saturating_add(it.size))
    }
}
