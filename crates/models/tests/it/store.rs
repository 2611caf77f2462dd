//! The store itself: imports, checks, names, crashes.

use std::{fs, path::Path};

use riddle_models::{Error, Fault, Format, Kind, ModelStore};

use crate::hub::{WEIGHTS, assert_empty, assert_sound, model, options, pull, safetensors, store};

/// A folder as it is copied from another computer.
fn folder(at: &Path, name: &str) -> std::path::PathBuf {
    let folder = at.join(name);
    for (path, bytes) in model() {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().expect("parent")).expect("folder");
        fs::write(path, bytes).expect("write");
    }
    folder
}

#[test]
fn a_folder_is_imported_without_what_can_run_programs() {
    let (dir, store) = store();
    let folder = folder(dir.path(), "my-model");
    fs::write(folder.join("README.md"), "---\ntags: [a]\nlicense: \"mit\"\n---\n# x")
        .expect("write");
    fs::write(folder.join("modeling.py"), "import os").expect("write");
    let imported = store.import(&folder, None).expect("imports");
    let left: Vec<&str> = imported.left_out.iter().map(|it| it.path.as_str()).collect();
    assert_eq!(left, ["README.md", "modeling.py", "pytorch_model.bin"]);
    assert!(imported.left_out[2].why.contains("run programs"));
    let model = imported.model;
    assert_eq!(
        (model.name.as_str(), model.kind, model.format),
        ("my-model", Kind::Embedder, Format::Safetensors)
    );
    assert_eq!(model.license.as_deref(), Some("mit"));
    assert_sound(&store, "my-model");
    // Under another name, from the store's own copy: the record comes along.
    let again = store.import(&model.dir, Some("o/copy")).expect("imports").model;
    assert_eq!((again.name.as_str(), again.license.as_deref()), ("o/copy", Some("mit")));
    assert_eq!(store.list().expect("lists").len(), 2);
    // Once more over itself: replaced.
    store.import(&folder, None).expect("imports");
    assert_sound(&store, "my-model");
}

#[test]
fn a_gguf_file_is_a_model_by_itself() {
    let (dir, store) = store();
    let at = dir.path().join("Downloads");
    fs::create_dir(&at).expect("folder");
    let file = at.join("Small 1B (Q4).gguf");
    fs::write(&file, [b"GGUF".as_slice(), &[3, 0, 0, 0], &[0; 16]].concat()).expect("write");
    fs::write(at.join("other.gguf"), "something else").expect("write");
    fs::write(at.join("README.md"), "of something else").expect("write");
    let imported = store.import(&file, None).expect("imports");
    let model = imported.model;
    let described = (model.name.as_str(), model.kind, model.format);
    assert_eq!(described, ("Small-1B-Q4", Kind::Llm, Format::Gguf));
    assert_eq!(imported.left_out, []);
    assert_eq!(fs::read_dir(&model.dir).expect("a folder").count(), 2, "the file and the record");
    let checked = store.verify("Small-1B-Q4").expect("verifies");
    assert_eq!((checked.bad, checked.files), (Vec::new(), 1));
    let named = store.import(&file, Some("small")).expect("imports").model;
    assert_eq!(named.name, "small");
    for (file, name) in
        [("a..b--c.Q4_K_M..gguf", "a.b-c.Q4_K_M"), ("小さい.gguf", "model"), ("__x.gguf", "x")]
    {
        let at = at.join(file);
        fs::copy(dir.path().join("Downloads/Small 1B (Q4).gguf"), &at).expect("copied");
        assert_eq!(store.import(&at, None).expect("imports").model.name, name);
    }

    let other = store.import(&at.join("README.md"), None).expect_err("no model");
    assert!(other.to_string().contains("name the folder"), "{other}");
    fs::copy(&file, at.join(".x.gguf")).expect("copied");
    let hidden = store.import(&at.join(".x.gguf"), None).expect_err("hidden");
    assert!(hidden.to_string().contains("rename it"), "{hidden}");
    let false_name = store.import(&at.join("other.gguf"), None).expect_err("no GGUF");
    assert!(matches!(false_name, Error::Content { .. }), "{false_name}");
}

#[test]
fn a_model_in_parts_is_imported_whole_or_not_at_all() {
    let (dir, store) = store();
    let at = dir.path().join("Downloads");
    fs::create_dir(&at).expect("folder");
    let name = |number: usize| format!("Small 1B-{number:05}-of-00003.gguf");
    let start = [b"GGUF".as_slice(), &[3, 0, 0, 0], &[0; 16]].concat();
    for number in 1..=3 {
        fs::write(at.join(name(number)), &start).expect("write");
    }
    fs::write(at.join("other.gguf"), &start).expect("write");
    for number in 1..=3 {
        let model = store.import(&at.join(name(number)), None).expect("imports").model;
        assert_eq!((model.name.as_str(), model.kind, model.bytes), ("Small-1B", Kind::Llm, 72));
        assert_eq!(store.verify("Small-1B").expect("verifies").files, 3);
    }
    fs::remove_file(at.join(name(2))).expect("removed");
    store.remove("Small-1B").expect("removed");
    for from in [at.join(name(1)), at.clone()] {
        let error = store.import(&from, None).expect_err("a part is missing");
        assert!(error.to_string().contains(&name(2)), "{error}");
        assert_empty(&store);
    }
}

