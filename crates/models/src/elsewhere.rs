//! Language models that other programs keep on this machine: found, read where they lie, never written.
//!
//! | program | folder | layout |
//! |---|---|---|
//! | Ollama | `OLLAMA_MODELS`, `~/.ollama/models` | `manifests/HOST/SPACE/NAME/TAG` names `blobs/sha256-…` |
//! | LM Studio | `~/.lmstudio/models`, `~/.cache/lm-studio/models` | `PUBLISHER/REPOSITORY/FILE.gguf` |
//! | llama.cpp | `LLAMA_CACHE`, `~/.cache/llama.cpp` | `FILE.gguf` |
//! | Hugging Face | `HF_HUB_CACHE`, `HF_HOME/hub` | `models--ORG--NAME/snapshots/COMMIT/FILE.gguf` links to `blobs/…` |
//!
//! What a manifest or a link says is not trusted: a file that lies outside its program's folder, or does not begin as a
//! GGUF file does, is no model. Whether it can be run is another question, which its header answers.

use std::{
    fs::{self, File},
    io::Read as _,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use crate::parts::Part;

/// Largest manifest that is read, in bytes; those of Ollama have one or two thousand.
const LARGEST_MANIFEST: u64 = 1 << 20;

/// Most entries that are looked at in one program's folder.
const MOST_ENTRIES: usize = 20_000;

/// Longest name, in bytes, of a folder or file that becomes part of a model's name.
const LONGEST_PART: usize = 200;

/// A program that keeps models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Program {
    /// Ollama.
    Ollama,
    /// LM Studio.
    LmStudio,
    /// llama.cpp, which keeps what it has fetched by itself.
    LlamaCpp,
    /// Every program that fetches with Hugging Face's library.
    HuggingFace,
}

impl Program {
    /// All of them, in the order in which their models are listed.
    pub const ALL: [Program; 4] =
        [Program::Ollama, Program::LmStudio, Program::LlamaCpp, Program::HuggingFace];

    /// What its models' names begin with, before a colon. No name in the store holds a colon.
    pub fn prefix(self) -> &'static str {
        match self {
            Program::Ollama => "ollama",
            Program::LmStudio => "lmstudio",
            Program::LlamaCpp => "llamacpp",
            Program::HuggingFace => "huggingface",
        }
    }

    /// The program whose model has this name, and the rest of the name.
    pub fn of(name: &str) -> Option<(Program, &str)> {
        let (prefix, rest) = name.split_once(':')?;
        let program = Program::ALL.into_iter().find(|it| it.prefix() == prefix)?;
        Some((program, rest))
    }
}

impl std::fmt::Display for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Program::Ollama => "Ollama",
            Program::LmStudio => "LM Studio",
            Program::LlamaCpp => "llama.cpp",
            Program::HuggingFace => "Hugging Face",
        })
    }
}

/// A model of another program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elsewhere {
    /// [`Program::prefix`], a colon, and the name that the program gives it: `ollama:llama3.2:3b`.
    pub name: String,
    /// Whose it is.
    pub program: Program,
    /// Its file; of a model in parts the first, with the others beside it.
    pub path: PathBuf,
    /// Its size in bytes, of all parts.
    pub bytes: u64,
    /// First line of the licence that lies beside it.
    pub license: Option<String>,
    /// Why it does not run here, as far as its files tell it.
    pub lacks: Option<Lacks>,
}

/// What a model of another program needs and is not there, or is not read here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lacks {
    /// An adapter or other weights, which its program puts together with the first ones.
    Joining,
    /// A part of it, of this name.
    Part(String),
}

/// Where other programs keep their models.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Places(Vec<(Program, PathBuf)>);

