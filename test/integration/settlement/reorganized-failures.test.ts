import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { readReviewItems } from '#shared/ledger/reports/items.ts'
import { mintUsdc } from '../../../infra/sandbox/chain/fund-devnet.ts'
import {
  BOTH_WAYS,
  createSettlementChain,
  onceForEach,
  type SettlementChain,
} from '../../support/chain/settlement-chain.ts'
import { sentAgain } from '../../support/ledger/new-test-job.ts'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import { signAuthorization } from '../../support/payer/sign-authorization.ts'
import { type AcceptedJob, startTestWorker, type TestWorker } from '../../support/processes/test-worker.ts'

type Hex = `0x${string}`

describe.each(BOTH_WAYS)('$way', ({ throughContract }) => {
  let worker: TestWorker
  let chain: SettlementChain
  beforeAll(async () => {
    worker = await startTestWorker()
  })
  beforeEach(async () => {
    chain = await createSettlementChain(worker, { throughContract })
  })
  afterAll(() => worker.stop())

  /** Anvil treats blocks this deep as final. */
  const FINAL_AFTER_BLOCKS = '0x46'
  const CHARGE = 5034n
  /** The payer's own transfer and the settlement that reverts after it. */
  const BLOCKS_OF_REVERT = 2

  /** A job whose settlement reverted because its payer moved their money immediately before it. */
  interface RevertedJob extends AcceptedJob {
    readonly raw: Hex
    readonly hash: Hex
  }

  async function revertedJob(): Promise<RevertedJob> {
    const payer = await createPayer(worker.devnet.rpcUrl, { approved: true })
    const accepted = await worker.accept({ payer, signed: { facilitator: chain.signedFor, gasSponsored: false } })
    const { settler } = chain.chain
    await worker.run(accepted.jobId, {
      ...chain.chain,
      settler: {
        ...settler,
        broadcast: onceForEach(async (transaction) => {
          await payer.spendAll()
          return await settler.broadcast(transaction)
        }),
      },
    })
    expect(await worker.view(accepted.jobId)).toMatchObject({
      state: 'settlement_failed',
      failure_reason: expect.stringMatching(/^reverted in block/),
      settlements: ['reverted'],
    })
    const [hash] = await chain.hashes(accepted.jobId)
    const [row] = await worker.ledger.sql<{ raw: Hex }>(
      'SELECT raw_transaction AS raw FROM settlement_transactions WHERE hash = $1',
      [hash],
    )
    if (!row || !hash) throw new Error('nothing was signed')
    return { ...accepted, raw: row.raw, hash }
  }

  /** Replaces the newest blocks by one that has our transactions and not the payer's transfer. */
  async function reorganize(blocks: number, raw: readonly Hex[]): Promise<void> {
    await chain.rpc('anvil_rollback', blocks)
    for (const transaction of raw) await chain.rpc('eth_sendRawTransaction', transaction)
    await chain.rpc('anvil_mine')
  }

  /** Pays again for a withheld result, as its payer is asked to. */
  async function payAgain({ payer, request }: AcceptedJob): Promise<bigint> {
    const authorization = await signAuthorization(worker.devnet, payer, {
      facilitator: chain.signedFor,
      gasSponsored: false,
    })
    const acceptance = await worker.ledger.acceptance.acceptPayment(sentAgain(request, { authorization }))
    expect(acceptance.outcome).toBe('settles_again')
    return authorization.nonce
  }

  async function transfersFrom({ address }: Payer): Promise<readonly bigint[]> {
    const transfers = await worker.devnet.transfersTo(worker.devnet.accounts.recipient.address)
    return transfers.filter(({ from }) => from.toLowerCase() === address).map(({ valueAtomic }) => valueAtomic)
  }

  /** The client's own method would return a cached number. */
  async function blockNumber(): Promise<number> {
    return Number(await chain.rpc<Hex>('eth_blockNumber'))
  }

  async function settlementsOf(jobId: string) {
    return await worker.ledger.sql<{ state: string; is_judged: boolean; is_final: boolean }>(
      `SELECT state, block_hash IS NOT NULL AS is_judged, finalized_at IS NOT NULL AS is_final
     FROM settlements WHERE job_id = $1 ORDER BY signed_at`,
      [jobId],
    )
  }

  async function expectCompletedBy(jobId: string, hash: Hex): Promise<void> {
    expect(await worker.view(jobId)).toMatchObject({ state: 'completed', failure_code: null })
    const outcome = (await worker.ledger.acceptance.readOutcomes([jobId])).get(jobId)
    if (outcome instanceof Error || outcome?.state !== 'completed') throw new Error(`${jobId} is not completed`)
    expect(outcome.paymentResponse).toMatchObject({ transaction: hash, amount: CHARGE.toString() })
    expect(await worker.ledger.acceptance.findReceipt(outcome.receiptId)).toMatchObject({
      transaction: hash,
      charge_atomic: CHARGE.toString(),
      settlement: { state: 'confirmed', transaction: hash },
    })
    expect(await worker.ledger.sql('SELECT 1 FROM jobs WHERE id = $1 AND is_owed', [jobId])).toEqual([])
  }

  describe('a settlement that reverted and succeeds after a reorganization', () => {
    it('completes the job of a settlement that succeeds after a reorganization, and clears its debt', async () => {
      const { jobId, payer, raw, hash } = await revertedJob()
      await reorganize(BLOCKS_OF_REVERT, [raw])
      await chain.watch()
      expect(await worker.view(jobId)).toMatchObject({ state: 'settling', settlements: ['signed'] })
      await worker.runNow(jobId, chain.chain)
      await expectCompletedBy(jobId, hash)
      expect(await transfersFrom(payer)).toEqual([CHARGE])
    })

    it('charges a settlement that succeeds after a reorganization instead of a fresh payment', async () => {
      const job = await revertedJob()
      await reorganize(BLOCKS_OF_REVERT, [job.raw])
      const freshNonce = await payAgain(job)
      await worker.runNow(job.jobId, chain.chain)
      await expectCompletedBy(job.jobId, job.hash)
      expect(await transfersFrom(job.payer)).toEqual([CHARGE])
      expect(await worker.devnet.isPermit2NonceUsed(job.payer.address, freshNonce)).toBe(false)
      await chain.watch()
      expect(await settlementsOf(job.jobId)).toMatchObject([{ state: 'confirmed' }])
    })

    it('charges a settlement that succeeds after a reorganization although the fresh payment cannot be settled', async () => {
      const job = await revertedJob()
      await reorganize(BLOCKS_OF_REVERT, [job.raw])
      await payAgain(job)
      await job.payer.spendAll()
      await worker.runNow(job.jobId, chain.chain)
      await expectCompletedBy(job.jobId, job.hash)
      expect(await transfersFrom(job.payer)).toEqual([CHARGE])
    })

    it('reports a settlement as surplus, in ledger and log, when a fresh payment was charged before the reorganization', async () => {
      const job = await revertedJob()
      await payAgain(job)
      const blocks = await blockNumber()
      await createFunds(job.payer)
      await worker.runNow(job.jobId, chain.chain)
      expect(await worker.view(job.jobId)).toMatchObject({ state: 'completed' })
      const [, second] = await rawsOf(job.jobId)
      const since = (await blockNumber()) - blocks
      await reorganize(BLOCKS_OF_REVERT + since, [job.raw, second as Hex])
      await chain.watch()
      expect((await settlementsOf(job.jobId)).map(({ state }) => state).sort()).toEqual(['confirmed', 'surplus'])
      expect(await transfersFrom(job.payer)).toEqual([CHARGE, CHARGE])
      expect(await worker.view(job.jobId)).toMatchObject({ state: 'completed' })
      expect(worker.logged.filter((line) => line.includes(job.jobId) && line.includes('refund'))).toHaveLength(1)
      expect((await readReviewItems(worker.ledger.pool)).oldest).toContainEqual(
        expect.objectContaining({
          jobId: job.jobId,
          settlementState: 'surplus',
          transaction: job.hash,
          chargeAtomic: CHARGE,
        }),
      )
    })
  })

  describe('a reverted settlement that a reorganization removes from the chain', () => {
    it('defers a fresh payment until the account nonce of the removed settlement is used, and never charges both', async () => {
      const job = await revertedJob()
      await reorganize(BLOCKS_OF_REVERT, [])
      await chain.watch()
      expect(await settlementsOf(job.jobId)).toEqual([{ state: 'reverted', is_judged: false, is_final: false }])
      await payAgain(job)
      await worker.runNow(job.jobId, chain.chain)
      expect(await worker.view(job.jobId)).toMatchObject({ state: 'generated', deferred: true })
      // The nonce queue replaces an abandoned transaction by one that moves nothing.
      await chain.keep()
      await expect.poll(() => chain.count()).toBe(1)
      await worker.runNow(job.jobId, chain.chain)
      expect(await worker.view(job.jobId)).toMatchObject({ state: 'completed' })
      await chain.rpc('eth_sendRawTransaction', job.raw).catch(() => undefined)
      expect(await transfersFrom(job.payer)).toEqual([CHARGE])
      await chain.watch()
      expect(await settlementsOf(job.jobId)).toMatchObject([
        { state: 'reverted', is_judged: true },
        { state: 'confirmed' },
      ])
    })

    it('charges a removed settlement that is mined again before the fresh payment is settled', async () => {
      const job = await revertedJob()
      await reorganize(BLOCKS_OF_REVERT, [])
      await payAgain(job)
      await worker.runNow(job.jobId, chain.chain)
      expect(await worker.view(job.jobId)).toMatchObject({ state: 'generated' })
      await chain.rpc('eth_sendRawTransaction', job.raw)
      await chain.untilMined(job.hash)
      await worker.runNow(job.jobId, chain.chain)
      await expectCompletedBy(job.jobId, job.hash)
      expect(await transfersFrom(job.payer)).toEqual([CHARGE])
    })
  })

  describe('a reverted settlement whose block stays', () => {
    it('finalizes a reverted settlement with its block, and makes no RPC call afterwards', async () => {
      const { jobId } = await revertedJob()
      await chain.watch()
      expect(await settlementsOf(jobId)).toEqual([{ state: 'reverted', is_judged: true, is_final: false }])
      await chain.rpc('anvil_mine', FINAL_AFTER_BLOCKS)
      await chain.watch()
      expect(await settlementsOf(jobId)).toEqual([{ state: 'reverted', is_judged: true, is_final: true }])
      const calls = worker.proxy.calls.length
      await chain.watch()
      expect(worker.proxy.calls.length).toBe(calls)
    })

    it('charges a fresh payment once, after a revert whose block stays', async () => {
      const job = await revertedJob()
      await createFunds(job.payer)
      await payAgain(job)
      await worker.runNow(job.jobId, chain.chain)
      expect(await worker.view(job.jobId)).toMatchObject({ state: 'completed' })
      expect(await transfersFrom(job.payer)).toEqual([CHARGE])
    })

    it('defers a fresh payment while the chain does not show whether it succeeded', async () => {
      const job = await revertedJob()
      await createFunds(job.payer)
      await payAgain(job)
      const { settler } = chain.chain
      const blind = { ...settler, confirm: async () => ({ outcome: 'unreachable', cause: null }) as const }
      await worker.runNow(job.jobId, { ...chain.chain, settler: blind })
      expect(await worker.view(job.jobId)).toMatchObject({ state: 'generated', deferred: true })
      expect(await transfersFrom(job.payer)).toEqual([])
    })
  })

  async function createFunds(payer: Payer): Promise<void> {
    await mintUsdc(worker.devnet.rpcUrl, payer.address, 1_000_000n)
  }

  async function rawsOf(jobId: string): Promise<readonly Hex[]> {
    const rows = await worker.ledger.sql<{ raw: Hex }>(
      `SELECT raw_transaction AS raw FROM settlement_transactions AS signed
       JOIN settlements ON settlements.id = settlement_id OR signed.batch_id = settlements.batch_id
       WHERE job_id = $1 ORDER BY signed.signed_at`,
      [jobId],
    )
    return rows.map(({ raw }) => raw)
  }
})
