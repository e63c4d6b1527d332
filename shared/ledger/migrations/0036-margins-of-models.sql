-- farebox: compatible-from 0021-operators.sql
-- What the hour's completed calls earned, by model and deployment: an array of objects with the amounts of `MARGIN_COLUMNS`.
-- Null in rows of programs that do not know the column.
ALTER TABLE ledger_hours ADD COLUMN margins jsonb;
