-- farebox: compatible-from 0009-settlement-payer.sql
-- What the mined transactions of a settlement cost its key; empty until then, for remote facilitators and in older rows.
-- gas_cost is in atomic USDC, at the configured price of the native token, with the fee for the transaction's data.
ALTER TABLE settlements
  ADD COLUMN gas_used numeric(78,0),
  ADD COLUMN effective_gas_price numeric(78,0),
  ADD COLUMN gas_cost numeric(78,0),
  ADD CONSTRAINT gas_is_complete CHECK (num_nulls(gas_used, effective_gas_price, gas_cost) IN (0, 3)) NOT VALID;
