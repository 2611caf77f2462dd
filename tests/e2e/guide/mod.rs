//! What the README and the guide tell people to type, typed: over the sample library, in a home of its own. Models that
//! would be fetched are there already under their names, played by tiny ones of random weights.

mod commands;
mod page;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

use riddle_tests::{
    Outcome, Riddle, Running, milvus::Server, program, skipped, tiny_model, workspace, write,
};
use serde_json::json;
use tempfile::TempDir;

use self::{
    commands::Commands,
    page::{Line, Page, is_riddle},
};
use crate::{embedders::embeds, remote::Endpoint};

/// Where the guide's model behind a server is, and is not in a test.
const SERVER: &str = "http://localhost:11434/v1";

/// Where the guide's server that embeds is, and is not in a test.
const EMBEDDER: &str = "http://localhost:8000/v1";

/// Where the guide's shared library is, and is not in a test.
const MILVUS: &str = "milvus://localhost:19530/team";

/// Where it is in the one test that has a server.
static SHARED: OnceLock<String> = OnceLock::new();

/// A person who has what the guide speaks of.
struct Reader {
    riddle: Riddle,
    /// The person's home and the folder in which commands are typed.
    dir: TempDir,
    endpoint: Endpoint,
    embedder: Endpoint,
}

impl Reader {
    fn new() -> Reader {
        let dir = TempDir::new().expect("a temporary folder");
        let (riddle, at) = (Riddle::new(), dir.path());
        let library = workspace().join("assets/sample-library");
        for folder in ["boat", "bakery", "home"] {
            copy(&library.join(folder), &at.join("person/Documents").join(folder));
        }
        copy(&library.join("letters"), &at.join("person/Mail"));
        write(at, "person/Documents/medical/teeth.md", "The dentist found nothing.\n");
        copy(&tiny_model("tiny-bert-encoder"), &at.join("person/Downloads/my-embedder"));
        for name in ["my-reranker", "my-pruned"] {
            copy(&tiny_model("tiny-bert-cross-encoder"), &at.join("typed").join(name));
        }
        requests(&at.join("typed"));
        dataset(&at.join("typed"));
        let endpoint = Endpoint::answering(&[&["The cabin [1]."]]);
        let embedder = Endpoint::doing(embeds);
        let reader = Reader { riddle, dir, endpoint, embedder };
        reader.install();
        reader
    }

    /// What `riddle models pull` would fetch.
    fn install(&self) {
        let import = |folder: &Path, name: &str| {
            let folder = folder.to_string_lossy();
            self.riddle.run(&["models", "import", &folder, "--name", name]).ok();
        };
        import(&tiny_model("tiny-bert-encoder"), "all-MiniLM-L6-v2");
        import(&tiny_model("tiny-bert-sparse-encoder"), "splade-tiny");
        import(&tiny_model("tiny-bert-cross-encoder"), "ms-marco-MiniLM-L-6-v2");
        let made = self.dir.path().join("made");
        let dir = made.to_string_lossy();
        self.riddle.run(&["bench", "prepare-language", "tiny-llama", "--dir", &dir]).ok();
        import(&made, "smollm2-135m");
        let person = self.dir.path().join("person");
        self.riddle.index(&person.join("Documents"));
        self.riddle.index(&person.join("Mail"));
    }

    /// A shell that is about to run `line`.
    fn shell(&self, line: &str) -> Command {
        let at = self.dir.path();
        let mut command = Command::new("sh");
        self.riddle.environment(&mut command);
        let bin = at.join("bin");
        if !bin.exists() {
            fs::create_dir(&bin).expect("a folder");
            std::os::unix::fs::symlink(program(), bin.join("riddle")).expect("a link");
        }
        let path = std::env::var("PATH").unwrap_or_default();
        let shared = SHARED.get().map_or(MILVUS, String::as_str);
        let line = line.replace(SERVER, &self.endpoint.url).replace(MILVUS, shared);
        command
            .args(["-c", &line.replace(EMBEDDER, &self.embedder.url)])
            .current_dir(at.join("typed"))
            .env("HOME", at.join("person"))
            // Nobody sits there who could be asked.
            .env("RIDDLE_PASSPHRASE", "a door of oak")
            .env("RIDDLE_NEW_PASSPHRASE", "a door of oak")
            .env("PATH", format!("{}:{path}", bin.display()));
        command
    }

