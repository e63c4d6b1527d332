import fc from 'fast-check'
import { describe, expect, it, vi } from 'vitest'
import { atomicFromDollars } from '#shared/money/atomic-amount.ts'
import { transcriptions } from '#shared/operations/transcriptions.ts'
import type { ResolvedRequest } from '../../../client/batch/plan/batch-request.ts'
import { languageCode, resolveRequest } from '../../../client/batch/plan/batch-request.ts'
import { chooseOutputs, type OutputContext } from '../../../client/batch/plan/choose-outputs.ts'
import { sharesOf } from '../../../client/batch/plan/group-packs.ts'
import { UploadPricer } from '../../../client/batch/plan/price-uploads.ts'
import { termsOf } from '../../../client/batch/plan/pricing.ts'
import { Gate } from '../../../client/batch/run/gate.ts'
import { isLeftForLater, stopReasonOf } from '../../../client/batch/run/stop-reason.ts'
import type { BatchOptions, OutputFormat, Source } from '../../../client/batch/types.ts'
import { BudgetExceeded } from '../../../client/budget/budget-exceeded.ts'
import { ChallengeRefused } from '../../../client/payment/check-challenge.ts'
import { FareboxError } from '../../../client/wire/farebox-error.ts'
import { languageCode as reportedCode } from '../../../workers/providers/language-code.ts'

const source = (name: string): Source => ({ path: `/audio/${name}`, label: name, name: name })
function outputsOf(
  names: readonly string[],
  options: Partial<Pick<BatchOptions, 'formats' | 'output' | 'receipts'>> = {},
  ownerOf: (output: string, path: string) => string | undefined = () => undefined,
  isOwn: (output: string, path: string) => boolean = () => false,
) {
  return chosenFor(names, options, { ownerOf, isOwn }).map(({ outputs }) => outputs)
}
function chosenFor(
  names: readonly string[],
  options: Partial<OutputContext['options']> = {},
  context: Partial<OutputContext> = {},
) {
  const all = { formats: ['srt'], output: {}, receipts: false, again: false, ...options } as const
  return chooseOutputs(names.map(source), {
    options: all,
    ownerOf: () => undefined,
    isOwn: () => false,
    occupied: () => undefined,
    isFinished: () => false,
    modifiedMsOf: () => Date.UTC(2026, 10, 22),
    ...context,
  })
}
const changedSrt = (path: string) => (path === '/audio/a.srt' ? ({ path, reason: 'changed' } as const) : undefined)
const isNoWav = ({ name }: Source) => name !== 'a.wav'
/** A gate whose clock the test moves. */
function makeGate(limit: number) {
  const clock = { now: 0 }
  const changes: [number, string][] = []
  const gate = new Gate({ limit, now: () => clock.now, onChange: (...change) => changes.push(change) })
  const granted: string[] = []
  const enter = (name: string, kind: 'file' | 'part' = 'file') =>
    void gate.enter(kind).then((isGranted) => granted.push(isGranted ? name : `${name} refused`))
  return { gate, clock, changes, granted, enter }
}
/** Lets promises that are resolved take effect. */
async function settle(): Promise<void> {
  await new Promise(setImmediate)
}
const OPTIONS: BatchOptions = {
  request: {},
  formats: ['srt'],
  output: {},
  subtitles: {},
  receipts: false,
  concurrency: 8,
  pack: false,
  again: false,
}
const resolve = (changes: Partial<BatchOptions>) => resolveRequest({ ...OPTIONS, ...changes })
const LIMITS = { maximum_audio_duration_ms: '3600000', maximum_audio_bytes: 26_214_400 }
const PUBLISHED = { price_per_audio_hour_usd: '0.122', minimum_charge_usd: '0.005034', maximum_charge_usd: '0.122' }
const amount = (most: number) =>
  fc.tuple(fc.integer({ min: 0, max: most }), fc.integer({ min: 0, max: 999_999 })).map(([whole, decimals]) => {
    return `${whole}.${String(decimals).padStart(6, '0')}`
  })
const error = (code: string) => new FareboxError({ code, problem: 'No.', money: 'none', advice: 'Wait.' })
const refused = (...terms: string[]) =>
  new ChallengeRefused(terms.map((term) => ({ term, expected: 'one', actual: 'another' })))

