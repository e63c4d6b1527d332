-- The made-up version 1.2: no program before it works with this.
ALTER TABLE jobs RENAME COLUMN request_id TO caller_request_id;
