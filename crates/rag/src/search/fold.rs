//! Passages that say the same, shown once.
//!
//! *Copies* are the very same text in several files. *Versions* are nearly the same text: the resemblance of their runs
//! of three words (Broder 1997, *On the resemblance and containment of documents*, w = 3) is 0.75 or more, and what
//! differs is wording. Where a number differs, a negation, or one name stands in the place of another, both are shown:
//! two bills from one template are no versions of each other, and of two offers the reader wants to see both prices.
//! So are two of which one has a word of the question and the other has not: that word tells them apart.

mod sketch;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use riddle_catalog::ChunkRecord;
use riddle_retrieval::{Evidence, Fused};
use riddle_types::ChunkId;

use self::sketch::{Sketch, words_asked};

/// A passage that is shown.
struct Shown {
    fused: Fused,
    fact: Evidence,
    /// Of the passage and of its versions.
    sketches: Vec<Sketch>,
}

impl Shown {
    /// Whether a passage is one more version: nearly the text of one of them, with the facts of all.
    fn has_version(&self, sketch: &Sketch) -> bool {
        self.sketches.iter().all(|it| it.has_facts_of(sketch))
            && self.sketches.iter().any(|it| it.has_words_of(sketch))
    }
}

/// Shows copies and versions once, where the first was found.
///
/// Of copies the first is shown, unless its folder is away (`is_away`) and that of another one is there; a file that is
/// in the home and in a library elsewhere is the one of the home, which can be opened; one that two computers have
/// written to a library is one. Of versions the one of the newest file is
/// shown. The others are named by [`ChunkRecord::also_in`] and [`ChunkRecord::versions`]. Of documents from memory each
/// is its own, and so is what stands twice in one file. Versions are looked for among the first `limit`, and in one
/// library.
pub(super) fn fold(
    query: &str,
    order: &mut Vec<Fused>,
    evidence: &mut Vec<Evidence>,
    records: &mut HashMap<ChunkId, ChunkRecord>,
    libraries: &HashMap<ChunkId, String>,
    limit: usize,
    is_away: &mut dyn FnMut(&Path) -> bool,
) {
    let asked = words_asked(query);
    let mut first: HashMap<[u8; 32], usize> = HashMap::new();
    let mut shown: Vec<Shown> = Vec::with_capacity(order.len());
    for (fused, fact) in std::mem::take(order).into_iter().zip(std::mem::take(evidence)) {
        let Some(record) = records.get(&fused.chunk) else { continue };
        let text = *blake3::hash(record.text.as_bytes()).as_bytes();
        if let Some(&at) = first.get(&text)
            && fold_copy(&mut shown[at], &fused, records, libraries, is_away)
        {
            continue;
        }
        let Some(record) = records.get(&fused.chunk) else { continue };
        let looked_for = shown.len() < limit && record.path.is_absolute();
        let sketch = looked_for.then(|| Sketch::of(&record.text, &asked)).flatten();
        let library = libraries.get(&fused.chunk);
        let version = sketch.as_ref().and_then(|sketch| {
            shown.iter().position(|it| {
                !it.sketches.is_empty()
                    && libraries.get(&it.fused.chunk) == library
                    && records.get(&it.fused.chunk).is_some_and(|its| its.path != record.path)
                    && it.has_version(sketch)
            })
        });
        match version {
            Some(at) => {
                first.entry(text).or_insert(at);
                fold_version(&mut shown[at], fused, fact, records);
                shown[at].sketches.extend(sketch);
            }
            None => {
                first.entry(text).or_insert(shown.len());
                shown.push(Shown { fused, fact, sketches: sketch.into_iter().collect() });
            }
        }
    }
    (*order, *evidence) = shown.into_iter().map(|it| (it.fused, it.fact)).unzip();
}

/// Whether it is a copy, and then named at the one that is shown.
fn fold_copy(
    shown: &mut Shown,
    fused: &Fused,
    records: &mut HashMap<ChunkId, ChunkRecord>,
    libraries: &HashMap<ChunkId, String>,
    is_away: &mut dyn FnMut(&Path) -> bool,
) -> bool {
    let (Some(its), Some(record)) = (records.get(&shown.fused.chunk), records.get(&fused.chunk))
    else {
        return false;
    };
    // Of what was found first; since then a newer version may be shown.
    let same = its.text == record.text;
    if its.path != record.path {
        if !record.path.is_absolute() {
            return false;
        }
        let of_home = ![shown.fused.chunk, fused.chunk].iter().any(|it| libraries.contains_key(it));
        if same && of_home && is_away(&its.path) && !is_away(&record.path) {
            show_instead(shown, fused.chunk, records);
            return true;
        }
        let path = record.path.clone();
        if let Some(its) = records.get_mut(&shown.fused.chunk) {
            name(its, path, same);
        }
        return true;
    }
    if !same {
        return false;
    }
    let (library, other) = (libraries.get(&shown.fused.chunk), libraries.get(&fused.chunk));
    if library == other {
        // Two computers write one file of theirs to one library; what stands twice in a file has two places there.
        return library.is_some() && its.ordinal == record.ordinal;
    }
    if !libraries.contains_key(&fused.chunk) {
        let (also_in, versions) = named_at(records, shown.fused.chunk);
        if let Some(record) = records.get_mut(&fused.chunk) {
            (record.also_in, record.versions) = (also_in, versions);
        }
        shown.fused.chunk = fused.chunk;
    }
    true
}

