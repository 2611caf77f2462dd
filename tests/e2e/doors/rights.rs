//! Programs that read as somebody: whatever they ask and however, they are given what that one may read. Of the files
//! of the home, and of a shared library that others wrote.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use riddle_tests::{Riddle, milvus::Server, tiny_model, write};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Answer, Served, mcp::Pipe, request};
use crate::shared::set_attribute;

/// Name and mode of each file, and of each folder before the files in it. Every file says its own word.
const PLACES: [(&str, u32, &str); 7] = [
    ("open.md", 0o644, "alabaster"),
    ("group.md", 0o640, "basilisk"),
    ("own.md", 0o600, "calliope"),
    ("closed", 0o700, ""),
    ("closed/inside.md", 0o644, "dirigible"),
    ("passed", 0o711, ""),
    ("passed/known.md", 0o644, "ephemera"),
];

pub(crate) fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("changed");
}

fn files() -> impl Iterator<Item = (&'static str, &'static str)> {
    PLACES.iter().filter(|it| !it.2.is_empty()).map(|it| (it.0, it.2))
}

/// Makes the files, in a folder that all may pass.
fn make(root: &Path) {
    for (name, word) in files() {
        write(root, name, format!("The zeppelin of the {word} costs 640 euros a year.\n"));
    }
    mode(root, 0o755);
    for (name, bits, _) in PLACES {
        mode(&root.join(name), bits);
    }
}

/// Who runs this, by name.
fn name_by(flag: &str) -> String {
    let said = Command::new("id").arg(flag).output().expect("id");
    String::from_utf8(said.stdout).expect("text").trim().to_owned()
}

/// A program: its name, as whom it reads, the files that it may see.
struct Program {
    token: String,
    name: &'static str,
    sees: Vec<&'static str>,
}

/// The owner of the files, a member of their group, and a stranger.
fn programs(riddle: &Riddle) -> Vec<Program> {
    let (owner, group) = (name_by("-un"), name_by("-gn"));
    let all = files().map(|it| it.0).collect();
    let known: [(&'static str, Vec<String>, Vec<&'static str>); 3] = [
        ("owner", vec![owner, "else".to_owned()], all),
        (
            "member",
            vec!["nobody-at-all".to_owned(), group],
            vec!["open.md", "group.md", "passed/known.md"],
        ),
        (
            "stranger",
            vec!["nobody-at-all".to_owned(), "else".to_owned()],
            vec!["open.md", "passed/known.md"],
        ),
    ];
    let add = |(name, who, sees): (&'static str, Vec<String>, Vec<&'static str>)| {
        let args = ["clients", "add", name, "--user", &who[0], "--group", &who[1]];
        let token = riddle.json(&args)["token"].as_str().expect("a token").to_owned();
        Program { token, name, sees }
    };
    known.into_iter().map(add).collect()
}

pub(crate) fn post(served: &Served, token: &str, path: &str, body: &Value) -> Answer {
    let heads = served.heads(&[("Authorization", &format!("Bearer {token}"))]);
    request(served.port, "POST", path, &heads, &body.to_string())
}

pub(crate) fn status(served: &Served, token: &str) -> Value {
    let heads = served.heads(&[("Authorization", &format!("Bearer {token}"))]);
    request(served.port, "GET", "/api/status", &heads, "").json(200)
}

/// Files of passages, each once, below `folder`; others as they are.
pub(crate) fn names(of: &Value, folder: &str) -> Vec<String> {
    let passages = of["passages"].as_array().unwrap_or_else(|| panic!("{of}")).iter();
    let name = |it: &Value| {
        let file = it["file"].as_str().unwrap_or_default();
        file.strip_prefix(folder).unwrap_or(file).to_owned()
    };
    let mut names: Vec<String> = passages.map(name).collect();
    names.sort();
    names.dedup();
    names
}

fn sorted(of: &[&str]) -> Vec<String> {
    let mut names: Vec<String> = of.iter().map(|it| (*it).to_owned()).collect();
    names.sort();
    names
}

