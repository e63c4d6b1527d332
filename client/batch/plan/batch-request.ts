import { hash } from 'node:crypto'
import { DEFAULT_TRANSCRIPTION_MODEL, type TranscriptionOptions } from '../../payment/operations.ts'
import { rulesOf } from '../../subtitles/subtitles.ts'
import { type FareboxError, uncharged } from '../../wire/farebox-error.ts'
import { canonicalJson } from '../../wire/json.ts'
import type { BatchOptions, BatchRequest } from '../types.ts'

type EffectiveFields = TranscriptionOptions & { readonly model: string }

/** Speakers and sounds are asked for where they are offered: the price is by the hour, whatever is asked for. */
const DEFAULTS = {
  model: DEFAULT_TRANSCRIPTION_MODEL,
  timestamps: 'word',
  diarize: true,
  tag_audio_events: true,
} as const satisfies BatchRequest

/** What earlier versions sent for the same options: they asked for neither speakers nor sounds. */
const FORMER_DEFAULTS = { model: DEFAULT_TRANSCRIPTION_MODEL, timestamps: 'word' } as const

/** ISO 639-3 codes of languages that have one in ISO 639-1 (iso639-3.sil.org); the vendors’ languages are among them. */
const SHORT_CODES = new Map(
  `afr af amh am ara ar asm as aze az bak ba bel be ben bn bod bo bos bs bre br bul bg cat ca ces cs cym cy dan da deu de
  ell el eng en epo eo est et eus eu fao fo fas fa fin fi fra fr ful ff gle ga glg gl guj gu hat ht hau ha heb he hin hi
  hrv hr hun hu hye hy ibo ig ind id isl is ita it jav jv jw jv jpn ja kan kn kat ka kaz kk khm km kir ky kor ko kur ku lao lo
  lat la lav lv lin ln lit lt ltz lb lug lg mal ml mar mr mkd mk mlg mg mlt mt mon mn mri mi msa ms mya my nep ne nld nl
  nno nn nob nb nor no nya ny oci oc ori or orm om pan pa pol pl por pt pus ps ron ro rus ru san sa sin si slk sk slv sl
  sna sn snd sd som so spa es sqi sq srp sr sun su swa sw swe sv tam ta tat tt tel te tgk tg tgl tl tha th tuk tk tur tr
  ukr uk urd ur uzb uz vie vi wol wo xho xh yid yi yor yo zho zh zul zu`
    .split(/\s+/)
    .flatMap((code, index, all) => (index % 2 === 0 ? [[code, all[index + 1] ?? code] as const] : [])),
)

type WishedField = 'diarize' | 'tag_audio_events' | 'timestamps'

/** What is asked for by default, and what a batch is made without where no model of the service gives it. */
const WISHES = [
  { field: 'diarize', without: false, name: 'speakers' },
  { field: 'tag_audio_events', without: false, name: 'sounds' },
  { field: 'timestamps', without: 'none', name: 'times of words' },
] as const satisfies readonly { readonly field: WishedField; readonly without: unknown; readonly name: string }[]

type Wish = (typeof WISHES)[number]

/** For each option, the values that the service takes at present; options that are missing are taken to be offered. */
export type OfferedOptions = Readonly<Partial<Record<WishedField, readonly unknown[]>>>

/** What is asked of each recording, with all fields that decide the answer. */
export interface ResolvedRequest {
  readonly fields: EffectiveFields
  /** Digest of the fields: the same call has the same one. */
  readonly callDigest: string
  /** Digest of the fields and of how transcripts are written. */
  readonly renderingDigest: string
  /** What else was recorded for the same options: by earlier versions, and when more or less was offered. */
  readonly formerRenderings: readonly string[]
  /** What it would have asked for, and goes without. */
  readonly without: readonly string[]
}

const NEED_WORDS = new Set(['srt', 'vtt', 'tsv'])

/**
 * Resolves the options of a batch. Throws `FareboxError` for what no file could be transcribed with: `not_offered` where the
 * service does not give what the options demand.
 */