/// Shows a copy in the place of the one that is shown, and names that.
fn show_instead(shown: &mut Shown, copy: ChunkId, records: &mut HashMap<ChunkId, ChunkRecord>) {
    let Some(path) = records.get(&shown.fused.chunk).map(|it| it.path.clone()) else { return };
    let (copies, versions) = named_at(records, shown.fused.chunk);
    if let Some(record) = records.get_mut(&copy) {
        std::iter::once(path).chain(copies).for_each(|it| name(record, it, true));
        versions.into_iter().for_each(|it| name(record, it, false));
    }
    shown.fused.chunk = copy;
}

/// Shows the newer of the two, and names the other.
fn fold_version(
    shown: &mut Shown,
    fused: Fused,
    fact: Evidence,
    records: &mut HashMap<ChunkId, ChunkRecord>,
) {
    let known = |chunk: &ChunkId| records.get(chunk).map(|it| (it.modified, it.path.clone()));
    let (Some((when, path)), Some((other_when, other_path))) =
        (known(&shown.fused.chunk), known(&fused.chunk))
    else {
        return;
    };
    if other_when <= when {
        if let Some(its) = records.get_mut(&shown.fused.chunk) {
            name(its, other_path, false);
        }
        return;
    }
    // What was a copy of the older one is another version of the newer.
    let (copies, versions) = named_at(records, shown.fused.chunk);
    if let Some(newer) = records.get_mut(&fused.chunk) {
        for it in std::iter::once(path).chain(versions).chain(copies) {
            name(newer, it, false);
        }
    }
    // Its place and score are those of the one that was found first: both say the same.
    shown.fused = Fused { score: shown.fused.score, ..fused };
    shown.fact = fact;
}

/// Names another file of a passage, unless it is named already or is the passage's own.
fn name(record: &mut ChunkRecord, path: PathBuf, copy: bool) {
    if record.path != path && !record.also_in.contains(&path) && !record.versions.contains(&path) {
        if copy { record.also_in.push(path) } else { record.versions.push(path) }
    }
}