/// A served home with the files in its folder `team`.
fn served() -> Served {
    let served = Served::start(&[]);
    let notes = served.files.path().join("notes");
    mode(&notes, 0o755);
    for name in ["boat.md", "bakery.md", "odd.md"] {
        mode(&notes.join(name), 0o644);
    }
    let root = served.files.path().join("team");
    make(&root);
    served.riddle.index(&root);
    let begun = Instant::now();
    while !served.found("ephemera").contains(&"team/passed/known.md".to_owned()) {
        assert!(begun.elapsed() < Duration::from_secs(60), "never found");
        thread::sleep(Duration::from_millis(50));
    }
    served
}

pub(crate) fn search(query: &str) -> Value {
    json!({"query": query, "rerank": false, "limit": 100, "max_tokens": 20_000})
}

#[test]
fn every_program_is_given_what_its_user_may_read() {
    let served = served();
    let programs = programs(&served.riddle);
    let all = served.post("/api/search", &search("zeppelin")).json(200);
    let all = all["passages"].as_array().expect("passages").clone();
    let ids: Vec<(String, u64)> = all
        .iter()
        .filter_map(|it| {
            let file = it["file"].as_str()?.strip_prefix("team/")?;
            Some((file.to_owned(), it["id"].as_u64()?))
        })
        .collect();
    assert_eq!(ids.len(), files().count(), "{all:?}");
    // Whoever owns all files sees all of them but those that never leave.
    let all_passages = status(&served, &programs[0].token)["passages"].as_u64().expect("a count");
    let in_all = status(&served, &served.token)["passages"].as_u64().expect("a count");
    assert!(all_passages > 8 && all_passages < in_all, "{all_passages} of {in_all}");
    for program in &programs {
        let asks = |path: &str, body: &Value| post(&served, &program.token, path, body);
        let found = asks("/api/search", &search("zeppelin")).json(200);
        let mut team = names(&found, "team/");
        team.retain(|it| !it.starts_with("notes/"));
        assert_eq!(team, sorted(&program.sees), "{}", program.name);
        for (file, id) in &ids {
            let may = program.sees.contains(&file.as_str());
            let status = if may { 200 } else { 404 };
            assert!(asks("/api/read", &json!({"id": id})).is(status), "{file} {}", program.name);
            let call = json!({
                "jsonrpc": "2.0", "id": 1, "method": "resources/read",
                "params": {"uri": format!("riddle://passage/{id}")},
            });
            let resource = asks("/mcp", &call).json(200);
            assert_eq!(resource.get("result").is_some(), may, "{resource}");
            let claims = json!({"claims": ["A zeppelin costs 640 euros a year."], "ids": [id]});
            assert!(asks("/api/check-claims", &claims).is(status), "{file} {}", program.name);
        }
        let hidden = ids.iter().filter(|it| !program.sees.contains(&it.0.as_str()));
        let hidden: u64 = hidden.map(|it| passages_of(&served, it.1)).sum();
        counts(&served, program, all_passages - hidden);
        answers(&served, program);
    }
    // What may not be read and what is not there are told in the same words.
    let stranger = &programs[2].token;
    let hidden = ids.iter().find(|it| it.0 == "own.md").expect("there").1;
    for (path, field) in [("/api/read", "id"), ("/api/check-claims", "ids")] {
        let told = |id: u64| {
            let body = match field {
                "ids" => json!({"claims": ["x"], "ids": [id]}),
                _ => json!({"id": id}),
            };
            post(&served, stranger, path, &body).body.replace(&id.to_string(), "N")
        };
        assert_eq!(told(hidden), told(987_654), "{path}");
    }
}

/// How many passages the file of this one has.
fn passages_of(served: &Served, id: u64) -> u64 {
    let whole = json!({"id": id, "before": 50, "after": 50, "max_tokens": 20_000});
    let read = served.post("/api/read", &whole).json(200);
    read["passages"].as_array().map_or(0, Vec::len) as u64
}

/// What is counted is what may be seen.
fn counts(served: &Served, program: &Program, passages: u64) {
    let status = status(served, &program.token);
    // The notes that every served library has are for everybody.
    let files = program.sees.len() as u64 + 3;
    assert_eq!(status["files"], json!({"indexed": files}), "{status}");
    assert_eq!((&status["passages"], &status["kept_here"]), (&json!(passages), &json!(0)));
    assert_eq!(status["folders"], json!(["notes", "team"]), "{status}");
}

