import { encodeAbiParameters, encodeEventTopics, type Log, numberToHex, pad } from 'viem'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { batchSettlementAbi, USDC_ADDRESS, usdcAbi } from '#shared/adapters/chain/network/contracts.ts'
import { findPaymentTransfers } from '../../../client/receipts/payment-transfers.ts'
import { findPayments, logSchema } from '../../../infra/commands/verify-receipt/find-payments.ts'

const address = (digit: string) => `0x${digit.repeat(40)}` as const
const [CONTRACT, OTHER_CONTRACT, PAYER, OTHER_PAYER, PAY_TO] = ['c', 'd', 'a', '9', 'b'].map(address) as [
  `0x${string}`,
  `0x${string}`,
  `0x${string}`,
  `0x${string}`,
  `0x${string}`,
]
const RECEIPT = { asset: USDC_ADDRESS, payer: PAYER, pay_to: PAY_TO }

type Event = Pick<Log, 'address' | 'topics' | 'data'>

const transfer = (value: bigint, from = PAYER, to = PAY_TO, token: `0x${string}` = USDC_ADDRESS): Event => ({
  address: token,
  topics: encodeEventTopics({ abi: usdcAbi, eventName: 'Transfer', args: { from, to } }) as Event['topics'],
  data: pad(numberToHex(value)),
})

const settled = (payer = PAYER, from = CONTRACT): Event => ({
  address: from,
  topics: encodeEventTopics({
    abi: batchSettlementAbi,
    eventName: 'PaymentSettled',
    args: { payer },
  }) as Event['topics'],
  data: encodeAbiParameters([{ type: 'uint256' }, { type: 'uint256' }], [7n, 90_000n]),
})

const failed = (payer = PAYER, from = CONTRACT): Event => ({
  address: from,
  topics: encodeEventTopics({
    abi: batchSettlementAbi,
    eventName: 'PaymentFailed',
    args: { payer },
  }) as Event['topics'],
  data: encodeAbiParameters(
    [{ type: 'uint256' }, { type: 'uint256' }, { type: 'bytes4' }],
    [7n, 90_000n, '0x00000000'],
  ),
})

/** What the library and the command, which share no code, each read from the events of a transaction to `to`. */
async function bothRead(events: readonly Event[], to: `0x${string}`) {
  const logs = events.map((event, logIndex) => ({ ...event, logIndex: logIndex + 3 }))
  const hexadecimal = logs.map((log) => ({ ...log, logIndex: numberToHex(log.logIndex) }))
  const command = findPayments(RECEIPT, to, z.array(logSchema).parse(hexadecimal))
  expect(await findPaymentTransfers(RECEIPT, { to, logs: logs as never })).toEqual(command)
  return command
}

describe('the payments of a receipt’s payer in a transaction', () => {
  it.each<[string, readonly Event[], readonly (readonly bigint[])[], number | null]>([
    ['none without events', [], [[]], null],
    ['one that a key settled by itself', [transfer(5n)], [[5n]], null],
    ['both transfers of one payment', [transfer(5n), transfer(5n)], [[5n, 5n]], null],
    ['one alone in a batch', [transfer(5n), settled()], [[5n]], 1],
    ['two of equal amounts, told apart', [transfer(5n), settled(), transfer(5n), settled()], [[5n], [5n]], 2],
    ['two transfers of one payment', [transfer(5n), transfer(5n), settled(), settled()], [[5n, 5n]], 2],
    [
      'none of others',
      [transfer(5n, OTHER_PAYER), settled(OTHER_PAYER), transfer(5n, PAYER, OTHER_PAYER), settled()],
      [],
      2,
    ],
    ['none in another token', [transfer(5n, PAYER, PAY_TO, OTHER_CONTRACT), settled()], [], 1],
    ['none that failed', [transfer(5n), failed(), transfer(6n), settled()], [[6n]], 2],
    ['none that the contract reports for another payer', [transfer(5n), settled(OTHER_PAYER)], [], 1],
    ['none after the last report', [settled(), transfer(5n)], [], 1],
    [
      'all when another contract reports',
      [transfer(5n), settled(PAYER, OTHER_CONTRACT), transfer(5n)],
      [[5n, 5n]],
      null,
    ],
  ])('%s', async (_, events, payments, batchSize) => {
    expect(await bothRead(events, CONTRACT)).toEqual({ payments, batchSize })
  })
})
