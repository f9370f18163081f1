-- Statements on the tables of postgres.sql. Each is a transaction of its own and may be repeated.

-- get
SELECT cost, document, outputs FROM editjudge.calls
WHERE team = %(team)s AND key = %(key)s AND document IS NOT NULL;

-- claim
-- No row: another process makes the call. A row of nulls: it is the caller's to make. The row of a
-- call changes in one statement, so that no reply lands between two looks.
WITH reply AS (
    SELECT cost, document, outputs FROM editjudge.calls
    WHERE team = %(team)s AND key = %(key)s AND document IS NOT NULL
), claim AS (
    INSERT INTO editjudge.calls (team, key, owner, leased_until)
    SELECT %(team)s, %(key)s, %(owner)s, clock_timestamp() + %(lease)s
    WHERE NOT EXISTS (SELECT FROM reply)
    ON CONFLICT (team, key) DO UPDATE
    SET owner = excluded.owner, leased_until = excluded.leased_until
    WHERE calls.document IS NULL
    AND (calls.leased_until < clock_timestamp() OR calls.owner = excluded.owner)
    RETURNING 1
)
SELECT * FROM reply UNION ALL SELECT NULL, NULL, NULL FROM claim;

-- renew
UPDATE editjudge.calls SET leased_until = clock_timestamp() + %(lease)s
WHERE team = %(team)s AND key = %(key)s AND owner = %(owner)s AND document IS NULL
RETURNING 1;

-- release
DELETE FROM editjudge.calls
WHERE team = %(team)s AND key = %(key)s AND owner = %(owner)s AND document IS NULL
RETURNING 1;

-- put
INSERT INTO editjudge.calls (team, key, owner, prompt, made, cost, document, outputs)
VALUES (%(team)s, %(key)s, %(owner)s, %(prompt)s, now(), %(cost)s, %(document)s, %(outputs)s)
ON CONFLICT (team, key) DO UPDATE
SET owner = excluded.owner, leased_until = NULL, prompt = excluded.prompt, made = excluded.made,
    cost = excluded.cost, document = excluded.document, outputs = excluded.outputs
WHERE calls.document IS NULL
RETURNING 1;

-- stored
SELECT owner = %(owner)s, cost, document, outputs FROM editjudge.calls
WHERE team = %(team)s AND key = %(key)s;

-- records
SELECT key, prompt, cost, document, outputs FROM editjudge.calls
WHERE team = %(team)s AND key = ANY(%(keys)s) AND document IS NOT NULL;

-- drop
DELETE FROM editjudge.calls
WHERE team = %(team)s AND key = ANY(%(keys)s) AND document IS NOT NULL
RETURNING 1;

-- fact
SELECT value FROM editjudge.facts WHERE team = %(team)s AND name = %(name)s;

-- put_fact
INSERT INTO editjudge.facts (team, name, value) VALUES (%(team)s, %(name)s, %(value)s)
ON CONFLICT (team, name) DO UPDATE SET value = excluded.value
RETURNING 1;
