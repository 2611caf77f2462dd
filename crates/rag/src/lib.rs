//! The façade: Library indexes, Assistant answers.
