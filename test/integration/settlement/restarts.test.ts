import { concat, encodeFunctionData, parseAbi } from 'viem'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createChainClient } from '#shared/chain/network/client.ts'
import { createSettlementSearch } from '#shared/chain/reading/settlement-search.ts'
import { createSettlementAccounts } from '#shared/chain/settlement/settlement-accounts.ts'
import { settlementCall } from '#shared/chain/verification/settlement-call.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { guardExecutionStore } from '../../../workers/settlement/failure-guard.ts'
import { requireExclusiveKeys } from '../../../workers/settlement/own-keys/require-exclusive-keys.ts'
import { createSettlementChain, type SettlementChain } from '../../support/chain/settlement-chain.ts'
import { called } from '../../support/ledger/job-in-state.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { createPayer, type Payer, unlockPayer } from '../../support/payer/payer.ts'
import { secondsFromNow, signAuthorization } from '../../support/payer/sign-authorization.ts'
import { type AcceptedJob, startTestWorker, type TestWorker } from '../../support/processes/test-worker.ts'

describe('a ledger that was restored from a backup', () => {
  let worker: TestWorker
  beforeAll(async () => {
    worker = await startTestWorker()
  })

  afterAll(() => worker.stop())

  /** Settles an authorization directly, as a transaction that the ledger has lost. */
  async function settle(authorization: Authorization): Promise<`0x${string}`> {
    const { to, data } = settlementCall(authorization, atomicAmount(2000n), { submitsPermit: true })
    const { rpcUrl, client } = worker.devnet
    const { facilitator } = authorization
    await callRpc(rpcUrl, 'anvil_impersonateAccount', [facilitator])
    const hash = await callRpc<`0x${string}`>(rpcUrl, 'eth_sendTransaction', [
      { from: facilitator, to, data, gas: '0x7a120' },
    ])
    expect((await client.waitForTransactionReceipt({ hash })).status).toBe('success')
    return hash
  }
  /** Starts a provider call of a worker that is then lost. */
  async function loseProviderCall(jobId: string): Promise<void> {
    const job = await worker.ledger.execution.leaseJob(jobId, 1)
    if (!job) throw new Error('the job is not due')
    await worker.ledger.execution.startAttempt(job, called('elevenlabs'), null)
    // The first claim of a lost provider call only extends its lease.
    await worker.ledger.sql(
      "UPDATE jobs SET lease_expires_at = now(), orphaned_at = now() - interval '1 minute' WHERE id = $1",
      [jobId],
    )
  }
  /** What a backup may contain of a job that was settled later. */
  const BACKUPS: readonly (readonly [string, (job: AcceptedJob) => Promise<void>])[] = [
    ['accepted', async () => undefined],
    ['generating', ({ jobId }) => loseProviderCall(jobId)],
    [
      'generated',
      ({ jobId }) =>
        worker.run(jobId, { serves: new Set(['transcriptions']), queue: { enqueue: async () => undefined } }),
    ],
  ]
  describe('a job of a backup that was settled after the backup', () => {
    it.each(BACKUPS)('goes from %s to review instead of failing without a charge', async (state, prepare) => {
      const job = await worker.accept()
      await prepare(job)
      expect(await worker.view(job.jobId)).toMatchObject({ state })
      const transaction = await settle(job.request.authorization)
      const calls = worker.upstream.calls.length
      await worker.run(job.jobId)
      expect(await worker.view(job.jobId)).toMatchObject({
        state: 'review',
        failure_reason: `settled in ${transaction}, which this ledger does not know`,
        receipt_id: null,
        leased: false,
        settlements: [],
      })
      expect(worker.upstream.calls).toHaveLength(calls)
      expect(
        await worker.ledger.sql('SELECT transaction_hash, amount FROM unknown_settlements WHERE job_id = $1', [
          job.jobId,
        ]),
      ).toEqual([{ transaction_hash: transaction, amount: '2000' }])
      expect(
        await worker.ledger.sql("SELECT FROM upstream_attempts WHERE job_id = $1 AND state = 'open'", [job.jobId]),
      ).toEqual([])
    })

    it('goes to review while the log index lacks the settlement', async () => {
      const job = await worker.accept()
      await loseProviderCall(job.jobId)
      await settle(job.request.authorization)
      worker.proxy.setFault({ kind: 'forge', answer: { result: [] } }, 'eth_getLogs')
      await worker.run(job.jobId)
      worker.proxy.setFault(null)
      expect(await worker.view(job.jobId)).toMatchObject({
        state: 'review',
        failure_reason: 'the payment is used on chain, and its settlement was not found',
      })
    })

    it('is not recorded by a worker that has lost its lease, since the next one may have settled it', async () => {
      const { jobId, request } = await worker.accept()
      const { execution, settlement: settlementStore } = worker.ledger
      const stale = await execution.leaseJob(jobId, 1)
      await worker.ledger.sql("UPDATE jobs SET lease_expires_at = now() - interval '1 second' WHERE id = $1", [jobId])
      const current = await execution.leaseJob(jobId, 60_000)
      if (!stale || !current) throw new Error('the job is not due')
      await settle(request.authorization)
      const logger = { info: () => undefined, warn: () => undefined, error: () => undefined }
      const guarded = guardExecutionStore(execution, { settlementSearch: search(), settlementStore, logger })
      const failure = { attempt: 'none', code: 'provider_unavailable', reason: 'no deployment' } as const
      expect(await guarded.failJob(stale, failure)).toBe('stale')
      expect(await worker.ledger.sql('SELECT FROM unknown_settlements WHERE job_id = $1', [jobId])).toEqual([])
      expect(await guarded.failJob(current, failure)).toBe('written')
      expect(await worker.ledger.sql('SELECT FROM unknown_settlements WHERE job_id = $1', [jobId])).toHaveLength(1)
    })

    it('goes to review together with the record of what it paid, or not at all', async () => {
      const { jobId, request } = await worker.accept()
      const { execution, settlement: settlementStore } = worker.ledger
      const claimed = await execution.leaseJob(jobId, 60_000)
      if (!claimed) throw new Error('the job is not due')
      await settle(request.authorization)
      const logger = { info: () => undefined, warn: () => undefined, error: () => undefined }
      const guarded = guardExecutionStore(execution, { settlementSearch: search(), settlementStore, logger })
      const failure = { attempt: 'none', code: 'provider_unavailable', reason: 'no deployment' } as const
      await worker.ledger.sql('ALTER TABLE unknown_settlements ADD CONSTRAINT unwritable CHECK (false) NOT VALID')
      await expect(guarded.failJob(claimed, failure)).rejects.toThrow('unwritable')
      await worker.ledger.sql('ALTER TABLE unknown_settlements DROP CONSTRAINT unwritable')
      expect(await worker.view(jobId)).toMatchObject({ state: 'accepted' })
      expect(await guarded.failJob(claimed, failure)).toBe('written')
      expect(await worker.ledger.sql('SELECT FROM unknown_settlements WHERE job_id = $1', [jobId])).toHaveLength(1)
    })

    it('fails without a charge, as any lost provider call, while the chain cannot be read', async () => {
      const { jobId } = await worker.accept()
      await loseProviderCall(jobId)
      worker.proxy.setFault({ kind: 'reset' })
      await worker.run(jobId)
      worker.proxy.setFault(null)
      expect(await worker.view(jobId)).toMatchObject({ state: 'failed', failure_code: 'provider_outcome_unknown' })
    })
  })

  const search = () => createSettlementSearch(createChainClient(worker.devnet.rpcUrl))
  const sign = async (changes: Parameters<typeof signAuthorization>[2] = {}, by?: Payer) =>
    signAuthorization(worker.devnet, by ?? (await createPayer(worker.devnet.rpcUrl)), changes)
  describe('the search for a settlement on chain', () => {
    it.each([
      ['an official client signs', {}],
      ['is valid from the beginning of time and for ever', { validAfter: 0n, deadline: 2n ** 256n - 1n }],
    ])('finds the transaction of a signature that %s', async (_, changes) => {
      const authorization = await sign({ ...changes, permitDeadline: secondsFromNow(900) })
      expect(await search().find(authorization)).toEqual({ outcome: 'unused' })
      const transaction = await settle(authorization)
      expect(await search().find(authorization)).toMatchObject({ outcome: 'settled', transaction, amount: 2000n })
      expect(await search().find(authorization, new Date())).toMatchObject({ outcome: 'settled', transaction })
    })

    it('distinguishes a nonce that its payer invalidated from one that was settled, next to other payments of the same payer', async () => {
      const payer = await createPayer(worker.devnet.rpcUrl, { approved: true })
      const other = await sign({ gasSponsored: true }, payer)
      await settle(other)
      const cancelled = await sign({}, payer)
      await payer.invalidateNonce(cancelled.nonce)
      expect(await search().find(cancelled)).toEqual({ outcome: 'cancelled' })
      expect(await search().find(other)).toMatchObject({ outcome: 'settled' })
    })

    it('takes no other transaction whose data contains signatures for their settlement', async () => {
      const payer = await createPayer(worker.devnet.rpcUrl, { approved: true })
      const [first, second] = [await sign({}, payer), await sign({}, payer)]
      await unlockPayer(payer)
      for (const { nonce } of [first, second]) await payer.invalidateNonce(nonce)
      const transfer = encodeFunctionData({
        abi: parseAbi(['function transfer(address to, uint256 value)']),
        args: [first.payTo, 2000n],
      })
      const data = concat([transfer, first.signature, second.signature])
      const call = { from: payer.address, to: first.asset, data, gas: '0x7a120' }
      const hash = await callRpc<`0x${string}`>(worker.devnet.rpcUrl, 'eth_sendTransaction', [call])
      expect((await worker.devnet.client.waitForTransactionReceipt({ hash })).status).toBe('success')
      for (const authorization of [first, second])
        expect(await search().find(authorization)).toEqual({ outcome: 'cancelled' })
    })

    it('proves no cancellation while the log index lacks what used the nonce', async () => {
      const authorization = await sign({ permitDeadline: secondsFromNow(900) })
      await settle(authorization)
      worker.proxy.setFault({ kind: 'forge', answer: { result: [] } }, 'eth_getLogs')
      const found = await createSettlementSearch(createChainClient(worker.proxy.url)).find(authorization)
      worker.proxy.setFault(null)
      expect(found).toEqual({ outcome: 'unexplained' })
    })

    it('reports a node that cannot be reached', async () => {
      const unreachable = createSettlementSearch(createChainClient('http://127.0.0.1:1'))
      expect(await unreachable.find(await sign())).toMatchObject({ outcome: 'unreachable' })
    })
  })
})

