-- farebox: compatible-from 0021-operators.sql
-- farebox: no-transaction
-- Confirmed settlements whose block has left the chain: looked up every five seconds until they are in another one. Every
-- statement may be repeated.
DROP INDEX CONCURRENTLY IF EXISTS settlements_removed;
CREATE INDEX CONCURRENTLY settlements_removed ON settlements (block_number)
  WHERE state = 'confirmed' AND finalized_at IS NULL AND block_hash IS NULL;
