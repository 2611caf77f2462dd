//! Lists of what the searches have found, merged: those of one library first, then the libraries.
//!
//! Each library is a [`Source`]: the home, or one that lives elsewhere. All are merged by the same rules, so a passage
//! has the same place wherever it is kept. BM25 scores of two libraries are not alike: each counts as a share of its
//! own library's best. Cosines and products of weighed terms are.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
};

use riddle_catalog::ChunkRecord;
use riddle_models::embedder_languages;
use riddle_retrieval::{
    CosineScale, Evidence, Fused, RRF_K, RankedList, Scale, Trust, detect_language, fuse,
    is_in_another_language, nearness, order_by_score, shares, sparse_score,
};
use riddle_types::{ChunkId, Hit, TermWeights, Trouble};

use super::{
    fold::fold,
    language::{foreign_language, reads_all},
};
use crate::{
    contract::RemoteStage,
    home::{
        cosines::{CosineLevels, are_the_scale},
        embedder::encoder_name,
    },
    index::{cosine, passage_text},
};

/// Identity of an embedder, and its vector of a query.
pub(crate) type QueryVector = (String, Vec<f32>);

/// What models made of a query.
pub(super) struct Made {
    pub(super) vector: Option<QueryVector>,
    /// What the cosines of its embedder say; `None`: they are the scale, or nothing is known of them.
    pub(super) levels: Option<CosineLevels>,
    /// What the server that embeds did of it.
    pub(super) remote: Option<RemoteStage>,
    /// Why that made no vector.
    pub(super) unembedded: Option<Trouble>,
    pub(super) terms: Option<TermWeights>,
    /// Identity of the sparse encoder that weighs them; empty: nobody does.
    pub(super) encoder: String,
    /// Languages that the sparse encoder reads; none: any.
    pub(super) sparse_languages: &'static [&'static str],
}

/// What the searches of one library have found.
#[derive(Debug, Default)]
pub(super) struct Source {
    pub(super) keyword: Vec<Hit>,
    /// Whether these hold the words of what the query quotes, because it stands nowhere here.
    pub(super) unquoted: bool,
    /// How many the keyword search could have found.
    pub(super) keyword_limit: usize,
    pub(super) dense: Vec<Hit>,
    pub(super) sparse: Vec<Hit>,
    /// All that is in a list and may be shown.
    pub(super) records: HashMap<ChunkId, ChunkRecord>,
    pub(super) vectors: HashMap<ChunkId, Vec<f32>>,
    pub(super) terms: HashMap<ChunkId, TermWeights>,
    /// Name of the library; `None`: the home.
    pub(super) library: Option<String>,
}

/// What was found everywhere.
#[derive(Debug, Default)]
pub(super) struct Lists {
    pub(super) keyword: Vec<Hit>,
    pub(super) dense: Vec<Hit>,
    pub(super) sparse: Vec<Hit>,
    /// All fused, with what is known of each.
    pub(super) fused: Vec<(Fused, ChunkRecord)>,
    /// What retrieval knows of each of them.
    pub(super) evidence: Vec<Evidence>,
    /// Names of libraries by passage; those of the home are not there.
    pub(super) libraries: HashMap<ChunkId, String>,
    /// The language of query or passages, if the embedder does not read it.
    pub(super) foreign: Option<String>,
}

/// Weight of a list that moves nobody in the other: it breaks ties and stands below.
const FILLING_UP: f32 = 1e-3;

/// Weight of a cosine of the default embedder beside a share of the best BM25 score: fitted on the kinds of
/// development sets, each kind left out in turn (docs/BENCHMARKS.md).
const COSINE_WEIGHT: f32 = 2.25;

/// How far the default embedder's cosines are trusted, fitted in the same way.
const COSINE_TRUST: Trust = Trust { usual: 0.62, rate: 3.0 };

/// Weight of cosines of embedders that tell nothing apart of what was measured, or were not, spread over 0 to 1. Fitted
/// on the same sets with the default embedder's cosines treated so.
const SPREAD_WEIGHT: f32 = 0.5;

/// Weight of a share of the best score by learned sparse vectors beside them: on the development sets a half costs
/// nothing, and a whole one does (docs/benchmarks/2026-11-24-weighed-terms.md).
const SPARSE_WEIGHT: f32 = 0.5;