impl Places {
    /// Where the programs of the person keep theirs whose environment this is.
    pub fn of_person() -> Places {
        Places::from_vars(|name| {
            std::env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from)
        })
    }

    /// [`of_person`](Self::of_person) by a lookup of variables; a relative folder is none.
    pub fn from_vars(var: impl Fn(&str) -> Option<PathBuf>) -> Places {
        let var = |name: &str| var(name).filter(|it| it.is_absolute());
        let home = var(if cfg!(windows) { "USERPROFILE" } else { "HOME" });
        let below = |part: &str| home.as_ref().map(|it| it.join(part));
        let cache = var("XDG_CACHE_HOME").or_else(|| below(".cache"));
        let cached = |part: &str| cache.as_ref().map(|it| it.join(part));
        let hub = var("HF_HUB_CACHE")
            .or_else(|| var("HF_HOME").map(|it| it.join("hub")))
            .or_else(|| cached("huggingface/hub"));
        let service =
            cfg!(target_os = "linux").then(|| PathBuf::from("/usr/share/ollama/.ollama/models"));
        let ollama = match var("OLLAMA_MODELS") {
            Some(given) => [Some(given), None],
            None => [below(".ollama/models"), service],
        };
        let places = [
            (Program::Ollama, ollama.to_vec()),
            (Program::LmStudio, vec![below(".lmstudio/models"), cached("lm-studio/models")]),
            (Program::LlamaCpp, vec![var("LLAMA_CACHE").or_else(|| cached("llama.cpp"))]),
            (Program::HuggingFace, vec![hub]),
        ];
        let all = places
            .into_iter()
            .flat_map(|(program, dirs)| dirs.into_iter().flatten().map(move |dir| (program, dir)));
        Places(all.collect())
    }

    /// One program's folder more.
    #[must_use]
    pub fn with(mut self, program: Program, dir: impl Into<PathBuf>) -> Places {
        self.0.push((program, dir.into()));
        self
    }

    /// Every model that is found, by program and name. A folder that can not be read has none.
    pub fn models(&self) -> Vec<Elsewhere> {
        let mut models: Vec<Elsewhere> = Vec::new();
        for (program, dir) in &self.0 {
            let Ok(root) = dir.canonicalize() else { continue };
            let mut found = match program {
                Program::Ollama => ollama(&root),
                Program::LmStudio => files(*program, &root, 3, lm_studio_name),
                Program::LlamaCpp => files(*program, &root, 1, plain_name),
                Program::HuggingFace => files(*program, &root, 5, hub_name),
            };
            found.sort_by(|a, b| a.name.cmp(&b.name));
            // The same model in two folders of a program: its own settings decide, and they come first.
            found.dedup_by(|a, b| a.name == b.name);
            found.retain(|it| !models.iter().any(|other| other.name == it.name));
            models.extend(found);
        }
        models
    }

    /// The model of that name.
    pub fn find(&self, name: &str) -> Option<Elsewhere> {
        Program::of(name)?;
        self.models().into_iter().find(|it| it.name == name)
    }
}

/// `manifests/…` of Ollama: <https://github.com/ollama/ollama/blob/main/docs/api.md>, an image of layers.
#[derive(Deserialize)]
struct Manifest {
    #[serde(default)]
    layers: Vec<Layer>,
}

#[derive(Deserialize)]
struct Layer {
    #[serde(rename = "mediaType", default)]
    media_type: String,
    #[serde(default)]
    digest: String,
}

impl Manifest {
    fn layers_of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Layer> + 'a {
        self.layers.iter().filter(move |it| {
            it.media_type.strip_prefix("application/vnd.ollama.image.") == Some(kind)
        })
    }
}

fn ollama(root: &Path) -> Vec<Elsewhere> {
    let manifests = root.join("manifests");
    let mut looked_at = 0;
    let mut models = Vec::new();
    walk(&manifests, 4, &mut looked_at, &mut |parts, path| {
        let [host, space, name, tag] = parts else { return };
        let shown = match (host.as_str(), space.as_str()) {
            ("registry.ollama.ai", "library") => format!("{name}:{tag}"),
            ("registry.ollama.ai", space) => format!("{space}/{name}:{tag}"),
            (host, space) => format!("{host}/{space}/{name}:{tag}"),
        };
        models.extend(ollama_model(root, path, shown));
    });
    models
}

