-- Stored as the text that was digested: jsonb has no place for U+0000, which prompts may hold.
ALTER TABLE jobs ALTER COLUMN effective_request TYPE text USING effective_request::text;

-- Result media behind capability URLs. The token itself stands only in the released result.
CREATE TABLE media (
  id uuid PRIMARY KEY,
  job_id uuid NOT NULL REFERENCES jobs,
  token_sha256 text NOT NULL UNIQUE CHECK (length(token_sha256) = 64),
  object_key text NOT NULL UNIQUE,
  content_type text NOT NULL,
  sha256 text NOT NULL CHECK (length(sha256) = 64),
  bytes bigint NOT NULL CHECK (bytes > 0),
  expires_at timestamptz NOT NULL,
  object_deleted_at timestamptz
);
CREATE INDEX media_to_reap ON media (expires_at) WHERE object_deleted_at IS NULL;
