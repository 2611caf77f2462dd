//! SQLite: the ground truth about roots, files, chunks, vectors and jobs.
