import { createHash, randomUUID } from 'node:crypto'
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
} from '../../../client/farebox.ts'
import { CHAT, openClient } from '../../support/client/open-client.ts'
import {
  CHAT_RESULT,
  challenge,
  json,
  MAXIMUM,
  type ScriptedServer,
  serviceError,
  startScriptedServer,
} from '../../support/client/scripted-server.ts'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import { type SharedSandbox, useSharedSandbox } from '../../support/processes/test-sandbox.ts'

const PAID = 3
type Document = Record<string, unknown>
type Change = (document: Document) => unknown
const other = '0x9999999999999999999999999999999999999999'
const FALSE_RECEIPTS: readonly (readonly [string, Change])[] = [
  ['another charge', (receipt) => ({ ...receipt, charge_atomic: '1', charge_usdc: '0.000001' })],
  ['another payer', (receipt) => ({ ...receipt, payer: other })],
  ['another recipient', (receipt) => ({ ...receipt, pay_to: other })],
  ['another asset', (receipt) => ({ ...receipt, asset: other })],
  ['another result', (receipt) => ({ ...receipt, result_digest: '0'.repeat(64) })],
  ['another transaction', (receipt) => ({ ...receipt, transaction: `0x${'1'.repeat(64)}` })],
  ['another id', (receipt) => ({ ...receipt, id: '00000000-0000-4000-8000-000000000000' })],
  ['no signature', (receipt) => ({ ...receipt, signature: '' })],
  ['a signature that is none', (receipt) => ({ ...receipt, signature: 'a.b.c' })],
  ['a charge that is no number', (receipt) => ({ ...receipt, charge_atomic: 'x' })],
  ['a calculation that is none', (receipt) => ({ ...receipt, calculation: null, usage: null, unit_prices: 5 })],
  ['lines that are none', (receipt) => ({ ...receipt, calculation: { lines: [null, 5, {}] } })],
  ['no settlement', (receipt) => ({ ...receipt, settlement: null })],
  ['an address that is none', (receipt) => ({ ...receipt, payer: 5, network: {}, asset: null })],
]

describe('receipts of calls', () => {
  const chat = {
    model: 'textmodel-2.5-flash',
    messages: [{ role: 'user', content: 'Hello.' }],
    max_tokens: 20,
  } as const
  let sandbox: SharedSandbox
  let payer: Payer
  let wallet: Wallet
  let home: string
  let farebox: Farebox
  let payments: readonly Payment[]
  const open = (changes: Partial<FareboxOptions> = {}) =>
    createFarebox({ wallet, baseUrl: sandbox.info.baseUrl, rpcUrl: sandbox.info.rpcUrl, journal: home, ...changes })
  beforeAll(async () => {
    sandbox = await useSharedSandbox()
    home = await mkdtemp(join(tmpdir(), 'farebox-receipts-'))
    payer = await createPayer(sandbox.info.rpcUrl, { approved: true })
    wallet = walletFromPrivateKey(payer.privateKey)
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

  const storedPath = (receiptId: string | null) =>
    join(home, 'receipts', `${receiptId}`.slice(0, 2), `${receiptId}.json`)
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
    it('has the calls of the journal, newest first', () => {
      const listed = farebox.receipts()
      expect(listed.map(({ receiptId }) => receiptId)).toEqual(payments.map(({ receiptId }) => receiptId).toReversed())
      expect(listed[0]).toMatchObject({
        operation: 'createChatCompletion',
        model: 'textmodel-2.5-flash',
        purpose: 'test 0',
        verified: 'passed',
      })
    })

    it('since leaves out what is older', () => {
      const [newest] = farebox.receipts()
      expect(farebox.receipts({ since: new Date(Date.now() + 60_000) })).toEqual([])
      expect(farebox.receipts({ since: newest?.at }).length).toBeGreaterThan(0)
    })

    it('the sums of the journal are what the payments were charged', () => {
      const spend = farebox.spend({ days: 1 })
      expect(spend).toMatchObject({ calls: PAID, open: 0n })
      expect(spend.rows.map(({ purpose, calls }) => [purpose, calls])).toEqual([
        ['test 0', 2],
        ['test 1', 1],
      ])
      const paid = payments.reduce((sum, { charged }) => sum + Math.round(Number(charged) * 1e6), 0)
      expect(spend.charged).toBe(BigInt(paid))
      expect(() => farebox.spend({ days: 0 })).toThrow(RangeError)
    })
  })
})

