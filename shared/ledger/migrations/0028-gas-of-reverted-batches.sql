-- farebox: compatible-from 0009-settlement-payer.sql
-- What a batch cost that reverted as a whole: no payment is at fault, and each is signed again in another batch, so this
-- gas belongs to no settlement.

ALTER TABLE settlement_batches
  -- Set together, once a process has read that its transaction reverted.
  ADD COLUMN reverted_at timestamptz,
  ADD COLUMN reverted_gas_used numeric(78,0),
  -- In atomic USDC, at the configured price of the native token, with the fee for the transaction's data.
  ADD COLUMN reverted_gas_cost numeric(78,0),
  ADD CONSTRAINT gas_of_reverted_batch CHECK (num_nulls(reverted_at, reverted_gas_used, reverted_gas_cost) IN (0, 3));
CREATE INDEX settlement_batches_reverted ON settlement_batches (reverted_at) WHERE reverted_at IS NOT NULL;
