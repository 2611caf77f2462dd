//! A small hub and models to put on it.

use std::{net::TcpStream, ops::ControlFlow, path::Path, time::Duration};

use riddle_models::{
    InstalledModel, ModelStore, Network, Progress, ProxyChoice, PullOptions, Result,
};
use sha2::{Digest as _, Sha256};

use crate::server::{self, Request, Server};

pub(crate) const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
pub(crate) const TAG: &str = "\"tag-1\"";
pub(crate) const WEIGHTS: &str = "model.safetensors";

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|it| format!("{it:02x}")).collect()
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn git_blob(bytes: &[u8]) -> String {
    let mut hash = sha1::Sha1::new();
    hash.update(format!("blob {}\0", bytes.len()));
    hash.update(bytes);
    hex(&hash.finalize())
}

/// A sound safetensors file with `data` bytes of numbers that differ by `seed`.
pub(crate) fn safetensors(data: usize, seed: u8) -> Vec<u8> {
    let header = format!(r#"{{"w":{{"dtype":"U8","shape":[{data}],"data_offsets":[0,{data}]}}}}"#);
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend((0..data).map(|at| (at % 251) as u8 ^ seed));
    bytes
}

/// Files of a model that is large enough to be interrupted.
pub(crate) fn model() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("config.json", br#"{"architectures":["BertModel"]}"#.to_vec()),
        ("tokenizer.json", br#"{"model":{}}"#.to_vec()),
        ("1_Pooling/config.json", br#"{"pooling_mode_mean_tokens":true}"#.to_vec()),
        (WEIGHTS, safetensors(1 << 20, 0)),
        ("pytorch_model.bin", b"\x80\x04pickle".to_vec()),
        ("README.md", b"# A model".to_vec()),
    ]
}

pub(crate) fn weights() -> Vec<u8> {
    safetensors(1 << 20, 0)
}

/// The listing of a repository as the hub writes it: checksums of large files in `lfs`, git's of the rest.
pub(crate) fn listing(files: &[(&str, Vec<u8>)]) -> String {
    let entries: Vec<String> = files
        .iter()
        .map(|(path, bytes)| {
            let (size, blob) = (bytes.len(), git_blob(bytes));
            let lfs = if Path::new(path).extension().is_some_and(|it| it == "safetensors") {
                format!(r#","lfs":{{"oid":"{}","size":{size},"pointerSize":130}}"#, sha256(bytes))
            } else {
                String::new()
            };
            format!(r#"{{"type":"file","path":"{path}","size":{size},"oid":"{blob}"{lfs}}}"#)
        })
        .collect();
    format!(
        r#"[{{"type":"directory","path":"1_Pooling","oid":"x","size":0}},{}]"#,
        entries.join(",")
    )
}

/// Answers what is not a file: the commit and the listing. False when the target is something else.
pub(crate) fn describe(request: &Request, stream: &mut TcpStream, listing: &str) -> bool {
    let body = if request.target.contains("/revision/main") {
        format!(r#"{{"sha":"{COMMIT}","tags":["bert","license:mit"]}}"#)
    } else if request.target.contains(&format!("/tree/{COMMIT}?recursive=true")) {
        listing.to_owned()
    } else {
        return false;
    };
    server::answer(stream, "200 OK", "content-type: application/json\r\n", body.as_bytes());
    true
}

/// A hub with one model. `weights` answers requests for the weights and may misbehave; it gets the number
/// of requests before.
pub(crate) fn hub(
    weights: impl Fn(&Request, usize, &mut TcpStream) + Send + Sync + 'static,
) -> Server {
    let files = model();
    let listing = listing(&files);
    Server::start(move |request, before, stream| {
        if describe(request, stream, &listing) {
            return;
        }
        let target = request.target.split('?').next().unwrap_or_default();
        let path = target.split(&format!("/resolve/{COMMIT}/")).nth(1);
        match path.and_then(|path| files.iter().find(|it| it.0 == path)) {
            Some((WEIGHTS, _)) => weights(request, before, stream),
            Some((_, bytes)) => server::file(stream, request, bytes, TAG),
            None => server::answer(stream, "404 Not Found", "", b"no"),
        }
    })
}

/// Options for a hub on this machine, with limits that a test can wait for.
pub(crate) fn options(endpoint: &str) -> PullOptions {
    PullOptions::new(Network {
        endpoint: endpoint.to_owned(),
        index_url: "http://127.0.0.1:1/simple".to_owned(),
        proxy: ProxyChoice::Direct,
        connect_timeout: Duration::from_secs(5),
        stall_timeout: Duration::from_secs(5),
        tries: 3,
        pause: Duration::from_millis(1),
        ..Network::default()
    })
}

pub(crate) fn pull(
    store: &ModelStore,
    name: &str,
    options: &PullOptions,
) -> Result<InstalledModel> {
    store.pull(name, options, &mut |_: Progress<'_>| ControlFlow::Continue(()))
}

/// An empty store in a folder that goes away.
pub(crate) fn store() -> (tempfile::TempDir, ModelStore) {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = ModelStore::open(&dir.path().join("models")).expect("opens");
    (dir, store)
}

/// Nothing can be seen in the store.
pub(crate) fn assert_empty(store: &ModelStore) {
    assert_eq!(store.list().expect("lists"), []);
    let visible = std::fs::read_dir(store.dir()).map_or(0, |it| {
        it.flatten().filter(|it| !it.file_name().to_string_lossy().starts_with('.')).count()
    });
    assert_eq!(visible, 0);
}

/// The model is complete, sound, and its weights are those of [`model`].
pub(crate) fn assert_sound(store: &ModelStore, name: &str) {
    let found = store.verify(name).expect("verifies");
    assert_eq!((found.bad, found.files), (Vec::new(), 4));
    assert_eq!(std::fs::read(found.model.dir.join(WEIGHTS)).expect("read"), weights());
}
