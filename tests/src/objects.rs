//! A real store of the S3 API, where it is installed.

use std::{
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

use crate::{milvus::free_port, skipped, workspace};

/// Time that it may take to start on a machine that builds at the same time.
const LONGEST_START: Duration = Duration::from_secs(60);

/// The key that it lets in, as `ACCESS:SECRET`.
pub const KEY: &str = "reader:hunter2";

/// `rclone serve s3`, which `.ci/objects` fetches: it keeps objects in a folder and checks signatures.
pub struct Bucket {
    process: Child,
    port: u16,
    data: TempDir,
}

impl Bucket {
    /// One that lets in whoever has [`KEY`]. `None`, and said so, where it is not installed.
    pub fn start() -> Option<Bucket> {
        Bucket::for_whom(Some(KEY))
    }

    /// One that lets everybody in, as [`start`](Self::start).
    pub fn for_everybody() -> Option<Bucket> {
        Bucket::for_whom(None)
    }

    fn for_whom(key: Option<&str>) -> Option<Bucket> {
        let program = workspace().join(".cache/objects/bin/rclone");
        if !program.is_file() {
            skipped(
                "no file is kept in an object store: rclone is not in .cache/objects (`bash .ci/objects` fetches it)",
            );
            return None;
        }
        let data = TempDir::new().expect("a temporary folder");
        std::fs::create_dir(data.path().join("files")).expect("a bucket");
        let port = free_port();
        let process = serve(&program, data.path(), port, key);
        let mut bucket = Bucket { process, port, data };
        assert!(bucket.waits(), "rclone is installed and does not start here");
        Some(bucket)
    }

    fn waits(&mut self) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < LONGEST_START {
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return true;
            }
            if self.process.try_wait().is_ok_and(|it| it.is_some()) {
                return false;
            }
            thread::sleep(Duration::from_millis(50));
        }
        false
    }

    /// Its address.
    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}/files/shared", self.port)
    }

    /// Ends it; its data stay.
    pub fn stop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// The contents of all objects below a folder, in order.
    pub fn contents(&self) -> Vec<Vec<u8>> {
        let mut files: Vec<PathBuf> = Vec::new();
        below(&self.data.path().join("files"), &mut files);
        let mut contents: Vec<Vec<u8>> =
            files.iter().map(|it| std::fs::read(it).expect("an object")).collect();
        contents.sort();
        contents
    }
}

impl Drop for Bucket {
    fn drop(&mut self) {
        self.stop();
    }
}

fn below(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            below(&entry.path(), files);
        } else {
            files.push(entry.path());
        }
    }
}

fn serve(program: &Path, data: &Path, port: u16, key: Option<&str>) -> Child {
    let mut command = Command::new(program);
    command
        .args(["serve", "s3", "--config", "/dev/null", "--vfs-cache-mode", "off"])
        .args(["--addr", &format!("127.0.0.1:{port}")])
        .arg(data)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if let Some(key) = key {
        command.args(["--auth-key", &key.replace(':', ",")]);
    }
    command.spawn().expect("rclone starts")
}
