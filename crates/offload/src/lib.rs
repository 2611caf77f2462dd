//! Decides which weights are in memory now: layer window and embedding rows.
