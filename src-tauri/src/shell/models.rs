//! Models: what is installed, what can be, what is used.

use std::{
    ops::ControlFlow,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use riddle_rag::{
    install::{self, import_model, network, plan_model, pull_model},
    models::{
        Dialect, Format, KNOWN, Kind, LIBRARIES, Network, Progress, PullOptions, Stage, said,
    },
    servers::StageServer,
};
use tauri::ipc::Channel;

use super::{Shell, lock, shared::place_of};
use crate::{
    convert::clean,
    dto::{
        Advice, AppEvent, AvailableModel, Failure, FailureCode, InstalledModel, ModelCheck,
        ModelEvent, ModelKind, ModelPlan, ModelSource, ModelStage, ModelWeights, Models, Trouble,
    },
    failure::Reply,
};

/// Progress is told this often: more than a person sees is noise.
const TELL_EVERY: Duration = Duration::from_millis(100);

impl From<Kind> for ModelKind {
    fn from(kind: Kind) -> ModelKind {
        match kind {
            Kind::Embedder => ModelKind::Embedder,
            Kind::Reranker => ModelKind::Reranker,
            Kind::Llm => ModelKind::Llm,
            Kind::SparseEncoder => ModelKind::SparseEncoder,
            // Used as it is there, once it is installed.
            Kind::Reader => ModelKind::Other,
        }
    }
}

/// A server in the place of a model.
fn by_server(kind: ModelKind, name: &str) -> InstalledModel {
    InstalledModel {
        name: name.to_owned(),
        kind,
        bytes: 0,
        license: None,
        source: String::new(),
        active: true,
        writes: false,
        elsewhere: true,
        problem: None,
        server: true,
    }
}

fn switched_off() -> Failure {
    let advice = Some(Advice::GoOnline);
    Failure { advice, ..Failure::new(FailureCode::Offline, "the network is switched off") }
}

impl Shell {
    pub(crate) fn has_embedder(&self) -> Reply<bool> {
        let store = self.config.model_store()?;
        let wanted = self.wanted_embedder()?;
        Ok(self.records.embedder()?.is_some()
            || store.find(&wanted).is_some()
            || StageServer::of(&wanted).is_some())
    }

    /// The reranker in use.
    pub(crate) fn reranker(&self) -> Reply<Option<String>> {
        Ok(self.records.reranker()?)
    }

    /// Has a server rank or embed from now on; `allow`: it may be sent questions and passages, all of them where it
    /// embeds. An empty key leaves what is kept.
    pub(crate) fn use_server(
        &self,
        kind: ModelKind,
        name: &str,
        key: &str,
        allow: bool,
    ) -> Reply<()> {
        let Some(server) = StageServer::of(name) else {
            return Err(Failure::bad("the address of a server begins with http:// or https://"));
        };
        if !key.trim().is_empty() {
            self.records.keep_key(&server.url, key)?;
        }
        match (kind, allow) {
            (ModelKind::Reranker | ModelKind::Embedder, false) => {}
            (ModelKind::Reranker, true) => {
                self.records.allow_endpoint(&server.url, true)?;
            }
            (ModelKind::Embedder, true) => {
                self.records.allow_embedder(&server.url)?;
            }
            _ => return Err(Failure::bad("a server ranks, embeds or answers")),
        }
        self.use_model(kind, Some(&server.name()))
    }

    fn wanted_embedder(&self) -> Reply<String> {
        let name = self.records.setting("embedder")?;
        Ok(name.unwrap_or_else(|| riddle_rag::DEFAULT_EMBEDDER.to_owned()))
    }

    pub(crate) fn models(&self) -> Reply<Models> {
        let store = self.config.model_store()?;
        let (embedder, reranker) = (self.wanted_embedder()?, self.reranker()?);
        let sparse = self.records.sparse_encoder()?;
        let settings = self.settings_now();
        let writer = settings.local_model();
        let installed = store.list_all().map_err(Failure::from)?;
        let has = |name: &str| installed.iter().any(|it| it.name == name);
        let available = KNOWN.iter().chain(LIBRARIES).map(|it| AvailableModel {
            name: it.name.to_owned(),
            kind: it.kind.into(),
            bytes: u64::from(it.megabytes) * 1_000_000,
            license: it.license.to_owned(),
            about: it.about.to_owned(),
            installed: has(it.name),
        });
        let available = available.collect();
        let mut shown: Vec<InstalledModel> = installed
            .iter()
            .map(|it| InstalledModel {
                active: [Some(embedder.as_str()), reranker.as_deref(), sparse.as_deref(), writer]
                    .contains(&Some(it.name.as_str())),
                writes: it.kind == Kind::Llm && it.format == Format::Gguf,
                kind: it.kind.into(),
                bytes: it.bytes,
                license: it.license.as_deref().map(clean),
                source: clean(&it.source),
                name: it.name.clone(),
                elsewhere: false,
                problem: None,
                server: false,
            })
            .collect();
        shown.extend(Self::outside_the_store([
            (Some(embedder.clone()), ModelKind::Embedder),
            (sparse, ModelKind::SparseEncoder),
            (reranker.clone(), ModelKind::Reranker),
        ]));
        let in_use =
            [(ModelKind::Embedder, Some(embedder)), (ModelKind::Reranker, reranker.clone())];
        let servers = in_use.iter().filter_map(|(kind, name)| Some((*kind, name.as_deref()?)));
        shown.extend(
            servers
                .filter(|it| StageServer::of(it.1).is_some())
                .map(|(kind, name)| by_server(kind, name)),
        );
        shown.extend(self.kept_elsewhere(writer));
        Ok(Models {
            installed: shown,
            available,
            fetching: lock(&self.pulling).as_ref().map(|it| it.0.clone()),
            offline: settings.offline,
            folder: self.config.models_dir().display().to_string(),
            memory_bytes: riddle_metrics::machine_memory(),
            reranker_here: self.records.reranker_here()?,
        })
    }

    /// Those in use by their folder: they are not in the store.
    fn outside_the_store(
        used: [(Option<String>, ModelKind); 3],
    ) -> impl Iterator<Item = InstalledModel> {
        let outside = used.into_iter().filter_map(|(name, kind)| Some((name?, kind)));
        outside.filter(|(name, _)| Path::new(name).is_absolute()).map(|(name, kind)| {
            InstalledModel {
                active: true,
                kind,
                bytes: 0,
                license: None,
                source: said("a folder outside the store").to_owned(),
                writes: false,
                elsewhere: false,
                problem: None,
                server: false,
                name,
            }
        })
    }

    /// Those that other programs keep.
    fn kept_elsewhere(&self, writer: Option<&str>) -> impl Iterator<Item = InstalledModel> {
        self.config.models_elsewhere().into_iter().map(move |it| InstalledModel {
            active: writer == Some(it.model.name.as_str()),
            kind: ModelKind::Llm,
            bytes: it.model.bytes,
            license: it.model.license.as_deref().map(clean),
            source: it.model.program.to_string(),
            writes: it.trouble.is_none(),
            elsewhere: true,
            problem: it.trouble.as_ref().map(Trouble::of),
            server: false,
            name: it.model.name,
        })
    }

    /// What would be fetched under a name.
    pub(crate) fn plan_model(&self, name: &str) -> Reply<ModelPlan> {
        let go_on = &mut |_: Progress<'_>| ControlFlow::Continue(());
        let options = PullOptions::new(self.network()?);
        let plan = plan_model(&self.config, name.trim(), &options, go_on)?;
        let weights = plan.weights.iter().map(|it| ModelWeights {
            file: clean(&it.file),
            quantization: it.quantization.clone(),
            writes: it.format == Format::Gguf,
            bytes: it.bytes,
            parts: u32::try_from(it.parts).unwrap_or(u32::MAX),
            usual: it.usual,
            chosen: it.chosen,
        });
        Ok(ModelPlan {
            installed: plan.installed,
            page: clean(&plan.page),
            license: plan.license.as_deref().map(clean),
            license_page: plan.license_page.as_deref().map(clean),
            gated: plan.gated,
            beside: plan.beside,
            bytes: plan.bytes,
            weights: weights.collect(),
            name: plan.name,
        })
    }

    /// How models are fetched now.
    fn network(&self) -> Reply<Network> {
        if self.settings_now().offline {
            return Err(switched_off());
        }
        Ok(network(&self.config)?)
    }

    pub(crate) fn model_source(&self) -> Reply<ModelSource> {
        self.source_now(install::model_source(&self.config)?)
    }

    fn source_now(&self, it: install::ModelSource) -> Reply<ModelSource> {
        Ok(ModelSource {
            token: place_of(install::token_state(&self.config)?, it.token_of_environment),
            address: clean(&it.address),
            origin: clean(&it.origin),
            usual: it.is_usual,
            modelscope: it.dialect == Dialect::ModelScope,
            environment: it.of_environment,
        })
    }

    pub(crate) fn set_model_source(&self, address: Option<&str>) -> Reply<ModelSource> {
        let found = install::choose_source(&self.config, address)?;
        self.source_now(found)
    }

    pub(crate) fn set_model_token(&self, token: &str) -> Reply<ModelSource> {
        install::keep_token(&self.config, token)?;
        self.model_source()
    }

    pub(crate) fn forget_model_token(&self) -> Reply<ModelSource> {
        install::forget_token(&self.config)?;
        self.model_source()
    }

    pub(crate) fn pull_model(
        &self,
        name: String,
        file: Option<String>,
        events: Channel<ModelEvent>,
    ) -> Reply<()> {
        // A locked keyring asks a person: that is for the thread below.
        if self.settings_now().offline {
            return Err(switched_off());
        }
        let stop = Arc::new(AtomicBool::new(false));
        {
            let mut pulling = lock(&self.pulling);
            if let Some((other, _)) = &*pulling {
                return Err(Failure::new(FailureCode::Busy, format!("{other} is being fetched")));
            }
            *pulling = Some((name.clone(), Arc::clone(&stop)));
        }
        let shell = self.clone();
        let work = move || {
            let event = match shell.fetch(&name, file, &stop, &events) {
                Ok(name) => ModelEvent::Done { name },
                Err(failure) if failure.code == FailureCode::Cancelled => ModelEvent::Cancelled,
                Err(failure) => ModelEvent::Failed { failure },
            };
            *lock(&shell.pulling) = None;
            // A window that was closed hears nothing.
            let _ = events.send(event);
            shell.models_changed();
        };
        let spawned = std::thread::Builder::new().name("models".to_owned()).spawn(work);
        spawned.map(|_| ()).map_err(|error| {
            *lock(&self.pulling) = None;
            Failure::other(error)
        })
    }

    fn fetch(
        &self,
        name: &str,
        file: Option<String>,
        stop: &AtomicBool,
        events: &Channel<ModelEvent>,
    ) -> Reply<String> {
        let mut told: Option<Instant> = None;
        let mut on_progress = |progress: Progress<'_>| {
            if told.is_none_or(|it| it.elapsed() >= TELL_EVERY) {
                told = Some(Instant::now());
                let _ = events.send(ModelEvent::Progress {
                    stage: match progress.stage {
                        Stage::Asking => ModelStage::Asking,
                        Stage::Fetching => ModelStage::Fetching,
                        Stage::Waiting => ModelStage::Waiting,
                        Stage::Checking => ModelStage::Checking,
                    },
                    file: clean(progress.file),
                    done: progress.done,
                    total: progress.total,
                });
            }
            if stop.load(Ordering::Acquire) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let options = PullOptions { file, ..PullOptions::new(self.network()?) };
        let installed = pull_model(&self.config, name, &options, false, &mut on_progress)?;
        Ok(installed.model.name)
    }

    pub(crate) fn cancel_pull(&self) {
        if let Some((_, stop)) = &*lock(&self.pulling) {
            stop.store(true, Ordering::Release);
        }
    }

    pub(crate) fn import_model(&self, folder: &Path) -> Reply<String> {
        let go_on = &mut |_: Progress<'_>| ControlFlow::Continue(());
        let imported = import_model(&self.config, folder, None, false, go_on)?;
        self.models_changed();
        Ok(imported.model.name)
    }

    pub(crate) fn verify_model(&self, name: &str) -> Reply<ModelCheck> {
        let found = self.config.model_store()?.verify(name).map_err(Failure::from)?;
        let plain = |message: String| Trouble { message: clean(&message), advice: None };
        let mut problems: Vec<Trouble> =
            found.bad.iter().map(|it| plain(format!("{} {}", it.path, it.fault))).collect();
        // What was converted here has checksums of its own.
        if let Err(error) = riddle_rag::install::verify_store(&found.model.dir) {
            problems.push(Trouble::of(&error));
        }
        if let Some(last) = problems.last_mut() {
            last.advice = found.advice.map(Into::into).or(last.advice.take());
        }
        Ok(ModelCheck { good: problems.is_empty(), files: found.files as u32, problems })
    }

    pub(crate) fn use_model(&self, kind: ModelKind, name: Option<&str>) -> Reply<()> {
        let name = name.map(str::to_owned);
        match (kind, name) {
            (ModelKind::Reranker, name) => {
                self.indexer.ask(move |library| Ok(library.choose_reranker(name.as_deref())?))?;
                self.run(|shell, _| {
                    if let Ok(assistant) = shell.engine.assistant() {
                        assistant.release_reranker();
                    }
                });
            }
            (ModelKind::Embedder, Some(name)) => {
                self.indexer.ask(move |library| Ok(library.choose_embedder(&name)?))?;
            }
            (ModelKind::SparseEncoder, Some(name)) => {
                self.indexer.ask(move |library| Ok(library.choose_sparse_encoder(&name)?))?;
            }
            (ModelKind::SparseEncoder, None) => {
                self.indexer.ask(|library| Ok(library.weigh_terms(false)?))?;
            }
            _ => return Err(Failure::bad("this version can not use such a model")),
        }
        self.models_changed();
        Ok(())
    }

    pub(crate) fn remove_model(&self, name: &str) -> Reply<()> {
        let is_writer = self.settings_now().local_model() == Some(name);
        let one_of = [self.reranker()?, self.records.sparse_encoder()?];
        if is_writer
            || name == self.wanted_embedder()?
            || one_of.iter().flatten().any(|it| it == name)
        {
            return Err(Failure::bad(format!("{name} is in use: choose another one first")));
        }
        riddle_rag::install::remove_model(&self.config, name).map_err(Failure::from)?;
        self.models_changed();
        Ok(())
    }

    fn models_changed(&self) {
        // A new embedder has work to do, and searches have to know it.
        self.rescan();
        self.engine.refresh();
        self.tell(AppEvent::Models);
    }
}
