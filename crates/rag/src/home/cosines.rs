//! What the cosines of an embedder say, measured on texts of which it is known what belongs together.
//!
//! Cosines of two embedders are not alike: a question and its answer have 0.47 in the mean with the default embedder
//! and 0.84 with multilingual-e5-small, whose unrelated texts have 0.75 and those of the default one 0.03. How much a
//! cosine counts beside words and the reranker was fitted with the default embedder. So the cosines of others are
//! brought to its scale, by what both make of the same few questions and passages.

use std::borrow::Borrow;

use riddle_catalog::Catalog;
use riddle_types::{EmbedRole, Embedder, StageError};
use serde::{Deserialize, Serialize};

use super::{config::DEFAULT_EMBEDDER, embedder::encoder_name};
use crate::contract::Result;

/// Questions, and passages that answer them: of the kinds that people keep, and with few words in common. No more than
/// servers take in one request.
const PAIRS: [(&str, &str); 15] = [
    (
        "When does the lease of the flat end?",
        "Tenancy agreement. The tenancy begins on 1 May and runs for three years; after that either side may give \
         three months' notice in writing.",
    ),
    (
        "how long should the bread rest before baking",
        "Shape the loaf, cover it with a cloth and leave it at room temperature for ninety minutes, until it has \
         nearly doubled. Then score it and bake at 230 degrees.",
    ),
    (
        "Which medicine was prescribed for high blood pressure?",
        "Discharge letter. The patient was started on ramipril 5 mg once daily because of hypertension; potassium is \
         to be checked in two weeks.",
    ),
    (
        "who is bringing the tent on Saturday",
        "Ana: I can drive. Ben: great, then I'll take the stove and the tent. Ana: don't forget the pegs this time! \
         Ben: promised.",
    ),
    (
        "What did revenue grow by in the third quarter?",
        "Net sales for the three months ended September 30 rose 8 percent to 412 million, driven by higher volumes in \
         Europe and price increases.",
    ),
    (
        "function that removes duplicates from a list",
        "def unique(items):\n    seen = set()\n    return [it for it in items if not (it in seen or seen.add(it))]",
    ),
    (
        "Why do leaves turn red in autumn?",
        "As days shorten, trees stop making chlorophyll and its green fades. Anthocyanins, made from sugar that is \
         trapped in the leaf, then show as red.",
    ),
    (
        "how to reset the router to factory settings",
        "Press the small button on the back with a pin for ten seconds until the power light flashes. All passwords \
         and Wi-Fi names are set back to those on the label.",
    ),
    (
        "What was decided about the new office?",
        "Minutes, item 4. The committee agreed to sign for the second floor of the mill building, provided that the \
         landlord repairs the lift before June.",
    ),
    (
        "Does vitamin D prevent colds?",
        "In a randomized trial of 5110 adults, monthly supplementation did not reduce the number or the length of \
         acute respiratory infections.",
    ),
    (
        "Which treaty ended the war between the two kingdoms?",
        "The peace was signed at the abbey in 1763. Both crowns gave up their claims to the islands, and prisoners \
         were sent home within the year.",
    ),
    (
        "what time does the train to the coast leave",
        "Departures from platform 3: 07:12 harbour, stopping everywhere; 08:40 seaside express, weekdays only; 09:05 \
         airport.",
    ),
    (
        "Is water damage covered by the insurance?",
        "We pay for damage by burst pipes and leaking appliances. Not insured are floods, ground water, and damp that \
         came about slowly.",
    ),
    (
        "How many vacation days do employees get?",
        "Staff handbook, section 6. Full-time members of staff are entitled to 28 days of paid leave a year, of which \
         five may be carried over.",
    ),
    (
        "error connection refused when starting database",
        "The server was not listening: port 5432 was taken by an old container. Stopping it and running the service \
         again solved the problem.",
    ),
];

/// What the default embedder makes of them.
const DEFAULT: CosineLevels = CosineLevels { unrelated: 0.031, related: 0.465, apart: 6.9 };

/// Deviations between the two levels from which on they tell something: an embedder of another language sees none.
const TOLD_APART: f32 = 2.0;

/// As many as are kept where nothing deviates.
const FARTHEST_APART: f32 = 99.0;

/// What an embedder's cosines are of texts that belong together, and of others.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct CosineLevels {
    /// The mean of a question and a passage of another one.
    pub(crate) unrelated: f32,
    /// The mean of a question and its own passage.
    pub(crate) related: f32,
    /// How far the levels are apart, in standard deviations of what does not belong together, both without what a
    /// question or a passage has in common with everything: that moves no passage of a search before another.
    pub(crate) apart: f32,
}

