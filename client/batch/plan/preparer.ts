import { rm, statfs } from 'node:fs/promises'
import { availableParallelism, tmpdir } from 'node:os'
import pLimit from 'p-limit'
import { walkFrames } from '../../../packages/mp3/walk-frames.ts'
import { AudioError } from '../../audio/audio-error.ts'
import { type Ffmpeg, findFfmpeg } from '../../audio/ffmpeg.ts'
import { frameTableOf } from '../../audio/frame-table.ts'
import { type AudioLimits, longestAtMinimumMs } from '../../audio/limits.ts'
import { preparePacks } from '../../audio/pack/prepare-packs.ts'
import {
  type ExpectedRecording,
  expectRecording,
  type PreparedRecording,
  type PrepareOptions,
  prepareRecording,
  type Upload,
} from '../../audio/prepare-recording.ts'
import { readAgain } from '../../audio/read-recording.ts'
import { openTemporaryFolder } from '../../files/files.ts'
import { type FareboxError, uncharged } from '../../wire/farebox-error.ts'
import { type FileStamp, isSameStamp, stampOf } from '../record/file-state.ts'
import {
  type MeasuredPack,
  type MeasuredRecording,
  type MeasuredUpload,
  measuredUpload,
  PlanCache,
  type StatedRecording,
  statedRecording,
} from './plan-cache.ts'
import { minimumPartMs, type TranscriptionTerms } from './pricing.ts'

export interface PreparerOptions {
  readonly terms: TranscriptionTerms
  readonly home: string | null
  readonly ffmpegPath: string | undefined
  readonly copiesSources?: boolean | undefined
  readonly signal: AbortSignal | undefined
}

/** While the disk has more room than this, what was prepared is kept until it is sent; otherwise it is prepared again. */
const SPARED_BYTES = 1024 * 1024 * 1024

/** Measures recordings, and prepares what is sent in a temporary folder. */
export class Preparer {
  readonly #options: PreparerOptions
  readonly #cache: PlanCache
  readonly #limit = pLimit(Math.max(2, availableParallelism()))
  /** Paths of prepared files by their SHA-256. */
  readonly #kept = new Map<string, string>()
  readonly #preparing = new Map<string, Promise<readonly Upload[]>>()
  #folder: Promise<string> | undefined
  #ffmpeg: Promise<{ readonly program: Ffmpeg | undefined; readonly version: string | null }> | undefined

  constructor(options: PreparerOptions) {
    this.#options = options
    this.#cache = new PlanCache(options.home, options.terms.limits, async () => (await this.#findFfmpeg()).version)
  }

