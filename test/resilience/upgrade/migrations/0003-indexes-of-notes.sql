-- farebox: compatible-from 0001-schema.sql
-- farebox: no-transaction
-- What 0002 leaves out because it reads whole tables. Every statement may be repeated.
UPDATE jobs SET note = 'completed under 1.0' WHERE state = 'completed' AND note IS NULL;
ALTER TABLE jobs VALIDATE CONSTRAINT note_is_short;
DROP INDEX CONCURRENTLY IF EXISTS jobs_by_note;
CREATE INDEX CONCURRENTLY jobs_by_note ON jobs (note, accepted_at) WHERE note IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS settlements_by_facilitator;
CREATE INDEX CONCURRENTLY settlements_by_facilitator ON settlements (facilitator, signed_at);
