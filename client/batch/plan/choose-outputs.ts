import { dirname, extname, join, resolve } from 'node:path'
import type { BatchOptions, Source } from '../types.ts'

/** Where the transcripts of a file are written. */
export interface ChosenOutputs {
  readonly outputs: readonly string[]
  readonly receipt: string | undefined
}

interface OutputContext {
  readonly options: Pick<BatchOptions, 'formats' | 'output' | 'receipts'>
  /** Returns the other existing source whose transcript an earlier run wrote to this path. */
  readonly ownerOf: (output: string, source: string) => string | undefined
  /** Returns whether the latest transcript that an earlier run wrote to this path is that of the source. */
  readonly isOwn: (output: string, source: string) => boolean
  /** Milliseconds of the source's modification. */
  readonly modifiedMsOf: (source: Source) => number
}

const IGNORES_CASE = process.platform === 'darwin' || process.platform === 'win32'

/**
 * Chooses a name for each source's transcripts, so that none overwrites a source or the transcript of another source.
 * The first of several sources with one name gets it; the others keep their ending in it (`a.wav.srt`), also when the
 * first one is removed later: its transcript stays.
 */
export function chooseOutputs(sources: readonly Source[], context: OutputContext): ChosenOutputs[] {
  const { options, ownerOf, isOwn } = context
  const taken = new Set(sources.map(({ path }) => folded(path)))
  return sources.map((source) => {
    if (options.output.print !== undefined) return { outputs: [], receipt: undefined }
    const stem = stemOf(source, context)
    const full = `${stem}${extname(source.name)}`
    const outputsAt = (chosen: string) => options.formats.map((format) => `${chosen}.${format}`)
    const receiptAt = (chosen: string) => (options.receipts ? `${chosen}.receipt.json` : undefined)
    const isFree = (chosen: string) =>
      [...outputsAt(chosen), `${chosen}.receipt.json`].every(
        (path) => !taken.has(folded(path)) && ownerOf(path, source.path) === undefined,
      )
    const isWritten = (chosen: string) => outputsAt(chosen).some((path) => isOwn(path, source.path))
    const keepsEnding = !isFree(stem) || (!isWritten(stem) && isWritten(full))
    let chosen = keepsEnding ? full : stem
    for (let number = 2; !isFree(chosen); number += 1) chosen = `${full}-${number}`
    const outputs = outputsAt(chosen)
    for (const path of [...outputs, `${chosen}.receipt.json`]) taken.add(folded(path))
    return { outputs, receipt: receiptAt(chosen) }
  })
}

function stemOf(source: Source, { options: { output }, modifiedMsOf }: OutputContext): string {
  const { name } = source
  const extension = extname(name)
  const folder = dirname(name)
  const own = name.slice(folder === '.' ? 0 : folder.length + 1)
  const named = own.slice(0, own.length - extension.length)
  // Of `...mp3` two dots would remain, which name another folder.
  const stem = /^\.*$/.test(named) ? own : named
  const base = output.folder ?? (source.isTemporary === true ? '.' : dirname(source.path))
  if (output.template === undefined) return resolve(base, output.folder === undefined ? '.' : folder, stem)
  const values: Readonly<Record<string, () => string>> = {
    name: () => stem,
    ext: () => extension.slice(1),
    folder: () => (folder === '.' ? '' : folder),
    date: () => new Date(modifiedMsOf(source)).toISOString().slice(0, 10),
  }
  const rendered = output.template.replace(/\{(\w+)\}/g, (_, placeholder: string) => values[placeholder]?.() ?? '')
  // A template that names a folder only would leave the ending as the name, outside of that folder.
  return resolve(join(base, /(^|\/)$/.test(rendered) ? join(rendered, stem) : rendered))
}

function folded(path: string): string {
  return IGNORES_CASE ? path.toLowerCase() : path
}
