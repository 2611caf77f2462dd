//! Models on a computer without a network.

use std::{fs, path::PathBuf};

use riddle_tests::{Riddle, tiny_model, write};
use serde_json::Value;

fn import(riddle: &Riddle, model: &str, name: &str) -> Value {
    riddle.json(&["models", "import", &tiny_model(model).to_string_lossy(), "--name", name])
}

#[test]
fn imported_listed_verified_damaged_and_removed() {
    let riddle = Riddle::new();
    let names = || {
        let listed = riddle.json(&["models", "list"]);
        let models = listed["models"].as_array().expect("a list").clone();
        models.iter().map(|it| it["name"].as_str().expect("a name").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(), ["riddle-reranker"]);
    let imported = import(&riddle, "tiny-bert-cross-encoder", "tiny-reranker");
    assert_eq!(imported["model"]["name"], "tiny-reranker");
    assert_eq!(imported["model"]["kind"], "reranker");
    assert_eq!(names(), ["riddle-reranker", "tiny-reranker"]);
    let verified = riddle.json(&["models", "verify"]);
    assert_eq!(verified["models"][0]["ok"], true, "{verified:#}");

    let weights = riddle.home().join("models/tiny-reranker/model.safetensors");
    let mut bytes = fs::read(&weights).expect("installed");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&weights, bytes).expect("written");
    let outcome = riddle.run(&["models", "verify", "tiny-reranker"]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(1), ""), "{outcome:#?}");
    assert!(outcome.stderr.contains("model.safetensors") && outcome.stderr.contains("import"));

    riddle.json(&["models", "remove", "tiny-reranker"]);
    assert_eq!(names(), ["riddle-reranker"]);
}

#[test]
fn a_reranker_is_used_once_it_is_chosen() {
    let riddle = Riddle::new();
    let files = tempfile::TempDir::new().expect("a temporary folder");
    riddle_tests::notes(files.path(), 12);
    riddle.index(files.path());
    import(&riddle, "tiny-bert-cross-encoder", "tiny-reranker");
    let order = |riddle: &Riddle| riddle.json(&["search", "boat at the harbor"])["order"].clone();
    assert_eq!(order(&riddle)["model"], "riddle-reranker", "the one that comes with the program");
    let verified = riddle.json(&["models", "verify", "riddle-reranker"]);
    assert_eq!(verified["models"][0]["ok"], true, "{verified:#}");
    riddle.json(&["models", "use", "tiny-reranker"]);
    let shown = order(&riddle);
    assert_eq!((&shown["by"], &shown["model"]), (&"reranked".into(), &"tiny-reranker".into()));
    let hits = riddle.json(&["search", "boat at the harbor"]);
    assert!(hits["hits"][0]["trace"]["decided_at_layer"].is_number(), "{hits:#}");
    riddle.json(&["models", "use", "none"]);
    assert_ne!(order(&riddle)["by"], "reranked");
    riddle.json(&["models", "use", "riddle-reranker"]);
    assert_eq!(order(&riddle)["model"], "riddle-reranker");
}

#[test]
fn what_can_not_be_unpacked_or_read_is_said_and_the_search_goes_on() {
    let riddle = Riddle::new();
    let files = tempfile::TempDir::new().expect("a temporary folder");
    riddle_tests::notes(files.path(), 12);
    riddle.index(files.path());
    let search = |query: &str| riddle.json(&["search", query]);
    let says = |found: &Value, what: &str| {
        assert_ne!(found["order"]["by"], "reranked", "{found:#}");
        let notices = found["notices"].as_array().expect("a list");
        let said = notices.iter().any(|it| it.as_str().is_some_and(|it| it.contains(what)));
        assert!(said, "{found:#}");
    };
    assert_eq!(search("boat at the harbor")["order"]["by"], "reranked");
    // Its language is another one.
    says(&search("Wo liegt das Boot, das wir im Hafen gesehen haben?"), "another language (de)");
    // A damaged copy is the user's to repair, and no search fails because of it.
    let store = riddle.home().join("models/riddle-reranker/model.riddle");
    fs::write(&store, "nothing").expect("written");
    says(&search("boat at the harbor"), "not reranked");
    fs::remove_dir_all(riddle.home().join("models/riddle-reranker")).expect("removed");
    assert_eq!(search("boat at the harbor")["order"]["by"], "reranked", "put there again");
}

