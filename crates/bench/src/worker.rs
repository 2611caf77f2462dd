//! One configuration in a process of its own: peak memory belongs to a process and never goes down.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Read, Write},
    ops::ControlFlow,
    path::PathBuf,
    process::{Child, ChildStderr, ChildStdout, Command, Stdio},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use riddle_rag::{
    Config,
    rerank::{Arithmetic, FORCE_ISA, Mode, Pruning, RerankSettings, open_reranker},
};
use riddle_types::{LayerEvent, LayerObserver, SilentObserver};
use serde::{Deserialize, Serialize};

use crate::{Error, Request, Result, Setting};

/// Time between two looks at the child's memory, as in the paper's figures about a hundredth of a request.
const SAMPLE_EVERY: Duration = Duration::from_millis(10);

/// The program that measures itself, and the argument that makes it the measured one: it must call
/// [`work`] with its stdin and stdout.
#[derive(Debug, Clone)]
pub struct Worker {
    /// The program.
    pub program: PathBuf,
    /// Its first argument.
    pub argument: &'static str,
    /// Instructions that the child is held back to, by name; `None`: the processor's best.
    pub instructions: Option<String>,
}

/// What the child is told.
#[derive(Debug, Serialize, Deserialize)]
struct Job {
    model: PathBuf,
    setting: Setting,
    request: Request,
    /// Warms up with the whole request, as other programs are warmed up that ours is compared with.
    #[serde(default)]
    warm_up_fully: bool,
}

/// What one run cost.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Opening the model, weights that stay included.
    pub open_ms: f64,
    /// The request, from the call to its result, on a model that has answered before.
    pub latency_ms: f64,
    /// Of which tokenizing.
    pub tokenize_ms: f64,
    /// Of which the computation waited for weights.
    pub io_wait_ms: f64,
    /// Bytes of weights that were read from disk during the request, embedding rows included.
    pub bytes_read: u64,
    /// Of which embedding rows.
    #[serde(default)]
    pub row_bytes_read: u64,
    /// Bytes of the model's files that the system had cached when a request that reads layers began: what was not read
    /// from a disk, at most. `None` where nobody reads layers, or the system does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_bytes: Option<u64>,
    /// Layers that computed something.
    pub layers_run: u32,
    /// Candidate × layer forwards that were computed, of all.
    pub candidate_layers_share: f64,
    /// Most bytes of weights in memory, by the engine's own count.
    pub resident_weight_bytes: u64,
    /// Bytes of activations, by the engine's own count.
    pub scratch_bytes: u64,
    /// Milliseconds of each operation of the forward pass, by name.
    #[serde(default)]
    pub operations_ms: BTreeMap<String, f64>,
    /// Peak of the process, by the system's count.
    pub peak_rss_bytes: u64,
    /// Raw score of each result, with the index of its document.
    pub scores: Vec<(usize, f32)>,
}

/// Memory of the process at a time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Sample {
    /// Milliseconds since the request began; negative while the model is opened.
    pub ms: f64,
    /// Resident bytes.
    pub rss_bytes: u64,
}

/// What the child says when the request is about to begin.
const READY: &str = "ready";

#[derive(Default)]
struct Bytes {
    all: u64,
    rows: u64,
}

impl LayerObserver for Bytes {
    fn on_layer(&mut self, event: &LayerEvent) -> ControlFlow<()> {
        self.all += event.bytes_read;
        self.rows += event.row_bytes_read;
        ControlFlow::Continue(())
    }
}