describe('where transcripts are written', () => {
  it('thousands of recordings of one name are numbered without trying each number for each of them', () => {
    const names = Array.from({ length: 1000 }, (_, index) => `${index}/msg.wav`)
    const formats: OutputFormat[] = ['srt']
    const tried = vi.spyOn(formats, 'map')
    const outputs = outputsOf(names, { formats, output: { folder: '/out', template: '{name}' } })
    expect(outputs.slice(0, 4).flat()).toEqual(
      ['msg', 'msg.wav', 'msg.wav-2', 'msg.wav-3'].map((one) => `/out/${one}.srt`),
    )
    expect(new Set(outputs.flat()).size).toBe(names.length)
    expect(tried.mock.calls.length).toBeLessThan(20 * names.length)
  })

  it('is next to the source, with the ending of the format', () => {
    expect(outputsOf(['a.mp3', 'b/c.d.wav'], { formats: ['srt', 'txt'] })).toEqual([
      ['/audio/a.srt', '/audio/a.txt'],
      ['/audio/b/c.d.srt', '/audio/b/c.d.txt'],
    ])
  })

  it('is under the folder that is named, with the folders of the sources', () => {
    expect(outputsOf(['a.mp3', 'b/c.wav'], { output: { folder: '/out' } })).toEqual([['/out/a.srt'], ['/out/b/c.srt']])
  })

  it('follows a template', () => {
    const template = '{date}/{folder}/{name}-{ext}'
    expect(outputsOf(['b/c.wav'], { output: { folder: '/out', template } })).toEqual([['/out/2026-11-22/b/c-wav.srt']])
    expect(outputsOf(['b/c.wav'], { output: { template: 'text/{name}' } })).toEqual([['/audio/b/text/c.srt']])
  })

  it('keeps the ending of the second of two sources with one name', () => {
    expect(outputsOf(['a.mp3', 'a.wav'])).toEqual([['/audio/a.srt'], ['/audio/a.wav.srt']])
  })

  it('is never a source, whatever its ending', () => {
    expect(outputsOf(['a.txt', 'b.mp3'], { formats: ['txt'] })).toEqual([['/audio/a.txt.txt'], ['/audio/b.txt']])
  })

  it('is never the transcript of another source that an earlier run wrote', () => {
    const owners = new Map([['/audio/a.srt', '/audio/a.mp3']])
    expect(outputsOf(['a.wav'], {}, (output) => owners.get(output))).toEqual([['/audio/a.wav.srt']])
  })

  it('stays where an earlier run wrote it when the source that had the shorter name is gone', () => {
    const owners = new Map([['/audio/a.wav.srt', '/audio/a.wav']])
    const isOwn = (output: string, path: string) => owners.get(output) === path
    expect(outputsOf(['a.wav'], {}, () => undefined, isOwn)).toEqual([['/audio/a.wav.srt']])
  })

  it('is in the folder that is named, also where the template leaves no name', () => {
    const all = { output: { folder: '/out', template: '{folder}' } }
    expect(outputsOf(['c.wav', 'b/c.wav'], all)).toEqual([['/out/c.srt'], ['/out/b.srt']])
    expect(outputsOf(['b/c.wav'], { output: { folder: '/out', template: '{folder}/' } })).toEqual([['/out/b/c.srt']])
  })

  it('is never a file that no run wrote, nor one that was changed since: both stay, and are told apart', () => {
    const found = new Map([
      ['/audio/a.srt', 'foreign'],
      ['/audio/b.srt', 'changed'],
    ] as const)
    const occupied = (path: string) => {
      const reason = found.get(path as '/audio/a.srt')
      return reason === undefined ? undefined : { path, reason }
    }
    const names = ['a.mp3', 'b.mp3', 'c.mp3']
    expect(chosenFor(names, {}, { occupied })).toEqual([
      {
        outputs: ['/audio/a.mp3.srt'],
        receipt: undefined,
        kept: [{ path: '/audio/a.srt', reason: 'foreign' }],
        overwritten: [],
        preferred: { outputs: ['/audio/a.srt'] },
      },
      {
        outputs: ['/audio/b.mp3.srt'],
        receipt: undefined,
        kept: [{ path: '/audio/b.srt', reason: 'changed' }],
        overwritten: [],
        preferred: { outputs: ['/audio/b.srt'] },
      },
      { outputs: ['/audio/c.srt'], receipt: undefined, kept: [], overwritten: [] },
    ])
    expect(
      chosenFor(names, { force: true }, { occupied }).map(({ outputs, overwritten }) => [outputs, overwritten]),
    ).toEqual([
      [['/audio/a.srt'], [{ path: '/audio/a.srt', reason: 'foreign' }]],
      [['/audio/b.srt'], [{ path: '/audio/b.srt', reason: 'changed' }]],
      [['/audio/c.srt'], []],
    ])
  })

  it('is what an earlier run finished, also when it was corrected since, unless it is to be done again', () => {
    const context = { occupied: changedSrt, isFinished: (outputs: readonly string[]) => outputs[0] === '/audio/a.srt' }
    expect(chosenFor(['a.mp3'], {}, context)).toMatchObject([{ outputs: ['/audio/a.srt'], kept: [] }])
    expect(chosenFor(['a.mp3'], { again: true }, context)).toMatchObject([
      { outputs: ['/audio/a.mp3.srt'], kept: [{ path: '/audio/a.srt' }] },
    ])
  })

  it('is nothing for a recording that cannot be transcribed, which leaves its name to another', () => {
    expect(chosenFor(['a.wav', 'a.mp3'], {}, { isNamed: isNoWav }).map(({ outputs }) => outputs)).toEqual([
      [],
      ['/audio/a.srt'],
    ])
  })

  it('is nowhere if transcripts are printed', () => {
    expect(outputsOf(['a.mp3'], { output: { print: () => undefined } })).toEqual([[]])
  })

  it('differs for all files of a batch, whatever their names, formats and template', () => {
    const name = fc.array(fc.constantFrom('a', 'b', '.', '/', '-2', '.mp3', '.wav', '.srt', '.txt'), {
      minLength: 1,
      maxLength: 5,
    })
    fc.assert(
      fc.property(
        fc.uniqueArray(
          name.map((parts) =>
            parts
              .join('')
              .replace(/\/+|\/\.+|^\.+/g, '/x')
              .replace(/^\//, '')
              .replace(/\/?$/, 'y.mp3'),
          ),
          { minLength: 1, maxLength: 12 },
        ),
        fc.constantFrom(undefined, '{name}', 'all', '{folder}/{ext}'),
        (names, template) => {
          const outputs = outputsOf(names, { formats: ['srt', 'txt'], output: { template } }).flat()
          expect(new Set(outputs).size).toBe(outputs.length)
          for (const path of names.map((each) => source(each).path)) expect(outputs).not.toContain(path)
        },
      ),
    )
  })
})

describe('the gate of uploads', () => {
  it('never lets in more than its limit', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 8 }),
        fc.array(fc.constantFrom('enter', 'part', 'leave', 'busy', 'success'), { maxLength: 80 }),
        async (limit, steps) => {
          const { gate, clock, granted, enter } = makeGate(limit)
          let left = 0
          for (const [index, step] of steps.entries()) {
            clock.now += 700
            if (step === 'enter') enter(`${index}`)
            if (step === 'part') enter(`${index}`, 'part')
            if (step === 'busy') gate.slowDown('overloaded', 500)
            if (step === 'success') gate.succeeded()
            await settle()
            const inside = granted.length - left
            if (step === 'leave' && inside > 0) {
              left += 1
              gate.leave()
              await settle()
            }
            expect(granted.length - left).toBeLessThanOrEqual(limit)
            expect(gate.limit).toBeGreaterThanOrEqual(1)
            expect(gate.limit).toBeLessThanOrEqual(limit)
          }
          gate.dispose()
        },
      ),
    )
  })

  it('rests while a service asks for a month', async () => {
    let looks = 0
    const gate = new Gate({ limit: 1, now: () => (looks += 1) && 0, onChange: () => undefined })
    gate.slowDown('overloaded', 30 * 86_400_000)
    void gate.enter('file')
    const before = looks
    await new Promise((resolve) => setTimeout(resolve, 20))
    expect(looks).toBe(before)
    gate.dispose()
  })

  it('halves its limit once for all that is turned away at the same time, and holds new uploads back', async () => {
    const { gate, clock, changes, granted, enter } = makeGate(8)
    for (let turnedAway = 0; turnedAway < 8; turnedAway++) gate.slowDown('overloaded', 3000)
    expect(changes).toEqual([[4, 'overloaded']])
    enter('new')
    await settle()
    expect(granted).toEqual([])
    clock.now = 3001
    enter('another')
    await settle()
    expect(granted).toEqual(['new', 'another'])
    gate.slowDown('overloaded', 1000)
    expect(gate.limit).toBe(2)
    gate.dispose()
  })

  it('grows by one after as many successes as its limit, and not beyond what was asked', () => {
    const { gate, clock, changes } = makeGate(4)
    gate.slowDown('overloaded', 1000)
    clock.now = 1000
    gate.succeeded()
    expect(gate.limit).toBe(2)
    for (let successes = 0; successes < 20; successes++) gate.succeeded()
    expect(changes).toEqual([
      [2, 'overloaded'],
      [3, 'recovered'],
      [4, 'recovered'],
    ])
    gate.dispose()
  })

  it('lets in one at a time to the end where the wallet cannot pay for more at once', () => {
    const { gate } = makeGate(4)
    gate.oneAtATime('not_approved')
    for (let successes = 0; successes < 20; successes++) gate.succeeded()
    expect(gate.limit).toBe(1)
    gate.dispose()
  })

  it('lets in further parts of what is begun before new files', async () => {
    const { gate, granted, enter } = makeGate(1)
    enter('first')
    enter('new file')
    enter('part', 'part')
    gate.leave()
    await settle()
    expect(granted).toEqual(['first', 'part'])
  })

  it('refuses new files when it is closed, and still lets in parts', async () => {
    const { gate, granted, enter } = makeGate(1)
    enter('first')
    enter('new file')
    enter('part', 'part')
    gate.close()
    await settle()
    expect(granted).toEqual(['first', 'new file refused'])
    gate.leave()
    enter('later file')
    await settle()
    expect(granted).toEqual(['first', 'new file refused', 'part', 'later file refused'])
  })

  it('ends a pause when it is aborted', async () => {
    const { gate, granted, enter } = makeGate(2)
    gate.slowDown('overloaded', 60_000)
    enter('part', 'part')
    gate.abort()
    await settle()
    expect(granted).toEqual(['part'])
    gate.dispose()
  })
})

