//! What a reranker's own configuration says about its use in a pipeline.

use std::path::Path;

use riddle_retrieval::{Evidence, detect_language};
use serde::Deserialize;

/// Parts of an embedder's identity after its name: longest text, pooling, a digest.
const ID_PARTS: usize = 3;

/// Most bytes of a configuration that are read; those of published models have some thousand.
const LARGEST: u64 = 1 << 20;

/// Passages whose language is looked at, the best first.
const PASSAGES_LOOKED_AT: usize = 5;

/// Fewest letters of a query that tell its language: below, names and loan words decide.
const LETTERS_OF_A_QUERY: usize = 30;

/// The part `riddle` of a reranker's `config.json`; programs that do not know it pass it over.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct RerankerCard {
    /// How much the vectors' similarity counts beside the model's own score.
    pub(crate) prior: Option<Prior>,
    /// Languages that it was trained on (ISO 639-1); empty: not said, so any.
    pub(crate) languages: Vec<String>,
}

/// The retrieval prior: `scale * (cosine - center) + keyword * (share - keyword_center)` is added to a candidate's raw
/// score, where `share` is its BM25 score as a share of the query's best. A model that was trained with cosines has
/// learned what the embedder does not know, instead of learning the embedder; the words are what holds where neither
/// has ever read the like.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Prior {
    /// Name of the embedder whose cosines are meant: others are spread otherwise.
    pub(crate) embedder: String,
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

/// What a request's prior is made of, as far as a calibration cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PriorUse {
    /// There is none.
    None,
    /// As the card says.
    Card,
    /// On a scale of the caller's own.
    Scaled,
}

impl PriorUse {
    /// Whether what was learned with a prior or without one holds; `None`: neither.
    pub(crate) fn with_prior(self) -> Option<bool> {
        match self {
            PriorUse::None => Some(false),
            PriorUse::Card => Some(true),
            PriorUse::Scaled => None,
        }
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
        let sound = |it: &Prior| {
            [it.scale, it.center, it.keyword, it.keyword_center].iter().all(|it| it.is_finite())
        };
        RerankerCard { prior: card.prior.filter(sound), ..card }
    }

    /// The prior of candidates of which retrieval knows this; empty where there is none to give. A candidate
    /// without a vector, as one that was indexed a moment ago, is taken for an average one.
    pub(crate) fn prior(
        &self,
        embedder: &str,
        scale: Option<f32>,
        evidence: &[Evidence],
    ) -> Vec<f32> {
        match &self.prior {
            Some(prior) if prior.embedder == embedder_name(embedder) => {
                self.prior_of_any(scale, evidence)
            }
            _ => Vec::new(),
        }
    }

    /// [`prior`](Self::prior), where the caller answers for the embedder. Another `scale` than the card's counts
    /// keywords less or more in the same proportion.
    pub(crate) fn prior_of_any(&self, scale: Option<f32>, evidence: &[Evidence]) -> Vec<f32> {
        let Some(prior) = &self.prior else { return Vec::new() };
        let scale = scale.unwrap_or(prior.scale);
        let known: Vec<f32> =
            evidence.iter().filter_map(|it| it.cosine).filter(|it| it.is_finite()).collect();
        if known.is_empty() || scale == 0.0 {
            return Vec::new();
        }
        let keyword = if prior.scale > 0.0 { prior.keyword * scale / prior.scale } else { 0.0 };
        let mean = known.iter().sum::<f32>() / known.len() as f32;
        let of = |it: &Evidence| {
            let cosine = it.cosine.filter(|it| it.is_finite()).unwrap_or(mean).clamp(-1.0, 1.0);
            let share = it.keyword.filter(|it| it.is_finite()).map(|it| it.clamp(0.0, 1.0));
            let share = share.unwrap_or(prior.keyword_center);
            scale * (cosine - prior.center) + keyword * (share - prior.keyword_center)
        };
        evidence.iter().map(of).collect()
    }

