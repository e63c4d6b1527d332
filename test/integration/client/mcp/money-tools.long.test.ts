import { mkdir, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { CallToolResult } from '@modelcontextprotocol/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createFarebox, walletFromPrivateKey } from '../../../../client/farebox.ts'
import {
  createServerWallet,
  type LocalServer,
  type ServerWallet,
  startLocalServer,
} from '../../../support/mcp/local-server.ts'
import { type SharedSandbox, useSharedSandbox } from '../../../support/processes/test-sandbox.ts'

let sandbox: SharedSandbox
let wallet: ServerWallet
let server: LocalServer
let place: string
let folder: string
let receiptId: string
let charge: string

beforeAll(async () => {
  sandbox = await useSharedSandbox()
  wallet = await createServerWallet(sandbox)
  place = await realpath(await mkdtemp(join(tmpdir(), 'farebox-mcp-money-')))
  folder = join(place, 'receipts')
  await mkdir(folder)
  server = await startLocalServer(wallet, { args: [folder] })
  const { structuredContent } = await server.call('chat', { prompt: 'Say hello.', max_tokens: 20 })
  const { payment } = structuredContent as { payment: { receipt_id: string; charge_usdc: string } }
  ;({ receipt_id: receiptId, charge_usdc: charge } = payment)
})
afterAll(async () => {
  await server.close()
  await wallet.remove()
  await rm(place, { recursive: true, force: true })
  await sandbox.stop()
})

function form({ structuredContent }: CallToolResult): Record<string, unknown> {
  return { ...(structuredContent as Record<string, unknown> | undefined) }
}

function codeOf({ isError, structuredContent }: CallToolResult): unknown {
  const form = structuredContent as { readonly error?: { readonly code: string } } | undefined
  return isError === true ? form?.error?.code : undefined
}

/** Returns the document of the receipt, as a person saves it. */
async function document(): Promise<Record<string, unknown>> {
  const farebox = await createFarebox({
    wallet: walletFromPrivateKey(wallet.privateKey as `0x${string}`),
    baseUrl: wallet.baseUrl ?? '',
    journal: 'memory',
  })
  try {
    for await (const { receipt } of farebox.receipts({ source: 'service' }))
      if (receipt?.id === receiptId) return { ...receipt }
  } finally {
    await farebox.close()
  }
  throw new Error('the service does not list the receipt')
}

describe('the tools on money', () => {
  it('show the balance and what is left of the limits of all tools and of one', async () => {
    const { home } = wallet
    const result = await server.call('wallet')
    expect(form(result)).toMatchObject({
      address: wallet.address.toLowerCase(),
      balance_usdc: (100 - Number(charge)).toFixed(6).replace(/0+$/, ''),
      allowance_usdc: 'unlimited',
      is_approved: true,
      limits: { call_usdc: '0.1', session_usdc: '1', day_usdc: '5' },
      confirm_above_usdc: '0.05',
      changed_with: 'farebox limits',
    })
    const { session_left_usdc: left } = form(result)['limits'] as Record<string, string>
    expect(Number(left)).toBeCloseTo(1 - Number(charge), 6)
    expect(JSON.stringify(result)).not.toContain(home)
    expect(JSON.stringify(result)).not.toContain(wallet.privateKey?.slice(2))
  })

  it('list what was paid, without the tokens that open receipts, and as many as asked', async () => {
    await server.call('chat', { prompt: 'Say goodbye.', max_tokens: 20 })
    const listed = await server.call('receipts')
    expect(form(listed)).toMatchObject({
      more: false,
      receipts: [
        { operation: 'createChatCompletion' },
        { receipt_id: receiptId, charge_usdc: charge, purpose: 'mcp chat' },
      ],
    })
    expect(JSON.stringify(listed)).not.toMatch(/token/i)
    expect(form(await server.call('receipts', { limit: 1 }))).toMatchObject({ more: true, receipts: [{}] })
    expect(form(await server.call('receipts', { since: '2999-01-01' }))).toMatchObject({ receipts: [] })
    const ofService = form(await server.call('receipts', { from_service: true }))
    expect((ofService['receipts'] as { receipt_id: string }[]).map((one) => one.receipt_id)).toContain(receiptId)
    expect(codeOf(await server.call('receipts', { since: 'yesterday' }))).toBe('invalid_arguments')
    expect(codeOf(await server.call('receipts', { limit: 0 }))).toBe('invalid_arguments')
  })

  it.each(['day', 'model', 'operation', 'purpose'] as const)('add up what was paid by %s', async (by) => {
    const listed = form(await server.call('receipts'))['receipts'] as { charge_usdc: string }[]
    const total = listed.reduce((sum, one) => sum + Number(one.charge_usdc), 0)
    for (const fromService of [false, true]) {
      const spend = form(await server.call('spend', { by, days: 2, from_service: fromService }))
      const rows = spend['rows'] as { charge_usdc: string; calls: number }[]
      expect(Number(spend['charge_usdc'])).toBeCloseTo(total, 6)
      expect(rows.reduce((sum, row) => sum + Number(row.charge_usdc), 0)).toBeCloseTo(total, 6)
      expect(rows.reduce((sum, row) => sum + row.calls, 0)).toBe(listed.length)
    }
  })

  it('verify a receipt by its id, as a document and in a file of an allowed folder', async () => {
    const receipt = await document()
    await writeFile(join(folder, 'a.receipt.json'), JSON.stringify(receipt))
    await writeFile(join(folder, 'all.receipt.json'), JSON.stringify([receipt, receipt]))
    for (const given of [{ receipt_id: receiptId }, { receipt }, { path: 'a.receipt.json' }]) {
      const verified = form(await server.call('verify_receipt', given))
      expect(verified).toMatchObject({ valid: true, receipts: [{ receipt_id: receiptId, charge_usdc: charge }] })
      const [{ checks }] = verified['receipts'] as [{ checks: readonly unknown[] }]
      expect(checks).toContainEqual(expect.objectContaining({ name: 'transfer', outcome: 'passed' }))
    }
    const all = form(await server.call('verify_receipt', { path: 'all.receipt.json' }))
    expect(all).toMatchObject({ valid: true, receipts: [{ valid: true }, { valid: true }] })
  })

  it('find a receipt invalid when one field was changed', async () => {
    const receipt = { ...(await document()), charge_usdc: '0.000001', charge_atomic: '1' }
    const verified = await server.call('verify_receipt', { receipt })
    expect(verified).not.toHaveProperty('isError')
    expect(form(verified)).toMatchObject({ valid: false, receipts: [{ valid: false }] })
    expect(verified.content[0]).toMatchObject({ text: '0 of 1 receipt is valid' })
  })

  it.each([
    ['a file outside of the allowed folders', () => ({ path: join(place, 'secret.json') }), 'path_not_allowed'],
    ['a file that is no receipt', () => ({ path: 'notes.json' }), 'not_a_receipt'],
    ['a file without receipts', () => ({ path: 'none.json' }), 'not_a_receipt'],
    ['a document that is no receipt', () => ({ receipt: { object: 'list' } }), 'not_a_receipt'],
    ['an id that is unknown', () => ({ receipt_id: '00000000-0000-4000-8000-000000000000' }), 'receipt_unknown'],
    ['a path as an id', () => ({ receipt_id: '/etc/passwd' }), 'invalid_arguments'],
    ['nothing', () => ({}), 'invalid_arguments'],
    ['two of them', () => ({ receipt_id: receiptId, path: 'a.receipt.json' }), 'invalid_arguments'],
  ])('verify no %s', async (_, given, code) => {
    await writeFile(join(place, 'secret.json'), '{"object":"receipt"}')
    await writeFile(join(folder, 'notes.json'), 'my notes')
    await writeFile(join(folder, 'none.json'), '[]')
    const refused = await server.call('verify_receipt', given())
    expect(codeOf(refused)).toBe(code)
    expect(JSON.stringify(refused)).not.toContain('my notes')
  })
})
