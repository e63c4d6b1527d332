import { keccak256, parseTransaction, toHex } from 'viem'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, afterEach, describe, expect, it } from 'vitest'
import { createChainClient } from '#shared/adapters/chain/network/client.ts'
import { createSettler } from '#shared/adapters/chain/settlement/settler.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { BATCH_CHARGE, startBatchSettler } from '../../support/chain/batch-settler.ts'
import { type RpcCall, startRpcProxy } from '../../support/chain/rpc-proxy.ts'
import { deployTestContract } from '../../support/chain/settlement-contract.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { until } from '../../support/until.ts'

const chain = await startBatchSettler()
const { devnet, proxy, contract, sender, other, settler, payer, newSettler, signed, chargesOf, signBatch } = chain
afterEach(() => {
  proxy.setFault(null)
  proxy.chooseFault(() => null)
})
afterAll(() => chain.stop())

const IS_KEY = keccak256(toHex('isKey(address)')).slice(2, 10)
const isKeyCall = ({ params }: RpcCall) => JSON.stringify(params).includes(IS_KEY)
const FEES = { maxFeePerGas: 10n ** 9n, maxPriorityFeePerGas: 1n, baseFeePerGas: 1n, isLimited: false }
const sends = (from: number) => proxy.calls.slice(from).filter((method) => method === 'eth_sendRawTransaction').length
const outcomesOf = (answers: readonly { outcome: string }[]) => answers.map(({ outcome }) => outcome)

describe('preparing a settlement through the contract', () => {
  it('chooses the listed keys in turns and lets none of the others send', async () => {
    const third = generatePrivateKey()
    const fresh = newSettler({}, [devnet.accounts.settlement.privateKey, other.privateKey, third])
    const both = await deployTestContract(devnet, [other.address, sender])
    const senders: unknown[] = []
    for (let index = 0; index < 4; index += 1) {
      const outcome = await fresh.prepare(await signed(payer, { facilitator: both.address }), BATCH_CHARGE)
      expect(outcome).toMatchObject({ outcome: 'ready', contract: both.address })
      senders.push('sender' in outcome && outcome.sender)
    }
    expect(senders).toEqual([sender, other.address, sender, other.address])
  })

  it('passes over a key that is low on gas while another one is not, and bounds a batch by the balance', async () => {
    const both = await deployTestContract(devnet, [other.address, sender])
    const keys = [devnet.accounts.settlement.privateKey, other.privateKey]
    const balance = await devnet.client.getBalance({ address: other.address })
    const prepare = async (wei: bigint) => {
      await callRpc(devnet.rpcUrl, 'anvil_setBalance', [other.address, toHex(wei)])
      const fresh = newSettler({ estimateFees: async () => FEES }, keys)
      const authorization = await signed(payer, { facilitator: both.address })
      const first = await fresh.prepare(authorization, BATCH_CHARGE)
      const second = await fresh.prepare(authorization, BATCH_CHARGE)
      return [first, second].map(
        (prepared) => prepared.outcome === 'ready' && [prepared.sender, prepared.affordableGas],
      )
    }
    const rich = (await devnet.client.getBalance({ address: sender })) / FEES.maxFeePerGas / 4n
    expect(await prepare(FEES.maxFeePerGas * 4_000_000n)).toEqual([
      [sender, rich],
      [other.address, 1_000_000n],
    ])
    expect(await prepare(FEES.maxFeePerGas * 1_000_000n)).toEqual([
      [sender, rich],
      [sender, rich],
    ])
    await callRpc(devnet.rpcUrl, 'anvil_setBalance', [other.address, toHex(balance)])
  })

  it('reads the account nonce of the sender from the chain, and settles directly for payers who signed a key', async () => {
    const count = await devnet.client.getTransactionCount({ address: sender })
    const ready = { outcome: 'ready', sender, minimumAccountNonce: BigInt(count), terms: { gasLimit: 200_000n } }
    expect(await newSettler().prepare(await signed(), BATCH_CHARGE)).toMatchObject({
      ...ready,
      contract: contract.address,
    })
    const direct = await signed(payer, { facilitator: sender })
    expect(await newSettler().prepare(direct, BATCH_CHARGE)).toMatchObject({ ...ready, contract: null })
  })

  it('reports not_listed, never a refusal, for a contract without our key and for an address without code', async () => {
    const foreign = await deployTestContract(devnet, [other.address])
    const account = privateKeyToAccount(generatePrivateKey()).address
    for (const facilitator of [foreign.address, account, devnet.accounts.recipient.address])
      expect(await newSettler().prepare(await signed(payer, { facilitator }), BATCH_CHARGE)).toEqual({
        outcome: 'not_listed',
      })
  })

  it('reports not_listed for another contract at the address', async () => {
    const usdc = await signed(payer, { facilitator: '0x833589fcd6edb6e08f4c7c32d4f71b54bda02913' })
    expect(await newSettler().prepare(usdc, BATCH_CHARGE)).toEqual({ outcome: 'not_listed' })
  })

  it('settles soon after the key was listed', async () => {
    const late = await deployTestContract(devnet, [other.address])
    const authorization = await signed(payer, { facilitator: late.address })
    expect(await settler.prepare(authorization, BATCH_CHARGE)).toEqual({ outcome: 'not_listed' })
    await late.setKey(sender, true)
    await until(async () => (await settler.prepare(authorization, BATCH_CHARGE)).outcome === 'ready')
  })

  it('asks whether a key is listed once for many payments', async () => {
    const fresh = newSettler()
    await fresh.prepare(await signed(), BATCH_CHARGE)
    const authorizations = await Promise.all(Array.from({ length: 8 }, () => signed()))
    let asked = 0
    proxy.chooseFault((call) => {
      if (isKeyCall(call)) asked += 1
      return null
    })
    await Promise.all(authorizations.map((authorization) => fresh.prepare(authorization, BATCH_CHARGE)))
    expect(asked).toBe(0)
    const other = newSettler()
    await Promise.all(authorizations.map((authorization) => other.prepare(authorization, BATCH_CHARGE)))
    expect(asked).toBe(1)
  })

  it('reports unreachable, never not_listed, when the list cannot be read', async () => {
    const authorization = await signed()
    for (const fault of [{ kind: 'reset' }, { kind: 'error', code: -32603, message: 'internal error' }] as const) {
      proxy.chooseFault((call) => (isKeyCall(call) ? fault : null))
      expect(await newSettler().prepare(authorization, BATCH_CHARGE)).toMatchObject({ outcome: 'unreachable' })
    }
  })
})

