import { readFileSync } from 'node:fs'
import { ElevenLabsClient, ElevenLabsError } from '@elevenlabs/elevenlabs-js'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { startUpstream, type Upstream } from '../../../infra/sandbox/upstream/server.ts'

const KEY = 'sk_a_key'
const recording = readFileSync(new URL('../../../infra/sandbox/samples/two-at-the-stop.mp3', import.meta.url))

let upstream: Upstream
let client: ElevenLabsClient
const clientWith = (apiKey: string) => new ElevenLabsClient({ baseUrl: upstream.url, apiKey, maxRetries: 0 })

beforeAll(async () => {
  upstream = await startUpstream({ apiKey: KEY })
  client = clientWith(KEY)
})
afterEach(() => upstream.setFaults([]))
afterAll(() => upstream.stop())

const speak = (voice: string, text = 'Mind the step.', using = client) =>
  using.textToSpeech.convert(voice, {
    text,
    modelId: 'eleven_flash_v2_5',
    outputFormat: 'mp3_44100_128',
    voiceSettings: { speed: 1.1 },
  })

async function errorOf(call: PromiseLike<unknown>): Promise<ElevenLabsError> {
  try {
    await call
  } catch (error) {
    if (error instanceof ElevenLabsError) return error
  }
  throw new Error('no ElevenLabsError was thrown')
}

describe('ElevenLabs’ SDK reads the simulated answers of', () => {
  it('speech', async () => {
    const audio = await new Response(await speak('eleven-darian')).arrayBuffer()
    expect(audio.byteLength).toBeGreaterThan(1000)
  })

  it('a transcript with speakers, characters and events', async () => {
    const transcript = await client.speechToText.convert({
      modelId: 'scribe_v2',
      file: new Blob([recording], { type: 'audio/mpeg' }),
      diarize: true,
      timestampsGranularity: 'character',
      tagAudioEvents: true,
      languageCode: 'en',
    })
    if (!('words' in transcript)) throw new Error('no words')
    expect(transcript.text).toContain('tram')
    expect(transcript.words.some(({ speakerId }) => speakerId === 'speaker_1')).toBe(true)
    expect(transcript.words[0]?.characters?.[0]).toMatchObject({ text: expect.any(String), start: expect.any(Number) })
  })

  it('a blank recording', async () => {
    const blank = { language_code: 'eng', language_probability: 0.31, text: '', words: [], transcription_id: 'a' }
    upstream.setFaults([{ fault: 'status', status: 200, body: blank }])
    const file = new Blob([recording], { type: 'audio/mpeg' })
    expect(await client.speechToText.convert({ modelId: 'scribe_v2', file })).toMatchObject({ text: '', words: [] })
  })

  it('the account’s models and voices', async () => {
    expect((await client.models.list()).map(({ modelId }) => modelId)).toContain('eleven_flash_v2_5')
    const { voices } = await client.voices.search({ voiceIds: ['eleven-darian', 'unknown-talia'] })
    expect(voices.map(({ voiceId }) => voiceId)).toEqual(['eleven-darian'])
  })
})

describe('ElevenLabs’ SDK reads the simulated errors for', () => {
  it.each([
    ['unknown-voice', 'voice_not_found'],
    ['library-voice', 'invalid_uid'],
  ])('the voice %s', async (voice, status) => {
    expect(await errorOf(speak(voice))).toMatchObject({ statusCode: 400, body: { detail: { status } } })
  })

  it('a text that is too long', async () => {
    const error = await errorOf(speak('eleven-darian', 'a'.repeat(40_001)))
    expect(error).toMatchObject({ statusCode: 400, body: { detail: { status: 'max_character_limit_exceeded' } } })
  })

  it('a wrong key', async () => {
    const error = await errorOf(speak('eleven-darian', 'Hello.', clientWith('wrong')))
    expect(error).toMatchObject({ statusCode: 401, body: { detail: { status: 'invalid_api_key' } } })
  })

  it('a file that is not audio', async () => {
    const file = new Blob(['not audio'], { type: 'audio/mpeg' })
    const error = await errorOf(client.speechToText.convert({ modelId: 'scribe_v2', file }))
    expect(error).toMatchObject({ statusCode: 400 })
  })

  it.each([422, 429, 500])('a status of %i', async (status) => {
    upstream.setFaults([{ fault: 'status', status, body: { detail: { status: 'a_code', message: 'Try again.' } } }])
    expect(await errorOf(speak('eleven-darian'))).toMatchObject({ statusCode: status })
  })
})
