import { execFile } from 'node:child_process'
import { chmod, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { maxUint256 } from 'viem'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createFarebox, type DoctorCheck, type Farebox, type FareboxOptions } from '../../../client/farebox.ts'
import { openJournal } from '../../../client/journal/open-journal.ts'
import { readKeySecret } from '../../../client/wallet/key-secret.ts'
import { walletFromEnvironment } from '../../../client/wallet/wallet-from-environment.ts'
import { walletFromAccount, walletFromPrivateKey } from '../../../client/wallet/wallet-from-private-key.ts'
import type { Wallet } from '../../../client/wallet/wallet.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { createPayer, type Payer, type PayerOptions } from '../../support/payer/payer.ts'
import { type SharedSandbox, useSharedSandbox } from '../../support/processes/test-sandbox.ts'
import { createSafe } from '../../support/wallets/safe-wallet.ts'

/** Answers as a server whose clock is four minutes behind. */
const fetchFromThePast: typeof fetch = async (input, init) => {
  const answer = await fetch(input, init)
  const headers = new Headers(answer.headers)
  headers.set('date', new Date(Date.now() - 240_000).toUTCString())
  return new Response(answer.body, { status: answer.status, headers })
}
const problemOf = (all: readonly DoctorCheck[], wanted: string) => all.find(({ name }) => name === wanted)?.problem
const chat = { model: 'textmodel-2.5-flash', messages: [{ role: 'user', content: 'Hello.' }], max_tokens: 20 } as const
const PROGRAM = fileURLToPath(new URL('../../support/client/key-secret-on-full-disk.ts', import.meta.url))
/** A wallet whose signatures differ each time. */
function unsteadyWallet(privateKey = generatePrivateKey()): Wallet {
  const account = privateKeyToAccount(privateKey)
  let signatures = 0
  return walletFromAccount({
    ...account,
    signMessage: async () => {
      signatures += 1
      return await account.signMessage({ message: `signature ${signatures}` })
    },
  })
}
const key = generatePrivateKey()