describe('the request of a batch', () => {
  it('asks for the times of words, for speakers and for sounds', () => {
    expect(resolve({ request: { language: undefined } }).fields).toEqual({
      model: 'speechvendor/scribe-v2',
      timestamps: 'word',
      diarize: true,
      tag_audio_events: true,
    })
  })

  it.each<[Partial<BatchOptions>, Partial<BatchOptions>]>([
    [{}, { request: { model: 'speechvendor/scribe-v2', timestamps: 'word', diarize: true, tag_audio_events: true } }],
    [{ request: { diarize: false } }, { request: { diarize: false, num_speakers: 3 } }],
    [{ request: { language: 'en' } }, { request: { language: 'eng' } }],
    [{ request: { language: 'pt-br' } }, { request: { language: ' POR_BR' } }],
    [{}, { request: { language: '' } }],
    [{ subtitles: { language: 'de' } }, { subtitles: { language: 'deu' } }],
  ])('is the same call, written the same way, however it is asked for: %j and %j', (one, other) => {
    const { formerRenderings: _, ...effective } = resolve(one)
    expect(resolve(other)).toMatchObject(effective)
  })

  it('has one spelling for the codes of each language that the vendors know, whichever they report', () => {
    const letters = Array.from('abcdefghijklmnopqrstuvwxyz')
    const shorts = letters.flatMap((first) => letters.map((second) => first + second))
    const differing = shorts.filter((short) => languageCode(reportedCode(short) ?? '') !== languageCode(short))
    expect(differing).toEqual([])
    expect(reportedCode('de')).toBe('deu')
  })

  it.each<[Partial<BatchOptions>, string]>([
    [{}, '4ZCgrczMP4oxTSonIUPbQQ'],
    [{ request: { tag_audio_events: false } }, 'VKMDEloy_uCMusOFH_FEka'],
    [
      { request: { num_speakers: 3, language: 'eng' }, subtitles: { language: 'eng', speakers: 'label' } },
      'APFdW2ZW9mQKUrc8tlHoIW',
    ],
  ])('knows what commit 8a4bf2e recorded for %j', (changes, recorded) => {
    expect(resolve(changes).formerRenderings).toContain(recorded)
  })

  it('is another call with other fields, and the same call with other subtitles', () => {
    const plain = resolve({})
    const styled = resolve({ subtitles: { style: 'bbc' } })
    const other = resolve({ request: { language: 'en' } })
    expect(styled.callDigest).toBe(plain.callDigest)
    expect(styled.renderingDigest).not.toBe(plain.renderingDigest)
    expect(other.callDigest).not.toBe(plain.callDigest)
  })

  it.each<Partial<BatchOptions>>([
    { formats: [] },
    { concurrency: 0 },
    { concurrency: 1.5 },
    { subtitles: { maximumLine: 3 } },
    { output: { template: '{title}' } },
    { request: { timestamps: 'none' } },
    { request: { timestamps: 'none' }, formats: ['txt'], pack: true },
  ])('refuses what cannot be followed, before anything is read: %j', (changes) => {
    expect(() => resolve(changes)).toThrow(expect.objectContaining({ code: 'invalid_options', money: 'none' }))
  })
})

