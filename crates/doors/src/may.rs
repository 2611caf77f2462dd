//! What a program may do.

use std::path::{Path, PathBuf};

use riddle_types::FileKind;
use serde::{Deserialize, Serialize};

/// What a program may do. Empty lists are no condition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct May {
    /// What it may ask, by the names of the tools.
    pub tools: Vec<String>,
    /// Absolute folders whose files it may see, and those below.
    pub folders: Vec<PathBuf>,
    /// Kinds of files that it may see.
    pub types: Vec<FileKind>,
    /// Sees folders that never leave this machine, too.
    pub with_confined: bool,
}

impl May {
    /// Whether it may ask this.
    pub fn ask(&self, tool: &str) -> bool {
        self.tools.is_empty() || self.tools.iter().any(|it| it == tool)
    }

    /// Whether it may see this file.
    pub fn see(&self, path: &Path, kind: FileKind) -> bool {
        let below = |folder: &PathBuf| path.starts_with(folder);
        (self.folders.is_empty() || self.folders.iter().any(below))
            && (self.types.is_empty() || self.types.contains(&kind))
    }

    /// Whether nothing is withheld from it but folders that never leave this machine.
    pub fn is_everything(&self) -> bool {
        self.tools.is_empty() && self.folders.is_empty() && self.types.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_and_kinds_narrow_what_is_seen() {
        let may = May {
            folders: vec![PathBuf::from("/home/jo/notes")],
            types: vec![FileKind::Pdf],
            ..May::default()
        };
        assert!(may.see(Path::new("/home/jo/notes/a/b.pdf"), FileKind::Pdf));
        assert!(!may.see(Path::new("/home/jo/notes/a.md"), FileKind::Markdown));
        assert!(!may.see(Path::new("/home/jo/notes-2/a.pdf"), FileKind::Pdf));
        assert!(May::default().see(Path::new("/x"), FileKind::Code));
    }
}
