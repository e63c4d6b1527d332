import { encodeDeployData, zeroAddress } from 'viem'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { batchSettlementAbi } from '#shared/adapters/chain/network/contracts.ts'
import { readSettlementArtifact } from '../../../infra/contracts/settlement-artifact.ts'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import { type BatchChain, encodeOwnCall, itemOf, newAddress, startBatchChain } from './batch-chain.ts'

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
    abi: batchSettlementAbi,
    functionName: 'isKey',
    args: [account],
  })
const readAddress = (functionName: 'owner' | 'proposedOwner') =>
  chain.client.readContract({ address: chain.contract, abi: batchSettlementAbi, functionName })
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
