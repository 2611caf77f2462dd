//! Both indexes against naive twins, and against damage.

use std::{collections::HashMap, path::Path, sync::Arc};

use proptest::prelude::*;
use riddle_retrieval::{
    Error, GRAPH_FROM, IndexedChunk, KeywordReader, KeywordWriter, VectorReader, VectorSource,
    VectorWriter,
};
use riddle_types::{ChunkId, ChunkSet, FileKind, Filter, Hit, Query, StageError};

fn chunk(id: u64, text: &str) -> IndexedChunk<'_> {
    IndexedChunk {
        id: ChunkId(id),
        path: "/home/mira/notes/log.md",
        kind: FileKind::Markdown,
        modified: 1_000,
        title: "",
        heading: "",
        text,
        language: None,
    }
}

fn index(dir: &Path, chunks: &[IndexedChunk<'_>]) -> KeywordReader {
    let mut writer = KeywordWriter::open(dir).expect("open");
    for chunk in chunks {
        writer.upsert(chunk).expect("add");
    }
    writer.commit(chunks.len() as u64).expect("commit");
    drop(writer);
    KeywordReader::open(dir).expect("open")
}

fn ask(reader: &KeywordReader, text: &str, filter: &Filter) -> Vec<u64> {
    let query = Query { text: text.to_owned(), ..Query::default() };
    reader.search(&query, filter, 100).expect("search").iter().map(|it| it.chunk.0).collect()
}

fn found(reader: &KeywordReader, text: &str) -> Vec<u64> {
    ask(reader, text, &Filter::default())
}

#[test]
fn words_phrases_stems_and_exclusions() {
    let dir = tempfile::tempdir().expect("temp dir");
    let reader = index(
        dir.path(),
        &[
            chunk(1, "The dry dock is booked for the blue boat."),
            chunk(2, "The dock stays dry in summer; boats are painted there."),
            chunk(3, "Der Bootsbauer streicht die Häuser am Hafen blau und grün."),
        ],
    );
    assert_eq!(found(&reader, "boat").len(), 2, "stemming finds the plural");
    assert_eq!(found(&reader, "\"dry dock\""), [1]);
    assert_eq!(found(&reader, "\"dock dry\""), [1, 2], "it stands nowhere: its words");
    assert_eq!(found(&reader, "\"dock dry\" -painted"), [1]);
    assert_eq!(found(&reader, "\"dock -painted dry\""), [2, 1], "a phrase excludes nothing");
    let unquoted = |text: &str| {
        let asked = Query { text: text.to_owned(), ..Query::default() };
        reader.search_within(&asked, &Filter::default(), None, 9).expect("search").unquoted
    };
    assert!(unquoted("\"dock dry\"") && unquoted("\"dry dock\" \"blue bread\""));
    assert!(!unquoted("\"dry dock\"") && !unquoted("dock dry") && !unquoted("nowhere"));
    assert_eq!(found(&reader, "dock -painted"), [1]);
    assert_eq!(found(&reader, "Hausern"), [3], "accents may be left out");
    assert_eq!(found(&reader, "welche häuser werden am hafen gestrichen"), [3]);
    assert_eq!(
        found(&reader, "the"),
        [1, 2].into_iter().filter(|it| found(&reader, "the").contains(it)).collect::<Vec<_>>()
    );
    assert!(found(&reader, "zebra").is_empty());
    assert_eq!(reader.applied_seq().expect("seq"), 3);
}

proptest! {
    // Each case writes an index.
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// What is excluded is not found, wherever in the index it stands, and everything else is.
    #[test]
    fn exclusions_leave_out_exactly_what_holds_them(
        texts in prop::collection::vec(prop::collection::vec(0usize..4, 1..6), 1..24),
        excluded in prop::collection::vec(prop::collection::vec(0usize..4, 1..4), 1..3),
    ) {
        const WORDS: [&str; 4] = ["dock", "boat", "blue", "paint"];
        let said = |it: &Vec<usize>| it.iter().map(|&word| WORDS[word]).collect::<Vec<_>>().join(" ");
        let dir = tempfile::tempdir().expect("temp dir");
        let lines: Vec<String> = texts.iter().map(said).collect();
        let chunks: Vec<_> = lines.iter().zip(1..).map(|(text, id)| chunk(id, text)).collect();
        let reader = index(dir.path(), &chunks);
        let minus: Vec<String> = excluded.iter().map(|it| format!("-\"{}\"", said(it))).collect();
        let mut found = found(&reader, &format!("dock {}", minus.join(" ")));
        found.sort_unstable();
        let holds = |text: &Vec<usize>, phrase: &Vec<usize>| {
            text.windows(phrase.len()).any(|it| it == phrase.as_slice())
        };
        let expected: Vec<u64> = texts
            .iter()
            .zip(1..)
            .filter(|(text, _)| text.contains(&0) && !excluded.iter().any(|it| holds(text, it)))
            .map(|(_, id)| id)
            .collect();
        prop_assert_eq!(found, expected);
        // Who finds passages by other means is told which of them hold it.
        let all: Vec<ChunkId> = (1..=texts.len() as u64).map(ChunkId).collect();
        let asked = format!("dock {}", minus.join(" "));
        let held = reader.excluded_of(&asked, &all).expect("readable");
        for (text, &id) in texts.iter().zip(&all) {
            let holds = excluded.iter().any(|it| holds(text, it));
            prop_assert_eq!(held.contains(&id), holds, "{:?}", id);
        }
    }
}

proptest! {
    // Each case writes an index.
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// A chunk that is scored from outside has the score that it has inside, to the bit: whatever is in the index.
    #[test]
    fn a_chunk_outside_scores_as_it_does_inside(
        texts in prop::collection::vec(prop::collection::vec(0usize..6, 1..20), 1..12),
        asked in prop::collection::vec(0usize..6, 1..4),
        phrase in any::<bool>(),
    ) {
        const WORDS: [&str; 6] = ["dock", "boats", "blue", "painting", "the", "Hafen"];
        let said = |it: &Vec<usize>| it.iter().map(|&word| WORDS[word]).collect::<Vec<_>>().join(" ");
        let dir = tempfile::tempdir().expect("temp dir");
        let lines: Vec<String> = texts.iter().map(said).collect();
        let chunks: Vec<_> = lines.iter().zip(1..).map(|(text, id)| chunk(id, text)).collect();
        let reader = index(dir.path(), &chunks);
        let text = if phrase { format!("\"{}\"", said(&asked)) } else { said(&asked) };
        let query = Query { text, ..Query::default() };
        let hits = reader.search(&query, &Filter::default(), 100).expect("search");
        for it in &chunks {
            let inside = hits.iter().find(|hit| hit.chunk == it.id).map(|hit| hit.score);
            prop_assert_eq!(reader.score_of(&query, it).expect("scored"), inside, "{}", it.text);
        }
    }
}

#[test]
fn every_script_is_found() {
    let dir = tempfile::tempdir().expect("temp dir");
    let texts = [
        (1, "船は1931年に造られ、青い色に塗られた。", "青い色"),
        (2, "这条船是在1931年建造的，漆成蓝色。", "建造"),
        (3, "เรือลำนี้สร้างขึ้นในปี 1931 และทาสีฟ้า", "ทาสีฟ้า"),
        (4, "Лодка была построена в 1931 году и покрашена в синий цвет.", "построен лодки"),
        (5, "تم بناء القارب عام 1931 وطلاؤه باللون الأزرق", "القارب"),
        (6, "नाव 1931 में बनाई गई थी और नीले रंग में रंगी गई", "नीले रंग"),
        (7, "Το σκάφος ναυπηγήθηκε το 1931 και βάφτηκε μπλε.", "σκάφος"),
        (8, "Tekne 1931 yılında inşa edildi ve maviye boyandı.", "tekne"),
        (9, "배는 1931년에 건조되었고 파란색으로 칠해졌다.", "파란색"),
        (10, "Chiếc thuyền được đóng năm 1931 và sơn màu xanh.", "thuyền"),
    ];
    let chunks: Vec<IndexedChunk<'_>> =
        texts.iter().map(|(id, text, _)| chunk(*id, text)).collect();
    let reader = index(dir.path(), &chunks);
    for (id, _, query) in texts {
        assert_eq!(found(&reader, query).first(), Some(&id), "{query}");
    }
}

#[test]
fn a_few_words_are_stemmed_in_the_languages_of_the_library() {
    let dir = tempfile::tempdir().expect("temp dir");
    let turkish = "Tekneler her kış karaya çekilir ve alt tarafları yeniden boyanır.";
    let reader = index(dir.path(), &[chunk(1, turkish), chunk(2, "The dock is dry.")]);
    for query in ["tekne", "teknelerin", "tekneler"] {
        assert_eq!(found(&reader, query), [1], "{query}");
    }
}

#[test]
fn addresses_versions_and_single_characters() {
    let dir = tempfile::tempdir().expect("temp dir");
    let reader = index(
        dir.path(),
        &[
            chunk(1, "Write to org.example or to mira at home, or to jonas@example.com."),
            chunk(2, "Write to mira@example.org about version 1.2.3 of it."),
            chunk(3, "Version 3.2.1 came before, and 2.1.3."),
            chunk(4, "船は青い。"),
        ],
    );
    assert_eq!(found(&reader, "mira@example.org").first(), Some(&2));
    assert_eq!(found(&reader, "1.2.3").first(), Some(&2));
    assert_eq!(found(&reader, "\"1.2.3\""), [2]);
    assert_eq!(found(&reader, "青"), [4]);
    assert_eq!(found(&reader, "\"い\""), [4]);
    assert!(found(&reader, "赤").is_empty());
}

#[test]
fn filters_hold_inside_the_index() {
    let dir = tempfile::tempdir().expect("temp dir");
    let mut chunks = vec![chunk(1, "boat"), chunk(2, "boat"), chunk(3, "boat")];
    chunks[1].path = "/home/mira/notes-old/log.md";
    chunks[2].kind = FileKind::Pdf;
    chunks[2].modified = 5_000;
    let reader = index(dir.path(), &chunks);
    let with = |filter: Filter| {
        let mut hits = ask(&reader, "boat", &filter);
        hits.sort_unstable();
        hits
    };
    let folder = |it: &str| Filter { folders: vec![it.to_owned()], ..Filter::default() };
    assert_eq!(with(folder("/home/mira/notes")), [1, 3], "a folder is not a prefix of letters");
    assert_eq!(with(folder("/home/mira/")), [1, 2, 3]);
    assert_eq!(with(folder("/")), [1, 2, 3]);
    assert_eq!(with(Filter { kinds: vec![FileKind::Pdf], ..Filter::default() }), [3]);
    assert_eq!(with(Filter { modified_from: Some(5_000), ..Filter::default() }), [3]);
    assert_eq!(with(Filter { modified_until: Some(5_000), ..Filter::default() }), [1, 2]);
}

#[test]
fn among_few_chunks_the_best_of_them_are_found() {
    let dir = tempfile::tempdir().expect("temp dir");
    let texts = ["boat boat boat", "a boat in the dock", "a dock and, far behind, a boat", "bread"];
    let chunks: Vec<_> = (1..).zip(texts).map(|(id, text)| chunk(id, text)).collect();
    let reader = index(dir.path(), &chunks);
    let query = Query { text: "boat".to_owned(), ..Query::default() };
    let within = |ids: &[u64], limit: usize| -> Vec<(u64, u32)> {
        let set = Arc::new(ChunkSet::new(ids.iter().copied().map(ChunkId).collect()));
        let hits = reader.search_within(&query, &Filter::default(), Some(&set), limit);
        hits.expect("search").hits.iter().map(|it| (it.chunk.0, it.rank)).collect()
    };
    assert_eq!(found(&reader, "boat"), [1, 2, 3]);
    assert_eq!(within(&[2, 3, 4, 99], 9), [(2, 1), (3, 2)]);
    // The best of all would have filled the list.
    assert_eq!(within(&[3], 1), [(3, 1)]);
    assert!(within(&[], 9).is_empty() && within(&[4], 9).is_empty());
}

#[test]
fn replacing_and_removing_follow_the_log() {
    let dir = tempfile::tempdir().expect("temp dir");
    let reader = index(dir.path(), &[chunk(1, "boat"), chunk(2, "bread")]);
    let mut writer = KeywordWriter::open(dir.path()).expect("open");
    assert_eq!(writer.applied_seq().expect("seq"), 2);
    writer.upsert(&chunk(1, "barge")).expect("replace");
    writer.upsert(&chunk(1, "barge")).expect("twice is once");
    writer.remove(ChunkId(2));
    // Not committed: another reader sees nothing of it.
    assert_eq!(found(&reader, "boat"), [1]);
    writer.commit(9).expect("commit");
    reader.reload().expect("reload");
    assert_eq!(
        (
            found(&reader, "boat").len(),
            found(&reader, "barge").len(),
            found(&reader, "bread").len()
        ),
        (0, 1, 0)
    );
    assert_eq!((reader.len(), reader.applied_seq().expect("seq")), (1, 9));
    // A writer that vanishes before it commits leaves the last commit.
    writer.upsert(&chunk(3, "ghost")).expect("add");
    drop(writer);
    assert_eq!(KeywordWriter::open(dir.path()).expect("open").applied_seq().expect("seq"), 9);
}

/// Killed between the files of a commit and the one that names them: the next commit wants the same names.
#[test]
fn what_a_killed_program_had_begun_is_no_obstacle() {
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path();
    drop(index(path, &[chunk(1, "The dock is dry."), chunk(2, "The boat is blue.")]));
    let before = std::fs::read(path.join("meta.json")).expect("there");
    let remove = || {
        let mut writer = KeywordWriter::open(path).expect("open");
        writer.remove(ChunkId(1));
        writer.commit(3)
    };
    remove().expect("commit");
    std::fs::write(path.join("meta.json"), before).expect("as it was");
    assert_eq!(found(&KeywordReader::open(path).expect("open"), "dock"), [1], "it did not happen");
    remove().expect("again");
    assert!(found(&KeywordReader::open(path).expect("open"), "dock").is_empty());
}

#[test]
fn hostile_queries_are_just_queries() {
    let dir = tempfile::tempdir().expect("temp dir");
    let reader = index(dir.path(), &[chunk(1, "boat 🚤 dock")]);
    let long = "boat ".repeat(20_000);
    for query in [
        "",
        "   ",
        "\"",
        "\"unbalanced",
        "AND OR NOT",
        "-",
        "--",
        "a:b*~^(",
        "\0",
        "🚤",
        "the of and",
        &long,
        "\u{202e}boat",
    ] {
        found(&reader, query);
    }
    assert_eq!(found(&reader, &long), [1]);
}

#[test]
fn a_damaged_keyword_index_asks_to_be_rebuilt() {
    let dir = tempfile::tempdir().expect("temp dir");
    assert!(matches!(KeywordReader::open(dir.path()), Err(Error::Rebuild { .. })));
    drop(index(dir.path(), &[chunk(1, "boat")]));
    std::fs::write(dir.path().join("meta.json"), b"{").expect("damage");
    assert!(matches!(KeywordWriter::open(dir.path()), Err(Error::Rebuild { .. })));
}

/// Vectors kept by the test.
#[derive(Default)]
struct Kept(HashMap<ChunkId, Vec<f32>>);

impl VectorSource for Kept {
    fn vectors(&self, chunks: &[ChunkId]) -> Result<Vec<(ChunkId, Vec<f32>)>, StageError> {
        Ok(chunks.iter().filter_map(|it| Some((*it, self.0.get(it)?.clone()))).collect())
    }
}

fn normalized(mut vector: Vec<f32>) -> Vec<f32> {
    let length = vector.iter().map(|it| it * it).sum::<f32>().sqrt().max(1e-9);
    vector.iter_mut().for_each(|it| *it /= length);
    vector
}

/// Clustered like real embeddings: a few directions with noise around them.
fn clustered(count: usize, dimensions: usize) -> Kept {
    let mut state = 88_172_645_463_325_252_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 24) as f32 - 0.5
    };
    let centers: Vec<Vec<f32>> =
        (0..20).map(|_| (0..dimensions).map(|_| random()).collect()).collect();
    Kept(
        (0..count)
            .map(|i| {
                let noisy = centers[i % 20].iter().map(|it| it + 0.8 * random()).collect();
                (ChunkId(i as u64 + 1), normalized(noisy))
            })
            .collect(),
    )
}

