import { readdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { walkFrames } from '#mp3/walk-frames.ts'
import { startUpstream, type Upstream } from '../../../infra/sandbox/upstream/server.ts'
import { createFliteSpeech } from '../../../infra/sandbox/upstream/speaking/flite/speak-with-flite.ts'
import { hasSound } from '../../support/media/tone-ear.ts'

/*
 * The simulated vendors of speech, as the demo and `npm start` run them: with a voice.
 */

let upstream: Upstream
beforeAll(async () => {
  upstream = await startUpstream({ speak: createFliteSpeech() })
})
afterAll(() => upstream.stop())

const TEXT = 'Please keep your ticket until you have left the station.'

async function elevenLabs(text: string, { voice = 'eleven-talia', speed = 1 } = {}) {
  const answer = await fetch(`${upstream.url}/v1/text-to-speech/${voice}?output_format=mp3_44100_128`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'xi-api-key': 'any' },
    body: JSON.stringify({ text, model_id: 'eleven_flash_v2_5', voice_settings: { speed } }),
  })
  return await mp3Of(answer)
}

async function openAi(input: string, { voice = 'open-talia', speed = 1 } = {}) {
  const answer = await fetch(`${upstream.url}/v1/audio/speech`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'simulated-speech', input, voice, speed }),
  })
  return await mp3Of(answer)
}

async function mp3Of(answer: Response) {
  expect(answer.status).toBe(200)
  expect(answer.headers.get('content-type')).toBe('audio/mpeg')
  const bytes = await answer.bytes()
  const walk = walkFrames(bytes)
  if (walk.outcome !== 'mp3') throw new Error(walk.found)
  const [, second = 0, third = 0] = bytes
  return { bytes, seconds: walk.durationMs / 1000, isMpeg1: (second & 0x08) !== 0, rates: third & 0xfc }
}

const spoken = async (voice: string) => (await elevenLabs(TEXT, { voice })).bytes

/** Returns the folders of those who speak now, and of those who were killed. */
const fliteFolders = async () => (await readdir(tmpdir())).filter((name) => name.startsWith('farebox-flite-'))

describe('real speech of the simulated vendors', () => {
  test('is the format that each vendor promises: mono, 128 kbit/s, 44.1 kHz of ElevenLabs and 24 kHz of OpenAI', async () => {
    const [one, other] = [await elevenLabs(TEXT), await openAi(TEXT)]
    // Bits of the header: ISO/IEC 11172-3 and 13818-3, section 2.4.2.3.
    expect(one).toMatchObject({ isMpeg1: true, rates: 0x90 })
    expect(other).toMatchObject({ isMpeg1: false, rates: 0xc4 })
    for (const { bytes, seconds } of [one, other]) {
      expect(hasSound(bytes)).toBe(true)
      expect(bytes.length / (seconds * 16_000)).toBeCloseTo(1, 1)
      expect(seconds).toBeGreaterThan(2)
    }
    expect(one.seconds).toBeCloseTo(other.seconds, 0)
  })

  test.each([0.25, 0.7, 1.2, 2, 4])('at the speed of %d it takes that much less time', async (speed) => {
    const [normal, changed] = [await openAi(TEXT), await openAi(TEXT, { speed })]
    // The encoder adds up to 0.1 s, and frames of sound are not divided.
    expect(Math.abs(changed.seconds - normal.seconds / speed)).toBeLessThan(0.1 + changed.seconds / 10)
  })

  test('voices differ, and one voice says the same the same way', async () => {
    const [woman, man, scot] = [
      await spoken('eleven-talia'),
      await spoken('eleven-darian'),
      await spoken('eleven-baxter'),
    ]
    expect(woman).toEqual(await spoken('eleven-bella'))
    expect(man).not.toEqual(woman)
    expect(scot).not.toEqual(man)
  })

  test.each(['日本語のテキスト', '🙂', '...', '-voice kal', '</speak>'])('%s is an MP3, too', async (text) => {
    expect((await elevenLabs(text)).seconds).toBeGreaterThan(0.1)
  })

  test('a caller who leaves ends the work, and a short text does not wait for a long one', async () => {
    const long = new AbortController()
    const earlier = await fliteFolders()
    const leaving = fetch(`${upstream.url}/v1/audio/speech`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'm', input: 'nine '.repeat(800), voice: 'v' }),
      signal: long.signal,
    })
    await openAi('Good evening.')
    expect(upstream.calls.find(({ fields }) => fields['input']?.startsWith('"nine'))?.state).toBe('arrived')
    long.abort()
    await expect(leaving).rejects.toThrow('aborted')
    await expect.poll(() => upstream.calls.some(({ state }) => state === 'aborted')).toBe(true)
    await expect.poll(async () => (await fliteFolders()).filter((name) => !earlier.includes(name))).toEqual([])
  })
})
