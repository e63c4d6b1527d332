import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { type RemoteSettling, settleRemotely } from '../../support/chain/remote-settling.ts'
import { type RpcProxy, startRpcProxy } from '../../support/chain/rpc-proxy.ts'
import { type FacilitatorFault, type SdkFacilitator, startSdkFacilitator } from '../../support/chain/sdk-facilitator.ts'
import { hostMedia } from '../../support/ledger/host-media.ts'
import { createPayer } from '../../support/payer/payer.ts'
import { signAuthorization } from '../../support/payer/sign-authorization.ts'
import { type AcceptOptions, startTestWorker, type TestWorker } from '../../support/processes/test-worker.ts'

const CHARGE = 5034n
/** The timeout for a hanging facilitator; whether the request has arrived by then makes no difference. */
const HANGING_TIMEOUT_MS = 300

let worker: TestWorker
let facilitatorNode: RpcProxy
let facilitator: SdkFacilitator
beforeAll(async () => {
  worker = await startTestWorker()
  facilitatorNode = await startRpcProxy(worker.devnet.rpcUrl)
  facilitator = await startSdkFacilitator(facilitatorNode.url, worker.devnet.accounts.settlement.privateKey)
})
afterEach(() => {
  facilitatorNode.setFault(null)
  worker.proxy.setFault(null)
  facilitator.setFault('/settle', null)
  facilitator.setFault('/verify', null)
})
afterAll(async () => {
  await facilitator.stop()
  await facilitatorNode.stop()
  await worker.stop()
})

/** Returns the worker's dependencies with FACILITATOR_URL set. */
function remoteSettling(
  changes: Parameters<typeof settleRemotely>[2] = {},
): Pick<RemoteSettling, 'verifier' | 'settlementSteps'> {
  const { verifier, settlementSteps } = settleRemotely(worker, facilitator.url, changes)
  return { verifier, settlementSteps }
}

const settleRequests = () => facilitator.requests.filter((path) => path === '/settle').length

/** Accepts a job and runs it once with `fault` at its settlement. */
async function interrupted(fault: FacilitatorFault, options?: AcceptOptions) {
  const accepted = await worker.accept(options)
  facilitator.setFault('/settle', fault, 1)
  await worker.run(accepted.jobId, remoteSettling(fault.kind === 'hang' ? { timeoutMs: HANGING_TIMEOUT_MS } : {}))
  facilitator.setFault('/settle', null)
  await setRequestAge(accepted.jobId, 0)
  return accepted
}

/** Runs a job up to the recorded settlement, before the facilitator is called. */
async function recorded() {
  const accepted = await worker.accept()
  const dying = remoteSettling({ recordSettlementRequest: () => Promise.reject(new Error('killed')) })
  await expect(worker.run(accepted.jobId, dying)).rejects.toThrow('killed')
  await worker.ledger.sql("UPDATE jobs SET lease_expires_at = now() - interval '1 second' WHERE id = $1", [
    accepted.jobId,
  ])
  return accepted
}

/** Sets the last settle request to `minutes` ago; at 0 it counts as recent for another minute. */
async function setRequestAge(jobId: string, minutes: number): Promise<void> {
  await worker.ledger.sql(
    `UPDATE settlements SET requested_at = now() + make_interval(mins => 1 - $2) WHERE job_id = $1`,
    [jobId, minutes],
  )
}

const makeRequestOld = (jobId: string) => setRequestAge(jobId, 3)

async function settlementOf(jobId: string) {
  const [row] = await worker.ledger.sql<{
    state: string
    settled_by: string
    account_nonce: string | null
    unanswered_requests: number
    hashes: readonly string[]
    raw: readonly (string | null)[]
  }>(
    `SELECT state, settled_by, account_nonce, unanswered_requests,
       ARRAY(SELECT hash FROM settlement_transactions WHERE settlement_id = settlements.id) AS hashes,
       ARRAY(SELECT raw_transaction FROM settlement_transactions WHERE settlement_id = settlements.id) AS raw
     FROM settlements WHERE job_id = $1`,
    [jobId],
  )
  return row
}

async function transfersFrom({ address }: { address: string }) {
  const transfers = await worker.devnet.transfersTo(worker.devnet.accounts.recipient.address)
  return transfers.filter(({ from }) => from.toLowerCase() === address)
}

