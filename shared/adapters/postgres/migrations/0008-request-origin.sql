-- Which request a job was accepted from, and its place in that request's trace, so that whoever works on it can say so.
ALTER TABLE jobs
  ADD COLUMN request_id text,
  ADD COLUMN traceparent text;

-- Totals over everything up to `through`; what came later is summed when it is asked for. One row.
CREATE TABLE ledger_totals (
  id boolean PRIMARY KEY DEFAULT true CHECK (id),
  through timestamptz NOT NULL DEFAULT '-infinity',
  charged_jobs bigint NOT NULL DEFAULT 0,
  charged_total numeric(78,0) NOT NULL DEFAULT 0,
  ambiguous_attempts bigint NOT NULL DEFAULT 0,
  ambiguous_total numeric(78,0) NOT NULL DEFAULT 0
);
INSERT INTO ledger_totals DEFAULT VALUES;
CREATE INDEX jobs_charged ON jobs (finished_at) INCLUDE (charge_amount) WHERE state = 'completed';
CREATE INDEX upstream_attempts_ambiguous ON upstream_attempts (finished_at) WHERE state = 'failed_ambiguous';
-- What was done and is not paid for.
CREATE INDEX jobs_uncollected ON jobs (state) INCLUDE (charge_amount) WHERE state IN ('settlement_failed', 'review');
