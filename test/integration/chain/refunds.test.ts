import type { Address, Hex } from 'viem'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createRefundReader } from '#shared/chain/reading/refund-reader.ts'
import { createResolutionStore } from '#shared/ledger/resolutions/resolution-store.ts'
import type { Author } from '#shared/operators/author.ts'
import { parseItemName } from '#shared/operators/item.ts'
import { resolveItem } from '#shared/operators/resolve-item.ts'
import { proveRefund } from '#shared/payment/prove-refund.ts'
import type { RefundedPayment, RefundReader } from '#shared/payment/refund.ts'
import { DEVNET_ADDRESSES } from '../../../infra/sandbox/chain/devnet.ts'
import { mintUsdc } from '../../../infra/sandbox/chain/fund-devnet.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { createChainReader, startTestDevnet, type TestDevnet } from '../../support/chain/devnet.ts'
import { finalizeBlocks, sendToken } from '../../support/chain/send-usdc.ts'
import { inReview, requestOf, surplusSettlement, unknownSettlement } from '../../support/ledger/open-item.ts'
import { NETWORK, randomAddress } from '../../support/ledger/test-authorization.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'

const AMOUNT = 5034n
/** The account that the payments of these tests are for. */
const RECIPIENT = randomAddress()
const ANNA: Author = { operator: 'anna', source: 'command' }

let devnet: TestDevnet
let ledger: TestLedger
let refunds: RefundReader
let treasury: Address
beforeAll(async () => {
  ;[devnet, ledger] = await Promise.all([startTestDevnet(), createTestLedger()])
  treasury = randomAddress()
  refunds = createRefundReader(devnet.client, [treasury])
  await mintUsdc(devnet.rpcUrl, treasury, 10n ** 9n)
  // Every block of a payment in these tests is earlier than this.
  await finalizeBlocks(devnet)
})
afterAll(async () => {
  await Promise.all([devnet.stop(), ledger.close()])
})

function send(
  to: Address,
  amount = AMOUNT,
  changes: { readonly from?: Address; readonly token?: Address } = {},
): Promise<Hex> {
  return sendToken(devnet, { from: treasury, to, amount, ...changes })
}

function paymentOf(payer: Address, changes: Partial<RefundedPayment> = {}): RefundedPayment {
  return {
    network: NETWORK,
    payer,
    payTo: RECIPIENT,
    amount: AMOUNT,
    blockNumber: 1n,
    paidAfter: new Date(0),
    ...changes,
  }
}

