import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { limitsPath } from '../../../../../client/mcp/limits/limits-path.ts'
import { runScripted } from '../../../../unit/client/command/support/scripted-io.ts'

let folder: string
let home: string
let path: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'farebox-limits-'))
  home = join(folder, 'home')
  path = limitsPath(home)
})
afterEach(() => rm(folder, { recursive: true, force: true }))

const limits = (args: readonly string[], options: Parameters<typeof runScripted>[1] = {}) =>
  runScripted(['limits', ...args, '--home', home], options)

const stored = async () => JSON.parse(await readFile(path, 'utf8')) as unknown
const isStored = async () =>
  await readFile(path)
    .then(() => true)
    .catch(() => false)

describe('farebox limits', () => {
  it('shows what holds without a file, and creates none', async () => {
    const { code, out } = await limits([])
    expect([code, await isStored()]).toEqual([0, false])
    expect(out).toContain('a day       5 USDC\nasks above  0.05 USDC\n')
    expect(out).toContain('not there: these limits hold at first')
  })

  it('needs no service and no wallet, and shows one line with --json', async () => {
    await limits(['set', '--day', '7', '--yes'])
    const { code, out } = await limits(['--json'], { environment: {} })
    expect([code, JSON.parse(out)]).toEqual([
      0,
      { path, is_default: false, call: '0.1', session: '1', day: '7', confirm_above: '0.05', tools: {} },
    ])
  })

  it('sets limits of all tools and of one, and removes those of one', async () => {
    await limits(['set', '--call', '0.30', '--confirm-above', '0.2', '--yes'])
    await limits(['set', '--tool', 'generate_image', '--day', '1', '--call', '0.1', '--yes'])
    expect(await stored()).toEqual({
      call: '0.3',
      session: '1',
      day: '5',
      confirm_above: '0.2',
      tools: { generate_image: { call: '0.1', day: '1' } },
    })
    const { err } = await limits(['set', '--tool', 'generate_image', '--day', 'none', '--yes'])
    expect(err).toContain('generate_image day: 1 USDC → none (raised)')
    await limits(['set', '--tool', 'generate_image', '--call', 'none', '--yes'])
    expect(await stored()).toMatchObject({ tools: {} })
  })

  it('says which limits are raised', async () => {
    const { err } = await limits(['set', '--day', '9', '--session', '0.5', '--tool', 'chat', '--yes'])
    expect(err).toBe('chat session: none → 0.5 USDC\nchat day: none → 9 USDC\n')
    const { err: ofAll } = await limits(['set', '--day', '9', '--session', '0.5', '--yes'])
    expect(ofAll).toBe('session: 1 USDC → 0.5 USDC\nday: 5 USDC → 9 USDC (raised)\n')
  })

  it.each<[string, readonly string[], RegExp]>([
    ['nothing to set', ['set'], /Say what to set/],
    [
      'a tool that does not pay',
      ['set', '--tool', 'quote', '--day', '1'],
      /These do: chat, generate_image, speak, transcribe/,
    ],
    ['an agreement for one tool', ['set', '--tool', 'chat', '--confirm-above', '1'], /holds for all tools/],
    ['no limit for all tools', ['set', '--day', 'none'], /Only the limits of a tool can be removed/],
    ['an amount that is none', ['set', '--day', 'lots'], /Write an amount of USDC/],
    ['a negative amount', ['set', '--day=-1'], /Write an amount of USDC/],
    ['limits without set', ['--day', '9'], /farebox limits set/],
    ['an unknown action', ['raise'], /Allowed choices are show, set, reset/],
  ])('refuses %s as wrong usage and writes nothing', async (_title, args, message) => {
    const { code, err } = await limits([...args, '--yes'])
    expect([code, await isStored()]).toEqual([2, false])
    expect(err).toMatch(message)
  })

  it('changes nothing without --yes where nobody can be asked', async () => {
    const { code, err } = await limits(['set', '--day', '9'])
    expect([code, await isStored()]).toEqual([2, false])
    expect(err).toContain('There is no terminal to ask on')
  })

  it.each([
    ['y\n', 0, true],
    ['n\n', 130, false],
    ['\n', 130, false],
  ])('asks on a terminal, and does as %j says', async (answer, expected, isWritten) => {
    const { code, err } = await limits(['set', '--day', '9'], { input: answer, isTerminal: true })
    expect(err).toContain('Change what agents may spend? [y/N]')
    expect([code, await isStored()]).toEqual([expected, isWritten])
  })

  it.each<[string, string, number]>([
    ['is not JSON', 'day: 5', 0o600],
    ['others may read', '{}', 0o644],
  ])('does not change a file that %s, and resets it', async (_title, text, mode) => {
    await mkdir(dirname(path), { mode: 0o700 })
    await writeFile(path, text)
    await chmod(path, mode)
    expect(await limits(['set', '--day', '9', '--yes'])).toMatchObject({ code: 2 })
    expect(await readFile(path, 'utf8')).toBe(text)
    expect(await limits(['reset', '--yes'])).toMatchObject({ code: 0 })
    expect(await limits(['--json'])).toMatchObject({ code: 0, out: expect.stringContaining('"day":"5"') as string })
  })
})

describe('farebox mcp', () => {
  it.each<[string, () => string]>([
    ['around the limits file', () => folder],
    ['of the limits file', () => dirname(path)],
    ['of the journal', () => home],
  ])('does not start with an allowed folder %s', async (_title, allowed) => {
    await mkdir(home)
    await limits(['reset', '--yes'])
    const { code, err } = await runScripted(['mcp', allowed(), '--home', home])
    expect(code).not.toBe(0)
    expect(err).toContain(`${allowed()} cannot be allowed: farebox keeps`)
  })
})
