//! Text to vectors: the built-in encoder and every fastembed model.
