import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readWordTimes } from '../../../infra/sandbox/upstream/hearing/pocketsphinx.ts'
import { createHttp } from '../../../workers/providers/http.ts'
import { createOpenAiCompatibleTranscription } from '../../../workers/providers/openai-compatible/transcription.ts'
import type { TranscriptionOutcome } from '../../../workers/providers/provider.ts'
import { startPocketsphinxServer, type TranscriptShape } from '../../support/engines/pocketsphinx-server.ts'
import { speakInto } from '../../support/media/spoken.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { havePrograms } from '../../support/processes/optional-program.ts'

describe('the words of pocketsphinx', () => {
  it('have times from the recording’s start, and neither silence nor numbers of pronunciations', () => {
    const output = [
      'the last family',
      '<s> 0.110 0.160 0.999700',
      'the 0.170 0.310 0.979021',
      '[NOISE] 0.310 0.320 0.500000',
      'family(2) 0.770 1.370 0.881338',
      '</s> 5.030 5.120 1.000000',
      "don't 6.000 6.100 1.000000",
      '<sil> 6.200 6.300 1.000000',
      '',
    ].join('\n')
    expect(readWordTimes(output)).toEqual([
      { text: 'the', speaker: 0, startSeconds: 0.17, endSeconds: 0.31 },
      { text: 'family', speaker: 0, startSeconds: 0.77, endSeconds: 1.37 },
      { text: "don't", speaker: 0, startSeconds: 6, endSeconds: 6.1 },
    ])
    expect(readWordTimes('')).toEqual([])
  })
})

describe.skipIf(!havePrograms('ffmpeg', 'pocketsphinx_continuous'))('a server that really hears', () => {
  let folder: string
  let audio: Buffer
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'farebox-spoken-'))
    await speakInto(join(folder, 'a.mp3'), 'Good morning everyone.', 'rms')
    audio = await readFile(join(folder, 'a.mp3'))
  })
  afterAll(() => rm(folder, { recursive: true, force: true }))

  async function hear(shape: TranscriptShape, recording: Uint8Array = audio): Promise<TranscriptionOutcome> {
    const server = await startPocketsphinxServer({ shape })
    try {
      const connection = { baseUrl: `${server.url}/v1`, upstreamModel: 'pocketsphinx', http: createHttp({ fetch }) }
      const detail = shape === 'words-in-segments' ? 'words' : shape
      const adapter = createOpenAiCompatibleTranscription(connection, {
        path: '/audio/transcriptions',
        transcript_detail: detail,
      })
      const timestamps = detail === 'words' ? ('word' as const) : ('none' as const)
      const input = { audio: recording, diarize: false, timestamps, tagAudioEvents: false, needsWords: false }
      return await adapter.transcribe(input, { timeoutMs: PATIENCE_MS })
    } finally {
      await server.stop()
    }
  }

  it.each(['words', 'words-in-segments'] as const)('is read with its times, as %s', async (shape) => {
    const outcome = await hear(shape)
    if (outcome.outcome !== 'transcribed') throw new Error(outcome.reason)
    const { text, language, words = [] } = outcome.transcript
    expect(text).toContain('good morning')
    expect(language).toBe('eng')
    expect(words.map((word) => word.text).join(' ')).toBe(text)
    const times = words.flatMap(({ startSeconds, endSeconds }) => [startSeconds, endSeconds])
    expect(times).toEqual(times.toSorted((one, other) => one - other))
    expect(times.at(-1)).toBeGreaterThan(0.8)
    expect(times.at(-1)).toBeLessThan(2.5)
  })

  it.each(['segments', 'text'] as const)('is read as text alone, as %s', async (shape) => {
    const outcome = await hear(shape)
    expect(outcome).toMatchObject({
      outcome: 'transcribed',
      transcript: { text: expect.stringContaining('good') as string },
    })
    expect(outcome).not.toHaveProperty('transcript.words')
  })

  it('leaves the outcome unknown for what it cannot decode, and hears the next one', async () => {
    expect(await hear('words', Buffer.from('no audio'))).toMatchObject({ code: 'provider_outcome_unknown' })
    expect(await hear('text')).toMatchObject({ outcome: 'transcribed' })
  })
})
