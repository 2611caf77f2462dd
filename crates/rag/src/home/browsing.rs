//! Pages that browsers remember: whether they are read.

use riddle_catalog::{Catalog, FileId};
use riddle_ingest::may_be_history;
use riddle_types::FileKind;

use super::{records::Records, settings::READ_BROWSING};
use crate::contract::Result;

/// Whether a person has agreed that browsing history is read.
pub(crate) fn reads_browsing(catalog: &Catalog) -> Result<bool> {
    Ok(catalog.setting(READ_BROWSING)?.is_some_and(|it| it == "1"))
}

/// Whether browsing history is read from now on. What was read of it is taken out at once, and the files are queued:
/// each is judged anew, one that is being read meanwhile, too.
pub(crate) fn read_browsing(catalog: &Catalog, may: bool) -> Result<()> {
    if may && reads_browsing(catalog)? {
        return Ok(());
    }
    // What was read may have another name by now; what an earlier version has seen is of no such kind.
    let mut files: Vec<FileId> = catalog.files_of_kind(FileKind::History)?;
    for part in ["places.sqlite", "History"] {
        let named = catalog.files_named(None, part, usize::MAX, 0)?.into_iter();
        let named = named.filter(|it| may_be_history(&it.path));
        files.extend(named.map(|it| it.id));
    }
    files.sort_unstable();
    files.dedup();
    Ok(catalog.read_anew(&files, READ_BROWSING, may.then_some("1"))?)
}

impl Records {
    /// Whether browsing history is read.
    ///
    /// # Errors
    /// When the catalog can not be read.
    pub fn reads_browsing(&self) -> Result<bool> {
        reads_browsing(&self.catalog)
    }

    /// Whether browsing history is read from now on; what was read of it is taken out. What is at work sees it when it
    /// begins anew.
    ///
    /// # Errors
    /// When the catalog can not be written.
    pub fn read_browsing(&self, may: bool) -> Result<()> {
        read_browsing(&self.catalog, may)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::Config;

    #[test]
    fn nothing_is_read_before_somebody_agrees_and_that_is_kept() {
        let dir = tempfile::tempdir().expect("a folder");
        let records = Records::open(Config::new(dir.path().join("home"))).expect("a home");
        assert!(!records.reads_browsing().expect("read"));
        for may in [true, true, false, false] {
            records.read_browsing(may).expect("written");
            assert_eq!(records.reads_browsing().expect("read"), may);
        }
    }
}
