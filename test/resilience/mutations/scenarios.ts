import { setTimeout as delay } from 'node:timers/promises'
import type { Hex } from 'viem'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { type Payer, payerCalls } from '../../support/payer/payer.ts'
import { secondsFromNow } from '../../support/payer/sign-authorization.ts'
import { mine, reorganize, setMining } from '../nemesis/chain-faults.ts'
import { type CalledPayment, listKeys, readPendingBatches, sendUrgently } from '../stack/pending-batches.ts'
import { type Bench, type BenchCall, PAYER_FUNDS_ATOMIC } from './bench.ts'

const ACCEPTANCE = 'api.acceptPayment.commit.before'
/** Matches the statements that wait for another acceptance. */
const ACCEPTING = 'idempotency_keys|INTO authorizations|farebox new payers'
/** One of the sweeps, which all start their rounds together. */
const A_SWEEP = 'worker.eraseExpiredUploads.after'
/** Rounds of two workers until each sweep has run. */
const SWEEPS = 4

/** Scenarios that run against a mutated and an unmodified service. Each waits until its calls are finished. */
export const scenarios = {
  /** One call with an upload, one of text and one with media, without faults. */
  plain_calls: async ({ open, newPayer, points, untilHit }) => {
    const payer = await newPayer()
    for (const kind of ['transcription', 'chat', 'image'] as const) await open(kind, payer).payUntilDone()
    for (let round = 0; round < SWEEPS; round++) {
      points.arm(A_SWEEP, 'pass')
      await untilHit(A_SWEEP)
    }
  },

  /** One signature is sent concurrently for two requests with different keys. */
  one_payment_two_keys: async (bench) => {
    const { open, newPayer } = bench
    const payer = await newPayer()
    const [one, other] = [open('chat', payer), open('chat', payer)]
    const [required, otherRequired] = await Promise.all([one.challenge(), other.challenge()])
    const terms = { nonce: 1n, deadline: secondsFromNow(required.accepts[0]?.maxTimeoutSeconds ?? 0) }
    const [headers, otherHeaders] = await Promise.all([one.sign(required, terms), other.sign(otherRequired, terms)])
    await sendAtOnce(bench, [one, headers], [other, otherHeaders])
    await Promise.all([
      one.payUntilDone({ headers, signatures: 1 }),
      other.payUntilDone({ headers: otherHeaders, signatures: 1 }),
    ])
  },

  /** Two signatures for one request under one key arrive at two APIs at the same moment. */
  simultaneous_duplicates: async (bench) => {
    const call = bench.open('chat', await bench.newPayer())
    const required = await call.challenge()
    const [headers, otherHeaders] = await Promise.all([call.sign(required), call.sign(required)])
    await sendAtOnce(bench, [call, headers], [call, otherHeaders])
    await call.payUntilDone({ headers: otherHeaders })
  },

  /** Both workers are killed during a provider call; the client pays again. */
  lost_worker: async (bench) => {
    const { sandbox, open, newPayer, signal, loseLease } = bench
    const call = open('chat', await newPayer())
    await sandbox.setFaults([{ fault: 'hang' }])
    const done = call.payUntilDone()
    await untilCalled(bench)
    for (const name of ['worker', 'worker-2'] as const) {
      signal(name, 'SIGKILL')
      await sandbox.restart(name)
    }
    await loseLease()
    await done
  },

  /** A worker is paused after its provider call, its job fails and is paid again, and then the worker resumes. */
  paused_worker: async ({ open, newPayer, points, untilHit, resume, loseLease }) => {
    const call = open('chat', await newPayer())
    points.arm('worker.provider.after', 'stop')
    const done = call.payUntilDone()
    const paused = await untilHit('worker.provider.after')
    points.arm('worker.provider.after', 'stop')
    await loseLease()
    const other = await untilHit('worker.provider.after')
    points.arm('worker.sealResult.after', 'pass')
    resume(paused)
    await untilHit('worker.sealResult.after')
    points.arm('worker.sealResult.after', 'pass')
    resume(other)
    await untilHit('worker.sealResult.after')
    // If the first worker's write was not fenced off, neither of the two goes on: the sweeper finds the job.
    await loseLease()
    await done
  },

  /** No block is mined while the settlement is pending. */
  no_blocks: async ({ sandbox, open, newPayer, points, untilHit }) => {
    const call = open('chat', await newPayer())
    const required = await call.challenge()
    const headers = await call.sign(required)
    await callRpc(sandbox.info.rpcUrl, 'evm_setAutomine', [false])
    const untilPolledTwice = async () => {
      for (const _ of ['first poll', 'second poll']) {
        points.arm('worker.settler.confirm.after', 'pass')
        await untilHit('worker.settler.confirm.after')
      }
    }
    const polling = untilPolledTwice()
    const done = call.payUntilDone({ headers })
    await Promise.race([done, polling])
    await callRpc(sandbox.info.rpcUrl, 'evm_setAutomine', [true])
    await callRpc(sandbox.info.rpcUrl, 'evm_mine', [])
    await done
  },

  /** PostgreSQL fails the first transaction that stores a signed settlement. */
  ledger_fails_while_signing: (bench) => failWhileSigning(bench),
  ledger_fails_while_signing_directly: (bench) => failWhileSigning(bench),

  /**
   * Two payments of one payer, with equal charges, share a batch with another payer's; the payer burns the nonce of one
   * of them in the block of the batch.
   */
  batch_fails_in_part: async (bench) => {
    const { sandbox, newPayer } = bench
    const [payer, other] = [await newPayer(), await newPayer()]
    await inOneBatch(bench, [payer, payer, other], async (payments) => {
      const burned = payments.find((payment) => payment.payer === payer.address)
      if (burned) await sendUrgently(sandbox.info.rpcUrl, payer.address, payerCalls.invalidateNonce(burned.nonce))
    })
  },

  /** The key is taken off the contract's list before a batch is mined, and listed again. */
  batch_reverts: async (bench) => {
    await inOneBatch(bench, [await bench.newPayer(), await bench.newPayer()], async () => {
      await unlistForOneBlock(bench)
    })
  },

  /**
   * A batch reverts as a whole, and its payments are settled by another one; then a reorganization brings back the time
   * before, and the first batch is mined after all.
   */
  old_batch_is_mined_after_all: async (bench) => {
    const { sandbox, until } = bench
    const { rpcUrl } = sandbox.info
    const blockNumber = async () => Number(await callRpc<string>(rpcUrl, 'eth_blockNumber', []))
    let before = 0
    await inOneBatch(bench, [await bench.newPayer(), await bench.newPayer()], async () => {
      before = await blockNumber()
      await unlistForOneBlock(bench)
    })
    const signed = await sandbox.sql<{ raw: string }>(
      `SELECT DISTINCT ON (account_nonce) raw_transaction AS raw FROM settlement_transactions
       ORDER BY account_nonce, signed_at`,
    )
    await setMining(rpcUrl, false)
    bench.reorganizedAt.push(Date.now())
    await reorganize(rpcUrl, (await blockNumber()) - before)
    for (const { raw } of signed) await callRpc(rpcUrl, 'eth_sendRawTransaction', [raw]).catch(() => undefined)
    await mine(rpcUrl, 1)
    await setMining(rpcUrl, true)
    // The service finds out.
    await until(
      async () =>
        (
          await sandbox.sql(
            "SELECT 1 FROM settlements WHERE batch_id IS NOT NULL AND state = 'confirmed' AND transaction_hash IN (SELECT hash FROM settlement_transactions WHERE batch_id = ANY(earlier_batches))",
          )
        ).length >= 2,
    )
    // A call whose block was taken back stays completed until the service looks again.
    await until(async () => (await sandbox.chain.transfersTo(sandbox.info.payTo)).length >= 3)
  },

  /**
   * A reorganization removes the settlement of a released result, and its transaction reverts afterwards. One worker
   * pauses after it has read the settlement, the other one signs it again, and then the first one judges it.
   */
  removed_settlement_read_before: async (bench) => {
    const { sandbox, open, newPayer, points, untilHit, until, resume, reorganizedAt } = bench
    const { rpcUrl } = sandbox.info
    await open('chat', await newPayer()).payUntilDone()
    const [signed] = await sandbox.sql<{ raw: string }>('SELECT raw_transaction AS raw FROM settlement_transactions')
    await setMining(rpcUrl, false)
    reorganizedAt.push(Date.now())
    await reorganize(rpcUrl, 1)
    points.arm('worker.readRemoved.after', 'stop')
    await callRpc(rpcUrl, 'eth_sendRawTransaction', [signed?.raw]).catch(() => undefined)
    await unlistForOneBlock(bench)
    await setMining(rpcUrl, true)
    const paused = await untilHit('worker.readRemoved.after')
    await until(async () => {
      const [newest] = await sandbox.sql<{ hash: Hex }>(
        `SELECT hash FROM settlement_transactions JOIN settlements USING (batch_id) WHERE earlier_batches IS NOT NULL`,
      )
      return newest !== undefined && (await callRpc(rpcUrl, 'eth_getTransactionReceipt', [newest.hash])) !== null
    })
    points.arm('worker.loseSettlement.after', 'pass')
    resume(paused)
    await untilHit('worker.loseSettlement.after')
    // The ledger follows the chain at one of the next polls.
    await until(
      async () =>
        (
          await sandbox.sql(
            "SELECT 1 FROM settlements JOIN settlement_transactions AS signed USING (batch_id) WHERE state = 'lost' OR transaction_hash = hash",
          )
        ).length > 0,
    )
  },

  /** A stranger signs for a request under a key that another payer has paid for. */
  stranger: async ({ open, newPayer }) => {
    const call = open('chat', await newPayer())
    await call.payUntilDone()
    await open('chat', await newPayer(), call).payUntilDone()
  },

  /** The payer transfers all USDC away after the payment was accepted and before a worker takes the job. */
  funds_moved: async ({ sandbox, open, newPayer, signal, until }) => {
    const payer = await newPayer()
    const call = open('chat', payer)
    const headers = await call.sign(await call.challenge())
    for (const name of ['worker', 'worker-2'] as const) signal(name, 'SIGSTOP')
    const done = call.payUntilDone({ headers, signatures: 1 })
    await until(async () => (await sandbox.sql('SELECT 1 FROM jobs')).length > 0)
    await payer.spend(PAYER_FUNDS_ATOMIC)
    // The workers were stopped until now, so none can have checked the payment before.
    call.record.unpayableSince = 0
    for (const name of ['worker', 'worker-2'] as const) signal(name, 'SIGCONT')
    await done
    // An honest payer is still served.
    await open('chat', await newPayer()).payUntilDone()
  },

  /** The provider resets the connection after it began to work. */
  ambiguous_failure: async ({ sandbox, open, newPayer }) => {
    const call = open('chat', await newPayer())
    await sandbox.setFaults([{ fault: 'resetAfterRead' }])
    const headers = await call.sign(await call.challenge())
    await call.send(headers)
    // The same signature again buys nothing.
    await call.send(headers)
    await call.payUntilDone()
  },
} satisfies Record<string, (bench: Bench) => Promise<void>>