describe('a receipt that does not verify', () => {
  let sandbox: SharedSandbox
  let home: string
  let turn = 0
  beforeAll(async () => {
    sandbox = await useSharedSandbox()
    home = await mkdtemp(join(tmpdir(), 'farebox-receipts-'))
  })
  afterAll(async () => {
    await sandbox.stop()
    await rm(home, { recursive: true, force: true })
  })
  /** Pays for a chat through something that changes receipts, or answers, on their way. */
  async function payThrough(changes: { receipt?: Change; answer?: Change }) {
    const { baseUrl, rpcUrl, payer } = sandbox.info
    const client = await createFarebox({
      wallet: walletFromPrivateKey(payer.privateKey),
      baseUrl,
      rpcUrl,
      journal: join(home, String(turn)),
      fetch: async (input, init) => {
        const answer = await fetch(input, init)
        const { pathname } = new URL(input instanceof Request ? input.url : input)
        const isReceipt = pathname.startsWith('/v1/receipts/')
        const change = isReceipt ? changes.receipt : answer.headers.has('x-receipt-id') ? changes.answer : undefined
        if (change === undefined) return answer
        const changed = change((await answer.json()) as Document)
        const text = typeof changed === 'string' ? changed : JSON.stringify(changed)
        const headers = new Headers(answer.headers)
        headers.delete('content-length')
        return new Response(text, { status: answer.status, headers })
      },
    })
    turn += 1
    const { result, payment } = await client.chat.create({ ...CHAT, max_tokens: 20 + turn })
    await client.close()
    return { result, payment }
  }

  it.each(FALSE_RECEIPTS)('%s: the result is returned, and the payment says what failed', async (_, receipt) => {
    const { result, payment } = await payThrough({ receipt })
    expect(result).toMatchObject({ object: 'chat.completion' })
    expect(payment.verified).toBe('failed')
    expect(payment.problems.join('; ')).toMatch(/\S{3}/)
  })

  it.each<[string, Change]>([
    ['HTML', () => '<html></html>'],
    ['nothing', () => ''],
    ['a list', () => [1]],
  ])('%s in place of it does not pass for a receipt', async (_, receipt) => {
    const { result, payment } = await payThrough({ receipt })
    expect(result).toMatchObject({ object: 'chat.completion' })
    expect(payment.verified).not.toBe('passed')
    expect(payment.problems).not.toEqual([])
  })

  it('an answer that was changed on its way is not the one of its receipt', async () => {
    const { payment } = await payThrough({ answer: (answer) => ({ ...answer, choices: [] }) })
    expect(payment.verified).toBe('failed')
    expect(payment.problems.join()).toMatch(/digest/)
  })
})

