//! Model files: fetched, imported, verified and listed.
