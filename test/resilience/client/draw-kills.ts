import { createRandom } from '../calls/random.ts'

/** A moment at which the command is killed: in terms of its progress, so that a seed means the same on any machine. */
export interface Kill {
  /** The number of finished transcripts that is waited for; a kill without it comes soon after the start. */
  readonly afterFinished: number | null
  /** How long the command runs on after that, or after its start. */
  readonly delayMs: number
}

/** A moment at which a process of the service is killed. */
export interface ServiceKill {
  readonly afterFinished: number
  readonly delayMs: number
  readonly part: 'api' | 'worker'
}

/** This share of the kills comes while the command reads, plans and asks for prices. */
const EARLY_SHARE = 0.2
const LONGEST_START_MS = 2500
const LONGEST_DELAY_MS = 400
/** Later, a run could end before its kill. */
const LATEST_SHARE = 0.9

/** Draws the moments of a campaign, in the order in which they come. */
export function drawKills(seed: number, kills: number, clips: number): readonly Kill[] {
  const random = createRandom(seed)
  const drawn = Array.from({ length: kills }, () => ({
    isEarly: random() < EARLY_SHARE,
    afterFinished: Math.floor(random() * clips * LATEST_SHARE),
    share: random(),
  })).sort((a, b) => a.afterFinished - b.afterFinished)
  return drawn.map(({ isEarly, afterFinished, share }) =>
    isEarly
      ? { afterFinished: null, delayMs: Math.round(share * LONGEST_START_MS) }
      : { afterFinished, delayMs: Math.round(share * LONGEST_DELAY_MS) },
  )
}

/** Draws when API and worker are killed, in the order in which it happens. */
export function drawServiceKills(seed: number, kills: number, clips: number): readonly ServiceKill[] {
  // Apart from the kills of the command, which are the same in every variant.
  const random = createRandom(~seed)
  return Array.from({ length: kills }, (_, index) => ({
    afterFinished: Math.floor(random() * clips * LATEST_SHARE),
    delayMs: Math.round(random() * LONGEST_DELAY_MS),
    part: index % 2 === 0 ? ('worker' as const) : ('api' as const),
  })).sort((a, b) => a.afterFinished - b.afterFinished)
}
