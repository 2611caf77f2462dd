//! What is mounted where, as Linux tells it. Nothing of a file system is asked: one whose server is away would not
//! answer.

use std::{
    collections::HashMap,
    ffi::OsString,
    os::unix::ffi::OsStringExt as _,
    path::{Path, PathBuf},
};

use riddle_types::FolderPlace;

/// Where the kernel lists the mounts of a process (proc(5)).
const LIST: &str = "/proc/self/mountinfo";

/// Where udev links the file systems of disks by their UUIDs.
const DISKS: &str = "/dev/disk/by-uuid";

/// File systems whose files are on another machine, or are the host's of a virtual one: no event tells of what is
/// written there.
const SHARES: [&str; 20] = [
    "9p",
    "afs",
    "ceph",
    "cifs",
    "coda",
    "fuse.davfs",
    "fuse.glusterfs",
    "fuse.gvfsd-fuse",
    "fuse.rclone",
    "fuse.s3fs",
    "fuse.sshfs",
    "fuse.vmhgfs-fuse",
    "lustre",
    "ncpfs",
    "nfs",
    "nfs4",
    "smb3",
    "smbfs",
    "vboxsf",
    "virtiofs",
];

/// A mounted file system, or a part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mount {
    /// What of the file system is mounted, from its own root on.
    within: PathBuf,
    point: PathBuf,
    kind: String,
    /// A device or a share's address.
    source: PathBuf,
}

/// All mounts of this process.
pub(crate) struct Mounts {
    all: Vec<Mount>,
    disks: PathBuf,
}

impl Mounts {
    pub(crate) fn read() -> Mounts {
        let list = std::fs::read(LIST).unwrap_or_default();
        Mounts { all: parse(&list), disks: DISKS.into() }
    }

    /// The mount that a path without links lies in.
    fn of(&self, path: &Path) -> Option<&Mount> {
        let around = self.all.iter().filter(|it| path.starts_with(&it.point));
        // Of several in one place the last lies over the others, and `max_by_key` gives the last.
        around.max_by_key(|it| it.point.components().count())
    }

    /// Whether a folder is on a network share.
    pub(crate) fn is_share(&self, folder: &Path) -> bool {
        self.of(folder).is_some_and(|it| SHARES.contains(&it.kind.as_str()))
    }

    /// Where a folder lies on its disk or share.
    pub(crate) fn place_of(&self, folder: &Path) -> Option<FolderPlace> {
        let mount = self.of(folder)?;
        let below = folder.strip_prefix(&mount.point).ok()?;
        let file_system = self.name_of(mount, &disks_in(&self.disks))?;
        Some(FolderPlace { file_system, within: joined(&mount.within, below) })
    }

    /// Where a place of a disk or share can be reached now.
    pub(crate) fn paths_to(&self, place: &FolderPlace) -> Vec<PathBuf> {
        let disks = disks_in(&self.disks);
        let mut paths: Vec<PathBuf> = Vec::new();
        for mount in &self.all {
            if let Ok(below) = place.within.strip_prefix(&mount.within)
                && self.name_of(mount, &disks).is_some_and(|it| it == place.file_system)
            {
                paths.push(joined(&mount.point, below));
            }
        }
        // What another file system lies over is not what is found there.
        paths.retain(|it| self.place_of(it).as_ref() == Some(place));
        paths.sort();
        paths.dedup();
        paths
    }

    fn name_of(&self, mount: &Mount, disks: &HashMap<PathBuf, String>) -> Option<String> {
        if SHARES.contains(&mount.kind.as_str()) {
            // `server:/folder`, `//server/share`; all else is a word that anybody may choose.
            let address = mount.source.to_str()?;
            let is_address = address.contains(':') || address.starts_with("//");
            return is_address.then(|| address.to_owned());
        }
        let device = mount.source.is_absolute().then(|| mount.source.canonicalize().ok())??;
        disks.get(&device).cloned()
    }
}

/// Disks by their devices, with their UUIDs.
fn disks_in(folder: &Path) -> HashMap<PathBuf, String> {
    let links = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let disk = |it: std::fs::DirEntry| {
        Some((it.path().canonicalize().ok()?, it.file_name().into_string().ok()?))
    };
    links.filter_map(disk).collect()
}

/// `path` itself for an empty rest, without a slash at its end.
fn joined(path: &Path, below: &Path) -> PathBuf {
    if below.as_os_str().is_empty() { path.to_path_buf() } else { path.join(below) }
}

