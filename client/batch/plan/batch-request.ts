import { createHash } from 'node:crypto'
import { rulesOf } from '../../subtitles/subtitles.ts'
import { canonicalJson } from '../../wire/canonical-json.ts'
import { FareboxError } from '../../wire/farebox-error.ts'
import type { BatchOptions } from '../types.ts'
import { type EffectiveFields, effectiveFields, formerFields, languageCode } from './effective-request.ts'

/** What is asked of each recording, with all fields that decide the answer. */
export interface ResolvedRequest {
  readonly fields: EffectiveFields
  /** Digest of the fields: the same call has the same one. */
  readonly callDigest: string
  /** Digest of the fields and of how transcripts are written. */
  readonly renderingDigest: string
  /** What earlier versions recorded in its place for the same options. */
  readonly formerRenderings: readonly string[]
}

const NEED_WORDS = new Set(['srt', 'vtt', 'tsv'])

/** Resolves the options of a batch. Throws `FareboxError` for what no file could be transcribed with. */
export function resolveRequest(options: BatchOptions): ResolvedRequest {
  const { request, formats, subtitles, concurrency, output } = options
  if (formats.length === 0) throw invalid('No format of transcripts is chosen.')
  if (!Number.isInteger(concurrency) || concurrency < 1) throw invalid('The concurrency must be a whole number from 1.')
  try {
    rulesOf([], subtitles)
  } catch (error) {
    throw invalid(`The options of subtitles cannot be followed: ${(error as Error).message}.`)
  }
  if (/\{(?!(?:name|ext|folder|date)\})/.test(output.template ?? ''))
    throw invalid('The template of names has a placeholder other than {name}, {ext}, {folder} and {date}.')
  const fields = effectiveFields(request)
  const { language } = subtitles
  const rendering = { ...subtitles, ...(language && { language: languageCode(language) }) }
  if (fields.timestamps === 'none' && (options.pack || formats.some((format) => NEED_WORDS.has(format))))
    throw invalid('Subtitles and packs need the times of words.')
  return {
    fields,
    callDigest: digest(fields),
    renderingDigest: digest({ fields, subtitles: rendering }),
    formerRenderings: formerFields(request).map((former) => digest({ fields: former, subtitles })),
  }
}

function digest(value: unknown): string {
  return createHash('sha256').update(canonicalJson(value)).digest('base64url').slice(0, 22)
}

function invalid(problem: string): FareboxError {
  return new FareboxError({ code: 'invalid_options', problem, money: 'none', advice: 'Correct the options.' })
}
