import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { x402Client } from '@x402/core/client'
import type { PaymentRequired } from '@x402/core/types'
import { UptoEvmScheme } from '@x402/evm/upto/client'
import { privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { operationById } from '#shared/operations/registry.ts'
import { TOOLS } from '../../../client/mcp/tools/tools.ts'
import { copySamples } from '../../../infra/sandbox/client-command.ts'
import { type InspectorTarget, runInspector } from '../../support/mcp/inspector.ts'
import {
  createServerWallet,
  type ServerWallet,
  serverCommand,
  serverEnvironment,
} from '../../support/mcp/local-server.ts'
import { generateMp3 } from '../../support/media/mp3-generator.ts'
import { type SharedSandbox, useSharedSandbox } from '../../support/processes/test-sandbox.ts'

let sandbox: SharedSandbox
let folder: string
beforeAll(async () => {
  sandbox = await useSharedSandbox()
  folder = await mkdtemp(join(tmpdir(), 'farebox-inspector-'))
})
afterAll(async () => {
  await rm(folder, { recursive: true, force: true })
  await sandbox.stop()
})

interface ToolAnswer {
  readonly isError?: boolean
  readonly content: readonly { readonly type: string; readonly text?: string }[]
  readonly structuredContent: Record<string, unknown>
}

/** Calls a tool through the Inspector. Its own checks of the result are part of the call: a failed one has no result. */
async function callTool(server: InspectorTarget, name: string, args: object, ...options: readonly string[]) {
  const given = ['--tool-name', name, '--tool-args-json', JSON.stringify(args)]
  const { exitCode, result, errors } = await runInspector(server, 'tools/call', ...given, ...options)
  expect({ result, errors }).toHaveProperty('result.content')
  return { exitCode, ...(result as unknown as ToolAnswer) }
}

const ERAS = ['legacy', 'modern'] as const

describe('the Inspector at the local server', () => {
  let wallet: ServerWallet
  let server: InspectorTarget
  beforeAll(async () => {
    wallet = await createServerWallet(sandbox)
    const recordings = join(folder, 'recordings')
    await copySamples(recordings)
    const [command, args] = serverCommand({ args: [recordings] })
    server = { target: [command, ...args], environment: serverEnvironment(wallet), home: folder }
  })
  afterAll(() => wallet.remove())

  test.each(ERAS)('lists every tool with portable schemas (%s)', async (era) => {
    const { exitCode, result, errors } = await runInspector(server, 'tools/list', '--strict', '--protocol-era', era)
    expect({ exitCode, errors }).toEqual({ exitCode: 0, errors: expect.stringContaining('0 errors') })
    const tools = result['tools'] as { name: string }[]
    expect(tools.map(({ name }) => name)).toEqual(TOOLS.map(({ name }) => name))
  })

  test('calls every tool, and what was paid is what the wallet lost', async () => {
    const calls: Record<string, object> = {
      quote: { tool: 'chat', text: 'Say hello.', max_tokens: 20 },
      chat: { prompt: 'Say hello.', max_tokens: 20, request_id: 'hello' },
      generate_image: { prompt: 'A cat on a tram', request_id: 'cat' },
      speak: { text: 'Mind the gap.', request_id: 'gap' },
      transcribe: { path: 'last-tram.mp3' },
      wallet: {},
      receipts: {},
      spend: { by: 'purpose' },
    }
    const answers: Record<string, Record<string, unknown>> = {}
    for (const [index, [name, args]] of Object.entries(calls).entries()) {
      const era = ERAS[index % ERAS.length] ?? 'legacy'
      const answer = await callTool(server, name, args, '--protocol-era', era)
      expect(answer).toMatchObject({ exitCode: 0 })
      answers[name] = answer.structuredContent
    }
    const receipts = answers['receipts']?.['receipts'] as { receipt_id: string; charge_usdc: string }[]
    const verified = await callTool(server, 'verify_receipt', { receipt_id: receipts[0]?.receipt_id })
    expect(verified).toMatchObject({ exitCode: 0, structuredContent: { valid: true } })
    expect([...Object.keys(calls), 'verify_receipt'].toSorted()).toEqual(TOOLS.map(({ name }) => name).toSorted())
    const charged = receipts.reduce((sum, { charge_usdc: charge }) => sum + Math.round(Number(charge) * 1e6), 0)
    expect(receipts).toHaveLength(4)
    expect(await wallet.paid()).toBe(BigInt(charged))
    expect(JSON.stringify(answers['transcribe'])).toContain('last-tram')
  })

  test('shows an error of a tool as the tool states it', async () => {
    const refused = await callTool(server, 'transcribe', { path: '/etc/hostname' })
    expect(refused).toMatchObject({
      isError: true,
      structuredContent: { error: { code: 'path_not_allowed', money: 'none' } },
    })
  })

  test('reads the list of models', async () => {
    const { exitCode, result } = await runInspector(server, 'resources/read', '--uri', 'farebox://models')
    expect(exitCode).toBe(0)
    expect(JSON.stringify(result)).toContain('textmodel-3.5-flash')
  })
})

describe('the Inspector at the hosted server', () => {
  let server: InspectorTarget
  let payer: x402Client
  let calls: Record<string, object>
  beforeAll(() => {
    const { baseUrl, rpcUrl, network, payer: account } = sandbox.info
    server = { target: [`${baseUrl}/mcp`], home: folder }
    const scheme = new UptoEvmScheme(privateKeyToAccount(account.privateKey), { rpcUrl })
    payer = new x402Client().register(network as `${string}:${string}`, scheme)
    calls = {
      chat: { model: 'textmodel-2.5-flash', messages: [{ role: 'user', content: 'Good evening.' }], max_tokens: 40 },
      generate_image: operationById('createImageGeneration').requestExample,
      speak: operationById('createSpeech').requestExample,
      // An argument of a command line has at most 128 KiB.
      transcribe: {
        model: 'speechvendor/scribe-v2',
        audio_base64: Buffer.from(generateMp3({ durationMs: 2000 })).toString('base64'),
      },
    }
  })

  test.each(ERAS)('lists every tool with portable schemas (%s)', async (era) => {
    const { exitCode, result, errors } = await runInspector(server, 'tools/list', '--strict', '--protocol-era', era)
    expect({ exitCode, errors }).toEqual({ exitCode: 0, errors: expect.stringContaining('0 errors') })
    const tools = result['tools'] as { name: string }[]
    expect(tools.map(({ name }) => name)).toEqual(['quote', ...Object.keys(calls)])
  })

  test('calls every tool: a price, then with the payment in _meta the result', async () => {
    for (const [index, [tool, args]] of Object.entries(calls).entries()) {
      const era = ['--protocol-era', ERAS[index % ERAS.length] ?? 'legacy']
      const quote = await callTool(server, 'quote', { tool, arguments: args }, ...era)
      expect(quote).toMatchObject({ exitCode: 0 })
      const unpaid = await callTool(server, tool, args, ...era)
      expect(unpaid).toMatchObject({ isError: true, structuredContent: { x402Version: 2 } })
      const payment = await payer.createPaymentPayload(unpaid.structuredContent as unknown as PaymentRequired)
      const meta = ['--tool-metadata', `x402/payment=${JSON.stringify(payment)}`]
      const paid = await callTool(server, tool, args, ...era, ...meta)
      expect(paid).toMatchObject({
        exitCode: 0,
        _meta: { 'x402/payment-response': { success: true } },
      })
    }
  })
})
