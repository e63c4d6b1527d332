import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  createFarebox,
  type Farebox,
  type FareboxOptions,
  type Payment,
  type Wallet,
  walletFromPrivateKey,
} from '../../../../client/farebox.ts'
import { createPayer, type Payer } from '../../../support/payer/payer.ts'
import { type SharedSandbox, useSharedSandbox } from '../../../support/processes/test-sandbox.ts'

const PAID = 3
const chat = { model: 'textmodel-2.5-flash', messages: [{ role: 'user', content: 'Hello.' }], max_tokens: 20 } as const

let sandbox: SharedSandbox
let payer: Payer
let wallet: Wallet
let signedMessages = 0
let home: string
let farebox: Farebox
let payments: readonly Payment[]

const open = (changes: Partial<FareboxOptions> = {}) =>
  createFarebox({ wallet, baseUrl: sandbox.info.baseUrl, rpcUrl: sandbox.info.rpcUrl, journal: home, ...changes })

beforeAll(async () => {
  sandbox = await useSharedSandbox()
  home = await mkdtemp(join(tmpdir(), 'farebox-receipts-'))
  payer = await createPayer(sandbox.info.rpcUrl, { approved: true })
  const ofKey = walletFromPrivateKey(payer.privateKey)
  const signMessage: Wallet['signMessage'] = (message) => {
    signedMessages += 1
    return ofKey.signMessage(message)
  }
  wallet = { ...ofKey, signMessage }
  farebox = await open()
  const paid: Payment[] = []
  for (let call = 0; call < PAID; call += 1)
    paid.push((await farebox.chat.create(chat, { purpose: `test ${call % 2}` })).payment)
  payments = paid
})
afterAll(async () => {
  await farebox.close()
  await rm(home, { recursive: true, force: true })
  await sandbox.stop()
})

const storedPath = (receiptId: string | null) => join(home, 'receipts', `${receiptId}`.slice(0, 2), `${receiptId}.json`)
const listed = async (of: Farebox, source: 'journal' | 'service', since?: Date) => {
  const all = []
  for await (const receipt of of.receipts({ source, since })) all.push(receipt)
  return all
}

describe('the receipt of a payment', () => {
  it('is verified before the call returns, with its transfer on chain, and saved', async () => {
    expect(payments.map(({ verified, problems }) => [verified, problems])).toEqual(payments.map(() => ['passed', []]))
    const stored = JSON.parse(await readFile(storedPath(payments[0]?.receiptId ?? null), 'utf8')) as { id: string }
    expect(stored.id).toBe(payments[0]?.receiptId)
  })

  it('every check passes for the id and for the saved file', async () => {
    const { receiptId } = payments[0] ?? { receiptId: null }
    const byId = await farebox.verify(receiptId ?? '')
    const byPath = await farebox.verify(storedPath(receiptId))
    for (const { outcome, checks } of [byId, byPath]) {
      expect(outcome).toBe('passed')
      expect(checks.map(({ name, outcome: each }) => `${name} ${each}`)).toEqual([
        'signature passed',
        'payment passed',
        'maximum passed',
        'calculation passed',
        'charge passed',
        'result skipped',
        'transfer passed',
      ])
    }
  })

  it('a receipt with another charge fails by its signature and by its arithmetic', async () => {
    const original = JSON.parse(await readFile(storedPath(payments[1]?.receiptId ?? null), 'utf8')) as object
    const path = join(home, 'altered.json')
    await writeFile(path, JSON.stringify({ ...original, charge_atomic: '1', charge_usdc: '0.000001' }))
    const { outcome, checks } = await farebox.verify(path)
    expect(outcome).toBe('failed')
    const failed = checks.filter((check) => check.outcome === 'failed').map(({ name }) => name)
    expect(failed).toEqual(['signature', 'payment', 'calculation', 'charge', 'transfer'])
    // The next check of the genuine one clears the journal's verdict.
    await farebox.verify(payments[1]?.receiptId ?? '')
  })

  it('the receipt of another wallet is not one of this wallet', async () => {
    const other = await createFarebox({
      wallet: walletFromPrivateKey(sandbox.info.payer.privateKey),
      baseUrl: sandbox.info.baseUrl,
      journal: 'memory',
    })
    const { checks } = await other.verify(storedPath(payments[0]?.receiptId ?? null))
    expect(checks.find(({ name }) => name === 'payment')).toMatchObject({ outcome: 'failed' })
  })

  it('an id that the journal does not know needs its token', async () => {
    const stranger = await open({ journal: 'memory' })
    const { receiptId, receiptToken } = payments[0] ?? {}
    await expect(stranger.verify(receiptId ?? '')).rejects.toMatchObject({ code: 'receipt_unknown' })
    const verification = await stranger.verify(receiptId ?? '', { receiptToken: receiptToken ?? '' })
    expect(verification.outcome).toBe('passed')
  })

  it('what is not there or no receipt is an error', async () => {
    await expect(farebox.verify(join(home, 'missing.json'))).rejects.toMatchObject({ code: 'receipt_unreadable' })
    await expect(farebox.verify(join(home, 'pins.json'))).rejects.toMatchObject({ code: 'not_a_receipt' })
  })

  it('a node that does not answer leaves the transfer unchecked, and a payment is verified later on request', async () => {
    const outcomes: string[] = []
    const later = await open({
      rpcUrl: 'http://127.0.0.1:9',
      journal: 'memory',
      verify: 'later',
      onVerified: ({ verified }) => outcomes.push(verified),
    })
    const { payment } = await later.chat.create(chat)
    expect(payment.verified).toBe('not_checked')
    await later.close()
    expect(outcomes).toEqual(['passed'])
  })
})

