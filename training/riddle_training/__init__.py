"""The recipe of the bundled reranker: prepare, train, export. See ../README.md."""
