import { chmod, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { walkFrames } from '#shared/audio/walk-frames.ts'
import { createFfmpegDecoder } from '../../../api/request/audio/decode-with-ffmpeg.ts'
import { findFfmpeg } from '../../../api/request/audio/find-ffmpeg.ts'
import { createInspectorIdentity } from '../../../api/request/audio/identify-inspector.ts'
import { planDecode } from '../../../api/request/audio/plan-decode.ts'
import type { FfmpegOptions } from '../../../api/request/audio/run-ffmpeg.ts'
import { generateFrames, generateMp3, joinBytes } from '../../support/media/mp3-generator.ts'
import { generateApe } from '../../support/media/tag-generator.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { isRunning } from '../../support/processes/is-running.ts'
import { havePrograms } from '../../support/processes/optional-program.ts'

/** Enough for one hour of audio, which takes seconds of CPU time. */
const AMPLE_LIMITS = { timeLimitMs: 4 * PATIENCE_MS, processorTimeLimitSeconds: (4 * PATIENCE_MS) / 1000 }
const clip = generateFrames(100)
const hour = generateMp3({ durationMs: 3_600_000, sampleRate: 48_000, bitrate: 32 })

function planOf(audio: Uint8Array) {
  const walk = walkFrames(audio)
  if (walk.outcome !== 'mp3') throw new Error(walk.found)
  return planDecode(audio, walk)
}

/** Decodes with the options and checks that no child process is left. */
async function decodeAndCheck(options: FfmpegOptions, audio: Uint8Array, signal?: AbortSignal) {
  const processIds: number[] = []
  const decode = createFfmpegDecoder({ ...options, onSpawn: (processId) => processIds.push(processId) })
  try {
    return await decode(audio, planOf(audio), signal === undefined ? {} : { signal })
  } finally {
    expect(processIds.filter(isRunning)).toEqual([])
  }
}

const packagedPath = () => '/bin/ls'
const installed = async () => (await findFfmpeg({ searchPath: process.env['PATH'] })) ?? ''

let folder = ''

/** Writes a shell script in place of ffmpeg, in a folder with spaces in its name. */
async function stub(name: string, script: string): Promise<string> {
  const path = join(folder, 'with two spaces', name)
  await writeFile(path, `#!/bin/sh\n${script}\n`)
  await chmod(path, 0o755)
  return path
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'farebox-ffmpeg-'))
  await mkdir(join(folder, 'with two spaces'))
})
afterAll(async () => {
  await rm(folder, { recursive: true, force: true })
})

describe.skipIf(process.platform === 'win32')('a misbehaving child process', () => {
  test('kills ffmpeg at the time limit and reports it as unavailable', async () => {
    const ffmpegPath = await stub('hangs', 'exec sleep 60')
    const decoded = await decodeAndCheck({ ffmpegPath, timeLimitMs: 200 }, clip)
    expect(decoded).toMatchObject({ outcome: 'unavailable' })
  })

  test('kills ffmpeg at its CPU limit and reports the upload as undecodable if silence decodes', async () => {
    const ffmpegPath = await stub('spins', 'while :; do :; done')
    const decoded = await decodeAndCheck({ ffmpegPath, ...AMPLE_LIMITS, processorTimeLimitSeconds: 1 }, clip)
    expect(decoded).toMatchObject({ outcome: 'undecodable' })
  })

  test('reports the upload as undecodable when ffmpeg crashes on it but not on silence', async () => {
    const script = 'size=$(wc -c); [ "$size" -gt 1000 ] && kill -SEGV $$; echo total_size=6912'
    const ffmpegPath = await stub('crashes sometimes', script)
    expect(await decodeAndCheck({ ffmpegPath, ...AMPLE_LIMITS }, clip)).toMatchObject({ outcome: 'undecodable' })
  })

  test('reports ffmpeg as unavailable when it crashes on silence too', async () => {
    const ffmpegPath = await stub('crashes always', 'kill -SEGV $$')
    expect(await decodeAndCheck({ ffmpegPath, ...AMPLE_LIMITS }, clip)).toMatchObject({ outcome: 'unavailable' })
  })

  test('survives an ffmpeg that closes its input before everything is written', async () => {
    const ffmpegPath = await stub('reads nothing', 'echo total_size=0; exec true')
    const decoded = await decodeAndCheck({ ffmpegPath, ...AMPLE_LIMITS }, hour)
    expect(decoded).toMatchObject({ outcome: 'disagrees', decodedSamples: 0 })
  })

  test.each(['exec true', 'echo total_size=N/A; echo progress=end'])(
    'reports an ffmpeg that reports no length as unavailable: %s',
    async (script) => {
      const ffmpegPath = await stub('says nothing', script)
      expect(await decodeAndCheck({ ffmpegPath, ...AMPLE_LIMITS }, clip)).toMatchObject({ outcome: 'unavailable' })
    },
  )

  test('stops an ffmpeg that never stops decoding at the upper bound', async () => {
    const ffmpegPath = await stub('goes on', 'echo total_size=2304; sleep 0.1; echo total_size=99999999; exec sleep 60')
    expect(await decodeAndCheck({ ffmpegPath, ...AMPLE_LIMITS }, clip)).toMatchObject({
      outcome: 'disagrees',
      stopped: true,
    })
  })

  test.each(['exec cat /dev/zero', 'exec yes', 'exec yes total_size=2304'])(
    'stops an ffmpeg that writes endlessly and reports it as unavailable: %s',
    async (script) => {
      const ffmpegPath = await stub('babbles', script)
      expect(await decodeAndCheck({ ffmpegPath, ...AMPLE_LIMITS }, clip)).toMatchObject({ outcome: 'unavailable' })
    },
  )

  test('does not buffer the errors of an ffmpeg that writes them endlessly', async () => {
    const ffmpegPath = await stub('complains', 'exec cat /dev/zero >&2')
    const decoded = await decodeAndCheck({ ffmpegPath, timeLimitMs: 300 }, clip)
    expect(decoded).toMatchObject({ outcome: 'unavailable' })
  })

  test('hides this process’s environment from ffmpeg', async () => {
    process.env['FAREBOX_CANARY'] = 'canary'
    const ffmpegPath = await stub('leaks', 'env | grep -q canary && kill -SEGV $$; echo total_size=235008')
    expect(await decodeAndCheck({ ffmpegPath, ...AMPLE_LIMITS }, clip)).toMatchObject({ outcome: 'agrees' })
  })

  test.each(['/nonexistent/ffmpeg', '/etc/passwd'])(
    'reports an ffmpeg that cannot start as unavailable: %s',
    async (ffmpegPath) => {
      expect(await decodeAndCheck({ ffmpegPath, ...AMPLE_LIMITS }, clip)).toMatchObject({ outcome: 'unavailable' })
    },
  )
})

