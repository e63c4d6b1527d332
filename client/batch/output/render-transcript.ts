import type { Transcript } from '../../audio/transcript.ts'
import {
  renderJson,
  renderSrt,
  renderText,
  renderTsv,
  renderVtt,
  type SubtitleOptions,
  type TranscribedWord,
  type WrittenCues,
  writeCues,
} from '../../subtitles/subtitles.ts'
import type { OutputFormat, SubtitleFinding } from '../types.ts'

export interface RenderedTranscript {
  /** In the order of the formats. */
  readonly texts: readonly string[]
  readonly violations: readonly SubtitleFinding[]
}

/** SubRip has two digits for hours, and many readers know no more in WebVTT, too. */
const LATEST_MS = 100 * 3_600_000
const HOURS: readonly OutputFormat[] = ['srt', 'vtt']

/**
 * Renders a transcript in each format. Without words there is running text, and subtitles of it that are spread over the
 * recording.
 */
export function renderTranscript(
  transcript: Transcript,
  formats: readonly OutputFormat[],
  options: SubtitleOptions & { readonly durationMs: number },
): RenderedTranscript {
  const language = options.language ?? transcript.language
  const write = (words: readonly TranscribedWord[]) =>
    writeCues(words, { ...options, ...(language !== undefined && { language }) })
  const told = transcript.words && write(transcript.words)
  const written = told ?? write(spreadWords(transcript.text, options.durationMs))
  return {
    texts: formats.map((format) => {
      if (format === 'json') return asJson(transcript, told)
      return format === 'txt' && told === undefined ? `${transcript.text}\n` : render(format, written)
    }),
    violations: [
      ...(told?.violations ?? []).map(({ rule, cue, why }) => ({ rule, cue, why })),
      ...(formats.some((format) => HOURS.includes(format)) ? lateCues(written) : []),
    ],
  }
}

/** Returns the first cue whose times some readers drop. Times cannot be written otherwise, nor files be split. */
function lateCues(written: WrittenCues): SubtitleFinding[] {
  const cue = written.cues.findIndex(({ endMs }) => endMs >= LATEST_MS)
  const why = 'it and all after it are later than 99:59:59, and some players do not show them'
  return cue === -1 ? [] : [{ rule: 'late', cue, why }]
}

/** Returns the words of a text, each with the share of the recording that it has of the text. */
function spreadWords(text: string, durationMs: number): TranscribedWord[] {
  const words = text.split(/\s+/u).filter((word) => word !== '')
  const length = words.reduce((sum, word) => sum + word.length, 0)
  let before = 0
  const next = (letters: number) => ((before += letters) / length) * (durationMs / 1000)
  return words.map((word) => ({ word, start: next(0), end: next(word.length) }))
}

function render(format: Exclude<OutputFormat, 'json'>, written: WrittenCues): string {
  switch (format) {
    case 'txt':
      return renderText(written.cues)
    case 'srt':
      return renderSrt(written.cues)
    case 'vtt':
      return renderVtt(written.cues)
    case 'tsv':
      return renderTsv(written.cues)
  }
}

/** The transcript as the service returns it, with the subtitles that it becomes. */
function asJson(transcript: Transcript, written: WrittenCues | undefined): string {
  const subtitles = written && (JSON.parse(renderJson(written)) as object)
  return `${JSON.stringify({ ...transcript, ...subtitles }, null, 2)}\n`
}
