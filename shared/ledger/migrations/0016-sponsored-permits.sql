-- farebox: compatible-from 0009-settlement-payer.sql
-- EIP-2612 permits of owners for Permit2 that the service submits at its own cost. Rows are small and are kept.
-- requested: verified, nothing is signed. signed: a transaction is stored and may have been sent. confirmed: Permit2 has
-- the allowance. failed: it does not.
CREATE TABLE sponsored_permits (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  -- The EIP-712 hash that the owner signed.
  digest text NOT NULL UNIQUE,
  network text NOT NULL,
  owner text NOT NULL,
  value numeric(78,0) NOT NULL,
  deadline numeric(78,0) NOT NULL,
  permit_nonce numeric(78,0) NOT NULL,
  signature text NOT NULL,
  state text NOT NULL DEFAULT 'requested' CHECK (state IN ('requested', 'signed', 'confirmed', 'failed')),
  requested_at timestamptz NOT NULL DEFAULT now(),
  finished_at timestamptz,
  -- The most that the permit may cost, in wei of the native token; it counts until gas_wei is known.
  reserved_gas_wei numeric(78,0) NOT NULL CHECK (reserved_gas_wei > 0),
  minimum_balance numeric(78,0) NOT NULL,

  fence bigint NOT NULL DEFAULT 0,
  lease_expires_at timestamptz,
  run_after timestamptz NOT NULL DEFAULT now(),

  -- The account nonce that its transactions share; they are in settlement_transactions.
  facilitator text,
  account_nonce numeric(78,0),
  -- Its transaction must not be mined any more; another one uses up the account nonce.
  abandoned_at timestamptz,

  -- Another submission of the permit came first: the transaction below, if there is one, had no effect.
  is_granted_elsewhere boolean NOT NULL DEFAULT false,
  -- The transaction that used up the account nonce.
  transaction_hash text,
  block_number numeric(78,0),
  block_hash text,
  finalized_at timestamptz,
  -- What that transaction cost the key: gas_wei is the whole cost, with a rollup's fee for the transaction's data;
  -- gas_cost is the same in atomic USDC, at the configured price of the native token.
  gas_used numeric(78,0),
  effective_gas_price numeric(78,0),
  gas_wei numeric(78,0),
  gas_cost numeric(78,0),
  failure_code text,
  -- For operators.
  failure_reason text,

  CONSTRAINT one_permit_per_account_nonce UNIQUE (network, facilitator, account_nonce),
  CONSTRAINT signed_permit_has_account_nonce CHECK (state <> 'signed' OR account_nonce IS NOT NULL),
  CONSTRAINT permit_account_is_complete CHECK (num_nulls(facilitator, account_nonce) IN (0, 2)),
  CONSTRAINT finished_permit_has_time CHECK ((state IN ('confirmed', 'failed')) = (finished_at IS NOT NULL)),
  CONSTRAINT confirmed_permit_has_block CHECK (state <> 'confirmed' OR block_number IS NOT NULL),
  CONSTRAINT failed_permit_has_code CHECK ((state = 'failed') = (failure_code IS NOT NULL)),
  CONSTRAINT permit_gas_is_complete CHECK (
    num_nulls(transaction_hash, block_hash, gas_used, effective_gas_price, gas_wei, gas_cost) IN (0, 6)),
  CONSTRAINT only_finished_permit_has_gas CHECK (gas_wei IS NULL OR finished_at IS NOT NULL)
);
CREATE INDEX sponsored_permits_due ON sponsored_permits (run_after) WHERE state IN ('requested', 'signed');
CREATE INDEX sponsored_permits_by_owner ON sponsored_permits (owner, requested_at);
CREATE INDEX sponsored_permits_with_gas ON sponsored_permits (finished_at) WHERE gas_wei IS NOT NULL;
CREATE INDEX sponsored_permits_not_final ON sponsored_permits (block_number)
  WHERE block_hash IS NOT NULL AND finalized_at IS NULL;

-- Which permit a transaction submits. A row without a settlement and without a permit only fills a nonce gap; to
-- programs that do not know this column, a permit's row reads as such a filler, which is sent and replaced like any.
ALTER TABLE settlement_transactions
  ADD COLUMN sponsored_permit_id uuid,
  ADD CONSTRAINT transaction_of_permit FOREIGN KEY (sponsored_permit_id) REFERENCES sponsored_permits NOT VALID,
  ADD CONSTRAINT transaction_of_one_kind CHECK (num_nonnulls(settlement_id, sponsored_permit_id) < 2) NOT VALID;
