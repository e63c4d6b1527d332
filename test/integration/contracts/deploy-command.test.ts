import { createPublicClient, type Hex, http, keccak256, toHex } from 'viem'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { base } from '#shared/chain/network/base-chain.ts'
import { SETTLEMENT_CONTRACT_CODE_HASH, settlementContractAbi } from '#shared/chain/network/contracts.ts'
import { main } from '../../../infra/commands/deploy-settlement-contract/main.ts'
import { type Anvil, startAnvil } from '../../../infra/sandbox/chain/anvil.ts'
import { deploySettlementContract } from '../../../infra/sandbox/chain/contracts/deploy-settlement-contract.ts'
import { DEVNET_ADDRESSES, startDevnet } from '../../../infra/sandbox/chain/devnet.ts'
import { createSandboxAccount, type SandboxAccount } from '../../../infra/sandbox/chain/fund-devnet.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { startTestDevnet, type TestDevnet } from '../../support/chain/devnet.ts'

describe('the command that deploys the contract', () => {
  let devnet: TestDevnet
  let owner: SandboxAccount
  let key: Hex
  let output: string
  beforeAll(async () => {
    devnet = await startTestDevnet()
  })

  beforeEach(async () => {
    owner = createSandboxAccount()
    key = createSandboxAccount().address
    await callRpc(devnet.rpcUrl, 'anvil_setBalance', [owner.address, toHex(10n ** 18n)])
    output = ''
    for (const method of ['log', 'error'] as const)
      vi.spyOn(console, method).mockImplementation((text: string) => {
        output += `${text}\n`
      })
  })

  afterEach(() => vi.restoreAllMocks())

  afterAll(() => devnet.stop())

  /** Runs the command as the owner, unless another key is given, and returns its exit code. */
  function run(commandLine: readonly string[], environment: NodeJS.ProcessEnv = {}): Promise<number> {
    output = ''
    return main(commandLine, { RPC_URL: devnet.rpcUrl, SENDER_PRIVATE_KEY: owner.privateKey, ...environment })
  }
  const deployment = () => ['--owner', owner.address, '--keys', `${key},${devnet.accounts.settlement.address}`]
  const deployed = () => /SETTLEMENT_CONTRACT=(0x\w{40})/.exec(output)?.[1] as Hex
  const transactionsOf = (address: Hex) => devnet.client.getTransactionCount({ address })
  const read = (contract: Hex, functionName: 'owner' | 'proposedOwner') =>
    devnet.client.readContract({ address: contract, abi: settlementContractAbi, functionName })
  const isKey = (contract: Hex, account: Hex) =>
    devnet.client.readContract({
      address: contract,
      abi: settlementContractAbi,
      functionName: 'isKey',
      args: [account],
    })
  /** Deploys with the command and returns the contract's address. */
  async function deploy(): Promise<Hex> {
    expect(await run(deployment())).toBe(0)
    return deployed()
  }
  describe('npm run deploy:settlement-contract', () => {
    it('shows with --dry-run what would be sent and cost, needs no key and sends nothing', async () => {
      expect(await run([...deployment(), '--dry-run'], { SENDER_PRIVATE_KEY: '' })).toBe(0)
      const address = /contract +(0x\w{40})/.exec(output)?.[1] as Hex
      for (const part of ['8453', owner.address, key, '0x4e59b44847b379578588920cA78FbF26c0B4956C', 'ETH', 'gwei'])
        expect(output).toContain(part)
      expect(await devnet.client.getCode({ address })).toBeUndefined()
      expect(await run([...deployment(), '--dry-run'])).toBe(0)
      expect(await transactionsOf(owner.address)).toBe(0)
      expect(await deploy()).toBe(address)
    })

    it('deploys a contract with this owner and these keys, at the address that depends on nothing else', async () => {
      const contract = await deploy()
      expect(await read(contract, 'owner')).toBe(owner.address)
      expect(await isKey(contract, key)).toBe(true)
      expect(await isKey(contract, devnet.accounts.settlement.address)).toBe(true)
      expect(await isKey(contract, owner.address)).toBe(false)
      const keys = [key, devnet.accounts.settlement.address]
      expect(await deploySettlementContract(devnet.rpcUrl, { owner: owner.address, keys })).toBe(contract)
      expect(await run([...deployment(), '--salt', toHex(1, { size: 32 })])).toBe(0)
      expect(deployed()).not.toBe(contract)
    })

    it('reports an existing deployment instead of sending another one, and what changed in it since', async () => {
      const contract = await deploy()
      const sent = await transactionsOf(owner.address)
      expect(await run(deployment(), { SENDER_PRIVATE_KEY: createSandboxAccount().privateKey })).toBe(0)
      expect(output).toContain('done before')
      expect(deployed()).toBe(contract)
      expect(await transactionsOf(owner.address)).toBe(sent)
      expect(await run(['--set-key', `${key}=removed`, '--contract', contract])).toBe(0)
      expect(await run(deployment())).toBe(0)
      expect(output).toContain(`does not list ${key} any more`)
    })

    it('refuses a sender who cannot pay, before it sends', async () => {
      const poor = createSandboxAccount()
      expect(await run(deployment(), { SENDER_PRIVATE_KEY: poor.privateKey })).toBe(1)
      expect(output).toMatch(/has 0 ETH|insufficient/i)
      expect(await transactionsOf(poor.address)).toBe(0)
    })
  })

  describe('npm run deploy:settlement-contract on a chain that is not Base', () => {
    let other: Anvil
    afterEach(() => other.stop())

    it('refuses another chain, and one without the x402 proxy', async () => {
      for (const [chainId, problem] of [
        [8454, 'serves chain 8454 instead of 8453'],
        [8453, 'no x402 proxy'],
      ] as const) {
        await other?.stop()
        other = await startAnvil({ args: [`--chain-id=${chainId}`, '--accounts=0'] })
        await callRpc(other.rpcUrl, 'anvil_setBalance', [owner.address, toHex(10n ** 18n)])
        expect(await run(deployment(), { RPC_URL: other.rpcUrl })).toBe(1)
        expect(output).toContain(problem)
        const client = createPublicClient({ chain: base, transport: http(other.rpcUrl) })
        expect(await client.getTransactionCount({ address: owner.address })).toBe(0)
      }
    })
  })

  describe('npm run deploy:settlement-contract -- --set-key', () => {
    it('lists and removes keys as the owner, and sends nothing for what is so already', async () => {
      const contract = await deploy()
      const another = createSandboxAccount().address
      const environment = { SETTLEMENT_CONTRACT: contract }
      expect(await run(['--set-key', `${another}=listed`, '--dry-run'], environment)).toBe(0)
      expect(await isKey(contract, another)).toBe(false)
      expect(await run(['--set-key', `${another}=listed`], environment)).toBe(0)
      expect(await isKey(contract, another)).toBe(true)
      const sent = await transactionsOf(owner.address)
      expect(await run(['--set-key', `${another}=listed`], environment)).toBe(0)
      expect(output).toContain('done before')
      expect(await transactionsOf(owner.address)).toBe(sent)
      expect(await run(['--set-key', `${another}=removed`], environment)).toBe(0)
      expect(await isKey(contract, another)).toBe(false)
    })

    it('refuses anybody but the owner, and shows the owner what to send without a key', async () => {
      const contract = await deploy()
      const stranger = createSandboxAccount()
      const command = ['--set-key', `${stranger.address}=listed`, '--contract', contract]
      expect(await run(command, { SENDER_PRIVATE_KEY: stranger.privateKey })).toBe(1)
      expect(output).toContain(`Only ${owner.address} may do this`)
      expect(await run([...command, '--dry-run'], { SENDER_PRIVATE_KEY: '' })).toBe(0)
      expect(output).toContain('data')
      expect(await isKey(contract, stranger.address)).toBe(false)
    })

    it('refuses an address without code or with other code', async () => {
      for (const contract of [createSandboxAccount().address, DEVNET_ADDRESSES.usdc]) {
        expect(await run(['--set-key', `${key}=listed`, '--contract', contract])).toBe(1)
        expect(output).toMatch(/There is no contract|has the hash/)
      }
    })

    it('hands the contract over in two steps', async () => {
      const contract = await deploy()
      const next = createSandboxAccount()
      await callRpc(devnet.rpcUrl, 'anvil_setBalance', [next.address, toHex(10n ** 18n)])
      const environment = { SETTLEMENT_CONTRACT: contract }
      expect(await run(['--accept-ownership'], environment)).toBe(1)
      expect(output).toContain('No owner is proposed')
      expect(await run(['--propose-owner', next.address], environment)).toBe(0)
      expect(await run(['--accept-ownership'], environment)).toBe(1)
      expect(await read(contract, 'owner')).toBe(owner.address)
      expect(await run(['--accept-ownership'], { ...environment, SENDER_PRIVATE_KEY: next.privateKey })).toBe(0)
      expect(await read(contract, 'owner')).toBe(next.address)
      expect(await run(['--set-key', `${key}=removed`], environment)).toBe(1)
      expect(await isKey(contract, key)).toBe(true)
    })
  })

  describe('wrong usage of npm run deploy:settlement-contract', () => {
    it('reports it with exit code 2 and never prints a key or the path of the node', async () => {
      const misspelled = `${owner.address.slice(0, -1)}${owner.address.endsWith('1') ? '2' : '1'}`
      const lines: readonly (readonly string[])[] = [
        [],
        ['--owner', owner.address],
        ['--owner', 'nobody', '--keys', key],
        ['--owner', misspelled, '--keys', key],
        ['--owner', '0x0000000000000000000000000000000000000000', '--keys', key],
        ['--owner', owner.address, '--keys', `${key},${key}`],
        [...deployment(), '--set-key', `${key}=listed`],
        ['--set-key', `${key}=allowed`, '--contract', key],
        ['--set-key', `${key}=listed`],
        ['--unknown'],
        [...deployment(), '--rpc', 'ws://127.0.0.1'],
      ]
      for (const line of lines) expect([line, await run(line)]).toEqual([line, 2])
      expect(await run(deployment(), { SENDER_PRIVATE_KEY: '' })).toBe(2)
      expect(output).toContain('--dry-run needs none')
      const secret = `${owner.privateKey}ff`
      expect(await run(deployment(), { SENDER_PRIVATE_KEY: secret })).toBe(2)
      expect(output).not.toContain(owner.privateKey)
      expect(await run(deployment(), { RPC_URL: 'http://127.0.0.1:1/v2/secret-of-the-node' })).toBe(2)
      expect(output).not.toContain('secret-of-the-node')
      expect(await run(['--help'])).toBe(0)
    })
  })
})

describe('the contract of the sandbox', () => {
  it('deploys the settlement contract once, also where no block is mined for an hour', async () => {
    const devnet = await startDevnet({ blockTimeSeconds: 3600 })
    try {
      const [owner, key] = [createSandboxAccount().address, createSandboxAccount().address]
      const contract = await deploySettlementContract(devnet.rpcUrl, { owner, keys: [key] })
      const client = createPublicClient({ chain: base, transport: http(devnet.rpcUrl) })
      const code = await client.getCode({ address: contract })
      expect(keccak256(code ?? '0x')).toBe(SETTLEMENT_CONTRACT_CODE_HASH)
      const call = { address: contract, abi: settlementContractAbi } as const
      expect(await client.readContract({ ...call, functionName: 'isKey', args: [key] })).toBe(true)
      expect(await client.readContract({ ...call, functionName: 'owner' })).toBe(owner)
      const block = await client.getBlockNumber()
      expect(await deploySettlementContract(devnet.rpcUrl, { owner, keys: [key] })).toBe(contract)
      expect(await client.getBlockNumber()).toBe(block)
    } finally {
      await devnet.stop()
    }
  })
})
