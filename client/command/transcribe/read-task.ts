import { type BatchOptions, OUTPUT_FORMATS, type OutputFormat } from '../../batch/types.ts'
import type { SpeakerMarks, StyleName } from '../../subtitles/rules.ts'
import { UsageError } from '../exit-codes.ts'

/** The options as commander reads them. */
export interface TranscribeOptions {
  readonly dryRun?: boolean
  readonly yes?: boolean
  readonly format?: string
  readonly out?: string
  readonly name?: string
  readonly style?: StyleName
  readonly speakers?: SpeakerMarks
  readonly requireSpeakers?: boolean
  readonly numSpeakers?: number
  readonly events: boolean
  readonly language?: string
  readonly model?: string
  readonly maxLine?: number
  readonly maxLines?: number
  readonly concurrency: number
  readonly pack?: boolean
  readonly receipts?: boolean
  readonly again?: boolean
  readonly force?: boolean
  readonly filesFrom?: string
  readonly patience?: number
  readonly ffmpeg?: string
}

/** What is to be transcribed, and how. */
export interface TranscribeTask {
  readonly paths: readonly string[]
  readonly filesFrom: string | undefined
  readonly isDryRun: boolean
  readonly isConfirmed: boolean
  /** Transcripts go to standard output. */
  readonly isPrinted: boolean
  /** Standard input is a recording or a list of files, so it cannot answer a question. */
  readonly isInputTaken: boolean
  readonly batch: BatchOptions
}

const MS_PER_MINUTE = 60_000

/** Reads arguments and options. Throws `UsageError` for what contradicts itself. */
export function readTask(paths: readonly string[], options: TranscribeOptions, isJson: boolean): TranscribeTask {
  const { filesFrom, out, dryRun = false, yes = false } = options
  const hasAudioInput = paths.includes('-')
  const isPrinted = out === '-' || (hasAudioInput && out === undefined)
  const formats = readFormats(options.format ?? (isPrinted ? 'txt' : 'srt'))
  refuse(paths.length === 0 && filesFrom === undefined, 'Name recordings, folders or globs, or --files-from.')
  refuse(hasAudioInput && filesFrom === '-', 'Standard input is either a recording (-) or a list (--files-from -).')
  refuse(hasAudioInput && paths.length > 1, 'Audio on standard input (-) is transcribed on its own.')
  refuse(
    options.speakers === 'none' && (options.requireSpeakers === true || options.numSpeakers !== undefined),
    '--speakers none asks for no speakers: leave out --require-speakers and --num-speakers.',
  )
  refuse(isPrinted && formats.length > 1, 'Only one --format fits standard output.')
  refuse(isPrinted && isJson, 'Standard output has either transcripts or --json: add --out with a folder.')
  refuse(isPrinted && options.receipts === true, 'Receipts are written next to transcripts: add --out with a folder.')
  return {
    paths,
    filesFrom,
    isDryRun: dryRun,
    isConfirmed: yes,
    isPrinted,
    isInputTaken: hasAudioInput || filesFrom === '-',
    batch: readBatchOptions(options, formats),
  }
}

function readBatchOptions(options: TranscribeOptions, formats: readonly OutputFormat[]): BatchOptions {
  const { out, name, style, speakers, language, maxLine, maxLines, patience, ffmpeg } = options
  return {
    request: readRequest(options),
    formats,
    output: { folder: out === '-' ? undefined : out, template: name },
    subtitles: {
      ...(style && { style }),
      ...(speakers && { speakers }),
      ...(language && { language }),
      ...(maxLine && { maximumLine: maxLine }),
      ...(maxLines && { maximumLines: maxLines }),
    },
    receipts: options.receipts ?? false,
    concurrency: options.concurrency,
    pack: options.pack ?? false,
    again: options.again ?? false,
    force: options.force ?? false,
    ffmpegPath: ffmpeg || undefined,
    patienceMs: patience === undefined ? undefined : patience * MS_PER_MINUTE,
  }
}

/** What is left out is asked for where it is offered; what is named is demanded. */
function readRequest(options: TranscribeOptions): BatchOptions['request'] {
  const { language, model, numSpeakers, requireSpeakers, speakers, events } = options
  const marks = speakers !== undefined && speakers !== 'none'
  return {
    ...(language && { language }),
    // The service knows which models there are.
    ...(model && { model: model as NonNullable<BatchOptions['request']['model']> }),
    ...(numSpeakers && { num_speakers: numSpeakers }),
    ...((requireSpeakers === true || marks) && { diarize: true }),
    ...(speakers === 'none' && { diarize: false }),
    ...(!events && { tag_audio_events: false }),
  }
}

function readFormats(list: string): readonly OutputFormat[] {
  const names = [...new Set(list.split(',').map((name) => name.trim().toLowerCase()))]
  const unknown = names.filter((name) => !OUTPUT_FORMATS.some((format) => format === name))
  refuse(unknown.length > 0, `Unknown --format ${unknown.join(', ')}. There are ${OUTPUT_FORMATS.join(', ')}.`)
  return names as OutputFormat[]
}

function refuse(isWrong: boolean, problem: string): void {
  if (isWrong) throw new UsageError(problem)
}
