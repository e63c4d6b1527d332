import { createHash } from 'node:crypto'
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { copyFile, mkdir, mkdtemp, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { planBatch } from '../../../client/batch/plan/plan-batch.ts'
import type { BatchEvent, BatchOptions, BatchTotals } from '../../../client/batch/types.ts'
import { createFarebox, walletFromPrivateKey } from '../../../client/farebox.ts'
import { prepareTranscription } from '../../../client/payment/prepare-call.ts'
import { sendCall } from '../../../client/payment/send-call.ts'
import { waveOf } from '../../support/client/audio/bursts.ts'
import { type BatchFolder, makeBatchFolder, OPTIONS } from '../../support/client/batch-bench.ts'
import { startHttpFaultProxy } from '../../support/http/http-fault-proxy.ts'
import { generateMp3 } from '../../support/media/mp3-generator.ts'
import { recordingOf } from '../../support/media/recording.ts'
import { createPayer } from '../../support/payer/payer.ts'
import { havePrograms } from '../../support/processes/optional-program.ts'
import { runProgram } from '../../support/processes/run-program.ts'
import { type SharedSandbox, useSharedSandbox } from '../../support/processes/test-sandbox.ts'

const MINIMUM = 5034n
/** Returns the files in temporary folders that were prepared of a recording. */
async function preparedFrom(path: string): Promise<string[]> {
  const sha256 = createHash('sha256')
    .update(await readFile(path))
    .digest('hex')
  const folders = (await readdir(tmpdir())).filter((name) => name.startsWith('farebox-prepared-'))
  const files = await Promise.all(folders.map((folder) => readdir(join(tmpdir(), folder)).catch(() => [])))
  return files.flat().filter((name) => name.startsWith(sha256))
}
const NAMES = Array.from({ length: 8 }, (_, index) => `${index}.mp3`)
/** Returns a `fetch` whose first uploads are answered by something before the service. */
function withFirstUploads(count: number, answer: () => Response | Promise<Response>): typeof fetch {
  let left = count
  return async (input, init) => {
    const { pathname } = new URL(input instanceof Request ? input.url : String(input))
    if (pathname !== '/v1/audio/transcriptions' || left <= 0) return await fetch(input, init)
    left -= 1
    return await answer()
  }
}
const overloaded = () =>
  Response.json(
    { error: { code: 'overloaded', message: 'Busy.', payment: 'none', retry: 'same_request' } },
    { status: 503, headers: { 'retry-after': '1' } },
  )
/** What the service asks of the vendor for each recording of a batch. */
const ASKED = { model_id: 'scribe_v2', timestamps_granularity: 'word' }
/** A `fetch` through which no transcript names a speaker, as where another model answers. */
const withoutSpeakers: typeof fetch = async (input, init) => {
  const response = await fetch(input, init)
  const { pathname } = new URL(input instanceof Request ? input.url : String(input))
  if (pathname !== '/v1/audio/transcriptions' || !response.ok) return response
  const headers = new Headers(response.headers)
  headers.delete('content-length')
  return new Response((await response.text()).replaceAll(/,"speaker":"[^"]*"/g, ''), { headers })
}
/** A `fetch` of a service that stores no permit of a wallet which has too little. */
const withoutApprovals: typeof fetch = async (input, init) => {
  const response = await fetch(input, init)
  const { pathname } = new URL(input instanceof Request ? input.url : String(input))
  if (pathname !== '/v1/allowances' || !response.ok) return response
  const status = (await response.json()) as { readonly storing: object }
  const storing = { ...status.storing, available: false, reason: 'owner_balance_too_low', message: 'Later.' }
  return Response.json({ ...status, storing })
}
const warningsOf = (events: readonly BatchEvent[]) =>
  events.flatMap((event) => (event.event === 'warning' ? [event.code] : []))
const expired = () =>
  Response.json(
    { error: { code: 'result_expired', message: 'Gone.', payment: 'settled', retry: 'never' } },
    { status: 410 },
  )
const RECORDING_BYTES = 25 * 1024 * 1024
const UPLOADS = 8
const MINUTE_MS = 60_000
const PAYMENT = { header: 'signed', maximum: 1n, deadline: Number.POSITIVE_INFINITY }
/** Starts a server that reads each upload and then waits until it may answer, as for a transcription. */
async function startSlowServer() {
  const waiting: (() => void)[] = []
  const server = createServer((request, response) => {
    request.resume()
    request.on('end', () => waiting.push(() => response.end('{}')))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, waiting, server }
}

describe('a batch against the service', () => {
  let sandbox: SharedSandbox
  let batch: BatchFolder
  beforeAll(async () => {
    sandbox = await useSharedSandbox()
  })
  afterAll(async () => {
    await sandbox.stop()
  })
  beforeEach(async () => {
    batch = await makeBatchFolder(sandbox)
  })
  afterEach(async () => {
    await batch.remove()
  })

  it('transcribes what is in a folder, and is charged exactly what was planned', async () => {
    await batch.record(['a.mp3', 'b.mp3', 'deeper/c.mp3'])
    const { plan, outcome, events } = await batch.run({ formats: ['srt', 'json', 'txt'] })
    expect(plan.totals).toMatchObject({ toDo: 3, uploads: 3, price: 3n * MINIMUM, toCharge: 3n * MINIMUM })
    expect(outcome).toMatchObject({ finished: 3, failed: 0, notBegun: 0, charged: 3n * MINIMUM, interrupted: false })
    expect(await batch.paid()).toBe(3n * MINIMUM)
    // One signature for all of them, before the first payment.
    expect(events.filter(({ event }) => event === 'approved')).toHaveLength(1)
    expect(await readdir(join(batch.folder, 'deeper'))).toEqual(['c.json', 'c.mp3', 'c.srt', 'c.txt'])
    expect(await readFile(join(batch.folder, 'a.srt'), 'utf8')).toMatch(/^1\n00:00:0/)
    expect(JSON.parse(await readFile(join(batch.folder, 'a.json'), 'utf8'))).toMatchObject({ text: expect.any(String) })
  })

  it('sends files at the same time with a permit that they bring, where the service stores none of the wallet', async () => {
    await batch.record(NAMES)
    const payer = await createPayer(sandbox.info.rpcUrl)
    const wallet = walletFromPrivateKey(payer.privateKey)
    const { outcome, events } = await batch.run({}, { wallet, fetch: withoutApprovals })
    expect(outcome).toMatchObject({ finished: NAMES.length, failed: 0, charged: BigInt(NAMES.length) * MINIMUM })
    expect(warningsOf(events)).toEqual([])
    expect(events.filter(({ event }) => event === 'concurrency')).toEqual([])
    expect(await sandbox.sql('SELECT 1 FROM stored_permits WHERE owner = $1', [payer.address])).toEqual([])
    expect(await sandbox.chain.permit2Allowance(payer.address)).toBeGreaterThan(0n)
  })

  it('does nothing another time for what is finished: no request, no reading', async () => {
    const [first = ''] = await batch.record(['a.mp3', 'b.mp3'])
    const { size, atime, birthtime } = await stat(first)
    await utimes(first, atime, birthtime)
    await batch.run()
    // Only a reader would notice.
    await writeFile(first, new Uint8Array(size))
    await utimes(first, atime, birthtime)
    const { plan, outcome, requests } = await batch.run()
    expect(plan.totals).toMatchObject({ finished: 2, toDo: 0 })
    expect(outcome).toMatchObject({ skipped: 2, finished: 0, charged: 0n })
    expect(requests).toEqual([])
    expect(await batch.paid()).toBe(2n * MINIMUM)
  })

  it('pays nothing twice with the journal deleted, and with the transcripts deleted as well', async () => {
    await batch.record(['a.mp3', 'b.mp3'])
    await batch.run()
    const names = await readdir(batch.folder)
    await rm(batch.home, { recursive: true })
    // Without a record they are not known to be transcripts until the service has repeated them.
    const { plan, outcome } = await batch.run()
    expect(plan.totals).toMatchObject({ toDo: 2, kept: 2 })
    expect(outcome).toMatchObject({ finished: 2, kept: 0 })
    expect(await readdir(batch.folder)).toEqual(names)
    expect((await batch.run()).outcome).toMatchObject({ skipped: 2 })
    await rm(batch.home, { recursive: true })
    await rm(join(batch.folder, 'a.srt'))
    await rm(join(batch.folder, 'b.srt'))
    expect((await batch.run()).outcome).toMatchObject({ finished: 2 })
    expect(await batch.paid()).toBe(2n * MINIMUM)
  })

  it('knows from the journal what is paid already', async () => {
    await batch.record(['a.mp3'])
    await batch.run()
    await rm(join(batch.folder, 'a.srt'))
    const { plan, outcome } = await batch.run()
    expect(plan.totals).toMatchObject({ price: MINIMUM, alreadyPaid: MINIMUM, toCharge: 0n })
    expect(outcome).toMatchObject({ finished: 1, charged: 0n, replayed: MINIMUM })
  })

  it('transcribes a finished file for another request, and writes it for another style without a charge', async () => {
    await batch.record(['a.mp3'])
    await batch.run()
    const styled = await batch.run({ subtitles: { style: 'bbc' } })
    expect(styled.outcome).toMatchObject({ finished: 1, charged: 0n })
    expect((await batch.run({ request: { language: 'de' } })).outcome).toMatchObject({ finished: 1, charged: MINIMUM })
    expect(await batch.paid()).toBe(2n * MINIMUM)
  })

  it('transcribes what is finished another time on request, and pays for it', async () => {
    await batch.record(['a.mp3'])
    await batch.run()
    expect((await batch.run({ again: true })).outcome).toMatchObject({ finished: 1, charged: MINIMUM })
    expect((await batch.run()).outcome).toMatchObject({ skipped: 1 })
    expect(await batch.paid()).toBe(2n * MINIMUM)
  })

  it('is one call however it is asked for, and another where the answer is', async () => {
    await batch.record(['a.mp3'])
    const requests: BatchOptions['request'][] = [
      {},
      { tag_audio_events: false },
      { num_speakers: 3 },
      { language: 'en' },
      { language: 'eng' },
      { diarize: false, num_speakers: 3 },
      { diarize: false },
    ]
    const before = (await sandbox.upstreamCalls()).length
    for (const [index, request] of requests.entries())
      await batch.run({ request, output: { folder: join(batch.folder, `texts-${index}`) } })
    const received = (await sandbox.upstreamCalls()).slice(before).map(({ fields }) => fields)
    expect(received).toEqual([
      { ...ASKED, diarize: 'true', tag_audio_events: 'true' },
      { ...ASKED, diarize: 'true', tag_audio_events: 'false' },
      { ...ASKED, diarize: 'true', tag_audio_events: 'true', num_speakers: '3' },
      { ...ASKED, diarize: 'true', tag_audio_events: 'true', language_code: 'en' },
      { ...ASKED, diarize: 'false', tag_audio_events: 'true' },
    ])
    expect(await batch.paid()).toBe(5n * MINIMUM)
  })

  it('what was finished without speakers stays finished, and is asked for with them on request', async () => {
    const [path = ''] = await batch.record(['a.mp3'])
    await batch.run()
    const transcript = join(batch.folder, 'a.srt')
    await writeFile(transcript, 'as it was')
    // As commit 8a4bf2e recorded it, which asked for no speakers.
    const record = join(batch.home, 'batch', 'finished.ndjson')
    const { outputDigests: _, ...line } = JSON.parse(await readFile(record, 'utf8')) as Record<string, unknown>
    const former = { ...line, request: 'SLxn_aktScZu5VAOCDFEP_', rendering: '4ZCgrczMP4oxTSonIUPbQQ' }
    await writeFile(record, `${JSON.stringify(former)}\n`)
    const { outcome, requests } = await batch.run()
    expect(outcome).toMatchObject({ skipped: 1, finished: 0 })
    expect(requests).toEqual([])
    const again = await batch.run({ again: true })
    expect(again.plan.files).toMatchObject([{ kept: [{ path: transcript, reason: 'changed' }] }])
    expect(again.outcome).toMatchObject({ finished: 1, kept: 1 })
    expect(await readFile(transcript, 'utf8')).toBe('as it was')
    expect(await readFile(`${path}.srt`, 'utf8')).not.toBe('')
  })

  it('warns where speakers were asked for and the model that answered names none', async () => {
    await writeFile(join(batch.folder, 'a.mp3'), recordingOf(`Ann: Hello.\nBen: Good evening of ${batch.folder}.`))
    const named = await batch.run({ output: { folder: join(batch.folder, 'named') }, formats: ['json'] })
    expect(warningsOf(named.events)).toEqual([])
    const speakerless = await batch.run(
      { output: { folder: join(batch.folder, 'unnamed') }, formats: ['json'] },
      { fetch: withoutSpeakers },
    )
    expect(warningsOf(speakerless.events)).toEqual(['no_speakers'])
    const unasked = { request: { diarize: false }, output: { folder: join(batch.folder, 'none') } }
    expect(warningsOf((await batch.run(unasked, { fetch: withoutSpeakers })).events)).toEqual([])
  })

  it('leaves an own file alone, whether it is older or newer than the recording, and counts neither as finished', async () => {
    const [a = '', b = ''] = await batch.record(['a.mp3', 'b.mp3'])
    for (const [path, days] of [
      [a.replace('mp3', 'txt'), -1],
      [b.replace('mp3', 'txt'), 1],
    ] as const) {
      await writeFile(path, 'my notes')
      const time = Date.now() / 1000 + days * 86_400
      await utimes(path, time, time)
    }
    const { plan, outcome, events } = await batch.run({ formats: ['txt'] })
    expect(plan.files.map(({ state, outputs, kept }) => [state, outputs, kept])).toEqual(
      [a, b].map((path) => ['to_do', [`${path}.txt`], [{ path: path.replace('mp3', 'txt'), reason: 'foreign' }]]),
    )
    expect(outcome).toMatchObject({ finished: 2, skipped: 0, kept: 2, charged: 2n * MINIMUM })
    expect(events.flatMap((event) => (event.event === 'finished' ? (event.file.kept ?? []) : []))).toHaveLength(2)
    expect(await readFile(a.replace('mp3', 'txt'), 'utf8')).toBe('my notes')
    expect(await readFile(b.replace('mp3', 'txt'), 'utf8')).toBe('my notes')
    expect((await batch.run({ formats: ['txt'] })).outcome).toMatchObject({ skipped: 2, kept: 0 })
  })

  it('leaves an own transcript that was corrected by hand, also when it is done again, unless it is forced', async () => {
    const [path = ''] = await batch.record(['a.mp3'])
    await batch.run()
    const transcript = join(batch.folder, 'a.srt')
    const written = await readFile(transcript, 'utf8')
    expect((await batch.run({ again: true })).plan.totals).toMatchObject({ kept: 0, overwritten: 0 })
    await writeFile(transcript, 'corrected')
    expect((await batch.run()).outcome).toMatchObject({ skipped: 1 })
    const { outcome } = await batch.run({ again: true })
    expect(outcome).toMatchObject({ finished: 1, kept: 1 })
    expect(await readFile(transcript, 'utf8')).toBe('corrected')
    expect(await readFile(`${path}.srt`, 'utf8')).toBe(written)
    await rm(`${path}.srt`)
    expect((await batch.run({ again: true, force: true })).plan.totals).toMatchObject({ kept: 0, overwritten: 1 })
    expect(await readFile(transcript, 'utf8')).toBe(written)
  })

  it('a recording that cannot be transcribed leaves its name to one that can', async () => {
    await batch.record(['a.mp3'])
    await writeFile(join(batch.folder, 'a.wav'), '')
    const sources = ['a.wav', 'a.mp3'].map((name) => ({ path: join(batch.folder, name), label: name, name }))
    const farebox = await createFarebox({
      wallet: walletFromPrivateKey(sandbox.info.payer.privateKey),
      baseUrl: sandbox.info.baseUrl,
      journal: 'memory',
    })
    const plan = await planBatch(farebox, sources, OPTIONS)
    expect(plan.files.map(({ state, outputs }) => [state, outputs])).toEqual([
      ['failed', [join(batch.folder, 'a.srt')]],
      ['to_do', [join(batch.folder, 'a.srt')]],
    ])
    await plan.discard()
    await farebox.close()
  })

  it('asks for another transcript of one that has expired, also where no record of it is left', async () => {
    await batch.record(['a.mp3'])
    await batch.run()
    await rm(batch.home, { recursive: true })
    await rm(join(batch.folder, 'a.srt'))
    const { outcome } = await batch.run({}, { fetch: withFirstUploads(1, expired) })
    expect(outcome.failures).toMatchObject([{ error: { code: 'result_expired' } }])
    expect((await batch.run({ again: true })).outcome).toMatchObject({ finished: 1 })
    expect(await batch.paid()).toBe(2n * MINIMUM)
  })

  it('pays once for the same content, and writes it for each file', async () => {
    const [path = ''] = await batch.record(['a.mp3'])
    await copyFile(path, join(batch.folder, 'copy.mp3'))
    const { plan, outcome } = await batch.run()
    expect(plan.files.map(({ state, duplicateOf }) => [state, duplicateOf])).toEqual([
      ['to_do', undefined],
      ['duplicate', join(batch.folder, 'a.mp3')],
    ])
    expect(outcome).toMatchObject({ finished: 2, charged: MINIMUM })
    const read = (name: string) => readFile(join(batch.folder, name), 'utf8')
    expect(await read('copy.srt')).toBe(await read('a.srt'))
    expect(await batch.paid()).toBe(MINIMUM)
  })

  it.skipIf(!havePrograms('ffmpeg', 'ffprobe'))('a bad file fails alone, before anything is paid for it', async () => {
    await batch.record(['a.mp3'])
    await writeFile(join(batch.folder, 'bad.mp3'), 'no recording')
    await writeFile(join(batch.folder, 'empty.mp3'), '')
    const { outcome } = await batch.run()
    expect(outcome).toMatchObject({ finished: 1, failed: 2 })
    expect(outcome.failures.map(({ file, error }) => [file.name, error.code, error.money])).toEqual([
      ['bad.mp3', 'not_audio', 'none'],
      ['empty.mp3', 'empty_file', 'none'],
    ])
    expect(await batch.paid()).toBe(MINIMUM)
  })

  it('sends nothing of a file that changed since it was priced, and the next run transcribes it as it is', async () => {
    const [path = ''] = await batch.record(['a.mp3', 'b.mp3'])
    const changed = await batch.run({}, {}, ({ event }) => {
      if (event === 'totals') writeFileSync(path, generateMp3({ durationMs: 1500 }))
    })
    expect(changed.outcome).toMatchObject({
      finished: 1,
      failures: [{ error: { code: 'file_changed', money: 'none' } }],
    })
    expect(await batch.paid()).toBe(MINIMUM)
    expect((await batch.run()).outcome).toMatchObject({ finished: 1, skipped: 1 })
  })

  it('pays for nothing that cannot be written', async () => {
    await batch.record(['a.mp3'])
    const folder = join(batch.folder, 'transcripts')
    await writeFile(folder, 'a file in the way')
    const { outcome, requests } = await batch.run({ output: { folder } })
    expect(outcome.failures).toMatchObject([{ error: { code: 'output_unwritable', money: 'none' } }])
    expect(requests).toEqual(['/v1/pricing'])
    expect(await batch.paid()).toBe(0n)
  })

  it('a transcript that is paid for and cannot be written is had without another charge', async () => {
    await batch.record(['a.mp3'])
    const folder = join(batch.folder, 'transcripts')
    const failing = await batch.run({ output: { folder } }, {}, ({ event }) => {
      // As a disk that fills up between the check and the answer.
      if (event !== 'part') return
      rmSync(folder, { recursive: true })
      writeFileSync(folder, '')
    })
    expect(failing.outcome.failures).toMatchObject([
      {
        error: {
          code: 'output_unwritable',
          money: 'settled',
          message: expect.stringMatching(/without another charge/),
        },
      },
    ])
    await rm(folder)
    expect((await batch.run({ output: { folder } })).outcome).toMatchObject({ finished: 1, charged: 0n })
    expect(await readdir(folder)).toEqual(['a.srt'])
    expect(await batch.paid()).toBe(MINIMUM)
  })

  it('begins nothing that the budget cannot pay, and a later run does what is missing', async () => {
    await batch.record(['a.mp3', 'b.mp3', 'c.mp3', 'd.mp3'])
    const { outcome } = await batch.run({}, { budget: { session: '0.0125' } })
    expect(outcome).toMatchObject({ finished: 2, failed: 0, notBegun: 2, stoppedBy: 'budget', charged: 2n * MINIMUM })
    expect(outcome.stopError).toMatchObject({ code: 'budget_exceeded' })
    expect((await batch.run()).outcome).toMatchObject({ finished: 2, skipped: 2 })
    expect(await batch.paid()).toBe(4n * MINIMUM)
  })

  it('leaves a recording that the budget has no room for, and does what comes after it', async () => {
    await batch.record(['b.mp3', 'c.mp3'])
    await writeFile(join(batch.folder, 'a.mp3'), generateMp3({ durationMs: 15 * 60_000, bitrate: 32 }))
    const { outcome, events } = await batch.run({ concurrency: 1 }, { budget: { session: '0.0125' } })
    expect(outcome).toMatchObject({ finished: 2, notBegun: 1, stoppedBy: 'budget', charged: 2n * MINIMUM })
    expect(outcome.stopError?.message).toMatch(/\/a\.mp3 costs .* but the session budget has 0\.0125 USDC left/)
    expect(events.at(-1)).toMatchObject({ event: 'stopping', underWay: 0 })
  })

  it('finishes what is under way when it is drained, and leaves the rest', async () => {
    await batch.record(['a.mp3', 'b.mp3', 'c.mp3'])
    const drain = new AbortController()
    const { outcome } = await batch.run({ drain: drain.signal, concurrency: 1 }, {}, ({ event }) => {
      if (event === 'started') drain.abort()
    })
    expect(outcome).toMatchObject({ finished: 1, notBegun: 2, interrupted: true, stoppedBy: 'interrupt' })
    expect(await batch.paid()).toBe(MINIMUM)
  })

  it('an interrupted batch is taken up, and pays for nothing twice', async () => {
    await batch.record(['a.mp3', 'b.mp3', 'c.mp3'])
    const interrupt = new AbortController()
    const { outcome } = await batch.run({ signal: interrupt.signal, concurrency: 2 }, {}, ({ event }) => {
      if (event === 'part') interrupt.abort()
    })
    expect(outcome).toMatchObject({ interrupted: true, failed: 0 })
    expect(outcome.finished + outcome.notBegun).toBe(3)
    await batch.run()
    expect((await batch.run()).outcome).toMatchObject({ skipped: 3 })
    expect(await batch.paid()).toBe(3n * MINIMUM)
  })

  it('prints transcripts instead of writing them', async () => {
    await batch.record(['a.mp3'])
    const printed: string[] = []
    const print = (text: string) => void printed.push(text)
    expect((await batch.run({ formats: ['txt'], output: { print } })).outcome).toMatchObject({ finished: 1 })
    expect(printed).toEqual([expect.stringMatching(/\n$/)])
    expect(await readdir(batch.folder)).toEqual(['a.mp3'])
  })

  it.each(['at_once', 'never'] as const)(
    'writes the receipt of each transcript next to it, fetched once, verified: %s',
    async (verify) => {
      await batch.record(['a.mp3'])
      const { requests } = await batch.run({ receipts: true }, { verify })
      const receipt = JSON.parse(await readFile(join(batch.folder, 'a.receipt.json'), 'utf8')) as { id: string }
      expect(requests.filter((path) => path.startsWith('/v1/receipts/'))).toEqual([`/v1/receipts/${receipt.id}`])
    },
  )

  it('packs short clips into one charge and writes each one’s transcript', async () => {
    const names = Array.from({ length: 20 }, (_, index) => `clip-${index}.mp3`)
    await batch.record(names, 22_000)
    const { plan, outcome } = await batch.run({ pack: true })
    expect(plan.totals).toMatchObject({ packs: 1, uploads: 1 })
    expect(plan.totals.price).toBeLessThanOrEqual(15_800n)
    expect(plan.files.reduce((sum, { price }) => sum + price, 0n)).toBe(plan.totals.price)
    expect(outcome).toMatchObject({ finished: 20, charged: plan.totals.price })
    expect(await batch.paid()).toBe(plan.totals.price)
    expect((await batch.run({ pack: true })).requests).toEqual([])
  })

  it('plans packs that it has planned before without reading their clips', async () => {
    const paths = await batch.record(
      Array.from({ length: 6 }, (_, index) => `clip-${index}.mp3`),
      22_000,
    )
    const farebox = await createFarebox({
      wallet: walletFromPrivateKey(sandbox.info.payer.privateKey),
      baseUrl: sandbox.info.baseUrl,
      journal: batch.home,
    })
    const plan = async () => {
      const sources = paths.map((path) => ({ path, label: path, name: path }))
      const planned = await planBatch(farebox, sources, { ...OPTIONS, pack: true })
      await planned.discard()
      return planned
    }
    const time = new Date('2026-11-24')
    for (const path of paths) await utimes(path, time, time)
    const first = await plan()
    for (const path of paths) {
      // Only a reader would notice.
      await writeFile(path, new Uint8Array((await stat(path)).size))
      await utimes(path, time, time)
    }
    const second = await plan()
    await farebox.close()
    expect(first.totals).toMatchObject({ packs: 1, uploads: 1 })
    expect(second.totals).toEqual(first.totals)
  })
})

describe.skipIf(!havePrograms('ffmpeg', 'ffprobe'))('recordings that cannot be sent as they are', () => {
  let sandbox: SharedSandbox
  let batch: BatchFolder
  beforeAll(async () => {
    sandbox = await useSharedSandbox()
  })
  afterAll(async () => {
    await sandbox.stop()
  })
  beforeEach(async () => {
    batch = await makeBatchFolder(sandbox)
  })
  afterEach(async () => {
    await batch.remove()
  })

  let recorded = 0
  /** Writes recordings that have to be converted, each of a content that no other test pays for. */
  async function recordOtherFormats(names: readonly string[], durationMs: number) {
    for (const name of names) {
      await mkdir(dirname(join(batch.folder, name)), { recursive: true })
      recorded += 1
      const bursts = [{ startMs: recorded * 50, endMs: 1500 }]
      await writeFile(join(batch.folder, name), waveOf({ durationMs, bursts }))
    }
  }

  /** Returns the installed ffmpeg behind a program that counts its conversions, and may hold them until it is released. */
  async function countedFfmpeg({ holdsConversions = false } = {}) {
    await mkdir(batch.home, { recursive: true })
    const [path, log, gate] = ['ffmpeg.sh', 'conversions', 'released'].map((name) => join(batch.home, name)) as [
      string,
      string,
      string,
    ]
    const hold = holdsConversions ? `while [ ! -e '${gate}' ]; do sleep 0.05; done;` : ''
    const script = `#!/bin/sh\ncase "$*" in *libmp3lame*) echo >> '${log}'; ${hold} esac\nexec ffmpeg "$@"\n`
    await writeFile(path, script, { mode: 0o755 })
    return {
      path,
      conversions: () => (existsSync(log) ? readFileSync(log).length : 0),
      release: () => writeFileSync(gate, ''),
    }
  }

  it('a recording beyond the limit is sent in parts, and each part is charged as planned', async () => {
    const durationMs = 15 * 60_000
    await writeFile(join(batch.folder, 'long.mp3'), generateMp3({ durationMs, bitrate: 320 }))
    // No part of it is paid for unless the budget has enough for all.
    const poor = await batch.run({ concurrency: 2 }, { budget: { session: '0.02' } })
    expect(poor.outcome).toMatchObject({ charged: 0n, notBegun: 1, failed: 0, stoppedBy: 'budget' })
    const { plan, outcome, events } = await batch.run({ concurrency: 2 })
    const [file] = plan.files
    expect(file).toMatchObject({ treatment: 'cut', parts: 2, price: plan.totals.price })
    expect(outcome).toMatchObject({ finished: 1, charged: plan.totals.price })
    expect(new Set(events.flatMap((event) => (event.event === 'part' ? [event.part] : [])))).toEqual(new Set([1, 2]))
    expect(await batch.paid()).toBe(plan.totals.price)
    expect(await readFile(join(batch.folder, 'long.srt'), 'utf8')).toMatch(/00:\d\d:\d\d,\d{3} --> /)
    expect(await preparedFrom(join(batch.folder, 'long.mp3'))).toEqual([])
  })

  it('another format is converted once: a plan remembers what it measured', async () => {
    const bursts = [{ startMs: 200, endMs: 800 }]
    await writeFile(join(batch.folder, 'voice.wav'), waveOf({ durationMs: 2000, bursts }))
    await runProgram('ffmpeg', ['-v', 'error', '-i', join(batch.folder, 'voice.wav'), join(batch.folder, 'voice.m4a')])
    const { baseUrl, payer } = sandbox.info
    const farebox = await createFarebox({
      wallet: walletFromPrivateKey(payer.privateKey),
      baseUrl,
      journal: batch.home,
    })
    const path = join(batch.folder, 'voice.wav')
    const source = { path, label: 'voice.wav', name: 'voice.wav' }
    const first = await planBatch(farebox, [source], OPTIONS)
    await first.discard()
    const measured = await readFile(join(batch.home, 'batch', 'measured.ndjson'), 'utf8')
    const second = await planBatch(farebox, [source], OPTIONS)
    await second.discard()
    await farebox.close()
    expect(second.totals).toEqual(first.totals)
    expect(await readFile(join(batch.home, 'batch', 'measured.ndjson'), 'utf8')).toBe(measured)
    // What the plans discarded is prepared another time, with the same bytes.
    const { plan, outcome } = await batch.run()
    expect(plan.files.map(({ treatment, outputs }) => [treatment, outputs])).toEqual([
      ['convert', [join(batch.folder, 'voice.srt')]],
      ['convert', [join(batch.folder, 'voice.wav.srt')]],
    ])
    expect(outcome).toMatchObject({ finished: 2, charged: plan.totals.price })
    expect(await batch.paid()).toBe(plan.totals.price)
  })

  it('asks for the price before anything is converted, and converts each recording once, when its call is near', async () => {
    await recordOtherFormats(['a.wav', 'b.wav', 'c.wav', 'd.wav'], 200_000)
    await writeFile(join(batch.folder, 'e.mp3'), generateMp3({ durationMs: 15 * MINUTE_MS, bitrate: 320, seed: 'e' }))
    const ffmpeg = await countedFfmpeg()
    let prepared = 0
    let agreed: BatchTotals | undefined
    const onEvent = ({ event, ...rest }: BatchEvent) => {
      if (event === 'started') prepared += 1
      if (!('totals' in rest)) return
      agreed = rest.totals
      expect([ffmpeg.conversions(), prepared]).toEqual([0, 0])
    }
    const first = await batch.run({ estimates: true, concurrency: 1, ffmpegPath: ffmpeg.path }, {}, onEvent)
    expect(agreed).toMatchObject({ toDo: 5, uploads: 6, estimated: 5 })
    expect(first.plan.files.map(({ isEstimate }) => isEstimate)).toEqual([true, true, true, true, true])
    expect(first.outcome).toMatchObject({ finished: 5, failed: 0 })
    expect(ffmpeg.conversions()).toBe(4)
    expect(await preparedFrom(join(batch.folder, 'a.wav'))).toEqual([])
    // Prepared before, the prices are exact: they are what was charged.
    await rm(join(batch.home, 'batch'), { recursive: true })
    const exact = await batch.run({ force: true })
    expect(exact.plan.totals).toMatchObject({ estimated: 0, price: first.outcome.charged, toCharge: 0n })
    expect(first.outcome.charged).toBeLessThanOrEqual(agreed?.toCharge ?? 0n)
    expect(Number(agreed?.toCharge)).toBeLessThan(Number(first.outcome.charged) * 1.01)
  })

  it('never charges more than the price that was agreed to, where a file is longer than it states', async () => {
    await writeFile(join(batch.folder, 'voice.wav'), waveOf({ durationMs: 400_000, bursts: [] }))
    const path = join(batch.folder, 'voice.mkv')
    await runProgram('ffmpeg', ['-v', 'error', '-i', join(batch.folder, 'voice.wav'), '-c:a', 'flac', path])
    await rm(join(batch.folder, 'voice.wav'))
    // The element Duration of Matroska (https://www.matroska.org/technical/elements.html: 0x4489, a float), in ms.
    const content = await readFile(path)
    const at = content.indexOf(Buffer.from([0x44, 0x89, 0x88]))
    expect(content.readDoubleBE(at + 3)).toBeCloseTo(400_000, -2)
    content.writeDoubleBE(200_000, at + 3)
    await writeFile(path, content)
    const { plan, outcome } = await batch.run({ estimates: true })
    expect(outcome).toMatchObject({ finished: 0, failed: 1, charged: 0n })
    expect(outcome.failures[0]?.error).toMatchObject({ code: 'price_above_estimate', money: 'none' })
    // What is known now is its price.
    const second = await batch.run({ estimates: true })
    expect(second.plan.totals.estimated).toBe(0)
    expect(second.plan.totals.price).toBeGreaterThan(plan.totals.price)
    expect(second.outcome).toMatchObject({ finished: 1, charged: second.plan.totals.price })
    expect(await batch.paid()).toBe(second.plan.totals.price)
  })

  it('prices what states no length, and clips that may be packed, by converting them before', async () => {
    await recordOtherFormats(['a.wav'], 200_000)
    await runProgram('ffmpeg', ['-v', 'error', '-i', join(batch.folder, 'a.wav'), join(batch.folder, 'b.aac')])
    await recordOtherFormats(['clips/c.wav', 'clips/d.wav'], 2000)
    const { plan, outcome } = await batch.run({ estimates: true, pack: true })
    expect(plan.files.map(({ name, isEstimate, pack }) => [name, isEstimate, pack])).toEqual([
      ['a.wav', true, undefined],
      ['b.aac', undefined, undefined],
      ['clips/c.wav', undefined, 1],
      ['clips/d.wav', undefined, 1],
    ])
    expect(outcome).toMatchObject({ finished: 4, failed: 0 })
    expect(await batch.paid()).toBe(outcome.charged)
  })

  it('is interrupted while it converts: nothing is charged, and nothing was begun', async () => {
    await recordOtherFormats(['a.wav', 'b.wav', 'c.wav'], 200_000)
    const ffmpeg = await countedFfmpeg({ holdsConversions: true })
    const drain = new AbortController()
    const running = batch.run({ estimates: true, concurrency: 1, ffmpegPath: ffmpeg.path, drain: drain.signal })
    await expect.poll(() => ffmpeg.conversions()).toBeGreaterThan(0)
    drain.abort()
    ffmpeg.release()
    const { outcome, events } = await running
    expect(outcome).toMatchObject({ interrupted: true, finished: 0, failed: 0, notBegun: 3, charged: 0n })
    expect(events.flatMap((event) => (event.event === 'stopping' ? [event.underWay] : []))).toEqual([0])
    expect(events.filter(({ event }) => event === 'started')).toEqual([])
    expect(await preparedFrom(join(batch.folder, 'a.wav'))).toEqual([])
    expect((await batch.run({ estimates: true })).outcome).toMatchObject({ finished: 3, failed: 0 })
  })

  it('says of an incomplete recording that it is, before it is sent, and charges what there is', async () => {
    await recordOtherFormats(['a.wav'], 400_000)
    await runProgram('ffmpeg', ['-v', 'error', '-i', join(batch.folder, 'a.wav'), join(batch.folder, 'b.flac')])
    await rm(join(batch.folder, 'a.wav'))
    const whole = await readFile(join(batch.folder, 'b.flac'))
    await writeFile(join(batch.folder, 'b.flac'), whole.subarray(0, Math.floor(whole.length / 2)))
    const { outcome, events, plan } = await batch.run({ estimates: true })
    const order = events.map(({ event }) => event).filter((event) => event === 'warning' || event === 'started')
    expect(order).toEqual(['warning', 'started'])
    expect(warningsOf(events)).toEqual(['incomplete_recording'])
    expect(outcome).toMatchObject({ finished: 1, failed: 0 })
    expect(outcome.charged).toBeLessThan(plan.totals.toCharge)
  })

  it('says what to install where ffmpeg is missing, and MP3s are transcribed without it', async () => {
    await batch.record(['a.mp3'])
    await writeFile(join(batch.folder, 'voice.wav'), waveOf({ durationMs: 1000, bursts: [] }))
    const { outcome } = await batch.run({ ffmpegPath: join(batch.folder, 'no-such-program') })
    expect(outcome).toMatchObject({ finished: 1, failures: [{ file: { name: 'voice.wav' } }] })
    expect(outcome.failures[0]?.error).toMatchObject({ code: 'ffmpeg_missing', money: 'none' })
    expect(outcome.failures[0]?.error.message).toMatch(/apt-get install ffmpeg/)
  })
})

describe('a batch and a service that is busy', () => {
  let sandbox: SharedSandbox
  let batch: BatchFolder
  beforeAll(async () => {
    sandbox = await useSharedSandbox()
  })
  afterAll(async () => {
    await sandbox.stop()
  })
  beforeEach(async () => {
    batch = await makeBatchFolder(sandbox)
    await batch.record(NAMES)
  })
  afterEach(async () => {
    await batch.remove()
  })

  it('sends less at a time while uploads are turned away, and more again afterwards', async () => {
    const { outcome, events } = await batch.run({ concurrency: 4 }, { fetch: withFirstUploads(4, overloaded) })
    expect(outcome).toMatchObject({ finished: 8, failed: 0, charged: 8n * 5034n })
    const limits = events.flatMap((event) => (event.event === 'concurrency' ? [[event.concurrency, event.reason]] : []))
    expect(limits.slice(0, 2)).toEqual([
      [2, 'overloaded'],
      [3, 'recovered'],
    ])
    expect(events.filter(({ event }) => event === 'waiting')).toHaveLength(4)
  })

  it('sends again what nobody answers, with the same payment, and is charged once for each file', async () => {
    const proxy = await startHttpFaultProxy(sandbox.info.baseUrl, ({ isPaid }) => {
      const swallowed = proxy.exchanges.filter(({ fault }) => fault === 'swallow').length
      return isPaid && swallowed < 3 ? 'swallow' : 'none'
    })
    const { outcome, events } = await batch.run({ concurrency: 4 }, { baseUrl: proxy.url })
    await proxy.stop()
    expect(outcome).toMatchObject({ finished: 8, failed: 0, charged: 8n * MINIMUM })
    expect(events.flatMap((event) => (event.event === 'waiting' ? [[event.code, event.silentMs]] : []))).toEqual(
      Array.from({ length: 3 }, () => ['no_answer', expect.closeTo(45_000, -3)]),
    )
    expect(await batch.paid()).toBe(8n * MINIMUM)
  })

  it('ends when the service stays away for longer than its patience, and says so once', async () => {
    const away = withFirstUploads(Number.POSITIVE_INFINITY, () => Promise.reject(new TypeError('fetch failed')))
    const { outcome, events } = await batch.run({ concurrency: 2, patienceMs: 0 }, { fetch: away })
    expect(outcome).toMatchObject({ finished: 0, stoppedBy: 'service', stopError: { code: 'connection_lost' } })
    expect(outcome.failed).toBeLessThanOrEqual(2)
    expect(outcome.notBegun).toBe(8 - outcome.failed)
    expect(events.filter(({ event }) => event === 'stopping')).toHaveLength(1)
    expect((await batch.run()).outcome).toMatchObject({ finished: 8, charged: 8n * 5034n })
  })
})

describe('uploads of large files', () => {
  let folder: string
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'farebox-memory-'))
  })
  afterEach(async () => {
    await rm(folder, { recursive: true, force: true })
  })
  async function prepareUpload(url: string) {
    const content = new Uint8Array(RECORDING_BYTES)
    const file = join(folder, 'recording.mp3')
    await writeFile(file, content)
    const audio = {
      sha256: createHash('sha256').update(content).digest('hex'),
      bytes: RECORDING_BYTES,
      duration_ms: 100,
    }
    return await prepareTranscription(url, { file, audio }, {})
  }

  it('are not held in memory until they are answered', async () => {
    const { url, waiting, server } = await startSlowServer()
    const call = await prepareUpload(url)
    const before = process.memoryUsage().arrayBuffers
    const answers = Array.from({ length: UPLOADS }, () => sendCall({ fetch }, call, PAYMENT, MINUTE_MS))
    await expect.poll(() => waiting.length).toBe(UPLOADS)
    const held = () => process.memoryUsage().arrayBuffers - before
    await expect.poll(held).toBeLessThan((UPLOADS * RECORDING_BYTES) / 2)
    for (const answer of waiting) answer()
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual(Array(UPLOADS).fill(200))
    server.close()
    server.closeAllConnections()
  })

  it('stop at a redirect without a second request', async () => {
    const requests: string[] = []
    const server = createServer((request, response) => {
      requests.push(request.url ?? '')
      response.writeHead(307, { location: '/elsewhere' }).end()
      request.resume()
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const call = await prepareUpload(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
    await expect(sendCall({ fetch }, call, PAYMENT, MINUTE_MS)).rejects.toMatchObject({
      code: 'redirected',
      money: 'unknown',
    })
    expect(requests).toEqual(['/v1/audio/transcriptions'])
    server.close()
    server.closeAllConnections()
  })
})
