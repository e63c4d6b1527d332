import { Readable } from 'node:stream'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { decimalBetween, integerBetween } from '../../../../client/command/commands/calls/option-values.ts'
import { readText } from '../../../../client/command/commands/calls/read-text.ts'
import { safeForTerminal } from '../../../../client/command/commands/chat.ts'
import { createProgram } from '../../../../client/command/program.ts'
import { type Settings, settingsOf } from '../../../../client/command/settings.ts'
import { ask, requireTerminal } from '../../../../client/command/transcribe/ask.ts'
import { readTask, type TranscribeOptions } from '../../../../client/command/transcribe/read-task.ts'
import { editDistance, nearNames } from '../../../../client/requests/service-lists.ts'
import { chatRequest } from '../../../../client/requests/text-requests.ts'
import { runScripted, scriptedIo } from '../../../support/client/scripted-io.ts'

const VARIABLES = [
  'FAREBOX_URL',
  'FAREBOX_RPC_URL',
  'FAREBOX_HOME',
  'FAREBOX_BUDGET',
  'FAREBOX_CALL_BUDGET',
  'FAREBOX_DAY_BUDGET',
  'FAREBOX_PRIVATE_KEY',
  'FAREBOX_KEY_FILE',
  'FAREBOX_WALLET_MODULE',
]
const KEY = 'a5'.repeat(32)
function settingsFor(args: readonly string[]): Settings {
  let settings: Settings | undefined
  const program = createProgram(scriptedIo(), () => undefined)
  const look = program.command('look').action(() => {
    settings = settingsOf(look)
  })
  program.parse(args, { from: 'user' })
  if (settings === undefined) throw new Error('the command did not run')
  return settings
}
const DEFAULTS: TranscribeOptions = { events: true, concurrency: 8 }
const never = new AbortController()
const MODELS = ['textmodel-3.6-flash', 'textmodel-3.5-flash', 'textmodel-3.5-flash-lite', 'speechvendor/scribe-v2']
const { signal } = new AbortController()

describe('settings of the command', () => {
  beforeEach(() => VARIABLES.forEach((name) => vi.stubEnv(name, undefined)))

  afterEach(() => vi.unstubAllEnvs())

  describe('settings of the program', () => {
    it('a flag counts before and after the name of the command', () => {
      expect(settingsFor(['--url', 'https://a.example', 'look']).url).toBe('https://a.example')
      expect(settingsFor(['look', '--url', 'https://a.example']).url).toBe('https://a.example')
    })

    it('a flag wins over its variable, and a variable over nothing', () => {
      vi.stubEnv('FAREBOX_URL', 'https://env.example')
      vi.stubEnv('FAREBOX_BUDGET', '7')
      expect(settingsFor(['look'])).toMatchObject({ url: 'https://env.example', budget: { session: '7' } })
      const flags = settingsFor(['look', '--url', 'https://flag.example', '--budget', '0.15'])
      expect(flags).toMatchObject({ url: 'https://flag.example', budget: { session: '0.15' } })
    })

    it('an empty variable is the same as none', () => {
      for (const name of VARIABLES) vi.stubEnv(name, '')
      expect(settingsFor(['look'])).toEqual({
        url: undefined,
        keyFile: undefined,
        rpcUrl: undefined,
        home: undefined,
        budget: {},
        json: false,
      })
    })

    it.each(['5 USD', '-1', '0.1234567', '1e3', '$5', ' '])('refuses %j as an amount', async (amount) => {
      const { code, err } = await runScripted(['transcribe', 'a.mp3', `--budget=${amount}`])
      expect(code).toBe(2)
      expect(err).toContain('at most six decimals')
    })

    it('refuses an amount that a variable names', async () => {
      vi.stubEnv('FAREBOX_DAY_BUDGET', 'ten')
      const { code, err } = await runScripted(['transcribe', 'a.mp3'])
      expect(code).toBe(2)
      expect(err).toContain('FAREBOX_DAY_BUDGET')
    })
  })

  describe('private keys', () => {
    it.each([
      ['as a flag with =', ['transcribe', 'a.mp3', `--private-key=0x${KEY}`]],
      ['as a flag with a space', ['transcribe', 'a.mp3', '--private-key', `0x${KEY}`]],
      ['as a command', [`0x${KEY}`]],
      ['without 0x', [KEY.toUpperCase()]],
      ['as a flag of its own', [`--${KEY}`]],
      ['as a number', ['transcribe', 'a.mp3', '--concurrency', KEY]],
    ])('a key that is passed %s is refused and not repeated', async (_form, args) => {
      const { code, err, out } = await runScripted(args)
      expect(code).toBe(2)
      expect((err + out).toLowerCase()).not.toContain(KEY)
    })

    it.each([
      ['transcribe', ['a.mp3', '--yes']],
      ['chat', ['Hello']],
      ['say', ['Hello', '--out', 'hello.mp3']],
      ['image', ['A cat', '--out', 'cat.png']],
    ])(
      'a missing wallet of %s is a usage error that names the variables, without a wait for the service',
      async (command, args) => {
        const { code, err } = await runScripted([command, ...args, '--url', 'https://a.invalid'])
        expect(code).toBe(2)
        expect(err).toMatch(/FAREBOX_PRIVATE_KEY.*FAREBOX_KEY_FILE/)
      },
    )

    it('a malformed key is not repeated', async () => {
      vi.stubEnv('FAREBOX_PRIVATE_KEY', `0x${KEY}0`)
      const { code, err } = await runScripted(['transcribe', 'a.mp3', '--yes', '--url', 'https://a.example'])
      expect(code).toBe(2)
      expect(err).not.toContain(KEY)
    })
  })
})