fn naive(kept: &Kept, query: &[f32], allowed: Option<&ChunkSet>, limit: usize) -> Vec<ChunkId> {
    let mut all: Vec<(f32, ChunkId)> = kept
        .0
        .iter()
        .filter(|it| allowed.is_none_or(|allowed| allowed.contains(*it.0)))
        .map(|(chunk, vector)| (vector.iter().zip(query).map(|(a, b)| a * b).sum(), *chunk))
        .collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    all.into_iter().take(limit).map(|it| it.1).collect()
}

fn search(
    reader: &VectorReader,
    vector: &[f32],
    allowed: Option<ChunkSet>,
    limit: usize,
) -> Vec<ChunkId> {
    let allowed = allowed.map(Arc::new);
    let query = Query { vector: Some(vector.to_vec()), allowed, ..Query::default() };
    let hits: Vec<Hit> = reader.search(&query, limit).expect("search");
    hits.into_iter().map(|it| it.chunk).collect()
}

fn write(dir: &Path, kept: &Kept, dimensions: usize) -> VectorWriter {
    let mut writer = VectorWriter::open(dir, "e", dimensions).expect("open");
    let mut ids: Vec<_> = kept.0.keys().copied().collect();
    ids.sort_unstable();
    for id in ids {
        writer.insert(id, &kept.0[&id]).expect("insert");
    }
    writer.commit(1).expect("commit");
    writer
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn few_vectors_are_searched_almost_exactly(
        count in 1usize..300, limit in 1usize..20, allowed in prop::option::of(prop::collection::vec(1u64..300, 0..50)),
    ) {
        let dir = tempfile::tempdir().expect("temp dir");
        let kept = clustered(count, 16);
        write(dir.path(), &kept, 16);
        let query = kept.0[&ChunkId(1 + count as u64 / 2)].clone();
        let allowed = allowed.map(|it| ChunkSet::new(it.into_iter().map(ChunkId).collect()));
        let expected = naive(&kept, &query, allowed.as_ref(), limit);
        let reader = VectorReader::open(dir.path(), "e", Arc::new(kept)).expect("open");
        let hits = search(&reader, &query, allowed, limit);
        prop_assert_eq!(hits.len(), expected.len(), "a filter takes nothing from the answer");
        let common = hits.iter().filter(|it| expected.contains(it)).count();
        prop_assert!(common * 10 >= expected.len() * 9, "{} of {}", common, expected.len());
    }
}

