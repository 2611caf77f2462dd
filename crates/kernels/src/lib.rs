//! Numeric routines for the CPU: matrix product, attention, normalization, activations.
