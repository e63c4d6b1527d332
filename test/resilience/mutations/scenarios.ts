import { parseAbi } from 'viem'
import { DEVNET_ADDRESSES } from '../../../infra/sandbox/devnet.ts'
import { callRpc } from '../../../infra/sandbox/json-rpc.ts'
import { secondsFromNow, walletOf } from '../../support/payer/custom-payment.ts'
import type { Bench, BenchCall } from './bench.ts'

const ACCEPTANCE = 'api.acceptJob.commit.before'
/** The statements that wait for another acceptance. */
const ACCEPTING = 'FROM idempotency_keys|INTO authorizations'
/** One of the sweeps; all of them begin their rounds together. */
const A_SWEEP = 'worker.eraseExpiredUploads.after'
/** Of two workers, until each sweep of one has had its turn. */
const SWEEPS = 4

/** What happens to a service whose defence is missing, and to one that has them all. Each ends with its calls at their end. */
export const scenarios = {
  /** One call with an upload, one of text, one with media; nothing goes wrong. */
  plain_calls: async ({ open, newPayer, points, untilHit }) => {
    const payer = await newPayer()
    for (const kind of ['transcription', 'chat', 'image'] as const) await open(kind, payer).payUntilDone()
    for (let round = 0; round < SWEEPS; round++) {
      points.arm(A_SWEEP, 'pass')
      await untilHit(A_SWEEP)
    }
  },

  /** One signature is sent at once for two requests with keys of their own. */
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

  /** Both workers end during a call of the provider; the client pays again. */
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

  /** A worker stands still after its call, its job is failed and paid for again, and then it goes on. */
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
    resume(other)
    await done
  },

  /** No block is mined while the settlement waits. */
  no_blocks: async ({ sandbox, open, newPayer, points, untilHit }) => {
    const call = open('chat', await newPayer())
    const required = await call.challenge()
    const headers = await call.sign(required)
    await callRpc(sandbox.info.rpcUrl, 'evm_setAutomine', [false])
    const looked = async () => {
      for (const _ of ['took for no proof what it did not find', 'and so looked again']) {
        points.arm('worker.settler.confirm.after', 'pass')
        await untilHit('worker.settler.confirm.after')
      }
    }
    const looking = looked()
    const done = call.payUntilDone({ headers })
    await Promise.race([done, looking])
    await callRpc(sandbox.info.rpcUrl, 'evm_setAutomine', [true])
    await callRpc(sandbox.info.rpcUrl, 'evm_mine', [])
    await done
  },

  /** The first transaction that stores a signed settlement is lost by PostgreSQL. */
  ledger_fails_while_signing: async ({ sandbox, open, newPayer, until, loseLease }) => {
    // A sequence forgets nothing when the transaction is undone.
    await sandbox.sql('CREATE SEQUENCE failures')
    await sandbox.sql(`CREATE FUNCTION fail_once() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        IF nextval('failures') = 1 THEN RAISE EXCEPTION 'the ledger is lost'; END IF;
        RETURN NEW;
      END $$`)
    await sandbox.sql(`CREATE TRIGGER fails_once BEFORE INSERT ON settlement_transactions
      FOR EACH ROW EXECUTE FUNCTION fail_once()`)
    const done = open('chat', await newPayer()).payUntilDone()
    await until(async () => (await sandbox.sql('SELECT 1 FROM failures WHERE is_called')).length > 0)
    await loseLease()
    await done
  },

  /** A stranger signs for a request under a key that somebody else has paid for. */
  stranger: async ({ open, newPayer }) => {
    const call = open('chat', await newPayer())
    await call.payUntilDone()
    await open('chat', await newPayer(), call).payUntilDone()
  },

  /** The payer moves everything away after the payment was accepted and before a worker takes the job. */
  funds_moved: async ({ sandbox, open, newPayer, signal, until }) => {
    const payer = await newPayer()
    const call = open('chat', payer)
    const headers = await call.sign(await call.challenge())
    for (const name of ['worker', 'worker-2'] as const) signal(name, 'SIGSTOP')
    const done = call.payUntilDone({ headers, signatures: 1 })
    await until(async () => (await sandbox.sql('SELECT 1 FROM jobs')).length > 0)
    const wallet = await walletOf(payer)
    await wallet.writeContract({
      address: DEVNET_ADDRESSES.usdc,
      abi: parseAbi(['function transfer(address to, uint256 value) returns (bool)']),
      functionName: 'transfer',
      args: ['0x000000000000000000000000000000000000dEaD', 10_000_000n],
    })
    // No worker was awake before, so none can have looked earlier and be under way.
    call.record.unpayableSince = 0
    for (const name of ['worker', 'worker-2'] as const) signal(name, 'SIGCONT')
    await done
    // An honest payer is served meanwhile as ever.
    await open('chat', await newPayer()).payUntilDone()
  },

  /** The provider resets the connection after it began to work. */
  ambiguous_failure: async ({ sandbox, open, newPayer }) => {
    const call = open('chat', await newPayer())
    await sandbox.setFaults([{ fault: 'resetAfterRead' }])
    const headers = await call.sign(await call.challenge())
    await call.send(headers)
    // The same signature once more buys nothing.
    await call.send(headers)
    await call.payUntilDone()
  },
} satisfies Record<string, (bench: Bench) => Promise<void>>

export type ScenarioName = keyof typeof scenarios

/** The provider has begun to work. */
async function untilCalled({ sandbox, until }: Bench): Promise<void> {
  await until(async () => (await sandbox.upstreamCalls()).some(({ started }) => started))
}

type SignedCall = readonly [BenchCall, Record<string, string>]

/** Two requests of two APIs meet in the ledger: one is about to be accepted when the other gets as far, or waits for it. */
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
