import { fileURLToPath } from 'node:url'
import {
  encodeDeployData,
  encodeFunctionData,
  type Hex,
  maxUint256,
  pad,
  parseAbi,
  parseEventLogs,
  slice,
  toFunctionSelector,
  toHex,
  zeroAddress,
} from 'viem'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { settlementContractAbi } from '#shared/chain/network/contracts.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import { readSettlementArtifact } from '../../../infra/contracts/settlement-artifact.ts'
import { compileSources } from '../../../infra/sandbox/chain/contracts/compile.ts'
import { DEVNET_ADDRESSES } from '../../../infra/sandbox/chain/devnet.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import {
  type BatchChain,
  CHARGE,
  encodeOwnCall,
  type Item,
  itemOf,
  type MinedItem,
  newAddress,
  startBatchChain,
} from '../../support/chain/batch-chain.ts'
import { createDelegatingPayer, delegateTo } from '../../support/chain/delegating-payer.ts'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import { secondsFromNow, signWitness } from '../../support/payer/sign-authorization.ts'

const REASON = {
  nonceUsed: toFunctionSelector('InvalidNonce()'),
  expired: toFunctionSelector('SignatureExpired(uint256)'),
  foreign: toFunctionSelector('UnauthorizedFacilitator()'),
  tooMuch: toFunctionSelector('AmountExceedsPermitted()'),
  early: toFunctionSelector('PaymentTooEarly()'),
  signer: toFunctionSelector('InvalidSigner()'),
  text: toFunctionSelector('Error(string)'),
} as const
const outcomes = (results: readonly MinedItem[]) => results.map(({ reason }) => reason ?? 'settled')
const NO_CODE = { codeSize: 0n, codePrefix: `0x${'00'.repeat(23)}` } as const
const succeeding = (count: number) => Array<boolean>(count).fill(true)
const SOURCES = { 'HostilePayer.sol': 'HostilePayer', 'HostileToken.sol': 'HostileToken' } as const
const CACHE = fileURLToPath(new URL('../../../node_modules/.cache/farebox-contracts', import.meta.url))
const compile = () => compileSources(new URL('solidity/', import.meta.url), SOURCES, CACHE)

