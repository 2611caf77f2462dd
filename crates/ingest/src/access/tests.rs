//! Rights as they are read here, beside a twin that decides as the standard says it, and beside the system itself.

use std::{
    collections::HashMap,
    ffi::CString,
    fs,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{PermissionsExt as _, chown, symlink},
        process::CommandExt as _,
    },
    process::{Command, Stdio},
};

use proptest::prelude::*;
use riddle_types::{Reader, Rule};

use super::{
    Access, Asked,
    acl::{self, List},
    names::Names,
};

/// An entry as it is kept: kind, rights, number.
type Entry = (u16, u16, u32);

/// No number.
const NONE: u32 = u32::MAX;

/// A file or folder: its owner, group and mode, and those who are named, if it has a list.
#[derive(Debug, Clone)]
struct Node {
    owner: u32,
    group: u32,
    mode: u16,
    named: Option<Named>,
}

#[derive(Debug, Clone)]
struct Named {
    mask: u16,
    users: Vec<(u32, u16)>,
    groups: Vec<(u32, u16)>,
}

impl Node {
    fn class(&self, shift: u16) -> u16 {
        (self.mode >> shift) & 7
    }

    fn entries(&self) -> Vec<Entry> {
        let mut all = vec![(0x01, self.class(6), NONE)];
        let named = self.named.as_ref();
        all.extend(named.iter().flat_map(|it| it.users.iter().map(|it| (0x02, it.1, it.0))));
        all.push((0x04, self.class(3), NONE));
        all.extend(named.iter().flat_map(|it| it.groups.iter().map(|it| (0x08, it.1, it.0))));
        all.extend(named.map(|it| (0x10, it.mask, NONE)));
        all.push((0x20, self.class(0), NONE));
        all
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = 2_u32.to_le_bytes().to_vec();
        for (kind, rights, id) in self.entries() {
            bytes.extend(kind.to_le_bytes());
            bytes.extend(rights.to_le_bytes());
            bytes.extend(id.to_le_bytes());
        }
        bytes
    }

    /// POSIX.1e, 23.1.5: entries are walked in their order, the first that is about the user decides.
    fn allows(&self, bit: u16, user: u32, groups: &[u32]) -> bool {
        let entries = self.entries();
        let mask = entries.iter().find(|it| it.0 == 0x10).map_or(7, |it| it.1);
        let mut in_a_group = false;
        for (kind, rights, id) in entries {
            match kind {
                0x01 if user == self.owner => return rights & bit != 0,
                0x02 if user == id => return rights & mask & bit != 0,
                0x04 | 0x08 => {
                    let id = if kind == 0x04 { self.group } else { id };
                    if groups.contains(&id) {
                        in_a_group = true;
                        if rights & mask & bit != 0 {
                            return true;
                        }
                    }
                }
                0x20 => return !in_a_group && rights & bit != 0,
                _ => {}
            }
        }
        false
    }
}

/// Few numbers, so that they meet; each once in a list.
fn named() -> impl Strategy<Value = Named> {
    let some = || prop::collection::btree_map(0_u32..6, 0_u16..8, 0..4);
    (0_u16..8, some(), some()).prop_map(|(mask, users, groups)| Named {
        mask,
        users: users.into_iter().collect(),
        groups: groups.into_iter().collect(),
    })
}

fn node() -> impl Strategy<Value = Node> {
    (0_u32..6, 0_u32..6, 0_u16..0o1000, prop::option::of(named()))
        .prop_map(|(owner, group, mode, named)| Node { owner, group, mode, named })
}

fn rule(path: &[Node], names: &mut Names) -> Rule {
    let last = path.len() - 1;
    let level = |(place, node): (usize, &Node)| {
        let asked = if place == last { Asked::Read } else { Asked::Pass };
        let list = match &node.named {
            Some(_) => List::parse(&node.bytes()).expect("a list"),
            None => List::of_mode(u32::from(node.mode)),
        };
        list.level(asked.bit(), node.owner, node.group, names)
    };
    Rule::of(path.iter().enumerate().map(level))
}