export type ScenarioName = keyof typeof scenarios

async function failWhileSigning({ sandbox, open, newPayer, until, loseLease }: Bench): Promise<void> {
  // A sequence is not rolled back with the transaction.
  await sandbox.sql('CREATE SEQUENCE failures')
  await sandbox.sql(`CREATE FUNCTION fail_once() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
    BEGIN
      IF nextval('failures') = 1 THEN RAISE EXCEPTION 'simulated failure'; END IF;
      RETURN NEW;
    END $$`)
  await sandbox.sql(`CREATE TRIGGER fails_once BEFORE INSERT ON settlement_transactions
    FOR EACH ROW EXECUTE FUNCTION fail_once()`)
  const done = open('chat', await newPayer()).payUntilDone()
  await until(async () => (await sandbox.sql('SELECT 1 FROM failures WHERE is_called')).length > 0)
  await loseLease()
  await done
}

/**
 * Settles one call of each payer in one batch, which `beforeMined` sees before it is mined. Another call's batch is held
 * up in the ledger meanwhile, so that they gather behind it.
 */
async function inOneBatch(
  { sandbox, open, newPayer, signal, until }: Bench,
  payers: readonly Payer[],
  beforeMined: (payments: readonly CalledPayment[]) => Promise<void>,
): Promise<void> {
  const { rpcUrl, settlementContract } = sandbox.info
  if (!settlementContract) throw new Error('the sandbox has no settlement contract')
  // One process gathers all of them.
  signal('worker-2', 'SIGSTOP')
  await sandbox.sql('CREATE SEQUENCE batches_stored')
  await sandbox.sql('CREATE TABLE may_store (yes boolean)')
  await sandbox.sql(`CREATE FUNCTION hold_first() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
    BEGIN
      IF nextval('batches_stored') = 1 THEN
        WHILE NOT EXISTS (SELECT 1 FROM may_store) LOOP PERFORM pg_sleep(0.02); END LOOP;
      END IF;
      RETURN NEW;
    END $$`)
  await sandbox.sql(
    `CREATE TRIGGER held BEFORE INSERT ON settlement_batches FOR EACH ROW EXECUTE FUNCTION hold_first()`,
  )
  const held = open('chat', await newPayer()).payUntilDone()
  await until(async () => (await sandbox.sql('SELECT 1 FROM batches_stored WHERE is_called')).length > 0)
  const done = payers.map((payer) => open('chat', payer).payUntilDone({ signatures: 1 }))
  await until(
    async () => (await sandbox.sql("SELECT 1 FROM jobs WHERE state = 'generated'")).length === payers.length + 1,
  )
  // They are prepared within this time.
  await delay(500)
  await setMining(rpcUrl, false)
  await sandbox.sql('INSERT INTO may_store VALUES (true)')
  let payments: readonly CalledPayment[] = []
  await until(async () => {
    payments = (await readPendingBatches(rpcUrl, settlementContract)).flatMap((batch) => batch.payments)
    return payments.length > payers.length
  })
  await beforeMined(payments)
  await setMining(rpcUrl, true)
  await Promise.all([held, ...done])
  signal('worker-2', 'SIGCONT')
}