describe('the doctor', () => {
  let sandbox: SharedSandbox
  let home: string
  beforeAll(async () => {
    sandbox = await useSharedSandbox()
  })
  afterAll(() => sandbox.stop())
  beforeEach(async () => {
    home = await mkdtemp(join(tmpdir(), 'farebox-doctor-'))
  })
  afterEach(() => rm(home, { recursive: true, force: true }))
  async function examine(
    changes: Partial<FareboxOptions> = {},
    payerOptions: PayerOptions = {},
  ): Promise<{ readonly all: readonly DoctorCheck[]; readonly wrong: readonly string[] }> {
    const { baseUrl, rpcUrl } = sandbox.info
    const payer = await createPayer(rpcUrl, payerOptions)
    const wallet = walletFromPrivateKey(payer.privateKey)
    const farebox = await createFarebox({ wallet, baseUrl, rpcUrl, journal: home, ...changes })
    const all = await farebox.doctor()
    await farebox.close()
    return { all, wrong: all.filter(({ ok }) => !ok).map(({ name }) => name) }
  }

  it('finds nothing wrong where everything is in order, and leaves nothing behind', async () => {
    const { all, wrong } = await examine()
    expect(wrong).toEqual([])
    expect(all.map(({ name }) => name)).toEqual([
      'service',
      'terms',
      'clock',
      'rpc',
      'wallet',
      'balance',
      'allowance',
      'budget',
      'open calls',
      'journal',
    ])
    expect(all.every(({ found, problem }) => found !== null && problem === null)).toBe(true)
  })

  it('a wallet without USDC cannot pay; one without an approval can, also without a node', async () => {
    const { all, wrong } = await examine({ rpcUrl: undefined }, { usdcAtomic: 0n })
    expect(wrong).toEqual(['balance'])
    const { found } = all.find(({ name }) => name === 'allowance') ?? {}
    expect(found).toMatch(/^none: the first call brings a permit, for all later ones too/)
  })

  it('asks the service whether it takes payments of a contract wallet', async () => {
    const { baseUrl, rpcUrl } = sandbox.info
    const examined = async (handlerless: boolean) => {
      const { address, account } = handlerless
        ? await createPayer(rpcUrl)
        : await createSafe(rpcUrl, { approved: true })
      if (handlerless) await callRpc(rpcUrl, 'anvil_setCode', [address, '0x600160005260206000f3'])
      const farebox = await createFarebox({ wallet: account, baseUrl, journal: 'memory' })
      const all = await farebox.doctor()
      await farebox.close()
      return all.find(({ name }) => name === 'wallet')
    }
    expect(await examined(false)).toMatchObject({ ok: true, found: expect.stringContaining('the service knows') })
    const { ok, problem } = (await examined(true)) ?? {}
    expect([ok, problem]).toEqual([false, expect.stringMatching(/takes no payments of 0x.* code of its own/)])
  })

  it('a clock that is minutes off is named with the difference', async () => {
    const { all, wrong } = await examine({ fetch: fetchFromThePast })
    expect(wrong).toEqual(['clock'])
    expect(problemOf(all, 'clock')).toMatch(/^This machine’s clock is 2[34]\d s ahead of the service’s\.$/)
  })

  it('a service that cannot be reached is named, and the journal is checked all the same', async () => {
    const { all, wrong } = await examine({ baseUrl: 'http://127.0.0.1:9', rpcUrl: undefined })
    expect(wrong).toEqual(['service', 'terms', 'clock', 'wallet', 'balance', 'allowance'])
    expect(problemOf(all, 'service')).toMatch(/^http:\/\/127\.0\.0\.1:9 cannot be reached \(.+\)\.$/)
  })

  it('a node of another chain, and a page where the service should be, are named', async () => {
    const { all, wrong } = await examine({ rpcUrl: sandbox.info.baseUrl, baseUrl: sandbox.info.upstreamUrl })
    expect(wrong).toContain('rpc')
    expect(problemOf(all, 'service')).toMatch(/where farebox answers|is undefined/)
  })

  it('terms that differ from those of the first use are named', async () => {
    const { all, wrong } = await examine({ terms: { payTo: `0x${'9'.repeat(40)}` } })
    expect(wrong).toEqual(['terms'])
    expect(problemOf(all, 'terms')).toContain(`instead of 0x${'9'.repeat(40)}`)
  })

  it('a payment of unknown outcome, a used budget and a journal that others may read are named', async () => {
    const { baseUrl, rpcUrl } = sandbox.info
    const payer = await createPayer(rpcUrl)
    const journal = openJournal(home)
    const key = 'interrupted'
    const call = { origin: new URL(baseUrl).origin, method: 'POST', path: '/v1/messages', identity: key, purpose: 'x' }
    const deadline = new Date(Date.now() + 600_000).toISOString()
    journal.append(
      { phase: 'intended', key, ...call, payer: payer.address },
      { phase: 'signed', key, maximum: '5000', deadline, payment: 'x' },
    )
    await journal.close()
    await chmod(join(home, 'journal'), 0o755)
    const wallet = walletFromPrivateKey(payer.privateKey)
    const farebox = await createFarebox({ wallet, baseUrl, rpcUrl, journal: home, budget: { day: '0.005' } })
    const all = await farebox.doctor()
    expect(all.filter(({ ok }) => !ok).map(({ name }) => name)).toEqual(['budget', 'open calls', 'journal'])
    expect(problemOf(all, 'open calls')).toContain('1 call was signed without a known outcome; 0.005 USDC')
  })

  it('further checks of the caller run, too, and one that throws is what it says', async () => {
    const { baseUrl } = sandbox.info
    const wallet = walletFromPrivateKey(sandbox.info.payer.privateKey)
    const farebox = await createFarebox({ wallet, baseUrl, journal: 'memory' })
    const ffmpeg = { name: 'ffmpeg', ok: true, found: 'version 7', problem: null, advice: null }
    const all = await farebox.doctor({
      also: [
        () => Promise.resolve(ffmpeg),
        () => {
          throw new Error('broken')
        },
      ],
    })
    expect(all.at(-2)).toEqual(ffmpeg)
    expect(all.at(-1)).toMatchObject({ ok: false, problem: 'broken' })
  })
})

