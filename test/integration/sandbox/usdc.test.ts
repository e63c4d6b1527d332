import { type Address, createWalletClient, type Hex, http, maxUint256, parseAbi, parseSignature } from 'viem'
import { type PrivateKeyAccount, privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { base } from '#shared/adapters/chain/base-chain.ts'
import { DEVNET_ADDRESSES, DEVNET_CHAIN_ID } from '../../../infra/sandbox/devnet.ts'
import { createSandboxAccounts, fundSandboxAccounts, mintUsdc } from '../../../infra/sandbox/fund-devnet.ts'
import { callRpc } from '../../../infra/sandbox/json-rpc.ts'
import { startTestDevnet, type TestDevnet } from '../../support/chain/devnet.ts'

const ABI = parseAbi([
  'function name() view returns (string)',
  'function version() view returns (string)',
  'function symbol() view returns (string)',
  'function decimals() view returns (uint8)',
  'function nonces(address) view returns (uint256)',
  'function allowance(address, address) view returns (uint256)',
  'function permit(address, address, uint256, uint256, uint8, bytes32, bytes32)',
  'function transfer(address, uint256) returns (bool)',
  'function transferFrom(address, address, uint256) returns (bool)',
  'function mint(address, uint256) returns (bool)',
])

const usdc = { address: DEVNET_ADDRESSES.usdc, abi: ABI } as const

let devnet: TestDevnet
let payer: PrivateKeyAccount
let spender: PrivateKeyAccount

beforeAll(async () => {
  devnet = await startTestDevnet()
  payer = privateKeyToAccount(devnet.accounts.payer.privateKey)
  spender = privateKeyToAccount(devnet.accounts.settlement.privateKey)
})
afterAll(() => devnet.stop())

async function write(functionName: 'permit' | 'transferFrom', args: readonly unknown[]): Promise<void> {
  const { request } = await devnet.client.simulateContract({ ...usdc, account: spender, functionName, args } as never)
  const wallet = createWalletClient({ account: spender, chain: base, transport: http(devnet.rpcUrl) })
  await devnet.client.waitForTransactionReceipt({ hash: await wallet.writeContract(request as never) })
}

async function signPermit(value: bigint, deadline: bigint): Promise<readonly unknown[]> {
  const nonce = await devnet.client.readContract({ ...usdc, functionName: 'nonces', args: [payer.address] })
  const signature = await payer.signTypedData({
    domain: { name: 'USD Coin', version: '2', chainId: DEVNET_CHAIN_ID, verifyingContract: usdc.address },
    types: {
      Permit: [
        { name: 'owner', type: 'address' },
        { name: 'spender', type: 'address' },
        { name: 'value', type: 'uint256' },
        { name: 'nonce', type: 'uint256' },
        { name: 'deadline', type: 'uint256' },
      ],
    },
    primaryType: 'Permit',
    message: { owner: payer.address, spender: spender.address, value, nonce, deadline },
  })
  const { r, s, v } = parseSignature(signature)
  return [payer.address, spender.address, value, deadline, Number(v), r, s]
}

function allowance(): Promise<bigint> {
  return devnet.client.readContract({ ...usdc, functionName: 'allowance', args: [payer.address, spender.address] })
}

function read(functionName: 'name' | 'version' | 'symbol' | 'decimals'): Promise<string | number> {
  return devnet.client.readContract({ ...usdc, functionName })
}

describe('the USDC stand-in', () => {
  it('has the identity of USDC', async () => {
    expect(await Promise.all([read('name'), read('version'), read('symbol'), read('decimals')])).toEqual([
      'USD Coin',
      '2',
      'USDC',
      6,
    ])
  })

  it('takes a permit once', async () => {
    const permit = await signPermit(5_000n, maxUint256)
    await write('permit', permit)
    expect(await allowance()).toBe(5_000n)
    await expect(write('permit', permit)).rejects.toThrow('EIP2612: invalid signature')
  })

  it('refuses an expired permit and one for another value than signed', async () => {
    await expect(write('permit', await signPermit(1n, 1n))).rejects.toThrow('FiatTokenV2: permit is expired')
    const permit = [...(await signPermit(1n, maxUint256))]
    permit[2] = 2n
    await expect(write('permit', permit)).rejects.toThrow('EIP2612: invalid signature')
  })

  it('spends an allowance down, the largest one too', async () => {
    await write('permit', await signPermit(maxUint256, maxUint256))
    await write('transferFrom', [payer.address, devnet.accounts.recipient.address, 7n])
    expect(await allowance()).toBe(maxUint256 - 7n)
    expect(await devnet.usdcBalance(devnet.accounts.recipient.address)).toBe(7n)
  })

  it('refuses transfers beyond allowance or balance in the words of USDC', async () => {
    await write('permit', await signPermit(10n, maxUint256))
    const beyondAllowance = write('transferFrom', [payer.address, spender.address, 11n])
    await expect(beyondAllowance).rejects.toThrow('ERC20: transfer amount exceeds allowance')
    const args: [Address, bigint] = [payer.address, 1n]
    const empty = devnet.accounts.recipient.address
    const beyondBalance = devnet.client.simulateContract({
      ...usdc,
      functionName: 'transfer',
      args: [args[0], 100n],
      account: empty,
    })
    await expect(beyondBalance).rejects.toThrow('ERC20: transfer amount exceeds balance')
  })

  it('lets only the minter mint', async () => {
    const attempt = devnet.client.simulateContract({
      ...usdc,
      functionName: 'mint',
      args: [payer.address, 1n],
      account: spender.address,
    })
    await expect(attempt).rejects.toThrow('FiatToken: caller is not a minter')
  })
})

describe('funding', () => {
  it('gives payer, settlement key and recipient what they need, once', async () => {
    const accounts = createSandboxAccounts()
    const { payer, settlement, recipient } = accounts
    const gasOf = (address: Address) => devnet.client.getBalance({ address })
    await fundSandboxAccounts(devnet.rpcUrl, accounts)
    await fundSandboxAccounts(devnet.rpcUrl, accounts)
    expect(await devnet.usdcBalance(payer.address)).toBe(1_000_000_000n)
    expect(await devnet.permit2Allowance(payer.address)).toBe(0n)
    expect(await Promise.all([gasOf(payer.address), gasOf(settlement.address), gasOf(recipient.address)])).toEqual([
      0n,
      100n * 10n ** 18n,
      0n,
    ])
    expect(await devnet.usdcBalance(recipient.address)).toBe(0n)
  })

  it('fills up a settlement key that runs dry, and mints on request', async () => {
    const accounts = createSandboxAccounts()
    await fundSandboxAccounts(devnet.rpcUrl, accounts)
    await callRpc<Hex>(devnet.rpcUrl, 'anvil_setBalance', [accounts.settlement.address, '0x1'])
    await fundSandboxAccounts(devnet.rpcUrl, accounts)
    expect(await devnet.client.getBalance({ address: accounts.settlement.address })).toBe(100n * 10n ** 18n)
    await mintUsdc(devnet.rpcUrl, accounts.payer.address, 5n)
    expect(await devnet.usdcBalance(accounts.payer.address)).toBe(1_000_000_005n)
  })
})
