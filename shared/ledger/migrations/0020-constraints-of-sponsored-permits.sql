-- farebox: compatible-from 0009-settlement-payer.sql
-- farebox: no-transaction
-- What 0016 leaves out because it reads a whole table, without a lock that paid work waits for.
ALTER TABLE settlement_transactions VALIDATE CONSTRAINT transaction_of_permit;
ALTER TABLE settlement_transactions VALIDATE CONSTRAINT transaction_of_one_kind;
