//! The parent's side: child processes that parse, watched by a clock.

use std::{
    ffi::OsString,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    time::Duration,
};

use riddle_types::FileKind;

use crate::{
    outcome::ParseOutcome,
    protocol::{Reply, Request, VERSION, read_json, write_json, write_part},
};

/// How to start the child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerCommand {
    /// The program; usually this one.
    pub program: PathBuf,
    /// Arguments that make it call [`worker_main`](crate::worker_main).
    pub args: Vec<OsString>,
}

/// What a parser may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Time for one file.
    pub time: Duration,
    /// Memory for the parser, beside the program itself.
    pub memory_bytes: u64,
    /// Largest reply: the text of one file.
    pub output_bytes: u64,
}

impl Default for Limits {
    /// Twenty seconds and one GiB: the slowest of several hundred real files took 4 seconds, the largest
    /// 407 MB. A text of 64 MiB is a large library's catalog.
    fn default() -> Self {
        Limits { time: Duration::from_secs(20), memory_bytes: 1 << 30, output_bytes: 64 << 20 }
    }
}

/// A child is replaced after this many files, so that what a parser leaks does not add up.
const FILES_PER_CHILD: u32 = 200;

/// A child whose peak has grown beyond this is replaced: it would keep the memory.
const LARGE_CHILD_BYTES: u64 = 256 << 20;

/// Formats that still hold readable words when their own parser fails.
const READABLE_AS_TEXT: [FileKind; 2] = [FileKind::Html, FileKind::Mail];

/// Child processes that parse; shared by as many threads as want to parse at a time.
#[derive(Debug)]
pub struct ParserPool {
    command: WorkerCommand,
    limits: Limits,
    idle: Mutex<Vec<Worker>>,
    peak_rss_bytes: AtomicU64,
}

impl ParserPool {
    /// A pool that starts children when they are needed.
    pub fn new(command: WorkerCommand, limits: Limits) -> ParserPool {
        ParserPool {
            command,
            limits,
            idle: Mutex::new(Vec::new()),
            peak_rss_bytes: AtomicU64::new(0),
        }
    }

    /// Parses a file in a child process and waits for it, no longer than the limit. Never fails otherwise:
    /// whatever happens to the child is the outcome of the file.
    pub fn parse(&self, path: &Path, kind: FileKind, bytes: &[u8]) -> ParseOutcome {
        match self.attempt(path, kind, bytes, false) {
            ParseOutcome::Failed(reason) if READABLE_AS_TEXT.contains(&kind) => {
                match self.attempt(path, kind, bytes, true) {
                    parsed @ ParseOutcome::Parsed(_) => parsed,
                    _ => ParseOutcome::Failed(reason),
                }
            }
            outcome => outcome,
        }
    }

    /// Most memory that a child reported so far.
    pub fn peak_child_rss_bytes(&self) -> u64 {
        self.peak_rss_bytes.load(Ordering::Relaxed)
    }

    fn attempt(&self, path: &Path, kind: FileKind, bytes: &[u8], second: bool) -> ParseOutcome {
        let request = Request {
            version: VERSION,
            name: path.file_name().map_or_else(String::new, |it| it.to_string_lossy().into_owned()),
            kind,
            bytes: bytes.len() as u64,
            second,
            seconds: self.limits.time.as_secs().max(1),
        };
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut worker = match idle.map_or_else(|| Worker::start(&self.command, self.limits), Ok) {
            Ok(worker) => worker,
            Err(error) => {
                let reason = format!(
                    "the parser {} can not be started: {error}",
                    self.command.program.display()
                );
                return ParseOutcome::Failed(reason);
            }
        };
        match worker.exchange(request, bytes, self.limits) {
            Ok(reply) => {
                self.peak_rss_bytes.fetch_max(reply.peak_rss_bytes, Ordering::Relaxed);
                if worker.files < FILES_PER_CHILD && reply.peak_rss_bytes < LARGE_CHILD_BYTES {
                    self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(worker);
                }
                reply.outcome
            }
            Err(reason) => ParseOutcome::Failed(reason),
        }
    }
}

/// One child, with a thread that talks to it: the caller only waits for the thread.
#[derive(Debug)]
struct Worker {
    child: Child,
    requests: Option<Sender<(Request, Vec<u8>)>>,
    replies: Receiver<io::Result<Option<Reply>>>,
    complaint: Arc<Mutex<String>>,
    files: u32,
}

