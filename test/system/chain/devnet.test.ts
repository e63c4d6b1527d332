import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { x402UptoPermit2ProxyABI } from '@x402/evm'
import { type Abi, createWalletClient, http, parseAbi } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { base } from '#shared/chain/network/base-chain.ts'
import { compileContracts } from '../../../infra/sandbox/chain/contracts/compile.ts'
import { DEVNET_ADDRESSES, type Devnet } from '../../../infra/sandbox/chain/devnet.ts'
import { createSandboxAccounts, fundSandboxAccounts } from '../../../infra/sandbox/chain/fund-devnet.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { createChainReader, startTestDevnet, type TestDevnet } from '../../support/chain/devnet.ts'
import {
  authorizationOf,
  createOfficialFacilitator,
  permitInfoOf,
  requirementsFor,
  settle,
  settleWithPermit,
  signPayment,
} from '../../support/chain/upto-payment.ts'
import { payerWithKey } from '../../support/payer/payer.ts'

async function blockNumber({ rpcUrl }: Devnet): Promise<number> {
  return Number(await callRpc<string>(rpcUrl, 'eth_blockNumber', []))
}
const MAXIMUM_ATOMIC = 900_000n
const CHARGE_ATOMIC = 123_456n
/** Renders one line per function, event and error, independent of the order of properties. */
function describeAbi(abi: Abi): string[] {
  return abi.map((item) => JSON.stringify(sortKeys(item))).toSorted()
}
function sortKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sortKeys)
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).filter(([key]) => key !== 'internalType')
  const sorted = entries.toSorted(([left], [right]) => left.localeCompare(right))
  return Object.fromEntries(sorted.map(([key, inner]) => [key, sortKeys(inner)]))
}

describe('the local chain', () => {
  let directory: string
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'farebox-devnet-'))
  })

  afterAll(() => rm(directory, { recursive: true, force: true }))

  describe('a devnet with a state file', () => {
    it('a devnet keeps balances, receipts and logs across a restart, and is not funded twice', async () => {
      const stateFile = join(directory, 'kept.json')
      const first = await startTestDevnet({ stateFile })
      const { hash } = await settleWithPermit(first, await signPayment(first, 900_000n), 77n).then((receipt) => ({
        hash: receipt.transactionHash,
      }))
      await first.stop()
      expect(await first.exited).toEqual({ code: 0, signal: null })

      const second = await startTestDevnet({ stateFile })
      const reader = createChainReader(second.rpcUrl)
      await fundSandboxAccounts(second.rpcUrl, first.accounts)
      expect(second.resumed).toBe(true)
      expect(await reader.usdcBalance(first.accounts.payer.address)).toBe(1_000_000_000n - 77n)
      expect((await reader.client.getTransactionReceipt({ hash })).status).toBe('success')
      expect(await reader.transfersTo(first.accounts.recipient.address)).toMatchObject([{ valueAtomic: 77n }])
      const minedAfter = Date.now() / 1_000
      await callRpc(second.rpcUrl, 'evm_mine', [])
      const { timestamp } = await reader.client.getBlock()
      expect(Number(timestamp)).toBeGreaterThan(minedAfter - 30)
      expect(Number(timestamp)).toBeLessThan(Date.now() / 1_000 + 30)
      await second.stop()
    })

    it('a devnet keeps its chain after a SIGKILL of anvil', async () => {
      const stateFile = join(directory, 'killed.json')
      const first = await startTestDevnet({ stateFile })
      const block = await blockNumber(first)
      // anvil writes its first copy after two seconds.
      await expect.poll(() => readFile(stateFile).catch(() => undefined)).toBeDefined()
      process.kill(first.pid, 'SIGKILL')
      expect(await first.exited).toEqual({ code: null, signal: 'SIGKILL' })
      const second = await startTestDevnet({ stateFile })
      expect(second.resumed).toBe(true)
      expect(await blockNumber(second)).toBeGreaterThanOrEqual(block)
      await second.stop()
    })

    it('a devnet never loads a half-written state, but the older complete one, or starts fresh', async () => {
      const stateFile = join(directory, 'torn.json')
      const first = await startTestDevnet({ stateFile })
      await first.stop()
      const complete = await readFile(`${stateFile}.exit`)
      await writeFile(stateFile, complete)
      await writeFile(`${stateFile}.exit`, complete.subarray(0, complete.length / 2))
      const lines: string[] = []
      const log = (line: string) => lines.push(line)
      const second = await startTestDevnet({ stateFile, log })
      expect(second.resumed).toBe(true)
      expect(lines.join('\n')).toContain('incomplete')
      await second.stop()

      await writeFile(stateFile, complete.subarray(0, 1_000))
      await writeFile(`${stateFile}.exit`, '')
      const third = await startTestDevnet({ stateFile, log })
      expect(third.resumed).toBe(false)
      expect(lines.at(-1)).toContain('starts fresh')
      expect(await blockNumber(third)).toBe(1)
      await third.stop()
    })

    it('a state file cannot be used by two devnets', async () => {
      const stateFile = join(directory, 'shared.json')
      const first = await startTestDevnet({ stateFile })
      await expect(startTestDevnet({ stateFile })).rejects.toThrow('is in use by process')
      await first.stop()
    })
  })

  describe('devnets', () => {
    it('devnets run concurrently, each with its own chain', async () => {
      const [left, right] = await Promise.all([startTestDevnet(), startTestDevnet()])
      await callRpc(left.rpcUrl, 'evm_mine', [])
      expect(await blockNumber(left)).toBe((await blockNumber(right)) + 1)
      expect(await right.usdcBalance(left.accounts.payer.address)).toBe(0n)
      await Promise.all([left.stop(), right.stop()])
    })

    it('a devnet mines at an interval with blockTimeSeconds', async () => {
      const devnet = await startTestDevnet({ blockTimeSeconds: 1 })
      const before = await blockNumber(devnet)
      await expect.poll(() => blockNumber(devnet)).toBeGreaterThan(before)
      await devnet.stop()
    })

    it('a devnet that fails to start reports the reason', async () => {
      const devnet = await startTestDevnet()
      const port = Number(new URL(devnet.rpcUrl).port)
      await expect(startTestDevnet({ port })).rejects.toThrow(/anvil ended .*[Aa]ddress/s)
      await devnet.stop()
    })
  })
})