#[test]
fn an_embedder_gives_vectors_and_another_one_takes_over() {
    let riddle = Riddle::new();
    let files = tempfile::TempDir::new().expect("a temporary folder");
    riddle_tests::notes(files.path(), 12);
    riddle.index(files.path());
    let keyword = riddle.json(&["search", "boat", "--no-rerank"]);
    assert_eq!(keyword["order"]["by"], "keyword");
    assert!(!keyword["notices"].as_array().expect("a list").is_empty(), "the blind leg is named");

    import(&riddle, "tiny-bert-encoder", "tiny-embedder");
    import(&riddle, "tiny-bert-encoder", "other-embedder");
    for name in ["tiny-embedder", "other-embedder"] {
        riddle.json(&["models", "use", name]);
        let report = riddle.json(&["index"]);
        assert_eq!(report["states"]["indexed"], 12, "{report:#}");
        let status = riddle.json(&["status", "--check"]);
        assert!(status["embedder"].is_string(), "{status:#}");
        assert_eq!(status["problems"], serde_json::json!([]));
        let found = riddle.json(&["search", "boat", "--no-rerank"]);
        assert_eq!(found["order"]["by"], "fused", "{found:#}");
        let ranks = found["hits"].as_array().expect("a list");
        assert!(ranks.iter().any(|it| it["trace"]["vector_rank"].is_number()), "{found:#}");
    }
}

/// Weighed terms as a third way to be found: made by the next run, kept for what does not change, gone when they are
/// not wanted, and nothing is lost by it.
#[test]
fn a_sparse_encoder_weighs_terms_and_they_find() {
    let riddle = Riddle::new();
    let files = tempfile::TempDir::new().expect("a temporary folder");
    riddle_tests::notes(files.path(), 12);
    riddle.index(files.path());
    let imported = import(&riddle, "tiny-bert-sparse-encoder", "tiny-sparse");
    assert_eq!(imported["model"]["kind"], "sparse_encoder", "{imported:#}");
    let sparse_ranks = |riddle: &Riddle| {
        let found = riddle.json(&["search", "boat", "--no-rerank"]);
        let hits = found["hits"].as_array().expect("a list").clone();
        assert!(!hits.is_empty(), "{found:#}");
        hits.iter().filter(|it| it["trace"]["sparse_rank"].is_number()).count()
    };
    assert_eq!(sparse_ranks(&riddle), 0, "it is installed, and nobody has chosen it");
    riddle.json(&["models", "use", "tiny-sparse"]);
    let report = riddle.json(&["index"]);
    let weighed = report["weighed"].as_u64().expect("a number");
    assert!(weighed > 0 && weighed <= report["chunks"].as_u64().expect("a number"), "{report:#}");
    assert!(sparse_ranks(&riddle) > 0);
    let status = riddle.json(&["status", "--check"]);
    assert!(status["sparse_encoder"].as_str().is_some_and(|it| it.starts_with("tiny-sparse/")));
    assert_eq!(status["unweighed"], Value::Null, "{status:#}");
    let problems = status["problems"].as_array().expect("a list");
    assert!(problems.iter().all(|it| !it.to_string().contains("terms")), "{status:#}");
    assert!(status["index_bytes"]["terms"].as_u64() > Some(0), "{status:#}");

    // A new file alone is weighed; the index is made anew from what the catalog keeps.
    std::fs::write(files.path().join("new.txt"), "The dinghy lies upside down on the bank.")
        .expect("written");
    let report = riddle.json(&["index"]);
    assert_eq!(report["weighed"], 1, "{report:#}");
    std::fs::remove_dir_all(riddle.home().join("terms")).expect("there");
    let report = riddle.json(&["index"]);
    assert_eq!(report["weighed"], Value::Null, "{report:#}");
    assert!(sparse_ranks(&riddle) > 0);

    riddle.json(&["index", "--terms", "no"]);
    assert_eq!(sparse_ranks(&riddle), 0);
    assert!(!riddle.home().join("terms").exists());
}