/// Lines that are not understood are passed over.
fn parse(list: &[u8]) -> Vec<Mount> {
    list.split(|it| *it == b'\n').filter_map(mount).collect()
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/sda1 rw`: any number of fields stands before the dash.
fn mount(line: &[u8]) -> Option<Mount> {
    let fields: Vec<&[u8]> = line.split(|it| *it == b' ').collect();
    let dash = 6 + fields.get(6..)?.iter().position(|it| *it == b"-")?;
    let path = |at: usize| Some(PathBuf::from(unescaped(fields.get(at)?)));
    Some(Mount {
        within: path(3)?,
        point: path(4)?,
        kind: String::from_utf8(fields.get(dash + 1)?.to_vec()).ok()?,
        source: path(dash + 2)?,
    })
}

/// White space and backslashes are written as three octal digits.
fn unescaped(field: &[u8]) -> OsString {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, behind)) = rest.split_first() {
        match (first, behind) {
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..]) => {
                bytes.push(((a - b'0') << 6) | ((b - b'0') << 3) | (c - b'0'));
                rest = after;
            }
            _ => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn mounts(list: &str, disks: &Path) -> Mounts {
        Mounts { all: parse(list.as_bytes()), disks: disks.to_path_buf() }
    }

    const LISTED: &str = "\
22 27 0:21 / / rw,relatime shared:1 - ext4 /dev/no/such/disk rw
23 22 0:50 / /mnt/our\\040files rw,relatime shared:7 master:2 - nfs4 nas:/export/files rw,vers=4.2
24 22 0:51 / /home/ada/nas rw - fuse.sshfs ada@nas:docs rw
25 22 0:52 / /host rw - 9p hostshare rw
26 22 0:53 /sub /mnt/win rw - cifs //nas/docs rw
27 22 0:54 / /home/ada/nas/local rw - tmpfs tmpfs rw
not a line
28 22";

    #[test]
    fn shares_are_told_from_disks() {
        let mounts = mounts(LISTED, Path::new("/no/such/folder"));
        assert_eq!(mounts.all.len(), 6);
        for there in ["/mnt/our files/a/b", "/home/ada/nas", "/host/x", "/mnt/win"] {
            assert!(mounts.is_share(Path::new(there)), "{there}");
        }
        for here in ["/", "/mnt", "/mnt/our", "/home/ada/nasty", "/home/ada/nas/local/x", "gone"] {
            assert!(!mounts.is_share(Path::new(here)), "{here}");
        }
        // What is mounted over another is what is there.
        let over = format!("{LISTED}\n29 22 0:55 / /host rw - ext4 /dev/x rw");
        assert!(!self::mounts(&over, Path::new("/no")).is_share(Path::new("/host/x")));
    }

    #[test]
    fn a_share_has_its_address_for_a_name_and_a_word_is_none() {
        let mounts = mounts(LISTED, Path::new("/no/such/folder"));
        let place = |it: &str| mounts.place_of(Path::new(it));
        let of = |file_system: &str, within: &str| {
            Some(FolderPlace { file_system: file_system.to_owned(), within: within.into() })
        };
        assert_eq!(place("/mnt/our files/a"), of("nas:/export/files", "/a"));
        assert_eq!(place("/mnt/win/a"), of("//nas/docs", "/sub/a"));
        assert_eq!(place("/mnt/win"), of("//nas/docs", "/sub"));
        assert_eq!((place("/host/a"), place("/home/ada/a")), (None, None));
    }

    #[test]
    fn a_disk_is_found_by_its_uuid_wherever_it_is_mounted() {
        let dev = tempfile::tempdir().expect("temp dir");
        let dev = dev.path().canonicalize().expect("path");
        let (disk, disks) = (dev.join("sdb1"), dev.join("by-uuid"));
        fs::write(&disk, "").expect("a device");
        fs::create_dir(&disks).expect("folder");
        std::os::unix::fs::symlink("../sdb1", disks.join("12AB-34CD")).expect("link");
        std::os::unix::fs::symlink("../gone", disks.join("dangling")).expect("link");
        let device = disk.display();
        let mounts = mounts(
            &format!(
                "1 0 8:17 / /media/ada/STICK rw - vfat {device} rw\n\
                 2 0 8:17 /docs /srv/docs rw - vfat {device} rw\n\
                 3 0 8:18 / /media/ada/OTHER rw - vfat {device}2 rw"
            ),
            &disks,
        );
        let place = |it: &str| mounts.place_of(Path::new(it));
        let docs =
            FolderPlace { file_system: "12AB-34CD".to_owned(), within: PathBuf::from("/docs/a") };
        assert_eq!(place("/media/ada/STICK/docs/a"), Some(docs.clone()));
        assert_eq!(place("/srv/docs/a"), Some(docs.clone()));
        assert_eq!(place("/media/ada/OTHER/docs/a"), None);
        let paths = mounts.paths_to(&docs);
        assert_eq!(paths, [Path::new("/media/ada/STICK/docs/a"), Path::new("/srv/docs/a")]);
    }

    #[test]
    fn a_place_is_reached_by_every_mount_of_it() {
        let twice = format!(
            "{LISTED}\n30 22 0:50 / /srv rw - nfs4 nas:/export/files rw\n\
             31 30 0:60 / /srv/hidden rw - tmpfs tmpfs rw\n\
             32 22 0:50 /a /only/a rw - nfs4 nas:/export/files rw"
        );
        let mounts = mounts(&twice, Path::new("/no/such/folder"));
        let paths = |within: &str| {
            mounts.paths_to(&FolderPlace {
                file_system: "nas:/export/files".to_owned(),
                within: within.into(),
            })
        };
        assert_eq!(
            paths("/b").iter().map(|it| it.as_path()).collect::<Vec<_>>(),
            [Path::new("/mnt/our files/b"), Path::new("/srv/b")]
        );
        assert_eq!(paths("/a/x").len(), 3);
        assert_eq!(paths("/hidden/x"), [Path::new("/mnt/our files/hidden/x")]);
        let other = FolderPlace { file_system: "nas:/other".to_owned(), within: "/b".into() };
        assert_eq!(mounts.paths_to(&other), Vec::<PathBuf>::new());
    }

    #[test]
    fn odd_lists_are_read_as_far_as_they_go() {
        for odd in ["", "-", "1 2 3 4 5 6 -", "1 2 3 4 5 6 - x", "a b c d e f g h i j", "\\"] {
            assert_eq!(parse(odd.as_bytes()), [], "{odd:?}");
        }
        assert_eq!(unescaped(b"a\\040b\\134\\0\\999\\"), "a b\\\\0\\999\\");
        assert_eq!(unescaped(b"\\377\\400").into_vec(), b"\xff\\400");
    }
}