/// The child's part: reads a job, reranks once to warm up and once to measure, writes what it cost.
///
/// # Errors
/// When the model can not be opened or the run fails.
pub fn work(input: impl Read, mut output: impl Write) -> Result<()> {
    let job: Job = serde_json::from_reader(input)?;
    let operations = riddle_metrics::operations();
    let started = Instant::now();
    // A model by its directory needs no home but a place for temporary files.
    let config = Config::new(std::env::temp_dir());
    let name = job.model.to_string_lossy();
    let reranker = open_reranker(&config, &name, &settings(&job.setting), job.request.top_n)?;
    let open_ms = ms_since(started);
    let request = &job.request;
    let documents: Vec<&str> = request.documents.iter().map(String::as_str).collect();
    // One document is enough to read the layers that stay and to start the threads.
    let first = if job.warm_up_fully { documents.len() } else { documents.len().min(1) };
    reranker.rerank(&request.query, &documents[..first], 1, &mut SilentObserver)?;
    let mut cached_bytes = None;
    if reads_layers(&job.setting) {
        // Warming up has brought the weights into the system's cache, and a window would be measured reading memory.
        riddle_metrics::forget_cached_files(&job.model).map_err(Error::Pipe)?;
        cached_bytes = riddle_metrics::cached_bytes(&job.model).map_err(Error::Pipe)?;
    }
    writeln!(output, "{READY}").and_then(|()| output.flush()).map_err(Error::Pipe)?;
    let mut bytes = Bytes::default();
    // What opening and warming up took is nobody's question.
    operations.take();
    let started = Instant::now();
    let outcome = reranker.rerank(&request.query, &documents, request.top_n, &mut bytes)?;
    let latency_ms = ms_since(started);
    let stats = outcome.stats;
    let all = documents.len() as f64 * f64::from(stats.num_layers);
    let figures = Figures {
        open_ms,
        latency_ms,
        tokenize_ms: stats.tokenize_ms,
        io_wait_ms: stats.io_wait_ms,
        bytes_read: bytes.all,
        row_bytes_read: bytes.rows,
        cached_bytes,
        layers_run: stats.layers_run,
        candidate_layers_share: stats.candidate_layers as f64 / all.max(1.0),
        resident_weight_bytes: stats.resident_weight_bytes,
        scratch_bytes: stats.scratch_bytes,
        operations_ms: operations
            .take()
            .into_iter()
            .map(|(name, ms)| (name.to_owned(), ms))
            .collect(),
        peak_rss_bytes: riddle_metrics::memory().peak_rss_bytes,
        scores: outcome.ranked.iter().map(|it| (it.index, it.raw_score)).collect(),
    };
    serde_json::to_writer(&mut output, &figures)?;
    output.flush().map_err(Error::Pipe)
}

/// Whether a step reads layers during the request.
fn reads_layers(setting: &Setting) -> bool {
    setting.window.is_some() || setting.memory_budget.is_some()
}

/// A step's setting in the façade's words. A further technique is a field of [`Setting`] and a line here.
fn settings(setting: &Setting) -> RerankSettings {
    RerankSettings {
        mode: if setting.threshold.is_some() { Mode::Set } else { Mode::Off },
        pruning: setting.threshold.map_or(Pruning::Never, Pruning::Threshold),
        window: setting.window,
        micro_batch_tokens: setting.micro_batch_tokens,
        embedding_rows: setting.embedding_rows,
        threads: setting.threads,
        memory_budget: setting.memory_budget,
        arithmetic: if setting.bf16 { Arithmetic::Bf16 } else { Arithmetic::F32 },
        ..RerankSettings::default()
    }
}

impl Worker {
    /// Runs `step` in a fresh process and watches its memory.
    pub(crate) fn measure(
        &self,
        step: &str,
        model: &std::path::Path,
        setting: &Setting,
        request: &Request,
    ) -> Result<(Figures, Vec<Sample>)> {
        let job = Job {
            model: model.to_path_buf(),
            setting: setting.clone(),
            request: request.clone(),
            warm_up_fully: false,
        };
        let job = serde_json::to_vec(&job)?;
        let mut child = Command::new(&self.program)
            .arg(self.argument)
            .envs(self.instructions.iter().map(|it| (FORCE_ISA, it)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|source| Error::Io { path: self.program.clone(), source })?;
        if let Some(mut stdin) = child.stdin.take() {
            // A child that ends early is told by its status, not by the broken pipe.
            let _ = stdin.write_all(&job);
        }
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let (answer, samples) = watch(&mut child, stdout, stderr)?;
        let failed = |why: String| Error::Worker { step: step.to_owned(), why };
        let status = child.wait().map_err(Error::Pipe)?;
        if !status.success() {
            let said = answer.errors.trim().to_owned();
            return Err(failed(if said.is_empty() {
                format!("its process: {status}")
            } else {
                said
            }));
        }
        let ready = answer.ready.ok_or_else(|| failed("its process said nothing".to_owned()))?;
        let samples = samples.into_iter().map(|(at, rss_bytes)| {
            let before = ready.saturating_duration_since(at).as_secs_f64();
            let ms = (at.saturating_duration_since(ready).as_secs_f64() - before) * 1e3;
            Sample { ms, rss_bytes }
        });
        Ok((serde_json::from_str(&answer.figures)?, samples.collect()))
    }
}

/// What came out of the child.
#[derive(Default)]
struct Answer {
    ready: Option<Instant>,
    figures: String,
    errors: String,
}

/// Reads the child's pipes to their ends, and samples its memory meanwhile.
fn watch(
    child: &mut Child,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
) -> Result<(Answer, Vec<(Instant, u64)>)> {
    let done = AtomicBool::new(false);
    let samples = Mutex::new(Vec::new());
    let id = child.id();
    let answer = thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                if let Some(bytes) = riddle_metrics::rss_of(id) {
                    let mut samples = samples.lock().unwrap_or_else(PoisonError::into_inner);
                    samples.push((Instant::now(), bytes));
                }
                thread::sleep(SAMPLE_EVERY);
            }
        });
        // Read beside the answer: a child that complains at length must not wait for its reader.
        let errors = scope.spawn(|| {
            let mut text = String::new();
            let read = stderr.map_or(Ok(0), |mut it| it.read_to_string(&mut text));
            read.map(|_| text)
        });
        let read = read_answer(stdout);
        let errors = errors.join().unwrap_or_else(|_| Ok(String::new()));
        done.store(true, Ordering::Relaxed);
        let (ready, figures) = read?;
        Ok(Answer { ready, figures, errors: errors? })
    });
    let samples = samples.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok((answer.map_err(Error::Pipe)?, samples))
}

