-- Version 6: weights of terms by a learned sparse encoder, one encoder at a time.
CREATE TABLE term_encoder (
    id TEXT NOT NULL
) STRICT;

CREATE TABLE terms (
    chunk INTEGER PRIMARY KEY REFERENCES chunks (id) ON DELETE CASCADE,
    -- As riddle_types::TermWeights writes them.
    weights BLOB NOT NULL
) STRICT;
