//! A language model in this process writes the answers.

use std::sync::mpsc;

use riddle_weights::gguf::{RandomModel, write_random};
use serde_json::{Value, json};
use tauri::ipc::{Channel, InvokeResponseBody};

use super::{Desk, names, until};
use crate::dto::{Question, SearchFilter};

/// Installs a language model of random weights under the name `tiny`, and lets it answer.
fn with_tiny_model(desk: &Desk) {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().join("tiny");
    std::fs::create_dir(&folder).expect("made");
    let format = "q8_0".parse().expect("a format");
    write_random(RandomModel::TinyQwen3, format, &folder.join("tiny.gguf")).expect("written");
    assert_eq!(desk.call("model_import", json!({ "path": folder })).expect("imported"), "tiny");
    let mut settings = desk.call("settings", json!({})).expect("settings")["settings"].clone();
    settings["llm"] = json!("local:tiny");
    desk.call("settings_set", json!({ "settings": settings })).expect("kept");
}

#[test]
fn a_model_in_this_process_answers_and_says_what_it_took() {
    let desk = Desk::with(&[("boat.md", "# Marlin\n\nThe hull of the Marlin is painted blue.\n")]);
    with_tiny_model(&desk);
    let models = desk.call("models", json!({})).expect("models");
    let tiny =
        models["installed"].as_array().expect("a list").iter().find(|it| it["name"] == "tiny");
    let tiny = tiny.expect("installed");
    assert_eq!((&tiny["kind"], &tiny["writes"]), (&json!("llm"), &json!(true)));
    assert_eq!(tiny["active"], true);
    assert!(desk.call("model_remove", json!({ "name": "tiny" })).is_err(), "it is in use");

    let events = desk.ask(1, "How is the hull of the Marlin painted?", None);
    let answer = &events.last().expect("an end")["answer"];
    assert_eq!(answer["llm"], "local:tiny", "{events:?}");
    let generation = &answer["generation"];
    assert_eq!(generation["model"], "tiny");
    assert!(generation["tokens"].as_u64() > Some(0), "{generation}");
    assert_eq!(generation["streamedBytesPerToken"], 0, "it fits");
    let trace = desk.call("pipeline", json!({})).expect("a trace");
    assert_eq!(&trace["generation"], generation);

    // A search has written nothing.
    desk.hits(2, "hull");
    assert_eq!(desk.call("pipeline", json!({})).expect("a trace")["generation"], Value::Null);
    // A budget that can not be kept is refused with one that can.
    let mut settings = desk.call("settings", json!({})).expect("settings")["settings"].clone();
    settings["local"]["memoryBudget"] = json!(1 << 20);
    assert!(desk.call("settings_set", json!({ "settings": settings })).is_err());
    settings["local"] = json!({ "memoryBudget": 1_u64 << 32, "contextTokens": 2048 });
    desk.call("settings_set", json!({ "settings": settings })).expect("kept");
    let events = desk.ask(3, "How is the hull of the Marlin painted?", None);
    let generation = &events.last().expect("an end")["answer"]["generation"];
    assert!(generation["contextTokens"].as_u64() <= Some(2048), "{events:?}");
}

#[test]
fn a_model_in_this_process_stops_when_it_is_told_to() {
    let desk = Desk::with(&[("boat.md", "# Marlin\n\nThe hull of the Marlin is painted blue.\n")]);
    with_tiny_model(&desk);
    // As a person does who has seen enough: at the passages, before a word is written.
    let (sender, events) = mpsc::channel();
    let shell = desk.shell.clone();
    let channel = Channel::new(move |body| {
        if let InvokeResponseBody::Json(text) = body {
            let event: Value = serde_json::from_str(&text).expect("JSON");
            if event["event"] == "evidence" {
                shell.stop_answer(9);
            }
            let _ = sender.send(event);
        }
        Ok(())
    });
    let text = "How is the hull of the Marlin painted?".to_owned();
    let filter = SearchFilter::default();
    let question = Question { id: 9, text, thread: None, filter, fresh: false };
    desk.shell.ask(question, channel);
    let events = until(&events, &["done", "failed"]);
    let answer = &events.last().expect("an end")["answer"];
    assert_eq!(answer["stopped"], true, "{events:?}");
    assert_eq!(names(&events), ["evidence", "done"]);
}
