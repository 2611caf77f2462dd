//! BM25 and HNSW indexes, and rank fusion.