    fn run(&self, line: &str) -> Outcome {
        Running::start(self.shell(line)).wait()
    }

    /// Follows changes until a new one is found, then Ctrl-C.
    fn watch(&self, line: &str) -> Outcome {
        let mut command = self.shell(&format!("exec {line}"));
        command.stdin(Stdio::null());
        let mut watcher = Running::start(command);
        write(self.dir.path(), "person/Documents/home/new.md", "A zorbakox is in the garden.\n");
        watcher.until("the new file is found", || {
            self.riddle.find("zorbakox").contains(&"new.md".to_owned())
        });
        watcher.signal("INT");
        watcher.wait()
    }
}

impl Reader {
    /// Serves until it says where, then Ctrl-C.
    fn serve(&self, line: &str) -> Outcome {
        let mut server = Running::start(self.shell(&format!("exec {line}")));
        let place = self.riddle.home().join("doors.json");
        server.until("the server says where it is", || place.is_file());
        server.signal("INT");
        server.wait()
    }
}

/// Requests that differ, so that a calibration has something to learn.
fn requests(at: &Path) {
    let request = |n: usize| {
        let text = |it: usize| format!("passage {it} of {n} about boats ").repeat(1 + (it * n) % 4);
        let documents: Vec<String> = (0..12).map(text).collect();
        json!({"query": format!("which boat is number {n}?"), "documents": documents, "top_n": 5})
    };
    write(at, "request.json", request(0).to_string());
    let lines = |from: usize| {
        (from..from + 30).map(|n| format!("{}\n", request(n))).collect::<Vec<_>>().concat()
    };
    write(at, "requests.jsonl", lines(0));
    write(at, "other.jsonl", lines(30));
}

/// Documents of a word each, as texts and as files; a question for each word, and candidates.
fn dataset(at: &Path) {
    let (mut corpus, mut queries) = (String::new(), String::new());
    let (mut qrels, mut run) = ("query-id\tcorpus-id\tscore\n".to_owned(), String::new());
    for (n, word) in ["anchor", "bakery", "candle", "dragon"].iter().enumerate() {
        let id = format!("{word}.txt");
        let text = format!("Page {n} tells everything about the {word}.");
        write(at, &format!("files/{id}"), &text);
        corpus.push_str(&format!("{}\n", json!({"_id": id, "title": "", "text": text})));
        queries.push_str(&format!("{}\n", json!({"_id": format!("q{n}"), "text": word})));
        qrels.push_str(&format!("q{n}\t{id}\t1\n"));
        run.push_str(&format!("q{n} Q0 {id} 1 9.0 x\nq{n} Q0 anchor.txt 2 8.0 x\n"));
    }
    for folder in ["dataset", "datasets/words"] {
        write(at, &format!("{folder}/corpus.jsonl"), &corpus);
        write(at, &format!("{folder}/queries.jsonl"), &queries);
        write(at, &format!("{folder}/qrels/test.tsv"), &qrels);
    }
    write(at, "domains.json", "{\"words\": \"words\"}");
    write(at, "dataset/runs/given.trec", run.replacen("q0 Q0 anchor.txt 2 8.0 x\n", "", 1));
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder of the repository") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("copied");
        }
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(workspace().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Targets of the Makefile.
fn is_target(name: &str) -> bool {
    read("Makefile").lines().any(|it| it.starts_with(&format!("{name}:")))
}

/// What is wrong with a line of a block, if it is none of the program's.
fn foreign(line: &str) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().take_while(|it| *it != "#").collect();
    match words[..] {
        // What it does is tested by whoever runs the tests.
        ["make", target] if is_target(target) => None,
        ["cargo", "install", "--locked", "--path", folder]
            if workspace().join(folder).join("Cargo.toml").is_file() =>
        {
            None
        }
        _ => Some(format!("`{line}`: a block holds commands of riddle, and `make TARGET`")),
    }
}