/** Takes the keys off the contract's list before what waits is mined, and lists them again. */
async function unlistForOneBlock({ sandbox }: Bench): Promise<void> {
  const { rpcUrl, settlementContract, payTo, settlementAddresses } = sandbox.info
  if (!settlementContract) return
  const listed = { rpcUrl, contract: settlementContract, owner: payTo, keys: settlementAddresses }
  await listKeys(listed, false)
  await mine(rpcUrl, 1)
  await listKeys(listed, true)
}

/** Waits until the provider has begun to work. */
async function untilCalled({ sandbox, until }: Bench): Promise<void> {
  await until(async () => (await sandbox.upstreamCalls()).some(({ started }) => started))
}

type SignedCall = readonly [BenchCall, Record<string, string>]

/**
 * Lets requests of two APIs meet in the ledger: one is about to commit when the other gets as far, or waits for its
 * lock.
 */
async function sendAtOnce({ sandbox, points, until, untilHit, resume }: Bench, ...signed: readonly SignedCall[]) {
  points.arm(ACCEPTANCE, 'stop')
  const sent = signed.map(([call, headers], api) => call.send(headers, api))
  const first = await untilHit(ACCEPTANCE)
  points.arm(ACCEPTANCE, 'stop')
  const isWaiting = async () =>
    (await sandbox.sql("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query ~ $1", [ACCEPTING]))
      .length > 0
  await until(async () => points.hitBy(ACCEPTANCE) !== null || (await isWaiting()))
  const second = points.disarm(ACCEPTANCE) ? null : points.hitBy(ACCEPTANCE)
  resume(first)
  resume(second)
  await Promise.all(sent)
}
