-- The schema of 1.0. Times are PostgreSQL's own clock, money is atomic USDC in numeric(78,0) (a uint256 fits), addresses are
-- lower case. What the role of the services may do to each table is in ../role-rights.ts.
--
-- PostgreSQL's defaults vacuum a table once a fifth of it has changed, and analyze it after a tenth: of ten million calls
-- that is two million dead rows, a day or more of estimates about hours that the statistics do not know yet, and
-- index-only scans that read the table because no vacuum has marked its newest pages. So the tables of a call are vacuumed
-- after a fiftieth, and analyzed after a hundredth.

CREATE FUNCTION refuse_change_of_record() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'rows of % are immutable', TG_TABLE_NAME;
END $$;

-- Keys and jobs ---------------------------------------------------------------------------------------------------------

-- One namespace of x-idempotency-key. A challenge binds a key until it expires, a job binds it until it is released.
CREATE TABLE idempotency_keys (
  idempotency_key text PRIMARY KEY CHECK (length(idempotency_key) BETWEEN 1 AND 255),
  request_digest text NOT NULL CHECK (length(request_digest) = 64),
  quoted_maximum numeric(78,0) NOT NULL CHECK (quoted_maximum >= 0),
  catalog_version text NOT NULL,
  terms jsonb NOT NULL,
  expires_at timestamptz NOT NULL,
  job_id uuid,
  -- What a caller says of a recording that was priced before it was sent: {"sha256", "bytes", "duration_ms"}. Null for a
  -- request that was read completely, and once a job is accepted under the key. Until then the recording itself may replace
  -- the description once, which adds "is_replaced".
  described_audio jsonb
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02,
  autovacuum_analyze_scale_factor = 0.01);
CREATE INDEX idempotency_keys_unused ON idempotency_keys (expires_at) WHERE job_id IS NULL;

CREATE TABLE jobs (
  id uuid PRIMARY KEY,
  -- An uncharged job whose payer has not come back releases its key. It keeps its rows, and the key for operators.
  idempotency_key text UNIQUE REFERENCES idempotency_keys,
  released_idempotency_key text,
  operation text NOT NULL,
  public_model text NOT NULL,
  request_digest text NOT NULL CHECK (length(request_digest) = 64),
  -- The text that was digested: jsonb has no place for U+0000, which prompts may hold. What a prompt says is kept only while
  -- somebody works on it.
  effective_request text,
  quoted_maximum numeric(78,0) NOT NULL CHECK (quoted_maximum >= 0),
  catalog_version text NOT NULL,
  terms jsonb NOT NULL,
  payer text NOT NULL,
  -- Whether the payer had settled less than the uncharged budget when the job was accepted. What such payers may lose for the
  -- service in a day has one limit, divided by the networks that they call from: an IPv4 /24 or an IPv6 /48.
  is_new_payer boolean NOT NULL DEFAULT false,
  client_network text,
  authorization_id uuid NOT NULL,
  staged_upload_id uuid,
  -- Which request the job was accepted from, and its place in that request's trace, so that whoever works on it can say so.
  request_id text,
  traceparent text,

  state text NOT NULL CHECK (state IN
    ('accepted', 'generating', 'generated', 'settling', 'completed', 'failed', 'settlement_failed', 'review')),
  -- A worker acts under the fence that its lease returned; a later lease raises it and shuts the earlier worker out.
  fence bigint NOT NULL DEFAULT 0,
  lease_expires_at timestamptz,
  run_after timestamptz NOT NULL DEFAULT now(),
  enqueued_at timestamptz,
  -- Set when the lease of a provider call ran out: its worker gets a last moment to store what it may still hold.
  orphaned_at timestamptz,
  -- A job that has to wait is tried again after growing delays, and ends once it has waited too long. Neither follows from
  -- the payer's deadline, which may be arbitrarily distant. Each move of the job's state resets all three columns.
  deferred_since timestamptz,
  deferrals integer NOT NULL DEFAULT 0 CHECK (deferrals >= 0),
  -- Since when nothing but the payment itself has prevented its settlement.
  payment_blocked_since timestamptz,

  usage jsonb,
  charge_amount numeric(78,0) CHECK (charge_amount >= 0),
  -- Kept for replay until its retention is over; digest, receipt and payment stay for good.
  result_body text,
  result_digest text CHECK (length(result_digest) = 64),
  result_expired_at timestamptz,
  payment_response jsonb,
  receipt_id uuid UNIQUE,
  failure_code text,
  -- For operators; never shown to a caller.
  failure_reason text,
  -- A charge that failed while its authorization was still good is the payer's to pay before they get anything else.
  is_owed boolean NOT NULL DEFAULT false,
  accepted_at timestamptz NOT NULL DEFAULT now(),
  finished_at timestamptz,

  CONSTRAINT key_is_held_or_released CHECK ((idempotency_key IS NULL) = (released_idempotency_key IS NOT NULL)),
  CONSTRAINT only_failed_jobs_release_their_key CHECK (idempotency_key IS NOT NULL OR state = 'failed'),
  CONSTRAINT work_has_request CHECK ((state IN ('accepted', 'generating')) = (effective_request IS NOT NULL)),
  CONSTRAINT deferrals_have_begun CHECK ((deferred_since IS NULL) = (deferrals = 0)),
  CONSTRAINT only_deferred_payments_are_blocked CHECK (payment_blocked_since IS NULL OR deferred_since IS NOT NULL),
  CONSTRAINT charge_within_quote CHECK (charge_amount <= quoted_maximum),
  CONSTRAINT charge_has_result CHECK (
    state NOT IN ('generated', 'settling', 'completed', 'settlement_failed')
    OR (result_digest IS NOT NULL AND charge_amount IS NOT NULL AND usage IS NOT NULL
        AND (result_body IS NULL) = (result_expired_at IS NOT NULL))),
  CONSTRAINT only_finished_results_expire CHECK (
    result_expired_at IS NULL OR state IN ('completed', 'settlement_failed')),
  CONSTRAINT completed_has_receipt CHECK ((state = 'completed') = (receipt_id IS NOT NULL AND payment_response IS NOT NULL)),
  CONSTRAINT failure_has_code CHECK ((state IN ('failed', 'settlement_failed')) = (failure_code IS NOT NULL)),
  CONSTRAINT only_withheld_results_are_owed CHECK (NOT is_owed OR state = 'settlement_failed')
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02,
  autovacuum_analyze_scale_factor = 0.01);
