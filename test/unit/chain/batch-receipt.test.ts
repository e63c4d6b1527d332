import { encodeAbiParameters, encodeEventTopics, type Hex, type Log } from 'viem'
import { expect, it } from 'vitest'
import { batchSettlementAbi, USDC_ADDRESS, usdcAbi } from '#shared/adapters/chain/network/contracts.ts'
import { isPaymentOf, paymentsOfReceipt, transferOf } from '#shared/adapters/chain/settlement-contract/batch-receipt.ts'

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
  topics: encodeEventTopics({ abi: batchSettlementAbi, eventName: 'PaymentSettled', args: { payer } }),
  data: words(nonce, 70_000n),
})
const failed = (nonce: bigint) => ({
  address: CONTRACT,
  topics: encodeEventTopics({ abi: batchSettlementAbi, eventName: 'PaymentFailed', args: { payer: PAYER } }),
  data: words(nonce, 30_000n, 0n),
})
const receipt = (...logs: readonly object[]) => ({ to: CONTRACT, logs: logs as Log<bigint, number, false>[] })
const payment = (nonce: bigint) => ({ payer: PAYER, payTo: PAY_TO, asset: USDC, nonce })

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
