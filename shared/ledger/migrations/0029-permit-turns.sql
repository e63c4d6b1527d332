-- farebox: compatible-from 0009-settlement-payer.sql
-- Which of a payer's calls may sign the next permit: a permit's nonce belongs to the wallet, so calls that pay with permits
-- follow each other, at whichever API they wait. A row ends within seconds.
CREATE TABLE permit_turns (
  payer text PRIMARY KEY,
  idempotency_key text NOT NULL,
  ends_at timestamptz NOT NULL
);
CREATE INDEX permit_turns_by_end ON permit_turns (ends_at);