/// No answer says, cites or checks by what may not be seen.
fn answers(served: &Served, program: &Program) {
    for (file, word) in files() {
        let question = format!("What does the zeppelin of the {word} cost a year?");
        let chat = json!({"messages": [{"role": "user", "content": question}]});
        for (path, body) in [
            ("/api/ask", json!({"question": question, "stream": false})),
            ("/api/ask", json!({"question": question})),
            ("/v1/chat/completions", chat),
            ("/v1/responses", json!({"input": question})),
            ("/api/check-claims", json!({"claims": [question]})),
        ] {
            let answer = post(served, &program.token, path, &body);
            assert!(answer.is(200), "{answer:?}");
            // The question is told again: its word says nothing.
            let rest = answer.body.replace(&question, "");
            let may = program.sees.contains(&file);
            assert!(may || !rest.contains(word), "{path} {file} {}: {rest}", program.name);
            let named = rest.contains(&format!("team/{file}\""));
            assert!(may || !named, "{path} {file} {}: {rest}", program.name);
        }
    }
}

#[test]
fn nobody_becomes_somebody_else_by_saying_so() {
    let served = served();
    let riddle = &served.riddle;
    let programs = programs(riddle);
    let stranger = &programs[2];
    let seen = |answer: Answer| {
        let mut team = names(&answer.json(200), "team/");
        team.retain(|it| !it.starts_with("notes/"));
        team
    };
    let body = search("zeppelin").to_string();
    // The name of another program counts from whoever knows the home's token, and makes that one less.
    let bearer = format!("Bearer {}", stranger.token);
    let claim = [("Authorization", bearer.as_str()), ("X-Riddle-Client", "owner")];
    let heads = served.heads(&claim);
    let found = seen(request(served.port, "POST", "/api/search", &heads, &body));
    assert_eq!(found, sorted(&stranger.sees));
    let heads = served.heads(&[("X-Riddle-Client", "stranger")]);
    let found = seen(request(served.port, "POST", "/api/search", &heads, &body));
    assert_eq!(found, sorted(&stranger.sees));
    for more in ["reader", "user", "groups", "outward", "audience"] {
        let mut asked = search("zeppelin");
        asked[more] = json!(name_by("-un"));
        assert!(post(&served, &stranger.token, "/api/search", &asked).is(400), "{more}");
        let query = format!("/api/search?q=zeppelin&{more}=root");
        let heads = served.heads(&[("Authorization", &bearer)]);
        assert!(request(served.port, "GET", &query, &heads, "").is(400), "{more}");
    }
    // Of a folder that is not to be passed nobody hears, nor of what is in it.
    let mut below = search("zeppelin");
    below["folders"] = json!(["team/closed"]);
    assert!(seen(post(&served, &stranger.token, "/api/search", &below)).is_empty());
    // The same through a pipe, with and without a server.
    for alone in [&["--client", "stranger", "--alone"][..], &["--client", "stranger"]] {
        let mut pipe = Pipe::start(riddle, alone);
        let found = pipe.call("search", &search("zeppelin"));
        let mut team = names(&found["structuredContent"], "team/");
        team.retain(|it| !it.starts_with("notes/"));
        assert_eq!(team, sorted(&stranger.sees));
        pipe.end();
    }
    // What a program may ask is changed, and who it is stays; only the person says that.
    let root = served.files.path().join("team");
    riddle.run(&["clients", "set", "stranger", "--type", "markdown"]).ok();
    assert_eq!(
        seen(post(&served, &stranger.token, "/api/search", &search("zeppelin"))),
        sorted(&stranger.sees)
    );
    let list = riddle.run(&["clients"]).ok();
    assert!(list.contains("reads as nobody-at-all (in else)"), "{list}");
    // A right that is taken away holds for the next request.
    mode(&root.join("open.md"), 0o600);
    assert_eq!(
        seen(post(&served, &stranger.token, "/api/search", &search("zeppelin"))),
        ["passed/known.md"]
    );
    mode(&root.join("open.md"), 0o644);
    let (owner, group) = (name_by("-un"), name_by("-gn"));
    riddle.run(&["clients", "identity", "stranger", "--user", &owner, "--group", &group]).ok();
    let all: Vec<&str> = files().map(|it| it.0).collect();
    assert_eq!(
        seen(post(&served, &stranger.token, "/api/search", &search("zeppelin"))),
        sorted(&all)
    );
    riddle.run(&["clients", "identity", "stranger", "--yours"]).ok();
    assert_eq!(riddle.json(&["clients"])["clients"][2]["reader"], Value::Null);
    for bad in [&["--user", "a:b"][..], &["--user", ""]] {
        let args = [&["clients", "identity", "stranger"], bad].concat();
        assert!(riddle.run(&args).failed(1).contains("no name of a user"), "{bad:?}");
    }
    let line = riddle.run(&["clients", "identity", "unknown", "--yours"]).failed(1);
    assert!(line.contains("no program"), "{line}");
}

