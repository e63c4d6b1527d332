import { hash, randomUUID } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { extname, join } from 'node:path'
import { walkFrames } from '../../packages/mp3/walk-frames.ts'
import { AudioError } from './audio-error.ts'
import { bareFrames, skippedMsOf } from './bare-frames.ts'
import { type Conversion, type Treatment, treatmentOf } from './choose-treatment.ts'
import { conversionDelayMs, convert, describeAudio, type Ffmpeg } from './ffmpeg.ts'
import { type AudioLimits, bitRateFor } from './limits.ts'
import { cutRecording } from './parts/cut-recording.ts'
import type { CutOptions } from './parts/plan-parts.ts'
import { copyRecording, type FileFacts, type ReadRecording, readRecording } from './read-recording.ts'
import { statedMs } from './stated-length.ts'
import { writePrepared } from './write-prepared.ts'

/** An MP3 within the limits, with the facts that price it exactly: the source itself, or a prepared file. */
export interface Upload extends FileFacts {
  /** What the service measures. */
  readonly durationMs: number
  /** What is added to times of its transcript to get times of the source. */
  readonly offsetMs: number
}

export interface PreparedRecording {
  readonly source: FileFacts
  readonly treatment: Treatment['kind']
  /** At least one, in the order of the recording. */
  readonly uploads: readonly Upload[]
  /** What the user should know before paying, such as that the recording is incomplete. */
  readonly warnings: readonly string[]
}

/** What a recording that is split or converted will be, by what its file states. Not even its uploads exist yet. */
export interface ExpectedRecording {
  readonly source: FileFacts
  readonly treatment: 'cut' | 'convert'
  readonly statedMs: number
  readonly warnings: readonly string[]
}

export interface PrepareOptions extends CutOptions {
  readonly limits: AudioLimits
  /** Undefined if it is not installed: MP3s within the limits need none. */
  readonly ffmpeg: Ffmpeg | undefined
  /** Where converted recordings and parts are written; created if it does not exist. */
  readonly folder: string
  /** Converts a copy of the source in that folder, which nothing else can change meanwhile. */
  readonly copiesSource?: boolean | undefined
  readonly signal?: AbortSignal
}

/** A larger MP3 is converted by ffmpeg, which does not hold it in memory. */
const MAXIMUM_HELD_BYTES = 256 * 1024 * 1024
/** How much shorter than it claims a recording may be decoded. */
const TOLERANCE_MS = 1000
const TOLERANCE_SHARE = 0.02
const WHY_SPLIT = 'the recording exceeds the limits and must be split at a pause'

/**
 * Makes MP3s within the limits of any recording: the file itself if it is one, otherwise its frames in parts, otherwise a
 * conversion. Throws an `AudioError` if that is not possible. The source is never changed.
 */
export async function prepareRecording(path: string, options: PrepareOptions): Promise<PreparedRecording> {
  return await prepareRead(await readSource(path, options), options)
}

/**
 * Reads a recording without splitting or converting it, which takes far longer. Prepares it after all if its file does not
 * state how long it is, or states less than `fromMs`.
 */
export async function expectRecording(
  path: string,
  fromMs: number,
  options: PrepareOptions,
): Promise<PreparedRecording | ExpectedRecording> {
  const read = await readSource(path, options)
  const expected = await expectedOf(read, options)
  return expected !== undefined && expected.statedMs >= fromMs ? expected : await prepareRead(read, options)
}

interface ReadSource {
  readonly source: FileFacts
  readonly content: Uint8Array
  readonly treatment: Treatment
}

async function readSource(path: string, { limits, signal }: PrepareOptions): Promise<ReadSource> {
  const read = await readRecording(path, { maximumContentBytes: MAXIMUM_HELD_BYTES, ...(signal && { signal }) })
  const { content, ...source } = read
  return { source, content, treatment: treatmentOf(read, limits) }
}