/// Whoever was killed while removing an index leaves any part of it: the next run makes it whole.
#[test]
fn an_index_that_somebody_was_killed_removing_is_made_anew() {
    let riddle = Riddle::new();
    let files = tempfile::TempDir::new().expect("a temporary folder");
    riddle_tests::notes(files.path(), 8);
    import(&riddle, "tiny-bert-encoder", "tiny-embedder");
    import(&riddle, "tiny-bert-sparse-encoder", "tiny-sparse");
    riddle.index(files.path());
    for model in ["tiny-embedder", "tiny-sparse"] {
        riddle.json(&["models", "use", model]);
    }
    riddle.json(&["index"]);
    let found = || {
        let found = riddle.json(&["search", "boat", "--no-rerank"]);
        assert!(!found["notices"].to_string().contains("not searched"), "{found:#}");
        let hits = found["hits"].as_array().expect("a list").iter();
        hits.map(|it| (it["path"].clone(), it["trace"].clone())).collect::<Vec<_>>()
    };
    let expected = found();
    let legs = ["bm25_rank", "vector_rank", "sparse_rank"];
    assert!(legs.iter().all(|leg| expected.iter().any(|it| it.1[leg].is_number())));
    let indexes = || {
        let (mut open, mut files) = (vec![riddle.home().to_path_buf()], Vec::new());
        while let Some(next) = open.pop() {
            for entry in fs::read_dir(next).expect("readable").flatten() {
                let path = entry.path();
                let is_index = ["keyword", "vector", "terms"]
                    .iter()
                    .any(|it| path.starts_with(riddle.home().join(it)));
                match path.is_dir() {
                    true => open.push(path),
                    false if is_index => files.push(path),
                    false => {}
                }
            }
        }
        // As the program does: first those that say how far an index is.
        let is_mark = |it: &PathBuf| it.ends_with("meta.json") || it.ends_with("current.json");
        files.sort_by_key(|it| (!is_mark(it), it.clone()));
        files
    };
    let count = indexes().len();
    assert!(count > 15, "{:?}", indexes());
    for at in 0..count {
        // Names change when an index is made anew.
        let path = indexes().swap_remove(at);
        fs::remove_file(&path).expect("removed");
        riddle.json(&["index"]);
        assert_eq!(found(), expected, "{}", path.display());
    }
    for removed in 1..=count {
        for path in indexes().into_iter().take(removed) {
            fs::remove_file(path).expect("removed");
        }
        riddle.json(&["index"]);
        assert_eq!(found(), expected, "{removed} of {count} files were removed");
    }
}

/// Each family of embedders that runs without another runtime, from its folder to a search by meaning; packed, too.
#[test]
fn every_family_of_embedders_is_imported_and_finds() {
    let riddle = Riddle::new();
    let files = tempfile::TempDir::new().expect("a temporary folder");
    riddle_tests::notes(files.path(), 6);
    riddle.index(files.path());
    let mut before = Value::Null;
    for model in [
        "tiny-modernbert-embedder",
        "tiny-xlm-roberta-embedder",
        "tiny-mpnet-embedder",
        "tiny-qwen3-embedder",
        "tiny-gemma3-embedder",
        "tiny-static-embedder",
        "tiny-static-shared-embedder",
    ] {
        let folder = tiny_model(model).to_string_lossy().into_owned();
        let imported = ["models", "import", &folder, "--name", model, "--as-published"];
        let imported = riddle.json(&imported);
        assert_eq!(imported["model"]["kind"], "embedder", "{imported:#}");
        let searched = |riddle: &Riddle| {
            let report = riddle.json(&["index"]);
            assert!(report["embedded"].as_u64() > Some(0), "{model}: {report:#}");
            let found = riddle.json(&["search", "boat", "--no-rerank"]);
            assert_eq!(found["order"]["by"], "fused", "{model}: {found:#}");
            let ranks = found["hits"].as_array().expect("a list");
            assert!(ranks.iter().any(|it| it["trace"]["vector_rank"].is_number()), "{found:#}");
            riddle.json(&["status"])["embedder"].clone()
        };
        riddle.json(&["models", "use", model]);
        let embedder = searched(&riddle);
        assert_ne!(embedder, before);
        if model.contains("static") {
            let line = riddle.run(&["models", "convert", model]).failed(1);
            assert!(line.contains("model2vec"), "{line}");
        } else {
            riddle.json(&["models", "convert", model, "--dtype", "int8"]);
            assert_ne!(searched(&riddle), embedder, "packed weights have vectors of their own");
        }
        before = embedder;
    }
}

