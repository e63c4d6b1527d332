import { join } from 'node:path'
import type { Span } from '../../audio/pack/prepare-packs.ts'
import type { MeasuredUpload } from '../plan/plan-cache.ts'
import { AppendedLines } from './appended-lines.ts'
import { type FileStamp, isSameStamp } from './file-state.ts'

/** A pack that was sent, or was about to be. */
export interface BegunPack {
  /** Digest of the fields of the call. */
  readonly request: string
  readonly clips: readonly FileStamp[]
  readonly upload: MeasuredUpload
  readonly spans: readonly Span[]
}

/**
 * Remembers packs before they are paid for: a later run with other clips must send an unfinished pack as it was, since
 * another one would be paid again.
 */
export class BegunPacks {
  readonly #lines: AppendedLines | null

  constructor(home: string | null) {
    this.#lines = home === null ? null : new AppendedLines(join(home, 'batch', 'packs.ndjson'))
  }

  /** Returns the latest packs whose clips are all among these files and unchanged; no clip is in two of them. */
  among(stamps: ReadonlyMap<string, FileStamp>, request: string): BegunPack[] {
    const used = new Set<string>()
    const packs = (this.#lines?.read() ?? []) as Partial<BegunPack>[]
    return packs.toReversed().filter((pack): pack is BegunPack => {
      const { clips = [] } = pack
      const isPresent = clips.every((clip) => {
        const stamp = stamps.get(clip.path)
        return stamp !== undefined && isSameStamp(stamp, clip) && !used.has(clip.path)
      })
      if (!isPresent || clips.length === 0 || pack.request !== request) return false
      for (const { path } of clips) used.add(path)
      return true
    })
  }

  add(pack: BegunPack): void {
    this.#lines?.append(pack)
  }
}
