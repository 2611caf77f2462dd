-- What a question's prompt has left of keys and values: the name of its last part, and the bytes of all. Whether they
-- are still there, whoever keeps them knows.
CREATE TABLE answer_reads (
    answer INTEGER PRIMARY KEY REFERENCES answers (id) ON DELETE CASCADE,
    leaf BLOB NOT NULL,
    bytes INTEGER NOT NULL
) STRICT;
