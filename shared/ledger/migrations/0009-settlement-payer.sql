-- What a payer's reading of his funds does not know of yet is summed at every acceptance and before every call: by payer and
-- block, however many calls he made in the last minute.
ALTER TABLE settlements ADD COLUMN payer text;
UPDATE settlements SET payer = authorizations.payer FROM authorizations WHERE authorizations.id = authorization_id;

-- Processes of the version before go on while this one is rolled out, and do not name the payer.
CREATE FUNCTION name_settlement_payer() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  SELECT authorizations.payer INTO NEW.payer FROM authorizations WHERE id = NEW.authorization_id;
  RETURN NEW;
END $$;
CREATE TRIGGER settlements_name_their_payer BEFORE INSERT ON settlements
  FOR EACH ROW WHEN (NEW.payer IS NULL) EXECUTE FUNCTION name_settlement_payer();

ALTER TABLE settlements ALTER COLUMN payer SET NOT NULL;
CREATE INDEX settlements_by_payer ON settlements (payer, block_number) INCLUDE (charge_amount) WHERE state = 'confirmed';
