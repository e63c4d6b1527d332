-- farebox: compatible-from 0009-settlement-payer.sql
-- failed_empty: the vendor worked and returned nothing usable. Such an authorization is never used for another call.
ALTER TABLE upstream_attempts
  DROP CONSTRAINT upstream_attempts_state_check,
  ADD CONSTRAINT upstream_attempts_state_check CHECK (
    state IN ('open', 'succeeded', 'failed_definite', 'failed_empty', 'failed_ambiguous')) NOT VALID;

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
  -- Whether the payer was new when the job was accepted.
  is_new_payer boolean NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now()
);
-- A payer's budget is read at every acceptance and before every provider call.
CREATE INDEX uncharged_work_by_payer ON uncharged_work (payer, created_at) INCLUDE (amount, kind);
CREATE INDEX uncharged_work_by_time ON uncharged_work (created_at) INCLUDE (is_new_payer, kind, amount);
-- Whether other payers' calls to the same deployment ended unknown at the same time.
CREATE INDEX uncharged_work_unknown ON uncharged_work (deployment, created_at) INCLUDE (payer, is_new_payer)
  WHERE kind = 'unknown_outcome';

-- Totals of uncharged work up to ledger_totals.through.
CREATE TABLE uncharged_work_totals (
  kind text PRIMARY KEY,
  count bigint NOT NULL,
  total numeric(78,0) NOT NULL
);

-- Whether the payer had settled less than the uncharged budget when the job was accepted: such payers share one limit.
ALTER TABLE jobs ADD COLUMN is_new_payer boolean NOT NULL DEFAULT false;
