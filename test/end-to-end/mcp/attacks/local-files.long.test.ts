import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdir, readdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { dirname, join } from 'node:path'
import pLimit from 'p-limit'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type SharedSandbox, useSharedSandbox } from '../../../support/processes/test-sandbox.ts'
import { type AttackBench, makeAttackBench } from './support/attack-bench.ts'
import type { McpProcess } from './support/mcp-process.ts'
import { markedRecording } from './support/scripted-vendors.ts'

/** A recording that no tool may read: it must never be uploaded. */
const SECRET = markedRecording(`secret ${crypto.randomUUID()}`)
const SECRET_SHA256 = createHash('sha256').update(SECRET).digest('hex')

let sandbox: SharedSandbox
let bench: AttackBench
let server: McpProcess
/** Beside the folder, not in it. */
let outside: string
beforeAll(async () => {
  sandbox = await useSharedSandbox()
  bench = await makeAttackBench(sandbox)
  outside = join(dirname(bench.folder), 'outside')
  await mkdir(outside)
  await bench.setLimits('--call', '0.02', '--session', '1', '--day', '1', '--confirm-above', '0.02')
  await writeFile(join(outside, 'secret.mp3'), SECRET)
  await writeFile(join(outside, 'notes.txt'), 'These are notes.')
  await writeFile(join(bench.folder, 'good.mp3'), markedRecording(crypto.randomUUID()))
  server = bench.start()
  await server.initialize()
})
afterAll(async () => {
  await bench.remove()
  await sandbox.stop()
})

const transcribe = (args: object) => server.call('transcribe', args)
const at = (...names: readonly string[]) => join(bench.folder, ...names)

/** Expects a refusal that costs nothing and leaves the files outside as they were. */
async function refused(args: object) {
  const answer = await transcribe(args)
  expect(answer).toMatchObject({ isError: true, structuredContent: { error: { money: 'none' } } })
  expect(JSON.stringify(answer)).not.toMatch(/node_modules|root:x|"call":/)
  expect(JSON.stringify(answer)).not.toContain(bench.payer.privateKey.slice(2))
  await expectUntouched()
  return answer
}

async function expectUntouched() {
  const uploads = await sandbox.upstreamCalls()
  expect(uploads.filter(({ audioSha256 }) => audioSha256 === SECRET_SHA256)).toEqual([])
  expect((await readdir(outside)).sort()).toEqual(['notes.txt', 'secret.mp3'])
  expect(await readFile(join(outside, 'notes.txt'), 'utf8')).toBe('These are notes.')
  expect((await readdir(`${bench.home}-limits`)).sort()).toEqual(['limits.json'])
}

describe('a path out of the allowed folders', () => {
  const links: readonly (readonly [string, () => string])[] = [
    ['a recording', () => join(outside, 'secret.mp3')],
    ['the key of the wallet', () => bench.keyFile],
    ['the limits', () => join(`${bench.home}-limits`, 'limits.json')],
    ['the list of users', () => '/etc/passwd'],
    ['the environment of the server', () => '/proc/self/environ'],
    ['a device', () => '/dev/zero'],
  ]

  it.each(links)('is refused as it is: %s', async (_, target) => {
    await refused({ path: target() })
  })

  it.each(links)('is refused by a link in the folder: %s', async (_, target) => {
    const link = `${crypto.randomUUID()}.mp3`
    await symlink(target(), at(link))
    await refused({ path: link })
    await refused({ path: at(link) })
    await rm(at(link))
  })

  it('is refused by a link to a folder, by a link to a link, and by dots', async () => {
    await symlink(outside, at('linked'))
    await symlink(at('linked'), at('again'))
    for (const path of ['linked', 'linked/secret.mp3', 'again/secret.mp3', '../outside/secret.mp3', '..', '../key'])
      await refused({ path })
    await refused({ path: at('..', 'outside', 'secret.mp3') })
    await refused({ path: at('linked', '..', 'outside', 'secret.mp3') })
    await rm(at('linked'))
    await rm(at('again'))
  })

  it.each([
    'good.mp3\u0000.txt',
    '\u0000',
    'x'.repeat(4000),
    '~/key',
    '${FAREBOX_KEY_FILE}',

    'http:good.mp3',
  ])('is refused when it is odd: %j', async (path) => {
    await refused({ path })
  })

  it('in a folder is left out, and the recordings of the folder are transcribed', async () => {
    await mkdir(at('mixed'))
    await writeFile(at('mixed', 'fine.mp3'), markedRecording(crypto.randomUUID()))
    await symlink(join(outside, 'secret.mp3'), at('mixed', 'secret.mp3'))
    await symlink(outside, at('mixed', 'more'))
    await symlink(at('mixed'), at('mixed', 'loop'))
    await symlink(at('nowhere'), at('mixed', 'broken.mp3'))
    execFileSync('mkfifo', [at('mixed', 'pipe.mp3')])
    const answer = await transcribe({ path: 'mixed' })
    expect(answer).toMatchObject({ structuredContent: { transcribed: 1 } })
    expect(answer.structuredContent?.['left_out']).toBeGreaterThanOrEqual(2)
    await expectUntouched()
  })

  it('that a link becomes while the folder is read is never uploaded', async () => {
    await mkdir(at('swapped'))
    await writeFile(at('swapped', 'secret.mp3'), markedRecording(crypto.randomUUID()))
    const state = { isSwapping: true, swaps: 0 }
    const swap = async () => {
      while (state.isSwapping) {
        await rename(at('swapped'), at('kept'))
        await symlink(outside, at('swapped'))
        await new Promise((resolve) => setImmediate(resolve))
        await rm(at('swapped'))
        await rename(at('kept'), at('swapped'))
        await new Promise((resolve) => setImmediate(resolve))
        state.swaps += 1
      }
    }
    const swapping = swap()
    const limit = pLimit(4)
    const attempts = Array.from({ length: 120 }, (_, attempt) =>
      limit(() =>
        transcribe({ path: attempt % 2 === 0 ? 'swapped/secret.mp3' : 'swapped', request_id: `race-${attempt}` }),
      ),
    )
    await Promise.all(attempts)
    state.isSwapping = false
    await swapping
    expect(state.swaps).toBeGreaterThan(10)
    await expectUntouched()
  })
})

