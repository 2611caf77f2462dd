//! One source, every way in which a connection can go wrong.

use std::{
    net::TcpStream,
    ops::ControlFlow,
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use riddle_models::{Error, Format, Kind, ModelStore, Network, PullOptions, Stage};
use riddle_types::{Advice, Advised as _};

use crate::{
    hub::{
        COMMIT, TAG, WEIGHTS, assert_empty, assert_sound, describe, hub, listing, model, options,
        pull, safetensors, store, weights,
    },
    server::{Request, Server, answer, broken_off, file, send},
};

fn good(request: &Request, _: usize, stream: &mut TcpStream) {
    file(stream, request, &weights(), TAG);
}

/// Pulls `o/n` from a hub that misbehaves and returns the error; nothing may be installed.
fn refused(weights: impl Fn(&Request, usize, &mut TcpStream) + Send + Sync + 'static) -> Error {
    let server = hub(weights);
    let (_dir, store) = store();
    let error = pull(&store, "o/n", &options(&server.url())).expect_err("refused");
    assert_empty(&store);
    error
}

/// Which files those are is not written down: a repository may have more modules tomorrow.
#[test]
fn models_of_the_catalog_come_with_their_modules() {
    for (name, kind) in [
        ("multilingual-e5-small", Kind::Embedder),
        ("all-mpnet-base-v2", Kind::Embedder),
        ("granite-embedding-97m-multilingual-r2", Kind::Embedder),
        ("ettin-reranker-17m-v1", Kind::Reranker),
        ("answerai-colbert-small-v1", Kind::Reranker),
    ] {
        let server = hub(good);
        let (_dir, store) = store();
        let model = pull(&store, name, &options(&server.url())).expect(name);
        assert_eq!((model.name.as_str(), model.kind), (name, kind));
        assert!(model.dir.join("1_Pooling/config.json").is_file(), "{name}");
        assert_sound(&store, name);
    }
}

#[test]
fn a_model_is_fetched_checked_and_recorded() {
    let server = hub(good);
    let (_dir, store) = store();
    let options = options(&server.url());
    let mut stages = Vec::new();
    let model = store
        .pull("o/n", &options, &mut |it| {
            assert!(it.done <= it.total || it.total == 0, "{it:?}");
            stages.push(it.stage);
            ControlFlow::Continue(())
        })
        .expect("pulls");
    assert!(stages.starts_with(&[Stage::Asking]) && stages.contains(&Stage::Fetching));
    assert_eq!((model.name.as_str(), model.kind), ("o/n", Kind::Embedder));
    assert_eq!((model.format, model.license.as_deref()), (Format::Safetensors, Some("mit")));
    assert_eq!(model.revision.as_deref(), Some(COMMIT));
    assert!(model.pulled_at.is_some_and(|it| it > 1_600_000_000));
    assert_eq!(model.source, format!("{}/o/n", server.url()));
    assert_eq!(store.find("o/n"), Some(model.clone()));
    assert_eq!(store.list().expect("lists"), std::slice::from_ref(&model));
    assert_sound(&store, "o/n");
    assert!(!model.dir.join("pytorch_model.bin").exists() && !model.dir.join("README.md").exists());
    let in_folder = store.find(model.dir.to_str().expect("path")).expect("by path");
    assert_eq!(in_folder.dir, model.dir);

    // Installed and sound: nobody is asked, not even with the network switched off.
    let requests = server.requests().len();
    pull(&store, "o/n", &options).expect("is there");
    let offline = PullOptions {
        network: Network { offline: true, ..options.network.clone() },
        ..options.clone()
    };
    pull(&store, "o/n", &offline).expect("is there");
    assert_eq!(server.requests().len(), requests);

    // Damaged: fetched again.
    std::fs::write(model.dir.join(WEIGHTS), b"damaged").expect("write");
    pull(&store, "o/n", &options).expect("repairs");
    assert_sound(&store, "o/n");
    store.remove("o/n").expect("removes");
    assert_empty(&store);
}

#[test]
fn the_network_can_be_switched_off() {
    let server = hub(good);
    let (_dir, store) = store();
    let mut options = options(&server.url());
    options.network.offline = true;
    let error = pull(&store, "o/n", &options).expect_err("offline");
    assert!(matches!(error, Error::Offline { .. }));
    assert_eq!(error.advice(), Some(Advice::GoOnline));
    assert!(server.requests().is_empty());
}

#[test]
fn a_broken_connection_is_continued_and_nothing_is_sent_twice() {
    let size = weights().len();
    let server = hub(move |request, before, stream| match before {
        0 => broken_off(stream, &weights(), TAG, size / 2),
        // Broken again, in the middle of the rest.
        1 => {
            let from = request.from().expect("continues");
            let head = format!(
                "HTTP/1.1 206 Partial Content\r\netag: {TAG}\r\ncontent-range: bytes {from}-{}/{size}\r\ncontent-length: {}\r\n\r\n",
                size - 1,
                size - from
            );
            send(stream, head.as_bytes());
            send(stream, &weights()[from..from + 1000]);
        }
        _ => file(stream, request, &weights(), TAG),
    });
    let (_dir, store) = store();
    pull(&store, "o/n", &options(&server.url())).expect("pulls");
    assert_sound(&store, "o/n");
    let asked: Vec<Option<usize>> =
        server.requests_for(WEIGHTS).iter().map(Request::from).collect();
    assert_eq!(asked, [None, Some(size / 2), Some(size / 2 + 1000)]);
    let tags = server.requests_for(WEIGHTS);
    assert!(tags[1..].iter().all(|it| it.header("if-range") == Some(TAG)));
}

#[test]
fn a_server_that_never_finishes_is_given_up_and_continued_next_time() {
    let healthy = Arc::new(AtomicBool::new(false));
    let is_healthy = Arc::clone(&healthy);
    let server = hub(move |request, before, stream| {
        if is_healthy.load(Ordering::SeqCst) {
            file(stream, request, &weights(), TAG);
        } else if before == 0 {
            broken_off(stream, &weights(), TAG, 70_000);
        }
        // Else: hang up without a word.
    });
    let (_dir, store) = store();
    let error = pull(&store, "o/n", &options(&server.url())).expect_err("given up");
    assert!(matches!(error, Error::Network { .. }), "{error}");
    assert_empty(&store);
    healthy.store(true, Ordering::SeqCst);
    pull(&store, "o/n", &options(&server.url())).expect("pulls");
    assert_sound(&store, "o/n");
    assert_eq!(server.requests_for(WEIGHTS).last().and_then(Request::from), Some(70_000));
    assert_eq!(server.requests_for("tokenizer.json").len(), 1, "kept from the first time");
}

#[test]
fn a_server_that_ignores_ranges_sends_it_all_again() {
    let server = hub(|_, before, stream| match before {
        0 => broken_off(stream, &weights(), TAG, 5000),
        _ => answer(stream, "200 OK", "", &weights()),
    });
    let (_dir, store) = store();
    pull(&store, "o/n", &options(&server.url())).expect("pulls");
    assert_sound(&store, "o/n");
}

#[test]
fn a_file_that_changes_on_the_way_is_fetched_from_the_start() {
    let old = safetensors(1 << 20, 7);
    let server = hub(move |request, before, stream| match before {
        0 => broken_off(stream, &old, "\"old\"", 5000),
        _ => file(stream, request, &weights(), TAG),
    });
    let (_dir, store) = store();
    pull(&store, "o/n", &options(&server.url())).expect("pulls");
    assert_sound(&store, "o/n");
}

/// The server overlooks `If-Range`: with another tag it is noticed at once, without any tag by the checksum.
#[test]
fn a_change_that_the_server_overlooks_is_noticed() {
    for (first, second) in
        [("etag: \"old\"\r\n", "etag: \"new\"\r\n"), ("", ""), ("etag: \"x\"\r\n", "")]
    {
        let old = safetensors(1 << 20, 7);
        let server = hub(move |request, before, stream| {
            let body = weights();
            match request.from() {
                None if before == 0 => {
                    let head =
                        format!("HTTP/1.1 200 OK\r\n{first}content-length: {}\r\n\r\n", old.len());
                    send(stream, head.as_bytes());
                    send(stream, &old[..5000]);
                }
                None => answer(stream, "200 OK", second, &body),
                Some(from) => {
                    let range = format!(
                        "{second}content-range: bytes {from}-{}/{}\r\n",
                        body.len() - 1,
                        body.len()
                    );
                    answer(stream, "206 Partial Content", &range, &body[from..]);
                }
            }
        });
        let (_dir, store) = store();
        pull(&store, "o/n", &options(&server.url())).expect("pulls");
        assert_sound(&store, "o/n");
    }
}

#[test]
fn ranges_that_do_not_fit_are_not_used() {
    let size = weights().len();
    for range in [
        format!("bytes 0-{}/{size}", size - 1),
        format!("bytes 5000-{size}/{}", size + 1),
        "x".to_owned(),
    ] {
        let server = hub(move |request, before, stream| match (before, request.from()) {
            (0, _) => broken_off(stream, &weights(), TAG, 5000),
            (_, Some(from)) => {
                let headers = format!("content-range: {range}\r\n");
                answer(stream, "206 Partial Content", &headers, &weights()[from..]);
            }
            _ => file(stream, request, &weights(), TAG),
        });
        let (_dir, store) = store();
        pull(&store, "o/n", &options(&server.url())).expect("pulls");
        assert_sound(&store, "o/n");
    }
}

#[test]
fn wrong_bytes_are_not_installed() {
    let error = refused(|request, _, stream| file(stream, request, &safetensors(1 << 20, 9), TAG));
    match &error {
        Error::Checksum { file, .. } => assert_eq!(file, WEIGHTS),
        other => panic!("{other}"),
    }
    assert!(error.to_string().contains("nothing was installed"));
}

/// Promised and delivered as garbage: right checksum, wrong content.
#[test]
fn a_file_that_is_not_what_its_name_says_is_not_installed() {
    for (path, bytes) in [(WEIGHTS, &b"\x80\x04\x95pickle"[..]), ("config.json", b"<html>")] {
        let mut files = model();
        files.retain(|it| it.0 != path);
        files.push((path, bytes.to_vec()));
        let listing = listing(&files);
        let server = Server::start(move |request, _, stream| {
            if !describe(request, stream, &listing)
                && let Some((_, bytes)) =
                    files.iter().find(|it| request.target.ends_with(&format!("{COMMIT}/{}", it.0)))
            {
                file(stream, request, bytes, TAG);
            }
        });
        let (_dir, store) = store();
        let error = pull(&store, "o/n", &options(&server.url())).expect_err("refused");
        assert!(matches!(error, Error::Content { .. }), "{error}");
        assert_empty(&store);
    }
}

#[test]
fn lengths_that_are_not_the_promised_ones_are_errors() {
    let lies: [fn(&mut TcpStream, &[u8]); 5] = [
        // Announces less, and sends that much.
        |stream, body| answer(stream, "200 OK", "", &body[..1000]),
        // Announces more, and sends the file.
        |stream, body| {
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len() * 2);
            send(stream, head.as_bytes());
            send(stream, body);
        },
        // Announces nothing, and sends too much.
        |stream, body| {
            send(stream, b"HTTP/1.1 200 OK\r\n\r\n");
            send(stream, body);
            send(stream, b"and more");
        },
        // Announces nothing, and sends too little.
        |stream, body| {
            send(stream, b"HTTP/1.1 200 OK\r\n\r\n");
            send(stream, &body[..10]);
        },
        |stream, _| answer(stream, "200 OK", "", b""),
    ];
    for lie in lies {
        let error = refused(move |_, _, stream| lie(stream, &weights()));
        assert!(matches!(error, Error::Network { .. }), "{error}");
    }
}

