import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { settleRemotely } from '../../support/chain/remote-settling.ts'
import { startSdkFacilitator } from '../../support/chain/sdk-facilitator.ts'
import {
  age,
  BOTH_WAYS,
  createSettlementChain,
  LATE_SECONDS,
  type SettlementChain,
} from '../../support/chain/settlement-chain.ts'
import { sentAgain } from '../../support/ledger/new-test-job.ts'
import { signAuthorization } from '../../support/payer/sign-authorization.ts'
import { startTestWorker, type TestWorker } from '../../support/processes/test-worker.ts'
import { until } from '../../support/until.ts'

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
  /** As many of the newest blocks with settlements are compared with the chain. */
  const COMPARED_BLOCKS = 8

  /** Runs a job to its end. A busy anvil shows a receipt before its block is the last one, which tests roll back. */
  async function completedJob() {
    const { client } = worker.devnet
    const accepted = await chain.accept()
    await worker.run(accepted.jobId, chain.chain)
    const [hash] = await chain.hashes(accepted.jobId)
    const { blockHash } = await client.getTransactionReceipt({ hash: hash as `0x${string}` })
    await until(async () => (await client.getBlock()).hash === blockHash)
    return accepted
  }

  async function settlementOf(jobId: string) {
    const [row] = await worker.ledger.sql<{
      state: string
      is_final: boolean
      block_number: number
      block_hash: string
      failure_reason: string | null
    }>(
      `SELECT state, finalized_at IS NOT NULL AS is_final, block_number::int, block_hash, failure_reason
     FROM settlements WHERE job_id = $1`,
      [jobId],
    )
    if (!row) throw new Error('no settlement')
    return row
  }

  async function outcomeOf(jobId: string) {
    const outcome = (await worker.ledger.acceptance.readOutcomes([jobId])).get(jobId)
    if (outcome instanceof Error || outcome?.state !== 'completed') throw new Error(`${jobId} is not completed`)
    return outcome
  }

  async function transfersFrom(payer: { address: string }): Promise<number> {
    const transfers = await worker.devnet.transfersTo(worker.devnet.accounts.recipient.address)
    return transfers.filter(({ from }) => from.toLowerCase() === payer.address).length
  }

  describe('a confirmed settlement', () => {
    it('a confirmed settlement becomes final when its block does', async () => {
      const { jobId } = await completedJob()
      const { blockNumber } = await worker.devnet.client.getTransactionReceipt({
        hash: (await chain.hashes(jobId))[0] as `0x${string}`,
      })
      await chain.watch()
      expect(await settlementOf(jobId)).toMatchObject({
        state: 'confirmed',
        is_final: false,
        block_number: Number(blockNumber),
      })
      await chain.rpc('anvil_mine', FINAL_AFTER_BLOCKS)
      expect(await chain.watch()).toBeGreaterThan(0)
      expect(await settlementOf(jobId)).toMatchObject({ state: 'confirmed', is_final: true })
    })

    it('the finality watcher makes no RPC call once all settlements are final', async () => {
      await completedJob()
      await chain.rpc('anvil_mine', FINAL_AFTER_BLOCKS)
      await chain.watch()
      const calls = worker.proxy.calls.length
      await chain.watch()
      expect(worker.proxy.calls.length).toBe(calls)
    })

    it('the finality watcher makes one RPC call for each block and one for the final block', async () => {
      for (let number = 0; number < 3; number += 1) await completedJob()
      const calls = worker.proxy.calls.length
      await chain.watch()
      expect(worker.proxy.calls.length - calls).toBe(4)
    })
  })

  describe('a settlement whose block is removed by a reorganization', () => {
    it('a removed settlement is broadcast again and found in its new block, without a change of job or receipt', async () => {
      const { jobId, payer } = await completedJob()
      const [before, job] = [await settlementOf(jobId), await worker.view(jobId)]
      await chain.rpc('anvil_rollback', 1)
      expect(await transfersFrom(payer)).toBe(0)
      await chain.rpc('anvil_mine')
      await chain.watch()
      await expect.poll(() => transfersFrom(payer)).toBe(1)
      await chain.watch()
      const moved = await settlementOf(jobId)
      expect(moved).toMatchObject({ state: 'confirmed', is_final: false, block_number: before.block_number + 1 })
      expect(moved.block_hash).not.toBe(before.block_hash)
      await chain.rpc('anvil_mine', FINAL_AFTER_BLOCKS)
      await chain.watch()
      expect(await settlementOf(jobId)).toMatchObject({ is_final: true })
      expect(await worker.view(jobId)).toEqual(job)
    })

    it.each(['watch', 'keep'] as const)(
      'a removed settlement is broadcast again under the hash of its receipt, although a replacement was signed: by %s',
      async (sweep) => {
        const { jobId, payer } = await completedJob()
        const [hash] = await chain.hashes(jobId)
        if (!hash) throw new Error('nothing was signed')
        await chain.signReplacement(hash)
        await chain.rpc('anvil_rollback', 1)
        await chain.rpc('anvil_mine')
        await chain.keep()
        await age(worker, chain.facilitator, LATE_SECONDS)
        await chain[sweep]()
        await expect.poll(() => transfersFrom(payer)).toBe(1)
        expect(await worker.devnet.client.getTransactionReceipt({ hash })).toMatchObject({ status: 'success' })
      },
    )

    it('the unchanged receipt and the replays of a removed settlement show its current block and transaction', async () => {
      const { jobId } = await completedJob()
      const { receiptId } = await outcomeOf(jobId)
      const issued = await worker.ledger.acceptance.findReceipt(receiptId)
      const [hash] = await chain.hashes(jobId)
      if (!hash || !issued) throw new Error('nothing was settled')
      expect(issued).toMatchObject({ transaction: hash, settlement: { state: 'confirmed', transaction: hash } })
      await chain.signReplacement(hash)
      const [replacement] = await worker.ledger.sql<{ hash: string; raw: string }>(
        'SELECT hash, raw_transaction AS raw FROM settlement_transactions WHERE account_nonce = 0 AND facilitator = $1 AND hash <> $2',
        [chain.facilitator, hash],
      )
      await chain.rpc('anvil_rollback', 1)
      await chain.rpc('eth_sendRawTransaction', replacement?.raw)
      await chain.rpc('anvil_mine')
      await chain.watch()
      const { block_number: blockNumber } = await settlementOf(jobId)
      const moved = { transaction: replacement?.hash, block_number: blockNumber.toString() }
      const current = () => worker.ledger.acceptance.findReceipt(receiptId)
      expect(await current()).toEqual({ ...issued, settlement: { state: 'confirmed', ...moved } })
      expect((await outcomeOf(jobId)).paymentResponse).toMatchObject({ transaction: replacement?.hash })
      await chain.rpc('anvil_mine', FINAL_AFTER_BLOCKS)
      await chain.watch()
      expect(await current()).toEqual({ ...issued, settlement: { state: 'final', ...moved } })
    })

    it('a removed settlement does not become final when another block has its block number', async () => {
      const { jobId, payer } = await completedJob()
      await chain.rpc('anvil_rollback', 1)
      await chain.rpc('anvil_mine', FINAL_AFTER_BLOCKS)
      await chain.watch()
      expect(await settlementOf(jobId)).toMatchObject({ state: 'confirmed', is_final: false })
      await expect.poll(() => transfersFrom(payer)).toBe(1)
      await chain.watch()
      expect(await settlementOf(jobId)).toMatchObject({ state: 'confirmed', is_final: false })
      await chain.rpc('anvil_mine', FINAL_AFTER_BLOCKS)
      await chain.watch()
      expect(await settlementOf(jobId)).toMatchObject({ state: 'confirmed', is_final: true })
    })

    it('a removed settlement is detected when later settlements are in the new branch', async () => {
      const { jobId } = await completedJob()
      await chain.rpc('anvil_reorg', 1, [])
      const later = await worker.accept()
      await worker.run(later.jobId)
      const hash = (await chain.hashes(jobId))[0] as `0x${string}`
      await chain.watch()
      await chain.untilMined(hash)
      await chain.watch()
      const { blockHash } = await worker.devnet.client.getTransactionReceipt({ hash })
      expect(await settlementOf(jobId)).toMatchObject({ state: 'confirmed', block_hash: blockHash })
    })

    it('a removed settlement is looked up until it is in a block, however many settlements come first', async () => {
      const { jobId, payer } = await completedJob()
      await chain.rpc('anvil_rollback', 1)
      await chain.rpc('anvil_mine')
      await chain.watch()
      await expect.poll(() => transfersFrom(payer)).toBe(1)
      for (let number = 0; number < COMPARED_BLOCKS; number += 1) await completedJob()
      await chain.watch()
      const { blockHash } = await worker.devnet.client.getTransactionReceipt({
        hash: (await chain.hashes(jobId))[0] as `0x${string}`,
      })
      expect(await settlementOf(jobId)).toMatchObject({ state: 'confirmed', block_hash: blockHash })
    })

    it('a removed settlement is lost once its deadline has passed by chain time, and the result stays available', async () => {
      const snapshot = await chain.rpc<string>('evm_snapshot')
      const { jobId, payer, request } = await completedJob()
      const job = await worker.view(jobId)
      await chain.rpc('anvil_rollback', 1)
      await chain.rpc('evm_setNextBlockTimestamp', Number(request.authorization.deadline) + 1)
      await chain.rpc('anvil_mine')
      await chain.watch()
      expect(await settlementOf(jobId)).toMatchObject({ state: 'lost', failure_reason: 'the authorization expired' })
      expect(await transfersFrom(payer)).toBe(0)
      expect(await worker.view(jobId)).toEqual({ ...job, settlements: ['lost'] })
      expect((await worker.ledger.acceptance.readOutcomes([jobId])).get(jobId)).toMatchObject({ state: 'completed' })
      await chain.rpc('evm_revert', snapshot)
    })

    it('a removed settlement is lost when the payer moves their money before it is mined again', async () => {
      const { jobId, payer } = await completedJob()
      await chain.rpc('anvil_rollback', 1)
      await payer.spend(1_000_000n)
      await chain.watch()
      await chain.untilMined((await chain.hashes(jobId))[0] as `0x${string}`)
      await chain.watch()
      expect(await settlementOf(jobId)).toMatchObject({
        state: 'lost',
        failure_reason: expect.stringMatching(/^reverted/),
      })
    })

    it('a removed settlement is signed again, once, when its account nonce was used outside the ledger', async () => {
      const { jobId, payer } = await completedJob()
      const [released] = await chain.hashes(jobId)
      const { receiptId } = await outcomeOf(jobId)
      await chain.rpc('anvil_rollback', 1)
      await chain.useNonceElsewhere(0)
      await Promise.all([chain.watch(), chain.watch()])
      await expect.poll(() => transfersFrom(payer)).toBe(1)
      const hashes = await chain.hashes(jobId)
      expect(hashes).toEqual([released, expect.stringMatching(/^0x/)])
      await chain.untilMined(hashes[1] as `0x${string}`)
      await chain.watch()
      expect(await settlementOf(jobId)).toMatchObject({ state: 'confirmed', failure_reason: null })
      expect(await outcomeOf(jobId)).toMatchObject({ receiptId, paymentResponse: { transaction: hashes[1] } })
      await chain.rpc('anvil_mine', FINAL_AFTER_BLOCKS)
      await chain.watch()
      expect(await settlementOf(jobId)).toMatchObject({ is_final: true })
    })

    // Only a contract can refuse a key that it listed before.
    if (throughContract)
      it('a removed settlement that another process signed again is not lost for the transactions that were read before', async () => {
        const { jobId, payer } = await completedJob()
        const { block_hash: blockHash } = await settlementOf(jobId)
        const [released] = await chain.hashes(jobId)
        const [{ raw } = { raw: '' }] = await worker.ledger.sql<{ raw: string }>(
          'SELECT raw_transaction AS raw FROM settlement_transactions WHERE hash = $1',
          [released],
        )
        await chain.rpc('anvil_rollback', 1)
        await chain.listKey(false)
        await chain.rpc('eth_sendRawTransaction', raw)
        await chain.untilMined(released as `0x${string}`)
        await chain.listKey(true)
        await worker.ledger.settlement.removeFromBlocks([blockHash])
        const readBefore = await worker.ledger.settlement.readRemoved(1000)
        await chain.watch()
        await expect.poll(() => transfersFrom(payer)).toBe(1)
        await chain.watch({ settlementStore: { ...worker.ledger.settlement, readRemoved: async () => readBefore } })
        expect(await settlementOf(jobId)).toMatchObject({ state: 'confirmed', failure_reason: null })
        await chain.watch()
        const [, signedAgain] = await chain.hashes(jobId)
        expect(await outcomeOf(jobId)).toMatchObject({ paymentResponse: { transaction: signedAgain } })
      })

    it('a settlement is not changed while the chain is unreachable', async () => {
      const { jobId } = await completedJob()
      await chain.rpc('anvil_rollback', 1)
      await chain.rpc('anvil_mine')
      const { block_hash: blockHash } = await settlementOf(jobId)
      await worker.ledger.settlement.removeFromBlocks([blockHash])
      const before = await worker.ledger.fingerprint()
      worker.proxy.setFault({ kind: 'status', status: 500 }, 'eth_getTransactionReceipt', 'eth_getTransactionCount')
      await chain.watch()
      expect(await worker.ledger.fingerprint()).toBe(before)
      worker.proxy.setFault(null)
      await chain.watch()
      await chain.untilMined((await chain.hashes(jobId))[0] as `0x${string}`)
      await chain.watch()
      expect(await settlementOf(jobId)).toMatchObject({ state: 'confirmed' })
    })
  })
})

