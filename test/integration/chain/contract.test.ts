import { keccak256, parseTransaction, toHex } from 'viem'
import { generatePrivateKey, privateKeyToAccount, privateKeyToAddress } from 'viem/accounts'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { createChainClient } from '#shared/chain/network/client.ts'
import { UPTO_PROXY_ADDRESS } from '#shared/chain/network/contracts.ts'
import { gasOfContracts } from '#shared/chain/settlement-contract/gas-of-contract.ts'
import {
  requirePaymentContracts,
  requireSettlementContract,
} from '#shared/chain/settlement-contract/require-contract.ts'
import { createGasReader } from '#shared/chain/settlement/gas-reader.ts'
import { createSettler } from '#shared/chain/settlement/settler.ts'
import { createLogger } from '#shared/runtime/logger.ts'
import { StartFailure } from '#shared/runtime/start-process.ts'
import { composePayment } from '../../../api/composition/payment.ts'
import { readConfig } from '../../../api/config.ts'
import { deploySettlementContract } from '../../../infra/sandbox/chain/contracts/deploy-settlement-contract.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { BATCH_CHARGE, startBatchSettler } from '../../support/chain/batch-settler.ts'
import { startTestDevnet, type TestDevnet } from '../../support/chain/devnet.ts'
import { type RpcCall, type RpcProxy, startRpcProxy } from '../../support/chain/rpc-proxy.ts'
import { deployTestContract } from '../../support/chain/settlement-contract.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { until } from '../../support/until.ts'

type Hex = `0x${string}`
const chain = await startBatchSettler()
afterAll(() => chain.stop())
const FEES = { maxFeePerGas: 10n ** 9n, maxPriorityFeePerGas: 1n, baseFeePerGas: 1n }
const SETTLEMENT_WEI = 300_000n * FEES.maxFeePerGas
async function newKey(settlements: bigint): Promise<Hex> {
  const address = privateKeyToAddress(generatePrivateKey()).toLowerCase() as Hex
  await callRpc(chain.devnet.rpcUrl, 'anvil_setBalance', [address, toHex(settlements * SETTLEMENT_WEI)])
  return address
}
function readerOf(keys: readonly Hex[]) {
  const client = createChainClient(chain.proxy.url, PATIENCE_MS)
  return gasOfContracts(
    client,
    createGasReader(client, async () => FEES),
    keys,
  )
}
async function leftIn(contract: Hex, keys: readonly Hex[]): Promise<number> {
  const { settlementsLeft } = await readerOf(keys).readGas(contract)
  return settlementsLeft
}
const QUIET = createLogger({ process: 'api', level: 'silent' })
const stranger = newAddress()
function newAddress(): Hex {
  return privateKeyToAccount(generatePrivateKey()).address.toLowerCase() as Hex
}
const older = newAddress()
const IS_KEY = keccak256(toHex('isKey(address)')).slice(2, 10)
const isKeyCall = ({ params }: RpcCall) => JSON.stringify(params).includes(IS_KEY)
const outcomesOf = (answers: readonly { outcome: string }[]) => answers.map(({ outcome }) => outcome)

describe('the gas that a contract has left', () => {
  it('a contract has the gas of its richest listed key, and none once all of them are empty', async () => {
    const [empty, low, rich, unlisted] = [await newKey(0n), await newKey(3n), await newKey(7n), await newKey(50n)]
    const both = await deployTestContract(chain.devnet, [empty, low, rich])
    const emptied = await deployTestContract(chain.devnet, [empty])
    expect(await leftIn(both.address, [empty, low, rich, unlisted])).toBe(7)
    expect(await leftIn(both.address, [empty, low, unlisted])).toBe(3)
    expect(await leftIn(emptied.address, [empty, low, unlisted])).toBe(0)
    expect(await leftIn(emptied.address, [unlisted])).toBe(0)
    // Known to nobody in this process.
    expect(await leftIn(emptied.address, [])).toBe(Number.POSITIVE_INFINITY)
    expect(await leftIn(low, [rich])).toBe(3)
  })
})

describe('the contracts of every payment at the start of a process', () => {
  it('are there, or the process names the missing one and what to do', async () => {
    const devnet = await startTestDevnet()
    const client = createChainClient(devnet.rpcUrl, PATIENCE_MS)
    try {
      await expect(requirePaymentContracts(client)).resolves.toBeUndefined()
      await callRpc(devnet.rpcUrl, 'anvil_setCode', [UPTO_PROXY_ADDRESS, '0x'])
      await expect(requirePaymentContracts(client)).rejects.toThrow(
        /^RPC_URL: the x402 upto proxy has no code at 0x4020.* deploy its published code/,
      )
    } finally {
      await devnet.stop()
    }
  })

  it('prevent no start while no node answers', async () => {
    await expect(requirePaymentContracts(createChainClient('http://127.0.0.1:1', PATIENCE_MS))).resolves.toBeUndefined()
  })
})

