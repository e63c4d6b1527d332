import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createSettlementChain, type SettlementChain, stopChainWatch } from '../../support/chain/settlement-chain.ts'
import { startTestWorker, type TestWorker } from '../../support/processes/test-worker.ts'

let worker: TestWorker
let chain: SettlementChain
const letPass = stopChainWatch()
beforeAll(async () => {
  worker = await startTestWorker()
})
beforeEach(async () => {
  chain = await createSettlementChain(worker)
})
afterAll(() => worker.stop())

type Settler = SettlementChain['chain']['settler']
type Broadcast = Settler['broadcast']

/** A look for what cannot be seen takes this long, as the worker sees it: it watches for 20 seconds, and asks for evidence after 5. */
const LOOK_MS = 2000

/** Runs a job up to its first broadcast, in whose place `instead` happens; time passes until something else is sent. */
function runWith(jobId: string, instead: (send: Broadcast, ...sent: Parameters<Broadcast>) => ReturnType<Broadcast>) {
  const { settler } = chain.chain
  const sent = new Set<string>()
  const broadcast: Broadcast = async (transaction) => {
    const isFirst = sent.size === 0
    sent.add(transaction.hash)
    return await (isFirst ? instead((again) => settler.broadcast(again), transaction) : settler.broadcast(transaction))
  }
  const confirm: Settler['confirm'] = async (...looked) => {
    if (sent.size === 1) letPass(LOOK_MS)
    return await settler.confirm(...looked)
  }
  return worker.run(jobId, { ...chain.chain, settler: { ...settler, broadcast, confirm } })
}

/** A settler whose broadcasts are mined and not seen while `isHidden`; time passes meanwhile. */
function hiding(isHidden: () => boolean): Settler {
  const { settler } = chain.chain
  return {
    ...settler,
    broadcast: async (transaction) => {
      const answer = await settler.broadcast(transaction)
      await chain.untilMined(transaction.hash)
      return answer
    },
    confirm: async (...looked) => {
      if (!isHidden()) return await settler.confirm(...looked)
      letPass(LOOK_MS)
      return { outcome: 'pending' }
    },
  }
}

async function transfersFrom(payer: { address: string }): Promise<bigint[]> {
  const transfers = await worker.devnet.transfersTo(worker.devnet.accounts.recipient.address)
  return transfers.filter(({ from }) => from.toLowerCase() === payer.address).map(({ valueAtomic }) => valueAtomic)
}

describe('a settlement whose account nonce somebody else used', () => {
  it('is signed again for the next one, and charged once', async () => {
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
       WHERE job_id = $1 ORDER BY signed.account_nonce`,
      [jobId],
    )
    expect(rows).toEqual([
      { account_nonce: 0, settled: false, present: 1 },
      { account_nonce: 1, settled: true, present: 1 },
    ])
  })

  it('fails when the payer has moved his money meanwhile', async () => {
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

  it('is not signed again by a worker that lost its lease', async () => {
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

  it('by a node that hides the receipt: a mined settlement is never signed again, and a person looks in the end', async () => {
    const { jobId, payer } = await chain.accept()
    await worker.run(jobId, { ...chain.chain, settler: hiding(() => true) })
    expect(await worker.view(jobId)).toMatchObject({ state: 'review', settlements: ['unproven'] })
    expect(await chain.hashes(jobId)).toHaveLength(1)
    expect(await transfersFrom(payer)).toEqual([5034n])
  })

  it('by a node that hides the receipt for a while: the job completes', async () => {
    const { jobId, payer } = await chain.accept()
    let looks = 0
    // Until after the first evidence, which shows that the nonces are used.
    const settler = hiding(() => looks < 2)
    const readEvidence: Settler['readEvidence'] = async (authorization) => {
      looks += 1
      return await settler.readEvidence(authorization)
    }
    await worker.run(jobId, { ...chain.chain, settler: { ...settler, readEvidence } })
    expect(looks).toBe(2)
    expect(await worker.view(jobId)).toMatchObject({ state: 'completed', settlements: ['confirmed'] })
    expect(await transfersFrom(payer)).toEqual([5034n])
  })

  it('as a lying node says: the same charge is signed twice and paid once', async () => {
    const { jobId, payer } = await chain.accept()
    const { settler } = chain.chain
    const lie = { outcome: 'read', accountNonceCount: 1n, isNonceUsed: false, chainTime: new Date(0) } as const
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
        confirm: async (...looked) => {
          if (lies > 0) letPass(LOOK_MS)
          return await settler.confirm(...looked)
        },
        readEvidence: async (authorization) => (isLying() ? lie : await settler.readEvidence(authorization)),
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

describe('a settlement that is mined, while nodes', () => {
  afterEach(() => worker.proxy.chooseFault(() => null))

  it('of another branch answer for the block of the same number: it is neither failed nor signed again', async () => {
    const { jobId, payer } = await chain.accept()
    let evidenceAsked = 0
    const isHidden = () => evidenceAsked < 2
    // Only a block's hash tells such a node that it is asked about another block than its own.
    worker.proxy.chooseFault(({ method, params }) => {
      if (!isHidden()) return null
      if (method === 'eth_getTransactionReceipt') return { kind: 'forge', answer: { result: null } }
      if (method !== 'eth_getTransactionCount' || params[1] === 'latest') return null
      evidenceAsked += 1
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
        confirm: async (...looked) => {
          if (isHidden()) letPass(LOOK_MS)
          return await settler.confirm(...looked)
        },
      },
    })
    expect(evidenceAsked).toBe(2)
    expect(await worker.view(jobId)).toMatchObject({ state: 'completed', settlements: ['confirmed'] })
    expect(await transfersFrom(payer)).toEqual([5034n])
  })

  it('say that its account nonce was used elsewhere and its payment nonce is used: it is looked at again', async () => {
    const { jobId, payer } = await chain.accept()
    const lie = { outcome: 'read', accountNonceCount: 1n, isNonceUsed: false, chainTime: new Date(0) } as const
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
        readEvidence: async (authorization) => (isHidden ? lie : await settler.readEvidence(authorization)),
      },
    }
    await worker.run(jobId, lying)
    expect(await worker.view(jobId)).toMatchObject({ state: 'settling', settlements: ['signed'], put_off: true })
    isHidden = false
    await worker.runNow(jobId, lying)
    expect(await worker.view(jobId)).toMatchObject({ state: 'completed', settlements: ['confirmed'] })
    expect(await transfersFrom(payer)).toEqual([5034n])
    expect(await chain.hashes(jobId)).toHaveLength(1)
  })
})

/** Takes the transaction for sent and loses it. */
async function lost(): ReturnType<Broadcast> {
  return { outcome: 'sent' }
}

describe('a settlement that was never mined', () => {
  it('fails once the chain is past its deadline', async () => {
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

  it('fails when the payer burnt the nonce', async () => {
    const { jobId, payer, request } = await chain.accept()
    await runWith(jobId, async () => {
      await payer.invalidateNonce(request.authorization.nonce)
      return await lost()
    })
    expect(await worker.view(jobId)).toMatchObject({
      state: 'settlement_failed',
      failure_reason: 'the payer burnt the nonce',
    })
    expect(await transfersFrom(payer)).toEqual([])
  })
})

it('what the payer must still have at settlement is the charge, not the maximum', async () => {
  const { jobId, payer } = await worker.accept({
    signed: { facilitator: chain.facilitator, authorizedMaximum: 1_000_000n },
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
