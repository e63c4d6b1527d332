import { hash } from 'node:crypto'
import { join } from 'node:path'
import type { AudioLimits } from '../../audio/limits.ts'
import type { Span } from '../../audio/pack/prepare-packs.ts'
import type { ExpectedRecording } from '../../audio/prepare-recording.ts'
import { canonicalJson } from '../../wire/json.ts'
import { AppendedLines } from '../record/appended-lines.ts'
import { type FileStamp, isSameStamp } from '../record/file-state.ts'

/** How much longer than its file states an upload may be: by the encoder's delay, its last frame and a lead-in frame. */
const MARGIN_MS = 250
/** How much of the longest part a part has at least, because it ends at a pause before the limit. */
const SHORTEST_SHARE = 0.8

/** An upload as it was measured; the file with its bytes may be gone. */
export interface MeasuredUpload {
  readonly bytes: number
  readonly sha256: string
  readonly durationMs: number
  readonly offsetMs: number
}

/** Returns what is remembered of an upload. */
export function measuredUpload({ bytes, sha256, durationMs, offsetMs }: MeasuredUpload): MeasuredUpload {
  return { bytes, sha256, durationMs, offsetMs }
}

/** What preparing a recording resulted in. */
export interface MeasuredRecording extends FileStamp {
  readonly sha256: string
  readonly treatment: 'send' | 'cut' | 'convert'
  readonly uploads: readonly MeasuredUpload[]
  readonly warnings: readonly string[]
  /** What it can be packed with; `null` if it cannot be; missing if nobody asked. */
  readonly streamKey?: number | null
}

/** A recording that is prepared only when it is sent. */
export interface StatedRecording extends Omit<MeasuredRecording, 'treatment' | 'uploads' | 'streamKey'> {
  readonly treatment: 'cut' | 'convert'
  readonly statedMs: number
  /** At least as long as the uploads will be. */
  readonly estimates: readonly { readonly durationMs: number }[]
}

interface Line extends MeasuredRecording {
  readonly limits: string
  /** Version of ffmpeg; other versions may result in other bytes. */
  readonly ffmpeg: string | null
}

/** Changes with what is done to recordings: what was measured before does not count then. */
const PREPARATION = 1

/** A pack as it was measured. */
export interface MeasuredPack {
  readonly upload: MeasuredUpload
  readonly spans: readonly Span[]
}

interface PackLine extends MeasuredPack {
  /** Digest of the clips in their order, and of the limits. */
  readonly pack: string
}

/** Remembers measured recordings and packs, so that a second plan does not read or decode them. */
export class PlanCache {
  readonly #lines: AppendedLines | null
  readonly #packLines: AppendedLines | null
  #packs: Map<string, MeasuredPack> | undefined
  readonly #byPath = new Map<string, Line>()
  readonly #limits: string
  readonly #ffmpegVersion: () => Promise<string | null>

  constructor(home: string | null, limits: AudioLimits, ffmpegVersion: () => Promise<string | null>) {
    this.#lines = home === null ? null : new AppendedLines(join(home, 'batch', 'measured.ndjson'))
    this.#packLines = home === null ? null : new AppendedLines(join(home, 'batch', 'measured-packs.ndjson'))
    this.#limits = `${PREPARATION} ${limits.maximumBytes} ${limits.maximumDurationMs}`
    this.#ffmpegVersion = ffmpegVersion
    for (const line of this.#lines?.read() ?? [])
      if (typeof (line as Partial<Line>).path === 'string') this.#byPath.set((line as Line).path, line as Line)
  }

  async find(stamp: FileStamp): Promise<MeasuredRecording | undefined> {
    const line = this.#byPath.get(stamp.path)
    if (line === undefined || !isSameStamp(line, stamp) || line.limits !== this.#limits) return undefined
    // An MP3 that is sent as it is depends on no program.
    if (line.treatment !== 'send' && line.ffmpeg !== (await this.#ffmpegVersion())) return undefined
    return line
  }

  findPack(clips: readonly MeasuredRecording[]): MeasuredPack | undefined {
    this.#packs ??= new Map(
      ((this.#packLines?.read() ?? []) as Partial<PackLine>[]).flatMap(({ pack, upload, spans }) =>
        pack !== undefined && upload !== undefined && spans !== undefined ? [[pack, { upload, spans }] as const] : [],
      ),
    )
    return this.#packs.get(this.#packKey(clips))
  }

  addPack(clips: readonly MeasuredRecording[], { upload, spans }: MeasuredPack): void {
    const line: PackLine = { pack: this.#packKey(clips), upload: measuredUpload(upload), spans }
    try {
      this.#packLines?.append(line)
    } catch {
      // It is measured again next time.
    }
  }

  /** A pack is made of what is uploaded of its clips alone. */
  #packKey(clips: readonly MeasuredRecording[]): string {
    const uploads = clips.map(({ uploads: [upload] }) => upload?.sha256)
    return hash('sha256', canonicalJson([this.#limits, uploads]), 'base64url')
  }

  async add(recording: MeasuredRecording): Promise<void> {
    const { path, bytes, modifiedMs, sha256, treatment, uploads, warnings, streamKey } = recording
    const line: Line = {
      path,
      bytes,
      modifiedMs,
      sha256,
      treatment,
      uploads: uploads.map(measuredUpload),
      warnings,
      ...(streamKey !== undefined && { streamKey }),
      limits: this.#limits,
      ffmpeg: treatment === 'send' ? null : await this.#ffmpegVersion(),
    }
    this.#byPath.set(path, line)
    try {
      this.#lines?.append(line)
    } catch {
      // It is measured again next time; the journal reports a full disk before anything is paid.
    }
  }
}

/** Returns a recording as it is priced before it is prepared, with uploads that are not too short. */
export function statedRecording(
  { source, treatment, statedMs, warnings }: ExpectedRecording,
  { maximumDurationMs, maximumBytes }: AudioLimits,
): StatedRecording {
  const isOne = treatment === 'convert' && statedMs + MARGIN_MS <= maximumDurationMs
  const byDuration = statedMs / (maximumDurationMs * SHORTEST_SHARE)
  // What is converted has a bit rate with which the bytes are no limit.
  const byBytes = treatment === 'cut' ? source.bytes / (maximumBytes * SHORTEST_SHARE) : 0
  const parts = isOne ? 1 : Math.ceil(Math.max(byDuration, byBytes))
  const durationMs = Math.ceil(statedMs / parts) + MARGIN_MS
  return { ...source, treatment, warnings, statedMs, estimates: Array.from({ length: parts }, () => ({ durationMs })) }
}
