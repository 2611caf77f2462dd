//! Models that are part of the program: there without a network, put into the store when they are first asked for.

use std::path::PathBuf;

use riddle_types::FileKind;

use crate::{Format, InstalledModel, Kind, catalog::said};

/// A model whose files are in the program.
#[derive(Debug, Clone, Copy)]
pub struct Bundled {
    /// Name in the store.
    pub name: &'static str,
    /// What it does.
    pub kind: Kind,
    /// How its weights are stored.
    pub format: Format,
    /// The beginning of the SHA-256 of its files; stated, because hashing them at every start would be felt.
    pub revision: &'static str,
    /// License.
    pub license: &'static str,
    /// What it is good for, in a sentence.
    pub about: &'static str,
    /// Path and content of every file.
    pub files: &'static [(&'static str, &'static [u8])],
}

/// Name of the reranker that searches use unless another one, or none, is chosen.
pub const DEFAULT_RERANKER: &str = "riddle-reranker";

/// What is said to be a bundled model's source.
pub(crate) const SOURCE: &str = said("part of the program");

macro_rules! file {
    ($model:literal, $path:literal) => {
        ($path, include_bytes!(concat!("../../../assets/models/", $model, "/", $path)))
    };
}

/// All of them. A static and not a constant, whose bytes would be in the program once for every crate that looks at
/// them.
pub static BUNDLED: &[Bundled] = &[Bundled {
    name: DEFAULT_RERANKER,
    kind: Kind::Reranker,
    format: Format::Riddle,
    revision: "f7de760aff2c008a",
    license: "apache-2.0",
    about: "English reranker, 4 layers; the default",
    files: &[
        file!("riddle-reranker", "calibration.json"),
        file!("riddle-reranker", "config.json"),
        file!("riddle-reranker", "model.riddle"),
        file!("riddle-reranker", "tokenizer.json"),
        file!("riddle-reranker", "tokenizer_config.json"),
    ],
}];

/// Kinds of files for which the card of the reranker of this name promises nothing.
pub fn unpromised(name: &str) -> &'static [FileKind] {
    // assets/models/riddle-reranker/README.md, limits.
    if name == DEFAULT_RERANKER { &[FileKind::Code, FileKind::Spreadsheet] } else { &[] }
}

/// The bundled model of that name.
pub(crate) fn bundled(name: &str) -> Option<&'static Bundled> {
    BUNDLED.iter().find(|it| it.name.eq_ignore_ascii_case(name))
}

/// Whether a model in the store came with the program.
pub(crate) fn is_bundled(model: &InstalledModel) -> bool {
    model.source == SOURCE
}

impl Bundled {
    /// As it is listed before its files are in `dir`.
    pub(crate) fn described(&self, dir: PathBuf) -> InstalledModel {
        InstalledModel {
            name: self.name.to_owned(),
            kind: self.kind,
            format: self.format,
            bytes: self.bytes(),
            license: Some(self.license.to_owned()),
            source: SOURCE.to_owned(),
            revision: Some(self.revision.to_owned()),
            pulled_at: None,
            dir,
        }
    }

    /// Size of its files in bytes.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|it| it.1.len() as u64).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{Error, ModelStore, digest};

    const FIRST: Bundled = Bundled {
        name: "small",
        kind: Kind::Reranker,
        format: Format::Safetensors,
        revision: "1",
        license: "apache-2.0",
        about: "a test",
        files: &[("config.json", b"{}"), ("model.safetensors", b"weights")],
    };

    #[test]
    fn what_is_bundled_is_what_it_says() {
        for model in BUNDLED {
            let mut contents: Vec<u8> = Vec::new();
            for (_, content) in model.files {
                contents.extend(digest::of_bytes(content).bytes());
            }
            let revision = &digest::of_bytes(&contents)[..16];
            assert_eq!(model.revision, revision, "state the revision of {}", model.name);
            assert!(model.bytes() <= 25 << 20, "{} has {} bytes", model.name, model.bytes());
        }
    }

    #[test]
    fn it_is_there_before_it_is_asked_for_and_its_files_after() {
        let dir = tempfile::tempdir().expect("tempdir");
        let store = ModelStore::open(&dir.path().join("models")).expect("store");
        let listed = store.list_all().expect("list");
        assert_eq!(listed.len(), BUNDLED.len());
        assert!(listed[0].name == DEFAULT_RERANKER && !listed[0].dir.exists());
        let found = store.find(DEFAULT_RERANKER).expect("there");
        assert!(found.dir.join("model.riddle").is_file());
        assert_eq!(InstalledModel { pulled_at: None, ..found }, listed[0]);
        assert!(store.verify(DEFAULT_RERANKER).expect("a record").bad.is_empty());
        assert_eq!(store.list_all().expect("list"), store.list().expect("list"));
        std::fs::write(found_again(&store).join("config.json"), "{}").expect("written");
        let advice = store.verify(DEFAULT_RERANKER).expect("a record").advice.expect("damaged");
        assert!(matches!(advice, riddle_types::Advice::RestoreModel { .. }), "{advice:?}");
        store.remove(DEFAULT_RERANKER).expect("removed");
        assert!(matches!(store.remove(DEFAULT_RERANKER), Err(Error::Bundled { .. })));
        found_again(&store);
        assert!(store.verify(DEFAULT_RERANKER).expect("a record").bad.is_empty());
    }

    fn found_again(store: &ModelStore) -> PathBuf {
        store.find(DEFAULT_RERANKER).expect("there").dir
    }

    #[test]
    fn it_is_put_there_once_and_replaced_by_a_newer_program() {
        let dir = tempfile::tempdir().expect("tempdir");
        let store = ModelStore::open(dir.path()).expect("store");
        let model = store.put_bundled(&FIRST).expect("put");
        assert_eq!((model.bytes, model.source.as_str()), (9, SOURCE));
        assert!(store.verify("small").expect("a record").bad.is_empty());
        let weights = model.dir.join("model.safetensors");
        fs::write(&weights, "changed").expect("write");
        store.put_bundled(&FIRST).expect("put again");
        assert_eq!(fs::read(&weights).expect("read"), b"changed", "nothing is written twice");
        let newer = Bundled { revision: "2", ..FIRST };
        store.put_bundled(&newer).expect("newer");
        assert_eq!(fs::read(&weights).expect("read"), b"weights");
        assert_eq!(store.list().expect("list").len(), 1);
    }

    #[test]
    fn a_model_of_the_users_under_that_name_stays() {
        let dir = tempfile::tempdir().expect("tempdir");
        let own = dir.path().join("small");
        fs::create_dir(&own).expect("mkdir");
        for (path, _) in FIRST.files {
            fs::write(own.join(path), "mine").expect("write");
        }
        fs::write(own.join("tokenizer.json"), "{}").expect("write");
        let store = ModelStore::open(dir.path()).expect("store");
        store.put_bundled(&FIRST).expect("left alone");
        assert_eq!(fs::read(own.join("config.json")).expect("read"), b"mine");
    }
}