ALTER TABLE idempotency_keys ADD CONSTRAINT idempotency_keys_job FOREIGN KEY (job_id)
  REFERENCES jobs DEFERRABLE INITIALLY DEFERRED;

CREATE INDEX jobs_unfinished ON jobs (run_after)
  WHERE state IN ('accepted', 'generating', 'generated', 'settling');
-- The sweepers take deferred jobs payer by payer.
CREATE INDEX jobs_deferred ON jobs (payer, run_after) WHERE deferred_since IS NOT NULL;
CREATE INDEX jobs_with_result ON jobs (finished_at) WHERE result_body IS NOT NULL AND finished_at IS NOT NULL;
-- The exposure of a payer is read under a lock at every acceptance. Unfinished jobs have no finished_at.
CREATE INDEX jobs_by_payer ON jobs (payer, finished_at);
CREATE INDEX jobs_owed ON jobs (payer) WHERE is_owed;
-- The limit of new payers is summed at every acceptance.
CREATE INDEX jobs_of_new_payers ON jobs (accepted_at) WHERE is_new_payer AND (finished_at IS NULL OR is_owed);
-- What was done and is not paid for.
CREATE INDEX jobs_uncollected ON jobs (state) INCLUDE (charge_amount) WHERE state IN ('settlement_failed', 'review');
CREATE INDEX jobs_charged ON jobs (finished_at) INCLUDE (charge_amount) WHERE state = 'completed';
-- The sums of a payer's charges without reading the rows themselves.
CREATE INDEX jobs_completed_by_payer ON jobs (payer, finished_at, id)
  INCLUDE (operation, public_model, charge_amount) WHERE state = 'completed';
-- Calls that failed in a period.
CREATE INDEX jobs_failed_by_time ON jobs (state, finished_at)
  INCLUDE (failure_code, charge_amount) WHERE state IN ('failed', 'settlement_failed');
-- Lists of the operators' console, newest first: of all calls, of those that ended without a payment, by error code.
CREATE INDEX jobs_by_acceptance ON jobs (accepted_at, id);
CREATE INDEX jobs_ended_unpaid ON jobs (state, accepted_at, id)
  WHERE state IN ('failed', 'settlement_failed', 'review');
CREATE INDEX jobs_failed_by_code ON jobs (failure_code, accepted_at, id) WHERE failure_code IS NOT NULL;
-- The search by each id that a caller, a log line or the chain shows.
CREATE INDEX jobs_by_request_id ON jobs (request_id);
CREATE INDEX jobs_by_released_key ON jobs (released_idempotency_key) WHERE released_idempotency_key IS NOT NULL;

-- Payments --------------------------------------------------------------------------------------------------------------

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
  -- The challenge token that it was accepted with: settled signatures are public on chain, the token is not.
  challenge_token_sha256 text NOT NULL,
  -- The nonce of the payer's EIP-2612 permit while this authorization may still submit it.
  permit_nonce numeric(78,0),
  permit_released_at timestamptz,
  claimed_at timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT one_claim_per_nonce UNIQUE (network, payer, nonce),
  CONSTRAINT token_digest_is_sha256 CHECK (length(challenge_token_sha256) = 64)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02,
  autovacuum_analyze_scale_factor = 0.01);
ALTER TABLE jobs ADD CONSTRAINT jobs_authorization FOREIGN KEY (authorization_id)
  REFERENCES authorizations DEFERRABLE INITIALLY DEFERRED;
-- Two open payments with one permit nonce would let only the first one settle.
CREATE UNIQUE INDEX one_open_permit_per_nonce ON authorizations (network, payer, permit_nonce)
  WHERE permit_nonce IS NOT NULL AND permit_released_at IS NULL;
CREATE INDEX authorizations_by_job ON authorizations (job_id);
-- The recipients and settlement keys that payers ever signed for: read from one pair to the next.
CREATE INDEX authorizations_by_parties ON authorizations ((signed ->> 'payTo'), (signed ->> 'facilitator'));

-- Owners' permits wait for their next charge, with which the settlement contract brings them.
CREATE TABLE stored_permits (
  owner text PRIMARY KEY,
  value numeric(78,0) NOT NULL,
  permit_nonce numeric(78,0) NOT NULL,
  -- Unix seconds, which may be beyond what a timestamp holds.
  deadline numeric(78,0) NOT NULL,
  signature text NOT NULL,
  -- The deadline, or the longest that a permit is kept.
  expires_at timestamptz NOT NULL
);
CREATE INDEX stored_permits_by_expiry ON stored_permits (expires_at);

-- Which of a payer's calls may sign the next permit: a permit's nonce belongs to the wallet, so calls that pay with permits
-- follow each other, at whichever API they wait. A row ends within seconds.
CREATE TABLE permit_turns (
  payer text PRIMARY KEY,
  idempotency_key text NOT NULL,
  ends_at timestamptz NOT NULL
);
CREATE INDEX permit_turns_by_end ON permit_turns (ends_at);

-- Uploads and media -----------------------------------------------------------------------------------------------------

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

-- Result media behind capability URLs. The token itself stands only in the released result.
CREATE TABLE media (
  id uuid PRIMARY KEY,
  job_id uuid NOT NULL REFERENCES jobs,
  token_sha256 text NOT NULL UNIQUE CHECK (length(token_sha256) = 64),
  object_key text NOT NULL UNIQUE,
  content_type text NOT NULL,
  sha256 text NOT NULL CHECK (length(sha256) = 64),
  bytes bigint NOT NULL CHECK (bytes > 0),
  expires_at timestamptz NOT NULL,
  object_deleted_at timestamptz
);
CREATE INDEX media_to_reap ON media (expires_at) WHERE object_deleted_at IS NULL;
-- Asked for while the key and its payer are locked: whether a withheld result still has its media.
CREATE INDEX media_by_job ON media (job_id);

