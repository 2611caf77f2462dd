//! Libraries that live elsewhere: written by one home, searched by others, on a real server of Milvus' API.

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use riddle_tests::{
    Riddle, Running,
    milvus::{Server, free_port},
    notes, tiny_model, token, write,
};
use serde_json::Value;
use tempfile::TempDir;

/// What no output may hold.
const PASSWORD: &str = "hunter2";

/// Gives a file an access list; `false`: it can not be done here.
#[cfg(target_os = "linux")]
pub(crate) fn set_attribute(file: &Path, bytes: &[u8]) -> bool {
    let hex: String = bytes.iter().map(|it| format!("{it:02x}")).collect();
    let script = format!(
        "import os, sys; os.setxattr(sys.argv[1], 'system.posix_acl_access', bytes.fromhex('{hex}'))"
    );
    let mut command = Command::new("python3");
    command.args(["-c", &script]).arg(file).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|it| it.success())
}

/// A folder of notes about a harbor.
fn harbor() -> TempDir {
    let files = TempDir::new().expect("a temporary folder");
    for (name, text) in [
        ("boat.md", "# The boat\n\nThe boat in the dry dock is painted blue. Its hull is steel."),
        ("crane.md", "# The crane\n\nThe crane lifts forty tons. It was built in Kiel."),
        ("winter/ice.txt", "Ice closes the harbor in January. The boat stays in the dock."),
        ("winter/paint.txt", "Blue paint dries slowly in winter. Order C++ manuals, too."),
        ("private/doctor.txt", "The harbor doctor says that the boat makes Mira dizzy."),
    ] {
        write(files.path(), name, text);
    }
    files
}

/// A home with vectors of an embedder of random weights.
fn indexed(files: &Path) -> Riddle {
    let riddle = Riddle::new();
    let (files, model) = (files.display().to_string(), tiny("tiny-bert-encoder"));
    riddle.run(&["index", &files, "--embedder", &model]).ok();
    riddle
}

fn tiny(name: &str) -> String {
    tiny_model(name).display().to_string()
}

fn added(riddle: &Riddle, server: &Server) {
    riddle.run(&["library", "add", "team", &server.address("team")]).ok();
}

/// File names and libraries of the hits, best first.
fn hits(riddle: &Riddle, args: &[&str]) -> Vec<(String, Option<String>)> {
    let found = riddle.json(&[&["search", "--no-rerank"], args].concat());
    let hit = |it: &Value| {
        let path = it["path"].as_str().unwrap_or_default();
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        (name, it["library"].as_str().map(str::to_owned))
    };
    found["hits"].as_array().expect("hits").iter().map(hit).collect()
}

