//! The encoders that passages are indexed with: which are wanted, and when they are opened.

use std::path::Path;

use riddle_models::{shortest_vectors, sparse_languages};
use riddle_types::{Embedder, Notice, SparseEncoder};

use super::Library;
use crate::{
    contract::{EmbedPrompts, Error, IndexReport, RemoteStage, Result, StageServer},
    home::{
        Config, cosines,
        embedder::{self, Encoder as _, encoder_name},
        embedding_server::{self, EmbeddingServer},
        settings::{
            EMBEDDED_WITH, EMBEDDED_WITH_ID, EMBEDDED_WITH_NUMBERS, EMBEDDED_WITH_WEIGHTS,
            EMBEDDER_NUMBERS, EMBEDDER_SETTING, NO_SPARSE_ENCODER, SPARSE_SETTING, WEIGHED_WITH,
            WEIGHED_WITH_WEIGHTS, keep_embedder_memory, numbers, wanted_embedder, wanted_sparse,
        },
    },
    index::{maker::Maker, pipeline::Sparse},
};

impl Library {
    /// The embedder for new vectors, by name or directory, or a [server](StageServer); the next update makes all
    /// vectors anew and then switches in one step.
    ///
    /// # Errors
    /// When there is no such model or it can not be used; as
    /// [`choose_embedding_server`](Self::choose_embedding_server).
    pub fn choose_embedder(&mut self, name: &str) -> Result<()> {
        if let Some(server) = StageServer::of(name) {
            return self.choose_embedding_server(&server, None).map(|_| ());
        }
        let dir = self.config.model_dir(name)?;
        embedder::open_dir::<dyn Embedder>(&self.config, &dir, None)?;
        self.keep_embedder(name, None)
    }

    /// The same, with the first `kept` numbers of each vector. Models that are trained for it say the most in the first
    /// ones; of others nothing is left of what texts have in common.
    ///
    /// # Errors
    /// As there; a model of which nobody says that it was trained so, in its files or in the catalog, or that was not
    /// trained for so few, or has no more.
    pub fn choose_shortened(&mut self, name: &str, kept: usize) -> Result<()> {
        let dir = self.config.model_dir(name)?;
        let whole = embedder::open_dir::<dyn Embedder>(&self.config, &dir, None)?;
        may_shorten(&dir, &*whole, kept)?;
        embedder::open_dir::<dyn Embedder>(&self.config, &dir, Some(kept))?;
        self.keep_embedder(name, Some(kept))
    }

    fn keep_embedder(&mut self, name: &str, kept: Option<usize>) -> Result<()> {
        let kept = kept.map(|it| it.to_string());
        // The one that is open may make longer vectors.
        self.embedder = None;
        self.catalog.set_setting(EMBEDDER_NUMBERS, kept.as_deref())?;
        Ok(self.catalog.set_setting(EMBEDDER_SETTING, Some(name))?)
    }

    /// Bytes that the embedder's weights, and what it computes with them, may take from now on, also where it is
    /// searched with; `None`: as much as it needs. Layers that do not fit are read while it computes, and vectors are
    /// the same to the bit.
    ///
    /// # Errors
    /// A budget that can not hold the embedder of this home; when the catalog can not be written.
    pub fn limit_embedder(&mut self, bytes: Option<u64>) -> Result<()> {
        let name = wanted_embedder(&self.catalog)?;
        let config = Config { embedder_memory: bytes, ..self.config.clone() };
        if bytes.is_some()
            && StageServer::of(&name).is_none()
            && let Ok(dir) = self.config.model_dir(&name)
        {
            let kept = numbers(&self.catalog, EMBEDDER_NUMBERS)?;
            <dyn Embedder>::open_in(&config, &dir, kept)?;
        }
        keep_embedder_memory(&self.catalog, bytes)?;
        self.embedder = None;
        self.config = config;
        Ok(())
    }

    /// Has a server embed from now on, with these prompts or those that models of its name are known to want. It is
    /// asked once, about nothing of the person's; what that has cost is returned. A model that was there at another
    /// address keeps its vectors.
    ///
    /// # Errors
    /// A server whose model is not named, that the home may not be sent to, or that does not answer; another model
    /// under the name of the one that made the vectors.
    pub fn choose_embedding_server(
        &mut self,
        server: &StageServer,
        prompts: Option<EmbedPrompts>,
    ) -> Result<RemoteStage> {
        // The one that is open may be of the same name and other prompts.
        self.embedder = None;
        embedding_server::choose(&self.config, &self.catalog, server, prompts)
    }

