//! Modules that use each other are one module in two files: who reads one must read the other.
//!
//! A module and those in its folder are one house: what happens between them is theirs, and only its neighbors are
//! asked about. So a parent may use its children and they it, `mod.rs` may pass on what they define, and two files of
//! one folder may still not use each other. A use of anything below a neighbor is a use of the neighbor.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::{
    cargo::Member,
    finding::Finding,
    modules::{Modules, Path, Use},
    repository::File,
};

/// Crate, the modules of a circle, and why it may stay.
const MAY: &[(&str, &[&str], &str)] = &[
    (
        "catalog",
        &["catalog", "changes", "commit", "files", "pictures", "roots", "scan", "vectors"],
        "one type over several files: each has the part of `Catalog` that one set of tables needs",
    ),
    (
        "kernels",
        &[
            "attention",
            "blocks",
            "dispatch",
            "elementwise",
            "half_floats",
            "int8",
            "isa",
            "lanes",
            "linear",
            "matrix",
            "micro",
            "neon",
            "norm",
            "panels",
            "q4",
            "quantize",
            "scalar",
            "steps",
            "x86",
        ],
        "a registry: an operation chooses a micro-kernel for the processor, which is made for the operation's shapes",
    ),
    (
        "kernels",
        &["attention::cached", "attention::few"],
        "one operation in two files: a few tokens take another way through the same arguments",
    ),
    (
        "models",
        &["catalog", "readers"],
        "one list in two files: what reads files is long, and made of the type of the list",
    ),
    (
        "transformer",
        &[
            "bert",
            "deberta",
            "decoder",
            "gte",
            "last",
            "late",
            "model",
            "modernbert",
            "modular",
            "modules",
            "mpnet",
            "prompt",
        ],
        "a registry: `model` opens a family by its configuration, and every family implements the trait of `model`",
    ),
    (
        "transformer",
        &["tokenizer::load", "tokenizer::model", "tokenizer::wordpiece"],
        "one tokenizer over several files: the kinds of models, one of them, and the type that they are read into",
    ),
    (
        "weights",
        &["checkpoint", "store"],
        "a store is opened as a checkpoint, and is written from one",
    ),
];

/// Where the list stands.
const HERE: &str = "crates/xtask/src/rules/circles.rs";

pub(super) fn check(members: &[Member], files: &[File]) -> Vec<Finding> {
    check_but(MAY, members, files)
}

fn check_but(may: &[(&str, &[&str], &str)], members: &[Member], files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for member in members {
        let may = || may.iter().filter(|it| it.0 == member.name);
        let mut met: BTreeSet<&[&str]> = BTreeSet::new();
        for root in &member.roots {
            let modules = Modules::read(root, files);
            for circle in circles(&modules) {
                let listed = may()
                    .find(|it| circle.modules.iter().all(|module| it.1.contains(&module.as_str())));
                match listed {
                    Some(it) => {
                        met.insert(it.1);
                    }
                    None => findings.push(circle.finding()),
                }
            }
        }
        for (_, modules, _) in may().filter(|it| !met.contains(it.1)) {
            let message = format!(
                "`{}`: {} are no circle any more: take them off the list",
                member.name,
                modules.join(", ")
            );
            findings.push(Finding::error(HERE, 1, message));
        }
    }
    findings
}

/// Neighbors of which each reaches all others.
struct Circle {
    /// Their names from the crate's root.
    modules: Vec<String>,
    /// The shortest way around.
    way: Vec<Use>,
    /// Names of those on the way.
    names: Vec<String>,
}

impl Circle {
    fn finding(&self) -> Finding {
        let mut way = String::new();
        for (name, step) in self.names.iter().zip(&self.way) {
            way += &format!("{name} ({}:{}) → ", step.file, step.line);
        }
        let first = &self.way[0];
        let message = format!(
            "{} use each other: {way}{}. Move what they share into a module that both use, or say in {HERE} why the \
             circle may stay",
            self.modules.iter().map(|it| format!("`{it}`")).collect::<Vec<_>>().join(", "),
            self.names[0],
        );
        Finding::error(&first.file, first.line, message)
    }
}

/// From a neighbor to those that it uses, each with the first place that says so.
type Neighbors<'a> = BTreeMap<&'a str, BTreeMap<&'a str, &'a Use>>;

fn circles(modules: &Modules) -> Vec<Circle> {
    let mut houses: BTreeMap<&[String], Neighbors<'_>> = BTreeMap::new();
    for it in &modules.uses {
        let common = it.from.iter().zip(&it.to).take_while(|(a, b)| a == b).count();
        // A module and one that stands in its folder.
        let (Some(from), Some(to)) = (it.from.get(common), it.to.get(common)) else { continue };
        let uses = houses.entry(&it.from[..common]).or_default().entry(from).or_default();
        uses.entry(to).or_insert(it);
    }
    let mut circles = Vec::new();
    for (house, neighbors) in houses {
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        for &start in neighbors.keys() {
            if !seen.insert(start) {
                continue;
            }
            let there = reachable(&neighbors, start);
            let both: BTreeSet<&str> = there
                .iter()
                .copied()
                .filter(|it| reachable(&neighbors, it).contains(start))
                .collect();
            if both.is_empty() {
                continue;
            }
            seen.extend(&both);
            circles.push(circle(house, &neighbors, &both));
        }
    }
    circles
}

