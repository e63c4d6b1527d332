-- farebox: compatible-from 0009-settlement-payer.sql
-- What a caller says of a recording that was priced before it was sent: {"sha256", "bytes", "duration_ms"}. Null for a
-- request that was read completely, and once a job is accepted under the key. Until then the recording itself may replace
-- the claim once, which adds "is_replaced".
ALTER TABLE idempotency_keys ADD COLUMN claimed_audio jsonb;
