//! Answers that are already there: given again where the files bear them out, and gone with what they were written
//! from.

use std::{fs, path::Path, thread, time::Duration};

use riddle_tests::{Riddle, real_models, skipped, write};
use serde_json::Value;
use tempfile::TempDir;

const QUESTION: &str = "When does the bakery open?";

/// A home with a trained model, which says something that is in the files; random ones say nothing that is kept.
fn baker() -> Option<(Riddle, TempDir)> {
    let Some(store) = real_models().filter(|it| it.join("smollm2-135m").is_dir()) else {
        skipped(
            "no trained language model is installed: `riddle --models-dir .cache/models models pull smollm2-135m`",
        );
        return None;
    };
    let riddle = Riddle::with_models(store);
    let folder = TempDir::new().expect("a temporary folder");
    write(
        folder.path(),
        "bakery.txt",
        "The bakery opens at six in the morning and closes at two in the afternoon.\n",
    );
    write(folder.path(), "marlin.txt", "The narrow-boat Marlin was built in 1931 by Ada Thorne.\n");
    riddle.index(folder.path());
    Some((riddle, folder))
}

fn ask(riddle: &Riddle, question: &str, more: &[&str]) -> Value {
    let mut args = vec!["ask", question, "--llm", "local:smollm2-135m"];
    args.extend(more);
    riddle.json(&args)
}

fn status(riddle: &Riddle) -> Value {
    riddle.json(&["cache", "status", "--list"])
}

#[test]
fn an_answer_is_given_again_until_something_speaks_against_it() {
    let Some((riddle, folder)) = baker() else { return };
    let first = ask(&riddle, QUESTION, &[]);
    assert!(first.get("cached").is_none(), "{first:#}");
    let again = ask(&riddle, QUESTION, &[]);
    assert_eq!(again["cached"]["kind"], "same", "{again:#}");
    assert_eq!(again["cached"]["asked"], QUESTION);
    for field in ["answer", "citations", "supported", "passages", "llm"] {
        assert_eq!(again[field], first[field], "{field}");
    }
    let fresh = ask(&riddle, QUESTION, &["--fresh"]);
    assert!(fresh.get("cached").is_none());
    assert_eq!(fresh["answer"], first["answer"]);
    assert!(ask(&riddle, QUESTION, &["--reuse", "off"]).get("cached").is_none());
    // A word that turns it round makes another question of it, however near.
    let other = ask(&riddle, "When does the bakery not open?", &[]);
    assert!(other.get("cached").is_none(), "{other:#}");

    let shown = riddle.run(&["ask", QUESTION, "--llm", "local:smollm2-135m"]);
    assert_eq!(shown.code, Some(0));
    assert!(shown.stderr.contains("checked against your files just now"), "{}", shown.stderr);

    write(folder.path(), "bakery.txt", "The bakery opens at nine in the morning now.\n");
    riddle.index(folder.path());
    let kept = status(&riddle);
    assert_eq!(kept["answers"]["fresh"], 0, "{kept:#}");
    let changed = ask(&riddle, QUESTION, &[]);
    assert!(changed.get("cached").is_none(), "{changed:#}");
    assert_ne!(changed["answer"], first["answer"]);

    riddle.run(&["cache", "clear"]).ok();
    assert_eq!(status(&riddle)["questions"], Value::Array(Vec::new()));
}

#[test]
fn what_is_prepared_is_there_when_it_is_asked_and_nothing_else_is_looked_at() {
    let Some((riddle, _folder)) = baker() else { return };
    let report = riddle.json(&["cache", "warm", "--llm", "local:smollm2-135m", "--for", "60s"]);
    assert!(report["described"].as_u64() > Some(0), "{report:#}");
    let kept = status(&riddle);
    let ready = kept["questions"]
        .as_array()
        .and_then(|it| it.iter().find(|it| it["state"] == "fresh" && it["by"] == "knowledge"));
    // A small model may foresee nothing that its own passages answer.
    if let Some(question) = ready.and_then(|it| it["question"].as_str()) {
        let answer = ask(&riddle, question, &[]);
        assert_eq!(answer["cached"]["prepared"], true, "{answer:#}");
        assert_eq!(ask(&riddle, question, &["--no-cache"])["answer"], answer["answer"]);
    }
    let remote = riddle.run(&["cache", "warm", "--llm", "remote"]);
    assert_ne!(remote.code, Some(0));
}

