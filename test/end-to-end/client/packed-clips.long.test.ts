import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { findFfmpeg, preparePacks, prepareRecording, stitch, takeApart } from '../../../client/audio/audio.ts'
import type { Upload } from '../../../client/audio/prepare-recording.ts'
import { askTerms } from '../../../client/batch/plan/pricing.ts'
import { createFarebox, type Farebox, parseUsdc, walletFromPrivateKey } from '../../../client/farebox.ts'
import { compareWords } from '../../support/media/compare-words.ts'
import { type Speech, scriptSpeech, waveOfSpeech } from '../../support/media/tone-voice.ts'
import { havePrograms } from '../../support/processes/optional-program.ts'
import { runProgram } from '../../support/processes/run-program.ts'
import { type SharedSandbox, useSharedSandbox } from '../../support/processes/test-sandbox.ts'

const MODEL = 'speechvendor/scribe-v2'
const CLIPS = 20
/** Of 20 clips that are packed, and of 20 that are not, in atomic USDC. */
const PACKED_AT_MOST = 15_800n
const ONE_BY_ONE = 100_680n
const FARTHEST_MS = 50
const canRun = havePrograms('ffmpeg', 'ffprobe')

let sandbox: SharedSandbox
let farebox: Farebox
let folder = ''

interface Clip {
  readonly upload: Upload
  readonly speech: Speech
}

/** Returns a prepared clip of 22 s; half of them are MP3s that are sent as they are, half WAVs that are converted. */
async function clipNumber(number: number, limits: { maximumBytes: number; maximumDurationMs: number }): Promise<Clip> {
  const speech = scriptSpeech({ durationMs: 22_000, seed: number + 1 })
  const wave = join(folder, `clip-${number}.wav`)
  await writeFile(wave, waveOfSpeech(speech, 16_000))
  const mp3 = join(folder, `clip-${number}.mp3`)
  if (number % 2 === 0) await runProgram('ffmpeg', ['-v', 'error', '-i', wave, '-b:a', '48k', mp3])
  const ffmpeg = await findFfmpeg()
  const { uploads } = await prepareRecording(number % 2 === 0 ? mp3 : wave, { limits, ffmpeg, folder })
  const [upload] = uploads
  if (upload === undefined) throw new Error('no upload')
  return { upload, speech }
}

async function transcribe({ path, sha256, bytes, durationMs }: Upload) {
  return await farebox.transcriptions.create({
    file: path,
    model: MODEL,
    diarize: true,
    audio: { sha256, bytes, duration_ms: durationMs },
  })
}

const balance = () => sandbox.chain.usdcBalance(sandbox.payer.address)

const textsOf = (words: readonly { readonly word: string; readonly type?: string }[] = []) =>
  words.filter(({ type }) => type !== 'spacing').map(({ word }) => word)

describe.skipIf(!canRun)('20 clips of 22 s', () => {
  beforeAll(async () => {
    sandbox = await useSharedSandbox()
    folder = await mkdtemp(join(tmpdir(), 'farebox-clips-'))
    const { baseUrl, rpcUrl, payer } = sandbox.info
    farebox = await createFarebox({
      wallet: walletFromPrivateKey(payer.privateKey),
      baseUrl,
      rpcUrl,
      journal: 'memory',
    })
  })
  afterAll(async () => {
    await farebox.close()
    await sandbox.stop()
    await rm(folder, { recursive: true, force: true })
  })

  it('cost at most 0.0158 USDC packed instead of 0.10068, with the same words per clip', async () => {
    const { limits, prices } = await askTerms(farebox, MODEL, undefined)
    const clips: Clip[] = []
    for (let number = 0; number < CLIPS; number++) clips.push(await clipNumber(number, limits))

    const before = await balance()
    const alone = []
    for (const { upload } of clips) alone.push((await transcribe(upload)).result)
    const between = await balance()
    expect(before - between).toBe(ONE_BY_ONE)

    const { packs, single } = await preparePacks(clips, { limits, prices, folder })
    const [pack] = packs
    if (pack === undefined) throw new Error('no pack')
    expect({ packs: packs.length, single }).toEqual({ packs: 1, single: [] })
    const { result, payment } = await transcribe(pack.upload)
    const charged = between - (await balance())
    expect(charged).toBe(parseUsdc(payment.charged))
    expect(charged).toBeLessThanOrEqual(PACKED_AT_MOST)

    const apart = takeApart(result, pack.spans)
    for (const [index, { upload, speech }] of pack.clips.entries()) {
      const transcript = apart[index]
      if (transcript === undefined) throw new Error('no transcript')
      expect(textsOf(transcript.words)).toEqual(textsOf(alone[index]?.words))
      const { farthestMs, ...counts } = compareWords(stitch([{ ...upload, transcript }]), speech.words)
      expect(counts).toEqual({ words: speech.words.length, lost: 0, doubled: 0, invented: 0 })
      expect(farthestMs).toBeLessThanOrEqual(FARTHEST_MS)
      expect(transcript.wordsInSilence).toBe(0)
    }
  })
})
