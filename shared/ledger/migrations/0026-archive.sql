-- farebox: compatible-from 0009-settlement-payer.sql
-- Documents of calls that are over move to the object store. Their rows stay, with what the ledger, the console and
-- repeated requests read; where the documents are is written in the transaction that erases them. Programs that do not
-- know the archive work with this schema as long as nothing is archived.

-- An object holds the documents of some hundred calls that finished in one month. Its key ends with its digest.
CREATE TABLE archive_objects (
  id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  key text NOT NULL UNIQUE,
  -- Of the stored bytes, which are compressed.
  sha256 text NOT NULL CHECK (length(sha256) = 64),
  month date NOT NULL CHECK (extract(day FROM month) = 1),
  calls integer NOT NULL CHECK (calls > 0),
  transactions integer NOT NULL CHECK (transactions >= 0),
  bytes bigint NOT NULL CHECK (bytes > 0),
  uncompressed_bytes bigint NOT NULL CHECK (uncompressed_bytes > 0),
  archived_at timestamptz NOT NULL DEFAULT now()
);
CREATE TRIGGER archive_objects_are_immutable BEFORE UPDATE OR DELETE ON archive_objects
  FOR EACH ROW EXECUTE FUNCTION refuse_change_of_record();
CREATE TRIGGER archive_objects_are_kept BEFORE TRUNCATE ON archive_objects
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change_of_record();

-- Months that were archived completely, so that later runs need not look at all of their calls again.
CREATE TABLE archive_months (
  month date PRIMARY KEY CHECK (extract(day FROM month) = 1),
  -- Completed calls that were not over yet, or are kept for a person. A run looks at the month again while there are any.
  remaining bigint NOT NULL CHECK (remaining >= 0),
  archived_at timestamptz NOT NULL DEFAULT now()
);

-- The object with the documents; the triggers below take the place of foreign keys, which would be checked by reading
-- both tables.
ALTER TABLE receipts ADD COLUMN archive_object integer;
ALTER TABLE settlement_transactions ADD COLUMN archive_object integer;

-- What stays of a receipt's body and of a signed authorization.
CREATE FUNCTION kept_of_receipt(body jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN jsonb_build_object('charge_atomic', body -> 'charge_atomic', 'transaction', body -> 'transaction',
    'settled_at', body -> 'settled_at', 'issued_at', body -> 'issued_at');
CREATE FUNCTION kept_of_authorization(signed jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN jsonb_build_object('payTo', signed -> 'payTo', 'facilitator', signed -> 'facilitator');

CREATE FUNCTION refuse_receipt_change_unless_archived() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'UPDATE' AND OLD.archive_object IS NULL
    AND (NEW.id, NEW.job_id, NEW.token_secret_id) = (OLD.id, OLD.job_id, OLD.token_secret_id)
    AND NEW.body = kept_of_receipt(OLD.body)
    AND EXISTS (SELECT FROM archive_objects WHERE id = NEW.archive_object)
  THEN RETURN NEW; END IF;
  RAISE EXCEPTION 'receipts are immutable';
END $$;
DROP TRIGGER receipts_are_immutable ON receipts;
CREATE TRIGGER receipts_are_immutable BEFORE UPDATE OR DELETE ON receipts
  FOR EACH ROW EXECUTE FUNCTION refuse_receipt_change_unless_archived();

CREATE FUNCTION refuse_transaction_change_unless_archived() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF OLD.archive_object IS NULL AND NEW.raw_transaction = ''
    AND EXISTS (SELECT FROM archive_objects WHERE id = NEW.archive_object)
  THEN RETURN NEW; END IF;
  RAISE EXCEPTION 'signed transactions are immutable';
END $$;
CREATE TRIGGER signed_transactions_are_immutable BEFORE UPDATE OF raw_transaction, archive_object
  ON settlement_transactions FOR EACH ROW EXECUTE FUNCTION refuse_transaction_change_unless_archived();

-- Of the other documents only the erasure is refused: terms change when a job runs again, or a key gets a new quote.
CREATE FUNCTION refuse_erasure_unless_archived() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  job uuid;
BEGIN
  IF TG_TABLE_NAME = 'jobs' THEN job := OLD.id; ELSE job := OLD.job_id; END IF;
  IF EXISTS (SELECT FROM receipts WHERE job_id = job AND archive_object IS NOT NULL) THEN RETURN NEW; END IF;
  RAISE EXCEPTION 'a document of % is erased without being archived', TG_TABLE_NAME;
END $$;
CREATE TRIGGER authorizations_are_archived BEFORE UPDATE OF signed ON authorizations
  FOR EACH ROW WHEN (OLD.signed ? 'signature' AND NOT NEW.signed ? 'signature')
  EXECUTE FUNCTION refuse_erasure_unless_archived();
CREATE TRIGGER terms_are_archived BEFORE UPDATE OF terms ON jobs
  FOR EACH ROW WHEN (OLD.terms <> '{}' AND NEW.terms = '{}') EXECUTE FUNCTION refuse_erasure_unless_archived();
CREATE TRIGGER terms_are_archived BEFORE UPDATE OF terms ON idempotency_keys
  FOR EACH ROW WHEN (OLD.terms <> '{}' AND NEW.terms = '{}') EXECUTE FUNCTION refuse_erasure_unless_archived();
