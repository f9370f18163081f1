-- Version 1 of the tables of a ledger. Texts are UTF-8 bytes, as in the file of a ledger.
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