#[test]
fn many_vectors_are_searched_by_the_graph() {
    let dir = tempfile::tempdir().expect("temp dir");
    let kept = Arc::new(clustered(GRAPH_FROM + 500, 24));
    let mut writer = write(dir.path(), &kept, 24);
    let queries: Vec<Vec<f32>> = (1..=20).map(|i| kept.0[&ChunkId(i * 37)].clone()).collect();
    let expected: Vec<Vec<ChunkId>> = queries.iter().map(|it| naive(&kept, it, None, 10)).collect();
    let small = ChunkSet::new((1..=40).map(ChunkId).collect());
    let small_expected = naive(&kept, &queries[0], Some(&small), 10);
    let source: Arc<dyn VectorSource> = kept.clone();
    let reader = VectorReader::open(dir.path(), "e", Arc::clone(&source)).expect("open");
    let mut common = 0;
    for (query, expected) in queries.iter().zip(&expected) {
        let hits = search(&reader, query, None, 10);
        assert_eq!(hits.len(), 10);
        common += hits.iter().filter(|it| expected.contains(it)).count();
    }
    assert!(common >= 190, "recall@10 is {} of 200", common);
    assert_eq!(search(&reader, &queries[0], Some(small), 10), small_expected);
    // Allowed ones that are many are walked to, and the rest stays out.
    let even = ChunkSet::new((1..=GRAPH_FROM as u64).step_by(2).map(ChunkId).collect());
    let hits = search(&reader, &queries[0], Some(even), 10);
    assert!(hits.len() == 10 && hits.iter().all(|it| it.0 % 2 == 1));
    // Removed vectors stay away, and the reader of the old snapshot still works.
    writer.remove(expected[0][0]);
    writer.commit(2).expect("commit");
    assert_eq!(search(&reader, &queries[0], None, 1), [expected[0][0]]);
    let fresh = VectorReader::open(dir.path(), "e", Arc::clone(&source)).expect("open");
    assert!(!search(&fresh, &queries[0], None, 10).contains(&expected[0][0]));
    assert_eq!(fresh.applied_seq(), 2);
    // A third goes: the graph is thinned out, and finds the rest.
    let stays = |chunk: ChunkId| !chunk.0.is_multiple_of(3) && chunk != expected[0][0];
    (3..=GRAPH_FROM as u64 + 500).step_by(3).for_each(|it| writer.remove(ChunkId(it)));
    writer.commit(3).expect("commit");
    assert!(dir.path().join("codes-1.bin").exists(), "slots were numbered anew");
    let fresh = VectorReader::open(dir.path(), "e", source).expect("open");
    let left = ChunkSet::new(kept.0.keys().copied().filter(|it| stays(*it)).collect());
    assert_eq!(fresh.len(), left.len());
    let mut common = 0;
    for query in &queries {
        let expected = naive(&kept, query, Some(&left), 10);
        let hits = search(&fresh, query, None, 10);
        common += hits.iter().filter(|it| expected.contains(it)).count();
    }
    assert!(common >= 190, "recall@10 is {} of 200", common);
}

