//! Keys of endpoints: kept by the system, never by us, and shown to nobody.

use std::{
    io::Write as _,
    process::{Command, Stdio},
};

use riddle_tests::{Riddle, Running, program, skipped};

use crate::remote::{Endpoint, QUESTION, asking, indexed};

const KEY: &str = "sk-test-0123456789";

#[test]
fn without_a_secret_store_it_says_what_works_instead() {
    let riddle = indexed();
    let endpoint = Endpoint::answering(&[&["Blue [1]."]]);
    let set = ["llm", "key", "set", "--llm-url", &endpoint.url];
    let mut command = riddle.command(&set);
    command.stdin(Stdio::piped());
    let mut run = Running::start(command);
    run.feed(|stdin| stdin.write_all(KEY.as_bytes()));
    let line = run.wait().failed(1);
    assert!(line.contains("RIDDLE_LLM_KEY") && !line.contains(KEY), "{line}");
    let status = riddle.json(&["llm", "key", "status", "--llm-url", &endpoint.url]);
    assert_eq!(
        (&status["kept"], &status["environment"]),
        (&serde_json::Value::Null, &false.into())
    );
    let line = riddle.run(&["llm", "key", "status"]).failed(2);
    assert!(line.contains("--llm-url"), "{line}");

    // Answers need none, and one from the environment is sent.
    riddle.run(&asking(QUESTION, &endpoint.url)).ok();
    let mut command = riddle.command(&asking(QUESTION, &endpoint.url));
    command.env("RIDDLE_LLM_KEY", KEY);
    Running::start(command).wait().ok();
    let heads = endpoint.heads();
    assert!(!heads[0].to_lowercase().contains("authorization"), "{}", heads[0]);
    assert!(heads[1].to_lowercase().contains(&format!("authorization: bearer {KEY}")));
}

/// GNOME's keyring on a session bus of its own, with a folder of its own.
pub(crate) fn in_a_session(riddle: &Riddle, script: &str) -> Option<String> {
    let there = |name: &str| {
        Command::new("sh")
            .args(["-c", &format!("command -v {name}")])
            .output()
            .is_ok_and(|it| it.status.success())
    };
    if !there("dbus-run-session") || !there("gnome-keyring-daemon") {
        skipped(
            "no key is kept in a real keyring: dbus-run-session or gnome-keyring-daemon is not installed",
        );
        return None;
    }
    let home = tempfile::TempDir::new().expect("a temporary folder");
    let mut command = Command::new("dbus-run-session");
    riddle.environment(&mut command);
    let unlock =
        "printf password | gnome-keyring-daemon --unlock --components=secrets >/dev/null 2>&1";
    command
        .args(["--", "sh", "-c", &format!("{unlock}\nriddle='{}'\n{script}", program().display())])
        .env_remove("DBUS_SESSION_BUS_ADDRESS")
        .env("HOME", home.path())
        .env("XDG_RUNTIME_DIR", home.path())
        .env("XDG_DATA_HOME", home.path().join("data"))
        .env("XDG_CONFIG_HOME", home.path().join("config"))
        .env("KEY", KEY);
    let outcome = Running::start(command).wait();
    let said = format!("{}{}", outcome.stdout, outcome.stderr);
    assert!(!said.contains(KEY), "the key is shown: {said}");
    Some(outcome.ok())
}

#[test]
fn the_systems_keyring_keeps_the_key_of_one_endpoint() {
    let riddle = indexed();
    let endpoint = Endpoint::answering(&[&["Blue [1]."]]);
    let other = Endpoint::answering(&[&["Blue [1]."]]);
    let ask = |url: &str| {
        let args: Vec<String> = asking(QUESTION, url).iter().map(|it| format!("'{it}'")).collect();
        args.join(" ")
    };
    let script = format!(
        "set -e\nexport RIDDLE_LLM_URL={url}\n\
         $riddle llm key status\n\
         printf old-key | $riddle llm key set\n\
         printf '%s\\n' \"$KEY\" | $riddle llm key set\n\
         $riddle llm key status --json\n\
         $riddle {asked} >/dev/null\n\
         $riddle {elsewhere} >/dev/null\n\
         $riddle llm key forget\n\
         $riddle llm key forget\n\
         $riddle {asked} >/dev/null\n\
         grep -rqs \"$KEY\" \"$RIDDLE_HOME\" && echo FOUND IN THE HOME\ntrue",
        url = endpoint.url,
        asked = ask(&endpoint.url),
        elsewhere = ask(&other.url),
    );
    let Some(said) = in_a_session(&riddle, &script) else { return };
    for words in [
        "no key is kept for",
        "is kept in the system's",
        "\"kept\": true",
        "is forgotten",
        "no key was kept",
    ] {
        assert!(said.contains(words), "{words:?} is not in\n{said}");
    }
    assert!(!said.contains("FOUND"), "{said}");
    let bearer = format!("authorization: bearer {KEY}");
    let has_key: Vec<bool> =
        endpoint.heads().iter().map(|it| it.to_lowercase().contains(&bearer)).collect();
    assert_eq!(has_key, [true, false], "while it is kept, and no longer");
    assert!(
        !other.heads()[0].to_lowercase().contains("authorization"),
        "another port is another endpoint"
    );
}

#[test]
fn the_systems_keyring_keeps_what_opens_a_library() {
    let riddle = Riddle::new();
    let script = "set -e\n\
         $riddle library add team milvus://127.0.0.1:1/team\n\
         $riddle library add far milvus://far.test/team\n\
         $riddle library key status team\n\
         printf '%s\\n' \"$KEY\" | $riddle library key set team\n\
         $riddle library key status team --json\n\
         printf '%s\\n' \"$KEY\" | $riddle library key set far 2>&1 || echo REFUSED\n\
         $riddle library list\n\
         $riddle library key forget team\n\
         $riddle library key forget team\n\
         grep -rqs \"$KEY\" \"$RIDDLE_HOME\" && echo FOUND IN THE HOME\ntrue";
    let Some(said) = in_a_session(&riddle, script) else { return };
    for words in [
        "no key is kept for milvus://127.0.0.1:1",
        "is kept in the system's",
        "\"kept\": true",
        "not encrypted",
        "REFUSED",
        "is forgotten",
        "no key was kept",
    ] {
        assert!(said.contains(words), "{words:?} is not in\n{said}");
    }
    assert!(!said.contains("FOUND"), "{said}");
}
