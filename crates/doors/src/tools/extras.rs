//! What a rerank over HTTP may ask for beyond the shapes of others: memory, pruning, a deadline, what happened.

use std::time::Duration;

use riddle_rag::rerank::{Guarantee, Meets, Mode, Pruning, RerankSettings, STANDARD_ERROR};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::{Error, Result};

/// Smallest and largest memory budget: a mebibyte holds no model, a tebibyte is a slip of the pen.
const BUDGETS: std::ops::RangeInclusive<u64> = 1 << 20..=1 << 40;

/// Longest deadline in milliseconds: as long as anybody waits for an answer.
const LONGEST_MS: f64 = 600_000.0;

/// As a client sends them; nothing of it is what everybody else gets.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Extras {
    pub(crate) memory_budget: Option<Size>,
    pub(crate) mode: Option<String>,
    pub(crate) precision: Option<f64>,
    pub(crate) error_probability: Option<f64>,
    /// Milliseconds from when the request came.
    pub(crate) deadline: Option<f64>,
    pub(crate) trace: bool,
}

/// Bytes, as a number or as people write them.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub(crate) enum Size {
    Bytes(u64),
    Text(String),
}

impl Size {
    fn bytes(&self) -> Option<u64> {
        const UNITS: [(&str, u64); 8] = [
            ("KiB", 1 << 10),
            ("MiB", 1 << 20),
            ("GiB", 1 << 30),
            ("kB", 1_000),
            ("KB", 1_000),
            ("MB", 1_000_000),
            ("GB", 1_000_000_000),
            ("B", 1),
        ];
        let text = match self {
            Size::Bytes(bytes) => return Some(*bytes),
            Size::Text(text) => text.trim(),
        };
        let unit = |(name, unit): &(&str, u64)| Some((text.strip_suffix(name)?.trim(), *unit));
        let (number, unit) = UNITS.iter().find_map(unit).unwrap_or((text, 1));
        // Whole numbers: of halves nobody has said whether they are cut.
        number.parse::<u64>().ok()?.checked_mul(unit)
    }
}

impl Extras {
    /// Whether nothing was asked for: such requests may share a forward.
    pub(crate) fn is_none(&self) -> bool {
        *self == Extras::default()
    }

    /// As the engine takes them.
    pub(crate) fn settings(&self) -> Result<RerankSettings> {
        Ok(RerankSettings {
            mode: self.mode()?.unwrap_or_default(),
            pruning: self.pruning()?,
            memory_budget: self.memory_budget.as_ref().map(budget).transpose()?,
            deadline: self.deadline.map(deadline).transpose()?,
            ..RerankSettings::default()
        })
    }

    /// What was said, or what a precision without a mode means: who is in the result, in whatever order.
    fn mode(&self) -> Result<Option<Mode>> {
        let said = self.mode.as_deref().map(|it| {
            it.parse::<Mode>().map_err(|_| {
                Error::BadRequest(format!("`mode` is {it:?}: it can be off, set or order"))
            })
        });
        let implied = self.precision.or(self.error_probability).map(|_| Mode::Set);
        Ok(said.transpose()?.or(implied))
    }

    fn pruning(&self) -> Result<Pruning> {
        let bad = |why: &str| Err(Error::BadRequest(why.to_owned()));
        let error =
            |probability| Pruning::ErrorProbability { probability, guarantee: Guarantee::Result };
        for (name, share) in
            [("precision", self.precision), ("error_probability", self.error_probability)]
        {
            if let Some(share) = share.filter(|it| !(*it > 0.0 && *it < 1.0)) {
                return Err(Error::BadRequest(format!(
                    "`{name}` is {share}: it is a share above 0 and below 1"
                )));
            }
        }
        match (self.mode()?, self.precision, self.error_probability) {
            (_, Some(_), Some(_)) => bad("give `precision` or `error_probability`, not both"),
            (Some(Mode::Off), None, None) => Ok(Pruning::Never),
            (Some(Mode::Off), ..) => {
                bad("`mode` off leaves nobody out: with `precision` it is set or order")
            }
            (_, Some(precision), _) => Ok(Pruning::Precision { precision, meets: Meets::Mean }),
            (_, _, Some(probability)) => Ok(error(probability)),
            (Some(_), None, None) => Ok(error(STANDARD_ERROR)),
            // A trace is replayed under other thresholds, for which it needs everybody in every layer.
            (None, None, None) if self.trace => Ok(Pruning::Never),
            (None, None, None) => Ok(Pruning::Standard),
        }
    }
}

fn budget(size: &Size) -> Result<u64> {
    size.bytes().filter(|it| BUDGETS.contains(it)).ok_or_else(|| {
        Error::BadRequest(
            "`memory_budget` is bytes, as 262144000 or \"250MiB\", from 1 MiB to 1 TiB".to_owned(),
        )
    })
}

fn deadline(ms: f64) -> Result<Duration> {
    if ms > 0.0 && ms <= LONGEST_MS {
        return Ok(Duration::from_secs_f64(ms / 1e3));
    }
    Err(Error::BadRequest(format!(
        "`deadline` is {ms}: it is milliseconds, above 0 and at most {LONGEST_MS}"
    )))
}

