import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createInspectionStore } from '#shared/adapters/postgres/admission/inspection-store.ts'
import type { DecodeVerdict, InspectionStore } from '#shared/jobs/inspection-store.ts'
import type { Decoded } from '../../../api/request/audio/decode-with-ffmpeg.ts'
import { createMp3Inspector, type InspectionOutcome } from '../../../api/request/audio/inspect-mp3.ts'
import { createInspectionCache } from '../../../api/request/audio/inspection-cache.ts'
import { createSharedVerdicts } from '../../../api/request/audio/shared-verdicts.ts'
import { measureAudio } from '../../../api/request/measure-audio.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'
import { generatedDurationMs, generateMp3 } from '../../support/media/mp3-generator.ts'
import { PATIENCE_MS } from '../../support/patience.ts'

const LIFETIME_SECONDS = 300
const AGREES: Decoded = { outcome: 'agrees', decodedSamples: 1 }
const DISAGREES: Decoded = { outcome: 'disagrees', decodedSamples: 4_410_000, stopped: true }

let ledger: TestLedger
let store: InspectionStore
beforeAll(async () => {
  ledger = await createTestLedger()
  store = createInspectionStore(ledger.pool)
})
afterAll(() => ledger.close())

interface ApiOptions {
  readonly decoded?: Decoded
  readonly inspector?: string
  readonly store?: InspectionStore
  readonly patienceMs?: number
}

const LIMITS = { maximumBytes: 26_214_400, maximumDurationMs: 3_600_000 }

/** Creates the inspector of one API process, whose decoder answers as given. */
function startApi(options: ApiOptions = {}) {
  const failures: string[] = []
  let decodes = 0
  const { inspect } = createMp3Inspector({
    decode: async () => {
      decodes += 1
      return options.decoded ?? AGREES
    },
    cache: createInspectionCache<InspectionOutcome>({ maximumEntries: 100, timeToLiveMs: 60_000 }),
    verdicts: createSharedVerdicts({
      store: options.store ?? store,
      readInspector: async () => options.inspector ?? 'aa'.repeat(32),
      lifetimeSeconds: LIFETIME_SECONDS,
      patienceMs: options.patienceMs ?? PATIENCE_MS,
      onFailure: (error) => failures.push(String(error)),
    }),
    concurrency: 2,
    maximumWaiting: 4,
  })
  return {
    failures,
    decodes: () => decodes,
    inspect: async (audio: Uint8Array) =>
      await inspect(measureAudio(audio), { client: ['192.0.2.1'], hasPriority: true, limits: LIMITS }).then(
        ({ durationMs }) => durationMs,
        (error: Error) => error.message,
      ),
  }
}

let clips = 0
/** Returns an MP3 of half a second that no other test has inspected. */
function newClip(): Uint8Array {
  clips += 1
  return generateMp3({ durationMs: 500, seed: `${clips}` })
}
const CLIP_MS = generatedDurationMs({ durationMs: 500 })

