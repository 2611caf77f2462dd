-- The statements of a trigger cost more than the rest of deleting a chunk, and hardly any chunk was read for an answer:
-- what removes half a million of them takes an eighth less time when one look says so.
DROP TRIGGER answers_of_deleted_chunk;

CREATE TRIGGER answers_of_deleted_chunk AFTER DELETE ON chunks
WHEN EXISTS (SELECT 1 FROM answer_passages WHERE chunk = OLD.id) BEGIN
    DELETE FROM answers WHERE kind = 'knowledge'
        AND id IN (SELECT answer FROM answer_passages WHERE chunk = OLD.id AND place <= 0);
    UPDATE answers SET state = 'pending', prompt = NULL, text = NULL, shown = NULL, floor = NULL, negative = 0, detail = '{}'
        WHERE id IN (SELECT answer FROM answer_passages WHERE chunk = OLD.id);
    DELETE FROM answer_passages WHERE chunk = OLD.id;
END;