#[test]
fn nonsense_instead_of_http_is_an_error() {
    let nonsense: [&[u8]; 5] = [
        b"",
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 999999 Strange\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"\0\0\0\0\xff\xff\xff\xff",
    ];
    for bytes in nonsense {
        refused(move |_, _, stream| send(stream, bytes));
        let server = Server::start(move |_, _, stream| send(stream, bytes));
        let (_dir, store) = store();
        pull(&store, "o/n", &options(&server.url())).expect_err("no hub");
        assert_empty(&store);
    }
}

#[test]
fn chunks_without_a_length_are_fine() {
    let server = hub(|_, _, stream| {
        send(stream, b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
        for chunk in weights().chunks(100_000) {
            send(stream, format!("{:x}\r\n", chunk.len()).as_bytes());
            send(stream, chunk);
            send(stream, b"\r\n");
        }
        send(stream, b"0\r\n\r\n");
    });
    let (_dir, store) = store();
    pull(&store, "o/n", &options(&server.url())).expect("pulls");
    assert_sound(&store, "o/n");
}

#[test]
fn a_silent_server_is_given_up() {
    for sent in [None, Some(5000)] {
        let server = hub(move |_, _, stream| {
            if let Some(sent) = sent {
                broken_off(stream, &weights(), TAG, sent);
            }
            // Longer than the limit below, for as long as the client holds on.
            std::thread::sleep(Duration::from_secs(20));
        });
        let (_dir, store) = store();
        let mut options = options(&server.url());
        options.network.stall_timeout = Duration::from_millis(100);
        let error = pull(&store, "o/n", &options).expect_err("silent");
        assert!(error.to_string().contains("timeout"), "{error}");
        assert_empty(&store);
    }
}

#[test]
fn passing_failures_are_tried_again() {
    for status in ["500 Oops", "502 Bad Gateway", "503 Wait", "429 Slow Down", "408 Late"] {
        let server = hub(move |request, before, stream| match before {
            0 => answer(stream, status, "retry-after: 0\r\n", b"later"),
            _ => file(stream, request, &weights(), TAG),
        });
        let (_dir, store) = store();
        pull(&store, "o/n", &options(&server.url())).expect("pulls");
        assert_sound(&store, "o/n");
    }
    let error = refused(|_, _, stream| answer(stream, "503 Never", "", b""));
    assert!(matches!(error, Error::Network { .. }), "{error}");
}

#[test]
fn lasting_failures_are_not_tried_again_and_say_what_to_do() {
    for (status, word) in
        [("401 No", "wants a token"), ("403 No", "terms"), ("404 No", "check the name")]
    {
        let server = Server::start(move |_, _, stream| answer(stream, status, "", b""));
        let (_dir, store) = store();
        let error = pull(&store, "o/n", &options(&server.url())).expect_err("refused");
        assert!(error.to_string().contains(word), "{error}");
        assert_eq!(server.requests().len(), 1);
        assert_empty(&store);
    }
}

#[test]
fn answers_that_are_not_the_hubs_are_refused() {
    let bodies = [
        "<html>please log in</html>".to_owned(),
        r#"{"sha":"../../escape"}"#.to_owned(),
        format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000)),
    ];
    for body in bodies {
        let server =
            Server::start(move |_, _, stream| answer(stream, "200 OK", "", body.as_bytes()));
        let (_dir, store) = store();
        let error = pull(&store, "o/n", &options(&server.url())).expect_err("refused");
        assert!(matches!(error, Error::Protocol { .. }), "{error}");
    }
    let endless = Server::start(|_, _, stream| {
        send(stream, b"HTTP/1.1 200 OK\r\n\r\n");
        let block = vec![b'['; 1 << 20];
        for _ in 0..32 {
            send(stream, &block);
        }
    });
    let (_dir, store) = store();
    let error = pull(&store, "o/n", &options(&endless.url())).expect_err("too large");
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
}

