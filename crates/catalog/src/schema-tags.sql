-- Tags that a file gives itself, in small letters; parts of a nested one are joined by `/`.
CREATE TABLE file_tags (
    file INTEGER NOT NULL REFERENCES files (id) ON DELETE CASCADE,
    tag TEXT NOT NULL,
    PRIMARY KEY (file, tag)
) STRICT, WITHOUT ROWID;
CREATE INDEX file_tags_by_tag ON file_tags (tag, file);
