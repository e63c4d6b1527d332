import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { maxUint256 } from 'viem'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { PERMIT2_ADDRESS, USDC_ADDRESS, usdcAbi } from '#shared/chain/network/contracts.ts'
import { paymentsOfReceipt } from '#shared/chain/settlement-contract/batch-receipt.ts'
import {
  createFarebox,
  type Farebox,
  type FareboxOptions,
  parseUsdc,
  walletFromPrivateKey,
} from '../../../client/farebox.ts'
import { openJournal } from '../../../client/journal/open-journal.ts'
import { mintUsdc } from '../../../infra/sandbox/chain/fund-devnet.ts'
import { countingAccount } from '../../support/client/open-client.ts'
import { startLocalServer } from '../../support/mcp/local-server.ts'
import { generateMp3 } from '../../support/media/mp3-generator.ts'
import { createPayer, type Payer, type PayerOptions } from '../../support/payer/payer.ts'
import { startFareboxCommand } from '../../support/processes/farebox-command.ts'
import { type SharedSandbox, startTestSandbox, useSharedSandbox } from '../../support/processes/test-sandbox.ts'

const PROGRAM = fileURLToPath(new URL('../../support/client/killed-call.ts', import.meta.url))
interface Ended {
  readonly signal: string | null
  readonly output: string
}
const say = (content: string) =>
  ({ model: 'textmodel-2.5-flash', messages: [{ role: 'user', content }], max_tokens: 20 }) as const
const HALF_USDC = 500_000n

describe('a call whose process is killed', () => {
  const FUNDS = 1_000_000n
  let sandbox: SharedSandbox
  beforeAll(async () => {
    sandbox = await useSharedSandbox()
  })
  afterAll(async () => {
    await sandbox.setFaults([])
    await sandbox.stop()
  })
  function run(home: string, payer: Payer, requestId: string, moment: string): Promise<Ended> {
    const { baseUrl, rpcUrl } = sandbox.info
    const given = [PROGRAM, home, baseUrl, rpcUrl, payer.privateKey, requestId, moment]
    return new Promise((resolve) => {
      const child = execFile(process.execPath, given, (_error, stdout, stderr) =>
        resolve({ signal: child.signalCode, output: stdout.trim() || stderr }),
      )
    })
  }
  /** Kills the call at a moment, makes it again to its end, and returns what was paid and what the journal knows. */
  async function killAndRepeat(requestId: string, moment: string) {
    const home = await mkdtemp(join(tmpdir(), 'farebox-killed-'))
    const payer = await createPayer(sandbox.info.rpcUrl, { approved: true })
    await sandbox.setFaults(moment === 'sent' ? [{ fault: 'none', delayMs: 2500 }] : [])
    try {
      const killed = await run(home, payer, requestId, moment)
      const repeated = await run(home, payer, requestId, '')
      const attempts = [...openJournal(home).attempts.all()]
      const spent = FUNDS - (await sandbox.chain.usdcBalance(payer.address))
      const jobs = await sandbox.sql<{ charge: string }>(
        "SELECT charge_amount::text AS charge FROM jobs WHERE payer = $1 AND state = 'completed'",
        [payer.address],
      )
      return { killed, repeated, attempts, spent, charges: jobs.map(({ charge }) => BigInt(charge)) }
    } finally {
      await rm(home, { recursive: true, force: true })
    }
  }

  it.each(['intended', 'quoted', 'signed', 'sent', 'answered', 'verified'])(
    'killed when it was %s, it is charged once after it was made again',
    async (moment) => {
      const { killed, repeated, attempts, spent, charges } = await killAndRepeat(randomUUID(), moment)
      expect(killed.signal).toBe('SIGKILL')
      expect(repeated.output).toBe('{"status":200,"verified":"passed"}')
      expect(charges).toHaveLength(1)
      expect(spent).toBe(charges[0])
      expect(attempts.map(({ verification, open, charged }) => [verification, open, charged])).toEqual([
        ['passed', null, spent],
      ])
    },
  )

  it.each(['intended', 'quoted', 'signed', 'sent'])(
    'killed when it was %s, a request of an SDK without a key is charged once as well',
    async (moment) => {
      const { killed, repeated, attempts, spent, charges } = await killAndRepeat('', moment)
      expect(killed.signal).toBe('SIGKILL')
      expect(repeated.output).toBe('{"status":200}')
      expect(charges).toHaveLength(1)
      expect(spent).toBe(charges[0])
      expect(attempts.map(({ open, charged }) => [open, charged])).toEqual([[null, spent]])
    },
  )
})

