-- farebox: compatible-from 0009-settlement-payer.sql
-- A job that has to wait is tried again after growing delays, and ends once it has waited too long. Neither follows from
-- the payer's deadline, which may be arbitrarily distant. Each move of the job's state resets all three columns.
ALTER TABLE jobs
  ADD COLUMN deferred_since timestamptz,
  ADD COLUMN deferrals integer NOT NULL DEFAULT 0,
  ADD CONSTRAINT jobs_deferrals_check CHECK (deferrals >= 0) NOT VALID,
  -- Since when nothing but the payment itself has prevented its settlement.
  ADD COLUMN payment_blocked_since timestamptz,
  ADD CONSTRAINT deferrals_have_begun CHECK ((deferred_since IS NULL) = (deferrals = 0)) NOT VALID,
  ADD CONSTRAINT only_deferred_payments_are_blocked CHECK (payment_blocked_since IS NULL OR deferred_since IS NOT NULL)
    NOT VALID;
