import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { decodePaymentSignatureHeader, encodePaymentRequiredHeader } from '@x402/core/http'
import type { PaymentPayload } from '@x402/core/types'
import { UptoEvmScheme } from '@x402/evm/upto/client'
import { wrapFetchWithPayment, x402Client } from '@x402/fetch'
import { type Address, createWalletClient, type Hex, http, maxUint256, parseAbi, parseSignature } from 'viem'
import { generatePrivateKey, type PrivateKeyAccount, privateKeyToAccount } from 'viem/accounts'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { base } from '#shared/chain/network/base-chain.ts'
import { DEVNET_ADDRESSES, DEVNET_CHAIN_ID } from '../../infra/sandbox/chain/devnet.ts'
import { createSandboxAccounts, fundSandboxAccounts, mintUsdc } from '../../infra/sandbox/chain/fund-devnet.ts'
import { callRpc } from '../../infra/sandbox/chain/json-rpc.ts'
import { readOrCreateSecrets } from '../../infra/sandbox/state-directory.ts'
import { startTestDevnet, type TestDevnet } from '../support/chain/devnet.ts'
import { paymentRequiredFor, permitInfoOf, requirementsFor, settleWithPermit } from '../support/chain/upto-payment.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { signPermit } from '../support/payer/sign-permit.ts'

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

describe('a paying fetch against the devnet', () => {
  let devnet: TestDevnet
  let server: Server
  let url: string
  let maximumAtomic = 0n
  let received: PaymentPayload[] = []
  beforeAll(async () => {
    devnet = await startTestDevnet()
    server = createServer((request, response) => {
      const signed = request.headers['payment-signature']
      if (typeof signed === 'string') received.push(decodePaymentSignatureHeader(signed))
      const challenge = encodePaymentRequiredHeader(paymentRequiredFor(requirementsFor(devnet, maximumAtomic)))
      if (signed === undefined) response.writeHead(402, { 'PAYMENT-REQUIRED': challenge })
      response.end('{}')
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  })
  afterAll(async () => {
    server.close()
    await devnet.stop()
  })
  beforeEach(() => {
    received = []
  })
  /** Creates the simplest official client: a plain viem account, and the chain by URL. */
  function createClient(): x402Client {
    const account = privateKeyToAccount(devnet.accounts.payer.privateKey)
    return new x402Client().register('eip155:8453', new UptoEvmScheme(account, { rpcUrl: devnet.rpcUrl }))
  }

  it('a paying fetch needs only an account and an RPC URL, and its payment settles', async () => {
    maximumAtomic = 1_000_000n
    const response = await wrapFetchWithPayment(fetch, createClient())(url, { method: 'POST', body: '{}' })
    expect(response.status).toBe(200)
    const [payment] = received
    if (payment === undefined) throw new Error('no payment arrived')
    expect(permitInfoOf(payment)).toMatchObject({ amount: '1000000', nonce: '0' })
    expect((await settleWithPermit(devnet, payment, 42n)).status).toBe('success')
    expect(await devnet.usdcBalance(devnet.accounts.recipient.address)).toBe(42n)
  })

  it('a paying fetch rejects a maximum above $1 unless spendControls allow it', async () => {
    maximumAtomic = 1_000_001n
    const strict = wrapFetchWithPayment(fetch, createClient())
    await expect(strict(url)).rejects.toThrow('rejected by spendControls.maxAmountPerPayment ($1')
    const raised = wrapFetchWithPayment(fetch, createClient().setSpendControls({ maxAmountPerPayment: '$5' }))
    expect((await raised(url)).status).toBe(200)
    expect(received).toHaveLength(1)
  })

  it('a paying fetch signs no permit when it cannot read the chain', async () => {
    maximumAtomic = 10n
    const account = privateKeyToAccount(devnet.accounts.payer.privateKey)
    const withoutRpc = new x402Client().register('eip155:8453', new UptoEvmScheme(account))
    expect((await wrapFetchWithPayment(fetch, withoutRpc)(url)).status).toBe(200)
    expect(received.map(permitInfoOf)).toEqual([undefined])
  })
})

describe('transactions that a restart strands', () => {
  let devnet: TestDevnet
  let account: PrivateKeyAccount
  beforeAll(async () => {
    devnet = await startTestDevnet()
  })

  afterAll(() => devnet.stop())

  beforeEach(async () => {
    account = privateKeyToAccount(generatePrivateKey())
    await callRpc(devnet.rpcUrl, 'anvil_setBalance', [account.address, '0xde0b6b3a7640000'])
  })

  async function send(nonce: number): Promise<void> {
    const raw = await account.signTransaction({
      type: 'eip1559',
      chainId: DEVNET_CHAIN_ID,
      nonce,
      gas: 21_000n,
      maxFeePerGas: 5_000_000_000n,
      maxPriorityFeePerGas: 1n,
      to: account.address,
    })
    await callRpc(devnet.rpcUrl, 'eth_sendRawTransaction', [raw])
  }
  const countNonces = () => devnet.client.getTransactionCount({ address: account.address, blockTag: 'latest' })
  it('transactions whose predecessor was mined while they were added are mined', async () => {
    await send(2)
    await send(1)
    // Leaves the queue as that race does: nonce 1 waits for nonce 0, which is used.
    await callRpc(devnet.rpcUrl, 'anvil_setNonce', [account.address, '0x1'])
    await expect.poll(countNonces, { timeout: PATIENCE_MS }).toBe(3)
  })

  it('a transaction whose predecessor is missing goes on waiting for it', async () => {
    const other = account
    await send(1)
    account = privateKeyToAccount(generatePrivateKey())
    await callRpc(devnet.rpcUrl, 'anvil_setBalance', [account.address, '0xde0b6b3a7640000'])
    await send(1)
    await callRpc(devnet.rpcUrl, 'anvil_setNonce', [account.address, '0x1'])
    // The look that mines this one has seen the other one too.
    await expect.poll(countNonces, { timeout: PATIENCE_MS }).toBe(2)
    account = other
    expect(await countNonces()).toBe(0)
    await send(0)
    await expect.poll(countNonces, { timeout: PATIENCE_MS }).toBe(2)
  })
})

describe('the folder of the sandbox', () => {
  let directory: string
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'farebox-secrets-'))
  })

  afterEach(() => rm(directory, { recursive: true, force: true }))

  it('secrets are generated once', async () => {
    const first = await readOrCreateSecrets(directory, 1)
    expect(await readOrCreateSecrets(directory, 1)).toEqual(first)
  })

  it('secrets that an earlier version did not store are added and kept', async () => {
    const { receiptSigningSeed: _, ...earlier } = await readOrCreateSecrets(directory, 1)
    const path = join(directory, 'secrets.json')
    await writeFile(path, JSON.stringify(earlier))
    const upgraded = await readOrCreateSecrets(directory, 1)
    expect(upgraded).toMatchObject(earlier)
    expect(upgraded.receiptSigningSeed).toMatch(/^[0-9a-f]{64}$/)
    expect(await readOrCreateSecrets(directory, 1)).toEqual(upgraded)
    expect(JSON.parse(await readFile(path, 'utf8'))).toEqual(upgraded)
  })
})

describe('USDC of the sandbox', () => {
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
})
