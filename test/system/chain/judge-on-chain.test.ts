import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import {
  BOTH_WAYS,
  createSettlementChain,
  onceForEach,
  type SettlementChain,
  stopChainWatch,
} from '../../support/chain/settlement-chain.ts'
import { hostMedia } from '../../support/ledger/host-media.ts'
import { startTestWorker, type TestWorker } from '../../support/processes/test-worker.ts'

/** Reports the transaction as sent and drops it. */
async function lost(): ReturnType<SettlementChain['chain']['settler']['broadcast']> {
  return { outcome: 'sent', wasKnown: false }
}

describe.each(BOTH_WAYS)('$way', ({ throughContract }) => {
  let worker: TestWorker
  let chain: SettlementChain
  const advanceTime = stopChainWatch()
  beforeAll(async () => {
    worker = await startTestWorker()
  })
  beforeEach(async () => {
    chain = await createSettlementChain(worker, { throughContract })
  })
  afterAll(() => worker.stop())

  type Settler = SettlementChain['chain']['settler']
  type Broadcast = Settler['broadcast']

  /** The block that a lying node names. */
  const EVIDENCE = {
    outcome: 'read',
    blockNumber: 1n,
    blockHash: '0x01',
    isNonceUsed: false,
    chainTime: new Date(0),
  } as const

  /** How long one poll takes by the worker's clock. It watches for 20 seconds and reads evidence after 5. */
  const POLL_MS = 2000

  /**
   * Runs a job and calls `instead` in place of its first broadcast. Time passes at each poll until something else is
   * sent.
   */
  function runWith(jobId: string, instead: (send: Broadcast, ...sent: Parameters<Broadcast>) => ReturnType<Broadcast>) {
    const { settler } = chain.chain
    const sent = new Set<string>()
    const broadcast = onceForEach(async (transaction) => {
      const isFirst = sent.size === 0
      sent.add(transaction.hash)
      return await (isFirst
        ? instead((again) => settler.broadcast(again), transaction)
        : settler.broadcast(transaction))
    })
    const confirm: Settler['confirm'] = async (...checked) => {
      if (sent.size === 1) advanceTime(POLL_MS)
      return await settler.confirm(...checked)
    }
    return worker.run(jobId, { ...chain.chain, settler: { ...settler, broadcast, confirm } })
  }

  /** Creates a settler whose broadcasts are mined but appear pending while `isHidden`. Time passes at each poll. */
  function hiding(isHidden: () => boolean): Settler {
    const { settler } = chain.chain
    return {
      ...settler,
      broadcast: async (transaction) => {
        const answer = await settler.broadcast(transaction)
        await chain.untilMined(transaction.hash)
        return answer
      },
      confirm: async (...checked) => {
        if (!isHidden()) return await settler.confirm(...checked)
        advanceTime(POLL_MS)
        return { outcome: 'pending' }
      },
    }
  }

  async function transfersFrom(payer: { address: string }): Promise<bigint[]> {
    const transfers = await worker.devnet.transfersTo(worker.devnet.accounts.recipient.address)
    return transfers.filter(({ from }) => from.toLowerCase() === payer.address).map(({ valueAtomic }) => valueAtomic)
  }

  describe('a settlement whose account nonce was used elsewhere', () => {
    it('a settlement whose account nonce was used elsewhere is signed again with the next one and charged once', async () => {
      const { jobId, payer } = await chain.accept()
      await runWith(jobId, async (send, transaction) => {
        await chain.useNonceElsewhere(0)
        return await send(transaction)
      })
      expect(await worker.view(jobId)).toMatchObject({ state: 'completed', settlements: ['confirmed'] })
      expect(await transfersFrom(payer)).toEqual([5034n])
      const rows = await worker.ledger.sql(
        `SELECT signed.account_nonce::int, signed.hash = settlements.transaction_hash AS settled, settlements.account_nonce::int AS present
       FROM settlement_transactions AS signed JOIN settlements ON settlements.id = settlement_id
         OR signed.batch_id = settlements.batch_id OR signed.batch_id = ANY(earlier_batches)
       WHERE job_id = $1 ORDER BY signed.account_nonce`,
        [jobId],
      )
      expect(rows).toEqual([
        { account_nonce: 0, settled: false, present: 1 },
        { account_nonce: 1, settled: true, present: 1 },
      ])
    })

    it('a settlement fails when its account nonce was used elsewhere and the payer has moved their money', async () => {
      const { jobId, payer } = await chain.accept()
      await runWith(jobId, async (send, transaction) => {
        await chain.useNonceElsewhere(0)
        await payer.spend(1_000_000n)
        return await send(transaction)
      })
      expect(await worker.view(jobId)).toMatchObject({
        state: 'settlement_failed',
        failure_reason: 'insufficient_funds',
        settlements: ['reverted'],
      })
      expect(await transfersFrom(payer)).toEqual([])
    })

    it('a settlement is not signed again once the hosted media of its result have expired', async () => {
      const { jobId, payer } = await chain.accept()
      await runWith(jobId, async (send, transaction) => {
        await chain.useNonceElsewhere(0)
        await hostMedia(worker.ledger, jobId, 10)
        await worker.ledger.sql('UPDATE jobs SET fence = fence + 1, lease_expires_at = NULL WHERE id = $1', [jobId])
        return await send(transaction)
      })
      const { settler } = chain.chain
      const confirm: Settler['confirm'] = async (...checked) => {
        advanceTime(POLL_MS)
        return await settler.confirm(...checked)
      }
      await worker.runNow(jobId, { ...chain.chain, settler: { ...settler, confirm } })
      expect(await worker.view(jobId)).toMatchObject({ state: 'settlement_failed', settlements: ['reverted'] })
      expect(await worker.ledger.sql('SELECT is_owed FROM jobs WHERE id = $1', [jobId])).toEqual([{ is_owed: false }])
      expect(await transfersFrom(payer)).toEqual([])
    })

    it('a settlement is not signed again by a worker that has lost its lease', async () => {
      const { jobId } = await chain.accept()
      await runWith(jobId, async (send, transaction) => {
        await chain.useNonceElsewhere(0)
        await worker.ledger.sql(
          "UPDATE jobs SET fence = fence + 1, lease_expires_at = now() + interval '1 minute' WHERE id = $1",
          [jobId],
        )
        return await send(transaction)
      })
      expect(await worker.view(jobId)).toMatchObject({ state: 'settling', settlements: ['signed'] })
      expect(await chain.hashes(jobId)).toHaveLength(1)
    })

    it('a settlement is never signed again while a node hides its receipt, and ends in review', async () => {
      const { jobId, payer } = await chain.accept()
      await worker.run(jobId, { ...chain.chain, settler: hiding(() => true) })
      expect(await worker.view(jobId)).toMatchObject({ state: 'review', settlements: ['unproven'] })
      expect(await chain.hashes(jobId)).toHaveLength(1)
      expect(await transfersFrom(payer)).toEqual([5034n])
    })

    it('a settlement completes after a node has hidden its receipt for a while', async () => {
      const { jobId, payer } = await chain.accept()
      let evidenceReads = 0
      // Until after the first evidence, which shows that the nonces are used.
      const settler = hiding(() => evidenceReads < 2)
      const readEvidence: Settler['readEvidence'] = async (...read) => {
        evidenceReads += 1
        return await settler.readEvidence(...read)
      }
      await worker.run(jobId, { ...chain.chain, settler: { ...settler, readEvidence } })
      expect(evidenceReads).toBe(2)
      expect(await worker.view(jobId)).toMatchObject({ state: 'completed', settlements: ['confirmed'] })
      expect(await transfersFrom(payer)).toEqual([5034n])
    })

    it('a settlement is signed twice and paid once when a node falsely reports its account nonce as used elsewhere', async () => {
      const { jobId, payer } = await chain.accept()
      const { settler } = chain.chain
      const lie = { ...EVIDENCE, accountNonceCounts: new Map([[chain.facilitator, 1n]]) } as const
      let lies = 1
      const isLying = () => lies-- > 0
      await chain.rpc('evm_setAutomine', false)
      const running = worker.run(jobId, {
        ...chain.chain,
        settler: {
          ...settler,
          broadcast: async (transaction) => {
            await settler.broadcast(transaction)
            return { outcome: 'account_nonce_used' }
          },
          confirm: async (...checked) => {
            if (lies > 0) advanceTime(POLL_MS)
            return await settler.confirm(...checked)
          },
          readEvidence: async (...read) => (isLying() ? lie : await settler.readEvidence(...read)),
        },
      })
      await expect.poll(() => chain.hashes(jobId)).toHaveLength(2)
      await chain.rpc('evm_setAutomine', true)
      await chain.rpc('anvil_mine')
      await running
      expect(await worker.view(jobId)).toMatchObject({ state: 'completed', settlements: ['confirmed'] })
      expect(await transfersFrom(payer)).toEqual([5034n])
    })
  })

  describe('a mined settlement with unreliable nodes', () => {
    afterEach(() => worker.proxy.chooseFault(() => null))

    it('a settlement neither fails nor is signed again when nodes of another branch answer for the block of the same number', async () => {
      const { jobId, payer } = await chain.accept()
      let evidenceReads = 0
      const isHidden = () => evidenceReads < 2
      // Only a block's hash shows such a node that the request is about another block than its own.
      worker.proxy.chooseFault(({ method, params }) => {
        if (!isHidden()) return null
        if (method === 'eth_getTransactionReceipt') return { kind: 'forge', answer: { result: null } }
        if (method !== 'eth_getTransactionCount' || params[1] === 'latest') return null
        evidenceReads += 1
        return typeof params[1] === 'string'
          ? { kind: 'forge', answer: { result: '0x0' } }
          : { kind: 'error', code: -32_000, message: 'header not found' }
      })
      const { settler } = chain.chain
      await worker.run(jobId, {
        ...chain.chain,
        settler: {
          ...settler,
          broadcast: async (transaction) => {
            await settler.broadcast(transaction)
            await chain.untilMined(transaction.hash)
            return { outcome: 'account_nonce_used' }
          },
          confirm: async (...checked) => {
            if (isHidden()) advanceTime(POLL_MS)
            return await settler.confirm(...checked)
          },
        },
      })
      expect(evidenceReads).toBe(2)
      expect(await worker.view(jobId)).toMatchObject({ state: 'completed', settlements: ['confirmed'] })
      expect(await transfersFrom(payer)).toEqual([5034n])
    })

    it('a settlement is checked again later when nodes report its account nonce as used elsewhere and its payment nonce as used', async () => {
      const { jobId, payer } = await chain.accept()
      const lie = { ...EVIDENCE, accountNonceCounts: new Map([[chain.facilitator, 1n]]) } as const
      let isHidden = true
      const settler = hiding(() => isHidden)
      const lying: Partial<typeof worker.dependencies> = {
        ...chain.chain,
        settler: {
          ...settler,
          broadcast: async (transaction) => {
            await settler.broadcast(transaction)
            return { outcome: 'account_nonce_used' }
          },
          readEvidence: async (...read) => (isHidden ? lie : await settler.readEvidence(...read)),
        },
      }
      await worker.run(jobId, lying)
      expect(await worker.view(jobId)).toMatchObject({ state: 'settling', settlements: ['signed'], deferred: true })
      isHidden = false
      await worker.runNow(jobId, lying)
      expect(await worker.view(jobId)).toMatchObject({ state: 'completed', settlements: ['confirmed'] })
      expect(await transfersFrom(payer)).toEqual([5034n])
      expect(await chain.hashes(jobId)).toHaveLength(1)
    })
  })

  describe('a settlement that was never mined', () => {
    it('a settlement fails once its deadline has passed by chain time without being mined', async () => {
      const id = await chain.rpc<string>('evm_snapshot')
      const { jobId, payer, request } = await chain.accept()
      await runWith(jobId, async () => {
        await chain.rpc('evm_setNextBlockTimestamp', Number(request.authorization.deadline) + 1)
        await chain.rpc('anvil_mine')
        return await lost()
      })
      expect(await worker.view(jobId)).toMatchObject({
        state: 'settlement_failed',
        failure_reason: 'the authorization expired',
        settlements: ['reverted'],
      })
      expect(await transfersFrom(payer)).toEqual([])
      await chain.rpc('evm_revert', id)
    })

    it('a settlement fails when the payer has invalidated the nonce', async () => {
      const { jobId, payer, request } = await chain.accept()
      await runWith(jobId, async () => {
        await payer.invalidateNonce(request.authorization.nonce)
        return await lost()
      })
      expect(await worker.view(jobId)).toMatchObject({
        state: 'settlement_failed',
        failure_reason: 'the payer invalidated the nonce',
      })
      expect(await transfersFrom(payer)).toEqual([])
    })
  })

  it('a job settles when the payer has only the charge left, not the maximum', async () => {
    const { jobId, payer } = await worker.accept({
      signed: { facilitator: chain.signedFor, authorizedMaximum: 1_000_000n },
    })
    await runWith(jobId, async (send, transaction) => {
      await payer.spend(1_000_000n - 5034n)
      const answer = await send(transaction)
      await chain.untilMined(transaction.hash)
      return answer
    })
    expect(await worker.view(jobId)).toMatchObject({ state: 'completed' })
    expect(await worker.devnet.usdcBalance(payer.address)).toBe(0n)
  })
})