/// A reranker whose head, or whose settings, lie in files beside its model is one, also where it was packed into
/// another folder.
#[test]
fn a_reranker_with_files_of_its_own_is_imported_and_packed() {
    let riddle = Riddle::new();
    let files = tempfile::TempDir::new().expect("a temporary folder");
    riddle_tests::notes(files.path(), 12);
    riddle.index(files.path());
    for family in ["tiny-modular-reranker", "tiny-bert-colbert", "tiny-modernbert-late"] {
        let published = tiny_model(family).to_string_lossy().into_owned();
        let out = riddle.home().join(family).to_string_lossy().into_owned();
        riddle.json(&["models", "convert", &published, "--dtype", "int8", "--output", &out]);
        let packed = format!("{family}-bytes");
        for (folder, name, format) in
            [(&published, family, "safetensors"), (&out, packed.as_str(), "riddle")]
        {
            let imported = riddle.json(&["models", "import", folder, "--name", name]);
            let model = &imported["model"];
            assert_eq!((&model["kind"], &model["format"]), (&"reranker".into(), &format.into()));
            riddle.json(&["models", "use", name]);
            let order = riddle.json(&["search", "boat at the harbor"])["order"].clone();
            assert_eq!((&order["by"], &order["model"]), (&"reranked".into(), &name.into()));
        }
    }
}

#[test]
fn a_folder_that_is_no_model_and_no_network_are_told() {
    let riddle = Riddle::new();
    let empty = tempfile::TempDir::new().expect("a temporary folder");
    let line = riddle.run(&["models", "import", &empty.path().to_string_lossy()]).failed(1);
    assert!(line.contains("not a model"), "{line}");
    let line = riddle.run(&["models", "pull", "all-MiniLM-L6-v2"]).failed(1);
    assert!(line.contains("network is switched off"), "{line}");
    for name in ["../../etc", "", "a/b/c"] {
        riddle.run(&["models", "pull", name]).failed(1);
        riddle.run(&["models", "remove", name]).failed(1);
    }
}

#[test]
fn another_hub_is_chosen_by_its_address_and_no_network_plans_nothing() {
    let riddle = Riddle::new();
    let source = || riddle.json(&["models", "source"]);
    assert_eq!(source()["source"], "https://huggingface.co");
    assert_eq!(source()["default"], true);
    let chosen = riddle.json(&["models", "source", "modelscope"]);
    assert_eq!((&chosen["modelscope"], &chosen["default"]), (&true.into(), &false.into()));
    for wrong in ["http://open.test", "nonsense", "https://me:hunter2@host.test"] {
        let line = riddle.run(&["models", "source", wrong]).failed(1);
        assert!(line.contains("can not be the place") && !line.contains("hunter2"), "{line}");
        assert_eq!(source(), chosen);
    }
    // Nobody's keyring is asked here: that is said, and no token is claimed to be there.
    let token = riddle.json(&["models", "token", "status"]);
    assert_eq!((&token["kept"], &token["environment"]), (&Value::Null, &false.into()), "{token:#}");
    assert_eq!(token["origin"], "https://www.modelscope.cn:443");
    let line = riddle.run(&["models", "pull", "o/n:Q4_K_M", "--dry-run"]).failed(1);
    assert!(line.contains("network is switched off"), "{line}");
    assert_eq!(riddle.json(&["models", "source", "default"])["default"], true);
}