/// File names, each once.
fn names(riddle: &Riddle, args: &[&str]) -> Vec<String> {
    let mut names = Vec::new();
    for (name, _) in hits(riddle, args) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn files_of(hits: Vec<(String, Option<String>)>) -> Vec<String> {
    hits.into_iter().map(|it| it.0).collect()
}

fn pushed(riddle: &Riddle) -> (u64, u64, u64) {
    let report = riddle.json(&["library", "push", "team"]);
    let count = |key: &str| report[key].as_u64().expect("a count");
    (count("written"), count("unchanged"), count("deleted"))
}

#[test]
fn what_one_home_has_written_is_found_as_in_the_home() {
    let Some(server) = Server::start() else { return };
    let files = harbor();
    let riddle = indexed(files.path());
    added(&riddle, &server);
    let line = riddle.run(&["search", "boat", "--library", "team"]).failed(1);
    assert!(line.contains("riddle library push"), "{line}");
    assert_eq!(pushed(&riddle), (5, 0, 0));
    assert_eq!(pushed(&riddle), (0, 5, 0), "a push without changes writes nothing");

    for query in ["boat", "blue paint in winter", "C++", "\"dry dock\"", "harbor -ice", "tons"] {
        let there = hits(&riddle, &[query, "--library", "team"]);
        assert!(there.iter().all(|it| it.1.as_deref() == Some("team")), "{there:?}");
        let (there, here) = (files_of(there), files_of(hits(&riddle, &[query])));
        assert_eq!(there, here, "{query}");
        // What is in both is shown once, as the home's.
        let both = hits(&riddle, &[query, "--library", "all"]);
        assert!(both.iter().all(|it| it.1.is_none()), "{both:?}");
        assert_eq!(both.len(), there.len(), "{query}");
    }
    let folder = files.path().join("winter").display().to_string();
    let mut below = names(&riddle, &["boat", "--library", "team", "--in", &folder]);
    below.sort();
    assert_eq!(below, ["ice.txt", "paint.txt"]);
    assert_eq!(names(&riddle, &["boat", "--library", "team", "--type", "markdown"]).len(), 2);
    assert!(names(&riddle, &["boat", "--library", "team", "--before", "2001-01-01"]).is_empty());
    assert_eq!(names(&riddle, &["boat", "--library", "team", "--after", "2001-01-01"]).len(), 5);

    let answer = riddle.json(&["ask", "Where was the crane built?", "--library", "team"]);
    let cited = answer["citations"].as_array().expect("citations");
    assert!(cited.iter().all(|it| it["library"] == "team"), "{answer:#}");

    // A hit's text is the store's: the files need not be there.
    let page = riddle.run(&["search", "Kiel", "--library", "team", "--no-rerank"]).ok();
    assert!(page.contains("built in Kiel") && page.contains(" · in team\n"), "{page}");
}

#[test]
fn changes_follow_and_marked_folders_stay() {
    let Some(server) = Server::start() else { return };
    let files = harbor();
    let riddle = indexed(files.path());
    added(&riddle, &server);
    let private = files.path().join("private");
    riddle.run(&["folders", "confine", &private.display().to_string()]).ok();
    let report = riddle.json(&["library", "push", "team"]);
    assert_eq!((&report["written"], &report["held_back"]), (&4.into(), &1.into()));
    assert_eq!(
        names(&riddle, &["doctor dizzy", "--library", "team"])
            .iter()
            .filter(|it| *it == "doctor.txt")
            .count(),
        0
    );

    write(files.path(), "crane.md", "# The crane\n\nThe crane is broken.");
    write(files.path(), "new.txt", "The lighthouse is new.");
    fs::remove_file(files.path().join("boat.md")).expect("removed");
    riddle.run(&["index"]).ok();
    assert_eq!(pushed(&riddle), (2, 2, 1));
    let found = names(&riddle, &["crane lighthouse boat", "--library", "team"]);
    assert!(found.contains(&"new.txt".to_owned()) && !found.contains(&"boat.md".to_owned()));
    let page = riddle.run(&["search", "crane", "--library", "team", "--no-rerank"]).ok();
    assert!(page.contains("is broken") && !page.contains("forty tons"), "{page}");
    // Marked later: what is there already goes.
    let winter = files.path().join("winter").display().to_string();
    riddle.run(&["folders", "confine", &winter]).ok();
    assert_eq!(pushed(&riddle), (0, 2, 2));
    assert_eq!(
        names(&riddle, &["ice", "--library", "team"]).iter().filter(|it| *it == "ice.txt").count(),
        0
    );

    let list = riddle.json(&["library", "list"]);
    let library = &list["libraries"][0];
    assert_eq!((&library["files"], &library["unfinished"]), (&2.into(), &false.into()));
    let status = riddle.run(&["status"]).ok();
    assert!(status.contains("library   team (milvus://127.0.0.1:"), "{status}");
    assert_eq!(riddle.json(&["status"])["libraries"][0]["name"], "team");
}

#[test]
fn a_reader_needs_the_embedder_and_nobody_else_s_files_are_removed_unasked() {
    let Some(server) = Server::start() else { return };
    let files = harbor();
    let writer = indexed(files.path());
    added(&writer, &server);
    assert_eq!(pushed(&writer), (5, 0, 0));

    // Nothing is indexed here, and the model is not there yet.
    let reader = Riddle::new();
    added(&reader, &server);
    let line = reader.run(&["search", "boat", "--library", "team"]).failed(1);
    assert!(line.contains("tiny-bert-encoder") && line.contains("--embedder"), "{line}");
    // As the writer has it: packed weights make vectors of their own.
    reader.run(&["models", "import", &tiny("tiny-bert-encoder"), "--as-published"]).ok();
    let query = ["blue boat", "--library", "team"];
    assert_eq!(names(&reader, &query), names(&writer, &query));

    // A home of its own, with another embedder.
    let others = TempDir::new().expect("a temporary folder");
    write(others.path(), "tram.txt", "The tram stops at the harbor.");
    let other = Riddle::new();
    let model = tiny("tiny-modernbert-embedder");
    other.run(&["index", &others.path().display().to_string(), "--embedder", &model]).ok();
    added(&other, &server);
    let line = other.run(&["search", "boat", "--library", "team"]).failed(1);
    assert!(line.contains("written with the embedder"), "{line}");
    let all = other.json(&["search", "harbor", "--library", "all", "--no-rerank"]);
    assert_eq!(all["hits"][0]["library"], Value::Null);
    let notice = all["notices"][0].as_str().expect("a notice");
    assert!(notice.contains("the library team is not searched"), "{notice}");

    for args in [&[][..], &["--take-over"]] {
        let line = other.run(&[&["library", "push", "team"], args].concat()).failed(1);
        assert!(line.contains("written with the embedder") && line.contains("--anew"), "{line}");
    }
    let line = other.run(&["library", "push", "team", "--anew"]).failed(1);
    assert!(line.contains("is written from") && line.contains("--take-over"), "{line}");
    assert_eq!(names(&reader, &query), names(&writer, &query), "nothing was removed");
    other.run(&["library", "push", "team", "--take-over", "--anew"]).ok();
    assert_eq!(names(&other, &["harbor", "--library", "team"]), ["tram.txt"]);
    let line = writer.run(&["library", "push", "team"]).failed(1);
    assert!(line.contains("written with the embedder"), "{line}");

    server.set_in_record("team", "library", "schema", "2");
    let line = other.run(&["library", "push", "team"]).failed(1);
    assert!(line.contains("older version") && line.contains("--anew"), "{line}");
    server.set_in_record("team", "library", "schema", "99");
    let line = writer.run(&["search", "boat", "--library", "team"]).failed(1);
    assert!(line.contains("newer version") && line.contains("update riddle"), "{line}");
}

#[test]
fn several_computers_write_one_library_and_each_removes_its_own() {
    let Some(server) = Server::start() else { return };
    let (files, others) = (harbor(), TempDir::new().expect("a temporary folder"));
    write(others.path(), "tram.txt", "The tram stops at the harbor. The boat is not far.");
    write(others.path(), "bus.txt", "The bus goes to the harbor on Sundays.");
    let (one, two) = (indexed(files.path()), indexed(others.path()));
    added(&one, &server);
    added(&two, &server);
    assert_eq!(pushed(&one), (5, 0, 0));
    assert_eq!(pushed(&two), (2, 0, 0));
    let query = ["harbor boat tram", "--library", "team"];
    let mut found = names(&two, &query);
    found.sort();
    assert!(
        ["boat.md", "tram.txt"].iter().all(|it| found.contains(&(*it).to_owned())),
        "{found:?}"
    );
    assert_eq!(pushed(&one), (0, 5, 0), "what others wrote is not looked at");
    let list = two.json(&["library", "list"]);
    let writers = list["libraries"][0]["writers"].as_array().expect("writers").clone();
    assert_eq!((writers.len(), &list["libraries"][0]["files"]), (2, &7.into()), "{list:#}");
    let own = writers.iter().find(|it| it["own"] == true).expect("this one");
    assert_eq!((&own["files"], own["folders"].as_array().map(Vec::len)), (&2.into(), Some(1)));
    let page = two.run(&["library", "list"]).ok();
    assert!(page.contains("2 files") && page.contains("this computer"), "{page}");

    // Both have one machine's name here, so it takes the key.
    let machine = own["machine"].as_str().expect("a name");
    let line = one.run(&["library", "evict", "team", machine]).failed(1);
    assert!(
        line.contains("more than one") && line.contains(own["key"].as_str().expect("a key")),
        "{line}"
    );
    let key = own["key"].as_str().expect("a key");
    let evicted = one.json(&["library", "evict", "team", key]);
    assert_eq!(evicted["evicted"]["files"], 2, "{evicted:#}");
    let left = names(&one, &query);
    assert!(
        left.contains(&"boat.md".to_owned()) && !left.contains(&"tram.txt".to_owned()),
        "{left:?}"
    );
    one.run(&["library", "evict", "team", key]).failed(1);
    assert_eq!(pushed(&two), (2, 0, 0), "it may write again");
    // One who takes over is alone.
    two.run(&["library", "push", "team", "--take-over"]).ok();
    let mut left = names(&one, &query);
    left.sort();
    assert_eq!(left, ["bus.txt", "tram.txt"]);
}

#[test]
fn a_file_of_another_computer_is_found_where_its_folder_is_here() {
    let Some(server) = Server::start() else { return };
    let files = harbor();
    let writer = indexed(files.path());
    added(&writer, &server);
    assert_eq!(pushed(&writer), (5, 0, 0));
    let reader = Riddle::new();
    added(&reader, &server);
    // As the writer has it: packed weights make vectors of their own.
    reader.run(&["models", "import", &tiny("tiny-bert-encoder"), "--as-published"]).ok();
    let (there, mount) = (files.path().canonicalize().expect("there"), harbor());
    let (there, here) = (there.display().to_string(), mount.path().display().to_string());
    let query = ["search", "forty tons", "--library", "team", "--no-rerank"];
    assert_eq!(reader.json(&query)["hits"][0]["here"], Value::Null);
    let line = reader.run(&["library", "map", "team", "plans", &here]).failed(1);
    assert!(line.contains("whole path"), "{line}");
    reader.run(&["library", "map", "team", &there, "/nowhere/at/all"]).failed(1);
    reader.run(&["library", "map", "team", &there, &here]).ok();
    let found = reader.json(&query);
    let path = found["hits"][0]["here"].as_str().expect("a path");
    assert!(path.ends_with("/crane.md") && PathBuf::from(path).is_file(), "{path}");
    let page = reader.run(&query).ok();
    assert!(page.contains("on this computer: "), "{page}");
    let list = reader.run(&["library", "list"]).ok();
    assert!(list.contains(" here\n"), "{list}");
    reader.run(&["library", "unmap", "team", &there]).ok();
    assert_eq!(reader.json(&query)["hits"][0]["here"], Value::Null);
    let line = reader.run(&["library", "unmap", "team", &there]).failed(1);
    assert!(line.contains("is not mapped"), "{line}");
}

#[test]
fn a_push_that_was_killed_goes_on_and_a_lost_server_is_told() {
    let Some(mut server) = Server::start() else { return };
    let files = TempDir::new().expect("a temporary folder");
    notes(files.path(), 120);
    let riddle = indexed(files.path());
    added(&riddle, &server);
    let mut kills = 0;
    for wait in [300, 500, 700, 900, 1200] {
        let mut run = riddle.start(&["library", "push", "team"]);
        thread::sleep(Duration::from_millis(wait));
        if !run.has_ended() {
            run.signal("KILL");
            kills += 1;
        }
        run.wait();
    }
    // As if all of it had been cut off just before its end.
    server.set_in_record("team", "writer-", "complete", "false");
    fs::remove_file(first_file(files.path())).expect("removed");
    riddle.run(&["index"]).ok();
    let report = riddle.json(&["library", "push", "team"]);
    assert_eq!(report["resumed"], true, "after {kills} kills: {report:#}");
    let list = riddle.json(&["library", "list"]);
    assert_eq!(list["libraries"][0]["files"], 119, "{list:#}");
    let undisturbed = indexed(files.path());
    undisturbed.run(&["library", "add", "team", &server.address("other")]).ok();
    assert_eq!(pushed(&undisturbed), (119, 0, 0));
    for n in [7, 60, 119] {
        let query = [&token(n), "--library", "team"];
        assert_eq!(names(&riddle, &query), names(&undisturbed, &query), "{n}");
    }

    server.stop();
    let line = riddle.run(&["search", "bridge", "--library", "team"]).failed(1);
    assert!(line.contains("can not be reached"), "{line}");
    let all = riddle.json(&["search", "bridge", "--library", "all", "--no-rerank"]);
    assert!(!all["hits"].as_array().expect("hits").is_empty());
    assert!(all["notices"][0].as_str().is_some_and(|it| it.contains("can not be reached")));
    server.start_again();
    let query = [&token(7), "--library", "team"];
    assert_eq!(names(&riddle, &query), names(&undisturbed, &query), "after it was started anew");
}

/// The first of the notes.
fn first_file(folder: &Path) -> PathBuf {
    let mut open = vec![folder.to_path_buf()];
    while let Some(next) = open.pop() {
        let mut entries: Vec<PathBuf> =
            fs::read_dir(next).expect("readable").flatten().map(|it| it.path()).collect();
        entries.sort();
        for it in entries {
            if it.is_file() {
                return it;
            }
            open.push(it);
        }
    }
    panic!("there are notes")
}

#[test]
fn what_is_no_library_is_told_and_no_password_is() {
    let riddle = Riddle::new();
    let port = free_port();
    for (args, code, part) in [
        (vec!["library", "add", "all", "milvus://box/team"], 1, "no name"),
        (vec!["library", "add", "team", "http://box/team"], 1, "milvus://HOST:PORT/NAME"),
        (vec!["library", "add", "team", "milvus://root:hunter2@box/team"], 1, "password"),
        (vec!["library", "remove", "team"], 1, "riddle library add"),
        (vec!["library", "push", "team"], 1, "riddle library add"),
    ] {
        let line = riddle.run(&args).failed(code);
        assert!(line.contains(part) && !line.contains(PASSWORD), "{args:?}: {line}");
    }
    riddle.run(&["library", "add", "gone", &format!("milvus://127.0.0.1:{port}/team")]).ok();
    riddle.run(&["library", "add", "far", "milvus://far.test/team"]).ok();
    let with_password = |args: &[&str]| {
        let mut command = riddle.command(args);
        command.env("RIDDLE_LIBRARY_KEY", format!("root:{PASSWORD}"));
        let outcome = Running::start(command).wait();
        let said = format!("{}{}", outcome.stdout, outcome.stderr);
        assert!(!said.contains(PASSWORD), "{said}");
        said
    };
    let listed = with_password(&["-vvv", "library", "list"]);
    assert!(listed.contains("can not be reached") && listed.contains("switched off"), "{listed}");
    let said = with_password(&["library", "key", "status", "gone"]);
    assert!(said.contains("RIDDLE_LIBRARY_KEY is set"), "{said}");
    let mut command = riddle.command(&["library", "list"]);
    command.env_remove("RIDDLE_OFFLINE").env("RIDDLE_LIBRARY_KEY", format!("root:{PASSWORD}"));
    let outcome = Running::start(command).wait();
    assert!(outcome.stdout.contains("not encrypted"), "{outcome:#?}");
    assert!(!format!("{outcome:?}").contains(PASSWORD));
    // Who answers is somebody else.
    let web = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = web.local_addr().expect("bound").port();
    thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        for mut stream in web.incoming().flatten() {
            let _ = stream.read(&mut [0; 512]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
        }
    });
    riddle.run(&["library", "add", "web", &format!("milvus://127.0.0.1:{port}/team")]).ok();
    let line = riddle.run(&["search", "boat", "--library", "web"]).failed(1);
    assert!(line.contains("is not Milvus"), "{line}");
    riddle.run(&["library", "remove", "web"]).ok();
    assert_eq!(riddle.json(&["status"])["libraries"].as_array().map(Vec::len), Some(2));
}

