//! What desktops ask: passages for the search of GNOME and KDE, and what the package puts where they look.

use std::{fs, process::Command};

use riddle_tests::{Running, skipped, write};
use serde_json::Value;

use super::Served;

/// A desktop's session with this script in it; what it said.
fn in_a_session(served: &Served, script: &str) -> Option<String> {
    for program in ["dbus-run-session", "gdbus"] {
        if Command::new(program).arg("--version").output().is_err() {
            skipped(&format!("{program} is not installed: nobody asks for the desktop"));
            return None;
        }
    }
    let data = served.files.path().join("session");
    // The file of the package, with the program that is tested.
    let text = fs::read_to_string(
        riddle_tests::workspace().join("src-tauri/search/app.riddle.Search.service"),
    );
    let program = riddle_tests::program();
    let text =
        text.expect("a file of the package").replace("/usr/bin/riddle", &program.to_string_lossy());
    write(&data, "dbus-1/services/app.riddle.Search.service", &text);
    write(&data, "bin/xdg-open", "#!/bin/sh\nprintf '%s\\n' \"$1\" >> \"$OPENED\"\n");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let all = fs::Permissions::from_mode(0o755);
        fs::set_permissions(data.join("bin/xdg-open"), all).expect("a program");
    }
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("dbus-run-session");
    served.riddle.environment(&mut command);
    command
        .args(["--", "sh", "-euc", script])
        .env("XDG_DATA_HOME", &data)
        .env("PATH", format!("{}:{path}", data.join("bin").display()))
        .env("OPENED", data.join("opened"));
    Some(Running::start(command).wait().ok())
}

#[test]
fn the_search_of_the_desktop_finds_files_and_opens_them() {
    let served = Served::start(&[]);
    let script = r#"
call() { gdbus call --session --dest app.riddle.Search --object-path /app/riddle/Search --method "$@"; }
call org.gnome.Shell.SearchProvider2.GetInitialResultSet "['winter', 'mooring']"
id=$(call org.gnome.Shell.SearchProvider2.GetSubsearchResultSet "['1']" "['winter', 'mooring']" | sed "s/[^']*'\([0-9]*\)'.*/\1/")
call org.gnome.Shell.SearchProvider2.GetResultMetas "['$id', '999999', 'x']"
call org.gnome.Shell.SearchProvider2.ActivateResult "$id" "['winter']" 0
call org.kde.krunner1.Actions
call org.kde.krunner1.Match "'rye loaf'"
call org.kde.krunner1.Match "'ry'"
call org.kde.krunner1.Run "/etc/passwd" ""
call org.kde.krunner1.Run "999999" ""
call org.freedesktop.DBus.Introspectable.Introspect | grep -c krunner1
if call org.kde.krunner1.Erase; then exit 9; fi
"#;
    let Some(said) = in_a_session(&served, script) else { return };
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("(['"), "{said}");
    assert!(lines[1].contains("The winter mooring costs 640 euros"), "{said}");
    assert!(lines[1].contains("'name': <'") && !lines[1].contains("999999"), "{said}");
    assert_eq!(lines[2], "()");
    assert_eq!(lines[3], "(@a(sss) [],)");
    assert!(
        lines[4].contains("The rye loaf rests") && lines[4].contains("'riddle-desktop', 30, 0.9"),
        "{said}"
    );
    assert!(lines[5].starts_with("(@a(sssida{sv}) [],"), "too few letters: {said}");
    assert_eq!(lines[8], "1", "{said}");
    let opened = served.files.path().join("session/opened");
    let mut text = String::new();
    for _ in 0..200 {
        text = fs::read_to_string(&opened).unwrap_or_default();
        if text.ends_with('\n') {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    // What was chosen, and nothing else.
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.trim_end().ends_with("notes/boat.md"), "{text}");
}

#[test]
fn the_search_of_the_desktop_ends_when_nobody_asks() {
    let served = Served::with(&[], &[]);
    let script = format!(
        "timeout 60 {} desktop-search --patience 1; echo ended $?",
        riddle_tests::program().display()
    );
    let Some(said) = in_a_session(&served, &script) else { return };
    assert!(said.ends_with("ended 0\n"), "{said}");
}

#[test]
fn the_package_has_what_the_desktops_look_for() {
    let root = riddle_tests::workspace().join("src-tauri");
    let read = |path: &str| fs::read_to_string(root.join(path)).expect("a file of the package");
    let config: Value = serde_json::from_str(&read("tauri.conf.json")).expect("json");
    for kind in ["deb", "rpm"] {
        let package = &config["bundle"]["linux"][kind];
        let files = package["files"].as_object().expect("files");
        for place in [
            "/usr/share/dbus-1/services/app.riddle.Search.service",
            "/usr/share/gnome-shell/search-providers/app.riddle.Search.ini",
            "/usr/share/krunner/dbusplugins/app.riddle.Search.desktop",
        ] {
            let text = read(files[place].as_str().expect("a path"));
            assert!(text.contains("=app.riddle.Search\n"), "{place}: {text}");
        }
        let template = read(package["desktopTemplate"].as_str().expect("a path"));
        assert!(template.contains("MimeType=x-scheme-handler/riddle;\n"), "{template}");
        assert!(template.contains("Exec={{exec}} %u\n"), "{template}");
    }
    // The entry of the app is called as the package calls it.
    let name = config["productName"].as_str().expect("a name");
    assert!(read("search/app.riddle.Search.ini").contains(&format!("DesktopId={name}.desktop\n")));
}