describe('refusals of the service', () => {
  let sandbox: SharedSandbox
  beforeAll(async () => {
    sandbox = await startTestSandbox()
  })

  afterEach(() => sandbox.setFaults([]))

  afterAll(() => sandbox.stop())

  async function openFor(
    payerOptions: PayerOptions = {},
    changes: Partial<FareboxOptions> = {},
  ): Promise<{ farebox: Farebox; payer: Payer }> {
    const { baseUrl, rpcUrl } = sandbox.info
    const payer = await createPayer(rpcUrl, payerOptions)
    const wallet = walletFromPrivateKey(payer.privateKey)
    const budget = { session: '0.5' }
    return { farebox: await createFarebox({ wallet, baseUrl, rpcUrl, journal: 'memory', budget, ...changes }), payer }
  }
  const spentOf = async ({ address }: Payer, before = 1_000_000n) => before - (await sandbox.chain.usdcBalance(address))
  describe('calls of every operation', () => {
    it('each is charged what its receipt and the chain say', async () => {
      const { farebox, payer } = await openFor({ approved: true })
      const answers = [
        await farebox.chat.create(say('Hello.')),
        await farebox.messages.create({ ...say('Hello.') }),
        await farebox.images.create({ model: 'textmodel-3.1-flash-lite-image', prompt: 'A tram.' }),
        await farebox.speech.create({ model: 'speechvendor/flash-v2.5', input: 'Hello.' }),
        await farebox.transcriptions.create({ file: sandbox.sample }),
      ]
      expect(answers.map(({ payment }) => payment.verified)).toEqual(answers.map(() => 'passed'))
      const spend = farebox.spend()
      expect(spend.rows.map(({ operation, calls }) => [operation, calls])).toEqual([
        ['createChatCompletion', 1],
        ['createImageGeneration', 1],
        ['createMessage', 1],
        ['createSpeech', 1],
        ['createTranscription', 1],
      ])
      expect(spend.charged).toBe(await spentOf(payer))
      expect(farebox.budgetLeft().session).toBe(HALF_USDC - spend.charged)
    })

    it('equal calls at the same time under one key are one call', async () => {
      const { farebox, payer } = await openFor({ approved: true })
      const requestId = randomUUID()
      const calls = Array.from({ length: 5 }, () => farebox.chat.create(say('Once.'), { requestId }))
      const answers = await Promise.all(calls)
      expect(new Set(answers.map(({ payment }) => payment.receiptId)).size).toBe(1)
      expect(answers.filter(({ payment }) => !payment.replayed)).toHaveLength(1)
      expect(HALF_USDC - (farebox.budgetLeft().session ?? 0n)).toBe(await spentOf(payer))
    })
  })

  describe('calls that the service refuses', () => {
    it('another request under a used key is refused and costs nothing', async () => {
      const { farebox, payer } = await openFor({ approved: true })
      const requestId = randomUUID()
      await farebox.chat.create(say('One.'), { requestId })
      const before = await spentOf(payer)
      const reused = farebox.chat.create(say('Other.'), { requestId })
      await expect(reused).rejects.toMatchObject({ code: 'idempotency_key_reused', money: 'none', key: requestId })
      expect(await spentOf(payer)).toBe(before)
      expect(HALF_USDC - (farebox.budgetLeft().session ?? 0n)).toBe(before)
    })

    it('without an approval and without a node a call approves once, up to the limit of the session', async () => {
      const { farebox, payer } = await openFor({}, { rpcUrl: undefined })
      await farebox.chat.create(say('Hello.'))
      expect(await farebox.allowance()).toMatchObject({ allowance: HALF_USDC - (await spentOf(payer)) })
      expect(farebox.budgetLeft().session).toBe(HALF_USDC - (await spentOf(payer)))
    })

    it('without an approval parallel calls share one permit', async () => {
      const { farebox, payer } = await openFor()
      const calls = Array.from({ length: 4 }, (_, index) => farebox.chat.create(say(`Hello ${index}.`)))
      const answers = await Promise.all(calls)
      expect(answers.map(({ payment }) => payment.verified)).toEqual(answers.map(() => 'passed'))
      expect(await farebox.allowance()).toMatchObject({ allowance: HALF_USDC - (await spentOf(payer)) })
      expect(farebox.spend().charged).toBe(await spentOf(payer))
    })

    it('an approved wallet pays while its node does not answer', async () => {
      const { farebox } = await openFor({ approved: true }, { rpcUrl: 'http://127.0.0.1:9/secret' })
      const { payment } = await farebox.chat.create(say('Hello.'))
      expect(payment.verified).toBe('passed')
    })

    it('a result past its retention is gone, its call stays paid once, and its receipt is still there', async () => {
      const { farebox, payer } = await openFor({ approved: true })
      const requestId = randomUUID()
      const { payment } = await farebox.chat.create(say('Hello.'), { requestId })
      await sandbox.sql("UPDATE jobs SET finished_at = now() - interval '8 days' WHERE idempotency_key = $1", [
        requestId,
      ])
      const erased = () =>
        sandbox.sql('SELECT 1 FROM jobs WHERE idempotency_key = $1 AND result_body IS NULL', [requestId])
      await expect.poll(erased).toHaveLength(1)
      const before = await spentOf(payer)
      const again = farebox.chat.create(say('Hello.'), { requestId })
      await expect(again).rejects.toMatchObject({ code: 'result_expired', status: 410, money: 'settled' })
      expect(await spentOf(payer)).toBe(before)
      expect((await farebox.verify(payment.receiptId ?? '')).outcome).toBe('passed')
    })

    it('a debt is named, paid for by repeating its call under its key, and then other calls are served', async () => {
      const { farebox, payer } = await openFor({ approved: true, usdcAtomic: 100_000n })
      await sandbox.setFaults([{ fault: 'none', delayMs: 3000 }])
      const requestId = randomUUID()
      const owed = farebox.chat.create(say('Owed.'), { requestId, patienceMs: 0 })
      const failed = owed.catch((error: unknown) => error)
      await expect.poll(async () => (await sandbox.upstreamCalls()).length).toBeGreaterThan(0)
      const calls = async () =>
        await sandbox.sql("SELECT 1 FROM jobs WHERE idempotency_key = $1 AND state = 'generating'", [requestId])
      await expect.poll(calls).toHaveLength(1)
      await payer.spendAll()
      expect(await failed).toMatchObject({ money: expect.stringMatching(/none|unknown|authorized/) })
      await mintUsdc(sandbox.info.rpcUrl, payer.account.address, 100_000n)
      const other = farebox.chat.create(say('Another.'), { patienceMs: 0 })
      // No list names the call that is owed: the refusal does.
      await expect(other).rejects.toMatchObject({
        code: 'unpaid_debt',
        money: 'none',
        problem: expect.stringContaining(`x-idempotency-key "${requestId}"`),
      })
      const { payment } = await farebox.chat.create(say('Owed.'), { requestId })
      expect(payment.verified).toBe('passed')
      await farebox.chat.create(say('Another.'))
      expect(farebox.spend().charged).toBe(await spentOf(payer, 100_000n))
    })
  })
})