describe('settleMany', () => {
  let chain: BatchChain
  let payer: Payer
  beforeAll(async () => {
    chain = await startBatchChain()
    payer = await createPayer(chain.rpcUrl, { approved: true, usdcAtomic: 100_000_000n })
  })
  afterAll(() => chain.stop())
  const received = () => chain.usdcBalance(chain.accounts.recipient.address)
  const isUsed = ({ payer: owner, nonce }: Authorization) => chain.isPermit2NonceUsed(owner, nonce)

  it.each([1, 2, 3, 33, 100, 200])('settles %i payments, with an event for each in their order', async (count) => {
    const payers = [payer, await createPayer(chain.rpcUrl, { approved: true })]
    const signed = await Promise.all(
      Array.from({ length: count }, (_, index) => chain.signFor(payers[index % 2] ?? payer)),
    )
    const before = await received()
    const { receipt, results } = await chain.settleMany(
      signed.map((authorization) => itemOf(authorization, { gas: 100_000n })),
    )
    expect(receipt.status).toBe('success')
    expect(results.map(({ settled, payer: by, nonce }) => ({ settled, by, nonce }))).toEqual(
      signed.map(({ payer: by, nonce }) => ({ settled: true, by, nonce })),
    )
    expect((await received()) - before).toBe(BigInt(count) * CHARGE)
    for (const { gasUsed } of results) expect(gasUsed).toBeGreaterThan(40_000n)
    expect(results.reduce((sum, { gasUsed }) => sum + gasUsed, 0n)).toBeLessThan(receipt.gasUsed)
  })

  it('settles the one payment that can be settled among 199 that fail', async () => {
    const burned = await chain.signFor(payer)
    await payer.invalidateNonce(burned.nonce)
    const good = await chain.signFor(payer)
    const items = Array.from({ length: 200 }, (_, index) => itemOf(index === 137 ? good : burned, { gas: 100_000n }))
    const before = await received()
    const { results } = await chain.settleMany(items)
    expect(outcomes(results)).toEqual(items.map((_, index) => (index === 137 ? 'settled' : REASON.nonceUsed)))
    expect((await received()) - before).toBe(CHARGE)
  })

  it('reports for each failing payment the reason of the proxy, Permit2 or the token, and settles the others', async () => {
    const poor = await createPayer(chain.rpcUrl, { approved: true, usdcAtomic: 1n })
    const unapproved = await createPayer(chain.rpcUrl)
    const revoked = await createPayer(chain.rpcUrl, { approved: true })
    const turned = await createPayer(chain.rpcUrl, { approved: true })
    const [byRevoked, byTurned] = [await chain.signFor(revoked), await chain.signFor(turned)]
    await revoked.approve(0n)
    await callRpc(chain.rpcUrl, 'anvil_setCode', [turned.address, '0x00'])
    const used = await chain.signFor(payer)
    await payer.invalidateNonce(used.nonce)
    const wrong = await chain.signFor(payer, { signer: poor.account })
    const failing: readonly (readonly [Item, string])[] = [
      [itemOf(used), REASON.nonceUsed],
      [itemOf(await chain.signFor(payer, { deadline: secondsFromNow(-1000) })), REASON.expired],
      [itemOf(await chain.signFor(payer, { facilitator: chain.key })), REASON.foreign],
      [itemOf(await chain.signFor(payer, { facilitator: newAddress() })), REASON.foreign],
      [itemOf(await chain.signFor(payer, { authorizedMaximum: CHARGE - 1n })), REASON.tooMuch],
      [itemOf(await chain.signFor(payer, { validAfter: secondsFromNow(100_000) })), REASON.early],
      [itemOf(wrong), REASON.signer],
      [itemOf(await chain.signFor(poor)), REASON.text],
      [itemOf(await chain.signFor(unapproved)), REASON.text],
      [itemOf(byRevoked), REASON.text],
      [itemOf(byTurned), '0x00000000'],
    ]
    const items: Item[] = []
    const expected: string[] = []
    for (const [item, reason] of failing) {
      items.push(item, itemOf(await chain.signFor(payer)))
      expected.push(reason, 'settled')
    }
    const before = await received()
    const { results } = await chain.settleMany(items)
    expect(outcomes(results)).toEqual(expected)
    expect((await received()) - before).toBe(BigInt(failing.length) * CHARGE)
  })

  it('settles a repeated payment once, and reports the repetition as failed', async () => {
    const authorization = await chain.signFor(payer)
    const item = itemOf(authorization)
    const before = await received()
    const { results } = await chain.settleMany([item, item, itemOf(authorization, { charge: CHARGE })])
    expect(outcomes(results)).toEqual(['settled', REASON.nonceUsed, REASON.nonceUsed])
    expect((await received()) - before).toBe(CHARGE)
    expect(outcomes((await chain.settleMany([item])).results)).toEqual([REASON.nonceUsed])
  })

  it('submits permits, and settles with and without them in one batch', async () => {
    const sponsored = await Promise.all([createPayer(chain.rpcUrl), createPayer(chain.rpcUrl)])
    const withPermits = await Promise.all(sponsored.map((by) => chain.signFor(by, { gasSponsored: true })))
    const items = withPermits.map((authorization) => itemOf(authorization, { submitsPermit: true, gas: 250_000n }))
    const { results } = await chain.settleMany([...items, itemOf(await chain.signFor(payer))])
    expect(results.map(({ settled }) => settled)).toEqual([true, true, true])
    expect(results.slice(0, 2).map(({ payer: by, nonce }) => ({ by, nonce }))).toEqual(
      withPermits.map(({ payer: by, nonce }) => ({ by, nonce })),
    )
  })

  it('does nothing for an empty batch', async () => {
    expect((await chain.settleMany([])).receipt).toMatchObject({ status: 'success', logs: [] })
  })

  it('reverts as a whole for a call that is not a settlement, at its position', async () => {
    const good = await chain.signFor(payer)
    const { call } = itemOf(good)
    const withPermit = toFunctionSelector(
      'settleWithPermit((uint256,uint256,bytes32,bytes32,uint8),((address,uint256),uint256,uint256),uint256,address,(address,address,uint256),bytes)',
    )
    const others = [
      '0x',
      '0x12',
      slice(call, 0, 4),
      slice(call, 0, 4 + 10 * 32 - 1),
      `${withPermit}${slice(call, 4, 4 + 10 * 32).slice(2)}`,
      toFunctionSelector('transfer(address,uint256)'),
      `${toFunctionSelector('PERMIT2()')}${call.slice(10)}`,
    ] as const
    for (const other of others) {
      const items = [itemOf(good), { gas: 100_000n, call: other }]
      for (const functionName of ['settleMany', 'simulateMany'] as const)
        expect(await chain.errorOf({ functionName, args: [items] })).toBe('NotASettlement(1)')
    }
    const { receipt } = await chain.settleMany([itemOf(good), { gas: 100_000n, call: '0x' }])
    expect(receipt).toMatchObject({ status: 'reverted', logs: [] })
    expect(await isUsed(good)).toBe(false)
  })

  it('fails a payment whose bytes are damaged anywhere, and settles its neighbors', async () => {
    const [first, damaged, last] = [await chain.signFor(payer), await chain.signFor(payer), await chain.signFor(payer)]
    const { call } = itemOf(damaged)
    for (let word = 0; word < 13; word++) {
      const at = 4 + word * 32
      const flipped = toHex(BigInt(slice(call, at, at + 32)) ^ (maxUint256 >> 1n) ^ 1n)
      const bytes =
        `${slice(call, 0, at)}${pad(flipped, { size: 32 }).slice(2)}${call.slice(2 + 2 * (at + 32))}` as const
      const items = [itemOf(first), { gas: 100_000n, call: bytes }, itemOf(last)]
      const simulated = await chain.simulateMany(items)
      expect(simulated.map(({ succeeds }) => succeeds)).toEqual([true, false, true])
    }
  })

  it('takes no native token', async () => {
    const data = encodeOwnCall({ functionName: 'settleMany', args: [[]] })
    for (const call of [{ data }, { data: '0x' as const }])
      await expect(chain.client.call({ account: chain.key, to: chain.contract, value: 1n, ...call })).rejects.toThrow(
        'revert',
      )
    expect(await chain.client.getBalance({ address: chain.contract })).toBe(0n)
    expect(await chain.usdcBalance(chain.contract)).toBe(0n)
  })
})

