import { execFile } from 'node:child_process'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { type Clip, writeClips } from '../resilience/client/clips.ts'
import { startCountingProxy } from '../support/http/counting-proxy.ts'
import { createPayer, type Payer } from '../support/payer/payer.ts'
import { BUILT_COMMAND, type CommandSettings, startFareboxCommand } from '../support/processes/farebox-command.ts'
import type { TestSandbox } from '../support/processes/test-sandbox.ts'
import { atMost, type BenchResult, runBench } from './measuring/bench.ts'
import { startFarebox } from './measuring/farebox.ts'
import { readCpuMs } from './measuring/process-usage.ts'
import { median } from './measuring/statistics.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const BARE_LOOP = fileURLToPath(new URL('./client-loop.ts', import.meta.url))
const CONCURRENCY = 8
const UPSTREAM_MS = 300
const FUNDS_ATOMIC = 1_000_000_000n
const CPU_POLL_MS = 50
/** Files of a round for each contestant; all rounds of the command together are run again at the end. */
const [ROUNDS, FILES, QUICK_ROUNDS, QUICK_FILES] = [5, 200, 1, 16]
const RERUNS = 5
const CLIP_MS = 22_000
/** Recordings of which the sent bytes are counted. */
const SIZES = [
  { name: '22 s at 32 kbit/s', durationMs: CLIP_MS, bitrate: 32, count: 40, pack: false },
  { name: '22 s at 32 kbit/s, packed', durationMs: CLIP_MS, bitrate: 32, count: 40, pack: true },
  { name: '22 s at 128 kbit/s', durationMs: CLIP_MS, bitrate: 128, count: 16, pack: false },
  { name: '90 s at 128 kbit/s', durationMs: 90_000, bitrate: 128, count: 8, pack: false },
] as const
/** The others are shown: the header of a payment is as large for a short recording. */
const JUDGED_SIZES: readonly string[] = ['22 s at 32 kbit/s, packed', '90 s at 128 kbit/s']

type Name = 'farebox transcribe' | 'loop of the official client'

/**
 * Measures the command against a loop of the official client over as many recordings, each as a process against the same
 * service, in rounds that take turns. Then runs the command again over all that is finished, when nothing listens any more.
 */
await runBench(async ({ quick }): Promise<BenchResult> => {
  await promisify(execFile)('npm', ['run', 'build', '--workspace', 'client'], { cwd: ROOT })
  const directory = await mkdtemp(join(tmpdir(), 'farebox-bench-'))
  const sandbox = await startFarebox({ upstreamDelayMs: UPSTREAM_MS })
  let isStopped = false
  const stop = async () => {
    if (!isStopped) await sandbox.stop()
    isStopped = true
  }
  try {
    const [rounds, files] = quick ? [QUICK_ROUNDS, QUICK_FILES] : [ROUNDS, FILES]
    const payer = await createPayer(sandbox.info.rpcUrl, { usdcAtomic: FUNDS_ATOMIC, approved: true })
    const ground: Ground = { directory, sandbox, payer }
    const measured = await measureRounds(ground, rounds, files)
    const sent = await measureBytes(ground, quick)
    await stop()
    const rerun = await measureRerun(ground, rounds * files)
    return {
      rows: [...measured.rows, ...sent.rows, ...rerun.rows],
      ratios: [...measured.ratios, ...sent.ratios, ...rerun.ratios],
      notes: [
        'The loop sends each recording twice, for its price and with the signature; the command describes it for its price.',
        'Of a process that has ended, the processor time of its last milliseconds is missing.',
      ],
      details: { rounds: measured.details },
      limitedBy: 'the service: API, worker, PostgreSQL and chain share the cores with the client',
    }
  } finally {
    await stop()
    await rm(directory, { recursive: true, force: true })
  }
})

interface Ground {
  readonly directory: string
  readonly sandbox: TestSandbox
  readonly payer: Payer
}

interface Measured {
  readonly seconds: number
  readonly cpuMs: number
}

async function measureRounds(ground: Ground, rounds: number, files: number) {
  const figures: Record<Name, Measured[]> = { 'farebox transcribe': [], 'loop of the official client': [] }
  const names = Object.keys(figures) as Name[]
  // The first run of each compiles; it is not counted. Then they take turns, and each begins as often.
  for (let round = 0; round <= rounds; round++)
    for (const name of round % 2 === 0 ? names : names.toReversed()) {
      const folder = folderOf(ground, name, round)
      const isCounted = round > 0
      await writeClips(folder, {
        count: isCounted ? files : CONCURRENCY,
        seed: seedOf(name, round),
        durationMs: CLIP_MS,
      })
      const run = await runToEnd(startContestant(ground, name, folder))
      if (isCounted) figures[name].push(run)
    }
  const wallOf = (name: Name) => figures[name].map(({ seconds }) => seconds)
  const [ours, theirs] = [wallOf('farebox transcribe'), wallOf('loop of the official client')]
  const ratios = ours.map((seconds, round) => seconds / (theirs[round] ?? Number.NaN))
  return {
    rows: names.map((name) => ({
      what: name,
      rounds,
      files,
      'ms per file': (median(wallOf(name)) * 1000) / files,
      'CPU ms per file': median(figures[name].map(({ cpuMs }) => cpuMs)) / files,
    })),
    ratios: [
      atMost(1.05, 'time of the command ÷ the loop’s, median of the rounds', median(ratios)),
      { what: 'the same, lowest round', value: Math.min(...ratios) },
      { what: 'the same, highest round', value: Math.max(...ratios) },
    ],
    details: figures,
  }
}

