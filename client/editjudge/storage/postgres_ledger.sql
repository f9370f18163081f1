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
    AND (calls.leased_until < clock_timestamp() - %(grace)s OR calls.owner = excluded.owner)
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

-- teams
-- Of all teams, by jumps through an index.
WITH RECURSIVE found AS (
    (SELECT team FROM editjudge.calls ORDER BY team LIMIT 1) UNION ALL
    SELECT (SELECT min(calls.team) FROM editjudge.calls WHERE calls.team > found.team)
    FROM found WHERE found.team IS NOT NULL
)
SELECT team FROM found WHERE team IS NOT NULL;

-- count
SELECT count(*) FROM editjudge.calls WHERE team = %(team)s AND document IS NOT NULL;

-- purge
-- A piece of what is old. Rows that somebody else purges or writes now are left.
DELETE FROM editjudge.calls WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM editjudge.calls
    WHERE team = %(team)s AND made < coalesce(to_timestamp(%(before)s), 'infinity')
    AND (document IS NOT NULL OR leased_until < clock_timestamp())
    ORDER BY made LIMIT 1000 FOR UPDATE SKIP LOCKED
))
RETURNING document IS NOT NULL;

-- purges
-- Of all teams, when each was purged last.
SELECT team, value FROM editjudge.facts WHERE name = 'purged';

-- spend
WITH own AS (
    INSERT INTO editjudge.spending VALUES (%(budget)s, %(owner)s, %(cost)s, %(dearest)s)
    ON CONFLICT (budget, process) DO UPDATE
    SET cost = excluded.cost, dearest = excluded.dearest
)
SELECT coalesce(sum(cost), 0), coalesce(max(dearest), 0) FROM editjudge.spending
WHERE budget = %(budget)s AND process <> %(owner)s;

-- add_usage
INSERT INTO editjudge.usage
SELECT * FROM json_populate_recordset(NULL::editjudge.usage, %(rows)s)
ON CONFLICT (day, team, process) DO UPDATE
SET batch = excluded.batch,
    edits = usage.edits + excluded.edits,
    refused = usage.refused + excluded.refused,
    calls = usage.calls + excluded.calls,
    cached = usage.cached + excluded.cached,
    failed = usage.failed + excluded.failed,
    prompt_tokens = usage.prompt_tokens + excluded.prompt_tokens,
    cached_tokens = usage.cached_tokens + excluded.cached_tokens,
    completion_tokens = usage.completion_tokens + excluded.completion_tokens,
    cost = usage.cost + excluded.cost
WHERE usage.batch < excluded.batch
RETURNING 1;

-- usage
SELECT day, team, sum(edits)::bigint, sum(refused)::bigint, sum(calls)::bigint,
    sum(cached)::bigint, sum(failed)::bigint, sum(prompt_tokens)::bigint,
    sum(cached_tokens)::bigint, sum(completion_tokens)::bigint, sum(cost)
FROM editjudge.usage GROUP BY day, team ORDER BY day, team;

-- delete_usage
WITH deleted AS (
    DELETE FROM editjudge.usage
    WHERE team = coalesce(%(of)s, team) AND day < coalesce(%(day)s, 'infinity')
    RETURNING day, team
)
SELECT DISTINCT day, team FROM deleted;
