//! The reranker engine.
