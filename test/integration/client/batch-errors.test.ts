import { once } from 'node:events'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { generatePrivateKey } from 'viem/accounts'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { findRecordings } from '../../../client/batch/find/find-recordings.ts'
import { planBatch } from '../../../client/batch/plan/plan-batch.ts'
import { runBatch } from '../../../client/batch/run/run-batch.ts'
import type { BatchOptions } from '../../../client/batch/types.ts'
import { type Farebox, FareboxError, formatUsdc, walletFromPrivateKey } from '../../../client/farebox.ts'
import { CHAT, openClient } from '../../support/client/open-client.ts'
import {
  CHAT_RESULT,
  challenge,
  charged,
  cut,
  foreign,
  json,
  MAXIMUM,
  type ScriptedServer,
  type Step,
  serviceError,
  startScriptedServer,
} from '../../support/client/scripted-server.ts'
import { generateFrames, generateMp3 } from '../../support/media/mp3-generator.ts'

const WORDS = [{ word: 'Hello', start: 0.1, end: 0.5, type: 'word' }]
const TRANSCRIPT = { id: 't', model: 'm', text: 'Hello', language: 'en', words: WORDS }
const optionsFor = (changes: Partial<BatchOptions> = {}): BatchOptions => ({
  request: {},
  formats: ['srt'],
  output: {},
  subtitles: {},
  receipts: false,
  concurrency: 1,
  pack: false,
  again: false,
  patienceMs: 0,
  ...changes,
})
const PRICING = {
  model: 'speechvendor/scribe-v2',
  price_per_audio_hour_usd: '0.122',
  minimum_charge_usd: '0.005034',
  maximum_charge_usd: '0.122',
  maximum_audio_duration_ms: '3600000',
  maximum_audio_bytes: 26_214_400,
}
const listOf = (changes: object) => JSON.stringify({ data: [{ ...PRICING, ...changes }] })
const PAGE = '<html><head><title>Bad gateway</title></head><body>nginx</body></html>'
const LIMIT = 1_000_000n
const RESULT = JSON.stringify(CHAT_RESULT)
/** What something between client and service may answer in place of it, and the code of the error. */
const FOREIGN: readonly (readonly [name: string, answer: Step, code: string])[] = [
  ['an HTML 502', foreign(502, PAGE), 'http_502'],
  ['an HTML 504', foreign(504, PAGE), 'http_504'],
  ['an HTML 403', foreign(403, PAGE), 'http_403'],
  ['an HTML 413', foreign(413, PAGE), 'http_413'],
  ['a 402 without a challenge', foreign(402, PAGE), 'http_402'],
  ['a 503 with half of a JSON object', foreign(503, '{"type":"error","error":{"code":"over'), 'http_503'],
  ['a redirect', foreign(302, '', { location: 'https://elsewhere.example/v1/chat/completions' }), 'http_302'],
  ['a permanent redirect', foreign(308, '', { location: 'https://elsewhere.example/' }), 'http_308'],
  ['a login page with status 200', foreign(200, PAGE), 'not_the_service'],
  ['an empty 200', foreign(200, ''), 'not_the_service'],
  ['a 204', foreign(204, ''), 'not_the_service'],
  ['an error page of 40 MB', foreign(500, Buffer.alloc(40_000_000, '<')), 'http_500'],
]
async function listen(answer: (response: ServerResponse) => void): Promise<Server> {
  const elsewhere = createServer((_request, response) => answer(response))
  elsewhere.listen(0, '127.0.0.1')
  await once(elsewhere, 'listening')
  return elsewhere
}

