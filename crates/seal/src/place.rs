//! A place on the disk, and what opens it.

use std::path::{Path, PathBuf};

use crate::Key;

/// A file or folder, and the key that what lies there is sealed with.
#[derive(Debug, Clone)]
pub struct Place {
    /// Where.
    pub path: PathBuf,
    /// `None`: it lies there as it is.
    pub key: Option<Key>,
}

impl Place {
    /// `path`, sealed by `key` if there is one.
    pub fn new(path: impl Into<PathBuf>, key: Option<Key>) -> Place {
        Place { path: path.into(), key }
    }

    /// Where.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A place below it, by the same key.
    #[must_use]
    pub fn join(&self, name: &str) -> Place {
        Place { path: self.path.join(name), key: self.key.clone() }
    }
}

impl<P: AsRef<Path> + ?Sized> From<&P> for Place {
    fn from(path: &P) -> Place {
        Place::new(path.as_ref(), None)
    }
}

impl From<&Place> for Place {
    fn from(place: &Place) -> Place {
        place.clone()
    }
}