-- Provider calls --------------------------------------------------------------------------------------------------------

-- Written before the provider is called, so that a crash cannot hide a call.
CREATE TABLE upstream_attempts (
  id uuid PRIMARY KEY,
  job_id uuid NOT NULL REFERENCES jobs,
  authorization_id uuid NOT NULL REFERENCES authorizations,
  deployment text NOT NULL,
  -- Who was called for which of its models, since deployments are renamed and get other models.
  vendor text NOT NULL,
  upstream_model text NOT NULL,
  -- failed_empty: the vendor worked and returned nothing usable.
  state text NOT NULL CHECK (state IN ('open', 'succeeded', 'failed_definite', 'failed_empty', 'failed_ambiguous')),
  reason text,
  started_at timestamptz NOT NULL DEFAULT now(),
  finished_at timestamptz,
  -- The usage that the vendor bills, and what it bills in atomic USDC at the prices of its deployment at that time. Null
  -- where the usage of a failed call is not known, and the cost for deployments without prices.
  usage jsonb,
  vendor_cost numeric(78,0) CHECK (vendor_cost >= 0),
  CONSTRAINT finished_unless_open CHECK ((state = 'open') = (finished_at IS NULL))
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02,
  autovacuum_analyze_scale_factor = 0.01);
-- All but a definite failure may have been billed upstream, so its authorization is never used for another call.
CREATE UNIQUE INDEX one_call_per_authorization ON upstream_attempts (authorization_id)
  WHERE state <> 'failed_definite';
-- The timeline of a job, and the health of a deployment.
CREATE INDEX upstream_attempts_by_job ON upstream_attempts (job_id);
CREATE INDEX upstream_attempts_by_deployment ON upstream_attempts (deployment, started_at);
-- Provider calls of a period by how they ended.
CREATE INDEX upstream_attempts_by_end ON upstream_attempts (state, finished_at) WHERE state <> 'open';

-- Work that ended without a charge and is not owed either, written by the statement that ends it. Rows stay for good.
-- amount is an upper bound of its cost, in atomic USDC:
--   empty_output         the authorized maximum, or the charge that the measured usage would have had
--   unknown_outcome      the same
--   lost_call            the same; the service lost the call, so it does not count against its payer
--   rejected_request     the minimum charge: the vendor or the service refused what the caller had sent
--   replaced_result      the charge of a withheld result that was generated again instead of being paid for
--   reverted_settlement  the gas of a settlement that reverted
CREATE TABLE uncharged_work (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  job_id uuid NOT NULL REFERENCES jobs,
  authorization_id uuid NOT NULL REFERENCES authorizations,
  network text NOT NULL,
  payer text NOT NULL,
  kind text NOT NULL CHECK (
    kind IN ('empty_output', 'unknown_outcome', 'lost_call', 'rejected_request', 'replaced_result', 'reverted_settlement')),
  amount numeric(78,0) NOT NULL CHECK (amount >= 0),
  -- The deployment that was called, if one was.
  deployment text,
  -- Of the job; the network only of new payers.
  is_new_payer boolean NOT NULL,
  client_network text,
  created_at timestamptz NOT NULL DEFAULT now()
);
-- A payer's budget is read at every acceptance and before every provider call.
CREATE INDEX uncharged_work_by_payer ON uncharged_work (payer, created_at) INCLUDE (amount, kind);
CREATE INDEX uncharged_work_by_time ON uncharged_work (created_at) INCLUDE (is_new_payer, kind, amount);
-- In place of reading all uncharged work of a day, of which most belongs to payers with a history.
CREATE INDEX uncharged_work_of_new_payers ON uncharged_work (created_at) INCLUDE (client_network, amount)
  WHERE is_new_payer;
-- Whether other payers' calls to the same deployment ended unknown at the same time.
CREATE INDEX uncharged_work_unknown ON uncharged_work (deployment, created_at) INCLUDE (payer, is_new_payer)
  WHERE kind = 'unknown_outcome';
CREATE INDEX uncharged_work_by_job ON uncharged_work (job_id);

-- Settlements -----------------------------------------------------------------------------------------------------------

CREATE TABLE settlement_accounts (
  network text NOT NULL,
  facilitator text NOT NULL,
  next_account_nonce numeric(78,0) NOT NULL,
  -- One keeper at a time; two of them would only sign more replacements than needed.
  kept_until timestamptz NOT NULL DEFAULT now(),
  -- The account nonce that the chain takes next, when it was last seen, and since when it is that one.
  head_account_nonce numeric(78,0),
  head_since timestamptz,
  PRIMARY KEY (network, facilitator)
);

-- Settlements that one transaction of the settlement contract makes together. They share its account nonce; the contract
-- is what their payers signed as facilitator, and the key that sends it pays for the gas.
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
  -- Set together, once a process has read that its transaction reverted as a whole: no payment is at fault, and each is
  -- signed again in another batch, so this gas belongs to no settlement.
  reverted_at timestamptz,
  reverted_gas_used numeric(78,0),
  -- In atomic USDC, at the configured price of the native token, with the fee for the transaction's data.
  reverted_gas_cost numeric(78,0),
  CONSTRAINT one_batch_per_account_nonce UNIQUE (network, facilitator, account_nonce),
  -- What the rows of a batch refer to, so that they agree with it.
  CONSTRAINT batches_by_account_nonce UNIQUE (id, network, facilitator, account_nonce),
  CONSTRAINT gas_of_reverted_batch CHECK (num_nulls(reverted_at, reverted_gas_used, reverted_gas_cost) IN (0, 3))
);
CREATE INDEX settlement_batches_reverted ON settlement_batches (reverted_at) WHERE reverted_at IS NOT NULL;

