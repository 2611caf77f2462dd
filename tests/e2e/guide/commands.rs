//! What commands there are: asked of the program itself, page of help by page.

use std::collections::{BTreeMap, BTreeSet};

use riddle_tests::Riddle;

/// Commands as words after `riddle`, each with the page of help that tells its flags.
pub(super) struct Commands {
    pages: BTreeMap<Vec<String>, String>,
}

impl Commands {
    /// All there are, also those of commands.
    pub(super) fn of(riddle: &Riddle) -> Commands {
        let mut pages = BTreeMap::new();
        let mut open = vec![Vec::new()];
        while let Some(words) = open.pop() {
            let mut args: Vec<&str> = words.iter().map(String::as_str).collect();
            args.push("--help");
            let page = riddle.run(&args).ok();
            for name in listed(&page) {
                open.push([&words[..], &[name]].concat());
            }
            pages.insert(words, page);
        }
        assert!(pages.len() > 20, "the help lists its commands: {:?}", pages.keys());
        Commands { pages }
    }

    /// What is wrong with a command line that begins with `riddle`, as a text names it: FOLDER and `{name}` stand
    /// for something, and `…` for more.
    pub(super) fn problem(&self, line: &str) -> Option<String> {
        let mut words = line.split_whitespace().skip(1).peekable();
        let mut command: Vec<String> = Vec::new();
        while let Some(word) = words.peek() {
            let page = &self.pages[&command];
            let subcommands = listed(page);
            if subcommands.is_empty() || !is_name(word) {
                break;
            }
            if !subcommands.contains(*word) {
                // `riddle eval DATASET`, beside `riddle eval claims`.
                if page.lines().any(|it| it == "Arguments:") {
                    break;
                }
                return Some(format!("`{line}`: `{}` has no command `{word}`", title(&command)));
            }
            command.push((*word).to_owned());
            words.next();
        }
        if command.is_empty() && words.peek().is_some_and(|it| !it.starts_with(['-', '…'])) {
            return Some(format!("`{line}` names no command"));
        }
        let page = &self.pages[&command];
        words
            .filter_map(flag)
            .find(|flag| !has_flag(page, flag))
            .map(|flag| format!("`{line}`: `{}` has no flag `{flag}`", title(&command)))
    }

    /// Whether any command has this flag.
    pub(super) fn knows(&self, flag: &str) -> bool {
        self.pages.values().any(|page| has_flag(page, flag))
    }
}

fn title(command: &[String]) -> String {
    ["riddle"].into_iter().chain(command.iter().map(String::as_str)).collect::<Vec<_>>().join(" ")
}

/// Names in the part of a page that lists commands.
fn listed(page: &str) -> BTreeSet<String> {
    let part = page.lines().skip_while(|it| *it != "Commands:").skip(1);
    part.take_while(|it| !it.is_empty())
        .filter(|it| it.starts_with("  ") && !it.starts_with("   "))
        .filter_map(|it| it.split_whitespace().next().map(str::to_owned))
        .filter(|it| it != "help")
        .collect()
}

/// `--flag` of a word, without its value.
fn flag(word: &str) -> Option<&str> {
    let word = word.split('=').next().unwrap_or(word).trim_end_matches([',', '.', ';', ':', ']']);
    let word = word.trim_start_matches('[');
    let name = word.strip_prefix("--")?;
    (!name.is_empty() && is_name(name)).then_some(word)
}

fn has_flag(page: &str, flag: &str) -> bool {
    let end = |it: Option<char>| !it.is_some_and(|it| it.is_ascii_alphanumeric() || it == '-');
    page.match_indices(flag).any(|(at, _)| end(page[at + flag.len()..].chars().next()))
}

/// Whether a word could be a command's name.
fn is_name(word: &str) -> bool {
    !word.is_empty()
        && word.chars().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '-')
        && word.starts_with(|it: char| it.is_ascii_lowercase())
}

#[test]
fn what_is_not_there_is_found() {
    let commands = Commands::of(&Riddle::new());
    for line in [
        "riddle index FOLDER",
        "riddle models calibrate MODEL --requests FILE",
        "riddle models pull NAME --again",
        "riddle rerank --lines",
        "riddle llm key set",
        "riddle eval dataset --files files",
        "riddle eval claims squad --fit",
        "riddle …",
    ] {
        assert_eq!(commands.problem(line), None);
    }
    for line in [
        "riddle calibrate",
        "riddle models fetch x",
        "riddle index --retry",
        "riddle rerank --line",
        "riddle MODEL",
    ] {
        assert!(commands.problem(line).is_some(), "{line}");
    }
    assert!(commands.knows("--memory-budget") && !commands.knows("--memory"));
}
