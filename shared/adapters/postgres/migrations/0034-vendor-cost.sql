-- farebox: compatible-from 0021-operators.sql
-- What a vendor bills for an attempt that brought a result, in atomic USDC, at the prices of its deployment at that time. Null
-- for deployments without prices, and in rows of programs that do not know the column.
ALTER TABLE upstream_attempts ADD COLUMN vendor_cost numeric(78,0) CHECK (vendor_cost >= 0);
-- Its sum over the attempts that ended in the hour.
ALTER TABLE ledger_hours ADD COLUMN vendor_total numeric(78,0) NOT NULL DEFAULT 0;