describe('errors of a batch', () => {
  let root: string
  let server: ScriptedServer
  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), 'farebox-bad-batch-'))
    server = await startScriptedServer()
  })

  afterEach(async () => {
    await server.stop()
    await rm(root, { recursive: true, force: true })
  })

  /** Answers each request for a price with a challenge, and each payment with `paid`. */
  const serve = (paid: Step, asked: Step = challenge()) =>
    server.always((received, reply) => (received.payment === undefined ? asked : paid)(received, reply))
  function write(name: string, seed = name, durationMs = 1000): string {
    const path = join(root, name)
    mkdirSync(join(path, '..'), { recursive: true })
    writeFileSync(path, generateMp3({ durationMs, seed }))
    return path
  }
  async function run(paths: readonly string[], changes: Partial<BatchOptions> = {}, client?: Farebox) {
    const farebox = client ?? (await openClient(server, { budget: { session: '1' } }))
    const options = optionsFor(changes)
    const plan = await planBatch(farebox, await findRecordings(paths), options)
    const warnings: string[] = []
    const outcome = await runBatch(farebox, plan, options, (event) => {
      if (event.event === 'warning') warnings.push(event.code)
    })
    const [failure] = outcome.failures
    return { outcome, error: failure?.error, warnings, left: farebox.budgetLeft().session, farebox }
  }
  const payments = () => server.received.flatMap(({ payment }) => payment ?? [])
  describe('a service that answers a plan', () => {
    it.each([
      ['no JSON', '<html></html>'],
      ['no list', '{}'],
      ['a list of nothing', '{"data":[null,5,"x"]}'],
      ['a negative price', listOf({ price_per_audio_hour_usd: '-1' })],
      ['a price that is no number', listOf({ price_per_audio_hour_usd: 'NaN' })],
      ['a price with an exponent', listOf({ price_per_audio_hour_usd: '1e-9' })],
      ['a missing minimum', listOf({ minimum_charge_usd: undefined })],
      ['a limit of no bytes', listOf({ maximum_audio_bytes: 0 })],
      ['a limit that is no number', listOf({ maximum_audio_duration_ms: 'x' })],
      ['a least length that is no number', listOf({ minimum_audio_duration_ms: 'x' })],
      ['a negative limit', listOf({ maximum_audio_duration_ms: '-5' })],
      ['a duration with a fraction of nothing', listOf({ maximum_audio_duration_ms: '' })],
    ])('with %s is refused with a message', async (_, pricing) => {
      const dishonest = await startScriptedServer({ free: { '/v1/pricing': json(pricing) } })
      const client = await openClient(dishonest)
      const sources = await findRecordings([write('a.mp3')])
      const error: unknown = await planBatch(client, sources, optionsFor()).catch((thrown: unknown) => thrown)
      await dishonest.stop()
      expect(error).toBeInstanceOf(FareboxError)
      expect(error).toMatchObject({ money: 'none' })
    })
  })

  it.each([
    { patienceMs: 0, ended: 'rejected', asked: 1, said: [] },
    { patienceMs: 60_000, ended: 'planned', asked: 4, said: ['service_away'] },
  ])(
    'a plan waits $patienceMs ms for a service that is away, and says so once',
    async ({ patienceMs, ...expected }) => {
      let asked = 0
      const listed = json({ data: [PRICING] })
      const away = await startScriptedServer({
        free: {
          '/v1/pricing': (received, reply) => {
            asked += 1
            return (asked < 4 ? serviceError('database_unavailable') : listed)(received, reply)
          },
        },
      })
      const said: string[] = []
      const planning = planBatch(
        await openClient(away),
        await findRecordings([write('a.mp3')]),
        optionsFor({ patienceMs }),
        (event) => {
          if (event.event === 'warning') said.push(event.code)
        },
      )
      const ended = await planning.then(
        (plan) => plan.discard().then(() => 'planned'),
        () => 'rejected',
      )
      await away.stop()
      expect({ ended, asked, said }).toEqual(expected)
    },
  )

  it('a recording below the least length fails alone, before anything is sent', async () => {
    const pricing = listOf({ minimum_audio_duration_ms: '100' })
    const published = await startScriptedServer({ free: { '/v1/pricing': json(pricing) } })
    published.always((received, reply) =>
      (received.payment === undefined ? challenge() : charged({ result: TRANSCRIPT }))(received, reply),
    )
    writeFileSync(join(root, 'short.mp3'), generateFrames(3))
    writeFileSync(join(root, 'enough.mp3'), generateFrames(4))
    const farebox = await openClient(published, { budget: { session: '1' } })
    for (const changes of [{}, { pack: true }, { estimates: true }]) {
      const plan = await planBatch(farebox, await findRecordings([root]), optionsFor(changes))
      expect(plan.files.map(({ error, price }) => [error?.code, price])).toEqual([
        [undefined, MAXIMUM],
        ['audio_too_short', 0n],
      ])
      expect(plan.files[1]?.error?.message).toMatch(/short\.mp3: it lasts 79 ms.*less than 100 ms/)
      await plan.discard()
    }
    expect(published.received).toEqual([])
    const plan = await planBatch(farebox, await findRecordings([root]), optionsFor())
    expect(await runBatch(farebox, plan, optionsFor())).toMatchObject({
      finished: 1,
      failures: [{ error: { money: 'none' } }],
    })
    await published.stop()
  })

  it('a recording that an earlier run signed for is done although that payment uses up the budget of the day', async () => {
    const path = write('a.mp3')
    const wallet = walletFromPrivateKey(generatePrivateKey())
    const open = (day: bigint) =>
      openClient(server, { wallet, journal: join(root, 'home'), budget: { day: formatUsdc(day) } })
    serve(cut)
    const killed = await open(MAXIMUM)
    expect((await run([path], {}, killed)).outcome).toMatchObject({ finished: 0, openMaximum: MAXIMUM })
    await killed.close()
    serve(charged({ result: TRANSCRIPT }))
    const next = await open(MAXIMUM)
    expect((await run([write('b.mp3'), path], {}, next)).outcome).toMatchObject({ finished: 1, stoppedBy: 'budget' })
    expect([new Set(payments()).size, next.budgetLeft().day]).toEqual([1, 0n])
    await next.close()
  })

  describe('a service that asks a batch for more', () => {
    it('a challenge above the planned price is refused for its file, with both amounts', async () => {
      serve(charged({ result: TRANSCRIPT }), challenge({ amount: MAXIMUM + 1n }))
      const { error, left } = await run([write('a.mp3')])
      expect(error).toMatchObject({ code: 'challenge_refused', money: 'none' })
      expect(error?.message).toMatch(/maximum is 0\.005035 USDC instead of 0\.005034 USDC/)
      expect([payments(), left]).toEqual([[], 1_000_000n])
    })

    it('another recipient ends the batch before anything is signed', async () => {
      serve(charged({ result: TRANSCRIPT }))
      const { farebox } = await run([write('a.mp3')])
      serve(
        charged({ result: TRANSCRIPT }),
        challenge({ terms: { payTo: '0x9999999999999999999999999999999999999999' } }),
      )
      const { outcome, error } = await run([write('b.mp3'), write('c.mp3')], {}, farebox)
      expect(outcome.stoppedBy).toBe('service')
      expect((error ?? outcome.stopError)?.message).toMatch(/payTo is 0x9999.* instead of 0x1111/)
      expect(payments()).toHaveLength(1)
    })
  })

  describe('a file that changes', () => {
    it('after it was priced, it is not sent and costs nothing', async () => {
      serve(charged({ result: TRANSCRIPT }))
      const path = write('a.mp3')
      const farebox = await openClient(server)
      const plan = await planBatch(farebox, await findRecordings([path]), optionsFor())
      write('a.mp3', 'another content')
      const { failures } = await runBatch(farebox, plan, optionsFor())
      expect(failures[0]?.error).toMatchObject({ code: 'file_changed', money: 'none' })
      expect(payments()).toEqual([])
    })

    it('between its price and its payment, nothing of it is sent, and the payment is let go', async () => {
      const path = write('a.mp3')
      serve(charged({ result: TRANSCRIPT }), (received, reply) => {
        write('a.mp3', 'another content')
        return challenge()(received, reply)
      })
      const { error, left } = await run([path])
      expect(error).toMatchObject({ code: 'file_changed', money: 'none' })
      expect([payments(), left]).toEqual([[], 1_000_000n])
    })

    it('after a payment whose answer was lost, the error says that it may be charged', async () => {
      const path = write('a.mp3')
      serve((received, reply) => {
        write('a.mp3', 'another content')
        return cut(received, reply)
      })
      const { error, left } = await run([path], { patienceMs: 60_000 })
      expect(error).toMatchObject({ code: 'file_changed', money: 'unknown' })
      expect([payments().length, left]).toEqual([1, 1_000_000n - MAXIMUM])
    })

    it('that is removed is reported, and the others go on', async () => {
      serve(charged({ result: TRANSCRIPT }))
      const paths = [write('a.mp3'), write('b.mp3')]
      const farebox = await openClient(server)
      const plan = await planBatch(farebox, await findRecordings(paths), optionsFor())
      await rm(paths[0] ?? '')
      const { failures, finished } = await runBatch(farebox, plan, optionsFor())
      expect(failures.map(({ error }) => [error.code, error.money])).toEqual([['file_changed', 'none']])
      expect(finished).toBe(1)
    })
  })

  describe('places where transcripts cannot be written', () => {
    it.each([
      ['a folder that is a file', () => write('file/x').replace(/x$/, 'x/below')],
      ['a read-only system folder', () => '/sys/farebox'],
    ])('%s is noticed before anything is paid', async (_, folder) => {
      serve(charged({ result: TRANSCRIPT }))
      const { error } = await run([write('a.mp3')], { output: { folder: folder() } })
      expect(error).toMatchObject({ code: 'output_unwritable', money: 'none' })
      expect(error?.message).toMatch(/cannot be written.*Nothing was charged\..*--out/)
      expect(payments()).toEqual([])
    })

    it('a transcript whose name is a folder is noticed before anything is paid', async () => {
      serve(charged({ result: TRANSCRIPT }))
      mkdirSync(join(root, 'a.srt'))
      const { error } = await run([write('a.mp3')])
      expect(error).toMatchObject({ code: 'output_unwritable', money: 'none' })
      expect(payments()).toEqual([])
    })

    it.each(['...mp3', '....mp3', '..mp3'])('the name %s leads to no other folder', async (name) => {
      serve(charged({ result: TRANSCRIPT }))
      const path = write(`in/deep/${name}`)
      const { outcome } = await run([path], { output: { folder: join(root, 'out/deep') } })
      const templated = await run([path], { output: { folder: join(root, 'out2/deep'), template: '{name}/text' } })
      expect([outcome.failures, templated.outcome.failures]).toEqual([[], []])
      expect(readdirSync(root).sort()).toEqual(['in', 'out', 'out2'])
      expect([readdirSync(join(root, 'out')), readdirSync(join(root, 'out2'))]).toEqual([['deep'], ['deep']])
    })
  })

  describe('an answer that is paid for and cannot be used', () => {
    it.each([
      ['no transcription', { result: { id: 'x' } }, {}],
      ['an array', { result: [] }, {}],
      ['no words for a pack', { result: { text: 'x' } }, { pack: true }],
    ])('%s: the error says that it is paid for, and how to have it again', async (_, settled, changes) => {
      serve(charged(settled), challenge())
      const { outcome, error } = await run([write('a.mp3', 'a', 2000), write('b.mp3', 'b', 2000)], changes)
      expect(outcome.finished).toBe(0)
      expect(error).toMatchObject({ money: 'settled' })
      expect(error?.message).toMatch(/is paid for\. .*again/)
      expect(outcome.charged).toBe(BigInt(payments().length) * MAXIMUM)
    })

    it('a receipt that cannot be fetched leaves the transcript, and the error says that it is paid for', async () => {
      serve(charged({ result: TRANSCRIPT }))
      const { outcome, error } = await run([write('a.mp3')], { receipts: true })
      expect(readFileSync(join(root, 'a.srt'), 'utf8')).toContain('Hello')
      expect(outcome.failed).toBe(1)
      expect(error).toMatchObject({ money: 'settled' })
    })

    it('a receipt that could not be checked is no failure, and no silence', async () => {
      const id = '00000000-0000-4000-8000-000000000001'
      const other = await startScriptedServer({ free: { [`/v1/receipts/${id}`]: foreign(403, PAGE) } })
      try {
        other.always((received, reply) =>
          (received.payment === undefined ? challenge() : charged({ result: { ...TRANSCRIPT, words: [] } }))(
            received,
            reply,
          ),
        )
        const client = await openClient(other, { verify: 'at_once' })
        const { outcome, warnings } = await run([write('a.mp3')], { formats: ['txt'] }, client)
        expect([outcome.finished, warnings]).toEqual([1, ['receipt_not_checked', 'no_word_times']])
      } finally {
        await other.stop()
      }
    })

    it('hostile words are written without what controls a terminal', async () => {
      const words = [{ word: '\u001b[2Jevil\u0007', start: 'NaN', end: null, speaker: 5 }, ...WORDS]
      serve(charged({ result: { ...TRANSCRIPT, text: '\u001b[2Jevil', words } }))
      const { outcome } = await run([write('a.mp3')], { formats: ['srt', 'txt', 'json', 'vtt', 'tsv'] })
      expect(outcome.failures).toEqual([])
      for (const ending of ['srt', 'txt', 'json', 'vtt', 'tsv']) {
        const text = readFileSync(join(root, `a.${ending}`), 'utf8')
        expect(text).toMatch(/evil/)
        expect(text).not.toMatch(/(?![\t\n])\p{Cc}|NaN|\\u001b/u)
      }
    })
  })

  describe('a service that fails in the middle of a batch', () => {
    it.each([
      ['an error page', foreign(502, '<html></html>'), 'unknown'],
      ['internal_error', serviceError('internal_error'), 'unknown'],
      ['result_expired', serviceError('result_expired'), 'settled'],
      ['idempotency_key_reused', serviceError('idempotency_key_reused'), 'none'],
    ] as const)(
      '%s: the file fails with what happened to the money, and a rerun pays once',
      async (_, answer, money) => {
        serve(answer)
        const path = write('a.mp3')
        const { error, farebox, left } = await run([path])
        expect(error).toMatchObject({ money })
        expect(left).toBe(money === 'none' ? 1_000_000n : 1_000_000n - MAXIMUM)
        serve(charged({ result: TRANSCRIPT }))
        const again = await run([path], {}, farebox)
        expect(again.outcome.finished).toBe(1)
        expect(new Set(server.received.map(({ key }) => key)).size).toBe(1)
        expect(again.left).toBe(1_000_000n - MAXIMUM)
        expect(new Set(payments()).size).toBe(money === 'none' ? 2 : 1)
      },
    )
  })
})