describe('settlement keys of one system only', () => {
  /** The ledger of another deployment. */
  let other: TestLedger
  let worker: TestWorker
  let chain: SettlementChain
  beforeAll(async () => {
    ;[worker, other] = await Promise.all([startTestWorker(), createTestLedger()])
  })

  beforeEach(async () => {
    chain = await createSettlementChain(worker)
  })

  afterEach(async () => {
    worker.proxy.setFault(null)
    await chain.rpc('evm_setAutomine', true)
    await chain.rpc('anvil_mine')
  })

  afterAll(async () => {
    await other.close()
    await worker.stop()
  })

  const start = (ledger: TestLedger) =>
    requireExclusiveKeys({
      accounts: createSettlementAccounts(createChainClient(worker.proxy.url, PATIENCE_MS), 8453, [chain.privateKey]),
      settlementStore: ledger.settlement,
      untilReachable: (work) => work(),
      network: 'eip155:8453',
      logger: worker.dependencies.logger,
    })
  async function settleOne(): Promise<void> {
    await worker.run((await chain.accept()).jobId, chain.chain)
  }
  describe('a settler that may start', () => {
    it('a settler starts with an unused key', async () => {
      await start(worker.ledger)
    })

    it('a settler starts while another process over the same database settles with the same key', async () => {
      const { jobId } = await chain.accept()
      await settleOne()
      await chain.rpc('evm_setAutomine', false)
      const { settler } = chain.chain
      const broadcast: typeof settler.broadcast = async (transaction) => {
        await settler.broadcast(transaction)
        throw new Error('killed')
      }
      await expect(worker.run(jobId, { ...chain.chain, settler: { ...settler, broadcast } })).rejects.toThrow('killed')
      expect(await chain.rpc('eth_getTransactionCount', chain.facilitator, 'pending')).toBe('0x2')
      await start(worker.ledger)
    })

    it('a settler starts with a key that was used before, manually or by a removed database', async () => {
      await chain.useNonceElsewhere(0)
      await start(worker.ledger)
      await settleOne()
      await chain.useNonceElsewhere(2)
      await start(worker.ledger)
      await start(other)
    })

    it('a settler starts when the chain does not answer', async () => {
      worker.proxy.setFault({ kind: 'status', status: 500 })
      await start(worker.ledger)
    })
  })

  function refusal(): string {
    return `SETTLEMENT_PRIVATE_KEYS: ${chain.facilitator} has pending transactions that this database does not know`
  }
  describe('a settler that must not start', () => {
    it('a settler does not start, naming the setting, while only another database settles with its key', async () => {
      await chain.rpc('evm_setAutomine', false)
      await chain.useNonceElsewhere(0)
      await expect(start(other)).rejects.toThrow(refusal())
    })

    it('a settler does not start while its database is behind another one that uses the key, but does once that has finished', async () => {
      await settleOne()
      await chain.rpc('evm_setAutomine', false)
      await chain.useNonceElsewhere(1)
      await expect(start(worker.ledger)).rejects.toThrow(refusal())
      await chain.rpc('anvil_mine')
      await start(worker.ledger)
    })
  })

  it('reports how many account nonces were used elsewhere', async () => {
    await settleOne()
    await chain.useNonceElsewhere(1)
    await chain.useNonceElsewhere(2)
    const reported: number[] = []
    const keep = async () => {
      // As if the last run were long ago.
      await worker.ledger.sql("UPDATE settlement_accounts SET kept_until = now() - interval '1 minute'")
      await chain.keep({ onUsedElsewhere: (_, count) => reported.push(count) })
    }
    await keep()
    await keep()
    expect(reported).toEqual([2])
    expect(worker.logged.join()).toContain('SETTLEMENT_PRIVATE_KEYS: another sender uses a settlement key')
    // Used nonces are skipped.
    await settleOne()
    expect(await chain.count()).toBe(4)
  })
})