describe('approvals of a wallet', () => {
  let sandbox: SharedSandbox
  beforeAll(async () => {
    sandbox = await useSharedSandbox()
  })

  afterAll(() => sandbox.stop())

  async function openFor(
    options: PayerOptions,
    changes: Partial<FareboxOptions> = {},
  ): Promise<{ farebox: Farebox; payer: Payer }> {
    const payer = await createPayer(sandbox.info.rpcUrl, options)
    const wallet = walletFromPrivateKey(payer.privateKey)
    const farebox = await createFarebox({ wallet, baseUrl: sandbox.info.baseUrl, journal: 'memory', ...changes })
    return { farebox, payer }
  }
  const permitsOf = ({ address }: Payer) =>
    sandbox.sql('SELECT value, permit_nonce AS nonce FROM stored_permits WHERE owner = $1', [address])
  describe('approving Permit2', () => {
    it('one signature lets calls run in parallel, and every other approval is free', async () => {
      const { farebox, payer } = await openFor({})
      expect(await farebox.allowance()).toMatchObject({ allowance: 0n, balance: 1_000_000n, isApproved: false })
      const approvals = await Promise.all([farebox.approve(), farebox.approve(), farebox.approve()])
      expect(approvals.map(({ outcome }) => outcome)).toEqual(['approved', 'already_approved', 'already_approved'])
      expect(await permitsOf(payer)).toEqual([{ value: maxUint256.toString(), nonce: '0' }])
      expect(await sandbox.chain.permit2Allowance(payer.address)).toBe(0n)
      expect((await farebox.allowance()).isApproved).toBe(true)
      const answers = await Promise.all([farebox.chat.create(chat), farebox.chat.create(chat)])
      expect(answers.every(({ payment }) => payment.verified === 'passed')).toBe(true)
      expect(await farebox.approve()).toMatchObject({ outcome: 'already_approved' })
      expect(await sandbox.chain.permit2Allowance(payer.address)).toBeGreaterThan(maxUint256 / 2n)
      expect(await sandbox.chain.client.getBalance({ address: payer.address })).toBe(0n)
    })

    it('a wallet with too little USDC is told how much is missing, and signs nothing', async () => {
      const { farebox, payer } = await openFor({ usdcAtomic: 50_000n })
      await expect(farebox.approve()).rejects.toMatchObject({
        name: 'ApprovalRefused',
        code: 'owner_balance_too_low',
        problem: 'The wallet has 0.05 USDC, and the service stores a permit from 0.1 USDC on.',
        money: 'none',
      })
      expect(await permitsOf(payer)).toEqual([])
    })

    it('a larger approval takes the place of a smaller one', async () => {
      const { farebox, payer } = await openFor({})
      await farebox.approve({ value: '0.2' })
      expect(await farebox.approve({ value: '0.5' })).toMatchObject({ outcome: 'approved', allowance: 500_000n })
      expect(await farebox.approve({ value: '0.3' })).toMatchObject({ outcome: 'already_approved' })
      expect(await permitsOf(payer)).toEqual([{ value: '500000', nonce: '0' }])
    })

    it('an approval whose answer was lost is repeated', async () => {
      let isLost = false
      const { farebox, payer } = await openFor(
        {},
        {
          fetch: async (input, init) => {
            const answer = await fetch(input, init)
            if (init?.method !== 'POST' || isLost) return answer
            isLost = true
            throw new TypeError('fetch failed')
          },
        },
      )
      const waits: string[] = []
      const { outcome } = await farebox.approve({ onWait: ({ code }) => waits.push(code) })
      expect(outcome).toBe('approved')
      expect(waits).toEqual(['connection_lost'])
      expect(await permitsOf(payer)).toEqual([{ value: maxUint256.toString(), nonce: '0' }])
    })
  })

  describe('the balance', () => {
    it('the service and a node say the same, and only the node knows ETH', async () => {
      const { farebox, payer } = await openFor({})
      const { rpcUrl, baseUrl } = sandbox.info
      const wallet = walletFromPrivateKey(payer.privateKey)
      const byNode = await createFarebox({ wallet, baseUrl, rpcUrl, journal: 'memory' })
      const common = { address: payer.address, network: 'eip155:8453', usdc: 1_000_000n, allowance: 0n }
      expect(await farebox.balance()).toEqual({ ...common, native: null, source: 'service' })
      expect(await byNode.balance()).toEqual({ ...common, native: 0n, source: 'rpc' })
    })

    it('a node that does not answer is an error without the URL’s path', async () => {
      const { farebox } = await openFor({}, { rpcUrl: 'http://127.0.0.1:9/secret-key' })
      const error = await farebox.balance().catch((each: unknown) => each as Error)
      expect(error).toMatchObject({ code: 'rpc_unavailable' })
      expect((error as Error).message).not.toContain('secret-key')
      expect(String((error as Error).stack)).not.toContain('secret-key')
    })
  })
})

