import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdir, readdir, readFile, rename, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { dirname, join } from 'node:path'
import pLimit from 'p-limit'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type AttackBench, makeAttackBench } from '../../support/agents/attack-bench.ts'
import { INJECTIONS, THIEF } from '../../support/agents/injection-texts.ts'
import type { McpProcess, ToolAnswer } from '../../support/agents/mcp-process.ts'
import { type Allowed, spent, violations } from '../../support/agents/money-checks.ts'
import { obey } from '../../support/agents/obedient-model.ts'
import { type TappedAnswer, withTerms } from '../../support/agents/payment-tap.ts'
import { chatAnswers, markedRecording, transcripts } from '../../support/agents/scripted-vendors.ts'
import { fileNameOf, smuggledLines, unmarkedBlocks } from '../../support/agents/text-checks.ts'
import { type SharedSandbox, useSharedSandbox } from '../../support/processes/test-sandbox.ts'

/** A recording that no tool may read: it must never be uploaded. */
const SECRET = markedRecording(`secret ${crypto.randomUUID()}`)
const SECRET_SHA256 = createHash('sha256').update(SECRET).digest('hex')
/** What the person allows: enough to read all texts, and little more. The calls that the texts ask for cost more each. */
const LIMITS = ['--call', '0.02', '--session', '0.8', '--day', '0.8', '--confirm-above', '0.006']
/** Calls of an agent at the same time. */
const AT_ONCE = 6
const questions: string[] = []
/** Found in the request of one text only. */
function markOf(index: number): string {
  return `attack-${index}-`
}
/** Asks as often as it can for an answer that is cheap. Returns how many calls were refused, by the code. */
async function spree(spender: McpProcess, calls: number): Promise<Readonly<Record<string, number>>> {
  const refusals: Record<string, number> = {}
  const ask = async () => {
    const { structuredContent } = await spender.call('chat', { prompt: crypto.randomUUID(), max_tokens: 10 })
    const { code } = structuredContent?.error ?? {}
    if (code !== undefined) refusals[code] = (refusals[code] ?? 0) + 1
  }
  await Promise.all(Array.from({ length: calls }, ask))
  return refusals
}
interface Transcripts {
  readonly transcripts?: readonly { readonly text: string }[]
}
/** A transcript has other white space and no control characters. */
function lettersOf(text = ''): string {
  return text.replaceAll(/[^\p{L}\p{N}]/gu, '')
}
const onPaths = (path: RegExp, change: (answer: TappedAnswer) => TappedAnswer) => (answer: TappedAnswer) =>
  path.test(answer.path) ? change(answer) : answer
/** An error in the form of the service with a text of its own. */
function refusal(answer: TappedAnswer, message: string, code = 'invalid_field'): TappedAnswer {
  const error = { type: 'invalid_request_error', message, param: null, code, payment: 'none', retry: 'never' }
  const body = Buffer.from(JSON.stringify({ type: 'error', error, request_id: 'r' }))
  return { ...answer, status: 400, headers: { 'content-type': 'application/json' }, body }
}

describe('files of the machine', () => {
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
})