fn ollama_model(root: &Path, manifest: &Path, shown: String) -> Option<Elsewhere> {
    let manifest: Manifest = serde_json::from_slice(&start_of(manifest, LARGEST_MANIFEST)?).ok()?;
    let weights = manifest.layers_of("model").next()?;
    let (path, bytes) = gguf_file(root, &blob(root, &weights.digest)?)?;
    let license = manifest.layers_of("license").next();
    let license = license.and_then(|it| first_line(&inside(root, &blob(root, &it.digest)?)?));
    Some(Elsewhere {
        name: format!("{}:{shown}", Program::Ollama.prefix()),
        program: Program::Ollama,
        path,
        bytes,
        license,
        // Blobs have no names by which parts would find each other.
        lacks: (manifest.layers_of("adapter").next().is_some()
            || manifest.layers_of("model").nth(1).is_some())
        .then_some(Lacks::Joining),
    })
}

/// The file of a digest, `sha256:` and 64 digits: nothing else becomes a path.
fn blob(root: &Path, digest: &str) -> Option<PathBuf> {
    let hex = digest.strip_prefix("sha256:")?;
    let digits = hex.bytes().all(|it| it.is_ascii_digit() || (b'a'..=b'f').contains(&it));
    (hex.len() == 64 && digits).then(|| root.join("blobs").join(format!("sha256-{hex}")))
}

/// The GGUF files of a folder, at most `depth` levels down; `name` makes a model's name of the parts of a path.
fn files(
    program: Program,
    root: &Path,
    depth: usize,
    name: fn(&[String]) -> Option<String>,
) -> Vec<Elsewhere> {
    let mut models = Vec::new();
    let mut looked_at = 0;
    walk(root, depth, &mut looked_at, &mut |parts, path| {
        let Some(stem) = parts.last().and_then(|it| weights_stem(it)) else { return };
        let mut named = parts.to_vec();
        if let Some(last) = named.last_mut() {
            stem.clone_into(last);
        }
        let Some(name) = name(&named) else { return };
        let Some((path, bytes, lacks)) = whole_model(root, path) else { return };
        let name = format!("{}:{name}", program.prefix());
        models.push(Elsewhere { name, program, path, bytes, license: None, lacks });
    });
    models
}

/// Name of a file of weights without its ending. Of several parts the first stands for all; a projector of pictures
/// (`mmproj-…`) is no model.
fn weights_stem(file: &str) -> Option<&str> {
    let (stem, ending) = file.rsplit_once('.')?;
    if !ending.eq_ignore_ascii_case("gguf") || stem.to_ascii_lowercase().contains("mmproj") {
        return None;
    }
    match Part::of(file) {
        Some(part) => (part.number == 1).then_some(part.stem),
        None => Some(stem),
    }
}

/// The model whose file, or first part, this is: its path, the bytes of all its files, and the part that is missing.
/// Of a model in parts the path stays as it is, which may be a link, as Hugging Face's are: what it leads to has no
/// name by which the others would be found. Each part is compared with the program's folder as one file is.
fn whole_model(root: &Path, path: &Path) -> Option<(PathBuf, u64, Option<Lacks>)> {
    let (file, mut bytes) = gguf_file(root, path)?;
    let part = path.file_name().and_then(|it| it.to_str()).and_then(Part::of);
    let Some(part) = part.filter(|it| it.count > 1) else { return Some((file, bytes, None)) };
    for sibling in part.all().skip(1) {
        match gguf_file(root, &path.with_file_name(&sibling)) {
            Some((_, more)) => bytes = bytes.saturating_add(more),
            None => return Some((path.to_path_buf(), bytes, Some(Lacks::Part(sibling)))),
        }
    }
    Some((path.to_path_buf(), bytes, None))
}

fn plain_name(parts: &[String]) -> Option<String> {
    match parts {
        [stem] => Some(stem.clone()),
        _ => None,
    }
}

fn lm_studio_name(parts: &[String]) -> Option<String> {
    (parts.len() == 3).then(|| parts.join("/"))
}

/// Of `models--ORG--NAME/snapshots/COMMIT/[FOLDER/]STEM`: `ORG/NAME/STEM`.
fn hub_name(parts: &[String]) -> Option<String> {
    let [repository, snapshots, _, .., stem] = parts else { return None };
    let repository = repository.strip_prefix("models--").filter(|_| snapshots == "snapshots")?;
    (parts.len() > 3).then(|| format!("{}/{stem}", repository.replacen("--", "/", 1)))
}

