//! The ways of pooling, and how a folder states them.

use std::path::Path;

use riddle_kernels::mean_pool;
use riddle_weights::{is_there, read_json};
use serde::Deserialize;

use crate::{Error, Result};

/// How the states of a text's tokens become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pooling {
    /// The mean over all tokens.
    Mean,
    /// The first token's.
    First,
    /// The last token's.
    Last,
    /// The largest of each number.
    Max,
    /// The sum over the root of their count.
    MeanSqrt,
    /// The mean, in which the n-th token counts n times.
    WeightedMean,
}

impl Pooling {
    /// sentence-transformers' name for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Pooling::Mean => "mean",
            Pooling::First => "cls",
            Pooling::Last => "lasttoken",
            Pooling::Max => "max",
            Pooling::MeanSqrt => "mean_sqrt_len_tokens",
            Pooling::WeightedMean => "weightedmean",
        }
    }

    fn named(name: &str) -> Option<Pooling> {
        let all = [
            Pooling::Mean,
            Pooling::First,
            Pooling::Last,
            Pooling::Max,
            Pooling::MeanSqrt,
            Pooling::WeightedMean,
        ];
        // Switches of earlier versions carry the word at their end.
        let plain = name.strip_suffix("_tokens").or_else(|| name.strip_suffix("_token"));
        let same = |it: &Pooling, name: &str| it.as_str() == name;
        all.into_iter().find(|it| same(it, name) || plain.is_some_and(|plain| same(it, plain)))
    }

    /// Appends what `states` `[tokens, width]` become.
    pub(super) fn pool(self, states: &[f32], width: usize, out: &mut Vec<f32>) {
        let from = out.len();
        out.resize(from + width, 0.0);
        let out = &mut out[from..];
        let tokens = states.len() / width;
        match self {
            Pooling::Mean => mean_pool(states, out),
            Pooling::First => mean_pool(&states[..width.min(states.len())], out),
            Pooling::Last => mean_pool(&states[states.len() - width.min(states.len())..], out),
            Pooling::Max => {
                out.fill(if tokens == 0 { 0.0 } else { f32::NEG_INFINITY });
                for state in states.chunks_exact(width) {
                    for (out, value) in out.iter_mut().zip(state) {
                        // NaN is kept: a damaged model is told by it.
                        *out = if value.is_nan() { *value } else { out.max(*value) };
                    }
                }
            }
            Pooling::MeanSqrt => {
                mean_pool(states, out);
                let root = (tokens as f32).sqrt();
                out.iter_mut().for_each(|it| *it *= root);
            }
            Pooling::WeightedMean => {
                for (state, weight) in states.chunks_exact(width).zip(1u32..) {
                    for (out, value) in out.iter_mut().zip(state) {
                        *out += weight as f32 * value;
                    }
                }
                let weights = (tokens * (tokens + 1) / 2).max(1) as f32;
                out.iter_mut().for_each(|it| *it /= weights);
            }
        }
    }
}

/// `1_Pooling/config.json`: a mode by name since version 5.3 of sentence-transformers, switches before.
#[derive(Deserialize)]
struct PoolingConfig {
    pooling_mode: Option<serde_json::Value>,
    #[serde(default = "super::yes")]
    include_prompt: bool,
    #[serde(flatten)]
    others: serde_json::Map<String, serde_json::Value>,
}

/// The ways of pooling that a folder states, with or without a list of modules; `None` when it states nothing.
///
/// # Errors
/// A malformed file, or a way that is not computed.
pub fn stated_pooling(dir: &Path) -> Result<Option<Vec<Pooling>>> {
    let path = dir.join("1_Pooling/config.json");
    if is_there(&path) { pooling_of(&path).map(Some) } else { Ok(None) }
}