-- signed: its transaction may be mined. confirmed: it is. reverted: it failed, by facts of one block, and is watched until
-- that block is final; without a hash it is not judged by any block of the chain and may still succeed. unproven: its job
-- needs review. lost: the chain gave up the block of a confirmed settlement, and it cannot be settled any more, although the
-- result was released. surplus: it succeeded after a reorganization although its job was paid by another settlement or has
-- no result.
--
-- A remote facilitator signs and sends with keys of its own. Of its settlements the ledger holds what was asked for before
-- it was asked, so that no crash forgets it; the proof is the chain's, as for our own. Such a row is 'signed' too: by the
-- payer, and open until the chain tells how it ended.
CREATE TABLE settlements (
  id uuid PRIMARY KEY,
  job_id uuid NOT NULL REFERENCES jobs,
  authorization_id uuid NOT NULL UNIQUE REFERENCES authorizations,
  -- The authorization's. What a payer's reading of their funds does not know of yet is summed at every acceptance and before
  -- every call: by payer and block, however many calls they made in the last minute.
  payer text NOT NULL,
  network text NOT NULL,
  -- Of a batch: the key that sends it, and its nonce.
  facilitator text NOT NULL,
  account_nonce numeric(78,0),
  charge_amount numeric(78,0) NOT NULL CHECK (charge_amount >= 0),
  state text NOT NULL CHECK (state IN ('signed', 'confirmed', 'reverted', 'unproven', 'lost', 'surplus')),
  settled_by text NOT NULL DEFAULT 'own_key' CHECK (settled_by IN ('own_key', 'remote_facilitator')),
  -- The batch that settles it now.
  batch_id uuid,
  -- Batches that it was in before: their transactions may be mined after a reorganization. Rarely any.
  earlier_batches uuid[],
  -- Of a remote facilitator: no transaction of this settlement is in an earlier block.
  recorded_block numeric(78,0),
  -- Requests sent to the facilitator whose outcome is unknown: while there is one, a transaction may be on its way.
  unanswered_requests integer NOT NULL DEFAULT 0 CHECK (unanswered_requests >= 0),
  requested_at timestamptz,
  signed_at timestamptz NOT NULL DEFAULT now(),
  transaction_hash text,
  block_number numeric(78,0),
  block_hash text,
  finished_at timestamptz,
  finalized_at timestamptz,
  -- What its mined transactions cost the key; empty until then, and for remote facilitators. gas_cost is in atomic USDC, at
  -- the configured price of the native token, with the fee for the transaction's data.
  gas_used numeric(78,0),
  effective_gas_price numeric(78,0),
  gas_cost numeric(78,0),
  -- For operators.
  failure_reason text,

  CONSTRAINT settlements_by_kind UNIQUE (id, settled_by),
  CONSTRAINT own_key_has_account_nonce CHECK ((settled_by = 'own_key') = (account_nonce IS NOT NULL)),
  CONSTRAINT remote_has_recorded_block CHECK ((settled_by = 'remote_facilitator') = (recorded_block IS NOT NULL)),
  CONSTRAINT settlement_of_batch FOREIGN KEY (batch_id, network, facilitator, account_nonce)
    REFERENCES settlement_batches (id, network, facilitator, account_nonce),
  CONSTRAINT only_own_keys_send_batches CHECK (batch_id IS NULL OR settled_by = 'own_key'),
  CONSTRAINT earlier_batches_were_left CHECK (
    earlier_batches IS NULL OR (batch_id IS NOT NULL AND batch_id <> ALL(earlier_batches))),
  CONSTRAINT confirmed_is_on_chain CHECK (
    state <> 'confirmed' OR (transaction_hash IS NOT NULL AND block_number IS NOT NULL AND finished_at IS NOT NULL)),
  CONSTRAINT surplus_is_on_chain CHECK (
    state <> 'surplus' OR (transaction_hash IS NOT NULL AND block_number IS NOT NULL AND finished_at IS NOT NULL)),
  CONSTRAINT only_decided_is_final CHECK (finalized_at IS NULL OR state IN ('confirmed', 'reverted')),
  CONSTRAINT lost_has_reason CHECK (state NOT IN ('lost', 'surplus') OR failure_reason IS NOT NULL),
  CONSTRAINT gas_is_complete CHECK (num_nulls(gas_used, effective_gas_price, gas_cost) IN (0, 3))
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02,
  autovacuum_analyze_scale_factor = 0.01);
-- A surplus settlement is not the charge of its job.
CREATE UNIQUE INDEX one_charge_per_job ON settlements (job_id) WHERE state NOT IN ('reverted', 'surplus');
CREATE INDEX settlements_by_job ON settlements (job_id);
-- Settlements of one batch share an account nonce.
CREATE UNIQUE INDEX one_transaction_per_account_nonce ON settlements (network, facilitator, account_nonce)
  WHERE batch_id IS NULL;
-- Who is in a batch, and was in it.
CREATE INDEX settlements_by_batch ON settlements (batch_id) WHERE batch_id IS NOT NULL;
CREATE INDEX settlements_by_earlier_batch ON settlements USING gin (earlier_batches) WHERE earlier_batches IS NOT NULL;
CREATE INDEX settlements_by_payer ON settlements (payer, block_number) INCLUDE (charge_amount) WHERE state = 'confirmed';
-- How often a payer's settlements reverted lately decides when a withheld result may be paid for again.
CREATE INDEX settlements_reverted_by_payer ON settlements (payer, finished_at) INCLUDE (job_id)
  WHERE state = 'reverted' AND gas_used IS NOT NULL;
