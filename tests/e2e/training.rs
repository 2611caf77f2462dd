//! The recipe of the bundled reranker, small enough for the tests: from pairs to a model that the program reranks with.

use std::{
    ffi::OsStr,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use riddle_tests::{Riddle, Running, program, skipped, tiny_model, workspace};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A Python that has what the recipe needs.
pub(super) fn python() -> Option<PathBuf> {
    let named = std::env::var_os("RIDDLE_PYTHON").map(PathBuf::from);
    let fetched = workspace().join(".cache/training/bin/python");
    let candidates = [named, Some(fetched), Some(PathBuf::from("python3"))];
    candidates.into_iter().flatten().find(|it| {
        Command::new(it)
            .args(["-c", "import torch, numpy, tokenizers, safetensors"])
            .stdin(Stdio::null())
            .output()
            .is_ok_and(|it| it.status.success())
    })
}

/// Questions and passages of two sources in two files, and a third file with other passages of one of them, compressed
/// as the recipe reads them.
fn write_pairs(python: &Path, dir: &Path) {
    let words = ["oak", "hull", "tar", "plank", "flour", "yeast", "oven", "lock", "rope", "tow"];
    for (source, file) in [("recipes", "train.en.jsonl"), ("boats", "train2.en.jsonl")] {
        let mut lines = String::new();
        for n in 0..40 {
            let word = |it: usize| words[(n * 3 + it * (1 + n / 10)) % words.len()];
            let line = json!({
                "ds": source, "lang": "en", "lic": "ok", "doc": format!("article {}", n % 8),
                "q": format!("where are the {} and the {}?", word(0), word(1)),
                "pos": format!("The {} number {n} and the {} are beside the {}.", word(0), word(1), word(2)),
            });
            lines.push_str(&format!("{line}\n"));
        }
        compress(python, &dir.join(file), &lines);
    }
    let sibling = |n: usize| json!({ "ds": "boats", "doc": format!("article {n}"), "text": "A lock is a step for boats." });
    let siblings: String = (0..8).map(|n| format!("{}\n", sibling(n))).collect();
    compress(python, &dir.join("passages2.en.jsonl"), &siblings);
}

fn compress(python: &Path, plain: &Path, lines: &str) {
    fs::write(plain, lines).expect("written");
    let status = Command::new(python).args(["-m", "gzip"]).arg(plain).status().expect("gzip");
    assert!(status.success());
}

/// What was fitted is compared with what ships, and nothing else is said of what was not.
#[test]
fn what_was_fitted_is_held_against_the_files() {
    let is_there = |it: &&str| {
        let said = Command::new(it).arg("--version").stdin(Stdio::null()).output();
        said.is_ok_and(|it| it.status.success())
    };
    let Some(python) = ["python3", "python"].into_iter().find(is_there) else {
        return skipped("no Python");
    };
    let work = TempDir::new().expect("a temporary folder");
    let check = || {
        let output = Command::new(python)
            .args(["-m", "riddle_training.refit", "--check", "--work"])
            .arg(work.path())
            .env("PYTHONPATH", workspace().join("training"))
            .stdin(Stdio::null())
            .output()
            .expect("runs");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), said, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let kept = |step: &str, found: Value| {
        let text = json!({ "key": "", "found": found }).to_string();
        fs::write(work.path().join(format!("{step}.json")), text).expect("written");
    };
    let (code, said, errors) = check();
    assert_eq!((code, said.matches("not fitted").count()), (Some(0), 4), "{said}{errors}");

    let ships = workspace().join("assets/models/riddle-reranker");
    let model = work.path().join("model");
    fs::create_dir(&model).expect("made");
    for file in ["config.json", "calibration.json", "model.riddle"] {
        fs::copy(ships.join(file), model.join(file)).expect("copied");
    }
    for step in ["prior", "early", "answers", "calibration"] {
        kept(step, json!({ "scale": 1 }));
    }
    let constants = fs::read_to_string(workspace().join("crates/claims/src/verdict.rs"));
    let constants = constants.expect("constants");
    let constant = |name: &str| -> Value {
        let after = constants.split_once(&format!("const {name} = ")).expect("a constant").1;
        let value = after.split_once(';').expect("an end").0.replace('(', "[").replace(')', "]");
        serde_json::from_str(&value).expect("numbers")
    };
    let of = constant("WEIGHTS: [f32; 4]");
    let fitted = |bias: Value| {
        json!({
            "weights": {
                "bias": bias, "reranker": of[0], "sentence": of[1], "added_near": of[2], "names_missing": of[3],
            },
            "limits": constant("LIMITS: (f32, f32)"),
            "evidence_limits": constant("EVIDENCE_LIMITS: (f32, f32)"),
        })
    };
    kept("sentences", fitted(constant("BIAS: f32")));
    let (code, said, errors) = check();
    assert_eq!((code, said.matches(" is what was fitted").count()), (Some(0), 4), "{said}{errors}");

    kept("sentences", fitted(json!(-99.5)));
    fs::write(model.join("calibration.json"), "{}").expect("written");
    let (code, said, errors) = check();
    assert_eq!((code, said.matches("IS NOT").count()), (Some(1), 2), "{said}{errors}");
}

#[test]
fn the_smoke_configuration_makes_a_model_that_reranks() {
    let Some(python) = python() else {
        return skipped(
            "no Python with torch, numpy, tokenizers and safetensors (training/requirements.txt): name one in \
             RIDDLE_PYTHON",
        );
    };
    let riddle = Riddle::new();
    let dir = TempDir::new().expect("a temporary folder");
    write_pairs(&python, dir.path());
    let training = workspace().join("training");
    let model = dir.path().join("model");
    let run = |step: &str, to: &Path, extra: &[&OsStr]| {
        let output = Command::new(&python)
            .args(["-m", "riddle_training", step, "--config"])
            .arg(training.join("configs/smoke.json"))
            .arg("--work")
            .arg(dir.path().join("work"))
            .arg("--base")
            .arg(tiny_model("tiny-bert-encoder"))
            .arg("--data")
            .arg(dir.path())
            .arg("--riddle")
            .arg(program())
            .arg("--output")
            .arg(to)
            .args(extra)
            .env("PYTHONPATH", &training)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .output()
            .expect("started");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{step}: {said}");
    };
    for step in ["prepare", "train", "prior", "export"] {
        run(step, &model, &[]);
    }
    let log = fs::read_to_string(dir.path().join("work/run/log.jsonl")).expect("a log");
    let last: Value = serde_json::from_str(log.lines().last().expect("steps")).expect("JSON");
    assert_eq!(last["step"], 6);
    // Measured on articles that were set aside, and on a source that was not trained on.
    for group in ["trained", "boats"] {
        let layers = last["development"][group].as_object().expect("figures");
        assert_eq!(
            layers.keys().collect::<Vec<_>>(),
            ["2", "3", "4", "2+evidence", "3+evidence", "4+evidence", "cosine", "evidence"]
        );
    }
    // Each question knows what keywords found, with scores as shares of the best one.
    let questions =
        fs::read_to_string(dir.path().join("work/prepared/queries.jsonl")).expect("questions");
    let first: Value =
        serde_json::from_str(questions.lines().next().expect("a question")).expect("JSON");
    let shares = first["keyword"].as_object().expect("shares");
    assert!(shares.values().any(|it| it.as_f64() == Some(1.0)), "{first}");
    // Passages that answer no question are candidates as well: both sources have the same forty texts, so the one that
    // is a sibling is passage 40.
    let proposed = |it: &Value| {
        ["dense", "bm25", "article"]
            .iter()
            .any(|kind| it[kind].as_array().is_some_and(|it| it.contains(&json!(40))))
    };
    let mut asked = questions.lines().map(|it| serde_json::from_str(it).expect("JSON"));
    assert!(asked.any(|it: Value| proposed(&it)), "{questions}");
    // The files say how much cosines and keywords count, by the embedder whose cosines were trained with.
    let config = fs::read_to_string(model.join("config.json")).expect("a configuration");
    let config: Value = serde_json::from_str(&config).expect("JSON");
    assert_eq!(config["riddle"]["prior"]["embedder"], "all-MiniLM-L6-v2");
    for weight in ["scale", "center", "keyword", "keyword_center"] {
        assert!(config["riddle"]["prior"][weight].is_number(), "{weight}: {config:#}");
    }

    // A fifth of the neurons of each layer go, and the file says how many are left.
    let methods = training.join("configs/smoke-pruning.json");
    let pruned = dir.path().join("pruned");
    let extra: [&OsStr; 8] = [
        "--methods".as_ref(),
        methods.as_ref(),
        "--method".as_ref(),
        "small-neurons".as_ref(),
        "--model".as_ref(),
        model.as_ref(),
        "--run".as_ref(),
        "pruned".as_ref(),
    ];
    run("prune", &pruned, &extra);
    let config = fs::read_to_string(pruned.join("config.json")).expect("a configuration");
    let config: Value = serde_json::from_str(&config).expect("JSON");
    assert_eq!(config["intermediate_size"], 51);

    for model in [&model, &pruned] {
        reranks(&riddle, model);
    }

    // Training goes on from the program's own int8 file, which is what ships.
    let store = dir.path().join("store");
    let (from, to) = (model.to_string_lossy(), store.to_string_lossy());
    riddle.run(&["models", "convert", &from, "--dtype", "int8", "--out", &to]).ok();
    let near = "import sys, pathlib\n\
        from safetensors.torch import load_file\n\
        from riddle_training.store import read_store\n\
        exact, read = load_file(sys.argv[1]), read_store(pathlib.Path(sys.argv[2]))\n\
        assert exact.keys() == read.keys(), exact.keys() ^ read.keys()\n\
        for name, it in exact.items():\n\
        \x20   assert (it - read[name]).norm() <= 0.03 * it.norm(), name\n";
    let output = Command::new(&python)
        .args(["-c", near])
        .args([model.join("model.safetensors"), store.join("model.riddle")])
        .env("PYTHONPATH", &training)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .expect("started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let extra: [&OsStr; 4] =
        ["--start".as_ref(), store.as_ref(), "--run".as_ref(), "again".as_ref()];
    run("train", &model, &extra);
    let log = fs::read_to_string(dir.path().join("work/again/log.jsonl")).expect("a log");
    assert_eq!(log.lines().count(), 6);

    // And with fewer layers, as the model that ships was made.
    let smoke = fs::read_to_string(training.join("configs/smoke.json")).expect("a configuration");
    let mut smoke: Value = serde_json::from_str(&smoke).expect("JSON");
    smoke["layers"] = 3.into();
    smoke["layer_weights"] = json!({ "2": 0.5, "3": 1.0 });
    let cut = dir.path().join("cut.json");
    fs::write(&cut, smoke.to_string()).expect("written");
    let shallow = dir.path().join("shallow");
    let extra: [&OsStr; 6] = [
        "--start".as_ref(),
        store.as_ref(),
        "--run".as_ref(),
        "cut".as_ref(),
        "--config".as_ref(),
        cut.as_ref(),
    ];
    for step in ["train", "prior", "export"] {
        run(step, &shallow, &extra);
    }
    leaves_to_the_end_what_was_sampled_before(&python, dir.path(), &training);
    puts_slices_in_order_without_changing_a_score(&python, &training);

    // And with narrower models in the same weights, which follow the one that training began with.
    smoke["slices"] = json!([3, 2, 1]);
    smoke["slices_weight"] = 0.5.into();
    smoke["ordering_steps"] = 2.into();
    smoke["teacher_model_share"] = 0.3.into();
    smoke["card"]["slices_in_order"] = true.into();
    fs::write(&cut, smoke.to_string()).expect("written");
    let elastic = dir.path().join("elastic");
    let extra = extra.map(|it| if it == "cut" { "elastic".as_ref() } else { it });
    for step in ["train", "prior", "export"] {
        run(step, &elastic, &extra);
    }
    let log = fs::read_to_string(dir.path().join("work/elastic/log.jsonl")).expect("a log");
    let last: Value = serde_json::from_str(log.lines().last().expect("steps")).expect("JSON");
    for layers in ["2", "3", "3 x 1", "3 x 2", "3 x 3+evidence"] {
        assert!(last["development"]["boats"][layers].is_number(), "{layers}: {last:#}");
    }
    let config = fs::read_to_string(elastic.join("config.json")).expect("a configuration");
    assert!(config.contains(r#""slices_in_order": true"#), "{config}");
    reranks(&riddle, &elastic);

    let config = fs::read_to_string(shallow.join("config.json")).expect("a configuration");
    let config: Value = serde_json::from_str(&config).expect("JSON");
    assert_eq!(config["num_hidden_layers"], 3);
    reranks(&riddle, &shallow);
    reranks(&riddle, &trained_at_once(&python, dir.path(), &training));
}

/// A teacher and a reranker after it, as on a GPU, from one file of tokens.
fn trained_at_once(python: &Path, data: &Path, training: &Path) -> PathBuf {
    let every = fs::read_to_string(training.join("configs/every.json")).expect("a configuration");
    let mut every: Value = serde_json::from_str(&every).expect("JSON");
    every["sources"] = json!({ "recipes": 40, "boats": 40 });
    every["dev_share"] = 0.2.into();
    every["max_tokens"] = 48.into();
    every["lists"] = 4.into();
    every["candidates"] = 4.into();
    every["compound_share"] = 0.5.into();
    every["teacher"]["layers"] = 4.into();
    every["teacher"]["layer_weights"] = json!({ "2": 0.5, "4": 1.0 });
    every["student"]["layers"] = 3.into();
    every["student"]["layer_weights"] = json!({ "2": 0.5, "3": 1.0 });
    every["student"]["slices"] = json!([3, 1]);
    let config = data.join("every.json");
    fs::write(&config, every.to_string()).expect("written");
    let (corpus, out) = (data.join("every.corpus"), data.join("every"));
    let start = |module: &str, extra: &[&OsStr]| {
        Command::new(python)
            .args(["-m", module])
            .args(extra)
            .args(["--config".as_ref(), config.as_os_str()])
            .args(["--base".as_ref(), tiny_model("tiny-bert-encoder").as_os_str()])
            .env("PYTHONPATH", training)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .output()
            .expect("started")
    };
    let run = |module: &str, extra: &[&OsStr]| {
        let output = start(module, extra);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{module}: {said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let from: [&OsStr; 4] = ["--data".as_ref(), data.as_ref(), "--out".as_ref(), corpus.as_ref()];
    let said = run("riddle_training.corpus", &from);
    assert!(said.contains("80 questions"), "{said}");
    let train: [&OsStr; 8] = [
        "--corpus".as_ref(),
        corpus.as_ref(),
        "--out".as_ref(),
        out.as_ref(),
        "--seconds".as_ref(),
        "4".as_ref(),
        "--workers".as_ref(),
        "0".as_ref(),
    ];
    run("riddle_training.large", &train);
    let log = fs::read_to_string(out.join("log.jsonl")).expect("a log");
    let last: Value = serde_json::from_str(log.lines().last().expect("phases")).expect("JSON");
    assert_eq!(last["phase"], "student");
    for column in ["evidence", "2", "3+evidence", "3 x 1"] {
        let mrr = last["development"][column].as_f64().expect("a figure");
        assert!((0.0..=1.0).contains(&mrr), "{column}: {last:#}");
    }
    let model = data.join("every-model");
    let export: [&OsStr; 7] = [
        "export".as_ref(),
        "--work".as_ref(),
        out.as_ref(),
        "--run".as_ref(),
        "student".as_ref(),
        "--output".as_ref(),
        model.as_ref(),
    ];
    run("riddle_training", &export);
    // A finished model of fewer layers than the teacher's is no beginning; with as many it is.
    let again = [&train[..], &["--start".as_ref(), model.as_ref()]].concat();
    let output = start("riddle_training.large", &again);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("has 3 layers"), "{said}");
    every["teacher"]["layers"] = 3.into();
    every["teacher"]["layer_weights"] = json!({ "2": 0.5, "3": 1.0 });
    fs::write(&config, every.to_string()).expect("written");
    run("riddle_training.large", &again);
    model
}

/// Of forty pairs of each source another configuration has sampled thirty: the other ten come first.
fn leaves_to_the_end_what_was_sampled_before(python: &Path, data: &Path, training: &Path) {
    let check = "import sys, pathlib\n\
        from riddle_training.prepare import load_rows\n\
        data = pathlib.Path(sys.argv[1])\n\
        files = ['train.en.jsonl.gz', 'train2.en.jsonl.gz']\n\
        sample = lambda seed, count: {'seed': seed, 'files': files, 'sources': {'recipes': count, 'boats': count}}\n\
        rows = lambda *of: [(it['ds'], it['pos']) for it in load_rows(data, *of)[0]]\n\
        before = rows(sample(1, 30))\n\
        assert len(before) == len(set(before)) == 60, before\n\
        unseen = rows(sample(2, 10), [sample(1, 30)])\n\
        assert len(set(unseen)) == 20 and not set(unseen) & set(before), unseen\n\
        more = rows(sample(2, 25), [sample(1, 30)])\n\
        assert len(more) == len(set(more)) == 50 and set(unseen) < set(more), more\n\
        assert len(set(rows(sample(2, 99), [sample(1, 30)]))) == 80\n";
    let output = Command::new(python)
        .args(["-c", check])
        .arg(data)
        .env("PYTHONPATH", training)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .expect("started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The first slices are the worthiest, and all of them say what they said before. Whoever takes the mean with the
/// model as it was finds each of them again.
fn puts_slices_in_order_without_changing_a_score(python: &Path, training: &Path) {
    let check = "import sys, pathlib, torch, numpy as np\n\
        from riddle_training.bert import Bert, Ragged\n\
        from riddle_training.elastic import put_in_order, worth\n\
        from riddle_training.mean import put_as\n\
        model = Bert.from_directory(pathlib.Path(sys.argv[1]), seed=3)\n\
        pairs = [(np.arange(3, 3 + n), np.zeros(n, np.int64)) for n in (7, 12, 5)]\n\
        item = {'pairs': pairs}\n\
        batch = Ragged([it[0] for it in pairs], [it[1] for it in pairs])\n\
        with torch.no_grad():\n\
        \x20   before, narrow = model(batch, [4])[4], model(batch, [4], slices=2)[4]\n\
        loss = lambda scores, item: scores[4].square().sum()\n\
        first = {name: it.clone() for name, it in model.tensors().items()}\n\
        put_in_order(model, worth(model, [item], [4], loss))\n\
        with torch.no_grad():\n\
        \x20   assert (model(batch, [4])[4] - before).abs().max() < 1e-4\n\
        \x20   assert (model(batch, [4], slices=4)[4] - before).abs().max() < 1e-4\n\
        \x20   assert (model(batch, [4], slices=2)[4] - narrow).abs().max() > 1e-4\n\
        put_as(first, model.tensors(), model.config)\n\
        assert all((first[name] - it).abs().max() < 1e-6 for name, it in model.tensors().items())\n\
        for heads, neurons in worth(model, [item], [4], loss):\n\
        \x20   assert (heads.diff() <= 1e-4).all() and (neurons.diff() <= 1e-4).all()\n";
    let output = Command::new(python)
        .args(["-c", check])
        .arg(tiny_model("tiny-bert-encoder"))
        .env("PYTHONPATH", training)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .expect("started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn reranks(riddle: &Riddle, model: &Path) {
    let request = json!({"query": "where is the oak?", "documents": ["oak", "tar"]}).to_string();
    let model = model.to_string_lossy().into_owned();
    let mut command = riddle.command(&["rerank", "--model", &model, "--json"]);
    command.stdin(Stdio::piped());
    let mut run = Running::start(command);
    run.feed(|stdin| stdin.write_all(request.as_bytes()));
    let answer: Value = run.wait().json();
    assert_eq!(answer["results"].as_array().map(Vec::len), Some(2));
}

/// A classifier of single texts, made of requests as `riddle bench deadline` takes them: it learns what one word says,
/// and the program calls the same texts relevant.
#[test]
fn a_classifier_is_trained_and_cut_into_shards() {
    let Some(python) = python() else {
        return skipped(
            "no Python with torch, numpy, tokenizers and safetensors: name one in RIDDLE_PYTHON",
        );
    };
    let riddle = Riddle::new();
    let dir = TempDir::new().expect("a temporary folder");
    let request = |n: usize| {
        let (relevant, word) = if n.is_multiple_of(2) { (1, "boat") } else { (0, "bread") };
        let document =
            json!({ "text": format!("A {word} and number {}.", n / 2), "relevant": relevant });
        json!({ "query": "Where is the boat?", "documents": [document] }).to_string() + "\n"
    };
    let file = |name: &str, numbers: std::ops::Range<usize>| {
        let path = dir.path().join(name);
        fs::write(&path, numbers.map(request).collect::<String>()).expect("written");
        path
    };
    let (learn, dev) = (file("learn.jsonl", 0..160), file("dev.jsonl", 160..200));
    let out = dir.path().join("out");
    let output = Command::new(&python)
        .args(["-m", "riddle_training.classify", "--epochs", "6", "--batch", "16"])
        .args(["--learning-rate", "0.003", "--slices", "1", "--max-tokens", "32", "--base"])
        .arg(tiny_model("tiny-bert-sliced-cross-encoder"))
        .arg("--train")
        .arg(&learn)
        .arg("--dev")
        .arg(&dev)
        .arg("--out")
        .arg(&out)
        .env("PYTHONPATH", workspace().join("training"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .expect("started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let table = fs::read_to_string(out.join("accuracy.json")).expect("a table");
    let table: Value = serde_json::from_str(&table).expect("JSON");
    let own = table["2"]["3"].as_f64().expect("a share");
    assert!(own > 0.9 && table["1"]["3"].as_f64().is_some(), "{table:#}");
    let model = out.join("model").to_string_lossy().into_owned();
    let dev = dev.to_string_lossy();
    let cells = riddle.json(&[
        "bench",
        "deadline",
        "--model",
        &model,
        "--numbers",
        "f32",
        "--requests",
        &dev,
        "--rates",
        "0",
        "--deadlines",
        "600000",
        "--candidates",
        "1",
        "--buffers",
        "1MiB",
        "--system",
        "preloaded, 32 bits",
    ]);
    let measured = cells[0]["quality"].as_f64().expect("a share");
    assert!((measured - own).abs() < 1e-6, "{measured} where training measured {own}");
}
