//! Libraries that live elsewhere: which are known, what their servers say, and writing this computer's passages to one.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use riddle_rag::{
    shared::{LibraryInfo, LibraryWriter, MappedFolder, PushOptions, push_library},
    status::{KeyState, LibraryStatus},
};
use tauri::ipc::Channel;

use super::{Shell, lock};
use crate::{
    convert::clean,
    dto::{
        AppEvent, EndpointKey, Failure, FailureCode, KeyPlace, Originals, PushEvent, PushReport,
        SharedLibrary, SharedLook, SharedWriter,
    },
    failure::Reply,
};

/// Progress is told this often: more than a person sees is noise.
const TELL_EVERY: Duration = Duration::from_millis(100);

impl Shell {
    /// Those that are known here; nobody is asked.
    pub(crate) fn shared_libraries(&self) -> Reply<Vec<SharedLibrary>> {
        self.records.libraries()?.iter().map(|it| self.shared_library(it)).collect()
    }

    fn shared_library(&self, it: &LibraryStatus) -> Reply<SharedLibrary> {
        let key = self.records.library_key_state(&it.name)?;
        let key = place_of(key, self.config.library_key.is_some());
        let originals = it.originals.as_deref().map(|address| {
            let key = self.records.originals_key_state(&it.name)?;
            let key = place_of(key, self.config.originals_key.is_some());
            Reply::Ok(Originals { address: clean(address), key })
        });
        Ok(SharedLibrary {
            name: it.name.clone(),
            address: clean(&it.address),
            origin: clean(&self.records.library_origin(&it.name)?),
            pushed_at: it.pushed_at,
            key,
            folders: it.folders.iter().map(mapped).collect(),
            originals: originals.transpose()?,
        })
    }

    /// What the server of one says; it is asked now.
    pub(crate) fn look_at_shared(&self, name: &str) -> Reply<SharedLook> {
        Ok(looked(self.records.look_at_library(name)?))
    }

    /// Makes one known, and keeps its key where one is given.
    pub(crate) fn add_shared(
        &self,
        name: &str,
        address: &str,
        key: &str,
    ) -> Reply<Vec<SharedLibrary>> {
        let (name, key) = (name.trim(), key.trim());
        let known = self.records.libraries()?.iter().any(|it| it.name == name);
        self.records.add_library(name, address.trim())?;
        if !key.is_empty()
            && let Err(error) = self.records.keep_library_key(name, key)
        {
            // Whoever gave a key wants no library without it.
            if !known {
                self.records.remove_library(name)?;
            }
            return Err(error.into());
        }
        self.told_shared()
    }

    /// Forgets one, and its key where nobody else needs that; the library stays where it is.
    pub(crate) fn remove_shared(&self, name: &str) -> Reply<Vec<SharedLibrary>> {
        let origin = self.records.library_origin(name)?;
        let mut others = self.records.libraries()?;
        others.retain(|it| it.name != name);
        let needed = others
            .iter()
            .any(|it| self.records.library_origin(&it.name).is_ok_and(|it| it == origin));
        if !needed && let Err(error) = self.records.forget_library_key(name) {
            tracing::debug!("the key stays where it is: {error}");
        }
        self.records.remove_library(name)?;
        self.told_shared()
    }

    /// Keeps another key for its server, or forgets the one that is kept.
    pub(crate) fn set_shared_key(
        &self,
        name: &str,
        key: Option<&str>,
    ) -> Reply<Vec<SharedLibrary>> {
        match key {
            Some(key) => self.records.keep_library_key(name, key.trim())?,
            None => {
                self.records.forget_library_key(name)?;
            }
        }
        self.shared_libraries()
    }

    /// Says where a folder of one is on this computer; without `here` that is forgotten.
    pub(crate) fn map_shared(
        &self,
        name: &str,
        there: &str,
        here: Option<&str>,
    ) -> Reply<Vec<SharedLibrary>> {
        match here {
            Some(here) => self.records.map_folder(name, there.trim(), Path::new(here.trim()))?,
            None => self.records.unmap_folder(name, there)?,
        };
        self.shared_libraries()
    }