#[test]
fn systems_are_held_beside_each_other_on_a_trace() {
    let Some((riddle, folder)) = baker() else { return };
    let trace = folder.path().join("trace.jsonl");
    let marlin = "Who built the narrow-boat Marlin?";
    let line = serde_json::json!({ "question": QUESTION, "foreseen": QUESTION, "group": "a" });
    let other = serde_json::json!({ "question": marlin });
    fs::write(&trace, format!("{line}\n{other}\n")).expect("written");
    let trace = trace.display().to_string();
    let bench = ["bench", "trace", &trace, "--llm", "local:smollm2-135m", "--idle", "0s"];
    let report = riddle.json(&bench);
    let systems = report["systems"].as_array().expect("systems");
    let hits = |name: &str| {
        let system = systems.iter().find(|it| it["system"] == name).expect(name);
        let hit = |it: &Value| it["hit"].is_string();
        system["answers"].as_array().expect("answers").iter().map(hit).collect::<Vec<bool>>()
    };
    // Only who was told beforehand has an answer, and to that question alone.
    assert_eq!(hits("oracle, checked"), [true, false]);
    assert_eq!(hits("bank, checked"), [false, false]);
    assert_eq!(status(&riddle)["questions"], Value::Array(Vec::new()), "nothing of it stays");

    // Interrupted in the first system, which has answers switched off: the home is as it was.
    let mut endless =
        riddle.start(&[&bench[..4], &["local:smollm2-135m", "--idle", "60s"]].concat());
    thread::sleep(Duration::from_millis(300));
    assert!(!endless.has_ended());
    endless.signal("INT");
    assert_eq!(endless.wait().code, Some(1));
    assert_eq!(status(&riddle)["answers"]["settings"]["grade"], "checked");

    let waits = ["bench", "preempt", &trace, "--llm", "local:smollm2-135m", "--rounds", "1"];
    let report = riddle.json(&[&waits[..], &["--after", "1s"]].concat());
    let (rounds, idle) = (report["rounds"].as_array().expect("rounds"), &report["idle"]);
    // Each question with what was read before, and without.
    assert_eq!(rounds.len() as u64 + idle.as_u64().expect("a count"), 4, "{report:#}");
    assert!(rounds.iter().all(|it| it["first_words_alone_ms"].as_f64() > Some(0.0)));
    let wrong = [&waits[..5], &["--rounds", "0"]].concat();
    assert_eq!(riddle.run(&wrong).code, Some(2));
}

#[test]
fn a_model_is_dictated_what_a_person_answered() {
    let Some((riddle, folder)) = baker() else { return };
    let trace = folder.path().join("dictated.jsonl");
    let line = serde_json::json!({
        "question": QUESTION, "foreseen": "The bakery opens at what time?",
        "answer": "The bakery opens at six in the morning.",
    });
    fs::write(&trace, format!("{line}\n")).expect("written");
    let trace = trace.display().to_string();
    let bench = ["bench", "trace", &trace, "--llm", "local:smollm2-135m", "--dictate"];
    let systems = ["--threshold", "0.5", "--system", "nothing kept", "--system", "oracle, instant"];
    let report = riddle.json(&[&bench[..], &systems].concat());
    let answers: Vec<&Value> =
        report["systems"].as_array().expect("systems").iter().map(|it| &it["answers"][0]).collect();
    assert_eq!(answers.len(), 2, "{report:#}");
    for answer in &answers {
        assert_eq!(answer["answer"], "The bakery opens at six in the morning. [1]");
    }
    fs::write(&trace, "{\"question\": \"When?\"}\n").expect("written");
    assert_eq!(riddle.run(&bench).code, Some(2), "nothing to dictate");
    // What was dictated beforehand holds, and is there.
    assert_eq!((&answers[0]["hit"], &answers[1]["hit"]), (&Value::Null, &"instant".into()));
}

/// The scheduler's cases of PerCache (section 5.5): a threshold that rises and falls, and what is left of it.
#[test]
fn a_home_is_set_otherwise_on_the_way_and_back() {
    let Some((riddle, folder)) = baker() else { return };
    let before = status(&riddle);
    let trace = folder.path().join("set.jsonl");
    let six = "The bakery opens at six in the morning.";
    let first = serde_json::json!({
        "question": "Who built the narrow-boat Marlin?", "set": { "threshold": 0.99 },
        "foreseen": { "question": "The bakery opens at what time?", "answer": six },
    });
    let set = serde_json::json!({ "threshold": 0.5, "tree_bytes": 100_000_000 });
    let then = serde_json::json!({ "question": QUESTION, "answer": six, "set": set });
    let path = trace.display().to_string();
    let bench = ["bench", "trace", &path, "--llm", "local:smollm2-135m", "--dictate"];
    let systems = ["--system", "oracle, instant", "--system", "oracle, instant, no scheduler"];
    let idle_tokens = |report: &Value| -> Vec<u64> {
        let systems = report["systems"].as_array().expect("systems").iter();
        systems.map(|it| it["idle_tokens"].as_u64().expect("a count")).collect()
    };

    // Under a high threshold the foreseen question is read for, and answered by who has no scheduler.
    let known = serde_json::json!({ "question": QUESTION, "answer": six });
    fs::write(&trace, format!("{first}\n{known}\n")).expect("written");
    let report = riddle.json(&[&bench[..], &systems].concat());
    let tokens = idle_tokens(&report);
    assert!(tokens[0] > 0 && tokens[0] < tokens[1], "{report:#}");

    // Once it falls the answer is written, and there.
    fs::write(&trace, format!("{first}\n{then}\n")).expect("written");
    let report = riddle.json(&[&bench[..], &systems].concat());
    for system in report["systems"].as_array().expect("systems") {
        assert_eq!(system["answers"][1]["hit"], "instant", "{system:#}");
        assert_eq!(system["answers"][1]["answer"], format!("{six} [1]"));
    }
    let after = status(&riddle);
    assert_eq!(after["answers"]["settings"], before["answers"]["settings"]);
    // A share of what is free on the disk, to which others write meanwhile; what was set is a seventh of it or less.
    let limit = |it: &Value| it["prefixes"]["limit_bytes"].as_f64().expect("a limit");
    let ratio = limit(&after) / limit(&before);
    assert!((0.5..2.0).contains(&ratio) && limit(&after) != 1e8, "{ratio}");

    let wrong = serde_json::json!({ "question": QUESTION, "set": { "threshold": 2 } });
    fs::write(&trace, format!("{wrong}\n")).expect("written");
    let refused = riddle.run(&bench[..5]);
    assert!(
        refused.code == Some(2) && refused.stderr.contains("no similarity"),
        "{}",
        refused.stderr
    );
}