pub(super) fn pooling_of(path: &Path) -> Result<Vec<Pooling>> {
    let unsupported = |why: String| Err(Error::Module { path: path.to_path_buf(), why });
    let config = read_json::<PoolingConfig>(path)?;
    if !config.include_prompt {
        return unsupported(
            "pooling without the prompt's tokens (include_prompt) is not supported".to_owned(),
        );
    }
    let names: Vec<String> = match config.pooling_mode {
        Some(serde_json::Value::String(mode)) => vec![mode],
        Some(serde_json::Value::Array(modes)) => {
            modes.iter().map(|it| it.as_str().unwrap_or_default().to_owned()).collect()
        }
        Some(other) => vec![other.to_string()],
        None => {
            // In the order in which sentence-transformers strings them together.
            const SWITCHES: [&str; 6] = [
                "cls_token",
                "max_tokens",
                "mean_tokens",
                "mean_sqrt_len_tokens",
                "weightedmean_tokens",
                "lasttoken",
            ];
            let is_on = |it: &&str| {
                let value = config.others.get(&format!("pooling_mode_{it}"));
                value.and_then(serde_json::Value::as_bool) == Some(true)
            };
            SWITCHES.into_iter().filter(is_on).map(str::to_owned).collect()
        }
    };
    let modes: Vec<Pooling> = names.iter().filter_map(|it| Pooling::named(it)).collect();
    if modes.is_empty() || modes.len() != names.len() {
        return unsupported(format!(
            "pooling {:?} is not supported: choose another model",
            names.join(" + ")
        ));
    }
    Ok(modes)
}

#[cfg(test)]
mod tests {
    use super::{super::tests::with, *};

    #[test]
    fn pooling_is_read_in_both_spellings() {
        let stated = |json: &str| stated_pooling(with(&[("1_Pooling/config.json", json)]).path());
        for (json, expected) in [
            (r#"{"pooling_mode":"mean","include_prompt":true}"#, vec![Pooling::Mean]),
            (r#"{"pooling_mode":"cls"}"#, vec![Pooling::First]),
            (r#"{"pooling_mode":"lasttoken"}"#, vec![Pooling::Last]),
            (r#"{"pooling_mode":["mean","max"]}"#, vec![Pooling::Mean, Pooling::Max]),
            (
                r#"{"pooling_mode_cls_token":false,"pooling_mode_mean_tokens":true}"#,
                vec![Pooling::Mean],
            ),
            (
                r#"{"pooling_mode_mean_tokens":true,"pooling_mode_cls_token":true}"#,
                vec![Pooling::First, Pooling::Mean],
            ),
            (r#"{"pooling_mode_lasttoken":true}"#, vec![Pooling::Last]),
            (r#"{"pooling_mode_weightedmean_tokens":true}"#, vec![Pooling::WeightedMean]),
            (r#"{"pooling_mode_mean_sqrt_len_tokens":true}"#, vec![Pooling::MeanSqrt]),
        ] {
            assert_eq!(stated(json).expect(json), Some(expected), "{json}");
        }
        for json in [
            r#"{"pooling_mode":"attention"}"#,
            r#"{"pooling_mode":["mean",3]}"#,
            r#"{"pooling_mode":7}"#,
            r#"{"pooling_mode":"mean","include_prompt":false}"#,
            "{}",
        ] {
            assert!(matches!(stated(json), Err(Error::Module { .. })), "{json}");
        }
        assert!(matches!(stated("["), Err(Error::Weights(_))));
        assert_eq!(stated_pooling(with(&[]).path()).expect("nothing stated"), None);
    }

    #[test]
    fn each_way_of_pooling_is_its_formula() {
        let states = [1.0, -4.0, 2.0, 8.0, 6.0, 2.0];
        for (pooling, expected) in [
            (Pooling::Mean, [3.0, 2.0]),
            (Pooling::First, [1.0, -4.0]),
            (Pooling::Last, [6.0, 2.0]),
            (Pooling::Max, [6.0, 8.0]),
            (Pooling::MeanSqrt, [9.0 / 3f32.sqrt(), 6.0 / 3f32.sqrt()]),
            (Pooling::WeightedMean, [(1.0 + 4.0 + 18.0) / 6.0, (-4.0 + 16.0 + 6.0) / 6.0]),
        ] {
            let mut out = vec![0.5];
            pooling.pool(&states, 2, &mut out);
            assert!((out[1] - expected[0]).abs() < 1e-6, "{pooling:?}: {out:?}");
            assert!((out[2] - expected[1]).abs() < 1e-6, "{pooling:?}: {out:?}");
            pooling.pool(&[], 2, &mut out);
            assert_eq!(out[3..], [0.0, 0.0], "{pooling:?} of nothing");
        }
    }
}
