import { execFile } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { getMcpConfigForManifest, MANIFEST_SCHEMAS, unpackExtension } from '@anthropic-ai/mcpb'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { x402Client } from '@x402/core/client'
import type { PaymentRequired } from '@x402/core/types'
import { UptoEvmScheme } from '@x402/evm/upto/client'
import { privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createFarebox, walletFromPrivateKey } from '../../../../client/farebox.ts'
import { packBundle } from '../../../../client/mcp/bundle/pack-bundle.ts'
import { describeServer } from '../../../../client/mcp/description/generate/generated-files.ts'
import { bundleManifest } from '../../../../client/mcp/description/generate/server-json.ts'
import { INSTRUCTIONS, TOOL_TEXTS } from '../../../../client/mcp/description/tool-texts.ts'
import { TOOLS } from '../../../../client/mcp/tools/tools.ts'
import { copySamples } from '../../../../infra/sandbox/client-command.ts'
import { operationById } from '../../../../shared/operations/registry.ts'
import { type HttpBridge, startHttpBridge } from '../../../support/mcp/http-bridge.ts'
import {
  createServerWallet,
  ERAS,
  type LocalServer,
  type ServerWallet,
  serverCommand,
  serverEnvironment,
  startLocalServer,
} from '../../../support/mcp/local-server.ts'
import { generateMp3 } from '../../../support/media/mp3-generator.ts'
import { copyClient, ROOT, systemNode } from '../../../support/processes/client-package.ts'
import { type SharedSandbox, useSharedSandbox } from '../../../support/processes/test-sandbox.ts'
import { type InspectorTarget, runInspector } from '../../support/inspector.ts'

/*
 * The protocol's own conformance suite, which knows the revisions of 2025; the official client's tests cover 2026-07-28.
 * Most of its scenarios call tools, resources and prompts of the suite, which no other server has.
 */
const BOTH = ['server-initialize', 'ping', 'tools-list']
const LOCAL = [...BOTH, 'resources-list']
/** Why the other scenarios do not apply. */
const NOT_APPLICABLE: Readonly<Record<string, readonly string[]>> = {
  // They call tools with names like test_simple_text, and compare what the suite says these return.
  'calls a tool of the suite': [
    'tools-call-simple-text',
    'tools-call-image',
    'tools-call-audio',
    'tools-call-embedded-resource',
    'tools-call-mixed-content',
    'tools-call-with-logging',
    'tools-call-error',
    'tools-call-with-progress',
    'tools-call-sampling',
    'tools-call-elicitation',
    'elicitation-sep1034-defaults',
    'elicitation-sep1330-enums',
    'json-schema-2020-12',
    'server-sse-polling',
  ],
  'reads a resource of the suite': [
    'resources-read-text',
    'resources-read-binary',
    'resources-templates-read',
    'resources-subscribe',
    'resources-unsubscribe',
  ],
  'needs a capability that neither server declares': [
    'logging-set-level',
    'completion-complete',
    'prompts-list',
    'prompts-get-simple',
    'prompts-get-with-args',
    'prompts-get-embedded-resource',
    'prompts-get-with-image',
  ],
  // The local server has no HTTP, and the hosted one no sessions: the suite ends at the missing session id with a warning.
  'needs sessions over HTTP': ['server-sse-multiple-streams'],
  // It is for servers on localhost without HTTPS. The hosted one is public, and each call is paid by a signature of its own: a page
  // that a browser shows can do nothing with it that it could not do elsewhere.
  'is for servers on localhost': ['dns-rebinding-protection'],
}
const SUITE = fileURLToPath(
  new URL('../../node_modules/@modelcontextprotocol/conformance/dist/index.js', import.meta.url),
)
const run = promisify(execFile)
const urls: Record<string, string> = {}
/** The first revision and what the client negotiates in it, or the second one alone. */
const protocolOf = (era: (typeof ERAS)[number]) => expect.stringMatching(era === '2025' ? /^2025-/ : /^2026-07-28$/)
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
const description = describeServer()
const nodes = new Map<string, string>()