impl CosineLevels {
    /// Of the vectors of [`texts`], of length 1; `None` where the embedder does not tell them apart.
    pub(crate) fn of(questions: &[Vec<f32>], passages: &[Vec<f32>]) -> Option<CosineLevels> {
        let count = questions.len().min(passages.len());
        if count < 3 {
            return None;
        }
        let cosine = |question: usize, passage: usize| {
            questions[question].iter().zip(&passages[passage]).map(|(a, b)| a * b).sum::<f32>()
        };
        let others = |of: usize| (0..count).filter(move |&it| it != of);
        let unrelated =
            mean((0..count).flat_map(|it| others(it).map(move |other| cosine(it, other))));
        let related = mean((0..count).map(|it| cosine(it, it)));
        // What a question and a passage have in common with all others: least squares. With m others, the mean of each
        // is its own part and, as the other one is left out, an m-th of that one's less.
        let m = (count - 1) as f32;
        let known = 1.0 - 1.0 / (m * m);
        let common: Vec<(f32, f32)> = (0..count)
            .map(|it| {
                let question = mean(others(it).map(|other| cosine(it, other))) - unrelated;
                let passage = mean(others(it).map(|other| cosine(other, it))) - unrelated;
                ((question + passage / m) / known, (passage + question / m) / known)
            })
            .collect();
        let own = |question: usize, passage: usize| {
            cosine(question, passage) - unrelated - common[question].0 - common[passage].1
        };
        let square = |it: usize, other: usize| own(it, other).powi(2);
        let variance =
            mean((0..count).flat_map(|it| others(it).map(move |other| square(it, other))));
        let apart = mean((0..count).map(|it| own(it, it))) / variance.sqrt().max(f32::MIN_POSITIVE);
        let levels = CosineLevels { unrelated, related, apart: apart.min(FARTHEST_APART) };
        // None of which holds where one is no number.
        (related > unrelated && apart >= TOLD_APART).then_some(levels)
    }

    /// Measures an embedder, which embeds thirty short texts.
    ///
    /// # Errors
    /// When it can not be run.
    fn measure(embedder: &dyn Embedder) -> Result<Option<CosineLevels>, StageError> {
        let (questions, passages) = texts();
        let questions = embedder.embed(&questions, EmbedRole::Query)?;
        let passages = embedder.embed(&passages, EmbedRole::Passage)?;
        Ok(CosineLevels::of(&questions, &passages))
    }

    /// A cosine on the default embedder's scale: what belongs together in the mean does so there. From there on it
    /// moves less if the embedder tells texts apart less well. Of two normal distributions of one deviation, whose
    /// means are `d` deviations and 1 apart, the logarithm of the odds moves by `d²` per unit (linear discriminant
    /// analysis, Fisher 1936).
    pub(crate) fn read(self, cosine: f32) -> f32 {
        let odds = (self.apart / DEFAULT.apart).powi(2).min(1.0);
        let slope = odds * (DEFAULT.related - DEFAULT.unrelated) / (self.related - self.unrelated);
        (DEFAULT.related + slope * (cosine - self.related)).clamp(-1.0, 1.0)
    }
}

/// 0 of none.
fn mean(values: impl Iterator<Item = f32>) -> f32 {
    let (sum, count) = values.fold((0.0, 0usize), |(sum, count), it| (sum + it, count + 1));
    sum / count.max(1) as f32
}

/// Questions, and the passage of each.
pub(crate) fn texts() -> (Vec<&'static str>, Vec<&'static str>) {
    PAIRS.iter().copied().unzip()
}

/// Whether the cosines of an embedder of that identity are those that weights were fitted to.
pub(crate) fn are_the_scale(embedder: &str) -> bool {
    encoder_name(embedder) == DEFAULT_EMBEDDER
}

/// Setting: what was measured of an embedder of an identity, as JSON.
fn setting(embedder: &str) -> String {
    format!("cosines {embedder}")
}

/// What was measured of an embedder, which is nothing for the one that is the scale; the outer `None`: nobody has.
pub(crate) fn known(catalog: &Catalog, embedder: &str) -> Result<Option<Option<CosineLevels>>> {
    if are_the_scale(embedder) {
        return Ok(Some(None));
    }
    let text = catalog.setting(&setting(embedder))?;
    Ok(text.and_then(|it| serde_json::from_str(&it).ok()))
}