/** The warm-up is not part of what is run again. */
function folderOf({ directory }: Ground, name: Name, round: number): string {
  const parent = name === 'farebox transcribe' ? (round === 0 ? 'warm-up' : 'clips') : 'loop'
  return join(directory, parent, `round-${round}`)
}

function seedOf(name: Name, round: number): number {
  return round * 2 + (name === 'farebox transcribe' ? 0 : 1)
}

function startContestant(ground: Ground, name: Name, folder: string) {
  const settings = settingsOf(ground)
  if (name === 'farebox transcribe') return startTranscribe(ground, [folder], settings)
  const out = join(ground.directory, 'loop-output')
  return startFareboxCommand([folder, '--out', out, '--concurrency', String(CONCURRENCY)], {
    ...settings,
    entry: BARE_LOOP,
  })
}

function settingsOf({ directory, sandbox, payer }: Ground): CommandSettings {
  const { baseUrl } = sandbox.info
  return {
    baseUrl,
    privateKey: payer.privateKey,
    home: join(directory, 'home'),
    entry: BUILT_COMMAND,
    isUncached: true,
  }
}

function startTranscribe(
  { directory }: Ground,
  folders: readonly string[],
  settings: CommandSettings,
  further: readonly string[] = [],
) {
  const args = ['--format', 'txt', '--concurrency', String(CONCURRENCY), '--yes', '--json', ...further]
  return startFareboxCommand(['transcribe', ...folders, '--out', join(directory, 'output'), ...args], settings)
}

/** Waits for the end of a process. Throws unless it succeeded. */
async function runToEnd(command: ReturnType<typeof startFareboxCommand>): Promise<Measured> {
  let cpuMs = 0
  const timer = setInterval(() => {
    cpuMs = Math.max(cpuMs, readCpuMs({ command: command.pid }).command)
  }, CPU_POLL_MS)
  const end = await command.ended
  clearInterval(timer)
  if (end.code !== 0) throw new Error(`the client ended with ${end.code ?? end.signal}: ${command.errors()}`)
  return { seconds: end.elapsedMs / 1000, cpuMs }
}

/** Counts what the command writes to its sockets, and compares with the sizes of the files. */
async function measureBytes(ground: Ground, quick: boolean) {
  // Apart from those of the rounds.
  let seedOfBytes = 1000
  const proxy = await startCountingProxy({ target: Number(new URL(ground.sandbox.info.baseUrl).port) })
  try {
    const rows: { readonly name: string; readonly ratio: number; readonly row: Record<string, string | number> }[] = []
    for (const { name, durationMs, bitrate, count, pack } of quick ? SIZES.slice(0, 2) : SIZES) {
      const folder = join(ground.directory, 'bytes', name)
      const frames = { sampleRate: bitrate === 32 ? 24_000 : 44_100, bitrate, mode: 'mono' } as const
      const size = sum(await writeClips(folder, { count, seed: seedOfBytes++, durationMs, frames }))
      const before = proxy.sentBytes
      const [baseUrl, home] = [`http://127.0.0.1:${proxy.port}`, join(ground.directory, 'home-of-bytes')]
      await runToEnd(
        startTranscribe(ground, [folder], { ...settingsOf(ground), baseUrl, home }, pack ? ['--pack'] : []),
      )
      const sentBytes = proxy.sentBytes - before
      const row = { what: `bytes sent, ${name}`, files: count, 'kB per file': size / count / 1000 }
      rows.push({ name, ratio: sentBytes / size, row: { ...row, 'bytes above': (sentBytes - size) / count } })
    }
    return {
      rows: rows.map(({ row }) => row),
      ratios: rows.map(({ name, ratio }) => {
        const what = `bytes sent ÷ size, ${name}`
        return JUDGED_SIZES.includes(name) ? atMost(1.01, what, ratio) : { what, value: ratio }
      }),
    }
  } finally {
    await proxy.stop()
  }
}

/** Runs the command over finished files when nothing but a counter listens where the service was. */
async function measureRerun(ground: Ground, files: number) {
  const counter = await startCountingProxy({ port: Number(new URL(ground.sandbox.info.baseUrl).port) })
  try {
    const clips = join(ground.directory, 'clips')
    const folders = (await readdir(clips)).map((name) => join(clips, name))
    const found = (await readdir(clips, { recursive: true })).filter((name) => name.endsWith('.mp3'))
    if (found.length !== files) throw new Error(`there are ${found.length} of ${files} files`)
    const runs: Measured[] = []
    for (let rerun = 0; rerun < RERUNS; rerun++)
      runs.push(await runToEnd(startTranscribe(ground, folders, settingsOf(ground))))
    const { connections } = counter
    const seconds = median(runs.map((run) => run.seconds))
    return {
      rows: [
        {
          what: 'run again, all finished',
          rounds: RERUNS,
          files,
          'ms per file': (seconds * 1000) / files,
          'CPU ms per file': median(runs.map(({ cpuMs }) => cpuMs)) / files,
        },
      ],
      ratios: [
        atMost(2, `seconds of a rerun of ${files} finished files, start of the program included`, seconds),
        atMost(0, 'connections of all reruns', connections),
      ],
    }
  } finally {
    await counter.stop()
  }
}

function sum(clips: readonly Clip[]): number {
  return clips.reduce((total, { bytes }) => total + bytes, 0)
}
