//! Files of a model: which kinds are taken, whether their bytes are what the name says, and writing them so
//! that a crash leaves either all or nothing.

use std::{
    fs::{self, File},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use crate::{Error, Format, Kind, Result, name, parts, parts::Part};

/// Largest configuration or tokenizer file: the largest vocabularies in use take some 35 MiB.
pub(crate) const LARGEST_TEXT: u64 = 128 << 20;

/// Largest header of a safetensors file; the format's own limit.
const LARGEST_HEADER: u64 = 100 << 20;

/// Name of our own store in a model's folder, and how it begins; `riddle-weights` writes it.
pub(crate) const STORE_FILE: &str = "model.riddle";
const STORE_MAGIC: &[u8] = b"RDLSTORE";

/// Deepest folder that is looked at in a model's folder.
const DEEPEST: usize = 4;

/// Most files and folders that are looked at in a model's folder: a model has some dozen, and a home
/// folder that was given by mistake has millions.
const MOST_ENTRIES: usize = 10_000;

/// What a file is for, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// Weights.
    Weights(Format),
    /// Raw numbers beside an ONNX graph that is too large for one file.
    OnnxData,
    /// Configuration or vocabulary in JSON.
    Json,
    /// Vocabulary or note in plain text.
    Text,
    /// Can run code when it is loaded or opened.
    Executable,
    /// Everything else.
    Other,
}

/// Endings of files that run code: pickle in its many names, programs, libraries, and formats that can
/// hold either (NumPy's arrays of objects, Keras' lambda layers).
const EXECUTABLE: [&str; 25] = [
    "bin", "pt", "pth", "ckpt", "pkl", "pickle", "joblib", "npy", "npz", "h5", "keras", "pb", "py",
    "pyc", "so", "dll", "dylib", "exe", "sh", "bat", "cmd", "ps1", "js", "jar", "mar",
];

impl Class {
    pub(crate) fn of(path: &str) -> Class {
        let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
        // The last form is what the exporter of BAAI/bge-m3 wrote.
        if name.ends_with(".onnx_data")
            || name.ends_with(".onnx.data")
            || (name.starts_with("constant_") && name.ends_with("_attr__value"))
        {
            return Class::OnnxData;
        }
        match name.rsplit_once('.').map_or("", |it| it.1) {
            "safetensors" => Class::Weights(Format::Safetensors),
            "gguf" => Class::Weights(Format::Gguf),
            "riddle" if path == STORE_FILE => Class::Weights(Format::Riddle),
            "onnx" => Class::Weights(Format::Onnx),
            "json" => Class::Json,
            // ColBERT's settings of queries and texts.
            "metadata" if path == "artifact.metadata" => Class::Json,
            "txt" => Class::Text,
            ending if EXECUTABLE.contains(&ending) => Class::Executable,
            _ => Class::Other,
        }
    }

    pub(crate) fn is_taken(self) -> bool {
        !matches!(self, Class::Executable | Class::Other)
    }
}

/// Checks that a file's bytes are what its name says, as far as can be told without reading it all.
///
/// # Errors
/// When they are not, or the file can not be read.
pub(crate) fn check_content(path: &Path, class: Class) -> Result<()> {
    let mut file = File::open(path).map_err(Error::io(path))?;
    let size = file.metadata().map_err(Error::io(path))?.len();
    let mut start = [0; 9];
    let read = read_start(&mut file, &mut start).map_err(Error::io(path))?;
    let start = &start[..read];
    let fail = |why: String| Err(Error::Content { path: path.to_path_buf(), why });
    match class {
        Class::Weights(Format::Safetensors) => match safetensors_fault(path, start, size)? {
            Some(why) => fail(why),
            None => Ok(()),
        },
        Class::Weights(Format::Gguf) if !start.starts_with(b"GGUF") => {
            fail("it does not start as a GGUF file".to_owned())
        }
        Class::Weights(Format::Riddle) if !start.starts_with(STORE_MAGIC) => {
            fail("it does not start as a store of this program".to_owned())
        }
        // A protobuf message whose first field is the version: the writers in use all begin so.
        Class::Weights(Format::Onnx) if !start.starts_with(&[0x08]) => {
            fail("it does not start as an ONNX file".to_owned())
        }
        Class::OnnxData if start.starts_with(b"PK\x03\x04") => fail("it is an archive".to_owned()),
        Class::Json | Class::Text if size > LARGEST_TEXT => {
            Err(Error::TooLarge { what: path.display().to_string(), size, limit: LARGEST_TEXT })
        }
        Class::Json => {
            let bytes = fs::read(path).map_err(Error::io(path))?;
            match serde_json::from_slice::<serde::de::IgnoredAny>(&bytes) {
                Ok(_) => Ok(()),
                Err(error) => fail(format!("it is not JSON ({error})")),
            }
        }
        Class::Text if std::str::from_utf8(&fs::read(path).map_err(Error::io(path))?).is_err() => {
            fail("it is not text in UTF-8".to_owned())
        }
        _ => Ok(()),
    }
}

