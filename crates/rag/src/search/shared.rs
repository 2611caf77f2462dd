//! Libraries that live elsewhere, beside the home: which are searched, with which models, and what is told of those
//! that can not be.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use riddle_catalog::ChunkRecord;
use riddle_types::{ChunkId, EmbedRole, Embedder, Filter, Notice, Reader, SparseEncoder, Trouble};

use super::{
    library::{Asking, Limits, OpenLibrary, panicked},
    merge::{Made, Source},
    reader::Assistant,
    rights::Rules,
};
use crate::{
    contract::{Error, Libraries, LibraryStatus, MappedFolder, Result, SearchRequest},
    home::{embedder, embedder::encoder_name, libraries},
    stage,
};

/// Passages before one, and after it, that are shown with it.
const AROUND: u32 = 20;

/// What a library was asked, and what came.
type Asked = (String, Result<Source>);

impl Assistant {
    /// The shared libraries of a request.
    fn wanted(&self, libraries: &Libraries) -> Result<Vec<LibraryStatus>> {
        match libraries {
            Libraries::Home => Ok(Vec::new()),
            Libraries::All => libraries::known(&self.catalog),
            Libraries::These { shared, .. } => {
                shared.iter().map(|it| libraries::named(&self.catalog, it)).collect()
            }
        }
    }

    /// Where the files of the shared libraries are on this computer, by the names of the libraries; those without are
    /// left out.
    pub(super) fn mapped(
        &self,
        libraries: &Libraries,
    ) -> Result<HashMap<String, Vec<MappedFolder>>> {
        let mut all = self.wanted(libraries)?;
        all.retain(|it| !it.folders.is_empty());
        Ok(all.into_iter().map(|it| (it.name, it.folders)).collect())
    }

    /// A passage of a shared library that a search of this assistant has found, with those around it in its file, in
    /// reading order. Nothing where the passage is gone, or was found by somebody else.
    ///
    /// # Errors
    /// [`Error::NoLibrary`]; what its server reports.
    pub fn passages_around(&self, library: &str, chunk: u64) -> Result<Vec<ChunkRecord>> {
        let known = libraries::named(&self.catalog, library)?;
        self.open_library(&known)?.around(library, ChunkId(chunk), (AROUND, AROUND), None)
    }

    /// As [`read`](Self::read), of a passage that a search of shared libraries has found: with the library that it is
    /// from. `None` where none has found it, where it is gone, or where the reader may not read it; without a reader
    /// rights are not looked at.
    ///
    /// # Errors
    /// What the library's server reports.
    pub fn read_elsewhere(
        &self,
        chunk: u64,
        before: usize,
        after: usize,
        reader: Option<&Reader>,
    ) -> Result<Option<(String, Vec<ChunkRecord>)>> {
        let chunk = ChunkId(chunk);
        let found = {
            let all = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
            let found = all.iter().find(|it| it.1.has_found(chunk));
            found.map(|it| (it.0.clone(), Arc::clone(it.1)))
        };
        let Some((name, library)) = found else { return Ok(None) };
        let most = |it: usize| u32::try_from(it).unwrap_or(u32::MAX);
        let records = library.around(&name, chunk, (most(before), most(after)), reader)?;
        Ok(Some((name, records)).filter(|it| !it.1.is_empty()))
    }