describe('conformance of the hosted server', () => {
  let sandbox: SharedSandbox
  let bridge: HttpBridge
  let folder: string
  beforeAll(async () => {
    sandbox = await useSharedSandbox()
    folder = await mkdtemp(join(tmpdir(), 'farebox-conformance-'))
    const environment = serverEnvironment({ baseUrl: sandbox.info.baseUrl, home: join(folder, 'home') })
    bridge = await startHttpBridge(serverCommand(), environment)
    Object.assign(urls, { local: bridge.url, hosted: `${sandbox.info.baseUrl}/mcp` })
  })

  afterAll(async () => {
    await bridge.stop()
    await rm(folder, { recursive: true, force: true })
    await sandbox.stop()
  })

  test('every scenario of the suite is run, or has a reason why it does not apply', async () => {
    const { stdout } = await run(process.execPath, [SUITE, 'list', '--server'])
    const [servers = ''] = stdout.split('Client scenarios')
    const scenarios = [...servers.matchAll(/^ {2}- (\S+)/gm)].map(([, name = '']) => name)
    expect(scenarios.toSorted()).toEqual([...LOCAL, ...Object.values(NOT_APPLICABLE).flat()].toSorted())
  })

  describe.each([
    ['local', LOCAL],
    ['hosted', BOTH],
  ])('the %s server', (server, scenarios) => {
    test.each(scenarios)('conforms: %s', async (scenario) => {
      const output = join(folder, `${server}-${scenario}`)
      const args = ['server', '--url', urls[server] ?? '', '--scenario', scenario, '--output-dir', output]
      await run(process.execPath, [SUITE, ...args])
      const [place = ''] = await readdir(output)
      const checks = JSON.parse(await readFile(join(output, place, 'checks.json'), 'utf8')) as { status: string }[]
      expect(checks.map(({ status }) => status)).toEqual(['SUCCESS'])
    })
  })

  test('the local server writes nothing to standard output that was not asked for', () => {
    expect(bridge.unasked).toEqual([])
  })
})

