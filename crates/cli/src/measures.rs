//! Stage times and memory, as every answer carries them.

use std::collections::BTreeMap;

use riddle_metrics::memory;
use serde_json::{Map, Value, json};

/// Milliseconds per stage, by name.
pub(crate) type Times = BTreeMap<&'static str, f64>;

/// Stages of a search; all are in the JSON, those that did not run as 0.
pub(crate) const SEARCH_STAGES: [&str; 6] = ["bm25", "embed", "vector", "fuse", "rerank", "total"];

/// Adds the stages that did not run.
pub(crate) fn complete(mut times: Times, stages: &[&'static str]) -> Times {
    for stage in stages {
        times.entry(stage).or_insert(0.0);
    }
    times
}

/// A response as a JSON object with `timings_ms` and `memory` beside its own fields.
pub(crate) fn with_measures(
    response: &impl serde::Serialize,
    times: &Times,
) -> serde_json::Result<Value> {
    let mut value = serde_json::to_value(response)?;
    if let Value::Object(fields) = &mut value {
        if !times.is_empty() {
            fields.insert("timings_ms".to_owned(), json!(times));
        }
        add_memory(fields);
    }
    Ok(value)
}

/// Puts sentences into the place of what a library tells as kinds: scripts read them as people do.
pub(crate) fn say(value: &mut Value, name: &str, sentences: impl Iterator<Item = String>) {
    if let Value::Object(fields) = value {
        fields.insert(name.to_owned(), sentences.map(Value::String).collect());
    }
}

/// Puts all memory figures under `memory`: the response's own count of weights, and the system's figures.
fn add_memory(fields: &mut Map<String, Value>) {
    let measured = memory();
    let mut figures = match fields.remove("memory") {
        Some(Value::Object(own)) => own,
        _ => Map::new(),
    };
    let weights = fields.remove("resident_weight_bytes").unwrap_or_else(|| json!(0));
    figures.entry("resident_weight_bytes").or_insert(weights);
    figures.insert("peak_rss_bytes".to_owned(), json!(measured.peak_rss_bytes));
    fields.insert("memory".to_owned(), Value::Object(figures));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_and_peak_are_under_memory() {
        let times = complete(Times::from([("bm25", 1.5)]), &SEARCH_STAGES);
        let json = with_measures(&json!({"query": "x", "resident_weight_bytes": 7}), &times)
            .expect("plain data");
        assert_eq!(json["memory"]["resident_weight_bytes"], 7);
        assert!(json["memory"]["peak_rss_bytes"].as_u64().is_some_and(|it| it > 0));
        assert_eq!(json.get("resident_weight_bytes"), None);
        assert_eq!(json["timings_ms"]["bm25"], 1.5);
        assert_eq!(json["timings_ms"]["rerank"], 0.0);
    }

    #[test]
    fn a_response_keeps_its_own_memory_figures() {
        let json = with_measures(
            &json!({"memory": {"scratch_bytes": 5, "resident_weight_bytes": 6}}),
            &Times::new(),
        )
        .expect("plain data");
        assert_eq!(json["memory"]["scratch_bytes"], 5);
        assert_eq!(json["memory"]["resident_weight_bytes"], 6);
        assert_eq!(json.get("timings_ms"), None);
    }
}
