//! Calibrations of rerankers: kept in the home, looked up by what the user wants.
//!
//! A calibration belongs to the model's files and not to its name: it lies in the home under the model's
//! [`fingerprint`], because model folders may be read-only or checksummed, and a model that changes has none.

use std::{
    fs::File,
    io::{Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
};

use riddle_grating::{CALIBRATION_VERSION, Calibration};
use riddle_types::{Advice, Trouble};

use crate::{
    contract::{Error, Result},
    home::Config,
};

/// Bytes that are read at each place of a large file.
const BLOCK: u64 = 64 << 10;

/// Places of a large file that are read, evenly spread from the first byte to the last. Training moves every
/// weight, so any of them tells two models apart; the first block alone would not, because the header of two
/// models of one architecture is the same.
const BLOCKS: u64 = 64;

/// Files beside the weights that change scores.
const BESIDE_WEIGHTS: [&str; 3] = ["config.json", "tokenizer.json", "tokenizer_config.json"];

/// Endings of documents and of what the model store notes down, which change no score. Whatever else lies in
/// a model's folder may be weights.
const NO_WEIGHTS: [&str; 5] = ["md", "txt", "json", "toml", "lock"];

/// Name of a calibration that came with a model, in its folder.
pub(super) const BESIDE_MODEL: &str = "calibration.json";

/// The calibration of a model: the home's, else one that came with the model; `None` if nobody has made one of these
/// files.
///
/// # Errors
/// When there is no such model, or the calibration can not be read.
pub fn calibration(config: &Config, model: &str) -> Result<Option<Calibration>> {
    let dir = config.model_dir(model)?;
    let fingerprint = fingerprint(&dir)?;
    let own = file(config, &fingerprint);
    let path = if own.exists() { own } else { dir.join(BESIDE_MODEL) };
    let text = match std::fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(Error::Io { path, source }),
    };
    let broken = |why: String| {
        let advice = Advice::CalibrateModel { model: model.to_owned() };
        Error::BadRequest(Trouble::with(format!("{}: {why}", path.display()), advice))
    };
    // The version first: another one may have other fields.
    let value: serde_json::Value =
        serde_json::from_slice(&text).map_err(|error| broken(error.to_string()))?;
    if value["version"] != CALIBRATION_VERSION {
        return Err(broken("the calibration is of another version of riddle".to_owned()));
    }
    let calibration: Calibration =
        serde_json::from_value(value).map_err(|error| broken(error.to_string()))?;
    if calibration.fingerprint != fingerprint {
        return Err(broken("the calibration is of another model".to_owned()));
    }
    Ok(Some(calibration))
}

pub(super) fn file(config: &Config, fingerprint: &str) -> PathBuf {
    config.calibrations_dir().join(format!("{fingerprint}.json"))
}

/// Writes beside and renames: a reader sees the old one or the new one.
pub(super) fn keep(path: &Path, calibration: &Calibration) -> Result<()> {
    let io = |source| Error::Io { path: path.to_owned(), source };
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(io)?;
    let mut value = serde_json::to_value(calibration).map_err(|error| io(error.into()))?;
    shorten(&mut value);
    let text = serde_json::to_vec(&value).map_err(|error| io(error.into()))?;
    let beside = path.with_extension(format!("json.{}", std::process::id()));
    std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, path)).map_err(|error| {
        // What could not be put in place is of no use; the first error is the one that counts.
        let _ = std::fs::remove_file(&beside);
        io(error)
    })
}

/// Means over some hundred requests, which are right to the third digit; written in full they are half of the file.
/// What decides, thresholds and risks, stays as it is.
const MEANS: [&str; 6] = [
    "precision",
    "precision_bound",
    "requests_changed",
    "candidate_layers_share",
    "layers_run",
    "latency_share",
];

/// Cuts means after the fifth digit: a precision is never more than was measured.
fn shorten(value: &mut serde_json::Value) {
    use serde_json::Value;
    match value {
        Value::Array(all) => all.iter_mut().for_each(shorten),
        Value::Object(fields) => {
            for (name, field) in fields.iter_mut() {
                match field.as_f64().filter(|_| field.is_f64()) {
                    Some(mean) if MEANS.contains(&name.as_str()) => {
                        *field = Value::from((mean * 1e5).floor() / 1e5);
                    }
                    // As few digits as tell an f32 from its neighbors.
                    Some(number) if f64::from(number as f32) == number => {
                        *field = (number as f32)
                            .to_string()
                            .parse::<f64>()
                            .map_or(Value::Null, Value::from);
                    }
                    Some(_) => {}
                    None => shorten(field),
                }
            }
        }
        _ => {}
    }
}

