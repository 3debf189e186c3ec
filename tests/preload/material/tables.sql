-- Recursive queries, indexes, joins, full sorts, triggers, JSON, a vacuum.
PRAGMA journal_mode = MEMORY;
CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, weight REAL, note BLOB);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000)
INSERT INTO item SELECT i, 'name' || (i * 7919 % 10007), i * 0.25, zeroblob(i % 300) FROM n;
CREATE INDEX by_name ON item(name);
CREATE TABLE log(what TEXT);
CREATE TRIGGER on_delete AFTER DELETE ON item BEGIN INSERT INTO log VALUES ('gone ' || old.id); END;
SELECT count(*), sum(length(note)), printf('%.2f', sum(weight)) FROM item;
SELECT substr(name, 1, 6) AS head, count(*) AS n FROM item GROUP BY head ORDER BY n DESC, head LIMIT 5;
SELECT count(*) FROM item a JOIN item b ON a.name = b.name WHERE a.id < b.id;
DELETE FROM item WHERE id % 3 = 0;
SELECT count(*), min(what), max(what) FROM log;
SELECT group_concat(name, ',') FROM (SELECT name FROM item WHERE id < 20 ORDER BY name);
SELECT json_group_array(json_object('id', id, 'name', name)) FROM (SELECT id, name FROM item ORDER BY id LIMIT 3);
WITH RECURSIVE q(a, b) AS (VALUES (0, 1) UNION ALL SELECT b, a + b FROM q LIMIT 50) SELECT max(a) FROM q;
SELECT id, row_number() OVER (ORDER BY weight DESC) FROM item LIMIT 3;
VACUUM;
PRAGMA integrity_check;
