import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdir, readdir, readFile, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { parseDeploymentsFile } from '#shared/catalog/deployments-file.ts'
import { readMargins } from '#shared/ledger/reports/margin.ts'
import { withConnection } from '#shared/ledger/with-connection.ts'
import { type CommandBench, makeCommandBench } from '../../support/client/command-bench.ts'
import { startPocketsphinxServer } from '../../support/engines/pocketsphinx-server.ts'
import { startSpeechServer } from '../../support/engines/speech-server.ts'
import { createServerWallet, startLocalServer } from '../../support/mcp/local-server.ts'
import { createX402McpClient } from '../../support/mcp/x402-mcp-client.ts'
import { speakInto } from '../../support/media/spoken.ts'
import { payForCall } from '../../support/payer/paid-call.ts'
import { havePrograms } from '../../support/processes/optional-program.ts'
import { startTestSandbox, type TestSandbox } from '../../support/processes/test-sandbox.ts'

const MODEL = 'speechvendor/scribe-v2'
const SPEECH = 'speechvendor/flash-v2.5'
const EXAMPLE = new URL('../../../infra/deployments.local.example.json', import.meta.url)
const SENTENCES = [
  'Good morning everyone.',
  'The weather is fine today.',
  'Please close the door.',
  'I will see you tomorrow.',
  'Where is the station.',
  'This is my house.',
  'We are going home.',
  'Thank you very much.',
  'What time is it now.',
  'He is a good man.',
] as const
const GOES_WITHOUT = `${MODEL} gives no speakers and no sounds at present: the transcripts go without.`

const wordsOf = (text: string) => text.toLowerCase().match(/[a-z]+/g) ?? []

/** Returns how many words of a sentence are among those that were heard. */
function heardOf(sentence: string, transcript: string): number {
  const heard = new Set(wordsOf(transcript))
  return wordsOf(sentence).filter((word) => heard.has(word)).length
}

