import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { callRpc } from '../../infra/sandbox/chain/json-rpc.ts'
import type { ServiceName } from '../../infra/sandbox/sandbox-options.ts'
import type { PointAction } from '../resilience/processes/reach-point.ts'
import { type CampaignStack, LEASE_SECONDS, startCampaignStack } from '../resilience/stack/stack.ts'
import { createChainReader } from '../support/chain/devnet.ts'
import { signAllowancePermit } from '../support/payer/allowance-permit.ts'
import { createPayer } from '../support/payer/payer.ts'
import { until } from '../support/until.ts'

/** Where a worker fails while it submits a permit, in the order in which it gets there. */
const POINTS: readonly (readonly [string, PointAction])[] = [
  ['worker.permits.prepare.after', 'kill'],
  ['worker.readNextAccountNonce.after', 'kill'],
  ['worker.permits.sign.after', 'kill'],
  ['worker.recordPermit.before', 'stop'],
  ['worker.recordPermit.commit.before', 'kill'],
  ['worker.recordPermit.commit.sent', 'kill'],
  ['worker.recordPermit.commit.sent', 'throw'],
  ['worker.permits.broadcast.before', 'kill'],
  ['worker.permits.broadcast.before', 'stop'],
  ['worker.rpc.eth_sendRawTransaction.written', 'kill'],
  ['worker.rpc.eth_sendRawTransaction.answered', 'kill'],
  ['worker.permits.confirm.after', 'kill'],
  ['worker.confirmAllowance.before', 'stop'],
  ['worker.confirmAllowance.commit.before', 'kill'],
  ['worker.confirmAllowance.commit.sent', 'kill'],
  ['worker.confirmAllowance.after', 'kill'],
]
let stack: CampaignStack
beforeAll(async () => {
  stack = await startCampaignStack({
    apis: 1,
    workers: 2,
    approvedPayers: 0,
    sponsoredPayers: 0,
    settlementContract: false,
  })
})
afterAll(() => stack.stop())
/** Waits until a process has failed at the point, and lets it work again. */
async function recover(point: string, action: PointAction): Promise<void> {
  const pid = await until(() => stack.points.hitBy(point) ?? 0)
  if (action === 'stop') {
    // Another worker takes the permit over in the meantime.
    await delay(2 * LEASE_SECONDS * 1000)
    process.kill(pid, 'SIGCONT')
  } else if (action === 'kill') {
    const names = Object.keys(stack.info.pids) as ServiceName[]
    await stack.restart(names.find((name) => stack.pidOf(name) === pid) ?? 'worker')
  }
}
interface Answer {
  readonly status: number
  readonly body: string
}
async function approve(body: string): Promise<Answer> {
  const headers = { 'content-type': 'application/json' }
  const answer = await fetch(`${stack.info.baseUrls[0]}/v1/allowances`, { method: 'POST', headers, body })
  return { status: answer.status, body: await answer.text() }
}
/** Repeats a request whose answer asks for that. */
async function approvePatiently(body: string): Promise<Answer> {
  return await until(async () => {
    const answer = await approve(body)
    return answer.status === 503 ? null : answer
  })
}
/** Returns how often the owner's allowance was set on chain. */
async function approvalsOf(owner: `0x${string}`): Promise<number> {
  const signature = '0x8c5be1e5ebec7d5bd14f71427d1e84f3dd0314c0f7b2291e5b200ac8c7c3b925'
  const topics = [signature, `0x${owner.slice(2).padStart(64, '0')}`]
  return (await callRpc<unknown[]>(stack.info.rpcUrl, 'eth_getLogs', [{ fromBlock: '0x0', topics }])).length
}

describe('a worker that fails while it submits a permit', () => {
  it.each(POINTS)('at %s (%s): one transaction, and the same answer after a retry', async (point, action) => {
    const owner = await createPayer(stack.info.rpcUrl)
    const { digest: _, ...permit } = await signAllowancePermit(owner)
    const body = JSON.stringify({ permit }, (_key, value: unknown) =>
      typeof value === 'bigint' ? value.toString() : value,
    )
    stack.points.arm(point, action)
    const answered = approvePatiently(body)
    await recover(point, action)
    const answer = await answered
    expect(answer).toMatchObject({ status: 200 })
    expect(await approve(body)).toEqual(answer)
    expect(await createChainReader(stack.info.rpcUrl).permit2Allowance(owner.address)).toBe(permit.value)
    expect(await approvalsOf(owner.address)).toBe(1)
    const rows = await stack.sql(
      `SELECT state, transaction_hash, (SELECT count(DISTINCT (facilitator, account_nonce))::int
         FROM settlement_transactions WHERE sponsored_permit_id = sponsored_permits.id) AS nonces
       FROM sponsored_permits WHERE owner = $1`,
      [owner.address],
    )
    const { transaction } = JSON.parse(answer.body) as { transaction: string }
    // One account nonce: a replacement with a higher fee may have been signed while no worker followed the permit.
    expect(rows).toEqual([{ state: 'confirmed', transaction_hash: transaction, nonces: 1 }])
  })

  it('has left no account nonce unused and none that the ledger does not know', async () => {
    for (const facilitator of stack.info.settlementAddresses) {
      const [account] = await stack.sql<{ next: number }>(
        'SELECT next_account_nonce::int AS next FROM settlement_accounts WHERE facilitator = $1',
        [facilitator.toLowerCase()],
      )
      const count = await callRpc<string>(stack.info.rpcUrl, 'eth_getTransactionCount', [facilitator, 'latest'])
      expect(account?.next).toBe(Number(count))
      expect(Number(count)).toBe(POINTS.length)
    }
  })
})
