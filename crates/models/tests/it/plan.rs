//! What a pull would fetch, before it does.

use std::{net::TcpStream, ops::ControlFlow};

use riddle_models::{Error, Format, ModelStore, PullOptions, PullPlan, Result};
use riddle_types::{Advice, Advised as _};

use crate::{
    hub::{COMMIT, TAG, assert_empty, listing, model, options, pull, sha256, store},
    server::{Request, Server, answer, file},
};

/// The bytes of a small language model that no two names share.
fn gguf(name: &str) -> Vec<u8> {
    [b"GGUF".as_slice(), name.as_bytes(), &[0; 100]].concat()
}

const QUANTIZED: [&str; 3] = ["n-Q4_K_M.gguf", "n-Q8_0.gguf", "n-F16.gguf"];

/// Language models of these names, and a license.
fn repository(names: &[&str]) -> (String, Vec<(String, Vec<u8>)>) {
    let mut files: Vec<(String, Vec<u8>)> =
        names.iter().map(|it| ((*it).to_owned(), gguf(it))).collect();
    files.push(("LICENSE.txt".to_owned(), b"Be nice.".to_vec()));
    let entries: Vec<String> = files
        .iter()
        .map(|(path, bytes)| {
            let (size, sum) = (bytes.len(), sha256(bytes));
            format!(
                r#"{{"type":"file","path":"{path}","size":{size},"oid":"x","lfs":{{"oid":"{sum}","size":{size}}}}}"#
            )
        })
        .collect();
    (format!("[{}]", entries.join(",")), files)
}

