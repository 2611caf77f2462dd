//! The library of whoever searches again and again: where another process has it open, there, else here.

use std::{cell::OnceCell, path::PathBuf};

use riddle_doors::own;
use riddle_rag::{Assistant, Audience, Config, Result, SearchRequest, SearchResponse};

/// A library that is opened here when nobody else has it open, or not any more.
pub(crate) struct Library {
    config: Config,
    alone: bool,
    open: OnceCell<Assistant>,
}

impl Library {
    /// Says at once when there is nothing to search. `alone`: it is opened here in any case.
    pub(crate) fn of(config: Config, alone: bool) -> Result<Library> {
        let library = Library { config, alone, open: OnceCell::new() };
        if alone || !own::is_there(&library.config) {
            library.here()?;
        }
        Ok(library)
    }

    pub(crate) fn search(&self, request: &SearchRequest) -> Result<SearchResponse> {
        let there = if self.alone { None } else { own::search(&self.config, request) };
        there.map_or_else(|| self.here()?.search(request), Ok)
    }

    /// The file of a passage.
    pub(crate) fn file_of(&self, chunk: u64) -> Result<Option<PathBuf>> {
        let read = self.here()?.read(chunk, 0, 0, &Audience::default())?;
        Ok(read.and_then(|it| it.into_iter().next()).map(|it| it.path))
    }

    fn here(&self) -> Result<&Assistant> {
        if let Some(open) = self.open.get() {
            return Ok(open);
        }
        let assistant = Assistant::open(self.config.clone())?;
        Ok(self.open.get_or_init(|| assistant))
    }
}
