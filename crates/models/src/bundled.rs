//! Models that are part of the program: there without a network, put into the store when they are first asked for.

use crate::{
    FileRecord, Format, InstalledModel, Kind, ModelStore, Result, digest, files, manifest::Manifest,
};

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
    /// Languages that it was trained on (ISO 639-1).
    pub languages: &'static [&'static str],
    /// Path and content of every file.
    pub files: &'static [(&'static str, &'static [u8])],
}

/// What is said to be a bundled model's source.
const SOURCE: &str = "part of the program";

impl Bundled {
    /// Size of its files in bytes.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|it| it.1.len() as u64).sum()
    }
}

impl ModelStore {
    /// Puts a bundled model into the store, unless exactly it is there already. A model of the same name that
    /// came from elsewhere is the user's and stays.
    ///
    /// # Errors
    /// When the disk is full or may not be written, or another process changes the store.
    pub fn put_bundled(&self, model: &Bundled) -> Result<InstalledModel> {
        let present = self.in_store(model.name);
        if let Some(present) = present
            && (present.source != SOURCE || present.revision.as_deref() == Some(model.revision))
        {
            return Ok(present);
        }
        let lock = self.lock()?;
        let staged = self.partial().join(self.folder(model.name)?).join("bundled");
        files::remove_all(&staged)?;
        files::create_dir(&staged)?;
        files::check_space(&staged, model.bytes())?;
        let mut manifest = Manifest::new(model.name, model.kind, model.format, SOURCE.to_owned());
        manifest.revision = Some(model.revision.to_owned());
        manifest.license = Some(model.license.to_owned());
        for (path, content) in model.files {
            files::write_synced(&staged.join(path), content)?;
            manifest.files.push(FileRecord {
                path: (*path).to_owned(),
                size: content.len() as u64,
                sha256: digest::of_bytes(content),
            });
        }
        self.install(&lock, &staged, &manifest)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const FIRST: Bundled = Bundled {
        name: "small",
        kind: Kind::Reranker,
        format: Format::Safetensors,
        revision: "1",
        license: "apache-2.0",
        about: "a test",
        languages: &["en"],
        files: &[("config.json", b"{}"), ("model.safetensors", b"weights")],
    };

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