    /// The sparse encoder that weighs terms, by name or directory. The next update makes all weights anew; until it
    /// has, searches do without them.
    ///
    /// # Errors
    /// When there is no such model or it can not be used.
    pub fn choose_sparse_encoder(&mut self, name: &str) -> Result<()> {
        let dir = self.config.model_dir(name)?;
        embedder::open_dir::<dyn SparseEncoder>(&self.config, &dir, None)?;
        Ok(self.catalog.set_setting(SPARSE_SETTING, Some(name))?)
    }

    /// Whether terms are weighed, by the encoder that was chosen or the default one. Where they are not, the next
    /// update forgets their weights.
    ///
    /// # Errors
    /// When the catalog can not be written.
    pub fn weigh_terms(&mut self, may: bool) -> Result<()> {
        if may && wanted_sparse(&self.catalog)?.is_some() {
            return Ok(());
        }
        Ok(self.catalog.set_setting(SPARSE_SETTING, (!may).then_some(NO_SPARSE_ENCODER))?)
    }

    /// Opens the wanted embedder if there is work for it: a run without changes does not need the model.
    pub(super) fn open_embedder(&mut self, report: &mut IndexReport) -> Result<()> {
        let wanted = wanted_embedder(&self.catalog)?;
        if self.embedder.as_ref().is_some_and(|it| it.0 == wanted) {
            return Ok(());
        }
        // Which model made the vectors is remembered by its name and the size of its weights, so that nothing is opened
        // just to compare.
        let weights = self.weights(&wanted)?;
        let current = self.catalog.setting(EMBEDDED_WITH)?.as_deref() == Some(&wanted)
            && self.catalog.setting(EMBEDDED_WITH_WEIGHTS)?.as_deref() == Some(&weights)
            && self.catalog.setting(EMBEDDED_WITH_NUMBERS)?
                == self.catalog.setting(EMBEDDER_NUMBERS)?;
        let introduced = self.catalog.setting(EMBEDDED_WITH_ID)?;
        let active = self.catalog.active_embedder()?;
        let complete = match active.filter(|it| introduced.as_deref() == Some(&it.id)) {
            Some(active) => {
                let embeds = embedding_server::embeds(&self.catalog)?;
                current && self.catalog.count_without_vector(&active.id, embeds)? == 0
            }
            // None yet, or a run that was to make the vectors of another one has been interrupted.
            None => false,
        };
        if complete && self.catalog.pending_jobs()? == 0 {
            return Ok(());
        }
        if !self.introduce(&wanted)? {
            report.notices.push(Notice::NoEmbedder { name: wanted });
        }
        Ok(())
    }

    /// Opens an embedder and makes its vectors those that are wanted; whether it is installed.
    pub(super) fn introduce(&mut self, name: &str) -> Result<bool> {
        let kept = numbers(&self.catalog, EMBEDDER_NUMBERS)?;
        let opened = match StageServer::of(name) {
            Some(_) => EmbeddingServer::open(&self.config, &self.catalog, name)?.map(Maker::Server),
            None => embedder::open::<dyn Embedder>(&self.config, name, kept)?.map(Maker::Here),
        };
        let Some(opened) = opened else { return Ok(false) };
        if let Maker::Here(embedder) = &opened {
            cosines::of(&self.catalog, &**embedder, || Ok(&self.catalog))?;
        }
        self.catalog.register_embedder(opened.id(), opened.dimensions())?;
        self.catalog.set_setting(EMBEDDED_WITH, Some(name))?;
        self.catalog.set_setting(EMBEDDED_WITH_ID, Some(opened.id()))?;
        self.catalog.set_setting(EMBEDDED_WITH_WEIGHTS, Some(&self.weights(name)?))?;
        let kept = kept.map(|it| it.to_string());
        self.catalog.set_setting(EMBEDDED_WITH_NUMBERS, kept.as_deref())?;
        self.embedder = Some((name.to_owned(), opened));
        Ok(true)
    }

    /// What tells another model under the same name, without opening it: the size of its weights, or what is known of a
    /// server.
    fn weights(&self, name: &str) -> Result<String> {
        if StageServer::of(name).is_none() {
            return Ok(embedder::weights(&self.config, name));
        }
        let server = EmbeddingServer::open(&self.config, &self.catalog, name)?;
        Ok(server.map(|it| it.id().to_owned()).unwrap_or_default())
    }

