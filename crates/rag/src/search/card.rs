//! What a reranker's own configuration says about its use in a pipeline.

use std::path::Path;

use riddle_retrieval::{Evidence, Trust, mean_of_known};
use riddle_types::Prior as Known;
use serde::Deserialize;

use super::language::foreign_language;
use crate::home::{DEFAULT_EMBEDDER, embedder::encoder_name};

/// Most bytes of a configuration that are read; those of published models have some thousand.
const LARGEST: u64 = 1 << 20;

/// The part `riddle` of a reranker's `config.json`; programs that do not know it pass it over.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct RerankerCard {
    /// How much the vectors' similarity counts beside the model's own score.
    pub(crate) prior: Option<Prior>,
    /// Languages that it was trained on (ISO 639-1); empty: not said, so any.
    pub(crate) languages: Vec<String>,
    /// Its heads and neurons lie in the order of what they are worth, as it was trained to be read in part.
    pub(crate) slices_in_order: bool,
    /// What its score says of whether there is an answer.
    pub(crate) answers: Option<Answers>,
}

/// How a score speaks for there being an answer: `scale * (score - center)` is added to the evidence of sentences,
/// where `score` is the model's own, without a prior.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub(crate) struct Answers {
    /// Evidence per logit.
    pub(crate) scale: f32,
    /// Score that says nothing, so that limits on evidence keep their meaning.
    pub(crate) center: f32,
}

impl Answers {
    /// Whether both are numbers, and a better score speaks for an answer.
    fn is_sound(&self) -> bool {
        self.scale.is_finite() && self.scale >= 0.0 && self.center.is_finite()
    }

    /// Evidence that a score adds; it may be negative.
    pub(crate) fn speaks(self, score: f32) -> f32 {
        self.scale * (score - self.center)
    }
}

/// The retrieval prior: `scale * (cosine - center) + keyword * (share - keyword_center)` is added to a candidate's raw
/// score, where `share` is its BM25 score as a share of the query's best. A model that was trained with cosines has
/// learned what the embedder does not know, instead of learning the embedder; the words are what holds where neither
/// has ever read the like. Whether that is so, the best cosine tells ([`Trust`]).
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Prior {
    /// Name of the embedder whose cosines are meant: others are spread otherwise, and count where they are brought to
    /// its scale.
    pub(crate) embedder: String,
    /// How far they are trusted, query by query; always alike where the card does not say. What the best candidate gets
    /// stays as it is, so that scores keep their meaning: the distances of the others from it grow or shrink.
    #[serde(default)]
    pub(crate) trust: Option<Trust>,
    /// Where terms are not weighed.
    #[serde(flatten)]
    pub(crate) weights: Weights,
    /// The same for scores before the first layer, after it and so on, but for the last.
    #[serde(default)]
    pub(crate) earlier: Vec<EarlierWeights>,
    /// Where they are.
    #[serde(default)]
    pub(crate) with_terms: Option<TermPrior>,
}

/// How much each kind of evidence counts.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub(crate) struct Weights {
    /// Logits per unit of cosine.
    pub(crate) scale: f32,
    /// Cosine that adds nothing, so that scores keep their meaning.
    pub(crate) center: f32,
    /// Logits that the best keyword score adds; 0 where the card does not say.
    #[serde(default)]
    pub(crate) keyword: f32,
    /// Share of the best keyword score that adds nothing, and what is taken where nobody asked the keywords.
    #[serde(default)]
    pub(crate) keyword_center: f32,
}

/// How much each kind of evidence counts beside what an early layer says, which is less than what the model will say:
/// `scale * cosine + keyword * share + sparse * share - center`.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub(crate) struct EarlierWeights {
    /// Logits per unit of cosine.
    pub(crate) scale: f32,
    /// Logits that the best keyword score adds.
    pub(crate) keyword: f32,
    /// Logits that the best score by weighed terms adds.
    #[serde(default)]
    pub(crate) sparse: f32,
    /// What is taken away, so that scores mean what the last layer's do.
    pub(crate) center: f32,
}

impl EarlierWeights {
    fn is_sound(&self) -> bool {
        [self.scale, self.keyword, self.sparse, self.center].iter().all(|it| it.is_finite())
    }
}

