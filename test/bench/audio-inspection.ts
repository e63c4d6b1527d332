/**
 * Measures audio inspection: the walk over the frames alone, a whole inspection against bare ffmpeg on the same file,
 * and a cached inspection. The file is half an hour long at the highest constant bitrate that 25 MiB allow (112
 * kbit/s): noise when lame and sox are installed, otherwise silence.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { walkFrames } from '#mp3/walk-frames.ts'
import { findFfmpeg } from '#shared/runtime/find-ffmpeg.ts'
import { createFfmpegDecoder } from '../../api/request/audio/decode-with-ffmpeg.ts'
import { createMp3Inspector, type InspectionOutcome } from '../../api/request/audio/inspect-mp3.ts'
import { createInspectionCache } from '../../api/request/audio/inspection-cache.ts'
import { UNSHARED_VERDICTS } from '../../api/request/audio/shared-verdicts.ts'
import { measureAudio } from '../../api/request/measure-audio.ts'
import { generateMp3 } from '../support/media/mp3-generator.ts'
import { decodeWithFfmpeg, makeAudio } from './measuring/audio-file.ts'
import { atMost, reportResult } from './measuring/bench.ts'
import { readCpuMs } from './measuring/process-usage.ts'
import type { Row } from './measuring/render-rows.ts'

const HALF_AN_HOUR_SECONDS = 1800
const ROUNDS = process.argv.includes('--quick') ? 1 : 5
const rows: Row[] = []

interface Times {
  /** Of the fastest round. */
  readonly elapsedMs: number
  /** Of the cheapest round, with that of the child processes. */
  readonly cpuMs: number
}

/** Returns the times of two contestants, which take turns so that a change in the machine's load affects both. */
async function measureInTurns(runs: readonly [() => unknown, () => unknown]): Promise<[Times, Times]> {
  const rounds: [Times[], Times[]] = [[], []]
  for (let round = 0; round < ROUNDS + 1; round++)
    for (const [index, run] of runs.entries()) {
      const [started, before] = [performance.now(), readCpuMs({ self: process.pid }).self]
      await run()
      const times = {
        elapsedMs: performance.now() - started,
        cpuMs: readCpuMs({ self: process.pid }).self - before,
      }
      // The first round warms up.
      if (round > 0) rounds[index]?.push(times)
    }
  const best = (times: readonly Times[]): Times => ({
    elapsedMs: Math.min(...times.map(({ elapsedMs }) => elapsedMs)),
    cpuMs: Math.min(...times.map(({ cpuMs }) => cpuMs)),
  })
  return [best(rounds[0]), best(rounds[1])]
}

/** Returns the median milliseconds of a few runs, after a warm-up run. */
async function measure(run: () => unknown): Promise<number> {
  await run()
  const times: number[] = []
  for (let round = 0; round < ROUNDS; round++) {
    const started = performance.now()
    await run()
    times.push(performance.now() - started)
  }
  return times.sort((a, b) => a - b)[Math.floor(ROUNDS / 2)] ?? Number.NaN
}

function addRow(what: string, value: number, unit: string): void {
  rows.push({ what, value, unit })
}

const ffmpegPath = await findFfmpeg({ configuredPath: process.env['FFMPEG_PATH'], searchPath: process.env['PATH'] })
if (ffmpegPath === undefined) throw new Error('No ffmpeg found: apt-get install ffmpeg')
const folder = await mkdtemp(join(tmpdir(), 'farebox-bench-'))
try {
  const audio = await makeAudio(folder, HALF_AN_HOUR_SECONDS)
  const path = join(folder, 'bench.mp3')
  await writeFile(path, audio)
  const decode = createFfmpegDecoder({ ffmpegPath, timeLimitMs: 60_000 })
  const newInspector = () =>
    createMp3Inspector({
      decode,
      cache: createInspectionCache<InspectionOutcome>({ maximumEntries: 10, timeToLiveMs: 600_000 }),
      verdicts: UNSHARED_VERDICTS,
      limitDecoding: () => undefined,
      concurrency: 1,
      maximumWaiting: 1,
    })
  const limits = { maximumBytes: 26_214_400, minimumDurationMs: 100, maximumDurationMs: 3_600_000 }
  const caller = { client: ['192.0.2.1'], hasPriority: true, limits }
  const { inspect } = newInspector()

  const megabytes = audio.length / 1_000_000
  addRow('file', megabytes, 'MB')
  const walkMs = await measure(() => walkFrames(audio))
  addRow('frame walk', walkMs, 'ms')
  addRow('frame walk', (megabytes / walkMs) * 1000, 'MB/s')
  const smallest = generateMp3({ durationMs: 26_214_400, sampleRate: 24_000, bitrate: 8 })
  addRow('frame walk of 26 MB of the smallest frames', await measure(() => walkFrames(smallest)), 'ms')
  const [bare, inspection] = await measureInTurns([
    () => decodeWithFfmpeg(ffmpegPath, path),
    () => newInspector().inspect(measureAudio(audio), caller),
  ])
  addRow('bare ffmpeg -f null', bare.elapsedMs, 'ms')
  addRow('bare ffmpeg -f null: processor time', bare.cpuMs, 'ms')
  addRow('whole inspection', inspection.elapsedMs, 'ms')
  addRow('whole inspection: processor time of both processes', inspection.cpuMs, 'ms')
  addRow('cached inspection', await measure(() => inspect(measureAudio(audio), caller)), 'ms')
  const clip = generateMp3({ durationMs: 10_000 })
  addRow(
    'whole inspection of a 10 s clip',
    await measure(() => newInspector().inspect(measureAudio(clip), caller)),
    'ms',
  )
  reportResult({
    rows,
    ratios: [
      atMost(
        1.15,
        'whole inspection of 30 min ÷ bare ffmpeg -f null, best rounds',
        inspection.elapsedMs / bare.elapsedMs,
      ),
      { what: 'the same in processor time', value: inspection.cpuMs / bare.cpuMs },
    ],
    limitedBy: 'ffmpeg’s decoding on one core, plus the walk and the hash',
  })
} finally {
  await rm(folder, { recursive: true, force: true })
}
