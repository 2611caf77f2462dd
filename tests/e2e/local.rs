//! Answers by a language model in the program's own process. The models have random weights, so what they say means
//! nothing; that they say it within their memory, and the same each time, is what is tested.

use std::path::{Path, PathBuf};

use riddle_tests::{Riddle, real_models, skipped, write};
use serde_json::Value;
use tempfile::TempDir;

use crate::remote::{QUESTION, indexed};

/// Writes a tiny model, and puts it into the store under the name `tiny`.
fn installed(riddle: &Riddle, folder: &Path, model: &str, dtype: &str) -> PathBuf {
    let dir = folder.to_str().expect("UTF-8");
    let args = ["bench", "prepare-language", model, "--dtype", dtype, "--dir", dir];
    let written = riddle.json(&args);
    riddle.run(&["models", "import", dir, "--name", "tiny"]).ok();
    PathBuf::from(written["model"].as_str().expect("a path"))
}

fn ask(riddle: &Riddle, more: &[&str]) -> Value {
    let mut args = vec!["ask", QUESTION, "--llm", "local:tiny"];
    args.extend(more);
    riddle.json(&args)
}

#[test]
fn a_model_in_the_process_answers_the_same_in_any_memory() {
    let riddle = indexed();
    let folder = TempDir::new().expect("a temporary folder");
    installed(&riddle, folder.path(), "tiny-qwen2", "q4_k_m");
    let listed = riddle.json(&["models", "list"]);
    let tiny = listed["models"].as_array().and_then(|it| it.iter().find(|it| it["name"] == "tiny"));
    assert_eq!(tiny.map(|it| (&it["kind"], &it["format"])), Some((&"llm".into(), &"gguf".into())));

    let answer = ask(&riddle, &[]);
    assert_eq!(answer["llm"], "local:tiny");
    assert!(answer["prompt"].as_str().is_some_and(|it| it.contains(QUESTION)), "{answer}");
    let stats = &answer["generation"];
    assert!(stats["tokens"].as_u64() > Some(0) && stats["prompt_tokens"].as_u64() > Some(50));
    assert_eq!(stats["streamed_bytes_per_token"], 0);
    // Nonsense is nowhere in the files, and each sentence is told to be so.
    let supported = answer["supported"].as_array().expect("sentences");
    assert!(supported.iter().all(|it| it["verdict"] != "supported"), "{answer}");

    assert_eq!(ask(&riddle, &[])["answer"], answer["answer"]);
    // Whoever guesses: nobody, the passages, a model.
    for draft in ["none", "lookup", "tiny"] {
        let drafted = ask(&riddle, &["--llm-draft", draft]);
        let stats = &drafted["generation"];
        let (guessed, right) = (&stats["drafted_tokens"], &stats["accepted_tokens"]);
        assert!(right.as_u64() <= guessed.as_u64() && right.is_u64(), "{drafted:#}");
        assert!(draft != "none" || *guessed == 0, "{drafted:#}");
        assert_eq!(drafted["answer"], answer["answer"]);
    }
    let chosen = |seed| ask(&riddle, &["--temperature", "1.5", "--seed", seed])["answer"].clone();
    assert_eq!(chosen("1"), chosen("1"));
    assert_ne!(chosen("1"), chosen("2"));
}

