-- Every signed transaction keeps the account nonce that it was signed for: a settlement whose nonce a stranger used up is
-- signed again for another one. A row without a settlement only fills a gap in the account's line.
ALTER TABLE settlement_transactions
  ALTER COLUMN settlement_id DROP NOT NULL,
  ADD COLUMN network text,
  ADD COLUMN facilitator text,
  ADD COLUMN account_nonce numeric(78,0);
UPDATE settlement_transactions AS signed
  SET network = settlements.network, facilitator = settlements.facilitator, account_nonce = settlements.account_nonce
  FROM settlements WHERE settlements.id = signed.settlement_id;
ALTER TABLE settlement_transactions
  ALTER COLUMN network SET NOT NULL,
  ALTER COLUMN facilitator SET NOT NULL,
  ALTER COLUMN account_nonce SET NOT NULL;
CREATE INDEX settlement_transactions_in_line ON settlement_transactions (network, facilitator, account_nonce, signed_at);

ALTER TABLE settlement_accounts
  -- One keeper at a time; two of them would only sign more replacements than needed.
  ADD COLUMN kept_until timestamptz NOT NULL DEFAULT now(),
  -- The account nonce that the chain takes next, when it was last seen, and since when it is that one.
  ADD COLUMN head_account_nonce numeric(78,0),
  ADD COLUMN head_since timestamptz;

-- lost: the chain gave up the block of a confirmed settlement, and it cannot be settled any more. The result was released.
ALTER TABLE settlements
  DROP CONSTRAINT settlements_state_check,
  ADD CONSTRAINT settlements_state_check CHECK (state IN ('signed', 'confirmed', 'reverted', 'unproven', 'lost')),
  ADD COLUMN block_hash text,
  ADD COLUMN finalized_at timestamptz,
  -- For operators.
  ADD COLUMN failure_reason text,
  ADD CONSTRAINT only_confirmed_is_final CHECK (finalized_at IS NULL OR state = 'confirmed'),
  ADD CONSTRAINT lost_has_reason CHECK (state <> 'lost' OR failure_reason IS NOT NULL);
CREATE INDEX settlements_not_final ON settlements (block_number) WHERE state = 'confirmed' AND finalized_at IS NULL;
CREATE INDEX settlements_by_state ON settlements (state, signed_at) WHERE state IN ('signed', 'lost', 'unproven');
