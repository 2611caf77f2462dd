//! What stands before an encrypted library.

use super::*;

const PASSPHRASE: &str = "a door of oak";

/// The program over a home that is there, started for this.
fn start(config: &Config, purpose: Purpose) -> (App<MockRuntime>, WebviewWindow<MockRuntime>) {
    let gate = Gate::new(config.clone(), purpose, Ask::Show);
    let shell = if gate.is_closed().expect("known") {
        None
    } else {
        Some(Shell::open(config.clone()).expect("opens"))
    };
    let app = equip(mock_builder(), gate, shell).build(crate::context()).expect("the app is built");
    let window = window(&app, "main");
    (app, window)
}

/// As a program that was ended leaves a home.
fn end(app: &App<MockRuntime>) {
    if let Some(shell) = app.try_state::<Shell>() {
        shell.close();
    }
}

/// A copy of a home, as the next process finds it: threads of this one may still have the catalog open.
fn copied(config: &Config) -> (Config, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    copy(&config.home, folder.path());
    let mut next = anew(config);
    next.home = folder.path().to_path_buf();
    (next, folder)
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("readable").flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else if entry.path().is_file() {
            std::fs::copy(entry.path(), target).expect("copied");
        }
    }
}

fn anew(config: &Config) -> Config {
    let mut next = Config::new(config.home.clone());
    next.parse_worker = config.parse_worker.clone();
    next.models = config.models.clone();
    next
}

#[test]
fn a_library_is_encrypted_locked_and_opened_again() {
    let desk = Desk::with(&[("mooring.md", "# Mooring\n\nThe winter mooring costs 412 marks.\n")]);
    let state = desk.call("encryption", json!({})).expect("known");
    assert_eq!(state, json!({ "encrypted": false, "byPassphrase": false }));
    assert_eq!(desk.call("gate", json!({})).expect("known"), json!({ "kind": "open" }));
    // There is no desktop here that could have a tray.
    let mut settings = desk.call("settings", json!({})).expect("settings")["settings"].clone();
    settings["tray"] = json!(false);
    settings["shortcut"] = Value::Null;
    desk.call("settings_set", json!({ "settings": settings })).expect("kept");
    let config = anew(&desk.shell.config);
    let folders = desk.leave();
    let (config, _first) = copied(&config);

    // Started for it, the program asks for the passphrase, and nothing else answers.
    let (app, window) = start(&config, Purpose::Encrypt);
    assert_eq!(call(&window, "gate", json!({})).expect("known"), json!({ "kind": "encrypt" }));
    assert!(call(&window, "library", json!({})).is_err());
    let encrypt = json!({ "passphrase": "", "remember": false });
    assert!(call(&window, "gate_encrypt", encrypt).is_err(), "an empty one protects nothing");
    let encrypt = json!({ "passphrase": PASSPHRASE, "remember": false });
    call(&window, "gate_encrypt", encrypt).expect("encrypted");
    assert_eq!(call(&window, "gate", json!({})).expect("known"), json!({ "kind": "open" }));
    let state = call(&window, "encryption", json!({})).expect("known");
    assert_eq!(state, json!({ "encrypted": true, "byPassphrase": true }));
    let library = call(&window, "library", json!({})).expect("open");
    assert_eq!(library["passages"], 1, "{library:#}");
    call(&window, "encryption_change", json!({ "passphrase": "another" })).expect("changed");
    end(&app);
    drop((window, app));

    // The next start finds it locked.
    let (app, window) = start(&anew(&config), Purpose::Open);
    let locked = json!({ "kind": "locked", "byPassphrase": true });
    assert_eq!(call(&window, "gate", json!({})).expect("known"), locked);
    call(&window, "ready", json!({})).expect("there is a page to show");
    assert!(call(&window, "library", json!({})).is_err());
    let unlock = |passphrase: &str| json!({ "passphrase": passphrase, "remember": false });
    let refused = call(&window, "gate_unlock", unlock(PASSPHRASE)).expect_err("it was changed");
    assert!(
        refused["message"].as_str().is_some_and(|it| it.contains("not the passphrase")),
        "{refused}"
    );
    call(&window, "gate_unlock", unlock("another")).expect("opens");
    assert_eq!(call(&window, "library", json!({})).expect("open")["passages"], 1);
    end(&app);
    drop((window, app));

    // And it can be taken back, or left as it is.
    let (config, _second) = copied(&config);
    let (app, window) = start(&anew(&config), Purpose::Decrypt);
    let decrypt = json!({ "kind": "decrypt", "byPassphrase": true });
    assert_eq!(call(&window, "gate", json!({})).expect("known"), decrypt);
    call(&window, "gate_leave", json!({})).expect("left");
    assert_eq!(
        call(&window, "gate", json!({})).expect("known"),
        locked,
        "it still has to be unlocked"
    );
    drop((window, app));
    let (app, window) = start(&anew(&config), Purpose::Decrypt);
    call(&window, "gate_decrypt", json!({ "passphrase": "another" })).expect("decrypted");
    let state = call(&window, "encryption", json!({})).expect("known");
    assert_eq!(state, json!({ "encrypted": false, "byPassphrase": false }));
    assert_eq!(call(&window, "library", json!({})).expect("open")["passages"], 1);
    end(&app);
    drop((window, app, folders));
}