export function resolveRequest(options: BatchOptions, offered: OfferedOptions = {}): ResolvedRequest {
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
  const wanted = effectiveFields(request)
  const missing = WISHES.filter(({ field }) => offered[field]?.includes(wanted[field]) === false)
  const demanded = missing.filter((wish) => isDemanded(wish, options))
  if (demanded.length > 0) throw notOffered(demanded, wanted.model)
  const fields = withoutWishes(wanted, missing)
  const { language } = subtitles
  const rendering = { ...subtitles, ...(language && { language: languageCode(language) }) }
  if (fields.timestamps === 'none' && (options.pack || formats.some((format) => NEED_WORDS.has(format))))
    throw invalid('Subtitles and packs need the times of words.')
  return {
    fields,
    callDigest: digest(fields),
    renderingDigest: digest({ fields, subtitles: rendering }),
    formerRenderings: [
      ...subsetsOf(WISHES.filter((wish) => !isDemanded(wish, options))).map((left) =>
        digest({ fields: withoutWishes(wanted, left), subtitles: rendering }),
      ),
      ...formerFields(request).map((former) => digest({ fields: former, subtitles })),
    ],
    without: missing.map(({ name }) => name),
  }
}

/** What the options name is demanded, and what they cannot do without; the rest is a wish. */
function isDemanded({ field }: Wish, { request, formats, pack }: BatchOptions): boolean {
  if (field === 'timestamps')
    return request.timestamps !== undefined || pack || formats.some((one) => NEED_WORDS.has(one))
  return request[field] !== undefined || (field === 'diarize' && request.num_speakers !== undefined)
}

function withoutWishes(fields: EffectiveFields, wishes: readonly Wish[]): EffectiveFields {
  return { ...fields, ...Object.fromEntries(wishes.map(({ field, without }) => [field, without])) }
}

function subsetsOf<Item>(items: readonly Item[]): readonly (readonly Item[])[] {
  return items.reduce<readonly (readonly Item[])[]>((all, item) => [...all, ...all.map((one) => [...one, item])], [[]])
}

function notOffered(demanded: readonly Wish[], model: string): FareboxError {
  const names = demanded.map(({ name }) => name).join(' and ')
  const isAboutWords = demanded.some(({ field }) => field === 'timestamps')
  const advice = isAboutWords
    ? 'Subtitles and packs need the times of words: choose --format txt or json, or another model or service.'
    : 'Leave the option out, or use another model or service.'
  return uncharged('not_offered', `${model} gives no ${names} at present. Nothing was sent.`, advice)
}

function digest(value: unknown): string {
  return hash('sha256', canonicalJson(value), 'base64url').slice(0, 22)
}

function invalid(problem: string): FareboxError {
  return uncharged('invalid_options', problem, 'Correct the options.')
}

/**
 * Returns all fields that decide the answer, and no others: requests of equal fields are one call, which is paid for once,
 * however they were written. The service keeps `num_speakers` apart without `diarize`, where it has no effect.
 */
function effectiveFields(request: BatchRequest): EffectiveFields {
  const { language, num_speakers: numSpeakers, ...fields } = { ...DEFAULTS, ...withoutUndefined(request) }
  return {
    ...fields,
    ...(language && { language: languageCode(language) }),
    ...(fields.diarize && numSpeakers !== undefined && { num_speakers: numSpeakers }),
  }
}

/** Returns the fields that earlier versions may have sent for the same options: what they finished stays finished. */
function formerFields(request: BatchRequest): readonly object[] {
  const { diarize: _, language, ...typed } = withoutUndefined(request)
  const fields = { ...FORMER_DEFAULTS, ...typed }
  if (!language) return [fields]
  return [...new Set([language, languageCode(language)])].map((each) => ({ ...fields, language: each }))
}

function withoutUndefined(request: BatchRequest): BatchRequest {
  return Object.fromEntries(Object.entries(request).filter(([, value]) => value !== undefined))
}

/**
 * Returns one spelling for the codes of a language, such as `en` for `eng` and `EN`. A table of our own: that of `Intl` is
 * another one in each version of Node, and a call must have the same key on all machines.
 */
export function languageCode(language: string): string {
  const [primary = '', ...subtags] = language.trim().toLowerCase().replaceAll('_', '-').split('-')
  return [SHORT_CODES.get(primary) ?? primary, ...subtags].join('-')
}
