import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { carriersOf, type DeploymentsFileInput, parseDeployments } from '#shared/catalog/deployments-file.ts'
import { providerKeysOf } from '#shared/catalog/provider-keys.ts'
import { publishedCatalog } from '#shared/catalog/published-catalog.ts'
import type { TranscriptionResult } from '#shared/operations/transcriptions.ts'
import { transcriptions } from '#shared/operations/transcriptions.ts'
import { findFreePort } from '../../../infra/sandbox/processes/free-port.ts'
import { createDeployments } from '../../../workers/providers/create-deployments.ts'
import { createHttp } from '../../../workers/providers/http.ts'
import { EFFECTIVE_REQUEST } from '../../support/ledger/new-test-job.ts'
import { recordingOf } from '../../support/media/recording.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { routedTo, startTestWorker, type TestWorker } from '../../support/processes/test-worker.ts'

/*
 * What recordings are asked for × the deployments of their model: delivered in full, refused before the price, or failed
 * uncharged. Never less.
 */

type Asked = Partial<typeof EFFECTIVE_REQUEST>
type Gift = 'words' | 'characters' | 'speakers' | 'sounds'

const REQUESTS: Readonly<Record<string, { readonly asked: Asked; readonly wants: readonly Gift[] }>> = {
  'text alone': { asked: {}, wants: [] },
  words: { asked: { timestamps: 'word' }, wants: ['words'] },
  verbose_json: { asked: { response_format: 'verbose_json' }, wants: ['words'] },
  characters: { asked: { timestamps: 'character' }, wants: ['words', 'characters'] },
  speakers: { asked: { diarize: true }, wants: ['words', 'speakers'] },
  sounds: { asked: { tag_audio_events: true }, wants: ['words', 'sounds'] },
  everything: {
    asked: { timestamps: 'character', diarize: true, tag_audio_events: true },
    wants: ['words', 'characters', 'speakers', 'sounds'],
  },
}

/** What each kind of deployment gives; one that is away gives nothing, although it would. */
const GIVES: Readonly<Record<string, readonly Gift[]>> = {
  text: [],
  words: ['words'],
  all: ['words', 'characters', 'speakers', 'sounds'],
  'all, away': ['words', 'characters', 'speakers', 'sounds'],
}

/** In the order of their priority. */
const FLEETS: readonly (readonly string[])[] = [
  ['text'],
  ['words'],
  ['all'],
  ['text', 'words'],
  ['words', 'all'],
  ['text', 'words', 'all'],
  ['all, away', 'words'],
  ['all, away', 'text', 'words'],
]

const SCRIPT = ['Ann: Is this the tram?', 'Ben: (laughs) It is.'].join('\n')

let worker: TestWorker
let closedPort: number
beforeAll(async () => {
  ;[worker, closedPort] = await Promise.all([startTestWorker(), findFreePort()])
})
afterAll(() => worker.stop())

function fleetOf(kinds: readonly string[]) {
  const { url } = worker.upstream
  const common = { api_key_env: 'KEY', serves: [EFFECTIVE_REQUEST.model] } as const
  const entries: Readonly<Record<string, Omit<DeploymentsFileInput['deployments'][number], 'name' | 'serves'>>> = {
    text: {
      adapter: 'openai-compatible',
      base_url: `${url}/v1`,
      upstream_model: 'simulated-whisper',
      options: { transcript_detail: 'text' },
    },
    words: { adapter: 'openai-compatible', base_url: `${url}/v1`, upstream_model: 'simulated-whisper' },
    all: { adapter: 'elevenlabs', base_url: url, upstream_model: 'scribe_v2' },
    'all, away': {
      adapter: 'elevenlabs',
      base_url: `http://127.0.0.1:${closedPort}`,
      upstream_model: 'scribe_v2',
    },
  }
  const deployments = kinds.flatMap((kind, priority) => {
    const entry = entries[kind]
    return entry ? [{ ...common, ...entry, name: kind.replace(', ', '-'), priority }] : []
  })
  const file = parseDeployments({ deployments })
  const http = createHttp({ fetch })
  const dependencies = { environment: { KEY: 'test-key' }, providerKeys: providerKeysOf(file), http }
  return { carriers: carriersOf(file), deployments: createDeployments(file, dependencies) }
}