describe('answers of what is between client and service', () => {
  let server: ScriptedServer
  beforeAll(async () => {
    server = await startScriptedServer()
  })
  afterEach(() => server.always(foreign(500, 'unscripted')))
  afterAll(() => server.stop())
  async function callWith(patienceMs: number, ...steps: Step[]) {
    const client = await openClient(server, { budget: { session: '1' } })
    const from = server.received.length
    server.script(...steps)
    const outcome = await client.chat.create(CHAT, { patienceMs }).catch((error: unknown) => error)
    const requests = server.received.slice(from)
    return {
      outcome,
      error: outcome as FareboxError,
      left: client.budgetLeft().session,
      signed: requests.flatMap(({ payment }) => payment ?? []),
      requests,
    }
  }

  it.each(FOREIGN)(
    '%s before a payment: nothing is signed, and the advice names the cause',
    async (_, answer, code) => {
      const { error, signed, left } = await callWith(0, answer)
      expect(error).toMatchObject({ code, money: 'none' })
      expect(error.message).toMatch(/Nothing was charged\..*not from the service/)
      expect([signed, left]).toEqual([[], LIMIT])
    },
  )

  it.each(FOREIGN)('%s after a payment: the payment stays reserved', async (_, answer, code) => {
    const { error, signed, left } = await callWith(0, challenge(), answer)
    expect(error).toMatchObject({ code, money: 'unknown' })
    expect(error.message).toMatch(/not known yet.*not from the service.*same key.*at most once/)
    expect([signed.length, left]).toEqual([1, LIMIT - MAXIMUM])
  })

  it.each([
    ['502', foreign(502, PAGE)],
    ['504', foreign(504, PAGE)],
    ['a lost connection', cut],
    ['a login page', foreign(200, PAGE)],
    ['half a result', charged({ result: RESULT.slice(0, 20) })],
  ])('after %s the same payment is sent again', async (_, answer) => {
    const { outcome, signed, left } = await callWith(30_000, challenge(), answer, charged())
    expect(outcome).toMatchObject({ result: CHAT_RESULT, payment: { charged: '0.005034' } })
    expect([signed.length, new Set(signed).size, left]).toEqual([2, 1, LIMIT - MAXIMUM])
  })

  it('half of a result that was charged says that the call is paid for, and what to do', async () => {
    const { error, left } = await callWith(0, challenge(), charged({ result: RESULT.slice(0, 20) }))
    expect(error).toMatchObject({ code: 'answer_damaged', money: 'settled' })
    expect(error.message).toMatch(/is paid for.*same key/)
    expect(left).toBe(LIMIT - MAXIMUM)
  })

  it('a redirect never receives a payment', async () => {
    const seen: string[] = []
    const elsewhere = await listen((response) => {
      seen.push('request')
      response.end(RESULT)
    })
    const to = `http://127.0.0.1:${(elsewhere.address() as AddressInfo).port}/v1/chat/completions`
    for (const status of [301, 302, 303, 307, 308])
      await callWith(0, challenge(), foreign(status, '', { location: to }))
    expect(seen).toEqual([])
    elsewhere.close()
  })

  it('an answer that never ends is given up, and its payment stays reserved', async () => {
    const chunk = Buffer.alloc(1024 * 1024, ' ')
    let sent = 0
    const endless: Step = (_received, reply) => {
      reply.hijack()
      reply.raw.writeHead(200, { 'content-type': 'application/json' })
      const write = () => {
        while (!reply.raw.destroyed && reply.raw.write(chunk)) sent += chunk.length
      }
      reply.raw.on('drain', write)
      reply.raw.on('error', () => undefined)
      write()
    }
    const { error, signed, left } = await callWith(60_000, challenge(), endless)
    expect(error).toMatchObject({ code: 'answer_too_large', money: 'unknown' })
    expect([signed.length, left]).toEqual([1, LIMIT - MAXIMUM])
    expect(sent).toBeLessThan(300 * 1024 * 1024)
  })
})
