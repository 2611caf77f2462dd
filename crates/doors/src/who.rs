//! Who asks, and what of the library that may see.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use riddle_rag::{Audience, Libraries};
use riddle_types::{FileKind, Filter, Reader};

use crate::{
    error::{Error, Result},
    may::May,
};

/// What may be given to whoever asks.
#[derive(Debug, Clone)]
pub(crate) struct Scope {
    /// Folders that never leave this machine stay closed.
    pub(crate) outward: bool,
    may: Arc<May>,
    /// Whose rights to files count; `None`: those of the person whose home it is.
    pub(crate) reader: Option<Arc<Reader>>,
    /// Whether shared libraries may be named. A program that reads as nobody in particular sees the home alone: what
    /// others share has rights of its own.
    pub(crate) shared: bool,
}

/// Whoever asks.
#[derive(Debug, Clone)]
pub(crate) struct Who {
    /// What the person calls it, or what it calls itself.
    pub(crate) name: String,
    /// The person has given it this name.
    pub(crate) known: bool,
    pub(crate) scope: Scope,
}

impl Scope {
    /// What the person has said of a program: what it may do, and whose rights it has; `outward`: folders that never
    /// leave this machine stay closed.
    pub(crate) fn of(may: May, reader: Option<Reader>, outward: bool) -> Scope {
        let shared = reader.is_some();
        Scope { outward, may: Arc::new(may), reader: reader.map(Arc::new), shared }
    }

    /// Everything.
    pub(crate) fn whole(outward: bool) -> Scope {
        Scope { outward, may: Arc::default(), reader: None, shared: true }
    }

    /// What `may` says.
    #[cfg(test)]
    pub(crate) fn new(outward: bool, may: Arc<May>) -> Scope {
        Scope { outward, may, reader: None, shared: false }
    }

    /// Whom passages are for.
    pub(crate) fn audience(&self) -> Audience {
        Audience { outward: self.outward, reader: self.reader() }
    }

    /// Whose rights to files count.
    pub(crate) fn reader(&self) -> Option<Reader> {
        self.reader.as_deref().cloned()
    }

    /// The libraries of these names, where they may be asked for; of none it is the home.
    pub(crate) fn libraries(&self, names: &[String]) -> Result<Libraries> {
        let libraries = Libraries::of(names);
        if libraries == Libraries::Home || self.shared {
            return Ok(libraries);
        }
        Err(Error::NotAllowed(
            "shared libraries are for programs of which the person has said as whom they read"
                .to_owned(),
        ))
    }

    /// Folders that may be seen; empty: all.
    pub(crate) fn folders(&self) -> &[PathBuf] {
        &self.may.folders
    }

    /// Whether a file may be seen, as far as folders and kinds say.
    pub(crate) fn sees(&self, path: &Path, kind: FileKind) -> bool {
        self.may.see(path, kind)
    }

    /// Whether this may be asked.
    pub(crate) fn allows(&self, tool: &str) -> Result<()> {
        if self.may.ask(tool) {
            return Ok(());
        }
        Err(Error::NotAllowed(format!(
            "`{tool}` is none of what this program may ask: {}",
            self.may.tools.join(", ")
        )))
    }

    /// The conditions of a search, and ours.
    pub(crate) fn narrow(&self, mut filter: Filter) -> Result<Filter> {
        let none = || Error::NotAllowed("none of what is asked for may be seen".to_owned());
        let text = |it: &PathBuf| it.to_string_lossy().into_owned();
        if !self.may.folders.is_empty() {
            filter.folders = if filter.folders.is_empty() {
                self.may.folders.iter().map(text).collect()
            } else {
                common(&filter.folders, &self.may.folders)
            };
            if filter.folders.is_empty() {
                return Err(none());
            }
        }
        if !self.may.types.is_empty() {
            if filter.kinds.is_empty() {
                filter.kinds.clone_from(&self.may.types);
            } else {
                filter.kinds.retain(|it| self.may.types.contains(it));
            }
            if filter.kinds.is_empty() {
                return Err(none());
            }
        }
        Ok(filter)
    }
}

/// Of each pair the inner folder, where one is in the other.
fn common(asked: &[String], allowed: &[PathBuf]) -> Vec<String> {
    let mut inner = Vec::new();
    for one in asked {
        for other in allowed {
            if Path::new(one).starts_with(other) {
                inner.push(one.clone());
            } else if other.starts_with(one) {
                inner.push(other.to_string_lossy().into_owned());
            }
        }
    }
    inner.sort_unstable();
    inner.dedup();
    inner
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scope(folders: &[&str], types: &[FileKind]) -> Scope {
        let may = May {
            folders: folders.iter().map(PathBuf::from).collect(),
            types: types.to_vec(),
            ..May::default()
        };
        Scope::new(true, Arc::new(may))
    }

    fn asked(folders: &[&str], kinds: &[FileKind]) -> Filter {
        let folders = folders.iter().map(|it| (*it).to_owned()).collect();
        Filter { folders, kinds: kinds.to_vec(), ..Filter::default() }
    }

    #[test]
    fn conditions_only_become_narrower() {
        let scope = scope(&["/n/a", "/n/b"], &[FileKind::Pdf]);
        let narrow = |filter| scope.narrow(filter).map(|it| (it.folders, it.kinds));
        let both = vec!["/n/a".to_owned(), "/n/b".to_owned()];
        assert_eq!(
            narrow(asked(&[], &[])).expect("all of it"),
            (both.clone(), vec![FileKind::Pdf])
        );
        assert_eq!(narrow(asked(&["/n"], &[])).expect("inside").0, both);
        assert_eq!(narrow(asked(&["/n/a/x"], &[])).expect("below").0, ["/n/a/x"]);
        assert!(narrow(asked(&["/m", "/n/ab"], &[])).is_err());
        assert!(narrow(asked(&[], &[FileKind::Code])).is_err());
        assert!(scope.allows("search").is_ok());
        let filter = asked(&["/m"], &[]);
        assert_eq!(Scope::whole(true).narrow(filter.clone()).expect("as it is"), filter);
    }

    proptest! {
        /// Whatever is asked for, what passes the narrowed conditions may be seen.
        #[test]
        fn nothing_outside_passes(
            allowed in prop::collection::vec("(/[ab]){1,3}", 1..4),
            asked in prop::collection::vec("(/[ab]){1,3}", 0..4),
            file in "(/[ab]){1,5}",
        ) {
            let folders: Vec<&str> = allowed.iter().map(String::as_str).collect();
            let scope = scope(&folders, &[]);
            let asked = Filter { folders: asked, ..Filter::default() };
            let file = Path::new(&file);
            let passes = |filter: &Filter| {
                filter.folders.is_empty() || filter.folders.iter().any(|it| file.starts_with(it))
            };
            let wanted = passes(&asked) && scope.sees(file, FileKind::Text);
            let given = scope.narrow(asked).is_ok_and(|it| passes(&it));
            prop_assert_eq!(given, wanted);
        }
    }
}
