-- farebox: compatible-from 0009-settlement-payer.sql
-- farebox: no-transaction
-- What a wallet reads of its own account. Every statement may be repeated, and none takes a lock that paid work waits for:
-- the index is built concurrently.
-- Nonces of sign-in challenges that were answered, so that each is accepted once by all API processes together. A row is
-- deleted some minutes after its challenge expired; challenges that nobody answers are not stored.
CREATE TABLE IF NOT EXISTS used_sign_ins (
  nonce text PRIMARY KEY,
  expires_at timestamptz NOT NULL
);
CREATE INDEX IF NOT EXISTS used_sign_ins_by_expiry ON used_sign_ins (expires_at);

-- Pages of a payer's receipts, newest first, and the sums of a payer's charges without reading the rows themselves.
DROP INDEX CONCURRENTLY IF EXISTS jobs_completed_by_payer;
CREATE INDEX CONCURRENTLY jobs_completed_by_payer ON jobs (payer, finished_at, id)
  INCLUDE (operation, public_model, charge_amount) WHERE state = 'completed';