#[test]
fn a_folder_with_nothing_but_pickle_is_refused() {
    let (dir, store) = store();
    let folder = folder(dir.path(), "old");
    fs::remove_file(folder.join(WEIGHTS)).expect("remove");
    for name in ["weights.pt", "w.ckpt", "w.pkl", "w.pth"] {
        fs::write(folder.join(name), b"\x80\x04").expect("write");
        let error = store.import(&folder, None).expect_err("refused");
        assert!(matches!(&error, Error::Unsafe { files, .. } if files.contains(name)), "{error}");
        assert!(error.to_string().contains("safetensors"));
    }
    assert_empty(&store);
}

#[test]
fn a_bad_folder_is_refused_and_leaves_nothing() {
    let (dir, store) = store();
    type Harm = (&'static str, fn(&Path));
    let harms: [Harm; 5] = [
        ("not what its name", |at| fs::write(at.join(WEIGHTS), b"\x80\x04pickle").expect("write")),
        ("not what its name", |at| {
            let sound = safetensors(1000, 0);
            fs::write(at.join(WEIGHTS), &sound[..sound.len() - 1]).expect("write");
        }),
        ("JSON", |at| fs::write(at.join("tokenizer.json"), b"{").expect("write")),
        ("UTF-8", |at| fs::write(at.join("vocab.txt"), b"\xff").expect("write")),
        ("no .safetensors", |at| {
            fs::remove_dir_all(at).and_then(|()| fs::create_dir(at)).expect("empty")
        }),
    ];
    for (word, harm) in harms {
        let folder = folder(dir.path(), "bad");
        harm(&folder);
        let error = store.import(&folder, None).expect_err("refused");
        assert!(error.to_string().contains(word), "{error}");
        assert_empty(&store);
        fs::remove_dir_all(&folder).expect("remove");
    }
    assert!(matches!(store.import(&dir.path().join("none"), None), Err(Error::Io { .. })));
}

#[test]
fn a_copied_model_must_be_as_it_was_recorded() {
    let (dir, store) = store();
    let first = store.import(&folder(dir.path(), "a"), None).expect("imports").model;
    let copy = folder(dir.path(), "b");
    fs::copy(first.dir.join("riddle-model.json"), copy.join("riddle-model.json")).expect("copy");
    fs::write(copy.join(WEIGHTS), safetensors(1 << 20, 1)).expect("write");
    let error = store.import(&copy, Some("b")).expect_err("refused");
    assert!(matches!(&error, Error::Checksum { file, .. } if file == WEIGHTS), "{error}");
    assert!(store.find("b").is_none());
}

#[test]
fn every_damaged_file_is_reported() {
    let (dir, store) = store();
    let model = store.import(&folder(dir.path(), "m"), None).expect("imports").model;
    let at = |path: &str| model.dir.join(path);
    let mut weights = fs::read(at(WEIGHTS)).expect("read");
    let last = weights.len() - 1;
    weights[last] ^= 1;
    fs::write(at(WEIGHTS), weights).expect("write");
    fs::write(at("tokenizer.json"), b"{}").expect("write");
    fs::remove_file(at("config.json")).expect("remove");
    fs::write(at("stray.py"), b"import os").expect("write");
    let found = store.verify("m").expect("verifies");
    let bad: Vec<(&str, &Fault)> =
        found.bad.iter().map(|it| (it.path.as_str(), &it.fault)).collect();
    assert_eq!(bad.len(), 4, "{bad:?}");
    let fault = |path: &str| bad.iter().find(|it| it.0 == path).map(|it| it.1);
    assert_eq!(fault("config.json"), Some(&Fault::Missing));
    assert!(matches!(fault("tokenizer.json"), Some(Fault::Size { found: 2, .. })));
    assert!(matches!(fault(WEIGHTS), Some(Fault::Checksum { .. })));
    assert_eq!(fault("stray.py"), Some(&Fault::Unexpected));
    assert!(matches!(found.advice, Some(riddle_types::Advice::ImportModelAgain { .. })));
}

#[cfg(unix)]
#[test]
fn links_are_followed_when_read_and_never_installed() {
    let (dir, store) = store();
    // The hub's own cache keeps links to files beside.
    let folder = folder(dir.path(), "linked");
    fs::rename(folder.join(WEIGHTS), dir.path().join("blob")).expect("rename");
    std::os::unix::fs::symlink(dir.path().join("blob"), folder.join(WEIGHTS)).expect("link");
    std::os::unix::fs::symlink(dir.path(), folder.join("loop")).expect("link");
    std::os::unix::fs::symlink("/nowhere", folder.join("dead.json")).expect("link");
    let model = store.import(&folder, None).expect("imports").model;
    assert!(fs::symlink_metadata(model.dir.join(WEIGHTS)).expect("there").is_file());
    assert_sound(&store, "linked");
    fs::remove_file(model.dir.join(WEIGHTS)).expect("remove");
    std::os::unix::fs::symlink(dir.path().join("blob"), model.dir.join(WEIGHTS)).expect("link");
    assert_eq!(store.verify("linked").expect("verifies").bad[0].fault, Fault::NotAFile);
}

#[test]
fn no_name_leaves_the_store() {
    let (dir, store) = store();
    let folder = folder(dir.path(), "fine");
    let precious = dir.path().join("precious");
    fs::create_dir(&precious).expect("folder");
    for name in ["../precious", "..", ".", "", "/", ".partial", "a/../../precious", "a\\b", "o/n/x"]
    {
        assert!(store.import(&folder, Some(name)).is_err(), "{name:?}");
        assert!(store.remove(name).is_err(), "{name:?}");
        assert!(store.verify(name).is_err(), "{name:?}");
        assert!(pull(&store, name, &options("http://127.0.0.1:1")).is_err(), "{name:?}");
    }
    let absolute = precious.to_str().expect("path");
    assert!(store.remove(absolute).is_err() && precious.is_dir());
    assert_empty(&store);
}

#[test]
fn a_hostile_record_does_not_lead_out() {
    let (dir, store) = store();
    let model = store.import(&folder(dir.path(), "m"), None).expect("imports").model;
    let record = model.dir.join("riddle-model.json");
    let sound = fs::read_to_string(&record).expect("read");
    for bad in [
        sound.replace("\"config.json\"", "\"../../config.json\""),
        sound.replace("\"version\": 1", "\"version\": 2"),
        sound[..sound.len() / 2].to_owned(),
        String::new(),
    ] {
        fs::write(&record, bad).expect("write");
        assert!(matches!(store.verify("m"), Err(Error::Manifest { .. })));
        // It is still a folder with a model, which can be used and listed.
        assert_eq!(store.list().expect("lists").len(), 1);
    }
}

#[test]
fn a_model_put_there_by_hand_is_found() {
    let (_dir, store) = store();
    folder(store.dir(), "by-hand");
    fs::create_dir(store.dir().join("empty")).expect("folder");
    fs::write(store.dir().join("file"), b"x").expect("write");
    let models = store.list().expect("lists");
    assert_eq!(models.len(), 1);
    assert_eq!((models[0].name.as_str(), models[0].pulled_at), ("by-hand", None));
    assert_eq!(store.find("by-hand"), Some(models[0].clone()));
    assert!(matches!(store.verify("by-hand"), Err(Error::Manifest { .. })));
    assert!(matches!(store.verify("absent"), Err(Error::NotInstalled { .. })));
}

#[test]
fn a_folder_copied_within_the_store_is_another_model() {
    let (dir, store) = store();
    let model = store.import(&folder(dir.path(), "m"), None).expect("imports").model;
    let copy = folder(store.dir(), "o--copy");
    fs::copy(model.dir.join("riddle-model.json"), copy.join("riddle-model.json")).expect("copy");
    let names: Vec<String> =
        store.list().expect("lists").into_iter().map(|model| model.name).collect();
    assert_eq!(names, ["m", "o/copy"]);
    assert_eq!(store.find("o/copy").map(|it| it.dir), Some(copy));
    store.remove("o/copy").expect("removes");
    assert_sound(&store, "m");
}

#[test]
fn a_crash_while_a_model_is_replaced_loses_nothing() {
    let (dir, store) = store();
    let model = store.import(&folder(dir.path(), "m"), None).expect("imports").model;
    // As the two renames leave it when the power fails between them.
    let aside = store.dir().join(".partial/m.old");
    fs::rename(&model.dir, &aside).expect("rename");
    let store = ModelStore::open(store.dir()).expect("opens");
    assert_sound(&store, "m");
    // And after the second one.
    fs::create_dir(&aside).expect("folder");
    let store = ModelStore::open(store.dir()).expect("opens");
    assert!(!aside.exists());
    assert_sound(&store, "m");
}

#[test]
fn a_file_in_the_stores_place_is_an_error() {
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path().join("models");
    fs::write(&path, b"x").expect("write");
    assert!(matches!(ModelStore::open(&path), Err(Error::Io { .. })));
}