/// Calls `at` for every file that is at most `depth` levels below `dir`, with the parts of its path. Folders are not
/// followed through links; names that are hidden or can not be shown are left out.
fn walk(dir: &Path, depth: usize, looked_at: &mut usize, at: &mut dyn FnMut(&[String], &Path)) {
    walk_in(dir, depth, looked_at, &mut Vec::new(), at);
}

fn walk_in(
    dir: &Path,
    depth: usize,
    looked_at: &mut usize,
    parts: &mut Vec<String>,
    at: &mut dyn FnMut(&[String], &Path),
) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        *looked_at += 1;
        if *looked_at > MOST_ENTRIES {
            return;
        }
        let Ok(name) = entry.file_name().into_string() else { continue };
        let shown = name.len() <= LONGEST_PART && !name.contains(char::is_control);
        if !shown || name.starts_with('.') {
            continue;
        }
        let is_folder = entry.file_type().is_ok_and(|it| it.is_dir());
        parts.push(name);
        if !is_folder {
            at(parts, &entry.path());
        } else if parts.len() < depth {
            walk_in(&entry.path(), depth, looked_at, parts, at);
        }
        parts.pop();
    }
}

/// The file that a path means, if it is one and lies below `root`.
fn inside(root: &Path, path: &Path) -> Option<PathBuf> {
    let path = path.canonicalize().ok()?;
    (path.starts_with(root) && path.is_file()).then_some(path)
}

/// The same for a file that begins as GGUF does, and its size.
fn gguf_file(root: &Path, path: &Path) -> Option<(PathBuf, u64)> {
    let path = inside(root, path)?;
    let bytes = fs::metadata(&path).ok()?.len();
    (start_of(&path, 4)? == b"GGUF").then_some((path, bytes))
}

