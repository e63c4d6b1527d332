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

/**
 * Renders a transcript in each format. Without words there is running text, and subtitles of it that are spread over the
 * recording.
 */
export function renderTranscript(
  transcript: Transcript,
  formats: readonly OutputFormat[],
  options: SubtitleOptions,
  durationMs: number,
): RenderedTranscript {
  const language = options.language ?? transcript.language
  const write = (words: readonly TranscribedWord[]) =>
    writeCues(words, { ...options, ...(language !== undefined && { language }) })
  const told = transcript.words && write(transcript.words)
  const written = told ?? write(spreadWords(transcript.text, durationMs))
  return {
    texts: formats.map((format) => {
      if (format === 'json') return asJson(transcript, told)
      return format === 'txt' && told === undefined ? `${transcript.text}\n` : render(format, written)
    }),
    violations: (told?.violations ?? []).map(({ rule, cue, why }) => ({ rule, cue, why })),
  }
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