const ALL = { diarize: [false, true], tag_audio_events: [false, true], timestamps: ['none', 'word', 'character'] }
const WORDS = { diarize: [false], tag_audio_events: [false], timestamps: ['none', 'word'] }
const TEXT = { ...WORDS, timestamps: ['none'] }
const offered = (offer: Parameters<typeof resolveRequest>[1], changes: Partial<BatchOptions> = {}) =>
  resolveRequest({ ...OPTIONS, ...changes }, offer)

describe('what a service does not offer', () => {
  it('is not asked for, and named', () => {
    expect(offered(ALL)).toMatchObject({ without: [], fields: { diarize: true, tag_audio_events: true } })
    expect(offered({})).toMatchObject({ without: [], fields: { diarize: true, tag_audio_events: true } })
    expect(offered(WORDS)).toMatchObject({
      without: ['speakers', 'sounds'],
      fields: { diarize: false, tag_audio_events: false, timestamps: 'word' },
    })
    expect(offered({ ...ALL, tag_audio_events: [false] })).toMatchObject({ without: ['sounds'] })
    expect(offered(TEXT, { formats: ['txt', 'json'] })).toMatchObject({
      without: ['speakers', 'sounds', 'times of words'],
      fields: { timestamps: 'none' },
    })
    expect(offered(WORDS, { request: { diarize: false, tag_audio_events: false } })).toMatchObject({ without: [] })
  })

  it.each<[Partial<BatchOptions>, typeof TEXT]>([
    [{ request: { diarize: true } }, WORDS],
    [{ request: { num_speakers: 2 } }, WORDS],
    [{ request: { tag_audio_events: true } }, WORDS],
    [{ request: { timestamps: 'character' } }, WORDS],
    [{ request: { timestamps: 'word' }, formats: ['txt'] }, TEXT],
    [{ formats: ['txt', 'vtt'] }, TEXT],
    [{ formats: ['txt'], pack: true }, TEXT],
    [{}, TEXT],
  ])('ends a batch that demands it, before anything is sent: %j', (changes, offer) => {
    expect(() => offered(offer, changes)).toThrow(expect.objectContaining({ code: 'not_offered', money: 'none' }))
    expect(() => offered(ALL, changes)).not.toThrow()
  })

  it('makes another call, whose transcripts are finished for the same options, and not for those that demand more', () => {
    const [full, less] = [offered(ALL), offered(WORDS)]
    expect(less.callDigest).not.toBe(full.callDigest)
    expect(full.formerRenderings).toContain(less.renderingDigest)
    expect(less.formerRenderings).toContain(full.renderingDigest)
    const demanding = offered(ALL, { request: { diarize: true } })
    expect(demanding.renderingDigest).toBe(full.renderingDigest)
    expect(demanding.formerRenderings).not.toContain(less.renderingDigest)
    expect(demanding.formerRenderings).toContain(offered({ ...ALL, tag_audio_events: [false] }).renderingDigest)
  })

  it.each([undefined, null, 'all', {}, { diarize: true }, { diarize: null, timestamps: {} }, []])(
    'is unknown of a service that publishes %j: everything is asked for',
    (published) => {
      const terms = termsOf({ ...PUBLISHED, ...LIMITS, supported_options: published })
      expect(offered(terms.offered)).toMatchObject({ without: [] })
    },
  )
})