describe('the x402 proxy', () => {
  let devnet: TestDevnet
  let snapshot: `0x${string}`
  beforeAll(async () => {
    devnet = await startTestDevnet()
  })

  afterAll(() => devnet.stop())

  beforeEach(async () => {
    snapshot = await devnet.snapshot()
  })

  afterEach(() => devnet.revert(snapshot))

  /** Approves Permit2 for everything, as a regular payer does once. */
  function approvePermit2(): Promise<void> {
    return payerWithKey(devnet.rpcUrl, devnet.accounts.payer.privateKey).approve()
  }
  describe('the x402 proxy of the sandbox', () => {
    it('the sandbox proxy has exactly the interface that @x402/evm publishes', async () => {
      const { uptoProxy } = await compileContracts(
        `${import.meta.dirname}/../../../node_modules/.cache/farebox-sandbox`,
      )
      expect(describeAbi(uptoProxy.abi)).toEqual(describeAbi(x402UptoPermit2ProxyABI))
    })

    it('the sandbox proxy transfers exactly the charge by permit, for a payer without gas and allowance', async () => {
      const payment = await signPayment(devnet, MAXIMUM_ATOMIC)
      const receipt = await settleWithPermit(devnet, payment, CHARGE_ATOMIC)
      const { payer, recipient } = devnet.accounts
      expect(receipt.status).toBe('success')
      expect(await devnet.usdcBalance(payer.address)).toBe(1_000_000_000n - CHARGE_ATOMIC)
      expect(await devnet.usdcBalance(recipient.address)).toBe(CHARGE_ATOMIC)
      expect(await devnet.transfersTo(recipient.address)).toEqual([
        {
          from: payer.address,
          to: recipient.address,
          valueAtomic: CHARGE_ATOMIC,
          transactionHash: receipt.transactionHash,
        },
      ])
      const nonce = BigInt(authorizationOf(payment).permit2Authorization.nonce)
      expect(await devnet.isPermit2NonceUsed(payer.address, nonce)).toBe(true)
      expect(await devnet.permit2Allowance(payer.address)).toBe(MAXIMUM_ATOMIC - CHARGE_ATOMIC)
    })

    it('the sandbox proxy settles even if the permit was submitted before, since the allowance exists', async () => {
      const payment = await signPayment(devnet, MAXIMUM_ATOMIC)
      const before = await devnet.snapshot()
      await settleWithPermit(devnet, payment, CHARGE_ATOMIC)
      await devnet.revert(before)
      await submitPermit(payment)
      expect((await settleWithPermit(devnet, payment, CHARGE_ATOMIC)).status).toBe('success')
      expect(await devnet.usdcBalance(devnet.accounts.recipient.address)).toBe(CHARGE_ATOMIC)
    })

    it('the sandbox proxy rejects a permit for another amount than the maximum', async () => {
      const payment = await signPayment(devnet, MAXIMUM_ATOMIC)
      const permit = permitInfoOf(payment)
      if (permit === undefined) throw new Error('no permit')
      permit.amount = (MAXIMUM_ATOMIC + 1n).toString()
      await expect(settleWithPermit(devnet, payment, CHARGE_ATOMIC)).rejects.toThrow('Permit2612AmountMismatch')
    })
  })

  describe('the x402 proxy of the sandbox, for a payer with an approval', () => {
    beforeEach(approvePermit2)

    it('the sandbox proxy transfers the charge of a payer with an approval, without a permit', async () => {
      const payment = await signPayment(devnet, MAXIMUM_ATOMIC)
      expect(permitInfoOf(payment)).toBeUndefined()
      const receipt = await settle(devnet, authorizationOf(payment), CHARGE_ATOMIC)
      expect(receipt.status).toBe('success')
      expect(await devnet.usdcBalance(devnet.accounts.recipient.address)).toBe(CHARGE_ATOMIC)
    })

    it('the sandbox proxy settles only for the signed facilitator', async () => {
      const stranger = createSandboxAccounts()
      await fundSandboxAccounts(devnet.rpcUrl, stranger)
      const authorization = authorizationOf(await signPayment(devnet, MAXIMUM_ATOMIC))
      const attempt = settle(devnet, authorization, CHARGE_ATOMIC, stranger.settlement)
      await expect(attempt).rejects.toThrow('UnauthorizedFacilitator')
    })

    it('the sandbox proxy settles up to the signed maximum and no more', async () => {
      const authorization = authorizationOf(await signPayment(devnet, MAXIMUM_ATOMIC))
      await expect(settle(devnet, authorization, MAXIMUM_ATOMIC + 1n)).rejects.toThrow('AmountExceedsPermitted')
      expect((await settle(devnet, authorization, MAXIMUM_ATOMIC)).status).toBe('success')
    })

    it('the sandbox proxy settles an authorization only once', async () => {
      const authorization = authorizationOf(await signPayment(devnet, MAXIMUM_ATOMIC))
      await settle(devnet, authorization, CHARGE_ATOMIC)
      // Permit2's InvalidNonce(), which is not in the proxy's ABI.
      await expect(settle(devnet, authorization, CHARGE_ATOMIC)).rejects.toThrow('0x756688fe')
      expect(await devnet.transfersTo(devnet.accounts.recipient.address)).toHaveLength(1)
    })

    it('the sandbox proxy does not settle after the deadline', async () => {
      const authorization = authorizationOf(await signPayment(devnet, MAXIMUM_ATOMIC))
      await callRpc(devnet.rpcUrl, 'evm_increaseTime', [3600])
      await callRpc(devnet.rpcUrl, 'evm_mine', [])
      // Permit2's SignatureExpired(uint256).
      await expect(settle(devnet, authorization, CHARGE_ATOMIC)).rejects.toThrow('0xcd21db4f')
    })

    it('the sandbox proxy does not settle before validAfter, nor to another recipient than the signed one', async () => {
      const authorization = authorizationOf(await signPayment(devnet, MAXIMUM_ATOMIC))
      const { witness } = authorization.permit2Authorization
      witness.validAfter = '99999999999'
      await expect(settle(devnet, authorization, CHARGE_ATOMIC)).rejects.toThrow('PaymentTooEarly')
      witness.validAfter = '0'
      witness.to = createSandboxAccounts().recipient.address
      // Permit2's InvalidSigner().
      await expect(settle(devnet, authorization, CHARGE_ATOMIC)).rejects.toThrow('0x815e1d64')
    })
  })

  describe("the SDK's facilitator", () => {
    it('the SDK’s facilitator accepts the official client’s payment, before and after an approval', async () => {
      const facilitator = createOfficialFacilitator(devnet)
      const requirements = requirementsFor(devnet, MAXIMUM_ATOMIC)
      const verify = async () => facilitator.verify(await signPayment(devnet, MAXIMUM_ATOMIC), requirements)
      expect(await verify()).toMatchObject({ isValid: true, payer: devnet.accounts.payer.address })
      await approvePermit2()
      expect(await verify()).toMatchObject({ isValid: true })
    })

    it('the SDK’s facilitator rejects tampered payments', async () => {
      const facilitator = createOfficialFacilitator(devnet)
      const requirements = requirementsFor(devnet, MAXIMUM_ATOMIC)
      const payment = await signPayment(devnet, MAXIMUM_ATOMIC)
      const tamper = (change: (authorization: ReturnType<typeof authorizationOf>) => void) => {
        const copy = structuredClone(payment)
        change(authorizationOf(copy))
        return facilitator.verify(copy, requirements)
      }
      const nonce = await tamper((copy) => {
        copy.permit2Authorization.nonce = '1'
      })
      expect(nonce).toMatchObject({ isValid: false, invalidReason: 'invalid_permit2_signature' })
      const recipient = await tamper((copy) => {
        copy.permit2Authorization.witness.to = devnet.accounts.payer.address
      })
      expect(recipient).toMatchObject({ isValid: false, invalidReason: 'invalid_permit2_recipient_mismatch' })
      const amount = await tamper((copy) => {
        copy.permit2Authorization.permitted.amount = '1'
      })
      expect(amount.isValid).toBe(false)
    })

    it('the SDK’s facilitator reports a missing balance and a missing allowance, using Multicall3', async () => {
      const facilitator = createOfficialFacilitator(devnet)
      const tooMuch = await signPayment(devnet, 1_000_000n)
      const { extensions: _permit, ...withoutPermit } = tooMuch
      expect(
        await facilitator.verify(withoutPermit as typeof tooMuch, requirementsFor(devnet, 1_000_000n)),
      ).toMatchObject({
        isValid: false,
        invalidReason: 'permit2_allowance_required',
      })
      const poor = createSandboxAccounts().payer
      const poorDevnet = { ...devnet, accounts: { ...devnet.accounts, payer: poor } }
      const payment = await signPayment(poorDevnet, MAXIMUM_ATOMIC)
      expect(await facilitator.verify(payment, requirementsFor(devnet, MAXIMUM_ATOMIC))).toMatchObject({
        isValid: false,
        invalidReason: 'permit2_insufficient_balance',
      })
    })
  })

  async function submitPermit(payment: Awaited<ReturnType<typeof signPayment>>): Promise<void> {
    const permit = permitInfoOf(payment)
    if (permit === undefined) throw new Error('no permit')
    const account = privateKeyToAccount(devnet.accounts.settlement.privateKey)
    const wallet = createWalletClient({ account, chain: base, transport: http(devnet.rpcUrl) })
    const abi = parseAbi(['function permit(address, address, uint256, uint256, bytes)'])
    const { payer } = devnet.accounts
    const hash = await wallet.writeContract({
      address: DEVNET_ADDRESSES.usdc,
      abi,
      functionName: 'permit',
      args: [payer.address, DEVNET_ADDRESSES.permit2, BigInt(permit.amount), BigInt(permit.deadline), permit.signature],
    })
    await devnet.client.waitForTransactionReceipt({ hash })
  }
})
