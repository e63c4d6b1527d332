-- farebox: compatible-from 0009-settlement-payer.sql
-- Browsers that signed in before are not slowed down by what others of their address or account did. Programs of
-- earlier versions neither read nor write any of it.

-- The id in the cookie of a known browser, which is then counted alone; NULL for all others.
ALTER TABLE failed_sign_ins ADD COLUMN device text;
CREATE INDEX failed_sign_ins_by_device ON failed_sign_ins (device, failed_at) WHERE device IS NOT NULL;

-- What the console signs its cookies with, the same for all of its processes. One row. Of two random UUIDs, 244 bits.
CREATE TABLE console_secret (
  id boolean PRIMARY KEY DEFAULT true CHECK (id),
  secret bytea NOT NULL DEFAULT sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8'))
    CHECK (length(secret) = 32)
);
INSERT INTO console_secret DEFAULT VALUES;