#[test]
fn a_listing_without_checksums_or_with_hostile_names_is_refused() {
    let plain = |path: &str, oid: &str| {
        format!(r#"[{{"type":"file","path":"{path}","size":5,"oid":"{oid}"}}]"#)
    };
    let sound = "0".repeat(40);
    for (body, word) in [
        (plain(WEIGHTS, "nothing"), "checksum"),
        (plain("../../model.safetensors", &sound), "no weights"),
        (plain("/tmp/model.safetensors", &sound), "no weights"),
        (plain(".ssh/model.safetensors", &sound), "no weights"),
        (plain("pytorch_model.bin", &sound), "can run programs"),
    ] {
        let server = Server::start(move |request, _, stream| {
            describe(request, stream, &body);
        });
        let (_dir, store) = store();
        let error = pull(&store, "o/n", &options(&server.url())).expect_err("refused");
        assert!(error.to_string().contains(word), "{error}");
        assert_empty(&store);
    }
}

#[test]
fn a_huge_model_is_refused_before_a_byte_is_fetched() {
    let promised = u64::MAX / 4;
    let listing = format!(
        r#"[{{"type":"file","path":"model.safetensors","size":{promised},"oid":"{}"}}]"#,
        "0".repeat(40)
    );
    let server = Server::start(move |request, _, stream| {
        describe(request, stream, &listing);
    });
    let (_dir, store) = store();
    let mut options = options(&server.url());
    let error = pull(&store, "o/n", &options).expect_err("too large");
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    options.max_bytes = u64::MAX;
    let error = pull(&store, "o/n", &options).expect_err("no room");
    assert!(
        matches!(error, Error::NoSpace { .. }) && error.to_string().contains("free"),
        "{error}"
    );
    assert!(server.requests_for(WEIGHTS).is_empty());
}

#[test]
fn the_token_goes_to_the_hub_and_nowhere_else() {
    let store_of_files = Server::start(|request, _, stream| file(stream, request, &weights(), TAG));
    let elsewhere = format!("location: {}/signed/{WEIGHTS}?sig=1\r\n", store_of_files.url());
    let server = hub(move |request, _, stream| {
        if request.target.contains("moved") {
            answer(stream, "307 Elsewhere", &elsewhere, b"");
        } else {
            // First within the hub, by a relative address, as for a repository that was renamed.
            let moved = format!("location: {}?moved\r\n", request.target);
            answer(stream, "302 Moved", &moved, b"");
        }
    });
    let (_dir, store) = store();
    let mut options = options(&server.url());
    options.network.token = Some("secret".to_owned());
    pull(&store, "o/n", &options).expect("pulls");
    assert_sound(&store, "o/n");
    let own = server.requests();
    assert!(own.iter().all(|it| it.header("authorization") == Some("Bearer secret")), "{own:?}");
    assert_eq!(server.requests_for("?moved").len(), 1);
    let foreign = store_of_files.requests();
    assert_eq!(foreign.len(), 1);
    assert!(foreign[0].header("authorization").is_none(), "{foreign:?}");
}

#[test]
fn redirects_in_a_circle_or_to_nowhere_end() {
    for location in ["/o/n/resolve/again", "ftp://127.0.0.1/x", "http://", "javascript:x"] {
        let headers = format!("location: {location}\r\n");
        let server = Server::start(move |_, _, stream| answer(stream, "302 Found", &headers, b""));
        let (_dir, store) = store();
        let error = pull(&store, "o/n", &options(&server.url())).expect_err("refused");
        assert!(matches!(error, Error::Protocol { .. }), "{error}");
        assert!(server.requests().len() < 20);
    }
}

#[test]
fn a_caller_can_stop_and_go_on_later() {
    let server = hub(good);
    let (_dir, store) = store();
    let options = options(&server.url());
    let error = store
        .pull("o/n", &options, &mut |it| match it.file {
            WEIGHTS if it.done > 300_000 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        })
        .expect_err("stopped");
    assert!(matches!(error, Error::Stopped));
    assert_empty(&store);
    pull(&store, "o/n", &options).expect("goes on");
    assert_sound(&store, "o/n");
    assert!(server.requests_for(WEIGHTS)[1].from().is_some_and(|it| it > 0));
}

#[test]
fn one_process_at_a_time_changes_the_store() {
    let server = hub(good);
    let (_dir, store) = store();
    let mut refused = 0;
    store
        .pull("o/n", &options(&server.url()), &mut |it| {
            if it.stage == Stage::Fetching {
                let other = ModelStore::open(store.dir()).expect("opens");
                assert!(matches!(other.remove("o/n"), Err(Error::Busy { .. })));
                refused += 1;
            }
            ControlFlow::Continue(())
        })
        .expect("pulls");
    assert!(refused > 0);
}

/// Not a test by itself: the next two start it in a process of its own, configured by the environment.
#[test]
fn child_that_pulls() {
    let Some(folder) = std::env::var_os("RIDDLE_TEST_STORE") else { return };
    let store = ModelStore::open(Path::new(&folder)).expect("opens");
    pull(&store, "o/n", &PullOptions::default()).expect("pulls");
}

fn child(store: &ModelStore, endpoint: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("own path"));
    command.args(["--exact", "pull::child_that_pulls"]).env("RIDDLE_TEST_STORE", store.dir());
    for name in ["ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"] {
        command.env_remove(name).env_remove(name.to_lowercase());
    }
    command.env("HF_ENDPOINT", endpoint);
    command.env_remove("HF_TOKEN").env_remove("MODELSCOPE_API_TOKEN");
    command.stdout(std::process::Stdio::null());
    command
}

