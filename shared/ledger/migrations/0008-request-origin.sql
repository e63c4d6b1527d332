-- Which request a job was accepted from, and its place in that request's trace, so that whoever works on it can say so.
ALTER TABLE jobs
  ADD COLUMN request_id text,
  ADD COLUMN traceparent text;

-- Totals over everything up to `through`; what came later is summed when it is asked for. One row.
CREATE TABLE ledger_totals (
  id boolean PRIMARY KEY DEFAULT true CHECK (id),
  through timestamptz NOT NULL,
  charged_jobs bigint NOT NULL,
  charged_total numeric(78,0) NOT NULL,
  ambiguous_attempts bigint NOT NULL,
  ambiguous_total numeric(78,0) NOT NULL
);
CREATE INDEX jobs_charged ON jobs (finished_at) INCLUDE (charge_amount) WHERE state = 'completed';
CREATE INDEX upstream_attempts_ambiguous ON upstream_attempts (finished_at) WHERE state = 'failed_ambiguous';
-- All of the past here, so that no later look has to.
INSERT INTO ledger_totals (through, charged_jobs, charged_total, ambiguous_attempts, ambiguous_total)
  SELECT through, charged.count, charged.total, ambiguous.count, ambiguous.total
  FROM (SELECT now() - interval '10 minutes' AS through) AS present,
    LATERAL (SELECT count(*), coalesce(sum(charge_amount), 0) AS total FROM jobs
      WHERE state = 'completed' AND finished_at < through) AS charged,
    LATERAL (SELECT count(*), coalesce(sum(authorized_maximum), 0) AS total
      FROM upstream_attempts JOIN authorizations ON authorizations.id = authorization_id
      WHERE state = 'failed_ambiguous' AND finished_at < through) AS ambiguous;
-- What was done and is not paid for.
CREATE INDEX jobs_uncollected ON jobs (state) INCLUDE (charge_amount) WHERE state IN ('settlement_failed', 'review');
