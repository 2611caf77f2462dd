//! Retrieval quality and cost on BEIR datasets, through the public API.
