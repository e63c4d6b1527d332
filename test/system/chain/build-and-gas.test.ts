import { readdir } from 'node:fs/promises'
import fc from 'fast-check'
import {
  type AbiEvent,
  type AbiFunction,
  concatHex,
  type Hex,
  isAddressEqual,
  keccak256,
  parseEventLogs,
  size,
  slice,
  toEventSelector,
  toFunctionSelector,
  toHex,
} from 'viem'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { SETTLEMENT_CONTRACT_CODE_HASH, settlementContractAbi, usdcAbi } from '#shared/chain/network/contracts.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import { readSettlementArtifact, type SettlementArtifact } from '../../../infra/contracts/settlement-artifact.ts'
import { memoryGas, reasonOfGas, stubProxy, stubProxyWithBytes } from '../../integration/contracts/proxy-stub.ts'
import {
  type BatchChain,
  CHARGE,
  type Item,
  itemOf,
  type MinedBatch,
  newAddress,
  startBatchChain,
} from '../../support/chain/batch-chain.ts'
import { createDelegatingPayer } from '../../support/chain/delegating-payer.ts'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import { secondsFromNow } from '../../support/payer/sign-authorization.ts'

function describeItem(item: SettlementArtifact['abi'][number]): string {
  if (item.type === 'function') return `function ${toFunctionSelector(item)} ${outputsOf(item)}`
  if (item.type === 'event') return `event ${toEventSelector(item)} ${indexedOf(item)}`
  if (item.type === 'error') return `error ${item.name}(${item.inputs.map(({ type }) => type).join()})`
  return item.type
}
const outputsOf = ({ outputs, stateMutability }: AbiFunction) =>
  JSON.stringify([outputs.map(({ type }) => type), stateMutability])
const indexedOf = ({ inputs }: AbiEvent) => JSON.stringify(inputs.map(({ indexed = false }) => indexed))
/** Returns the opcodes of a code, without the operands of PUSH instructions. */
function instructionsOf(code: `0x${string}`): ReadonlySet<number> {
  const bytes = Buffer.from(code.slice(2), 'hex')
  const found = new Set<number>()
  for (let at = 0; at < bytes.length; at++) {
    const opcode = bytes.readUInt8(at)
    found.add(opcode)
    if (opcode >= 0x60 && opcode <= 0x7f) at += opcode - 0x5f
  }
  return found
}
/** The gas limit that is enough for a batch, as the service computes it. */
function batchGas(items: readonly Item[]): bigint {
  const caps = items.map(({ gas }) => gas)
  const largest = caps.reduce((one, other) => (one > other ? one : other), 0n)
  return 21_000n + caps.reduce((sum, cap) => sum + cap + 14_000n, 0n) + largest / 63n + 15_000n
}
/** Batches that are mined; each has up to twelve payments. */
const BATCHES = 60
/** A payment of a batch: what is wrong with it, and whose it is. */
const KINDS = [
  'good',
  'repeated',
  'expired',
  'foreign',
  'starved',
  'unapproved',
  'excessive',
  'misSigned',
  'lasting',
  'lastingMisSigned',
  'lastingStarved',
] as const
const payment = fc.record({
  kind: fc.constantFrom(...KINDS),
  by: fc.nat({ max: 1 }),
  charge: fc.integer({ min: 1, max: 5034 }),
})
type Payment = typeof payment extends fc.Arbitrary<infer Value> ? Value : never
const LASTING = { gasSponsored: true, permitAmount: 2n ** 200n } as const
/** As `slice`, which refuses an empty part. */
function part(bytes: Hex, from: number, to: number): Hex {
  return from >= to ? '0x' : slice(bytes, from, to)
}

describe('the artifact of the settlement contract', () => {
  let artifact: SettlementArtifact
  beforeAll(async () => {
    artifact = await readSettlementArtifact()
  })

  it('has the code whose hash API and workers require', () => {
    expect(keccak256(artifact.runtimeCode)).toBe(SETTLEMENT_CONTRACT_CODE_HASH)
    expect(artifact.runtimeCodeHash).toBe(SETTLEMENT_CONTRACT_CODE_HASH)
  })

  it('has every function, event and error that the service uses', () => {
    const own = new Set(artifact.abi.map(describeItem))
    for (const item of settlementContractAbi) expect(own).toContain(describeItem(item as never))
  })

  it('takes no native token, delegates to no code and cannot be destroyed', async () => {
    for (const item of artifact.abi) expect('stateMutability' in item && item.stateMutability).not.toBe('payable')
    expect(artifact.abi.some(({ type }) => type === 'receive' || type === 'fallback')).toBe(false)
    const opcodes = instructionsOf(artifact.runtimeCode)
    for (const forbidden of [0xf0, 0xf2, 0xf4, 0xf5, 0xff]) expect(opcodes).not.toContain(forbidden)
    expect(await readdir(new URL('../../../infra/contracts/', import.meta.url))).toContain('SettlementContract.sol')
  })
})