/** Returns what a result has. */
function giftsOf({ words = [] }: TranscriptionResult): Gift[] {
  const spoken = words.filter(({ type }) => type === 'word')
  return [
    ...(spoken.length > 0 ? ['words' as const] : []),
    ...(spoken.length > 0 && spoken.every(({ characters = [] }) => characters.length > 0)
      ? ['characters' as const]
      : []),
    ...(new Set(spoken.map(({ speaker }) => speaker)).size === 2 ? ['speakers' as const] : []),
    ...(words.some(({ type }) => type === 'audio_event') ? ['sounds' as const] : []),
  ]
}

const gives = (kind: string, wants: readonly Gift[]) => wants.every((gift) => GIVES[kind]?.includes(gift))

/** Returns what becomes of a request, by what the deployments give. */
function outcomeOf(kinds: readonly string[], wants: readonly Gift[]): 'refused' | 'delivered' | 'failed' {
  if (!kinds.some((kind) => gives(kind, wants))) return 'refused'
  return kinds.some((kind) => !kind.endsWith('away') && gives(kind, wants)) ? 'delivered' : 'failed'
}

/** The cases of one outcome, with a title for each. */
function casesOf(outcome: ReturnType<typeof outcomeOf>) {
  return FLEETS.flatMap((fleet) =>
    Object.entries(REQUESTS).flatMap(([name, { asked, wants }]) =>
      outcomeOf(fleet, wants) === outcome ? [[name, fleet.join(' + '), fleet, asked, wants] as const] : [],
    ),
  )
}

const quoteOf = (kinds: readonly string[], asked: Asked) =>
  transcriptions.quote({ ...EFFECTIVE_REQUEST, ...asked }, { ...publishedCatalog, carriers: fleetOf(kinds).carriers })

/** Accepts a priced request and lets a worker carry it out. */
async function carryOut(kinds: readonly string[], asked: Asked) {
  expect(quoteOf(kinds, asked).quotedMaximum).toBeGreaterThan(0n)
  worker.upstream.clearCalls()
  const { jobId } = await worker.accept({ effective: asked, audio: recordingOf(SCRIPT, 1500) })
  await worker.run(jobId, routedTo(fleetOf(kinds).deployments, PATIENCE_MS))
  return await worker.view(jobId)
}

describe('what a recording is asked for', () => {
  it.each(casesOf('refused'))('is refused before the price: %s of %s', (_name, _fleet, kinds, asked) => {
    expect(() => quoteOf(kinds, asked)).toThrow(expect.objectContaining({ code: 'request_unsupported' }))
  })

  it.each(casesOf('delivered'))('is delivered in full: %s of %s', async (_name, _fleet, kinds, asked, wants) => {
    const view = await carryOut(kinds, asked)
    expect(view).toMatchObject({ state: 'completed', settlements: ['confirmed'] })
    const result = transcriptions.resultSchema.parse(JSON.parse(view.result_body ?? 'null'))
    expect(giftsOf(result)).toEqual(expect.arrayContaining([...wants]))
    expect(result.text).toContain('tram')
  })

  it.each(casesOf('failed'))(
    'is not delivered by a deployment that gives less, while the other is away: %s of %s',
    async (_name, _fleet, kinds, asked) => {
      expect(await carryOut(kinds, asked)).toMatchObject({
        state: 'failed',
        failure_code: 'provider_unavailable',
        charge_amount: null,
      })
      expect(worker.upstream.calls).toEqual([])
    },
  )

  it('has cases of each kind', () => {
    const counted = (['refused', 'delivered', 'failed'] as const).map((outcome) => casesOf(outcome).length)
    expect(counted).toEqual([14, 34, 8])
  })
})