    /// Opens the wanted sparse encoder if there is work for it. Where it is not installed the weights that are there
    /// stay: they are of use again when it is.
    pub(super) fn open_sparse(&mut self) -> Result<()> {
        let Some(wanted) = wanted_sparse(&self.catalog)? else {
            self.sparse = None;
            return Ok(self.catalog.use_term_encoder(None)?);
        };
        if self.sparse.as_ref().is_some_and(|it| it.0 == wanted) {
            return Ok(());
        }
        let weights = embedder::weights(&self.config, &wanted);
        let current = self.catalog.setting(WEIGHED_WITH)?.as_deref() == Some(&wanted)
            && self.catalog.setting(WEIGHED_WITH_WEIGHTS)?.as_deref() == Some(&weights)
            && self.catalog.term_encoder()?.is_some();
        if weights.is_empty() || (current && self.catalog.count_without_terms()? == 0) {
            return Ok(());
        }
        let Some(encoder) = embedder::open::<dyn SparseEncoder>(&self.config, &wanted, None)?
        else {
            return Ok(());
        };
        self.catalog.use_term_encoder(Some(encoder.id()))?;
        self.catalog.set_setting(WEIGHED_WITH, Some(&wanted))?;
        self.catalog.set_setting(WEIGHED_WITH_WEIGHTS, Some(&weights))?;
        let languages = sparse_languages(encoder_name(encoder.id()));
        self.sparse = Some((wanted, Sparse { encoder, languages }));
        Ok(())
    }
}