describe.skipIf(!havePrograms('ffmpeg'))('the installed ffmpeg', () => {
  test.each([0, 1, 30, 100, 300])('ends ffmpeg when the caller aborts after %i ms', async (delayMs) => {
    const reason = new Error('the caller aborted')
    const controller = new AbortController()
    const ffmpegPath = await installed()
    setTimeout(() => controller.abort(reason), delayMs)
    const decoding = decodeAndCheck({ ffmpegPath, ...AMPLE_LIMITS }, hour, controller.signal)
    await expect(decoding).rejects.toBe(reason)
  })

  test('starts no process for a caller that has already aborted', async () => {
    const processIds: number[] = []
    const decode = createFfmpegDecoder({
      ffmpegPath: await installed(),
      ...AMPLE_LIMITS,
      onSpawn: (processId) => processIds.push(processId),
    })
    const signal = AbortSignal.abort(new Error('before'))
    await expect(decode(clip, planOf(clip), { signal })).rejects.toThrow('before')
    expect(processIds).toEqual([])
  })

  test('stops decoding within a second of audio behind the upper bound', async () => {
    const audio = joinBytes(clip, generateApe(2, { value: hour }), clip)
    const plan = planOf(audio)
    const decoded = await decodeAndCheck({ ffmpegPath: await installed(), ...AMPLE_LIMITS }, audio)
    if (decoded.outcome !== 'disagrees') throw new Error(decoded.outcome)
    expect(decoded.stopped).toBe(true)
    expect(decoded.decodedSamples).toBeLessThan(plan.maximumSamples + plan.sampleRate)
  })

  test('reports an ffmpeg without enough memory to start as unavailable', async () => {
    const options = { ffmpegPath: await installed(), ...AMPLE_LIMITS, memoryLimitBytes: 20_000_000 }
    expect(await decodeAndCheck(options, clip)).toMatchObject({ outcome: 'unavailable' })
  })
})

describe('finding ffmpeg', () => {
  test('finds the configured ffmpeg, else the first on the path, else the packaged one', async () => {
    const other = await stub('ffmpeg', 'exit 0')
    const onPath = join(folder, 'with two spaces')
    expect(await findFfmpeg({ configuredPath: '/bin/sh', searchPath: onPath, packagedPath })).toBe('/bin/sh')
    expect(await findFfmpeg({ searchPath: `/nonexistent::${onPath}`, packagedPath })).toBe(other)
    expect(await findFfmpeg({ configuredPath: '', searchPath: '/nonexistent', packagedPath })).toBe('/bin/ls')
    expect(await findFfmpeg({ searchPath: '', packagedPath: () => undefined })).toBeUndefined()
  })

  test('does not replace a configured ffmpeg that is missing', async () => {
    expect(
      await findFfmpeg({ configuredPath: '/nonexistent', searchPath: process.env['PATH'], packagedPath }),
    ).toBeUndefined()
    expect(await findFfmpeg({ configuredPath: '/tmp', packagedPath })).toBeUndefined()
  })

  test('ignores a folder named ffmpeg on the path', async () => {
    await mkdir(join(folder, 'ffmpeg'))
    await symlink('/bin/sh', join(folder, 'link'))
    expect(await findFfmpeg({ searchPath: folder, packagedPath })).toBe('/bin/ls')
  })
})

describe('the identity of an inspector', () => {
  test('is the same in two processes with the same ffmpeg, and another with another one', async () => {
    const path = await stub('versions', 'echo "ffmpeg version 5.1.6"')
    const other = await stub('other-versions', 'echo "ffmpeg version 7.1"')
    const identity = await createInspectorIdentity(path)()
    expect(identity).toMatch(/^[0-9a-f]{64}$/)
    expect(await createInspectorIdentity(path)()).toBe(identity)
    expect(await createInspectorIdentity(other)()).not.toBe(identity)
  })

  test('is read again after a failure, and only once after a success', async () => {
    const path = await stub('unready', 'exit 1')
    const identify = createInspectorIdentity(path)
    await expect(identify()).rejects.toThrow('Command failed')
    await stub('unready', 'echo "ffmpeg version 5.1.6"')
    const identity = await identify()
    await stub('unready', 'exit 1')
    expect(await identify()).toBe(identity)
  })
})