/// Identity of a model's files: BLAKE3 over names, sizes and contents of the configuration, the tokenizer and
/// the weights, of files above 4 MiB a sample of 64 blocks of 64 KiB from the first byte to the last.
///
/// # Errors
/// When a file can not be read.
pub fn fingerprint(dir: &Path) -> Result<String> {
    let io = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::Io { path, source }
    };
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(io(dir))? {
        let entry = entry.map_err(io(dir))?;
        let name = entry.file_name();
        let ending = Path::new(&name).extension().and_then(|it| it.to_str()).unwrap_or("");
        let weights = !NO_WEIGHTS.contains(&ending) && !name.as_encoded_bytes().starts_with(b".");
        // Through links: stores link into their caches.
        if (weights || BESIDE_WEIGHTS.iter().any(|it| name == *it)) && entry.path().is_file() {
            names.push(name);
        }
    }
    // A head of modules decides scores as much as the weights do. A list that can not be read is told when the model is
    // opened.
    names.extend(riddle_grating::module_files(dir).unwrap_or_default().into_iter().map(Into::into));
    names.sort();
    let mut hash = blake3::Hasher::new();
    for name in names {
        let path = dir.join(&name);
        hash.update(&(name.len() as u64).to_le_bytes());
        hash.update(name.as_encoded_bytes());
        hash_file(&path, &mut hash).map_err(io(&path))?;
    }
    Ok(hash.finalize().to_hex()[..32].to_owned())
}

fn hash_file(path: &Path, hash: &mut blake3::Hasher) -> std::io::Result<()> {
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    hash.update(&size.to_le_bytes());
    let mut block = Vec::with_capacity(BLOCK as usize);
    let mut read = |at: u64| -> std::io::Result<()> {
        file.seek(SeekFrom::Start(at))?;
        block.clear();
        (&mut file).take(BLOCK).read_to_end(&mut block)?;
        hash.update(&block);
        Ok(())
    };
    if size <= BLOCK * BLOCKS {
        return (0..size.div_ceil(BLOCK)).try_for_each(|it| read(it * BLOCK));
    }
    // 128 bits: 63 times the size of a file may be more than 64 hold, on paper.
    let place =
        |it: u64| (u128::from(size - BLOCK) * u128::from(it) / u128::from(BLOCKS - 1)) as u64;
    (0..BLOCKS).try_for_each(|it| read(place(it)))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use riddle_types::Advised as _;
    use tempfile::TempDir;

    use super::*;

    fn model(weights: &[u8]) -> TempDir {
        let dir = TempDir::new().expect("a temporary folder");
        fs::write(dir.path().join("config.json"), "{}").expect("written");
        fs::write(dir.path().join("model.safetensors"), weights).expect("written");
        dir
    }

    #[test]
    fn the_fingerprint_changes_with_what_changes_scores() {
        let print = |dir: &TempDir| fingerprint(dir.path()).expect("a fingerprint");
        let large = |at: usize| {
            let mut bytes = vec![0u8; 5 << 20];
            bytes[at] = 1;
            bytes
        };
        let small = model(b"weights");
        let before = print(&small);
        assert_eq!(before, print(&model(b"weights")), "of the content, not of the folder");
        assert_ne!(before, print(&model(b"weighty")));
        assert_ne!(before, print(&model(b"weights ")));
        // Neither a header alone nor a size.
        assert_ne!(print(&model(&large(0))), print(&model(&large((5 << 20) - 1))));
        fs::write(small.path().join("README.md"), "read me").expect("written");
        fs::write(small.path().join(".riddle.json"), "{}").expect("written");
        assert_eq!(before, print(&small));
        fs::write(small.path().join("tokenizer.json"), "{}").expect("written");
        assert_ne!(before, print(&small));
        assert!(fingerprint(&small.path().join("nowhere")).is_err());
    }

    #[test]
    fn means_are_written_with_five_digits_and_what_decides_in_full() {
        let mut value = serde_json::json!({"tables": [{"threshold": 0.123_456_79,
            "precision": 0.989_999_9, "latency_share": null, "result_risk": 0.001_234_567,
            "factor": f64::from(0.3_f32), "queries": 384}]});
        shorten(&mut value);
        let expected = serde_json::json!({"tables": [{"threshold": 0.123_456_79,
            "precision": 0.98999, "latency_share": null, "result_risk": 0.001_234_567,
            "factor": 0.3, "queries": 384}]});
        assert_eq!(value, expected);
    }

    #[test]
    fn a_file_that_is_no_calibration_is_told() {
        let home = TempDir::new().expect("a temporary folder");
        let config = Config::new(home.path());
        let model = model(b"weights");
        let name = model.path().to_str().expect("UTF-8");
        let told = || {
            let error = calibration(&config, name).expect_err("refused");
            format!("{error}: {:?}", error.advice())
        };
        assert_eq!(calibration(&config, name).expect("there is none"), None);
        let fingerprint = fingerprint(model.path()).expect("a fingerprint");
        let path = file(&config, &fingerprint);
        fs::create_dir(path.parent().expect("a folder")).expect("made");
        for (text, word) in [
            ("{", "EOF"),
            ("{\"version\": 99}", "another version"),
            ("{\"version\": 1}", "missing"),
        ] {
            fs::write(&path, text).expect("written");
            let told = told();
            assert!(told.contains(word) && told.contains("CalibrateModel"), "{told}");
        }
        // One that came with the model counts where the home has none.
        fs::remove_file(&path).expect("removed");
        fs::write(model.path().join(BESIDE_MODEL), "{\"version\": 99}").expect("written");
        assert!(told().contains("another version"));
    }
}