/// The same beside weighed terms: `sparse * (share - sparse_center)` is added, of the best score by learned sparse
/// vectors.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct TermPrior {
    /// Name of the sparse encoder that is meant.
    pub(crate) encoder: String,
    /// What counts beside it.
    #[serde(flatten)]
    pub(crate) weights: Weights,
    /// Logits that the best score adds.
    pub(crate) sparse: f32,
    /// Share of the best score that adds nothing.
    #[serde(default)]
    pub(crate) sparse_center: f32,
    /// As [`Prior::earlier`].
    #[serde(default)]
    pub(crate) earlier: Vec<EarlierWeights>,
}

/// What a request's prior is made of, as far as a calibration cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PriorUse {
    /// There is none.
    None,
    /// As the card says.
    Card,
    /// On a scale of the caller's own, of another embedder, or without the weighed terms that the card knows.
    Other,
}

impl PriorUse {
    /// Whether what was learned with a prior or without one holds; `None`: neither.
    pub(crate) fn with_prior(self) -> Option<bool> {
        match self {
            PriorUse::None => Some(false),
            PriorUse::Card => Some(true),
            PriorUse::Other => None,
        }
    }
}

/// Who made the evidence, by identities; empty: nobody.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MadeBy<'a> {
    pub(crate) embedder: &'a str,
    /// Its cosines are on the default embedder's scale: its own, or brought there.
    pub(crate) on_scale: bool,
    pub(crate) encoder: &'a str,
}

/// A prior, candidate by candidate, and what it is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MadePrior {
    /// Logits; empty without a prior.
    pub(crate) logits: Vec<f32>,
    /// Those of earlier layers, from the one before the first on.
    pub(crate) earlier: Vec<Vec<f32>>,
    /// What calibrations may be applied to it.
    pub(crate) of: PriorUse,
}

impl MadePrior {
    fn none() -> MadePrior {
        MadePrior { logits: Vec::new(), earlier: Vec::new(), of: PriorUse::None }
    }

    /// As rerankers take it.
    pub(crate) fn known(&self) -> Known<'_> {
        Known { last: &self.logits, earlier: &self.earlier }
    }
}

/// A file of which only one part matters here.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ConfigFile {
    riddle: RerankerCard,
}

impl RerankerCard {
    /// Reads it; a model without one, or with one of another shape, has nothing to say.
    pub(crate) fn read(dir: &Path) -> RerankerCard {
        let path = dir.join("config.json");
        let readable = std::fs::metadata(&path).is_ok_and(|it| it.is_file() && it.len() < LARGEST);
        if !readable {
            return RerankerCard::default();
        }
        let text = std::fs::read(&path).unwrap_or_default();
        let card = match serde_json::from_slice::<ConfigFile>(&text) {
            Ok(file) => file.riddle,
            Err(error) => {
                tracing::warn!(%error, path = %path.display(), "the reranker's card is passed over");
                RerankerCard::default()
            }
        };
        let finite = |it: &Weights| {
            [it.scale, it.center, it.keyword, it.keyword_center].iter().all(|it| it.is_finite())
        };
        let with_terms = |it: &TermPrior| {
            finite(&it.weights)
                && it.sparse.is_finite()
                && it.sparse_center.is_finite()
                && it.earlier.iter().all(EarlierWeights::is_sound)
        };
        let sound = |it: &Prior| {
            finite(&it.weights)
                && it.with_terms.as_ref().is_none_or(with_terms)
                && it.earlier.iter().all(EarlierWeights::is_sound)
                && it.trust.is_none_or(|it| it.usual.is_finite() && it.rate.is_finite())
        };
        let answers = card.answers.filter(Answers::is_sound);
        RerankerCard { prior: card.prior.filter(sound), answers, ..card }
    }

