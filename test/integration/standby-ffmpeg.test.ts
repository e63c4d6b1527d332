import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { walkFrames } from '#mp3/walk-frames.ts'
import { findFfmpeg } from '#shared/runtime/find-ffmpeg.ts'
import { createFfmpegDecoder } from '../../api/request/audio/decode-with-ffmpeg.ts'
import { planDecode } from '../../api/request/audio/plan-decode.ts'
import { createStandbyFfmpeg } from '../../api/request/audio/standby-ffmpeg.ts'
import { generateFrames, generateMp3, joinBytes } from '../support/media/mp3-generator.ts'
import { generateApe } from '../support/media/tag-generator.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { isRunning } from '../support/processes/is-running.ts'
import { until } from '../support/until.ts'

const clip = generateFrames(100)
const ffmpegPath = (await findFfmpeg({ searchPath: process.env['PATH'] })) ?? ''

function start(path = ffmpegPath) {
  const spawned: number[] = []
  const service = new AbortController()
  const options = {
    ffmpegPath: path,
    timeLimitMs: PATIENCE_MS,
    onSpawn: (processId: number) => spawned.push(processId),
  }
  const standby = createStandbyFfmpeg(options, service.signal)
  const decoder = createFfmpegDecoder(options, standby)
  const decode = async (audio: Uint8Array) => {
    const walk = walkFrames(audio)
    if (walk.outcome !== 'mp3') throw new Error(walk.found)
    return await decoder(audio, planDecode(audio, walk))
  }
  stop = async () => {
    service.abort()
    await until(() => !spawned.some(isRunning))
  }
  return { spawned, standby, decode, running: () => spawned.filter(isRunning) }
}

let stop = async () => undefined as void
afterEach(() => stop())

describe('an ffmpeg on standby', () => {
  it('decodes the next upload, and is then replaced', async () => {
    const { spawned, standby, decode } = start()
    standby.start()
    standby.start()
    expect(spawned).toHaveLength(1)
    expect((await decode(clip)).outcome).toBe('agrees')
    expect(isRunning(spawned[0] as number)).toBe(false)
    await until(() => spawned.length === 2)
    expect((await decode(clip)).outcome).toBe('agrees')
    expect(isRunning(spawned[1] as number)).toBe(false)
    await until(() => spawned.length === 3)
  })

  it.each([8000, 11_025, 24_000, 32_000, 48_000] as const)(
    'decodes an upload of %d Hz to the sample',
    async (sampleRate) => {
      const { standby, decode } = start()
      standby.start()
      const audio = generateMp3({ durationMs: 2000, sampleRate })
      const walk = walkFrames(audio)
      expect(await decode(audio)).toEqual({
        outcome: 'agrees',
        decodedSamples: walk.outcome === 'mp3' && walk.parts[0]?.samples,
      })
    },
  )

  it('is kept from an upload that could hide audio, which has an ffmpeg that stops at its bound', async () => {
    const { spawned, standby, decode, running } = start()
    standby.start()
    const hidden = generateMp3({ durationMs: 600_000, bitrate: 32 })
    const decoded = await decode(joinBytes(clip, generateApe(2, { value: hidden }), clip))
    expect(decoded).toMatchObject({ outcome: 'disagrees', stopped: true })
    expect(running()).toEqual([spawned[0]])
  })

  it.each([
    [
      'several rates',
      joinBytes(generateMp3({ durationMs: 1000 }), generateMp3({ durationMs: 3000, sampleRate: 16_000 })),
    ],
    ['a tag between its frames', joinBytes(clip, generateApe(2, { value: new Uint8Array(10) }), clip)],
    ['a tag behind its frames', joinBytes(clip, generateApe(2, { value: new Uint8Array(10) }))],
  ])('is kept from an upload with %s, which another ffmpeg confirms', async (_, audio) => {
    const { spawned, standby, decode, running } = start()
    standby.start()
    expect((await decode(audio)).outcome).toBe('agrees')
    expect(running()).toEqual([spawned[0]])
  })

  it('only confirms: when it fails, an ffmpeg of the upload judges', async () => {
    const { spawned, standby, decode } = start()
    standby.start()
    const decoding = decode(generateMp3({ durationMs: 600_000 }))
    process.kill(spawned[0] as number, 'SIGKILL')
    expect((await decoding).outcome).toBe('agrees')
  })

  it('is replaced when it died', async () => {
    const { spawned, standby, decode } = start()
    standby.start()
    process.kill(spawned[0] as number, 'SIGKILL')
    await until(() => !isRunning(spawned[0] as number))
    expect((await decode(clip)).outcome).toBe('agrees')
  })

  it('does no harm when no process can be started', async () => {
    // Node.js throws for it as it does when memory for a process is missing.
    const { spawned, standby, decode } = start(`/${'a'.repeat(200_000)}`)
    standby.start()
    expect(await decode(clip)).toEqual({ outcome: 'unavailable', reason: expect.stringContaining('spawn E2BIG') })
    expect(spawned).toEqual([])
  })

  it('ends when no upload comes, and a later one starts the next', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const { spawned, standby, running } = start()
    standby.start()
    vi.advanceTimersByTime(29_000)
    standby.start()
    vi.advanceTimersByTime(29_000)
    expect(running()).toEqual(spawned)
    vi.advanceTimersByTime(1000)
    vi.useRealTimers()
    await until(() => running().length === 0)
    standby.start()
    expect(running()).toHaveLength(1)
  })

  it('ends with a service that is stopped, and is not started again', async () => {
    const { standby, running } = start()
    standby.start()
    await stop()
    standby.start()
    expect(running()).toEqual([])
  })

  it('ends with a service that was killed', async () => {
    const program = `
      import { createStandbyFfmpeg } from './api/request/audio/standby-ffmpeg.ts'
      const options = { ffmpegPath: ${JSON.stringify(ffmpegPath)}, timeLimitMs: 1000, onSpawn: (id) => console.log(id) }
      createStandbyFfmpeg(options, new AbortController().signal).start()`
    const service = spawn(process.execPath, ['--input-type=module', '-e', program], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const [line] = (await once(service.stdout, 'data')) as [Buffer]
    expect(isRunning(Number(line))).toBe(true)
    service.kill('SIGKILL')
    await until(() => !isRunning(Number(line)))
  })
})
