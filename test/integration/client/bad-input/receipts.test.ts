import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createFarebox, walletFromPrivateKey } from '../../../../client/farebox.ts'
import { type SharedSandbox, useSharedSandbox } from '../../../support/processes/test-sandbox.ts'
import { CHAT } from './support/open-client.ts'

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

type Document = Record<string, unknown>
type Change = (document: Document) => unknown

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

describe('a receipt that does not verify', () => {
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
