//! Repositories whose files are only for who has accepted a license.

use riddle_models::Error;
use riddle_types::{Advice, Advised as _};

use crate::{
    hub::{
        COMMIT, TAG, assert_empty, assert_sound, describe, listing, model, options, pull, store,
        weights,
    },
    server::{Request, Server, answer, file},
};

/// A hub as Hugging Face behaves: everybody may look, and files are for `token`.
fn gated(token: &'static str) -> Server {
    let files = model();
    let listing = listing(&files);
    Server::start(move |request, _, stream| {
        if describe(request, stream, &listing) {
            return;
        }
        let expected = format!("Bearer {token}");
        if request.header("authorization") != Some(expected.as_str()) {
            return answer(stream, "401 Unauthorized", "X-Error-Code: GatedRepo\r\n", b"no");
        }
        match files.iter().find(|it| request.target.ends_with(&format!("{COMMIT}/{}", it.0))) {
            Some((_, bytes)) => file(stream, request, bytes, TAG),
            None => answer(stream, "404 Not Found", "", b"no"),
        }
    })
}

#[test]
fn without_a_token_the_page_is_named_where_the_license_is_accepted() {
    let server = gated("secret");
    let (_dir, store) = store();
    let error = pull(&store, "o/n", &options(&server.url())).expect_err("refused");
    let page = format!("{}/o/n", server.url());
    assert!(matches!(&error, Error::Gated { page: named } if *named == page), "{error}");
    assert!(error.to_string().contains("accepted its license"), "{error}");
    assert_eq!(error.advice(), Some(Advice::AcceptLicense { page }));
    assert_empty(&store);
}

#[test]
fn with_the_token_of_somebody_who_has_not_accepted_it_that_is_said() {
    let server = gated("secret");
    let (_dir, store) = store();
    let mut options = options(&server.url());
    options.network.token = Some("another".to_owned());
    let error = pull(&store, "o/n", &options).expect_err("refused");
    assert!(matches!(&error, Error::NotAccepted { .. }), "{error}");
    assert!(!error.to_string().contains("another"), "{error}");
    options.network.token = Some("secret".to_owned());
    pull(&store, "o/n", &options).expect("pulls");
    assert_sound(&store, "o/n");
}

#[test]
fn what_is_not_there_is_not_called_gated() {
    let cases = [
        ("X-Error-Code: RepoNotFound\r\n", None, "check the name"),
        ("", None, "wants a token"),
        ("", Some("token"), "not accepted"),
    ];
    for (headers, token, word) in cases {
        let server =
            Server::start(move |_, _, stream| answer(stream, "401 Unauthorized", headers, b""));
        let (_dir, store) = store();
        let mut options = options(&server.url());
        options.network.token = token.map(str::to_owned);
        let error = pull(&store, "o/n", &options).expect_err("refused");
        assert!(matches!(&error, Error::Status { status: 401, .. }), "{error}");
        assert!(error.to_string().contains(word), "{error}");
        assert_eq!(error.advice(), Some(Advice::GiveHubToken));
    }
}

#[test]
fn the_token_is_not_sent_to_where_files_are_redirected() {
    let elsewhere = Server::start(|request, _, stream| file(stream, request, &weights(), TAG));
    let to = format!("location: {}/signed/model.safetensors\r\n", elsewhere.url());
    let files = model();
    let listing = listing(&files);
    let server = Server::start(move |request: &Request, _, stream| {
        if !describe(request, stream, &listing) {
            match files.iter().find(|it| request.target.ends_with(&format!("{COMMIT}/{}", it.0))) {
                Some((crate::hub::WEIGHTS, _)) => answer(stream, "302 Found", &to, b""),
                Some((_, bytes)) => file(stream, request, bytes, TAG),
                None => answer(stream, "404 Not Found", "", b""),
            }
        }
    });
    let (_dir, store) = store();
    let mut options = options(&server.url());
    options.network.token = Some("secret".to_owned());
    pull(&store, "o/n", &options).expect("pulls");
    assert!(server.requests().iter().all(|it| it.header("authorization") == Some("Bearer secret")));
    assert!(server.requests().iter().all(|it| it.header("cookie").is_none()), "no cookie there");
    let foreign = elsewhere.requests();
    assert_eq!(foreign.len(), 1);
    assert!(foreign[0].header("authorization").is_none() && foreign[0].header("cookie").is_none());
}