#[test]
fn what_was_read_is_kept_and_goes_with_the_file() {
    let riddle = indexed();
    let folder = TempDir::new().expect("a temporary folder");
    installed(&riddle, folder.path(), "tiny-qwen3", "q8_0");
    let kept = |riddle: &Riddle| riddle.json(&["cache", "status"])["prefixes"].clone();
    assert_eq!(kept(&riddle)["count"], 0);
    let first = ask(&riddle, &[]);
    let stats = &first["generation"];
    assert_eq!(stats["loaded_tokens"], 0);
    let stored = stats["stored_tokens"].as_u64().expect("a count");
    assert!(stored > 50, "{first:#}");
    // Another process loads what this one read: all but the question.
    let again = ask(&riddle, &[]);
    assert_eq!(again["generation"]["loaded_tokens"].as_u64(), Some(stored));
    assert_eq!((&again["answer"], &again["prompt"]), (&first["answer"], &first["prompt"]));
    let anew = ask(&riddle, &["--read-anew"]);
    assert_eq!(
        (&anew["answer"], &anew["generation"]["loaded_tokens"]),
        (&first["answer"], &0.into())
    );
    let ordered = ask(&riddle, &["--passage-order", "stored"]);
    assert_eq!(ordered["generation"]["loaded_tokens"].as_u64(), Some(stored));
    let before = kept(&riddle);
    assert_eq!(before["tokens"].as_u64(), Some(stored));
    assert_eq!(before["models"][0]["name"], "tiny");

    // The files go, and what was read of them with the next look at the folder: the rules stay.
    for folder in riddle.json(&["folders", "list"])["folders"].as_array().expect("folders") {
        let path = folder["path"].as_str().expect("a path");
        riddle.run(&["folders", "remove", path]).ok();
    }
    assert_eq!(kept(&riddle)["count"], 1, "{before}");
    assert_eq!(riddle.json(&["cache", "clear"])["freed"]["prefixes"], 1);
    riddle.run(&["cache", "limit", "0"]).ok();
    assert_eq!(kept(&riddle)["limit_bytes"], 0);
}

/// The smallest language model of the catalog, for its words mean something.
#[test]
fn a_trained_model_answers_from_the_files_and_its_words_get_their_source() {
    let Some(store) = real_models().filter(|it| it.join("smollm2-135m").is_dir()) else {
        return skipped(
            "no trained language model is installed: `riddle --models-dir .cache/models models pull smollm2-135m`",
        );
    };
    let riddle = Riddle::with_models(store);
    let folder = TempDir::new().expect("a temporary folder");
    for (name, text) in [
        ("marlin.txt", "The narrow-boat Marlin was built in 1931 by Ada Thorne at Harrow Wharf.\n"),
        (
            "bakery.txt",
            "The bakery opens at six in the morning and closes at two in the afternoon.\n",
        ),
    ] {
        write(folder.path(), name, text);
    }
    riddle.index(folder.path());
    let ask = |more: &[&str]| {
        let mut args = vec!["ask", "When does the bakery open?", "--llm", "local:smollm2-135m"];
        args.extend(more);
        riddle.json(&args)
    };
    let answer = ask(&[]);
    let said = answer["answer"].as_str().unwrap_or_default();
    assert!(said.contains("six in the morning"), "{answer:#}");
    // It writes no numbers of its own; the program finds the passage that says it.
    let sentence = &answer["supported"][0];
    assert_eq!(sentence["verdict"], "supported", "{answer:#}");
    assert!(said.contains(&format!("[{}]", sentence["citation"])), "{answer:#}");
    assert_eq!(answer["citations"][0]["quote"], sentence["sentence"]);
    assert_eq!(answer["quotes"], Value::Array(Vec::new()));

    // A part of its weights stays on disk, and it says the same.
    let tight = ask(&["--llm-memory", "140MiB", "--llm-context", "1024"]);
    assert!(tight["generation"]["streamed_bytes_per_token"].as_u64() > Some(0), "{tight:#}");
    assert_eq!(tight["answer"], answer["answer"]);
}

#[test]
fn what_can_not_run_is_refused_with_what_to_do() {
    let riddle = indexed();
    let folder = TempDir::new().expect("a temporary folder");
    let path = installed(&riddle, folder.path(), "tiny-llama", "q8_0");
    let refused = |llm: &str, more: &[&str]| {
        let mut args = vec!["ask", QUESTION, "--llm", llm];
        args.extend(more);
        riddle.run(&args).failed(1)
    };
    let said = refused("local:tiny", &["--llm-memory", "1MiB"]);
    assert!(said.contains("needs at least") && said.contains("the budget is 1 MB"), "{said}");
    assert!(refused("local:none", &[]).contains("no model named \"none\""));
    assert!(refused("local:/none.gguf", &[]).contains("there is no such GGUF file"));
    let dir = format!("local:{}", folder.path().display());
    assert!(refused(&dir, &[]).contains("is a folder: give the GGUF file in it"));
    assert!(riddle.run(&["models", "use", "tiny"]).failed(1).contains("--llm local:tiny"));
    assert!(refused("local:tiny", &["--temperature", "11"]).contains("temperature"));
    assert!(refused("local:tiny", &["--llm-draft", "none.gguf"]).contains("no such GGUF file"));
    let others = TempDir::new().expect("a temporary folder");
    let dir = others.path().to_str().expect("UTF-8");
    let other = riddle.json(&["bench", "prepare-language", "tiny-qwen3", "--dir", dir]);
    let other = other["model"].as_str().expect("a path");
    let said = refused("local:tiny", &["--llm-draft", other]);
    assert!(said.contains("can not guess for") && said.contains("token"), "{said}");

    // By its path it runs as well, until it is damaged.
    let by_path = format!("local:{}", path.display());
    let answer = riddle.json(&["ask", QUESTION, "--llm", &by_path]);
    assert_eq!(answer["llm"], "local:tiny-llama-q8_0");
    let whole = std::fs::read(&path).expect("it is there");
    std::fs::write(&path, &whole[..whole.len() / 2]).expect("room");
    assert!(refused(&by_path, &[]).contains("truncated"));
    std::fs::write(&path, b"GGUF and nothing else").expect("room");
    assert!(refused(&by_path, &[]).contains("tiny-llama-q8_0.gguf"));
}