describe('gas of the contract', () => {
  let chain: BatchChain
  let payer: Payer
  let settleCall: Hex
  beforeAll(async () => {
    chain = await startBatchChain()
    payer = await createPayer(chain.rpcUrl, { approved: true, usdcAtomic: 10_000_000n })
    settleCall = itemOf(await chain.signFor(payer)).call
  })

  afterAll(() => chain.stop())

  /** Undoes what a test does to the chain. */
  async function onSnapshot(test: () => Promise<void>): Promise<void> {
    const snapshot = await chain.snapshot()
    try {
      await test()
    } finally {
      await chain.revert(snapshot)
    }
  }
  const reasons = async (items: readonly Item[], gas: bigint) => {
    const { receipt, results } = await chain.settleMany(items, gas)
    return receipt.status === 'reverted' ? 'reverted' : results.map(({ reason }) => reason)
  }
  /** The gas of a settlement whose proxy does nothing but end with so many bytes. */
  async function gasOfBytes(bytes: number, end: 'revert' | 'return'): Promise<bigint> {
    await stubProxyWithBytes(chain.rpcUrl, bytes, end)
    const { results } = await chain.settleMany([{ gas: 1_000_000n, call: settleCall }])
    return results[0]?.gasUsed ?? 0n
  }
  describe('the gas of a batch', () => {
    it('gives every payment exactly its cap or reverts as a whole, whichever position the gas ends at', () =>
      onSnapshot(async () => {
        await stubProxy(chain.rpcUrl, { burns: true })
        const items = [40_000n, 55_000n, 30_000n, 70_000n, 45_000n].map((gas) => ({ gas, call: settleCall }))
        const expected = items.map(({ gas }) => reasonOfGas(gas))
        const positions = new Set<string | null>()
        let [reverted, complete] = [0, 0]
        for (let gas = 100_000n; gas <= batchGas(items); gas += 3_301n) {
          const outcome = await reasons(items, gas)
          if (outcome === 'reverted') reverted++
          else complete++
          expect(outcome === 'reverted' ? expected : outcome).toEqual(expected)
          positions.add(await chain.errorOf({ functionName: 'settleMany', args: [items] }, { gas }))
        }
        expect(reverted).toBeGreaterThan(20)
        expect(complete).toBeGreaterThan(3)
        for (const position of items.keys()) expect(positions).toContain(`TooLittleGas(${position})`)
      }))

    it('is enough by the formula of the service, for any caps, sizes and calldata', () =>
      onSnapshot(async () => {
        const fullCall = concatHex([slice(settleCall, 0, 4), `0x${'ff'.repeat(4 + 16 * 32)}`])
        for (const burns of [true, false]) {
          await stubProxy(chain.rpcUrl, { burns })
          for (const caps of [[300_000n], [200_000n, 300_000n], [1n, 2n, 500_000n], Array<bigint>(60).fill(50_000n)]) {
            const items = caps.map((gas) => ({ gas: gas < 1000n ? 1000n : gas, call: fullCall }))
            const gas = batchGas(items)
            expect(await reasons(items, gas)).toEqual(items.map((item) => reasonOfGas(item.gas)))
          }
        }
      }))

    it('is refused for a cap that no call can be given', async () => {
      const cap = { gas: 2n ** 256n - 1n, call: settleCall }
      for (const functionName of ['settleMany', 'simulateMany'] as const) {
        const args = [[itemOf(await chain.signFor(payer)), cap]] as const
        expect(await chain.errorOf({ functionName, args })).toBe('TooLittleGas(1)')
      }
    })

    it('copies nothing but four bytes of what a settlement returns: its size costs only the settlement itself', () =>
      onSnapshot(async () => {
        for (const end of ['revert', 'return'] as const)
          expect((await gasOfBytes(400_000, end)) - (await gasOfBytes(0, end))).toBe(memoryGas(400_000))
      }))

    it('ends a payment whose cap is too small without touching its neighbors', async () => {
      const [first, starved, last] = [
        await chain.signFor(payer),
        await chain.signFor(payer),
        await chain.signFor(payer),
      ]
      for (const gas of [0n, 1n, 700n, 5000n, 20_000n, 40_000n]) {
        const items = [itemOf(first), itemOf(starved, { gas }), itemOf(last)]
        expect((await chain.simulateMany(items)).map(({ succeeds }) => succeeds)).toEqual([true, false, true])
      }
      const before = await chain.usdcBalance(chain.accounts.recipient.address)
      const { results } = await chain.settleMany([itemOf(first), itemOf(starved, { gas: 40_000n }), itemOf(last)])
      expect(results.map(({ settled }) => settled)).toEqual([true, false, true])
      expect(await chain.isPermit2NonceUsed(payer.address, starved.nonce)).toBe(false)
      expect((await chain.usdcBalance(chain.accounts.recipient.address)) - before).toBe(2n * CHARGE)
    })

    it('reports no reason for a payment that ran out of gas, not that of the payment before it', async () => {
      const foreign = await chain.signFor(payer, { facilitator: chain.key })
      const items = [itemOf(await chain.signFor(payer), { gas: 0n }), itemOf(foreign), itemOf(foreign, { gas: 0n })]
      const expected = ['0x00000000', toFunctionSelector('UnauthorizedFacilitator()'), '0x00000000']
      expect((await chain.settleMany(items)).results.map(({ reason }) => reason)).toEqual(expected)
      expect((await chain.simulateMany(items)).map(({ reason }) => reason)).toEqual(expected)
    })
  })

  describe('a payer whose account has code', () => {
    it('pays with nothing but its own cap for code that burns gas, at any position', async () => {
      const hostile = await createDelegatingPayer(chain.rpcUrl)
      await hostile.setMode('burns_gas')
      for (const position of [0, 1, 2]) {
        const items: Item[] = [itemOf(await chain.signFor(payer)), itemOf(await chain.signFor(payer))]
        items.splice(position, 0, itemOf(await chain.signFor(hostile), { gas: 200_000n }))
        const { results } = await chain.settleMany(items, batchGas(items))
        expect(results.map(({ settled }) => settled)).toEqual([0, 1, 2].map((index) => index !== position))
        const burned = results[position]?.gasUsed ?? 0n
        expect(burned).toBeGreaterThan(195_000n)
        expect(burned).toBeLessThan(204_000n)
      }
    })

    it('cannot harm the batch by reverting with much data', async () => {
      const hostile = await createDelegatingPayer(chain.rpcUrl)
      await hostile.setMode('reverts_with_bytes', 250_000n)
      const items = [itemOf(await chain.signFor(hostile), { gas: 1_500_000n }), itemOf(await chain.signFor(payer))]
      const { results } = await chain.settleMany(items, batchGas(items))
      expect(results.map(({ settled }) => settled)).toEqual([false, true])
    })

    it('reports a call that was given as much gas as it needs, and not less, to code that measures it', async () => {
      const measuring = await createDelegatingPayer(chain.rpcUrl)
      await measuring.setMode('needs_gas', 100_000n)
      const outcome = async (gas: bigint) => {
        const items = [itemOf(await chain.signFor(payer)), itemOf(await chain.signFor(measuring), { gas })]
        return (await chain.settleMany(items, batchGas(items))).results.map(({ settled }) => settled)
      }
      expect(await outcome(120_000n)).toEqual([true, false])
      expect(await outcome(180_000n)).toEqual([true, true])
    })

    it('is unable to reach 63/64 of a batch: a cap of 16 million among others is refused unless it can be given', async () => {
      const items = [itemOf(await chain.signFor(payer), { gas: 16_000_000n }), itemOf(await chain.signFor(payer))]
      const gas = 16_100_000n
      expect(await chain.errorOf({ functionName: 'settleMany', args: [items] }, { gas })).toBe('TooLittleGas(0)')
      expect(await chain.errorOf({ functionName: 'settleMany', args: [items] }, { gas: batchGas(items) })).toBeNull()
    })
  })
})