/// Whether the first `kept` numbers of a vector of the embedder in `dir`, which is `whole`, are a vector themselves.
fn may_shorten(dir: &Path, whole: &dyn Embedder, kept: usize) -> Result<()> {
    let (name, all) = (encoder_name(whole.id()), whole.dimensions());
    let refused = |why: String| Err(Error::BadRequest(why.into()));
    if !(1..all).contains(&kept) {
        return refused(format!(
            "{name} makes vectors of {all} numbers: keep fewer, and at least 1"
        ));
    }
    let stated = riddle_embedding::shortening(dir)
        .map_err(|error| Error::BadModel { dir: dir.to_path_buf(), source: error.into() })?;
    match (stated, shortest_vectors(name)) {
        (Some(it), _) if !it.lengths.is_empty() && !it.lengths.contains(&kept) => {
            let lengths: Vec<String> = it.lengths.iter().map(usize::to_string).collect();
            refused(format!("{name} was trained for vectors of {} numbers", lengths.join(", ")))
        }
        (None, Some(least)) if kept < least => {
            refused(format!("{name} was trained for vectors of {least} numbers and more"))
        }
        (None, None) => refused(format!(
            "nobody says that {name} was trained for shorter vectors, and the first numbers of others say little"
        )),
        (Some(_), _) | (None, Some(_)) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::{iter, sync::atomic::AtomicBool};

    use super::*;
    use crate::{Assistant, SearchRequest, index::InputDocument};

    const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden");

    /// A copy of a model, which may say that its vectors can be shortened.
    fn model(golden: &str, says: Option<&str>) -> tempfile::TempDir {
        fn copy(from: &Path, to: &Path) {
            for entry in std::fs::read_dir(from).expect("a folder") {
                let entry = entry.expect("an entry");
                let to = to.join(entry.file_name());
                if entry.path().is_dir() {
                    std::fs::create_dir(&to).expect("a folder");
                    copy(&entry.path(), &to);
                } else {
                    std::fs::copy(entry.path(), to).expect("copied");
                }
            }
        }
        let dir = tempfile::tempdir().expect("a folder");
        copy(&Path::new(GOLDEN).join(golden), dir.path());
        if let Some(says) = says {
            std::fs::write(dir.path().join("README.md"), says).expect("written");
        }
        dir
    }

    const TAGGED: &str = "---\ntags:\n- loss:MatryoshkaLoss\n---\n";

    struct Home(tempfile::TempDir);

    impl Home {
        fn new() -> Home {
            Home(tempfile::tempdir().expect("a folder"))
        }

        /// Every command is a process of its own.
        fn library(&self) -> Library {
            Library::open(Config::new(self.0.path())).expect("opens")
        }

        fn add(&self) {
            let texts = ["The mooring ends in March.", "Bread needs an oven and a night of rest."];
            for (number, text) in texts.into_iter().enumerate() {
                let document = InputDocument {
                    id: format!("doc {number}"),
                    title: String::new(),
                    text: text.to_owned(),
                };
                self.library()
                    .add_documents(
                        "notes",
                        &mut iter::once(document),
                        &mut |_| {},
                        &AtomicBool::new(false),
                    )
                    .expect("indexed");
            }
        }

        fn update(&self) -> u64 {
            let stop = AtomicBool::new(false);
            self.library().update(&mut |_| {}, &stop).expect("runs").embedded
        }

        fn active(&self) -> (String, usize) {
            let catalog = self.library();
            let active = catalog.catalog.active_embedder().expect("readable").expect("one");
            (active.id, active.dimensions)
        }

        /// Whether meaning is searched, and by which vectors.
        fn searched(&self) -> Option<usize> {
            let assistant = Assistant::open(Config::new(self.0.path())).expect("opens");
            let found = assistant.find(&SearchRequest::new("mooring")).expect("searches");
            found.vector.map(|it| it.1.len())
        }
    }

    #[test]
    fn vectors_are_shortened_where_the_model_was_trained_for_it_and_the_index_follows() {
        let (home, model) = (Home::new(), model("tiny-bert-encoder", Some(TAGGED)));
        let name = model.path().to_string_lossy().into_owned();
        home.library().choose_embedder(&name).expect("a model");
        home.add();
        home.update();
        let (whole, all) = home.active();
        assert_eq!(home.searched(), Some(all));
        home.library().choose_shortened(&name, 8).expect("trained for it");
        // Until its vectors are there those of before are searched, as with another embedder.
        assert_eq!(home.searched(), Some(all));
        assert_eq!((home.update(), home.update()), (2, 0));
        let (short, length) = home.active();
        assert_eq!((length, home.searched()), (8, Some(8)));
        assert!(short != whole && short.contains("-8/"), "{short}");
        // And back.
        home.library().choose_embedder(&name).expect("a model");
        assert_eq!((home.update(), home.update()), (2, 0));
        assert_eq!((home.active(), home.searched()), ((whole, all), Some(all)));
    }

    #[test]
    fn what_was_not_trained_for_it_is_not_shortened() {
        let home = Home::new();
        let choose = |model: &tempfile::TempDir, kept| {
            let name = model.path().to_string_lossy().into_owned();
            home.library().choose_shortened(&name, kept)
        };
        let plain = model("tiny-bert-encoder", None);
        let error = choose(&plain, 8).expect_err("nobody says so").to_string();
        assert!(error.contains("nobody says that"), "{error}");
        let tagged = model("tiny-bert-encoder", Some(TAGGED));
        for wrong in [0, 32, 999] {
            let error = choose(&tagged, wrong).expect_err("no such vectors").to_string();
            assert!(error.contains("makes vectors of 32"), "{error}");
        }
        let config = tagged.path().join("config.json");
        let text = std::fs::read_to_string(&config).expect("read");
        let listed = text.replacen('{', r#"{"matryoshka_dimensions": [16, 24],"#, 1);
        std::fs::write(&config, listed).expect("written");
        let error = choose(&tagged, 8).expect_err("not listed").to_string();
        assert!(error.contains("16, 24"), "{error}");
        choose(&tagged, 16).expect("listed");
        assert!(choose(&model("tiny-onnx", None), 2).is_err());
    }

    #[test]
    fn the_embedder_keeps_a_budget_of_memory_and_its_vectors() {
        let (home, model) = (Home::new(), model("tiny-modernbert-embedder", None));
        let name = model.path().to_string_lossy().into_owned();
        home.library().choose_embedder(&name).expect("a model");
        home.add();
        home.update();
        let before = home.active();
        let error = home.library().limit_embedder(Some(1 << 10)).expect_err("too small");
        assert!(error.to_string().contains("it needs at least"), "{error}");
        let mut budget = 1 << 10;
        while home.library().limit_embedder(Some(budget)).is_err() {
            budget += budget / 4;
        }
        // What makes the same vectors makes none anew.
        assert_eq!((home.update(), home.active()), (0, before));
        let assistant = Assistant::open(Config::new(home.0.path())).expect("opens");
        let found = assistant.find(&SearchRequest::new("mooring")).expect("searches");
        assert!(found.vector.is_some());
        let embedder = assistant.embedder_here().expect("opens").expect("one");
        assert!(embedder.resident_weight_bytes() <= budget);
        home.library().limit_embedder(None).expect("as before");
        assert!(home.library().config.embedder_memory.is_none());
    }
}