#[test]
fn a_killed_pull_goes_on_where_it_was() {
    let killed = Arc::new(AtomicBool::new(false));
    let is_killed = Arc::clone(&killed);
    let (at_half, half_sent) = std::sync::mpsc::channel();
    let server = hub(move |request, _, stream| {
        if is_killed.load(Ordering::SeqCst) {
            file(stream, request, &weights(), TAG);
            return;
        }
        broken_off(stream, &weights(), TAG, 600_000);
        let _ = at_half.send(());
        // Holds the line until the client is gone.
        let _ = std::io::Read::read(stream, &mut [0]);
    });
    let (_dir, store) = store();
    let mut process = child(&store, &server.url()).spawn().expect("starts");
    half_sent.recv().expect("half is sent");
    let part = store.dir().join(format!(".partial/o--n/hub/{WEIGHTS}.part"));
    while std::fs::metadata(&part).map_or(0, |it| it.len()) < 300_000 {
        assert_eq!(process.try_wait().expect("state"), None, "it is still pulling");
        std::thread::sleep(Duration::from_millis(5));
    }
    process.kill().expect("kills");
    process.wait().expect("ends");
    killed.store(true, Ordering::SeqCst);
    assert_empty(&store);
    pull(&store, "o/n", &options(&server.url())).expect("goes on");
    assert_sound(&store, "o/n");
    assert!(server.requests_for(WEIGHTS)[1].from().is_some_and(|it| it >= 300_000));
}

