-- A program for `hakmem bench`: an in-memory database is filled, indexed, joined, changed and thinned out.
PRAGMA temp_store = MEMORY;
CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT, town TEXT);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, item TEXT, note TEXT, cents INTEGER);

WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
INSERT INTO customer SELECT i, 'customer ' || (i * 7919 % 20000), 'town ' || (i * 104729 % 300) FROM n;

WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 150000)
INSERT INTO orders
SELECT i, i * 48271 % 20000 + 1, 'item ' || (i * 16807 % 4000), substr('a note of some length, repeated, repeated', 1, i % 41), i * 31 % 9999
FROM n;

CREATE INDEX orders_customer ON orders (customer);
CREATE INDEX orders_item ON orders (item, cents);

SELECT town, count(*), sum(cents) FROM customer JOIN orders ON customer.id = orders.customer
GROUP BY town ORDER BY sum(cents) DESC, town LIMIT 3;
SELECT count(DISTINCT item || note), max(length(item || note)) FROM orders;
SELECT length(group_concat(name, ', ')) FROM customer;
UPDATE orders SET note = note || ' and more', cents = cents + 1 WHERE id % 3 = 0;
DELETE FROM orders WHERE id % 5 < 2;
SELECT count(*), sum(length(note)), sum(cents) FROM orders;
SELECT item, count(*) FROM orders GROUP BY item HAVING count(*) > 40 ORDER BY item LIMIT 3;
VACUUM;
SELECT count(*) FROM orders WHERE item IN (SELECT item FROM orders WHERE cents < 500);
