-- Version 2: folders whose text never leaves this machine. By path and not by root: a mark holds for a part of a root,
-- outlives that a root is folded into one above it, and is there again when a folder is.
CREATE TABLE confined (
    -- Absolute, the system's bytes.
    path BLOB PRIMARY KEY
) STRICT, WITHOUT ROWID;
