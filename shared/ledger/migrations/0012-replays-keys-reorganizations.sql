-- farebox: compatible-from 0009-settlement-payer.sql
-- The challenge token that an authorization was accepted with: settled signatures are public on chain, the token is not.
-- NULL in rows of earlier versions.
ALTER TABLE authorizations
  ADD COLUMN challenge_token_sha256 text,
  ADD CONSTRAINT token_digest_is_sha256 CHECK (length(challenge_token_sha256) = 64) NOT VALID;

-- An uncharged job whose payer has not come back releases its key. It keeps its rows, and the key for operators.
ALTER TABLE jobs
  ALTER COLUMN idempotency_key DROP NOT NULL,
  ADD COLUMN released_idempotency_key text,
  ADD CONSTRAINT key_is_held_or_released CHECK ((idempotency_key IS NULL) = (released_idempotency_key IS NOT NULL)) NOT VALID,
  ADD CONSTRAINT only_failed_jobs_release_their_key CHECK (idempotency_key IS NOT NULL OR state = 'failed') NOT VALID;

-- A settlement that ended 'reverted' was judged by facts of one block, and is watched until that block is final. Without
-- a hash it is not judged by any block of the chain and may still succeed.
-- surplus: it succeeded after a reorganization although its job was paid by another settlement or has no result.
ALTER TABLE settlements
  DROP CONSTRAINT settlements_state_check,
  ADD CONSTRAINT settlements_state_check
    CHECK (state IN ('signed', 'confirmed', 'reverted', 'unproven', 'lost', 'surplus')) NOT VALID,
  DROP CONSTRAINT only_confirmed_is_final,
  ADD CONSTRAINT only_decided_is_final CHECK (finalized_at IS NULL OR state IN ('confirmed', 'reverted')) NOT VALID,
  DROP CONSTRAINT lost_has_reason,
  ADD CONSTRAINT lost_has_reason CHECK (state NOT IN ('lost', 'surplus') OR failure_reason IS NOT NULL) NOT VALID,
  ADD CONSTRAINT surplus_is_on_chain CHECK (
    state <> 'surplus' OR (transaction_hash IS NOT NULL AND block_number IS NOT NULL AND finished_at IS NOT NULL))
    NOT VALID;
