//! File events made into debounced changes, and the reconciling scan.
