//! What servers answer that embed, held against what they were asked: vectors of one length, one for each text.

use serde_json::Value;

use crate::error::Lie;

/// Most numbers of a vector: the largest models make a quarter of that.
pub(super) const LONGEST: usize = 1 << 14;

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Said {
    /// A vector of length 1 for each text, in the order of the texts.
    pub(super) vectors: Vec<Vec<f32>>,
    /// Who says so, where the answer tells.
    pub(super) model: Option<String>,
}

/// The vectors of `wanted` texts, in whatever order they come: each has its text's number beside it. `dimensions` is
/// how long they must be; `None`: as long as the first one.
pub(super) fn vectors(
    answer: &Value,
    wanted: usize,
    dimensions: Option<usize>,
) -> Result<Said, Lie> {
    let list = answer.get("data").and_then(Value::as_array);
    let list = list.ok_or(Lie::Shape { missing: "list of data" })?;
    if list.len() != wanted {
        return Err(Lie::Count { given: list.len(), wanted });
    }
    let mut dimensions = dimensions;
    let mut vectors: Vec<Option<Vec<f32>>> = vec![None; wanted];
    for result in list {
        let index = result.get("index").and_then(Value::as_u64);
        let index = index.ok_or(Lie::Shape { missing: "index beside a vector" })?;
        let at = usize::try_from(index).ok().filter(|it| *it < wanted);
        let at = at.ok_or(Lie::Index { index, wanted })?;
        let vector = match result.get("embedding") {
            Some(Value::Array(numbers)) => numbers,
            Some(Value::String(_)) => return Err(Lie::Packed),
            _ => return Err(Lie::Shape { missing: "embedding in a result" }),
        };
        let vector = unit(vector, at, dimensions)?;
        dimensions = Some(vector.len());
        if vectors[at].replace(vector).is_some() {
            return Err(Lie::Twice { index: at });
        }
    }
    let model = answer.get("model").and_then(Value::as_str).map(str::to_owned);
    // As many results as texts, and none twice.
    Ok(Said { vectors: vectors.into_iter().flatten().collect(), model })
}

/// The vector of length 1 in this direction. Servers differ in whether they make it one.
fn unit(numbers: &[Value], index: usize, dimensions: Option<usize>) -> Result<Vec<f32>, Lie> {
    let given = numbers.len();
    if !(1..=LONGEST).contains(&given) {
        return Err(Lie::NoVector { index, given });
    }
    if let Some(wanted) = dimensions.filter(|it| *it != given) {
        return Err(Lie::Dimensions { index, given, wanted });
    }
    let number = |it: &Value| it.as_f64().filter(|it| (*it as f32).is_finite());
    let numbers: Option<Vec<f64>> = numbers.iter().map(number).collect();
    let numbers = numbers.ok_or(Lie::NotFinite { index })?;
    let length = numbers.iter().map(|it| it * it).sum::<f64>().sqrt();
    // What is smaller than any number that a model computes with is noise.
    if length < f64::from(f32::MIN_POSITIVE) {
        return Err(Lie::NoDirection { index });
    }
    Ok(numbers.into_iter().map(|it| (it / length) as f32).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn of(data: &Value, wanted: usize, dimensions: Option<usize>) -> Result<Said, Lie> {
        vectors(&json!({ "data": data, "model": "m" }), wanted, dimensions)
    }

    #[test]
    fn vectors_are_put_in_the_order_of_their_texts() {
        let data = json!([{"index": 1, "embedding": [0, 2]}, {"index": 0, "embedding": [3, 4]}]);
        let said = of(&data, 2, Some(2)).expect("vectors");
        assert_eq!(said.vectors, [vec![0.6, 0.8], vec![0.0, 1.0]]);
        assert_eq!(said.model.as_deref(), Some("m"));
        assert!(of(&json!([]), 0, None).expect("none").vectors.is_empty());
    }

    #[test]
    fn every_lie_has_its_name() {
        let one = |index: i64, embedding: Value| json!({"index": index, "embedding": embedding});
        let good = || one(0, json!([1, 0]));
        for (data, lie) in [
            (json!({}), Lie::Shape { missing: "list of data" }),
            (json!([good()]), Lie::Count { given: 1, wanted: 2 }),
            (json!([good(), good(), good()]), Lie::Count { given: 3, wanted: 2 }),
            (json!([good(), 7]), Lie::Shape { missing: "index beside a vector" }),
            (json!([good(), one(-1, json!([1]))]), Lie::Shape { missing: "index beside a vector" }),
            (json!([good(), one(2, json!([1]))]), Lie::Index { index: 2, wanted: 2 }),
            (json!([good(), good()]), Lie::Twice { index: 0 }),
            (json!([good(), {"index": 1}]), Lie::Shape { missing: "embedding in a result" }),
            (json!([good(), one(1, json!("AACAPwAAAAA="))]), Lie::Packed),
            (json!([good(), one(1, json!([]))]), Lie::NoVector { index: 1, given: 0 }),
            (
                json!([good(), one(1, json!([1, 2, 3]))]),
                Lie::Dimensions { index: 1, given: 3, wanted: 2 },
            ),
            (json!([good(), one(1, json!([1, null]))]), Lie::NotFinite { index: 1 }),
            (json!([good(), one(1, json!([1, 1e300]))]), Lie::NotFinite { index: 1 }),
            (json!([good(), one(1, json!([1, "0.5"]))]), Lie::NotFinite { index: 1 }),
            (json!([good(), one(1, json!([0, 0]))]), Lie::NoDirection { index: 1 }),
        ] {
            assert_eq!(of(&data, 2, None).expect_err(&data.to_string()), lie);
        }
        let wanted = of(&json!([good()]), 1, Some(3)).expect_err("too short");
        assert_eq!(wanted, Lie::Dimensions { index: 0, given: 2, wanted: 3 });
        let long = json!([one(0, json!(vec![1; LONGEST + 1]))]);
        assert_eq!(of(&long, 1, None), Err(Lie::NoVector { index: 0, given: LONGEST + 1 }));
    }

    proptest! {
        /// Whatever the order they come in.
        #[test]
        fn every_vector_is_its_texts(
            vectors in proptest::collection::vec(proptest::collection::vec(-9.0_f32..9.0, 3), 1..9),
            seed in any::<u64>(),
        ) {
            let mut order: Vec<usize> = (0..vectors.len()).collect();
            fastrand::Rng::with_seed(seed).shuffle(&mut order);
            let result = |&at: &usize| json!({"index": at, "embedding": vectors[at]});
            let data: Vec<Value> = order.iter().map(result).collect();
            if let Ok(said) = of(&json!(data), vectors.len(), Some(3)) {
                for (made, given) in said.vectors.iter().zip(&vectors) {
                    let length = given.iter().map(|it| it * it).sum::<f32>().sqrt();
                    for (made, given) in made.iter().zip(given) {
                        prop_assert!((made * length - given).abs() < 1e-4);
                    }
                }
            }
        }

        #[test]
        fn any_json_is_an_answer_or_a_lie(text in "[\\[\\]{}:,\"a-e0-9.-]{0,60}", wanted in 0_usize..4) {
            if let Ok(answer) = serde_json::from_str::<Value>(&text)
                && let Ok(said) = of(&answer, wanted, None)
            {
                prop_assert_eq!(said.vectors.len(), wanted);
            }
        }
    }
}
