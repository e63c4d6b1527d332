import type { StoppedBy } from '../../batch/types.ts'
import { columnsOf, graphemesOf } from '../../subtitles/width.ts'
import { inAscii, printable, type Terminal } from '../output/terminal.ts'
import { count, duration, hours, speed, usdc } from './amounts.ts'
import { type BatchView, type FileUnderWay, remainingMs, shareDone } from './batch-view.ts'

type Screen = Pick<Terminal, 'unicode' | 'paint' | 'columns' | 'rows'>

interface Moment {
  readonly now: number
  /** What the tightest budget has left; `null` without one. */
  readonly left: bigint | null
}

const FRAMES = { unicode: '⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏', ascii: '|/-\\' } as const
const FRAME_MS = 100
const SEPARATOR = '   '
/** Lines that are not files, at most: figures in three lines, the bar, what is left out, the cursor. */
const OTHER_LINES = 6
const MOST_FILES = 12
const WIDEST_BAR = 60
const FILE_MARGIN = '  '
const NARROWEST = 20

/** Renders the live table: figures, a bar, and the files under way. No line is wider than the terminal. */
export function renderTable(view: BatchView, { now, left }: Moment, screen: Screen): string {
  const width = Math.max(screen.columns() - 1, NARROWEST)
  const figures = figuresOf(view, now, left).map((figure) => shown(figure, screen))
  return [...wrap(figures, width), bar(view, width, screen), ...filesUnderWay(view, now, width, screen)].join('\n')
}

function figuresOf(view: BatchView, now: number, left: bigint | null): string[] {
  const { totals, progress, startedAt, stoppedBy } = view
  const remaining = remainingMs(view, now)
  return [
    `${count(progress.finished)}/${count(totals.toDo + totals.duplicates)} files`,
    ...(progress.failed > 0 ? [`${count(progress.failed)} failed`] : []),
    `${hours(progress.durationMs)} of ${hours(totals.durationMs)}`,
    speed(progress.durationMs, now - startedAt),
    `charged ${usdc(progress.charged)}`,
    ...(left === null ? [] : [`left ${usdc(left)}`]),
    ...(stoppedBy === undefined
      ? [`ETA ${remaining === undefined ? '–' : duration(remaining)}`]
      : [STOPPING[stoppedBy]]),
  ]
}

const STOPPING: Readonly<Record<StoppedBy, string>> = {
  budget: 'no room in the budget, finishing',
  funds: 'no funds, finishing',
  interrupt: 'finishing (Ctrl-C leaves)',
  service: 'service away, finishing',
  local: 'stopped, finishing',
}

function bar(view: BatchView, width: number, { unicode, paint }: Screen): string {
  const columns = Math.min(width, WIDEST_BAR)
  const done = Math.floor(columns * shareDone(view))
  const [full, empty] = unicode ? ['━', '─'] : ['#', '.']
  return paint('green', full.repeat(done)) + paint('gray', empty.repeat(columns - done))
}

function filesUnderWay(view: BatchView, now: number, width: number, screen: Screen): string[] {
  const room = Math.max(Math.min(screen.rows() - OTHER_LINES, MOST_FILES), 1)
  const files = [...view.underWay.values()]
  const lines = files.slice(0, room).map((file) => fileLine(file, now, width, screen))
  const more = files.length - lines.length
  return more > 0 ? [...lines, shorten(shown(`${FILE_MARGIN}and ${count(more)} more`, screen), width)] : lines
}

function fileLine(file: FileUnderWay, now: number, width: number, screen: Screen): string {
  const frames = screen.unicode ? FRAMES.unicode : FRAMES.ascii
  const frame = frames[Math.floor(now / FRAME_MS) % frames.length] ?? ''
  const state = shown(stateOf(file, now), screen)
  const room = width - FILE_MARGIN.length - 2
  const label = shown(printable(file.label), screen)
  const labelRoom = Math.max(room - columnsOf(state) - SEPARATOR.length, 1)
  // A long state may leave no room for the name: the line as a whole has to fit.
  const name = shorten(label, labelRoom)
  const padding = ' '.repeat(Math.max(labelRoom - columnsOf(name), 0))
  const line = shorten(name + padding + SEPARATOR + state, room)
  return `${FILE_MARGIN}${screen.paint(file.waiting ? 'yellow' : 'cyan', frame)} ${line}`
}

function stateOf(file: FileUnderWay, now: number): string {
  const parts = file.parts > 1 ? `part ${file.partsDone}/${file.parts} · ` : ''
  if (file.waiting === undefined) return `${parts}${duration(file.durationMs)} · ${duration(now - file.startedAt)}`
  const { silentSince } = file.waiting
  if (silentSince !== undefined) return `${parts}no answer for ${duration(now - silentSince)}`
  return `${parts}${file.waiting.reason}, again in ${duration(Math.max(file.waiting.until - now, 0))}`
}

/** Puts as many figures on a line as fit. */
function wrap(figures: readonly string[], width: number): string[] {
  const lines: string[] = []
  for (const figure of figures) {
    const last = lines.at(-1)
    const longer = last === undefined ? figure : last + SEPARATOR + figure
    if (last !== undefined && columnsOf(longer) <= width) lines[lines.length - 1] = longer
    else lines.push(shorten(figure, width))
  }
  return lines
}

/** Removes the beginning of what is too long, as the end of a path says more. */
function shorten(text: string, width: number): string {
  if (columnsOf(text) <= width) return text
  let columns = 1
  let kept = ''
  for (const grapheme of graphemesOf(text).toReversed()) {
    columns += grapheme.columns
    if (columns > width) break
    kept = grapheme.text + kept
  }
  return `~${kept}`
}

function shown(text: string, { unicode }: Screen): string {
  return unicode ? text : inAscii(text)
}
