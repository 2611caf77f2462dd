//! Other programs ask through the app.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

use serde_json::{Value, json};

use super::{Desk, PATIENCE};

/// The status and the body of what a program is answered.
fn get(url: &str, path: &str, token: &str) -> (u16, Value) {
    let place = url.strip_prefix("http://").expect("an address");
    let mut stream = TcpStream::connect(place).expect("open");
    stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: {place}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("answered");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|it| it.parse().ok()).expect("a status");
    (status, serde_json::from_str(body).unwrap_or_default())
}

#[test]
fn programs_ask_through_the_app_and_see_what_the_person_lets_them() {
    let desk = Desk::with(&[
        ("boat.md", "# Marlin\n\nThe hull of the Marlin is painted blue.\n"),
        ("house/roof.md", "The roof of the house is painted red.\n"),
    ]);
    let state = desk.call("door", json!({})).expect("a state");
    assert_eq!((&state["url"], &state["clients"]), (&Value::Null, &json!([])));
    let state = desk.call("door_switch", json!({ "open": true })).expect("opens");
    let url = state["url"].as_str().expect("an address").to_owned();
    assert_eq!(desk.call("door_switch", json!({ "open": true })).expect("is open")["url"], url);

    let everything = json!({ "tools": [], "folders": [], "withConfined": false });
    let added = desk.call("door_add", json!({ "name": "editor", "may": everything }));
    let token = added.expect("let in")["token"].as_str().expect("a token").to_owned();
    assert!(desk.call("door_add", json!({ "name": "editor", "may": everything })).is_err());
    assert!(desk.call("door_add", json!({ "name": "<b>", "may": everything })).is_err());
    let files = |asked: &str| {
        let (status, found) = get(&url, &format!("/api/search?q={asked}&rerank=false"), &token);
        assert_eq!(status, 200, "{found}");
        found["passages"].as_array().expect("passages").len()
    };
    assert_eq!(files("painted"), 2);
    let house = json!({ "tools": ["search"], "folders": [desk.files.join("house")], "withConfined": false });
    desk.call("door_set", json!({ "name": "editor", "may": house })).expect("changed");
    assert_eq!(files("painted"), 1);
    assert_eq!(get(&url, "/api/status", &token).0, 403);
    assert_eq!(get(&url, "/api/status", "nobody").0, 401);

    let state = desk.call("door", json!({})).expect("a state");
    assert_eq!(state["log"][0]["outcome"], "refused");
    let searched = state["log"].as_array().expect("a log").iter().find(|it| it["what"] == "search");
    assert_eq!(searched.expect("a line")["asked"], "painted");
    assert!(state["clients"][0]["lastAsked"].is_i64(), "{state}");

    desk.call("door_revoke", json!({ "name": "editor", "revoked": true })).expect("sent away");
    assert_eq!(get(&url, "/api/status", &token).0, 403);
    desk.call("door_remove", json!({ "name": "editor" })).expect("forgotten");
    assert_eq!(get(&url, "/api/status", &token).0, 401);
    let state = desk.call("door_log_forget", json!({})).expect("emptied");
    assert_eq!(state["log"], json!([]));
    let state = desk.call("door_switch", json!({ "open": false })).expect("closes");
    assert_eq!(state["url"], Value::Null);
    // The system may give a connection the very port that it asks for, and then it talks to itself.
    let again = TcpStream::connect(url.strip_prefix("http://").expect("an address"));
    let itself = |it: TcpStream| it.local_addr().ok() == it.peer_addr().ok();
    assert!(again.map_or(true, itself));
}

#[test]
#[cfg(target_os = "linux")]
fn a_program_has_the_rights_of_the_user_that_the_person_names() {
    use std::os::unix::fs::PermissionsExt as _;

    let desk = Desk::with(&[
        ("boat.md", "The hull of the Marlin is painted blue.\n"),
        ("roof.md", "The roof of the house is painted red.\n"),
    ]);
    // The folder lets everybody pass; one file is its owner's alone.
    for (name, mode) in [("", 0o755), ("boat.md", 0o644), ("roof.md", 0o600)] {
        let path = desk.files.join(name);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("a mode");
    }
    let state = desk.call("door_switch", json!({ "open": true })).expect("opens");
    let url = state["url"].as_str().expect("an address").to_owned();
    let may = json!({ "tools": [], "folders": [], "withConfined": false });
    let mira = json!({ "user": "mira", "groups": ["team"] });
    let asked = json!({ "name": "wiki", "may": may, "readsAs": mira });
    let added = desk.call("door_add", asked).expect("let in");
    assert_eq!(added["state"]["clients"][0]["readsAs"], mira);
    let token = added["token"].as_str().expect("a token").to_owned();
    let files = || {
        let (status, found) = get(&url, "/api/search?q=painted&rerank=false", &token);
        assert_eq!(status, 200, "{found}");
        found["passages"].as_array().expect("passages").len()
    };
    assert_eq!(files(), 1);
    let nobody = json!({ "user": "a:b", "groups": [] });
    let set = |reads_as: &Value| {
        desk.call("door_set", json!({ "name": "wiki", "may": may, "readsAs": reads_as }))
    };
    assert!(set(&nobody).is_err());
    assert_eq!(files(), 1, "what was refused has changed nothing");
    let state = set(&Value::Null).expect("mine");
    assert_eq!(state["clients"][0]["readsAs"], Value::Null);
    assert_eq!(files(), 2);
    desk.shell.close();
}

#[test]
fn questions_are_not_written_down_where_no_history_is_kept() {
    let desk = Desk::with(&[("boat.md", "The hull of the Marlin is painted blue.\n")]);
    let mut settings = desk.call("settings", json!({})).expect("settings")["settings"].clone();
    settings["keepHistory"] = json!(false);
    desk.call("settings_set", json!({ "settings": settings })).expect("kept");
    let state = desk.call("door_switch", json!({ "open": true })).expect("opens");
    let url = state["url"].as_str().expect("an address").to_owned();
    let everything = json!({ "tools": [], "folders": [], "withConfined": false });
    let added = desk.call("door_add", json!({ "name": "editor", "may": everything }));
    let token = added.expect("let in")["token"].as_str().expect("a token").to_owned();
    assert_eq!(get(&url, "/api/search?q=hull&rerank=false", &token).0, 200);
    let state = desk.call("door", json!({})).expect("a state");
    assert_eq!(state["log"][0]["what"], "search");
    assert_eq!(state["log"][0]["asked"], Value::Null);
    desk.shell.close();
}