/// Properties of a body that has them.
pub(crate) fn extras_schema() -> Value {
    let share = json!({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1});
    let described = |schema: &Value, words: &str| {
        let mut schema = schema.clone();
        schema["description"] = json!(words);
        schema
    };
    json!({
        "memory_budget": {
            "anyOf": [
                {"type": "integer", "minimum": BUDGETS.start(), "maximum": BUDGETS.end()},
                {"type": "string", "examples": ["250MiB"]},
            ],
            "description": "Bytes that the server's process is to stay within; refused with the smallest that would do",
        },
        "mode": {
            "type": "string", "enum": ["off", "set", "order"],
            "description": "What leaving texts out may change: nothing, the order inside the result, who is not in it",
        },
        "precision": described(&share, "Share of the results that stays; `mode` is set if it is not said"),
        "error_probability": described(&share, "Share of the results that may differ on average"),
        "deadline": {
            "type": "number", "exclusiveMinimum": 0, "maximum": LONGEST_MS,
            "description": "Milliseconds from when the request came; what is read and computed is planned for it",
        },
        "trace": {
            "type": "boolean", "default": false,
            "description": "What happened in every layer, as `trace` of the answer; with `documents` only",
        },
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(value: Value) -> Result<RerankSettings> {
        crate::tools::parse::<Extras>(value)?.settings()
    }

    #[test]
    fn what_is_asked_for_is_what_the_engine_is_told() {
        assert_eq!(read(json!({})).expect("nothing"), RerankSettings::default());
        let error =
            |probability| Pruning::ErrorProbability { probability, guarantee: Guarantee::Result };
        let precision = Pruning::Precision { precision: 0.9, meets: Meets::Mean };
        for (value, mode, pruning) in [
            (json!({"mode": "off"}), Mode::Off, Pruning::Never),
            (json!({"mode": "order"}), Mode::Order, error(STANDARD_ERROR)),
            (json!({"precision": 0.9}), Mode::Set, precision),
            (json!({"precision": 0.9, "mode": "order"}), Mode::Order, precision),
            (json!({"error_probability": 0.2}), Mode::Set, error(0.2)),
            (json!({"trace": true}), Mode::Off, Pruning::Never),
            (json!({"trace": true, "precision": 0.9}), Mode::Set, precision),
        ] {
            let settings = read(value.clone()).expect("settings");
            assert_eq!((settings.mode, settings.pruning), (mode, pruning), "{value}");
        }
        for size in [json!(262_144_000), json!("250MiB"), json!(" 250 MiB ")] {
            let settings = read(json!({"memory_budget": size, "deadline": 1.5})).expect("settings");
            assert_eq!(settings.memory_budget, Some(250 << 20));
            assert_eq!(settings.deadline, Some(Duration::from_micros(1500)));
        }
    }

    #[test]
    fn what_makes_no_sense_is_told_by_name() {
        for (value, name) in [
            (json!({"mode": "fast"}), "`mode`"),
            (json!({"mode": 1}), "string"),
            (json!({"mode": "off", "precision": 0.9}), "`mode`"),
            (json!({"precision": 0}), "`precision`"),
            (json!({"precision": 1}), "`precision`"),
            (json!({"precision": 0.9, "error_probability": 0.1}), "not both"),
            (json!({"error_probability": -1}), "`error_probability`"),
            (json!({"deadline": 0}), "`deadline`"),
            (json!({"deadline": 1e9}), "`deadline`"),
            (json!({"memory_budget": 5}), "`memory_budget`"),
            (json!({"memory_budget": "much"}), "`memory_budget`"),
            (json!({"memory_budget": "99999999999999999999GiB"}), "`memory_budget`"),
            (json!({"memory_budget": "18446744073709551615GiB"}), "`memory_budget`"),
            (json!({"memory_budget": -1}), "Size"),
        ] {
            let told = read(value.clone()).expect_err("refused").to_string();
            assert!(told.contains(name), "{value}: {told}");
        }
    }

    proptest! {
        #[test]
        fn no_extras_are_a_panic_and_what_passes_is_within_limits(
            budget in prop_oneof![any::<u64>().prop_map(|it| json!(it)), "[0-9a-zA-Z. -]{0,12}".prop_map(|it| json!(it))],
            share in any::<f64>(),
            deadline in any::<f64>(),
            mode in "(off|set|order|[a-z]{0,6})",
        ) {
            for value in [
                json!({"memory_budget": budget}),
                json!({"precision": share, "mode": mode}),
                json!({"error_probability": share, "deadline": deadline}),
                json!({"deadline": deadline}),
            ] {
                let Ok(settings) = read(value) else { continue };
                prop_assert!(settings.memory_budget.is_none_or(|it| BUDGETS.contains(&it)));
                prop_assert!(settings.deadline.is_none_or(|it| it <= Duration::from_secs(600)));
            }
        }
    }
}
