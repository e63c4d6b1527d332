-- Times are PostgreSQL's own clock, money is atomic USDC in numeric(78,0) (a uint256 fits), addresses are lower case.

-- One namespace of x-idempotency-key. A challenge binds a key until it expires, a job binds it for good.
CREATE TABLE idempotency_keys (
  idempotency_key text PRIMARY KEY CHECK (length(idempotency_key) BETWEEN 1 AND 255),
  request_digest text NOT NULL CHECK (length(request_digest) = 64),
  quoted_maximum numeric(78,0) NOT NULL CHECK (quoted_maximum >= 0),
  catalog_version text NOT NULL,
  terms jsonb NOT NULL,
  expires_at timestamptz NOT NULL,
  job_id uuid
);
CREATE INDEX idempotency_keys_unused ON idempotency_keys (expires_at) WHERE job_id IS NULL;

CREATE TABLE jobs (
  id uuid PRIMARY KEY,
  idempotency_key text NOT NULL UNIQUE REFERENCES idempotency_keys,
  operation text NOT NULL,
  public_model text NOT NULL,
  request_digest text NOT NULL CHECK (length(request_digest) = 64),
  effective_request jsonb NOT NULL,
  quoted_maximum numeric(78,0) NOT NULL CHECK (quoted_maximum >= 0),
  catalog_version text NOT NULL,
  terms jsonb NOT NULL,
  payer text NOT NULL,
  authorization_id uuid NOT NULL,
  staged_upload_id uuid,
  state text NOT NULL CHECK (state IN
    ('accepted', 'generating', 'generated', 'settling', 'completed', 'failed', 'settlement_failed', 'review')),
  -- A worker acts under the fence that its claim returned; a later claim raises it and shuts the earlier worker out.
  fence bigint NOT NULL DEFAULT 0,
  lease_expires_at timestamptz,
  run_after timestamptz NOT NULL DEFAULT now(),
  enqueued_at timestamptz,
  usage jsonb,
  charge_amount numeric(78,0) CHECK (charge_amount >= 0),
  result_body text,
  result_digest text CHECK (length(result_digest) = 64),
  payment_response jsonb,
  receipt_id uuid UNIQUE,
  failure_code text,
  -- For operators; never shown to a caller.
  failure_reason text,
  accepted_at timestamptz NOT NULL DEFAULT now(),
  finished_at timestamptz,
  CONSTRAINT charge_within_quote CHECK (charge_amount <= quoted_maximum),
  CONSTRAINT charge_has_result CHECK (
    state NOT IN ('generated', 'settling', 'completed', 'settlement_failed')
    OR (result_body IS NOT NULL AND result_digest IS NOT NULL AND charge_amount IS NOT NULL AND usage IS NOT NULL)),
  CONSTRAINT completed_has_receipt CHECK ((state = 'completed') = (receipt_id IS NOT NULL AND payment_response IS NOT NULL)),
  CONSTRAINT failure_has_code CHECK ((state IN ('failed', 'settlement_failed')) = (failure_code IS NOT NULL))
);
CREATE INDEX jobs_unfinished ON jobs (run_after)
  WHERE state IN ('accepted', 'generating', 'generated', 'settling');

-- The claim of a payment nonce, before any work. Rows stay for good: a zero charge leaves the nonce unused on chain.
CREATE TABLE authorizations (
  id uuid PRIMARY KEY,
  job_id uuid NOT NULL REFERENCES jobs DEFERRABLE INITIALLY DEFERRED,
  network text NOT NULL,
  payer text NOT NULL,
  nonce numeric(78,0) NOT NULL,
  authorized_maximum numeric(78,0) NOT NULL CHECK (authorized_maximum >= 0),
  deadline timestamptz NOT NULL,
  signed jsonb NOT NULL,
  -- The nonce of the payer's EIP-2612 permit while this authorization may still submit it.
  permit_nonce numeric(78,0),
  permit_released_at timestamptz,
  claimed_at timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT one_claim_per_nonce UNIQUE (network, payer, nonce)
);
-- Two open payments with one permit nonce would let only the first one settle.
CREATE UNIQUE INDEX one_open_permit_per_nonce ON authorizations (network, payer, permit_nonce)
  WHERE permit_nonce IS NOT NULL AND permit_released_at IS NULL;
