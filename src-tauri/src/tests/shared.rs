//! Libraries that live elsewhere, where nobody answers.

use riddle_rag::shared::PushOptions;

use super::*;

#[test]
fn a_shared_library_is_known_asked_and_forgotten() {
    let desk = Desk::with(&[("a.md", "The winter mooring starts in November.\n")]);
    assert_eq!(desk.call("shared_libraries", json!({})).expect("a list"), json!([]));
    let add = |name: &str, address: &str, key: &str| {
        desk.call("shared_add", json!({ "name": name, "address": address, "key": key }))
    };
    let refused = add("team", "http://box/team", "").expect_err("no address");
    assert_eq!(refused["advice"]["kind"], "giveLibraryAddress", "{refused}");
    let known = add(" team ", "milvus://127.0.0.1:1/team", "").expect("known");
    assert_eq!(known[0]["name"], "team");
    assert_eq!(known[0]["pushedAt"], Value::Null);
    assert_eq!(desk.call("library", json!({})).expect("a state")["shared"], json!(["team"]));

    // A key is not sent in clear; who gave one wants no library without it.
    let refused = add("far", "milvus://far.test/x", "me:hunter2").expect_err("in clear");
    assert!(!refused.to_string().contains("hunter2"), "{refused}");
    let known = desk.call("shared_libraries", json!({})).expect("a list");
    assert_eq!(known.as_array().map(Vec::len), Some(1), "{known}");

    let look = desk.call("shared_look", json!({ "name": "team" })).expect("a look");
    assert_eq!(look["problem"]["advice"]["kind"], "checkLibraryServer", "{look}");
    assert!(desk.call("shared_look", json!({ "name": "nobody" })).is_err());

    // Without vectors there is nothing that could be written.
    let (events, told) = channel();
    desk.shell.push_shared("team".to_owned(), PushOptions::default(), events).expect("begins");
    let end = until(&told, &["done", "failed"]);
    assert_eq!(end.last().expect("an end")["failure"]["advice"]["kind"], "updateIndex", "{end:?}");

    let known = desk.call("shared_remove", json!({ "name": "team" })).expect("forgotten");
    assert_eq!(known, json!([]));
    assert_eq!(desk.call("library", json!({})).expect("a state")["shared"], json!([]));
}

#[test]
fn nobody_elsewhere_is_asked_while_the_network_is_switched_off() {
    let desk = Desk::new();
    let far = json!({ "name": "far", "address": "milvuss://far.test/x", "key": "" });
    desk.call("shared_add", far).expect("known");
    let mut settings = desk.call("settings", json!({})).expect("settings")["settings"].clone();
    settings["offline"] = json!(true);
    desk.call("settings_set", json!({ "settings": settings })).expect("set");
    let look = desk.call("shared_look", json!({ "name": "far" })).expect("a look");
    let message = look["problem"]["message"].as_str().expect("a problem");
    assert!(message.contains("switched off"), "{look}");
}