/// Access lists go before mode bits, where the file system keeps them: one user more, and one less.
#[test]
fn access_lists_count() {
    let served = served();
    let root = served.files.path().join("team");
    let token = programs(&served.riddle).remove(2).token;
    // User 3999999 has no name; `own.md` is open to that one, and `open.md` closed.
    let entries = |owner: u16, user: u16, others: u16| {
        [
            (1_u16, owner, u32::MAX),
            (2, user, 3_999_999),
            (4, others, u32::MAX),
            (16, 4, u32::MAX),
            (32, others, u32::MAX),
        ]
        .iter()
        .fold(2_u32.to_le_bytes().to_vec(), |mut bytes, (kind, rights, id)| {
            bytes.extend(kind.to_le_bytes());
            bytes.extend(rights.to_le_bytes());
            bytes.extend(id.to_le_bytes());
            bytes
        })
    };
    let both = set_attribute(&root.join("own.md"), &entries(6, 4, 0))
        && set_attribute(&root.join("open.md"), &entries(6, 0, 4));
    if !both {
        return riddle_tests::skipped(
            "the file system keeps no access lists, or there is no python3",
        );
    }
    served.riddle.run(&["clients", "identity", "stranger", "--user", "#3999999"]).ok();
    let found = post(&served, &token, "/api/search", &search("zeppelin")).json(200);
    let mut team = names(&found, "team/");
    team.retain(|it| !it.starts_with("notes/"));
    assert_eq!(team, ["own.md", "passed/known.md"]);
}

/// A home without files of its own that serves a library which others wrote.
pub(crate) fn serving_library(server: &Server) -> Served {
    let riddle = Riddle::new();
    let model = tiny_model("tiny-bert-encoder").to_string_lossy().into_owned();
    // As the writers have it: packed weights make vectors of their own.
    riddle.run(&["models", "import", &model, "--as-published"]).ok();
    riddle.run(&["library", "add", "team", &server.address("team")]).ok();
    Served::serving(riddle, TempDir::new().expect("a folder"), &[])
}

pub(crate) fn in_library(query: &str, library: &str) -> Value {
    let mut asked = search(query);
    asked["libraries"] = json!([library]);
    asked
}

