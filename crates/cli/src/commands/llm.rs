//! `riddle llm`: what belongs to the endpoint that writes answers.

use std::io::{IsTerminal as _, Read as _};

use riddle_rag::{Records, status::KeyState};
use serde_json::json;

use crate::{
    args::{KeyArgs, KeyCommand, LlmArgs, LlmCommand, key_of_environment},
    context::Context,
    failure::Failure,
    show, words,
};

/// Most bytes of a key that is read from a pipe.
const LONGEST_KEY: u64 = 64 << 10;

/// Does what was asked with the key; the key itself is never shown.
pub(crate) fn run(args: &LlmArgs, context: &Context) -> Result<(), Failure> {
    let LlmCommand::Key(args) = &args.command;
    key(args, context)
}

fn key(args: &KeyArgs, context: &Context) -> Result<(), Failure> {
    let url =
        args.llm_url.as_deref().map(str::trim).filter(|it| !it.is_empty()).ok_or_else(|| {
            Failure::usage(
                "whose key? give the endpoint's address with --llm-url or in RIDDLE_LLM_URL",
            )
        })?;
    let records = Records::open(context.config.clone())?;
    let origin = records.endpoint(url)?.origin;
    let said = match args.command {
        KeyCommand::Set => {
            records.keep_key(url, &read_key(&origin)?)?;
            format!("the key for {origin} is kept in the system's secret store")
        }
        KeyCommand::Forget if records.forget_key(url)? => {
            format!("the key for {origin} is forgotten")
        }
        KeyCommand::Forget => format!("no key was kept for {origin}"),
        KeyCommand::Status => status(&origin, &records.key_state(url)?),
    };
    if !context.json {
        return context.out.text(format!("{}\n", show::clean(&said)));
    }
    let (kept, problem) = match records.key_state(url)? {
        KeyState::Kept => (json!(true), None),
        KeyState::None => (json!(false), None),
        KeyState::Unknown(why) => (json!(null), Some(words::trouble(&why))),
    };
    let environment = key_of_environment().is_some();
    context.out.json(
        &json!({ "origin": origin, "kept": kept, "environment": environment, "problem": problem }),
    )
}

fn status(origin: &str, state: &KeyState) -> String {
    let kept = match state {
        KeyState::Kept => format!("a key for {origin} is kept in the system's secret store"),
        KeyState::None => format!("no key is kept for {origin}: `riddle llm key set` keeps one"),
        KeyState::Unknown(why) => words::trouble(why),
    };
    if key_of_environment().is_some() {
        return format!("RIDDLE_LLM_KEY is set and goes before a key that is kept; {kept}");
    }
    kept
}

/// The key of a server, from the keyboard, unseen, or from a pipe.
pub(super) fn read_key(origin: &str) -> Result<String, Failure> {
    read_secret("Key", origin)
}

/// What opens something, in the same way; `what` it is called.
pub(super) fn read_secret(what: &str, origin: &str) -> Result<String, Failure> {
    if !std::io::stdin().is_terminal() {
        let mut key = String::new();
        std::io::stdin().take(LONGEST_KEY).read_to_string(&mut key)?;
        return Ok(key);
    }
    let terminal = console::Term::stderr();
    terminal.write_str(&format!("{what} for {} (it is not shown): ", show::clean(origin)))?;
    Ok(terminal.read_secure_line()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_of_a_key_is_said_in_a_sentence() {
        let origin = "https://api.test:443";
        assert!(status(origin, &KeyState::Kept).contains("is kept in the system's"));
        assert!(status(origin, &KeyState::None).contains("riddle llm key set"));
        assert!(status(origin, &KeyState::Unknown("no bus".into())).contains("no bus"));
    }
}