/// Types everything that the page says.
#[track_caller]
fn follow(path: &str) {
    let page = Page::of(&read(path));
    assert_eq!(page.problems, [""; 0], "{path}");
    let reader = Reader::new();
    let commands = Commands::of(&reader.riddle);
    let mut ran = 0;
    for Line { number, text, not_run } in &page.lines {
        if !text.contains("riddle ") {
            assert_eq!(foreign(text), None, "{path}:{number}");
            continue;
        }
        let outcome = match not_run {
            Some(reason) => {
                assert!(is_riddle(text), "{path}:{number}: {text}");
                skipped(&format!(
                    "{path}:{number}: only the words of `{text}` are checked: {reason}"
                ));
                // Help comes once the words before it are understood; behind a remark it would be a part of that.
                let command = text.split_once(" #").map_or(text.as_str(), |it| it.0);
                reader.run(&format!("{command} --help"))
            }
            None if text.contains("--watch") => reader.watch(text),
            None if text.starts_with("riddle serve") => reader.serve(text),
            None => reader.run(text),
        };
        assert_eq!(outcome.code, Some(0), "{path}:{number}: {text}\n{outcome:#?}");
        ran += 1;
    }
    assert!(ran > 0, "{path} has no command");
    for (number, span) in &page.spans {
        let problem = match span.split_once(' ').unwrap_or((span, "")) {
            ("riddle", rest) if !rest.is_empty() => commands.problem(span),
            ("make", target) if !target.is_empty() && !is_target(target) => {
                Some(format!("the Makefile has no `{target}`"))
            }
            (flag, _) if flag.starts_with("--") && !commands.knows(flag) => {
                Some(format!("no command has `{flag}`"))
            }
            _ => None,
        };
        assert_eq!(problem, None, "{path}:{number}");
    }
}

#[test]
fn the_readme_is_followed() {
    follow("README.md");
}

#[test]
fn the_page_on_searching_is_followed() {
    follow("docs/guide/search.md");
}

#[test]
fn the_page_on_asking_is_followed() {
    follow("docs/guide/ask.md");
}

#[test]
fn the_page_on_models_is_followed() {
    follow("docs/guide/models.md");
}

#[test]
fn the_page_on_reranking_is_followed() {
    follow("docs/guide/rerank.md");
}

#[test]
fn the_page_on_servers_is_followed() {
    follow("docs/guide/servers.md");
}

#[test]
fn the_page_on_other_programs_is_followed() {
    follow("docs/guide/doors.md");
}

#[test]
fn the_page_on_python_is_followed() {
    follow("docs/guide/python.md");
}

#[test]
fn the_page_on_measuring_is_followed() {
    follow("docs/guide/measure.md");
}

#[test]
fn the_page_on_shared_libraries_is_followed() {
    let Some(server) = Server::start() else { return };
    SHARED.get_or_init(|| server.address("team"));
    follow("docs/guide/shared.md");
}

#[test]
fn the_page_on_privacy_is_followed() {
    follow("docs/guide/privacy.md");
}

#[test]
fn the_page_on_trouble_is_followed() {
    follow("docs/guide/troubleshooting.md");
}

#[test]
fn the_page_on_a_library_for_a_group_is_followed() {
    follow("docs/guide/deploy.md");
}

/// A page without a test would go stale, and one that the README does not name would not be found.
#[test]
fn every_page_has_a_test_and_a_link() {
    let (own, readme) = (read("tests/e2e/guide/mod.rs"), read("README.md"));
    for entry in fs::read_dir(workspace().join("docs/guide")).expect("the guide") {
        let path = format!("docs/guide/{}", entry.expect("a page").file_name().to_string_lossy());
        assert!(own.contains(&format!("follow(\"{path}\");")), "no test follows {path}");
        assert!(readme.contains(&format!("({path})")), "README.md has no link to {path}");
    }
}

