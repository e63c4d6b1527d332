import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import {
  createFarebox,
  type DoctorCheck,
  type FareboxOptions,
  walletFromPrivateKey,
} from '../../../../client/farebox.ts'
import { openJournal } from '../../../../client/journal/open-journal.ts'
import { createPayer, type PayerOptions } from '../../../support/payer/payer.ts'
import { type SharedSandbox, useSharedSandbox } from '../../../support/processes/test-sandbox.ts'

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

/** Answers as a server whose clock is four minutes behind. */
const fetchFromThePast: typeof fetch = async (input, init) => {
  const answer = await fetch(input, init)
  const headers = new Headers(answer.headers)
  headers.set('date', new Date(Date.now() - 240_000).toUTCString())
  return new Response(answer.body, { status: answer.status, headers })
}

const problemOf = (all: readonly DoctorCheck[], wanted: string) => all.find(({ name }) => name === wanted)?.problem

describe('the doctor', () => {
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

  it('a wallet without USDC and without an approval cannot pay without a node', async () => {
    const { all, wrong } = await examine({ rpcUrl: undefined }, { usdcAtomic: 0n })
    expect(wrong).toEqual(['balance', 'allowance'])
    expect(problemOf(all, 'allowance')).toBe('Permit2 may take nothing from the wallet, so no call can be paid.')
  })

  it('a clock that is minutes off is named with the difference', async () => {
    const { all, wrong } = await examine({ fetch: fetchFromThePast })
    expect(wrong).toEqual(['clock'])
    expect(problemOf(all, 'clock')).toMatch(/^This machine’s clock is (239|24\d) s ahead of the service’s\.$/)
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
