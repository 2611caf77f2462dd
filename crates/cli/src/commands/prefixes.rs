//! The part of `riddle cache` that is kept of prompts which models in this process have read.

use riddle_rag::prefixes::{Freed, Status};
use serde_json::{Value, json};

use crate::show;

/// For programs.
pub(super) fn json(status: &Status, freed: Option<Freed>) -> Value {
    let models: Vec<Value> = status
        .roots
        .iter()
        .map(|it| json!({ "name": it.label, "prefixes": it.nodes, "tokens": it.tokens, "bytes": it.bytes }))
        .collect();
    let mut value = json!({
        "prefixes": {
            "count": status.nodes,
            "tokens": status.tokens,
            "bytes": status.bytes,
            "limit_bytes": status.limit_bytes,
            "models": models,
        }
    });
    if let Some(freed) = freed {
        value["freed"] = json!({ "prefixes": freed.nodes, "bytes": freed.bytes });
    }
    value
}

/// For people.
pub(super) fn page(status: &Status, freed: Option<Freed>) -> String {
    let mut page = String::new();
    if let Some(Freed { nodes, bytes }) = freed {
        page.push_str(&format!("freed {} in {}\n", show::bytes(bytes), parts(nodes)));
    }
    let limit = match status.limit_bytes {
        0 => "nothing may be kept".to_owned(),
        bytes => format!("at most {}", show::bytes(bytes)),
    };
    page.push_str(&format!(
        "read and kept: {} in {}, {} ({limit})\n",
        show::bytes(status.bytes),
        parts(status.nodes),
        show::plural(status.tokens, "token"),
    ));
    for model in &status.roots {
        page.push_str(&format!(
            "  {}: {} in {}\n",
            show::clean(&model.label),
            show::bytes(model.bytes),
            parts(model.nodes)
        ));
    }
    page
}

fn parts(count: u64) -> String {
    show::plural(count, "part")
}

#[cfg(test)]
mod tests {
    use riddle_rag::prefixes::RootStatus;

    use super::*;

    #[test]
    fn what_is_kept_is_told_by_model() {
        let model = RootStatus { label: "small".to_owned(), bytes: 2 << 20, nodes: 1, tokens: 200 };
        let status = Status {
            bytes: 2 << 20,
            limit_bytes: 1 << 30,
            nodes: 1,
            tokens: 200,
            roots: vec![model],
        };
        let page = page(&status, Some(Freed { nodes: 3, bytes: 4096 }));
        assert!(page.contains("in 3 parts") && page.contains("  small: "), "{page}");
        assert!(page.contains("in 1 part, 200 tokens (at most "), "{page}");
        assert_eq!(json(&status, None)["prefixes"]["models"][0]["name"], "small");
        let off = Status::default();
        assert!(super::page(&off, None).contains("nothing may be kept"));
    }
}
