-- farebox: compatible-from 0021-operators.sql
-- Who was called for which of its models, since deployments are renamed and get other models. Null in rows of programs that do
-- not know the columns.
ALTER TABLE upstream_attempts ADD COLUMN vendor text, ADD COLUMN upstream_model text;