    /// Says which object store keeps the files of one, with its key where one is given; without an address it is
    /// forgotten, and its key, too.
    pub(crate) fn keep_shared_originals(
        &self,
        name: &str,
        address: Option<&str>,
        key: &str,
    ) -> Reply<Vec<SharedLibrary>> {
        match address.map(str::trim) {
            Some(address) => {
                let before = self.records.libraries()?.into_iter().find(|it| it.name == name);
                self.records.set_originals(name, Some(address))?;
                let key = key.trim();
                if !key.is_empty()
                    && let Err(error) = self.records.keep_originals_key(name, key)
                {
                    // Whoever gave a key wants no store without it.
                    let before = before.and_then(|it| it.originals);
                    self.records.set_originals(name, before.as_deref())?;
                    return Err(error.into());
                }
            }
            None => {
                if let Err(error) = self.records.forget_originals_key(name) {
                    tracing::debug!("the key stays where it is: {error}");
                }
                self.records.set_originals(name, None)?;
            }
        }
        self.shared_libraries()
    }

    /// Removes what one computer has written to one, and says what is in it then.
    pub(crate) fn evict_shared(&self, name: &str, writer: &str) -> Reply<SharedLook> {
        self.records.evict_writer(name, writer)?;
        self.look_at_shared(name)
    }

    /// The libraries, when they have changed: a search may name others now.
    fn told_shared(&self) -> Reply<Vec<SharedLibrary>> {
        self.tell(AppEvent::Library { state: self.library()? });
        self.shared_libraries()
    }

    /// Makes one equal to what this computer has; progress and end come over `events`. One at a time.
    pub(crate) fn push_shared(
        &self,
        name: String,
        options: PushOptions,
        events: Channel<PushEvent>,
    ) -> Reply<()> {
        let stop = Arc::new(AtomicBool::new(false));
        {
            let mut pushing = lock(&self.pushing);
            if pushing.is_some() {
                return Err(Failure::new(FailureCode::Busy, "a library is being written"));
            }
            *pushing = Some(Arc::clone(&stop));
        }
        let shell = self.clone();
        let work = move || {
            let mut told: Option<Instant> = None;
            let mut progress = |done, total| {
                if told.is_none_or(|it| it.elapsed() >= TELL_EVERY) {
                    told = Some(Instant::now());
                    let _ = events.send(PushEvent::Progress { done, total });
                }
            };
            let event = match push_library(&shell.config, &name, options, &mut progress, &stop) {
                Ok(it) => PushEvent::Done { report: reported(&it) },
                Err(error) => PushEvent::Failed { failure: error.into() },
            };
            *lock(&shell.pushing) = None;
            // A window that was closed hears nothing.
            let _ = events.send(event);
        };
        let spawned = std::thread::Builder::new().name("push".to_owned()).spawn(work);
        spawned.map(|_| ()).map_err(|error| {
            *lock(&self.pushing) = None;
            Failure::other(error)
        })
    }

    /// Stops writing after a file; the next run goes on there.
    pub(crate) fn stop_push(&self) {
        if let Some(stop) = &*lock(&self.pushing) {
            stop.store(true, Ordering::Release);
        }
    }
}

/// Where a key is.
pub(super) fn place_of(key: KeyState, environment: bool) -> EndpointKey {
    let (place, problem) = match key {
        _ if environment => (KeyPlace::Environment, None),
        KeyState::None => (KeyPlace::None, None),
        KeyState::Kept => (KeyPlace::Kept, None),
        KeyState::Unknown(why) => (KeyPlace::Unknown, Some(why.into())),
    };
    EndpointKey { place, problem }
}

fn mapped(it: &MappedFolder) -> crate::dto::MappedFolder {
    let here = clean(&it.here.to_string_lossy());
    crate::dto::MappedFolder { there: clean(&it.there), here }
}

fn writer(it: &LibraryWriter) -> SharedWriter {
    SharedWriter {
        key: it.key.clone(),
        machine: clean(&it.machine),
        own: it.own,
        files: it.files,
        passages: it.passages,
        written_at: it.written_at,
        unfinished: it.unfinished,
        folders: it.folders.iter().map(|it| clean(it)).collect(),
        originals: it.originals.as_deref().map(clean),
    }
}

fn looked(it: LibraryInfo) -> SharedLook {
    SharedLook {
        files: it.files,
        passages: it.passages,
        embedder: it.embedder.as_deref().map(clean),
        writers: it.writers.iter().map(writer).collect(),
        written_at: it.written_at,
        unfinished: it.unfinished,
        with_rights: it.with_rights,
        problem: it.problem.map(Into::into),
    }
}

fn reported(it: &riddle_rag::shared::PushReport) -> PushReport {
    PushReport {
        written: it.written,
        unchanged: it.unchanged,
        deleted: it.deleted,
        held_back: it.held_back,
        originals: it.originals,
        passages: it.passages,
        resumed: it.resumed,
        interrupted: it.interrupted,
        seconds: it.seconds,
    }
}