#[test]
fn damage_and_lies_ask_for_a_rebuild() {
    let dir = tempfile::tempdir().expect("temp dir");
    let kept = clustered(50, 8);
    drop(write(dir.path(), &kept, 8));
    let open = || VectorReader::open(dir.path(), "e", Arc::new(Kept::default())).map(drop);
    assert!(open().is_ok());
    assert!(matches!(VectorWriter::open(dir.path(), "other", 8), Err(Error::Rebuild { .. })));
    assert!(matches!(VectorWriter::open(dir.path(), "e", 9), Err(Error::Rebuild { .. })));
    for file in ["codes-0.bin", "chunks-0.bin"] {
        let file = dir.path().join(file);
        let good = std::fs::read(&file).expect("read");
        let mut flipped = good.clone();
        flipped[good.len() / 2] ^= 1;
        for bad in [&good[..good.len() / 2], &[], &flipped] {
            std::fs::write(&file, bad).expect("damage");
            assert!(matches!(open(), Err(Error::Damaged { .. })));
            assert!(matches!(VectorReader::verify(dir.path()), Err(Error::Damaged { .. })));
        }
        std::fs::write(&file, &good).expect("repair");
    }
    VectorReader::verify(dir.path()).expect("whole");
    let manifest = dir.path().join("current.json");
    let text = std::fs::read_to_string(&manifest).expect("read");
    for (from, to) in [
        ("codes-0", "../codes-0"),
        ("\"dimensions\":8", "\"dimensions\":7"),
        ("\"dimensions\":8", "\"dimensions\":18446744073709551615"),
        ("\"graph\":null", "\"graph\":[{\"name\":\"x.bin\",\"bytes\":9,\"blake3\":[]},9]"),
        ("\"bytes\":", "\"bytes\":9"),
        ("{", "["),
    ] {
        let lie = text.replace(from, to);
        assert_ne!(lie, text, "{from} is in the manifest");
        std::fs::write(&manifest, lie).expect("lie");
        assert!(open().is_err_and(|it| it.wants_rebuild()), "{to}");
    }
}

