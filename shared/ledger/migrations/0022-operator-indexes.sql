-- farebox: compatible-from 0009-settlement-payer.sql
-- farebox: no-transaction
-- What the operators' console reads, without a lock that paid work waits for. Every statement may be repeated.

-- The search by each id that a caller, a log line or the chain shows.
DROP INDEX CONCURRENTLY IF EXISTS jobs_by_request_id;
CREATE INDEX CONCURRENTLY jobs_by_request_id ON jobs (request_id);
DROP INDEX CONCURRENTLY IF EXISTS jobs_by_released_key;
CREATE INDEX CONCURRENTLY jobs_by_released_key ON jobs (released_idempotency_key)
  WHERE released_idempotency_key IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS settlements_by_transaction;
CREATE INDEX CONCURRENTLY settlements_by_transaction ON settlements (transaction_hash)
  WHERE transaction_hash IS NOT NULL;
-- Lists of calls, newest first.
DROP INDEX CONCURRENTLY IF EXISTS jobs_by_acceptance;
CREATE INDEX CONCURRENTLY jobs_by_acceptance ON jobs (accepted_at, id);
-- The timeline of a job, and the health of a deployment.
DROP INDEX CONCURRENTLY IF EXISTS upstream_attempts_by_job;
CREATE INDEX CONCURRENTLY upstream_attempts_by_job ON upstream_attempts (job_id);
DROP INDEX CONCURRENTLY IF EXISTS upstream_attempts_by_deployment;
CREATE INDEX CONCURRENTLY upstream_attempts_by_deployment ON upstream_attempts (deployment, started_at);
DROP INDEX CONCURRENTLY IF EXISTS settlements_by_job;
CREATE INDEX CONCURRENTLY settlements_by_job ON settlements (job_id);
-- Calls that ended without a payment, by state, newest first.
DROP INDEX CONCURRENTLY IF EXISTS jobs_ended_unpaid;
CREATE INDEX CONCURRENTLY jobs_ended_unpaid ON jobs (state, accepted_at, id)
  WHERE state IN ('failed', 'settlement_failed', 'review');
DROP INDEX CONCURRENTLY IF EXISTS uncharged_work_by_job;
CREATE INDEX CONCURRENTLY uncharged_work_by_job ON uncharged_work (job_id);
DROP INDEX CONCURRENTLY IF EXISTS unknown_settlements_by_transaction;
CREATE INDEX CONCURRENTLY unknown_settlements_by_transaction ON unknown_settlements (transaction_hash);
DROP INDEX CONCURRENTLY IF EXISTS unknown_settlements_by_job;
CREATE INDEX CONCURRENTLY unknown_settlements_by_job ON unknown_settlements (job_id) WHERE job_id IS NOT NULL;
-- Totals by hour.
DROP INDEX CONCURRENTLY IF EXISTS settlements_confirmed_by_time;
CREATE INDEX CONCURRENTLY settlements_confirmed_by_time ON settlements (finished_at)
  INCLUDE (charge_amount, gas_cost, finalized_at) WHERE state = 'confirmed';