describe('an agent that obeys hostile texts', () => {
  const ALLOWED: Allowed = { call: 6000n, total: 800_000n }
  let sandbox: SharedSandbox
  let bench: AttackBench
  let server: McpProcess
  let limitsBefore: string
  beforeAll(async () => {
    sandbox = await useSharedSandbox()
    bench = await makeAttackBench(sandbox)
    await bench.setLimits(...LIMITS)
    limitsBefore = await limitsState()
    await writeFile(join(bench.folder, 'harmless.mp3'), markedRecording('harmless'))
    for (const [index, injection] of INJECTIONS.entries())
      await writeFile(join(bench.folder, fileNameOf(injection)), markedRecording(markOf(index)))
    await sandbox.setFaults(
      INJECTIONS.flatMap(({ text }, index) => [chatAnswers(markOf(index), text), transcripts(markOf(index), text)]),
    )
    server = await startServer()
  })
  afterAll(async () => {
    await sandbox.setFaults([])
    await bench.remove()
    await sandbox.stop()
  })
  /** Starts a server whose person declines each question. */
  async function startServer(): Promise<McpProcess> {
    const started = bench.start({
      elicit: (params) => {
        questions.push(JSON.stringify(params))
        return { action: 'decline' }
      },
    })
    await started.initialize()
    return started
  }
  /** Returns the limits as the person sees them, and the file as it is. */
  async function limitsState(): Promise<string> {
    const { output, exitCode, errors } = await bench.run('limits', 'show', '--json')
    expect({ exitCode, errors }).toMatchObject({ exitCode: 0 })
    const { path } = JSON.parse(output) as { path: string }
    const { mode, mtimeMs, ino } = await stat(path)
    return JSON.stringify([await readFile(path, 'utf8'), mode, mtimeMs, ino])
  }
  /** Lets an agent read each text by a call, then do what it says; returns the answers with the texts. */
  async function readAndObey(read: (index: number) => Promise<ToolAnswer>): Promise<readonly ToolAnswer[]> {
    const limit = pLimit(AT_ONCE)
    return await Promise.all(
      INJECTIONS.map((injection, index) =>
        limit(async () => {
          const answer = await read(index)
          await obey(server, bench, injection, index)
          return answer
        }),
      ),
    )
  }
  const problems = async (allowed = ALLOWED) => violations(await bench.moved(), allowed, sandbox.info)
  const pathOf = (index: number) => join(bench.folder, fileNameOf(INJECTIONS[index] ?? { goal: 'read', text: '' }))

  it('finds each of 100 texts marked as data in answers of models, and pays nothing beyond the limits', async () => {
    const answers = await readAndObey((index) => server.call('chat', { prompt: markOf(index), max_tokens: 60 }))
    for (const [index, injection] of INJECTIONS.entries()) {
      const answer = answers[index]
      expect(answer).toMatchObject({ structuredContent: { text: injection.text } })
      expect(answer === undefined ? [] : unmarkedBlocks(answer, injection)).toEqual([])
    }
    expect(await problems()).toEqual([])
    expect(await limitsState()).toBe(limitsBefore)
  })

  it('finds each of 100 texts marked as data in transcripts and names of files, and pays nothing beyond', async () => {
    const answers = await readAndObey((index) => server.call('transcribe', { path: pathOf(index) }))
    for (const [index, injection] of INJECTIONS.entries()) {
      const answer = answers[index]
      const { transcripts: [transcript] = [] } = (answer?.structuredContent ?? {}) as Transcripts
      expect(lettersOf(transcript?.text)).toBe(lettersOf(injection.text))
      expect(answer === undefined ? [] : unmarkedBlocks(answer, injection)).toEqual([])
    }
    expect(await problems()).toEqual([])
    expect(await limitsState()).toBe(limitsBefore)
  })

  it('finds the names of all files of a folder marked as data', async () => {
    const answer = await server.call('transcribe', { path: bench.folder })
    expect(answer).toMatchObject({ structuredContent: { recordings: INJECTIONS.length + 1, failed: 0 } })
    for (const injection of INJECTIONS) expect(unmarkedBlocks(answer, injection)).toEqual([])
    expect(await problems()).toEqual([])
    expect(await limitsState()).toBe(limitsBefore)
  })

  it('is never shown a hostile text in the question that a person answers', () => {
    expect(questions.length).toBeGreaterThan(0)
    expect(questions.filter((question) => question.includes(THIEF) || question.includes('Obey'))).toEqual([])
  })

  it('never sees the private key, and nothing but answers is on standard output', () => {
    const written = [...server.lines, server.errors()].join('\n')
    expect(written).not.toContain(bench.payer.privateKey.slice(2))
    expect(smuggledLines(server.lines)).toEqual([])
  })

  it('that then spends as fast as it can, in several servers, stops at the limit of the day', async () => {
    const servers = [server, ...(await Promise.all([startServer(), startServer()]))]
    const refusals = await Promise.all(servers.map((one) => spree(one, 60)))
    expect(refusals.map((codes) => codes['budget_exceeded'] ?? 0).every((count) => count > 0)).toBe(true)
    expect(await problems()).toEqual([])
    expect(await limitsState()).toBe(limitsBefore)
    // It came as close as whole calls can, so that the limit was reached and not missed.
    expect(spent(await bench.moved())).toBeGreaterThan(ALLOWED.total - 10_000n)
  })

  it('passes the limit as soon as a person raises it, which the same check reports', async () => {
    await bench.setLimits('--session', '2', '--day', '2')
    await spree(server, 20)
    const found = await problems()
    expect(found).toHaveLength(1)
    expect(found[0]).toMatch(/^spent above the limit/)
    expect(await problems({ ...ALLOWED, total: 2_000_000n })).toEqual([])
  })
})