#[test]
fn a_budget_is_measured_and_kept() {
    let riddle = Riddle::new();
    let folder = TempDir::new().expect("a temporary folder");
    let path = installed(&riddle, folder.path(), "tiny-qwen3", "f16");
    let path = path.to_str().expect("UTF-8");
    let measure = |more: &[&str]| {
        let mut args = vec!["bench", "generate", path, "--prompt", "20", "--tokens", "8"];
        args.extend(more);
        riddle.json(&args)
    };
    let resident = measure(&[]);
    assert_eq!(resident["stats"]["tokens"], 8);
    assert_eq!(resident["stream_bytes_per_second"], Value::Null);
    let streamed = measure(&["--memory-budget", "1GiB", "--locking", "nothing", "--window", "2"]);
    assert!(streamed["stats"]["streamed_bytes_per_token"].as_u64() > Some(1_000_000));
    assert!(streamed["stream_bytes_per_second"].as_f64() > Some(0.0));
    assert!(streamed["peak_rss_bytes"].as_u64() < Some(1 << 30));
    assert!(
        streamed["stats"]["bytes_read"].as_u64()
            > streamed["stats"]["streamed_bytes_per_token"].as_u64()
    );
}

/// A few of its experts are in memory, and the others are read as they are wanted.
#[test]
fn a_mixture_answers_the_same_with_some_of_its_experts_in_memory() {
    let riddle = indexed();
    let folder = TempDir::new().expect("a temporary folder");
    installed(&riddle, folder.path(), "tiny-qwen3-moe", "f16");
    let args = ["--no-cache", "--read-anew", "--llm-context", "1024"];
    let experts = |answer: &Value, key: &str| {
        answer["generation"]["experts"][key].as_u64().expect("a mixture tells of its experts")
    };
    let whole = ask(&riddle, &args);
    assert_eq!(experts(&whole, "held"), experts(&whole, "all"), "{whole:#}");

    // The process beside the model has another size on each machine, so the program says what is the least: room for
    // 6 of the 30 experts, 12 MB in all. With 4 MB more there is room for 15, and for some wherever that differs by a
    // little from run to run.
    let refused = [&["ask", QUESTION, "--llm", "local:tiny"], &args[..], &["--llm-memory", "1MiB"]];
    let said = riddle.run(&refused.concat()).failed(1);
    let least = said.split("needs at least ").nth(1).and_then(|it| it.split(' ').next());
    let least: u64 = least.and_then(|it| it.parse().ok()).unwrap_or_else(|| panic!("{said}"));
    let memory = format!("{}MiB", least + 4);
    let tight = ask(&riddle, &[&args[..], &["--llm-memory", &memory]].concat());
    assert!(experts(&tight, "held") < experts(&tight, "all"), "{tight:#}");
    assert!(experts(&tight, "found") < experts(&tight, "wanted"), "{tight:#}");
    assert!(tight["generation"]["tokens"].as_u64() > Some(0), "{tight:#}");
    assert_eq!(tight["answer"], whole["answer"]);
}

/// Every file and folder below, when it was written, and its bytes.
fn tree(dir: &Path) -> Vec<(PathBuf, std::time::SystemTime, u64)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir).expect("a folder") {
        let path = entry.expect("an entry").path();
        let meta = path.metadata().expect("it is there");
        all.push((path.clone(), meta.modified().expect("a time"), meta.len()));
        if meta.is_dir() {
            all.extend(tree(&path));
        }
    }
    all.sort();
    all
}

