import type { Transcript } from '../../audio/transcript.ts'
import {
  renderJson,
  renderSrt,
  renderText,
  renderTsv,
  renderVtt,
  type SubtitleOptions,
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

/** Renders a transcript in each format. Without words there is running text, but no subtitles. */
export function renderTranscript(
  transcript: Transcript,
  formats: readonly OutputFormat[],
  options: SubtitleOptions,
): RenderedTranscript {
  const language = options.language ?? transcript.language
  const { words } = transcript
  const written = words && writeCues(words, { ...options, ...(language !== undefined && { language }) })
  return {
    texts: formats.map((format) => render(format, transcript, written)),
    violations: [
      ...(written?.violations ?? []).map(({ rule, cue, why }) => ({ rule, cue, why })),
      ...(formats.some((format) => HOURS.includes(format)) ? lateCues(written) : []),
    ],
  }
}

/** Returns the first cue whose times some readers drop. Times cannot be written otherwise, nor files be split. */
function lateCues(written: WrittenCues | undefined): SubtitleFinding[] {
  const cue = written?.cues.findIndex(({ endMs }) => endMs >= LATEST_MS) ?? -1
  const why = 'it and all after it are later than 99:59:59, and some players do not show them'
  return cue === -1 ? [] : [{ rule: 'late', cue, why }]
}

function render(format: OutputFormat, transcript: Transcript, written: WrittenCues | undefined): string {
  if (format === 'json') return asJson(transcript, written)
  if (written === undefined) return `${transcript.text}\n`
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