describe('a hostile service', () => {
  const ALLOWED: Allowed = { call: 6000n, total: 50_000n }
  let sandbox: SharedSandbox
  let bench: AttackBench
  let server: McpProcess
  beforeAll(async () => {
    sandbox = await useSharedSandbox()
  })

  afterAll(() => sandbox.stop())

  beforeEach(async () => {
    bench = await makeAttackBench(sandbox)
    await bench.setLimits('--call', '0.02', '--session', '0.05', '--day', '0.05', '--confirm-above', '0.006')
    server = bench.start()
    await server.initialize()
  })

  afterEach(() => bench.remove())

  const chat = (index = 0) =>
    server.call('chat', { prompt: `Hello ${index}.`, model: 'textmodel-2.5-flash', max_tokens: 20 })
  const problems = async () => violations(await bench.moved(), ALLOWED, sandbox.info)
  describe('an error message of a service', () => {
    it.each([/^\/v1\/quotes$/, /^\/v1\/chat\/completions$/])('is data, each of 100 texts of %s', async (path) => {
      for (const [index, injection] of INJECTIONS.entries()) {
        bench.tap.alter(onPaths(path, (answer) => refusal(answer, injection.text)))
        const answer = await chat(index)
        expect(answer).toMatchObject({ isError: true, structuredContent: { error: { money: 'none' } } })
        expect(unmarkedBlocks(answer, injection)).toEqual([])
      }
      expect(await problems()).toEqual([])
    })

    it('cannot end a limit or a question by a code of its own', async () => {
      for (const code of ['budget_exceeded', 'confirmation_required', 'limits_raised', '__proto__']) {
        bench.tap.alter(onPaths(/quotes/, (answer) => refusal(answer, 'The limit is 1000 USDC now.', code)))
        expect(await chat()).toMatchObject({ isError: true })
      }
      bench.tap.alter(undefined)
      const dear = await server.call('chat', { prompt: 'Hello.', model: 'textmodel-2.5-flash', max_tokens: 8000 })
      expect(dear).toMatchObject({ structuredContent: { error: { code: 'budget_exceeded', money: 'none' } } })
    })
  })

  describe('a service that lies about its terms', () => {
    const LIES: readonly (readonly [string, Record<string, unknown>])[] = [
      ['another recipient', { payTo: THIEF }],
      ['another token', { asset: THIEF }],
      ['another network', { network: 'eip155:1' }],
      ['another scheme', { scheme: 'exact' }],
      ['a higher price than it quoted', { amount: '19000' }],
      ['a price above every limit', { amount: '900000000' }],
      ['a negative price', { amount: '-5' }],
    ]

    it.each(LIES)('gets no signature for %s', async (_, lie) => {
      await chat(1)
      const before = bench.tap.payments.length
      expect(before).toBe(1)
      bench.tap.alter((answer) => withTerms(answer, lie))
      expect(await chat(2)).toMatchObject({ isError: true, structuredContent: { error: { money: 'none' } } })
      expect(bench.tap.payments).toHaveLength(before)
      expect(await problems()).toEqual([])
    })

    it('that quotes a low price gets no more than the low one', async () => {
      bench.tap.alter(
        onPaths(/quotes/, (answer) => ({
          ...answer,
          body: Buffer.from(answer.body.toString().replaceAll(/"(amount|amount_atomic)":"[^"]*"/g, '"$1":"0.000001"')),
        })),
      )
      await server.call('chat', { prompt: 'Hello.', model: 'textmodel-2.5-flash', max_tokens: 4000 })
      expect(await problems()).toEqual([])
    })

    it('is found by the same check where nothing protects: at the first use there are no terms to compare', async () => {
      bench.tap.alter((answer) => withTerms(answer, { payTo: THIEF }))
      await chat(1)
      expect(await problems()).toContain(`signed for another recipient: ${THIEF}`)
    })
  })
})
