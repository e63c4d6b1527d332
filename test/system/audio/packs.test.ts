import { writeFileSync } from 'node:fs'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, test } from 'vitest'
import { decodeFrames, type Ffmpeg, findFfmpeg } from '../../../client/audio/ffmpeg.ts'
import { preparePacks } from '../../../client/audio/pack/prepare-packs.ts'
import { takeApart } from '../../../client/audio/pack/take-apart.ts'
import { stitch } from '../../../client/audio/parts/stitch.ts'
import { prepareRecording, type Upload } from '../../../client/audio/prepare-recording.ts'
import { copyRecording } from '../../../client/audio/read-recording.ts'
import { askTerms } from '../../../client/batch/plan/pricing.ts'
import { createFarebox, type Farebox, parseUsdc, walletFromPrivateKey } from '../../../client/farebox.ts'
import { burstsIn, waveOf } from '../../support/client/audio/bursts.ts'
import { transcribe } from '../../support/client/audio/heard-words.ts'
import { type BatchFolder, makeBatchFolder } from '../../support/client/batch-bench.ts'
import { compareWords } from '../../support/media/compare-words.ts'
import { startInspector } from '../../support/media/inspect-audio.ts'
import { type Speech, scriptSpeech, waveOfSpeech } from '../../support/media/tone-voice.ts'
import { havePrograms } from '../../support/processes/optional-program.ts'
import { runProgram } from '../../support/processes/run-program.ts'
import { type SharedSandbox, useSharedSandbox } from '../../support/processes/test-sandbox.ts'

const limits = { maximumBytes: 26_214_400, maximumDurationMs: 3_600_000 }
const prices = { pricePerAudioHourUsd: '0.122', minimumChargeUsd: '0.005034' }
const canRun = havePrograms('ffmpeg', 'ffprobe')
const MODEL = 'speechvendor/scribe-v2'
const CLIPS = 20
/** Of 20 clips that are packed, and of 20 that are not, in atomic USDC. */
const PACKED_AT_MOST = 15_800n
const ONE_BY_ONE = 100_680n
const FARTHEST_MS = 50
interface Clip {
  readonly upload: Upload
  readonly speech: Speech
}
const textsOf = (words: readonly { readonly word: string; readonly type?: string }[] = []) =>
  words.filter(({ type }) => type !== 'spacing').map(({ word }) => word)
/** Four of them cost the minimum together. */
const CLIP_MS = 20_000
const MINIMUM = 5034n

describe.skipIf(!canRun)('preparePacks', () => {
  let folder = ''
  let ffmpeg: Ffmpeg
  /** Returns three prepared clips, the first with one burst, the last with three. */
  async function prepared() {
    const recordings = []
    for (let index = 0; index < 3; index++) {
      const bursts = Array.from({ length: index + 1 }, (_, burst) => ({
        startMs: 200 + burst * 300,
        endMs: 400 + burst * 300,
      }))
      const path = join(folder, `clip-${index}.wav`)
      await writeFile(path, waveOf({ durationMs: 2000 + index * 100, bursts }))
      const { uploads } = await prepareRecording(path, { limits, ffmpeg, folder })
      const [upload] = uploads
      if (upload === undefined) throw new Error('no upload')
      recordings.push({ upload, bursts })
    }
    return recordings
  }

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'farebox-pack-'))
    ffmpeg = (await findFfmpeg()) as Ffmpeg
  })
  afterAll(async () => {
    await rm(folder, { recursive: true, force: true })
  })

  test('joins clips into one MP3 that the service measures equally, and finds each sound in its clip', async () => {
    const { packs, single } = await preparePacks(await prepared(), { limits, prices, folder })
    const [pack] = packs
    if (pack === undefined) throw new Error('no pack')
    expect({ packs: packs.length, single }).toEqual({ packs: 1, single: [] })
    const content = await readFile(pack.upload.path)
    const { inspect } = await startInspector()
    expect((await inspect(content)).durationMs).toBe(pack.upload.durationMs)

    const { samples, sampleRate } = await decodeFrames(content, { path: pack.upload.path, ffmpeg })
    const words = burstsIn(samples, sampleRate).map(({ startMs, endMs }, index) => ({
      word: `w${index}`,
      start: startMs / 1000,
      end: endMs / 1000,
    }))
    const apart = takeApart({ text: '', words }, pack.spans)
    for (const [index, { upload, bursts }] of pack.clips.entries()) {
      const transcript = apart[index]
      if (transcript === undefined) throw new Error('no transcript')
      expect(transcript.wordsInSilence).toBe(0)
      const { durationMs, offsetMs } = upload
      const { words: own = [] } = stitch([{ transcript, durationMs, offsetMs }])
      expect(own).toHaveLength(bursts.length)
      for (const [burst, { startMs }] of bursts.entries())
        expect(Math.abs((own[burst]?.start ?? -1) * 1000 - startMs)).toBeLessThanOrEqual(20)
    }
  })

  test('has the words of clips at their times, although decoders skip the delay of LAME only in a clip alone', async () => {
    const clips = []
    for (const number of [1, 2]) {
      const speech = scriptSpeech({ durationMs: 4000, seed: number })
      const wave = join(folder, `speech-${number}.wav`)
      await writeFile(wave, waveOfSpeech(speech))
      const path = join(folder, `speech-${number}.mp3`)
      await runProgram('ffmpeg', ['-v', 'error', '-i', wave, '-b:a', '32k', path])
      const [upload] = (await prepareRecording(path, { limits, ffmpeg: undefined, folder })).uploads
      if (upload === undefined) throw new Error('no upload')
      clips.push({ upload, speech })
    }
    const [pack] = (await preparePacks(clips, { limits, prices, folder })).packs
    if (pack === undefined) throw new Error('no pack')
    const apart = takeApart(await transcribe(await readFile(pack.upload.path)), pack.spans)
    for (const [index, { speech }] of pack.clips.entries()) {
      const { farthestMs, ...counts } = compareWords(apart[index] ?? { text: '' }, speech.words)
      expect(counts).toEqual({ words: speech.words.length, lost: 0, doubled: 0, invented: 0 })
      expect(farthestMs).toBeLessThanOrEqual(15)
    }
  })
})

