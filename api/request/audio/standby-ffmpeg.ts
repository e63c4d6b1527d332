import { type FfmpegOptions, startFfmpeg, type WaitingFfmpeg } from './ffmpeg-process.ts'
import type { DecodePlan } from './plan-decode.ts'

/** An ffmpeg that has started before its upload is there, since loading its libraries takes longer than decoding a clip. */
export interface StandbyFfmpeg {
  /** Starts one, unless one is waiting. It ends when no upload has needed it for half a minute. */
  readonly start: () => void
  /**
   * Returns the one that is waiting. `undefined` for an upload that is not plain: one with several rates needs an ffmpeg that
   * knows which to write, and one where audio may hide, one that stops by itself.
   */
  readonly take: (plan: DecodePlan) => WaitingFfmpeg | undefined
  /** Starts the next one when the caller of a decoded upload has been answered. */
  readonly replace: () => void
}

/** A stranger's request may start one, and keeps 45 MB in use for this time. */
const IDLE_MS = 30_000

/** Starting a process blocks the event loop for milliseconds, the more the larger this one is; an answer takes ten. */
const UNTIL_ANSWERED_MS = 50

/** Creates the standby, which ends for good when `stopping` is aborted. */
export function createStandbyFfmpeg(options: FfmpegOptions, stopping: AbortSignal): StandbyFfmpeg {
  let waiting: WaitingFfmpeg | undefined
  let idleTimer: NodeJS.Timeout | undefined

  const end = () => {
    clearTimeout(idleTimer)
    waiting?.end()
    waiting = undefined
  }
  const start = () => {
    if (stopping.aborted) return
    clearTimeout(idleTimer)
    idleTimer = setTimeout(end, IDLE_MS).unref()
    if (!waiting?.isWaiting()) waiting = startFfmpeg(options)
  }
  stopping.addEventListener('abort', end, { once: true })

  return {
    start,
    take: ({ isPlain }) => {
      if (!isPlain || !waiting?.isWaiting()) return undefined
      const taken = waiting
      waiting = undefined
      return taken
    },
    replace: () => {
      setTimeout(start, UNTIL_ANSWERED_MS).unref()
    },
  }
}