CREATE INDEX settlements_by_state ON settlements (state, signed_at) WHERE state IN ('signed', 'lost', 'unproven');
CREATE INDEX settlements_surplus ON settlements (finished_at) WHERE state = 'surplus';
CREATE INDEX settlements_superseded ON settlements (job_id) WHERE state IN ('reverted', 'surplus');
-- Settlements that ended in a way that needs a person: the usual states are excluded, so that a new one is included.
CREATE INDEX settlements_unusual ON settlements (job_id) WHERE state NOT IN ('signed', 'confirmed', 'reverted');
-- What is watched until its block is final: confirmed, confirmed in a block that has left the chain (looked up every five
-- seconds until it is in another one), reverted, and reverted without a block.
CREATE INDEX settlements_not_final ON settlements (block_number) WHERE state = 'confirmed' AND finalized_at IS NULL;
CREATE INDEX settlements_removed ON settlements (block_number)
  WHERE state = 'confirmed' AND finalized_at IS NULL AND block_hash IS NULL;
CREATE INDEX settlements_reverted_not_final ON settlements (block_number)
  WHERE state = 'reverted' AND finalized_at IS NULL AND block_hash IS NOT NULL;
CREATE INDEX settlements_unjudged ON settlements (finished_at)
  WHERE state = 'reverted' AND finalized_at IS NULL AND block_hash IS NULL;
-- The ledger command walks the chain range by range and asks each time which settlements belong there.
CREATE INDEX settlements_by_block ON settlements (block_number) WHERE state = 'confirmed';
CREATE INDEX settlements_by_transaction ON settlements (transaction_hash) WHERE transaction_hash IS NOT NULL;
-- Totals by hour, and the gas of settlements that reverted in a period.
CREATE INDEX settlements_confirmed_by_time ON settlements (finished_at)
  INCLUDE (charge_amount, gas_cost, finalized_at) WHERE state = 'confirmed';
CREATE INDEX settlements_reverted_by_time ON settlements (finished_at) WHERE state = 'reverted';

-- Every transaction ever signed; fee replacements add rows, none is removed. Each keeps the account nonce that it was signed
-- for: a settlement whose nonce a stranger used up is signed again for another one. Of one settlement, one batch, or none:
-- then it fills a nonce gap. What we signed ourselves we can send again; of a remote facilitator's transaction we are told
-- the hash alone. The hash is the primary key: one transaction never proves two settlements.
CREATE TABLE settlement_transactions (
  hash text PRIMARY KEY,
  settlement_id uuid REFERENCES settlements,
  batch_id uuid,
  network text NOT NULL,
  facilitator text NOT NULL,
  account_nonce numeric(78,0),
  settled_by text NOT NULL DEFAULT 'own_key',
  raw_transaction text,
  signed_at timestamptz NOT NULL DEFAULT now(),
  -- See archive_objects.
  archive_object integer,
  CONSTRAINT transaction_of_one_kind CHECK (num_nonnulls(settlement_id, batch_id) < 2),
  CONSTRAINT settlement_transactions_of_kind FOREIGN KEY (settlement_id, settled_by)
    REFERENCES settlements (id, settled_by),
  CONSTRAINT transaction_of_batch FOREIGN KEY (batch_id, network, facilitator, account_nonce)
    REFERENCES settlement_batches (id, network, facilitator, account_nonce),
  CONSTRAINT own_key_has_raw_transaction CHECK ((settled_by = 'own_key') = (raw_transaction IS NOT NULL)),
  CONSTRAINT own_key_transaction_has_account_nonce CHECK ((settled_by = 'own_key') = (account_nonce IS NOT NULL))
-- Its rows never change on the path of a call: the first vacuum freezes them, so that the one against the wraparound of
-- transaction ids, every 200 million transactions, skips their pages.
) WITH (autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.01,
  autovacuum_freeze_min_age = 0);
CREATE INDEX settlement_transactions_by_settlement ON settlement_transactions (settlement_id);
CREATE INDEX settlement_transactions_by_batch ON settlement_transactions (batch_id) WHERE batch_id IS NOT NULL;
CREATE INDEX settlement_transactions_in_line ON settlement_transactions (network, facilitator, account_nonce, signed_at);

CREATE TABLE receipts (
  id uuid PRIMARY KEY,
  job_id uuid NOT NULL UNIQUE REFERENCES jobs,
  -- Names the server secret that the receipt's token derives from.
  token_secret_id text NOT NULL,
  body jsonb NOT NULL,
  -- See archive_objects.
  archive_object integer
-- As of settlement_transactions.
) WITH (autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.01,
  autovacuum_freeze_min_age = 0);
ALTER TABLE jobs ADD CONSTRAINT jobs_receipt FOREIGN KEY (receipt_id) REFERENCES receipts DEFERRABLE INITIALLY DEFERRED;
CREATE TRIGGER receipts_are_kept BEFORE TRUNCATE ON receipts
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change_of_record();

-- Payments that the chain shows as settled and of which the ledger has no settlement, as after a restore from a backup.
-- Each was presented by its caller, or met by a worker. A person refunds or explains it, which sets resolved_at.
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
  PRIMARY KEY (network, payer, nonce)
);
CREATE INDEX unknown_settlements_open ON unknown_settlements (found_at) WHERE resolved_at IS NULL;
CREATE INDEX unknown_settlements_by_transaction ON unknown_settlements (transaction_hash);
CREATE INDEX unknown_settlements_by_job ON unknown_settlements (job_id) WHERE job_id IS NOT NULL;

-- Operators -------------------------------------------------------------------------------------------------------------

-- Accounts of the console. Commands name their author without one.
CREATE TABLE operators (
  name text PRIMARY KEY CHECK (name ~ '^[a-z0-9][a-z0-9._@-]{0,62}$'),
  role text NOT NULL CHECK (role IN ('read', 'act')),
  -- scrypt with its parameters and salt.
  password_hash text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  password_changed_at timestamptz NOT NULL DEFAULT now(),
  disabled_at timestamptz
);
CREATE TABLE operator_sessions (
  token_sha256 text PRIMARY KEY CHECK (length(token_sha256) = 64),
  operator text NOT NULL REFERENCES operators,
  created_at timestamptz NOT NULL DEFAULT now(),
  last_used_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz NOT NULL
);
CREATE INDEX operator_sessions_by_operator ON operator_sessions (operator);
CREATE INDEX operator_sessions_by_expiry ON operator_sessions (expires_at);

