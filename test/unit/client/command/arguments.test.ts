import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { readTask, type TranscribeOptions } from '../../../../client/command/transcribe/read-task.ts'
import { runScripted } from './support/scripted-io.ts'

beforeEach(() => vi.stubEnv('FAREBOX_URL', undefined))
afterEach(() => vi.unstubAllEnvs())

const DEFAULTS: TranscribeOptions = { events: true, concurrency: 8 }

const read = (paths: readonly string[], options: Partial<TranscribeOptions> = {}, isJson = false) =>
  readTask(paths, { ...DEFAULTS, ...options }, isJson)

describe('arguments of transcribe', () => {
  it.each<[string, readonly string[], Partial<TranscribeOptions>, boolean]>([
    ['no path', [], {}, false],
    ['audio and a list on standard input', ['-'], { filesFrom: '-' }, false],
    ['audio on standard input and files', ['-', 'a.mp3'], {}, false],
    ['two formats on standard output', ['-'], { format: 'txt,srt' }, false],
    ['an unknown format', ['a.mp3'], { format: 'srt,doc' }, false],
    ['an empty format', ['a.mp3'], { format: '' }, false],
    ['transcripts and events on standard output', ['a.mp3'], { out: '-' }, true],
    ['receipts next to standard output', ['-'], { receipts: true }, false],
    ['watching standard input', ['-'], { watch: true }, false],
    ['watching a list', [], { watch: true, filesFrom: 'list' }, false],
    ['watching without paying', ['a'], { watch: true, dryRun: true }, false],
    ['watching and paying again', ['a'], { watch: true, again: true }, false],
  ])('refuses %s', (_what, paths, options, isJson) => {
    expect(() => read(paths, options, isJson)).toThrow(expect.objectContaining({ name: 'UsageError' }))
  })

  it('writes srt next to the recordings by default, and txt to standard output', () => {
    expect(read(['a.mp3'])).toMatchObject({ isPrinted: false, batch: { formats: ['srt'], output: {} } })
    expect(read(['-'])).toMatchObject({ isPrinted: true, isInputTaken: true, batch: { formats: ['txt'] } })
    expect(read(['a.mp3'], { out: '-' })).toMatchObject({ isPrinted: true, isInputTaken: false })
    expect(read(['-'], { out: 'texts' })).toMatchObject({ isPrinted: false, batch: { output: { folder: 'texts' } } })
  })

  it('passes each option on', () => {
    const { batch } = read(['a.mp3'], {
      format: 'VTT, json,vtt',
      name: '{folder}/{name}',
      style: 'bbc',
      speakers: 'label',
      numSpeakers: 3,
      events: false,
      language: 'de',
      maxLine: 30,
      maxLines: 1,
      concurrency: 64,
      pack: true,
      receipts: true,
      again: true,
      patience: 2,
      ffmpeg: '/opt/ffmpeg',
    })
    expect(batch).toEqual({
      formats: ['vtt', 'json'],
      output: { folder: undefined, template: '{folder}/{name}' },
      request: { language: 'de', num_speakers: 3, tag_audio_events: false },
      subtitles: { style: 'bbc', speakers: 'label', language: 'de', maximumLine: 30, maximumLines: 1 },
      concurrency: 64,
      pack: true,
      receipts: true,
      again: true,
      patienceMs: 120_000,
      ffmpegPath: '/opt/ffmpeg',
    })
  })

  it.each([
    ['--concurrency', '0'],
    ['--concurrency', '1.5'],
    ['--concurrency', '-3'],
    ['--max-line', 'wide'],
    ['--style', 'disney'],
    ['--speakers', 'all'],
    ['--format', 'doc'],
    ['--nonsense', ''],
  ])('%s %s is a usage error', async (flag, value) => {
    const { code, out, err } = await runScripted(['transcribe', 'a.mp3', flag, value])
    expect(code).toBe(2)
    expect(out).toBe('')
    expect(err).toMatch(/^error: /)
  })

  it.each([[[]], [['nonsense']], [['transcribe']], [['completion', 'tcsh']]])('%j is a usage error', async (args) => {
    const { code, out } = await runScripted(args)
    expect(code).toBe(2)
    expect(out).toBe('')
  })

  it('a service that is not named is a usage error that names the setting', async () => {
    const { code, err } = await runScripted(['transcribe', 'a.mp3', '--dry-run'])
    expect(code).toBe(2)
    expect(err).toContain('FAREBOX_URL')
  })

  it('an argument cannot send escape sequences to the terminal', async () => {
    const { err } = await runScripted(['\u001b]0;owned\u0007\u001b[2J'])
    expect(err).not.toMatch(/(?!\n)\p{Cc}/u)
  })

  it('help has examples and the exit codes, and succeeds', async () => {
    const { code, out, err } = await runScripted(['transcribe', '--help'])
    expect(code).toBe(0)
    expect(err).toBe('')
    for (const text of ['Examples:', 'Exit codes:', '--budget <usdc>', 'FAREBOX_URL']) expect(out).toContain(text)
  })
})