describe('the secret of idempotency keys', () => {
  let home: string
  beforeEach(async () => {
    home = await mkdtemp(join(tmpdir(), 'farebox-secret-'))
  })
  afterEach(() => rm(home, { recursive: true, force: true }))

  it('is the same on every machine for a private key', async () => {
    const wallet = walletFromPrivateKey(generatePrivateKey())
    const [one, other] = [await readKeySecret(wallet, home), await readKeySecret(wallet, null)]
    expect(one.source).toBe('wallet')
    expect(one).toEqual(other)
  })

  it('is drawn once and kept with mode 600 for a wallet whose signatures differ, one for each address', async () => {
    const key = generatePrivateKey()
    const [one, again, other] = await Promise.all([
      readKeySecret(unsteadyWallet(key), home),
      readKeySecret(unsteadyWallet(key), home),
      readKeySecret(unsteadyWallet(), home),
    ])
    expect(one.source).toBe('journal')
    expect(again).toEqual(one)
    expect(other.secret).not.toEqual(one.secret)
    expect((await stat(join(home, 'key-secret'))).mode & 0o777).toBe(0o600)
  })

  it('a secret that could not be written completely leaves nothing behind, so that the next attempt draws it', async () => {
    const { stdout } = await promisify(execFile)(process.execPath, [PROGRAM, home])
    expect(stdout.trim()).toBe('key_secret_unreadable')
    expect((await readKeySecret(unsteadyWallet(), home)).source).toBe('journal')
  })

  it('a secret that cannot be read is never replaced', async () => {
    await writeFile(join(home, 'key-secret'), 'damaged')
    await expect(readKeySecret(unsteadyWallet(), home)).rejects.toMatchObject({ code: 'key_secret_unreadable' })
    expect(await readFile(join(home, 'key-secret'), 'utf8')).toBe('damaged')
  })
})

describe('the key file', () => {
  let directory: string
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'farebox-key-'))
  })
  afterAll(() => rm(directory, { recursive: true, force: true }))

  it('a key file that others may read is refused with the command that repairs it', async () => {
    const file = join(directory, 'key')
    await writeFile(file, `${key}\n`)
    await chmod(file, 0o640)
    expect(() => walletFromEnvironment({ FAREBOX_KEY_FILE: file })).toThrow(`Run: chmod 600 ${file}`)
    await chmod(file, 0o600)
    expect(walletFromEnvironment({ FAREBOX_KEY_FILE: file }).address).toBe(privateKeyToAccount(key).address)
  })

  it('a key file that is missing is named', () => {
    expect(() => walletFromEnvironment({ FAREBOX_KEY_FILE: join(directory, 'none') })).toThrow(/cannot be read/)
  })
})
