-- Version 7: vectors lie in a table of rows. As entries of an index, each took a page of its own beside its place: 5 kB
-- for 1.5 kB of numbers, and two reads for one.
CREATE TABLE vectors_by_row (
    id INTEGER PRIMARY KEY,
    embedder TEXT NOT NULL REFERENCES embedders (id) ON DELETE CASCADE,
    chunk INTEGER NOT NULL REFERENCES chunks (id) ON DELETE CASCADE,
    -- f32, little-endian.
    vector BLOB NOT NULL
) STRICT;
INSERT INTO vectors_by_row (embedder, chunk, vector) SELECT embedder, chunk, vector FROM vectors ORDER BY chunk;
DROP TABLE vectors;
ALTER TABLE vectors_by_row RENAME TO vectors;
-- The chunk first: whoever removes one looks for its vectors of all embedders.
CREATE UNIQUE INDEX vectors_of_chunk ON vectors (chunk, embedder);