describe('simulateMany', () => {
  let chain: BatchChain
  let payer: Payer
  beforeAll(async () => {
    chain = await startBatchChain()
    payer = await createPayer(chain.rpcUrl, { approved: true })
  })
  afterAll(() => chain.stop())

  it('judges each payment on the untouched state: neither balance, permit, nonce nor allowance of one is gone for another', async () => {
    const exact = await createPayer(chain.rpcUrl, { approved: true, usdcAtomic: CHARGE })
    const sponsored = await createPayer(chain.rpcUrl, { usdcAtomic: CHARGE })
    const once = await chain.signFor(payer)
    const items = [
      itemOf(await chain.signFor(exact)),
      itemOf(await chain.signFor(exact)),
      itemOf(once),
      itemOf(once),
      itemOf(await chain.signFor(sponsored, { gasSponsored: true }), { submitsPermit: true, gas: 250_000n }),
      itemOf(await chain.signFor(sponsored, { gasSponsored: true }), { submitsPermit: true, gas: 250_000n }),
      itemOf(await chain.signFor(sponsored, { gasSponsored: true })),
    ]
    const simulated = await chain.simulateMany(items)
    expect(simulated.map(({ succeeds }) => succeeds)).toEqual([...succeeding(6), false])
    const { results } = await chain.settleMany(items)
    expect(results.map(({ settled }) => settled)).toEqual([true, false, true, false, true, false, false])
  })

  it('reports the reason of each failure, as a batch does', async () => {
    const used = await chain.signFor(payer)
    await payer.invalidateNonce(used.nonce)
    const items = [
      itemOf(used),
      itemOf(await chain.signFor(payer)),
      itemOf(await chain.signFor(payer, { facilitator: newAddress() })),
    ]
    expect(await chain.simulateMany(items)).toEqual([
      { succeeds: false, reason: toFunctionSelector('InvalidNonce()'), ...NO_CODE },
      { succeeds: true, reason: '0x00000000', ...NO_CODE },
      { succeeds: false, reason: toFunctionSelector('UnauthorizedFacilitator()'), ...NO_CODE },
    ])
  })

  it('reports the code of each payer: none, a delegation with its delegate, or the beginning of a contract', async () => {
    const delegating = await createDelegatingPayer(chain.rpcUrl)
    const contract = { ...payer, address: DEVNET_ADDRESSES.usdc.toLowerCase() as `0x${string}` }
    const signed = await Promise.all([payer, delegating, contract].map((by) => chain.signFor(by)))
    const code = await chain.client.getCode({ address: DEVNET_ADDRESSES.usdc })
    expect(await chain.simulateMany(signed.map((authorization) => itemOf(authorization)))).toMatchObject([
      { succeeds: true, ...NO_CODE },
      { succeeds: true, codeSize: 23n, codePrefix: `0xef0100${delegating.delegate.slice(2)}` },
      { succeeds: false, codeSize: BigInt(((code ?? '0x').length - 2) / 2), codePrefix: code?.slice(0, 48) },
    ])
  })

  it('is open to anyone and changes nothing, also when it is sent as a transaction', async () => {
    const authorization = await chain.signFor(payer)
    const before = await chain.usdcBalance(payer.address)
    const calls = [
      encodeOwnCall({ functionName: 'simulateMany', args: [[itemOf(authorization), itemOf(authorization)]] }),
    ]
    for (const data of calls) {
      const receipt = await chain.send(newAddress(), chain.contract, data)
      expect(receipt).toMatchObject({ status: 'success', logs: [] })
      expect(receipt.gasUsed).toBeGreaterThan(100_000n)
    }
    expect(await chain.isPermit2NonceUsed(payer.address, authorization.nonce)).toBe(false)
    expect(await chain.usdcBalance(payer.address)).toBe(before)
  })

  it('reverts with its result when one settlement is simulated directly, so that nothing of it can remain', async () => {
    const authorization = await chain.signFor(payer)
    const { gas, call } = itemOf(authorization)
    const data = encodeFunctionData({
      abi: parseAbi(['struct Settlement { uint256 gas; bytes call; }', 'function simulateOne(Settlement, uint256)']),
      args: [{ gas, call }, 0n],
    })
    for (const from of [chain.key, newAddress(), chain.contract])
      expect(await chain.send(from, chain.contract, data)).toMatchObject({ status: 'reverted', logs: [] })
    expect(await chain.isPermit2NonceUsed(payer.address, authorization.nonce)).toBe(false)
  })

  it('isolates code that burns gas or reverts with much data from thirty other payments', async () => {
    const [burning, bombing] = [await createDelegatingPayer(chain.rpcUrl), await createDelegatingPayer(chain.rpcUrl)]
    await burning.setMode('burns_gas')
    await bombing.setMode('reverts_with_bytes', 60_000n)
    const good = await Promise.all(Array.from({ length: 30 }, () => chain.signFor(payer)))
    const hostile = await Promise.all([burning, bombing].map((by) => chain.signFor(by)))
    const items = [...hostile, ...good].map((authorization) => itemOf(authorization, { gas: 200_000n }))
    // What the service gives: the caps, a twentieth more, and 100,000 for each.
    const gas = 32n * (210_000n + 100_000n)
    const simulated = await chain.simulateMany(items, gas)
    expect(simulated.map(({ succeeds }) => succeeds)).toEqual([false, false, ...succeeding(30)])
  })

  it('reverts as a whole, never judges a payment, when the call has too little gas for a cap', async () => {
    const items = await Promise.all([1, 2, 3].map(async () => itemOf(await chain.signFor(payer), { gas: 200_000n })))
    const errors = new Set<string | null>()
    for (let gas = 60_000n; gas < 700_000n; gas += 7_919n) {
      const error = await chain.errorOf({ functionName: 'simulateMany', args: [items] }, { gas })
      errors.add(error)
      const simulated = error === null ? await chain.simulateMany(items, gas) : []
      expect(simulated.map(({ succeeds }) => succeeds)).toEqual(simulated.map(() => true))
    }
    expect([...errors]).toEqual(expect.arrayContaining(['TooLittleGas(0)', 'TooLittleGas(1)', 'TooLittleGas(2)', null]))
  })
})

