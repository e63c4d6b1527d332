import { readFile } from 'node:fs/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { makePaidCall } from '../../../infra/paid-call.ts'
import { findEngines, LONGEST_FOR_POCKETSPHINX_MS } from '../../../infra/sandbox/engines.ts'
import { convertAudio } from '../../../infra/sandbox/upstream/ffmpeg.ts'
import { startUpstream, type Upstream } from '../../../infra/sandbox/upstream/server.ts'
import { generateMp3 } from '../../support/media/mp3-generator.ts'
import { wordErrorRate } from '../../support/media/word-errors.ts'
import { havePrograms } from '../../support/processes/optional-program.ts'
import { startTestSandbox, type TestSandbox } from '../../support/processes/test-sandbox.ts'

const SENTENCES = [
  'The last train to the city leaves from the second platform at a quarter past nine.',
  'Please keep your ticket until you have left the station, because it may be checked on the way.',
  'She opened the window and listened to the rain on the roof of the old house.',
  'Nobody in the village could remember a winter as long and as cold as this one.',
  'The doctor asked him how long he had been ill and whether he was able to sleep at night.',
  'We bought bread, cheese, and a bottle of water before we walked down to the river.',
  'If the machine does not return your money, tell the driver, and he will write down your name.',
  'The company said on Monday that it would open three new offices by the end of the year.',
  'Children under the age of six travel free of charge when an adult is with them.',
  'My brother has worked in the same factory for more than twenty years and still likes it.',
].join(' ')

/** Clips of a reading that Debian's package `pocketsphinx-testdata` ships, of LibriVox, and its text. */
const READING = '/usr/share/pocketsphinx/test/data/librivox'

const WAV_HEADER_BYTES = 44
/** Half a second at 16 kHz. */
const SILENCE = Buffer.alloc(16_000)

const speechModel = 'speechvendor/flash-v2.5'
const hearingModel = 'speechvendor/scribe-v2'

function call(sandbox: TestSandbox, path: string, body: Record<string, unknown>) {
  return makePaidCall(
    { baseUrl: sandbox.info.baseUrl, sign: (challenge) => sandbox.payer.sign(challenge) },
    { path, body },
  )
}

describe.skipIf(!havePrograms('pocketsphinx_continuous'))(
  'a sandbox that speaks with flite and hears with pocketsphinx',
  () => {
    let sandbox: TestSandbox
    beforeAll(async () => {
      const engines = await findEngines({})
      sandbox = await startTestSandbox({ engines, upstreamEntry: 'infra/sandbox/upstream/main.ts' })
    })
    afterAll(() => sandbox.stop())

    async function transcribe(mp3: Uint8Array) {
      const audio_base64 = Buffer.from(mp3).toString('base64')
      const { answer } = await call(sandbox, '/v1/audio/transcriptions', { model: hearingModel, audio_base64 })
      return (answer as { text: string }).text
    }

    it.each(['darian', 'talia', 'baxter'])('of 100 words of %s, it hears at least 85', async (voice) => {
      const { answer } = await call(sandbox, '/v1/audio/speech', { model: speechModel, input: SENTENCES, voice })
      const [media] = (answer as { data: { url: string }[] }).data
      const wrong = wordErrorRate(SENTENCES, await transcribe(await (await fetch(media?.url ?? '')).bytes()))
      console.log(`${voice}: ${(wrong * 100).toFixed(1)} % of the words are wrong`)
      expect(wrong).toBeLessThanOrEqual(0.15)
    })

    it('hears a recorded reading of a book as well as it can', async () => {
      const ids = (await readFile(`${READING}/fileids`, 'utf8')).trim().split('\n')
      const clips = await Promise.all(ids.map((id) => readFile(`${READING}/${id.slice(id.lastIndexOf('/') + 1)}.wav`)))
      const samples = Buffer.concat(clips.flatMap((clip) => [clip.subarray(WAV_HEADER_BYTES), SILENCE]))
      const header = Buffer.from(clips[0]?.subarray(0, WAV_HEADER_BYTES) ?? [])
      header.writeUInt32LE(samples.length, WAV_HEADER_BYTES - 4)
      const format = ['-c:a', 'libmp3lame', '-b:a', '64k', '-f', 'mp3']
      const mp3 = await convertAudio(Buffer.concat([header, samples]), { from: 'wav', to: format })
      const text = (await readFile(`${READING}/transcription`, 'utf8')).replaceAll(/<[^>]*>|\(.*\)/g, '')
      const wrong = wordErrorRate(text, await transcribe(mp3))
      console.log(`reading: ${(wrong * 100).toFixed(1)} % of the words are wrong`)
      expect(wrong).toBeLessThan(0.5)
    })

    it('refuses a longer recording than it can hear in time, before a price, and says so in the list of models', async () => {
      const { data } = (await (await fetch(`${sandbox.info.baseUrl}/v1/models`)).json()) as {
        data: Record<string, unknown>[]
      }
      expect(JSON.stringify(data.find(({ id }) => id === hearingModel))).toContain(String(LONGEST_FOR_POCKETSPHINX_MS))
      const mp3 = generateMp3({ durationMs: LONGEST_FOR_POCKETSPHINX_MS + 1000, sampleRate: 48_000, bitrate: 32 })
      const refused = await sandbox.post('/v1/audio/transcriptions', {
        model: hearingModel,
        audio_base64: Buffer.from(mp3).toString('base64'),
      })
      expect(refused.status).toBe(400)
      expect(await refused.json()).toMatchObject({ error: { code: 'audio_too_long' } })
    })
  },
)

describe('a sandbox with engines of the caller', () => {
  let own: Upstream
  let sandbox: TestSandbox
  beforeAll(async () => {
    own = await startUpstream()
    const engines = await findEngines({
      TEXT_URL: own.url,
      IMAGE_URL: own.url,
      HEARING_URL: own.url,
      TEXT_MODEL: 'own-text',
      IMAGE_MODEL: 'own-image',
      HEARING_MODEL: 'own-hearing',
    })
    sandbox = await startTestSandbox({ engines, upstreamEntry: 'infra/sandbox/upstream/main.ts' })
  })
  afterAll(async () => {
    await sandbox.stop()
    await own.stop()
  })

  it.each([
    [
      '/v1/chat/completions',
      'own-text',
      { model: 'textmodel-3.5-flash', messages: [{ role: 'user', content: 'Hello' }] },
    ],
    [
      '/v1/messages',
      'own-text',
      { model: 'textmodel-2.5-pro', max_tokens: 99, messages: [{ role: 'user', content: 'Hello' }] },
    ],
    ['/v1/images/generations', 'own-image', { model: 'textmodel-3.1-flash-lite-image', prompt: 'A tram' }],
    ['/v1/audio/transcriptions', 'own-hearing', { model: hearingModel }],
  ])('sends %s to the engine, and to no simulated vendor', async (path, model, body) => {
    const upload = { audio_base64: sandbox.sample.toString('base64') }
    const { charge } = await call(sandbox, path, model === 'own-hearing' ? { ...body, ...upload } : body)
    expect(charge).toBeGreaterThan(0n)
    expect(own.calls.at(-1)?.fields['model']?.replaceAll('"', '')).toBe(model)
    expect(await sandbox.upstreamCalls()).toEqual([])
  })

  it('sends speech to the voice of the sandbox', async () => {
    const before = own.calls.length
    await call(sandbox, '/v1/audio/speech', { model: speechModel, input: 'Good evening.' })
    expect(own.calls).toHaveLength(before)
  })
})