fn numbered(letter: char) -> Option<HashMap<u32, String>> {
    Some((0..6).map(|it| (it, format!("{letter}{it}"))).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]
    #[test]
    fn whoever_may_read_is_who_the_standard_lets_read(
        path in prop::collection::vec(node(), 1..4),
        user in 0_u32..7,
        groups in prop::collection::vec(0_u32..7, 0..4),
    ) {
        let mut names = Names { users: numbered('u'), groups: numbered('g') };
        let rule = rule(&path, &mut names);
        let reader = Reader {
            user: format!("u{user}"),
            groups: groups.iter().map(|it| format!("g{it}")).collect(),
        };
        let (last, folders) = path.split_last().expect("a file");
        let wanted = folders.iter().all(|it| it.allows(1, user, &groups))
            && last.allows(4, user, &groups);
        prop_assert_eq!(rule.admits(&reader), wanted, "{:?} of {:?}", rule, reader);
    }

    #[test]
    fn no_bytes_are_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let _ = List::parse(&bytes);
    }
}

#[test]
fn what_is_no_list_is_refused() {
    let node = Node {
        owner: 1,
        group: 1,
        mode: 0o640,
        named: Some(Named { mask: 7, users: vec![(3, 4)], groups: vec![] }),
    };
    let good = node.bytes();
    assert!(List::parse(&good).is_some());
    let without = |kind: u16| {
        let mut bytes = good[..4].to_vec();
        for entry in good[4..].chunks(8).filter(|it| it[0] != kind as u8) {
            bytes.extend_from_slice(entry);
        }
        bytes
    };
    for kind in [0x01, 0x04, 0x10, 0x20] {
        assert_eq!(List::parse(&without(kind)), None, "without {kind:#x}");
    }
    assert!(List::parse(&without(0x02)).is_some(), "nobody need be named");
    let twice = [good.as_slice(), &good[4..12]].concat();
    let (mut version, mut kind, mut rights) = (good.clone(), good.clone(), good.clone());
    (version[0], kind[4], rights[6]) = (3, 0x40, 8);
    for bad in [&twice, &version, &kind, &rights, &good[..9].to_vec(), &Vec::new()] {
        assert_eq!(List::parse(bad), None, "{bad:?}");
    }
}

#[test]
fn what_can_not_be_looked_at_and_what_lies_behind_a_link_is_nobodys() {
    let root = tempfile::tempdir().expect("a folder");
    let elsewhere = tempfile::tempdir().expect("a folder");
    for folder in [root.path(), elsewhere.path()] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("changed");
        fs::write(folder.join("a.txt"), "x").expect("written");
    }
    symlink(elsewhere.path(), root.path().join("out")).expect("linked");
    symlink(root.path().join("a.txt"), root.path().join("b.txt")).expect("linked");
    let mut access = Access::new();
    let mut rule = |below: &str| access.rule(root.path(), &root.path().join(below));
    assert_eq!(rule("a.txt"), Rule::of([]), "everybody reads it");
    for none in ["b.txt", "out/a.txt", "gone.txt", "", "gone/a.txt"] {
        assert_eq!(rule(none), Rule::Nobody, "{none}");
    }
    assert_eq!(access.rule(root.path(), &elsewhere.path().join("a.txt")), Rule::Nobody);
    let climbing = root.path().join("..").join("a.txt");
    assert_eq!(access.rule(root.path(), &climbing), Rule::Nobody);
    let linked = elsewhere.path().join("root");
    symlink(root.path(), &linked).expect("linked");
    assert_eq!(access.rule(&linked, &linked.join("a.txt")), Rule::of([]), "a root may be a link");
}

fn keep_list(path: &std::path::Path, bytes: &[u8]) -> bool {
    let path = CString::new(path.as_os_str().as_bytes()).expect("no NUL");
    let name = c"system.posix_acl_access";
    // SAFETY: both names end in NUL, and `bytes` is read only, over its whole length.
    let done = unsafe {
        libc::setxattr(path.as_ptr(), name.as_ptr(), bytes.as_ptr().cast(), bytes.len(), 0)
    };
    done == 0
}