describe('the settlement contract at the start of a process', () => {
  let devnet: TestDevnet
  let proxy: RpcProxy
  let contract: Hex
  let listed: Hex
  beforeAll(async () => {
    devnet = await startTestDevnet()
    proxy = await startRpcProxy(devnet.rpcUrl)
    listed = devnet.accounts.settlement.address.toLowerCase() as Hex
    const owner = devnet.accounts.recipient.address
    contract = (await deploySettlementContract(devnet.rpcUrl, { owner, keys: [listed] })).toLowerCase() as Hex
  })
  afterEach(() => proxy.setFault(null))
  afterAll(async () => {
    await proxy.stop()
    await devnet.stop()
  })
  async function failureOf(address: Hex, keys: readonly Hex[]): Promise<string | null> {
    try {
      await requireSettlementContract(createChainClient(proxy.url, PATIENCE_MS), address, keys)
      return null
    } catch (error) {
      if (!(error instanceof StartFailure)) throw error
      return error.message
    }
  }

  it('accepts one that lists at least one of the keys', async () => {
    expect(await failureOf(contract, [listed])).toBeNull()
    expect(await failureOf(contract, [stranger, listed])).toBeNull()
  })

  it('refuses an address without code on this chain', async () => {
    expect(await failureOf(stranger, [listed])).toMatch(
      /^SETTLEMENT_CONTRACT: there is no contract at 0x.* on this chain/,
    )
  })

  it('refuses other code, such as that of the proxy, before it calls it', async () => {
    const calls = proxy.calls.length
    expect(await failureOf(UPTO_PROXY_ADDRESS, [listed])).toMatch(
      /^SETTLEMENT_CONTRACT: .* is not the settlement contract/,
    )
    expect(proxy.calls.slice(calls)).toEqual(['eth_getCode'])
  })

  it('refuses one that lists none of the keys, and names them', async () => {
    const failure = await failureOf(contract, [stranger])
    expect(failure).toMatch(/^SETTLEMENT_CONTRACT: .* lists none of the settlement keys/)
    expect(failure).toContain(stranger)
  })

  it.each([
    ['does not answer', { kind: 'reset' }],
    ['returns 500', { kind: 'status', status: 500 }],
    ['is overloaded', { kind: 'error', code: -32005, message: 'limit exceeded' }],
    ['answers with a page', { kind: 'html' }],
    ['answers with nothing', { kind: 'forge', answer: { result: null } }],
  ] as const)('lets the process start when the node %s', async (_, fault) => {
    for (const methods of [[], ['eth_call']]) {
      proxy.setFault(fault, ...methods)
      expect(await failureOf(contract, [stranger])).toBeNull()
    }
  })
})

describe('an API with a settlement contract', () => {
  let devnet: TestDevnet
  let contract: Hex
  let keys: readonly [Hex, Hex]
  beforeAll(async () => {
    devnet = await startTestDevnet()
    keys = [devnet.accounts.settlement.address.toLowerCase() as Hex, newAddress()]
    const owner = devnet.accounts.recipient.address
    contract = (await deploySettlementContract(devnet.rpcUrl, { owner, keys: keys.slice(0, 1) })).toLowerCase() as Hex
  })
  afterAll(() => devnet.stop())
  const settings = (changes: Record<string, string>) =>
    readConfig({
      DATABASE_URL: 'postgres://farebox@127.0.0.1/farebox',
      OBJECT_STORE_DIRECTORY: '/objects',
      RPC_URL: devnet.rpcUrl,
      PUBLIC_BASE_URL: 'http://127.0.0.1:8402',
      DEPLOYMENTS_FILE: '/deployments.json',
      PAY_TO: newAddress(),
      FACILITATOR_ADDRESSES: keys.join(','),
      CHALLENGE_SECRET: 'c'.repeat(32),
      RECEIPT_SIGNING_KEY: `k1:${'ab'.repeat(32)}`,
      RECEIPT_SECRETS: `k1:${'r'.repeat(32)}`,
      CONTACT_EMAIL: 'operator@farebox.example',
      ...changes,
    })
  const compose = (changes: Record<string, string>) => composePayment(settings(changes), QUIET, () => new Date())

  it('names the contract in challenges, and accepts payments to it, to those of a change, and of earlier calls to the keys', async () => {
    const { dependencies } = await compose({
      SETTLEMENT_CONTRACT: contract,
      ACCEPTED_FACILITATOR_ADDRESSES: `${older},${keys[0]}`,
    })
    expect(dependencies.terms.facilitators).toEqual([contract])
    expect(dependencies.terms.acceptedFacilitators).toEqual([contract, ...keys, older])
    expect(dependencies.terms.formerFacilitators).toEqual([keys[1]])
  })

  it('without one names the keys, and accepts no payment to a contract', async () => {
    const { dependencies } = await compose({})
    expect(dependencies.terms.facilitators).toEqual(keys)
    expect(dependencies.terms.acceptedFacilitators).toEqual(keys)
    expect(dependencies.terms.formerFacilitators).toEqual([])
  })

  it('accepts payments to a contract that was removed from the settings for as long as it is listed', async () => {
    const { dependencies } = await compose({ ACCEPTED_FACILITATOR_ADDRESSES: contract })
    expect(dependencies.terms.facilitators).toEqual(keys)
    expect(dependencies.terms.acceptedFacilitators).toEqual([...keys, contract])
  })

  it('does not start with an address that is no settlement contract, or one that lists none of its keys', async () => {
    await expect(compose({ SETTLEMENT_CONTRACT: newAddress() })).rejects.toThrow(/^SETTLEMENT_CONTRACT: there is no/)
    const strange = { SETTLEMENT_CONTRACT: contract, FACILITATOR_ADDRESSES: keys[1] }
    await expect(compose(strange)).rejects.toThrow(/^SETTLEMENT_CONTRACT: .* lists none of the settlement keys/)
  })

  it('starts while the chain cannot be reached', async () => {
    const { dependencies } = await compose({ SETTLEMENT_CONTRACT: contract, RPC_URL: 'http://127.0.0.1:1' })
    expect(dependencies.terms.facilitators).toEqual([contract])
  })
})

describe('a settler with the contract', () => {
  const { devnet, proxy, contract, sender, other, settler, payer, newSettler, signed, chargesOf, signBatch } = chain
  afterEach(() => {
    proxy.setFault(null)
    proxy.chooseFault(() => null)
  })

  const sends = (from: number) => proxy.calls.slice(from).filter((method) => method === 'eth_sendRawTransaction').length
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
})
