//! The built program: found, run, watched, killed.

use std::{
    ffi::OsStr,
    io::Read,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tempfile::TempDir;

/// Longest time that a run may take before it counts as hanging: far above any real one on a slow
/// machine that builds at the same time.
const PATIENCE: Duration = Duration::from_secs(120);

/// Path of the built program: beside the folder of the test's own executable, or `RIDDLE_BIN`.
///
/// # Panics
/// When it is not built, with the command that builds it.
pub fn program() -> PathBuf {
    if let Some(path) = std::env::var_os("RIDDLE_BIN") {
        return PathBuf::from(path);
    }
    let test = std::env::current_exe().expect("the test knows its own path");
    // target/PROFILE/deps/e2e-HASH → target/PROFILE/riddle
    let profile =
        test.parent().and_then(Path::parent).expect("tests are built in target/PROFILE/deps");
    let program = profile.join(format!("riddle{}", std::env::consts::EXE_SUFFIX));
    assert!(
        program.is_file(),
        "{} is not there: build it first with `cargo build -p riddle-cli` (and --release for release tests)",
        program.display()
    );
    program
}

/// What a run left behind.
#[derive(Debug)]
pub struct Outcome {
    /// Exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// Everything on stdout.
    pub stdout: String,
    /// Everything on stderr.
    pub stderr: String,
}

impl Outcome {
    /// Stdout, when the run succeeded.
    ///
    /// # Panics
    /// When it did not.
    pub fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{self:#?}");
        self.stdout
    }

    /// The one JSON value on stdout of a run that succeeded.
    ///
    /// # Panics
    /// When the run failed, or stdout holds anything else.
    pub fn json(self) -> Value {
        let text = self.ok();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text:?}"))
    }

    /// The line on stderr of a run that failed with `code`.
    ///
    /// # Panics
    /// When it ended otherwise, said more than one line, or put anything on stdout.
    pub fn failed(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "{self:#?}");
        assert_eq!(self.stdout, "", "{self:#?}");
        let line = self.stderr.trim_end();
        assert!(!line.is_empty() && !line.contains('\n'), "not one line: {self:#?}");
        assert!(!line.contains("panicked") && !line.contains("internal error"), "{self:#?}");
        line.to_owned()
    }
}

/// A home, and the program to run on it.
#[derive(Debug)]
pub struct Riddle {
    home: TempDir,
    models: Option<PathBuf>,
    variables: Vec<(String, String)>,
}

impl Riddle {
    /// A fresh home without models: keywords only.
    pub fn new() -> Riddle {
        Riddle {
            home: TempDir::new().expect("a temporary folder"),
            models: None,
            variables: Vec::new(),
        }
    }

    /// A fresh home with the models of a store.
    pub fn with_models(store: PathBuf) -> Riddle {
        Riddle { models: Some(store), ..Riddle::new() }
    }

    /// With these environment variables.
    #[must_use]
    pub fn with_env(mut self, variables: &[(&str, &str)]) -> Riddle {
        self.variables.extend(variables.iter().map(|it| (it.0.to_owned(), it.1.to_owned())));
        self
    }