impl Worker {
    fn start(command: &WorkerCommand, limits: Limits) -> io::Result<Worker> {
        let mut child = Command::new(&command.program)
            .args(&command.args)
            .arg(limits.memory_bytes.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let missing = || io::Error::other("the child has no standard streams");
        let mut input = child.stdin.take().ok_or_else(missing)?;
        let mut output = child.stdout.take().ok_or_else(missing)?;
        let mut errors = child.stderr.take().ok_or_else(missing)?;
        let (requests, incoming) = channel::<(Request, Vec<u8>)>();
        let (outgoing, replies) = channel();
        std::thread::Builder::new().name("parser-pipe".to_owned()).spawn(move || {
            for (request, bytes) in incoming {
                let reply = write_json(&mut input, &request)
                    .and_then(|()| write_part(&mut input, &bytes))
                    .and_then(|()| input.flush())
                    .and_then(|()| read_json::<Reply>(&mut output, limits.output_bytes));
                let ended = !matches!(reply, Ok(Some(_)));
                if outgoing.send(reply).is_err() || ended {
                    break;
                }
            }
        })?;
        let complaint = Arc::new(Mutex::new(String::new()));
        let shared = Arc::clone(&complaint);
        std::thread::Builder::new().name("parser-stderr".to_owned()).spawn(move || {
            // The last words tell why it died; a flood of them must not be kept.
            const KEPT: usize = 2048;
            let mut buffer = [0; KEPT];
            while let Ok(length @ 1..) = errors.read(&mut buffer) {
                *shared.lock().unwrap_or_else(PoisonError::into_inner) =
                    String::from_utf8_lossy(&buffer[..length]).into_owned();
            }
        })?;
        Ok(Worker { child, requests: Some(requests), replies, complaint, files: 0 })
    }

    /// One request and its reply; an error says what happened to the child, which is then gone.
    fn exchange(
        &mut self,
        request: Request,
        bytes: &[u8],
        limits: Limits,
    ) -> Result<Reply, String> {
        self.files += 1;
        let gone = || "the parser's process is gone".to_owned();
        let requests = self.requests.as_ref().ok_or_else(gone)?;
        requests.send((request, bytes.to_vec())).map_err(|_| gone())?;
        match self.replies.recv_timeout(limits.time) {
            Ok(Ok(Some(reply))) if reply.version == VERSION => Ok(reply),
            Ok(Ok(Some(_))) => {
                Err("the parser is of another version: install riddle again".to_owned())
            }
            Ok(Err(error)) if error.kind() == io::ErrorKind::InvalidData => {
                Err(format!("the parser's answer makes no sense: {error}"))
            }
            Ok(Ok(None) | Err(_)) | Err(RecvTimeoutError::Disconnected) => {
                Err(self.cause_of_death(limits))
            }
            Err(RecvTimeoutError::Timeout) => {
                Err(format!("parsing took longer than {} seconds", limits.time.as_secs_f32()))
            }
        }
    }

    fn cause_of_death(&mut self, limits: Limits) -> String {
        // Its pipes are closed: it has ended, or is about to.
        let status = self.child.kill().and_then(|()| self.child.wait());
        // The thread that reads the last words needs a moment after the pipe closes.
        std::thread::sleep(Duration::from_millis(20));
        let complaint = self.complaint.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if complaint.contains("memory allocation") || complaint.contains("out of memory") {
            return format!("parsing needed more than {} MiB of memory", limits.memory_bytes >> 20);
        }
        if complaint.contains("overflowed its stack") {
            return "the parser crashed: the document is nested too deeply".to_owned();
        }
        match status {
            Ok(status) => format!("the parser crashed ({})", describe(status)),
            Err(error) => format!("the parser crashed ({error})"),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.requests = None;
        // It may hang: there is nothing in it that is worth waiting for. Waiting afterwards frees its entry
        // in the process table; both fail only if it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(unix)]
fn describe(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match status.signal() {
        Some(libc::SIGSEGV) => "invalid memory access".to_owned(),
        Some(libc::SIGABRT) => "it aborted".to_owned(),
        Some(libc::SIGKILL) => "it was killed, perhaps for lack of memory".to_owned(),
        Some(signal) => format!("signal {signal}"),
        None => status.to_string(),
    }
}

#[cfg(not(unix))]
fn describe(status: ExitStatus) -> String {
    status.to_string()
}
