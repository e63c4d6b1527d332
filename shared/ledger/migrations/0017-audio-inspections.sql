-- farebox: compatible-from 0009-settlement-payer.sql
-- What decoders found, so that an API process need not decode an upload again that another one has decoded within the
-- lifetime of its challenge. Unlogged: a crash that empties it costs each upload one more decode and nothing else.
CREATE UNLOGGED TABLE audio_inspections (
  audio_sha256 bytea NOT NULL CHECK (octet_length(audio_sha256) = 32),
  -- The decoder and the rules that it was compared by.
  inspector bytea NOT NULL CHECK (octet_length(inspector) = 32),
  -- As the frame walk found it, whatever the decoder said.
  duration_ms integer NOT NULL CHECK (duration_ms > 0),
  -- The public message, if the decoder disagreed.
  refusal text CHECK (octet_length(refusal) BETWEEN 1 AND 1000),
  expires_at timestamptz NOT NULL,
  PRIMARY KEY (audio_sha256, inspector)
);
CREATE INDEX audio_inspections_by_expiry ON audio_inspections (expires_at);