describe('any batch', () => {
  let chain: BatchChain
  let payers: readonly Payer[]
  let unapproved: Payer
  /** Has one lasting permit for all payments, which the first of them submits. */
  let gasless: Payer
  beforeAll(async () => {
    chain = await startBatchChain()
    const funds = { approved: true, usdcAtomic: 1_000_000_000n }
    payers = [await createPayer(chain.rpcUrl, funds), await createPayer(chain.rpcUrl, funds)]
    unapproved = await createPayer(chain.rpcUrl)
    gasless = await createPayer(chain.rpcUrl, { usdcAtomic: 1_000_000_000n })
  })
  afterAll(() => chain.stop())
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
      case 'lasting':
        return itemOf(await chain.signFor(gasless, LASTING), { ...terms, gas: 250_000n })
      case 'lastingMisSigned':
        return itemOf(await chain.signFor(unapproved, { ...LASTING, permitNonce: 7n }), { ...terms, gas: 250_000n })
      case 'lastingStarved':
        return itemOf(await chain.signFor(gasless, LASTING), { ...terms, gas: 45_000n })
    }
  }
  /** Returns the transfers to the recipient between the contract's events: for each payment those that precede its own. */
  function transfersBefore({
    receipt,
  }: MinedBatch): { settled: boolean; payer: Hex; values: bigint[]; froms: Hex[] }[] {
    const found: ReturnType<typeof transfersBefore> = []
    let [values, froms]: [bigint[], Hex[]] = [[], []]
    for (const log of receipt.logs) {
      const [own] = parseEventLogs({ abi: settlementContractAbi, logs: [log] })
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

  it('settles exactly the payments that can be settled, each with its own transfer before its event', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(payment, { minLength: 1, maxLength: 12 }), async (payments) => {
        const items: Item[] = []
        for (const each of payments) items.push(await toItem(each, items))
        const model = payments.map(({ kind }, index) => {
          const isFirst = items.indexOf(items[index] as Item) === index
          return isFirst && (kind === 'good' || kind === 'lasting' || (kind === 'repeated' && index === 0))
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
