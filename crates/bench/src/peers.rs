//! The reranker beside other programs: a Python script that is carried along measures all of them.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use riddle_rag::rerank::FORCE_ISA;
use serde_json::Value;

use crate::{Error, Result, texts};

/// The script: what it measures and how is told at its beginning.
const SCRIPT: &str = include_str!("../../../tests/peers/rerank.py");

/// What it imports, and what installs that.
const MODULES: &str = "import torch, transformers, onnxruntime, onnx";
const REQUIREMENTS: &str = include_str!("../../../tests/peers/requirements.txt");

/// What to compare.
#[derive(Debug, Clone)]
pub struct PeerOptions {
    /// The model's directory, as it was published.
    pub model: PathBuf,
    /// This program.
    pub riddle: PathBuf,
    /// A Python with the peers' libraries.
    pub python: PathBuf,
    /// Documents per request.
    pub candidates: usize,
    /// Tokens of the longest pair.
    pub tokens: usize,
    /// Tokens of the shortest pair, where pairs differ in length.
    pub ragged: Option<usize>,
    /// Rounds, there and back over all peers.
    pub repeats: usize,
    /// Threads of every peer; `None`: all cores.
    pub threads: Option<usize>,
    /// Instructions that this program is held back to.
    pub instructions: Option<String>,
    /// Peers that are not measured.
    pub skip: Vec<String>,
}

/// What came out.
#[derive(Debug, Clone, PartialEq)]
pub struct PeerReport {
    /// A table for people, in Markdown.
    pub table: String,
    /// All figures.
    pub figures: Value,
}

/// Measures this program and others on the same model and request. The script tells its progress on stderr.
///
/// # Errors
/// When Python or one of its libraries is missing, which is told with what installs it, and when the script
/// fails.
pub fn compare(options: &PeerOptions) -> Result<PeerReport> {
    check_python(&options.python)?;
    let PeerOptions { model, candidates, tokens, ragged, .. } = options;
    let (request, _) = texts::request(model, *candidates, *tokens, *ragged)?;
    let folder = std::env::temp_dir().join(format!("riddle-peers-{}", std::process::id()));
    std::fs::create_dir_all(&folder)
        .map_err(|source| Error::Io { path: folder.clone(), source })?;
    let report = run_script(options, &folder, &serde_json::to_vec(&request)?);
    // What is left behind lies among temporary files: why the run failed matters more.
    let _ = std::fs::remove_dir_all(&folder);
    report
}

fn run_script(options: &PeerOptions, folder: &Path, request: &[u8]) -> Result<PeerReport> {
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        match std::fs::write(&path, bytes) {
            Ok(()) => Ok(path),
            Err(source) => Err(Error::Io { path, source }),
        }
    };
    let script = write("rerank.py", SCRIPT.as_bytes())?;
    let request = write("request.json", request)?;
    let figures = folder.join("figures.json");
    let mut command = Command::new(&options.python);
    command.arg(script).arg(&options.model).arg(request);
    command.arg("--riddle").arg(&options.riddle).arg("--json").arg(&figures);
    command.args(["--rounds", &options.repeats.to_string()]);
    if let Some(threads) = options.threads {
        command.args(["--threads", &threads.to_string()]);
    }
    if !options.skip.is_empty() {
        command.args(["--skip", &options.skip.join(",")]);
    }
    command.envs(options.instructions.iter().map(|it| (FORCE_ISA, it)));
    let io = |source| Error::Io { path: options.python.clone(), source };
    let run = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().map_err(io)?;
    if !run.status.success() {
        let why = format!("the script ended with {}", run.status);
        return Err(Error::Worker { step: "peers".to_owned(), why });
    }
    let json =
        std::fs::read(&figures).map_err(|source| Error::Io { path: figures.clone(), source })?;
    Ok(PeerReport {
        table: String::from_utf8_lossy(&run.stdout).into_owned(),
        figures: serde_json::from_slice(&json)?,
    })
}

fn check_python(python: &Path) -> Result<()> {
    let command = Command::new(python).args(["-c", MODULES]).stdin(Stdio::null()).output();
    let why = match command {
        Ok(run) if run.status.success() => return Ok(()),
        Ok(run) => {
            let said = String::from_utf8_lossy(&run.stderr).into_owned();
            said.trim().lines().last().unwrap_or("it can not be run").to_owned()
        }
        Err(error) => error.to_string(),
    };
    let packages: Vec<&str> = REQUIREMENTS.lines().filter(|it| !it.starts_with('#')).collect();
    Err(Error::Python { python: python.to_path_buf(), why, packages: packages.join(" ") })
}