fn read_answer(stdout: Option<ChildStdout>) -> std::io::Result<(Option<Instant>, String)> {
    let Some(stdout) = stdout else { return Ok((None, String::new())) };
    let mut stdout = BufReader::new(stdout);
    let mut line = String::new();
    stdout.read_line(&mut line)?;
    let ready = (line.trim() == READY).then(Instant::now);
    let mut figures = String::new();
    stdout.read_to_string(&mut figures)?;
    Ok((ready, figures))
}

fn ms_since(started: Instant) -> f64 {
    started.elapsed().as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use std::{fs, io, path::Path};

    use super::*;

    /// What the worker says, and how much of the model the system had cached when it said that it was ready.
    struct Watched<'a> {
        model: &'a Path,
        said: Vec<u8>,
        cached: Option<u64>,
    }

    impl Write for Watched<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.said.extend_from_slice(bytes);
            if self.cached.is_none() && self.said.starts_with(READY.as_bytes()) {
                self.cached = riddle_metrics::cached_bytes(self.model)?;
            }
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn copy_of_a_model(to: &Path) {
        let golden = "../../tests/golden/tiny-bert-cross-encoder";
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join(golden);
        for entry in fs::read_dir(from).expect("a model") {
            let path = entry.expect("a file").path();
            fs::copy(&path, to.join(path.file_name().expect("a name"))).expect("copied");
        }
    }

    /// A window that reads what the warm-up has left in memory would be measured reading memory.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_request_that_reads_layers_begins_with_nothing_in_the_systems_cache() {
        // Where programs are built is a disk more often than where temporary files are.
        let program = std::env::current_exe().expect("a path");
        let dir = tempfile::tempdir_in(program.parent().expect("a folder")).expect("made");
        copy_of_a_model(dir.path());
        riddle_metrics::forget_cached_files(dir.path()).expect("a folder");
        if riddle_metrics::cached_bytes(dir.path()).expect("readable") != Some(0) {
            eprintln!("SKIPPED: {} is on a file system that forgets nothing", dir.path().display());
            return;
        }
        let measured = |window| {
            let job = Job {
                model: dir.path().to_path_buf(),
                setting: Setting { window, threads: Some(1), ..Setting::default() },
                request: Request {
                    query: "which lock".to_owned(),
                    documents: vec!["the lock of the dock".to_owned(); 2],
                    top_n: 1,
                },
                warm_up_fully: false,
            };
            let job = serde_json::to_vec(&job).expect("a job");
            let mut out = Watched { model: dir.path(), said: Vec::new(), cached: None };
            work(&job[..], &mut out).expect("works");
            let figures = &out.said[READY.len()..];
            let figures: Figures = serde_json::from_slice(figures).expect("figures");
            (out.cached.expect("ready"), figures.cached_bytes)
        };
        // What nobody has asked to be forgotten is there: the warm-up has read it.
        let (resident, told) = measured(None);
        assert!(resident > 0 && told.is_none(), "{resident} {told:?}");
        assert_eq!(measured(Some(1)), (0, Some(0)));
    }
}