#[test]
fn a_store_alone_is_a_model_like_any_other() {
    let riddle = Riddle::new();
    let files = tempfile::TempDir::new().expect("a temporary folder");
    riddle_tests::notes(files.path(), 12);
    for (model, name, kind) in [
        ("tiny-bert-cross-encoder", "byte-reranker", "reranker"),
        ("tiny-bert-encoder", "byte-embedder", "embedder"),
    ] {
        let published = tiny_model(model).to_string_lossy().into_owned();
        let out = riddle.home().join(format!("converted/{name}"));
        let folder = out.to_string_lossy().into_owned();
        riddle.json(&["models", "convert", &published, "--dtype", "int8", "--output", &folder]);
        assert!(!out.join("model.safetensors").exists());
        let imported = riddle.json(&["models", "import", &folder, "--name", name]);
        assert_eq!(imported["model"]["kind"], kind, "{imported:#}");
        assert_eq!(imported["model"]["format"], "riddle", "{imported:#}");
        riddle.json(&["models", "use", name]);
    }
    let verified = riddle.json(&["models", "verify"]);
    assert!(verified["models"].as_array().is_some_and(|it| it.len() == 2), "{verified:#}");
    riddle.index(files.path());
    let found = riddle.json(&["search", "boat at the harbor"]);
    assert_eq!(found["order"]["by"], "reranked", "{found:#}");
    let hits = found["hits"].as_array().expect("a list");
    assert!(hits.iter().any(|it| it["trace"]["vector_rank"].is_number()), "{found:#}");
    let store = riddle.home().join("models/byte-reranker/model.riddle");
    let mut bytes = fs::read(&store).expect("installed");
    bytes[5000] ^= 1;
    fs::write(&store, bytes).expect("written");
    let outcome = riddle.run(&["models", "verify", "byte-reranker"]);
    assert!(outcome.failed(1).contains("model.riddle"));
    let line = riddle.run(&["search", "boat at the harbor"]).failed(1);
    assert!(line.contains("checksum"), "{line}");
}

#[test]
fn a_store_beside_what_was_installed_is_no_stranger() {
    let riddle = Riddle::new();
    import(&riddle, "tiny-bert-cross-encoder", "tiny-reranker");
    riddle.json(&["models", "convert", "tiny-reranker", "--dtype", "q4"]);
    let verified = riddle.json(&["models", "verify"]);
    assert_eq!(verified["models"][0]["ok"], true, "{verified:#}");
    // A packed store is not where other formats come from: that is what was published beside it.
    let again = riddle.json(&["models", "convert", "tiny-reranker", "--dtype", "f32"]);
    assert!(again["bytes"].as_u64() > Some(0), "{again:#}");
    fs::remove_file(riddle.home().join("models/tiny-reranker/model.safetensors")).expect("there");
    riddle.json(&["models", "convert", "tiny-reranker", "--dtype", "int8"]);
    let line = riddle.run(&["models", "convert", "tiny-reranker", "--dtype", "f32"]).failed(1);
    assert!(line.contains("packed"), "{line}");
}

#[test]
fn an_embedder_that_was_packed_since_makes_its_vectors_anew() {
    let riddle = Riddle::new();
    let files = tempfile::TempDir::new().expect("a temporary folder");
    riddle_tests::notes(files.path(), 4);
    let model = tiny_model("tiny-bert-encoder").to_string_lossy().into_owned();
    let import = ["models", "import", &model, "--name", "tiny-embedder", "--as-published"];
    assert_eq!(riddle.json(&import)["packing"]["weights"], "published");
    riddle.index(files.path());
    riddle.json(&["models", "use", "tiny-embedder"]);
    let index = || riddle.json(&["index"])["embedded"].as_u64();
    let embedder = || riddle.json(&["status"])["embedder"].clone();
    assert!(index() > Some(0));
    assert_eq!(index(), Some(0), "nothing has changed");
    let before = embedder();
    riddle.json(&["models", "convert", "tiny-embedder", "--dtype", "int8"]);
    let notices = || riddle.json(&["search", "boat"])["notices"].to_string();
    assert!(notices().contains("run `riddle index`"), "{}", notices());
    assert!(index() > Some(0));
    assert_ne!(embedder(), before);
    assert!(!notices().contains("only keywords"), "{}", notices());
    assert_eq!(index(), Some(0));
}

