-- farebox: compatible-from 0009-settlement-payer.sql
-- farebox: no-transaction
-- What keeps reports fast over many millions of calls, without a lock that paid work waits for. Every statement may be
-- repeated.

-- The recipients and settlement keys that payers ever signed for: read from one pair to the next.
DROP INDEX CONCURRENTLY IF EXISTS authorizations_by_parties;
CREATE INDEX CONCURRENTLY authorizations_by_parties ON authorizations ((signed ->> 'payTo'), (signed ->> 'facilitator'));
-- Provider calls of a period by how they ended. In place of an index on those with an unknown outcome.
DROP INDEX CONCURRENTLY IF EXISTS upstream_attempts_by_end;
CREATE INDEX CONCURRENTLY upstream_attempts_by_end ON upstream_attempts (state, finished_at) WHERE state <> 'open';
DROP INDEX CONCURRENTLY IF EXISTS upstream_attempts_ambiguous;
-- Calls that failed in a period.
DROP INDEX CONCURRENTLY IF EXISTS jobs_failed_by_time;
CREATE INDEX CONCURRENTLY jobs_failed_by_time ON jobs (state, finished_at)
  INCLUDE (failure_code, charge_amount) WHERE state IN ('failed', 'settlement_failed');
-- The gas of settlements that reverted in a period.
DROP INDEX CONCURRENTLY IF EXISTS settlements_reverted_by_time;
CREATE INDEX CONCURRENTLY settlements_reverted_by_time ON settlements (finished_at) WHERE state = 'reverted';
-- Settlements that ended in a way that needs a person: the usual states are excluded, so that a new one is included.
DROP INDEX CONCURRENTLY IF EXISTS settlements_unusual;
CREATE INDEX CONCURRENTLY settlements_unusual ON settlements (job_id)
  WHERE state NOT IN ('signed', 'confirmed', 'reverted');
-- Permits that failed in a period.
DROP INDEX CONCURRENTLY IF EXISTS sponsored_permits_failed;
CREATE INDEX CONCURRENTLY sponsored_permits_failed ON sponsored_permits (finished_at) WHERE state = 'failed';

-- PostgreSQL's defaults vacuum a table once a fifth of it has changed, and analyze it after a tenth: of ten million calls
-- that is two million dead rows, a day or more of estimates about hours that the statistics do not know yet, and
-- index-only scans that read the table because no vacuum has marked its newest pages. So after a fiftieth and a hundredth.
ALTER TABLE jobs SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02,
  autovacuum_analyze_scale_factor = 0.01);
ALTER TABLE idempotency_keys SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02,
  autovacuum_analyze_scale_factor = 0.01);
ALTER TABLE authorizations SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02,
  autovacuum_analyze_scale_factor = 0.01);
ALTER TABLE upstream_attempts SET (autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.01);
ALTER TABLE settlements SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02,
  autovacuum_analyze_scale_factor = 0.01);
-- Rows of these two never change on the path of a call: the first vacuum freezes them, so that the one against the
-- wraparound of transaction ids, every 200 million transactions, skips their pages.
ALTER TABLE settlement_transactions SET (autovacuum_vacuum_insert_scale_factor = 0.02,
  autovacuum_analyze_scale_factor = 0.01, autovacuum_freeze_min_age = 0);
ALTER TABLE receipts SET (autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.01,
  autovacuum_freeze_min_age = 0);