describe('a refund', () => {
  it('is proven by a final transfer of exactly the amount from somebody else to the payer', async () => {
    const payer = randomAddress()
    const transaction = await send(payer)
    await finalizeBlocks(devnet)
    const { blockNumber } = await devnet.client.getTransactionReceipt({ hash: transaction })
    expect(
      await proveRefund(refunds, ` ${transaction.toUpperCase().replace('0X', '0x')}\n`, paymentOf(payer)),
    ).toMatchObject({
      outcome: 'proven',
      transfers: [{ transaction, blockNumber, logIndex: expect.any(Number) }],
    })
  })

  it('is proven by a transfer from the account that the payment was for', async () => {
    const payer = randomAddress()
    await mintUsdc(devnet.rpcUrl, RECIPIENT, AMOUNT)
    const transaction = await send(payer, AMOUNT, { from: RECIPIENT })
    await finalizeBlocks(devnet)
    expect(await proveRefund({ ...refunds, senders: [] }, transaction, paymentOf(payer))).toMatchObject({
      outcome: 'proven',
    })
  })

  interface Attempt {
    readonly transaction: string
    readonly payment?: Partial<RefundedPayment>
    readonly reader?: RefundReader
  }
  const attempts: readonly [string, (payer: Address) => Promise<Attempt> | Attempt, RegExp][] = [
    ['that is no transaction', () => ({ transaction: '0x12' }), /0x and 64 hexadecimal digits/],
    [
      'of a smaller amount',
      async (payer) => ({ transaction: await send(payer, AMOUNT - 1n) }),
      /0\.005033 USDC .* exactly 0\.005034 USDC/,
    ],
    [
      'of a larger amount',
      async (payer) => ({ transaction: await send(payer, AMOUNT + 1n) }),
      /0\.005035 USDC .* exactly 0\.005034 USDC/,
    ],
    [
      'to another payer',
      async () => ({ transaction: await send(randomAddress()) }),
      /USDC to 0x[0-9a-f]{40}, not to the payer 0x/,
    ],
    [
      'in another asset',
      async (payer) => ({ transaction: await send(payer, 0n, { token: await otherToken() }) }),
      /transfers no USDC/,
    ],
    ['without any transfer', async () => ({ transaction: await emptyTransaction() }), /transfers no USDC/],
    [
      'from the payer to themselves',
      async (payer) => {
        await mintUsdc(devnet.rpcUrl, payer, AMOUNT)
        return { transaction: await send(payer, AMOUNT, { from: payer }) }
      },
      /from the payer to themselves/,
    ],
    [
      'from an account that is not the operator’s',
      async (payer) => {
        const stranger = randomAddress()
        await mintUsdc(devnet.rpcUrl, stranger, AMOUNT)
        return { transaction: await send(payer, AMOUNT, { from: stranger }) }
      },
      /neither the recipient of the payment \(0x[0-9a-f]{40}\) nor one of REFUND_SENDERS/,
    ],
    [
      'that reverted',
      async (payer) => ({ transaction: await send(payer, AMOUNT, { from: randomAddress() }) }),
      /reverted/,
    ],
    ['that no block has', () => ({ transaction: `0x${'ab'.repeat(32)}` }), /No block of eip155:8453 contains/],
    [
      'on another chain',
      async (payer) => {
        const other = await startTestDevnet()
        await mintUsdc(other.rpcUrl, treasury, AMOUNT * 3n)
        // Another nonce than here, so that the two chains have no transaction in common.
        await sendToken(other, { from: treasury, to: payer, amount: 1n })
        const transaction = await sendToken(other, { from: treasury, to: payer, amount: AMOUNT })
        await other.stop()
        return { transaction }
      },
      /No block of eip155:8453 contains/,
    ],
    [
      'of a payment on another network',
      async (payer) => ({ transaction: await send(payer), payment: { network: 'eip155:1' } }),
      /on eip155:1, and refunds are proven on eip155:8453/,
    ],
    [
      'before the block of the payment',
      async (payer) => ({ transaction: await send(payer), payment: { blockNumber: 10n ** 9n } }),
      /older than the payment/,
    ],
    [
      'a minute and more before the payment was signed',
      async (payer) => ({ transaction: await send(payer), payment: { paidAfter: new Date('2300-01-01') } }),
      /older than the payment/,
    ],
    [
      'while no node answers',
      async (payer) => ({ transaction: await send(payer), reader: createRefundReader(deadClient(), []) }),
      /cannot be read/,
    ],
  ]

  it('is refused with a sentence of its own for everything that it does not prove', async () => {
    const prepared: { reason: string; payer: Address; attempt: Attempt; sentence: RegExp }[] = []
    for (const [reason, attempt, sentence] of attempts) {
      const payer = randomAddress()
      prepared.push({ reason, payer, attempt: await attempt(payer), sentence })
    }
    await finalizeBlocks(devnet)
    const recent = randomAddress()
    prepared.push({
      reason: 'that is not final',
      payer: recent,
      attempt: { transaction: await send(recent) },
      sentence: /not final yet/,
    })
    for (const { reason, payer, attempt, sentence } of prepared) {
      const proof = await proveRefund(attempt.reader ?? refunds, attempt.transaction, paymentOf(payer, attempt.payment))
      expect([reason, proof]).toMatchObject([reason, { outcome: 'refused', sentence: expect.stringMatching(sentence) }])
    }
  })
})

async function resolve(id: string, transaction: string) {
  const name = parseItemName(id)
  if (!name) throw new Error(`${id} is no name`)
  const store = createResolutionStore(ledger.pool)
  const decision = { outcome: 'refunded', reason: 'the result is lost', refundTransaction: transaction } as const
  return await resolveItem({ store, refunds }, name, decision, ANNA)
}

