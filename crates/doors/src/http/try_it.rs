//! `/docs`: a page that lists the routes and lets a person try them. It is made from the description at
//! `/openapi.json`, asks for the token, keeps it nowhere, and loads nothing from anywhere.

use axum::{
    http::{HeaderValue, header},
    response::{Html, IntoResponse as _, Response},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use sha2::{Digest as _, Sha256};

/// What the page looks like.
const STYLE: &str = include_str!("try_it.css");

/// What it does.
const SCRIPT: &str = include_str!("try_it.js");

pub(super) async fn page() -> Response {
    let mut response = Html(html()).into_response();
    if let Ok(policy) = HeaderValue::from_str(&policy()) {
        response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    response
}

fn html() -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>Riddle: try the API</title>\n<meta name=\"viewport\" content=\"width=device-width\">\n<style>{STYLE}</style>\n<main>\n<h1>Riddle</h1>\n<p>Search, answers, reranking and embeddings over the files of this machine. The token is in the file that the program named when it started; this page keeps it nowhere.</p>\n<p><label for=\"token\">Token</label> <input id=\"token\" type=\"password\" autocomplete=\"off\" spellcheck=\"false\"> <button id=\"list\">List the routes</button></p>\n<p id=\"state\" role=\"status\"></p>\n<div id=\"routes\"></div>\n</main>\n<script>{SCRIPT}</script>\n</html>\n"
    )
}

/// Only this very script and style run, and they reach this server alone.
fn policy() -> String {
    let hash = |text: &str| STANDARD.encode(Sha256::digest(text.as_bytes()));
    format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
        hash(SCRIPT),
        hash(STYLE)
    )
}

#[test]
fn the_page_is_whole_in_itself() {
    let html = html();
    for foreign in ["src=", "href=", "@import", "url(", "http://", "https://", "innerHTML", "eval("]
    {
        assert!(!html.contains(foreign), "{foreign}");
    }
    assert!(policy().contains("default-src 'none'"));
    assert_eq!(policy().matches("'sha256-").count(), 2);
}