describe('signing a batch', () => {
  it('signs the given account nonce, the sum of the gas, and the highest fees of its payments', async () => {
    const [one, other] = await chargesOf(2)
    if (!one || !other) throw new Error('no charges')
    const charges = [
      { ...one, terms: { ...one.terms, maxFeePerGas: 90n, maxPriorityFeePerGas: 3n } },
      { ...other, terms: { ...other.terms, maxFeePerGas: 70n, maxPriorityFeePerGas: 5n } },
    ]
    const { raw, hash } = await settler.signBatch(charges, sender, 41n)
    const gas = settler.batchGas(charges.map(({ terms }) => terms))
    expect(parseTransaction(raw)).toMatchObject({
      nonce: 41,
      chainId: 8453,
      gas,
      maxFeePerGas: 90n,
      to: contract.address,
    })
    expect(parseTransaction(raw).maxPriorityFeePerGas).toBe(5n)
    expect(hash).toBe(keccak256(raw))
    expect(await settler.signBatch(charges, sender, 41n)).toEqual({ raw, hash })
  })

  it('refuses payments whose payers signed different facilitators, no payments, and a key that is not here', async () => {
    const [one] = await chargesOf(1)
    if (!one) throw new Error('no charge')
    const direct = { ...one, authorization: { ...one.authorization, facilitator: sender } }
    await expect(settler.signBatch([one, direct], sender, 0n)).rejects.toThrow('same settlement contract')
    await expect(settler.signBatch([], sender, 0n)).rejects.toThrow('same settlement contract')
    await expect(settler.signBatch([one], other.address, 0n)).rejects.toThrow(other.address)
  })
})

describe('broadcasting a batch', () => {
  it('sends it once for all of its payments', async () => {
    const transaction = await signBatch(await chargesOf(1))
    const before = proxy.calls.length
    const answers = await Promise.all(Array.from({ length: 100 }, () => settler.broadcast(transaction)))
    expect(new Set(outcomesOf(answers))).toEqual(new Set(['sent']))
    expect(await settler.broadcast(transaction)).toMatchObject({ outcome: 'sent' })
    expect(sends(before)).toBe(1)
  })

  it('sends it again as soon as no node has answered', async () => {
    const transaction = await signBatch(await chargesOf(1))
    proxy.setFault({ kind: 'reset' }, 'eth_sendRawTransaction')
    const before = proxy.calls.length
    const answers = await Promise.all(Array.from({ length: 100 }, () => settler.broadcast(transaction)))
    expect(new Set(outcomesOf(answers))).toEqual(new Set(['unreachable']))
    expect(sends(before)).toBe(1)
    proxy.setFault(null)
    expect(await settler.broadcast(transaction)).toMatchObject({ outcome: 'sent' })
  })

  it('reports too_large when a block could not hold it', async () => {
    const [one] = await chargesOf(1)
    if (!one) throw new Error('no charge')
    const { gasLimit } = await devnet.client.getBlock()
    const huge = { ...one, terms: { ...one.terms, gasLimit } }
    expect(await settler.broadcast(await signBatch([huge]))).toMatchObject({ outcome: 'too_large' })
    await callRpc(devnet.rpcUrl, 'anvil_mine', [])
    expect(await settler.broadcast(await signBatch([one]))).toMatchObject({ outcome: 'sent' })
  })

  it('reports too_large when every node that answers refuses its size', async () => {
    const next = await startRpcProxy(devnet.rpcUrl)
    const transaction = await signBatch(await chargesOf(1))
    const oversized = { kind: 'error', code: -32000, message: 'oversized data: transaction size 140000' } as const
    const internal = { kind: 'error', code: -32603, message: 'internal error' } as const
    const cases = [
      [oversized, oversized, 'too_large'],
      [oversized, { kind: 'status', status: 413 }, 'too_large'],
      [{ kind: 'reset' }, oversized, 'too_large'],
      [oversized, internal, 'unreachable'],
      [{ kind: 'reset' }, { kind: 'reset' }, 'unreachable'],
      [oversized, { kind: 'error', code: -32000, message: 'nonce too low' }, 'account_nonce_used'],
      [{ kind: 'error', code: -32000, message: 'already known' }, oversized, 'sent'],
      [oversized, null, 'sent'],
    ] as const
    try {
      for (const [first, second, outcome] of cases) {
        proxy.setFault(first, 'eth_sendRawTransaction')
        next.setFault(second, 'eth_sendRawTransaction')
        const client = createChainClient([proxy.url, next.url], PATIENCE_MS)
        const fresh = createSettler(client, 8453, [devnet.accounts.settlement.privateKey])
        expect(await fresh.broadcast(transaction)).toMatchObject({ outcome })
      }
    } finally {
      await next.stop()
    }
  })
})
