import fc from 'fast-check'
import { concatHex, type Hex, isAddressEqual, parseEventLogs, size, slice, toHex } from 'viem'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { batchSettlementAbi, usdcAbi } from '#shared/adapters/chain/network/contracts.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import { secondsFromNow } from '../../support/payer/sign-authorization.ts'
import { type BatchChain, type Item, itemOf, type MinedBatch, newAddress, startBatchChain } from './batch-chain.ts'

/** Batches that are mined; each has up to twelve payments. */
const BATCHES = 60

let chain: BatchChain
let payers: readonly Payer[]
let unapproved: Payer
beforeAll(async () => {
  chain = await startBatchChain()
  const funds = { approved: true, usdcAtomic: 1_000_000_000n }
  payers = [await createPayer(chain.rpcUrl, funds), await createPayer(chain.rpcUrl, funds)]
  unapproved = await createPayer(chain.rpcUrl)
})
afterAll(() => chain.stop())

/** A payment of a batch: what is wrong with it, and whose it is. */
const KINDS = ['good', 'repeated', 'expired', 'foreign', 'starved', 'unapproved', 'excessive', 'misSigned'] as const
const payment = fc.record({
  kind: fc.constantFrom(...KINDS),
  by: fc.nat({ max: 1 }),
  charge: fc.integer({ min: 1, max: 5034 }),
})
type Payment = typeof payment extends fc.Arbitrary<infer Value> ? Value : never

async function toItem({ kind, by, charge }: Payment, earlier: readonly Item[]): Promise<Item> {
  const payer = payers[by] as Payer
  const terms = { charge: atomicAmount(BigInt(charge)) }
  switch (kind) {
    case 'good':
      return itemOf(await chain.signFor(payer), terms)
    case 'repeated':
      return earlier.at(-1) ?? itemOf(await chain.signFor(payer), terms)
    case 'expired':
      return itemOf(await chain.signFor(payer, { deadline: secondsFromNow(-5000) }), terms)
    case 'foreign':
      return itemOf(await chain.signFor(payer, { facilitator: newAddress() }), terms)
    case 'starved':
      return itemOf(await chain.signFor(payer), { ...terms, gas: 30_000n })
    case 'unapproved':
      return itemOf(await chain.signFor(unapproved), terms)
    case 'excessive':
      return itemOf(await chain.signFor(payer, { authorizedMaximum: BigInt(charge) - 1n }), terms)
    case 'misSigned':
      return itemOf(await chain.signFor(payer, { signer: unapproved.account }), terms)
  }
}

/** Returns the transfers to the recipient between the contract's events: for each payment those that precede its own. */
function transfersBefore({ receipt }: MinedBatch): { settled: boolean; payer: Hex; values: bigint[]; froms: Hex[] }[] {
  const found: ReturnType<typeof transfersBefore> = []
  let [values, froms]: [bigint[], Hex[]] = [[], []]
  for (const log of receipt.logs) {
    const [own] = parseEventLogs({ abi: batchSettlementAbi, logs: [log] })
    if (own !== undefined && isAddressEqual(log.address, chain.contract)) {
      if (own.eventName !== 'PaymentSettled' && own.eventName !== 'PaymentFailed') throw new Error(own.eventName)
      found.push({ settled: own.eventName === 'PaymentSettled', payer: own.args.payer, values, froms })
      ;[values, froms] = [[], []]
    }
    for (const { args } of parseEventLogs({ abi: usdcAbi, eventName: 'Transfer', logs: [log] })) {
      values.push(args.value)
      froms.push(args.from)
    }
  }
  return found
}

describe('any batch', () => {
  it('settles exactly the payments that can be settled, each with its own transfer before its event', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(payment, { minLength: 1, maxLength: 12 }), async (payments) => {
        const items: Item[] = []
        for (const each of payments) items.push(await toItem(each, items))
        const model = payments.map(({ kind }, index) => {
          const isFirst = items.indexOf(items[index] as Item) === index
          return isFirst && (kind === 'good' || (kind === 'repeated' && index === 0))
        })
        const mined = await chain.settleMany(items)
        expect(mined.receipt.status).toBe('success')
        const found = transfersBefore(mined)
        expect(found.map(({ settled }) => settled)).toEqual(model)
        for (const [index, { settled, payer, values, froms }] of found.entries()) {
          expect(values).toEqual(settled ? [BigInt(payments[index]?.charge ?? 0)] : [])
          expect(froms).toEqual(settled ? [payer] : [])
        }
      }),
      { numRuns: BATCHES },
    )
  })

  it('survives any bytes in the place of a settlement: it reverts for what is none, else only that payment can fail', async () => {
    const good = await chain.signFor(payers[0] as Payer)
    const base = itemOf(good)
    const mutation = fc.record({
      at: fc.nat({ max: size(base.call) }),
      bytes: fc.uint8Array({ maxLength: 40 }),
      keep: fc.integer({ min: -64, max: 64 }),
    })
    const [first, last] = [await chain.signFor(payers[0] as Payer), await chain.signFor(payers[1] as Payer)]
    await fc.assert(
      fc.asyncProperty(mutation, async ({ at, bytes, keep }) => {
        const rest = Math.min(Math.max(at + bytes.length + keep, 0), size(base.call))
        const call = concatHex([part(base.call, 0, at), toHex(bytes), part(base.call, rest, size(base.call))])
        const items = [itemOf(first), { gas: base.gas, call }, itemOf(last)]
        const error = await chain.errorOf({ functionName: 'settleMany', args: [items] })
        const [one, , three] = error === null ? await chain.simulateMany(items) : []
        expect(error ?? [one?.succeeds, three?.succeeds]).toEqual(error === null ? [true, true] : 'NotASettlement(1)')
      }),
      { numRuns: 300 },
    )
  })
})

/** As `slice`, which refuses an empty part. */
function part(bytes: Hex, from: number, to: number): Hex {
  return from >= to ? '0x' : slice(bytes, from, to)
}
