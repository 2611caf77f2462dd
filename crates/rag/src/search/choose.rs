//! Choosing the reranker: it is opened first, and that is what this room does.

use super::rerank::open_reranker;
use crate::{
    contract::{RerankSettings, Result},
    index::Library,
};

impl Library {
    /// The reranker that searches use unless told otherwise; `None`: the fused order.
    ///
    /// # Errors
    /// When there is no such model or it can not be used.
    pub fn choose_reranker(&mut self, name: Option<&str>) -> Result<()> {
        if let Some(name) = name {
            open_reranker(self.config(), name, &RerankSettings::default(), 0)?;
        }
        self.keep_reranker(name)
    }
}
