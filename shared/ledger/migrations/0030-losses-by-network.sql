-- farebox: compatible-from 0009-settlement-payer.sql
-- farebox: no-transaction
-- What payers without a history may lose for the service in a day is divided by the networks that they call from: an
-- IPv4 /24 or an IPv6 /48. Null in rows of programs that do not know it; these count only in the total.
ALTER TABLE jobs ADD COLUMN IF NOT EXISTS client_network text;
ALTER TABLE uncharged_work ADD COLUMN IF NOT EXISTS client_network text;
-- In place of reading all uncharged work of a day, of which most belongs to payers with a history.
DROP INDEX CONCURRENTLY IF EXISTS uncharged_work_of_new_payers;
CREATE INDEX CONCURRENTLY uncharged_work_of_new_payers ON uncharged_work (created_at) INCLUDE (client_network, amount)
  WHERE is_new_payer;
