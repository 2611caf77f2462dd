//! Making, loading and removing the collections of a library, also where several homes do so at once.

use std::time::Instant;

use crate::{
    About, Error, Result, Store,
    proto::{
        CreateCollectionRequest, CreateIndexRequest, GetLoadStateRequest, GetLoadStateResponse,
        LOADED, Status, consistency,
    },
    rpc::{CREATE_COLLECTION, CREATE_INDEX, DROP_COLLECTION, GET_LOAD_STATE, LOAD_COLLECTION},
    schema::Part,
    store::LOOKS,
};

impl Store {
    /// Makes the collections; the library is there once its record is written. `Some`: another home has made the
    /// library at the same moment, and this is its record.
    ///
    /// Whoever makes the first collection makes the others too; a home that comes later waits for the record. So nobody
    /// removes what somebody else is making, and only what was left half made goes.
    pub(crate) fn create(&self, dimensions: usize) -> Result<Option<About>> {
        let (first, others) = (Part::Passages, [Part::Files, Part::Rules, Part::About]);
        if self.has(first)? || !self.is_first_to_make(first, dimensions)? {
            if let Some(about) = self.awaited()? {
                return Ok(Some(about));
            }
            self.remove()?;
            self.make(first, dimensions)?;
        }
        self.make_searchable(first)?;
        for part in others {
            self.make(part, dimensions)?;
            self.make_searchable(part)?;
        }
        // A server may have let two homes make the same collections.
        self.about()
    }

    /// Makes a collection, unless somebody else does so at this moment.
    fn is_first_to_make(&self, part: Part, dimensions: usize) -> Result<bool> {
        let Err(error) = self.make(part, dimensions) else { return Ok(true) };
        for _ in 0..LOOKS {
            std::thread::sleep(self.rpc.options.pause);
            if self.has(part)? {
                return Ok(false);
            }
        }
        Err(error)
    }

    /// The record that another home is about to write; `None`: it does not come within the longest time that making a
    /// collection may take. A server of a cluster needs seconds for each.
    fn awaited(&self) -> Result<Option<About>> {
        let begun = Instant::now();
        loop {
            let about = self.about()?;
            if about.is_some() || begun.elapsed() > self.rpc.options.write {
                return Ok(about);
            }
            std::thread::sleep(self.rpc.options.pause);
        }
    }

    fn make(&self, part: Part, dimensions: usize) -> Result<()> {
        let request = CreateCollectionRequest {
            db_name: self.address.database().to_owned(),
            collection_name: part.collection(self.address.library()),
            schema: part.schema(self.address.library(), dimensions),
            shards_num: 1,
            consistency_level: consistency::BOUNDED,
        };
        let _: Status = self.rpc.call(CREATE_COLLECTION, &request)?;
        Ok(())
    }

    fn make_searchable(&self, part: Part) -> Result<()> {
        for (field, extra_params) in part.indexes() {
            let request = CreateIndexRequest {
                db_name: self.address.database().to_owned(),
                collection_name: part.collection(self.address.library()),
                field_name: field.to_owned(),
                extra_params,
                index_name: field.to_owned(),
            };
            let _: Status = self.rpc.call(CREATE_INDEX, &request)?;
        }
        self.load(part)
    }

    /// Makes sure that a collection can be searched: a server that was started anew may have none in memory.
    pub(crate) fn load(&self, part: Part) -> Result<()> {
        let begun = Instant::now();
        let request = GetLoadStateRequest {
            db_name: self.address.database().to_owned(),
            collection_name: part.collection(self.address.library()),
        };
        let mut asked = false;
        loop {
            let answer: GetLoadStateResponse = self.rpc.call(GET_LOAD_STATE, &request)?;
            if answer.state == LOADED {
                return Ok(());
            }
            if !asked {
                let _: Status = self.rpc.call(LOAD_COLLECTION, &self.collection(part))?;
                asked = true;
            } else if begun.elapsed() > self.rpc.options.write {
                let seconds = self.rpc.options.write.as_secs();
                return Err(Error::Slow { server: self.rpc.server().to_owned(), seconds });
            } else {
                std::thread::sleep(self.rpc.options.pause);
            }
        }
    }

    /// Removes the library from the server.
    ///
    /// # Errors
    /// What the server reports.
    pub fn remove(&self) -> Result<()> {
        // The record goes first: what is left without it is nobody's.
        for part in [Part::About, Part::Files, Part::Rules, Part::Passages] {
            if self.has(part)? {
                let _: Status = self.rpc.call(DROP_COLLECTION, &self.collection(part))?;
            }
        }
        Ok(())
    }
}
