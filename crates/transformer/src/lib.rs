//! Layer graphs, heads and tokenizers of the supported model families.
