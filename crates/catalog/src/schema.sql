-- Version 1. Times are seconds since 1970 unless a name ends in _ns; paths are the system's bytes.

-- Tells this catalog from every other: an index made for another one must be rebuilt.
CREATE TABLE identity (
    id TEXT NOT NULL
) STRICT;
INSERT INTO identity (id) VALUES (lower(hex(randomblob(16))));

CREATE TABLE roots (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    path BLOB NOT NULL,
    -- 1: documents come from memory (an evaluation corpus), no folder is scanned.
    virtual INTEGER NOT NULL DEFAULT 0,
    last_scan INTEGER,
    UNIQUE (path, virtual)
) STRICT;

CREATE TABLE files (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    root INTEGER NOT NULL REFERENCES roots (id) ON DELETE CASCADE,
    -- Relative to the root.
    path BLOB NOT NULL,
    -- The same as text for showing and searching; bytes that are not UTF-8 are replaced.
    display TEXT NOT NULL,
    size INTEGER NOT NULL,
    modified_ns INTEGER NOT NULL,
    volume INTEGER,
    inode INTEGER,
    kind TEXT NOT NULL DEFAULT 'other',
    state TEXT NOT NULL,
    -- 1: the state is a verdict of the scan; 0: it is what reading the file brought.
    by_scan INTEGER NOT NULL,
    reason TEXT NOT NULL DEFAULT '',
    content_hash BLOB,
    -- modified_ns when the chunks were last written: what the keyword index was told.
    indexed_ns INTEGER,
    title TEXT,
    language TEXT,
    -- JSON array of strings.
    warnings TEXT NOT NULL DEFAULT '[]',
    UNIQUE (root, path)
) STRICT;
CREATE INDEX files_by_state ON files (state);

-- Chunk ids are never reused, so a derived index can not take a new chunk for an old one.
CREATE TABLE chunks (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    file INTEGER NOT NULL REFERENCES files (id) ON DELETE CASCADE,
    ordinal INTEGER NOT NULL,
    text TEXT NOT NULL,
    heading TEXT NOT NULL,
    -- JSON of riddle_types::Location.
    location TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    -- Identity of what an embedder sees: equal text keeps its vector.
    text_hash BLOB NOT NULL,
    UNIQUE (file, ordinal)
) STRICT;
CREATE INDEX chunks_by_text ON chunks (text_hash);

CREATE TABLE embedders (
    id TEXT PRIMARY KEY,
    dimensions INTEGER NOT NULL,
    active INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE vectors (
    embedder TEXT NOT NULL REFERENCES embedders (id) ON DELETE CASCADE,
    chunk INTEGER NOT NULL REFERENCES chunks (id) ON DELETE CASCADE,
    -- f32, little-endian.
    vector BLOB NOT NULL,
    PRIMARY KEY (embedder, chunk)
) STRICT, WITHOUT ROWID;
CREATE INDEX vectors_by_chunk ON vectors (chunk);

-- The durable queue: files to be read.
CREATE TABLE jobs (
    file INTEGER PRIMARY KEY REFERENCES files (id) ON DELETE CASCADE,
    -- Counted before the file is opened: one that kills the process is found out.
    attempts INTEGER NOT NULL DEFAULT 0,
    -- The file's, repeated here so that the next jobs are read off an index and not sorted anew.
    modified_ns INTEGER NOT NULL
) STRICT;
CREATE INDEX jobs_by_turn ON jobs (attempts, modified_ns DESC, file);

-- What derived indexes must follow. One row per chunk that appeared, changed or went.
CREATE TABLE changes (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    chunk INTEGER NOT NULL,
    removed INTEGER NOT NULL
) STRICT;

CREATE TABLE settings (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;

CREATE TABLE history (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    query TEXT NOT NULL,
    -- JSON.
    response TEXT NOT NULL
) STRICT;
