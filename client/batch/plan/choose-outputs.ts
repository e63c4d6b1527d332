import { dirname, extname, join, resolve } from 'node:path'
import type { BatchOptions, OccupiedOutput, Source } from '../types.ts'

/** Where the transcripts of a file are written. */
export interface ChosenOutputs {
  readonly outputs: readonly string[]
  readonly receipt: string | undefined
  /** Files that have names which would come before these. */
  readonly kept: readonly OccupiedOutput[]
  /** Files that have these names, with `force`. */
  readonly overwritten: readonly OccupiedOutput[]
  /** The names that come before these; missing if none do. */
  readonly preferred?: Names
}

interface Names {
  readonly outputs: readonly string[]
  readonly receipt?: string
}

export interface OutputContext {
  readonly options: Pick<BatchOptions, 'formats' | 'output' | 'receipts' | 'force' | 'again'>
  /** Returns the other existing source whose transcript an earlier run wrote to this path. */
  readonly ownerOf: (output: string, source: string) => string | undefined
  /** Returns whether the latest transcript that an earlier run wrote to this path is that of the source. */
  readonly isOwn: (output: string, source: string) => boolean
  /** Returns what is at a path, unless nothing is, or what an earlier run wrote. */
  readonly occupied: (output: string) => OccupiedOutput | undefined
  /** Returns whether an earlier run wrote all these for the source as it is, and they exist. */
  readonly isFinished: (outputs: readonly string[], source: Source) => boolean
  /** Returns whether the source needs a name; all do by default. */
  readonly isNamed?: (source: Source) => boolean
  /** Milliseconds of the source's modification. */
  readonly modifiedMsOf: (source: Source) => number
}

const IGNORES_CASE = process.platform === 'darwin' || process.platform === 'win32'

/**
 * Chooses a name for each source's transcripts, so that none overwrites a source, the transcript of another source, or a
 * file that is not as an earlier run wrote it. The first of several sources with one name gets it; the others keep their
 * ending in it (`a.wav.srt`), also when the first one is removed later: its transcript stays.
 */
export function chooseOutputs(sources: readonly Source[], context: OutputContext): ChosenOutputs[] {
  const taken = new Set(sources.map(({ path }) => folded(path)))
  const firstNumbers = new Map<string, number>()
  return sources.map((source) => {
    if (context.options.output.print !== undefined || context.isNamed?.(source) === false)
      return { outputs: [], receipt: undefined, kept: [], overwritten: [] }
    const chosen = chooseOne(source, context, { taken, firstNumbers })
    for (const path of [...chosen.outputs, receiptNextTo(chosen.outputs[0] ?? '', context)]) taken.add(folded(path))
    return chosen
  })
}

/** What the sources before have got. */
interface Given {
  readonly taken: ReadonlySet<string>
  /** For a name, a number below which all are taken: of thousands of sources with one name, none tries each of them. */
  readonly firstNumbers: Map<string, number>
}

function chooseOne(source: Source, context: OutputContext, { taken, firstNumbers }: Given): ChosenOutputs {
  const { options, ownerOf, isOwn, occupied, isFinished } = context
  const stem = stemOf(source, context)
  const full = `${stem}${extname(source.name)}`
  const namesAt = (chosen: string): Names => ({
    outputs: options.formats.map((format) => `${chosen}.${format}`),
    ...(options.receipts && { receipt: `${chosen}.receipt.json` }),
  })
  const numbered = (number: number) => (number === 0 ? stem : number === 1 ? full : `${full}-${number}`)
  const filesAt = (chosen: string) => [...namesAt(chosen).outputs, `${chosen}.receipt.json`]
  const isTaken = (path: string) => taken.has(folded(path))
  const isForOthers = (chosen: string) =>
    filesAt(chosen).some((path) => isTaken(path) || ownerOf(path, source.path) !== undefined)
  const firstNumber = () => {
    let number = firstNumbers.get(full) ?? 1
    while (filesAt(numbered(number)).some(isTaken)) number += 1
    firstNumbers.set(full, number)
    return number
  }
  const isWritten = (chosen: string) => namesAt(chosen).outputs.some((path) => isOwn(path, source.path))
  const beginsFull = !isWritten(stem) && isWritten(full)
  const kept: OccupiedOutput[] = []
  let preferred: Names | undefined
  for (let number = beginsFull ? firstNumber() : 0; ; number = number === 0 ? firstNumber() : number + 1) {
    const chosen = numbered(number)
    if (isForOthers(chosen)) continue
    const names = namesAt(chosen)
    const isDone = !options.again && isFinished(pathsOf(names), source)
    const found = isDone ? [] : pathsOf(names).flatMap((path) => occupied(path) ?? [])
    if (found.length > 0 && options.force !== true) {
      kept.push(...found)
      preferred ??= names
      continue
    }
    const { outputs, receipt } = names
    return { outputs, receipt, kept, overwritten: found, ...(kept.length > 0 && preferred && { preferred }) }
  }
}

/** Returns all files that are written under these names. */
export function pathsOf({ outputs, receipt }: { outputs: readonly string[]; receipt?: string | undefined }) {
  return receipt === undefined ? outputs : [...outputs, receipt]
}

function receiptNextTo(output: string, { options }: OutputContext): string {
  const [format = ''] = options.formats
  return `${output.slice(0, output.length - format.length)}receipt.json`
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