describe('a call that an operator ended after a review', () => {
  let server: ScriptedServer
  beforeAll(async () => {
    server = await startScriptedServer()
  })
  afterAll(() => server.stop())

  it('is not paid again, and its error names the transaction of the refund', async () => {
    const client = await openClient(server, { budget: { session: '1' } })
    const refund = `0x${'cd'.repeat(32)}`
    const message = `The payment of this call was refunded in transaction ${refund}.`
    const from = server.received.length
    server.script(challenge(), serviceError('payment_refunded', { message }))
    const error = await client.chat.create(CHAT, { requestId: 'refunded' }).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: 'payment_refunded', money: 'none', message: expect.stringContaining(refund) })
    expect(server.received.slice(from).map(({ payment }) => payment !== undefined)).toEqual([false, true])
    expect(client.budgetLeft().session).toBe(1_000_000n)
  })

  it('is returned without a receipt when it was re-served, and the budget keeps what was signed', async () => {
    const client = await openClient(server, { budget: { session: '1' }, verify: 'at_once' })
    server.script(challenge(), json(CHAT_RESULT, 200, { 'x-resolution': 're_served' }))
    const answer = await client.chat.create(CHAT, { requestId: 're-served' })
    expect(answer.result).toEqual(CHAT_RESULT)
    expect(answer.payment).toMatchObject({
      receiptId: null,
      transaction: null,
      verified: 'not_checked',
      problems: ['the operator returned this result without a charge, so it has no receipt'],
    })
    expect(client.budgetLeft().session).toBe(1_000_000n - MAXIMUM)
  })
})

describe('the client against the service', () => {
  let sandbox: SharedSandbox
  let farebox: Farebox
  beforeAll(async () => {
    sandbox = await useSharedSandbox()
    const { baseUrl, rpcUrl, payer } = sandbox.info
    const wallet = walletFromPrivateKey(payer.privateKey)
    farebox = await createFarebox({ wallet, baseUrl, rpcUrl, journal: 'memory', budget: { day: '1' } })
  })
  afterAll(async () => {
    await farebox.close()
    await sandbox.stop()
  })
  const chat = {
    model: 'textmodel-2.5-flash',
    messages: [{ role: 'user', content: 'Say hello.' }],
    max_tokens: 20,
  } as const

  it('a chat is paid for once under its key, and the charge is what the budget and the chain count', async () => {
    const before = await sandbox.chain.usdcBalance(sandbox.payer.address)
    const { day: allowed } = farebox.budgetLeft()
    const requestId = randomUUID()
    const first = await farebox.chat.create(chat, { requestId })
    const again = await farebox.chat.create(chat, { requestId })
    expect(first.result.object).toBe('chat.completion')
    expect(again.result).toEqual(first.result)
    expect([first.payment.replayed, again.payment.replayed]).toEqual([false, true])
    const spent = before - (await sandbox.chain.usdcBalance(sandbox.payer.address))
    expect(spent).toBeGreaterThan(0n)
    expect(farebox.budgetLeft().day).toBe((allowed ?? 0n) - spent)
  })

  it('a transcription that is priced first costs what was quoted', async () => {
    const { sample: file } = sandbox
    const form = new FormData()
    form.append('operation', 'createTranscription')
    form.append('model', 'speechvendor/scribe-v2')
    form.append('file', new Blob([new Uint8Array(file)]), 'sample.mp3')
    const measured = await fetch(`${sandbox.info.baseUrl}/v1/quotes`, { method: 'POST', body: form })
    const { audio } = (await measured.json()) as { audio: { duration_ms: number } }
    const claim = {
      sha256: createHash('sha256').update(file).digest('hex'),
      bytes: file.length,
      duration_ms: audio.duration_ms,
    }
    const request = { model: 'speechvendor/scribe-v2', audio: claim }
    const quote = await farebox.quote({ operation: 'createTranscription', request })
    const { amount } = quote.price
    const { result, payment } = await farebox.transcriptions.create({ file, audio: claim }, { maximum: amount })
    expect(result.text).not.toBe('')
    expect(payment).toMatchObject({ maximum: amount, charged: amount })
  })

  it('a request that the service refuses costs nothing', async () => {
    const refused = farebox.chat.create({ ...chat, max_tokens: 10_000_000 })
    await expect(refused).rejects.toMatchObject({ code: 'invalid_field', money: 'none', retry: 'never' })
  })

  it('an official fetch call without a header is paid for', async () => {
    const answer = await farebox.fetch(`${sandbox.info.baseUrl}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(chat),
    })
    expect(answer.status).toBe(200)
    expect(answer.headers.get('x-receipt-id')).not.toBeNull()
  })
})