-- Wrong passwords, which slow further guesses down: by account, and by the address that they came from. Browsers that signed
-- in before are not slowed down by what others of their address or account did.
CREATE TABLE failed_sign_ins (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  operator text NOT NULL,
  address text NOT NULL,
  -- The id in the cookie of a known browser, which is then counted alone; null for all others.
  device text,
  failed_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX failed_sign_ins_by_operator ON failed_sign_ins (operator, failed_at);
CREATE INDEX failed_sign_ins_by_address ON failed_sign_ins (address, failed_at);
CREATE INDEX failed_sign_ins_by_device ON failed_sign_ins (device, failed_at) WHERE device IS NOT NULL;

-- What the console signs its cookies with, the same for all of its processes. One row. Of two random UUIDs, 244 bits.
CREATE TABLE console_secret (
  id boolean PRIMARY KEY DEFAULT true CHECK (id),
  secret bytea NOT NULL DEFAULT sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8'))
    CHECK (length(secret) = 32)
);
INSERT INTO console_secret DEFAULT VALUES;

-- Everything that operators did, written by the transaction that did it. Each row holds the SHA-256 over the hash before it
-- and its own content, so that a row which somebody with every right in the database deletes, changes or moves is found
-- (npm run ledger).
CREATE TABLE operator_actions (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  done_at timestamptz NOT NULL DEFAULT now(),
  operator text NOT NULL,
  source text NOT NULL CHECK (source IN ('console', 'command')),
  action text NOT NULL,
  -- What it was done to, such as the id of a job or the name of a deployment.
  subject text NOT NULL,
  reason text,
  -- Never a password, key or token.
  details jsonb NOT NULL DEFAULT '{}',
  position bigint NOT NULL UNIQUE,
  hash text NOT NULL
);
CREATE INDEX operator_actions_by_subject ON operator_actions (subject, id);
CREATE INDEX operator_actions_by_operator ON operator_actions (operator, id);

-- The last row's, so that its deletion is found, too. One row.
CREATE TABLE operator_action_head (
  id boolean PRIMARY KEY DEFAULT true CHECK (id),
  position bigint NOT NULL,
  hash text NOT NULL CHECK (length(hash) = 64)
);
INSERT INTO operator_action_head (position, hash) VALUES (0, repeat('0', 64));

-- Each part with its length in bytes before it, so that no two contents have the same text. shared/operators/audit-chain.ts
-- computes the same.
CREATE FUNCTION operator_action_hash(parts text[]) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN encode(sha256(convert_to(
    (SELECT string_agg(coalesce(octet_length(convert_to(part, 'UTF8')) || ':' || part, '-'), ',' ORDER BY place)
     FROM unnest(parts) WITH ORDINALITY AS each (part, place)), 'UTF8')), 'hex');

CREATE FUNCTION operator_action_parts(action operator_actions) RETURNS text[] LANGUAGE sql STABLE
  RETURN ARRAY[action.id::text, (extract(epoch FROM action.done_at) * 1000000)::bigint::text, action.operator,
    action.source, action.action, action.subject, action.reason, action.details::text];

-- With the rights of its owner: who may insert a row may not write the head. The row of the head is locked until the
-- transaction ends, so each insert must be the last lock that its transaction takes.
CREATE FUNCTION chain_operator_action() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  UPDATE operator_action_head SET position = position + 1,
    hash = operator_action_hash(ARRAY[hash, (position + 1)::text] || operator_action_parts(NEW))
  RETURNING operator_action_head.position, operator_action_head.hash INTO NEW.position, NEW.hash;
  RETURN NEW;
END $$;
-- Nobody's temporary table is taken for one of these.
DO $$ BEGIN
  EXECUTE format('ALTER FUNCTION chain_operator_action() SET search_path = pg_catalog, %I, pg_temp', current_schema());
END $$;
CREATE TRIGGER operator_actions_are_chained BEFORE INSERT ON operator_actions
  FOR EACH ROW EXECUTE FUNCTION chain_operator_action();
CREATE TRIGGER operator_actions_are_immutable BEFORE UPDATE OR DELETE ON operator_actions
  FOR EACH ROW EXECUTE FUNCTION refuse_change_of_record();
CREATE TRIGGER operator_actions_are_kept BEFORE TRUNCATE ON operator_actions
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change_of_record();

-- How a person ended what the service could not: a job in review, a settlement that is lost, unproven or surplus, a
-- settlement of which the ledger knows nothing, a debt.
CREATE TABLE resolutions (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  item text NOT NULL CHECK (item IN ('review', 'settlement', 'unknown_settlement', 'debt')),
  -- Of all items, except settlements of which the ledger knows no job.
  job_id uuid REFERENCES jobs,
  settlement_id uuid REFERENCES settlements,
  -- Of unknown settlements.
  network text,
  payer text NOT NULL,
  nonce numeric(78,0),
  outcome text NOT NULL CHECK (outcome IN ('paid_outside', 'refunded', 'written_off', 'forgiven', 're_served')),
  -- The amount in question, in atomic USDC.
  amount numeric(78,0) NOT NULL CHECK (amount >= 0),
  reason text NOT NULL CHECK (length(reason) BETWEEN 1 AND 1000),
  operator text NOT NULL,
  resolved_at timestamptz NOT NULL DEFAULT now(),
  -- The transfer that refunds, as proven on the final chain.
  refund_network text,
  refund_transaction text,
  refund_log_index integer,
  refund_block numeric(78,0),
  CONSTRAINT item_is_named CHECK (CASE item
    WHEN 'settlement' THEN settlement_id IS NOT NULL
    WHEN 'unknown_settlement' THEN network IS NOT NULL AND nonce IS NOT NULL
    ELSE job_id IS NOT NULL END),
  CONSTRAINT refund_is_proven CHECK (
    num_nonnulls(refund_network, refund_transaction, refund_log_index, refund_block)
      = CASE outcome WHEN 'refunded' THEN 4 ELSE 0 END),
  CONSTRAINT forgiven_is_a_debt CHECK (outcome <> 'forgiven' OR item = 'debt'),
  -- One transfer refunds one item.
  CONSTRAINT one_refund_per_transfer UNIQUE (refund_network, refund_transaction, refund_log_index)
);
CREATE UNIQUE INDEX one_resolution_per_review ON resolutions (job_id) WHERE item = 'review';
CREATE UNIQUE INDEX one_resolution_per_settlement ON resolutions (settlement_id) WHERE item = 'settlement';
CREATE UNIQUE INDEX one_resolution_per_unknown_settlement ON resolutions (network, payer, nonce)
  WHERE item = 'unknown_settlement';
CREATE INDEX resolutions_by_job ON resolutions (job_id);
CREATE INDEX resolutions_by_payer ON resolutions (payer, resolved_at);
CREATE INDEX resolutions_by_time ON resolutions (resolved_at);
CREATE INDEX resolutions_by_refund ON resolutions (refund_transaction) WHERE refund_transaction IS NOT NULL;
CREATE TRIGGER resolutions_are_immutable BEFORE UPDATE OR DELETE ON resolutions
  FOR EACH ROW EXECUTE FUNCTION refuse_change_of_record();
CREATE TRIGGER resolutions_are_kept BEFORE TRUNCATE ON resolutions
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change_of_record();

-- Configuration ---------------------------------------------------------------------------------------------------------

-- Every catalog that a quote was made with, by the version that receipts name. Written before its first quote.
CREATE TABLE catalogs (
  version text PRIMARY KEY,
  content jsonb NOT NULL,
  first_used_at timestamptz NOT NULL DEFAULT now()
);
CREATE TRIGGER catalogs_are_immutable BEFORE UPDATE OR DELETE ON catalogs
  FOR EACH ROW EXECUTE FUNCTION refuse_change_of_record();

-- What operators published: the content of a catalog file (overrides of the built-in catalog), or of a deployments file.
-- The newest of each kind is in force.
CREATE TABLE publications (
  number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  kind text NOT NULL CHECK (kind IN ('catalog', 'deployments')),
  content jsonb NOT NULL,
  published_at timestamptz NOT NULL DEFAULT now(),
  operator text NOT NULL,
  reason text NOT NULL CHECK (length(reason) BETWEEN 1 AND 1000),
  -- Of an imported file: a process that starts with another file says that it differs.
  file_sha256 text CHECK (length(file_sha256) = 64)
);
CREATE INDEX publications_by_kind ON publications (kind, number);
CREATE TRIGGER publications_are_immutable BEFORE UPDATE OR DELETE ON publications
  FOR EACH ROW EXECUTE FUNCTION refuse_change_of_record();

-- One shared draft of each kind.
CREATE TABLE configuration_drafts (
  kind text PRIMARY KEY CHECK (kind IN ('catalog', 'deployments')),
  content jsonb NOT NULL,
  -- The publication that it changes: another one may have been published since.
  based_on bigint REFERENCES publications,
  operator text NOT NULL,
  -- Rises with each edit, so that nobody overwrites an edit that they did not see.
  revision bigint NOT NULL,
  edited_at timestamptz NOT NULL DEFAULT now()
);

-- What acts at once, without a publication: a deployment is drained or weighted, a queue paused, a payer blocked.
CREATE TABLE controls (
  kind text NOT NULL CHECK (kind IN ('deployment', 'queue', 'payer')),
  -- The name of the deployment or queue, or the payer's address.
  subject text NOT NULL,
  is_stopped boolean NOT NULL,
  -- Of a payer, the end of the block; without it, only an operator ends it.
  stopped_until timestamptz,
  -- Of a deployment, instead of the published weight.
  weight integer CHECK (weight BETWEEN 1 AND 1000000),
  operator text NOT NULL,
  reason text NOT NULL CHECK (length(reason) BETWEEN 1 AND 1000),
  changed_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (kind, subject),
  CONSTRAINT payer_is_an_address CHECK (kind <> 'payer' OR subject ~ '^0x[0-9a-f]{40}$'),
  CONSTRAINT only_payers_are_stopped_until CHECK (kind = 'payer' OR stopped_until IS NULL),
  CONSTRAINT only_deployments_have_a_weight CHECK (kind = 'deployment' OR weight IS NULL)
);
CREATE INDEX controls_stopped ON controls (kind, subject) WHERE is_stopped;

-- Raised by each publication and control; all processes poll it. One row.
CREATE TABLE configuration_revision (
  id boolean PRIMARY KEY DEFAULT true CHECK (id),
  revision bigint NOT NULL
);
INSERT INTO configuration_revision (revision) VALUES (0);

-- What each running process says of itself every two seconds; old rows are deleted.
CREATE TABLE process_reports (
  instance text PRIMARY KEY,
  kind text NOT NULL CHECK (kind IN ('api', 'worker', 'operator')),
  started_at timestamptz NOT NULL,
  seen_at timestamptz NOT NULL DEFAULT now(),
  report jsonb NOT NULL
) WITH (fillfactor = 50);

-- Totals ----------------------------------------------------------------------------------------------------------------

-- Totals over everything up to `through`; what came later is summed when it is asked for. charged: completed jobs, at their
-- charge. ambiguous: provider calls with an unknown outcome, at the maximum authorized for them. All others: uncharged_work.
CREATE TABLE ledger_totals (
  kind text PRIMARY KEY,
  through timestamptz NOT NULL DEFAULT now() - interval '10 minutes',
  count bigint NOT NULL DEFAULT 0,
  total numeric(78,0) NOT NULL DEFAULT 0
);
INSERT INTO ledger_totals (kind) VALUES ('charged'), ('ambiguous'), ('empty_output'), ('unknown_outcome'), ('lost_call'),
  ('rejected_request'), ('replaced_result'), ('reverted_settlement');

-- Totals of hours that do not change any more: nothing in them can, once their settlements are final. In a row without
-- a gap, so the newest one says how far they reach; later hours are summed when they are asked for.
CREATE TABLE ledger_hours (
  hour timestamptz PRIMARY KEY CHECK (hour = date_trunc('hour', hour, 'UTC')),
  charged_jobs bigint NOT NULL,
  charged_total numeric(78,0) NOT NULL,
  settled_total numeric(78,0) NOT NULL,
  settlement_gas numeric(78,0) NOT NULL,
  uncharged_count bigint NOT NULL,
  uncharged_total numeric(78,0) NOT NULL,
  -- What vendors bill for the attempts that ended in the hour.
  vendor_total numeric(78,0) NOT NULL,
  -- What the hour's completed calls earned, by model and deployment: an array of objects with the amounts of `MARGIN_COLUMNS`.
  margins jsonb NOT NULL
);

-- Archive ---------------------------------------------------------------------------------------------------------------
-- Documents of calls that are over move to the object store. Their rows stay, with what the ledger, the console and
-- repeated requests read; where the documents are is written in the transaction that erases them.

-- An object holds the documents of some hundred calls that finished in one month. Its key ends with its digest. Triggers
-- take the place of the foreign keys of `archive_object`, which would be checked by reading both tables.
CREATE TABLE archive_objects (
  id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  key text NOT NULL UNIQUE,
  -- Of the stored bytes, which are compressed.
  sha256 text NOT NULL CHECK (length(sha256) = 64),
  month date NOT NULL CHECK (extract(day FROM month) = 1),
  calls integer NOT NULL CHECK (calls > 0),
  transactions integer NOT NULL CHECK (transactions >= 0),
  bytes bigint NOT NULL CHECK (bytes > 0),
  uncompressed_bytes bigint NOT NULL CHECK (uncompressed_bytes > 0),
  archived_at timestamptz NOT NULL DEFAULT now()
);
CREATE TRIGGER archive_objects_are_immutable BEFORE UPDATE OR DELETE ON archive_objects
  FOR EACH ROW EXECUTE FUNCTION refuse_change_of_record();
CREATE TRIGGER archive_objects_are_kept BEFORE TRUNCATE ON archive_objects
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change_of_record();

-- Months that were archived completely, so that later runs need not look at all of their calls again.
CREATE TABLE archive_months (
  month date PRIMARY KEY CHECK (extract(day FROM month) = 1),
  -- Completed calls that were not over yet, or are kept for a person. A run looks at the month again while there are any.
  remaining bigint NOT NULL CHECK (remaining >= 0),
  archived_at timestamptz NOT NULL DEFAULT now()
);

-- What stays of a receipt's body and of a signed authorization.
CREATE FUNCTION kept_of_receipt(body jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN jsonb_build_object('charge_atomic', body -> 'charge_atomic', 'transaction', body -> 'transaction',
    'settled_at', body -> 'settled_at', 'issued_at', body -> 'issued_at');
CREATE FUNCTION kept_of_authorization(signed jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN jsonb_build_object('payTo', signed -> 'payTo', 'facilitator', signed -> 'facilitator');

CREATE FUNCTION refuse_receipt_change_unless_archived() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'UPDATE' AND OLD.archive_object IS NULL
    AND (NEW.id, NEW.job_id, NEW.token_secret_id) = (OLD.id, OLD.job_id, OLD.token_secret_id)
    AND NEW.body = kept_of_receipt(OLD.body)
    AND EXISTS (SELECT FROM archive_objects WHERE id = NEW.archive_object)
  THEN RETURN NEW; END IF;
  RAISE EXCEPTION 'receipts are immutable';
END $$;
CREATE TRIGGER receipts_are_immutable BEFORE UPDATE OR DELETE ON receipts
  FOR EACH ROW EXECUTE FUNCTION refuse_receipt_change_unless_archived();

CREATE FUNCTION refuse_transaction_change_unless_archived() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF OLD.archive_object IS NULL AND NEW.raw_transaction = ''
    AND EXISTS (SELECT FROM archive_objects WHERE id = NEW.archive_object)
  THEN RETURN NEW; END IF;
  RAISE EXCEPTION 'signed transactions are immutable';
END $$;
CREATE TRIGGER signed_transactions_are_immutable BEFORE UPDATE OF raw_transaction, archive_object
  ON settlement_transactions FOR EACH ROW EXECUTE FUNCTION refuse_transaction_change_unless_archived();

-- Of the other documents only the erasure is refused: terms change when a job runs again, or a key gets a new quote.
CREATE FUNCTION refuse_erasure_unless_archived() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  job uuid;
BEGIN
  IF TG_TABLE_NAME = 'jobs' THEN job := OLD.id; ELSE job := OLD.job_id; END IF;
  IF EXISTS (SELECT FROM receipts WHERE job_id = job AND archive_object IS NOT NULL) THEN RETURN NEW; END IF;
  RAISE EXCEPTION 'a document of % is erased without being archived', TG_TABLE_NAME;
END $$;
CREATE TRIGGER authorizations_are_archived BEFORE UPDATE OF signed ON authorizations
  FOR EACH ROW WHEN (OLD.signed ? 'signature' AND NOT NEW.signed ? 'signature')
  EXECUTE FUNCTION refuse_erasure_unless_archived();
CREATE TRIGGER terms_are_archived BEFORE UPDATE OF terms ON jobs
  FOR EACH ROW WHEN (OLD.terms <> '{}' AND NEW.terms = '{}') EXECUTE FUNCTION refuse_erasure_unless_archived();
CREATE TRIGGER terms_are_archived BEFORE UPDATE OF terms ON idempotency_keys
  FOR EACH ROW WHEN (OLD.terms <> '{}' AND NEW.terms = '{}') EXECUTE FUNCTION refuse_erasure_unless_archived();