fn read_start(file: &mut File, start: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < start.len() {
        match file.read(&mut start[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}

/// safetensors: 8 bytes of header length, the header in JSON, the tensors without a gap to the end.
fn safetensors_fault(path: &Path, start: &[u8], size: u64) -> Result<Option<String>> {
    #[derive(serde::Deserialize)]
    struct Tensor {
        data_offsets: (u64, u64),
    }
    let Some(length) = start.first_chunk::<8>().map(|it| u64::from_le_bytes(*it)) else {
        return Ok(Some("it is too short for a safetensors file".to_owned()));
    };
    if start.get(8) != Some(&b'{') || length > LARGEST_HEADER || length > size.saturating_sub(8) {
        return Ok(Some("it does not start as a safetensors file".to_owned()));
    }
    let mut file = File::open(path).map_err(Error::io(path))?;
    let mut header = Vec::new();
    io::Seek::seek(&mut file, io::SeekFrom::Start(8))
        .and_then(|_| file.take(length).read_to_end(&mut header))
        .map_err(Error::io(path))?;
    let header: std::collections::BTreeMap<String, serde_json::Value> =
        match serde_json::from_slice(&header) {
            Ok(header) => header,
            Err(error) => return Ok(Some(format!("its header is not JSON ({error})"))),
        };
    let mut end = 0;
    for (name, value) in header {
        if name != "__metadata__" {
            match serde_json::from_value::<Tensor>(value) {
                Ok(tensor) => end = end.max(tensor.data_offsets.1),
                Err(error) => {
                    return Ok(Some(format!("its tensor {name} is not described ({error})")));
                }
            }
        }
    }
    let promised = end.checked_add(8 + length);
    Ok((promised != Some(size))
        .then(|| format!("it has {size} bytes where its header promises {end} after the header")))
}

/// What a folder's model is, from its configuration: the weights' format, and what the model does.
///
/// # Errors
/// When there are no weights.
pub(crate) fn describe(dir: &Path, name: &str, paths: &[String]) -> Result<(Kind, Format)> {
    let has = |format, below: bool| {
        let is_own = |it: &&String| below || format == Format::Onnx || !it.contains('/');
        paths.iter().filter(is_own).any(|it| Class::of(it) == Class::Weights(format))
    };
    let formats = [Format::Safetensors, Format::Riddle, Format::Onnx, Format::Gguf];
    // What lies in a folder below may be a module of the model, and not the model, unless it is the first one.
    let module = first_module(dir);
    let is_first = module
        .as_ref()
        .is_some_and(|it| paths.iter().any(|path| *path == format!("{it}/model.safetensors")));
    let own = formats.into_iter().find(|it| has(*it, false));
    let own = if is_first && own.is_none_or(|it| it == Format::Onnx) {
        Some(Format::Safetensors)
    } else {
        own
    };
    let Some(format) = own.or_else(|| formats.into_iter().find(|it| has(*it, true))) else {
        return Err(Error::NotAModel {
            name: name.to_owned(),
            why: "it has no .safetensors, .onnx or .gguf file and no model.riddle".to_owned(),
        });
    };
    if format == Format::Gguf {
        return Ok((Kind::Llm, format));
    }
    #[derive(serde::Deserialize, Default)]
    struct Config {
        #[serde(default)]
        architectures: Vec<String>,
    }
    let config: Config = settings(&match module {
        Some(module) if !dir.join("config.json").is_file() => dir.join(module).join("config.json"),
        _ => dir.join("config.json"),
    });
    let is = |ending: &str| config.architectures.iter().any(|it| it.ends_with(ending));
    // Decoders that rerank are causal language models by their class: only the name tells Qwen3-Reranker from
    // Qwen3. MiniCPM's has a class of its own.
    let layerwise = config.architectures.iter().any(|it| it.starts_with("LayerWise"));
    let name = name.to_lowercase();
    let named = name.contains("rerank") || name.contains("zerank");
    // Listwise rerankers are none that run here, and are told so where one is chosen.
    let ranks = ["ForSequenceClassification", "ForRanking", "HF_ColBERT"].into_iter().any(is);
    let by_class = ranks || layerwise;
    let kind = if by_class || (named && is("ForCausalLM")) || saved_as_reranker(dir) {
        Kind::Reranker
    } else if is("ForCausalLM") && !paths.iter().any(|it| it == "modules.json") {
        Kind::Llm
    } else if is("ForMaskedLM") && paths.iter().all(|it| it != "1_Pooling/config.json") {
        // Embedders are often published with the class that they were begun from, and say how they pool.
        Kind::SparseEncoder
    } else {
        Kind::Embedder
    };
    Ok((kind, format))
}

/// A small JSON file, or what stands for one that says nothing.
fn settings<T: serde::de::DeserializeOwned + Default>(path: &Path) -> T {
    let small = fs::metadata(path).is_ok_and(|it| it.is_file() && it.len() <= 1 << 20);
    small
        .then(|| fs::read(path).ok().and_then(|it| serde_json::from_slice(&it).ok()))
        .flatten()
        .unwrap_or_default()
}

/// A module of sentence-transformers, as its list names it.
#[derive(serde::Deserialize)]
struct Module {
    #[serde(default)]
    path: String,
    #[serde(default, rename = "type")]
    class: String,
}

fn modules(dir: &Path) -> Vec<Module> {
    settings(&dir.join("modules.json"))
}

/// The folder of the first module, which is the model itself, where it has one of its own.
fn first_module(dir: &Path) -> Option<String> {
    let first = modules(dir).into_iter().next()?.path;
    (first != "." && name::file_fault(&first).is_none()).then_some(first)
}

/// The files of a folder's language models: of each one, of a model in parts the first. They may lie in folders below.
///
/// # Errors
/// When the folder can not be read.
pub fn language_model_files(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found: Vec<String> = walk(dir)?
        .into_iter()
        .filter(|it| Class::of(it) == Class::Weights(Format::Gguf) && !parts::is_later(it))
        .collect();
    found.sort();
    Ok(found.into_iter().map(|it| dir.join(it)).collect())
}

/// The files of the language model in `path`: that one, or all parts where it is named as one of several.
pub fn model_parts(path: &Path) -> Vec<PathBuf> {
    match path.file_name().and_then(|it| it.to_str()).and_then(Part::of) {
        Some(part) if Class::of(&path.to_string_lossy()) == Class::Weights(Format::Gguf) => {
            part.all().map(|it| path.with_file_name(it)).collect()
        }
        _ => vec![path.to_path_buf()],
    }
}

/// Whether sentence-transformers has saved a cross-encoder here, whose model may be one that embeds, with a head in
/// folders beside it, or PyLate a late interaction, which has a vector for each token.
fn saved_as_reranker(dir: &Path) -> bool {
    #[derive(serde::Deserialize, Default)]
    struct Saved {
        #[serde(default)]
        model_type: String,
        #[serde(default)]
        similarity_fn_name: Option<String>,
    }
    #[derive(serde::Deserialize, Default)]
    struct Dense {
        #[serde(default)]
        module_output_name: Option<String>,
    }
    let saved: Saved = settings(&dir.join("config_sentence_transformers.json"));
    let modules = modules(dir);
    let names_scores = |module: &Module| {
        let inside = !module.path.is_empty() && name::file_fault(&module.path).is_none();
        let dense: Dense = if inside {
            settings(&dir.join(&module.path).join("config.json"))
        } else {
            Dense::default()
        };
        dense.module_output_name.as_deref() == Some("scores")
    };
    matches!(saved.model_type.as_str(), "CrossEncoder" | "ColBERT")
        || saved.similarity_fn_name.as_deref() == Some("MaxSim")
        || modules.iter().any(|it| {
            it.class.starts_with("pylate.") || it.class.ends_with("LogitScore") || names_scores(it)
        })
}

/// Writes a new file and waits until it is on disk.
pub(crate) fn write_synced(path: &Path, bytes: &[u8]) -> Result<()> {
    File::create(path)
        .and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        })
        .map_err(Error::io(path))
}

/// Makes renames in a folder last. Windows has no such call and needs none.
pub(crate) fn sync_dir(dir: &Path) -> Result<()> {
    if cfg!(unix) {
        File::open(dir).and_then(|it| it.sync_all()).map_err(Error::io(dir))?;
    }
    Ok(())
}

pub(crate) fn create_dir(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).map_err(Error::io(dir))
}

