-- Answers that were given or prepared, so that they need not be written again. An answer is made of what was read for it:
-- whatever takes a passage away takes the words of every answer that read it, in the same transaction, whoever deletes.
CREATE TABLE answers (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    -- As it was understood, and as it was typed.
    question TEXT NOT NULL,
    typed TEXT NOT NULL,
    -- user, knowledge (foreseen from passages), history (foreseen from questions).
    kind TEXT NOT NULL,
    -- Identity of all beside the question that decides an answer: model, filters, number of passages and so on.
    setting BLOB NOT NULL,
    -- fresh; suspect: something changed nearby; pending: there are no words, or none any more.
    state TEXT NOT NULL,
    -- Identity of everything that the model was asked.
    prompt BLOB,
    embedder TEXT,
    -- f32, little-endian.
    vector BLOB,
    -- Least similarity of a passage that it was written from: a nearer one would have been read.
    floor REAL,
    -- What the model wrote, and what was shown of it.
    text TEXT,
    shown TEXT,
    -- The model has said that the passages hold no answer.
    negative INTEGER NOT NULL DEFAULT 0,
    -- JSON: verdicts and costs.
    detail TEXT NOT NULL DEFAULT '{}',
    -- The change log's place that was read.
    seq INTEGER NOT NULL,
    made_at INTEGER NOT NULL,
    checked_at INTEGER NOT NULL,
    used_at INTEGER NOT NULL,
    uses INTEGER NOT NULL DEFAULT 0,
    UNIQUE (setting, question)
) STRICT;
CREATE INDEX answers_by_prompt ON answers (prompt) WHERE prompt IS NOT NULL;
CREATE INDEX answers_negative ON answers (id) WHERE negative = 1;

CREATE TABLE answer_passages (
    answer INTEGER NOT NULL REFERENCES answers (id) ON DELETE CASCADE,
    -- Its number in the prompt; 0 and below: the question was made from it.
    place INTEGER NOT NULL,
    -- No reference: the trigger below has to find the rows of a chunk that is gone.
    chunk INTEGER NOT NULL,
    text_hash BLOB NOT NULL,
    cited INTEGER NOT NULL,
    PRIMARY KEY (answer, place)
) STRICT, WITHOUT ROWID;
CREATE INDEX answer_passages_by_chunk ON answer_passages (chunk);

-- Which questions another one was made from.
CREATE TABLE answer_parents (
    answer INTEGER NOT NULL REFERENCES answers (id) ON DELETE CASCADE,
    parent INTEGER NOT NULL,
    PRIMARY KEY (answer, parent)
) STRICT, WITHOUT ROWID;
CREATE INDEX answer_parents_by_parent ON answer_parents (parent);

-- A sentence about a passage, and how often questions were made from it.
CREATE TABLE abstracts (
    chunk INTEGER PRIMARY KEY REFERENCES chunks (id) ON DELETE CASCADE,
    text TEXT NOT NULL,
    used INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Counts and sums: hits, misses, seconds saved and spent.
CREATE TABLE answer_figures (
    name TEXT PRIMARY KEY,
    value REAL NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TRIGGER answers_of_deleted_chunk AFTER DELETE ON chunks BEGIN
    DELETE FROM answers WHERE kind = 'knowledge'
        AND id IN (SELECT answer FROM answer_passages WHERE chunk = OLD.id AND place <= 0);
    UPDATE answers SET state = 'pending', prompt = NULL, text = NULL, shown = NULL, floor = NULL, negative = 0, detail = '{}'
        WHERE id IN (SELECT answer FROM answer_passages WHERE chunk = OLD.id);
    DELETE FROM answer_passages WHERE chunk = OLD.id;
END;

CREATE TRIGGER answers_of_changed_chunk AFTER UPDATE OF text, heading ON chunks
WHEN OLD.text <> NEW.text OR OLD.heading <> NEW.heading BEGIN
    DELETE FROM answers WHERE kind = 'knowledge'
        AND id IN (SELECT answer FROM answer_passages WHERE chunk = OLD.id AND place <= 0);
    UPDATE answers SET state = 'pending', prompt = NULL, text = NULL, shown = NULL, floor = NULL, negative = 0, detail = '{}'
        WHERE id IN (SELECT answer FROM answer_passages WHERE chunk = OLD.id);
    DELETE FROM answer_passages WHERE chunk = OLD.id;
    DELETE FROM abstracts WHERE chunk = OLD.id;
END;

-- That nothing answers a question holds until there is something new.
CREATE TRIGGER answers_of_new_chunk AFTER INSERT ON chunks WHEN EXISTS (SELECT 1 FROM answers WHERE negative = 1) BEGIN
    DELETE FROM answers WHERE negative = 1;
END;

CREATE TRIGGER answers_made_from_deleted AFTER DELETE ON answers BEGIN
    DELETE FROM answers WHERE id IN (SELECT answer FROM answer_parents WHERE parent = OLD.id);
END;
