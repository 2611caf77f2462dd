-- Version 3: when a passage gets its vector. 0: prose, early; 1: rows of tables, late; 2: columns of numbers, never.
ALTER TABLE chunks ADD COLUMN turn INTEGER NOT NULL DEFAULT 0;
-- The queue of vectors is read off this index, and the passages that never get one are counted by it.
CREATE INDEX chunks_by_turn ON chunks (turn, ordinal, file);