  /** Measures a recording exactly, by preparing it unless that was done before. */
  measure(path: string, needsStreamKey: boolean): Promise<MeasuredRecording> {
    return this.#limit(async () => {
      const cached = await this.#cached(path, needsStreamKey)
      return cached ?? (await this.#measured(await this.#prepare(path, prepareRecording), needsStreamKey))
    })
  }

  /** Measures a recording without preparing it, unless it is a clip that may be packed or does not state its length. */
  measureStated(path: string, mayPack: boolean): Promise<MeasuredRecording | StatedRecording> {
    const { terms } = this.#options
    const fromMs = mayPack ? longestAtMinimumMs(terms.prices) : 0
    return this.#limit(async () => {
      const cached = await this.#cached(path, mayPack)
      if (cached !== undefined) return cached
      const found = await this.#prepare(path, (path, options) => expectRecording(path, fromMs, options))
      return 'statedMs' in found ? statedRecording(found, terms.limits) : await this.#measured(found, mayPack)
    })
  }

  /** Prepares a recording that is sent next, and keeps it until then. */
  prepareStated(stated: StatedRecording): Promise<MeasuredRecording> {
    return this.#limit(async () => {
      await requireUnchanged(stated)
      const prepared = await this.#prepare(stated.path, prepareRecording)
      if (prepared.source.sha256 !== stated.sha256) throw differs(stated)
      this.#keep(prepared)
      return await this.#measured(prepared, false)
    })
  }

  async #cached(path: string, needsStreamKey: boolean): Promise<MeasuredRecording | undefined> {
    this.#options.signal?.throwIfAborted()
    const stamp = await stampOf(path)
    const cached = stamp === null ? undefined : await this.#cache.find(stamp)
    if (cached !== undefined) requireLength(cached, this.#options.terms.limits)
    return cached !== undefined && (!needsStreamKey || cached.streamKey !== undefined) ? cached : undefined
  }

  async #measured(prepared: PreparedRecording, needsStreamKey: boolean): Promise<MeasuredRecording> {
    const { source, treatment, uploads, warnings } = prepared
    requireLength({ path: source.path, uploads }, this.#options.terms.limits)
    const streamKey = needsStreamKey ? await this.#streamKeyOf(uploads) : undefined
    const measured = { ...source, treatment, uploads, warnings, ...(streamKey !== undefined && { streamKey }) }
    await this.#cache.add(measured)
    if (treatment !== 'send') await this.#keepFiles(uploads)
    return measured
  }

  /**
   * Returns the path of an upload's bytes, which are prepared another time if they were not kept. Throws `file_changed`
   * if the recording is not the one that was measured.
   */
  async pathOf(recording: MeasuredRecording, index: number): Promise<string> {
    await requireUnchanged(recording)
    const planned = recording.uploads[index]
    if (planned === undefined) throw new RangeError(`there is no upload ${index}`)
    if (recording.treatment === 'send') return recording.path
    const kept = this.#kept.get(planned.sha256)
    if (kept !== undefined) return kept
    const uploads = await this.#prepareAgain(recording.path)
    const upload = uploads[index]
    if (upload?.sha256 !== planned.sha256 || uploads.length !== recording.uploads.length) throw differs(recording)
    return upload.path
  }

  /** Measures the pack of clips, in their order. */
  async measurePack(clips: readonly MeasuredRecording[]): Promise<MeasuredPack> {
    const known = this.#cache.findPack(clips)
    if (known !== undefined) return known
    const { path, ...pack } = await this.#buildPack(clips)
    this.#cache.addPack(clips, pack)
    await this.#keepFiles([{ ...pack.upload, path }])
    return pack
  }

  async pathOfPack(planned: MeasuredPack, clips: readonly MeasuredRecording[]): Promise<string> {
    for (const clip of clips) await requireUnchanged(clip)
    const kept = this.#kept.get(planned.upload.sha256)
    if (kept !== undefined) return kept
    const { upload, path } = await this.#buildPack(clips)
    const [first] = clips
    if (upload.sha256 !== planned.upload.sha256 && first !== undefined) throw differs(first)
    return path
  }

  /** Removes prepared files that were sent. */
  async remove(uploads: readonly MeasuredUpload[]): Promise<void> {
    for (const { sha256 } of uploads) {
      const path = this.#kept.get(sha256)
      this.#kept.delete(sha256)
      // What cannot be removed now is removed with the folder.
      if (path !== undefined) await rm(path, { force: true }).catch(() => undefined)
    }
  }

  async discard(): Promise<void> {
    if (this.#folder !== undefined) await rm(await this.#folder, { recursive: true, force: true })
    this.#folder = undefined
    this.#kept.clear()
  }

  /** Parts of one recording that are sent at the same time are prepared once. */
  async #prepareAgain(path: string): Promise<readonly Upload[]> {
    const running = this.#preparing.get(path)
    if (running !== undefined) return await running
    const preparation = this.#limit(async () => {
      const prepared = await this.#prepare(path, prepareRecording)
      this.#keep(prepared)
      return prepared.uploads
    })
    this.#preparing.set(path, preparation)
    try {
      return await preparation
    } finally {
      this.#preparing.delete(path)
    }
  }

  /** Looks for ffmpeg only when a recording needs it: an MP3 mostly does not. */
  async #prepare<Found extends PreparedRecording | ExpectedRecording>(
    path: string,
    prepare: (path: string, options: PrepareOptions) => Promise<Found>,
  ): Promise<Found> {
    const { terms, signal, copiesSources: copiesSource } = this.#options
    const options = {
      limits: terms.limits,
      folder: await this.#openFolder(),
      copiesSource,
      minimumPartMs: minimumPartMs(terms),
      ...(signal && { signal }),
    }
    if (this.#ffmpeg === undefined) {
      try {
        return await prepare(path, { ...options, ffmpeg: undefined })
      } catch (error) {
        if (!(error instanceof AudioError) || error.code !== 'ffmpeg_missing') throw error
      }
    }
    return await prepare(path, { ...options, ffmpeg: (await this.#findFfmpeg()).program })
  }

  #findFfmpeg() {
    this.#ffmpeg ??= findFfmpeg(this.#options.ffmpegPath).then(async (program) => {
      const version = program === undefined ? undefined : await program.ffmpeg(['-version'])
      const [line = ''] = new TextDecoder().decode(version?.stdout).split('\n')
      return { program, version: program === undefined ? null : line }
    })
    return this.#ffmpeg
  }

  #openFolder(): Promise<string> {
    this.#folder ??= openTemporaryFolder('prepared').catch((cause: unknown) => {
      throw uncharged(
        'folder_unwritable',
        `No temporary folder can be made in ${tmpdir()}.`,
        'Free disk space, or let TMPDIR name a folder that can be written.',
        cause,
      )
    })
    return this.#folder
  }

  /** What is kept is removed once it is sent, and a recording that is sent as it is belongs to the caller. */
  #keep({ treatment, uploads }: PreparedRecording): void {
    if (treatment !== 'send') for (const { sha256, path } of uploads) this.#kept.set(sha256, path)
  }

  async #keepFiles(uploads: readonly Pick<Upload, 'bytes' | 'sha256' | 'path'>[]): Promise<void> {
    for (const { sha256, path } of uploads) {
      if (this.#kept.has(sha256)) continue
      const { bavail, bsize } = await statfs(path)
      if (bavail * bsize < SPARED_BYTES) await rm(path, { force: true })
      else this.#kept.set(sha256, path)
    }
  }

  /** Only a recording of one upload that costs the minimum can be packed. */
  async #streamKeyOf(uploads: readonly Upload[]): Promise<number | null> {
    const [upload] = uploads
    const { prices } = this.#options.terms
    if (upload === undefined || uploads.length > 1 || upload.durationMs >= longestAtMinimumMs(prices)) return null
    const content = await readAgain(upload, this.#options.signal)
    const walk = walkFrames(content)
    return (walk.outcome === 'mp3' ? frameTableOf(content, walk)?.streamKey : undefined) ?? null
  }

  async #buildPack(clips: readonly MeasuredRecording[]): Promise<MeasuredPack & { readonly path: string }> {
    const { terms, signal } = this.#options
    const recordings: { upload: Upload }[] = []
    for (const clip of clips) {
      const [upload] = clip.uploads
      const path = await this.pathOf(clip, 0)
      if (upload === undefined) throw new RangeError('a clip is one upload')
      recordings.push({ upload: { ...upload, path, modifiedMs: clip.modifiedMs } })
    }
    const folder = await this.#openFolder()
    const { packs } = await preparePacks(recordings, {
      limits: terms.limits,
      prices: terms.prices,
      folder,
      ...(signal && { signal }),
    })
    const [pack] = packs
    if (pack === undefined || pack.clips.length !== clips.length) throw new Error('the clips did not become one pack')
    return { upload: measuredUpload(pack.upload), spans: pack.spans, path: pack.upload.path }
  }
}

/** Throws an `AudioError` for a recording that the service would refuse as too short. */
function requireLength(
  { path, uploads }: Pick<MeasuredRecording, 'path' | 'uploads'>,
  { minimumDurationMs: least = 0 }: AudioLimits,
): void {
  const short = uploads.find(({ durationMs }) => durationMs < least)
  if (short === undefined) return
  const problem = `it lasts ${short.durationMs} ms; recordings of less than ${least} ms are not transcribed.`
  throw new AudioError('audio_too_short', problem, { path })
}

/** What was prepared before a change must not be sent in place of the file as it is. */
async function requireUnchanged(recording: FileStamp): Promise<void> {
  const stamp = await stampOf(recording.path)
  if (stamp === null || !isSameStamp(stamp, recording))
    throw new AudioError('file_changed', 'the file changed since it was measured.', { path: recording.path })
}

function differs({ path }: FileStamp): FareboxError {
  return uncharged(
    'file_changed',
    `${path}: what would be sent is not what was priced: the file or ffmpeg changed since the plan.`,
    'Run the command again.',
  )
}
