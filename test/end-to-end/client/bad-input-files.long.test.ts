import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { generatePrivateKey } from 'viem/accounts'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  type BadRecording,
  writeBadRecordings,
  writeOddRecordings,
} from '../../integration/client/bad-input/support/bad-recordings.ts'
import { recordingOf } from '../../support/media/recording.ts'
import { type CommandEvent, startFareboxCommand } from '../../support/processes/farebox-command.ts'
import { havePrograms } from '../../support/processes/optional-program.ts'
import { type SharedSandbox, useSharedSandbox } from '../../support/processes/test-sandbox.ts'

const MINIMUM_CHARGE = 5034n

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

const failures = (events: readonly CommandEvent[]) => {
  const failed = events.filter(({ event, state }) => event === 'failed' || (event === 'planned' && state === 'failed'))
  return new Map(failed.map(({ label, error }) => [label, error as { code: string; money: string; message: string }]))
}

describe.skipIf(!havePrograms('ffmpeg', 'ffprobe'))('files that are no recordings', () => {
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
