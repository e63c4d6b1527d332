-- farebox: compatible-from 0009-settlement-payer.sql
-- farebox: no-transaction
-- What 0010 to 0013 leave out because it reads whole tables: constraints are validated, and indexes are built, without a
-- lock that paid work waits for. Every statement may be repeated: an interrupted CREATE INDEX CONCURRENTLY leaves an
-- invalid index.
ALTER TABLE upstream_attempts VALIDATE CONSTRAINT upstream_attempts_state_check;
ALTER TABLE jobs VALIDATE CONSTRAINT jobs_deferrals_check;
ALTER TABLE jobs VALIDATE CONSTRAINT deferrals_have_begun;
ALTER TABLE jobs VALIDATE CONSTRAINT only_deferred_payments_are_blocked;
ALTER TABLE jobs VALIDATE CONSTRAINT key_is_held_or_released;
ALTER TABLE jobs VALIDATE CONSTRAINT only_failed_jobs_release_their_key;
ALTER TABLE authorizations VALIDATE CONSTRAINT token_digest_is_sha256;
ALTER TABLE settlements VALIDATE CONSTRAINT settlements_state_check;
ALTER TABLE settlements VALIDATE CONSTRAINT only_decided_is_final;
ALTER TABLE settlements VALIDATE CONSTRAINT lost_has_reason;
ALTER TABLE settlements VALIDATE CONSTRAINT surplus_is_on_chain;
ALTER TABLE settlements VALIDATE CONSTRAINT gas_is_complete;

-- A surplus settlement is not the charge of its job. One of the two indexes is valid at any time, also after an
-- interruption: the new one takes the name in one statement, and only then is the old one dropped.
DROP INDEX CONCURRENTLY IF EXISTS one_settled_charge_per_job;
DROP INDEX CONCURRENTLY IF EXISTS old_one_charge_per_job;
CREATE UNIQUE INDEX CONCURRENTLY one_settled_charge_per_job ON settlements (job_id)
  WHERE state NOT IN ('reverted', 'surplus');
DO $$ BEGIN ALTER INDEX one_charge_per_job RENAME TO old_one_charge_per_job; ALTER INDEX
  one_settled_charge_per_job RENAME TO one_charge_per_job; END $$;
DROP INDEX CONCURRENTLY old_one_charge_per_job;

-- Blocks of a day ago are final. Younger rows are judged again.
UPDATE settlements SET finalized_at = now()
  WHERE state = 'reverted' AND finalized_at IS NULL AND finished_at < now() - interval '1 day';

-- The limit of new payers is summed at every acceptance.
DROP INDEX CONCURRENTLY IF EXISTS jobs_of_new_payers;
CREATE INDEX CONCURRENTLY jobs_of_new_payers ON jobs (accepted_at) WHERE is_new_payer AND (finished_at IS NULL OR is_owed);
-- The sweepers take deferred jobs payer by payer.
DROP INDEX CONCURRENTLY IF EXISTS jobs_deferred;
CREATE INDEX CONCURRENTLY jobs_deferred ON jobs (payer, run_after) WHERE deferred_since IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS settlements_reverted_not_final;
CREATE INDEX CONCURRENTLY settlements_reverted_not_final ON settlements (block_number)
  WHERE state = 'reverted' AND finalized_at IS NULL AND block_hash IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS settlements_unjudged;
CREATE INDEX CONCURRENTLY settlements_unjudged ON settlements (finished_at)
  WHERE state = 'reverted' AND finalized_at IS NULL AND block_hash IS NULL;
DROP INDEX CONCURRENTLY IF EXISTS settlements_superseded;
CREATE INDEX CONCURRENTLY settlements_superseded ON settlements (job_id) WHERE state IN ('reverted', 'surplus');
DROP INDEX CONCURRENTLY IF EXISTS settlements_surplus;
CREATE INDEX CONCURRENTLY settlements_surplus ON settlements (finished_at) WHERE state = 'surplus';
-- How often a payer's settlements reverted lately decides when a withheld result may be paid for again.
DROP INDEX CONCURRENTLY IF EXISTS settlements_reverted_by_payer;
CREATE INDEX CONCURRENTLY settlements_reverted_by_payer ON settlements (payer, finished_at) INCLUDE (job_id)
  WHERE state = 'reverted' AND gas_used IS NOT NULL;
