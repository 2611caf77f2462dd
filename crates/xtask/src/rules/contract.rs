//! The desktop app's contract: the TypeScript is that of the Rust, and every command is under the ACL.

use crate::{
    bindings::{self, BINDINGS, COMMANDS, DTO, MESSAGES, messages},
    finding::Finding,
    repository::File,
};

/// The list that puts our commands under the ACL.
const BUILD: &str = "src-tauri/build.rs";
/// What the window may call.
const CAPABILITY: &str = "src-tauri/capabilities/main.json";
/// The list that Tauri dispatches by.
const HANDLER: &str = "src-tauri/src/main.rs";

pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let text = |path: &str| files.iter().find(|it| it.path == path)?.text.as_deref();
    let Some(dto) = text(DTO) else { return Vec::new() };
    let sources: Vec<(String, String)> = files
        .iter()
        .filter(|it| it.path.starts_with(COMMANDS))
        .filter_map(|it| Some((it.path.clone(), it.text.clone()?)))
        .collect();
    let rendered = bindings::commands_of(&sources)
        .and_then(|commands| Ok((bindings::render(dto, &commands)?, commands)));
    let (rendered, commands) = match rendered {
        Ok(it) => it,
        Err(error) => return vec![Finding::error(DTO, 1, format!("no bindings: {error:#}"))],
    };
    let mut findings = Vec::new();
    if text(BINDINGS) != Some(&rendered) {
        let message = "is not what the commands and types say: run `cargo xtask bindings`";
        findings.push(Finding::error(BINDINGS, 1, message));
    }
    let sources = files.iter().filter_map(|it| Some((it.path.as_str(), it.text.as_deref()?)));
    match messages::render(sources) {
        Ok(list) if text(MESSAGES) == Some(&list) => {}
        Ok(_) => {
            let message = "is not what the errors of the crates say: run `cargo xtask bindings`";
            findings.push(Finding::error(MESSAGES, 1, message));
        }
        Err(error) => findings.push(Finding::error(MESSAGES, 1, format!("no list: {error:#}"))),
    }
    for (path, quote) in [(BUILD, '"'), (HANDLER, ':'), (CAPABILITY, '"')] {
        let list = text(path).unwrap_or("");
        for command in &commands {
            let entry = match quote {
                ':' => format!("commands::{},", command.name),
                _ if path == CAPABILITY => format!("\"allow-{}\"", command.name.replace('_', "-")),
                _ => format!("\"{}\"", command.name),
            };
            if !list.contains(&entry) {
                findings.push(Finding::error(path, 1, format!("{entry} is missing")));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const DTO_TEXT: &str =
        "#[serde(rename_all = \"camelCase\")]\npub(crate) struct A { pub(crate) b: u8 }\n";
    const COMMAND_TEXT: &str =
        "#[tauri::command]\npub(crate) async fn get_a() -> Reply<A> { a() }\n";

    fn repository(bindings: &str, list: &str) -> Vec<File> {
        let error = ("crates/models/src/error.rs", "#[error(\"no name\")]");
        let messages = messages::render([error].into_iter()).expect("renders");
        vec![
            File::of(error.0, error.1),
            File::of(MESSAGES, &messages),
            File::of(DTO, DTO_TEXT),
            File::of("src-tauri/src/commands/a.rs", COMMAND_TEXT),
            File::of(BINDINGS, bindings),
            File::of(BUILD, &format!("[\"{list}\"]")),
            File::of(HANDLER, &format!("[commands::{list},]")),
            File::of(CAPABILITY, &format!("[\"allow-{}\"]", list.replace('_', "-"))),
        ]
    }

    #[test]
    fn old_bindings_and_missing_permissions_are_found() {
        let sources = [("a.rs".to_owned(), COMMAND_TEXT.to_owned())];
        let commands = bindings::commands_of(&sources).expect("reads");
        let current = bindings::render(DTO_TEXT, &commands).expect("renders");
        assert_eq!(check(&repository(&current, "get_a")), []);
        let old = check(&repository(&current.replace('b', "c"), "get_a"));
        assert!(old.len() == 1 && old[0].message.contains("cargo xtask bindings"), "{old:?}");
        let missing: Vec<_> =
            check(&repository(&current, "get_b")).into_iter().map(|it| it.path).collect();
        assert_eq!(missing, [BUILD, HANDLER, CAPABILITY]);
    }

    #[test]
    fn an_error_that_other_languages_do_not_know_is_found() {
        let sources = [("a.rs".to_owned(), COMMAND_TEXT.to_owned())];
        let commands = bindings::commands_of(&sources).expect("reads");
        let current = bindings::render(DTO_TEXT, &commands).expect("renders");
        let mut files = repository(&current, "get_a");
        files.push(File::of("crates/llm/src/error.rs", "#[error(\"a new one\")]"));
        let found: Vec<_> = check(&files).into_iter().map(|it| it.path).collect();
        assert_eq!(found, [MESSAGES]);
    }

    #[test]
    fn a_repository_without_the_app_has_no_contract() {
        assert_eq!(check(&[]), []);
    }
}
