//! Whether indexed folders are there now, and how soon a change in them is seen.

use std::{path::Path, time::Duration};

use riddle_catalog::{Catalog, Root};
use riddle_watch::{is_on_share, is_there};

/// How often folders on network shares are looked at while folders are followed. Each look asks the server for the
/// metadata of every file: a hundred thousand take a minute or two.
pub(crate) const SHARE_RESCAN: Duration = Duration::from_secs(300);

/// Minutes between two looks at a folder whose changes nobody tells of; `None` where the system does.
pub(crate) fn looked_at_every(folder: &Path) -> Option<u64> {
    is_on_share(folder).then_some(SHARE_RESCAN.as_secs() / 60)
}

/// Where systems put disks that come and go.
const DISKS: [&str; 3] = ["/media", "/run/media", "/Volumes"];

/// Whether a folder lies on a disk that comes and goes, going by where it is: while it is away nothing else tells.
pub(crate) fn is_on_removable(folder: &Path) -> bool {
    DISKS.iter().any(|it| folder != Path::new(it) && folder.starts_with(it))
}

/// Whether a root is there now.
pub(crate) fn is_present(root: &Root) -> bool {
    root.is_virtual || is_there(&root.path, root.identity.volume_id.map(|it| it.0))
}

/// Which roots are there, for one search: each is looked at once, and only when it is asked for.
pub(crate) struct Presence<'a> {
    catalog: &'a Catalog,
    roots: Option<Vec<(Root, Option<bool>)>>,
}

impl<'a> Presence<'a> {
    pub(crate) fn of(catalog: &'a Catalog) -> Presence<'a> {
        Presence { catalog, roots: None }
    }

    /// Whether the root that a file belongs to is away. Where nothing is known it is not.
    pub(crate) fn is_away(&mut self, file: &Path) -> bool {
        let roots = self.roots.get_or_insert_with(|| {
            let roots = self.catalog.roots().unwrap_or_default();
            roots.into_iter().filter(|it| !it.is_virtual).map(|it| (it, None)).collect()
        });
        let Some((root, there)) = roots.iter_mut().find(|it| file.starts_with(&it.0.path)) else {
            return false;
        };
        // A server that is away keeps everybody waiting who asks it for a folder.
        !*there.get_or_insert_with(|| is_on_share(&root.path) || is_present(root))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn disks_that_come_and_go_are_known_by_their_places() {
        let on = |it: &str| is_on_removable(Path::new(it));
        assert!(on("/media/mira/STICK") && on("/run/media/mira/S/x") && on("/Volumes/Backup"));
        assert!(!on("/media") && !on("/mediathek/a") && !on("/home/mira/media/x") && !on(""));
    }

    #[test]
    fn a_root_that_is_away_is_known_by_its_files() {
        let dir = tempfile::tempdir().expect("temp dir");
        let catalog = Catalog::open(&dir.path().join("catalog.sqlite")).expect("opens");
        let (here, gone) = (dir.path().join("here"), dir.path().join("gone"));
        for it in [&here, &gone] {
            fs::create_dir(it).expect("made");
            catalog.add_root(it).expect("added");
        }
        catalog.add_virtual_root("memory").expect("added");
        fs::remove_dir(&gone).expect("removed");
        let mut presence = Presence::of(&catalog);
        assert!(presence.is_away(&gone.join("a/b.txt")));
        assert!(!presence.is_away(&here.join("not there itself.txt")), "the root is looked at");
        assert!(!presence.is_away(&dir.path().join("elsewhere.txt")));
        assert!(!presence.is_away(Path::new("memory")));
        fs::create_dir(&gone).expect("back");
        assert!(presence.is_away(&gone.join("c.txt")), "looked at once");
        assert!(!Presence::of(&catalog).is_away(&gone.join("c.txt")));
    }
}
