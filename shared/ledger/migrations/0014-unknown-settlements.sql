-- farebox: compatible-from 0009-settlement-payer.sql
-- Payments that the chain shows as settled and of which the ledger has no settlement, as after a restore from a backup.
-- Each was presented by its caller, or met by a worker. A person refunds or explains it, and sets resolved_at.
CREATE TABLE unknown_settlements (
  network text NOT NULL,
  payer text NOT NULL,
  nonce numeric(78,0) NOT NULL,
  pay_to text NOT NULL,
  authorized_maximum numeric(78,0) NOT NULL,
  transaction_hash text NOT NULL,
  block_number numeric(78,0) NOT NULL,
  amount numeric(78,0) NOT NULL,
  idempotency_key text,
  request_id text,
  job_id uuid REFERENCES jobs,
  found_at timestamptz NOT NULL DEFAULT now(),
  resolved_at timestamptz,
  -- What was done, such as the transaction of the refund.
  resolution text,
  PRIMARY KEY (network, payer, nonce)
);
CREATE INDEX unknown_settlements_open ON unknown_settlements (found_at) WHERE resolved_at IS NULL;