describe('payers that call back', () => {
  let chain: BatchChain
  let payer: Payer
  let hostile: Payer
  let contracts: Awaited<ReturnType<typeof compile>>
  beforeAll(async () => {
    chain = await startBatchChain()
    contracts = await compile()
    payer = await createPayer(chain.rpcUrl, { approved: true })
    hostile = await createPayer(chain.rpcUrl, { approved: true })
    await delegateTo(hostile, await place(contracts['HostilePayer.sol'].runtimeBytecode))
  })

  afterAll(() => chain.stop())

  async function place(code: Hex): Promise<Hex> {
    const address = newAddress()
    await callRpc(chain.rpcUrl, 'anvil_setCode', [address, code])
    return address
  }
  /** Lets the hostile payer's code accept its signature only if this call of the contract succeeds, or fails. */
  async function expectWhileSigning(data: Hex, succeeds: boolean): Promise<void> {
    const { abi } = contracts['HostilePayer.sol']
    const setCall = encodeFunctionData({ abi, functionName: 'setCall', args: [chain.contract, data, succeeds] })
    expect((await chain.send(hostile.address, hostile.address, setCall)).status).toBe('success')
  }
  describe('a payer whose code calls the settlement contract while it is asked for its signature', () => {
    it('is refused as any stranger, and changes neither the batch nor another payment in it', async () => {
      const other = await chain.signFor(payer)
      await expectWhileSigning(encodeOwnCall({ functionName: 'settleMany', args: [[itemOf(other)]] }), false)
      const items = [itemOf(await chain.signFor(hostile), { gas: 600_000n }), itemOf(other)]
      const { results } = await chain.settleMany(items)
      expect(results.map(({ settled }) => settled)).toEqual([true, true])
    })

    it('settles nothing even if its account is a listed key: Permit2 asks in a static call', async () => {
      const setKey = async (isListed: boolean) =>
        await chain.send(
          chain.owner,
          chain.contract,
          encodeOwnCall({ functionName: 'setKey', args: [hostile.address, isListed] }),
        )
      await setKey(true)
      onTestFinished(async () => void (await setKey(false)))
      const other = await chain.signFor(payer)
      const own = await chain.signFor(hostile)
      for (const nested of [other, own]) {
        await expectWhileSigning(encodeOwnCall({ functionName: 'settleMany', args: [[itemOf(nested)]] }), false)
        // The nested call uses up what it is given; a 64th is enough for the rest.
        const { results } = await chain.settleMany([itemOf(own, { gas: 12_000_000n })])
        const first = nested === other
        expect(results).toMatchObject([{ settled: first, nonce: own.nonce }])
      }
      expect(await chain.isPermit2NonceUsed(payer.address, other.nonce)).toBe(false)
    })

    it('may simulate, which tells that no payment succeeds while another one is being settled', async () => {
      const other = await chain.signFor(payer)
      await expectWhileSigning(encodeOwnCall({ functionName: 'simulateMany', args: [[itemOf(other)]] }), true)
      const { results } = await chain.settleMany([
        itemOf(await chain.signFor(hostile), { gas: 900_000n }),
        itemOf(other),
      ])
      expect(results.map(({ settled }) => settled)).toEqual([true, true])
    })
  })

  describe('a token that calls the settlement contract while Permit2 moves it', () => {
    it('is refused as any stranger, and a listed one settles nothing within the settlement', async () => {
      const { abi, runtimeBytecode } = contracts['HostileToken.sol']
      const token = await place(runtimeBytecode)
      const own = await chain.signFor(payer)
      const settles = itemOf(await chain.signFor(payer))
      const terms = { ...own, token, amount: own.authorizedMaximum, to: own.payTo }
      const hostileCall = itemOf({ ...own, asset: token, signature: await signWitness(payer.account, terms) })
      const nested = encodeOwnCall({ functionName: 'settleMany', args: [[settles]] })
      const setCall = encodeFunctionData({ abi, functionName: 'setCall', args: [chain.contract, nested] })
      await chain.send(newAddress(), token, setCall)
      const before = await chain.usdcBalance(chain.accounts.recipient.address)
      const stranger = await chain.settleMany([{ ...hostileCall, gas: 900_000n }])
      expect(parseEventLogs({ abi, logs: stranger.receipt.logs })).toMatchObject([{ args: { succeeds: false } }])
      const again = await chain.signFor(payer)
      const signature = await signWitness(payer.account, { ...terms, ...again, token, amount: again.authorizedMaximum })
      await chain.send(chain.owner, chain.contract, encodeOwnCall({ functionName: 'setKey', args: [token, true] }))
      const listed = await chain.settleMany([itemOf({ ...again, asset: token, signature }, { gas: 900_000n }), settles])
      // The proxy refuses to be entered again, and says so of the nested payment.
      expect(listed.results.map(({ settled }) => settled)).toEqual([false, true, true])
      expect((await chain.usdcBalance(chain.accounts.recipient.address)) - before).toBe(CHARGE)
    })
  })
})

