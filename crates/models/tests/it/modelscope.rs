//! A hub that speaks as ModelScope does.

use std::net::TcpStream;

use riddle_models::{Dialect, Error, Network, PullOptions};

use crate::{
    hub::{
        COMMIT, TAG, WEIGHTS, assert_empty, assert_sound, model, options, pull, sha256, store,
        weights,
    },
    server::{Request, Server, answer, broken_off, file},
};

const FACTS: &str = r#"{"Code":200,"Data":{"License":"Apache License 2.0","Path":"o","Name":"n"},"Message":"success","Success":true}"#;

/// The listing of the model, with each file's checksum as `sum` tells it.
fn listing(sum: impl Fn(&str, &[u8]) -> String) -> String {
    let mut entries = vec![r#"{"Path":"1_Pooling","Type":"tree","Size":0,"Sha256":""}"#.to_owned()];
    for (path, bytes) in model() {
        let (size, sum) = (bytes.len(), sum(path, &bytes));
        entries.push(format!(
            r#"{{"Path":"{path}","Name":"x","Type":"blob","Size":{size},"Sha256":"{sum}","Revision":"{COMMIT}","IsLFS":false}}"#
        ));
    }
    format!(
        r#"{{"Code":200,"Data":{{"Files":[{}],"IsVisual":0,"LatestCommitter":{{"Id":"","ShortId":"01234567"}}}},"Success":true}}"#,
        entries.join(",")
    )
}

fn honest(_: &str, bytes: &[u8]) -> String {
    sha256(bytes)
}

/// A hub with this listing; `weights` answers for the weights and may misbehave.
fn hub(
    listing: String,
    weights: impl Fn(&Request, usize, &mut TcpStream) + Send + Sync + 'static,
) -> Server {
    Server::start(move |request, before, stream| {
        let json = "content-type: application/json; charset=utf-8\r\n";
        let target = request.target.as_str();
        let path = target.split("&FilePath=").nth(1).map(|it| it.replace("%2F", "/"));
        match path {
            _ if target == "/api/v1/models/o/n?Revision=master" => {
                answer(stream, "200 OK", json, FACTS.as_bytes());
            }
            _ if target.starts_with("/api/v1/models/o/n/repo/files?Revision=master&") => {
                answer(stream, "200 OK", json, listing.as_bytes());
            }
            Some(path) if path == WEIGHTS => weights(request, before, stream),
            Some(path) => match model().iter().find(|it| it.0 == path) {
                Some((_, bytes)) => file(stream, request, bytes, TAG),
                None => answer(stream, "404 Not Found", json, b"{}"),
            },
            None => answer(stream, "404 Not Found", json, br#"{"Code":404,"Success":false}"#),
        }
    })
}

fn good(request: &Request, _: usize, stream: &mut TcpStream) {
    file(stream, request, &weights(), TAG);
}

fn options_for(server: &Server) -> PullOptions {
    options(&format!("modelscope+{}", server.url()))
}

fn refused(listing: String) -> Error {
    let server = hub(listing, good);
    let (_dir, store) = store();
    let error = pull(&store, "o/n", &options_for(&server)).expect_err("refused");
    assert_empty(&store);
    error
}

#[test]
fn a_model_is_planned_fetched_checked_and_recorded() {
    let server = hub(listing(honest), good);
    let (_dir, store) = store();
    let options = options_for(&server);
    assert_eq!(options.network.hub().dialect(), Dialect::ModelScope);
    let plan = store.plan("o/n", &options, &mut |_| std::ops::ControlFlow::Continue(()));
    let plan = plan.expect("plans");
    assert_eq!(plan.license.as_deref(), Some("Apache License 2.0"));
    assert_eq!((plan.files.len(), plan.revision.as_str()), (4, COMMIT));
    let model = pull(&store, "o/n", &options).expect("pulls");
    assert_eq!(model.source, format!("{}/models/o/n", server.url()));
    assert_eq!(model.license.as_deref(), Some("Apache License 2.0"));
    assert_eq!(model.revision.as_deref(), Some(COMMIT));
    assert_sound(&store, "o/n");
    assert!(server.requests_for("1_Pooling%2Fconfig.json").len() == 1);
    assert!(!model.dir.join("pytorch_model.bin").exists());
}

#[test]
fn a_broken_connection_is_continued() {
    let size = weights().len();
    let server = hub(listing(honest), move |request, before, stream| match before {
        0 => broken_off(stream, &weights(), TAG, size / 2),
        _ => file(stream, request, &weights(), TAG),
    });
    let (_dir, store) = store();
    pull(&store, "o/n", &options_for(&server)).expect("pulls");
    assert_sound(&store, "o/n");
    assert_eq!(server.requests_for(WEIGHTS)[1].from(), Some(size / 2));
}

#[test]
fn a_lying_or_missing_checksum_and_a_wrong_size_are_refused() {
    let wrong = |path: &str, bytes: &[u8]| match path {
        WEIGHTS => "0".repeat(64),
        _ => sha256(bytes),
    };
    assert!(matches!(refused(listing(wrong)), Error::Checksum { .. }));
    for none in ["", "nonsense", "../../x"] {
        let error = refused(listing(move |path, bytes| match path {
            WEIGHTS => none.to_owned(),
            _ => sha256(bytes),
        }));
        assert!(error.to_string().contains("no checksum for model.safetensors"), "{error}");
    }
    assert!(refused(listing(|_, _| String::new())).to_string().contains("no checksum"));
    let size = format!(r#""Size":{}"#, weights().len());
    let error = refused(listing(honest).replace(&size, r#""Size":5"#));
    assert!(matches!(error, Error::Network { .. }), "{error}");
}

#[test]
fn a_file_that_ends_early_is_not_installed() {
    let server = hub(listing(honest), |_, _, stream| broken_off(stream, &weights(), TAG, 0));
    let (_dir, store) = store();
    let error = pull(&store, "o/n", &options_for(&server)).expect_err("never whole");
    assert!(matches!(error, Error::Network { .. }), "{error}");
    assert_empty(&store);
}

#[test]
fn answers_that_say_no_or_are_no_listing_are_errors_in_plain_words() {
    let null = r#"{"Code":200,"Data":{"Files":null,"LatestCommitter":null},"Success":true}"#;
    let error = refused(null.to_owned());
    assert!(error.to_string().contains("no revision master"), "{error}");
    let none = r#"{"Code":200,"Data":{"Files":[],"LatestCommitter":null},"Success":true}"#;
    assert!(matches!(refused(none.to_owned()), Error::NotAModel { .. }));
    for body in [
        r#"{"Code":10010205001,"Message":"no","Success":false}"#,
        r#"{"Code":200,"Success":true}"#,
        r#"{"Code":500,"Data":{"Files":[]},"Success":true}"#,
        "<html>please log in</html>",
        "",
        "[]",
        "\u{feff}{}",
        r#"{"Code":200,"Success":true,"Data":{"Files":[{"Path":"x"}]}}"#,
        r#"{"Code":200,"Success":true,"Data":{"Files":[{"Path":"x","Type":"blob","Size":-1}]}}"#,
    ] {
        let error = refused(body.to_owned());
        assert!(matches!(error, Error::Protocol { .. }), "{body}: {error}");
    }
    let hostile = listing(honest)
        .replace(r#""Path":"model.safetensors""#, r#""Path":"../../model.safetensors""#);
    assert!(matches!(refused(hostile), Error::Unsafe { .. }));
    let gone = Server::start(|_, _, stream| answer(stream, "404 Not Found", "", b"{}"));
    let (_dir, store) = store();
    let error = pull(&store, "o/n", &options_for(&gone)).expect_err("gone");
    assert!(matches!(error, Error::Status { status: 404, .. }), "{error}");
}

#[test]
fn the_token_goes_there_in_both_forms_and_to_no_other_host() {
    let elsewhere = Server::start(|request, _, stream| file(stream, request, &weights(), TAG));
    let to = format!("location: {}/signed/{WEIGHTS}\r\n", elsewhere.url());
    let server = hub(listing(honest), move |_, _, stream| answer(stream, "302 Found", &to, b""));
    let (_dir, store) = store();
    let mut options = options_for(&server);
    options.network.token = Some("secret".to_owned());
    pull(&store, "o/n", &options).expect("pulls");
    assert_sound(&store, "o/n");
    let own = server.requests();
    assert!(own.iter().all(|it| it.header("authorization") == Some("Bearer secret")), "{own:?}");
    assert!(own.iter().all(|it| it.header("cookie") == Some("m_session_id=secret")), "{own:?}");
    let foreign = elsewhere.requests();
    assert_eq!(foreign.len(), 1);
    assert!(foreign[0].header("authorization").is_none() && foreign[0].header("cookie").is_none());
}

#[test]
fn a_chosen_revision_is_asked_for() {
    let server = Server::start(|_, _, stream| answer(stream, "404 Not Found", "", b""));
    let (_dir, store) = store();
    let options = PullOptions { revision: "v1/x y".to_owned(), ..options_for(&server) };
    pull(&store, "o/n", &options).expect_err("nothing there");
    assert_eq!(server.requests()[0].target, "/api/v1/models/o/n?Revision=v1%2Fx%20y");
}

/// The address is shown without its mark, and without what is secret.
#[test]
fn what_a_network_shows_of_itself_has_no_secret() {
    let network = Network {
        endpoint: "modelscope+https://me:secret@hub.test".to_owned(),
        token: Some("secret".to_owned()),
        ..Network::default()
    };
    let shown = format!("{network:?}");
    assert!(!shown.contains("secret") && shown.contains("https://hub.test"), "{shown}");
}