#[test]
fn what_was_not_committed_is_gone() {
    let dir = tempfile::tempdir().expect("temp dir");
    let kept = Arc::new(clustered(20, 8));
    let mut writer = write(dir.path(), &kept, 8);
    writer.remove(ChunkId(1));
    writer.insert(ChunkId(99), &kept.0[&ChunkId(2)]).expect("insert");
    drop(writer);
    // Half a record behind the committed ones, as a crash between two writes leaves it.
    for file in ["codes-0.bin", "chunks-0.bin", "gone-0.bin"] {
        let file = dir.path().join(file);
        let committed = std::fs::read(&file).expect("read");
        std::fs::write(&file, [committed.as_slice(), &[1, 2, 3]].concat()).expect("write");
    }
    std::fs::write(dir.path().join("links-0-7.bin"), b"half").expect("write");
    let reader = VectorReader::open(dir.path(), "e", kept.clone()).expect("open");
    assert_eq!((reader.applied_seq(), reader.len()), (1, 20));
    let mut writer = VectorWriter::open(dir.path(), "e", 8).expect("open");
    assert_eq!((writer.applied_seq(), writer.len()), (1, 20));
    writer.remove(ChunkId(1));
    writer.commit(5).expect("commit");
    assert!(!dir.path().join("links-0-7.bin").exists(), "left-overs are deleted");
    let reader = VectorReader::open(dir.path(), "e", kept).expect("open");
    assert_eq!((reader.applied_seq(), reader.len()), (5, 19));
}

