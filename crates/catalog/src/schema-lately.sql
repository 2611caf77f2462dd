-- When what a file holds was last found to be new: when it was first read, or was read again and its bytes were others.
-- What an earlier version has read has the time that the file itself has.
ALTER TABLE files ADD COLUMN changed_at INTEGER;
UPDATE files SET changed_at = min(modified_ns / 1000000000, unixepoch()) WHERE content_hash IS NOT NULL;
CREATE INDEX files_by_change ON files (changed_at) WHERE changed_at IS NOT NULL;
-- Files are counted by kind, too, and none of their rows is read for that.
DROP INDEX files_by_state;
CREATE INDEX files_by_state ON files (state, kind);
