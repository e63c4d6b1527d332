-- farebox: compatible-from 0021-operators.sql
-- Payers whose payments are refused. All processes read it as a part of the configuration.
CREATE TABLE payer_controls (
  payer text PRIMARY KEY CHECK (payer ~ '^0x[0-9a-f]{40}$'),
  is_blocked boolean NOT NULL,
  -- The end of a block; without it, only an operator ends it.
  blocked_until timestamptz,
  operator text NOT NULL,
  reason text NOT NULL CHECK (length(reason) BETWEEN 1 AND 1000),
  changed_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX payer_controls_blocked ON payer_controls (payer) WHERE is_blocked;