describe('the list of receipts', () => {
  it('the journal and the service list the same calls, newest first, with one signature', async () => {
    const journaled = await listed(farebox, 'journal')
    const known = journaled.map(({ receiptId }) => receiptId)
    expect(known).toEqual(payments.map(({ receiptId }) => receiptId).toReversed())
    expect(journaled[0]).toMatchObject({
      operation: 'createChatCompletion',
      model: 'textmodel-2.5-flash',
      purpose: 'test 0',
      verified: 'passed',
    })
    signedMessages = 0
    const served = (await listed(farebox, 'service')).filter(({ receiptId }) => known.includes(receiptId))
    expect(served.map(({ receiptId }) => receiptId)).toEqual(known)
    expect(served.map(({ key, charged }) => [key, charged])).toEqual(
      journaled.map(({ key, charged }) => [key, charged]),
    )
    await farebox.spend({ source: 'service' })
    expect(signedMessages).toBe(1)
    expect((await farebox.verify(served[0]?.receipt ?? '')).outcome).toBe('passed')
  })

  it('since leaves out what is older', async () => {
    for (const source of ['journal', 'service'] as const) {
      const [newest] = await listed(farebox, source)
      expect(await listed(farebox, source, new Date(Date.now() + 60_000))).toEqual([])
      expect((await listed(farebox, source, newest?.at)).length).toBeGreaterThan(0)
    }
  })

  it('the sums of the journal and of the service are what the chain shows', async () => {
    const spent = 1_000_000n - (await sandbox.chain.usdcBalance(payer.address))
    const served = await farebox.spend({ source: 'service' })
    expect(served.charged).toBe(spent)
    const journaled = await farebox.spend({ days: 1 })
    expect(journaled).toMatchObject({ calls: PAID, open: 0n })
    expect(journaled.rows.map(({ purpose, calls }) => [purpose, calls])).toEqual([
      ['test 0', 2],
      ['test 1', 1],
    ])
    const paid = payments.reduce((sum, { charged }) => sum + Math.round(Number(charged) * 1e6), 0)
    expect(journaled.charged).toBe(BigInt(paid))
    await expect(farebox.spend({ days: 0 })).rejects.toThrow(RangeError)
  })

  it('a sign-in for another origin is not signed', async () => {
    const relayed = await open({
      journal: 'memory',
      fetch: async (input, init) => {
        const answer = await fetch(input, init)
        const challenge = answer.headers.get('payment-required')
        if (challenge === null) return answer
        const required = Buffer.from(challenge, 'base64')
          .toString()
          .replaceAll(sandbox.info.baseUrl, 'https://b.example')
        const headers = new Headers(answer.headers)
        headers.set('payment-required', Buffer.from(required).toString('base64'))
        return new Response(await answer.text(), { status: answer.status, headers })
      },
    })
    signedMessages = 0
    await expect(relayed.spend({ source: 'service' })).rejects.toMatchObject({ code: 'sign_in_refused' })
    expect(signedMessages).toBe(0)
  })
})
