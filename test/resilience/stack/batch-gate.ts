import type { TestSandbox } from '../../support/processes/test-sandbox.ts'

/** Holds up the next batch in the ledger, so that the payments behind it gather into another one. */
export interface BatchGate {
  close(): Promise<void>
  /** Returns whether a batch waits. */
  isHolding(): Promise<boolean>
  open(): Promise<void>
}

/** Adds the gate to a database, where it is open at first. */
export async function addBatchGate({ sql }: Pick<TestSandbox, 'sql'>): Promise<BatchGate> {
  // A sequence is seen by others before its transaction ends.
  await sql('CREATE SEQUENCE batches_held')
  await sql('CREATE TABLE batch_gate (is_closed boolean NOT NULL)')
  await sql('INSERT INTO batch_gate VALUES (false)')
  await sql(`CREATE FUNCTION wait_at_gate() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
    BEGIN
      IF EXISTS (SELECT 1 FROM batch_gate WHERE is_closed) THEN PERFORM nextval('batches_held'); END IF;
      WHILE EXISTS (SELECT 1 FROM batch_gate WHERE is_closed) LOOP PERFORM pg_sleep(0.02); END LOOP;
      RETURN NEW;
    END $$`)
  await sql(`CREATE TRIGGER gated BEFORE INSERT ON settlement_batches FOR EACH ROW EXECUTE FUNCTION wait_at_gate()`)
  return {
    close: async () => {
      await sql(`SELECT setval('batches_held', 1, false)`)
      await sql('UPDATE batch_gate SET is_closed = true')
    },
    isHolding: async () => (await sql('SELECT 1 FROM batches_held WHERE is_called')).length > 0,
    open: async () => void (await sql('UPDATE batch_gate SET is_closed = false')),
  }
}
