import fc from 'fast-check'
import { encodeAbiParameters, encodeEventTopics, type Hex, HttpRequestError, type Log, RpcRequestError } from 'viem'
import { describe, expect, it } from 'vitest'
import { settlementContractAbi, USDC_ADDRESS, usdcAbi } from '#shared/chain/network/contracts.ts'
import {
  isAlreadySent,
  isMissingBlock,
  isPoolFull,
  isRateLimit,
  isTooLarge,
} from '#shared/chain/network/rpc-failure.ts'
import { isPaymentOf, paymentsOfReceipt, transferOf } from '#shared/chain/settlement-contract/batch-receipt.ts'
import { shareOfGas } from '#shared/chain/settlement-contract/share-of-gas.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'

const [CONTRACT, OTHER, PAYER, PAY_TO] = ['1', '2', '3', '4'].map((digit) => `0x${digit.repeat(40)}` as const) as [
  Hex,
  Hex,
  Hex,
  Hex,
]
const USDC: Hex = USDC_ADDRESS
const words = (...values: readonly bigint[]) =>
  encodeAbiParameters(
    values.map(() => ({ type: 'uint256' })),
    values,
  )
const transfer = (value: bigint, { from = PAYER, to = PAY_TO, address = USDC } = {}) => ({
  address,
  topics: encodeEventTopics({ abi: usdcAbi, eventName: 'Transfer', args: { from, to } }),
  data: words(value),
})
const settled = (nonce: bigint, { address = CONTRACT, payer = PAYER } = {}) => ({
  address,
  topics: encodeEventTopics({ abi: settlementContractAbi, eventName: 'PaymentSettled', args: { payer } }),
  data: words(nonce, 70_000n),
})
const failed = (nonce: bigint) => ({
  address: CONTRACT,
  topics: encodeEventTopics({ abi: settlementContractAbi, eventName: 'PaymentFailed', args: { payer: PAYER } }),
  data: words(nonce, 30_000n, 0n),
})
const receipt = (...logs: readonly object[]) => ({ to: CONTRACT, logs: logs as Log<bigint, number, false>[] })
const payment = (nonce: bigint) => ({ payer: PAYER, payTo: PAY_TO, asset: USDC, nonce })
const spent = (gasUsed: bigint, cost: bigint) => ({ gasUsed, effectiveGasPrice: 7n, cost: atomicAmount(cost) })
const amount = fc.bigInt(0n, 10n ** 9n)
const only = (count: number, position: number) => Array.from({ length: count }, (_, index) => index === position)
const url = 'http://127.0.0.1'
const nodeError = (message: string, code = -32_000) => new RpcRequestError({ body: {}, url, error: { code, message } })

describe('the receipt of a batch', () => {
  it('gives each payment the transfers since the event before its own', () => {
    const payments = paymentsOfReceipt(receipt(transfer(5n), settled(1n), failed(2n), transfer(5n), settled(3n)))
    expect(payments).toMatchObject([
      { nonce: 1n, isSettled: true, gasUsed: 70_000n, transfers: [{ value: 5n }] },
      { nonce: 2n, isSettled: false, gasUsed: 30_000n, transfers: [] },
      { nonce: 3n, isSettled: true, transfers: [{ value: 5n }] },
    ])
    expect(transferOf(payments, payment(1n))).toEqual({ asset: USDC_ADDRESS, from: PAYER, to: PAY_TO, value: 5n })
    expect(transferOf(payments, payment(2n))).toBeUndefined()
  })

  it('counts events of the called contract only, wherever another contract emits the same', () => {
    const payments = paymentsOfReceipt(
      receipt(transfer(5n), settled(9n, { address: OTHER }), settled(1n), settled(9n, { address: OTHER })),
    )
    expect(payments.map(({ nonce }) => nonce)).toEqual([1n])
    expect(transferOf(payments, payment(1n))?.value).toBe(5n)
    expect(paymentsOfReceipt({ ...receipt(settled(1n)), to: null })).toEqual([])
  })

  it('does not take a transfer of another token, payer or recipient for the payment', () => {
    const others = [transfer(5n, { address: OTHER }), transfer(5n, { from: OTHER }), transfer(5n, { to: OTHER })]
    expect(transferOf(paymentsOfReceipt(receipt(...others, settled(1n))), payment(1n))).toBeUndefined()
  })

  it('does not take a settled payment of another payer with the same nonce for it', () => {
    const payments = paymentsOfReceipt(receipt(transfer(5n), settled(1n, { payer: OTHER })))
    expect(payments.some((reported) => isPaymentOf(reported, payment(1n)))).toBe(false)
    expect(transferOf(payments, payment(1n))).toBeUndefined()
  })

  it('does not take a payment that failed for settled, whatever precedes its event', () => {
    expect(transferOf(paymentsOfReceipt(receipt(transfer(5n), failed(1n))), payment(1n))).toBeUndefined()
  })

  it('does not count a transfer after the last event', () => {
    expect(transferOf(paymentsOfReceipt(receipt(settled(1n), transfer(5n))), payment(1n))).toBeUndefined()
  })
})