/// The first bytes of a file.
fn start_of(path: &Path, most: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    File::open(path).ok()?.take(most).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// The first line of a licence that says something, cut where it is long.
fn first_line(path: &Path) -> Option<String> {
    let text = start_of(path, 4096)?;
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().map(str::trim).find(|it| !it.is_empty())?;
    Some(line.chars().filter(|it| !it.is_control()).take(64).collect())
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    const HEX: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn put(root: &Path, path: &str, content: &[u8]) -> PathBuf {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(&path, content).expect("written");
        path
    }

    fn layer(kind: &str, digest: &str) -> String {
        format!(
            r#"{{"mediaType":"application/vnd.ollama.image.{kind}","digest":"{digest}","size":9}}"#
        )
    }

    fn manifest(layers: &[String]) -> Vec<u8> {
        format!(r#"{{"schemaVersion":2,"config":{{}},"layers":[{}]}}"#, layers.join(","))
            .into_bytes()
    }

    fn names(program: Program, root: &Path) -> Vec<String> {
        Places::default().with(program, root).models().into_iter().map(|it| it.name).collect()
    }

    #[test]
    fn ollamas_manifests_lead_to_blobs() {
        let dir = TempDir::new().expect("a folder");
        let root = dir.path();
        let weights = layer("model", &format!("sha256:{HEX}"));
        let other = HEX.replace('0', "f");
        let license = layer("license", &format!("sha256:{other}"));
        put(root, &format!("blobs/sha256-{HEX}"), b"GGUF\x03\0\0\0");
        put(root, &format!("blobs/sha256-{other}"), b"\n  A LICENSE\nof many lines\n");
        let at = |it: &str| format!("manifests/{it}");
        let plain = manifest(&[weights.clone(), license]);
        let one = manifest(std::slice::from_ref(&weights));
        put(root, &at("registry.ollama.ai/library/llama3.2/3b"), &plain);
        put(root, &at("registry.ollama.ai/someone/tuned/latest"), &one);
        put(root, &at("hf.co/org/repo-GGUF/Q4_K_M"), &one);
        let adapted = manifest(&[weights, layer("adapter", &format!("sha256:{other}"))]);
        put(root, &at("registry.ollama.ai/library/adapted/latest"), &adapted);
        let places = Places::default().with(Program::Ollama, root);
        let found = places.models();
        let names: Vec<&str> = found.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "ollama:adapted:latest",
                "ollama:hf.co/org/repo-GGUF:Q4_K_M",
                "ollama:llama3.2:3b",
                "ollama:someone/tuned:latest"
            ]
        );
        assert_eq!(found[2].license.as_deref(), Some("A LICENSE"));
        assert_eq!((found[2].bytes, &found[2].lacks), (8, &None));
        assert_eq!(found[0].lacks, Some(Lacks::Joining));
        assert!(found[2].path.ends_with(format!("blobs/sha256-{HEX}")));
        assert_eq!(places.find("ollama:llama3.2:3b"), Some(found[2].clone()));
        assert_eq!(places.find("llama3.2:3b"), None);
    }

    #[test]
    fn what_a_manifest_says_is_not_trusted() {
        let dir = TempDir::new().expect("a folder");
        let outside = put(dir.path(), "outside.gguf", b"GGUF");
        let root = &dir.path().join("models");
        put(root, &format!("blobs/sha256-{HEX}"), b"not a model");
        let model = |digest: &str| manifest(&[layer("model", digest)]);
        for (tag, content) in [
            ("text", model(&format!("sha256:{HEX}"))),
            ("gone", model(&format!("sha256:{}", HEX.replace('0', "1")))),
            ("up", model("sha256:../../outside.gguf")),
            ("path", model(&outside.display().to_string())),
            ("short", model("sha256:00")),
            ("upper", model(&format!("sha256:{}", HEX.to_uppercase()))),
            ("empty", Vec::new()),
            ("none", manifest(&[])),
            ("list", b"[1, 2]".to_vec()),
            ("deep", [b"[".repeat(100_000), b"]".repeat(100_000)].concat()),
            ("binary", vec![0xff; 64]),
        ] {
            put(root, &format!("manifests/registry.ollama.ai/library/bad/{tag}"), &content);
        }
        put(root, "manifests/registry.ollama.ai/shallow", &model(&format!("sha256:{HEX}")));
        assert_eq!(names(Program::Ollama, root), [""; 0]);
        assert_eq!(names(Program::Ollama, &root.join("nowhere")), [""; 0]);
        #[cfg(unix)]
        {
            let link = root.join(format!("blobs/sha256-{}", HEX.replace('0', "2")));
            std::os::unix::fs::symlink(&outside, link).expect("linked");
            let content = model(&format!("sha256:{}", HEX.replace('0', "2")));
            put(root, "manifests/registry.ollama.ai/library/bad/link", &content);
            assert_eq!(names(Program::Ollama, root), [""; 0]);
        }
    }

    #[test]
    fn other_programs_keep_plain_files() {
        let dir = TempDir::new().expect("a folder");
        let root = dir.path();
        for path in [
            "org/Repo-GGUF/model-Q4_K_M.gguf",
            "org/Repo-GGUF/mmproj-model-f16.gguf",
            "org/Repo-GGUF/large-00001-of-00002.gguf",
            "org/Repo-GGUF/large-00002-of-00002.gguf",
            "org/Repo-GGUF/lost-00001-of-00003.gguf",
            "org/Repo-GGUF/lost-00003-of-00003.gguf",
            "org/Repo-GGUF/one-of-many.GGUF",
            "org/Repo-GGUF/README.md",
            "org/too-shallow.gguf",
            "org/a/b/too-deep.gguf",
            ".hidden/a/b.gguf",
        ] {
            put(root, path, b"GGUF");
        }
        put(root, "org/Repo-GGUF/torn.gguf", b"GGU");
        assert_eq!(
            names(Program::LmStudio, root),
            [
                "lmstudio:org/Repo-GGUF/large",
                "lmstudio:org/Repo-GGUF/lost",
                "lmstudio:org/Repo-GGUF/model-Q4_K_M",
                "lmstudio:org/Repo-GGUF/one-of-many"
            ]
        );
        let models = Places::default().with(Program::LmStudio, root).models();
        assert!(models[0].path.ends_with("large-00001-of-00002.gguf"));
        assert_eq!((models[0].bytes, models[2].bytes), (8, 4));
        let lost = Lacks::Part("lost-00002-of-00003.gguf".to_owned());
        let lacks = models.into_iter().map(|it| it.lacks).collect::<Vec<_>>();
        assert_eq!(lacks, [None, Some(lost), None, None]);
        put(root, "alone.gguf", b"GGUF");
        assert_eq!(names(Program::LlamaCpp, root), ["llamacpp:alone"]);
    }

    #[cfg(unix)]
    #[test]
    fn the_hubs_links_lead_to_blobs_of_their_own() {
        let dir = TempDir::new().expect("a folder");
        let root = &dir.path().join("hub");
        let blob = put(root, "models--org--name-GGUF/blobs/abc", b"GGUF");
        let outside = put(dir.path(), "secret.gguf", b"GGUF");
        let at = root.join("models--org--name-GGUF/snapshots/0123");
        fs::create_dir_all(&at).expect("made");
        std::os::unix::fs::symlink("../../blobs/abc", at.join("q8_0.gguf")).expect("linked");
        std::os::unix::fs::symlink(&outside, at.join("out.gguf")).expect("linked");
        std::os::unix::fs::symlink(root, at.join("round")).expect("linked");
        let found = Places::default().with(Program::HuggingFace, root).models();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].name, "huggingface:org/name-GGUF/q8_0");
        assert_eq!(found[0].path, blob.canonicalize().expect("there"));
    }

    #[cfg(unix)]
    #[test]
    fn parts_are_found_by_the_names_of_their_links() {
        use std::os::unix::fs::symlink;

        let dir = TempDir::new().expect("a folder");
        let root = &dir.path().join("hub");
        let outside = put(dir.path(), "secret.gguf", b"GGUF");
        let at = root.join("models--org--name-GGUF/snapshots/0123/Q4_K_M");
        fs::create_dir_all(&at).expect("made");
        let name = |number: usize| format!("m-{number:05}-of-00003.gguf");
        for number in 1..=3 {
            let blob = format!("models--org--name-GGUF/blobs/blob{number}");
            put(root, &blob, &[b"GGUF".as_slice(), &[0; 10][..number]].concat());
            let link = at.join(name(number));
            symlink(format!("../../../blobs/blob{number}"), link).expect("linked");
        }
        let places = Places::default().with(Program::HuggingFace, root);
        let found = places.models();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].name, "huggingface:org/name-GGUF/m");
        assert_eq!((found[0].bytes, &found[0].lacks), (18, &None));
        assert!(found[0].path.ends_with(Path::new("Q4_K_M").join(name(1))), "{found:?}");
        // A link that leads out of the program's folder is none of its parts.
        fs::remove_file(at.join(name(2))).expect("removed");
        symlink(&outside, at.join(name(2))).expect("linked");
        assert_eq!(places.models()[0].lacks, Some(Lacks::Part(name(2))));
    }

    #[test]
    fn the_environment_says_where() {
        let vars = |pairs: &'static [(&'static str, &'static str)]| {
            Places::from_vars(|name| {
                pairs.iter().find(|it| it.0 == name).map(|it| PathBuf::from(it.1))
            })
            .0
        };
        assert_eq!(vars(&[]).iter().filter(|it| it.0 != Program::Ollama).count(), 0);
        let set = vars(&[
            ("HOME", "/home/p"),
            ("USERPROFILE", "/home/p"),
            ("OLLAMA_MODELS", "/big/ollama"),
            ("HF_HOME", "/big/hf"),
            ("LLAMA_CACHE", "relative"),
        ]);
        let of = |program| {
            let dirs = set.iter().filter(|it| it.0 == program).map(|it| it.1.clone());
            dirs.collect::<Vec<_>>()
        };
        if cfg!(unix) {
            assert_eq!(of(Program::Ollama), [PathBuf::from("/big/ollama")]);
            assert_eq!(of(Program::HuggingFace), [PathBuf::from("/big/hf/hub")]);
            assert_eq!(of(Program::LlamaCpp), [PathBuf::from("/home/p/.cache/llama.cpp")]);
            assert_eq!(of(Program::LmStudio)[0], PathBuf::from("/home/p/.lmstudio/models"));
        }
    }
}
