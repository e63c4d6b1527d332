-- farebox: compatible-from 0009-settlement-payer.sql
-- Shares of what the service spends on permits: of wallets that have never paid, by the hour, and of each network that asks
-- for them. Rows of processes that do not know these columns count in full, and as those of a wallet that has paid.
ALTER TABLE sponsored_permits
  -- What the permit is expected to cost, with a margin; it counts until gas_wei is known.
  ADD COLUMN expected_gas_wei numeric(78,0) CHECK (expected_gas_wei > 0),
  ADD COLUMN is_new_owner boolean NOT NULL DEFAULT false,
  -- The /24 or /48 of the caller who asked; forgotten after a day.
  ADD COLUMN client_network text;
CREATE INDEX sponsored_permits_with_network ON sponsored_permits (requested_at) WHERE client_network IS NOT NULL;
