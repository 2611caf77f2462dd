//! What rerank servers answer, in any of their shapes, held against what they were asked.

use serde_json::Value;

use crate::error::Lie;

/// Probabilities of 0 and 1 have no logit; what lies nearer to them than this is told apart by nobody.
const NEAREST: f64 = 1e-12;

/// Most characters of an answer that are shown.
const SHOWN: usize = 60;

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Said {
    /// A score for each text, in the server's own scale.
    pub(super) scores: Vec<f64>,
    /// Who says so, where the answer tells.
    pub(super) model: Option<String>,
}

/// The JSON of an answer.
pub(super) fn json(bytes: &[u8]) -> Result<Value, Lie> {
    serde_json::from_slice(bytes).map_err(|error| {
        if error.is_eof() && !bytes.trim_ascii().is_empty() {
            return Lie::CutOff;
        }
        let begin = &bytes[..bytes.len().min(4 * SHOWN)];
        let text = String::from_utf8_lossy(begin);
        let plain = text.split_whitespace().collect::<Vec<_>>().join(" ");
        Lie::NotJson { begins: plain.chars().take(SHOWN).collect() }
    })
}

/// The scores of `wanted` texts: a bare list, or an object with a list of `results` or `data`.
pub(super) fn scores(answer: &Value, wanted: usize) -> Result<Said, Lie> {
    let list = answer.as_array().or_else(|| {
        let of = |name: &str| answer.get(name).and_then(Value::as_array);
        of("results").or_else(|| of("data"))
    });
    let list = list.ok_or(Lie::Shape { missing: "list of results" })?;
    if list.len() != wanted {
        return Err(Lie::Count { given: list.len(), wanted });
    }
    let mut scores: Vec<Option<f64>> = vec![None; wanted];
    for result in list {
        let index = result.get("index").and_then(Value::as_u64);
        let index = index.ok_or(Lie::Shape { missing: "index beside a score" })?;
        let at = usize::try_from(index).ok().filter(|it| *it < wanted);
        let at = at.ok_or(Lie::Index { index, wanted })?;
        let score = result.get("relevance_score").or_else(|| result.get("score"));
        let score = score.ok_or(Lie::Shape { missing: "score in a result" })?;
        // Scores are added to others as 32 bits.
        let score = score.as_f64().filter(|it| (*it as f32).is_finite());
        let score = score.ok_or(Lie::NotFinite { index: at })?;
        if scores[at].replace(score).is_some() {
            return Err(Lie::Twice { index: at });
        }
    }
    let model = answer.get("model").and_then(Value::as_str).map(str::to_owned);
    // As many results as texts, and none twice.
    Ok(Said { scores: scores.into_iter().flatten().collect(), model })
}

/// Scores as logits. Where all lie between 0 and 1 they are probabilities; logits never do for long.
pub(super) fn logits(scores: &[f64]) -> Vec<f32> {
    let probabilities = scores.iter().all(|it| (0.0..=1.0).contains(it));
    let logit = |&it: &f64| {
        if !probabilities {
            return it as f32;
        }
        let it = it.clamp(NEAREST, 1.0 - NEAREST);
        (it / (1.0 - it)).ln() as f32
    };
    scores.iter().map(logit).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn of(text: &str, wanted: usize) -> Result<Said, Lie> {
        scores(&json(text.as_bytes())?, wanted)
    }

    #[test]
    fn every_shape_is_read() {
        let bare = r#"[{"index":1,"score":0.9},{"index":0,"score":0.1,"text":"a"}]"#;
        assert_eq!(of(bare, 2).expect("a list").scores, [0.1, 0.9]);
        for name in ["results", "data"] {
            let object = json!({"model": "m", name: [{"index": 0, "relevance_score": -3}]});
            let said = scores(&object, 1).expect("an object");
            assert_eq!((said.scores, said.model.as_deref()), (vec![-3.0], Some("m")));
        }
        assert_eq!(of("[]", 0).expect("nothing").scores, [0.0; 0]);
    }

    #[test]
    fn every_lie_has_its_name() {
        let two = |first: &str, second: &str| format!("{{\"results\":[{first},{second}]}}");
        let (zero, one) =
            (r#"{"index":0,"relevance_score":0.5}"#, r#"{"index":1,"relevance_score":0.25}"#);
        for (text, lie) in [
            (
                "<html>\n<body>no</body>".to_owned(),
                Lie::NotJson { begins: "<html> <body>no</body>".to_owned() },
            ),
            (String::new(), Lie::NotJson { begins: String::new() }),
            (two(zero, one)[..40].to_owned(), Lie::CutOff),
            ("{}".to_owned(), Lie::Shape { missing: "list of results" }),
            ("7".to_owned(), Lie::Shape { missing: "list of results" }),
            (two("7", one), Lie::Shape { missing: "index beside a score" }),
            (two(r#"{"index":-1,"score":1}"#, one), Lie::Shape { missing: "index beside a score" }),
            (two(r#"{"index":0}"#, one), Lie::Shape { missing: "score in a result" }),
            (format!("[{zero}]"), Lie::Count { given: 1, wanted: 2 }),
            (format!("[{zero},{zero},{one}]"), Lie::Count { given: 3, wanted: 2 }),
            (two(zero, r#"{"index":2,"score":1}"#), Lie::Index { index: 2, wanted: 2 }),
            (two(one, one), Lie::Twice { index: 1 }),
            (two(zero, r#"{"index":1,"score":null}"#), Lie::NotFinite { index: 1 }),
            (two(zero, r#"{"index":1,"score":1e300}"#), Lie::NotFinite { index: 1 }),
            (two(zero, r#"{"index":1,"score":"0.5"}"#), Lie::NotFinite { index: 1 }),
        ] {
            assert_eq!(of(&text, 2).expect_err(&text), lie);
        }
        // JSON has no such number.
        assert!(matches!(
            of(&two(zero, r#"{"index":1,"score":NaN}"#), 2),
            Err(Lie::NotJson { .. })
        ));
    }

    proptest! {
        #[test]
        fn logits_keep_the_order(scores in proptest::collection::vec(0.0_f64..=1.0, 1..20)) {
            let logits = logits(&scores);
            for (a, b) in scores.iter().zip(&logits) {
                for (c, d) in scores.iter().zip(&logits) {
                    prop_assert!(b.is_finite() && (a > c || b <= d), "{a} {b} {c} {d}");
                }
            }
        }

        #[test]
        fn any_bytes_are_an_answer_or_a_lie(bytes in proptest::collection::vec(any::<u8>(), 0..60), wanted in 0_usize..4) {
            if let Ok(said) = json(&bytes).and_then(|it| scores(&it, wanted)) {
                prop_assert_eq!(said.scores.len(), wanted);
            }
        }
    }

    #[test]
    fn probabilities_become_logits_and_logits_stay() {
        assert_eq!(
            logits(&[0.5, 0.0, 1.0]).iter().map(|it| it.round()).collect::<Vec<_>>(),
            [0.0, -28.0, 28.0]
        );
        assert_eq!(logits(&[0.5, 1.5]), [0.5, 1.5]);
    }
}