describe('an item that is refunded', () => {
  it('is ended by its proven transfer, which refunds no second item', async () => {
    const { id, request } = await inReview(ledger)
    const second = await surplusSettlement(ledger, requestOf(request.authorization.payer))
    const transaction = await send(request.authorization.payer)
    expect(await resolve(id, transaction)).toMatchObject({
      outcome: 'refused',
      sentence: expect.stringMatching(/not final/),
    })
    await finalizeBlocks(devnet)
    expect(await resolve(id, transaction)).toMatchObject({
      outcome: 'resolved',
      resolution: { outcome: 'refunded', refundTransaction: transaction, amount: AMOUNT },
    })
    expect(await resolve(id, transaction)).toMatchObject({
      outcome: 'refused',
      sentence: expect.stringMatching(
        new RegExp(`^anna ended this item at .*: refunded in ${transaction} \\(the result is lost\\)`),
      ),
    })
    expect(await resolve(second.id, transaction)).toMatchObject({
      outcome: 'refused',
      field: 'refund_transaction',
      sentence: `This transfer refunds another item already: ${id}.`,
    })
  })

  it('needs the amount that was charged, not the one that was authorized', async () => {
    const { id, request } = await unknownSettlement(ledger, { blockNumber: 1n })
    const whole = await send(request.authorization.payer, AMOUNT)
    const exact = await send(request.authorization.payer, 4000n)
    await finalizeBlocks(devnet)
    expect(await resolve(id, whole)).toMatchObject({
      outcome: 'refused',
      sentence: expect.stringMatching(/exactly 0\.004 USDC/),
    })
    expect(await resolve(id, exact)).toMatchObject({ outcome: 'resolved' })
  })

  it('is ended once by operators who refund it at the same time', async () => {
    const { id, request } = await inReview(ledger)
    const transactions = [await send(request.authorization.payer), await send(request.authorization.payer)]
    await finalizeBlocks(devnet)
    const results = await Promise.all([...transactions, ...transactions].map((transaction) => resolve(id, transaction)))
    const sentences = results
      .map((result) => (result.outcome === 'refused' ? result.sentence : result.outcome))
      .toSorted()
    const ended = expect.stringMatching(/^anna ended this item at /)
    expect(sentences).toEqual([ended, ended, ended, 'resolved'])
  })

  it.each([
    [{ outcome: 'refunded', reason: ' ', refundTransaction: '' }, 'reason'],
    [{ outcome: 'refunded', reason: 'x'.repeat(1001), refundTransaction: '' }, 'reason'],
    [{ outcome: 'refunded', reason: 'a\0b', refundTransaction: '' }, 'reason'],
    [{ outcome: 'refunded', reason: 'ok', refundTransaction: '' }, 'refund_transaction'],
    [{ outcome: 'paid_outside', reason: 'ok', refundTransaction: '0x12' }, 'refund_transaction'],
    [{ outcome: 'forgiven', reason: 'ok', refundTransaction: '' }, 'outcome'],
  ] as const)('is not ended by a decision that lacks something (%#)', async (decision, field) => {
    const { id } = await inReview(ledger)
    const name = parseItemName(id)
    if (!name) throw new Error(`${id} is no name`)
    const store = createResolutionStore(ledger.pool)
    expect(await resolveItem({ store, refunds }, name, decision, ANNA)).toMatchObject({ outcome: 'refused', field })
    expect((await store.findItem(name))?.resolution).toBeNull()
  })
})

/** Returns a token with the code of USDC at another address. */
async function otherToken(): Promise<Address> {
  const token = randomAddress()
  const code = await callRpc<Hex>(devnet.rpcUrl, 'eth_getCode', [DEVNET_ADDRESSES.usdc, 'latest'])
  await callRpc(devnet.rpcUrl, 'anvil_setCode', [token, code])
  // A transfer of nothing needs no balance; the amount is compared after the asset.
  return token
}

async function emptyTransaction(): Promise<Hex> {
  const [from] = await callRpc<readonly Address[]>(devnet.rpcUrl, 'eth_accounts', [])
  if (!from) throw new Error('the devnet has accounts')
  const hash = await callRpc<Hex>(devnet.rpcUrl, 'eth_sendTransaction', [{ from, to: randomAddress(), value: '0x1' }])
  await devnet.client.waitForTransactionReceipt({ hash })
  return hash
}

function deadClient() {
  return createChainReader('http://127.0.0.1:1').client
}