/// A proxy that knows `CONNECT`, which is what is used for open connections as well.
fn proxy() -> Server {
    Server::start(|request, _, stream| {
        assert_eq!(request.method, "CONNECT");
        let Ok(mut inner) = TcpStream::connect(&request.target) else {
            return answer(stream, "502 Bad Gateway", "", b"");
        };
        send(stream, b"HTTP/1.1 200 Connected\r\n\r\n");
        let mut from_client = stream.try_clone().expect("clone");
        let mut to_server = inner.try_clone().expect("clone");
        std::thread::spawn(move || std::io::copy(&mut from_client, &mut to_server));
        let _ = std::io::copy(&mut inner, stream);
    })
}

#[test]
fn the_environments_proxy_is_used_and_its_exceptions_are_kept() {
    let (server, proxy) = (hub(good), proxy());
    for (variable, exceptions, through) in [
        ("HTTPS_PROXY", "", true),
        ("ALL_PROXY", "other.test", true),
        ("HTTPS_PROXY", "127.0.0.1", false),
    ] {
        let before = proxy.requests().len();
        let (_dir, store) = store();
        let done = child(&store, &server.url())
            .env(variable, proxy.url())
            .env("NO_PROXY", exceptions)
            .status()
            .expect("runs");
        assert!(done.success());
        assert_sound(&store, "o/n");
        assert_eq!(proxy.requests().len() > before, through, "{variable} {exceptions}");
    }
    let dead = riddle_models::ProxyChoice::Url("http://127.0.0.1:1".to_owned());
    let (_dir, store) = store();
    let mut options = options(&server.url());
    options.network.proxy = dead;
    let error = pull(&store, "o/n", &options).expect_err("no proxy there");
    assert!(matches!(error, Error::Network { .. }), "{error}");
}