describe('an output folder out of the allowed folders', () => {
  it('is refused as it is, by dots and by links', async () => {
    await symlink(outside, at('output'))
    const places = [
      outside,
      `${bench.home}-limits`,
      bench.home,
      '/',
      '..',
      '../outside',
      'output',
      'output/new',
      '/dev',
    ]
    for (const place of places) await refused({ path: 'good.mp3', output_folder: place })
    await rm(at('output'))
  })

  it('is not reached by the name of a transcript that is a link', async () => {
    await writeFile(at('target.mp3'), markedRecording(crypto.randomUUID()))
    await mkdir(at('results'))
    await symlink(join(outside, 'notes.txt'), at('results', 'target.txt'))
    await transcribe({ path: 'target.mp3', output_folder: 'results' })
    await expectUntouched()
    await symlink(`${bench.home}-limits/limits.json`, at('results', 'limits.txt'))
    await writeFile(at('limits.mp3'), markedRecording(crypto.randomUUID()))
    const before = await readFile(`${bench.home}-limits/limits.json`, 'utf8')
    await transcribe({ path: 'limits.mp3', output_folder: 'results' })
    expect(await readFile(`${bench.home}-limits/limits.json`, 'utf8')).toBe(before)
    await expectUntouched()
  })
})

describe('a folder that holds what an agent must not reach', () => {
  it.each([
    ['the journal', () => bench.home],
    ['the limits', () => `${bench.home}-limits`],
    ['a folder with both', () => dirname(bench.home)],
    ['everything', () => '/'],
  ])('keeps the server from starting: %s', async (_, folder) => {
    const { exitCode, errors } = await bench.run('mcp', folder())
    expect(exitCode).not.toBe(0)
    expect(errors).toMatch(/\w+ .*folder/i)
  })
})

describe('a URL of this machine or its network', () => {
  let web: Server
  let port: number
  let hits = 0
  beforeAll(async () => {
    web = createServer((_request, response) => {
      hits += 1
      response.end(SECRET)
    })
    await new Promise<void>((resolve) => web.listen(0, '127.0.0.1', resolve))
    port = (web.address() as AddressInfo).port
  })
  afterAll(() => void web.close())

  it.each([
    (at_: number) => `http://127.0.0.1:${at_}/a.mp3`,
    (at_: number) => `http://localhost:${at_}/a.mp3`,
    (at_: number) => `http://LOCALHOST.:${at_}/a.mp3`,
    (at_: number) => `http://2130706433:${at_}/a.mp3`,
    (at_: number) => `http://0177.0.0.1:${at_}/a.mp3`,
    (at_: number) => `http://0x7f.1:${at_}/a.mp3`,
    (at_: number) => `http://0.0.0.0:${at_}/a.mp3`,
    (at_: number) => `http://[::1]:${at_}/a.mp3`,
    (at_: number) => `http://[::ffff:7f00:1]:${at_}/a.mp3`,
    (at_: number) => `http://[64:ff9b::7f00:1]:${at_}/a.mp3`,
    (at_: number) => `http://example.com@127.0.0.1:${at_}/a.mp3`,
    (at_: number) => `http://127.0.0.1:${at_}#@example.com/a.mp3`,
    () => 'http://169.254.169.254/latest/meta-data/a.mp3',
    () => 'http://10.0.0.1/a.mp3',
    () => 'http://192.168.1.1/a.mp3',
    () => 'http://[fe80::1]/a.mp3',
    () => 'file:///etc/passwd',
    (at_: number) => `ftp://127.0.0.1:${at_}/a.mp3`,
    () => `data:audio/mpeg;base64,${SECRET.subarray(0, 900).toString('base64')}`,
    () => 'gopher://127.0.0.1:6379/_FLUSHALL',
    () => 'http://',
    () => 'not a url',
  ])('is refused without a connection: %s', async (urlOf) => {
    await refused({ url: urlOf(port) })
    expect(hits).toBe(0)
  })

  it('is fetched when the person allowed it where the server is started: the count can fail', async () => {
    const allowing = bench.start({ args: ['--allow-private-addresses'] })
    await allowing.initialize()
    await allowing.call('transcribe', { url: `http://127.0.0.1:${port}/a.mp3` })
    expect(hits).toBe(1)
  })
})
