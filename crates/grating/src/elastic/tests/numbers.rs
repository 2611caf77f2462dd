//! Shards of single precision, as the paper has them, on a tiny model whose reference is known; and classifiers, which
//! the paper measured with.

use riddle_transformer::{Centroids, ShardNumbers, SliceOrdering, write_shards};

use super::*;

#[derive(serde::Deserialize)]
struct Expected {
    max_tokens: usize,
    cases: Vec<Case>,
}

#[derive(serde::Deserialize)]
struct Case {
    query: String,
    text: String,
    scores: Vec<f32>,
    scores_of_one_slice: Vec<f32>,
}

fn sliced() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/golden/tiny-bert-sliced-cross-encoder")
}

fn expected() -> Expected {
    let text = std::fs::read(sliced().join("expected.json")).expect("golden values");
    serde_json::from_slice(&text).expect("golden values are JSON")
}

/// The tiny model, and the folder of its shards.
fn sliced_engine(
    numbers: ShardNumbers,
    centroids: Centroids,
    order: SliceOrdering,
) -> (ElasticEngine, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path().join("model.shards");
    write_shards(&sliced(), (&path, SOURCE), numbers, centroids, order, &mut |_| ())
        .expect("shards of the tiny model");
    let encoder = ElasticEncoder::open(&sliced(), numbers, OpenOptions::default()).expect("opens");
    let profile = DeadlineProfile {
        version: DEADLINE_PROFILE_VERSION,
        fingerprint: SOURCE.to_owned(),
        machine: fast(),
        learned: unlearned(encoder.shape()),
    };
    let options = ElasticOptions {
        threads: 2,
        max_tokens: Some(expected().max_tokens),
        ..ElasticOptions::default()
    };
    (ElasticEngine::open(&sliced(), &path, profile, options).expect("opens"), dir)
}

/// Scores after every layer of a submodel, the case's texts one by one.
fn scores(engine: &ElasticEngine, case: &Case, bits: &Submodel) -> Vec<f32> {
    let pairs = engine.encode(&case.query, &[&case.text], &[0]).expect("tokens");
    let mut state = engine.lock();
    let scores = learn::scores_of(engine, &mut state, &pairs, &bits.bits).expect("runs");
    scores.into_iter().flatten().collect()
}

fn distance(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn all_slices_and_one_are_the_reference() {
    let (engine, _dir) =
        sliced_engine(ShardNumbers::F32, Centroids::EqualPopulation, SliceOrdering::Own);
    for case in &expected().cases {
        let whole = scores(&engine, case, &Submodel::uniform(3, 2, 32));
        assert!(distance(&whole, &case.scores) < 1e-4, "{whole:?} for {:?}", case.scores);
        let narrow = scores(&engine, case, &Submodel::uniform(3, 1, 32));
        let expected = &case.scores_of_one_slice;
        assert!(distance(&narrow, expected) < 1e-4, "{narrow:?} for {expected:?}");
        // Layers are left out from the top.
        let shallow = scores(&engine, case, &Submodel::uniform(2, 2, 32));
        assert!(distance(&shallow, &case.scores[..2]) < 1e-4, "{shallow:?}");
    }
}

#[test]
fn in_any_order_it_is_the_model_without_shards() {
    let options =
        EngineOptions { max_tokens: Some(expected().max_tokens), ..EngineOptions::default() };
    let whole = Engine::open(&sliced(), options).expect("opens");
    let (engine, _dir) =
        sliced_engine(ShardNumbers::F32, Centroids::default(), SliceOrdering::Magnitude);
    for case in &expected().cases {
        let texts = [case.text.as_str()];
        let expected = whole.run(&case.query, &texts, 1, &mut SilentObserver).expect("runs");
        let own = scores(&engine, case, &Submodel::uniform(3, 2, 32));
        // Sums of other orders of neurons are rounded otherwise.
        let off = (own[2] - expected.ranked[0].raw_score).abs();
        assert!(off < 1e-4, "{own:?} for {}", expected.ranked[0].raw_score);
    }
}

#[test]
fn more_bits_are_nearer_in_both_kinds_and_with_both_dictionaries() {
    for numbers in [ShardNumbers::Int8, ShardNumbers::F32] {
        for centroids in [Centroids::EqualPopulation, Centroids::Lloyd] {
            let (engine, _dir) = sliced_engine(numbers, centroids, SliceOrdering::Own);
            let cases = expected().cases;
            let far = |bits: u8| -> f32 {
                let of = |case: &Case| {
                    let own = scores(&engine, case, &Submodel::uniform(3, 2, bits));
                    distance(&own, &case.scores)
                };
                cases.iter().map(of).sum()
            };
            let exact = u8::from(numbers.exact());
            let [two, four, six, exact] = [2, 4, 6, exact].map(far);
            assert!(two > four && four > six && six > exact, "{two} {four} {six} {exact}");
        }
    }
}

/// A classifier's question has one text. What it is worth is how often it is right, of what is read and of what is not.
#[test]
fn of_single_texts_it_learns_how_often_they_are_right() {
    let (engine, _dir) = sliced_engine(ShardNumbers::F32, Centroids::Lloyd, SliceOrdering::Own);
    let cases = expected().cases;
    let question = |case: &Case| LearnQuestion {
        query: case.query.clone(),
        candidates: vec![case.text.clone()],
        prior: Vec::new(),
        // As the whole model has it.
        relevant: vec![f32::from(u8::from(case.scores[2] >= 0.0))],
    };
    let mut questions: Vec<LearnQuestion> = cases.iter().map(question).collect();
    let count = questions.len() as f64;
    let positive = questions.iter().filter(|it| it.relevant[0] > 0.0).count() as f64;
    let learned = engine.learn(&questions, &mut |_| ControlFlow::Continue(())).expect("learns");
    assert_eq!(learned.questions, questions.len());
    assert_eq!(learned.quality.input, positive / count);
    assert_eq!(learned.quality.submodels[2][1], 1.0);
    assert!(learned.quality.submodels[0].iter().all(|it| *it < 1.0), "{:?}", learned.quality);
    // Among lists they are passed over.
    questions.push(LearnQuestion {
        query: QUERY.to_owned(),
        candidates: TEXTS.map(str::to_owned).to_vec(),
        prior: Vec::new(),
        relevant: vec![1.0; 1],
    });
    let learned = engine.learn(&questions, &mut |_| ControlFlow::Continue(())).expect("learns");
    assert_eq!(learned.questions, 1);
}