    /// Its home folder.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// The program on this home, offline, with nothing of the caller's environment that changes it.
    pub fn command<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        let mut command = Command::new(program());
        self.environment(&mut command);
        command.args(args);
        command
    }

    /// Gives `command` this home: for runs through a shell or as another user.
    pub fn environment(&self, command: &mut Command) {
        for name in [
            "RUST_LOG",
            "RUST_BACKTRACE",
            "COLUMNS",
            "NO_COLOR",
            "XDG_DATA_HOME",
            "XDG_CONFIG_HOME",
        ] {
            command.env_remove(name);
        }
        for name in [
            "RIDDLE_LLM_URL",
            "RIDDLE_LLM_MODEL",
            "RIDDLE_LLM_KEY",
            "RIDDLE_LIBRARY_KEY",
            "RIDDLE_ORIGINALS_KEY",
            "RIDDLE_RERANK_KEY",
            "RIDDLE_EMBED_KEY",
            "RIDDLE_PASSPHRASE",
            "RIDDLE_NEW_PASSPHRASE",
            "HF_ENDPOINT",
            "HF_TOKEN",
            "MODELSCOPE_API_TOKEN",
        ] {
            command.env_remove(name);
        }
        for name in ["ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"] {
            command.env_remove(name).env_remove(name.to_lowercase());
        }
        let models = self.models.clone().unwrap_or_else(|| self.home().join("models"));
        command
            .env("RIDDLE_HOME", self.home())
            .env("RIDDLE_MODELS", models)
            .env("RIDDLE_OFFLINE", "1")
            // Nobody's keyring is asked for anything.
            .env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere")
            // Nor what other programs keep on this machine.
            .env("OLLAMA_MODELS", self.home().join("nothing"))
            .env("HF_HUB_CACHE", self.home().join("nothing"))
            .env("LLAMA_CACHE", self.home().join("nothing"))
            .envs(self.variables.iter().map(|it| (&it.0, &it.1)))
            .stdin(Stdio::null());
    }

    /// Runs it to the end.
    pub fn run<S: AsRef<OsStr>>(&self, args: &[S]) -> Outcome {
        Running::start(self.command(args)).wait()
    }

    /// Starts it.
    pub fn start<S: AsRef<OsStr>>(&self, args: &[S]) -> Running {
        Running::start(self.command(args))
    }

    /// Runs it with `--json` and reads the value.
    pub fn json<S: AsRef<OsStr>>(&self, args: &[S]) -> Value {
        let mut command = self.command(args);
        command.arg("--json");
        Running::start(command).wait().json()
    }

    /// Indexes a folder; the report.
    pub fn index(&self, folder: &Path) -> Value {
        self.json(&[OsStr::new("index"), folder.as_os_str()])
    }

    /// File names of the hits of a keyword or meaning, best first, without repetitions.
    pub fn find(&self, query: &str) -> Vec<String> {
        names(&self.json(&["search", query, "--no-rerank"]))
    }

    /// Problems that the status lists, but for the missing embedder of a home without models.
    ///
    /// # Panics
    /// When the status has no list of problems.
    pub fn problems(&self) -> Vec<String> {
        let status = self.json(&["status", "--check"]);
        let problems = status["problems"].as_array().expect("a list of problems").iter();
        let texts = problems.map(|it| it.as_str().unwrap_or_default().to_owned());
        texts.filter(|it| self.models.is_some() || !it.contains("no embedding model")).collect()
    }

    /// State and reason of the file whose path ends in `name`.
    ///
    /// # Panics
    /// When the ledger has no such file.
    pub fn state_of(&self, name: &str) -> (String, String) {
        let status = self.json(&["status", "--files"]);
        let files = status["files"].as_array().expect("a list of files");
        let file = files
            .iter()
            .find(|it| it["path"].as_str().is_some_and(|path| path.ends_with(name)))
            .unwrap_or_else(|| panic!("{name} is not in the ledger: {status:#}"));
        let text = |key: &str| file[key].as_str().unwrap_or_default().to_owned();
        (text("state"), text("reason"))
    }
}

impl Default for Riddle {
    fn default() -> Self {
        Riddle::new()
    }
}