fn named_at(
    records: &mut HashMap<ChunkId, ChunkRecord>,
    chunk: ChunkId,
) -> (Vec<PathBuf>, Vec<PathBuf>) {
    records.get_mut(&chunk).map_or_else(Default::default, |it| {
        (std::mem::take(&mut it.also_in), std::mem::take(&mut it.versions))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use riddle_catalog::FileId;
    use riddle_types::{FileKind, Location};

    use super::{sketch::resemblance, *};

    const LEASE: &str = "The quay shed is let to the rowing club of Port Alder for ten years. The club repairs the \
        roof and keeps the slipway free of weed, and the town pays for the paint of the doors.";

    fn is_version(a: &str, b: &str) -> bool {
        is_version_of(a, b, "")
    }

    fn is_version_of(a: &str, b: &str, query: &str) -> bool {
        let asked = words_asked(query);
        let sketch = |it| Sketch::of(it, &asked).expect("long enough");
        let (a, b) = (sketch(a), sketch(b));
        let versions = |a: &Sketch, b: &Sketch| a.has_facts_of(b) && a.has_words_of(b);
        assert_eq!(versions(&a, &b), versions(&b, &a), "either way");
        versions(&a, &b)
    }

    #[test]
    fn other_words_are_a_version_and_other_facts_are_not() {
        assert!(is_version(LEASE, LEASE));
        assert!(is_version(LEASE, &LEASE.replace("keeps", "holds")));
        assert!(is_version(LEASE, &format!("{LEASE} This was agreed.")));
        for (from, to) in [("ten years", "10 years"), ("Alder", "Birch"), ("free", "not free")] {
            assert!(!is_version(LEASE, &LEASE.replace(from, to)), "{to}");
        }
        let priced = format!("{LEASE} It costs 120 pounds in 2031.");
        assert!(!is_version(&priced, &priced.replace("120", "130")));
        assert!(!is_version(&priced, LEASE));
        let other = LEASE.split(' ').rev().collect::<Vec<_>>().join(" ");
        assert!(!is_version(LEASE, &other));
        assert!(
            Sketch::of("The lease of the quay shed", &words_asked("")).is_none(),
            "too short to tell"
        );
    }

    #[test]
    fn a_word_of_the_question_tells_versions_apart() {
        let other = LEASE.replace("slipway", "pontoon");
        for (query, version) in [
            ("who keeps the Slipways free?", false),
            ("pontoon", false),
            ("who repairs the roof?", true),
            ("der Steg", true),
        ] {
            assert_eq!(is_version_of(LEASE, &other, query), version, "{query}");
        }
    }

    #[test]
    fn resemblance_is_the_share_of_what_both_have() {
        assert_eq!(resemblance(&[1, 2, 3], &[2, 3, 4]), 0.5);
        assert_eq!(resemblance(&[], &[]), 0.0);
    }

    /// Number, file, age and text of passages, in the order in which they were found; what is shown of them.
    fn folded(found: &[(u64, &str, i64, &str)], libraries: &[(u64, &str)]) -> Vec<ChunkRecord> {
        let record = |(id, path, modified, text): &(u64, &str, i64, &str)| ChunkRecord {
            id: ChunkId(*id),
            file: FileId(1),
            path: PathBuf::from(path),
            kind: FileKind::Text,
            modified: *modified,
            title: None,
            language: None,
            ordinal: 0,
            heading: String::new(),
            text: (*text).to_owned(),
            location: Location::Whole,
            also_in: Vec::new(),
            versions: Vec::new(),
        };
        let mut records: HashMap<ChunkId, ChunkRecord> =
            found.iter().map(|it| (ChunkId(it.0), record(it))).collect();
        let fused = |it: &(u64, &str, i64, &str)| Fused {
            chunk: ChunkId(it.0),
            score: 1.0,
            ranks: Vec::new(),
        };
        let mut order: Vec<Fused> = found.iter().map(fused).collect();
        let mut evidence = vec![Evidence::default(); order.len()];
        let libraries = libraries.iter().map(|it| (ChunkId(it.0), it.1.to_owned())).collect();
        fold("", &mut order, &mut evidence, &mut records, &libraries, 9, &mut |it| {
            it.starts_with("/away")
        });
        assert_eq!(order.len(), evidence.len());
        order.iter().map(|it| records[&it.chunk].clone()).collect()
    }

    fn paths(of: &[PathBuf]) -> Vec<&str> {
        of.iter().map(|it| it.to_str().expect("text")).collect()
    }

    #[test]
    fn the_newest_version_is_shown_where_the_first_was_found() {
        let newer = LEASE.replace("keeps", "holds");
        let newest = LEASE.replace("repairs", "mends");
        let shown = folded(
            &[
                (1, "/lease.md", 10, LEASE),
                (2, "/other.md", 10, "Nobody rows here."),
                (3, "/copy of lease.md", 11, LEASE),
                (4, "/lease 2.md", 20, &newer),
                (5, "/lease 3.md", 15, &newest),
                (6, "/old/lease.md", 9, LEASE),
                (7, "/lease 2 sent.md", 20, &newer),
            ],
            &[],
        );
        let ids: Vec<u64> = shown.iter().map(|it| it.id.0).collect();
        assert_eq!(ids, [4, 2]);
        let versions = paths(&shown[0].versions);
        assert_eq!(versions, ["/lease.md", "/copy of lease.md", "/lease 3.md", "/old/lease.md"]);
        assert_eq!(paths(&shown[0].also_in), ["/lease 2 sent.md"]);
    }

    #[test]
    fn of_copies_one_that_is_there_is_shown_before_one_that_is_away() {
        let newer = LEASE.replace("keeps", "holds");
        let found = [
            (1, "/away/lease.md", 10, LEASE),
            (2, "/away/too/lease.md", 12, LEASE),
            (3, "/b/lease.md", 10, LEASE),
            (4, "/other.md", 10, "Nobody rows here."),
            (5, "/c/lease.md", 10, LEASE),
            (6, "/away/lease old.md", 5, &newer),
        ];
        let shown = folded(&found, &[]);
        assert_eq!(shown.iter().map(|it| it.id.0).collect::<Vec<_>>(), [3, 4], "in its place");
        let copies = ["/away/lease.md", "/away/too/lease.md", "/c/lease.md"];
        assert_eq!(paths(&shown[0].also_in), copies);
        assert_eq!(paths(&shown[0].versions), ["/away/lease old.md"]);
        let ids = |found: &[(u64, &str, i64, &str)], libraries: &[(u64, &str)]| -> Vec<u64> {
            folded(found, libraries).iter().map(|it| it.id.0).collect()
        };
        // Where all are away the first is shown, and so it is where both are there.
        assert_eq!(ids(&found[..2], &[]), [1]);
        assert_eq!(ids(&[found[2], found[4]], &[]), [3]);
        // What is said of folders here says nothing of those of a library elsewhere.
        assert_eq!(ids(&[found[0], found[2]], &[(1, "team")]), [1]);
        assert_eq!(ids(&[found[0], found[2]], &[(3, "team")]), [1]);
        // The newest version is shown wherever it is.
        assert_eq!(ids(&[(1, "/b", 1, LEASE), (2, "/away/b", 2, &newer)], &[]), [2]);
    }

    #[test]
    fn a_draft_of_a_draft_is_a_version_unless_a_fact_of_the_first_is_another() {
        let [one, two, three] = [("keeps", "holds"), ("repairs", "mends"), ("doors", "gates")];
        let second = LEASE.replace(one.0, one.1);
        let third = second.replace(two.0, two.1).replace(three.0, three.1);
        assert!(is_version(&second, &third) && !is_version(LEASE, &third));
        let ids = |found: &[(u64, &str, i64, &str)]| -> Vec<u64> {
            folded(found, &[]).iter().map(|it| it.id.0).collect()
        };
        assert_eq!(ids(&[(1, "/a", 1, LEASE), (2, "/b", 2, &second), (3, "/c", 3, &third)]), [3]);
        // Each is a version of the one that names nobody, and they are none of each other.
        let unnamed = LEASE.replace("Port Alder", "the port");
        let other = LEASE.replace("Port Alder", "Port Birch");
        assert!(is_version(&unnamed, LEASE) && is_version(&unnamed, &other));
        assert_eq!(
            ids(&[(1, "/a", 1, &unnamed), (2, "/b", 2, LEASE), (3, "/c", 3, &other)]),
            [2, 3]
        );
    }

    #[test]
    fn one_file_another_library_and_documents_from_memory_are_their_own() {
        let newer = LEASE.replace("keeps", "holds");
        let ids = |found: &[(u64, &str, i64, &str)], libraries: &[(u64, &str)]| -> Vec<u64> {
            folded(found, libraries).iter().map(|it| it.id.0).collect()
        };
        assert_eq!(ids(&[(1, "/a", 1, LEASE), (2, "/a", 1, &newer)], &[]), [1, 2]);
        assert_eq!(ids(&[(1, "/a", 1, LEASE), (2, "/a", 1, LEASE)], &[]), [1, 2]);
        assert_eq!(
            ids(&[(1, "a", 1, LEASE), (2, "b", 1, LEASE), (3, "c", 1, &newer)], &[]),
            [1, 2, 3]
        );
        assert_eq!(ids(&[(1, "/a", 1, LEASE), (2, "/b", 1, &newer)], &[(2, "team")]), [1, 2]);
        assert_eq!(ids(&[(1, "/a", 1, LEASE), (2, "/a", 1, LEASE)], &[(1, "team")]), [2]);
        let both = [(1, "team"), (2, "team")];
        assert_eq!(ids(&[(1, "/a", 1, LEASE), (2, "/a", 1, LEASE)], &both), [1]);
    }

    proptest! {
        #[test]
        fn every_file_is_shown_or_named_once(
            found in prop::collection::vec((0u8..6, 0i64..4, 0u8..5), 1..14),
        ) {
            let texts: Vec<String> = ["repairs", "mends", "fixes", "mends 4 times", "never repairs"]
                .iter()
                .map(|it| LEASE.replace("repairs", it))
                .collect();
            let folder = |it: u8| if it < 3 { "/away" } else { "" };
            let names: Vec<String> =
                found.iter().map(|it| format!("{}/{}", folder(it.0), it.0)).collect();
            let rows: Vec<(u64, &str, i64, &str)> = found
                .iter()
                .enumerate()
                .map(|(at, it)| (at as u64, names[at].as_str(), it.1, texts[usize::from(it.2)].as_str()))
                .collect();
            let shown = folded(&rows, &[]);
            for it in &shown {
                let mut named: Vec<&PathBuf> = it.also_in.iter().chain(&it.versions).collect();
                let all = named.len();
                named.sort();
                named.dedup();
                prop_assert_eq!(named.len(), all, "no name twice: {:?}", it);
                prop_assert!(!named.contains(&&it.path), "{:?}", it);
                for name in &it.also_in {
                    prop_assert!(rows.iter().any(|row| *name == Path::new(row.1) && row.3 == it.text));
                }
            }
            for row in &rows {
                let there = |it: &ChunkRecord| {
                    it.path == Path::new(row.1) || it.also_in.iter().chain(&it.versions).any(|name| *name == Path::new(row.1))
                };
                prop_assert!(shown.iter().any(there), "{:?} is lost", row);
            }
        }
    }
}
