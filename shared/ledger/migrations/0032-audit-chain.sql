-- farebox: compatible-from 0009-settlement-payer.sql
-- Each row of the audit holds the SHA-256 over the hash before it and its own content, so that a row which somebody with
-- every right in the database deletes, changes or moves is found (npm run ledger). Programs of earlier versions insert as
-- before: the trigger fills both columns in.
ALTER TABLE operator_actions ADD COLUMN position bigint, ADD COLUMN hash text;

-- The last row's, so that its deletion is found, too. One row.
CREATE TABLE operator_action_head (
  id boolean PRIMARY KEY DEFAULT true CHECK (id),
  position bigint NOT NULL,
  hash text NOT NULL CHECK (length(hash) = 64)
);
INSERT INTO operator_action_head (position, hash) VALUES (0, repeat('0', 64));

-- Each part with its length in bytes before it, so that no two contents have the same text. shared/operators/audit-chain.ts
-- computes the same.
CREATE FUNCTION operator_action_hash(parts text[]) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN encode(sha256(convert_to(
    (SELECT string_agg(coalesce(octet_length(convert_to(part, 'UTF8')) || ':' || part, '-'), ',' ORDER BY place)
     FROM unnest(parts) WITH ORDINALITY AS each (part, place)), 'UTF8')), 'hex');

CREATE FUNCTION operator_action_parts(action operator_actions) RETURNS text[] LANGUAGE sql STABLE
  RETURN ARRAY[action.id::text, (extract(epoch FROM action.done_at) * 1000000)::bigint::text, action.operator,
    action.source, action.action, action.subject, action.reason, action.details::text];

-- With the rights of its owner: who may insert a row may not write the head. The row of the head is locked until the
-- transaction ends, so each insert must be the last lock that its transaction takes.
CREATE FUNCTION chain_operator_action() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  UPDATE operator_action_head SET position = position + 1,
    hash = operator_action_hash(ARRAY[hash, (position + 1)::text] || operator_action_parts(NEW))
  RETURNING operator_action_head.position, operator_action_head.hash INTO NEW.position, NEW.hash;
  RETURN NEW;
END $$;
-- Nobody's temporary table is taken for one of these.
DO $$ BEGIN
  EXECUTE format('ALTER FUNCTION chain_operator_action() SET search_path = pg_catalog, %I, pg_temp', current_schema());
END $$;
CREATE TRIGGER operator_actions_are_chained BEFORE INSERT ON operator_actions
  FOR EACH ROW EXECUTE FUNCTION chain_operator_action();

-- The rows that are there, as if they were inserted now.
ALTER TABLE operator_actions DISABLE TRIGGER operator_actions_are_immutable;
DO $$
DECLARE
  earlier operator_actions;
  last_position bigint := 0;
  last_hash text := repeat('0', 64);
BEGIN
  FOR earlier IN SELECT * FROM operator_actions ORDER BY id LOOP
    last_position := last_position + 1;
    last_hash := operator_action_hash(ARRAY[last_hash, last_position::text] || operator_action_parts(earlier));
    UPDATE operator_actions SET position = last_position, hash = last_hash WHERE id = earlier.id;
  END LOOP;
  UPDATE operator_action_head SET position = last_position, hash = last_hash;
END $$;
ALTER TABLE operator_actions ENABLE TRIGGER operator_actions_are_immutable;
ALTER TABLE operator_actions
  ALTER COLUMN position SET NOT NULL,
  ALTER COLUMN hash SET NOT NULL,
  ADD CONSTRAINT operator_actions_position_key UNIQUE (position);