#[test]
fn of_a_shared_library_every_program_is_given_what_its_user_may_read() {
    let Some(server) = Server::start() else { return };
    let folder = TempDir::new().expect("a folder");
    let root = folder.path().join("team");
    make(&root);
    let writer = Riddle::new();
    let model = tiny_model("tiny-bert-encoder").display().to_string();
    writer.run(&["index", &root.display().to_string(), "--embedder", &model]).ok();
    writer.run(&["library", "add", "team", &server.address("team")]).ok();
    let push = || writer.json(&["library", "push", "team"])["written"].clone();
    assert_eq!((push(), push()), (json!(5), json!(0)));
    let served = serving_library(&server);
    let programs = programs(&served.riddle);
    for program in &programs {
        let asks = |path: &str, body: &Value| post(&served, &program.token, path, body);
        let last = |it: &&'static str| it.rsplit('/').next().unwrap_or_default().to_owned();
        let seen: Vec<String> = program.sees.iter().map(last).collect();
        for library in ["team", "all"] {
            for query in ["zeppelin", "what does it cost", "\"640 euros\"", "alabaster calliope"] {
                let found = asks("/api/search", &in_library(query, library)).json(200);
                let files = names(&found, "");
                assert!(files.iter().all(|it| seen.contains(it)), "{files:?} {}", program.name);
                if query == "zeppelin" {
                    assert_eq!(files.len(), seen.len(), "{files:?} {}", program.name);
                }
            }
        }
        for (file, word) in files() {
            let question = format!("What does the zeppelin of the {word} cost a year?");
            let body = json!({"question": question, "libraries": ["team"], "stream": false});
            let answer = asks("/api/ask", &body);
            assert!(answer.is(200), "{answer:?}");
            let may = program.sees.contains(&file);
            let rest = answer.body.replace(&question, "");
            assert!(may || !rest.contains(word), "{file} {}: {rest}", program.name);
        }
        let status = status(&served, &program.token);
        assert_eq!((&status["passages"], &status["libraries"]), (&json!(0), &json!(["team"])));
        // By their numbers passages open for who may read them, whoever has found them.
        let all = served.post("/api/search", &in_library("zeppelin", "team")).json(200);
        let all = all["passages"].as_array().expect("passages");
        assert!(all.len() >= 5);
        for passage in all {
            let read = asks("/api/read", &json!({"id": passage["id"]}));
            let file = passage["file"].as_str().expect("a file");
            if seen.iter().any(|it| it == file) {
                let read = read.json(200);
                assert_eq!(read["passages"][0]["text"], passage["text"], "{read}");
                assert_eq!(read["passages"][0]["library"], "team", "{read}");
            } else {
                assert!(read.is(404), "{file} {}: {read:?}", program.name);
                assert!(!read.body.contains("zeppelin"), "{read:?}");
            }
        }
        // Without a library named the home alone is searched, and there is nothing.
        assert!(names(&asks("/api/search", &search("zeppelin")).json(200), "").is_empty());
    }
    // A program that reads as nobody in particular sees what it saw: the home.
    let anybody = served.riddle.json(&["clients", "add", "anybody"]);
    let anybody = anybody["token"].as_str().expect("a token");
    for library in ["team", "all"] {
        let refused = post(&served, anybody, "/api/search", &in_library("zeppelin", library));
        assert!(refused.is(403), "{refused:?}");
    }
    let elsewhere = post(&served, anybody, "/api/read", &json!({"id": (1_u64 << 52) + 7}));
    assert!(elsewhere.is(403), "{elsewhere:?}");
    let own = served.post("/api/search", &in_library("zeppelin", "team")).json(200);
    assert_eq!(names(&own, "").len(), 5, "the person's own scripts see all: {own}");
    rights_follow(&server, &writer, &served, &root, &programs);
}

/// A push writes what has changed in rights; a library of before there were any gives nothing to anybody.
fn rights_follow(
    server: &Server,
    writer: &Riddle,
    served: &Served,
    root: &Path,
    programs: &[Program],
) {
    let seen = |program: &Program| {
        let found = post(served, &program.token, "/api/search", &in_library("zeppelin", "team"));
        names(&found.json(200), "")
    };
    let push = || writer.json(&["library", "push", "team"])["written"].clone();
    mode(&root.join("open.md"), 0o600);
    mode(&root.join("closed"), 0o755);
    assert_eq!(push(), json!(2));
    // Rules that are new are read within seconds.
    let begun = Instant::now();
    while seen(&programs[2]) != ["inside.md", "known.md"] {
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", seen(&programs[2]));
        thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(seen(&programs[1]), ["group.md", "inside.md", "known.md"]);

    server.set_in_record("team", "library", "schema", "1");
    let line = writer.run(&["library", "push", "team"]).failed(1);
    assert!(line.contains("older version") && line.contains("--anew"), "{line}");
    let list = writer.run(&["library", "list"]).ok();
    assert!(list.contains("does not say who may read what"), "{list}");
    let page = writer.run(&["search", "zeppelin", "--library", "team", "--no-rerank"]).ok();
    assert!(page.contains("zeppelin"), "its owner searches it as before: {page}");
    // A server that looks at it for the first time.
    let fresh = serving_library(server);
    let token = self::programs(&fresh.riddle).remove(0).token;
    let refused = post(&fresh, &token, "/api/search", &in_library("zeppelin", "team"));
    assert!(!refused.is(200) && refused.body.contains("who may read"), "{refused:?}");
    let all = post(&fresh, &token, "/api/search", &in_library("zeppelin", "all")).json(200);
    assert!(names(&all, "").is_empty() && all["notices"].to_string().contains("who may read"));
    writer.run(&["library", "push", "team", "--anew"]).ok();
    assert_eq!(seen(&programs[2]), ["inside.md", "known.md"]);
    let owner = post(&fresh, &token, "/api/search", &in_library("zeppelin", "team")).json(200);
    assert_eq!(names(&owner, "").len(), 5, "{owner}");
}
