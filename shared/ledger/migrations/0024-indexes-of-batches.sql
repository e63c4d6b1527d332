-- farebox: compatible-from 0009-settlement-payer.sql
-- farebox: no-transaction
-- What 0023 leaves out because it reads whole tables, without a lock that paid work waits for. Every statement may be
-- repeated.
ALTER TABLE settlements VALIDATE CONSTRAINT settlement_of_batch;
ALTER TABLE settlements VALIDATE CONSTRAINT only_own_keys_send_batches;
ALTER TABLE settlements VALIDATE CONSTRAINT earlier_batches_were_left;
ALTER TABLE settlement_transactions VALIDATE CONSTRAINT transaction_of_batch;
ALTER TABLE settlement_transactions VALIDATE CONSTRAINT transaction_of_one_kind;

-- Who is in a batch, was in it, and its transactions.
DROP INDEX CONCURRENTLY IF EXISTS settlements_by_batch;
CREATE INDEX CONCURRENTLY settlements_by_batch ON settlements (batch_id) WHERE batch_id IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS settlements_by_earlier_batch;
CREATE INDEX CONCURRENTLY settlements_by_earlier_batch ON settlements USING gin (earlier_batches)
  WHERE earlier_batches IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS settlement_transactions_by_batch;
CREATE INDEX CONCURRENTLY settlement_transactions_by_batch ON settlement_transactions (batch_id)
  WHERE batch_id IS NOT NULL;

-- Settlements of one batch share an account nonce. 0025 puts this index in the place of the constraint on all of them.
DROP INDEX CONCURRENTLY IF EXISTS one_own_transaction_per_account_nonce;
CREATE UNIQUE INDEX CONCURRENTLY one_own_transaction_per_account_nonce
  ON settlements (network, facilitator, account_nonce) WHERE batch_id IS NULL;
