import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { generatePrivateKey } from 'viem/accounts'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type BadRecording, writeBadRecordings, writeOddRecordings } from '../../support/client/bad-recordings.ts'
import { challenge, charged, type ScriptedServer, startScriptedServer } from '../../support/client/scripted-server.ts'
import { canHaveSmallDisk, runOnSmallDisk } from '../../support/client/small-disk.ts'
import { generateMp3 } from '../../support/media/mp3-generator.ts'
import { recordingOf } from '../../support/media/recording.ts'
import { type CommandEvent, startFareboxCommand } from '../../support/processes/farebox-command.ts'
import { havePrograms } from '../../support/processes/optional-program.ts'
import { type SharedSandbox, useSharedSandbox } from '../../support/processes/test-sandbox.ts'

const PROGRAM = fileURLToPath(new URL('../../support/client/pay-on-a-disk.ts', import.meta.url))
const COMMAND = fileURLToPath(new URL('../../../client/command/main.ts', import.meta.url))
/** About 2 MB of subtitles. */
const WORDS = Array.from({ length: 40_000 }, (_, index) => ({
  word: `word-${index}`,
  start: index / 20,
  end: index / 20 + 0.04,
  type: 'word',
}))
function filesIn(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
}
const MINIMUM_CHARGE = 5034n
const failures = (events: readonly CommandEvent[]) => {
  const failed = events.filter(({ event, state }) => event === 'failed' || (event === 'planned' && state === 'failed'))
  return new Map(failed.map(({ label, error }) => [label, error as { code: string; money: string; message: string }]))
}

describe.skipIf(!canHaveSmallDisk())('a full disk under the journal', () => {
  let server: ScriptedServer
  let home: string
  beforeAll(async () => {
    server = await startScriptedServer()
    server.always((received, reply) => (received.payment === undefined ? challenge() : charged())(received, reply))
  })
  beforeEach(async () => {
    home = await mkdtemp(join(tmpdir(), 'farebox-home-'))
  })
  afterEach(() => rm(home, { recursive: true, force: true }))
  afterAll(() => server.stop())
  async function payWhileFull(when: 'at once' | 'with the payment') {
    const from = server.received.length
    const settings = { baseUrl: server.baseUrl, privateKey: generatePrivateKey(), home, when }
    const { stdout, stderr } = await runOnSmallDisk({ size: '64k', at: home }, [process.execPath, PROGRAM], {
      PAY_ON_A_DISK: JSON.stringify(settings),
    })
    expect(stderr).not.toContain(settings.privateKey.slice(2))
    const { outcomes } = JSON.parse(stdout || JSON.stringify({ outcomes: [stderr] })) as { outcomes: unknown[] }
    return { outcomes, payments: server.received.slice(from).flatMap(({ payment }) => payment ?? []) }
  }

  it('before a payment nothing is signed, and the call works when there is room', async () => {
    const { outcomes, payments } = await payWhileFull('at once')
    const refused = { isFareboxError: true, code: 'journal_unwritable', money: 'none', left: '1' }
    expect(outcomes).toEqual([
      expect.objectContaining(refused),
      expect.objectContaining({
        ...refused,
        message: expect.stringMatching(/no space left.*Nothing was charged.*Free disk space/i),
      }),
      { charged: '0.005034', recorded: true, left: '0.994966' },
    ])
    expect(payments).toHaveLength(1)
  })

  it('after a payment the result is returned, and nothing is paid twice, whether the answer was recorded or not', async () => {
    const { outcomes, payments } = await payWhileFull('with the payment')
    expect(outcomes).toEqual([
      // The rest of the file's last block may have room for this entry.
      { charged: '0.005034', recorded: expect.any(Boolean), left: '0.994966' },
      expect.objectContaining({ code: 'journal_unwritable', money: 'none' }),
      { charged: '0.005034', recorded: true, left: '0.994966' },
    ])
    const [{ recorded } = { recorded: false }] = outcomes as { recorded: boolean }[]
    expect(new Set(payments).size).toBe(recorded ? 2 : 1)
  })
})

