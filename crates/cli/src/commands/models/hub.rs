//! `riddle models source` and `riddle models token`: which hub models come from, and what it is asked with.

use riddle_rag::{
    install::{ModelSource, choose_source, forget_token, keep_token, model_source, token_state},
    models::Dialect,
    status::KeyState,
};
use serde_json::json;

use crate::{
    args::TokenCommand, commands::llm::read_secret, context::Context, failure::Failure, show, words,
};

/// The word for no other hub than the usual one.
const USUAL: &str = "default";

/// Says where models come from, or has them come from elsewhere from now on.
pub(super) fn source(address: Option<&str>, context: &Context) -> Result<(), Failure> {
    let found = match address {
        None => model_source(&context.config)?,
        Some(word) if word.eq_ignore_ascii_case(USUAL) => choose_source(&context.config, None)?,
        Some(address) => choose_source(&context.config, Some(address))?,
    };
    if context.json {
        return context.out.json(&json!({
            "source": found.address, "default": found.is_usual, "environment": found.of_environment,
            "modelscope": found.dialect == Dialect::ModelScope,
        }));
    }
    context.out.line(show::clean(&told(&found)))
}

fn told(it: &ModelSource) -> String {
    let how = match it.dialect {
        Dialect::HuggingFace => "",
        Dialect::ModelScope => ", which is asked as ModelScope is",
    };
    let note = match (it.of_environment, it.is_usual) {
        (true, _) => ": HF_ENDPOINT is set and goes before what is chosen here",
        (false, true) => " by default",
        (false, false) => "",
    };
    format!("models come from {}{how}{note}", it.address)
}

/// Keeps or forgets the token, or says whether there is one; the token itself is never shown.
pub(super) fn token(command: TokenCommand, context: &Context) -> Result<(), Failure> {
    let found = model_source(&context.config)?;
    let origin = &found.origin;
    let said = match command {
        TokenCommand::Set => {
            keep_token(&context.config, &read_secret("Access token", origin)?)?;
            format!("the token for {origin} is kept in the system's secret store")
        }
        TokenCommand::Forget if forget_token(&context.config)? => {
            format!("the token for {origin} is forgotten")
        }
        TokenCommand::Forget => format!("no token was kept for {origin}"),
        TokenCommand::Status => status(&found, &token_state(&context.config)?),
    };
    if !context.json {
        return context.out.line(show::clean(&said));
    }
    let (kept, problem) = match token_state(&context.config)? {
        KeyState::Kept => (json!(true), None),
        KeyState::None => (json!(false), None),
        KeyState::Unknown(why) => (json!(null), Some(words::trouble(&why))),
    };
    context.out.json(&json!({
        "origin": origin, "kept": kept, "environment": found.token_of_environment,
        "problem": problem,
    }))
}

fn status(source: &ModelSource, state: &KeyState) -> String {
    let origin = &source.origin;
    let kept = match state {
        KeyState::Kept => format!("a token for {origin} is kept in the system's secret store"),
        KeyState::None => format!("no token is kept for {origin}: `riddle models token` keeps one"),
        KeyState::Unknown(why) => words::trouble(why),
    };
    if source.token_of_environment {
        return format!(
            "the environment gives one, which goes before a token that is kept; {kept}"
        );
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source() -> ModelSource {
        ModelSource {
            address: "https://huggingface.co".to_owned(),
            origin: "https://huggingface.co:443".to_owned(),
            dialect: Dialect::HuggingFace,
            is_usual: true,
            of_environment: false,
            token_of_environment: false,
        }
    }

    #[test]
    fn where_models_come_from_is_said_in_a_sentence() {
        assert_eq!(told(&source()), "models come from https://huggingface.co by default");
        let environment = ModelSource { of_environment: true, ..source() };
        assert!(told(&environment).contains("HF_ENDPOINT is set"));
        let other = ModelSource { dialect: Dialect::ModelScope, is_usual: false, ..source() };
        assert!(told(&other).ends_with("asked as ModelScope is"));
    }

    #[test]
    fn what_is_known_of_a_token_is_said_in_a_sentence() {
        assert!(status(&source(), &KeyState::Kept).contains("is kept in the system's"));
        assert!(status(&source(), &KeyState::None).contains("riddle models token"));
        assert!(status(&source(), &KeyState::Unknown("no bus".into())).contains("no bus"));
        let environment = ModelSource { token_of_environment: true, ..source() };
        assert!(status(&environment, &KeyState::Kept).starts_with("the environment gives one"));
    }
}