const readArguments = (paths: readonly string[], options: Partial<TranscribeOptions> = {}, isJson = false) =>
  readTask(paths, { ...DEFAULTS, ...options }, isJson)

describe('arguments of transcribe', () => {
  beforeEach(() => vi.stubEnv('FAREBOX_URL', undefined))
  afterEach(() => vi.unstubAllEnvs())

  it.each<[string, readonly string[], Partial<TranscribeOptions>, boolean]>([
    ['no path', [], {}, false],
    ['audio and a list on standard input', ['-'], { filesFrom: '-' }, false],
    ['audio on standard input and files', ['-', 'a.mp3'], {}, false],
    ['two formats on standard output', ['-'], { format: 'txt,srt' }, false],
    ['an unknown format', ['a.mp3'], { format: 'srt,doc' }, false],
    ['an empty format', ['a.mp3'], { format: '' }, false],
    ['transcripts and events on standard output', ['a.mp3'], { out: '-' }, true],
    ['receipts next to standard output', ['-'], { receipts: true }, false],
    ['speakers that are required and not asked for', ['a.mp3'], { speakers: 'none', requireSpeakers: true }, false],
    ['a number of speakers that are not asked for', ['a.mp3'], { speakers: 'none', numSpeakers: 2 }, false],
  ])('refuses %s', (_what, paths, options, isJson) => {
    expect(() => readArguments(paths, options, isJson)).toThrow(expect.objectContaining({ name: 'UsageError' }))
  })

  it('writes srt next to the recordings by default, and txt to standard output', () => {
    expect(readArguments(['a.mp3'])).toMatchObject({ isPrinted: false, batch: { formats: ['srt'], output: {} } })
    expect(readArguments(['-'])).toMatchObject({ isPrinted: true, isInputTaken: true, batch: { formats: ['txt'] } })
    expect(readArguments(['a.mp3'], { out: '-' })).toMatchObject({ isPrinted: true, isInputTaken: false })
    expect(readArguments(['-'], { out: 'texts' })).toMatchObject({
      isPrinted: false,
      batch: { output: { folder: 'texts' } },
    })
  })

  it('passes each option on', () => {
    const { batch } = readArguments(['a.mp3'], {
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
      request: { language: 'de', num_speakers: 3, diarize: true, tag_audio_events: false },
      subtitles: { style: 'bbc', speakers: 'label', language: 'de', maximumLine: 30, maximumLines: 1 },
      concurrency: 64,
      pack: true,
      receipts: true,
      again: true,
      force: false,
      patienceMs: 120_000,
      ffmpegPath: '/opt/ffmpeg',
    })
  })

  it('asks for neither speakers nor sounds when neither is wanted', () => {
    const { batch } = readArguments(['a.mp3'], { speakers: 'none', events: false })
    expect(batch.request).toEqual({ diarize: false, tag_audio_events: false })
  })

  it.each<Partial<TranscribeOptions>>([{ requireSpeakers: true }, { speakers: 'dash' }, { speakers: 'label' }])(
    'demands speakers with %o',
    (options) => {
      expect(readArguments(['a.mp3'], options).batch.request).toEqual({ diarize: true })
    },
  )

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

  it.each([[[]], [['nonsense']], [['transcribe']]])('%j is a usage error', async (args) => {
    const { code, out } = await runScripted(args)
    expect(code).toBe(2)
    expect(out).toBe('')
  })

  it('a service that is not named is a usage error that names the setting', async () => {
    const { code, err } = await runScripted(['transcribe', 'a.mp3', '--dry-run'])
    expect(code).toBe(2)
    expect(err).toContain('FAREBOX_URL')
  })

  it.each(['chat', 'image', 'say'])('%s refuses a --request-id that is no key as wrong usage', async (command) => {
    for (const id of ['a b', '', 'ä', 'k'.repeat(256)]) {
      const { code, err } = await runScripted([command, '--request-id', id, 'x'])
      expect(code).toBe(2)
      expect(err).toMatch(/--request-id.*Write 1 to 255 visible ASCII characters/)
    }
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

describe('the question before the first payment', () => {
  it.each([
    ['y\n', true],
    ['YES\n', true],
    [' y \n', true],
    ['n\n', false],
    ['\n', false],
    ['yellow\n', false],
    ['', false],
  ])('%j means %j', async (input, agreed) => {
    const io = scriptedIo({ input, isTerminal: true })
    expect(await ask(io, 'Pay up to 5 USDC? [y/N] ', never.signal)).toBe(agreed)
    expect(io.written.err).toContain('Pay up to 5 USDC?')
    expect(io.written.out).toBe('')
  })

  it('is declined by an interrupt', async () => {
    const interrupt = new AbortController()
    const silent = new Readable({ read: () => undefined })
    const io = { ...scriptedIo({ isTerminal: true }), stdin: silent }
    const answer = ask(io, 'Pay? ', interrupt.signal)
    interrupt.abort()
    expect(await answer).toBe(false)
  })

  it('needs a terminal to read from and to show it on', () => {
    const terminal = scriptedIo({ isTerminal: true })
    expect(() => requireTerminal(terminal, false)).not.toThrow()
    const usageError = expect.objectContaining({ name: 'UsageError', message: expect.stringContaining('--yes') })
    expect(() => requireTerminal(terminal, true)).toThrow(usageError)
    expect(() => requireTerminal(scriptedIo(), false)).toThrow(usageError)
    expect(() => requireTerminal({ ...terminal, stderr: scriptedIo().stderr }, false)).toThrow(usageError)
  })
})

describe('numbers', () => {
  it('are taken within their bounds', () => {
    expect(integerBetween(1, 65_536)('65536')).toBe(65_536)
    expect(decimalBetween(0.7, 1.2)('0.95')).toBe(0.95)
  })

  it.each(['0', '11', '1.5', '-1', '1e1', '', ' 2', 'NaN', 'Infinity'])('refuses %j as 1 to 10', (text) => {
    expect(() => integerBetween(1, 10)(text)).toThrow('Write an integer from 1 to 10.')
  })

  it.each(['0.69', '1.21', '1,0', '.9', '', 'fast'])('refuses %j as 0.7 to 1.2', (text) => {
    expect(() => decimalBetween(0.7, 1.2)(text)).toThrow('Write a number from 0.7 to 1.2.')
  })
})

describe('editDistance', () => {
  it.each([
    ['', '', 0],
    ['abc', 'abc', 0],
    ['abc', '', 3],
    ['kitten', 'sitting', 3],
    ['talia', 'tlaia', 1],
    ['talia', 'tali', 1],
  ])('of %j and %j is %d', (from, to, distance) => {
    expect(editDistance(from, to)).toBe(distance)
  })

  it('is symmetric, zero only for equal texts, and at most the longer length', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 8 }), fc.string({ maxLength: 8 }), (one, other) => {
        const distance = editDistance(one, other)
        expect(distance).toBe(editDistance(other, one))
        expect(distance === 0).toBe(one === other)
        expect(distance).toBeLessThanOrEqual(Math.max(one.length, other.length))
        expect(distance).toBeGreaterThanOrEqual(Math.abs(one.length - other.length))
      }),
    )
  })
})