#[test]
#[cfg(unix)]
fn the_indexer_of_the_deployment_writes_a_folder_to_a_library() {
    let Some(server) = Server::start() else { return };
    let files = harbor();
    let riddle = indexed(files.path());
    let program = riddle_tests::program();
    let beside = program.parent().expect("a folder").display().to_string();
    let path = std::env::var("PATH").unwrap_or_default();
    let round = || {
        let mut command = Command::new("sh");
        command.arg(riddle_tests::workspace().join("deploy/indexer"));
        riddle.environment(&mut command);
        command
            .env("PATH", format!("{beside}:{path}"))
            .env("FILES", files.path())
            .env("ADDRESS", server.address("team"))
            .env("EVERY", "0");
        Running::start(command).wait().ok()
    };
    // The round is the same each time: naming the library again harms nothing, and no network is no failure.
    round();
    assert_eq!(pushed(&riddle), (0, 5, 0));
    write(files.path(), "crane.md", "# The crane\n\nThe crane was sold to Odessa.");
    round();
    assert_eq!(names(&riddle, &["sold to Odessa", "--library", "team"])[0], "crane.md");
    assert_eq!(pushed(&riddle), (0, 5, 0));
}

/// What is started must be what was tried, and open to nobody without a password.
#[test]
fn the_files_of_the_deployment_name_one_version_and_ask_for_a_password() {
    let read = |name: &str| {
        fs::read_to_string(riddle_tests::workspace().join("deploy").join(name)).expect("a file")
    };
    let (compose, values) = (read("compose.yaml"), read("milvus-values.yaml"));
    let images: Vec<&str> =
        compose.lines().filter_map(|it| it.trim().strip_prefix("image: ")).collect();
    assert_eq!(images.len(), 3);
    for image in images {
        let version = image.rsplit_once(':').map(|it| it.1);
        assert!(version.is_some_and(|it| it.contains(char::is_numeric)), "{image}");
    }
    let milvus = "v2.6.15";
    assert!(compose.contains(&format!("milvusdb/milvus:{milvus}\n")));
    assert!(values.contains(&format!("tag: {milvus}\n")));
    assert!(compose.contains("COMMON_SECURITY_AUTHORIZATIONENABLED: \"true\""));
    assert!(values.contains("authorizationEnabled: true"));
    assert!(compose.contains("${BIND:-127.0.0.1}:19530:19530"), "this machine alone at first");
    assert!(
        !compose.contains("minioadmin") && !compose.contains("root:Milvus"),
        "a known password"
    );
}

