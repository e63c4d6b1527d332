import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { createProgram } from '../../../../client/command/program.ts'
import { type Settings, settingsOf } from '../../../../client/command/settings.ts'
import { runScripted, scriptedIo } from './support/scripted-io.ts'

const VARIABLES = [
  'FAREBOX_URL',
  'FAREBOX_RPC_URL',
  'FAREBOX_HOME',
  'FAREBOX_BUDGET',
  'FAREBOX_CALL_BUDGET',
  'FAREBOX_DAY_BUDGET',
  'FAREBOX_PRIVATE_KEY',
  'FAREBOX_KEY_FILE',
]
beforeEach(() => VARIABLES.forEach((name) => vi.stubEnv(name, undefined)))
afterEach(() => vi.unstubAllEnvs())

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

  it('a missing wallet is a usage error that names the variables', async () => {
    const { code, err } = await runScripted(['transcribe', 'a.mp3', '--yes', '--url', 'https://a.example'])
    expect(code).toBe(2)
    expect(err).toMatch(/FAREBOX_PRIVATE_KEY.*FAREBOX_KEY_FILE/)
  })

  it('a malformed key is not repeated', async () => {
    vi.stubEnv('FAREBOX_PRIVATE_KEY', `0x${KEY}0`)
    const { code, err } = await runScripted(['transcribe', 'a.mp3', '--yes', '--url', 'https://a.example'])
    expect(code).toBe(2)
    expect(err).not.toContain(KEY)
  })
})