describe('nearNames', () => {
  it('suggests only the nearest name for a slip of the hand', () => {
    expect(nearNames('textmodel-3.6-flsh', MODELS)).toEqual(['textmodel-3.6-flash'])
  })

  it('suggests all names that contain a part, up to three, nearest first', () => {
    expect(nearNames('flash', MODELS)).toEqual([
      'textmodel-3.6-flash',
      'textmodel-3.5-flash',
      'textmodel-3.5-flash-lite',
    ])
  })

  it('ignores case', () => {
    expect(nearNames('SCRIBE-V2', MODELS)).toEqual(['speechvendor/scribe-v2'])
  })

  it('suggests nothing for a name that resembles none', () => {
    expect(nearNames('gpt-4o', MODELS)).toEqual([])
  })
})

function readPrompt(words: readonly string[], input?: string, isTerminal = false) {
  return readText(scriptedIo({ ...(input !== undefined && { input }), isTerminal }), words, signal, 'prompt')
}

describe('readText', () => {
  it('joins words by spaces', async () => {
    expect(await readPrompt(['Name', 'three', 'stops.'])).toBe('Name three stops.')
  })

  it('replaces - by standard input as a paragraph of its own', async () => {
    expect(await readPrompt(['Sum', 'up:', '-', 'In', 'English.'], 'the text\n')).toBe(
      'Sum up:\n\nthe text\n\nIn English.',
    )
  })

  it('reads standard input without arguments, and removes only the last line break', async () => {
    expect(await readPrompt([], 'one\n\ntwo\n\n')).toBe('one\n\ntwo\n')
    expect(await readPrompt([], 'one\r\n')).toBe('one')
  })

  it('leaves standard input alone when all is said in arguments', async () => {
    const io = { ...scriptedIo(), stdin: new Readable({ read: () => expect.unreachable() }) }
    expect(await readText(io, ['hello'], signal, 'prompt')).toBe('hello')
  })

  it.each([
    ['nothing on a terminal', [], '', true, 'No prompt was entered'],
    ['an empty pipe', [], '', false, 'The prompt is empty'],
    ['only spaces', ['  '], '', false, 'The prompt is empty'],
    ['standard input twice', ['-', '-'], 'a', false, 'only once'],
  ])('refuses %s', async (_name, words, input, isTerminal, message) => {
    await expect(readPrompt(words, input, isTerminal)).rejects.toMatchObject({
      code: 'usage',
      message: expect.stringContaining(message) as string,
    })
  })

  it('refuses what is no UTF-8, and what is longer than any prompt', async () => {
    const binary = { ...scriptedIo(), stdin: Readable.from([Buffer.from([0xff, 0xfb, 0x90])]) }
    await expect(readText(binary, [], signal, 'prompt')).rejects.toThrow('not text in UTF-8')
    const megabyte = Buffer.alloc(1 << 20, 'a')
    const long = { ...scriptedIo(), stdin: Readable.from(Array.from({ length: 17 }, () => megabyte)) }
    await expect(readText(long, [], signal, 'prompt')).rejects.toThrow('longer than 16 MiB')
  })

  it('stops waiting for standard input when the program is interrupted', async () => {
    const interrupt = new AbortController()
    const io = { ...scriptedIo(), stdin: new Readable({ read: () => undefined }) }
    const text = readText(io, [], interrupt.signal, 'prompt')
    interrupt.abort()
    await expect(text).rejects.toMatchObject({ name: 'AbortError' })
  })
})

describe('answers on a terminal', () => {
  it('lose control characters, and keep tabs, line breaks and every script', () => {
    expect(safeForTerminal('a\tb\n\u001b[31mred\u009b0m\r\u0007\u007f שלום 日本 👩‍👩‍👧')).toBe(
      'a\tb\n[31mred0m שלום 日本 👩‍👩‍👧',
    )
  })
})

describe('the request of a prompt', () => {
  it('leaves to the service what was not asked for', () => {
    const messages = [{ role: 'user', content: 'hi' }]
    expect(chatRequest('m', 'hi', {})).toEqual({ model: 'm', messages })
    expect(chatRequest('m', 'hi', { system: 'Be brief.', maxTokens: 5 })).toEqual({
      model: 'm',
      messages: [{ role: 'system', content: 'Be brief.' }, ...messages],
      max_tokens: 5,
    })
  })
})