    /// The prior of candidates of which retrieval knows this; empty where there is none to give. A candidate
    /// without a vector or weighed terms, as one that was indexed a moment ago, is taken for an average one.
    pub(crate) fn prior(
        &self,
        by: MadeBy<'_>,
        scale: Option<f32>,
        evidence: &[Evidence],
    ) -> MadePrior {
        let Some(prior) = &self.prior else { return MadePrior::none() };
        let own = prior.embedder == encoder_name(by.embedder);
        let brought = by.on_scale && prior.embedder == DEFAULT_EMBEDDER;
        if !own && !brought {
            return MadePrior::none();
        }
        let encoder = encoder_name(by.encoder);
        let made = if prior.with_terms.as_ref().is_some_and(|it| it.encoder == encoder) {
            self.prior_of_any(scale, evidence)
        } else {
            // Weights of terms by another encoder are spread otherwise.
            let without: Vec<Evidence> =
                evidence.iter().map(|it| Evidence { sparse: None, ..*it }).collect();
            self.prior_of_any(scale, &without)
        };
        // What was learned with the cosines of one embedder is not promised of another.
        let other = !own && made.of == PriorUse::Card;
        MadePrior { of: if other { PriorUse::Other } else { made.of }, ..made }
    }

    /// [`prior`](Self::prior), where the caller answers for the encoders. Another `scale` than the card's counts
    /// keywords and terms less or more in the same proportion.
    pub(crate) fn prior_of_any(&self, scale: Option<f32>, evidence: &[Evidence]) -> MadePrior {
        let Some(prior) = &self.prior else { return MadePrior::none() };
        let unknown = |of: fn(&Evidence) -> Option<f32>| {
            !evidence.iter().any(|it| of(it).is_some_and(f32::is_finite))
        };
        if unknown(|it| it.cosine) || scale == Some(0.0) {
            return MadePrior::none();
        }
        let terms = prior.with_terms.as_ref().filter(|_| !unknown(|it| it.sparse));
        let weights = terms.map_or(prior.weights, |it| it.weights);
        let own = weights.scale;
        let scale = scale.unwrap_or(own);
        if scale == 0.0 {
            return MadePrior::none();
        }
        let share = if own > 0.0 { scale / own } else { 0.0 };
        let mean = mean_of_known(evidence.iter().map(|it| it.cosine));
        let mean_sparse = mean_of_known(evidence.iter().map(|it| it.sparse));
        let or =
            |value: Option<f32>, other: f32| value.filter(|it| it.is_finite()).unwrap_or(other);
        let cosine_of = |it: &Evidence| or(it.cosine, mean).clamp(-1.0, 1.0);
        let best = evidence.iter().map(cosine_of).fold(-1.0, f32::max);
        let (trust, trust_in_words) = prior.trust.map_or((1.0, 1.0), |it| it.factors(best));
        let cosine = |it: &Evidence| best + trust * (cosine_of(it) - best);
        let keyword = |it: &Evidence| {
            let known = it.keyword.filter(|it| it.is_finite());
            known.map(|share| 1.0 + trust_in_words * (share.clamp(0.0, 2.0) - 1.0))
        };
        let sparse = |it: &Evidence| or(it.sparse, mean_sparse).clamp(0.0, 1.0);
        let of = |it: &Evidence| {
            let keyword = keyword(it).map_or(0.0, |it| it - weights.keyword_center);
            let sparse = terms
                .map_or(0.0, |terms| share * terms.sparse * (sparse(it) - terms.sparse_center));
            scale * (cosine(it) - weights.center) + share * weights.keyword * keyword + sparse
        };
        let earlier = terms.map_or(&prior.earlier, |it| &it.earlier).iter().map(|early| {
            let of = |it: &Evidence| {
                let keyword = early.keyword * keyword(it).unwrap_or(0.0);
                let sparse = if terms.is_some() { early.sparse * sparse(it) } else { 0.0 };
                share * (early.scale * cosine(it) + keyword + sparse - early.center)
            };
            evidence.iter().map(of).collect()
        });
        let card = share == 1.0 && terms.is_some() == prior.with_terms.is_some();
        MadePrior {
            earlier: earlier.collect(),
            logits: evidence.iter().map(of).collect(),
            of: if card { PriorUse::Card } else { PriorUse::Other },
        }
    }

