//! Servers that embed, open as long as somebody uses them: indexing and searching share what is known of one.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use riddle_llm::RemoteEmbedder;

/// Servers by what tells one from another.
#[derive(Default)]
pub(crate) struct OpenServers(Mutex<HashMap<String, Weak<OpenServer>>>);

/// A query and its vector.
type Asked = (String, Vec<f32>);

/// One of them.
#[derive(Default)]
pub(crate) struct OpenServer {
    /// It knows for how long the server is left alone.
    client: Mutex<Option<Arc<RemoteEmbedder>>>,
    /// The last query: a search asks for it again when it ranks.
    last: Mutex<Option<Asked>>,
}

impl OpenServers {
    pub(super) fn get(&self, key: &str) -> Arc<OpenServer> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = open.get(key).and_then(Weak::upgrade) {
            return open;
        }
        let opened = Arc::new(OpenServer::default());
        open.retain(|_, it| it.strong_count() > 0);
        open.insert(key.to_owned(), Arc::downgrade(&opened));
        opened
    }
}

impl OpenServer {
    pub(super) fn client(&self) -> MutexGuard<'_, Option<Arc<RemoteEmbedder>>> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn last(&self) -> MutexGuard<'_, Option<Asked>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
