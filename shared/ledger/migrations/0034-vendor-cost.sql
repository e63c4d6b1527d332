-- farebox: compatible-from 0021-operators.sql
-- What a vendor bills for an attempt, in atomic USDC, at the prices of its deployment at that time, and the usage that it bills.
-- Null where the usage of a failed call is not known, for deployments without prices, and in rows of programs that do not
-- know the columns.
ALTER TABLE upstream_attempts ADD COLUMN usage jsonb, ADD COLUMN vendor_cost numeric(78,0) CHECK (vendor_cost >= 0);
-- Its sum over the attempts that ended in the hour.
ALTER TABLE ledger_hours ADD COLUMN vendor_total numeric(78,0) NOT NULL DEFAULT 0;
