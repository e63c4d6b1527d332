import { join } from 'node:path'
import type { AudioLimits } from '../../audio/audio.ts'
import { AppendedLines } from '../record/appended-lines.ts'
import { type FileStamp, isSameStamp } from '../record/file-state.ts'

/** An upload as it was measured; the file with its bytes may be gone. */
export interface MeasuredUpload {
  readonly bytes: number
  readonly sha256: string
  readonly durationMs: number
  readonly offsetMs: number
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

interface Line extends MeasuredRecording {
  readonly limits: string
  /** Version of ffmpeg; other versions may result in other bytes. */
  readonly ffmpeg: string | null
}

/** Changes with what is done to recordings: what was measured before does not count then. */
const PREPARATION = 1

/** Remembers measured recordings, so that a second plan does not read or decode them. */
export class PlanCache {
  readonly #lines: AppendedLines | null
  readonly #byPath = new Map<string, Line>()
  readonly #limits: string
  readonly #ffmpegVersion: () => Promise<string | null>

  constructor(home: string | null, limits: AudioLimits, ffmpegVersion: () => Promise<string | null>) {
    this.#lines = home === null ? null : new AppendedLines(join(home, 'batch', 'measured.ndjson'))
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

  async add(recording: MeasuredRecording): Promise<void> {
    const { path, bytes, modifiedMs, sha256, treatment, uploads, warnings, streamKey } = recording
    const line: Line = {
      path,
      bytes,
      modifiedMs,
      sha256,
      treatment,
      uploads: uploads.map((upload) => ({
        bytes: upload.bytes,
        sha256: upload.sha256,
        durationMs: upload.durationMs,
        offsetMs: upload.offsetMs,
      })),
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
