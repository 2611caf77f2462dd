//! A real server of Milvus' API, where it is installed.

use std::{
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

use crate::{Running, skipped, workspace};

/// Time that it may take to start on a machine that builds at the same time.
const LONGEST_START: Duration = Duration::from_secs(90);

/// milvus-lite, which `.ci/milvus` fetches: Milvus' gRPC API in one process.
pub struct Server {
    process: Child,
    port: u16,
    data: TempDir,
}

impl Server {
    /// `None`, and said so, where it is not installed.
    pub fn start() -> Option<Server> {
        let folder = packages();
        if !folder.join("milvus_lite").is_dir() {
            skipped(
                "no library lives elsewhere: milvus-lite is not in .cache/milvus (`bash .ci/milvus` fetches it)",
            );
            return None;
        }
        let data = TempDir::new().expect("a temporary folder");
        let port = free_port();
        let process = serve(data.path(), port);
        let mut server = Server { process, port, data };
        if server.waits() {
            return Some(server);
        }
        skipped("no library lives elsewhere: milvus-lite is installed and does not start here");
        None
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

    /// Address of a library on it.
    pub fn address(&self, library: &str) -> String {
        format!("milvus://127.0.0.1:{}/{library}", self.port)
    }

    /// Ends it; its data stay.
    pub fn stop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// On the same data and port.
    pub fn start_again(&mut self) {
        self.process = serve(self.data.path(), self.port);
        assert!(self.waits(), "the server starts again");
    }

    /// Changes a library's record behind everybody's back.
    pub fn set_in_record(&self, library: &str, field: &str, json: &str) {
        let script = format!(
            "import json\nfrom pymilvus import MilvusClient\n\
             c = MilvusClient(uri='http://127.0.0.1:{}')\nname = 'riddle_{library}_about'\n\
             record = json.loads(c.query(name, filter='id == \"library\"', output_fields=['record'])[0]['record'])\n\
             record['{field}'] = json.loads('''{json}''')\n\
             c.upsert(name, [{{'id': 'library', 'record': json.dumps(record), 'nothing': [0.0, 0.0]}}])\n",
            self.port
        );
        let mut command = Command::new("python3");
        command.args(["-c", &script]).env("PYTHONPATH", packages());
        let outcome = Running::start(command).wait();
        assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

fn packages() -> PathBuf {
    workspace().join(".cache").join("milvus")
}

fn serve(data: &Path, port: u16) -> Child {
    let mut command = Command::new("python3");
    command
        .args(["-m", "milvus_lite.cmdline", "server", "--host", "127.0.0.1", "--data-dir"])
        .arg(data.join("data"))
        .args(["--port", &port.to_string()])
        .env("PYTHONPATH", packages())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.spawn().expect("python3 starts")
}

/// A port that nobody listens on.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("bound").port()
}