fn reachable<'a>(neighbors: &Neighbors<'a>, start: &'a str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut next: Vec<&str> = vec![start];
    while let Some(at) = next.pop() {
        let uses = neighbors.get(at).into_iter().flatten();
        next.extend(uses.map(|it| *it.0).filter(|it| found.insert(*it)));
    }
    found
}

/// The circle of `all`, with its shortest way around.
fn circle(house: &[String], neighbors: &Neighbors<'_>, all: &BTreeSet<&str>) -> Circle {
    let full = |name: &str| {
        let mut path: Path = house.to_vec();
        path.push(name.to_owned());
        path.join("::")
    };
    let ways = all.iter().filter_map(|it| way_around(neighbors, it));
    let way = ways.min_by_key(Vec::len).unwrap_or_default();
    Circle {
        modules: all.iter().map(|it| full(it)).collect(),
        names: way.iter().map(|it| full(it.0)).collect(),
        way: way.into_iter().map(|it| it.1.clone()).collect(),
    }
}

/// The shortest way from `start` back to it: who, and where it uses the next.
fn way_around<'a>(neighbors: &Neighbors<'a>, start: &'a str) -> Option<Vec<(&'a str, &'a Use)>> {
    let mut from: BTreeMap<&str, (&str, &Use)> = BTreeMap::new();
    let mut next = VecDeque::from([start]);
    while let Some(at) = next.pop_front() {
        for (&to, &it) in neighbors.get(at).into_iter().flatten() {
            if to == start {
                let mut way = vec![(at, it)];
                let mut here = at;
                while let Some(&(before, it)) = from.get(here).filter(|_| here != start) {
                    way.push((before, it));
                    here = before;
                }
                way.reverse();
                return Some(way);
            }
            if !from.contains_key(to) {
                from.insert(to, (at, it));
                next.push_back(to);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::said_of_rag;

    fn found(may: &[(&str, &[&str], &str)], files: &[(&str, &str)]) -> Vec<String> {
        said_of_rag(files, |members, files| check_but(may, members, files))
    }

    const KNOT: [(&str, &str); 4] = [
        ("src/lib.rs", "mod a;\nmod b;\nmod c;\npub use c::C;\n"),
        ("src/a.rs", "use crate::b::B;\npub struct A;\n"),
        ("src/b.rs", "\nuse crate::C;\npub struct B;\n"),
        ("src/c.rs", "pub struct C;\nfn f() -> super::a::A { super::a::A }\n"),
    ];

    #[test]
    fn a_circle_is_told_with_the_way_around() {
        let found = found(&[], &KNOT);
        assert_eq!(found.len(), 1, "{found:?}");
        let expected = "src/a.rs:1: `a`, `b`, `c` use each other: a (src/a.rs:1) → b (src/b.rs:2) → c (src/c.rs:2) → a.";
        assert!(found[0].starts_with(expected), "{found:?}");
    }

    #[test]
    fn a_listed_circle_stays_until_it_is_none() {
        let may: &[(&str, &[&str], &str)] = &[("rag", &["a", "b", "c", "d"], "a test")];
        assert_eq!(found(may, &KNOT), [""; 0]);
        // The list is for these, and not for whoever joins them.
        let two: &[(&str, &[&str], &str)] = &[("rag", &["a", "b"], "a test")];
        assert_eq!(found(two, &KNOT).len(), 2);
        let straight = [KNOT[0], KNOT[1], KNOT[2], ("src/c.rs", "pub struct C;\n")];
        let stale = found(may, &straight);
        assert!(stale.len() == 1 && stale[0].contains("no circle any more"), "{stale:?}");
        let other: &[(&str, &[&str], &str)] = &[("eval", &["a", "b"], "of another crate")];
        assert_eq!(found(other, &straight), [""; 0]);
    }

    #[test]
    fn a_folder_is_one_house_and_its_files_are_neighbors() {
        let house = [
            ("src/lib.rs", "mod a;\nmod b;\n"),
            ("src/a.rs", "mod x;\nmod y;\npub use x::X;\nstruct A;\nfn f() { y::g(); }\n"),
            ("src/a/x.rs", "use super::A;\npub struct X;\n"),
            ("src/a/y.rs", "use super::X;\npub fn g() {}\n"),
            ("src/b.rs", "use crate::a::X;\n"),
        ];
        assert_eq!(found(&[], &house), [""; 0]);
        let mut inside = house;
        inside[2].1 = "use super::{A, y::g};\npub struct X;\n";
        let told = found(&[], &inside);
        assert!(told.len() == 1 && told[0].contains("`a::x`, `a::y` use each other"), "{told:?}");
        // A room of the house reaches the neighbor who reaches the house.
        let mut around = house;
        around[3].1 = "use crate::b::B;\npub fn g() {}\n";
        let told = found(&[], &around);
        assert!(told.len() == 1 && told[0].contains("`a`, `b` use each other"), "{told:?}");
    }

    #[test]
    fn the_list_has_reasons() {
        assert!(MAY.iter().all(|it| it.1.len() > 1 && !it.2.is_empty()));
    }
}
