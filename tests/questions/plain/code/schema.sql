-- The workshop's database.

CREATE TABLE customer (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    phone TEXT
);

-- A bicycle is known by the number that is stamped below its bottom bracket.
CREATE TABLE bicycle (
    frame_number TEXT PRIMARY KEY,
    owner INTEGER NOT NULL REFERENCES customer (id),
    colour TEXT
);

CREATE TABLE job (
    id INTEGER PRIMARY KEY,
    bicycle TEXT NOT NULL REFERENCES bicycle (frame_number),
    opened TEXT NOT NULL,
    closed TEXT
);

-- What lies in the stand longer than four weeks.
CREATE VIEW forgotten AS
SELECT id, bicycle FROM job WHERE closed IS NULL AND opened < date('now', '-28 days');
