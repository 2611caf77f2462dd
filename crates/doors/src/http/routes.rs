//! Which routes there are.

use axum::{
    http::Method,
    routing::{MethodRouter, get, post},
};
use serde_json::Value;

use super::{Door, api, chat, embeddings, mcp, metrics, rerank, responses, try_it};

/// A route of the API.
pub(super) struct Route {
    pub(super) method: Method,
    pub(super) path: &'static str,
    pub(super) summary: &'static str,
    /// Needs no token, because it tells nothing.
    pub(super) open: bool,
    /// Schema of the body, where it has one.
    pub(super) body: Option<fn() -> Value>,
    pub(super) handler: fn() -> MethodRouter<Door>,
}

/// All of them: the router and `/openapi.json` are made from this list, so that neither can forget one.
// Long: a table with a row for each route.
pub(super) fn table() -> Vec<Route> {
    let plain = |path, summary, handler| Route {
        method: Method::GET,
        path,
        summary,
        open: false,
        body: None,
        handler,
    };
    let posted = |path, summary, body, handler| Route {
        method: Method::POST,
        body: Some(body),
        ..plain(path, summary, handler)
    };
    let mut routes = vec![
        Route { open: true, ..plain("/health", "Whether it is there", || get(api::health)) },
        plain("/metrics", "Figures for Prometheus", || get(metrics::metrics)),
        plain("/v1/models", "Models that can be named", || get(api::models)),
        posted(
            "/v1/embeddings",
            "Vectors of texts, as OpenAI has it",
            embeddings::openai_schema,
            || post(embeddings::openai),
        ),
        posted("/embed", "Vectors of texts, as TEI has it", embeddings::tei_schema, || {
            post(embeddings::tei)
        }),
        posted(
            "/v1/chat/completions",
            "A question to the library as a chat, as OpenAI has it",
            chat::schema,
            || post(chat::chat),
        ),
        posted(
            "/v1/responses",
            "A question to the library as a response, as OpenAI has it",
            responses::schema,
            || post(responses::responses),
        ),
        Route { open: true, ..plain("/docs", "A page to try all this", || get(try_it::page)) },
        plain("/api/search", "Search, the query as ?q=", || get(api::search_by_query)),
        posted("/api/search", "Search", || api::schema_of("search"), || post(api::search)),
        plain("/api/read", "A passage, as ?id=", || get(api::read_by_query)),
        posted(
            "/api/read",
            "A passage and what stands around it",
            || api::schema_of("read"),
            || post(api::read),
        ),
        posted(
            "/api/ask",
            "Ask; as events unless `stream` is false",
            || api::schema_of("answer"),
            || post(api::ask),
        ),
        posted(
            "/api/check-claims",
            "Hold claims against passages",
            || api::schema_of("check_claims"),
            || post(api::check_claims),
        ),
        plain("/api/status", "What is in the library", || get(api::status)),
        posted("/mcp", "The Model Context Protocol", mcp::schema, || post(mcp::mcp)),
    ];
    for path in ["/v1/rerank", "/v2/rerank", "/rerank", "/reranking"] {
        let summary = "Texts in order, as Cohere, Jina, vLLM, llama.cpp and TEI have it";
        routes.push(posted(path, summary, rerank::schema, || post(rerank::rerank)));
    }
    routes
}
