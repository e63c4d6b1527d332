-- A remote facilitator signs and sends with keys of its own. Of its settlements the ledger holds what was asked for before
-- it was asked, so that no crash forgets it; the proof is the chain's, as for our own. Such a row is 'signed' too: by the
-- payer, and open until the chain tells how it ended.
ALTER TABLE settlements
  ADD COLUMN settled_by text NOT NULL DEFAULT 'own_key' CHECK (settled_by IN ('own_key', 'remote_facilitator')),
  -- No transaction of this settlement is in an earlier block.
  ADD COLUMN recorded_block numeric(78,0),
  -- Requests sent to the facilitator whose outcome is unknown: while there is one, a transaction may be on its way.
  ADD COLUMN unanswered_requests integer NOT NULL DEFAULT 0 CHECK (unanswered_requests >= 0),
  ADD COLUMN requested_at timestamptz,
  ALTER COLUMN account_nonce DROP NOT NULL,
  ADD CONSTRAINT own_key_has_account_nonce CHECK ((settled_by = 'own_key') = (account_nonce IS NOT NULL)),
  ADD CONSTRAINT remote_has_recorded_block CHECK ((settled_by = 'remote_facilitator') = (recorded_block IS NOT NULL)),
  ADD CONSTRAINT settlements_by_kind UNIQUE (id, settled_by);

-- What we signed ourselves we can send again; of a facilitator's transaction we are told the hash alone. The hash stays
-- the primary key: one transaction never proves two settlements.
ALTER TABLE settlement_transactions
  ADD COLUMN settled_by text NOT NULL DEFAULT 'own_key',
  ALTER COLUMN raw_transaction DROP NOT NULL,
  ALTER COLUMN account_nonce DROP NOT NULL,
  ADD CONSTRAINT own_key_has_raw_transaction CHECK ((settled_by = 'own_key') = (raw_transaction IS NOT NULL)),
  ADD CONSTRAINT own_key_transaction_has_account_nonce CHECK ((settled_by = 'own_key') = (account_nonce IS NOT NULL)),
  ADD CONSTRAINT settlement_transactions_of_kind FOREIGN KEY (settlement_id, settled_by)
    REFERENCES settlements (id, settled_by);