/// The first number of users and groups that nobody has.
const FIRST: u32 = 4_000_000;

/// Gives a file or folder away, with rights that are drawn; whether it has an access list then.
fn give_away(path: &std::path::Path, random: u64) -> bool {
    let bits = |shift: u32, most: u64| (random >> shift) % most;
    let id = |shift: u32| FIRST + u32::try_from(bits(shift, 4)).expect("small");
    let rights = |shift: u32| u16::try_from(bits(shift, 8)).expect("small");
    chown(path, Some(id(0)), Some(id(3))).expect("given away");
    let mode = u16::try_from(bits(6, 0o1000)).expect("small");
    fs::set_permissions(path, fs::Permissions::from_mode(u32::from(mode))).expect("changed");
    // With no mask at all Linux looks at the mode alone, where the standard says no: we say no.
    let (mask, users, groups) =
        (rights(20).max(1), vec![(id(24), rights(27))], vec![(id(31), rights(34))]);
    let node = Node { owner: 0, group: 0, mode, named: Some(Named { mask, users, groups }) };
    bits(40, 2) == 1 && keep_list(path, &node.bytes())
}

/// Files with all kinds of rights in folders with all kinds of rights, asked for by processes of other users. The
/// system itself says who may; it knows nobody of ours by name.
#[test]
fn whoever_may_read_is_who_the_system_lets_read() {
    let base = tempfile::tempdir().expect("a folder");
    fs::set_permissions(base.path(), fs::Permissions::from_mode(0o755)).expect("changed");
    let root = base.path().join("root");
    fs::create_dir(&root).expect("made");
    fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).expect("changed");
    if chown(&root, Some(FIRST), Some(FIRST)).is_err() {
        println!("SKIPPED: only the superuser can try what other users may read");
        return;
    }
    let mut lists = 0;
    let mut paths = Vec::new();
    for (place, random) in drawn(7).take(300).enumerate() {
        let folder = root.join(format!("{}", place % 20));
        if place < 20 {
            fs::create_dir(&folder).expect("made");
        }
        let file = folder.join(format!("{place}.txt"));
        fs::write(&file, "x").expect("written");
        lists += u32::from(give_away(&file, random));
        if place < 20 {
            lists += u32::from(give_away(&folder, random.rotate_left(17)));
        }
        paths.push(file);
    }
    let mut access = Access::new();
    let rules: Vec<Rule> = paths.iter().map(|it| access.rule(&root, it)).collect();
    let mut may = 0;
    for (user, group) in [(0, 1), (1, 1), (2, 3), (3, 0), (4, 2), (4, 4)] {
        let (user, group) = (FIRST + user, FIRST + group);
        let said = readable_by(user, group, &paths);
        let reader = Reader { user: format!("#{user}"), groups: vec![format!("#{group}")] };
        for (path, rule) in paths.iter().zip(&rules) {
            let system = said.contains(&path.display().to_string());
            assert_eq!(rule.admits(&reader), system, "{}, {reader:?}: {rule:?}", path.display());
            may += u32::from(system);
        }
    }
    assert!(may > 100, "{may} pairs of 1800 may read, with {lists} lists");
    if lists == 0 {
        println!("SKIPPED: the file system keeps no access lists; mode bits alone were tried");
    }
    assert!(acl::of(&root).is_ok());
}

/// Which of the files a process of that user can read.
fn readable_by(user: u32, group: u32, paths: &[std::path::PathBuf]) -> Vec<String> {
    let script = "for file in \"$@\"; do test -r \"$file\" && echo \"$file\"; done; true";
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).args(paths).uid(user).gid(group);
    let said = command.stdin(Stdio::null()).output().expect("sh starts");
    String::from_utf8(said.stdout).expect("text").lines().map(str::to_owned).collect()
}

/// The same numbers every time (splitmix64).
fn drawn(seed: u64) -> impl Iterator<Item = u64> {
    (1_u64..).map(move |it| {
        let mut z = seed.wrapping_add(it.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}