    /// What a prior of others is, by its scale.
    pub(crate) fn prior_use(&self, scale: Option<f32>, prior: &[f32]) -> PriorUse {
        let own = self.prior.as_ref().filter(|it| it.with_terms.is_none());
        match own {
            _ if prior.is_empty() => PriorUse::None,
            Some(own) if scale.is_none_or(|it| it == own.weights.scale) => PriorUse::Card,
            _ => PriorUse::Other,
        }
    }

    /// The language (ISO 639-1) that speaks against this model: that of the query, or of most of the passages.
    pub(crate) fn foreign_language<'a>(
        &self,
        query: &str,
        passages: impl Iterator<Item = &'a str>,
    ) -> Option<String> {
        foreign_language(&self.languages, query, passages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card() -> RerankerCard {
        RerankerCard {
            prior: Some(Prior {
                embedder: "small".to_owned(),
                trust: None,
                weights: Weights { scale: 10.0, center: 0.5, keyword: 4.0, keyword_center: 0.5 },
                earlier: Vec::new(),
                with_terms: None,
            }),
            languages: vec!["en".to_owned()],
            slices_in_order: false,
            answers: None,
        }
    }

    fn card_with_terms() -> RerankerCard {
        let mut card = card();
        let weights = Weights { scale: 8.0, center: 0.5, keyword: 2.0, keyword_center: 0.5 };
        let terms = TermPrior {
            encoder: "sparse".to_owned(),
            weights,
            sparse: 6.0,
            sparse_center: 0.5,
            earlier: Vec::new(),
        };
        if let Some(prior) = &mut card.prior {
            prior.with_terms = Some(terms);
        }
        card
    }

    const ENCODER: &str = "owner/sparse/256/96/4567";

    const EMBEDDER: MadeBy<'_> =
        MadeBy { embedder: "small/256/mean/0123", on_scale: false, encoder: "" };

    const OTHER: MadeBy<'_> = MadeBy { embedder: "other/256/mean/0123", ..EMBEDDER };

    #[test]
    fn a_configuration_with_a_card_is_read_and_others_say_nothing() {
        let dir = tempfile::tempdir().expect("tempdir");
        let read = |text: &str| {
            std::fs::write(dir.path().join("config.json"), text).expect("written");
            RerankerCard::read(dir.path())
        };
        let full = r#"{"hidden_size": 4, "riddle": {"languages": ["en"],
            "prior": {"embedder": "small", "scale": 10, "center": 0.5, "keyword": 4,
            "keyword_center": 0.5}}}"#;
        assert_eq!(read(full), card());
        let with_terms = r#"{"riddle": {"languages": ["en"], "prior": {"embedder": "small", "scale": 10, "center": 0.5,
            "keyword": 4, "keyword_center": 0.5, "with_terms": {"encoder": "sparse", "scale": 8, "center": 0.5,
            "keyword": 2, "keyword_center": 0.5, "sparse": 6, "sparse_center": 0.5}}}}"#;
        assert_eq!(read(with_terms), card_with_terms());
        for nothing in
            ["{}", "", "[1]", r#"{"riddle": {"prior": {"scale": "x"}}}"#, r#"{"riddle": {}}"#]
        {
            assert_eq!(read(nothing), RerankerCard::default(), "{nothing}");
        }
        assert_eq!(RerankerCard::read(Path::new("/nowhere")), RerankerCard::default());
    }

    #[test]
    fn what_a_card_says_of_answers_is_read_where_it_makes_sense() {
        let dir = tempfile::tempdir().expect("tempdir");
        let read = |answers: &str| {
            let text = format!(r#"{{"riddle": {{"languages": ["en"], "answers": {answers}}}}}"#);
            std::fs::write(dir.path().join("config.json"), text).expect("written");
            RerankerCard::read(dir.path())
        };
        let card = read(r#"{"scale": 0.5, "center": -1}"#);
        assert_eq!(card.answers, Some(Answers { scale: 0.5, center: -1.0 }));
        assert_eq!(card.answers.map(|it| it.speaks(3.0)), Some(2.0));
        // A worse score that speaks for an answer is none of the card's facts; the others are.
        let card = read(r#"{"scale": -0.5, "center": 0}"#);
        assert_eq!((card.answers, card.languages.len()), (None, 1));
        assert_eq!(read(r#"{"scale": 1e39, "center": 0}"#), RerankerCard::default());
    }

    #[test]
    fn the_prior_is_of_that_embedder_alone() {
        let of = |cosine| Evidence { cosine, ..Evidence::default() };
        let cosines = [Some(0.7), Some(0.3), None].map(of);
        let prior = card().prior(EMBEDDER, None, &cosines).logits;
        for (found, expected) in prior.iter().zip([2.0, -2.0, 0.0]) {
            assert!((found - expected).abs() < 1e-5, "{prior:?}");
        }
        let owned = MadeBy { embedder: "owner/small/256/mean/0123", ..EMBEDDER };
        assert_eq!(card().prior(owned, Some(1.0), &[of(Some(1.5))]).logits, [0.5]);
        let none = [
            card().prior(OTHER, None, &cosines),
            card().prior(EMBEDDER, Some(0.0), &cosines),
            card().prior(EMBEDDER, None, &[None, Some(f32::NAN)].map(of)),
            RerankerCard::default().prior(EMBEDDER, None, &cosines),
        ];
        assert!(none.iter().all(|it| *it == MadePrior::none()), "{none:?}");
    }

    #[test]
    fn cosines_that_were_brought_to_the_scale_count_and_are_promised_nothing() {
        let known = [0.7, 0.3].map(|it| Evidence { cosine: Some(it), ..Evidence::default() });
        let brought = MadeBy { on_scale: true, ..OTHER };
        // The card means an embedder that is not the scale.
        assert_eq!(card().prior(brought, None, &known), MadePrior::none());
        let mut default = card();
        if let Some(prior) = &mut default.prior {
            prior.embedder = DEFAULT_EMBEDDER.to_owned();
        }
        let own = format!("owner/{DEFAULT_EMBEDDER}/256/mean/0123");
        let own = default.prior(MadeBy { embedder: &own, ..brought }, None, &known);
        let other = default.prior(brought, None, &known);
        assert_eq!((own.of, other.of), (PriorUse::Card, PriorUse::Other));
        assert_eq!(own.logits, other.logits);
        assert_eq!(default.prior(OTHER, None, &known), MadePrior::none());
        assert_eq!(default.prior(brought, Some(0.0), &known), MadePrior::none());
    }

    #[test]
    fn a_prior_is_the_cards_or_another_or_none() {
        let known = [Evidence { cosine: Some(0.7), ..Evidence::default() }];
        let of = |scale| card().prior_of_any(scale, &known).of;
        assert_eq!([None, Some(10.0)].map(of), [PriorUse::Card; 2]);
        assert_eq!([Some(5.0), Some(0.0)].map(of), [PriorUse::Other, PriorUse::None]);
        // What was learned with weighed terms does not hold without them.
        assert_eq!(card_with_terms().prior_of_any(None, &known).of, PriorUse::Other);
        let weighed = [Evidence { sparse: Some(0.5), ..known[0] }];
        assert_eq!(card_with_terms().prior_of_any(None, &weighed).of, PriorUse::Card);
    }

    #[test]
    fn keywords_count_beside_cosines_and_in_proportion_to_them() {
        let evidence = [Some(1.0), Some(0.25), Some(f32::NAN), None].map(|keyword| Evidence {
            keyword,
            cosine: Some(0.5),
            sparse: None,
        });
        assert_eq!(card().prior_of_any(None, &evidence).logits, [2.0, -1.0, 0.0, 0.0]);
        assert_eq!(card().prior_of_any(Some(5.0), &evidence).logits, [1.0, -0.5, 0.0, 0.0]);
    }

    #[test]
    fn cosines_are_trusted_as_far_as_the_best_one_says() {
        let mut trusting = card();
        if let Some(prior) = &mut trusting.prior {
            prior.trust = Some(Trust { usual: 0.6, rate: 4.0 });
        }
        let of = |card: &RerankerCard, best: f32| {
            let evidence = [(best, 0.5), (best - 0.1, 1.0)].map(|(cosine, share)| Evidence {
                cosine: Some(cosine),
                keyword: Some(share),
                sparse: None,
            });
            let logits = card.prior_of_any(None, &evidence).logits;
            (logits[0], logits[0] - logits[1])
        };
        // As the card says for an ordinary query: the cosines differ by 1, the words by 2 the other way.
        for (best, expected) in [(0.6, -1.0), (0.7, 1.0 * 1.4918 - 2.0 * 0.8187)] {
            let (_, distance) = of(&trusting, best);
            assert!((distance - expected).abs() < 1e-3, "{best}: {distance}");
            assert!((of(&card(), best).1 + 1.0).abs() < 1e-4);
        }
        // The best one by both keeps its score, whatever is trusted.
        let best = [Evidence { cosine: Some(0.4), keyword: Some(1.0), sparse: None }];
        assert_eq!(trusting.prior_of_any(None, &best), card().prior_of_any(None, &best));
    }

    #[test]
    fn weighed_terms_count_where_their_encoder_is_known() {
        let evidence = [Some(1.0), Some(0.0), None].map(|sparse| Evidence {
            keyword: Some(1.0),
            cosine: Some(0.5),
            sparse,
        });
        let of = |encoder| card_with_terms().prior(MadeBy { encoder, ..EMBEDDER }, None, &evidence);
        assert_eq!(of(ENCODER).logits, [4.0, -2.0, 1.0]);
        for other in ["", "other/256/96/4567"] {
            let made = of(other);
            assert_eq!((made.logits.as_slice(), made.of), (&[2.0; 3][..], PriorUse::Other));
        }
        let by = MadeBy { encoder: ENCODER, ..EMBEDDER };
        assert_eq!(card().prior(by, None, &evidence).logits, [2.0; 3]);
    }

    #[test]
    fn early_layers_are_helped_by_weights_of_their_own() {
        let weights =
            |scale, keyword, sparse, center| EarlierWeights { scale, keyword, sparse, center };
        let mut card = card_with_terms();
        if let Some(prior) = &mut card.prior {
            prior.earlier = vec![weights(20.0, 6.0, 9.0, 1.0)];
            if let Some(terms) = &mut prior.with_terms {
                terms.earlier = vec![weights(10.0, 4.0, 2.0, 0.0), weights(8.0, 3.0, 1.0, 1.0)];
            }
        }
        let known = Evidence { keyword: Some(0.5), cosine: Some(0.4), sparse: Some(0.5) };
        let made = card.prior_of_any(None, &[known]);
        assert_eq!(made.earlier, [vec![7.0], vec![4.2]]);
        assert_eq!(made.known().of(0, 1), 4.2);
        assert_eq!(made.known().of(0, 2), made.logits[0]);
        // Half of everything, and without weighed terms what was fitted without.
        assert_eq!(card.prior_of_any(Some(4.0), &[known]).earlier, [vec![3.5], vec![2.1]]);
        let without = Evidence { sparse: None, ..known };
        assert_eq!(card.prior_of_any(None, &[without]).earlier, [vec![10.0]]);
        assert_eq!(card_with_terms().prior_of_any(None, &[known]).earlier, Vec::<Vec<f32>>::new());
    }

    #[test]
    fn another_language_is_told_by_the_question_or_by_most_passages() {
        let english = "The tower was built for the fair and is three hundred metres high.";
        let german = "Der Turm wurde für die Ausstellung gebaut und ist dreihundert Meter hoch.";
        let chinese = "这座塔是为博览会建造的";
        let foreign = |query: &str, passages: &[&str]| {
            card().foreign_language(query, passages.iter().copied())
        };
        assert_eq!(foreign("How high is the tower that was built?", &[english; 5]), None);
        assert_eq!(
            foreign("Wie hoch ist der Turm, der gebaut wurde?", &[english]).as_deref(),
            Some("de")
        );
        assert_eq!(foreign(chinese, &[english]).as_deref(), Some("zh"));
        assert_eq!(foreign("Eiffel", &[german, german, english]).as_deref(), Some("de"));
        assert_eq!(foreign("Eiffel", &[german, english, english]), None);
        assert_eq!(foreign("", &[]), None);
        let any = RerankerCard::default();
        assert_eq!(any.foreign_language(chinese, [german].into_iter()), None);
    }
}
