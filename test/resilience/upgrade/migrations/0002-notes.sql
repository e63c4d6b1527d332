-- farebox: compatible-from 0001-schema.sql
-- The made-up version 1.1: a nullable column, a constraint on it, and a table that refers to the jobs.
ALTER TABLE jobs
  ADD COLUMN note text,
  ADD CONSTRAINT note_is_short CHECK (length(note) <= 1000) NOT VALID;
ALTER TABLE settlements ADD COLUMN note text;
CREATE TABLE job_notes (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  job_id uuid NOT NULL REFERENCES jobs,
  note text NOT NULL
);
