//! The rooms of a crate, in an order: a room uses only those before it.
//!
//! `docs/ARCHITECTURE.md` draws them. The crate's root may use all of them, and is used by none: what it passes on is
//! asked for where it is defined.

use crate::{cargo::Member, finding::Finding, modules::Modules, repository::File};

/// Crate, and its rooms in their order.
const ORDER: &[(&str, &[&str])] =
    &[("rag", &["stage", "contract", "home", "index", "search", "answer"])];

/// Where the order stands.
const HERE: &str = "ORDER in crates/xtask/src/rules/rooms.rs";

pub(super) fn check(members: &[Member], files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, rooms) in ORDER {
        for member in members.iter().filter(|it| it.name == *name) {
            for root in &member.roots {
                findings.extend(out_of_order(name, rooms, &Modules::read(root, files)));
            }
        }
    }
    findings
}

fn out_of_order(name: &str, rooms: &[&str], modules: &Modules) -> Vec<Finding> {
    let mut findings = Vec::new();
    let place = |it: &str| rooms.iter().position(|room| *room == it);
    for (path, file) in &modules.files {
        if let [room] = path.as_slice()
            && place(room).is_none()
        {
            let message = format!(
                "`{room}` is no room of `{name}`: put it into one, or give it a place in {HERE}"
            );
            findings.push(Finding::error(file, 1, message));
        }
    }
    for it in &modules.uses {
        let (Some(from), to) = (it.from.first(), it.to.first()) else { continue };
        let Some(from_place) = place(from) else { continue };
        let message = match to {
            None => format!(
                "`{from}` uses the root of `{name}`, which knows all rooms: move what it uses into a room"
            ),
            Some(to) if place(to).is_some_and(|it| it > from_place) => format!(
                "`{from}` uses `{to}`, and comes before it: rooms of `{name}` use those before them ({})",
                rooms.join(", ")
            ),
            Some(_) => continue,
        };
        findings.push(Finding::error(&it.file, it.line, message));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::said_of_rag;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        said_of_rag(files, check)
    }

    const ROOT: &str = "mod answer;\nmod contract;\nmod home;\npub use answer::Event;\n\
                        pub mod records {\n    pub use crate::home::Records;\n}\npub fn version() {}\n";

    #[test]
    fn a_room_uses_those_before_it() {
        let files = [
            ("src/lib.rs", ROOT),
            ("src/contract.rs", "pub struct Request;\n"),
            ("src/home.rs", "pub struct Records;\nuse crate::contract::Request;\n"),
            ("src/answer/mod.rs", "mod ask;\npub struct Event;\nuse crate::{contract, home};\n"),
            ("src/answer/ask.rs", "use super::Event;\nuse crate::records::Records;\n"),
        ];
        assert_eq!(found(&files), [""; 0]);
    }

    #[test]
    fn whoever_looks_ahead_is_told_whatever_way_he_takes() {
        for source in [
            "\nuse crate::answer::Event;\n",
            "\nuse crate::Event;\n",
            "\nfn f() -> super::answer::Event { panic!() }\n",
            "\nuse crate::{answer::{self}};\n",
        ] {
            let files = [
                ("src/lib.rs", ROOT),
                ("src/contract.rs", source),
                ("src/home.rs", "pub struct Records;\n"),
                ("src/answer.rs", "pub struct Event;\n"),
            ];
            let found = found(&files);
            assert_eq!(found.len(), 1, "{source}: {found:?}");
            assert!(
                found[0].starts_with("src/contract.rs:2: `contract` uses `answer`"),
                "{found:?}"
            );
        }
        let below = [
            ("src/lib.rs", "mod contract;\nmod home;\n"),
            ("src/contract.rs", "mod notice;\n"),
            ("src/contract/notice.rs", "use crate::home::settings::Place;\n"),
            ("src/home.rs", "pub mod settings;\n"),
            ("src/home/settings.rs", "pub struct Place;\n"),
        ];
        assert!(found(&below)[0].starts_with("src/contract/notice.rs:1: `contract` uses `home`"));
    }

    #[test]
    fn the_root_is_nobodys_room_and_every_module_has_one() {
        let files = [
            ("src/lib.rs", "mod contract;\nmod shiny;\npub fn version() {}\n"),
            ("src/contract.rs", "fn f() { crate::version(); }\n"),
            ("src/shiny.rs", ""),
        ];
        let found = found(&files);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("`shiny` is no room"), "{found:?}");
        assert!(found[1].starts_with("src/contract.rs:1: `contract` uses the root"), "{found:?}");
    }
}