/** Makes calls at the same time, and returns what they paid in all. All of them must be answered. */
async function callAtOnce({ chat }: Farebox, calls: number): Promise<bigint> {
  const outcomes = await Promise.allSettled(
    Array.from({ length: calls }, (_each, index) => chat.create(say(`Hello ${index}.`))),
  )
  const failed = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [String(outcome.reason)] : []))
  expect(failed).toEqual([])
  return outcomes.reduce(
    (sum, outcome) => (outcome.status === 'rejected' ? sum : sum + parseUsdc(outcome.value.payment.charged)),
    0n,
  )
}

describe('a wallet without gas and without an allowance', () => {
  let sandbox: SharedSandbox
  beforeAll(async () => {
    sandbox = await useSharedSandbox()
  })
  afterAll(() => sandbox.stop())

  it.each([
    ['with', () => sandbox.info.rpcUrl],
    ['without', () => undefined],
  ])(
    '%s an RPC URL, makes 20 calls at the same time at the first try, and its one permit comes on chain with a charge',
    async (_, rpcUrl) => {
      const payer = await createPayer(sandbox.info.rpcUrl, { usdcAtomic: 1_000_000n })
      const { counting: wallet, signed } = countingAccount(payer.privateKey)
      const { baseUrl } = sandbox.info
      const farebox = await createFarebox({ wallet, baseUrl, rpcUrl: rpcUrl(), journal: 'memory', verify: 'never' })
      const charged = await callAtOnce(farebox, 20)
      expect(charged).toBe(1_000_000n - (await sandbox.chain.usdcBalance(payer.address)))
      expect(signed.filter(({ primaryType }) => primaryType === 'Permit')).toHaveLength(1)
      const { client } = sandbox.chain
      const args = { owner: payer.address, spender: PERMIT2_ADDRESS } as const
      const approvals = { address: USDC_ADDRESS, abi: usdcAbi, eventName: 'Approval', args, fromBlock: 0n } as const
      const permits = await client.getContractEvents({ ...approvals, strict: true })
      expect(permits.map(({ args: { value } }) => value)).toEqual([maxUint256])
      const [permit] = permits
      const receipt = await client.getTransactionReceipt({ hash: permit?.transactionHash ?? '0x' })
      const charges = paymentsOfReceipt(receipt).filter((each) => each.payer === payer.address && each.isSettled)
      expect(charges.length).toBeGreaterThan(0)
      expect(await sandbox.chain.permit2Allowance(payer.address)).toBe(maxUint256 - charged)
      expect(
        await sandbox.sql('SELECT 1 FROM authorizations WHERE payer = $1 AND permit_nonce IS NOT NULL', [
          payer.address,
        ]),
      ).toEqual([])
      await farebox.chat.create(say('Once more.'))
      expect(signed.filter(({ primaryType }) => primaryType === 'Permit')).toHaveLength(1)
      await farebox.close()
    },
  )
})

