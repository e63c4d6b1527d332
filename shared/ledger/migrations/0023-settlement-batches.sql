-- farebox: compatible-from 0009-settlement-payer.sql
-- Settlements that one transaction of the settlement contract makes together. They share its account nonce; the contract
-- is what their payers signed as facilitator, and the key that sends it pays for the gas. Programs that do not know
-- batches cannot continue one: workers get the contract's address once all of them do.
CREATE TABLE settlement_batches (
  id uuid PRIMARY KEY,
  network text NOT NULL,
  -- The key that sends it.
  facilitator text NOT NULL,
  account_nonce numeric(78,0) NOT NULL,
  contract text NOT NULL,
  -- How many settlements were signed together; some may have moved to another batch since.
  size integer NOT NULL CHECK (size > 0),
  recorded_at timestamptz NOT NULL DEFAULT now(),
  -- Set when its transaction must not be mined any more, as when every node refuses its size: a filler takes its nonce.
  abandoned_at timestamptz,
  CONSTRAINT one_batch_per_account_nonce UNIQUE (network, facilitator, account_nonce),
  -- What the rows of a batch refer to, so that they agree with it.
  CONSTRAINT batches_by_account_nonce UNIQUE (id, network, facilitator, account_nonce)
);

-- The batch that settles it now; in `facilitator` and `account_nonce` is then the key that sends the batch, and its nonce.
ALTER TABLE settlements
  ADD COLUMN batch_id uuid,
  -- Batches that it was in before: their transactions may be mined after a reorganization. Rarely any.
  ADD COLUMN earlier_batches uuid[],
  ADD CONSTRAINT settlement_of_batch FOREIGN KEY (batch_id, network, facilitator, account_nonce)
    REFERENCES settlement_batches (id, network, facilitator, account_nonce) NOT VALID,
  ADD CONSTRAINT only_own_keys_send_batches CHECK (batch_id IS NULL OR settled_by = 'own_key') NOT VALID,
  ADD CONSTRAINT earlier_batches_were_left CHECK (
    earlier_batches IS NULL OR (batch_id IS NOT NULL AND batch_id <> ALL(earlier_batches))) NOT VALID;

-- Of one settlement, one batch, one sponsored permit, or none: then it fills a nonce gap.
ALTER TABLE settlement_transactions
  ADD COLUMN batch_id uuid,
  ADD CONSTRAINT transaction_of_batch FOREIGN KEY (batch_id, network, facilitator, account_nonce)
    REFERENCES settlement_batches (id, network, facilitator, account_nonce) NOT VALID,
  DROP CONSTRAINT transaction_of_one_kind,
  ADD CONSTRAINT transaction_of_one_kind
    CHECK (num_nonnulls(settlement_id, sponsored_permit_id, batch_id) < 2) NOT VALID;
