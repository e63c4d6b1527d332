import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { generatePrivateKey } from 'viem/accounts'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { generateMp3 } from '../../../support/media/mp3-generator.ts'
import { challenge, charged, type ScriptedServer, startScriptedServer } from './support/scripted-server.ts'
import { canHaveSmallDisk, runOnSmallDisk } from './support/small-disk.ts'

const COMMAND = fileURLToPath(new URL('../../../../client/command/main.ts', import.meta.url))
/** About 2 MB of subtitles. */
const WORDS = Array.from({ length: 40_000 }, (_, index) => ({
  word: `word-${index}`,
  start: index / 20,
  end: index / 20 + 0.04,
  type: 'word',
}))

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

const transcribe = (size: string, before: readonly string[] = []) =>
  runOnSmallDisk(
    { size, at: out },
    [...before, process.execPath, COMMAND, 'transcribe', '--yes', '--patience', '0', '--out', out, join(root, 'a.mp3')],
    settings,
  )
const payments = () => server.received.flatMap(({ payment }) => payment ?? [])

describe.skipIf(!canHaveSmallDisk())('a disk for transcripts', () => {
  it.each([
    ['that is full', 'head -c 1000000 /dev/zero > "$0/filler"; exec "$@"', /the disk is full/],
    ['that is read-only', 'mount -o remount,ro "$0"; exec "$@"', /the disk is read-only/],
  ])('%s is noticed before anything is paid', async (_, prepare, reason) => {
    const { exitCode, stdout, stderr } = await transcribe('64k', ['sh', '-c', prepare, out])
    expect(stderr).toMatch(reason)
    expect(stderr).toMatch(/Nothing was charged\. Make room or choose another folder with --out/)
    expect([exitCode, stdout, payments()]).toEqual([1, '', []])
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

function filesIn(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
}