async function expectedOf(
  { source, content, treatment }: ReadSource,
  { ffmpeg, signal }: PrepareOptions,
): Promise<ExpectedRecording | undefined> {
  if (treatment.kind === 'send') return undefined
  if (treatment.kind === 'cut') {
    requiredFfmpeg(source.path, WHY_SPLIT, ffmpeg)
    return { source, treatment: 'cut', statedMs: treatment.durationMs, warnings: warningsOfMp3(treatment) }
  }
  const program = requiredFfmpeg(source.path, whyConverted(treatment.found), ffmpeg)
  const { durationMs } = await describeAudio(program, source.path, signal)
  if (durationMs === undefined) return undefined
  const warnings = warningsOf(statedMs(content), durationMs)
  return { source, treatment: 'convert', statedMs: durationMs, warnings }
}

async function prepareRead(
  { source, content, treatment }: ReadSource,
  options: PrepareOptions,
): Promise<PreparedRecording> {
  if (treatment.kind === 'send') {
    const upload = { ...source, durationMs: treatment.durationMs, offsetMs: 0 }
    return { source, treatment: 'send', uploads: [upload], warnings: warningsOfMp3(treatment) }
  }
  if (treatment.kind === 'cut') {
    const uploads = await cutAndWrite(treatment.table, source, 0, options)
    return { source, treatment: 'cut', uploads, warnings: warningsOfMp3(treatment) }
  }
  return { treatment: 'convert', ...(await convertAndWrite({ source, content, treatment }, options)) }
}

function whyConverted(found: string): string {
  return `it is ${found} and must be converted to MP3`
}

function requiredFfmpeg(path: string, why: string, ffmpeg: Ffmpeg | undefined): Ffmpeg {
  if (ffmpeg === undefined) throw new AudioError('ffmpeg_missing', `${why}, which needs ffmpeg.`, { path })
  return ffmpeg
}

async function cutAndWrite(
  table: Parameters<typeof cutRecording>[0],
  source: FileFacts,
  delayMs: number,
  options: PrepareOptions,
): Promise<Upload[]> {
  const requireFfmpeg = () => requiredFfmpeg(source.path, WHY_SPLIT, options.ffmpeg)
  const parts = await cutRecording(table, { ...options, path: source.path, requireFfmpeg })
  const uploads: Upload[] = []
  for (const [index, { content, startMs }] of parts.entries()) {
    const path = join(options.folder, `${source.sha256}-${index + 1}-of-${parts.length}.mp3`)
    await writePrepared(path, content)
    uploads.push(await uploadAt(path, startMs - delayMs, content))
  }
  return uploads
}

async function uploadAt(path: string, offsetMs: number, expected: Uint8Array): Promise<Upload> {
  const { content, ...facts } = await readRecording(path, { maximumContentBytes: MAXIMUM_HELD_BYTES })
  const sha256 = hash('sha256', expected)
  if (facts.sha256 !== sha256) throw new AudioError('file_changed', 'the prepared part was changed.', { path })
  const walk = walkFrames(content)
  if (walk.outcome !== 'mp3') throw new AudioError('damaged_audio', `its part is ${walk.found}.`, { path })
  return { ...facts, durationMs: walk.durationMs, offsetMs }
}