fn names(response: &Value) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for hit in response["hits"].as_array().expect("a list of hits") {
        let path = hit["path"].as_str().expect("a path");
        let name = path.rsplit('/').next().unwrap_or(path).to_owned();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// What two homes of the same files must agree in: chunks, files with their states, and which files the
/// keywords find (their order among equals is not part of it: it depends on who was read first).
///
/// # Panics
/// When an index holds a chunk twice.
pub fn snapshot(riddle: &Riddle, queries: &[&str]) -> Value {
    let status = riddle.json(&["status", "--files", "--check"]);
    let mut files: Vec<Value> = status["files"]
        .as_array()
        .expect("a list of files")
        .iter()
        .map(|it| json!([it["path"], it["state"], it["chunks"], it["reason"]]))
        .collect();
    files.sort_by_key(Value::to_string);
    let found: Vec<Value> =
        queries.iter().map(|it| json!([it, all_by_keyword(riddle, it)])).collect();
    json!({
        "fingerprint": status["fingerprint"],
        "chunks": status["chunks"],
        "queue": status["queue"],
        "problems": status["problems"],
        "files": files,
        "found": found,
    })
}

/// Every file that holds words of the query, sorted.
fn all_by_keyword(riddle: &Riddle, query: &str) -> Vec<String> {
    let mut response = riddle.json(&["search", query, "--no-rerank", "-k", "1000"]);
    let hits = response["hits"].as_array_mut().expect("a list of hits");
    let mut chunks: Vec<u64> = hits.iter().filter_map(|it| it["chunk"].as_u64()).collect();
    let found = chunks.len();
    chunks.sort_unstable();
    chunks.dedup();
    assert_eq!(chunks.len(), found, "a chunk is there twice");
    hits.retain(|it| it["trace"]["bm25_rank"].is_number());
    let mut names = names(&response);
    names.sort_unstable();
    names
}

/// What a process and those that it has started are doing: command lines, and where each thread waits. Empty where the
/// system does not tell.
fn threads(pid: u32) -> String {
    let read = |path: String| {
        let text = std::fs::read(path).unwrap_or_default();
        String::from_utf8_lossy(&text).replace('\0', " ").trim().to_owned()
    };
    let below = |path: &str| {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        entries.filter_map(|it| it.file_name().to_str()?.parse::<u32>().ok()).collect::<Vec<_>>()
    };
    let mut said = format!("{pid} {}\n", read(format!("/proc/{pid}/cmdline")));
    for thread in below(&format!("/proc/{pid}/task")) {
        let at = format!("/proc/{pid}/task/{thread}");
        let [name, waits] = ["comm", "wchan"].map(|it| read(format!("{at}/{it}")));
        // Its state, and what it has computed, in ticks.
        let stat = read(format!("{at}/stat"));
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split(' ').collect();
        let field = |it: usize| fields.get(it).copied().unwrap_or_default();
        said += &format!("  {name}: {} {waits}, {} + {} ticks\n", field(1), field(12), field(13));
        let children = read(format!("{at}/children"));
        for child in children.split_whitespace().filter_map(|it| it.parse().ok()) {
            said += &threads(child);
        }
    }
    said
}

/// A run under way. Dropping it kills the process.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stdout: Option<JoinHandle<String>>,
    stderr: Option<JoinHandle<String>>,
}

impl Running {
    /// Starts a command with its output read as it comes: a full pipe would stop the program.
    ///
    /// # Panics
    /// When it can not be started.
    pub fn start(mut command: Command) -> Running {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let stdout = child.stdout.take().map(reader);
        let stderr = child.stderr.take().map(reader);
        Running { child, stdout, stderr }
    }

    /// Writes to its stdin (which must be a pipe) and closes it.
    ///
    /// A program that has ended without reading is no failure: its exit code tells why.
    pub fn feed(&mut self, write: impl FnOnce(&mut ChildStdin) -> std::io::Result<()>) {
        let Some(mut stdin) = self.child.stdin.take() else { return };
        if let Err(error) = write(&mut stdin) {
            assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe, "{error}");
        }
    }

    /// Process number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("the child can be asked").is_some()
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When it hangs.
    pub fn wait(mut self) -> Outcome {
        let started = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("the child can be asked") {
                break status;
            }
            assert!(started.elapsed() < PATIENCE, "the program hangs:\n{}", threads(self.pid()));
            thread::sleep(Duration::from_millis(5));
        };
        let text = |handle: Option<JoinHandle<String>>| {
            handle.map(|it| it.join().expect("the reader ends")).unwrap_or_default()
        };
        Outcome {
            code: status.code(),
            stdout: text(self.stdout.take()),
            stderr: text(self.stderr.take()),
        }
    }

    /// Sends a signal by name (`INT`, `KILL`).
    ///
    /// # Panics
    /// When there is no `kill` command.
    pub fn signal(&self, name: &str) {
        let pid = self.pid().to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).stderr(Stdio::null()).status();
        // A process that has just ended can not be signaled, and need not be.
        sent.expect("there is a kill command");
    }

    /// Kills it at once (SIGKILL where there are signals), without a process of its own that a busy machine would keep
    /// waiting. One that has ended can not be killed, and need not be.
    ///
    /// # Panics
    /// When the system refuses.
    pub fn kill(&mut self) {
        self.child.kill().expect("our own child can be killed");
    }

    /// Waits until `ready` is true.
    ///
    /// # Panics
    /// When that takes too long, or the program ends before.
    pub fn until(&mut self, what: &str, mut ready: impl FnMut() -> bool) {
        let started = Instant::now();
        while !ready() {
            assert!(started.elapsed() < PATIENCE, "waited in vain: {what}");
            assert!(!self.has_ended(), "the program ended before: {what}");
            thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn reader(mut from: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What came before a failure is still worth showing.
        let _ = from.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