describe('the official client', () => {
  let sandbox: SharedSandbox
  beforeAll(async () => {
    sandbox = await useSharedSandbox()
  })

  afterAll(() => sandbox.stop())

  describe.each(ERAS)('the official client over stdio, in the protocol of %s', (era) => {
    let wallet: ServerWallet
    let server: LocalServer
    beforeAll(async () => {
      wallet = await createServerWallet(sandbox)
      server = await startLocalServer(wallet, { era })
    })
    afterAll(async () => {
      await server.close()
      await wallet.remove()
    })

    test('negotiates the revision, and gets instructions, tools with their annotations, and the models', async () => {
      expect(server.client.getNegotiatedProtocolVersion()).toEqual(protocolOf(era))
      expect(server.client.getInstructions()).toBe(INSTRUCTIONS)
      const { tools } = await server.client.listTools()
      expect(tools.map(({ name, title, annotations }) => ({ name, title, annotations }))).toEqual(
        Object.values(TOOL_TEXTS).map(({ name, title, annotations }) => ({ name, title, annotations })),
      )
      const { resources } = await server.client.listResources()
      expect(resources).toHaveLength(1)
      const { contents } = await server.client.readResource({ uri: resources[0]?.uri ?? '' })
      expect(JSON.stringify(contents)).toContain('speechvendor/scribe-v2')
    })

    test('pays for a call once, whose result fits the listed schema, and gets equal bytes for a repetition', async () => {
      await server.client.listTools()
      const given = { prompt: 'Say hello.', max_tokens: 20, request_id: `hello-${era}` }
      const first = await server.call('chat', given)
      const paid = await wallet.paid()
      expect(paid).toBeGreaterThan(0n)
      const again = await server.call('chat', given)
      expect(again.structuredContent).toEqual(first.structuredContent)
      expect(again.content).toEqual(first.content)
      expect(await wallet.paid()).toBe(paid)
    })

    test('gets an error of a tool as a result, and one of the protocol for an unknown tool', async () => {
      await server.client.listTools()
      expect(await server.call('chat', { prompt: '' })).toMatchObject({
        isError: true,
        structuredContent: { error: { code: 'invalid_arguments', money: 'none' } },
      })
      await expect(server.call('buy_everything')).rejects.toThrow(/buy_everything/)
    })
  })

  describe.each(ERAS)('the official client over HTTP, in the protocol of %s', (era) => {
    let client: Client
    beforeAll(async () => {
      const negotiation = era === '2025' ? {} : { versionNegotiation: { mode: { pin: era } } as const }
      client = new Client({ name: 'test', version: '1' }, negotiation)
      await client.connect(new StreamableHTTPClientTransport(new URL(`${sandbox.info.baseUrl}/mcp`)))
    })
    afterAll(() => client.close())

    const chat = {
      model: 'textmodel-2.5-flash',
      messages: [{ role: 'user', content: 'Good evening.' }],
      max_tokens: 40,
    }
    const call = async (name: string, args: object, meta: Record<string, unknown> = {}) =>
      await client.callTool({ name, arguments: { ...args }, _meta: meta })

    test('negotiates the revision, and lists the tools with the instructions', async () => {
      expect(client.getNegotiatedProtocolVersion()).toEqual(protocolOf(era))
      expect(client.getInstructions()).toContain('x402')
      const { tools } = await client.listTools()
      expect(tools.map(({ name }) => name)).toEqual(['quote', 'chat', 'generate_image', 'speak', 'transcribe'])
    })

    test('asks for a price, gets the challenge as a result, pays, and gets the same result for a repetition', async () => {
      await client.listTools()
      const quote = await call('quote', { tool: 'chat', arguments: chat })
      expect(quote).not.toHaveProperty('isError')
      const unpaid = await call('chat', chat)
      expect(unpaid).toMatchObject({ isError: true, structuredContent: { x402Version: 2 } })

      const { rpcUrl, network, payer: account, payTo } = sandbox.info
      const scheme = new UptoEvmScheme(privateKeyToAccount(account.privateKey), { rpcUrl })
      const payer = new x402Client().register(network as `${string}:${string}`, scheme)
      const payment = await payer.createPaymentPayload(unpaid.structuredContent as PaymentRequired)
      const transfers = async () => (await sandbox.chain.transfersTo(payTo)).length
      const before = await transfers()
      const paid = await call('chat', chat, { 'x402/payment': payment })
      expect(paid).not.toHaveProperty('isError')
      const again = await call('chat', chat, { 'x402/payment': payment })
      expect(again.structuredContent).toEqual(paid.structuredContent)
      expect(await transfers()).toBe(before + 1)
    })

    test('gets an error of a tool as a result, and one of the protocol for an unknown tool', async () => {
      await client.listTools()
      expect(await call('chat', { model: 'no-such-model' })).toMatchObject({
        isError: true,
        structuredContent: { error: { payment: 'none' } },
      })
      await expect(call('buy_everything', {})).rejects.toThrow(/buy_everything/)
    })
  })
})

describe('the Inspector', () => {
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
      }
      const answers: Record<string, Record<string, unknown>> = {}
      for (const [index, [name, args]] of Object.entries(calls).entries()) {
        const era = ERAS[index % ERAS.length] ?? 'legacy'
        const answer = await callTool(server, name, args, '--protocol-era', era)
        expect(answer).toMatchObject({ exitCode: 0 })
        answers[name] = answer.structuredContent
      }
      expect(Object.keys(calls).toSorted()).toEqual(TOOLS.map(({ name }) => name).toSorted())
      const payer = walletFromPrivateKey(wallet.privateKey ?? '')
      const farebox = await createFarebox({ wallet: payer, baseUrl: sandbox.info.baseUrl, journal: wallet.home })
      const { calls: paid, charged } = farebox.spend()
      await farebox.close()
      expect([paid, charged]).toEqual([4, await wallet.paid()])
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
})

