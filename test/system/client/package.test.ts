import { execFile } from 'node:child_process'
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { TOOL_TEXTS } from '../../../client/mcp/description/tool-texts.ts'
import { copySamples } from '../../../infra/sandbox/client-command.ts'
import { createPayer } from '../../support/payer/payer.ts'
import {
  buildClient,
  copyClient,
  installTarball,
  packClient,
  systemNode,
} from '../../support/processes/client-package.ts'
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
const nodes = new Map<string, string>()
const CHARGE_OF_SAMPLE = '0.005034'

describe('the packed client, installed into an empty folder', () => {
  let folder: string
  let consumer: string
  let sandbox: SharedSandbox
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
    const compiler = [
      TSC,
      '--module',
      'nodenext',
      '--target',
      'es2023',
      '--strict',
      '--types',
      'node',
      ...options,
      file,
    ]
    return await run(process.execPath, compiler, { cwd: consumer })
  }
  /** Returns the settings of a payer of its own, with a journal of its own. */
  async function settings(home: string): Promise<NodeJS.ProcessEnv> {
    const { baseUrl, rpcUrl } = sandbox.info
    const { privateKey } = await createPayer(rpcUrl, { usdcAtomic: 1_000_000n })
    const variables = { FAREBOX_URL: baseUrl, FAREBOX_RPC_URL: rpcUrl, FAREBOX_PRIVATE_KEY: privateKey }
    return { PATH: process.env['PATH'], FAREBOX_HOME: join(folder, home), ...variables }
  }

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

describe('the examples of the README', () => {
  let page: string
  let program: string
  let sandbox: SharedSandbox
  beforeAll(async () => {
    page = await readFile(join(ROOT, 'client/README.md'), 'utf8')
    sandbox = await useSharedSandbox()
    program = await mkdtemp(join(tmpdir(), 'farebox-readme-'))
    const copy = await copyClient(program)
    await buildClient(copy)
    await mkdir(join(program, 'bin'))
    await chmod(join(copy, 'bin/farebox.js'), 0o755)
    await symlink(join(copy, 'bin/farebox.js'), join(program, 'bin/farebox'))
  })

  afterAll(async () => {
    await rm(program, { recursive: true, force: true })
    await sandbox.stop()
  })

  /** A user's home with a key file and the settings of the page. */
  let home: string
  beforeEach(async () => {
    home = await mkdtemp(join(tmpdir(), 'farebox-reader-'))
    const { privateKey } = await createPayer(sandbox.info.rpcUrl, { usdcAtomic: 1_000_000n })
    const folder = join(home, '.config/farebox')
    await mkdir(folder, { recursive: true })
    await writeFile(join(folder, 'key'), privateKey, { mode: 0o600 })
    await writeFile(join(folder, 'env'), settings())
    return () => rm(home, { recursive: true, force: true })
  })

  /** Returns the first block of a language below a heading. */
  function blockOf(heading: string, language: string): string {
    const section = page.slice(page.indexOf(`\n${heading}\n`))
    const [, block] = new RegExp(`\`\`\`${language}\n([^]*?)\`\`\``).exec(section) ?? []
    if (block === undefined) throw new Error(`no ${language} below ${heading}`)
    return block
  }
  /** Returns the settings of the page, with the sandbox in place of the example's addresses. */
  function settings(): string {
    const { baseUrl, rpcUrl } = sandbox.info
    const text = blockOf('## Settings', 'sh')
    return text.replace('https://farebox.example', baseUrl).replace('https://mainnet.base.org', rpcUrl)
  }
  async function shell(script: string) {
    const path = [join(program, 'bin'), process.env['PATH']].join(delimiter)
    const env = { PATH: path, HOME: home }
    return await promisify(execFile)('sh', ['-ec', script], { cwd: home, env, maxBuffer: 2 ** 26 })
  }
  describe('the recipes of the client’s README, as they stand', () => {
    test('a folder to subtitles: its lines show the price, then write them', async () => {
      await copySamples(join(home, 'interviews'))
      // There is no terminal that could answer the question.
      const lines = blockOf('### A folder to subtitles', 'sh').replace(
        /^(farebox transcribe interviews\/)$/m,
        '$1 --yes',
      )
      const { stderr, stdout } = await shell(`${settings()}\n${lines}`)
      expect(stdout.trimEnd().split('\n')).toHaveLength(3)
      expect(stdout).toMatch(/0\.005034 USDC {2}interviews\/last-tram\.mp3 → last-tram\.srt/)
      expect(stderr).toMatch(/3 recordings, .*: 0\.015102 USDC[^]*Charged 0\.015102 USDC/)
      expect(await readFile(join(home, 'interviews/last-tram.srt'), 'utf8')).toContain('I am the farebox')
    })

    test('an archive under a budget, and the verification of what was paid for it', async () => {
      await copySamples(join(home, 'archive/2025'))
      const batch = blockOf('### An archive of 10,000 files under a budget', 'sh')
      const first = await shell(`${settings()}\n${batch}`)
      expect(first.stderr).toContain(`Charged ${CHARGE_OF_SAMPLE} USDC`)
      expect(
        (await readdir(join(home, 'transcripts'), { recursive: true })).filter((name) => name.endsWith('.srt')),
      ).toHaveLength(3)
      const again = await shell(`${settings()}\n${batch}`)
      expect(again.stderr).toContain('3 recordings finished before')

      const checks = blockOf('### Verify what was paid', 'sh').replace('transcripts/*', 'transcripts/2025/*')
      const { stdout } = await shell(`${settings()}\n${checks}`)
      expect(stdout.match(/ is valid$/gm)).toHaveLength(3)
      expect(stdout).toMatch(new RegExp(`^ok +transfer +${CHARGE_OF_SAMPLE} USDC`, 'm'))
      expect(await readFile(join(home, 'spend.csv'), 'utf8')).toContain(CHARGE_OF_SAMPLE)
    })

    test('a cron job: its command transcribes what is new, with its events in a file', async () => {
      await copySamples(join(home, 'inbox'))
      const line = blockOf('### A cron job', 'cron')
      const command = /^(?:\S+ ){5}(.*)$/m.exec(line)?.[1] ?? ''
      await shell(command)
      await shell(command)
      expect(await readdir(join(home, 'transcripts'))).toHaveLength(3)
      const events = (await readFile(join(home, 'farebox.ndjson'), 'utf8'))
        .trim()
        .split('\n')
        .map((text) => JSON.parse(text))
      expect(events.filter(({ event }) => event === 'finished')).toHaveLength(3)
      expect(events.filter(({ event }) => event === 'summary').map(({ charged }) => charged)).toEqual(['0.015102', '0'])
    })
  })

  describe('the lines for agents of the client’s README', () => {
    test('the limits are those that the person sets', async () => {
      const lines = blockOf('## For agents', 'sh').replace(/^(farebox limits set .*)$/m, '$1 --yes')
      const { stdout } = await shell(`${lines}\nfarebox limits`)
      expect(stdout).toMatch(
        /a call +0\.1 USDC[^]*a call +0\.2 USDC[^]*a session +1 USDC\na day +3 USDC\nasks above +0\.05 USDC/,
      )
    })

    test('the configuration that clients take starts a server that pays', async () => {
      const { mcpServers } = JSON.parse(blockOf('<!-- install lines: generated by npm run generate -->', 'json'))
      const { command, args, env } = JSON.parse(JSON.stringify(mcpServers.farebox).replaceAll('/home/you', home))
      await copySamples(join(home, 'recordings'))
      const client = new Client({ name: 'reader', version: '1' })
      const path = [join(program, 'bin'), process.env['PATH']].join(delimiter)
      const settings = { ...env, FAREBOX_URL: sandbox.info.baseUrl, FAREBOX_RPC_URL: sandbox.info.rpcUrl }
      await client.connect(new StdioClientTransport({ command, args, env: { PATH: path, HOME: home, ...settings } }))
      const transcript = await client.callTool({ name: 'transcribe', arguments: { path: 'last-tram.mp3' } })
      await client.close()
      expect(JSON.stringify(transcript)).toContain('I am the farebox')
    })
  })

  describe('the tables of the client’s README', () => {
    test('the error codes are those of client and service', async () => {
      const sources = await readdir(join(program, 'client'), { recursive: true, withFileTypes: true })
      const files = sources.filter(
        (entry) => entry.isFile() && entry.name.endsWith('.ts') && !/node_modules|dist/.test(entry.parentPath),
      )
      const texts = await Promise.all(files.map((entry) => readFile(join(entry.parentPath, entry.name), 'utf8')))
      const known = `${texts.join('\n')}${await readFile(join(ROOT, 'shared/errors/error-codes.ts'), 'utf8')}`
      const codes = [...page.slice(page.indexOf('\n## Errors')).matchAll(/^\| (`.*?`) +\|/gm)]
        .flatMap(([, cell = '']) => [...cell.matchAll(/`(\w+)`/g)].map(([, code = '']) => code))
        .filter((code) => code !== 'code')
      expect(codes.length).toBeGreaterThan(15)
      expect(codes.filter((code) => !new RegExp(`\\b${code}\\b`).test(known))).toEqual([])
    })

    test('the commands and options are those of the program', async () => {
      const help = await shell(
        'farebox --help; for command in transcribe quote receipts spend verify mcp limits; do farebox $command --help; done',
      )
      // The options of other programs.
      const own = page.replace(/<!-- install lines[^]*<!-- end of install lines -->/, '')
      const named = new Set([...own.matchAll(/(?<![\w-])--[a-z][a-z-]+/g)].map(([option]) => option))
      for (const option of ['--workspace', '--global']) named.delete(option)
      expect([...named].filter((option) => !help.stdout.includes(option))).toEqual([])
    })
  })
})
