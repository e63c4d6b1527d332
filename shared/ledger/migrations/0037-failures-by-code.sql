-- farebox: compatible-from 0021-operators.sql
-- farebox: no-transaction
-- Calls that ended without a charge by error code, newest first, for the operators' console. Every statement may be repeated.
DROP INDEX CONCURRENTLY IF EXISTS jobs_failed_by_code;
CREATE INDEX CONCURRENTLY jobs_failed_by_code ON jobs (failure_code, accepted_at, id) WHERE failure_code IS NOT NULL;