describe.skipIf(!canHaveSmallDisk())('a disk for transcripts', () => {
  let server: ScriptedServer
  let root: string
  let out: string
  let settings: Record<string, string>
  beforeEach(async () => {
    server = await startScriptedServer()
    const result = { text: 'text', language: 'en', words: WORDS }
    server.always((received, reply) =>
      (received.payment === undefined ? challenge() : charged({ result }))(received, reply),
    )
    root = await mkdtemp(join(tmpdir(), 'farebox-full-'))
    out = join(root, 'out')
    mkdirSync(out)
    writeFileSync(join(root, 'a.mp3'), generateMp3({ durationMs: 1000, seed: 'a' }))
    settings = {
      FAREBOX_URL: server.baseUrl,
      FAREBOX_PRIVATE_KEY: generatePrivateKey(),
      FAREBOX_HOME: join(root, 'home'),
    }
  })
  afterEach(async () => {
    await server.stop()
    await rm(root, { recursive: true, force: true })
  })
  const transcribe = (size: string, before: readonly string[] = [], more: readonly string[] = []) =>
    runOnSmallDisk(
      { size, at: out },
      [
        ...before,
        process.execPath,
        COMMAND,
        'transcribe',
        '--yes',
        '--patience',
        '0',
        '--out',
        out,
        join(root, 'a.mp3'),
        ...more,
      ],
      settings,
    )
  const payments = () => server.received.flatMap(({ payment }) => payment ?? [])

  it.each([
    ['that is full', 'head -c 1000000 /dev/zero > "$0/filler"; exec "$@"', /the disk is full/],
    ['that is read-only', 'mount -o remount,ro "$0"; exec "$@"', /the disk is read-only/],
  ])('%s is noticed before anything is paid', async (_, prepare, reason) => {
    const { exitCode, stdout, stderr } = await transcribe('64k', ['sh', '-c', prepare, out])
    expect(stderr).toMatch(reason)
    expect(stderr).toMatch(/Nothing was charged\. Make room or choose another folder with --out/)
    expect([exitCode, stdout, payments()]).toEqual([1, '', []])
  })

  it('that fills up ends the run: nothing more is begun, and the message says what to do', async () => {
    for (const name of ['b', 'c', 'd'])
      writeFileSync(join(root, `${name}.mp3`), generateMp3({ durationMs: 1000, seed: name }))
    const names = ['b', 'c', 'd'].map((name) => join(root, `${name}.mp3`))
    const { exitCode, stderr } = await transcribe('256k', [], [...names, '--concurrency', '1'])
    expect(exitCode).toBe(1)
    expect(stderr).toContain('This machine cannot go on.')
    // The next one may be under way when the first is written.
    expect(stderr).toMatch(/[12] failed, [23] not begun[\s\S]*the disk is full\)\. The call is paid for\. Make room/)
    expect(new Set(payments()).size).toBeLessThanOrEqual(2)
  })

  it('that fills up with a transcript leaves none behind, and a rerun with room pays nothing', async () => {
    const { exitCode, stderr } = await transcribe('256k')
    expect(stderr).toMatch(/the disk is full\). The call is paid for\. Make room.*without another charge/)
    expect(exitCode).toBe(1)
    const first = payments()
    // The disk of the first run has ended with it: this folder has room.
    const again = await transcribe('64m', ['sh', '-c', '"$@"; code=$?; ls "$0"; exit $code', out])
    expect(again.stdout.trim()).toBe('a.srt')
    expect(again.stderr).toMatch(/0\.005034 USDC was paid before|paid before/)
    expect(again.exitCode).toBe(0)
    expect(first).toHaveLength(1)
  })

  it('the journal has neither the private key nor the words of a transcript', async () => {
    await transcribe('64m')
    const journal = filesIn(join(root, 'home'))
      .map((path) => readFileSync(path, 'utf8'))
      .join('\n')
    expect(journal).toContain('"phase":"answered"')
    expect(journal).not.toContain(settings['FAREBOX_PRIVATE_KEY']?.slice(2))
    expect(journal).not.toContain('word-39')
  })
})

