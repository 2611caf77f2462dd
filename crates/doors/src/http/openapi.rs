//! `/openapi.json`, made from the list of routes.

use axum::response::Response;
use serde_json::{Map, Value, json};

use super::{call::json_of, routes};

pub(super) async fn openapi() -> Response {
    json_of(&document())
}

/// The description; answers are described by the documents of those whose shapes they have.
fn document() -> Value {
    let mut paths = Map::new();
    for route in routes() {
        let mut operation = json!({
            "summary": route.summary,
            "operationId": id(route.method.as_str(), route.path),
            "responses": {
                "200": {"description": "What was asked for"},
                "4XX": {"description": "What is wrong with the request, in words"},
                "429": {"description": "Too many wait: `Retry-After` says for how long"},
            },
            "security": if route.open { json!([]) } else { json!([{"bearer": []}, {"key": []}]) },
        });
        if let Some(schema) = route.body {
            operation["requestBody"] = json!({
                "required": true,
                "content": {"application/json": {"schema": schema()}},
            });
        }
        let methods = paths.entry(route.path).or_insert_with(|| json!({}));
        methods[route.method.as_str().to_ascii_lowercase()] = operation;
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Riddle",
            "description": "Search, answers, reranking and embeddings over the files of this machine.",
            "version": env!("CARGO_PKG_VERSION"),
        },
        "paths": paths,
        "components": {
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
            },
        },
    })
}

fn id(method: &str, path: &str) -> String {
    let words = path.trim_matches('/').replace(['/', '.', '-'], "_");
    format!("{}_{words}", method.to_ascii_lowercase())
}

#[test]
fn every_route_is_described_and_no_name_twice() {
    let document = document();
    let mut ids = Vec::new();
    for route in routes() {
        let method = route.method.as_str().to_ascii_lowercase();
        let operation = &document["paths"][route.path][method];
        ids.push(operation["operationId"].as_str().expect("a name").to_owned());
        assert_eq!(operation["requestBody"].is_object(), route.body.is_some(), "{}", route.path);
    }
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all);
    // The wrong token opens one route only.
    assert_eq!(
        routes().iter().filter(|it| it.open).map(|it| it.path).collect::<Vec<_>>(),
        ["/health", "/docs"]
    );
}