describe.skipIf(!havePrograms('ffmpeg', 'pocketsphinx_continuous'))('an engine of one’s own that really hears', () => {
  let engine: Awaited<ReturnType<typeof startPocketsphinxServer>>
  let voice: Awaited<ReturnType<typeof startSpeechServer>>
  let sandbox: TestSandbox
  let bench: CommandBench
  beforeAll(async () => {
    // As whisper.cpp's server answers: at its path, with words inside segments.
    engine = await startPocketsphinxServer({ path: '/inference', shape: 'words-in-segments' })
    voice = await startSpeechServer()
    const example = parseDeploymentsFile(await readFile(EXAMPLE, 'utf8'))
    const own = (name: string, base_url: string) =>
      example.deployments.filter((entry) => entry.name === name).map((entry) => ({ ...entry, base_url }))
    sandbox = await startTestSandbox({
      deployments: ({ deployments }) => ({
        deployments: [
          ...deployments.filter(({ serves }) => !serves.includes(MODEL) && !serves.includes(SPEECH)),
          ...own('whisper-cpp', engine.url),
          ...own('kokoro-fastapi', `${voice.url}/v1`),
        ],
      }),
    })
  })
  beforeEach(async () => {
    bench = await makeCommandBench(sandbox)
    await mkdir(bench.folder, { recursive: true })
  })
  afterEach(() => bench.remove())
  afterAll(async () => {
    await sandbox.stop()
    await Promise.all([engine.stop(), voice.stop()])
  })

  it('transcribes ten files of ten with farebox transcribe, which says once what they go without', async () => {
    const names = SENTENCES.map((_, index) => `${index}.mp3`)
    for (const [index, sentence] of SENTENCES.entries())
      await speakInto(join(bench.folder, `${index}.mp3`), sentence, index % 2 === 0 ? 'slt' : 'rms')
    const calls = engine.calls.length
    const { code, err } = await bench.run(['transcribe', '.', '--yes', '--format', 'srt,txt'])
    expect({ code, err }).toMatchObject({
      code: 0,
      err: expect.stringContaining('10 recordings transcribed') as string,
    })
    expect(err.split(GOES_WITHOUT)).toHaveLength(2)
    expect(err).not.toContain('speakers were asked for')
    expect(engine.calls.length - calls).toBe(10)
    expect(engine.calls.at(-1)?.fields).toMatchObject({ response_format: 'verbose_json', language: 'auto' })
    const written = await readdir(bench.folder)
    expect(written.toSorted()).toEqual(
      names.flatMap((name) => [name, name.replace('mp3', 'srt'), name.replace('mp3', 'txt')]).toSorted(),
    )
    let [said, heard] = [0, 0]
    for (const [index, sentence] of SENTENCES.entries()) {
      const srt = await readFile(join(bench.folder, `${index}.srt`), 'utf8')
      expect(srt).toMatch(/^1\n00:00:0\d,\d{3} --> 00:00:0\d,\d{3}\n\w/)
      said += wordsOf(sentence).length
      heard += heardOf(sentence, await readFile(join(bench.folder, `${index}.txt`), 'utf8'))
    }
    console.info(`pocketsphinx heard ${heard} of ${said} words`)
    expect(heard / said).toBeGreaterThan(0.7)

    const again = await bench.run(['transcribe', '.', '--yes', '--format', 'srt,txt'])
    expect(again).toMatchObject({ code: 0, err: expect.stringContaining('Nothing to transcribe') as string })
    expect(engine.calls.length - calls).toBe(10)
  })

  it.each(['--require-speakers', '--num-speakers=2', '--speakers=dash', '--speakers=label'])(
    'gets nothing with %s, before anything is sent or paid: there are no speakers',
    async (demand) => {
      await bench.record('a.mp3')
      const calls = engine.calls.length
      const before = await sandbox.chain.usdcBalance(sandbox.payer.address)
      const ended = await bench.run(['transcribe', '.', '--yes', demand])
      expect(await sandbox.chain.usdcBalance(sandbox.payer.address)).toBe(before)
      expect(ended).toMatchObject({ code: 2, out: '' })
      expect(ended.err).toContain(`${MODEL} gives no speakers at present. Nothing was sent.`)
      expect(engine.calls).toHaveLength(calls)
    },
  )

  it('tells an agent what its transcript goes without, and gives it nothing that it demands in vain', async () => {
    const wallet = await createServerWallet(sandbox)
    const folder = await realpath(bench.folder)
    await speakInto(join(folder, 'a.mp3'), 'Good morning everyone.', 'rms')
    const server = await startLocalServer(wallet, { args: [folder] })
    try {
      const done = await server.call('transcribe', { path: join(folder, 'a.mp3') })
      expect(done.structuredContent).toMatchObject({ transcribed: 1, without: ['speakers', 'sounds'] })
      expect(JSON.stringify(done.content)).toContain('without speakers and sounds, which the model does not give')
      const refused = await server.call('transcribe', { path: join(folder, 'a.mp3'), diarize: true })
      expect(refused).toMatchObject({ isError: true, structuredContent: { error: { code: 'not_offered' } } })
    } finally {
      await server.close()
      await wallet.remove()
    }
  })

  it('is described by the lists of models and prices', async () => {
    const options = {
      diarize: [false],
      tag_audio_events: [false],
      timestamps: ['none', 'word'],
      response_format: ['json', 'verbose_json'],
    }
    for (const path of ['/v1/models', '/v1/pricing']) {
      const { data } = (await (await fetch(`${sandbox.info.baseUrl}${path}`)).json()) as { data: object[] }
      const found = data.filter((entry) => 'supported_options' in entry)
      expect(found).toEqual([expect.objectContaining({ supported_options: options })])
    }
  })

  const audio = () => sandbox.sample.toString('base64')
  const json = (path: string, body: object) =>
    fetch(`${sandbox.info.baseUrl}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-idempotency-key': randomUUID() },
      body: JSON.stringify(body),
    })
  const form = async (path: string, fields: Record<string, string>) => {
    const body = new FormData()
    for (const [name, value] of Object.entries(fields)) body.set(name, value)
    body.set('file', new Blob([sandbox.sample]), 'a.mp3')
    return await fetch(`${sandbox.info.baseUrl}${path}`, {
      method: 'POST',
      headers: { 'x-idempotency-key': randomUUID() },
      body,
    })
  }

  describe('asked for what it cannot give', () => {
    const operation = 'createTranscription'
    const path = '/v1/audio/transcriptions'
    type Fields = Readonly<Record<string, boolean | string | number>>
    const asText = (fields: Fields) =>
      Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, `${value}`]))
    const WAYS: Readonly<Record<string, (fields: Fields) => Promise<Response>>> = {
      JSON: (fields) => json(path, { model: MODEL, audio_base64: audio(), ...fields }),
      'a form': (fields) => form(path, { model: MODEL, ...asText(fields) }),
      'a quote in JSON': (fields) =>
        json('/v1/quotes', { operation, request: { model: MODEL, audio_base64: audio(), ...fields } }),
      'a quote of a described recording': (fields) =>
        json('/v1/quotes', {
          operation,
          request: { model: MODEL, audio: { sha256: 'a'.repeat(64), bytes: 9000, duration_ms: 2000 }, ...fields },
        }),
      'a quote of a form': (fields) => form('/v1/quotes', { operation, model: MODEL, ...asText(fields) }),
    }
    const DEMANDS: readonly (readonly [string, Fields])[] = [
      ['diarize', { diarize: true }],
      ['diarize', { diarize: true, num_speakers: 2 }],
      ['tag_audio_events', { tag_audio_events: true }],
      ['timestamps', { timestamps: 'character' }],
    ]

    it.each(Object.keys(WAYS))('refuses it before the price, and never a default: %s', async (way) => {
      for (const [param, fields] of DEMANDS) {
        const answer = await WAYS[way]?.(fields)
        expect(answer?.status).toBe(400)
        expect(answer?.headers.get('payment-required')).toBeNull()
        expect(await answer?.json()).toMatchObject({
          error: {
            code: 'request_unsupported',
            param,
            payment: 'none',
            message: expect.stringContaining(MODEL) as string,
          },
        })
      }
      for (const fields of [
        {},
        { diarize: false, tag_audio_events: false, timestamps: 'none' },
        { num_speakers: 2 },
        { timestamps: 'word' },
      ])
        expect([200, 402]).toContain((await WAYS[way]?.(fields))?.status)
    })

    it('refuses it over the hosted MCP, too', async () => {
      const { baseUrl, payer, rpcUrl, network } = sandbox.info
      const caller = createX402McpClient({ url: `${baseUrl}/mcp`, privateKey: payer.privateKey, rpcUrl, network })
      const request = { model: MODEL, audio_base64: audio() }
      for (const [param, fields] of DEMANDS)
        for (const [tool, args] of [
          ['transcribe', { ...request, ...fields }],
          ['quote', { tool: 'transcribe', arguments: { ...request, ...fields } }],
        ] as const)
          expect(await caller.call(tool, args)).toMatchObject({
            isError: true,
            structuredContent: { error: { code: 'request_unsupported', param } },
          })
      expect(await caller.call('transcribe', request)).toMatchObject({ structuredContent: { x402Version: 2 } })
    })
  })

  it('sells the WAV of an engine as an MP3, in the voice that the example maps', async () => {
    const sine = ['-f', 'lavfi', '-i', 'sine=duration=2:sample_rate=24000', '-f', 'wav', 'pipe:1']
    voice.answer(execFileSync('ffmpeg', ['-v', 'error', ...sine]))
    const { bytes } = await payForCall(sandbox, '/v1/audio/speech', {
      model: SPEECH,
      input: 'Mind the step.',
      voice: 'bella',
    })
    const [spoken] = (
      JSON.parse(bytes.toString()) as { data: { url: string; format: string; duration_ms: number; bytes: number }[] }
    ).data
    expect(spoken).toMatchObject({ format: 'mp3' })
    expect(spoken?.duration_ms).toBeGreaterThanOrEqual(2000)
    expect(spoken?.duration_ms).toBeLessThan(2120)
    expect((await (await fetch(spoken?.url ?? '')).arrayBuffer()).byteLength).toBe(spoken?.bytes)
    expect(voice.requests.at(-1)).toMatchObject({ model: 'kokoro', voice: 'af_bella', input: 'Mind the step.' })
  })

  it('earns what the example says: a paid call with a receipt that verifies, its vendor cost and its margin', async () => {
    const from = new Date().toISOString()
    const recording = join(bench.folder, 'a.mp3')
    await speakInto(recording, 'Good morning everyone. The weather is fine today.', 'rms')
    const { code, err } = await bench.run(['transcribe', '.', '--yes', '--receipts', '--format', 'txt'])
    expect({ code, err }).toMatchObject({ code: 0 })
    const receipt = join(bench.folder, 'a.receipt.json')
    const verified = await bench.run(['verify', receipt, '--rpc-url', sandbox.info.rpcUrl])
    expect(verified).toMatchObject({ code: 0 })
    const [row] = await sandbox.sql<{ charge: string; cost: string; audio_ms: string; deployment: string }>(
      `SELECT charge_amount AS charge, vendor_cost AS cost, upstream_attempts.usage->>'input_audio_ms' AS audio_ms, deployment
       FROM jobs JOIN upstream_attempts ON job_id = jobs.id ORDER BY started_at DESC LIMIT 1`,
    )
    // 0.026215 USD an hour of audio, rounded up to a millionth.
    expect(row?.deployment).toBe('whisper-cpp')
    expect(Number(row?.cost)).toBe(Math.ceil((Number(row?.audio_ms) * 26_215) / 3_600_000))
    expect(row?.charge).toBe('5034')
    const margins = await withConnection(
      { connectionString: sandbox.info.databaseUrl, applicationName: 'test' },
      async (pool) => await readMargins(pool, { from, to: new Date(Date.now() + 60_000).toISOString() }),
    )
    const earned = margins.ofModels.find(({ model }) => model === MODEL)
    expect(earned).toMatchObject({ deployment: 'whisper-cpp', calls: 1, withoutVendorCost: 0, withoutGas: 0 })
    expect(earned?.chargedAtomic).toBe(5034n)
    expect(earned?.vendorAtomic).toBe(BigInt(row?.cost ?? 0))
    expect(earned?.marginAtomic).toBe(5034n - BigInt(row?.cost ?? 0) - (earned?.gasAtomic ?? 0n))
    console.info(`charged 5034, the engine ${row?.cost}, gas ${earned?.gasAtomic}: earned ${earned?.marginAtomic}`)
  })
})