describe.skipIf(!havePrograms('ffmpeg', 'ffprobe'))('a file in the place of a recording', () => {
  let folder = ''
  let ffmpeg: Ffmpeg
  const at = (name: string) => join(folder, name)

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'farebox-playlists-'))
    ffmpeg = (await findFfmpeg()) as Ffmpeg
    const sound = ['-v', 'error', '-f', 'lavfi', '-i', 'sine=frequency=440:duration=1']
    await runProgram('ffmpeg', [...sound, '-f', 'mpegts', at('private.ts')])
    await runProgram('ffmpeg', [...sound, at('private.mp3')])
    await runProgram('ffmpeg', [...sound, at('own.wav')])
  })
  afterAll(async () => {
    await rm(folder, { recursive: true, force: true })
  })

  const HLS = '#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:1,\n'
  test.each([
    ['an HLS playlist', () => `${HLS}${at('private.ts')}\n#EXT-X-ENDLIST\n`],
    ['an HLS playlist of URLs', () => `${HLS}file:${at('private.mp3')}\n#EXT-X-ENDLIST\n`],
    ['a list for concatenation', () => 'ffconcat version 1.0\nfile private.mp3\n'],
    ['a session description', () => 'v=0\no=- 0 0 IN IP4 127.0.0.1\nc=IN IP4 127.0.0.1\nm=audio 4 RTP/AVP 0\n'],
  ])('that is %s does not lead ffmpeg to other files', async (_, content) => {
    await writeFile(at('evil.wav'), content())
    const preparing = prepareRecording(at('evil.wav'), { limits, ffmpeg, folder: at('prepared') })
    await expect(preparing).rejects.toMatchObject({ code: 'not_audio', money: 'none' })
  })

  test('is read by ffmpeg from a copy if that is asked for, which is the same and is removed', async () => {
    const inputs: string[] = []
    const watched: Ffmpeg = {
      ffmpeg: (args, run) => {
        inputs.push(args[args.indexOf('-i') + 1] ?? '')
        return ffmpeg.ffmpeg(args, run)
      },
      ffprobe: (args, run) => {
        inputs.push(args[args.indexOf('-i') + 1] ?? '')
        return ffmpeg.ffprobe(args, run)
      },
    }
    const options = { limits, folder: at('copies'), copiesSource: true }
    const copied = await prepareRecording(at('own.wav'), { ...options, ffmpeg: watched })
    expect(inputs).toHaveLength(2)
    for (const input of inputs) expect(input).toMatch(new RegExp(`^file:${at('copies')}/.+\\.wav$`))
    expect(await readdir(at('copies'))).toHaveLength(1)
    const direct = await prepareRecording(at('own.wav'), { limits, ffmpeg, folder: at('direct') })
    expect(copied.uploads.map(({ sha256 }) => sha256)).toEqual(direct.uploads.map(({ sha256 }) => sha256))
  })

  test('is not copied when it is another one than was measured', async () => {
    const facts = { path: at('own.wav'), bytes: 1, sha256: '0'.repeat(64), modifiedMs: 0 }
    await expect(copyRecording(facts, at('copy.wav'))).rejects.toMatchObject({ code: 'file_changed', money: 'none' })
  })

  test('that is no recording is reported with its own path, not that of the copy', async () => {
    await writeFile(at('text.wav'), 'no recording')
    const preparing = prepareRecording(at('text.wav'), { limits, ffmpeg, folder: at('copies'), copiesSource: true })
    await expect(preparing).rejects.toMatchObject({ code: 'not_audio', path: at('text.wav') })
    await expect(preparing).rejects.toThrow(at('text.wav'))
    expect(await readFile(at('text.wav'), 'utf8')).toBe('no recording')
  })
})