/// What a share of the best BM25 score is worth in a passage of another language than the question's, where the
/// embedder reads both: names and figures are the same there, all else that is found is chance. They break near ties.
const BETWEEN_LANGUAGES: f32 = 0.1;

impl Made {
    /// Whether cosines are on the default embedder's scale: its own, or brought there.
    pub(super) fn is_on_scale(&self) -> bool {
        self.levels.is_some() || self.vector.as_ref().is_some_and(|it| are_the_scale(&it.0))
    }
}

/// How the evidence of an embedder is read; `between_languages`: the nearest passage is in another language than the
/// question, and is farther away for that. It says nothing of how far meaning is trusted then.
fn scale(made: &Made, between_languages: bool) -> Scale {
    let cosine = if made.is_on_scale() {
        let rate = if between_languages { 0.0 } else { COSINE_TRUST.rate };
        CosineScale::Known(COSINE_WEIGHT, Trust { rate, ..COSINE_TRUST })
    } else {
        CosineScale::Spread(SPREAD_WEIGHT)
    };
    Scale { cosine, sparse: SPARSE_WEIGHT }
}

/// The passages of one library in the order of their ranks.
struct Ordered {
    order: Vec<Fused>,
    /// Sparse scores are as they are, and no shares yet.
    evidence: Vec<Evidence>,
    /// Those in another language than the question, where that says anything.
    elsewhere: HashSet<ChunkId>,
    /// Whether weighed terms count.
    weighed: bool,
    foreign: Option<String>,
}

impl Source {
    /// Its lists by reciprocal ranks.
    fn ordered(&mut self, query: &str, made: &Made) -> Ordered {
        let foreign_to = |languages: &[&str]| {
            // Those of the keywords, of which a model that can not read the language knows nothing.
            let passages = self
                .keyword
                .iter()
                .filter_map(|it| Some(self.records.get(&it.chunk)?.text.as_str()));
            foreign_language(languages, query, passages)
        };
        let foreign = made
            .vector
            .as_ref()
            .and_then(|(embedder, _)| foreign_to(embedder_languages(encoder_name(embedder))));
        let weighed = made.terms.as_ref().filter(|_| foreign_to(made.sparse_languages).is_none());
        if weighed.is_none() {
            self.sparse.clear();
        }
        let weight = if foreign.is_some() { FILLING_UP } else { 1.0 };
        let lists = [
            RankedList { hits: &self.keyword, weight: 1.0 },
            RankedList { hits: &self.dense, weight },
            RankedList { hits: &self.sparse, weight: 1.0 },
        ];
        let most = self.keyword.len() + self.dense.len() + self.sparse.len();
        let mut order = fuse(&lists, RRF_K, most);
        order.retain(|it| self.records.contains_key(&it.chunk));
        let elsewhere = match &made.vector {
            Some((embedder, _)) if reads_all(embedder) => self.elsewhere(&order, query),
            _ => HashSet::new(),
        };
        let evidence = self.evidence(query, &order, made, weighed, &elsewhere);
        Ordered { order, evidence, elsewhere, weighed: weighed.is_some(), foreign }
    }

    /// Passages that are in another language than the question.
    fn elsewhere(&self, order: &[Fused], query: &str) -> HashSet<ChunkId> {
        let mut known: HashMap<String, bool> = HashMap::new();
        let mut is_elsewhere = |chunk: &ChunkId| {
            let written_in = self.records.get(chunk).and_then(|it| detect_language(&it.text));
            written_in.is_some_and(|it| match known.get(&it) {
                Some(known) => *known,
                None => {
                    let foreign = is_in_another_language(query, &it);
                    known.insert(it, foreign);
                    foreign
                }
            })
        };
        order.iter().map(|it| it.chunk).filter(&mut is_elsewhere).collect()
    }

