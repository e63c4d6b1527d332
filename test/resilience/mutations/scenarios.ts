import { setTimeout as delay } from 'node:timers/promises'
import { parseAbi } from 'viem'
import { DEVNET_ADDRESSES } from '../../../infra/sandbox/devnet.ts'
import { callRpc } from '../../../infra/sandbox/json-rpc.ts'
import { secondsFromNow, walletOf } from '../../support/custom-payment.ts'
import type { Bench } from './bench.ts'

/** What happens to a service whose defence is missing, and to one that has them all. Each ends with its calls at their end. */
export const scenarios = {
  /** One call with an upload, one of text, one with media; nothing goes wrong. */
  plain_calls: async ({ open, newPayer }) => {
    const payer = await newPayer()
    for (const kind of ['transcription', 'chat', 'image'] as const) await open(kind, payer).payUntilDone()
    // Sweepers have their turn.
    await delay(800)
  },

  /** One signature is sent at once for two requests with keys of their own. */
  one_payment_two_keys: async ({ open, newPayer }) => {
    for (let round = 0; round < 5; round++) {
      const payer = await newPayer()
      const [one, other] = [open('chat', payer), open('chat', payer)]
      const [required, otherRequired] = await Promise.all([one.challenge(), other.challenge()])
      const terms = { nonce: BigInt(round + 1), deadline: secondsFromNow(required.accepts[0]?.maxTimeoutSeconds ?? 0) }
      const [headers, otherHeaders] = await Promise.all([one.sign(required, terms), other.sign(otherRequired, terms)])
      await Promise.all([
        one.payUntilDone({ headers, signatures: 1 }),
        other.payUntilDone({ headers: otherHeaders, signatures: 1 }),
      ])
    }
  },

  /** Two signatures for one request under one key arrive at two APIs at the same moment. */
  simultaneous_duplicates: async ({ open, newPayer }) => {
    for (let round = 0; round < 5; round++) {
      const payer = await newPayer()
      const call = open('chat', payer)
      const required = await call.challenge()
      const both = await Promise.all([call.sign(required), call.sign(required)])
      await Promise.all(both.map((headers, api) => call.send(headers, api)))
      await call.payUntilDone(both[1] && { headers: both[1] })
    }
  },

  /** Both workers end during a call of the provider; the client pays again. */
  lost_worker: async ({ sandbox, open, newPayer, signal }) => {
    const call = open('chat', await newPayer())
    await sandbox.setFaults([{ fault: 'none', delayMs: 2500 }])
    const done = call.payUntilDone()
    await untilCalled(sandbox, 1)
    for (const name of ['worker', 'worker-2'] as const) {
      signal(name, 'SIGKILL')
      await sandbox.restart(name)
    }
    await done
  },

  /** A worker stands still during its call, its job is failed and paid for again, and then it goes on. */
  paused_worker: async ({ sandbox, open, newPayer, signal }) => {
    const call = open('chat', await newPayer())
    signal('worker-2', 'SIGSTOP')
    await sandbox.setFaults([
      { fault: 'none', delayMs: 700 },
      { fault: 'none', delayMs: 2500 },
    ])
    const done = call.payUntilDone()
    await untilCalled(sandbox, 1)
    signal('worker', 'SIGSTOP')
    signal('worker-2', 'SIGCONT')
    await untilCalled(sandbox, 2)
    signal('worker', 'SIGCONT')
    await done
  },

  /** No block is mined while the settlement waits. */
  no_blocks: async ({ sandbox, open, newPayer }) => {
    const call = open('chat', await newPayer())
    const required = await call.challenge()
    const headers = await call.sign(required)
    await callRpc(sandbox.info.rpcUrl, 'evm_setAutomine', [false])
    const done = call.payUntilDone({ headers })
    await delay(2500)
    await callRpc(sandbox.info.rpcUrl, 'evm_setAutomine', [true])
    await callRpc(sandbox.info.rpcUrl, 'evm_mine', [])
    await done
  },

  /** The first transaction that stores a signed settlement is lost by PostgreSQL. */
  ledger_fails_while_signing: async ({ sandbox, open, newPayer }) => {
    // A sequence forgets nothing when the transaction is undone.
    await sandbox.sql('CREATE SEQUENCE failures')
    await sandbox.sql(`CREATE FUNCTION fail_once() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        IF nextval('failures') = 1 THEN RAISE EXCEPTION 'the ledger is lost'; END IF;
        RETURN NEW;
      END $$`)
    await sandbox.sql(`CREATE TRIGGER fails_once BEFORE INSERT ON settlement_transactions
      FOR EACH ROW EXECUTE FUNCTION fail_once()`)
    await open('chat', await newPayer()).payUntilDone()
  },

  /** A stranger signs for a request under a key that somebody else has paid for. */
  stranger: async ({ open, newPayer }) => {
    const call = open('chat', await newPayer())
    await call.payUntilDone()
    await open('chat', await newPayer(), call).payUntilDone()
  },

  /** The payer moves everything away after the payment was accepted and before a worker takes the job. */
  funds_moved: async ({ sandbox, open, newPayer, signal }) => {
    const payer = await newPayer()
    const call = open('chat', payer)
    const headers = await call.sign(await call.challenge())
    for (const name of ['worker', 'worker-2'] as const) signal(name, 'SIGSTOP')
    const done = call.payUntilDone({ headers, signatures: 1 })
    await untilAccepted(sandbox)
    const wallet = await walletOf(payer)
    await wallet.writeContract({
      address: DEVNET_ADDRESSES.usdc,
      abi: parseAbi(['function transfer(address to, uint256 value) returns (bool)']),
      functionName: 'transfer',
      args: ['0x000000000000000000000000000000000000dEaD', 10_000_000n],
    })
    call.record.unpayableSince = Date.now()
    await delay(2200)
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

async function untilCalled(sandbox: Bench['sandbox'], calls: number): Promise<void> {
  await until(async () => (await sandbox.upstreamCalls()).filter(({ started }) => started).length >= calls)
}

async function untilAccepted(sandbox: Bench['sandbox']): Promise<void> {
  await until(async () => (await sandbox.sql('SELECT 1 FROM jobs')).length > 0)
}

/** A mutated service may never get there; the scenario goes on then. */
async function until(isReached: () => Promise<boolean>): Promise<void> {
  const giveUpAt = performance.now() + 8000
  while (performance.now() < giveUpAt && !(await isReached())) await delay(20)
}