    /// What a prior that was made by `scale` is.
    pub(crate) fn prior_use(&self, scale: Option<f32>, prior: &[f32]) -> PriorUse {
        let own = self.prior.as_ref().map(|it| it.scale);
        match scale {
            _ if prior.is_empty() => PriorUse::None,
            Some(scale) if own != Some(scale) => PriorUse::Scaled,
            _ => PriorUse::Card,
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

/// The name in an embedder's identity: a repository's has its owner before it, a folder's has not.
pub(crate) fn embedder_name(identity: &str) -> &str {
    identity.rsplit('/').nth(ID_PARTS).unwrap_or_default()
}

/// The language (ISO 639-1) that is none of `languages`, if there are any: that of the query, or of most of the first
/// passages.
pub(crate) fn foreign_language<'a>(
    languages: &[impl AsRef<str>],
    query: &str,
    passages: impl Iterator<Item = &'a str>,
) -> Option<String> {
    if languages.is_empty() {
        return None;
    }
    let foreign = |text: &str| {
        let language = detect_language(text)?;
        (!languages.iter().any(|it| it.as_ref() == language)).then_some(language)
    };
    let letters = query.chars().filter(|it| it.is_alphabetic()).count();
    let not_latin = query.chars().any(|it| it.is_alphabetic() && it > '\u{24f}');
    if (letters >= LETTERS_OF_A_QUERY || not_latin)
        && let Some(language) = foreign(query)
    {
        return Some(language);
    }
    let passages: Vec<Option<String>> = passages.take(PASSAGES_LOOKED_AT).map(foreign).collect();
    let strange: Vec<&String> = passages.iter().flatten().collect();
    (2 * strange.len() > passages.len()).then(|| strange[0].clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card() -> RerankerCard {
        RerankerCard {
            prior: Some(Prior {
                embedder: "small".to_owned(),
                scale: 10.0,
                center: 0.5,
                keyword: 4.0,
                keyword_center: 0.5,
            }),
            languages: vec!["en".to_owned()],
        }
    }

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
        for nothing in
            ["{}", "", "[1]", r#"{"riddle": {"prior": {"scale": "x"}}}"#, r#"{"riddle": {}}"#]
        {
            assert_eq!(read(nothing), RerankerCard::default(), "{nothing}");
        }
        assert_eq!(RerankerCard::read(Path::new("/nowhere")), RerankerCard::default());
    }

    #[test]
    fn the_prior_is_of_that_embedder_alone() {
        let of = |cosine| Evidence { keyword: None, cosine };
        let cosines = [Some(0.7), Some(0.3), None].map(of);
        let prior = card().prior("small/256/mean/0123", None, &cosines);
        for (found, expected) in prior.iter().zip([2.0, -2.0, 0.0]) {
            assert!((found - expected).abs() < 1e-5, "{prior:?}");
        }
        assert_eq!(card().prior("owner/small/256/mean/0123", Some(1.0), &[of(Some(1.5))]), [0.5]);
        let none: [Vec<f32>; 4] = [
            card().prior("other/256/mean/0123", None, &cosines),
            card().prior("small/256/mean/0", Some(0.0), &cosines),
            card().prior("small/256/mean/0", None, &[None, Some(f32::NAN)].map(of)),
            RerankerCard::default().prior("small/256/mean/0", None, &cosines),
        ];
        assert!(none.iter().all(Vec::is_empty), "{none:?}");
    }

    #[test]
    fn a_prior_is_the_cards_or_on_another_scale_or_none() {
        let known = [Evidence { keyword: None, cosine: Some(0.7) }];
        let of = |scale| card().prior_use(scale, &card().prior_of_any(scale, &known));
        assert_eq!([None, Some(10.0)].map(of), [PriorUse::Card; 2]);
        assert_eq!([Some(5.0), Some(0.0)].map(of), [PriorUse::Scaled, PriorUse::None]);
    }

    #[test]
    fn keywords_count_beside_cosines_and_in_proportion_to_them() {
        let evidence = [Some(1.0), Some(0.25), Some(f32::NAN), None]
            .map(|keyword| Evidence { keyword, cosine: Some(0.5) });
        assert_eq!(card().prior_of_any(None, &evidence), [2.0, -1.0, 0.0, 0.0]);
        assert_eq!(card().prior_of_any(Some(5.0), &evidence), [1.0, -0.5, 0.0, 0.0]);
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
