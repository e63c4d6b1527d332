-- farebox: no-transaction
-- Owners' permits wait for their next charge, with which the settlement contract brings them; the service sends none by itself.
-- Every statement may be repeated.
CREATE TABLE IF NOT EXISTS stored_permits (
  owner text PRIMARY KEY,
  value numeric(78,0) NOT NULL,
  permit_nonce numeric(78,0) NOT NULL,
  -- Unix seconds, which may be beyond what a timestamp holds.
  deadline numeric(78,0) NOT NULL,
  signature text NOT NULL,
  -- The deadline, or the longest that a permit is kept.
  expires_at timestamptz NOT NULL
);
CREATE INDEX IF NOT EXISTS stored_permits_by_expiry ON stored_permits (expires_at);

-- With the column goes the constraint that names it.
ALTER TABLE settlement_transactions DROP COLUMN IF EXISTS sponsored_permit_id;
ALTER TABLE settlement_transactions DROP CONSTRAINT IF EXISTS transaction_of_one_kind;
-- Of one settlement, one batch, or none: then it fills a nonce gap.
ALTER TABLE settlement_transactions
  ADD CONSTRAINT transaction_of_one_kind CHECK (num_nonnulls(settlement_id, batch_id) < 2) NOT VALID;
ALTER TABLE settlement_transactions VALIDATE CONSTRAINT transaction_of_one_kind;
ALTER TABLE ledger_hours DROP COLUMN IF EXISTS permit_gas;
DROP TABLE IF EXISTS sponsored_permits;
