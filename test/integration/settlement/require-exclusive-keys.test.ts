import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createChainClient } from '#shared/adapters/chain/network/client.ts'
import { createSettlementAccounts } from '#shared/adapters/chain/settlement/settlement-accounts.ts'
import { requireExclusiveKeys } from '../../../workers/settlement/own-keys/require-exclusive-keys.ts'
import { createSettlementChain, type SettlementChain } from '../../support/chain/settlement-chain.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { startTestWorker, type TestWorker } from '../../support/processes/test-worker.ts'

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