/// Keeps what was measured.
pub(crate) fn keep(catalog: &Catalog, embedder: &str, levels: Option<CosineLevels>) -> Result<()> {
    let text = serde_json::to_string(&levels).expect("three numbers: this is a bug");
    Ok(catalog.set_setting(&setting(embedder), Some(&text))?)
}

/// [`known`], or measured now where nobody has, and kept in `bank`. One that fails here is no reason to fail: it fails
/// again where somebody waits for its vectors, and is told there.
pub(crate) fn of<C: Borrow<Catalog>>(
    catalog: &Catalog,
    embedder: &dyn Embedder,
    bank: impl FnOnce() -> Result<C>,
) -> Result<Option<CosineLevels>> {
    let id = embedder.id();
    if let Some(levels) = known(catalog, id)? {
        return Ok(levels);
    }
    let levels = match CosineLevels::measure(embedder) {
        Ok(levels) => levels,
        Err(error) => {
            tracing::warn!(%error, embedder = id, "its cosines were not measured");
            return Ok(None);
        }
    };
    // A home that may only be read is measured in every process.
    if let Err(error) = bank().and_then(|it| keep(it.borrow(), id, levels)) {
        tracing::warn!(%error, embedder = id, "what was measured of it is not kept");
    }
    Ok(levels)
}

#[cfg(test)]
mod tests {
    use std::{path::Path, sync::atomic::AtomicBool};

    use super::*;
    use crate::{
        Assistant, Config, SearchRequest,
        index::{InputDocument, Library},
    };

    /// A vector of length 1 whose first number is this.
    fn at(cosine: f32, length: usize, place: usize) -> Vec<f32> {
        let mut vector = vec![0.0; length + 1];
        vector[0] = cosine.sqrt();
        vector[1 + place] = (1.0 - cosine).sqrt();
        vector
    }

    #[test]
    fn texts_are_a_passage_for_each_question_and_fit_a_request() {
        let (questions, passages) = texts();
        assert_eq!(questions.len(), passages.len());
        // Servers take 32 texts in a request, and one is what they are known by.
        assert!(questions.len() + passages.len() < 32);
        assert!(passages.iter().all(|it| it.len() < 250));
    }

    #[test]
    fn levels_are_what_belongs_together_and_what_does_not() {
        // Everything has 0.75 with everything, and a question with its passage 1.
        let vectors: Vec<Vec<f32>> = (0..5).map(|it| at(0.75, 5, it)).collect();
        let levels = CosineLevels::of(&vectors, &vectors).expect("told apart");
        assert!((levels.related - 1.0).abs() < 1e-6 && (levels.unrelated - 0.75).abs() < 1e-6);
        // Nothing deviates from the levels.
        assert_eq!(levels.apart, FARTHEST_APART);
        // What belongs together in the mean does so on the scale, and what is below is below.
        assert!((levels.read(1.0) - DEFAULT.related).abs() < 1e-6);
        let steps: Vec<f32> = [0.0, 0.5, 0.75, 0.9, 1.0].map(|it| levels.read(it)).to_vec();
        assert!(steps.is_sorted() && steps[0] >= -1.0, "{steps:?}");
        assert_eq!(levels.read(-9.0), -1.0);
    }

    #[test]
    fn what_is_told_apart_less_well_moves_less() {
        let well = CosineLevels { unrelated: 0.7, related: 0.9, apart: DEFAULT.apart };
        let half = CosineLevels { apart: DEFAULT.apart / 2.0, ..well };
        let better = CosineLevels { apart: 2.0 * DEFAULT.apart, ..well };
        let step = |levels: CosineLevels| levels.read(0.9) - levels.read(0.8);
        assert!((step(well) - (DEFAULT.related - DEFAULT.unrelated) / 2.0).abs() < 1e-5);
        assert!((4.0 * step(half) - step(well)).abs() < 1e-5);
        // Weights were fitted with none that is better.
        assert!((step(better) - step(well)).abs() < 1e-6);
    }