/// Each system has a library of its own to change; what lies in the person's folder stays as it is.
#[test]
fn files_change_under_a_trace_and_no_answer_is_stale() {
    let Some((riddle, folder)) = baker() else { return };
    let before = fs::read_to_string(folder.path().join("bakery.txt")).expect("there");
    let scratch = TempDir::new().expect("a temporary folder");
    let trace = scratch.path().join("changes.jsonl");
    let line = |change: Value| serde_json::json!({ "question": QUESTION, "change": change });
    let text = "The bakery opens at nine in the morning now.\n";
    let changed = line(serde_json::json!({ "file": "bakery.txt", "text": text }));
    let gone = line(serde_json::json!({ "file": "bakery.txt" }));
    let lines = [line(Value::Null), line(Value::Null), changed, line(Value::Null), gone];
    fs::write(&trace, lines.map(|it| format!("{it}\n")).concat()).expect("written");
    let (trace, copied) = (trace.display().to_string(), folder.path().display().to_string());
    let bench = ["bench", "trace", &trace, "--llm", "local:smollm2-135m", "--idle", "0s"];
    assert_eq!(riddle.run(&bench).code, Some(2), "a person's files are not changed");
    let nowhere = riddle.run(&[&bench[..], &["--copy-of", "nowhere"]].concat());
    assert!(nowhere.code == Some(2) && nowhere.stderr.contains("no such folder"));
    let systems = ["--copy-of", &copied, "--system", "bank, checked", "--system", "bank, instant"];
    let report = riddle.json(&[&bench[..], &systems].concat());
    for system in report["systems"].as_array().expect("systems") {
        let answers = system["answers"].as_array().expect("answers");
        let hits: Vec<bool> = answers.iter().map(|it| it["hit"].is_string()).collect();
        assert_eq!((&hits[..3], hits[4]), (&[false, true, false][..], false), "{system:#}");
        assert_ne!(answers[2]["answer"], answers[1]["answer"]);
        assert!(answers[1]["stale"] == false && answers[2]["stale"].is_null(), "{system:#}");
        assert_eq!(system["stale"], 0.0, "{system:#}");
    }
    assert_eq!(fs::read_to_string(folder.path().join("bakery.txt")).expect("there"), before);
    assert_eq!(status(&riddle)["questions"], Value::Array(Vec::new()));
    let outside = line(serde_json::json!({ "file": "../marlin.txt", "text": "" }));
    fs::write(&trace, format!("{outside}\n")).expect("written");
    let refused = riddle.run(&[&bench[..], &systems].concat());
    assert!(refused.code != Some(0) && refused.stderr.contains("leads out"), "{}", refused.stderr);
}

/// Killed while the file that an answer was written from goes: what is given is what would be written now.
#[test]
fn killed_at_any_moment_no_answer_outlives_its_file() {
    let Some((riddle, folder)) = baker() else { return };
    for (round, delay) in [3, 20, 45, 80, 140, 300].into_iter().enumerate() {
        let opens = format!("The bakery opens at {} in the morning.\n", ["six", "nine"][round % 2]);
        write(folder.path(), "bakery.txt", &opens);
        riddle.index(folder.path());
        ask(&riddle, QUESTION, &[]);
        fs::remove_file(folder.path().join("bakery.txt")).expect("removed");
        kill_after(&riddle, folder.path(), Duration::from_millis(delay));
        let truth = ask(&riddle, QUESTION, &["--no-cache"]);
        let given = ask(&riddle, QUESTION, &[]);
        assert_eq!(given["answer"], truth["answer"], "after {delay} ms: {given:#}");
        riddle.index(folder.path());
        let gone = ask(&riddle, QUESTION, &[]);
        assert!(gone.get("cached").is_none(), "{gone:#}");
    }
}

fn kill_after(riddle: &Riddle, folder: &Path, delay: Duration) {
    let run = riddle.start(&["index".to_owned(), folder.display().to_string()]);
    thread::sleep(delay);
    run.signal("KILL");
    run.wait();
}