#[test]
fn removals_make_the_index_anew() {
    let dir = tempfile::tempdir().expect("temp dir");
    let kept = Arc::new(clustered(100, 8));
    let mut writer = write(dir.path(), &kept, 8);
    let size = |name: &str| std::fs::metadata(dir.path().join(name)).map(|it| it.len()).ok();
    assert_eq!((size("codes-0.bin"), size("chunks-0.bin")), (Some(100 * 8), Some(100 * 8)));
    (1..=30).for_each(|it| writer.remove(ChunkId(it)));
    assert!(!writer.needs_rebuild());
    writer.remove(ChunkId(31));
    assert!(writer.needs_rebuild());
    writer.commit(2).expect("commit");
    assert!(!writer.needs_rebuild());
    assert_eq!((size("codes-0.bin"), size("codes-1.bin")), (None, Some(69 * 8)));
    // The same vector again changes nothing, and nothing is written for it.
    let before = std::fs::read(dir.path().join("current.json")).expect("read");
    writer.insert(ChunkId(50), &kept.0[&ChunkId(50)]).expect("insert");
    writer.commit(2).expect("commit");
    assert_eq!(std::fs::read(dir.path().join("current.json")).expect("read"), before);
    let reader = VectorReader::open(dir.path(), "e", kept.clone()).expect("open");
    assert_eq!(reader.len(), 69);
    assert_eq!(search(&reader, &kept.0[&ChunkId(50)], None, 1), [ChunkId(50)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_history_equals_a_map(steps in prop::collection::vec((0u8..8, 1u64..12), 0..60)) {
        let dir = tempfile::tempdir().expect("temp dir");
        let all = Arc::new(clustered(12, 6));
        let mut writer = VectorWriter::open(dir.path(), "e", 6).expect("open");
        let mut twin = std::collections::BTreeSet::new();
        for (seq, (what, id)) in (1..).zip(steps) {
            match what {
                0 => {
                    writer.commit(seq).expect("commit");
                    writer = VectorWriter::open(dir.path(), "e", 6).expect("open");
                }
                1..=3 => {
                    writer.remove(ChunkId(id));
                    twin.remove(&ChunkId(id));
                }
                _ => {
                    writer.insert(ChunkId(id), &all.0[&ChunkId(id)]).expect("insert");
                    twin.insert(ChunkId(id));
                }
            }
        }
        writer.commit(100).expect("commit");
        let reader = VectorReader::open(dir.path(), "e", all.clone()).expect("open");
        let mut found = search(&reader, &all.0[&ChunkId(1)], None, 50);
        found.sort_unstable();
        prop_assert_eq!(found, twin.into_iter().collect::<Vec<_>>());
        prop_assert_eq!(reader.applied_seq(), 100);
    }
}

#[test]
fn a_vector_of_another_length_is_told() {
    let dir = tempfile::tempdir().expect("temp dir");
    let kept = clustered(5, 8);
    let mut writer = write(dir.path(), &kept, 8);
    assert!(matches!(writer.insert(ChunkId(9), &[1.0]), Err(Error::Dimensions { .. })));
    let reader = VectorReader::open(dir.path(), "e", Arc::new(kept)).expect("open");
    let query = Query { vector: Some(vec![1.0]), ..Query::default() };
    assert!(matches!(reader.search(&query, 3), Err(Error::Dimensions { .. })));
    assert!(reader.search(&Query::default(), 3).expect("no vector, no hits").is_empty());
}