describe.skipIf(!canRun)('20 clips of 22 s', () => {
  let sandbox: SharedSandbox
  let farebox: Farebox
  let folder = ''
  /** Returns a prepared clip of 22 s; half of them are MP3s that are sent as they are, half WAVs that are converted. */
  async function clipNumber(
    number: number,
    limits: { maximumBytes: number; maximumDurationMs: number },
  ): Promise<Clip> {
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

describe('packs of short recordings', () => {
  let sandbox: SharedSandbox
  let batch: BatchFolder
  beforeAll(async () => {
    sandbox = await useSharedSandbox()
  })
  afterAll(async () => {
    await sandbox.stop()
  })
  beforeEach(async () => {
    batch = await makeBatchFolder(sandbox)
  })
  afterEach(async () => {
    await batch.remove()
  })
  /** Packs four clips, then loses two transcripts; the others are changed by their reader. */
  async function packAndLoseTwo(): Promise<void> {
    await batch.record(['b.mp3', 'c.mp3', 'd.mp3', 'e.mp3'], CLIP_MS)
    const { outcome } = await batch.run({ pack: true })
    expect(outcome).toMatchObject({ finished: 4, charged: MINIMUM })
    await rm(join(batch.folder, 'b.srt'))
    await rm(join(batch.folder, 'd.srt'))
    await writeFile(join(batch.folder, 'c.srt'), 'corrected')
  }

  it('a pack is sent as it was when clips of it are missing, although others were added', async () => {
    await packAndLoseTwo()
    await batch.record(['a.mp3', 'cc.mp3'], CLIP_MS)
    const { plan, outcome } = await batch.run({ pack: true })
    expect(plan.totals).toMatchObject({ packs: 2, toDo: 4, finished: 2, price: 2n * MINIMUM, toCharge: MINIMUM })
    expect(outcome).toMatchObject({ finished: 4, skipped: 2, charged: MINIMUM, replayed: MINIMUM })
    expect(await batch.paid()).toBe(2n * MINIMUM)
    expect(await readFile(join(batch.folder, 'c.srt'), 'utf8')).toBe('corrected')
  })

  it('is not paid again with the journal deleted, if the clips are the same', async () => {
    await packAndLoseTwo()
    await rm(batch.home, { recursive: true })
    const { outcome } = await batch.run({ pack: true })
    // No record says what the others are: the same call is answered again, without a charge.
    expect(outcome).toMatchObject({ finished: 4, skipped: 0 })
    expect(await batch.paid()).toBe(MINIMUM)
    expect(await readFile(join(batch.folder, 'c.srt'), 'utf8')).toBe('corrected')
  })

  it('a clip that changed keeps its pack from being sent, and the next run packs them as they are', async () => {
    const [first = ''] = await batch.record(['a.mp3', 'b.mp3'], CLIP_MS)
    const { outcome } = await batch.run({ pack: true }, {}, ({ event }) => {
      if (event === 'totals') writeFileSync(first, 'changed')
    })
    expect(outcome.failures.map(({ file, error }) => [file.name, error.code])).toEqual([
      ['a.mp3', 'file_changed'],
      ['b.mp3', 'pack_incomplete'],
    ])
    expect(await batch.paid()).toBe(0n)
    await batch.record(['a.mp3'], CLIP_MS)
    expect((await batch.run({ pack: true })).outcome).toMatchObject({ finished: 2, charged: MINIMUM })
  })
})