/// What Ollama and LM Studio keep is found, answers, and is never written; made by hand as those programs lay it out.
#[test]
fn models_of_other_programs_are_used_where_they_are() {
    let riddle = indexed();
    let folder = TempDir::new().expect("a temporary folder");
    let path = installed(&riddle, folder.path(), "tiny-qwen2", "q8_0");
    let weights = std::fs::read(&path).expect("it is there");
    let other = TempDir::new().expect("a temporary folder");
    let (ollama, studio) =
        (other.path().join("ollama"), other.path().join("home/.lmstudio/models"));
    let put = |path: PathBuf, content: &[u8]| {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, content).expect("room");
    };
    let hex = "ab".repeat(32);
    put(ollama.join(format!("blobs/sha256-{hex}")), &weights);
    let model = |digest: &str| {
        format!(
            r#"{{"layers":[{{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:{digest}"}}]}}"#
        )
    };
    let tags = ollama.join("manifests/registry.ollama.ai/library/tiny");
    put(tags.join("latest"), model(&hex).as_bytes());
    // One that is torn, one that lies.
    let torn = "cd".repeat(32);
    put(ollama.join(format!("blobs/sha256-{torn}")), &weights[..weights.len() / 2]);
    put(tags.join("torn"), model(&torn).as_bytes());
    put(tags.join("gone"), model(&"ef".repeat(32)).as_bytes());
    put(studio.join("someone/Tiny-GGUF/tiny-q8_0.gguf"), &weights);
    let (ollama, home) = (ollama.display().to_string(), other.path().join("home"));
    let home = home.display().to_string();
    let riddle = riddle.with_env(&[("OLLAMA_MODELS", &ollama), ("HOME", &home)]);

    let before = tree(other.path());
    let listed = riddle.json(&["models", "list"]);
    let found: Vec<(&str, bool)> = listed["elsewhere"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|it| Some((it["name"].as_str()?, it["runs"].as_bool()?)))
        .collect();
    assert_eq!(
        found,
        [
            ("ollama:tiny:latest", true),
            ("ollama:tiny:torn", false),
            ("lmstudio:someone/Tiny-GGUF/tiny-q8_0", true)
        ]
    );
    let own = ask(&riddle, &[])["answer"].clone();
    for name in ["ollama:tiny:latest", "lmstudio:someone/Tiny-GGUF/tiny-q8_0"] {
        let llm = format!("local:{name}");
        let answer = riddle.json(&["ask", QUESTION, "--llm", &llm]);
        assert_eq!((&answer["llm"], &answer["answer"]), (&Value::String(llm), &own));
    }
    let refused = |args: &[&str]| riddle.run(args).failed(1);
    assert!(refused(&["ask", QUESTION, "--llm", "local:ollama:tiny:torn"]).contains("truncated"));
    let gone = refused(&["ask", QUESTION, "--llm", "local:ollama:none:latest"]);
    assert!(gone.contains("Ollama has no model named \"none:latest\""), "{gone}");
    let kept = refused(&["models", "remove", "ollama:tiny:latest"]);
    assert!(kept.contains("belongs to Ollama: remove it there"), "{kept}");
    assert!(refused(&["models", "use", "ollama:tiny:latest"]).contains("--llm local:ollama:tiny"));
    assert_eq!(tree(other.path()), before, "nothing was written there");
}

/// Names of the hub have two parts, and are no paths.
#[test]
fn a_model_of_two_parts_answers() {
    let riddle = indexed();
    let folder = TempDir::new().expect("a temporary folder");
    installed(&riddle, folder.path(), "tiny-qwen3", "q8_0");
    let dir = folder.path().to_str().expect("UTF-8");
    riddle.run(&["models", "import", dir, "--name", "someone/tiny"]).ok();
    let answer = riddle.json(&["ask", QUESTION, "--llm", "local:someone/tiny"]);
    assert_eq!(answer["llm"], "local:someone/tiny");
    let none = riddle.run(&["ask", QUESTION, "--llm", "local:someone/none"]).failed(1);
    assert!(none.contains("someone/none"), "{none}");
}