describe('the price of a recording', () => {
  it('is what the service charges, for any duration and prices', () => {
    const prices = fc.record({
      price_per_audio_hour_usd: amount(3),
      minimum_charge_usd: amount(0),
      maximum_charge_usd: amount(3),
    })
    fc.assert(
      fc.property(
        fc.oneof(fc.constant(PUBLISHED), prices),
        fc.integer({ min: 1, max: 3_600_000 }),
        (drawn, durationMs) => {
          fc.pre(atomicFromDollars(drawn.minimum_charge_usd) <= atomicFromDollars(drawn.maximum_charge_usd))
          const charge = transcriptions.charge({ input_audio_ms: durationMs }, drawn)
          expect(termsOf({ ...LIMITS, ...drawn }).priceOf(durationMs)).toBe(BigInt(charge))
        },
      ),
      { numRuns: 1000 },
    )
  })

  it('is the minimum up to 148,544 ms, and rounded up once beyond', () => {
    const { priceOf } = termsOf({ ...LIMITS, ...PUBLISHED })
    expect([1, 148_544, 148_545, 148_575, 3_600_000].map(priceOf)).toEqual([5034n, 5034n, 5035n, 5036n, 122_000n])
  })

  it('is at most twice the gas where the minimum follows it, and clips share a call up to the gas', () => {
    const { priceOf, prices } = termsOf({ ...LIMITS, ...PUBLISHED, gas_minimum_charge_usd: '0.006' })
    expect([1, 400_000, 3_600_000].map(priceOf)).toEqual([12_000n, 13_556n, 122_000n])
    expect(prices.minimumChargeUsd).toBe('0.006')
    const rising = termsOf({ ...LIMITS, ...PUBLISHED, gas_minimum_charge_usd: '0.0049' })
    expect([rising.priceOf(1), rising.prices.minimumChargeUsd]).toEqual([9800n, '0.005034'])
  })

  it('is divided among the clips of a pack without a remainder', () => {
    fc.assert(
      fc.property(
        fc.bigInt({ min: 0n, max: 1_000_000n }),
        fc.array(fc.integer({ min: 0, max: 150_000 }), { minLength: 1, maxLength: 50 }),
        (price, durationsMs) => {
          const shares = sharesOf(price, durationsMs)
          fc.pre(durationsMs.some((durationMs) => durationMs > 0))
          expect(shares.reduce((sum, share) => sum + share, 0n)).toBe(price)
          expect(shares.every((share, index) => share >= 0n && (durationsMs[index] !== 0 || share === 0n))).toBe(true)
        },
      ),
    )
  })
})