/// Removes a folder or file with all that is in it; nothing there is fine.
pub(crate) fn remove_all(path: &Path) -> Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.map_err(Error::io(path)),
    }
}

/// Checks that `needed` bytes fit on the disk of `dir`, which exists.
pub(crate) fn check_space(dir: &Path, needed: u64) -> Result<()> {
    // Room that is left for everybody else: a disk that is filled to the last byte stops other programs.
    const MARGIN: u64 = 64 << 20;
    let needed = needed.saturating_add(MARGIN);
    let available = fs4::available_space(dir).map_err(Error::io(dir))?;
    if available < needed {
        return Err(Error::NoSpace { path: dir.to_path_buf(), needed, available });
    }
    Ok(())
}

/// Relative paths of all files below a folder, written with `/`; hidden ones, links to folders and names
/// that are not UTF-8 are left out.
pub(crate) fn walk(dir: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut folders = vec![(dir.to_path_buf(), String::new())];
    let mut seen = 0;
    while let Some((folder, prefix)) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(Error::io(&folder))? {
            let entry = entry.map_err(Error::io(&folder))?;
            seen += 1;
            if seen > MOST_ENTRIES {
                return Err(Error::NotAModel {
                    name: dir.display().to_string(),
                    why: format!("the folder holds more than {MOST_ENTRIES} files"),
                });
            }
            let file_name = entry.file_name();
            let Some(file_name) = file_name.to_str().filter(|it| !it.starts_with('.')) else {
                continue;
            };
            let path = format!("{prefix}{file_name}");
            let kind = entry.file_type().map_err(Error::io(entry.path()))?;
            if kind.is_dir() && path.split('/').count() < DEEPEST {
                folders.push((entry.path(), format!("{path}/")));
            } else if kind.is_file() || (kind.is_symlink() && entry.path().is_file()) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, bytes: &[u8]) -> Result<()> {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join(name);
        fs::write(&path, bytes).expect("write");
        check_content(&path, Class::of(name))
    }

    fn safetensors(header: &str, data: usize) -> Vec<u8> {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(header.as_bytes());
        bytes.resize(bytes.len() + data, 0);
        bytes
    }

    #[test]
    fn names_say_what_files_are() {
        assert_eq!(Class::of("a/Model.SAFETENSORS"), Class::Weights(Format::Safetensors));
        assert_eq!(Class::of("onnx/model.onnx_data"), Class::OnnxData);
        assert_eq!(Class::of("onnx/Constant_7_attr__value"), Class::OnnxData);
        assert_eq!(Class::of("vocab.txt"), Class::Text);
        assert_eq!(Class::of("artifact.metadata"), Class::Json);
        assert_eq!(Class::of("below/artifact.metadata"), Class::Other);
        assert_eq!(Class::of("model.riddle"), Class::Weights(Format::Riddle));
        assert_eq!(Class::of("other.riddle"), Class::Other);
        for name in
            ["pytorch_model.bin", "x.pt", "a.PKL", "modeling.py", "w.ckpt", "model.json.pth"]
        {
            assert_eq!(Class::of(name), Class::Executable, "{name}");
        }
        for name in ["README.md", "json", "tokenizer.model", "safetensors"] {
            assert_eq!(Class::of(name), Class::Other, "{name}");
        }
    }

    #[test]
    fn a_sound_file_of_each_format_passes() {
        let header =
            r#"{"__metadata__":{"a":"b"},"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
        check("a.safetensors", &safetensors(header, 8)).expect("safetensors");
        check("a.gguf", b"GGUF\x03\0\0\0").expect("gguf");
        check("model.riddle", b"RDLSTORE\x01\0\0\0").expect("our own store");
        check("a.onnx", b"\x08\x09\x12").expect("onnx");
        check("a.json", b"{\"a\": [1]}").expect("json");
        check("a.txt", "Wörter\n".as_bytes()).expect("text");
    }

    #[test]
    fn a_file_that_is_not_what_its_name_says_is_refused() {
        let header = r#"{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
        let endless = [&u64::MAX.to_le_bytes()[..], b"{}"].concat();
        let overflow = safetensors(r#"{"w":{"data_offsets":[0,18446744073709551615]}}"#, 0);
        let cases: [(&str, &[u8]); 15] = [
            ("a.safetensors", b""),
            ("a.safetensors", b"\x80\x04pickle bytes"),
            ("a.safetensors", b"PK\x03\x04 an archive"),
            ("a.safetensors", &endless),
            ("a.safetensors", &overflow),
            ("a.safetensors", &safetensors(header, 7)),
            ("a.safetensors", &safetensors(header, 9)),
            ("a.safetensors", &safetensors("{nonsense", 8)),
            ("a.safetensors", &safetensors(r#"{"w":3}"#, 0)),
            ("model.riddle", b"RDLSTOR"),
            ("a.gguf", b"GGU"),
            ("a.onnx", b"PK\x03\x04"),
            ("a.onnx_data", b"PK\x03\x04"),
            ("a.json", b"<html>log in</html>"),
            ("a.txt", b"\xff\xfe\x00"),
        ];
        for (name, bytes) in cases {
            let error = check(name, bytes).expect_err(name);
            assert!(matches!(error, Error::Content { .. }), "{name}: {error}");
        }
    }

    #[test]
    fn the_configuration_tells_what_a_model_does() {
        let dir = tempfile::tempdir().expect("temp dir");
        let kind = |config: &str, paths: &[&str]| {
            fs::write(dir.path().join("config.json"), config).expect("write");
            let paths: Vec<String> = paths.iter().map(|it| (*it).to_owned()).collect();
            describe(dir.path(), "x", &paths)
        };
        let reranker = r#"{"architectures":["BertForSequenceClassification"]}"#;
        assert_eq!(
            kind(reranker, &["model.safetensors"]).expect("kind"),
            (Kind::Reranker, Format::Safetensors)
        );
        let alone = kind(reranker, &["config.json", "model.riddle"]).expect("kind");
        assert_eq!(alone, (Kind::Reranker, Format::Riddle));
        let both = kind(reranker, &["model.riddle", "model.safetensors"]).expect("kind");
        assert_eq!(both.1, Format::Safetensors, "what was published comes first");
        let layerwise = r#"{"architectures":["LayerWiseMiniCPMForCausalLM"]}"#;
        let layerwise = kind(layerwise, &["model.safetensors"]).expect("kind");
        assert_eq!(layerwise, (Kind::Reranker, Format::Safetensors));
        let listwise = r#"{"architectures":["JinaForRanking"]}"#;
        assert_eq!(kind(listwise, &["model.safetensors"]).expect("kind").0, Kind::Reranker);
        let decoder = r#"{"architectures":["Qwen3ForCausalLM"]}"#;
        assert_eq!(kind(decoder, &["model.safetensors"]).expect("kind").0, Kind::Llm);
        let weights = ["model.safetensors".to_owned()];
        let named = describe(dir.path(), "Qwen/Qwen3-Reranker-4B", &weights).expect("kind");
        assert_eq!(named.0, Kind::Reranker);
        for reranker in ["mixedbread-ai/mxbai-rerank-base-v2", "zeroentropy/zerank-1-small"] {
            let named = describe(dir.path(), reranker, &weights).expect("kind");
            assert_eq!(named.0, Kind::Reranker, "{reranker}");
        }
        assert_eq!(kind("{}", &["onnx/m.onnx"]).expect("kind"), (Kind::Embedder, Format::Onnx));
        assert_eq!(kind("no", &["m.gguf"]).expect("kind"), (Kind::Llm, Format::Gguf));
        assert!(kind("{}", &["config.json"]).is_err());
    }

    #[test]
    fn models_in_folders_below_are_described_and_found() {
        let dir = tempfile::tempdir().expect("temp dir");
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().expect("has one")).expect("folders");
            fs::write(path, text).expect("written");
        };
        let kind = || {
            let paths = walk(dir.path()).expect("a folder");
            describe(dir.path(), "x", &paths).expect("a model")
        };
        write("Q4_K_M/m-00001-of-00002.gguf", "GGUF");
        write("Q4_K_M/m-00002-of-00002.gguf", "GGUF");
        assert_eq!(kind(), (Kind::Llm, Format::Gguf));
        let files = || language_model_files(dir.path()).expect("a folder");
        let first = dir.path().join("Q4_K_M/m-00001-of-00002.gguf");
        assert_eq!(files(), std::slice::from_ref(&first));
        write("gguf/model.GGUF", "GGUF");
        assert_eq!(files(), [first, dir.path().join("gguf/model.GGUF")]);
        for folder in ["Q4_K_M", "gguf"] {
            fs::remove_dir_all(dir.path().join(folder)).expect("removed");
        }
        assert!(files().is_empty());

        write("modules.json", r#"[{"type":"st.Transformer","path":"0_Transformer"}]"#);
        write("0_Transformer/model.safetensors", "");
        write("0_Transformer/config.json", r#"{"architectures":["BertForMaskedLM"]}"#);
        assert_eq!(kind(), (Kind::SparseEncoder, Format::Safetensors), "its own configuration");
        write("1_Pooling/config.json", "{}");
        write("onnx/model.onnx", "");
        assert_eq!(kind(), (Kind::Embedder, Format::Safetensors));
        for path in ["../0_Transformer", "/etc", "", ".", "a/../b"] {
            write("modules.json", &format!(r#"[{{"type":"st.Transformer","path":"{path}"}}]"#));
            assert_eq!(first_module(dir.path()), None, "{path}");
            assert_eq!(kind().1, Format::Onnx);
        }
    }

    #[test]
    fn a_cross_encoder_whose_head_is_in_modules_reranks() {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
        let kind = |model: &str| {
            let dir = golden.join(model);
            describe(&dir, "a model", &walk(&dir).expect("a folder")).expect("a model").0
        };
        assert_eq!(kind("tiny-modular-reranker"), Kind::Reranker);
        for late in ["tiny-bert-colbert", "tiny-modernbert-colbert", "tiny-modernbert-late"] {
            assert_eq!(kind(late), Kind::Reranker, "{late}");
        }
        for embedder in ["tiny-modernbert-embedder", "tiny-gemma3-embedder", "tiny-static-embedder"]
        {
            assert_eq!(kind(embedder), Kind::Embedder, "{embedder}");
        }
        assert_eq!(kind("tiny-zerank-reranker"), Kind::Reranker);
        // Without the note of its kind, the output's name tells; a path out of the folder is not followed.
        let dir = tempfile::tempdir().expect("temp dir");
        fs::create_dir_all(dir.path().join("model/2_Dense")).expect("folders");
        fs::create_dir(dir.path().join("2_Dense")).expect("folder");
        let write = |path: &str, text: &str| fs::write(dir.path().join(path), text).expect("write");
        write("2_Dense/config.json", r#"{"module_output_name":"scores"}"#);
        let model = dir.path().join("model");
        let list = |path: &str| write("model/modules.json", &format!(r#"[{{"path":"{path}"}}]"#));
        list("../2_Dense");
        assert!(!saved_as_reranker(&model));
        list("2_Dense");
        assert!(!saved_as_reranker(&model));
        write("model/2_Dense/config.json", r#"{"module_output_name":"scores"}"#);
        assert!(saved_as_reranker(&model));
    }

    #[test]
    fn more_than_the_disk_has_is_refused() {
        let dir = tempfile::tempdir().expect("temp dir");
        check_space(dir.path(), 1).expect("room");
        let error = check_space(dir.path(), u64::MAX).expect_err("too much");
        assert!(matches!(error, Error::NoSpace { available, .. } if available > 0));
    }
}