    /// What the scores of the searches say of every candidate. Words of a passage in another language than the
    /// question's say little, where meaning is found in all languages.
    fn evidence(
        &self,
        query: &str,
        order: &[Fused],
        made: &Made,
        weighed: Option<&TermWeights>,
        elsewhere: &HashSet<ChunkId>,
    ) -> Vec<Evidence> {
        let shares = shares(&self.keyword);
        // What lies behind the end of a full list may be as good as its last; behind a short one there is nothing.
        let full = self.keyword.last().filter(|_| self.keyword.len() >= self.keyword_limit);
        let behind = full.map_or(0.0, |it| shares[&it.chunk]);
        let sparse = |chunk: &ChunkId| {
            // No terms are none that were weighed: the passage is in a language that the encoder does not read.
            let terms = self.terms.get(chunk).filter(|it| !it.is_empty())?;
            Some(sparse_score(weighed?.dot(terms)))
        };
        let cosine = |chunk: &ChunkId| {
            let cosine = cosine(&made.vector.as_ref()?.1, self.vectors.get(chunk)?);
            Some(made.levels.map_or(cosine, |it| it.read(cosine)))
        };
        let trust_in_words =
            |chunk: &ChunkId| if elsewhere.contains(chunk) { BETWEEN_LANGUAGES } else { 1.0 };
        let texts: Vec<String> = order.iter().map(|it| self.text(it.chunk)).collect();
        let near = nearness(query, texts.iter().map(String::as_str));
        let words = |(it, near): (&Fused, f32)| {
            let share = shares.get(&it.chunk).copied().unwrap_or(behind);
            Evidence {
                keyword: Some(trust_in_words(&it.chunk) * (share + near)),
                cosine: cosine(&it.chunk),
                sparse: sparse(&it.chunk),
            }
        };
        order.iter().zip(near).map(words).collect()
    }

    /// A passage as models read it.
    fn text(&self, chunk: ChunkId) -> String {
        let record = self.records.get(&chunk);
        record
            .map_or_else(String::new, |it| passage_text(it.title.as_deref(), &it.heading, &it.text))
    }
}

/// All libraries in one list, the best `limit`. `is_away` says of a file of the home whether its folder is not there.
pub(super) fn merge(
    sources: Vec<Source>,
    query: &str,
    made: &mut Made,
    limit: usize,
    is_away: &mut dyn FnMut(&Path) -> bool,
) -> Lists {
    let mut lists = Lists::default();
    let (mut order, mut evidence) = (Vec::new(), Vec::new());
    let mut records: HashMap<ChunkId, ChunkRecord> = HashMap::new();
    let several = sources.len() > 1;
    let mut weighed = false;
    let mut elsewhere: HashSet<ChunkId> = HashSet::new();
    for mut source in sources {
        let ordered = source.ordered(query, made);
        order.extend(ordered.order);
        evidence.extend(ordered.evidence);
        elsewhere.extend(ordered.elsewhere);
        lists.foreign = lists.foreign.or(ordered.foreign);
        if let Some(library) = &source.library {
            let named = source.records.keys().map(|it| (*it, library.clone()));
            lists.libraries.extend(named);
        }
        records.extend(source.records);
        weighed |= ordered.weighed;
        lists.keyword.extend(source.keyword);
        lists.dense.extend(source.dense);
        lists.sparse.extend(source.sparse);
    }
    if !weighed {
        made.terms = None;
    }
    share_of_best(&mut evidence);
    if lists.foreign.is_none() && (made.vector.is_some() || made.terms.is_some()) {
        let between = nearest(&order, &evidence).is_some_and(|it| elsewhere.contains(&it));
        order_by_score(&mut order, &mut evidence, scale(made, between));
    } else if several {
        by_rank(&mut order, &mut evidence);
    }
    fold(query, &mut order, &mut evidence, &mut records, &lists.libraries, limit, is_away);
    evidence.truncate(limit);
    lists.fused = order
        .into_iter()
        .take(limit)
        .filter_map(|it| Some((records.remove(&it.chunk)?, it)))
        .map(|(a, b)| (b, a))
        .collect();
    lists.evidence = evidence;
    lists
}

/// The passage whose meaning is nearest.
fn nearest(order: &[Fused], evidence: &[Evidence]) -> Option<ChunkId> {
    let cosines = order.iter().zip(evidence).filter_map(|(it, own)| Some((it.chunk, own.cosine?)));
    cosines.filter(|it| it.1.is_finite()).max_by(|a, b| a.1.total_cmp(&b.1)).map(|it| it.0)
}