describe('finality of charges by a facilitator', () => {
  let worker: TestWorker
  beforeAll(async () => {
    worker = await startTestWorker()
  })

  afterAll(() => worker.stop())

  /** Uses a new facilitator: viem's nonce manager would continue from nonces that a reorganization has freed. */
  async function withFacilitator<T>(work: (settling: ReturnType<typeof settleRemotely>) => Promise<T>): Promise<T> {
    const facilitator = await startSdkFacilitator(worker.devnet.rpcUrl, worker.devnet.accounts.settlement.privateKey)
    try {
      return await work(settleRemotely(worker, facilitator.url))
    } finally {
      await facilitator.stop()
    }
  }
  /** Completes a job and then removes its block from the chain. */
  async function removeFromChain() {
    const accepted = await worker.accept()
    await withFacilitator(async ({ verifier, settlementSteps, watch }) => {
      await worker.run(accepted.jobId, { verifier, settlementSteps })
      expect(await worker.view(accepted.jobId)).toMatchObject({ state: 'completed', settlements: ['confirmed'] })
      expect(await watch()).toBe(0)
    })
    await callRpc(worker.devnet.rpcUrl, 'anvil_rollback', [1])
    expect(await transfersFrom(accepted.payer)).toBe(0)
    return accepted
  }
  async function transfersFrom({ address }: { address: string }): Promise<number> {
    const transfers = await worker.devnet.transfersTo(worker.devnet.accounts.recipient.address)
    return transfers.filter(({ from }) => from.toLowerCase() === address).length
  }
  it('requests a settlement again that a reorganization removed, and finds it in its new block', async () => {
    const { jobId, payer } = await removeFromChain()
    await withFacilitator(async ({ watch }) => {
      expect(await watch()).toBe(0)
      expect(await transfersFrom(payer)).toBe(1)
      expect(await watch()).toBe(1)
      expect(await watch()).toBe(0)
    })
    const [row] = await worker.ledger.sql<{ block_hash: string; block_number: string }>(
      'SELECT block_hash, block_number FROM settlements WHERE job_id = $1',
      [jobId],
    )
    const block = await worker.devnet.client.getBlock({ blockNumber: BigInt(row?.block_number ?? 0) })
    expect(row?.block_hash).toBe(block.hash)
    expect(await worker.view(jobId)).toMatchObject({ state: 'completed', settlements: ['confirmed'] })
  })

  it('does not lose a settlement because a node lags behind the others', async () => {
    const { jobId } = await worker.accept()
    await withFacilitator(async ({ verifier, settlementSteps, watch }) => {
      await worker.run(jobId, { verifier, settlementSteps })
      // The node that answers for blocks and logs does not have the newest block yet; the one that answers for state
      // does.
      worker.proxy.chooseFault(({ method, params }) => {
        if (method === 'eth_getLogs') return { kind: 'forge', answer: { result: [] } }
        return method === 'eth_getBlockByNumber' && params[0] !== 'latest' && params[0] !== 'finalized'
          ? { kind: 'forge', answer: { result: null } }
          : null
      })
      await watch()
      worker.proxy.chooseFault(() => null)
      expect(await watch()).toBe(0)
    })
    expect(await worker.view(jobId)).toMatchObject({ state: 'completed', settlements: ['confirmed'] })
  })

  it('loses a removed settlement whose nonce the payer invalidates, while its job stays completed', async () => {
    const { jobId, payer, request } = await removeFromChain()
    await payer.invalidateNonce(request.authorization.nonce)
    await withFacilitator(async ({ watch }) => {
      expect(await watch()).toBe(1)
      expect(await watch()).toBe(0)
    })
    expect(await worker.view(jobId)).toMatchObject({ state: 'completed', settlements: ['lost'] })
    expect(await transfersFrom(payer)).toBe(0)
  })

  /**
   * A job that failed because its payer invalidated the nonce, in a block that is then removed and settles it after all.
   */
  async function failedAndChargedAfterwards() {
    const accepted = await worker.accept()
    const { jobId, payer, request } = accepted
    await withFacilitator(async ({ verifier, settlementSteps }) => {
      let isInvalidated = false
      const settleCharge: typeof settlementSteps.settleCharge = async (job, context) => {
        if (!isInvalidated) await payer.invalidateNonce(request.authorization.nonce)
        isInvalidated = true
        return await settlementSteps.settleCharge(job, context)
      }
      const steps = { verifier, settlementSteps: { ...settlementSteps, settleCharge } }
      await worker.run(jobId, steps)
      await worker.runNow(jobId, steps)
    })
    expect(await worker.view(jobId)).toMatchObject({ state: 'settlement_failed', settlements: ['reverted'] })
    await callRpc(worker.devnet.rpcUrl, 'anvil_rollback', [1])
    await withFacilitator(({ facilitator }) => facilitator.settle(request.authorization, atomicAmount(5034n)))
    await expect.poll(() => transfersFrom(payer)).toBe(1)
    return accepted
  }
  it('completes a job whose failed settlement charged the payer after a reorganization', async () => {
    const { jobId, payer } = await failedAndChargedAfterwards()
    await withFacilitator(async ({ verifier, settlementSteps, watch }) => {
      expect(await watch()).toBe(1)
      expect(await worker.view(jobId)).toMatchObject({ state: 'settling', settlements: ['signed'] })
      await worker.runNow(jobId, { verifier, settlementSteps })
    })
    expect(await worker.view(jobId)).toMatchObject({ state: 'completed', settlements: ['confirmed'] })
    expect(await transfersFrom(payer)).toBe(1)
  })

  it('charges an earlier authorization that succeeded after a reorganization instead of a fresh one', async () => {
    const { jobId, payer, request } = await failedAndChargedAfterwards()
    const fresh = await signAuthorization(worker.devnet, payer, { gasSponsored: false })
    await payer.approve()
    expect(await worker.ledger.acceptance.acceptPayment(sentAgain(request, { authorization: fresh }))).toMatchObject({
      outcome: 'settles_again',
    })
    await withFacilitator(({ verifier, settlementSteps }) => worker.runNow(jobId, { verifier, settlementSteps }))
    expect(await worker.view(jobId)).toMatchObject({ state: 'completed', settlements: ['confirmed'] })
    expect(await transfersFrom(payer)).toBe(1)
    expect(await worker.devnet.isPermit2NonceUsed(payer.address, fresh.nonce)).toBe(false)
  })

  it('looks up a removed settlement until it is in a block, however many settlements come first', async () => {
    const { jobId, payer } = await removeFromChain()
    await callRpc(worker.devnet.rpcUrl, 'anvil_mine', ['0x2'])
    const { number, hash } = await worker.devnet.client.getBlock()
    // The last test, since these stay. As many in a later block as are read at a time; without jobs of their own.
    await worker.ledger.sql(
      `SET session_replication_role = replica;
       WITH copied AS (
         INSERT INTO authorizations (id, job_id, network, payer, nonce, authorized_maximum, deadline, signed, challenge_token_sha256)
         SELECT gen_random_uuid(), job_id, network, payer, nonce - n, authorized_maximum, deadline, signed, challenge_token_sha256
         FROM authorizations, generate_series(1, 200) AS n WHERE job_id = '${jobId}' RETURNING id)
       INSERT INTO settlements (id, job_id, authorization_id, payer, network, facilitator, charge_amount, state, settled_by,
         recorded_block, transaction_hash, block_number, block_hash, finished_at)
       SELECT gen_random_uuid(), gen_random_uuid(), copied.id, payer, network, facilitator, charge_amount, state, settled_by,
         recorded_block, transaction_hash, ${number}, '${hash}', now()
       FROM settlements, copied WHERE job_id = '${jobId}';
       RESET session_replication_role`,
    )
    await withFacilitator(async ({ watch }) => {
      await watch()
      expect(await transfersFrom(payer)).toBe(1)
      expect(await watch()).toBe(1)
    })
    expect(await worker.view(jobId)).toMatchObject({ state: 'completed', settlements: ['confirmed'] })
  })
})
