import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { makeAudio } from './measuring/audio-file.ts'
import { atLeast, type BenchResult, runBench } from './measuring/bench.ts'
import { type Contestant, startContestant } from './measuring/contestants.ts'
import { median } from './measuring/statistics.ts'

const RECORDINGS = [
  { name: '10 s', seconds: 10, rounds: 16 },
  { name: '5 min', seconds: 300, rounds: 8 },
  { name: '30 min', seconds: 1800, rounds: 4 },
] as const
const QUICK_ROUNDS = 2
/** The first rounds load and compile code. */
const WARM_UP_ROUNDS = 2
/** So that neither pays for what the other does after its answer. */
const PAUSE_MS = 400
/** An ID3v2.3 tag with the header of one frame, of which each length fits in seven bits. */
const [TAG_HEADER_BYTES, FRAME_HEADER_BYTES] = [10, 10]

/**
 * Measures the first 402 for a recording that the service has not seen, sent as JSON: farebox walks its frames, decodes it, binds a
 * key and signs its offer; the official middleware asks ffmpeg how long it is. The contestants take turns.
 */
await runBench(async ({ quick }): Promise<BenchResult> => {
  const folder = await mkdtemp(join(tmpdir(), 'farebox-bench-'))
  const ours = await startContestant('farebox', { upstreamDelayMs: 0 })
  const theirs = await startContestant('x402-express', { upstreamDelayMs: 0 })
  try {
    const rows = []
    for (const { name, seconds, rounds } of RECORDINGS) {
      const audio = await makeAudio(folder, seconds)
      const [oursMs, theirsMs]: [number[], number[]] = [[], []]
      for (let round = 0; round < WARM_UP_ROUNDS + (quick ? QUICK_ROUNDS : rounds); round++) {
        const times = [await quote(ours, audio), await quote(theirs, audio)] as const
        if (round < WARM_UP_ROUNDS) continue
        oursMs.push(times[0])
        theirsMs.push(times[1])
      }
      rows.push({
        recording: name,
        MB: audio.length / 1e6,
        'farebox ms': median(oursMs),
        'fastest, slowest': `${Math.min(...oursMs).toFixed(0)}, ${Math.max(...oursMs).toFixed(0)}`,
        'x402-express ms': median(theirsMs),
      })
    }
    return {
      rows,
      ratios: rows.map((row) =>
        atLeast(
          1,
          `speed of the first quote of ${row.recording} ÷ the middleware’s`,
          row['x402-express ms'] / row['farebox ms'],
        ),
      ),
      limitedBy: 'ffmpeg on one core, and for short recordings the start of its process, which farebox makes ahead',
    }
  } finally {
    await Promise.all([ours.stop(), theirs.stop()])
    await rm(folder, { recursive: true, force: true })
  }
})

/** Returns an ID3v2 tag with a title that no other has. Source: ID3 tag version 2.3.0, sections 3.1, 3.3 and 4.2.1. */
function titleTag(): Buffer {
  // In ISO-8859-1, as the byte 0 says.
  const title = Buffer.from(`\0${randomUUID()}`, 'latin1')
  const tag = Buffer.alloc(TAG_HEADER_BYTES + FRAME_HEADER_BYTES)
  tag.write('ID3\u0003', 0, 'latin1')
  tag.writeUInt8(FRAME_HEADER_BYTES + title.length, TAG_HEADER_BYTES - 1)
  tag.write('TIT2', TAG_HEADER_BYTES, 'latin1')
  tag.writeUInt32BE(title.length, TAG_HEADER_BYTES + 4)
  return Buffer.concat([tag, title])
}

/** Returns the milliseconds until the 402 for the recording under a title of its own, as encoders write it, at the start. */
async function quote({ name, baseUrl }: Contestant, audio: Uint8Array): Promise<number> {
  const body = JSON.stringify({
    model: 'speechvendor/scribe-v2',
    audio_base64: Buffer.concat([titleTag(), audio]).toString('base64'),
  })
  await delay(PAUSE_MS)
  const startedAt = performance.now()
  const answer = await fetch(`${baseUrl}/v1/audio/transcriptions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-idempotency-key': randomUUID() },
    body,
  })
  const text = await answer.text()
  if (answer.status !== 402) throw new Error(`${name} answered with ${answer.status} ${text.slice(0, 300)}`)
  return performance.now() - startedAt
}