async function expectPaidOnce(jobId: string, payer: { address: string }): Promise<void> {
  expect(await worker.view(jobId)).toMatchObject({
    state: 'completed',
    attempts: ['succeeded'],
    settlements: ['confirmed'],
  })
  expect((await transfersFrom(payer)).map(({ valueAtomic }) => valueAtomic)).toEqual([CHARGE])
}

const OPEN_SETTLEMENT = { state: 'settling', settlements: ['signed'], receipt_id: null, deferred: true, leased: false }

describe('a job settled by a remote facilitator', () => {
  it('a job settled by a remote facilitator is charged exactly, and only the transaction hash is stored', async () => {
    const { jobId, payer } = await worker.accept()
    await worker.run(jobId, remoteSettling())
    await expectPaidOnce(jobId, payer)
    const [transfer] = await transfersFrom(payer)
    expect(await settlementOf(jobId)).toEqual({
      state: 'confirmed',
      settled_by: 'remote_facilitator',
      account_nonce: null,
      unanswered_requests: 0,
      hashes: [transfer?.transactionHash],
      raw: [null],
    })
  })

  it('a remote facilitator settles a payment by approval, without a permit', async () => {
    const payer = await createPayer(worker.devnet.rpcUrl)
    await payer.approve()
    const { jobId } = await worker.accept({ payer, signed: { gasSponsored: false } })
    await worker.run(jobId, remoteSettling())
    await expectPaidOnce(jobId, payer)
  })

  it('a settlement whose response was lost is found by its transfer, without a second request', async () => {
    const { jobId, payer } = await interrupted({ kind: 'lost_answer' })
    expect(await worker.view(jobId)).toMatchObject(OPEN_SETTLEMENT)
    expect(await settlementOf(jobId)).toMatchObject({ unanswered_requests: 1, hashes: [] })
    expect(await transfersFrom(payer)).toHaveLength(1)
    const requests = settleRequests()
    await worker.runNow(jobId, remoteSettling())
    await expectPaidOnce(jobId, payer)
    expect(settleRequests()).toBe(requests)
  })

  it('a settlement whose response was not stored is found by its transfer, without a second request', async () => {
    const { jobId, payer } = await worker.accept()
    const dying = remoteSettling({ recordSettlementAnswer: () => Promise.reject(new Error('killed')) })
    await expect(worker.run(jobId, dying)).rejects.toThrow('killed')
    expect(await transfersFrom(payer)).toHaveLength(1)
    const requests = settleRequests()
    await worker.ledger.sql("UPDATE jobs SET lease_expires_at = now() - interval '1 second' WHERE id = $1", [jobId])
    await worker.run(jobId, remoteSettling())
    await expectPaidOnce(jobId, payer)
    expect(settleRequests()).toBe(requests)
  })

  it('a settlement whose worker died before the request is requested by the next worker', async () => {
    const { jobId, payer } = await worker.accept()
    const dying = remoteSettling({ recordSettlementRequest: () => Promise.reject(new Error('killed')) })
    await expect(worker.run(jobId, dying)).rejects.toThrow('killed')
    await worker.ledger.sql("UPDATE jobs SET lease_expires_at = now() - interval '1 second' WHERE id = $1", [jobId])
    await worker.run(jobId, remoteSettling())
    await expectPaidOnce(jobId, payer)
  })

  it.for<FacilitatorFault>([
    { kind: 'hang' },
    { kind: 'reset' },
    { kind: 'status', status: 500 },
    { kind: 'status', status: 401 },
    { kind: 'body', status: 200, body: { hello: 'world' } },
    { kind: 'body', status: 200, body: { success: true, transaction: '', network: 'eip155:8453' } },
    {
      kind: 'body',
      status: 200,
      body: {
        success: false,
        errorReason: 'invalid_exact_evm_transaction_failed: x',
        transaction: '',
        network: 'eip155:8453',
      },
    },
    {
      kind: 'body',
      status: 500,
      body: { success: false, errorReason: 'permit2_insufficient_balance', transaction: '', network: 'eip155:8453' },
    },
  ])('a settlement stays open when the facilitator answers %j, and is requested again only later', async (fault) => {
    const { jobId, payer } = await interrupted(fault)
    expect(await worker.view(jobId)).toMatchObject(OPEN_SETTLEMENT)
    expect(await settlementOf(jobId)).toMatchObject({ unanswered_requests: 1 })
    const requests = settleRequests()
    await worker.runNow(jobId, remoteSettling())
    expect(settleRequests()).toBe(requests)
    await makeRequestOld(jobId)
    await worker.runNow(jobId, remoteSettling())
    await expectPaidOnce(jobId, payer)
    expect(settleRequests()).toBe(requests + 1)
  })

  it('a job does not fail while the facilitator’s node is down, and is paid once afterwards', async () => {
    const { jobId, payer } = await worker.accept()
    const { settlementSteps } = remoteSettling()
    facilitatorNode.setFault({ kind: 'status', status: 500 })
    await worker.run(jobId, { settlementSteps })
    expect(await worker.view(jobId)).toMatchObject(OPEN_SETTLEMENT)
    facilitatorNode.setFault(null)
    await makeRequestOld(jobId)
    await worker.runNow(jobId, { settlementSteps })
    await expectPaidOnce(jobId, payer)
  })

  it('a job is deferred before the provider call while the facilitator cannot verify', async () => {
    const { jobId, payer } = await worker.accept()
    facilitator.setFault('/verify', { kind: 'status', status: 503 })
    await worker.run(jobId, remoteSettling())
    expect(await worker.view(jobId)).toMatchObject({ state: 'accepted', attempts: [], deferred: true, leased: false })
    facilitator.setFault('/verify', null)
    await worker.runNow(jobId, remoteSettling())
    await expectPaidOnce(jobId, payer)
  })

  it('a settlement waits while our own node is down, and is confirmed afterwards', async () => {
    const { jobId, payer } = await interrupted({ kind: 'lost_answer' })
    worker.proxy.setFault({ kind: 'reset' })
    await worker.runNow(jobId, remoteSettling())
    expect(await worker.view(jobId)).toMatchObject(OPEN_SETTLEMENT)
    worker.proxy.setFault(null)
    await worker.runNow(jobId, remoteSettling())
    await expectPaidOnce(jobId, payer)
  })
})