it('a call that was charged costs nothing more, however high its price may be by now', () => {
  const terms = termsOf({ ...LIMITS, ...PUBLISHED, gas_minimum_charge_usd: '0.006' })
  const upload = { sha256: 'a'.repeat(64), bytes: 1, durationMs: 1000, offsetMs: 0 }
  const pricing = { secret: new Uint8Array(32), request: { fields: {} } as ResolvedRequest, terms }
  const [first] = new UploadPricer({ ...pricing, charged: new Map() }).price([upload], 0).uploads
  const again = new UploadPricer({ ...pricing, charged: new Map([[first?.key ?? '', 6000n]]) }).price([upload], 0)
  expect([again.price, again.alreadyPaid]).toEqual([12_000n, 12_000n])
})

describe('what ends a batch', () => {
  it.each([
    [new BudgetExceeded('session', 5n, 1n, 2n), 'budget'],
    [new BudgetExceeded('day', 5n, 1n, 2n), 'budget'],
    [error('insufficient_funds'), 'funds'],
    [error('permit2_allowance_required'), 'funds'],
    [error('unpaid_debt'), 'funds'],
    [error('aborted'), 'interrupt'],
    [error('connection_lost'), 'service'],
    [error('no_answer'), 'service'],
    [refused('payTo'), 'service'],
    [refused('maximum', 'asset'), 'service'],
    [error('journal_unwritable'), 'local'],
    [error('payment_not_yet_valid'), 'local'],
    [error('payment_signature_invalid'), 'local'],
  ] as const)('is what every other file would meet: %s', (met, reason) => {
    expect(stopReasonOf(met)).toBe(reason)
  })

  it.each([
    new BudgetExceeded('call', 5n, 1n, 2n),
    refused('maximum'),
    error('unsupported_audio'),
    error('result_expired'),
    error('provider_rejected'),
  ])('is nothing that concerns one file only: %s', (met) => {
    expect(stopReasonOf(met)).toBeUndefined()
  })

  it('leaves files for a later run that have no fault of their own', () => {
    expect((['budget', 'funds', 'interrupt', 'service', undefined] as const).map(isLeftForLater)).toEqual([
      true,
      true,
      true,
      false,
      false,
    ])
  })
})
