import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { preparePacks, prepareRecording } from '../../../../client/audio/audio.ts'
import { walkFrames } from '../../../../client/audio/mpeg/walk-frames.ts'
import { generateMp3 } from '../../../support/media/mp3-generator.ts'

const limits = { maximumBytes: 26_214_400, maximumDurationMs: 3_600_000 }
const prices = { pricePerAudioHourUsd: '0.122', minimumChargeUsd: '0.005034' }
let folder = ''
const at = (name: string) => join(folder, name)

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'farebox-pack-'))
})
afterAll(async () => {
  await rm(folder, { recursive: true, force: true })
})

async function prepared(name: string, options: Parameters<typeof generateMp3>[0]) {
  await writeFile(at(name), generateMp3(options))
  const { uploads } = await prepareRecording(at(name), { limits, ffmpeg: undefined, folder: at('prepared') })
  const [upload] = uploads
  if (upload === undefined) throw new Error('no upload')
  return { name, upload }
}

describe('preparePacks', () => {
  test('joins 20 MP3s of 22 s without ffmpeg for less than 0.0158 USDC, and leaves another rate alone', async () => {
    const clips = []
    for (let index = 0; index < 20; index++)
      clips.push(await prepared(`clip-${index}.mp3`, { durationMs: 22_250, bitrate: 32, seed: `${index}` }))
    const other = await prepared('other.mp3', { durationMs: 2000, sampleRate: 22_050 })
    const { packs, single } = await preparePacks([...clips, other], { limits, prices, folder: at('packs') })
    expect(single).toEqual([other])
    expect(packs.map(({ clips }) => clips)).toEqual([clips])
    const [pack] = packs
    const walk = walkFrames(await readFile(pack?.upload.path ?? ''))
    expect(walk).toMatchObject({ outcome: 'mp3', durationMs: pack?.upload.durationMs, discontinuities: 0 })
    expect(((pack?.upload.durationMs ?? 0) * 0.122) / 3_600_000).toBeLessThanOrEqual(0.0158)
  })

  test('refuses a clip that changed after it was measured', async () => {
    const clips = [await prepared('a.mp3', { durationMs: 1000 }), await prepared('b.mp3', { durationMs: 1000 })]
    await writeFile(at('b.mp3'), 'something else')
    await expect(preparePacks(clips, { limits, prices, folder })).rejects.toMatchObject({ code: 'file_changed' })
  })
})
