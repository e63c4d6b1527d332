-- What a prompt says is kept only while somebody works on it; the digest stays.
ALTER TABLE jobs ALTER COLUMN effective_request DROP NOT NULL;
UPDATE jobs SET effective_request = NULL WHERE state NOT IN ('accepted', 'generating');
ALTER TABLE jobs ADD CONSTRAINT work_has_request
  CHECK ((state IN ('accepted', 'generating')) = (effective_request IS NOT NULL));

-- Results are kept for replay until their retention is over; digest, receipt and payment stay for good.
ALTER TABLE jobs ADD COLUMN result_expired_at timestamptz;
ALTER TABLE jobs DROP CONSTRAINT charge_has_result;
ALTER TABLE jobs ADD CONSTRAINT charge_has_result CHECK (
  state NOT IN ('generated', 'settling', 'completed', 'settlement_failed')
  OR (result_digest IS NOT NULL AND charge_amount IS NOT NULL AND usage IS NOT NULL
      AND (result_body IS NULL) = (result_expired_at IS NOT NULL)));
ALTER TABLE jobs ADD CONSTRAINT only_finished_results_expire CHECK (
  result_expired_at IS NULL OR state IN ('completed', 'settlement_failed'));
CREATE INDEX jobs_with_result ON jobs (finished_at) WHERE result_body IS NOT NULL AND finished_at IS NOT NULL;

-- Set when the lease of a provider call ran out: its worker gets a last moment to store what it may still hold.
ALTER TABLE jobs ADD COLUMN orphaned_at timestamptz;

-- The exposure of a payer is read under a lock at every acceptance. Unfinished jobs have no finished_at.
CREATE INDEX jobs_by_payer ON jobs (payer, finished_at);
-- A charge that failed while its authorization was still good is the payer's to pay before he gets anything else.
ALTER TABLE jobs ADD COLUMN is_owed boolean NOT NULL DEFAULT false;
UPDATE jobs SET is_owed = true WHERE state = 'settlement_failed';
ALTER TABLE jobs ADD CONSTRAINT only_withheld_results_are_owed CHECK (NOT is_owed OR state = 'settlement_failed');
CREATE INDEX jobs_owed ON jobs (payer) WHERE is_owed;

CREATE TRIGGER receipts_are_kept BEFORE TRUNCATE ON receipts
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_receipt_change();
