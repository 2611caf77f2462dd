//! The encoders that passages are indexed with: which are wanted, and when they are opened.

use riddle_models::sparse_languages;
use riddle_types::{Embedder, Notice, SparseEncoder};

use super::Library;
use crate::{
    contract::{EmbedPrompts, IndexReport, RemoteStage, Result, StageServer},
    home::{
        cosines,
        embedder::{self, encoder_name},
        embedding_server::{self, EmbeddingServer},
        settings::{
            EMBEDDED_WITH, EMBEDDED_WITH_ID, EMBEDDED_WITH_WEIGHTS, EMBEDDER_SETTING,
            NO_SPARSE_ENCODER, SPARSE_SETTING, WEIGHED_WITH, WEIGHED_WITH_WEIGHTS, wanted_embedder,
            wanted_sparse,
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
        embedder::open_dir::<dyn Embedder>(&self.config, &dir)?;
        Ok(self.catalog.set_setting(EMBEDDER_SETTING, Some(name))?)
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
        embedder::open_dir::<dyn SparseEncoder>(&self.config, &dir)?;
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
            && self.catalog.setting(EMBEDDED_WITH_WEIGHTS)?.as_deref() == Some(&weights);
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
        let opened = match StageServer::of(name) {
            Some(_) => EmbeddingServer::open(&self.config, &self.catalog, name)?.map(Maker::Server),
            None => embedder::open::<dyn Embedder>(&self.config, name)?.map(Maker::Here),
        };
        let Some(opened) = opened else { return Ok(false) };
        if let Maker::Here(embedder) = &opened {
            cosines::of(&self.catalog, &**embedder, || Ok(&self.catalog))?;
        }
        self.catalog.register_embedder(opened.id(), opened.dimensions())?;
        self.catalog.set_setting(EMBEDDED_WITH, Some(name))?;
        self.catalog.set_setting(EMBEDDED_WITH_ID, Some(opened.id()))?;
        self.catalog.set_setting(EMBEDDED_WITH_WEIGHTS, Some(&self.weights(name)?))?;
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
        let Some(encoder) = embedder::open::<dyn SparseEncoder>(&self.config, &wanted)? else {
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