#[test]
fn a_plan_counts_as_the_home_does_and_refuses_what_is_no_size() {
    let (riddle, files) = (Riddle::new(), TempDir::new().expect("a temporary folder"));
    let passages = |more: &[&str]| {
        let plan = riddle.json(&[&["plan", "--documents", "1k"], more].concat());
        let own = plan["passages_of_this_home"].as_bool().expect("said");
        (plan["sizing"]["passages"].as_f64().expect("a number"), own)
    };
    assert_eq!(passages(&[]), (20_000.0, false), "a home without files says nothing");
    notes(files.path(), 25);
    riddle.index(files.path());
    let mean = riddle.json(&["status"])["chunks"].as_f64().expect("a count") / 25.0;
    let (counted, own) = passages(&[]);
    assert!(own && (counted - 1000.0 * mean).abs() < 1.0, "{counted}, {mean}");
    assert_eq!(passages(&["--passages", "3"]), (3000.0, false));
    for wrong in [
        ["--documents", "0"],
        ["--documents", "many"],
        ["--dimensions", "0"],
        ["--dimensions", "40000"],
        ["--passages", "1e300"],
        ["--passages", "NaN"],
        ["--memory-price", "-1"],
    ] {
        let documents = ["--documents", "5"];
        let documents = if wrong[0] == "--documents" { &[][..] } else { &documents };
        let refused = riddle.run(&[&["plan"], documents, &wrong].concat());
        assert_eq!(refused.code, Some(2), "{wrong:?}");
    }
}
