import { mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { getMcpConfigForManifest, MANIFEST_SCHEMAS, unpackExtension } from '@anthropic-ai/mcpb'
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { packBundle } from '../../../client/mcp/bundle/pack-bundle.ts'
import { bundleManifest } from '../../../client/mcp/description/generate/bundle-manifest.ts'
import { describeServer } from '../../../client/mcp/description/generate/generated-files.ts'
import { copySamples } from '../../../infra/sandbox/client-command.ts'
import { createServerWallet, type ServerWallet } from '../../support/mcp/local-server.ts'
import { copyClient, ROOT, systemNode } from '../../support/processes/client-package.ts'
import { type SharedSandbox, useSharedSandbox } from '../../support/processes/test-sandbox.ts'

const description = describeServer()

let folder: string
let unpacked: string
let recordings: string
let sandbox: SharedSandbox
let wallet: ServerWallet
const nodes = new Map<string, string>()
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

describe('the bundle, unpacked into an empty folder', () => {
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