CREATE INDEX authorizations_by_job ON authorizations (job_id);
ALTER TABLE jobs ADD CONSTRAINT jobs_authorization FOREIGN KEY (authorization_id)
  REFERENCES authorizations DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE idempotency_keys ADD CONSTRAINT idempotency_keys_job FOREIGN KEY (job_id)
  REFERENCES jobs DEFERRABLE INITIALLY DEFERRED;

-- Written before the provider is called, so that a crash cannot hide a call.
CREATE TABLE upstream_attempts (
  id uuid PRIMARY KEY,
  job_id uuid NOT NULL REFERENCES jobs,
  authorization_id uuid NOT NULL REFERENCES authorizations,
  deployment text NOT NULL,
  state text NOT NULL CHECK (state IN ('open', 'succeeded', 'failed_definite', 'failed_ambiguous')),
  reason text,
  started_at timestamptz NOT NULL DEFAULT now(),
  finished_at timestamptz,
  CONSTRAINT finished_unless_open CHECK ((state = 'open') = (finished_at IS NULL))
);
-- An ambiguous failure may have been billed upstream, so its authorization is never used for another call.
CREATE UNIQUE INDEX one_call_per_authorization ON upstream_attempts (authorization_id)
  WHERE state <> 'failed_definite';

-- Encrypted audio between API and worker. Erasing data_key makes the object unreadable before its file is gone.
CREATE TABLE staged_uploads (
  id uuid PRIMARY KEY,
  job_id uuid NOT NULL REFERENCES jobs DEFERRABLE INITIALLY DEFERRED,
  object_key text NOT NULL UNIQUE,
  data_key bytea,
  expires_at timestamptz NOT NULL,
  erased_at timestamptz,
  object_deleted_at timestamptz,
  CONSTRAINT erased_has_no_key CHECK ((data_key IS NULL) = (erased_at IS NOT NULL))
);
CREATE INDEX staged_uploads_to_reap ON staged_uploads (expires_at) WHERE object_deleted_at IS NULL;

CREATE TABLE settlement_accounts (
  network text NOT NULL,
  facilitator text NOT NULL,
  next_account_nonce numeric(78,0) NOT NULL,
  PRIMARY KEY (network, facilitator)
);

CREATE TABLE settlements (
  id uuid PRIMARY KEY,
  job_id uuid NOT NULL REFERENCES jobs,
  authorization_id uuid NOT NULL UNIQUE REFERENCES authorizations,
  network text NOT NULL,
  facilitator text NOT NULL,
  account_nonce numeric(78,0) NOT NULL,
  charge_amount numeric(78,0) NOT NULL CHECK (charge_amount >= 0),
  state text NOT NULL CHECK (state IN ('signed', 'confirmed', 'reverted', 'unproven')),
  transaction_hash text,
  block_number numeric(78,0),
  signed_at timestamptz NOT NULL DEFAULT now(),
  finished_at timestamptz,
  CONSTRAINT one_transaction_per_account_nonce UNIQUE (network, facilitator, account_nonce),
  CONSTRAINT confirmed_is_on_chain CHECK (
    state <> 'confirmed' OR (transaction_hash IS NOT NULL AND block_number IS NOT NULL AND finished_at IS NOT NULL))
);
CREATE UNIQUE INDEX one_charge_per_job ON settlements (job_id) WHERE state <> 'reverted';

-- Every transaction ever signed for a settlement; fee replacements add rows, none is removed.
CREATE TABLE settlement_transactions (
  hash text PRIMARY KEY,
  settlement_id uuid NOT NULL REFERENCES settlements,
  raw_transaction text NOT NULL,
  signed_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX settlement_transactions_by_settlement ON settlement_transactions (settlement_id);

CREATE TABLE receipts (
  id uuid PRIMARY KEY,
  job_id uuid NOT NULL UNIQUE REFERENCES jobs,
  -- Names the server secret that the receipt's token derives from.
  token_secret_id text NOT NULL,
  body jsonb NOT NULL
);
ALTER TABLE jobs ADD CONSTRAINT jobs_receipt FOREIGN KEY (receipt_id) REFERENCES receipts DEFERRABLE INITIALLY DEFERRED;

CREATE FUNCTION refuse_receipt_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'receipts are immutable';
END $$;
CREATE TRIGGER receipts_are_immutable BEFORE UPDATE OR DELETE ON receipts
  FOR EACH ROW EXECUTE FUNCTION refuse_receipt_change();