describe('an upload that another API process has decoded', () => {
  it('is accepted with the same duration and without another decode', async () => {
    const [first, second] = [startApi(), startApi()]
    const audio = newClip()
    expect([await first.inspect(audio), await second.inspect(audio)]).toEqual([CLIP_MS, CLIP_MS])
    expect([first.decodes(), second.decodes()]).toEqual([1, 0])
    expect([...first.failures, ...second.failures]).toEqual([])
  })

  it('is refused with the same message and without another decode', async () => {
    const [first, second] = [startApi({ decoded: DISAGREES }), startApi()]
    const audio = newClip()
    const message = await first.inspect(audio)
    expect(message).toMatch(/but it decodes to more than 100,000 ms/)
    expect(await second.inspect(audio)).toBe(message)
    expect(second.decodes()).toBe(0)
  })

  it('is decoded again by another ffmpeg or by other rules', async () => {
    const [old, next] = [startApi({ decoded: DISAGREES }), startApi({ inspector: 'bb'.repeat(32) })]
    const audio = newClip()
    expect(await old.inspect(audio)).toMatch(/decodes to/)
    expect(await next.inspect(audio)).toBe(CLIP_MS)
    expect(next.decodes()).toBe(1)
  })

  it('is decoded again when the two frame walks differ, so that no process takes a duration from another', async () => {
    const audio = newClip()
    const { sha256 } = measureAudio(audio)
    await store.recordVerdict({ sha256, inspector: 'aa'.repeat(32), durationMs: CLIP_MS + 1 }, { refusal: null }, 60)
    const api = startApi()
    expect(await api.inspect(audio)).toBe(CLIP_MS)
    expect(api.decodes()).toBe(1)
  })

  it('is decoded again once the verdict has expired, which is then replaced', async () => {
    const audio = newClip()
    await startApi({ decoded: DISAGREES }).inspect(audio)
    await ledger.sql('UPDATE audio_inspections SET expires_at = now()')
    expect(await startApi().inspect(audio)).toBe(CLIP_MS)
    const third = startApi()
    expect(await third.inspect(audio)).toBe(CLIP_MS)
    expect(third.decodes()).toBe(0)
  })

  it('keeps the first of two verdicts, so that processes that decoded at the same time agree afterwards', async () => {
    const audio = { sha256: randomBytes(32).toString('hex'), inspector: 'aa'.repeat(32), durationMs: 1 }
    await store.recordVerdict(audio, { refusal: 'first' }, 60)
    await store.recordVerdict(audio, { refusal: null }, 60)
    expect(await store.findVerdict(audio)).toEqual({ refusal: 'first' })
  })

  it('is decoded again when the decoder only crashed elsewhere', async () => {
    const audio = newClip()
    expect(await startApi({ decoded: { outcome: 'undecodable', reason: 'killed' } }).inspect(audio)).toMatch(/fails/)
    expect(await startApi().inspect(audio)).toBe(CLIP_MS)
  })
})

describe('the store of verdicts', () => {
  const failing: InspectionStore = {
    findVerdict: () => Promise.reject<DecodeVerdict>(new Error('no connection')),
    recordVerdict: () => Promise.reject(new Error('no connection')),
  }
  const hanging: InspectionStore = {
    findVerdict: () => new Promise<never>(() => undefined),
    recordVerdict: () => new Promise<never>(() => undefined),
  }

  it.each([
    { name: 'fails', store: failing, patienceMs: PATIENCE_MS, failure: /no connection/ },
    { name: 'hangs', store: hanging, patienceMs: 1, failure: /did not answer within 1 ms/ },
  ])('fails no inspection when it $name: the upload is decoded', async ({ failure, ...options }) => {
    const api = startApi(options)
    expect(await api.inspect(newClip())).toBe(CLIP_MS)
    expect(api.decodes()).toBe(1)
    expect(api.failures).toEqual([expect.stringMatching(failure), expect.stringMatching(failure)])
  })

  it('holds a row only for what was decoded, of a few hundred bytes, until the sweeper deletes it', async () => {
    await ledger.sql('DELETE FROM audio_inspections')
    const api = startApi({ decoded: DISAGREES })
    for (let index = 0; index < 20; index++) await api.inspect(newClip())
    await api.inspect(new TextEncoder().encode('fLaC and so on'))
    const [stored] = await ledger.sql<{ rows: number; longest: number; least: number; most: number }>(
      `SELECT count(*)::int AS rows, max(pg_column_size(audio_inspections))::int AS longest,
         extract(epoch FROM min(expires_at) - now())::int AS least, extract(epoch FROM max(expires_at) - now())::int AS most
       FROM audio_inspections`,
    )
    expect(stored).toMatchObject({ rows: 20 })
    expect(stored?.longest).toBeLessThan(700)
    expect(stored?.least).toBeGreaterThan(0)
    expect(stored?.most).toBeLessThanOrEqual(LIFETIME_SECONDS)
    expect(await ledger.retention.forgetInspections(100)).toBe(0)
    await ledger.sql('UPDATE audio_inspections SET expires_at = now()')
    expect([await ledger.retention.forgetInspections(15), await ledger.retention.forgetInspections(15)]).toEqual([
      15, 5,
    ])
  })
})
