-- farebox: compatible-from 0009-settlement-payer.sql
-- A file of its own, which is repeated until it obtains the lock: an index of a constraint cannot be dropped concurrently.
ALTER TABLE settlements DROP CONSTRAINT one_transaction_per_account_nonce;
ALTER INDEX one_own_transaction_per_account_nonce RENAME TO one_transaction_per_account_nonce;