    /// What the shared libraries of a request find. What can not be searched is noticed; it is an error where nothing
    /// else could be, either.
    ///
    /// Where the home has made nothing of the query, the first library says with which models that is done.
    pub(super) fn by_libraries(
        &self,
        text: &str,
        request: &SearchRequest,
        (filter, limits): (&Filter, Limits),
        made: &mut Made,
        notices: &mut Vec<Notice>,
    ) -> Result<Vec<Source>> {
        let wanted = self.wanted(&request.libraries)?;
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let _stage = stage::enter("shared");
        let opened: Vec<Result<Arc<OpenLibrary>>> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                wanted.iter().map(|it| scope.spawn(|| self.open_library(it))).collect();
            threads.into_iter().map(|it| it.join().unwrap_or_else(|_| Err(panicked()))).collect()
        });
        let (mut ready, mut failed) = (Vec::new(), Vec::new());
        for (library, opened) in wanted.into_iter().zip(opened) {
            match opened.and_then(|it| self.make_for(&it, text, made).map(|()| it)) {
                Ok(opened) => ready.push((library, opened)),
                Err(error) => failed.push((library.name, error)),
            }
        }
        let (made, reader) = (&*made, request.reader.as_ref());
        let asked: Vec<Asked> = std::thread::scope(|scope| {
            let ask = |(library, opened): (LibraryStatus, Arc<OpenLibrary>)| {
                let name = library.name.clone();
                let search = move || {
                    let asked = Asking { text, filter, limits, reader };
                    opened.search(&library.name, &asked, made)
                };
                (name, scope.spawn(search))
            };
            let threads: Vec<_> = ready.into_iter().map(ask).collect();
            let joined = |(name, thread): (_, std::thread::ScopedJoinHandle<'_, _>)| {
                (name, thread.join().unwrap_or_else(|_| Err(panicked())))
            };
            threads.into_iter().map(joined).collect()
        });
        let mut sources = Vec::new();
        for (name, found) in asked {
            match found {
                Ok(source) => sources.push(source),
                Err(error) => {
                    // It may have been written anew, in another form.
                    self.shared.lock().unwrap_or_else(PoisonError::into_inner).remove(&name);
                    failed.push((name, error));
                }
            }
        }
        let elsewhere_alone = !request.libraries.with_home();
        if sources.is_empty() && elsewhere_alone && !failed.is_empty() {
            return Err(failed.swap_remove(0).1);
        }
        notices.extend(failed.into_iter().map(|(name, error)| not_searched(name, &error)));
        Ok(sources)
    }

    /// The library, connected; it stays open as long as this assistant does.
    fn open_library(&self, library: &LibraryStatus) -> Result<Arc<OpenLibrary>> {
        let open =
            self.shared.lock().unwrap_or_else(PoisonError::into_inner).get(&library.name).cloned();
        if let Some(open) = open {
            return Ok(open);
        }
        let store = libraries::connect(&self.config, library)?;
        let about = store.open()?;
        let opened = Arc::new(OpenLibrary {
            store,
            about,
            rules: Rules::default(),
            found: Mutex::default(),
            embedder: OnceLock::new(),
            encoder: OnceLock::new(),
        });
        let mut all = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(library.name.clone(), Arc::clone(&opened));
        Ok(opened)
    }

    /// Makes sure that the query's vector is one of the library's embedder: vectors of two are never compared.
    fn make_for(&self, library: &OpenLibrary, text: &str, made: &mut Made) -> Result<()> {
        let about = &library.about;
        let other = |ours: &str| {
            let (address, theirs) = (library.store.address().to_string(), about.embedder.clone());
            Error::from(riddle_milvus::Error::Embedder { address, theirs, ours: ours.to_owned() })
        };
        if let Some((ours, _)) = &made.vector {
            return if *ours == about.embedder { Ok(()) } else { Err(other(ours)) };
        }
        if let Some(why) = made.unembedded.as_ref().filter(|_| self.embeds_as(&about.embedder)) {
            return Err(Error::BadRequest(why.clone()));
        }
        let opened = match library.embedder.get() {
            Some(opened) => opened,
            None => {
                let name = encoder_name(&about.embedder);
                let opened = embedder::open::<dyn Embedder>(&self.config, name, None)?;
                let mut opened = opened.ok_or_else(|| other("none"))?;
                // Whoever wrote it may keep fewer numbers of a vector than the model gives.
                if opened.id() != about.embedder && opened.dimensions() > about.dimensions {
                    let kept = Some(about.dimensions);
                    let shorter = embedder::open::<dyn Embedder>(&self.config, name, kept);
                    opened = shorter.ok().flatten().unwrap_or(opened);
                }
                if opened.id() != about.embedder {
                    return Err(other(opened.id()));
                }
                library.embedder.get_or_init(|| opened)
            }
        };
        let vectors = opened.embed(&[text], EmbedRole::Query).map_err(Error::stage("embedding"))?;
        made.vector = vectors.into_iter().next().map(|it| (opened.id().to_owned(), it));
        made.levels = self.levels_of(&**opened)?;
        if made.terms.is_none() && !about.encoder.is_empty() {
            self.weigh_for(library, text, made)?;
        }
        Ok(())
    }

    /// Weighs the query's terms as the library's are; without its encoder the search goes without them.
    fn weigh_for(&self, library: &OpenLibrary, text: &str, made: &mut Made) -> Result<()> {
        let about = &library.about;
        let name = encoder_name(&about.encoder);
        let opened = match library.encoder.get() {
            Some(opened) => opened,
            None => {
                let opened = embedder::open::<dyn SparseEncoder>(&self.config, name, None)?;
                let Some(opened) = opened.filter(|it| it.id() == about.encoder) else {
                    return Ok(());
                };
                library.encoder.get_or_init(|| opened)
            }
        };
        let terms =
            opened.encode(&[text], EmbedRole::Query).map_err(Error::stage("weighing terms"))?;
        made.terms = terms.into_iter().next();
        made.encoder.clone_from(&about.encoder);
        made.sparse_languages = riddle_models::sparse_languages(name);
        Ok(())
    }
}

fn not_searched(name: String, error: &Error) -> Notice {
    Notice::LibraryNotSearched { name, why: Trouble::of(error) }
}