describe('the bundle, unpacked into an empty folder', () => {
  let folder: string
  let unpacked: string
  let recordings: string
  let sandbox: SharedSandbox
  let wallet: ServerWallet
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'farebox-bundle-'))
    unpacked = join(folder, 'unpacked')
    recordings = join(folder, 'recordings')
    sandbox = await useSharedSandbox()
    wallet = await createServerWallet(sandbox)
    await copySamples(recordings)
    const { packageName } = description
    const sources = { root: ROOT, client: await copyClient(join(folder, 'sources')), packageName }
    const bundle = join(folder, 'farebox.mcpb')
    await packBundle({ ...sources, manifest: bundleManifest(description) }, bundle)
    await unpackExtension({ mcpbPath: bundle, outputDir: unpacked, silent: true })
    const system = await systemNode()
    nodes.set('that runs npm', system.path)
    nodes.set('of the tests', process.execPath)
  })
  afterAll(async () => {
    await wallet.remove()
    await rm(folder, { recursive: true, force: true })
    await sandbox.stop()
  })
  /** Starts the server as a desktop client does: from the manifest and what a person chose in its window. */
  async function connect(node: string): Promise<Client> {
    const keyFile = join(folder, 'key')
    await writeFile(keyFile, wallet.privateKey ?? '', { mode: 0o600 })
    const config = await getMcpConfigForManifest({
      manifest: MANIFEST_SCHEMAS['0.3'].parse(bundleManifest(description)),
      extensionPath: unpacked,
      systemDirs: {},
      userConfig: { url: wallet.baseUrl ?? '', key_file: keyFile, home: wallet.home, folders: [recordings] },
      pathSeparator: '/',
    })
    expect(config?.command).toBe('node')
    const client = new Client({ name: 'desktop', version: '1' })
    const env = { PATH: '/nowhere', ...config?.env }
    await client.connect(new StdioClientTransport({ command: node, args: config?.args ?? [], env, cwd: '/' }))
    return client
  }

  test('contains the package with what it runs with, and neither sources nor development packages', async () => {
    expect((await readdir(unpacked)).toSorted()).toEqual(['manifest.json', 'node_modules', 'package.json'])
    const packages = await readdir(join(unpacked, 'node_modules'))
    expect(packages).toEqual(expect.arrayContaining(['farebox', 'viem', 'zod', '@x402', '@modelcontextprotocol']))
    for (const other of ['typescript', 'vitest', 'fastify', '@types']) expect(packages).not.toContain(other)
    const files = await readdir(join(unpacked, 'node_modules/farebox'), { recursive: true })
    expect(files.filter((name) => name.endsWith('.ts'))).toEqual([])
    expect(files.filter((name) => /mcp\/(bundle|description\/generate)/.test(name))).toEqual([])
  })

  test('is small enough for a download of a moment', async () => {
    expect((await stat(join(folder, 'farebox.mcpb'))).size).toBeLessThan(20_000_000)
  })

  test.each(['that runs npm', 'of the tests'])('answers, pays and transcribes with the Node %s', async (name) => {
    const client = await connect(nodes.get(name) ?? '')
    try {
      const { tools } = await client.listTools()
      expect(tools.map((tool) => tool.name)).toEqual(description.tools.map((tool) => tool.name))
      const before = await wallet.paid()
      const call = { name: 'chat', arguments: { prompt: `Say hello to the Node ${name}.`, max_tokens: 20 } }
      expect((await client.callTool(call)).isError).toBeUndefined()
      expect(await wallet.paid()).toBeGreaterThan(before)
      const transcript = await client.callTool({ name: 'transcribe', arguments: { path: 'last-tram.mp3' } })
      expect(JSON.stringify(transcript)).toContain('I am the farebox')
    } finally {
      await client.close()
    }
  })
})