describe('a wallet whose Permit2 allowance is left over from elsewhere', () => {
  const FUNDS = 20_000_000n
  const LEFTOVER = 60_000n
  /** Less than one call may cost. */
  const REST = 1000n
  let sandbox: SharedSandbox
  let root: string
  beforeAll(async () => {
    sandbox = await useSharedSandbox()
    root = await mkdtemp(join(tmpdir(), 'farebox-leftover-'))
  })
  afterAll(async () => {
    await rm(root, { recursive: true, force: true })
    await sandbox.stop()
  })

  async function createLeftover(leftover: bigint) {
    const payer = await createPayer(sandbox.info.rpcUrl, { usdcAtomic: FUNDS })
    await payer.approve(leftover)
    return { payer, paid: async () => FUNDS - (await sandbox.chain.usdcBalance(payer.address)) }
  }
  async function openLeftover(changes: Partial<FareboxOptions> = {}, leftover = LEFTOVER) {
    const { payer, paid } = await createLeftover(leftover)
    const seen: string[] = []
    const counting: typeof globalThis.fetch = async (input, init) => {
      const { method, url } = new Request(input, init)
      const answer = await fetch(input, init)
      seen.push(`${method} ${new URL(url).pathname} ${answer.status}`)
      return answer
    }
    const { counting: wallet, signed } = countingAccount(payer.privateKey)
    const { baseUrl } = sandbox.info
    const given = { wallet, baseUrl, journal: 'memory', fetch: counting, verify: 'never' } as const
    const farebox = await createFarebox({ ...given, ...changes })
    const count = (request: string) => seen.filter((each) => each === request).length
    return { farebox, paid, signed, count }
  }
  const NODES: readonly (readonly [string, () => Partial<FareboxOptions>])[] = [
    ['with', () => ({ rpcUrl: sandbox.info.rpcUrl })],
    ['without', () => ({})],
  ]

  it.each(NODES)('%s an RPC URL, signs one lasting permit for 60 calls at the same time', async (_, node) => {
    const { farebox, paid, signed, count } = await openLeftover(node())
    expect(await callAtOnce(farebox, 60)).toBe(await paid())
    expect(count('POST /v1/allowances 200')).toBe(0)
    expect(signed.filter(({ primaryType }) => primaryType === 'Permit')).toHaveLength(1)
  })

  it('permits up to the limits of the user and no further', async () => {
    const { farebox, signed } = await openLeftover({ budget: { session: '0.7', day: '0.5' } }, REST)
    await callAtOnce(farebox, 4)
    const permits = signed.filter(({ primaryType }) => primaryType === 'Permit')
    expect(permits).toMatchObject([{ message: { value: 500_000n } }])
  })

  it.each(NODES)('%s an RPC URL, approves once for a call that the allowance does not cover', async (_, node) => {
    const { farebox, paid } = await openLeftover(node(), REST)
    const { payment } = await farebox.chat.create(say('Hello.'))
    expect(parseUsdc(payment.charged)).toBe(await paid())
  })

  it.each(NODES)(
    '%s an RPC URL, pays each call with its own permit where nothing lasting may be signed',
    async (_, node) => {
      const { farebox, paid, signed, count } = await openLeftover({ ...node(), approves: false }, REST)
      expect(await callAtOnce(farebox, 6)).toBe(await paid())
      expect(count('POST /v1/allowances 200')).toBe(0)
      const permits = signed.filter(({ primaryType }) => primaryType === 'Permit')
      const payments = signed.filter(({ primaryType }) => primaryType !== 'Permit')
      expect(permits.length).toBeGreaterThanOrEqual(6)
      // No permit allows more than a payment does.
      const maximum = payments.map(({ message }) => (message['permitted'] as { amount: bigint }).amount)
      expect(new Set(permits.map(({ message }) => message['value']))).toEqual(new Set(maximum))
    },
  )

  it.each([
    ['with', 2],
    ['with', 1],
    ['without', 2],
    ['without', 1],
  ])('%s an RPC URL, two transcribe commands at the same time finish, each with %i files', async (node, files) => {
    // More than one recording costs, and less than two.
    const { payer, paid } = await createLeftover(8000n)
    const { baseUrl, rpcUrl } = sandbox.info
    const place = await mkdtemp(join(root, 'commands-'))
    const settings = { baseUrl, privateKey: payer.privateKey, ...(node === 'with' ? { rpcUrl } : {}) }
    const commands = await Promise.all(
      ['one', 'two'].map(async (name) => {
        const folder = join(place, name)
        await mkdir(folder)
        for (let index = 0; index < files; index += 1)
          await writeFile(join(folder, `${index}.mp3`), generateMp3({ durationMs: 1000, seed: `${folder} ${index}` }))
        const home = join(place, `${name}-home`)
        const command = startFareboxCommand(['transcribe', '--yes', '--format', 'txt', folder], { ...settings, home })
        return { folder, command }
      }),
    )
    for (const { folder, command } of commands) {
      const { code } = await command.ended
      expect(`${code} ${code === 0 ? '' : command.errors()}`).toBe('0 ')
      expect((await readdir(folder)).filter((name) => name.endsWith('.txt'))).toHaveLength(files)
    }
    expect(await paid()).toBe(2n * BigInt(files) * 5034n)
  })

  it.each(['with', 'without'])('%s an RPC URL, farebox mcp answers calls at the same time', async (node) => {
    const { payer, paid } = await createLeftover(LEFTOVER / 4n)
    const { baseUrl, rpcUrl } = sandbox.info
    const home = await mkdtemp(join(root, 'mcp-'))
    const settings = { baseUrl, privateKey: payer.privateKey, home, ...(node === 'with' ? { rpcUrl } : {}) }
    const server = await startLocalServer(settings)
    const calls = Array.from({ length: 12 }, (_each, index) =>
      server.call('chat', { prompt: `Hello ${index}.`, max_tokens: 20 }),
    )
    const answers = await Promise.all(calls)
    await server.close()
    expect(answers.filter(({ isError }) => isError === true)).toEqual([])
    const charges = answers.map(({ structuredContent }) => structuredContent as { payment: { charge_usdc: string } })
    expect(charges.reduce((sum, { payment }) => sum + parseUsdc(payment.charge_usdc), 0n)).toBe(await paid())
  })
})