    #[test]
    fn what_all_have_in_common_is_no_deviation() {
        // Passages 0 to 4 have 0.1 to 0.5 with all questions, and 0.2 more with their own.
        let count = 5;
        let base = |place: usize| 0.1 * (place + 1) as f32;
        let question = |place: usize| {
            let mut vector = vec![0.0; count + 1];
            (vector[0], vector[1 + place]) = (1.0, 0.2);
            vector
        };
        let passage = |place: usize| {
            let mut vector = vec![0.0; count + 1];
            (vector[0], vector[1 + place]) = (base(place), 1.0);
            vector
        };
        let questions: Vec<Vec<f32>> = (0..count).map(question).collect();
        let passages: Vec<Vec<f32>> = (0..count).map(passage).collect();
        let levels = CosineLevels::of(&questions, &passages).expect("told apart");
        assert!((levels.unrelated - 0.3).abs() < 1e-5 && (levels.related - 0.5).abs() < 1e-5);
        assert!(levels.apart > 90.0, "{levels:?}");
    }

    #[test]
    fn an_embedder_that_tells_nothing_apart_has_no_levels() {
        let same = vec![vec![1.0, 0.0]; 4];
        assert_eq!(CosineLevels::of(&same, &same), None);
        let nonsense = vec![vec![f32::NAN, 0.0]; 4];
        assert_eq!(CosineLevels::of(&nonsense, &nonsense), None);
        assert_eq!(CosineLevels::of(&[], &[]), None);
        // Every question has the most in common with the passage of another.
        let vectors: Vec<Vec<f32>> = (0..4).map(|it| at(0.5, 4, it)).collect();
        let mut turned = vectors.clone();
        turned.rotate_left(1);
        assert_eq!(CosineLevels::of(&vectors, &turned), None);
    }

    #[test]
    fn what_was_measured_is_kept_also_that_there_is_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let catalog = Catalog::open(&folder.path().join("catalog.sqlite")).expect("opens");
        let id = "owner/embedder/256/mean/0123";
        assert_eq!(known(&catalog, id).expect("readable"), None);
        for levels in [Some(CosineLevels { unrelated: 0.75, related: 0.84, apart: 5.0 }), None] {
            keep(&catalog, id, levels).expect("kept");
            assert_eq!(known(&catalog, id).expect("readable"), Some(levels));
        }
        assert_eq!(known(&catalog, "embedder/512/mean/0123").expect("readable"), None);
        catalog.set_setting(&setting(id), Some("{}")).expect("written");
        assert_eq!(known(&catalog, id).expect("readable"), None);
    }

    /// By who indexes, and by who searches in a home that was indexed before.
    #[test]
    fn an_embedder_is_measured_once_and_that_is_kept() {
        let home = tempfile::tempdir().expect("a folder");
        let model =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/tiny-bert-encoder");
        let mut library = Library::open(Config::new(home.path())).expect("opens");
        library.choose_embedder(&model.to_string_lossy()).expect("a model");
        let text = "The mooring ends in March.".to_owned();
        let document = InputDocument { id: "doc".to_owned(), title: String::new(), text };
        let mut documents = std::iter::once(document);
        let stop = AtomicBool::new(false);
        library.add_documents("notes", &mut documents, &mut |_| {}, &stop).expect("indexed");
        drop(library);
        let catalog = Catalog::open(&home.path().join("catalog.sqlite")).expect("opens");
        let id = catalog.active_embedder().expect("readable").expect("one").id;
        let measured = || known(&catalog, &id).expect("readable");
        let by_index = measured();
        assert!(by_index.is_some());
        catalog.set_setting(&setting(&id), None).expect("written");
        assert_eq!(measured(), None);
        let assistant = Assistant::open(Config::new(home.path())).expect("opens");
        let request = SearchRequest::new("mooring");
        assert_eq!(assistant.search(&request).expect("searches").hits.len(), 1);
        assert_eq!(measured(), by_index);
    }

    /// The levels of the scale are those of the default embedder.
    #[test]
    fn the_scale_is_the_default_embedders() {
        let at = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/models");
        let dir = at.join(DEFAULT_EMBEDDER);
        if !dir.is_dir() {
            eprintln!(
                "SKIPPED: {DEFAULT_EMBEDDER} is not in {} (`make test` fetches it)",
                at.display()
            );
            return;
        }
        let embedder = riddle_embedding::open(&dir, riddle_embedding::EncoderOptions::default());
        let embedder = embedder.expect("opens");
        assert!(are_the_scale(embedder.id()), "{}", embedder.id());
        let levels = CosineLevels::measure(&*embedder).expect("runs").expect("told apart");
        assert!((levels.related - DEFAULT.related).abs() < 0.01, "{levels:?}");
        assert!((levels.unrelated - DEFAULT.unrelated).abs() < 0.01, "{levels:?}");
        assert!((levels.apart - DEFAULT.apart).abs() < 0.3, "{levels:?}");
    }
}
