//! POSIX access lists (POSIX.1e draft 17, section 23), as Linux keeps them in the extended attribute
//! `system.posix_acl_access`: a version, then entries of eight bytes, all little-endian.
//! `include/uapi/linux/posix_acl_xattr.h`

use std::collections::BTreeMap;

use riddle_types::Level;

use super::names::Names;

/// The version that there is.
const VERSION: u32 = 2;

/// Bytes of the version, and of an entry.
const HEAD: usize = 4;
const ENTRY: usize = 8;

/// Kinds of entries.
const USER_OBJ: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

/// Rights of the classes and of those who are named, three bits each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct List {
    owner: u16,
    group: u16,
    other: u16,
    /// What those who are named, and the owning group, have at most.
    mask: Option<u16>,
    users: BTreeMap<u32, u16>,
    groups: BTreeMap<u32, u16>,
}

impl List {
    /// Without a list mode bits say it all.
    pub(super) fn of_mode(mode: u32) -> List {
        let class = |shift: u32| ((mode >> shift) & 0o7) as u16;
        List { owner: class(6), group: class(3), other: class(0), ..List::default() }
    }

    /// Reads an attribute; `None`: it is none of this kind. Each class has to be there once, and a mask where anybody
    /// is named.
    pub(super) fn parse(bytes: &[u8]) -> Option<List> {
        let (head, rest) = bytes.split_at_checked(HEAD)?;
        if u32::from_le_bytes(head.try_into().ok()?) != VERSION || rest.len() % ENTRY != 0 {
            return None;
        }
        let mut list = List::default();
        let (mut owner, mut group, mut other) = (None, None, None);
        for entry in rest.chunks_exact(ENTRY) {
            let tag = u16::from_le_bytes([entry[0], entry[1]]);
            let rights = u16::from_le_bytes([entry[2], entry[3]]);
            let id = u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]);
            if rights > 0o7 {
                return None;
            }
            let before = match tag {
                USER_OBJ => owner.replace(rights),
                GROUP_OBJ => group.replace(rights),
                OTHER => other.replace(rights),
                MASK => list.mask.replace(rights),
                USER => list.users.insert(id, rights),
                GROUP => list.groups.insert(id, rights),
                _ => return None,
            };
            if before.is_some() {
                return None;
            }
        }
        let is_named = !list.users.is_empty() || !list.groups.is_empty();
        if is_named && list.mask.is_none() {
            return None;
        }
        (list.owner, list.group, list.other) = (owner?, group?, other?);
        Some(list)
    }

    /// Who has the right `bit` to what belongs to `owner` and `group`. Where two numbers have one name, both have to.
    pub(super) fn level(&self, bit: u16, owner: u32, group: u32, names: &mut Names) -> Level {
        let mask = self.mask.unwrap_or(0o7);
        let has = |rights: u16| rights & bit != 0;
        // The owner is judged as that, named or not; so is the owning group, which one entry of two is enough for.
        let mut users: BTreeMap<u32, bool> =
            self.users.iter().map(|(id, rights)| (*id, has(rights & mask))).collect();
        users.insert(owner, has(self.owner));
        let mut groups: BTreeMap<u32, bool> =
            self.groups.iter().map(|(id, rights)| (*id, has(rights & mask))).collect();
        *groups.entry(group).or_default() |= has(self.group & mask);
        let mut level = Level { others: has(self.other), ..Level::default() };
        for (id, may) in users {
            *level.users.entry(names.user(id)).or_insert(true) &= may;
        }
        for (id, may) in groups {
            *level.groups.entry(names.group(id)).or_insert(true) &= may;
        }
        level
    }
}

/// Largest attribute that Linux has.
#[cfg(target_os = "linux")]
const LARGEST: usize = 64 << 10;

/// Attributes of access lists of other kinds: where one is, mode bits do not say who may.
#[cfg(target_os = "linux")]
const OTHER_KINDS: [&std::ffi::CStr; 4] =
    [c"system.nfs4_acl", c"system.richacl", c"system.cifs_acl", c"system.cifs_ntsd"];

/// The access list of a file or folder; `None`: it has none beside its mode.
///
/// # Errors
/// When it can not be read, or is broken.
#[cfg(target_os = "linux")]
pub(super) fn of(path: &std::path::Path) -> std::io::Result<Option<List>> {
    let mut bytes = vec![0; LARGEST];
    let length = match attribute(path, c"system.posix_acl_access", &mut bytes) {
        Ok(length) => length,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    let list = bytes.get(..length).and_then(List::parse);
    list.map(Some).ok_or_else(|| std::io::ErrorKind::InvalidData.into())
}

/// Whether there is an access list that is not understood here; what can not be told counts as one.
#[cfg(target_os = "linux")]
pub(super) fn is_of_another_kind(path: &std::path::Path) -> bool {
    OTHER_KINDS.iter().any(|name| match attribute(path, name, &mut []) {
        Ok(_) => true,
        Err(error) => !is_absent(&error),
    })
}

/// Not there, or not known to this file system.
#[cfg(target_os = "linux")]
fn is_absent(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENODATA | libc::EOPNOTSUPP))
}

/// Reads an attribute into `bytes`; its length. With no room only the length is told.
#[cfg(target_os = "linux")]
fn attribute(
    path: &std::path::Path,
    name: &std::ffi::CStr,
    bytes: &mut [u8],
) -> std::io::Result<usize> {
    use std::os::unix::ffi::OsStrExt as _;
    let path = std::ffi::CString::new(path.as_os_str().as_bytes())?;
    let (to, room) = (bytes.as_mut_ptr().cast::<libc::c_void>(), bytes.len());
    // SAFETY: both names end in NUL and live through the call, which writes at most `room` bytes to `to`.
    let length = unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), to, room) };
    usize::try_from(length).map_err(|_| std::io::Error::last_os_error())
}