#[test]
fn the_default_embedder_is_packed_and_packed_again_where_that_was_damaged() {
    let riddle = Riddle::new();
    let imported = import(&riddle, "tiny-bert-encoder", "all-MiniLM-L6-v2");
    assert_eq!(imported["packing"]["weights"], "int8", "{imported:#}");
    assert!(imported["packing"]["least_cosine"].as_f64() > Some(0.97), "{imported:#}");
    let packed = riddle.home().join("models/all-MiniLM-L6-v2/model.riddle");
    let whole = fs::read(&packed).expect("packed");
    fs::write(&packed, &whole[..whole.len() / 2]).expect("written");
    assert!(riddle.run(&["models", "verify"]).failed(1).contains("truncated"));
    let pull = ["--offline", "models", "pull", "all-MiniLM-L6-v2"];
    riddle.run(&pull).ok();
    assert_eq!(fs::read(&packed).expect("packed"), whole);
    riddle.run(&[&pull[..], &["--as-published"]].concat()).ok();
    assert!(!packed.exists());
    riddle.run(&["models", "verify"]).ok();
}

/// What is kept of vectors and how much memory makes them are settings; both are refused where they can not be.
#[test]
fn an_embedder_is_shortened_or_limited_where_that_can_be() {
    let riddle = Riddle::new();
    let files = tempfile::TempDir::new().expect("a temporary folder");
    riddle_tests::notes(files.path(), 4);
    import(&riddle, "tiny-bert-encoder", "tiny-embedder");
    riddle.json(&["models", "use", "tiny-embedder"]);
    riddle.index(files.path());
    let line = riddle.run(&["models", "use", "tiny-embedder", "--dims", "8"]).failed(1);
    assert!(line.contains("nobody says that"), "{line}");
    let card = riddle.home().join("models/tiny-embedder/README.md");
    fs::write(card, "---\ntags:\n- loss:MatryoshkaLoss\n---\n").expect("written");
    riddle.json(&["models", "use", "tiny-embedder", "--dims", "8"]);
    let made = riddle.json(&["index"])["embedded"].as_u64();
    assert!(made > Some(0));
    let embedder = || riddle.json(&["status"])["embedder"].to_string();
    assert!(embedder().contains("-8/"), "{}", embedder());
    let line = riddle.run(&["index", "--embedder-memory", "1KiB"]).failed(1);
    assert!(line.contains("it needs at least"), "{line}");
    assert_eq!(riddle.json(&["index", "--embedder-memory", "1GiB"])["embedded"], 0);
    assert_eq!(riddle.json(&["index", "--embedder-memory", "all"])["embedded"], 0);
    let refused = riddle.run(&["index", "--embedder-memory", "much"]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("250MiB") && refused.stderr.contains("`all`"), "{refused:?}");
    riddle.json(&["models", "use", "tiny-embedder"]);
    assert_eq!(riddle.json(&["index"])["embedded"].as_u64(), made);
}