/// A hub of one repository with a card of its own.
fn hub_of(card: &'static str, names: &[&str]) -> Server {
    let (listing, files) = repository(names);
    Server::start(move |request: &Request, _, stream: &mut TcpStream| {
        let json = "content-type: application/json\r\n";
        if request.target.contains("/revision/") {
            let body = format!(r#"{{"sha":"{COMMIT}",{card}}}"#);
            answer(stream, "200 OK", json, body.as_bytes());
        } else if request.target.contains("/tree/") {
            answer(stream, "200 OK", json, listing.as_bytes());
        } else {
            match files.iter().find(|it| request.target.ends_with(&format!("/{}", it.0))) {
                Some((_, bytes)) => file(stream, request, bytes, TAG),
                None => answer(stream, "404 Not Found", "", b""),
            }
        }
    })
}

fn plan(store: &ModelStore, name: &str, options: &PullOptions) -> Result<PullPlan> {
    store.plan(name, options, &mut |_| ControlFlow::Continue(()))
}

const CARD: &str = r#""tags":["license:apache-2.0"],"gated":false"#;

#[test]
fn a_plan_says_license_size_and_what_there_is_to_choose_from() {
    let server = hub_of(CARD, &QUANTIZED);
    let (_dir, store) = store();
    let found = plan(&store, "o/n", &options(&server.url())).expect("plans");
    let page = format!("{}/o/n", server.url());
    assert_eq!((found.name.as_str(), &found.page, found.revision.as_str()), ("o/n", &page, COMMIT));
    assert_eq!(found.license.as_deref(), Some("apache-2.0"));
    assert_eq!(found.license_page, Some(format!("{page}/blob/main/LICENSE.txt")));
    assert!(!found.known && !found.installed && !found.gated && !found.is_open());
    let paths: Vec<&str> = found.files.iter().map(|it| it.path.as_str()).collect();
    assert_eq!(paths, ["LICENSE.txt", QUANTIZED[0]]);
    assert_eq!(found.bytes, gguf(QUANTIZED[0]).len() as u64 + found.beside);
    assert_eq!(found.beside, 8);
    let offered: Vec<_> = found
        .weights
        .iter()
        .map(|it| (it.file.as_str(), it.quantization.as_deref(), it.usual, it.chosen))
        .collect();
    let expected = [
        (QUANTIZED[0], Some("Q4_K_M"), true, true),
        (QUANTIZED[1], Some("Q8_0"), false, false),
        (QUANTIZED[2], Some("F16"), false, false),
    ];
    assert_eq!(offered, expected);
    assert!(found.weights.iter().all(|it| it.format == Format::Gguf && it.parts == 1));
    // Nothing of the weights was asked for, and nothing is written.
    assert!(server.requests().iter().all(|it| !it.target.contains("/resolve/")));
    assert_empty(&store);
}

#[test]
fn each_quantization_can_be_planned_and_fetched_by_its_name() {
    let server = hub_of(CARD, &QUANTIZED);
    let (_dir, store) = store();
    let plain = options(&server.url());
    for name in ["o/n:q8_0", "hf.co/o/n:Q8_0", "https://huggingface.co/o/n:Q8_0"] {
        let found = plan(&store, name, &plain).expect("plans");
        let chosen: Vec<&str> =
            found.weights.iter().filter(|it| it.chosen).map(|it| it.file.as_str()).collect();
        assert_eq!((found.name.as_str(), chosen), ("o/n", vec![QUANTIZED[1]]), "{name}");
    }
    let model = pull(&store, "o/n:Q8_0", &plain).expect("pulls");
    assert_eq!(model.name, "o/n");
    assert!(model.dir.join(QUANTIZED[1]).is_file() && !model.dir.join(QUANTIZED[0]).exists());
    assert!(plan(&store, "o/n", &plain).expect("plans").installed);
    let by_flag = PullOptions { file: Some(QUANTIZED[2].to_owned()), ..plain.clone() };
    assert!(pull(&store, "o/n", &by_flag).expect("pulls").dir.join(QUANTIZED[2]).is_file());
}

#[test]
fn a_quantization_that_is_not_there_is_an_error_that_lists_those_that_are() {
    let server = hub_of(CARD, &QUANTIZED);
    let (_dir, store) = store();
    let plain = options(&server.url());
    for error in [
        plan(&store, "o/n:Q5_K_M", &plain).expect_err("not there"),
        pull(&store, "o/n:Q5_K_M", &plain).expect_err("not there"),
    ] {
        assert!(matches!(&error, Error::NoSuchFile { file, .. } if file == "Q5_K_M"), "{error}");
        let Some(Advice::ChooseFile { choices }) = error.advice() else { panic!("{error}") };
        assert!(QUANTIZED.iter().all(|it| choices.contains(it)) && choices.contains(" B)"));
    }
    assert_empty(&store);
}

#[test]
fn where_none_is_usual_the_plan_is_open_and_the_pull_asks() {
    let names = ["n-Q8_0.gguf", "n-F16.gguf"];
    let server = hub_of(CARD, &names);
    let (_dir, store) = store();
    let plain = options(&server.url());
    let found = plan(&store, "o/n", &plain).expect("plans");
    assert!(found.is_open() && found.bytes == 0 && found.weights.iter().all(|it| !it.chosen));
    assert_eq!(found.weights.len(), 2);
    assert!(matches!(pull(&store, "o/n", &plain), Err(Error::Ambiguous { .. })));
}

#[test]
fn a_gate_and_a_license_of_its_own_are_said_before_anything_is_fetched() {
    let card = r#""tags":["license:other"],"gated":"manual","cardData":{"license_name":"nice-1","license_link":"https://l.test/nice?x=1"}"#;
    let server = hub_of(card, &QUANTIZED);
    let (_dir, store) = store();
    let found = plan(&store, "o/n", &options(&server.url())).expect("plans");
    assert!(found.gated);
    assert_eq!(found.license.as_deref(), Some("nice-1"));
    assert_eq!(found.license_page.as_deref(), Some("https://l.test/nice"));
    // What a card says is no promise: nonsense in it is nothing said.
    let card = r#""tags":[],"gated":null,"cardData":{"license_name":7,"license_link":["javascript:alert(1)"]}"#;
    let found = plan(&store, "o/n", &options(&hub_of(card, &QUANTIZED).url())).expect("plans");
    assert_eq!((found.gated, found.license), (false, None));
}

#[test]
fn a_model_of_the_catalog_is_planned_as_it_is_fetched() {
    let files = model();
    let listing = listing(&files);
    let server = Server::start(move |request, _, stream| {
        crate::hub::describe(request, stream, &listing);
    });
    let (_dir, store) = store();
    let found = plan(&store, "multilingual-e5-small", &options(&server.url())).expect("plans");
    assert!(found.known && found.repository == "intfloat/multilingual-e5-small");
    assert_eq!(found.license.as_deref(), Some("mit"));
    // No hub: the default embedder comes from the package index.
    let nobody = options("http://127.0.0.1:1");
    let found = plan(&store, "all-MiniLM-L6-v2", &nobody).expect("plans");
    assert!(found.files.len() == 1 && found.bytes > 1 << 20 && found.license.is_some());
    assert!(matches!(plan(&store, "o/n", &nobody), Err(Error::Network { .. })));
}

#[test]
fn no_plan_is_made_of_nonsense_or_without_a_network() {
    let server = hub_of(CARD, &QUANTIZED);
    let (_dir, store) = store();
    let mut options = options(&server.url());
    for name in ["", ":", "x", "a/b/c", "../x", "o/n/", "ftp://o/n"] {
        let error = plan(&store, name, &options).expect_err(name);
        assert!(matches!(error, Error::Name { .. }), "{name:?}: {error}");
    }
    assert!(server.requests().is_empty());
    options.network.offline = true;
    assert!(matches!(plan(&store, "o/n", &options), Err(Error::Offline { .. })));
}
