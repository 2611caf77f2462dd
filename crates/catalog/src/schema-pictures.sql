-- Version 5: pages that are pictures. What they say stands here once they are read, with how sure that is; it goes with
-- the file, and when the file's bytes change.
CREATE TABLE pictures (
    file INTEGER NOT NULL REFERENCES files (id) ON DELETE CASCADE,
    page INTEGER NOT NULL,
    since INTEGER NOT NULL,
    -- What the page says, as JSON; NULL while it waits.
    said TEXT,
    sure REAL NOT NULL DEFAULT 0,
    PRIMARY KEY (file, page)
) WITHOUT ROWID;
CREATE INDEX pictures_waiting ON pictures (since, file, page) WHERE said IS NULL;
