-- The tables of a ledger, version by version: an older database gets the versions that it lacks.
-- Texts are UTF-8 bytes, as in the file of a ledger.

-- version 1
-- A row of `calls` without a document is a call that its owner makes now, until its lease ends.
CREATE SCHEMA editjudge;
CREATE TABLE editjudge.version (number integer NOT NULL);
INSERT INTO editjudge.version VALUES (1);
CREATE TABLE editjudge.calls (
    team bytea NOT NULL,
    key bytea NOT NULL,
    owner bytea,
    leased_until timestamptz,
    prompt bytea,
    made timestamptz,
    cost double precision,
    document bytea,
    outputs bytea,
    PRIMARY KEY (team, key)
);
CREATE INDEX calls_by_age ON editjudge.calls (made) WHERE document IS NOT NULL;
CREATE TABLE editjudge.facts (
    team bytea NOT NULL,
    name bytea NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (team, name)
);

-- version 2
-- By team and age, for purges; a claim has the time at which it began.
UPDATE editjudge.calls SET made = coalesce(leased_until, now()) WHERE made IS NULL;
ALTER TABLE editjudge.calls ALTER made SET DEFAULT now(), ALTER made SET NOT NULL;
DROP INDEX editjudge.calls_by_age;
CREATE INDEX calls_by_age ON editjudge.calls (team, made);
-- A statement reads and writes rows of the team that the setting `editjudge.team` names, whatever
-- its own conditions are; without the setting none, with `*` those of all teams.
ALTER TABLE editjudge.calls ENABLE ROW LEVEL SECURITY;
ALTER TABLE editjudge.calls FORCE ROW LEVEL SECURITY;
CREATE POLICY of_team ON editjudge.calls
    USING (current_setting('editjudge.team', true) IN ('*', 'x' || encode(team, 'hex')));
ALTER TABLE editjudge.facts ENABLE ROW LEVEL SECURITY;
ALTER TABLE editjudge.facts FORCE ROW LEVEL SECURITY;
CREATE POLICY of_team ON editjudge.facts
    USING (current_setting('editjudge.team', true) IN ('*', 'x' || encode(team, 'hex')));
-- What a process has spent of a budget. Each has a row of its own, so that nobody waits for a row,
-- and a statement that is repeated adds nothing.
CREATE TABLE editjudge.spending (
    budget bytea NOT NULL,
    process bytea NOT NULL,
    cost double precision NOT NULL,
    dearest double precision NOT NULL,
    PRIMARY KEY (budget, process)
);
-- What teams used, in the Judge service. A batch that is repeated adds nothing.
CREATE TABLE editjudge.usage (
    day text NOT NULL,
    team text NOT NULL,
    process text NOT NULL,
    batch bigint NOT NULL,
    edits bigint NOT NULL,
    refused bigint NOT NULL,
    calls bigint NOT NULL,
    cached bigint NOT NULL,
    failed bigint NOT NULL,
    prompt_tokens bigint NOT NULL,
    cached_tokens bigint NOT NULL,
    completion_tokens bigint NOT NULL,
    cost double precision NOT NULL,
    PRIMARY KEY (day, team, process)
);
UPDATE editjudge.version SET number = 2;
