import { execFile } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { TOOL_TEXTS } from '../../../client/mcp/description/tool-texts.ts'
import { copySamples } from '../../../infra/sandbox/client-command.ts'
import { createPayer } from '../../support/payer/payer.ts'
import { copyClient, installTarball, packClient, systemNode } from '../../support/processes/client-package.ts'
import { type SharedSandbox, useSharedSandbox } from '../../support/processes/test-sandbox.ts'

const run = promisify(execFile)
const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
const TSC = join(ROOT, 'node_modules/.bin/tsc')

/** A program as a user of the package writes it. */
const PROGRAM = `
import { createFarebox, FareboxError, walletFromEnvironment } from 'farebox'
import { renderSrt, writeCues } from 'farebox/subtitles'

const farebox = await createFarebox({
  wallet: walletFromEnvironment(),
  baseUrl: process.env['FAREBOX_URL'] ?? '',
  rpcUrl: process.env['FAREBOX_RPC_URL'],
  budget: { call: '0.15', day: '1' },
})
try {
  const { result, payment } = await farebox.transcriptions.create({ file: process.argv[2] ?? '', timestamps: 'word' })
  const srt: string = renderSrt(writeCues(result.words ?? [], { style: 'netflix' }).cues)
  console.log(JSON.stringify({ version: process.version, srt, charged: payment.charged, verified: payment.verified }))
} catch (error) {
  if (error instanceof FareboxError) console.error(error.code, error.money)
  throw error
} finally {
  await farebox.close()
}
`
const WRONG_PROGRAM = `
import { createFarebox, walletFromEnvironment } from 'farebox'
await createFarebox({ wallet: walletFromEnvironment(), baseUrl: '', budget: { day: 20 } })
`

let folder: string
let consumer: string
let sandbox: SharedSandbox
const nodes = new Map<string, string>()
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'farebox-package-'))
  consumer = join(folder, 'consumer')
  sandbox = await useSharedSandbox()
  await installTarball(await packClient(await copyClient(join(folder, 'packed'))), consumer)
  await copySamples(join(consumer, 'recordings'))
  await writeFile(join(consumer, 'program.mts'), PROGRAM)
  const system = await systemNode()
  nodes.set('that runs npm', system.path)
  nodes.set('of the tests', process.execPath)
})
afterAll(async () => {
  await rm(folder, { recursive: true, force: true })
  await sandbox.stop()
})

const compile = async (file: string, ...options: string[]) => {
  const compiler = [TSC, '--module', 'nodenext', '--target', 'es2023', '--strict', '--types', 'node', ...options, file]
  return await run(process.execPath, compiler, { cwd: consumer })
}

/** Returns the settings of a payer of its own, with a journal of its own. */
async function settings(home: string): Promise<NodeJS.ProcessEnv> {
  const { baseUrl, rpcUrl } = sandbox.info
  const { privateKey } = await createPayer(rpcUrl, { usdcAtomic: 1_000_000n })
  const variables = { FAREBOX_URL: baseUrl, FAREBOX_RPC_URL: rpcUrl, FAREBOX_PRIVATE_KEY: privateKey }
  return { PATH: process.env['PATH'], FAREBOX_HOME: join(folder, home), ...variables }
}

describe('the packed client, installed into an empty folder', () => {
  test('contains the build, the license, the documentation and the skill, and no sources', async () => {
    const installed = join(consumer, 'node_modules/farebox')
    expect((await readdir(installed)).toSorted()).toEqual([
      'LICENSE',
      'README.md',
      'bin',
      'dist',
      'package.json',
      'skills',
    ])
    const built = await readdir(join(installed, 'dist'), { recursive: true, withFileTypes: true })
    const names = built.filter((entry) => entry.isFile()).map(({ name }) => name)
    expect(names.filter((name) => !/\.(js|d\.ts)$/.test(name))).toEqual([])
    expect(await readFile(join(installed, 'LICENSE'), 'utf8')).toBe(await readFile(join(ROOT, 'LICENSE'), 'utf8'))
  })

  test('has types that a strict program with NodeNext compiles with, its libraries checked as well', async () => {
    await symlink(join(ROOT, 'node_modules/@types'), join(consumer, 'node_modules/@types'))
    await compile('program.mts', '--skipLibCheck', 'false')
    await writeFile(join(consumer, 'wrong.mts'), WRONG_PROGRAM)
    await expect(compile('wrong.mts', '--noEmit')).rejects.toMatchObject({
      stdout: expect.stringMatching(/wrong\.mts.*error TS2322: Type 'number' is not assignable to type 'string'/),
    })
  })

  describe.each(['that runs npm', 'of the tests'])('with the Node %s', (name) => {
    test('farebox --help lists the commands', async () => {
      const { stdout } = await run(nodes.get(name) ?? '', ['node_modules/farebox/bin/farebox.js', '--help'], {
        cwd: consumer,
      })
      for (const command of ['transcribe', 'quote', 'doctor', 'mcp', 'limits'])
        expect(stdout).toContain(`\n  ${command} `)
    })

    test('farebox mcp lists its tools', async () => {
      const client = new Client({ name: 'test', version: '1' })
      const env = { PATH: process.env['PATH'] ?? '', FAREBOX_HOME: join(folder, `mcp ${name}`) }
      const args = ['node_modules/farebox/bin/farebox.js', 'mcp']
      await client.connect(new StdioClientTransport({ command: nodes.get(name) ?? '', args, cwd: consumer, env }))
      const { tools } = await client.listTools()
      await client.close()
      expect(tools.map((tool) => tool.name)).toEqual(Object.keys(TOOL_TEXTS))
    })

    test('a program makes a paid call, whose charge is on chain', async () => {
      const env = await settings(`library ${name}`)
      const { stdout } = await run(nodes.get(name) ?? '', ['program.mjs', 'recordings/last-tram.mp3'], {
        cwd: consumer,
        env,
      })
      const answer = JSON.parse(stdout)
      expect(answer).toMatchObject({ charged: '0.005034', verified: 'passed' })
      expect(answer.srt).toContain('I am the farebox')
    })

    test('farebox transcribe writes the subtitles of a folder', async () => {
      const program = ['node_modules/.bin/farebox', 'transcribe', 'recordings', '--out', `subtitles ${name}`, '--yes']
      const env = await settings(`command ${name}`)
      const { stdout, stderr } = await run(nodes.get(name) ?? '', program, { cwd: consumer, env })
      expect(stdout).toBe('')
      expect(stderr).toContain('3 recordings transcribed')
      expect((await readdir(join(consumer, `subtitles ${name}`))).toSorted()).toEqual([
        'biglietteria-cortese.srt',
        'last-tram.srt',
        'two-at-the-stop.srt',
      ])
    })
  })
})
