import { type Address, createWalletClient, type Hex, http, maxUint256, parseAbi, parseSignature } from 'viem'
import { type PrivateKeyAccount, privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { base } from '#shared/adapters/chain/network/base-chain.ts'
import { DEVNET_ADDRESSES } from '../../../infra/sandbox/chain/devnet.ts'
import { createSandboxAccounts, fundSandboxAccounts, mintUsdc } from '../../../infra/sandbox/chain/fund-devnet.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { startTestDevnet, type TestDevnet } from '../../support/chain/devnet.ts'
import { signPermit } from '../../support/payer/sign-permit.ts'

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

const USDC_CONTRACT = { address: DEVNET_ADDRESSES.usdc, abi: ABI } as const

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
  const { request } = await devnet.client.simulateContract({
    ...USDC_CONTRACT,
    account: spender,
    functionName,
    args,
  } as never)
  const wallet = createWalletClient({ account: spender, chain: base, transport: http(devnet.rpcUrl) })
  await devnet.client.waitForTransactionReceipt({ hash: await wallet.writeContract(request as never) })
}

async function permitFor(value: bigint, deadline: bigint): Promise<readonly unknown[]> {
  const nonce = await devnet.client.readContract({ ...USDC_CONTRACT, functionName: 'nonces', args: [payer.address] })
  const terms = { owner: payer.address, spender: spender.address, amount: value, nonce, deadline }
  const signature = await signPermit(payer, terms)
  const { r, s, v } = parseSignature(signature)
  return [payer.address, spender.address, value, deadline, Number(v), r, s]
}

function allowance(): Promise<bigint> {
  return devnet.client.readContract({
    ...USDC_CONTRACT,
    functionName: 'allowance',
    args: [payer.address, spender.address],
  })
}

function read(functionName: 'name' | 'version' | 'symbol' | 'decimals'): Promise<string | number> {
  return devnet.client.readContract({ ...USDC_CONTRACT, functionName })
}

describe('the USDC contract of the sandbox', () => {
  it('sandbox USDC has name, version, symbol and decimals of USDC', async () => {
    expect(await Promise.all([read('name'), read('version'), read('symbol'), read('decimals')])).toEqual([
      'USD Coin',
      '2',
      'USDC',
      6,
    ])
  })

  it('sandbox USDC accepts a permit once', async () => {
    const permit = await permitFor(5_000n, maxUint256)
    await write('permit', permit)
    expect(await allowance()).toBe(5_000n)
    await expect(write('permit', permit)).rejects.toThrow('EIP2612: invalid signature')
  })

  it('sandbox USDC rejects an expired permit and one for another value than signed', async () => {
    await expect(write('permit', await permitFor(1n, 1n))).rejects.toThrow('FiatTokenV2: permit is expired')
    const permit = [...(await permitFor(1n, maxUint256))]
    permit[2] = 2n
    await expect(write('permit', permit)).rejects.toThrow('EIP2612: invalid signature')
  })

  it('sandbox USDC reduces an allowance with each transfer, even the largest possible one', async () => {
    await write('permit', await permitFor(maxUint256, maxUint256))
    await write('transferFrom', [payer.address, devnet.accounts.recipient.address, 7n])
    expect(await allowance()).toBe(maxUint256 - 7n)
    expect(await devnet.usdcBalance(devnet.accounts.recipient.address)).toBe(7n)
  })

  it('sandbox USDC rejects transfers beyond allowance or balance with the errors of USDC', async () => {
    await write('permit', await permitFor(10n, maxUint256))
    const beyondAllowance = write('transferFrom', [payer.address, spender.address, 11n])
    await expect(beyondAllowance).rejects.toThrow('ERC20: transfer amount exceeds allowance')
    const args: [Address, bigint] = [payer.address, 1n]
    const empty = devnet.accounts.recipient.address
    const beyondBalance = devnet.client.simulateContract({
      ...USDC_CONTRACT,
      functionName: 'transfer',
      args: [args[0], 100n],
      account: empty,
    })
    await expect(beyondBalance).rejects.toThrow('ERC20: transfer amount exceeds balance')
  })

  it('sandbox USDC can be minted by the minter only', async () => {
    const attempt = devnet.client.simulateContract({
      ...USDC_CONTRACT,
      functionName: 'mint',
      args: [payer.address, 1n],
      account: spender.address,
    })
    await expect(attempt).rejects.toThrow('FiatToken: caller is not a minter')
  })
})

describe('funding of sandbox accounts', () => {
  it('funding provides payer, settlement key and recipient with what they need, once', async () => {
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

  it('funding refills a settlement key that is low on gas; mintUsdc adds to a balance', async () => {
    const accounts = createSandboxAccounts()
    await fundSandboxAccounts(devnet.rpcUrl, accounts)
    await callRpc<Hex>(devnet.rpcUrl, 'anvil_setBalance', [accounts.settlement.address, '0x1'])
    await fundSandboxAccounts(devnet.rpcUrl, accounts)
    expect(await devnet.client.getBalance({ address: accounts.settlement.address })).toBe(100n * 10n ** 18n)
    await mintUsdc(devnet.rpcUrl, accounts.payer.address, 5n)
    expect(await devnet.usdcBalance(accounts.payer.address)).toBe(1_000_000_005n)
  })
})