describe('a charge’s share of the gas', () => {
  it('divides all of the gas and all of its cost, whatever the weights are', () => {
    fc.assert(
      fc.property(amount, amount, fc.array(amount, { minLength: 1, maxLength: 100 }), (gasUsed, cost, weights) => {
        const parts = weights.map((_, position) =>
          shareOfGas(spent(gasUsed, cost), weights, only(weights.length, position)),
        )
        expect(parts.reduce((sum, part) => sum + part.gasUsed, 0n)).toBe(gasUsed)
        expect(parts.reduce((sum, part) => sum + part.cost, 0n)).toBe(cost)
        expect(parts.every((part) => part.gasUsed >= 0n && part.cost >= 0n)).toBe(true)
      }),
    )
  })

  it('divides in proportion to the weights, rounded by less than one', () => {
    expect([0, 1, 2].map((position) => shareOfGas(spent(1000n, 11n), [1n, 2n, 7n], only(3, position)))).toEqual([
      { gasUsed: 100n, effectiveGasPrice: 7n, cost: 1n },
      { gasUsed: 200n, effectiveGasPrice: 7n, cost: 2n },
      { gasUsed: 700n, effectiveGasPrice: 7n, cost: 8n },
    ])
  })

  it('divides equally while no weight is known, and gives nothing to a payment that is not in the batch', () => {
    expect(shareOfGas(spent(10n, 4n), [0n, 0n], [true, false])).toMatchObject({ gasUsed: 5n, cost: 2n })
    expect(shareOfGas(spent(10n, 4n), [1n, 1n], [false, false])).toMatchObject({ gasUsed: 0n, cost: 0n })
    expect(shareOfGas(spent(10n, 4n), [], [])).toMatchObject({ gasUsed: 0n, cost: 0n })
  })
})

describe('failures of the node', () => {
  it.each([
    ['daily request count exceeded, request rate limited'],
    ['project ID request rate exceeded'],
    ['Too Many Requests'],
    ['Your app has exceeded its compute units per second capacity'],
    ['50/second request limit reached - reduce calls per second'],
    ['over rate limit'],
  ])('recognizes "%s" as the refusal of a key rather than of a call', (message) => {
    expect(isRateLimit(nodeError(message))).toBe(true)
  })

  it.each([
    ['nonce too low'],
    ['query returned more than 10000 results'],
    ['method handler crashed'],
    ['execution reverted: rate limit'],
  ])('does not take "%s" for a rate limit', (message) => {
    expect(isRateLimit(nodeError(message))).toBe(false)
  })

  it('recognizes a gateway that refuses a key for its rate by its status', () => {
    expect(isRateLimit(new HttpRequestError({ url, status: 429 }))).toBe(true)
    expect(isRateLimit(new HttpRequestError({ url, status: 503 }))).toBe(false)
  })

  // reth: "txpool is full" with -32003 for a sender with too many; geth: both, with -32000 (core/txpool/errors.go and
  // legacypool.go, read on 2026-11-25).
  it.each([
    ['txpool is full', -32_003],
    ['txpool is full', -32_000],
    ['in-flight transaction limit reached for delegated accounts', -32_000],
    ['Transaction pool is full', -32_000],
  ])('recognizes "%s" (%i) as a pool without room', (message, code) => {
    expect(isPoolFull(nodeError(message, code))).toBe(true)
    expect(isRateLimit(nodeError(message, code))).toBe(false)
  })

  it.each([
    ['replacement transaction underpriced'],
    ['already known'],
    ['transaction underpriced'],
    ['nonce too low'],
    ['execution reverted: txpool is full'],
  ])('does not take "%s" for a pool without room', (message) => {
    expect(isPoolFull(nodeError(message))).toBe(false)
  })

  it('takes a replacement that is refused for its price as sent: the pool has another one of ours', () => {
    expect(isAlreadySent(nodeError('replacement transaction underpriced'))).toBe(true)
  })

  it('does not take the text of a revert, which a payer may have written, for an error of the node', () => {
    expect(isMissingBlock(nodeError('header not found'))).toBe(true)
    expect(isMissingBlock(nodeError('execution reverted: header not found'))).toBe(false)
    expect(isMissingBlock(nodeError('block not found', 3))).toBe(false)
  })

  it.each([
    ['oversized data: transaction size 131100, limit 131072'],
    ['exceeds block gas limit'],
    ['transaction gas limit too high (cap: 16777216, tx: 17000000)'],
    ['transaction gas limit (17000000) is greater than the cap (16777216)'],
    ['transaction\u2019s gas limit 40000000 exceeds block\u2019s gas limit 30000000'],
    ["transaction's gas limit 17000000 exceeds the max allowed per transaction gas limit 16777216"],
    ['Transaction gas limit is greater than the block gas limit, gas_limit: 40000000'],
    ['intrinsic gas too high -- tx.gas > env.block.gas_limit'],
    ['MaxTxSizeExceeded'],
    ['TxGasLimitCapExceeded'],
    ['EXCEEDS_BLOCK_GAS_LIMIT'],
    ['request entity too large'],
  ])('recognizes "%s" as a refusal of the size', (message) => {
    expect(isTooLarge(nodeError(message))).toBe(true)
  })

  it.each([
    ['intrinsic gas too low: gas 21000, minimum needed 60000'],
    ['call gas cost (60000) exceeds the gas limit (21000)'],
    ['insufficient funds for gas * price + value'],
    ['max fee per gas less than block base fee'],
    ['replacement transaction underpriced'],
    ['execution reverted: request body too large'],
  ])('does not take "%s" for a refusal of the size', (message) => {
    expect(isTooLarge(nodeError(message))).toBe(false)
  })

  it('recognizes a gateway that refuses the size of a request by its status', () => {
    expect(isTooLarge(new HttpRequestError({ url, status: 413 }))).toBe(true)
    expect(isTooLarge(new HttpRequestError({ url, status: 502, details: 'payload too large' }))).toBe(false)
  })
})