/// Documents that are not typed line by line: runs, decisions, notes, recipes, what is new.
#[test]
fn other_documents_name_commands_that_exist() {
    let commands = Commands::of(&Riddle::new());
    let (mut named, mut problems) = (0, Vec::new());
    let mut paths = vec![workspace().join("CHANGELOG.md")];
    for folder in ["docs", "crates", "src-tauri", "training", "ui", "assets/models"] {
        paths.extend(files(&workspace().join(folder), &[".md"]));
    }
    for path in paths {
        let text = fs::read_to_string(&path).expect("UTF-8");
        let spans = Page::of(&text).spans.into_iter().map(|(_, it)| it);
        let typed = text.lines().filter(|it| is_riddle(it)).map(|it| {
            let end = it.find(['#', '|', '\\', '>']).unwrap_or(it.len());
            it[..end].trim().to_owned()
        });
        for line in spans.filter(|it| is_riddle(it)).chain(typed) {
            named += 1;
            let problem = commands.problem(&line);
            problems.extend(problem.map(|it| format!("{}: {it}", path.display())));
        }
    }
    assert_eq!(problems, [""; 0]);
    assert!(named > 50, "only {named} commands are named");
}

/// Processes that Riddle starts by itself: commands of nobody's.
const INTERNAL: [&str; 2] = ["riddle parse-worker", "riddle bench-worker"];

/// Sentences of the app and of the program that send somebody to the command line.
#[test]
fn sentences_name_commands_that_exist() {
    let commands = Commands::of(&Riddle::new());
    let (mut named, mut problems) = (0, Vec::new());
    for folder in ["ui/src", "src-tauri/src", "crates"] {
        for path in files(&workspace().join(folder), &[".rs", ".ts", ".svelte"]) {
            let text = fs::read_to_string(&path).expect("UTF-8");
            // Tests name commands that must not exist, too.
            let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
            for line in mentions(text, path.extension().is_some_and(|it| it == "rs")) {
                named += 1;
                if !INTERNAL.contains(&line.as_str()) {
                    let problem = commands.problem(&line);
                    problems.extend(problem.map(|it| format!("{}: {it}", path.display())));
                }
            }
        }
    }
    assert_eq!(problems, [""; 0]);
    assert!(named > 20, "only {named} commands are named");
}

/// Files below a folder by how their names end, but for tests and what is generated or installed.
fn files(folder: &Path, ends: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder of the repository") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if !["tests", "target", "node_modules", "xtask", ".venv"].contains(&name.as_str()) {
                found.extend(files(&path, ends));
            }
        } else if ends.iter().any(|it| name.ends_with(it)) {
            found.push(path);
        }
    }
    found
}

/// Commands that a source names: between backticks in Rust, anywhere in the app's words.
fn mentions(text: &str, rust: bool) -> Vec<String> {
    let before = if rust { "`riddle " } else { "riddle " };
    let end = |it: char| if rust { it == '`' } else { "\"'`.,;:”<)".contains(it) };
    let names = |at: usize| {
        rust || !text[..at].ends_with(|it: char| it.is_alphanumeric() || "-_/.".contains(it))
    };
    text.match_indices(before)
        .filter(|&(at, _)| names(at))
        .map(|(at, _)| text[at..].trim_start_matches('`').split(end).next().unwrap_or_default())
        // A line of Rust that goes on, or of a comment.
        .map(|it| it.replace("\\\n", " ").replace("//!", " ").replace("///", " "))
        .map(|it| it.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect()
}

#[test]
fn commands_are_found_in_sources() {
    assert_eq!(
        mentions("\"(run `riddle index \\\n   FOLDER`)\" riddle x", true),
        ["riddle index FOLDER"]
    );
    assert_eq!(mentions("a: \"Needs it: riddle calibrate.\"", false), ["riddle calibrate"]);
    assert_eq!(mentions("const riddleHome = 'share/riddle is'", false), [""; 0]);
}
