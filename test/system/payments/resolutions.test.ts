import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { mintUsdc } from '../../../infra/sandbox/chain/fund-devnet.ts'
import { findFreePort } from '../../../infra/sandbox/processes/free-port.ts'
import { finalizeBlocks, sendToken } from '../../support/chain/send-usdc.ts'
import { fencedWrites, rereadJob } from '../../support/ledger/job-in-state.ts'
import { openTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'
import { sendChat, signChat } from '../../support/payer/chat-call.ts'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import { havePrograms } from '../../support/processes/optional-program.ts'
import { startPrometheus, type TestPrometheus } from '../../support/processes/prometheus.ts'
import { runCommand } from '../../support/processes/run-program.ts'
import { startTestSandbox, type TestSandbox } from '../../support/processes/test-sandbox.ts'
import { until } from '../../support/until.ts'

const ALERT = 'FareboxPaymentNeedsReview'

describe.skipIf(!havePrograms('prometheus'))('an item that a person ends', () => {
  let sandbox: TestSandbox
  let ledger: TestLedger
  let prometheus: TestPrometheus
  beforeAll(async () => {
    const port = await findFreePort()
    sandbox = await startTestSandbox({
      environmentOf: (name) => (name === 'worker' ? { METRICS_PORT: String(port) } : {}),
      // Nobody settles: the test takes the settler's place, and finds contradicting evidence.
      workerEnvironment: { WORKER_QUEUES: 'text' },
    })
    ledger = openTestLedger({ url: sandbox.info.databaseUrl, drop: async () => undefined }, 4)
    prometheus = await startPrometheus({ worker: port })
  })
  afterAll(async () => {
    await prometheus?.stop()
    await ledger?.close()
    await sandbox?.stop()
  })

  interface Called {
    readonly payer: Payer
    readonly charge: bigint
    readonly itemId: string
    /** Sends the same signed request again. */
    repeat(): ReturnType<typeof sendChat>
    /** Signs the call again under its key, and sends that. */
    signAgain(): ReturnType<typeof sendChat>
  }

  /** Makes a paid call whose job ends in review; its caller is answered so. */
  async function callIntoReview(): Promise<Called> {
    const { baseUrl, rpcUrl } = sandbox.info
    const payer = await createPayer(rpcUrl, { usdcAtomic: 1_000_000n, approved: true })
    const chat = await signChat(baseUrl, payer)
    const answer = sendChat(baseUrl, chat.idempotencyKey, chat.headers)
    const isGenerated = "SELECT id FROM jobs WHERE idempotency_key = $1 AND state = 'generated'"
    const [row] = await until(async () => {
      const rows = await sandbox.sql<{ id: string }>(isGenerated, [chat.idempotencyKey])
      return rows.length > 0 && rows
    })
    const claimed = row && (await until(() => ledger.execution.leaseJob(row.id, 60_000)))
    if (!claimed) throw new Error('the job can be claimed')
    await fencedWrites.recordSettlement.run(ledger, claimed)
    await fencedWrites.markForReview.run(ledger, await rereadJob(ledger, claimed))
    expect(await answer).toMatchObject({ status: 503, code: 'settlement_under_review', payment: 'unknown' })
    const [settled] = await sandbox.sql<{ charge: string }>(
      'SELECT charge_amount AS charge FROM settlements WHERE job_id = $1',
      [claimed.id],
    )
    return {
      payer,
      charge: BigInt(settled?.charge ?? 0),
      itemId: `review:${claimed.id}`,
      repeat: () => sendChat(baseUrl, chat.idempotencyKey, chat.headers),
      signAgain: async () => {
        const again = await signChat(baseUrl, payer, { idempotencyKey: chat.idempotencyKey })
        return await sendChat(baseUrl, again.idempotencyKey, again.headers)
      },
    }
  }

  const run = (command: 'resolve' | 'ledger', ...rest: readonly string[]) =>
    runCommand(`infra/commands/${command}/main.ts`, rest, {
      DATABASE_URL: sandbox.info.databaseUrl,
      RPC_URL: sandbox.info.rpcUrl,
      PAY_TO: sandbox.info.payTo,
    })
  const agreeing = async () => {
    const { exitCode, output, errors } = await run('ledger', '--json')
    expect({ exitCode, errors }).toEqual({ exitCode: 0, errors: '' })
    return JSON.parse(output)
  }
  const fires = () => until(async () => (await prometheus.firing(ALERT)).length > 0)
  const clears = () => until(async () => (await prometheus.firing(ALERT)).length === 0)

  it('leaves the alert, stays in the ledger, and is what its caller is answered with', async () => {
    const { rpcUrl } = sandbox.info
    const first = await callIntoReview()
    await fires()
    expect(await prometheus.firing(ALERT)).toMatchObject([{ labels: { state: 'review', severity: 'critical' } }])
    expect(await agreeing()).toMatchObject({ review: { count: 1 }, resolutions: { newest: [] } })
    const listed = await run('resolve', '--json')
    expect(JSON.parse(listed.output)).toMatchObject({
      items: [
        { id: first.itemId, amount: first.charge.toString(), allowedOutcomes: expect.arrayContaining(['refunded']) },
      ],
    })

    const { payTo } = sandbox.info
    await mintUsdc(rpcUrl, payTo, first.charge)
    const chain = { rpcUrl, client: sandbox.chain.client }
    const transaction = await sendToken(chain, { from: payTo, to: first.payer.address, amount: first.charge })
    const refund = () =>
      run('resolve', first.itemId, 'refunded', '--transaction', transaction, '--reason', 'no result', '--as', 'anna')
    const early = await refund()
    expect([early.exitCode, early.errors]).toEqual([1, expect.stringContaining('not final yet')])
    await finalizeBlocks(chain)
    expect(await refund()).toMatchObject({ exitCode: 0, errors: '' })
    expect(await refund()).toMatchObject({ exitCode: 1, errors: expect.stringMatching(/^anna ended this item at /) })
    await clears()
    expect(await agreeing()).toMatchObject({
      review: { count: 0 },
      resolutions: {
        byOutcome: [{ item: 'review', outcome: 'refunded', count: 1, totalAtomic: first.charge.toString() }],
        newest: [{ operator: 'anna', reason: 'no result', refundTransaction: transaction }],
      },
    })
    for (const answer of [await first.repeat(), await first.signAgain()]) {
      expect(answer).toMatchObject({
        status: 409,
        code: 'payment_refunded',
        payment: 'none',
        retry: 'never',
        charged: 0n,
      })
      expect(answer.body).toContain(transaction)
    }

    const second = await callIntoReview()
    await fires()
    const reServed = await run('resolve', second.itemId, 're_served', '--reason', 'the payer was patient')
    expect(reServed).toMatchObject({ exitCode: 0, errors: '' })
    await clears()
    for (const answer of [await second.repeat(), await second.signAgain()]) {
      expect(answer).toMatchObject({ status: 200, charged: 0n, receiptId: '' })
      expect(answer.response?.headers.get('x-resolution')).toBe('re_served')
      expect(JSON.parse(answer.body)).toMatchObject({ object: 'chat.completion' })
    }
    expect(await agreeing()).toMatchObject({ review: { count: 0 } })
  })
})