/// Sparse scores as shares of the best of them.
fn share_of_best(evidence: &mut [Evidence]) {
    let best = evidence.iter().filter_map(|it| it.sparse).fold(0.0, f32::max);
    for it in evidence {
        it.sparse = it.sparse.map(|it| if best > 0.0 { it / best } else { 0.0 });
    }
}

/// Lists of several libraries by the sums of reciprocal ranks.
fn by_rank(order: &mut Vec<Fused>, evidence: &mut Vec<Evidence>) {
    let mut both: Vec<(Fused, Evidence)> =
        std::mem::take(order).into_iter().zip(std::mem::take(evidence)).collect();
    both.sort_by(|a, b| b.0.score.total_cmp(&a.0.score));
    (*order, *evidence) = both.into_iter().unzip();
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use riddle_catalog::FileId;
    use riddle_types::{FileKind, Location};

    use super::*;

    fn record(id: u64, path: &str, text: &str) -> ChunkRecord {
        ChunkRecord {
            id: ChunkId(id),
            file: FileId(1),
            path: PathBuf::from(path),
            kind: FileKind::Text,
            modified: 0,
            title: None,
            language: None,
            ordinal: 0,
            heading: String::new(),
            text: text.to_owned(),
            location: Location::Whole,
            also_in: Vec::new(),
            versions: Vec::new(),
        }
    }

    fn source(library: Option<&str>, found: &[(u64, &str, &str, f32)]) -> Source {
        let hit = |((id, .., score), rank): (&(u64, &str, &str, f32), u32)| Hit {
            chunk: ChunkId(*id),
            score: *score,
            rank,
        };
        Source {
            keyword: found.iter().zip(1..).map(hit).collect(),
            keyword_limit: 9,
            records: found.iter().map(|it| (ChunkId(it.0), record(it.0, it.1, it.2))).collect(),
            vectors: found.iter().map(|it| (ChunkId(it.0), at_cosine(it.3 / 10.0))).collect(),
            library: library.map(str::to_owned),
            ..Source::default()
        }
    }

    /// A vector of length 1 whose product with the query's is this.
    fn at_cosine(cosine: f32) -> Vec<f32> {
        vec![cosine, (1.0 - cosine * cosine).sqrt()]
    }

    fn made(vector: Option<Vec<f32>>) -> Made {
        Made {
            vector: vector.map(|it| ("x/1/2/3".to_owned(), it)),
            levels: None,
            remote: None,
            unembedded: None,
            terms: None,
            encoder: String::new(),
            sparse_languages: &[],
        }
    }

    fn merged(sources: Vec<Source>, vector: bool) -> Lists {
        merge(sources, "boat", &mut made(vector.then(|| vec![1.0, 0.0])), 9, &mut |_| false)
    }

    fn chunks(lists: &Lists) -> Vec<u64> {
        lists.fused.iter().map(|it| it.0.chunk.0).collect()
    }

    #[test]
    fn words_count_by_the_best_of_their_own_library() {
        let home = source(None, &[(1, "/a", "one", 4.0), (2, "/b", "two", 1.0)]);
        let team = source(Some("team"), &[(11, "/c", "three", 8.0), (12, "/d", "four", 6.0)]);
        let lists = merged(vec![home, team], false);
        // Without vectors ranks decide: both first ones, then both second ones.
        assert_eq!(chunks(&lists), [1, 11, 2, 12]);
        assert_eq!(lists.evidence[1].keyword, Some(1.0));
        assert_eq!(lists.libraries.get(&ChunkId(12)).map(String::as_str), Some("team"));
        assert!(!lists.libraries.contains_key(&ChunkId(1)));
    }

    #[test]
    fn meaning_is_compared_between_libraries() {
        let home = source(None, &[(1, "/a", "one", 4.0)]);
        let team = source(Some("team"), &[(11, "/c", "three", 8.0)]);
        assert_eq!(chunks(&merged(vec![home, team], true)), [11, 1]);
    }

    #[test]
    fn cosines_of_another_embedder_count_by_its_levels() {
        // The first has the words; the second means more by next to nothing.
        let by = |levels| {
            let mut found = source(None, &[(1, "/a", "one", 8.39), (2, "/b", "two", 8.4)]);
            found.keyword[1].score = 0.7 * found.keyword[0].score;
            let mut made = made(Some(vec![1.0, 0.0]));
            made.levels = levels;
            let lists = merge(vec![found], "boat", &mut made, 9, &mut |_| false);
            (chunks(&lists), lists.evidence)
        };
        // Where nothing is known of cosines the largest counts as such.
        assert_eq!(by(None).0, [2, 1]);
        let levels = CosineLevels { unrelated: 0.75, related: 0.84, apart: 5.0 };
        let (order, evidence) = by(Some(levels));
        assert_eq!(order, [1, 2]);
        assert_eq!(evidence[1].cosine, Some(levels.read(0.84)));
    }

    #[test]
    fn words_say_little_in_another_language() {
        let english = "The tower was built for the fair, and it is three hundred metres high.";
        let german = "Der Turm wurde für die Messe gebaut, und er ist dreihundert Meter hoch.";
        let by = |embedder: &str, query: &str| {
            // The first has the words and no meaning, the second the meaning and no words.
            let found = source(None, &[(1, "/a", english, 2.0), (2, "/b", german, 1.0)]);
            let mut found = Source { keyword: vec![found.keyword[0]], ..found };
            found.vectors.insert(ChunkId(2), at_cosine(0.9));
            let mut made = made(None);
            made.vector = Some((embedder.to_owned(), vec![1.0, 0.0]));
            found.keyword_limit = 9;
            found.dense = vec![Hit { chunk: ChunkId(2), score: 0.9, rank: 1 }];
            chunks(&merge(vec![found], query, &mut made, 9, &mut |_| false))
        };
        let (many, one) = ("x/1/2/3", "bge-small-en-v1.5/1/2/3");
        let (de, en) =
            ("Wie hoch ist der Turm, der für die Messe gebaut wurde?", "How high is the tower?");
        assert_eq!(by(many, de), [2, 1]);
        // In the question's own language they count; a query of a few letters is of any language.
        assert_eq!(by(many, &format!("{en} It was built for a fair.")), [1, 2]);
        assert_eq!(by(many, "Turm"), [1, 2]);
        // An embedder of one language knows nothing of the other's meaning.
        assert_eq!(by(one, de), [1, 2]);
    }

    #[test]
    fn between_languages_all_are_far_away_and_that_is_no_reason_for_words() {
        let text = |about: &str| format!("The {about} was built for the fair, and it is very old.");
        let by = |query: &str| {
            // The first has a word that both languages have; the second is a little nearer, and neither is near.
            let (tower, bridge) = (text("tower"), text("bridge"));
            let found = source(None, &[(1, "/a", &tower, 2.2), (2, "/b", &bridge, 3.0)]);
            let mut found = Source { keyword: vec![found.keyword[0]], ..found };
            found.dense = vec![Hit { chunk: ChunkId(2), score: 0.3, rank: 1 }];
            let mut made = made(Some(vec![1.0, 0.0]));
            made.levels = Some(CosineLevels { unrelated: 0.031, related: 0.465, apart: 6.9 });
            chunks(&merge(vec![found], query, &mut made, 9, &mut |_| false))
        };
        assert_eq!(by("Wie alt ist die Brücke, die man für die Messe gebaut hat?"), [2, 1]);
        assert_eq!(by("How old is the one that they built for the fair?"), [1, 2]);
    }

    #[test]
    fn a_file_that_is_in_both_is_the_one_of_the_home() {
        let home = || source(None, &[(1, "/a", "one", 4.0)]);
        let team = || source(Some("team"), &[(11, "/a", "one", 8.0), (12, "/e", "one", 7.0)]);
        for sources in [vec![home(), team()], vec![team(), home()]] {
            let lists = merged(sources, true);
            assert_eq!(chunks(&lists), [1]);
            assert_eq!(lists.fused[0].1.also_in.len(), 1, "{:?}", lists.fused);
        }
        // Twice in one file of one library is twice.
        let twice = source(None, &[(1, "/a", "one", 4.0), (2, "/a", "one", 3.0)]);
        assert_eq!(chunks(&merged(vec![twice], true)), [1, 2]);
    }
}
