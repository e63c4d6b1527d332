import { chmod, mkdir, mkdtemp, readdir, readFile, rename, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { homeDirectory } from '../../../../client/journal/home-directory.ts'
import { writeLimits } from '../../../../client/mcp/limits/change-limits.ts'
import { DEFAULT_LIMITS, limitsCommand, limitsPath, readLimitsFile } from '../../../../client/mcp/limits/limits-file.ts'
import { openLimits } from '../../../../client/mcp/limits/open-limits.ts'
import { runScripted } from '../../../support/client/scripted-io.ts'

const refusal = (problem: string, advice: string) =>
  expect.objectContaining({
    code: 'limits_unusable',
    money: 'none',
    problem: expect.stringContaining(problem) as string,
    advice: expect.stringContaining(advice) as string,
  }) as Error

describe('the file of limits', () => {
  let folder: string
  let home: string
  let path: string
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'farebox-limits-'))
    home = join(folder, 'home')
    path = limitsPath(home)
  })

  afterEach(() => rm(folder, { recursive: true, force: true }))

  /** Writes a limits file as a person would with an editor. */
  async function edit(content: unknown, mode = 0o600): Promise<void> {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 })
    await writeFile(path, typeof content === 'string' ? content : JSON.stringify(content), { mode })
    await chmod(path, mode)
  }
  const current = () => openLimits(home).current()
  describe('the limits file', () => {
    it('is in a folder of its own next to the journal', () => {
      expect(limitsPath('/data/farebox')).toBe('/data/farebox-limits/limits.json')
      expect(limitsPath('/data/farebox/')).toBe('/data/farebox-limits/limits.json')
    })

    it('need not be there: then the limits are low', () => {
      expect(current()).toEqual({ call: '0.1', session: '1', day: '5', confirmAbove: '0.05', tools: {} })
      expect(readLimitsFile(path)).toBeNull()
    })

    it('is read at each use, and what it leaves out has its default', async () => {
      const store = openLimits(home)
      await edit({ day: '2.50' })
      expect(store.current()).toEqual({ ...DEFAULT_LIMITS, day: '2.5' })
      await edit({ day: '2', tools: { chat: { day: '0.5' } } })
      expect(store.budget()).toMatchObject({ call: '0.1', session: '1', day: '2', groups: { chat: { day: '0.5' } } })
    })

    it.each([0o640, 0o604, 0o660, 0o606, 0o644, 0o777])(
      'is refused with mode %o, with the command that mends it',
      async (mode) => {
        await edit({ day: '2' }, mode)
        expect(current).toThrow(refusal(`(mode ${mode.toString(8)})`, `chmod 600 ${path}`))
        await chmod(path, 0o600)
        expect(current().day).toBe('2')
      },
    )

    it('is refused in a folder that others may write to', async () => {
      await edit({ day: '2' })
      await chmod(dirname(path), 0o770)
      expect(current).toThrow(refusal('accessible to other users', `chmod 700 ${dirname(path)}`))
    })

    it('is refused as a symbolic link', async () => {
      await edit({ day: '2' })
      await rename(path, join(folder, 'elsewhere.json'))
      await symlink(join(folder, 'elsewhere.json'), path)
      expect(current).toThrow(refusal('is a symbolic link', 'farebox limits reset'))
    })

    it('is refused as a folder', async () => {
      await mkdir(path, { recursive: true, mode: 0o700 })
      expect(current).toThrow(refusal('is not a regular file', 'farebox limits reset'))
    })

    it.runIf(process.getuid?.() === 0)('is refused if it belongs to another user', async () => {
      await edit({ day: '2' })
      const { chown } = await import('node:fs/promises')
      await chown(path, 12_345, 12_345)
      expect(current).toThrow(refusal('belongs to another user', 'chown'))
    })

    it.each<[string, unknown]>([
      ['text', 'day: 5'],
      ['nothing', ''],
      ['half of it', '{"day":"5"'],
      ['a list', []],
      ['a misspelled limit', { dayy: '1' }],
      ['a misspelled tool', { tools: { chatt: { day: '1' } } }],
      ['a tool that does not pay', { tools: { quote: { day: '1' } } }],
      ['a misspelled limit of a tool', { tools: { chat: { daily: '1' } } }],
      ['a limit of one tool that only all have', { tools: { chat: { confirm_above: '1' } } }],
      ['a number', { day: 5 }],
      ['a negative amount', { day: '-1' }],
      ['an exponent', { day: '1e9' }],
      ['infinity', { day: 'Infinity' }],
      ['seven decimals', { day: '0.0000001' }],
      ['no amount', { day: '' }],
      ['null', { day: null }],
      ['more than 64 KiB', `{"day":"5"${' '.repeat(70_000)}}`],
    ])('is refused as a whole with %s', async (_title, content) => {
      await edit(content)
      expect(current).toThrow(refusal('limits file', 'farebox limits reset'))
    })

    it('that is gone does not bring back the defaults, which may be higher', async () => {
      const store = openLimits(home)
      await edit({ day: '1' })
      expect(store.current().day).toBe('1')
      await rm(path)
      expect(() => store.current()).toThrow(refusal('is gone', 'farebox limits reset'))
      expect(() => store.budget()).toThrow(refusal('is gone', 'farebox limits reset'))
    })

    it('is narrowed by the budgets of the environment and never widened', async () => {
      await edit({ call: '0.5', session: '3', day: '4' })
      const store = openLimits(home, { call: '9', session: '2' })
      expect(store.current()).toMatchObject({ call: '0.5', session: '2', day: '4' })
      const advice = (name: 'call' | 'session', limitAtomic: bigint) =>
        store.budget().advice?.({ name, group: null, limitAtomic, neededAtomic: 2_500_000n })
      expect(advice('session', 2_000_000n)).toContain('FAREBOX_BUDGET to at least 2.5')
      expect(advice('call', 500_000n)).toContain('farebox limits set --call 2.5')
    })
  })

  describe('writing limits', () => {
    it('creates a file that only its owner may read, in a folder that only they may open', async () => {
      await writeLimits(path, { ...DEFAULT_LIMITS, day: '7' })
      expect((await stat(path)).mode & 0o777).toBe(0o600)
      expect((await stat(dirname(path))).mode & 0o777).toBe(0o700)
      expect(await readdir(dirname(path))).toEqual(['limits.json'])
      expect(current().day).toBe('7')
    })

    it('replaces the file at once: whoever reads meanwhile sees one of both', async () => {
      const [low, high] = [DEFAULT_LIMITS, { ...DEFAULT_LIMITS, day: '9' }]
      await writeLimits(path, low)
      const seen = new Set<string>()
      const reading = setInterval(() => seen.add(current().day), 0)
      for (let index = 0; index < 40; index += 1) await writeLimits(path, index % 2 === 0 ? high : low)
      clearInterval(reading)
      expect([...seen].sort()).toEqual(['5', '9'])
    })

    it('replaces a link instead of what it leads to', async () => {
      await edit({ day: '2' })
      const other = join(folder, 'other.json')
      await rename(path, other)
      await symlink(other, path)
      await writeLimits(path, DEFAULT_LIMITS)
      expect(JSON.parse(await readFile(other, 'utf8'))).toEqual({ day: '2' })
      expect(current().day).toBe('5')
    })

    it('leaves a file as it is that was changed since it was read', async () => {
      await writeLimits(path, DEFAULT_LIMITS)
      const before = readLimitsFile(path)?.text
      await writeLimits(path, { ...DEFAULT_LIMITS, day: '1' })
      const late = writeLimits(path, { ...DEFAULT_LIMITS, call: '2' }, { replaces: before })
      await expect(late).rejects.toThrow(refusal('was changed meanwhile', 'Run the command again'))
      expect(current()).toMatchObject({ day: '1', call: '0.1' })
    })

    it('of several at once that read the same, lets one through', async () => {
      const changes = ['1', '2', '3', '4'].map((day) =>
        writeLimits(path, { ...DEFAULT_LIMITS, day }, { replaces: null }),
      )
      const outcomes = await Promise.allSettled(changes)
      expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    })
  })

  describe('the command that changes limits', () => {
    it('names the home unless it is the default one, as a shell reads it', () => {
      expect(limitsCommand(limitsPath(homeDirectory({})), 'reset')).toBe('farebox limits reset')
      expect(limitsCommand(limitsPath('/data/farebox'), 'set --day 2')).toBe(
        'farebox limits set --day 2 --home /data/farebox',
      )
      expect(limitsCommand(limitsPath("/my data/it's"), 'reset')).toBe(
        String.raw`farebox limits reset --home '/my data/it'\''s'`,
      )
    })
  })
})

describe('the command that sets limits', () => {
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
})