async function convertAndWrite(
  { source, content, treatment: { found, mp3 } }: ReadSource & { treatment: Conversion },
  options: PrepareOptions,
): Promise<Omit<PreparedRecording, 'treatment'>> {
  const { limits, folder, signal } = options
  const { path } = source
  const ffmpeg = requiredFfmpeg(path, whyConverted(found), options.ffmpeg)
  const output = join(folder, `${source.sha256}.mp3`)
  const decodedRate = mp3 && mp3.parts.length > 1 ? Math.max(...mp3.parts.map((part) => part.sampleRate)) : undefined
  const described = await readByFfmpeg({ source, frames: mp3 && bareFrames(content) }, options, async (input) => {
    const description = await describeAudio(ffmpeg, input, signal)
    await convert(ffmpeg, { path: input, decodedRate, output, bitRate: bitRateFor(limits), ...(signal && { signal }) })
    return description
  })
  const converted = await readConverted(path, output)
  const unchanged = await readRecording(path, { maximumContentBytes: 0, ...(signal && { signal }) })
  if (unchanged.sha256 !== source.sha256)
    throw new AudioError('file_changed', 'the file changed while it was converted.', { path })
  const treatment = treatmentOf(converted, limits)
  if (treatment.kind === 'convert')
    throw new AudioError('damaged_audio', `it converts to ${treatment.found}.`, { path })
  const claimedMs = mp3?.durationMs ?? statedMs(content) ?? described.durationMs
  const warnings = warningsOf(claimedMs, treatment.durationMs)
  const skippedMs = mp3 === undefined ? 0 : skippedMsOf(content, mp3)
  const delayMs = conversionDelayMs(treatment.sampleRate) + skippedMs - described.startMs
  if (treatment.kind === 'cut') {
    const uploads = await cutAndWrite(treatment.table, source, delayMs, options)
    await rm(output, { force: true })
    return { source, uploads, warnings }
  }
  const { content: _, ...facts } = converted
  return { source, uploads: [{ ...facts, durationMs: treatment.durationMs, offsetMs: -delayMs }], warnings }
}

/** Lets ffmpeg read the source, or a copy of it, or its frames alone. */
async function readByFfmpeg<Result>(
  { source, frames }: { source: FileFacts; frames: Uint8Array | undefined },
  { folder, copiesSource, signal }: PrepareOptions,
  read: (input: string) => Promise<Result>,
): Promise<Result> {
  const { path, sha256 } = source
  if (copiesSource !== true && frames === undefined) return await read(path)
  const copy = join(folder, `${sha256}-${randomUUID()}${frames === undefined ? endingOf(path) : '.mp3'}`)
  try {
    if (frames === undefined) await copyRecording(source, copy, signal)
    else await writePrepared(copy, frames)
    return await read(copy)
  } catch (error) {
    throw error instanceof AudioError && error.path === copy ? error.at(path) : error
  } finally {
    await rm(copy, { force: true }).catch(() => undefined)
  }
}

/** ffmpeg takes the ending into account. */
function endingOf(path: string): string {
  const ending = extname(path)
  return /^\.[a-z0-9]{1,8}$/i.test(ending) ? ending : ''
}

/** Reads the output of a conversion, which is empty when the source claims to have sound and has none. */
async function readConverted(path: string, output: string): Promise<ReadRecording> {
  try {
    return await readRecording(output, { maximumContentBytes: Number.POSITIVE_INFINITY })
  } catch (error) {
    await rm(output, { force: true })
    if (error instanceof AudioError && error.code === 'empty_file')
      throw new AudioError('no_audio', 'there is no sound in it.', { path, cause: error })
    throw error
  }
}

function warningsOf(claimedMs: number | undefined, decodedMs: number): string[] {
  if (claimedMs === undefined || decodedMs >= claimedMs * (1 - TOLERANCE_SHARE) - TOLERANCE_MS) return []
  return [
    `the recording is incomplete or damaged: it claims ${seconds(claimedMs)} s, and ${seconds(decodedMs)} s can be decoded`,
  ]
}

/** An MP3's header frame counts frames, so what is missing shows to the second. */
function warningsOfMp3({
  claimedMs = 0,
  durationMs,
  endsWithinFrame,
}: Exclude<Treatment, { kind: 'convert' }>): string[] {
  if (durationMs < claimedMs - TOLERANCE_MS)
    return [`the recording is incomplete: it claims ${seconds(claimedMs)} s, and there are ${seconds(durationMs)} s`]
  return endsWithinFrame ? ['the recording is probably incomplete: it ends within a frame'] : []
}

function seconds(milliseconds: number): string {
  return (milliseconds / 1000).toFixed(1)
}