describe('keys and owner of the contract', () => {
  let chain: BatchChain
  let payer: Payer
  beforeAll(async () => {
    chain = await startBatchChain()
    payer = await createPayer(chain.rpcUrl, { approved: true })
  })

  afterAll(() => chain.stop())

  const isKey = (account: `0x${string}`) =>
    chain.client.readContract({
      address: chain.contract,
      abi: settlementContractAbi,
      functionName: 'isKey',
      args: [account],
    })
  const readAddress = (functionName: 'owner' | 'proposedOwner') =>
    chain.client.readContract({ address: chain.contract, abi: settlementContractAbi, functionName })
  const setKey = (account: `0x${string}`, isListed: boolean, from = chain.owner) =>
    chain.send(from, chain.contract, encodeOwnCall({ functionName: 'setKey', args: [account, isListed] }))
  describe('keys of the settlement contract', () => {
    it('refuses everyone but a listed key: neither payer, owner nor a stranger settles a signed payment', async () => {
      const authorization = await chain.signFor(payer)
      for (const from of [payer.address, chain.owner, newAddress(), chain.contract]) {
        const args = [[itemOf(authorization)]] as const
        expect(await chain.errorOf({ functionName: 'settleMany', args }, { from })).toBe('NotKey()')
        expect((await chain.settleMany(args[0], undefined, from)).receipt.status).toBe('reverted')
      }
      expect(await chain.isPermit2NonceUsed(payer.address, authorization.nonce)).toBe(false)
      expect((await chain.settleMany([itemOf(authorization)])).results).toMatchObject([{ settled: true }])
    })

    it('lets a key settle from the block in which the owner lists it, until the one in which the owner removes it', async () => {
      const key = newAddress()
      expect(await isKey(key)).toBe(false)
      await setKey(key, true)
      expect(await isKey(key)).toBe(true)
      expect((await chain.settleMany([itemOf(await chain.signFor(payer))], undefined, key)).results).toHaveLength(1)
      await setKey(key, false)
      expect(await isKey(key)).toBe(false)
      const { receipt } = await chain.settleMany([itemOf(await chain.signFor(payer))], undefined, key)
      expect(receipt.status).toBe('reverted')
      expect(await isKey(chain.key)).toBe(true)
    })

    it('lets nobody but the owner change keys or propose an owner', async () => {
      for (const from of [chain.key, newAddress()]) {
        expect(await chain.errorOf({ functionName: 'setKey', args: [from, true] }, { from })).toBe('NotOwner()')
        expect(await chain.errorOf({ functionName: 'proposeOwner', args: [from] }, { from })).toBe('NotOwner()')
        expect(await chain.errorOf({ functionName: 'acceptOwnership' }, { from })).toBe('NotOwner()')
      }
    })
  })

  describe('a deployment of the settlement contract', () => {
    it('is refused without an owner, who alone could list keys', async () => {
      const { abi, creationCode: bytecode } = await readSettlementArtifact()
      const data = encodeDeployData({ abi, bytecode, args: [zeroAddress, [chain.key]] })
      await expect(chain.client.call({ account: chain.key, data })).rejects.toThrow('revert')
      const owned = encodeDeployData({ abi, bytecode, args: [chain.owner, [chain.key]] })
      expect(await chain.client.call({ account: chain.key, data: owned })).toBeDefined()
    })
  })

  describe('the handover of the settlement contract', () => {
    it('changes the owner only when the proposed account accepts, and then ends the rights of the previous one', async () => {
      const [next, other] = [newAddress(), newAddress()]
      const propose = (account: `0x${string}`, from: `0x${string}`) =>
        chain.send(from, chain.contract, encodeOwnCall({ functionName: 'proposeOwner', args: [account] }))
      const accept = encodeOwnCall({ functionName: 'acceptOwnership' })
      await propose(other, chain.owner)
      await propose(next, chain.owner)
      expect(await readAddress('owner')).toBe(chain.owner)
      expect((await chain.send(other, chain.contract, accept)).status).toBe('reverted')
      expect((await chain.send(next, chain.contract, accept)).status).toBe('success')
      expect(await readAddress('owner')).toBe(next)
      expect(await readAddress('proposedOwner')).toBe(zeroAddress)
      expect((await chain.send(next, chain.contract, accept)).status).toBe('reverted')
      expect((await setKey(other, true)).status).toBe('reverted')
      expect((await propose(chain.owner, chain.owner)).status).toBe('reverted')
      expect((await setKey(other, true, next)).status).toBe('success')
      await propose(chain.owner, next)
      await propose(zeroAddress, next)
      expect((await chain.send(chain.owner, chain.contract, accept)).status).toBe('reverted')
      await propose(chain.owner, next)
      expect((await chain.send(chain.owner, chain.contract, accept)).status).toBe('success')
    })
  })
})
