-- farebox: compatible-from 0009-settlement-payer.sql
-- Nonces of answered sign-in challenges, of which no program of this version knows. A worker of the version before says
-- once a round that it cannot delete any, until it is replaced.
DROP TABLE used_sign_ins;
