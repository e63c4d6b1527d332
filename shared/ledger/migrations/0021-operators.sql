-- farebox: compatible-from 0009-settlement-payer.sql
-- What operators decide and change. New tables only: programs of earlier versions do not read them.

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

-- Wrong passwords, which slow further guesses down: by account, and by the address that they came from.
CREATE TABLE failed_sign_ins (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  operator text NOT NULL,
  address text NOT NULL,
  failed_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX failed_sign_ins_by_operator ON failed_sign_ins (operator, failed_at);
CREATE INDEX failed_sign_ins_by_address ON failed_sign_ins (address, failed_at);

-- Everything that operators did, written by the transaction that did it.
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
  details jsonb NOT NULL DEFAULT '{}'
);
CREATE INDEX operator_actions_by_subject ON operator_actions (subject, id);
CREATE INDEX operator_actions_by_operator ON operator_actions (operator, id);

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

-- Totals of hours that do not change any more: nothing in them can, once their settlements are final. In a row without
-- a gap, so the newest one says how far they reach; later hours are summed when they are asked for.
CREATE TABLE ledger_hours (
  hour timestamptz PRIMARY KEY CHECK (hour = date_trunc('hour', hour, 'UTC')),
  charged_jobs bigint NOT NULL,
  charged_total numeric(78,0) NOT NULL,
  settled_total numeric(78,0) NOT NULL,
  settlement_gas numeric(78,0) NOT NULL,
  permit_gas numeric(78,0) NOT NULL,
  uncharged_count bigint NOT NULL,
  uncharged_total numeric(78,0) NOT NULL
);

-- Every catalog that a quote was made with, by the version that receipts name. Written before its first quote.
CREATE TABLE catalogs (
  version text PRIMARY KEY,
  content jsonb NOT NULL,
  first_used_at timestamptz NOT NULL DEFAULT now()
);

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

-- What acts at once, without a publication.
CREATE TABLE deployment_controls (
  deployment text PRIMARY KEY,
  is_drained boolean NOT NULL DEFAULT false,
  -- Instead of the published weight.
  weight integer CHECK (weight BETWEEN 1 AND 1000000),
  operator text NOT NULL,
  reason text,
  changed_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE queue_controls (
  queue text PRIMARY KEY,
  is_paused boolean NOT NULL,
  operator text NOT NULL,
  reason text,
  changed_at timestamptz NOT NULL DEFAULT now()
);

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

CREATE FUNCTION refuse_change_of_record() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'rows of % are immutable', TG_TABLE_NAME;
END $$;
CREATE TRIGGER resolutions_are_immutable BEFORE UPDATE OR DELETE ON resolutions
  FOR EACH ROW EXECUTE FUNCTION refuse_change_of_record();
CREATE TRIGGER operator_actions_are_immutable BEFORE UPDATE OR DELETE ON operator_actions
  FOR EACH ROW EXECUTE FUNCTION refuse_change_of_record();
CREATE TRIGGER catalogs_are_immutable BEFORE UPDATE OR DELETE ON catalogs
  FOR EACH ROW EXECUTE FUNCTION refuse_change_of_record();
CREATE TRIGGER publications_are_immutable BEFORE UPDATE OR DELETE ON publications
  FOR EACH ROW EXECUTE FUNCTION refuse_change_of_record();
CREATE TRIGGER resolutions_are_kept BEFORE TRUNCATE ON resolutions
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change_of_record();
CREATE TRIGGER operator_actions_are_kept BEFORE TRUNCATE ON operator_actions
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change_of_record();