describe.skipIf(!havePrograms('ffmpeg', 'ffprobe'))('files that are no recordings', () => {
  let sandbox: SharedSandbox
  let root: string
  beforeAll(async () => {
    sandbox = await useSharedSandbox()
    root = await mkdtemp(join(tmpdir(), 'farebox-bad-files-'))
  })
  afterAll(async () => {
    await rm(root, { recursive: true, force: true })
    await sandbox.stop()
  })
  /** Runs the command to its end in a folder of its own. */
  async function transcribe(name: string, args: readonly string[]) {
    const { baseUrl, rpcUrl, payer } = sandbox.info
    const settings = { baseUrl, rpcUrl, privateKey: payer.privateKey, home: join(root, `${name}-home`) }
    const before = await sandbox.chain.usdcBalance(sandbox.payer.address)
    const command = startFareboxCommand(['transcribe', '--yes', ...args], settings)
    const { code } = await command.ended
    const spent = before - (await sandbox.chain.usdcBalance(sandbox.payer.address))
    expect(command.errors()).not.toContain(payer.privateKey.slice(2))
    return { code, spent, events: command.events, errors: command.errors() }
  }

  it('each fails alone, costs nothing and says what to do; the good one next to them is transcribed', async () => {
    const folder = join(root, 'bad')
    const bad: readonly BadRecording[] = writeBadRecordings(folder)
    writeFileSync(join(folder, 'good.mp3'), recordingOf('Ann: I am good.'))
    const named = [...bad.map(({ name }) => join(folder, name)), join(folder, 'good.mp3'), join(folder, 'missing.mp3')]
    const { code, spent, events } = await transcribe('bad', ['--json', '--out', join(root, 'bad-out'), ...named])
    const found = failures(events)
    const expected = [...bad, { name: 'missing.mp3', code: 'file_not_found' }]
    expect([...found].map(([label, error]) => [label, error.code, error.money])).toEqual(
      expect.arrayContaining(expected.map((one) => [join(folder, one.name), one.code, 'none'])),
    )
    expect(found.size).toBe(expected.length)
    for (const { message } of found.values()) expect(message).toMatch(/Nothing was charged\. \S.*\.$/s)
    expect([code, spent]).toEqual([1, MINIMUM_CHARGE])
    expect(readdirSync(join(root, 'bad-out'))).toEqual(['good.srt'])
  })

  it('odd names are transcribed, and nothing is written outside of the folder for transcripts', async () => {
    const folder = join(root, 'odd', 'in')
    const names = writeOddRecordings(folder)
    const out = join(root, 'odd', 'out')
    const list = join(root, 'odd', 'list')
    writeFileSync(list, names.map((name) => join(folder, name)).join('\0'))
    const { code, spent, events } = await transcribe('odd', ['--json', '--out', out, '--files-from', list])
    expect([...failures(events)]).toEqual([])
    expect(spent).toBe(MINIMUM_CHARGE * BigInt(names.length))
    expect(code).toBe(0)
    expect(readdirSync(join(root, 'odd')).sort()).toEqual(['in', 'list', 'out'])
    expect(readdirSync(out)).toHaveLength(names.length)
    expect(readdirSync(folder)).toHaveLength(names.length)
    const again = await transcribe('odd', ['--out', out, '--files-from', list])
    expect([again.code, again.spent]).toEqual([0, 0n])
    expect(again.errors).not.toMatch(/(?!\n)\p{Cc}/u)
  })

  it('the same content under several names is paid once and written for each', async () => {
    const folder = join(root, 'same')
    mkdirSync(join(folder, 'sub'), { recursive: true })
    const recording = recordingOf('Ann: I am the same.')
    for (const name of ['a.mp3', 'b.wav', 'sub/c.mp3']) writeFileSync(join(folder, name), recording)
    const { code, spent } = await transcribe('same', ['--json', folder])
    expect([code, spent]).toEqual([0, MINIMUM_CHARGE])
    const texts = ['a.srt', 'b.srt', 'sub/c.srt'].map((name) => readFileSync(join(folder, name), 'utf8'))
    expect(new Set(texts).size).toBe(1)
  })

  it('a wallet without funds ends the batch with exit code 4, and says what to do', async () => {
    const folder = join(root, 'poor')
    mkdirSync(folder)
    for (const name of ['a.mp3', 'b.mp3']) writeFileSync(join(folder, name), recordingOf(`Ann: I am ${name}.`))
    const { baseUrl, rpcUrl } = sandbox.info
    const settings = { baseUrl, rpcUrl, privateKey: generatePrivateKey(), home: join(root, 'poor-home') }
    const command = startFareboxCommand(['transcribe', '--yes', folder], settings)
    const { code } = await command.ended
    expect(command.errors()).toMatch(/Nothing was charged\..*Add USDC to the wallet/s)
    expect(code).toBe(4)
    expect(readdirSync(folder).sort()).toEqual(['a.mp3', 'b.mp3'])
  })
})
