//! Clients that others wrote, unchanged, where Python and they are installed: `RIDDLE_CLIENTS_PYTHON` names a Python
//! that has them (`pip install -r tests/clients/requirements.txt`).

use std::process::{Command, Stdio};

use riddle_tests::{Running, program, skipped};

use super::{Served, client_script};

/// Runs a script of clients in TypeScript, with a folder that has them.
fn with_node(script: &str, served: &Served, folder: &std::ffi::OsStr, more: bool) {
    let mut command = Command::new("node");
    served.riddle.environment(&mut command);
    command
        .arg(client_script(script))
        .arg(format!("http://127.0.0.1:{}", served.port))
        .arg(&served.token);
    if more {
        command.arg(program()).arg(served.riddle.home());
    }
    command.arg(folder).stdin(Stdio::null());
    let said = Running::start(command).wait();
    assert_eq!(said.code, Some(0), "{}\n{}", said.stdout, said.stderr);
}

#[test]
fn clients_in_typescript_and_the_conformance_suite_are_content() {
    let Some(folder) = std::env::var_os("RIDDLE_CLIENTS_NODE") else {
        return skipped(
            "RIDDLE_CLIENTS_NODE names no folder in which npm has installed openai, @modelcontextprotocol/sdk and @modelcontextprotocol/conformance",
        );
    };
    let served = Served::start(&[]);
    with_node("check.mjs", &served, &folder, true);
    with_node("conformance.mjs", &served, &folder, false);
}

#[test]
fn clients_of_others_are_served_as_they_are() {
    let Some(python) = std::env::var_os("RIDDLE_CLIENTS_PYTHON") else {
        return skipped(
            "RIDDLE_CLIENTS_PYTHON names no Python with the clients of tests/clients/requirements.txt",
        );
    };
    let served = Served::start(&[]);
    let mut command = Command::new(python);
    served.riddle.environment(&mut command);
    command
        .arg(client_script("check.py"))
        .arg(format!("http://127.0.0.1:{}", served.port))
        .arg(&served.token)
        .arg(program())
        .arg(served.riddle.home())
        .stdin(Stdio::null());
    let said = Running::start(command).wait();
    assert_eq!(said.code, Some(0), "{}\n{}", said.stdout, said.stderr);
    for client in ["openai", "cohere", "huggingface_hub", "mcp", "langchain_cohere", "llama_index"]
    {
        let line = said.stdout.lines().find(|it| it.contains(client)).expect("a line for each");
        if line.starts_with("SKIPPED") {
            skipped(line);
        } else {
            assert!(line.starts_with("ok: "), "{line}");
        }
    }
}