describe('a settlement that a remote facilitator cannot complete', () => {
  it('a settlement without funds fails with the facilitator’s first response, without a transfer', async () => {
    const { jobId, payer } = await recorded()
    await payer.spend(1_000_000n)
    await worker.run(jobId, remoteSettling())
    expect(await worker.view(jobId)).toMatchObject({
      state: 'settlement_failed',
      failure_reason: 'insufficient_funds',
      settlements: ['reverted'],
    })
    expect(await transfersFrom(payer)).toEqual([])
  })

  it('a settlement is not requested once the hosted media of the result have expired', async () => {
    const { jobId, payer } = await recorded()
    await hostMedia(worker.ledger, jobId, 10)
    const requests = settleRequests()
    await worker.run(jobId, remoteSettling())
    expect(await worker.view(jobId)).toMatchObject({ state: 'settlement_failed', settlements: ['reverted'] })
    expect(settleRequests()).toBe(requests)
    expect(await transfersFrom(payer)).toEqual([])
  })

  it('a settlement is not requested again once the hosted media have expired, and stays open', async () => {
    const { jobId } = await interrupted({ kind: 'reset' })
    await hostMedia(worker.ledger, jobId, 10)
    await makeRequestOld(jobId)
    const requests = settleRequests()
    await worker.runNow(jobId, remoteSettling())
    expect(await worker.view(jobId)).toMatchObject(OPEN_SETTLEMENT)
    expect(settleRequests()).toBe(requests)
  })

  it('a settlement whose nonce the payer has used fails, without a transfer', async () => {
    const { jobId, payer, request } = await recorded()
    await payer.invalidateNonce(request.authorization.nonce)
    await worker.run(jobId, remoteSettling())
    expect(await worker.view(jobId)).toMatchObject({ state: 'settlement_failed', failure_reason: 'payment_nonce_used' })
    expect(await transfersFrom(payer)).toEqual([])
  })

  it('a settlement whose nonce was used after an unanswered request fails once the chain shows it', async () => {
    const { jobId, payer, request } = await interrupted({ kind: 'reset' })
    await payer.invalidateNonce(request.authorization.nonce)
    await worker.runNow(jobId, remoteSettling())
    expect(await worker.view(jobId)).toMatchObject({
      state: 'settlement_failed',
      failure_reason: 'the payer invalidated the nonce',
    })
    expect(await transfersFrom(payer)).toEqual([])
  })

  it('a settlement stays open when it is rejected after an unanswered request, which may still succeed', async () => {
    const { jobId, payer } = await interrupted({ kind: 'reset' })
    await payer.spend(1_000_000n)
    await makeRequestOld(jobId)
    await worker.runNow(jobId, remoteSettling())
    expect(await worker.view(jobId)).toMatchObject(OPEN_SETTLEMENT)
    expect(await settlementOf(jobId)).toMatchObject({ unanswered_requests: 1 })
  })

  it('a settlement that stays open after an unanswered request needs review after a day, whatever its deadline', async () => {
    const { jobId, payer } = await interrupted({ kind: 'reset' }, { signed: { deadline: 2n ** 200n } })
    await payer.spend(1_000_000n)
    await makeRequestOld(jobId)
    await worker.runDeferredFor(jobId, 86_000, remoteSettling())
    expect(await worker.view(jobId)).toMatchObject(OPEN_SETTLEMENT)
    await worker.runDeferredFor(jobId, 86_400, remoteSettling())
    expect(await worker.view(jobId)).toMatchObject({ state: 'review', settlements: ['unproven'] })
  })

  it('a settlement is not proven by the hash of another settlement of the same payer and charge', async () => {
    const payer = await createPayer(worker.devnet.rpcUrl)
    await payer.approve()
    const first = await worker.accept({ payer, signed: { gasSponsored: false } })
    await worker.run(first.jobId, remoteSettling())
    const [transfer] = await transfersFrom(payer)
    const body = { success: true, transaction: transfer?.transactionHash, network: 'eip155:8453' }
    const { jobId } = await interrupted({ kind: 'body', status: 200, body }, { payer, signed: { gasSponsored: false } })
    expect(await worker.view(jobId)).toMatchObject(OPEN_SETTLEMENT)
    expect(await settlementOf(jobId)).toMatchObject({ unanswered_requests: 1, hashes: [] })
    await makeRequestOld(jobId)
    await worker.runNow(jobId, remoteSettling())
    expect(await worker.view(jobId)).toMatchObject({ state: 'completed' })
    expect(await transfersFrom(payer)).toHaveLength(2)
  })

  it('a settlement is not proven by a transfer of the same payer and charge that uses another nonce', async () => {
    const payer = await createPayer(worker.devnet.rpcUrl)
    await payer.approve()
    const { facilitator: remote } = settleRemotely(worker, facilitator.url)
    const elsewhere = await signAuthorization(worker.devnet, payer, { gasSponsored: false })
    const answer = await remote.settle(elsewhere, elsewhere.authorizedMaximum)
    if (answer.outcome !== 'sent') throw new Error(answer.outcome)
    const body = { success: true, transaction: answer.hash, network: 'eip155:8453' }
    const { jobId } = await interrupted({ kind: 'body', status: 200, body }, { payer, signed: { gasSponsored: false } })
    expect(await worker.view(jobId)).toMatchObject(OPEN_SETTLEMENT)
    await makeRequestOld(jobId)
    await worker.runNow(jobId, remoteSettling())
    expect(await worker.view(jobId)).toMatchObject({ state: 'completed' })
    expect(await transfersFrom(payer)).toHaveLength(2)
  })

  it('a settlement needs review when its nonce was used for another amount than the charge', async () => {
    const { jobId, payer, request } = await interrupted({ kind: 'reset' })
    const { facilitator: remote } = settleRemotely(worker, facilitator.url)
    const answer = await remote.settle(request.authorization, 1n as typeof request.authorization.authorizedMaximum)
    expect(answer).toMatchObject({ outcome: 'sent' })
    await worker.runNow(jobId, remoteSettling())
    expect(await worker.view(jobId)).toMatchObject(OPEN_SETTLEMENT)
    await makeRequestOld(jobId)
    await worker.runNow(jobId, remoteSettling())
    expect(await worker.view(jobId)).toMatchObject({ state: 'review', settlements: ['unproven'] })
    expect(await transfersFrom(payer)).toHaveLength(1)
  })

  it('a settlement fails once its authorization has expired on chain, regardless of earlier requests', async () => {
    const { jobId, payer } = await interrupted({ kind: 'reset' })
    // The authorizations of other tests would have expired as well.
    const before = await callRpc(worker.devnet.rpcUrl, 'evm_snapshot', [])
    onTestFinished(async () => void (await callRpc(worker.devnet.rpcUrl, 'evm_revert', [before])))
    await callRpc(worker.devnet.rpcUrl, 'evm_increaseTime', [3600])
    await callRpc(worker.devnet.rpcUrl, 'anvil_mine', ['0x1'])
    await worker.runNow(jobId, remoteSettling())
    expect(await worker.view(jobId)).toMatchObject({
      state: 'settlement_failed',
      failure_reason: 'the authorization expired before the facilitator settled it',
    })
    expect(await transfersFrom(payer)).toEqual([])
  })
})
