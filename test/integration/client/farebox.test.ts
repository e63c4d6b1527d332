import { createHash, randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createFarebox, type Farebox, walletFromPrivateKey } from '../../../client/farebox.ts'
import { type SharedSandbox, useSharedSandbox } from '../../support/processes/test-sandbox.ts'

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

describe('the client against the service', () => {
  it('a chat is paid for once under its key, and the charge is what the budget and the chain count', async () => {
    const before = await sandbox.chain.usdcBalance(sandbox.payer.address)
    const requestId = randomUUID()
    const first = await farebox.chat.create(chat, { requestId })
    const again = await farebox.chat.create(chat, { requestId })
    expect(first.result.object).toBe('chat.completion')
    expect(again.result).toEqual(first.result)
    expect([first.payment.replayed, again.payment.replayed]).toEqual([false, true])
    const spent = before - (await sandbox.chain.usdcBalance(sandbox.payer.address))
    expect(spent).toBeGreaterThan(0n)
    expect(farebox.budgetLeft().day).toBe(1_000_000n - spent)
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