/// An embedder that reads English alone does not order what is in another language; what only it finds stands below.
#[test]
fn keywords_decide_where_the_embedder_does_not_read_the_language() {
    let (riddle, files) = (Riddle::new(), tempfile::TempDir::new().expect("a temporary folder"));
    for (name, text) in [
        (
            "schiff.md",
            "Die Brücke über den Fluss wurde im Frühling von den Arbeitern mit roter Farbe gestrichen.",
        ),
        (
            "brot.md",
            "Der Bäcker backt jeden Morgen frisches Brot für alle Nachbarn in der kleinen Straße.",
        ),
        (
            "garten.md",
            "Im Garten hinter der Mühle wachsen Bohnen, Kürbisse und viele bunte Blumen.",
        ),
        (
            "uhr.md",
            "Die alte Uhr im Turm schlägt seit dem letzten Winter leider nicht mehr richtig.",
        ),
    ] {
        write(files.path(), name, text);
    }
    import(&riddle, "tiny-bert-encoder", "all-MiniLM-L6-v2");
    riddle.json(&["models", "use", "all-MiniLM-L6-v2"]);
    riddle.index(files.path());
    let search = |query: &str| riddle.json(&["search", query, "--no-rerank"]);
    let says = |found: &serde_json::Value| {
        found["notices"].as_array().expect("a list").iter().any(|it| {
            it.as_str().is_some_and(|it| it.starts_with("keywords decide") && it.contains("(de)"))
        })
    };
    let found = search("Wer hat die Brücke über den Fluss mit roter Farbe gestrichen?");
    assert!(says(&found), "{found:#}");
    let ranks: Vec<Option<u64>> = found["hits"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|it| it["trace"]["bm25_rank"].as_u64())
        .collect();
    let by_keyword: Vec<u64> = ranks.iter().flatten().copied().collect();
    // What vectors alone find is there, and below.
    assert!(by_keyword.len() < ranks.len(), "{found:#}");
    assert!(by_keyword.is_sorted() && ranks[..by_keyword.len()].iter().all(Option::is_some));
    assert!(found["hits"][0]["path"].as_str().is_some_and(|it| it.ends_with("schiff.md")));
    // A few words in Latin letters tell no language; what they find does.
    assert!(says(&search("Brücke")));
    write(
        files.path(),
        "bridge.md",
        "The bridge over the river was painted red by the workers in spring.",
    );
    riddle.index(files.path());
    assert!(!says(&search("Who painted the bridge over the river red in the spring?")));
}

/// Installed models are held against questions from the files: one with random weights is not advised, one that is torn
/// is told and left out, and a library without text says what is missing.
#[test]
fn models_are_tried_on_the_persons_files() {
    let riddle = Riddle::new();
    let files = riddle_tests::workspace().join("assets").join("sample-library");
    import(&riddle, "tiny-static-embedder", "tiny-table");
    riddle.index(&files);
    riddle.json(&["models", "use", "tiny-table"]);
    riddle.json(&["index"]);
    import(&riddle, "tiny-bert-cross-encoder", "tiny-random");
    import(&riddle, "tiny-modernbert-cross-encoder", "tiny-torn");
    let torn = riddle.home().join("models/tiny-torn/model.safetensors");
    let whole = fs::read(&torn).expect("there");
    fs::write(&torn, &whole[..whole.len() / 2]).expect("written");

    let trial = riddle.json(&["models", "advise", "--seconds", "30"]);
    assert!(trial["questions"].as_u64() >= Some(20), "{trial:#}");
    let row = |name: &Value| {
        let mut all = trial["rerankers"].as_array().expect("a list").iter();
        let found = all.find(|it| it["name"] == *name).cloned();
        found.unwrap_or_else(|| panic!("{name}: {trial:#}"))
    };
    let (bundled, random) = (row(&"riddle-reranker".into()), row(&"tiny-random".into()));
    assert!(bundled["low"].as_f64() > random["high"].as_f64(), "{trial:#}");
    assert_eq!((&bundled["advised"], &bundled["in_use"]), (&true.into(), &true.into()));
    assert!(bundled["ms"].as_f64() > Some(0.0) && bundled["bytes"].as_u64() > Some(0));
    assert!(row(&Value::Null)["quality"].as_f64() > Some(0.0), "without a reranker");
    assert!(row(&"tiny-torn".into())["problem"].is_string(), "{trial:#}");
    let table = &trial["embedders"][0];
    assert_eq!((&table["name"], &table["in_use"]), (&"tiny-table".into(), &true.into()));
    let shown = riddle.run(&["models", "advise", "--questions", "20"]).ok();
    assert!(shown.contains("→ riddle-reranker") && shown.contains("the one in use"), "{shown}");

    let empty = Riddle::new();
    let few = tempfile::TempDir::new().expect("a temporary folder");
    riddle_tests::write(few.path(), "a.txt", "One line.\n");
    empty.index(few.path());
    let said = empty.run(&["models", "advise"]).failed(1);
    assert!(said.contains("index more files"), "{said}");
}
